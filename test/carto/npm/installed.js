/* installed.js - what npm would install, beside the graph of picks
 *
 * usage: node installed.js RESULT LOCK-GRAPH ROOT
 *
 * Both are walked from ROOT ("name@version") together. Of every package that both have, each dependency must lead to the same version;
 * peers are not followed, as npm does with --legacy-peer-deps. There is one rule that makes them differ: npm takes a version that it has placed already when that satisfies, where the graph of
 * picks has the best one. Then npm's version must satisfy the requirement, must not be later than the pick, and must be there for
 * another dependency, too; what is below it is not compared. Prints how many dependencies were the same, and how many were reused.
 */
'use strict'
const fs = require('fs')
const semver = require('semver')

const [resultFile, graphFile, root] = process.argv.slice(2)
const result = JSON.parse(fs.readFileSync(resultFile, 'utf8'))
const graph = JSON.parse(fs.readFileSync(graphFile, 'utf8'))
const split = id => { const at = id.lastIndexOf('@'); return at > 0 ? [id.slice(0, at), id.slice(at + 1)] : [id, ''] }

const names = new Map(result.nodes.map(node => [node.id, node.version ? `${node.name}@${node.version}` : node.name]))
const ours = new Map()
for (const e of result.edges) {
  const from = names.get(e.from)
  if (!ours.has(from)) ours.set(from, [])
  ours.get(from).push({ to: names.get(e.to), requirement: e.requirement.replace(/^.*@npm:(.[^@]*)@/, ''), kind: e.kind })
}
const theirs = new Map()
const asked = new Map() // how many dependencies lead to a version
for (const [from, to, kind] of graph.edges.map(text => JSON.parse(text))) {
  if (kind === 'peer') continue
  if (!theirs.has(from)) theirs.set(from, [])
  theirs.get(from).push(to)
  asked.set(to, (asked.get(to) || 0) + 1)
}

const wrong = []
let same = 0
let reused = 0
const seen = new Set([root])
const queue = [root]
while (queue.length > 0) {
  const id = queue.shift()
  const rest = new Set(theirs.get(id) || [])
  for (const edge of ours.get(id) || []) {
    const [name, version] = split(edge.to)
    if (rest.delete(edge.to)) {
      same++
      if (!seen.has(edge.to)) { seen.add(edge.to); queue.push(edge.to) }
      continue
    }
    const other = [...rest].find(to => split(to)[0] === name)
    if (!other) {
      if (edge.kind !== 'optional') wrong.push(`${id} -> ${edge.to}: npm has nothing`)
      continue
    }
    rest.delete(other)
    const taken = split(other)[1]
    const fits = semver.satisfies(taken, edge.requirement) && asked.get(other) > 1 && !semver.gt(taken, version)
    if (fits) reused++
    else wrong.push(`${id} -> ${edge.to}: npm has ${other} for ${edge.requirement}`)
  }
  for (const to of rest) wrong.push(`${id} -> ${to}: quipu has nothing`)
}
console.log(wrong.slice(0, 20).join('\n'))
console.log(`${seen.size} packages, ${same} dependencies the same, ${reused} reused`)
process.exit(wrong.length > 0 ? 1 : 0)

/* compare.js - a result of quipu beside the graph of an oracle, as {nodes, edges}
 *
 * usage: node compare.js RESULT GRAPH [KINDS]
 *
 * A node is "name@version"; one that could not be had is "name". An edge is [from, to, kind]; KINDS "any" compares edges without their kinds.
 * Prints the first differences; exit code 1: there are some.
 */
'use strict'
const fs = require('fs')

const [resultFile, graphFile, kinds] = process.argv.slice(2)
const result = JSON.parse(fs.readFileSync(resultFile, 'utf8'))
const graph = JSON.parse(fs.readFileSync(graphFile, 'utf8'))

const name = node => (node.version ? `${node.name}@${node.version}` : node.name)
const names = new Map(result.nodes.map(node => [node.id, name(node)]))
const edge = (from, to, kind) => JSON.stringify(kinds === 'any' ? [from, to] : [from, to, kind])

function differences(what, ours, theirs) {
  const lines = []
  for (const one of ours) if (!theirs.has(one)) lines.push(`${what} of quipu alone: ${one}`)
  for (const one of theirs) if (!ours.has(one)) lines.push(`${what} of npm alone: ${one}`)
  return lines
}

const lines = [
  ...differences('node', new Set(names.values()), new Set(graph.nodes)),
  ...differences('edge', new Set(result.edges.map(e => edge(names.get(e.from), names.get(e.to), e.kind))),
    new Set(graph.edges.map(text => edge(...JSON.parse(text)))))
]
console.log(lines.slice(0, 20).join('\n'))
console.log(`${result.nodes.length} nodes, ${result.edges.length} edges`)
process.exit(lines.length > 0 ? 1 : 0)

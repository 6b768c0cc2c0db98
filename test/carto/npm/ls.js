/* ls.js - the graph of `npm ls --all --package-lock-only --json`, for compare.js
 *
 * usage: node ls.js LOCK < npm-ls.json > graph
 *
 * npm prints what is below a package once and leaves it out elsewhere, so the pairs of a package and what is below it are put
 * together. What it calls missing, a peer that the lock has not, has no version; what is
 * optional and not there has nothing. An alias stands there with its local name; which
 * package it is says the lock.
 */
'use strict'
const fs = require('fs')

const tree = JSON.parse(fs.readFileSync(0, 'utf8'))
const nodes = new Set()
const edges = new Set()

const lock = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'))
const aliases = new Map(Object.entries(lock.packages)
  .filter(([path, entry]) => path !== '' && entry.name && !path.endsWith('/' + entry.name))
  .map(([path, entry]) => [path.replace(/^.*node_modules\//, '') + '@' + entry.version, entry.name]))
const realName = (local, node) => aliases.get(`${local}@${node.version}`) || local

/* The names of what a package wants beside it: a peer is a relationship of its own kind. */
const peers = new Map(Object.entries(lock.packages).filter(([path]) => path !== '').map(([path, entry]) =>
  [`${entry.name || path.replace(/^.*node_modules\//, '')}@${entry.version}`, entry]))
const isPeer = (id, local) => {
  const entry = peers.get(id)
  return Boolean(entry && (entry.peerDependencies || {})[local] && !(entry.dependencies || {})[local] &&
    !(entry.optionalDependencies || {})[local])
}

function visit(id, node) {
  nodes.add(id)
  for (const [local, child] of Object.entries(node.dependencies || {})) {
    if (!child.version && !child.missing) continue
    const childId = child.version ? `${realName(local, child)}@${child.version}` : local
    edges.add(JSON.stringify([id, childId, isPeer(id, local) ? 'peer' : 'depends']))
    visit(childId, child)
  }
}

visit(`${tree.name}@${tree.version}`, tree)
console.log(JSON.stringify({ nodes: [...nodes].sort(), edges: [...edges].sort() }))

/* pick.js - the graph that npm's own picker gives, over packuments that are saved on the way
 *
 * usage: node pick.js DIR BEFORE ROOT > graph
 *
 * DIR has NAME.json and @SCOPE/NAME.json; what is missing is fetched from the registry that the npm client is configured for, and saved
 * with what a traversal reads and nothing else: no host, no address, no engines. The graph is {nodes, edges} as compare.js
 * compares it: each version that npm-pick-manifest picks is a node, and what it depends on, optionally or not, an edge.
 */
'use strict'
const fs = require('fs')
const path = require('path')
const pickManifest = require('npm-pick-manifest')
const npa = require('npm-package-arg')
const pacote = require('pacote')

const [dir, before, rootSpec] = process.argv.slice(2)
const registry = process.env.ORACLE_REGISTRY
const kept = ['dependencies', 'optionalDependencies', 'devDependencies', 'peerDependencies', 'peerDependenciesMeta', 'deprecated']

function reduce(packument) {
  const versions = {}
  for (const [version, manifest] of Object.entries(packument.versions)) {
    versions[version] = { name: packument.name, version }
    for (const member of kept) {
      if (manifest[member] !== undefined) versions[version][member] = manifest[member]
    }
  }
  return { name: packument.name, 'dist-tags': packument['dist-tags'], time: packument.time, versions }
}

async function fetchOne(name, file) {
  const packument = await pacote.packument(name, { registry, fullMetadata: true, cache: path.join(dir, '..', 'cache') })
  fs.mkdirSync(path.dirname(file), { recursive: true })
  fs.writeFileSync(file + '.part', JSON.stringify(reduce(packument)))
  fs.renameSync(file + '.part', file)
}

const loading = new Map()
const loaded = new Map()

/* Several at once; a package that the registry does not have is null. */
function load(name) {
  if (!loading.has(name)) {
    const file = path.join(dir, name + '.json')
    loading.set(name, (async () => {
      try {
        if (!fs.existsSync(file)) await fetchOne(name, file)
        loaded.set(name, JSON.parse(fs.readFileSync(file, 'utf8')))
      } catch (error) {
        if (error.code !== 'E404') throw error
        loaded.set(name, null)
      }
    })())
  }
  return loading.get(name)
}

/* [local name, spec, kind], as npm puts the maps together: an optional dependency is in both. */
function relations(manifest) {
  const optional = manifest.optionalDependencies || {}
  const list = Object.entries(optional).map(([name, spec]) => [name, spec, 'optional'])
  for (const [name, spec] of Object.entries(manifest.dependencies || {})) {
    if (!(name in optional)) list.push([name, spec, 'depends'])
  }
  return list
}

/* What a dependency is of the registry: its package and spec; null: it is of somewhere else. */
function target(local, spec) {
  let arg
  try {
    arg = npa.resolve(local, spec)
  } catch {
    return null
  }
  if (arg.type === 'alias') arg = arg.subSpec
  return arg.registry ? arg : null
}

function pick(arg) {
  const packument = loaded.get(arg.name)
  if (!packument) return null
  try {
    return pickManifest(packument, arg.fetchSpec === '' ? '*' : arg.fetchSpec, { before: new Date(before) })
  } catch {
    return null
  }
}

async function main() {
  const nodes = new Set()
  const edges = new Set()
  let level = [[null, ...rootSpec.match(/^(.[^@]*)@?(.*)$/).slice(1)]].map(([from, name, spec]) => ({ from, local: name, spec: spec || '*' }))
  while (level.length > 0) {
    const args = level.map(item => target(item.local, item.spec))
    const names = [...new Set(args.filter(Boolean).map(arg => arg.name))]
    for (let i = 0; i < names.length; i += 16) await Promise.all(names.slice(i, i + 16).map(load))
    const next = []
    level.forEach((item, i) => {
      const manifest = args[i] && pick(args[i])
      const name = args[i] ? args[i].name : item.local
      const id = manifest ? `${name}@${manifest.version}` : name
      if (item.from) edges.add(JSON.stringify([item.from, id, item.kind]))
      if (nodes.has(id)) return
      nodes.add(id)
      for (const [local, spec, kind] of manifest ? relations(manifest) : []) next.push({ from: id, local, spec, kind })
    })
    level = next
  }
  console.log(JSON.stringify({ nodes: [...nodes].sort(), edges: [...edges].sort() }))
}

main().catch(error => {
  console.error(String(error.message).replace(/https?:\/\/\S+/g, 'the registry'))
  process.exit(1)
})

/* registry.js - a registry of npm for tests, on a port that the system chooses
 *
 * usage: node registry.js LOG
 *
 * Prints its address. Each request is a line in LOG: METHOD PATH STATUS. What it answers follows from the name of the package; see
 * `answers`. Packages that are not there are 404.
 */
'use strict'
const fs = require('fs')
const http = require('http')

const log = process.argv[2]
const asked = new Map()
const versions = (name, deps) => ({ '1.0.0': { name, version: '1.0.0', dependencies: deps }, '1.1.0': { name, version: '1.1.0', dependencies: deps } })
const time = { '1.0.0': '2020-01-01T00:00:00.000Z', '1.1.0': '2022-01-01T00:00:00.000Z' }
const packument = (name, deps = {}) => JSON.stringify({ name, 'dist-tags': { latest: '1.1.0' }, time, versions: versions(name, deps) })
const json = { 'content-type': 'application/json' }

const bad = ['absent', 'denied', 'forbidden', 'teapot', 'page', 'text', 'list', 'other', 'away', 'circle', 'lib']

/* [status, headers, body] of the nth request for a package */
const answers = {
  app: () => [200, { ...json, etag: '"app-1"' }, packument('app', { lib: '^1', '@scope/part': '1.0.0' })],
  lib: () => [200, { ...json, etag: '"lib-1"' }, packument('lib')],
  '@scope/part': () => [200, json, packument('@scope/part')],
  needs: () => [200, json, packument('needs', Object.fromEntries(bad.map(name => [name, '1'])))],
  denied: () => [401, json, '{"error":"who are you"}'],
  forbidden: () => [403, json, '{}'],
  busy: n => (n < 3 ? [429, { ...json, 'retry-after': '0' }, '{}'] : [200, json, packument('busy')]),
  broken: n => (n < 3 ? [503, json, '{}'] : [200, json, packument('broken')]),
  teapot: () => [418, json, '{}'],
  page: () => [200, { 'content-type': 'text/html' }, '<!doctype html><h1>Welcome</h1>'],
  text: () => [200, json, 'not JSON'],
  list: () => [200, json, '[]'],
  other: () => [200, json, packument('another')],
  timeless: () => [200, json, JSON.stringify({ name: 'timeless', 'dist-tags': { latest: '1.1.0' }, versions: versions('timeless', {}) })],
  moved: () => [302, { location: '/new/moved' }, ''],
  'new/moved': () => [200, json, packument('moved')],
  away: port => [302, { location: `http://127.0.0.2:${port}/away` }, ''],
  circle: () => [302, { location: '/circle' }, '']
}

const server = http.createServer((request, response) => {
  const name = decodeURIComponent(request.url.slice(1))
  const n = (asked.get(name) || 0) + 1
  asked.set(name, n)
  const answer = answers[name]
  let [status, headers, body] = answer ? answer(name === 'away' ? server.address().port : n) : [404, json, '{}']
  if (status === 200 && headers.etag && request.headers['if-none-match'] === headers.etag) [status, body] = [304, '']
  fs.appendFileSync(log, `${request.method} /${name} ${status}\n`)
  response.writeHead(status, headers)
  response.end(body)
})
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/`))

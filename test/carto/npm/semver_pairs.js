// semver_pairs.js - pairs of texts, and what the npm package `semver` says of them
//
// usage: NODE_PATH=.../node_modules node semver_pairs.js SEED COUNT PAIRS ANSWERS
//
// A pair is a range and a version, with byte 0x1f between. An answer is three marks: is the range one, is the version one
// (with its canonical text), does the range admit it; and how the version compares with the one of the pair before.
'use strict';
const fs = require('fs');
const semver = require('semver');
const [seed, count, pairsFile, answersFile] = process.argv.slice(2);

let state = BigInt(seed) * 2n + 1n;
function random(n) {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
  return Number((state >> 33n) % BigInt(n));
}
const one = (list) => list[random(list.length)];
const number = () => one(['0', '0', '1', '1', '2', '3', '4', '10', '20', '01', '00', '9007199254740991', '9007199254740992'].slice(0, random(20) === 0 ? 13 : 9));
const word = () => one(['alpha', 'beta', 'rc', '0', '1', '2', '10', '01', '-', 'x', 'a-b', 'Z']);
const pre = () => Array.from({ length: 1 + random(3) }, word).join('.');
const tail = () => one(['', '', '', '', '-' + pre(), '-' + pre(), pre(), '+b.1', '-' + pre() + '+b']);
const prefix = () => (random(12) === 0 ? one(['v', '=', 'vv', ' ', 'v ', '= ']) : '');
const version = () => prefix() + number() + '.' + number() + '.' + number() + (random(3) ? '' : tail());
const part = () => (random(4) ? number() : one(['x', 'X', '*', 'x']));
function partial() {
  switch (random(6)) {
    case 0: return prefix() + part();
    case 1: return prefix() + part() + '.' + part();
    case 2: return prefix() + part() + '.' + part() + '.' + part() + tail();
    default: return version();
  }
}
const operator = () => one(['', '', '', '^', '^', '~', '~', '~>', '>', '>=', '<', '<=', '=']) + (random(6) ? '' : ' ');
function alternative() {
  if (random(8) === 0) return partial() + ' - ' + partial();
  if (random(20) === 0) return one(['', '*', 'x', 'latest', 'next', '>', '^', '~', '||', '-', '1.2.3*', '>=1.2.3*', '*.1', '1.x.3', '1.2.10.3', '=>1.0.0', '<0.0.0-0', '>=0.0.0']);
  return Array.from({ length: 1 + random(2) * random(3) }, () => operator() + partial()).join(one([' ', ' ', '  ']));
}
function damage(text) {
  if (random(15) || text.length === 0) return text;
  const at = random(text.length);
  return text.slice(0, at) + one(['', ' ', '.', '-', '+', 'x', '*', '1', '|', '<', '=', '>', '~', '^', '/', 'é']) + text.slice(at + random(2));
}
const range = () => damage(Array.from({ length: 1 + (random(4) === 0 ? 1 + random(2) : 0) }, alternative).join(one(['||', ' || '])));

const loose = { loose: true };
const pairs = [];
const answers = [];
let before = null;
for (let i = 0; i < Number(count); i++) {
  const r = range();
  const v = random(20) ? version() : damage(version());
  const parsed = semver.parse(v, loose);
  const isRange = semver.validRange(r, loose) !== null;
  const order = parsed && before ? semver.compare(parsed, before, loose) : 0;
  pairs.push(r + '\x1f' + v);
  answers.push([isRange ? 'range' : '-', parsed ? parsed.version : '-', semver.satisfies(v, r, loose) ? 'admits' : '-', order].join(' '));
  before = parsed;
}
fs.writeFileSync(pairsFile, pairs.map((line) => line + '\n').join(''));
fs.writeFileSync(answersFile, answers.map((line) => line + '\n').join(''));

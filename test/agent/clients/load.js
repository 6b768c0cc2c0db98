/* load.js - so many instances of the sequential example with one runner of each version of the package, beside each other
 *
 * usage: node load.js PACKAGES DIR COUNT        (PACKAGES/0.4, 0.5 and 0.8 have the packages; environment: QUIPU the program)
 *
 * Each version has an environment of its own, since what its package writes is not what another one reads. Every instance must have
 * completed, and each task have run once.
 */
'use strict';
const assert = require('assert');
const path = require('path');
const { Stage, sleep } = require('./stage');

const [packages, dir, count] = process.argv.slice(2);
const versions = ['0.4', '0.5', '0.8'];
const BESIDE = 16; /* starts that are under way at a time */

async function start(stage, number) {
    let next = 0;
    const one = async () => {
        while (next < number) await stage.ask('start', 'Sequential', `sequential-${stage.version}-${next++}`, {});
    };
    await Promise.all(Array.from({ length: BESIDE }, one));
}

const jobs = async (stage, where) => (await stage.see(`/v1/jobs?limit=1&count=exact&where=${encodeURIComponent(where)}`)).count;

async function main() {
    const stages = versions.map((version) => new Stage({ version, dir: path.resolve(dir), packages: path.join(packages, version), quipu: process.env.QUIPU }));
    const [first, ...others] = stages;
    await first.serve();
    others.forEach((stage) => stage.beside(first));
    await Promise.all(stages.map((stage) => stage.begin()));
    await Promise.all(stages.map((stage) => stage.ask('start', 'Sequential', `warm-${stage.version}`, {})));
    const began = Date.now();
    const shares = stages.map((_, i) => Math.floor((Number(count) + i) / stages.length));
    await Promise.all(stages.map((stage, i) => start(stage, shares[i])));
    const started = Date.now();
    const all = Number(count) + stages.length;
    for (const end = Date.now() + 600000; (await jobs(first, 'status=completed')) < all; await sleep(50)) {
        assert(Date.now() < end, `${all - (await jobs(first, 'status=completed'))} of ${all} instances are stuck`);
    }
    const seconds = (Date.now() - began) / 1000;
    stages.forEach((stage, i) => {
        const tasks = stage.events.filter(({ what }) => what === 'task').map(({ uuid }) => uuid);
        assert.strictEqual(tasks.length, 2 * (shares[i] + 1), `tasks that ran with ${stage.version}`);
        assert.strictEqual(new Set(tasks).size, tasks.length, `tasks that ran twice with ${stage.version}`);
    });
    await Promise.all(others.map((stage) => stage.leave()));
    await first.end();
    const rate = (Number(count) / seconds).toFixed(1);
    console.log(`${count} instances with a runner of each version: started in ${(started - began) / 1000} s, all completed after ${seconds} s, ${rate}/s`);
    console.log('1 passed, 0 failed');
    process.exit(0);
}

main().catch((error) => {
    console.log(`FAILED: load: ${error.stack}`);
    console.log('0 passed, 1 failed');
    process.exit(1);
});

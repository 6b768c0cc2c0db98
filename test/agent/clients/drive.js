/* drive.js - plays the examples with one version of the package: once undisturbed, then while the server is killed
 *
 * usage: node drive.js VERSION PACKAGES DIR KILLS [EXAMPLE,...]       (environment: QUIPU the program, QP_SEED)
 *
 * VERSION is 0.4, 0.5 or 0.8, PACKAGES has its node_modules, KILLS is how often the server is killed for each example; with names only
 * those examples are disturbed. Each example is played again and again until it has seen that many kills, and each time its tasks and
 * its arrays must be those of the list (examples.js), and its arrays, but for times and ids, the very ones of the undisturbed play.
 */
'use strict';
const assert = require('assert');
const path = require('path');
const { Stage, sleep } = require('./stage');
const { play } = require('./play');
const examples = require('./examples');

const [version, packages, dir, kills, chosen] = process.argv.slice(2);
const seed = Number(process.env.QP_SEED || Date.now() % 1000000);
let state = seed;
const random = (below) => (state = (state * 1103515245 + 12345) % 2147483648) % below;

const counts = { passed: 0, failed: 0, plays: 0 };
async function judged(what, test) {
    try {
        await test();
        counts.passed++;
    } catch (error) {
        counts.failed++;
        console.log(`FAILED: ${version} ${what}: ${error.stack}`);
    }
}

/* Kills until there were enough, or the example is over. */
async function killer(stage, until, over) {
    while (!over.yes && stage.kills < until) {
        await sleep(10 + random(120));
        if (!over.yes) await stage.kill();
    }
}

async function disturbed(stage, example, calm) {
    for (const until = stage.kills + Number(kills); stage.kills < until; counts.plays++) {
        const over = { yes: false };
        const killing = killer(stage, until, over);
        try {
            assert.strictEqual(await play(stage, example), calm);
        } finally {
            over.yes = true;
            await killing;
        }
    }
}

async function main() {
    const stage = new Stage({ version, dir: path.resolve(dir), packages, quipu: process.env.QUIPU });
    const mine = examples.filter(({ only }) => !only || only === version);
    await stage.serve();
    await stage.begin();
    for (const example of mine) {
        let calm = null;
        await judged(example.name, async () => (calm = await play(stage, example)));
        const here = example.task && version === '0.4'; /* no server has to do with it */
        if (calm !== null && kills > 0 && !here && (!chosen || chosen.split(',').includes(example.name))) {
            await judged(`${example.name}, with kills (QP_SEED=${seed})`, () => disturbed(stage, example, calm));
        }
        if (example.before) {
            await stage.leave();
            await stage.begin();
        }
    }
    await judged('the end', () => stage.end());
    console.log(`zenaton ${version}: ${mine.length} examples, ${counts.plays} more plays with ${stage.kills} kills, ${stage.again || 0} tasks ran again`);
    console.log(`${counts.passed} passed, ${counts.failed} failed`);
    process.exit(counts.failed > 0 ? 1 : 0);
}

main().catch((error) => {
    console.log(`FAILED: ${version}: ${error.stack}`);
    process.exit(1);
});

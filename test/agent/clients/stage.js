/* stage.js - a server, a runner and a client of one version of the package, each a process of its own, and what is seen of them
 *
 * `events` is what happened, in order: {what: 'task' | 'completed' | 'failed' | 'dropped', name, uuid, index, time} as the runner says
 * it, and {what: 'kill'} for each SIGKILL of the server. A kill comes only while no call of the client is under way: a program that loses
 * the answer of a start or an event cannot know whether it happened, which is not what is tested here.
 */
'use strict';
const { execFile, fork, spawn } = require('child_process');
const fs = require('fs');
const http = require('http');
const path = require('path');
const readline = require('readline');
const { promisify } = require('util');

const examples = path.join(__dirname, '../../../examples/agent');
const execute = promisify(execFile);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function get(url) {
    return new Promise((resolve, reject) => {
        http.get(url, { agent: false }, (response) => {
            let text = '';
            response.on('data', (part) => (text += part)).on('error', reject);
            response.on('end', () => resolve({ status: response.statusCode, text }));
        }).on('error', reject);
    });
}

class Stage {
    /* version: 0.4, 0.5 or 0.8; packages: the directory with its node_modules; dir: a new directory for all files */
    constructor({ version, packages, dir, quipu, random }) {
        Object.assign(this, { version, dir, quipu, random, events: [], asks: new Map(), number: 0, busy: 0, down: false, kills: 0, api: null, agent: null });
        fs.mkdirSync(dir, { recursive: true });
        this.log = fs.openSync(path.join(dir, 'log'), 'a');
        this.env = { ...process.env, NODE_PATH: path.join(packages, 'node_modules'), ZENATON_APP_ENV: `env${version}` };
    }

    /* -------------------------------------------------------------------------------------------------- the server */

    /* The first time on ports that the system chooses, later on the same. */
    async serve() {
        const [api, port] = this.api ? [this.api.host, this.agent.port] : ['127.0.0.1:0', '0'];
        const given = ['serve', '--data-dir', path.join(this.dir, 'data'), '--listen', api, '--socket', 'none', '--no-auth'];
        this.server = spawn(this.quipu, [...given, '--agent-port', port, '--agent-lease', '5s'], { stdio: ['ignore', 'pipe', this.log] });
        this.ended = new Promise((resolve) => this.server.on('exit', resolve));
        const found = [];
        for await (const line of readline.createInterface({ input: this.server.stdout })) {
            const url = /(?:listening|serving agents) on (http\S+)/.exec(line);
            if (url) found.push(new URL(url[1]));
            if (found.length === 2) break;
        }
        if (found.length < 2) throw new Error(`the server does not begin: see ${this.dir}/log`);
        this.server.stdout.resume();
        this.beside({ api: found[0], agent: found[1] });
    }

    /* The runner and the client are those of this server, whichever stage it is of. */
    beside({ api, agent }) {
        const at = `http://${agent.host}`;
        Object.assign(this, { api, agent });
        Object.assign(this.env, {
            AGENT_URL: at,
            ZENATON_WORKER_URL: 'http://127.0.0.1',
            ZENATON_WORKER_PORT: agent.port,
            ZENATON_API_URL: `${at}/api/v1`,
            ZENATON_GATEWAY_URL: at,
        });
    }

    async kill() {
        while (this.busy > 0) await sleep(1);
        this.down = true;
        this.server.kill('SIGKILL');
        this.events.push({ what: 'kill' });
        this.kills++;
        await this.ended;
        await this.serve();
        this.down = false;
    }

    /* Does it while no kill comes between. */
    async calmly(work) {
        while (this.down) await sleep(1);
        this.busy++;
        try {
            return await work();
        } finally {
            this.busy--;
        }
    }

    /* The answer as JSON, also when the server is killed meanwhile. */
    async see(address) {
        for (;;) {
            const { status, text } = await get(new URL(address, this.api)).catch(() => ({ status: 503 }));
            if (status === 200) return JSON.parse(text);
            if (status < 500) throw new Error(`${address}: ${status} ${text}`);
            await sleep(10);
        }
    }

    async command(...words) {
        const run = () => execute(this.quipu, [...words, '--server', this.api.origin]);
        return (await this.calmly(run)).stdout;
    }

    /* ---------------------------------------------------------------------------------------- the runner, the client */

    flows() {
        return path.join(examples, `flows-${this.version}.js`);
    }

    async begin(more = {}) {
        const env = { ...this.env, ...more };
        this.runner = spawn('node', [path.join(examples, `runner-${this.version}.js`), this.flows()], { env, stdio: ['ignore', 'pipe', this.log] });
        readline.createInterface({ input: this.runner.stdout }).on('line', (line) => this.say(line));
        this.client = fork(path.join(__dirname, 'client.js'), [this.flows()], { env, stdio: ['ignore', this.log, this.log, 'ipc'] });
        this.client.on('message', ({ number, value, error }) => {
            const { resolve, reject } = this.asks.get(number);
            this.asks.delete(number);
            return error ? reject(new Error(error)) : resolve(value);
        });
    }

    say(line) {
        const [time, what, name, uuid, index] = line.split(' ');
        fs.writeSync(this.log, `${line}\n`);
        if (['task', 'completed', 'failed', 'dropped'].includes(what)) this.events.push({ what, name, uuid, index, time: Date.parse(time) });
    }

    /* What client.js is asked for. */
    ask(ask, ...given) {
        return this.calmly(
            () =>
                new Promise((resolve, reject) => {
                    this.asks.set(++this.number, { resolve, reject });
                    this.client.send({ number: this.number, ask, given });
                }));
    }

    async leave() {
        for (const one of [this.runner, this.client]) {
            const gone = new Promise((resolve) => one.on('exit', resolve));
            one.kill('SIGKILL');
            await gone;
        }
    }

    async end() {
        await this.leave();
        this.server.kill('SIGTERM');
        const code = await this.ended;
        if (code !== 0) throw new Error(`the server ends with ${code}: see ${this.dir}/log`);
        await execute(this.quipu, ['fsck', path.join(this.dir, 'data/quipu.db')]);
    }
}

module.exports = { Stage, sleep };

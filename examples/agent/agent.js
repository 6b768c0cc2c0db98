/* agent.js - polls the jobs of one environment from Quipu's agent endpoints, and has each of them done
 *
 * What is special to a version of the package `zenaton` is in runner-0.4.js, runner-0.5.js and runner-0.8.js; each gives
 *
 *   branch(next, execute)   runs the code of one branch; async execute(works) asks for works. Gives {name?, properties, output}: the
 *                           branch has ended; without `output`: it is left, because it awaits works
 *   task(job)               gives {run, delay}: async run() does the task, delay(error) says after how many seconds it is tried again
 *
 * A request is repeated until it is answered, so a server may die meanwhile. All of them can be repeated: the server knows the branch,
 * the works and the result by their uuid and position. A uuid that is no longer ours is dropped; the server hands the job out again.
 */
'use strict';
const http = require('http');

const server = new URL(process.env.AGENT_URL || 'http://127.0.0.1:4001');
const token = process.env.AGENT_TOKEN;
const keep = new http.Agent({ keepAlive: true });
const say = (...words) => console.log(new Date().toISOString(), ...words);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Gone extends Error {}

function once(method, path, body) {
    return new Promise((resolve, reject) => {
        const headers = { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) };
        const request = http.request(new URL(path, server), { method, headers, agent: keep }, (response) => {
            let text = '';
            response.setEncoding('utf8').on('data', (part) => (text += part)).on('error', reject);
            response.on('end', () => resolve({ status: response.statusCode, text }));
        });
        request.on('error', reject).end(body && JSON.stringify(body));
    });
}

/* The answer's body. Throws Gone when the server knows the uuid no more, and an Error when it refuses the request. */
async function ask(method, path, body) {
    for (;;) {
        const { status, text } = await once(method, path, body).catch(() => ({ status: 503 }));
        if (status < 300) return JSON.parse(text);
        if (status === 404 || status === 409) throw new Gone(text);
        if (status < 500 && status !== 429) throw new Error(`${method} ${path}: ${status} ${text}`);
        await pause(50);
    }
}

const describe = (error) => ({
    code: error.code === undefined ? null : String(error.code),
    name: error.name,
    message: error.message,
    stacktrace: error.stack,
});

/* One branch. When `execute` fails the code must not see it, it might catch it: its promise stays open, and the branch is given up. */
function play(decision, next, runner) {
    return new Promise((resolve, reject) => {
        const execute = (works) =>
            ask('POST', `${decision}/execute`, works).then(
                (reply) => (reply.status === 'modified' ? new Promise(() => reject(new Gone('modified'))) : reply),
                (error) => new Promise(() => reject(error)));
        runner.branch(next, execute).then(resolve, reject);
    });
}

async function decide(job, runner) {
    const decision = `/decisions/${job.uuid}`;
    try {
        for (let next; (next = await ask('GET', `${decision}/branch`)).branch; ) {
            await ask('POST', `${decision}/branch`, await play(decision, next, runner));
        }
    } catch (error) {
        if (error instanceof Gone) return;
        say('failed', job.name, error.stack);
        await ask('POST', `${decision}/fail`, { error: describe(error) });
    }
}

async function perform(job, runner) {
    let result;
    say('task', job.name, job.uuid, job.retryIndex);
    try {
        const { run, delay } = runner.task(job);
        try {
            result = { status: 'completed', output: await run() };
        } catch (error) {
            result = { status: 'failed', error: describe(error), retryDelay: await delay(error) };
        }
    } catch (error) {
        result = { status: 'failed', error: describe(error) };
    }
    try {
        await ask('POST', `/tasks/${job.uuid}`, result);
    } catch (error) {
        if (error instanceof Gone) throw error;
        result = { status: 'failed', error: describe(error) }; /* refused, since it is too large */
        await ask('POST', `/tasks/${job.uuid}`, result);
    }
    say(result.status, job.name, job.uuid, job.retryIndex);
}

Object.assign(exports, { ask, say });
exports.listen = async (runner) => {
    const env = encodeURIComponent(process.env.ZENATON_APP_ENV || 'dev');
    say('listening on', server.href, 'for', env);
    for (;;) {
        const job = await ask('GET', `/env/${env}/lang/javascript/job?wait=20s`);
        const done = job.action === 'DecisionScheduled' ? decide : job.action === 'TaskScheduled' ? perform : async () => {};
        await done(job, runner).catch((error) => say('dropped', job.name, job.uuid, error.message));
    }
};

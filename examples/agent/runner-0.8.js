/* runner-0.8.js - runs workflows and tasks written with `zenaton` 0.8: node runner-0.8.js BOOT
 *
 * BOOT is a file that loads the package and defines all workflows and tasks. Workflows of this version are generators: what they
 * yield is awaited, what they begin and do not yield goes on beside them. this.random(), this.date(), this.log(), this.send(),
 * this.pause(), this.resume() and this.terminate() are works with reserved names, done once by the runner like any task.
 */
'use strict';
const { resolve } = require('path');
const agent = require('./agent');
require(resolve(process.argv[2]));
const zenaton = require(process.env.ZENATON_LIBRARY_PATH);
const { Client, TaskContext, WorkflowContext, WorkflowManager, duration, datetime, serializer } = zenaton;

const value = (output) => (typeof output === 'string' ? serializer.decode(output) : output);
const result = (output) => (output === null || typeof output === 'string' ? value(output) : { name: output.name, data: value(output.data) });
const list = (input) => [].concat(value(input) || []);
const work = (b) => ({ name: b.task_name, input: value(b.task_input) });
const hooks = {
    handle: (b) => list(b.input),
    onEvent: (b) => [b.event_name, ...list(b.event_input)],
    onStart: (b) => [work(b)],
    onSuccess: (b) => [work(b), result(b.task_output)],
    onFailure: (b) => [work(b), Object.assign(new Error(), JSON.parse(b.error_input), { name: b.error_name })],
    onTimeout: (b) => [work(b)],
};

/* What the hooks of the package call. Each call is a group of works that the generator may yield. */
class Processor {
    constructor() {
        Object.assign(this, { count: 0, begun: [] });
        const reserved = (name, ...input) => this.begin([{ name: `zenaton:${name}`, input }]);
        this.runInstantTask = ({ name, input }) => reserved(name, ...input);
        this.sendEvent = (selector, name, data) => reserved('send', selector, name, data);
        for (const act of ['pause', 'resume', 'terminate']) this[`${act}Workflow`] = (selector) => reserved(act, selector);
    }
    begin(jobs, group) {
        const number = ++this.count;
        const works = jobs.map((job, i) => ({ type: 'task', ...job, input: serializer.encode(job.input), position: group ? `${number}p${i}` : `${number}` }));
        return this.begun[this.begun.push({ works, group }) - 1];
    }
    job({ name, input }) {
        const definition = zenaton.task(name);
        const { prototype } = definition || {};
        return { name, input, maxProcessingTime: prototype && prototype.maxProcessingTime && prototype.maxProcessingTime() };
    }
    runTask(job) { return this.begin([this.job(job)]); }
    runTasks(jobs) { return this.begin(jobs.map((job) => this.job(job)), true); }
    runWorkflow({ name, input }) { return this.begin([{ name, input, type: 'workflow' }]); }
    runWait(wait) {
        const times = { duration: duration.get(wait.duration), timestamp: datetime.get(wait.timestamp) };
        return this.begin([{ name: '_Wait', input: wait, type: 'wait', event: wait.event, ...times }]);
    }
}

async function drive(generator, processor, flow, execute) {
    for (let step = generator.next(), answer; ; step = generator.next(answer)) {
        const awaited = step.done ? null : step.value;
        const beside = processor.begun.filter((one) => one !== awaited).flatMap((one) => one.works);
        const mine = processor.begun.includes(awaited);
        processor.begun = [];
        if (beside.length > 0) await execute(beside.map((one) => ({ ...one, sync: false })));
        if (step.done) return { output: serializer.encode(step.value) };
        answer = awaited;
        if (mine) {
            const reply = await execute(awaited.works.map((one) => ({ ...one, sync: true })));
            if (reply.status === 'scheduled') return {};
            flow.properties = value(reply.properties);
            answer = awaited.group ? reply.outputs.map(result) : result(reply.outputs[0]);
        }
    }
}

async function branch({ id, name, pinned, branch: b, properties }, execute) {
    /* It keeps the version that it began with; until then `name` has none. */
    const definition = (!pinned && WorkflowManager.getLastFromCanonical(name)) || zenaton.workflow(name);
    if (!definition) throw new Error(`no workflow is named ${name}; define it in ${process.argv[2]}`);
    const flow = new definition();
    const processor = new Processor();
    const kept = value(properties);
    flow.context = new WorkflowContext({ id });
    flow.processor = processor;
    flow.properties = Array.isArray(kept) ? {} : kept || {};
    let output = flow[b.type] ? flow[b.type](...hooks[b.type](b)) : null;
    const isGenerator = output && typeof output.next === 'function';
    const end = isGenerator ? await drive(output, processor, flow, execute) : { output: serializer.encode(output) };
    return { ...end, name: flow.constructor.name, properties: serializer.encode(flow.properties) };
}

const ours = new Client('quipu', process.env.AGENT_TOKEN || '', process.env.ZENATON_APP_ENV || 'dev', 'quipu');
const mutate = (job, field, more) =>
    agent.ask('POST', '/graphql', {
        query: `mutation($input: Input!) { ${field}(input: $input) { status } }`,
        variables: { input: { appId: ours.appId, environment: ours.appEnv, intentId: job.uuid, ...more } },
    });
const reserved = {
    'zenaton:random': () => Math.random(),
    'zenaton:date': () => new Date().toISOString(),
    'zenaton:log': (job, ...lines) => agent.say('log', ...lines),
    'zenaton:send': (job, selector, name, data) => mutate(job, 'sendEventToWorkflows', { selector, name, data: serializer.encode(data) }),
    'zenaton:pause': (job, selector) => mutate(job, 'pauseWorkflows', { selector }),
    'zenaton:resume': (job, selector) => mutate(job, 'resumeWorkflows', { selector }),
    'zenaton:terminate': (job, selector) => mutate(job, 'terminateWorkflows', { selector }),
};

function task(job) {
    if (reserved[job.name]) return { run: async () => serializer.encode(await reserved[job.name](job, ...list(job.input))), delay: () => null };
    const definition = zenaton.task(job.name);
    if (!definition) throw new Error(`no task is named ${job.name}; define it in ${process.argv[2]}`);
    const one = new definition();
    one.context = new TaskContext({ id: job.uuid, retryIndex: job.retryIndex });
    one.processor = ours._processor;
    return {
        run: async () => serializer.encode(await one.handle(...list(job.input))),
        delay: (error) => one.onFailureRetryDelay && one.onFailureRetryDelay(error),
    };
}

agent.listen({ branch, task });

/* runner-0.4.js - runs workflows and tasks written with `zenaton` 0.4: node runner-0.4.js BOOT
 *
 * BOOT is a file that loads the package and defines all workflows and tasks. Workflows of this version are plain code: execute()
 * gives the outputs at once. So a branch runs as far as the replies go that are there, asks for the next one, and runs again from its
 * beginning with one reply more, until it ends or awaits works.
 */
'use strict';
const { resolve } = require('path');
const agent = require('./agent');
require(resolve(process.argv[2]));
const zenaton = require(process.env.ZENATON_LIBRARY_PATH); /* the package that BOOT has loaded */

const { Engine, Errors, serializer, workflowManager } = zenaton;
const text = (data) => serializer.encode(data === undefined ? null : data);
const { call, restore, result, task, works } = require('./classes').of(zenaton, text);

/* Takes the package's calls of execute and dispatch; the first one without a reply stops the code. */
class Processor {
    constructor(flow, replies) {
        Object.assign(this, { flow, replies, count: 0, stop: null });
    }
    process(jobs, sync) {
        const reply = this.replies[this.count++];
        if (!reply) {
            this.stop = this.stop || { asked: works(jobs, sync, this.count), properties: text(this.flow.data) };
            throw new Errors.ScheduledBoxError();
        }
        if (sync) restore(this.flow.data, reply.properties);
        return jobs.map((job, i) => (sync ? result(reply.outputs[i]) : undefined));
    }
}

function run({ name, branch: b, properties }, replies) {
    const flow = workflowManager.getWorkflow(name, properties || '{}');
    const processor = new Processor(flow, replies);
    new Engine().setProcessor(processor);
    try {
        const output = call(flow, b);
        return processor.stop || { output: text(output), properties: text(flow.data) };
    } catch (error) {
        if (processor.stop) return processor.stop;
        throw error;
    } finally {
        new Engine().setProcessor(null);
    }
}

async function branch(next, execute) {
    for (const replies = []; ; ) {
        const { asked, ...end } = run(next, replies);
        if (!asked) return end;
        const reply = await execute(asked);
        if (asked[0].sync && reply.status === 'scheduled') return end;
        replies.push(reply);
    }
}

agent.listen({ branch, task });

/* runner-0.5.js - runs workflows and tasks written with `zenaton` 0.5: node runner-0.5.js BOOT
 *
 * BOOT is a file that loads the package and defines all workflows and tasks. Workflows of this version are async functions. A work
 * that has not completed is a promise that stays open; once nothing else of the branch is under way, the branch is left.
 */
'use strict';
const { resolve } = require('path');
const agent = require('./agent');
require(resolve(process.argv[2]));
const zenaton = require(process.env.ZENATON_LIBRARY_PATH); /* the package that BOOT has loaded */

const { Engine, serializer, workflowManager } = zenaton;
/* The methods that the package puts beside the data of an object are no data. */
const isData = ([, member]) => typeof member !== 'function';
const plain = (data) => (data && data.constructor === Object ? Object.fromEntries(Object.entries(data).filter(isData)) : data);
const text = (data) => serializer.encode(plain(data));
const { call, restore, result, task, works } = require('./classes').of(zenaton, text);

/* Takes the package's calls of execute and dispatch. Requests go one after the other, in the order of the calls. */
class Processor {
    constructor(flow, execute, leave) {
        Object.assign(this, { flow, execute, leave, count: 0, open: 0, waits: false, turn: Promise.resolve() });
    }
    async process(jobs, sync) {
        const asked = works(jobs, sync, ++this.count);
        this.open++;
        const reply = await (this.turn = this.turn.then(() => this.execute(asked)));
        this.open--;
        setImmediate(() => this.waits && this.open === 0 && this.leave());
        if (!sync) return jobs.map(() => Promise.resolve());
        if (reply.status === 'scheduled') {
            this.waits = true;
            return new Promise(() => {});
        }
        restore(this.flow.data, reply.properties);
        return reply.outputs.map(result);
    }
}

function branch({ name, branch: b, properties }, execute) {
    const flow = workflowManager.getWorkflow(name, properties || text({}));
    const ended = new Promise((resolveEnd, reject) => {
        const leave = () => resolveEnd({ properties: text(flow.data) });
        new Engine().setProcessor(new Processor(flow, execute, leave));
        Promise.resolve()
            .then(() => call(flow, b))
            .then((output) => resolveEnd({ output: text(output), properties: text(flow.data) }), reject);
    });
    return ended.finally(() => new Engine().setProcessor(null));
}

agent.listen({ branch, task });

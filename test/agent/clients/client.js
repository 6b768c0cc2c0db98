/* client.js - a process that does with the published package what a program of its users does: start, send, pause, ...
 *
 * usage: fork of `client.js FLOWS`; takes {number, ask, given}, answers {number, value} or {number, error}. FLOWS is flows-0.x.js. A
 * program outside may know the workflows by name alone (0.8), or by their classes (0.4, 0.5).
 */
'use strict';
require(process.argv[2]);
const zenaton = require(process.env.ZENATON_LIBRARY_PATH);
const env = process.env.ZENATON_APP_ENV;

function byClass() {
    const { Client, Task, Workflow } = zenaton;
    Client.init('app', 'token', env);
    const one = (flow, id) => Workflow(flow).whereId(id);
    /* In 0.4 pause(), resume() and kill() do not wait for their answer, as later ones do; here it is waited for. */
    const { updateInstance } = Client.prototype;
    let update;
    Client.prototype.updateInstance = function (...given) {
        return (update = updateInstance.apply(this, given));
    };
    const act = (name) => async (flow, id) => {
        one(flow, id)[name]();
        await update;
    };
    return {
        start: async (flow, id, data) => new (Workflow(flow))({ ...data, id }).dispatch(),
        send: async (flow, id, name, data) => void (await one(flow, id).send(name, data)),
        pause: act('pause'),
        resume: act('resume'),
        kill: act('kill'),
        find: async (flow, id) => (await one(flow, id).find()).data,
        task: async (name, told) => new (Task(name))(told).dispatch(),
    };
}

function byName() {
    const client = new zenaton.Client('app', process.env.AGENT_TOKEN || 'token', env);
    const one = (flow, id) => client.select.workflow(flow).withTag(id);
    return {
        start: (flow, id, data) => client.run.withTag(id).workflow(flow, data),
        send: (flow, id, name, ...data) => one(flow, id).send(name, ...data),
        pause: (flow, id) => one(flow, id).pause(),
        resume: (flow, id) => one(flow, id).resume(),
        kill: (flow, id) => one(flow, id).terminate(),
        task: (name, told) => client.run.task(name, told),
    };
}

const able = zenaton.workflow ? byName() : byClass();
process.on('message', async ({ number, ask, given }) => {
    try {
        process.send({ number, value: await able[ask](...given) });
    } catch (error) {
        process.send({ number, error: `${error.name}: ${error.message}` });
    }
});

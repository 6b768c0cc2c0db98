/* flows-0.5.js - workflows and tasks for `zenaton` 0.5, one for each thing that a workflow can do: node runner-0.5.js flows-0.5.js */
'use strict';
const fs = require('fs');
const { Parallel, Task, Version, Wait, Workflow } = require('zenaton');

/* ---- tasks: each gives its name and what it was told */

for (const name of ['TaskA', 'TaskB', 'TaskC', 'TaskD']) {
    Task(name, {
        init(told) {
            this.told = told === undefined ? null : told;
        },
        async handle() {
            return { did: name, told: this.told };
        },
    });
}
const [TaskA, TaskB, TaskC, TaskD] = ['TaskA', 'TaskB', 'TaskC', 'TaskD'].map((name) => Task(name));

/* Fails as long as there is this file. */
const TaskError = Task('TaskError', {
    init(file) {
        this.file = file;
    },
    async handle() {
        if (fs.existsSync(this.file)) throw new Error('out of order');
        return 'repaired';
    },
});

/* Fails three times, and says when it is tried again. */
const TaskRetried = Task('TaskRetried', {
    init(delays) {
        this.delays = delays;
    },
    async handle() {
        const { retryIndex } = this.context;
        if (retryIndex <= this.delays.length) throw new Error(`attempt ${retryIndex}`);
        return retryIndex;
    },
    onFailureRetryDelay() {
        return this.delays[this.context.retryIndex - 1];
    },
});

/* ---- workflows: each is started with an object, which becomes its properties */

const id = function () {
    return this.id;
};
const flow = (name, methods) => Workflow(name, { id, ...methods });

flow('Sequential', {
    async handle() {
        const a = await new TaskA(1).execute();
        return [a, await new TaskB(a.told + 1).execute()];
    },
});

flow('Parallel', {
    async handle() {
        const both = await new Parallel(new TaskA(), new TaskB()).execute();
        return [...both, await new TaskC().execute()];
    },
});

/* What is dispatched goes on beside; its end is told to onSuccess. */
flow('Asynchronous', {
    async handle() {
        await new TaskA().dispatch();
        await new Wait('go').execute();
        return [this.ended, await new TaskB().execute()];
    },
    onSuccess(task, output) {
        if (task.name === 'TaskA') this.ended = output.did;
    },
});

flow('Event', {
    async handle() {
        await new TaskA().execute();
        await new Wait('end').execute();
        return [this.seen, await new TaskB().execute()];
    },
    async onEvent(name, data) {
        if (name !== 'note') return;
        this.seen = data;
        await new TaskC(data).execute();
    },
});

flow('WaitTime', {
    async handle() {
        await new TaskA().execute();
        await new Wait().seconds(this.seconds).execute();
        return await new TaskB().execute();
    },
});

flow('WaitEvent', {
    async handle() {
        const event = await new Wait('go').seconds(this.seconds).execute();
        return [event, event ? await new TaskA().execute() : await new TaskB().execute()];
    },
});

flow('Failing', {
    async handle() {
        await new TaskA().execute();
        const said = await new TaskError(this.file).execute();
        return [said, this.failure, await new TaskB().execute()];
    },
    onFailure(task, error) {
        this.failure = `${task.name}: ${error.message}`;
    },
});

flow('Retried', {
    async handle() {
        return [await new TaskRetried(this.delays).execute(), await new TaskA().execute()];
    },
});

/* A workflow that executes itself. */
const Recursive = flow('Recursive', {
    async handle() {
        await new TaskA(this.depth).execute();
        return this.depth > 1 ? [this.depth, ...(await new Recursive({ id: this.id, depth: this.depth - 1 }).execute())] : [1];
    },
});

/* It is killed, or paused and resumed, while it awaits the event. */
flow('Waiting', {
    async handle() {
        this.step = (await new TaskA().execute()).did;
        await new Wait('go').execute();
        return await new TaskB().execute();
    },
});

/* The versions of a workflow: one that runs keeps the version that it was started with. With OLD in the environment there is one. */
const versions = [
    flow('Greeting_v1', {
        async handle() {
            await new TaskA().execute();
            await new Wait('go').execute();
            return await new TaskB().execute();
        },
    }),
    flow('Greeting_v2', {
        async handle() {
            await new TaskC().execute();
            await new Wait('go').execute();
            return await new TaskD().execute();
        },
    }),
];
Version('Greeting', process.env.OLD ? versions.slice(0, 1) : versions);

/* flows-0.4.js - workflows and tasks for `zenaton` 0.4, one for each thing that a workflow can do: node runner-0.4.js flows-0.4.js */
'use strict';
const fs = require('fs');
const { Parallel, Task, Version, Wait, Workflow } = require('zenaton');

/* ---- tasks: each gives its name and what it was told */

for (const name of ['TaskA', 'TaskB', 'TaskC', 'TaskD']) {
    Task(name, {
        init(told) {
            this.told = told === undefined ? null : told;
        },
        handle(done) {
            done(null, { did: name, told: this.told });
        },
    });
}
const [TaskA, TaskB, TaskC, TaskD] = ['TaskA', 'TaskB', 'TaskC', 'TaskD'].map((name) => Task(name));

/* Fails as long as there is this file. */
const TaskError = Task('TaskError', {
    init(file) {
        this.file = file;
    },
    handle(done) {
        done(fs.existsSync(this.file) ? new Error('out of order') : null, 'repaired');
    },
});

/* Fails three times, and says when it is tried again. */
const TaskRetried = Task('TaskRetried', {
    init(delays) {
        this.delays = delays;
    },
    handle(done) {
        const { retryIndex } = this.context;
        done(retryIndex <= this.delays.length ? new Error(`attempt ${retryIndex}`) : null, retryIndex);
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
    handle() {
        const a = new TaskA(1).execute();
        return [a, new TaskB(a.told + 1).execute()];
    },
});

flow('Parallel', {
    handle() {
        const both = new Parallel([new TaskA(), new TaskB()]).execute();
        return [...both, new TaskC().execute()];
    },
});

/* What is dispatched goes on beside; its end is told to onSuccess. */
flow('Asynchronous', {
    handle() {
        new TaskA().dispatch();
        new Wait('go').execute();
        return [this.ended, new TaskB().execute()];
    },
    onSuccess(task, output) {
        if (task.name === 'TaskA') this.ended = output.did;
    },
});

flow('Event', {
    handle() {
        new TaskA().execute();
        new Wait('end').execute();
        return [this.seen, new TaskB().execute()];
    },
    onEvent(name, data) {
        if (name !== 'note') return;
        this.seen = data;
        new TaskC(data).execute();
    },
});

flow('WaitTime', {
    handle() {
        new TaskA().execute();
        new Wait().seconds(this.seconds).execute();
        return new TaskB().execute();
    },
});

flow('WaitEvent', {
    handle() {
        const event = new Wait('go').seconds(this.seconds).execute();
        return [event, event ? new TaskA().execute() : new TaskB().execute()];
    },
});

flow('Failing', {
    handle() {
        new TaskA().execute();
        const said = new TaskError(this.file).execute();
        return [said, this.failure, new TaskB().execute()];
    },
    onFailure(task, error) {
        this.failure = `${task.name}: ${error.message}`;
    },
});

flow('Retried', {
    handle() {
        return [new TaskRetried(this.delays).execute(), new TaskA().execute()];
    },
});

/* A workflow that executes itself. */
const Recursive = flow('Recursive', {
    handle() {
        new TaskA(this.depth).execute();
        return this.depth > 1 ? [this.depth, ...new Recursive({ id: this.id, depth: this.depth - 1 }).execute()] : [1];
    },
});

/* It is killed, or paused and resumed, while it awaits the event. */
flow('Waiting', {
    handle() {
        this.step = new TaskA().execute().did;
        new Wait('go').execute();
        return new TaskB().execute();
    },
});

/* The versions of a workflow: one that runs keeps the version that it was started with. With OLD in the environment there is one. */
const versions = [
    flow('Greeting_v1', {
        handle() {
            new TaskA().execute();
            new Wait('go').execute();
            return new TaskB().execute();
        },
    }),
    flow('Greeting_v2', {
        handle() {
            new TaskC().execute();
            new Wait('go').execute();
            return new TaskD().execute();
        },
    }),
];
Version('Greeting', process.env.OLD ? versions.slice(0, 1) : versions);

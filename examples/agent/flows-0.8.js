/* flows-0.8.js - workflows and tasks for `zenaton` 0.8, one for each thing that a workflow can do: node runner-0.8.js flows-0.8.js */
'use strict';
const fs = require('fs');
const { task, workflow } = require('zenaton');

/* ---- tasks: each gives its name and what it was told */

for (const name of ['TaskA', 'TaskB', 'TaskC', 'TaskD']) {
    task(name, async (told = null) => ({ did: name, told }));
}
task('SendReminder', async (email, items) => `${email}: ${items.join(', ')}`);

/* Fails as long as there is this file. */
task('TaskError', async (file) => {
    if (fs.existsSync(file)) throw new Error('out of order');
    return 'repaired';
});

/* Fails three times, and says when it is tried again. */
task('TaskRetried', {
    async handle(delays) {
        const { retryIndex } = this.context;
        this.delay = delays[retryIndex - 1];
        if (retryIndex <= delays.length) throw new Error(`attempt ${retryIndex}`);
        return retryIndex;
    },
    onFailureRetryDelay() {
        return this.delay;
    },
});

/* ---- workflows: the arguments of their start are those of handle; members of `this` are their properties */

workflow('Sequential', function* () {
    const a = yield this.run.task('TaskA', 1);
    return [a, yield this.run.task('TaskB', a.told + 1)];
});

workflow('Parallel', function* () {
    const both = yield this.run.task(['TaskA'], ['TaskB']);
    return [...both, yield this.run.task('TaskC')];
});

/* What is not yielded goes on beside; its end is told to onSuccess. */
workflow('Asynchronous', {
    *handle() {
        this.run.task('TaskA');
        yield this.wait.event('go').forever();
        return [this.ended, yield this.run.task('TaskB')];
    },
    *onSuccess({ name }, output) {
        if (name === 'TaskA') this.ended = output.did;
    },
});

workflow('Event', {
    *handle() {
        yield this.run.task('TaskA');
        yield this.wait.event('end').forever();
        return [this.seen, yield this.run.task('TaskB')];
    },
    *onEvent(name, data) {
        if (name !== 'note') return;
        this.seen = data;
        yield this.run.task('TaskC', data);
    },
});

workflow('WaitTime', function* ({ seconds }) {
    yield this.run.task('TaskA');
    yield this.wait.for(seconds);
    return yield this.run.task('TaskB');
});

workflow('WaitEvent', function* ({ seconds }) {
    const event = yield this.wait.event('go').for(seconds);
    return [event, yield this.run.task(event ? 'TaskA' : 'TaskB')];
});

workflow('Failing', {
    *handle({ file }) {
        yield this.run.task('TaskA');
        const said = yield this.run.task('TaskError', file);
        return [said, this.failure, yield this.run.task('TaskB')];
    },
    *onFailure({ name }, error) {
        this.failure = `${name}: ${error.message}`;
    },
});

workflow('Retried', function* ({ delays }) {
    return [yield this.run.task('TaskRetried', delays), yield this.run.task('TaskA')];
});

/* A workflow that executes itself. */
workflow('Recursive', function* ({ depth }) {
    yield this.run.task('TaskA', depth);
    return depth > 1 ? [depth, ...(yield this.run.workflow('Recursive', { depth: depth - 1 }))] : [1];
});

/* It is terminated, or paused and resumed, while it awaits the event. */
workflow('Waiting', function* () {
    this.step = (yield this.run.task('TaskA')).did;
    yield this.wait.event('go').forever();
    return yield this.run.task('TaskB');
});

/* The versions of a workflow: one that runs keeps the version that it began with. With OLD in the environment there is one. */
workflow('Greeting_v1', function* () {
    yield this.run.task('TaskA');
    yield this.wait.event('go').forever();
    return yield this.run.task('TaskB');
});
if (!process.env.OLD) {
    workflow('Greeting_v2', function* () {
        yield this.run.task('TaskC');
        yield this.wait.event('go').forever();
        return yield this.run.task('TaskD');
    });
}

/* What is not the same each time is done once, as a task. */
workflow('Instant', {
    *handle() {
        const number = yield this.random();
        const date = yield this.date();
        yield this.log('drawn', number, 'at', date);
        yield this.run.task('TaskA', number);
        yield this.send('note', date);
        yield this.wait.event('go').forever();
        return [number === this.number, date === this.date_, yield this.random()];
    },
    *onSuccess({ name, input }) {
        if (name === 'TaskA') [this.number] = input;
    },
    *onEvent(name, date) {
        if (name === 'note') this.date_ = date;
    },
});

/* It pauses itself; it goes on when it is resumed from outside. */
workflow('Pausing', function* () {
    yield this.run.task('TaskA');
    yield this.pause();
    return yield this.run.task('TaskB');
});

/* An abandoned cart: a reminder with what is in it by then, until checkout. */
workflow('Cart', {
    *handle({ email, seconds }) {
        this.items = [];
        yield this.wait.for(seconds);
        yield this.run.task('SendReminder', email, this.items);
        yield this.wait.event('never').forever();
    },
    *onEvent(name, item) {
        if (name === 'add') this.items.push(item);
        if (name === 'checkout') yield this.terminate();
    },
});

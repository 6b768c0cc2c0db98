/* examples.js - the examples of examples/agent/flows-0.x.js: what is done to each instance, and what must have become of it
 *
 * The lists are the same for all versions of the package. Of each instance, in the words of the document:
 *
 *   tasks       names of the tasks, in the order in which their code ran
 *   executions  as they stand
 *   branches    hook(name input), * when it has ended, and = its output, unless that is null
 *   statuses    name@position, state#completion_index, attempts over 1 as x4, output
 *   properties  [key, what differs from those of the start]
 *
 * <x> is what an event brings: x, or with 0.8 [x], since there it may bring several values. `act` is given a Play (play.js), and so is
 * `first`, which has to be done within some time: no kill comes before its end.
 */
'use strict';
const fs = require('fs');

const did = (name, told = null) => `{"did":"${name}","told":${JSON.stringify(told)}}`;
/* The wait for an event has begun, and no decision is out: nothing happens by itself. */
const rests = (s) => s.waits.length > 0 && !s.decision_ongoing && s.buffer.length === 0;

module.exports = [
    {
        name: 'sequential',
        flow: 'Sequential',
        tasks: 'TaskA TaskB',
        executions: '0 1 2 0 3 4 0',
        branches: `handle*=[${did('TaskA', 1)},${did('TaskB', 2)}] onStart(TaskA)* onSuccess(TaskA)* onStart(TaskB)* onSuccess(TaskB)*`,
        statuses: [`TaskA@b0/1 successful#3 ${did('TaskA', 1)}`, `TaskB@b0/2 successful#6 ${did('TaskB', 2)}`],
    },
    {
        name: 'parallel',
        flow: 'Parallel',
        tasks: 'TaskA TaskB TaskC',
        executions: '0 1 2 0 3 4 0 5 6 0',
        branches:
            `handle*=[${did('TaskA')},${did('TaskB')},${did('TaskC')}] onStart(TaskA)* onSuccess(TaskA)* ` +
            'onStart(TaskB)* onSuccess(TaskB)* onStart(TaskC)* onSuccess(TaskC)*',
        statuses: [
            `TaskA@b0/1p0 successful#3 ${did('TaskA')}`,
            `TaskB@b0/1p1 successful#6 ${did('TaskB')}`,
            `TaskC@b0/2 successful#9 ${did('TaskC')}`,
        ],
    },
    {
        name: 'asynchronous',
        flow: 'Asynchronous',
        async act(play) {
            await play.until((s) => rests(s) && s.statuses.some((w) => w.name === 'TaskA' && w.status === 'successful'));
            await play.send('go', null);
        },
        tasks: 'TaskA TaskB',
        executions: '0 1 2 3 4 5 0 6 7 0',
        branches:
            `handle*=["TaskA",${did('TaskB')}] onStart(_Wait)* onStart(TaskA)* onSuccess(TaskA)* onEvent(go <null>)* onSuccess(_Wait)* ` +
            'onStart(TaskB)* onSuccess(TaskB)*',
        statuses: [
            `TaskA@b0/1 async successful#3 ${did('TaskA')}`,
            '_Wait@b0/2 successful#6 {"name":"go","data":<null>}',
            `TaskB@b0/3 successful#9 ${did('TaskB')}`,
        ],
        properties: [[4, { ended: 'TaskA' }]],
    },
    {
        name: 'event',
        flow: 'Event',
        async act(play) {
            await play.until(rests);
            await play.send('note', 'hello');
            await play.until((s) => rests(s) && s.statuses.some((w) => w.name === 'TaskC' && w.status === 'successful'));
            await play.send('end', null);
        },
        tasks: 'TaskA TaskC TaskB',
        executions: '0 1 2 0 3 4 5 6 4 7 8 0 9 10 0',
        branches:
            `handle*=["hello",${did('TaskB')}] onStart(TaskA)* onSuccess(TaskA)* onStart(_Wait)* onEvent(note <"hello">)* ` +
            'onStart(TaskC)* onSuccess(TaskC)* onEvent(end <null>)* onSuccess(_Wait)* onStart(TaskB)* onSuccess(TaskB)*',
        statuses: [
            `TaskA@b0/1 successful#3 ${did('TaskA')}`,
            '_Wait@b0/2 successful#11 {"name":"end","data":<null>}',
            `TaskC@b4/1 successful#8 ${did('TaskC', 'hello')}`,
            `TaskB@b0/3 successful#14 ${did('TaskB')}`,
        ],
        properties: [[6, { seen: 'hello' }]],
    },
    {
        name: 'wait',
        flow: 'WaitTime',
        data: { seconds: 1 },
        tasks: 'TaskA TaskB',
        executions: '0 1 2 0 3 4 0 5 6 0',
        branches:
            `handle*=${did('TaskB')} onStart(TaskA)* onSuccess(TaskA)* onStart(_Wait)* onSuccess(_Wait)* ` +
            'onStart(TaskB)* onSuccess(TaskB)*',
        statuses: [`TaskA@b0/1 successful#3 ${did('TaskA')}`, '_Wait@b0/2 successful#6 null', `TaskB@b0/3 successful#9 ${did('TaskB')}`],
    },
    {
        name: 'wait_event, which comes',
        flow: 'WaitEvent',
        data: { seconds: 3600 },
        async act(play) {
            await play.until(rests);
            await play.send('go', { x: 1 });
        },
        tasks: 'TaskA',
        executions: '0 1 2 3 0 4 5 0',
        branches:
            `handle*=[{"name":"go","data":<{"x":1}>},${did('TaskA')}] onStart(_Wait)* onEvent(go <{"x":1}>)* onSuccess(_Wait)* ` +
            'onStart(TaskA)* onSuccess(TaskA)*',
        statuses: ['_Wait@b0/1 successful#4 {"name":"go","data":<{"x":1}>}', `TaskA@b0/2 successful#7 ${did('TaskA')}`],
    },
    {
        name: 'wait_event, which does not come',
        flow: 'WaitEvent',
        data: { seconds: 1 },
        tasks: 'TaskB',
        executions: '0 1 2 0 3 4 0',
        branches: `handle*=[null,${did('TaskB')}] onStart(_Wait)* onSuccess(_Wait)* onStart(TaskB)* onSuccess(TaskB)*`,
        statuses: ['_Wait@b0/1 successful#3 null', `TaskB@b0/2 successful#6 ${did('TaskB')}`],
    },
    {
        name: 'task',
        task: 'TaskA',
        told: 5,
        tasks: 'TaskA',
        output: did('TaskA', 5),
    },
    {
        /* Retried by hand; then the next step runs. */
        name: 'error',
        flow: 'Failing',
        data: { file: 'broken' },
        async act(play) {
            await play.until((s) => s.statuses.some((w) => w.status === 'failed') && !s.decision_ongoing);
            fs.unlinkSync(play.data.file);
            await play.retry();
        },
        tasks: 'TaskA TaskError TaskError TaskB',
        executions: '0 1 2 0 3 4 5 6 0 7 8 0',
        branches:
            `handle*=["repaired","TaskError: out of order",${did('TaskB')}] onStart(TaskA)* onSuccess(TaskA)* ` +
            'onStart(TaskError)* onFailure(TaskError Error: out of order)* onStart(TaskError)* onSuccess(TaskError)* ' +
            'onStart(TaskB)* onSuccess(TaskB)*',
        statuses: [
            `TaskA@b0/1 successful#3 ${did('TaskA')}`,
            'TaskError@b0/2 successful#8 x2 "repaired"',
            `TaskB@b0/3 successful#11 ${did('TaskB')}`,
        ],
        properties: [[6, { failure: 'TaskError: out of order' }]],
    },
    {
        /* Four attempts, with the delays that the task chose. */
        name: 'automatic retry',
        flow: 'Retried',
        data: { delays: [0.1, 0.2, 0.3] },
        tasks: 'TaskRetried TaskRetried TaskRetried TaskRetried TaskA',
        apart: [0.1, 0.2, 0.3],
        executions: '0 1 2 3 4 5 0 6 7 0',
        branches:
            `handle*=[4,${did('TaskA')}] onStart(TaskRetried)* onStart(TaskRetried)* onStart(TaskRetried)* onStart(TaskRetried)* ` +
            'onSuccess(TaskRetried)* onStart(TaskA)* onSuccess(TaskA)*',
        statuses: ['TaskRetried@b0/1 successful#6 x4 4', `TaskA@b0/2 successful#9 ${did('TaskA')}`],
    },
    {
        name: 'recursive',
        flow: 'Recursive',
        data: { depth: 3 },
        tasks: 'TaskA TaskA TaskA',
        executions: '0 1 2 0 3 4 0',
        branches: 'handle*=[3,2,1] onStart(TaskA)* onSuccess(TaskA)* onStart(Recursive)* onSuccess(Recursive)*',
        statuses: [`TaskA@b0/1 successful#3 ${did('TaskA', 3)}`, 'Recursive@b0/2 successful#6 [2,1]'],
    },
    {
        name: 'custom id, find',
        flow: 'Waiting',
        async act(play) {
            await play.until(rests);
            await play.taken();
            await play.found({ step: 'TaskA' });
            await play.send('go', null);
        },
        tasks: 'TaskA TaskB',
        executions: '0 1 2 0 3 4 5 0 6 7 0',
        branches:
            `handle*=${did('TaskB')} onStart(TaskA)* onSuccess(TaskA)* onStart(_Wait)* onEvent(go <null>)* onSuccess(_Wait)* ` +
            'onStart(TaskB)* onSuccess(TaskB)*',
        statuses: [
            `TaskA@b0/1 successful#3 ${did('TaskA')}`,
            '_Wait@b0/2 successful#7 {"name":"go","data":<null>}',
            `TaskB@b0/3 successful#10 ${did('TaskB')}`,
        ],
        properties: [[4, { step: 'TaskA' }]],
    },
    {
        /* What is sent to a paused instance waits in its buffer. */
        name: 'pause, resume',
        flow: 'Waiting',
        async act(play) {
            await play.until(rests);
            await play.pause();
            await play.until((s) => s.decision_mode === 'pause');
            await play.send('go', null);
            await play.until((s) => s.status === 'paused' && s.buffer.length === 2 && !s.decision_ongoing);
            play.ran('TaskA');
            await play.resume();
        },
        tasks: 'TaskA TaskB',
        executions: '0 1 2 0 3 4 5 0 6 7 0',
        branches:
            `handle*=${did('TaskB')} onStart(TaskA)* onSuccess(TaskA)* onStart(_Wait)* onEvent(go <null>)* onSuccess(_Wait)* ` +
            'onStart(TaskB)* onSuccess(TaskB)*',
        statuses: [
            `TaskA@b0/1 successful#3 ${did('TaskA')}`,
            '_Wait@b0/2 successful#7 {"name":"go","data":<null>}',
            `TaskB@b0/3 successful#10 ${did('TaskB')}`,
        ],
        properties: [[4, { step: 'TaskA' }]],
    },
    {
        name: 'kill',
        flow: 'Waiting',
        async act(play) {
            await play.until(rests);
            await play.kill();
            await play.until((s) => s.status === 'interrupted');
            await play.send('go', null); /* to a finished instance: nothing happens */
        },
        status: 'interrupted',
        tasks: 'TaskA',
        executions: '0 1 2 0 3',
        branches: 'handle onStart(TaskA)* onSuccess(TaskA)* onStart(_Wait)*',
        statuses: [`TaskA@b0/1 successful#3 ${did('TaskA')}`, '_Wait@b0/2 scheduled'],
        properties: [[4, { step: 'TaskA' }]],
    },
    {
        /* It began when there was one version, and keeps it when there are two. */
        name: 'version, which stays',
        flow: 'Greeting',
        before: { OLD: '1' },
        async act(play) {
            await play.until(rests);
            await play.renew();
            await play.send('go', null);
        },
        tasks: 'TaskA TaskB',
        names: ['Greeting_v1', 'Greeting'],
        executions: '0 1 2 0 3 4 5 0 6 7 0',
        branches:
            `handle*=${did('TaskB')} onStart(TaskA)* onSuccess(TaskA)* onStart(_Wait)* onEvent(go <null>)* onSuccess(_Wait)* ` +
            'onStart(TaskB)* onSuccess(TaskB)*',
        statuses: [
            `TaskA@b0/1 successful#3 ${did('TaskA')}`,
            '_Wait@b0/2 successful#7 {"name":"go","data":<null>}',
            `TaskB@b0/3 successful#10 ${did('TaskB')}`,
        ],
    },
    {
        name: 'version, the last one',
        flow: 'Greeting',
        async act(play) {
            await play.until(rests);
            await play.send('go', null);
        },
        tasks: 'TaskC TaskD',
        names: ['Greeting_v2', 'Greeting'],
        executions: '0 1 2 0 3 4 5 0 6 7 0',
        branches:
            `handle*=${did('TaskD')} onStart(TaskC)* onSuccess(TaskC)* onStart(_Wait)* onEvent(go <null>)* onSuccess(_Wait)* ` +
            'onStart(TaskD)* onSuccess(TaskD)*',
        statuses: [
            `TaskC@b0/1 successful#3 ${did('TaskC')}`,
            '_Wait@b0/2 successful#7 {"name":"go","data":<null>}',
            `TaskD@b0/3 successful#10 ${did('TaskD')}`,
        ],
    },
    {
        name: 'abandoned cart',
        only: '0.8',
        flow: 'Cart',
        data: { email: 'ada@example.org', seconds: 2 },
        async first(play) {
            await play.until(rests);
            await play.send('add', 'book');
        },
        async act(play) {
            await play.until((s) => rests(s) && s.statuses.some((w) => w.name === 'SendReminder' && w.status === 'successful'));
            await play.send('checkout');
        },
        status: 'interrupted',
        tasks: 'SendReminder zenaton:terminate',
        last: 'onStart(zenaton:terminate)', /* the end comes before it, or behind it */
        varies: true,
        executions: '0 1 2 3 0 4 5 0 6 7',
        branches:
            'handle onStart(_Wait)* onEvent(add ["book"])* onSuccess(_Wait)* onStart(SendReminder)* onSuccess(SendReminder)* ' +
            'onStart(_Wait)* onEvent(checkout [])',
        statuses: [
            '_Wait@b0/1 successful#4 null',
            'SendReminder@b0/2 successful#7 "ada@example.org: book"',
            '_Wait@b0/3 scheduled',
            'zenaton:terminate@b7/1 scheduled',
        ],
        properties: [[1, { items: [] }], [3, { items: ['book'] }]],
    },
    {
        /* random, date and log are done once, and so is what is sent; RANDOM and DATE are what they gave. */
        name: 'random, date, log, send',
        only: '0.8',
        flow: 'Instant',
        beside: ['onStart(zenaton:send)', 'onEvent(note'], /* the event may be faster than the notice of the task's start */
        varies: true,
        async act(play) {
            await play.until((s) => rests(s) && s.statuses.some((w) => w.name === '_Wait'));
            await play.send('go');
        },
        tasks: 'zenaton:random zenaton:date zenaton:log TaskA zenaton:send zenaton:random',
        executions: '0 1 2 0 3 4 0 5 6 0 7 8 0 9 10 11 0 12 13 14 0 15 16 0',
        branches:
            'handle*=[true,true,RANDOM] onStart(zenaton:random)* onSuccess(zenaton:random)* onStart(zenaton:date)* ' +
            'onSuccess(zenaton:date)* onStart(zenaton:log)* onSuccess(zenaton:log)* onStart(TaskA)* onSuccess(TaskA)* ' +
            'onStart(zenaton:send)* onEvent(note ["DATE"])* onSuccess(zenaton:send)* onStart(_Wait)* onEvent(go [])* ' +
            'onSuccess(_Wait)* onStart(zenaton:random)* onSuccess(zenaton:random)*',
        statuses: [
            'zenaton:random@b0/1 successful#3 RANDOM',
            'zenaton:date@b0/2 successful#6 "DATE"',
            'zenaton:log@b0/3 successful#9 null',
            `TaskA@b0/4 successful#12 {"did":"TaskA","told":RANDOM}`,
            'zenaton:send@b0/5 successful#16 {"data":{"sendEventToWorkflows":{"status":"success"}}}',
            '_Wait@b0/6 successful#20 {"name":"go","data":[]}',
            'zenaton:random@b0/7 successful#23 RANDOM',
        ],
        properties: [[12, { number: 'RANDOM' }], [15, { number: 'RANDOM', date_: 'DATE' }]],
    },
    {
        name: 'pause and resume of itself',
        only: '0.8',
        flow: 'Pausing',
        varies: true,
        async act(play) {
            await play.until((s) => s.decision_mode === 'pause' && s.buffer.some((a) => a.type === 'onSuccess'));
            play.ran('TaskA zenaton:pause');
            await play.resume();
        },
        tasks: 'TaskA zenaton:pause TaskB',
        executions: '0 1 2 0 3 4 0 5 6 0',
        branches:
            `handle*=${did('TaskB')} onStart(TaskA)* onSuccess(TaskA)* onStart(zenaton:pause)* onSuccess(zenaton:pause)* ` +
            'onStart(TaskB)* onSuccess(TaskB)*',
        statuses: [
            `TaskA@b0/1 successful#3 ${did('TaskA')}`,
            'zenaton:pause@b0/2 successful#6 {"data":{"pauseWorkflows":{"status":"success"}}}',
            `TaskB@b0/3 successful#9 ${did('TaskB')}`,
        ],
    },
];

/* play.js - one instance of an example: what is done to it, and what it must have become */
'use strict';
const assert = require('assert');
const fs = require('fs');
const path = require('path');
const { sleep } = require('./stage');

/* A text of the package as data: 0.5 has a format of its own. */
function decoded(text) {
    if (text === null || text === undefined) return null;
    if (typeof text === 'object') return { name: text.name, data: decoded(text.data) };
    const data = JSON.parse(text);
    if (!data || data.v !== '1.0.0' || !data.s) return data;
    const of = (member) => (typeof member === 'string' && /^@zenaton#\d+$/.test(member) ? object(data.s[member.slice(9)]) : member);
    const object = ({ k, v }) => (k ? Object.fromEntries(k.map((key, i) => [key, of(v[i])])) : v.map(of));
    return 'd' in data ? data.d : of(data.o);
}

/* What no two runs have in common: times, ids, random numbers, and lines of files. */
const mask = (text) =>
    text
        .replace(/\b0\.\d{6,}(e-\d+)?|\b\d\.\d+e-\d+/g, 'RANDOM')
        .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'ID')
        .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'DATE')
        .replace(/\\"stacktrace\\":\\".*?[^\\]\\"(?=})/g, '\\"stacktrace\\":\\"...\\"')
        .replace(/"stacktrace":".*?[^\\]"(?=})/g, '"stacktrace":"..."');
const compact = (data) => mask(JSON.stringify(data));

function branchText(b) {
    const told = b.type === 'onEvent' ? `${b.event_name} ${compact(decoded(b.event_input))}` : b.task_name;
    const error = b.type === 'onFailure' ? ` ${b.error_name}: ${JSON.parse(b.error_input).message}` : '';
    const output = b.ended ? decoded(b.output) : null;
    return `${b.type}${b.type === 'handle' ? '' : `(${told}${error})`}${b.ended ? '*' : ''}${output === null ? '' : `=${compact(output)}`}`;
}

function statusText(w) {
    const words = [`${w.name}@b${w.branch_key}/${w.position}`, ...(w.sync ? [] : ['async'])];
    words.push(w.status === 'successful' ? `successful#${w.completion_index}` : w.status, ...(w.attempt > 1 ? [`x${w.attempt}`] : []));
    return [...words, ...(w.status === 'successful' ? [compact(decoded(w.output))] : [])].join(' ');
}

/* What may come in either order comes in that of the list; hashes of inputs that are not the same each time say nothing. */
function settled(s, { last, beside, varies }) {
    const is = (key, text) => s.branches[key] && branchText(s.branches[key]).startsWith(text);
    const end = s.branches.length - 1;
    if (last && is(end, last)) {
        s.executions.splice(s.executions.indexOf(end), 1);
        s.branches.pop();
    }
    const at = beside ? s.branches.findIndex((_, key) => is(key, beside[1])) : -1;
    if (at >= 0 && is(at + 1, beside[0])) {
        const [event, start] = s.branches.slice(at, at + 2);
        s.branches[at] = { ...start, key: at, start_index: event.start_index };
        s.branches[at + 1] = { ...event, key: at + 1, start_index: start.start_index };
        for (const p of s.properties) p.key += p.key === event.start_index + 1 ? 1 : 0;
    }
    return varies ? { ...s, statuses: s.statuses.map((w) => ({ ...w, hash: '' })) } : s;
}

class Play {
    constructor(stage, example) {
        Object.assign(this, { stage, example, from: stage.events.length, job: null });
        this.id = `${example.flow}-${example.name.replace(/\W+/g, '-')}`;
        this.data = { ...example.data };
        if (this.data.file) this.data.file = path.join(stage.dir, this.data.file);
    }

    /* ---------------------------------------------------------------------------------- what is done to it */

    async begin() {
        if (this.data.file) fs.writeFileSync(this.data.file, '');
        const before = await this.newest();
        await this.stage.ask('start', this.example.flow, this.id, this.data);
        this.job = await this.newest();
        assert.notStrictEqual(this.job, before, 'the instance is not there');
    }

    /* The id of the latest job whose custom id or tag is that of the example. */
    async newest() {
        const where = encodeURIComponent(`attr.custom_id=${this.id} or attr.tag=${this.id}`);
        const { items } = await this.stage.see(`/v1/jobs?limit=1&where=${where}`);
        return items.length > 0 ? items[0].id : null;
    }

    async seen() {
        return this.stage.see(`/v1/jobs/${this.job}/decisions`);
    }

    /* Waits until the instance is so; 60 s at most. */
    async until(is) {
        let s;
        for (const end = Date.now() + 60000; Date.now() < end; await sleep(5)) {
            s = await this.seen();
            if (is(s)) return s;
        }
        throw new Error(`it is never so: ${is}: ${JSON.stringify(s, null, 1)}`);
    }

    send(name, ...data) {
        return this.stage.ask('send', this.example.flow, this.id, name, ...data);
    }
    pause() {
        return this.stage.ask('pause', this.example.flow, this.id);
    }
    resume() {
        return this.stage.ask('resume', this.example.flow, this.id);
    }
    kill() {
        return this.stage.ask('kill', this.example.flow, this.id);
    }
    retry() {
        return this.stage.command('retry', this.job);
    }
    /* The code of workflows and tasks is deployed again, without what `before` has set. */
    async renew() {
        await this.stage.leave();
        await this.stage.begin();
    }

    /* A custom id is taken by the instance that runs; a tag (0.8) is not. */
    async taken() {
        if (this.stage.version === '0.8') return;
        await assert.rejects(this.stage.ask('start', this.example.flow, this.id, this.data), /a running instance of this name has the same custom_id/);
        assert.strictEqual(await this.newest(), this.job);
    }
    /* Only clients up to 0.5 can find. */
    async found(members) {
        if (this.stage.version === '0.8') return;
        const data = await this.stage.ask('find', this.example.flow, this.id);
        assert.deepStrictEqual(data, { ...this.data, id: this.id, ...members });
        await assert.rejects(this.stage.ask('find', this.example.flow, 'nothing'), /No workflow instance found with the id : nothing/);
    }

    /* --------------------------------------------------------------------------------------- what ran */

    /* The tasks whose code ran. One whose result was not taken runs again: then it was in hand when the server was killed. */
    tasks() {
        const events = this.stage.events.slice(this.from);
        const names = [];
        const open = new Map(); /* by name, where the claim of a run without a result came */
        let before = 0;
        events.forEach(({ what, name }, at) => {
            if (what === 'task' && open.has(name)) {
                assert(events.slice(open.get(name), at).some((event) => event.what === 'kill'), `${name} ran twice without a kill`);
                this.stage.again = (this.stage.again || 0) + 1;
            } else if (what === 'task') {
                names.push(name);
            }
            if (what === 'task') open.set(name, before);
            if (what === 'completed' || what === 'failed') open.delete(name);
            if (what !== 'kill' && what !== 'task') before = at + 1;
        });
        return names.join(' ');
    }
    ran(tasks) {
        assert.strictEqual(this.tasks(), tasks);
    }

    /* From the begin of an attempt to that of the next one it is at least the delay that the task chose. */
    apart() {
        const at = this.stage.events.slice(this.from).filter(({ what }) => what === 'task');
        (this.example.apart || []).forEach((delay, i) => {
            const later = at[i + 1].time - at[i].time;
            assert(later >= delay * 1000 - 2, `attempt ${i + 2} came ${later} ms later, not ${delay} s`);
        });
    }

    /* ---------------------------------------------------------------------------------- what it has become */

    async ends() {
        const { status = 'completed' } = this.example;
        await this.until((s) => s.status === status && (status !== 'completed' || s.buffer.length === 0));
        const s = settled(JSON.parse(await this.stage.command('show', '--decisions', this.job, '-o', 'json')), this.example);
        this.check(s);
        return mask(JSON.stringify({ ...s, id: '', ongoing_index: '' }));
    }

    check(s) {
        const { executions, branches, statuses, properties = [], names, tasks } = this.example;
        const events = (text) => text.replace(/<(.*?)>/g, this.stage.version === '0.8' ? '[$1]' : '$1');
        this.ran(tasks);
        this.apart();
        assert.strictEqual(s.executions.join(' '), executions);
        assert.strictEqual(s.branches.map(branchText).join(' '), events(branches));
        assert.deepStrictEqual(s.statuses.map(statusText), statuses.map(events));
        const first = this.stage.version === '0.8' ? {} : { ...this.data, id: this.id };
        /* 0.8 starts a workflow without properties; those after its first execution are at least {}. */
        const begin = this.stage.version !== '0.8' ? [[0, first]] : properties.some(([key]) => key === 1) ? [[0, null]] : [[0, null], [1, {}]];
        const values = s.properties.map(({ key, values: text }) => [key, JSON.parse(compact(decoded(text)).replace(/RANDOM/g, '"RANDOM"'))]);
        assert.deepStrictEqual(values, [...begin, ...properties.map(([key, more]) => [key, { ...first, ...more }])]);
        assert.deepStrictEqual([s.waits, s.buffer, s.decision, s.decision_ongoing].map((part) => JSON.stringify(part)), ['[]', '[]', 'null', 'false']);
        if (names) assert.deepStrictEqual([s.workflow_name, s.canonical_name], names);
    }
}

/* A task without a workflow. 0.4 does it on the spot, in the program that dispatches it. */
async function playTask(stage, { task, told, tasks, output }) {
    const one = new Play(stage, { flow: task, name: 'alone' });
    const given = await stage.ask('task', task, told);
    if (stage.version === '0.4') {
        assert.strictEqual(JSON.stringify(given), output);
        return output;
    }
    const job = (await stage.see(`/v1/jobs?limit=1&where=workflow=${task}`)).items[0].id;
    let seen;
    for (const end = Date.now() + 60000; Date.now() < end && (!seen || seen.status !== 'completed'); await sleep(5)) {
        seen = await stage.see(`/v1/jobs/${job}`);
    }
    one.ran(tasks);
    assert.strictEqual(seen.status, 'completed');
    return seen.status;
}

/* Plays it once; gives what it became, as text. */
async function play(stage, example) {
    if (example.task) return playTask(stage, example);
    if (example.before) {
        await stage.leave();
        await stage.begin(example.before);
    }
    const one = new Play(stage, example);
    const first = async () => {
        await one.begin();
        if (example.first) await example.first(one);
    };
    await (example.first ? stage.calmly(first) : first());
    if (example.act) await example.act(one);
    return one.ends();
}

module.exports = { play };

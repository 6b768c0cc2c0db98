/* classes.js - what runner-0.4.js and runner-0.5.js share: in these versions of `zenaton` each workflow and each task is a class
 *
 * `text` writes data as the package does. The output of a work is such a text; that of a wait is null or the event, {name, data}.
 */
'use strict';

exports.of = ({ serializer, taskManager, workflowManager }, text) => {
    const value = (output) => (typeof output === 'string' ? serializer.decode(output) : output);
    const result = (output) => (output === null || typeof output === 'string' ? value(output) : { name: output.name, data: value(output.data) });
    const isFlow = (name) => workflowManager.getClass(name) !== undefined;
    const work = (b) => (isFlow(b.task_name) ? workflowManager.getWorkflow(b.task_name, b.task_input) : taskManager.getTask(b.task_name, b.task_input));
    const error = (b) => Object.assign(new Error(), JSON.parse(b.error_input), { name: b.error_name });

    /* The arguments of each method of a workflow. */
    const hooks = {
        handle: () => [],
        onEvent: (b) => [b.event_name, value(b.event_input)],
        onStart: (b) => [work(b)],
        onSuccess: (b) => [work(b), result(b.task_output)],
        onFailure: (b) => [work(b), error(b)],
        onTimeout: (b) => [work(b)],
    };
    const call = (flow, branch) => (flow[branch.type] ? flow[branch.type](...hooks[branch.type](branch)) : null);

    /* The works of the branch's n-th call of execute or dispatch. What a wait is comes from its definition: its end is computed again
     * each time the branch runs. */
    const works = (jobs, sync, n) =>
        jobs.map((job, i) => {
            const one = { name: job.name, position: jobs.length > 1 ? `${n}p${i}` : `${n}`, sync, type: 'task', input: text(job.data) };
            if (isFlow(job.name)) return { ...one, type: 'workflow' };
            if (job.name !== '_Wait') return { ...one, maxProcessingTime: job.maxProcessingTime && job.maxProcessingTime() };
            const [timestamp, duration] = job._getTimestampOrDuration();
            const { event } = job.data;
            return { ...one, type: 'wait', event, timestamp, duration, input: text({ event, by: job._buffer }) };
        });

    /* A workflow's methods are beside its data; they stay. */
    const restore = (data, properties) => {
        for (const key of Object.keys(data)) if (typeof data[key] !== 'function') delete data[key];
        Object.assign(data, value(properties));
    };

    /* A task: `this.context` says which one it is, as in later versions; its onFailureRetryDelay(error) is one of its own methods. */
    const task = (job) => {
        const one = taskManager.getTask(job.name, job.input || text({}));
        const data = one.data || {};
        Object.defineProperty(data, 'context', { value: { id: job.uuid, retryIndex: job.retryIndex } });
        return {
            run: async () => text(await one._promiseHandle()),
            delay: (failure) => data.onFailureRetryDelay && data.onFailureRetryDelay(failure),
        };
    };
    return { call, restore, result, task, works };
};

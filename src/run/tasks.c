/* tasks.c - tasks in hand: given to the pool, and how what their functions bring is committed (see tasks.h)
 *
 * If we crash, a function runs again unless its result is committed.
 */
#include "run/tasks.h"

#include "base/log.h"
#include "kernel/retry.h"
#include "run/handle.h"
#include "run/start.h"
#include "run/stats.h"
#include "store/error.h"

/* So long the driver runs functions before it commits what they brought. */
#define RUN_HERE_US 10000

/* ------------------------------------------------------------------------------ to and from the pool */

/* On a thread, or as driver: its function has returned, and the driver commits what it brought. */
static void task_finish(qp_task *task)
{
    qp *q = task->q; /* once it is added, the task is the driver's */
    struct tasks *all = &q->tasks;
    qp_task *before = atomic_load(&all->finished);
    do {
        task->next = before;
    } while (!atomic_compare_exchange_weak(&all->finished, &before, task));
    if (before == NULL) { /* else the event is set, or about to be */
        driver_wake(&q->driver);
    }
}

/* All that were finished since the last time, in order. */
static qp_task *take_finished(struct tasks *all)
{
    qp_task *rest = atomic_exchange(&all->finished, NULL);
    qp_task *first = NULL;
    while (rest != NULL) {
        qp_task *t = rest;
        rest = t->next;
        t->next = first;
        first = t;
    }
    return first;
}

/* A task that its function has detached comes back by a call of its own, if at all; a worker that leaves may have waited
 * for that function. */
static void task_ran(void *handle, qp_task *task)
{
    qp *q = handle;
    if (task != NULL) {
        task_finish(task);
    } else if (atomic_load(&q->tasks.leaving_count) > 0) {
        driver_wake(&q->driver);
    }
}

int tasks_init(qp *q)
{
    struct pool_hooks hooks = {.context = q, .run = task_run, .ran = task_ran};
    return pool_init(&q->tasks.pool, &q->env, hooks);
}

static void workers_free(const struct qp_env *env, struct worker *first)
{
    while (first != NULL) {
        struct worker *w = first;
        first = w->next;
        mem_free(env, w);
    }
}

void tasks_done(qp *q)
{
    QP_ASSERT(q->tasks.held == NULL);
    pool_done(&q->tasks.pool);
    workers_free(&q->env, q->tasks.workers);
    workers_free(&q->env, q->tasks.leaving);
}

void tasks_give(void *worker, struct task *task)
{
    struct worker *w = worker;
    stats_handed(w->q, task);
    pool_give(&w->q->tasks.pool, task_make(w->q, w, task));
}

void tasks_run_here(qp *q)
{
    int64_t until_us = driver_now_us(&q->driver) + RUN_HERE_US;
    while (pool_run_here(&q->tasks.pool) && !driver_is_stopped(&q->driver) &&
           driver_now_us(&q->driver) < until_us) {}
}

bool tasks_has_results(const qp *q)
{
    return atomic_load(&q->tasks.finished) != NULL;
}

bool tasks_has_unsent(const qp *q)
{
    return q->tasks.unsent != NULL;
}

bool tasks_has_any(const qp *q)
{
    return q->tasks.held != NULL || q->tasks.unsent != NULL;
}

/* ------------------------------------------------------------------------------------------- workers */

void worker_forget(struct worker *w)
{
    struct worker **link = &w->q->tasks.leaving;
    while (*link != w) {
        link = &(*link)->next;
    }
    *link = w->next;
    mem_free(&w->q->env, w);
}

/* One task less of it is in hand. */
static void worker_released(struct worker *w)
{
    QP_ASSERT(w->tasks > 0);
    w->tasks--;
    if (w->removed && w->tasks == 0) {
        worker_forget(w);
    }
}

void tasks_end_services(qp *q)
{
    for (struct worker *w = q->tasks.workers; w != NULL; w = w->next) {
        w->service.room = INT64_MIN / 2; /* ever */
    }
}

/* ------------------------------------------------------------------------------------- in hand */

/* Only a task whose claim has an end can have time limits of its own. */
static void limits_read(qp_task *t)
{
    qp_str limits;
    qp_str limit_key;
    if (t->task->until == 0) {
        return;
    }
    retry_task(t->task->policy, &limits, &limit_key);
    int rc = time_limits_parse(limits, &t->limits);
    QP_ASSERT(rc == QP_OK);
}

/* How long a task may wait for a thread before its lease, or a limit of its attempt, is over; 0: without end. */
static qp_ms renewal_ms(const qp_task *t)
{
    qp_ms beat_ms = t->limits.ms[TIME_LIMIT_BEAT];
    qp_ms run_ms = t->limits.ms[TIME_LIMIT_RUN];
    qp_ms ms = beat_ms > 0 ? beat_ms : t->task->service->lease_ms;
    return run_ms > 0 && (ms == 0 || run_ms < ms) ? run_ms : ms;
}

static void renew_at(qp *q, qp_ms at)
{
    if (q->tasks.renew_at == 0 || at < q->tasks.renew_at) {
        q->tasks.renew_at = at;
    }
}

qp_task *task_make(qp *q, struct worker *w, struct task *task)
{
    qp_task *t = (qp_task *)(task + 1);
    t->q = q;
    t->task = task;
    t->worker = w;
    t->handed_at = store_now(q->store);
    buf_init(&t->output, &q->env, LIMIT_PAYLOAD_SIZE);
    buf_init(&t->error, &q->env, LIMIT_ERROR_TEXT_SIZE);
    t->next_held = q->tasks.held;
    if (q->tasks.held != NULL) {
        q->tasks.held->previous_held = t;
    }
    q->tasks.held = t;
    if (w != NULL) {
        w->tasks++;
    }
    t->leased_at = t->handed_at;
    limits_read(t);
    if (w != NULL && renewal_ms(t) > 0) {
        renew_at(q, t->leased_at + renewal_ms(t) / 3);
    }
    return t;
}

void task_drop(qp_task *t)
{
    qp *q = t->q;
    if (t->previous_held != NULL) {
        t->previous_held->next_held = t->next_held;
    } else {
        q->tasks.held = t->next_held;
    }
    if (t->next_held != NULL) {
        t->next_held->previous_held = t->previous_held;
    }
    buf_done(&t->output);
    buf_done(&t->error);
    task_starts_free(t);
    if (t->worker != NULL) {
        worker_released(t->worker);
    }
    task_free(&q->env, t->task);
}

void tasks_drop_all(qp *q)
{
    while (q->tasks.held != NULL) {
        task_drop(q->tasks.held);
    }
}

void tasks_cancel(qp *q, struct job_ref job, qp_str guid)
{
    for (qp_task *t = q->tasks.held; t != NULL; t = t->next_held) {
        if (t->task->ref.ns == job.ns && t->task->ref.job == job.job &&
            (str_is_none(guid) || str_equal(t->task->ref.guid, guid))) {
            atomic_store(&t->cancelled, true);
        }
    }
}

void tasks_lost(qp *q, const struct msg_ref *ref)
{
    for (qp_task *t = q->tasks.held; t != NULL; t = t->next_held) {
        if (t->task->ref.token == ref->token && t->task->ref.job == ref->job) {
            atomic_store(&t->cancelled, true);
        }
    }
}

/* -------------------------------------------------------------------------------- on the driver */

static enum result_kind result_kind(const qp_task *t)
{
    if (!t->failed) {
        return RESULT_DONE;
    }
    return t->parked != NULL ? RESULT_PARK : RESULT_ERROR;
}

void task_result_fill(qp_task *t)
{
    struct request_result *r = &t->result;
    *r = (struct request_result){.task = t->task,
                                 .kind = result_kind(t),
                                 .reason = str_from(t->parked),
                                 .code = t->failed ? t->code : t->reply_code,
                                 .fatal = t->fatal,
                                 .host = t->failed || t->host.tx == NULL ? NULL : host_call,
                                 .host_context = &t->host};
    r->output = t->output.n > 0 && !t->failed ? buf_slice(&t->output) : QP_STR("null");
    r->error = buf_slice(&t->error);
    r->data = t->output.n > 0 && t->failed && !t->refused && !t->converted ? buf_slice(&t->output)
                                                                           : QP_NONE;
    request_result(r);
}

/* It is not in hand any more, and its worker has room for another. A renewal that the engine may still have keeps its
 * memory until that is answered. */
void task_end(qp_task *t)
{
    if (t->worker != NULL) {
        t->worker->service.room++;
    }
    if (t->renewing || t->backing) {
        t->over = true;
    } else {
        task_drop(t);
    }
}

static void unsent_add(qp_task *t)
{
    t->next = t->q->tasks.unsent;
    t->q->tasks.unsent = t;
}

/* The engine would not take it: that is now the task's error. What its kind refuses would be refused again: where a worker
 * elsewhere gets some more tries, the job of a function of this process is parked at once. */
static void convert(qp_task *t, int rc)
{
    char text[HOST_TEXT_SIZE];
    const struct refusal *refusal = &t->result.refusal;
    const char *why = rc == QP_E_ABORTED ? "the task's own writes refused" : qp_code_text(rc);
    bool refused = rc == QP_E_SHAPE && refusal->rc == rc;
    t->parked = refused ? t->result.parks : NULL;
    why = refused ? refusal_text(refusal, rc, why) : why;
    t->converted = true;
    t->failed = true;
    (void)task_keep_error(t, &(struct qp_failure){.message = host_why(&t->host, rc, why, text)});
    task_finish(t);
}

/* Whether the same result may be committed later. What a host's callback took too long for is no
 * failure of the store. */
static bool comes_again(int rc)
{
    return rc == QP_E_NOMEM || (qp_code_class(rc) == QP_CLASS_RETRY && rc != QP_E_TIMEOUT);
}

void task_counted(const qp_task *t, const struct request_result *r)
{
    stats_attempted(t->q, r, t->handed_at);
    if (r->kind == RESULT_DONE) {
        task_starts_done(t);
    }
}

static void result_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_result *r = (struct request_result *)c;
    qp_task *t = (qp_task *)((char *)r - offsetof(struct qp_task, result));
    qp *q = t->q;
    (void)e;
    q->driver.unanswered--;
    t->submitted = false;
    if (rc == QP_OK) {
        task_counted(t, r);
    }
    if (comes_again(rc)) {
        unsent_add(t);
        return;
    }
    if (rc != QP_OK && rc != QP_E_STALE && rc != QP_E_CLOSED && !t->converted &&
        qp_code_class(rc) != QP_CLASS_FATAL && qp_code_class(rc) != QP_CLASS_UNKNOWN) {
        convert(t, rc);
        return;
    }
    if (rc != QP_OK && rc != QP_E_STALE) {
        log_write(&q->env, QP_LOG_ERROR, LOG_MSG("a result was not committed"),
                  LOG_STR("job", t->task->jid), LOG_TEXT("why", why));
    }
    task_end(t);
}

static void task_submit(qp_task *t)
{
    struct qp_err err;
    int rc = QP_OK;
    task_result_fill(t);
    t->submitted = true;
    t->result.command.answer = result_answered;
    t->q->driver.unanswered++;
    if (t->result.kind == RESULT_DONE) {
        rc = task_starts_fill(t, &t->result, &err);
    }
    if (rc == QP_OK) {
        engine_submit(t->q->engine, &t->result.command);
    } else {
        result_answered(t->q->engine, &t->result.command, rc, err.text);
    }
}

void tasks_submit(qp *q)
{
    qp_task *finished = take_finished(&q->tasks);
    while (finished != NULL) {
        qp_task *t = finished;
        finished = t->next;
        t->next = NULL;
        task_submit(t);
    }
    while (q->tasks.unsent != NULL) {
        qp_task *t = q->tasks.unsent;
        q->tasks.unsent = t->next;
        t->next = NULL;
        task_submit(t);
    }
}

/* A task whose lease was lost learns that from its heartbeats and its result. */
static void renew_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_op *r = (struct request_op *)c;
    qp_task *t = (qp_task *)((char *)r - offsetof(struct qp_task, renew));
    (void)e;
    (void)rc;
    (void)why;
    t->renewing = false;
    if (t->over && !t->backing) {
        task_drop(t);
    }
}

/* When its attempt began, by the store's clock: when its function did; while that waits for a thread, now. */
static qp_ms began_at(const qp_task *t, qp_ms now)
{
    int64_t us = t->q->env.monotonic_us(t->q->env.context);
    return atomic_load(&t->begun) ? now - (us - t->begun_us) / 1000 : now;
}

/* The last renewal may be under way still, in a round that is being written or comes again: then it is
 * left to that, and a task whose result is under way needs none. */
static bool renews(const qp_task *t, qp_ms now)
{
    qp_ms ms = renewal_ms(t);
    return ms > 0 && !t->renewed_last && !t->submitted && !t->renewing && now - t->leased_at < ms;
}

/* The first delivery of a function that began at once needs no renewal: its claim was its beginning. */
static bool began_at_once(const qp_task *t, qp_ms now)
{
    return t->task->service->lease_ms == 0 && atomic_load(&t->begun) &&
           began_at(t, now) - t->leased_at <= renewal_ms(t) / 100;
}

static void task_renew(qp_task *t, qp_ms now)
{
    qp_ms began = began_at(t, now);
    t->renewing = true;
    t->leased_at = now;
    t->renewed_last = atomic_load(&t->begun);
    t->renew.op =
        (struct op){.kind = OP_msg_extend,
                    .msg_extend = {.ref = t->task->ref,
                                   .lease_ms = t->task->service->lease_ms,
                                   .begun_at = t->limits.ms[TIME_LIMIT_RUN] > 0 ? began : 0}};
    request_op(&t->renew);
    t->renew.command.answer = renew_answered;
    engine_submit(t->q->engine, &t->renew.command);
}

void tasks_renew(qp *q, qp_ms now)
{
    if (q->tasks.renew_at == 0 || now < q->tasks.renew_at) {
        return;
    }
    q->tasks.renew_at = 0;
    for (qp_task *t = q->tasks.held; t != NULL; t = t->next_held) {
        if (!renews(t, now) || (t->worker == NULL && t->task->service->lease_ms == 0)) {
            continue; /* none, or up to heartbeats, or over */
        }
        if (began_at_once(t, now)) {
            t->renewed_last = true;
            continue;
        }
        task_renew(t, now);
        renew_at(q, now + renewal_ms(t) / 3);
    }
}

qp_ms tasks_due(const qp *q)
{
    return q->tasks.renew_at > 0 ? q->tasks.renew_at : INT64_MAX;
}

/* Whatever the answer: what was not given back is ready when the run or its lease is over. */
static void back_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_op *r = (struct request_op *)c;
    qp_task *t = (qp_task *)((char *)r - offsetof(struct qp_task, back));
    (void)e;
    (void)rc;
    (void)why;
    t->q->driver.unanswered--;
    task_end(t);
}

void task_give_back(qp_task *t, enum task_back how)
{
    t->submitted = true;
    t->back.op = (struct op){.kind = OP_msg_retry,
                             .msg_retry = {.ref = t->task->ref, .untry = how == TASK_NOT_BEGUN}};
    request_op(&t->back);
    t->back.command.answer = back_answered;
    t->q->driver.unanswered++;
    engine_submit(t->q->engine, &t->back.command);
}

void tasks_give_back_detached(qp *q)
{
    for (qp_task *t = q->tasks.held; t != NULL; t = t->next_held) {
        if (atomic_load(&t->detached) && !t->submitted && !t->backing && !t->over) {
            task_give_back(t, TASK_BEGUN);
        }
    }
}

/* Its function still has it. */
static void running_back_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_op *r = (struct request_op *)c;
    qp_task *t = (qp_task *)((char *)r - offsetof(struct qp_task, back));
    (void)e;
    (void)rc;
    (void)why;
    t->q->driver.unanswered--;
    t->backing = false;
    if (t->over && !t->renewing) {
        task_drop(t);
    }
}

void tasks_give_back_running(qp *q)
{
    for (qp_task *t = q->tasks.held; t != NULL; t = t->next_held) {
        if (t->worker == NULL || t->submitted || !atomic_load(&t->begun)) {
            continue;
        }
        t->renewed_last = true;
        t->backing = true;
        t->back.op = (struct op){.kind = OP_msg_retry, .msg_retry = {.ref = t->task->ref}};
        request_op(&t->back);
        t->back.command.answer = running_back_answered;
        q->driver.unanswered++;
        engine_submit(q->engine, &t->back.command);
    }
}

/* tasks.c - tasks in hand: what a worker's function says, and how it is committed
 *
 * A result is committed or refused, never forgotten: when the store is busy or full it is sent again,
 * when the engine refuses what it brought, the refusal is sent as the task's error.
 */
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "run/handle.h"
#include "run/stats.h"
#include "store/error.h"

/* ------------------------------------------------------------------------------------- in hand */

qp_task *task_make(qp *q, struct worker *w, struct task *task)
{
    qp_task *t = (qp_task *)(task + 1);
    t->q = q;
    t->task = task;
    t->worker = w;
    t->handed_at = store_now(q->store);
    buf_init(&t->output, &q->env, LIMIT_PAYLOAD_SIZE);
    buf_init(&t->error, &q->env, LIMIT_ERROR_TEXT_SIZE);
    t->next_held = q->held;
    if (q->held != NULL) {
        q->held->previous_held = t;
    }
    q->held = t;
    if (w != NULL) {
        w->tasks++;
    }
    if (w != NULL && w->service.lease_ms > 0) {
        qp_ms at;
        t->leased_at = t->handed_at;
        at = t->leased_at + w->service.lease_ms / 3;
        q->renew_at = q->renew_at == 0 || at < q->renew_at ? at : q->renew_at;
    }
    return t;
}

void task_drop(qp_task *t)
{
    qp *q = t->q;
    if (t->previous_held != NULL) {
        t->previous_held->next_held = t->next_held;
    } else {
        q->held = t->next_held;
    }
    if (t->next_held != NULL) {
        t->next_held->previous_held = t->previous_held;
    }
    buf_done(&t->output);
    buf_done(&t->error);
    task_starts_free(t);
    if (t->worker != NULL) {
        worker_task_ended(t->worker);
    }
    task_free(&q->env, t->task);
}

void tasks_cancel(qp *q, struct job_ref job)
{
    for (qp_task *t = q->held; t != NULL; t = t->next_held) {
        if (t->task->ref.ns == job.ns && t->task->ref.job == job.job) {
            atomic_store(&t->cancelled, true);
        }
    }
}

static qp *engine_of(const qp_task *t)
{
    return t == NULL ? NULL : t->q;
}

qp_str qp_task_input(const qp_task *t)
{
    return t == NULL ? QP_NONE : t->task->input;
}

qp_str qp_task_job(const qp_task *t)
{
    return t == NULL ? QP_NONE : t->task->jid;
}

qp_str qp_task_topic(const qp_task *t)
{
    return t == NULL ? QP_NONE : t->task->topic;
}

qp_str qp_task_last_progress(const qp_task *t)
{
    return t == NULL ? QP_NONE : t->task->progress;
}

int64_t qp_task_attempt(const qp_task *t)
{
    return t == NULL ? 0 : t->task->tries;
}

void task_key(const struct task *task, char out_key[QP_TASK_KEY_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < LIMIT_GUID_SIZE; i++) {
        out_key[2 * i] = digits[task->guid[i] >> 4];
        out_key[2 * i + 1] = digits[task->guid[i] & 15];
    }
    out_key[QP_TASK_KEY_SIZE - 1] = '\0';
}

void qp_task_key(const qp_task *t, char out_key[QP_TASK_KEY_SIZE])
{
    if (t != NULL && out_key != NULL) {
        task_key(t->task, out_key);
    }
}

void qp_task_token(const qp_task *t, char out_token[QP_TASK_TOKEN_SIZE])
{
    const struct msg_ref *ref;
    char key[QP_TASK_KEY_SIZE];
    int n;
    if (t == NULL || out_token == NULL) {
        return;
    }
    ref = &t->task->ref;
    task_key(t->task, key);
    n = snprintf(out_token, QP_TASK_TOKEN_SIZE, "t1.%lld.%lld.%s.%lld", (long long)ref->ns,
                 (long long)ref->job, key, (long long)ref->token);
    QP_ASSERT(n > 0 && n < QP_TASK_TOKEN_SIZE);
}

int qp_task_is_cancelled(const qp_task *t)
{
    return t != NULL && atomic_load(&t->cancelled);
}

int qp_task_is_closing(const qp_task *t)
{
    return t != NULL && atomic_load(&t->q->closing);
}

/* --------------------------------------------------------------------- what the function says */

static int output_check(const qp_task *t, qp_str json, struct qp_err *err)
{
    int rc =
        json.n > LIMIT_PAYLOAD_SIZE
            ? err_set(err, QP_E_TOO_LARGE, "%zu bytes, the limit is %d", json.n, LIMIT_PAYLOAD_SIZE)
            : json_check(&t->q->env, json, NULL, err);
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "output");
}

/* Keeps what is wrong. Whether the task fails with it is the caller's to say. */
static int keep_error(qp_task *t, const struct qp_failure *failure)
{
    buf_reset(&t->error);
    buf_str(&t->error, error_cut(str_from(failure->message != NULL ? failure->message
                                                                   : "the worker gave no reason")));
    t->code = failure->code >= 400 && failure->code < 600 ? failure->code : 500;
    t->fatal = failure->fatal != 0;
    return QP_E_ABORTED;
}

int qp_task_fail(qp_task *t, const struct qp_failure *failure)
{
    if (t == NULL) {
        return QP_E_INVALID;
    }
    t->reported = true;
    return failure == NULL ? keep_error(t, &(struct qp_failure){0}) : keep_error(t, failure);
}

/* What the function brought cannot be its output. A failure that it has reported is kept. */
static int refuse(qp_task *t, const char *why)
{
    return t->reported ? QP_E_ABORTED
                       : keep_error(t, &(struct qp_failure){.message = why, .fatal = 1});
}

int qp_task_reply(qp_task *t, int code, qp_str json)
{
    if (t == NULL) {
        return QP_E_INVALID;
    }
    if (code < 100 || code > 599 || code == 202) {
        t->refused = true;
        return refuse(
            t, "the code of a reply is 100 to 599, and not 202, which qp_task_pending gives");
    }
    t->reply_code = code;
    return qp_task_output(t, json);
}

int qp_task_output(qp_task *t, qp_str json)
{
    struct qp_err err;
    int rc;
    if (t == NULL) {
        return QP_E_INVALID;
    }
    rc = output_check(t, json, &err);
    t->refused = true;
    if (rc != QP_OK && rc != QP_E_NOMEM) {
        (void)refuse(t, err.text);
    }
    if (rc != QP_OK) {
        return rc;
    }
    buf_reset(&t->output);
    buf_str(&t->output, json);
    t->refused = buf_rc(&t->output) != QP_OK;
    return buf_rc(&t->output);
}

void qp_task_tx(qp_task *t, qp_tx tx, void *context)
{
    if (t != NULL) {
        t->host = (struct host_tx){.tx = tx, .context = context};
    }
}

int qp_task_detach(qp_task *t, struct qp_err *err)
{
    ENTER(engine_of(t), true, err);
    if (t->out_detached == NULL) {
        return err_set(err, QP_E_INVALID, "detach: %s",
                       atomic_load(&t->detached)
                           ? "the task was detached before"
                           : "the task is not in the hands of a worker's function");
    }
    *t->out_detached = true;
    t->out_detached = NULL;
    atomic_store(&t->detached, true);
    return QP_OK;
}

bool task_run(qp_task *t)
{
    bool detached = false;
    int rc;
    /* It is NULL again, or the task is another owner's, when this returns. */
    /* cppcheck-suppress autoVariables */
    t->out_detached = &detached;
    atomic_store(&t->begun, true);
    rc = t->worker->work(t->worker->context, t);
    if (detached) {
        return false;
    }
    t->out_detached = NULL;
    t->failed = rc != QP_OK || t->refused || t->reported;
    if (t->failed && t->code == 0) {
        rc = rc == QP_OK ? QP_E_NOMEM : rc; /* the only refusal that says nothing itself */
        (void)keep_error(t, &(struct qp_failure){.message = qp_code_text(rc)});
    }
    return true;
}

/* -------------------------------------------------------------------------------- on the driver */

static void result_fill(qp_task *t)
{
    struct request_result *r = &t->result;
    *r = (struct request_result){.task = t->task,
                                 .kind = t->failed ? RESULT_ERROR : RESULT_DONE,
                                 .code = t->failed ? t->code : t->reply_code,
                                 .fatal = t->fatal,
                                 .host = t->failed || t->host.tx == NULL ? NULL : host_run,
                                 .host_context = &t->host};
    r->output = t->output.n > 0 && !t->failed ? buf_slice(&t->output) : QP_STR("null");
    r->error = buf_slice(&t->error);
    request_result(r);
}

/* It is not in hand any more, and its worker has room for another. A renewal that the engine may still have keeps its
 * memory until that is answered. */
static void task_end(qp_task *t)
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
    t->next = t->q->unsent;
    t->q->unsent = t;
}

/* The engine would not take it: that is now the task's error. */
static void convert(qp_task *t, int rc)
{
    char text[HOST_TEXT_SIZE];
    const char *why = rc == QP_E_ABORTED ? "the task's own writes refused" : qp_code_text(rc);
    t->converted = true;
    t->failed = true;
    (void)keep_error(t, &(struct qp_failure){.message = host_why(&t->host, rc, why, text)});
    pool_finish(t->q, t);
}

/* Whether the same result may be committed later. What a host's callback took too long for is no
 * failure of the store. */
static bool comes_again(int rc)
{
    return rc == QP_E_NOMEM || (qp_code_class(rc) == QP_CLASS_RETRY && rc != QP_E_TIMEOUT);
}

static void result_counted(const qp_task *t, const struct request_result *r)
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
    q->unanswered--;
    t->submitted = false;
    if (rc == QP_OK) {
        result_counted(t, r);
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

void task_submit(qp_task *t)
{
    struct qp_err err;
    int rc = QP_OK;
    result_fill(t);
    t->submitted = true;
    t->result.command.answer = result_answered;
    t->q->unanswered++;
    if (t->result.kind == RESULT_DONE) {
        rc = task_starts_fill(t, &t->result, &err);
    }
    if (rc == QP_OK) {
        engine_submit(t->q->engine, &t->result.command);
    } else {
        result_answered(t->q->engine, &t->result.command, rc, err.text);
    }
}

/* Who has lost it is told by its heartbeats and by its result. */
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

/* The last renewal may be under way still, in a round that is being written or comes again: then it is
 * left to that, and a task whose result is under way needs none. */
void tasks_renew(qp *q, qp_ms now)
{
    if (q->renew_at == 0 || now < q->renew_at) {
        return;
    }
    q->renew_at = 0;
    for (qp_task *t = q->held; t != NULL; t = t->next_held) {
        qp_ms lease_ms = t->task->service->lease_ms;
        if (lease_ms == 0 || t->renewed_last || t->submitted || t->renewing ||
            now - t->leased_at >= lease_ms) {
            continue; /* none, or up to heartbeats, or over */
        }
        t->renewing = true;
        t->leased_at = now;
        t->renewed_last = atomic_load(&t->begun);
        t->renew.op = (struct op){.kind = OP_msg_extend,
                                  .msg_extend = {.ref = t->task->ref, .lease_ms = lease_ms}};
        request_op(&t->renew);
        t->renew.command.answer = renew_answered;
        engine_submit(q->engine, &t->renew.command);
        if (q->renew_at == 0 || now + lease_ms / 3 < q->renew_at) {
            q->renew_at = now + lease_ms / 3;
        }
    }
}

/* Whatever the answer: what was not given back is ready when the run or its lease is over. */
static void back_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_op *r = (struct request_op *)c;
    qp_task *t = (qp_task *)((char *)r - offsetof(struct qp_task, back));
    (void)e;
    (void)rc;
    (void)why;
    t->q->unanswered--;
    task_end(t);
}

void task_give_back(qp_task *t, enum task_back how)
{
    t->submitted = true;
    t->back.op = (struct op){.kind = OP_msg_retry,
                             .msg_retry = {.ref = t->task->ref, .untry = how == TASK_NOT_BEGUN}};
    request_op(&t->back);
    t->back.command.answer = back_answered;
    t->q->unanswered++;
    engine_submit(t->q->engine, &t->back.command);
}

void tasks_give_back_detached(qp *q)
{
    for (qp_task *t = q->held; t != NULL; t = t->next_held) {
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
    t->q->unanswered--;
    t->backing = false;
    if (t->over && !t->renewing) {
        task_drop(t);
    }
}

void tasks_give_back_running(qp *q)
{
    for (qp_task *t = q->held; t != NULL; t = t->next_held) {
        if (t->worker == NULL || t->submitted || !atomic_load(&t->begun)) {
            continue;
        }
        t->renewed_last = true;
        t->backing = true;
        t->back.op = (struct op){.kind = OP_msg_retry, .msg_retry = {.ref = t->task->ref}};
        request_op(&t->back);
        t->back.command.answer = running_back_answered;
        q->unanswered++;
        engine_submit(q->engine, &t->back.command);
    }
}

/* -------------------------------------------------------------------- calls that a task makes */

/* A command that somebody waits for. */
struct task_call {
    struct call call;
    struct request_result result;
    struct request_op op;
    struct request_beat beat;
    qp_task *task;
};

static void call_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_result *r = (struct request_result *)c;
    struct task_call *tc = (struct task_call *)((char *)r - offsetof(struct task_call, result));
    char text[HOST_TEXT_SIZE];
    (void)e;
    if (rc != QP_OK) {
        (void)err_set(tc->call.err, rc, "task of '%.*s': %s", STR_ARG(tc->task->task->jid),
                      host_why(&tc->task->host, rc, why, text));
    }
    if (rc == QP_OK) {
        result_counted(tc->task, r);
    }
    call_done(tc->task->q, &tc->call, rc);
}

static void op_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_op *r = (struct request_op *)c;
    struct task_call *tc = (struct task_call *)((char *)r - offsetof(struct task_call, op));
    (void)e;
    if (rc != QP_OK) {
        (void)err_set(tc->call.err, rc, "task of '%.*s': %s", STR_ARG(tc->task->task->jid), why);
    }
    call_done(tc->task->q, &tc->call, rc);
}

static void beat_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_beat *r = (struct request_beat *)c;
    struct task_call *tc = (struct task_call *)((char *)r - offsetof(struct task_call, beat));
    (void)e;
    if (rc != QP_OK) {
        (void)err_set(tc->call.err, rc, "task of '%.*s': %s", STR_ARG(tc->task->task->jid), why);
    }
    call_done(tc->task->q, &tc->call, rc);
}

static void run_result(qp *q, struct call *c)
{
    struct task_call *tc = (struct task_call *)c;
    int rc = QP_OK;
    tc->result.command.answer = call_answered;
    request_result(&tc->result);
    if (tc->result.kind == RESULT_DONE) {
        rc = task_starts_fill(tc->task, &tc->result, c->err);
    }
    if (rc == QP_OK) {
        engine_submit(q->engine, &tc->result.command);
    } else {
        call_done(q, c, rc);
    }
}

static void run_op(qp *q, struct call *c)
{
    struct task_call *tc = (struct task_call *)c;
    tc->op.command.answer = op_answered;
    request_op(&tc->op);
    engine_submit(q->engine, &tc->op.command);
}

static void run_beat(qp *q, struct call *c)
{
    struct task_call *tc = (struct task_call *)c;
    tc->beat.command.answer = beat_answered;
    request_beat(&tc->beat);
    engine_submit(q->engine, &tc->beat.command);
}

int qp_task_pending(qp_task *t, qp_str json, struct qp_err *err)
{
    ENTER(engine_of(t), true, err);
    struct task_call tc = {.call = {.run = run_result, .q = t->q},
                           .task = t,
                           .result = {.task = t->task,
                                      .kind = RESULT_PENDING,
                                      .output = json,
                                      .pending_index = t->pending_count + 1}};
    int rc = output_check(t, json, err);
    rc = rc == QP_OK ? call_do(t->q, &tc.call, err) : rc;
    t->pending_count += rc == QP_OK;
    return rc;
}

int qp_task_heartbeat(qp_task *t, struct qp_err *err)
{
    ENTER(engine_of(t), true, err);
    struct task_call tc = {.call = {.run = run_op, .q = t->q}, .task = t};
    qp_ms lease_ms = t->task->service->lease_ms;
    if (lease_ms > 0) {
        tc.op.op = (struct op){.kind = OP_msg_extend,
                               .msg_extend = {.ref = t->task->ref, .lease_ms = lease_ms}};
    } else {
        tc.op.op = (struct op){.kind = OP_msg_fence, .msg_fence = {.ref = t->task->ref}};
    }
    return call_do(t->q, &tc.call, err);
}

int qp_task_progress(qp_task *t, qp_str json, struct qp_err *err)
{
    ENTER(engine_of(t), true, err);
    struct task_call tc = {
        .call = {.run = run_beat, .q = t->q},
        .task = t,
        .beat = {.ref = t->task->ref, .lease_ms = t->task->service->lease_ms, .progress = json}};
    int rc = json.n > LIMIT_PROGRESS_SIZE
                 ? err_set(err, QP_E_TOO_LARGE, "%zu bytes, the limit is %d", json.n,
                           LIMIT_PROGRESS_SIZE)
                 : json_check(&t->q->env, json, NULL, err);
    return rc == QP_OK ? call_do(t->q, &tc.call, err) : err_wrap(err, rc, "progress");
}

/* ---------------------------------------------------------------------------------- by hand */

/* Frees the task on the driver, where the list of those in hand belongs. */
static void run_drop(qp *q, struct call *c)
{
    struct task_call *tc = (struct task_call *)c;
    task_end(tc->task);
    call_done(q, c, QP_OK);
}

/* The task of a worker's function ends when that returns: ended before, it would be committed and freed twice. */
static int by_hand_check(const qp_task *t, const char *function, struct qp_err *err)
{
    return t->worker == NULL || t->detached
               ? QP_OK
               : err_set(
                     err, QP_E_INVALID,
                     "%s: it is for tasks of qp_task_claim and qp_task_detach: the function of a "
                     "worker calls qp_task_output or qp_task_fail, and returns",
                     function);
}

/* A task is over when it is committed, or when it was no longer ours; else it stays in hand. */
static int end_by_hand(struct task_call *tc, struct qp_err *err)
{
    qp *q = tc->task->q;
    struct task_call drop = {.call = {.run = run_drop, .q = q, .local = true}, .task = tc->task};
    int rc = call_do(q, &tc->call, err);
    if (rc == QP_OK || rc == QP_E_STALE) {
        (void)call_do(q, &drop.call, NULL); /* it cannot fail */
    }
    return rc;
}

int qp_task_complete(qp_task *t, qp_str output, struct qp_err *err)
{
    ENTER(engine_of(t), true, err);
    QP_TRY(by_hand_check(t, __func__, err));
    struct task_call tc = {.call = {.run = run_result, .q = t->q},
                           .task = t,
                           .result = {.task = t->task,
                                      .kind = RESULT_DONE,
                                      .output = output,
                                      .host = t->host.tx == NULL ? NULL : host_run,
                                      .host_context = &t->host}};
    int rc = QP_OK;
    if (str_is_none(output) && t->refused) {
        rc = err_set(err, QP_E_INVALID, "the output that was given before was refused");
    } else if (str_is_none(output)) {
        tc.result.output = t->output.n > 0 ? buf_slice(&t->output) : QP_STR("null");
        tc.result.code = t->reply_code;
    } else {
        rc = output_check(t, output, err);
    }
    return rc == QP_OK ? end_by_hand(&tc, err) : err_wrap(err, rc, "complete");
}

int qp_task_error(qp_task *t, const struct qp_failure *failure, struct qp_err *err)
{
    ENTER(engine_of(t), failure != NULL, err);
    QP_TRY(by_hand_check(t, __func__, err));
    struct task_call tc = {.call = {.run = run_result, .q = t->q}, .task = t};
    (void)keep_error(t, failure);
    t->failed = true;
    result_fill(t);
    tc.result = t->result;
    t->failed = false;
    return end_by_hand(&tc, err);
}

int qp_task_retry(qp_task *t, qp_ms delay_ms, struct qp_err *err)
{
    ENTER(engine_of(t), true, err);
    QP_TRY(by_hand_check(t, __func__, err));
    struct task_call tc = {
        .call = {.run = run_op, .q = t->q},
        .task = t,
        .op.op = {.kind = OP_msg_retry, .msg_retry = {.ref = t->task->ref, .delay_ms = delay_ms}}};
    return end_by_hand(&tc, err);
}

/* task_calls.c - calls that a task makes while it is in hand, and that end one which was claimed by hand or detached
 *
 * If we crash before the commit of such a call, nothing of it has happened, and the task is delivered again.
 */
#include "base/json.h"
#include "run/enter.h"
#include "run/handle.h"
#include "run/loop.h"
#include "run/start.h"

static qp *engine_of(const qp_task *t)
{
    return t == NULL ? NULL : t->q;
}

/* -------------------------------------------------------------------- calls that a task makes */

/* A command that a thread waits for. */
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
        task_counted(tc->task, r);
    }
    call_done(&tc->task->q->driver, &tc->call, rc);
}

static void op_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_op *r = (struct request_op *)c;
    struct task_call *tc = (struct task_call *)((char *)r - offsetof(struct task_call, op));
    (void)e;
    if (rc != QP_OK) {
        (void)err_set(tc->call.err, rc, "task of '%.*s': %s", STR_ARG(tc->task->task->jid), why);
    }
    call_done(&tc->task->q->driver, &tc->call, rc);
}

static void beat_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_beat *r = (struct request_beat *)c;
    struct task_call *tc = (struct task_call *)((char *)r - offsetof(struct task_call, beat));
    (void)e;
    if (rc != QP_OK) {
        (void)err_set(tc->call.err, rc, "task of '%.*s': %s", STR_ARG(tc->task->task->jid), why);
    }
    call_done(&tc->task->q->driver, &tc->call, rc);
}

static void result_execute(qp *q, struct call *c)
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
        call_done(&q->driver, c, rc);
    }
}

static void op_execute(qp *q, struct call *c)
{
    struct task_call *tc = (struct task_call *)c;
    tc->op.command.answer = op_answered;
    request_op(&tc->op);
    engine_submit(q->engine, &tc->op.command);
}

static void beat_execute(qp *q, struct call *c)
{
    struct task_call *tc = (struct task_call *)c;
    tc->beat.command.answer = beat_answered;
    request_beat(&tc->beat);
    engine_submit(q->engine, &tc->beat.command);
}

int qp_task_pending(qp_task *t, qp_str json, struct qp_err *err)
{
    ENTER(engine_of(t), true, err);
    struct task_call tc = {.call = {.execute = result_execute, .q = t->q},
                           .task = t,
                           .result = {.task = t->task,
                                      .kind = RESULT_PENDING,
                                      .output = json,
                                      .pending_index = t->pending_count + 1}};
    int rc = task_output_check(t, json, err);
    rc = rc == QP_OK ? call_do(&t->q->driver, &tc.call, err) : rc;
    t->pending_count += rc == QP_OK;
    return rc;
}

int qp_task_heartbeat(qp_task *t, struct qp_err *err)
{
    ENTER(engine_of(t), true, err);
    struct task_call tc = {.call = {.execute = op_execute, .q = t->q}, .task = t};
    qp_ms lease_ms = t->task->service->lease_ms;
    if (t->task->until > 0) {
        tc.op.op = (struct op){.kind = OP_msg_extend,
                               .msg_extend = {.ref = t->task->ref, .lease_ms = lease_ms}};
    } else {
        tc.op.op = (struct op){.kind = OP_msg_fence, .msg_fence = {.ref = t->task->ref}};
    }
    return call_do(&t->q->driver, &tc.call, err);
}

int qp_task_progress(qp_task *t, qp_str json, struct qp_err *err)
{
    ENTER(engine_of(t), true, err);
    struct task_call tc = {
        .call = {.execute = beat_execute, .q = t->q},
        .task = t,
        .beat = {.ref = t->task->ref, .lease_ms = t->task->service->lease_ms, .progress = json}};
    int rc = json.n > LIMIT_PROGRESS_SIZE
                 ? err_set(err, QP_E_TOO_LARGE, "%zu bytes, the limit is %d", json.n,
                           LIMIT_PROGRESS_SIZE)
                 : json_check(&t->q->env, json, NULL, err);
    return rc == QP_OK ? call_do(&t->q->driver, &tc.call, err) : err_wrap(err, rc, "progress");
}

/* ---------------------------------------------------------------------------------- by hand */

/* Frees the task on the driver, where the list of those in hand belongs. */
static void drop_execute(qp *q, struct call *c)
{
    struct task_call *tc = (struct task_call *)c;
    task_end(tc->task);
    call_done(&q->driver, c, QP_OK);
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
    struct task_call drop = {.call = {.execute = drop_execute, .q = q, .local = true},
                             .task = tc->task};
    int rc = call_do(&q->driver, &tc->call, err);
    if (rc == QP_OK || rc == QP_E_STALE) {
        (void)call_do(&q->driver, &drop.call, NULL); /* it cannot fail */
    }
    return rc;
}

int qp_task_complete(qp_task *t, qp_str output, struct qp_err *err)
{
    ENTER(engine_of(t), true, err);
    QP_TRY(by_hand_check(t, __func__, err));
    struct task_call tc = {.call = {.execute = result_execute, .q = t->q},
                           .task = t,
                           .result = {.task = t->task,
                                      .kind = RESULT_DONE,
                                      .output = output,
                                      .host = t->host.tx == NULL ? NULL : host_call,
                                      .host_context = &t->host}};
    int rc = QP_OK;
    if (str_is_none(output) && t->refused) {
        rc = err_set(err, QP_E_INVALID, "the output that was given before was refused");
    } else if (str_is_none(output)) {
        tc.result.output = t->output.n > 0 ? buf_slice(&t->output) : QP_STR("null");
        tc.result.code = t->reply_code;
    } else {
        rc = task_output_check(t, output, err);
    }
    return rc == QP_OK ? end_by_hand(&tc, err) : err_wrap(err, rc, "complete");
}

int qp_task_error(qp_task *t, const struct qp_failure *failure, struct qp_err *err)
{
    ENTER(engine_of(t), failure != NULL, err);
    QP_TRY(by_hand_check(t, __func__, err));
    struct task_call tc = {.call = {.execute = result_execute, .q = t->q}, .task = t};
    (void)task_keep_error(t, failure);
    t->failed = true;
    task_result_fill(t);
    tc.result = t->result;
    t->failed = false;
    return end_by_hand(&tc, err);
}

int qp_task_retry(qp_task *t, qp_ms delay_ms, struct qp_err *err)
{
    ENTER(engine_of(t), true, err);
    QP_TRY(by_hand_check(t, __func__, err));
    struct task_call tc = {
        .call = {.execute = op_execute, .q = t->q},
        .task = t,
        .op.op = {.kind = OP_msg_retry, .msg_retry = {.ref = t->task->ref, .delay_ms = delay_ms}}};
    return end_by_hand(&tc, err);
}

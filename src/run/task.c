/* task.c - what a worker's function reads and says of its task (see task.h) */
#include "run/task.h"

#include <stdio.h>

#include "base/json.h"
#include "run/enter.h"
#include "run/handle.h"
#include "run/ids.h"
#include "store/error.h"

/* ------------------------------------------------------------------------------------ what is read */

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
    return t != NULL && atomic_load(&t->q->driver.closing);
}

/* --------------------------------------------------------------------- what the function says */

int task_output_check(const qp_task *t, qp_str json, struct qp_err *err)
{
    int rc =
        json.n > LIMIT_PAYLOAD_SIZE
            ? err_set(err, QP_E_TOO_LARGE, "%zu bytes, the limit is %d", json.n, LIMIT_PAYLOAD_SIZE)
            : json_check(&t->q->env, json, NULL, err);
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "output");
}

/* Keeps what is wrong. Whether the task fails with it is the caller's to say. */
int task_keep_error(qp_task *t, const struct qp_failure *failure)
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
    return failure == NULL ? task_keep_error(t, &(struct qp_failure){0})
                           : task_keep_error(t, failure);
}

/* What the function brought cannot be its output. A failure that it has reported is kept. */
static int refuse(qp_task *t, const char *why)
{
    return t->reported ? QP_E_ABORTED
                       : task_keep_error(t, &(struct qp_failure){.message = why, .fatal = 1});
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
    rc = task_output_check(t, json, &err);
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
    t->begun_us = t->q->env.monotonic_us(t->q->env.context);
    atomic_store(&t->begun, true);
    rc = t->worker->work(t->worker->context, t);
    if (detached) {
        return false;
    }
    t->out_detached = NULL;
    t->failed = rc != QP_OK || t->refused || t->reported;
    if (t->failed && t->code == 0) {
        rc = rc == QP_OK ? QP_E_NOMEM : rc; /* the only refusal that says nothing itself */
        (void)task_keep_error(t, &(struct qp_failure){.message = qp_code_text(rc)});
    }
    return true;
}

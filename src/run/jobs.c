/* jobs.c - reading a job and waiting for its end; writes of the host */
#include <stdio.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "kernel/filter.h"
#include "kernel/single.h"
#include "run/handle.h"
#include "store/error.h"

#define LOOK_MS 200 /* between two looks at a job that another process may end */

const char *state_word(enum job_state state)
{
    static const char *const words[JOB_STATES] = {"running", "completed", "failed", "cancelled",
                                                  "interrupted"};
    return words[state];
}

int job_error(struct qp_err *err, int rc, qp_str id, const char *what, const char *why)
{
    char shown[LIMIT_LOG_ECHO_SIZE];
    (void)log_escape(id, shown, sizeof shown); /* its length does not matter */
    return err_set(err, rc, "%s '%s': %s", what, shown, why);
}

/* ------------------------------------------------------------------------------------------- read */

struct reading {
    struct call call;
    struct watch watch;
    qp_str id;
    struct qp_job *job;
    bool wait;     /* until it has ended */
    bool watched;  /* it had not, when it was read; the caller's from then on */
    bool watching; /* the driver's */
    bool told;     /* under the lock: it has ended or was parked, look again */
};

static int add_failures(void *context, const void *row)
{
    *(int64_t *)context += ((const struct act_row *)row)->attempt;
    return QP_OK;
}

/* Of all its activities. */
static int job_failures(qp *q, const struct job_row *job, int64_t *out_failures)
{
    struct act_row key = {.ns = job->ns, .job = job->job};
    struct scan scan = {.table = TABLE_act,
                        .index = -1,
                        .prefix = &key,
                        .prefix_count = 2,
                        .limit = SIZE_MAX,
                        .slim = true};
    *out_failures = 0;
    return store_scan(q->store, &scan, out_failures, add_failures, NULL);
}

/* In the one shape, also where the row has a sentence: why it was parked, or what an older version wrote. */
static int job_error_of(struct arena *arena, const struct job_row *job, qp_str *out_error)
{
    qp_str text = job->parked.p != NULL ? job->parked : job->error;
    *out_error = text;
    return str_is_none(text) || error_has_shape(text)
               ? QP_OK
               : error_shape(arena, text, &(struct error){.code = ERROR_CODE}, out_error);
}

/* One block with the texts. */
static int job_fill(qp *q, const struct job_row *job, const struct act_row *act, qp_str output,
                    qp_str error, struct qp_job *out_job)
{
    char *memory = mem_alloc(&q->env, output.n + error.n + 1);
    if (memory == NULL) {
        return QP_E_NOMEM;
    }
    if (output.n > 0) {
        memcpy(memory, output.p, output.n);
    }
    if (error.n > 0) {
        memcpy(memory + output.n, error.p, error.n);
    }
    *out_job = (struct qp_job){.status = status_word(job->status),
                               .output = {output.p == NULL ? NULL : memory, output.n},
                               .error = {error.p == NULL ? NULL : memory + output.n, error.n},
                               .open = job->sem,
                               .ledger = act == NULL ? 0 : act->ledger,
                               .memory = memory};
    return QP_OK;
}

int job_row_of(qp *q, struct arena *arena, int64_t ns, qp_str id, const struct job_row **out_job)
{
    const void *row = NULL;
    struct job_row key = {.ns = ns};
    int rc = store_get(q->store, arena, TABLE_job_name, &(struct job_name_row){.ns = ns, .jid = id},
                       &row, NULL);
    if (rc == QP_OK) {
        key.job = ((const struct job_name_row *)row)->job;
        rc = store_get(q->store, arena, TABLE_job, &key, &row, NULL);
    }
    if (rc == QP_OK) {
        *out_job = row;
    }
    return rc;
}

static int job_find(qp *q, struct arena *arena, qp_str id, const struct job_row **out_job,
                    struct qp_err *err)
{
    int rc = job_row_of(q, arena, q->ns, id, out_job);
    return rc == QP_OK ? QP_OK : job_error(err, rc, id, "job", qp_code_text(rc));
}

static void reading_told(qp *q, struct watch *w)
{
    struct reading *r = (struct reading *)((char *)w - offsetof(struct reading, watch));
    r->watching = false;
    (void)pthread_mutex_lock(&q->lock);
    r->told = true;
    q->answered = true;
    (void)pthread_mutex_unlock(&q->lock);
}

static void reading_ended(qp *q, struct watch *w, enum job_state state)
{
    (void)state;
    reading_told(q, w);
}

/* Nobody waits for a job that only a person can help. */
static int parked_error(const struct reading *r, const struct job_row *job)
{
    (void)job_error(r->call.err, QP_E_PARKED, r->id, "wait for",
                    "it is parked: repair the cause, then call qp_job_retry");
    return err_wrap(r->call.err, QP_E_PARKED, "%.*s", STR_ARG(job->parked));
}

/* Of a completed job: its own, or, of a single task, that of the response which closed it. */
static int job_output(qp *q, struct arena *arena, const struct job_row *job, qp_str *out_output)
{
    struct guid_row key = {
        .ns = job->ns, .job = job->job, .addr = QP_STR(SINGLE_ADDRESS), .guid = job->closed_by};
    struct guid_row closing = {0};
    int rc = QP_OK;
    if (job->kind == SINGLE_KIND && job->state == JOB_COMPLETED && job->output.p == NULL &&
        job->closed_by.p != NULL) {
        rc = store_guid(q->store, arena, &key, &closing, NULL);
    }
    if (rc == QP_OK || rc == QP_E_NOT_FOUND) {
        *out_output = job->state != JOB_COMPLETED ? QP_NONE
                      : job->output.p != NULL     ? job->output
                                                  : closing.output;
        rc = QP_OK;
    }
    return rc;
}

/* Reads the job, or, while it has not ended, waits for its end. */
static int read_job(qp *q, struct reading *r)
{
    struct arena arena;
    const struct job_row *job = NULL;
    const void *act = NULL;
    int rc;
    arena_init(&arena, &q->env, 0);
    rc = job_find(q, &arena, r->id, &job, r->call.err);
    if (rc == QP_OK && r->wait && job->completions == 0 && !str_is_none(job->parked)) {
        rc = parked_error(r, job);
    } else if (rc == QP_OK && r->wait && job->completions == 0) {
        r->watch.job = (struct job_ref){job->ns, job->job};
        r->watch.ended = reading_ended;
        r->watch.parked = reading_told;
        rc = watch_add(q, &r->watch);
        r->watched = r->watching = rc == QP_OK;
    } else if (rc == QP_OK) {
        struct act_row key = {.ns = job->ns, .job = job->job, .addr = QP_STR(SINGLE_ADDRESS)};
        qp_str output = QP_NONE;
        qp_str error = QP_NONE;
        int64_t failures = 0;
        rc = job->kind == SINGLE_KIND ? store_get(q->store, &arena, TABLE_act, &key, &act, NULL)
                                      : QP_OK;
        rc = rc == QP_OK || rc == QP_E_NOT_FOUND ? job_output(q, &arena, job, &output) : rc;
        rc = rc == QP_OK ? job_error_of(&arena, job, &error) : rc;
        rc = rc == QP_OK ? job_failures(q, job, &failures) : rc;
        rc = rc == QP_OK ? job_fill(q, job, act, output, error, r->job) : rc;
        if (rc == QP_OK) {
            r->job->failures = failures;
        }
    }
    arena_done(&arena);
    return rc;
}

static void reading_run(qp *q, struct call *c)
{
    struct reading *r = (struct reading *)c;
    int rc = read_job(q, r);
    if (rc == QP_E_NOMEM) {
        (void)job_error(c->err, rc, r->id, "job", qp_code_text(rc));
    }
    call_done(q, c, rc);
}

/* A handle for reading has no driver to read on. */
static int engine_check(const qp *q, struct qp_err *err)
{
    return q->engine != NULL
               ? QP_OK
               : err_set(err, QP_E_READONLY,
                         "the store was opened for reading only: there, qp_job_show reads a job");
}

int qp_job_get(qp *q, qp_str id, struct qp_job *out_job, struct qp_err *err)
{
    ENTER(q, out_job != NULL, err);
    struct reading r = {.call = {.run = reading_run, .q = q}, .id = id, .job = out_job};
    QP_TRY(engine_check(q, err));
    QP_TRY(id_check(id, "job id", err));
    return call_do(q, &r.call, err);
}

void qp_job_done(qp *q, struct qp_job *job)
{
    if (q == NULL || job == NULL) {
        return;
    }
    mem_free(&q->env, job->memory);
    *job = (struct qp_job){0};
}

static void unwatch_run(qp *q, struct call *c)
{
    struct reading *r = (struct reading *)((char *)c - offsetof(struct reading, call));
    if (r->watching) {
        watch_remove(q, &r->watch);
        r->watching = false;
    }
    call_done(q, c, QP_OK);
}

/* The monotonic time of a timeout; one of more than ten years is for ever. */
static int64_t until_us(const qp *q, qp_ms timeout_ms)
{
    return timeout_ms < 0 || timeout_ms > LIMIT_TIMER_MS
               ? -1
               : q->env.monotonic_us(q->env.context) + timeout_ms * INT64_C(1000);
}

/* Where others work, too, nobody tells us that a job has ended: so we look now and then. */
static int64_t look_us(const qp *q, int64_t until)
{
    int64_t look = q->env.monotonic_us(q->env.context) + LOOK_MS * INT64_C(1000);
    return q->shared && (until < 0 || look < until) ? look : until;
}

/* Reads the job, and waits if it has neither ended nor been parked; *out_again: look once more. */
static int wait_for(qp *q, qp_str id, int64_t until, struct qp_job *out_job, bool *out_again,
                    struct qp_err *err)
{
    struct reading r = {
        .call = {.run = reading_run, .q = q}, .id = id, .job = out_job, .wait = true};
    int64_t look = look_us(q, until);
    struct qp_err why;
    int rc = call_do(q, &r.call, err);
    *out_again = false;
    if (rc != QP_OK || !r.watched) {
        return rc;
    }
    rc = wait_until(q, &r.told, look, &why);
    if (rc != QP_OK) {
        r.call.run = unwatch_run;
        r.call.local = true;
        (void)call_do(q, &r.call, NULL); /* it cannot fail */
    }
    *out_again = r.told || (rc == QP_E_TIMEOUT && look != until);
    return r.told ? QP_OK : job_error(err, rc, id, "wait for", why.text);
}

int qp_job_wait(qp *q, qp_str id, qp_ms timeout_ms, struct qp_job *out_job, struct qp_err *err)
{
    ENTER(q, out_job != NULL, err);
    int64_t until = until_us(q, timeout_ms);
    bool again = true;
    int rc;
    QP_TRY(engine_check(q, err));
    rc = id_check(id, "job id", err);
    while (rc == QP_OK && again) {
        rc = wait_for(q, id, until, out_job, &again, err);
        rc = again ? QP_OK : rc;
    }
    return rc;
}

/* ------------------------------------------------------------------------------------------- host */

struct executing {
    struct call call;
    struct request_op op;
    struct host_tx host;
    const char *what;
};

static void executing_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_op *r = (struct request_op *)c;
    struct executing *x = (struct executing *)((char *)r - offsetof(struct executing, op));
    char text[HOST_TEXT_SIZE];
    (void)e;
    if (rc != QP_OK) {
        (void)err_set(x->call.err, rc, "%s: %s", x->what, host_why(&x->host, rc, why, text));
    }
    call_done(x->call.q, &x->call, rc);
}

static void executing_run(qp *q, struct call *c)
{
    struct executing *x = (struct executing *)c;
    request_op(&x->op);
    x->op.command.answer = executing_answered;
    engine_submit(q->engine, &x->op.command);
}

int qp_exec(qp *q, qp_tx tx, void *context, struct qp_err *err)
{
    ENTER(q, tx != NULL, err);
    struct executing x = {.call = {.run = executing_run, .q = q},
                          .host = {.tx = tx, .context = context},
                          .what = "exec 'host'"};
    x.op.op = (struct op){.kind = OP_host_call, .host_call = {host_run, &x.host}};
    return call_do(q, &x.call, err);
}

int op_do(qp *q, struct op *op, const char *what, struct qp_err *err)
{
    struct executing x = {.call = {.run = executing_run, .q = q}, .op.op = *op, .what = what};
    int rc = call_do(q, &x.call, err);
    *op = x.op.op;
    return rc;
}

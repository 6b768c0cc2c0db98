/* jobs.c - reading what became of a job, and waiting for its end
 *
 * A job is read with a connection for reading (readers.h), so it waits for no round of the engine. A thread that waits
 * subscribes (follow.h) before it reads: an end that comes after the read is notified.
 */
#include "run/jobs.h"

#include "base/log.h"
#include "kernel/query.h"
#include "run/enter.h"
#include "run/handle.h"

const char *state_word(enum job_state state)
{
    static const char *const words[JOB_STATES] = {"running", "completed", "failed", "cancelled",
                                                  "interrupted"};
    QP_ASSERT((unsigned)state < JOB_STATES);
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
    struct query query;
    struct arena arena;
    qp_str id;
    bool only_ended; /* of a job that has not ended only the row is read */
    struct query_outcome outcome;
};

static int read_outcome(void *context, struct store *s, struct qp_err *err)
{
    struct reading *r = context;
    r->query.store = s;
    if (r->only_ended) {
        QP_TRY(query_find(&r->query, &r->arena, r->id, &r->outcome.job, err));
        if (r->outcome.job->completions == 0) {
            return QP_OK;
        }
    }
    return query_outcome(&r->query, &r->arena, r->id, &r->outcome, err);
}

static void reading_begin(qp *q, struct reading *r, qp_str id, bool only_ended)
{
    *r = (struct reading){
        .query = {.ns = q->ns, .faces = q->faces}, .id = id, .only_ended = only_ended};
    arena_init(&r->arena, &q->env, 0);
}

/* After a failure for good it is not known whether what a reader finds is on disk: nothing is told. */
static int reading_do(qp *q, struct reading *r, struct qp_err *err)
{
    int rc = ready_code(q);
    if (qp_code_class(rc) == QP_CLASS_FATAL) {
        return err_set(err, rc, "the store has failed (%s): open it again", qp_code_text(rc));
    }
    arena_reset(&r->arena);
    return reads_do(q, r, read_outcome, err);
}

/* One block with the texts. */
static int job_fill(qp *q, const struct reading *r, struct qp_job *out_job, struct qp_err *err)
{
    qp_str output = r->outcome.output;
    qp_str error = r->outcome.error;
    char *memory = mem_alloc(&q->env, output.n + error.n + 1);
    if (memory == NULL) {
        return job_error(err, QP_E_NOMEM, r->id, "job", qp_code_text(QP_E_NOMEM));
    }
    if (output.n > 0) {
        memcpy(memory, output.p, output.n);
    }
    if (error.n > 0) {
        memcpy(memory + output.n, error.p, error.n);
    }
    *out_job = (struct qp_job){.status = status_word(r->outcome.job->status),
                               .output = {output.p == NULL ? NULL : memory, output.n},
                               .error = {error.p == NULL ? NULL : memory + output.n, error.n},
                               .open = r->outcome.job->sem,
                               .ledger = r->outcome.ledger,
                               .failures = r->outcome.failures,
                               .memory = memory};
    return QP_OK;
}

/* The contract of quipu.h: a handle for reading reads jobs by qp_job_show. */
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
    struct reading r;
    int rc;
    QP_TRY(engine_check(q, err));
    QP_TRY(id_check(id, "job id", err));
    reading_begin(q, &r, id, false);
    rc = reading_do(q, &r, err);
    if (rc == QP_OK) {
        rc = job_fill(q, &r, out_job, err);
    }
    arena_done(&r.arena);
    return rc;
}

void qp_job_done(qp *q, struct qp_job *job)
{
    if (q == NULL || job == NULL) {
        return;
    }
    mem_free(&q->env, job->memory);
    *job = (struct qp_job){0};
}

/* ------------------------------------------------------------------------------------------- wait */

/* The monotonic time of a timeout; one of more than ten years never ends. */
static int64_t until_us(const qp *q, qp_ms timeout_ms)
{
    return timeout_ms < 0 || timeout_ms > LIMIT_TIMER_MS
               ? -1
               : q->env.monotonic_us(q->env.context) + timeout_ms * INT64_C(1000);
}

/* A job that is parked does not end before a person repairs the cause. */
static int parked_error(const struct reading *r, struct qp_err *err)
{
    (void)job_error(err, QP_E_PARKED, r->id, "wait for",
                    "it is parked: repair the cause, then call qp_job_retry");
    return err_wrap(err, QP_E_PARKED, "%.*s", STR_ARG(r->outcome.job->parked));
}

/* Reads the job; *out_open: it has neither ended nor been parked. */
static int read_whether_open(qp *q, struct reading *r, bool *out_open, struct qp_err *err)
{
    const struct job_row *job;
    QP_TRY(reading_do(q, r, err));
    job = r->outcome.job;
    if (job->completions == 0 && !str_is_none(job->parked)) {
        return parked_error(r, err);
    }
    *out_open = job->completions == 0;
    return QP_OK;
}

/* A database that is away may be back within the time that a call has (calls.h). */
static bool may_come_back(const qp *q, int rc, int64_t *away_us)
{
    int64_t now = q->env.monotonic_us(q->env.context);
    if (rc != QP_E_BUSY) {
        *away_us = 0;
        return false;
    }
    *away_us = *away_us == 0 ? now : *away_us;
    return now - *away_us < LIMIT_CALL_MS * INT64_C(1000);
}

/* Until this job has ended, or its id is another job's. */
static int wait_subscribed(qp *q, struct reading *r, struct follow_wait *w, int64_t until,
                           struct qp_err *err)
{
    int64_t job = w->subscription.job.job;
    int64_t away_us = 0;
    struct qp_err why;
    for (;;) {
        bool open = true;
        int rc = read_whether_open(q, r, &open, err);
        if (rc != QP_OK ? !may_come_back(q, rc, &away_us) : !open || r->outcome.job->job != job) {
            return rc;
        }
        rc = follow_wait_do(w, until, &why);
        if (rc != QP_OK) {
            return job_error(err, rc, r->id, "wait for", why.text);
        }
    }
}

static int wait_for_end(qp *q, struct reading *r, int64_t until, struct qp_err *err)
{
    bool open = true;
    QP_TRY(read_whether_open(q, r, &open, err));
    while (open) {
        struct follow_wait w;
        struct job_ref job = {q->ns, r->outcome.job->job};
        int rc = follow_wait_begin(q, job, &w);
        if (rc != QP_OK) {
            return job_error(err, rc, r->id, "wait for", qp_code_text(rc));
        }
        rc = wait_subscribed(q, r, &w, until, err);
        follow_wait_end(&w);
        if (rc != QP_OK) {
            return rc;
        }
        open = r->outcome.job->completions == 0; /* of another job with the same id */
    }
    return QP_OK;
}

int qp_job_wait(qp *q, qp_str id, qp_ms timeout_ms, struct qp_job *out_job, struct qp_err *err)
{
    ENTER(q, out_job != NULL, err);
    int64_t until = until_us(q, timeout_ms);
    struct reading r;
    int rc;
    QP_TRY(engine_check(q, err));
    QP_TRY(id_check(id, "job id", err));
    reading_begin(q, &r, id, true);
    rc = wait_for_end(q, &r, until, err);
    if (rc == QP_OK) {
        rc = job_fill(q, &r, out_job, err);
    }
    arena_done(&r.arena);
    return rc;
}

/* ready.c - whether the store can be written, by what the driver has seen of it
 *
 *   I1  a caller that asks is answered from what was noted, and waits for nothing: neither for the store nor for the driver
 *   I2  a turn that cannot write notes why; a commit, or where the database was away the connection, takes it back.
 *       Each of the two is logged once
 *   I3  a driver that works with the store for longer than LIMIT_READY_STALL_MS says that the store does not answer. A
 *       turn that fails does not end that time, so the next one, which may wait again, does not start it again
 *
 * While something is noted the driver tries a tiny commit with every turn, so that it knows of the end of it without
 * a caller that writes. It does the same when a caller asks and the last commit is long ago: a disk on which nothing
 * was written for a while may be full.
 *
 * If we crash here, a number that is never used was reserved, or a lease was renewed.
 */
#include "run/ready.h"

#include "base/log.h"
#include "run/drive.h"
#include "run/handle.h"

int ready_init(struct ready *r)
{
    return pthread_mutex_init(&r->lock, NULL) == 0 ? QP_OK : QP_E_NOMEM;
}

void ready_done(struct ready *r)
{
    (void)pthread_mutex_destroy(&r->lock);
}

static int64_t now_us(const qp *q)
{
    return q->env.monotonic_us(q->env.context);
}

int ready_code(qp *q)
{
    int rc;
    (void)pthread_mutex_lock(&q->ready.lock);
    rc = q->ready.rc;
    (void)pthread_mutex_unlock(&q->ready.lock);
    return rc;
}

static bool is_older(const qp *q, int64_t us, int64_t than_ms)
{
    return now_us(q) - us > than_ms * 1000;
}

int ready_now(qp *q, struct qp_err *err)
{
    int64_t silent = atomic_load(&q->ready.silent_us);
    int rc = ready_code(q);
    if (!drive_is_alive(q)) {
        return err_set(err, QP_E_CLOSED, "the engine has stopped");
    }
    if (rc != QP_OK) {
        return err_set(err, rc, "%s", rc == QP_E_BUSY ? "the database is away" : qp_code_text(rc));
    }
    if (silent != 0 && is_older(q, silent, LIMIT_READY_STALL_MS)) {
        return err_set(err, QP_E_TIMEOUT, "the store does not answer");
    }
    return QP_OK;
}

int ready_check(qp *q, struct qp_err *err)
{
    QP_TRY(ready_now(q, err));
    if (is_older(q, atomic_load(&q->ready.committed_us), LIMIT_READY_MS) &&
        !atomic_exchange(&q->ready.asked, true)) {
        driver_wake(&q->driver);
    }
    return QP_OK;
}

/* ------------------------------------------------------------------------------------- the driver */

static void proved(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_op *op = (struct request_op *)c;
    struct ready *r = (struct ready *)((char *)op - offsetof(struct ready, proof));
    (void)e;
    (void)rc; /* the turn says it */
    (void)why;
    r->proving = false;
}

/* Alone on its store, the run's row says nothing new. */
void ready_prove(qp *q)
{
    struct ready *r = &q->ready;
    bool asked = atomic_exchange(&r->asked, false) &&
                 is_older(q, atomic_load(&r->committed_us), LIMIT_READY_MS);
    if ((ready_code(q) == QP_OK && !asked) || r->proving || q->driver.failed != QP_OK) {
        return;
    }
    r->proof = (struct request_op){0};
    if (q->shared) {
        r->proof.op = (struct op){
            .kind = OP_node_put,
            .node_put = {.epoch = engine_kernel(q->engine)->epoch, .lease_ms = q->lease_ms}};
    } else {
        r->proof.op = (struct op){.kind = OP_ids_reserve, .ids_reserve = {.count = 1}};
    }
    request_op(&r->proof);
    r->proof.command.answer = proved;
    r->proving = true;
    engine_submit(q->engine, &r->proof.command);
}

/* What a turn says about the store. Others in the way, or a wrong request, are no fault of it. */
static int trouble_of(const qp *q, int rc)
{
    enum qp_class class = qp_code_class(rc);
    if (rc == QP_OK) {
        return QP_OK;
    }
    if (store_is_away(q->store)) {
        return QP_E_BUSY;
    }
    if (class == QP_CLASS_UNKNOWN) {
        return QP_E_FSYNC; /* that commit is its own matter; nothing more is written */
    }
    return rc == QP_E_FULL || rc == QP_E_IO || class == QP_CLASS_FATAL ? rc : QP_OK;
}

static void set_code(qp *q, int rc)
{
    (void)pthread_mutex_lock(&q->ready.lock);
    q->ready.rc = rc;
    (void)pthread_mutex_unlock(&q->ready.lock);
    q->ready.since_us = now_us(q);
}

static void log_trouble(qp *q, int trouble, const char *why)
{
    if (trouble == QP_E_FULL) {
        log_write(&q->env, QP_LOG_ERROR,
                  LOG_MSG("the disk is full: nothing is committed until there is room"),
                  LOG_TEXT("why", why));
    } else if (trouble == QP_E_BUSY) {
        log_write(&q->env, QP_LOG_ERROR, LOG_MSG("the database is away"), LOG_TEXT("why", why));
    } else {
        log_write(&q->env, QP_LOG_ERROR, LOG_MSG("the store cannot be written"),
                  LOG_TEXT("code", qp_code_word(trouble)), LOG_TEXT("why", why));
    }
}

static void log_return(qp *q, int trouble)
{
    int64_t ms = (now_us(q) - q->ready.since_us) / 1000;
    if (trouble == QP_E_BUSY) {
        log_write(&q->env, QP_LOG_WARN, LOG_MSG("the database is back"), LOG_I64("away_ms", ms));
    } else {
        log_write(&q->env, QP_LOG_WARN, LOG_MSG("the store can be written again"),
                  LOG_I64("after_ms", ms));
    }
}

void ready_begin(qp *q)
{
    if (atomic_load(&q->ready.silent_us) == 0) {
        atomic_store(&q->ready.silent_us, now_us(q));
    }
}

void ready_note(qp *q, int rc, const struct qp_err *err, bool committed)
{
    int before = q->ready.rc; /* only the driver sets it */
    int trouble = trouble_of(q, rc);
    if (rc == QP_OK) {
        atomic_store(&q->ready.silent_us, 0);
    }
    if (committed) {
        atomic_store(&q->ready.committed_us, now_us(q));
    }
    if (trouble != QP_OK && trouble != before) {
        set_code(q, trouble);
        log_trouble(q, trouble, err->text);
    } else if (before != QP_OK && trouble == QP_OK &&
               (committed || (before == QP_E_BUSY && rc == QP_OK))) {
        log_return(q, before);
        set_code(q, QP_OK);
    }
}

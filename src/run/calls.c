/* calls.c - the inbox of the driver (see calls.h)
 *
 * If we crash, nothing is lost that was answered: a call is answered after its commit.
 */
#include "run/handle.h"

/* A thread that has set no limit looks this often whether the store is away. */
#define LOOK_US (500 * INT64_C(1000))

bool call_may_move(enum call_stage from, enum call_stage to)
{
    /* A call that has ended may be asked again by its owner. */
    static const bool moves[CALL_STAGES][CALL_STAGES] = {
        [CALL_NEW] = {[CALL_QUEUED] = true},
        [CALL_QUEUED] = {[CALL_TAKEN] = true, [CALL_WITHDRAWN] = true},
        [CALL_TAKEN] = {[CALL_DONE] = true},
        [CALL_DONE] = {[CALL_QUEUED] = true},
        [CALL_WITHDRAWN] = {[CALL_QUEUED] = true},
    };
    QP_ASSERT((unsigned)from < CALL_STAGES && (unsigned)to < CALL_STAGES);
    return moves[from][to];
}

void call_move(struct call *c, enum call_stage to)
{
    QP_ASSERT(call_may_move(c->stage, to));
    c->stage = to;
}

const char *call_late_text(void)
{
    return "the store has not answered in time: nothing was done, try again";
}

static int64_t now_us(const qp *q)
{
    return q->env.monotonic_us(q->env.context);
}

/* --------------------------------------------------------------------------------------- askers */

void asker_add(qp *q, struct asker *c)
{
    c->thread = pthread_self();
    (void)pthread_mutex_lock(&q->lock);
    c->next = q->askers;
    q->askers = c;
    (void)pthread_mutex_unlock(&q->lock);
}

void asker_remove(qp *q, struct asker *c)
{
    struct asker **link = &q->askers;
    (void)pthread_mutex_lock(&q->lock);
    while (*link != c) {
        QP_ASSERT(*link != NULL);
        link = &(*link)->next;
    }
    *link = c->next;
    (void)pthread_mutex_unlock(&q->lock);
}

/* Under the lock. */
static int64_t limit_of_thread(const qp *q)
{
    for (const struct asker *c = q->askers; c != NULL; c = c->next) {
        if (pthread_equal(c->thread, pthread_self()) != 0) {
            return atomic_load(&c->until_us);
        }
    }
    return 0;
}

int64_t asker_until_us(qp *q)
{
    int64_t until;
    (void)pthread_mutex_lock(&q->lock);
    until = limit_of_thread(q);
    (void)pthread_mutex_unlock(&q->lock);
    return until;
}

void calls_limit(qp *q, qp_ms within_ms)
{
    (void)pthread_mutex_lock(&q->lock);
    q->calls_ms = within_ms;
    (void)pthread_mutex_unlock(&q->lock);
}

/* ----------------------------------------------------------------------------------------- inbox */

/* Under the lock. `limit_us` 0: none. */
static void inbox_add(qp *q, struct call *c, int64_t limit_us)
{
    call_move(c, CALL_QUEUED);
    c->next = NULL;
    c->firm = limit_us > 0;
    c->until_us = c->firm ? limit_us : now_us(q) + LIMIT_CALL_MS * INT64_C(1000);
    if (q->inbox == NULL) {
        q->inbox = c;
    } else {
        q->last_call->next = c;
    }
    q->last_call = c;
}

/* Under the lock: takes the call at *link out of the inbox. `before` is the one in front of it. */
static struct call *inbox_take(qp *q, struct call **link, struct call *before)
{
    struct call *c = *link;
    *link = c->next;
    q->last_call = q->last_call == c ? before : q->last_call;
    c->next = NULL;
    return c;
}

struct call *calls_take(qp *q, bool all)
{
    struct call *taken = NULL;
    struct call **end = &taken;
    struct call **link = &q->inbox;
    struct call *before = NULL;
    while (*link != NULL) {
        if (!all && !(*link)->local) {
            before = *link;
            link = &before->next;
            continue;
        }
        *end = inbox_take(q, link, before);
        call_move(*end, CALL_TAKEN);
        end = &(*end)->next;
    }
    return taken;
}

static bool is_over(const qp *q, const struct call *c, int64_t now)
{
    return c->stage == CALL_QUEUED && (c->waited || c->withdrawn != NULL) && now >= c->until_us &&
           (c->firm || q->away);
}

void calls_expire(qp *q, enum calls_which which)
{
    struct call *gone = NULL;
    struct call **end = &gone;
    struct call **link;
    struct call *before = NULL;
    int64_t now = now_us(q);
    (void)pthread_mutex_lock(&q->lock);
    link = &q->inbox;
    while (*link != NULL) {
        struct call *c = *link;
        if (!is_over(q, c, now) && (which == CALLS_OVER || c->withdrawn == NULL)) {
            before = c;
            link = &c->next;
            continue;
        }
        (void)inbox_take(q, link, before);
        call_move(c, CALL_WITHDRAWN);
        if (c->waited) {
            (void)pthread_cond_broadcast(&q->changed);
        } else {
            *end = c;
            end = &c->next;
        }
    }
    (void)pthread_mutex_unlock(&q->lock);
    while (gone != NULL) {
        struct call *c = gone;
        gone = c->next;
        c->withdrawn(q, c);
    }
}

/* ----------------------------------------------------------------------------------------- calls */

int call_put(qp *q, struct call *c)
{
    int rc = QP_OK;
    (void)pthread_mutex_lock(&q->lock);
    if (q->engine == NULL) {
        rc = QP_E_READONLY;
    } else if (q->sealed) {
        rc = QP_E_CLOSED;
    } else if (q->failed != QP_OK) {
        rc = q->failed;
    } else if (q->waiting_count >= LIMIT_COMMANDS) {
        rc = QP_E_LIMIT;
    } else {
        q->waiting_count++;
        call_post(q, c);
    }
    (void)pthread_mutex_unlock(&q->lock);
    return rc;
}

int call_queue(qp *q, struct call *c, struct qp_err *err)
{
    int rc = call_put(q, c);
    switch (rc) {
    case QP_OK:
        return QP_OK;
    case QP_E_LIMIT:
        return err_set(err, rc, "%d calls wait already", LIMIT_COMMANDS);
    case QP_E_CLOSED:
        return err_set(err, rc, "the engine is being closed");
    case QP_E_READONLY:
        return err_set(err, rc, "the store was opened for reading only");
    default:
        return err_set(err, rc, "the engine has stopped: open the store again");
    }
}

void call_post(qp *q, struct call *c)
{
    inbox_add(q, c, q->calls_ms > 0 ? now_us(q) + q->calls_ms * 1000 : 0);
    kick(q);
}

void call_left(qp *q, struct call *c)
{
    (void)pthread_mutex_lock(&q->lock);
    QP_ASSERT(q->waiting_count > 0);
    q->waiting_count--;
    if (c->stage != CALL_WITHDRAWN) {
        call_move(c, CALL_DONE);
    }
    (void)pthread_mutex_unlock(&q->lock);
}

void call_done(qp *q, struct call *c, int rc)
{
    (void)pthread_mutex_lock(&q->lock);
    c->rc = rc;
    call_move(c, CALL_DONE);
    q->answered = true;
    (void)pthread_mutex_unlock(&q->lock);
}

bool am_driver(const qp *q)
{
    return q->driven && pthread_equal(q->driver, pthread_self()) != 0;
}

/* One turn for a call of ours. Under the lock, which is released meanwhile. A failure of the store is told to
 * every command that it concerns, ours among them; while the store is away we sleep until the next try. */
static void turn_for(qp *q, const struct call *c, bool nested)
{
    bool busy;
    struct qp_err err;
    if (!nested) {
        q->driven = true;
        q->driver = pthread_self();
    }
    (void)pthread_mutex_unlock(&q->lock);
    (void)loop_turn(q, false, &busy, &err);
    if (q->away) { /* only the driver sets it, and that is us */
        drive_sleep(q, c->until_us);
    }
    (void)pthread_mutex_lock(&q->lock);
    if (!nested) {
        q->driven = false;
        (void)pthread_cond_broadcast(&q->changed);
    }
}

/* Under the lock: the call is in the inbox, or the driver has it. */
static bool is_open(const struct call *c)
{
    return c->stage == CALL_QUEUED || c->stage == CALL_TAKEN;
}

/* Under the lock, which is released meanwhile, until something was answered or the call should be looked at. */
static void await_driver(qp *q, const struct call *c)
{
    int64_t look = now_us(q) + LOOK_US;
    wait_driven(q, c->firm && c->stage == CALL_QUEUED && c->until_us < look ? c->until_us : look);
}

int call_do(qp *q, struct call *c, struct qp_err *err)
{
    bool nested;
    bool late;
    if (q->engine == NULL) {
        return err_set(err, QP_E_READONLY, "the store was opened for reading only");
    }
    c->err = err;
    c->waited = true;
    (void)pthread_mutex_lock(&q->lock);
    nested = am_driver(q);
    if (nested && q->in_engine) {
        (void)pthread_mutex_unlock(&q->lock);
        return err_set(err, QP_E_INVALID,
                       "called from a callback of the engine, where nothing may wait");
    }
    inbox_add(q, c, limit_of_thread(q));
    while (is_open(c)) {
        if (nested || !q->driven) {
            turn_for(q, c, nested);
        } else {
            await_driver(q, c);
        }
        if (is_over(q, c, now_us(q))) {
            (void)pthread_mutex_unlock(&q->lock);
            calls_expire(q, CALLS_OVER);
            (void)pthread_mutex_lock(&q->lock);
        }
    }
    late = c->stage == CALL_WITHDRAWN;
    (void)pthread_mutex_unlock(&q->lock);
    return late ? err_set(err, QP_E_TIMEOUT, "%s", call_late_text()) : c->rc;
}

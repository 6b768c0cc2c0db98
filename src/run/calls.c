/* calls.c - the inbox of the driver (see calls.h)
 *
 * If we crash, nothing is lost that was answered: a call is answered after its commit.
 */
#include "run/calls.h"

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

/* --------------------------------------------------------------------------------------- askers */

void asker_add(struct driver *d, struct asker *c)
{
    c->thread = pthread_self();
    (void)pthread_mutex_lock(&d->lock);
    c->next = d->askers;
    d->askers = c;
    (void)pthread_mutex_unlock(&d->lock);
}

void asker_remove(struct driver *d, struct asker *c)
{
    struct asker **link = &d->askers;
    (void)pthread_mutex_lock(&d->lock);
    while (*link != c) {
        QP_ASSERT(*link != NULL);
        link = &(*link)->next;
    }
    *link = c->next;
    (void)pthread_mutex_unlock(&d->lock);
}

/* Under the lock. */
static int64_t limit_of_thread(const struct driver *d)
{
    for (const struct asker *c = d->askers; c != NULL; c = c->next) {
        if (pthread_equal(c->thread, pthread_self()) != 0) {
            return atomic_load(&c->until_us);
        }
    }
    return 0;
}

int64_t asker_until_us(struct driver *d)
{
    int64_t until;
    (void)pthread_mutex_lock(&d->lock);
    until = limit_of_thread(d);
    (void)pthread_mutex_unlock(&d->lock);
    return until;
}

void calls_limit(struct driver *d, qp_ms within_ms)
{
    (void)pthread_mutex_lock(&d->lock);
    d->calls_ms = within_ms;
    (void)pthread_mutex_unlock(&d->lock);
}

/* ----------------------------------------------------------------------------------------- inbox */

/* Under the lock. `limit_us` 0: none. */
static void inbox_add(struct driver *d, struct call *c, int64_t limit_us)
{
    call_move(c, CALL_QUEUED);
    c->next = NULL;
    c->firm = limit_us > 0;
    c->until_us = c->firm ? limit_us : driver_now_us(d) + LIMIT_CALL_MS * INT64_C(1000);
    if (d->inbox == NULL) {
        d->inbox = c;
    } else {
        d->last_call->next = c;
    }
    d->last_call = c;
}

/* Under the lock: takes the call at *link out of the inbox. `before` is the one in front of it. */
static struct call *inbox_take(struct driver *d, struct call **link, struct call *before)
{
    struct call *c = *link;
    *link = c->next;
    d->last_call = d->last_call == c ? before : d->last_call;
    c->next = NULL;
    return c;
}

struct call *calls_take(struct driver *d, bool all)
{
    struct call *taken = NULL;
    struct call **end = &taken;
    struct call **link = &d->inbox;
    struct call *before = NULL;
    while (*link != NULL) {
        if (!all && !(*link)->local) {
            before = *link;
            link = &before->next;
            continue;
        }
        *end = inbox_take(d, link, before);
        call_move(*end, CALL_TAKEN);
        end = &(*end)->next;
    }
    return taken;
}

bool call_is_over(const struct driver *d, const struct call *c)
{
    return c->stage == CALL_QUEUED && (c->waited || c->withdrawn != NULL) && (c->firm || d->away) &&
           driver_now_us(d) >= c->until_us;
}

void calls_expire(struct driver *d, enum calls_which which)
{
    struct call *gone = NULL;
    struct call **end = &gone;
    struct call **link;
    struct call *before = NULL;
    (void)pthread_mutex_lock(&d->lock);
    link = &d->inbox;
    while (*link != NULL) {
        struct call *c = *link;
        if (!call_is_over(d, c) && (which == CALLS_OVER || c->withdrawn == NULL)) {
            before = c;
            link = &c->next;
            continue;
        }
        (void)inbox_take(d, link, before);
        call_move(c, CALL_WITHDRAWN);
        if (c->waited) {
            (void)pthread_cond_broadcast(&d->changed);
        } else {
            *end = c;
            end = &c->next;
        }
    }
    (void)pthread_mutex_unlock(&d->lock);
    while (gone != NULL) {
        struct call *c = gone;
        gone = c->next;
        c->withdrawn(c->q, c);
    }
}

/* ----------------------------------------------------------------------------------------- calls */

int call_put(struct driver *d, struct call *c)
{
    int rc = QP_OK;
    (void)pthread_mutex_lock(&d->lock);
    if (d->engine == NULL) {
        rc = QP_E_READONLY;
    } else if (d->sealed) {
        rc = QP_E_CLOSED;
    } else if (d->failed != QP_OK) {
        rc = d->failed;
    } else if (d->waiting_count >= LIMIT_COMMANDS) {
        rc = QP_E_LIMIT;
    } else {
        d->waiting_count++;
        call_post(d, c);
    }
    (void)pthread_mutex_unlock(&d->lock);
    return rc;
}

int call_queue(struct driver *d, struct call *c, struct qp_err *err)
{
    int rc = call_put(d, c);
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

void call_post(struct driver *d, struct call *c)
{
    inbox_add(d, c, d->calls_ms > 0 ? driver_now_us(d) + d->calls_ms * 1000 : 0);
    driver_kick(d);
}

void call_ask(struct driver *d, struct call *c)
{
    c->waited = true;
    inbox_add(d, c, limit_of_thread(d));
}

void call_left(struct driver *d, struct call *c)
{
    (void)pthread_mutex_lock(&d->lock);
    QP_ASSERT(d->waiting_count > 0);
    d->waiting_count--;
    if (c->stage != CALL_WITHDRAWN) {
        call_move(c, CALL_DONE);
    }
    (void)pthread_mutex_unlock(&d->lock);
}

void call_done(struct driver *d, struct call *c, int rc)
{
    (void)pthread_mutex_lock(&d->lock);
    c->rc = rc;
    call_move(c, CALL_DONE);
    d->answered = true;
    (void)pthread_mutex_unlock(&d->lock);
}

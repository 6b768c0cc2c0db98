/* loop.c - one turn of the driver, and how a thread waits by driving (see loop.h) */
#include "run/loop.h"

#include <poll.h>
#include <unistd.h>

/* After this much quiet the store may tidy up. */
#define IDLE_MS 1000
/* After a failure that may pass, the next try; while the store is away, a little later each time. */
#define AGAIN_MS 100
#define AGAIN_MOST_MS 1000
/* No sleep is longer: the wall clock, by which timers go, may have been set forward. */
#define SLEEP_MOST_MS (60 * 1000)
/* A thread that has set no limit looks this often whether the store is away. */
#define LOOK_US (500 * INT64_C(1000))

/* ------------------------------------------------------------------------------------------- one turn */

/* While the store is away, only what needs nothing of it. */
static struct call *take_arrived(struct driver *d)
{
    struct call *calls;
    (void)pthread_mutex_lock(&d->lock);
    if (atomic_exchange(&d->poked, false) || d->kicked) {
        uint64_t ignored;
        ssize_t size = read(d->event_fd, &ignored, sizeof ignored);
        (void)size; /* it is set, or was read since it was */
        d->kicked = false;
    }
    calls = calls_take(d, !d->away);
    (void)pthread_mutex_unlock(&d->lock);
    return calls;
}

static void execute_arrived(struct driver *d)
{
    struct call *calls = take_arrived(d);
    while (calls != NULL) {
        struct call *c = calls;
        calls = c->next;
        c->execute(c->q, c);
    }
}

/* When the next turn is due by itself. After a failure nothing is due before the next try. */
static qp_ms due_at(const struct driver *d)
{
    qp_ms at = engine_deadline(d->engine);
    qp_ms parts;
    if (d->again_at > 0) {
        return d->again_at;
    }
    parts = d->parts->due(d->owner);
    at = parts < at ? parts : at;
    return d->idle_at > 0 && d->idle_at < at ? d->idle_at : at;
}

/* When the store is tried again. A turn before that time does not put it off. */
static void note_again(struct driver *d, int rc, qp_ms now)
{
    bool again = (rc != QP_OK && loop_may_pass(rc)) || (d->parts->has_unsent(d->owner) && !d->away);
    if (!again) {
        d->again_at = 0;
    } else if (!d->away) {
        d->again_at = now + AGAIN_MS;
    } else if (now >= d->again_at) {
        d->again_ms = d->again_at == 0 ? AGAIN_MS : 2 * d->again_ms;
        d->again_ms = d->again_ms < AGAIN_MOST_MS ? d->again_ms : AGAIN_MOST_MS;
        d->again_at = now + d->again_ms;
    }
}

/* What a turn has brought for the times to come. */
static void note_turn(struct driver *d, int rc, bool committed)
{
    qp_ms now = store_now(d->store);
    note_again(d, rc, now);
    /* Where many share a store, it is hardly ever quiet: then it is time to tidy up all the same. */
    if (committed && (d->idle_at == 0 || !d->shared)) {
        d->idle_at = now + IDLE_MS;
    }
}

/* For threads that wait for an answer, and hosts that ask how long to sleep. */
void loop_publish(struct driver *d, bool busy)
{
    qp_ms at = due_at(d);
    qp_ms left = at - store_now(d->store);
    int64_t now = driver_now_us(d);
    qp_ms wall = d->env->wall_ms(d->env->context);
    bool in_hand = d->parts->has_tasks(d->owner);
    left = left < LIMIT_TIMER_MS ? left : LIMIT_TIMER_MS;
    (void)pthread_mutex_lock(&d->lock);
    d->due_at = at == INT64_MAX ? at : wall + left; /* the store's clock may be a server's */
    d->due_us = now + left * 1000;
    d->busy = busy;
    d->in_hand = in_hand;
    if (d->answered) {
        d->answered = false;
        (void)pthread_cond_broadcast(&d->changed);
    }
    (void)pthread_mutex_unlock(&d->lock);
}

/* Whether the store is there. While it is away it is not tried at every call that comes. */
static int reach(struct driver *d, struct qp_err *err)
{
    bool waits = d->away && store_now(d->store) < d->again_at;
    int rc = waits ? err_set(err, QP_E_BUSY, "the database is away") : store_connect(d->store, err);
    if (d->away != (rc != QP_OK)) { /* only the driver sets it */
        (void)pthread_mutex_lock(&d->lock);
        d->away = rc != QP_OK;
        (void)pthread_mutex_unlock(&d->lock);
    }
    return rc;
}

/* Whether there is something for the driver already. Under the lock. While the store is away, what has come waits;
 * what has come for the first time sets the event. */
bool loop_has_arrived(const struct driver *d)
{
    return (d->inbox != NULL || d->parts->has_results(d->owner)) && !d->away;
}

static bool has_arrived_yet(struct driver *d)
{
    bool arrived;
    (void)pthread_mutex_lock(&d->lock);
    arrived = loop_has_arrived(d);
    (void)pthread_mutex_unlock(&d->lock);
    return arrived;
}

static void await_arrival(struct driver *d, int64_t most_us)
{
    struct pollfd event = {.fd = d->event_fd, .events = POLLIN};
    struct timespec most = {.tv_sec = most_us / 1000000, .tv_nsec = most_us % 1000000 * 1000};
    if (!has_arrived_yet(d)) {
        (void)ppoll(&event, 1, &most, NULL); /* a signal only ends it earlier */
    }
}

/* The engine has a moment for a command that is about to come. What arrives may be a call that makes none, so it looks a few
 * times. */
#define LINGER_LOOKS 4

static void linger(struct driver *d)
{
    for (int i = 0; i < LINGER_LOOKS && !driver_is_stopped(d); i++) {
        int64_t left_us = engine_linger_us(d->engine);
        if (left_us <= 0) {
            return;
        }
        await_arrival(d, left_us);
        execute_arrived(d);
        d->parts->submit(d->owner);
    }
}

/* The part of a turn that works with the store. While that is away, calls that wait for it stay in the inbox,
 * where they can be withdrawn. */
static int turn_with_store(struct driver *d, bool *out_busy, struct qp_err *err)
{
    int rc;
    if (store_wake_take(d->store)) {
        engine_look_again(d->engine);
    }
    rc = reach(d, err);
    if (rc != QP_OK) {
        execute_arrived(d);
        calls_expire(d, CALLS_OVER);
        return rc;
    }
    d->parts->prepare(d->owner);
    execute_arrived(d);
    d->parts->submit(d->owner);
    linger(d);
    return engine_round(d->engine, out_busy, err);
}

int loop_turn(struct driver *d, bool functions, bool *out_busy, struct qp_err *err)
{
    bool busy = false;
    struct qp_err why = {0};
    int64_t from = driver_now_us(d);
    struct turn_report t = {.err = &why, .before = engine_stats(d->engine)};
    d->in_engine = true;
    d->parts->begin(d->owner);
    t.rc = turn_with_store(d, &busy, &why);
    t.after = engine_stats(d->engine);
    t.committed = t.after.commits > t.before.commits;
    t.duration_us = driver_now_us(d) - from;
    d->parts->settle(d->owner, &t);
    d->in_engine = false;
    note_turn(d, t.rc, t.committed);
    d->parts->hand_out(d->owner, functions);
    loop_publish(d, busy);
    *out_busy = busy;
    return t.rc == QP_OK ? QP_OK : err_set(err, t.rc, "%s", why.text);
}

/* How long to sleep, in milliseconds for poll. */
static int sleep_ms(struct driver *d, int64_t until_us)
{
    int64_t due = due_at(d) - store_now(d->store);
    int64_t ms = due < SLEEP_MOST_MS ? due : SLEEP_MOST_MS;
    if (until_us >= 0 && (until_us - driver_now_us(d)) / 1000 + 1 < ms) {
        ms = (until_us - driver_now_us(d)) / 1000 + 1;
    }
    return ms < 0 ? 0 : (int)ms;
}

void loop_sleep(struct driver *d, int64_t until_us)
{
    struct pollfd events[] = {{.fd = d->event_fd, .events = POLLIN},
                              {.fd = d->wake_fd, .events = POLLIN}}; /* -1 is passed over */
    if (!has_arrived_yet(d)) {
        /* A signal only makes it look earlier. */
        (void)poll(events, ARRAY_COUNT(events), sleep_ms(d, until_us));
    }
}

bool loop_may_pass(int rc)
{
    return qp_code_class(rc) == QP_CLASS_RETRY || qp_code_class(rc) == QP_CLASS_LIMIT;
}

/* One turn, and a sleep if there was nothing to do and the flag is not set. Under the lock, which is
 * released meanwhile. */
static int wait_driving(struct driver *d, const bool *flag, int64_t until_us, struct qp_err *err)
{
    bool busy = false;
    bool set;
    int rc;
    d->driven = true;
    d->by = pthread_self();
    (void)pthread_mutex_unlock(&d->lock);
    rc = loop_turn(d, true, &busy, err);
    rc = loop_may_pass(rc) ? QP_OK : rc;
    (void)pthread_mutex_lock(&d->lock);
    set = *flag; /* only the driver sets it, and that is us */
    (void)pthread_mutex_unlock(&d->lock);
    if (rc == QP_OK && !busy && !set) {
        loop_sleep(d, until_us);
    }
    (void)pthread_mutex_lock(&d->lock);
    d->driven = false;
    (void)pthread_cond_broadcast(&d->changed);
    return rc;
}

int loop_wait(struct driver *d, const bool *flag, int64_t until_us, struct qp_err *err)
{
    int rc = QP_OK;
    (void)pthread_mutex_lock(&d->lock);
    while (!*flag && rc == QP_OK) {
        if (driver_is_here(d)) {
            rc =
                err_set(err, QP_E_INVALID,
                        "a function on the engine's own thread cannot wait for a job: start worker "
                        "threads");
        } else if (d->closing) {
            rc = err_set(err, QP_E_CLOSED, "the engine is being closed");
        } else if (until_us >= 0 && driver_now_us(d) >= until_us) {
            rc = err_set(err, QP_E_TIMEOUT, "it has not ended in time");
        } else if (d->driven) {
            driver_wait(d, until_us);
        } else {
            rc = wait_driving(d, flag, until_us, err);
        }
    }
    rc = *flag ? QP_OK : rc;
    (void)pthread_mutex_unlock(&d->lock);
    return rc;
}

/* ------------------------------------------------------------------------------------- calls that wait */

/* One turn for a call of ours. Under the lock, which is released meanwhile. A failure of the store answers
 * every command that it concerns, ours among them; while the store is away we sleep until the next try. */
static void turn_for(struct driver *d, const struct call *c, bool nested)
{
    bool busy;
    struct qp_err err;
    if (!nested) {
        d->driven = true;
        d->by = pthread_self();
    }
    (void)pthread_mutex_unlock(&d->lock);
    (void)loop_turn(d, false, &busy, &err);
    if (d->away) { /* only the driver sets it, and that is us */
        loop_sleep(d, c->until_us);
    }
    (void)pthread_mutex_lock(&d->lock);
    if (!nested) {
        d->driven = false;
        (void)pthread_cond_broadcast(&d->changed);
    }
}

/* Under the lock: the call is in the inbox, or the driver has it. */
static bool is_open(const struct call *c)
{
    return c->stage == CALL_QUEUED || c->stage == CALL_TAKEN;
}

/* Under the lock, which is released meanwhile, until something was answered or the call should be looked at. */
static void await_driver(struct driver *d, const struct call *c)
{
    int64_t look = driver_now_us(d) + LOOK_US;
    driver_wait(d, c->firm && c->stage == CALL_QUEUED && c->until_us < look ? c->until_us : look);
}

int call_do(struct driver *d, struct call *c, struct qp_err *err)
{
    bool nested;
    bool late;
    if (d->engine == NULL) {
        return err_set(err, QP_E_READONLY, "the store was opened for reading only");
    }
    c->err = err;
    (void)pthread_mutex_lock(&d->lock);
    nested = driver_is_here(d);
    if (nested && d->in_engine) {
        (void)pthread_mutex_unlock(&d->lock);
        return err_set(err, QP_E_INVALID,
                       "called from a callback of the engine, where nothing may wait");
    }
    call_ask(d, c);
    while (is_open(c)) {
        if (nested || !d->driven) {
            turn_for(d, c, nested);
        } else {
            await_driver(d, c);
        }
        if (call_is_over(d, c)) {
            (void)pthread_mutex_unlock(&d->lock);
            calls_expire(d, CALLS_OVER);
            (void)pthread_mutex_lock(&d->lock);
        }
    }
    late = c->stage == CALL_WITHDRAWN;
    (void)pthread_mutex_unlock(&d->lock);
    return late ? err_set(err, QP_E_TIMEOUT, "%s", call_late_text()) : c->rc;
}

/* drive.c - the three ways to run an engine: qp_run, qp_poll, and threads of its own (see drive.h) */
#include "run/drive.h"

#include <time.h>

#include "base/log.h"
#include "run/close.h"
#include "run/enter.h"
#include "run/handle.h"
#include "run/loop.h"

/* Turns after which qp_poll goes back to its host, whatever there is to do. */
#define POLL_TURNS 64

/* How long a round waits for results that are about to come: a part of what the last one took, and
 * never long; and how often it looks. */
#define GATHER_SHARE 4
#define GATHER_MOST_US 2000
#define GATHER_LOOK_US 100

/* The log goes into the file when nothing else is to be done. */
static int tidy_when_idle(struct driver *d, struct qp_err *err)
{
    struct qp_err why = {0};
    int rc;
    if (!atomic_load(&d->displaced) && (d->idle_at == 0 || store_now(d->store) < d->idle_at)) {
        return QP_OK;
    }
    d->idle_at = 0;
    rc = store_idle(d->store, &why);
    d->parts->note(d->owner, rc, &why);
    return rc == QP_OK ? QP_OK : err_set(err, rc, "%s", why.text);
}

/* Every commit waits for the disk, however little is in it. So while the threads of the pool work off
 * their queue fast, the round waits for what they are about to bring; with an empty queue, or one that
 * does not get shorter, it begins at once. */
static void gather(struct driver *d, int64_t last_round_us)
{
    int64_t left = last_round_us / GATHER_SHARE;
    size_t before = d->parts->backlog(d->owner);
    left = left < GATHER_MOST_US ? left : GATHER_MOST_US;
    for (; before > 0 && left >= GATHER_LOOK_US; left -= GATHER_LOOK_US) {
        size_t now;
        (void)nanosleep(&(struct timespec){.tv_nsec = GATHER_LOOK_US * 1000}, NULL); /* or less */
        now = d->parts->backlog(d->owner);
        before = now < before ? now : 0;
    }
}

/* While the writer works there is no hurry: what arrives is decided in the meantime. */
#define WRITER_LOOK_US 200

/* Nothing more to do at once: until something comes, or is due, or has been written. */
static void rest(struct driver *d, struct writer *writer)
{
    if (engine_is_writing(d->engine)) {
        writer_wait_for(writer, WRITER_LOOK_US);
    } else {
        loop_sleep(d, -1);
    }
}

/* The store has failed for good. All that is in hand is answered with that before the run ends, and what comes later is
 * refused. */
static void driver_failed(struct driver *d, int rc)
{
    struct qp_err ignored;
    bool busy;
    rc = rc == QP_E_UNKNOWN_OUTCOME ? QP_E_FSYNC : rc; /* nothing of these was begun */
    (void)pthread_mutex_lock(&d->lock);
    d->failed = rc;
    (void)pthread_mutex_unlock(&d->lock);
    (void)loop_turn(d, false, &busy, &ignored); /* the engine answers every command */
    calls_expire(d, CALLS_ALL);
    d->parts->failed(d->owner, rc);
}

/* Turn after turn; QP_OK or a failure that may pass: it was stopped. */
static int turn_until_stopped(struct driver *d, struct writer *writer, struct qp_err *err)
{
    int rc = QP_OK;
    int64_t round_us = 0;
    while ((rc == QP_OK || loop_may_pass(rc)) && !driver_is_stopped(d)) {
        int64_t from;
        bool busy;
        if (!engine_is_writing(d->engine)) {
            gather(d, round_us);
        }
        from = driver_now_us(d);
        rc = loop_turn(d, true, &busy, err);
        round_us = driver_now_us(d) - from;
        if (rc == QP_OK) {
            rc = tidy_when_idle(d, err);
        }
        /* A thread that stops us from here on sets the event, and we do not sleep. */
        if (!busy && (rc == QP_OK || loop_may_pass(rc)) && !driver_is_stopped(d)) {
            rest(d, writer);
        }
    }
    return rc;
}

/* Until qp_stop, or the store fails. The caller has set `running`. `writer` may be NULL. */
static int drive(struct driver *d, struct writer *writer, struct qp_err *err)
{
    int rc;
    int left;
    driver_begin(d);
    engine_use_writer(d->engine, writer == NULL ? NULL : &writer->calls);
    rc = turn_until_stopped(d, writer, err);
    left = engine_rest(d->engine, err);
    rc = rc == QP_OK || loop_may_pass(rc) ? left : rc;
    engine_use_writer(d->engine, NULL);
    if (rc != QP_OK && !loop_may_pass(rc)) {
        driver_failed(d, rc);
    }
    d->parts->hand_out(d->owner, false); /* what the last rounds have handed out */
    loop_publish(d, false);
    atomic_store(&d->stop, false);
    (void)pthread_mutex_lock(&d->lock);
    d->running = false;
    (void)pthread_mutex_unlock(&d->lock);
    driver_end(d);
    return loop_may_pass(rc) ? QP_OK : rc;
}

/* Whether this thread may become the driver for longer than a call. */
static int may_drive(struct driver *d, bool to_run, struct qp_err *err)
{
    int rc = QP_OK;
    (void)pthread_mutex_lock(&d->lock);
    if (d->engine == NULL) {
        rc = err_set(err, QP_E_READONLY, "the store was opened for reading only");
    } else if (driver_is_here(d)) {
        rc = err_set(err, QP_E_INVALID, "this thread drives the engine already");
    } else if (d->running) {
        rc = err_set(err, QP_E_EXISTS, "the engine is driven already, by qp_run or its own thread");
    } else {
        d->running = to_run;
    }
    (void)pthread_mutex_unlock(&d->lock);
    return rc;
}

int qp_run(qp *q, struct qp_err *err)
{
    ENTER(q, true, err);
    int rc = may_drive(&q->driver, true, err);
    return rc == QP_OK ? drive(&q->driver, NULL, err) : err_wrap(err, rc, "run");
}

void qp_stop(qp *q)
{
    if (handle_is_ours(q)) {
        driver_stop(&q->driver);
    }
}

/* Until there is nothing more to do at once, or for POLL_TURNS turns. */
static int poll_turns(struct driver *d, bool *out_busy, struct qp_err *err)
{
    bool more = true;
    *out_busy = true;
    for (int i = 0; i < POLL_TURNS && more; i++) {
        QP_TRY(loop_turn(d, true, out_busy, err));
        (void)pthread_mutex_lock(&d->lock);
        more = (*out_busy || loop_has_arrived(d)) && !atomic_load(&d->stop);
        (void)pthread_mutex_unlock(&d->lock);
    }
    return tidy_when_idle(d, err);
}

int qp_poll(qp *q, struct qp_err *err)
{
    ENTER(q, true, err);
    struct driver *d = &q->driver;
    bool busy;
    int rc = may_drive(d, false, err);
    if (rc != QP_OK) {
        return err_wrap(err, rc, "poll");
    }
    driver_begin(d);
    rc = poll_turns(d, &busy, err);
    loop_publish(d, busy);
    atomic_store(&d->stop, false);
    driver_end(d);
    return rc;
}

int qp_fd(const qp *q)
{
    return handle_is_ours(q) ? q->driver.both_fd : -1;
}

int64_t qp_next_deadline(qp *q)
{
    struct driver *d;
    qp_ms now;
    int64_t mono;
    int64_t by_wall;
    int64_t left;
    bool waiting;
    if (!handle_is_ours(q)) {
        return -1;
    }
    d = &q->driver;
    now = d->env->wall_ms(d->env->context);
    mono = driver_now_us(d);
    (void)pthread_mutex_lock(&d->lock);
    by_wall = d->due_at == INT64_MAX ? INT64_MAX : d->due_at - now;
    left = d->due_us <= mono ? 0 : (d->due_us - mono + 999) / 1000;
    waiting = d->busy || loop_has_arrived(d);
    (void)pthread_mutex_unlock(&d->lock);
    if (waiting || by_wall <= 0) {
        return 0;
    }
    return by_wall == INT64_MAX ? -1 : by_wall < left ? by_wall : left;
}

static int read_left(void *context, struct store *s, struct qp_err *err)
{
    return store_due_to_jobs(s, context, err);
}

int qp_work_left(qp *q, bool *out_left, struct qp_err *err)
{
    ENTER(q, out_left != NULL, err);
    struct driver *d = &q->driver;
    bool left;
    (void)pthread_mutex_lock(&d->lock);
    left = d->busy || d->in_hand || loop_has_arrived(d);
    (void)pthread_mutex_unlock(&d->lock);
    if (!left) {
        QP_TRY(reads_do(q, &left, read_left, err));
    }
    *out_left = left;
    return QP_OK;
}

/* -------------------------------------------------------------------------------------------- threads */

static void *thread_main(void *context)
{
    qp *q = context;
    struct driver *d = &q->driver;
    struct qp_err err;
    int rc = drive(d, &d->writer, &err);
    writer_stop(&d->writer);
    if (rc != QP_OK) {
        log_write(d->env, QP_LOG_ERROR, LOG_MSG("the engine has stopped"),
                  LOG_TEXT("why", err.text));
    }
    thread_left(q);
    return NULL; /* every call from now on is refused with that */
}

void drive_watch_store(qp *q)
{
    struct driver *d = &q->driver;
    if (!store_in_place(d->store) && !atomic_exchange(&d->displaced, true)) {
        driver_wake(d);
    }
}

bool drive_is_alive(qp *q)
{
    struct driver *d = &q->driver;
    bool alive;
    (void)pthread_mutex_lock(&d->lock);
    alive = !d->threaded || d->running;
    (void)pthread_mutex_unlock(&d->lock);
    return alive;
}

/* Takes the right to start them, once. */
static int threads_begin(struct driver *d, struct qp_err *err)
{
    int rc = QP_OK;
    (void)pthread_mutex_lock(&d->lock);
    if (d->engine == NULL) {
        rc = err_set(err, QP_E_READONLY, "start threads: the store was opened for reading only");
    } else if (d->threaded || d->running) {
        rc = err_set(err, QP_E_EXISTS, "start threads: %s",
                     d->threaded ? "they were started before" : "qp_run drives the engine");
    } else {
        d->threaded = d->running = true;
    }
    (void)pthread_mutex_unlock(&d->lock);
    return rc;
}

static void threads_end(struct driver *d)
{
    (void)pthread_mutex_lock(&d->lock);
    d->threaded = d->running = false;
    (void)pthread_mutex_unlock(&d->lock);
}

/* The pool, then the thread that drives. */
static int threads_create(qp *q, int workers, struct qp_err *err)
{
    struct driver *d = &q->driver;
    struct pool *pool = &q->tasks.pool;
    int rc;
    threads_add(q, workers + 1);
    rc = pool_start(pool, workers, thread_left, err);
    if (rc != QP_OK) {
        threads_add(q, -1);
        return rc;
    }
    if (pthread_create(&d->thread, NULL, thread_main, q) != 0) {
        threads_add(q, -1);
        pool_stop(pool);
        return err_set(err, QP_E_LIMIT, "start threads: the system refuses another thread");
    }
    d->thread_started = true;
    return QP_OK;
}

int qp_start_threads(qp *q, int workers, struct qp_err *err)
{
    ENTER(q, true, err);
    struct driver *d = &q->driver;
    int rc;
    if (workers < 0 || workers > LIMIT_WORKER_THREADS) {
        return err_set(err, QP_E_INVALID, "start threads: %d workers, there may be 0 to %d",
                       workers, LIMIT_WORKER_THREADS);
    }
    QP_TRY(threads_begin(d, err));
    rc = writer_start(&d->writer, err);
    if (rc != QP_OK) {
        threads_end(d);
        return rc;
    }
    rc = threads_create(q, workers, err);
    if (rc != QP_OK) {
        writer_stop(&d->writer);
        threads_end(d);
    }
    return rc;
}

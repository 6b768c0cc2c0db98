/* loop.c - driving the engine: one turn, and the three ways to run */
#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "run/handle.h"
#include "run/stats.h"

/* After this much quiet the store may tidy up. */
#define IDLE_MS 1000
/* After a failure that may pass, the next try; while the store is away, a little later each time. */
#define AGAIN_MS 100
#define AGAIN_MOST_MS 1000
/* Nobody sleeps longer: the wall clock, by which timers go, may have been set forward. */
#define SLEEP_MOST_MS (60 * 1000)
/* Turns after which qp_poll goes back to its host, whatever there is to do. */
#define POLL_TURNS 64

/* How long a round waits for results that are about to come: a part of what the last one took, and
 * never long; and how often it looks. */
#define GATHER_SHARE 4
#define GATHER_MOST_US 2000
#define GATHER_LOOK_US 100

void kick(qp *q)
{
    if (!q->kicked) {
        uint64_t one = 1;
        q->kicked = true;
        /* It cannot be full: at most one is ever in it. */
        ssize_t ignored = write(q->event_fd, &one, sizeof one);
        (void)ignored;
    }
}

static int64_t now_us(const qp *q)
{
    return q->env.monotonic_us(q->env.context);
}

void drive_begin(qp *q)
{
    (void)pthread_mutex_lock(&q->lock);
    while (q->driven) {
        (void)pthread_cond_wait(&q->changed, &q->lock);
    }
    q->driven = true;
    q->driver = pthread_self();
    (void)pthread_mutex_unlock(&q->lock);
}

void drive_end(qp *q)
{
    (void)pthread_mutex_lock(&q->lock);
    q->driven = false;
    (void)pthread_cond_broadcast(&q->changed);
    (void)pthread_mutex_unlock(&q->lock);
}

/* What came in since the last turn. */
struct arrived {
    struct call *calls;
    qp_task *finished;
};

/* While the store is away, only what needs nothing of it. */
static struct arrived take_arrived(qp *q)
{
    struct arrived a;
    (void)pthread_mutex_lock(&q->lock);
    if (atomic_exchange(&q->poked, false) || q->kicked) {
        uint64_t ignored;
        ssize_t size = read(q->event_fd, &ignored, sizeof ignored);
        (void)size; /* it is set, or was read since it was */
        q->kicked = false;
    }
    a.calls = calls_take(q, !q->away);
    (void)pthread_mutex_unlock(&q->lock);
    a.finished = q->away ? NULL : pool_finished(q); /* a later one sets the event */
    return a;
}

static void run_arrived(qp *q, struct arrived a)
{
    while (a.calls != NULL) {
        struct call *c = a.calls;
        a.calls = c->next;
        c->run(q, c);
    }
    while (a.finished != NULL) {
        qp_task *t = a.finished;
        a.finished = t->next;
        t->next = NULL;
        task_submit(t);
    }
    while (q->unsent != NULL && !q->away) {
        qp_task *t = q->unsent;
        q->unsent = t->next;
        t->next = NULL;
        task_submit(t);
    }
}

/* When the next turn is due by itself. After a failure nothing is due before the next try. */
static qp_ms due_at(const qp *q)
{
    qp_ms at = engine_deadline(q->engine);
    if (q->again_at > 0) {
        return q->again_at;
    }
    at = q->renew_at > 0 && q->renew_at < at ? q->renew_at : at;
    at = work_due(q) < at ? work_due(q) : at;
    at = follow_due(q) < at ? follow_due(q) : at;
    return q->idle_at > 0 && q->idle_at < at ? q->idle_at : at;
}

/* When the store is tried again. A turn before that time does not put it off. */
static void note_again(qp *q, int rc, qp_ms now)
{
    bool again = (rc != QP_OK && may_pass(rc)) || (q->unsent != NULL && !q->away);
    if (!again) {
        q->again_at = 0;
    } else if (!q->away) {
        q->again_at = now + AGAIN_MS;
    } else if (now >= q->again_at) {
        q->again_ms = q->again_at == 0 ? AGAIN_MS : 2 * q->again_ms;
        q->again_ms = q->again_ms < AGAIN_MOST_MS ? q->again_ms : AGAIN_MOST_MS;
        q->again_at = now + q->again_ms;
    }
}

/* What a turn has brought for the times to come. */
static void note_turn(qp *q, int rc, bool committed)
{
    qp_ms now = store_now(q->store);
    note_again(q, rc, now);
    /* Where many share a store, it is hardly ever quiet: then it is time to tidy up all the same. */
    if (committed && (q->idle_at == 0 || !q->shared)) {
        q->idle_at = now + IDLE_MS;
    }
}

/* Whoever waits for an answer, and whoever wants to know how long to sleep. */
static void publish(qp *q, bool busy)
{
    qp_ms at = due_at(q);
    qp_ms left = at - store_now(q->store);
    int64_t now = now_us(q);
    qp_ms wall = q->env.wall_ms(q->env.context);
    left = left < LIMIT_TIMER_MS ? left : LIMIT_TIMER_MS;
    (void)pthread_mutex_lock(&q->lock);
    q->due_at = at == INT64_MAX ? at : wall + left; /* the store's clock may be a server's */
    q->due_us = now + left * 1000;
    q->busy = busy;
    q->in_hand = q->held != NULL || q->unsent != NULL;
    if (q->answered) {
        q->answered = false;
        (void)pthread_cond_broadcast(&q->changed);
    }
    (void)pthread_mutex_unlock(&q->lock);
}

/* Whether the store is there. While it is away it is not tried at every call that comes. */
static int reach(qp *q, struct qp_err *err)
{
    bool waits = q->away && store_now(q->store) < q->again_at;
    int rc = waits ? err_set(err, QP_E_BUSY, "the database is away") : store_connect(q->store, err);
    if (q->away != (rc != QP_OK)) { /* only the driver sets it */
        (void)pthread_mutex_lock(&q->lock);
        q->away = rc != QP_OK;
        (void)pthread_mutex_unlock(&q->lock);
    }
    return rc;
}

/* The part of a turn that works with the store. While that is away, calls that wait for it stay in the inbox,
 * where they can be withdrawn. */
static int turn_with_store(qp *q, bool *out_busy, struct qp_err *err)
{
    int rc;
    if (store_wake_take(q->store)) {
        engine_look_again(q->engine);
    }
    rc = reach(q, err);
    if (rc != QP_OK) {
        run_arrived(q, take_arrived(q));
        calls_expire(q, CALLS_OVER);
        return rc;
    }
    if (!engine_is_writing(q->engine)) {
        faces_turn(q->faces, q->store, q->env.wall_ms(q->env.context), q->shared);
    }
    tasks_renew(q, store_now(q->store));
    run_arrived(q, take_arrived(q));
    follow_turn(q);
    ready_prove(q);
    return engine_round(q->engine, out_busy, err);
}

int loop_turn(qp *q, bool work, bool *out_busy, struct qp_err *err)
{
    bool busy = false;
    struct engine_stats before = engine_stats(q->engine);
    struct engine_stats after;
    struct qp_err why = {0};
    int64_t from = now_us(q);
    int rc;
    q->in_engine = true;
    ready_begin(q);
    rc = turn_with_store(q, &busy, &why);
    after = engine_stats(q->engine);
    ready_note(q, rc, &why, after.commits > before.commits);
    work_turn(q);
    q->in_engine = false;
    if (after.commits > before.commits) {
        stats_round(q, now_us(q) - from, &before, &after);
    }
    note_turn(q, rc, after.commits > before.commits);
    pool_flush(q);
    workers_turn(q);
    if (work) {
        pool_run_here(q);
    }
    publish(q, busy);
    *out_busy = busy;
    return rc == QP_OK ? QP_OK : err_set(err, rc, "%s", why.text);
}

/* Whether there is something for the driver already. Under the lock. While the store is away, what has come waits;
 * what has come for the first time sets the event. */
static bool has_arrived(const qp *q)
{
    return (q->inbox != NULL || atomic_load(&q->finished) != NULL) && !q->away;
}

/* How long to sleep, in milliseconds for poll. */
static int sleep_ms(qp *q, int64_t until_us)
{
    int64_t due = due_at(q) - store_now(q->store);
    int64_t ms = due < SLEEP_MOST_MS ? due : SLEEP_MOST_MS;
    if (until_us >= 0 && (until_us - now_us(q)) / 1000 + 1 < ms) {
        ms = (until_us - now_us(q)) / 1000 + 1;
    }
    return ms < 0 ? 0 : (int)ms;
}

void drive_sleep(qp *q, int64_t until_us)
{
    struct pollfd events[] = {{.fd = q->event_fd, .events = POLLIN},
                              {.fd = q->wake_fd, .events = POLLIN}}; /* -1 is passed over */
    bool arrived;
    (void)pthread_mutex_lock(&q->lock);
    arrived = has_arrived(q);
    (void)pthread_mutex_unlock(&q->lock);
    if (!arrived) {
        /* A signal only makes it look earlier. */
        (void)poll(events, ARRAY_COUNT(events), sleep_ms(q, until_us));
    }
}

void wait_driven(qp *q, int64_t until_us)
{
    struct timespec until;
    int64_t left_us = until_us - now_us(q);
    kick(q);
    if (until_us < 0) {
        (void)pthread_cond_wait(&q->changed, &q->lock);
        return;
    }
    left_us = left_us > 0 ? left_us : 0;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += left_us / 1000000;
    until.tv_nsec += left_us % 1000000 * 1000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&q->changed, &q->lock, &until);
}

bool may_pass(int rc)
{
    return qp_code_class(rc) == QP_CLASS_RETRY || qp_code_class(rc) == QP_CLASS_LIMIT;
}

/* One turn, and a sleep if there was nothing to do and the flag is not set. Under the lock, which is
 * released meanwhile. */
static int wait_driving(qp *q, const bool *flag, int64_t until_us, struct qp_err *err)
{
    bool busy = false;
    bool set;
    int rc;
    q->driven = true;
    q->driver = pthread_self();
    (void)pthread_mutex_unlock(&q->lock);
    rc = loop_turn(q, true, &busy, err);
    rc = may_pass(rc) ? QP_OK : rc;
    (void)pthread_mutex_lock(&q->lock);
    set = *flag; /* only the driver sets it, and that is us */
    (void)pthread_mutex_unlock(&q->lock);
    if (rc == QP_OK && !busy && !set) {
        drive_sleep(q, until_us);
    }
    (void)pthread_mutex_lock(&q->lock);
    q->driven = false;
    (void)pthread_cond_broadcast(&q->changed);
    return rc;
}

int wait_until(qp *q, const bool *flag, int64_t until_us, struct qp_err *err)
{
    int rc = QP_OK;
    (void)pthread_mutex_lock(&q->lock);
    while (!*flag && rc == QP_OK) {
        if (am_driver(q)) {
            rc =
                err_set(err, QP_E_INVALID,
                        "a function on the engine's own thread cannot wait for a job: start worker "
                        "threads");
        } else if (q->closing) {
            rc = err_set(err, QP_E_CLOSED, "the engine is being closed");
        } else if (until_us >= 0 && now_us(q) >= until_us) {
            rc = err_set(err, QP_E_TIMEOUT, "it has not ended in time");
        } else if (q->driven) {
            wait_driven(q, until_us);
        } else {
            rc = wait_driving(q, flag, until_us, err);
        }
    }
    rc = *flag ? QP_OK : rc;
    (void)pthread_mutex_unlock(&q->lock);
    return rc;
}

/* The log goes into the file when nothing else is to be done. */
static int tidy_when_idle(qp *q, struct qp_err *err)
{
    struct qp_err why = {0};
    int rc;
    if (!atomic_load(&q->displaced) && (q->idle_at == 0 || store_now(q->store) < q->idle_at)) {
        return QP_OK;
    }
    q->idle_at = 0;
    rc = store_idle(q->store, &why);
    ready_note(q, rc, &why, false);
    return rc == QP_OK ? QP_OK : err_set(err, rc, "%s", why.text);
}

/* Every commit waits for the disk, however little is in it. So while the threads of the pool work off
 * their queue fast, the round waits for what they are about to bring; with an empty queue, or one that
 * does not get shorter, it begins at once. */
static void gather(qp *q, int64_t last_round_us)
{
    int64_t left = last_round_us / GATHER_SHARE;
    size_t before = pool_waiting(q);
    left = left < GATHER_MOST_US ? left : GATHER_MOST_US;
    for (; before > 0 && left >= GATHER_LOOK_US; left -= GATHER_LOOK_US) {
        size_t now;
        (void)nanosleep(&(struct timespec){.tv_nsec = GATHER_LOOK_US * 1000}, NULL); /* or less */
        now = pool_waiting(q);
        before = now < before ? now : 0;
    }
}

static bool is_stopped(qp *q)
{
    bool stop;
    (void)pthread_mutex_lock(&q->lock);
    stop = q->stop || q->closing;
    (void)pthread_mutex_unlock(&q->lock);
    return stop;
}

/* While the writer works there is no hurry: what arrives is decided in the meantime. */
#define WRITER_LOOK_US 200

/* Nothing more to do at once: until something comes, or is due, or has been written. */
static void rest(qp *q, struct writer *writer)
{
    if (engine_is_writing(q->engine)) {
        writer_wait_for(writer, WRITER_LOOK_US);
    } else {
        drive_sleep(q, -1);
    }
}

/* The store has failed for good. All that is in hand is answered with that before anybody hears that the run is
 * over, and what comes later is refused. */
static void run_failed(qp *q, int rc)
{
    struct qp_err ignored;
    bool busy;
    rc = rc == QP_E_UNKNOWN_OUTCOME ? QP_E_FSYNC : rc; /* nothing of these was begun */
    (void)pthread_mutex_lock(&q->lock);
    q->failed = rc;
    (void)pthread_mutex_unlock(&q->lock);
    (void)loop_turn(q, false, &busy, &ignored); /* it tells every command */
    calls_expire(q, CALLS_ALL);
    work_end(q, rc);
}

/* Until qp_stop, or the store fails. Whoever calls it has set `running`. `writer` may be NULL. */
static int run(qp *q, struct writer *writer, struct qp_err *err)
{
    int rc = QP_OK;
    int left;
    bool busy;
    int64_t round_us = 0;
    drive_begin(q);
    engine_use_writer(q->engine, writer == NULL ? NULL : &writer->calls);
    while ((rc == QP_OK || may_pass(rc)) && !is_stopped(q)) {
        int64_t from;
        if (!engine_is_writing(q->engine)) {
            gather(q, round_us);
        }
        from = now_us(q);
        rc = loop_turn(q, true, &busy, err);
        round_us = now_us(q) - from;
        rc = rc == QP_OK ? tidy_when_idle(q, err) : rc;
        /* Who stops us from here on sets the event, and we do not sleep. */
        if (!busy && (rc == QP_OK || may_pass(rc)) && !is_stopped(q)) {
            rest(q, writer);
        }
    }
    left = engine_rest(q->engine, err);
    rc = rc == QP_OK || may_pass(rc) ? left : rc;
    engine_use_writer(q->engine, NULL);
    if (rc != QP_OK && !may_pass(rc)) {
        run_failed(q, rc);
    }
    pool_flush(q); /* what the last rounds have handed out */
    publish(q, false);
    (void)pthread_mutex_lock(&q->lock);
    q->stop = false;
    q->running = false;
    (void)pthread_mutex_unlock(&q->lock);
    drive_end(q);
    return may_pass(rc) ? QP_OK : rc;
}

/* Whether this thread may become the driver for longer than a call. */
static int may_drive(qp *q, bool to_run, struct qp_err *err)
{
    int rc = QP_OK;
    (void)pthread_mutex_lock(&q->lock);
    if (q->engine == NULL) {
        rc = err_set(err, QP_E_READONLY, "the store was opened for reading only");
    } else if (am_driver(q)) {
        rc = err_set(err, QP_E_INVALID, "this thread drives the engine already");
    } else if (q->running) {
        rc = err_set(err, QP_E_EXISTS, "the engine is driven already, by qp_run or its own thread");
    } else {
        q->running = to_run;
    }
    (void)pthread_mutex_unlock(&q->lock);
    return rc;
}

int qp_run(qp *q, struct qp_err *err)
{
    ENTER(q, true, err);
    int rc = may_drive(q, true, err);
    return rc == QP_OK ? run(q, NULL, err) : err_wrap(err, rc, "run");
}

/* Also in a signal handler, on a thread that may hold any lock: so it takes none, and sets the event itself. The flag
 * comes first: a driver that has read the event before this write finds it set again. `poked` comes last: whoever finds it
 * reads the event, and one that is set before would be taken back without that. `kicked` cannot serve for it: who finds
 * that set trusts that the event is. */
void qp_stop(qp *q)
{
    int saved = errno;
    uint64_t one = 1;
    ssize_t ignored;
    if (!handle_is_ours(q)) {
        return;
    }
    atomic_store(&q->stop, true);
    ignored = write(q->event_fd, &one, sizeof one); /* it fails only when it is full, thus set */
    (void)ignored;
    atomic_store(&q->poked, true);
    errno = saved;
}

int qp_poll(qp *q, struct qp_err *err)
{
    ENTER(q, true, err);
    bool busy = true;
    bool more = true;
    int rc = may_drive(q, false, err);
    if (rc != QP_OK) {
        return err_wrap(err, rc, "poll");
    }
    drive_begin(q);
    for (int i = 0; i < POLL_TURNS && rc == QP_OK && more; i++) {
        rc = loop_turn(q, true, &busy, err);
        (void)pthread_mutex_lock(&q->lock);
        more = (busy || has_arrived(q)) && !q->stop;
        (void)pthread_mutex_unlock(&q->lock);
    }
    rc = rc == QP_OK ? tidy_when_idle(q, err) : rc;
    publish(q, busy);
    (void)pthread_mutex_lock(&q->lock);
    q->stop = false;
    (void)pthread_mutex_unlock(&q->lock);
    drive_end(q);
    return rc;
}

int qp_fd(const qp *q)
{
    return handle_is_ours(q) ? q->both_fd : -1;
}

int64_t qp_next_deadline(qp *q)
{
    qp_ms now;
    int64_t mono;
    int64_t by_wall;
    int64_t left;
    bool waiting;
    if (!handle_is_ours(q)) {
        return -1;
    }
    now = q->env.wall_ms(q->env.context);
    mono = now_us(q);
    (void)pthread_mutex_lock(&q->lock);
    by_wall = q->due_at == INT64_MAX ? INT64_MAX : q->due_at - now;
    left = q->due_us <= mono ? 0 : (q->due_us - mono + 999) / 1000;
    waiting = q->busy || has_arrived(q);
    (void)pthread_mutex_unlock(&q->lock);
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
    bool left;
    int rc = QP_OK;
    (void)pthread_mutex_lock(&q->lock);
    left = q->busy || q->in_hand || has_arrived(q);
    (void)pthread_mutex_unlock(&q->lock);
    if (!left) {
        rc = reads_do(q, &left, read_left, err);
    }
    if (rc == QP_OK) {
        *out_left = left;
    }
    return rc;
}

static void *thread_main(void *context)
{
    qp *q = context;
    struct qp_err err;
    int rc = run(q, &q->writer, &err);
    writer_stop(&q->writer);
    if (rc != QP_OK) {
        log_write(&q->env, QP_LOG_ERROR, LOG_MSG("the engine has stopped"),
                  LOG_TEXT("why", err.text));
    }
    thread_left(q);
    return NULL; /* every call from now on is told */
}

void handle_watch(qp *q)
{
    if (!store_in_place(q->store) && !atomic_exchange(&q->displaced, true)) {
        (void)pthread_mutex_lock(&q->lock);
        kick(q);
        (void)pthread_mutex_unlock(&q->lock);
    }
}

bool handle_alive(qp *q)
{
    bool alive;
    (void)pthread_mutex_lock(&q->lock);
    alive = !q->threaded || q->running;
    (void)pthread_mutex_unlock(&q->lock);
    return alive;
}

/* Takes the right to start them, once. */
static int threads_begin(qp *q, struct qp_err *err)
{
    int rc = QP_OK;
    (void)pthread_mutex_lock(&q->lock);
    if (q->engine == NULL) {
        rc = err_set(err, QP_E_READONLY, "start threads: the store was opened for reading only");
    } else if (q->threaded || q->running) {
        rc = err_set(err, QP_E_EXISTS, "start threads: %s",
                     q->threaded ? "they were started before" : "qp_run drives the engine");
    } else {
        q->threaded = q->running = true;
    }
    (void)pthread_mutex_unlock(&q->lock);
    return rc;
}

int qp_start_threads(qp *q, int workers, struct qp_err *err)
{
    ENTER(q, true, err);
    int rc;
    if (workers < 0 || workers > LIMIT_WORKER_THREADS) {
        return err_set(err, QP_E_INVALID, "start threads: %d workers, there may be 0 to %d",
                       workers, LIMIT_WORKER_THREADS);
    }
    rc = threads_begin(q, err);
    if (rc != QP_OK) {
        return rc;
    }
    rc = writer_start(&q->writer, err);
    if (rc == QP_OK) {
        rc = pool_start(q, workers, err);
        threads_add(q, 1);
        if (rc == QP_OK && pthread_create(&q->thread, NULL, thread_main, q) != 0) {
            pool_stop(q);
            rc = err_set(err, QP_E_LIMIT, "start threads: the system refuses another thread");
        }
        if (rc != QP_OK) {
            threads_add(q, -1);
            writer_stop(&q->writer);
        }
    }
    q->thread_started = rc == QP_OK;
    if (rc != QP_OK) {
        (void)pthread_mutex_lock(&q->lock);
        q->threaded = q->running = false;
        (void)pthread_mutex_unlock(&q->lock);
    }
    return rc;
}

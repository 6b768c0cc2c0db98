/* loop.c - driving the engine: one turn, and the three ways to run */
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "run/handle.h"

/* After this much quiet the store may tidy up. */
#define IDLE_MS 1000

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

static struct arrived take_arrived(qp *q)
{
    struct arrived a;
    (void)pthread_mutex_lock(&q->lock);
    if (q->kicked) {
        uint64_t ignored;
        ssize_t size = read(q->event_fd, &ignored, sizeof ignored);
        (void)size; /* it is set: that is what kicked says */
        q->kicked = false;
    }
    a = (struct arrived){q->inbox, q->finished};
    q->inbox = q->last_call = NULL;
    q->inbox_count = 0;
    q->finished = q->last_finished = NULL;
    (void)pthread_mutex_unlock(&q->lock);
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
    while (q->unsent != NULL) {
        qp_task *t = q->unsent;
        q->unsent = t->next;
        t->next = NULL;
        task_submit(t);
    }
}

/* Whoever waits for an answer, and whoever wants to know how long to sleep. */
static void publish(qp *q, bool busy)
{
    (void)pthread_mutex_lock(&q->lock);
    q->deadline = engine_deadline(q->engine);
    q->busy = busy;
    if (q->answered) {
        q->answered = false;
        (void)pthread_cond_broadcast(&q->changed);
    }
    (void)pthread_mutex_unlock(&q->lock);
}

int loop_turn(qp *q, bool work, bool *out_busy, struct qp_err *err)
{
    bool busy = false;
    int rc;
    run_arrived(q, take_arrived(q));
    q->in_round = true;
    rc = engine_round(q->engine, &busy, err);
    q->in_round = false;
    pool_flush(q);
    if (work) {
        pool_run_here(q);
    }
    publish(q, busy);
    *out_busy = busy;
    return rc;
}

/* Whether somebody waits for the driver already. Under the lock. */
static bool has_arrived(const qp *q)
{
    return q->inbox != NULL || q->finished != NULL || q->stop;
}

static int64_t now_us(const qp *q)
{
    return q->env.monotonic_us(q->env.context);
}

/* How long to sleep, in milliseconds for poll. */
static int sleep_ms(qp *q, int64_t until_us)
{
    qp_ms now = store_now(q->store);
    qp_ms deadline = engine_deadline(q->engine);
    int64_t ms = q->unsent != NULL ? 100 : INT32_MAX;
    if (q->idle_at > 0 && q->idle_at - now < ms) {
        ms = q->idle_at - now;
    }
    if (deadline - now < ms) {
        ms = deadline - now;
    }
    if (until_us >= 0 && (until_us - now_us(q)) / 1000 + 1 < ms) {
        ms = (until_us - now_us(q)) / 1000 + 1;
    }
    return ms < 0 ? 0 : (int)ms;
}

void drive_sleep(qp *q, int64_t until_us)
{
    struct pollfd event = {.fd = q->event_fd, .events = POLLIN};
    bool arrived;
    (void)pthread_mutex_lock(&q->lock);
    arrived = has_arrived(q);
    (void)pthread_mutex_unlock(&q->lock);
    if (!arrived) {
        (void)poll(&event, 1, sleep_ms(q, until_us)); /* a signal only makes it look earlier */
    }
}

/* While another drives: until it has answered somebody, or the time is over. Under the lock. */
static void wait_driven(qp *q, int64_t until_us)
{
    struct timespec until;
    int64_t left_us = until_us - now_us(q);
    kick(q);
    if (until_us < 0) {
        (void)pthread_cond_wait(&q->changed, &q->lock);
        return;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += left_us / 1000000;
    until.tv_nsec += left_us % 1000000 * 1000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&q->changed, &q->lock, &until);
}

/* One turn, and a sleep if there was nothing to do. Under the lock, which is released meanwhile. */
static bool wait_driving(qp *q, int64_t until_us)
{
    struct qp_err err;
    bool busy = false;
    int rc;
    q->driven = true;
    q->driver = pthread_self();
    (void)pthread_mutex_unlock(&q->lock);
    rc = loop_turn(q, true, &busy, &err);
    if (rc == QP_OK && !busy) {
        drive_sleep(q, until_us);
    }
    (void)pthread_mutex_lock(&q->lock);
    q->driven = false;
    (void)pthread_cond_broadcast(&q->changed);
    return rc == QP_OK;
}

bool wait_until(qp *q, const bool *flag, int64_t until_us)
{
    bool going = true;
    bool set;
    (void)pthread_mutex_lock(&q->lock);
    while (!*flag && going && (until_us < 0 || now_us(q) < until_us)) {
        if (q->driven) {
            wait_driven(q, until_us);
        } else {
            going = wait_driving(q, until_us);
        }
    }
    set = *flag;
    (void)pthread_mutex_unlock(&q->lock);
    return set;
}

/* The log goes into the file when nothing else is to be done. */
static int tidy_when_idle(qp *q, bool busy, struct qp_err *err)
{
    qp_ms now = store_now(q->store);
    if (busy) {
        q->idle_at = now + IDLE_MS;
        return QP_OK;
    }
    if (q->idle_at == 0 || now < q->idle_at) {
        return QP_OK;
    }
    q->idle_at = 0;
    return store_idle(q->store, err);
}

static bool is_stopped(qp *q)
{
    bool stop;
    (void)pthread_mutex_lock(&q->lock);
    stop = q->stop;
    (void)pthread_mutex_unlock(&q->lock);
    return stop;
}

/* A failure that may pass is waited for; others end the run. */
static bool may_pass(int rc)
{
    return qp_code_class(rc) == QP_CLASS_RETRY || qp_code_class(rc) == QP_CLASS_LIMIT;
}

int qp_run(qp *q, struct qp_err *err)
{
    int rc = QP_OK;
    bool busy = true;
    drive_begin(q);
    while ((rc == QP_OK || may_pass(rc)) && !is_stopped(q)) {
        rc = loop_turn(q, true, &busy, err);
        rc = rc == QP_OK ? tidy_when_idle(q, busy, err) : rc;
        if (!busy) {
            drive_sleep(q, rc == QP_OK ? -1 : now_us(q) + 100 * 1000);
        }
    }
    drive_end(q);
    return may_pass(rc) ? QP_OK : rc;
}

void qp_stop(qp *q)
{
    (void)pthread_mutex_lock(&q->lock);
    q->stop = true;
    kick(q);
    (void)pthread_mutex_unlock(&q->lock);
}

int qp_poll(qp *q, struct qp_err *err)
{
    bool busy = true;
    bool more = true;
    int rc = QP_OK;
    drive_begin(q);
    while (rc == QP_OK && more) {
        rc = loop_turn(q, true, &busy, err);
        (void)pthread_mutex_lock(&q->lock);
        more = busy || has_arrived(q);
        more = more && !q->stop;
        (void)pthread_mutex_unlock(&q->lock);
    }
    rc = rc == QP_OK ? tidy_when_idle(q, false, err) : rc;
    drive_end(q);
    return rc;
}

int qp_fd(const qp *q)
{
    return q->event_fd;
}

int64_t qp_next_deadline(qp *q)
{
    qp_ms deadline;
    qp_ms now = q->env.wall_ms(q->env.context);
    bool waiting;
    (void)pthread_mutex_lock(&q->lock);
    deadline = q->deadline;
    waiting = q->busy || has_arrived(q);
    (void)pthread_mutex_unlock(&q->lock);
    if (waiting || deadline <= now) {
        return 0;
    }
    return deadline == INT64_MAX ? -1 : deadline - now;
}

static void *thread_main(void *context)
{
    qp *q = context;
    struct qp_err err;
    int rc = qp_run(q, &err);
    if (rc != QP_OK) {
        log_write(&q->env, QP_LOG_ERROR, LOG_MSG("the engine has stopped"),
                  LOG_TEXT("why", err.text));
    }
    return NULL; /* every call from now on is told */
}

int qp_start_threads(qp *q, int workers, struct qp_err *err)
{
    int rc;
    if (workers < 0 || workers > LIMIT_WORKER_THREADS) {
        return err_set(err, QP_E_INVALID, "start threads: 0 to %d workers", LIMIT_WORKER_THREADS);
    }
    if (q->threaded) {
        return err_set(err, QP_E_EXISTS, "start threads: they were started before");
    }
    rc = pool_start(q, workers, err);
    if (rc != QP_OK) {
        return rc;
    }
    q->threaded = true;
    if (pthread_create(&q->thread, NULL, thread_main, q) != 0) {
        return err_set(err, QP_E_LIMIT, "start threads: the system refuses another thread");
    }
    q->thread_started = true;
    return QP_OK;
}

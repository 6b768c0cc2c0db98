/* close.c - closing a handle, and the threads that must end before (see close.h)
 *
 * If we crash, nothing is lost that was answered: a call is answered after its commit. What was in hand is claimed
 * again by the next process that opens the file (engine_open), or, where several share a database, by another one when
 * the lease of the run is over.
 */
#include "run/close.h"

#include <time.h>

#include "run/enter.h"
#include "run/handle.h"
#include "run/loop.h"
#include "run/work.h"

/* A failure that may pass is met this often before we give up. */
#define CLOSE_TRIES 3

/* Whether there is work that is not committed yet. */
static bool is_unfinished(qp *q)
{
    struct driver *d = &q->driver;
    bool more;
    (void)pthread_mutex_lock(&d->lock);
    more = d->inbox != NULL || d->waiting_count > 0;
    (void)pthread_mutex_unlock(&d->lock);
    return more || tasks_has_results(q) || tasks_has_unsent(q) || d->unanswered > 0;
}

/* What the workers have finished, and what was asked for, is committed before we go; what fails then is
 * done again by the next process that opens the file. */
static void commit_finished(qp *q)
{
    int failures = 0;
    int rc = QP_OK;
    struct qp_err err;
    for (qp_task *t = pool_rest(&q->tasks.pool); t != NULL; t = pool_rest(&q->tasks.pool)) {
        task_give_back(t, TASK_NOT_BEGUN);
    }
    tasks_give_back_detached(q);
    while ((rc == QP_OK || (loop_may_pass(rc) && failures < CLOSE_TRIES)) &&
           (work_close(q) || is_unfinished(q))) {
        bool busy;
        rc = loop_turn(&q->driver, false, &busy, &err);
        failures += rc != QP_OK;
    }
    calls_expire(&q->driver, CALLS_ALL); /* the store is away: nothing of them was done */
}

/* A thread that waited for itself would never end: one inside a worker's function, or a callback of the engine. */
static int may_close(qp *q, struct qp_err *err)
{
    QP_TRY(process_check(q, "qp_close", err));
    return !driver_is_this_thread(&q->driver) && !pool_has_thread(&q->tasks.pool)
               ? QP_OK
               : err_set(err, QP_E_INVALID,
                         "qp_close: called inside a worker's function or a callback, for which it "
                         "would wait: call it on another thread");
}

/* Calls of other threads: those that wait for a job have been ended, others are answered within their own time. There
 * is none any more when this returns QP_OK. */
static int await_calls(qp *q, struct qp_err *err)
{
    for (int waited_ms = 0; atomic_load(&q->inside) > 0; waited_ms++) {
        if (waited_ms >= LIMIT_CLOSE_MS) {
            return err_set(err, QP_E_BUSY,
                           "qp_close: %lld calls on this engine are still running after %d s: the "
                           "handle is there, close it again when they have returned",
                           (long long)atomic_load(&q->inside), LIMIT_CLOSE_MS / 1000);
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* or less */
    }
    return QP_OK;
}

/* As driver, with no function at work. The handle is gone. */
static int close_rest(qp *q, struct qp_err *err)
{
    int closed;
    int rc;
    commit_finished(q);
    q->driver.in_engine = true;
    rc = engine_close(q->engine, err);
    work_end(q, QP_E_CLOSED);
    tasks_drop_all(q);
    readers_close(&q->readers);
    closed = store_close(q->store, rc == QP_OK ? err : NULL);
    handle_free(q);
    return rc != QP_OK ? rc : closed;
}

void threads_add(qp *q, int count)
{
    (void)pthread_mutex_lock(&q->driver.lock);
    q->live += count;
    (void)pthread_mutex_unlock(&q->driver.lock);
}

/* qp_close_within has answered: what fails here is done again by the next process that opens the store. A handle that calls of other
 * threads still use, which must not be, is left to them. */
static void orphan_close(qp *q)
{
    pool_forget(&q->tasks.pool);
    driver_seal(&q->driver);
    if (await_calls(q, NULL) != QP_OK) {
        return;
    }
    driver_begin(&q->driver);
    tasks_end_services(q);
    (void)close_rest(q, NULL);
}

void thread_left(void *handle)
{
    qp *q = handle;
    bool last;
    (void)pthread_mutex_lock(&q->driver.lock);
    q->live--;
    last = q->orphaned && q->live == 0;
    (void)pthread_cond_broadcast(&q->driver.changed);
    (void)pthread_mutex_unlock(&q->driver.lock);
    if (last) {
        orphan_close(q);
    }
}

/* No function waits for the end of a job any more, and every thread of our own is to end. */
static void ask_threads(qp *q)
{
    driver_close(&q->driver);
    driver_stop(&q->driver);
    pool_ask(&q->tasks.pool);
}

/* Until all have ended, or the time (< 0: any). */
static bool await_threads(qp *q, int64_t until_us)
{
    bool ended;
    (void)pthread_mutex_lock(&q->driver.lock);
    while (q->live > 0 && (until_us < 0 || q->env.monotonic_us(q->env.context) < until_us)) {
        driver_wait(&q->driver, until_us);
    }
    ended = q->live == 0;
    (void)pthread_mutex_unlock(&q->driver.lock);
    return ended;
}

/* What is in hand goes back, also what functions work on that have not returned: theirs is refused when it comes. */
static void give_back_all(qp *q)
{
    struct qp_err err;
    int failures = 0;
    bool busy;
    driver_seal(&q->driver);
    driver_begin(&q->driver);
    tasks_end_services(q);
    for (qp_task *t = pool_rest(&q->tasks.pool); t != NULL; t = pool_rest(&q->tasks.pool)) {
        task_give_back(t, TASK_NOT_BEGUN);
    }
    failures +=
        loop_turn(&q->driver, false, &busy, &err) != QP_OK; /* with what has been finished by now */
    tasks_give_back_running(q);
    while (q->driver.unanswered > 0 && failures < CLOSE_TRIES) {
        failures += loop_turn(&q->driver, false, &busy, &err) != QP_OK;
    }
    driver_end(&q->driver);
}

/* The time is over. The engine's own thread, when it runs a function itself, is its driver: then the tasks go back when that
 * has returned. False: all have ended by now. */
static bool leave_threads(qp *q)
{
    bool left;
    bool driven;
    (void)pthread_mutex_lock(&q->driver.lock);
    while (q->driver.running &&
           q->tasks.pool.thread_count > 0) { /* it runs no function, and ends soon */
        (void)pthread_cond_wait(&q->driver.changed, &q->driver.lock);
    }
    driven = q->driver.running;
    (void)pthread_mutex_unlock(&q->driver.lock);
    if (!driven) {
        give_back_all(q);
    }
    (void)pthread_mutex_lock(&q->driver.lock);
    left = q->live > 0;
    if (left) {
        pool_detach(&q->tasks.pool);
        if (q->driver.thread_started) {
            (void)pthread_detach(q->driver.thread);
        }
        q->orphaned = true;
    }
    (void)pthread_mutex_unlock(&q->driver.lock); /* from here on it may be gone */
    return left;
}

int qp_close_within(qp *q, qp_ms within_ms, struct qp_err *err)
{
    int64_t until_us = -1;
    if (q == NULL) {
        return QP_OK;
    }
    QP_TRY(may_close(q, err));
    if (within_ms >= 0) {
        within_ms = within_ms < LIMIT_TIMER_MS ? within_ms : LIMIT_TIMER_MS;
        until_us = q->env.monotonic_us(q->env.context) + within_ms * 1000;
    }
    ask_threads(q);
    if (!await_threads(q, until_us) && leave_threads(q)) {
        return err_set(err, QP_E_TIMEOUT,
                       "close: functions of workers have not returned in %lld ms; the store is "
                       "closed when they do",
                       (long long)within_ms);
    }
    if (q->driver.thread_started) {
        (void)pthread_join(q->driver.thread, NULL);
        q->driver.thread_started = false;
    }
    pool_stop(&q->tasks.pool);
    driver_seal(&q->driver);
    QP_TRY(await_calls(q, err));
    if (q->engine == NULL) {
        handle_free(q);
        return QP_OK;
    }
    driver_begin(&q->driver); /* so that a callback cannot drive as well */
    tasks_end_services(q);
    return close_rest(q, err);
}

int qp_close(qp *q, struct qp_err *err)
{
    return qp_close_within(q, -1, err);
}

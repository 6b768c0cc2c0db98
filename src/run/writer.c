/* writer.c - a thread that writes commits (see writer.h)
 *
 *   I1  one piece of work at a time: the engine gives the next one after the end of the last
 *   I2  `busy` falls under the lock, so no thread misses it and sleeps
 */
#include "run/writer.h"

#include <time.h>

#include "base/cond.h"

static void writer_begin(void *context, void (*work)(void *argument), void *argument)
{
    struct writer *w = context;
    (void)pthread_mutex_lock(&w->lock);
    QP_ASSERT(!atomic_load(&w->busy));
    atomic_store(&w->busy, true);
    w->work = work;
    w->argument = argument;
    (void)pthread_cond_signal(&w->given);
    (void)pthread_mutex_unlock(&w->lock);
}

static bool writer_is_busy(void *context)
{
    struct writer *w = context;
    return atomic_load(&w->busy);
}

static void writer_wait(void *context)
{
    struct writer *w = context;
    (void)pthread_mutex_lock(&w->lock);
    while (atomic_load(&w->busy)) {
        (void)pthread_cond_wait(&w->done, &w->lock);
    }
    (void)pthread_mutex_unlock(&w->lock);
}

void writer_wait_for(struct writer *w, int64_t us)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += us * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&w->lock);
    if (atomic_load(&w->busy)) {
        (void)pthread_cond_timedwait(&w->done, &w->lock, &until); /* or less */
    }
    (void)pthread_mutex_unlock(&w->lock);
}

static void *thread_main(void *context)
{
    struct writer *w = context;
    (void)pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        void (*work)(void *argument) = w->work;
        if (work == NULL) {
            (void)pthread_cond_wait(&w->given, &w->lock);
            continue;
        }
        w->work = NULL;
        (void)pthread_mutex_unlock(&w->lock);
        work(w->argument);
        (void)pthread_mutex_lock(&w->lock);
        atomic_store(&w->busy, false);
        (void)pthread_cond_signal(&w->done);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void writer_done(struct writer *w)
{
    (void)pthread_cond_destroy(&w->given);
    (void)pthread_cond_destroy(&w->done);
    (void)pthread_mutex_destroy(&w->lock);
}

int writer_start(struct writer *w, struct qp_err *err)
{
    *w = (struct writer){.calls = {w, writer_begin, writer_is_busy, writer_wait}};
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->given, NULL);
    cond_init_monotonic(&w->done);
    if (pthread_create(&w->thread, NULL, thread_main, w) != 0) {
        writer_done(w);
        return err_set(err, QP_E_LIMIT, "start threads: the system refuses another thread");
    }
    return QP_OK;
}

void writer_stop(struct writer *w)
{
    (void)pthread_mutex_lock(&w->lock);
    QP_ASSERT(!atomic_load(&w->busy));
    w->stop = true;
    (void)pthread_cond_signal(&w->given);
    (void)pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    writer_done(w);
}

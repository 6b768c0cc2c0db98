/* pool.c - the threads that run workers' functions
 *
 * A task goes round: the engine gives it (driver), a thread takes it from the queue, runs the
 * function, and puts it among the finished (handle's lock), where the driver finds it and commits what it
 * brought. In each place one thread owns it.
 */
#include "run/handle.h"
#include "run/stats.h"

/* A thread takes more than one only from a long queue, so that a slow function does not keep
 * others waiting while threads are idle. */
#define TAKE_MOST 16
/* So long the driver runs functions before it commits what they brought. */
#define RUN_HERE_US 10000

int pool_init(struct pool *p)
{
    if (pthread_mutex_init(&p->lock, NULL) != 0) {
        return QP_E_NOMEM;
    }
    if (pthread_cond_init(&p->work, NULL) != 0) {
        (void)pthread_mutex_destroy(&p->lock);
        return QP_E_NOMEM;
    }
    return QP_OK;
}

void pool_give(void *context, struct task *task)
{
    struct worker *w = context;
    struct pool *p = &w->q->pool;
    qp_task *t = task_make(w->q, w, task);
    stats_handed(w->q, task);
    if (p->given == NULL) {
        p->given = t;
    } else {
        p->last_given->next = t;
    }
    p->last_given = t;
    p->given_count++;
}

void pool_flush(qp *q)
{
    struct pool *p = &q->pool;
    if (p->given == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&p->lock);
    if (p->first == NULL) {
        p->first = p->given;
    } else {
        p->last->next = p->given;
    }
    p->last = p->last_given;
    p->count += p->given_count;
    if (p->given_count == 1) {
        (void)pthread_cond_signal(&p->work);
    } else {
        (void)pthread_cond_broadcast(&p->work);
    }
    (void)pthread_mutex_unlock(&p->lock);
    p->given = p->last_given = NULL;
    p->given_count = 0;
}

/* Up to `most` tasks from the front. Under the pool's lock. */
static qp_task *take(struct pool *p, size_t most)
{
    qp_task *first = p->first;
    qp_task *last = first;
    size_t taken = 1;
    if (first == NULL) {
        return NULL;
    }
    while (taken < most && last->next != NULL) {
        last = last->next;
        taken++;
    }
    p->first = last->next;
    p->count -= taken;
    last->next = NULL;
    return first;
}

void pool_finish(qp *q, qp_task *first)
{
    qp_task *last = first;
    while (last->next != NULL) {
        last = last->next;
    }
    (void)pthread_mutex_lock(&q->lock);
    if (q->finished == NULL) {
        q->finished = first;
    } else {
        q->last_finished->next = first;
    }
    q->last_finished = last;
    kick(q);
    (void)pthread_mutex_unlock(&q->lock);
}

/* Back to the front of the queue, in their order. */
static void put_back(struct pool *p, qp_task *first)
{
    qp_task *last = first;
    size_t count = 1;
    while (last->next != NULL) {
        last = last->next;
        count++;
    }
    (void)pthread_mutex_lock(&p->lock);
    p->last = p->first == NULL ? last : p->last;
    last->next = p->first;
    p->first = first;
    p->count += count;
    (void)pthread_mutex_unlock(&p->lock);
}

/* Runs one after the other; when the pool is stopped meanwhile, the rest goes back. */
static void run_list(struct pool *p, qp_task *first)
{
    for (qp_task *t = first; t != NULL; t = t->next) {
        task_run(t);
        if (atomic_load(&p->stopping) && t->next != NULL) {
            put_back(p, t->next);
            t->next = NULL;
        }
    }
}

static void *thread_main(void *context)
{
    qp *q = context;
    struct pool *p = &q->pool;
    qp_task *tasks;
    do {
        (void)pthread_mutex_lock(&p->lock);
        while (p->first == NULL && !atomic_load(&p->stopping)) {
            (void)pthread_cond_wait(&p->work, &p->lock);
        }
        size_t share = p->count / (4 * (size_t)p->thread_count) + 1;
        tasks = atomic_load(&p->stopping) ? NULL : take(p, share < TAKE_MOST ? share : TAKE_MOST);
        (void)pthread_mutex_unlock(&p->lock);
        if (tasks != NULL) {
            run_list(p, tasks);
            pool_finish(q, tasks);
        }
    } while (tasks != NULL);
    return NULL;
}

/* The next task for the driver itself. */
static qp_task *take_here(struct pool *p)
{
    qp_task *task;
    (void)pthread_mutex_lock(&p->lock);
    task = p->thread_count > 0 ? NULL : take(p, 1);
    (void)pthread_mutex_unlock(&p->lock);
    return task;
}

static bool is_wanted_elsewhere(qp *q, int64_t until_us)
{
    bool stop;
    (void)pthread_mutex_lock(&q->lock);
    stop = q->stop || q->closing;
    (void)pthread_mutex_unlock(&q->lock);
    return stop || q->env.monotonic_us(q->env.context) >= until_us;
}

size_t pool_waiting(qp *q)
{
    struct pool *p = &q->pool;
    size_t count;
    (void)pthread_mutex_lock(&p->lock);
    count = p->thread_count > 0 ? p->count : 0;
    (void)pthread_mutex_unlock(&p->lock);
    return count;
}

void pool_run_here(qp *q)
{
    int64_t until_us = q->env.monotonic_us(q->env.context) + RUN_HERE_US;
    qp_task *first = NULL;
    qp_task *last = NULL;
    qp_task *task = take_here(&q->pool);
    while (task != NULL) {
        task_run(task);
        if (first == NULL) {
            first = task;
        } else {
            last->next = task;
        }
        last = task;
        task = is_wanted_elsewhere(q, until_us) ? NULL : take_here(&q->pool);
    }
    if (first != NULL) {
        pool_finish(q, first);
    }
}

int pool_start(qp *q, int threads, struct qp_err *err)
{
    struct pool *p = &q->pool;
    if (threads == 0) {
        return QP_OK;
    }
    p->threads = mem_alloc(&q->env, (size_t)threads * sizeof *p->threads);
    if (p->threads == NULL) {
        return err_set(err, QP_E_NOMEM, "start threads: out of memory");
    }
    /* Set first: threads read it. */
    (void)pthread_mutex_lock(&p->lock);
    p->thread_count = threads;
    (void)pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&p->threads[i], NULL, thread_main, q) != 0) {
            (void)pthread_mutex_lock(&p->lock);
            p->thread_count = i;
            (void)pthread_mutex_unlock(&p->lock);
            pool_stop(q);
            return err_set(err, QP_E_LIMIT, "start threads: the system refuses another thread");
        }
    }
    return QP_OK;
}

/* After it the pool is as if it had never been started: functions may run on the driver. */
void pool_stop(qp *q)
{
    struct pool *p = &q->pool;
    (void)pthread_mutex_lock(&p->lock);
    atomic_store(&p->stopping, true);
    (void)pthread_cond_broadcast(&p->work);
    (void)pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->thread_count; i++) {
        (void)pthread_join(p->threads[i], NULL);
    }
    (void)pthread_mutex_lock(&p->lock);
    p->thread_count = 0;
    atomic_store(&p->stopping, false);
    (void)pthread_mutex_unlock(&p->lock);
    mem_free(&q->env, p->threads);
    p->threads = NULL;
}

qp_task *pool_rest(qp *q)
{
    struct pool *p = &q->pool;
    qp_task *rest;
    pool_flush(q);
    (void)pthread_mutex_lock(&p->lock);
    rest = take(p, SIZE_MAX);
    (void)pthread_mutex_unlock(&p->lock);
    return rest;
}

void pool_done(qp *q)
{
    struct pool *p = &q->pool;
    QP_ASSERT(p->threads == NULL);
    (void)pthread_cond_destroy(&p->work);
    (void)pthread_mutex_destroy(&p->lock);
}

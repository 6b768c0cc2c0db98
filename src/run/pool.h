/* pool.h - the threads that run workers' functions, and the tasks that wait for one
 *
 * These threads are apart from those that serve requests: a worker's function may block for hours.
 *
 * A task is given by the driver, waits in a queue by priority, and is run by a thread, or by the driver where there are
 * no threads. How it is run, and what comes after, is up to struct pool_hooks: the pool does not know the handle.
 * Functions say which thread may call them; without a word, any.
 */
#ifndef QP_RUN_POOL_H
#define QP_RUN_POOL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

struct worker;

/* Tasks by priority, of one priority in the order in which they came. */
struct task_queue {
    qp_task *first[LIMIT_PRIORITY + 1];
    qp_task *last[LIMIT_PRIORITY + 1];
    size_t count;
};

struct pool_hooks {
    void *context;
    bool (*run)(qp_task *task); /* runs its function. False: it was detached, and may be gone */
    void (*ran)(void *context, qp_task *task); /* then; NULL: it was detached */
    void (*thread_ended)(void *context); /* of pool_start: the last thing that a thread does */
};

/* What a thread of the pool runs at present. */
struct pool_slot {
    pthread_t self;               /* set before `now` for the first time */
    _Atomic(struct worker *) now; /* whose function; NULL: none */
};

struct pool {
    const struct qp_env *env;
    struct pool_hooks hooks;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct task_queue waiting; /* under the lock */
    int idle_count;            /* likewise: threads that wait for a task */
    atomic_bool stopping;      /* set under the lock, so that no thread misses it and sleeps */
    pthread_t *threads;
    struct pool_slot *slots; /* one per thread; changed under the lock */
    int slot_count;
    struct pool_slot here; /* of the driver, which runs functions when there are no threads */
    int thread_count;
    struct task_queue given; /* the driver's own: in this round, not yet shown to the threads */
};

int pool_init(struct pool *p, const struct qp_env *env, struct pool_hooks hooks) QP_MUST_USE;
void pool_done(struct pool *p);

/* thread_ended is called once for each of `threads`, in the end or, for those that the system refused, at once. */
int pool_start(struct pool *p, int threads, void (*thread_ended)(void *context),
               struct qp_err *err) QP_MUST_USE;
/* The threads end when their functions have returned; pool_stop waits for that. After it the pool is as if it had never
 * been started: functions may run on the driver. */
void pool_ask(struct pool *p);
void pool_stop(struct pool *p);
/* No thread waits for the threads; then, on the last of them, the pool is as if it had never been started. */
void pool_detach(struct pool *p);
void pool_forget(struct pool *p);
/* Whether this thread is one of them. */
bool pool_has_thread(struct pool *p);

/* On the driver: gives a task; pool_flush shows those of this round to the threads. */
void pool_give(struct pool *p, qp_task *task);
void pool_flush(struct pool *p);
/* Tasks that no thread has taken yet; 0 without threads. */
size_t pool_waiting(struct pool *p);
/* On the driver: runs one of those that wait, when there are no threads. False: there was none to run. */
bool pool_run_here(struct pool *p);
/* Whether a function of the worker runs; and the worker whose function this thread runs (`driver`: it is the driver's),
 * or NULL. */
bool pool_runs(struct pool *p, const struct worker *w);
const struct worker *pool_inside(struct pool *p, bool driver);
/* On the driver: the next task of the worker, or of all, that no thread has taken; NULL: there is none. */
qp_task *pool_take_of(struct pool *p, const struct worker *w);
qp_task *pool_rest(struct pool *p);

#endif

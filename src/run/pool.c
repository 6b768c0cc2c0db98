/* pool.c - the threads that run workers' functions
 *
 *            give, flush           take             function returns            commit
 *   (engine) -----------> waiting -----> a thread's ----------------> finished -------> (gone)
 *                                            |        qp_task_complete, _error, _retry    ^
 *                             qp_task_detach +--> the caller's --------------------------+
 *
 *   I1  in each place one thread owns a task: the driver, the queue's lock, a thread, the driver. A task that was detached
 *       is its owner's: the function's thread does not look at it again
 *   I2  a thread takes one task when it has nothing else to do: none waits behind another while a thread is idle
 *   I3  of those that wait the best priority is taken first, then the oldest: a newcomer overtakes all that are worse
 *   I4  what a function brought goes to the driver when the function has returned, alone. The driver commits all that it
 *       finds, so results that come during a commit share the next one
 *
 * If we crash, a function runs again unless its result is committed: at most those that are running, and those that
 * returned during the last commit.
 */
#include "run/handle.h"
#include "run/stats.h"

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

/* ----------------------------------------------------------------------------------------- queues */

static void queue_add(struct task_queue *into, qp_task *t)
{
    int64_t priority = t->task->priority;
    QP_ASSERT(priority >= 0 && priority <= LIMIT_PRIORITY);
    t->next = NULL;
    if (into->first[priority] == NULL) {
        into->first[priority] = t;
    } else {
        into->last[priority]->next = t;
    }
    into->last[priority] = t;
    into->count++;
}

/* All of `from`, each behind those of its priority. */
static void queue_join(struct task_queue *into, struct task_queue *from)
{
    for (int i = 0; i <= LIMIT_PRIORITY; i++) {
        if (from->first[i] == NULL) {
            continue;
        }
        *(into->first[i] == NULL ? &into->first[i] : &into->last[i]->next) = from->first[i];
        into->last[i] = from->last[i];
    }
    into->count += from->count;
    *from = (struct task_queue){.count = 0};
}

/* The first of the best priority; NULL: it is empty. */
static qp_task *queue_take(struct task_queue *from)
{
    for (int i = 0; i <= LIMIT_PRIORITY && from->count > 0; i++) {
        qp_task *t = from->first[i];
        if (t != NULL) {
            from->first[i] = t->next;
            from->count--;
            t->next = NULL;
            return t;
        }
    }
    QP_ASSERT(from->count == 0);
    return NULL;
}

/* The first of the best priority that is of this worker; NULL: there is none. */
static qp_task *queue_take_of(struct task_queue *from, const struct worker *w)
{
    for (int i = 0; i <= LIMIT_PRIORITY; i++) {
        qp_task **link = &from->first[i];
        qp_task *before = NULL;
        while (*link != NULL && (*link)->worker != w) {
            before = *link;
            link = &before->next;
        }
        if (*link != NULL) {
            qp_task *t = *link;
            *link = t->next;
            from->last[i] = from->last[i] == t ? before : from->last[i];
            from->count--;
            t->next = NULL;
            return t;
        }
    }
    return NULL;
}

/* --------------------------------------------------------------------------------- to and from threads */

void pool_give(void *context, struct task *task)
{
    struct worker *w = context;
    stats_handed(w->q, task);
    queue_add(&w->q->pool.given, task_make(w->q, w, task));
}

void pool_flush(qp *q)
{
    struct pool *p = &q->pool;
    if (p->given.count == 0) {
        return;
    }
    (void)pthread_mutex_lock(&p->lock);
    queue_join(&p->waiting, &p->given);
    /* Those that are busy look by themselves. */
    for (size_t i = 0; i < p->waiting.count && i < (size_t)p->idle_count; i++) {
        (void)pthread_cond_signal(&p->work);
    }
    (void)pthread_mutex_unlock(&p->lock);
}

void pool_finish(qp *q, qp_task *task)
{
    qp_task *before = atomic_load(&q->finished);
    do {
        task->next = before;
    } while (!atomic_compare_exchange_weak(&q->finished, &before, task));
    if (before == NULL) { /* else the event is set, or about to be */
        (void)pthread_mutex_lock(&q->lock);
        kick(q);
        (void)pthread_mutex_unlock(&q->lock);
    }
}

qp_task *pool_finished(qp *q)
{
    qp_task *rest = atomic_exchange(&q->finished, NULL);
    qp_task *first = NULL;
    while (rest != NULL) {
        qp_task *t = rest;
        rest = t->next;
        t->next = first;
        first = t;
    }
    return first;
}

/* A task for a thread that has none; NULL: the pool is being stopped. */
static qp_task *wait_for_task(struct pool *p)
{
    qp_task *task = NULL;
    (void)pthread_mutex_lock(&p->lock);
    p->idle_count++;
    while (p->waiting.count == 0 && !atomic_load(&p->stopping)) {
        (void)pthread_cond_wait(&p->work, &p->lock);
    }
    p->idle_count--;
    if (!atomic_load(&p->stopping)) {
        task = queue_take(&p->waiting);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return task;
}

/* A task that its function has detached comes back by a call of its own, if at all. */
static void run_one(qp *q, struct pool_slot *slot, qp_task *task)
{
    bool ours;
    atomic_store(&slot->now, task->worker);
    ours = task_run(task);
    atomic_store(&slot->now, NULL);
    if (ours) {
        pool_finish(q, task);
    } else if (atomic_load(&q->leaving_count) > 0) {
        (void)pthread_mutex_lock(&q->lock);
        kick(q);
        (void)pthread_mutex_unlock(&q->lock);
    }
}

/* A slot of this thread's own. */
static struct pool_slot *slot_take(struct pool *p)
{
    struct pool_slot *slot;
    (void)pthread_mutex_lock(&p->lock);
    slot = &p->slots[p->slot_count++];
    slot->self = pthread_self();
    (void)pthread_mutex_unlock(&p->lock);
    return slot;
}

static void *thread_main(void *context)
{
    qp *q = context;
    struct pool_slot *slot = slot_take(&q->pool);
    qp_task *task = wait_for_task(&q->pool);
    while (task != NULL) {
        run_one(q, slot, task);
        task = wait_for_task(&q->pool);
    }
    thread_left(q);
    return NULL;
}

/* ---------------------------------------------------------------------------------- on the driver itself */

/* The next task for the driver itself. */
static qp_task *take_here(struct pool *p)
{
    qp_task *task;
    (void)pthread_mutex_lock(&p->lock);
    task = p->thread_count > 0 ? NULL : queue_take(&p->waiting);
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

qp_task *pool_take_of(qp *q, const struct worker *w)
{
    struct pool *p = &q->pool;
    qp_task *task;
    (void)pthread_mutex_lock(&p->lock);
    task = queue_take_of(&p->waiting, w);
    (void)pthread_mutex_unlock(&p->lock);
    return task;
}

bool pool_runs(qp *q, const struct worker *w)
{
    struct pool *p = &q->pool;
    bool runs = atomic_load(&p->here.now) == w;
    (void)pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->slot_count && !runs; i++) {
        runs = atomic_load(&p->slots[i].now) == w;
    }
    (void)pthread_mutex_unlock(&p->lock);
    return runs;
}

/* The worker of a function that this thread runs is there as long as the function runs. */
bool pool_is_inside(qp *q, qp_str topic)
{
    struct pool *p = &q->pool;
    const struct worker *w = NULL;
    bool driver;
    (void)pthread_mutex_lock(&q->lock);
    driver = am_driver(q);
    (void)pthread_mutex_unlock(&q->lock);
    if (driver) {
        w = atomic_load(&p->here.now);
    }
    (void)pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->slot_count && !driver && w == NULL; i++) {
        if (pthread_equal(p->slots[i].self, pthread_self()) != 0) {
            w = atomic_load(&p->slots[i].now);
        }
    }
    (void)pthread_mutex_unlock(&p->lock);
    return w != NULL && str_equal(w->service.topic, topic);
}

size_t pool_waiting(qp *q)
{
    struct pool *p = &q->pool;
    size_t count;
    (void)pthread_mutex_lock(&p->lock);
    count = p->thread_count > 0 ? p->waiting.count : 0;
    (void)pthread_mutex_unlock(&p->lock);
    return count;
}

void pool_run_here(qp *q)
{
    int64_t until_us = q->env.monotonic_us(q->env.context) + RUN_HERE_US;
    qp_task *task = take_here(&q->pool);
    while (task != NULL) {
        run_one(q, &q->pool.here, task);
        task = is_wanted_elsewhere(q, until_us) ? NULL : take_here(&q->pool);
    }
}

/* ----------------------------------------------------------------------------------- start and stop */

static void slots_free(qp *q)
{
    mem_free(&q->env, q->pool.threads);
    mem_free(&q->env, q->pool.slots);
    q->pool.threads = NULL;
    q->pool.slots = NULL;
}

int pool_start(qp *q, int threads, struct qp_err *err)
{
    struct pool *p = &q->pool;
    if (threads == 0) {
        return QP_OK;
    }
    p->threads = mem_alloc(&q->env, (size_t)threads * sizeof *p->threads);
    p->slots = mem_alloc(&q->env, (size_t)threads * sizeof *p->slots);
    if (p->threads == NULL || p->slots == NULL) {
        slots_free(q);
        return err_set(err, QP_E_NOMEM, "start threads: out of memory");
    }
    /* Set first: threads read it. */
    (void)pthread_mutex_lock(&p->lock);
    p->thread_count = threads;
    (void)pthread_mutex_unlock(&p->lock);
    threads_add(q, threads);
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&p->threads[i], NULL, thread_main, q) != 0) {
            (void)pthread_mutex_lock(&p->lock);
            p->thread_count = i;
            (void)pthread_mutex_unlock(&p->lock);
            threads_add(q, i - threads);
            pool_stop(q);
            return err_set(err, QP_E_LIMIT, "start threads: the system refuses another thread");
        }
    }
    return QP_OK;
}

void pool_ask(qp *q)
{
    struct pool *p = &q->pool;
    (void)pthread_mutex_lock(&p->lock);
    atomic_store(&p->stopping, true);
    (void)pthread_cond_broadcast(&p->work);
    (void)pthread_mutex_unlock(&p->lock);
}

void pool_detach(qp *q)
{
    struct pool *p = &q->pool;
    for (int i = 0; i < p->thread_count; i++) {
        (void)pthread_detach(p->threads[i]);
    }
}

void pool_forget(qp *q)
{
    struct pool *p = &q->pool;
    (void)pthread_mutex_lock(&p->lock);
    p->thread_count = 0;
    p->slot_count = 0;
    atomic_store(&p->stopping, false);
    (void)pthread_mutex_unlock(&p->lock);
    slots_free(q);
}

/* After it the pool is as if it had never been started: functions may run on the driver. */
void pool_stop(qp *q)
{
    struct pool *p = &q->pool;
    pool_ask(q);
    for (int i = 0; i < p->thread_count; i++) {
        (void)pthread_join(p->threads[i], NULL);
    }
    pool_forget(q);
}

bool pool_has_thread(qp *q)
{
    struct pool *p = &q->pool;
    bool found = false;
    (void)pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->thread_count && !found; i++) {
        found = pthread_equal(p->threads[i], pthread_self()) != 0;
    }
    (void)pthread_mutex_unlock(&p->lock);
    return found;
}

qp_task *pool_rest(qp *q)
{
    struct pool *p = &q->pool;
    qp_task *rest;
    pool_flush(q);
    (void)pthread_mutex_lock(&p->lock);
    rest = queue_take(&p->waiting);
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

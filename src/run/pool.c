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
#include "run/pool.h"

#include "base/mem.h"
#include "run/task.h"

int pool_init(struct pool *p, const struct qp_env *env, struct pool_hooks hooks)
{
    *p = (struct pool){.env = env, .hooks = hooks};
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

void pool_give(struct pool *p, qp_task *task)
{
    queue_add(&p->given, task);
}

void pool_flush(struct pool *p)
{
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

static void execute_one(struct pool *p, struct pool_slot *slot, qp_task *task)
{
    bool ours;
    atomic_store(&slot->now, task->worker);
    ours = p->hooks.run(task);
    atomic_store(&slot->now, NULL);
    p->hooks.ran(p->hooks.context, ours ? task : NULL);
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
    struct pool *p = context;
    struct pool_slot *slot = slot_take(p);
    struct pool_hooks hooks = p->hooks;
    qp_task *task = wait_for_task(p);
    while (task != NULL) {
        execute_one(p, slot, task);
        task = wait_for_task(p);
    }
    hooks.thread_ended(hooks.context); /* the pool may be gone when it returns */
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

qp_task *pool_take_of(struct pool *p, const struct worker *w)
{
    qp_task *task;
    (void)pthread_mutex_lock(&p->lock);
    task = queue_take_of(&p->waiting, w);
    (void)pthread_mutex_unlock(&p->lock);
    return task;
}

bool pool_runs(struct pool *p, const struct worker *w)
{
    bool runs = atomic_load(&p->here.now) == w;
    (void)pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->slot_count && !runs; i++) {
        runs = atomic_load(&p->slots[i].now) == w;
    }
    (void)pthread_mutex_unlock(&p->lock);
    return runs;
}

/* The worker of a function that this thread runs is there as long as the function runs. */
const struct worker *pool_inside(struct pool *p, bool driver)
{
    const struct worker *w = driver ? atomic_load(&p->here.now) : NULL;
    (void)pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->slot_count && !driver && w == NULL; i++) {
        if (pthread_equal(p->slots[i].self, pthread_self()) != 0) {
            w = atomic_load(&p->slots[i].now);
        }
    }
    (void)pthread_mutex_unlock(&p->lock);
    return w;
}

size_t pool_waiting(struct pool *p)
{
    size_t count;
    (void)pthread_mutex_lock(&p->lock);
    count = p->thread_count > 0 ? p->waiting.count : 0;
    (void)pthread_mutex_unlock(&p->lock);
    return count;
}

bool pool_run_here(struct pool *p)
{
    qp_task *task = take_here(p);
    if (task == NULL) {
        return false;
    }
    execute_one(p, &p->here, task);
    return true;
}

/* ----------------------------------------------------------------------------------- start and stop */

static void slots_free(struct pool *p)
{
    mem_free(p->env, p->threads);
    mem_free(p->env, p->slots);
    p->threads = NULL;
    p->slots = NULL;
}

/* Threads that will not begin. */
static void refused(struct pool *p, int count)
{
    for (int i = 0; i < count; i++) {
        p->hooks.thread_ended(p->hooks.context);
    }
}

static void count_set(struct pool *p, int count)
{
    (void)pthread_mutex_lock(&p->lock);
    p->thread_count = count;
    (void)pthread_mutex_unlock(&p->lock);
}

int pool_start(struct pool *p, int threads, void (*thread_ended)(void *context), struct qp_err *err)
{
    QP_ASSERT(p->threads == NULL && threads >= 0);
    p->hooks.thread_ended = thread_ended;
    if (threads == 0) {
        return QP_OK;
    }
    p->threads = mem_alloc(p->env, (size_t)threads * sizeof *p->threads);
    p->slots = mem_alloc(p->env, (size_t)threads * sizeof *p->slots);
    if (p->threads == NULL || p->slots == NULL) {
        slots_free(p);
        refused(p, threads);
        return err_set(err, QP_E_NOMEM, "start threads: out of memory");
    }
    count_set(p, threads); /* first: threads read it */
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&p->threads[i], NULL, thread_main, p) != 0) {
            count_set(p, i);
            refused(p, threads - i);
            pool_stop(p);
            return err_set(err, QP_E_LIMIT, "start threads: the system refuses another thread");
        }
    }
    return QP_OK;
}

void pool_ask(struct pool *p)
{
    (void)pthread_mutex_lock(&p->lock);
    atomic_store(&p->stopping, true);
    (void)pthread_cond_broadcast(&p->work);
    (void)pthread_mutex_unlock(&p->lock);
}

void pool_detach(struct pool *p)
{
    for (int i = 0; i < p->thread_count; i++) {
        (void)pthread_detach(p->threads[i]);
    }
}

void pool_forget(struct pool *p)
{
    (void)pthread_mutex_lock(&p->lock);
    p->thread_count = 0;
    p->slot_count = 0;
    atomic_store(&p->stopping, false);
    (void)pthread_mutex_unlock(&p->lock);
    slots_free(p);
}

void pool_stop(struct pool *p)
{
    pool_ask(p);
    for (int i = 0; i < p->thread_count; i++) {
        (void)pthread_join(p->threads[i], NULL);
    }
    pool_forget(p);
}

bool pool_has_thread(struct pool *p)
{
    bool found = false;
    (void)pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->thread_count && !found; i++) {
        found = pthread_equal(p->threads[i], pthread_self()) != 0;
    }
    (void)pthread_mutex_unlock(&p->lock);
    return found;
}

qp_task *pool_rest(struct pool *p)
{
    qp_task *rest;
    pool_flush(p);
    (void)pthread_mutex_lock(&p->lock);
    rest = queue_take(&p->waiting);
    (void)pthread_mutex_unlock(&p->lock);
    return rest;
}

void pool_done(struct pool *p)
{
    QP_ASSERT(p->threads == NULL);
    (void)pthread_cond_destroy(&p->work);
    (void)pthread_mutex_destroy(&p->lock);
}

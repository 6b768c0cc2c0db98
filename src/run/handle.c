/* handle.c - opening and closing (see handle.h)
 *
 * If we crash, nothing here is lost that was answered: a call is answered after its commit. What a
 * process that died held is taken up by the next one that opens the file (engine_open), or, where
 * several share a database, by another one when the run's lease is over.
 */
#include "run/handle.h"
#include "run/presence.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/cond.h"
#include "base/env.h"
#include "run/kinds.h"
#include "run/stats.h"

void qp_options_init(struct qp_options *options)
{
    if (options != NULL) {
        *options = (struct qp_options){.size = sizeof *options};
    }
}

/* ------------------------------------------------------------------------------------------ enter */

/* A page that the system clears in a child after fork: so each call sees whether it is in one, without a call of the
 * system. Systems that cannot do that are asked for the number of the process instead. */
static void mark_make(qp *q)
{
    void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    q->pid = getpid();
    if (page == MAP_FAILED) {
        return;
    }
    if (madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) != 0) {
        (void)munmap(page, (size_t)sysconf(_SC_PAGESIZE)); /* it is ours */
        return;
    }
    q->mark = page;
    *q->mark = 1;
}

static void mark_drop(qp *q)
{
    if (q->mark != NULL) {
        (void)munmap(q->mark, (size_t)sysconf(_SC_PAGESIZE)); /* likewise */
    }
}

bool handle_is_ours(const qp *q)
{
    return q != NULL && (q->mark != NULL ? *q->mark == 1 : q->pid == getpid());
}

/* Whether this process opened it. */
static int process_check(const qp *q, const char *function, struct qp_err *err)
{
    return handle_is_ours(q)
               ? QP_OK
               : err_set(err, QP_E_INVALID,
                         "%s: process %ld opened the engine, and this is %ld: after fork, open the "
                         "store in the child",
                         function, (long)q->pid, (long)getpid());
}

static bool is_driving(qp *q)
{
    bool driving;
    (void)pthread_mutex_lock(&q->lock);
    driving = am_driver(q);
    (void)pthread_mutex_unlock(&q->lock);
    return driving;
}

int handle_enter(qp *q, bool complete, const char *function, const char *needs, qp **out_entered,
                 struct qp_err *err)
{
    if (q == NULL) {
        return err_set(err, QP_E_INVALID,
                       "%s: the handle is NULL, it needs an engine of qp_open, or a task in hand",
                       function);
    }
    if (!complete) {
        return err_set(err, QP_E_INVALID, "%s: an argument is NULL, it needs %s", function, needs);
    }
    QP_TRY(process_check(q, function, err));
    /* Counted first, then asked: either we see the seal, or qp_close sees us. In a callback of qp_close itself a call is
     * refused as in any other. */
    atomic_fetch_add(&q->inside, 1);
    *out_entered = q;
    return atomic_load(&q->sealed) && !is_driving(q)
               ? err_set(err, QP_E_CLOSED, "%s: the engine is being closed", function)
               : QP_OK;
}

void handle_leave(qp *const *entered)
{
    if (*entered != NULL) {
        atomic_fetch_sub(&(*entered)->inside, 1);
    }
}

/* ------------------------------------------------------------------------------------------- open */

static int name_set(qp *q, const char *name, struct qp_err *err)
{
    qp_str text = str_from(name != NULL ? name : "default");
    int rc = name_check(text, "namespace", err);
    if (rc == QP_OK) {
        memcpy(q->ns_name, text.p, text.n);
    }
    return rc;
}

static int enter_namespace(qp *q, const char *name, struct qp_err *err)
{
    struct op create = {.kind = OP_space_create, .space_create = {.name = str_from(name)}};
    int rc;
    q->ns = STORE_NS_DEFAULT;
    rc = name_set(q, name, err);
    if (name == NULL || rc != QP_OK) {
        return rc;
    }
    rc = engine_op(q->engine, &create, err);
    q->ns = create.space_create.out_ns;
    return rc == QP_E_EXISTS ? QP_OK : rc;
}

/* Whoever has the store for itself needs no lease: it is over when another opens it. */
static qp_ms run_lease_ms(const qp *q, const struct qp_options *options)
{
    return !q->shared ? 0 : options->lease_ms > 0 ? options->lease_ms : LIMIT_RUN_LEASE_MS;
}

static int store_enter(qp *q, const struct qp_options *options, struct qp_err *err)
{
    struct store_options of_store = {.path = options->path, .accept_loss = options->accept_loss};
    struct store_info info;
    int rc = store_open(&q->env, &of_store, &q->store, err);
    if (rc == QP_OK) {
        store_info(q->store, &info);
        q->shared = info.shared;
    }
    return rc;
}

/* A host polls one descriptor: what we set ourselves, and what others hint at. */
static int join_events(qp *q, struct qp_err *err)
{
    struct epoll_event e = {.events = EPOLLIN};
    q->wake_fd = store_wake_fd(q->store);
    if (q->wake_fd < 0) {
        return QP_OK;
    }
    q->both_fd = epoll_create1(EPOLL_CLOEXEC);
    if (q->both_fd < 0 || epoll_ctl(q->both_fd, EPOLL_CTL_ADD, q->event_fd, &e) != 0 ||
        epoll_ctl(q->both_fd, EPOLL_CTL_ADD, q->wake_fd, &e) != 0) {
        return err_set(err, QP_E_LIMIT, "qp_open: the system refuses another file descriptor");
    }
    return QP_OK;
}

/* Tasks of a job that was ended are not needed any more. */
static void job_ended(void *context, struct job_ref job, enum job_state state)
{
    qp *q = context;
    if (state != JOB_COMPLETED) {
        tasks_cancel(q, job);
        work_cancel(q, job);
    }
    follow_job_ended(q, job, state);
}

static int engine_enter(qp *q, const struct qp_options *options, struct qp_err *err)
{
    struct engine_options of_engine = {.name = "embedded",
                                       .keep_ms = options->keep_ms,
                                       .max_deliveries = options->max_deliveries,
                                       .faces = q->faces,
                                       .context = q,
                                       .ended = job_ended,
                                       .parked = follow_job_parked,
                                       .finished = stats_finished,
                                       .settled = work_settled,
                                       .serving = presence_write,
                                       .journaled = follow_journaled};
    int rc = work_init(q) == QP_OK && stats_create(q) == QP_OK
                 ? store_enter(q, options, err)
                 : err_set(err, QP_E_NOMEM, "qp_open: out of memory");
    of_engine.store = q->store;
    q->lease_ms = run_lease_ms(q, options);
    of_engine.lease_ms = q->lease_ms;
    rc = rc == QP_OK ? join_events(q, err) : rc;
    rc = rc == QP_OK ? engine_open(&of_engine, &q->engine, err) : rc;
    rc = rc == QP_OK ? names_refresh(q->faces->names, q->store, err) : rc;
    return rc == QP_OK ? enter_namespace(q, options->namespace_name, err) : rc;
}

/* All kinds of jobs that this handle knows. */
static int kinds_enter(qp *q, const struct face *const *more, size_t more_count, bool read_only,
                       struct qp_err *err)
{
    struct face_options options = {.env = &q->env, .read_only = read_only};
    int rc = kinds_open(&options, more, more_count, &q->faces);
    return rc == QP_OK ? QP_OK : err_set(err, rc, "qp_open: %s", qp_code_text(rc));
}

/* What must be there before anything else: the locks and the event. */
static int handle_init(qp *q, struct qp_err *err)
{
    q->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    q->both_fd = q->event_fd;
    q->wake_fd = -1;
    if (q->event_fd < 0) {
        return err_set(err, QP_E_LIMIT, "qp_open: the system refuses another file descriptor");
    }
    cond_init_monotonic(&q->changed);
    if (pthread_mutex_init(&q->lock, NULL) != 0 || pool_init(&q->pool) != QP_OK ||
        readers_init(&q->readers) != QP_OK || follow_init(&q->follow) != QP_OK ||
        ready_init(&q->ready) != QP_OK) {
        (void)close(q->event_fd);
        return err_set(err, QP_E_NOMEM, "qp_open: out of memory");
    }
    uuid_source_init(&q->uuids);
    return QP_OK;
}

static void workers_free(const struct qp_env *env, struct worker *first)
{
    while (first != NULL) {
        struct worker *w = first;
        first = w->next;
        mem_free(env, w);
    }
}

static void handle_free(qp *q)
{
    struct qp_env env = q->env;
    mark_drop(q);
    follow_done(q);
    work_free(q);
    stats_destroy(q);
    faces_close(q->faces);
    mem_free(&env, q->shell);
    readers_done(&q->readers, &env);
    (void)pthread_mutex_destroy(&q->ready.lock);
    mem_free(&env, q->path);
    pool_done(q);
    (void)pthread_cond_destroy(&q->changed);
    (void)pthread_mutex_destroy(&q->lock);
    if (q->both_fd >= 0 && q->both_fd != q->event_fd) {
        (void)close(q->both_fd);
    }
    (void)close(q->event_fd);
    workers_free(&env, q->workers);
    workers_free(&env, q->leaving);
    mem_free(&env, q);
}

int qp_open(const struct qp_options *options, qp **out_engine, struct qp_err *err)
{
    return handle_open(options, NULL, 0, out_engine, err);
}

static int out_check(qp **out_engine, struct qp_err *err)
{
    return out_engine != NULL
               ? QP_OK
               : err_set(err, QP_E_INVALID, "qp_open: an argument is NULL, it needs out_engine");
}

static int options_check(const struct qp_options *o, struct qp_err *err)
{
    int rc;
    if (o == NULL) {
        return err_set(err, QP_E_INVALID,
                       "qp_open: options are NULL, it needs those of "
                       "qp_options_init");
    }
    rc = size_check(o->size, sizeof *o, "qp_options", err);
    if (rc == QP_OK && o->env != NULL) {
        rc = size_check(o->env->size, sizeof *o->env, "qp_env", err);
    }
    if (rc != QP_OK) {
        return err_wrap(err, rc, "qp_open");
    }
    if (o->keep_ms < 0 || o->keep_ms > LIMIT_TIMER_MS) {
        return err_set(err, QP_E_INVALID, "qp_open: keep_ms is 0 to ten years");
    }
    if (o->max_deliveries < 0 || o->max_deliveries > INT32_MAX) {
        return err_set(err, QP_E_INVALID, "qp_open: max_deliveries is 0 to %d", INT32_MAX);
    }
    if (o->lease_ms != 0 &&
        (o->lease_ms < LIMIT_RUN_LEASE_LEAST_MS || o->lease_ms > LIMIT_LEASE_MS)) {
        return err_set(err, QP_E_INVALID, "qp_open: lease_ms is 0, or 1 s to a day");
    }
    return QP_OK;
}

static int path_keep(qp *q, const char *path, struct qp_err *err)
{
    size_t n = path == NULL ? 0 : strlen(path) + 1;
    if (path == NULL) {
        return QP_OK;
    }
    q->path = mem_alloc(&q->env, n);
    if (q->path == NULL) {
        return err_set(err, QP_E_NOMEM, "qp_open: out of memory");
    }
    memcpy(q->path, path, n);
    return QP_OK;
}

/* A handle without an engine. */
static int handle_make(const struct qp_options *options, qp **out_q, struct qp_err *err)
{
    struct qp_env env;
    qp *q;
    int rc = options_check(options, err);
    if (rc != QP_OK) {
        return rc;
    }
    qp_env_init(&env);
    env = options->env != NULL ? *options->env : env;
    env_complete(&env);
    q = mem_alloc(&env, sizeof *q);
    if (q == NULL) {
        return err_set(err, QP_E_NOMEM, "qp_open: out of memory");
    }
    q->env = env;
    mark_make(q);
    q->accept_loss = options->accept_loss;
    rc = handle_init(q, err);
    if (rc != QP_OK) {
        mark_drop(q);
        mem_free(&env, q);
        return rc;
    }
    rc = path_keep(q, options->path, err);
    if (rc != QP_OK) {
        handle_free(q);
        return rc;
    }
    *out_q = q;
    return QP_OK;
}

static int read_names(void *context, struct store *s, struct qp_err *err)
{
    qp *q = context;
    return names_refresh(q->faces->names, s, err);
}

int qp_open_readonly(const struct qp_options *options, qp **out_engine, struct qp_err *err)
{
    qp *q = NULL;
    int rc;
    QP_TRY(out_check(out_engine, err));
    if (options != NULL && options->path == NULL) {
        return err_set(err, QP_E_INVALID, "qp_open_readonly: name the file");
    }
    QP_TRY(handle_make(options, &q, err));
    rc = kinds_enter(q, NULL, 0, true, err);
    rc = rc == QP_OK ? reads_do(q, q, read_names, err) : rc;
    rc = rc == QP_OK ? name_set(q, options->namespace_name, err) : rc;
    rc = rc == QP_OK ? space_number(q, str_from(q->ns_name), &q->ns, err) : rc;
    if (rc != QP_OK) {
        handle_free(q);
        return rc;
    }
    *out_engine = q;
    return QP_OK;
}

int handle_open(const struct qp_options *options, const struct face *const *more, size_t more_count,
                qp **out_engine, struct qp_err *err)
{
    qp *q = NULL;
    int rc;
    QP_TRY(out_check(out_engine, err));
    QP_TRY(handle_make(options, &q, err));
    rc = kinds_enter(q, more, more_count, false, err);
    rc = rc == QP_OK ? engine_enter(q, options, err) : rc;
    if (rc != QP_OK) {
        engine_abandon(q->engine);
        readers_close(&q->readers);
        (void)store_close(q->store, NULL); /* the first failure is the one to report */
        handle_free(q);
        return rc;
    }
    *out_engine = q;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------ close */

/* A failure that may pass is met this often before we give up. */
#define CLOSE_TRIES 3

/* Whether somebody's work is not yet committed. */
static bool is_unfinished(qp *q)
{
    bool more;
    (void)pthread_mutex_lock(&q->lock);
    more = atomic_load(&q->finished) != NULL || q->inbox != NULL || q->waiting_count > 0;
    (void)pthread_mutex_unlock(&q->lock);
    return more || q->unsent != NULL || q->unanswered > 0;
}

/* What the workers have finished, and what was asked for, is committed before we go; what fails then is
 * done again by whoever opens the file next. */
static void commit_finished(qp *q)
{
    int failures = 0;
    int rc = QP_OK;
    struct qp_err err;
    for (qp_task *t = pool_rest(q); t != NULL; t = pool_rest(q)) {
        task_give_back(t, TASK_NOT_BEGUN);
    }
    tasks_give_back_detached(q);
    while ((rc == QP_OK || (may_pass(rc) && failures < CLOSE_TRIES)) &&
           (work_close(q) || is_unfinished(q))) {
        bool busy;
        rc = loop_turn(q, false, &busy, &err);
        failures += rc != QP_OK;
    }
    calls_expire(q, CALLS_ALL); /* the store is away: nothing of them was done */
}

/* From here on nothing new comes in. Under the lock, because call_put asks there. */
static void seal(qp *q)
{
    (void)pthread_mutex_lock(&q->lock);
    atomic_store(&q->sealed, true);
    (void)pthread_mutex_unlock(&q->lock);
}

/* As driver: no more tasks for workers that are gone. */
static void end_services(qp *q)
{
    for (struct worker *w = q->workers; w != NULL; w = w->next) {
        w->service.room = INT64_MIN / 2; /* ever */
    }
}

/* A thread that waited for itself would never end: one inside a worker's function, or a callback of the engine. */
static int may_close(qp *q, struct qp_err *err)
{
    QP_TRY(process_check(q, "qp_close", err));
    return !is_driving(q) && !pool_has_thread(q)
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
    q->in_engine = true;
    rc = engine_close(q->engine, err);
    work_end(q, QP_E_CLOSED);
    while (q->held != NULL) {
        task_drop(q->held);
    }
    readers_close(&q->readers);
    closed = store_close(q->store, rc == QP_OK ? err : NULL);
    handle_free(q);
    return rc != QP_OK ? rc : closed;
}

void threads_add(qp *q, int count)
{
    (void)pthread_mutex_lock(&q->lock);
    q->live += count;
    (void)pthread_mutex_unlock(&q->lock);
}

/* qp_close_within has answered: what fails here is done again by the next who opens the store. A handle that calls of other
 * threads still use, which must not be, is left to them. */
static void orphan_close(qp *q)
{
    pool_forget(q);
    seal(q);
    if (await_calls(q, NULL) != QP_OK) {
        return;
    }
    drive_begin(q);
    end_services(q);
    (void)close_rest(q, NULL);
}

void thread_left(qp *q)
{
    bool last;
    (void)pthread_mutex_lock(&q->lock);
    q->live--;
    last = q->orphaned && q->live == 0;
    (void)pthread_cond_broadcast(&q->changed);
    (void)pthread_mutex_unlock(&q->lock);
    if (last) {
        orphan_close(q);
    }
}

/* No function waits for the end of a job any more, and every thread of our own is to end. */
static void ask_threads(qp *q)
{
    (void)pthread_mutex_lock(&q->lock);
    q->closing = true;
    (void)pthread_cond_broadcast(&q->changed);
    (void)pthread_mutex_unlock(&q->lock);
    qp_stop(q);
    pool_ask(q);
}

/* Until all have ended, or the time (< 0: any). */
static bool await_threads(qp *q, int64_t until_us)
{
    bool ended;
    (void)pthread_mutex_lock(&q->lock);
    while (q->live > 0 && (until_us < 0 || q->env.monotonic_us(q->env.context) < until_us)) {
        wait_driven(q, until_us);
    }
    ended = q->live == 0;
    (void)pthread_mutex_unlock(&q->lock);
    return ended;
}

/* What is in hand goes back, also what functions work on that have not returned: theirs is refused when it comes. */
static void give_back_all(qp *q)
{
    struct qp_err err;
    int failures = 0;
    bool busy;
    seal(q);
    drive_begin(q);
    end_services(q);
    for (qp_task *t = pool_rest(q); t != NULL; t = pool_rest(q)) {
        task_give_back(t, TASK_NOT_BEGUN);
    }
    failures += loop_turn(q, false, &busy, &err) != QP_OK; /* with what has been finished by now */
    tasks_give_back_running(q);
    while (q->unanswered > 0 && failures < CLOSE_TRIES) {
        failures += loop_turn(q, false, &busy, &err) != QP_OK;
    }
    drive_end(q);
}

/* The time is over. The engine's own thread, when it runs a function itself, is its driver: then the tasks go back when that
 * has returned. False: all have ended by now. */
static bool leave_threads(qp *q)
{
    bool left;
    bool driven;
    (void)pthread_mutex_lock(&q->lock);
    while (q->running && q->pool.thread_count > 0) { /* it runs no function, and ends soon */
        (void)pthread_cond_wait(&q->changed, &q->lock);
    }
    driven = q->running;
    (void)pthread_mutex_unlock(&q->lock);
    if (!driven) {
        give_back_all(q);
    }
    (void)pthread_mutex_lock(&q->lock);
    left = q->live > 0;
    if (left) {
        pool_detach(q);
        if (q->thread_started) {
            (void)pthread_detach(q->thread);
        }
        q->orphaned = true;
    }
    (void)pthread_mutex_unlock(&q->lock); /* from here on it may be gone */
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
    if (q->thread_started) {
        (void)pthread_join(q->thread, NULL);
        q->thread_started = false;
    }
    pool_stop(q);
    seal(q);
    QP_TRY(await_calls(q, err));
    if (q->engine == NULL) {
        handle_free(q);
        return QP_OK;
    }
    drive_begin(q); /* so that a callback cannot drive as well */
    end_services(q);
    return close_rest(q, err);
}

int qp_close(qp *q, struct qp_err *err)
{
    return qp_close_within(q, -1, err);
}

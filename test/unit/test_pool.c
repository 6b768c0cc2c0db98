/* test_pool.c - engines with threads: workers, group commits, closing, crashes and failures of the
 * store under load
 *
 * Nothing sleeps: tests wait for conditions, with a limit. Faults are set on the driver's own thread,
 * inside qp_exec, where nobody else looks at them.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/failpoint.h"
#include "base/mem.h"
#include "run/handle.h"
#include "run/loop.h"
#include "support/faultvfs.h"
#include "support/runtest.h"

static int succeed(void *context, qp_task *task)
{
    struct rt_count *count = context;
    if (count != NULL) {
        rt_add(count, 1);
    }
    return qp_task_output(task, qp_task_input(task));
}

static void start_threads(qp *q, int workers)
{
    struct qp_err err = {0};
    if (qp_start_threads(q, workers, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
}

static qp_str name_of(char id[24], const char *prefix, int i)
{
    (void)snprintf(id, 24, "%s%d", prefix, i);
    return str_from(id);
}

/* All of them completed. */
static void expect_completed(qp *q, const char *prefix, int count)
{
    for (int i = 0; i < count; i++) {
        char id[24];
        (void)name_of(id, prefix, i);
        rt_expect(q, id, "completed", NULL);
    }
}

/* ------------------------------------------------------------------------------------- threads */

/* With no, one and four workers: every job is done once, a retry comes by itself, and the engine closes
 * with threads that have nothing to do. */
static int fail_once(void *context, qp_task *task)
{
    return qp_task_attempt(task) == 1 ? QP_E_BUSY : succeed(context, task);
}

static void test_workers(void **state)
{
    static const int counts[] = {0, 1, 4};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        for (int on_file = 0; on_file < 2; on_file++) {
            struct rt_count done = RT_COUNT_INIT;
            struct qp_err err = {0};
            char id[24];
            qp *q;
            rt_begin(RT_REAL);
            q = rt_open(on_file ? rt_path : NULL);
            rt_worker(q, "work", succeed, &done);
            rt_worker(q, "retry", fail_once, &done);
            start_threads(q, counts[i]);
            assert_int_equal(qp_start_threads(q, 1, &err), QP_E_EXISTS);
            rt_start_with(q, &(struct qp_start){.topic = QP_STR("retry"),
                                                .id = QP_STR("retry"),
                                                .input = QP_STR("1"),
                                                .retry = {.backoff_ms = 5}});
            for (int j = 0; j < 50; j++) {
                (void)name_of(id, "j", j);
                rt_start(q, id);
            }
            for (int j = 0; j < 50; j++) {
                (void)name_of(id, "j", j);
                rt_wait(q, id, "completed");
            }
            rt_wait(q, "retry", "completed");
            assert_int_equal(rt_value(&done), 51);
            rt_close(q);
            if (on_file) {
                rt_check(rt_path, 51);
            }
            rt_end();
        }
    }
}

static void test_bad_counts(void **state)
{
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(NULL);
    assert_int_equal(qp_start_threads(q, -1, &err), QP_E_INVALID);
    assert_int_equal(qp_start_threads(q, LIMIT_WORKER_THREADS + 1, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "1024"));
    rt_close(q);
    rt_end();
}

static atomic_int threads_left = -1; /* that the system will give; < 0: any number */

/* In the place of the library's: a system that refuses threads. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                   void *context)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    }
    if (atomic_load(&threads_left) == 0) {
        return 11; /* EAGAIN */
    }
    if (atomic_load(&threads_left) > 0) {
        atomic_fetch_sub(&threads_left, 1);
    }
    return real(thread, attributes, body, context);
}

/* The system refuses the first, the third, or the engine's thread: an error, nothing is left running,
 * and the next try works. */
static void test_without_threads(void **state)
{
    static const int allowed[] = {0, 2, 3};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(allowed); i++) {
        struct rt_count done = RT_COUNT_INIT;
        struct qp_err err = {0};
        qp *q;
        rt_begin(RT_REAL);
        q = rt_open(NULL);
        rt_worker(q, "work", succeed, &done);
        atomic_store(&threads_left, allowed[i]);
        assert_int_equal(qp_start_threads(q, 3, &err), QP_E_LIMIT);
        assert_non_null(strstr(err.text, "thread"));
        atomic_store(&threads_left, -1);
        rt_start(q, "a");
        rt_wait(q, "a", "completed"); /* on this thread */
        start_threads(q, 3);
        rt_start(q, "b");
        rt_await(&done, 2);
        rt_wait(q, "b", "completed");
        rt_close(q);
        rt_end();
    }
}

/* -------------------------------------------------------------------------------- many callers */

#define CALLERS 8
#define CALLS 20

struct load {
    qp *q;
    bool claims; /* each completes a task of its own by hand */
};

static void call_a_lot(void *context, int index)
{
    struct load *l = context;
    for (int i = 0; i < CALLS; i++) {
        struct qp_err err = {0};
        char id[24];
        struct qp_job job;
        qp_str name = name_of(id, "j", index * CALLS + i);
        struct qp_start start = {.topic = QP_STR("work"), .id = name, .input = QP_STR("[1]")};
        QP_ASSERT(qp_job_start(l->q, &start, NULL, &err) == QP_OK);
        QP_ASSERT(qp_job_get(l->q, name, &job, &err) == QP_OK);
        qp_job_done(l->q, &job);
        if (l->claims) {
            qp_task *task = NULL;
            int rc = qp_task_claim(l->q, QP_STR("work"), &task, &err);
            QP_ASSERT(rc == QP_OK); /* as many claims as starts, each after one */
            QP_ASSERT(qp_task_complete(task, QP_STR("[1]"), &err) == QP_OK);
        } else if (i % 4 == 0) {
            int rc = qp_job_cancel(l->q, name, "x", &err);
            QP_ASSERT(rc == QP_OK || rc == QP_E_CLOSED);
        } else {
            QP_ASSERT(qp_job_wait(l->q, name, 30000, &job, &err) == QP_OK);
            QP_ASSERT(str_equal(job.output, QP_STR("[1]")));
            qp_job_done(l->q, &job);
        }
    }
}

/* Several threads start, read, wait and cancel at once, with and without an engine thread: all get their
 * answers, and share commits. */
static void test_many_callers(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        struct load l = {0};
        struct store_info info;
        rt_begin(RT_REAL);
        l.q = rt_open(rt_path);
        rt_worker(l.q, "work", succeed, NULL);
        if (threads) {
            start_threads(l.q, 2);
        }
        rt_threads(CALLERS, call_a_lot, &l);
        rt_close(l.q);
        l.q = rt_open(rt_path);
        store_info(l.q->store, &info);
        assert_false(info.opened_unclean);
        rt_close(l.q);
        rt_check(rt_path, (int64_t)CALLERS * CALLS);
        rt_end();
    }
}

/* Several claim by hand at once: everybody gets a task, and nobody that of another. */
static void test_many_claimers(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        struct load l = {.claims = true};
        rt_begin(RT_REAL);
        l.q = rt_open(rt_path);
        if (threads) {
            start_threads(l.q, 0);
        }
        rt_threads(CALLERS, call_a_lot, &l);
        expect_completed(l.q, "j", CALLERS * CALLS);
        rt_close(l.q);
        rt_check(rt_path, (int64_t)CALLERS * CALLS);
        rt_end();
    }
}

struct gate {
    struct rt_count inside;
    struct rt_count open;
};
#define GATE_INIT                                                                                  \
    {                                                                                              \
        RT_COUNT_INIT, RT_COUNT_INIT                                                               \
    }

/* Holds the commit until everybody waits. */
static int hold_commit(void *context, void *native)
{
    struct gate *g = context;
    (void)native;
    rt_add(&g->inside, 1);
    rt_await(&g->open, 1);
    return QP_OK;
}

struct group {
    qp *q;
    struct gate gate;
    struct rt_count about; /* to call */
};

static size_t inbox_count(qp *q)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&q->driver.lock);
    for (const struct call *c = q->driver.inbox; c != NULL; c = c->next) {
        count++;
    }
    (void)pthread_mutex_unlock(&q->driver.lock);
    return count;
}

static void call_in_group(void *context, int index)
{
    struct group *g = context;
    struct qp_err err = {0};
    char id[24];
    struct qp_start start = {
        .topic = QP_STR("work"), .id = name_of(id, "g", index), .input = QP_STR("1")};
    if (index == 0) {
        QP_ASSERT(qp_exec(g->q, hold_commit, &g->gate, &err) == QP_OK);
        return;
    }
    rt_await(&g->gate.inside, 1);
    if (index == 1) {
        rt_await(&g->about, 14);
        while (inbox_count(g->q) < 14) { /* those who are about to call do so: no lock keeps them */
            (void)sched_yield();
        }
        rt_add(&g->gate.open, 1);
        return;
    }
    rt_add(&g->about, 1);
    QP_ASSERT(qp_job_start(g->q, &start, NULL, &err) == QP_OK);
}

/* Fourteen starts that come while a commit is under way share the next one. */
static void test_group_commit(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        struct group g = {.gate = GATE_INIT, .about = RT_COUNT_INIT};
        struct store_info before;
        struct store_info after;
        rt_begin(RT_REAL);
        g.q = rt_open(rt_path);
        rt_start(g.q, "first"); /* numbers are reserved, once for many jobs */
        store_info(g.q->store, &before);
        if (threads) {
            start_threads(g.q, 0);
        }
        rt_threads(16, call_in_group, &g);
        rt_expect(g.q, "g15", "running", NULL);
        if (threads) {
            qp_stop(g.q); /* so that this thread may look */
            assert_int_equal(pthread_join(g.q->driver.thread, NULL), 0);
            g.q->driver.thread_started = false;
        }
        store_info(g.q->store, &after);
        assert_in_range(after.commits - before.commits, 2, 6); /* for 15 calls */
        rt_close(g.q);
        rt_check(rt_path, 15);
        rt_end();
    }
}

/* ----------------------------------------------------------------------------------- in hand */

struct bound {
    struct rt_count inside;
    struct rt_count open;
};

static int stay(void *context, qp_task *task)
{
    struct bound *b = context;
    rt_add(&b->inside, 1);
    rt_await(&b->open, 1);
    return qp_task_output(task, QP_STR("1"));
}

static size_t held(qp *q)
{
    size_t count = 0;
    for (const qp_task *t = q->tasks.held; t != NULL; t = t->next_held) {
        count++;
    }
    return count;
}

static int count_held(void *context, void *native)
{
    (void)native;
    *(size_t *)context = held(*(qp **)context);
    return QP_OK;
}

/* No more tasks are fetched than in_hand allows, with more threads than that and many tasks; others may
 * still claim the rest. */
static void test_in_hand(void **state)
{
    struct bound b = {RT_COUNT_INIT, RT_COUNT_INIT};
    struct qp_err err = {0};
    union {
        qp *q;
        size_t count;
    } look;
    char id[24];
    qp_task *task;
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(rt_path);
    assert_int_equal(
        qp_worker_add(
            q,
            &(struct qp_worker){.topic = QP_STR("work"), .work = stay, .context = &b, .in_hand = 3},
            &err),
        QP_OK);
    start_threads(q, 4);
    for (int i = 0; i < 10; i++) {
        (void)name_of(id, "j", i);
        rt_start(q, id);
    }
    rt_await(&b.inside, 3);
    look.q = q;
    assert_int_equal(qp_exec(q, count_held, &look, &err), QP_OK);
    assert_int_equal(look.count, 3);
    assert_int_equal(rt_value(&b.inside), 3);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_OK);
    rt_add(&b.open, 1);
    for (int i = 0; i < 10; i++) {
        (void)name_of(id, "j", i);
        rt_wait(q, id, "completed");
    }
    assert_int_equal(rt_value(&b.inside), 9);
    rt_close(q);
    rt_check(rt_path, 10);
    rt_end();
}

/* --------------------------------------------------------------------- tasks that are lost */

static int until_cancelled(void *context, qp_task *task)
{
    struct bound *b = context;
    struct qp_err err = {0};
    QP_ASSERT(qp_task_heartbeat(task, &err) == QP_OK);
    rt_add(&b->inside, 1);
    while (!qp_task_is_cancelled(task)) {
        (void)sched_yield();
    }
    QP_ASSERT(qp_task_heartbeat(task, &err) == QP_E_STALE);
    rt_add(&b->open, 1);
    return qp_task_output(task, QP_STR("1"));
}

/* A function on a thread learns that its job was cancelled, without asking the engine; what it brings
 * does not count. */
static void test_cancelled_on_a_thread(void **state)
{
    struct bound b = {RT_COUNT_INIT, RT_COUNT_INIT};
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(rt_path);
    rt_worker(q, "work", until_cancelled, &b);
    start_threads(q, 2);
    rt_start(q, "a");
    rt_await(&b.inside, 1);
    assert_int_equal(qp_job_cancel(q, QP_STR("a"), "enough", &err), QP_OK);
    rt_await(&b.open, 1);
    rt_close(q);
    q = rt_open(rt_path);
    rt_expect(q, "a", "cancelled", "enough");
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

static int stay_silent(void *context, qp_task *task)
{
    struct bound *b = context;
    struct qp_err err = {0};
    rt_add(&b->inside, 1);
    rt_await(&b->open, 1);
    QP_ASSERT(qp_task_heartbeat(task, &err) == QP_E_STALE);
    return qp_task_output(task, QP_STR("\"late\""));
}

/* A function is silent for longer than its lease: the engine's thread gives the task back when it is due,
 * another completes it, and the late result changes nothing. */
static void test_a_lease_that_ends(void **state)
{
    struct bound b = {RT_COUNT_INIT, RT_COUNT_INIT};
    struct qp_err err = {0};
    struct qp_job job;
    qp_task *task = NULL;
    int rc;
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(rt_path);
    assert_int_equal(qp_worker_add(q,
                                   &(struct qp_worker){.topic = QP_STR("work"),
                                                       .work = stay_silent,
                                                       .context = &b,
                                                       .lease_ms = 30,
                                                       .in_hand = 1},
                                   &err),
                     QP_OK);
    start_threads(q, 2);
    rt_start(q, "a");
    rt_await(&b.inside, 1);
    do {
        rc = qp_task_claim(q, QP_STR("work"), &task, &err);
        /* Between two looks this waits a moment: the job does not end. */
        if (rc != QP_OK) {
            assert_int_equal(qp_job_wait(q, QP_STR("a"), 10, &job, &err), QP_E_TIMEOUT);
        }
    } while (rc == QP_E_NOT_FOUND);
    assert_int_equal(rc, QP_OK);
    assert_int_equal(qp_task_attempt(task), 2);
    assert_int_equal(qp_task_complete(task, QP_STR("\"second\""), &err), QP_OK);
    rt_add(&b.open, 1);
    rt_close(q);
    q = rt_open(rt_path);
    rt_expect(q, "a", "completed", "\"second\"");
    assert_int_equal(rt_value(&b.inside), 1);
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

/* --------------------------------------------------------------------------------------- close */

struct closer {
    qp *q;
    struct bound *bound;
};

static void close_or_open(void *context, int index)
{
    struct closer *c = context;
    if (index == 0) {
        QP_ASSERT(qp_close(c->q, NULL) == QP_OK);
        return;
    }
    while (!atomic_load(&c->q->tasks.pool.stopping)) { /* it is there: it waits for the function */
        (void)sched_yield();
    }
    rt_add(&c->bound->open, 1);
}

/* One function runs and others wait when the engine closes: it waits for the one, commits what it
 * brought, and the rest is ready again as if it had never been claimed. */
static void test_closing_with_work_in_hand(void **state)
{
    static const qp_ms leases[] = {0, 3600 * 1000};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(leases); i++) {
        struct bound b = {RT_COUNT_INIT, RT_COUNT_INIT};
        struct closer c = {.bound = &b};
        struct qp_err err = {0};
        char id[24];
        qp_task *task;
        rt_begin(RT_REAL);
        c.q = rt_open(rt_path);
        assert_int_equal(qp_worker_add(c.q,
                                       &(struct qp_worker){.topic = QP_STR("work"),
                                                           .work = stay,
                                                           .context = &b,
                                                           .lease_ms = leases[i]},
                                       &err),
                         QP_OK);
        start_threads(c.q, 1);
        for (int j = 0; j < 20; j++) {
            (void)name_of(id, "j", j);
            rt_start(c.q, id);
        }
        rt_await(&b.inside, 1);
        rt_threads(2, close_or_open, &c);
        c.q = rt_open(rt_path);
        assert_int_equal(rt_value(&b.inside), 1);
        rt_expect(c.q, "j0", "completed", "1");
        for (int j = 1; j < 20; j++) {
            assert_int_equal(qp_task_claim(c.q, QP_STR("work"), &task, &err), QP_OK);
            assert_int_equal(qp_task_attempt(task), 1);
            assert_true(str_equal(qp_task_job(task), name_of(id, "j", j)));
            assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_OK);
        }
        rt_close(c.q);
        rt_check(rt_path, 20);
        rt_end();
    }
}

static int wait_for_never(void *context, qp_task *task)
{
    struct bound *b = context;
    struct qp_job job;
    struct qp_err err = {0};
    int rc;
    rt_add(&b->inside, 1);
    rc = qp_job_wait(task->q, QP_STR("never"), -1, &job, &err);
    QP_ASSERT(rc == QP_E_CLOSED);
    return qp_task_output(task, QP_STR("\"closed\""));
}

/* A function that waits for a job does not keep the engine from closing: its wait ends, and what it
 * brings is committed. */
static void test_closing_while_a_function_waits(void **state)
{
    struct bound b = {RT_COUNT_INIT, RT_COUNT_INIT};
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(rt_path);
    rt_worker(q, "work", wait_for_never, &b);
    start_threads(q, 2);
    rt_start_with(
        q, &(struct qp_start){.topic = QP_STR("x"), .id = QP_STR("never"), .input = QP_STR("1")});
    rt_start(q, "a");
    rt_await(&b.inside, 1);
    rt_close(q);
    q = rt_open(rt_path);
    rt_expect(q, "a", "completed", "\"closed\"");
    rt_close(q);
    rt_check(rt_path, 2);
    rt_end();
}

static void count_started(void *context, int code, const char *id)
{
    (void)id;
    *(int *)context += code == QP_OK;
}

/* Results and starts that nobody has driven, more than one round takes, are committed by the close. */
static void test_closing_with_results_and_calls(void **state)
{
    enum { MANY = LIMIT_ROUND_COMMANDS + 100 };
    struct qp_err err = {0};
    int started = 0;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    assert_int_equal(
        qp_worker_add(
            q, &(struct qp_worker){.topic = QP_STR("work"), .work = succeed, .in_hand = MANY},
            &err),
        QP_OK);
    for (int phase = 0; phase < 2; phase++) {
        for (int i = 0; i < MANY; i++) {
            char id[24];
            struct qp_start start = {.topic = QP_STR("work"),
                                     .id = name_of(id, phase == 0 ? "a" : "b", i),
                                     .input = QP_STR("1"),
                                     .context = &started,
                                     .started = count_started};
            assert_int_equal(qp_job_start_async(q, &start, &err), QP_OK);
        }
        while (phase == 0 && started < MANY) {
            bool busy;
            assert_int_equal(loop_turn(&q->driver, false, &busy, &err), QP_OK);
        }
        if (phase == 0) {
            tasks_run_here(q); /* the functions have run, and nothing is committed */
        }
    }
    rt_close(q);
    assert_int_equal(started, 2 * MANY);
    q = rt_open(rt_path);
    expect_completed(q, "a", MANY);
    rt_expect(q, "b0", "running", NULL);
    rt_close(q);
    rt_check(rt_path, 2 * MANY);
    rt_end();
}

/* --------------------------------------------------------------------------------------- kill -9 */

#define KILLED_JOBS 300

static void count_any(void *context, const char *status)
{
    (void)status;
    rt_add(context, 1);
}

/* Starts everything, with threads, and dies at the n-th commit. */
static void child_life(int n)
{
    struct rt_count done = RT_COUNT_INIT;
    char spec[64];
    qp *q = rt_open(rt_path);
    rt_worker(q, "work", succeed, NULL);
    (void)snprintf(spec, sizeof spec, "commit.%s=kill@%d", n % 2 == 0 ? "before" : "after", n);
    QP_ASSERT(failpoint_set(spec) == QP_OK);
    QP_ASSERT(qp_start_threads(q, 3, NULL) == QP_OK);
    for (int i = 0; i < KILLED_JOBS; i++) {
        char id[24];
        struct qp_start start = {.topic = QP_STR("work"),
                                 .id = name_of(id, "k", i),
                                 .input = QP_STR("1"),
                                 .context = &done,
                                 .ended = count_any};
        QP_ASSERT(qp_job_start_async(q, &start, NULL) == QP_OK);
        if (i % 50 == 0) { /* so that there are several commits */
            QP_ASSERT(qp_job_start(q, &start, NULL, NULL) == QP_OK);
        }
    }
    rt_await(&done, KILLED_JOBS);
    _exit(0);
}

/* The process is killed at some commit, with threads at work, again and again; the one that comes
 * through finds every job completed, each once, and the file as it should be. */
static void test_kill(void **state)
{
    uint64_t random = testenv_seed();
    int killed = 0;
    (void)state;
    rt_begin(RT_REAL);
    for (int i = 0; i < 4; i++) {
        int n = 1 + (int)testenv_random_below(&random, 8);
        int status = 0;
        pid_t child;
        (void)fflush(stdout);
        child = fork();
        if (child == 0) {
            child_life(n);
        }
        assert_true(child > 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
                    (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        killed += WIFSIGNALED(status);
    }
    assert_true(killed > 0);
    {
        qp *q = rt_open(rt_path);
        rt_worker(q, "work", succeed, NULL);
        start_threads(q, 2);
        for (int i = 0; i < KILLED_JOBS; i++) {
            char id[24];
            (void)name_of(id, "k", i);
            rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"),
                                                .id = str_from(id),
                                                .input = QP_STR("1")});
        }
        for (int i = 0; i < KILLED_JOBS; i++) {
            char id[24];
            (void)name_of(id, "k", i);
            rt_wait(q, id, "completed");
        }
        rt_close(q);
    }
    rt_check(rt_path, KILLED_JOBS);
    rt_end();
}

/* ------------------------------------------------------------------------- failures of the store */

static int set_failpoint(void *context, void *native)
{
    (void)native;
    return failpoint_set(context);
}

/* A commit fails now and then, under threads: results are sent again, and nothing is lost or done
 * twice. */
static void test_commits_that_fail(void **state)
{
    static char specs[][32] = {"commit.before=error@2", "engine.collected=error@3",
                               "commit.begin=error@2"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(specs); i++) {
        struct rt_count done = RT_COUNT_INIT;
        struct qp_err err = {0};
        char id[24];
        qp *q;
        rt_begin(RT_REAL);
        q = rt_open(rt_path);
        rt_worker(q, "work", succeed, &done);
        start_threads(q, 2);
        assert_int_equal(qp_exec(q, set_failpoint, specs[i], &err), QP_OK);
        for (int j = 0; j < 20; j++) {
            struct qp_start start = {
                .topic = QP_STR("work"), .id = name_of(id, "j", j), .input = QP_STR("1")};
            int rc;
            do {
                rc = qp_job_start(q, &start, NULL, &err);
            } while (rc == QP_E_IO); /* its start may be what failed: it is told, and asks again */
            assert_int_equal(rc, QP_OK);
        }
        for (int j = 0; j < 20; j++) {
            (void)name_of(id, "j", j);
            rt_wait(q, id, "completed");
        }
        assert_int_equal(rt_value(&done), 20);
        assert_int_equal(qp_close(q, &err), QP_OK);
        assert_int_equal(failpoint_set(NULL), QP_OK);
        rt_check(rt_path, 20);
        rt_end();
    }
}

static int set_fault(void *context, void *native)
{
    (void)native;
    faultvfs_fail(context);
    return QP_OK;
}

static int heal(void *context, void *native)
{
    (void)context;
    (void)native;
    faultvfs_heal();
    return QP_OK;
}

/* Every file that is opened from now on is on the disk that fails. */
static void begin_on_bad_disk(void)
{
    rt_begin(RT_REAL);
    faultvfs_init(FAULTVFS_SYNC_PLAYED, false);
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 1), SQLITE_OK);
}

static void end_on_bad_disk(void)
{
    faultvfs_heal();
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 0), SQLITE_OK);
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find("unix"), 1), SQLITE_OK);
    rt_end();
}

/* The disk is full while functions run, then there is room again: their results are committed, and the
 * functions do not run twice. */
static void test_a_full_disk(void **state)
{
    struct fault fault = {.kind = FAULT_WRITE, .at = 1, .for_good = true, .code = SQLITE_FULL};
    struct bound b = {RT_COUNT_INIT, RT_COUNT_INIT};
    struct qp_err err = {0};
    struct qp_start other = {.topic = QP_STR("x"), .id = QP_STR("x"), .input = QP_STR("1")};
    int64_t failures;
    qp *q;
    (void)state;
    begin_on_bad_disk();
    q = rt_open(rt_path);
    rt_worker(q, "work", stay, &b);
    start_threads(q, 2);
    rt_start(q, "a");
    rt_start(q, "b");
    rt_await(&b.inside, 2);
    assert_int_equal(qp_exec(q, set_fault, &fault, &err), QP_E_FULL); /* its own commit */
    rt_add(&b.open, 1);
    do {
        assert_int_equal(qp_job_start(q, &other, NULL, &err), QP_E_FULL);
        (void)pthread_mutex_lock(&q->driver.lock);
        failures = q->tasks.finished != NULL;
        (void)pthread_mutex_unlock(&q->driver.lock);
    } while (failures != 0);
    assert_int_equal(qp_exec(q, heal, NULL, &err), QP_OK);
    rt_wait(q, "a", "completed");
    rt_wait(q, "b", "completed");
    assert_int_equal(rt_value(&b.inside), 2);
    rt_close(q);
    rt_check(rt_path, 2);
    end_on_bad_disk();
}

static void call_until_failed(void *context, int index)
{
    qp *q = context;
    struct qp_err err = {0};
    struct qp_job job;
    char id[24];
    qp_str name = name_of(id, "f", index);
    struct qp_start start = {.topic = QP_STR("nobody"), .id = name, .input = QP_STR("1")};
    int rc = qp_job_start(q, &start, NULL, &err);
    if (rc == QP_OK) {
        rc = qp_job_wait(q, name, -1, &job, &err); /* nobody serves it */
    }
    QP_ASSERT(rc == QP_E_FSYNC || rc == QP_E_UNKNOWN_OUTCOME);
    QP_ASSERT(err.text[0] != '\0');
}

static void fail_the_disk(void *context, int index)
{
    static struct fault fault = {
        .kind = FAULT_SYNC, .at = 1, .for_good = true, .code = SQLITE_IOERR_FSYNC};
    struct qp_err err = {0};
    if (index == 0) {
        int rc = qp_exec(context, set_fault, &fault, &err);
        QP_ASSERT(rc == QP_E_FSYNC || rc == QP_E_UNKNOWN_OUTCOME);
    } else {
        call_until_failed(context, index);
    }
}

/* After a failed fsync every call, also those that wait, gets an error; closing says so and does not hang;
 * whoever opens the file next finds it sound. */
static void test_a_failed_fsync(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        struct rt_count done = RT_COUNT_INIT;
        struct qp_err err = {0};
        struct qp_job job;
        qp *q;
        begin_on_bad_disk();
        q = rt_open(rt_path);
        rt_worker(q, "work", succeed, &done);
        if (threads) {
            start_threads(q, 2);
        }
        rt_start(q, "a");
        rt_wait(q, "a", "completed");
        rt_threads(6, fail_the_disk, q);
        assert_true(qp_job_get(q, QP_STR("a"), &job, &err) != QP_OK);
        assert_true(qp_job_cancel(q, QP_STR("a"), NULL, &err) != QP_OK);
        assert_true(qp_poll(q, &err) != QP_OK);
        err.text[0] = '\0';
        assert_true(qp_close(q, &err) != QP_OK);
        assert_string_not_equal(err.text, "");
        faultvfs_heal();
        q = rt_open(rt_path);
        rt_expect(q, "a", "completed", NULL);
        rt_close(q);
        end_on_bad_disk();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workers),
        cmocka_unit_test(test_bad_counts),
        cmocka_unit_test(test_without_threads),
        cmocka_unit_test(test_many_callers),
        cmocka_unit_test(test_many_claimers),
        cmocka_unit_test(test_group_commit),
        cmocka_unit_test(test_in_hand),
        cmocka_unit_test(test_cancelled_on_a_thread),
        cmocka_unit_test(test_a_lease_that_ends),
        cmocka_unit_test(test_closing_with_work_in_hand),
        cmocka_unit_test(test_closing_while_a_function_waits),
        cmocka_unit_test(test_closing_with_results_and_calls),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_commits_that_fail),
        cmocka_unit_test(test_a_full_disk),
        cmocka_unit_test(test_a_failed_fsync),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_detached.c - tasks that their functions have given to the caller
 *
 * In memory and on a file, driven by qp_poll under a clock that the test moves; the last cases with threads.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "run/handle.h"
#include "support/runtest.h"

#define MOST 8

/* The tasks that a function has detached, in order. */
struct owner {
    qp_task *tasks[MOST];
    size_t count;
    int64_t attempt; /* of the last one */
    int rc;          /* what the function returns */
};

static int detach(void *context, qp_task *task)
{
    struct owner *o = context;
    struct qp_err err = {0};
    QP_ASSERT(o->count < MOST);
    o->attempt = qp_task_attempt(task);
    assert_int_equal(qp_task_detach(task, &err), QP_OK);
    assert_int_equal(qp_task_detach(task, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "before"));
    o->tasks[o->count++] = task;
    return o->rc;
}

static void on_both(void (*test)(qp *q), int64_t jobs)
{
    for (int i = 0; i < 2; i++) {
        qp *q;
        rt_begin(RT_VIRTUAL);
        q = rt_open(i == 0 ? NULL : rt_path);
        test(q);
        rt_close(q);
        if (i == 1) {
            rt_check(rt_path, jobs);
        }
        rt_end();
    }
}

static void completes_later(qp *q)
{
    struct owner o = {.rc = QP_E_IO};
    struct qp_err err = {0};
    bool left = false;
    rt_worker(q, "work", detach, &o);
    rt_start(q, "a");
    rt_start(q, "b");
    rt_start(q, "c");
    rt_poll(q);
    assert_int_equal(o.count, 3);
    rt_expect(q, "a", "running", NULL);
    assert_int_equal(qp_work_left(q, &left, &err), QP_OK);
    assert_true(left);
    testenv_advance_ms(&rt, 3600 * 1000);
    rt_poll(q);
    assert_int_equal(o.count, 3);
    assert_int_equal(qp_task_heartbeat(o.tasks[0], &err), QP_OK);
    assert_int_equal(qp_task_pending(o.tasks[0], QP_STR("0"), &err), QP_OK);
    assert_int_equal(qp_task_complete(o.tasks[0], QP_STR("[1]"), &err), QP_OK);
    rt_expect(q, "a", "completed", "[1]");
    assert_int_equal(qp_task_output(o.tasks[1], QP_STR("[2]")), QP_OK);
    assert_int_equal(qp_task_complete(o.tasks[1], QP_NONE, &err), QP_OK);
    rt_expect(q, "b", "completed", "[2]");
    assert_int_equal(
        qp_task_error(o.tasks[2], &(struct qp_failure){.message = "no", .fatal = 1}, &err), QP_OK);
    rt_expect(q, "c", "failed", "no");
}

/* What the function returns means nothing; the task is in hand, and ends by the calls of claimed ones. */
static void test_completes_later(void **state)
{
    (void)state;
    on_both(completes_later, 3);
}

static void counts_as_in_hand(qp *q)
{
    struct owner o = {0};
    struct qp_err err = {0};
    assert_int_equal(
        qp_worker_add(q,
                      &(struct qp_worker){
                          .topic = QP_STR("work"), .work = detach, .context = &o, .in_hand = 2},
                      &err),
        QP_OK);
    rt_start(q, "a");
    rt_start(q, "b");
    rt_start(q, "c");
    rt_start(q, "d");
    rt_poll(q);
    assert_int_equal(o.count, 2);
    assert_int_equal(qp_task_complete(o.tasks[0], QP_STR("1"), &err), QP_OK);
    rt_poll(q);
    assert_int_equal(o.count, 3);
    assert_int_equal(qp_task_retry(o.tasks[1], 1000, &err), QP_OK);
    rt_poll(q);
    assert_int_equal(o.count, 4);
    assert_int_equal(qp_task_complete(o.tasks[2], QP_STR("1"), &err), QP_OK);
    assert_int_equal(qp_task_complete(o.tasks[3], QP_STR("1"), &err), QP_OK);
    testenv_advance_ms(&rt, 1000);
    rt_poll(q);
    assert_int_equal(o.count, 5);
    assert_int_equal(o.attempt, 2);
    assert_int_equal(qp_task_complete(o.tasks[4], QP_STR("1"), &err), QP_OK);
}

/* No more are given than in_hand; each end makes room for another. */
static void test_counts_as_in_hand(void **state)
{
    (void)state;
    on_both(counts_as_in_hand, 4);
}

static void leases(qp *q)
{
    struct owner o = {0};
    struct qp_err err = {0};
    assert_int_equal(
        qp_worker_add(q,
                      &(struct qp_worker){
                          .topic = QP_STR("work"), .work = detach, .context = &o, .lease_ms = 9000},
                      &err),
        QP_OK);
    rt_start(q, "a");
    rt_poll(q);
    for (int i = 0; i < 10; i++) {
        testenv_advance_ms(&rt, 6000);
        assert_int_equal(qp_task_heartbeat(o.tasks[0], &err), QP_OK);
        rt_poll(q);
    }
    assert_int_equal(o.count, 1);
    for (int i = 0; i < 10 && o.count < 2; i++) { /* silent */
        testenv_advance_ms(&rt, 6000);
        rt_poll(q);
    }
    assert_int_equal(o.count, 2);
    assert_int_equal(o.attempt, 2);
    assert_int_equal(qp_task_complete(o.tasks[0], QP_STR("1"), &err), QP_E_STALE);
    assert_int_equal(qp_task_complete(o.tasks[1], QP_STR("2"), &err), QP_OK);
    rt_poll(q);
    rt_expect(q, "a", "completed", "2");
}

/* Heartbeats are the owner's business: silence loses the lease, and the late result is refused. */
static void test_leases(void **state)
{
    (void)state;
    on_both(leases, 1);
}

static void not_of_a_function(qp *q)
{
    struct qp_err err = {0};
    qp_task *task;
    rt_start(q, "a");
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_detach(task, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "function"));
    assert_int_equal(qp_task_output(task, QP_STR("{")), QP_E_MALFORMED);
    assert_int_equal(qp_task_complete(task, QP_NONE, &err), QP_E_INVALID);
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_OK);
}

static void test_not_of_a_function(void **state)
{
    (void)state;
    on_both(not_of_a_function, 1);
}

/* Closing gives back what is detached, with a lease and without, and the next delivery says that it is not the first. */
static void test_close_gives_back(void **state)
{
    static const qp_ms lease_ms[] = {0, 3600 * 1000};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(lease_ms); i++) {
        struct owner o = {0};
        struct qp_err err = {0};
        struct qp_worker worker = {
            .topic = QP_STR("work"), .work = detach, .context = &o, .lease_ms = lease_ms[i]};
        qp *q;
        rt_begin(RT_VIRTUAL);
        q = rt_open(rt_path);
        assert_int_equal(qp_worker_add(q, &worker, &err), QP_OK);
        rt_start(q, "a");
        rt_poll(q);
        assert_int_equal(o.count, 1);
        rt_close(q);
        q = rt_open(rt_path);
        assert_int_equal(qp_worker_add(q, &worker, &err), QP_OK);
        rt_poll(q);
        assert_int_equal(o.count, 2);
        assert_int_equal(o.attempt, 2);
        assert_int_equal(qp_task_complete(o.tasks[1], QP_STR("1"), &err), QP_OK);
        rt_poll(q);
        rt_expect(q, "a", "completed", "1");
        rt_close(q);
        rt_check(rt_path, 1);
        rt_end();
    }
}

/* ------------------------------------------------------------------------------------ with threads */

#define THREADED_JOBS 200

/* A list that another thread completes while the functions that filled it may not have returned. */
struct bench {
    pthread_mutex_t lock;
    qp_task *tasks[THREADED_JOBS];
    struct rt_count count;
};

static int hand_over(void *context, qp_task *task)
{
    struct bench *b = context;
    struct qp_err err;
    QP_ASSERT(qp_task_detach(task, &err) == QP_OK);
    (void)pthread_mutex_lock(&b->lock);
    b->tasks[rt_value(&b->count)] = task;
    rt_add(&b->count, 1);
    (void)pthread_mutex_unlock(&b->lock);
    return QP_OK;
}

static void *complete_all(void *context)
{
    struct bench *b = context;
    for (int i = 0; i < THREADED_JOBS; i++) {
        struct qp_err err;
        rt_await(&b->count, i + 1);
        QP_ASSERT(qp_task_complete(b->tasks[i], QP_STR("1"), &err) == QP_OK);
    }
    return NULL;
}

/* Another thread completes tasks while their functions return. */
static void test_from_another_thread(void **state)
{
    static struct bench b;
    struct qp_err err = {0};
    pthread_t thread;
    qp *q;
    (void)state;
    b = (struct bench){.lock = PTHREAD_MUTEX_INITIALIZER, .count = RT_COUNT_INIT};
    rt_begin(RT_REAL);
    q = rt_open(NULL);
    rt_worker(q, "work", hand_over, &b);
    assert_int_equal(qp_start_threads(q, 3, &err), QP_OK);
    assert_int_equal(pthread_create(&thread, NULL, complete_all, &b), 0);
    for (int i = 0; i < THREADED_JOBS; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "j%d", i);
        rt_start(q, id);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (int i = 0; i < THREADED_JOBS; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "j%d", i);
        rt_wait(q, id, "completed");
    }
    rt_close(q);
    rt_end();
}

/* ------------------------------------------------------------------------------------- on closing */

struct patient {
    struct rt_count begun;
    int64_t attempt;
    bool gives_back;
};

/* Until the engine is closed. */
static int work_till_closing(void *context, qp_task *task)
{
    struct patient *p = context;
    struct qp_err err;
    p->attempt = qp_task_attempt(task);
    QP_ASSERT(p->attempt > 1 || qp_task_is_closing(task) == 0);
    rt_add(&p->begun, 1);
    while (p->attempt == 1 && !qp_task_is_closing(task)) {
        (void)sched_yield();
    }
    QP_ASSERT(qp_task_is_cancelled(task) == 0);
    if (p->attempt > 1 || !p->gives_back) {
        return qp_task_output(task, QP_STR("1"));
    }
    QP_ASSERT(qp_task_detach(task, &err) == QP_OK);
    QP_ASSERT(qp_task_retry(task, 0, &err) == QP_OK);
    return QP_OK;
}

/* A function that works without end hears that the engine is closed, and answers, or gives its task back. */
static void test_closing_is_told(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct patient p = {.begun = RT_COUNT_INIT, .gives_back = i == 1};
        struct qp_err err = {0};
        qp *q;
        rt_begin(RT_REAL);
        q = rt_open(rt_path);
        rt_worker(q, "work", work_till_closing, &p);
        assert_int_equal(qp_start_threads(q, 1, &err), QP_OK);
        rt_start(q, "a");
        rt_await(&p.begun, 1);
        rt_close(q);
        q = rt_open(rt_path);
        rt_expect(q, "a", i == 0 ? "completed" : "running", NULL);
        rt_worker(q, "work", work_till_closing, &p);
        rt_wait(q, "a", "completed");
        assert_int_equal(p.attempt, 1 + i);
        rt_close(q);
        rt_check(rt_path, 1);
        rt_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_completes_later),  cmocka_unit_test(test_counts_as_in_hand),
        cmocka_unit_test(test_leases),           cmocka_unit_test(test_not_of_a_function),
        cmocka_unit_test(test_close_gives_back), cmocka_unit_test(test_from_another_thread),
        cmocka_unit_test(test_closing_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

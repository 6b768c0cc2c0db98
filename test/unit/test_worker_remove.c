/* test_worker_remove.c - taking a worker away while the engine runs */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "run/handle.h"
#include "support/runtest.h"

struct post {
    qp *q;
    struct rt_count begun;
    struct rt_count allowed; /* a function returns when this is not 0 */
    struct rt_count returned;
    qp_task *detached;
};

static int wait_there(void *context, qp_task *task)
{
    struct post *s = context;
    rt_add(&s->begun, 1);
    rt_await(&s->allowed, 1);
    rt_add(&s->returned, 1);
    return qp_task_output(task, QP_STR("1"));
}

static int answer(void *context, qp_task *task)
{
    (void)context;
    return qp_task_output(task, QP_STR("2"));
}

static void *allow_soon(void *context)
{
    struct post *s = context;
    rt_await(&s->begun, 1);
    QP_ASSERT(rt_value(&s->returned) == 0);
    rt_add(&s->allowed, 1);
    return NULL;
}

#define JOBS 50

/* It returns when its function has returned and the result is committed; what was fetched ahead goes back untried, and
 * another worker does it. */
static void test_with_threads(void **state)
{
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        struct post s = {
            .begun = RT_COUNT_INIT, .allowed = RT_COUNT_INIT, .returned = RT_COUNT_INIT};
        struct qp_err err = {0};
        pthread_t thread;
        char id[16];
        int by_first = 0;
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        rt_worker(q, "work", wait_there, &s);
        rt_worker(q, "other", answer, NULL);
        assert_int_equal(qp_start_threads(q, 1, &err), QP_OK);
        for (int i = 0; i < JOBS; i++) {
            (void)snprintf(id, sizeof id, "j%d", i);
            rt_start(q, id);
        }
        assert_int_equal(pthread_create(&thread, NULL, allow_soon, &s), 0);
        assert_int_equal(qp_worker_remove(q, QP_STR("work"), &err), QP_OK);
        assert_int_equal(rt_value(&s.begun), rt_value(&s.returned));
        by_first = (int)rt_value(&s.begun);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(qp_worker_remove(q, QP_STR("work"), &err), QP_E_NOT_FOUND);
        for (int i = 0; i < JOBS && by_first < JOBS; i++) {
            struct qp_job job;
            (void)snprintf(id, sizeof id, "j%d", i);
            assert_int_equal(qp_job_get(q, str_from(id), &job, &err), QP_OK);
            by_first -= strcmp(job.status, "completed") == 0;
            qp_job_done(q, &job);
        }
        assert_true(by_first == 0 || by_first == JOBS);
        rt_start_with(q, &(struct qp_start){
                             .topic = QP_STR("other"), .id = QP_STR("x"), .input = QP_STR("1")});
        rt_wait(q, "x", "completed");
        rt_worker(q, "work", answer, NULL);
        for (int i = 0; i < JOBS; i++) {
            (void)snprintf(id, sizeof id, "j%d", i);
            rt_wait(q, id, "completed");
        }
        rt_close(q);
        rt_end();
    }
}

static int detach(void *context, qp_task *task)
{
    struct post *s = context;
    struct qp_err err;
    QP_ASSERT(qp_task_detach(task, &err) == QP_OK);
    s->detached = task;
    return QP_OK;
}

/* A detached task outlives its worker; on qp_close, too. Nothing of the worker leaks. */
static void test_detached(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct post s = {0};
        struct qp_err err = {0};
        qp *q;
        rt_begin(RT_VIRTUAL);
        q = rt_open(rt_path);
        assert_int_equal(qp_worker_add(q,
                                       &(struct qp_worker){.topic = QP_STR("work"),
                                                           .work = detach,
                                                           .context = &s,
                                                           .lease_ms = 10000,
                                                           .in_hand = 1},
                                       &err),
                         QP_OK);
        rt_start(q, "a");
        rt_start(q, "b");
        rt_poll(q);
        assert_non_null(s.detached);
        assert_int_equal(qp_worker_remove(q, QP_STR("work"), &err), QP_OK);
        assert_int_equal(qp_task_heartbeat(s.detached, &err), QP_OK);
        rt_worker(q, "work", answer, NULL);
        rt_poll(q);
        rt_expect(q, "b", "completed", "2");
        rt_expect(q, "a", "running", NULL);
        if (i == 0) {
            assert_int_equal(qp_task_complete(s.detached, QP_STR("1"), &err), QP_OK);
            rt_expect(q, "a", "completed", "1");
        }
        rt_close(q);
        rt_check(rt_path, 2);
        rt_end();
    }
}

static int remove_itself(void *context, qp_task *task)
{
    struct post *s = context;
    struct qp_err err;
    QP_ASSERT(qp_worker_remove(s->q, QP_STR("work"), &err) == QP_E_INVALID);
    QP_ASSERT(strstr(err.text, "inside") != NULL);
    QP_ASSERT(qp_worker_remove(s->q, QP_STR("other"), &err) == QP_OK);
    return qp_task_output(task, QP_STR("1"));
}

/* Inside a function: not its own topic, but another; on the driver and on a thread. */
static void test_inside_a_function(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        struct post s = {0};
        struct qp_err err = {0};
        qp *q;
        rt_begin(RT_REAL);
        q = rt_open(NULL);
        s.q = q;
        rt_worker(q, "work", remove_itself, &s);
        rt_worker(q, "other", answer, NULL);
        assert_int_equal(qp_start_threads(q, threads, &err), QP_OK);
        rt_start(q, "a");
        rt_wait(q, "a", "completed");
        rt_close(q);
        rt_end();
    }
}

/* Added and removed beside jobs that come and go: each job is done once. */
static void test_again_and_again(void **state)
{
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(rt_path);
    assert_int_equal(qp_start_threads(q, 2, &err), QP_OK);
    for (int i = 0; i < JOBS; i++) {
        char id[16];
        rt_worker(q, "work", answer, NULL);
        for (int k = 0; k < 4; k++) {
            (void)snprintf(id, sizeof id, "j%d.%d", i, k);
            rt_start(q, id);
        }
        assert_int_equal(qp_worker_remove(q, QP_STR("work"), &err), QP_OK);
    }
    rt_worker(q, "work", answer, NULL);
    for (int i = 0; i < JOBS; i++) {
        char id[16];
        for (int k = 0; k < 4; k++) {
            (void)snprintf(id, sizeof id, "j%d.%d", i, k);
            rt_wait(q, id, "completed");
        }
    }
    rt_close(q);
    rt_check(rt_path, 4 * JOBS);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_with_threads),
        cmocka_unit_test(test_detached),
        cmocka_unit_test(test_inside_a_function),
        cmocka_unit_test(test_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

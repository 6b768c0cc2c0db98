/* test_close_within.c - closing with a time limit, while functions run that do not return */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/base.h"
#include "run/handle.h"
#include "support/runtest.h"

struct stubborn {
    struct rt_count begun;
    struct rt_count allowed;
    struct rt_count heard; /* that it was too late */
    bool beats;            /* it makes calls meanwhile */
};

/* Returns when it is allowed to, and not when the engine closes. */
static int stay(void *context, qp_task *task)
{
    struct stubborn *s = context;
    struct qp_err err;
    rt_add(&s->begun, 1);
    while (s->beats && rt_value(&s->allowed) == 0) {
        int rc = qp_task_heartbeat(task, &err);
        QP_ASSERT(rc == QP_OK || rc == QP_E_STALE || rc == QP_E_CLOSED);
    }
    rt_await(&s->allowed, 1);
    QP_ASSERT(qp_task_is_closing(task) == 1);
    QP_ASSERT(qp_task_heartbeat(task, &err) == QP_E_CLOSED);
    rt_add(&s->heard, 1);
    return qp_task_output(task, QP_STR("\"first\""));
}

static int tell_attempt(void *context, qp_task *task)
{
    char text[24];
    (void)context;
    (void)snprintf(text, sizeof text, "%lld", (long long)qp_task_attempt(task));
    return qp_task_output(task, str_from(text));
}

/* The handle is freed by the last thread: until then memory is in use. */
static void await_free(void)
{
    for (int i = 0; i < 3000 && rt.live_blocks > 0; i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
    }
    assert_int_equal(rt.live_blocks, 0);
}

static int is_ready(void *context, const struct qp_activity *a)
{
    if (a->topic.p != NULL) {
        assert_string_equal(a->task, "ready");
        ++*(int *)context;
    }
    return QP_OK;
}

/* Before its functions have returned, the store says that their tasks are anybody's. */
static void expect_given_back(const char *id)
{
    struct qp_options options;
    struct qp_err err = {0};
    bool more;
    int count = 0;
    qp *q;
    qp_options_init(&options);
    options.path = rt_path;
    assert_int_equal(qp_open_readonly(&options, &q, &err), QP_OK);
    assert_int_equal(
        qp_activity_list(q, QP_NONE, str_from(id), QP_NONE, 0, &count, is_ready, &more, &err),
        QP_OK);
    assert_int_equal(count, 1);
    assert_int_equal(qp_close(q, &err), QP_OK);
}

/* Their tasks are given back, their results refused, their threads end safely, and the jobs are done by who opens the store
 * next. */
static void test_too_late(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct stubborn s = {.begun = RT_COUNT_INIT,
                             .allowed = RT_COUNT_INIT,
                             .heard = RT_COUNT_INIT,
                             .beats = i % 2 == 1};
        struct qp_err err = {0};
        struct qp_worker worker = {.topic = QP_STR("work"),
                                   .work = stay,
                                   .context = &s,
                                   .lease_ms = i < 2 ? 0 : 3600 * 1000};
        qp *q;
        rt_begin(RT_REAL);
        q = rt_open(rt_path);
        assert_int_equal(qp_worker_add(q, &worker, &err), QP_OK);
        assert_int_equal(qp_start_threads(q, 2, &err), QP_OK);
        rt_start(q, "a");
        rt_start(q, "b");
        rt_start(q, "c"); /* no thread has it */
        rt_await(&s.begun, 2);
        assert_int_equal(qp_close_within(q, 20, &err), QP_E_TIMEOUT);
        assert_non_null(strstr(err.text, "20 ms"));
        expect_given_back("a");
        expect_given_back("b");
        expect_given_back("c");
        rt_add(&s.allowed, 1);
        await_free();
        assert_int_equal(rt_value(&s.heard), 2);
        q = rt_open(rt_path);
        rt_worker(q, "work", tell_attempt, NULL);
        rt_wait(q, "a", "completed");
        rt_wait(q, "b", "completed");
        rt_wait(q, "c", "completed");
        rt_expect(q, "a", "completed", "2");
        rt_expect(q, "b", "completed", "2");
        rt_expect(q, "c", "completed", "1");
        rt_close(q);
        rt_check(rt_path, 3);
        rt_end();
    }
}

static int answer(void *context, qp_task *task)
{
    (void)context;
    return qp_task_output(task, QP_STR("1"));
}

/* With nothing that stays it is as qp_close. */
static void test_in_time(void **state)
{
    static const qp_ms limits[] = {-1, 60 * 1000, INT64_MAX};
    (void)state;
    assert_int_equal(qp_close_within(NULL, 1, NULL), QP_OK);
    for (size_t i = 0; i < ARRAY_COUNT(limits); i++) {
        struct qp_err err = {0};
        qp *q;
        rt_begin(RT_REAL);
        q = rt_open(rt_path);
        rt_worker(q, "work", answer, NULL);
        assert_int_equal(qp_start_threads(q, 2, &err), QP_OK);
        rt_start(q, "a");
        rt_wait(q, "a", "completed");
        assert_int_equal(qp_close_within(q, limits[i], &err), QP_OK);
        rt_check(rt_path, 1);
        rt_end();
    }
}

static int stay_here(void *context, qp_task *task)
{
    struct stubborn *s = context;
    rt_add(&s->begun, 1);
    rt_await(&s->allowed, 1);
    return qp_task_output(task, QP_STR("1"));
}

/* A function on the engine's own thread: the caller is free at once, and the rest comes when the function has returned. */
static void test_on_the_engines_thread(void **state)
{
    struct stubborn s = {.begun = RT_COUNT_INIT, .allowed = RT_COUNT_INIT, .heard = RT_COUNT_INIT};
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(rt_path);
    rt_worker(q, "work", stay_here, &s);
    assert_int_equal(qp_start_threads(q, 0, &err), QP_OK);
    rt_start(q, "a");
    rt_await(&s.begun, 1);
    assert_int_equal(qp_close_within(q, 10, &err), QP_E_TIMEOUT);
    rt_add(&s.allowed, 1);
    await_free();
    q = rt_open(rt_path);
    rt_expect(q, "a", "completed", "1");
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_late),
        cmocka_unit_test(test_in_time),
        cmocka_unit_test(test_on_the_engines_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

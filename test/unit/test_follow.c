/* test_follow.c - subscribers are notified of what was committed, by this process and by others, and of nothing else */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "run/handle.h"
#include "support/runtest.h"

static void on_change(void *context)
{
    rt_add(context, 1);
}

static qp_follower *follow(qp *q, const char *id, struct rt_count *count)
{
    qp_follower *f = NULL;
    struct qp_err err = {0};
    struct qp_follow what = {.id = str_from(id), .context = count, .changed = on_change};
    if (qp_follow_begin(q, &what, &f, &err) != QP_OK) {
        fail_msg("follow: %s", err.text);
    }
    return f;
}

/* Proves that who follows a job hears of that job, who follows the namespace of all, and nobody of another
 * namespace or after the end. */
static void test_own_commits(void **state)
{
    for (int kind = 0; kind < rt_kinds(); kind++) {
        struct rt_count one = RT_COUNT_INIT;
        struct rt_count all = RT_COUNT_INIT;
        struct qp_err err = {0};
        qp_follower *a;
        qp_follower *everything;
        qp *q;
        int64_t before;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        rt_start(q, "a");
        rt_start(q, "b");
        assert_int_equal(qp_space_create(q, QP_STR("other"), &err), QP_OK);
        a = follow(q, "a", &one);
        everything = follow(q, NULL, &all);
        rt_poll(q);
        before = rt_value(&all);
        assert_int_equal(qp_job_pause(q, QP_STR("b"), &err), QP_OK);
        assert_true(rt_value(&all) > before);
        if (kind != RT_SERVER) {
            assert_int_equal(rt_value(&one), 0);
        }
        before = rt_value(&one);
        assert_int_equal(qp_job_cancel(q, QP_STR("a"), NULL, &err), QP_OK);
        assert_true(rt_value(&one) > before);
        rt_poll(q);
        before = rt_value(&all);
        rt_start_with(q, &(struct qp_start){.ns = QP_STR("other"),
                                            .topic = QP_STR("work"),
                                            .id = QP_STR("a"),
                                            .input = QP_STR("1")});
        if (kind != RT_SERVER) {
            assert_int_equal(rt_value(&all), before);
        }
        qp_follow_end(q, a);
        qp_follow_end(q, everything);
        qp_follow_end(q, NULL);
        before = rt_value(&all);
        assert_int_equal(qp_job_resume(q, QP_STR("b"), &err), QP_OK);
        assert_int_equal(rt_value(&all), before);
        assert_int_equal(
            qp_follow_begin(q, &(struct qp_follow){.id = QP_STR("nobody"), .changed = on_change},
                            &a, &err),
            QP_E_NOT_FOUND);
        rt_close(q);
        rt_end();
    }
}

/* Proves that following asks nothing of a store that is ours alone: no round, no commit. */
static void test_costs_nothing(void **state)
{
    struct rt_count count = RT_COUNT_INIT;
    struct engine_stats before;
    qp_follower *f;
    qp *q;
    rt_begin(RT_REAL);
    q = rt_open(rt_path);
    rt_start(q, "a");
    f = follow(q, NULL, &count);
    rt_poll(q);
    before = engine_stats(q->engine);
    for (int i = 0; i < 50; i++) {
        rt_poll(q);
    }
    assert_int_equal(engine_stats(q->engine).rounds, before.rounds);
    assert_int_equal(rt_value(&count), 0);
    qp_follow_end(q, f);
    rt_close(q);
    rt_end();
}

/* Proves that what another process has committed to a shared store is told, within a few seconds. */
static void test_others(void **state)
{
    struct rt_count count = RT_COUNT_INIT;
    struct rt_count none = RT_COUNT_INIT;
    struct qp_err err = {0};
    qp_follower *f;
    qp_follower *g;
    qp *q;
    qp *other;
    if (rt_kinds() <= RT_SERVER) {
        skip();
    }
    rt_begin_on(RT_SERVER);
    q = rt_open(rt_place);
    other = rt_open(rt_place);
    rt_start(q, "a");
    rt_start(q, "b");
    f = follow(q, "a", &count);
    g = follow(q, "b", &none);
    assert_int_equal(qp_start_threads(q, 0, &err), QP_OK);
    (void)nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 500000000}, NULL); /* it looks */
    assert_int_equal(qp_job_pause(other, QP_STR("a"), &err), QP_OK);
    rt_await(&count, 1);
    assert_int_equal(rt_value(&none), 0);
    qp_follow_end(q, f);
    qp_follow_end(q, g);
    rt_close(other);
    rt_close(q);
    rt_end();
}

#define THREADS 6

struct many {
    qp *q;
    struct rt_count counts[THREADS];
};

static void come_and_go(void *context, int index)
{
    struct many *m = context;
    for (int i = 0; i < 30; i++) {
        qp_follower *f = NULL;
        struct qp_err err;
        char id[QP_ID_SIZE];
        int64_t before = rt_value(&m->counts[index]);
        struct qp_follow what = {.context = &m->counts[index], .changed = on_change};
        QP_ASSERT(qp_follow_begin(m->q, &what, &f, &err) == QP_OK);
        QP_ASSERT(qp_job_start(m->q, &(struct qp_start){.topic = QP_STR("a"), .input = QP_STR("1")},
                               id, &err) == QP_OK);
        rt_await(&m->counts[index], before + 1);
        qp_follow_end(m->q, f);
        before = rt_value(&m->counts[index]);
        QP_ASSERT(qp_job_start(m->q, &(struct qp_start){.topic = QP_STR("a"), .input = QP_STR("1")},
                               id, &err) == QP_OK);
        QP_ASSERT(rt_value(&m->counts[index]) == before);
    }
}

/* Proves with threads that each is told of its own commit, and never after it has left. */
static void test_threads(void **state)
{
    struct many m;
    struct qp_err err;
    for (int i = 0; i < THREADS; i++) {
        m.counts[i] = (struct rt_count)RT_COUNT_INIT;
    }
    rt_begin(RT_REAL);
    m.q = rt_open(rt_path);
    assert_int_equal(qp_start_threads(m.q, 0, &err), QP_OK);
    rt_threads(THREADS, come_and_go, &m);
    rt_close(m.q);
    rt_end();
}

/* ------------------------------------------------------------------------------------------ ends of jobs */

#define JOBS 1000 /* the table grows several times */

static int ends[JOBS];

static void count_end(void *context, const char *status)
{
    (*(int *)context)++;
    assert_string_equal(status, "completed");
}

static int succeed(void *context, qp_task *task)
{
    (void)context;
    (void)task;
    return QP_OK;
}

static struct qp_start start_of(int i, char id[16])
{
    (void)snprintf(id, 16, "j%d", i);
    return (struct qp_start){.topic = QP_STR("work"),
                             .id = str_from(id),
                             .input = QP_STR("1"),
                             .context = &ends[i],
                             .ended = count_end};
}

/* A thousand jobs with three subscribers each: all are notified once, and none of another job's end. */
static void test_each_end_is_notified_once(void **state)
{
    struct qp_err err = {0};
    char id[16];
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    memset(ends, 0, sizeof ends);
    q = rt_open(NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < JOBS; i++) {
            struct qp_start start = start_of(i, id);
            assert_int_equal(qp_job_start_async(q, &start, &err), QP_OK);
        }
        rt_poll(q);
    }
    assert_int_equal(q->follow.job_count, 3 * JOBS);
    assert_true(q->follow.slot_count >= JOBS);
    for (int i = 0; i < JOBS / 2; i++) {
        qp_task *task;
        int number;
        assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
        (void)snprintf(id, sizeof id, "%.*s", STR_ARG(qp_task_job(task)));
        number = (int)strtol(id + 1, NULL, 10);
        assert_int_equal(ends[number], 0);
        assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_OK);
        assert_int_equal(ends[number], 3);
    }
    assert_int_equal(q->follow.job_count, 3 * (JOBS - JOBS / 2));
    rt_worker(q, "work", succeed, NULL);
    rt_poll(q);
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(ends[i], 3);
    }
    assert_int_equal(q->follow.job_count, 0);
    rt_close(q);
    rt_end();
}

/* A thread that gave up leaves nothing behind; a subscriber that still waits is notified. */
static void test_giving_up(void **state)
{
    struct qp_err err = {0};
    struct qp_job job;
    struct qp_start start;
    char id[16];
    qp_task *task;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    memset(ends, 0, sizeof ends);
    q = rt_open(NULL);
    start = start_of(0, id);
    assert_int_equal(qp_job_start_async(q, &start, &err), QP_OK);
    rt_poll(q);
    assert_int_equal(qp_job_wait(q, str_from(id), 0, &job, &err), QP_E_TIMEOUT);
    assert_int_equal(q->follow.job_count, 1);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_OK);
    assert_int_equal(ends[0], 1);
    assert_int_equal(q->follow.job_count, 0);
    rt_close(q);
    rt_end();
}

/* A start that is refused has no subscriber. */
static void test_refused_starts(void **state)
{
    struct qp_err err = {0};
    struct qp_start start;
    char id[16];
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    start = start_of(0, id);
    assert_int_equal(qp_job_start_async(q, &start, &err), QP_OK);
    start.input = QP_STR("2");
    assert_int_equal(qp_job_start_async(q, &start, &err), QP_OK);
    rt_poll(q);
    assert_int_equal(q->follow.job_count, 1);
    rt_close(q); /* the one that is subscribed still: its memory goes with the engine */
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_commits),
        cmocka_unit_test(test_costs_nothing),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_each_end_is_notified_once),
        cmocka_unit_test(test_giving_up),
        cmocka_unit_test(test_refused_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

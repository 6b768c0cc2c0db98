/* test_watch.c - who waits for the end of which job: many at a time, several for one, and those who gave up */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/mem.h"
#include "run/handle.h"
#include "support/runtest.h"

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

/* A thousand jobs, each watched three times: everybody is told once, and nobody of another's end. */
static void test_everybody_is_told_once(void **state)
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
    assert_int_equal(q->watches.count, 3 * JOBS);
    assert_true(q->watches.slot_count >= JOBS);
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
    assert_int_equal(q->watches.count, 3 * (JOBS - JOBS / 2));
    rt_worker(q, "work", succeed, NULL);
    rt_poll(q);
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(ends[i], 3);
    }
    assert_int_equal(q->watches.count, 0);
    rt_close(q);
    rt_end();
}

/* Who gave up leaves nothing behind; who still waits is told. */
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
    assert_int_equal(q->watches.count, 1);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_OK);
    assert_int_equal(ends[0], 1);
    assert_int_equal(q->watches.count, 0);
    rt_close(q);
    rt_end();
}

/* A start that is refused is not watched. */
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
    assert_int_equal(q->watches.count, 1);
    rt_close(q); /* the one that is watched still: its memory goes with the engine */
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_is_told_once),
        cmocka_unit_test(test_giving_up),
        cmocka_unit_test(test_refused_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

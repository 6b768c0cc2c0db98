/* test_calls.c - a call is QUEUED, TAKEN, DONE or WITHDRAWN: what was withdrawn is not executed */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "run/handle.h"
#include "run/loop.h"
#include "support/runtest.h"

/* Every edge of the table, legal or not. */
static void test_moves(void **state)
{
    static const char *const moves[] = {
        /* from, to: N Q T D W */
        [CALL_NEW] = ".x...",  [CALL_QUEUED] = "..x.x",    [CALL_TAKEN] = "...x.",
        [CALL_DONE] = ".x...", [CALL_WITHDRAWN] = ".x...",
    };
    (void)state;
    for (int from = 0; from < CALL_STAGES; from++) {
        for (int to = 0; to < CALL_STAGES; to++) {
            assert_int_equal(call_may_move((enum call_stage)from, (enum call_stage)to),
                             moves[from][to] == 'x');
        }
    }
}

/* A driver that does nothing, as one that waits for its database. */
struct stuck {
    qp *q;
    struct rt_count step; /* 1: it drives, 2: let it end */
};

static void *drive(void *context)
{
    struct stuck *s = context;
    driver_begin(&s->q->driver);
    rt_add(&s->step, 1);
    rt_await(&s->step, 2);
    driver_end(&s->q->driver);
    return NULL;
}

static int64_t in_ms(const qp *q, int64_t ms)
{
    return q->env.monotonic_us(q->env.context) + ms * 1000;
}

static int exists(qp *q, const char *id)
{
    struct qp_job job;
    int rc = qp_job_get(q, str_from(id), &job, NULL);
    if (rc == QP_OK) {
        qp_job_done(q, &job);
    }
    return rc;
}

static struct qp_start start_of(const char *id)
{
    return (struct qp_start){.topic = QP_STR("work"), .id = str_from(id), .input = QP_STR("1")};
}

/* A thread with a limit hears in time that its call was withdrawn, and it never happens. One without a limit is answered
 * when the driver goes on. */
static void test_waiting(void **state)
{
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        struct stuck s = {.step = RT_COUNT_INIT};
        struct asker me = {0};
        struct qp_start start = start_of("a");
        struct qp_err err = {0};
        pthread_t thread;
        int64_t from;
        rt_begin_on(kind);
        s.q = rt_open(rt_place);
        assert_int_equal(pthread_create(&thread, NULL, drive, &s), 0);
        rt_await(&s.step, 1);
        asker_add(&s.q->driver, &me);
        from = in_ms(s.q, 0);
        atomic_store(&me.until_us, in_ms(s.q, 50));
        assert_int_equal(qp_job_start(s.q, &start, NULL, &err), QP_E_TIMEOUT);
        assert_string_equal(err.text, call_late_text());
        assert_true(in_ms(s.q, 0) - from >= 50 * 1000);
        asker_remove(&s.q->driver, &me);
        rt_add(&s.step, 1);
        (void)pthread_join(thread, NULL);
        assert_int_equal(exists(s.q, "a"), QP_E_NOT_FOUND);
        assert_int_equal(qp_job_start(s.q, &start, NULL, &err), QP_OK);
        assert_int_equal(exists(s.q, "a"), QP_OK);
        rt_close(s.q);
        rt_end();
    }
}

/* Jobs are read beside the engine: while its driver does nothing, a caller that was answered reads its own last write,
 * and a wait for a job that has ended returns. The store in memory is the driver's own, so it is left out. */
static void test_reading(void **state)
{
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        struct stuck s = {.step = RT_COUNT_INIT};
        struct asker me = {0};
        struct qp_start start = start_of("a");
        struct qp_err err = {0};
        struct qp_job job;
        pthread_t thread;
        if (kind == RT_MEMORY) {
            continue;
        }
        rt_begin_on(kind);
        s.q = rt_open(rt_place);
        assert_int_equal(qp_job_start(s.q, &start, NULL, &err), QP_OK);
        assert_int_equal(qp_job_cancel(s.q, QP_STR("a"), NULL, &err), QP_OK);
        assert_int_equal(pthread_create(&thread, NULL, drive, &s), 0);
        rt_await(&s.step, 1);
        asker_add(&s.q->driver, &me);
        atomic_store(&me.until_us, in_ms(s.q, 2000));
        assert_int_equal(qp_job_get(s.q, QP_STR("a"), &job, &err), QP_OK);
        assert_string_equal(job.status, "cancelled");
        qp_job_done(s.q, &job);
        assert_int_equal(qp_job_wait(s.q, QP_STR("a"), 2000, &job, &err), QP_OK);
        qp_job_done(s.q, &job);
        asker_remove(&s.q->driver, &me);
        rt_add(&s.step, 1);
        (void)pthread_join(thread, NULL);
        rt_close(s.q);
        rt_end();
    }
}

struct answers {
    struct rt_count count;
    int code;
};

static void answered(void *context, const struct qp_started *what)
{
    struct answers *a = context;
    a->code = what->code;
    rt_add(&a->count, 1);
}

/* A call that no thread waits for is withdrawn by whoever looks, after its time and not before; its owner hears of it
 * once. */
static void test_async(void **state)
{
    struct stuck s = {.step = RT_COUNT_INIT};
    struct answers a = {.count = RT_COUNT_INIT};
    struct qp_start start = start_of("a");
    struct qp_err err = {0};
    pthread_t thread;
    (void)state;
    rt_begin(RT_VIRTUAL);
    s.q = rt_open(NULL);
    calls_limit(&s.q->driver, LIMIT_CALL_MS);
    start.answered = answered;
    start.context = &a;
    assert_int_equal(pthread_create(&thread, NULL, drive, &s), 0);
    rt_await(&s.step, 1);
    assert_int_equal(qp_job_start_async(s.q, &start, &err), QP_OK);
    testenv_advance_ms(&rt, LIMIT_CALL_MS - 1);
    calls_expire(&s.q->driver, CALLS_OVER);
    assert_int_equal(rt_value(&a.count), 0);
    testenv_advance_ms(&rt, 1);
    calls_expire(&s.q->driver, CALLS_OVER);
    assert_int_equal(rt_value(&a.count), 1);
    assert_int_equal(a.code, QP_E_TIMEOUT);
    rt_add(&s.step, 1);
    (void)pthread_join(thread, NULL);
    rt_poll(s.q);
    assert_int_equal(rt_value(&a.count), 1);
    assert_int_equal(exists(s.q, "a"), QP_E_NOT_FOUND);
    rt_close(s.q);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_moves), cmocka_unit_test(test_waiting),
                                       cmocka_unit_test(test_reading),
                                       cmocka_unit_test(test_async)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

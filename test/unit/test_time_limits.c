/* test_time_limits.c - tasks whose start, attempt or heartbeat takes too long, through the engine and on virtual time
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "store/error.h"
#include "support/enginetest.h"

static struct enginetest x;

#define POLICY(limits) "attempts=2,backoff=1000,factor=1," limits

static struct actor cast[] = {{.name = "trigger", .category = 'D', .next = "w"},
                              {.name = "w", .category = 'A', .deed = DEED_TASK, .topic = "t"},
                              {0}};

static void open_with(enum storetest_kind kind, const char *policy, int64_t room, qp_ms lease_ms)
{
    cast[1].policy = policy;
    enginetest_init(&x, kind, cast);
    x.service.lease_ms = lease_ms;
    x.service.room = room;
    enginetest_open(&x);
    enginetest_wait(&x, LIMIT_WORK_LEASE_MS); /* from here on this run could take beats */
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    enginetest_settle(&x);
}

static const struct act_row *act(void)
{
    return enginetest_act(&x, x.job, "w,0,0");
}

static const struct job_row *job(void)
{
    return enginetest_job(&x, x.job);
}

/* Proves that each limit ends an attempt with code 408 and its own sentence, at its time and not before, for tasks of this
 * run and for leased ones; that a late result is stale; that the policy's attempts are used up one by one, and that the last
 * error is the answer. */
static void test_each_limit(void **state)
{
    static const struct {
        const char *policy;
        int64_t room;
        qp_ms lease_ms;
        qp_ms after_ms;
        const char *text;
    } cases[] = {
        {POLICY("start=500"), 0, 0, 500, "start timeout: no worker took the task within 500 ms"},
        {POLICY("run=700"), 9, 0, 700,
         "timeout: the attempt did not end within 700 ms of its start"},
        {POLICY("run=700"), 9, LIMIT_WORK_LEASE_MS, 700,
         "timeout: the attempt did not end within 700 ms of its start"},
        {POLICY("run=90000,beat=60000"), 9, LIMIT_WORK_LEASE_MS, 60000,
         "heartbeat timeout: the worker sent no heartbeat for 60000 ms"},
        {POLICY("beat=300"), 9, 0, 300,
         "heartbeat timeout: the worker sent no heartbeat for 300 ms"},
        {POLICY("start=500,run=700,beat=300"), 9, LIMIT_WORK_LEASE_MS, 300,
         "heartbeat timeout: the worker sent no heartbeat for 300 ms"},
    };
    (void)state;
    for (size_t i = 0; i < 2 * ARRAY_COUNT(cases); i++) {
        size_t c = i / 2;
        open_with(i % 2 == 0 ? STORETEST_MEMORY : STORETEST_SQLITE, cases[c].policy, cases[c].room,
                  cases[c].lease_ms);
        for (int attempt = 1; attempt <= 2; attempt++) {
            struct task *late = enginetest_task(&x, "a", NULL);
            char error[256];
            assert_int_equal(late != NULL, cases[c].room > 0);
            enginetest_wait(&x, cases[c].after_ms - 1);
            assert_int_equal(act()->attempt, attempt - 1);
            enginetest_wait(&x, 1);
            assert_int_equal(act()->attempt, attempt);
            (void)snprintf(error, sizeof error,
                           "{\"code\":408,\"message\":\"%s\",\"activity\":\"w\","
                           "\"address\":\"w,0,0\"}",
                           cases[c].text);
            assert_true(str_equal(act()->error, str_from(error)));
            if (late != NULL) {
                assert_int_equal(enginetest_result(&x, late, RESULT_DONE, "late"), QP_E_STALE);
                enginetest_forget(&x, late);
            }
            if (attempt == 1) {
                assert_int_equal(job()->status, STATUS_RETRYING);
                enginetest_wait(&x, 1000);
            }
        }
        assert_int_equal(job()->state, JOB_FAILED);
        assert_int_equal(act()->code, ERROR_CODE_TIMEOUT);
        assert_int_equal(enginetest_rows(&x, TABLE_msg, x.job), 0);
        enginetest_check(&x);
        enginetest_done(&x);
    }
}

/* Proves that beats keep a task whose silence is limited, and that its result counts. */
static void test_beats(void **state)
{
    (void)state;
    open_with(STORETEST_SQLITE, POLICY("beat=300"), 9, 0);
    for (int i = 0; i < 5; i++) {
        struct request_beat beat = {.ref = enginetest_task(&x, "a", NULL)->ref};
        request_beat(&beat);
        enginetest_wait(&x, 299);
        assert_int_equal(enginetest_ask(&x, &beat.command), QP_OK);
        assert_int_equal(beat.until, store_now(x.f.s) + 300);
    }
    assert_int_equal(enginetest_work(&x), 1);
    assert_int_equal(act()->attempt, 0);
    assert_int_equal(job()->state, JOB_COMPLETED);
    enginetest_check(&x);
    enginetest_done(&x);
}

/* Proves that a restart forgives a silence, but neither an attempt that takes too long nor a task that nobody starts; and
 * that a crash between the commit that finds the limit and the one that reports it loses neither. */
static void test_crashes(void **state)
{
    static const struct {
        const char *policy;
        int64_t room;
        qp_ms after_ms;
        int64_t attempt;
    } cases[] = {{POLICY("start=500"), 0, 500, 1},
                 {POLICY("run=700"), 9, 700, 1},
                 {POLICY("beat=300"), 9, 300, 0}};
    (void)state;
    for (size_t i = 0; i < 2 * ARRAY_COUNT(cases); i++) {
        size_t c = i / 2;
        struct qp_err err;
        bool busy;
        open_with(STORETEST_SQLITE, cases[c].policy, cases[c].room, LIMIT_WORK_LEASE_MS);
        testenv_advance_ms(&x.f.t, cases[c].after_ms);
        if (i % 2 == 1) {
            assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
            assert_int_equal(act()->attempt, 0);
        }
        enginetest_crash(&x);
        enginetest_settle(&x);
        enginetest_wait(&x, LIMIT_LOST_MS);
        assert_int_equal(act()->attempt >= cases[c].attempt, true);
        enginetest_check(&x);
        enginetest_done(&x);
    }
}

/* Proves that a task has the limit key of its policy, and the job's without one. */
static void test_limit_key(void **state)
{
    (void)state;
    open_with(STORETEST_SQLITE, POLICY("run=700,limit=tenant,7"), 0, 0);
    assert_true(str_equal(enginetest_message(&x, x.job)->limit_key, QP_STR("tenant,7")));
    assert_true(str_equal(enginetest_message(&x, x.job)->limits, QP_STR("run=700")));
    enginetest_done(&x);
    open_with(STORETEST_SQLITE, POLICY("run=700"), 0, 0);
    assert_true(str_equal(enginetest_message(&x, x.job)->limit_key, QP_STR("")));
    enginetest_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_limit),
                                       cmocka_unit_test(test_beats), cmocka_unit_test(test_crashes),
                                       cmocka_unit_test(test_limit_key)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_request.c - what the outside asks of an engine: results, retries, pending replies, host calls,
 * signals, ends, unparking */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/enginetest.h"

static struct enginetest x;

static const struct actor worker[] = {{.name = "trigger", .category = 'D', .next = "w"},
                                      {.name = "w",
                                       .category = 'A',
                                       .deed = DEED_TASK,
                                       .topic = "t",
                                       .policy = "attempts=4,backoff=1000,factor=10,cap=50000"},
                                      {0}};
static const struct actor pendings[] = {
    {.name = "trigger", .category = 'D', .next = "w"},
    {.name = "w", .category = 'A', .deed = DEED_TASK, .topic = "t", .next = "p"},
    {.name = "p", .category = 'B'},
    {0}};
static const struct actor odd[] = {
    {.name = "trigger", .category = 'D', .next = "w"},
    {.name = "w", .category = 'A', .deed = DEED_TASK, .topic = "t", .policy = "attempts=none"},
    {0}};

static const struct job_row *job(void)
{
    return enginetest_job(&x, x.job);
}

static void start(void)
{
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
}

static struct request_result result(enum result_kind kind)
{
    struct request_result r = {.task = x.tasks,
                               .kind = kind,
                               .output = QP_STR("{\"e\":1}"),
                               .error = QP_STR("it broke"),
                               .pending_index = 1};
    request_result(&r);
    return r;
}

#define IT_BROKE(code)                                                                             \
    "{\"code\":" #code ",\"message\":\"it broke\",\"activity\":\"w\",\"address\":\"w,0,0\"}"

static void assert_error(qp_str error, const char *expected)
{
    char text[256];
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(error));
    assert_string_equal(text, expected);
}

/* ------------------------------------------------------------------------------------------ retries */

static void fails_four_times(void)
{
    static const qp_ms waits[] = {1000, 10000, 50000,
                                  -1}; /* the third would be 100 s, but for the cap */
    start();
    for (size_t i = 0; i < ARRAY_COUNT(waits); i++) {
        struct request_result r = result(RESULT_ERROR);
        assert_int_equal(x.tasks->failures, i);
        assert_int_equal(x.tasks->tries, i + 1);
        assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
        assert_int_equal(r.retry_ms, waits[i]);
        enginetest_forget(&x, x.tasks);
        if (waits[i] < 0) {
            break;
        }
        assert_int_equal(job()->status, STATUS_RETRYING);
        assert_int_equal(enginetest_act(&x, x.job, "w,0,0")->attempt, i + 1);
        assert_error(enginetest_act(&x, x.job, "w,0,0")->error, IT_BROKE(500));
        enginetest_wait(&x, waits[i] - 1);
        assert_null(x.tasks); /* not before its time */
        enginetest_wait(&x, 1);
        assert_non_null(x.tasks);
    }
    assert_int_equal(job()->state, JOB_FAILED);
    assert_int_equal(job()->completions, 1);
    assert_int_equal(enginetest_act(&x, x.job, "w,0,0")->code, 500);
    assert_int_equal(enginetest_act(&x, x.job, "w,0,0")->attempt, 4); /* the last one, too */
    assert_error(job()->error, IT_BROKE(500));
}

/* Attempts, backoff and cap of the policy; after the last one the activity's error fails the job. */
static void test_retry_policy(void **state)
{
    (void)state;
    enginetest_each(&x, worker, false, fails_four_times);
    enginetest_each(&x, worker, true, fails_four_times);
}

static void fails_then_works(void)
{
    struct request_result r;
    start();
    r = result(RESULT_ERROR);
    assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
    enginetest_forget(&x, x.tasks);
    enginetest_wait(&x, 1000);
    assert_int_equal(enginetest_result(&x, x.tasks, RESULT_DONE, "ok"), QP_OK);
    assert_int_equal(job()->state, JOB_COMPLETED);
    assert_string_equal(enginetest_digits(&x, "w,0,0"), "201100000000001 000111100000001");
}

static void test_retry_then_done(void **state)
{
    (void)state;
    enginetest_each(&x, worker, false, fails_then_works);
}

/* A fatal error is the last one, whatever the policy says; the code is the worker's. */
static void fatal(void)
{
    struct request_result r;
    start();
    r = result(RESULT_ERROR);
    r.fatal = true;
    r.code = 422;
    assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
    assert_int_equal(r.retry_ms, -1);
    assert_int_equal(job()->state, JOB_FAILED);
    assert_int_equal(enginetest_act(&x, x.job, "w,0,0")->code, 422);
    assert_int_equal(enginetest_act(&x, x.job, "w,0,0")->attempt, 1);
    assert_error(enginetest_act(&x, x.job, "w,0,0")->error, IT_BROKE(422));
    assert_error(job()->error, IT_BROKE(422));
}

static void test_fatal(void **state)
{
    (void)state;
    enginetest_each(&x, worker, false, fatal);
}

/* A lost delivery is no attempt: the policy's four are left after three crashes. */
static void test_crash_is_no_attempt(void **state)
{
    struct request_result r;
    (void)state;
    enginetest_init(&x, STORETEST_MEMORY, worker);
    enginetest_open(&x);
    start();
    for (int i = 0; i < 3; i++) {
        enginetest_crash(&x);
        enginetest_settle(&x);
    }
    assert_int_equal(x.tasks->tries, 4);
    assert_int_equal(x.tasks->failures, 0);
    r = result(RESULT_ERROR);
    assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
    assert_int_equal(r.retry_ms, 1000);
    enginetest_done(&x);
}

/* A policy that cannot be read refuses the error, and nothing happens. */
static void test_policy_unreadable(void **state)
{
    struct request_result r;
    (void)state;
    enginetest_init(&x, STORETEST_MEMORY, odd);
    enginetest_open(&x);
    start();
    r = result(RESULT_ERROR);
    assert_int_equal(enginetest_ask(&x, &r.command), QP_E_INVALID);
    assert_int_equal(enginetest_message(&x, x.job)->state, MSG_HELD);
    assert_int_equal(enginetest_result(&x, x.tasks, RESULT_DONE, "ok"), QP_OK);
    enginetest_done(&x);
}

/* ----------------------------------------------------------------------------------------- pending */

static void three_pending(void)
{
    start();
    for (int64_t i = 1; i <= 2; i++) {
        struct request_result r = result(RESULT_PENDING);
        r.pending_index = i;
        assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
        assert_int_equal(enginetest_ask(&x, &r.command),
                         QP_OK); /* the same again is nothing more */
    }
    assert_string_equal(enginetest_digits(&x, "w,0,0"),
                        "001100000000002 000011000000001 000011000000002");
    /* each has spawned in its own plane */
    assert_non_null(enginetest_act(&x, x.job, "p,0,0,0"));
    assert_non_null(enginetest_act(&x, x.job, "p,0,1,0"));
    assert_int_equal(job()->state, JOB_OPEN);
    assert_int_equal(enginetest_message(&x, x.job)->state, MSG_HELD); /* the task is still ours */
    assert_int_equal(enginetest_result(&x, x.tasks, RESULT_DONE, "ok"), QP_OK);
    assert_non_null(enginetest_act(&x, x.job, "p,0,2,0"));
    assert_int_equal(job()->state, JOB_COMPLETED);
    assert_int_equal(job()->completions, 1);
}

/* Pending replies are told apart by their index, and each counts once. */
static void test_pending(void **state)
{
    (void)state;
    enginetest_each(&x, pendings, false, three_pending);
}

/* --------------------------------------------------------------------------------------- host calls */

static int host_calls;

static int host(void *context, void *native)
{
    (void)native;
    host_calls++;
    return *(int *)context;
}

static void host_refuses(void)
{
    int answer = QP_E_INVALID;
    struct request_result r;
    start();
    host_calls = 0;
    r = result(RESULT_DONE);
    r.host = host;
    r.host_context = &answer;
    assert_int_equal(enginetest_ask(&x, &r.command), QP_E_ABORTED);
    assert_true(host_calls >= 1);
    assert_string_equal(enginetest_digits(&x, "w,0,0"), "001100000000000");
    assert_int_equal(enginetest_message(&x, x.job)->state, MSG_HELD);
    assert_int_equal(job()->state, JOB_OPEN);
    answer = QP_OK;
    assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
    assert_int_equal(job()->state, JOB_COMPLETED);
}

/* What the host writes and what the result proves commit together, or not at all. */
static void test_host_call(void **state)
{
    (void)state;
    enginetest_each(&x, worker, false, host_refuses);
}

/* -------------------------------------------------------------------------------- ends and unparking */

static void ends(void)
{
    static const struct {
        enum job_state state;
        enum job_status status;
    } cases[] = {{JOB_CANCELLED, STATUS_CANCELLED},
                 {JOB_INTERRUPTED, STATUS_INTERRUPTED},
                 {JOB_FAILED, STATUS_FAILED}};
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(enginetest_start(&x, names[i]), QP_OK);
        assert_int_equal(enginetest_end(&x, names[i], cases[i].state), QP_OK);
        assert_int_equal(job()->state, cases[i].state);
        assert_int_equal(job()->status, cases[i].status);
        assert_int_equal(job()->completions, 1);
        assert_int_equal(enginetest_rows(&x, TABLE_msg, x.job), 0);
        assert_int_equal(enginetest_end(&x, names[i], cases[i].state), QP_E_CLOSED);
        assert_int_equal(
            enginetest_result(&x, enginetest_task(&x, names[i], NULL), RESULT_DONE, "1"),
            QP_E_STALE);
    }
    assert_int_equal(enginetest_end(&x, "nobody", JOB_CANCELLED), QP_E_NOT_FOUND);
    assert_int_equal(x.ended, ARRAY_COUNT(cases));
}

/* The end from outside: each kind, once; the task in hand is refused. */
static void test_end(void **state)
{
    (void)state;
    enginetest_each(&x, worker, false, ends);
    enginetest_each(&x, worker, true, ends);
}

static void test_unpark_refused(void **state)
{
    struct request_unpark r = {.ns = STORE_NS_DEFAULT, .jid = QP_STR("a")};
    (void)state;
    enginetest_init(&x, STORETEST_MEMORY, worker);
    enginetest_open(&x);
    request_unpark(&r);
    assert_int_equal(enginetest_ask(&x, &r.command), QP_E_NOT_FOUND);
    start();
    assert_int_equal(enginetest_ask(&x, &r.command), QP_E_CONFLICT); /* it is not parked */
    enginetest_done(&x);
}

/* Commands that wait when the engine is closed are told so. */
static void test_closed(void **state)
{
    struct request_start r;
    struct qp_err err;
    int64_t before;
    (void)state;
    enginetest_init(&x, STORETEST_MEMORY, worker);
    enginetest_open(&x);
    enginetest_fill_start(&x, &r, "a", "{}");
    r.command.answer = enginetest_answered;
    before = enginetest_answers;
    engine_submit(x.e, &r.command);
    assert_int_equal(engine_close(x.e, &err), QP_OK);
    assert_int_equal(enginetest_answers, before + 1);
    assert_int_equal(enginetest_answer, QP_E_CLOSED);
    assert_int_equal(storetest_count(&x.f, TABLE_job), 0);
    storetest_done(&x.f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retry_policy),
        cmocka_unit_test(test_retry_then_done),
        cmocka_unit_test(test_fatal),
        cmocka_unit_test(test_crash_is_no_attempt),
        cmocka_unit_test(test_policy_unreadable),
        cmocka_unit_test(test_pending),
        cmocka_unit_test(test_host_call),
        cmocka_unit_test(test_end),
        cmocka_unit_test(test_unpark_refused),
        cmocka_unit_test(test_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_loop.c - the ways to drive an engine: a host's own loop, qp_run, and nobody at all
 *
 * What depends on time runs under a clock that the test moves; what needs threads or poll(2) waits for
 * conditions, with a limit.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/failpoint.h"
#include "base/mem.h"
#include "run/handle.h"
#include "run/loop.h"
#include "support/runtest.h"

static bool is_readable(const qp *q)
{
    struct pollfd event = {.fd = qp_fd(q), .events = POLLIN};
    return poll(&event, 1, 0) == 1;
}

static int succeed(void *context, qp_task *task)
{
    struct rt_count *count = context;
    if (count != NULL) {
        rt_add(count, 1);
    }
    return qp_task_output(task, QP_STR("true"));
}

/* Fails as often as its policy allows but once. */
static int fail_twice(void *context, qp_task *task)
{
    return qp_task_attempt(task) < 3 ? QP_E_BUSY : succeed(context, task);
}

static struct qp_start start_of(const char *id)
{
    return (struct qp_start){.topic = QP_STR("work"),
                             .id = str_from(id),
                             .input = QP_STR("1"),
                             .retry = {.attempts = 3, .backoff_ms = 20, .factor = 1}};
}

/* ------------------------------------------------------------------------------- a host's loop */

static void start_one(void *context, int index)
{
    struct qp_start start = start_of("other");
    (void)index;
    QP_ASSERT(qp_job_start_async(context, &start, NULL) == QP_OK);
}

/* 0: now; n: in so many milliseconds; -1: never. The descriptor is readable when another thread has
 * asked for something, and not after a poll. */
static void test_deadlines(void **state)
{
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    rt_worker(q, "work", fail_twice, NULL);
    rt_poll(q);
    assert_int_equal(qp_next_deadline(q), 1000); /* then the store may tidy up */
    testenv_advance_ms(&rt, 999);
    assert_int_equal(qp_next_deadline(q), 1);
    testenv_advance_ms(&rt, 1);
    assert_int_equal(qp_next_deadline(q), 0);
    rt_poll(q);
    assert_int_equal(qp_next_deadline(q), -1);
    assert_false(is_readable(q));
    rt_threads(1, start_one, q);
    assert_true(is_readable(q));
    assert_int_equal(qp_next_deadline(q), 0);
    rt_poll(q);
    assert_false(is_readable(q));
    rt_expect(q, "other", "retrying", NULL);
    assert_int_equal(qp_next_deadline(q), 20);
    rt_poll(q); /* too early: nothing changes */
    rt_expect(q, "other", "retrying", NULL);
    testenv_advance_ms(&rt, 20);
    rt_poll(q);
    assert_int_equal(qp_next_deadline(q), 20);
    testenv_advance_ms(&rt, 20);
    rt_poll(q);
    rt_expect(q, "other", "completed", "true");
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

static bool is_left(qp *q)
{
    struct qp_err err = {0};
    bool left = false;
    rt_poll(q);
    assert_int_equal(qp_work_left(q, &left, &err), QP_OK);
    return left;
}

/* What lets an open job go on is left to do, and ends when it has. */
static void work_comes(qp *q)
{
    struct qp_start retried = start_of("retried");
    struct qp_start later = start_of("later");
    struct qp_start timed = {
        .topic = QP_STR("nobody"), .id = QP_STR("timed"), .input = QP_STR("1"), .timeout_ms = 7000};
    qp_task *task = NULL;
    later.delay_ms = 5000;
    later.retry.attempts = 1;
    rt_start_with(q, &retried);
    assert_true(is_left(q)); /* it is tried again */
    testenv_advance_ms(&rt, 20);
    assert_true(is_left(q));
    testenv_advance_ms(&rt, 20);
    assert_false(is_left(q));
    rt_start_with(q, &later);
    assert_true(is_left(q));
    testenv_advance_ms(&rt, 5000);
    assert_false(is_left(q));
    rt_start_with(q, &timed);
    assert_true(is_left(q)); /* nobody serves it, but its time will end it */
    testenv_advance_ms(&rt, 7000);
    assert_false(is_left(q));
    rt_expect(q, "timed", "failed", NULL);
    rt_start_with(
        q, &(struct qp_start){.topic = QP_STR("hand"), .id = QP_STR("hand"), .input = QP_STR("1")});
    assert_false(is_left(q)); /* nobody serves it */
    assert_int_equal(qp_task_claim(q, QP_STR("hand"), &task, NULL), QP_OK);
    assert_true(is_left(q));
    assert_int_equal(qp_task_complete(task, QP_STR("1"), NULL), QP_OK);
    assert_false(is_left(q));
}

/* Retention, signals that wait for a job and idempotency records are due, and nothing to wait for. */
static void work_is_only_kept(qp *q)
{
    struct qp_start start = start_of("kept");
    start.retry.attempts = 1;
    start.idem_key = QP_STR("key");
    start.idem_body = QP_STR("body");
    rt_start_with(q, &start);
    assert_int_equal(qp_signal_send(q,
                                    &(struct qp_signal){.topic = QP_STR("early"),
                                                        .key = QP_STR("k"),
                                                        .payload = QP_STR("1"),
                                                        .ttl_ms = 9000},
                                    NULL),
                     QP_OK);
    assert_false(is_left(q));
    testenv_advance_ms(&rt, 1000); /* the store is tidied up */
    assert_false(is_left(q));
    assert_in_range(qp_next_deadline(q), 1, 8000);
}

/* qp_work_left, in a file and in memory. */
static void test_work_left(void **state)
{
    (void)state;
    for (int memory = 0; memory < 2; memory++) {
        struct qp_options options;
        qp *q = NULL;
        rt_begin(RT_VIRTUAL);
        qp_options_init(&options);
        options.path = memory ? NULL : rt_path;
        options.env = &rt.env;
        options.keep_ms = 3600 * 1000;
        assert_int_equal(qp_open(&options, &q, NULL), QP_OK);
        rt_worker(q, "work", fail_twice, NULL);
        assert_false(is_left(q));
        work_comes(q);
        work_is_only_kept(q);
        rt_close(q);
        rt_end();
    }
}

/* The wall clock is set back by an hour, or forward by a day: nothing is due later or earlier than it was. A host
 * that asks is told to look, and finds nothing. */
static void test_clock_jumps(void **state)
{
    struct qp_start start = start_of("a");
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    rt_worker(q, "work", fail_twice, NULL);
    rt_start_with(q, &start);
    rt_poll(q);
    assert_int_equal(qp_next_deadline(q), 20);
    rt.now_ms -= 3600 * 1000;
    assert_int_equal(qp_next_deadline(q), 20);
    rt.now_ms += 25 * 3600 * 1000;
    rt_poll(q);
    rt_expect(q, "a", "retrying", NULL);
    assert_int_equal(qp_next_deadline(q), 20);
    testenv_advance_ms(&rt, 19);
    rt_poll(q);
    rt_expect(q, "a", "retrying", NULL);
    for (int i = 0; i < 2; i++) {
        testenv_advance_ms(&rt, 21);
        rt_poll(q);
    }
    rt_expect(q, "a", "completed", NULL);
    rt_close(q);
    rt_end();
}

static void start_blocking(void *context, int index)
{
    qp *q = context;
    char id[16];
    struct qp_start start;
    (void)snprintf(id, sizeof id, "job %d", index);
    start = start_of(id);
    QP_ASSERT(qp_job_start(q, &start, NULL, NULL) == QP_OK);
}

struct starters {
    qp *q;
    pthread_t thread;
};

static void *starters_main(void *context)
{
    rt_threads(8, start_blocking, ((struct starters *)context)->q);
    return NULL;
}

/* A loop of poll(2), qp_poll and qp_next_deadline: starts of other threads are answered, and retries
 * come when they are due. */
static void test_a_host_loop(void **state)
{
    struct rt_count done = RT_COUNT_INIT;
    struct qp_err err = {0};
    struct starters starters;
    int wakeups = 0;
    (void)state;
    rt_begin(RT_REAL);
    starters.q = rt_open(rt_path);
    rt_worker(starters.q, "work", fail_twice, &done);
    assert_int_equal(pthread_create(&starters.thread, NULL, starters_main, &starters), 0);
    while (rt_value(&done) < 8 && wakeups++ < 100000) {
        struct pollfd event = {.fd = qp_fd(starters.q), .events = POLLIN};
        int64_t ms = qp_next_deadline(starters.q);
        assert_in_range(ms + 1, 0, 1001);
        (void)poll(&event, 1, ms < 0 ? 10000 : (int)ms);
        assert_int_equal(qp_poll(starters.q, &err), QP_OK);
    }
    assert_int_equal(rt_value(&done), 8);
    assert_in_range(wakeups, 3, 2000); /* it slept in between */
    assert_int_equal(pthread_join(starters.thread, NULL), 0);
    rt_close(starters.q);
    rt_check(rt_path, 8);
    rt_end();
}

static int chained;

static void chain(void *context, const char *status)
{
    struct qp_start start = {
        .topic = QP_STR("work"), .input = QP_STR("1"), .context = context, .ended = chain};
    (void)status;
    chained += qp_job_start_async(context, &start, NULL) == QP_OK;
}

/* Work that never ends does not keep the host's loop for ever; and the engine still closes. */
static void test_poll_comes_back(void **state)
{
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    rt_worker(q, "work", succeed, NULL);
    chained = 0;
    chain(q, "");
    assert_int_equal(qp_poll(q, &err), QP_OK);
    assert_in_range(chained, 2, 1000);
    assert_int_equal(qp_next_deadline(q), 0);
    rt_close(q);
    rt_end();
}

/* A commit that fails once, in a host's loop: the poll says so, asks to come again soon, and nothing is
 * lost. */
static void test_a_failure_passes(void **state)
{
    struct qp_start start = start_of("a");
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    rt_worker(q, "work", succeed, NULL);
    rt_start_with(q, &start); /* claimed in its commit; the function runs in the poll */
    assert_int_equal(failpoint_set("commit.before=error@1"), QP_OK);
    assert_int_equal(qp_poll(q, &err), QP_E_IO);
    assert_int_equal(qp_next_deadline(q), 100);
    testenv_advance_ms(&rt, 100);
    assert_int_equal(qp_next_deadline(q), 0);
    rt_poll(q);
    rt_expect(q, "a", "completed", "true");
    assert_int_equal(failpoint_set(NULL), QP_OK);
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

/* -------------------------------------------------------------------------------------- qp_run */

struct runner {
    qp *q;
    pthread_t thread;
    int rc;
    struct rt_count over;
};

static void *runner_main(void *context)
{
    struct runner *r = context;
    r->rc = qp_run(r->q, NULL);
    rt_add(&r->over, 1);
    return NULL;
}

static void runner_begin(struct runner *r, qp *q)
{
    *r = (struct runner){.q = q, .over = RT_COUNT_INIT};
    assert_int_equal(pthread_create(&r->thread, NULL, runner_main, r), 0);
}

static void runner_end(struct runner *r)
{
    rt_await(&r->over, 1);
    assert_int_equal(pthread_join(r->thread, NULL), 0);
    assert_int_equal(r->rc, QP_OK);
}

static pthread_t ran_on;

static int note_thread(void *context, qp_task *task)
{
    ran_on = pthread_self();
    rt_add(context, 1);
    return qp_task_output(task, QP_STR("1"));
}

/* A thread of the host is the engine's until qp_stop: functions run there, nobody else may drive, and it
 * can begin again. A stop that comes first counts. */
static void test_run_and_stop(void **state)
{
    struct runner r;
    struct qp_err err = {0};
    struct rt_count done = RT_COUNT_INIT;
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(rt_path);
    rt_worker(q, "work", note_thread, &done);
    runner_begin(&r, q);
    rt_start(q, "a");
    rt_await(&done, 1); /* this thread does not drive: the other one has begun */
    assert_true(pthread_equal(ran_on, r.thread));
    rt_wait(q, "a", "completed");
    assert_int_equal(qp_run(q, &err), QP_E_EXISTS);
    assert_int_equal(qp_poll(q, &err), QP_E_EXISTS);
    assert_non_null(strstr(err.text, "driven already"));
    assert_int_equal(qp_start_threads(q, 1, &err), QP_E_EXISTS);
    qp_stop(q);
    runner_end(&r);
    qp_stop(q);
    assert_int_equal(qp_run(q, &err), QP_OK); /* at once */
    runner_begin(&r, q);
    rt_start(q, "b");
    rt_await(&done, 2);
    rt_wait(q, "b", "completed");
    qp_stop(q);
    runner_end(&r);
    rt_close(q);
    rt_check(rt_path, 2);
    rt_end();
}

static void stop_in_callback(void *context, int code, const char *id)
{
    (void)code;
    (void)id;
    qp_stop(context);
}

/* qp_stop is allowed in a callback. */
static void test_stop_in_a_callback(void **state)
{
    struct runner r;
    struct qp_start start = start_of("a");
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(NULL);
    start.context = q;
    start.started = stop_in_callback;
    assert_int_equal(qp_job_start_async(q, &start, NULL), QP_OK);
    runner_begin(&r, q);
    runner_end(&r);
    rt_expect(q, "a", "running", NULL);
    rt_close(q);
    rt_end();
}

static void wait_for_it(void *context, int index)
{
    struct qp_job job;
    int rc = qp_job_wait(context, QP_STR("a"), 30000, &job, NULL);
    (void)index;
    QP_ASSERT(rc == QP_OK);
    QP_ASSERT(strcmp(job.status, "cancelled") == 0);
    qp_job_done(context, &job);
}

struct canceller {
    qp *q;
    struct rt_count waiting;
};

static void cancel_or_wait(void *context, int index)
{
    struct canceller *c = context;
    if (index > 0) {
        rt_add(&c->waiting, 1);
        wait_for_it(c->q, index);
        return;
    }
    rt_await(&c->waiting, 5); /* most of them are on their way */
    QP_ASSERT(qp_job_cancel(c->q, QP_STR("a"), NULL, NULL) == QP_OK);
}

/* Several threads wait for one job, with and without somebody who drives: all hear of its end. */
static void test_waiting_from_several_threads(void **state)
{
    (void)state;
    for (int driven = 0; driven < 2; driven++) {
        struct canceller c = {.waiting = RT_COUNT_INIT};
        struct runner r;
        rt_begin(RT_REAL);
        c.q = rt_open(NULL);
        if (driven) {
            runner_begin(&r, c.q);
        }
        rt_start(c.q, "a");
        rt_threads(6, cancel_or_wait, &c);
        if (driven) {
            qp_stop(c.q);
            runner_end(&r);
        }
        rt_close(c.q);
        rt_end();
    }
}

/* ------------------------------------------------------------------------------- nobody drives */

/* A program that only calls: its calls drive, and a wait runs functions, on this thread, timers
 * included. */
static void test_calls_drive(void **state)
{
    struct rt_count done = RT_COUNT_INIT;
    struct qp_start start = start_of("a");
    struct qp_err err = {0};
    struct qp_job job;
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(rt_path);
    rt_worker(q, "work", fail_twice, &done);
    rt_start_with(q, &start);
    assert_int_equal(rt_value(&done), 0); /* a start runs no functions */
    /* For as long as it takes: nothing but the end of the job ends the wait. */
    assert_int_equal(qp_job_wait(q, QP_STR("a"), -1, &job, &err), QP_OK);
    qp_job_done(q, &job);
    assert_int_equal(rt_value(&done), 1);
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

static atomic_int looks; /* at the monotonic clock */

static int64_t counting_us(void *context)
{
    struct qp_env usual;
    (void)context;
    qp_env_init(&usual);
    atomic_fetch_add(&looks, 1);
    return usual.monotonic_us(NULL);
}

/* After a qp_stop that nobody heeded, whoever waits sleeps, and does not spin. */
static void test_waiting_sleeps(void **state)
{
    struct qp_err err = {0};
    struct qp_job job;
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    rt.env.monotonic_us = counting_us;
    q = rt_open(NULL);
    rt_start(q, "a");
    qp_stop(q);
    atomic_store(&looks, 0);
    assert_int_equal(qp_job_wait(q, QP_STR("a"), 200, &job, &err), QP_E_TIMEOUT);
    assert_in_range(atomic_load(&looks), 1, 200);
    rt_close(q);
    rt_end();
}

static int wait_inside(void *context, qp_task *task)
{
    qp *q = context;
    struct qp_err err = {0};
    struct qp_job job;
    struct qp_start child = {
        .topic = QP_STR("nobody"), .id = QP_STR("child"), .input = QP_STR("1")};
    assert_int_equal(qp_job_start(q, &child, NULL, &err), QP_OK); /* calls are allowed */
    assert_int_equal(qp_job_wait(q, QP_STR("child"), 60000, &job, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "worker threads"));
    assert_int_equal(qp_poll(q, &err), QP_E_INVALID);
    assert_int_equal(qp_job_cancel(q, QP_STR("child"), "enough", &err), QP_OK);
    assert_int_equal(qp_job_wait(q, QP_STR("child"), 60000, &job, &err), QP_OK);
    qp_job_done(q, &job);
    return qp_task_output(task, QP_STR("1"));
}

/* A function on the engine's own thread may call, but cannot wait for what only this thread could
 * do. */
static void test_waiting_on_the_drivers_thread(void **state)
{
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    rt_worker(q, "work", wait_inside, q);
    rt_start(q, "a");
    rt_poll(q);
    rt_expect(q, "a", "completed", "1");
    rt_expect(q, "child", "cancelled", "enough");
    rt_close(q);
    rt_end();
}

/* Whoever waits goes on over a failure that passes. */
static void test_a_wait_over_a_failure(void **state)
{
    struct rt_count done = RT_COUNT_INIT;
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(rt_path);
    rt_worker(q, "work", succeed, &done);
    rt_start(q, "a");
    assert_int_equal(failpoint_set("commit.before=error@1"), QP_OK);
    rt_wait(q, "a", "completed");
    assert_int_equal(failpoint_set(NULL), QP_OK);
    assert_int_equal(rt_value(&done), 1); /* its result was kept, and sent again */
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

/* And is told of one that does not. */
static void test_a_wait_when_all_is_over(void **state)
{
    struct qp_err err = {0};
    struct qp_job job;
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(rt_path);
    rt_worker(q, "work", succeed, NULL);
    rt_start(q, "a");
    assert_int_equal(failpoint_set("commit.after=error@1"), QP_OK);
    assert_int_equal(qp_job_wait(q, QP_STR("a"), -1, &job, &err), QP_E_UNKNOWN_OUTCOME);
    assert_int_equal(failpoint_set(NULL), QP_OK);
    assert_int_equal(qp_job_cancel(q, QP_STR("a"), NULL, &err), QP_E_FSYNC); /* not begun */
    assert_int_equal(qp_run(q, &err), QP_E_UNKNOWN_OUTCOME);
    assert_int_equal(qp_poll(q, &err), QP_E_UNKNOWN_OUTCOME);
    (void)qp_close(q, &err); /* the store itself is well: only the answer was lost */
    q = rt_open(rt_path);
    rt_wait(q, "a", "completed");
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_work_left),
        cmocka_unit_test(test_clock_jumps),
        cmocka_unit_test(test_a_host_loop),
        cmocka_unit_test(test_poll_comes_back),
        cmocka_unit_test(test_a_failure_passes),
        cmocka_unit_test(test_run_and_stop),
        cmocka_unit_test(test_stop_in_a_callback),
        cmocka_unit_test(test_waiting_from_several_threads),
        cmocka_unit_test(test_calls_drive),
        cmocka_unit_test(test_waiting_sleeps),
        cmocka_unit_test(test_waiting_on_the_drivers_thread),
        cmocka_unit_test(test_a_wait_over_a_failure),
        cmocka_unit_test(test_a_wait_when_all_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

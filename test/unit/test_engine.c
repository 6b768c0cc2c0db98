/* test_engine.c - the engine's rounds: services and their room, timers, keys, priorities, failing
 * commits (the protocol itself: test_turn.c, test_engine_*.c) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "kernel/single.h"
#include "support/enginetest.h"

static struct enginetest x;

static const struct actor worker[] = {
    {.name = "trigger", .category = 'D', .next = "w"},
    {.name = "w", .category = 'A', .deed = DEED_TASK, .topic = "t"},
    {0}};

static const struct job_row *job(void)
{
    return enginetest_job(&x, x.job);
}

static size_t in_hand(void)
{
    size_t count = 0;
    for (struct task *t = x.tasks; t != NULL; t = t->next) {
        count++;
    }
    return count;
}

static void start_many(const char *prefix, int count, int64_t priority)
{
    static char names[64][16];
    static struct request_start requests[64];
    for (int i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof names[i], "%s%02d", prefix, i);
        enginetest_fill_start(&x, &requests[i], names[i], "{}");
        requests[i].start.job.priority = priority;
        requests[i].command.answer = enginetest_answered;
        engine_submit(x.e, &requests[i].command);
    }
    enginetest_settle(&x);
}

static void open_with_room(enum storetest_kind kind, int64_t room)
{
    enginetest_init(&x, kind, worker);
    x.service.room = room;
    enginetest_open(&x);
}

/* ---------------------------------------------------------------------------------------- services */

/* A job of the smallest kind, through a program that ships. */
static void test_single(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        struct request_start r;
        enginetest_init(&x, (enum storetest_kind)kind, worker);
        x.programs[0] = &single_program;
        enginetest_open(&x);
        enginetest_fill_start(&x, &r, "a", "1");
        r.start.job.kind = SINGLE_KIND;
        r.start.job.workflow = QP_STR("t");
        assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
        x.job = r.job.job;
        assert_true(str_equal(x.tasks->input, QP_STR("1")));
        assert_int_equal(enginetest_work(&x), 1);
        assert_int_equal(job()->state, JOB_COMPLETED);
        assert_int_equal(job()->completions, 1);
        enginetest_done(&x);
    }
}

/* A kind that nobody serves is refused, and leaves nothing. */
static void test_unknown_kind(void **state)
{
    struct request_start r;
    (void)state;
    open_with_room(STORETEST_MEMORY, 1);
    enginetest_fill_start(&x, &r, "a", "1");
    r.start.job.kind = 99;
    assert_int_equal(enginetest_ask(&x, &r.command), QP_E_UNSUPPORTED);
    assert_int_equal(storetest_count(&x.f, TABLE_job), 0);
    enginetest_done(&x);
}

/* As many tasks as there is room for are born in hand; the rest wait in their stream, and come when there is
 * room, the oldest first. */
static void test_room(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        open_with_room((enum storetest_kind)kind, 3);
        start_many("j", 8, 0);
        assert_int_equal(in_hand(), 3);
        assert_int_equal(x.service.room, 0);
        assert_int_equal(storetest_count(&x.f, TABLE_msg), 8);
        for (int left = 8; left > 0; left--) {
            assert_int_equal(in_hand(), left < 3 ? left : 3);
            assert_int_equal(x.tasks->tries, 1);
            assert_int_equal(enginetest_result(&x, x.tasks, RESULT_DONE, "ok"), QP_OK);
            enginetest_forget(&x, x.tasks);
            enginetest_settle(&x);
        }
        assert_int_equal(x.ended, 8);
        enginetest_done(&x);
    }
}

/* Behind a task that waits until its last try can be made alone, others wait with it, and come when it is done. */
static void test_room_behind_a_last_try(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        enginetest_init(&x, (enum storetest_kind)kind, worker);
        x.service.room = 1;
        x.options.max_deliveries = 2;
        enginetest_open(&x);
        start_many("j", 3, 0);
        assert_int_equal(in_hand(), 1);
        enginetest_crash(&x);
        enginetest_settle(&x);
        for (int left = 3; left > 0; left--) {
            assert_int_equal(in_hand(), 1);
            assert_int_equal(x.tasks->tries, left == 3 ? 2 : 1);
            assert_int_equal(enginetest_result(&x, x.tasks, RESULT_DONE, "ok"), QP_OK);
            enginetest_forget(&x, x.tasks);
            enginetest_settle(&x);
        }
        assert_int_equal(x.ended, 3);
        enginetest_done(&x);
    }
}

static int places_found;

/* Asks for a place, is begun again, as where others write, and asks again. */
static int reserve_twice(struct engine *e, struct command *c, struct bundle *b)
{
    struct kernel *k = engine_kernel(e);
    (void)c;
    places_found = 0;
    for (int i = 0; i < 2; i++) {
        struct reservation reserved;
        places_found += k->reserve(k->context, STORE_NS_DEFAULT, QP_STR("t"), &reserved) != NULL;
        b->commit->tries++;
    }
    return QP_OK;
}

/* A decision that is made again counts the one place that there is again, and not a second one. */
static void test_decided_again(void **state)
{
    struct command c = {.label = "test", .decide = reserve_twice};
    (void)state;
    open_with_room(STORETEST_MEMORY, 1);
    enginetest_settle(&x);
    assert_int_equal(enginetest_ask(&x, &c), QP_OK);
    assert_int_equal(places_found, 2);
    assert_int_equal(x.service.room, 1);
    assert_int_equal(enginetest_start(&x, "a"), QP_OK); /* and it is still there */
    assert_int_equal(in_hand(), 1);
    enginetest_done(&x);
}

/* Born in hand or from the stream, by run or by lease: to the worker a task is a task. */
static void test_born_held_or_from_stream(void **state)
{
    (void)state;
    for (int lease = 0; lease < 2; lease++) {
        for (int64_t room = 0; room < 2; room++) {
            struct msg_row m;
            open_with_room(STORETEST_MEMORY, room);
            x.service.lease_ms = lease * 1000;
            assert_int_equal(enginetest_start(&x, "a"), QP_OK);
            assert_int_equal(in_hand(), room);
            x.service.room = 1 - room;
            enginetest_settle(&x);
            assert_int_equal(in_hand(), 1);
            m = *enginetest_message(&x, x.job);
            assert_int_equal(m.state, MSG_HELD);
            assert_int_equal(m.token, x.tasks->ref.token);
            assert_int_equal(m.tries, 1);
            assert_int_equal(m.holder > 0, lease == 0);
            assert_int_equal(m.wake_at > 0, lease == 1);
            assert_int_equal(x.tasks->tries, 1);
            assert_true(str_equal(x.tasks->input, QP_STR("in")));
            assert_int_equal(enginetest_work(&x), 1);
            assert_int_equal(job()->state, JOB_COMPLETED);
            enginetest_done(&x);
        }
    }
}

/* A lease of a task ends, and the worker has not answered: it comes again, and the first answer is
 * refused. */
static void test_task_lease(void **state)
{
    struct task *old;
    (void)state;
    enginetest_init(&x, STORETEST_SQLITE, worker);
    x.service.lease_ms = 1000;
    enginetest_open(&x);
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    enginetest_wait(&x, 999);
    assert_int_equal(in_hand(), 1);
    enginetest_wait(&x, 1);
    assert_int_equal(in_hand(), 2);
    old = x.tasks;
    assert_int_equal(old->next->tries, 2);
    assert_int_equal(enginetest_result(&x, old, RESULT_DONE, "late"), QP_E_STALE);
    assert_int_equal(enginetest_result(&x, old->next, RESULT_DONE, "ok"), QP_OK);
    assert_int_equal(job()->completions, 1);
    enginetest_done(&x);
}

/* ------------------------------------------------------------------------------------- lost leases */

static const struct actor thrice[] = {{.name = "trigger", .category = 'D', .next = "w"},
                                      {.name = "w",
                                       .category = 'A',
                                       .deed = DEED_TASK,
                                       .topic = "t",
                                       .policy = "attempts=3,backoff=1000,factor=1"},
                                      {0}};

#define LOST                                                                                        \
    "{\"code\":504,\"message\":\"the lease ran out: the worker neither answered nor sent a beat\"," \
    "\"activity\":\"w\",\"address\":\"w,0,0\"}"

static void open_leased(enum storetest_kind kind)
{
    enginetest_init(&x, kind, thrice);
    x.service.lease_ms = LIMIT_WORK_LEASE_MS;
    x.service.room = 9;
    enginetest_open(&x);
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    assert_int_equal(in_hand(), 1);
}

static const struct act_row *act(void)
{
    return enginetest_act(&x, x.job, "w,0,0");
}

/* A worker that takes its task and is never heard of again uses up the attempts of its activity: each is an error 504, told at
 * once on the activity and in the log, and the last one is the answer. */
static void test_lost_leases(void **state)
{
    (void)state;
    for (int kind = STORETEST_MEMORY; kind <= STORETEST_SQLITE; kind++) {
        open_leased((enum storetest_kind)kind);
        for (int i = 1; i <= 3; i++) {
            struct task *lost = enginetest_task(&x, "a", NULL);
            testenv_log_reset(&x.f.t);
            enginetest_wait(&x, LIMIT_WORK_LEASE_MS - 1);
            assert_int_equal(act()->attempt, i - 1);
            enginetest_wait(&x, 1);
            assert_int_equal(act()->attempt, i);
            assert_true(str_equal(act()->error, QP_STR(LOST)));
            assert_non_null(strstr(testenv_log(&x.f.t), "a lease ran out"));
            assert_int_equal(enginetest_result(&x, lost, RESULT_DONE, "late"), QP_E_STALE);
            enginetest_forget(&x, lost);
            if (i < 3) {
                assert_int_equal(job()->status, STATUS_RETRYING);
                assert_int_equal(in_hand(), 0);
                enginetest_wait(&x, 1000);
                assert_int_equal(in_hand(), 1);
            }
        }
        assert_int_equal(job()->state, JOB_FAILED);
        assert_int_equal(act()->code, 504);
        assert_true(str_equal(job()->error, QP_STR(LOST)));
        assert_int_equal(engine_stats(x.e).leases, 3);
        assert_int_equal(enginetest_rows(&x, TABLE_msg, x.job), 0);
        enginetest_check(&x);
        enginetest_done(&x);
    }
}

/* What was lost with us is not its worker's fault: a lease that ran out before another run could take a beat, and one that
 * ran out while this process stood still. Such a task comes again, and no attempt is used up. */
static void test_lost_with_us(void **state)
{
    (void)state;
    open_leased(STORETEST_SQLITE);
    testenv_advance_ms(&x.f.t, 20 * 1000);
    enginetest_crash(&x);
    enginetest_wait(&x, 10 * 1000);
    assert_int_equal(act()->attempt, 0);
    assert_int_equal(x.tasks->tries, 2); /* it may have killed us: that is counted as ever */
    enginetest_wait(&x, LIMIT_WORK_LEASE_MS + LIMIT_LOST_MS + 1); /* nobody was there at its end */
    assert_int_equal(act()->attempt, 0);
    enginetest_wait(&x, LIMIT_WORK_LEASE_MS); /* and now somebody was */
    assert_int_equal(act()->attempt, 1);
    enginetest_check(&x);
    enginetest_done(&x);
}

/* A crash between the commit that finds a lease to be over and the one that reports it: the task is held a little longer,
 * and comes again. */
static void test_lost_and_crashed(void **state)
{
    struct qp_err err;
    bool busy;
    (void)state;
    open_leased(STORETEST_SQLITE);
    testenv_advance_ms(&x.f.t, LIMIT_WORK_LEASE_MS);
    assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
    assert_true(busy);
    assert_int_equal(act()->attempt, 0);
    assert_int_equal(enginetest_message(&x, x.job)->state, MSG_HELD);
    enginetest_crash(&x);
    enginetest_wait(&x, LIMIT_LOST_MS);
    assert_int_equal(act()->attempt, 0);
    assert_int_equal(in_hand(), 1);
    assert_int_equal(x.tasks->tries, 2);
    enginetest_check(&x);
    enginetest_done(&x);
}

/* The commit that claims tasks fails: they are still there, and the engine looks again. */
static void test_claim_that_failed(void **state)
{
    static const char *const points[] = {"commit.before", "engine.collected", "op.msg_claim"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(points); i++) {
        struct qp_err err;
        char spec[64];
        bool busy;
        open_with_room(STORETEST_MEMORY, 0);
        assert_int_equal(enginetest_start(&x, "a"), QP_OK);
        enginetest_settle(&x);
        x.service.room = 5; /* more than there is: a look that succeeds empties the stream */
        (void)snprintf(spec, sizeof spec, "%s=error", points[i]);
        assert_int_equal(failpoint_set(spec), QP_OK);
        assert_int_equal(enginetest_round(&x, &busy, &err), QP_E_IO);
        assert_int_equal(failpoint_set(NULL), QP_OK);
        assert_int_equal(enginetest_work(&x), 1);
        assert_int_equal(job()->state, JOB_COMPLETED);
        enginetest_done(&x);
    }
}

/* ------------------------------------------------------------------------------------------- timers */

static const struct actor sleepers[] = {
    {.name = "trigger", .category = 'D', .next = "d b a c"},
    {.name = "a", .category = 'A', .deed = DEED_SLEEP, .ms = 10},
    {.name = "b", .category = 'A', .deed = DEED_SLEEP, .ms = 20},
    {.name = "c", .category = 'A', .deed = DEED_SLEEP, .ms = 20},
    {.name = "d", .category = 'A', .deed = DEED_SLEEP, .ms = 3600000},
    {0}};

static bool has_fired(const char *addr)
{
    return enginetest_act(&x, x.job, addr)->ledger / LEDGER_FINAL_DIGIT == 2;
}

static void timers(void)
{
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    for (qp_ms now = 1; now <= 20; now++) {
        assert_true(engine_deadline(x.e) <= store_now(x.f.s) + 10);
        enginetest_wait(&x, 1);
        assert_int_equal(has_fired("a,0,0"), now >= 10);
        assert_int_equal(has_fired("b,0,0"), now >= 20);
        assert_int_equal(has_fired("c,0,0"), now >= 20);
        assert_false(has_fired("d,0,0"));
        if (now == 15) {
            enginetest_crash(&x);
        }
    }
    assert_int_equal(engine_deadline(x.e), store_now(x.f.s) + 3600000 - 20);
    enginetest_wait(&x, 3600000 - 20);
    assert_int_equal(job()->state, JOB_COMPLETED);
    assert_string_equal(enginetest_digits(&x, "a,0,0"), "201100000000001 000011000000001");
    enginetest_wait(&x, 3600000);
    assert_int_equal(job()->completions, 1);
    assert_int_equal(engine_deadline(x.e), INT64_MAX);
}

/* Timers fire once, in the order of their times, not before, also across a restart; the engine knows when
 * the next one is due. */
static void test_timers(void **state)
{
    (void)state;
    enginetest_each(&x, sleepers, false, timers);
    enginetest_each(&x, sleepers, true, timers);
}

/* ------------------------------------------------------------------------------------ keys, priority */

static const struct actor keyed[] = {
    {.name = "trigger", .category = 'D', .next = "k"},
    {.name = "k", .category = 'A', .deed = DEED_KEY, .key = "door", .next = "w"},
    {.name = "w", .category = 'A', .deed = DEED_TASK, .topic = "t"},
    {0}};

static void one_at_a_time(void)
{
    static const char *const names[] = {"j00", "j01", "j02", "j03"};
    start_many("j", 4, 0);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        enginetest_settle(&x);
        assert_int_equal(in_hand(), 1); /* whoever has the key */
        assert_true(str_equal(x.tasks->jid, str_from(names[i])));
        if (i == 1) {
            enginetest_crash(&x); /* keys outlive a run: they are the job's */
            enginetest_settle(&x);
            assert_true(str_equal(x.tasks->jid, str_from(names[i])));
        }
        assert_int_equal(enginetest_result(&x, x.tasks, RESULT_DONE, "ok"), QP_OK);
        enginetest_forget(&x, x.tasks);
    }
    assert_int_equal(storetest_count(&x.f, TABLE_key), 0);
}

/* A key of one unit: one job after the other, in the order in which they came. */
static void test_keys(void **state)
{
    (void)state;
    enginetest_each(&x, keyed, false, one_at_a_time);
    enginetest_each(&x, keyed, true, one_at_a_time);
}

/* Of what waits in a stream, the best priority comes first, and of equal ones the oldest. */
static void test_priority(void **state)
{
    static const char *const order[] = {"a00", "a01", "m00", "m01", "z00", "z01"};
    (void)state;
    open_with_room(STORETEST_SQLITE, 0);
    start_many("z", 2, 9);
    start_many("m", 2, 5);
    start_many("a", 2, 0);
    x.service.room = 1;
    for (size_t i = 0; i < ARRAY_COUNT(order); i++) {
        enginetest_settle(&x);
        assert_int_equal(in_hand(), 1);
        assert_true(str_equal(x.tasks->jid, str_from(order[i])));
        assert_int_equal(enginetest_result(&x, x.tasks, RESULT_DONE, "ok"), QP_OK);
        enginetest_forget(&x, x.tasks);
    }
    enginetest_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_unknown_kind),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_room_behind_a_last_try),
        cmocka_unit_test(test_born_held_or_from_stream),
        cmocka_unit_test(test_task_lease),
        cmocka_unit_test(test_lost_leases),
        cmocka_unit_test(test_lost_with_us),
        cmocka_unit_test(test_lost_and_crashed),
        cmocka_unit_test(test_claim_that_failed),
        cmocka_unit_test(test_timers),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_priority),
        cmocka_unit_test(test_decided_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

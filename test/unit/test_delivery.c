/* test_delivery.c - messages in an engine's hands: first deliveries together, suspects alone, and only what
 * was begun is counted */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/enginetest.h"

static struct enginetest x;

#define COUNT 5

static const struct actor sleeper[] = {
    {.name = "trigger", .category = 'D', .next = "s"},
    {.name = "s", .category = 'A', .deed = DEED_SLEEP, .ms = 1000},
    {0}};

static int64_t first_job;

static void start_many(void)
{
    static const char *const names[COUNT] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(enginetest_start(&x, names[i]), QP_OK);
        first_job = i == 0 ? x.job : first_job;
    }
}

/* The messages of the jobs are claimed, and not worked on. */
static void until_claimed(void)
{
    struct qp_err err;
    bool busy = true;
    while (enginetest_message(&x, first_job)->state != MSG_HELD) {
        assert_true(busy);
        assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
    }
}

static int64_t sum_tries(void)
{
    int64_t tries = 0;
    for (int i = 0; i < COUNT; i++) {
        tries += enginetest_message(&x, first_job + i)->tries;
    }
    return tries;
}

/* First deliveries share one commit. */
static void together(void)
{
    struct qp_err err;
    bool busy;
    start_many();
    testenv_advance_ms(&x.f.t, 1000);
    until_claimed();
    assert_int_equal(x.ended, 0);
    assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
    assert_int_equal(x.ended, COUNT);
    assert_int_equal(engine_stats(x.e).suspects, 0);
}

static void test_first_deliveries_together(void **state)
{
    (void)state;
    enginetest_each(&x, sleeper, false, together);
}

/* After a crash each of them is alone, and ended before the next one begins; other work goes on between
 * their steps. */
static void alone(void)
{
    struct qp_err err;
    bool busy = true;
    int64_t others = 0;
    start_many();
    testenv_advance_ms(&x.f.t, 1000);
    until_claimed();
    enginetest_crash(&x);
    for (int i = 0; busy; i++) {
        int64_t open = 0;
        struct request_start r;
        char jid[16];
        int64_t before = enginetest_answers;
        (void)snprintf(jid, sizeof jid, "new%d", i);
        if (x.ended < COUNT) {
            enginetest_fill_start(&x, &r, jid, "{}");
            r.command.answer = enginetest_answered;
            engine_submit(x.e, &r.command);
            assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
            assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
            assert_int_equal(enginetest_answers, before + 1); /* within two rounds */
            others++;
        } else {
            assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
        }
        for (int k = 0; k < COUNT; k++) {
            const struct act_row *act = enginetest_act(&x, first_job + k, "s,0,0");
            open += act->guid.p != NULL && step_next(act->guid_ledger) != STEP_ACK;
        }
        assert_true(open <= 1);
    }
    assert_int_equal(x.ended, COUNT);
    assert_true(engine_stats(x.e).suspects > COUNT * 3);
    assert_true(others > COUNT);
}

static void test_suspects_alone(void **state)
{
    (void)state;
    enginetest_each(&x, sleeper, false, alone);
}

/* Claimed and never begun, over and over: nobody is suspected for that. */
static void test_only_what_was_begun_counts(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        enginetest_init(&x, (enum storetest_kind)kind, sleeper);
        x.options.max_deliveries = 2;
        enginetest_open(&x);
        start_many();
        testenv_advance_ms(&x.f.t, 1000);
        for (int i = 0; i < 10; i++) {
            until_claimed();
            assert_int_equal(sum_tries(), COUNT); /* the first time they went together */
            enginetest_crash(&x);
        }
        enginetest_settle(&x);
        assert_int_equal(x.ended, COUNT);
        assert_int_equal(engine_stats(x.e).dead_letters, 0);
        enginetest_done(&x);
    }
}

/* A message of a kind that no engine knows is kept as a dead letter. */
static void test_unknown_kind(void **state)
{
    struct op op = {.kind = OP_msg_put};
    (void)state;
    enginetest_init(&x, STORETEST_MEMORY, sleeper);
    x.options.max_deliveries = 2;
    enginetest_open(&x);
    start_many();
    op.msg_put = (struct op_msg_put){.ref = {STORE_NS_DEFAULT, 0},
                                     .owner = OWNER_SYSTEM,
                                     .kind = MESSAGE_KINDS,
                                     .topic = ENGINE_TOPIC,
                                     .guid = storetest_guid(1)};
    assert_int_equal(storetest_op(&x.f, &op), QP_OK);
    for (int i = 0; i < 5; i++) {
        enginetest_wait(&x, 2000);
    }
    assert_int_equal(enginetest_message(&x, 0)->state, MSG_DEAD);
    assert_int_equal(engine_stats(x.e).dead_letters, 1);
    assert_int_equal(x.ended, COUNT);
    enginetest_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_deliveries_together),
        cmocka_unit_test(test_suspects_alone),
        cmocka_unit_test(test_only_what_was_begun_counts),
        cmocka_unit_test(test_unknown_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_slice.c - how long a commit decides messages, and what waits for what, on every provider
 *
 * Every answer to a job that has slept costs COST_US of virtual time, which passes in its decision. So a test counts how
 * many of them a commit has taken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/enginetest.h"

#define SLEEPERS 100
#define COST_US 400
#define IN_A_SLICE 2 /* begun before LIMIT_SLICE_US are over */
#define IN_THE_MOST 25

static const struct actor cast[] = {
    {.name = "trigger", .category = 'D', .next = "nap"},
    {.name = "nap", .category = 'A', .deed = DEED_SLEEP, .ms = 60000},
    {0}};

static struct enginetest x;
static int answers;           /* decided so far */
static int64_t start_cost_us; /* of a start */

static int spend(void *context, struct turn *t, const char *function)
{
    (void)context;
    (void)t;
    if (strcmp(function, "work") == 0) {
        answers++;
        x.f.t.monotonic_us += COST_US;
    }
    if (strcmp(function, "describe") == 0) {
        x.f.t.monotonic_us += start_cost_us;
    }
    return QP_OK;
}

/* SLEEPERS jobs are about to be woken, and no command has come for long. */
static void open_sleepers(int kind, int64_t batch)
{
    char jid[16];
    start_cost_us = 0;
    enginetest_init(&x, (enum storetest_kind)kind, cast);
    x.cast.trouble = spend;
    x.options.batch = batch;
    enginetest_open(&x);
    for (int i = 0; i < SLEEPERS; i++) {
        (void)snprintf(jid, sizeof jid, "nap%d", i);
        assert_int_equal(enginetest_start(&x, jid), QP_OK);
    }
    testenv_advance_ms(&x.f.t, 60000);
    answers = 0;
}

/* The answers that one round has decided. */
static int one_round(void)
{
    struct qp_err err = {0};
    bool busy = false;
    int before = answers;
    assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
    return answers - before;
}

static void submit(const char *jid)
{
    static struct request_start r;
    enginetest_fill_start(&x, &r, jid, "{}");
    r.command.answer = enginetest_answered;
    enginetest_answers = 0;
    engine_submit(x.e, &r.command);
}

static void until_messages(void)
{
    for (int i = 0; answers == 0; i++) {
        assert_true(i < 5);
        (void)one_round();
    }
}

static void finish(void)
{
    enginetest_settle(&x);
    enginetest_wait(&x, 60000);
    assert_int_equal(enginetest_rows(&x, TABLE_msg, 0), 0);
    enginetest_done(&x);
}

/* I1, I4, I6: without commands a commit takes what fits into the most, the rest comes with the next ones, in time,
 * and each once. */
static void test_alone(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        open_sleepers(kind, 0);
        until_messages();
        assert_int_equal(answers, IN_THE_MOST);
        assert_int_equal(one_round(), IN_THE_MOST);
        enginetest_settle(&x);
        assert_int_equal(answers, SLEEPERS);
        assert_int_equal(x.ended, SLEEPERS);
        finish();
    }
}

/* I2, I3: a command is in the next commit, after one that took a slice, which then has no messages; so is one more; and then
 * it is the messages' turn, although another command is there already. The driver lingers for the second one only. */
static void test_beside_commands(void **state)
{
    char jid[16];
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        open_sleepers(kind, 0);
        until_messages();
        for (int i = 0; i < 4; i++) {
            assert_true(engine_linger_us(x.e) <= 0);
            for (int turn = 0; turn < LIMIT_SLICE_TURNS; turn++) {
                (void)snprintf(jid, sizeof jid, "own%d.%d", i, turn);
                submit(jid);
                assert_int_equal(one_round(), 0);
                assert_int_equal(enginetest_answers, 1);
                assert_int_equal(engine_linger_us(x.e) > 0, turn + 1 < LIMIT_SLICE_TURNS);
            }
            (void)snprintf(jid, sizeof jid, "shared%d", i);
            submit(jid);
            assert_int_equal(one_round(), IN_A_SLICE);
            assert_int_equal(enginetest_answers, 1);
        }
        assert_int_equal(one_round(), IN_A_SLICE); /* commands may still come */
        testenv_advance_ms(&x.f.t, LIMIT_SLICE_QUIET_US / 1000 + 1);
        assert_int_equal(one_round(), IN_THE_MOST);
        finish();
    }
}

/* I2: what a commit takes beyond deciding is taken off the slice. */
static void test_share_of_deciding(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        open_sleepers(kind, 0);
        until_messages();
        for (int i = 0; i < 4 * (LIMIT_SLICE_TURNS + 1); i++) {
            char jid[16];
            bool shared = i % (LIMIT_SLICE_TURNS + 1) == LIMIT_SLICE_TURNS;
            start_cost_us = shared ? 2000 : 0; /* which deciding messages does not have */
            (void)snprintf(jid, sizeof jid, "dear%d", i);
            submit(jid);
            (void)one_round();
        }
        start_cost_us = 0;
        assert_int_equal(one_round(), 1);
        finish();
    }
}

/* I2: commits that take long because of commands give messages as long. */
static void test_as_long_as_others(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        open_sleepers(kind, 0);
        until_messages();
        start_cost_us = 4000;
        submit("long");
        assert_int_equal(one_round(), 0);
        assert_int_equal(enginetest_answers, 1);
        assert_true(one_round() >= 10);
        finish();
    }
}

static int count_claimed(void *context, const void *row)
{
    *(int *)context += ((const struct msg_row *)row)->token > 0;
    return QP_OK;
}

/* I6: what is put off stays the only thing in hand: no more messages are claimed than a batch. */
static void test_no_more_is_claimed(void **state)
{
    struct scan scan = {.table = TABLE_msg, .index = -1, .limit = SIZE_MAX};
    (void)state;
    open_sleepers(STORETEST_SQLITE, 40);
    for (int i = 0; answers < SLEEPERS; i++) {
        int claimed = 0;
        (void)one_round();
        assert_int_equal(store_scan(x.f.s, &scan, &claimed, count_claimed, NULL), QP_OK);
        assert_true(claimed <= 40);
        assert_true(i < 50);
    }
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_beside_commands),
        cmocka_unit_test(test_as_long_as_others),
        cmocka_unit_test(test_share_of_deciding),
        cmocka_unit_test(test_no_more_is_claimed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

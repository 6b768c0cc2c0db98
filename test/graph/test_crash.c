/* test_crash.c - the crash vectors, one test each: what a crash, a repetition or a stale hand must not do to a graph
 *
 *   response       the worker's answer is committed and nobody hears of it, or is lost: it counts once
 *   step 1         Leg2 is taken up after its step 1: the child still sees what its parent brought
 *   inception      a start that died between the job and its children: whoever asks again opens it, once
 *   pivot          the transition to a cycle's pivot, and the cycle's own message, come again: nothing is spawned
 *   ten entries    one Leg1 that is entered ten times
 *   stop           an interrupt of the job itself that is the only open branch: the job completes, once
 *   values         "/tree" and "" are what they were
 *   reuse          an id whose job has expired is free, and what is left of the old job does not touch the new one
 *   stale leg      an engine that lost its message to another one
 *   everything     every message of every case comes twice
 *
 * Each on every kind of store; digits are read at the crash and at the end, and a check finds nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cases.h"
#include "echo.h"

#define TOPICS "do.pay do.receipt do.ship do.keep do.count"
#define BOUNDARIES_MAX 1000
#define ENTRIES 10

static struct graphrun run;

static void work(struct graphcall *c)
{
    if (str_equal(c->topic, QP_STR("do.pay"))) {
        (void)snprintf(c->output, sizeof c->output, "{\"paid\":42}");
    } else if (str_equal(c->topic, QP_STR("do.receipt"))) {
        (void)snprintf(c->output, sizeof c->output, "{\"receipt\":%.*s}", STR_ARG(c->input));
    } else if (str_equal(c->topic, QP_STR("do.keep"))) {
        (void)snprintf(c->output, sizeof c->output, "%.*s", STR_ARG(c->input));
    } else if (str_equal(c->topic, QP_STR("do.count"))) {
        bool last = str_equal(c->addr, QP_STR("count,0,2,0"));
        c->code = last ? 200 : 500;
        (void)snprintf(c->output, sizeof c->output, "{\"counter\":%d}", last ? 3 : 0);
    }
}

static void begin(int kind, bool stepwise)
{
    run.stepwise = stepwise;
    graphrun_init(&run, (enum storetest_kind)kind, TOPICS, work);
    graphrun_deploy_vector(&run, "crash");
}

static void end(void)
{
    graphrun_check(&run);
    graphrun_done(&run);
}

/* On every store, fused and stepwise. */
static void each(void (*test)(void))
{
    for (int i = 0; i < 2 * storetest_kinds(); i++) {
        begin(i / 2, i % 2 != 0);
        test();
        end();
    }
}

/* Stepwise only: where every step is a commit, and every transition a message. */
static void each_stepwise(void (*test)(void))
{
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        begin(kind, true);
        test();
        end();
    }
}

static void start(const char *topic, const char *input)
{
    assert_int_equal(graphrun_start(&run, topic, "j", input), QP_OK);
    graphrun_rest(&run);
}

static void expect_digits(const char *addr, const char *digits)
{
    assert_string_equal(graphrun_digits(&run, "j", addr), digits);
}

static void expect_paid(void)
{
    graphrun_expect(&run, "j", "completed",
                    "{\"paid\":42,\"receipt\":{\"paid\":42},\"shipped\":true}");
    assert_int_equal(graphrun_job(&run, "j")->sem, 0);
    assert_int_equal(graphrun_job(&run, "j")->completions, 1);
}

/* -------------------------------------------------------------------------------------------- response */

/* Committed, and the process dies before the worker hears of it: so it answers again. */
static void response_not_heard(void)
{
    struct task *task;
    start("crash.pay", "{\"amount\":42}");
    task = graphrun_take(&run, "pay,0,0");
    assert_int_equal(graphrun_result(&run, task, "{\"paid\":42}"), QP_OK);
    expect_digits("pay,0,0", run.stepwise ? "001100000000000" : "201100000000001 000011000000001");
    graphrun_kill(&run);
    assert_int_equal(graphrun_result(&run, task, "{\"paid\":43}"), QP_E_STALE);
    graphrun_rest(&run);
    expect_digits("pay,0,0", "201100000000001 000011000000001");
    assert_int_equal(graphrun_job(&run, "j")->sem, 2); /* receipt and ship */
    assert_int_equal(graphrun_result(&run, task, "{\"paid\":44}"), QP_E_STALE);
    graphrun_forget(&run, task);
    graphrun_settle(&run);
    expect_digits("pay,0,0", "201100000000001 000011000000001");
    expect_paid();
    assert_int_equal(graphrun_calls(&run, "do.pay"), 1);
    assert_int_equal(graphrun_calls(&run, "do.receipt"), 1);
}

/* Not committed: the task comes again, and of the two who have done it the one that holds it counts. */
static void response_lost(void)
{
    struct task *lost;
    struct task *task;
    start("crash.pay", "{\"amount\":42}");
    lost = graphrun_take(&run, "pay,0,0");
    graphrun_kill(&run);
    graphrun_rest(&run);
    expect_digits("pay,0,0", "001100000000000");
    task = graphrun_take(&run, "pay,0,0");
    assert_int_equal(task->tries, 2);
    assert_int_equal(graphrun_result(&run, lost, "{\"paid\":43}"), QP_E_STALE);
    assert_int_equal(graphrun_result(&run, task, "{\"paid\":42}"), QP_OK);
    assert_int_equal(graphrun_result(&run, lost, "{\"paid\":44}"), QP_E_STALE);
    assert_int_equal(graphrun_result(&run, task, "{\"paid\":45}"), QP_E_STALE);
    graphrun_forget(&run, lost);
    graphrun_forget(&run, task);
    graphrun_settle(&run);
    expect_digits("pay,0,0", "201100000000001 000011000000001");
    expect_paid();
}

static void test_P6_response_not_heard(void **state)
{
    (void)state;
    each(response_not_heard);
}

static void test_P6_response_lost(void **state)
{
    (void)state;
    each(response_lost);
}

/* ---------------------------------------------------------------------------------------- Leg2, steps */

/* Stepwise, so that the answer's steps are commits. */
static void killed_at_step(const char *digits)
{
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        struct task *task;
        begin(kind, true);
        start("crash.pay", "{\"amount\":42}");
        task = graphrun_take(&run, "pay,0,0");
        assert_int_equal(graphrun_result(&run, task, "{\"paid\":42}"), QP_OK);
        graphrun_until(&run, "j", "pay,0,0", digits);
        graphrun_kill(&run);
        assert_int_equal(graphrun_result(&run, task, "{\"paid\":43}"), QP_E_STALE);
        graphrun_forget(&run, task);
        graphrun_rest(&run);
        expect_digits("pay,0,0", "201100000000001 000011000000001");
        assert_true(
            str_equal(graphrun_act(&run, "j", "receipt,0,0,0")->input, QP_STR("{\"paid\":42}")));
        graphrun_settle(&run);
        expect_paid();
        assert_int_equal(graphrun_calls(&run, "do.receipt"), 1);
        end();
    }
}

static void test_P6_leg2_again_after_step_1(void **state)
{
    (void)state;
    killed_at_step("001100000000001 000010000000001");
}

static void test_P6_leg2_again_after_its_entry(void **state)
{
    (void)state;
    killed_at_step("001100000000001 000000000000001");
}

static void test_P6_leg2_again_after_step_2(void **state)
{
    (void)state;
    killed_at_step("201100000000001 000011000000001");
}

/* ------------------------------------------------------------------------------------------- inception */

static void incepted(void)
{
    assert_int_equal(graphrun_incept(&run, "crash.pay", "j", "{\"amount\":42}"), QP_OK);
    expect_digits("trigger,0", "101100000000001 000010000000000");
    graphrun_kill(&run);
    graphrun_rest(&run);
    expect_digits("pay,0,0", "");
    assert_int_equal(graphrun_start(&run, "crash.pay", "j", "{\"amount\":43}"), QP_E_CONFLICT);
    expect_digits("trigger,0", "101100000000001 000010000000000");
    assert_int_equal(graphrun_start(&run, "crash.pay", "j", "{\"amount\":42}"), QP_OK);
    expect_digits("trigger,0", "101100000000001 000011000000000");
    assert_int_equal(graphrun_job(&run, "j")->sem, 2);
    assert_int_equal(graphrun_start(&run, "crash.pay", "j", "{\"amount\":42}"), QP_E_EXISTS);
    graphrun_settle(&run);
    expect_paid();
    assert_int_equal(graphrun_calls(&run, "do.pay"), 1);
    assert_int_equal(graphrun_calls(&run, "do.ship"), 1);
}

static void test_P6_start_between_job_and_children(void **state)
{
    (void)state;
    each(incepted);
}

/* ----------------------------------------------------------------------------------------------- pivot */

/* What the loop has come to: nothing of it moves when a message of it comes again. */
static void expect_loop(const char *pivot, int64_t sem)
{
    graphrun_settle(&run);
    expect_digits("pivot,0,0", pivot);
    assert_int_equal(graphrun_calls(&run, "do.count"), 3);
    expect_digits("count,0,3,0", "");
    assert_int_equal(graphrun_job(&run, "j")->sem, sem);
}

static void pivot_again(void)
{
    echo_begin(&run, false);
    start("crash.loop", "{}");
    expect_loop("001100000000003 000011000000000 000011000000002 000011000000003", 1);
    echo_send(&run, MESSAGE_ENTER, "pivot,0,0");
    expect_loop("001100000000003 000011000000000 000011000000002 000011000000003", 1);
    echo_send(&run, MESSAGE_CYCLE, "pivot,0,0");
    expect_loop("001100000000003 000011000000000 000011000000002 000011000000003", 1);
    graphrun_wait(&run, 61000);
    graphrun_expect(&run, "j", "completed", "{\"counter\":3}");
    echo_send(&run, MESSAGE_ENTER, "pivot,0,0");
    echo_send(&run, MESSAGE_ENTER, "again,0,0,0,0");
    expect_loop("001100000000003 000011000000000 000011000000002 000011000000003", 0);
    assert_int_equal(graphrun_job(&run, "j")->completions, 1);
    assert_int_equal(echo_end(&run), 4);
}

static void test_P6_transition_to_a_pivot_again(void **state)
{
    (void)state;
    each_stepwise(pivot_again);
}

/* ----------------------------------------------------------------------------------------- ten entries */

/* The engine dies each time that it has entered `ship`, and before it has done anything for it. */
static void test_P6_ten_entries_of_one_leg1(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        begin(kind, true);
        assert_int_equal(graphrun_start(&run, "crash.pay", "j", "{\"amount\":42}"), QP_OK);
        for (int i = 1; i <= ENTRIES; i++) {
            char digits[32];
            (void)snprintf(digits, sizeof digits, "0%02d000000000000", i);
            graphrun_until(&run, "j", "ship,0,0", digits);
            if (i < ENTRIES) {
                graphrun_kill(&run);
            }
        }
        graphrun_rest(&run);
        expect_digits("ship,0,0", "010100000000000");
        graphrun_settle(&run);
        expect_digits("ship,0,0", "210100000000001 000011000000001");
        expect_paid();
        assert_int_equal(graphrun_calls(&run, "do.ship"), 1);
        end();
    }
}

/* ------------------------------------------------------------------------------------- stop and values */

/* A graph that is killed after its n-th commit, for all n; where a run takes long the check lane takes every fifth. */
static void killed_everywhere(const char *topic, const char *input, void (*expect)(void))
{
    for (int i = 0; i < 2 * storetest_kinds(); i++) {
        int64_t stride = i / 2 < STORETEST_SQLITE || testenv_is_torture() ? 1 : 5;
        bool killed = true;
        int64_t n = 1;
        for (; killed; n += stride) {
            assert_true(n < BOUNDARIES_MAX);
            begin(i / 2, i % 2 != 0);
            run.kill_at = run.commits + n;
            assert_int_equal(graphrun_start(&run, topic, "j", input), QP_OK);
            graphrun_settle(&run);
            expect();
            killed = run.kills > 0;
            end();
        }
        assert_true(n > 2);
    }
}

static void expect_stopped(void)
{
    graphrun_expect(&run, "j", "interrupted", "\"code\":418,\"message\":\"enough\"");
    assert_int_equal(graphrun_job(&run, "j")->completions, 1);
    assert_int_equal(graphrun_job(&run, "j")->sem, 0);
    assert_string_equal(graphrun_digits(&run, "j", "stop,0,0") + 3, "100000000000 000111100000000");
}

static void test_P6_self_interrupt_is_the_only_branch(void **state)
{
    (void)state;
    killed_everywhere("crash.stop", "{}", expect_stopped);
}

/* The job is closed by the interrupt, and the engine dies before it is completed. */
static void test_P6_self_interrupt_between_edge_and_end(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        begin(kind, true);
        assert_int_equal(graphrun_start(&run, "crash.stop", "j", "{}"), QP_OK);
        graphrun_until(&run, "j", "stop,0,0", "001100000000000 000111000000000");
        assert_int_equal(graphrun_job(&run, "j")->completions, 0);
        graphrun_kill(&run);
        graphrun_settle(&run);
        expect_stopped();
        end();
    }
}

static void expect_values(void)
{
    graphrun_expect(&run, "j", "completed",
                    "{\"path\":\"/tree\",\"empty\":\"\",\"told\":\"/tree\",\"nothing\":\"\"}");
    assert_true(str_equal(graphrun_act(&run, "j", "keep,0,0")->input,
                          QP_STR("{\"path\":\"/tree\",\"empty\":\"\"}")));
}

static void test_P6_values_survive(void **state)
{
    (void)state;
    killed_everywhere("crash.values", "{\"path\":\"/tree\",\"empty\":\"\"}", expect_values);
}

/* ----------------------------------------------------------------------------------------------- reuse */

static void id_again(void)
{
    struct task *old;
    int64_t number;
    start("crash.expire", "{\"order\":1}");
    number = graphrun_job(&run, "j")->job;
    old = graphrun_take(&run, "only,0,0");
    assert_int_equal(graphrun_result(&run, old, "{}"), QP_OK);
    graphrun_rest(&run);
    graphrun_expect(&run, "j", "completed", "{\"order\":1}");
    assert_int_equal(graphrun_start(&run, "crash.expire", "j", "{\"order\":2}"), QP_E_CONFLICT);
    graphrun_kill(&run);
    graphrun_wait(&run, 120000);
    assert_null(graphrun_job(&run, "j"));
    assert_int_equal(graphrun_start(&run, "crash.expire", "j", "{\"order\":2}"), QP_OK);
    graphrun_rest(&run);
    assert_int_not_equal(graphrun_job(&run, "j")->job, number);
    assert_int_equal(graphrun_result(&run, old, "{}"), QP_E_STALE);
    graphrun_forget(&run, old);
    expect_digits("only,0,0", "001100000000000");
    graphrun_settle(&run);
    graphrun_expect(&run, "j", "completed", "{\"order\":2}");
    expect_digits("only,0,0", "201100000000001 000111100000001");
    assert_int_equal(graphrun_calls(&run, "do.ship"), 2);
}

static void test_P6_id_again_after_expiry(void **state)
{
    (void)state;
    each(id_again);
}

/* ------------------------------------------------------------------------------------------- stale leg */

static int is_held(void *context, const void *row)
{
    const struct msg_row *m = row;
    bool *held = context;
    *held = *held || (m->state == MSG_HELD && str_equal(m->addr, QP_STR("stop,0,0")));
    return QP_OK;
}

/* Rounds until the engine holds the message of an activity, and has done nothing for it. */
static void until_held(void)
{
    struct scan scan = {.table = TABLE_msg, .index = -1, .limit = SIZE_MAX};
    struct qp_err err = {0};
    bool held = false;
    bool busy = true;
    assert_int_equal(store_scan(run.f.s, &scan, &held, is_held, &err), QP_OK);
    while (!held) {
        assert_true(busy);
        assert_int_equal(engine_round(run.e, &busy, &err), QP_OK);
        assert_int_equal(store_scan(run.f.s, &scan, &held, is_held, &err), QP_OK);
    }
}

static void stolen(void)
{
    struct engine *other;
    struct engine_options o = {.store = run.f.s, .name = "other", .faces = run.faces};
    struct qp_err err = {0};
    int64_t stale;
    assert_int_equal(graphrun_start(&run, "crash.stop", "j", "{}"), QP_OK);
    until_held();
    assert_int_equal(engine_open(&o, &other, &err), QP_OK);
    assert_int_equal(engine_settle(other, &err), QP_OK);
    assert_int_equal(engine_close(other, &err), QP_OK);
    expect_stopped();
    stale = engine_stats(run.e).stale;
    graphrun_rest(&run);
    assert_int_equal(engine_stats(run.e).stale, stale + 1);
    expect_stopped();
    graphrun_kill(&run); /* its run is over */
}

static void test_P6_stale_leg(void **state)
{
    (void)state;
    each_stepwise(stolen);
}

/* ------------------------------------------------------------------------------------------ everything */

/* Ledgers, results and calls are those of a run in which each came once; only the counts of entries may differ. In the
 * check lane, QP_SEED chooses every fifth case for the stores that take long. */
static void test_P6_every_message_comes_twice(void **state)
{
    uint64_t seed = testenv_seed();
    (void)state;
    for (int i = 0; i < 2 * storetest_kinds(); i++) {
        size_t stride = i / 2 < STORETEST_SQLITE || testenv_is_torture() ? 1 : 5;
        for (size_t k = (seed + (unsigned)i) % stride; k < graph_case_count; k += stride) {
            struct case_way way = {
                .kind = (enum storetest_kind)(i / 2), .stepwise = i % 2 != 0, .twice = true};
            struct case_end was = case_run(&graph_cases[k], &way);
            print_message("%s on %s%s: %lld again\n", graph_cases[k].name, storetest_name(way.kind),
                          way.stepwise ? ", stepwise" : "", (long long)was.again);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_P6_response_not_heard),
        cmocka_unit_test(test_P6_response_lost),
        cmocka_unit_test(test_P6_leg2_again_after_its_entry),
        cmocka_unit_test(test_P6_leg2_again_after_step_1),
        cmocka_unit_test(test_P6_leg2_again_after_step_2),
        cmocka_unit_test(test_P6_start_between_job_and_children),
        cmocka_unit_test(test_P6_transition_to_a_pivot_again),
        cmocka_unit_test(test_P6_ten_entries_of_one_leg1),
        cmocka_unit_test(test_P6_self_interrupt_is_the_only_branch),
        cmocka_unit_test(test_P6_self_interrupt_between_edge_and_end),
        cmocka_unit_test(test_P6_values_survive),
        cmocka_unit_test(test_P6_id_again_after_expiry),
        cmocka_unit_test(test_P6_stale_leg),
        cmocka_unit_test(test_P6_every_message_comes_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

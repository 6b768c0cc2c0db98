/* test_steps.c - what an activity is was decided when it was entered: time that passes and others that go on between two of
 * its steps, or a crash there, change nothing of it
 *
 * Stepwise, so that there is a commit after each step, and round by round, so that the tests say what happens between two.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "graph/action.h"
#include "support/graphrun.h"

#define ROUNDS 24 /* more than all of it takes */

static struct graphrun run;

static void work(struct graphcall *c)
{
    (void)c;
}

static void begin(const char *graph)
{
    run.stepwise = true;
    graphrun_init(&run, STORETEST_MEMORY, "do.first", work);
    graphrun_deploy(&run, graph);
}

static void round_once(void)
{
    struct qp_err err = {0};
    bool busy;
    assert_int_equal(engine_round(run.e, &busy, &err), QP_OK);
}

/* The time until which it sleeps is over when its timer is put: then it is due at once. */
static void test_sleep_until(void **state)
{
    char input[64];
    (void)state;
    begin("app:\n"
          "  id: steps\n"
          "  version: '1'\n"
          "  graphs:\n"
          "    - subscribes: until\n"
          "      activities:\n"
          "        t1: { type: trigger }\n"
          "        h1: { type: hook, sleep: { '@pipe': [{ '@pipe': [['{t1.output.data.until}']] }, "
          "{ '@pipe': [['{@date.now}']] }, ['{@math.subtract}', 1000], ['{@math.divide}']] } }\n"
          "      transitions: { t1: [{ to: h1 }] }\n");
    (void)snprintf(input, sizeof input, "{\"until\":%lld}", (long long)run.f.t.now_ms + 1000);
    assert_int_equal(graphrun_start(&run, "until", "j", input), QP_OK);
    for (int i = 0; i < ROUNDS; i++) {
        round_once();
        testenv_advance_ms(&run.f.t, 500);
    }
    graphrun_wait(&run, 10000);
    assert_non_null(graphrun_act(&run, "j", "h1,0,0"));
    graphrun_expect(&run, "j", "completed", NULL);
    graphrun_check(&run);
    graphrun_done(&run);
}

/* The hook's timer is due after so many rounds, the engine dies after others: how the worker was entered is how it ends. */
static enum act_kind threshold_once(int due, int kill)
{
    enum act_kind kind;
    begin(
        "app:\n"
        "  id: steps\n"
        "  version: '1'\n"
        "  graphs:\n"
        "    - subscribes: below\n"
        "      activities:\n"
        "        t1: { type: trigger }\n"
        "        h1: { type: hook, sleep: 1 }\n"
        "        w1: { type: worker, topic: do.first, statusThreshold: 1 }\n"
        "        x1: { type: hook }\n"
        "        n1: { type: hook, job: { maps: { went: true } } }\n"
        "      transitions: { t1: [{ to: x1 }, { to: h1 }], x1: [{ to: w1 }], w1: [{ to: n1 }] }\n");
    assert_int_equal(graphrun_start(&run, "below", "j", "{}"), QP_OK);
    for (int i = 0; i < ROUNDS && run.first == NULL; i++) {
        if (i == due) {
            testenv_advance_ms(&run.f.t, 1000);
        }
        if (i == kill) {
            graphrun_kill(&run);
        }
        round_once();
    }
    graphrun_wait(&run, 60000);
    assert_non_null(graphrun_act(&run, "j", "w1,0,0,0"));
    kind = (enum act_kind)graphrun_act(&run, "j", "w1,0,0,0")->kind;
    graphrun_expect(&run, "j", "completed", kind == ACT_USUAL ? "{\"went\":true}" : "{}");
    assert_int_equal(graphrun_calls(&run, "do.first") > 0, kind == ACT_USUAL);
    graphrun_check(&run);
    graphrun_done(&run);
    return kind;
}

static void test_threshold(void **state)
{
    int kinds[2] = {0};
    (void)state;
    for (int due = 0; due < ROUNDS; due++) {
        for (int kill = 0; kill < ROUNDS; kill++) {
            kinds[threshold_once(due, kill) == ACT_USUAL]++;
        }
    }
    assert_true(kinds[0] > 0 && kinds[1] > 0);
    print_message("entered %d, skipped %d\n", kinds[1], kinds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sleep_until),
                                       cmocka_unit_test(test_threshold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_fork.c - retry and fork of graphs' jobs: what has finished keeps its results and is not run again
 *
 * Undisturbed, and killed at every commit from the request to the end, on every store, fused and step by step: the result
 * is the same, a step that is kept is never run, fsck finds nothing. In memory all boundaries are tried; on other stores the
 * check lane takes a sample, the torture lane all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/graphrun.h"

static struct graphrun run;
static bool broken;       /* what fails, fails */
static int64_t calls[26]; /* by the first letter of the topic */

/* An order: it is paid for and packed at once, waits for a person in between, goes around twice, and is shipped. */
static const char order[] =
    "app:\n"
    "  id: orders\n"
    "  version: '1'\n"
    "  graphs:\n"
    "    - subscribes: order\n"
    "      input: { schema: { type: object, required: [price], properties: { price: { type: number } } } }\n"
    "      activities:\n"
    "        t: { type: trigger }\n"
    "        charge: { type: worker, topic: charge, input: { maps: { price: '{t.output.data.price}' } },\n"
    "          job: { maps: { paid: '{charge.output.data.n}' } } }\n"
    "        pack: { type: worker, topic: pack, job: { maps: { packed: '{pack.output.data.n}' } } }\n"
    "        ask: { type: hook, job: { maps: { said: '{ask.hook.data.said}' } } }\n"
    "        both: { type: hook }\n"
    "        round: { type: hook, cycle: true }\n"
    "        step: { type: worker, topic: step, job: { maps: { steps: '{step.output.data.n}' } } }\n"
    "        again: { type: cycle, ancestor: round }\n"
    "        tell: { type: signal, topic: told, signal: { maps: { n: 1 } } }\n"
    "        ship: { type: worker, topic: deliver, job: { maps: { shipped: '{ship.output.data.n}' } } }\n"
    "        late: { type: worker, topic: late, job: { maps: { late: '{late.output.data.n}' } } }\n"
    "      transitions:\n"
    "        t: [{ to: charge }, { to: pack }]\n"
    "        charge: [{ to: ask }]\n"
    "        ask: [{ to: both }]\n"
    "        pack: [{ to: both }]\n"
    "        both: [{ to: round }]\n"
    "        round: [{ to: step }]\n"
    "        step: [{ to: again, conditions: { code: 201 } }, { to: tell, conditions: { code: 200 } }]\n"
    "        tell: [{ to: ship }]\n"
    "        ship: [{ to: late, conditions: { code: 200 } }]\n"
    "      hooks:\n"
    "        ask.said: [{ to: ask, conditions: { match: [{ expected: '{$job.metadata.jid}', actual: "
    "'{$self.hook.data.id}' }] } }]\n";

static void work(struct graphcall *c)
{
    int64_t n = ++calls[c->topic.p[0] - 'a'];
    bool fails = broken && str_equal(c->topic, QP_STR("deliver"));
    if (fails) {
        c->kind = RESULT_ERROR;
        c->code = 500;
        (void)snprintf(c->output, sizeof c->output, "{\"message\":\"no van\"}");
        return;
    }
    c->code = str_equal(c->topic, QP_STR("step")) && n % 2 == 1 ? 201 : 200;
    (void)snprintf(c->output, sizeof c->output, "{\"n\":%lld}", (long long)n);
}

static int64_t called(const char *topic)
{
    return calls[topic[0] - 'a'];
}

static void say(const char *id)
{
    char payload[64];
    (void)snprintf(payload, sizeof payload, "{\"id\":\"%s\",\"said\":\"yes\"}", id);
    assert_int_equal(graphrun_signal(&run, "ask.said", payload, 200), QP_OK);
}

static void begin(enum storetest_kind kind, bool stepwise)
{
    memset(calls, 0, sizeof calls);
    broken = true;
    run.stepwise = stepwise;
    graphrun_init(&run, kind, "charge pack step deliver late", work);
    graphrun_deploy(&run, order);
}

static void finish(void)
{
    graphrun_check(&run);
    graphrun_done(&run);
}

/* An order that has failed at its shipping: everything before it was done, `step` twice. */
static void fail_order(const char *id)
{
    assert_int_equal(graphrun_start(&run, "order", id, "{\"price\":5}"), QP_OK);
    graphrun_settle(&run);
    say(id);
    graphrun_settle(&run);
    graphrun_expect(&run, id, "failed", NULL);
    broken = false;
}

#define DONE "{\"paid\":1,\"packed\":1,\"said\":\"yes\",\"steps\":2,\"shipped\":%d,\"late\":1}"

/* The retry of an order that failed at its shipping charges nobody again: it ships. */
static int64_t retry_once(enum storetest_kind kind, bool stepwise, int64_t kill_at)
{
    int64_t kills;
    begin(kind, stepwise);
    fail_order("j");
    run.kill_at = kill_at > 0 ? run.commits + kill_at : 0;
    assert_int_equal(
        graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = "r", .retries = true}),
        QP_OK);
    graphrun_settle(&run);
    kills = run.kills;
    assert_int_equal(called("charge"), 1);
    assert_int_equal(called("pack"), 1);
    assert_int_equal(called("step"), 2);
    assert_in_range(called("deliver"), 2, 2 + kills);
    graphrun_expect(&run, "r", "completed", NULL);
    finish();
    return kills;
}

static void test_retry(void **state)
{
    char output[160];
    (void)state;
    begin(STORETEST_MEMORY, false);
    fail_order("j");
    assert_int_equal(
        graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = "r", .retries = true}),
        QP_OK);
    graphrun_settle(&run);
    (void)snprintf(output, sizeof output, DONE, 2);
    graphrun_expect(&run, "r", "completed", output);
    assert_int_equal(called("charge"), 1);
    assert_int_equal(called("pack"), 1);
    assert_int_equal(called("late"), 1);
    /* It says so, and is not retried again; the same request again is the same retry. */
    assert_int_equal(
        graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = "r", .retries = true}),
        QP_E_EXISTS);
    assert_int_equal(
        graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = "r2", .retries = true}),
        QP_E_CONFLICT);
    assert_string_equal(run.refused,
                        "it was retried already, as 'r'; retry that one, or fork this");
    assert_int_equal(
        graphrun_fork(&run, &(struct graphrun_fork){.from = "r", .id = "r2", .retries = true}),
        QP_E_CONFLICT);
    assert_string_equal(run.refused,
                        "it has completed, so nothing of it is to be retried; fork it instead");
    finish();
}

/* A fork at each activity runs it and what comes after it, and nothing else. */
static void test_fork_at(void **state)
{
    static const struct {
        const char *at;
        int64_t charge, pack, step, deliver, late; /* calls in all */
        bool asks;
    } forks[] = {{"late", 1, 1, 2, 1, 2, false},     {"ship", 1, 1, 2, 2, 2, false},
                 {"tell", 1, 1, 2, 2, 2, false},     {"both", 1, 1, 4, 2, 2, false},
                 {"round", 1, 1, 4, 2, 2, false},    {"step", 1, 1, 4, 2, 2, false},
                 {"pack", 1, 2, 4, 2, 2, false},     {"ask", 1, 1, 4, 2, 2, true},
                 {"charge", 2, 1, 4, 2, 2, true},    {"t", 2, 2, 4, 2, 2, true},
                 {"trigger,0", 2, 2, 4, 2, 2, true}, {"charge,0,0", 2, 1, 4, 2, 2, true}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(forks); i++) {
        begin(STORETEST_MEMORY, i % 2 == 1);
        broken = false;
        assert_int_equal(graphrun_start(&run, "order", "j", "{\"price\":5}"), QP_OK);
        graphrun_settle(&run);
        say("j");
        graphrun_settle(&run);
        graphrun_expect(&run, "j", "completed", NULL);
        assert_int_equal(
            graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = "f", .at = forks[i].at}),
            QP_OK);
        graphrun_settle(&run);
        if (forks[i].asks) {
            graphrun_expect(&run, "f", "waiting", NULL);
            say("f");
            graphrun_settle(&run);
        }
        graphrun_expect(&run, "f", "completed", NULL);
        assert_int_equal(called("charge"), forks[i].charge);
        assert_int_equal(called("pack"), forks[i].pack);
        assert_int_equal(called("step"), forks[i].step);
        assert_int_equal(called("deliver"), forks[i].deliver);
        assert_int_equal(called("late"), forks[i].late);
        finish();
    }
}

/* What was open when the job was killed begins again; what had finished does not. */
static void test_open_begins_again(void **state)
{
    (void)state;
    begin(STORETEST_MEMORY, false);
    broken = false;
    assert_int_equal(graphrun_start(&run, "order", "j", "{\"price\":5}"), QP_OK);
    graphrun_settle(&run);
    assert_int_equal(graphrun_end(&run, "j", JOB_INTERRUPTED), QP_OK);
    graphrun_settle(&run);
    assert_int_equal(
        graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = "r", .retries = true}),
        QP_OK);
    graphrun_settle(&run);
    graphrun_expect(&run, "r", "waiting", NULL);
    assert_int_equal(called("charge"), 1);
    say("r");
    graphrun_settle(&run);
    graphrun_expect(&run, "r", "completed", NULL);
    assert_int_equal(called("charge"), 1);
    assert_int_equal(called("pack"), 1);
    finish();
}

static void refuse(const struct graphrun_fork *fork, int rc, const char *why)
{
    assert_int_equal(graphrun_fork(&run, fork), rc);
    assert_non_null(strstr(run.refused, why));
    assert_null(graphrun_job(&run, fork->id));
}

/* Each refusal says why, and nothing is written. The input is checked when it is asked for. */
static void test_refusals(void **state)
{
    (void)state;
    begin(STORETEST_MEMORY, false);
    fail_order("j");
    refuse(&(struct graphrun_fork){.from = "j", .id = "x", .at = "nothing"}, QP_E_NOT_FOUND,
           "at: the job has run no activity 'nothing'");
    refuse(&(struct graphrun_fork){.from = "j", .id = "x", .at = "late"}, QP_E_NOT_FOUND,
           "at: the job has run no activity 'late'");
    refuse(&(struct graphrun_fork){.from = "j", .id = "x", .input = "{\"price\":\"dear\"}"},
           QP_E_SHAPE, "price");
    refuse(&(struct graphrun_fork){.from = "j", .id = "x", .version = "7"}, QP_E_NOT_FOUND,
           "version: there is no 'orders/7'");
    finish();
}

/* Another version is chosen, and what has finished in the first keeps its results there. */
static void test_version(void **state)
{
    static char second[sizeof order];
    char *at;
    (void)state;
    begin(STORETEST_MEMORY, false);
    fail_order("j");
    memcpy(second, order, sizeof order);
    at = strstr(second, "version: '1'");
    assert_non_null(at);
    at[10] = '2';
    graphrun_deploy(&run, second);
    assert_int_equal(graphrun_fork(&run, &(struct graphrun_fork){.from = "j",
                                                                 .id = "r",
                                                                 .version = "2",
                                                                 .input = "{\"price\":7}",
                                                                 .retries = true}),
                     QP_OK);
    graphrun_settle(&run);
    graphrun_expect(&run, "r", "completed", NULL);
    assert_true(str_equal(graphrun_job(&run, "r")->version, QP_STR("orders/2")));
    assert_int_equal(called("charge"), 1);
    assert_int_equal(graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = "f"}), QP_OK);
    assert_true(str_equal(graphrun_job(&run, "f")->version, QP_STR("orders/1")));
    finish();
}

/* --------------------------------------------------------------------------------------- kills */

static void kill_everywhere(bool stepwise)
{
    static const int64_t strides[STORETEST_ALL] = {[STORETEST_MEMORY] = 1,
                                                   [STORETEST_MEMORY_ROWS] = 3,
                                                   [STORETEST_SQLITE] = 7,
                                                   [STORETEST_SQLITE_SMALL] = 11,
                                                   [STORETEST_POSTGRES] = 17};
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        int64_t stride = testenv_is_torture() ? 1 : strides[kind];
        int64_t kills = 0;
        for (int64_t at = 1; retry_once((enum storetest_kind)kind, stepwise, at) > 0;
             at += stride) {
            kills++;
        }
        print_message("%s%s: %lld kills\n", storetest_name((enum storetest_kind)kind),
                      stepwise ? ", stepwise" : "", (long long)kills);
        assert_true(kills > 0);
    }
}

static void test_killed(void **state)
{
    (void)state;
    kill_everywhere(false);
}

static void test_killed_stepwise(void **state)
{
    (void)state;
    kill_everywhere(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retry),
        cmocka_unit_test(test_fork_at),
        cmocka_unit_test(test_open_begins_again),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_killed_stepwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

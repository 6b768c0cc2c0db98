/* test_large.c - graphs that are deep, wide or endless, and a signal to thousands: they end as they must
 *
 * The texts are generated. Where a limit is met, the job fails with an error that says which: nothing is parked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/graphrun.h"

#define DEPTH 120
#define WIDTH 2000
#define SPREAD 100   /* keys of the job's data */
#define HEAVY 160    /* branches of 1.9 MB */
#define WAITING 3000 /* several pages of a signal to all */
#define LISTENING 60 /* one page, of 0.9 MB each */

static struct graphrun run;
static char text[1024 * 1024];
static size_t size;

static void work(struct graphcall *c)
{
    (void)c;
}

QP_PRINTF(1, 2) static void say(const char *format, ...)
{
    va_list arguments;
    int n;
    va_start(arguments, format);
    n = vsnprintf(text + size, sizeof text - size, format, arguments);
    va_end(arguments);
    assert_true(n >= 0 && (size_t)n < sizeof text - size);
    size += (size_t)n;
}

static void begin(enum storetest_kind kind)
{
    graphrun_init(&run, kind, "large.work", work);
    size = 0;
    say("app:\n  id: large\n  version: '1'\n  graphs:\n");
}

static void end(void)
{
    graphrun_check(&run);
    graphrun_done(&run);
}

static void start(const char *topic, const char *id, const char *input)
{
    assert_int_equal(graphrun_start(&run, topic, id, input), QP_OK);
    graphrun_settle(&run);
}

/* Every generation has a leaf beside the one that goes on; the last one reads what the trigger got. */
static void test_deep(void **state)
{
    char addr[LIMIT_ADDRESS_SIZE];
    int n;
    (void)state;
    begin(STORETEST_MEMORY);
    say("    - subscribes: deep\n      activities:\n        n0: { type: trigger }\n");
    for (int i = 1; i <= DEPTH; i++) {
        say("        n%d: { type: hook%s }\n        leaf%d: { type: hook }\n", i,
            i == DEPTH ? ", job: { maps: { x: '{n0.output.data.x}' } }" : "", i);
    }
    say("      transitions:\n");
    for (int i = 0; i < DEPTH; i++) {
        say("        n%d: [{ to: n%d }, { to: leaf%d }]\n", i, i + 1, i + 1);
    }
    graphrun_deploy(&run, text);
    start("deep", "j", "{\"x\":7}");
    graphrun_expect(&run, "j", "completed", "{\"x\":7}");
    n = snprintf(addr, sizeof addr, "leaf%d", DEPTH);
    for (int i = 0; i <= DEPTH; i++) {
        n += snprintf(addr + n, sizeof addr - (size_t)n, ",0");
    }
    assert_non_null(graphrun_act(&run, "j", addr));
    end();
}

static void wide_on(enum storetest_kind kind)
{
    begin(kind);
    say("    - subscribes: wide\n      activities:\n        t: { type: trigger }\n");
    for (int i = 0; i < WIDTH; i++) {
        say("        b%d: { type: hook }\n", i);
    }
    say("        all: { type: hook, job: { maps: { n: { '@pipe': [{ '@pipe': [['{$job.data.n}', 0], "
        "['{@conditional.nullish}']] }, { '@pipe': [[1]] }, ['{@math.add}']] } } } }\n"
        "      transitions:\n        t:\n");
    for (int i = 0; i < WIDTH; i++) {
        say("          - { to: b%d }\n", i);
    }
    for (int i = 0; i < WIDTH; i++) {
        say("        b%d: [{ to: all }]\n", i);
    }
    graphrun_deploy(&run, text);
    start("wide", "j", "{}");
    graphrun_wait(&run, 10000);
    graphrun_expect(&run, "j", "completed", "{\"n\":1}");
    end();
}

static void test_wide(void **state)
{
    (void)state;
    wide_on(STORETEST_MEMORY);
    wide_on(STORETEST_SQLITE);
}

static void say_keys(int count)
{
    for (int i = 0; i < count; i++) {
        say("              k%d: '{t1.output.data.x}'\n", i);
    }
}

/* As many keys as an object may have: in the job's data, and in what an activity makes of its answer. Where each would
 * be searched among all, and all copied for each, this takes minutes, and more memory than there is. */
static void test_keys(void **state)
{
    (void)state;
    begin(STORETEST_MEMORY);
    say("    - subscribes: keys\n"
        "      activities:\n"
        "        t1: { type: trigger }\n"
        "        w1:\n"
        "          type: worker\n"
        "          topic: large.work\n"
        "          output:\n"
        "            maps:\n");
    say_keys(LIMIT_JSON_KEYS);
    say("          job:\n"
        "            maps:\n");
    say_keys(LIMIT_JSON_KEYS);
    say("      transitions: { t1: [{ to: w1 }] }\n");
    graphrun_deploy(&run, text);
    start("keys", "j", "{\"x\":1}");
    size = 0;
    for (int i = 0; i < LIMIT_JSON_KEYS; i++) {
        say("%s\"k%d\":1", i == 0 ? "{" : ",", i);
    }
    say("}");
    graphrun_expect(&run, "j", "completed", text);
    end();
}

/* Many branches with much each: more than one bundle takes, and all of them more than one commit. */
static void test_heavy(void **state)
{
    (void)state;
    begin(STORETEST_MEMORY);
    say("    - subscribes: heavy\n      activities:\n        t: { type: trigger, output: { maps: { x: { "
        "'@pipe': [[x, 950000], ['{@string.repeat}']] } } } }\n");
    for (int i = 0; i < HEAVY; i++) {
        say("        b%d: { type: hook, input: { maps: { x: '{t.output.data.x}', y: "
            "'{t.output.data.x}' } } }\n",
            i);
    }
    say("      transitions:\n        t:\n");
    for (int i = 0; i < HEAVY; i++) {
        say("          - { to: b%d }\n", i);
    }
    graphrun_deploy(&run, text);
    start("heavy", "j", "{}");
    graphrun_expect(&run, "j", "completed", NULL);
    assert_int_equal(graphrun_act(&run, "j", "b0,0,0")->input.n,
                     graphrun_act(&run, "j", "b1,0,0")->input.n);
    end();
}

/* Those of the colour hear of it, the others do not; a colour that is undefined is nobody's. `word` is a mapping. */
static void tell_all(int waiting, const char *word, const char *output)
{
    begin(STORETEST_MEMORY);
    say("    - subscribes: waits\n"
        "      activities:\n"
        "        t1: { type: trigger, stats: { measures: [{ measure: index, target: "
        "'{$self.output.data.color}' }] } }\n"
        "        h1: { type: hook, job: { maps: { told: '{$self.hook.data.word}' } } }\n"
        "      transitions: { t1: [{ to: h1 }] }\n"
        "      hooks: { tell: [{ to: h1, conditions: { match: [{ expected: "
        "'{$job.metadata.jid}', actual: '{$self.hook.data.id}' }] } }] }\n"
        "    - subscribes: tells\n"
        "      activities:\n"
        "        t2: { type: trigger }\n"
        "        s2: { type: signal, subtype: all, topic: tell, key_name: color, key_value: red, "
        "signal: { maps: { word: %s } } }\n"
        "      transitions: { t2: [{ to: s2 }] }\n"
        "    - subscribes: tells_nobody\n"
        "      activities:\n"
        "        t3: { type: trigger }\n"
        "        s3: { type: signal, subtype: all, topic: tell, key_name: '{t3.output.data.name}', "
        "key_value: '{t3.output.data.value}', signal: { maps: { word: wrong } } }\n"
        "      transitions: { t3: [{ to: s3 }] }\n",
        word);
    graphrun_deploy(&run, text);
    for (int i = 0; i <= waiting; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "w%d", i);
        start("waits", id, i < waiting ? "{\"color\":\"red\"}" : "{\"color\":\"blue\"}");
    }
    start("tells_nobody", "no name", "{\"value\":\"red\"}");
    start("tells_nobody", "no value", "{\"name\":\"color\"}");
    graphrun_wait(&run, 5000);
    graphrun_expect(&run, "no name", "failed", "undefined");
    graphrun_expect(&run, "no value", "failed", "undefined");
    start("tells", "teller", "{}");
    graphrun_wait(&run, 5000);
    graphrun_expect(&run, "teller", "completed", NULL);
    for (int i = 0; i <= waiting; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "w%d", i);
        graphrun_expect(&run, id, i < waiting ? "completed" : "waiting",
                        i < waiting ? output : NULL);
    }
    end();
}

static void test_signal_all(void **state)
{
    (void)state;
    tell_all(WAITING, "go", "{\"told\":\"go\"}");
}

/* A page of those who wait, each with the whole of it, would not fit into one commit. */
static void test_signal_all_large(void **state)
{
    (void)state;
    tell_all(LISTENING, "{ '@pipe': [[x, 900000], ['{@string.repeat}']] }", NULL);
}

/* What a limit ends says which; the job has failed, and is not parked. */
static void test_limits(void **state)
{
    (void)state;
    begin(STORETEST_MEMORY);
    say("    - subscribes: endless\n"
        "      activities:\n"
        "        t1: { type: trigger }\n"
        "        p1: { type: hook, cycle: true }\n"
        "        c1: { type: cycle, ancestor: p1 }\n"
        "      transitions: { t1: [{ to: p1 }], p1: [{ to: c1 }] }\n"
        "    - subscribes: huge\n"
        "      activities:\n"
        "        t2: { type: trigger }\n"
        "        h2: { type: hook, job: { maps: { x: { '@pipe': [[x, 9000000], "
        "['{@string.repeat}']] } } } }\n"
        "      transitions: { t2: [{ to: h2 }] }\n"
        "    - subscribes: passed\n"
        "      activities:\n"
        "        t4: { type: trigger }\n"
        "        h4: { type: hook, output: { maps: { x: { '@pipe': [[x, 9000000], "
        "['{@string.repeat}']] } } } }\n"
        "        after4: { type: hook }\n"
        "      transitions: { t4: [{ to: h4 }], h4: [{ to: after4, conditions: { code: 200 } }] }\n"
        "    - subscribes: many\n"
        "      activities:\n"
        "        t3: { type: trigger }\n");
    for (int i = 0; i < 9; i++) {
        say("        m%d: { type: hook, job: { maps: { x%d: { '@pipe': [[x, 1000000], "
            "['{@string.repeat}']] } } } }\n",
            i, i);
    }
    say("      transitions:\n        t3: [{ to: m0 }]\n");
    for (int i = 0; i < 8; i++) {
        say("        m%d: [{ to: m%d }]\n", i, i + 1);
    }
    say("    - subscribes: spread\n"
        "      activities:\n"
        "        t5: { type: trigger }\n");
    for (int i = 0; i < SPREAD;
         i++) { /* few of each shelf's keys are large, all of them are too much */
        say("        s%d: { type: hook, job: { maps: { y%d: %s } } }\n", i, i,
            i % 10 == 0 ? "{ '@pipe': [[x, 1000000], ['{@string.repeat}']] }" : "small");
    }
    say("      transitions:\n        t5: [{ to: s0 }]\n");
    for (int i = 0; i < SPREAD - 1; i++) {
        say("        s%d: [{ to: s%d, conditions: { code: 200 } }]\n", i, i + 1);
    }
    graphrun_deploy(&run, text);
    start("huge", "huge", "{}");
    graphrun_expect(&run, "huge", "failed", "\"code\":422");
    start("passed", "passed", "{}");
    graphrun_expect(&run, "passed", "failed", "LIMIT_JSON_STRING_SIZE");
    start("many", "many", "{}");
    graphrun_expect(&run, "many", "failed", "\"code\":422");
    start("spread", "spread", "{}");
    graphrun_wait(&run, 3600 * 1000);
    graphrun_expect(&run, "spread", "failed", "\"code\":422");
    start("endless", "endless", "{}");
    graphrun_expect(&run, "endless", "failed", "LIMIT_CYCLES");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_deep),
                                       cmocka_unit_test(test_wide),
                                       cmocka_unit_test(test_heavy),
                                       cmocka_unit_test(test_signal_all),
                                       cmocka_unit_test(test_signal_all_large),
                                       cmocka_unit_test(test_keys),
                                       cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

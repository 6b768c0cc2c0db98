/* test_whole_input.c - an input that is one reference: all of an object, as it is */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "graph/action.h"
#include "support/graphrun.h"

static struct graphrun run;
static char got[256];

static void work(struct graphcall *c)
{
    assert_true(c->input.n < sizeof got);
    memcpy(got, c->input.p == NULL ? "" : c->input.p, c->input.n);
    got[c->input.n] = '\0';
}

static void play(const char *reference, const char *input, const char *expected)
{
    static const enum storetest_kind kinds[] = {STORETEST_MEMORY, STORETEST_SQLITE};
    char graph[1024];
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        for (int stepwise = 0; stepwise < 2; stepwise++) {
            (void)snprintf(graph, sizeof graph,
                           "app:\n"
                           "  id: whole\n"
                           "  version: '1'\n"
                           "  graphs:\n"
                           "    - subscribes: all\n"
                           "      activities:\n"
                           "        t1: { type: trigger }\n"
                           "        w1: { type: worker, topic: do.first, input: { maps: '%s' } }\n"
                           "      transitions: { t1: [{ to: w1 }] }\n",
                           reference);
            run.stepwise = stepwise == 1;
            graphrun_init(&run, kinds[i], "do.first", work);
            graphrun_deploy(&run, graph);
            got[0] = '\0';
            assert_int_equal(graphrun_start(&run, "all", "j", input), QP_OK);
            graphrun_wait(&run, 10000);
            assert_string_equal(got, expected);
            graphrun_expect(&run, "j", "completed", NULL);
            graphrun_check(&run);
            graphrun_done(&run);
        }
    }
}

/* All of it goes to the worker, byte by byte: names, order and numbers as they came. */
static void test_all_of_it(void **state)
{
    (void)state;
    play("{t1.output.data}", "{\"b\": 1.10,\"a\":{\"c\":[null,\"x\"]}}",
         "{\"b\": 1.10,\"a\":{\"c\":[null,\"x\"]}}");
}

/* A part of it; what is no object goes as it is, too. */
static void test_a_part(void **state)
{
    (void)state;
    play("{t1.output.data.a}", "{\"a\":{\"c\":2}}", "{\"c\":2}");
    play("{t1.output.data.a}", "{\"a\":[1,2]}", "[1,2]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_of_it),
        cmocka_unit_test(test_a_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

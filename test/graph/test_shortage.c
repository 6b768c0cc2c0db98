/* test_shortage.c - memory runs out at the n-th allocation while a graph runs: nothing of it is seen in what comes of it
 *
 * The graphs need no worker: cycles in cycles, joins, a branch that is skipped, a hook whose time is over. n goes on until
 * nothing is refused. After a refusal the engine goes on, or its process ends and another begins, by turns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/graphrun.h"

#define ALLOCATIONS_MAX 1000000
#define ROUNDS_MAX 100000
#define SLEEP_MS 2000 /* the hook's time is over by then */

static struct graphrun run;

static void work(struct graphcall *c)
{
    (void)c;
}

/* Rounds until there is nothing to do, or no memory. */
static bool run_short(int64_t n)
{
    bool busy = true;
    bool refused;
    testenv_fail_at(&run.f.t, n);
    for (int i = 0; busy && !testenv_failed(&run.f.t); i++) {
        struct qp_err err = {0};
        int rc = engine_round(run.e, &busy, &err);
        assert_true(i < ROUNDS_MAX);
        assert_true(rc == QP_OK || rc == QP_E_NOMEM);
    }
    refused = testenv_failed(&run.f.t);
    testenv_fail_at(&run.f.t, 0);
    return refused;
}

static bool refuse_one(const char *graph, const char *topic, const char *output,
                       enum storetest_kind kind, int64_t n)
{
    bool refused;
    graphrun_init(&run, kind, "none", work);
    graphrun_deploy_vector(&run, graph);
    assert_int_equal(graphrun_start(&run, topic, "j", "{\"timeout\":1,\"key\":\"k\"}"), QP_OK);
    testenv_advance_ms(&run.f.t, SLEEP_MS);
    refused = run_short(n);
    if (refused && n % 2 == 0) {
        graphrun_kill(&run);
    }
    graphrun_wait(&run, 60000);
    graphrun_expect(&run, "j", "completed", output);
    graphrun_check(&run);
    graphrun_done(&run);
    return refused;
}

static void refuse_all(const char *graph, const char *topic, const char *output)
{
    static const struct {
        enum storetest_kind kind;
        bool stepwise;
    } ways[] = {{STORETEST_MEMORY, false}, {STORETEST_MEMORY, true}, {STORETEST_SQLITE, false}};
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        int64_t n = 1;
        run.stepwise = ways[i].stepwise;
        while (refuse_one(graph, topic, output, ways[i].kind, n)) {
            assert_true(n < ALLOCATIONS_MAX);
            n++;
        }
        assert_true(n > 1);
        print_message("%s on %s%s: %lld refused\n", topic, storetest_name((int)ways[i].kind),
                      ways[i].stepwise ? ", stepwise" : "", (long long)n - 1);
    }
}

static void test_cycles(void **state)
{
    (void)state;
    refuse_all("rounds", "rounds.nested", "{\"total\":102}");
}

static void test_joins(void **state)
{
    (void)state;
    refuse_all("shapes", "shape.skipped", "{\"joined\":true}");
}

static void test_hooks(void **state)
{
    (void)state;
    refuse_all("shapes", "shape.timed", "{}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cycles), cmocka_unit_test(test_joins),
                                       cmocka_unit_test(test_hooks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

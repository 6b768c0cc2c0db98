/* test_faults.c - a statement of the store fails while a graph runs: nothing of it is seen in what comes of it
 *
 * For each type of activity (cases.h) one job, with a failure at the n-th failpoint that is passed, for all n until a run passes
 * fewer: before an op, at a row's write, before and after the commit, and between commit and answer. Then the engine goes on if
 * it can, and in another run it dies; clients and workers ask again what they were not told. Result, calls and digits are as undisturbed, and a
 * check finds nothing.
 *
 * The check lane takes every so manyth n in memory, and single ones on other stores, as QP_SEED chooses; torture takes all, and
 * every seventh with a small cache and on PostgreSQL.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cases.h"

#define POINTS_MAX 100000
#define RUNS_MAX 1000
#define STRIDE 97       /* of the check lane, in memory */
#define STRIDE_SLOW 7   /* of the torture lane, where a run takes long */
#define SHOT_POINTS 150 /* among which a single failure is chosen: some cases pass fewer */

/* How many failures there are in the check lane on the other stores. */
static const int shots[STORETEST_ALL] = {[STORETEST_MEMORY_ROWS] = 15,
                                         [STORETEST_SQLITE] = 10,
                                         [STORETEST_SQLITE_SMALL] = 3,
                                         [STORETEST_POSTGRES] = 3};

static void fail_everywhere(const struct graph_case *c, struct case_way *way, uint64_t *random)
{
    int64_t stride = !testenv_is_torture()                ? STRIDE
                     : way->kind < STORETEST_SQLITE_SMALL ? 1
                                                          : STRIDE_SLOW;
    int64_t failures = 0;
    way->fail_at = 1 + (int64_t)testenv_random_below(random, (uint64_t)stride);
    while (!case_run(c, way).disturbed) { /* a case that passes fewer points than that */
        assert_true(way->fail_at > 1);
        way->fail_at = (way->fail_at + 1) / 2;
    }
    do {
        assert_true(way->fail_at < POINTS_MAX);
        failures++;
        way->fail_at += stride;
    } while (case_run(c, way).disturbed);
    print_message("%s on %s%s%s: %lld failures\n", c->name, storetest_name(way->kind),
                  way->stepwise ? ", stepwise" : "", way->dies ? ", dies" : "",
                  (long long)failures);
}

/* All cases, fused and stepwise, and the engine goes on or dies. */
static void all_ways(int kind, uint64_t *random)
{
    for (size_t i = 0; i < 4 * graph_case_count; i++) {
        struct case_way way = {
            .kind = (enum storetest_kind)kind, .stepwise = i % 4 / 2 != 0, .dies = i % 2 != 0};
        if (case_is_of_type(&graph_cases[i / 4])) {
            fail_everywhere(&graph_cases[i / 4], &way, random);
        }
    }
}

static bool shoot(int kind, uint64_t *random)
{
    struct case_way way = {.kind = (enum storetest_kind)kind,
                           .stepwise = testenv_random_below(random, 2) != 0,
                           .dies = testenv_random_below(random, 2) != 0,
                           .fail_at = 1 + (int64_t)testenv_random_below(random, SHOT_POINTS)};
    size_t i;
    do {
        i = testenv_random_below(random, graph_case_count);
    } while (!case_is_of_type(&graph_cases[i]));
    return case_run(&graph_cases[i], &way).disturbed;
}

static void some_ways(int kind, uint64_t *random)
{
    int runs = 0;
    for (int failures = 0; failures < shots[kind]; runs++) {
        assert_true(runs < RUNS_MAX);
        failures += shoot(kind, random);
    }
    print_message("%s: %d failures in %d runs\n", storetest_name(kind), shots[kind], runs);
}

static void test_faults(void **state)
{
    uint64_t random = testenv_seed();
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        if (kind == STORETEST_MEMORY || testenv_is_torture()) {
            all_ways(kind, &random);
        } else {
            some_ways(kind, &random);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

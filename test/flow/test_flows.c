/* test_flows.c - flows on every store: undisturbed, and killed at every commit boundary; what a step costs
 *
 * In memory all boundaries are tried; on other stores, and for the large flows, the check lane takes a sample of them, the
 * torture lane all. QP_SEED chooses the sample.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "flowcases.h"

#define BOUNDARIES_MAX 100000

/* Commits that a run took undisturbed, in memory. */
static int64_t boundaries[2][64];

/* Of the large ones in the short lane a sample: on disk a single boundary. */
static int64_t stride_of(const struct flow_case *c, const struct flow_way *way, int64_t count)
{
    static const int64_t strides[STORETEST_ALL] = {[STORETEST_MEMORY] = 1,
                                                   [STORETEST_MEMORY_ROWS] = 7,
                                                   [STORETEST_SQLITE] = 19,
                                                   [STORETEST_SQLITE_SMALL] = 53,
                                                   [STORETEST_POSTGRES] = 97};
    int64_t stride = strides[way->kind] * (testenv_is_sanitized() ? 7 : 1);
    if (testenv_is_torture()) {
        return 1;
    }
    if (!c->large) {
        return way->stepwise && way->kind != STORETEST_MEMORY ? 3 * stride : stride;
    }
    return way->kind == STORETEST_MEMORY && !testenv_is_sanitized() ? 20 + count / 100 : count;
}

static void kill_everywhere(const struct flow_case *c, struct flow_way *way, int64_t count,
                            uint64_t *random)
{
    int64_t stride = stride_of(c, way, count);
    int64_t kills = 0;
    way->kill_at = 1 + (int64_t)testenv_random_below(random, (uint64_t)stride);
    while (flow_run(c, way).disturbed) {
        assert_true(way->kill_at < BOUNDARIES_MAX);
        kills++;
        way->kill_at += stride;
        if (stride == count) {
            break;
        }
    }
    print_message("%s on %s%s: %lld kills\n", c->name, storetest_name(way->kind),
                  way->stepwise ? ", stepwise" : "", (long long)kills);
}

static void run_all(bool stepwise)
{
    uint64_t random = testenv_seed();
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (size_t i = 0; i < flow_case_count; i++) {
            struct flow_way way = {.kind = (enum storetest_kind)kind, .stepwise = stepwise};
            kill_everywhere(&flow_cases[i], &way, boundaries[stepwise][i], &random);
        }
    }
}

/* Undisturbed, in memory: the outputs are right before anything is killed. */
static void test_undisturbed(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * flow_case_count; i++) {
        struct flow_way way = {.kind = STORETEST_MEMORY, .stepwise = i % 2 == 1};
        struct flow_end end = flow_run(&flow_cases[i / 2], &way);
        boundaries[i % 2][i / 2] = end.commits;
        print_message("%s%s: %lld commits, %lld rows, %lld decisions\n", flow_cases[i / 2].name,
                      way.stepwise ? ", stepwise" : "", (long long)end.commits, (long long)end.rows,
                      (long long)end.decisions);
    }
}

static void test_killed(void **state)
{
    (void)state;
    run_all(false);
}

static void test_killed_stepwise(void **state)
{
    (void)state;
    run_all(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_undisturbed),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_killed_stepwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_kills.c - every case, killed at every commit boundary: result, effects and digits as undisturbed, fsck clean
 *
 * In memory all boundaries are tried; on other stores the check lane takes a sample of them, the torture lane all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cases.h"

#define BOUNDARIES_MAX 100000

/* Primes, so that the sample of each case is another one. */
static int64_t stride_of(int kind)
{
    static const int64_t strides[STORETEST_ALL] = {[STORETEST_MEMORY] = 1,
                                                   [STORETEST_MEMORY_ROWS] = 7,
                                                   [STORETEST_SQLITE] = 19,
                                                   [STORETEST_SQLITE_SMALL] = 101,
                                                   [STORETEST_POSTGRES] = 101};
    return lane_is_torture() ? 1 : strides[kind];
}

static void kill_everywhere(const struct graph_case *c, int kind, bool stepwise)
{
    int64_t stride = stride_of(kind);
    int64_t kills = 0;
    struct case_way way = {.kind = (enum storetest_kind)kind, .stepwise = stepwise, .kill_at = 1};
    while (case_run(c, &way).disturbed) {
        assert_true(way.kill_at < BOUNDARIES_MAX);
        kills++;
        way.kill_at += stride;
    }
    print_message("%s on %s%s: %lld kills\n", c->name, storetest_name(kind),
                  stepwise ? ", stepwise" : "", (long long)kills);
}

static void run_all(bool stepwise)
{
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (size_t i = 0; i < graph_case_count; i++) {
            kill_everywhere(&graph_cases[i], kind, stepwise);
        }
    }
}

static void test_fused(void **state)
{
    (void)state;
    run_all(false);
}

static void test_stepwise(void **state)
{
    (void)state;
    run_all(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fused),
                                       cmocka_unit_test(test_stepwise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

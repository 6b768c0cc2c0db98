/* test_kills.c - every case, killed at every commit boundary: result, effects and digits as undisturbed, fsck clean
 *
 * In memory all boundaries are tried, in the check lane of the cases of one type each, and every fifth of the others; on
 * other stores the check lane takes a sample of them, the torture lane all.
 *
 * With a sanitizer, which looks for errors of memory and finds them in a sample, too, the check lane takes all boundaries of
 * the small cases in memory, and so all types and all kinds of boundaries; of the others it takes every so manyth, and on other
 * stores one boundary per small case, as QP_SEED chooses.
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
#define STRIDE_SANITIZED 53
#define SHOT_BOUNDARIES 6 /* among which the first kill is chosen */

/* Primes, so that the sample of each case is another one. */
static int64_t stride_of(const struct graph_case *c, int kind)
{
    static const int64_t strides[STORETEST_ALL] = {[STORETEST_MEMORY] = 5,
                                                   [STORETEST_MEMORY_ROWS] = 7,
                                                   [STORETEST_SQLITE] = 43,
                                                   [STORETEST_SQLITE_SMALL] = 101,
                                                   [STORETEST_POSTGRES] = 397};
    bool all = testenv_is_torture() || (kind == STORETEST_MEMORY && case_is_of_type(c));
    return all ? 1 : strides[kind];
}

static void kill_everywhere(const struct graph_case *c, struct case_way *way, int64_t stride)
{
    int64_t kills = 0;
    while (case_run(c, way).disturbed) {
        assert_true(way->kill_at < BOUNDARIES_MAX);
        kills++;
        way->kill_at += stride;
    }
    print_message("%s on %s%s: %lld kills\n", c->name, storetest_name(way->kind),
                  way->stepwise ? ", stepwise" : "", (long long)kills);
}

static int64_t random_boundary(uint64_t *random, int64_t count)
{
    return 1 + (int64_t)testenv_random_below(random, (uint64_t)count);
}

/* What a sanitizer gets to see of one case. */
static void kill_sample(const struct graph_case *c, struct case_way *way, uint64_t *random)
{
    if (way->kind == STORETEST_MEMORY && case_is_of_type(c)) {
        kill_everywhere(c, way, 1);
    } else if (way->kind == STORETEST_MEMORY) {
        way->kill_at = random_boundary(random, STRIDE_SANITIZED);
        kill_everywhere(c, way, STRIDE_SANITIZED);
    } else if (case_is_of_type(c)) {
        way->kill_at = random_boundary(random, SHOT_BOUNDARIES);
        (void)case_run(c, way); /* it asserts what it must come to, killed or not */
    }
}

/* Step by step a server takes long: of the cases that are not of a type it gets some in the short lane. */
static bool is_left_out(const struct graph_case *c, const struct case_way *way, uint64_t *random)
{
    return way->kind == STORETEST_POSTGRES && way->stepwise && !testenv_is_torture() &&
           !case_is_of_type(c) && testenv_random_below(random, 3) > 0;
}

static void run_all(bool stepwise)
{
    bool sample = testenv_is_sanitized() && !testenv_is_torture();
    uint64_t random = testenv_seed();
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (size_t i = 0; i < graph_case_count; i++) {
            struct case_way way = {
                .kind = (enum storetest_kind)kind, .stepwise = stepwise, .kill_at = 1};
            if (sample) {
                kill_sample(&graph_cases[i], &way, &random);
            } else if (!is_left_out(&graph_cases[i], &way, &random)) {
                int64_t stride = stride_of(&graph_cases[i], kind);
                way.kill_at =
                    random_boundary(&random, stride < SHOT_BOUNDARIES ? stride : SHOT_BOUNDARIES);
                kill_everywhere(&graph_cases[i], &way, stride);
            }
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

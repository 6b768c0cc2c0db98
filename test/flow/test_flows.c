/* test_flows.c - flows on every store: undisturbed, and killed at every commit boundary
 *
 * Each boundary is killed at alone; in the short lane, which does so in memory, one in twenty. Where that takes too long, one
 * run is killed at every twentieth boundary, and twenty such runs take all of them: the torture lane does so with the large
 * flows; the short lane has one run, of every flow on disk and of the large ones in memory. Two thousand commands step by step
 * have 12,000 boundaries, and so have they when the engine has died over them: the short lane takes five of them. QP_SEED
 * chooses which.
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

#define RUNS 20 /* so many runs take all boundaries */
#define EVERY 20
#define EVERY_HUGE 2480 /* in the short lane */
#define ALONE 20        /* likewise */

/* What one lane does with a flow. */
struct plan {
    int64_t alone; /* > 0: every so many boundaries are killed at, each alone */
    int64_t runs;  /* else so many runs, each killed at every so many boundaries */
    int64_t every;
};

static struct plan plan_of(const struct flow_case *c, const struct flow_way *way)
{
    static const int64_t strides[STORETEST_ALL] = {
        [STORETEST_MEMORY] = ALONE, [STORETEST_MEMORY_ROWS] = ALONE};
    int64_t alone = strides[way->kind];
    bool whole = testenv_is_torture();
    if (c->large || (alone == 0 && !whole)) {
        return (struct plan){.runs = whole ? RUNS : 1,
                             .every = c->huge && !whole ? EVERY_HUGE : EVERY};
    }
    return (struct plan){.alone = whole ? 1 : alone};
}

/* Each alone, until one comes too late. */
static int64_t kill_alone(const struct flow_case *c, struct flow_way *way, int64_t stride,
                          uint64_t *random)
{
    int64_t kills = 0;
    way->kill_at = 1 + (int64_t)testenv_random_below(random, (uint64_t)stride);
    while (flow_run(c, way).kills > 0) {
        assert_true(way->kill_at < BOUNDARIES_MAX);
        kills++;
        way->kill_at += stride;
    }
    return kills;
}

static int64_t kill_often(const struct flow_case *c, struct flow_way *way, const struct plan *plan,
                          uint64_t *random)
{
    int64_t among = way->stepwise ? plan->every : EVERY; /* a fused run has few boundaries */
    int64_t first = (int64_t)testenv_random_below(random, (uint64_t)among);
    int64_t kills = 0;
    way->kill_every = plan->every;
    for (int64_t i = 0; i < plan->runs; i++) {
        way->kill_at = 1 + (first + i * (plan->every / RUNS)) % plan->every;
        kills += flow_run(c, way).kills;
    }
    return kills;
}

static void kill_everywhere(const struct flow_case *c, struct flow_way *way, uint64_t *random)
{
    struct plan plan = plan_of(c, way);
    int64_t kills =
        plan.alone > 0 ? kill_alone(c, way, plan.alone, random) : kill_often(c, way, &plan, random);
    print_message("%s on %s%s: %lld kills\n", c->name, storetest_name(way->kind),
                  way->stepwise ? ", stepwise" : "", (long long)kills);
}

static void run_all(bool stepwise)
{
    uint64_t random = testenv_seed();
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (size_t i = 0; i < flow_case_count; i++) {
            struct flow_way way = {.kind = (enum storetest_kind)kind, .stepwise = stepwise};
            kill_everywhere(&flow_cases[i], &way, &random);
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

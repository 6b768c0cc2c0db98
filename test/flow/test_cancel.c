/* test_cancel.c - flows that are asked to end: at every commit, and killed there
 *
 * Every flow of flowcases.c is cancelled behind each of its commits, one run for each: it ends cancelled, with each of its two
 * compensations once and in reverse, or as it would have ended, when that was first. Then the engine is killed behind every
 * commit of such a run, too. The short lane takes some of them, in memory; the torture lane all, on every store. QP_SEED
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

#define COMMITS_MAX 100000

/* How many runs end as what, of one flow. */
struct tally {
    int64_t cancelled;
    int64_t others;
};

/* Two thousand commands step by step have 12,000 commits. */
static int64_t stride_of(const struct flow_case *c, bool stepwise)
{
    if (c->huge) {
        return stepwise ? 1201 : 3;
    }
    return testenv_is_torture() ? 1 : c->large ? 23 : testenv_is_sanitized() ? 7 : 3;
}

/* Behind every so many commits, until the flow was faster. */
static struct tally cancel_everywhere(const struct flow_case *c, struct flow_way *way,
                                      uint64_t *random)
{
    struct tally tally = {0};
    int64_t stride = stride_of(c, way->stepwise);
    struct flow_end end = {.in_time = true};
    way->cancel_at = 1 + (int64_t)testenv_random_below(random, (uint64_t)stride);
    while (end.in_time) {
        assert_true(way->cancel_at < COMMITS_MAX);
        end = flow_run(c, way);
        tally.cancelled += end.cancelled;
        tally.others += !end.cancelled;
        way->cancel_at += stride;
    }
    return tally;
}

static void cancel_all(bool stepwise)
{
    uint64_t random = testenv_seed();
    int64_t cancelled = 0;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (size_t i = 0; i < flow_case_count; i++) {
            struct flow_way way = {.kind = (enum storetest_kind)kind, .stepwise = stepwise};
            struct tally tally;
            if (!testenv_is_torture() && (kind > 0 || (flow_cases[i].huge && stepwise))) {
                continue;
            }
            tally = cancel_everywhere(&flow_cases[i], &way, &random);
            print_message("%s on %s%s: %lld cancelled, %lld not\n", flow_cases[i].name,
                          storetest_name(way.kind), stepwise ? ", stepwise" : "",
                          (long long)tally.cancelled, (long long)tally.others);
            cancelled += tally.cancelled;
        }
    }
    assert_true(cancelled > (int64_t)flow_case_count);
}

/* Proves that a cancel at any commit is met once, whatever the flow was doing. */
static void test_everywhere(void **state)
{
    (void)state;
    cancel_all(false);
}

static void test_everywhere_stepwise(void **state)
{
    (void)state;
    cancel_all(true);
}

/* A run with its cancel at a random commit, killed behind every commit. */
static int64_t kill_everywhere(const struct flow_case *c, struct flow_way *way, int64_t stride,
                               uint64_t *random)
{
    int64_t kills = 0;
    int64_t killed = 1;
    struct flow_way undisturbed = *way;
    int64_t commits = flow_run(c, &undisturbed).commits;
    way->kill_at = 1 + (int64_t)testenv_random_below(random, (uint64_t)stride);
    while (killed > 0) {
        way->cancel_at = 1 + (int64_t)testenv_random_below(random, (uint64_t)commits);
        killed = flow_run(c, way).kills;
        kills += killed;
        way->kill_at += stride;
    }
    return kills;
}

static void kill_all(bool stepwise)
{
    uint64_t random = testenv_seed();
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (size_t i = 0; i < flow_case_count; i++) {
            const struct flow_case *c = &flow_cases[i];
            struct flow_way way = {.kind = (enum storetest_kind)kind, .stepwise = stepwise};
            int64_t stride = testenv_is_torture() ? (c->large ? 37 : 1) : c->large ? 101 : 11;
            if (!testenv_is_torture() && (kind > 0 || c->huge)) {
                continue;
            }
            print_message("%s on %s%s: %lld kills\n", c->name, storetest_name(way.kind),
                          stepwise ? ", stepwise" : "",
                          (long long)kill_everywhere(c, &way, stride, &random));
        }
    }
}

/* Proves the same of an engine that dies behind any commit. */
static void test_killed(void **state)
{
    (void)state;
    kill_all(false);
}

static void test_killed_stepwise(void **state)
{
    (void)state;
    kill_all(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everywhere),
        cmocka_unit_test(test_everywhere_stepwise),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_killed_stepwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

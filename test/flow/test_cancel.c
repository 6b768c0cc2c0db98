/* test_cancel.c - flows that are asked to end: at every commit, and killed there
 *
 * Every flow of flowcases.c is cancelled behind each of its commits, one run for each: it ends cancelled, with each of its two
 * compensations once and in reverse, or as it would have ended, when that was first. Then the engine is killed behind every
 * commit of such a run, too. The torture lane does so on every store; where a flow has too many commits for that, it takes as
 * many of them as the table says, at equal distances. The short lane takes some in memory, and on every other store one run of
 * each flow that is both cancelled and killed. QP_SEED chooses which.
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
#define UNWINDS 20 /* commits that it takes to be cancelled, or fewer */

/* How many runs end as what, of one flow. */
struct tally {
    int64_t cancelled;
    int64_t others;
    int64_t kills;
};

/* At most so many runs of one flow and store. */
static int64_t most_runs(const struct flow_case *c, const struct flow_way *way)
{
    static const int64_t small[STORETEST_ALL] = {[STORETEST_MEMORY] = COMMITS_MAX,
                                                 [STORETEST_MEMORY_ROWS] = COMMITS_MAX,
                                                 [STORETEST_SQLITE] = COMMITS_MAX,
                                                 [STORETEST_SQLITE_SMALL] = COMMITS_MAX,
                                                 [STORETEST_POSTGRES] = COMMITS_MAX};
    static const int64_t large[STORETEST_ALL] = {[STORETEST_MEMORY] = COMMITS_MAX,
                                                 [STORETEST_MEMORY_ROWS] = 400,
                                                 [STORETEST_SQLITE] = 100,
                                                 [STORETEST_SQLITE_SMALL] = 100,
                                                 [STORETEST_POSTGRES] = 40};
    bool takes_long = c->huge && way->stepwise; /* 12,000 commits */
    return takes_long ? 10 : c->large ? large[way->kind] : small[way->kind];
}

/* Commits between two runs: in the torture lane all that have the time, in the short lane some, in memory. */
static int64_t stride_of(const struct flow_case *c, const struct flow_way *way, int64_t commits)
{
    int64_t stride = commits / most_runs(c, way);
    return stride > 1 ? stride : 1;
}

static int64_t short_stride_of(const struct flow_case *c)
{
    return c->huge ? 3 : c->large ? 23 : testenv_is_sanitized() ? 7 : 3;
}

/* Of a run that nothing disturbs. */
static int64_t commits_of(const struct flow_case *c, const struct flow_way *way)
{
    struct flow_way undisturbed = {.kind = way->kind, .stepwise = way->stepwise};
    return flow_run(c, &undisturbed).commits;
}

static bool run_into(const struct flow_case *c, const struct flow_way *way, struct tally *tally)
{
    struct flow_end end = flow_run(c, way);
    tally->cancelled += end.cancelled;
    tally->others += !end.cancelled;
    tally->kills += end.kills;
    return end.in_time;
}

/* Behind every so many commits, until the flow was faster. */
static struct tally cancel_everywhere(const struct flow_case *c, struct flow_way *way,
                                      int64_t stride, uint64_t *random)
{
    struct tally tally = {0};
    way->cancel_at = 1 + (int64_t)testenv_random_below(random, (uint64_t)stride);
    while (run_into(c, way, &tally)) {
        way->cancel_at += stride;
        assert_true(way->cancel_at < COMMITS_MAX);
    }
    return tally;
}

/* The commit behind which a run is cancelled that is killed at another one: every second run unwinds when it dies, the others
 * have not been asked yet. */
static int64_t cancel_beside(int64_t kill_at, int64_t commits, bool unwinds, uint64_t *random)
{
    int64_t least = unwinds && kill_at > UNWINDS ? kill_at - UNWINDS : 1;
    int64_t most = unwinds && kill_at < commits ? kill_at : commits;
    least = unwinds ? least : kill_at;
    return least >= most ? most
                         : least + (int64_t)testenv_random_below(random, (uint64_t)(most - least));
}

/* Runs with a cancel each, killed behind every so many commits. */
static struct tally kill_everywhere(const struct flow_case *c, struct flow_way *way, int64_t stride,
                                    int64_t commits, uint64_t *random)
{
    struct tally tally = {0};
    bool unwinds = testenv_random_below(random, 2) == 1;
    way->kill_at = 1 + (int64_t)testenv_random_below(random, (uint64_t)stride);
    for (; way->kill_at <= commits; way->kill_at += stride) {
        way->cancel_at = cancel_beside(way->kill_at, commits, unwinds, random);
        unwinds = !unwinds;
        (void)run_into(c, way, &tally);
    }
    return tally;
}

static void print_tally(const struct flow_case *c, const struct flow_way *way,
                        const struct tally *tally)
{
    print_message("%s on %s%s: %lld cancelled, %lld not, %lld kills\n", c->name,
                  storetest_name(way->kind), way->stepwise ? ", stepwise" : "",
                  (long long)tally->cancelled, (long long)tally->others, (long long)tally->kills);
}

/* The torture lane goes through all stores, the short one through memory. */
static int kinds_of_lane(void)
{
    return testenv_is_torture() ? storetest_kinds() : 1;
}

static void cancel_all(bool stepwise)
{
    uint64_t random = testenv_seed();
    int64_t cancelled = 0;
    for (int kind = 0; kind < kinds_of_lane(); kind++) {
        for (size_t i = 0; i < flow_case_count; i++) {
            const struct flow_case *c = &flow_cases[i];
            struct flow_way way = {.kind = (enum storetest_kind)kind, .stepwise = stepwise};
            struct tally tally;
            if (!testenv_is_torture() && c->huge && stepwise) {
                continue;
            }
            tally = cancel_everywhere(c, &way,
                                      testenv_is_torture() ? stride_of(c, &way, commits_of(c, &way))
                                                           : short_stride_of(c),
                                      &random);
            print_tally(c, &way, &tally);
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

static void kill_all(bool stepwise)
{
    uint64_t random = testenv_seed();
    for (int kind = 0; kind < kinds_of_lane(); kind++) {
        for (size_t i = 0; i < flow_case_count; i++) {
            const struct flow_case *c = &flow_cases[i];
            struct flow_way way = {.kind = (enum storetest_kind)kind, .stepwise = stepwise};
            struct tally tally;
            int64_t commits;
            if (!testenv_is_torture() && c->huge) {
                continue;
            }
            commits = commits_of(c, &way);
            tally = kill_everywhere(c, &way,
                                    testenv_is_torture() ? stride_of(c, &way, commits)
                                    : c->large           ? 101
                                                         : 11,
                                    commits, &random);
            print_tally(c, &way, &tally);
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

/* Both on every other store, once per flow: what is proved in memory holds there, too. */
static void test_stores(void **state)
{
    uint64_t random = testenv_seed();
    struct tally all = {0};
    (void)state;
    for (size_t i = 0; i < flow_case_count; i++) {
        const struct flow_case *c = &flow_cases[i];
        struct flow_way way = {.kind = STORETEST_MEMORY};
        uint64_t commits = (uint64_t)commits_of(c, &way);
        for (int kind = STORETEST_MEMORY + 1; kind < storetest_kinds(); kind++) {
            way.kind = (enum storetest_kind)kind;
            way.stepwise = !c->huge && testenv_random_below(&random, 2) == 1;
            way.cancel_at = 1 + (int64_t)testenv_random_below(&random, commits);
            way.kill_at = 1 + (int64_t)testenv_random_below(&random, commits);
            (void)run_into(c, &way, &all);
        }
    }
    print_message("%lld cancelled, %lld not, %lld kills\n", (long long)all.cancelled,
                  (long long)all.others, (long long)all.kills);
    assert_true(all.cancelled > 0 && all.kills > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everywhere), cmocka_unit_test(test_everywhere_stepwise),
        cmocka_unit_test(test_killed),     cmocka_unit_test(test_killed_stepwise),
        cmocka_unit_test(test_stores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

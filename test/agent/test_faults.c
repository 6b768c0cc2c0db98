/* test_faults.c - a statement of the store fails while an instance runs: nothing of it is seen in what comes of it
 *
 * The case of agentcase.h, in which works are claimed and tell so, fail and come again, get another attempt by a person, are dispatched,
 * and events come; with a failure at the n-th failpoint that is passed: before an op, at a row's write, before and after the commit,
 * between commit and answer. Then the engine goes on if it can, and in another run it dies; what was not answered is asked again.
 * Arrays, jobs and logs are the undisturbed ones, and a check finds nothing.
 *
 * The check lane takes every so manyth n in memory and single ones on other stores, as QP_SEED chooses; torture takes all in memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "agentcase.h"

#define STRIDE 61
#define STRIDE_SLOW 97
#define SHOTS 5
#define SHOT_POINTS 1000 /* among which a single failure is chosen: the case passes more */

static struct testenv keeper;
static struct buf undisturbed;

static bool disturbed(const struct agentcase *c)
{
    struct buf out;
    buf_init(&out, &keeper.env, 0);
    struct agentcase_end end = agentcase_run(c, &out);
    if (!str_equal(buf_slice(&out), buf_slice(&undisturbed))) {
        fail_msg("on %s%s%s, failure at %lld:\n%.*s\nnot\n%.*s", storetest_name(c->kind),
                 c->stepwise ? ", stepwise" : "", c->dies ? ", dies" : "", (long long)c->fail_at,
                 STR_ARG(buf_slice(&out)), STR_ARG(buf_slice(&undisturbed)));
    }
    buf_done(&out);
    return end.disturbed;
}

static void fail_everywhere(struct agentcase c, int64_t stride, uint64_t *random)
{
    int failures = 0;
    c.fail_at = 1 + (int64_t)testenv_random_below(random, (uint64_t)stride);
    while (disturbed(&c)) {
        c.fail_at += stride;
        failures++;
    }
    print_message("%s%s%s: %d failures\n", storetest_name(c.kind), c.stepwise ? ", stepwise" : "",
                  c.dies ? ", dies" : "", failures);
    assert_true(failures > 0);
}

static void test_faults_in_memory(void **state)
{
    uint64_t random = testenv_seed();
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct agentcase c = {
            .kind = STORETEST_MEMORY, .stepwise = way / 2 != 0, .dies = way % 2 != 0};
        fail_everywhere(c, testenv_is_torture() ? 1 : STRIDE, &random);
    }
}

static void test_faults_on_stores(void **state)
{
    uint64_t random = testenv_seed();
    (void)state;
    for (int kind = STORETEST_MEMORY_ROWS; kind < storetest_kinds(); kind++) {
        struct agentcase c = {.kind = (enum storetest_kind)kind};
        if (testenv_is_torture()) {
            fail_everywhere(c, STRIDE_SLOW, &random);
            continue;
        }
        for (int shot = 0; shot < SHOTS; shot++) {
            c.dies = testenv_random_below(&random, 2) != 0;
            c.fail_at = 1 + (int64_t)testenv_random_below(&random, SHOT_POINTS);
            assert_true(disturbed(&c));
        }
    }
}

static int setup(void **state)
{
    (void)state;
    testenv_init(&keeper, 1);
    buf_init(&undisturbed, &keeper.env, 0);
    (void)agentcase_run(&(struct agentcase){.kind = STORETEST_MEMORY}, &undisturbed);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_done(&undisturbed);
    testenv_done(&keeper);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults_in_memory),
        cmocka_unit_test(test_faults_on_stores),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

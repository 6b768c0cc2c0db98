/* test_shapes_carto.c - a fan-out of very many items under keys comes to its end, killed once on the way
 *
 * 2,000 items in the check lane, 100,000 in torture, on every provider: the expected output, one call per item
 * and one more for each result that the kill lost, fsck clean on the way (sampled) and at the end, no
 * key held or waited for any more. The kill comes at a step that QP_SEED chooses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/shaperun.h"
#include "support/storetest.h"

static struct storetest f;
static struct shaperun run;
static bool torture;

static void step(void)
{
    shaperun_work(&run);
    shaperun_round(&run);
}

static void many_items(enum storetest_kind kind)
{
    uint64_t random = testenv_seed();
    int64_t kill_at = 3 + (int64_t)testenv_random_below(&random, torture ? 400 : 40);
    storetest_init(&f, kind, 1);
    run = (struct shaperun){.shape = &shape_carto,
                            .store = f.s,
                            .time = &f.t,
                            .input = torture ? "100000" : "2000",
                            .host = true,
                            .workers = torture ? 200 : 8,
                            .check_every = torture ? 150 : 60};
    shaperun_init(&run);
    while (run.steps < kill_at && !shaperun_is_done(&run)) {
        step();
    }
    shaperun_work(&run); /* their results are lost */
    shaperun_kill(&run);
    storetest_reopen(&f);
    run.store = f.s;
    shaperun_resume(&run);
    shaperun_finish(&run);
    shaperun_verify(&run);
    assert_int_equal(storetest_count(&f, TABLE_key) + storetest_count(&f, TABLE_key_hold) +
                         storetest_count(&f, TABLE_key_wait) + storetest_count(&f, TABLE_msg),
                     0);
    printf("%s: %lld commits, killed at %lld, %lld checks\n", storetest_name(kind),
           (long long)run.steps, (long long)kill_at, (long long)run.checks);
    shaperun_done(&run);
    storetest_done(&f);
}

static void many_items_on_memory(void **state)
{
    many_items(STORETEST_MEMORY);
}

static void many_items_on_rows(void **state)
{
    many_items(STORETEST_MEMORY_ROWS);
}

static void many_items_on_sqlite(void **state)
{
    many_items(STORETEST_SQLITE);
}

static int setup(void **state)
{
    const char *lane = getenv("QP_LANE");
    torture = lane != NULL && strcmp(lane, "torture") == 0;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_items_on_memory),
        cmocka_unit_test(many_items_on_rows),
        cmocka_unit_test(many_items_on_sqlite),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

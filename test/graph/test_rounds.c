/* test_rounds.c - a round of a cycle with one worker is one commit, and one sync
 *
 * The worker's answer, the cycle that it leads to, the pivot's next entry and the worker's next task are one bundle.
 */
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/faultvfs.h"
#include "support/graphrun.h"

#define ROUNDS 5 /* of the vector */

static struct graphrun run;
static int64_t syncs[ROUNDS + 1];
static int64_t calls;

static void work(struct graphcall *c)
{
    assert_true(calls < ROUNDS);
    syncs[calls++] = faultvfs_count(FAULT_SYNC);
    (void)snprintf(c->output, sizeof c->output, "{\"counter\":%lld}", (long long)calls);
}

/* From one call of the worker to the next the file is synced once. */
static void test_one_sync_per_round(void **state)
{
    (void)state;
    calls = 0;
    faultvfs_init(FAULTVFS_SYNC_PLAYED, false);
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 1), SQLITE_OK);
    graphrun_init(&run, STORETEST_SQLITE, "loop.count", work);
    graphrun_deploy_vector(&run, "c21");
    assert_int_equal(graphrun_start(&run, "loop.start", "j", "{}"), QP_OK);
    graphrun_settle(&run);
    graphrun_expect(&run, "j", "completed", "{\"counter\":5}");
    assert_int_equal(calls, ROUNDS);
    assert_true(syncs[0] > 0); /* they are counted */
    for (int i = 1; i < ROUNDS; i++) {
        assert_int_equal(syncs[i] - syncs[i - 1], 1);
    }
    graphrun_check(&run);
    graphrun_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_sync_per_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

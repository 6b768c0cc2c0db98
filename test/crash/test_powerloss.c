/* test_powerloss.c - what was acknowledged survives a loss of power at any moment, on any honest
 * disk
 *
 * The script of script.h runs on a disk that stops at its n-th change, for n = 1, 2, ... until the
 * script comes through. Then every sector that was not synced is kept, dropped, torn or rubbish, by
 * a seed, and the file is opened again: it is whole, it is in a state of the script, and in none
 * before the last one that was acknowledged.
 *
 * The same checker must find losses on a disk whose syncs do nothing; else it is blind, and the
 * test fails.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "crash/script.h"
#include "support/faultvfs.h"

static struct script x;
static uint64_t seed;
static bool torture;

/* Runs the script until it fails; returns the last state that was acknowledged. */
static int run_script(enum store_durability durability)
{
    struct qp_err err = {0};
    int acknowledged = 0;
    if (script_open(&x, FAULTVFS_NAME, durability, &err) != QP_OK) {
        return 0;
    }
    acknowledged = 1;
    for (int k = 1; k <= SCRIPT_STEPS && acknowledged == k; k++) {
        acknowledged += script_step(&x, k, NULL, &err) == QP_OK;
    }
    return script_close(&x, &err) == QP_OK ? SCRIPT_LAST : acknowledged;
}

/* Another loss while the file is being opened after the first one. The head row is the only one
 * that this may touch. */
static void lose_again(int64_t n, uint64_t damage, int acknowledged)
{
    struct qp_err err = {0};
    int found;
    faultvfs_stop_at(1 + n % 40);
    if (script_open(&x, FAULTVFS_NAME, DURABILITY_FULL, &err) == QP_OK) {
        (void)script_close(&x, &err); /* may or may not come to its end */
    }
    faultvfs_power_loss(damage);
    found = script_state_rows(&x, acknowledged, &err);
    if (found < acknowledged) {
        fail_msg("stopped twice at change %lld, QP_SEED=%llu: state %d, acknowledged was %d: %s",
                 (long long)n, (unsigned long long)seed, found, acknowledged, err.text);
    }
}

struct tally {
    int64_t changes; /* of a run that comes through */
    int64_t runs;
    int64_t unknown; /* the commit that was cut off is there */
    int64_t lost;    /* what was acknowledged is not, or the file is damaged */
};

/* One run, cut off at change n. False: it came through. */
static bool play(enum faultvfs_sync sync, enum store_durability durability, int64_t n,
                 uint64_t damage, struct tally *tally)
{
    struct qp_err err = {0};
    int acknowledged;
    int found;
    script_place(&x);
    faultvfs_init(sync, true);
    faultvfs_stop_at(n);
    acknowledged = run_script(durability);
    if (!faultvfs_stopped()) {
        assert_int_equal(acknowledged, SCRIPT_LAST);
        tally->changes = faultvfs_changes();
        return false;
    }
    faultvfs_power_loss(damage);
    found = script_state(&x, durability == DURABILITY_FULL ? acknowledged : 0, &err);
    tally->runs++;
    tally->unknown += found > acknowledged;
    tally->lost += found < acknowledged;
    if (sync == FAULTVFS_SYNC_DROPPED) {
        return true;
    }
    if (found == SCRIPT_NO_STATE || found > acknowledged + 1 ||
        (durability == DURABILITY_FULL && found < acknowledged)) {
        fail_msg(
            "stopped at change %lld, damage %llu, QP_SEED=%llu: state %d, acknowledged was %d: %s",
            (long long)n, (unsigned long long)damage, (unsigned long long)seed, found, acknowledged,
            err.text);
    }
    if (durability == DURABILITY_FULL && n % 7 == 0) {
        lose_again(n, damage, acknowledged);
    }
    return true;
}

static struct tally play_all(enum faultvfs_sync sync, enum store_durability durability,
                             int64_t stride, int seeds)
{
    struct tally tally = {0};
    uint64_t random = seed;
    int64_t n = 1;
    bool cut = true;
    while (cut) {
        for (int i = 0; i < seeds && cut; i++) {
            cut = play(sync, durability, n, testenv_random(&random), &tally);
        }
        n += stride == 1 ? 1
                         : 1 + (int64_t)testenv_random_below(&random, (uint64_t)(2 * stride - 1));
    }
    printf("%lld changes, %lld runs, %lld with the cut-off commit there, %lld with loss\n",
           (long long)tally.changes, (long long)tally.runs, (long long)tally.unknown,
           (long long)tally.lost);
    return tally;
}

/* The power goes at the very sync of a commit: both outcomes exist, and nobody was told either. */
static void test_both_outcomes_exist(void **state)
{
    int64_t syncs[SCRIPT_STEPS + 1];
    struct qp_err err = {0};
    (void)state;
    script_place(&x);
    faultvfs_init(FAULTVFS_SYNC_PLAYED, true);
    assert_int_equal(script_open(&x, FAULTVFS_NAME, DURABILITY_FULL, &err), QP_OK);
    for (int k = 1; k <= SCRIPT_STEPS; k++) {
        assert_int_equal(script_step(&x, k, NULL, &err), QP_OK);
        syncs[k] = faultvfs_changes();
    }
    assert_int_equal(script_close(&x, &err), QP_OK);
    for (int k = 1; k <= SCRIPT_STEPS; k += torture ? 1 : 4) {
        struct tally kept = {0};
        struct tally dropped = {0};
        assert_true(
            play(FAULTVFS_SYNC_PLAYED, DURABILITY_FULL, syncs[k], FAULTVFS_KEEP_ALL, &kept));
        assert_true(
            play(FAULTVFS_SYNC_PLAYED, DURABILITY_FULL, syncs[k], FAULTVFS_DROP_ALL, &dropped));
        /* Behind some steps there is a checkpoint, whose last change is no commit. */
        assert_int_equal(kept.unknown, script_has_checkpoint(k) ? 0 : 1);
        assert_int_equal(dropped.unknown, 0);
    }
}

static void test_full_loses_nothing(void **state)
{
    struct tally tally = play_all(FAULTVFS_SYNC_PLAYED, DURABILITY_FULL, torture ? 1 : 60, 3);
    (void)state;
    assert_int_equal(tally.lost, 0);
    assert_true(tally.changes > 500);
}

/* Relaxed: the last commits may be gone, but what is there is whole and in order. */
static void test_relaxed_stays_whole(void **state)
{
    struct tally tally = play_all(FAULTVFS_SYNC_PLAYED, DURABILITY_RELAXED, torture ? 2 : 90, 3);
    (void)state;
    assert_true(tally.lost > 0);
}

/* The negative control. */
static void test_dropped_syncs_are_seen(void **state)
{
    struct tally tally = play_all(FAULTVFS_SYNC_DROPPED, DURABILITY_FULL, torture ? 10 : 120, 2);
    (void)state;
    assert_true(tally.lost > 0);
}

/* A store whose creation was cut off is either there and empty, or not there, and then it can be
 * created. */
static void test_creation(void **state)
{
    uint64_t random = seed;
    bool cut = true;
    (void)state;
    for (int64_t n = 1; cut; n += torture ? 1 : 1 + (int64_t)testenv_random_below(&random, 7)) {
        struct qp_err err = {0};
        int rc;
        script_remove(&x);
        faultvfs_init(FAULTVFS_SYNC_PLAYED, true);
        faultvfs_stop_at(n);
        rc = script_open(&x, FAULTVFS_NAME, DURABILITY_FULL, &err);
        rc = rc == QP_OK ? script_close(&x, &err) : rc;
        cut = faultvfs_stopped();
        assert_true(cut || rc == QP_OK);
        faultvfs_power_loss(testenv_random(&random));
        rc = script_open(&x, NULL, DURABILITY_FULL, &err);
        if (rc != QP_OK) {
            fail_msg("creation stopped at change %lld, QP_SEED=%llu: %s", (long long)n,
                     (unsigned long long)seed, err.text);
        }
        assert_int_equal(script_close(&x, &err), QP_OK);
    }
}

static int setup(void **state)
{
    const char *lane = getenv("QP_LANE");
    (void)state;
    torture = lane != NULL && strcmp(lane, "torture") == 0;
    seed = testenv_seed();
    script_init(&x);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    script_done(&x);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_outcomes_exist),
        cmocka_unit_test(test_full_loses_nothing),
        cmocka_unit_test(test_relaxed_stays_whole),
        cmocka_unit_test(test_dropped_syncs_are_seen),
        cmocka_unit_test(test_creation),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* test_random.c - the same random commits on every provider: equal answers and equal states after
 * each of them
 *
 * Proves that the providers mean the same by every op (store.h, "the meaning of every op is written
 * once") and that the rules of invariants.h hold after every commit. SQLite and both kinds of
 * memory are compared byte by byte: everything that a commit answers, and all rows. Two columns may
 * differ, both of the head row: `clean` (memory that handles share has no clean-shutdown marker)
 * and `rev` (writing the marker is a write). On one of them all bundles are given with their ops; the
 * others decide some of them inside the transaction, which must make no difference.
 *
 * QP_SEED=n repeats a run; the seed of a failing round is in its message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/invariants.h"
#include "support/opgen.h"
#include "support/opresult.h"
#include "support/statetext.h"
#include "support/storetest.h"

#define COMMITS 300
#define ROUNDS 4
#define ROUNDS_TORTURE 400
#define REOPEN_EVERY 40

static struct storetest stores[STORETEST_KINDS];
static struct opcover cover;

struct round {
    uint64_t seed;
    int commit; /* which one, for messages */
    struct opgen g;
    struct invariants v;
    struct buf answers[STORETEST_KINDS];
    struct buf states[STORETEST_KINDS];
};

static bool is_torture(void)
{
    const char *lane = getenv("QP_LANE");
    return lane != NULL && strcmp(lane, "torture") == 0;
}

static void compare(struct round *r, const struct buf *texts, const char *what)
{
    for (int k = 1; k < STORETEST_KINDS; k++) {
        if (!statetext_equal(&texts[0], &texts[k])) {
            statetext_show(&texts[0], &texts[k]);
            fail_msg("QP_SEED=%llu commit %d: %s of %s and %s differ", (unsigned long long)r->seed,
                     r->commit, what, storetest_name(STORETEST_MEMORY), storetest_name(k));
        }
    }
}

static void commit_on(struct round *r, int kind)
{
    struct commit c;
    r->g.plain = kind == STORETEST_MEMORY; /* the others decide some of the bundles */
    commit_init(&c, stores[kind].s);
    if (opgen_commit(&r->g, stores[kind].s, &c) != QP_OK) {
        fail_msg("QP_SEED=%llu commit %d on %s: %s", (unsigned long long)r->seed, r->commit,
                 storetest_name(kind), c.err.text);
    }
    if (kind == STORETEST_MEMORY) {
        opcover_add(&cover, &c);
    }
    buf_reset(&r->answers[kind]);
    opresult_print(&r->answers[kind], &c);
    buf_byte(&r->answers[kind], '\0');
    assert_int_equal(buf_rc(&r->answers[kind]), QP_OK);
    commit_done(&c);
    statetext_print(stores[kind].s, STATETEXT_NO_MARK, &r->states[kind]);
    (void)storetest_cache_check(&stores[kind]);
}

static void check_invariants(struct round *r)
{
    const char *violation = invariants_check(&r->v, stores[STORETEST_MEMORY].s);
    if (violation != NULL) {
        fail_msg("QP_SEED=%llu commit %d: %s", (unsigned long long)r->seed, r->commit, violation);
    }
}

/* A commit before and one after, so that no store knows a later time than the others: only SQLite
 * keeps the clock when it is closed. */
static void reopen_all(struct round *r)
{
    for (int k = 0; k < STORETEST_KINDS; k++) {
        struct op reserve = {.kind = OP_ids_reserve, .ids_reserve.count = 1};
        assert_int_equal(storetest_op(&stores[k], &reserve), QP_OK);
        storetest_reopen(&stores[k]);
        assert_int_equal(storetest_op(&stores[k], &reserve), QP_OK);
        statetext_print(stores[k].s, STATETEXT_NO_MARK, &r->states[k]);
    }
    compare(r, r->states, "the states after opening again");
}

static void advance_all(int64_t ms)
{
    for (int k = 0; k < STORETEST_KINDS; k++) {
        if (ms >= 0) {
            testenv_advance_ms(&stores[k].t, ms);
        } else {
            stores[k].t.now_ms += ms; /* the wall clock was set back: the other one goes on */
            stores[k].t.monotonic_us += 1000;
        }
    }
}

static void run_round(struct round *r)
{
    for (r->commit = 1; r->commit <= COMMITS; r->commit++) {
        opgen_next(&r->g, stores[STORETEST_MEMORY].s);
        advance_all(r->g.advance_ms);
        for (int k = 0; k < STORETEST_KINDS; k++) {
            commit_on(r, k);
        }
        compare(r, r->answers, "the answers");
        compare(r, r->states, "the states");
        check_invariants(r);
        if (r->commit % REOPEN_EVERY == 0) {
            reopen_all(r);
        }
    }
}

static void same_commits_same_states(void **state)
{
    static struct round r;
    uint64_t seed = testenv_seed();
    int rounds = is_torture() ? ROUNDS_TORTURE : ROUNDS;
    /* A seed in a thousand misses one of the rare stops: then it goes on for a while. */
    for (int i = 0; i < rounds || (i < rounds * 4 && opcover_missing(&cover) > 0); i++) {
        r = (struct round){.seed = seed + (uint64_t)i};
        for (int k = 0; k < STORETEST_KINDS; k++) {
            storetest_init(&stores[k], (enum storetest_kind)k, r.seed);
            buf_init(&r.answers[k], &stores[k].t.env, 0);
            buf_init(&r.states[k], &stores[k].t.env, 0);
        }
        opgen_init(&r.g, &stores[0].t.env, r.seed);
        invariants_init(&r.v, &stores[0].t.env);
        run_round(&r);
        invariants_done(&r.v);
        opgen_done(&r.g);
        for (int k = 0; k < STORETEST_KINDS; k++) {
            buf_done(&r.answers[k]);
            buf_done(&r.states[k]);
            storetest_done(&stores[k]);
        }
    }
}

/* After the test above: a generator that misses an op would prove nothing about it. */
static void every_op_succeeded_and_failed(void **state)
{
    opcover_print(&cover);
    assert_int_equal(opcover_missing(&cover), 0);
    /* About 54 in 100 go through; far fewer would mean that the generator has lost its aim. */
    assert_true(cover.bundles_fine * 100 >= cover.bundles * 45);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_commits_same_states),
        cmocka_unit_test(every_op_succeeded_and_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

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
#define RANGES_MAX 4096
#define SERVER_STATE_EVERY                                                                         \
    5 /* commits; reading all tables over a line takes longer than a commit */
#define CATCH_UP_MS                                                                                \
    (3600000LL * LIMIT_CLOCK_SLEW) /* more than the clock was set back in so many commits */

static struct storetest stores[STORETEST_ALL];
static struct opcover cover;

struct round {
    uint64_t seed;
    int commit; /* which one, for messages */
    struct opgen g;
    struct invariants v;
    struct buf answers[STORETEST_ALL];
    struct buf states[STORETEST_ALL];
    struct buf
        without_head; /* of memory, to be compared with a store whose numbers are elsewhere */
    struct range {
        int64_t memory;
        int64_t other;
        int64_t count;
    } ranges[RANGES_MAX]; /* the positions of each commit, here and there */
    size_t range_count;
};

static bool is_torture(void)
{
    const char *lane = getenv("QP_LANE");
    return lane != NULL && strcmp(lane, "torture") == 0;
}

static void compare_with(struct round *r, const struct buf *a, const struct buf *b, int kind,
                         const char *what)
{
    if (!statetext_equal(a, b)) {
        statetext_show(a, b);
        fail_msg("QP_SEED=%llu commit %d: %s of %s and %s differ", (unsigned long long)r->seed,
                 r->commit, what, storetest_name(STORETEST_MEMORY), storetest_name(kind));
    }
}

static void compare(struct round *r, const struct buf *texts, const char *what)
{
    for (int k = 1; k < STORETEST_KINDS; k++) {
        compare_with(r, &texts[0], &texts[k], k, what);
    }
}

/* ---------------------------------------------------------------- a store that many may write to
 *
 * PostgreSQL has its numbers in sequences, which one handle takes in order, and its positions in
 * transaction ids: they grow as memory's do, but are others. So they are told to each other by the
 * feed, commit by commit, and the state is compared in memory's positions. A handle that is opened again
 * begins a new block of numbers: so it stays open. */

static int newest_feed(void *context, const void *row)
{
    *(struct feed_row *)context = *(const struct feed_row *)row;
    return QP_OK;
}

static struct feed_row feed_after(struct store *s, int64_t pos)
{
    struct feed_row from = {.pos = pos};
    struct feed_row found = {0};
    struct scan scan = {.table = TABLE_feed,
                        .index = -1,
                        .prefix = &from,
                        .prefix_count = 1,
                        .after = &from,
                        .limit = 2};
    assert_int_equal(store_scan(s, &scan, &found, newest_feed, NULL), QP_OK);
    return found;
}

/* Both have committed the same: at most one row of the feed each. */
static void learn_range(struct round *r)
{
    const struct range *last = r->range_count == 0 ? NULL : &r->ranges[r->range_count - 1];
    int64_t here = last == NULL ? 0 : last->memory + last->count - 1;
    int64_t there = last == NULL ? 0 : last->other + last->count - 1;
    struct feed_row a = feed_after(stores[STORETEST_MEMORY].s, here);
    struct feed_row b = feed_after(stores[STORETEST_POSTGRES].s, there);
    assert_int_equal(a.pos - a.first, b.pos - b.first);
    if (a.pos > 0) {
        assert_true(r->range_count < RANGES_MAX && b.first > there);
        r->ranges[r->range_count++] = (struct range){a.first, b.first, a.pos - a.first + 1};
    }
}

static int64_t position_here(const struct round *r, int64_t pos)
{
    for (size_t i = 0; i < r->range_count; i++) {
        if (pos >= r->ranges[i].other && pos < r->ranges[i].other + r->ranges[i].count) {
            return r->ranges[i].memory + pos - r->ranges[i].other;
        }
    }
    return pos; /* 0: none */
}

static int64_t position_there(const struct round *r, int64_t pos)
{
    for (size_t i = 0; i < r->range_count; i++) {
        if (pos < r->ranges[i].memory + r->ranges[i].count) {
            return pos < r->ranges[i].memory ? 0 : r->ranges[i].other + pos - r->ranges[i].memory;
        }
    }
    return INT64_MAX;
}

static void blank_head(void *context, enum table_id table, void *row)
{
    (void)context;
    if (table == TABLE_head) {
        *(struct head_row *)row = (struct head_row){0};
    }
    if (table == TABLE_job) {
        ((struct job_row *)row)->rev = 0; /* moves there with every row of the job (txn_touch) */
    }
}

static void translate(void *context, enum table_id table, void *row)
{
    const struct round *r = context;
    const struct table *t = &tables[table];
    blank_head(NULL, table, row);
    for (size_t i = 0; i < t->column_count; i++) {
        const struct column *c = &t->columns[i];
        if (strcmp(c->name, "pos") == 0 || strcmp(c->name, "guid_pos") == 0 ||
            (table == TABLE_feed && strcmp(c->name, "first") == 0)) {
            row_set_i64(c, row, position_here(r, row_i64(c, row)));
        } else if (table == TABLE_counter && strcmp(c->name, "shard") == 0) {
            row_set_i64(c, row, 0);
        }
    }
}

/* The positions that the ops name, as the other store has them; the ones that they had come back. */
static void translate_ops(struct round *r, int64_t *uptos, bool back)
{
    size_t n = 0;
    for (size_t b = 0; b < r->g.bundle_count; b++) {
        for (size_t i = 0; i < r->g.bundles[b].op_count; i++) {
            struct op *op = &r->g.bundles[b].ops[i];
            if (op->kind == OP_feed_trim) {
                uptos[n] = back ? uptos[n] : op->feed_trim.upto;
                op->feed_trim.upto = back ? uptos[n] : position_there(r, uptos[n]);
                n++;
            }
        }
    }
}

static void print_state(struct round *r, int kind)
{
    if (kind == STORETEST_POSTGRES) {
        learn_range(r);
        if (r->commit % SERVER_STATE_EVERY != 0 && !is_torture()) {
            return;
        }
        statetext_print_as(stores[kind].s, 0, r, translate, &r->states[kind]);
        statetext_print_as(stores[STORETEST_MEMORY].s, 0, r, blank_head, &r->without_head);
    } else {
        statetext_print(stores[kind].s, STATETEXT_NO_MARK, &r->states[kind]);
    }
}

static void commit_on(struct round *r, int kind)
{
    int64_t uptos[OPGEN_BUNDLES_MAX * OPGEN_OPS_MAX];
    struct commit c;
    r->g.plain = kind == STORETEST_MEMORY; /* the others decide some of the bundles */
    commit_init(&c, stores[kind].s);
    if (kind == STORETEST_POSTGRES) {
        translate_ops(r, uptos, false);
    }
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
    if (kind == STORETEST_POSTGRES) {
        translate_ops(r, uptos, true);
    }
    print_state(r, kind);
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
 * keeps the clock when it is closed. A clock that runs slowly, since it was set back, would lose a part of
 * a millisecond in those that are opened again: it catches up first. */
static void advance_all(int64_t ms);

static void reopen_all(struct round *r)
{
    advance_all(CATCH_UP_MS);
    for (int k = 0; k < STORETEST_KINDS; k++) {
        struct op reserve = {.kind = OP_ids_reserve, .ids_reserve.count = 1};
        assert_int_equal(storetest_op(&stores[k], &reserve), QP_OK);
        storetest_reopen(&stores[k]);
        assert_int_equal(storetest_op(&stores[k], &reserve), QP_OK);
        statetext_print(stores[k].s, STATETEXT_NO_MARK, &r->states[k]);
    }
    for (int i = 0; i < 2; i++) { /* the other one has the same numbers */
        struct op reserve = {.kind = OP_ids_reserve, .ids_reserve.count = 1};
        assert_int_equal(storetest_op(&stores[STORETEST_POSTGRES], &reserve), QP_OK);
    }
    compare(r, r->states, "the states after opening again");
}

static void advance_all(int64_t ms)
{
    for (int k = 0; k < STORETEST_ALL; k++) {
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
        for (int k = 0; k < STORETEST_ALL; k++) {
            commit_on(r, k);
        }
        compare(r, r->answers, "the answers");
        compare(r, r->states, "the states");
        compare_with(r, &r->answers[0], &r->answers[STORETEST_POSTGRES], STORETEST_POSTGRES,
                     "the answers");
        if (r->commit % SERVER_STATE_EVERY == 0 || is_torture()) {
            compare_with(r, &r->without_head, &r->states[STORETEST_POSTGRES], STORETEST_POSTGRES,
                         "the states");
        }
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
        for (int k = 0; k < STORETEST_ALL; k++) {
            storetest_init(&stores[k], (enum storetest_kind)k, r.seed);
            buf_init(&r.answers[k], &stores[k].t.env, 0);
            buf_init(&r.states[k], &stores[k].t.env, 0);
        }
        buf_init(&r.without_head, &stores[0].t.env, 0);
        opgen_init(&r.g, &stores[0].t.env, r.seed);
        invariants_init(&r.v, &stores[0].t.env);
        run_round(&r);
        invariants_done(&r.v);
        opgen_done(&r.g);
        buf_done(&r.without_head);
        for (int k = 0; k < STORETEST_ALL; k++) {
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
    /* About 48 in 100 go through; far fewer would mean that the generator has lost its aim. */
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

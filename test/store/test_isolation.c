/* test_isolation.c - two handles on one memory, their commits interleaved call by call
 *
 * Proves that what two commits leave, and what they answer, is what they would have left and
 * answered one after the other: in the order in which they committed. Both models (model.h: serial
 * and locks) hold what they lock until their end, so that is the order in which everything that
 * they share was used. The order is known, so it is the only one that is accepted. To find what
 * should be, the state before is copied into a second memory, and the commits are run there one
 * after the other. Nothing may differ: numbers (ord, pos, ids) come from the head row, which is
 * locked from the first number to the end of the commit, and time stands still during a pair.
 *
 * With row locks msg_claim and wake pass over rows that the other has locked, as SKIP LOCKED does:
 * they take what is free, which no serial order needs to explain. msg_adopt and feed_trim take the
 * rows that are there when they look; a row that the other adds later is not among them, although
 * its key or its position may be. Pairs with one of these are not compared; they must keep the
 * rules of invariants.h, and no message may be claimed by both.
 *
 * All the time a third handle reads: it sees the committed state, whatever the two are doing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "store/provider.h"
#include "support/invariants.h"
#include "support/opgen.h"
#include "support/opresult.h"
#include "support/statetext.h"
#include "support/storetest.h"
#include "support/turns.h"

#define PAIRS 450
#define PAIRS_TORTURE 12000
#define PAIRS_PER_WORLD 150 /* then a new one, or its journal grows and grows */
#define BUNDLES_MAX 3
#define RETRIES_MAX 50
#define STEPS_MAX 100000
#define CALLS_PER_LOOK 12 /* of the reader */

struct side {
    struct turns_player player;
    struct opgen g;
    struct commit c;
    struct buf answer;
    int retries;
};

static struct world {
    struct testenv t;
    enum memory_mode mode;
    struct model_server server;
    uint64_t seed;
    uint64_t random;
    int pair; /* which one, for messages */
    struct memory *memory;
    struct side sides[2];
    struct store *reader;
    struct invariants v;
    struct buf committed; /* what the reader must see */
    struct buf seen;
    struct buf expected;
    int order[2]; /* the sides, as they committed */
    int committed_count;
} w;

static struct counts {
    int64_t pairs;
    int64_t compared;
    int64_t steps;
    int64_t waits;
    int64_t deadlocks;
} counts;

/* One thread has no races: under the thread sanitizer, which is slow, a sample is enough. */
#ifdef __SANITIZE_THREAD__
#define SLOWER 8
#else
#define SLOWER 1
#endif

static bool is_torture(void)
{
    const char *lane = getenv("QP_LANE");
    return lane != NULL && strcmp(lane, "torture") == 0;
}

static void fail_pair(const char *what)
{
    fail_msg("QP_SEED=%llu pair %d (%s): %s", (unsigned long long)w.seed, w.pair,
             w.mode == MEMORY_ROWS ? "rows" : "serial", what);
}

/* ------------------------------------------------------------------------------------ the world */

static struct store *open_on(struct memory *m, bool read_only)
{
    struct store_options options = {.memory = m, .read_only = read_only};
    struct qp_err err = {0};
    struct store *s = NULL;
    if (store_open(&w.t.env, &options, &s, &err) != QP_OK) {
        fail_msg("open: %s", err.text);
    }
    return s;
}

static void world_open(enum memory_mode mode, bool shared, uint64_t seed)
{
    bool rows = mode == MEMORY_ROWS;
    struct memory_options options = {.mode = mode,
                                     .calls = shared ? &model_rows_calls
                                              : rows ? &model_locks_calls
                                                     : &model_serial_calls,
                                     .shared = shared};
    struct commit c;
    testenv_init(&w.t, seed);
    w.mode = mode;
    w.server = (struct model_server){.next_xid = 1, .next_ord = 1, .next_id = STORE_NS_DEFAULT + 1};
    w.seed = seed;
    w.random = ~seed;
    assert_int_equal(memory_create(&w.t.env, &options, &w.memory), QP_OK);
    w.reader = open_on(w.memory, true);
    for (int i = 0; i < 2; i++) {
        turns_open(&w.sides[i].player, &w.t, w.memory, &w.server);
        buf_init(&w.sides[i].answer, &w.t.env, 0);
    }
    invariants_init(&w.v, &w.t.env);
    buf_init(&w.committed, &w.t.env, 0);
    buf_init(&w.seen, &w.t.env, 0);
    buf_init(&w.expected, &w.t.env, 0);
    opgen_init(&w.sides[0].g, &w.t.env, seed);
    w.sides[0].g.no_steps_back = true;
    w.sides[0].g.bundles_max = BUNDLES_MAX;
    opgen_next(&w.sides[0].g, w.reader);
    commit_init(&c, w.sides[0].player.s);
    assert_int_equal(opgen_commit(&w.sides[0].g, w.sides[0].player.s, &c), QP_OK);
    commit_done(&c);
    opgen_init_second(&w.sides[1].g, &w.sides[0].g, seed + 1);
}

static void world_init(enum memory_mode mode, uint64_t seed)
{
    world_open(mode, false, seed);
}

static void world_done(void)
{
    for (int i = 0; i < 2; i++) {
        opgen_done(&w.sides[i].g);
        buf_done(&w.sides[i].answer);
        turns_close(&w.sides[i].player);
    }
    assert_int_equal(store_close(w.reader, NULL), QP_OK);
    invariants_done(&w.v);
    buf_done(&w.committed);
    buf_done(&w.seen);
    buf_done(&w.expected);
    memory_destroy(w.memory);
    testenv_done(&w.t);
}

/* ------------------------------------------------------------------------------ a second memory */

struct copying {
    struct provider *to;
    enum table_id table;
};

static int copy_row(void *context, const void *row)
{
    struct copying *c = context;
    struct arena arena;
    void *there = NULL;
    int rc;
    arena_init(&arena, &w.t.env, 0);
    rc = c->to->calls->load(c->to, &arena, c->table, row, &there, NULL);
    rc = rc == QP_OK ? c->to->calls->write(c->to, c->table, there, row, NULL) : rc;
    arena_done(&arena);
    return rc;
}

/* A serial memory with the rows of the world as the reader sees them. */
static struct memory *memory_copy(void)
{
    struct memory_options options = {.mode = MEMORY_SERIAL};
    struct memory *m = NULL;
    struct provider *p = NULL;
    assert_int_equal(memory_create(&w.t.env, &options, &m), QP_OK);
    assert_int_equal(memory_open(&w.t.env, &(struct store_options){.memory = m}, &p, NULL), QP_OK);
    assert_int_equal(p->calls->begin(p, NULL), QP_OK);
    for (int table = 0; table < TABLE_COUNT; table++) {
        struct copying c = {p, (enum table_id)table};
        struct scan all = {.table = c.table, .index = -1, .limit = SIZE_MAX};
        assert_int_equal(store_scan(w.reader, &all, &c, copy_row, NULL), QP_OK);
    }
    assert_int_equal(p->calls->commit(p, NULL), QP_OK);
    p->calls->close(p);
    return m;
}

/* --------------------------------------------------------------------------------------- a pair */

static void side_begin(struct side *side)
{
    opgen_fill(&side->g, &side->c);
    turns_begin(&side->player, &side->c);
}

static void reader_check(void)
{
    statetext_print(w.reader, 0, &w.seen);
    if (!statetext_equal(&w.committed, &w.seen)) {
        statetext_show(&w.committed, &w.seen);
        fail_pair("the reader sees what is not committed");
    }
}

/* A commit is over: it is in the order, or it was the victim of a deadlock and begins again. */
static void side_over(int i)
{
    struct side *side = &w.sides[i];
    const char *violation;
    if (side->c.rc == QP_E_TIMEOUT) {
        reader_check(); /* nothing of it is there */
        counts.deadlocks++;
        assert_true(++side->retries < RETRIES_MAX);
        commit_reset(&side->c);
        side_begin(side);
        return;
    }
    if (side->c.rc != QP_OK) {
        fail_pair(side->c.err.text);
    }
    w.order[w.committed_count++] = i;
    violation = invariants_check(&w.v, w.reader);
    if (violation != NULL) {
        fail_pair(violation);
    }
    statetext_print(w.reader, 0, &w.committed);
}

static bool is_running(int i)
{
    return turns_is_running(&w.sides[i].player);
}

/* One turn of one side, or of the other when that one waits. Both waiting would be a deadlock that
 * was not found. */
static void step(void)
{
    int i = (int)testenv_random_below(&w.random, 2);
    i = is_running(i) ? i : 1 - i;
    if (!turns_go(&w.sides[i].player)) {
        counts.waits++;
        i = 1 - i;
        if (!is_running(i)) {
            fail_pair("waits for nobody");
        }
        if (!turns_go(&w.sides[i].player)) {
            fail_pair("both wait for each other, and it was not found");
        }
    }
    if (!is_running(i)) {
        side_over(i);
    } else if (testenv_random_below(&w.random, CALLS_PER_LOOK) == 0) {
        reader_check();
    }
}

static void interleave(void)
{
    int steps = 0;
    w.committed_count = 0;
    statetext_print(w.reader, 0, &w.committed);
    for (int i = 0; i < 2; i++) {
        w.sides[i].retries = 0;
        commit_init(&w.sides[i].c, w.sides[i].player.s);
        side_begin(&w.sides[i]);
    }
    while (w.committed_count < 2) {
        step();
        counts.steps++;
        assert_true(++steps < STEPS_MAX);
    }
}

/* The same commits, one after the other, on the copy: equal answers and an equal state. */
static void compare_with(struct memory *m)
{
    struct store *s = open_on(m, false);
    for (int k = 0; k < 2; k++) {
        struct side *side = &w.sides[w.order[k]];
        struct commit c;
        commit_init(&c, s);
        side->g.plain = true; /* what was decided in turns, given with its ops */
        assert_int_equal(opgen_commit(&side->g, s, &c), QP_OK);
        side->g.plain = false;
        buf_reset(&w.expected);
        opresult_print(&w.expected, &c);
        buf_reset(&side->answer);
        opresult_print(&side->answer, &side->c);
        if (!statetext_equal(&w.expected, &side->answer)) {
            statetext_show(&w.expected, &side->answer);
            fail_pair("a commit answers something else than in their order");
        }
        commit_done(&c);
    }
    statetext_print(s, 0, &w.expected);
    statetext_print(w.reader, 0, &w.seen);
    if (!statetext_equal(&w.expected, &w.seen)) {
        statetext_show(&w.expected, &w.seen);
        fail_pair("they leave something else than in their order");
    }
    assert_int_equal(store_close(s, NULL), QP_OK);
    counts.compared++;
}

static bool was_claimed_by(const struct commit *c, const struct msg_row *m)
{
    for (const struct bundle *b = c->first; b != NULL; b = b->next) {
        for (size_t i = 0; b->rc == QP_OK && i < b->op_count; i++) {
            const struct op *op = bundle_op_at(b, i);
            for (size_t k = 0; op->kind == OP_msg_claim && k < op->msg_claim.out_count; k++) {
                const struct msg_row *other = op->msg_claim.out_messages[k];
                if (other->ns == m->ns && other->job == m->job && other->token == m->token &&
                    other->ord == m->ord) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* No claim of the first has its equal, token included, in the second. */
static void check_claims(void)
{
    for (const struct bundle *b = w.sides[0].c.first; b != NULL; b = b->next) {
        for (size_t i = 0; b->rc == QP_OK && i < b->op_count; i++) {
            const struct op *op = bundle_op_at(b, i);
            for (size_t k = 0; op->kind == OP_msg_claim && k < op->msg_claim.out_count; k++) {
                if (was_claimed_by(&w.sides[1].c, op->msg_claim.out_messages[k])) {
                    fail_pair("one claim was given to both");
                }
            }
        }
    }
}

static void run_pair(void)
{
    static const enum op_kind pass_over[] = {OP_msg_claim, OP_msg_adopt, OP_wake, OP_feed_trim};
    bool compared = w.mode == MEMORY_SERIAL || testenv_random_below(&w.random, 2) == 0;
    struct memory *copy = NULL;
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < ARRAY_COUNT(pass_over); k++) {
            w.sides[i].g.is_skipped[pass_over[k]] = compared && w.mode == MEMORY_ROWS;
        }
        opgen_next(&w.sides[i].g, w.reader);
    }
    testenv_advance_ms(&w.t, w.sides[0].g.advance_ms);
    copy = compared ? memory_copy() : NULL;
    interleave();
    if (compared) {
        compare_with(copy);
    }
    check_claims();
    memory_destroy(copy);
    commit_done(&w.sides[0].c);
    commit_done(&w.sides[1].c);
    counts.pairs++;
}

static void run_mode(enum memory_mode mode)
{
    uint64_t seed = testenv_seed();
    int pairs = is_torture() ? PAIRS_TORTURE : PAIRS / SLOWER;
    counts = (struct counts){0};
    for (int done = 0; done < pairs; done += PAIRS_PER_WORLD) {
        world_init(mode, seed + (uint64_t)done);
        for (w.pair = 1; w.pair <= PAIRS_PER_WORLD; w.pair++) {
            run_pair();
        }
        world_done();
    }
    printf("%lld pairs, %lld compared, %lld steps, %lld waits, %lld deadlocks\n",
           (long long)counts.pairs, (long long)counts.compared, (long long)counts.steps,
           (long long)counts.waits, (long long)counts.deadlocks);
    assert_true(counts.compared > 0 && counts.waits > 0);
}

static void rows_are_isolated(void **state)
{
    run_mode(MEMORY_ROWS);
    assert_true(counts.deadlocks > 0);
}

static void serial_is_isolated(void **state)
{
    run_mode(MEMORY_SERIAL);
    assert_int_equal(counts.deadlocks, 0);
}

/* ---------------------------------------------------------------------------------- two by hand */

static void begin(int i, const struct op *ops, size_t count)
{
    struct side *side = &w.sides[i];
    commit_init(&side->c, side->player.s);
    for (size_t k = 0; k < count; k++) {
        *bundle_op(commit_bundle(&side->c, "by hand"), ops[k].kind) = ops[k]; /* one bundle each */
    }
    turns_begin(&side->player, &side->c);
}

/* All its ops are done, and it is about to commit; or it waits. */
static void go_to_commit(int i)
{
    turns_go_until(&w.sides[i].player, CALL_COMMIT);
    assert_true(is_running(i));
}

static bool waits(int i)
{
    return w.sides[i].player.waits;
}

static void finish(int i)
{
    turns_finish(&w.sides[i].player);
    commit_done(&w.sides[i].c);
}

/* Rows of a job that a commit makes are not asked for before they are written. If another commit
 * has asked for one of them in the meantime, the write has to wait, and must go on where it
 * stopped. */
static void a_write_that_waits_is_not_lost(void **state)
{
    struct job_ref ref;
    world_init(MEMORY_ROWS, 1);
    ref = (struct job_ref){STORE_NS_DEFAULT, w.sides[0].g.next_number};
    begin(1,
          (struct op[]){{.kind = OP_act_add, .act_add = {.ref = ref, .addr = QP_STR("a0")}},
                        {.kind = OP_wake, .wake.limit = 1}},
          2);
    turns_go_until(&w.sides[1].player, CALL_SCAN); /* there is no such activity, and it is locked */
    begin(
        0,
        (struct op[]){{.kind = OP_job_create,
                       .job_create = {.ref = ref, .jid = QP_STR("job"), .workflow = QP_STR("wf")}},
                      {.kind = OP_act_create, .act_create = {.ref = ref, .addr = QP_STR("a0")}},
                      {.kind = OP_act_create, .act_create = {.ref = ref, .addr = QP_STR("a1")}}},
        3);
    go_to_commit(0);
    assert_true(waits(0));
    assert_int_equal(w.sides[0].player.next, CALL_WRITE);
    finish(1);
    finish(0);
    assert_null(invariants_check(&w.v, w.reader));
    world_done();
}

/* Who waited and goes on waits for nobody: that is no circle. */
static void a_wait_that_is_over_is_no_deadlock(void **state)
{
    struct op put = {.kind = OP_data_put, .data_put = {.name = QP_STR("n"), .value = QP_STR("v")}};
    world_init(MEMORY_ROWS, 1);
    put.data_put.ref = (struct job_ref){STORE_NS_DEFAULT, w.sides[0].g.first_number};
    begin(0, &put, 1);
    begin(1, &put, 1);
    go_to_commit(0); /* has the job */
    assert_false(waits(0));
    go_to_commit(1);
    assert_true(waits(1));
    finish(0);
    go_to_commit(1); /* has the job now */
    assert_false(waits(1));
    begin(0, &put, 1);
    go_to_commit(0);
    assert_true(waits(0));
    finish(1);
    finish(0);
    world_done();
}

/* A decision whose transaction is lost: what it reads, what it did before and after, and how often it was asked. */
struct decision {
    struct job_ref ref;
    int calls;
    bool by_op;      /* it is lost in an op, not in reading */
    bool fill_first; /* in its first call there is no room for its ops */
    bool ends_badly; /* its last op is one that is refused */
};

static struct op *decision_op(struct bundle *b, enum op_kind kind)
{
    struct op *op = bundle_op(b, kind);
    assert_non_null(op);
    return op;
}

static void decision_idem(struct bundle *b)
{
    decision_op(b, OP_idem_put)->idem_put = (struct op_idem_put){
        .ns = STORE_NS_DEFAULT, .key = QP_STR("mine"), .body_hash = QP_STR("hash"), .ttl_ms = 1000};
}

/* What is said here must hold in every call: an op before the row by which it decides; then the row; then what
 * follows from it. */
static int decide(void *context, struct bundle *b)
{
    struct decision *d = context;
    struct data_row key = {.ns = d->ref.ns, .job = d->ref.job, .name = QP_STR("n")};
    const void *row = NULL;
    int rc;
    d->calls++;
    assert_int_equal(b->op_count, 0);
    decision_idem(b);
    assert_int_equal(bundle_run(b), QP_OK);
    while (d->fill_first && d->calls == 1 && bundle_op(b, OP_ids_reserve) != NULL) {}
    if (d->by_op) {
        decision_op(b, OP_data_put)->data_put =
            (struct op_data_put){.ref = d->ref, .name = QP_STR("m"), .value = QP_STR("mine")};
    }
    rc = d->fill_first ? QP_OK : bundle_run(b);
    rc = rc == QP_OK ? bundle_get(b, TABLE_data, &key, &row) : rc;
    if (rc != QP_OK) {
        return d->calls % 2 == 0 ? rc : QP_OK; /* whether it says so makes no difference */
    }
    assert_non_null(row);
    decision_op(b, OP_data_put)->data_put = (struct op_data_put){
        .ref = d->ref, .name = QP_STR("seen"), .value = ((const struct data_row *)row)->value};
    if (d->ends_badly) {
        decision_idem(b);
    }
    return QP_OK;
}

static qp_str data_of(struct job_ref ref, qp_str name, struct arena *arena)
{
    struct data_row key = {.ns = ref.ns, .job = ref.job, .name = name};
    const void *row = NULL;
    int rc = store_get(w.reader, arena, TABLE_data, &key, &row, NULL);
    assert_true(rc == QP_OK || rc == QP_E_NOT_FOUND);
    return row == NULL ? QP_NONE : ((const struct data_row *)row)->value;
}

/* Its n-th call has done its first op, and is about to read: there the transaction is lost. */
static void lose_decision(struct turns_player *p, const struct decision *d, int n)
{
    while (d->calls < n) {
        assert_true(turns_go(p));
    }
    assert_int_equal(p->next, CALL_LOAD);
    assert_true(turns_go(p));
    assert_int_equal(p->next, CALL_LOAD);
    p->fate = FATE_ABORT;
    assert_true(turns_go(p));
    assert_int_equal(d->calls, n);
    assert_int_equal(p->commit->first->rc, QP_E_BUSY);
}

/* One side writes a row and holds it. The other decides by it, loses its transaction, twice, and is asked again;
 * then it waits for the row, and goes on with what the first one has made of it. */
static void decision_is_lost(struct decision *d, const char *value)
{
    struct op put = {.kind = OP_data_put,
                     .data_put = {.name = QP_STR("n"), .value = str_from(value)}};
    struct side *side = &w.sides[1];
    struct bundle *b;
    put.data_put.ref = d->ref;
    begin(0, &put, 1);
    go_to_commit(0); /* has the job and the row */
    commit_init(&side->c, side->player.s);
    b = commit_decided(&side->c, "decided", decide, d);
    assert_non_null(b);
    turns_begin(&side->player, &side->c);
    assert_int_equal(d->calls, 0);
    lose_decision(&side->player, d, 1);
    lose_decision(&side->player, d, 2);
    go_to_commit(1);
    assert_true(waits(1));
    assert_int_equal(d->calls, 3);
    finish(0);
    turns_finish(&side->player);
    assert_int_equal(d->calls, 3);
    assert_int_equal(b->rc, d->ends_badly ? QP_E_EXISTS : QP_OK);
    assert_int_equal(b->op_count, 2 + d->by_op + d->ends_badly);
    assert_int_equal(b->stop.op_index, d->ends_badly ? b->op_count - 1 : 0);
    commit_done(&side->c);
}

static void a_decision_that_is_lost_begins_again(void **state)
{
    static const struct decision decisions[] = {
        {.by_op = false},
        {.by_op = true},
        {.by_op = true, .ends_badly = true},
        {.by_op = false, .ends_badly = true},
        {.fill_first = true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(decisions); i++) {
        struct decision d = decisions[i];
        struct arena arena;
        bool fine = !d.ends_badly;
        world_open(MEMORY_ROWS, true, 1);
        d.ref = (struct job_ref){STORE_NS_DEFAULT, w.sides[0].g.first_number};
        decision_is_lost(&d, "theirs");
        arena_init(&arena, &w.t.env, 0);
        assert_true(str_equal(data_of(d.ref, QP_STR("n"), &arena), QP_STR("theirs")));
        assert_true(
            str_equal(data_of(d.ref, QP_STR("seen"), &arena), fine ? QP_STR("theirs") : QP_NONE));
        assert_true(str_equal(data_of(d.ref, QP_STR("m"), &arena),
                              fine && d.by_op ? QP_STR("mine") : QP_NONE));
        arena_done(&arena);
        assert_null(invariants_check(&w.v, w.sides[0].player.s)); /* knows the server's numbers */
        world_done();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_that_waits_is_not_lost),
        cmocka_unit_test(a_wait_that_is_over_is_no_deadlock),
        cmocka_unit_test(a_decision_that_is_lost_begins_again),
        cmocka_unit_test(rows_are_isolated),
        cmocka_unit_test(serial_is_isolated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* conform_commit.c - bundles that share a commit: each whole or not at all, all of them one
 * transaction */
#include "store/conform.h"

#include <stdio.h>

static struct op *add(struct bundle *b, struct op op)
{
    struct op *slot = bundle_op(b, op.kind);
    assert_non_null(slot);
    *slot = op;
    return slot;
}

static struct op event(int64_t job)
{
    return OP(event_add, .ref = JOB(job), .kind = 1, .addr = QP_STR("here"));
}

static int64_t seq_of(struct storetest *f, int64_t job)
{
    return conform_job_row(f, job)->seq;
}

/* Proves I1 of store.h for neighbours: the bundle in the middle fails alone, says which op and
 * which digit, and leaves nothing; those beside it commit, in one transaction. */
static void test_middle_fails_alone(void **state)
{
    struct storetest *f = *state;
    struct commit c;
    struct bundle *b[3];
    int64_t commits;
    conform_job(f, 100);
    conform_job(f, 101);
    conform_job(f, 102);
    commits = conform_info(f).commits;
    commit_init(&c, f->s);
    for (int i = 0; i < 3; i++) {
        b[i] = commit_bundle(&c, "one of three");
        assert_int_equal(b[i]->rc, QP_E_BUSY);
        add(b[i], event(100 + i));
    }
    add(b[1], OP(guid_add, .ref = JOB(101), .addr = QP_STR("t"), .guid = G(101), .weight = W_WORK,
                 .guards = {GUARD_CLEAR(W_WORK)}, .guard_count = 1));
    add(b[1], event(101));
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(b[0]->rc, QP_OK);
    assert_int_equal(b[1]->rc, QP_E_DIGIT);
    assert_int_equal(b[1]->stop.op_index, 1);
    assert_int_equal(b[1]->stop.weight, W_WORK);
    assert_ledger(b[1]->stop.found, "000010000000000");
    assert_int_equal(b[2]->rc, QP_OK);
    commit_done(&c);
    assert_int_equal(conform_info(f).commits, commits + 1);
    assert_int_equal(seq_of(f, 100), 2);
    assert_int_equal(seq_of(f, 101), 1);
    assert_int_equal(seq_of(f, 102), 2);
    assert_int_equal(storetest_count(f, TABLE_event), 2);
}

/* Proves that a failed bundle whose rows were already told to the provider (a claim scans, and so
 * flushes) is taken back from there too, while its neighbours' changes of the same rows stay. */
static void test_flushed_and_taken_back(void **state)
{
    struct storetest *f = *state;
    struct commit c;
    struct bundle *b[3];
    conform_job(f, 100);
    commit_init(&c, f->s);
    for (int i = 0; i < 3; i++) {
        b[i] = commit_bundle(&c, "put, then claim");
        add(b[i], OP(msg_put, .ref = JOB(100), .guid = G(1 + (unsigned)i), .topic = TOPIC));
        add(b[i], OP(msg_claim, .ns = NS, .topic = TOPIC, .want = 1, .lease_ms = 1000));
    }
    add(b[1], OP(job_finish, .ref = JOB(100), .guid = G(100)));
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(b[0]->rc, QP_OK);
    assert_int_equal(b[1]->rc, QP_E_CONFLICT);
    assert_int_equal(b[1]->stop.op_index, 2);
    assert_int_equal(b[2]->rc, QP_OK);
    commit_done(&c);
    assert_int_equal(conform_msg_row(f, 100, 1)->state, MSG_HELD);
    assert_null(conform_msg_row(f, 100, 2));
    assert_int_equal(conform_msg_row(f, 100, 3)->state, MSG_HELD);
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR(""))->held, 2);
}

/* Proves the same of rows that nobody touched after the provider had seen them: born, changed and
 * deleted ones. */
static void test_flushed_and_left(void **state)
{
    struct storetest *f = *state;
    struct commit c;
    struct bundle *b[3];
    int64_t first = conform_epoch(f);
    int64_t second = conform_epoch(f);
    conform_job(f, 100);
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(1), .topic = TOPIC, .holder = first),
       OP(msg_put, .ref = JOB(100), .guid = G(2), .topic = TOPIC, .holder = second));
    commit_init(&c, f->s);
    for (int i = 0; i < 3; i++) {
        b[i] = commit_bundle(&c, "one of three");
        add(b[i], event(100));
    }
    add(b[1], OP(msg_put, .ref = JOB(100), .guid = G(3), .topic = TOPIC));
    add(b[1], OP(msg_ack, .ref = HELD(1)));
    add(b[1], OP(msg_retry, .ref = HELD(2)));
    add(b[1], OP(msg_adopt, .epoch = 777, .limit = 10)); /* reads messages, and finds none */
    add(b[1], OP(msg_claim, .ns = NS, .topic = QP_STR("none"), .want = 1, .lease_ms = 1));
    add(b[1], OP(job_finish, .ref = JOB(100), .guid = G(100)));
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(b[0]->rc, QP_OK);
    assert_int_equal(b[1]->rc, QP_E_CONFLICT);
    assert_int_equal(b[1]->stop.op_index, 6);
    assert_int_equal(b[2]->rc, QP_OK);
    commit_done(&c);
    assert_int_equal(conform_msg_row(f, 100, 1)->state, MSG_HELD);
    assert_int_equal(conform_msg_row(f, 100, 2)->state, MSG_HELD);
    assert_null(conform_msg_row(f, 100, 3));
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR(""))->held, 2);
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR(""))->ready, 0);
    assert_int_equal(storetest_count(f, TABLE_event), 2);
}

/* Proves that ten deltas of one job in one commit are summed into one row: the job, ten GUIDs, the feed and
 * the head, where numbers are in it, are written. */
static void test_deltas_are_summed(void **state)
{
    struct storetest *f = *state;
    qp_str addr = QP_STR("w");
    struct store_info before;
    struct commit c;
    conform_job_open(f, 100, 20);
    conform_worker(f, 100, addr);
    for (unsigned i = 1; i <= 10; i++) {
        conform_answer(f, 100, addr, i);
    }
    before = conform_info(f);
    commit_init(&c, f->s);
    for (unsigned i = 1; i <= 10; i++) {
        struct op *op = add(commit_bundle(&c, "step 2"), conform_step2(100, addr, i, 0, false));
        (void)op;
    }
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    for (struct bundle *b = c.first; b != NULL; b = b->next) {
        assert_int_equal(b->rc, QP_OK);
        assert_false(bundle_op_at(b, 0)->sem_move.out_edge);
    }
    assert_int_equal(bundle_op_at(c.first, 0)->sem_move.out_count, 19);
    assert_int_equal(bundle_op_at(c.last, 0)->sem_move.out_count, 10);
    commit_done(&c);
    assert_int_equal(conform_info(f).commits, before.commits + 1);
    assert_int_equal(conform_info(f).rows_written,
                     before.rows_written + 1 + 10 + 1 + !conform_is_shared(f));
    assert_int_equal(conform_job_row(f, 100)->sem, 10);
}

/* Proves that a message put and acknowledged in one commit, by two bundles, leaves no row and no
 * count. */
static void test_put_and_ack_leave_nothing(void **state)
{
    struct storetest *f = *state;
    struct commit c;
    struct bundle *put;
    struct bundle *ack;
    int64_t epoch = conform_epoch(f);
    int64_t next_ord;
    struct op *take;
    conform_job(f, 100);
    /* The number that the message will have: one that was given back is the next to be given out. */
    commit_init(&c, f->s);
    put = commit_bundle(&c, "put, and take back");
    take = add(put, OP(msg_put, .ref = JOB(100), .guid = G(1), .topic = TOPIC, .holder = epoch));
    add(put, OP(job_finish, .ref = JOB(100), .guid = G(100)));
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(put->rc, QP_E_CONFLICT);
    next_ord = take->msg_put.out_token;
    commit_done(&c);
    commit_init(&c, f->s);
    put = commit_bundle(&c, "put");
    add(put, OP(msg_put, .ref = JOB(100), .guid = G(1), .topic = TOPIC, .holder = epoch,
                .limit_key = QP_STR("k")));
    ack = commit_bundle(&c, "ack");
    add(ack, OP(msg_ack, .ref = MSG(100, 1, next_ord)));
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(put->rc, QP_OK);
    assert_int_equal(ack->rc, QP_OK);
    commit_done(&c);
    assert_int_equal(storetest_count(f, TABLE_msg), 0);
    assert_int_equal(storetest_count(f, TABLE_lane), 0);
}

/* Proves that a commit in which every bundle fails writes nothing and counts for nothing, also when
 * a scan had made the provider see some of it, and also of rows that were there before. */
static void test_all_fail_writes_nothing(void **state)
{
    struct storetest *f = *state;
    struct store_info before;
    struct buf dump;
    struct buf after;
    struct commit c;
    conform_job(f, 100);
    conform_put(f, 100, 1);
    before = conform_info(f);
    dump = conform_dump(f);
    commit_init(&c, f->s);
    for (int i = 0; i < 4; i++) {
        struct bundle *b = commit_bundle(&c, "fails");
        add(b, OP(msg_claim, .ns = NS, .topic = TOPIC, .want = 5, .lease_ms = 1000));
        add(b, OP(msg_put, .ref = JOB(100), .guid = G(2), .topic = TOPIC));
        add(b, OP(msg_claim, .ns = NS, .topic = TOPIC, .want = 5, .lease_ms = 1000));
        add(b, OP(job_delete, .ref = JOB(100), .limit = 10));
    }
    testenv_advance_ms(&f->t, 5);
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    for (struct bundle *b = c.first; b != NULL; b = b->next) {
        assert_int_equal(b->rc, QP_E_CONFLICT);
        assert_int_equal(b->stop.op_index, 3);
    }
    commit_done(&c);
    after = conform_dump(f);
    assert_string_equal(after.p, dump.p);
    assert_int_equal(conform_info(f).commits, before.commits);
    assert_int_equal(conform_info(f).rows_written, before.rows_written);
    conform_forget(&dump);
    conform_forget(&after);
}

/* Proves that a bundle sees what bundles before it did, and nothing of those that failed. */
static void test_bundles_see_each_other(void **state)
{
    struct storetest *f = *state;
    struct commit c;
    struct bundle *b[4];
    struct op create = OP(job_create, .ref = JOB(100), .jid = QP_STR("x"),
                          .workflow = QP_STR("order"), .owner_guid = G(1));
    commit_init(&c, f->s);
    for (int i = 0; i < 4; i++) {
        b[i] = commit_bundle(&c, "create");
        add(b[i], create);
    }
    add(b[0], OP(act_add, .ref = JOB(100), .addr = QP_STR("none"), .weight = 1));
    bundle_op_at(b[2], 0)->job_create.owner_guid = G(2);
    bundle_op_at(b[3], 0)->job_create.body_hash = QP_STR("other");
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(b[0]->rc, QP_E_NOT_FOUND);
    assert_int_equal(b[1]->rc, QP_OK);
    assert_true(bundle_op_at(b[1], 0)->job_create.out_owner);
    assert_int_equal(b[2]->rc, QP_E_EXISTS);
    assert_int_equal(bundle_op_at(b[2], 0)->job_create.out_job, 100);
    assert_false(bundle_op_at(b[2], 0)->job_create.out_owner);
    assert_int_equal(b[3]->rc, QP_E_CONFLICT);
    commit_done(&c);
    assert_int_equal(storetest_count(f, TABLE_job), 1);
}

/* Proves that a commit is used again after commit_reset, and that ops stay where they were handed out. */
static void test_reset(void **state)
{
    struct storetest *f = *state;
    struct commit c;
    commit_init(&c, f->s);
    for (int round = 0; round < 3; round++) {
        struct op *ops[40];
        struct bundle *b = commit_bundle(&c, "numbers");
        for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
            ops[i] = add(b, OP(ids_reserve, .count = 1));
        }
        assert_int_equal(store_commit(f->s, &c), QP_OK);
        assert_int_equal(c.rc, QP_OK);
        assert_int_equal(c.state, COMMIT_DONE);
        assert_int_equal(b->rc, QP_OK);
        for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
            assert_ptr_equal(bundle_op_at(b, i), ops[i]);
            assert_int_equal(ops[i]->ids_reserve.out_first,
                             ops[0]->ids_reserve.out_first + (int64_t)i);
        }
        commit_reset(&c);
        assert_int_equal(c.bundle_count, 0);
        assert_int_equal(c.state, COMMIT_FILLING);
    }
    commit_done(&c);
}

/* Proves that nothing asked for is nothing written: no bundle at all, and a bundle without ops. */
static void test_empty(void **state)
{
    struct storetest *f = *state;
    int64_t commits = conform_info(f).commits;
    struct commit c;
    struct bundle *b;
    commit_init(&c, f->s);
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    commit_reset(&c);
    b = commit_bundle(&c, "no ops");
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(b->rc, QP_OK);
    commit_done(&c);
    assert_int_equal(conform_info(f).commits, commits);
}

/* Proves LIMIT_COMMIT_BUNDLES: that many commit in one transaction (which leaves a row where numbers
 * are in rows); one more spoils the commit, which says so. */
static void test_limit_of_bundles(void **state)
{
    struct storetest *f = *state;
    struct store_info before = conform_info(f);
    struct commit c;
    commit_init(&c, f->s);
    for (int i = 0; i < LIMIT_COMMIT_BUNDLES; i++) {
        add(commit_bundle(&c, "one"), OP(ids_reserve, .count = 1));
    }
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(conform_info(f).commits, before.commits + !conform_is_shared(f));
    assert_int_equal(conform_info(f).rows_written, before.rows_written + !conform_is_shared(f));
    commit_reset(&c);
    for (int i = 0; i < LIMIT_COMMIT_BUNDLES; i++) {
        add(commit_bundle(&c, "one"), OP(ids_reserve, .count = 1));
    }
    assert_null(commit_bundle(&c, "too many"));
    assert_int_equal(c.rc, QP_E_LIMIT);
    assert_null(bundle_op(NULL, OP_ids_reserve));
    assert_int_equal(store_commit(f->s, &c), QP_E_LIMIT);
    assert_int_equal(c.first->rc, QP_E_LIMIT);
    commit_done(&c);
    assert_int_equal(conform_info(f).commits, before.commits + !conform_is_shared(f));
}

/* Proves LIMIT_BUNDLE_OPS in the same way. */
static void test_limit_of_ops(void **state)
{
    struct storetest *f = *state;
    int64_t commits = conform_info(f).commits;
    struct commit c;
    struct bundle *b;
    commit_init(&c, f->s);
    b = commit_bundle(&c, "many");
    for (int i = 0; i < LIMIT_BUNDLE_OPS; i++) {
        assert_non_null(bundle_op(b, OP_ids_reserve));
    }
    assert_null(bundle_op(b, OP_ids_reserve));
    assert_int_equal(c.rc, QP_E_LIMIT);
    assert_int_equal(store_commit(f->s, &c), QP_E_LIMIT);
    assert_int_equal(b->rc, QP_E_LIMIT);
    commit_done(&c);
    assert_int_equal(conform_info(f).commits, commits);
}

/* Proves that what a bundle of many rows wrote is there after the store was opened again. */
static void test_many_rows_survive(void **state)
{
    enum { ROWS = 300 };
    static char names[ROWS][16];
    struct storetest *f = *state;
    struct commit c;
    struct bundle *b;
    conform_job(f, 100);
    commit_init(&c, f->s);
    b = commit_bundle(&c, "data");
    for (int i = 0; i < ROWS; i++) {
        (void)snprintf(names[i], sizeof names[i], "name-%d", i);
        add(b, OP(data_put, .ref = JOB(100), .name = str_from(names[i]), .value = QP_STR("v")));
    }
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    commit_done(&c);
    storetest_reopen(f);
    assert_int_equal(storetest_count(f, TABLE_data), ROWS);
    assert_int_equal(conform_info(f).refusing, false);
}

/* Proves that a key which is too long stops its own bundle, as bad input, and no other. */
static void test_long_key_stops_its_bundle(void **state)
{
    static char text[20000];
    struct storetest *f = *state;
    struct commit c;
    struct bundle *b;
    struct bundle *neighbour;
    memset(text, 'x', sizeof text);
    conform_job(f, 100);
    commit_init(&c, f->s);
    b = commit_bundle(&c, "long");
    add(b, OP(idem_put, .ns = NS, .key = {text, sizeof text}, .ttl_ms = 1));
    neighbour = commit_bundle(&c, "neighbour");
    add(neighbour, event(100));
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(b->rc, QP_E_TOO_LARGE);
    assert_int_equal(neighbour->rc, QP_OK);
    commit_done(&c);
}

/* Proves that large rows make an op come again instead of failing for want of memory. */
static void test_large_rows_come_in_pages(void **state)
{
    static char payload[8 * 1024 * 1024];
    struct storetest *f = *state;
    int64_t woken = 0;
    int rounds = 0;
    struct op_wake out;
    conform_job(f, 100);
    for (unsigned i = 1; i <= 12; i++) {
        DO(f, OP(msg_put, .ref = JOB(100), .guid = G(i), .topic = TOPIC, .delay_ms = 1,
                 .payload = {payload, sizeof payload}));
    }
    testenv_advance_ms(&f->t, 10);
    do {
        out = RUN(f, wake, .limit = 1000);
        woken += out.out_count;
        rounds++;
    } while (out.out_more);
    assert_int_equal(woken, 12);
    assert_true(rounds > 1);
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(100), .state = JOB_FAILED),
       OP(job_finish, .ref = JOB(100), .guid = G(100)));
    while (RUN(f, job_delete, .ref = JOB(100), .limit = 1000).out_more) {}
    assert_int_equal(storetest_count(f, TABLE_msg), 0);
    assert_int_equal(storetest_count(f, TABLE_job), 0);
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_long_key_stops_its_bundle),
    CONFORM(test_large_rows_come_in_pages),
    CONFORM(test_middle_fails_alone),
    CONFORM(test_flushed_and_taken_back),
    CONFORM(test_flushed_and_left),
    CONFORM(test_deltas_are_summed),
    CONFORM(test_put_and_ack_leave_nothing),
    CONFORM(test_all_fail_writes_nothing),
    CONFORM(test_bundles_see_each_other),
    CONFORM(test_reset),
    CONFORM(test_empty),
    CONFORM(test_limit_of_bundles),
    CONFORM(test_limit_of_ops),
    CONFORM(test_many_rows_survive),
};
CONFORM_TOPIC(commit);

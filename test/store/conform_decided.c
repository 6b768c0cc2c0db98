/* conform_decided.c - bundles that are decided inside their transaction: what a decision sees, what
 * becomes of it, what it cannot do to its neighbours */
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
    return OP(event_add, .ref = JOB(job), .kind = 1);
}

static struct op data(const char *name, const char *value)
{
    return OP(data_put, .ref = JOB(100), .name = str_from(name),
              .value = value == NULL ? QP_NONE : str_from(value));
}

static const struct data_row *data_row(struct storetest *f, const char *name)
{
    return storetest_row(f, TABLE_data,
                         &(struct data_row){.ns = NS, .job = 100, .name = str_from(name)});
}

static const struct data_row *get_data(struct bundle *b, const char *name)
{
    const void *row = b; /* not NULL, so that "there is none" is said and not left */
    assert_int_equal(bundle_get(b, TABLE_data,
                                &(struct data_row){.ns = NS, .job = 100, .name = str_from(name)},
                                &row),
                     QP_OK);
    return row;
}

/* One decided bundle in a commit of its own, which goes well; the bundle's code. */
static int decided(struct storetest *f, bundle_decide decide, void *context, struct stop *out_stop)
{
    struct commit c;
    struct bundle *b;
    int rc;
    commit_init(&c, f->s);
    b = commit_decided(&c, "decided", decide, context);
    assert_non_null(b);
    assert_int_equal(b->rc, QP_E_BUSY);
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    rc = b->rc;
    if (out_stop != NULL) {
        *out_stop = b->stop;
    }
    commit_done(&c);
    return rc;
}

/* The same between two neighbours, which commit with it whatever becomes of it; when it is refused
 * that is all that is written. */
static int between(struct storetest *f, bundle_decide decide, void *context, struct stop *out_stop)
{
    struct commit c;
    struct bundle *b[3];
    size_t events = storetest_count(f, TABLE_event);
    int64_t commits = conform_info(f).commits;
    int rc;
    commit_init(&c, f->s);
    b[0] = commit_bundle(&c, "before");
    add(b[0], event(101));
    b[1] = commit_decided(&c, "decided", decide, context);
    b[2] = commit_bundle(&c, "after");
    add(b[2], event(101));
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(b[0]->rc, QP_OK);
    assert_int_equal(b[2]->rc, QP_OK);
    rc = b[1]->rc;
    *out_stop = b[1]->stop;
    commit_done(&c);
    assert_int_equal(conform_info(f).commits, commits + 1);
    assert_int_equal(storetest_count(f, TABLE_event), events + 2 + (rc == QP_OK));
    return rc;
}

/* ---------------------------------------------------------------------------------- what it sees */

struct seen {
    const char *before; /* what "n" must say when the decision begins */
    const char *after;  /* what it makes of it */
    int calls;
};

static int decide_next(void *context, struct bundle *b)
{
    struct seen *s = context;
    const struct data_row *before;
    s->calls++;
    before = get_data(b, "n");
    assert_str(before->value, str_from(s->before));
    add(b, data("n", s->after));
    assert_ptr_equal(get_data(b, "n"), before); /* added is not carried out */
    assert_int_equal(bundle_run(b), QP_OK);
    assert_str(get_data(b, "n")->value, str_from(s->after));
    assert_str(before->value, str_from(s->before)); /* a row keeps its values */
    add(b, data("gone", "1"));
    assert_int_equal(bundle_run(b), QP_OK);
    assert_non_null(get_data(b, "gone"));
    add(b, data("gone", NULL));
    assert_int_equal(bundle_run(b), QP_OK);
    assert_null(get_data(b, "gone"));
    return QP_OK;
}

/* Proves that a decision sees what is committed, what the bundles before it in its commit did, and
 * what its own ops have done so far. */
static void test_decided_sees(void **state)
{
    struct storetest *f = *state;
    struct seen first = {.before = "given", .after = "second"};
    struct seen second = {.before = "second", .after = "third"};
    struct seen alone = {.before = "third", .after = "fourth"};
    struct commit c;
    conform_job(f, 100);
    DO(f, data("n", "committed"));
    commit_init(&c, f->s);
    add(commit_bundle(&c, "given"), data("n", "given"));
    (void)commit_decided(&c, "first", decide_next, &first); /* found again as c.last */
    assert_ptr_equal(c.last->context, &first);
    (void)commit_decided(&c, "second", decide_next, &second);
    add(commit_bundle(&c, "after"), event(100));
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    for (struct bundle *b = c.first; b != NULL; b = b->next) {
        assert_int_equal(b->rc, QP_OK);
    }
    commit_done(&c);
    assert_int_equal(first.calls, 1);
    assert_int_equal(second.calls, 1);
    assert_str(data_row(f, "n")->value, QP_STR("third"));
    assert_int_equal(decided(f, decide_next, &alone, NULL), QP_OK);
    assert_str(data_row(f, "n")->value, QP_STR("fourth"));
    assert_null(data_row(f, "gone"));
}

static void expect_guid(struct bundle *b, const char *addr, unsigned guid, bool wanted,
                        struct guid_row *out_guid)
{
    struct guid_row key = {.ns = NS, .job = 100, .addr = str_from(addr), .guid = G(guid)};
    bool found = !wanted;
    assert_int_equal(bundle_guid(b, &key, out_guid, &found), QP_OK);
    assert_int_equal(found, wanted);
    assert_true(!wanted ||
                (str_equal(out_guid->guid, G(guid)) && str_equal(out_guid->addr, str_from(addr)) &&
                 out_guid->ns == NS && out_guid->job == 100));
}

static int decide_guids(void *context, struct bundle *b)
{
    struct guid_row *guids = context; /* of 1, 2, 3 and 4 */
    struct guid_row none = {.ledger = -7};
    expect_guid(b, "w", 1, true, &guids[0]);
    expect_guid(b, "w", 2, true, &guids[1]);
    expect_guid(b, "w", 3, false, &none);
    expect_guid(b, "v", 1, false, &none); /* no such activity */
    expect_guid(b, "t", 1, false, &none); /* another's GUID stands there, and no further one */
    assert_int_equal(none.ledger, -7);
    add(b, OP(guid_enter, .ref = JOB(100), .addr = QP_STR("w"), .guid = G(3), .ledger = W_WORK));
    add(b, OP(act_create, .ref = JOB(100), .addr = QP_STR("v"), .category = 'B'));
    add(b, OP(guid_enter, .ref = JOB(100), .addr = QP_STR("v"), .guid = G(4)));
    expect_guid(b, "w", 3, false, &none);
    assert_int_equal(bundle_run(b), QP_OK);
    expect_guid(b, "w", 3, true, &guids[2]);
    expect_guid(b, "v", 4, true, &guids[3]);
    expect_guid(b, "v", 3, false, &none);
    return QP_OK;
}

/* Proves that a decision finds a GUID wherever it stands: on its activity's row, on one of its own,
 * committed or just entered; and says so when there is none. */
static void test_decided_guid(void **state)
{
    struct storetest *f = *state;
    struct guid_row guids[4];
    conform_job_open(f, 100, 9);
    conform_worker(f, 100, QP_STR("w"));
    conform_answer(f, 100, QP_STR("w"), 1);
    conform_answer(f, 100, QP_STR("w"), 2);
    assert_null(
        storetest_row(f, TABLE_guid,
                      &(struct guid_row){.ns = NS, .job = 100, .addr = QP_STR("w"), .guid = G(1)}));
    assert_non_null(
        storetest_row(f, TABLE_guid,
                      &(struct guid_row){.ns = NS, .job = 100, .addr = QP_STR("w"), .guid = G(2)}));
    assert_int_equal(decided(f, decide_guids, guids, NULL), QP_OK);
    for (unsigned i = 0; i < 4; i++) {
        const struct guid_row *row =
            conform_guid_row(f, 100, i < 3 ? QP_STR("w") : QP_STR("v"), i + 1);
        assert_int_equal(guids[i].ledger, row->ledger);
        assert_int_equal(guids[i].seq, row->seq);
        assert_int_equal(guids[i].n, row->n);
    }
}

static void expect_scan(struct bundle *b, size_t limit, const char *after, const char *wanted)
{
    struct data_row prefix = {.ns = NS, .job = 100};
    struct data_row from = {.ns = NS, .job = 100, .name = str_from(after)};
    struct scan scan = {.table = TABLE_data,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 2,
                        .after = after == NULL ? NULL : &from,
                        .limit = limit};
    struct bundle_rows found;
    char text[64] = "";
    assert_int_equal(bundle_scan(b, &scan, &found), QP_OK);
    for (size_t i = 0; i < found.count; i++) {
        const struct data_row *row = found.rows[i];
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "%.*s=%.*s ", (int)row->name.n, row->name.p,
                       (int)row->value.n, row->value.p);
    }
    assert_string_equal(text, wanted);
    assert_false(found.cut);
}

static int decide_scan(void *context, struct bundle *b)
{
    expect_scan(b, 10, NULL, "a=1 b=1 c=1 ");
    add(b, data("a", NULL));
    add(b, data("b", "2"));
    add(b, data("d", "2"));
    expect_scan(b, 10, NULL, "a=1 b=1 c=1 ");
    assert_int_equal(bundle_run(b), QP_OK);
    expect_scan(b, 10, NULL, "b=2 c=1 d=2 ");
    expect_scan(b, 2, NULL, "b=2 c=1 ");
    expect_scan(b, 2, "c", "d=2 ");
    add(b, data("b", "3"));
    assert_int_equal(bundle_run(b), QP_OK);
    expect_scan(b, 1, NULL, "b=3 ");
    return *(const int *)context;
}

/* Proves that a scan shows the rows as bundles before and the decision's own ops have left them,
 * and, once a decision was taken back, as they were. */
static void test_decided_scan(void **state)
{
    struct storetest *f = *state;
    int codes[2] = {QP_E_CONFLICT, QP_OK};
    struct commit c;
    struct bundle *b[2];
    conform_job(f, 100);
    DO(f, data("a", "1"), data("b", "1"));
    commit_init(&c, f->s);
    add(commit_bundle(&c, "given"), data("c", "1"));
    for (int i = 0; i < 2; i++) {
        b[i] = commit_decided(&c, "scan", decide_scan, &codes[i]);
    }
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(b[0]->rc, QP_E_CONFLICT);
    assert_int_equal(b[1]->rc, QP_OK);
    commit_done(&c);
    assert_int_equal(storetest_count(f, TABLE_data), 3);
    assert_null(data_row(f, "a"));
    assert_str(data_row(f, "b")->value, QP_STR("3"));
}

static int decide_now(void *context, struct bundle *b)
{
    qp_ms *now = context;
    *now = bundle_now(b);
    add(b, data("n", "v"));
    add(b,
        OP(msg_put, .ref = JOB(100), .guid = G(1), .topic = TOPIC, .lease_ms = 1000, .once = true));
    assert_int_equal(bundle_run(b), QP_OK);
    assert_int_equal(get_data(b, "n")->updated_at, *now);
    assert_int_equal(bundle_now(b), *now);
    return QP_OK;
}

/* Proves that a decision knows the time that its rows get, the store's: also when the wall clock was
 * set back. */
static void test_decided_now(void **state)
{
    struct storetest *f = *state;
    qp_ms now = 0;
    qp_ms before;
    conform_job(f, 100);
    testenv_advance_ms(&f->t, 1234);
    assert_int_equal(decided(f, decide_now, &now, NULL), QP_OK);
    assert_int_equal(now, store_now(f->s));
    assert_int_equal(data_row(f, "n")->updated_at, now);
    assert_int_equal(conform_msg_row(f, 100, 1)->at, now);
    assert_int_equal(conform_msg_row(f, 100, 1)->wake_at, now + 1000);
    before = now;
    f->t.now_ms -= 60000;
    assert_int_equal(decided(f, decide_now, &now, NULL), QP_OK);
    assert_true(now >= before);
    assert_int_equal(data_row(f, "n")->updated_at, now);
}

static int decide_by_outs(void *context, struct bundle *b)
{
    int64_t *epoch = context;
    struct op *node = add(b, OP(node_put, .name = QP_STR("node")));
    struct op *put;
    struct op *claim;
    assert_int_equal(bundle_run(b), QP_OK);
    *epoch = node->node_put.out_epoch;
    put = add(b, OP(msg_put, .ref = JOB(100), .guid = G(1), .topic = TOPIC, .holder = *epoch));
    add(b, OP(msg_put, .ref = JOB(100), .guid = G(2), .topic = TOPIC));
    claim = add(b, OP(msg_claim, .ns = NS, .topic = TOPIC, .want = 9, .holder = *epoch));
    assert_int_equal(bundle_run(b), QP_OK);
    assert_true(put->msg_put.out_token > 0);
    assert_int_equal(claim->msg_claim.out_count, 1);
    assert_str(claim->msg_claim.out_messages[0]->guid, G(2));
    add(b, OP(msg_ack, .ref = MSG(100, 1, put->msg_put.out_token)));
    return QP_OK;
}

/* Proves that what an op puts out is there once it was carried out, for the next op to use. */
static void test_decided_by_outs(void **state)
{
    struct storetest *f = *state;
    int64_t epoch = 0;
    conform_job(f, 100);
    assert_int_equal(decided(f, decide_by_outs, &epoch, NULL), QP_OK);
    assert_null(conform_msg_row(f, 100, 1));
    assert_int_equal(conform_msg_row(f, 100, 2)->holder, epoch);
    assert_non_null(storetest_row(f, TABLE_node, &(struct node_row){.epoch = epoch}));
}

/* ------------------------------------------------------------------------- what becomes of it */

static int decide_and_refuse(void *context, struct bundle *b)
{
    const int *code = context;
    add(b, event(100));
    add(b, data("n", "v"));
    assert_int_equal(bundle_run(b), QP_OK);
    assert_non_null(get_data(b, "n"));
    add(b, event(100)); /* added and not carried out */
    return *code;
}

/* Proves that a decision against its own bundle takes that back whole, and says why; its neighbours
 * commit. */
static void test_decided_refuses(void **state)
{
    struct storetest *f = *state;
    int code = QP_E_BUSY; /* whatever the code, it is the decision's own */
    struct stop stop;
    int64_t seq;
    conform_job(f, 100);
    conform_job(f, 101);
    seq = conform_job_row(f, 100)->seq;
    assert_int_equal(between(f, decide_and_refuse, &code, &stop), QP_E_BUSY);
    assert_int_equal(stop.op_index, 2); /* two were carried out */
    assert_int_equal(stop.weight, 0);
    code = QP_E_NOT_FOUND;
    assert_int_equal(between(f, decide_and_refuse, &code, &stop), QP_E_NOT_FOUND);
    assert_int_equal(conform_job_row(f, 100)->seq, seq);
    assert_int_equal(conform_job_row(f, 101)->seq, seq + 4);
    assert_null(data_row(f, "n"));
}

static int decide_flush_and_refuse(void *context, struct bundle *b)
{
    struct data_row prefix = {.ns = NS, .job = 100};
    struct bundle_rows found;
    add(b, data("n", "v"));
    assert_int_equal(bundle_run(b), QP_OK);
    assert_int_equal(bundle_scan(b,
                                 &(struct scan){.table = TABLE_data,
                                                .index = -1,
                                                .prefix = &prefix,
                                                .prefix_count = 2,
                                                .limit = 10},
                                 &found),
                     QP_OK);
    assert_int_equal(found.count, 1);
    return *(const int *)context;
}

static int decide_to_read(void *context, struct bundle *b)
{
    assert_null(get_data(b, "n"));
    *(int *)context += 1;
    return QP_OK;
}

/* Proves the same of a commit in which nothing else is asked for: nothing is written at all, also
 * when a scan had shown rows to the provider. And that to read is not to write. */
static void test_decided_writes_nothing(void **state)
{
    struct storetest *f = *state;
    int code = QP_E_CONFLICT;
    int calls = 0;
    struct store_info before;
    struct buf dump;
    struct buf after;
    conform_job(f, 100);
    before = conform_info(f);
    dump = conform_dump(f);
    assert_int_equal(decided(f, decide_flush_and_refuse, &code, NULL), QP_E_CONFLICT);
    assert_int_equal(decided(f, decide_to_read, &calls, NULL), QP_OK);
    assert_int_equal(calls, 1);
    after = conform_dump(f);
    assert_string_equal(after.p, dump.p);
    assert_int_equal(conform_info(f).commits, before.commits);
    assert_int_equal(conform_info(f).rows_written, before.rows_written);
    conform_forget(&dump);
    conform_forget(&after);
}

static int decide_past_a_stop(void *context, struct bundle *b)
{
    const void *row = NULL;
    struct guid_row guid;
    bool found;
    add(b, event(100));
    assert_int_equal(bundle_run(b), QP_OK);
    add(b, event(100));
    add(b, OP(guid_add, .ref = JOB(100), .addr = QP_STR("t"), .guid = G(100), .weight = W_WORK,
              .guards = {GUARD_CLEAR(W_WORK)}, .guard_count = 1));
    add(b, event(100));
    assert_int_equal(bundle_run(b), QP_E_DIGIT);
    assert_int_equal(bundle_run(b), QP_E_DIGIT); /* the op after it is not carried out */
    add(b, data("n", "v"));
    assert_int_equal(bundle_run(b), QP_E_DIGIT);
    assert_int_equal(bundle_get(b, TABLE_job, &(struct job_row){.ns = NS, .job = 100}, &row),
                     QP_E_DIGIT);
    assert_int_equal(
        bundle_guid(b,
                    &(struct guid_row){.ns = NS, .job = 100, .addr = QP_STR("t"), .guid = G(100)},
                    &guid, &found),
        QP_E_DIGIT);
    add(b, data("m", "v"));
    return *(const int *)context;
}

/* Proves that an op which is refused ends the bundle, and says which op and which digit, whatever
 * the decision does after it; it may give another reason, but cannot make it good. */
static void test_decided_stopped_by_op(void **state)
{
    struct storetest *f = *state;
    int code = QP_OK;
    struct stop stop;
    conform_job(f, 100);
    conform_job(f, 101);
    assert_int_equal(between(f, decide_past_a_stop, &code, &stop), QP_E_DIGIT);
    assert_int_equal(stop.op_index, 2);
    assert_int_equal(stop.weight, W_WORK);
    assert_ledger(stop.found, "000010000000000");
    code = QP_E_DONE;
    assert_int_equal(between(f, decide_past_a_stop, &code, &stop), QP_E_DONE);
    assert_int_equal(stop.op_index, 2);
    assert_int_equal(conform_job_row(f, 100)->seq, 1);
    assert_int_equal(storetest_count(f, TABLE_data), 0);
}

static int decide_refused_at_the_end(void *context, struct bundle *b)
{
    (void)context;
    for (int i = 0; i < 9; i++) {
        add(b, data("n", "v"));
    }
    add(b, OP(job_finish, .ref = JOB(100), .guid = G(100)));
    return QP_OK;
}

/* Proves the same of the ops that the store carries out after the decision. */
static void test_decided_stopped_at_the_end(void **state)
{
    struct storetest *f = *state;
    struct stop stop;
    conform_job(f, 100);
    conform_job(f, 101);
    assert_int_equal(between(f, decide_refused_at_the_end, NULL, &stop), QP_E_CONFLICT);
    assert_int_equal(stop.op_index, 9);
    assert_null(data_row(f, "n"));
}

static const size_t runs[] = {1, 7, 0, 8, 3, 16, 5, 1, 24};
enum { RUNS_SUM = 65 };

static int decide_in_many_runs(void *context, struct bundle *b)
{
    struct op **ops = context;
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(runs); i++) {
        for (size_t k = 0; k < runs[i]; k++) {
            ops[count++] = add(b, OP(ids_reserve, .count = 1));
        }
        assert_int_equal(bundle_run(b), QP_OK);
        assert_int_equal(bundle_run(b), QP_OK); /* there is nothing left to do */
        assert_true(ops[count - 1]->ids_reserve.out_first > 0);
    }
    for (int k = 0; k < 11; k++) {
        ops[count++] = add(b, OP(ids_reserve, .count = 1)); /* left to the store */
    }
    return QP_OK;
}

/* Proves that ops are carried out once each and in order, however they are spread over runs and
 * chunks, the last ones after the decision. */
static void test_decided_in_many_runs(void **state)
{
    struct storetest *f = *state;
    struct op *ops[RUNS_SUM + 11];
    struct commit c;
    struct bundle *b;
    commit_init(&c, f->s);
    b = commit_decided(&c, "runs", decide_in_many_runs, ops);
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(b->rc, QP_OK);
    assert_int_equal(b->op_count, ARRAY_COUNT(ops));
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
        assert_ptr_equal(bundle_op_at(b, i), ops[i]);
        assert_int_equal(ops[i]->ids_reserve.out_first, ops[0]->ids_reserve.out_first + (int64_t)i);
    }
    commit_done(&c);
}

/* ------------------------------------------------------------------------------------ its limits */

struct filling {
    int64_t want;
    int64_t got; /* how many there was room for */
    int code;    /* what the decision says after that */
};

static int decide_to_fill(void *context, struct bundle *b)
{
    struct filling *fill = context;
    add(b, event(100));
    for (fill->got = 1; fill->got < fill->want; fill->got++) {
        struct op *op = bundle_op(b, OP_ids_reserve);
        if (op == NULL) {
            break;
        }
        op->ids_reserve.count = 1;
        if (fill->got % 10000 == 0) {
            assert_int_equal(bundle_run(b), QP_OK);
        }
    }
    return fill->code;
}

/* Proves LIMIT_BUNDLE_OPS: that many are carried out; one more takes back that bundle, even if its
 * decision does not care, and no other. */
static void test_decided_limit_of_ops(void **state)
{
    struct storetest *f = *state;
    struct filling fill = {.want = LIMIT_BUNDLE_OPS};
    struct stop stop;
    conform_job(f, 100);
    conform_job(f, 101);
    assert_int_equal(between(f, decide_to_fill, &fill, &stop), QP_OK);
    assert_int_equal(fill.got, LIMIT_BUNDLE_OPS);
    fill.want++;
    assert_int_equal(between(f, decide_to_fill, &fill, &stop), QP_E_LIMIT);
    assert_int_equal(fill.got, LIMIT_BUNDLE_OPS);
    fill.code = QP_E_INVALID;
    assert_int_equal(between(f, decide_to_fill, &fill, &stop), QP_E_INVALID);
    assert_int_equal(conform_job_row(f, 100)->seq, 2);
}

/* Proves that a decision after one that had no room has all the room that there is: the commit is
 * not spoilt. */
static void test_decided_after_a_full_one(void **state)
{
    struct storetest *f = *state;
    struct filling full = {.want = LIMIT_BUNDLE_OPS + 1};
    struct seen next = {.before = "1", .after = "2"};
    struct commit c;
    struct bundle *b[2];
    conform_job(f, 100);
    DO(f, data("n", "1"));
    commit_init(&c, f->s);
    b[0] = commit_decided(&c, "full", decide_to_fill, &full);
    b[1] = commit_decided(&c, "next", decide_next, &next);
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(c.rc, QP_OK);
    assert_int_equal(b[0]->rc, QP_E_LIMIT);
    assert_int_equal(b[1]->rc, QP_OK);
    commit_done(&c);
    assert_str(data_row(f, "n")->value, QP_STR("2"));
}

enum { PIECES = 4 }; /* of which LIMIT_BUNDLE_SIZE has room for fewer, since names count as well */

struct pieces {
    int first;
    int count;
};

static const char *piece_name(int i)
{
    static char names[2 * PIECES][24];
    assert_in_range(i, 0, 2 * PIECES - 1);
    (void)snprintf(names[i], sizeof names[i], "piece-%d", i);
    return names[i];
}

static int decide_large(void *context, struct bundle *b)
{
    static char payload[LIMIT_BUNDLE_SIZE / PIECES];
    const struct pieces *p = context;
    add(b, event(100));
    for (int i = p->first; i < p->first + p->count; i++) {
        add(b, OP(data_put, .ref = JOB(100), .name = str_from(piece_name(i)),
                  .value = {payload, sizeof payload}));
        (void)!bundle_run(b); /* what it says is the bundle's code all the same */
    }
    return QP_OK;
}

/* Proves LIMIT_BUNDLE_SIZE over all runs of one decision, and that each decision has it to itself. */
static void test_decided_limit_of_size(void **state)
{
    struct storetest *f = *state;
    struct pieces many = {0, PIECES};
    struct pieces few[2] = {{0, PIECES - 1}, {PIECES - 1, PIECES - 1}};
    struct stop stop;
    struct commit c;
    conform_job(f, 100);
    conform_job(f, 101);
    assert_int_equal(between(f, decide_large, &many, &stop), QP_E_TOO_LARGE);
    assert_int_equal(stop.op_index, PIECES);
    assert_int_equal(storetest_count(f, TABLE_data), 0);
    commit_init(&c, f->s);
    for (int i = 0; i < 2; i++) {
        assert_non_null(commit_decided(&c, "few", decide_large, &few[i]));
    }
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(c.first->rc, QP_OK);
    assert_int_equal(c.last->rc, QP_OK);
    commit_done(&c);
    assert_int_equal(storetest_count(f, TABLE_data), 2 * (PIECES - 1));
    for (int i = 0; i < 2 * (PIECES - 1); i++) {
        DO(f, data(piece_name(i), NULL)); /* a dump of them would be too large */
    }
}

static int decide_by_a_long_key(void *context, struct bundle *b)
{
    static char text[20000];
    const void *row = b;
    (void)context;
    memset(text, 'x', sizeof text);
    add(b, event(100));
    assert_int_equal(bundle_run(b), QP_OK);
    assert_int_equal(
        bundle_get(b, TABLE_idem, &(struct idem_row){.ns = NS, .ikey = {text, sizeof text}}, &row),
        QP_E_TOO_LARGE);
    return QP_OK;
}

/* Proves that a key which is too long to be asked for stops that bundle, as bad input, and no
 * other. */
static void test_decided_long_key(void **state)
{
    struct storetest *f = *state;
    struct stop stop;
    conform_job(f, 100);
    conform_job(f, 101);
    assert_int_equal(between(f, decide_by_a_long_key, NULL, &stop), QP_E_TOO_LARGE);
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_decided_sees),
    CONFORM(test_decided_guid),
    CONFORM(test_decided_scan),
    CONFORM(test_decided_now),
    CONFORM(test_decided_by_outs),
    CONFORM(test_decided_refuses),
    CONFORM(test_decided_writes_nothing),
    CONFORM(test_decided_stopped_by_op),
    CONFORM(test_decided_stopped_at_the_end),
    CONFORM(test_decided_in_many_runs),
    CONFORM(test_decided_limit_of_ops),
    CONFORM(test_decided_after_a_full_one),
    CONFORM(test_decided_limit_of_size),
    CONFORM(test_decided_long_key),
};
CONFORM_TOPIC(decided);

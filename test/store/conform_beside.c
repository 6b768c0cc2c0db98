/* conform_beside.c - messages that a claim puts beside the claimed one, without the job's row (op_msg_put.by) */
#include "store/conform.h"

#define OTHER QP_STR("other")
#define CLAIMED 1 /* GUIDs of job 100 */
#define PUT 2

/* What one commit does: claims the message, or is given it as born claimed, and puts another one beside it. */
struct beside {
    bool born;
    struct op_msg_put put;
    bool fails;        /* behind it */
    bool claims_again; /* the message that it has put, in the same commit */
    int64_t token;     /* of the claim */
};

static int64_t born_claimed(struct bundle *b)
{
    struct op *op = bundle_op(b, OP_msg_put);
    op->msg_put =
        (struct op_msg_put){.ref = JOB(100), .guid = G(CLAIMED), .topic = TOPIC, .lease_ms = 1000};
    assert_int_equal(bundle_run(b), QP_OK);
    return op->msg_put.out_token;
}

static int64_t claimed(struct bundle *b, qp_str topic)
{
    struct op *op = bundle_op(b, OP_msg_claim);
    op->msg_claim = (struct op_msg_claim){.ns = NS, .topic = topic, .want = 1, .lease_ms = 1000};
    assert_int_equal(bundle_run(b), QP_OK);
    assert_int_equal(op->msg_claim.out_count, 1);
    return op->msg_claim.out_messages[0]->token;
}

static int decide(void *context, struct bundle *b)
{
    struct beside *x = context;
    struct op *op;
    x->token = x->born ? born_claimed(b) : claimed(b, TOPIC);
    op = bundle_op(b, OP_msg_put);
    op->msg_put = x->put;
    op->msg_put.by = MSG(100, CLAIMED, x->token);
    QP_TRY(bundle_run(b));
    if (x->claims_again) {
        assert_true(claimed(b, OTHER) > x->token);
    }
    return x->fails ? QP_E_CONFLICT : QP_OK;
}

static int commit_beside(struct storetest *f, struct beside *x)
{
    struct commit c;
    struct bundle *b;
    int rc;
    commit_init(&c, f->s);
    b = commit_decided(&c, "beside", decide, x);
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    rc = b->rc;
    commit_done(&c);
    return rc;
}

static struct beside beside(void)
{
    return (struct beside){
        .put = {.ref = JOB(100), .guid = G(PUT), .topic = OTHER, .payload = QP_STR("p")}};
}

static void begin(struct storetest *f)
{
    conform_job(f, 100);
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(CLAIMED), .topic = TOPIC));
}

static int64_t state_of(struct storetest *f)
{
    const struct msg_row *m = conform_msg_row(f, 100, PUT);
    return m == NULL ? MSG_NONE : m->state;
}

/* Proves that the message is there with the claim, and that the job's row is as it was. */
static void test_with_a_claim(void **state)
{
    struct storetest *f = *state;
    struct beside x = beside();
    int64_t rev;
    begin(f);
    rev = conform_job_row(f, 100)->rev;
    assert_int_equal(commit_beside(f, &x), QP_OK);
    assert_int_equal(state_of(f), MSG_READY);
    assert_str(conform_msg_row(f, 100, PUT)->payload, QP_STR("p"));
    assert_int_equal(conform_msg_row(f, 100, CLAIMED)->token, x.token);
    assert_int_equal(conform_job_row(f, 100)->rev, rev);
    assert_int_equal(conform_lane_row(f, OTHER, QP_STR(""))->ready, 1);
}

/* Proves the same of a message that is born claimed, and of a timer. */
static void test_born_claimed(void **state)
{
    struct storetest *f = *state;
    struct beside x = beside();
    x.born = true;
    x.put.delay_ms = 500;
    conform_job(f, 100);
    assert_int_equal(commit_beside(f, &x), QP_OK);
    assert_int_equal(state_of(f), MSG_DELAYED);
    testenv_advance_ms(&f->t, 500);
    assert_int_equal(conform_wake_due(f), 1);
    assert_int_equal(state_of(f), MSG_READY);
}

/* Proves that another delivery puts none beside the one that is there, and is refused without `once`. */
static void test_duplicate(void **state)
{
    struct storetest *f = *state;
    struct beside x = beside();
    begin(f);
    assert_int_equal(commit_beside(f, &x), QP_OK);
    testenv_advance_ms(&f->t, 1000);
    assert_int_equal(conform_wake_due(f), 1);
    assert_int_equal(commit_beside(f, &x), QP_E_EXISTS);
    x.put.once = true;
    x.put.payload = QP_STR("other");
    assert_int_equal(commit_beside(f, &x), QP_OK);
    assert_str(conform_msg_row(f, 100, PUT)->payload, QP_STR("p"));
    assert_int_equal(conform_msg_row(f, 100, CLAIMED)->tries, 2);
}

/* Proves that a bundle that fails leaves neither; the next one of the job is not kept from it. */
static void test_undone(void **state)
{
    struct storetest *f = *state;
    struct beside x = beside();
    struct commit c;
    struct bundle *bundles[3];
    begin(f);
    x.fails = true;
    commit_init(&c, f->s);
    bundles[0] = commit_decided(&c, "fails", decide, &x);
    bundles[1] = commit_bundle(&c, "behind");
    *bundle_op(bundles[1], OP_msg_put) =
        OP(msg_put, .ref = JOB(100), .guid = G(PUT), .topic = OTHER);
    bundles[2] = commit_bundle(&c, "and again");
    *bundle_op(bundles[2], OP_msg_put) =
        OP(msg_put, .ref = JOB(100), .guid = G(PUT), .topic = OTHER);
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(bundles[0]->rc, QP_E_CONFLICT);
    assert_int_equal(bundles[1]->rc, QP_OK);
    assert_int_equal(bundles[2]->rc, QP_E_EXISTS);
    commit_done(&c);
    assert_int_equal(state_of(f), MSG_READY);
    assert_true(str_is_none(conform_msg_row(f, 100, PUT)->payload));
    assert_int_equal(conform_msg_row(f, 100, CLAIMED)->state, MSG_READY);
}

/* Proves that the same commit may claim what it has put, and its holder then acks it like any. */
static void test_claimed_at_once(void **state)
{
    struct storetest *f = *state;
    struct beside x = beside();
    begin(f);
    x.claims_again = true;
    assert_int_equal(commit_beside(f, &x), QP_OK);
    assert_int_equal(state_of(f), MSG_HELD);
    DO(f, OP(msg_ack, .ref = HELD(PUT)));
    assert_int_equal(state_of(f), MSG_NONE);
}

/* Proves that a claim which is over, or another job's, puts nothing. */
static void test_refused(void **state)
{
    struct storetest *f = *state;
    struct op op = OP(msg_put, .ref = JOB(100), .guid = G(PUT), .topic = OTHER);
    begin(f);
    conform_job(f, 101);
    op.msg_put.by = MSG(100, CLAIMED, 1);
    (void)REFUSED(f, QP_E_STALE, op); /* not claimed */
    op.msg_put.by = MSG(100, 9, 1);
    (void)REFUSED(f, QP_E_STALE, op); /* not there */
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 1);
    op.msg_put.by = HELD(CLAIMED);
    op.msg_put.by.token++;
    (void)REFUSED(f, QP_E_STALE, op);
    op.msg_put.by.token = -1;
    (void)REFUSED(f, QP_E_INVALID, op);
    op.msg_put.by = HELD(CLAIMED);
    op.msg_put.ref = JOB(101);
    (void)REFUSED(f, QP_E_INVALID, op);
    op.msg_put.ref = JOB(100);
    op.msg_put.owner = OWNER_SCHEDULE;
    (void)REFUSED(f, QP_E_INVALID, op);
}

/* Proves that the sweep of a closed job takes it with the claimed one. */
static void test_swept(void **state)
{
    struct storetest *f = *state;
    struct beside x = beside();
    begin(f);
    x.put.delay_ms = 500;
    assert_int_equal(commit_beside(f, &x), QP_OK);
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(100), .state = JOB_FAILED));
    DO(f, OP(job_sweep, .ref = JOB(100), .limit = 10));
    assert_int_equal(storetest_count(f, TABLE_msg), 0);
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_with_a_claim), CONFORM(test_born_claimed),    CONFORM(test_duplicate),
    CONFORM(test_undone),       CONFORM(test_claimed_at_once), CONFORM(test_refused),
    CONFORM(test_swept),
};
CONFORM_TOPIC(beside);

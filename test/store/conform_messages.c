/* conform_messages.c - messages: put, claim, and the four that need a claim's token; dead letters;
 * epochs */
#include "store/conform.h"

static struct op put(unsigned guid)
{
    return OP(msg_put, .ref = JOB(100), .guid = G(guid), .topic = TOPIC);
}

static int64_t state_of(struct storetest *f, unsigned guid)
{
    const struct msg_row *m = conform_msg_row(f, 100, guid);
    return m == NULL ? MSG_NONE : m->state;
}

/* Proves that a message is what it was put as, READY and not yet tried. */
static void test_put(void **state)
{
    struct storetest *f = *state;
    const struct msg_row *m;
    conform_job(f, 100);
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(1), .kind = 3, .topic = TOPIC, .addr = QP_STR("a"),
             .parent_guid = G(2), .payload = QP_STR("p"), .code = 200, .priority = 4,
             .limit_key = QP_STR("k")));
    m = conform_msg_row(f, 100, 1);
    assert_int_equal(m->state, MSG_READY);
    assert_int_equal(m->owner, OWNER_JOB);
    assert_int_equal(m->kind, 3);
    assert_str(m->addr, QP_STR("a"));
    assert_str(m->parent_guid, G(2));
    assert_str(m->payload, QP_STR("p"));
    assert_int_equal(m->code, 200);
    assert_int_equal(m->priority, 4);
    assert_str(m->limit_key, QP_STR("k"));
    assert_int_equal(m->at, store_now(f->s));
    assert_int_equal(m->token, 0);
    assert_int_equal(m->tries, 0);
    DO(f, OP(msg_put, .ref = {NS, 0}, .owner = OWNER_SYSTEM, .guid = G(1), .topic = TOPIC));
    DO(f, OP(msg_put, .ref = {NS, 200}, .owner = OWNER_SCHEDULE, .guid = G(1), .topic = TOPIC));
    assert_int_equal(storetest_count(f, TABLE_msg), 3);
}

/* Proves that a job has one message of a GUID: the second is refused, or with `once` passed over,
 * whatever it says. */
static void test_put_duplicate(void **state)
{
    struct storetest *f = *state;
    struct op op = put(1);
    conform_job(f, 100);
    DO(f, put(1));
    (void)REFUSED(f, QP_E_EXISTS, put(1));
    op.msg_put.once = true;
    op.msg_put.payload = QP_STR("other");
    DO(f, op, put(2));
    assert_true(str_is_none(conform_msg_row(f, 100, 1)->payload));
    assert_int_equal(state_of(f, 2), MSG_READY);
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 2);
    (void)REFUSED(f, QP_E_EXISTS, put(1)); /* also while it is held */
}

/* Proves that what cannot be a message is refused. */
static void test_put_invalid(void **state)
{
    static char bytes[LIMIT_ADDRESS_SIZE + 1];
    static char large[LIMIT_PAYLOAD_HARD_SIZE + 1];
    struct storetest *f = *state;
    int64_t epoch = conform_epoch(f);
    struct op bad[19];
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        bad[i] = put(1);
    }
    memset(bytes, 'x', sizeof bytes);
    conform_job(f, 100);
    bad[0].msg_put.guid = QP_NONE;
    bad[1].msg_put.guid.n = LIMIT_GUID_SIZE - 1;
    bad[2].msg_put.topic = QP_NONE;
    bad[3].msg_put.topic = (qp_str){bytes, LIMIT_NAME_SIZE + 1};
    bad[4].msg_put.limit_key = (qp_str){bytes, LIMIT_ID_SIZE + 1};
    bad[5].msg_put.limit_key = QP_STR("*");
    bad[6].msg_put.priority = -1;
    bad[7].msg_put.priority = LIMIT_PRIORITY + 1;
    bad[8].msg_put.addr = (qp_str){bytes, LIMIT_ADDRESS_SIZE + 1};
    bad[9].msg_put.delay_ms = -1;
    bad[10].msg_put.delay_ms = LIMIT_TIMER_MS + 1;
    bad[11].msg_put.owner = OWNER_SYSTEM + 1;
    bad[12].msg_put.delay_ms = 1;
    bad[12].msg_put.holder = epoch;
    bad[13].msg_put.delay_ms = 1;
    bad[13].msg_put.lease_ms = 1;
    bad[14].msg_put.lease_ms = 1;
    bad[14].msg_put.holder = epoch;
    bad[15] = bad[14];
    bad[15].msg_put.delay_ms = 1;
    bad[16].msg_put.lease_ms = -1;
    bad[17].msg_put.lease_ms = LIMIT_LEASE_MS + 1;
    bad[18].msg_put.lease_ms = INT64_MAX;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        (void)REFUSED(f, QP_E_INVALID, bad[i]);
    }
    bad[0] = put(1);
    bad[0].msg_put.payload = (qp_str){large, sizeof large};
    (void)REFUSED(f, QP_E_TOO_LARGE, bad[0]);
    bad[0] = put(1);
    bad[0].msg_put.ref = JOB(101);
    (void)REFUSED(f, QP_E_NOT_FOUND, bad[0]);
}

/* Proves the order of a claim: best priority first, and among equals the oldest. */
static void test_claim_order(void **state)
{
    static const int64_t priorities[] = {5, 0, 9, 0, 5, 1};
    static const unsigned order[] = {2, 4, 6, 1, 5, 3};
    struct storetest *f = *state;
    unsigned got[6];
    conform_job(f, 100);
    for (unsigned i = 0; i < ARRAY_COUNT(priorities); i++) {
        struct op op = put(i + 1);
        op.msg_put.priority = priorities[i];
        DO(f, op);
    }
    assert_int_equal(conform_claim(f, NS, 2, 1000, got), 2);
    assert_int_equal(conform_claim(f, NS, 10, 1000, got + 2), 4);
    assert_memory_equal(got, order, sizeof order);
    assert_int_equal(conform_claim(f, NS, 10, 1000, got), 0);
}

/* Proves what a claim gives: a higher token, one try more, who has it and until when. */
static void test_claim_gives(void **state)
{
    struct storetest *f = *state;
    const struct msg_row *m;
    int64_t epoch = conform_epoch(f);
    conform_job(f, 100);
    DO(f, put(1));
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 1);
    m = conform_msg_row(f, 100, 1);
    assert_int_equal(m->state, MSG_HELD);
    assert_true(m->token > 0);
    assert_int_equal(m->tries, 1);
    assert_int_equal(m->wake_at, store_now(f->s) + 1000);
    assert_int_equal(m->holder, 0);
    assert_str(m->worker, QP_STR("worker"));
    DO(f, put(2));
    DO(f, OP(msg_claim, .ns = NS, .topic = TOPIC, .want = 1, .holder = epoch));
    m = conform_msg_row(f, 100, 2);
    assert_int_equal(m->state, MSG_HELD);
    assert_int_equal(m->wake_at, 0);
    assert_int_equal(m->holder, epoch);
}

/* Proves that a claim asks for at least one and at most LIMIT_CLAIM_MESSAGES, by a lease or an
 * epoch but not both. */
static void test_claim_invalid(void **state)
{
    static const struct op_msg_claim bad[] = {
        {.want = 0, .lease_ms = 1},
        {.want = -1, .lease_ms = 1},
        {.want = LIMIT_CLAIM_MESSAGES + 1, .lease_ms = 1},
        {.want = 1},
        {.want = 1, .lease_ms = 1, .holder = 1},
        {.want = 1, .lease_ms = LIMIT_LEASE_MS + 1},
    };
    struct storetest *f = *state;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct op op = {.kind = OP_msg_claim, .msg_claim = bad[i]};
        op.msg_claim.ns = NS;
        op.msg_claim.topic = TOPIC;
        (void)REFUSED(f, QP_E_INVALID, op);
    }
    assert_int_equal(conform_claim(f, NS, LIMIT_CLAIM_MESSAGES, LIMIT_LEASE_MS, NULL), 0);
}

static struct op with_token(int which, struct msg_ref ref)
{
    switch (which) {
    case 0:
        return OP(msg_fence, .ref = ref);
    case 1:
        return OP(msg_extend, .ref = ref, .lease_ms = 1000);
    case 2:
        return OP(msg_ack, .ref = ref);
    case 3:
        return OP(msg_retry, .ref = ref);
    default:
        return OP(msg_dead_letter, .ref = ref);
    }
}

enum { WITH_TOKEN = 5 };

/* Proves H1's fence: after a lease ended and another claimed, the first holder can do nothing any
 * more. */
static void test_stale_token(void **state)
{
    struct storetest *f = *state;
    int64_t first;
    int64_t second;
    conform_job(f, 100);
    DO(f, put(1));
    for (int which = 0; which < WITH_TOKEN; which++) {
        (void)REFUSED(f, QP_E_STALE, with_token(which, MSG(100, 1, 0))); /* nobody has claimed it */
        (void)REFUSED(f, QP_E_STALE, with_token(which, MSG(100, 2, 1))); /* not there */
    }
    (void)conform_claim(f, NS, 1, 1000, NULL);
    first = conform_msg_row(f, 100, 1)->token;
    testenv_advance_ms(&f->t, 1000);
    assert_int_equal(conform_wake_due(f), 1);
    for (int which = 0; which < WITH_TOKEN; which++) {
        (void)REFUSED(f, QP_E_STALE, with_token(which, MSG(100, 1, first))); /* given back */
    }
    (void)conform_claim(f, NS, 1, 1000, NULL);
    second = conform_msg_row(f, 100, 1)->token;
    assert_true(second > first);
    assert_int_equal(conform_msg_row(f, 100, 1)->tries, 2);
    for (int which = 0; which < WITH_TOKEN; which++) {
        (void)REFUSED(f, QP_E_STALE, with_token(which, MSG(100, 1, first)));
        (void)REFUSED(f, QP_E_STALE, with_token(which, MSG(100, 1, second + 1)));
        DO(f, put(10 + (unsigned)which));
    }
    DO(f, with_token(0, MSG(100, 1, second)));
    assert_int_equal(state_of(f, 1), MSG_HELD);
    DO(f, with_token(2, MSG(100, 1, second)));
    assert_int_equal(state_of(f, 1), MSG_NONE);
    (void)REFUSED(f, QP_E_STALE, with_token(2, MSG(100, 1, second)));
}

/* Proves that a holder can take back a try and count it again, and no more than there are. */
static void test_fence_counts_tries(void **state)
{
    struct storetest *f = *state;
    struct msg_ref ref;
    conform_job(f, 100);
    DO(f, put(1));
    (void)conform_claim(f, NS, 1, 1000, NULL);
    ref = MSG(100, 1, conform_msg_row(f, 100, 1)->token);
    DO(f, OP(msg_fence, .ref = ref, .tries = -1));
    assert_int_equal(conform_msg_row(f, 100, 1)->tries, 0);
    (void)REFUSED(f, QP_E_INVALID, OP(msg_fence, .ref = ref, .tries = -1));
    DO(f, OP(msg_fence, .ref = ref, .tries = 1));
    assert_int_equal(conform_msg_row(f, 100, 1)->tries, 1);
    assert_int_equal(conform_msg_row(f, 100, 1)->token, ref.token);
    ref.token++;
    (void)REFUSED(f, QP_E_STALE, OP(msg_fence, .ref = ref, .tries = 1));
    ref.token--;
    DO(f, OP(msg_fence, .ref = ref, .tries = -1));
    DO(f, OP(msg_retry, .ref = ref, .untry = true)); /* there is none left to give back */
    assert_int_equal(conform_msg_row(f, 100, 1)->tries, 0);
}

/* Proves that no token is given twice: a message that goes and is published again under its GUID is
 * not open to whoever held it before. */
static void test_token_of_a_former_life(void **state)
{
    struct storetest *f = *state;
    int64_t former;
    conform_job(f, 100);
    DO(f, put(1));
    (void)conform_claim(f, NS, 1, 1000, NULL);
    former = conform_msg_row(f, 100, 1)->token;
    DO(f, with_token(2, MSG(100, 1, former)));
    for (int i = 0; i < 3; i++) {
        DO(f, put(1));
        (void)conform_claim(f, NS, 1, 1000, NULL);
        for (int which = 0; which < WITH_TOKEN; which++) {
            (void)REFUSED(f, QP_E_STALE, with_token(which, MSG(100, 1, former)));
        }
        DO(f, with_token(2, HELD(1)));
    }
}

/* Proves that a late holder whose lease has ended, but whose message nobody took, still acts by its
 * token. */
static void test_late_but_alone(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    DO(f, put(1));
    (void)conform_claim(f, NS, 1, 1000, NULL);
    testenv_advance_ms(&f->t, 5000);
    DO(f, with_token(2, HELD(1)));
    assert_int_equal(conform_wake_due(f), 0);
}

/* Proves that extending counts from now, and its limits; an epoch's message has no lease to
 * extend. */
static void test_extend(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    DO(f, put(1));
    (void)conform_claim(f, NS, 1, 1000, NULL);
    testenv_advance_ms(&f->t, 900);
    DO(f, OP(msg_extend, .ref = HELD(1), .lease_ms = 1000));
    assert_int_equal(conform_msg_row(f, 100, 1)->wake_at, store_now(f->s) + 1000);
    testenv_advance_ms(&f->t, 999);
    assert_int_equal(conform_wake_due(f), 0);
    testenv_advance_ms(&f->t, 1);
    assert_int_equal(conform_wake_due(f), 1);
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(2), .topic = TOPIC, .holder = conform_epoch(f)));
    DO(f, OP(msg_extend, .ref = HELD(2), .lease_ms = 1000));
    assert_int_equal(conform_msg_row(f, 100, 2)->wake_at, 0);
    (void)REFUSED(f, QP_E_INVALID, OP(msg_extend, .ref = HELD(2), .lease_ms = 0));
    (void)REFUSED(f, QP_E_INVALID, OP(msg_extend, .ref = HELD(2), .lease_ms = LIMIT_LEASE_MS + 1));
}

/* Proves that a message of a run that gets a lease is held by that alone. */
static void test_extend_leases(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(1), .topic = TOPIC, .holder = conform_epoch(f)));
    (void)REFUSED(f, QP_E_INVALID, OP(msg_extend, .ref = HELD(1), .leases = true));
    DO(f, OP(msg_extend, .ref = HELD(1), .lease_ms = 1000, .leases = true));
    assert_int_equal(conform_msg_row(f, 100, 1)->holder, 0);
    assert_int_equal(conform_msg_row(f, 100, 1)->wake_at, store_now(f->s) + 1000);
    testenv_advance_ms(&f->t, 1000);
    assert_int_equal(conform_wake_due(f), 1);
}

/* Proves that a retry keeps the message, its error and its tries; `untry` gives the try back; the
 * delay is honoured. */
static void test_retry(void **state)
{
    struct storetest *f = *state;
    const struct msg_row *m;
    int64_t former;
    conform_job(f, 100);
    DO(f, put(1));
    (void)conform_claim(f, NS, 1, 1000, NULL);
    DO(f, OP(msg_retry, .ref = HELD(1), .error = QP_STR("e")));
    m = conform_msg_row(f, 100, 1);
    assert_int_equal(m->state, MSG_READY);
    assert_int_equal(m->tries, 1);
    assert_str(m->error, QP_STR("e"));
    (void)conform_claim(f, NS, 1, 1000, NULL);
    DO(f, OP(msg_retry, .ref = HELD(1), .untry = true, .delay_ms = 500));
    m = conform_msg_row(f, 100, 1);
    assert_int_equal(m->state, MSG_DELAYED);
    assert_int_equal(m->tries, 1);
    former = m->token;
    assert_int_equal(m->wake_at, store_now(f->s) + 500);
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 0);
    testenv_advance_ms(&f->t, 500);
    assert_int_equal(conform_wake_due(f), 1);
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 1);
    assert_true(conform_msg_row(f, 100, 1)->token > former);
    (void)REFUSED(f, QP_E_INVALID, OP(msg_retry, .ref = HELD(1), .delay_ms = -1));
    (void)REFUSED(f, QP_E_INVALID, OP(msg_retry, .ref = HELD(1), .delay_ms = LIMIT_TIMER_MS + 1));
}

/* Proves that a dead letter is kept and claimed by nobody, and goes back with its tries at 0 and
 * its token growing on. */
static void test_dead_letter(void **state)
{
    struct storetest *f = *state;
    const struct msg_row *m;
    int64_t former;
    conform_job(f, 100);
    DO(f, put(1));
    (void)REFUSED(f, QP_E_CONFLICT, OP(msg_revive, .ref = MSG(100, 1, 0)));
    (void)conform_claim(f, NS, 1, 1000, NULL);
    (void)REFUSED(f, QP_E_CONFLICT, OP(msg_revive, .ref = HELD(1)));
    DO(f, OP(msg_dead_letter, .ref = HELD(1), .error = QP_STR("poison")),
       OP(job_set, .ref = JOB(100), .what = JOB_SET_PARKED, .parked = QP_STR("dead letter")));
    m = conform_msg_row(f, 100, 1);
    assert_int_equal(m->state, MSG_DEAD);
    assert_str(m->error, QP_STR("poison"));
    testenv_advance_ms(&f->t, LIMIT_LEASE_MS);
    assert_int_equal(conform_wake_due(f), 0);
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 0);
    DO(f, OP(msg_revive, .ref = MSG(100, 1, 0)));
    assert_int_equal(conform_msg_row(f, 100, 1)->tries, 0);
    (void)REFUSED(f, QP_E_CONFLICT, OP(msg_revive, .ref = MSG(100, 1, 0)));
    former = conform_msg_row(f, 100, 1)->token;
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 1);
    assert_true(conform_msg_row(f, 100, 1)->token > former);
    (void)REFUSED(f, QP_E_NOT_FOUND, OP(msg_revive, .ref = MSG(100, 2, 0)));
}

/* Proves that a message that is not claimed is taken back, and that one in hand and a dead letter stay. */
static void test_withdrawn(void **state)
{
    struct storetest *f = *state;
    struct op op = OP(msg_withdraw, .ref = MSG(100, 1, 0));
    conform_job(f, 100);
    DO(f, put(1));
    (void)conform_claim(f, NS, 1, 1000, NULL);
    assert_int_equal(storetest_op(f, &op), QP_OK);
    assert_false(op.msg_withdraw.out_gone);
    DO(f, OP(msg_retry, .ref = HELD(1), .delay_ms = 1000));
    assert_int_equal(storetest_op(f, &op), QP_OK);
    assert_true(op.msg_withdraw.out_gone);
    assert_int_equal(storetest_op(f, &op), QP_OK);
    assert_false(op.msg_withdraw.out_gone);
    DO(f, put(2));
    op.msg_withdraw.ref = MSG(100, 2, 0);
    (void)conform_claim(f, NS, 1, 1000, NULL);
    DO(f, OP(msg_dead_letter, .ref = HELD(2), .error = QP_STR("poison")),
       OP(job_set, .ref = JOB(100), .what = JOB_SET_PARKED, .parked = QP_STR("dead letter")));
    assert_int_equal(storetest_op(f, &op), QP_OK);
    assert_false(op.msg_withdraw.out_gone);
    assert_int_equal(conform_msg_row(f, 100, 2)->state, MSG_DEAD);
}

/* Proves that a message born held is its epoch's, with a token and one try, and that a dead epoch's
 * messages are given back in batches, to be claimed with a higher token. */
static void test_born_held_and_adopted(void **state)
{
    struct storetest *f = *state;
    int64_t dead = conform_epoch(f);
    int64_t other = conform_epoch(f);
    int64_t former;
    conform_job(f, 100);
    for (unsigned i = 1; i <= 5; i++) {
        struct op op = put(i);
        op.msg_put.holder = i <= 4 ? dead : other;
        DO(f, op);
        assert_true(conform_msg_row(f, 100, i)->token > 0);
        assert_int_equal(conform_msg_row(f, 100, i)->tries, 1);
    }
    testenv_advance_ms(&f->t, LIMIT_LEASE_MS);
    assert_int_equal(conform_wake_due(f), 0); /* an epoch's message has no end of its own */
    DO(f, OP(node_put, .epoch = dead, .state = NODE_DEAD));
    for (unsigned page = 0; page < 3; page++) {
        struct op_msg_adopt out =
            RUN(f, msg_adopt, .epoch = dead, .limit = 2,
                .after = page == 0 ? (struct msg_ref){0} : MSG(100, 2 * page, 0));
        assert_int_equal(out.out_count, page < 2 ? 2 : 0);
        assert_int_equal(out.out_more, page < 2);
    }
    assert_int_equal(RUN(f, msg_adopt, .epoch = dead, .limit = 10).out_count, 0);
    former = conform_msg_row(f, 100, 1)->token;
    (void)REFUSED(f, QP_E_STALE, OP(msg_ack, .ref = MSG(100, 1, former)));
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 4);
    assert_true(conform_msg_row(f, 100, 1)->token > former);
    assert_int_equal(conform_msg_row(f, 100, 1)->tries, 2);
    DO(f, OP(msg_ack, .ref = HELD(5))); /* the other epoch lives on */
    (void)REFUSED(f, QP_E_INVALID, OP(msg_adopt, .epoch = 0, .limit = 1));
    (void)REFUSED(f, QP_E_INVALID, OP(msg_adopt, .epoch = dead, .limit = 0));
    (void)REFUSED(f, QP_E_INVALID, OP(msg_adopt, .epoch = dead, .limit = LIMIT_CLAIM_MESSAGES + 1));
}

/* Proves that a message may be born claimed for a time: HELD until then, by the token that the op
 * puts out, then READY again as after any lease. */
static void test_born_leased(void **state)
{
    struct storetest *f = *state;
    const struct msg_row *m;
    int64_t token;
    conform_job(f, 100);
    token =
        RUN(f, msg_put, .ref = JOB(100), .guid = G(1), .topic = TOPIC, .lease_ms = 1000).out_token;
    m = conform_msg_row(f, 100, 1);
    assert_int_equal(m->state, MSG_HELD);
    assert_int_equal(m->wake_at, store_now(f->s) + 1000);
    assert_int_equal(m->holder, 0);
    assert_int_equal(m->tries, 1);
    assert_true(token > 0);
    assert_int_equal(m->token, token);
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR(""))->held, 1);
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 0);
    testenv_advance_ms(&f->t, 999);
    assert_int_equal(conform_wake_due(f), 0);
    DO(f, with_token(0, MSG(100, 1, token)));
    testenv_advance_ms(&f->t, 1);
    assert_int_equal(conform_wake_due(f), 1);
    assert_int_equal(state_of(f, 1), MSG_READY);
    for (int which = 0; which < WITH_TOKEN; which++) {
        (void)REFUSED(f, QP_E_STALE, with_token(which, MSG(100, 1, token)));
    }
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 1);
    assert_true(conform_msg_row(f, 100, 1)->token > token);
    assert_int_equal(conform_msg_row(f, 100, 1)->tries, 2);
    (void)REFUSED(f, QP_E_STALE, with_token(2, MSG(100, 1, token)));
}

/* Proves that a born claim is as good as any: its token extends, retries, buries and acknowledges;
 * the longest lease is LIMIT_LEASE_MS. */
static void test_born_claims_work(void **state)
{
    struct storetest *f = *state;
    int64_t epoch = conform_epoch(f);
    conform_job(f, 100);
    for (int which = 0; which < WITH_TOKEN; which++) {
        for (int by_epoch = 0; by_epoch < 2; by_epoch++) {
            unsigned guid = 1 + (unsigned)(2 * which + by_epoch);
            struct op op = put(guid);
            op.msg_put.holder = by_epoch ? epoch : 0;
            op.msg_put.lease_ms = by_epoch ? 0 : LIMIT_LEASE_MS;
            op = conform_run(f, op, __FILE__, __LINE__);
            assert_true(op.msg_put.out_token > 0);
            (void)REFUSED(f, QP_E_STALE,
                          with_token(which, MSG(100, guid, op.msg_put.out_token + 1)));
            DO(f, with_token(which, MSG(100, guid, op.msg_put.out_token)));
        }
    }
    assert_int_equal(conform_msg_row(f, 100, 3)->wake_at, store_now(f->s) + 1000); /* extended */
    assert_int_equal(state_of(f, 5), MSG_NONE);
    assert_int_equal(state_of(f, 7), MSG_READY);
    assert_int_equal(state_of(f, 9), MSG_DEAD);
}

/* Proves that nobody gets a token who has no claim: a message that is ready, later, passed over or
 * born aside. */
static void test_born_unclaimed(void **state)
{
    struct storetest *f = *state;
    struct op op = put(1);
    conform_job(f, 100);
    assert_int_equal(conform_run(f, op, __FILE__, __LINE__).msg_put.out_token, 0);
    op.msg_put.lease_ms = 1000;
    op.msg_put.once = true;
    assert_int_equal(conform_run(f, op, __FILE__, __LINE__).msg_put.out_token, 0);
    assert_int_equal(state_of(f, 1), MSG_READY);
    op = put(2);
    op.msg_put.delay_ms = 1000;
    assert_int_equal(conform_run(f, op, __FILE__, __LINE__).msg_put.out_token, 0);
    DO(f, OP(job_pause, .ref = JOB(100)));
    op = put(3);
    op.msg_put.lease_ms = 1000;
    assert_int_equal(conform_run(f, op, __FILE__, __LINE__).msg_put.out_token, 0);
    op = put(4);
    op.msg_put.holder = conform_epoch(f);
    assert_int_equal(conform_run(f, op, __FILE__, __LINE__).msg_put.out_token, 0);
    for (unsigned i = 3; i <= 4; i++) {
        assert_int_equal(state_of(f, i), MSG_ASIDE);
        assert_int_equal(conform_msg_row(f, 100, i)->wake_at, 0);
        assert_int_equal(conform_msg_row(f, 100, i)->holder, 0);
        assert_int_equal(conform_msg_row(f, 100, i)->tries, 0);
    }
}

/* Proves that a run which is over, or never was, gets nothing: no message of its own, no claim, not
 * even of an empty stream, and nothing is written. */
static void test_holder_is_over(void **state)
{
    struct storetest *f = *state;
    int64_t lives = conform_epoch(f);
    int64_t over[] = {conform_epoch(f), conform_epoch(f), conform_epoch(f), 999999, INT64_MAX};
    conform_job(f, 100);
    DO(f, put(1));
    DO(f, OP(node_put, .epoch = over[0], .state = NODE_LEFT));
    DO(f, OP(node_put, .epoch = over[1], .state = NODE_DEAD));
    DO(f, OP(node_put, .epoch = over[2], .state = NODE_ENDING));
    for (size_t i = 0; i < ARRAY_COUNT(over); i++) {
        struct op born = put(2);
        struct op claim = OP(msg_claim, .ns = NS, .topic = TOPIC, .want = 1, .holder = over[i]);
        born.msg_put.holder = over[i];
        (void)REFUSED(f, QP_E_STALE, born);
        born.msg_put.once = true;
        (void)REFUSED(f, QP_E_STALE, born);
        (void)REFUSED(f, QP_E_STALE, claim);
        claim.msg_claim.topic = QP_STR("nothing");
        (void)REFUSED(f, QP_E_STALE, claim);
    }
    (void)REFUSED(f, QP_E_STALE, OP(node_put, .epoch = lives, .state = NODE_LEFT),
                  OP(msg_claim, .ns = NS, .topic = TOPIC, .want = 1, .holder = lives));
    assert_int_equal(state_of(f, 1), MSG_READY);
    DO(f, OP(msg_claim, .ns = NS, .topic = TOPIC, .want = 1, .holder = lives));
    assert_int_equal(conform_msg_row(f, 100, 1)->holder, lives);
}

/* A commit of one bundle: how many messages it made READY. */
#define READY(f, ...) ready_count((f), OPS(__VA_ARGS__))
static int64_t ready_count(struct storetest *f, const struct op *ops, size_t count)
{
    struct commit c;
    int64_t ready;
    commit_init(&c, f->s);
    (void)commit_bundle(&c, "ready"); /* c.first; without it the ops below say so */
    for (size_t i = 0; i < count; i++) {
        struct op *op = bundle_op(c.first, ops[i].kind);
        assert_non_null(op);
        *op = ops[i];
    }
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(c.first->rc, QP_OK);
    ready = c.ready_count;
    commit_reset(&c);
    assert_int_equal(c.ready_count, 0);
    commit_done(&c);
    return ready;
}

/* Proves that a commit says how many messages it made READY, by whatever way, and counts none that
 * was born claimed, later or aside. */
static void test_ready_count(void **state)
{
    struct storetest *f = *state;
    int64_t epoch = conform_epoch(f);
    struct op later = put(4);
    struct op leased = put(5);
    struct op held = put(6);
    struct op again = put(1);
    later.msg_put.delay_ms = 1000;
    leased.msg_put.lease_ms = 1000;
    held.msg_put.holder = epoch;
    again.msg_put.once = true;
    conform_job(f, 100);
    assert_int_equal(READY(f, put(1), put(2), put(3)), 3);
    assert_int_equal(READY(f, later), 0);
    assert_int_equal(READY(f, leased), 0);
    assert_int_equal(READY(f, held), 0);
    assert_int_equal(READY(f, again), 0);
    assert_int_equal(READY(f, OP(data_put, .ref = JOB(100), .name = QP_STR("n"))), 0);
    assert_int_equal(READY(f, OP(msg_claim, .ns = NS, .topic = TOPIC, .want = 3, .lease_ms = 5000)),
                     0);
    assert_int_equal(READY(f, OP(msg_ack, .ref = HELD(1))), 0);
    assert_int_equal(READY(f, OP(msg_retry, .ref = HELD(2))), 1);
    assert_int_equal(READY(f, OP(msg_retry, .ref = HELD(3), .delay_ms = 1000)), 0);
    testenv_advance_ms(&f->t, 1000);
    assert_int_equal(READY(f, OP(wake, .limit = 10)), 3); /* 3, 4, 5 */
    assert_int_equal(READY(f, OP(wake, .limit = 10)), 0);
    assert_int_equal(READY(f, OP(msg_adopt, .epoch = epoch, .limit = 10)), 1);
    DO(f, OP(job_pause, .ref = JOB(100)));
    assert_int_equal(READY(f, put(7)), 0);
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 0); /* sets them all aside */
    assert_int_equal(READY(f, OP(job_resume, .ref = JOB(100), .limit = 100)), 6);
}

/* Proves that a setting that goes leaves its key to the setting for all keys, at once, and nothing where there was none. */
static void test_limit_goes(void **state)
{
    struct storetest *f = *state;
    struct op own = OP(lane_limit, .ns = NS, .topic = TOPIC, .limit_key = QP_STR("a"), .max = 1);
    struct op forget =
        OP(lane_limit, .ns = NS, .topic = TOPIC, .limit_key = QP_STR("a"), .forget = true);
    conform_job(f, 100);
    (void)REFUSED(f, QP_E_NOT_FOUND, forget);
    DO(f, OP(lane_limit, .ns = NS, .topic = TOPIC, .limit_key = QP_STR("*"), .max = 2));
    DO(f, own);
    for (unsigned i = 1; i <= 4; i++) {
        struct op limited = put(i);
        limited.msg_put.limit_key = QP_STR("a");
        DO(f, limited);
    }
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 1);
    DO(f, forget);
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 1); /* as many as "*" says */
    (void)REFUSED(f, QP_E_NOT_FOUND, forget);
    DO(f, OP(lane_limit, .ns = NS, .topic = TOPIC, .limit_key = QP_STR("*"), .forget = true));
    DO(f, OP(msg_ack, .ref = HELD(1)));
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 2);
}

/* Proves that the end of one that was held counts where a limit has kept others READY, and nowhere else; and so does
 * a limit that is raised. */
static void test_ready_count_of_limits(void **state)
{
    struct storetest *f = *state;
    struct op raise = OP(lane_limit, .ns = NS, .topic = TOPIC, .limit_key = QP_STR("a"), .max = 2);
    conform_job(f, 100);
    DO(f, OP(lane_limit, .ns = NS, .topic = TOPIC, .limit_key = QP_STR("a"), .max = 1));
    for (unsigned i = 1; i <= 3; i++) {
        struct op limited = put(i);
        limited.msg_put.limit_key = QP_STR("a");
        limited.msg_put.lease_ms = 1000;
        assert_int_equal(READY(f, limited), i == 1 ? 0 : 1);
    }
    assert_int_equal(READY(f, OP(msg_ack, .ref = HELD(1))), 1);
    assert_int_equal(READY(f, raise), 1);
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 2);
    assert_int_equal(READY(f, OP(msg_ack, .ref = HELD(2))), 0);
    assert_int_equal(READY(f, raise), 0);
}

/* Proves that the bundles of a commit are counted together. */
static void test_ready_count_of_bundles(void **state)
{
    struct storetest *f = *state;
    struct commit c;
    conform_job(f, 100);
    commit_init(&c, f->s);
    for (unsigned i = 1; i <= 5; i++) {
        struct op *op = bundle_op(commit_bundle(&c, "ready"), OP_msg_put);
        assert_non_null(op);
        *op = put(i);
        op->msg_put.lease_ms = i == 3 ? 1000 : 0;
    }
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(c.ready_count, 4);
    commit_done(&c);
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_put),
    CONFORM(test_put_duplicate),
    CONFORM(test_put_invalid),
    CONFORM(test_claim_order),
    CONFORM(test_claim_gives),
    CONFORM(test_claim_invalid),
    CONFORM(test_stale_token),
    CONFORM(test_fence_counts_tries),
    CONFORM(test_token_of_a_former_life),
    CONFORM(test_late_but_alone),
    CONFORM(test_extend),
    CONFORM(test_extend_leases),
    CONFORM(test_retry),
    CONFORM(test_dead_letter),
    CONFORM(test_withdrawn),
    CONFORM(test_born_held_and_adopted),
    CONFORM(test_born_leased),
    CONFORM(test_born_claims_work),
    CONFORM(test_born_unclaimed),
    CONFORM(test_holder_is_over),
    CONFORM(test_ready_count),
    CONFORM(test_limit_goes),
    CONFORM(test_ready_count_of_limits),
    CONFORM(test_ready_count_of_bundles),
};
CONFORM_TOPIC(messages);

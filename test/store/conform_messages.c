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
    struct op bad[13];
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
    bad[12].msg_put.holder = 500;
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
    DO(f, OP(msg_claim, .ns = NS, .topic = TOPIC, .want = 1, .holder = 500));
    m = conform_msg_row(f, 100, 2);
    assert_int_equal(m->state, MSG_HELD);
    assert_int_equal(m->wake_at, 0);
    assert_int_equal(m->holder, 500);
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
        return OP(msg_bury, .ref = ref);
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
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(2), .topic = TOPIC, .holder = 500));
    DO(f, OP(msg_extend, .ref = HELD(2), .lease_ms = 1000));
    assert_int_equal(conform_msg_row(f, 100, 2)->wake_at, 0);
    (void)REFUSED(f, QP_E_INVALID, OP(msg_extend, .ref = HELD(2), .lease_ms = 0));
    (void)REFUSED(f, QP_E_INVALID, OP(msg_extend, .ref = HELD(2), .lease_ms = LIMIT_LEASE_MS + 1));
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
    DO(f, OP(msg_bury, .ref = HELD(1), .error = QP_STR("poison")),
       OP(job_set, .ref = JOB(100), .what = JOB_SET_PARKED | JOB_SET_STATUS,
          .parked = QP_STR("dead letter"), .status = STATUS_PARKED));
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

/* Proves that a message born held is its epoch's, with a token and one try, and that a dead epoch's
 * messages are given back in batches, to be claimed with a higher token. */
static void test_born_held_and_adopted(void **state)
{
    struct storetest *f = *state;
    int64_t former;
    conform_job(f, 100);
    for (unsigned i = 1; i <= 5; i++) {
        struct op op = put(i);
        op.msg_put.holder = i <= 4 ? 500 : 501;
        DO(f, op);
        assert_true(conform_msg_row(f, 100, i)->token > 0);
        assert_int_equal(conform_msg_row(f, 100, i)->tries, 1);
    }
    testenv_advance_ms(&f->t, LIMIT_LEASE_MS);
    assert_int_equal(conform_wake_due(f), 0); /* an epoch's message has no end of its own */
    for (unsigned page = 0; page < 3; page++) {
        struct op_msg_adopt out =
            RUN(f, msg_adopt, .epoch = 500, .limit = 2,
                .after = page == 0 ? (struct msg_ref){0} : MSG(100, 2 * page, 0));
        assert_int_equal(out.out_count, page < 2 ? 2 : 0);
        assert_int_equal(out.out_more, page < 2);
    }
    assert_int_equal(RUN(f, msg_adopt, .epoch = 500, .limit = 10).out_count, 0);
    former = conform_msg_row(f, 100, 1)->token;
    (void)REFUSED(f, QP_E_STALE, OP(msg_ack, .ref = MSG(100, 1, former)));
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 4);
    assert_true(conform_msg_row(f, 100, 1)->token > former);
    assert_int_equal(conform_msg_row(f, 100, 1)->tries, 2);
    DO(f, OP(msg_ack, .ref = HELD(5))); /* the other epoch lives on */
    (void)REFUSED(f, QP_E_INVALID, OP(msg_adopt, .epoch = 0, .limit = 1));
    (void)REFUSED(f, QP_E_INVALID, OP(msg_adopt, .epoch = 500, .limit = 0));
    (void)REFUSED(f, QP_E_INVALID, OP(msg_adopt, .epoch = 500, .limit = LIMIT_CLAIM_MESSAGES + 1));
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_put),
    CONFORM(test_put_duplicate),
    CONFORM(test_put_invalid),
    CONFORM(test_claim_order),
    CONFORM(test_claim_gives),
    CONFORM(test_claim_invalid),
    CONFORM(test_stale_token),
    CONFORM(test_token_of_a_former_life),
    CONFORM(test_late_but_alone),
    CONFORM(test_extend),
    CONFORM(test_retry),
    CONFORM(test_dead_letter),
    CONFORM(test_born_held_and_adopted),
};
CONFORM_TOPIC(messages);

/* conform_keys.c - only so many at a time: units, the queue, leases, tokens */
#include "store/conform.h"

#include <stdio.h>

#define NAME QP_STR("key")

/* Job `job` asks for `units` of `capacity`; its GUID is its number. */
static struct op acquire(int64_t job, int64_t units, int64_t capacity)
{
    return OP(key_acquire, .ns = NS, .name = NAME, .capacity = capacity, .units = units,
              .holder = JOB(job), .addr = QP_STR("a"), .guid = G((unsigned)job), .msg_topic = TOPIC,
              .wait = true);
}

static int64_t token_of(struct storetest *f, struct op op)
{
    return conform_run(f, op, __FILE__, __LINE__).key_acquire.out_token;
}

static struct op release(int64_t token)
{
    return OP(key_release, .ns = NS, .name = NAME, .token = token);
}

static void jobs(struct storetest *f, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        conform_job_open(f, 100 + i, 1);
    }
}

static const struct key_row *key_row(struct storetest *f)
{
    return storetest_row(f, TABLE_key, &(struct key_row){.ns = NS, .name = NAME});
}

/* The token that a waiter was sent with its message; 0 when it was not. */
static int64_t token_sent(struct storetest *f, int64_t job)
{
    const struct msg_row *m = conform_msg_row(f, job, (unsigned)job);
    int64_t token = 0;
    if (m == NULL) {
        return 0;
    }
    assert_int_equal(m->state, MSG_READY);
    assert_str(m->topic, TOPIC);
    assert_str(m->addr, QP_STR("a"));
    for (size_t i = 0; i < m->payload.n; i++) {
        token = token * 10 + (m->payload.p[i] - '0');
    }
    return token;
}

/* Proves that a key is held by one, is waited for in order, and passes on with its token in the
 * message. */
static void test_fifo(void **state)
{
    struct storetest *f = *state;
    int64_t token;
    jobs(f, 4);
    token = token_of(f, acquire(100, 1, 1));
    assert_true(token > 0);
    for (int64_t i = 101; i <= 103; i++) {
        assert_int_equal(token_of(f, acquire(i, 1, 1)), 0);
    }
    assert_int_equal(key_row(f)->waiting, 3);
    for (int64_t i = 101; i <= 103; i++) {
        int64_t former = token;
        assert_int_equal(token_sent(f, i), 0);
        DO(f, release(token));
        token = token_sent(f, i);
        assert_true(token > former);
        (void)REFUSED(f, QP_E_STALE, release(former)); /* a late release hits nobody */
        assert_int_equal(key_row(f)->held, 1);
    }
    DO(f, release(token));
    assert_null(key_row(f));
}

/* Proves that somebody who will not wait is told so, also when there is room but others wait for
 * more. */
static void test_busy(void **state)
{
    struct storetest *f = *state;
    struct op impatient = acquire(102, 1, 3);
    impatient.key_acquire.wait = false;
    jobs(f, 3);
    (void)token_of(f, acquire(100, 2, 3));
    assert_int_equal(token_of(f, acquire(101, 2, 3)), 0);
    (void)REFUSED(f, QP_E_BUSY, impatient); /* one unit is free, but 101 was first */
    impatient.key_acquire.wait = true;
    assert_int_equal(token_of(f, impatient), 0);
}

/* Proves units: as many as fit; a release wakes all who fit now, in order, and nobody overtakes the
 * one who does not. */
static void test_units(void **state)
{
    struct storetest *f = *state;
    int64_t first;
    int64_t second;
    jobs(f, 6);
    first = token_of(f, acquire(100, 2, 5));
    second = token_of(f, acquire(101, 3, 5));
    assert_true(first > 0 && second > 0);
    assert_int_equal(key_row(f)->held, 5);
    (void)token_of(f, acquire(102, 1, 5));
    (void)token_of(f, acquire(103, 1, 5));
    (void)token_of(f, acquire(104, 4, 5));
    (void)token_of(f, acquire(105, 1, 5));
    DO(f, release(second)); /* three are free: 102 and 103 fit, 104 does not, 105 stays behind it */
    assert_true(token_sent(f, 102) > 0);
    assert_true(token_sent(f, 103) > token_sent(f, 102));
    assert_int_equal(token_sent(f, 104), 0);
    assert_int_equal(token_sent(f, 105), 0);
    assert_int_equal(key_row(f)->held, 4);
    DO(f, release(first));
    assert_int_equal(token_sent(f, 104), 0);
    DO(f, release(token_sent(f, 102)));
    assert_true(token_sent(f, 104) > 0);
    assert_int_equal(key_row(f)->held, 5);
    DO(f, release(token_sent(f, 103)));
    assert_true(token_sent(f, 105) > 0);
}

static struct op release_all(int64_t token, int64_t limit)
{
    struct op op = release(token);
    op.key_release.all = true;
    op.key_release.limit = limit;
    return op;
}

static struct op_key_release released(struct storetest *f, int64_t token, int64_t limit)
{
    return conform_run(f, release_all(token, limit), __FILE__, __LINE__).key_release;
}

/* Proves that a release of all wakes every waiter in order, page by page, without making one a holder; that the key is
 * held until the last page; and that a token that does not hold changes nothing and is no error. */
static void test_release_all(void **state)
{
    struct storetest *f = *state;
    struct op_key_release page;
    int64_t token;
    jobs(f, 7);
    token = token_of(f, acquire(100, 1, 1));
    for (int64_t i = 101; i <= 105; i++) {
        assert_int_equal(token_of(f, acquire(i, 1, 1)), 0);
    }
    page = released(f, token, 2);
    assert_true(page.out_more && !page.out_lost);
    assert_non_null(conform_msg_row(f, 101, 101));
    assert_true(str_is_none(conform_msg_row(f, 102, 102)->payload));
    assert_null(conform_msg_row(f, 103, 103));
    assert_int_equal(key_row(f)->held, 1);
    assert_int_equal(key_row(f)->waiting, 3);
    assert_int_equal(token_of(f, acquire(106, 1, 1)), 0); /* it comes too, as the last */
    page = released(f, token, 3);
    assert_true(page.out_more);
    assert_null(conform_msg_row(f, 106, 106));
    page = released(f, token, 3);
    assert_false(page.out_more || page.out_lost);
    assert_non_null(conform_msg_row(f, 106, 106));
    assert_null(key_row(f));
    page = released(f, token, 3);
    assert_true(page.out_lost && !page.out_more);
    (void)REFUSED(f, QP_E_INVALID, release_all(token, 0));
}

/* Proves that a lease that ends passes the key on, once; the late holder can neither release nor
 * extend. */
static void test_lease(void **state)
{
    struct storetest *f = *state;
    struct op op = acquire(100, 1, 1);
    int64_t token;
    jobs(f, 2);
    op.key_acquire.lease_ms = 1000;
    token = token_of(f, op);
    op = acquire(101, 1, 1);
    op.key_acquire.lease_ms = 500;
    (void)token_of(f, op);
    testenv_advance_ms(&f->t, 999);
    assert_int_equal(conform_wake_due(f), 0);
    testenv_advance_ms(&f->t, 1);
    assert_int_equal(conform_wake_due(f), 1);
    assert_true(token_sent(f, 101) > token);
    (void)REFUSED(f, QP_E_STALE, release(token));
    (void)REFUSED(f, QP_E_STALE,
                  OP(key_extend, .ns = NS, .name = NAME, .token = token, .lease_ms = 1));
    testenv_advance_ms(&f->t, 499); /* the waiter's lease counts from when it got the key */
    assert_int_equal(conform_wake_due(f), 0);
    testenv_advance_ms(&f->t, 1);
    assert_int_equal(conform_wake_due(f), 1);
    assert_null(key_row(f));
}

/* Proves that extending counts from now, that a hold without a lease gets one, and the limits of
 * both. */
static void test_extend(void **state)
{
    struct storetest *f = *state;
    int64_t token;
    jobs(f, 1);
    token = token_of(f, acquire(100, 1, 1));
    testenv_advance_ms(&f->t, 10 * LIMIT_LEASE_MS);
    assert_int_equal(conform_wake_due(f), 0); /* without a lease it lasts */
    DO(f, OP(key_extend, .ns = NS, .name = NAME, .token = token, .lease_ms = 1000));
    testenv_advance_ms(&f->t, 900);
    DO(f, OP(key_extend, .ns = NS, .name = NAME, .token = token, .lease_ms = 1000));
    testenv_advance_ms(&f->t, 999);
    assert_int_equal(conform_wake_due(f), 0);
    (void)REFUSED(f, QP_E_INVALID,
                  OP(key_extend, .ns = NS, .name = NAME, .token = token, .lease_ms = 0));
    (void)REFUSED(
        f, QP_E_INVALID,
        OP(key_extend, .ns = NS, .name = NAME, .token = token, .lease_ms = LIMIT_LEASE_MS + 1));
    testenv_advance_ms(&f->t, 1);
    assert_int_equal(conform_wake_due(f), 1);
}

/* Proves that who asks again gets what it has: its token, or its place; another activity or GUID is
 * another asker. */
static void test_duplicate(void **state)
{
    struct storetest *f = *state;
    struct op other = acquire(100, 1, 2);
    int64_t token;
    jobs(f, 2);
    token = token_of(f, acquire(100, 1, 2));
    assert_int_equal(token_of(f, acquire(100, 1, 2)), token);
    assert_int_equal(key_row(f)->held, 1);
    other.key_acquire.addr = QP_STR("b");
    assert_true(token_of(f, other) > token);
    assert_int_equal(token_of(f, acquire(101, 1, 2)), 0);
    assert_int_equal(token_of(f, acquire(101, 1, 2)), 0);
    assert_int_equal(key_row(f)->waiting, 1);
    DO(f, release(token));
    assert_int_equal(token_of(f, acquire(101, 1, 2)), token_sent(f, 101));
    assert_int_equal(key_row(f)->held, 2);
}

/* Proves the same of holders that are no job: they are known by their GUID. */
static void test_duplicate_without_job(void **state)
{
    struct storetest *f = *state;
    struct op one = acquire(0, 1, 1);
    struct op two = acquire(0, 1, 1);
    int64_t token;
    one.key_acquire.lease_ms = 1000;
    two.key_acquire.lease_ms = 1000;
    two.key_acquire.guid = G(2);
    token = token_of(f, one);
    assert_true(token > 0);
    assert_int_equal(token_of(f, one), token);
    assert_int_equal(token_of(f, two), 0);
    assert_int_equal(token_of(f, two), 0);
    assert_int_equal(key_row(f)->held, 1);
    assert_int_equal(key_row(f)->waiting, 1);
    DO(f, release(token));
    assert_int_equal(conform_msg_row(f, 0, 2)->owner, OWNER_SYSTEM);
}

/* Proves that namespaces, scopes and names are keys of their own. */
static void test_apart(void **state)
{
    struct storetest *f = *state;
    struct op op = acquire(100, 1, 1);
    jobs(f, 2);
    assert_true(token_of(f, op) > 0);
    op = acquire(101, 1, 1);
    op.key_acquire.scope = 101;
    assert_true(token_of(f, op) > 0);
    op = acquire(101, 1, 1);
    op.key_acquire.name = QP_STR("other");
    assert_true(token_of(f, op) > 0);
    assert_int_equal(token_of(f, acquire(101, 1, 1)), 0);
    assert_int_equal(storetest_count(f, TABLE_key), 3);
}

/* Proves that the sweep of a closed job passes its keys on and takes its places: those behind it
 * come forward. */
static void test_sweep_passes_on(void **state)
{
    struct storetest *f = *state;
    jobs(f, 4);
    (void)token_of(f, acquire(100, 2, 3));
    (void)token_of(f, acquire(101, 3, 3));
    (void)token_of(f, acquire(102, 1, 3));
    (void)token_of(f, acquire(103, 2, 3));
    DO(f, OP(job_close, .ref = JOB(101), .guid = G(7), .state = JOB_FAILED),
       OP(job_sweep, .ref = JOB(101), .limit = 100));
    assert_true(token_sent(f, 102) > 0); /* it had been behind one that did not fit */
    assert_int_equal(token_sent(f, 103), 0);
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(7), .state = JOB_FAILED),
       OP(job_sweep, .ref = JOB(100), .limit = 100));
    assert_true(token_sent(f, 103) > 0);
    assert_int_equal(key_row(f)->held, 3);
}

/* Proves that a later asker's capacity is the key's: less keeps newcomers out, more lets them
 * in. */
static void test_capacity_changes(void **state)
{
    struct storetest *f = *state;
    jobs(f, 4);
    (void)token_of(f, acquire(100, 1, 2));
    assert_true(token_of(f, acquire(101, 1, 2)) > 0);
    assert_int_equal(token_of(f, acquire(102, 1, 1)), 0);
    assert_int_equal(key_row(f)->capacity, 1);
    DO(f, release(token_of(f, acquire(100, 1, 1))));
    assert_int_equal(token_sent(f, 102), 0); /* one is still held, of one */
    DO(f, release(token_of(f, acquire(101, 1, 1))));
    assert_true(token_sent(f, 102) > 0);
    assert_true(token_of(f, acquire(103, 1, 2)) > 0);
}

/* Proves what none of them takes. */
static void test_invalid(void **state)
{
    static char bytes[LIMIT_ID_SIZE + 1];
    struct storetest *f = *state;
    struct op bad[13];
    memset(bytes, 'x', sizeof bytes);
    jobs(f, 1);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        bad[i] = acquire(100, 1, 1);
    }
    bad[0].key_acquire.name = QP_NONE;
    bad[1].key_acquire.name = (qp_str){bytes, sizeof bytes};
    bad[2].key_acquire.capacity = 0;
    bad[3].key_acquire.units = 0;
    bad[4].key_acquire.units = 2;
    bad[5].key_acquire.guid = QP_NONE;
    bad[6].key_acquire.lease_ms = -1;
    bad[7].key_acquire.lease_ms = LIMIT_LEASE_MS + 1;
    bad[8].key_acquire.holder.ns = NS + 1;
    bad[9].key_acquire.scope = -1;
    bad[10].key_acquire.msg_topic = QP_NONE; /* it would wait and never hear */
    bad[11].key_acquire.holder.job = 0;      /* without a job, only a lease ends it */
    bad[12].key_acquire.msg_topic = (qp_str){bytes, LIMIT_NAME_SIZE + 1};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        (void)REFUSED(f, QP_E_INVALID, bad[i]);
    }
    (void)REFUSED(f, QP_E_NOT_FOUND, acquire(101, 1, 1));
    (void)REFUSED(f, QP_E_STALE, release(1));
    (void)REFUSED(f, QP_E_STALE, OP(key_extend, .ns = NS, .name = NAME, .token = 1, .lease_ms = 1));
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_fifo),
    CONFORM(test_busy),
    CONFORM(test_units),
    CONFORM(test_release_all),
    CONFORM(test_lease),
    CONFORM(test_extend),
    CONFORM(test_duplicate),
    CONFORM(test_apart),
    CONFORM(test_sweep_passes_on),
    CONFORM(test_capacity_changes),
    CONFORM(test_invalid),
    CONFORM(test_duplicate_without_job),
};
CONFORM_TOPIC(keys);

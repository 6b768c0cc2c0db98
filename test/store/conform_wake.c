/* conform_wake.c - what is due by the store's clock, once and not early; and the clock itself (I6
 * of store.h) */
#include "store/conform.h"

static void timer(struct storetest *f, unsigned guid, int64_t delay_ms)
{
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(guid), .topic = TOPIC, .delay_ms = delay_ms));
}

/* Proves that a timer is not visible before its time, fires once at it, and is a message from then
 * on. */
static void test_timer(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    timer(f, 1, 1000);
    assert_int_equal(conform_msg_row(f, 100, 1)->state, MSG_DELAYED);
    testenv_advance_ms(&f->t, 999);
    assert_int_equal(conform_wake_due(f), 0);
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 0);
    testenv_advance_ms(&f->t, 1);
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 0); /* waking is what makes it ready */
    assert_int_equal(conform_wake_due(f), 1);
    assert_int_equal(conform_wake_due(f), 0);
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 1);
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 0);
}

/* Proves that a timer survives a restart, and fires after it when its time came meanwhile. */
static void test_timer_survives(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    timer(f, 1, LIMIT_TIMER_MS);
    timer(f, 2, 1000);
    storetest_reopen(f);
    assert_int_equal(conform_wake_due(f), 0);
    testenv_advance_ms(&f->t, 1000);
    storetest_reopen(f);
    assert_int_equal(conform_wake_due(f), 1);
    testenv_advance_ms(&f->t, LIMIT_TIMER_MS - 1001);
    assert_int_equal(conform_wake_due(f), 0);
    testenv_advance_ms(&f->t, 1);
    assert_int_equal(conform_wake_due(f), 1);
}

/* Proves that a lease ends by the clock, not before it is due, and gives the message back with its
 * token unchanged. */
static void test_lease(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    conform_put(f, 100, 1);
    (void)conform_claim(f, NS, 1, 1000, NULL);
    testenv_advance_ms(&f->t, 999);
    assert_int_equal(conform_wake_due(f), 0);
    assert_int_equal(conform_msg_row(f, 100, 1)->state, MSG_HELD);
    testenv_advance_ms(&f->t, 1);
    assert_int_equal(conform_wake_due(f), 1);
    assert_int_equal(conform_msg_row(f, 100, 1)->state, MSG_READY);
    assert_true(conform_msg_row(f, 100, 1)->token > 0);
    assert_int_equal(conform_wake_due(f), 0);
}

/* Proves that the earliest are woken first, up to the limit, and that the rest is announced. */
static void test_batches(void **state)
{
    struct storetest *f = *state;
    struct op_wake out;
    conform_job(f, 100);
    for (unsigned i = 1; i <= 5; i++) {
        timer(f, i, 100 - (int64_t)i);
    }
    testenv_advance_ms(&f->t, 100);
    out = RUN(f, wake, .limit = 2);
    assert_int_equal(out.out_count, 2);
    assert_true(out.out_more);
    assert_int_equal(conform_msg_row(f, 100, 5)->state, MSG_READY);
    assert_int_equal(conform_msg_row(f, 100, 4)->state, MSG_READY);
    assert_int_equal(conform_msg_row(f, 100, 3)->state, MSG_DELAYED);
    assert_int_equal(RUN(f, wake, .limit = 2).out_count, 2);
    out = RUN(f, wake, .limit = 2);
    assert_int_equal(out.out_count, 1);
    assert_false(out.out_more);
    (void)REFUSED(f, QP_E_INVALID, OP(wake, .limit = 0));
    (void)REFUSED(f, QP_E_INVALID, OP(wake, .limit = LIMIT_WAKE_MESSAGES + 1));
}

/* Proves that a lease that ended at lost_from or later stays with its token, for as long as asked, and that one that ended
 * earlier gives its message back; both are told. */
static void test_lost(void **state)
{
    struct storetest *f = *state;
    struct op_wake out;
    int64_t token;
    qp_ms end;
    conform_job(f, 100);
    conform_put(f, 100, 1);
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 1);
    testenv_advance_ms(&f->t, 500);
    conform_put(f, 100, 2);
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 1);
    end = conform_msg_row(f, 100, 2)->wake_at;
    token = conform_msg_row(f, 100, 2)->token;
    testenv_advance_ms(&f->t, 1000);
    out = RUN(f, wake, .limit = 10, .lost_from = end, .lost_ms = 70);
    assert_int_equal(out.out_count, 2);
    assert_int_equal(out.out_leases, 2);
    assert_int_equal(conform_msg_row(f, 100, 1)->state, MSG_READY);
    assert_int_equal(conform_msg_row(f, 100, 2)->state, MSG_HELD);
    assert_int_equal(conform_msg_row(f, 100, 2)->token, token);
    assert_int_equal(conform_msg_row(f, 100, 2)->wake_at, store_now(f->s) + 70);
    assert_int_equal(RUN(f, wake, .limit = 10, .lost_from = end, .lost_ms = 70).out_count, 0);
    testenv_advance_ms(&f->t, 70);
    out = RUN(f, wake, .limit = 10);
    assert_int_equal(out.out_leases, 1);
    assert_int_equal(conform_msg_row(f, 100, 2)->state, MSG_READY);
    (void)REFUSED(f, QP_E_INVALID, OP(wake, .limit = 1, .lost_ms = -1));
    (void)REFUSED(f, QP_E_INVALID, OP(wake, .limit = 1, .lost_ms = LIMIT_LEASE_MS + 1));
}

static void put_limited(struct storetest *f, unsigned guid, qp_str limits)
{
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(guid), .topic = TOPIC, .limits = limits));
}

static const struct msg_row *row(struct storetest *f)
{
    return conform_msg_row(f, 100, 1);
}

/* Proves that a READY message has its start limit, that the claim for the engine gives it a token and a try, that its row
 * tells why until it is settled, and that the limit begins again whenever the message becomes READY. */
static void test_start_limit(void **state)
{
    struct storetest *f = *state;
    struct op_wake out;
    struct msg_ref ref;
    conform_job(f, 100);
    put_limited(f, 1, QP_STR("start=300,run=1000"));
    assert_int_equal(row(f)->wake_at, store_now(f->s) + 300);
    testenv_advance_ms(&f->t, 299);
    assert_int_equal(RUN(f, wake, .limit = 10, .lost_ms = 70).out_count, 0);
    testenv_advance_ms(&f->t, 1);
    out = RUN(f, wake, .limit = 10, .lost_ms = 70, .lost_from = INT64_MAX);
    assert_int_equal(out.out_leases, 1);
    assert_int_equal(row(f)->state, MSG_HELD);
    assert_int_equal(row(f)->deadline, DEADLINE_UNSTARTED);
    assert_int_equal(row(f)->tries, 1);
    assert_int_equal(row(f)->wake_at, store_now(f->s) + 70);
    ref = (struct msg_ref){NS, 100, G(1), row(f)->token};
    (void)REFUSED(f, QP_E_STALE, OP(msg_extend, .ref = ref, .lease_ms = 1000));
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 0);
    testenv_advance_ms(&f->t, 70);
    out = RUN(f, wake, .limit = 10, .lost_ms = 70, .lost_from = INT64_MAX);
    assert_int_equal(out.out_leases, 1); /* it was not settled: told again */
    assert_int_equal(row(f)->tries, 1);
    DO(f, OP(msg_retry, .ref = ref));
    assert_int_equal(row(f)->deadline, 0);
    assert_int_equal(row(f)->wake_at, store_now(f->s) + 300);
    DO(f, OP(job_pause, .ref = JOB(100)));
    testenv_advance_ms(&f->t, 300);
    assert_int_equal(RUN(f, wake, .limit = 10, .lost_ms = 70).out_leases, 0);
    assert_int_equal(row(f)->state, MSG_ASIDE);
    testenv_advance_ms(&f->t, 5000);
    DO(f, OP(job_resume, .ref = JOB(100), .limit = 10));
    assert_int_equal(row(f)->wake_at, store_now(f->s) + 300);
    testenv_advance_ms(&f->t, 300);
    assert_int_equal(RUN(f, wake, .limit = 10).out_leases, 0); /* nobody would settle it */
    assert_int_equal(row(f)->state, MSG_READY);
    assert_int_equal(row(f)->wake_at, store_now(f->s) + 300);
}

/* Proves that beats move the end of the beat limit, which takes the place of the lease, but not the end of the attempt;
 * that a beat limit has the excuses of a lease and the end of the attempt has none; and that nothing is extended after it. */
static void test_run_and_beat_limits(void **state)
{
    struct storetest *f = *state;
    struct msg_ref ref = {NS, 100, G(1), 0};
    qp_ms begun;
    conform_job(f, 100);
    put_limited(f, 1, QP_STR("run=1000,beat=400"));
    assert_int_equal(row(f)->wake_at, 0);
    assert_int_equal(conform_claim(f, NS, 1, 60000, NULL), 1);
    begun = store_now(f->s);
    ref.token = row(f)->token;
    assert_int_equal(row(f)->wake_at, begun + 400);
    assert_int_equal(row(f)->deadline, begun + 1000);
    testenv_advance_ms(&f->t, 300);
    assert_int_equal(RUN(f, msg_extend, .ref = ref, .lease_ms = 60000).out_until, begun + 700);
    testenv_advance_ms(&f->t, 350);
    assert_int_equal(RUN(f, msg_extend, .ref = ref, .lease_ms = 60000).out_until, begun + 1000);
    assert_int_equal(
        RUN(f, msg_extend, .ref = ref, .lease_ms = 1, .begun_at = begun + 100).out_until,
        begun + 1050);
    testenv_advance_ms(&f->t, 450);
    (void)REFUSED(f, QP_E_STALE, OP(msg_extend, .ref = ref, .lease_ms = 60000));
    assert_int_equal(RUN(f, wake, .limit = 10, .lost_ms = 70, .lost_from = INT64_MAX).out_leases,
                     1);
    assert_int_equal(row(f)->wake_at, begun + 1100 + 70);
    assert_int_equal(row(f)->token, ref.token);
    DO(f, OP(msg_retry, .ref = ref));
    assert_int_equal(conform_claim(f, NS, 1, 60000, NULL), 1);
    testenv_advance_ms(&f->t, 400);
    assert_int_equal(RUN(f, wake, .limit = 10, .lost_ms = 70, .lost_from = INT64_MAX).out_leases,
                     1);
    assert_int_equal(row(f)->state, MSG_READY); /* nobody is blamed for its silence */
    assert_int_equal(row(f)->deadline, 0);
    (void)REFUSED(
        f, QP_E_INVALID,
        OP(msg_put, .ref = JOB(100), .guid = G(9), .topic = TOPIC, .limits = QP_STR("run=0")));
    (void)REFUSED(f, QP_E_INVALID,
                  OP(msg_put, .ref = JOB(100), .guid = G(9), .topic = TOPIC,
                     .limits = QP_STR("beat=1,run=1")));
}

/* One of each kind of thing that can be due, at 1000 ms. */
static void all_kinds(struct storetest *f)
{
    conform_job(f, 100);
    timer(f, 1, 1000);
    conform_put(f, 100, 2);
    assert_int_equal(conform_claim(f, NS, 1, 1000, NULL), 1);
    DO(f, OP(key_acquire, .ns = NS, .name = QP_STR("k"), .capacity = 1, .units = 1,
             .holder = JOB(100), .guid = G(3), .lease_ms = 1000));
    DO(f, OP(hook_signal, .ns = NS, .topic = QP_STR("h"), .key = QP_STR("k"), .guid = G(4),
             .ttl_ms = 1000));
    DO(f, OP(idem_put, .ns = NS, .key = QP_STR("i"), .ttl_ms = 1000));
}

/* Proves that one sweep knows all that can be due: timer, lease, key, signal, idempotency record;
 * and that a limit that falls between two kinds loses nothing. */
static void test_all_kinds(void **state)
{
    struct storetest *f = *state;
    int64_t woken = 0;
    bool more = true;
    all_kinds(f);
    testenv_advance_ms(&f->t, 999);
    assert_int_equal(conform_wake_due(f), 0);
    testenv_advance_ms(&f->t, 1);
    while (more) {
        struct op_wake out = RUN(f, wake, .limit = 2);
        woken += out.out_count;
        more = out.out_more;
    }
    assert_int_equal(woken, 5);
    assert_int_equal(storetest_count(f, TABLE_key_hold), 0);
    assert_int_equal(storetest_count(f, TABLE_hook_sig), 0);
    assert_int_equal(storetest_count(f, TABLE_idem), 0);
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 2);
}

/* Proves that a sweep that finds nothing writes nothing. */
static void test_nothing_due(void **state)
{
    struct storetest *f = *state;
    int64_t commits;
    all_kinds(f);
    commits = conform_info(f).commits;
    assert_int_equal(conform_wake_due(f), 0);
    assert_int_equal(conform_info(f).commits, commits);
}

/* ------------------------------------------------------------------------------------ the clock */

static void set_back(struct storetest *f, int64_t ms)
{
    f->t.now_ms -= ms;
}

#define DAY_MS INT64_C(86400000)

/* The clock has gone on by what has passed, but for the part by which it comes nearer to the wall: `sign` says
 * in which direction. A millisecond that has begun is not counted. */
static void expect_passed(qp_ms from, qp_ms to, int64_t passed, int sign)
{
    int64_t off = sign * (to - from - passed);
    assert_true(off >= 0);
    assert_true(off <= passed / LIMIT_CLOCK_SLEW + 1);
}

/* Proves that a step of the wall clock, back by a day or forward by a day, neither stops nor slows nor hurries
 * the clock, whatever the rhythm in which it is asked. Forward, a clock that many share is followed. */
static void test_clock_step(void **state)
{
    static const int64_t steps[] = {1000, 3, 1, 7};
    struct storetest *f = *state;
    bool shared = conform_info(f).shared;
    for (size_t i = 0; i < 2 * ARRAY_COUNT(steps); i++) {
        int64_t step = steps[i / 2];
        int sign = i % 2 == 0 ? -1 : 1;
        int64_t passed = 0;
        qp_ms start;
        if (shared && sign > 0) {
            continue;
        }
        storetest_reopen(f);
        start = store_now(f->s);
        f->t.now_ms = start; /* they agree */
        assert_int_equal(store_now(f->s), start);
        f->t.now_ms += sign * DAY_MS;
        assert_int_equal(store_now(f->s), start);
        while (passed < 10000) {
            qp_ms before = store_now(f->s);
            testenv_advance_ms(&f->t, step);
            passed += step;
            assert_true(store_now(f->s) >= before);
            expect_passed(start, store_now(f->s), passed, sign);
        }
    }
}

/* Proves that it comes back to the wall in the end, from both sides, and stays there. */
static void test_clock_catches_up(void **state)
{
    struct storetest *f = *state;
    for (int i = 0; i < 2; i++) {
        f->t.now_ms = store_now(f->s) + (i == 0 ? -5000 : 5000);
        for (int64_t passed = 0; passed < 5000 * LIMIT_CLOCK_SLEW; passed += 500) {
            (void)store_now(f->s);
            testenv_advance_ms(&f->t, 500);
        }
        assert_int_equal(store_now(f->s), f->t.now_ms);
        testenv_advance_ms(&f->t, 1234);
        assert_int_equal(store_now(f->s), f->t.now_ms);
    }
}

/* Proves that a commit's time outlives the process: opened again under a wall clock that was set
 * back, the store goes on from where it was. */
static void test_clock_survives(void **state)
{
    struct storetest *f = *state;
    qp_ms before;
    conform_job(f, 100);
    testenv_advance_ms(&f->t, 5000);
    DO(f, OP(event_add, .ref = JOB(100), .kind = 1));
    before = store_now(f->s);
    set_back(f, 3600000);
    storetest_reopen(f);
    assert_int_equal(store_now(f->s), before);
    testenv_advance_ms(&f->t, 1000);
    expect_passed(before, store_now(f->s), 1000, -1);
    DO(f, OP(event_add, .ref = JOB(100), .kind = 1));
    assert_int_equal(conform_job_row(f, 100)->updated_at, store_now(f->s));
}

/* Proves that timers and leases are judged by that clock: a wall clock that goes back, or forward by a day,
 * neither stops nor repeats them, and none of them is early or late by more than the slew. */
static void test_clock_judges_timers(void **state)
{
    struct storetest *f = *state;
    unsigned kinds = conform_info(f).shared ? 1 : 2;
    conform_job(f, 100);
    for (unsigned i = 0; i < kinds; i++) {
        conform_put(f, 100, 1 + 10 * i);
        (void)conform_claim(f, NS, 1, 1000, NULL);
        timer(f, 2 + 10 * i, 1000);
        f->t.now_ms += i == 0 ? -DAY_MS : 2 * DAY_MS;
        testenv_advance_ms(&f->t, 1000 - 1000 / LIMIT_CLOCK_SLEW - 1);
        assert_int_equal(conform_wake_due(f), 0);
        testenv_advance_ms(&f->t, 2 * 1000 / LIMIT_CLOCK_SLEW + 2);
        assert_int_equal(conform_wake_due(f), 2);
        assert_int_equal(conform_wake_due(f), 0);
        testenv_advance_ms(&f->t, DAY_MS * 100); /* what it woke is of no more interest */
        (void)conform_wake_due(f);
    }
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_timer),
    CONFORM(test_timer_survives),
    CONFORM(test_lease),
    CONFORM(test_batches),
    CONFORM(test_lost),
    CONFORM(test_start_limit),
    CONFORM(test_run_and_beat_limits),
    CONFORM(test_all_kinds),
    CONFORM(test_nothing_due),
    CONFORM(test_clock_step),
    CONFORM(test_clock_catches_up),
    CONFORM(test_clock_survives),
    CONFORM(test_clock_judges_timers),
};
CONFORM_TOPIC(wake);

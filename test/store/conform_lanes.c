/* conform_lanes.c - how many of a limit key at once, whose turn it is, and jobs that are paused */
#include "store/conform.h"

static void put(struct storetest *f, unsigned guid, const char *limit_key)
{
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(guid), .topic = TOPIC,
             .limit_key = str_from(limit_key)));
}

static void limit(struct storetest *f, const char *limit_key, int64_t max)
{
    DO(f, OP(lane_limit, .ns = NS, .topic = TOPIC, .limit_key = str_from(limit_key), .max = max));
}

/* The one message that is claimed next. */
static unsigned next(struct storetest *f)
{
    unsigned guid = 0;
    assert_int_equal(conform_claim(f, NS, 1, 1000, &guid), 1);
    return guid;
}

static void ack(struct storetest *f, unsigned guid)
{
    DO(f, OP(msg_ack, .ref = MSG(100, guid, conform_msg_row(f, 100, guid)->token)));
}

/* Proves that at most `max` of a key are held at once, by one claim or by several, and that an end
 * makes room. */
static void test_limit(void **state)
{
    struct storetest *f = *state;
    unsigned got[10];
    conform_job(f, 100);
    limit(f, "a", 2);
    for (unsigned i = 1; i <= 5; i++) {
        put(f, i, "a");
    }
    assert_int_equal(conform_claim(f, NS, 10, 1000, got), 2);
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 0);
    ack(f, got[0]);
    assert_int_equal(conform_claim(f, NS, 10, 1000, got), 1);
    assert_int_equal(got[0], 3);
    DO(f, OP(msg_retry, .ref = HELD(2), .delay_ms = 1));
    assert_int_equal(next(f), 4);
    limit(f, "a", 0);
    assert_int_equal(next(f), 5);
    limit(f, "a", 1); /* three are held: nobody is thrown out, nobody comes in */
    put(f, 6, "a");
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 0);
    ack(f, 3);
    ack(f, 4);
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 0);
    ack(f, 5);
    assert_int_equal(next(f), 6);
}

/* A message that its sender would like to hold at once. */
static int64_t put_held(struct storetest *f, unsigned guid, const char *limit_key)
{
    struct op op = OP(msg_put, .ref = JOB(100), .guid = G(guid), .topic = TOPIC,
                      .limit_key = str_from(limit_key), .lease_ms = 1000);
    DO(f, op);
    return conform_msg_row(f, 100, guid)->state;
}

/* Proves that to be born held is a claim: it obeys the limit of its key, also one without a key, and does not overtake
 * what is READY there. What may not be held is READY, without a try. */
static void test_limit_at_birth(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    limit(f, "*", 2);
    limit(f, NULL, 1);
    assert_int_equal(put_held(f, 1, "a"), MSG_HELD);
    assert_int_equal(put_held(f, 2, "a"), MSG_HELD);
    assert_int_equal(put_held(f, 3, "a"), MSG_READY);
    assert_int_equal(conform_msg_row(f, 100, 3)->tries, 0);
    assert_int_equal(conform_msg_row(f, 100, 3)->token, 0);
    assert_int_equal(put_held(f, 4, "b"), MSG_HELD);
    assert_int_equal(put_held(f, 5, NULL), MSG_HELD);
    assert_int_equal(put_held(f, 6, NULL), MSG_READY);
    ack(f, 1);
    assert_int_equal(put_held(f, 7, "a"), MSG_READY); /* 3 is first */
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR("a"))->held, 1);
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR("a"))->ready, 2);
    assert_int_equal(next(f), 3);
    limit(f, "*", 1); /* reaches the key with the next claim, however it was left */
    ack(f, 2);
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 0);
}

/* Proves that "*" is what keys without a setting of their own get, and messages without a key do
 * not. */
static void test_default_limit(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    limit(f, "*", 1);
    limit(f, "own", 2);
    for (unsigned i = 0; i < 3; i++) {
        put(f, 10 + i, "a");
        put(f, 20 + i, "b");
        put(f, 30 + i, "own");
        put(f, 40 + i, NULL);
    }
    assert_int_equal(conform_claim(f, NS, 100, 1000, NULL), 1 + 1 + 2 + 3);
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR("a"))->held, 1);
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR("b"))->held, 1);
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR("own"))->held, 2);
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR(""))->held, 3);
}

/* Proves that a key that is empty leaves nothing behind but a setting of its own, and that a key
 * takes the default that holds when it fills. */
static void test_lanes_come_and_go(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    limit(f, "*", 1);
    limit(f, "own", 2);
    put(f, 1, "a");
    put(f, 2, "own");
    ack(f, next(f));
    ack(f, next(f));
    assert_null(conform_lane_row(f, TOPIC, QP_STR("a")));
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR("own"))->max, 2);
    limit(f, "*", 3);
    put(f, 1, "a");
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR("a"))->max, 3);
}

/* Proves that the setting for all keys reaches a key that is already full with its next message,
 * and that a key's own setting stays, also when it is the same and the key has run empty. */
static void test_default_changes(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    limit(f, "*", 1);
    limit(f, "own", 1);
    put(f, 1, "a");
    put(f, 2, "own");
    limit(f, "*", 3);
    put(f, 3, "a");
    put(f, 4, "own");
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR("a"))->max, 3);
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR("own"))->max, 1);
    for (int i = 0; i < 4; i++) {
        ack(f, next(f));
    }
    assert_null(conform_lane_row(f, TOPIC, QP_STR("a")));
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR("own"))->max, 1);
}

/* Proves what lane_limit does not take. */
static void test_limit_invalid(void **state)
{
    static char bytes[LIMIT_ID_SIZE + 1];
    struct storetest *f = *state;
    memset(bytes, 'x', sizeof bytes);
    (void)REFUSED(f, QP_E_INVALID, OP(lane_limit, .ns = NS, .topic = TOPIC, .max = -1));
    (void)REFUSED(f, QP_E_INVALID, OP(lane_limit, .ns = NS, .max = 1));
    (void)REFUSED(f, QP_E_INVALID, OP(lane_limit, .ns = NS, .topic = {bytes, LIMIT_NAME_SIZE + 1}));
    (void)REFUSED(
        f, QP_E_INVALID,
        OP(lane_limit, .ns = NS, .topic = TOPIC, .limit_key = {bytes, LIMIT_ID_SIZE + 1}));
}

/* Proves rotation: single claims go round the keys, one of each in turn, however many a key has. */
static void test_rotation(void **state)
{
    struct storetest *f = *state;
    unsigned turns[9];
    conform_job(f, 100);
    for (unsigned i = 0; i < 3; i++) {
        put(f, 10 + i, "a");
        put(f, 20 + i, "b");
        put(f, 30 + i, "c");
    }
    for (size_t i = 0; i < ARRAY_COUNT(turns); i++) {
        turns[i] = next(f);
    }
    for (size_t i = 0; i < ARRAY_COUNT(turns); i++) {
        assert_int_equal(turns[i] / 10, turns[i % 3] / 10); /* the same round again */
        assert_int_equal(turns[i] % 10, i / 3);             /* oldest first */
    }
    assert_int_not_equal(turns[0] / 10, turns[1] / 10);
    assert_int_not_equal(turns[1] / 10, turns[2] / 10);
    assert_int_not_equal(turns[0] / 10, turns[2] / 10);
}

/* Proves that no key starves: one that drains and fills again does not overtake one that has
 * waited. */
static void test_rotation_does_not_starve(void **state)
{
    struct storetest *f = *state;
    unsigned of_a = 0;
    conform_job(f, 100);
    for (unsigned i = 0; i < 8; i++) {
        put(f, 100 + i, "a");
    }
    put(f, 200, "b");
    for (unsigned i = 1; i <= 8; i++) {
        unsigned got = next(f);
        of_a += got < 200;
        ack(f, got);
        if (got >= 200) { /* drained, and filled again */
            put(f, 200 + i, "b");
        }
    }
    assert_in_range(of_a, 3, 5);
}

/* Proves that one claim for many shares evenly among the keys, and gives what is left to those that
 * have more. */
static void test_shares(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    for (unsigned i = 0; i < 9; i++) {
        put(f, 100 + i, "a");
        if (i < 1) {
            put(f, 200 + i, "b");
        }
        if (i < 4) {
            put(f, 300 + i, "c");
        }
    }
    assert_int_equal(conform_claim(f, NS, 9, 1000, NULL), 9);
    assert_null(conform_msg_row(f, 100, 999));
    assert_int_equal(conform_lane_row(f, TOPIC, QP_STR("b"))->held, 1);
    assert_true(conform_lane_row(f, TOPIC, QP_STR("a"))->held >= 3);
    assert_true(conform_lane_row(f, TOPIC, QP_STR("c"))->held >= 3);
}

/* Proves that namespace 0 claims from all of them, and any other from its own alone. */
static void test_any_namespace(void **state)
{
    struct storetest *f = *state;
    int64_t other = RUN(f, space_create, .name = QP_STR("other")).out_ns;
    conform_job(f, 100);
    DO(f, OP(job_create, .ref = {other, 200}, .jid = QP_STR("x"), .workflow = QP_STR("order")));
    for (unsigned i = 0; i < 2; i++) {
        put(f, 10 + i, NULL);
        DO(f, OP(msg_put, .ref = {other, 200}, .guid = G(20 + i), .topic = TOPIC));
        DO(f, OP(msg_put, .ref = {other, 200}, .guid = G(30 + i), .topic = QP_STR("else")));
    }
    assert_int_equal(next(f), 10);
    assert_int_equal(conform_claim(f, other, 1, 1000, NULL), 1);
    assert_int_equal(conform_claim(f, 0, 10, 1000, NULL), 2);
    assert_int_equal(conform_claim(f, 0, 10, 1000, NULL), 0);
}

/* Proves that messages of a paused job are set aside by the claim that meets them, that the claim
 * goes on to others, and that new ones are born aside. */
static void test_paused(void **state)
{
    struct storetest *f = *state;
    unsigned got[4];
    conform_job(f, 100);
    conform_job(f, 101);
    put(f, 1, NULL);
    put(f, 2, NULL);
    conform_put(f, 101, 3);
    DO(f, OP(job_pause, .ref = JOB(100)));
    put(f, 4, NULL);
    assert_int_equal(conform_msg_row(f, 100, 1)->state, MSG_READY); /* nobody has met it yet */
    assert_int_equal(conform_msg_row(f, 100, 4)->state, MSG_ASIDE);
    assert_int_equal(conform_claim(f, NS, 1, 1000, got), 1);
    assert_int_equal(got[0], 3);
    assert_int_equal(conform_msg_row(f, 100, 1)->state, MSG_ASIDE);
    assert_int_equal(conform_msg_row(f, 100, 1)->tries, 0);
    assert_int_equal(conform_claim(f, NS, 10, 1000, got), 0);
}

/* Proves that a pause which is for tasks alone spares the stream of engines, whatever brings a message there. */
static void test_paused_tasks(void **state)
{
    struct storetest *f = *state;
    int64_t epoch = conform_epoch(f);
    conform_job(f, 100);
    put(f, 1, NULL);
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(2), .topic = ENGINE_TOPIC));
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(3), .topic = ENGINE_TOPIC, .delay_ms = 10));
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(4), .topic = TOPIC, .delay_ms = 10));
    DO(f, OP(job_pause, .ref = JOB(100), .tasks = true));
    assert_int_equal(conform_job_row(f, 100)->paused, PAUSE_TASKS);
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(5), .topic = ENGINE_TOPIC, .holder = epoch),
       OP(msg_put, .ref = JOB(100), .guid = G(6), .topic = TOPIC, .holder = epoch));
    assert_int_equal(conform_msg_row(f, 100, 5)->state, MSG_HELD);
    testenv_advance_ms(&f->t, 10);
    assert_int_equal(conform_wake_due(f), 2);
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 0);
    assert_int_equal(conform_msg_row(f, 100, 1)->state, MSG_ASIDE);
    assert_int_equal(conform_msg_row(f, 100, 4)->state, MSG_ASIDE);
    assert_int_equal(conform_msg_row(f, 100, 6)->state, MSG_ASIDE);
    assert_int_equal(
        RUN(f, msg_claim, .ns = NS, .topic = ENGINE_TOPIC, .want = 10, .lease_ms = 1000).out_count,
        2);
    assert_false(RUN(f, job_resume, .ref = JOB(100), .limit = 10).out_more);
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 3);
}

/* Proves that resuming brings everything back, in batches of any size, in the old order. */
static void test_resume_in_batches(void **state)
{
    static const int64_t limits[] = {1, 2, 5, 100};
    struct storetest *f = *state;
    conform_job(f, 100);
    for (unsigned i = 1; i <= 5; i++) {
        put(f, i, NULL);
    }
    for (size_t i = 0; i < ARRAY_COUNT(limits); i++) {
        int64_t calls = 1;
        DO(f, OP(job_pause, .ref = JOB(100)));
        assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 0);
        assert_int_equal(conform_lane_row(f, TOPIC, QP_STR(""))->ready, 0);
        while (RUN(f, job_resume, .ref = JOB(100), .limit = limits[i]).out_more) {
            calls++;
        }
        assert_true(calls <= 5 / limits[i] + 1);
        assert_int_equal(conform_lane_row(f, TOPIC, QP_STR(""))->ready, 5);
    }
    for (unsigned i = 1; i <= 5; i++) {
        assert_int_equal(next(f), i);
    }
}

/* Proves that whatever brings a message of a paused job back, be it a timer, the end of a lease, a
 * retry, a revival or an adoption, sets it aside. */
static void test_paused_is_aside(void **state)
{
    struct storetest *f = *state;
    int64_t epoch = conform_epoch(f);
    conform_job(f, 100);
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(1), .topic = TOPIC, .delay_ms = 10));
    for (unsigned i = 2; i <= 5; i++) {
        put(f, i, NULL);
        assert_int_equal(next(f), i);
    }
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(6), .topic = TOPIC, .holder = epoch));
    DO(f, OP(msg_dead_letter, .ref = HELD(4)));
    DO(f, OP(job_pause, .ref = JOB(100)));
    DO(f, OP(msg_retry, .ref = HELD(3)), OP(msg_revive, .ref = MSG(100, 4, 0)),
       OP(msg_retry, .ref = HELD(5), .delay_ms = 20), OP(msg_adopt, .epoch = epoch, .limit = 10));
    testenv_advance_ms(&f->t, 1000);
    assert_int_equal(conform_wake_due(f), 3);
    for (unsigned i = 1; i <= 6; i++) {
        assert_int_equal(conform_msg_row(f, 100, i)->state, MSG_ASIDE);
    }
    assert_false(RUN(f, job_resume, .ref = JOB(100), .limit = 10).out_more);
    assert_int_equal(conform_claim(f, NS, 10, 1000, NULL), 6);
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_limit),           CONFORM(test_limit_at_birth),
    CONFORM(test_default_limit),   CONFORM(test_default_changes),
    CONFORM(test_limit_invalid),   CONFORM(test_lanes_come_and_go),
    CONFORM(test_rotation),        CONFORM(test_rotation_does_not_starve),
    CONFORM(test_shares),          CONFORM(test_any_namespace),
    CONFORM(test_paused),          CONFORM(test_resume_in_batches),
    CONFORM(test_paused_is_aside), CONFORM(test_paused_tasks),
};
CONFORM_TOPIC(lanes);

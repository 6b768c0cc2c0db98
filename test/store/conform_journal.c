/* conform_journal.c - the journal of a job, and the feed of all: dense, in order, and never behind
 * a reader (I5) */
#include "store/conform.h"
#include "store/event.h"

#include <stdlib.h>

#define ADDR QP_STR("w")
#define SETTLE_TRIES 100000

/* Proves that a journal entry is numbered within its job and in the feed, and keeps what it was
 * given. */
static void test_event(void **state)
{
    struct storetest *f = *state;
    const struct event_row *e;
    struct op_event_add out;
    conform_job(f, 100); /* one entry, the trigger: its GUID has not spawned */
    out = RUN(f, event_add, .ref = JOB(100), .kind = 5, .addr = ADDR, .detail = QP_STR("d"));
    assert_int_equal(out.out_seq, 2);
    e = storetest_row(f, TABLE_event, &(struct event_row){.ns = NS, .job = 100, .seq = 2});
    assert_int_equal(event_kind(e), 5);
    assert_int_equal(event_status(e), STATUS_RUNNING);
    assert_str(e->addr, ADDR);
    assert_str(e->detail, QP_STR("d"));
    assert_int_equal(e->at, store_now(f->s));
    assert_true(conform_is_shared(f) ? e->pos > 2 : e->pos == 2);
    (void)REFUSED(f, QP_E_NOT_FOUND, OP(event_add, .ref = JOB(101), .kind = 5));
}

/* Proves that an entry keeps the status that the job had then, whatever becomes of it. */
static void test_event_keeps_the_status(void **state)
{
    struct storetest *f = *state;
    static const int64_t then[] = {STATUS_RUNNING, STATUS_RETRYING, STATUS_PAUSED, STATUS_FAILED};
    conform_job(f, 100);
    DO(f, OP(act_create, .ref = JOB(100), .addr = QP_STR("w"), .category = 'A', .ledger = W_LEG1,
             .input = QP_STR("in")));
    DO(f, OP(event_add, .ref = JOB(100), .kind = 5));
    DO(f,
       OP(act_add, .ref = JOB(100), .addr = QP_STR("w"), .attempt = 1, .error = QP_STR("e"),
          .waits = ACT_RETRIES),
       OP(event_add, .ref = JOB(100), .kind = 499));
    DO(f, OP(job_pause, .ref = JOB(100)));
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(100), .state = JOB_FAILED));
    for (int i = 0; i < 4; i++) {
        const struct event_row *e =
            storetest_row(f, TABLE_event, &(struct event_row){.ns = NS, .job = 100, .seq = 3 + i});
        assert_non_null(e);
        assert_int_equal(event_status(e), then[i]);
    }
    (void)REFUSED(f, QP_E_INVALID, OP(event_add, .ref = JOB(100), .kind = 500));
    (void)REFUSED(f, QP_E_INVALID, OP(event_add, .ref = JOB(100), .kind = -500));
}

/* Proves that a GUID has its entry with step 2, once, on its activity's row and on a row of its own; and before
 * it where the end of the job is to come after it. */
static void test_answer_is_journaled_by_step_2(void **state)
{
    struct storetest *f = *state;
    const struct guid_row *guid;
    conform_job_open(f, 100, 9); /* entered, answered */
    conform_worker(f, 100, ADDR);
    for (unsigned i = 1; i <= 3; i++) {
        int64_t before = conform_job_row(f, 100)->seq;
        conform_answer(f, 100, ADDR, i);
        guid = conform_guid_row(f, 100, ADDR, i);
        assert_true(guid->seq == 0 && guid->pos == 0 && guid->at > 0);
        assert_int_equal(conform_job_row(f, 100)->seq, before);
        if (i == 3) {
            DO(f,
               OP(guid_add, .ref = JOB(100), .addr = ADDR, .guid = G(i), .weight = 0,
                  .journal = true),
               OP(event_add, .ref = JOB(100), .kind = 1), conform_step2(100, ADDR, i, 1, false));
        } else {
            DO(f, conform_step2(100, ADDR, i, 1, false));
        }
        guid = conform_guid_row(f, 100, ADDR, i);
        assert_int_equal(guid->seq, before + 1);
        assert_true(guid->pos > 0);
        assert_int_equal(conform_job_row(f, 100)->seq, before + (i == 3 ? 2 : 1));
    }
}

/* Proves that a lease that has ended leaves an entry, of the kind of message that was asked for and while the job is
 * open, with the number of the delivery and who had it; and so does what a dead run held. */
static void test_lost_leases(void **state)
{
    struct storetest *f = *state;
    int64_t epoch = RUN(f, node_put, .name = QP_STR("n"), .state = NODE_RUNNING).out_epoch;
    const struct event_row *e;
    conform_job(f, 100);
    DO(f,
       OP(msg_put, .ref = JOB(100), .guid = G(1), .topic = QP_STR("t"), .kind = 3, .addr = ADDR));
    DO(f,
       OP(msg_put, .ref = JOB(100), .guid = G(2), .topic = QP_STR("u"), .kind = 1, .lease_ms = 10));
    for (int round = 0; round < 2; round++) { /* the first lease, and then the run */
        bool by_lease = round == 0;
        assert_int_equal(RUN(f, msg_claim, .topic = QP_STR("t"), .want = 1,
                             .lease_ms = by_lease ? 10 : 0, .holder = by_lease ? 0 : epoch,
                             .worker = QP_STR("w1"))
                             .out_count,
                         1);
        if (by_lease) {
            testenv_advance_ms(&f->t, 11);
            assert_int_equal(RUN(f, wake, .limit = 10, .lost_kind = 3).out_leases, 2);
        } else {
            (void)RUN(f, msg_adopt, .epoch = epoch, .limit = 10, .lost_kind = 3);
        }
        assert_int_equal(conform_job_row(f, 100)->seq, 2 + round);
        e = storetest_row(f, TABLE_event,
                          &(struct event_row){.ns = NS, .job = 100, .seq = 2 + round});
        assert_non_null(e);
        assert_int_equal(event_kind(e), EVENT_LOST);
        assert_str(e->addr, ADDR);
        assert_str(e->detail,
                   by_lease ? QP_STR("{\"delivery\":1,\"worker\":\"w1\",\"error\":{\"code\":504,"
                                     "\"message\":\"lease expired\",\"activity\":\"w\","
                                     "\"address\":\"w\"}}")
                            : QP_STR("{\"delivery\":2,\"worker\":\"w1\",\"error\":{\"code\":504,"
                                     "\"message\":\"lease expired\",\"activity\":\"w\","
                                     "\"address\":\"w\"}}"));
    }
    (void)RUN(f, msg_claim, .topic = QP_STR("t"), .want = 1, .lease_ms = 10);
    testenv_advance_ms(&f->t, 11);
    (void)RUN(f, wake, .limit = 10); /* nobody asked for an entry */
    (void)RUN(f, msg_claim, .topic = QP_STR("t"), .want = 1, .lease_ms = 10);
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(100), .state = JOB_FAILED));
    testenv_advance_ms(&f->t, 11);
    (void)RUN(f, wake, .limit = 10, .lost_kind = 3); /* the job is over */
    assert_int_equal(conform_job_row(f, 100)->seq, 4);
}

/* Proves that an entry has an upper size. */
static void test_event_too_large(void **state)
{
    static char large[LIMIT_PAYLOAD_HARD_SIZE + 1];
    struct storetest *f = *state;
    conform_job(f, 100);
    (void)REFUSED(f, QP_E_TOO_LARGE,
                  OP(event_add, .ref = JOB(100), .detail = {large, sizeof large}));
}

/* Proves that sequences stay dense when bundles fail between those that commit, in one commit and
 * across commits. */
static void test_dense_despite_failures(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    for (int round = 0; round < 3; round++) {
        struct commit c;
        commit_init(&c, f->s);
        for (int i = 0; i < 6; i++) {
            struct bundle *b = commit_bundle(&c, "event");
            struct op *op = bundle_op(b, OP_event_add);
            assert_non_null(op);
            *op = OP(event_add, .ref = JOB(100), .kind = i);
            if (i % 2 == 1) {
                op = bundle_op(b, OP_act_add);
                assert_non_null(op);
                *op = OP(act_add, .ref = JOB(100), .addr = QP_STR("none"));
            }
        }
        assert_int_equal(store_commit(f->s, &c), QP_OK);
        for (struct bundle *b = c.first; b != NULL; b = b->next) {
            assert_int_equal(b->rc, b->op_count == 1 ? QP_OK : QP_E_NOT_FOUND);
        }
        commit_done(&c);
    }
    assert_int_equal(conform_job_row(f, 100)->seq, 1 + 9);
    assert_int_equal(storetest_count(f, TABLE_event), 9); /* conform_check sees to the rest */
}

/* Proves that folding a GUID leaves a gap that the activity accounts for, and that no number is
 * given again. */
static void test_folded_gap(void **state)
{
    struct storetest *f = *state;
    conform_job_open(f, 100, 9);
    conform_worker(f, 100, ADDR);
    for (unsigned i = 1; i <= 4; i++) {
        conform_answer(f, 100, ADDR, i);
        DO(f, conform_step2(100, ADDR, i, 1, false));
        if (i % 2 == 0) {
            DO(f, OP(guid_fold, .ref = JOB(100), .addr = ADDR, .guid = G(i)));
        }
    }
    assert_int_equal(conform_job_row(f, 100)->seq, 7);
    assert_int_equal(RUN(f, event_add, .ref = JOB(100), .kind = 1).out_seq, 8);
    assert_int_equal(conform_act_row(f, 100, ADDR)->folded_n, 2);
}

struct feed {
    int64_t last;
    size_t count;
    bool sparse; /* positions grow, but do not follow each other */
};

static int follow(void *context, const struct feed_entry *entry)
{
    struct feed *feed = context;
    assert_true(feed->sparse ? entry->pos > feed->last : entry->pos == feed->last + 1);
    assert_true(entry->ns == NS && entry->seq > 0);
    feed->last = entry->pos;
    feed->count++;
    return QP_OK;
}

/* Everything in the feed after what was seen, until there are as many: on a server that others use, too,
 * it comes when no older transaction is open any more. */
static void catch_up(struct storetest *f, struct feed *feed, size_t count)
{
    struct qp_err err;
    int tries = conform_is_shared(f) ? SETTLE_TRIES : 1;
    feed->sparse = conform_is_shared(f);
    do {
        assert_int_equal(store_feed(f->s, feed->last, SIZE_MAX, feed, follow, &err), QP_OK);
    } while (feed->count < count && --tries > 0);
    assert_int_equal(feed->count, count);
}

/* Proves I5: a reader that follows the feed by position, across jobs, failures and restarts, sees
 * every entry once. */
static void test_feed(void **state)
{
    struct storetest *f = *state;
    struct feed feed = {0};
    conform_job(f, 100);
    conform_job(f, 101);
    catch_up(f, &feed, 2); /* the triggers of both */
    feed.count = 0;
    for (int i = 0; i < 12; i++) {
        DO(f, OP(event_add, .ref = JOB(100 + i % 2), .kind = i));
        if (i % 3 == 0) {
            (void)REFUSED(f, QP_E_NOT_FOUND, OP(event_add, .ref = JOB(100), .kind = i),
                          OP(event_add, .ref = JOB(998), .kind = i));
        }
        if (i % 4 == 0) {
            catch_up(f, &feed, (size_t)i + 1);
        }
        if (i % 5 == 0) {
            storetest_reopen(f);
        }
    }
    catch_up(f, &feed, 12);
    catch_up(f, &feed, 12);
}

static int find_row(void *context, const struct feed_entry *entry)
{
    struct storetest *f = context;
    const struct act_row *act;
    const struct guid_row *guid;
    if (str_is_none(entry->addr)) {
        const struct event_row *event = storetest_row(
            f, TABLE_event, &(struct event_row){.ns = NS, .job = entry->job, .seq = entry->seq});
        assert_non_null(event);
        assert_int_equal(event->pos, entry->pos);
        return QP_OK;
    }
    act = conform_act_row(f, entry->job, entry->addr);
    assert_non_null(act);
    if (str_is_none(entry->guid)) {
        assert_int_equal(act->pos, entry->pos);
        assert_int_equal(act->seq, entry->seq);
        return QP_OK;
    }
    guid = conform_guid_row(f, entry->job, entry->addr,
                            (unsigned)strtoul(entry->guid.p + strlen("guid-"), NULL, 10));
    assert_non_null(guid);
    assert_int_equal(guid->pos, entry->pos);
    assert_int_equal(guid->seq, entry->seq);
    return QP_OK;
}

/* Proves that an entry of the feed leads to its row: an activity, a first GUID, a further GUID, an
 * event. */
static void test_feed_leads_to_rows(void **state)
{
    struct storetest *f = *state;
    struct qp_err err;
    conform_job_open(f, 100, 9);
    conform_worker(f, 100, ADDR);
    conform_answer(f, 100, ADDR, 1);
    conform_answer(f, 100, ADDR, 2);
    DO(f, OP(event_add, .ref = JOB(100), .kind = 1));
    assert_int_equal(store_feed(f->s, 0, SIZE_MAX, f, find_row, &err), QP_OK);
}

/* Proves that trimming forgets the oldest commits of the feed, up to a position, and nothing
 * else. */
static void test_feed_trim(void **state)
{
    struct storetest *f = *state;
    struct feed feed = {0};
    struct op_feed_trim out;
    int64_t upto = 0;
    conform_job(f, 100);
    for (int i = 0; i < 6; i++) {
        DO(f, OP(event_add, .ref = JOB(100), .kind = i));
        catch_up(f, &feed, 1 + (size_t)i + 1);
        upto = i == 3 ? feed.last : upto;
    }
    out = RUN(f, feed_trim, .upto = upto, .limit = 3);
    assert_true(out.out_more);
    out = RUN(f, feed_trim, .upto = upto, .limit = LIMIT_SWEEP_ROWS);
    assert_false(out.out_more);
    assert_int_equal(storetest_count(f, TABLE_feed), 2);
    assert_int_equal(storetest_count(f, TABLE_event), 6);
    (void)REFUSED(f, QP_E_INVALID, OP(feed_trim, .upto = 1, .limit = 0));
    (void)REFUSED(f, QP_E_INVALID, OP(feed_trim, .upto = 1, .limit = LIMIT_SWEEP_ROWS + 1));
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_event),
    CONFORM(test_event_keeps_the_status),
    CONFORM(test_answer_is_journaled_by_step_2),
    CONFORM(test_lost_leases),
    CONFORM(test_event_too_large),
    CONFORM(test_dense_despite_failures),
    CONFORM(test_folded_gap),
    CONFORM(test_feed),
    CONFORM(test_feed_leads_to_rows),
    CONFORM(test_feed_trim),
};
CONFORM_TOPIC(journal);

/* conform_signals.c - registrations and signals: whoever comes second finds the first (H13) */
#include "store/conform.h"

#include <stdio.h>

#define HOOK QP_STR("hook")
#define KEY QP_STR("key")

static struct op open_hook(int64_t job, bool keep)
{
    return OP(hook_open, .ref = JOB(job), .topic = HOOK, .key = KEY, .addr = QP_STR("a"),
              .parent_guid = G(90), .msg_topic = TOPIC, .keep = keep);
}

static struct op_hook_open opened(struct storetest *f, int64_t job, bool keep)
{
    return conform_run(f, open_hook(job, keep), __FILE__, __LINE__).hook_open;
}

/* What a signal brings: its number. */
static qp_str payload_of(unsigned guid)
{
    static char texts[64][12];
    static size_t next;
    char *text = texts[next++ % ARRAY_COUNT(texts)];
    (void)snprintf(text, sizeof texts[0], "%u", guid);
    return str_from(text);
}

static struct op signal_op(unsigned guid, int64_t ttl_ms)
{
    return OP(hook_signal, .ns = NS, .topic = HOOK, .key = KEY, .guid = G(guid),
              .payload = payload_of(guid), .code = 200, .ttl_ms = ttl_ms);
}

/* The same with an id, for which the GUID stands. */
static struct op named_op(unsigned guid, int64_t ttl_ms)
{
    struct op op = signal_op(guid, ttl_ms);
    op.hook_signal.has_id = true;
    return op;
}

struct search {
    qp_str payload;
    char guid[LIMIT_GUID_SIZE];
    int64_t count;
};

static int search_message(void *context, const void *row)
{
    const struct msg_row *m = row;
    struct search *s = context;
    if (str_equal(m->payload, s->payload)) {
        assert_int_equal(m->guid.n, sizeof s->guid);
        memcpy(s->guid, m->guid.p, sizeof s->guid);
        s->count++;
    }
    return QP_OK;
}

/* The message that the signal has become, or NULL. Its GUID is its own. */
static const struct msg_row *delivery(struct storetest *f, int64_t job, unsigned guid)
{
    struct search s = {.payload = payload_of(guid)};
    struct msg_row key = {.ns = NS, .job = job, .guid = {s.guid, sizeof s.guid}};
    struct msg_row prefix = {.ns = NS, .job = job};
    struct qp_err err;
    struct scan scan = {
        .table = TABLE_msg, .index = -1, .prefix = &prefix, .prefix_count = 2, .limit = SIZE_MAX};
    assert_int_equal(store_scan(f->s, &scan, &s, search_message, &err), QP_OK);
    assert_true(s.count <= 1);
    return s.count == 0 ? NULL : storetest_row(f, TABLE_msg, &key);
}

static struct op_hook_signal signalled(struct storetest *f, unsigned guid, int64_t ttl_ms)
{
    return conform_run(f, signal_op(guid, ttl_ms), __FILE__, __LINE__).hook_signal;
}

static const struct hook_row *hook_row(struct storetest *f)
{
    return storetest_row(f, TABLE_hook, &(struct hook_row){.ns = NS, .topic = HOOK, .hkey = KEY});
}

/* Proves the usual order: the waiter is there, the signal becomes its message, and the registration
 * is used up. */
static void test_late_signal(void **state)
{
    struct storetest *f = *state;
    struct op_hook_open open;
    struct op_hook_signal out;
    const struct msg_row *m;
    conform_job(f, 100);
    open = opened(f, 100, false);
    assert_false(open.out_met);
    assert_true(open.out_seq > 0);
    out = signalled(f, 1, 0);
    assert_true(out.out_delivered);
    assert_false(out.out_kept);
    assert_int_equal(out.out_job.ns, NS);
    assert_int_equal(out.out_job.job, 100);
    m = delivery(f, 100, 1);
    assert_int_equal(m->state, MSG_READY);
    assert_str(m->topic, TOPIC);
    assert_str(m->addr, QP_STR("a"));
    assert_str(m->parent_guid, G(90));
    assert_str(m->payload, payload_of(1));
    assert_false(str_equal(m->guid, G(1)));
    assert_int_equal(m->code, 200);
    assert_null(hook_row(f));
}

/* Proves the other order: the signal waits, oldest first, and becomes the message of whoever
 * registers. */
static void test_early_signal(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    for (unsigned i = 1; i <= 2; i++) {
        struct op_hook_signal out = signalled(f, i, 1000);
        assert_false(out.out_delivered);
        assert_true(out.out_kept);
    }
    assert_int_equal(hook_row(f)->pending, 2);
    assert_true(opened(f, 100, false).out_met);
    assert_int_equal(delivery(f, 100, 1)->code, 200);
    assert_null(delivery(f, 100, 2));
    assert_true(opened(f, 100, false).out_met);
    assert_non_null(delivery(f, 100, 2));
    assert_null(hook_row(f));
    assert_false(opened(f, 100, false).out_met);
}

/* Proves that a signal that nobody waits for and that is not to be kept leaves nothing, not even a
 * commit. */
static void test_not_kept(void **state)
{
    struct storetest *f = *state;
    int64_t commits = conform_info(f).commits;
    struct op_hook_signal out = signalled(f, 1, 0);
    assert_false(out.out_delivered);
    assert_false(out.out_kept);
    assert_int_equal(conform_info(f).commits, commits);
}

/* Proves that both orders work within one bundle and across bundles of one commit. */
static void test_same_commit(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    DO(f, open_hook(100, false), signal_op(1, 1000));
    DO(f, signal_op(2, 1000), open_hook(100, false));
    assert_int_equal(storetest_count(f, TABLE_msg), 2);
    assert_null(hook_row(f));
}

/* Proves that a registration stays when the waiter or the signal says so, in either order (code
 * 202). */
static void test_keep(void **state)
{
    struct storetest *f = *state;
    struct op keep = signal_op(3, 1000);
    conform_job(f, 100);
    DO(f, open_hook(100, true));
    assert_true(signalled(f, 1, 0).out_delivered);
    assert_true(signalled(f, 2, 0).out_delivered);
    assert_int_equal(hook_row(f)->waiting, 1);
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(7), .state = JOB_FAILED),
       OP(job_sweep, .ref = JOB(100), .limit = 100));
    assert_null(hook_row(f));
    conform_job(f, 101);
    keep.hook_signal.keep = true;
    DO(f, keep);
    assert_true(opened(f, 101, false).out_met);
    assert_int_equal(hook_row(f)->waiting, 1); /* kept by the signal */
    keep.hook_signal.guid = G(4);
    DO(f, keep);
    assert_int_equal(hook_row(f)->waiting, 1);
    assert_true(signalled(f, 5, 0).out_delivered);
    assert_null(hook_row(f));
}

/* Proves that the one that has waited longest gets the signal, or the one that is named; a name
 * that is gone is told. */
static void test_who_gets_it(void **state)
{
    struct storetest *f = *state;
    struct op named = signal_op(3, 1000);
    int64_t seqs[3];
    for (int i = 0; i < 3; i++) {
        conform_job(f, 100 + i);
        seqs[i] = opened(f, 100 + i, false).out_seq;
        assert_true(i == 0 || seqs[i] > seqs[i - 1]);
    }
    named.hook_signal.seq = seqs[1];
    DO(f, named);
    assert_non_null(delivery(f, 101, 3));
    named.hook_signal.guid = G(4);
    (void)REFUSED(f, QP_E_NOT_FOUND, named);
    assert_int_equal(signalled(f, 5, 0).out_job.job, 100);
    assert_int_equal(signalled(f, 6, 0).out_job.job, 102);
}

/* Proves that a waiter goes once; a number that a hook gave is not given again. */
static void test_close(void **state)
{
    struct storetest *f = *state;
    struct op close = OP(hook_close, .ns = NS, .topic = HOOK, .key = KEY);
    conform_job(f, 100);
    close.hook_close.seq = opened(f, 100, false).out_seq;
    DO(f, close);
    assert_null(hook_row(f));
    (void)REFUSED(f, QP_E_NOT_FOUND, close);
    assert_true(opened(f, 100, false).out_seq > close.hook_close.seq);
    (void)REFUSED(f, QP_E_NOT_FOUND, close);
    assert_true(signalled(f, 1, 0).out_delivered);
}

/* Proves that a kept signal goes when its time is over, and the hook with it. */
static void test_expiry(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    (void)signalled(f, 1, 1000);
    (void)signalled(f, 2, 2000);
    testenv_advance_ms(&f->t, 999);
    assert_int_equal(conform_wake_due(f), 0);
    testenv_advance_ms(&f->t, 1);
    assert_int_equal(conform_wake_due(f), 1);
    assert_int_equal(hook_row(f)->pending, 1);
    testenv_advance_ms(&f->t, 1000);
    assert_int_equal(conform_wake_due(f), 1);
    assert_null(hook_row(f));
    assert_false(opened(f, 100, false).out_met);
}

/* Proves LIMIT_SIGNALS_PENDING_PER_KEY: a hundred wait, the next is refused, and a place that is
 * free is given. */
static void test_limit(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    for (unsigned i = 0; i < LIMIT_SIGNALS_PENDING_PER_KEY; i++) {
        (void)signalled(f, 1000 + i, 1000);
    }
    (void)REFUSED(f, QP_E_LIMIT, signal_op(1, 1000));
    (void)REFUSED(f, QP_E_EXISTS, signal_op(1099, 1000));
    DO(f, OP(hook_signal, .ns = NS, .topic = HOOK, .key = QP_STR("other"), .guid = G(1),
             .ttl_ms = 1000));
    DO(f, open_hook(100, false));
    DO(f, signal_op(1, 1000));
    assert_int_equal(hook_row(f)->pending, LIMIT_SIGNALS_PENDING_PER_KEY);
}

/* The signal was sent before: nothing happens, and what became of the first is known. */
static void assert_repeats(struct storetest *f, struct op op, bool delivered)
{
    struct op once = op;
    struct op_hook_signal out;
    once.hook_signal.once = true;
    out = conform_run(f, once, __FILE__, __LINE__).hook_signal;
    assert_true(out.out_repeats);
    assert_int_equal(out.out_delivered, delivered);
    assert_int_equal(out.out_kept, !delivered);
    (void)REFUSED(f, QP_E_EXISTS, op);
}

/* Proves I4 of apply_signal.c: an id that is sent again is recognised while the signal is kept, and when it was
 * delivered, whatever has become of its message. */
static void test_duplicate(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    DO(f, named_op(1, 1000));
    assert_repeats(f, named_op(1, 1000), false);
    DO(f, open_hook(100, true));
    assert_repeats(f, named_op(1, 1000), true);
    assert_repeats(f, named_op(1, 0), true);
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(7), .state = JOB_FAILED),
       OP(job_sweep, .ref = JOB(100), .limit = 100));
    assert_int_equal(storetest_count(f, TABLE_msg), 0);
    assert_repeats(f, named_op(1, 1000), true);
}

/* Proves that an id that is sent again does not release the next registration of the same job at the same topic and
 * key, and does not displace the signal that is meant for it; the same id at another key is another signal. */
static void test_id_of_two_registrations(void **state)
{
    struct storetest *f = *state;
    struct op other = named_op(31, 1000); /* its GUID stands for the other key, too */
    conform_job(f, 100);
    DO(f, open_hook(100, false));
    assert_true(conform_run(f, named_op(1, 1000), __FILE__, __LINE__).hook_signal.out_delivered);
    DO(f, open_hook(100, false));
    assert_repeats(f, named_op(1, 1000), true);
    assert_int_equal(hook_row(f)->waiting, 1);
    assert_true(conform_run(f, named_op(2, 1000), __FILE__, __LINE__).hook_signal.out_delivered);
    assert_null(hook_row(f));
    assert_repeats(f, named_op(1, 1000), true);
    assert_repeats(f, named_op(2, 1000), true);
    assert_false(opened(f, 100, false).out_met);
    other.hook_signal.key = QP_STR("other");
    DO(f, other);
    assert_int_equal(storetest_count(f, TABLE_msg), 2);
    assert_int_equal(storetest_count(f, TABLE_idem), 3);
}

/* Proves that signals without an id leave no record, and that one GUID for two registrations is two messages. */
static void test_delivery_has_its_own_guid(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    DO(f, open_hook(100, false));
    DO(f, open_hook(100, false));
    assert_true(signalled(f, 1, 0).out_delivered);
    assert_true(signalled(f, 1, 0).out_delivered);
    assert_int_equal(storetest_count(f, TABLE_msg), 2);
    assert_int_equal(storetest_count(f, TABLE_idem), 0);
    DO(f, open_hook(100, true)); /* one that stays knows what is on its way to it */
    assert_true(signalled(f, 2, 0).out_delivered);
    assert_repeats(f, signal_op(2, 0), true);
}

#define WEEK LIMIT_IDEM_MS

/* Proves how long the id of a delivered signal is remembered: as long as its job is open, and a week more; a week
 * or two when the job was deleted. */
static void test_id_is_remembered(void **state)
{
    struct storetest *f = *state;
    for (int64_t job = 100; job < 102; job++) {
        conform_job(f, job);
        DO(f, open_hook(job, false));
        DO(f, named_op((unsigned)job, 0));
    }
    testenv_advance_ms(&f->t, WEEK);
    assert_int_equal(conform_wake_due(f), 2);
    assert_int_equal(storetest_count(f, TABLE_idem), 2); /* both are open */
    testenv_advance_ms(&f->t, WEEK / 2);
    for (int64_t job = 100; job < 102; job++) {
        DO(f, OP(job_close, .ref = JOB(job), .guid = G(7), .state = JOB_FAILED),
           OP(job_sweep, .ref = JOB(job), .limit = 100));
        DO(f, OP(job_finish, .ref = JOB(job), .guid = G(7)));
    }
    DO(f, OP(job_delete, .ref = JOB(101), .limit = 100));
    testenv_advance_ms(&f->t, WEEK / 2);
    assert_int_equal(conform_wake_due(f), 2);
    assert_int_equal(storetest_count(f, TABLE_idem), 2); /* half a week after the end */
    assert_repeats(f, named_op(100, 0), true);
    assert_repeats(f, named_op(101, 0), true);
    testenv_advance_ms(&f->t, WEEK / 2);
    assert_int_equal(conform_wake_due(f), 1);
    assert_false(conform_run(f, named_op(100, 0), __FILE__, __LINE__).hook_signal.out_repeats);
    assert_repeats(f, named_op(101, 0), true);
    testenv_advance_ms(&f->t, WEEK / 2);
    assert_int_equal(conform_wake_due(f), 1);
    assert_int_equal(storetest_count(f, TABLE_idem), 0);
}

/* Proves that an id whose signal expired without being delivered is free. */
static void test_id_of_expired(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    DO(f, named_op(1, 1000));
    testenv_advance_ms(&f->t, 1000);
    assert_int_equal(conform_wake_due(f), 1);
    assert_int_equal(storetest_count(f, TABLE_idem), 0);
    assert_true(conform_run(f, named_op(1, 1000), __FILE__, __LINE__).hook_signal.out_kept);
    assert_true(opened(f, 100, false).out_met);
    assert_repeats(f, named_op(1, 1000), true);
}

static void make_job(struct storetest *f, int64_t number, qp_str forked_from, int64_t parent)
{
    char jid[16];
    (void)snprintf(jid, sizeof jid, "job %lld", (long long)number);
    DO(f, OP(job_create, .ref = JOB(number), .jid = str_from(jid), .workflow = QP_STR("order"),
             .owner_guid = G((unsigned)number), .body_hash = QP_STR("body"),
             .forked_from = forked_from, .parent_job = parent));
}

/* Proves that a retry or fork, and what it calls, does not take what was kept before it was started, nor an id of that when
 * it is sent again; it takes what is sent from then on. Another job takes what is there. */
static void test_retry(void **state)
{
    struct storetest *f = *state;
    int64_t calls[] = {0, 201, 202};
    conform_job(f, 100);
    DO(f, named_op(1, 100000));
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(7), .state = JOB_FAILED));
    testenv_advance_ms(&f->t, 1);
    for (int64_t i = 0; i < 3; i++) {
        make_job(f, 201 + i, i == 0 ? QP_STR("a job") : QP_NONE, calls[i]);
        assert_false(opened(f, 201 + i, false).out_met);
        assert_int_equal(hook_row(f)->waiting, 1);
        assert_int_equal(hook_row(f)->pending, 1);
        assert_repeats(f, named_op(1, 1000), false);
        assert_true(signalled(f, 10 + (unsigned)i, 1000).out_delivered);
        assert_non_null(delivery(f, 201 + i, 10 + (unsigned)i));
    }
    (void)signalled(f, 2, 1000);
    assert_true(opened(f, 201, false).out_met);
    assert_non_null(delivery(f, 201, 2));
    conform_job(f, 300);
    assert_true(opened(f, 300, false).out_met);
    assert_non_null(delivery(f, 300, 1));
    assert_null(hook_row(f));
}

/* Proves I2 of apply_signal.c: a waiter that is kept takes all that is pending, the oldest first, so
 * that nothing overtakes it; one that is not takes as many as it takes to end it. */
static void test_pending_is_emptied(void **state)
{
    struct storetest *f = *state;
    struct op keep = signal_op(4, 1000);
    int64_t first;
    conform_job(f, 100);
    conform_job(f, 101);
    (void)signalled(f, 1, 1000);
    (void)signalled(f, 2, 1000);
    DO(f, open_hook(100, true));
    assert_int_equal(hook_row(f)->waiting, 1);
    assert_int_equal(hook_row(f)->pending, 0);
    first = delivery(f, 100, 1)->ord;
    assert_true(delivery(f, 100, 2)->ord > first);
    assert_true(signalled(f, 3, 1000).out_delivered);
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(9), .state = JOB_FAILED));
    DO(f, OP(job_sweep, .ref = JOB(100), .limit = 100));
    keep.hook_signal.keep = true;
    DO(f, keep);
    (void)signalled(f, 5, 1000);
    (void)signalled(f, 6, 1000);
    assert_true(opened(f, 101, false).out_met); /* 4 keeps it waiting, 5 ends it */
    assert_int_equal(hook_row(f)->waiting, 0);
    assert_int_equal(hook_row(f)->pending, 1);
    assert_null(delivery(f, 101, 6));
}

/* Proves that topics, keys and namespaces do not hear of each other; an empty key is a key. */
static void test_apart(void **state)
{
    struct storetest *f = *state;
    struct op op = signal_op(1, 0);
    conform_job(f, 100);
    DO(f, open_hook(100, true));
    op.hook_signal.key = QP_STR("");
    assert_false(conform_run(f, op, __FILE__, __LINE__).hook_signal.out_delivered);
    op = signal_op(1, 0);
    op.hook_signal.topic = QP_STR("hoo");
    assert_false(conform_run(f, op, __FILE__, __LINE__).hook_signal.out_delivered);
    op = signal_op(1, 0);
    op.hook_signal.ns = 77;
    assert_false(conform_run(f, op, __FILE__, __LINE__).hook_signal.out_delivered);
    op = open_hook(100, false);
    op.hook_open.key = QP_STR("");
    DO(f, op);
    op = signal_op(1, 0);
    op.hook_signal.key = QP_STR("");
    assert_true(conform_run(f, op, __FILE__, __LINE__).hook_signal.out_delivered);
}

/* Proves what neither side takes. */
static void test_invalid(void **state)
{
    static char bytes[LIMIT_ID_SIZE + 1];
    static char large[LIMIT_PAYLOAD_HARD_SIZE + 1];
    struct storetest *f = *state;
    struct op bad[11];
    memset(bytes, 'x', sizeof bytes);
    conform_job(f, 100);
    for (size_t i = 0; i < 5; i++) {
        bad[i] = open_hook(100, false);
        bad[5 + i] = signal_op(1, 1000);
    }
    bad[10] = open_hook(100, false);
    bad[10].hook_open.addr = QP_NONE;
    bad[0].hook_open.topic = QP_NONE;
    bad[1].hook_open.topic = (qp_str){bytes, LIMIT_NAME_SIZE + 1};
    bad[2].hook_open.key = QP_NONE;
    bad[3].hook_open.key = (qp_str){bytes, LIMIT_ID_SIZE + 1};
    bad[4].hook_open.msg_topic = QP_NONE; /* its message could never be sent */
    bad[5].hook_signal.topic = QP_NONE;
    bad[6].hook_signal.key = QP_NONE;
    bad[7].hook_signal.guid = QP_NONE;
    bad[8].hook_signal.ttl_ms = -1;
    bad[9].hook_signal.ttl_ms = LIMIT_TIMER_MS + 1;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        (void)REFUSED(f, QP_E_INVALID, bad[i]);
    }
    (void)REFUSED(f, QP_E_NOT_FOUND, open_hook(101, false));
    bad[5] = signal_op(1, 1000);
    bad[5].hook_signal.payload = (qp_str){large, sizeof large};
    (void)REFUSED(f, QP_E_TOO_LARGE, bad[5]);
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_late_signal),
    CONFORM(test_early_signal),
    CONFORM(test_not_kept),
    CONFORM(test_same_commit),
    CONFORM(test_keep),
    CONFORM(test_who_gets_it),
    CONFORM(test_close),
    CONFORM(test_expiry),
    CONFORM(test_limit),
    CONFORM(test_duplicate),
    CONFORM(test_pending_is_emptied),
    CONFORM(test_id_of_two_registrations),
    CONFORM(test_delivery_has_its_own_guid),
    CONFORM(test_id_is_remembered),
    CONFORM(test_id_of_expired),
    CONFORM(test_retry),
    CONFORM(test_apart),
    CONFORM(test_invalid),
};
CONFORM_TOPIC(signals);

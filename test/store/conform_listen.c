/* conform_listen.c - signals to one job by name: kept in order, taken at once, delivered once */
#include "store/conform.h"

#include <stdio.h>

#define MINE conform_jid(100)

/* An activity that listens. */
static struct op listen_op(int64_t job, const qp_str *names, size_t count, int64_t limit)
{
    return OP(hook_open, .ref = JOB(job), .key = conform_jid(job), .addr = QP_STR("a"),
              .parent_guid = G(90), .msg_topic = TOPIC, .names = names, .name_count = count,
              .limit = limit);
}

static const qp_str one[] = {{"@one", 4}};
static const qp_str two[] = {{"@two", 4}};
static const qp_str both[] = {{"@one", 4}, {"@two", 4}};

static struct op signal_op(int64_t job, qp_str topic, unsigned guid, qp_str payload)
{
    return OP(hook_signal, .ns = NS, .to = JOB(job), .topic = topic, .key = conform_jid(job),
              .guid = G(guid), .payload = payload);
}

static struct op_hook_open listens(struct storetest *f, const qp_str *names, size_t count,
                                   int64_t limit)
{
    return conform_run(f, listen_op(100, names, count, limit), __FILE__, __LINE__).hook_open;
}

static struct op_hook_signal signalled(struct storetest *f, qp_str topic, unsigned guid,
                                       const char *payload)
{
    return conform_run(f, signal_op(100, topic, guid, str_from(payload)), __FILE__, __LINE__)
        .hook_signal;
}

static const struct job_row *job_row(struct storetest *f)
{
    return storetest_row(f, TABLE_job, &(struct job_row){.ns = NS, .job = 100});
}

/* What messages the job has, with the times left out. */
struct mailbox {
    char text[512];
    size_t count;
};

static int read_mail(void *context, const void *row)
{
    const struct msg_row *m = row;
    struct mailbox *box = context;
    size_t n = strlen(box->text);
    assert_int_equal(m->code, 200);
    assert_str(m->addr, QP_STR("a"));
    assert_str(m->parent_guid, G(90));
    for (size_t i = 0; i < m->payload.n && n + 1 < sizeof box->text; i++) {
        bool is_time = i >= 5 && memcmp(m->payload.p + i - 5, "\"at\":", 5) == 0;
        while (is_time && m->payload.p[i] >= '0' && m->payload.p[i] <= '9') {
            i++;
        }
        box->text[n++] = m->payload.p[i];
    }
    box->count++;
    return QP_OK;
}

static void mail_is(struct storetest *f, size_t count, const char *text)
{
    struct mailbox box = {.count = 0};
    struct msg_row prefix = {.ns = NS, .job = 100};
    struct scan scan = {
        .table = TABLE_msg, .index = -1, .prefix = &prefix, .prefix_count = 2, .limit = SIZE_MAX};
    struct qp_err err;
    assert_int_equal(store_scan(f->s, &scan, &box, read_mail, &err), QP_OK);
    assert_string_equal(box.text, text);
    assert_int_equal(box.count, count);
}

/* Proves that a signal reaches the activity that listens, in an envelope that names it, and that the registrations of
 * all its names go in the same commit: the next signal is kept. */
static void test_delivered(void **state)
{
    struct storetest *f = *state;
    struct op_hook_signal out;
    conform_job(f, 100);
    assert_false(listens(f, both, 2, 1).out_met);
    assert_int_equal(storetest_count(f, TABLE_hook_wait), 2);
    out = signalled(f, QP_STR("@two"), 1, "{\"n\":1}");
    assert_true(out.out_delivered);
    assert_false(out.out_kept);
    assert_int_equal(out.out_job.job, 100);
    mail_is(f, 1, "[{\"name\":\"two\",\"at\":,\"data\":{\"n\":1}}]");
    assert_int_equal(storetest_count(f, TABLE_hook_wait), 0);
    assert_int_equal(storetest_count(f, TABLE_hook), 0);
    assert_true(signalled(f, QP_STR("@one"), 2, "2").out_kept);
    mail_is(f, 1, "[{\"name\":\"two\",\"at\":,\"data\":{\"n\":1}}]");
}

/* Proves that kept signals are taken in the order in which they were kept, over all names, up to the limit, as one
 * message, and that the others stay. */
static void test_kept_in_order(void **state)
{
    static const char *const names[] = {"@two", "@one", "@other", "@one", "@two", "@two"};
    struct storetest *f = *state;
    struct op_hook_open waits;
    conform_job(f, 100);
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        char payload[8];
        (void)snprintf(payload, sizeof payload, "%u", i);
        assert_true(signalled(f, str_from(names[i]), i + 1, payload).out_kept);
    }
    assert_int_equal(job_row(f)->kept, 6);
    assert_int_equal(job_row(f)->kept_size, 6);
    assert_true(listens(f, both, 2, 4).out_met);
    mail_is(f, 1,
            "[{\"name\":\"two\",\"at\":,\"data\":0},{\"name\":\"one\",\"at\":,\"data\":1},"
            "{\"name\":\"one\",\"at\":,\"data\":3},{\"name\":\"two\",\"at\":,\"data\":4}]");
    assert_int_equal(job_row(f)->kept, 2);
    assert_int_equal(storetest_count(f, TABLE_hook_wait), 0);
    waits = listens(f, one, 1, 100);
    assert_false(waits.out_met); /* none of this name is left */
    DO(f, OP(hook_close, .ns = NS, .topic = one[0], .key = MINE, .seq = waits.out_seq));
    assert_true(listens(f, two, 1, 100).out_met);
    assert_int_equal(job_row(f)->kept, 1);
}

/* Proves that what comes at once is no more than LIMIT_LISTEN_SIZE, and at least one signal. */
static void test_size(void **state)
{
    static char large[LIMIT_LISTEN_SIZE];
    struct storetest *f = *state;
    struct op op;
    memset(large, '1', sizeof large);
    conform_job(f, 100);
    for (unsigned i = 1; i <= 3; i++) {
        op = signal_op(100, one[0], i, (qp_str){large, i == 1 ? sizeof large : sizeof large / 2});
        assert_true(conform_run(f, op, __FILE__, __LINE__).hook_signal.out_kept);
    }
    assert_true(listens(f, one, 1, 100).out_met);
    assert_int_equal(job_row(f)->kept, 2);
    assert_true(listens(f, one, 1, 100).out_met);
    assert_int_equal(job_row(f)->kept, 0);
    assert_int_equal(job_row(f)->kept_size, 0);
}

/* Proves that an id is sent once: while it is kept, when it was taken, and when it was delivered at once; a name or job of
 * its own has its own ids (their GUIDs differ). */
static void test_id(void **state)
{
    struct storetest *f = *state;
    struct op op = signal_op(100, one[0], 1, QP_STR("1"));
    struct op_hook_signal out;
    conform_job(f, 100);
    op.hook_signal.has_id = true;
    assert_true(conform_run(f, op, __FILE__, __LINE__).hook_signal.out_kept);
    (void)REFUSED(f, QP_E_EXISTS, op);
    assert_true(listens(f, one, 1, 1).out_met);
    (void)REFUSED(f, QP_E_EXISTS, op);
    op.hook_signal.once = true;
    out = conform_run(f, op, __FILE__, __LINE__).hook_signal;
    assert_true(out.out_repeats && out.out_delivered && !out.out_kept);
    assert_false(listens(f, one, 1, 1).out_met);
    op = signal_op(100, one[0], 2, QP_STR("2"));
    op.hook_signal.has_id = true;
    assert_true(conform_run(f, op, __FILE__, __LINE__).hook_signal.out_delivered);
    (void)REFUSED(f, QP_E_EXISTS, op);
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(7), .state = JOB_FAILED));
    (void)REFUSED(f, QP_E_EXISTS, op); /* also when the job has ended */
}

/* Proves that a job which has ended takes none, that a sweep removes what was kept with the records of ids, and that with
 * `once` the refusal does not end the bundle. */
static void test_closed(void **state)
{
    struct storetest *f = *state;
    struct op op = signal_op(100, one[0], 1, QP_STR("1"));
    conform_job(f, 100);
    op.hook_signal.has_id = true;
    DO(f, op);
    (void)signalled(f, two[0], 2, "2");
    assert_int_equal(storetest_count(f, TABLE_idem), 1);
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(7), .state = JOB_FAILED));
    op = signal_op(100, one[0], 3, QP_STR("3"));
    (void)REFUSED(f, QP_E_CLOSED, op);
    op.hook_signal.once = true;
    assert_int_equal(conform_run(f, op, __FILE__, __LINE__).hook_signal.out_refused, QP_E_CLOSED);
    while (RUN(f, job_sweep, .ref = JOB(100), .limit = 1).out_more) {}
    assert_int_equal(storetest_count(f, TABLE_hook_sig), 0);
    assert_int_equal(storetest_count(f, TABLE_hook), 0);
    assert_int_equal(storetest_count(f, TABLE_idem), 0);
    assert_int_equal(job_row(f)->kept, 0);
    op = signal_op(101, one[0], 3, QP_STR("3"));
    (void)REFUSED(f, QP_E_NOT_FOUND, op);
}

/* Proves the limits: so many bytes and so many signals are kept for one job, whatever their names are. */
static void test_limits(void **state)
{
    static char large[LIMIT_SIGNALS_KEPT_SIZE / 4];
    struct storetest *f = *state;
    struct op op;
    memset(large, '1', sizeof large);
    conform_job(f, 100);
    for (unsigned i = 1; i <= 4; i++) {
        DO(f, signal_op(100, i % 2 == 0 ? one[0] : two[0], i, (qp_str){large, sizeof large}));
    }
    op = signal_op(100, QP_STR("@other"), 5, QP_STR("1"));
    op.hook_signal.once = true;
    assert_int_equal(conform_run(f, op, __FILE__, __LINE__).hook_signal.out_refused, QP_E_LIMIT);
    assert_true(listens(f, one, 1, 1).out_met);
    assert_true(signalled(f, QP_STR("@other"), 5, "1").out_kept);
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(7), .state = JOB_FAILED));
    while (RUN(f, job_sweep, .ref = JOB(100), .limit = 100).out_more) {}
}

/* Proves that the number of kept signals has an end. */
static void test_many(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    for (unsigned i = 0; i < LIMIT_SIGNALS_KEPT_PER_JOB;) {
        struct commit c;
        struct bundle *b;
        commit_init(&c, f->s);
        b = commit_bundle(&c, "many");
        for (unsigned k = 0; k < 1000; k++, i++) {
            struct op *op = bundle_op(b, OP_hook_signal);
            assert_non_null(op);
            *op = signal_op(100, k % 2 == 0 ? one[0] : two[0], 1 + i % 60, QP_STR("1"));
        }
        assert_int_equal(store_commit(f->s, &c), QP_OK);
        assert_int_equal(b->rc, QP_OK);
        commit_done(&c);
    }
    assert_int_equal(job_row(f)->kept, LIMIT_SIGNALS_KEPT_PER_JOB);
    (void)REFUSED(f, QP_E_LIMIT, signal_op(100, one[0], 1, QP_STR("1")));
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(7), .state = JOB_FAILED));
    DO(f, OP(job_sweep, .ref = JOB(100), .limit = LIMIT_SIGNALS_KEPT_PER_JOB + 1));
}

/* Proves that hooks of graphs and names of signals to a job are apart, and what neither side takes. */
static void test_invalid(void **state)
{
    static const qp_str twice[] = {{"@one", 4}, {"@one", 4}};
    static const qp_str plain[] = {{"one", 3}};
    static const qp_str empty[] = {{"@", 1}};
    struct storetest *f = *state;
    struct op bad[10];
    conform_job(f, 100);
    bad[0] = listen_op(100, twice, 2, 1);
    bad[1] = listen_op(100, plain, 1, 1);
    bad[2] = listen_op(100, empty, 1, 1);
    bad[3] = listen_op(100, one, 1, 0);
    bad[4] = listen_op(100, one, 1, LIMIT_LISTEN_SIGNALS + 1);
    bad[5] = listen_op(100, one, 1, 1);
    bad[5].hook_open.key = QP_STR("another");
    bad[6] = signal_op(100, plain[0], 1, QP_STR("1"));
    bad[7] = signal_op(100, one[0], 1, QP_STR("1"));
    bad[7].hook_signal.to = (struct job_ref){0};
    bad[8] = signal_op(100, one[0], 1, QP_STR("1"));
    bad[8].hook_signal.key = QP_STR("another");
    bad[9] = OP(hook_open, .ref = JOB(100), .topic = one[0], .key = MINE, .addr = QP_STR("a"),
                .msg_topic = TOPIC);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        (void)REFUSED(f, QP_E_INVALID, bad[i]);
    }
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_delivered), CONFORM(test_kept_in_order), CONFORM(test_size), CONFORM(test_id),
    CONFORM(test_closed),    CONFORM(test_limits),        CONFORM(test_many), CONFORM(test_invalid),
};
CONFORM_TOPIC(listen);

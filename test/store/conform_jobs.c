/* conform_jobs.c - jobs: inception, flags, closing, finishing, attributes */
#include "store/conform.h"

#define WORKFLOW QP_STR("order")

static struct op create(int64_t number, const char *jid, const char *custom, unsigned owner,
                        const char *body)
{
    return OP(job_create, .ref = JOB(number), .jid = str_from(jid), .workflow = WORKFLOW,
              .custom_id = str_from(custom), .owner_guid = G(owner), .body_hash = str_from(body));
}

static int add_counter(void *context, const void *row)
{
    *(int64_t *)context += ((const struct counter_row *)row)->n;
    return QP_OK;
}

/* The sum over shards. */
static int64_t counter_of(struct storetest *f, int64_t status)
{
    struct counter_row prefix = {.ns = NS, .workflow = WORKFLOW, .status = status};
    struct scan shards = {.table = TABLE_counter,
                          .index = -1,
                          .prefix = &prefix,
                          .prefix_count = 3,
                          .limit = SIZE_MAX};
    struct qp_err err = {0};
    int64_t n = 0;
    assert_int_equal(store_scan(f->s, &shards, &n, add_counter, &err), QP_OK);
    return n;
}

/* Proves inception: the row as it was asked for, semaphore 0 and not open, the name taken, the
 * counter moved. */
static void test_create(void **state)
{
    struct storetest *f = *state;
    struct op_job_create out =
        RUN(f, job_create, .ref = JOB(100), .jid = QP_STR("a"), .kind = 3, .workflow = WORKFLOW,
            .version = QP_STR("v1"), .custom_id = QP_STR("c"), .parent_job = 99,
            .parent_addr = QP_STR("p"), .parent_guid = G(9), .forked_from = QP_STR("z"),
            .owner_guid = G(1), .body_hash = QP_STR("b"), .priority = 4, .limit_key = QP_STR("k"),
            .threshold = 2);
    const struct job_row *job = conform_job_row(f, 100);
    assert_int_equal(out.out_job, 100);
    assert_true(out.out_owner);
    assert_str(job->jid, QP_STR("a"));
    assert_int_equal(job->kind, 3);
    assert_str(job->version, QP_STR("v1"));
    assert_str(job->custom_id, QP_STR("c"));
    assert_int_equal(job->parent_job, 99);
    assert_str(job->parent_addr, QP_STR("p"));
    assert_str(job->parent_guid, G(9));
    assert_str(job->forked_from, QP_STR("z"));
    assert_str(job->owner_guid, G(1));
    assert_int_equal(job->priority, 4);
    assert_str(job->limit_key, QP_STR("k"));
    assert_int_equal(job->threshold, 2);
    assert_int_equal(job->created_at, store_now(f->s));
    assert_int_equal(job->sem, 0);
    assert_int_equal(job->opened, 0);
    assert_int_equal(job->seq, 0);
    assert_int_equal(job->state, JOB_OPEN);
    assert_int_equal(job->status, STATUS_RUNNING);
    assert_true(str_is_none(job->closed_by));
    assert_int_equal(counter_of(f, STATUS_RUNNING), 1);
}

/* Proves that the one that calls a job counts it when it does not outlive that one, and that such a call needs an open job. */
static void test_create_close(void **state)
{
    static const struct {
        enum close_policy close;
        int64_t calls;
    } cases[] = {{CLOSE_CANCEL, 1}, {CLOSE_ABANDON, 1}, {CLOSE_KILL, 2}};
    struct storetest *f = *state;
    struct op call = create(101, "b", NULL, 2, "body");
    call.job_create.parent_job = 100;
    call.job_create.parent_addr = QP_STR("p");
    call.job_create.close = CLOSE_KILL;
    (void)REFUSED(f, QP_E_NOT_FOUND, call);
    DO(f, create(100, "a", NULL, 1, "body"));
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char jid[] = {(char)('b' + (char)i), '\0'};
        call.job_create.ref.job = 101 + (int64_t)i;
        call.job_create.jid = str_from(jid);
        call.job_create.close = cases[i].close;
        DO(f, call);
        assert_int_equal(conform_job_row(f, 101 + (int64_t)i)->close, cases[i].close);
        assert_int_equal(conform_job_row(f, 100)->calls, cases[i].calls);
    }
    call.job_create.ref.job = 110;
    call.job_create.jid = QP_STR("z");
    call.job_create.close = CLOSE_POLICIES;
    (void)REFUSED(f, QP_E_INVALID, call);
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(1), .state = JOB_FAILED));
    call.job_create.close = CLOSE_CANCEL;
    (void)REFUSED(f, QP_E_CLOSED, call);
    assert_int_equal(conform_job_row(f, 100)->calls, 2);
}

/* Proves H3: the same request again is known by its body, and the owner by its GUID; what is there
 * stays. */
static void test_create_duplicate(void **state)
{
    static const struct {
        const char *jid;
        const char *custom;
        unsigned owner;
        const char *body;
        int code;
        bool is_owner;
    } cases[] = {
        {"a", NULL, 1, "body", QP_E_EXISTS, true},
        {"a", NULL, 2, "body", QP_E_EXISTS, false},
        {"a", NULL, 1, "other", QP_E_CONFLICT, true},
        {"a", NULL, 2, "other", QP_E_CONFLICT, false},
        {"a", "custom", 2, NULL, QP_E_CONFLICT, false},
        {"b", "custom", 1, "body", QP_E_EXISTS, true}, /* by its custom id */
        {"b", "custom", 2, "other", QP_E_CONFLICT, false},
    };
    struct storetest *f = *state;
    DO(f, create(100, "a", "custom", 1, "body"));
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct op op = conform_refused_op(
            f, cases[i].code,
            create(101, cases[i].jid, cases[i].custom, cases[i].owner, cases[i].body));
        assert_int_equal(op.job_create.out_job, 100);
        assert_int_equal(op.job_create.out_owner, cases[i].is_owner);
    }
}

/* Proves that an id is one namespace's, a custom id one workflow's and only while its job is
 * open. */
static void test_create_again_elsewhere(void **state)
{
    struct storetest *f = *state;
    struct op other = create(101, "b", "custom", 2, "body");
    int64_t ns = RUN(f, space_create, .name = QP_STR("second")).out_ns;
    DO(f, create(100, "a", "custom", 1, "body"));
    other.job_create.workflow = QP_STR("refund");
    DO(f, other);
    DO(f, OP(job_create, .ref = {ns, 102}, .jid = QP_STR("a"), .workflow = WORKFLOW,
             .custom_id = QP_STR("custom")));
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(1), .state = JOB_FAILED));
    DO(f, create(103, "c", "custom", 3, "body"));
    (void)REFUSED(f, QP_E_EXISTS, create(104, "d", "custom", 3, "body"));
    (void)REFUSED(f, QP_E_EXISTS, create(104, "a", NULL, 3, "body")); /* its id is never free */
}

/* A number is used for ever, and so is an id. What is not looked up fails the whole commit when it is
 * written, its neighbour with it. Where many write, that somebody was faster is no conflict of the commit's
 * own: it is worth another try. */
static void assert_used_fails_the_commit(struct storetest *f, struct op op)
{
    struct commit c;
    struct store_info info;
    struct bundle *neighbour;
    struct bundle *b;
    int code;
    store_info(f->s, &info);
    code = info.shared ? QP_E_BUSY : QP_E_CONFLICT;
    commit_init(&c, f->s);
    neighbour = commit_bundle(&c, "neighbour");
    *bundle_op(neighbour, OP_audit_add) = OP(audit_add, .ns = NS, .actor = QP_STR("a"));
    b = commit_bundle(&c, "used number");
    *bundle_op(b, OP_job_create) = op;
    assert_int_equal(store_commit(f->s, &c), code);
    assert_int_equal(b->rc, code);
    assert_int_equal(neighbour->rc, code);
    commit_done(&c);
    assert_int_equal(storetest_count(f, TABLE_audit), 0);
    assert_int_equal(storetest_count(f, TABLE_job_name), 1);
}

/* Proves that a fresh id is taken on trust, and that the trust is checked when it is written; twice in
 * one commit it is seen at once. */
static void test_create_fresh(void **state)
{
    struct storetest *f = *state;
    struct op first = create(100, "a", NULL, 1, "body");
    struct op second = create(101, "a", NULL, 1, "body");
    struct op twice[2];
    first.job_create.fresh = true;
    second.job_create.fresh = true;
    DO(f, first);
    assert_used_fails_the_commit(f, second);
    twice[0] = create(102, "b", NULL, 1, "body");
    twice[1] = create(103, "b", NULL, 1, "body");
    twice[1].job_create.fresh = true;
    assert_int_equal(storetest_bundle(f, twice, 2, NULL), QP_E_INVALID);
    (void)REFUSED(f, QP_E_EXISTS, create(104, "a", NULL, 1, "body"));
}

/* Proves that bad input is refused as such, before any provider sees it. */
static void test_create_invalid(void **state)
{
    static char long_text[LIMIT_ID_SIZE + 1];
    qp_str too_long = {long_text, sizeof long_text};
    struct storetest *f = *state;
    struct op good = create(100, "a", NULL, 1, "body");
    struct op bad[7];
    memset(long_text, 'x', sizeof long_text);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        bad[i] = good;
    }
    bad[0].job_create.jid = QP_NONE;
    bad[1].job_create.jid = QP_STR("");
    bad[2].job_create.jid = too_long;
    bad[3].job_create.workflow = QP_NONE;
    bad[4].job_create.workflow = too_long;
    bad[5].job_create.custom_id = too_long;
    bad[6].job_create.ref.job = 0;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        (void)REFUSED(f, QP_E_INVALID, bad[i]);
    }
    DO(f, good);
    good.job_create.jid = QP_STR("b");
    assert_used_fails_the_commit(f, good);
}

/* Proves that job_set changes what it names and nothing else, with the counters, and only while the
 * job is open. */
static void test_set(void **state)
{
    struct storetest *f = *state;
    const struct job_row *job;
    conform_job(f, 100);
    DO(f, OP(job_set, .ref = JOB(100), .what = JOB_SET_ERROR, .error = QP_STR("f"), .cancelled = 1,
             .parked = QP_STR("not asked for")));
    job = conform_job_row(f, 100);
    assert_str(job->error, QP_STR("f"));
    assert_int_equal(job->cancelled, 0);
    assert_true(str_is_none(job->parked));
    assert_int_equal(counter_of(f, STATUS_RUNNING), 1);
    DO(f, OP(job_set, .ref = JOB(100), .what = JOB_SET_CANCELLED | JOB_SET_PARKED | JOB_SET_ERROR,
             .cancelled = 1, .parked = QP_STR("dead letter"), .error = QP_STR("e"),
             .fingerprint = QP_STR("fp")));
    job = conform_job_row(f, 100);
    assert_int_equal(job->cancelled, 1);
    assert_str(job->parked, QP_STR("dead letter"));
    assert_str(job->error, QP_STR("e"));
    assert_str(job->fingerprint, QP_STR("fp"));
    assert_int_equal(job->status, STATUS_PARKED);
    assert_int_equal(counter_of(f, STATUS_RUNNING), 0);
    assert_int_equal(counter_of(f, STATUS_PARKED), 1);
    DO(f, OP(job_set, .ref = JOB(100), .what = JOB_SET_PARKED));
    assert_true(str_is_none(conform_job_row(f, 100)->parked));
    assert_int_equal(conform_job_row(f, 100)->status, STATUS_RUNNING);
    (void)REFUSED(f, QP_E_NOT_FOUND, OP(job_set, .ref = JOB(101), .what = JOB_SET_CANCELLED));
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(1), .state = JOB_CANCELLED));
    (void)REFUSED(f, QP_E_CLOSED, OP(job_set, .ref = JOB(100), .what = JOB_SET_CANCELLED));
}

/* Proves H9: a job is closed out of its turn once, by the GUID that does it, with the word that
 * belongs to the state. */
static void test_close(void **state)
{
    static const struct {
        int64_t state;
        int64_t status;
    } cases[] = {{JOB_COMPLETED, STATUS_COMPLETED},
                 {JOB_FAILED, STATUS_FAILED},
                 {JOB_CANCELLED, STATUS_CANCELLED},
                 {JOB_INTERRUPTED, STATUS_INTERRUPTED}};
    struct storetest *f = *state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int64_t number = 100 + (int64_t)i;
        const struct job_row *job;
        conform_job_open(f, number, 1);
        DO(f, OP(job_close, .ref = JOB(number), .guid = G(7), .state = cases[i].state,
                 .error = QP_STR("e"), .fingerprint = QP_STR("fp")));
        job = conform_job_row(f, number);
        assert_int_equal(job->state, cases[i].state);
        assert_int_equal(job->status, cases[i].status);
        assert_str(job->closed_by, G(7));
        assert_str(job->error, QP_STR("e"));
        assert_str(job->fingerprint, QP_STR("fp"));
        assert_int_equal(job->sem, 1); /* closing moves no semaphore */
        assert_int_equal(job->completions, 0);
        assert_int_equal(counter_of(f, cases[i].status), 1);
        (void)REFUSED(f, QP_E_CLOSED,
                      OP(job_close, .ref = JOB(number), .guid = G(8), .state = JOB_FAILED));
    }
    assert_int_equal(counter_of(f, STATUS_RUNNING), 0);
}

/* Proves what job_close does not take: no job, no GUID to close it by, a state that is none of the
 * closed ones. */
static void test_close_invalid(void **state)
{
    struct storetest *f = *state;
    conform_job_open(f, 100, 1);
    (void)REFUSED(f, QP_E_NOT_FOUND,
                  OP(job_close, .ref = JOB(101), .guid = G(1), .state = JOB_FAILED));
    (void)REFUSED(f, QP_E_INVALID, OP(job_close, .ref = JOB(100), .guid = G(1), .state = JOB_OPEN));
    (void)REFUSED(f, QP_E_INVALID,
                  OP(job_close, .ref = JOB(100), .guid = G(1), .state = JOB_STATES));
    (void)REFUSED(f, QP_E_INVALID, OP(job_close, .ref = JOB(100), .state = JOB_FAILED));
}

/* Proves that completion effects happen once and only for the GUID that owns the edge (H11). */
static void test_finish(void **state)
{
    struct storetest *f = *state;
    const struct job_row *job;
    conform_job_open(f, 100, 1);
    (void)REFUSED(f, QP_E_NOT_FOUND, OP(job_finish, .ref = JOB(101), .guid = G(100)));
    (void)REFUSED(f, QP_E_CONFLICT, OP(job_finish, .ref = JOB(100), .guid = G(100)));
    (void)REFUSED(f, QP_E_CONFLICT, OP(job_finish, .ref = JOB(100)));
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(7), .state = JOB_FAILED));
    (void)REFUSED(f, QP_E_CONFLICT, OP(job_finish, .ref = JOB(100), .guid = G(100)));
    testenv_advance_ms(&f->t, 10);
    DO(f, OP(job_finish, .ref = JOB(100), .guid = G(7), .output = QP_STR("out"), .keep_ms = 500));
    job = conform_job_row(f, 100);
    assert_int_equal(job->completions, 1);
    assert_str(job->output, QP_STR("out"));
    assert_int_equal(job->closed_at, store_now(f->s));
    assert_int_equal(job->expire_at, store_now(f->s) + 500);
    (void)REFUSED(f, QP_E_DONE, OP(job_finish, .ref = JOB(100), .guid = G(7)));
    conform_job_closed(f, 102, true);
    assert_int_equal(conform_job_row(f, 102)->expire_at, 0); /* keep_ms 0: kept for ever */
}

/* Proves that pausing sets flag and word once, resuming takes them back, and a closed job is past
 * both. */
static void test_pause_and_resume(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    (void)REFUSED(f, QP_E_NOT_FOUND, OP(job_pause, .ref = JOB(101)));
    (void)REFUSED(f, QP_E_NOT_FOUND, OP(job_resume, .ref = JOB(101), .limit = 1));
    (void)REFUSED(f, QP_E_INVALID, OP(job_resume, .ref = JOB(100), .limit = 0));
    for (int i = 0; i < 2; i++) {
        DO(f, OP(job_pause, .ref = JOB(100)));
        assert_int_equal(conform_job_row(f, 100)->paused, 1);
        assert_int_equal(conform_job_row(f, 100)->status, STATUS_PAUSED);
        assert_int_equal(counter_of(f, STATUS_PAUSED), 1);
    }
    DO(f, OP(job_set, .ref = JOB(100), .what = JOB_SET_PARKED, .parked = QP_STR("why")));
    assert_int_equal(conform_job_row(f, 100)->status, STATUS_PAUSED);
    assert_false(RUN(f, job_resume, .ref = JOB(100), .limit = 1).out_more);
    assert_int_equal(conform_job_row(f, 100)->paused, 0);
    assert_int_equal(conform_job_row(f, 100)->status, STATUS_PARKED);
    DO(f, OP(job_resume, .ref = JOB(100), .limit = 1)); /* it was not paused */
    assert_int_equal(conform_job_row(f, 100)->status, STATUS_PARKED);
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(1), .state = JOB_FAILED));
    (void)REFUSED(f, QP_E_CLOSED, OP(job_pause, .ref = JOB(100)));
    (void)REFUSED(f, QP_E_CLOSED, OP(job_resume, .ref = JOB(100), .limit = 1));
}

/* Proves that what comes for a paused job that was closed is not set aside: nobody could bring it back. */
static void test_closing_ends_a_pause(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    DO(f, OP(job_pause, .ref = JOB(100)));
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(1), .state = JOB_INTERRUPTED));
    assert_int_equal(conform_job_row(f, 100)->paused, 0);
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(2), .topic = QP_STR("t")));
    assert_int_equal(conform_msg_row(f, 100, 2)->state, MSG_READY);
}

static const struct attr_row *attr_of(struct storetest *f, qp_str name)
{
    return storetest_row(f, TABLE_attr, &(struct attr_row){.ns = NS, .job = 100, .name = name});
}

/* Proves that an attribute is set, changed, found by value and removed; and its limits. */
static void test_attributes(void **state)
{
    static char bytes[LIMIT_ATTRIBUTE_SIZE + 1];
    qp_str name = QP_STR("customer");
    struct storetest *f = *state;
    memset(bytes, 'x', sizeof bytes);
    conform_job(f, 100);
    DO(f, OP(attr_put, .ref = JOB(100), .name = name, .value = QP_STR("ann")));
    DO(f, OP(attr_put, .ref = JOB(100), .name = name, .value = QP_STR("bob")));
    assert_str(attr_of(f, name)->value, QP_STR("bob"));
    DO(f, OP(attr_put, .ref = JOB(100), .name = QP_STR("empty"), .value = QP_STR("")));
    assert_false(str_is_none(attr_of(f, QP_STR("empty"))->value));
    DO(f, OP(attr_put, .ref = JOB(100), .name = name));
    assert_null(attr_of(f, name));
    DO(f, OP(attr_put, .ref = JOB(100), .name = name)); /* and again: nothing to remove */
    DO(f, OP(attr_put, .ref = JOB(100), .name = name, .value = {bytes, LIMIT_ATTRIBUTE_SIZE}));
    (void)REFUSED(
        f, QP_E_TOO_LARGE,
        OP(attr_put, .ref = JOB(100), .name = name, .value = {bytes, LIMIT_ATTRIBUTE_SIZE + 1}));
    (void)REFUSED(f, QP_E_NOT_FOUND,
                  OP(attr_put, .ref = JOB(101), .name = name, .value = QP_STR("x")));
    (void)REFUSED(f, QP_E_INVALID, OP(attr_put, .ref = JOB(100), .value = QP_STR("x")));
    (void)REFUSED(
        f, QP_E_INVALID,
        OP(attr_put, .ref = JOB(100), .name = {bytes, LIMIT_NAME_SIZE + 1}, .value = QP_STR("x")));
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_create),
    CONFORM(test_create_close),
    CONFORM(test_create_duplicate),
    CONFORM(test_create_fresh),
    CONFORM(test_create_invalid),
    CONFORM(test_create_again_elsewhere),
    CONFORM(test_set),
    CONFORM(test_close),
    CONFORM(test_close_invalid),
    CONFORM(test_finish),
    CONFORM(test_attributes),
    CONFORM(test_pause_and_resume),
    CONFORM(test_closing_ends_a_pause),
};
CONFORM_TOPIC(jobs);

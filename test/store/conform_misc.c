/* conform_misc.c - namespaces, numbers, nodes, data, audit, idempotency, access tokens */
#include "store/conform.h"

static char bytes[LIMIT_ADDRESS_SIZE + 1];
static char large[LIMIT_PAYLOAD_HARD_SIZE + 1];

static qp_str text_of(size_t size)
{
    memset(bytes, 'x', sizeof bytes);
    assert_true(size <= sizeof bytes);
    return (qp_str){bytes, size};
}

/* Proves that a namespace has one number for ever, and a fresh store has "default" as number 1. */
static void test_spaces(void **state)
{
    struct storetest *f = *state;
    struct op op = OP(space_create, .name = QP_STR("tenant"));
    int64_t ns;
    ns = RUN(f, space_create, .name = QP_STR("tenant")).out_ns;
    assert_true(ns > STORE_NS_DEFAULT);
    op = conform_refused_op(f, QP_E_EXISTS, op);
    assert_int_equal(op.space_create.out_ns, ns);
    op = conform_refused_op(f, QP_E_EXISTS, OP(space_create, .name = QP_STR("default")));
    assert_int_equal(op.space_create.out_ns, STORE_NS_DEFAULT);
    storetest_reopen(f);
    op = conform_refused_op(f, QP_E_EXISTS, OP(space_create, .name = QP_STR("tenant")));
    assert_int_equal(op.space_create.out_ns, ns);
    (void)REFUSED(f, QP_E_INVALID, OP(space_create, .name = QP_NONE));
    (void)REFUSED(f, QP_E_INVALID, OP(space_create, .name = QP_STR("")));
    (void)REFUSED(f, QP_E_INVALID, OP(space_create, .name = text_of(LIMIT_NAME_SIZE + 1)));
    assert_true(RUN(f, space_create, .name = text_of(LIMIT_NAME_SIZE)).out_ns > ns);
}

/* Proves that numbers are given once, also across a restart; what was undone may come again, what
 * was committed not. */
static void test_ids(void **state)
{
    struct storetest *f = *state;
    int64_t next = RUN(f, ids_reserve, .count = 10).out_first + 10;
    for (int i = 0; i < 3; i++) {
        int64_t first = RUN(f, ids_reserve, .count = LIMIT_IDS_PER_BLOCK).out_first;
        assert_true(first >= next);
        next = first + LIMIT_IDS_PER_BLOCK;
        storetest_reopen(f);
    }
    (void)REFUSED(f, QP_E_INVALID, OP(ids_reserve, .count = 0));
    (void)REFUSED(f, QP_E_INVALID, OP(ids_reserve, .count = -1));
    (void)REFUSED(f, QP_E_INVALID, OP(ids_reserve, .count = LIMIT_IDS_PER_BLOCK + 1));
}

static const struct node_row *node_row(struct storetest *f, int64_t epoch)
{
    return storetest_row(f, TABLE_node, &(struct node_row){.epoch = epoch});
}

/* Proves a node's run: a number of its own, intent and lease that move, an end that is an end. */
static void test_nodes(void **state)
{
    struct storetest *f = *state;
    int64_t first = RUN(f, node_put, .name = QP_STR("n"), .lease_ms = 1000).out_epoch;
    int64_t second = RUN(f, node_put, .name = QP_STR("n"), .intent = QP_STR("i")).out_epoch;
    qp_ms until = store_now(f->s) + 1000;
    assert_true(first > 0 && second > first);
    assert_int_equal(node_row(f, first)->lease_until, until);
    assert_int_equal(node_row(f, first)->state, NODE_RUNNING);
    assert_int_equal(node_row(f, second)->lease_until, 0);
    assert_str(node_row(f, second)->intent, QP_STR("i"));
    testenv_advance_ms(&f->t, 500);
    DO(f, OP(node_put, .epoch = first, .intent = QP_STR("batch")));
    assert_int_equal(node_row(f, first)->lease_until, until); /* lease_ms 0 leaves it */
    assert_str(node_row(f, first)->intent, QP_STR("batch"));
    DO(f, OP(node_put, .epoch = first, .lease_ms = 1000));
    assert_int_equal(node_row(f, first)->lease_until, until + 500);
    DO(f, OP(node_put, .epoch = first, .state = NODE_LEFT));
    DO(f, OP(node_put, .epoch = second, .state = NODE_DEAD));
    (void)REFUSED(f, QP_E_STALE, OP(node_put, .epoch = first, .lease_ms = 1));
    (void)REFUSED(f, QP_E_STALE, OP(node_put, .epoch = second, .lease_ms = 1));
    (void)REFUSED(f, QP_E_STALE, OP(node_put, .epoch = 999, .lease_ms = 1));
    (void)REFUSED(f, QP_E_INVALID, OP(node_put, .lease_ms = -1));
    (void)REFUSED(f, QP_E_INVALID, OP(node_put, .lease_ms = LIMIT_LEASE_MS + 1));
    (void)REFUSED(f, QP_E_INVALID, OP(node_put, .epoch = first, .state = NODE_ENDING + 1));
}

/* Proves that a run which is being ended keeps its row, takes no more life, and can be ended, by whoever comes. */
static void test_node_ending(void **state)
{
    struct storetest *f = *state;
    int64_t run = RUN(f, node_put, .name = QP_STR("n"), .lease_ms = 1000).out_epoch;
    for (int i = 0; i < 2; i++) {
        DO(f, OP(node_put, .epoch = run, .state = NODE_ENDING));
        assert_int_equal(node_row(f, run)->state, NODE_ENDING);
        (void)REFUSED(f, QP_E_STALE, OP(node_put, .epoch = run, .lease_ms = 1000));
    }
    DO(f, OP(node_put, .epoch = run, .state = NODE_DEAD));
    (void)REFUSED(f, QP_E_STALE, OP(node_put, .epoch = run, .state = NODE_ENDING));
}

static const struct data_row *data_row(struct storetest *f, qp_str name)
{
    return storetest_row(f, TABLE_data, &(struct data_row){.ns = NS, .job = 100, .name = name});
}

/* Proves that data is set, replaced and deleted, that empty is not none, and that bytes are
 * bytes. */
static void test_data(void **state)
{
    static const char odd[] = {0, 1, (char)0xff, 0, 'x'};
    struct storetest *f = *state;
    qp_str name = QP_STR("n");
    conform_job(f, 100);
    DO(f, OP(data_put, .ref = JOB(100), .name = name, .value = {odd, sizeof odd}));
    assert_str(data_row(f, name)->value, ((qp_str){odd, sizeof odd}));
    testenv_advance_ms(&f->t, 5);
    DO(f, OP(data_put, .ref = JOB(100), .name = name, .value = QP_STR("")));
    assert_int_equal(data_row(f, name)->value.n, 0);
    assert_false(str_is_none(data_row(f, name)->value));
    assert_int_equal(data_row(f, name)->updated_at, store_now(f->s));
    DO(f, OP(data_put, .ref = JOB(100), .name = name));
    assert_null(data_row(f, name));
    DO(f, OP(data_put, .ref = JOB(100), .name = name)); /* nothing there: nothing to do */
    DO(f, OP(data_put, .ref = JOB(100), .name = text_of(LIMIT_ADDRESS_SIZE), .value = name));
    (void)REFUSED(f, QP_E_NOT_FOUND, OP(data_put, .ref = JOB(101), .name = name, .value = name));
    (void)REFUSED(f, QP_E_INVALID, OP(data_put, .ref = JOB(100), .value = name));
    (void)REFUSED(
        f, QP_E_INVALID,
        OP(data_put, .ref = JOB(100), .name = text_of(LIMIT_ADDRESS_SIZE + 1), .value = name));
    (void)REFUSED(f, QP_E_TOO_LARGE,
                  OP(data_put, .ref = JOB(100), .name = name, .value = {large, sizeof large}));
}

static int check_audit(void *context, const void *row)
{
    const struct audit_row *a = row;
    int64_t *last = context;
    assert_true(a->id > *last);
    assert_str(a->actor, QP_STR("ann"));
    assert_str(a->action, QP_STR("cancel"));
    assert_str(a->target, QP_STR("job-1"));
    assert_str(a->outcome, QP_STR("ok"));
    assert_true(str_is_none(a->detail));
    *last = a->id;
    return QP_OK;
}

/* Proves that the audit only grows, in order. */
static void test_audit(void **state)
{
    struct storetest *f = *state;
    struct scan all = {.table = TABLE_audit, .index = -1, .limit = SIZE_MAX};
    struct qp_err err;
    int64_t last = 0;
    for (int i = 0; i < 3; i++) {
        DO(f, OP(audit_add, .ns = NS, .actor = QP_STR("ann"), .action = QP_STR("cancel"),
                 .target = QP_STR("job-1"), .outcome = QP_STR("ok")));
        storetest_reopen(f);
    }
    assert_int_equal(storetest_count(f, TABLE_audit), 3);
    assert_int_equal(store_scan(f->s, &all, &last, check_audit, &err), QP_OK);
}

static struct op idem(const char *key, const char *body, int64_t ttl_ms)
{
    return OP(idem_put, .ns = NS, .key = str_from(key), .body_hash = str_from(body), .status = 201,
              .answer = QP_STR("answer"), .ttl_ms = ttl_ms);
}

/* Proves that the second request with a key hears the answer of the first; what the bundle did
 * besides is undone. */
static void test_idem_answers(void **state)
{
    struct storetest *f = *state;
    struct commit c;
    struct bundle *b;
    struct op *op;
    DO(f, idem("k", "body", 1000));
    commit_init(&c, f->s);
    b = commit_bundle(&c, "again");
    op = bundle_op(b, OP_audit_add);
    assert_non_null(op);
    op = bundle_op(b, OP_idem_put);
    assert_non_null(op);
    *op = idem("k", "body", 1000);
    op->idem_put.status = 500;
    op->idem_put.answer = QP_STR("another");
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(b->rc, QP_E_EXISTS);
    assert_int_equal(op->idem_put.out_status, 201);
    assert_str(op->idem_put.out_answer, QP_STR("answer"));
    commit_done(&c);
    assert_int_equal(storetest_count(f, TABLE_audit), 0);
}

/* Proves that another body is a conflict, another namespace another key, and that a record ends
 * with its time. */
static void test_idem(void **state)
{
    struct storetest *f = *state;
    struct op other = idem("k", "body", 1000);
    DO(f, idem("k", "body", 1000));
    (void)REFUSED(f, QP_E_EXISTS, idem("k", "body", 1000));
    (void)REFUSED(f, QP_E_CONFLICT, idem("k", "other", 1000));
    (void)REFUSED(f, QP_E_CONFLICT, idem("k", NULL, 1000));
    other.idem_put.ns = NS + 1;
    DO(f, other);
    testenv_advance_ms(&f->t, 999);
    assert_int_equal(conform_wake_due(f), 0);
    testenv_advance_ms(&f->t, 1);
    assert_int_equal(conform_wake_due(f), 2);
    DO(f, idem("k", "other", LIMIT_TIMER_MS));
    (void)REFUSED(f, QP_E_INVALID, idem(NULL, "body", 1000));
    (void)REFUSED(f, QP_E_INVALID, idem("", "body", 1000));
    (void)REFUSED(f, QP_E_INVALID, idem("x", "body", 0));
    (void)REFUSED(f, QP_E_INVALID, idem("x", "body", LIMIT_TIMER_MS + 1));
    other.idem_put.key = text_of(LIMIT_ID_SIZE + 1);
    (void)REFUSED(f, QP_E_INVALID, other);
}

#define HASH QP_STR("0123456789abcdef0123456789abcdef")

static const struct access_row *access_row(struct storetest *f, const char *id)
{
    return storetest_row(f, TABLE_access, &(struct access_row){.id = str_from(id)});
}

/* Proves that a token is there once, says when it ends, and keeps the first time at which it was revoked. */
static void test_access(void **state)
{
    struct storetest *f = *state;
    qp_ms first;
    DO(f, OP(access_put, .id = QP_STR("t"), .hash = HASH, .name = QP_STR("ann's"),
             .role = QP_STR("worker"), .spaces = QP_STR("a*"), .topics = QP_STR("*"),
             .expire_ms = 1000));
    first = store_now(f->s);
    assert_int_equal(access_row(f, "t")->created_at, first);
    assert_int_equal(access_row(f, "t")->expire_at, first + 1000);
    assert_str(access_row(f, "t")->hash, HASH);
    assert_str(access_row(f, "t")->spaces, QP_STR("a*"));
    assert_true(str_is_none(access_row(f, "t")->scopes));
    (void)REFUSED(f, QP_E_EXISTS,
                  OP(access_put, .id = QP_STR("t"), .hash = HASH, .role = QP_STR("admin")));
    assert_str(access_row(f, "t")->role, QP_STR("worker"));
    testenv_advance_ms(&f->t, 7);
    DO(f, OP(access_set, .id = QP_STR("t"), .used = true));
    assert_int_equal(access_row(f, "t")->used_at, first + 7);
    assert_int_equal(access_row(f, "t")->revoked_at, 0);
    DO(f, OP(access_set, .id = QP_STR("t"), .revoke = true));
    testenv_advance_ms(&f->t, 7);
    DO(f, OP(access_set, .id = QP_STR("t"), .revoke = true));
    assert_int_equal(access_row(f, "t")->revoked_at, first + 7);
    assert_int_equal(access_row(f, "t")->used_at, first + 7);
    (void)REFUSED(f, QP_E_NOT_FOUND, OP(access_set, .id = QP_STR("u"), .used = true));
}

/* Proves that a token without a name, a role or a whole hash is none, nor one that is too long. */
static void test_access_refused(void **state)
{
    struct storetest *f = *state;
    struct op good = OP(access_put, .id = QP_STR("t"), .hash = HASH, .role = QP_STR("r"));
    struct op bad[10];
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        bad[i] = good;
    }
    bad[0].access_put.id = QP_NONE;
    bad[1].access_put.id = text_of(LIMIT_NAME_SIZE + 1);
    bad[2].access_put.hash.n--;
    bad[3].access_put.role = QP_NONE;
    bad[4].access_put.name = text_of(LIMIT_ID_SIZE + 1);
    bad[5].access_put.scopes = text_of(LIMIT_PATTERN_SIZE + 1);
    bad[6].access_put.spaces = text_of(LIMIT_PATTERN_SIZE + 1);
    bad[7].access_put.topics = text_of(LIMIT_PATTERN_SIZE + 1);
    bad[8].access_put.expire_ms = -1;
    bad[9].access_put.expire_ms = LIMIT_TIMER_MS + 1;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        (void)REFUSED(f, QP_E_INVALID, bad[i]);
    }
    DO(f, good);
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_spaces),         CONFORM(test_ids),  CONFORM(test_nodes),
    CONFORM(test_node_ending),    CONFORM(test_data), CONFORM(test_audit),
    CONFORM(test_idem_answers),   CONFORM(test_idem), CONFORM(test_access),
    CONFORM(test_access_refused),
};
CONFORM_TOPIC(misc);

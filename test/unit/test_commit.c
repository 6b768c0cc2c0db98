/* test_commit.c - filling a commit: order, stable ops, limits, want of memory */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/storetest.h"

static struct storetest f;

/* Ops stay where they are when more are added, and are found by index, across chunks. */
static void test_ops_never_move(void **state)
{
    struct op *ops[100];
    struct commit c;
    struct bundle *b;
    (void)state;
    storetest_init(&f, STORETEST_MEMORY, 1);
    commit_init(&c, f.s);
    b = commit_bundle(&c, "x");
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
        ops[i] = bundle_op(b, OP_wake);
        ops[i]->wake.limit = (int64_t)i;
    }
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
        assert_ptr_equal(bundle_op_at(b, i), ops[i]);
        assert_int_equal(ops[i]->wake.limit, i);
    }
    commit_done(&c);
    storetest_done(&f);
}

/* One bundle or op more than the limit is refused, and so is submitting what could not be
 * filled. */
static void test_limits_are_kept(void **state)
{
    struct commit c;
    struct bundle *b;
    (void)state;
    storetest_init(&f, STORETEST_MEMORY, 1);
    commit_init(&c, f.s);
    for (int i = 0; i < LIMIT_COMMIT_BUNDLES; i++) {
        assert_non_null(commit_bundle(&c, "x"));
    }
    assert_null(commit_bundle(&c, "one too many"));
    assert_int_equal(store_commit(f.s, &c), QP_E_LIMIT);
    commit_reset(&c);
    b = commit_bundle(&c, "x");
    for (int i = 0; i < LIMIT_BUNDLE_OPS; i++) {
        assert_non_null(bundle_op(b, OP_wake));
    }
    assert_null(bundle_op(b, OP_wake));
    assert_null(bundle_op(NULL, OP_wake));
    assert_int_equal(store_commit(f.s, &c), QP_E_LIMIT);
    assert_int_equal(b->rc, QP_E_LIMIT);
    commit_done(&c);
    storetest_done(&f);
}

/* Without memory a commit says so when it is submitted, and can be used again after a reset. */
static void test_without_memory(void **state)
{
    struct commit c;
    (void)state;
    storetest_init(&f, STORETEST_MEMORY, 1);
    commit_init(&c, f.s);
    testenv_fail_from(&f.t, 1);
    assert_null(commit_bundle(&c, "x"));
    testenv_fail_at(&f.t, 0);
    assert_int_equal(store_commit(f.s, &c), QP_E_NOMEM);
    commit_reset(&c);
    assert_non_null(commit_bundle(&c, "x"));
    assert_int_equal(store_commit(f.s, &c), QP_OK);
    commit_done(&c);
    storetest_done(&f);
}

static int decide_twenty(void *context, struct bundle *b)
{
    for (int i = 0; i < 20; i++) {
        struct op *op = bundle_op(b, OP_ids_reserve);
        if (op == NULL) {
            return *(const int *)context;
        }
        op->ids_reserve.count = 1;
        if (i % 3 == 0 && bundle_run(b) != QP_OK) {
            return QP_OK; /* the bundle has ended, whatever is said here */
        }
    }
    return QP_OK;
}

static int64_t next_id(void)
{
    const struct head_row *head = storetest_row(&f, TABLE_head, &(struct head_row){.ns = 0});
    return head->next_id;
}

/* One commit of a decided bundle and a neighbour, with the n-th allocation refused; true when it was.
 * Each of the two is there whole or not at all, as its code says. */
static bool decide_without_memory(int64_t n, int answer)
{
    struct commit c;
    struct bundle *b;
    struct bundle *neighbour;
    int64_t before = next_id();
    bool failed;
    int rc;
    commit_init(&c, f.s);
    testenv_fail_at(&f.t, n);
    b = commit_decided(&c, "decided", decide_twenty, &answer);
    neighbour = commit_bundle(&c, "neighbour");
    if (neighbour != NULL && bundle_op(neighbour, OP_ids_reserve) != NULL) {
        bundle_op_at(neighbour, 0)->ids_reserve.count = 1000;
    }
    rc = store_commit(f.s, &c);
    failed = testenv_failed(&f.t);
    testenv_fail_at(&f.t, 0);
    assert_true(rc == QP_OK || (failed && rc == QP_E_NOMEM));
    assert_int_equal(c.rc, rc);
    if (rc == QP_OK) {
        assert_int_equal(neighbour->rc, QP_OK);
        assert_true(b->rc == QP_OK || (failed && b->rc == QP_E_NOMEM));
        assert_int_equal(next_id(), before + 1000 + (b->rc == QP_OK ? 20 : 0));
    } else {
        assert_true(b == NULL || b->rc == QP_E_NOMEM);
        assert_int_equal(next_id(), before);
    }
    commit_done(&c);
    return failed;
}

/* A decided bundle that memory runs out for says so, whether or not its decision does. */
static void test_decided_without_memory(void **state)
{
    static const int answers[] = {QP_OK, QP_E_NOMEM};
    (void)state;
    storetest_init(&f, STORETEST_MEMORY, 1);
    for (size_t i = 0; i < ARRAY_COUNT(answers); i++) {
        int64_t n = 1;
        while (decide_without_memory(n, answers[i])) {
            n++;
        }
        assert_true(n > 3);
    }
    storetest_done(&f);
}

/* A decided bundle counts like any other, and is told apart by its decision. */
static void test_decided_is_a_bundle(void **state)
{
    int answer = QP_OK;
    struct commit c;
    struct bundle *b;
    (void)state;
    storetest_init(&f, STORETEST_MEMORY, 1);
    commit_init(&c, f.s);
    assert_null(commit_bundle(&c, "given")->decide);
    for (int i = 1; i < LIMIT_COMMIT_BUNDLES; i++) {
        b = commit_decided(&c, "decided", decide_twenty, &answer);
        assert_non_null(b);
        assert_true(b->decide == decide_twenty && b->context == &answer);
        assert_int_equal(b->op_count, 0);
    }
    assert_null(commit_decided(&c, "one too many", decide_twenty, &answer));
    assert_int_equal(store_commit(f.s, &c), QP_E_LIMIT);
    commit_done(&c);
    storetest_done(&f);
}

struct journaled {
    int count;
    int64_t jobs[8];
};

static void see_entry(void *context, const struct feed_entry *entry)
{
    struct journaled *j = context;
    assert_true(j->count < 8);
    assert_int_equal(entry->ns, STORE_NS_DEFAULT);
    j->jobs[j->count++] = entry->job;
}

static void add_job(struct commit *c, int64_t number, const char *topic, bool refused)
{
    struct bundle *b = commit_bundle(c, "job");
    struct job_ref ref = {STORE_NS_DEFAULT, number};
    char *jid = arena_bytes(&c->arena, 1);
    assert_non_null(jid);
    *jid = (char)('a' + number % 26);
    bundle_op(b, OP_job_create)->job_create = (struct op_job_create){
        .ref = ref, .jid = {jid, 1}, .workflow = QP_STR("w"), .owner_guid = storetest_guid(1)};
    bundle_op(b, OP_event_add)->event_add = (struct op_event_add){.ref = ref, .kind = 1};
    if (topic != NULL) {
        bundle_op(b, OP_msg_put)->msg_put =
            (struct op_msg_put){.ref = ref, .guid = storetest_guid(2), .topic = str_from(topic)};
    }
    if (refused) { /* and leaves no trace */
        bundle_op(b, OP_msg_ack)->msg_ack.ref =
            (struct msg_ref){STORE_NS_DEFAULT, number, storetest_guid(3), 1};
    }
}

/* A commit tells which jobs it journaled, in order, without those of bundles that failed, and which topics have
 * something ready; empty again after a reset. */
static void test_tells(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        struct journaled j = {0};
        struct op ids = {.kind = OP_ids_reserve, .ids_reserve = {.count = 1000}};
        struct commit c;
        storetest_init(&f, (enum storetest_kind)kind, 1);
        assert_int_equal(storetest_op(&f, &ids), QP_OK);
        commit_init(&c, f.s);
        add_job(&c, ids.ids_reserve.out_first + 101, "here", false);
        add_job(&c, ids.ids_reserve.out_first + 102, NULL, true);
        add_job(&c, ids.ids_reserve.out_first + 103, NULL, false);
        assert_int_equal(store_commit(f.s, &c), QP_OK);
        commit_journal(&c, &j, see_entry);
        assert_int_equal(j.count, 2);
        assert_int_equal(j.jobs[0], ids.ids_reserve.out_first + 101);
        assert_int_equal(j.jobs[1], ids.ids_reserve.out_first + 103);
        assert_int_equal(c.ready_topics, topic_bit(QP_STR("here")));
        commit_reset(&c);
        assert_int_equal(store_commit(f.s, &c), QP_OK);
        commit_journal(&c, &j, see_entry);
        assert_int_equal(j.count, 2);
        assert_int_equal(c.ready_topics, 0);
        commit_done(&c);
        storetest_done(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_never_move),      cmocka_unit_test(test_limits_are_kept),
        cmocka_unit_test(test_without_memory),      cmocka_unit_test(test_decided_without_memory),
        cmocka_unit_test(test_decided_is_a_bundle), cmocka_unit_test(test_tells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

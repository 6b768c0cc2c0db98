/* test_pg_cache.c - what a handle remembers of a job, while others change it (txn_expect)
 *
 * Two handles on one database. The first has made a job and knows its rows; the second changes one of
 * them, adds one, takes one away. Whatever the first does next, it sees that.
 */
#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/storetest.h"

#define JOB ((struct job_ref){STORE_NS_DEFAULT, 500})
#define DIGIT INT64_C(1000000000)

static struct storetest f;
static struct store *other;

static int set_up(void **state)
{
    struct store_options options = {.host_clock = true};
    struct qp_err err = {0};
    (void)state;
    storetest_init(&f, STORETEST_POSTGRES, 1);
    options.path = f.path;
    assert_int_equal(store_open(&f.t.env, &options, &other, &err), QP_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(store_close(other, NULL), QP_OK);
    storetest_done(&f);
    return 0;
}

static int commit_op(struct store *s, struct op op)
{
    struct commit c;
    struct bundle *b;
    int rc;
    commit_init(&c, s);
    b = commit_bundle(&c, "test");
    *bundle_op(b, op.kind) = op;
    assert_int_equal(store_commit(s, &c), QP_OK);
    rc = b->rc;
    commit_done(&c);
    return rc;
}

static int add_activity(struct store *s, const char *addr)
{
    return commit_op(s, (struct op){.kind = OP_act_create,
                                    .act_create = {.ref = JOB,
                                                   .addr = str_from(addr),
                                                   .category = 'A',
                                                   .topic = QP_STR("t")}});
}

/* A digit that must be 0. */
static int move_digit(struct store *s, const char *addr)
{
    return commit_op(s, (struct op){.kind = OP_act_add,
                                    .act_add = {.ref = JOB,
                                                .addr = str_from(addr),
                                                .weight = DIGIT,
                                                .guards = {{DIGIT, 10, 0, 0}},
                                                .guard_count = 1,
                                                .attempt = -1}});
}

static void make_job(void)
{
    assert_int_equal(commit_op(f.s, (struct op){.kind = OP_job_create,
                                                .job_create = {.ref = JOB,
                                                               .jid = QP_STR("a"),
                                                               .workflow = QP_STR("w"),
                                                               .owner_guid = storetest_guid(1),
                                                               .body_hash = storetest_guid(2)}}),
                     QP_OK);
    assert_int_equal(add_activity(f.s, "0"), QP_OK);
}

/* Reads two activities inside a commit, and writes nothing of them. */
struct looking {
    const char *addr;
    bool found;
    int64_t ledger;
};

static int look(void *context, struct bundle *b)
{
    struct looking *l = context;
    const void *job = NULL;
    const void *act = NULL;
    int rc = bundle_get(b, TABLE_job, &(struct job_row){.ns = JOB.ns, .job = JOB.job}, &job);
    rc = rc == QP_OK
             ? bundle_get(
                   b, TABLE_act,
                   &(struct act_row){.ns = JOB.ns, .job = JOB.job, .addr = str_from(l->addr)}, &act)
             : rc;
    l->found = act != NULL;
    l->ledger = act == NULL ? -1 : ((const struct act_row *)act)->ledger;
    return rc;
}

static struct looking look_at(struct store *s, const char *addr)
{
    struct looking l = {.addr = addr};
    struct commit c;
    struct bundle *b;
    commit_init(&c, s);
    b = commit_decided(&c, "look", look, &l);
    b->job = JOB;
    assert_int_equal(store_commit(s, &c), QP_OK);
    assert_int_equal(b->rc, QP_OK);
    commit_done(&c);
    return l;
}

static void test_what_it_knows_is_used(void **state)
{
    struct store_info before;
    struct store_info after;
    (void)state;
    make_job();
    store_info(f.s, &before);
    assert_true(look_at(f.s, "0").found);
    assert_false(look_at(f.s, "1").found);
    assert_int_equal(move_digit(f.s, "0"), QP_OK);
    assert_int_equal(look_at(f.s, "0").ledger, DIGIT);
    store_info(f.s, &after);
    assert_int_equal(after.commits, before.commits + 1);
    assert_true(storetest_cache_check(&f) > 0);
}

static void test_a_change_of_another_is_seen(void **state)
{
    (void)state;
    make_job();
    assert_int_equal(move_digit(other, "0"), QP_OK);
    assert_int_equal(look_at(f.s, "0").ledger, DIGIT);
    assert_int_equal(move_digit(f.s, "0"), QP_E_DIGIT); /* and not a second time */
    assert_int_equal(look_at(other, "0").ledger, DIGIT);
}

static void test_a_row_of_another_is_seen(void **state)
{
    (void)state;
    make_job();
    assert_false(look_at(f.s, "1").found);
    assert_int_equal(add_activity(other, "1"), QP_OK);
    assert_true(look_at(f.s, "1").found);
    assert_int_equal(add_activity(f.s, "1"), QP_E_DONE);
}

/* Both in turns, many times: neither ever acts on what was. */
static void test_in_turns(void **state)
{
    struct store *stores[2] = {f.s, other};
    (void)state;
    make_job();
    for (int i = 0; i < 20; i++) {
        char addr[16];
        (void)snprintf(addr, sizeof addr, "x%d", i);
        assert_int_equal(add_activity(stores[i % 2], addr), QP_OK);
        assert_int_equal(look_at(stores[1 - i % 2], addr).ledger, 0);
        assert_int_equal(move_digit(stores[1 - i % 2], addr), QP_OK);
        assert_int_equal(look_at(stores[i % 2], addr).ledger, DIGIT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_it_knows_is_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_change_of_another_is_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_row_of_another_is_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_in_turns, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_cache.c - the rows that a store keeps between commits are what it has committed
 *
 * After each kind of commit every row in the cache is held against the file. Where nothing may be
 * left in it, it is empty; and the next commit works in any case.
 */
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "support/storetest.h"

#define REF(number) ((struct job_ref){STORE_NS_DEFAULT, (number)})

static struct storetest f;

static int set_up(void **state)
{
    (void)state;
    storetest_init(&f, STORETEST_SQLITE, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    storetest_done(&f);
    return 0;
}

static struct op create(int64_t number, const char *jid)
{
    return (struct op){.kind = OP_job_create,
                       .job_create = {.ref = REF(number),
                                      .jid = str_from(jid),
                                      .workflow = QP_STR("w"),
                                      .owner_guid = storetest_guid(1)}};
}

static struct op put(int64_t number, unsigned guid)
{
    return (struct op){.kind = OP_msg_put,
                       .msg_put = {.ref = REF(number),
                                   .guid = storetest_guid(guid),
                                   .topic = QP_STR("t"),
                                   .lease_ms = 1000}};
}

static struct op pause_job(int64_t number)
{
    return (struct op){.kind = OP_job_pause, .job_pause = {.ref = REF(number)}};
}

static void run(struct op op)
{
    assert_int_equal(storetest_op(&f, &op), QP_OK);
}

/* Proves that a commit leaves its rows, written or deleted, as they are, and that closed jobs go. */
static void test_commit(void **state)
{
    struct op ack = {.kind = OP_msg_ack};
    const struct msg_row *m;
    size_t before;
    (void)state;
    run(create(100, "a"));
    run(put(100, 2));
    before = storetest_cache_check(&f);
    assert_in_range(before, 4, 6); /* head, job, message, lane, counter */
    m = storetest_row(
        &f, TABLE_msg,
        &(struct msg_row){.ns = STORE_NS_DEFAULT, .job = 100, .guid = storetest_guid(2)});
    assert_non_null(m);
    ack.msg_ack.ref = (struct msg_ref){STORE_NS_DEFAULT, 100, storetest_guid(2), m->token};
    run(ack);
    assert_int_equal(storetest_cache_check(&f), before - 1);
    run(put(100, 2)); /* the same key again */
    assert_int_equal(storetest_cache_check(&f), before);
    run((struct op){
        .kind = OP_job_close,
        .job_close = {.ref = REF(100), .guid = storetest_guid(3), .state = JOB_FAILED}});
    (void)storetest_cache_check(&f);
}

/* Proves that a bundle that fails leaves nothing of itself, alone or beside one that goes through. */
static void test_failed_bundle(void **state)
{
    struct commit c;
    struct op bad[] = {pause_job(100), create(101, "a")};
    struct bundle *fails;
    struct bundle *works;
    (void)state;
    run(create(100, "a"));
    assert_int_equal(storetest_bundle(&f, bad, 2, NULL), QP_E_EXISTS);
    assert_true(storetest_cache_check(&f) > 0);
    commit_init(&c, f.s);
    fails = commit_bundle(&c, "fails");
    *bundle_op(fails, OP_job_pause) = bad[0];
    *bundle_op(fails, OP_job_create) = bad[1];
    works = commit_bundle(&c, "works");
    *bundle_op(works, OP_msg_put) = put(100, 2);
    assert_int_equal(store_commit(f.s, &c), QP_OK);
    assert_int_equal(fails->rc, QP_E_EXISTS);
    assert_int_equal(works->rc, QP_OK);
    commit_done(&c);
    assert_true(storetest_cache_check(&f) > 0);
    run(pause_job(100));
}

static int commit_one(struct op op)
{
    struct commit c;
    int rc;
    commit_init(&c, f.s);
    *bundle_op(commit_bundle(&c, "one"), op.kind) = op;
    rc = store_commit(f.s, &c);
    commit_done(&c);
    return rc;
}

/* Proves that a commit that is rolled back, and one whose answer is lost, leave an empty cache, and
 * that the next commit finds what is so. */
static void test_rollback(void **state)
{
    static const char *const points[] = {"commit.before=error", "write.job=error",
                                         "commit.after=error"};
    (void)state;
    run(create(100, "a"));
    for (size_t i = 0; i < ARRAY_COUNT(points); i++) {
        assert_true(storetest_cache_check(&f) > 0);
        assert_int_equal(failpoint_set(points[i]), QP_OK);
        assert_int_not_equal(commit_one(pause_job(100)), QP_OK);
        assert_int_equal(failpoint_set(NULL), QP_OK);
        assert_int_equal(storetest_cache_check(&f), 0);
        run(put(100, 2 + (unsigned)i));
    }
    run(create(200, "used"));
    assert_int_equal(commit_one(create(100, "number is used")), QP_E_CONFLICT);
    assert_int_equal(storetest_cache_check(&f), 0);
}

static int agree(void *context, void *native)
{
    /* What a host could see of rows on their way in: none. */
    return sqlite3_exec(native, "INSERT INTO qp_new_job VALUES(1)", NULL, NULL, NULL) !=
                       SQLITE_OK &&
                   sqlite3_exec(native, "SELECT * FROM qp_new_job", NULL, NULL, NULL) == SQLITE_OK
               ? *(int *)context
               : QP_E_INTERNAL;
}

/* Proves that after a host has had the connection nothing is known, whether it agreed or not. */
static void test_host_call(void **state)
{
    static int answers[] = {QP_OK, QP_E_INVALID};
    (void)state;
    run(create(100, "a"));
    for (size_t i = 0; i < ARRAY_COUNT(answers); i++) {
        struct op ops[] = {
            put(100, 2 + (unsigned)i),
            {.kind = OP_host_call, .host_call = {.call = agree, .context = &answers[i]}}};
        int rc = storetest_bundle(&f, ops, 2, NULL);
        assert_int_equal(rc, answers[i] == QP_OK ? QP_OK : QP_E_ABORTED);
        assert_int_equal(storetest_cache_check(&f), 0);
        run(put(100, 10 + (unsigned)i));
        assert_true(storetest_cache_check(&f) > 0);
    }
}

/* Proves that a row that changed behind the store's back is found out, and is not written over: the
 * revision is compared where the row is. The commit after it works with what is there. */
static void test_wrong_row(void **state)
{
    sqlite3 *db;
    (void)state;
    run(create(100, "a"));
    assert_int_equal(sqlite3_open(f.path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE qp_job SET cancelled=7,rev=rev+1", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(commit_one(pause_job(100)), QP_E_CONFLICT);
    assert_int_equal(storetest_cache_check(&f), 0);
    run(pause_job(100));
    (void)storetest_cache_check(&f);
}

static void behind(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(f.path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_changes(db), 1);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static const struct job_row *job(int64_t number)
{
    return storetest_row(&f, TABLE_job, &(struct job_row){.ns = STORE_NS_DEFAULT, .job = number});
}

/* Proves the same of rows that are written together, and of one that has gone: it does not come to
 * life again. */
static void test_wrong_rows(void **state)
{
    static const char *const wrong[] = {"UPDATE qp_job SET rev=rev+1 WHERE job=101",
                                        "DELETE FROM qp_job WHERE job=101"};
    (void)state;
    run(create(100, "a"));
    run(create(101, "b"));
    run(create(102, "c"));
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        struct op ops[] = {pause_job(100), pause_job(101), pause_job(102)};
        struct commit c;
        run((struct op){.kind = OP_job_resume, .job_resume = {.ref = REF(100), .limit = 1}});
        run((struct op){.kind = OP_job_resume, .job_resume = {.ref = REF(101), .limit = 1}});
        behind(wrong[i]);
        commit_init(&c, f.s);
        for (size_t k = 0; k < ARRAY_COUNT(ops); k++) {
            *bundle_op(commit_bundle(&c, "one"), OP_job_pause) = ops[k];
        }
        assert_int_equal(store_commit(f.s, &c), QP_E_CONFLICT);
        commit_done(&c);
        assert_int_equal(storetest_cache_check(&f), 0);
        assert_int_equal(job(100)->paused, 0);
    }
    assert_null(job(101));
}

/* Proves that a row that came behind the store's back, where it knows that there is none, is found
 * out by its key, and that the commit after it finds it. */
static void test_wrong_absence(void **state)
{
    struct op again;
    (void)state;
    run(create(100, "a"));
    run(put(100, 2));
    behind("INSERT INTO qp_msg(ns,job,guid,topic,limit_key,ord,state,wake_at,rev) "
           "SELECT ns,job,zeroblob(16),topic,limit_key,ord+1000,state,wake_at,rev FROM qp_msg");
    again = put(100, 3);
    again.msg_put.guid = (qp_str){"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16};
    assert_int_equal(commit_one(again), QP_E_CONFLICT);
    assert_int_equal(storetest_cache_check(&f), 0);
    assert_int_equal(storetest_op(&f, &again), QP_E_EXISTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_commit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_bundle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rollback, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_host_call, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_absence, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

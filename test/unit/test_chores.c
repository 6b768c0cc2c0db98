/* test_chores.c - work in pages: the text of a fan-out, sweeping, retention (fan-out itself:
 * test_engine_signals.c) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernel/chores.h"
#include "support/enginetest.h"

static struct enginetest x;

static const struct actor empty[] = {{.name = "trigger", .category = 'D'}, {0}};

/* None and empty are written alike. */
static void assert_same(qp_str a, qp_str b)
{
    assert_int_equal(a.n, b.n);
    assert_true(a.n == 0 || str_equal(a, b));
}

/* What a fan-out message says is read as it was written; anything else is refused. */
static void test_fanout_text(void **state)
{
    static const qp_str bad[] = {
        {"", 0},           {"1 2", 3},           {"1 2 3\n", 6},         {"x y z\n", 6},
        {"1 2 9\nabc", 9}, {"1 2 1 1\nabc", 11}, {"1 2 1 1 2\nabc", 13}, {NULL, 0}};
    static const struct fanout good[] = {
        {0},
        {.snapshot = 5, .seq = 7, .key = {"key", 3}, .payload = {"payload", 7}},
        {INT64_MAX, INT64_MAX, {"a\nb", 3}, {"c 1", 3}, {"\n", 1}, {"\n\n", 2}},
    };
    struct arena a;
    (void)state;
    testenv_init(&x.f.t, 1);
    arena_init(&a, &x.f.t.env, 0);
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        struct fanout f;
        qp_str text;
        assert_int_equal(fanout_payload(&a, &good[i], &text), QP_OK);
        assert_int_equal(fanout_parse(text, &f), QP_OK);
        assert_int_equal(f.snapshot, good[i].snapshot);
        assert_int_equal(f.seq, good[i].seq);
        assert_same(f.key, good[i].key);
        assert_same(f.attribute, good[i].attribute);
        assert_same(f.value, good[i].value);
        assert_same(f.payload, good[i].payload);
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct fanout f;
        assert_int_equal(fanout_parse(bad[i], &f), QP_E_CORRUPT);
    }
    arena_done(&a);
    testenv_done(&x.f.t);
}

/* One that a version without filters has left is for all. */
static void test_fanout_of_before(void **state)
{
    struct fanout f;
    (void)state;
    assert_int_equal(fanout_parse(QP_STR("5 7 3\nkeypayload"), &f), QP_OK);
    assert_int_equal(f.seq, 7);
    assert_same(f.key, QP_STR("key"));
    assert_same(f.attribute, QP_NONE);
    assert_same(f.payload, QP_STR("payload"));
}

/* The same of a message that ends called jobs. */
static void test_descent_text(void **state)
{
    static const qp_str bad[] = {{"", 0},    {"1", 1},     {"1 2", 3},
                                 {"1\n", 2}, {"x 2\n", 4}, {NULL, 0}};
    static const struct descent good[] = {{1, 0, {"", 0}}, {INT64_MAX, INT64_MAX, {"a\nb", 3}}};
    struct arena a;
    struct descent d;
    (void)state;
    testenv_init(&x.f.t, 1);
    arena_init(&a, &x.f.t.env, 0);
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        qp_str text;
        assert_int_equal(descent_payload(&a, &good[i], &text), QP_OK);
        assert_int_equal(descent_parse(text, &d), QP_OK);
        assert_int_equal(d.job, good[i].job);
        assert_int_equal(d.after, good[i].after);
        assert_same(d.error, good[i].error);
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(descent_parse(bad[i], &d), QP_E_CORRUPT);
    }
    arena_done(&a);
    testenv_done(&x.f.t);
}

/* ------------------------------------------------------------------------------------------- sweep */

#define CHILDREN (LIMIT_SWEEP_ROWS * 2 + 50)

/* A job with many who wait. */
static char many_names[CHILDREN * 8];
static const struct actor *many(void)
{
    static struct actor cast[CHILDREN + 2];
    static char names[CHILDREN][8];
    size_t used = 0;
    for (int i = 0; i < CHILDREN; i++) {
        (void)snprintf(names[i], sizeof names[i], "h%d", i);
        used += (size_t)snprintf(many_names + used, sizeof many_names - used, "%s%s",
                                 i == 0 ? "" : " ", names[i]);
        cast[i + 1] = (struct actor){
            .name = names[i], .category = 'A', .deed = DEED_HOOK, .topic = "h", .key = names[i]};
    }
    cast[0] = (struct actor){.name = "trigger", .category = 'D', .next = many_names};
    return cast;
}

/* What a closed job waited for goes in pages, each a commit; the engine dies after any of them. */
static void test_sweep_in_pages(void **state)
{
    (void)state;
    for (int rounds = 1; rounds <= 4; rounds++) {
        struct request_end r = {.ns = STORE_NS_DEFAULT, .jid = QP_STR("a"), .state = JOB_CANCELLED};
        struct qp_err err;
        size_t left;
        bool busy;
        enginetest_init(&x, STORETEST_MEMORY, many());
        enginetest_open(&x);
        assert_int_equal(enginetest_start(&x, "a"), QP_OK);
        assert_int_equal(storetest_count(&x.f, TABLE_hook_wait), CHILDREN);
        request_end(&r);
        r.command.answer = enginetest_answered;
        engine_submit(x.e, &r.command);
        left = CHILDREN;
        for (int i = 0; i < rounds; i++) {
            size_t now;
            assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
            now = storetest_count(&x.f, TABLE_hook_wait);
            assert_true(left - now <= LIMIT_SWEEP_ROWS);
            left = now;
        }
        enginetest_crash(&x);
        enginetest_settle(&x);
        assert_int_equal(storetest_count(&x.f, TABLE_hook_wait), 0);
        assert_int_equal(storetest_count(&x.f, TABLE_msg), 0);
        assert_int_equal(enginetest_job(&x, x.job)->state, JOB_CANCELLED);
        enginetest_done(&x);
    }
}

/* --------------------------------------------------------------------------------------- retention */

static void start_many(int from, int count)
{
    static char names[200][16];
    static struct request_start requests[200];
    for (int i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof names[i], "job%d", from + i);
        enginetest_fill_start(&x, &requests[i], names[i], "{}");
        requests[i].command.answer = enginetest_answered;
        engine_submit(x.e, &requests[i].command);
    }
    enginetest_settle(&x);
}

/* Finished jobs are kept keep_ms, and then go, a bounded number per commit; younger and open ones stay. */
static void test_retention(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        size_t before = 120;
        bool busy = true;
        struct qp_err err;
        enginetest_init(&x, (enum storetest_kind)kind, empty);
        x.options.keep_ms = 10000;
        enginetest_open(&x);
        start_many(0, 120);
        enginetest_wait(&x, 5000);
        start_many(120, 10);
        enginetest_wait(&x, 4999);
        assert_int_equal(storetest_count(&x.f, TABLE_job), 130);
        assert_true(engine_deadline(x.e) <= store_now(x.f.s) + 1);
        testenv_advance_ms(&x.f.t, 1);
        while (busy) {
            size_t now;
            assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
            now = storetest_count(&x.f, TABLE_job);
            assert_true(before + 10 - now <= LIMIT_RETENTION_JOBS);
            before = now - 10;
        }
        assert_int_equal(storetest_count(&x.f, TABLE_job), 10);
        assert_int_equal(storetest_count(&x.f, TABLE_act), 10);
        enginetest_wait(&x, 5000);
        assert_int_equal(storetest_count(&x.f, TABLE_job), 0);
        assert_int_equal(storetest_count(&x.f, TABLE_job_name), 0);
        assert_int_equal(enginetest_start(&x, "job0"), QP_OK); /* the id is free again */
        enginetest_done(&x);
    }
}

/* The feed goes back for feed_ms; what is older goes, a bounded number of commits at a time, with rounds that
 * there are anyway, and the newest stays. An engine that has nothing to do does not look. */
static void test_feed_kept(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        size_t before;
        enginetest_init(&x, (enum storetest_kind)kind, empty);
        x.options.feed_ms = 10 * LIMIT_FEED_LOOK_MS;
        enginetest_open(&x);
        for (int i = 0; i < LIMIT_SWEEP_ROWS + 20; i++) {
            start_many(i, 1);
        }
        before = storetest_count(&x.f, TABLE_feed);
        assert_true(before >= LIMIT_SWEEP_ROWS + 20);
        enginetest_wait(&x, 5 * LIMIT_FEED_LOOK_MS);
        start_many(1000, 1);
        assert_int_equal(storetest_count(&x.f, TABLE_feed), before + 1);
        enginetest_wait(&x, 6 * LIMIT_FEED_LOOK_MS);
        assert_int_equal(storetest_count(&x.f, TABLE_feed), before + 1);
        start_many(1001, 1);
        assert_true(storetest_count(&x.f, TABLE_feed) >= before + 2 - LIMIT_SWEEP_ROWS);
        for (int i = 0; i < 3; i++) {
            start_many(1002 + i, 1);
        }
        assert_int_equal(storetest_count(&x.f, TABLE_feed), 5);
        testenv_advance_ms(&x.f.t, 20 * LIMIT_FEED_LOOK_MS);
        start_many(1010, 1);
        start_many(1011, 1);
        assert_in_range(storetest_count(&x.f, TABLE_feed), 2, 3);
        enginetest_done(&x);
    }
}

/* keep_ms 0 keeps for ever. */
static void test_kept_for_ever(void **state)
{
    (void)state;
    enginetest_init(&x, STORETEST_MEMORY, empty);
    enginetest_open(&x);
    start_many(0, 3);
    enginetest_wait(&x, LIMIT_TIMER_MS / 2);
    assert_int_equal(storetest_count(&x.f, TABLE_job), 3);
    enginetest_done(&x);
}

static const struct actor one_task[] = {
    {.name = "trigger", .category = 'D', .next = "pay"},
    {.name = "pay", .category = 'A', .deed = DEED_TASK, .topic = "t"},
    {0}};

static void start_for(const char *jid, qp_ms expire_ms)
{
    struct request_start r;
    enginetest_fill_start(&x, &r, jid, "{}");
    r.start.job.expire_ms = expire_ms;
    assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
    x.job = r.job.job;
}

/* An open job ends as failed when its time is over, not before; the worker's answer comes too late. One
 * that ended before is not touched. */
static void expiry(void)
{
    int64_t in_time;
    const struct job_row *job;
    start_for("in time", 1000);
    in_time = x.job;
    assert_int_equal(enginetest_work(&x), 1);
    assert_int_equal(enginetest_job(&x, in_time)->expire_at, 0);
    start_for("too late", 1000);
    enginetest_wait(&x, 999);
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_OPEN);
    enginetest_wait(&x, 1);
    job = enginetest_job(&x, x.job);
    assert_int_equal(job->state, JOB_FAILED);
    assert_int_equal(job->completions, 1);
    assert_non_null(memmem(job->error.p, job->error.n, "\"message\":\"timed out", 20));
    assert_int_equal(enginetest_rows(&x, TABLE_msg, x.job), 0);
    assert_int_equal(enginetest_result(&x, enginetest_task(&x, "too late", NULL), RESULT_DONE, "1"),
                     QP_E_STALE);
    assert_int_equal(enginetest_job(&x, in_time)->state, JOB_COMPLETED);
    enginetest_forget(&x, enginetest_task(&x, "too late", NULL));
}

static void test_expiry(void **state)
{
    (void)state;
    enginetest_each(&x, one_task, false, expiry);
}

/* --------------------------------------------------------------------------------------- collecting */

static void test_collect_text(void **state)
{
    static const qp_str bad[] = {{"", 0}, {"1", 1}, {"1 2", 3}, {"x 2\n", 4}, {NULL, 0}};
    static const struct collect good[] = {{1, 0, {"a/1", 3}}, {INT64_MAX, INT64_MAX, {"a/\n", 3}}};
    struct arena a;
    struct collect c;
    (void)state;
    testenv_init(&x.f.t, 1);
    arena_init(&a, &x.f.t.env, 0);
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        qp_str text;
        assert_int_equal(collect_payload(&a, &good[i], &text), QP_OK);
        assert_int_equal(collect_parse(text, &c), QP_OK);
        assert_int_equal(c.at, good[i].at);
        assert_int_equal(c.after, good[i].after);
        assert_same(c.version, good[i].version);
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(collect_parse(bad[i], &c), QP_E_CORRUPT);
    }
    arena_done(&a);
    testenv_done(&x.f.t);
}

static int hide(void *context, struct bundle *b)
{
    struct op_app_delete op = {.ns = STORE_NS_DEFAULT, .app = QP_STR("a"), .version = QP_STR("1")};
    (void)context;
    return delete_version(b, &op, QP_STR("a/1"));
}

static void put_and_hide(void)
{
    struct op put = {.kind = OP_app_put,
                     .app_put = {.ns = STORE_NS_DEFAULT,
                                 .app = QP_STR("a"),
                                 .version = QP_STR("1"),
                                 .hash = QP_STR("h")}};
    struct commit c;
    assert_int_equal(storetest_op(&x.f, &put), QP_OK);
    commit_init(&c, x.f.s);
    assert_non_null(commit_decided(&c, "hide", hide, NULL));
    assert_int_equal(store_commit(x.f.s, &c), QP_OK);
    assert_int_equal(c.first->rc, QP_OK);
    commit_done(&c);
}

/* The text of a deleted version goes after its time, and not before the last job that needs it has ended; jobs of other
 * versions do not keep it. */
static void collect(void)
{
    struct request_start needing = {0};
    struct request_start other = {0};
    put_and_hide();
    enginetest_fill_start(&x, &needing, "needing", "{}");
    needing.start.job.version = QP_STR("a/1");
    needing.start.job.expire_ms = LIMIT_APP_KEEP_MS + 60000;
    needing.command.answer = enginetest_answered;
    engine_submit(x.e, &needing.command);
    enginetest_fill_start(&x, &other, "other", "{}");
    other.start.job.version = QP_STR("a/2");
    other.command.answer = enginetest_answered;
    engine_submit(x.e, &other.command);
    enginetest_settle(&x);
    enginetest_wait(&x, LIMIT_APP_KEEP_MS + 1000);
    assert_int_equal(storetest_count(&x.f, TABLE_app), 1);
    enginetest_wait(&x, 120000);
    assert_int_equal(storetest_count(&x.f, TABLE_app), 1);
    enginetest_wait(&x, LIMIT_APP_KEEP_MS);
    assert_int_equal(storetest_count(&x.f, TABLE_app), 0);
}

static void test_collect(void **state)
{
    (void)state;
    enginetest_each(&x, one_task, false, collect);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fanout_text),  cmocka_unit_test(test_fanout_of_before),
        cmocka_unit_test(test_descent_text), cmocka_unit_test(test_sweep_in_pages),
        cmocka_unit_test(test_retention),    cmocka_unit_test(test_kept_for_ever),
        cmocka_unit_test(test_feed_kept),    cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_collect_text), cmocka_unit_test(test_collect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

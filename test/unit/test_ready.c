/* test_ready.c - whether the store can be written is known without a commit for every question */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <sqlite3.h>

#include "run/handle.h"
#include "support/faultvfs.h"
#include "support/pgproxy.h"
#include "support/pgserver.h"
#include "support/runtest.h"

static int64_t commits(qp *q)
{
    return engine_stats(q->engine).commits;
}

/* Who asks is answered from what was noted. The driver makes one tiny commit in LIMIT_READY_MS, however many ask;
 * none when there was one for other reasons. */
static void asks_seldom(void **state)
{
    int64_t before;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    testenv_advance_ms(&rt, LIMIT_READY_MS);
    before = commits(q);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(ready_check(q, NULL), QP_OK);
    }
    assert_int_equal(commits(q), before);
    for (int i = 0; i < 100; i++) {
        rt_poll(q);
        assert_int_equal(ready_check(q, NULL), QP_OK);
    }
    assert_int_equal(commits(q), before + 1);
    testenv_advance_ms(&rt, LIMIT_READY_MS + 1);
    assert_int_equal(ready_check(q, NULL), QP_OK);
    rt_poll(q);
    assert_int_equal(commits(q), before + 2);
    rt_close(q);
    rt_end();
}

static size_t lines_with(const char *text)
{
    size_t count = 0;
    for (const char *at = testenv_log(&rt); (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

static int fill(void *context, void *native)
{
    struct fault *fault = context;
    (void)native;
    faultvfs_fail(fault);
    return QP_OK;
}

/* A disk that is full is noted with the first commit that fails for it, and logged, once; also that there is room
 * again, without anybody who writes. */
static void tells_a_full_disk(void **state)
{
    struct fault fault = {.kind = FAULT_WRITE, .at = 1, .for_good = true, .code = SQLITE_FULL};
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    faultvfs_init(FAULTVFS_SYNC_PLAYED, false);
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 1), SQLITE_OK);
    q = rt_open(rt_path);
    assert_int_equal(qp_exec(q, fill, &fault, &err), QP_E_FULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ready_check(q, &err), QP_E_FULL);
        testenv_advance_ms(&rt, 200);
        assert_int_equal(qp_poll(q, &err), QP_E_FULL); /* it tries, and fails */
    }
    assert_int_equal(lines_with("the disk is full"), 1);
    faultvfs_heal();
    testenv_advance_ms(&rt, 200);
    rt_poll(q);
    assert_int_equal(ready_check(q, &err), QP_OK);
    assert_int_equal(lines_with("the disk is full"), 1);
    assert_int_equal(lines_with("can be written again"), 1);
    rt_close(q);
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 0), SQLITE_OK);
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find("unix"), 1), SQLITE_OK);
    rt_end();
}

/* Asks until the store is ready, or is not, without a commit for it; a loaded machine takes a while. */
static void await_ready(qp *q, bool ready)
{
    for (int i = 0; i < 3000 && (ready_now(q, NULL) == QP_OK) != ready; i++) {
        (void)poll(NULL, 0, 10);
    }
    assert_int_equal(ready_now(q, NULL) == QP_OK, ready);
}

/* A database that stalls in the middle of a commit. */
struct stalled {
    pthread_t thread;
    struct pgproxy *proxy;
    qp *q;
};

static int stall(void *context, void *native)
{
    const struct stalled *s = context;
    (void)native;
    pgproxy_arm(s->proxy, &(struct pgproxy_fault){.kind = PGPROXY_STALL});
    return QP_OK;
}

static void *commit_main(void *context)
{
    struct stalled *s = context;
    struct qp_err err = {0};
    QP_ASSERT(qp_exec(s->q, stall, s, &err) == QP_E_BUSY); /* nothing of it was done */
    return NULL;
}

static void expect_unready(qp *q, int64_t for_ms)
{
    int64_t until = q->env.monotonic_us(q->env.context) + for_ms * 1000;
    while (q->env.monotonic_us(q->env.context) < until) {
        assert_int_not_equal(ready_now(q, NULL), QP_OK);
        (void)poll(NULL, 0, 5);
    }
}

/* A database that does not answer, and then is cut off while new connections get no answer either, is not taken for
 * ready between the turn that has failed and the next one, which waits again: requests are given up by this. The turn
 * ends, since its commit waits for longer than one is tried. */
static void stays_unready(void **state)
{
    struct pgserver *server = pgserver_start();
    struct pgproxy *proxy = pgproxy_start(pgserver_port(server));
    struct qp_err err = {0};
    struct stalled s;
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    (void)pgserver_url(server, "ready"); /* it is made */
    q = rt_open(pgproxy_url(proxy, "ready"));
    assert_int_equal(qp_start_threads(q, 0, &err), QP_OK);
    await_ready(q, true);
    s = (struct stalled){.proxy = proxy, .q = q};
    assert_int_equal(pthread_create(&s.thread, NULL, commit_main, &s), 0);
    await_ready(q, false);
    expect_unready(q, LIMIT_COMMIT_MS);
    pgproxy_arm(proxy, &(struct pgproxy_fault){.kind = PGPROXY_CUT_OFF});
    expect_unready(q, 2 * LIMIT_READY_STALL_MS);
    pgproxy_arm(proxy, &(struct pgproxy_fault){.kind = PGPROXY_NONE});
    await_ready(q, true);
    (void)pthread_join(s.thread, NULL);
    rt_close(q);
    rt_end();
    pgproxy_stop(proxy);
    pgserver_stop(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(asks_seldom),
                                       cmocka_unit_test(tells_a_full_disk),
                                       cmocka_unit_test(stays_unready)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

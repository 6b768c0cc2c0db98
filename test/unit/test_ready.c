/* test_ready.c - whether the store can be written is known without a commit for every question */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "run/handle.h"
#include "support/faultvfs.h"
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
        assert_int_equal(handle_ready(q, NULL), QP_OK);
    }
    assert_int_equal(commits(q), before);
    for (int i = 0; i < 100; i++) {
        rt_poll(q);
        assert_int_equal(handle_ready(q, NULL), QP_OK);
    }
    assert_int_equal(commits(q), before + 1);
    testenv_advance_ms(&rt, LIMIT_READY_MS + 1);
    assert_int_equal(handle_ready(q, NULL), QP_OK);
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
        assert_int_equal(handle_ready(q, &err), QP_E_FULL);
        testenv_advance_ms(&rt, 200);
        assert_int_equal(qp_poll(q, &err), QP_E_FULL); /* it tries, and fails */
    }
    assert_int_equal(lines_with("the disk is full"), 1);
    faultvfs_heal();
    testenv_advance_ms(&rt, 200);
    rt_poll(q);
    assert_int_equal(handle_ready(q, &err), QP_OK);
    assert_int_equal(lines_with("the disk is full"), 1);
    assert_int_equal(lines_with("can be written again"), 1);
    rt_close(q);
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 0), SQLITE_OK);
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find("unix"), 1), SQLITE_OK);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(asks_seldom),
                                       cmocka_unit_test(tells_a_full_disk)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

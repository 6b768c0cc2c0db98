/* test_ready.c - whether the store can be written is known without a commit for every question */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "run/handle.h"
#include "support/runtest.h"

static int64_t commits(qp *q)
{
    return engine_stats(q->engine).commits;
}

/* One commit in LIMIT_READY_MS, however many ask; none when there was one for other reasons. */
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
    assert_int_equal(commits(q), before + 1);
    testenv_advance_ms(&rt, LIMIT_READY_MS);
    assert_int_equal(handle_ready(q, NULL), QP_OK);
    assert_int_equal(commits(q), before + 2);
    rt_close(q);
    rt_end();
}

/* A store that cannot be written is not ready, once the last commit is too long ago; and is again
 * with the first that works. */
static void tells_failure(void **state)
{
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    testenv_advance_ms(&rt, LIMIT_READY_MS);
    assert_int_equal(handle_ready(q, NULL), QP_OK);
    assert_int_equal(failpoint_set("commit.before=error@1+"), QP_OK);
    assert_int_equal(handle_ready(q, NULL), QP_OK);
    testenv_advance_ms(&rt, LIMIT_READY_MS);
    assert_int_not_equal(handle_ready(q, &err), QP_OK);
    assert_true(err.text[0] != '\0');
    assert_int_equal(failpoint_set(NULL), QP_OK);
    assert_int_equal(handle_ready(q, &err), QP_OK);
    rt_close(q);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(asks_seldom),
                                       cmocka_unit_test(tells_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_never_move),
        cmocka_unit_test(test_limits_are_kept),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

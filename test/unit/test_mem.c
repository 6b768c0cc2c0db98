/* test_mem.c - the failable allocator */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/testenv.h"

static struct testenv t;

/* Memory comes zeroed, although the allocator below hands out rubbish. */
static void memory_is_zeroed(void **state)
{
    unsigned char *p;

    (void)state;
    testenv_init(&t, 1);
    p = mem_alloc(&t.env, 1000);
    assert_non_null(p);
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(p[i], 0);
    }
    mem_free(&t.env, p);
    testenv_done(&t);
}

/* Size zero is memory too, so that NULL means failure and nothing else. */
static void size_zero_is_memory(void **state)
{
    void *p;

    (void)state;
    testenv_init(&t, 1);
    p = mem_alloc(&t.env, 0);
    assert_non_null(p);
    p = mem_resize(&t.env, p, 0);
    assert_non_null(p);
    assert_int_equal(t.live_blocks, 1);
    mem_free(&t.env, p);
    mem_free(&t.env, NULL);
    testenv_done(&t);
}

/* Growing keeps the bytes; a refused growth keeps the block. */
static void resize_keeps_the_bytes(void **state)
{
    char *p;

    (void)state;
    testenv_init(&t, 1);
    p = mem_alloc(&t.env, 4);
    memcpy(p, "abc", 4);
    testenv_fail_at(&t, 1);
    assert_null(mem_resize(&t.env, p, 100));
    assert_true(testenv_failed(&t));
    assert_string_equal(p, "abc");
    p = mem_resize(&t.env, p, 100);
    assert_non_null(p);
    assert_string_equal(p, "abc");
    mem_free(&t.env, p);
    testenv_done(&t);
}

/* What no machine has is refused without asking. */
static void absurd_sizes_are_refused(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    assert_null(mem_alloc(&t.env, SIZE_MAX));
    assert_null(mem_alloc(&t.env, (size_t)PTRDIFF_MAX + 1));
    assert_int_equal(t.allocations, 0);
    testenv_done(&t);
}

/* The test allocator itself: fails once or for good, counted from when it was asked to. */
static void failing_once_and_for_good(void **state)
{
    static const bool once[] = {true, false, true, true};
    static const bool for_good[] = {true, false, false, false};

    (void)state;
    testenv_init(&t, 1);
    for (size_t i = 0; i < 8; i++) {
        void *p;

        if (i == 0) {
            testenv_fail_at(&t, 2);
        }
        if (i == 4) {
            testenv_fail_from(&t, 2);
        }
        p = mem_alloc(&t.env, 10);
        assert_int_equal(p != NULL, i < 4 ? once[i] : for_good[i - 4]);
        mem_free(&t.env, p);
    }
    assert_int_equal(t.failures, 3);
    testenv_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed),          cmocka_unit_test(size_zero_is_memory),
        cmocka_unit_test(resize_keeps_the_bytes),    cmocka_unit_test(absurd_sizes_are_refused),
        cmocka_unit_test(failing_once_and_for_good),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

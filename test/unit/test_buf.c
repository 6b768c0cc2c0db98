/* test_buf.c - a growing byte buffer whose first error sticks */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "support/testenv.h"

static struct testenv t;

/* All ways to append put their bytes one after the other. */
static void appends_in_order(void **state)
{
    struct buf b;

    (void)state;
    testenv_init(&t, 1);
    buf_init(&b, &t.env, 0);
    assert_int_equal(b.limit, LIMIT_BUFFER_SIZE);
    buf_add(&b, "ab\0", 3);
    buf_add(&b, NULL, 0);
    buf_str(&b, QP_STR("cd"));
    buf_str(&b, QP_NONE);
    buf_text(&b, "ef");
    buf_byte(&b, 'g');
    buf_printf(&b, "%d-%s", 42, "x");
    buf_printf(&b, "%s", "");
    assert_int_equal(buf_rc(&b), QP_OK);
    assert_int_equal(buf_slice(&b).n, 12);
    assert_memory_equal(buf_slice(&b).p, "ab\0cdefg42-x", 12);
    buf_done(&b);
    buf_done(&b);
    testenv_done(&t);
}

/* Numbers are written as printf writes them, the ends of their range, too. */
static void numbers_in_decimal(void **state)
{
    static const int64_t numbers[] = {0, 7, -1, 10, -10, 9999999999, INT64_MAX, INT64_MIN};
    struct buf b;
    (void)state;
    testenv_init(&t, 1);
    buf_init(&b, &t.env, 0);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        char wanted[32];
        int n = snprintf(wanted, sizeof wanted, "%lld", (long long)numbers[i]);
        buf_reset(&b);
        buf_i64(&b, numbers[i]);
        assert_int_equal(buf_slice(&b).n, n);
        assert_memory_equal(buf_slice(&b).p, wanted, (size_t)n);
    }
    buf_done(&b);
    testenv_done(&t);
}

/* Random appends equal the same appends to a plain array. */
static void random_appends_match_an_array(void **state)
{
    enum { SIZE = 200000 };
    static char model[SIZE];
    uint64_t random = testenv_seed();
    size_t n = 0;
    struct buf b;

    (void)state;
    testenv_init(&t, 1);
    buf_init(&b, &t.env, 0);
    while (n < SIZE - 1000) {
        char piece[1000];
        size_t size = (size_t)testenv_random_below(&random, sizeof(piece));

        memset(piece, 'a' + (int)testenv_random_below(&random, 26), sizeof(piece));
        memcpy(model + n, piece, size);
        n += size;
        if (testenv_random_below(&random, 2) == 0) {
            buf_add(&b, piece, size);
        } else {
            buf_printf(&b, "%.*s", (int)size, piece);
        }
    }
    assert_int_equal(buf_rc(&b), QP_OK);
    assert_int_equal(b.n, n);
    assert_memory_equal(b.p, model, n);
    assert_true(t.allocations < 20); /* doubling, not one by one */
    buf_done(&b);
    testenv_done(&t);
}

/* A buffer holds exactly its limit, by every way of appending; one byte more is TOO_LARGE. */
static void limit_is_exact(void **state)
{
    static const size_t limits[] = {1, 10, 255, 256, 257, 300, 511, 512, 513, 100000};

    (void)state;
    testenv_init(&t, 1);
    for (size_t i = 0; i < ARRAY_COUNT(limits); i++) {
        for (int way = 0; way < 2; way++) {
            struct buf b;

            buf_init(&b, &t.env, limits[i]);
            for (size_t k = 0; k < limits[i]; k++) {
                if (way == 0) {
                    buf_byte(&b, 'x');
                } else {
                    buf_printf(&b, "%c", 'x');
                }
            }
            assert_int_equal(buf_rc(&b), QP_OK);
            buf_byte(&b, 'y');
            assert_int_equal(buf_rc(&b), QP_E_TOO_LARGE);
            assert_int_equal(b.n, limits[i]);
            assert_true(b.capacity <= b.limit + 1);
            buf_done(&b);
        }
    }
    testenv_done(&t);
}

/* After an error nothing is appended, not even what would fit, until the buffer is reset. */
static void errors_stick(void **state)
{
    struct buf b;

    (void)state;
    testenv_init(&t, 1);
    buf_init(&b, &t.env, 10);
    buf_text(&b, "12345");
    buf_text(&b, "too much");
    buf_text(&b, "6");
    assert_int_equal(buf_rc(&b), QP_E_TOO_LARGE);
    assert_true(str_equal(buf_slice(&b), QP_STR("12345")));
    buf_reset(&b);
    buf_text(&b, "6");
    assert_int_equal(buf_rc(&b), QP_OK);
    assert_true(str_equal(buf_slice(&b), QP_STR("6")));
    buf_add(&b, "x", SIZE_MAX);
    assert_int_equal(buf_rc(&b), QP_E_TOO_LARGE);
    buf_done(&b);
    testenv_done(&t);
}

/* Whichever allocation fails, the rc says NOMEM and what was there before is unharmed. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    for (int64_t n = 1;; n++) {
        struct buf b;
        bool failed;

        testenv_fail_at(&t, n);
        buf_init(&b, &t.env, 0);
        for (int i = 0; i < 2000; i++) {
            buf_printf(&b, "%05d", i);
        }
        failed = testenv_failed(&t);
        assert_int_equal(buf_rc(&b), failed ? QP_E_NOMEM : QP_OK);
        for (size_t i = 0; i < b.n / 5; i++) {
            assert_int_equal(strtol((char[]){b.p[5 * i], b.p[5 * i + 1], b.p[5 * i + 2],
                                             b.p[5 * i + 3], b.p[5 * i + 4], 0},
                                    NULL, 10),
                             i);
        }
        buf_done(&b);
        if (!failed) {
            break;
        }
    }
    testenv_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_in_order),
        cmocka_unit_test(numbers_in_decimal),
        cmocka_unit_test(random_appends_match_an_array),
        cmocka_unit_test(limit_is_exact),
        cmocka_unit_test(errors_stick),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

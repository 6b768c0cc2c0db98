/* test_int.c - arithmetic that says when it does not fit */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"

#define UNTOUCHED 4711

/* A sum or product that fits is given; one that does not leaves the output alone. */
static void sizes_are_checked(void **state)
{
    static const struct {
        size_t a;
        size_t b;
        bool sum_fits;
        bool product_fits;
    } cases[] = {
        {0, 0, true, true},
        {1, 2, true, true},
        {SIZE_MAX, 0, true, true},
        {SIZE_MAX, 1, false, true},
        {SIZE_MAX - 1, 1, true, true},
        {SIZE_MAX / 2, 2, true, true},
        {SIZE_MAX / 2 + 1, 2, true, false},
        {SIZE_MAX, SIZE_MAX, false, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        size_t sum = UNTOUCHED;
        size_t product = UNTOUCHED;

        assert_int_equal(size_add(cases[i].a, cases[i].b, &sum), cases[i].sum_fits);
        assert_int_equal(sum, cases[i].sum_fits ? cases[i].a + cases[i].b : UNTOUCHED);
        assert_int_equal(size_mul(cases[i].a, cases[i].b, &product), cases[i].product_fits);
        assert_int_equal(product, cases[i].product_fits ? cases[i].a * cases[i].b : UNTOUCHED);
    }
}

/* The same for signed sums, in both directions. */
static void signed_sums_are_checked(void **state)
{
    static const struct {
        int64_t a;
        int64_t b;
        bool fits;
        int64_t sum;
    } cases[] = {
        {1, 2, true, 3},
        {INT64_MAX, 0, true, INT64_MAX},
        {INT64_MAX, 1, false, UNTOUCHED},
        {INT64_MIN, -1, false, UNTOUCHED},
        {INT64_MIN, INT64_MAX, true, -1},
        {INT64_MIN, 0, true, INT64_MIN},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int64_t sum = UNTOUCHED;

        assert_int_equal(i64_add(cases[i].a, cases[i].b, &sum), cases[i].fits);
        assert_true(sum == cases[i].sum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(signed_sums_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

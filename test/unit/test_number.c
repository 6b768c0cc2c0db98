/* test_number.c - numbers as text and back: shortest digits, exact digits, prefixes */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "mapping/number.h"
#include "support/testenv.h"

static const char *formatted(double number)
{
    static char text[NUMBER_TEXT_SIZE + 1];

    text[number_format(number, text)] = '\0';
    return text;
}

/* Proves every form of String(number), at the borders between them. */
static void test_format(void **state)
{
    static const struct {
        double number;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "0"},
        {1, "1"},
        {-1.5, "-1.5"},
        {0.1, "0.1"},
        {1e-6, "0.000001"},
        {1e-7, "1e-7"},
        {1.25e-7, "1.25e-7"},
        {123456789012345680000.0, "123456789012345680000"},
        {1e21, "1e+21"},
        {1.5e300, "1.5e+300"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {5.684341886080802e-14,
         "5.684341886080802e-14"}, /* a power of two: not the nearest digits */
        {9007199254740993.0, "9007199254740992"},
        {(double)NAN, "NaN"},
        {(double)INFINITY, "Infinity"},
        {-(double)INFINITY, "-Infinity"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_string_equal(formatted(cases[i].number), cases[i].text);
    }
}

/* Proves that any double is read back as the same from its text. */
static void test_round_trip(void **state)
{
    uint64_t chance = testenv_seed();

    for (int i = 0; i < 20000; i++) {
        union {
            uint64_t bits;
            double real;
        } any = {.bits = testenv_random(&chance)};
        const char *text = formatted(any.real);

        if (!isnan(any.real)) {
            assert_true(number_of(str_from(text)) == any.real);
        }
    }
}

/* Proves that digits are those of the exact value, and that halves go up. */
static void test_digits(void **state)
{
    static const struct {
        double number;
        int digits;
        const char *fixed;
        const char *precision; /* of one digit more */
        const char *exponential;
    } cases[] = {
        {0, 2, "0.00", "0.00", "0.00e+0"},
        {0.5, 0, "1", "0.5", "5e-1"}, /* a half, exactly */
        {2.5, 0, "3", "3", "3e+0"},
        {-2.5, 0, "-3", "-3", "-3e+0"},
        {1.005, 2, "1.00", "1.00", "1.00e+0"}, /* less than it looks */
        {1.45, 1, "1.4", "1.4", "1.4e+0"},
        {999.9999, 1, "1000.0", "1.0e+3", "1.0e+3"},
        {1e-10, 2, "0.00", "1.00e-10", "1.00e-10"},
        {-1e-10, 2, "-0.00", "-1.00e-10", "-1.00e-10"},
        {1e21, 2, "1e+21", "1.00e+21", "1.00e+21"},
        {123.456, 20, "123.45600000000000306954", "123.456000000000003070",
         "1.23456000000000003070e+2"},
    };
    char text[NUMBER_FIXED_SIZE + 1];

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        text[number_fixed(cases[i].number, cases[i].digits, text)] = '\0';
        assert_string_equal(text, cases[i].fixed);
        text[number_precision(cases[i].number, cases[i].digits + 1, text)] = '\0';
        assert_string_equal(text, cases[i].precision);
        text[number_exponential(cases[i].number, cases[i].digits, text)] = '\0';
        assert_string_equal(text, cases[i].exponential);
    }
    text[number_fixed(-1e20 - 65536, NUMBER_DIGITS, text)] = '\0'; /* the longest there is */
    assert_int_equal(strlen(text), 1 + 21 + 1 + NUMBER_DIGITS);
    text[number_exponential(1.5e10, -1, text)] = '\0';
    assert_string_equal(text, "1.5e+10");
}

/* Proves what Number, parseFloat and parseInt read; NaN is none. */
static void test_read(void **state)
{
    static const struct {
        const char *text;
        double whole;
        double prefix;
        double integer;
    } cases[] = {
        {"", 0, (double)NAN, (double)NAN},
        {" 12 ", 12, 12, 12},
        {"12.50", 12.5, 12.5, 12},
        {".5", 0.5, 0.5, (double)NAN},
        {"5.", 5, 5, 5},
        {"+7", 7, 7, 7},
        {"-1e3", -1000, -1000, -1},
        {"1e", (double)NAN, 1, 1},
        {"1e400", (double)INFINITY, (double)INFINITY, 1},
        {"1e-400", 0, 0, 1},
        {"0x1F", 31, 0, 31},
        {"-0x1F", (double)NAN, -0.0, -31},
        {"0b101", 5, 0, 0},
        {"0o17", 15, 0, 0},
        {"0x", (double)NAN, 0, (double)NAN},
        {"12px", (double)NAN, 12, 12},
        {"-Infinity", -(double)INFINITY, -(double)INFINITY, (double)NAN},
        {"\xEF\xBB\xBF\xC2\xA0 3", 3, 3, 3},
        {"9007199254740993", 9007199254740992.0, 9007199254740992.0, 9007199254740992.0},
        {"1e99999999999999999999", (double)INFINITY, (double)INFINITY, 1},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        double got[] = {number_of(str_from(cases[i].text)), number_prefix(str_from(cases[i].text)),
                        number_integer_prefix(str_from(cases[i].text), 0)};
        double want[] = {cases[i].whole, cases[i].prefix, cases[i].integer};

        for (size_t k = 0; k < 3; k++) {
            if (got[k] != want[k] && !(isnan(got[k]) && isnan(want[k]))) {
                fail_msg("%s: %zu: %g", cases[i].text, k, got[k]);
            }
        }
    }
    assert_true(number_integer_prefix(QP_STR("zz"), 36) == 35 * 36 + 35);
    assert_true(isnan(number_integer_prefix(QP_STR("1"), 37)));
    assert_true(isnan(number_integer_prefix(QP_STR("2"), 2)));
}

/* Proves that digits past the longest number that is kept still decide how it is rounded. */
static void test_read_long(void **state)
{
    static char text[2000];

    (void)snprintf(text, sizeof(text), "9007199254740993.%01500d", 0);
    assert_true(number_of(str_from(text)) == 9007199254740992.0); /* a tie, to even */
    text[strlen(text) - 1] = '1';
    assert_true(number_of(str_from(text)) == 9007199254740994.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format),    cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_digits),    cmocka_unit_test(test_read),
        cmocka_unit_test(test_read_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

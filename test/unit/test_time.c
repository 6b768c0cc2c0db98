/* test_time.c - times and spans as text: both ways, and what is none */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/time.h"

/* Proves the calendar at its corners: leap days, centuries, the epoch, both ends. */
static void test_format(void **state)
{
    static const struct {
        qp_ms at;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {1709164800000, "2024-02-29T00:00:00.000Z"},
        {1709251199999, "2024-02-29T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {-2203977600000, "1900-02-28T00:00:00.000Z"},
        {1769850487123, "2026-01-31T09:08:07.123Z"},
        {253402300799999, "9999-12-31T23:59:59.999Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
        {-62135596800000, "0001-01-01T00:00:00.000Z"},
        {INT64_MIN, "0001-01-01T00:00:00.000Z"},
    };
    char text[RFC3339_SIZE];
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        rfc3339_format(cases[i].at, text);
        assert_string_equal(text, cases[i].text);
    }
}

/* Proves that what is written is read back, every 37th day of four centuries. */
static void test_both_ways(void **state)
{
    char text[RFC3339_SIZE];
    for (int64_t day = -30000; day < 116097; day += 37) {
        qp_ms at = day * 86400000 + day % 86400000;
        qp_ms back = 1;
        rfc3339_format(at, text);
        assert_int_equal(rfc3339_parse(str_from(text), &back, NULL), QP_OK);
        assert_int_equal(back, at);
    }
}

/* Proves what else is a time: offsets, fractions, a leap second, small letters. */
static void test_parse(void **state)
{
    static const struct {
        const char *text;
        qp_ms at;
    } cases[] = {
        {"2026-01-31T09:08:07Z", 1769850487000},
        {"2026-01-31t09:08:07z", 1769850487000},
        {"2026-01-31 09:08:07.1Z", 1769850487100},
        {"2026-01-31T09:08:07.1239999Z", 1769850487123},
        {"2026-01-31T10:08:07+01:00", 1769850487000},
        {"2026-01-31T03:38:07-05:30", 1769850487000},
        {"2016-12-31T23:59:60Z", 1483228800000},
        {"2016-12-31T23:59:60.5Z", 1483228800000},
    };
    qp_ms at;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(rfc3339_parse(str_from(cases[i].text), &at, NULL), QP_OK);
        assert_int_equal(at, cases[i].at);
    }
}

/* Proves that what is almost a time is refused, with the text that was there. */
static void test_no_time(void **state)
{
    static const char *const cases[] = {"",
                                        "2026",
                                        "2026-01-31",
                                        "2026-01-31T09:08Z",
                                        "2026-01-31T09:08:07",
                                        "2026-02-29T00:00:00Z",
                                        "1900-02-29T00:00:00Z",
                                        "2026-13-01T00:00:00Z",
                                        "2026-00-01T00:00:00Z",
                                        "2026-01-00T00:00:00Z",
                                        "0000-01-01T00:00:00Z",
                                        "2026-01-31T24:00:00Z",
                                        "2026-01-31T09:60:00Z",
                                        "2026-01-31T09:08:61Z",
                                        "2026-01-31T09:08:07.Z",
                                        "2026-01-31T09:08:07+1:00",
                                        "2026-01-31T09:08:07+24:00",
                                        "2026-01-31T09:08:07Zx",
                                        "-026-01-31T09:08:07Z"};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct qp_err err;
        qp_ms at = 77;
        assert_int_equal(rfc3339_parse(str_from(cases[i]), &at, &err), QP_E_INVALID);
        assert_int_equal(at, 77);
        assert_non_null(strstr(err.text, cases[i]));
    }
}

/* Proves what a span is, in both ways of writing it. */
static void test_span(void **state)
{
    static const struct {
        const char *text;
        qp_ms ms;
    } cases[] = {
        {"0s", 0},
        {"250ms", 250},
        {"10s", 10000},
        {"1m", 60000},
        {"1h30m", 5400000},
        {"2d", 172800000},
        {"1w", 604800000},
        {"1.5s", 1500},
        {"PT10S", 10000},
        {"PT0.5S", 500},
        {"PT1H30M", 5400000},
        {"P2D", 172800000},
        {"P1DT1H", 90000000},
        {"3653d", LIMIT_TIMER_MS},
    };
    qp_ms ms;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(span_parse(str_from(cases[i].text), &ms, NULL), QP_OK);
        assert_int_equal(ms, cases[i].ms);
    }
}

/* Proves that what is almost a span, or longer than a timer may be, is refused. */
static void test_no_span(void **state)
{
    static const char *const cases[] = {"",      "s",    "10",  "-1s",   "10 s",
                                        "10sec", "P",    "PT",  "P1M",   "P1Y",
                                        "PT10",  "1.s",  "1s2", "3654d", "9999999999999999999999s",
                                        "PTT1S", "1e3s", "PT1h"};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        qp_ms ms = 77;
        struct qp_err err;
        assert_int_equal(span_parse(str_from(cases[i]), &ms, &err), QP_E_INVALID);
        assert_int_equal(ms, 77);
    }
}

/* Proves that a moment is a time, or so long before now. */
static void test_moment(void **state)
{
    static const struct {
        const char *text;
        qp_ms at;
    } cases[] = {{"1970-01-01T00:00:02Z", 2000}, {"-2h", 10000000 - 7200000}, {"-PT1S", 9999000}};
    static const char *const none[] = {"", "-", "2h", "--2h", "now", "-2x"};
    qp_ms at = 77;
    for (size_t i = 0; i < ARRAY_COUNT(none); i++) {
        assert_int_equal(moment_parse(str_from(none[i]), 10000000, &at), QP_E_INVALID);
        assert_int_equal(at, 77);
    }
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(moment_parse(str_from(cases[i].text), 10000000, &at), QP_OK);
        assert_int_equal(at, cases[i].at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format), cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_parse),  cmocka_unit_test(test_no_time),
        cmocka_unit_test(test_span),   cmocka_unit_test(test_no_span),
        cmocka_unit_test(test_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

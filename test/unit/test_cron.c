/* test_cron.c - cron expressions: when they are due next, and what is none */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cron.h"
#include "base/time.h"

/* Proves the next moment for each form of a field, in the order of the calendar; 2026-01-31 is a Saturday. */
static void test_next(void **state)
{
    static const struct {
        const char *cron;
        const char *after;
        const char *next;
    } cases[] = {
        {"* * * * *", "2026-01-31T09:08:07Z", "2026-01-31T09:09:00.000Z"},
        {"* * * * *", "2026-01-31T09:08:00Z", "2026-01-31T09:09:00.000Z"},
        {"  5   4  * * *  ", "2026-01-31T09:08:07Z", "2026-02-01T04:05:00.000Z"},
        {"*/15 * * * *", "2026-01-31T09:46:00Z", "2026-01-31T10:00:00.000Z"},
        {"10-20/5 * * * *", "2026-01-31T09:15:00Z", "2026-01-31T09:20:00.000Z"},
        {"50/5 * * * *", "2026-01-31T09:51:00Z", "2026-01-31T09:55:00.000Z"},
        {"0 0,12 * * *", "2026-01-31T09:08:07Z", "2026-01-31T12:00:00.000Z"},
        {"0 0 1 * *", "2026-01-31T09:08:07Z", "2026-02-01T00:00:00.000Z"},
        {"0 0 31 * *", "2026-01-31T09:08:07Z", "2026-03-31T00:00:00.000Z"},
        {"0 0 29 2 *", "2026-01-31T09:08:07Z", "2028-02-29T00:00:00.000Z"},
        {"0 0 29 feb *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00.000Z"},
        {"0 0 * * mon", "2026-01-31T09:08:07Z", "2026-02-02T00:00:00.000Z"},
        {"0 0 * * 0", "2026-01-31T09:08:07Z", "2026-02-01T00:00:00.000Z"},
        {"0 0 * * 7", "2026-01-31T09:08:07Z", "2026-02-01T00:00:00.000Z"},
        {"0 0 * * MON-FRI", "2026-01-31T09:08:07Z", "2026-02-02T00:00:00.000Z"},
        {"0 0 13 * fri", "2026-01-31T09:08:07Z", "2026-02-06T00:00:00.000Z"},  /* either */
        {"0 0 */2 * mon", "2026-01-31T09:08:07Z", "2026-02-09T00:00:00.000Z"}, /* both */
        {"59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00.000Z"},
        {"0 0 1 1 *", "1960-05-05T00:00:00Z", "1971-01-01T00:00:00.000Z"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct cron c;
        char text[RFC3339_SIZE];
        qp_ms after;

        assert_int_equal(rfc3339_parse(str_from(cases[i].after), &after, NULL), QP_OK);
        assert_int_equal(cron_parse(str_from(cases[i].cron), &c, NULL), QP_OK);
        rfc3339_format(cron_next(&c, after), text);
        assert_string_equal(text, cases[i].next);
    }
}

/* Proves that what is none is refused, and that the sentence names the field. */
static void test_refused(void **state)
{
    static const struct {
        const char *cron;
        const char *sentence;
    } cases[] = {
        {"", "cron: the minute is wrong"},
        {"60 * * * *", "cron: the minute is wrong"},
        {"a * * * *", "cron: the minute is wrong"},
        {"*/0 * * * *", "cron: the minute is wrong"},
        {"5-3 * * * *", "cron: the minute is wrong"},
        {"1,,2 * * * *", "cron: the minute is wrong"},
        {"1- * * * *", "cron: the minute is wrong"},
        {"0001 * * * *", "cron: the minute is wrong"},
        {"* 24 * * *", "cron: the hour is wrong"},
        {"* * 0 * *", "cron: the day of the month is wrong"},
        {"* * 32 * *", "cron: the day of the month is wrong"},
        {"* * * 13 *", "cron: the month is wrong"},
        {"* * * foo *", "cron: the month is wrong"},
        {"* * * * 8", "cron: the day of the week is wrong"},
        {"* * * *", "cron: the day of the week is wrong"},
        {"* * * * * *", "cron: there are five fields, and no more"},
        {"0 0 31 2 *", "cron: no day of these months is ever due"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct cron c;
        struct qp_err err = {0};

        assert_int_equal(cron_parse(str_from(cases[i].cron), &c, &err), QP_E_INVALID);
        assert_string_equal(err.text, cases[i].sentence);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

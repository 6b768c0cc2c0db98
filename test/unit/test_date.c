/* test_date.c - times of ECMAScript: what is read as one, what is none, and how they are written */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mapping/date.h"

/* Proves every form that is read, by its ISO form; NULL: it is no date. */
static void test_parse(void **state)
{
    static const struct {
        const char *text;
        const char *iso;
    } cases[] = {
        {"2026", "2026-01-01T00:00:00.000Z"},
        {"2026-05", "2026-05-01T00:00:00.000Z"},
        {"2026-01-31", "2026-01-31T00:00:00.000Z"},
        {"2026-01-31T09:08", "2026-01-31T09:08:00.000Z"},
        {"2026-01-31T09:08:07.1239Z", "2026-01-31T09:08:07.123Z"},
        {"2024-02-29T23:59:59.999+05:30", "2024-02-29T18:29:59.999Z"},
        {"2026-01-31T24:00:00Z", "2026-02-01T00:00:00.000Z"},
        {"-000001-01-01T00:00:00Z", "-000001-01-01T00:00:00.000Z"},
        {"+275760-09-13T00:00:00Z", "+275760-09-13T00:00:00.000Z"},
        {"-271821-04-20T00:00:00Z", "-271821-04-20T00:00:00.000Z"},
        {"Sat, 31 Jan 2026 09:08:07 GMT", "2026-01-31T09:08:07.000Z"},
        {"Sat Jan 31 2026 09:08:07 GMT+0100 (x)", "2026-01-31T08:08:07.000Z"},
        {"Jan 31, 2026", "2026-01-31T00:00:00.000Z"},
        {"31 January 2026 9:08 PM", "2026-01-31T21:08:00.000Z"},
        {"1/31/2026, 12:08:07 AM", "2026-01-31T00:08:07.000Z"},
        {"", NULL},
        {"x", NULL},
        {"2026-13-01", NULL},
        {"2026-00-01", NULL},
        {"2026-02-29", NULL},
        {"2026-01-32", NULL},
        {"2026-01-31T24:00:01Z", NULL},
        {"2026-01-31T09:60Z", NULL},
        {"2026-01-31T09", NULL},
        {"2026-01-31T09:08+1", NULL},
        {"-000000-01-01", NULL},
        {"+275760-09-13T00:00:00.001Z", NULL},
        {"Jan 2026", NULL},
        {"31 Jan 26", NULL},
        {"13:00 PM Jan 31 2026", NULL},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        double time = date_parse(str_from(cases[i].text));
        char text[DATE_ISO_SIZE];

        if (isnan(time) != (cases[i].iso == NULL)) {
            fail_msg("%s", cases[i].text);
        }
        if (cases[i].iso != NULL) {
            assert_true(str_equal((qp_str){text, date_iso(time, text)}, str_from(cases[i].iso)));
        }
    }
}

/* Proves every form that is written, of a time before 1970 and of one at midday; and that it is read back. */
static void test_format(void **state)
{
    static const struct {
        double time;
        const char *forms[7];
    } cases[] = {
        {1769861287123.0,
         {"Sat Jan 31 2026 12:08:07 GMT+0000 (Coordinated Universal Time)", "Sat Jan 31 2026",
          "12:08:07 GMT+0000 (Coordinated Universal Time)", "Sat, 31 Jan 2026 12:08:07 GMT",
          "1/31/2026, 12:08:07 PM", "1/31/2026", "12:08:07 PM"}},
        {-1,
         {"Wed Dec 31 1969 23:59:59 GMT+0000 (Coordinated Universal Time)", "Wed Dec 31 1969",
          "23:59:59 GMT+0000 (Coordinated Universal Time)", "Wed, 31 Dec 1969 23:59:59 GMT",
          "12/31/1969, 11:59:59 PM", "12/31/1969", "11:59:59 PM"}},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        for (size_t form = 0; form < 7; form++) {
            char text[DATE_TEXT_SIZE];
            qp_str got = {text, date_format(cases[i].time, (enum date_form)form, text)};

            assert_true(str_equal(got, str_from(cases[i].forms[form])));
            if (form == DATE_FORM_STRING || form == DATE_FORM_UTC || form == DATE_FORM_LOCALE) {
                assert_true(date_parse(got) == floor(cases[i].time / 1000) * 1000);
            }
        }
    }
}

/* Proves that fields past their ranges are carried, and that what is past the last time is none. */
static void test_make(void **state)
{
    double carried[DATE_FIELDS] = {2026, 14, 0, 25, -1, 61, 1001};
    double none[DATE_FIELDS] = {2026, 0, 1, 0, (double)NAN};
    double late[DATE_FIELDS] = {275761, 0, 1};
    double fields[DATE_FIELDS + 1];
    char text[DATE_ISO_SIZE];

    assert_true(str_equal((qp_str){text, date_iso(date_make(carried), text)},
                          QP_STR("2027-03-01T01:00:02.001Z")));
    assert_true(isnan(date_make(none)));
    assert_true(isnan(date_make(late)));
    assert_true(date_clip(8.64e15) == 8.64e15 && isnan(date_clip(8.64e15 + 2)));
    date_split(-1, fields);
    assert_true(fields[DATE_YEAR] == 1969 && fields[DATE_WEEKDAY] == 3 && fields[DATE_MS] == 999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_make),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

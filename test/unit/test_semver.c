/* test_semver.c - versions and ranges of npm: what is one, the order, what admits what. Thousands of pairs are compared
 * with npm's own in test_npm_oracle.sh; here stand the rules, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "carto/semver_range.h"
#include "support/arenatest.h"

/* Each version is later than the one before (semver.org 11, and what npm takes loosely). */
static const char *const ascending[] = {
    "0.0.0-0",          "0.0.0",    "0.0.1-alpha", "0.0.1",       "1.0.0-0",
    "1.0.0-2",          "1.0.0-9",  "1.0.0-10",    "1.0.0-alpha", "1.0.0-alpha.1",
    "1.0.0-alpha.beta", "1.0.0-b",  "1.0.0-beta",  "1.0.0beta.2", "1.0.0-beta.11",
    "1.0.0-rc.1",       "v1.0.0",   "1.0.1",       "1.2.10-4.5",  "1.2.10",
    "1.10.0",           "=2.0.0+b", "10.0.0"};

static void test_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(ascending); i++) {
        for (size_t j = 0; j < ARRAY_COUNT(ascending); j++) {
            struct semver a;
            struct semver b;
            int order;
            assert_true(semver_read(str_from(ascending[i]), &a));
            assert_true(semver_read(str_from(ascending[j]), &b));
            order = semver_compare(&a, &b);
            if ((order > 0) - (order < 0) != (i > j) - (i < j)) {
                fail_msg("%s and %s: %d", ascending[i], ascending[j], order);
            }
        }
    }
}

/* What a version is, and the text that it has then. */
static void test_versions(void **state)
{
    static const struct {
        const char *text;
        const char *canonical; /* NULL: not a version */
    } cases[] = {{"1.2.3", "1.2.3"},
                 {" =v01.2.03-00.a+b ", "1.2.3-0.a"},
                 {"1.2.3-", "1.2.3--"},
                 {"1.2.10.3", "1.2.1-0.3"},
                 {"9007199254740991.0.0", "9007199254740991.0.0"},
                 {"9007199254740992.0.0", NULL},
                 {"1.2", NULL},
                 {"1.2.x", NULL},
                 {"1.2.3.4", NULL},
                 {"1.2.3-a..b", NULL},
                 {"1.2.3+", NULL},
                 {"", NULL},
                 {"latest", NULL}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct semver v;
        struct buf text;
        if (semver_read(str_from(cases[i].text), &v) != (cases[i].canonical != NULL)) {
            fail_msg("'%s'", cases[i].text);
        }
        if (cases[i].canonical == NULL) {
            continue;
        }
        buf_init(&text, &at_world.env, 0);
        semver_write(&text, &v);
        buf_byte(&text, '\0');
        assert_string_equal(text.p, cases[i].canonical);
        buf_done(&text);
    }
}

/* What a range admits, and what it does not. */
static void test_ranges(void **state)
{
    static const struct {
        const char *range;
        const char *admits;
        const char *refuses;
    } cases[] = {{"^1.2.3", "1.9.0", "2.0.0-0"},
                 {"^0.2.3", "0.2.9", "0.3.0"},
                 {"^0.0.3", "0.0.3", "0.0.4"},
                 {"~1.2", "1.2.9", "1.3.0"},
                 {"~> 1.2.3", "1.2.4", "1.2.2"},
                 {"1.x || >=2.5.0 <3", "2.6.0", "2.4.0"},
                 {"1.2 - 2.3", "2.3.9", "2.4.0"},
                 {"> 1.2", "1.3.0", "1.2.9"},
                 {"<=1.2", "1.2.9", "1.3.0"},
                 {"", "0.0.0", "1.0.0-rc"},
                 {"*", "9.9.9", "1.0.0-rc"},
                 {"^1.2.3-beta", "1.2.3-rc", "1.2.4-rc"},
                 {"1.0.0 || *", "3.0.0", "1.0.1-rc"},
                 {"1.2.3 latest", "1.2.3", "1.2.4"},
                 {">x", NULL, "1.0.0"},
                 {"latest", NULL, NULL},
                 {"^9007199254740991.0.0", NULL, NULL}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct semver_range range;
        struct semver v;
        int rc = semver_range_read(&at_arena, str_from(cases[i].range), &range);
        assert_int_equal(rc, cases[i].admits == NULL && cases[i].refuses == NULL ? QP_E_INVALID
                                                                                 : QP_OK);
        if (cases[i].admits != NULL) {
            assert_true(semver_read(str_from(cases[i].admits), &v));
            assert_true(semver_range_admits(&range, &v));
        }
        if (cases[i].refuses != NULL) {
            assert_true(semver_read(str_from(cases[i].refuses), &v));
            assert_false(semver_range_admits(&range, &v));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_versions),
                                       cmocka_unit_test(test_ranges)};
    return cmocka_run_group_tests(tests, at_setup, at_teardown);
}

/* test_deb_version.c - versions of Debian packages: grammar, order, operators */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "carto/deb_version.h"
#include "support/testenv.h"

/* Each version is later than the one before: policy 5.6.12 and the cases that are easy to get wrong. */
static const char *const ascending[] = {
    "0~~",      "0~~a",   "0~",    "0",    "0+",         "0.1~rc1", "0.1",      "0.1a",
    "0.1+b1",   "0.1.1",  "0.2",   "0.10", "1~beta",     "1",       "1-1~bpo1", "1-1",
    "1-1+deb1", "1-1.1",  "1-2",   "1-10", "1a",         "1a1",     "1aa",      "1+dfsg",
    "1.0-0.1",  "1.0-1",  "1.2.3", "2",    "10",         "100",     "1:0",      "1:0.1",
    "1:1-1",    "2:0~~1", "9:1",   "10:0", "123456789:0"};

static int sign(int order)
{
    return (order > 0) - (order < 0);
}

/* The order holds between all pairs, in both directions. */
static void test_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(ascending); i++) {
        assert_int_equal(deb_version_check(str_from(ascending[i]), NULL), QP_OK);
        for (size_t j = 0; j < ARRAY_COUNT(ascending); j++) {
            int order = deb_version_compare(str_from(ascending[i]), str_from(ascending[j]));
            if (sign(order) != sign((int)i - (int)j)) {
                fail_msg("%s and %s: %d", ascending[i], ascending[j], order);
            }
        }
    }
}

/* Texts that differ and mean the same version. */
static void test_equal(void **state)
{
    static const char *const cases[][2] = {{"1.0", "1.00"}, {"0:1", "1"},     {"1", "1-0"},
                                           {"1.01", "1.1"}, {"1-1", "1-01"},  {"1.a0", "1.a00"},
                                           {"00:1", "1"},   {"1-0", "1-000"}, {"a", "a0"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(deb_version_compare(str_from(cases[i][0]), str_from(cases[i][1])), 0);
        assert_int_equal(deb_version_compare(str_from(cases[i][1]), str_from(cases[i][0])), 0);
    }
}

/* What is refused, and at which byte. */
static void test_grammar(void **state)
{
    static const struct {
        const char *text;
        const char *sentence;
    } cases[] = {{"", "between 1 and"},
                 {":1", "byte 0: an epoch has one to nine"},
                 {"a:1", "byte 0: an epoch has digits"},
                 {"1234567890:1", "one to nine digits"},
                 {"1:", "byte 2: expected an upstream"},
                 {"-1", "byte 0: expected an upstream"},
                 {"1-", "byte 2: expected a revision"},
                 {"1 2", "byte 1: allowed"},
                 {"1_2", "byte 1: allowed"},
                 {"1-2_", "byte 3: a revision"},
                 {"1-2:3", "byte 1: an epoch"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct qp_err err = {0};
        assert_int_equal(deb_version_check(str_from(cases[i].text), &err), QP_E_INVALID);
        if (strstr(err.text, cases[i].sentence) == NULL) {
            fail_msg("'%s': %s", cases[i].text, err.text);
        }
    }
    assert_int_equal(deb_version_check(QP_STR("1:2:3-4"), NULL), QP_OK);
}

/* Every operator against an earlier, an equal and a later version, and against none. */
static void test_operators(void **state)
{
    static const struct {
        enum deb_op op;
        bool earlier;
        bool equal;
        bool later;
    } cases[] = {{DEB_ANY, true, true, true},       {DEB_EARLIER, true, false, false},
                 {DEB_AT_MOST, true, true, false},  {DEB_EXACTLY, false, true, false},
                 {DEB_AT_LEAST, false, true, true}, {DEB_LATER, false, false, true}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        enum deb_op op = cases[i].op;
        assert_int_equal(deb_version_satisfies(QP_STR("1~"), op, QP_STR("1")), cases[i].earlier);
        assert_int_equal(deb_version_satisfies(QP_STR("1-0"), op, QP_STR("1")), cases[i].equal);
        assert_int_equal(deb_version_satisfies(QP_STR("1+"), op, QP_STR("1")), cases[i].later);
        assert_int_equal(deb_version_satisfies(QP_NONE, op, QP_STR("1")), op == DEB_ANY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_equal),
                                       cmocka_unit_test(test_grammar),
                                       cmocka_unit_test(test_operators)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

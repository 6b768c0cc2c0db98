/* test_text.c - text in units of UTF-16: lengths, pieces, searching, order, white space, case */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mapping/text.h"

#define SMILE "\xF0\x9F\x98\x80" /* two units */
#define EURO "\xE2\x82\xAC"

/* Proves every cut of a text with a character of two units in it. */
static void test_cut(void **state)
{
    static const struct {
        size_t first;
        size_t last;
        const char *piece;
    } cases[] = {
        {0, 0, ""},
        {0, 1, "a"},
        {0, 2, "a" TEXT_REPLACEMENT},
        {0, 3, "a" SMILE},
        {1, 2, TEXT_REPLACEMENT},
        {2, 2, ""},
        {2, 3, TEXT_REPLACEMENT},
        {2, 4, TEXT_REPLACEMENT EURO},
        {1, 4, SMILE EURO},
        {4, 4, ""},
    };
    qp_str s = QP_STR("a" SMILE EURO);

    assert_int_equal(text_units(s), 4);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct text_piece piece = text_cut(s, cases[i].first, cases[i].last);
        char out[32];
        size_t n = (size_t)(text_piece_put(&piece, out) - out);

        assert_int_equal(n, text_piece_size(&piece));
        assert_true(str_equal((qp_str){out, n}, str_from(cases[i].piece)));
    }
}

/* Proves both directions of searching, from every place. */
static void test_find(void **state)
{
    qp_str s = QP_STR("abcabc");
    char scratch[16];

    assert_int_equal(text_find(s, QP_STR("bc"), 0), 1);
    assert_int_equal(text_find(s, QP_STR("bc"), 2), 4);
    assert_int_equal(text_find(s, QP_STR("bc"), 5), SIZE_MAX);
    assert_int_equal(text_find(s, QP_STR("abcabcd"), 0), SIZE_MAX);
    assert_int_equal(text_find_last(s, QP_STR("bc"), 6, scratch), 4);
    assert_int_equal(text_find_last(s, QP_STR("bc"), 4, scratch), 4);
    assert_int_equal(text_find_last(s, QP_STR("bc"), 3, scratch), 1);
    assert_int_equal(text_find_last(s, QP_STR("bc"), 0, scratch), SIZE_MAX);
    assert_int_equal(text_find_last(s, QP_STR("abc"), 0, scratch), 0);
    assert_int_equal(text_find_last(s, QP_STR("abcabcd"), 6, scratch), SIZE_MAX);
}

/* Proves the order of units: a character of two is before U+E000 to U+FFFF, though its bytes are not. */
static void test_compare(void **state)
{
    static const char *const ordered[] = {"",    "a",       "aa",           "b",           EURO,
                                          SMILE, SMILE "a", "\xEE\x80\x80", "\xEF\xBF\xBD"};

    for (size_t i = 0; i < ARRAY_COUNT(ordered); i++) {
        for (size_t k = 0; k < ARRAY_COUNT(ordered); k++) {
            int order = text_compare(str_from(ordered[i]), str_from(ordered[k]));

            assert_int_equal((order > 0) - (order < 0), (i > k) - (i < k));
        }
    }
}

/* Proves what is white space on either side. */
static void test_trim(void **state)
{
    qp_str s = QP_STR("\t\xC2\xA0\xE2\x80\x83 a b\xEF\xBB\xBF\n");

    assert_true(str_equal(text_trim(s, true, true), QP_STR("a b")));
    assert_true(str_equal(text_trim(s, true, false), QP_STR("a b\xEF\xBB\xBF\n")));
    assert_true(str_equal(text_trim(s, false, true), QP_STR("\t\xC2\xA0\xE2\x80\x83 a b")));
    assert_int_equal(text_trim(QP_STR(" \r\n"), true, true).n, 0);
    assert_int_equal(text_trim(QP_STR("\xE2\x80\x8B"), true, true).n,
                     3); /* has no width, is none */
}

/* Proves upper and lower case beyond ASCII: several characters of one, the sigma at the end of a word. */
static void test_case(void **state)
{
    static const struct {
        const char *text;
        const char *upper;
        const char *lower;
    } cases[] = {
        {"aZ1", "AZ1", "az1"},
        {"Stra\xC3\x9F"
         "e",
         "STRASSE",
         "stra\xC3\x9F"
         "e"},
        {"\xC3\xA9\xC3\x89", "\xC3\x89\xC3\x89", "\xC3\xA9\xC3\xA9"},
        {"\xC3\xBF", "\xC5\xB8", "\xC3\xBF"},
        {"\xC4\xB0", "\xC4\xB0", "i\xCC\x87"},
        {"\xCE\x91\xCE\xA3", "\xCE\x91\xCE\xA3", "\xCE\xB1\xCF\x82"},
        {"\xCE\x91\xCE\xA3\xCE\x91", "\xCE\x91\xCE\xA3\xCE\x91", "\xCE\xB1\xCF\x83\xCE\xB1"},
        {"\xCE\xA3", "\xCE\xA3", "\xCF\x83"},
        {"\xEF\xAC\x83", "FFI", "\xEF\xAC\x83"},
        {"\xF0\x90\x90\x80", "\xF0\x90\x90\x80", "\xF0\x90\x90\xA8"},
        {SMILE, SMILE, SMILE},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char out[64];
        size_t n = text_case(str_from(cases[i].text), true, out);

        assert_int_equal(n, text_case(str_from(cases[i].text), true, NULL));
        assert_true(str_equal((qp_str){out, n}, str_from(cases[i].upper)));
        n = text_case(str_from(cases[i].text), false, out);
        assert_true(str_equal((qp_str){out, n}, str_from(cases[i].lower)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),  cmocka_unit_test(test_find), cmocka_unit_test(test_compare),
        cmocka_unit_test(test_trim), cmocka_unit_test(test_case),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_str.c - slices, names, ids, UTF-8 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/testenv.h"

/* A slice of a literal that may hold NUL, as a constant. */
#define LIT(literal)                                                                               \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

/* The order is that of bytes, the shorter first, none before empty; equality follows from it. */
static void order_is_that_of_bytes(void **state)
{
    static const qp_str ascending[] = {
        {NULL, 0}, LIT(""),  LIT("\0"),   LIT("a"),    LIT("a\0"),
        LIT("ab"), LIT("b"), LIT("\x7F"), LIT("\x80"), LIT("\xFF"),
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(ascending); i++) {
        for (size_t j = 0; j < ARRAY_COUNT(ascending); j++) {
            int order = str_compare(ascending[i], ascending[j]);

            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
            assert_int_equal(str_equal(ascending[i], ascending[j]), i == j);
        }
    }
}

/* A C string becomes a slice without its NUL, and no string becomes none. */
static void slices_from_c_strings(void **state)
{
    (void)state;
    assert_true(str_is_none(str_from(NULL)));
    assert_false(str_is_none(str_from("")));
    assert_true(str_equal(str_from("abc"), QP_STR("abc")));
}

/* What counts as a name, and that the error says where and what. */
static void names_are_checked(void **state)
{
    static char long_name[LIMIT_NAME_SIZE + 1];
    static const struct {
        qp_str name;
        int rc;
        const char *text;
    } cases[] = {
        {LIT("order.v2_final~x:y-Z09"), QP_OK, NULL},
        {{long_name, LIMIT_NAME_SIZE}, QP_OK, NULL},
        {{long_name, LIMIT_NAME_SIZE + 1}, QP_E_TOO_LARGE, "topic: 256 bytes, the limit is 255"},
        {LIT(""), QP_E_INVALID, "topic: is empty"},
        {{NULL, 0}, QP_E_INVALID, "topic: is empty"},
        {LIT("a b"), QP_E_INVALID, "topic: byte 0x20 at offset 1 is none of A-Z a-z 0-9 . _ ~ : -"},
        {LIT("a\x1B[31m"), QP_E_INVALID,
         "topic: byte 0x1b at offset 1 is none of A-Z a-z 0-9 . _ ~ : -"},
        {LIT("a/b"), QP_E_INVALID, "topic: byte 0x2f at offset 1 is none of A-Z a-z 0-9 . _ ~ : -"},
        {LIT("ab\0"), QP_E_INVALID,
         "topic: byte 0x00 at offset 2 is none of A-Z a-z 0-9 . _ ~ : -"},
        {LIT("\xC3\xA9"), QP_E_INVALID,
         "topic: byte 0xc3 at offset 0 is none of A-Z a-z 0-9 . _ ~ : -"},
    };

    (void)state;
    memset(long_name, 'n', sizeof(long_name));
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct qp_err err = {0};

        assert_int_equal(name_check(cases[i].name, "topic", &err), cases[i].rc);
        if (cases[i].text != NULL) {
            assert_string_equal(err.text, cases[i].text);
        }
    }
}

/* Every byte on its own: the set of name characters is exactly the documented one. */
static void every_byte_of_a_name(void **state)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~:-";

    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        bool ok = byte != 0 && strchr(allowed, c) != NULL;

        assert_int_equal(name_check((qp_str){&c, 1}, "name", NULL), ok ? QP_OK : QP_E_INVALID);
    }
}

/* An id is printable UTF-8 that is not padded. */
static void ids_are_checked(void **state)
{
    static char long_id[LIMIT_ID_SIZE + 1];
    static const struct {
        qp_str id;
        int rc;
        const char *text;
    } cases[] = {
        {LIT("order 4711 / \xC3\x9C"
             "berweisung"),
         QP_OK, NULL},
        {LIT("\xF0\x9F\xA7\xB6"), QP_OK, NULL},
        {{long_id, LIMIT_ID_SIZE}, QP_OK, NULL},
        {{long_id, LIMIT_ID_SIZE + 1}, QP_E_TOO_LARGE, "job id: 256 bytes, the limit is 255"},
        {LIT(""), QP_E_INVALID, "job id: is empty"},
        {LIT(" a"), QP_E_INVALID, "job id: begins or ends with white space"},
        {LIT("a "), QP_E_INVALID, "job id: begins or ends with white space"},
        {LIT("a\xC2\xA0"), QP_E_INVALID, "job id: begins or ends with white space"},
        {LIT("\xE3\x80\x80"
             "a"),
         QP_E_INVALID, "job id: begins or ends with white space"},
        {LIT("a\nb"), QP_E_INVALID, "job id: control character at offset 1"},
        {LIT("ab\0"), QP_E_INVALID, "job id: control character at offset 2"},
        {LIT("ab\x7F"), QP_E_INVALID, "job id: control character at offset 2"},
        {LIT("a\xC2\x85"), QP_E_INVALID, "job id: control character at offset 1"},
        {LIT("ab\xFF"), QP_E_INVALID, "job id: not valid UTF-8 at offset 2"},
        {LIT("a\xED\xA0\x80"), QP_E_INVALID, "job id: not valid UTF-8 at offset 1"},
    };

    (void)state;
    memset(long_id, 'i', sizeof(long_id));
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct qp_err err = {0};

        assert_int_equal(id_check(cases[i].id, "job id", &err), cases[i].rc);
        if (cases[i].text != NULL) {
            assert_string_equal(err.text, cases[i].text);
        }
    }
}

/* The borders of UTF-8: overlong forms, surrogates, beyond the last character, cut sequences. */
static void utf8_borders(void **state)
{
    static const struct {
        qp_str text;
        size_t valid;
    } cases[] = {
        {LIT(""), 0},
        {LIT("abc"), 3},
        {LIT("\x00"), 1},
        {LIT("\xC2\x80"), 2},
        {LIT("\xDF\xBF"), 2},
        {LIT("\xE0\xA0\x80"), 3},
        {LIT("\xED\x9F\xBF"), 3},
        {LIT("\xEE\x80\x80"), 3},
        {LIT("\xEF\xBF\xBF"), 3},
        {LIT("\xF0\x90\x80\x80"), 4},
        {LIT("\xF4\x8F\xBF\xBF"), 4},
        {LIT("a\x80"), 1},
        {LIT("a\xBF"), 1},
        {LIT("\xC0\x80"), 0},
        {LIT("\xC1\xBF"), 0},
        {LIT("\xC2"), 0},
        {LIT("\xC2\x7F"), 0},
        {LIT("\xE0\x9F\xBF"), 0},
        {LIT("\xED\xA0\x80"), 0},
        {LIT("\xED\xBF\xBF"), 0},
        {LIT("\xE2\x82"), 0},
        {LIT("\xE2\x82\x41"), 0},
        {LIT("\xF0\x8F\xBF\xBF"), 0},
        {LIT("\xF0\x9F\xA7"), 0},
        {LIT("\xF0\x9F\xA7\xC0"), 0},
        {LIT("\xF4\x90\x80\x80"), 0},
        {LIT("\xF5\x80\x80\x80"), 0},
        {LIT("\xFF"), 0},
        {LIT("ok\xE2\x82\xAC"
             "ok\xE2\x82"),
         7},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(utf8_valid_prefix(cases[i].text), cases[i].valid);
    }
}

static size_t encode(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | (c >> 6));
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | (c >> 12));
        out[1] = (char)(0x80 | ((c >> 6) & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | (c >> 18));
    out[1] = (char)(0x80 | ((c >> 12) & 0x3F));
    out[2] = (char)(0x80 | ((c >> 6) & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

/* Every code point there is: all are valid but the surrogates. */
static void every_code_point(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x110000; c++) {
        char bytes[4];
        size_t n = encode(c, bytes);
        bool valid = (c < 0xD800 || c > 0xDFFF) && c <= 0x10FFFF;

        assert_int_equal(utf8_valid_prefix((qp_str){bytes, n}), valid ? n : 0);
    }
}

/* How far apart two words are; past the beginning nothing counts. */
static void distances(void **state)
{
    static const struct {
        const char *a;
        const char *b;
        size_t distance;
    } cases[] = {
        {"", "", 0},           {"", "abc", 3},        {"topic", "topic", 0}, {"tpic", "topic", 1},
        {"topci", "topic", 2}, {"sleep", "steep", 1}, {"abc", "xyz", 3},
    };
    char longer[STR_COMPARED + 8];
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        qp_str a = str_from(cases[i].a);
        qp_str b = str_from(cases[i].b);
        assert_int_equal(str_distance(a, b), cases[i].distance);
        assert_int_equal(str_distance(b, a), cases[i].distance);
    }
    memset(longer, 'x', sizeof longer);
    assert_int_equal(str_distance((qp_str){longer, sizeof longer}, (qp_str){longer, STR_COMPARED}),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances),
        cmocka_unit_test(order_is_that_of_bytes),
        cmocka_unit_test(slices_from_c_strings),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(every_byte_of_a_name),
        cmocka_unit_test(ids_are_checked),
        cmocka_unit_test(utf8_borders),
        cmocka_unit_test(every_code_point),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

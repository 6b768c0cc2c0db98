/* test_json_write.c - the writer, and the round trip through the tree */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "support/testenv.h"

static struct testenv t;

static void assert_text(const struct buf *b, const char *expected)
{
    assert_int_equal(buf_rc(b), QP_OK);
    assert_int_equal(b->n, strlen(expected));
    assert_memory_equal(b->p, expected, b->n);
}

/* Commas and colons come where they belong, in every nesting. */
static void structure(void **state)
{
    struct json_writer w;
    struct buf b;

    (void)state;
    testenv_init(&t, 1);
    buf_init(&b, &t.env, 0);
    json_writer_init(&w, &b);
    json_begin_object(&w);
    json_key(&w, QP_STR("a"));
    json_begin_array(&w);
    json_put_i64(&w, INT64_MIN);
    json_put_bool(&w, true);
    json_put_bool(&w, false);
    json_begin_array(&w);
    json_end_array(&w);
    json_begin_object(&w);
    json_end_object(&w);
    json_put_null(&w);
    json_end_array(&w);
    json_key(&w, QP_STR("b\""));
    json_put_str(&w, QP_STR("x"));
    json_key(&w, QP_STR("c"));
    json_put_raw(&w, QP_STR("[1 , 2]"));
    json_key(&w, QP_STR("d"));
    json_put_str(&w, QP_NONE);
    json_end_object(&w);
    assert_int_equal(json_writer_done(&w), QP_OK);
    assert_text(&b, "{\"a\":[-9223372036854775808,true,false,[],{},null],\"b\\\"\":\"x\","
                    "\"c\":[1 , 2],\"d\":null}");
    buf_done(&b);
    testenv_done(&t);
}

/* Strings: short escapes, other controls, UTF-8 as it is, broken bytes replaced. */
static void strings(void **state)
{
    static const struct {
        const char *text;
        size_t size;
        const char *expected;
    } cases[] = {
        {"", 0, "\"\""},
        {"\"\\/\b\f\n\r\t", 8, "\"\\\"\\\\/\\b\\f\\n\\r\\t\""},
        {"\0\x01\x1B\x1F\x7F", 5, "\"\\u0000\\u0001\\u001b\\u001f\x7F\""},
        {"\xE2\x82\xAC\xF0\x9F\xA7\xB6", 7, "\"\xE2\x82\xAC\xF0\x9F\xA7\xB6\""},
        {"a\xFFz", 3, "\"a\xEF\xBF\xBDz\""},
        {"\xE2\x82", 2, "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xED\xA0\x80!", 4, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD!\""},
    };

    (void)state;
    testenv_init(&t, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct json_writer w;
        struct buf b;

        buf_init(&b, &t.env, 0);
        json_writer_init(&w, &b);
        json_put_str(&w, (qp_str){cases[i].text, cases[i].size});
        assert_text(&b, cases[i].expected);
        buf_done(&b);
    }
    testenv_done(&t);
}

/* Reals: the shortest text, always recognisable as a real. */
static void reals(void **state)
{
    static const struct {
        double number;
        const char *expected;
    } cases[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1, "1.0"},
        {-17, "-17.0"},
        {0.1, "0.1"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {100000, "100000.0"},
        {1e15, "1e+15"},
        {123456789012345680.0, "1.2345678901234568e+17"},
        {1e21, "1e+21"},
        {5e-324, "5e-324"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {3.141592653589793, "3.141592653589793"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[REAL_TEXT_SIZE];
        size_t n = real_format(cases[i].number, text);

        assert_int_equal(n, strlen(cases[i].expected));
        assert_memory_equal(text, cases[i].expected, n);
    }
}

/* Random bit patterns come back bit for bit from their text, through the tree. */
static void doubles_come_back_exactly(void **state)
{
    uint64_t random = testenv_seed();

    (void)state;
    testenv_init(&t, 1);
    for (int i = 0; i < 50000; i++) {
        uint64_t bits = testenv_random(&random);
        uint64_t back;
        char text[REAL_TEXT_SIZE];
        struct json *json = NULL;
        double real;

        memcpy(&real, &bits, sizeof(real));
        if (!isfinite(real)) {
            continue;
        }
        assert_int_equal(json_parse(&t.env, (qp_str){text, real_format(real, text)}, NULL, &json),
                         QP_OK);
        assert_true(json_as_real(json, &real));
        memcpy(&back, &real, sizeof(back));
        assert_true(back == bits);
        json_free(json);
    }
    testenv_done(&t);
}

/* What JSON cannot say sticks as an error. */
static void not_finite_is_an_error(void **state)
{
    static const double numbers[] = {NAN, INFINITY, -INFINITY};

    (void)state;
    testenv_init(&t, 1);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        struct json_writer w;
        struct buf b;

        buf_init(&b, &t.env, 0);
        json_writer_init(&w, &b);
        json_begin_array(&w);
        json_put_real(&w, numbers[i]);
        json_end_array(&w);
        assert_int_equal(json_writer_done(&w), QP_E_INVALID);
        buf_done(&b);
    }
    testenv_done(&t);
}

/* --------------------------------------------------------------------------------- random trees */

static void random_string(uint64_t *random, struct json_writer *w, bool as_key, unsigned number)
{
    static const char *const pieces[] = {
        "a", "\"",   "\\", "\n", "\x01", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\xA7\xB6",
        "/", "\x7F", " "};
    char text[64] = {0};
    size_t n = 0;

    for (uint64_t count = testenv_random_below(random, 8); count > 0; count--) {
        const char *piece = pieces[testenv_random_below(random, ARRAY_COUNT(pieces))];

        memcpy(text + n, piece, strlen(piece));
        n += strlen(piece);
    }
    if (as_key) {
        text[n++] = (char)('0' + number); /* so that no key comes twice */
        json_key(w, (qp_str){text, n});
    } else {
        json_put_str(w, (qp_str){text, n});
    }
}

static void random_scalar(uint64_t *random, struct json_writer *w)
{
    uint64_t bits = testenv_random(random);
    double real;

    switch (testenv_random_below(random, 7)) {
    case 0:
        json_put_null(w);
        break;
    case 1:
        json_put_bool(w, (bits & 1) != 0);
        break;
    case 2:
        json_put_i64(w, (int64_t)bits >> testenv_random_below(random, 64));
        break;
    case 3:
        json_put_raw(w, QP_STR("-123456789012345678901234567890"));
        break;
    case 4:
        memcpy(&real, &bits, sizeof(real));
        json_put_real(w, isfinite(real) ? real : -0.0);
        break;
    default:
        random_string(random, w, false, 0);
        break;
    }
}

static void random_tree(uint64_t *random, struct json_writer *w, unsigned depth)
{
    uint64_t shape = testenv_random_below(random, depth == 0 ? 1 : 4);
    unsigned count = (unsigned)testenv_random_below(random, 6);

    if (shape == 2) {
        json_begin_array(w);
        for (unsigned i = 0; i < count; i++) {
            random_tree(random, w, depth - 1);
        }
        json_end_array(w);
    } else if (shape == 3) {
        json_begin_object(w);
        for (unsigned i = 0; i < count; i++) {
            random_string(random, w, true, i);
            random_tree(random, w, depth - 1);
        }
        json_end_object(w);
    } else {
        random_scalar(random, w);
    }
}

/* Random trees: what is written parses, and the parsed tree writes the same bytes again. */
static void random_trees_round_trip(void **state)
{
    uint64_t random = testenv_seed();

    (void)state;
    testenv_init(&t, 1);
    for (int round = 0; round < 5000; round++) {
        struct json_writer w;
        struct json *json = NULL;
        struct qp_err err = {0};
        struct buf first;
        struct buf second;

        buf_init(&first, &t.env, 0);
        buf_init(&second, &t.env, 0);
        json_writer_init(&w, &first);
        random_tree(&random, &w, 5);
        assert_int_equal(json_writer_done(&w), QP_OK);
        if (json_parse(&t.env, buf_slice(&first), &err, &json) != QP_OK) {
            fail_msg("%s", err.text);
        }
        json_writer_init(&w, &second);
        json_write_tree(&w, json);
        assert_int_equal(json_writer_done(&w), QP_OK);
        assert_true(str_equal(buf_slice(&first), buf_slice(&second)));
        json_free(json);
        buf_done(&first);
        buf_done(&second);
    }
    testenv_done(&t);
}

/* A tree as deep as the limit can be written. */
static void deepest_tree_round_trips(void **state)
{
    char text[2 * LIMIT_JSON_DEPTH];
    struct json_writer w;
    struct json *json = NULL;
    struct buf b;

    (void)state;
    testenv_init(&t, 1);
    buf_init(&b, &t.env, 0);
    memset(text, '[', LIMIT_JSON_DEPTH);
    memset(text + LIMIT_JSON_DEPTH, ']', LIMIT_JSON_DEPTH);
    assert_int_equal(json_parse(&t.env, (qp_str){text, sizeof(text)}, NULL, &json), QP_OK);
    json_writer_init(&w, &b);
    json_write_tree(&w, json);
    assert_int_equal(json_writer_done(&w), QP_OK);
    assert_true(str_equal(buf_slice(&b), (qp_str){text, sizeof(text)}));
    json_free(json);
    buf_done(&b);
    testenv_done(&t);
}

/* The text of a real has a point in every locale. */
static void locale_does_not_matter(void **state)
{
    static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "ps_AF.UTF-8", "C"};
    char text[REAL_TEXT_SIZE];

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(locales); i++) {
        (void)setlocale(LC_NUMERIC, locales[i]); /* one that is not installed changes nothing */
        assert_int_equal(real_format(-1.5, text), 4);
        assert_memory_equal(text, "-1.5", 4);
    }
    (void)setlocale(LC_NUMERIC, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structure),
        cmocka_unit_test(strings),
        cmocka_unit_test(reals),
        cmocka_unit_test(doubles_come_back_exactly),
        cmocka_unit_test(not_finite_is_an_error),
        cmocka_unit_test(random_trees_round_trip),
        cmocka_unit_test(deepest_tree_round_trips),
        cmocka_unit_test(locale_does_not_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_value.c - values: paths into JSON, opening, writing, texts and numbers, equality */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/json.h"
#include "mapping/value.h"
#include "support/arenatest.h"

/* Opens all of it, level by level. */
static struct value opened(qp_str json)
{
    struct value v = value_raw(json);

    assert_int_equal(value_open(&at_arena, &v), QP_OK);
    for (size_t i = 0; i < v.count; i++) {
        struct value *inside = v.kind == VALUE_ARRAY ? v.items[i] : v.members[i].value;

        *inside = opened(inside->text);
    }
    return v;
}

#define DOCUMENT                                                                                   \
    " {\"a\" : {\"b\":[10, \"x\\\"]}\" ,{\"c\":null}], \"\":1},\n \"\\u0061b\":true,"              \
    "\"q\\\\\\\"\": \"end\\\\\", \"\\ud83d\\ude00\":-1.5e3, \"last\":[] } "

/* Proves that a path is found by going over the bytes, with escapes in keys and strings, and that what is not there is
 * undefined. */
static void test_paths(void **state)
{
    static const struct {
        const char *path[4];
        const char *found; /* NULL: undefined */
    } cases[] = {
        {{"a"}, "{\"b\":[10, \"x\\\"]}\" ,{\"c\":null}], \"\":1}"},
        {{"a", "b"}, "[10, \"x\\\"]}\" ,{\"c\":null}]"},
        {{"a", "b", "0"}, "10"},
        {{"a", "b", "1"}, "\"x\\\"]}\""},
        {{"a", "b", "2", "c"}, "null"},
        {{"a", "b", "3"}, NULL},
        {{"a", "b", "00"}, NULL},
        {{"a", "b", "-1"}, NULL},
        {{"a", "b", "x"}, NULL},
        {{"a", "b", "99999999999999999999"}, NULL},
        {{"a", ""}, "1"},
        {{"ab"}, "true"},
        {{"ab", "c"}, NULL},
        {{"q\\\""}, "\"end\\\\\""},
        {{"\xF0\x9F\x98\x80"}, "-1.5e3"},
        {{"last"}, "[]"},
        {{"last", "0"}, NULL},
        {{"missing"}, NULL},
        {{"las"}, NULL},
    };

    assert_int_equal(json_check(&at_world.env, QP_STR(DOCUMENT), NULL, NULL), QP_OK);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        qp_str path[4];
        size_t n = 0;
        struct value v;

        for (; n < 4 && cases[i].path[n] != NULL; n++) {
            path[n] = str_from(cases[i].path[n]);
        }
        v = value_at(QP_STR(DOCUMENT), path, n);
        if (cases[i].found == NULL) {
            assert_int_equal(v.kind, VALUE_UNDEFINED);
        } else {
            assert_int_equal(v.kind, VALUE_RAW);
            assert_true(str_equal(v.text, str_from(cases[i].found)));
        }
        v = opened(QP_STR(DOCUMENT));
        v = value_inside(&v, path, n, &(size_t){0});
        assert_int_equal(v.kind == VALUE_UNDEFINED, cases[i].found == NULL);
    }
    assert_int_equal(value_raw(QP_NONE).kind, VALUE_UNDEFINED);
    assert_int_equal(value_at(QP_NONE, NULL, 0).kind, VALUE_UNDEFINED);
}

/* Proves what JSON becomes when all of it is opened and written again: as JSON.stringify(JSON.parse(text)) has it, but
 * for integers, which stay exact. */
static void test_round_trip(void **state)
{
    static const struct {
        const char *json;
        const char *again;
    } cases[] = {
        {"null", "null"},
        {" true ", "true"},
        {"0", "0"},
        {"-0", "0"},
        {"-0.0", "0"},
        {"1.0", "1"},
        {"1e2", "100"},
        {"1.10", "1.1"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"9223372036854775808", "9223372036854776000"},
        {"1e21", "1e+21"},
        {"0.000001", "0.000001"},
        {"0.0000001", "1e-7"},
        {"5e-324", "5e-324"},
        {"\"a\\u00e9\\n\\/\"", "\"a\xC3\xA9\\n/\""},
        {"\"\\ud83d\\ude00\\u0001\"", "\"\xF0\x9F\x98\x80\\u0001\""},
        {"[ ]", "[]"},
        {"{ }", "{}"},
        {"[1, [2,[3 ] ],{\"a\" :{}}]", "[1,[2,[3]],{\"a\":{}}]"},
        {"{\"b\":1,\"a\":\"x\",\"\\u0062c\":[]}", "{\"b\":1,\"a\":\"x\",\"bc\":[]}"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct value v = opened(str_from(cases[i].json));
        struct value raw = value_raw(str_from(cases[i].json));

        assert_string_equal(at_written(&v), cases[i].again);
        assert_string_equal(at_written(&raw), cases[i].json); /* what is not opened is as it came */
    }
}

/* Proves that undefined, NaN and dates are written as JSON.stringify writes them. */
static void test_write_others(void **state)
{
    struct value undefined = {.kind = VALUE_UNDEFINED};
    struct value nan = value_number(NAN);
    struct value infinity = value_number(-INFINITY);
    struct value date = {.kind = VALUE_DATE, .real = 1769850487123.0};
    struct value *items[] = {&undefined, &nan, &infinity, &date};
    struct member members[] = {{QP_STR("u"), &undefined}, {QP_STR("d"), &date}};
    struct value array = {.kind = VALUE_ARRAY, .items = items, .count = 4};
    struct value object = {.kind = VALUE_OBJECT, .members = members, .count = 2};

    assert_string_equal(at_written(&array), "[null,null,null,\"2026-01-31T09:08:07.123Z\"]");
    assert_string_equal(at_written(&object), "{\"d\":\"2026-01-31T09:08:07.123Z\"}");
    assert_string_equal(at_written(&undefined), "null");
    date.real = NAN;
    assert_string_equal(at_written(&date), "null");
}

/* Proves that nothing is written that the border would refuse for its depth. */
static void test_write_depth(void **state)
{
    char json[2 * LIMIT_JSON_DEPTH + 1];
    struct value inner;
    struct value *items[] = {&inner};
    struct value array = {.kind = VALUE_ARRAY, .items = items, .count = 1};
    struct buf out;

    memset(json, '[', LIMIT_JSON_DEPTH);
    memset(json + LIMIT_JSON_DEPTH, ']', LIMIT_JSON_DEPTH);
    assert_int_equal(value_depth((qp_str){json, 2 * LIMIT_JSON_DEPTH}), LIMIT_JSON_DEPTH);
    buf_init(&out, &at_world.env, 0);
    inner = value_raw((qp_str){json, 2 * LIMIT_JSON_DEPTH});
    assert_int_equal(value_write(&out, &inner), QP_OK);
    buf_reset(&out);
    assert_int_equal(value_write(&out, &array), QP_E_TOO_LARGE);
    buf_reset(&out);
    inner = value_raw((qp_str){json + 1, 2 * LIMIT_JSON_DEPTH - 2});
    assert_int_equal(value_write(&out, &array), QP_OK);
    assert_int_equal(json_check(&at_world.env, buf_slice(&out), NULL, NULL), QP_OK);
    buf_done(&out);
    buf_init(&out, &at_world.env, 16);
    assert_int_equal(value_write(&out, &array), QP_E_TOO_LARGE);
    buf_done(&out);
}

/* Proves what is a text for a key, and what is a number. */
static void test_texts_and_numbers(void **state)
{
    static const struct {
        const char *json;
        const char *text; /* NULL: none */
        double number;    /* NaN: none */
    } cases[] = {
        {"null", NULL, (double)NAN},
        {"true", "true", (double)NAN},
        {"7", "7", 7},
        {"-1.50", "-1.5", -1.5},
        {"1e-7", "1e-7", 1e-7},
        {"9007199254740993", "9007199254740993", 9007199254740992.0},
        {"\"\"", "", (double)NAN},
        {"\" \"", " ", (double)NAN},
        {"\"12\"", "12", 12},
        {"\"\\u0031\\u0032\"", "12", 12},
        {"\" 0x10 \"", " 0x10 ", 16},
        {"\"12px\"", "12px", (double)NAN},
        {"\"Infinity\"", "Infinity", (double)NAN},
        {"[1]", NULL, (double)NAN},
        {"{}", NULL, (double)NAN},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct value raw = value_raw(str_from(cases[i].json));
        struct value v = opened(str_from(cases[i].json));
        double number = 0;
        double again = 0;
        qp_str text;

        assert_int_equal(value_as_text(&at_arena, &v, &text), cases[i].text != NULL);
        if (cases[i].text != NULL) {
            assert_true(str_equal(text, str_from(cases[i].text)));
        }
        assert_int_equal(value_as_number(&v, &number), !isnan(cases[i].number));
        assert_int_equal(value_as_number(&raw, &again), !isnan(cases[i].number));
        if (!isnan(cases[i].number)) {
            assert_true(number == cases[i].number && again == number);
        }
    }
}

/* Proves ===: by content, in whatever form, whatever the order of keys. */
static void test_same(void **state)
{
    static const struct {
        const char *a;
        const char *b;
        bool same;
    } cases[] = {
        {"1", "1.0", true},
        {"1", "1.5", false},
        {"1", "\"1\"", false},
        {"9007199254740993", "9007199254740992", false},
        {"9223372036854775807", "9223372036854775808", false},
        {"0", "-0", true},
        {"null", "false", false},
        {"null", "null", true},
        {"true", "true", true},
        {"true", "false", false},
        {"\"a\"", "\"\\u0061\"", true},
        {"[]", "[]", true},
        {"[]", "{}", false},
        {"[1,[2]]", "[1, [ 2.0 ]]", true},
        {"[1,2]", "[2,1]", false},
        {"[1]", "[1,1]", false},
        {"{\"a\":1,\"b\":{\"c\":[]}}", "{\"b\":{\"c\":[]},\"a\":1}", true},
        {"{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":2}", false},
        {"{\"a\":1}", "{\"a\":1,\"b\":2}", false},
        {"{\"a\":[{\"x\":1}]}", "{\"a\":[{\"x\":2}]}", false},
    };
    struct value nan = value_number(NAN);
    bool same = true;

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct value a = value_raw(str_from(cases[i].a));
        struct value b = opened(str_from(cases[i].b));

        assert_int_equal(value_same(&at_arena, &a, &b, &same), QP_OK);
        assert_int_equal(same, cases[i].same);
        assert_int_equal(value_same(&at_arena, &b, &a, &same), QP_OK);
        assert_int_equal(same, cases[i].same);
    }
    assert_int_equal(value_same(&at_arena, &nan, &nan, &same), QP_OK);
    assert_false(same);
}

/* Proves that an array of too many items is refused before memory is taken for it. */
static void test_open_limit(void **state)
{
    size_t count = LIMIT_MAPPING_SIZE / sizeof(struct value);
    char *json = arena_bytes(&at_arena, 2 * count + 1);
    size_t total = at_arena.total;
    struct value v;

    assert_non_null(json);
    total = at_arena.total;
    for (size_t i = 0; i < count; i++) {
        json[2 * i] = i == 0 ? '[' : ',';
        json[2 * i + 1] = '1';
    }
    json[2 * count] = ']';
    v = value_raw((qp_str){json, 2 * count + 1});
    assert_int_equal(value_open(&at_arena, &v), QP_E_LIMIT);
    assert_int_equal(v.kind, VALUE_RAW);
    assert_int_equal(at_arena.total, total);
}

/* Proves that the n-th failing allocation is told, whichever it is. */
static void test_no_memory(void **state)
{
    for (int64_t n = 1;; n++) {
        struct arena small;
        struct value a = value_raw(QP_STR("{\"a\":[1,\"\\n\"],\"b\":{}}"));
        struct value b = a;
        bool same = false;
        int rc;

        testenv_fail_at(&at_world, n);
        arena_init(&small, &at_world.env, 0);
        rc = value_same(&small, &a, &b, &same);
        arena_done(&small);
        if (!testenv_failed(&at_world)) {
            assert_int_equal(rc, QP_OK);
            assert_true(same);
            break;
        }
        assert_int_equal(rc, QP_E_NOMEM);
    }
    testenv_fail_at(&at_world, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_paths, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_round_trip, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_write_others, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_write_depth, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_texts_and_numbers, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_same, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_open_limit, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, at_setup, at_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

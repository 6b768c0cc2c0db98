/* test_json.c - the tree: what goes in comes out, exactly */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "support/testenv.h"

static struct testenv t;

static struct json *parse(const char *text)
{
    struct json *json = NULL;
    struct qp_err err = {0};

    if (json_parse(&t.env, str_from(text), &err, &json) != QP_OK) {
        fail_msg("<%s>: %s", text, err.text);
    }
    assert_non_null(json);
    return json;
}

/* Every kind is told apart, and only its own reader takes it. */
static void kinds_and_readers(void **state)
{
    static const struct {
        const char *text;
        enum json_kind kind;
        const char *readers; /* which of b i r g s take it */
    } cases[] = {
        {"null", JSON_KIND_NULL, ""},
        {"true", JSON_KIND_BOOL, "b"},
        {"0", JSON_KIND_INT, "ir"},
        {"9007199254740992", JSON_KIND_INT, "ir"},
        {"9007199254740993", JSON_KIND_INT, "i"},
        {"-9007199254740993", JSON_KIND_INT, "i"},
        {"9223372036854775808", JSON_KIND_BIG, "g"},
        {"-0", JSON_KIND_REAL, "r"},
        {"1.0", JSON_KIND_REAL, "r"},
        {"1e2", JSON_KIND_REAL, "r"},
        {"\"\"", JSON_KIND_STR, "s"},
        {"\"a\"", JSON_KIND_STR, "s"},
        {"[]", JSON_KIND_ARRAY, ""},
        {"{}", JSON_KIND_OBJECT, ""},
    };

    (void)state;
    testenv_init(&t, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct json *json = parse(cases[i].text);
        char readers[6] = {0};
        size_t n = 0;
        bool truth;
        int64_t integer;
        double real;
        qp_str text;

        assert_int_equal(json_kind(json), cases[i].kind);
        assert_true(json_is(json, cases[i].kind));
        if (json_as_bool(json, &truth)) {
            readers[n++] = 'b';
        }
        if (json_as_i64(json, &integer)) {
            readers[n++] = 'i';
        }
        if (json_as_real(json, &real)) {
            readers[n++] = 'r';
        }
        if (json_as_big(json, &text)) {
            readers[n++] = 'g';
        }
        if (json_as_str(json, &text)) {
            readers[n++] = 's';
        }
        assert_string_equal(readers, cases[i].readers);
        json_free(json);
    }
    assert_false(json_is(NULL, JSON_KIND_NULL));
    json_free(NULL);
    testenv_done(&t);
}

/* Integers of 64 bits are exact to the last; beyond that the digits are kept. */
static void integers_are_exact(void **state)
{
    static const int64_t numbers[] = {
        0,
        1,
        -1,
        INT32_MAX,
        INT32_MIN,
        ((int64_t)1 << 53) + 1,
        INT64_MAX,
        INT64_MAX - 1,
        INT64_MIN,
        INT64_MIN + 1,
        999999999999999999,
        1000000000000000000,
        -999999999999999999,
    };
    static const char *const bigs[] = {
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "100000000000000000000000000000000000000000000000000000000000000",
    };

    (void)state;
    testenv_init(&t, 1);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        char text[32];
        int64_t number = 0;
        struct json *json;

        (void)snprintf(text, sizeof(text), " [%lld ] ", (long long)numbers[i]);
        json = parse(text);
        assert_true(json_as_i64(json_at(json, 0), &number));
        assert_true(number == numbers[i]);
        json_free(json);
    }
    for (size_t i = 0; i < ARRAY_COUNT(bigs); i++) {
        char text[256];
        qp_str digits = QP_NONE;
        struct json *json;

        (void)snprintf(text, sizeof(text), "{\"%s\":[\"%s\",%s,-0,7]}", bigs[i], bigs[i], bigs[i]);
        json = parse(text);
        assert_true(json_as_big(json_at(json_get(json, str_from(bigs[i])), 1), &digits));
        assert_true(str_equal(digits, str_from(bigs[i])));
        assert_true(json_as_str(json_at(json_get(json, str_from(bigs[i])), 0), &digits));
        assert_true(str_equal(digits, str_from(bigs[i])));
        json_free(json);
    }
    testenv_done(&t);
}

/* -0 keeps its sign. */
static void minus_zero_keeps_its_sign(void **state)
{
    static const char *const texts[] = {"-0", "-0.0", "-0e5"};

    (void)state;
    testenv_init(&t, 1);
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct json *json = parse(texts[i]);
        double real = 1;

        assert_true(json_as_real(json, &real));
        assert_true(real == 0 && signbit(real));
        json_free(json);
    }
    testenv_done(&t);
}

/* Random bit patterns, printed with 17 digits, come back bit for bit. */
static void doubles_come_back_exactly(void **state)
{
    uint64_t random = testenv_seed();

    (void)state;
    testenv_init(&t, 1);
    for (int i = 0; i < 50000; i++) {
        uint64_t bits = testenv_random(&random);
        uint64_t back;
        char text[64];
        struct json *json;
        double real;

        memcpy(&real, &bits, sizeof(real));
        if (!isfinite(real)) {
            continue;
        }
        (void)snprintf(text, sizeof(text), "%.17e", real);
        json = parse(text);
        assert_true(json_as_real(json, &real));
        memcpy(&back, &real, sizeof(back));
        assert_true(back == bits);
        json_free(json);
    }
    testenv_done(&t);
}

/* Objects keep the order of their keys; looking up is by whole key; strings are unescaped. */
static void objects_and_arrays(void **state)
{
    struct json_walk walk = {0};
    struct json *json;
    qp_str text = QP_NONE;
    char keys[16] = {0};
    size_t n = 0;

    (void)state;
    testenv_init(&t, 1);
    json = parse("{\"z\":1,\"a\":[10,20,30],\"m\":{},\"\":\"\\u20AC\\n\",\"\\u0071\":null}");
    while (json_each(json, &walk)) {
        keys[n++] = walk.key.n > 0 ? walk.key.p[0] : '-';
        assert_ptr_equal(walk.value, json_get(json, walk.key));
    }
    assert_string_equal(keys, "zam-q");
    assert_int_equal(json_count(json), 5);
    assert_int_equal(json_count(json_get(json, QP_STR("a"))), 3);
    assert_int_equal(json_count(json_get(json, QP_STR("z"))), 0);
    assert_null(json_at(json_get(json, QP_STR("a")), 3));
    assert_null(json_get(json, QP_STR("zz")));
    assert_null(json_get(json, QP_NONE));
    assert_null(json_get(json_get(json, QP_STR("no")), QP_STR("no")));
    assert_null(json_at(json, 0));
    assert_true(json_as_str(json_get(json, QP_STR("")), &text));
    assert_true(str_equal(text, QP_STR("\xE2\x82\xAC\n")));
    memset(&walk, 0, sizeof(walk));
    assert_false(json_each(json_get(json, QP_STR("m")), &walk));
    assert_false(json_each(json_get(json, QP_STR("a")), &walk));
    json_free(json);
    testenv_done(&t);
}

/* A bad text is refused with the checker's words, and the output is untouched. */
static void bad_text_is_refused(void **state)
{
    struct json *json = (struct json *)&t;
    struct qp_err err = {0};

    (void)state;
    testenv_init(&t, 1);
    assert_int_equal(json_parse(&t.env, QP_STR("[1,"), &err, &json), QP_E_MALFORMED);
    assert_non_null(strstr(err.text, "at byte 3, line 1:4"));
    assert_ptr_equal(json, &t);
    testenv_done(&t);
}

/* jansson's allocator, for the next test only: the library itself never sets it. */
static int64_t jansson_left;

static void *failing_malloc(size_t size)
{
    return jansson_left-- > 0 ? malloc(size) : NULL;
}

static const char fault_text[] =
    "{\"a\":[1,2.5,\"x\",true,null,{\"b\":\"\\u0041\",\"\\u0062c\":\"y\"}],"
    "\"big\":12345678901234567890123}";

/* Whichever allocation fails, ours or jansson's, the answer is NOMEM, and nothing leaks. */
static void every_allocation_may_fail(void **state)
{
    int rc = QP_E_NOMEM;

    (void)state;
    testenv_init(&t, 1);
    for (int64_t n = 1;; n++) {
        struct json *json = NULL;

        testenv_fail_at(&t, n);
        rc = json_parse(&t.env, str_from(fault_text), NULL, &json);
        json_free(json);
        assert_int_equal(rc, testenv_failed(&t) ? QP_E_NOMEM : QP_OK);
        if (rc == QP_OK) {
            break;
        }
    }
    testenv_fail_at(&t, 0);
    json_free(parse("{}")); /* jansson seeds its hash with the first object: not in the loop */
    json_set_alloc_funcs(failing_malloc, free);
    rc = QP_E_NOMEM;
    for (int64_t n = 0; rc != QP_OK; n++) {
        struct json *json = NULL;

        jansson_left = n;
        rc = json_parse(&t.env, str_from(fault_text), NULL, &json);
        json_free(json);
        assert_true(rc == QP_OK || rc == QP_E_NOMEM);
        assert_true(n < 1000);
    }
    json_set_alloc_funcs(malloc, free);
    testenv_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_and_readers),         cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(minus_zero_keeps_its_sign), cmocka_unit_test(doubles_come_back_exactly),
        cmocka_unit_test(objects_and_arrays),        cmocka_unit_test(bad_text_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

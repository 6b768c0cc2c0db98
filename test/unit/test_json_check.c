/* test_json_check.c - what is JSON and what is not, and where it stops being so */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "support/testenv.h"

/* A text that may hold NUL, and its size. */
#define T(literal) literal, sizeof(literal) - 1

struct bad_case {
    const char *text;
    size_t size;
    int code;
    size_t at; /* byte */
};

static struct testenv t;

/* Every way of not being JSON that we could think of: code and place. */
static const struct bad_case bad_cases[] = {
    /* nothing, or too little */
    {T(""), QP_E_MALFORMED, 0},
    {T("   "), QP_E_MALFORMED, 3},
    {T("\n\t\r "), QP_E_MALFORMED, 4},
    {T("["), QP_E_MALFORMED, 1},
    {T("{"), QP_E_MALFORMED, 1},
    {T("[1"), QP_E_MALFORMED, 2},
    {T("[1,"), QP_E_MALFORMED, 3},
    {T("[1, "), QP_E_MALFORMED, 4},
    {T("{\"a\""), QP_E_MALFORMED, 4},
    {T("{\"a\":"), QP_E_MALFORMED, 5},
    {T("{\"a\":1"), QP_E_MALFORMED, 6},
    {T("{\"a\":1,"), QP_E_MALFORMED, 7},
    {T("[[[]]"), QP_E_MALFORMED, 5},
    {T("\""), QP_E_MALFORMED, 1},
    {T("\"abc"), QP_E_MALFORMED, 4},
    {T("\"abc\\"), QP_E_MALFORMED, 4},
    {T("\"abc\\\""), QP_E_MALFORMED, 6},
    {T("-"), QP_E_MALFORMED, 1},
    {T("t"), QP_E_MALFORMED, 0},
    {T("tru"), QP_E_MALFORMED, 0},
    {T("fals"), QP_E_MALFORMED, 0},
    {T("nul"), QP_E_MALFORMED, 0},
    /* too much */
    {T("1 2"), QP_E_MALFORMED, 2},
    {T("{}x"), QP_E_MALFORMED, 2},
    {T("[]]"), QP_E_MALFORMED, 2},
    {T("{}{}"), QP_E_MALFORMED, 2},
    {T("null,"), QP_E_MALFORMED, 4},
    {T("nullx"), QP_E_MALFORMED, 4},
    {T("truefalse"), QP_E_MALFORMED, 4},
    {T("1\0"), QP_E_MALFORMED, 1},
    {T("\"a\"\"b\""), QP_E_MALFORMED, 3},
    {T("[] // comment"), QP_E_MALFORMED, 3},
    {T("/* c */ []"), QP_E_MALFORMED, 0},
    {T("# c\n[]"), QP_E_MALFORMED, 0},
    /* wrong order */
    {T("[,]"), QP_E_MALFORMED, 1},
    {T("[1,]"), QP_E_MALFORMED, 3},
    {T("[1,,2]"), QP_E_MALFORMED, 3},
    {T("[1 2]"), QP_E_MALFORMED, 3},
    {T("[1:2]"), QP_E_MALFORMED, 2},
    {T("]"), QP_E_MALFORMED, 0},
    {T("}"), QP_E_MALFORMED, 0},
    {T(","), QP_E_MALFORMED, 0},
    {T(":"), QP_E_MALFORMED, 0},
    {T("[}"), QP_E_MALFORMED, 1},
    {T("{]"), QP_E_MALFORMED, 1},
    {T("[1}"), QP_E_MALFORMED, 2},
    {T("{\"a\":1]"), QP_E_MALFORMED, 6},
    {T("{,}"), QP_E_MALFORMED, 1},
    {T("{\"a\":1,}"), QP_E_MALFORMED, 7},
    {T("{\"a\":1,,}"), QP_E_MALFORMED, 7},
    {T("{\"a\" 1}"), QP_E_MALFORMED, 5},
    {T("{\"a\",1}"), QP_E_MALFORMED, 4},
    {T("{\"a\"::1}"), QP_E_MALFORMED, 5},
    {T("{\"a\":}"), QP_E_MALFORMED, 5},
    {T("{\"a\":1 \"b\":2}"), QP_E_MALFORMED, 7},
    {T("{a:1}"), QP_E_MALFORMED, 1},
    {T("{'a':1}"), QP_E_MALFORMED, 1},
    {T("{1:1}"), QP_E_MALFORMED, 1},
    {T("{null:1}"), QP_E_MALFORMED, 1},
    /* words */
    {T("True"), QP_E_MALFORMED, 0},
    {T("NULL"), QP_E_MALFORMED, 0},
    {T("undefined"), QP_E_MALFORMED, 0},
    {T("NaN"), QP_E_MALFORMED, 0},
    {T("[Infinity]"), QP_E_MALFORMED, 1},
    {T("-Infinity"), QP_E_MALFORMED, 1},
    {T("'a'"), QP_E_MALFORMED, 0},
    /* numbers */
    {T("01"), QP_E_MALFORMED, 1},
    {T("-01"), QP_E_MALFORMED, 2},
    {T("00"), QP_E_MALFORMED, 1},
    {T("+1"), QP_E_MALFORMED, 0},
    {T(".5"), QP_E_MALFORMED, 0},
    {T("-.5"), QP_E_MALFORMED, 1},
    {T("1."), QP_E_MALFORMED, 2},
    {T("1.e1"), QP_E_MALFORMED, 2},
    {T("1e"), QP_E_MALFORMED, 2},
    {T("1e+"), QP_E_MALFORMED, 3},
    {T("1E-"), QP_E_MALFORMED, 3},
    {T("1e1.5"), QP_E_MALFORMED, 3},
    {T("0x10"), QP_E_MALFORMED, 1},
    {T("1_000"), QP_E_MALFORMED, 1},
    {T("--1"), QP_E_MALFORMED, 1},
    {T("1e999"), QP_E_MALFORMED, 0},
    {T("[1, -1e999]"), QP_E_MALFORMED, 4},
    {T("1.7976931348623159e308"), QP_E_MALFORMED, 0},
    {T("1e99999999999999999999999"), QP_E_MALFORMED, 0},
    {T("10000000000000000000000000000000000000000000000000000000000000000"), QP_E_TOO_LARGE, 0},
    {T("[0.00000000000000000000000000000000000000000000000000000000000000001]"), QP_E_TOO_LARGE, 1},
    /* strings */
    {T("\"a\nb\""), QP_E_MALFORMED, 2},
    {T("\"a\tb\""), QP_E_MALFORMED, 2},
    {T("\"\0\""), QP_E_MALFORMED, 1},
    {T("\"\x1F\""), QP_E_MALFORMED, 1},
    {T("\"\\x41\""), QP_E_MALFORMED, 1},
    {T("\"\\a\""), QP_E_MALFORMED, 1},
    {T("\"\\\0\""), QP_E_MALFORMED, 1},
    {T("\"\\'\""), QP_E_MALFORMED, 1},
    {T("\"\\u\""), QP_E_MALFORMED, 1},
    {T("\"\\u12\""), QP_E_MALFORMED, 1},
    {T("\"\\u12G4\""), QP_E_MALFORMED, 1},
    {T("\"\\U0041\""), QP_E_MALFORMED, 1},
    {T("\"\\u123"), QP_E_MALFORMED, 1},
    {T("\"ab\\u0000\""), QP_E_SHAPE, 3},
    {T("{\"\\u0000\":1}"), QP_E_SHAPE, 2},
    {T("\"\\uD800\""), QP_E_MALFORMED, 1},
    {T("\"\\uDC00\""), QP_E_MALFORMED, 1},
    {T("\"\\uD800\\uD800\""), QP_E_MALFORMED, 1},
    {T("\"\\uD800\\u0041\""), QP_E_MALFORMED, 1},
    {T("\"\\uD800x\\uDC00\""), QP_E_MALFORMED, 1},
    {T("\"\\uDC00\\uD800\""), QP_E_MALFORMED, 1},
    {T("\"\\uD83D\\uDE0\""), QP_E_MALFORMED, 1},
    {T("\"\\uD83D\\"), QP_E_MALFORMED, 1},
    /* bytes */
    {T("\xEF\xBB\xBF{}"), QP_E_MALFORMED, 0},
    {T("\"\xFF\""), QP_E_MALFORMED, 1},
    {T("\"\xC0\x80\""), QP_E_MALFORMED, 1},
    {T("\"ab\xC3\""), QP_E_MALFORMED, 3},
    {T("\"\xED\xA0\x80\""), QP_E_MALFORMED, 1},
    {T("\"\xF4\x90\x80\x80\""), QP_E_MALFORMED, 1},
    {T("\"\xE2\x82\""), QP_E_MALFORMED, 1},
    {T("[\xC2\xA0]"), QP_E_MALFORMED, 1},
    {T("\f[]"), QP_E_MALFORMED, 0},
    {T("\x1B[31m"), QP_E_MALFORMED, 0},
    /* keys */
    {T("{\"a\":1,\"a\":2}"), QP_E_MALFORMED, 7},
    {T("{\"\":1,\"\":2}"), QP_E_MALFORMED, 6},
    {T("{\"a\":1,\"\\u0061\":2}"), QP_E_MALFORMED, 7},
    {T("{\"\\n\":1,\"\\u000A\":2}"), QP_E_MALFORMED, 8},
    {T("{\"/\":1,\"\\/\":2}"), QP_E_MALFORMED, 7},
    {T("{\"\xF0\x9F\xA7\xB6\":1,\"\\uD83E\\uDDF6\":2}"), QP_E_MALFORMED, 10},
    {T("[{\"b\":{\"a\":1},\"c\":{\"x\":1,\"y\":2,\"x\":3}}]"), QP_E_MALFORMED, 31},
    {T("{\"b\":1,\"a\":{\"b\":{}},\"a\":3,\"b\":4}"), QP_E_MALFORMED, 20},
    {T("{\"k\":1,\"k\":1,\"k\":1}"), QP_E_MALFORMED, 7},
};

/* The place as the sentence gives it. */
static size_t place_of(const struct qp_err *err)
{
    const char *at = strstr(err->text, " at byte ");

    assert_non_null(at);
    return (size_t)strtoull(at + 9, NULL, 10);
}

static void bad_texts_are_refused(void **state)
{
    (void)state;
    assert_true(ARRAY_COUNT(bad_cases) >= 80);
    testenv_init(&t, 1);
    for (size_t i = 0; i < ARRAY_COUNT(bad_cases); i++) {
        const struct bad_case *bad = &bad_cases[i];
        struct qp_err err = {0};
        int rc = json_check(&t.env, (qp_str){bad->text, bad->size}, NULL, &err);

        if (rc != bad->code || place_of(&err) != bad->at) {
            fail_msg("case %zu <%s>: %d, %s", i, bad->text, rc, err.text);
        }
        assert_int_equal(err.code, rc);
        assert_int_equal(json_check(&t.env, (qp_str){bad->text, bad->size}, NULL, NULL), rc);
    }
    testenv_done(&t);
}

/* What the RFC allows and people forget. */
static void good_texts_are_taken(void **state)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "-0.0",
        "0e0",
        "1E+2",
        "1e-999",
        "1.7976931348623157e308",
        "4.9e-324",
        "12345678901234567890123456789012345678901234567890123456789012",
        "0e99999999999999",
        "true",
        "false",
        "null",
        "\"\"",
        "[]",
        "{}",
        " \t\r\n[ ] ",
        "[[],{},[[]]]",
        "{\"a\":1,\"A\":2,\"a \":3,\"\":4}",
        "[{\"a\":1},{\"a\":1}]",
        "{\"a\":{\"a\":{\"a\":1}}}",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\uD83D\\uDE00\"",
        "\"\x7F\xC2\x80\xEF\xBF\xBF\"",
        "\"\xF4\x8F\xBF\xBF\"",
        "\"\xEF\xBB\xBF\"",
        "{\"\\u0061\":1,\"\\u0062\":2}",
        "0.10000000000000000555111512312578270211815834045410156250",
        "-1e-1",
    };

    (void)state;
    testenv_init(&t, 1);
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct qp_err err = {0};

        if (json_check(&t.env, str_from(texts[i]), NULL, &err) != QP_OK) {
            fail_msg("<%s>: %s", texts[i], err.text);
        }
    }
    testenv_done(&t);
}

/* The sentences: what, byte, line and column in characters; foreign bytes are escaped. */
static void sentences_say_where(void **state)
{
    static const struct {
        const char *text;
        const char *sentence;
    } cases[] = {
        {"{\n  \"a\": 1,\n  \"\xC3\xA9\": x\n}",
         "json: expected a value, found 'x' at byte 20, line 3:8"},
        {"[1,\n2", "json: expected ',' or ']', found the end of the text at byte 5, line 2:2"},
        {"[\x1B]0;evil]", "json: expected a value, found '\\x1b' at byte 1, line 1:2"},
        {"{\"a\\u001b\":1,\"a\\u001B\":2}",
         "json: key \"a\\x1b\" twice in one object at byte 13, line 1:14"},
        {"[\"\\uD800\"]", "json: half of a surrogate pair (\\uD800) at byte 2, line 1:3"},
        {"\"abc", "json: string from offset 0 on has no end at byte 4, line 1:5"},
        {"nothing", "json: expected a value, found 'nothing' at byte 0, line 1:1"},
        {"1e400", "json: number too large for a double at byte 0, line 1:1"},
    };

    (void)state;
    testenv_init(&t, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct qp_err err = {0};

        assert_int_not_equal(json_check(&t.env, str_from(cases[i].text), NULL, &err), QP_OK);
        assert_string_equal(err.text, cases[i].sentence);
    }
    testenv_done(&t);
}

static char *append(char *at, const char *text)
{
    memcpy(at, text, strlen(text));
    return at + strlen(text);
}

/* However long the input is, the sentence echoes a bounded piece and keeps its place. */
static void echo_is_bounded(void **state)
{
    static char text[20000];
    struct qp_err err = {0};
    char *at = text;

    (void)state;
    testenv_init(&t, 1);
    for (int i = 0; i < 2; i++) {
        at = append(at, i == 0 ? "{\"" : "\":1,\"");
        memset(at, 'k', 5000);
        at += 5000;
    }
    at = append(at, "\":1}");
    assert_int_equal(json_check(&t.env, (qp_str){text, (size_t)(at - text)}, NULL, &err),
                     QP_E_MALFORMED);
    assert_int_equal(place_of(&err), 5006);
    assert_true(strlen(err.text) < LIMIT_LOG_ECHO_SIZE + 80);
    assert_non_null(strstr(err.text, "kkk...\" twice"));
    memset(text, 'x', sizeof(text));
    assert_int_equal(json_check(&t.env, (qp_str){text, sizeof(text)}, NULL, &err), QP_E_MALFORMED);
    assert_true(strlen(err.text) < LIMIT_LOG_ECHO_SIZE);
    testenv_done(&t);
}

/* Each limit is exact, is named in the sentence, and can be set. */
static void limits_are_exact(void **state)
{
    static const struct {
        const char *good;
        const char *bad;
        struct json_limits limits;
        size_t at;
        const char *sentence;
    } cases[] = {
        {"[1, 2]", "[1, 22]", {.size = 6}, 0, "text of 7 bytes, the limit is 6"},
        {"[{}]", "[{\"a\":[]}]", {.depth = 2}, 6, "nested deeper than the limit of 2"},
        {"{\"a\":{\"c\":1,\"d\":2},\"b\":3}",
         "{\"a\":1,\"b\":2,\"c\":3}",
         {.keys = 2},
         13,
         "object of more keys than the limit of 2"},
        {"[\"\\u20AC\"]",
         "[\"\xE2\x82\xACx\"]",
         {.string_size = 3},
         1,
         "string of 4 bytes, the limit is 3"},
        {"[\"\\t\\t\\t\"]",
         "[\"\\uD83D\\uDE00\"]",
         {.string_size = 3},
         1,
         "string of 4 bytes, the limit is 3"},
        {"[-1.5]", "[-1.55]", {.number_size = 4}, 1, "number of 5 characters, the limit is 4"},
    };

    (void)state;
    testenv_init(&t, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct qp_err err = {0};

        assert_int_equal(json_check(&t.env, str_from(cases[i].good), &cases[i].limits, &err),
                         QP_OK);
        assert_int_equal(json_check(&t.env, str_from(cases[i].bad), &cases[i].limits, &err),
                         QP_E_TOO_LARGE);
        assert_int_equal(place_of(&err), cases[i].at);
        assert_non_null(strstr(err.text, cases[i].sentence));
        assert_int_equal(json_check(&t.env, str_from(cases[i].bad), NULL, &err), QP_OK);
    }
    testenv_done(&t);
}

/* The default depth is exact, and asking for more does not raise it. */
static void depth_is_bounded(void **state)
{
    static char text[200000];
    struct json_limits more = {.depth = 1000000, .number_size = 1000000};
    struct qp_err err = {0};

    (void)state;
    testenv_init(&t, 1);
    memset(text, '[', LIMIT_JSON_DEPTH);
    memset(text + LIMIT_JSON_DEPTH, ']', LIMIT_JSON_DEPTH);
    assert_int_equal(json_check(&t.env, (qp_str){text, 2 * LIMIT_JSON_DEPTH}, &more, &err), QP_OK);
    memset(text, '[', sizeof(text));
    assert_int_equal(json_check(&t.env, (qp_str){text, sizeof(text)}, &more, &err), QP_E_TOO_LARGE);
    assert_int_equal(place_of(&err), LIMIT_JSON_DEPTH);
    testenv_done(&t);
}

/* An object of LIMIT_JSON_KEYS keys, the last of which repeats the first or does not. */
static size_t many_keys(char *text, size_t size, size_t count, bool twice)
{
    size_t n = (size_t)snprintf(text, size, "{");

    for (size_t i = 0; i < count; i++) {
        size_t name = twice && i == count - 1 ? 0 : i;

        n += (size_t)snprintf(text + n, size - n, "%s\"key-%zu\":%zu", i > 0 ? "," : "", name, i);
    }
    return n + (size_t)snprintf(text + n, size - n, "}");
}

/* Ten thousand keys are one too few for the limit, a repeated one is found, and none is missed. */
static void many_keys_are_compared(void **state)
{
    static char text[400000];
    struct qp_err err = {0};
    size_t n;

    (void)state;
    testenv_init(&t, 1);
    n = many_keys(text, sizeof(text), LIMIT_JSON_KEYS, false);
    assert_int_equal(json_check(&t.env, (qp_str){text, n}, NULL, &err), QP_OK);
    n = many_keys(text, sizeof(text), LIMIT_JSON_KEYS, true);
    assert_int_equal(json_check(&t.env, (qp_str){text, n}, NULL, &err), QP_E_MALFORMED);
    assert_non_null(strstr(err.text, "\"key-0\" twice"));
    n = many_keys(text, sizeof(text), LIMIT_JSON_KEYS + 1, false);
    assert_int_equal(json_check(&t.env, (qp_str){text, n}, NULL, &err), QP_E_TOO_LARGE);
    testenv_done(&t);
}

/* Random objects with few names: a repetition is reported if and only if there is one, at the
 * first. */
static void random_keys_match_a_search(void **state)
{
    enum { KEYS = 12 };
    uint64_t random = testenv_seed();

    (void)state;
    testenv_init(&t, 1);
    for (int round = 0; round < 20000; round++) {
        char text[KEYS * 16 + 3];
        uint64_t names[KEYS];
        size_t count = (size_t)testenv_random_below(&random, KEYS);
        size_t first = 0;
        size_t n = 1;
        struct qp_err err = {0};
        int rc;

        text[0] = '{';
        for (size_t i = 0; i < count; i++) {
            bool escaped = testenv_random_below(&random, 2) == 0;

            names[i] = testenv_random_below(&random, 26);
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", i > 0 ? "," : "");
            for (size_t k = 0; k < i && first == 0; k++) {
                first = names[k] == names[i] ? n : 0;
            }
            n += (size_t)snprintf(text + n, sizeof(text) - n,
                                  escaped ? "\"\\u00%02X\":0" : "\"%c\":0",
                                  (unsigned)names[i] + 'A');
        }
        text[n++] = '}';
        rc = json_check(&t.env, (qp_str){text, n}, NULL, &err);
        assert_int_equal(rc, first > 0 ? QP_E_MALFORMED : QP_OK);
        assert_true(first == 0 || place_of(&err) == first);
    }
    testenv_done(&t);
}

/* The check does not depend on the locale's decimal point. */
static void locale_does_not_matter(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL) {
        (void)setlocale(LC_NUMERIC,
                        "C.UTF-8"); /* not installed: the test still runs, in one locale */
    }
    assert_int_equal(json_check(&t.env, QP_STR("[1.5,1.7976931348623157e308]"), NULL, NULL), QP_OK);
    assert_int_equal(json_check(&t.env, QP_STR("17.976931348623159e307"), NULL, NULL),
                     QP_E_MALFORMED);
    assert_int_equal(json_check(&t.env, QP_STR("1,5"), NULL, NULL), QP_E_MALFORMED);
    (void)setlocale(LC_NUMERIC, "C");
    testenv_done(&t);
}

/* Whichever allocation fails, the answer is NOMEM, and nothing leaks. */
static void every_allocation_may_fail(void **state)
{
    static char text[20000];
    size_t n;

    (void)state;
    testenv_init(&t, 1);
    n = many_keys(text, sizeof(text), 200, false);
    memcpy(text + n - 1, ",\"\\u0041\":1}", 13);
    n += 11;
    for (int64_t k = 1;; k++) {
        struct qp_err err = {0};
        int rc;

        testenv_fail_at(&t, k);
        rc = json_check(&t.env, (qp_str){text, n}, NULL, &err);
        assert_int_equal(t.live_blocks, 0);
        if (!testenv_failed(&t)) {
            assert_int_equal(rc, QP_OK);
            break;
        }
        assert_int_equal(rc, QP_E_NOMEM);
        assert_int_equal(err.code, QP_E_NOMEM);
    }
    testenv_done(&t);
}

/* A frame of one level: what its values are is left to a check of their own, as long as they can be taken apart. */
static void test_frame(void **state)
{
    static const struct {
        const char *text;
        int rc;
    } cases[] = {
        {"{\"a\":{\"b\":1,\"b\":2}}", QP_OK}, {"{\"a\":1,\"a\":2}", QP_E_MALFORMED},
        {"{\"a\":\"\\u0000\"}", QP_OK},       {"{\"\\u0000\":1}", QP_E_SHAPE},
        {"{\"a\":[\"\\ud800\"]}", QP_OK},     {"{\"a\":1e999}", QP_OK},
        {"{\"a\":[1,]}", QP_E_MALFORMED},     {"{\"a\":[\"\\x\"]}", QP_E_MALFORMED},
        {"{\"a\":\"\x01\"}", QP_E_MALFORMED}, {"{\"a\":{}", QP_E_MALFORMED},
    };
    const struct json_limits framed = {.frame = 1};
    char deep[2 * LIMIT_JSON_FRAMED_DEPTH + 3];
    (void)state;
    testenv_init(&t, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int rc = json_check(&t.env, str_from(cases[i].text), &framed, NULL);
        if (rc != cases[i].rc) {
            fail_msg("%s: %s", cases[i].text, qp_code_word(rc));
        }
    }
    for (size_t n = LIMIT_JSON_FRAMED_DEPTH; n <= LIMIT_JSON_FRAMED_DEPTH + 1; n++) {
        memset(deep, '[', n);
        memset(deep + n, ']', n);
        assert_int_equal(json_check(&t.env, (qp_str){deep, 2 * n}, &framed, NULL),
                         n == LIMIT_JSON_FRAMED_DEPTH ? QP_OK : QP_E_TOO_LARGE);
    }
    testenv_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame),
        cmocka_unit_test(bad_texts_are_refused),
        cmocka_unit_test(good_texts_are_taken),
        cmocka_unit_test(sentences_say_where),
        cmocka_unit_test(echo_is_bounded),
        cmocka_unit_test(limits_are_exact),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(many_keys_are_compared),
        cmocka_unit_test(random_keys_match_a_search),
        cmocka_unit_test(locale_does_not_matter),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

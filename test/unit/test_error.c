/* test_error.c - errors have one shape, whatever they were made of, and one limit */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/json.h"
#include "store/error.h"
#include "support/testenv.h"

static struct testenv t;
static struct arena arena;

static int begin(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    arena_init(&arena, &t.env, 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_done(&arena);
    testenv_done(&t);
    return 0;
}

static void assert_text(qp_str text, const char *expected)
{
    char copy[LIMIT_ERROR_TEXT_SIZE + 1];
    (void)snprintf(copy, sizeof copy, "%.*s", STR_ARG(text));
    assert_string_equal(copy, expected);
}

/* Proves what becomes of each kind of text, and that a second time changes nothing. */
static void test_shape(void **state)
{
    static const struct {
        const char *text;
        const char *json;
    } cases[] = {
        {"no", "{\"code\":500,\"message\":\"no\",\"activity\":\"a\",\"address\":\"a,0,0\"}"},
        {"{\"code\":200}",
         "{\"code\":500,\"message\":\"{\\\"code\\\":200}\",\"activity\":\"a\",\"address\":\"a,0,0\"}"},
        {"{\"code\":\"address\":", "{\"code\":500,\"message\":\"{\\\"code\\\":\\\"address\\\":\","
                                   "\"activity\":\"a\",\"address\":\"a,0,0\"}"},
        {"{\"code\":410}",
         "{\"code\":410,\"message\":\"{\\\"code\\\":410}\",\"activity\":\"a\",\"address\":\"a,0,0\"}"},
        {"{\"message\":\"gone\",\"code\":410}",
         "{\"code\":410,\"message\":\"gone\",\"activity\":\"a\",\"address\":\"a,0,0\"}"},
        {"{\"code\":7,\"message\":\"odd\",\"more\":1}",
         "{\"code\":500,\"message\":\"odd\",\"activity\":\"a\",\"address\":\"a,0,0\"}"},
        {"{\"code\":404,\"message\":\"x\",\"activity\":\"b\",\"address\":\"b,0,1\",\"job\":\"c d\"}",
         "{\"code\":404,\"message\":\"x\",\"activity\":\"b\",\"address\":\"b,0,1\",\"job\":\"c d\"}"},
        {"{\"message\":\"x\",\"activity\":\"\\u0001\",\"address\":5,\"job\":\"\\n\"}",
         "{\"code\":500,\"message\":\"x\",\"activity\":\"a\",\"address\":\"a,0,0\"}"},
    };
    const struct error otherwise = {.code = 500, .addr = QP_STR("a,0,0")};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        qp_str json = QP_NONE;
        qp_str again = QP_NONE;
        assert_int_equal(error_shape(&arena, str_from(cases[i].text), &otherwise, &json), QP_OK);
        assert_text(json, cases[i].json);
        assert_true(error_has_shape(json));
        assert_int_equal(error_shape(&arena, json, &otherwise, &again), QP_OK);
        assert_text(again, cases[i].json);
    }
}

/* Proves that who ended a job from outside is no activity, and that nothing is never no error. */
static void test_outside(void **state)
{
    const struct error otherwise = {.code = 410, .message = QP_STR("interrupted")};
    qp_str json = QP_NONE;
    (void)state;
    assert_int_equal(error_shape(&arena, QP_NONE, &otherwise, &json), QP_OK);
    assert_text(json,
                "{\"code\":410,\"message\":\"interrupted\",\"activity\":null,\"address\":null}");
    assert_false(error_has_shape(QP_STR("{\"code\":500,\"message\":\"no\"}")));
    assert_false(error_has_shape(QP_NONE));
}

/* Proves that the message is cut so that the whole fits, at a character, however it is escaped and whatever is beside
 * it. */
static void test_limit(void **state)
{
    static const char *const parts[] = {"x", "\"", "\x01", "\xe2\x82\xac", "\xff"};
    static char message[4 * LIMIT_ERROR_TEXT_SIZE];
    char addr[LIMIT_ADDRESS_SIZE];
    char job[LIMIT_ID_SIZE];
    (void)state;
    memset(addr, 'a', sizeof addr);
    addr[LIMIT_NAME_SIZE] = ',';
    memset(job, '"', sizeof job);
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        size_t size = strlen(parts[i]);
        struct error e = {.code = 500,
                          .message = {message, sizeof message},
                          .addr = {addr, sizeof addr},
                          .job = {job, sizeof job}};
        qp_str json = QP_NONE;
        for (size_t n = 0; n + size <= sizeof message; n += size) {
            memcpy(message + n, parts[i], size);
        }
        assert_int_equal(error_write(&arena, &e, &json), QP_OK);
        assert_true(json.n <= LIMIT_ERROR_TEXT_SIZE);
        assert_true(parts[i][0] == '\xff' || json.n > LIMIT_ERROR_TEXT_SIZE / 2);
        assert_int_equal(json_check(&t.env, json, NULL, NULL), QP_OK);
    }
}

/* Proves that a failing allocation is told, whichever it is. */
static void test_no_memory(void **state)
{
    const struct error otherwise = {.code = 500, .addr = QP_STR("a,0,0")};
    int rc = QP_E_NOMEM;
    (void)state;
    for (int64_t n = 1; rc == QP_E_NOMEM; n++) {
        qp_str json = QP_NONE;
        arena_done(&arena);
        testenv_fail_at(&t, n);
        arena_init(&arena, &t.env, 0);
        rc = error_shape(&arena, QP_STR("{\"message\":\"m\",\"job\":\"j\"}"), &otherwise, &json);
        testenv_fail_at(&t, 0);
    }
    assert_int_equal(rc, QP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shape, begin, end),
        cmocka_unit_test_setup_teardown(test_outside, begin, end),
        cmocka_unit_test_setup_teardown(test_limit, begin, end),
        cmocka_unit_test_setup_teardown(test_no_memory, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

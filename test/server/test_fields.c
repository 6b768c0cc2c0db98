/* test_fields.c - bodies read by their schemas: kinds, defaults, and where a mistake is */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "server/fields.h"
#include "servertest.h"

/* Each wrong body is refused with its code, and with a pointer to the place. */
static void mistakes(void **state)
{
    static const struct {
        const char *body;
        const char *code;
        const char *pointer; /* NULL: none */
    } cases[] = {
        {"{", "malformed", NULL},
        {"{\"topic\":\"t\"} x", "malformed", NULL},
        {"{\"topic\":\"t\",\"topic\":\"u\"}", "malformed", NULL},
        {"{\"topic\":\"t\",\"input\":\"\\u0000\"}", "wrong_shape", NULL},
        {"[]", "bad_field", ""},
        {"{}", "missing_field", "/topic"},
        {"{\"topic\":1}", "bad_field", "/topic"},
        {"{\"topic\":\"t\",\"Input\":1}", "unknown_field", "/Input"},
        {"{\"topic\":\"t\",\"a/b~c\":1}", "unknown_field", "/a~1b~0c"},
        {"{\"topic\":\"t\",\"priority\":1.5}", "bad_field", "/priority"},
        {"{\"topic\":\"t\",\"priority\":10}", "bad_field", "/priority"},
        {"{\"topic\":\"t\",\"priority\":99999999999999999999}", "bad_field", "/priority"},
        {"{\"topic\":\"t\",\"priority\":4294967296}", "bad_field", "/priority"},
        {"{\"topic\":\"t\",\"attributes\":{\"a\":\"\",\"b\":\"\",\"c\":\"\",\"d\":\"\","
         "\"e\":\"\",\"f\":\"\",\"g\":\"\",\"h\":\"\",\"i\":\"\",\"j\":\"\",\"k\":\"\",\"l\":\"\","
         "\"m\":\"\",\"n\":\"\",\"o\":\"\",\"p\":\"\",\"q\":\"\"}}",
         "bad_field", "/attributes"},
        {"{\"topic\":\"t\",\"timeout\":5}", "bad_field", "/timeout"},
        {"{\"topic\":\"t\",\"timeout\":\"5 parsecs\"}", "bad_field", "/timeout"},
        {"{\"topic\":\"t\",\"retry\":3}", "bad_field", "/retry"},
        {"{\"topic\":\"t\",\"retry\":{\"tries\":3}}", "unknown_field", "/retry/tries"},
        {"{\"topic\":\"t\",\"attributes\":{\"a\":1}}", "bad_field", "/attributes"},
        {"{\"topic\":\"t\",\"signal\":{\"topic\":\"x\"}}", "missing_field", "/signal/key"},
        {"{\"topic\":\"no spaces\"}", "invalid", NULL},
        {"{\"topic\":\"t\",\"id\":\"\"}", "invalid", NULL},
        {"{\"topic\":\"t\",\"id\":\" x\"}", "invalid", NULL},
    };
    (void)state;
    st_begin(ST_MEMORY, ST_OPEN);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct hc_answer a;
        char *code, *pointer;
        int status = st_call("POST", "/v1/jobs", cases[i].body, &a);
        code = hc_member(&a, "code");
        pointer = hc_member(&a, "errors.0.pointer");
        if (status < 400 || status >= 500 || code == NULL || strcmp(code, cases[i].code) != 0 ||
            (pointer == NULL) != (cases[i].pointer == NULL) ||
            (pointer != NULL && strcmp(pointer, cases[i].pointer) != 0)) {
            fail_msg("%s: %d %s", cases[i].body, status, a.body);
        }
        free(code);
        free(pointer);
        hc_done(&a);
    }
    assert_int_equal(st_call("GET", "/v1/jobs?nope=1", NULL, NULL), 400);
    assert_int_equal(st_call("GET", "/v1/jobs?limit=1&limit=2", NULL, NULL), 400);
    assert_int_equal(st_call("GET", "/v1/jobs?limit=x", NULL, NULL), 400);
    assert_int_equal(st_call("GET", "/v1/jobs?where=%zz", NULL, NULL), 400);
    assert_int_equal(st_call("GET", "/v1/jobs?namespace=a%20b", NULL, NULL), 400);
    assert_int_equal(st_call("GET", "/v1/jobs/%00", NULL, NULL), 400);
    assert_int_equal(st_call("GET", "/v1/jobs/%ff", NULL, NULL), 400);
    st_end();
}

/* Members of any kind, in any white space, come out whole and in order. */
static void raw_values(void **state)
{
    static const char text[] =
        " { \"a\" : [1, {\"b\":\"}]\\\"\"}] ,\"c\":\"x\\\\\" , \"d\":-1.5e3,\"e\":null } ";
    static const char *const expected[][2] = {
        {"a", "[1, {\"b\":\"}]\\\"\"}]"}, {"c", "\"x\\\\\""}, {"d", "-1.5e3"}, {"e", "null"}};
    struct raw_walk w = {.rest = {text, sizeof text - 1}};
    size_t n = 0;
    (void)state;
    while (raw_each(&w)) {
        assert_true(n < ARRAY_COUNT(expected));
        assert_true(str_equal(w.key, str_from(expected[n][0])));
        assert_true(str_equal(w.value, str_from(expected[n][1])));
        assert_int_equal(w.index, n);
        n++;
    }
    assert_int_equal(n, ARRAY_COUNT(expected));
    w = (struct raw_walk){.rest = QP_STR("[]")};
    assert_false(raw_each(&w));
    assert_true(raw_has(QP_STR("{\"a\":1,\"b\":null}"), "a"));
    assert_false(raw_has(QP_STR("{\"a\":1,\"b\":null}"), "b"));
    assert_false(raw_has(QP_STR("{\"a\":1,\"b\":null}"), "c"));
}

/* A payload is kept as it came: white space, order, and digits that no double has. */
static void payloads_stay(void **state)
{
    static const char input[] = "{ \"b\":1.10, \"a\":12345678901234567890,\n\"c\":\"\\u00e9\" }";
    struct hc_answer a;
    (void)state;
    st_begin(ST_MEMORY, ST_OPEN);
    st_start("kept", input);
    assert_int_equal(st_call("GET", "/v1/jobs/kept", NULL, &a), 200);
    assert_non_null(strstr(a.body, input));
    hc_done(&a);
    st_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes),
        cmocka_unit_test(raw_values),
        cmocka_unit_test(payloads_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

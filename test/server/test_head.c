/* test_head.c - heads of requests: what is taken, and what is refused as what */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/head.h"

static const struct head_rules rules = {
    .hosts = {"localhost", "[::1]"}, .host_count = 2, .body_size = 1000};

struct line {
    const char *name;
    const char *value;
};

#define GOOD (-1)

static const struct head_case {
    const char *target;
    int verdict; /* enum api_problem, or GOOD */
    struct line lines[4];
} cases[] = {
    {"/v1/jobs", GOOD, {{"Host", "localhost"}}},
    {"/v1/jobs?a=b", GOOD, {{"host", "LOCALHOST:7700"}}},
    {"/", GOOD, {{"Host", "[::1]:80"}}},
    {"/", PROBLEM_MISDIRECTED, {{"Host", "localhost:80,evil"}}},
    {"/", PROBLEM_MISDIRECTED, {{"Host", "localhost:80@evil"}}},
    {"/", PROBLEM_MISDIRECTED, {{"Host", "localhost:@evil"}}},
    {"/", PROBLEM_MISDIRECTED, {{"Host", "localhost:"}}},
    {"/", PROBLEM_MISDIRECTED, {{"Host", "localhost:123456"}}},
    {"/", PROBLEM_MISDIRECTED, {{"Host", "[::1].evil"}}},
    {"/", PROBLEM_MISDIRECTED, {{"Host", "[::1]:80,evil"}}},
    {"/", PROBLEM_MISDIRECTED, {{"Host", "[::1"}}},
    {"/", GOOD, {{"Host", "localhost"}, {"Content-Length", "1000"}}},
    {"/", GOOD, {{"Host", "localhost"}, {"Content-Length", "12 "}}},
    {"/", GOOD, {{"Host", "localhost"}, {"Transfer-Encoding", "Chunked"}}},
    {"/", GOOD, {{"Host", "localhost"}, {"X-Any", "tab\there \xc3\xa9"}}},
    /* the target */
    {"", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}}},
    {"*", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}}},
    {"http://localhost/", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}}},
    {"/a\xc3\xa9", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}}},
    {"/a b", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}}},
    {"/a#b", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}}},
    {"/a\rb", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}}},
    /* framing */
    {"/",
     PROBLEM_BAD_REQUEST,
     {{"Host", "localhost"}, {"Content-Length", "1"}, {"Content-Length", "1"}}},
    {"/",
     PROBLEM_BAD_REQUEST,
     {{"Host", "localhost"}, {"Content-Length", "1"}, {"content-length", "2"}}},
    {"/", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}, {"Content-Length", "1, 1"}}},
    {"/", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}, {"Content-Length", "+1"}}},
    {"/", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}, {"Content-Length", "-1"}}},
    {"/", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}, {"Content-Length", "0x1"}}},
    {"/", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}, {"Content-Length", ""}}},
    {"/", PROBLEM_BODY_SIZE, {{"Host", "localhost"}, {"Content-Length", "1001"}}},
    {"/",
     PROBLEM_BODY_SIZE,
     {{"Host", "localhost"}, {"Content-Length", "99999999999999999999999999"}}},
    {"/",
     PROBLEM_BAD_REQUEST,
     {{"Host", "localhost"}, {"Content-Length", "1"}, {"Transfer-Encoding", "chunked"}}},
    {"/", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}, {"Transfer-Encoding", "gzip, chunked"}}},
    {"/", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}, {"Transfer-Encoding", "identity"}}},
    {"/",
     PROBLEM_BAD_REQUEST,
     {{"Host", "localhost"}, {"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "chunked"}}},
    {"/",
     PROBLEM_BAD_REQUEST,
     {{"Host", "localhost"},
      {"Transfer-Encoding", "\x0b"
                            "chunked"}}},
    /* names and values */
    {"/", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}, {"Content-Length ", "1"}}},
    {"/", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}, {"A b", "1"}}},
    {"/", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}, {"", "1"}}},
    {"/", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}, {"X", "a\rTransfer-Encoding: chunked"}}},
    {"/", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}, {"X\rY", "a"}}},
    {"/", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}, {"X", "a\x7f"}}},
    {"/", PROBLEM_MEDIA_TYPE, {{"Host", "localhost"}, {"Content-Encoding", "gzip"}}},
    {"/",
     PROBLEM_BAD_REQUEST,
     {{"Host", "localhost"}, {"Authorization", "a"}, {"authorization", "b"}}},
    /* pages of others */
    {"/", GOOD, {{"Host", "localhost:7700"}, {"Origin", "http://localhost:7700"}}},
    {"/", PROBLEM_FORBIDDEN, {{"Host", "localhost:7700"}, {"Origin", "http://localhost:3000"}}},
    {"/", PROBLEM_FORBIDDEN, {{"Origin", "http://evil.example"}, {"Host", "localhost"}}},
    {"/", PROBLEM_FORBIDDEN, {{"Host", "localhost"}, {"Origin", "null"}}},
    {"/", PROBLEM_FORBIDDEN, {{"Host", "localhost"}, {"Origin", ""}}},
    /* the host */
    {"/", PROBLEM_BAD_REQUEST, {{NULL, NULL}}},
    {"/", PROBLEM_BAD_REQUEST, {{"Host", "localhost"}, {"Host", "localhost"}}},
    {"/", PROBLEM_MISDIRECTED, {{"Host", "evil.example"}}},
    {"/", PROBLEM_MISDIRECTED, {{"Host", "localhost.evil.example"}}},
    {"/", PROBLEM_MISDIRECTED, {{"Host", ""}}},
};

static int verdict_of(const struct head_case *k)
{
    struct head h;
    struct api_call c = {0};
    qp_str path, query;
    head_begin(&h, &rules);
    head_line(&h, QP_STR("HTTP/1.1"), str_from(k->target), &path, &query);
    for (size_t i = 0; i < ARRAY_COUNT(k->lines) && k->lines[i].name != NULL; i++) {
        head_add(&h, str_from(k->lines[i].name), str_from(k->lines[i].value), &c);
    }
    return head_end(&h) ? GOOD : (int)h.problem;
}

/* Every head of the table is judged as the table says. */
static void table(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int verdict = verdict_of(&cases[i]);
        if (verdict != cases[i].verdict) {
            fail_msg("case %zu (%s): %d, not %d", i, cases[i].target, verdict, cases[i].verdict);
        }
    }
}

/* Too long, too many, and another version. */
static void sizes(void **state)
{
    static char target[LIMIT_URI_SIZE + 2];
    static char value[LIMIT_HEADER_SIZE + 1];
    struct head h;
    struct api_call c = {0};
    qp_str path, query;
    (void)state;
    memset(target, 'a', sizeof target - 1);
    target[0] = '/';
    memset(value, 'v', sizeof value);
    head_begin(&h, &rules);
    head_line(&h, QP_STR("HTTP/1.1"), str_from(target), &path, &query);
    assert_false(head_end(&h));
    assert_int_equal(h.problem, PROBLEM_URI_SIZE);

    head_begin(&h, &rules);
    head_line(&h, QP_STR("HTTP/2.0"), QP_STR("/"), &path, &query);
    assert_false(head_end(&h));
    assert_int_equal(h.problem, PROBLEM_BAD_REQUEST);

    head_begin(&h, &rules);
    head_add(&h, QP_STR("X"), (qp_str){value, sizeof value}, &c);
    assert_false(head_end(&h));
    assert_int_equal(h.problem, PROBLEM_HEADER_SIZE);

    head_begin(&h, &rules);
    head_add(&h, QP_STR("Host"), QP_STR("localhost"), &c);
    for (int i = 1; i < LIMIT_HEADERS; i++) {
        head_add(&h, QP_STR("X"), QP_STR("y"), &c);
    }
    assert_true(head_end(&h));
    head_add(&h, QP_STR("X"), QP_STR("y"), &c);
    assert_false(head_end(&h));
    assert_int_equal(h.problem, PROBLEM_HEADER_SIZE);
}

/* What a call wants to know of reaches it; an id of a request that is none does not. */
static void texts(void **state)
{
    struct head_rules proxied = rules;
    struct head h;
    struct api_call c = {0};
    qp_str path, query;
    (void)state;
    proxied.behind_proxy = true;
    head_begin(&h, &proxied);
    head_line(&h, QP_STR("HTTP/1.1"), QP_STR("/a/b?c=d?e"), &path, &query);
    assert_true(str_equal(path, QP_STR("/a/b")));
    assert_true(str_equal(query, QP_STR("c=d?e")));
    head_add(&h, QP_STR("Host"), QP_STR("localhost"), &c);
    head_add(&h, QP_STR("X-Request-Id"), QP_STR("bad id"), &c);
    assert_string_equal(c.request_id, "");
    head_add(&h, QP_STR("X-Request-Id"), QP_STR("good-1"), &c);
    assert_string_equal(c.request_id, "good-1");
    head_add(&h, QP_STR("Idempotency-Key"), QP_STR("k "), &c);
    assert_true(str_equal(c.idempotency_key, QP_STR("k")));
    head_add(&h, QP_STR("X-Forwarded-For"), QP_STR("6.6.6.6, 10.0.0.1"), &c);
    assert_true(str_equal(c.from, QP_STR("10.0.0.1")));
    assert_true(head_end(&h));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(sizes),
        cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

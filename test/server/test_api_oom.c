/* test_api_oom.c - the n-th allocation fails, in every request: it is answered all the same, and
 * nothing leaks
 *
 * Requests are calls in process on a store in memory, so that no other thread but the engine's
 * and the crew's takes memory. Whatever fails, the next request without a failure works.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "run/stats.h"
#include "server/api.h"
#include "support/testenv.h"

static struct testenv t;

static const struct {
    enum api_method method;
    const char *path;
    const char *query;
    const char *body;
} requests[] = {
    {API_POST, "/v1/jobs", "",
     "{\"topic\":\"work\",\"id\":\"same\",\"input\":{\"a\":\"\\u00e9\"},\"attributes\":{\"k\":\"v\"}}"},
    {API_GET, "/v1/jobs/same", "", ""},
    {API_GET, "/v1/jobs", "where=status%3Drunning&count=exact", ""},
    {API_GET, "/v1/jobs/same/activities", "", ""},
    {API_GET, "/v1/jobs/same/history", "", ""},
    {API_GET, "/v1/jobs/same/result", "wait=1ms", ""},
    {API_POST, "/v1/work", "", "{\"worker\":\"w\",\"topics\":[\"none\"],\"wait\":\"1ms\"}"},
    {API_POST, "/v1/work", "",
     "{\"worker\":\"w\",\"results\":[{\"token\":\"t\"}],\"beats\":[{\"token\":\"t\"}]}"},
    {API_POST, "/v1/signals", "", "{\"topic\":\"s\",\"key\":\"k\",\"id\":\"i\"}"},
    {API_GET, "/v1/topics", "", ""},
    {API_GET, "/v1/workers", "", ""},
    {API_GET, "/v1/tokens", "", ""},
    {API_GET, "/openapi.json", "", ""},
    {API_GET, "/metrics", "", ""},
    {API_POST, "/v1/jobs", "", "{\"topic\":\"work\",\"odd\":1}"},
    {API_POST, "/v1/workflows", "activate=true",
     "{\"text\":\"app: {id: g, version: '1', graphs: [{subscribes: g, activities: {t: {type: trigger, "
     "stats: {key: k}}, h: {type: hook, sleep: 1000}}, transitions: {t: [{to: h}]}}]}\"}"},
    {API_POST, "/v1/workflows", "", "{\"text\":\"app: 1\"}"},
    {API_POST, "/v1/jobs", "", "{\"topic\":\"g\",\"id\":\"graph\"}"},
    {API_GET, "/v1/jobs/graph", "", ""},
    {API_GET, "/v1/jobs/graph/activities", "", ""},
    {API_GET, "/v1/jobs/graph/export", "", ""},
    {API_GET, "/v1/workflows", "", ""},
    {API_GET, "/v1/workflows/g/versions", "", ""},
    {API_GET, "/v1/workflows/g/versions/1", "", ""},
    {API_GET, "/v1/workflows/g/diff", "from=1&to=1", ""},
    {API_GET, "/v1/stats", "topic=g", ""},
    {API_POST, "/v1/workflows/g/versions/1/activate", "", "{}"},
    {API_DELETE, "/v1/workflows/g/versions/1", "", ""},
};

static int ask(struct api *api, size_t i)
{
    struct api_call c;
    int status;
    api_call_init(&c, api, NULL);
    c.method = requests[i].method;
    c.path = str_from(requests[i].path);
    c.query = str_from(requests[i].query);
    c.body = str_from(requests[i].body);
    c.content_type = QP_STR("application/json");
    c.local = true;
    api_do(&c);
    status = c.status;
    api_finished(&c);
    api_call_done(&c);
    return status;
}

static void every_allocation(void **state)
{
    struct qp_options options;
    struct api *api = NULL;
    qp *q = NULL;
    struct qp_env usual;
    (void)state;
    testenv_init(&t, 1);
    qp_env_init(&usual);
    t.env.wall_ms = usual.wall_ms; /* threads wait for real times */
    t.env.monotonic_us = usual.monotonic_us;
    qp_options_init(&options);
    options.env = &t.env;
    assert_int_equal(qp_open(&options, &q, NULL), QP_OK);
    assert_int_equal(qp_start_threads(q, 0, NULL), QP_OK);
    struct api_options o = {
        .engine = q, .env = &t.env, .metrics = stats_registry(q), .threads = 1, .open = true};
    assert_int_equal(api_open(&o, &api, NULL), QP_OK);
    for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
        int good = ask(api, i);
        int again;
        for (int64_t n = 1; n < 400; n++) {
            int status;
            testenv_fail_at(&t, n);
            status = ask(api, i);
            if (!testenv_failed(&t)) {
                break;
            }
            assert_true(status >= 200 && status < 600);
        }
        testenv_fail_at(&t, 0);
        again = ask(api, i);
        if (good >= 500 || again >= 500 || again == 0) {
            fail_msg("%s %s: %d, then %d", method_word(requests[i].method), requests[i].path, good,
                     again);
        }
    }
    api_drain(api, 1000);
    api_close(api);
    assert_int_equal(qp_close(q, NULL), QP_OK);
    testenv_done(&t);
}

static int ask_whoami(struct api *api, const char *token)
{
    char header[TOKEN_TEXT_SIZE + 8];
    struct api_call c;
    int status;
    (void)snprintf(header, sizeof header, "Bearer %s", token);
    api_call_init(&c, api, NULL);
    c.method = API_GET;
    c.path = QP_STR("/v1/whoami");
    c.authorization = str_from(header);
    api_do(&c);
    status = c.status;
    api_finished(&c);
    api_call_done(&c);
    return status;
}

/* A good token is never called a wrong one because the store could not be asked. */
static void the_token_is_good(void **state)
{
    struct token_wish wish = {.role = QP_STR("viewer")};
    char token[TOKEN_TEXT_SIZE];
    char id[LIMIT_TOKEN_ID_SIZE + 1];
    struct qp_options options;
    struct api *api = NULL;
    qp *q = NULL;
    struct qp_env usual;
    bool failed = true;
    (void)state;
    testenv_init(&t, 1);
    qp_env_init(&usual);
    t.env.wall_ms = usual.wall_ms; /* threads wait for real times */
    t.env.monotonic_us = usual.monotonic_us;
    qp_options_init(&options);
    options.env = &t.env;
    assert_int_equal(qp_open(&options, &q, NULL), QP_OK);
    assert_int_equal(qp_start_threads(q, 0, NULL), QP_OK);
    struct api_options o = {.engine = q, .env = &t.env, .threads = 1};
    assert_int_equal(api_open(&o, &api, NULL), QP_OK);
    assert_int_equal(auth_issue(api_auth(api), &wish, token, id, NULL), QP_OK);
    assert_int_equal(ask_whoami(api, token), 200);
    for (int64_t n = 1; failed && n < 400; n++) {
        int status;
        auth_forget(api_auth(api), str_from(id));
        testenv_fail_at(&t, n);
        status = ask_whoami(api, token);
        failed = testenv_failed(&t);
        testenv_fail_at(&t, 0);
        if (status != 200 && status < 500) {
            fail_msg("allocation %lld: %d", (long long)n, status);
        }
    }
    assert_false(failed);
    assert_int_equal(ask_whoami(api, "qp_viewer_nobody_0"), 401);
    assert_int_equal(ask_whoami(api, "qp_viewer_no body_0"), 401);
    api_drain(api, 1000);
    api_close(api);
    assert_int_equal(qp_close(q, NULL), QP_OK);
    testenv_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation),
                                       cmocka_unit_test(the_token_is_good)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_graph_api.c - graphs over HTTP: deployed, started, signalled, looked at; every route, good and bad */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "servertest.h"

/* An order waits for its payment, which a worker does; then for a signal. %s is the version, and what comes after. */
#define SHOP                                                                                       \
    "app:\n"                                                                                       \
    "  id: shop\n"                                                                                 \
    "  version: '%s'\n"                                                                            \
    "  graphs:\n"                                                                                  \
    "    - subscribes: shop.order\n"                                                               \
    "      input:\n"                                                                               \
    "        schema: {type: object, properties: {amount: {type: number}}, required: [amount]}\n"   \
    "      activities:\n"                                                                          \
    "        order:\n"                                                                             \
    "          type: trigger\n"                                                                    \
    "          stats:\n"                                                                           \
    "            key: '{$self.output.data.colour}'\n"                                              \
    "            granularity: 5m\n"                                                                \
    "            measures: [{measure: count, target: '{$self.output.data.colour}'}]\n"             \
    "        pay:\n"                                                                               \
    "          type: worker\n"                                                                     \
    "          topic: shop.pay\n"                                                                  \
    "          input: {maps: {amount: '{order.output.data.amount}'}}\n"                            \
    "          job: {maps: {receipt: '{$self.output.data.receipt}'}}\n"                            \
    "        ship: {type: hook, job: {maps: {by: '{$self.hook.data.by}'}}}\n"                      \
    "%s"                                                                                           \
    "      transitions:\n"                                                                         \
    "        order: [{to: pay}]\n"                                                                 \
    "        pay: [{to: ship, conditions: {code: 200}}]\n"                                         \
    "%s"                                                                                           \
    "      hooks:\n"                                                                               \
    "        shop.shipped:\n"                                                                      \
    "          - to: ship\n"                                                                       \
    "            conditions:\n"                                                                    \
    "              match: [{expected: '{$job.metadata.jid}', actual: '{$self.hook.data.id}'}]\n"   \
    "    - subscribes: .shop.inner\n"                                                              \
    "      activities: {inner: {type: trigger}}\n"                                                 \
    "    - subscribes: shop.outer\n"                                                               \
    "      activities:\n"                                                                          \
    "        outer: {type: trigger}\n"                                                             \
    "        call:\n"                                                                              \
    "          type: await\n"                                                                      \
    "          topic: shop.order\n"                                                                \
    "          input: {maps: {amount: 5}}\n"                                                       \
    "      transitions: {outer: [{to: call}]}\n"

static const char *shop(const char *version, bool thanks)
{
    static char text[4096];
    (void)snprintf(text, sizeof text, SHOP, version, thanks ? "        thank: {type: hook}\n" : "",
                   thanks ? "        ship: [{to: thank}]\n" : "");
    return text;
}

/* A request with a body of another type. */
static struct hc_answer ask_typed(const char *method, const char *path, const char *headers,
                                  const char *body)
{
    static char request[16384];
    struct hc c;
    struct hc_answer a;
    (void)snprintf(request, sizeof request,
                   "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n%s", method,
                   path, headers, strlen(body), body);
    assert_true(hc_open(&c, st.port));
    assert_true(hc_text(&c, request));
    a = hc_read(&c, 20000);
    hc_close(&c);
    return a;
}

static void deploy(const char *query, const char *text, int status)
{
    char path[64];
    struct hc_answer a;
    (void)snprintf(path, sizeof path, "/v1/workflows%s", query);
    a = ask_typed("POST", path, "Content-Type: application/yaml\r\n", text);
    if (a.status != status) {
        fail_msg("deploy%s: %d: %s", query, a.status, a.body);
    }
    hc_done(&a);
}

/* A number or an object of the answer, as text. */
static bool has(const struct hc_answer *a, const char *part)
{
    return a->body != NULL && strstr(a->body, part) != NULL;
}

static void expect_part(const char *method, const char *path, const char *body, int status,
                        const char *part)
{
    struct hc_answer a;
    st_call(method, path, body, &a);
    if (a.status != status || !has(&a, part)) {
        fail_msg("%s %s: %d, not %d with %s: %s", method, path, a.status, status, part, a.body);
    }
    hc_done(&a);
}

/* What a message does after the answer: it is seen within a bounded number of looks. */
static void expect_soon(const char *path, const char *part)
{
    for (int i = 0; i < 2000; i++) {
        struct hc_answer a;
        bool seen;
        assert_int_equal(st_call("GET", path, NULL, &a), 200);
        seen = has(&a, part);
        hc_done(&a);
        if (seen) {
            return;
        }
    }
    fail_msg("%s never had %s", path, part);
}

static void pay_once(void)
{
    struct hc_answer a = st_work("{\"worker\":\"w\",\"topics\":[\"shop.pay\"],\"wait\":\"10s\"}");
    char *token = hc_member(&a, "tasks.0.token");
    char body[512];
    if (token == NULL) {
        fail_msg("no task: %s", a.body);
    }
    (void)snprintf(
        body, sizeof body,
        "{\"worker\":\"w\",\"results\":[{\"token\":\"%s\",\"output\":{\"receipt\":\"r1\"}}]}",
        token);
    hc_done(&a);
    a = st_work(body);
    assert_int_equal(a.status, 200);
    hc_done(&a);
    free(token);
}

/* Text or JSON, new or there already, another text, broken: what each is answered. */
static void deploying(void **state)
{
    struct hc_answer a;
    char *text;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    deploy("", shop("1", false), 201);
    deploy("", shop("1", false), 200);
    deploy("", shop("1", true), 409);
    expect_part("GET", "/v1/workflows", NULL, 200, "\"active\":false");
    deploy("?activate=true", shop("2", true), 201);
    deploy("?activate=perhaps", shop("3", true), 400);
    text = st_expect("GET", "/v1/workflows", NULL, 200, "items.0.active");
    assert_string_equal(text, "2");
    free(text);
    text = st_expect("GET", "/v1/workflows", NULL, 200, "items.0.graphs.0.hooks.0");
    assert_string_equal(text, "shop.shipped");
    free(text);
    a = ask_typed("POST", "/v1/workflows", "Content-Type: text/plain\r\n", "app:\n");
    assert_int_equal(a.status, 415);
    hc_done(&a);
    expect_part("POST", "/v1/workflows", "{}", 400, "missing_field");
    expect_part("POST", "/v1/workflows",
                "{\"text\":\"{\\\"app\\\":{\\\"id\\\":\\\"tiny\\\",\\\"version\\\":\\\"1\\\","
                "\\\"graphs\\\":[{\\\"subscribes\\\":\\\"tiny\\\",\\\"activities\\\":{\\\"t\\\":"
                "{\\\"type\\\":\\\"trigger\\\"}}}]}}\",\"activate\":true}",
                201, "{\"name\":\"tiny\",\"version\":\"1\",\"active\":true}");
    /* another application has the topic */
    deploy("?activate=true",
           "app: {id: thief, version: '1', graphs: [{subscribes: tiny, activities: {t: {type: "
           "trigger}}}]}\n",
           409);
    st_end();
}

/* All that is wrong is told at once, each with its place, and nothing is deployed. */
static void broken(void **state)
{
    static const char text[] = "app:\n"
                               "  id: broken\n"
                               "  version: '1'\n"
                               "  graphs:\n"
                               "    - subscribes: b\n"
                               "      activities:\n"
                               "        t: {type: trigger}\n"
                               "        w: {type: wrker}\n"
                               "      transitions:\n"
                               "        t: [{to: nobody}]\n";
    struct hc_answer a;
    struct json *tree = NULL;
    const struct json *errors;
    (void)state;
    st_begin(ST_MEMORY, ST_OPEN);
    a = ask_typed("POST", "/v1/workflows", "Content-Type: application/yaml\r\n", text);
    assert_int_equal(a.status, 422);
    assert_int_equal(json_parse(&st.env, (qp_str){a.body, a.body_size}, NULL, &tree), QP_OK);
    errors = json_get(tree, QP_STR("errors"));
    assert_true(json_count(errors) >= 2);
    for (size_t i = 0; i < json_count(errors); i++) {
        int64_t line = 0;
        qp_str words;
        assert_true(json_as_i64(json_get(json_at(errors, i), QP_STR("line")), &line));
        assert_true(line == 8 || line == 10);
        assert_true(json_as_i64(json_get(json_at(errors, i), QP_STR("column")), &line));
        assert_true(json_as_str(json_get(json_at(errors, i), QP_STR("code")), &words));
        assert_true(json_as_str(json_get(json_at(errors, i), QP_STR("detail")), &words));
    }
    json_free(tree);
    hc_done(&a);
    expect_part("GET", "/v1/workflows", NULL, 200, "{\"items\":[]}");
    st_end();
}

/* Versions: listed, read as they came, activated, compared, deleted unless somebody needs them. */
static void versions(void **state)
{
    struct hc_answer a;
    char *text;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    deploy("?activate=true", shop("1", false), 201);
    deploy("", shop("2", true), 201);
    expect_part("GET", "/v1/workflows/shop/versions", NULL, 200,
                "\"version\":\"2\",\"active\":false");
    expect_part("GET", "/v1/workflows/none/versions", NULL, 404, "not_found");
    text = st_expect("GET", "/v1/workflows/shop/versions/1", NULL, 200, "text");
    assert_string_equal(text, shop("1", false));
    free(text);
    expect_part("GET", "/v1/workflows/shop/versions/9", NULL, 404, "not_found");
    a = ask_typed("GET", "/v1/workflows/shop/versions/1", "Accept: application/yaml\r\n", "");
    assert_int_equal(a.status, 200);
    text = hc_header(&a, "Content-Type");
    assert_string_equal(text, "application/yaml");
    free(text);
    assert_int_equal(a.body_size, strlen(shop("1", false)));
    assert_memory_equal(a.body, shop("1", false), a.body_size);
    hc_done(&a);
    expect_part(
        "GET", "/v1/workflows/shop/diff?from=1&to=2", NULL, 200,
        "{\"name\":\"shop\",\"from\":\"1\",\"to\":\"2\",\"graphs\":[{\"topic\":\"shop.order\","
        "\"change\":\"changed\",\"keys\":[],\"activities\":{\"added\":[\"thank\"],\"removed\":"
        "[],\"changed\":[]},\"transitions\":{\"added\":[{\"from\":\"ship\",\"to\":\"thank\"}],"
        "\"removed\":[],\"changed\":[]}}]}");
    expect_part("GET", "/v1/workflows/shop/diff?from=1", NULL, 400, "bad_parameter");
    expect_part("GET", "/v1/workflows/shop/diff?from=1&to=9", NULL, 404, "not_found");
    expect_part("POST", "/v1/workflows/shop/versions/9/activate", "{}", 404, "not_found");

    free(st_expect("POST", "/v1/jobs",
                   "{\"topic\":\"shop.order\",\"id\":\"j\",\"input\":{\"amount\":1}}", 201, "id"));
    expect_part("DELETE", "/v1/workflows/shop/versions/1", NULL, 409, "it is active");
    expect_part("POST", "/v1/workflows/shop/versions/2/activate", "{}", 200,
                "\"active\":true,\"was\":\"1\"");
    expect_part("DELETE", "/v1/workflows/shop/versions/1", NULL, 409, "job 'j'");
    free(st_expect("POST", "/v1/jobs/j/kill", "{}", 200, "id"));
    expect_part("DELETE", "/v1/workflows/shop/versions/1", NULL, 409, "job 'j' needs it");
    expect_part("DELETE", "/v1/workflows/shop/versions/1?force=1", NULL, 400, "true or false");
    expect_part("DELETE", "/v1/workflows/shop/versions/1?force=true", NULL, 200, "true");
    expect_part("DELETE", "/v1/workflows/shop/versions/1", NULL, 404, "not_found");
    /* A job of a version that is gone is shown all the same. */
    text = st_expect("GET", "/v1/jobs/j", NULL, 200, "version");
    assert_string_equal(text, "shop/1");
    free(text);
    expect_part("GET", "/v1/workflows/shop/versions/1", NULL, 404, "not_found");
    expect_part("POST", "/v1/jobs/j/fork", "{\"version\":\"1\"}", 404, "or it was deleted");
    expect_part("POST", "/v1/jobs/j/fork", "{\"id\":\"j-2\"}", 201, "j-2"); /* of the active one */
    text = st_expect("GET", "/v1/jobs/j-2", NULL, 200, "version");
    assert_string_equal(text, "shop/2");
    free(text);
    /* Its input is checked when it is asked for. */
    expect_part("POST", "/v1/jobs/j/fork", "{\"input\":{\"amount\":\"much\"}}", 422, "/input");
    expect_part("POST", "/v1/jobs/j/retry", "{\"input\":{\"amount\":\"much\"}}", 422, "/input");
    /* Its text is kept for a while: another one is refused, the same one brings the version back. */
    deploy("?activate=true", shop("1", true), 409);
    deploy("?activate=true", shop("1", false), 201);
    free(st_expect("POST", "/v1/jobs",
                   "{\"topic\":\"shop.order\",\"id\":\"k\",\"input\":{\"amount\":1}}", 201, "id"));
    text = st_expect("GET", "/v1/jobs/k", NULL, 200, "version");
    assert_string_equal(text, "shop/1");
    free(text);
    st_end();
}

/* A list has the status, the version and the semaphore of a graph's job; its digits, which all its ledgers would have to be
 * read for, and its data it has not. */
static void list_tells_the_row(void)
{
    struct hc_answer a;
    assert_int_equal(st_call("GET", "/v1/jobs?where=workflow%3Dshop.order", NULL, &a), 200);
    assert_true(has(&a, "\"id\":\"j\""));
    assert_true(has(&a, "\"version\":\"shop/1\",\"status\":\"running\""));
    assert_true(has(&a, "\"open\":1"));
    assert_false(has(&a, "\"state\"") || has(&a, "\"data\"") || has(&a, "\"input\""));
    hc_done(&a);
}

/* From its start to its end: state, data, activities, signals with and without what they are matched by. */
static void running(void **state)
{
    char *text;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    deploy("?activate=true", shop("1", false), 201);
    expect_part("POST", "/v1/jobs", "{\"topic\":\"shop.order\",\"input\":{\"amount\":\"x\"}}", 422,
                "\"pointer\":\"/input/amount\"");
    expect_part("POST", "/v1/jobs", "{\"topic\":\"shop.order\",\"input\":{}}", 422,
                "\"pointer\":\"/input/amount\"");
    expect_part("POST", "/v1/jobs", "{\"topic\":\".shop.inner\",\"input\":{}}", 404, "private");
    free(st_expect("POST", "/v1/jobs",
                   "{\"topic\":\"shop.order\",\"id\":\"j\",\"input\":{\"amount\":1}}", 201, "id"));
    expect_part("GET", "/v1/jobs/j", NULL, 200,
                "\"state\":\"689000000000000\",\"compositional\":\"689\",\"semaphore\":1}");
    list_tells_the_row();
    pay_once();
    expect_part("GET", "/v1/jobs/j", NULL, 200,
                "\"state\":\"665000000000000\",\"compositional\":\"665\",\"semaphore\":1,\"data\":{"
                "\"receipt\":\"r1\"}}");
    expect_part(
        "GET", "/v1/jobs/j/activities", NULL, 200,
        "{\"address\":\"ship,0,0,0\",\"name\":\"ship\",\"mark\":\"waiting\",\"topic\":\"shop.shipped\",\"type\":\"hook\",\"category\":\"A\",\"digit\":\"5\","
        "\"status\":\"paused\"");
    expect_part("POST", "/v1/signals", "{\"topic\":\"no.hook\",\"payload\":{\"id\":\"j\"}}", 404,
                "not_found");
    expect_part("POST", "/v1/signals", "{\"topic\":\"shop.shipped\",\"payload\":{\"by\":\"sea\"}}",
                422, "wrong_shape");
    expect_part("POST", "/v1/signals",
                "{\"topic\":\"shop.shipped\",\"payload\":{\"id\":\"j\"},\"code\":99}", 400,
                "\"pointer\":\"/code\"");
    expect_part(
        "POST", "/v1/signals",
        "{\"topic\":\"shop.shipped\",\"payload\":{\"id\":\"j\",\"by\":\"air\"},\"code\":202}", 202,
        "true");
    expect_part("POST", "/v1/signals",
                "{\"topic\":\"shop.shipped\",\"payload\":{\"id\":\"j\",\"by\":\"sea\"}}", 202,
                "true");
    text = st_expect("GET", "/v1/jobs/j/result?wait=20s", NULL, 200, "data.by");
    assert_string_equal(text, "sea");
    free(text);
    expect_part("GET", "/v1/jobs/j", NULL, 200,
                "\"output\":{\"receipt\":\"r1\",\"by\":\"sea\"},\"state\":\"664000000000000\"");
    expect_part("GET", "/v1/jobs/j/export", NULL, 200,
                "\"data\":{\"receipt\":\"r1\",\"by\":\"sea\"},\"tree\":{\"activity\":\"order\"");
    /* A job that is complete and has no data has no output. */
    deploy("?activate=true",
           "app: {id: tiny, version: '1', graphs: [{subscribes: tiny, activities: {t: {type: "
           "trigger}}}]}\n",
           201);
    expect_part("POST", "/v1/jobs?wait=20s", "{\"topic\":\"tiny\",\"id\":\"t\"}", 200,
                "\"input\":null,\"state\":\"600000000000000\",\"compositional\":\"6\","
                "\"semaphore\":0}");
    st_end();
}

/* A job that failed says so with an object; one that is killed may take those below with it. */
static void ending(void **state)
{
    struct hc_answer a;
    char *token;
    char *text;
    char body[512];
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    deploy("?activate=true", shop("1", false), 201);
    free(st_expect("POST", "/v1/jobs",
                   "{\"topic\":\"shop.order\",\"id\":\"j\",\"input\":{\"amount\":1}}", 201, "id"));
    a = st_work("{\"worker\":\"w\",\"topics\":[\"shop.pay\"],\"wait\":\"10s\"}");
    token = hc_member(&a, "tasks.0.token");
    assert_non_null(token);
    hc_done(&a);
    (void)snprintf(body, sizeof body,
                   "{\"worker\":\"w\",\"results\":[{\"token\":\"%s\",\"status\":\"error\",\"code\":"
                   "402,\"error\":{\"message\":\"no money\",\"fatal\":true}}]}",
                   token);
    free(token);
    a = st_work(body);
    assert_int_equal(a.status, 200);
    hc_done(&a);
    text = st_expect("GET", "/v1/jobs/j/result?wait=20s", NULL, 200, "error.message");
    assert_string_equal(text, "no money");
    free(text);
    text = st_expect("GET", "/v1/jobs/j", NULL, 200, "state");
    assert_string_equal(text, "679000000000000");
    free(text);

    free(st_expect("POST", "/v1/jobs", "{\"topic\":\"shop.outer\",\"id\":\"o\"}", 201, "id"));
    expect_soon("/v1/jobs/o", "\"compositional\":\"8168926\"");
    expect_part("GET", "/v1/jobs?where=status%3Drunning", NULL, 200, "shop.order");
    free(st_expect("POST", "/v1/jobs/o/kill", "{\"descend\":true,\"reason\":\"enough\"}", 200,
                   "id"));
    text = st_expect("GET", "/v1/jobs/o", NULL, 200, "error.message");
    assert_string_equal(text, "enough");
    free(text);
    expect_soon("/v1/jobs?where=status%3Drunning%20and%20workflow%3Dshop.order", "{\"items\":[]}");
    st_end();
}

/* Measures: in segments of the trigger's granularity, by key and facet. */
static void measuring(void **state)
{
    struct hc_answer a;
    struct json *tree = NULL;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    deploy("?activate=true", shop("1", false), 201);
    for (int i = 0; i < 3; i++) {
        char body[128];
        (void)snprintf(body, sizeof body,
                       "{\"topic\":\"shop.order\",\"input\":{\"amount\":1,\"colour\":\"%s\"}}",
                       i < 2 ? "red" : "blue");
        free(st_expect("POST", "/v1/jobs", body, 201, "id"));
    }
    assert_int_equal(
        st_call("GET", "/v1/stats?topic=shop.order&range=1h&data=%7B%22colour%22%3A%22red%22%7D",
                NULL, &a),
        200);
    assert_true(has(&a, "{\"key\":\"red\",\"count\":2,"));
    assert_true(has(&a, "{\"facet\":\"colour:red\",\"count\":2,"));
    assert_int_equal(json_parse(&st.env, (qp_str){a.body, a.body_size}, NULL, &tree), QP_OK);
    assert_int_equal(json_count(json_get(tree, QP_STR("segments"))), 13);
    json_free(tree);
    hc_done(&a);
    /* Before they began there were none; and the segments are those of the time that was asked for. */
    expect_part("GET", "/v1/stats?topic=shop.order&end=-2h&data=%7B%22colour%22%3A%22red%22%7D",
                NULL, 200, "{\"key\":\"red\",\"count\":0,");
    expect_part(
        "GET",
        "/v1/stats?topic=shop.order&range=5m&end=2026-01-31T09%3A07%3A00Z&data=%7B%22colour"
        "%22%3A%22red%22%7D",
        NULL, 200,
        "\"count\":0,\"segments\":[{\"time\":\"2026-01-31T09:00:00.000Z\",\"count\":0,"
        "\"measures\":{}},{\"time\":\"2026-01-31T09:05:00.000Z\",\"count\":0,\"measures\":{}}]");
    expect_part("GET", "/v1/stats?topic=shop.order&end=soon", NULL, 400, "\"pointer\":\"end\"");
    expect_part("GET", "/v1/stats?topic=shop.order&end=1969-01-01T00%3A00%3A00Z", NULL, 400,
                "bad_parameter");
    expect_part("GET", "/v1/stats?topic=shop.outer", NULL, 404, "has stats");
    expect_part("GET", "/v1/stats", NULL, 400, "bad_parameter");
    expect_part("GET", "/v1/stats?topic=shop.order&range=0s", NULL, 400, "range");
    expect_part("GET", "/v1/stats?topic=shop.order&data=x", NULL, 400, "malformed");
    st_end();
}

/* Two hooks in a row at one topic, of the jobs whose input has the key. */
#define ROW                                                                                          \
    "app:\n"                                                                                         \
    "  id: row\n"                                                                                    \
    "  version: '1'\n"                                                                               \
    "  graphs:\n"                                                                                    \
    "    - subscribes: row\n"                                                                        \
    "      activities:\n"                                                                            \
    "        want: {type: trigger}\n"                                                                \
    "        first: {type: hook, job: {maps: {first: '{$self.hook.data.n}'}}}\n"                     \
    "        second: {type: hook, job: {maps: {second: '{$self.hook.data.n}'}}}\n"                   \
    "      transitions: {want: [{to: first}], first: [{to: second}]}\n"                              \
    "      hooks:\n"                                                                                 \
    "        go:\n"                                                                                  \
    "          - to: first\n"                                                                        \
    "            conditions:\n"                                                                      \
    "              match: [{expected: '{want.output.data.key}', actual: '{$self.hook.data.key}'}]\n" \
    "          - to: second\n"                                                                       \
    "            conditions:\n"                                                                      \
    "              match: [{expected: '{want.output.data.key}', actual: '{$self.hook.data.key}'}]\n"

/* A signal to the key "k", which says which one it is; what the answer says. id NULL: none. */
static void signal_row(int number, const char *id, const char *outcome, bool repeated)
{
    char body[256];
    char part[128];
    int n = snprintf(body, sizeof body, "{\"topic\":\"go\",\"payload\":{\"key\":\"k\",\"n\":%d}",
                     number);
    (void)snprintf(body + n, sizeof body - (size_t)n, id == NULL ? "}" : ",\"id\":\"%s\"}", id);
    (void)snprintf(part, sizeof part, "{\"accepted\":true,\"outcome\":\"%s\",\"repeated\":%s}",
                   outcome, repeated ? "true" : "false");
    expect_part("POST", "/v1/signals", body, 202, part);
}

/* Waits until the job has entered this activity. */
static void await_activity(const char *id, const char *name)
{
    char path[64];
    bool there = false;
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/activities", id);
    while (!there) {
        struct hc_answer a;
        st_call("GET", path, NULL, &a);
        there = strstr(a.body, name) != NULL;
        hc_done(&a);
    }
}

static void start_row(const char *id)
{
    char body[128];
    (void)snprintf(body, sizeof body, "{\"topic\":\"row\",\"id\":\"%s\",\"input\":{\"key\":\"k\"}}",
                   id);
    free(st_expect("POST", "/v1/jobs", body, 201, "id"));
    await_activity(id, "\"first,");
}

static void ends_with(const char *id, const char *output)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/result?wait=20s", id);
    expect_part("GET", path, NULL, 200, output);
}

/* A signal with an id is delivered once, however often and whenever it is sent, and the answer says what became of it:
 * the second hook waits for the signal that is meant for it. */
static void signals_once(void **state)
{
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    deploy("?activate=true", ROW, 201);
    start_row("j");
    signal_row(1, "a", "delivered", false);
    signal_row(1, "a", "delivered", true);
    await_activity("j", "\"second,");
    signal_row(1, "a", "delivered", true);
    assert_int_equal(st_call("GET", "/v1/jobs/j/result?wait=100ms", NULL, NULL), 202);
    signal_row(2, "b", "delivered", false);
    ends_with("j", "{\"first\":1,\"second\":2}");
    signal_row(1, "a", "delivered", true);
    signal_row(3, "c", "kept", false);
    signal_row(3, "c", "kept", true);
    signal_row(4, NULL, "kept", false);
    start_row("k");
    ends_with("k", "{\"first\":3,\"second\":4}");
    signal_row(3, "c", "delivered", true);
    st_end();
}

/* What was kept when a job had ended does not release its retry; what is sent afterwards does. */
static void signals_and_retries(void **state)
{
    char path[128];
    char *id;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    deploy("?activate=true", ROW, 201);
    start_row("j");
    signal_row(1, NULL, "delivered", false);
    await_activity("j", "\"second,");
    expect_part("POST", "/v1/jobs/j/cancel", "{}", 200, "j");
    signal_row(8, NULL, "kept", false);
    signal_row(9, "kept", "kept", false);
    free(st_expect("POST", "/v1/jobs", "{\"topic\":\"work\",\"id\":\"other\"}", 201, "id"));
    assert_int_equal(st_call("GET", "/v1/jobs/other/result?wait=5ms", NULL, NULL), 202); /* time */
    id = st_expect("POST", "/v1/jobs/j/retry", "{}", 200, "id");
    await_activity(id, "\"second,"); /* what the first has got is its own */
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/result?wait=100ms", id);
    assert_int_equal(st_call("GET", path, NULL, NULL), 202);
    signal_row(9, "kept", "kept", true);
    signal_row(3, NULL, "delivered", false);
    ends_with(id, "{\"first\":1,\"second\":3}");
    free(id);
    st_end();
}

/* ---------------------------------------------------------------------------------------- what waits */

/* One graph for each thing that a job can wait for, and one whose job works from its beginning. */
#define WAITS                                                                                        \
    "app:\n"                                                                                         \
    "  id: waits\n"                                                                                  \
    "  version: '1'\n"                                                                               \
    "  graphs:\n"                                                                                    \
    "    - subscribes: at.hook\n"                                                                    \
    "      activities: {t: {type: trigger}, hook: {type: hook}, after: {type: worker, topic: do}}\n" \
    "      transitions: {t: [{to: hook}], hook: [{to: after}]}\n"                                    \
    "      hooks:\n"                                                                                 \
    "        go:\n"                                                                                  \
    "          - to: hook\n"                                                                         \
    "            conditions:\n"                                                                      \
    "              match: [{expected: '{$job.metadata.jid}', actual: '{$self.hook.data.id}'}]\n"     \
    "    - subscribes: at.timer\n"                                                                   \
    "      activities: {t2: {type: trigger}, nap: {type: hook, sleep: 3600}}\n"                      \
    "      transitions: {t2: [{to: nap}]}\n"                                                         \
    "    - subscribes: at.child\n"                                                                   \
    "      activities: {t3: {type: trigger}, call: {type: await, topic: at.work}}\n"                 \
    "      transitions: {t3: [{to: call}]}\n"                                                        \
    "    - subscribes: at.work\n"                                                                    \
    "      activities: {t4: {type: trigger}, work: {type: worker, topic: do}}\n"                     \
    "      transitions: {t4: [{to: work}]}\n"                                                        \
    "    - subscribes: at.both\n"                                                                    \
    "      activities: {t5: {type: trigger}, rest: {type: hook, sleep: 3600},\n"                     \
    "                   beside: {type: worker, topic: do}}\n"                                        \
    "      transitions: {t5: [{to: rest}, {to: beside}]}\n"

static int list_ids(void *context, const struct qp_job_info *job)
{
    char *ids = context;
    size_t n = strlen(ids);
    (void)snprintf(ids + n, 256 - n, "%.*s ", STR_ARG(job->id));
    return QP_OK;
}

/* The ids of a page, as the API has them. */
static void page_ids(const struct hc_answer *a, char ids[256])
{
    ids[0] = '\0';
    for (int i = 0; i < 20; i++) {
        char path[32];
        char *id;
        size_t n = strlen(ids);
        (void)snprintf(path, sizeof path, "items.%d.id", i);
        id = hc_member(a, path);
        if (id == NULL) {
            return;
        }
        (void)snprintf(ids + n, 256 - n, "%s ", id);
        free(id);
    }
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In the order of names: when each was started is not what is asked here. A child has an id that nobody has chosen. */
static const char *sorted(char *ids)
{
    static char text[256];
    char *words[20];
    size_t count = 0;
    size_t n = 0;
    char *rest = NULL;
    for (char *w = strtok_r(ids, " ", &rest); w != NULL; w = strtok_r(NULL, " ", &rest)) {
        words[count++] = strlen(w) > 8 ? "child" : w;
    }
    qsort(words, count, sizeof *words, compare_words);
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s ", words[i]);
    }
    return text;
}

/* These and no others have the status: in the list over HTTP with its exact count, by the filter of the library, in its
 * count, and in the numbers for Prometheus. */
static void expect_status(const char *status, const char *ids, int64_t count)
{
    char path[96];
    char where[32];
    char found[256];
    char line[96];
    struct qp_err err = {0};
    struct qp_count counted = {0};
    char cursor[QP_CURSOR_SIZE];
    struct qp_list list;
    struct hc_answer a;
    (void)snprintf(where, sizeof where, "status=%s", status);
    (void)snprintf(path, sizeof path, "/v1/jobs?where=status%%3D%s&count=exact", status);
    (void)snprintf(line, sizeof line, "\"count\":%lld", (long long)count);
    assert_int_equal(st_call("GET", path, NULL, &a), 200);
    page_ids(&a, found);
    assert_string_equal(sorted(found), ids);
    if (!has(&a, line)) {
        fail_msg("%s: not %s: %s", path, line, a.body);
    }
    hc_done(&a);
    list = (struct qp_list){.where = str_from(where), .limit = 100};
    found[0] = '\0';
    assert_int_equal(qp_job_list(server_engine(st.server), &list, found, list_ids, cursor, &err),
                     QP_OK);
    assert_string_equal(sorted(found), ids);
    assert_int_equal(qp_job_count(server_engine(st.server), QP_NONE, str_from(where),
                                  QP_COUNT_EXACT, &counted, &err),
                     QP_OK);
    assert_int_equal(counted.count, count);
    (void)snprintf(line, sizeof line, "\nquipu_jobs{namespace=\"default\",status=\"%s\"} %lld\n",
                   status, (long long)count);
    expect_part("GET", "/metrics", NULL, 200, line);
}

static void start_of(const char *topic, const char *id, const char *more)
{
    char body[160];
    (void)snprintf(body, sizeof body, "{\"topic\":\"%s\",\"id\":\"%s\"%s}", topic, id, more);
    free(st_expect("POST", "/v1/jobs", body, 201, NULL));
}

/* A job is `waiting` when all that it has open waits for time, a signal or a child, and not when one of its tasks is ready
 * or at a worker; wherever jobs are listed, counted and found by their status, and at once when that changes. */
static void what_waits(enum st_kind kind)
{
    struct hc_answer a;
    st_begin(kind, ST_OPEN);
    deploy("?activate=true", WAITS, 201);
    start_of("at.hook", "hook", "");
    start_of("at.timer", "timer", "");
    start_of("at.child", "parent", "");
    start_of("at.both", "both", "");
    start_of("plain", "later", ",\"delay\":\"1h\"");
    start_of("plain", "plain", "");
    await_activity("hook", "\"hook,");
    await_activity("timer", "\"nap,");
    await_activity("parent", "\"call,");
    await_activity("both", "\"beside,");
    expect_status("waiting", "hook later parent timer ", 4);
    expect_status("running", "both child plain ", 3);
    free(st_expect("POST", "/v1/signals", "{\"topic\":\"go\",\"payload\":{\"id\":\"hook\"}}", 202,
                   NULL));
    await_activity("hook", "\"after,");
    expect_status("waiting", "later parent timer ", 3);
    expect_status("running", "both child hook plain ", 4);
    a = st_work("{\"worker\":\"w\",\"topics\":[\"do\",\"plain\"],\"want\":4,\"wait\":\"5s\"}");
    assert_int_equal(a.status, 200);
    hc_done(&a);
    expect_status("waiting", "later parent timer ", 3); /* at a worker is not waiting either */
    expect_status("running", "both child hook plain ", 4);
    st_end();
}

static void what_waits_in_a_file(void **state)
{
    (void)state;
    what_waits(ST_FILE);
}

static void what_waits_in_a_database(void **state)
{
    (void)state;
    what_waits(ST_DATABASE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deploying),
        cmocka_unit_test(broken),
        cmocka_unit_test(versions),
        cmocka_unit_test(running),
        cmocka_unit_test(signals_once),
        cmocka_unit_test(signals_and_retries),
        cmocka_unit_test(ending),
        cmocka_unit_test(measuring),
        cmocka_unit_test(what_waits_in_a_file),
        cmocka_unit_test(what_waits_in_a_database),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

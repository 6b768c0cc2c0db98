/* test_properties_api.c - properties of flows over HTTP: set by workers in any language, seen and found without one
 *
 * What is refused: test_flow_work.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "servertest.h"

#define ASK "{\"worker\":\"w\",\"flows\":[{\"name\":\"f\"}],\"wait\":\"10s\"}"
#define SLEEP(loc) "{\"op\":\"sleep\",\"loc\":\"" loc "\",\"v\":1,\"until\":1}"
#define LISTEN(loc) "{\"op\":\"listen\",\"loc\":\"" loc "\",\"v\":1,\"names\":[\"go\"]}"
#define SET(json) "{\"op\":\"set\",\"properties\":" json "}"

/* The next decision: the commands are its result. */
static void decide(const char *commands)
{
    struct hc_answer a = st_work(ASK);
    char *token = a.status == 200 ? hc_member(&a, "tasks.0.token") : NULL;
    char *base = hc_member(&a, "tasks.0.base");
    char body[1024];
    char *ack;
    if (token == NULL) {
        fail_msg("no task: %d %s", a.status, a.body);
    }
    hc_done(&a);
    (void)snprintf(
        body, sizeof body,
        "{\"worker\":\"w\",\"results\":[{\"token\":\"%s\",\"base\":%s,\"commands\":[%s]}]}", token,
        base, commands);
    a = st_work(body);
    ack = hc_member(&a, "acks.0.status");
    if (ack == NULL || strcmp(ack, "ok") != 0) {
        fail_msg("%s: %s", commands, a.body);
    }
    free(ack);
    free(base);
    free(token);
    hc_done(&a);
}

static void start(const char *id)
{
    char body[128];
    (void)snprintf(body, sizeof body, "{\"workflow\":\"f\",\"id\":\"%s\"}", id);
    free(st_expect("POST", "/v1/jobs", body, 201, NULL));
}

static void expect_properties(const char *id, const char *json)
{
    char path[96];
    struct hc_answer a;
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/properties", id);
    assert_int_equal(st_call("GET", path, NULL, &a), 200);
    if (strcmp(a.body, json) != 0) {
        fail_msg("%s has %s, not %s", id, a.body, json);
    }
    hc_done(&a);
}

/* The ids of a list, in their order, with a comma behind each; WHERE as it stands in a URL. */
static void expect_found(const char *where, const char *ids)
{
    char path[256];
    char found[256] = "";
    struct hc_answer a;
    (void)snprintf(path, sizeof path, "/v1/jobs?order=oldest&where=%s", where);
    assert_int_equal(st_call("GET", path, NULL, &a), 200);
    for (int i = 0; i < 16; i++) {
        char member[32];
        char *id;
        (void)snprintf(member, sizeof member, "items.%d.id", i);
        id = hc_member(&a, member);
        if (id == NULL) {
            break;
        }
        (void)snprintf(found + strlen(found), sizeof found - strlen(found), "%s,", id);
        free(id);
    }
    if (strcmp(found, ids) != 0) {
        fail_msg("%s finds %s, not %s", where, found, ids);
    }
    hc_done(&a);
}

static void act(const char *id, const char *what, const char *body, int status)
{
    char path[96];
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/%s", id, what);
    free(st_expect("POST", path, body, status, NULL));
}

/* Set with the decision's commit, as a whole; there while no worker is, and when the server has been away. */
static void seen_from_outside(enum st_kind kind)
{
    struct hc_answer a;
    char *text;
    st_begin(kind, ST_TOKENS);
    start("one");
    start("two");
    expect_properties("one", "{}");
    decide(LISTEN("{1}") "," SET("{\"status\":\"new\",\"total\":12.50,\"tags\":[1,{\"a\":null}]}"));
    decide(LISTEN("{1}") "," SET("{\"status\":\"paid\",\"total\":7}"));
    expect_properties("one", "{\"status\":\"new\",\"total\":12.50,\"tags\":[1,{\"a\":null}]}");
    if (kind != ST_MEMORY) {
        st_reopen();
    }
    expect_properties("two", "{\"status\":\"paid\",\"total\":7}");
    text = st_expect("GET", "/v1/jobs/two", NULL, 200, "properties.status");
    assert_string_equal(text, "paid");
    free(text);
    expect_found("properties.status%3Dpaid", "two,");
    expect_found("properties.status%3D%22paid%22%20and%20workflow%3Df", "two,");
    expect_found("properties.total%3E%3D7", "one,two,");
    expect_found("properties.total%3E7", "one,");
    expect_found("properties.status%5E%3Dne%20or%20id%3Dtwo", "one,two,");
    expect_found("properties.none!%3D1", "one,two,");
    expect_found("properties.none%3D1", "");
    assert_int_equal(st_call("GET", "/v1/jobs?where=properties.%3D1", NULL, NULL), 400);
    assert_int_equal(st_call("GET", "/v1/jobs/none/properties", NULL, NULL), 404);
    /* what is not in the next one is gone; without one they stay */
    act("two", "signals", "{\"topic\":\"go\"}", 202);
    decide(SLEEP("{2}") "," SET("{\"status\":\"paid\"}"));
    expect_properties("two", "{\"status\":\"paid\"}");
    decide("{\"op\":\"return\",\"output\":1}");
    expect_properties("two", "{\"status\":\"paid\"}");
    text = st_expect("GET", "/v1/jobs/two", NULL, 200, "status");
    assert_string_equal(text, "completed");
    free(text);
    /* with a flow that fails, too */
    act("one", "signals", "{\"topic\":\"go\"}", 202);
    decide(SET("{\"status\":\"lost\"}") ",{\"op\":\"fail\",\"error\":{\"code\":500}}");
    expect_properties("one", "{\"status\":\"lost\"}");
    assert_int_equal(st_call("GET", "/v1/jobs/one/export", NULL, &a), 200);
    assert_non_null(strstr(a.body, "\"properties\":{\"status\":\"lost\"}"));
    hc_done(&a);
    /* one of another kind has none */
    st_start("plain", "1");
    expect_properties("plain", "{}");
    st_end();
}

static void with_memory(void **state)
{
    (void)state;
    seen_from_outside(ST_MEMORY);
}

static void with_a_file(void **state)
{
    (void)state;
    seen_from_outside(ST_FILE);
}

static void with_a_database(void **state)
{
    (void)state;
    seen_from_outside(ST_DATABASE);
}

/* A decision that was made before the cancel counts in nothing. A fork has no properties before its code has run over what it
 * has taken over: which of them stood at its place only the code can say. */
static void cancelled_and_forked(void **state)
{
    struct hc_answer a;
    char *token, *base;
    char body[512];
    (void)state;
    st_begin(ST_FILE, ST_TOKENS);
    start("one");
    decide(SLEEP("{1}") "," SET("{\"step\":1}"));
    decide(LISTEN("{2}") "," SET("{\"step\":2}"));
    act("one", "fork", "{\"id\":\"two\",\"at\":\"{2}\"}", 201);
    expect_properties("two", "{}");
    decide(LISTEN("{2}") "," SET("{\"step\":3}"));
    expect_properties("two", "{\"step\":3}");
    expect_properties("one", "{\"step\":2}");
    act("one", "signals", "{\"topic\":\"go\"}", 202);
    a = st_work(ASK);
    token = hc_member(&a, "tasks.0.token");
    base = hc_member(&a, "tasks.0.base");
    hc_done(&a);
    act("one", "cancel", "{}", 200);
    (void)snprintf(
        body, sizeof body,
        "{\"worker\":\"w\",\"results\":[{\"token\":\"%s\",\"base\":%s,\"commands\":[" SLEEP(
            "{3}") "," SET("{\"step\":9}") "]}]}",
        token, base);
    a = st_work(body);
    assert_non_null(strstr(a.body, "\"flow\":\"behind\""));
    hc_done(&a);
    expect_properties("one", "{\"step\":2}");
    decide(SET("{\"step\":\"undone\"}") ",{\"op\":\"fail\",\"error\":{\"code\":499}}");
    expect_properties("one", "{\"step\":\"undone\"}");
    free(base);
    free(token);
    st_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_memory),
        cmocka_unit_test(with_a_file),
        cmocka_unit_test(with_a_database),
        cmocka_unit_test(cancelled_and_forked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

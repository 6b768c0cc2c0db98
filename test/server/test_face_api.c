/* test_face_api.c - a third kind of job over HTTP, without a change in src: it starts, answers a worker, is shown, forked and
 * cancelled by what its face says (support/toyface.h) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "servertest.h"
#include "support/toyface.h"

static void begin(enum st_kind kind)
{
    static const struct face *const faces[] = {&toy_face};
    st_init(kind, ST_OPEN);
    st.options.faces = faces;
    st.options.face_count = ARRAY_COUNT(faces);
    st_open();
}

static void start(const char *id)
{
    char body[128];
    (void)snprintf(body, sizeof body, "{\"topic\":\"toy\",\"id\":\"%s\",\"input\":{\"a\":1}}", id);
    free(st_expect("POST", "/v1/jobs", body, 201, "id"));
}

/* The token of the next task, which must be of this job and step, and have what the kind adds. To be freed. */
static char *take(const char *id, const char *step)
{
    struct hc_answer a =
        st_work("{\"worker\":\"w\",\"topics\":[\"toy.work\"],\"want\":1,\"wait\":\"10s\"}");
    char *box = hc_member(&a, "tasks.0.toy.box");
    char *at = hc_member(&a, "tasks.0.toy.at");
    char *token = hc_member(&a, "tasks.0.token");
    if (box == NULL || at == NULL || token == NULL) {
        fail_msg("no toy: %d %s", a.status, a.body);
    }
    assert_string_equal(box, id);
    assert_memory_equal(at, step, strlen(step));
    free(box);
    free(at);
    hc_done(&a);
    return token;
}

static void bring(char *token, const char *output, const char *ack, const char *detail)
{
    char body[512];
    struct hc_answer a;
    char *status;
    (void)snprintf(body, sizeof body,
                   "{\"worker\":\"w\",\"results\":[{\"token\":\"%s\",\"output\":%s}]}", token,
                   output);
    a = st_work(body);
    status = hc_member(&a, "acks.0.status");
    if (status == NULL || strcmp(status, ack) != 0 || strstr(a.body, detail) == NULL) {
        fail_msg("%s: %d %s", body, a.status, a.body);
    }
    free(status);
    hc_done(&a);
}

static void expect_in(const char *path, const char *text)
{
    struct hc_answer a;
    assert_int_equal(st_call("GET", path, NULL, &a), 200);
    if (strstr(a.body, text) == NULL) {
        fail_msg("%s lacks %s: %s", path, text, a.body);
    }
    hc_done(&a);
}

/* Proves that a start is refused as its kind says, that a worker gets what its kind adds to a task, that what it brings may
 * be refused and is then still its task, and that a job is shown as its kind says. */
static void from_start_to_end(enum st_kind kind)
{
    char *token;
    begin(kind);
    free(st_expect("POST", "/v1/jobs", "{\"topic\":\"toy\",\"input\":1}", 422, "code"));
    start("bear");
    token = take("bear", "one,");
    bring(token, "17", "refused", "\"pointer\":\"/output\"");
    bring(token, "{\"b\":2}", "ok", "");
    free(token);
    expect_in("/v1/jobs/bear", "\"data\":{\"b\":2}");
    expect_in("/v1/jobs/bear/activities", "\"type\":\"toybox\"");
    expect_in("/v1/jobs/bear/export", ",\"toy\":true}");
    expect_in("/v1/jobs/bear/decisions", "{\"toy\":\"bear\"}");
    token = take("bear", "two,");
    bring(token, "{\"c\":3}", "ok", "");
    free(token);
    expect_in("/v1/jobs/bear/result?wait=10s", "\"output\":{\"c\":3}");
    expect_in("/metrics", "quipu_toy_turns ");
    st_end();
}

static void test_file(void **state)
{
    (void)state;
    from_start_to_end(ST_FILE);
}

static void test_memory(void **state)
{
    (void)state;
    from_start_to_end(ST_MEMORY);
}

/* Proves that a fork, and the retry of a job that has ended, take over what the kind copies and go on from there; and that
 * the kind can refuse. */
static void test_fork(void **state)
{
    char *token;
    (void)state;
    begin(ST_FILE);
    start("bear");
    token = take("bear", "one,");
    free(st_expect("POST", "/v1/jobs/bear/fork", "{\"id\":\"early\"}", 409, "code"));
    bring(token, "{\"b\":2}", "ok", "");
    free(token);
    token = take("bear", "two,");
    bring(token, "{\"c\":3}", "ok", "");
    free(token);
    free(st_expect("POST", "/v1/jobs/bear/fork", "{\"id\":\"cub\"}", 201, "id"));
    token = take("cub", "two,");
    expect_in("/v1/jobs/cub", "\"data\":{\"b\":2}");
    bring(token, "{\"d\":4}", "ok", "");
    free(token);
    expect_in("/v1/jobs/cub/result?wait=10s", "\"output\":{\"d\":4}");
    free(st_expect("POST", "/v1/jobs/cub/retry", "{}", 200, "id"));
    st_end();
}

/* Proves that a job which is asked to end does it in its kind's own way, and that a kill ends it at once. */
static void test_cancel(void **state)
{
    char *status;
    (void)state;
    begin(ST_FILE);
    start("bear");
    free(st_expect("POST", "/v1/jobs/bear/cancel", "{\"reason\":\"bed time\"}", 200, "id"));
    expect_in("/v1/jobs/bear/result?wait=10s", "\"output\":{\"cancelled\":true}");
    expect_in("/v1/jobs/bear/history", "\"kind\":\"asked\"");
    status = st_expect("GET", "/v1/jobs/bear", NULL, 200, "status");
    assert_string_equal(status, "completed");
    free(status);
    start("doll");
    free(st_expect("POST", "/v1/jobs/doll/kill", "{}", 200, "id"));
    status = st_expect("GET", "/v1/jobs/doll/result?wait=10s", NULL, 200, "status");
    assert_string_equal(status, "interrupted");
    free(status);
    st_end();
}

static void signal_is(const char *path, const char *body, int code, const char *member,
                      const char *value)
{
    char *found = st_expect("POST", path, body, code, member);
    assert_string_equal(found, value);
    free(found);
}

/* Proves that a signal to a job that takes signals by name is kept whatever its name is, once per id, by the job's id, by
 * its custom id, or with its start; and what is answered when there is no such job, it has ended, or a code is given. */
static void test_signals(void **state)
{
    (void)state;
    begin(ST_FILE);
    free(st_expect("POST", "/v1/jobs",
                   "{\"topic\":\"toy\",\"id\":\"bear\",\"custom_id\":\"c\",\"input\":{},"
                   "\"signal\":{\"topic\":\"hug\",\"key\":\"bear\",\"id\":\"1\"}}",
                   201, "id"));
    signal_is("/v1/jobs/bear/signals", "{\"topic\":\"hug\",\"id\":\"1\"}", 202, "repeated", "true");
    signal_is("/v1/jobs/bear/signals", "{\"topic\":\"hug\",\"id\":\"2\"}", 202, "outcome", "kept");
    signal_is("/v1/jobs/bear/signals", "{\"topic\":\"any.name\"}", 202, "outcome", "kept");
    signal_is("/v1/jobs/c/signals", "{\"topic\":\"hug\",\"workflow\":\"toy\",\"id\":\"2\"}", 202,
              "repeated", "true");
    free(st_expect("POST", "/v1/jobs/c/signals", "{\"topic\":\"hug\"}", 404, "code"));
    free(st_expect("POST", "/v1/jobs/d/signals", "{\"topic\":\"hug\",\"workflow\":\"toy\"}", 404,
                   "code"));
    free(st_expect("POST", "/v1/jobs/bear/signals", "{\"topic\":\"hug\",\"code\":202}", 400,
                   "code"));
    free(st_expect("POST", "/v1/jobs/bear/kill", "{}", 200, "id"));
    signal_is("/v1/jobs/bear/signals", "{\"topic\":\"hug\"}", 409, "code", "job_closed");
    free(st_expect("POST", "/v1/jobs/c/signals", "{\"topic\":\"hug\",\"workflow\":\"toy\"}", 404,
                   "code"));
    st_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file),   cmocka_unit_test(test_memory),  cmocka_unit_test(test_fork),
        cmocka_unit_test(test_cancel), cmocka_unit_test(test_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

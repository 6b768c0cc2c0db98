/* test_flow_work.c - flows over POST /v1/work: decisions there and back, what is refused, jobs that are paused, parked, over */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "servertest.h"
#include "support/testenv.h"

#define ASK "{\"worker\":\"w\",\"build\":\"b1\",\"flows\":[{\"name\":\"f\"}],\"wait\":\"10s\"}"
#define ASK_NOW "{\"worker\":\"w\",\"build\":\"b1\",\"flows\":[{\"name\":\"f\"}],\"wait\":\"0s\"}"
#define ACTIVITY(loc)                                                                              \
    "{\"op\":\"activity\",\"loc\":\"" loc "\",\"v\":1,\"name\":\"a\",\"input\":null}"
#define SLEEP(loc) "{\"op\":\"sleep\",\"loc\":\"" loc "\",\"v\":1,\"until\":1}"
#define SET(json) "{\"op\":\"set\",\"properties\":" json "}"
#define RETURN "{\"op\":\"return\",\"output\":1}"
#define CHILD(loc, rest) "{\"op\":\"child\",\"loc\":\"" loc "\",\"v\":1,\"input\":null," rest "}"

static void flow_start(const char *id)
{
    char body[128];
    (void)snprintf(body, sizeof body, "{\"workflow\":\"f\",\"id\":\"%s\",\"input\":{\"n\":1}}", id);
    free(st_expect("POST", "/v1/jobs", body, 201, NULL));
}

/* A task, by the body of the call: its token, to be freed; and its base. */
static char *take(const char *body, int *out_base)
{
    struct hc_answer a = st_work(body);
    char *token = a.status == 200 ? hc_member(&a, "tasks.0.token") : NULL;
    char *base = hc_member(&a, "tasks.0.base");
    if (token == NULL) {
        fail_msg("no task: %d %s", a.status, a.body == NULL ? "" : a.body);
    }
    *out_base = base == NULL ? -1 : (int)strtol(base, NULL, 10);
    free(base);
    hc_done(&a);
    return token;
}

/* A result of any size; the answer. `rest` are members beside the token. */
static struct hc_answer bring(const char *token, const char *rest)
{
    size_t size = strlen(token) + strlen(rest) + 128;
    char *body = malloc(size);
    struct hc_answer a;
    assert_non_null(body);
    (void)snprintf(body, size,
                   "{\"worker\":\"w\",\"build\":\"b1\",\"results\":[{\"token\":\"%s\",%s}]}", token,
                   rest);
    a = st_work(body);
    free(body);
    return a;
}

static void expect_ack(struct hc_answer *a, const char *member, const char *expected,
                       const char *what)
{
    char path[64];
    char *text;
    (void)snprintf(path, sizeof path, "acks.0.%s", member);
    text = hc_member(a, path);
    if (a->status != 200 || (text == NULL) != (expected == NULL) ||
        (text != NULL && strcmp(text, expected) != 0)) {
        fail_msg("%.200s: %s, expected %s: %d %s", what, text == NULL ? "none" : text,
                 expected == NULL ? "none" : expected, a->status, a->body);
    }
    free(text);
}

static void bring_ok(const char *token, const char *rest, const char *ack)
{
    struct hc_answer a = bring(token, rest);
    expect_ack(&a, "status", ack, rest);
    hc_done(&a);
}

static char *job_member(const char *id, const char *member)
{
    char path[96];
    struct hc_answer a;
    char *text;
    (void)snprintf(path, sizeof path, "/v1/jobs/%s", id);
    assert_int_equal(st_call("GET", path, NULL, &a), 200);
    text = hc_member(&a, member);
    hc_done(&a);
    return text;
}

static void expect_job(const char *id, const char *member, const char *expected)
{
    char *text = job_member(id, member);
    if (text == NULL || strncmp(text, expected, strlen(expected)) != 0) {
        fail_msg("%s of %s is '%s', expected '%s'", member, id, text == NULL ? "none" : text,
                 expected);
    }
    free(text);
}

/* The flow with an answered activity at {1} and a branch of version 2 at {2}; its next decision is in hand. */
static char *second_decision(const char *id, int *out_base)
{
    char *token, *work;
    int base;
    flow_start(id);
    token = take(ASK, &base);
    bring_ok(token,
             "\"base\":0,\"commands\":[" ACTIVITY(
                 "{1}") ",{\"op\":\"branch\",\"loc\":\"{2}\",\"v\":2,\"name\":\"part\"}]",
             "ok");
    free(token);
    work = take("{\"worker\":\"w\",\"topics\":[\"a\"],\"wait\":\"10s\"}", &base);
    bring_ok(work, "\"output\":7", "ok");
    free(work);
    return take(ASK, out_base);
}

/* ------------------------------------------------------------------------------------ there and back */

/* A flow whose name no worker has announced waits, and says so; then it runs: history in, commands out, in one call per
 * task. */
static void there_and_back(enum st_kind kind)
{
    struct hc_answer a;
    char *token;
    int base;
    st_begin(kind, ST_TOKENS);
    flow_start("one");
    expect_job("one", "unserved.flow", "f");
    a = st_work(ASK);
    token = hc_member(&a, "tasks.0.token");
    assert_non_null(strstr(a.body, "\"kind\":\"flow\""));
    assert_non_null(strstr(a.body, "\"log\":[]"));
    assert_non_null(strstr(a.body, "\"input\":{\"n\":1}"));
    assert_non_null(strstr(a.body, "\"since\":0"));
    hc_done(&a);
    /* one call brings the decision and waits for the activity's task, which it has made */
    {
        char body[1024];
        char *seq, *name;
        (void)snprintf(
            body, sizeof body,
            "{\"worker\":\"w\",\"topics\":[\"a\"],\"flows\":[{\"name\":\"f\"}],"
            "\"wait\":\"10s\",\"results\":[{\"token\":\"%s\",\"base\":0,\"commands\":[" ACTIVITY(
                "{1}") "]}]}",
            token);
        free(token);
        a = st_work(body);
        expect_ack(&a, "status", "ok", body);
        seq = hc_member(&a, "acks.0.seq");
        assert_non_null(seq);
        free(seq);
        name = hc_member(&a, "tasks.0.name");
        assert_string_equal(name, "a");
        free(name);
        token = hc_member(&a, "tasks.0.token");
        hc_done(&a);
        (void)snprintf(body, sizeof body,
                       "{\"worker\":\"w\",\"topics\":[\"a\"],\"flows\":[{\"name\":\"f\"}],"
                       "\"wait\":\"10s\",\"results\":[{\"token\":\"%s\",\"output\":{\"x\":1.10}}]}",
                       token);
        free(token);
        a = st_work(body);
        expect_ack(&a, "status", "ok", body);
        assert_non_null(strstr(a.body, "\"ok\":{\"x\":1.10}"));
        assert_non_null(
            strstr(a.body, "\"loc\":\"{1}\",\"v\":1,\"op\":\"activity\",\"name\":\"a\""));
        token = hc_member(&a, "tasks.0.token");
        name = hc_member(&a, "tasks.0.base");
        base = (int)strtol(name, NULL, 10);
        free(name);
        hc_done(&a);
        (void)snprintf(body, sizeof body, "\"base\":%d,\"commands\":[" RETURN "]", base);
        bring_ok(token, body, "ok");
        bring_ok(token, body, "stale");
        free(token);
    }
    expect_job("one", "status", "completed");
    st_end();
}

static void with_a_file(void **state)
{
    (void)state;
    there_and_back(ST_FILE);
}

static void with_a_database(void **state)
{
    (void)state;
    there_and_back(ST_DATABASE);
}

/* --------------------------------------------------------------------------------------------- refused */

/* Rule 10: each row is refused with its code and pointer, nothing is written, the task stays in hand; the third parks. */
struct bad {
    const char *rest;
    const char *code;
    const char *pointer;
    int fill; /* 'x' so often in place of '#'; -n: n sleeps in its place */
};
#define DECISION(commands) "\"base\":0,\"commands\":[" commands "]"
static const struct bad bad_rows[] = {
    {DECISION(SLEEP("{3")), "bad_location", "/commands/0/loc", 0},
    {DECISION(SLEEP("{3.0}")), "bad_location", "/commands/0/loc", 0},
    {DECISION(SLEEP("{1}")), "occupied", "/commands/0/loc", 0},
    {DECISION(SLEEP("{}")), "bad_location", "/commands/0/loc", 0},
    {DECISION(SLEEP("{3}") "," SLEEP("{3}")), "occupied", "/commands/1/loc", 0},
    {DECISION(SLEEP("{3}") "," SLEEP("{3, 1}")), "bad_location", "/commands/1/loc", 0},
    {DECISION(SLEEP("{4}")), "bad_location", "/commands/0/loc", 0},
    {DECISION("{\"op\":\"sleep\",\"loc\":\"{3}\",\"v\":0,\"until\":1}"), "bad_version",
     "/commands/0/v", 0},
    {DECISION(SLEEP("{2, 1}")), "bad_version", "/commands/0/v", 0},
    {DECISION("#"), "decision_too_large", "/commands", -(LIMIT_FLOW_COMMANDS + 1)},
    {DECISION("{\"op\":\"teleport\",\"loc\":\"{3}\",\"v\":1}"), "sdk_too_old", "/commands/0/op", 0},
    {DECISION(RETURN "," SLEEP("{3}")), "after_end", "/commands/1", 0},
    {DECISION(RETURN "," RETURN), "after_end", "/commands/1", 0},
    {DECISION("{\"op\":\"sleep\",\"loc\":\"{3}\",\"v\":1,\"until\":9007199254740991}"), "bad_until",
     "/commands/0/until", 0},
    {DECISION("{\"op\":\"activity\",\"loc\":\"{3}\",\"v\":1,\"name\":\"a\",\"input\":\"#\"}"),
     "too_large", "/commands/0/input", LIMIT_PAYLOAD_SIZE},
    {DECISION(CHILD("{3}", "\"workflow\":\"g\",\"id\":\"bad-0\"")), "child_exists",
     "/commands/0/id", 0},
    {DECISION(CHILD("{3}", "\"workflow\":\"g\",\"id\":\"new\"") "," CHILD(
         "{4}", "\"workflow\":\"g\",\"id\":\"new\"")),
     "child_exists", "/commands/1/id", 0},
    {DECISION(CHILD("{3}", "\"workflow\":\"g\",\"id\":\"\"")), "wrong_shape", "/commands/0/id", 0},
    {DECISION(CHILD("{3}", "\"workflow\":\"no spaces\"")), "wrong_shape", "/commands/0/workflow",
     0},
    {DECISION(CHILD("{3}", "\"close\":\"kill\"")), "wrong_shape", "/commands/0/workflow", 0},
    {DECISION(CHILD("{3}", "\"workflow\":\"g\",\"close\":\"stop\"")), "wrong_shape",
     "/commands/0/close", 0},
    {DECISION(CHILD("{3}", "\"workflow\":\"g\",\"detached\":1")), "wrong_shape",
     "/commands/0/detached", 0},
    {DECISION(CHILD("{3}", "\"workflow\":\"g\",\"name\":\"g\"")), "wrong_shape", "/commands/0/name",
     0},
    {DECISION("{\"op\":\"child\",\"loc\":\"{3}\",\"v\":1,\"workflow\":\"g\",\"input\":\"#\"}"),
     "too_large", "/commands/0/input", LIMIT_PAYLOAD_SIZE},
    {"\"base\":999999,\"commands\":[" RETURN "]", "bad_base", "/base", 0},
    {"\"commands\":[" RETURN "]", "wrong_shape", "/base", 0},
    {"\"base\":0,\"commands\":[]", "waits_for_nothing", "/commands", 0},
    {"\"base\":0,\"commands\":7", "wrong_shape", "/commands", 0},
    {DECISION(SLEEP("{9, 1}")), "bad_location", "/commands/0/loc", 0},
    {DECISION("{\"op\":\"set\"}"), "wrong_shape", "/commands/0/properties", 0},
    {DECISION(SET("[1]")), "wrong_shape", "/commands/0/properties", 0},
    {DECISION(SET("{\"a b\":1}")), "wrong_shape", "/commands/0/properties", 0},
    {DECISION(SET("{\"a\":\"#\"}")), "too_large", "/commands/0/properties", LIMIT_PROPERTIES_SIZE},
    {DECISION("{\"op\":\"set\",\"loc\":\"{3}\",\"properties\":{}}"), "wrong_shape",
     "/commands/0/loc", 0},
    {DECISION(RETURN "," SET("{}")), "after_end", "/commands/1", 0},
    {DECISION("{\"op\":\"loop\",\"loc\":\"{3}\",\"v\":1,\"name\":\"l\",\"iteration\":0,"
              "\"state\":0,\"properties\":7}"),
     "wrong_shape", "/commands/0/properties", 0},
    {DECISION(SLEEP("{3}")) ",\"thrown\":\"{3\"", "bad_location", "/thrown", 0},
    {DECISION(SLEEP("{3}")) ",\"thrown\":3", "bad_location", "/thrown", 0},
    {DECISION(SLEEP("{3}")) ",\"defers\":\"refund\"", "wrong_shape", "/defers", 0},
    {DECISION(SLEEP("{3}")) ",\"defers\":[\"no spaces\"]", "wrong_shape", "/defers", 0},
    {DECISION(SLEEP("{3}")) ",\"after\":0", "wrong_shape", "/after", 0},
    {"\"status\":\"diverged\",\"at\":\"{1}\"", "wrong_shape", "/history", 0},
    {"\"status\":\"latent\",\"at\":\"{1}\",\"left\":[]", "wrong_shape", "/left", 0},
};

static char *fill_row(const struct bad *row)
{
    static const char sleep[] = "{\"op\":\"sleep\",\"loc\":\"{%d}\",\"v\":1,\"until\":1},";
    const char *mark = strchr(row->rest, '#');
    size_t more = row->fill > 0 ? (size_t)row->fill : (size_t)-row->fill * (sizeof sleep + 8);
    size_t size = strlen(row->rest) + more + 1;
    char *text = malloc(size);
    size_t n = mark == NULL ? strlen(row->rest) : (size_t)(mark - row->rest);
    assert_non_null(text);
    memcpy(text, row->rest, n);
    for (int i = 0; i < row->fill; i++) {
        text[n++] = 'x';
    }
    for (int i = 0; i < -row->fill; i++) {
        n += (size_t)snprintf(text + n, size - n, sleep, i + 3);
    }
    n -= row->fill < 0 ? 1 : 0; /* the last comma */
    (void)snprintf(text + n, size - n, "%s", mark == NULL ? "" : mark + 1);
    return text;
}

/* `base` 0 in a row stands for the task's own. */
static char *with_base(const char *rest, int base)
{
    static const char zero[] = "\"base\":0,";
    size_t size = strlen(rest) + 32;
    char *text = malloc(size);
    assert_non_null(text);
    if (strncmp(rest, zero, sizeof zero - 1) == 0) {
        (void)snprintf(text, size, "\"base\":%d,%s", base, rest + sizeof zero - 1);
    } else {
        (void)snprintf(text, size, "%s", rest);
    }
    return text;
}

static void expect_refused(const struct bad *row, const char *token, const char *rest)
{
    struct hc_answer a = bring(token, rest);
    expect_ack(&a, "status", "refused", rest);
    expect_ack(&a, "code", row->code, rest);
    expect_ack(&a, "pointer", row->pointer, rest);
    hc_done(&a);
}

static void expect_in_hand(const char *token)
{
    char body[512];
    struct hc_answer a;
    (void)snprintf(body, sizeof body, "{\"worker\":\"w\",\"beats\":[{\"token\":\"%s\"}]}", token);
    a = st_work(body);
    expect_ack(&a, "status", "ok", "beat");
    hc_done(&a);
}

static void row_is_refused(const struct bad *row, size_t index)
{
    char id[32];
    char path[64];
    int base;
    char *token, *filled, *rest, *before, *after;
    (void)snprintf(id, sizeof id, "bad-%zu", index);
    token = second_decision(id, &base);
    filled = fill_row(row);
    rest = with_base(filled, base);
    before = job_member(id, "seq");
    for (int i = 1; i < LIMIT_RESULT_REFUSALS; i++) {
        expect_refused(row, token, rest);
        expect_in_hand(token);
        after = job_member(id, "seq");
        assert_string_equal(before, after);
        free(after);
        expect_job(id, "status", "running");
    }
    expect_refused(row, token, rest);
    expect_job(id, "status", "parked");
    expect_job(id, "parked", "decision_refused: 3 results were refused; the last at ");
    bring_ok(token, rest, "stale");
    free(token);
    /* a person has repaired the worker */
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/retry", id);
    free(st_expect("POST", path, "{}", 200, NULL));
    token = take(ASK, &base);
    free(rest);
    rest = with_base(DECISION(RETURN), base);
    bring_ok(token, rest, "ok");
    expect_job(id, "status", "completed");
    free(before);
    free(rest);
    free(filled);
    free(token);
}

static void bad_input(void **state)
{
    (void)state;
    st_begin(ST_FILE, ST_TOKENS);
    for (size_t i = 0; i < sizeof bad_rows / sizeof bad_rows[0]; i++) {
        row_is_refused(&bad_rows[i], i);
    }
    st_end();
}

/* ------------------------------------------------------------------------------------------- children */

#define ASK_CHILD                                                                                  \
    "{\"worker\":\"w\",\"build\":\"b1\",\"flows\":[{\"name\":\"g\"}],\"wait\":\"10s\"}"

/* The next decision: of this job, and with this in its task. */
static void decide(const char *job, const char *seen, const char *commands)
{
    struct hc_answer a = st_work(job[0] == 'c' ? ASK_CHILD : ASK);
    char *token = hc_member(&a, "tasks.0.token");
    char *base = hc_member(&a, "tasks.0.base");
    char *of = hc_member(&a, "tasks.0.job");
    char rest[1024];
    assert_non_null(token);
    assert_string_equal(of, job);
    if (strstr(a.body, seen) == NULL) {
        fail_msg("%s is not in %s", seen, a.body);
    }
    (void)snprintf(rest, sizeof rest, "\"base\":%s,\"commands\":[%s]", base, commands);
    bring_ok(token, rest, "ok");
    free(token);
    free(base);
    free(of);
    hc_done(&a);
}

/* One that is awaited, one that is not, one that fails; `waits_for` names the first; its result stays when it is deleted. */
static void children(enum st_kind kind)
{
    char *waits;
    st_begin(kind, ST_TOKENS);
    free(st_expect("POST", "/v1/work", ASK_NOW, 200, NULL));
    flow_start("p");
    decide("p", "\"log\":[]", CHILD("{1}", "\"workflow\":\"g\",\"id\":\"c1\""));
    waits = job_member("p", "waits_for.0");
    assert_string_equal(waits, "child 'g' at {1}: waits for job 'c1'");
    free(waits);
    expect_job("p", "status", "waiting");
    decide("c1", "\"input\":null", RETURN);
    decide("p", "\"op\":\"child\",\"name\":\"g\"",
           CHILD("{2}", "\"workflow\":\"g\",\"id\":\"c2\",\"detached\":true,\"close\":\"kill\""));
    free(st_expect("DELETE", "/v1/jobs/c1", NULL, 200, NULL));
    decide("p", "\"ok\":{\"job_id\":\"c2\"}", CHILD("{3}", "\"workflow\":\"g\",\"id\":\"c3\""));
    decide("c2", "\"workflow\":\"g\"", SLEEP("{1}") "," ACTIVITY("{2}"));
    decide("c3", "\"workflow\":\"g\"",
           "{\"op\":\"fail\",\"error\":{\"code\":418,\"message\":\"no\"}}");
    decide("p", "\"code\":418,\"message\":\"no\"", RETURN);
    expect_job("p", "status", "completed");
    (void)st_call("GET", "/v1/jobs/c2/result?wait=10s", NULL, NULL);
    expect_job("c2", "status", "interrupted");
    st_end();
}

static void children_in_a_file(void **state)
{
    (void)state;
    children(ST_FILE);
}

static void children_in_a_database(void **state)
{
    (void)state;
    children(ST_DATABASE);
}

/* A token is for its caller alone: another one is answered stale, and nothing happens. */
static void foreign_token(void **state)
{
    char other[TOKEN_TEXT_SIZE];
    char body[512];
    struct hc_answer a;
    char *token, *rest;
    int base;
    (void)state;
    st_begin(ST_FILE, ST_TOKENS);
    token = second_decision("mine", &base);
    rest = with_base(DECISION(RETURN), base);
    st_token("worker", NULL, other);
    (void)snprintf(body, sizeof body, "{\"worker\":\"w\",\"results\":[{\"token\":\"%s\",%s}]}",
                   token, rest);
    a = hc_call(st.port, other, "POST", "/v1/work", body);
    expect_ack(&a, "status", "stale", "a foreign token");
    expect_ack(&a, "pointer", "/token", "a foreign token");
    hc_done(&a);
    expect_in_hand(token);
    bring_ok(token, rest, "ok");
    expect_job("mine", "status", "completed");
    free(rest);
    free(token);
    st_end();
}

/* ---------------------------------------------------------------------------------- states of the job */

static void act(const char *id, const char *what)
{
    char path[96];
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/%s", id, what);
    free(st_expect("POST", path, "{}", 200, NULL));
}

/* Results of paused and parked jobs count, those of closed ones are answered cancelled, of deleted ones stale. */
static void states(void **state)
{
    char *token, *rest, *work;
    int base;
    (void)state;
    st_begin(ST_FILE, ST_TOKENS);

    token = second_decision("paused", &base);
    act("paused", "pause");
    rest = with_base(DECISION(ACTIVITY("{3}")), base);
    bring_ok(token, rest, "ok");
    free(rest);
    free(token);
    expect_job("paused", "status", "paused");
    act("paused", "resume");
    work = take("{\"worker\":\"w\",\"topics\":[\"a\"],\"wait\":\"10s\"}", &base);
    act("paused", "pause");
    bring_ok(work, "\"output\":8", "ok");
    free(work);
    act("paused", "resume");
    token = take(ASK, &base);
    rest = with_base(DECISION(RETURN), base);
    bring_ok(token, rest, "ok");
    free(rest);
    free(token);
    expect_job("paused", "status", "completed");

    /* an activity is out while the decision is parked */
    token = second_decision("parked", &base);
    rest = with_base(DECISION(ACTIVITY("{3}") "," ACTIVITY("{4}")), base);
    bring_ok(token, rest, "ok");
    free(rest);
    free(token);
    work = take("{\"worker\":\"w\",\"topics\":[\"a\"],\"wait\":\"10s\"}", &base);
    bring_ok(work, "\"output\":8", "ok");
    free(work);
    work = take("{\"worker\":\"w\",\"topics\":[\"a\"],\"wait\":\"10s\"}", &base);
    token = take(ASK, &base);
    bring_ok(
        token,
        "\"status\":\"diverged\",\"at\":\"{1}\",\"history\":{\"op\":\"activity\",\"name\":\"a\","
        "\"v\":1},\"code\":{\"op\":\"activity\",\"name\":\"b\",\"v\":1}",
        "ok");
    expect_job("parked", "parked",
               "history_diverged: history and code differ at {1}: history has activity 'a' v1, the "
               "code has activity 'b' v1");
    bring_ok(work, "\"output\":9", "ok");
    free(work);
    bring_ok(token, DECISION(RETURN), "stale");
    free(token);
    act("parked", "retry");
    token = take(ASK, &base);
    rest = with_base(DECISION(RETURN), base);
    bring_ok(token, rest, "ok");
    free(rest);
    free(token);
    expect_job("parked", "status", "completed");

    token = second_decision("closed", &base);
    act("closed", "kill");
    rest = with_base(DECISION(RETURN), base);
    bring_ok(token, rest, "cancelled");
    free(token);
    free(rest);

    token = second_decision("deleted", &base);
    act("deleted", "kill");
    assert_int_equal(st_call("DELETE", "/v1/jobs/deleted", NULL, NULL), 200);
    rest = with_base(DECISION(RETURN), base);
    bring_ok(token, rest, "stale");
    free(token);
    free(rest);
    st_end();
}

/* ------------------------------------------------------------------------------- what else a worker says */

/* Errors are tried again and then parked, fatal ones at once; latent history parks; miss gives the task again. */
static void errors_and_misses(void **state)
{
    char *token;
    int base;
    (void)state;
    st_begin(ST_FILE, ST_TOKENS);
    token = second_decision("fatal", &base);
    bring_ok(token,
             "\"status\":\"error\",\"error\":{\"message\":\"a bug\",\"stack\":\"here\","
             "\"fatal\":true}",
             "ok");
    expect_job("fatal", "parked", "decision_failed: a bug");
    free(token);
    token = second_decision("latent", &base);
    bring_ok(token,
             "\"status\":\"latent\",\"at\":\"{}\",\"left\":[{\"loc\":\"{2}\",\"op\":\"branch\","
             "\"name\":\"part\",\"v\":2}]",
             "ok");
    expect_job(
        "latent", "parked",
        "latent_history: the code of {} ended, and its history goes on: {2} branch 'part' v2");
    free(token);
    token = second_decision("missed", &base);
    bring_ok(token, "\"status\":\"miss\"", "ok");
    free(token);
    token = take(ASK, &base);
    bring_ok(token, "\"status\":\"miss\"", "ok");
    free(token);
    token = take(ASK, &base);
    bring_ok(token, "\"status\":\"miss\"", "ok");
    free(token);
    {
        struct hc_answer a = st_work(ASK_NOW); /* the third delivery had no answer either */
        hc_done(&a);
    }
    expect_job("missed", "status", "parked");
    st_end();
}

/* Commands with `keep` apply, and the next decision follows at once; those of a fused result do not. */
static void keep_and_fused(void **state)
{
    char *token, *work, *rest;
    struct hc_answer a;
    int base;
    (void)state;
    st_begin(ST_FILE, ST_TOKENS);
    token = second_decision("kept", &base);
    rest =
        with_base("\"base\":0,\"keep\":true,\"commands\":[{\"op\":\"run\",\"loc\":\"{3}\",\"v\":1,"
                  "\"name\":\"r\",\"ok\":5}]",
                  base);
    a = bring(token, rest);
    expect_ack(&a, "status", "ok", rest);
    expect_ack(&a, "flow", "behind", rest);
    hc_done(&a);
    free(rest);
    free(token);
    token = take(ASK, &base);
    rest = with_base(DECISION(ACTIVITY("{4}")), base);
    bring_ok(token, rest, "ok");
    free(rest);
    free(token);
    work = take("{\"worker\":\"w\",\"topics\":[\"a\"],\"wait\":\"10s\"}", &base);
    a = bring(work, "\"output\":8,\"flow\":{\"base\":9,\"commands\":[" RETURN "]}");
    expect_ack(&a, "status", "ok", "fused");
    expect_ack(&a, "flow", "behind", "fused");
    hc_done(&a);
    free(work);
    token = take(ASK, &base);
    rest = with_base(DECISION(RETURN), base);
    bring_ok(token, rest, "ok");
    expect_job("kept", "status", "completed");
    free(rest);
    free(token);
    /* what only a decision has is refused for an activity */
    st_start("plain", "1");
    work = take("{\"worker\":\"w\",\"topics\":[\"work\"],\"wait\":\"10s\"}", &base);
    a = bring(work, DECISION(RETURN));
    expect_ack(&a, "status", "refused", "an activity");
    hc_done(&a);
    bring_ok(work, "\"output\":1", "ok");
    free(work);
    st_end();
}

/* A history that is newer than the code of a build waits for another build: show says so, the same build does not get
 * it, another one does. */
static void newer_build(void **state)
{
    static const char newer[] =
        "\"status\":\"diverged\",\"at\":\"{1}\",\"history\":{\"op\":\"activity\",\"name\":\"a\","
        "\"v\":2},\"code\":{\"op\":\"activity\",\"name\":\"b\",\"v\":1}";
    struct hc_answer a;
    char *token, *rest, *tasks;
    int base;
    (void)state;
    st_begin(ST_FILE, ST_TOKENS);
    token = second_decision("newer", &base);
    bring_ok(token, newer, "ok");
    free(token);
    expect_job("newer", "status", "running");
    expect_job("newer", "awaits",
               "a newer build is awaited: at {1} history has activity 'a' v2, build 'b1' has");
    a = st_work(ASK_NOW);
    tasks = hc_member(&a, "tasks.0.token");
    assert_null(tasks);
    hc_done(&a);
    token = take(
        "{\"worker\":\"x\",\"build\":\"b2\",\"flows\":[{\"name\":\"f\"}],\"wait\":\"20s\"}", &base);
    rest = with_base(DECISION(RETURN), base);
    bring_ok(token, rest, "ok");
    free(rest);
    free(token);
    expect_job("newer", "status", "completed");
    /* without a build it is parked at once */
    token = second_decision("unnamed", &base);
    {
        char body[512];
        (void)snprintf(body, sizeof body, "{\"worker\":\"w\",\"results\":[{\"token\":\"%s\",%s}]}",
                       token, newer);
        a = st_work(body);
        expect_ack(&a, "status", "ok", body);
        hc_done(&a);
    }
    free(token);
    expect_job("unnamed", "parked", "history_diverged: ");
    st_end();
}

/* A long history comes in pages, whatever has come meanwhile. */
static void pages(void **state)
{
    enum { STEPS = LIMIT_FLOW_PAGE_EVENTS };
    size_t size = (size_t)STEPS * 96 + 256;
    char *body = malloc(size);
    char path[160];
    struct hc_answer a;
    char *token, *more, *text;
    int base;
    size_t n;
    (void)state;
    assert_non_null(body);
    st_begin(ST_FILE, ST_TOKENS);
    flow_start("long");
    token = take(ASK, &base);
    n = (size_t)snprintf(body, size, "\"base\":%d,\"commands\":[" ACTIVITY("{1}"), base);
    for (int i = 2; i <= STEPS; i++) {
        n += (size_t)snprintf(body + n, size - n,
                              ",{\"op\":\"run\",\"loc\":\"{%d}\",\"v\":1,\"name\":\"r\",\"ok\":%d}",
                              i, i);
    }
    (void)snprintf(body + n, size - n, "]");
    bring_ok(token, body, "ok");
    free(token);
    token = take("{\"worker\":\"w\",\"topics\":[\"a\"],\"wait\":\"10s\"}", &base);
    bring_ok(token, "\"output\":7", "ok");
    free(token);
    token = take(ASK, &base); /* one page has room for all */
    (void)snprintf(body, size, "\"base\":%d,\"commands\":[" ACTIVITY("{%d}") "]", base, STEPS + 1);
    bring_ok(token, body, "ok");
    free(token);
    token = take("{\"worker\":\"w\",\"topics\":[\"a\"],\"wait\":\"10s\"}", &base);
    bring_ok(token, "\"output\":8", "ok");
    free(token);
    a = st_work(ASK);
    token = hc_member(&a, "tasks.0.token");
    more = hc_member(&a, "tasks.0.more");
    assert_non_null(more);
    (void)snprintf(path, sizeof path, "tasks.0.log.%d.loc", STEPS - 1);
    text = hc_member(&a, path);
    assert_non_null(text);
    free(text);
    hc_done(&a);
    (void)snprintf(path, sizeof path, "/v1/jobs/long/log?cursor=%s", more);
    assert_int_equal(st_call("GET", path, NULL, &a), 200);
    text = hc_member(&a, "log.0.loc");
    assert_string_equal(text, "{2001}");
    free(text);
    text = hc_member(&a, "log.0.ok");
    assert_string_equal(text, "8");
    free(text);
    text = hc_member(&a, "more");
    assert_null(text);
    hc_done(&a);
    assert_int_equal(st_call("GET", "/v1/jobs/long/log?cursor=odd", NULL, NULL), 400);
    assert_int_equal(st_call("GET", "/v1/jobs/none/log", NULL, NULL), 404);
    free(token);
    free(more);
    free(body);
    st_end();
}

static int count_text(const char *text, const char *what)
{
    int count = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what)) {
        count++;
    }
    return count;
}

/* A page that has its bytes ends before it has its events; all pages have each event once. */
static void pages_by_size(void **state)
{
    enum { RUNS = 3, SIZE = LIMIT_FLOW_PAGE_SIZE / 2 };
    const size_t size = (size_t)RUNS * SIZE + 1024;
    char *body = malloc(size);
    char *token, *more;
    char path[160];
    struct hc_answer a;
    int base, events, page_count = 1;
    size_t n;
    (void)state;
    assert_non_null(body);
    st_begin(ST_FILE, ST_TOKENS);
    flow_start("wide");
    token = take(ASK, &base);
    n = (size_t)snprintf(body, size, "\"base\":%d,\"keep\":true,\"commands\":[" ACTIVITY("{1}"),
                         base);
    for (int i = 0; i < RUNS; i++) {
        n += (size_t)snprintf(body + n, size - n,
                              ",{\"op\":\"run\",\"loc\":\"{%d}\",\"v\":1,\"name\":\"r\",\"ok\":\"",
                              i + 2);
        memset(body + n, 'x', SIZE);
        n += SIZE;
        n += (size_t)snprintf(body + n, size - n, "\"}");
    }
    (void)snprintf(body + n, size - n, "]");
    bring_ok(token, body, "ok");
    free(token);
    a = st_work(ASK);
    events = count_text(a.body, "\"loc\":");
    for (more = hc_member(&a, "tasks.0.more"); more != NULL; more = hc_member(&a, "more")) {
        (void)snprintf(path, sizeof path, "/v1/jobs/wide/log?cursor=%s", more);
        free(more);
        hc_done(&a);
        assert_int_equal(st_call("GET", path, NULL, &a), 200);
        events += count_text(a.body, "\"loc\":");
        page_count++;
    }
    hc_done(&a);
    assert_int_equal(events, RUNS + 1);
    assert_true(page_count > 1 && page_count <= RUNS);
    free(body);
    st_end();
}

/* As many runs as fit, from this number on, decided at once. What is refused with `code` is followed by a return. */
static void decide_runs(int first, int count, const char *code)
{
    size_t size = (size_t)count * 64 + 256;
    char *body = malloc(size);
    struct hc_answer a;
    int base;
    char *token = take(ASK, &base);
    size_t n;
    assert_non_null(body);
    n = (size_t)snprintf(body, size, "\"base\":%d,\"keep\":true,\"commands\":[", base);
    for (int i = first; i < first + count; i++) {
        n += (size_t)snprintf(body + n, size - n,
                              "%s{\"op\":\"run\",\"loc\":\"{%d}\",\"v\":1,\"name\":\"r\",\"ok\":1}",
                              i > first ? "," : "", i);
    }
    (void)snprintf(body + n, size - n, "]");
    a = bring(token, body);
    expect_ack(&a, "status", code == NULL ? "ok" : "refused", code == NULL ? "runs" : code);
    expect_ack(&a, "code", code, "runs");
    hc_done(&a);
    if (code != NULL) {
        (void)snprintf(body, size, "\"base\":%d,\"commands\":[" RETURN "]", base);
        bring_ok(token, body, "ok");
    }
    free(token);
    free(body);
}

/* Event 200,001 is refused with nothing written; a flow at its limit can return. */
static void full_history(void **state)
{
    const int count = LIMIT_FLOW_COMMANDS;
    int made = 0;
    (void)state;
    if (!testenv_is_torture()) {
        skip();
    }
    static_assert(LIMIT_FLOW_EVENTS % LIMIT_FLOW_COMMANDS == 0, "whole decisions fill a history");
    st_begin(ST_FILE, ST_TOKENS);
    flow_start("full");
    for (; made < LIMIT_FLOW_EVENTS; made += count) {
        decide_runs(made + 1, count, NULL);
    }
    decide_runs(made + 1, 1, "history_too_large");
    expect_job("full", "status", "completed");
    st_end();
}

/* Names: announced by the first call; one that is a plain topic with open jobs, or a bad one, is refused with a pointer; a
 * token's pattern of topics holds for flows. */
static void names(void **state)
{
    struct hc_answer a;
    char *pointer;
    (void)state;
    st_begin(ST_FILE, ST_TOKENS);
    st_start("open", "1");
    a = st_work(
        "{\"worker\":\"w\",\"flows\":[{\"name\":\"f\"},{\"name\":\"work\"}],\"wait\":\"5s\"}");
    assert_int_equal(a.status, 409);
    pointer = hc_member(&a, "errors.0.pointer");
    assert_string_equal(pointer, "/flows/1/name");
    free(pointer);
    hc_done(&a);
    free(st_expect("POST", "/v1/work", "{\"worker\":\"w\",\"flows\":[{\"name\":\"no spaces\"}]}",
                   400, NULL));
    free(st_expect("POST", "/v1/work",
                   "{\"worker\":\"w\",\"flows\":[{\"name\":\"f\",\"methods\":[]}]}", 400, NULL));
    free(st_expect("POST", "/v1/jobs", "{\"workflow\":\"work\"}", 409, NULL));
    free(st_expect("POST", "/v1/jobs", "{\"workflow\":\"f\",\"topic\":\"f\"}", 400, NULL));
    free(st_expect("POST", "/v1/work",
                   "{\"worker\":\"w\",\"flows\":[{\"name\":\"f\"}],\"wait\":\"0s\"}", 200, NULL));
    free(st_expect("POST", "/v1/jobs", "{\"topic\":\"f\",\"id\":\"by-topic\"}", 201, NULL));
    {
        int base;
        free(take(ASK, &base)); /* a flow, though it was started by its topic */
        assert_true(base >= 0);
    }
    st_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_a_file),
        cmocka_unit_test(with_a_database),
        cmocka_unit_test(bad_input),
        cmocka_unit_test(foreign_token),
        cmocka_unit_test(states),
        cmocka_unit_test(errors_and_misses),
        cmocka_unit_test(keep_and_fused),
        cmocka_unit_test(newer_build),
        cmocka_unit_test(pages),
        cmocka_unit_test(pages_by_size),
        cmocka_unit_test(full_history),
        cmocka_unit_test(names),
        cmocka_unit_test(children_in_a_file),
        cmocka_unit_test(children_in_a_database),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

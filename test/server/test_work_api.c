/* test_work_api.c - POST /v1/work: tasks, results, beats, and tasks that are given back */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <openssl/sha.h>

#include "base/hash.h"
#include "servertest.h"

#define ASK "{\"worker\":\"w\",\"topics\":[\"work\"],\"wait\":\"5s\"}"
#define ASK_NOW "{\"worker\":\"w\",\"topics\":[\"work\"],\"wait\":\"0s\"}"

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The token of the one task in an answer; fails the test when there is none. To be freed. */
static char *token_of(struct hc_answer *a)
{
    char *token = a->status == 200 ? hc_member(a, "tasks.0.token") : NULL;
    if (token == NULL) {
        fail_msg("no task: %d %s", a->status, a->body == NULL ? "" : a->body);
    }
    return token;
}

static char *take_task(void)
{
    struct hc_answer a = st_work(ASK);
    char *token = token_of(&a);
    hc_done(&a);
    return token;
}

/* One result; fails the test unless it is acknowledged so. */
static void bring(const char *token, const char *rest, const char *ack)
{
    char body[1024];
    struct hc_answer a;
    char *status;
    (void)snprintf(body, sizeof body, "{\"worker\":\"w\",\"results\":[{\"token\":\"%s\"%s}]}",
                   token, rest);
    a = st_work(body);
    status = hc_member(&a, "acks.0.status");
    if (a.status != 200 || status == NULL || strcmp(status, ack) != 0) {
        fail_msg("%s: %d %s", body, a.status, a.body);
    }
    free(status);
    hc_done(&a);
}

static void expect_status(const char *id, const char *status)
{
    char path[128];
    char *text;
    (void)snprintf(path, sizeof path, "/v1/jobs/%s", id);
    text = st_expect("GET", path, NULL, 200, "status");
    assert_string_equal(text, status);
    free(text);
}

/* A task goes out with its input and comes back with its output; a second result changes
 * nothing. */
static void there_and_back(enum st_kind kind)
{
    struct hc_answer a;
    char *token, *text;
    st_begin(kind, ST_TOKENS);
    st_start("one", "{\"n\": 1.10}");
    a = st_work(ASK);
    token = token_of(&a);
    assert_non_null(strstr(a.body, "{\"n\": 1.10}"));
    text = hc_member(&a, "tasks.0.job");
    assert_string_equal(text, "one");
    free(text);
    text = hc_member(&a, "tasks.0.attempt");
    assert_string_equal(text, "1");
    free(text);
    text = hc_member(&a, "tasks.0.kind");
    assert_string_equal(text, "activity");
    free(text);
    hc_done(&a);
    bring(token, ",\"output\":{\"done\":true}", "ok");
    bring(token, ",\"output\":2", "stale");
    expect_status("one", "completed");
    text = st_expect("GET", "/v1/jobs/one/result", NULL, 200, "output.done");
    assert_string_equal(text, "true");
    free(text);
    free(token);
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

/* Errors are tried again, or not when they are fatal; a pending result leaves the task in hand. */
static void errors_and_pending(void **state)
{
    char *token;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    st_start("fatal", "1");
    token = take_task();
    bring(token, ",\"status\":\"pending\",\"index\":1,\"output\":50", "ok");
    bring(token, ",\"status\":\"error\",\"error\":{\"message\":\"no such card\",\"fatal\":true}",
          "ok");
    expect_status("fatal", "failed");
    free(token);
    free(st_expect("POST", "/v1/jobs",
                   "{\"topic\":\"work\",\"id\":\"again\",\"retry\":{\"backoff\":\"1ms\"}}", 201,
                   "id"));
    token = take_task();
    bring(token, ",\"status\":\"error\",\"code\":503,\"error\":\"busy\"", "ok");
    free(token);
    token = take_task();
    bring(token, "", "ok");
    expect_status("again", "completed");
    free(token);
    assert_int_equal(
        st_call("POST", "/v1/work",
                "{\"worker\":\"w\",\"results\":[{\"token\":\"t\",\"status\":\"odd\"}]}", NULL),
        400);
    st_end();
}

/* A result that is too large is refused alone, with the limit: the good one beside it counts, and its task stays with
 * the worker. A sentence that is too long is cut. A pending result has an index from 1, and one output. */
static void refused_alone(void **state)
{
    size_t size = LIMIT_PAYLOAD_SIZE + 1024;
    char *body = malloc(size + 1024);
    struct hc_answer a;
    char *large, *good, *text;
    int n;
    (void)state;
    assert_non_null(body);
    st_begin(ST_FILE, ST_OPEN);
    free(st_expect("POST", "/v1/jobs",
                   "{\"topic\":\"work\",\"id\":\"large\",\"retry\":{\"attempts\":1}}", 201, "id"));
    large = take_task();
    st_start("good", "1");
    good = take_task();
    n = snprintf(
        body, 512,
        "{\"worker\":\"w\",\"results\":[{\"token\":\"%s\"},{\"token\":\"%s\",\"output\":\"", good,
        large);
    memset(body + n, 'x', size);
    memcpy(body + n + size, "\"}]}", 5);
    a = st_work(body);
    assert_int_equal(a.status, 200);
    text = hc_member(&a, "acks.0.status");
    assert_string_equal(text, "ok");
    free(text);
    text = hc_member(&a, "acks.1.status");
    assert_string_equal(text, "refused");
    free(text);
    text = hc_member(&a, "acks.1.code");
    assert_string_equal(text, "too_large");
    free(text);
    text = hc_member(&a, "acks.1.detail");
    assert_string_equal(text, "output: 2098178 bytes, the limit is 2097152");
    free(text);
    hc_done(&a);
    expect_status("good", "completed");
    expect_status("large", "running");
    bring(large, ",\"output\":{\"a\":\"\\u0000\"}", "refused");
    bring(large, ",\"output\":{\"a\":1,\"a\":2}", "refused");
    bring(large, ",\"output\":1e999", "refused");
    bring(large, ",\"status\":\"pending\",\"index\":0", "refused");
    bring(large, ",\"status\":\"pending\",\"index\":1,\"output\":1", "ok");
    bring(large, ",\"status\":\"pending\",\"index\":1,\"output\":1", "ok");
    bring(large, ",\"status\":\"pending\",\"index\":1,\"output\":2", "refused");
    n = snprintf(
        body, 512,
        "{\"worker\":\"w\",\"results\":[{\"token\":\"%s\",\"status\":\"error\",\"error\":\"",
        large);
    memset(body + n, 'e', LIMIT_ERROR_TEXT_SIZE + 1);
    memcpy(body + n + LIMIT_ERROR_TEXT_SIZE + 1, "\"}]}", 5);
    a = st_work(body);
    text = hc_member(&a, "acks.0.status");
    assert_string_equal(text, "ok");
    free(text);
    hc_done(&a);
    text = st_expect("GET", "/v1/jobs/large", NULL, 200, "error.message");
    assert_true(strlen(text) > 2048 && strlen(text) <= LIMIT_ERROR_TEXT_SIZE);
    free(text);
    text = st_expect("GET", "/v1/jobs/large/activities", NULL, 200, "items.0.failures");
    assert_string_equal(text, "1");
    free(text);
    text = st_expect("GET", "/v1/jobs/large/activities", NULL, 200, "items.0.error.address");
    assert_string_equal(text, "run,0,0");
    free(text);
    free(large);
    free(good);
    free(body);
    st_end();
}

/* Whoever beats for a job that was cancelled is told, and his result counts no more. */
static void cancelled_while_at_work(void **state)
{
    char body[512];
    struct hc_answer a;
    char *token, *text;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    st_start("gone", "1");
    token = take_task();
    (void)snprintf(body, sizeof body,
                   "{\"worker\":\"w\",\"beats\":[{\"token\":\"%s\",\"progress\":{\"at\":1}}]}",
                   token);
    a = st_work(body);
    text = hc_member(&a, "acks.0.status");
    assert_string_equal(text, "ok");
    free(text);
    hc_done(&a);
    text = st_expect("GET", "/v1/jobs/gone/activities", NULL, 200, "items.0.progress.at");
    assert_string_equal(text, "1");
    free(text);
    free(st_expect("POST", "/v1/jobs/gone/cancel", "{}", 200, "id"));
    a = st_work(body);
    text = hc_member(&a, "acks.0.status");
    assert_string_equal(text, "cancelled");
    free(text);
    hc_done(&a);
    bring(token, ",\"output\":1", "cancelled");
    free(token);
    st_end();
}

/* What a beat has brought of how far it is goes with the next delivery of the task; the first has none. */
static void progress_goes_on(void **state)
{
    char body[512];
    struct hc_answer a;
    char *token, *text;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    free(st_expect("POST", "/v1/jobs",
                   "{\"topic\":\"work\",\"id\":\"far\",\"input\":1,"
                   "\"retry\":{\"attempts\":2,\"backoff\":\"1ms\"}}",
                   201, "id"));
    a = st_work(ASK);
    token = token_of(&a);
    assert_null(strstr(a.body, "progress"));
    hc_done(&a);
    (void)snprintf(body, sizeof body,
                   "{\"worker\":\"w\",\"beats\":[{\"token\":\"%s\",\"progress\":{\"at\":7}}]}",
                   token);
    a = st_work(body);
    hc_done(&a);
    bring(token, ",\"status\":\"error\",\"error\":{\"message\":\"once\"}", "ok");
    free(token);
    a = st_work(ASK);
    token = token_of(&a);
    text = hc_member(&a, "tasks.0.progress.at");
    assert_string_equal(text, "7");
    free(text);
    hc_done(&a);
    bring(token, ",\"output\":1", "ok");
    free(token);
    st_end();
}

/* A task's token is for the worker who got it: with another token of access it is stale. */
static void nobody_elses_task(void **state)
{
    char other[TOKEN_TEXT_SIZE];
    char body[512];
    struct hc_answer a;
    char *token, *text;
    (void)state;
    st_begin(ST_FILE, ST_TOKENS);
    st_token("worker", NULL, other);
    st_start("mine", "1");
    token = take_task();
    (void)snprintf(body, sizeof body,
                   "{\"worker\":\"w\",\"results\":[{\"token\":\"%s\",\"output\":6}]}", token);
    a = hc_call(st.port, other, "POST", "/v1/work", body);
    assert_int_equal(a.status, 200);
    text = hc_member(&a, "acks.0.status");
    assert_string_equal(text, "stale");
    free(text);
    hc_done(&a);
    bring(token, ",\"output\":7", "ok");
    free(token);
    st_end();
}

/* The token of a task, made anew by somebody who knows everything but the key of the store: all numbers of the
 * task, and his own secret. */
static void forge(const char *token, const char *access, char *out_token, size_t size)
{
    const char *secret = strrchr(access, '_') + 1;
    size_t prefix = (size_t)(strrchr(token, '.') - token);
    unsigned char hash[SHA256_DIGEST_LENGTH];
    unsigned char mark[HASH_KEYED_SIZE];
    size_t n = prefix + 1;
    assert_true(size > strlen(token));
    (void)SHA256((const unsigned char *)secret, strlen(secret), hash);
    hash_keyed(hash, sizeof hash, token, prefix, mark);
    memcpy(out_token, token, n);
    for (size_t i = 0; i < sizeof mark; i++) {
        n += (size_t)snprintf(out_token + n, size - n, "%02x", mark[i]);
    }
    assert_int_equal(n, strlen(token));
}

/* Whoever may work at one topic cannot answer tasks of another, however much he knows of them. */
static void no_forged_tokens(void **state)
{
    char other[TOKEN_TEXT_SIZE];
    char forged[256];
    char body[512];
    struct hc_answer a;
    char *token, *text;
    (void)state;
    st_begin(ST_FILE, ST_TOKENS);
    st_token("worker", NULL, other);
    st_start("mine", "1");
    token = take_task();
    forge(token, other, forged, sizeof forged);
    (void)snprintf(body, sizeof body,
                   "{\"worker\":\"w\",\"results\":[{\"token\":\"%s\",\"output\":6}]}", forged);
    a = hc_call(st.port, other, "POST", "/v1/work", body);
    text = hc_member(&a, "acks.0.status");
    assert_string_equal(text, "stale");
    free(text);
    hc_done(&a);
    st_reopen(); /* the key is the store's, and outlives the server */
    bring(token, ",\"output\":7", "ok");
    assert_int_equal(st_call("DELETE", "/v1/tokens/task-key", NULL, NULL), 404);
    st_call("GET", "/v1/tokens", NULL, &a);
    assert_null(strstr(a.body, "task-key"));
    hc_done(&a);
    free(token);
    st_end();
}

#define FULL_CALLS ((LIMIT_WORK_STREAMS + LIMIT_WORK_TOPICS - 1) / LIMIT_WORK_TOPICS)

/* A call for as many topics as one may name, all of them new; the last one has what is left to the limit. */
static void park_widely(struct hc *c, int number)
{
    int left = LIMIT_WORK_STREAMS - number * LIMIT_WORK_TOPICS;
    char body[32 * LIMIT_WORK_TOPICS];
    char head[256];
    size_t n = (size_t)snprintf(body, sizeof body, "{\"worker\":\"w%d\",\"topics\":[", number);
    for (int i = 0; i < LIMIT_WORK_TOPICS && i < left; i++) {
        n += (size_t)snprintf(body + n, sizeof body - n, "%s\"t%d.%d\"", i == 0 ? "" : ",", number,
                              i);
    }
    n += (size_t)snprintf(body + n, sizeof body - n, "],\"wait\":\"30s\"}");
    (void)snprintf(head, sizeof head,
                   "POST /v1/work HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                   "application/json\r\nContent-Length: %zu\r\n\r\n",
                   n);
    assert_true(hc_open(c, st.port));
    assert_true(hc_text(c, head) && hc_send(c, body, n));
}

static int parked_calls(void)
{
    struct hc_answer a;
    int count = 0;
    assert_int_equal(st_call("GET", "/v1/workers", NULL, &a), 200);
    for (const char *at = a.body; (at = strstr(at, "\"waiting\":1")) != NULL; at++) {
        count++;
    }
    hc_done(&a);
    return count;
}

/* A worker for whom there is no room is told so, and does not take that for a topic without tasks: it would ask
 * again at once. */
static void no_room_for_topics(void **state)
{
    static struct hc parked[FULL_CALLS];
    time_t until = time(NULL) + 20;
    (void)state;
    st_begin(ST_MEMORY, ST_OPEN);
    for (int i = 0; i < FULL_CALLS; i++) {
        park_widely(&parked[i], i);
    }
    while (parked_calls() < FULL_CALLS && time(NULL) < until) { /* they are on their way */
    }
    assert_int_equal(st_call("POST", "/v1/work", ASK_NOW, NULL), 429);
    for (int i = 0; i < FULL_CALLS; i++) {
        hc_close(&parked[i]);
    }
    st_end();
}

static void *ask_on_thread(void *context)
{
    struct hc_answer *a = context;
    *a = st_work(ASK);
    return NULL;
}

/* A call that waits is woken by the start of a job, not by the end of its time; one that waits
 * in vain gets none. */
static void parked_and_woken(void **state)
{
    struct hc_answer a;
    pthread_t thread;
    int64_t from;
    char *token;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    assert_int_equal(pthread_create(&thread, NULL, ask_on_thread, &a), 0);
    while (true) {
        struct hc_answer w;
        char *waiting;
        st_call("GET", "/v1/workers", NULL, &w);
        waiting = hc_member(&w, "items.0.waiting");
        bool parked = waiting != NULL && strcmp(waiting, "1") == 0;
        free(waiting);
        hc_done(&w);
        if (parked) {
            break;
        }
    }
    from = now_ms();
    st_start("woken", "1");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(now_ms() - from < 3000);
    token = token_of(&a);
    free(token);
    hc_done(&a);
    a = st_work("{\"worker\":\"w\",\"topics\":[\"work\"],\"wait\":\"100ms\"}");
    assert_int_equal(a.status, 200);
    assert_null(hc_member(&a, "tasks.0.token"));
    hc_done(&a);
    st_end();
}

/* Parks a call on a connection of its own, and waits until it is parked. */
static void park(struct hc *c, int already)
{
    static const char request[] =
        "POST /v1/work HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 46\r\n\r\n{\"worker\":\"p\",\"topics\":[\"work\"],\"wait\":\"20s\"} ";
    char wanted[16];
    (void)snprintf(wanted, sizeof wanted, "%d", already + 1);
    assert_true(hc_open(c, st.port));
    assert_true(hc_send(c, request, sizeof request - 1));
    for (;;) {
        struct hc_answer w;
        char *waiting;
        st_call("GET", "/v1/workers", NULL, &w);
        waiting = hc_member(&w, "items.0.waiting");
        bool parked = waiting != NULL && strcmp(waiting, wanted) == 0;
        free(waiting);
        hc_done(&w);
        if (parked) {
            return;
        }
    }
}

/* A task is not bound to a peer that has gone while it waited: the next worker gets it, at once
 * and untried. */
static void gone_while_parked(void **state)
{
    struct hc c;
    struct hc_answer a;
    char *attempt;
    int64_t from;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    park(&c, 0);
    hc_close(&c);
    st_start("left", "1");
    from = now_ms();
    a = st_work(ASK);
    attempt = hc_member(&a, "tasks.0.attempt");
    assert_non_null(attempt);
    assert_string_equal(attempt, "1");
    assert_true(now_ms() - from < 3000);
    free(attempt);
    hc_done(&a);
    st_end();
}

/* A worker that leaves gives back what it has: others get it at once. */
static void leaving(void **state)
{
    struct hc_answer a;
    int64_t from;
    char *token, *attempt;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    st_start("back", "1");
    token = take_task();
    a = st_work(ASK_NOW);
    assert_null(hc_member(&a, "tasks.0.token"));
    hc_done(&a);
    from = now_ms();
    a = st_work("{\"worker\":\"w\",\"leave\":true}");
    assert_int_equal(a.status, 200);
    hc_done(&a);
    a = st_work(ASK);
    attempt = hc_member(&a, "tasks.0.attempt");
    assert_non_null(attempt);
    assert_true(now_ms() - from < 3000);
    hc_done(&a);
    bring(token, ",\"output\":1", "stale");
    free(token);
    free(attempt);
    st_end();
}

#define LARGE_TASKS 16
#define LARGE_SIZE (1024 * 1024)

/* Tasks whose answer could not be written go back at once: the peer asks for much, and hangs up
 * when it comes. */
static void answer_not_written(void **state)
{
    static const char request[] =
        "POST /v1/work HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 58\r\n\r\n{\"worker\":\"p\",\"topics\":[\"work\"],\"want\":16,\"wait\":\"20s\"}   ";
    char *body = malloc(LARGE_SIZE + 128);
    struct hc c;
    struct linger hard = {.l_onoff = 1};
    int64_t from;
    size_t got = 0;
    (void)state;
    assert_non_null(body);
    st_begin(ST_FILE, ST_OPEN);
    for (int i = 0; i < LARGE_TASKS; i++) {
        int n = snprintf(body, 128, "{\"topic\":\"work\",\"id\":\"large-%d\",\"input\":\"", i);
        memset(body + n, 'x', LARGE_SIZE);
        memcpy(body + n + LARGE_SIZE, "\"}", 3);
        free(st_expect("POST", "/v1/jobs", body, 201, "id"));
    }
    assert_true(hc_open(&c, st.port));
    assert_true(hc_send(&c, request, sizeof request - 1));
    assert_true(hc_more(&c, 10000));
    (void)setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard); /* a reset, not a goodbye */
    hc_close(&c);
    from = now_ms();
    while (got < LARGE_TASKS && now_ms() - from < 10000) {
        struct hc_answer a = st_work(ASK);
        char *attempt = hc_member(&a, "tasks.0.attempt");
        got += attempt != NULL;
        free(attempt);
        hc_done(&a);
    }
    assert_int_equal(got, LARGE_TASKS);
    free(body);
    st_end();
}

/* The end of the server answers whoever waits, without tasks and without an error. */
static void parked_at_the_end(void **state)
{
    struct hc c;
    struct hc_answer a;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    park(&c, 0);
    st_end();
    a = hc_read(&c, 5000);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.body, "\"tasks\":[]"));
    hc_done(&a);
    hc_close(&c);
}

/* Calls POST /v1/work with `count` items in a list; expects 400 with the list's pointer. */
static void expect_too_many(const char *list, size_t count, const char *item)
{
    size_t size = 128 + count * 32;
    char *body = malloc(size);
    size_t n = (size_t)snprintf(body, size, "{\"worker\":\"w\",\"want\":0,\"%s\":[", list);
    char *pointer;
    for (size_t i = 0; i < count; i++) {
        n += (size_t)snprintf(body + n, size - n, "%s%s", i > 0 ? "," : "", item);
    }
    (void)snprintf(body + n, size - n, "]}");
    pointer = st_expect("POST", "/v1/work", body, 400, "errors.0.pointer");
    assert_int_equal(pointer[0], '/');
    assert_string_equal(pointer + 1, list);
    free(pointer);
    free(body);
}

/* A list with more items than a call may have is refused with its pointer, however many there are. */
static void lists_are_bounded(void **state)
{
    (void)state;
    st_begin(ST_MEMORY, ST_OPEN);
    expect_too_many("topics", LIMIT_WORK_TOPICS + 1, "\"t\"");
    expect_too_many("results", LIMIT_WORK_RESULTS + 1, "{\"token\":\"t\"}");
    expect_too_many("beats", LIMIT_WORK_RESULTS + 1, "{\"token\":\"t\"}");
    expect_too_many("results", 20 * LIMIT_WORK_RESULTS, "{\"token\":\"t\"}");
    st_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_a_file),
        cmocka_unit_test(with_a_database),
        cmocka_unit_test(errors_and_pending),
        cmocka_unit_test(refused_alone),
        cmocka_unit_test(cancelled_while_at_work),
        cmocka_unit_test(progress_goes_on),
        cmocka_unit_test(nobody_elses_task),
        cmocka_unit_test(no_forged_tokens),
        cmocka_unit_test(no_room_for_topics),
        cmocka_unit_test(parked_and_woken),
        cmocka_unit_test(gone_while_parked),
        cmocka_unit_test(leaving),
        cmocka_unit_test(answer_not_written),
        cmocka_unit_test(lists_are_bounded),
        cmocka_unit_test(parked_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_http.c - hostile bytes: every request is answered with a 4xx or the connection is closed;
 * test_attack.c shows that nobody else is slowed */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "hostile.h"
#include "servertest.h"

/* Sends it, reads what comes back until the end, and judges all of it. */
static void try_case(const struct hostile *k)
{
    struct hc c;
    struct hc_answer a;
    assert_true(hc_open(&c, st.port));
    assert_true(hc_send(&c, k->bytes, k->size));
    (void)shutdown(c.fd, SHUT_WR);
    a = hc_read(&c, 5000);
    if (k->status > 0 && a.status != k->status) {
        fail_msg("%s: %d, not %d", k->name, a.status, k->status);
    }
    if (k->status < 0 && a.status != 0 && (a.status < 400 || a.status > 505 || a.status == 500)) {
        fail_msg("%s: %d", k->name, a.status);
    }
    while (hc_more(&c, 2000)) {}
    if (c.size > 0 && memmem(c.in, c.size, "hidden", 6) != NULL) {
        fail_msg("%s: what was hidden in it was answered: %.*s", k->name, (int)c.size, c.in);
    }
    hc_done(&a);
    hc_close(&c);
}

/* No case of the corpus is answered as two requests, or with anything but a refusal; the server
 * goes on. */
static void smuggling_is_refused(void **state)
{
    (void)state;
    st_begin(ST_MEMORY, ST_OPEN);
    for (size_t i = 0; i < hostile_case_count; i++) {
        try_case(&hostile_cases[i]);
    }
    assert_int_equal(st_call("GET", "/livez", NULL, NULL), 200);
    st_end();
}

/* A bare LF and a folded line are taken or refused, but frame the same as what is seen of them. */
static void line_ends_do_not_frame(void **state)
{
    static const char *const texts[] = {
        "POST /livez HTTP/1.1\nHost: localhost\nContent-Length: 41\n\n" HIDDEN,
        "POST /livez HTTP/1.1\r\n" HOST "X: a\n b\r\nContent-Length: 41\r\n\r\n" HIDDEN,
    };
    (void)state;
    st_begin(ST_MEMORY, ST_OPEN);
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct hc c;
        assert_true(hc_open(&c, st.port));
        assert_true(hc_text(&c, texts[i]));
        (void)shutdown(c.fd, SHUT_WR);
        while (hc_more(&c, 2000)) {}
        assert_true(c.size > 12);
        assert_int_equal(c.in[9], '4'); /* 405, or a refusal */
        assert_null(memmem(c.in, c.size, "hidden", 6));
        hc_close(&c);
    }
    st_end();
}

/* Requests that come together are answered one after the other, and HTTP/1.0, HEAD and Expect
 * work as they should. */
static void good_ones_work(void **state)
{
    struct hc c;
    struct hc_answer a;
    (void)state;
    st_begin(ST_MEMORY, ST_OPEN);
    assert_true(hc_open(&c, st.port));
    assert_true(
        hc_text(&c, "GET /livez HTTP/1.1\r\n" HOST "\r\nGET /version HTTP/1.1\r\n" HOST "\r\n"));
    a = hc_read(&c, 5000);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "{\"status\":\"ok\"}");
    hc_done(&a);
    a = hc_read(&c, 5000);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.body, qp_version()));
    hc_done(&a);
    assert_true(hc_text(
        &c, "POST /v1/jobs HTTP/1.1\r\n" HOST "Content-Type: application/json\r\n"
            "Transfer-Encoding: chunked\r\n\r\n7;a=b\r\n{\"topic\r\n6\r\n\":\"w\"}\r\n0\r\n\r\n"));
    a = hc_read(&c, 5000);
    assert_int_equal(a.status, 201);
    hc_done(&a);
    assert_true(hc_text(&c, "POST /v1/jobs HTTP/1.1\r\n" HOST "Content-Type: application/json\r\n"
                            "Expect: 100-continue\r\nContent-Length: 13\r\n\r\n"));
    assert_true(hc_text(&c, "{\"topic\":\"w\"}"));
    a = hc_read(&c, 5000);
    assert_int_equal(a.status, 201);
    hc_done(&a);
    hc_close(&c);
    assert_true(hc_open(&c, st.port));
    assert_true(hc_text(&c, "GET /livez HTTP/1.0\r\n" HOST "\r\n"));
    a = hc_read(&c, 5000);
    assert_int_equal(a.status, 200);
    hc_done(&a);
    assert_true(hc_closed(&c, 5000));
    hc_close(&c);
    st_end();
}

static void expect_header(const struct hc_answer *a, const char *name, const char *value)
{
    char *got = hc_header(a, name);
    if (got == NULL || strstr(got, value) == NULL) {
        fail_msg("%s: '%s', not '%s'", name, got == NULL ? "" : got, value);
    }
    free(got);
}

/* Every answer says whose it is and keeps browsers from making anything of it; a refusal says
 * what would do. */
static void headers(void **state)
{
    struct hc c;
    struct hc_answer a;
    (void)state;
    st_begin(ST_MEMORY, ST_TOKENS);
    assert_true(hc_open(&c, st.port));
    a = hc_ask(&c, st.token, "GET", "/v1/whoami", NULL, NULL); /* so that it may stay */
    assert_int_equal(a.status, 200);
    hc_done(&a);
    a = hc_ask(
        &c, NULL, "GET", "/version",
        "X-Request-Id: mine-1\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n",
        NULL);
    assert_int_equal(a.status, 200);
    expect_header(&a, "X-Request-Id", "mine-1");
    expect_header(&a, "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    expect_header(&a, "Cache-Control", "no-store");
    expect_header(&a, "X-Content-Type-Options", "nosniff");
    expect_header(&a, "Content-Security-Policy", "default-src 'none'");
    expect_header(&a, "Content-Type", "application/json");
    assert_null(hc_header(&a, "Access-Control-Allow-Origin"));
    hc_done(&a);
    a = hc_ask(&c, NULL, "GET", "/v1/jobs", NULL, NULL);
    assert_int_equal(a.status, 401);
    expect_header(&a, "WWW-Authenticate", "Bearer");
    expect_header(&a, "Content-Type", "application/problem+json");
    hc_done(&a);
    a = hc_ask(&c, NULL, "DELETE", "/v1/jobs", NULL, NULL);
    assert_int_equal(a.status, 405);
    expect_header(&a, "Allow", "GET, POST");
    hc_done(&a);
    a = hc_ask(&c, st.token, "POST", "/v1/jobs/x/cancel", "Origin: http://evil.example\r\n", NULL);
    assert_int_equal(a.status, 403);
    hc_done(&a);
    assert_true(hc_closed(&c, 5000));
    hc_close(&c);
    st_end();
}

/* A token that asks too often is told when to come again, an administrator's, too; what needs no
 * token goes on. */
static void rate_of_a_token(void **state)
{
    struct hc c;
    struct hc_answer a = {0};
    int taken = 0;
    char *code;
    (void)state;
    st_init(ST_MEMORY, ST_TOKENS);
    st.options.token_rate = 1;
    st_open();
    assert_true(hc_open(&c, st.port));
    for (int i = 0; i < 50 && a.status != 429; i++) {
        hc_done(&a);
        a = hc_ask(&c, st.token, "GET", "/v1/whoami", NULL, NULL);
        taken += a.status == 200;
    }
    assert_int_equal(a.status, 429);
    assert_in_range(taken, 2, 10);
    code = hc_member(&a, "code");
    assert_string_equal(code, "rate_limited");
    free(code);
    expect_header(&a, "Retry-After", "1");
    expect_header(&a, "Content-Type", "application/problem+json");
    hc_done(&a);
    a = hc_ask(&c, NULL, "GET", "/livez", NULL, NULL);
    assert_int_equal(a.status, 200);
    hc_done(&a);
    hc_close(&c);
    st_end();
}

/* ---------------------------------------------------------------------------------------- sizes */

static char *repeat(const char *before, char byte, size_t size, const char *after)
{
    char *text = malloc(strlen(before) + size + strlen(after) + 1);
    assert_non_null(text);
    memcpy(text, before, strlen(before));
    memset(text + strlen(before), byte, size);
    memcpy(text + strlen(before) + size, after, strlen(after) + 1);
    return text;
}

static void expect_raw(const char *text, int status)
{
    struct hc c;
    struct hc_answer a;
    assert_true(hc_open(&c, st.port));
    (void)hc_text(&c, text); /* it may be cut off before all of it is sent */
    a = hc_read(&c, 10000);
    if (a.status != status) {
        fail_msg("%.60s: %d, not %d", text, a.status, status);
    }
    hc_done(&a);
    hc_close(&c);
}

/* A client that sends all of a request before it reads anything, as most do, sees that its body is too large, and no
 * broken connection: what is too large is read and dropped. Far beyond that it is not. */
static void too_large_and_told(void **state)
{
    static const size_t sizes[] = {LIMIT_BODY_SIZE + 1, 3 * LIMIT_BODY_SIZE, 8 * LIMIT_BODY_SIZE};
    (void)state;
    st_begin(ST_MEMORY, ST_OPEN);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        char head[256];
        struct hc c;
        struct hc_answer a;
        char *text;
        (void)snprintf(head, sizeof head,
                       "POST /v1/jobs HTTP/1.1\r\n" HOST
                       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                       sizes[i]);
        text = repeat(head, 'a', sizes[i], "");
        assert_true(hc_open(&c, st.port));
        assert_true(hc_text(&c, text));
        a = hc_read(&c, 20000);
        assert_int_equal(a.status, 413);
        assert_non_null(strstr(a.body, "the limit is 4194304 bytes"));
        hc_done(&a);
        hc_close(&c);
        free(text);
    }
    expect_raw("POST /v1/jobs HTTP/1.1\r\n" HOST "Content-Length: 71303169\r\n\r\n", 413);
    st_end();
}

/* Every size has its limit, and passing it its own answer. */
static void sizes(void **state)
{
    char *text;
    char many[LIMIT_HEADERS * 16 + 256];
    size_t n;
    (void)state;
    st_init(ST_MEMORY, ST_OPEN);
    st.options.body_size = 4096;
    st_open();
    text = repeat("GET /", 'a', LIMIT_URI_SIZE, " HTTP/1.1\r\n" HOST "\r\n");
    expect_raw(text, 414);
    free(text);
    text = repeat("GET /livez HTTP/1.1\r\n" HOST "X: ", 'a', LIMIT_HEADER_SIZE, "\r\n\r\n");
    expect_raw(text, 431);
    free(text);
    text = repeat("GET /livez HTTP/1.1\r\n" HOST "X: ", 'a', 200 * 1024, "\r\n\r\n");
    expect_raw(text, 431);
    free(text);
    n = (size_t)snprintf(many, sizeof many, "GET /livez HTTP/1.1\r\n" HOST);
    for (int i = 0; i < LIMIT_HEADERS; i++) {
        n += (size_t)snprintf(many + n, sizeof many - n, "X-%d: y\r\n", i);
    }
    (void)snprintf(many + n, sizeof many - n, "\r\n");
    expect_raw(many, 431);
    expect_raw("POST /v1/jobs HTTP/1.1\r\n" HOST
               "Expect: 100-continue\r\nContent-Length: 4097\r\n\r\n",
               413);
    text = repeat("POST /v1/jobs HTTP/1.1\r\n" HOST "Content-Length: 4097\r\n\r\n", 'a', 4097, "");
    expect_raw(text, 413);
    free(text);
    text = repeat("POST /v1/jobs HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1388\r\n",
                  'a', 5000, "\r\n0\r\n\r\n");
    expect_raw(text, 413);
    free(text);
    assert_int_equal(st_call("GET", "/livez", NULL, NULL), 200);
    st_end();
}

/* A connection is good for a thousand requests, and says so with the last answer; also where several
 * threads serve. */
static void requests_per_connection(void **state)
{
    struct hc c;
    int served = 0;
    (void)state;
    st_init(ST_MEMORY, ST_OPEN);
    st.options.http_threads = 2;
    st_open();
    assert_true(hc_open(&c, st.port));
    for (;;) {
        struct hc_answer a = hc_ask(&c, NULL, "GET", "/livez", NULL, NULL);
        char *close = hc_header(&a, "Connection");
        bool last = close != NULL && strcasecmp(close, "close") == 0;
        assert_int_equal(a.status, 200);
        free(close);
        hc_done(&a);
        served++;
        if (last) {
            break;
        }
    }
    assert_int_equal(served, LIMIT_REQUESTS_PER_CONNECTION);
    assert_true(hc_closed(&c, 5000));
    hc_close(&c);
    st_end();
}

/* Whether the answer ends the connection. */
static bool ends(struct hc *c, const char *token, const char *path, int status)
{
    struct hc_answer a = hc_ask(c, token, "GET", path, NULL, NULL);
    char *close = hc_header(&a, "Connection");
    bool last = close != NULL && strcasecmp(close, "close") == 0;
    assert_int_equal(a.status, status);
    assert_true(!last || hc_closed(c, 5000));
    free(close);
    hc_done(&a);
    return last;
}

/* Who has not shown a token has one request of a connection; who has keeps it, whatever he asks. */
static void strangers_do_not_stay(void **state)
{
    static const struct {
        const char *token, *path;
        int status;
    } alone[] = {{NULL, "/livez", 200},
                 {NULL, "/v1/jobs", 401},
                 {NULL, "/none", 404},
                 {"qp_wrong", "/v1/jobs", 401}};
    struct hc c;
    (void)state;
    st_begin(ST_MEMORY, ST_TOKENS);
    for (size_t i = 0; i < ARRAY_COUNT(alone); i++) {
        assert_true(hc_open(&c, st.port));
        assert_true(ends(&c, alone[i].token, alone[i].path, alone[i].status));
        hc_close(&c);
    }
    assert_true(hc_open(&c, st.port));
    assert_false(ends(&c, st.token, "/v1/jobs", 200));
    assert_false(ends(&c, NULL, "/livez", 200));
    assert_false(ends(&c, NULL, "/v1/jobs", 401));
    hc_close(&c);
    st_end();
}

/* A body in chunks of somebody unknown is not even begun to be read: lines in it need have no end. */
static void strangers_send_no_chunks(void **state)
{
    static const char *const authorizations[] = {"", "Authorization: Bearer qp_wrong\r\n",
                                                 "Authorization: Bearer qp_admin_0000_11\r\n"};
    static const struct {
        const char *line;
        int status;
    } requests[] = {{"POST /v1/jobs HTTP/1.1\r\n", 401},
                    {"POST /none HTTP/1.1\r\n", 404},
                    {"POST /livez HTTP/1.1\r\n", 405},
                    {"GET /readyz HTTP/1.1\r\n", 200}};
    (void)state;
    st_begin(ST_MEMORY, ST_TOKENS);
    for (size_t i = 0; i < ARRAY_COUNT(authorizations) * ARRAY_COUNT(requests); i++) {
        struct hc c;
        struct hc_answer a;
        assert_true(hc_open(&c, st.port));
        assert_true(hc_text(&c, requests[i % ARRAY_COUNT(requests)].line));
        assert_true(hc_text(&c, authorizations[i / ARRAY_COUNT(requests)]));
        assert_true(hc_text(&c, HOST "Transfer-Encoding: chunked\r\n\r\n"));
        a = hc_read(&c, 5000); /* though nothing of the body came */
        assert_int_equal(a.status, requests[i % ARRAY_COUNT(requests)].status);
        expect_header(&a, "Connection", "close");
        hc_done(&a);
        assert_true(hc_closed(&c, 5000));
        hc_close(&c);
    }
    st_end();
}

static void start_with(const char *token, const char *framing, const char *body)
{
    char head[400];
    struct hc c;
    struct hc_answer a;
    (void)snprintf(head, sizeof head,
                   "POST /v1/jobs HTTP/1.1\r\n" HOST "Authorization: Bearer %s\r\n"
                   "Content-Type: application/json\r\n%s\r\n\r\n",
                   token, framing);
    assert_true(hc_open(&c, st.port));
    assert_true(hc_text(&c, head));
    assert_true(hc_text(&c, body));
    a = hc_read(&c, 5000);
    assert_int_equal(a.status, 201);
    hc_done(&a);
    hc_close(&c);
}

/* A token that the server has not seen yet is asked for before the body is read, in whatever way it comes,
 * and counts once. */
static void bodies_of_new_tokens(void **state)
{
    char token[TOKEN_TEXT_SIZE];
    (void)state;
    st_init(ST_FILE, ST_TOKENS);
    st.options.token_rate = 1; /* and a few at once */
    st_open();
    for (int i = 0; i < 4; i++) {
        st_token("trigger", NULL, token);
        for (int k = 0; k < AUTH_BURST_S + 1; k++) {
            if (i % 2 == 0) {
                start_with(token, "Content-Length: 13", "{\"topic\":\"w\"}");
            } else {
                start_with(token, "Transfer-Encoding: chunked",
                           "d\r\n{\"topic\":\"w\"}\r\n0\r\n\r\n");
            }
        }
    }
    st_end();
}

/* The largest head that is allowed is answered, with all that its answer needs. */
static void largest_head(void **state)
{
    char *path = repeat("GET /", 'a', LIMIT_URI_SIZE - 1, " HTTP/1.1\r\n" HOST);
    size_t left = LIMIT_HEADER_SIZE - strlen(HOST);
    struct hc c;
    struct hc_answer a;
    (void)state;
    st_begin(ST_MEMORY, ST_OPEN);
    assert_true(hc_open(&c, st.port));
    assert_true(hc_text(&c, path));
    for (int i = 0; i < LIMIT_HEADERS - 1; i++) {
        size_t size = left / (size_t)(LIMIT_HEADERS - 1 - i);
        char *line = repeat("A: ", 'a', size - strlen("A: \r\n"), "\r\n");
        assert_true(hc_text(&c, line));
        free(line);
        left -= size;
    }
    assert_int_equal(left, 0);
    assert_true(hc_text(&c, "\r\n"));
    a = hc_read(&c, 5000);
    assert_int_equal(a.status, 404);
    hc_done(&a);
    hc_close(&c);
    free(path);
    st_end();
}

/* A server ends well whatever its connections are about, also where several threads serve: some
 * are silent, some have just asked, some are on their way. */
static void ends_among_connections(void **state)
{
    (void)state;
    for (int round = 0; round < 40; round++) {
        struct hc c[12];
        st_init(ST_MEMORY, ST_OPEN);
        st.options.http_threads = 3;
        st_open();
        for (size_t i = 0; i < ARRAY_COUNT(c); i++) {
            assert_true(hc_open(&c[i], st.port));
            assert_true(i % 3 == 0 || hc_text(&c[i], "GET /livez HTTP/1.1\r\n" HOST "\r\n"));
        }
        st_end();
        for (size_t i = 0; i < ARRAY_COUNT(c); i++) {
            struct hc_answer a = hc_read(&c[i], 5000);
            assert_true(a.status == 0 || a.status == 200);
            hc_done(&a);
            assert_true(hc_closed(&c[i], 5000));
            hc_close(&c[i]);
        }
    }
}

/* Who comes when all places are taken waits for one: nobody is turned away. */
static void connections_wait_for_a_place(void **state)
{
    struct hc c[4], late;
    struct hc_answer a;
    (void)state;
    st_init(ST_MEMORY, ST_OPEN);
    st.options.connections = ARRAY_COUNT(c);
    st.options.http_threads = 2;
    st_open();
    for (size_t i = 0; i < ARRAY_COUNT(c); i++) {
        assert_true(hc_open(&c[i], st.port));
        a = hc_ask(&c[i], NULL, "GET", "/livez", NULL, NULL); /* it has its place */
        assert_int_equal(a.status, 200);
        hc_done(&a);
    }
    assert_true(hc_open(&late, st.port));
    assert_true(hc_text(&late, "GET /livez HTTP/1.1\r\n" HOST "\r\n"));
    assert_false(hc_more(&late, 300));
    hc_close(&c[0]);
    a = hc_read(&late, 5000);
    assert_int_equal(a.status, 200);
    hc_done(&a);
    hc_close(&late);
    for (size_t i = 1; i < ARRAY_COUNT(c); i++) {
        hc_close(&c[i]);
    }
    st_end();
}

/* ----------------------------------------------------------------------------------------- time */

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Whoever drips a head is cut off at its deadline, however lively he is, and is told so. */
static void slow_heads(void **state)
{
    struct hc silent, dripping;
    int64_t from = now_ms();
    bool alive = true;
    (void)state;
    st_begin(ST_MEMORY, ST_OPEN);
    assert_true(hc_open(&silent, st.port));
    assert_true(hc_open(&dripping, st.port));
    assert_true(hc_text(&dripping, "GET /livez HTTP/1.1\r\n"));
    while (alive && now_ms() - from < LIMIT_HEADER_MS * 2) {
        alive = hc_text(&dripping, "X: y\r\n") && !hc_more(&dripping, 200);
    }
    assert_in_range(now_ms() - from, LIMIT_HEADER_MS - 500, LIMIT_HEADER_MS + 3000);
    assert_true(dripping.size > 12 && memcmp(dripping.in + 9, "408", 3) == 0);
    assert_true(hc_closed(&silent, 3000));
    hc_close(&silent);
    hc_close(&dripping);
    assert_int_equal(st_call("GET", "/livez", NULL, NULL), 200);
    st_end();
}

/* A body has its time, too: 30 s, which is for the long lane. */
static void slow_bodies(void **state)
{
    const char *lane = getenv("QP_LANE");
    struct hc c;
    int64_t from = now_ms();
    bool alive = true;
    (void)state;
    if (lane == NULL || strcmp(lane, "torture") != 0) {
        skip();
    }
    st_begin(ST_MEMORY, ST_OPEN);
    assert_true(hc_open(&c, st.port));
    assert_true(hc_text(&c, "POST /v1/jobs HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\n"));
    while (alive && now_ms() - from < LIMIT_BODY_MS * 2) {
        alive = hc_text(&c, " ") && !hc_more(&c, 200);
    }
    assert_in_range(now_ms() - from, LIMIT_BODY_MS - 500, LIMIT_BODY_MS + 3000);
    assert_true(c.size > 12 && memcmp(c.in + 9, "408", 3) == 0);
    hc_close(&c);
    st_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smuggling_is_refused),
        cmocka_unit_test(line_ends_do_not_frame),
        cmocka_unit_test(good_ones_work),
        cmocka_unit_test(headers),
        cmocka_unit_test(rate_of_a_token),
        cmocka_unit_test(too_large_and_told),
        cmocka_unit_test(sizes),
        cmocka_unit_test(requests_per_connection),
        cmocka_unit_test(strangers_do_not_stay),
        cmocka_unit_test(strangers_send_no_chunks),
        cmocka_unit_test(bodies_of_new_tokens),
        cmocka_unit_test(largest_head),
        cmocka_unit_test(ends_among_connections),
        cmocka_unit_test(connections_wait_for_a_place),
        cmocka_unit_test(slow_heads),
        cmocka_unit_test(slow_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

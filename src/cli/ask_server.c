/* ask_server.c - asking a server, over HTTP, HTTPS or a Unix socket
 *
 * With registry.c the only file that knows libcurl. One connection is kept for all questions of a command. No
 * redirects, no proxies from the environment, no other protocols. The token is in a header and
 * nowhere else.
 */
#include <curl/curl.h>
#include <stdio.h>

#include "cli/ask.h"

#define CONNECT_MS 5000L
#define ANSWER_MS 120000L /* longer than the longest ?wait= */
#define FIRST_PAUSE_MS 50
#define PAUSE_MOST_MS 1000
#define FOLLOW_PATIENCE_MS 30000
#define RATE_PATIENCE_MS 30000 /* with a server that says: not so often */

struct remote {
    struct ask ask; /* first */
    CURL *curl;
    CURL *stream;   /* of events: who reads them may ask meanwhile. NULL: not yet */
    char base[512]; /* of URLs */
    char error[CURL_ERROR_SIZE];
    int64_t deadline_us;       /* of --timeout: nothing is tried again after it; 0: there is none */
    const char *authorization; /* a header, or NULL */
};

static struct remote *remote_of(const struct cli *c)
{
    return (struct remote *)c->ask;
}

/* ------------------------------------------------------------------------------------ questions */

static size_t take_body(char *bytes, size_t size, size_t count, void *context)
{
    struct buf *body = context;
    buf_add(body, bytes, size * count);
    return buf_rc(body) == QP_OK ? size * count : 0;
}

static struct curl_slist *headers_of(struct cli *c, const struct question *q, const char *more)
{
    const struct remote *r = remote_of(c);
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    list = r->authorization != NULL ? curl_slist_append(list, r->authorization) : list;
    if (!str_is_none(q->body) || q->text) {
        list = curl_slist_append(list, str_is_none(q->body) ? "Accept: application/yaml"
                                       : q->text            ? "Content-Type: application/yaml"
                                                            : "Content-Type: application/json");
    }
    list =
        q->key != NULL ? curl_slist_append(list, cli_text(c, "Idempotency-Key: %s", q->key)) : list;
    return more != NULL ? curl_slist_append(list, more) : list;
}

/* What every request needs; the handle keeps its connection. */
static void prepare(struct cli *c, CURL *curl, const struct question *q, struct curl_slist *headers)
{
    const struct remote *r = remote_of(c);
    static const char *const words[] = {"GET", "POST", "PUT", "DELETE"};
    (void)curl_easy_setopt(curl, CURLOPT_URL, cli_text(c, "%s%s", r->base, ask_target(c, q)));
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, ANSWER_MS);
    if (str_is_none(q->body)) {
        (void)curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
    } else {
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body.n);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, q->body.p);
    }
    (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, words[q->method]);
}

static CURLcode ask_once(struct cli *c, const struct question *q, struct reply *out_reply)
{
    struct remote *r = remote_of(c);
    struct curl_slist *headers = headers_of(c, q, NULL);
    long status = 0;
    CURLcode rc;
    buf_reset(&out_reply->body);
    prepare(c, r->curl, q, headers);
    (void)curl_easy_setopt(r->curl, CURLOPT_WRITEFUNCTION, take_body);
    (void)curl_easy_setopt(r->curl, CURLOPT_WRITEDATA, &out_reply->body);
    r->error[0] = '\0';
    rc = curl_easy_perform(r->curl);
    (void)curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &status);
    out_reply->status = (int)status;
    curl_slist_free_all(headers);
    return rc;
}

static int unreachable(struct cli *c, CURLcode rc)
{
    const struct remote *r = remote_of(c);
    if (rc == CURLE_WRITE_ERROR) {
        return cli_fail(c, EXIT_ERROR, "the answer is too large for this program");
    }
    if (rc == CURLE_COULDNT_CONNECT && strncmp(r->ask.whom, "unix:", 5) == 0) {
        return cli_fail_next(c, EXIT_UNREACHABLE, "quipu serve", "%s: no server listens there",
                             r->ask.whom); /* libcurl would name a port */
    }
    return cli_fail_next(c, EXIT_UNREACHABLE, "quipu serve, or quipu doctor", "%s: %s", r->ask.whom,
                         r->error[0] != '\0' ? r->error : curl_easy_strerror(rc));
}

/* When a server whose answer was "too often" wants to be asked again, in milliseconds; 0: that was not its answer. One that
 * has reached a limit of its own does not say when. */
static qp_ms rate_pause_ms(CURL *curl, long status)
{
    curl_off_t seconds = 0;
    return status == 429 && curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK &&
                   seconds > 0
               ? (qp_ms)(seconds < RATE_PATIENCE_MS / 1000 ? seconds * 1000 : RATE_PATIENCE_MS)
               : 0;
}

/* Until when a question is tried again: for so long, and not beyond the command's own time. */
static int64_t until(const struct remote *r, int64_t begun_us, qp_ms patience_ms)
{
    int64_t at = begun_us + patience_ms * 1000;
    return r->deadline_us != 0 && r->deadline_us < at ? r->deadline_us : at;
}

/* A server that is being started again answers nothing, or that it is busy: who has the patience
 * asks again. One that is asked too often has done nothing, and is asked again when it says so. */
static int server_ask(struct cli *c, const struct question *q, struct reply *out_reply)
{
    const struct remote *r = remote_of(c);
    int64_t begun_us = cli_now_us(c);
    qp_ms pause_ms = FIRST_PAUSE_MS;
    CURLcode rc;
    buf_init(&out_reply->body, &c->env, 0);
    for (;;) {
        qp_ms rate_ms;
        rc = ask_once(c, q, out_reply);
        rate_ms = rc == CURLE_OK ? rate_pause_ms(r->curl, out_reply->status) : 0;
        if (rate_ms > 0) {
            if (cli_now_us(c) + rate_ms * 1000 >= until(r, begun_us, RATE_PATIENCE_MS)) {
                break;
            }
            cli_sleep_ms(rate_ms);
            continue;
        }
        if ((rc == CURLE_OK && out_reply->status != 503) || rc == CURLE_WRITE_ERROR ||
            cli_now_us(c) >= until(r, begun_us, q->patience_ms)) {
            break;
        }
        cli_sleep_ms(pause_ms);
        pause_ms = pause_ms * 2 < PAUSE_MOST_MS ? pause_ms * 2 : PAUSE_MOST_MS;
    }
    if (rc != CURLE_OK) {
        reply_done(out_reply);
        return unreachable(c, rc);
    }
    return EXIT_OK;
}

/* --------------------------------------------------------------------------------------- events */

/* A stream of events, line by line. */
struct events {
    struct cli *c;
    struct buf all;  /* not yet looked at */
    struct buf data; /* of the event that is being read */
    char id[32];
    bool is_end;
    bool stop;  /* by the visit */
    bool ended; /* by the server */
    int64_t deadline_us;
    int64_t alive_us; /* when something last came */
    int64_t ticked_us;
    void *context;
    follow_visit visit;
};

static void take_event(struct events *e)
{
    e->ended = e->ended || e->is_end;
    if (e->data.n > 0 && !e->is_end && !e->stop) {
        e->stop = !e->visit(e->context, buf_slice(&e->data));
    }
    e->is_end = false;
    buf_reset(&e->data);
}

static void take_line(struct events *e, qp_str line)
{
    if (line.n == 0) {
        take_event(e);
    } else if (line.n >= 6 && memcmp(line.p, "data: ", 6) == 0) {
        if (e->data.n > 0) {
            buf_byte(&e->data, '\n');
        }
        buf_add(&e->data, line.p + 6, line.n - 6);
    } else if (line.n >= 4 && memcmp(line.p, "id: ", 4) == 0) {
        (void)snprintf(e->id, sizeof e->id, "%.*s", (int)line.n - 4, line.p + 4);
    } else if (str_equal(line, QP_STR("event: end"))) {
        e->is_end = true;
    }
}

static size_t take_stream(char *bytes, size_t size, size_t count, void *context)
{
    struct events *e = context;
    const char *end;
    buf_add(&e->all, bytes, size * count);
    e->alive_us = cli_now_us(e->c);
    while (buf_rc(&e->all) == QP_OK && !e->stop && !e->ended &&
           (end = memchr(e->all.p, '\n', e->all.n)) != NULL) {
        size_t n = (size_t)(end - e->all.p);
        take_line(e, (qp_str){e->all.p, n});
        memmove(e->all.p, e->all.p + n + 1, e->all.n - n - 1);
        e->all.n -= n + 1;
    }
    return e->stop || e->ended || buf_rc(&e->all) != QP_OK ? 0 : size * count;
}

/* Called by libcurl several times a second, whatever comes. */
static int tick(void *context, curl_off_t a, curl_off_t b, curl_off_t d, curl_off_t f)
{
    struct events *e = context;
    int64_t now = cli_now_us(e->c);
    (void)a, (void)b, (void)d, (void)f;
    if (now - e->ticked_us > 500000) {
        e->ticked_us = now;
        e->stop = e->stop || !e->visit(e->context, QP_NONE);
    }
    return e->stop || (e->deadline_us != 0 && now >= e->deadline_us);
}

static CURLcode follow_once(struct cli *c, const struct question *q, struct events *e, long *status)
{
    struct remote *r = remote_of(c);
    struct curl_slist *headers = headers_of(c, q, "Accept: text/event-stream");
    CURLcode rc;
    headers = curl_slist_append(headers, cli_text(c, "Last-Event-ID: %s", e->id));
    prepare(c, r->stream, q, headers);
    (void)curl_easy_setopt(r->stream, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(r->stream, CURLOPT_TIMEOUT_MS, 0L);
    (void)curl_easy_setopt(r->stream, CURLOPT_XFERINFOFUNCTION, tick);
    (void)curl_easy_setopt(r->stream, CURLOPT_XFERINFODATA, e);
    (void)curl_easy_setopt(r->stream, CURLOPT_WRITEFUNCTION, take_stream);
    (void)curl_easy_setopt(r->stream, CURLOPT_WRITEDATA, e);
    r->error[0] = '\0';
    rc = curl_easy_perform(r->stream);
    (void)curl_easy_getinfo(r->stream, CURLINFO_RESPONSE_CODE, status);
    curl_slist_free_all(headers);
    buf_reset(&e->all);
    buf_reset(&e->data);
    return rc;
}

/* Until the end, over connections that break. */
static int follow_all(struct cli *c, const struct question *q, struct events *e)
{
    for (;;) {
        long status = 0;
        CURLcode rc = follow_once(c, q, e, &status);
        int64_t now = cli_now_us(c);
        qp_ms pause_ms;
        if (e->ended || e->stop) {
            return EXIT_OK;
        }
        if (e->deadline_us != 0 && now >= e->deadline_us) {
            return EXIT_TIMEOUT;
        }
        pause_ms = rate_pause_ms(remote_of(c)->stream, status);
        if (status >= 400 && status != 503 && pause_ms == 0) {
            struct reply refused;
            int code = ask_well(c, q, &refused); /* the same question says why, as JSON */
            reply_done(&refused);
            return code == EXIT_OK ? cli_fail(c, EXIT_ERROR, "no events: status %ld", status)
                                   : code;
        }
        if (now - e->alive_us > FOLLOW_PATIENCE_MS * 1000) {
            return unreachable(c, rc);
        }
        pause_ms = pause_ms > 0 ? pause_ms : FIRST_PAUSE_MS * 4;
        if (e->deadline_us != 0 && e->deadline_us - now < pause_ms * 1000) {
            pause_ms = (e->deadline_us - now) / 1000 + 1;
        }
        cli_sleep_ms(pause_ms);
    }
}

static int server_follow(struct cli *c, const char *job, int64_t after, int64_t deadline_us,
                         void *context, follow_visit visit)
{
    struct question q = {.path = cli_text(c, "/v1/jobs/%s/events", cli_encode(c, job))};
    struct remote *r = remote_of(c);
    struct events e = {.c = c,
                       .deadline_us = deadline_us,
                       .alive_us = cli_now_us(c),
                       .context = context,
                       .visit = visit};
    int status;
    r->stream = r->stream != NULL ? r->stream : curl_easy_duphandle(r->curl);
    if (r->stream == NULL) {
        return cli_fail(c, EXIT_ERROR, "out of memory");
    }
    (void)snprintf(e.id, sizeof e.id, "%lld", (long long)after);
    buf_init(&e.all, &c->env, 0);
    buf_init(&e.data, &c->env, 0);
    status = follow_all(c, &q, &e);
    buf_done(&e.all);
    buf_done(&e.data);
    return status;
}

/* ----------------------------------------------------------------------------------------- open */

static void server_close_ask(struct cli *c)
{
    struct remote *r = remote_of(c);
    curl_easy_cleanup(r->stream);
    curl_easy_cleanup(r->curl);
    curl_global_cleanup();
    mem_free(&c->env, r);
}

/* "unix:PATH", "http://..." or "https://...", without a path. */
static bool take_address(struct remote *r, const char *server)
{
    size_t n = strlen(server);
    if (strncmp(server, "unix:", 5) == 0) {
        (void)snprintf(r->base, sizeof r->base, "http://localhost");
        return curl_easy_setopt(r->curl, CURLOPT_UNIX_SOCKET_PATH, server + 5) == CURLE_OK;
    }
    while (n > 0 && server[n - 1] == '/') {
        n--;
    }
    (void)snprintf(r->base, sizeof r->base, "%.*s", (int)n, server);
    return n < sizeof r->base &&
           (strncmp(server, "http://", 7) == 0 || strncmp(server, "https://", 8) == 0) &&
           strpbrk(strstr(r->base, "://") + 3, "/@?#") == NULL;
}

int ask_server_open(struct cli *c, const char *server, const char *token)
{
    struct remote *r = mem_alloc(&c->env, sizeof *r);
    qp_ms timeout = -1;
    int status;
    if (r == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
        (r->curl = curl_easy_init()) == NULL) {
        mem_free(&c->env, r);
        return cli_fail(c, EXIT_ERROR, "out of memory");
    }
    r->ask = (struct ask){.ask = server_ask,
                          .follow = server_follow,
                          .close = server_close_ask,
                          .whom = cli_text(c, "%s", server)};
    c->ask = &r->ask;
    r->authorization = token != NULL ? cli_text(c, "Authorization: Bearer %s", token) : NULL;
    status = cli_duration(c, OPT_timeout, &timeout);
    if (status != EXIT_OK) {
        return status;
    }
    r->deadline_us = timeout < 0 ? 0 : cli_now_us(c) + timeout * 1000 + 1;
    if (!take_address(r, server)) {
        return cli_usage(
            "%s: a server is http://HOST:PORT, https://HOST:PORT or unix:PATH, not '%s'; see "
            "quipu help %s",
            c->command->words, server, c->command->words);
    }
    (void)curl_easy_setopt(r->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(r->curl, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(r->curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(r->curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    (void)curl_easy_setopt(r->curl, CURLOPT_ERRORBUFFER, r->error);
    if (cli_has(c, OPT_ca_file)) {
        (void)curl_easy_setopt(r->curl, CURLOPT_CAINFO, c->values[OPT_ca_file]);
    }
    return EXIT_OK;
}

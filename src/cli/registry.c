/* registry.c - packuments over HTTP (see registry.h)
 *
 * One of the two files that know libcurl (ask_server.c). Connections are kept with their handles, as many as ask at once.
 */
#include "cli/registry.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <strings.h>

#include "base/hash.h"
#include "cli/npm_config.h"

#define CONNECT_MS 10000L
#define ANSWER_MS 300000L
#define SLOW_SECONDS 30L /* with less than a byte per second it is over */
#define REDIRECTS 5

#define WHOLE "application/json"
#define SHORT "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*"

/* `lock`: whether the configuration was read, and the handles that nobody uses. */
struct web {
    struct registry registry; /* first */
    const struct qp_env *env;
    pthread_mutex_t lock;
    bool is_read;
    int rc;
    struct qp_err err;
    struct npm_config config;
    CURL *handles[LIMIT_NPM_FETCHES];
    size_t handle_count;
};

/* -------------------------------------------------------------------------------------------- config */

static int configured(struct web *w, struct qp_err *err)
{
    int rc;
    (void)pthread_mutex_lock(&w->lock); /* neither fails for a mutex of this kind */
    if (!w->is_read) {
        if (w->config.arena.env != NULL) {
            npm_config_done(&w->config);
        }
        w->rc = npm_config_read(&w->config, w->env, &w->err);
        w->is_read = w->rc == QP_OK || w->rc == QP_E_UNSUPPORTED;
    }
    rc = w->rc;
    if (rc != QP_OK && err != NULL) {
        *err = w->err;
    }
    (void)pthread_mutex_unlock(&w->lock);
    return rc;
}

static int source(void *context, qp_str package, char out_source[REGISTRY_TAG_SIZE],
                  struct qp_err *err)
{
    struct web *w = context;
    struct hash_stream h;
    const char *url;
    QP_TRY(configured(w, err));
    url = npm_config_registry(&w->config, package);
    hash_stream_init(&h);
    hash_stream_add(&h, url, strlen(url));
    hash_stream_end(&h, out_source);
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------- handles */

static CURL *take_handle(struct web *w)
{
    CURL *curl = NULL;
    (void)pthread_mutex_lock(&w->lock);
    if (w->handle_count > 0) {
        curl = w->handles[--w->handle_count];
    }
    (void)pthread_mutex_unlock(&w->lock);
    return curl != NULL ? curl : curl_easy_init();
}

static void put_handle(struct web *w, CURL *curl)
{
    bool is_kept = false;
    curl_easy_reset(curl);
    (void)pthread_mutex_lock(&w->lock);
    if (w->handle_count < LIMIT_NPM_FETCHES) {
        w->handles[w->handle_count++] = curl;
        is_kept = true;
    }
    (void)pthread_mutex_unlock(&w->lock);
    if (!is_kept) {
        curl_easy_cleanup(curl);
    }
}

/* ------------------------------------------------------------------------------------------ one answer */

static size_t take_body(char *bytes, size_t size, size_t count, void *context)
{
    struct buf *body = context;
    buf_add(body, bytes, size * count);
    return buf_rc(body) == QP_OK ? size * count : 0;
}

/* The value of a header line of this name, without spaces around it. */
static bool is_header(qp_str line, const char *name, qp_str *out_value)
{
    size_t n = strlen(name);
    if (line.n <= n || strncasecmp(line.p, name, n) != 0 || line.p[n] != ':') {
        return false;
    }
    line = (qp_str){line.p + n + 1, line.n - n - 1};
    while (line.n > 0 && line.p[0] == ' ') {
        line = (qp_str){line.p + 1, line.n - 1};
    }
    while (line.n > 0 && strchr(" \r\n", line.p[line.n - 1]) != NULL) {
        line.n--;
    }
    *out_value = line;
    return true;
}

/* A mark that is too long is none. */
static void keep_header(char out[REGISTRY_TAG_SIZE], qp_str value)
{
    size_t n = value.n < REGISTRY_TAG_SIZE ? value.n : 0;
    memcpy(out, value.p, n);
    out[n] = '\0';
}

static size_t take_header(char *bytes, size_t size, size_t count, void *context)
{
    struct registry_reply *reply = context;
    qp_str line = {bytes, size * count};
    qp_str value;
    if (is_header(line, "etag", &value)) {
        keep_header(reply->etag, value);
    } else if (is_header(line, "last-modified", &value)) {
        keep_header(reply->last_modified, value);
    } else if (is_header(line, "content-type", &value)) {
        reply->is_html = value.n >= 9 && strncasecmp(value.p, "text/html", 9) == 0;
    }
    return size * count;
}

static void add_header(struct curl_slist **list, struct buf *line, const char *name,
                       const char *value)
{
    struct curl_slist *longer;
    if (value[0] == '\0') {
        return;
    }
    buf_reset(line);
    buf_text(line, name);
    buf_text(line, value);
    buf_byte(line, '\0');
    longer = buf_rc(line) == QP_OK ? curl_slist_append(*list, line->p) : NULL;
    *list = longer != NULL ? longer : *list;
}

static struct curl_slist *headers_of(const struct web *w, const struct registry_question *question,
                                     const char *url)
{
    struct curl_slist *list = NULL;
    struct buf line;
    struct buf authorization;
    buf_init(&line, w->env, 0);
    buf_init(&authorization, w->env, 0);
    npm_config_authorization(&w->config, url, &authorization);
    buf_byte(&authorization, '\0');
    add_header(&list, &line, "Accept: ", question->whole ? WHOLE : SHORT);
    add_header(&list, &line, "If-None-Match: ", question->etag);
    add_header(&list, &line, "If-Modified-Since: ", question->last_modified);
    if (buf_rc(&authorization) == QP_OK) {
        add_header(&list, &line, "Authorization: ", authorization.p);
    }
    buf_done(&authorization);
    buf_done(&line);
    return list;
}

/* An option that is not known to this libcurl fails the question, rather than that it is asked without. */
static CURLcode prepare(const struct web *w, CURL *curl, const char *url,
                        struct curl_slist *headers, struct registry_reply *reply)
{
    const struct npm_config *c = &w->config;
    bool is_https = strncmp(url, "https:", 6) == 0;
    const char *proxy = is_https && c->https_proxy != NULL ? c->https_proxy : c->proxy;
    CURLcode rc = CURLE_OK;
#define SET(option, value)                                                                         \
    rc = rc != CURLE_OK ? rc : curl_easy_setopt(curl, CURLOPT_##option, value)
    SET(URL, url);
    SET(HTTPHEADER, headers);
    SET(NOPROGRESS, 1L);
    SET(NOSIGNAL, 1L);
    SET(PROTOCOLS_STR, "http,https");
    SET(USERAGENT, "quipu");
    SET(ACCEPT_ENCODING, "");
    SET(CONNECTTIMEOUT_MS, CONNECT_MS);
    SET(TIMEOUT_MS, ANSWER_MS);
    SET(LOW_SPEED_LIMIT, 1L);
    SET(LOW_SPEED_TIME, SLOW_SECONDS);
    SET(PROXY, proxy != NULL ? proxy : "");
    SET(NOPROXY, c->noproxy);
    SET(SSL_VERIFYPEER, c->is_strict ? 1L : 0L);
    SET(SSL_VERIFYHOST, c->is_strict ? 2L : 0L);
    if (c->cafile != NULL) {
        SET(CAINFO, c->cafile);
    }
    SET(WRITEFUNCTION, take_body);
    SET(WRITEDATA, &reply->body);
    SET(HEADERFUNCTION, take_header);
    SET(HEADERDATA, reply);
#undef SET
    return rc;
}

static void say(struct registry_reply *reply, const char *why)
{
    (void)snprintf(reply->why, sizeof reply->why, "%s", why);
}

/* ------------------------------------------------------------------------------------------ redirects */

/* What stands before the path of a URL: the scheme, the host and the port. */
static size_t place_size(const char *url)
{
    const char *begin = strstr(url, "://");
    return begin == NULL ? 0 : (size_t)(begin - url) + 3 + strcspn(begin + 3, "/?#");
}

static bool same_place(const char *a, const char *b)
{
    size_t n = place_size(a);
    return n > 0 && place_size(b) == n && strncasecmp(a, b, n) == 0;
}

/* Where a redirect leads, in `url`; false: it leads elsewhere, or nowhere. */
static bool follow(CURL *curl, struct buf *url, struct registry_reply *reply)
{
    char *next = NULL;
    reply->is_refused = true;
    if (curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &next) != CURLE_OK || next == NULL) {
        say(reply, "the registry redirects to nowhere");
        return false;
    }
    if (!same_place(url->p, next)) {
        say(reply,
            "the registry redirects to another host, which is refused: set the registry of npm to "
            "that one, if it is meant");
        return false;
    }
    buf_reset(url);
    buf_text(url, next);
    buf_byte(url, '\0');
    reply->is_refused = false;
    return buf_rc(url) == QP_OK;
}

static bool is_redirect(int status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* ---------------------------------------------------------------------------------------------- asking */

static void ask_once(struct web *w, CURL *curl, const struct registry_question *question,
                     const char *url, struct registry_reply *reply)
{
    struct curl_slist *headers = headers_of(w, question, url);
    long status = 0;
    CURLcode rc;
    buf_reset(&reply->body);
    reply->is_html = false;
    reply->etag[0] = '\0';
    reply->last_modified[0] = '\0';
    rc = prepare(w, curl, url, headers, reply);
    rc = rc == CURLE_OK ? curl_easy_perform(curl) : rc;
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    reply->status = rc == CURLE_OK ? (int)status : 0;
    if (rc == CURLE_WRITE_ERROR) {
        reply->is_refused = true;
        say(reply, "the packument has more than 64 MiB (LIMIT_NPM_PACKUMENT_SIZE)");
    } else if (rc != CURLE_OK) {
        say(reply, curl_easy_strerror(rc));
    }
    curl_slist_free_all(headers);
}

/* "@scope/name" is one part of the path. */
static void put_url(const struct npm_config *c, qp_str package, struct buf *out)
{
    buf_text(out, npm_config_registry(c, package));
    for (size_t i = 0; i < package.n; i++) {
        if (package.p[i] == '/') {
            buf_text(out, "%2f");
        } else {
            buf_byte(out, package.p[i]);
        }
    }
    buf_byte(out, '\0');
}

static int get(void *context, const struct registry_question *question,
               struct registry_reply *reply)
{
    struct web *w = context;
    struct buf url;
    CURL *curl;
    int rc;
    QP_TRY(configured(w, NULL));
    curl = take_handle(w);
    if (curl == NULL) {
        return QP_E_NOMEM;
    }
    buf_init(&url, w->env, 0);
    put_url(&w->config, question->package, &url);
    rc = buf_rc(&url);
    for (int i = 0; rc == QP_OK && i <= REDIRECTS; i++) {
        reply->is_refused = false;
        ask_once(w, curl, question, url.p, reply);
        if (!is_redirect(reply->status) || !follow(curl, &url, reply)) {
            break;
        }
        reply->is_refused = i == REDIRECTS;
        say(reply, "the registry redirects in a circle");
    }
    buf_done(&url);
    put_handle(w, curl);
    return rc;
}

const struct registry *registry_open(const struct qp_env *env)
{
    struct web *w = mem_alloc(env, sizeof *w);
    if (w == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        mem_free(env, w);
        return NULL;
    }
    *w = (struct web){.registry = {.context = w, .get = get, .source = source},
                      .env = env,
                      .lock = PTHREAD_MUTEX_INITIALIZER};
    return &w->registry;
}

void registry_close(const struct registry *registry)
{
    struct web *w;
    if (registry == NULL) {
        return;
    }
    w = registry->context;
    for (size_t i = 0; i < w->handle_count; i++) {
        curl_easy_cleanup(w->handles[i]);
    }
    if (w->config.arena.env != NULL) {
        npm_config_done(&w->config);
    }
    (void)pthread_mutex_destroy(&w->lock); /* nobody holds it */
    curl_global_cleanup();
    mem_free(w->env, w);
}

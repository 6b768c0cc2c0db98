/* head.c - judging the head of a request */
#include "server/head.h"

#include <stdarg.h>
#include <stdio.h>

/* The first reason counts. */
static void refuse(struct head *h, enum api_problem problem, const char *format, ...)
    QP_PRINTF(3, 4);

static void refuse(struct head *h, enum api_problem problem, const char *format, ...)
{
    va_list arguments;
    if (h->refused) {
        return;
    }
    h->refused = true;
    h->problem = problem;
    va_start(arguments, format);
    (void)vsnprintf(h->why, sizeof h->why, format, arguments); /* a cut sentence is good enough */
    va_end(arguments);
}

void head_begin(struct head *h, const struct head_rules *rules)
{
    *h = (struct head){.rules = rules};
}

/* ------------------------------------------------------------------------------ the first line */

void head_line(struct head *h, qp_str version, qp_str target, qp_str *out_path, qp_str *out_query)
{
    const char *mark = target.n == 0 ? NULL : memchr(target.p, '?', target.n);
    size_t path_size = mark == NULL ? target.n : (size_t)(mark - target.p);
    *out_path = (qp_str){target.p, path_size};
    *out_query = mark == NULL ? QP_NONE : (qp_str){mark + 1, target.n - path_size - 1};
    if (!str_equal(version, QP_STR("HTTP/1.1")) && !str_equal(version, QP_STR("HTTP/1.0"))) {
        refuse(h, PROBLEM_BAD_REQUEST, "the version is neither HTTP/1.1 nor HTTP/1.0");
    }
    if (target.n > LIMIT_URI_SIZE) {
        refuse(h, PROBLEM_URI_SIZE, "%zu bytes, the limit is %d", target.n, LIMIT_URI_SIZE);
    }
    if (target.n == 0 || target.p[0] != '/') {
        refuse(h, PROBLEM_BAD_REQUEST, "the target does not begin with a slash");
    }
    for (size_t i = 0; i < target.n; i++) {
        unsigned char byte = (unsigned char)target.p[i];
        if (byte <= 0x20 || byte >= 0x7f || byte == '#') {
            refuse(h, PROBLEM_BAD_REQUEST, "the target has a byte that has to be encoded");
        }
    }
}

/* --------------------------------------------------------------------------------- the headers */

static bool is_token(qp_str name)
{
    for (size_t i = 0; i < name.n; i++) {
        unsigned char byte = (unsigned char)name.p[i];
        if (byte <= 0x20 || byte >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", byte) != NULL) {
            return false;
        }
    }
    return name.n > 0;
}

static bool is_value(qp_str value)
{
    for (size_t i = 0; i < value.n; i++) {
        unsigned char byte = (unsigned char)value.p[i];
        if ((byte < 0x20 && byte != '\t') || byte == 0x7f) {
            return false;
        }
    }
    return true;
}

static qp_str trim(qp_str value)
{
    while (value.n > 0 && (value.p[value.n - 1] == ' ' || value.p[value.n - 1] == '\t')) {
        value.n--;
    }
    return value;
}

static bool is_named(qp_str name, const char *wanted)
{
    return name.n == strlen(wanted) && strncasecmp(name.p, wanted, name.n) == 0;
}

static void add_length(struct head *h, qp_str value)
{
    uint64_t length = 0;
    if (h->has_length) {
        refuse(h, PROBLEM_BAD_REQUEST, "Content-Length comes twice");
    }
    h->has_length = true;
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] < '0' || value.p[i] > '9') {
            refuse(h, PROBLEM_BAD_REQUEST, "Content-Length is not a number");
            return;
        }
        length = length > UINT64_MAX / 10 - 1 ? UINT64_MAX / 10
                                              : length * 10 + (uint64_t)(value.p[i] - '0');
    }
    if (value.n == 0) {
        refuse(h, PROBLEM_BAD_REQUEST, "Content-Length is empty");
    }
    h->length = length;
}

bool head_is_too_large(const struct head *h)
{
    return h->has_length && h->length > h->rules->body_size;
}

/* Who waits for a word before it sends the body has it at once; of what is far too large nothing is read. */
static void judge_length(struct head *h)
{
    if (head_is_too_large(h) &&
        (h->waits || h->length - h->rules->body_size > h->rules->drop_size)) {
        refuse(h, PROBLEM_BODY_SIZE, "the limit is %zu bytes", h->rules->body_size);
    }
}

static void add_encoding(struct head *h, qp_str value)
{
    if (h->has_encoding) {
        refuse(h, PROBLEM_BAD_REQUEST, "Transfer-Encoding comes twice");
    }
    h->has_encoding = true;
    if (!is_named(value, "chunked")) {
        refuse(h, PROBLEM_BAD_REQUEST, "Transfer-Encoding may only be chunked");
    }
}

/* ":7700", or nothing: what else may follow a name is somebody else's name. */
static bool is_port(qp_str text)
{
    for (size_t i = 1; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9') {
            return false;
        }
    }
    return text.n == 0 || (text.p[0] == ':' && text.n > 1 && text.n <= 6);
}

/* The name without its port: "localhost:7700", "[::1]:7700". Where no port follows it, all of it is the name, and is
 * known to nobody. */
static qp_str host_name(qp_str value)
{
    const char *end = value.n == 0        ? NULL
                      : value.p[0] == '[' ? memchr(value.p, ']', value.n)
                                          : memchr(value.p, ':', value.n);
    size_t size = end == NULL ? value.n : (size_t)(end - value.p) + (value.p[0] == '[' ? 1 : 0);
    return is_port((qp_str){value.p + size, value.n - size}) ? (qp_str){value.p, size} : value;
}

static void add_host(struct head *h, qp_str value)
{
    qp_str name = host_name(value);
    bool known = h->rules->any_host;
    if (h->has_host) {
        refuse(h, PROBLEM_BAD_REQUEST, "Host comes twice");
    }
    h->has_host = true;
    h->host = value;
    for (size_t i = 0; i < h->rules->host_count; i++) {
        known = known || is_named(name, h->rules->hosts[i]);
    }
    if (!known) {
        refuse(h, PROBLEM_MISDIRECTED, "it is not a name of this server");
    }
}

static void add_request_id(struct api_call *c, qp_str value)
{
    for (size_t i = 0; i < value.n; i++) {
        char byte = value.p[i];
        bool plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                     (byte >= 'A' && byte <= 'Z') || strchr("._-", byte) != NULL;
        if (!plain || byte == '\0') {
            return; /* somebody else's idea of an id: we make our own */
        }
    }
    if (value.n > 0 && value.n <= LIMIT_REQUEST_ID_SIZE) {
        memcpy(c->request_id, value.p, value.n);
        c->request_id[value.n] = '\0';
    }
}

/* "https://name:port" has to be the name that was asked for. */
static bool is_own_origin(const struct head *h)
{
    const char *slashes = h->origin.n == 0 ? NULL : memmem(h->origin.p, h->origin.n, "://", 3);
    qp_str name;
    if (slashes == NULL) {
        return false;
    }
    name.p = slashes + 3;
    name.n = h->origin.n - (size_t)(name.p - h->origin.p);
    return name.n == h->host.n && strncasecmp(name.p, h->host.p, name.n) == 0;
}

/* Where the proxy was asked from: what it has added itself stands last. */
static void add_forwarded(const struct head *h, struct api_call *c, qp_str value)
{
    size_t from = value.n;
    while (from > 0 && value.p[from - 1] != ',' && value.p[from - 1] != ' ') {
        from--;
    }
    if (h->rules->behind_proxy && value.n - from > 0 && value.n - from < 64) {
        c->from = (qp_str){value.p + from, value.n - from};
    }
}

/* What a call wants to know of. A second one of these would make two readers disagree. */
static void add_to_call(struct head *h, qp_str name, qp_str value, struct api_call *c)
{
    const struct {
        const char *name;
        qp_str *place;
    } places[] = {
        {"Authorization", &c->authorization},
        {"Accept", &c->accept},
        {"Content-Type", &c->content_type},
        {"Idempotency-Key", &c->idempotency_key},
        {"Last-Event-ID", &c->last_event_id},
        {"traceparent", &c->traceparent},
        {"Range", &c->range},
    };
    for (size_t i = 0; i < ARRAY_COUNT(places); i++) {
        if (is_named(name, places[i].name)) {
            if (!str_is_none(*places[i].place)) {
                refuse(h, PROBLEM_BAD_REQUEST, "%s comes twice", places[i].name);
            }
            *places[i].place = value;
        }
    }
}

void head_add(struct head *h, qp_str name, qp_str value, struct api_call *c)
{
    h->header_count++;
    h->header_size += name.n + value.n + 4;
    value = trim(value);
    if (h->header_count > LIMIT_HEADERS || h->header_size > LIMIT_HEADER_SIZE) {
        refuse(h, PROBLEM_HEADER_SIZE, "there may be %d of %d bytes together", LIMIT_HEADERS,
               LIMIT_HEADER_SIZE);
        return;
    }
    if (!is_token(name) || !is_value(value)) {
        refuse(h, PROBLEM_BAD_REQUEST, "a header has a byte that may not be there");
        return;
    }
    if (is_named(name, "Content-Length")) {
        add_length(h, value);
    } else if (is_named(name, "Transfer-Encoding")) {
        add_encoding(h, value);
    } else if (is_named(name, "Host")) {
        add_host(h, value);
    } else if (is_named(name, "Content-Encoding")) {
        refuse(h, PROBLEM_MEDIA_TYPE, "the body may not be compressed");
    } else if (is_named(name, "Expect")) {
        h->waits = is_named(value, "100-continue");
    } else if (is_named(name, "Origin")) {
        h->origin = value;
    } else if (is_named(name, "X-Request-Id")) {
        add_request_id(c, value);
    } else if (is_named(name, "X-Forwarded-For")) {
        add_forwarded(h, c, value);
    } else {
        add_to_call(h, name, value, c);
    }
}

bool head_end(struct head *h)
{
    judge_length(h);
    if (h->has_length && h->has_encoding) {
        refuse(h, PROBLEM_BAD_REQUEST, "both Content-Length and Transfer-Encoding");
    }
    if (!h->has_host && !h->rules->any_host) {
        refuse(h, PROBLEM_BAD_REQUEST, "there is no Host");
    }
    if (!str_is_none(h->origin) && !is_own_origin(h)) {
        refuse(h, PROBLEM_FORBIDDEN, "pages of other origins may not ask");
    }
    return !h->refused;
}

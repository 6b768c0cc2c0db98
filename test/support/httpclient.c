/* httpclient.c - a small HTTP client on a raw socket */
#include "support/httpclient.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/env.h"
#include "base/json.h"

static bool connected(struct hc *c, int fd, const struct sockaddr *address, socklen_t size)
{
    *c = (struct hc){.fd = fd};
    if (fd < 0 || connect(fd, address, size) != 0) {
        hc_close(c);
        return false;
    }
    return true;
}

bool hc_open(struct hc *c, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    bool good = connected(c, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                          (struct sockaddr *)&address, sizeof address);
    if (good) {
        (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on,
                         sizeof on); /* bytes go as they are sent */
    }
    return good;
}

bool hc_open_unix(struct hc *c, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return connected(c, socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), (struct sockaddr *)&address,
                     sizeof address);
}

void hc_close(struct hc *c)
{
    if (c->fd >= 0) {
        (void)close(c->fd);
    }
    free(c->in);
    *c = (struct hc){.fd = -1};
}

bool hc_send(struct hc *c, const void *bytes, size_t size)
{
    const char *p = bytes;
    while (size > 0) {
        ssize_t n = send(c->fd, p, size, MSG_NOSIGNAL);
        if (n <= 0) {
            return false;
        }
        p += n;
        size -= (size_t)n;
    }
    return true;
}

bool hc_text(struct hc *c, const char *text)
{
    return hc_send(c, text, strlen(text));
}

bool hc_more(struct hc *c, int timeout_ms)
{
    struct pollfd ready = {.fd = c->fd, .events = POLLIN};
    ssize_t n;
    if (c->room - c->size < 4096) {
        char *larger = realloc(c->in, c->room * 2 + 8192);
        if (larger == NULL) {
            return false;
        }
        c->in = larger;
        c->room = c->room * 2 + 8192;
    }
    if (poll(&ready, 1, timeout_ms) != 1) {
        return false;
    }
    n = recv(c->fd, c->in + c->size, c->room - c->size, 0);
    c->size += n > 0 ? (size_t)n : 0;
    return n > 0;
}

static void drop(struct hc *c, size_t size)
{
    memmove(c->in, c->in + size, c->size - size);
    c->size -= size;
}

static char *copy(const char *bytes, size_t size)
{
    char *text = malloc(size + 1);
    if (text != NULL) {
        memcpy(text, bytes, size);
        text[size] = '\0';
    }
    return text;
}

/* Until the text is there; its place, or -1. */
static long find(struct hc *c, const char *text, int timeout_ms)
{
    for (;;) {
        char *place = c->size == 0 ? NULL : memmem(c->in, c->size, text, strlen(text));
        if (place != NULL) {
            return place - c->in;
        }
        if (!hc_more(c, timeout_ms)) {
            return -1;
        }
    }
}

static bool read_sized(struct hc *c, struct hc_answer *a, size_t size, int timeout_ms)
{
    while (c->size < size) {
        if (!hc_more(c, timeout_ms)) {
            return false;
        }
    }
    a->body = copy(c->in, size);
    a->body_size = size;
    drop(c, size);
    return true;
}

static bool read_chunks(struct hc *c, struct hc_answer *a, int timeout_ms)
{
    a->body = copy("", 0);
    for (;;) {
        long end = find(c, "\r\n", timeout_ms);
        size_t size;
        char *larger;
        if (end < 0) {
            return false;
        }
        size = (size_t)strtoul(c->in, NULL, 16);
        drop(c, (size_t)end + 2);
        while (c->size < size + 2) {
            if (!hc_more(c, timeout_ms)) {
                return false;
            }
        }
        larger = realloc(a->body, a->body_size + size + 1);
        if (larger == NULL) {
            return false;
        }
        a->body = larger;
        memcpy(a->body + a->body_size, c->in, size);
        a->body_size += size;
        a->body[a->body_size] = '\0';
        drop(c, size + 2);
        if (size == 0) {
            return true;
        }
    }
}

static bool read_body(struct hc *c, struct hc_answer *a, int timeout_ms)
{
    char *length = hc_header(a, "Content-Length");
    char *encoding = hc_header(a, "Transfer-Encoding");
    bool good;
    if (encoding != NULL) {
        good = read_chunks(c, a, timeout_ms);
    } else if (length != NULL) {
        good = read_sized(c, a, (size_t)strtoul(length, NULL, 10), timeout_ms);
    } else {
        while (hc_more(c, timeout_ms)) {}
        good = read_sized(c, a, c->size, 0);
    }
    free(length);
    free(encoding);
    return good;
}

struct hc_answer hc_read(struct hc *c, int timeout_ms)
{
    struct hc_answer a = {0};
    long end = find(c, "\r\n\r\n", timeout_ms);
    if (end < 0 || strncmp(c->in, "HTTP/1.", 7) != 0) {
        return a;
    }
    a.head = copy(c->in, (size_t)end + 2);
    drop(c, (size_t)end + 4);
    a.status = (int)strtol(a.head + 9, NULL, 10);
    if (a.status == 100) {
        free(a.head);
        return hc_read(c, timeout_ms);
    }
    if (!read_body(c, &a, timeout_ms)) {
        a.status = 0;
    }
    return a;
}

void hc_done(struct hc_answer *a)
{
    free(a->head);
    free(a->body);
    *a = (struct hc_answer){0};
}

bool hc_closed(struct hc *c, int timeout_ms)
{
    struct pollfd ready = {.fd = c->fd, .events = POLLIN};
    char dropped[4096];
    while (poll(&ready, 1, timeout_ms) == 1) {
        ssize_t n = recv(c->fd, dropped, sizeof dropped, 0);
        if (n == 0 || (n < 0 && errno == ECONNRESET)) {
            return true;
        }
    }
    return false;
}

struct hc_answer hc_ask(struct hc *c, const char *token, const char *method, const char *path,
                        const char *headers, const char *body)
{
    char head[8192];
    size_t size = body == NULL ? 0 : strlen(body);
    int n = snprintf(head, sizeof head,
                     "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s%s%s%sContent-Length: %zu\r\n\r\n",
                     method, path, token == NULL ? "" : "Authorization: Bearer ",
                     token == NULL ? "" : token, token == NULL ? "" : "\r\n",
                     headers == NULL ? "" : headers,
                     body == NULL ? "" : "Content-Type: application/json\r\n", size);
    if (n < 0 || (size_t)n >= sizeof head || !hc_send(c, head, (size_t)n) ||
        (size > 0 && !hc_send(c, body, size))) {
        return (struct hc_answer){0};
    }
    return hc_read(c, 70000);
}

struct hc_answer hc_call(int port, const char *token, const char *method, const char *path,
                         const char *body)
{
    struct hc c;
    struct hc_answer a = {0};
    if (hc_open(&c, port)) {
        a = hc_ask(&c, token, method, path, NULL, body);
        hc_close(&c);
    }
    return a;
}

char *hc_header(const struct hc_answer *a, const char *name)
{
    size_t size = strlen(name);
    const char *line = a->head;
    while (line != NULL) {
        if (strncasecmp(line, name, size) == 0 && line[size] == ':') {
            const char *value = line + size + 1 + strspn(line + size + 1, " ");
            return copy(value, strcspn(value, "\r"));
        }
        line = strstr(line, "\r\n");
        line = line == NULL ? NULL : line + 2;
    }
    return NULL;
}

/* One step of a path: a key, or an index. */
static const struct json *step(const struct json *at, const char *name, size_t size)
{
    return json_is(at, JSON_KIND_ARRAY) ? json_at(at, (size_t)strtoul(name, NULL, 10))
                                        : json_get(at, (qp_str){name, size});
}

static char *text_of(const struct json *json)
{
    qp_str text;
    int64_t number;
    bool truth;
    char digits[32];
    if (json_as_str(json, &text)) {
        return copy(text.p, text.n);
    }
    if (json_as_i64(json, &number)) {
        return copy(digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)number));
    }
    if (json_as_bool(json, &truth)) {
        return truth ? copy("true", 4) : copy("false", 5);
    }
    return NULL;
}

char *hc_member(const struct hc_answer *a, const char *path)
{
    struct qp_env env;
    struct json *tree = NULL;
    const struct json *at;
    char *found = NULL;
    qp_env_init(&env);
    if (a->body == NULL ||
        json_parse(&env, (qp_str){a->body, a->body_size}, NULL, &tree) != QP_OK) {
        return NULL;
    }
    at = tree;
    while (at != NULL && *path != '\0') {
        size_t n = strcspn(path, ".");
        at = step(at, path, n);
        path += n + (path[n] == '.');
    }
    found = at == NULL ? NULL : text_of(at);
    json_free(tree);
    return found;
}

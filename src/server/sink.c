/* sink.c - log lines and notes for the service manager */
#include "server/sink.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/time.h"

static const char *const level_words[] = {"debug", "info", "warn", "error"};

/* ------------------------------------------------------------------------------- logfmt to JSON */

/* The next byte of a quoted value, its escape undone. */
static char unescape(const char **p, const char *end)
{
    char c = *(*p)++;
    if (c != '\\' || *p == end) {
        return c;
    }
    c = *(*p)++;
    return c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
}

/* A value, in quotes or up to the next space; bytes that were written as \xNN stay so. */
static qp_str take_value(const char **p, const char *end, char *out)
{
    size_t n = 0;
    if (*p < end && **p == '"') {
        ++*p;
        while (*p < end && **p != '"') {
            if (**p == '\\' && *p + 1 < end && (*p)[1] == 'x') {
                out[n++] = *(*p)++;
                out[n++] = *(*p)++;
            } else {
                out[n++] = unescape(p, end);
            }
        }
        *p += *p < end;
        return (qp_str){out, n};
    }
    while (*p < end && **p != ' ') {
        out[n++] = *(*p)++;
    }
    return (qp_str){out, n};
}

void sink_json(struct buf *out, qp_ms at, enum qp_log_level level, qp_str line)
{
    const char *p = line.p;
    const char *end = line.p + line.n;
    char value[LIMIT_LOG_LINE_SIZE + 1];
    char time[RFC3339_SIZE];
    struct json_writer w;
    rfc3339_format(at, time);
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_key(&w, QP_STR("ts"));
    json_put_str(&w, str_from(time));
    json_key(&w, QP_STR("level"));
    json_put_str(&w, str_from(level_words[level]));
    while (p < end && line.n <= LIMIT_LOG_LINE_SIZE) {
        const char *equals = memchr(p, '=', (size_t)(end - p));
        qp_str key = {p, equals == NULL ? (size_t)(end - p) : (size_t)(equals - p)};
        p += key.n + (equals != NULL);
        json_key(&w, key);
        json_put_str(&w, take_value(&p, end, value));
        p += p < end && *p == ' ';
    }
    json_end_object(&w);
    QP_ASSERT(json_writer_done(&w) == buf_rc(out)); /* which the caller asks */
}

void sink_write(void *context, enum qp_log_level level, const char *line, size_t size)
{
    const struct sink *s = context;
    struct qp_env env;
    struct buf out;
    struct timespec now;
    qp_ms at;
    ssize_t ignored;
    if (level < s->least) {
        return;
    }
    qp_env_init(&env);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    at = (qp_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    buf_init(&out, &env, 8 * LIMIT_LOG_LINE_SIZE);
    if (s->format == SINK_JSON) {
        sink_json(&out, at, level, (qp_str){line, size});
    } else {
        char time[RFC3339_SIZE];
        rfc3339_format(at, time);
        buf_printf(&out, "ts=%s level=%s ", time, level_words[level]);
        buf_add(&out, line, size);
    }
    buf_byte(&out, '\n');
    if (buf_rc(&out) == QP_OK) {
        ignored = write(s->fd, out.p, out.n);
        (void)ignored; /* nobody is left to tell */
    }
    buf_done(&out);
}

/* ------------------------------------------------------------------------------------- notify */

void notify(const char *socket_name, const char *text)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = socket_name == NULL ? 0 : strlen(socket_name);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    int fd;
    if (size == 0 || size >= sizeof address.sun_path) {
        return;
    }
    memcpy(address.sun_path, socket_name, size);
    if (address.sun_path[0] == '@') {
        address.sun_path[0] = '\0'; /* a name that is no file */
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        ssize_t ignored =
            sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address, length);
        (void)ignored; /* a manager that does not listen is none */
        (void)close(fd);
    }
}

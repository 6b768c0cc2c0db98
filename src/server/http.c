/* http.c - the adapter to libmicrohttpd: requests become calls, answers become responses
 *
 * A request is an EXCHANGE. It is made when its first line is there, judged when its headers are
 * (head.h), admitted when it is known whose it is (for which its connection may be suspended), filled
 * with its body, and then begun. What happens to it after that:
 *
 *      begin --> answered at once -------------------------------> queue --> completed
 *        |                                                           ^
 *        +-----> parked: the connection is suspended --- wake -------+
 *
 *   I1  only the connection's event thread suspends and queues; whoever answers only resumes
 *   I2  `parked` counts connections that are suspended for a call: the daemon must not be
 *       stopped before it is 0
 *
 * The library (0.9.75) reads the target and the headers as C strings, so a NUL ends what is seen
 * of them. It is seen by where the version stands behind the target, and a header that is cut
 * short frames nothing else than it says.
 */
#include "server/http.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/head.h"
#include "server/link.h"
#include "server/reception.h"

/* Room for a head of the largest size, what is known of its headers, and the head of an answer. */
#define CONNECTION_MEMORY ((size_t)(LIMIT_URI_SIZE + LIMIT_HEADER_SIZE + 11 * 1024))
/* The first line and all headers, with the method, the version and some spaces. */
#define HEAD_SIZE ((size_t)(LIMIT_URI_SIZE + LIMIT_HEADER_SIZE + 256))
#define STREAM_BLOCK 16384

struct exchange {
    struct api_call call;
    struct head head;
    struct link *link;
    struct MHD_Connection *connection;
    struct http *http;
    bool judged;
    bool asking; /* for whom a body would be read */
    bool admitted;
    bool begun;
    bool queued;
    bool too_large;
    bool no_room;
    size_t held; /* of the API, for the body */
    size_t dropped;
    bool left; /* under the http's lock: its connection is gone, its handler has it still */
    /* of a stream, under the http's lock */
    bool sleeping;
    bool pending;
    size_t target_size;
    char target[];
};

struct http {
    struct http_options options;
    const struct qp_env *env;
    struct head_rules rules;
    char own_host[64];
    struct MHD_Daemon *daemon;
    struct reception *reception;
    struct links links;
    atomic_int parked;
    atomic_int open; /* exchanges that are not completed */
    atomic_bool quiet;
    pthread_mutex_t lock; /* of streams */
};

static int64_t now_us(const struct http *h)
{
    return h->env->monotonic_us(h->env->context);
}

/* --------------------------------------------------------------------------------- the carrier */

static struct exchange *exchange_of(struct api_call *c)
{
    return (struct exchange *)c; /* its first member */
}

static void wake(struct api_call *c)
{
    struct exchange *x = exchange_of(c);
    struct http *h = x->http;
    MHD_resume_connection(x->connection);
    atomic_fetch_sub(&h->parked, 1);
}

/* A peer that has closed, or half closed, its side reads no more answers of ours. Of TLS an
 * alert is a goodbye. */
static bool there(struct api_call *c)
{
    struct exchange *x = exchange_of(c);
    unsigned char byte = 0;
    ssize_t n = 0;
    bool goodbye;
    (void)pthread_mutex_lock(&x->http->lock);
    if (!x->left) {
        n = recv(x->link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    }
    (void)pthread_mutex_unlock(&x->http->lock);
    goodbye = n == 1 && x->http->options.tls_key != NULL && byte == 0x15;
    return !(n == 0 || goodbye ||
             (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR));
}

static void stream_wake(struct api_call *c)
{
    struct exchange *x = exchange_of(c);
    (void)pthread_mutex_lock(&x->http->lock);
    x->pending = !x->sleeping;
    if (x->sleeping) {
        x->sleeping = false;
        MHD_resume_connection(x->connection);
        atomic_fetch_sub(&x->http->parked, 1);
    }
    (void)pthread_mutex_unlock(&x->http->lock);
}

static void exchange_free(struct exchange *x);

/* Its connection and the texts of its headers are gone. */
static void drop(struct api_call *c)
{
    struct exchange *x = exchange_of(c);
    c->from = QP_STR("");
    if (c->stream != NULL) {
        c->stream->close(c->stream);
    }
    if (c->finished != NULL) {
        c->finished(c, false);
    }
    api_finished(c);
    exchange_free(x);
}

static const struct api_carrier carrier = {
    .wake = wake, .there = there, .stream_wake = stream_wake, .drop = drop};

/* ---------------------------------------------------------------------------------- the answer */

static ssize_t stream_reader(void *context, uint64_t position, char *out, size_t size)
{
    struct exchange *x = context;
    struct api_stream *s = x->call.stream;
    long n = s->read(s, out, size);
    (void)position;
    while (n == 0) {
        bool sleep;
        (void)pthread_mutex_lock(&x->http->lock);
        sleep = !x->pending;
        x->pending = false;
        if (sleep) {
            x->sleeping = true;
            atomic_fetch_add(&x->http->parked, 1);
            MHD_suspend_connection(x->connection);
        }
        (void)pthread_mutex_unlock(&x->http->lock);
        if (sleep) {
            return 0;
        }
        n = s->read(s, out, size);
    }
    return n < 0 ? MHD_CONTENT_READER_END_OF_STREAM : (ssize_t)n;
}

static void add_header(struct MHD_Response *r, const char *name, const char *value)
{
    /* Out of memory is the only way to fail, and an answer without it is still an answer. */
    (void)MHD_add_response_header(r, name, value);
}

static void add_headers(struct exchange *x, struct MHD_Response *r)
{
    struct api_call *c = &x->call;
    char number[16];
    if (c->late_status != 0) {
        add_header(r, "Content-Type", api_problem_type(c));
        add_header(r, "Retry-After", "1");
        add_header(r, "X-Request-Id", c->request_id);
        add_header(r, "Cache-Control", "no-store");
        add_header(r, "X-Content-Type-Options", "nosniff");
        add_header(r, "Connection", "close");
        return; /* all else may be the handler's now */
    }
    add_header(r, "Content-Type", c->content_type_out);
    add_header(r, "X-Request-Id", c->request_id);
    add_header(r, "Cache-Control", "no-store");
    add_header(r, "X-Content-Type-Options", "nosniff");
    add_header(r, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
    add_header(r, "Referrer-Policy", "no-referrer");
    if (c->status == 401) {
        add_header(r, "WWW-Authenticate", "Bearer realm=\"quipu\"");
    }
    if (c->retry_after_s > 0) {
        (void)snprintf(number, sizeof number, "%d", c->retry_after_s);
        add_header(r, "Retry-After", number);
    }
    if (c->allow != NULL) {
        add_header(r, "Allow", c->allow);
    }
    if (c->content_range[0] != '\0') {
        add_header(r, "Content-Range", c->content_range);
    }
    if (c->header_name != NULL) {
        add_header(r, c->header_name, c->header_value);
    }
    if (c->replayed) {
        add_header(r, "Idempotency-Replayed", "true");
    }
    if (c->traceparent.p != NULL && c->traceparent.n < 128) {
        char text[128];
        (void)snprintf(text, sizeof text, "%.*s", STR_ARG(c->traceparent));
        add_header(r, "traceparent", text);
    }
    x->link->known = x->link->known || !c->stranger;
    if (c->close_after || !x->link->known || atomic_load(&x->http->quiet) ||
        x->link->requests >= LIMIT_REQUESTS_PER_CONNECTION) {
        add_header(r, "Connection", "close");
    }
}

/* On its event thread: the answer goes out. */
static enum MHD_Result queue_answer(struct exchange *x)
{
    struct api_call *c = &x->call;
    struct MHD_Response *r;
    enum MHD_Result result;
    if (c->late_status == 0) {
        api_render(c);
    }
    if (c->late_status != 0) {
        link_expect(x->link, PHASE_SEND, LIMIT_SEND_MS);
        r = MHD_create_response_from_buffer(c->late.n, c->late.p, MHD_RESPMEM_PERSISTENT);
    } else if (c->stream != NULL) {
        link_expect(x->link, PHASE_SEND, 0); /* as long as it reads: the library's own timeout */
        r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, stream_reader, x,
                                              NULL);
    } else {
        link_expect(x->link, PHASE_SEND,
                    LIMIT_SEND_MS + (qp_ms)(c->out.n / LIMIT_BODY_RATE_SIZE) * 1000);
        r = MHD_create_response_from_buffer(c->out.n, c->out.p, MHD_RESPMEM_PERSISTENT);
    }
    if (r == NULL) {
        return MHD_NO;
    }
    add_headers(x, r);
    result = MHD_queue_response(x->connection,
                                (unsigned)(c->late_status != 0 ? c->late_status : c->status), r);
    MHD_destroy_response(r);
    x->queued = result == MHD_YES;
    return result;
}

static enum MHD_Result begin(struct exchange *x)
{
    x->begun = true;
    link_expect(x->link, PHASE_CALL, 0);
    x->call.body = buf_slice(&x->call.in);
    if (x->too_large) {
        x->call.close_after = true;
        api_refuse(&x->call, PROBLEM_BODY_SIZE, NULL, "the limit is %zu bytes",
                   x->http->rules.body_size);
    } else if (x->no_room) {
        x->call.close_after = true;
        api_refuse(&x->call, PROBLEM_BUSY, NULL, "too many large requests are being read");
    } else if (buf_rc(&x->call.in) != QP_OK) {
        api_fail(&x->call, buf_rc(&x->call.in), NULL);
    } else {
        api_begin(&x->call);
    }
    if (atomic_load(&x->call.state) == CALL_ANSWERED) {
        return queue_answer(x);
    }
    MHD_suspend_connection(x->connection);
    atomic_fetch_add(&x->http->parked, 1);
    if (!api_call_park(&x->call)) {
        wake(&x->call); /* the answer came meanwhile, and nobody else wakes it */
    }
    return MHD_YES;
}

/* --------------------------------------------------------------------------------- the request */

/* The first line is there: the target has to be copied, since the library takes it apart in
 * place. */
static void *line_came(void *context, const char *target, struct MHD_Connection *connection)
{
    struct http *h = context;
    size_t size = target == NULL ? 0 : strlen(target);
    struct exchange *x = mem_alloc(h->env, sizeof *x + size + 1);
    if (x == NULL) {
        return NULL;
    }
    api_call_init(&x->call, h->options.api, &carrier);
    x->http = h;
    x->connection = connection;
    x->target_size = size;
    if (size > 0) {
        memcpy(x->target, target, size);
    }
    atomic_fetch_add(&h->open, 1);
    return x;
}

static enum MHD_Result header_came(void *context, enum MHD_ValueKind kind, const char *name,
                                   size_t name_size, const char *value, size_t value_size)
{
    struct exchange *x = context;
    (void)kind;
    head_add(&x->head, (qp_str){name, name_size},
             (qp_str){value != NULL ? value : "", value != NULL ? value_size : 0}, &x->call);
    return MHD_YES;
}

static struct link *link_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info == NULL ? NULL : info->socket_context;
}

static enum api_method method_of(const char *word)
{
    return strcmp(word, "HEAD") == 0 ? API_GET : method_from(str_from(word));
}

/* The head is there. False: it was refused, and answered. */
static bool judge(struct exchange *x, const char *method, const char *url, const char *version)
{
    struct api_call *c = &x->call;
    qp_str target = {x->target, x->target_size};
    x->judged = true;
    x->link->requests++;
    c->method = method_of(method);
    c->peer_uid = x->link->uid;
    c->from = str_from(x->link->from);
    head_begin(&x->head, &x->http->rules);
    head_line(&x->head, str_from(version), target, &c->path, &c->query);
    (void)MHD_get_connection_values_n(x->connection, MHD_HEADER_KIND, header_came, x);
    api_identify(c);
    if (!head_end(&x->head)) {
        c->close_after = true;
        api_refuse(c, x->head.problem, NULL, "%s", x->head.why);
        return false;
    }
    if (version != url + x->target_size + 1) {
        c->close_after = true;
        api_refuse(c, PROBLEM_BAD_REQUEST, NULL, "the target has a byte that has to be encoded");
        return false;
    }
    return true;
}

/* 30 s for any body, and a second for every 16 KiB of it. */
static qp_ms body_ms(uint64_t size)
{
    return LIMIT_BODY_MS + (qp_ms)(size / LIMIT_BODY_RATE_SIZE) * 1000;
}

static void let_go(struct exchange *x)
{
    api_let_go(x->http->options.api, x->held);
    x->held = 0;
}

/* Room for so much more of the body. */
static bool hold(struct exchange *x, size_t size)
{
    bool held = false;
    if (x->call.in.n + size <= LIMIT_BODY_SMALL_SIZE) {
        return true;
    }
    held = api_hold(x->http->options.api, size);
    x->held += held ? size : 0;
    return held;
}

/* Before a body is read, of whom. One that is too large is read as well, and dropped: who is sending it would else meet a
 * closed connection, and not the answer. The library asks again when the connection is resumed. A stranger's
 * body is read, so that he can read his answer, and dropped; but not in chunks, whose sizes and
 * trailers are lines, too: those the library would read without end. */
static enum MHD_Result admit(struct exchange *x)
{
    bool has_body = x->head.has_encoding || (x->head.has_length && x->head.length > 0);
    if (has_body && !x->asking && !api_admit(&x->call)) {
        x->asking = true;
        link_expect(x->link, PHASE_CALL, 0);
        MHD_suspend_connection(x->connection);
        atomic_fetch_add(&x->http->parked, 1);
        api_admit_later(&x->call);
        return MHD_YES;
    }
    x->admitted = true;
    if (has_body && x->call.stranger && x->head.has_encoding) {
        x->call.close_after = true;
        return begin(x);
    }
    /* What is dropped has no more time than the largest that is taken. */
    link_expect(x->link, PHASE_BODY,
                body_ms(x->head.has_length && !head_is_too_large(&x->head)
                            ? x->head.length
                            : x->http->rules.body_size));
    return MHD_YES;
}

static enum MHD_Result take_body(struct exchange *x, const char *data, size_t size)
{
    size_t most = x->http->rules.body_size;
    struct buf *in = &x->call.in;
    if (x->call.stranger) {
        return MHD_YES;
    }
    x->too_large = x->too_large || head_is_too_large(&x->head) || size > most - in->n;
    x->no_room = !x->too_large && (x->no_room || !hold(x, size));
    if (!x->too_large && !x->no_room) {
        buf_add(in, data, size);
        return MHD_YES;
    }
    buf_done(in);
    let_go(x);
    x->dropped += size;
    return x->dropped > most + LIMIT_BODY_DROP_SIZE ? MHD_NO : MHD_YES;
}

static enum MHD_Result request_came(void *context, struct MHD_Connection *connection,
                                    const char *url, const char *method, const char *version,
                                    const char *data, size_t *data_size, void **state)
{
    struct exchange *x = *state;
    (void)context;
    if (x == NULL || (x->link == NULL && (x->link = link_of(connection)) == NULL)) {
        return MHD_NO; /* there was no memory */
    }
    if (!x->judged && !judge(x, method, url, version)) {
        x->admitted = x->begun = true;
        return queue_answer(x);
    }
    if (!x->admitted) {
        return admit(x);
    }
    if (*data_size > 0) {
        size_t size = *data_size;
        *data_size = 0;
        return take_body(x, data, size);
    }
    if (!x->begun) {
        return begin(x);
    }
    return x->queued ? MHD_YES : queue_answer(x);
}

static void exchange_free(struct exchange *x)
{
    struct http *h = x->http;
    api_call_done(&x->call);
    let_go(x);
    mem_free(h->env, x);
    atomic_fetch_sub(&h->open, 1);
}

/* The exchange is over, one way or the other. A call that was answered in its handler's place may still be in the
 * handler's hands, and then goes with it. */
static void completed(void *context, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode code)
{
    struct http *h = context;
    struct exchange *x = *state;
    bool told = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    (void)connection;
    if (x == NULL) {
        return;
    }
    *state = NULL;
    if (x->link != NULL) {
        link_expect(x->link, PHASE_IDLE, LIMIT_KEEPALIVE_MS);
    }
    (void)pthread_mutex_lock(&h->lock);
    x->left = true;
    (void)pthread_mutex_unlock(&h->lock);
    if (api_call_leave(&x->call)) {
        return;
    }
    if (x->call.stream != NULL) {
        x->call.stream->close(x->call.stream);
    }
    if (x->call.finished != NULL) {
        x->call.finished(&x->call, told && x->queued && x->call.late_status == 0);
    }
    if (x->begun) {
        api_finished(&x->call);
    }
    exchange_free(x);
}

/* ------------------------------------------------------------------------------ connections */

static void connection_changed(void *context, struct MHD_Connection *connection, void **place,
                               enum MHD_ConnectionNotificationCode code)
{
    struct http *h = context;
    const struct sockaddr *address =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *fd =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *place = link_open(&h->links, fd->connect_fd, address);
    } else {
        link_close(*place);
        *place = NULL;
        reception_left(h->reception, address);
    }
}

/* A head that nobody has taken apart: its answer is as any other's. */
static void tell_refusal(struct http *h, int fd, enum guest_fault fault)
{
    struct api_call c;
    struct buf answer;
    api_call_init(&c, h->options.api, &carrier);
    api_identify(&c);
    if (fault == GUEST_LINE_SIZE) {
        api_refuse(&c, PROBLEM_URI_SIZE, NULL, "the limit is %d bytes", LIMIT_URI_SIZE);
    } else if (fault == GUEST_MALFORMED) {
        api_refuse(&c, PROBLEM_BAD_REQUEST, NULL,
                   "there is a NUL in the head, or a line of it goes on in the next one");
    } else {
        api_refuse(&c, PROBLEM_HEADER_SIZE, NULL, "there may be %d of %d bytes together",
                   LIMIT_HEADERS, LIMIT_HEADER_SIZE);
    }
    api_render(&c);
    buf_init(&answer, h->env, 0);
    buf_printf(&answer,
               "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
               "X-Request-Id: %s\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
               c.status, MHD_get_reason_phrase_for((unsigned)c.status), c.content_type_out, c.out.n,
               c.request_id);
    buf_add(&answer, c.out.p, c.out.n);
    if (buf_rc(&answer) == QP_OK) {
        link_tell(fd, answer.p, answer.n);
    }
    buf_done(&answer);
    api_finished(&c);
    api_call_done(&c);
}

static void tell_fault(void *context, int fd, enum guest_fault fault)
{
    if (fault == GUEST_LATE) {
        link_tell_late(fd);
    } else {
        tell_refusal(context, fd, fault);
    }
}

/* --------------------------------------------------------------------------------- open, close */

/* The library would decode in place; we do that ourselves, strictly. */
static size_t leave_escaped(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context;
    (void)connection;
    return strlen(text);
}

static void set_rules(struct http *h)
{
    const struct http_options *o = &h->options;
    struct head_rules *r = &h->rules;
    const char *colon = strrchr(o->listener.name, ':');
    r->body_size = o->body_size > 0 ? o->body_size : LIMIT_BODY_SIZE;
    r->drop_size = LIMIT_BODY_DROP_SIZE;
    r->any_host = o->listener.is_unix;
    r->behind_proxy = o->behind_proxy;
    r->hosts[r->host_count++] = "localhost";
    r->hosts[r->host_count++] = "127.0.0.1";
    r->hosts[r->host_count++] = "[::1]";
    if (colon != NULL && !r->any_host) {
        (void)snprintf(h->own_host, sizeof h->own_host, "%.*s", (int)(colon - o->listener.name),
                       o->listener.name);
        r->hosts[r->host_count++] = h->own_host;
    }
    for (size_t i = 0; i < o->host_count && r->host_count < LIMIT_HOSTS; i++) {
        r->hosts[r->host_count++] = o->hosts[i];
    }
}

static bool take_connection(void *context, int fd, const struct sockaddr *address, socklen_t size)
{
    struct http *h = context;
    return MHD_add_connection(h->daemon, fd, address, size) == MHD_YES;
}

static struct MHD_Daemon *start_daemon(struct http *h)
{
    const struct http_options *o = &h->options;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                     MHD_USE_NO_LISTEN_SOCKET;
    struct MHD_OptionItem more[8];
    int threads = o->threads > 0 ? o->threads : LIMIT_HTTP_THREADS;
    int n = 0;
    if (o->tls_key != NULL) {
        flags |= MHD_USE_TLS;
        more[n++] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)o->tls_key};
        more[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0,
                                            (void *)(uintptr_t)o->tls_certificate};
        more[n++] = (struct MHD_OptionItem){
            MHD_OPTION_HTTPS_PRIORITIES, 0,
            (void
                 *)(uintptr_t) "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:%SAFE_RENEGOTIATION"};
    }
    if (threads > 1) {
        more[n++] = (struct MHD_OptionItem){MHD_OPTION_THREAD_POOL_SIZE, threads, NULL};
    }
    more[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    return MHD_start_daemon(flags, 0, NULL, NULL, request_came, h, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned)INT_MAX, /* the reception's is the one that counts */
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(LIMIT_KEEPALIVE_MS / 1000),
                            MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, line_came,
                            h, MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL,
                            MHD_OPTION_NOTIFY_COMPLETED, completed, h, MHD_OPTION_NOTIFY_CONNECTION,
                            connection_changed, h, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
}

/* Nobody else can connect there: the mode of its file is ours. */
static bool is_own(const struct listener *l)
{
    return l->is_unix && !l->is_adopted;
}

static int start_reception(struct http *h, struct qp_err *err)
{
    const struct http_options *o = &h->options;
    const struct reception_rules rules = {
        .env = h->env,
        .fd = o->listener.fd,
        .most = o->connections > 0 ? o->connections : LIMIT_CONNECTIONS,
        .most_of_one = o->listener.is_loopback ? 0 : LIMIT_CONNECTIONS_PER_ADDRESS,
        /* What is encrypted cannot be looked at, and our own user need not be. */
        .head_size = o->tls_key != NULL || is_own(&o->listener) ? 0 : HEAD_SIZE,
        .hand_over = take_connection,
        .tell = tell_fault,
        .context = h};
    return reception_open(&rules, &h->reception, err);
}

static int http_start(struct http *h, struct qp_err *err)
{
    bool is_plain = h->options.tls_key == NULL;
    int rc = links_start(&h->links, h->env, is_plain, err);
    if (rc != QP_OK) {
        return rc;
    }
    h->daemon = start_daemon(h);
    if (h->daemon == NULL) {
        return err_set(err, QP_E_INVALID, "http: the server does not start%s",
                       is_plain ? "" : ": are key and certificate those of each other?");
    }
    return start_reception(h, err);
}

int http_open(const struct http_options *options, struct http **out_http, struct qp_err *err)
{
    const struct qp_env *env = api_env(options->api);
    struct listener listener = options->listener;
    struct http *h = mem_alloc(env, sizeof *h);
    int rc;
    if (h == NULL) {
        listener_close(&listener);
        return err_set(err, QP_E_NOMEM, "http: out of memory");
    }
    h->options = *options;
    h->env = env;
    (void)pthread_mutex_init(&h->lock, NULL);
    set_rules(h);
    rc = http_start(h, err);
    if (rc == QP_OK) {
        *out_http = h;
    } else {
        http_close(h);
    }
    return rc;
}

int http_renew(struct http *h, const char *tls_key, const char *tls_certificate,
               struct http **out_http, struct qp_err *err)
{
    struct http_options options = h->options;
    int rc;
    options.tls_key = tls_key;
    options.tls_certificate = tls_certificate;
    options.listener.fd = fcntl(h->options.listener.fd, F_DUPFD_CLOEXEC, 0);
    if (options.listener.fd < 0) {
        return err_set(err, QP_E_LIMIT, "http: the system refuses another descriptor");
    }
    rc = http_open(&options, out_http, err);
    if (rc == QP_OK) {
        http_quiesce(h);
    }
    return rc;
}

void http_quiesce(struct http *h)
{
    atomic_store(&h->quiet, true);
    reception_stop(h->reception);
}

bool http_wait(struct http *h, qp_ms within_ms)
{
    int64_t until = now_us(h) + within_ms * 1000;
    while ((atomic_load(&h->open) > 0 || atomic_load(&h->parked) > 0) && now_us(h) < until) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); /* or less */
    }
    return atomic_load(&h->parked) == 0;
}

void http_close(struct http *h)
{
    if (h == NULL) {
        return;
    }
    if (h->reception != NULL) {
        reception_stop(h->reception);
    }
    if (h->daemon != NULL) {
        MHD_stop_daemon(h->daemon);
    }
    reception_close(h->reception);
    links_stop(&h->links);
    listener_close(&h->options.listener);
    (void)pthread_mutex_destroy(&h->lock);
    mem_free(h->env, h);
}

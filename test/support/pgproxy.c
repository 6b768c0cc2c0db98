/* pgproxy.c - a proxy before a PostgreSQL server, with faults (see pgproxy.h)
 *
 * A connection is two pipes, one each way. A pipe holds what it has read until that is written, and
 * reads no more before: so a delayed byte delays those behind it. Bytes of the server's messages
 * are let through as they come, but for a CommandComplete, which has to be whole before it is
 * judged.
 *
 *     from -->  | sent | to be sent | not judged yet |  <-- read to the end
 *               0    sent         passed            size
 *
 * Everything is done by the proxy's thread under its lock, which it gives up while it waits. Who
 * arms a fault leaves it there, wakes the thread and waits until it was taken.
 */
#include "support/pgproxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

#define CONNECTIONS_MAX 128
#define PIPE_SIZE 16384
#define STARTUP_SIZE 8 /* length and code of a connection's first message */
#define HEADER_SIZE 5  /* type and length of all others */
#define TAG_MAX 100    /* of a CommandComplete, header included */
#define CODE_TLS 80877103
#define CODE_GSS 80877104

struct pipe {
    int from;
    int to;
    bool ended;     /* from has no more */
    bool forwarded; /* and to was told */
    size_t size;
    size_t passed;
    size_t sent;
    int64_t due_ms; /* not sent before */
    unsigned char bytes[PIPE_SIZE];
};

struct connection {
    struct pipe up;   /* client to server */
    struct pipe down; /* server to client */
    struct pgproxy_fault fault;
    struct pgproxy_fault
        coming;    /* strikes when what has passed is sent; nothing is read till then */
    bool started;  /* the startup message has passed */
    size_t rest;   /* of the server's message that is passing */
    bool finished; /* to be closed */
};

struct pgproxy {
    int listen_fd;
    int wake_fd;
    int port;
    int server_port;
    pthread_t thread;
    char url[200];

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t taken;
    bool stopping;
    const struct pgproxy_fault *request; /* NULL: none, or taken */
    struct pgproxy_fault everyone;       /* strikes whoever comes */
    struct pgproxy_fault waiting;        /* for left COMMITs */
    int64_t left;
    int64_t hits;
    int64_t commits;
    struct connection *connections[CONNECTIONS_MAX];
    size_t connection_count;
};

static int64_t now_ms(void)
{
    struct timespec t;
    QP_ASSERT(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static uint32_t number_at(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

/* --------------------------------------------------------------------------------------- faults */

static const struct pgproxy_fault none = {.kind = PGPROXY_NONE};
static const struct pgproxy_fault stall = {.kind = PGPROXY_STALL};

static void reset(struct connection *c)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(c->up.from, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    (void)setsockopt(c->up.to, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    c->finished = true;
}

static void strike(struct pgproxy *x, struct connection *c, const struct pgproxy_fault *fault)
{
    x->hits++;
    if (fault->kind == PGPROXY_RESET || fault->kind == PGPROXY_CUT_OFF ||
        fault->kind == PGPROXY_DROP_COMMIT) {
        reset(c);
    } else {
        c->fault = *fault;
    }
}

/* What strikes connections that come after the fault was armed. */
static struct pgproxy_fault fault_to_come(const struct pgproxy_fault *fault, bool waits)
{
    if (waits || fault->kind == PGPROXY_RESET) {
        return none;
    }
    return fault->kind == PGPROXY_CUT_OFF ? stall : *fault;
}

static void arm(struct pgproxy *x, const struct pgproxy_fault *fault)
{
    bool waits = fault->kind == PGPROXY_DROP_COMMIT || fault->after_commits > 0;
    x->hits = 0;
    x->left = fault->after_commits;
    x->waiting = waits ? *fault : none;
    x->everyone = fault_to_come(fault, waits);
    for (size_t i = 0; i < x->connection_count; i++) {
        struct connection *c = x->connections[i];
        c->fault = none;
        c->coming = none;
        if (!waits && fault->kind != PGPROXY_NONE) {
            strike(x, c, fault);
        }
    }
}

/* The server has told this connection of a COMMIT. True when the client shall hear of it. */
static bool commit_passes(struct pgproxy *x, struct connection *c)
{
    bool drops = x->waiting.kind == PGPROXY_DROP_COMMIT;
    bool passes = !drops || x->left > 0;
    x->commits++;
    x->left -= passes ? 1 : 0;
    if (x->waiting.kind != PGPROXY_NONE && (drops ? !passes : x->left == 0)) {
        c->coming = x->waiting;
        x->waiting = none;
    }
    return passes;
}

/* ------------------------------------------------------------------------------------- protocol */

/* A client may first ask for encryption, which is refused: the next message is another first one.
 * */
static void pass_up(struct connection *c)
{
    struct pipe *p = &c->up;
    while (!c->started && p->size - p->passed >= STARTUP_SIZE) {
        uint32_t code = number_at(p->bytes + p->passed + 4);
        if (code != CODE_TLS && code != CODE_GSS) {
            c->started = true;
        } else {
            (void)send(p->from, "N", 1, MSG_NOSIGNAL); /* read tells when nobody is there */
            p->size -= STARTUP_SIZE;
            memmove(p->bytes + p->passed, p->bytes + p->passed + STARTUP_SIZE, p->size - p->passed);
        }
    }
    if (c->started) {
        p->passed = p->size;
    }
}

/* Passes what can be of the message at the front. False when more of it is needed, or when the
 * connection is over. */
static bool pass_message(struct pgproxy *x, struct connection *c)
{
    struct pipe *p = &c->down;
    const unsigned char *at = p->bytes + p->passed;
    size_t there = p->size - p->passed;
    size_t whole;
    if (there < HEADER_SIZE) {
        return false;
    }
    whole = 1 + (size_t)number_at(at + 1);
    if (at[0] != 'C') {
        c->rest = whole;
        return true;
    }
    QP_ASSERT(whole <= TAG_MAX);
    if (there < whole) {
        return false;
    }
    if (whole == HEADER_SIZE + sizeof "COMMIT" && memcmp(at + HEADER_SIZE, "COMMIT", 6) == 0 &&
        !commit_passes(x, c)) {
        p->size = p->passed;
        return false;
    }
    c->rest = whole;
    return true;
}

static void pass_down(struct pgproxy *x, struct connection *c)
{
    struct pipe *p = &c->down;
    do {
        size_t there = p->size - p->passed;
        size_t take = c->rest < there ? c->rest : there;
        p->passed += take;
        c->rest -= take;
    } while (c->rest == 0 && pass_message(x, c));
}

/* ---------------------------------------------------------------------------------------- pipes */

static bool would_block(void)
{
    return errno == EAGAIN || errno == EINTR;
}

/* Reads when all that passed is sent. */
static bool pipe_fill(struct connection *c, struct pipe *p)
{
    ssize_t n;
    p->size -= p->passed;
    memmove(p->bytes, p->bytes + p->passed, p->size);
    p->passed = 0;
    p->sent = 0;
    n = recv(p->from, p->bytes + p->size, sizeof p->bytes - p->size, 0);
    if (n < 0) {
        c->finished = !would_block();
        return false;
    }
    p->ended = n == 0;
    p->passed = p->ended ? p->size : 0; /* a message that was cut off goes as it is */
    p->size += (size_t)n;
    p->due_ms = now_ms() + c->fault.delay_ms;
    return true;
}

static void pipe_drain(struct connection *c, struct pipe *p)
{
    size_t size = c->fault.kind == PGPROXY_SLOW ? 1 : p->passed - p->sent;
    ssize_t n;
    if (p->sent == p->passed || now_ms() < p->due_ms) {
        return;
    }
    n = send(p->to, p->bytes + p->sent, size, MSG_NOSIGNAL);
    if (n < 0) {
        c->finished = !would_block();
        return;
    }
    p->sent += (size_t)n;
    if (c->fault.kind == PGPROXY_SLOW) {
        p->due_ms = now_ms() + c->fault.delay_ms;
    }
}

static void pipe_end(struct pipe *p)
{
    if (p->ended && p->sent == p->passed && !p->forwarded) {
        (void)shutdown(p->to, SHUT_WR); /* it may be gone as well */
        p->forwarded = true;
    }
}

static void pipe_move(struct pgproxy *x, struct connection *c, struct pipe *p)
{
    bool is_up = p == &c->up;
    if (p->sent == p->passed && !p->ended && c->coming.kind == PGPROXY_NONE && pipe_fill(c, p)) {
        if (is_up) {
            pass_up(c);
        } else {
            pass_down(x, c);
        }
        if (c->fault.kind == (is_up ? PGPROXY_DEAF : PGPROXY_MUTE)) {
            p->sent = p->passed;
        }
    }
    pipe_drain(c, p);
    pipe_end(p);
}

/* ---------------------------------------------------------------------------------- connections */

static int connect_server(const struct pgproxy *x)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                        .sin_port = htons((uint16_t)x->server_port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    QP_ASSERT(fd >= 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void prepare_socket(int fd)
{
    QP_ASSERT(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0);
    QP_ASSERT(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
}

static void connection_add(struct pgproxy *x, int client, int server)
{
    struct connection *c = calloc(1, sizeof *c);
    QP_ASSERT(c != NULL && x->connection_count < CONNECTIONS_MAX);
    prepare_socket(client);
    prepare_socket(server);
    c->up.from = c->down.to = client;
    c->up.to = c->down.from = server;
    x->connections[x->connection_count++] = c;
    if (x->everyone.kind != PGPROXY_NONE) {
        strike(x, c, &x->everyone);
    }
}

static void accept_one(struct pgproxy *x)
{
    int client = accept4(x->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    int server;
    if (client < 0) {
        return; /* it has gone again */
    }
    server = connect_server(x);
    if (server < 0) {
        (void)close(client);
    } else {
        connection_add(x, client, server);
    }
}

static void connection_move(struct pgproxy *x, struct connection *c)
{
    if (c->fault.kind == PGPROXY_STALL || c->finished) {
        return;
    }
    pipe_move(x, c, &c->down);
    pipe_move(x, c, &c->up);
    if (c->coming.kind != PGPROXY_NONE && c->down.sent == c->down.passed) {
        strike(x, c, &c->coming);
        c->coming = none;
    }
    c->finished = c->finished || (c->up.forwarded && c->down.forwarded);
}

static void connection_close(struct connection *c)
{
    (void)close(c->up.from);
    (void)close(c->up.to);
    free(c);
}

static void remove_finished(struct pgproxy *x)
{
    size_t kept = 0;
    for (size_t i = 0; i < x->connection_count; i++) {
        struct connection *c = x->connections[i];
        if (c->finished) {
            connection_close(c);
        } else {
            x->connections[kept++] = c;
        }
    }
    x->connection_count = kept;
}

/* ----------------------------------------------------------------------------------- the thread */

/* What a pipe waits for: room at `to`, its time, or more from `from`. */
static void pipe_wants(const struct connection *c, const struct pipe *p, struct pollfd *from,
                       struct pollfd *to, int64_t *wait_ms)
{
    int64_t left_ms = p->due_ms - now_ms();
    if (p->sent == p->passed) {
        from->events |= p->ended || c->coming.kind != PGPROXY_NONE ? 0 : POLLIN;
    } else if (left_ms <= 0) {
        to->events |= POLLOUT;
    } else if (*wait_ms < 0 || left_ms < *wait_ms) {
        *wait_ms = left_ms;
    }
}

/* A descriptor that nothing is wanted of is left out: poll would report its end again and again. */
static void connection_wants(const struct connection *c, struct pollfd events[2], int64_t *wait_ms)
{
    events[0] = (struct pollfd){.fd = c->up.from};
    events[1] = (struct pollfd){.fd = c->up.to};
    if (c->fault.kind != PGPROXY_STALL) {
        pipe_wants(c, &c->up, &events[0], &events[1], wait_ms);
        pipe_wants(c, &c->down, &events[1], &events[0], wait_ms);
    }
    for (int i = 0; i < 2; i++) {
        events[i].fd = events[i].events != 0 ? events[i].fd : -1;
    }
}

static void wait_for_events(struct pgproxy *x, bool *out_comes)
{
    struct pollfd events[2 + 2 * CONNECTIONS_MAX] = {{.fd = x->wake_fd, .events = POLLIN},
                                                     {.fd = x->listen_fd, .events = POLLIN}};
    size_t count = 2;
    int64_t wait_ms = -1;
    uint64_t wakes;
    for (size_t i = 0; i < x->connection_count; i++, count += 2) {
        connection_wants(x->connections[i], &events[count], &wait_ms);
    }
    (void)pthread_mutex_unlock(&x->lock);
    (void)poll(events, count, (int)wait_ms);
    (void)pthread_mutex_lock(&x->lock);
    (void)!read(x->wake_fd, &wakes, sizeof wakes); /* it does not block */
    *out_comes = (events[1].revents & POLLIN) != 0;
}

static void *thread_main(void *context)
{
    struct pgproxy *x = context;
    bool comes = false;
    (void)pthread_mutex_lock(&x->lock);
    while (!x->stopping) {
        if (x->request != NULL) {
            arm(x, x->request);
            x->request = NULL;
            (void)pthread_cond_broadcast(&x->taken);
        }
        if (comes) {
            accept_one(x);
        }
        for (size_t i = 0; i < x->connection_count; i++) {
            connection_move(x, x->connections[i]);
        }
        remove_finished(x);
        wait_for_events(x, &comes);
    }
    (void)pthread_mutex_unlock(&x->lock);
    return NULL;
}

static void wake(const struct pgproxy *x)
{
    QP_ASSERT(write(x->wake_fd, &(uint64_t){1}, sizeof(uint64_t)) == sizeof(uint64_t));
}

/* ------------------------------------------------------------------------------ the test's side */

static void listen_anywhere(struct pgproxy *x)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    x->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    QP_ASSERT(x->listen_fd >= 0);
    QP_ASSERT(bind(x->listen_fd, (struct sockaddr *)&address, sizeof address) == 0);
    QP_ASSERT(listen(x->listen_fd, CONNECTIONS_MAX) == 0);
    QP_ASSERT(getsockname(x->listen_fd, (struct sockaddr *)&address, &size) == 0);
    x->port = ntohs(address.sin_port);
}

struct pgproxy *pgproxy_start(int server_port)
{
    struct pgproxy *x = calloc(1, sizeof *x);
    QP_ASSERT(x != NULL);
    x->server_port = server_port;
    listen_anywhere(x);
    x->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    QP_ASSERT(x->wake_fd >= 0);
    QP_ASSERT(pthread_mutex_init(&x->lock, NULL) == 0);
    QP_ASSERT(pthread_cond_init(&x->taken, NULL) == 0);
    QP_ASSERT(pthread_create(&x->thread, NULL, thread_main, x) == 0);
    return x;
}

void pgproxy_stop(struct pgproxy *x)
{
    if (x == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&x->lock);
    x->stopping = true;
    (void)pthread_mutex_unlock(&x->lock);
    wake(x);
    QP_ASSERT(pthread_join(x->thread, NULL) == 0);
    for (size_t i = 0; i < x->connection_count; i++) {
        connection_close(x->connections[i]);
    }
    (void)close(x->listen_fd);
    (void)close(x->wake_fd);
    (void)pthread_cond_destroy(&x->taken);
    (void)pthread_mutex_destroy(&x->lock);
    free(x);
}

int pgproxy_port(const struct pgproxy *x)
{
    return x->port;
}

const char *pgproxy_url(struct pgproxy *x, const char *database)
{
    int n =
        snprintf(x->url, sizeof x->url, "postgresql://postgres@127.0.0.1:%d/%s", x->port, database);
    QP_ASSERT(n > 0 && (size_t)n < sizeof x->url);
    return x->url;
}

void pgproxy_arm(struct pgproxy *x, const struct pgproxy_fault *fault)
{
    QP_ASSERT(fault->kind < PGPROXY_KINDS && fault->after_commits >= 0 && fault->delay_ms >= 0);
    (void)pthread_mutex_lock(&x->lock);
    while (x->request != NULL) { /* another thread's */
        (void)pthread_cond_wait(&x->taken, &x->lock);
    }
    x->request = fault;
    wake(x);
    while (x->request == fault) {
        (void)pthread_cond_wait(&x->taken, &x->lock);
    }
    (void)pthread_mutex_unlock(&x->lock);
}

int64_t pgproxy_hits(struct pgproxy *x)
{
    int64_t hits;
    (void)pthread_mutex_lock(&x->lock);
    hits = x->hits;
    (void)pthread_mutex_unlock(&x->lock);
    return hits;
}

int64_t pgproxy_commits(struct pgproxy *x)
{
    int64_t commits;
    (void)pthread_mutex_lock(&x->lock);
    commits = x->commits;
    (void)pthread_mutex_unlock(&x->lock);
    return commits;
}

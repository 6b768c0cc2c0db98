/* reception.c - the thread that lets connections in */
#include "server/reception.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/omap.h"

#define EVENTS 64
#define TURN_CONNECTIONS 64 /* let in before the guests have their turn */
#define SWEEP_US (500 * 1000)
#define SHORTAGE_US (20 * 1000)
#define LEAVE_US (1000 * 1000)
#define DISCARD_READS 64 /* of one who leaves, at a time */

struct guest {
    struct guest *next, *previous;
    int fd;
    bool leaving;
    int64_t deadline_us;
    size_t looked_at; /* there is no end of a head in what came until there */
    struct sockaddr_storage address;
    socklen_t address_size;
};

/* How many there are of an address. */
struct visitor {
    unsigned count;
};

struct reception {
    struct reception_rules rules;
    pthread_t thread;
    int epoll_fd;
    int wake_fd;
    bool running;
    atomic_bool stop;

    /* of the thread */
    struct guest *guests;
    int64_t swept_us;
    bool listening;
    bool short_of;          /* something, and said so */
    int64_t short_until_us; /* then it is tried again */
    char *head;             /* of the guest that is looked at */

    pthread_mutex_t lock;
    unsigned count;       /* under the lock */
    bool full;            /* under the lock; who leaves wakes the thread */
    struct omap visitors; /* under the lock */
};

static int64_t now_us(const struct reception *r)
{
    return r->rules.env->monotonic_us(r->rules.env->context);
}

/* ------------------------------------------------------------------------------ who is there */

/* What makes an address one; none for a Unix socket. */
static qp_str address_key(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        return (qp_str){(const char *)&in->sin_addr, sizeof in->sin_addr};
    }
    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
        return (qp_str){(const char *)&in6->sin6_addr, sizeof in6->sin6_addr};
    }
    return QP_NONE;
}

/* One more of this address, under the lock. False: it has its number, or there is no memory. */
static bool visitor_comes(struct reception *r, qp_str key)
{
    struct visitor *v = omap_get(&r->visitors, key);
    if (v == NULL) {
        v = mem_alloc(r->rules.env, sizeof *v);
        if (v == NULL || omap_put(&r->visitors, key, v, NULL) != QP_OK) {
            mem_free(r->rules.env, v);
            return false;
        }
    }
    if (v->count == r->rules.most_of_one) {
        return false;
    }
    v->count++;
    return true;
}

static void visitor_goes(struct reception *r, qp_str key)
{
    struct visitor *v = omap_get(&r->visitors, key);
    if (v != NULL && --v->count == 0) {
        (void)omap_delete(&r->visitors, key);
        mem_free(r->rules.env, v);
    }
}

/* Whether addresses are counted, and this one has something to count by. */
static bool is_counted(const struct reception *r, qp_str key)
{
    return r->rules.most_of_one > 0 && !str_is_none(key);
}

static bool come(struct reception *r, const struct sockaddr *address)
{
    qp_str key = address_key(address);
    bool welcome;
    (void)pthread_mutex_lock(&r->lock);
    welcome = !is_counted(r, key) || visitor_comes(r, key);
    r->count += welcome ? 1 : 0;
    (void)pthread_mutex_unlock(&r->lock);
    return welcome;
}

static void wake(struct reception *r)
{
    (void)eventfd_write(r->wake_fd, 1); /* it fails only where it was woken very often already */
}

void reception_left(struct reception *r, const struct sockaddr *address)
{
    qp_str key = address_key(address);
    bool was_full;
    (void)pthread_mutex_lock(&r->lock);
    if (is_counted(r, key)) {
        visitor_goes(r, key);
    }
    r->count--;
    was_full = r->full;
    r->full = false;
    (void)pthread_mutex_unlock(&r->lock);
    if (was_full) {
        wake(r);
    }
}

static bool is_full(struct reception *r)
{
    bool full;
    (void)pthread_mutex_lock(&r->lock);
    full = r->full = r->count >= r->rules.most;
    (void)pthread_mutex_unlock(&r->lock);
    return full;
}

/* --------------------------------------------------------------------------------- the guests */

/* No longer here: gone, or on his way. His descriptor is in no set of ours. */
static void guest_free(struct reception *r, struct guest *g)
{
    if (g->previous != NULL) {
        g->previous->next = g->next;
    } else {
        r->guests = g->next;
    }
    if (g->next != NULL) {
        g->next->previous = g->previous;
    }
    mem_free(r->rules.env, g);
}

static void guest_goes(struct reception *r, struct guest *g)
{
    /* Closing it would do, were it not for a program that is being started: until that has begun it
     * has our descriptors, and what is open there stays in the set. */
    (void)epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, g->fd, NULL);
    (void)close(g->fd);
    reception_left(r, (struct sockaddr *)&g->address);
    guest_free(r, g);
}

static void guest_goes_on(struct reception *r, struct guest *g)
{
    const struct sockaddr *address = (const struct sockaddr *)&g->address;
    (void)epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, g->fd, NULL); /* a new one is not in it yet */
    if (!r->rules.hand_over(r->rules.context, g->fd, address, g->address_size)) {
        reception_left(r, address);
    }
    guest_free(r, g);
}

/* What is not read when a connection is closed makes the system tell the peer of an error, before
 * he has read ours. False: there is nothing more to come. */
static bool discard(const struct reception *r, const struct guest *g)
{
    ssize_t n = 1;
    for (int i = 0; i < DISCARD_READS && n > 0; i++) {
        n = recv(g->fd, r->head, r->rules.head_size, MSG_DONTWAIT);
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static void guest_leaves(struct reception *r, struct guest *g, enum guest_fault fault)
{
    r->rules.tell(r->rules.context, g->fd, fault);
    (void)shutdown(g->fd, SHUT_WR); /* what was told goes out before the end */
    g->leaving = true;
    g->deadline_us = now_us(r) + LEAVE_US;
    if (!discard(r, g)) {
        guest_goes(r, g);
    }
}

/* Where the head ends in these bytes: behind an empty line, as the library sees one; 0: it is not whole.
 * Empty lines in front of the first one are skipped there, and make no head. */
static size_t head_whole_size(const char *p, size_t n, size_t looked_at)
{
    const char *end = p + n;
    const char *line = p;
    while (line < end && (*line == '\r' || *line == '\n')) {
        line++;
    }
    if ((size_t)(line - p) + 3 < looked_at) {
        line = p + looked_at - 3; /* an end may have begun in what was there */
    }
    while (line < end && (line = memchr(line, '\n', (size_t)(end - line))) != NULL) {
        const char *next = ++line;
        next += next < end && *next == '\r' ? 1 : 0;
        if (next < end && *next == '\n') {
            return (size_t)(next - p) + 1;
        }
    }
    return 0;
}

/* Where the library would see other lines than we do: a line that begins with a NUL is as good as
 * empty to it. And a line that goes on in the next one, which nobody sends any more, costs it a look
 * at all of it. */
static bool is_malformed(const char *p, size_t n)
{
    if (memchr(p, '\0', n) != NULL) {
        return true;
    }
    for (const char *end = p + n, *line = p;
         line < end && (line = memchr(line, '\n', (size_t)(end - line))) != NULL;) {
        line++;
        if (line < end && (*line == ' ' || *line == '\t')) {
            return true;
        }
    }
    return false;
}

/* Those bytes of a head are there, and there will be no more of them when `is_last`. */
static void guest_sent(struct reception *r, struct guest *g, size_t n, bool is_last)
{
    size_t size = head_whole_size(r->head, n, g->looked_at);
    if (is_malformed(r->head, size > 0 ? size : n)) {
        guest_leaves(r, g, GUEST_MALFORMED);
    } else if (size > 0) {
        guest_goes_on(r, g);
    } else if (n == r->rules.head_size) {
        bool has_line = memchr(r->head, '\n', n) != NULL;
        guest_leaves(r, g, has_line ? GUEST_HEAD_SIZE : GUEST_LINE_SIZE);
    } else if (is_last) {
        guest_goes(r, g);
    } else {
        g->looked_at = n;
    }
}

/* Something came, or may have. */
static void guest_moves(struct reception *r, struct guest *g, bool is_last)
{
    ssize_t n;
    if (g->leaving) {
        if (!discard(r, g) || is_last) {
            guest_goes(r, g);
        }
        return;
    }
    n = recv(g->fd, r->head, r->rules.head_size, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0) {
        guest_sent(r, g, (size_t)n, is_last);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        guest_goes(r, g);
    }
}

static void sweep(struct reception *r)
{
    int64_t now = now_us(r);
    struct guest *next;
    if (now - r->swept_us < SWEEP_US) {
        return;
    }
    r->swept_us = now;
    for (struct guest *g = r->guests; g != NULL; g = next) {
        next = g->next;
        if (g->deadline_us <= now && g->leaving) {
            guest_goes(r, g);
        } else if (g->deadline_us <= now) {
            guest_leaves(r, g, GUEST_LATE);
        }
    }
}

/* --------------------------------------------------------------------------------- the entrance */

/* No connection, and why: there is none, or its peer has left already, or the system is short of
 * something. That is said once; it lasts until nobody waits any more. */
static void note_failure(struct reception *r, int error)
{
    bool is_over = error == EAGAIN || error == EINTR || error == ECONNABORTED;
    if (!is_over && !r->short_of) {
        log_write(r->rules.env, QP_LOG_WARN, LOG_MSG("no further connection can be let in"),
                  LOG_TEXT("why", strerror(error)));
    }
    r->short_of = !is_over;
    r->short_until_us = is_over ? 0 : now_us(r) + SHORTAGE_US;
}

/* The connection is closed, or somebody's. */
static void receive(struct reception *r, int fd, const struct sockaddr_storage *address,
                    socklen_t size)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
    struct guest *g;
    if (!come(r, (const struct sockaddr *)address)) {
        (void)close(fd);
        return;
    }
    g = mem_alloc(r->rules.env, sizeof *g);
    if (g == NULL) {
        (void)close(fd);
        reception_left(r, (const struct sockaddr *)address);
        return;
    }
    *g = (struct guest){.next = r->guests,
                        .fd = fd,
                        .address = *address,
                        .address_size = size,
                        .deadline_us = now_us(r) + LIMIT_HEADER_MS * 1000LL};
    if (g->next != NULL) {
        g->next->previous = g;
    }
    r->guests = g;
    event.data.ptr = g;
    if (r->rules.head_size == 0) {
        guest_goes_on(r, g);
    } else if (epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        guest_goes(r, g); /* the system is short of something */
    }
}

/* False: there is nobody, or no room for one. */
static bool let_in(struct reception *r)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    int fd;
    if (is_full(r)) {
        return false;
    }
    fd = accept4(r->rules.fd, (struct sockaddr *)&address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        receive(r, fd, &address, size);
    } else {
        note_failure(r, errno);
    }
    return fd >= 0;
}

static void open_or_close_door(struct reception *r)
{
    bool should = !is_full(r) && now_us(r) >= r->short_until_us;
    struct epoll_event event = {.events = should ? EPOLLIN : 0, .data.ptr = r};
    if (should != r->listening && epoll_ctl(r->epoll_fd, EPOLL_CTL_MOD, r->rules.fd, &event) == 0) {
        r->listening = should;
    }
}

/* ---------------------------------------------------------------------------------- the thread */

static void handle(struct reception *r, const struct epoll_event *event)
{
    eventfd_t ignored;
    if (event->data.ptr == NULL) {
        (void)eventfd_read(r->wake_fd, &ignored);
    } else if (event->data.ptr == r) {
        for (int i = 0; i < TURN_CONNECTIONS && let_in(r); i++) {}
    } else {
        guest_moves(r, event->data.ptr, (event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
    }
}

static void *reception_main(void *context)
{
    struct reception *r = context;
    struct epoll_event events[EVENTS];
    while (!atomic_load(&r->stop)) {
        int wait_us = r->short_of ? SHORTAGE_US : SWEEP_US;
        bool forever = !r->short_of && r->guests == NULL;
        int n = epoll_wait(r->epoll_fd, events, EVENTS, forever ? -1 : wait_us / 1000);
        for (int i = 0; i < n; i++) {
            handle(r, &events[i]);
        }
        sweep(r);
        open_or_close_door(r);
    }
    while (r->guests != NULL) {
        guest_goes(r, r->guests);
    }
    return NULL;
}

/* -------------------------------------------------------------------------------- open, close */

static bool watch(struct reception *r, int fd, void *who)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = who};
    return fd >= 0 && epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static int start(struct reception *r, struct qp_err *err)
{
    int flags = fcntl(r->rules.fd, F_GETFL);
    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->head = mem_alloc(r->rules.env, r->rules.head_size + 1);
    r->listening = true;
    if (flags < 0 || fcntl(r->rules.fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return err_set(err, QP_E_INVALID, "http: what it should listen on is no socket");
    }
    if (r->head == NULL) {
        return err_set(err, QP_E_NOMEM, "http: out of memory");
    }
    if (!watch(r, r->wake_fd, NULL) || !watch(r, r->rules.fd, r)) {
        return err_set(err, QP_E_LIMIT, "http: the system refuses another descriptor");
    }
    r->running = pthread_create(&r->thread, NULL, reception_main, r) == 0;
    return r->running ? QP_OK : err_set(err, QP_E_LIMIT, "http: the system refuses another thread");
}

int reception_open(const struct reception_rules *rules, struct reception **out_reception,
                   struct qp_err *err)
{
    struct reception *r = mem_alloc(rules->env, sizeof *r);
    int rc;
    if (r == NULL) {
        return err_set(err, QP_E_NOMEM, "http: out of memory");
    }
    r->rules = *rules;
    (void)pthread_mutex_init(&r->lock, NULL);
    omap_init(&r->visitors, rules->env);
    *out_reception = r; /* before anybody can be handed over, and leave */
    rc = start(r, err);
    if (rc != QP_OK) {
        *out_reception = NULL;
        reception_close(r);
    }
    return rc;
}

void reception_stop(struct reception *r)
{
    if (r->running) {
        atomic_store(&r->stop, true);
        wake(r);
        (void)pthread_join(r->thread, NULL);
        r->running = false;
    }
}

static void close_open(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

void reception_close(struct reception *r)
{
    if (r == NULL) {
        return;
    }
    reception_stop(r);
    for (struct omap_node *n = omap_seek(&r->visitors, QP_NONE); n != NULL; n = omap_next(n)) {
        mem_free(r->rules.env, omap_value(n)); /* whom the library has dropped without a word */
    }
    omap_done(&r->visitors);
    close_open(r->wake_fd);
    close_open(r->epoll_fd);
    (void)pthread_mutex_destroy(&r->lock);
    mem_free(r->rules.env, r->head);
    mem_free(r->rules.env, r);
}

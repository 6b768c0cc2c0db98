/* wake.c - hints between the handles of one database: LISTEN, and NOTIFY outside of any transaction
 *
 * A hint says "look again" and nothing more; whoever misses one finds the same by looking now and then
 * (store_wake_fd in store.h). The channel is named as the schema is, and the payload is of no importance,
 * so that anybody may send one: NOTIFY quipu.
 *
 *   I1  nobody waits for this line: it is driven as far as its socket lets it, by wake_take, on the
 *       thread of the handle; only the first call of wake_fd gives it a moment to come up
 *   I2  at most one NOTIFY in LIMIT_HINT_GAP_MS; all that are owed meanwhile are one, at the end of it
 *   I3  what we send ourselves is no hint for us
 *   I4  the descriptor stays the same: an epoll of whatever socket the line has, and of a timer, by which
 *       all that this file waits for is measured
 *
 *                       connected: LISTEN is sent       answered
 *   OFF --> DIALLING ---------------------------> BUSY ----------> FREE
 *            ^    |                                | ^               |
 *     timer  |    | refused, timer                 | +-- NOTIFY -----+
 *            |    v                                v                 v
 *           DOWN <------------------------------- lost, failed, timer: too long without an answer
 *
 * If we crash, or the line does, a hint is lost, and with it at most LIMIT_LOOK_MS of somebody's time.
 */
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "store/postgres/postgres_internal.h"

/* How long the first call may take. */
#define FIRST_TRIES 20
#define FIRST_TRY_MS 50

static struct postgres_provider *self(struct provider *base)
{
    return (struct postgres_provider *)base;
}

/* ------------------------------------------------------------------------- what is waited for */

static void set_timer(struct postgres_wake *w, int64_t ms)
{
    struct itimerspec at = {.it_value = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}};
    (void)timerfd_settime(w->timer_fd, 0, &at, NULL); /* fails for wrong arguments only */
}

static bool timer_is_over(const struct postgres_wake *w)
{
    uint64_t times;
    return read(w->timer_fd, &times, sizeof times) == (ssize_t)sizeof times;
}

/* A socket that libpq has closed has left by itself, and its number may be another's by now. */
static void unwatch(struct postgres_wake *w)
{
    if (w->socket >= 0 && PQsocket(w->conn) == w->socket) {
        (void)epoll_ctl(w->fd, EPOLL_CTL_DEL, w->socket, NULL); /* it is watched: it cannot fail */
    }
    w->socket = -1;
}

/* The socket may be another one than before: connecting tries several. */
static void watch(struct postgres_wake *w, uint32_t events)
{
    struct epoll_event e = {.events = events};
    int socket = PQsocket(w->conn);
    unwatch(w);
    w->socket = epoll_ctl(w->fd, EPOLL_CTL_ADD, socket, &e) == 0 ? socket : -1;
}

/* ------------------------------------------------------------------------------------- the line */

static void hang_up(struct postgres_wake *w)
{
    unwatch(w);
    PQfinish(w->conn);
    w->conn = NULL;
    w->owed = w->owed || (w->state == WAKE_BUSY && !w->deaf); /* perhaps nobody has heard it */
    w->state = WAKE_DOWN;
    set_timer(w, w->pause_ms);
    w->pause_ms =
        w->pause_ms * 2 < LIMIT_HINT_PAUSE_MOST_MS ? w->pause_ms * 2 : LIMIT_HINT_PAUSE_MOST_MS;
}

static void say(struct postgres_provider *p, const char *text)
{
    struct postgres_wake *w = &p->wake;
    char sql[160];
    int left;
    (void)snprintf(sql, sizeof sql, "%s \"%s\"", text, p->schema);
    left = PQsendQuery(w->conn, sql) == 1 ? PQflush(w->conn) : -1;
    if (left < 0) {
        hang_up(w);
        return;
    }
    w->state = WAKE_BUSY;
    watch(w, left > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
    set_timer(w, LIMIT_HINT_ANSWER_MS);
}

static void say_owed(struct postgres_provider *p)
{
    struct postgres_wake *w = &p->wake;
    if (w->owed && w->state == WAKE_FREE && !w->resting) {
        w->owed = false;
        w->resting = true;
        say(p, "NOTIFY");
    }
}

static void dial_on(struct postgres_provider *p)
{
    struct postgres_wake *w = &p->wake;
    switch (PQconnectPoll(w->conn)) {
    case PGRES_POLLING_READING:
        watch(w, EPOLLIN);
        break;
    case PGRES_POLLING_WRITING:
        watch(w, EPOLLOUT);
        break;
    case PGRES_POLLING_OK:
        w->deaf = true;
        (void)PQsetnonblocking(w->conn, 1); /* fails without a connection only */
        /* That a hint was sent need not be on anybody's disk. */
        say(p, "SET synchronous_commit=off; LISTEN");
        break;
    default:
        hang_up(w);
        break;
    }
}

static void dial(struct postgres_provider *p)
{
    struct postgres_wake *w = &p->wake;
    w->conn = wire_dial(p->url);
    if (w->conn == NULL || PQstatus(w->conn) == CONNECTION_BAD) {
        hang_up(w);
        return;
    }
    w->state = WAKE_DIALLING;
    watch(w, EPOLLOUT);
    set_timer(w, LIMIT_HINT_ANSWER_MS);
}

/* The statement is through. After LISTEN we have been deaf until now: others may have said something. */
static void answered(struct postgres_provider *p)
{
    struct postgres_wake *w = &p->wake;
    w->state = WAKE_FREE;
    w->pause_ms = LIMIT_HINT_PAUSE_MS;
    w->news = w->news || w->deaf;
    w->deaf = false;
    watch(w, EPOLLIN);
    set_timer(w, w->resting ? LIMIT_HINT_GAP_MS : 0); /* 0: no more */
    say_owed(p);
}

static void read_answer(struct postgres_provider *p)
{
    struct postgres_wake *w = &p->wake;
    while (w->state == WAKE_BUSY && PQisBusy(w->conn) == 0) {
        PGresult *r = PQgetResult(w->conn);
        if (r == NULL) {
            answered(p);
        } else if (PQresultStatus(r) != PGRES_COMMAND_OK) {
            hang_up(w);
        }
        PQclear(r);
    }
}

static void read_line(struct postgres_provider *p)
{
    struct postgres_wake *w = &p->wake;
    PGnotify *n;
    int left = PQflush(w->conn);
    if (left < 0 || PQconsumeInput(w->conn) != 1) {
        hang_up(w);
        return;
    }
    if (left == 0 && w->state == WAKE_BUSY) {
        watch(w, EPOLLIN);
    }
    while ((n = PQnotifies(w->conn)) != NULL) {
        w->news = w->news || n->be_pid != PQbackendPID(w->conn);
        PQfreemem(n);
    }
    read_answer(p);
}

static void on_timer(struct postgres_provider *p)
{
    struct postgres_wake *w = &p->wake;
    switch (w->state) {
    case WAKE_DOWN:
        dial(p);
        break;
    case WAKE_DIALLING:
    case WAKE_BUSY:
        hang_up(w);
        break;
    case WAKE_FREE:
        w->resting = false;
        say_owed(p);
        break;
    case WAKE_OFF:
        break;
    }
}

/* Whatever can be done now. */
static void go_on(struct postgres_provider *p)
{
    struct postgres_wake *w = &p->wake;
    if (timer_is_over(w)) {
        on_timer(p);
    }
    if (w->state == WAKE_DIALLING) {
        dial_on(p);
    } else if (w->state == WAKE_BUSY || w->state == WAKE_FREE) {
        read_line(p);
    }
}

static bool is_waiting(const struct postgres_wake *w, int ms)
{
    struct epoll_event e;
    return epoll_wait(w->fd, &e, 1, ms) == 0;
}

/* ------------------------------------------------------------------------------------- the door */

static bool switch_on(struct postgres_provider *p)
{
    struct postgres_wake *w = &p->wake;
    struct epoll_event e = {.events = EPOLLIN};
    if (w->state != WAKE_OFF) {
        return true;
    }
    w->fd = epoll_create1(EPOLL_CLOEXEC);
    w->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (w->fd < 0 || w->timer_fd < 0 || epoll_ctl(w->fd, EPOLL_CTL_ADD, w->timer_fd, &e) != 0) {
        postgres_wake_done(w); /* without descriptors there are no hints, and all goes on */
        return false;
    }
    w->pause_ms = LIMIT_HINT_PAUSE_MS;
    dial(p);
    return true;
}

int postgres_wake_fd(struct provider *base)
{
    struct postgres_provider *p = self(base);
    struct postgres_wake *w = &p->wake;
    if (w->state != WAKE_OFF || !switch_on(p)) {
        return w->fd;
    }
    for (int i = 0; i < FIRST_TRIES && (w->state == WAKE_DIALLING || w->state == WAKE_BUSY); i++) {
        if (!is_waiting(w, FIRST_TRY_MS)) {
            go_on(p);
        }
    }
    return w->fd;
}

bool postgres_wake_take(struct provider *base)
{
    struct postgres_provider *p = self(base);
    struct postgres_wake *w = &p->wake;
    bool news;
    if (w->state != WAKE_OFF && !is_waiting(w, 0)) {
        go_on(p);
    }
    news = w->news;
    w->news = false;
    return news;
}

void postgres_wake_others(struct provider *base)
{
    struct postgres_provider *p = self(base);
    if (switch_on(p)) {
        p->wake.owed = true;
        say_owed(p);
    }
}

void postgres_wake_init(struct postgres_wake *w)
{
    *w = (struct postgres_wake){.fd = -1, .timer_fd = -1, .socket = -1};
}

void postgres_wake_done(struct postgres_wake *w)
{
    PQfinish(w->conn);
    if (w->timer_fd >= 0) {
        (void)close(w->timer_fd); /* nothing was written to it */
    }
    if (w->fd >= 0) {
        (void)close(w->fd);
    }
    postgres_wake_init(w);
}

/* link.c - connections and their deadlines */
#include "server/link.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <time.h>

#include "base/cond.h"
#include "base/mem.h"

#define SWEEP_MS 500

static int64_t now_us(const struct links *l)
{
    return l->env->monotonic_us(l->env->context);
}

static void describe_peer(struct link *l, const struct sockaddr *address)
{
    l->uid = -1;
    if (address != NULL && address->sa_family == AF_INET) {
        (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, l->from,
                        sizeof l->from);
    } else if (address != NULL && address->sa_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, l->from,
                        sizeof l->from);
    } else {
        struct ucred peer;
        socklen_t size = sizeof peer;
        (void)snprintf(l->from, sizeof l->from, "unix");
        if (getsockopt(l->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
            l->uid = (int64_t)peer.uid;
        }
    }
}

struct link *link_open(struct links *of, int fd, const struct sockaddr *address)
{
    struct link *l = mem_alloc(of->env, sizeof *l);
    if (l == NULL) {
        (void)shutdown(fd, SHUT_RDWR);
        return NULL;
    }
    l->of = of;
    l->fd = fd;
    describe_peer(l, address);
    l->phase = PHASE_HEAD;
    l->deadline_us = now_us(of) + LIMIT_HEADER_MS * 1000LL;
    (void)pthread_mutex_lock(&of->lock);
    l->next = of->first;
    if (l->next != NULL) {
        l->next->previous = l;
    }
    of->first = l;
    (void)pthread_mutex_unlock(&of->lock);
    return l;
}

void link_close(struct link *l)
{
    if (l == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&l->of->lock);
    if (l->previous != NULL) {
        l->previous->next = l->next;
    } else {
        l->of->first = l->next;
    }
    if (l->next != NULL) {
        l->next->previous = l->previous;
    }
    (void)pthread_mutex_unlock(&l->of->lock);
    mem_free(l->of->env, l);
}

void link_expect(struct link *l, enum link_phase phase, qp_ms within_ms)
{
    int64_t at = within_ms == 0 ? 0 : now_us(l->of) + within_ms * 1000;
    (void)pthread_mutex_lock(&l->of->lock);
    l->phase = phase;
    l->deadline_us = at;
    (void)pthread_mutex_unlock(&l->of->lock);
}

void link_tell(int fd, const void *bytes, size_t size)
{
    ssize_t ignored = send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)ignored;
}

void link_tell_late(int fd)
{
    static const char late[] =
        "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    link_tell(fd, late, sizeof late - 1);
}

/* Its time is over. Who is in the middle of a request is told so. */
static void expire(const struct links *of, struct link *l)
{
    if (of->is_plain && (l->phase == PHASE_HEAD || l->phase == PHASE_BODY)) {
        link_tell_late(l->fd);
    }
    (void)shutdown(l->fd, SHUT_RDWR);
    l->deadline_us = 0;
}

static void *sweeper_main(void *context)
{
    struct links *of = context;
    (void)pthread_mutex_lock(&of->lock);
    while (!of->stop) {
        int64_t now = now_us(of);
        struct timespec until;
        for (struct link *l = of->first; l != NULL; l = l->next) {
            if (l->deadline_us != 0 && l->deadline_us <= now) {
                expire(of, l);
            }
        }
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += SWEEP_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&of->changed, &of->lock, &until);
    }
    (void)pthread_mutex_unlock(&of->lock);
    return NULL;
}

int links_start(struct links *l, const struct qp_env *env, bool is_plain, struct qp_err *err)
{
    *l = (struct links){.env = env, .is_plain = is_plain};
    (void)pthread_mutex_init(&l->lock, NULL);
    cond_init_monotonic(&l->changed);
    l->running = pthread_create(&l->thread, NULL, sweeper_main, l) == 0;
    return l->running ? QP_OK : err_set(err, QP_E_LIMIT, "http: the system refuses another thread");
}

void links_stop(struct links *l)
{
    if (l->running) {
        (void)pthread_mutex_lock(&l->lock);
        l->stop = true;
        (void)pthread_cond_signal(&l->changed);
        (void)pthread_mutex_unlock(&l->lock);
        (void)pthread_join(l->thread, NULL);
        l->running = false;
    }
    (void)pthread_mutex_destroy(&l->lock);
    (void)pthread_cond_destroy(&l->changed);
}

/* driver.c - which thread drives, the event that wakes it, and the lock of its inbox (see driver.h) */
#include "run/driver.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cond.h"

int driver_init(struct driver *d, const struct qp_env *env, qp *owner,
                const struct driver_parts *parts)
{
    *d = (struct driver){.env = env, .owner = owner, .parts = parts, .wake_fd = -1};
    d->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    d->both_fd = d->event_fd;
    if (d->event_fd < 0) {
        return QP_E_LIMIT;
    }
    if (pthread_mutex_init(&d->lock, NULL) != 0) {
        (void)close(d->event_fd);
        return QP_E_NOMEM;
    }
    cond_init_monotonic(&d->changed);
    return QP_OK;
}

/* A host polls one descriptor: what we set ourselves, and what others hint at. */
int driver_join(struct driver *d, struct store *s, bool shared, struct qp_err *err)
{
    struct epoll_event e = {.events = EPOLLIN};
    d->store = s;
    d->shared = shared;
    d->wake_fd = store_wake_fd(s);
    if (d->wake_fd < 0) {
        return QP_OK;
    }
    d->both_fd = epoll_create1(EPOLL_CLOEXEC);
    if (d->both_fd < 0 || epoll_ctl(d->both_fd, EPOLL_CTL_ADD, d->event_fd, &e) != 0 ||
        epoll_ctl(d->both_fd, EPOLL_CTL_ADD, d->wake_fd, &e) != 0) {
        return err_set(err, QP_E_LIMIT, "qp_open: the system refuses another file descriptor");
    }
    return QP_OK;
}

void driver_done(struct driver *d)
{
    (void)pthread_cond_destroy(&d->changed);
    (void)pthread_mutex_destroy(&d->lock);
    if (d->both_fd >= 0 && d->both_fd != d->event_fd) {
        (void)close(d->both_fd);
    }
    (void)close(d->event_fd);
}

int64_t driver_now_us(const struct driver *d)
{
    return d->env->monotonic_us(d->env->context);
}

/* ----------------------------------------------------------------------------------------- which thread */

void driver_begin(struct driver *d)
{
    (void)pthread_mutex_lock(&d->lock);
    QP_ASSERT(!driver_is_here(d));
    while (d->driven) {
        (void)pthread_cond_wait(&d->changed, &d->lock);
    }
    d->driven = true;
    d->by = pthread_self();
    (void)pthread_mutex_unlock(&d->lock);
}

void driver_end(struct driver *d)
{
    (void)pthread_mutex_lock(&d->lock);
    QP_ASSERT(driver_is_here(d));
    d->driven = false;
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->lock);
}

bool driver_is_here(const struct driver *d)
{
    return d->driven && pthread_equal(d->by, pthread_self()) != 0;
}

bool driver_is_this_thread(struct driver *d)
{
    bool here;
    (void)pthread_mutex_lock(&d->lock);
    here = driver_is_here(d);
    (void)pthread_mutex_unlock(&d->lock);
    return here;
}

bool driver_in_callback(struct driver *d)
{
    bool inside;
    (void)pthread_mutex_lock(&d->lock);
    inside = driver_is_here(d) && d->in_engine;
    (void)pthread_mutex_unlock(&d->lock);
    return inside;
}

/* ------------------------------------------------------------------------------------- waking and waiting */

void driver_kick(struct driver *d)
{
    if (!d->kicked) {
        uint64_t one = 1;
        d->kicked = true;
        /* It cannot be full: at most one is ever in it. */
        ssize_t ignored = write(d->event_fd, &one, sizeof one);
        (void)ignored;
    }
}

void driver_wake(struct driver *d)
{
    (void)pthread_mutex_lock(&d->lock);
    driver_kick(d);
    (void)pthread_mutex_unlock(&d->lock);
}

void driver_wait(struct driver *d, int64_t until_us)
{
    struct timespec until;
    int64_t left_us = until_us - driver_now_us(d);
    driver_kick(d);
    if (until_us < 0) {
        (void)pthread_cond_wait(&d->changed, &d->lock);
        return;
    }
    left_us = left_us > 0 ? left_us : 0;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += left_us / 1000000;
    until.tv_nsec += left_us % 1000000 * 1000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&d->changed, &d->lock, &until);
}

/* -------------------------------------------------------------------------------------- stopping, closing */

/* Also in a signal handler, on a thread that may hold any lock: so it takes none, and sets the event itself. The flag
 * comes first: a driver that has read the event before this write finds it set again. `poked` comes last: a thread that
 * finds it reads the event, and one that is set before would be cleared without that. `kicked` cannot serve for it: a
 * thread that finds that set trusts that the event is. */
void driver_stop(struct driver *d)
{
    int saved = errno;
    uint64_t one = 1;
    ssize_t ignored;
    atomic_store(&d->stop, true);
    ignored = write(d->event_fd, &one, sizeof one); /* it fails only when it is full, thus set */
    (void)ignored;
    atomic_store(&d->poked, true);
    errno = saved;
}

bool driver_is_stopped(const struct driver *d)
{
    return atomic_load(&d->stop) || atomic_load(&d->closing);
}

void driver_seal(struct driver *d)
{
    (void)pthread_mutex_lock(&d->lock);
    atomic_store(&d->sealed, true);
    (void)pthread_mutex_unlock(&d->lock);
}

void driver_close(struct driver *d)
{
    (void)pthread_mutex_lock(&d->lock);
    atomic_store(&d->closing, true);
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->lock);
}

/* api_internal.h - an API, as its files know it
 *
 *   api.c     from a call to its handler
 *   crew.c    the threads on which handlers that wait for the store run
 *   due.c     calls with a deadline, in lists
 *   times.c   times of kept calls, deadlines of all: the clock's thread
 *
 * Locks: `lock` guards the queue of the crew, `clock_lock` the lists of times. Neither is held while a handler or a
 * `late` runs. The clock's may be held while the crew's is taken.
 */
#ifndef QP_SERVER_API_INTERNAL_H
#define QP_SERVER_API_INTERNAL_H

#include <pthread.h>

#include "base/uuid.h"
#include "run/handle.h"
#include "server/api.h"

/* Lists of calls with a deadline (due.c). */
enum { DUE_NONE, DUE_WAITING, DUE_IN_HAND, DUE_SHORT, DUE_LISTS };

struct api {
    struct api_options options;
    struct auth *auth;
    struct idempotency *idempotency;
    atomic_bool draining;
    atomic_int streams;
    atomic_size_t held; /* of bodies */

    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_cond_t idle;
    /* under the lock */
    struct crew_job *first, *last;
    size_t waiting;
    size_t running;
    bool stop;
    struct uuid_source uuids;
    pthread_t *threads;
    int thread_count;

    pthread_mutex_t clock_lock;
    pthread_cond_t clock_changed;
    /* under the clock's lock: sorted, the earliest first */
    struct timing *times, *last_time;
    struct dues {
        struct api_call *first, *last;
    } dues[DUE_LISTS];
    int64_t look_us; /* when the clock looks at them; INT64_MAX: there is nothing in them */
    bool clock_stop;
    pthread_t clock;
};

static inline int64_t api_now_us(const struct api *api)
{
    return api->options.env->monotonic_us(api->options.env->context);
}

/* crew.c */
int crew_start(struct api *api, struct qp_err *err) QP_MUST_USE;
/* When all that waits has run. */
void crew_stop(struct api *api);
/* api_later, but false when there is no room. */
bool crew_call(struct api_call *c, void (*run)(struct api_call *c)) QP_MUST_USE;
/* Takes a job back that no thread has begun; false: one has, or it was not there. */
bool crew_take_back(struct api *api, struct crew_job *job) QP_MUST_USE;

/* due.c, under the clock's lock: when the clock should look at a call (INT64_MAX: at none), later than it is due by
 * DUE_LOOK_US while it waits: then those of about the same time are over as well, and what they have asked of the engine. */
#define DUE_LOOK_US INT64_C(100000)
void due_link(struct api *api, struct api_call *c, int list, int64_t at_us);
void due_unlink(struct api *api, struct api_call *c);
int64_t due_look_us(const struct api_call *c);

/* times.c: the clock's thread. */
void *clock_main(void *context);

#endif

/* follow.h - one service that notifies its subscribers of what was committed
 *
 * A subscriber names a job, or a whole namespace, and the events that it wants: a change, the parking or the end of the
 * job. The engine tells the service after each commit; so a subscription costs the store nothing. What other processes
 * commit to a shared store is read from the feed, once in LIMIT_LOOK_MS for all subscribers of changes together, from a
 * position that never skips a later commit. A thread that waits for the end of a job on a shared store looks by itself,
 * every FOLLOW_LOOK_MS, since the process that ends the job notifies only its own subscribers.
 *
 *   I1  all notifications come from the thread that drives the engine, after the commit
 *   I2  a LASTING subscription is notified under the service's lock. Any thread may remove it; when follow_remove
 *       returns, it is not notified any more
 *   I3  a subscription `once` is removed first, then notified without the lock, because that runs the caller's code.
 *       Only the driver adds and removes it
 *   I4  who subscribes before it reads misses nothing: an event after the read is notified
 *
 * The subscriber owns the memory of its subscription. Lock order: the service's lock, then the handle's.
 */
#ifndef QP_RUN_FOLLOW_H
#define QP_RUN_FOLLOW_H

#include <pthread.h>
#include <stdatomic.h>

#include "kernel/engine.h"

enum follow_event { FOLLOW_CHANGED = 1, FOLLOW_PARKED = 2, FOLLOW_ENDED = 4 };

struct subscription {
    struct subscription *next; /* under the service's lock */
    struct job_ref job;        /* job 0: every job of the namespace */
    unsigned events;           /* of enum follow_event, that are notified */
    bool once;
    int64_t serial; /* of the commit that was notified last */
    /* state: of FOLLOW_ENDED. */
    void (*notify)(struct subscription *s, enum follow_event event, enum job_state state);
    void (*drop)(struct subscription *s); /* of those `once`: the engine closes before the event */
};

struct follow {
    pthread_mutex_t lock;
    /* under the lock */
    struct subscription **slots; /* of jobs: a power of two of lists */
    size_t slot_count;
    size_t job_count;                /* subscriptions in them */
    struct subscription *namespaces; /* subscriptions of a whole namespace */
    /* changed under the lock */
    atomic_size_t count;   /* of all */
    atomic_size_t changes; /* of those, which want FOLLOW_CHANGED */
    /* the driver's */
    int64_t position; /* in the feed, where others write; < 0: not known */
    qp_ms look_at;    /* 0: no subscriber needs a look */
};

int follow_init(struct follow *f) QP_MUST_USE;
/* Drops what is left. */
void follow_done(qp *q);

/* QP_E_NOMEM. */
int follow_add(qp *q, struct subscription *s) QP_MUST_USE;
/* One that has been notified `once`, and so removed, is left alone. */
void follow_remove(qp *q, struct subscription *s);

/* A thread that waits for the end or the parking of a job, by its number. Subscribe, read the job, then wait. */
struct follow_wait {
    struct subscription subscription;
    qp *q;
    bool notified; /* under the handle's lock */
};
int follow_wait_begin(qp *q, struct job_ref job, struct follow_wait *w) QP_MUST_USE;
/* QP_OK: the job should be read again. QP_E_TIMEOUT: until_us (monotonic; < 0: never) is over; QP_E_CLOSED: the engine is
 * being closed; QP_E_INVALID: on the thread that drives. Drives the engine while no other thread does. */
int follow_wait_do(struct follow_wait *w, int64_t until_us, struct qp_err *err) QP_MUST_USE;
void follow_wait_end(struct follow_wait *w);

/* On the driver, from the engine: after a commit. */
void follow_journaled(void *context, const struct feed_entry *entry);
void follow_job_ended(qp *q, struct job_ref job, enum job_state state);
void follow_job_parked(void *context, struct job_ref job);
/* On the driver, before a round: looks at what others have committed; when it is due again (INT64_MAX: not by itself). */
void follow_turn(qp *q);
qp_ms follow_due(const qp *q);

#endif

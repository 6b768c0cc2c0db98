/* calls.h - the inbox of the driver: what threads ask of it, and how long that may take
 *
 *             call_do, call_put, call_post            the driver: calls_take
 *     NEW -----------------------------> QUEUED -----------------------------> TAKEN
 *                                          |                                     |
 *                       calls_expire,      |                                     | the driver: call_done,
 *                       or its own thread: |                                     | call_left
 *                       its time is over   v                                     v
 *                                      WITHDRAWN                                DONE
 *
 *   I1  a call moves along this table only, by call_move, under the driver's lock
 *   I2  QUEUED: it is in the inbox and nothing of it is decided. So it can be withdrawn, and a call that was
 *       withdrawn is never executed
 *   I3  TAKEN: it belongs to the driver, and its commit may be under way: only the driver ends it
 *   I4  while the store is away the driver takes `local` calls only. So what waits for the store stays QUEUED,
 *       and can be withdrawn in time
 *
 * Every call has a time, until_us. A FIRM one is over then; others wait on, unless the store is away: a caller
 * that has set no limit would rather wait for a slow disk than hear that it is slow.
 */
#ifndef QP_RUN_CALLS_H
#define QP_RUN_CALLS_H

#include "run/driver.h"

enum call_stage { CALL_NEW, CALL_QUEUED, CALL_TAKEN, CALL_DONE, CALL_WITHDRAWN, CALL_STAGES };

/* Something that a caller wants of the driver. */
struct call {
    struct call *next;
    /* On the driver, before a round: reads, or submits a command whose answer ends the call. */
    void (*execute)(qp *q, struct call *c);
    /* Of a call that no thread waits for: it was withdrawn. On any thread, without a lock. NULL: it is kept
     * until the driver takes it. */
    void (*withdrawn)(qp *q, struct call *c);
    qp *q;
    enum call_stage stage; /* under the lock */
    bool local;            /* it needs nothing of the store */
    bool waited;           /* a thread waits for it (call_do) */
    bool firm;
    int64_t until_us; /* monotonic */
    int rc;
    struct qp_err *err;
};

/* Whether the table has this move. */
bool call_may_move(enum call_stage from, enum call_stage to);
/* Under the lock. */
void call_move(struct call *c, enum call_stage to);

/* Into the inbox; no thread waits for it, and call_left is called when it was answered. call_queue is call_put with a
 * sentence. QP_E_READONLY, QP_E_CLOSED, QP_E_LIMIT: too many wait; or why the engine has stopped. */
int call_put(struct driver *d, struct call *c) QP_MUST_USE;
int call_queue(struct driver *d, struct call *c, struct qp_err *err) QP_MUST_USE;
/* Under the lock: into the inbox, and the driver looks there. No thread waits for it. */
void call_post(struct driver *d, struct call *c);
/* Under the lock: into the inbox, for a thread that waits for it until its own limit (loop.h). */
void call_ask(struct driver *d, struct call *c);
void call_left(struct driver *d, struct call *c);
/* On the driver: the call is answered. */
void call_done(struct driver *d, struct call *c, int rc);

/* Under the lock: takes what the driver is to execute; without `all` only what is local. */
struct call *calls_take(struct driver *d, bool all);

/* Under the lock: the time of a call that still waits in the inbox is over. */
bool call_is_over(const struct driver *d, const struct call *c);
/* Withdraws the calls whose time is over, or all that can be. From any thread, without the lock. */
enum calls_which { CALLS_OVER, CALLS_ALL };
void calls_expire(struct driver *d, enum calls_which which);
/* The sentence of a call that was withdrawn. */
const char *call_late_text(void);

/* A thread whose calls have a firm limit: what it asks for is answered by until_us, or withdrawn. 0: no limit now.
 * The struct is the thread's own, between add and remove. */
struct asker {
    struct asker *next;
    pthread_t thread;
    atomic_llong until_us;
};
void asker_add(struct driver *d, struct asker *c);
void asker_remove(struct driver *d, struct asker *c);
/* When this thread wants to have its answer (monotonic); 0: it has set no limit. */
int64_t asker_until_us(struct driver *d);
/* Calls that no thread waits for get a firm limit of that long; 0: none. Before any of them. */
void calls_limit(struct driver *d, qp_ms within_ms);

#endif

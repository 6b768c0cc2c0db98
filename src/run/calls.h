/* calls.h - what a thread asks of the driver, and how long it waits for that
 *
 *             call_do, call_put, call_post            the driver: calls_take
 *     NEW -----------------------------> QUEUED -----------------------------> TAKEN
 *                                          |                                     |
 *                       calls_expire,      |                                     | the driver: call_done,
 *                       or its own thread: |                                     | call_left
 *                       its time is over   v                                     v
 *                                      WITHDRAWN                                DONE
 *
 *   I1  a call moves along this table only, by call_move, under the handle's lock
 *   I2  QUEUED: it is in the inbox and nothing of it is decided. So it can be withdrawn, and a call that was
 *       withdrawn is never executed
 *   I3  TAKEN: it belongs to the driver, and its commit may be under way: nobody but the driver ends it
 *   I4  while the store is away the driver takes `local` calls only. So what waits for the store stays QUEUED,
 *       and can be withdrawn in time
 *
 * Every call has a time, until_us. A FIRM one is over then; others wait on, unless the store is away: a caller
 * that has set no limit would rather wait for a slow disk than hear that it is slow.
 */
#ifndef QP_RUN_CALLS_H
#define QP_RUN_CALLS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

enum call_stage { CALL_NEW, CALL_QUEUED, CALL_TAKEN, CALL_DONE, CALL_WITHDRAWN, CALL_STAGES };

/* Something that a caller wants of the driver. */
struct call {
    struct call *next;
    /* On the driver, before a round: reads, or submits a command whose answer ends the call. */
    void (*run)(qp *q, struct call *c);
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

/* call_do waits for the answer: QP_E_TIMEOUT, and it was not executed, when the time was over before the driver
 * took it. call_put does not wait, and calls call_left when it was answered; call_queue is call_put with a
 * sentence. */
int call_do(qp *q, struct call *c, struct qp_err *err);
int call_put(qp *q, struct call *c) QP_MUST_USE;
int call_queue(qp *q, struct call *c, struct qp_err *err) QP_MUST_USE;
/* Under the lock: into the inbox, and the driver looks there. No thread waits for it. */
void call_post(qp *q, struct call *c);
void call_left(qp *q, struct call *c);
/* On the driver: the call is answered. */
void call_done(qp *q, struct call *c, int rc);

/* Under the lock: takes what the driver is to run; without `all` only what is local. */
struct call *calls_take(qp *q, bool all);

/* Withdraws the calls whose time is over, or all that can be. From any thread, without the lock. */
enum calls_which { CALLS_OVER, CALLS_ALL };
void calls_expire(qp *q, enum calls_which which);
/* The sentence of a call that was withdrawn. */
const char *call_late_text(void);

/* A thread whose calls have a firm limit: what it asks for is answered by until_us, or withdrawn. 0: no limit now.
 * The struct is the thread's own, between add and remove. */
struct asker {
    struct asker *next;
    pthread_t thread;
    atomic_llong until_us;
};
void asker_add(qp *q, struct asker *c);
void asker_remove(qp *q, struct asker *c);
/* When this thread wants to have its answer (monotonic); 0: it has set no limit. */
int64_t asker_until_us(qp *q);
/* Calls that no thread waits for get a firm limit of that long; 0: none. Before any of them. */
void calls_limit(qp *q, qp_ms within_ms);

#endif

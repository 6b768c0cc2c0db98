/* loop.h - one turn of the driver, and how a thread waits: by driving, when no other thread does
 *
 * A turn takes what has arrived, lets every part submit what it has (driver_parts), makes one round of the engine, and
 * publishes what was answered and when the next turn is due.
 *
 * On the thread that drives, unless a function says otherwise.
 */
#ifndef QP_RUN_LOOP_H
#define QP_RUN_LOOP_H

#include "run/calls.h"

/* `functions` lets it run workers' functions itself. */
int loop_turn(struct driver *d, bool functions, bool *out_busy, struct qp_err *err);
/* Sleeps until the event, a hint of others, what is due, or the time (monotonic; < 0: any). */
void loop_sleep(struct driver *d, int64_t until_us);
/* Threads that wait for an answer, and hosts that ask how long to sleep. */
void loop_publish(struct driver *d, bool busy);
/* Under the lock: whether there is something for the driver already. While the store is away, what has come waits; what
 * comes for the first time sets the event. */
bool loop_has_arrived(const struct driver *d);
/* A failure that may pass is waited for; others end the run. */
bool loop_may_pass(int rc);

/* From any thread. Until *flag, which is under the lock (QP_OK), or the time (QP_E_TIMEOUT), or the store fails for good,
 * or the engine is closed (QP_E_CLOSED). Drives when no thread does. */
int loop_wait(struct driver *d, const bool *flag, int64_t until_us, struct qp_err *err) QP_MUST_USE;

/* From any thread: puts a call into the inbox and waits for its answer. QP_E_TIMEOUT, and it was not executed: its time
 * was over before the driver took it. */
int call_do(struct driver *d, struct call *c, struct qp_err *err);

#endif

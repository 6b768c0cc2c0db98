/* presence.h - which workers there are, of this process and of all others that share its store
 *
 * A worker is present while a call of it is in our hands, while it has a task in hand whose lease is not over, and for
 * LIMIT_WORK_LEASE_MS after its last call: between two calls it is as much there as in them. It is gone when it says that
 * it leaves, or when all of that is over. So a worker that is busy serves its topics.
 *
 *   I1  what a process knows of its own workers is in its memory (work_internal.h), and is the truth
 *   I2  where several processes share a store, each writes what it knows into the row of its run: with every renewal of its
 *       lease, and within LIMIT_PRESENCE_MS after a worker has come, gone or changed its topics. The row of a run whose
 *       lease is over says nothing
 *   I3  a worker that left stays in that row for a while, marked: what another process still knows from before that is
 *       not believed
 *
 * If we crash, our run's lease ends, and with it all that its row says.
 */
#ifndef QP_RUN_PRESENCE_H
#define QP_RUN_PRESENCE_H

#include "run/handle.h"
#include "run/work.h"

struct presence;

/* For the engine, on the driver: what the row of the run says, in the arena. */
int presence_write(void *context, struct arena *arena, qp_str *out_bytes) QP_MUST_USE;

/* On the driver: a worker came, went or changed. */
void presence_touch(qp *q);
/* On the driver: the row is written when it is time. When that is; INT64_MAX: not by itself. */
void presence_turn(qp *q, qp_ms now);
qp_ms presence_due(const qp *q);

#endif

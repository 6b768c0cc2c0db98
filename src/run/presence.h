/* presence.h - which workers there are, of this process and of all others that share its store
 *
 * A worker is present while a call of it is in our hands, while it has a task in hand whose lease is not over, and for
 * LIMIT_WORK_LEASE_MS after its last call: between two calls it is as much there as in them. It is gone when it says that
 * it leaves, or when all of that is over. So a worker that is busy serves its topics.
 *
 *   I1  what a process knows of its own workers is in its memory (remote.h), and is the truth
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

#include "run/work.h"
#include "store/store.h"

/* For the engine, on the driver: what the row of the run says, in the arena. */
int presence_write(void *context, struct arena *arena, qp_str *out_bytes) QP_MUST_USE;

/* On the driver: the row is written when it is time. When that is; INT64_MAX: not by itself. */
void presence_turn(qp *q, qp_ms now);
qp_ms presence_due(const qp *q);

/* A worker that is present (above), or a function of a process. */
struct work_worker {
    qp_str ns;
    qp_str name; /* of functions: none */
    qp_str build;
    qp_str caller;
    const qp_str *topics;
    size_t topic_count;
    int64_t in_hand; /* tasks */
    int64_t waiting; /* calls that are parked */
    qp_ms since;     /* its first call */
    qp_ms seen_at;   /* its last */
};
typedef int (*work_visit)(void *context, const struct work_worker *worker);
/* Of a namespace (none: the handle's own), in no order; those of all processes that share the store. */
int work_list(qp *q, qp_str ns, void *context, work_visit visit, struct qp_err *err) QP_MUST_USE;

/* From any thread but in the engine's callbacks: how many workers serve these topics, and when one last did. Topics of
 * which nothing is known in time are not served. QP_E_NOMEM. */
int topics_served(qp *q, int64_t ns, struct qp_topic *topics, size_t count,
                  struct qp_err *err) QP_MUST_USE;

#endif

/* ready.h - whether the store can be written, by what the driver has seen of it
 *
 * A caller that asks is answered from what was noted, and waits for nothing: neither for the store nor for the driver.
 */
#ifndef QP_RUN_READY_H
#define QP_RUN_READY_H

#include <pthread.h>
#include <stdatomic.h>

#include "kernel/request.h"

struct ready {
    pthread_mutex_t lock;
    int rc;                    /* under the lock: QP_OK, or why nothing can be written */
    atomic_llong committed_us; /* the last commit, by the monotonic clock; 0: none yet */
    atomic_llong
        silent_us; /* since when the driver works with the store and no turn went well; 0: one did */
    atomic_bool asked; /* a caller wants to know, and the last commit is long ago */
    /* the driver's */
    int64_t since_us; /* when rc became what it is */
    struct request_op proof;
    bool proving; /* the engine has it */
};

int ready_init(struct ready *r) QP_MUST_USE;
void ready_done(struct ready *r);

/* From any thread: QP_OK when the store can be written, as far as the driver has noted; else why not. When the last
 * commit is long ago, ready_check has the driver make one for those who ask later. */
int ready_check(qp *q, struct qp_err *err) QP_MUST_USE;
int ready_now(qp *q, struct qp_err *err) QP_MUST_USE;
/* Why nothing can be written, or QP_OK. From any thread. */
int ready_code(qp *q);

/* On the driver: before a round, a tiny commit when it has to be made sure of; a turn begins to work with the store; and
 * what it has shown. Losses and their end are logged, once each. */
void ready_prove(qp *q);
void ready_begin(qp *q);
void ready_note(qp *q, int rc, const struct qp_err *err, bool committed);

#endif

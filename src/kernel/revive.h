/* revive.h - dead letters of a job, back into their streams
 *
 * A dead letter is a message that was delivered too often, or that a person must see to; its job is parked. What parks a job, and what
 * a retry of its kind gives back beside its dead letters, is the caller's (request_unpark, face.retry). In a deciding commit.
 */
#ifndef QP_KERNEL_REVIVE_H
#define QP_KERNEL_REVIVE_H

#include "store/store.h"

struct revived {
    int64_t count;
    int64_t left; /* dead letters of other addresses */
};

/* Those of an address, or all of them (none). */
int job_revive(struct bundle *b, struct job_ref ref, qp_str addr,
               struct revived *out_revived) QP_MUST_USE;

#endif

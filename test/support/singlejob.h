/* singlejob.h - jobs of one activity without an engine: each function fills one bundle, as the engine would
 *
 * For tests and benchmarks of the store. Between the two commits, and after them, the rows are those that single.h
 * describes. Committing is the caller's; GUIDs live in the bundle's commit.
 */
#ifndef QP_TEST_SINGLEJOB_H
#define QP_TEST_SINGLEJOB_H

#include "kernel/single.h"

struct singlejob_start {
    struct job_ref ref; /* a reserved number */
    qp_str jid;
    bool fresh_jid; /* made up for this start: nobody else can have it */
    qp_str topic;
    qp_str input;
    qp_str owner_guid; /* of this attempt to start it */
};

/* After the commit: b->rc is QP_OK; QP_E_EXISTS when the same start was there; QP_E_CONFLICT when
 * another was. GUIDs live in the bundle's commit. QP_E_NOMEM when the bundle could not be
 * filled. */
int singlejob_start(struct bundle *b, const struct singlejob_start *start) QP_MUST_USE;

/* After the commit: b->rc is QP_OK; QP_E_STALE when the task is no longer ours. */
int singlejob_complete(struct bundle *b, const struct msg_ref *task, qp_str output) QP_MUST_USE;

#endif

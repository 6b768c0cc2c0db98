/* single.h - jobs of one activity: the smallest thing that goes through all digits
 *
 * single_start and single_complete fill one bundle each; committing is the caller's. Between the
 * two the job looks like this, which is also what a crash leaves behind:
 *
 *   job        semaphore 1: one open obligation
 *   trigger    activity 101100000000001, GUID 000011000000000 (inception and spawn in one commit)
 *   worker     activity 001100000000000, its input on the row, its task in the stream
 *
 * and after the second like this:
 *
 *   job        semaphore 0, closed by the response's GUID, completions 1
 *   worker     activity 201100000000001, GUID 000111100000001
 */
#ifndef QP_KERNEL_SINGLE_H
#define QP_KERNEL_SINGLE_H

#include "kernel/face.h"

#define SINGLE_ADDRESS "run,0,0"

/* Jobs of kind 0: the workflow's name is the topic, the policy of retries the trigger's. */
#define SINGLE_KIND 0
extern const struct program single_program;
/* Their face: every name that is not in the table of names. */
extern const struct face single_face;

struct single_start {
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
int single_start(struct bundle *b, const struct single_start *start) QP_MUST_USE;

/* After the commit: b->rc is QP_OK; QP_E_STALE when the task is no longer ours. */
int single_complete(struct bundle *b, const struct msg_ref *task, qp_str output) QP_MUST_USE;

#endif

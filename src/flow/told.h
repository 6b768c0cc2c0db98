/* told.h - what a worker elsewhere says of a decision: commands, or that code and history do not fit
 *
 *   status        what comes of it
 *   (none)        a decision (decision.h): applied, in one commit; with `keep` the next one follows at once
 *   miss          the task goes back, and is given with the whole history
 *   diverged      parked, with both sides; when the history is newer than the code and the worker names its build: the task
 *                 goes back with a note, and that build does not get it for LIMIT_NEWER_BUILD_MS, then it is parked
 *   latent        parked, with what is left
 *
 * A refusal has a pointer into the result and a word; after LIMIT_RESULT_REFUSALS of them the job is parked. The note on a
 * task is {"newer":{"since":ms,"builds":[..]},"why":".."}, in msg_row.error: it ends with the task.
 *
 * Threads: the engine's own; notes: any.
 */
#ifndef QP_FLOW_TOLD_H
#define QP_FLOW_TOLD_H

#include "kernel/face.h"

/* face.result */
int told_result(void *state, struct turn *t, struct bringing *x, struct qp_err *err);

/* face.takes, face.describe_note */
bool told_takes(void *state, qp_str note, qp_str build, qp_ms now);
qp_str told_note(void *state, qp_str note);

#endif

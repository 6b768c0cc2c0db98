/* attempt.h - attempts of the works of an instance: how one begins, and what the instance learns of it
 *
 *                             task here (~..)              a job of its own: dispatched task       child
 *   begins                    Leg1, or a retry             the same: a call                        the same: a call
 *   onStart                   notice of the claim          notice of its job, of the claim there   with the call
 *   onTimeout                 notice, from the claim on    the same, measured there                notice, from the call on
 *   another, by its worker    program.again                notice of its job                       -
 *   ends                      answer                       answer of its job                       answer of its job
 *
 * Which attempt runs says status.attempt; in a dispatched task's own job its row AGENT_TASK_ATTEMPT. In a trace (agents_lead) works
 * are tasks here, and there are no notices.
 */
#ifndef QP_AGENT_ATTEMPT_H
#define QP_AGENT_ATTEMPT_H

#include "agent/acting.h"

/* Leg1 of a task or a child, and each further attempt that the instance gives it. */
int attempt_begin(struct turn *t, const struct status *status) QP_MUST_USE;
/* Step 2 of the decision that ends the instance: a dispatched work whose Leg1 is still to come, with this GUID, begins here, since the
 * job is closed by then. And those of earlier decisions, whose ENTER is in the stream. */
int attempt_outlive(struct acting *a, qp_str address, qp_str guid) QP_MUST_USE;
int attempt_outlive_all(struct acting *a) QP_MUST_USE;
/* Before its end is reported: what was to tell that it takes long. */
int attempt_end(struct turn *t, const struct status *status) QP_MUST_USE;
/* Whether the end of an attempt shows that it had begun. */
bool attempt_began(const struct turn *t, const struct status *status);

/* The lease of a task of this work: twice its maxProcessingTime, at least that of the kind, at most LIMIT_LEASE_MS. */
qp_ms attempt_lease(const struct agents *agents, const struct status *status);

/* program.claimed, notice, again. */
int attempt_claimed(void *context, struct bundle *b, const struct act_row *act,
                    struct claim_notices *out_notices) QP_MUST_USE;
int attempt_notice(struct turn *t) QP_MUST_USE;
int attempt_again(struct turn *t, qp_ms delay_ms) QP_MUST_USE;

/* A dispatched task in its own job: Leg1; step 1 of its answer, which tells the attempt; step 2. */
bool attempt_is_job(const struct turn *t);
int attempt_job_enter(struct turn *t) QP_MUST_USE;
int attempt_job_work(struct turn *t, struct work *work) QP_MUST_USE;
int attempt_job_spawn(struct turn *t) QP_MUST_USE;

#endif

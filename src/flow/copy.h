/* copy.h - a flow's job that is made from another: its history up to a place is copied
 *
 * The events that are kept are made and answered again in the new job, in the order in which that happened in the
 * other one, with their results and their times. It is done by COPYING DECISIONS: entries of flow,0,0 that no worker
 * makes. Each makes a run of events (step 1) and answers a run of them (step 2), as the decisions and answers of the other
 * job did, so the new job's digits, counts and order are those of any flow. Behind the last one the first decision
 * for a worker is put.
 *
 *   fork at L     every event before L, in the order of locations, is kept
 *   retry         every event is kept, but for what the flow began in the branch of the step that failed, or in one
 *                 around it, when it knew that it had failed
 *
 * A kept event that was answered is answered; one that was open begins again, and so does the step that failed. A loop in
 * which the place lies is open again.
 *
 * Data of the job while it is copied:
 *
 *   quipu:copy           {"job":NUMBER,"seed":"HEX16","started_at":MS}: what flow,0,0 takes over
 *   quipu:copy:000000    the plan, a page of it: ["b@a1!","e@a1!","o@a2!",..]
 *                        b an event is made that will be answered, o one that is open, e its answer, l a loop has ended
 *
 *   I1  the plan is made in the commit that makes the job; what it names does not change in the other job any more
 *   I2  a copying decision is {"copy":[PAGE,INDEX]}; its step 1 keeps {"copy":[PAGE,INDEX,END],"open":[ADDRESS,..]}, by which
 *       an event of the new job knows for good that it is a copy, and whether it will be answered (flow_copy_keeps)
 *   I3  a copy sends no signal, puts no task and waits for nothing
 *
 * If we crash between two copying decisions, the next one is a message in the stream; inside of one, the ledger of its GUID
 * says what is left. If the other job was deleted before all was copied, the new one fails with code 410.
 */
#ifndef QP_FLOW_COPY_H
#define QP_FLOW_COPY_H

#include "kernel/face.h"

/* face.fork. */
int flow_fork(void *state, struct turn *t, const struct fork *fork, struct qp_err *err) QP_MUST_USE;

/* Whether the job is being copied: the entries of flow,0,0 are copying decisions then. */
int flow_copy_is_on(struct turn *t, bool *out_copying) QP_MUST_USE;
/* The input of flow,0,0 as the other job had it; none: the job takes over nothing. */
int flow_copy_input(struct turn *t, qp_str *out_input) QP_MUST_USE;
/* Leg1 of flow,0,0: the first copying decision. */
int flow_copy_enter(struct turn *t) QP_MUST_USE;
/* The two steps of a copying decision. */
int flow_copy_work(struct turn *t, struct work *work) QP_MUST_USE;
int flow_copy_spawn(struct turn *t, struct spawn *spawn) QP_MUST_USE;
/* Whether what step 1 has kept is that of a copying decision. */
bool flow_copy_was(qp_str kept);

/* Whether an event is a copy; *out_answered: and its answer is one, too. */
int flow_copy_keeps(struct turn *t, bool *out_copy, bool *out_answered) QP_MUST_USE;

#endif

/* program.h - flows as a program of the kernel: one cyclic activity decides, every event is an activity (ADR 45)
 *
 * The digits, rows and messages of a flow, and what a crash leaves at each boundary, are in the ADR. In short:
 *
 *   trigger,0   D        its input is the flow's
 *   flow,0,0    A, open  a decision is a task of it, its result a Leg2 entry: step 1 writes a row per event, step 2
 *                        enters them and puts the next decision when there is something to decide on
 *   @...        an event, as its row says; the answer of one that waits notifies flow,0,0 in its step 2
 *
 * Owner: const. Threads: the engine's own.
 */
#ifndef QP_FLOW_PROGRAM_H
#define QP_FLOW_PROGRAM_H

#include "kernel/program.h"

extern const struct program flow_program;

/* What a worker has decided, before it counts: QP_E_SHAPE with a pointer refuses it. `t` stands at flow,0,0. */
int flow_decided(struct turn *t, qp_str text, struct qp_err *err) QP_MUST_USE;

/* A decision that was made before its flow was cancelled: nothing of it counts. */
bool flow_is_blind(const struct turn *t, qp_str text);

/* The events that the history of a job has, in a commit; more than LIMIT_FLOW_EVENTS are counted as one more than that. */
int flow_count_events(struct bundle *b, struct job_ref ref, int64_t *out_count) QP_MUST_USE;

#endif

/* cancel.h - how a flow that is asked to end ends: a fact of its log, which the code meets once (ADR 50)
 *
 * A cancel has its own place C in the order of answers: the sequence of its journal entry, job_row.cancelled. What it means
 * follows from that number alone, in every replay and whatever the code is now:
 *
 *   a work that was begun before C and not answered before C is dead: its answer is C, the error 499, whatever comes later
 *   a work that was begun behind C is as any other: the decision that began it has seen C
 *   a work with the mark `shield` is as any other, too: a compensation
 *   a decision whose base is below C has not seen it: it is void, and the next one follows
 *
 * The cancel is thrown once, at the first await that the answers before C do not end. Where that is may not follow from these
 * facts, since the code may have changed: so the decision that meets it says where ("thrown":"{3}"), which is a fact as well,
 * and every replay throws it there and nowhere else. Each further await of a dead work fails as that work has.
 *
 *             asked                        the code has met it and ended, compensations included
 *   open ---------------> job.cancelled > 0 ----------------------------------------------------> cancelled
 *     |                          | the code has ended without an await: it was faster                 ^
 *     |                          +-----------------------------------------------> completed, failed  |
 *     |  has not begun, has returned, is parked                                                       |
 *     +-----------------------------------------------------------------------------------------------+
 *
 * The commit of a cancel takes back timers, listens and tasks that no worker has, by answering them 499, LIMIT_SWEEP_ROWS of
 * them; an END message does the rest, a page at a time. Tasks in hand stay, and their workers are told; what they bring is
 * recorded. If we crash before the commit, the flow was not cancelled; after it, C stands, and whatever a page has not taken
 * back yet is dead all the same.
 *
 * Data of the job: FLOW_CANCEL is {"at":ms,"reason":"..","thrown":"{3}"}, `thrown` from the decision that has thrown it on;
 * FLOW_DEFERS are the names of the compensations that would run now, the first one first, as the last decision said (flow.h).
 */
#ifndef QP_FLOW_CANCEL_H
#define QP_FLOW_CANCEL_H

#include "flow/decision.h"
#include "kernel/program.h"

/* face.cancel */
int flow_cancel(void *state, struct turn *t, qp_str *error, bool *out_ends);

/* Step 1 of a decision: what it says of the cancel and of compensations. */
int cancel_keep(struct turn *t, const struct decision *decision) QP_MUST_USE;
/* Of a job that was cancelled: the reason, as its error, and whether its code has met the cancel. */
int cancel_facts(struct turn *t, qp_str *out_error, bool *out_met) QP_MUST_USE;

#endif

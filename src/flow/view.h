/* view.h - what people see of a flow: the events of its history, and in plain words what it waits for
 *
 * The functions behind describe_job, describe_activity and describe_history of the face (kernel/face.h), in the snapshot of a
 * read. An event has a location, a version, a type and a name; a note says the rest in words:
 *
 *   activity   which attempt runs, is due or begins when, and why the one before it failed
 *   sleep      until when; of a listen with a time limit, for which signals, too
 *   signals    which it waits for, or which came
 *   loop       after how many iterations it ended, or how many are recorded
 *   removed    what the step was
 *
 * Nothing else than what the rows say: whether a worker serves a topic is known above.
 */
#ifndef QP_FLOW_VIEW_H
#define QP_FLOW_VIEW_H

#include "kernel/face.h"

/* info->waits_for: of a flow that is open, a JSON array of sentences: what a person has to do; that the flow has returned;
 * works that are open, in the order of locations, at most LIMIT_WAITS_SHOWN; the next decision; and, whenever open works
 * are left out, how many. */
int flow_describe_job(void *state, const struct sight *sight, struct qp_job_info *info) QP_MUST_USE;

int flow_describe_activity(void *state, const struct sight *sight, const struct act_row *act,
                           struct qp_activity *told) QP_MUST_USE;

/* An entry that is about an event: where the event stands and what it is. */
int flow_describe_history(void *state, const struct sight *sight, int64_t kind,
                          struct qp_event *event) QP_MUST_USE;

/* Whether the flow has given up its own obligation: it ends when all that it has begun has ended. */
int flow_has_returned(const struct sight *sight, bool *out_returned) QP_MUST_USE;

#endif

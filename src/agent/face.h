/* face.h - the face of agent workflows (kernel/face.h), and what may be asked of an instance
 *
 * The way in from outside is run/agents.h. A driver of an instance starts a job of AGENT_KIND whose workflow is the canonical
 * name, whose version is the concrete name and whose input is that of start.h, asks by request_ask (below), and answers its
 * tasks by request_result:
 *
 *   a decision    RESULT_DONE with the text of draft_text.h; or RESULT_OTHER with `told`
 *                 {"status":"decided","decision":TEXT}: the same, and one that no commit can hold parks the job;
 *                 {"status":"failed","error":ERROR}, {"status":"modified"}: parked; {"status":"lost"}: issued again
 *   a work        RESULT_OTHER with `told` {"status":"completed","output":TEXT} or
 *                 {"status":"failed","error":ERROR,"again":MS}; without `again` the attempt was the last
 *
 * ERROR is {"code","name","message","stacktrace"}; a TEXT that is null is left out.
 */
#ifndef QP_AGENT_FACE_H
#define QP_AGENT_FACE_H

#include "kernel/face.h"

struct agents;
struct instance;

/* asking.what. */
enum agent_question {
    AGENT_EVENT, /* onEvent: `name`, and its input as `text`, none: null. QP_E_LIMIT: the buffer is full */
    AGENT_REPORT, /* of a trace: `more` is a struct instance_report without works of its own */
    AGENT_TIMERS, /* of a trace */
};

extern const struct face agent_face;

/* In a trace *now_ms is the time of every instance, waits have no timers, and each work is a task, also a child. Between two
 * rounds. */
void agents_lead(struct agents *agents, const int64_t *now_ms);

/* Tasks at workers elsewhere have at least this lease (attempt.h); before the first of them is claimed. */
void agents_lease(struct agents *agents, qp_ms least_ms);
/* That of the task with this definition, the input of its activity. QP_E_CORRUPT: it is none. */
int agent_lease(const struct agents *agents, struct arena *arena, qp_str definition,
                qp_ms *out_lease_ms) QP_MUST_USE;

/* What a draft of the decision that is out reads of its instance (draft.h). QP_E_NOT_FOUND: it has not begun; QP_E_CONFLICT: no
 * decision is out. */
int agent_decision(const struct sight *sight, struct instance *out_instance) QP_MUST_USE;

/* The whole instance, as it stands in the snapshot. QP_E_NOT_FOUND: it has not begun. */
int agent_instance(const struct sight *sight, struct instance *out_instance) QP_MUST_USE;

#endif

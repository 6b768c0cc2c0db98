/* draft_text.h - what a decision came to, as the text that its result brings
 *
 *   {"works":[{"work":DEFINITION,"branch":0,"index":4}],"properties":[{"key":5,"values":".."}],"outputs":[{"branch":3,"output":".."}],"name":".."}
 *
 * The holder of a draft writes it when the draft is finished; the commit that takes the result reads it back as a draft, and
 * checks that it fits the decision that is out. A value that is null is left out. Pure; any thread.
 */
#ifndef QP_AGENT_DRAFT_TEXT_H
#define QP_AGENT_DRAFT_TEXT_H

#include "agent/draft.h"

/* The draft is finished. */
int draft_write(struct arena *arena, const struct draft *draft, qp_str *out_text) QP_MUST_USE;
/* The batch of the instance is there. QP_E_SHAPE: it is no decision, or not one of this batch. */
int draft_read(struct arena *arena, qp_str text, const struct instance *instance,
               struct qp_err *err, struct draft *out_draft) QP_MUST_USE;

#endif

/* decision_read.h - the text of a decision, taken apart: what decision.h describes, of a text that is JSON */
#ifndef QP_FLOW_DECISION_READ_H
#define QP_FLOW_DECISION_READ_H

#include "flow/decision.h"

/* QP_E_SHAPE: refused, with a pointer; QP_E_NOMEM. `now` bounds the times that commands may name. */
int decision_read(const struct qp_env *env, struct arena *arena, qp_str text, qp_ms now,
                  struct decision *out_decision, struct qp_err *err) QP_MUST_USE;

#endif

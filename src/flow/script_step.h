/* script_step.h - what durable calls have in common: checking what they were given, and taking a step of the cursor
 *
 * What is wrong is a mistake of the flow's code: the run is over, and its error names the call and where it stands.
 */
#ifndef QP_FLOW_SCRIPT_STEP_H
#define QP_FLOW_SCRIPT_STEP_H

#include "flow/script_commands.h"

int step_refuse(const qp_flow *f, const char *call, int rc, const struct qp_err *err);
/* A name, copied; NULL is as bad as empty. */
int step_name(const qp_flow *f, const char *call, const char *name, qp_str *out_name) QP_MUST_USE;
/* JSON within the limit; none is null. With a copy, or borrowed. */
int step_json(const qp_flow *f, const char *call, const char *what, qp_str json,
              qp_str *out_json) QP_MUST_USE;
int step_json_copy(const qp_flow *f, const char *call, const char *what, qp_str json,
                   qp_str *out_copy) QP_MUST_USE;
int step_range(const qp_flow *f, const char *call, const char *what, int64_t value, int64_t least,
               int64_t most) QP_MUST_USE;

/* REPLAY, NEW or INSERT; else the run is over. */
int step_take(const qp_flow *f, struct cursor *c, const struct cursor_step *step,
              struct cursor_found *out_found) QP_MUST_USE;
/* What the history has of a step that is replayed. */
const struct log_entry *step_entry(const struct script *s, const struct cursor_found *found);
/* The cancel is thrown at this work: QP_E_CANCELLED. */
int step_cancel(const qp_flow *f, const struct work *work) QP_MUST_USE;
/* A branch, and the cursor inside of it. */
int step_branch(const qp_flow *f, qp_str name, struct cursor *out_inside,
                struct cursor_found *out_found) QP_MUST_USE;

#endif

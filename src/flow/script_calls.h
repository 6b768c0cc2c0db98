/* script_calls.h - what a run needs of the calls that do something (see script_calls.c)
 *
 * Compensations are activities that the run itself begins, when a function has failed (script_frame.h). Children are begun as
 * activities are (script_child.c). Threads: as a run.
 */
#ifndef QP_FLOW_SCRIPT_CALLS_H
#define QP_FLOW_SCRIPT_CALLS_H

#include "flow/script_frame.h"

/* An activity that a cancel leaves alone: what is recorded of it, or a command. */
int step_compensate(qp_flow *f, qp_str name, qp_str input, struct work *out_work) QP_MUST_USE;

/* What is known of the work that a step is. */
void work_take(const struct script *s, const struct cursor_found *found, struct work *out);
/* What has come of it, or the call waits; QP_E_FAILED, QP_E_CANCELLED. out_output may be NULL. */
int work_await(const qp_flow *f, const struct work *work, qp_str *out_output) QP_MUST_USE;
/* A handle of it. */
int work_keep(const qp_flow *f, const struct work *work, qp_handle *out_handle) QP_MUST_USE;
/* The caller has left out what the call needs. */
int call_no_output(const qp_flow *f, const char *call);
/* The recorded input counts; another one is worth a word, since it may be a mistake. */
void call_compare(const struct script *s, const struct cursor_found *found, qp_str recorded,
                  qp_str input);

#endif

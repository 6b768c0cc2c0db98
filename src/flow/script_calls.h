/* script_calls.h - what a run needs of the calls that do something (see script_calls.c)
 *
 * Compensations are activities that the run itself begins, when a function has failed (script_frame.h). Threads: as a run.
 */
#ifndef QP_FLOW_SCRIPT_CALLS_H
#define QP_FLOW_SCRIPT_CALLS_H

#include "flow/script_frame.h"

/* An activity that a cancel leaves alone: what is recorded of it, or a command. */
int step_compensate(qp_flow *f, qp_str name, qp_str input, struct work *out_work) QP_MUST_USE;

#endif

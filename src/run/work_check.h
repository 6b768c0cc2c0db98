/* work_check.h - whether what a worker elsewhere says can be worked with
 *
 * On the thread of the caller, before the call is queued.
 */
#ifndef QP_RUN_WORK_CHECK_H
#define QP_RUN_WORK_CHECK_H

#include "run/work.h"

/* The call itself: codes and sentences of work_submit. */
int work_check(const struct work_call *call, struct qp_err *err) QP_MUST_USE;
/* Its results and beats, each by itself: status, rc and why are set. */
void work_check_brought(const qp *q, struct work_call *call);

#endif

/* workers.h - the functions of this process that serve topics: added, removed, and claims by hand
 *
 * On the thread that drives.
 */
#ifndef QP_RUN_WORKERS_H
#define QP_RUN_WORKERS_H

#include "run/task.h"

/* A worker for a topic that is checked: users' own, or one of the engine's. `flow` NULL: it is no flow's.
 * QP_E_EXISTS: the topic has one here. From any thread. */
int workers_add(qp *q, const struct qp_worker *worker, qp_flow_function flow,
                struct qp_err *err) QP_MUST_USE;

/* After each round: workers that leave. */
void workers_turn(qp *q);

#endif

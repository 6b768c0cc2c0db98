/* apps.h - applications of graphs behind quipu.h: deploying, and what topics mean
 *
 * A version of an application is one row, its text; it is compiled where it is needed (graph/library.h). Deploying
 * compiles it first, on the caller's thread, and writes nothing when anything is wrong. Activating is one commit: the
 * version, the one before it, and what every topic of both means from then on. Jobs keep the version that they began with.
 * Deleting hides a version at once; its text goes later (kernel/chores.h, collect).
 */
#ifndef QP_RUN_APPS_H
#define QP_RUN_APPS_H

#include "graph/program.h"
#include "graph/start.h"
#include "run/handle.h"

int apps_init(qp *q) QP_MUST_USE;
/* When the engine is there: what topics mean. */
int apps_open(qp *q, struct qp_err *err) QP_MUST_USE;
void apps_done(qp *q);
/* On the driver, before a round. */
void apps_turn(qp *q);

#endif

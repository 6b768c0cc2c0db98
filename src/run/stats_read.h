/* stats_read.h - gauges of what is, read from the store when they are asked for (see stats.h)
 *
 * From any thread that may wait.
 */
#ifndef QP_RUN_STATS_READ_H
#define QP_RUN_STATS_READ_H

#include "base/base.h"

/* Reads the states of the store into their gauges; then metrics_text tells all. Not in the engine's
 * callbacks. */
int stats_collect(qp *q, struct qp_err *err) QP_MUST_USE;

#endif

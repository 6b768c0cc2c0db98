/* stats.h - the numbers of one engine, for people and for Prometheus
 *
 * Counters and histograms are kept as things happen, by the thread that drives the engine; what is a state of
 * the store (jobs by status, topics, sizes) is read when it is asked for. Names are those of
 * docs/metrics.md.
 */
#ifndef QP_RUN_STATS_H
#define QP_RUN_STATS_H

#include "base/metrics.h"

/* The registry of the handle: whoever serves it may add families of its own. */
struct metrics *stats_registry(qp *q);

/* Reads the states of the store into their gauges; before metrics_write. */
int stats_collect(qp *q, struct qp_err *err) QP_MUST_USE;

#endif

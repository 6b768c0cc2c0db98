/* stats.h - the numbers of one engine, for people and for Prometheus
 *
 * Counters and histograms are kept as things happen, by the thread that drives the engine; what is a state of
 * the store (jobs by status, topics, sizes) is read when it is asked for. docs/metrics.md lists them.
 */
#ifndef QP_RUN_STATS_H
#define QP_RUN_STATS_H

#include "base/metrics.h"
#include "kernel/request.h"

/* The registry of the handle: the server may add families of its own. It lives as long as the
 * handle. NULL: the handle is for reading only. */
struct metrics *stats_registry(qp *q);

/* For the handle itself, on the driver. */
struct stats;
int stats_create(qp *q) QP_MUST_USE;
void stats_destroy(qp *q);
void stats_started(qp *q, qp_str workflow, qp_str input);
void stats_finished(void *context, const struct outcome *outcome, qp_ms now);
/* Tasks that are handed out: how long they were ready. */
void stats_handed(qp *q, const struct task *task);
/* A result that was committed, of a task that was handed out at `since` (0: not known). While it is answered. */
void stats_attempted(qp *q, const struct request_result *result, qp_ms since);
/* A round that has committed; its numbers before and after. */
void stats_round(qp *q, int64_t duration_us, const struct engine_stats *before,
                 const struct engine_stats *after);

#endif

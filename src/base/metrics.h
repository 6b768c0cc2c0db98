/* metrics.h - counters, gauges and histograms, and their text for Prometheus
 *
 * A registry belongs to a handle; there is no global one. A family (name, help, kind) has series,
 * one per set of label values. metrics_open finds or makes a series, under the registry's mutex;
 * whoever updates often opens once and keeps the pointer, which is good until metrics_destroy.
 * Updates are single atomic operations: any thread, any time, no lock.
 *
 * Limits: LIMIT_METRICS families, then QP_E_LIMIT. LIMIT_METRIC_SERIES series in a family; a
 * further set of labels is counted in one series whose label values are all "other", so that the
 * sum stays right.
 */
#ifndef QP_BASE_METRICS_H
#define QP_BASE_METRICS_H

#include "base/mem.h"

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* `bounds`, for histograms only: upper bounds in ascending order, finite; +Inf comes by itself.
 * The first spec of a name decides about help and bounds. The texts are copied. */
struct metric_spec {
    const char *name; /* [a-zA-Z_:][a-zA-Z0-9_:]* */
    const char *help;
    enum metric_kind kind;
    const double *bounds;
    size_t bound_count;
};

struct metrics;
struct metric; /* one series */

int metrics_create(const struct qp_env *env, struct metrics **out_metrics) QP_MUST_USE;
void metrics_destroy(struct metrics *m); /* no thread may hold a series any more */

/* `labels`: key, value, key, value, ...; label_count counts the slices, so it is even. Keys, in
 * the same order every time, are [a-zA-Z_][a-zA-Z0-9_]* and not "le"; a value longer than
 * LIMIT_ID_SIZE is cut. QP_E_INVALID: a bad name, key or list of bounds. QP_E_CONFLICT: the name
 * is of another kind. QP_E_LIMIT: too many families. QP_E_NOMEM. */
int metrics_open(struct metrics *m, const struct metric_spec *spec, const qp_str *labels,
                 size_t label_count, struct qp_err *err, struct metric **out_metric) QP_MUST_USE;

void metric_add(struct metric *metric, int64_t n);        /* counter (n >= 0) or gauge */
void metric_set(struct metric *metric, int64_t n);        /* gauge */
void metric_observe(struct metric *metric, double value); /* histogram; NaN is left out */

/* The text format 0.0.4; families by name, series by labels. Errors stick in the buffer. */
void metrics_text(struct metrics *m, struct buf *out);

#endif

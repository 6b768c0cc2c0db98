/* measures.h - how many jobs of a graph there were, when, and with what (trigger.stats)
 *
 * A trigger gives its jobs a key and facets, which stand as attributes on them (type_trigger.c). A question names data as a
 * start does; its key and facets are computed as the trigger would, and the jobs that have the same are counted by the time at
 * which they began, in segments of the trigger's granularity, from the one that holds the beginning of the range to the one that
 * holds its end, both included. Nothing is kept for this but the attributes: jobs that are forgotten are no longer counted.
 */
#ifndef QP_GRAPH_MEASURES_H
#define QP_GRAPH_MEASURES_H

#include "graph/library.h"

struct measure_query {
    int64_t ns;
    qp_str topic;
    qp_str data; /* checked JSON */
    qp_ms range_ms;
    qp_ms end_at;
};

/* As JSON: {"key","count","segments":[{"time","count","measures":{name:{"sum","avg","min","max","mdn"}}}],
 * "facets":[{"facet":"color:red","count","ids":[...]}]}. QP_E_NOT_FOUND: no graph has the topic, or its trigger has no
 * stats; QP_E_INVALID: the range; QP_E_TOO_LARGE: more than LIMIT_MEASURED_JOBS have the key. */
int measures_read(struct arena *a, struct store *s, struct library *l, struct names *names,
                  const struct measure_query *query, struct buf *out,
                  struct qp_err *err) QP_MUST_USE;

#endif

/* result_why.h - why a package is in a result: the shortest ways to it, and what depends on it directly
 *
 *   {"from": [id..],  only when the question says where ways begin; else they begin at the roots
 *    "to": [id..],    what is meant: several versions of a package are several nodes
 *    "paths": [{"nodes": [id..], "edges": [{from, to, requirement, scope, kind}..]}..],
 *    "more": false,   there are further paths
 *    "dependents": [{from, to, requirement, scope, kind}..]}
 *
 * A path has every relationship between two nodes that follow each other in it (result_ways.h says which paths, in which
 * order). `dependents` are all relationships that lead to the package.
 */
#ifndef QP_CARTO_RESULT_WHY_H
#define QP_CARTO_RESULT_WHY_H

#include "carto/result_graph.h"

struct why_question {
    qp_str from; /* a package, as purl.h reads it; none: the roots */
    qp_str to;
    size_t limit; /* paths; 1 to LIMIT_CARTO_WAYS */
};

/* Members of an object that the caller has begun. QP_E_INVALID: that is no name of a package; QP_E_NOT_FOUND, with the
 * nearest names: it is not in the result. */
int why_write(const struct result_graph *g, const struct why_question *q, struct json_writer *w,
              struct qp_err *err) QP_MUST_USE;

/* An edge as it stands in the canonical JSON. */
void result_edge_put(struct json_writer *w, const struct result_edge *e);

#endif

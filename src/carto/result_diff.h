/* result_diff.h - what differs between two results
 *
 *   {"added": [id..], "removed": [id..],                       packages that only one of them has
 *    "changed": [{"name": "npm:x", "from": ["1"], "to": ["1", "2"]}..],   of packages in both: other versions
 *    "edges": {"added": [{from, to, requirement, scope, kind}..], "removed": [..]},
 *    "same": false}
 *
 * A package is its type and name. Edges are compared without versions, and their ends are packages, "npm:x": what a change of
 * versions alone does is not said of every edge again. All is in the order of names.
 */
#ifndef QP_CARTO_RESULT_DIFF_H
#define QP_CARTO_RESULT_DIFF_H

#include "carto/result_graph.h"

/* Members of an object that the caller has begun. */
int result_diff(const struct result_graph *from, const struct result_graph *to,
                struct json_writer *w, bool *out_same) QP_MUST_USE;

#endif

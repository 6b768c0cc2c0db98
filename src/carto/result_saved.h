/* result_saved.h - a result that was saved as JSON (format.h), read back as nodes and edges
 *
 * Levels, roots and errors of nodes are read; what a result has beside nodes and edges is passed over.
 */
#ifndef QP_CARTO_RESULT_SAVED_H
#define QP_CARTO_RESULT_SAVED_H

#include "carto/result_graph.h"

/* What a saved result says of itself. */
struct result_saved {
    qp_str universe;
    qp_str hash;
};

/* The graph reads the text as long as it is open; to be closed after a failure, too. QP_E_MALFORMED: no JSON; QP_E_SHAPE:
 * no result of a traversal; QP_E_TOO_LARGE: above LIMIT_CARTO_SAVED_SIZE. */
int saved_open(struct result_graph *g, const struct qp_env *env, qp_str text,
               struct result_saved *out, struct qp_err *err) QP_MUST_USE;

#endif

/* start.h - what a start of a graph means, and which key a signal to its hooks is for
 *
 * These are functions of the graphs' face (face.h, kernel/face.h), on the engine's thread in the commit that decides.
 */
#ifndef QP_GRAPH_START_H
#define QP_GRAPH_START_H

#include "graph/library.h"
#include "kernel/face.h"

/* The graph's version, whether the input is as its schema wants it, and the id that its trigger gives (face.h,
 * resolve_start). QP_E_SHAPE: the input; QP_E_INVALID: the id is none, or the start has a policy of retries;
 * QP_E_NOT_FOUND: the version was deleted. */
int graph_start(struct library *l, struct bundle *b, struct naming *naming,
                struct qp_err *err) QP_MUST_USE;

/* The key that a signal is for, by the hooks of a version (face.h, signal_key). QP_E_SHAPE: the payload lacks it, and the
 * sentence says what is wanted. */
int graph_signal_key(struct library *l, struct bundle *b, const struct op_hook_signal *signal,
                     qp_str version, qp_str *out_key, struct qp_err *err) QP_MUST_USE;

#endif

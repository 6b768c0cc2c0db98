/* diff.h - what differs between two versions of an application, as people wrote them
 *
 * Texts are compared as trees: order of keys, comments, quotes and layout mean nothing. A graph is the same one when it
 * subscribes to the same topic, an activity when it has the same id, a transition when it leads from and to the same ones.
 */
#ifndef QP_GRAPH_DIFF_H
#define QP_GRAPH_DIFF_H

#include "mapping/tree.h"

/* Both texts are applications that compile. Writes the value of "graphs", an array of those that differ:
 *
 *   [{"topic","change":"added|removed|changed","keys":["publishes"],
 *     "activities":{"added":[id],"removed":[id],"changed":[id]},
 *     "transitions":{"added":[{"from","to"}],"removed":[..],"changed":[..]}}]
 *
 * `keys` are those of the graph beside these two. QP_E_INVALID: one is no YAML; QP_E_NOMEM. */
int diff_write(struct arena *a, qp_str from, qp_str to, struct buf *out) QP_MUST_USE;

#endif

/* result_kept.h - nodes and edges of a large result as bytes
 *
 * A question of a result needs all its nodes and edges. Those of a result with more items than LIMIT_CARTO_READ_ITEMS take
 * seconds to be made from its items, so FORMAT keeps them as well, in pages of the job's data (ADR 67):
 *
 *   file   = 0x01, number of roots, number of nodes, node after node in the order of their ids
 *   node   = its index, type, name, version, level, flags (1 frontier, 2 virtual), errors, number of edges, edge after edge
 *   edge   = index of the node it leads to, requirement, kind, scope
 *
 * Numbers stand in groups of 7 bits, the lowest first; a text is its size and its bytes. A page is KEPT_PAGE_SIZE bytes of
 * the file, the last one has fewer; the first one has the size of the file, as 8 digits of 16, before it.
 *
 * It is a copy of what the items say, and is never written again. fsck rule V3 compares it with the hash of the result.
 */
#ifndef QP_CARTO_RESULT_KEPT_H
#define QP_CARTO_RESULT_KEPT_H

#include "carto/result_graph.h"
#include "store/store.h"

#define KEPT_PAGE_SIZE (64 * 1024)

bool kept_is_due(const struct carto_counts *counts);
/* The bytes of all pages, one behind the other. */
int kept_write(const struct result_graph *g, struct buf *out) QP_MUST_USE;
/* The page of this index out of them; empty: it is behind the last one. */
qp_str kept_page(qp_str bytes, size_t index);
int kept_page_name(struct arena *a, size_t index, qp_str *out_name) QP_MUST_USE;

/* The graph of a job from its pages; to be closed after a failure, too. QP_E_NOT_FOUND: it has none; QP_E_CORRUPT. */
int kept_open(struct result_graph *g, struct store *s, const struct job_row *job,
              struct qp_err *err) QP_MUST_USE;

#endif

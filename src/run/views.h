/* views.h - what people see of a graph's job beside its rows: its state as digits, its data, its activities nested
 *
 * Reads ask for it by struct query (graph_view, with the handle as its context), in the snapshot of the read. A version
 * that cannot be had any more takes nothing from what the rows say: then nothing is added.
 */
#ifndef QP_RUN_VIEWS_H
#define QP_RUN_VIEWS_H

#include "kernel/query.h"
#include "run/handle.h"

extern const struct query_view graph_view;

/* The job's data and its activities nested, as members of a JSON object that is begun: `,"data":{..},"tree":{..}`. False in
 * *out_is_graph: it is no graph's, and nothing is written. */
int views_export(qp *q, struct store *s, int64_t ns, qp_str id, struct buf *out, bool *out_is_graph,
                 struct qp_err *err) QP_MUST_USE;

#endif

/* nest.h - the activities of a graph's job as they stand in each other: for people who want all of a job
 *
 * Each is in the one that dominates it (graph.h), in the plane in which that one ran: what a round of a cycle began is in
 * that round. Ledgers stand there as digits and in words, and so do those of the GUIDs.
 */
#ifndef QP_GRAPH_NEST_H
#define QP_GRAPH_NEST_H

#include "graph/view.h"

/* Generations that are nested: JSON that is deeper than sixty-four levels is read by few. */
#define NEST_DEPTH 24

/* As one JSON object, the trigger; null when the job has none yet:
 *
 *   {"activity","type","address","plane","digit","status","ledger","says","code","entered_at",
 *    "guids":[{"guid","plane","ledger","says","code","at","children","delta"}],"children":[...]}
 *
 * `plane` says in which plane of the one around it an activity stands. Where NEST_DEPTH cuts, "deeper" is true in place of
 * the children. All of it is in the arena until it is written. */
int nest_write(struct arena *a, struct store *s, const struct graph *g, const struct job_row *job,
               struct buf *out, struct qp_err *err) QP_MUST_USE;

#endif

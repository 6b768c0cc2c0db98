/* fork.h - the fork of a graph's job: what has finished there keeps its results here
 *
 * The new job goes through its graph like any other, from the trigger on, and every digit of it is its own. But an
 * activity whose run in the job that it was made from has finished is KEPT: instead of asking a worker, starting a job, waiting
 * or sending a signal, it is answered with what it was answered there, in the same order, at once. Triggers, joins,
 * passthroughs and cycles have no effect outside and are computed again.
 *
 *   retry     everything that has finished is kept, but for the activity whose error ended the job and what came after it
 *   fork at   everything that has finished is kept, but for that activity and what comes after it
 *
 * "After it" is: where a way leads from it in the graph, and was entered later. An activity that was still open runs again.
 *
 *   I1  what is kept is decided when the job begins, and counted in the job's data FORK_DATA; the count falls with each one
 *       that is taken over, and the data goes with the last
 *   I2  whether an activity is kept stands on its row from its birth (act_row.kind is ACT_KEPT): no later step asks again
 *
 * If we crash before the commit in which an activity is entered, it is entered again, and kept again; if after it, its
 * answers are in the commit or on their way as messages. If the other job was deleted before all was taken over, the activity
 * gets an error of code 410: it is not run, since it may have run before.
 */
#ifndef QP_GRAPH_FORK_H
#define QP_GRAPH_FORK_H

#include "graph/action.h"
#include "kernel/face.h"

#define FORK_DATA QP_STR("quipu:fork")

/* face.fork. */
int fork_begin(struct library *l, struct turn *t, const struct fork *fork,
               struct qp_err *err) QP_MUST_USE;

/* When an activity of a fork is described: it is kept, and `row` says so. */
int fork_describe(struct action *s, struct op_act_create *row) QP_MUST_USE;
/* Leg1 of a kept activity of category A: its answers. */
int fork_enter(struct action *s) QP_MUST_USE;
/* Step 1 of a kept activity of category B: what it brought. */
int fork_work(struct action *s, struct work *work) QP_MUST_USE;

#endif

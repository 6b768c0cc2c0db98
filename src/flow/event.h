/* event.h - how an event of a flow moves: what it waits for, what its answer keeps (ADR 45, Events)
 *
 *   activity   a task of its name           signals   a listen: hooks of the job's names
 *   sleep      a timer, and with names a listen beside it: the first of the two wins; signals make the event at `got`
 *   child      another job, which is called in Leg1; a detached one is answered with its id at once
 *   the rest   complete in Leg1
 *
 * The functions of a program, for turns that stand at an event.
 */
#ifndef QP_FLOW_EVENT_H
#define QP_FLOW_EVENT_H

#include "flow/decision.h"
#include "kernel/program.h"

/* act_row.category: 'A' waits for an answer, 'B' is complete when its row stands. */
int64_t event_category(enum flow_op op);

int event_enter(struct turn *t) QP_MUST_USE;
int event_yields(struct turn *t, bool *out_yields) QP_MUST_USE;
int event_work(struct turn *t, struct work *work) QP_MUST_USE;
int event_spawn(struct turn *t, struct spawn *spawn) QP_MUST_USE;

#endif

/* copy_plan.h - which events of a flow the job takes over that is made from it, and in which order (see copy.h)
 *
 * Reads rows of the other job in the deciding commit; everything lives in the turn's arena.
 */
#ifndef QP_FLOW_COPY_PLAN_H
#define QP_FLOW_COPY_PLAN_H

#include "kernel/face.h"

/* One thing to be done: the mark of copy.h and the event's address. */
struct plan_step {
    int64_t order; /* among the journal entries of the other job, two to an entry */
    char mark;
    qp_str addr;
};

struct plan {
    struct plan_step *steps; /* by `order` */
    size_t count;
};

/* QP_E_NOT_FOUND: no event stands at the place; QP_E_INVALID: it is no place; QP_E_CONFLICT: there is nothing to retry. */
int plan_make(struct turn *t, const struct fork *fork, struct plan *out_plan,
              struct qp_err *err) QP_MUST_USE;

#endif

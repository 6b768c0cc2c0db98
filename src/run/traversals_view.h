/* traversals_view.h - a traversal in one snapshot: what reads it, in run (traversals.c, traversals_fetch.c)
 *
 * One view, one thread. What is read lives in the arena, which goes when traversal_view returns.
 */
#ifndef QP_RUN_TRAVERSALS_VIEW_H
#define QP_RUN_TRAVERSALS_VIEW_H

#include "carto/plan.h"
#include "carto/result.h"

struct viewing {
    qp *q;
    int64_t ns;
    qp_str id;
    int64_t number; /* of the job; 0: by its id */
    struct arena arena;
    struct store *store;
    const struct job_row *job;
    struct result_state state;
    void *context;
    int (*body)(struct viewing *v, struct qp_err *err);
};

/* Calls `body` with all of it. QP_E_NOT_FOUND: no such job, or it is no traversal. */
int traversal_view(struct viewing *v, struct qp_err *err) QP_MUST_USE;

/* QP_E_BUSY, with why: the traversal has no result, or none yet. */
int traversal_has_result(const struct viewing *v, struct qp_err *err) QP_MUST_USE;

/* Inside of `body`: another one in the same namespace and snapshot. */
int traversal_view_beside(const struct viewing *v, struct viewing *other,
                          struct qp_err *err) QP_MUST_USE;

/* Inside of `body`: the request with the facts and pins of its job, and what an activity was born with. */
int traversal_plan(struct viewing *v, struct carto_plan *plan, struct qp_err *err) QP_MUST_USE;
int traversal_input(struct viewing *v, qp_str addr, qp_str *out_input,
                    struct qp_err *err) QP_MUST_USE;

/* The format that the request has brought; NULL: none. */
int traversal_format(struct viewing *v, const struct format_own **out_own,
                     struct qp_err *err) QP_MUST_USE;

#endif

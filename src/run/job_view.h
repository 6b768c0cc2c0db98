/* job_view.h - a view of a job in one consistent read: its properties, or one that only its kind has (kernel/face.h, view) */
#ifndef QP_RUN_JOB_VIEW_H
#define QP_RUN_JOB_VIEW_H

#include "base/json.h"
#include "run/handle.h"

/* The view that every job has: {} when it has no properties. */
#define JOB_PROPERTIES "properties"

struct job_view {
    qp_str ns; /* none: the handle's */
    qp_str id;
    const char *name; /* "decisions", JOB_PROPERTIES */
};

/* One JSON value. QP_E_NOT_FOUND: there is no such job, or its kind has no such view. */
int job_view(qp *q, const struct job_view *view, struct json_writer *w,
             struct qp_err *err) QP_MUST_USE;

#endif

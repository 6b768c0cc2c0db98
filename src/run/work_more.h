/* work_more.h - what a worker elsewhere gets with a task beside its input, by the kind of its job */
#ifndef QP_RUN_WORK_MORE_H
#define QP_RUN_WORK_MORE_H

#include "run/work.h"

/* What the task's kind gives a worker beside the input (face.h, task), as members of a JSON object that is begun. From
 * any thread that may wait: it reads the store. */
int work_more(qp *q, const struct work_task *task, struct json_writer *w,
              struct qp_err *err) QP_MUST_USE;

/* A part of what `work_more` writes, as members of an object that is begun (face.log). QP_E_NOT_FOUND: there is no such job,
 * its kind has none, or `may` says no; QP_E_INVALID: no such cursor. */
struct work_log {
    qp_str ns;
    qp_str id;
    qp_str cursor; /* none: from the beginning */
    void *context;
    bool (*may)(void *context, qp_str workflow);
};
int work_log(qp *q, const struct work_log *log, struct json_writer *w,
             struct qp_err *err) QP_MUST_USE;

#endif

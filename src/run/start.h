/* start.h - a start whose JSON was checked by its caller, and starts with the output of a task
 *
 * The server checks a whole request once, at the border, and hands its parts on. The caller owns the struct; its texts are
 * copied. From any thread.
 */
#ifndef QP_RUN_START_H
#define QP_RUN_START_H

#include "base/json.h"
#include "run/task.h"

/* As qp_job_start_async. JSON_CHECKED: the input, and the payload of the start's signal, were checked with the limits of
 * limits.h, alone or as parts of a text. How large they may be is checked here in any case. */
int start_async(qp *q, const struct qp_start *start, enum json_trust trust,
                struct qp_err *err) QP_MUST_USE;

/* The jobs that commit with a task's output. On the driver: they go with the result; and it was committed. */
int task_starts_fill(qp_task *task, struct request_result *result, struct qp_err *err) QP_MUST_USE;
void task_starts_done(const qp_task *task);
void task_starts_free(qp_task *task);

#endif

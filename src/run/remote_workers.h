/* remote_workers.h - workers elsewhere, and the tasks that they have in hand
 *
 * On the thread that drives.
 */
#ifndef QP_RUN_REMOTE_WORKERS_H
#define QP_RUN_REMOTE_WORKERS_H

#include "run/remote.h"

/* The worker of a call. NULL: no memory, or too many. */
struct remote_worker *remote_worker_of(struct work_poll *s);
/* A task is in the worker's hands. Without memory it is not known here, and only the store knows. */
void hand_add(struct work_poll *s, const struct task *task, const char *token, qp_ms lease_until);
/* It is not any more, if it is still this claim. */
void hand_drop(qp *q, const struct msg_ref *ref);
/* When it was handed out; 0: that is not known here. */
qp_ms hand_since(qp *q, const struct msg_ref *ref);
/* Its lease was renewed. */
void hand_extend(qp *q, const struct msg_ref *ref, qp_ms lease_until);
/* One more result of the task was refused: how many were. Forgotten when one of them counts. */
int64_t refusals_count(qp *q, const struct msg_ref *ref);
void refusals_forget(qp *q, const struct msg_ref *ref);
/* What the worker has in hand goes back. */
void hand_give_back(struct work_poll *s);
/* What is to be told of cancels. QP_E_NOMEM: later. */
void hand_tell_cancels(struct work_poll *s);
/* Until when it is present without another call; INT64_MAX: it has one. */
qp_ms remote_worker_until(const struct remote_worker *r);
/* The worker leaves. */
void remote_worker_leave(struct work_poll *s);
/* Forgets those that are gone; when the next one will be (0: none by itself). */
qp_ms remote_workers_sweep(qp *q, qp_ms now);
void remote_workers_done(qp *q);
/* The job was ended, or (guid not none) one task of it is not needed any more: a worker that has it learns so with its next answer, which comes now if it can. */
void work_cancel(qp *q, struct job_ref job, qp_str guid);

#endif

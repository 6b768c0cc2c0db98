/* tasks.h - tasks in the hands of this process: workers' functions, the pool that runs them, and how results are committed
 *
 *   driver --give--> pool --function returns--> finished --> driver: task_submit -> engine_round
 *
 * A result is committed or refused, never forgotten: when the store is busy or full it is sent again; when the engine
 * refuses what it brought, the refusal is sent as the task's error.
 *
 * On the thread that drives, unless a function says otherwise.
 */
#ifndef QP_RUN_TASKS_H
#define QP_RUN_TASKS_H

#include "run/pool.h"
#include "run/task.h"

struct tasks {
    struct pool pool;
    struct worker *workers;
    struct worker *leaving;   /* workers that are removed */
    atomic_int leaving_count; /* of those, which wait for their functions */
    struct service by_hand;   /* of tasks that were claimed without a worker */
    qp_task *held;            /* all tasks in hand */
    qp_task *unsent;          /* results that a commit has failed for */
    qp_ms renew_at;           /* leases of tasks that wait for a thread; 0: there are none */
    /* functions that have returned, the last one first; any thread adds */
    _Atomic(qp_task *) finished;
};

int tasks_init(qp *q) QP_MUST_USE;
void tasks_done(qp *q);

/* A claimed task is in hand, of a worker or (NULL) of a caller; and not any more. */
qp_task *task_make(qp *q, struct worker *w, struct task *task);
void task_drop(qp_task *task);
void tasks_drop_all(qp *q);
/* It is over, and its worker has room for another. */
void task_end(qp_task *task);
/* A worker that was removed has no task left. */
void worker_forget(struct worker *w);

/* What a round has claimed for a worker: for the pool. The context is the worker. */
void tasks_give(void *worker, struct task *task);
/* Runs what waits, for a while, when there are no threads for it. */
void tasks_run_here(qp *q);

/* From any thread: functions have returned; results that a commit has failed for; anything at all. */
bool tasks_has_results(const qp *q);
bool tasks_has_unsent(const qp *q);
bool tasks_has_any(const qp *q);
/* Results of functions that have returned, and those that are sent again, go to the engine. */
void tasks_submit(qp *q);
/* A result was committed. */
void task_counted(const qp_task *task, const struct request_result *result);
/* What a task says, as a result. */
void task_result_fill(qp_task *task);

/* It was never begun, and goes back as if it had not been claimed; or it was begun, and its next delivery says so. */
enum task_back { TASK_NOT_BEGUN, TASK_BEGUN };
void task_give_back(qp_task *task, enum task_back how);
/* When the engine closes: what was detached goes back; and what a function works on that has not returned in time: its
 * result will be refused. */
void tasks_give_back_detached(qp *q);
void tasks_give_back_running(qp *q);
/* No more tasks for any worker. */
void tasks_end_services(qp *q);

/* Before what has arrived: leases of tasks whose functions have not begun, or just have, are renewed. A task that waits
 * for one of our threads is not silent. */
void tasks_renew(qp *q, qp_ms now);
qp_ms tasks_due(const qp *q);
/* The job was ended, or (guid not none) one task of it is not needed any more: functions that ask are told so. */
void tasks_cancel(qp *q, struct job_ref job, qp_str guid);
/* A lost lease or a time limit of the task was reported: likewise. */
void tasks_lost(qp *q, const struct msg_ref *task);

#endif

/* task.h - one task in the hands of this process: its struct, and what its function says of it
 *
 * A task belongs to one thread at a time (pool.h): the driver, a thread of the pool while its function runs, or the
 * caller that claimed or detached it. Fields that are shared are atomic.
 */
#ifndef QP_RUN_TASK_H
#define QP_RUN_TASK_H

#include <stdatomic.h>

#include "kernel/request.h"
#include "run/host.h"

struct call;
struct start;

/* Serves a topic, all of it the driver's:
 *
 *         qp_worker_add            qp_worker_remove            nothing of it runs      its last task ends
 *   (none) -----------> in workers ---------------> in leaving ------------> REMOVED ------------------> (gone)
 *
 * In `leaving` it gets no more tasks, what has not begun goes back, and its functions return. REMOVED, it is kept for
 * tasks that are detached. */
struct worker {
    struct worker *next;
    int64_t tasks;        /* in hand, those that are detached among them */
    struct call *removal; /* that waits while it leaves; else NULL */
    bool removed;
    qp *q;
    qp_work work;
    qp_flow_function flow; /* of a flow's decisions (flows.c); else NULL */
    void *context;
    struct service service;
    char topic[LIMIT_NAME_SIZE + 1]; /* that of a flow is its name behind an '@' */
};

struct starting;

struct qp_task {
    qp *q;
    qp_task *next;      /* in a queue, or among the finished */
    qp_task *next_held; /* all tasks in hand, owned by the driver */
    qp_task *previous_held;
    struct task *task;
    struct worker *worker; /* NULL: claimed by hand */
    struct request_result result;
    struct request_op back;  /* it was not begun, and the engine closes */
    struct request_op renew; /* its lease, while it waits for a thread */
    bool renewed_last;       /* since its function has begun: the rest is up to heartbeats */
    bool renewing;           /* the engine has `renew`, so the task must stay */
    bool submitted;          /* the engine has its result, or its return */
    bool backing;            /* likewise `back`, while its function runs */
    bool over;               /* it goes when these are answered */
    atomic_bool detached;    /* its function has given it to the caller (qp_task_detach) */
    bool *out_detached;      /* while its function runs: where task_run finds that */
    qp_ms handed_at;
    qp_ms leased_at; /* when it was claimed, or last renewed */
    atomic_bool begun;
    int64_t begun_us; /* monotonic; written before `begun` */
    struct time_limits limits;
    struct buf output;
    struct buf error;
    int code;       /* 0: nothing was said of an error */
    int reply_code; /* of a reply; 0: 200 */
    bool fatal;
    bool refused;       /* the last output was none: the task cannot end well */
    bool reported;      /* the function called qp_task_fail: that wins over what it returns */
    bool failed;        /* the function returned an error */
    const char *parked; /* a word: the job is parked for it, with `error`; NULL: it is not */
    bool converted;     /* what it brought was refused, so the refusal is its result */
    int64_t pending_count;
    struct host_tx host;     /* of qp_task_tx */
    struct starting *starts; /* jobs that commit with its output, in order (start.c) */
    int64_t start_count;
    atomic_bool cancelled;
};

/* What is wrong with a task, as text and code: it does not fail by that alone. Returns QP_E_ABORTED. */
int task_keep_error(qp_task *task, const struct qp_failure *failure);
/* Whether this may be the output of a task. */
int task_output_check(const qp_task *task, qp_str json, struct qp_err *err) QP_MUST_USE;
/* Runs its function. False: it was detached, and may be gone already. */
bool task_run(qp_task *task) QP_MUST_USE;

#endif

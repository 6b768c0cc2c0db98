/* turn_internal.h - what the files behind program.h and turn.h share: turn.c, turn_use.c, turn_begin.c, arrive.c, child_jobs.c, meet.c */
#ifndef QP_KERNEL_TURN_INTERNAL_H
#define QP_KERNEL_TURN_INTERNAL_H

#include "kernel/turn.h"

struct child {
    struct child *next;
    qp_str addr;
    qp_str input;
    const struct op_act_create *born; /* its row, if it waits from its birth; NULL: it is entered */
};

/* An answer that waits until its step stands. */
struct pending_answer {
    struct pending_answer *next;
    struct answer_at at;
    enum message_kind kind; /* when it becomes a message */
};

static inline bool job_is_closed(const struct turn *t)
{
    return t->job->closed_by.p != NULL;
}

/* turn.c: the ledgers as they stand; both they and the job's row, again after what was added was carried out; from what the
 * GUID's ledger says to its end, or one step of it; nothing is left to do. */
int turn_ledgers(struct turn *t) QP_MUST_USE;
int turn_settle(struct turn *t) QP_MUST_USE;
int turn_steps(struct turn *t) QP_MUST_USE;
int turn_late(struct turn *t) QP_MUST_USE;
/* The activity takes nothing more: it was finalized, or given up. */
bool act_is_over(const struct turn *t);
const struct program *kernel_program(const struct kernel *k, int64_t kind);

/* A message of this job to an activity of it. */
int turn_put(struct turn *t, enum message_kind kind, qp_str addr, qp_str guid,
             const struct op_msg_put *more) QP_MUST_USE;

/* One answer more of this step. */
int answer_add(struct turn *t, const struct answer_at *at, enum message_kind kind) QP_MUST_USE;

/* One child more of this step, at an address of its own choice. */
int child_add(struct turn *t, qp_str addr, qp_str input) QP_MUST_USE;

/* The job's row, and the message that begins it, now or later; t is a turn of the new job's trigger. */
int start_by_message(struct turn *t, const struct start *start,
                     const struct op_job_create *job) QP_MUST_USE;

/* arrive.c: the scopes of gates that this step is the first to arrive at, before any child can arrive there
 * too; and the arrivals, after the children: if one of them is the last, the edge must find the gate entered,
 * or its ENTER ahead in the stream. */
int arrivals_open(struct turn *t) QP_MUST_USE;
int arrivals_move(struct turn *t) QP_MUST_USE;

/* The GUID of the edge of a scope that a live arrival has opened; purpose none: the gate's own. */
int scope_guid(struct turn *t, qp_str gate, qp_str purpose, qp_str *out_guid) QP_MUST_USE;

/* level.c: the page that the step has named; `answer` answers an activity in this bundle. */
typedef int (*turn_answer_now)(struct turn *t, const struct answer_at *at);
int level_run(struct turn *t, turn_answer_now answer) QP_MUST_USE;

/* child_jobs.c: the job has ended: the job that awaits it is answered. */
int parent_answer(struct turn *t) QP_MUST_USE;
/* The job ends in this step, and those that it called with it. */
int children_end(struct turn *t) QP_MUST_USE;
/* The job has ended, and those that it called end as their close policies say. */
int children_close(struct turn *t) QP_MUST_USE;

#endif

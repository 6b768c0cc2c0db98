/* agent.h - where the rows of an instance stand: addresses of its activities, names of its data (ADR 51)
 *
 *   trigger,0        D        its input is the start (start.h)
 *   agent,0,0        A, open  the instance: decisions are tasks of it, their results its Leg2 entries
 *   ~a0b12           A, open  the 12th work, of branch 0: a number is a letter for how many digits it has, and the digits
 *
 *   quipu:agent      the head                           quipu:work:a0b12   what became of a work
 *   quipu:branch:a3  a branch                           quipu:wait:b12     a wait that runs, by the number of its work
 *   quipu:chunk:a0   512 executions                     quipu:value:a4     properties, by their key
 *   quipu:action:a7  an action in the buffer, by order
 *
 * Numbers sort as bytes in their order, so a scan gives items in the order of the document. Pure; any thread.
 */
#ifndef QP_AGENT_AGENT_H
#define QP_AGENT_AGENT_H

#include "base/mem.h"

#define AGENT_KIND 4 /* job_row.kind */
#define AGENT_NAME "agent"

#define AGENT_ADDRESS QP_STR("agent,0,0")
#define AGENT_ACTIVITY QP_STR("agent")
#define AGENT_WORK_MARK '~'

/* A task that is a job of its own, and the number of its attempt that runs: data of that job. */
#define AGENT_TASK_ADDRESS QP_STR("task,0,0")
#define AGENT_TASK_ACTIVITY QP_STR("task")
#define AGENT_TASK_ATTEMPT QP_STR("quipu:attempt")

/* Policies (kernel/retry.h). A decision that failed is parked at once. A task is tried again when its worker says so; a lease
 * that is lost gives the same attempt again. */
#define AGENT_POLICY "attempts=1,lost=1000000000,park=1"
#define AGENT_TASK_POLICY "attempts=1,lost=1000000000"

#define AGENT_CHUNK 512 /* executions in one row */

/* Works that one decision may ask for. The closing decision that dispatches them costs most: 7 ops for each, in one commit. */
#define AGENT_WORK_OPS 8
#define AGENT_DECISION_WORKS (LIMIT_BUNDLE_OPS / AGENT_WORK_OPS)

enum agent_row {
    AGENT_HEAD,
    AGENT_BRANCH,
    AGENT_EXECUTIONS,
    AGENT_WORK, /* two numbers: branch and work */
    AGENT_WAIT,
    AGENT_PROPERTY,
    AGENT_ACTION,
    AGENT_ROWS
};

/* What the names of all rows of this sort begin with. */
qp_str agent_prefix(enum agent_row row);
/* The name of one; `second` counts for AGENT_WORK alone. QP_E_NOMEM. */
int agent_row_name(struct arena *arena, enum agent_row row, int64_t first, int64_t second,
                   qp_str *out_name) QP_MUST_USE;
/* Likewise the address of a work; and back. False: it is no address of a work. */
int agent_work_address(struct arena *arena, int64_t branch, int64_t number,
                       qp_str *out_address) QP_MUST_USE;
bool agent_work_of(qp_str address, int64_t *out_branch, int64_t *out_number);

#endif

/* check_kind.h - what the check knows of kinds of jobs
 *
 * Some rules need to know what an obligation and a child are, and that differs between engines. So
 * far it is defined for the jobs of one activity (single.h); each engine adds its own beside it.
 */
#ifndef QP_KERNEL_CHECK_KIND_H
#define QP_KERNEL_CHECK_KIND_H

#include "kernel/check_internal.h"
#include "kernel/single.h"

/* A job of one activity: nothing but the trigger and the worker. */
static inline bool job_is_single(const struct check *c)
{
    EACH_ROW(c, act, act)
    {
        if (act->category != 'D' && !str_equal(act->addr, QP_STR(SINGLE_ADDRESS))) {
            return false;
        }
    }
    return c->job->kind == 0 && c->rows[TABLE_act].count == 2;
}

/* Leg1 is done, and an answer is still to come. */
static inline bool act_is_waiting(const struct act_row *act)
{
    return act->category == 'A' && act->cyclic == 0 && act->escalated == 0 &&
           digit(act->ledger, LEDGER_LEG1_DONE) != 0 && act->ledger / LEDGER_FINAL_DIGIT == 0;
}

#endif

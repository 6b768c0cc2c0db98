/* check_work.h - what a job of the kernel still has to do, by its rows: obligations, children, who waits
 *
 * It follows from the protocol alone (turn.h), so it holds for every program. An obligation is what
 * the semaphore counts; here it is counted anew:
 *
 *   category A, B       1, less what its GUIDs consumed: n - delta each, once they have spawned
 *   a pivot (H14)       as many as it was entered, Leg1 included, less the same; a GUID that was
 *                       folded has consumed 1
 *   category C          1 until Leg1 is done: then its message has the obligation; a self-interrupt
 *                       has a GUID, and counts as A
 *   category D          none: the trigger's children have them
 *   ledger 0            none until the step that enters it: its parent's GUID has not spawned (turn_row)
 *   a message           ENTER of an activity that has no row yet, CYCLE of a GUID that has not
 *                       entered yet: 1
 *
 * An escalated activity is open: nobody did its work. A job that was ended out of its turn leaves
 * obligations and children undone, so nothing is said about it.
 */
#ifndef QP_KERNEL_CHECK_WORK_H
#define QP_KERNEL_CHECK_WORK_H

#include "kernel/check_internal.h"

/* Open, or closed by its own semaphore. */
bool job_took_its_turn(const struct check *c);

int64_t obligations_open(const struct check *c);

/* Its row was made, and the step that enters it is still to come. */
bool act_is_made(const struct check *c, const struct act_row *act);

/* Leg1 is done, and an answer is still to come. */
bool act_is_waiting(const struct act_row *act);

/* Leg1 of a category A is done, and no answer has taken its obligation yet. */
bool act_owes(const struct check *c, const struct act_row *act);

/* The activity at an address; NULL: there is none. */
const struct act_row *check_act(const struct check *c, qp_str addr);
bool has_activity(const struct check *c, qp_str addr);

/* The message is a child that has no row of its own yet. */
bool message_is_child(const struct check *c, const struct msg_row *m);

/* The GUIDs of an activity: from..to of c->rows[TABLE_guid]. */
struct range {
    size_t from;
    size_t to;
};
struct range guids_of(const struct check *c, qp_str addr);

#endif

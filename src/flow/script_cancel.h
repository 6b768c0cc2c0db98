/* script_cancel.h - a cancel in a run of a flow's function, and the compensations of its scopes (see cancel.h)
 *
 * A work that the cancel has ended is answered by it (log_entry.cancelled), so the call that awaits the work throws. The
 * first other await that would have waited then throws it as well: cancel_lands. Either is the landing; the run that
 * has it first says where it was, and from then on the log says it (log_cancel.thrown).
 *
 * A scope is the function's own branch or a round of a loop. Its compensations run in reverse when the function returns
 * QP_E_FAILED or QP_E_CANCELLED out of it, as activities behind the last event of the scope; they are shielded.
 */
#ifndef QP_FLOW_SCRIPT_CANCEL_H
#define QP_FLOW_SCRIPT_CANCEL_H

#include "flow/script_frame.h"

/* Whether an await of this work throws the cancel, which has not ended the work itself. */
bool cancel_lands(const qp_flow *f, const struct work *work);
/* Whether the cancel was thrown at this event; in place of a step that was removed since, it is thrown as well. */
bool cancel_was_at(const qp_flow *f, const struct location *at);
/* An await of a work that the cancel has ended; of any other, at which it is thrown. */
void cancel_met(const qp_flow *f, const struct work *work);
void cancel_land(struct script *s, const struct work *work);

/* Code that was cancelled in the middle of its history, at a step that was inserted there, leaves what stands behind: events
 * from before the cancel that its next steps do not match are passed over, and are no latent history. */
void scope_pass_to(const struct script *s, struct scope *scope, const struct cursor_step *step);
void scope_pass_all(const struct script *s, struct scope *scope);
bool scope_passes(const struct script *s, const struct scope *scope,
                  const struct history_event *event);

#endif

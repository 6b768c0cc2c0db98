/* retry.h - another attempt by hand, for what has failed in an instance: `quipu retry JOB [--work b0/1p0]`
 *
 *   what                                               what a retry does
 *   a decision that failed or was modified             it is issued again, as its next attempt
 *   a work that has failed                             another attempt, whose number goes on; its automatic retries are counted from 0
 *   a task that was delivered too often, any message   it goes back into its stream: the same attempt
 *
 * With a part, of that work alone. A job that is parked is so no more when nothing is left that a person must see to. In the job of a
 * dispatched task, and in one whose instance is still to begin, messages are all that there is.
 */
#ifndef QP_AGENT_RETRY_H
#define QP_AGENT_RETRY_H

#include "base/mem.h"

struct turn;

/* face.retry. QP_E_NOT_FOUND: there is no such work. QP_E_CONFLICT: nothing has failed. */
int agent_retry(void *state, struct turn *t, qp_str part, struct qp_err *err) QP_MUST_USE;

#endif

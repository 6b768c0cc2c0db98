/* instance.h - the turns of one instance: what arrives, what it becomes, when the next decision is triggered
 *
 *   turn                          what it does to the state                                        tries to trigger
 *   instance_start                buffer = [handle], properties(0)                                  yes
 *   instance_event                onEvent, and onSuccess of every running wait for it               yes
 *   instance_report               onStart, onSuccess, onFailure, onTimeout of a work                yes
 *   instance_timers               onSuccess of every wait that ends now or has ended                yes
 *   instance_decided              the draft is applied, the decision is over                        yes, or completes
 *   instance_failed               nothing is applied; the decision is parked                        no
 *   instance_retry                a parked decision and failed works get a new attempt              no
 *   instance_reissue              the decision that is out gets a new attempt (lost, restart)       no
 *   instance_set_mode             run, pause, kill                                                  run: yes
 *
 * A decision is triggered when none is ongoing, the mode is run and the buffer is not empty: the oldest actions, by timestamp
 * and order of the store, become branches and executions (prepare), and the decision is issued.
 *
 *           buffer --prepare--> ongoing --decided--> applied --all ended, buffer empty--> completed
 *                                 | ^
 *                          failed | | retry
 *                                 v |
 *                               parked
 *
 * Time: a turn is never earlier than the last reception or trigger. A turn other than that of a timer first ends the waits
 * whose end lies before it, each at its own time, in order (I20); so an event at the very end of a wait comes first (I11).
 *
 * Each turn is one commit: the rows that `changed`, and what the effects ask for. A crash before that commit leaves the rows
 * of the turn before, and its message comes again; behind it, the duplicate is ignored (I23).
 *
 * All return QP_OK or QP_E_NOMEM, and what else they say; s->ignored tells that nothing changed.
 */
#ifndef QP_AGENT_INSTANCE_H
#define QP_AGENT_INSTANCE_H

#include "agent/draft.h"

void instance_init(struct instance *s, struct arena *arena, qp_str id, qp_str workflow_name);

int instance_start(struct instance *s, int64_t now_ms, qp_str input, qp_str properties) QP_MUST_USE;
/* QP_E_LIMIT: the buffer is full. */
int instance_event(struct instance *s, int64_t now_ms, qp_str name, qp_str input,
                   struct qp_err *err) QP_MUST_USE;

struct instance_report {
    enum hook hook; /* HOOK_START .. HOOK_TIMEOUT */
    int64_t branch_key;
    qp_str position;
    qp_str output;            /* of a success; none: null */
    struct state_error error; /* of a failure */
    bool retries;             /* of a failure: the task is tried again, retry_delay_ms from now */
    int64_t retry_delay_ms;
    /* Which attempt it is of; 0: the one that runs. Reports may overtake each other: what a later one shows of attempts before,
     * and the onStart that was missing, come first (`began`); what is of an attempt that is over is ignored, but for a success. */
    int64_t attempt;
    bool began; /* no attempt ends without an onStart */
};
int instance_report(struct instance *s, int64_t now_ms,
                    const struct instance_report *report) QP_MUST_USE;

int instance_timers(struct instance *s, int64_t now_ms) QP_MUST_USE;

/* The draft is finished. QP_E_CONFLICT: the decision is not, or no longer, the one of this draft. */
int instance_decided(struct instance *s, int64_t now_ms, const struct draft *draft,
                     struct qp_err *err) QP_MUST_USE;
/* QP_E_CONFLICT: no decision is out. */
int instance_failed(struct instance *s, int64_t now_ms, const struct state_error *error,
                    struct qp_err *err) QP_MUST_USE;

/* status NULL: all failed works and a parked decision; else this work alone. */
int instance_retry(struct instance *s, int64_t now_ms, struct status *status) QP_MUST_USE;
int instance_reissue(struct instance *s) QP_MUST_USE;
int instance_set_mode(struct instance *s, int64_t now_ms, enum instance_mode mode) QP_MUST_USE;

#endif

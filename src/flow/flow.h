/* flow.h - how a flow stands in the store: addresses, names of its data, columns (ADR 45)
 *
 * What the program, the log, the rules and the views of flows agree on. Pure; any thread.
 */
#ifndef QP_FLOW_FLOW_H
#define QP_FLOW_FLOW_H

#include "base/json.h"
#include "flow/history.h"
#include "store/rows.h"

#define FLOW_KIND 2 /* job_row.kind */

/* The flow itself: one cyclic activity, whose entries are decisions. */
#define FLOW_ADDRESS QP_STR("flow,0,0")
#define FLOW_ACTIVITY QP_STR("flow")

/* Decisions are tasks of the topic '@' + the flow's name: no topic of users has an '@'. Names of signals are made topics
 * of hooks in the same way. */
#define FLOW_TOPIC_MARK '@' /* ANNOUNCED_MARK of kernel/face.h */
int flow_topic(struct arena *a, qp_str name, qp_str *out_topic) QP_MUST_USE;

/* Data of the job. A loop's is {"iteration":n,"state":..}; once it is broken, with "output", and with
 * "seen", the base of the decision that ended it, and "properties", what its rounds have set. */
#define FLOW_RETURN QP_STR("quipu:return")
#define FLOW_LOOP "quipu:loop:"
/* The name of a loop's data, by the address of its event; and the part of such a name behind FLOW_LOOP, which is the key of
 * its location. */
int flow_loop_name(struct arena *a, qp_str addr, qp_str *out_name) QP_MUST_USE;
bool flow_loop_key(qp_str data_name, qp_str *out_key);

/* The policy of decisions (kernel/retry.h), and the input of flow,0,0: {"seed":"0123456789abcdef"}. */
#define FLOW_POLICY "attempts=10,backoff=1000,factor=2,cap=60000,park=1,deliveries=3"
int flow_input(struct arena *a, uint64_t seed, qp_str *out_input) QP_MUST_USE;
/* 0: the text is no such input. */
uint64_t flow_seed(qp_str input);

/* A member of what a row keeps as a JSON object; none: it has none such, or the object is none. */
qp_str flow_member(qp_str object, const char *name);

/* What a cancel keeps, and the compensations that would run now (cancel.h). */
#define FLOW_CANCEL QP_STR("quipu:cancel")
#define FLOW_DEFERS QP_STR("quipu:defers")
/* The policy of a work that a cancel leaves alone; a work that the cancel of its job ends, unless it was answered before; the
 * error of such a work. */
bool flow_is_shielded(qp_str policy);
bool flow_cancels(const struct job_row *job, const struct act_row *act);
int flow_cancel_error(struct arena *arena, qp_str addr, qp_str *out_error) QP_MUST_USE;

/* The words of close policies: "abandon", "cancel", "kill". */
const char *flow_close_word(enum close_policy close);
/* What the input of a child's event says: {"id":..,"close":"cancel","detached":true,"input":..}; id and detached may be missing. */
struct flow_child {
    qp_str id; /* none: one is made of the event */
    enum close_policy close;
    bool detached;
    qp_str input;
};
int flow_child(const struct qp_env *env, struct arena *arena, qp_str text,
               struct flow_child *out_child) QP_MUST_USE;
/* The purpose of the call that a child's event makes. */
#define FLOW_CALL QP_STR("call")

/* Why a flow whose history is at LIMIT_FLOW_EVENTS or LIMIT_FLOW_SIZE is parked. */
#define FLOW_TOO_LARGE "history_too_large"

/* Whether a row is that of an event: its address is the key of a location. */
static inline bool flow_is_event(qp_str addr)
{
    return addr.n > 0 && addr.p[0] == LOCATION_MARK;
}
/* Complete as soon as its row stands: its value is its input. */
static inline bool flow_is_born_complete(const struct act_row *act)
{
    return act->category == 'B';
}

#endif

/* draft.h - one attempt of a decision, while its script executes branches: nothing of it is applied yet
 *
 *   draft_branch    GET branch: the next execution, from ongoing_index on                 none in hand -> in hand
 *   draft_execute   the script reaches works: scheduled, completed or modified            in hand;  modified -> ended
 *   draft_post      POST branch: the execution ends or is left; the next index            in hand -> none in hand
 *
 * When draft_branch has nothing left, the draft is finished: instance_decided applies it whole. A draft that failed, was
 * modified or is lost with its holder is dropped, and the next attempt begins with an empty one (I12).
 *
 * Properties (I1 to I3): those at the end of index i have key i + 1. `base_index` is the index of the properties that the
 * script was handed last: start_index at the beginning of a branch, the largest completion_index behind completed works that
 * were awaited. Only a script whose base is the index in hand has seen the present, so only then its properties are written.
 *
 * The draft reads the instance, which must not be prepared meanwhile (a decision is ongoing, so it is not), and copies what
 * it keeps into its own arena. One thread at a time.
 */
#ifndef QP_AGENT_DRAFT_H
#define QP_AGENT_DRAFT_H

#include "agent/state.h"

struct draft_work {
    struct status *status;
    int64_t index; /* the execution that asked for it */
};

struct draft_output {
    int64_t branch_key;
    qp_str output;
};

struct draft {
    const struct instance *instance;
    struct arena *arena;
    int64_t ongoing_index; /* with the attempt: what decision this is */
    int64_t attempt;
    int64_t index; /* in hand, or next */
    int64_t base_index;
    bool in_hand;
    bool modified;
    struct status_table statuses; /* of works that are new */
    struct draft_work *works;
    size_t work_count, work_room;
    struct property *properties;
    size_t property_count, property_room;
    struct draft_output *outputs;
    size_t output_count, output_room;
    qp_str
        name; /* the concrete name of the workflow, if the scripts brought one that the instance has not */
};

enum reply_status { REPLY_SCHEDULED, REPLY_COMPLETED, REPLY_MODIFIED };

struct draft_reply {
    enum reply_status status;
    qp_str properties;     /* when completed */
    const qp_str *outputs; /* JSON, one per work */
    size_t output_count;
};

/* A decision is ongoing and not parked. */
void draft_init(struct draft *d, struct arena *arena, const struct instance *instance);
bool draft_is_finished(const struct draft *d);

/* *out_branch is NULL when nothing is left. The same branch again until it is posted. */
int draft_branch(struct draft *d, struct qp_err *err, const struct branch **out_branch,
                 qp_str *out_properties) QP_MUST_USE;
/* The works were read by work_read_all. QP_E_CONFLICT: no branch is in hand. */
int draft_execute(struct draft *d, const struct agent_work *works, size_t count, struct qp_err *err,
                  struct draft_reply *out_reply) QP_MUST_USE;
/* `output` NULL: the branch is left, not ended. QP_E_CONFLICT; QP_E_TOO_LARGE. */
int draft_post(struct draft *d, qp_str properties, const qp_str *output,
               struct qp_err *err) QP_MUST_USE;
/* The script is that of the workflow with this concrete name. The first name that an unnamed instance gets is pinned with the
 * decision; others are passed over. QP_E_SHAPE: it is no name. */
int draft_name(struct draft *d, qp_str name, struct qp_err *err) QP_MUST_USE;
/* The properties that the script was handed last: what a script that changes nothing posts. */
qp_str draft_handed(const struct draft *d);

#endif

/* agents_drafts.h - decisions in the hands of agents: the node that handed one out holds its draft (ADR 65)
 *
 * A decision's uuid is the token of one attempt: a later claim of the same decision has another. What a script says of it goes
 * into a draft, in memory alone, and nothing of it is applied before the agent gets the end of the decision. Who knows
 * a uuid, and where it stands:
 *
 *                 drafts_enter: the instance is read            the end, committed: drafts_leave
 *   HELD_NEW -------------------------------------> HELD_OPEN -----------------------------------> HELD_ENDED  "{}" again
 *      |                                                |  failed, modified, too large, not ours
 *      | LIMIT_DECISION_MS without a call               +------------------------------------------> HELD_OVER   409
 *      +----------------> given back: gone <------------+
 *
 * Two calls for one decision come one after the other: the second is QP_E_BUSY. What has ended is known for
 * LIMIT_DECISION_ENDED_MS, the oldest is forgotten first; a uuid that is good and not known is QP_E_STALE.
 *
 * If we crash, all of this is gone: the run that held the decisions is over, so the next one gives each out again, at once, as
 * another attempt. If we crash behind the commit of an end, the decision is applied, and its uuid is stale.
 *
 * Threads: any. Owner: drafts_open to drafts_close; a struct held is its caller's between drafts_enter and drafts_leave.
 */
#ifndef QP_RUN_AGENTS_DRAFTS_H
#define QP_RUN_AGENTS_DRAFTS_H

#include "agent/draft.h"
#include "run/work.h"

#define DRAFT_UUID_SIZE (WORK_TOKEN_SIZE + 2) /* a letter and a dash before the token */

enum held_stage { HELD_NEW, HELD_OPEN, HELD_ENDED, HELD_OVER };

struct drafts;

struct held {
    struct held *next,
        *previous; /* of those that are idle, the one whose last call is longest ago first */
    struct drafts *of;
    char uuid[DRAFT_UUID_SIZE];
    struct msg_ref ref;
    unsigned char guid[LIMIT_GUID_SIZE];
    enum held_stage stage;
    bool busy; /* a call has it */
    int64_t touched_us;
    struct arena arena; /* of what follows, while it is open */
    struct instance instance;
    struct draft draft;
};

/* The key is that of the caller that is given the tasks (work.h); it is copied. */
int drafts_open(qp *q, const struct work_caller *caller, struct drafts **out_drafts,
                struct qp_err *err) QP_MUST_USE;
/* No call has any. */
void drafts_close(struct drafts *d);
/* Gives back what no call came for. */
void drafts_tidy(struct drafts *d);

/* The uuid of a task: of a decision it begins in another way, so that neither is taken for the other. */
void drafts_uuid(const struct work_task *task, char out_uuid[DRAFT_UUID_SIZE]);
bool drafts_is_decision(const struct work_task *task);
/* The token in the uuid of a task, and what it says. False: there is none. */
bool drafts_task(const struct drafts *d, qp_str uuid, qp_str *out_token, struct msg_ref *out_ref,
                 unsigned char out_guid[LIMIT_GUID_SIZE]) QP_MUST_USE;

/* A decision is being handed out. QP_E_LIMIT: too many are. drafts_drop: it was not told. */
int drafts_hold(struct drafts *d, const struct work_task *task) QP_MUST_USE;
void drafts_drop(struct drafts *d, const struct work_task *task);

/* For one call. QP_E_NOT_FOUND: no such uuid was ever given out; QP_E_STALE: it is not, or no longer, ours; QP_E_BUSY; or what the
 * store says. QP_E_DONE: it has ended, and is applied. May read the store. */
int drafts_enter(struct drafts *d, qp_str uuid, struct held **out_held,
                 struct qp_err *err) QP_MUST_USE;
void drafts_leave(struct held *held, enum held_stage stage);

/* Whether what the scripts have said is more than one commit takes. */
bool drafts_is_too_large(const struct held *held);
/* The result of a decision (agent/face.h, told), in the arena: what its draft came to. QP_E_TOO_LARGE. */
int drafts_decided(const struct held *held, struct arena *arena, qp_str *out_told) QP_MUST_USE;
/* Without waiting for it: the decision is parked for its size. */
void drafts_park_large(struct held *held);
qp_str drafts_told_large(void);

#endif

/* acting.h - one turn of an instance inside a turn of the kernel: its window, what it saves, what it puts
 *
 *   acting_load -> a turn of instance.h on a->s -> acting_save -> acting_settle
 *
 * acting_save writes the rows. acting_settle, in the same commit or in step 2 of the same GUID, puts the task of a decision that
 * is due and says whether the instance waits. What stands between the two is a decision that is ongoing, so no other turn
 * prepares one; the first turn that settles puts it, and the head says that it is due no more.
 *
 * Also the state of the kind: in a trace the test says what time it is, and is the worker of all works (agents_lead).
 */
#ifndef QP_AGENT_ACTING_H
#define QP_AGENT_ACTING_H

#include "agent/instance.h"
#include "agent/stored.h"
#include "kernel/program.h"

struct agents {
    struct qp_env env;
    const int64_t *lead_ms; /* NULL: instances live by the store's clock */
    qp_ms lease_ms;         /* of a task at a worker elsewhere, at least (attempt_lease) */
};

struct acting {
    struct turn *t;
    struct row_source source;
    struct instance s;
    struct stored stored;
};

/* Entries of the journal, behind KERNEL_EVENTS. They stand in rows of every store, so they keep their numbers. */
enum agent_event {
    AGENT_EVENT_CAME,
    AGENT_REPORTED,
    AGENT_RETRIED,
    AGENT_STARTED,    /* an attempt of a work was claimed, or its child started */
    AGENT_LATE,       /* it has not ended within its time */
    AGENT_AGAIN_LATER /* that of a dispatched task has failed, and another one comes */
};

/* The answer to a work that gives it another attempt. */
#define AGENT_AGAIN 299

int64_t acting_now(const struct turn *t);
bool acting_is_led(const struct turn *t);
/* Of a job that is open: the mode is the job's, and no row of the instance has it. */
enum instance_mode acting_mode(const struct job_row *job);

/* What the job began with. */
struct agent_start;
int acting_start(struct turn *t, struct agent_start *out_start) QP_MUST_USE;

/* QP_E_NOT_FOUND: the instance has not begun. */
int acting_load(struct acting *a, struct turn *t, unsigned windows) QP_MUST_USE;
/* One that begins. */
int acting_begin(struct acting *a, struct turn *t) QP_MUST_USE;
/* The work at an address; NULL: none. */
int acting_work(struct acting *a, qp_str address, struct status **out_status) QP_MUST_USE;
int acting_save(struct acting *a) QP_MUST_USE;
/* *out_waits (may be NULL): the caller says it of the instance, whose decision this turn is. */
int acting_settle(struct acting *a, bool *out_waits) QP_MUST_USE;

/* What a command leaves: an entry of the journal, and both of the above. `name` may be none. */
int acting_note(struct turn *t, enum agent_event event, qp_str name) QP_MUST_USE;
int acting_conclude(struct acting *a, enum agent_event event, qp_str name) QP_MUST_USE;

/* Reads between commits, for drafts and people; `sight` outlives it. */
struct sight;
struct row_source acting_sight(const struct sight *sight);

#endif

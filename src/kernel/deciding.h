/* deciding.h - jobs that a script decides: what flows and instances of agent workflows share
 *
 * Such a job has one activity, CYCLIC_OPEN, which stands for the script. A decision is a task of it, and its result a Leg2 entry: the
 * entries of the activity are decisions and nothing else, so entry k is decision k. At most one is out.
 *
 *            turn_decision                     claim                  result: step 1 applies it, step 2 enters what it has made
 *     at rest ------------> task in its stream -----> with a worker --------------------------------------------------> at rest
 *                                 ^                        |  failed: a dead letter, and the job is parked
 *                                 +---- retry by hand -----+
 *
 *   what the script made     rows of activities with ledger 0, by step 1; the text that step 1 keeps names them (deciding_made)
 *   what it waits for        timers of those activities (turn_timer_at), signals and events, which its kind keeps
 *   what it shows            properties.h
 *
 * If we crash between step 1 and step 2, no decision is out and the answer is still in the stream: its step 2 goes by what step 1
 * has kept. A decision that another activity's answer made due is put by the step 2 of that answer.
 */
#ifndef QP_KERNEL_DECIDING_H
#define QP_KERNEL_DECIDING_H

#include "base/json.h"
#include "kernel/program.h"

struct sight;

/* The next decision of an activity: a task on the topic of its row. The first is put by its Leg1; others by the kernel
 * (spawn.notify) or by the program. At most one is out. */
int turn_decision(struct turn *t, qp_str addr) QP_MUST_USE;
/* The GUID of that task: it follows from the job and the number of the activity's Leg2 entries so far. */
void deciding_guid(const struct job_row *job, const struct act_row *act,
                   unsigned char out_guid[LIMIT_GUID_SIZE]);

/* A timer of this activity that fires then, at once if that is over. */
int turn_timer_at(struct turn *t, qp_str purpose, qp_ms at_ms) QP_MUST_USE;

/* What step 1 has made and step 2 enters: an array of addresses, item by item; `count` of them are there already. */
void deciding_put_made(struct buf *out, size_t count, qp_str addr);
bool deciding_made(struct raw_walk *made, qp_str *out_addr);

/* What there is of a decision of the activity at `addr`, for checks. */
struct deciding_seen {
    bool has_task;   /* for a worker, or with one */
    bool is_dead;    /* a dead letter: a person must help */
    bool has_answer; /* in the stream */
    bool is_applied; /* that answer's step 1 is done */
    bool is_due;     /* an entry of any activity whose step 2 is still to come may put one */
};
int deciding_see(const struct sight *sight, qp_str addr,
                 struct deciding_seen *out_seen) QP_MUST_USE;

#endif

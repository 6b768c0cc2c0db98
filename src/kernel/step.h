/* step.h - the steps of the ledger protocol, each as the ops that commit it
 *
 * A step is a durable change and the digit that proves it. Every function here adds the ops of one
 * step to a bundle; what a bundle holds commits whole or not at all. Steps may be committed one by
 * one, or several in one bundle (fused): the digits end the same, and a store that is found between
 * any two resumes by step_next.
 *
 *   category A   leg1_enter, leg1_done ...    then per message  leg2_enter, step_work, step_spawn,
 *                                             and, if it closed the job, step_complete
 *   category B   leg1_enter, guid_seed, leg1_work, step_spawn, step_complete: as A, but in Leg1
 *   category C   leg1_enter, leg1_done (a cycle also seeds the first Leg2 entry); a self-interrupt
 *                closes through guid_seed, leg1_work and step_spawn, so that somebody owns the edge (H9)
 *   category D   job_incept, step_open, step_complete: the trigger
 *
 * All digits are compare-and-set (H1, H6, H7): a step that is marked already stops its bundle with
 * QP_E_DONE or QP_E_DIGIT, and the message goes on with what its ledger says.
 *
 * Slices live until the bundle's commit is done. Functions return QP_OK, or QP_E_NOMEM / QP_E_LIMIT when
 * the bundle could not be filled (the commit then cannot be submitted).
 */
#ifndef QP_KERNEL_STEP_H
#define QP_KERNEL_STEP_H

#include "kernel/ledger.h"

/* Where a step happens: an activity instance of a job, and the message that drives it. */
struct site {
    struct job_ref ref;
    qp_str addr;
    qp_str guid;
    bool never_final; /* a cycle, which takes further entries, or a trigger */
    qp_ms at;         /* of a copy: when it came; 0: now */
};

/* The ceilings of the document. A test may lower them. */
struct ceilings {
    int64_t leg1;
    int64_t leg2;
};
#define CEILINGS_DEFAULT ((struct ceilings){LIMIT_LEG1_ENTRIES, LIMIT_LEG2_ENTRIES})

/* What a GUID's ledger says is still to be done, in this order; ACK: nothing. */
enum step { STEP_WORK, STEP_SPAWN, STEP_COMPLETE, STEP_ACK };
enum step step_next(int64_t guid_ledger);

/* The plane of an entry: ordinal - 1, and 0 for the ordinal 0 of Leg1 GUIDs (H8). */
int64_t step_dimension(int64_t guid_ledger);

/* Whether `a` came after `b`, two GUIDs of one activity: by their ordinals; those of Leg1 and of the trigger, which
 * have none, by their journal entries, and one that has no entry yet is the last. */
bool guid_is_later(const struct guid_row *a, const struct guid_row *b);

/* An op at the end of a bundle; a GUID that follows from another one and a purpose (H5). */
int step_op(struct bundle *b, const struct op *op) QP_MUST_USE;
int step_guid(struct bundle *b, qp_str from, qp_str purpose, qp_str *out_guid) QP_MUST_USE;

/* ---------------------------------------------------------------------------------------- trigger */

/* Inception (H3): the job, owned by its GUID; the trigger's activity with the job's input; 10B. */
struct incept {
    struct op_job_create job; /* owner_guid is the site's GUID */
    qp_str addr;
    qp_str input;
    qp_str policy;
};
int job_incept(struct bundle *b, const struct incept *incept) QP_MUST_USE;
/* The same for a job that is there: its trigger and 10B. */
int job_trigger(struct bundle *b, const struct incept *incept) QP_MUST_USE;

/* Step 2 of the trigger: the semaphore opens at n, 1B; with n = 0 this is the edge (H10). */
int step_open(struct bundle *b, const struct site *site, int64_t n) QP_MUST_USE;

/* ------------------------------------------------------------------------------------------- Leg1 */

/* +1T, the entry that is counted in a commit of its own. `known` says whether the activity's row
 * is there; `row` is what it is made of when it is not. At the ceiling: QP_E_CEILING, escalate. */
int leg1_enter(struct bundle *b, const struct site *site, const struct op_act_create *row,
               bool known, struct ceilings ceilings) QP_MUST_USE;

/* +100B with the work of Leg1; `preseed` adds the first Leg2 entry (cycle and pivot, H14). */
int leg1_done(struct bundle *b, const struct site *site, bool preseed) QP_MUST_USE;

/* The terminal other way: the activity is escalated, if Leg1 is not done (H7). */
int leg1_escalate(struct bundle *b, const struct site *site, qp_str error) QP_MUST_USE;

/* Categories B and C: the GUID with ordinal 0, and step A: 10B on it and 100B on the activity. */
int guid_seed(struct bundle *b, const struct site *site) QP_MUST_USE;
int leg1_work(struct bundle *b, const struct site *site, int64_t code, qp_str output,
              bool preseed) QP_MUST_USE;

/* ------------------------------------------------------------------------------------------- Leg2 */

/* +1 on the activity and the GUID with that ordinal, once per GUID (H8). Refused when Leg1 is not done
 * or the activity is finalized. */
int leg2_enter(struct bundle *b, const struct site *site, struct ceilings ceilings) QP_MUST_USE;

/* Step 1: the output and 10B. */
int step_work(struct bundle *b, const struct site *site, int64_t code, qp_str output) QP_MUST_USE;

/* Step 2: the compound primitive. delta is n - 1 as a rule; a pending reply gives n and does not
 * finalize. The children are the caller's ops of the same bundle. */
struct spawn {
    int64_t n;
    int64_t delta;
    bool given; /* delta is what it says, not what follows from n */
    bool pending;
    bool ends; /* this GUID ends the job out of its turn: step 3 finalizes, not step 2 (H4) */
    struct op_act_notify
        notify; /* addr none: no notification; its ref and out_task are not the caller's */
    enum job_state close_state;
};
int step_spawn(struct bundle *b, const struct site *site, const struct spawn *spawn) QP_MUST_USE;

/* Step 3, for the GUID that closed the job: completion effects, 100M, and the activity's end. */
struct complete {
    qp_str output;
    int64_t keep_ms;
    bool clean; /* a job that ends in its turn has no timer, hook or key left */
};
int step_complete(struct bundle *b, const struct site *site,
                  const struct complete *complete) QP_MUST_USE;

/* The end of a job out of its turn: failure, interrupt, cancellation, expiry (H9). The GUID becomes the
 * owner of the edge (100B); its step_complete follows. */
int job_end(struct bundle *b, const struct site *site, enum job_state state,
            qp_str error) QP_MUST_USE;

#endif

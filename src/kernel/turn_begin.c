/* turn_begin.c - how a job begins, and how it is ended from outside (see turn.h)
 *
 * A start is known by its id and by the hash of what is to be done: who asks again is answered as before, or,
 * where the first one stopped half-way, goes on with it (H3). One that begins later has its row and a START message,
 * and its trigger when that is delivered.
 *
 * If we crash before the commit of a start there is no job; after it, its trigger's ledger says how far it came.
 */
#include "kernel/face.h"
#include "kernel/turn_internal.h"

/* Where the policy of a job that begins later waits for its trigger. */
#define POLICY_DATA QP_STR("quipu:policy")

/* The trigger of a job that has none yet: what is left of its inception. */
static int trigger_make(struct turn *t, qp_str input)
{
    struct incept incept = {.job = {.ref = t->site.ref, .owner_guid = t->job->owner_guid},
                            .addr = TRIGGER_ADDRESS,
                            .input = input};
    const struct data_row *policy = NULL;
    int rc = turn_data(t, POLICY_DATA, &policy);
    incept.policy = policy == NULL ? QP_NONE : policy->value;
    rc = rc == QP_OK ? job_trigger(t->bundle, &incept) : rc;
    return rc == QP_OK ? turn_settle(t) : rc;
}

/* Somebody ended the job before it was opened: its own first step is not to be done any more. */
static bool ended_unopened(const struct turn *t)
{
    return job_is_closed(t) && t->job->opened == 0;
}

int turn_begin(struct turn *t)
{
    int rc = turn_ledgers(t);
    if (rc != QP_OK) {
        return rc;
    }
    if (ended_unopened(t) || !str_equal(t->site.guid, t->job->owner_guid)) {
        return turn_late(t);
    }
    if (!t->has_guid) {
        rc = trigger_make(t, t->payload);
        if (rc != QP_OK || t->stepwise) {
            t->outcome->more = rc == QP_OK;
            return rc;
        }
    }
    return rc == QP_OK ? turn_steps(t) : rc;
}

/* Ended before its START was delivered, or although that could not be: the end needs a trigger to stand
 * at. What is left of the message goes with the sweep. */
static int trigger_of_unbegun(struct turn *t)
{
    struct msg_row key = {.ns = t->site.ref.ns, .job = t->site.ref.job, .guid = t->job->owner_guid};
    const void *row = NULL;
    int rc = bundle_get(t->bundle, TABLE_msg, &key, &row);
    const struct msg_row *start = row;
    return rc == QP_OK ? trigger_make(t, start == NULL || start->state == MSG_DEAD ? QP_NONE
                                                                                   : start->payload)
                       : rc;
}

int turn_end_job(struct turn *t, enum job_state state, qp_str error, bool descend)
{
    int rc = turn_ledgers(t);
    if (rc == QP_OK && !t->has_guid) {
        if (job_is_closed(t)) {
            return turn_late(t);
        }
        rc = t->act == NULL ? trigger_of_unbegun(t) : QP_OK;
        rc = rc == QP_OK ? guid_seed(t->bundle, &t->site) : rc;
        rc = rc == QP_OK ? step_work(t->bundle, &t->site, 0, QP_NONE) : rc;
        rc = rc == QP_OK ? turn_settle(t) : rc;
    }
    turn_fail(t, state, error);
    t->descends = descend;
    return rc == QP_OK ? turn_steps(t) : rc;
}

int turn_cancel_job(struct turn *t, qp_str error, bool descend)
{
    struct faces *faces = t->kernel->faces;
    const struct faced *of = faces == NULL ? NULL : faces_of(faces, t->job->kind);
    bool ends = true;
    QP_TRY(turn_ledgers(t));
    if (of != NULL && of->face->cancel != NULL && !t->has_guid && !job_is_closed(t)) {
        QP_TRY(of->face->cancel(of->state, t, &error, &ends));
        QP_TRY(bundle_run(t->bundle));
        QP_TRY(turn_answers(t));
    }
    return ends ? turn_end_job(t, JOB_CANCELLED, error, descend) : QP_OK;
}

/* The job of an id, when there is one. */
static int find_job(struct turn *t, qp_str jid)
{
    const void *row = NULL;
    int rc = bundle_get(t->bundle, TABLE_job_name,
                        &(struct job_name_row){.ns = t->site.ref.ns, .jid = jid}, &row);
    if (rc == QP_OK && row != NULL) {
        t->site.ref.job = ((const struct job_name_row *)row)->job;
        rc = turn_job(t);
    }
    return rc;
}

/* The id is taken: by another start, or by this one, which may have stopped half-way (H3). */
static int start_again(struct turn *t, const struct start *start, qp_str body_hash)
{
    int rc = turn_ledgers(t);
    if (rc != QP_OK) {
        return rc;
    }
    if (!str_equal(t->job->body_hash, body_hash)) {
        return QP_E_CONFLICT;
    }
    if (start->by_message) {
        return QP_E_EXISTS; /* what is left of it is its own affair */
    }
    if (!t->has_guid || ended_unopened(t) || step_next(t->guid.ledger) == STEP_ACK) {
        return QP_E_EXISTS;
    }
    t->program = kernel_program(t->kernel, t->job->kind);
    return t->program == NULL ? QP_E_UNSUPPORTED : turn_steps(t);
}

int start_by_message(struct turn *t, const struct start *start, const struct op_job_create *job)
{
    struct op create = {.kind = OP_job_create, .job_create = *job};
    struct op begin = {.kind = OP_msg_put,
                       .msg_put = {.ref = t->site.ref,
                                   .guid = t->site.guid,
                                   .kind = MESSAGE_START,
                                   .topic = ENGINE_TOPIC,
                                   .addr = t->site.addr,
                                   .payload = start->input,
                                   .priority = job->priority,
                                   .delay_ms = start->delay_ms}};
    int rc;
    create.job_create.later = start->delay_ms > 0;
    rc = turn_op(t, &create);
    rc = rc == QP_OK ? turn_op(t, &begin) : rc;
    rc = rc == QP_OK && !str_is_none(start->policy) ? turn_data_put(t, POLICY_DATA, start->policy)
                                                    : rc;
    return rc == QP_OK ? bundle_run(t->bundle) : rc;
}

/* As a pause that comes before anything else: what begins the job is set aside. */
static int pause_unbegun(struct turn *t, int64_t kind)
{
    struct faces *faces = t->kernel->faces;
    const struct faced *of = faces == NULL ? NULL : faces_of(faces, kind);
    struct op pause = {
        .kind = OP_job_pause,
        .job_pause = {.ref = t->site.ref, .tasks = of != NULL && of->face->resume != NULL}};
    QP_TRY(turn_op(t, &pause));
    return bundle_run(t->bundle);
}

static int start_new(struct turn *t, const struct start *start, qp_str body_hash)
{
    struct incept incept = {
        .job = start->job, .addr = t->site.addr, .input = start->input, .policy = start->policy};
    int rc;
    incept.job.owner_guid = t->site.guid;
    incept.job.body_hash = body_hash;
    incept.job.fresh = start->fresh;
    t->site.ref = start->job.ref;
    t->program = kernel_program(t->kernel, start->job.kind);
    if (t->program == NULL) {
        return QP_E_UNSUPPORTED;
    }
    if (start->delay_ms > 0 || start->by_message || start->pending) {
        QP_TRY(start_by_message(t, start, &incept.job));
        return start->pending ? pause_unbegun(t, start->job.kind) : QP_OK;
    }
    rc = job_incept(t->bundle, &incept);
    if (rc == QP_OK && !str_is_none(start->job.forked_from)) {
        rc = turn_note(t, EVENT_FORKED, &(struct event_facts){.job = start->job.forked_from});
    }
    QP_TRY(rc);
    QP_TRY(turn_settle(t));
    if (start->incepted != NULL) {
        QP_TRY(start->incepted(start->context, t));
        QP_TRY(bundle_run(t->bundle));
        QP_TRY(turn_answers(t));
    }
    if (t->stepwise) {
        t->outcome->more = true;
        return QP_OK;
    }
    return turn_steps(t);
}

int start_hash(struct bundle *b, const struct start *start, qp_str *out_hash)
{
    QP_TRY(step_guid(b, start->job.workflow, start->input, out_hash));
    return str_is_none(start->salt) ? QP_OK : step_guid(b, *out_hash, start->salt, out_hash);
}

int turn_start(struct turn *t, struct kernel *k, struct bundle *b, struct outcome *outcome,
               const struct start *start)
{
    qp_str body_hash;
    *t = (struct turn){.kernel = k,
                       .bundle = b,
                       .outcome = outcome,
                       .stepwise = t->stepwise,
                       .site = {.ref = {start->job.ref.ns, 0}, .addr = TRIGGER_ADDRESS},
                       .at = address_split(TRIGGER_ADDRESS)};
    QP_TRY(start_hash(b, start, &body_hash));
    QP_TRY(step_guid(b, start->job.jid, body_hash, &t->site.guid));
    if (!start->fresh) {
        QP_TRY(find_job(t, start->job.jid));
    }
    return t->job != NULL ? start_again(t, start, body_hash) : start_new(t, start, body_hash);
}

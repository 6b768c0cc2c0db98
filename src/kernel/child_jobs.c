/* child_jobs.c - jobs that call other jobs: the call, its answer, and ends that include the called jobs (see program.h)
 *
 *   I1  a call's job and the digit that proves the call are one commit: the job that is awaited exists
 *   I2  the GUID of the answer follows from the call, and stands on the called job: whatever answers it, and
 *       however often, the parent is answered once
 *   I3  a call whose id another job has is answered at once, so the caller does not wait without end (H3)
 *   I4  the message that ends the called jobs is put by the commit that closes their parent
 *
 *     parent   Leg1 ---- call: job row, START ---->  child   trigger, ..., step 3
 *              Leg2 <--- answer, the call's GUID --------------------------'
 *
 * If we crash before the commit of a call, there is no job; after it there is one, with the message that begins
 * it. If we crash before the commit of a child's step 3, its parent has no answer yet; after it the answer is
 * in the stream.
 */
#include <stdio.h>

#include "base/uuid.h"
#include "kernel/chores.h"
#include "kernel/turn_internal.h"
#include "store/error.h"

#define CODE_TAKEN 409
#define CODE_TOO_LARGE 413
static_assert(LIMIT_PAYLOAD_SIZE == 2097152, "a sentence below names it");

/* The job of an id; NULL: there is none. */
static int job_of_id(struct turn *t, qp_str jid, const struct job_row **out_job)
{
    struct job_name_row key = {.ns = t->site.ref.ns, .jid = jid};
    const void *row = NULL;
    int rc = bundle_get(t->bundle, TABLE_job_name, &key, &row);
    if (rc == QP_OK && row != NULL) {
        struct job_row number = {.ns = key.ns, .job = ((const struct job_name_row *)row)->job};
        rc = bundle_get(t->bundle, TABLE_job, &number, &row);
    }
    *out_job = row;
    return rc;
}

/* ------------------------------------------------------------------------------------------- calls */

/* What a call that gives no id has one made of. */
static int call_id(struct turn *t, const struct call_job *call, qp_str *out_jid)
{
    char *text = arena_bytes(turn_arena(t), UUID_TEXT_SIZE);
    qp_str guid;
    int rc = text == NULL ? QP_E_NOMEM : turn_guid(t, call->purpose, &guid);
    static_assert(UUID_SIZE <= LIMIT_GUID_SIZE, "an id is made of a GUID");
    if (rc == QP_OK) {
        uuid_format((const unsigned char *)guid.p, text);
        *out_jid = (qp_str){text, UUID_TEXT_SIZE};
    }
    return rc;
}

static int call_number(struct turn *t, int64_t *out_number)
{
    struct op *op = bundle_op(t->bundle, OP_ids_reserve);
    int rc;
    if (op == NULL) {
        return t->bundle->commit->rc;
    }
    op->ids_reserve.count = 1;
    rc = bundle_run(t->bundle);
    if (rc == QP_OK) {
        *out_number = op->ids_reserve.out_first;
    }
    return rc;
}

static int call_make(struct turn *t, const struct call_job *call, qp_str jid, qp_str parent_guid)
{
    struct turn child = {.kernel = t->kernel,
                         .bundle = t->bundle,
                         .outcome = t->outcome,
                         .site = {.ref = {t->site.ref.ns, 0}, .addr = TRIGGER_ADDRESS}};
    struct start start = {.input = call->input, .policy = call->policy, .delay_ms = call->delay_ms};
    struct op_job_create job = {.jid = jid,
                                .kind = call->kind,
                                .workflow = call->workflow,
                                .version = call->version,
                                .parent_job = t->site.ref.job,
                                .parent_addr = t->site.addr,
                                .parent_guid = call->detached ? QP_NONE : parent_guid,
                                .priority = t->job->priority,
                                .expire_ms = call->expire_ms};
    int rc = call_number(t, &child.site.ref.job);
    job.ref = child.site.ref;
    rc = rc == QP_OK ? step_guid(t->bundle, call->workflow, call->input, &job.body_hash) : rc;
    rc = rc == QP_OK ? step_guid(t->bundle, jid, job.body_hash, &job.owner_guid) : rc;
    child.site.guid = job.owner_guid;
    return rc == QP_OK ? start_by_message(&child, &start, &job) : rc;
}

/* The id is taken: by a call of this activity, by this very one, or by somebody else. */
static bool is_own_call(const struct turn *t, const struct job_row *there)
{
    return there->parent_job == t->site.ref.job && str_equal(there->parent_addr, t->site.addr);
}

static bool is_same_call(const struct turn *t, const struct call_job *call,
                         const struct job_row *there, qp_str parent_guid)
{
    return is_own_call(t, there) &&
           str_equal(there->parent_guid, call->detached ? QP_NONE : parent_guid);
}

/* The job that has the call's id; NULL: nobody. What an earlier call of this activity has left keeps its id, and the call
 * that is made in its place gets one of its own. */
static int call_find(struct turn *t, const struct call_job *call, qp_str parent_guid,
                     qp_str *out_jid, const struct job_row **out_there)
{
    int rc = QP_OK;
    *out_jid = call->jid;
    *out_there = NULL;
    if (!str_is_none(call->jid)) {
        rc = job_of_id(t, call->jid, out_there);
    }
    if (rc != QP_OK ||
        (!str_is_none(call->jid) && (*out_there == NULL || !is_own_call(t, *out_there) ||
                                     is_same_call(t, call, *out_there, parent_guid)))) {
        return rc;
    }
    rc = call_id(t, call, out_jid);
    return rc == QP_OK ? job_of_id(t, *out_jid, out_there) : rc;
}

/* The activity hears at once what it would have waited for in vain. */
static int call_refuse(struct turn *t, const struct call_job *call, qp_str jid, int64_t code)
{
    qp_str error;
    qp_str purpose;
    struct error e = {.code = code,
                      .message =
                          code == CODE_TAKEN
                              ? QP_STR("the job's id is taken by another")
                              : QP_STR("the job's input is too large: the limit is 2097152 bytes"),
                      .addr = t->site.addr,
                      .job = jid};
    int rc = error_write(turn_arena(t), &e, &error);
    rc = rc == QP_OK ? step_guid(t->bundle, QP_STR("refused"), call->purpose, &purpose) : rc;
    return rc == QP_OK ? turn_send(t, t->site.addr, purpose, code, error) : rc;
}

/* 0: nothing is against it. */
static int64_t call_check(const struct turn *t, const struct call_job *call,
                          const struct job_row *there, qp_str parent_guid)
{
    return there != NULL && !is_same_call(t, call, there, parent_guid) ? CODE_TAKEN
           : call->input.n > LIMIT_PAYLOAD_SIZE                        ? CODE_TOO_LARGE
                                                                       : 0;
}

/* The job is made, and the caller's history says so. */
static int call_new(struct turn *t, const struct call_job *call, qp_str jid, qp_str parent_guid)
{
    qp_ms until = call->delay_ms > 0 ? bundle_now(t->bundle) + call->delay_ms : 0;
    QP_TRY(call_make(t, call, jid, parent_guid));
    return turn_note(t, EVENT_CALLED,
                     &(struct event_facts){.topic = call->workflow, .job = jid, .until = until});
}

int turn_call(struct turn *t, const struct call_job *call)
{
    const struct job_row *there = NULL;
    qp_str jid = QP_NONE;
    qp_str parent_guid;
    int64_t refused;
    int rc = step_guid(t->bundle, t->site.guid, call->purpose, &parent_guid);
    rc = rc == QP_OK ? call_find(t, call, parent_guid, &jid, &there) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    refused = call_check(t, call, there, parent_guid);
    if (call->out_jid != NULL) {
        *call->out_jid = refused != 0 ? QP_NONE : jid;
    }
    if (refused == 0 && !call->detached) {
        turn_wait(t);
    }
    return refused != 0    ? call_refuse(t, call, jid, refused)
           : there != NULL ? QP_OK
                           : call_new(t, call, jid, parent_guid);
}

/* ----------------------------------------------------------------------------------------- answers */

int turn_answer_parent(struct turn *t, int64_t code, qp_str payload)
{
    const struct job_row *job = t->job;
    const void *parent = NULL;
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.ref = {job->ns, job->parent_job},
                                .guid = job->parent_guid,
                                .topic = ENGINE_TOPIC,
                                .addr = job->parent_addr,
                                .parent_guid = job->parent_guid,
                                .payload = payload,
                                .code = code,
                                .once = true}};
    int rc = job->parent_guid.p == NULL
                 ? QP_OK
                 : bundle_get(t->bundle, TABLE_job,
                              &(struct job_row){.ns = job->ns, .job = job->parent_job}, &parent);
    return rc == QP_OK && parent != NULL ? turn_op(t, &op) : rc;
}

/* The activity that waits has failed, at its own address; `job` says in which job it began. */
static int answer_error(struct turn *t)
{
    static const char *const words[JOB_STATES] = {
        [JOB_FAILED] = "failed", [JOB_CANCELLED] = "cancelled", [JOB_INTERRUPTED] = "interrupted"};
    const struct job_row *job = t->job;
    struct error e;
    qp_str payload = QP_NONE;
    int rc = error_read(turn_arena(t), job->error, &e);
    e.code = e.code >= 400 ? e.code : ERROR_CODE;
    e.message = str_is_none(e.message) ? str_from(words[job->state]) : e.message;
    e.activity = QP_NONE;
    e.addr = job->parent_addr;
    e.job = job->jid;
    rc = rc == QP_OK ? error_write(turn_arena(t), &e, &payload) : rc;
    return rc == QP_OK ? turn_answer_parent(t, e.code, payload) : rc;
}

/* The output of a job that has none of its own is that of the activity that closed it: this one. */
int parent_answer(struct turn *t)
{
    const struct job_row *job = t->job;
    if (job->parent_guid.p == NULL) {
        return QP_OK;
    }
    return job->state == JOB_COMPLETED
               ? turn_answer_parent(t, 200, str_is_none(job->output) ? t->guid.output : job->output)
               : answer_error(t);
}

/* -------------------------------------------------------------------------------------------- ends */

int turn_end_other(struct turn *t, qp_str jid, enum job_state state, qp_str error, bool descend)
{
    const struct job_row *job = NULL;
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.kind = MESSAGE_END,
                                .topic = ENGINE_TOPIC,
                                .addr = TRIGGER_ADDRESS,
                                .payload = error,
                                .code = end_code(state, descend),
                                .once = true}};
    int rc = job_of_id(t, jid, &job);
    if (rc != QP_OK || job == NULL || job->closed_by.p != NULL) {
        return rc;
    }
    op.msg_put.ref = (struct job_ref){job->ns, job->job};
    rc = turn_guid(t, QP_STR("end"), &op.msg_put.guid);
    rc = rc == QP_OK ? step_guid(t->bundle, op.msg_put.guid, jid, &op.msg_put.guid) : rc;
    return rc == QP_OK ? turn_op(t, &op) : rc;
}

int children_end(struct turn *t)
{
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.ref = {t->site.ref.ns, 0},
                                .owner = OWNER_SYSTEM,
                                .kind = MESSAGE_DESCEND,
                                .topic = ENGINE_TOPIC,
                                .code = t->end_state}};
    struct descent first = {.job = t->site.ref.job, .error = t->end_error};
    int rc = descent_payload(turn_arena(t), &first, &op.msg_put.payload);
    rc = rc == QP_OK ? turn_guid(t, QP_STR("descend"), &op.msg_put.guid) : rc;
    op.msg_put.parent_guid = op.msg_put.guid; /* what the ends' GUIDs follow from, on all pages */
    return rc == QP_OK ? turn_op(t, &op) : rc;
}

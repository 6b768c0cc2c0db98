/* child_jobs.c - jobs that call other jobs: the call, its answer, and ends that include the called jobs (see program.h)
 *
 *   I1  a call's job and the digit that proves the call are one commit: the job that is awaited exists
 *   I2  the GUID of the answer follows from the call, and stands on the called job: whatever answers it, and
 *       however often, the parent is answered once
 *   I3  a call whose id another job has is answered at once, so the caller does not wait without end (H3)
 *   I4  the message that ends the called jobs is put by the commit that closes their parent: at once when it is said
 *       that all of them end, with step 3 when they end as their close policies say (job_row.calls counts those)
 *   I5  a notice to the caller is a message of its own, beside the one answer, in the commit of what it tells of
 *
 *     parent   Leg1 ---- call: job row, START ---->  child   trigger, ..., step 3
 *              Leg2 <--- answer, the call's GUID --------------------------'
 *
 * If we crash before the commit of a call, there is no job; after it there is one, with the message that begins
 * it. If we crash before the commit of a child's step 3, its parent has no answer yet; after it the answer is
 * in the stream.
 */
#include <stdio.h>

#include "base/hash.h"
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
                                .parent_guid = parent_guid,
                                .close = call->close,
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
static int is_own_call(struct turn *t, qp_str addr, const struct job_row *there, bool *out_own)
{
    const struct job_row *from = t->job;
    *out_own = there->parent_job == from->job && str_equal(there->parent_addr, addr);
    for (int i = 0; !*out_own && i < LIMIT_FORK_LINE && !str_is_none(from->forked_from); i++) {
        QP_TRY(job_of_id(t, from->forked_from, &from));
        if (from == NULL) {
            return QP_OK;
        }
        *out_own = there->parent_job == from->job && str_equal(there->parent_addr, addr);
    }
    return QP_OK;
}

/* It answers its caller: it is awaited, or must not outlive that one. */
static bool call_answers(const struct call_job *call)
{
    return !call->detached || call->close != CLOSE_ABANDON;
}

static bool is_same_call(const struct turn *t, const struct job_row *there, qp_str parent_guid)
{
    return there->parent_job == t->site.ref.job && str_equal(there->parent_addr, t->site.addr) &&
           str_equal(there->parent_guid, parent_guid);
}

/* The job that has the call's id; NULL: nobody. What an earlier call of this activity has left, here or in a job that this one
 * is a fork of, keeps its id, and the call that is made in its place gets one of its own. */
static int call_find(struct turn *t, const struct call_job *call, qp_str parent_guid,
                     qp_str *out_jid, const struct job_row **out_there)
{
    bool own = str_is_none(call->jid);
    *out_jid = call->jid;
    *out_there = NULL;
    if (!own) {
        QP_TRY(job_of_id(t, call->jid, out_there));
        if (*out_there == NULL || is_same_call(t, *out_there, parent_guid)) {
            return QP_OK;
        }
        QP_TRY(is_own_call(t, t->site.addr, *out_there, &own));
    }
    if (!own) {
        return QP_OK;
    }
    QP_TRY(call_id(t, call, out_jid));
    return job_of_id(t, *out_jid, out_there);
}

int turn_call_is_taken(struct turn *t, qp_str addr, qp_str jid, bool *out_taken)
{
    const struct job_row *there = NULL;
    bool own = false;
    QP_TRY(job_of_id(t, jid, &there));
    if (there != NULL) {
        QP_TRY(is_own_call(t, addr, there, &own));
    }
    *out_taken = there != NULL && !own;
    return QP_OK;
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
    return there != NULL && !is_same_call(t, there, parent_guid) ? CODE_TAKEN
           : call->input.n > LIMIT_PAYLOAD_SIZE                  ? CODE_TOO_LARGE
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
    QP_TRY(step_guid(t->bundle, t->site.guid, call->purpose, &parent_guid));
    if (!call_answers(call)) {
        parent_guid = QP_NONE;
    }
    QP_TRY(call_find(t, call, parent_guid, &jid, &there));
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

/* The job that awaits this one; NULL: there is none, or it is gone. */
static int parent_of(struct turn *t, const struct job_row **out_parent)
{
    struct job_row key = {.ns = t->job->ns, .job = t->job->parent_job};
    const void *row = NULL;
    if (t->job->parent_guid.p != NULL) {
        QP_TRY(bundle_get(t->bundle, TABLE_job, &key, &row));
    }
    *out_parent = row;
    return QP_OK;
}

/* A message to the activity that awaits this job. */
static struct op to_parent(const struct job_row *job, qp_str guid, int64_t code, qp_str payload)
{
    return (struct op){.kind = OP_msg_put,
                       .msg_put = {.ref = {job->ns, job->parent_job},
                                   .guid = guid,
                                   .topic = ENGINE_TOPIC,
                                   .addr = job->parent_addr,
                                   .parent_guid = job->parent_guid,
                                   .payload = payload,
                                   .code = code,
                                   .once = true}};
}

int turn_answer_parent(struct turn *t, int64_t code, qp_str payload)
{
    struct op op = to_parent(t->job, t->job->parent_guid, code, payload);
    const struct job_row *parent = NULL;
    QP_TRY(parent_of(t, &parent));
    return parent == NULL ? QP_OK : turn_op(t, &op);
}

int turn_answer_parent_between(struct turn *t, qp_str payload)
{
    struct op op = to_parent(t->job, QP_NONE, CODE_PENDING, payload);
    const struct job_row *parent = NULL;
    QP_TRY(parent_of(t, &parent));
    if (parent == NULL || parent->closed_by.p != NULL) {
        return QP_OK;
    }
    QP_TRY(step_guid(t->bundle, t->job->parent_guid, t->site.guid, &op.msg_put.guid));
    return turn_op(t, &op);
}

int turn_tell_parent(struct turn *t, const struct parent_notice *notice)
{
    struct op op = to_parent(t->job, QP_NONE, notice->code, notice->payload);
    const struct job_row *parent = NULL;
    QP_TRY(parent_of(t, &parent));
    if (parent == NULL || parent->closed_by.p != NULL) {
        return QP_OK;
    }
    op.msg_put.kind = MESSAGE_NOTICE;
    QP_TRY(step_guid(t->bundle, t->job->parent_guid, notice->purpose, &op.msg_put.guid));
    return turn_op(t, &op);
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

/* The output of a job that has none of its own is that of the activity that closed it: this one. A job that was interrupted without
 * an error, as a graph may say, is answered with what it has so far. */
int parent_answer(struct turn *t)
{
    const struct job_row *job = t->job;
    if (job->parent_guid.p == NULL) {
        return QP_OK;
    }
    if (job->state == JOB_INTERRUPTED && str_is_none(job->error)) {
        return turn_answer_parent(t, 200, job->output);
    }
    return job->state == JOB_COMPLETED
               ? turn_answer_parent(t, 200, str_is_none(job->output) ? t->guid.output : job->output)
               : answer_error(t);
}

/* -------------------------------------------------------------------------------------------- ends */

/* The END of another job, once however often it is said. */
static int end_put(struct turn *t, const struct job_row *job, int64_t code, qp_str error)
{
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.ref = {job->ns, job->job},
                                .kind = MESSAGE_END,
                                .topic = ENGINE_TOPIC,
                                .addr = TRIGGER_ADDRESS,
                                .payload = error,
                                .code = code,
                                .once = true}};
    QP_TRY(turn_guid(t, QP_STR("end"), &op.msg_put.guid));
    QP_TRY(step_guid(t->bundle, op.msg_put.guid, job->jid, &op.msg_put.guid));
    return turn_op(t, &op);
}

int turn_end_other(struct turn *t, qp_str jid, enum job_state state, qp_str error, bool descend)
{
    const struct job_row *job = NULL;
    QP_TRY(job_of_id(t, jid, &job));
    return job == NULL || job->closed_by.p != NULL
               ? QP_OK
               : end_put(t, job, end_code(state, descend), error);
}

/* Why a job ends whose caller does. */
static int close_error(struct arena *a, qp_str parent, qp_str *out_error)
{
    struct error e = {.code = ERROR_CODE};
    struct buf text;
    int rc;
    buf_init(&text, a->env, 0);
    buf_printf(&text, "the job that called it has ended: %.*s", STR_ARG(parent));
    e.message = buf_slice(&text);
    rc = buf_rc(&text) == QP_OK ? error_write(a, &e, out_error) : QP_E_NOMEM;
    buf_done(&text);
    return rc;
}

/* As call_id makes it: Leg1 runs by the GUID of its ENTER. */
void call_made_id(const struct act_row *act, qp_str purpose, char out_text[UUID_TEXT_SIZE])
{
    unsigned char guid[LIMIT_GUID_SIZE];
    char job[24];
    int n = snprintf(job, sizeof job, "%lld", (long long)act->job);
    hash_guid(act->parent_guid.p, act->parent_guid.n, act->addr.p, act->addr.n, guid);
    hash_guid(guid, sizeof guid, purpose.p, purpose.n, guid);
    hash_guid(guid, sizeof guid, job, (size_t)n, guid);
    uuid_format(guid, out_text);
}

/* Its own id is tried first: a call whose id an earlier one has left has one of its own. */
static int called_by(struct turn *t, const struct act_row *act, const struct call_job *call,
                     const struct job_row **out_job)
{
    char *text = arena_bytes(turn_arena(t), UUID_TEXT_SIZE);
    if (text == NULL) {
        return QP_E_NOMEM;
    }
    call_made_id(act, call->purpose, text);
    QP_TRY(job_of_id(t, (qp_str){text, UUID_TEXT_SIZE}, out_job));
    if (*out_job == NULL && !str_is_none(call->jid)) {
        QP_TRY(job_of_id(t, call->jid, out_job));
    }
    if (*out_job != NULL && ((*out_job)->parent_job != t->site.ref.job ||
                             !str_equal((*out_job)->parent_addr, act->addr))) {
        *out_job = NULL;
    }
    return QP_OK;
}

int turn_call_close(struct turn *t, const struct act_row *act, const struct call_job *call)
{
    const struct job_row *job = NULL;
    qp_str error;
    QP_TRY(called_by(t, act, call, &job));
    if (job == NULL || job->closed_by.p != NULL || job->close == CLOSE_ABANDON) {
        return QP_OK;
    }
    QP_TRY(close_error(turn_arena(t), t->job->jid, &error));
    return end_put(t, job, close_code((enum close_policy)job->close), error);
}

int turn_is_call_end(struct turn *t, qp_str purpose, bool *out_is)
{
    qp_str guid;
    QP_TRY(turn_guid_of(t, t->act, purpose, &guid));
    *out_is = str_equal(guid, t->site.guid);
    return QP_OK;
}

/* Both ends of the called jobs have one GUID: a job that ends all of them with its own end, and then those that do not outlive it,
 * says the former only, whichever message is delivered first. */
static int descend_put(struct turn *t, int64_t code, qp_str error)
{
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.ref = {t->site.ref.ns, 0},
                                .owner = OWNER_SYSTEM,
                                .kind = MESSAGE_DESCEND,
                                .topic = ENGINE_TOPIC,
                                .code = code,
                                .once = true}};
    struct descent first = {.job = t->site.ref.job, .error = error};
    QP_TRY(descent_payload(turn_arena(t), &first, &op.msg_put.payload));
    QP_TRY(turn_guid(t, QP_STR("descend"), &op.msg_put.guid));
    op.msg_put.parent_guid = op.msg_put.guid; /* what the ends' GUIDs follow from, on all pages */
    return turn_op(t, &op);
}

int children_end(struct turn *t)
{
    return descend_put(t, t->end_state, t->end_error);
}

int children_close(struct turn *t)
{
    qp_str error;
    if (t->job->calls == 0) {
        return QP_OK;
    }
    QP_TRY(close_error(turn_arena(t), t->job->jid, &error));
    return descend_put(t, END_BY_POLICY, error);
}

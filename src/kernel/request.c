/* request.c - commands from outside, decided inside the commit that holds them (see request.h)
 *
 *   I1  a result acts on its task's token in the bundle of what it brings: whoever lost the task
 *       changes nothing (H5)
 *   I2  the response's GUID follows from the task's, whatever the attempt: a result that comes twice is
 *       recognised (H5)
 *   I3  the response to a task that was delivered before goes through the stream, as a message: if
 *       it is what kills the engine, that is counted
 */
#include "kernel/request.h"

#include <stdio.h>

#include "base/failpoint.h"
#include "kernel/engine_internal.h"
#include "kernel/face.h"
#include "kernel/query.h"
#include "kernel/retry.h"
#include "store/error.h"

/* The job of an id. */
static int job_by_id(struct bundle *b, int64_t ns, qp_str jid, const struct job_row **out_job)
{
    const void *name = NULL;
    const void *job = NULL;
    int rc = bundle_get(b, TABLE_job_name, &(struct job_name_row){.ns = ns, .jid = jid}, &name);
    if (rc == QP_OK && name != NULL) {
        struct job_row key = {.ns = ns, .job = ((const struct job_name_row *)name)->job};
        rc = bundle_get(b, TABLE_job, &key, &job);
    }
    *out_job = job;
    return rc == QP_OK && job == NULL ? QP_E_NOT_FOUND : rc;
}

/* ------------------------------------------------------------------------------------------- start */

static void note_taken(char taken[QP_ID_SIZE], qp_str id)
{
    QP_ASSERT(id.n < QP_ID_SIZE);
    memcpy(taken, id.p, id.n);
    taken[id.n] = '\0';
}

/* The record of the idempotency key, if there is a key. It is looked for first in its bundle: what it says must
 * not depend on what the first request has changed. */
static int keyed_find(struct request_keyed *k, struct bundle *b)
{
    struct idem_row key = {.ns = k->idem.ns, .ikey = k->idem.key};
    const struct idem_row *record;
    const void *row = NULL;
    k->met = false;
    k->taken[0] = '\0';
    if (str_is_none(k->idem.key)) {
        return QP_OK;
    }
    QP_TRY(bundle_get(b, TABLE_idem, &key, &row));
    if (row == NULL) {
        return QP_OK;
    }
    record = row;
    k->met = true;
    if (!str_equal(record->body_hash, k->idem.body_hash)) {
        return QP_E_CONFLICT;
    }
    note_taken(k->taken, record->answer);
    return QP_E_EXISTS;
}

static int keyed_put(const struct request_keyed *k, struct bundle *b, qp_str answer)
{
    struct op put = {.kind = OP_idem_put, .idem_put = k->idem};
    put.idem_put.answer = answer;
    return str_is_none(k->idem.key) ? QP_OK : step_op(b, &put);
}

static int keyed_begin(struct request_keyed *k, struct bundle *b)
{
    QP_TRY(keyed_find(k, b));
    QP_TRY(keyed_put(k, b, k->idem.answer));
    return bundle_run(b);
}

/* The open job that has the custom id; NULL: there is none. */
static int job_by_custom(struct bundle *b, const struct op_job_create *job,
                         const struct job_row **out_job)
{
    struct job_custom_row key = {
        .ns = job->ref.ns, .workflow = job->workflow, .custom_id = job->custom_id};
    const void *row = NULL;
    int rc = str_is_none(job->custom_id) ? QP_OK : bundle_get(b, TABLE_job_custom, &key, &row);
    if (rc == QP_OK && row != NULL) {
        struct job_row number = {.ns = key.ns, .job = ((const struct job_custom_row *)row)->job};
        rc = bundle_get(b, TABLE_job, &number, &row);
    }
    *out_job = row;
    return rc;
}

/* A job that is there already: by its custom id, or, for a signal, by its id. */
static int start_meets(struct request_start *r, struct bundle *b, const struct start *start,
                       const struct job_row **out_job)
{
    int rc = job_by_custom(b, &start->job, out_job);
    if (rc == QP_OK && *out_job == NULL && r->signal != NULL && !start->fresh) {
        rc = job_by_id(b, start->job.ref.ns, start->job.jid, out_job);
        rc = rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    return rc;
}

/* What the job that is there means for this start. */
static int start_met(struct request_start *r, struct bundle *b, const struct job_row *job)
{
    qp_str body_hash;
    int rc;
    note_taken(r->keyed.taken, job->jid);
    r->job = (struct job_ref){job->ns, job->job};
    if (r->signal != NULL) {
        return QP_OK;
    }
    rc = step_guid(b, r->start.job.workflow, r->start.input, &body_hash);
    return rc != QP_OK ? rc : str_equal(job->body_hash, body_hash) ? QP_E_EXISTS : QP_E_CONFLICT;
}

static int start_job(struct engine *e, struct request_start *r, struct bundle *b,
                     const struct start *start)
{
    struct turn t = {.stepwise = false};
    int rc = turn_start(&t, engine_kernel(e), b, &r->command.outcome, start);
    r->job = t.site.ref;
    for (size_t i = 0; i < r->attribute_count && rc == QP_OK; i++) {
        struct op put = {.kind = OP_attr_put,
                         .attr_put = {.ref = t.site.ref,
                                      .name = r->attributes[i].name,
                                      .value = r->attributes[i].value}};
        rc = step_op(b, &put);
    }
    return rc;
}

/* The signal of a start: to the job itself, when its kind takes signals by name; else to the key that it has. */
static int start_signal(const struct kernel *k, const struct request_start *r, struct bundle *b)
{
    struct job_row key = {.ns = r->job.ns, .job = r->job.job};
    const void *job = NULL;
    struct op *op;
    QP_TRY(bundle_run(b));
    QP_TRY(bundle_get(b, TABLE_job, &key, &job));
    op = bundle_op(b, OP_hook_signal);
    if (op == NULL) {
        return b->commit->rc;
    }
    op->hook_signal = *r->signal;
    op->hook_signal.once = true; /* sent before: the job is started all the same */
    if (job != NULL && signal_job_takes(k, job)) {
        QP_TRY(signal_job_aim(k, b, job, r->signal_id, &op->hook_signal));
    }
    QP_TRY(bundle_run(b));
    return op->hook_signal.out_refused;
}

/* What commits with the start, or with the signal to the job that is there. */
static int start_more(const struct kernel *k, const struct request_start *r, struct bundle *b)
{
    struct op host = {.kind = OP_host_call, .host_call = {r->host, r->host_context}};
    QP_TRY(r->signal != NULL ? start_signal(k, r, b) : QP_OK);
    return r->host != NULL ? step_op(b, &host) : QP_OK;
}

static const char *keep_text(struct bundle *b, const char *text)
{
    qp_str copy;
    return arena_copy(&b->commit->arena, (qp_str){text, strlen(text) + 1}, &copy) ? copy.p : NULL;
}

int refusal_keep(struct refusal *out, struct bundle *b, int rc, const struct qp_err *err)
{
    *out = (struct refusal){.rc = rc};
    if (rc != QP_OK) {
        out->text = keep_text(b, err->text);
        out->pointer = keep_text(b, err->pointer);
    }
    return rc;
}

const char *refusal_text(const struct refusal *refusal, int rc, const char *otherwise)
{
    return rc != QP_OK && rc == refusal->rc && refusal->text != NULL ? refusal->text : otherwise;
}

const char *refusal_pointer(const struct refusal *refusal, int rc)
{
    return rc != QP_OK && rc == refusal->rc && refusal->pointer != NULL ? refusal->pointer : "";
}

/* The start as its name has it in this commit. A fork keeps its own id. */
static int start_name(struct engine *e, struct request_start *r, struct bundle *b,
                      struct start *start)
{
    struct faces *faces = engine_kernel(e)->faces;
    struct op_job_create *job = &start->job;
    struct naming n = {.ns = job->ref.ns,
                       .name = job->workflow,
                       .input = start->input,
                       .policy = start->policy,
                       .pinned = job->version,
                       .pinned_kind = job->kind};
    struct qp_err err = {0};
    if (faces == NULL) {
        return QP_OK;
    }
    QP_TRY(refusal_keep(&r->refusal, b, faces_start(faces, b, &n, &err), &err));
    job->kind = n.kind;
    job->version = n.version;
    if ((start->fresh || start->derived) && str_is_none(job->forked_from) && !str_is_none(n.jid)) {
        r->jid = n.jid;
        job->jid = n.jid;
        start->fresh = false;
    }
    return QP_OK;
}

/* A fork, while its rows are copied. */
struct forking {
    const struct faced *of;
    const struct job_row *from;
    struct qp_err err;
};

static int fork_copy(void *context, struct turn *t)
{
    struct forking *f = context;
    return f->of->face->fork(f->of->state, t, f->from, &f->err);
}

/* What the new job takes over of the one that it is a fork of, as its kind says. */
static int start_fork(struct engine *e, struct request_start *r, struct bundle *b,
                      struct start *start)
{
    struct faces *faces = engine_kernel(e)->faces;
    const struct faced *of = faces == NULL ? NULL : faces_of(faces, start->job.kind);
    struct forking *fork;
    int rc;
    if (of == NULL || of->face->fork == NULL || str_is_none(start->job.forked_from)) {
        return start_job(e, r, b, start);
    }
    fork = ARENA_NEW(&b->commit->arena, struct forking);
    if (fork == NULL) {
        return QP_E_NOMEM;
    }
    *fork = (struct forking){.of = of};
    QP_TRY(job_by_id(b, start->job.ref.ns, start->job.forked_from, &fork->from));
    start->incepted = fork_copy;
    start->context = fork;
    rc = start_job(e, r, b, start);
    return fork->err.text[0] == '\0' ? rc : refusal_keep(&r->refusal, b, rc, &fork->err);
}

/* What was said before to the same key stands, whatever the name means by now. */
static int start_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_start *r = (struct request_start *)c;
    struct start start = r->start;
    const struct job_row *there = NULL;
    int named;
    r->jid = QP_NONE;
    r->refusal = (struct refusal){0};
    named = start_name(e, r, b, &start);
    if (!str_is_none(r->keyed.idem.key)) {
        r->keyed.idem.answer = start.job.jid;
    }
    QP_TRY(keyed_begin(&r->keyed, b));
    QP_TRY(named);
    QP_TRY(start_meets(r, b, &start, &there));
    QP_TRY(there != NULL ? start_met(r, b, there) : start_fork(e, r, b, &start));
    return start_more(engine_kernel(e), r, b);
}

void request_start(struct request_start *r)
{
    r->command.label = "start";
    r->command.decide = start_decide;
}

/* ------------------------------------------------------------------------------------------ result */

/* The message of a claim, while it is one. QP_E_STALE: it is not any more, and whether its job was
 * ended. */
static int message_find(struct bundle *b, const struct msg_ref *ref, const struct msg_row **out_msg,
                        bool *out_over)
{
    struct msg_row key = {.ns = ref->ns, .job = ref->job, .guid = ref->guid};
    struct job_row of_job = {.ns = ref->ns, .job = ref->job};
    const void *row = NULL;
    const void *job = NULL;
    const struct msg_row *m;
    int rc = bundle_get(b, TABLE_job, &of_job, &job);
    rc = rc == QP_OK ? bundle_get(b, TABLE_msg, &key, &row) : rc;
    m = row;
    *out_over = false;
    if (rc == QP_OK && (m == NULL || m->state != MSG_HELD || m->token != ref->token)) {
        int64_t state = job == NULL ? JOB_OPEN : ((const struct job_row *)job)->state;
        *out_over = state != JOB_OPEN && state != JOB_COMPLETED;
        return QP_E_STALE;
    }
    *out_msg = m;
    return rc;
}

/* The rest of what is known of a task that is in nobody's hand here. */
static int result_find(struct request_result *r, struct bundle *b)
{
    const struct msg_row *m = NULL;
    const void *act = NULL;
    int rc = message_find(b, &r->of.ref, &m, &r->job_is_over);
    if (rc != QP_OK) {
        return rc;
    }
    if (r->lost && m->wake_at != r->lost_until) {
        return QP_E_STALE; /* a beat came after all, and was accepted */
    }
    rc = bundle_get(b, TABLE_act, &(struct act_row){.ns = m->ns, .job = m->job, .addr = m->addr},
                    &act);
    if (rc == QP_OK && act == NULL) {
        return QP_E_STALE;
    }
    if (rc == QP_OK) {
        r->of.addr = m->addr;
        r->of.tries = m->tries;
        r->of.failures = ((const struct act_row *)act)->attempt;
        r->next_index = ledger_leg2_entries(((const struct act_row *)act)->ledger) + 1;
    }
    return rc;
}

/* A pending result whose index its worker has chosen, and not this process. */
static bool is_indexed(const struct request_result *r)
{
    return r->kind == RESULT_PENDING && r->task == NULL && r->pending_index > 0;
}

static int result_turn(struct engine *e, struct request_result *r, struct bundle *b,
                       struct turn *out_turn)
{
    const struct msg_ref *ref = &r->of.ref;
    struct site site = {.ref = {ref->ns, ref->job}, .addr = r->of.addr};
    qp_str purpose = QP_STR("response");
    char pending[40];
    int rc;
    if (r->kind == RESULT_PENDING) {
        (void)snprintf(pending, sizeof pending, "pending %lld",
                       (long long)(r->pending_index > 0 ? r->pending_index : r->next_index));
        purpose = str_from(pending);
    }
    if (PLANT(fresh_guid)) {
        (void)snprintf(pending, sizeof pending, "token %lld", (long long)ref->token);
        purpose = str_from(pending);
    }
    rc = step_guid(b, ref->guid, purpose, &site.guid);
    rc = rc == QP_OK && is_indexed(r) ? step_guid(b, site.guid, r->output, &site.guid) : rc;
    return rc == QP_OK ? turn_init(out_turn, engine_kernel(e), b, &r->command.outcome, &site) : rc;
}

/* The response of a suspect is a message of its own. */
static int respond(struct turn *t, const struct request_result *r, int64_t code)
{
    struct op put = {.kind = OP_msg_put,
                     .msg_put = {.ref = t->site.ref,
                                 .guid = t->site.guid,
                                 .kind = MESSAGE_ANSWER,
                                 .topic = ENGINE_TOPIC,
                                 .addr = t->site.addr,
                                 .payload = r->output,
                                 .code = code}};
    return turn_op(t, &put);
}

static int answer_with(struct turn *t, struct request_result *r, int64_t code)
{
    t->code = code;
    t->payload = r->output;
    return r->of.tries - r->of.failures > 1 || t->kernel->stepwise ? respond(t, r, code)
                                                                   : turn_answer(t);
}

static int decide_done(struct turn *t, struct request_result *r)
{
    struct op ack = {.kind = PLANT(fresh_guid) ? OP_msg_fence : OP_msg_ack,
                     .msg_ack = {.ref = r->of.ref}};
    int rc = turn_op(t, &ack);
    rc = rc == QP_OK ? bundle_run(t->bundle) : rc;
    return rc == QP_OK ? answer_with(t, r, r->code > 0 ? r->code : 200) : rc;
}

/* An index is used once. What was brought is part of its GUID (result_turn): so the same result is there already, and
 * another one with an index that was used, or that leaves some out, is refused. */
static int index_check(struct turn *t, const struct request_result *r)
{
    struct guid_row key = {
        .ns = t->site.ref.ns, .job = t->site.ref.job, .addr = t->site.addr, .guid = t->site.guid};
    struct guid_row found;
    bool there = false;
    if (!is_indexed(r)) {
        return QP_OK;
    }
    QP_TRY(bundle_guid(t->bundle, &key, &found, &there));
    return there || r->pending_index == r->next_index ? QP_OK
           : r->pending_index < r->next_index         ? QP_E_CONFLICT
                                                      : QP_E_INVALID;
}

static int decide_pending(struct turn *t, struct request_result *r)
{
    struct op fence = {.kind = OP_msg_fence, .msg_fence = {.ref = r->of.ref}};
    QP_TRY(turn_op(t, &fence));
    QP_TRY(bundle_run(t->bundle));
    QP_TRY(index_check(t, r));
    t->code = CODE_PENDING;
    t->payload = r->output;
    return turn_answer(t);
}

/* The journal entry of an attempt that failed; the next one, if there is one, is at `until`. */
static int attempt_note(struct turn *t, const struct request_result *r, int64_t attempt)
{
    struct event_facts facts = {.attempt = attempt,
                                .worker = r->worker,
                                .until = r->retry_ms >= 0 ? bundle_now(t->bundle) + r->retry_ms : 0,
                                .code = r->code,
                                .error = r->error,
                                .address = t->site.addr};
    return turn_note(t, EVENT_FAILED, &facts);
}

/* One failure more on the activity's row, and the task again, later. */
static int try_again(struct turn *t, struct request_result *r, int64_t attempt)
{
    struct op retry = {.kind = OP_msg_retry,
                       .msg_retry = {.ref = r->of.ref, .delay_ms = r->retry_ms, .error = r->error}};
    struct op backs_off = {
        .kind = OP_act_add,
        .act_add = {.ref = t->site.ref, .addr = t->site.addr, .attempt = -1, .waits = ACT_RETRIES}};
    QP_TRY(turn_op(t, &retry));
    QP_TRY(turn_failed(t, r->code, r->output));
    QP_TRY(turn_op(t, &backs_off));
    return attempt_note(t, r, attempt);
}

/* The attempt that is not tried again is the activity's answer, and counted as one (turn.c). */
static int error_answer(struct turn *t, struct request_result *r)
{
    struct error e = {.code = r->code, .message = r->error, .addr = t->site.addr};
    return error_write(turn_arena(t), &e, &r->output);
}

/* Why a job is parked, as its row says it: "reason: sentence". */
static int park_text(struct arena *a, qp_str reason, qp_str sentence, const char **out_text)
{
    size_t most = LIMIT_ERROR_TEXT_SIZE - LIMIT_NAME_SIZE - 3;
    char *text;
    QP_ASSERT(reason.n > 0 && reason.n <= LIMIT_NAME_SIZE);
    if (sentence.n > most) {
        sentence.n = most;
        sentence.n = utf8_valid_prefix(sentence);
    }
    text = arena_bytes(a, reason.n + sentence.n + 3);
    if (text == NULL) {
        return QP_E_NOMEM;
    }
    (void)snprintf(text, reason.n + sentence.n + 3, "%.*s: %.*s", STR_ARG(reason),
                   STR_ARG(sentence));
    *out_text = text;
    return QP_OK;
}

/* The task is kept for later, and its failures are counted from the beginning when it comes again. */
static int decide_park(struct turn *t, struct request_result *r)
{
    struct op again = {.kind = OP_act_add, .act_add = {.ref = t->site.ref, .addr = t->site.addr}};
    const struct msg_row *m = NULL;
    const char *why = NULL;
    QP_TRY(message_find(t->bundle, &r->of.ref, &m, &r->job_is_over));
    QP_TRY(park_text(turn_arena(t), r->reason, r->error, &why));
    QP_TRY(turn_op(t, &again));
    return message_dead_letter(t->bundle, m, why, t->outcome);
}

static int decide_error(struct turn *t, struct request_result *r)
{
    const struct act_row *act = NULL;
    struct retry policy = retry_default;
    int64_t attempt;
    int rc = turn_act(t, t->site.addr, &act);
    if (rc != QP_OK || act == NULL) {
        return rc != QP_OK ? rc : QP_E_STALE;
    }
    rc = retry_parse(act->policy, &policy, NULL);
    if (rc != QP_OK) {
        return rc;
    }
    r->code = r->code >= 400 ? r->code : 500;
    policy = r->silent ? retry_of_lost(&policy, r->code) : policy;
    r->retry_ms =
        r->fatal || !retry_is_for(&policy, r->code) ? -1 : retry_delay(&policy, act->attempt + 1);
    QP_TRY(error_answer(t, r));
    attempt = act->attempt + 1;
    if (r->retry_ms >= 0) {
        return try_again(t, r, attempt);
    }
    QP_TRY(attempt_note(t, r, attempt));
    if (policy.park != 0) {
        r->reason = QP_STR("decision_failed");
        return decide_park(t, r);
    }
    return decide_done(t, r);
}

/* The jobs that commit with a result. One that is there, with the same body, is what was asked for. */
static int starts_decide(struct engine *e, struct request_result *r, struct bundle *b)
{
    for (struct request_start *s = r->starts; s != NULL; s = s->also) {
        int rc;
        QP_ASSERT(s->start.by_message);
        s->command.outcome = (struct outcome){0};
        rc = start_decide(e, &s->command, b);
        if (rc != QP_OK && rc != QP_E_EXISTS) {
            return rc;
        }
        s->existed = rc == QP_E_EXISTS || s->keyed.taken[0] != '\0';
    }
    return QP_OK;
}

/* What was brought is shown to the job's kind before it counts. */
static int result_check(struct turn *t, struct request_result *r)
{
    struct faces *faces = t->kernel->faces;
    const struct faced *of = faces == NULL ? NULL : faces_of(faces, t->job->kind);
    struct qp_err err = {0};
    int rc;
    r->refusal = (struct refusal){0};
    if (r->kind == RESULT_ERROR || r->kind == RESULT_PARK || of == NULL ||
        of->face->result == NULL) {
        return QP_OK;
    }
    rc = of->face->result(of->state, t, r->output, &err);
    return refusal_keep(&r->refusal, t->bundle, rc, &err);
}

static int result_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_result *r = (struct request_result *)c;
    struct op host = {.kind = OP_host_call, .host_call = {r->host, r->host_context}};
    struct turn t;
    int rc = r->task == NULL ? result_find(r, b) : QP_OK;
    rc = rc == QP_OK ? result_turn(e, r, b, &t) : rc;
    if (rc == QP_E_NOT_FOUND) {
        return QP_E_STALE; /* its job is gone, and the task with it */
    }
    if (rc != QP_OK) {
        return rc;
    }
    r->workflow = t.job->workflow;
    QP_TRY(result_check(&t, r));
    switch (r->kind) {
    case RESULT_DONE:
        rc = decide_done(&t, r);
        break;
    case RESULT_PENDING:
        rc = decide_pending(&t, r);
        break;
    case RESULT_ERROR:
        rc = decide_error(&t, r);
        break;
    case RESULT_PARK:
        rc = decide_park(&t, r);
        break;
    }
    QP_TRY(rc);
    QP_TRY(starts_decide(e, r, b));
    return r->host != NULL ? step_op(b, &host) : QP_OK;
}

void request_result(struct request_result *r)
{
    r->command.label = "result";
    if (r->task != NULL) {
        const struct task *task = r->task;
        r->of = (struct result_of){task->ref, task->addr, task->tries, task->failures};
    }
    r->command.job = (struct job_ref){r->of.ref.ns, r->of.ref.job};
    r->command.decide = result_decide;
    r->retry_ms = -1;
}

/* ------------------------------------------------------------------------------------------- beats */

/* How far it is, for people and for the next delivery of the task (serve.c). */
static int progress_put(struct bundle *b, const struct request_beat *r, qp_str addr)
{
    struct op put = {.kind = OP_data_put,
                     .data_put = {.ref = {r->ref.ns, r->ref.job}, .value = r->progress}};
    QP_TRY(progress_name(&b->commit->arena, addr, &put.data_put.name));
    return step_op(b, &put);
}

/* The lease begins again, or the beat limit. */
static int beat_extend(struct bundle *b, struct request_beat *r)
{
    struct op *op = bundle_op(b, OP_msg_extend);
    if (op == NULL) {
        return b->commit->rc;
    }
    op->msg_extend = (struct op_msg_extend){.ref = r->ref, .lease_ms = r->lease_ms};
    QP_TRY(bundle_run(b));
    r->until = op->msg_extend.out_until;
    return QP_OK;
}

static int beat_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_beat *r = (struct request_beat *)c;
    const struct msg_row *m = NULL;
    struct op fence = {.kind = OP_msg_fence, .msg_fence = {.ref = r->ref}};
    bool extends;
    (void)e;
    QP_TRY(message_find(b, &r->ref, &m, &r->job_is_over));
    extends = r->lease_ms > 0 || !str_is_none(m->limits);
    r->until = 0;
    QP_TRY(extends ? beat_extend(b, r) : step_op(b, &fence));
    return str_is_none(r->progress) ? QP_OK : progress_put(b, r, m->addr);
}

void request_beat(struct request_beat *r)
{
    r->command.label = "beat";
    r->command.job = (struct job_ref){r->ref.ns, r->ref.job};
    r->command.decide = beat_decide;
}

/* ---------------------------------------------------------------------------- signals, ends, single ops */

/* What the record of a key says of the signal that was sent with it. */
#define ANSWER_DELIVERED "delivered"
#define ANSWER_KEPT "kept"

/* The key of a signal that came without one. */
static int signal_name(struct engine *e, struct request_signal *r, struct bundle *b,
                       qp_str *out_key)
{
    struct faces *faces = engine_kernel(e)->faces;
    struct qp_err err = {0};
    int rc;
    r->refusal = (struct refusal){0};
    if (faces == NULL || !str_is_none(r->signal.key) || !str_is_none(r->to.id)) {
        return QP_OK;
    }
    rc = faces_signal_key(faces, b, &r->signal, out_key, &err);
    return refusal_keep(&r->refusal, b, rc, &err);
}

/* A signal to one job, which is found in the commit. */
static int signal_to(struct engine *e, struct request_signal *r, struct bundle *b,
                     struct op_hook_signal *signal)
{
    const struct job_row *job = NULL;
    struct qp_err err = {0};
    int rc = signal_job_find(b, r->signal.ns, &r->to, &job);
    if (rc == QP_E_NOT_FOUND && !str_is_none(r->to.workflow)) {
        (void)err_set(&err, rc, "no open job of workflow '%.*s' has this custom id",
                      STR_ARG(r->to.workflow));
        return refusal_keep(&r->refusal, b, rc, &err);
    }
    QP_TRY(rc);
    rc = signal_job_aim(engine_kernel(e), b, job, r->id, signal);
    if (rc == QP_E_INVALID) {
        (void)err_set(&err, rc, "code: %lld, a job that takes signals by name takes none but 200",
                      (long long)signal->code);
        return refusal_keep(&r->refusal, b, rc, &err);
    }
    return rc;
}

static int signal_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_signal *r = (struct request_signal *)c;
    const char *answer;
    struct op *op;
    qp_str key = r->signal.key;
    int rc = keyed_find(&r->keyed, b);
    r->delivered = strcmp(r->keyed.taken, ANSWER_DELIVERED) == 0;
    r->kept = strcmp(r->keyed.taken, ANSWER_KEPT) == 0;
    QP_TRY(rc);
    QP_TRY(signal_name(e, r, b, &key));
    op = bundle_op(b, OP_hook_signal);
    if (op == NULL) {
        return b->commit->rc;
    }
    op->hook_signal = r->signal;
    op->hook_signal.key = key;
    if (!str_is_none(r->to.id)) {
        QP_TRY(signal_to(e, r, b, &op->hook_signal));
    } else if (!str_is_none(r->id)) {
        QP_TRY(signal_id_guid(b, &op->hook_signal, r->id));
    }
    rc = bundle_run(b);
    r->delivered = op->hook_signal.out_delivered;
    r->kept = op->hook_signal.out_kept;
    answer = r->delivered ? ANSWER_DELIVERED : r->kept ? ANSWER_KEPT : "";
    return rc == QP_OK ? keyed_put(&r->keyed, b, str_from(answer)) : rc;
}

void request_signal(struct request_signal *r)
{
    r->command.label = "signal";
    r->command.decide = signal_decide;
}

/* A person's reason is a sentence, whatever it looks like; none stays none. */
static int end_reason(struct arena *a, qp_str reason, qp_str *out_error)
{
    struct error e = {.code = ERROR_CODE, .message = reason};
    *out_error = QP_NONE;
    return str_is_none(reason) ? QP_OK : error_write(a, &e, out_error);
}

/* The job's kind may end it in its own way. */
static int cancel_ask(struct turn *t, qp_str error, bool *out_ends)
{
    struct faces *faces = t->kernel->faces;
    const struct faced *of = faces == NULL ? NULL : faces_of(faces, t->job->kind);
    if (of == NULL || of->face->cancel == NULL) {
        return QP_OK;
    }
    QP_TRY(of->face->cancel(of->state, t, error, out_ends));
    return turn_answers(t);
}

static int end_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_end *r = (struct request_end *)c;
    qp_str error = QP_NONE;
    const struct job_row *job;
    struct turn t;
    struct site site = {.addr = TRIGGER_ADDRESS, .never_final = true};
    int rc = job_by_id(b, r->ns, r->jid, &job);
    if (rc != QP_OK || job->closed_by.p != NULL) {
        return rc != QP_OK ? rc : QP_E_CLOSED;
    }
    site.ref = (struct job_ref){job->ns, job->job};
    QP_TRY(step_guid(b, job->owner_guid, QP_STR("end"), &site.guid));
    QP_TRY(turn_init(&t, engine_kernel(e), b, &c->outcome, &site));
    QP_TRY(end_reason(&b->commit->arena, r->error, &error));
    if (r->state == JOB_CANCELLED) {
        bool ends = true;
        QP_TRY(cancel_ask(&t, error, &ends));
        if (!ends) {
            return QP_OK;
        }
    }
    return turn_end_job(&t, r->state, error, r->descend);
}

void request_end(struct request_end *r)
{
    r->command.label = "end";
    r->command.decide = end_decide;
}

/* The dead letters of a job, back into their streams. */
static int revive(struct bundle *b, const struct job_row *job)
{
    struct msg_row prefix = {.ns = job->ns, .job = job->job};
    struct scan scan = {.table = TABLE_msg,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 2,
                        .limit = LIMIT_CLAIM_MESSAGES};
    struct bundle_rows found;
    int rc = bundle_scan(b, &scan, &found);
    while (rc == QP_OK && found.count > 0) {
        for (size_t i = 0; i < found.count && rc == QP_OK; i++) {
            const struct msg_row *m = found.rows[i];
            struct op op = {.kind = OP_msg_revive,
                            .msg_revive = {.ref = {m->ns, m->job, m->guid, 0}}};
            rc = m->state == MSG_DEAD ? step_op(b, &op) : QP_OK;
            scan.after = m;
        }
        rc = rc == QP_OK ? bundle_scan(b, &scan, &found) : rc;
    }
    return rc;
}

static int unpark_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_unpark *r = (struct request_unpark *)c;
    const struct job_row *job = NULL;
    int rc = keyed_begin(&r->keyed, b);
    struct op op = {.kind = OP_job_set, .job_set = {.what = JOB_SET_PARKED}};
    (void)e;
    rc = rc == QP_OK ? job_by_id(b, r->ns, r->jid, &job) : rc;
    if (rc != QP_OK || job->parked.p == NULL) {
        return rc != QP_OK ? rc : QP_E_CONFLICT;
    }
    op.job_set.ref = (struct job_ref){job->ns, job->job};
    rc = revive(b, job);
    return rc == QP_OK ? step_op(b, &op) : rc;
}

void request_unpark(struct request_unpark *r)
{
    r->command.label = "unpark";
    r->command.decide = unpark_decide;
}

static void change_fill(const struct request_change *r, const struct job_row *job, struct op *op)
{
    struct job_ref ref = {job->ns, job->job};
    switch (r->change) {
    case JOB_CHANGE_PAUSE:
        *op = (struct op){.kind = OP_job_pause, .job_pause = {.ref = ref}};
        break;
    case JOB_CHANGE_RESUME:
        *op = (struct op){.kind = OP_job_resume,
                          .job_resume = {.ref = ref, .limit = LIMIT_SWEEP_ROWS}};
        break;
    case JOB_CHANGE_DELETE:
        *op = (struct op){.kind = OP_job_delete,
                          .job_delete = {.ref = ref, .limit = LIMIT_SWEEP_ROWS}};
        break;
    }
}

static int change_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_change *r = (struct request_change *)c;
    const struct job_row *job;
    struct op change;
    struct op *op;
    int rc = job_by_id(b, r->ns, r->jid, &job);
    (void)e;
    r->more = false;
    if (rc != QP_OK) {
        return rc;
    }
    change_fill(r, job, &change);
    op = bundle_op(b, change.kind);
    if (op == NULL) {
        return b->commit->rc;
    }
    *op = change;
    rc = bundle_run(b);
    r->more = rc == QP_OK && ((r->change == JOB_CHANGE_RESUME && op->job_resume.out_more) ||
                              (r->change == JOB_CHANGE_DELETE && op->job_delete.out_more));
    return rc;
}

void request_change(struct request_change *r)
{
    r->command.label = "change";
    r->command.decide = change_decide;
}

static int claim_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_claim *r = (struct request_claim *)c;
    return engine_claim(e, b, r->service, r->want, &c->outcome);
}

void request_claim(struct request_claim *r)
{
    r->command.label = "claim";
    r->command.decide = claim_decide;
}

static int op_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_op *r = (struct request_op *)c;
    struct op *op = bundle_op(b, r->op.kind);
    int rc;
    (void)e;
    if (op == NULL) {
        return b->commit->rc;
    }
    *op = r->op;
    rc = bundle_run(b);
    r->op = *op;
    return rc;
}

void request_op(struct request_op *r)
{
    r->command.label = "op";
    r->command.decide = op_decide;
}

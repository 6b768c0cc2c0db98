/* request_result.c - what a worker says of its task, decided inside the commit that holds it (see request_result.h)
 *
 *   I1  a result acts on its task's token in the bundle of what it brings: a worker that lost the task
 *       changes nothing (H5)
 *   I2  the response's GUID follows from the task's, whatever the attempt: a result that comes twice is
 *       recognised (H5)
 *   I3  the response to a task that was delivered before goes through the stream, as a message: if
 *       it is what kills the engine, that is counted
 *   I4  what the job's kind refuses is refused before anything is written, and the task stays with its worker
 *
 * If we crash before the commit, the task is given again when its lease is over.
 */
#include "kernel/request_result.h"

#include <stdio.h>

#include "base/failpoint.h"
#include "kernel/engine_internal.h"
#include "kernel/face.h"
#include "kernel/query.h"
#include "kernel/retry.h"
#include "store/error.h"

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
    *out_over = false;
    QP_TRY(bundle_get(b, TABLE_job, &of_job, &job));
    QP_TRY(bundle_get(b, TABLE_msg, &key, &row));
    m = row;
    if (m == NULL || m->state != MSG_HELD || m->token != ref->token) {
        int64_t state = job == NULL ? JOB_OPEN : ((const struct job_row *)job)->state;
        *out_over = state != JOB_OPEN && state != JOB_COMPLETED;
        return QP_E_STALE;
    }
    *out_msg = m;
    return QP_OK;
}

/* The rest of what is known of a task that no worker of this process has in hand. */
static int result_find(struct request_result *r, struct bundle *b)
{
    const struct msg_row *m = NULL;
    const struct act_row *act;
    const void *row = NULL;
    QP_TRY(message_find(b, &r->of.ref, &m, &r->job_is_over));
    if (r->lost && m->wake_at != r->lost_until) {
        return QP_E_STALE; /* a beat came after all, and was accepted */
    }
    QP_TRY(bundle_get(b, TABLE_act, &(struct act_row){.ns = m->ns, .job = m->job, .addr = m->addr},
                      &row));
    if (row == NULL) {
        return QP_E_STALE;
    }
    act = row;
    r->of.addr = m->addr;
    r->of.tries = m->tries;
    r->of.note = m->error;
    r->of.failures = act->attempt;
    r->next_index = ledger_leg2_entries(act->ledger) + 1;
    return QP_OK;
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
    if (r->kind == RESULT_PENDING) {
        (void)snprintf(pending, sizeof pending, "pending %lld",
                       (long long)(r->pending_index > 0 ? r->pending_index : r->next_index));
        purpose = str_from(pending);
    }
    if (PLANT(fresh_guid)) {
        (void)snprintf(pending, sizeof pending, "token %lld", (long long)ref->token);
        purpose = str_from(pending);
    }
    QP_TRY(step_guid(b, ref->guid, purpose, &site.guid));
    if (is_indexed(r)) {
        QP_TRY(step_guid(b, site.guid, r->output, &site.guid));
    }
    return turn_init(out_turn, engine_kernel(e), b, &r->command.outcome, &site);
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
    QP_TRY(turn_op(t, &ack));
    QP_TRY(bundle_run(t->bundle));
    return answer_with(t, r, r->code > 0 ? r->code : 200);
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
    const struct act_row *act = NULL;
    QP_TRY(turn_op(t, &retry));
    QP_TRY(turn_failed(t, r->code, r->output));
    QP_TRY(turn_act(t, t->site.addr, &act));
    if (act->cyclic != CYCLIC_LENT) { /* such a one owes nothing that could wait */
        QP_TRY(turn_op(t, &backs_off));
    }
    QP_TRY(attempt_note(t, r, attempt));
    if (r->silent || t->program->again == NULL) {
        return QP_OK;
    }
    QP_TRY(bundle_run(t->bundle));
    QP_TRY(turn_act(t, t->site.addr, &t->act));
    return t->program->again(t, r->retry_ms);
}

/* The attempt that is not tried again is the activity's answer, and counted as one (turn.c). */
static int error_answer(struct turn *t, struct request_result *r)
{
    struct error e = {.code = r->code, .message = r->error, .addr = t->site.addr};
    return error_write_with(turn_arena(t), &e, t->program->keeps_output ? r->data : QP_NONE,
                            &r->output);
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
    QP_TRY(turn_act(t, t->site.addr, &act));
    if (act == NULL) {
        return QP_E_STALE;
    }
    QP_TRY(retry_parse(act->policy, &policy, NULL));
    r->code = r->code >= 400 ? r->code : 500;
    policy = r->silent ? retry_of_lost(&policy, r->code) : policy;
    r->retry_ms = r->fatal ? -1 : retry_after(&policy, r->code, act->attempt + 1);
    r->retry_ms = r->again ? r->again_ms : r->retry_ms;
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

/* The task goes back: its note says why. */
static int decide_back(struct turn *t, const struct request_result *r)
{
    struct op back = {.kind = OP_msg_retry,
                      .msg_retry = {.ref = r->of.ref, .error = r->error, .untry = !r->counts}};
    return turn_op(t, &back);
}

/* What the job's kind has made of a worker's own words. */
static void result_take(struct request_result *r, const struct bringing *x)
{
    QP_ASSERT(x->kind != RESULT_OTHER);
    r->kind = x->kind;
    r->output = x->output;
    r->error = x->error;
    r->reason = x->reason;
    r->behind = x->behind;
    r->counts = x->counts;
    r->again = x->again;
    r->again_ms = x->again_ms;
}

static int refuse_told(struct qp_err *err)
{
    return err_set(err, QP_E_SHAPE,
                   "the task is an activity: its result has status, output, error, code and index");
}

/* What was brought is shown to the job's kind before it counts; what the kind makes of it is what counts. */
static int result_check(struct turn *t, struct request_result *r)
{
    struct faces *faces = t->kernel->faces;
    const struct faced *of = faces == NULL ? NULL : faces_of(faces, t->job->kind);
    struct bringing x = {.told = r->told,
                         .build = r->build,
                         .note = r->of.note,
                         .kind = r->kind,
                         .output = r->output};
    struct qp_err err = {0};
    int rc = QP_OK;
    if (r->kind == RESULT_ERROR || r->kind == RESULT_PARK) {
        return QP_OK;
    }
    if (of != NULL && of->face->result != NULL) {
        rc = of->face->result(of->state, t, &x, &err);
    } else if (!str_is_none(r->told)) {
        rc = refuse_told(&err);
    }
    r->refused_as = x.word;
    r->parks = x.parks;
    if (rc == QP_OK && !str_is_none(r->told)) {
        result_take(r, &x);
    }
    return refusal_keep(&r->refusal, t->bundle, rc, &err);
}

/* The turn that the result begins, of the task that it is of. */
static int result_begin(struct engine *e, struct request_result *r, struct bundle *b,
                        struct turn *out_turn)
{
    if (r->task == NULL) {
        QP_TRY(result_find(r, b));
    }
    return result_turn(e, r, b, out_turn);
}

static int decide_kind(struct turn *t, struct request_result *r)
{
    switch (r->kind) {
    case RESULT_PENDING:
        return decide_pending(t, r);
    case RESULT_ERROR:
        return decide_error(t, r);
    case RESULT_PARK:
        return decide_park(t, r);
    case RESULT_BACK:
        return decide_back(t, r);
    case RESULT_DONE:
    case RESULT_OTHER:
        break;
    }
    QP_ASSERT(r->kind == RESULT_DONE);
    return decide_done(t, r);
}

/* Where the job's journal stands with all of it. */
static int seq_read(struct bundle *b, struct request_result *r)
{
    struct job_row key = {.ns = r->of.ref.ns, .job = r->of.ref.job};
    const void *row = NULL;
    QP_TRY(bundle_run(b));
    QP_TRY(bundle_get(b, TABLE_job, &key, &row));
    r->seq = row == NULL ? 0 : ((const struct job_row *)row)->seq;
    return QP_OK;
}

static int result_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_result *r = (struct request_result *)c;
    struct op host = {.kind = OP_host_call, .host_call = {r->host, r->host_context}};
    struct turn t;
    int rc;
    if (!str_is_none(r->told)) {
        r->kind = r->said; /* it may be decided again */
        r->output = r->said_output;
    }
    r->refusal = (struct refusal){0};
    QP_TRY(keyed_begin(&r->keyed, b));
    rc = result_begin(e, r, b, &t);
    if (rc == QP_E_NOT_FOUND) {
        return QP_E_STALE; /* its job is gone, and the task with it */
    }
    QP_TRY(rc);
    r->workflow = t.job->workflow;
    QP_TRY(result_check(&t, r));
    QP_TRY(decide_kind(&t, r));
    QP_TRY(starts_decide(e, r, b));
    QP_TRY(r->host != NULL ? step_op(b, &host) : QP_OK);
    return seq_read(b, r);
}

void request_result(struct request_result *r)
{
    r->command.label = "result";
    if (r->task != NULL) {
        const struct task *task = r->task;
        r->of = (struct result_of){
            .ref = task->ref, .addr = task->addr, .tries = task->tries, .failures = task->failures};
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

/* type_await.c - await: category A, another job
 *
 *   Leg1    input is mapped; the child's row and its START message are in the commit: 001100000000000
 *   Leg2    the child's end is the reply: steps and digits as a worker's
 *
 * `await: false` detaches: the reply is the child's id, at once, and its end is its own. One that is awaited is asked to end when
 * its parent ends before it, however that ends. A child that ends in an error is
 * started again as the policy says: its reply then counts as a pending one, with the next child in the same commit.
 *
 * If we crash before Leg1's commit, there is no child; if after it, it begins by its message, whoever is there then. Its end
 * and the parent's reply are one commit. An id that another job has is a reply of 409, so nobody waits for
 * ever (H3).
 */
#include "base/json.h"
#include "graph/action.h"
#include "kernel/face.h"
#include "kernel/retry.h"

static int describe(struct action *s, struct op_act_create *row)
{
    const struct activity *x = s->activity;
    int rc = action_topic(s, x->topic, &row->topic);
    bool awaits = true;
    row->category = 'A';
    row->policy = x->policy;
    rc = rc == QP_OK ? setting_bool(s, x->awaits, "await", true, &awaits) : rc;
    rc = rc == QP_OK ? action_json(s, x->input, &row->input) : rc;
    if (rc == QP_OK && str_is_none(row->input)) {
        row->input = QP_STR("{}");
    }
    return rc;
}

/* What cannot be started is a reply, too. */
static int refuse(struct action *s, const struct call_job *call, int64_t code, const char *why)
{
    qp_str error;
    int rc = action_error(s, code, why, &error);
    return rc == QP_OK ? turn_send(s->turn, s->turn->site.addr, call->purpose, code, error) : rc;
}

/* A detached child's id is the reply, at once. */
static int tell_id(struct action *s, qp_str jid)
{
    struct buf out;
    struct json_writer w;
    qp_str json = QP_NONE;
    int rc;
    buf_init(&out, s->scope.env, LIMIT_PAYLOAD_SIZE);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_key(&w, QP_STR("job_id"));
    json_put_str(&w, jid);
    json_end_object(&w);
    rc = json_writer_done(&w);
    rc = rc == QP_OK && !arena_copy(action_arena(s), buf_slice(&out), &json) ? QP_E_NOMEM : rc;
    buf_done(&out);
    return rc == QP_OK ? turn_send(s->turn, s->turn->site.addr, QP_STR("detached"), 200, json) : rc;
}

static int call_child(struct action *s, qp_str purpose, qp_ms delay_ms)
{
    const struct act_row *act = s->turn->act;
    struct naming name = {.ns = act->ns,
                          .name = act->topic,
                          .input = act->input,
                          .caller = s->turn->job->version,
                          .caller_kind = s->turn->job->kind};
    struct call_job call = {
        .workflow = act->topic, .input = act->input, .purpose = purpose, .delay_ms = delay_ms};
    struct qp_err err;
    qp_str jid = QP_NONE;
    bool awaits = true;
    int rc;
    QP_TRY(setting_bool(s, s->activity->awaits, "await", true, &awaits));
    call.detached = !awaits;
    call.close = awaits ? CLOSE_CANCEL : CLOSE_ABANDON;
    rc = faces_start(turn_faces(s->turn), s->turn->bundle, &name, &err);
    if (rc == QP_E_SHAPE || rc == QP_E_INVALID) {
        return refuse(s, &call, 422, err.text);
    }
    if (rc == QP_E_NOT_FOUND) {
        return refuse(s, &call, 404, err.text);
    }
    QP_TRY(rc);
    call.kind = name.kind;
    call.version = name.version;
    call.jid = name.jid;
    call.out_jid = &jid;
    QP_TRY(turn_call(s->turn, &call));
    return call.detached && !str_is_none(jid) ? tell_id(s, jid) : QP_OK;
}

static int enter(struct action *s)
{
    return call_child(s, QP_STR("call"), 0);
}

static int work(struct action *s, struct work *work)
{
    return work->code >= 400 ? QP_OK : action_output(s, work->output, &work->output);
}

static int again_after(struct action *s, qp_ms *out_delay_ms)
{
    struct retry policy;
    int rc = QP_OK;
    *out_delay_ms = -1;
    if (s->turn->guid.code < 400 || str_is_none(s->activity->policy)) {
        return QP_OK;
    }
    rc = retry_parse(s->activity->policy, &policy, NULL);
    if (rc == QP_OK) {
        QP_ASSERT(s->turn->act->attempt > 0); /* step 1 has counted this one */
        *out_delay_ms = retry_after(&policy, s->turn->guid.code, s->turn->act->attempt);
    }
    return rc;
}

static int spawn(struct action *s, struct spawn *spawn)
{
    qp_ms delay_ms = -1;
    int rc = again_after(s, &delay_ms);
    if (rc != QP_OK || delay_ms < 0) {
        return rc == QP_OK ? advance(s, spawn) : rc;
    }
    spawn->pending = true;
    /* What is kept has its next answer already. */
    return s->turn->act->kind == ACT_KEPT ? QP_OK : call_child(s, QP_STR("again"), delay_ms);
}

const struct type type_await = {
    .word = "await", .describe = describe, .enter = enter, .work = work, .spawn = spawn};

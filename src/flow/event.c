/* event.c - what the events of a flow wait for, and what their answers keep (see event.h)
 *
 *   I1  of a timer and a signal the one that takes the registration has won: a signal when it is sent, the timer when it
 *       enters (yields). So a signal that was taken is never lost to a timer
 *   I3  a cancel yields to a signal that was taken, as a timer does
 *   I2  the row of the signals event at `got` is made by step 1 of the answer that brings the signals: whoever can see that
 *       the sleep was interrupted sees the signals, too
 *
 *   I4  the first answer of a detached child is its id. That it has ended comes to the event too, when it is not to outlive its
 *       flow, and yields to the id that is still on its way
 *
 * If we crash before the commit of a child's Leg1, there is no child; after it the child has its row and begins by a message.
 * If we crash between step 1 and step 2 of such an answer, the row at `got` stands with ledger 0; step 2 enters it.
 */
#include "flow/event.h"

#include "flow/cancel.h"
#include "flow/copy.h"
#include "flow/flow.h"
#include "kernel/deciding.h"
#include "kernel/face.h"
#include "store/error.h"

int64_t event_category(enum flow_op op)
{
    switch (op) {
    case FLOW_OP_ACTIVITY:
    case FLOW_OP_SLEEP:
    case FLOW_OP_LISTEN:
    case FLOW_OP_CHILD:
        return 'A';
    default:
        return 'B';
    }
}

/* ----------------------------------------------------------------------------------- the input */

/* The member of the input that the decision wrote; none: it has none. */
static qp_str member(const struct turn *t, const char *name)
{
    return flow_member(t->act->input, name);
}

static qp_ms number(const struct turn *t, const char *name)
{
    qp_str value = member(t, name);
    return str_is_none(value) ? 0 : (qp_ms)real_parse(value);
}

/* A sleep that listens, too: a listen with a time limit. */
static bool has_limit(const struct turn *t)
{
    return t->act->kind == HISTORY_SLEEP && t->act->category == 'A' &&
           !str_is_none(member(t, "got"));
}

static int got_address(struct turn *t, qp_str *out_addr)
{
    char addr[LOCATION_ADDRESS_SIZE];
    qp_str text = member(t, "got");
    struct location at;
    int rc = location_parse((qp_str){text.p + 1, text.n - 2}, &at, NULL);
    QP_ASSERT(rc == QP_OK);
    return arena_copy(turn_arena(t), (qp_str){addr, location_address(&at, addr)}, out_addr)
               ? QP_OK
               : QP_E_NOMEM;
}

/* ------------------------------------------------------------------------------------------- Leg1 */

static int enter_timer(struct turn *t)
{
    return turn_timer_at(t, QP_STR("sleep"), number(t, "until"));
}

/* Names have no escapes: they were checked to be names. */
static int enter_listen(struct turn *t)
{
    qp_str names[LIMIT_LISTEN_NAMES];
    struct turn_listen listen = {.names = names, .limit = number(t, "limit")};
    struct raw_walk w = {.rest = member(t, "names")};
    while (raw_each(&w)) {
        QP_ASSERT(listen.name_count < LIMIT_LISTEN_NAMES);
        names[listen.name_count++] = (qp_str){w.value.p + 1, w.value.n - 2};
    }
    return turn_listen(t, &listen);
}

static int child_of(struct turn *t, struct flow_child *out_child)
{
    return flow_child(store_env(t->bundle->commit->store), turn_arena(t), t->act->input, out_child);
}

/* What a start that its name refuses answers; 0: it is no refusal. */
static int64_t refusal_code(int rc)
{
    switch (rc) {
    case QP_E_SHAPE:
    case QP_E_INVALID:
        return 422;
    case QP_E_NOT_FOUND:
        return 404;
    case QP_E_CONFLICT:
        return 409;
    case QP_E_TOO_LARGE:
        return 413;
    case QP_E_LIMIT:
        return 429;
    default:
        return 0;
    }
}

static int refuse_child(struct turn *t, int64_t code, const char *why)
{
    struct error e = {.code = code, .message = str_from(why), .addr = t->site.addr};
    qp_str error;
    QP_TRY(error_write(turn_arena(t), &e, &error));
    return turn_send(t, t->site.addr, QP_STR("refused"), code, error);
}

/* What a detached child brings: its id, as a graph has it. */
static int tell_id(struct turn *t, qp_str jid)
{
    struct buf out;
    struct json_writer w;
    qp_str output = QP_NONE;
    bool done;
    buf_init(&out, store_env(t->bundle->commit->store), 0);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_key(&w, QP_STR("job_id"));
    json_put_str(&w, jid);
    json_end_object(&w);
    done = json_writer_done(&w) == QP_OK && arena_copy(turn_arena(t), buf_slice(&out), &output);
    buf_done(&out);
    return done ? turn_send(t, t->site.addr, QP_STR("detached"), 200, output) : QP_E_NOMEM;
}

/* What the name means is decided in this commit: a graph of the version that is active now, a flow, or a flow that no
 * process has announced yet. */
static int enter_child(struct turn *t)
{
    struct flow_child child;
    struct naming name = {.ns = t->act->ns, .name = t->act->topic, .announces = true};
    struct call_job call = {.workflow = t->act->topic, .purpose = FLOW_CALL};
    struct qp_err err = {0};
    qp_str jid = QP_NONE;
    int rc;
    QP_TRY(child_of(t, &child));
    name.input = child.input;
    rc = faces_start(turn_faces(t), t->bundle, &name, &err);
    if (refusal_code(rc) > 0) {
        return refuse_child(t, refusal_code(rc), err.text);
    }
    QP_TRY(rc);
    call.kind = name.kind;
    call.version = name.version;
    call.jid = str_is_none(child.id) ? name.jid : child.id;
    call.input = child.input;
    call.detached = child.detached;
    call.close = child.close;
    call.out_jid = &jid;
    QP_TRY(turn_call(t, &call));
    return child.detached && !str_is_none(jid) ? tell_id(t, jid) : QP_OK;
}

/* The flow was cancelled between the decision that made it and its Leg1: it begins nothing. Without a payload the answer ends no
 * registration, since there is none. */
static int enter_dead(struct turn *t)
{
    return turn_send(t, t->site.addr, QP_STR("dead"), ERROR_CODE_CANCELLED, QP_NONE);
}

int event_enter(struct turn *t)
{
    bool copy = false;
    bool answered = false;
    QP_TRY(flow_copy_keeps(t, &copy, &answered));
    if (answered) {
        return QP_OK;
    }
    if (flow_cancels(t->job, t->act)) {
        return enter_dead(t);
    }
    switch ((enum history_type)t->act->kind) {
    case HISTORY_ACTIVITY:
        return turn_task(t, t->act->topic);
    case HISTORY_SLEEP:
        QP_TRY(enter_timer(t));
        return has_limit(t) ? enter_listen(t) : QP_OK;
    case HISTORY_CHILD:
        return enter_child(t);
    default:
        QP_ASSERT(t->act->kind == HISTORY_SIGNALS);
        return enter_listen(t);
    }
}

/* ------------------------------------------------------------------------------------------- Leg2 */

static bool is_timer(const struct turn *t)
{
    return t->code == 0;
}

/* It takes the answer of a signal or a timer; of an activity or a child it is an answer as any other. */
static bool is_cancel(const struct turn *t)
{
    return t->code == ERROR_CODE_CANCELLED && t->act->kind != HISTORY_ACTIVITY &&
           t->act->kind != HISTORY_CHILD;
}

static bool listens(const struct turn *t)
{
    return t->act->kind == HISTORY_SIGNALS || has_limit(t);
}

/* A detached child has ended before its id was told. */
static int child_yields(struct turn *t, bool *out_yields)
{
    struct flow_child child;
    *out_yields = false;
    QP_TRY(child_of(t, &child));
    return child.detached ? turn_is_call_end(t, FLOW_CALL, out_yields) : QP_OK;
}

int event_yields(struct turn *t, bool *out_yields)
{
    bool waited = true;
    bool takes_back = is_cancel(t) && !str_is_none(t->payload) && listens(t);
    if (t->act->kind == HISTORY_CHILD) {
        return child_yields(t, out_yields);
    }
    if ((has_limit(t) && is_timer(t)) || takes_back) {
        QP_TRY(turn_hook_close(t, &waited));
    }
    *out_yields = !waited;
    return QP_OK;
}

/* Signals came in time: they stand at `got`, as an event of their own. */
static int make_got(struct turn *t, qp_str signals)
{
    struct op_act_create row = {
        .kind = HISTORY_SIGNALS, .category = 'B', .version = t->act->version, .input = signals};
    QP_TRY(got_address(t, &row.addr));
    return turn_row(t, &row);
}

int event_work(struct turn *t, struct work *work)
{
    bool copy = false;
    bool answered = false;
    QP_TRY(flow_copy_keeps(t, &copy, &answered));
    if (work->code == ERROR_CODE_CANCELLED && str_is_none(work->output)) {
        QP_TRY(flow_cancel_error(turn_arena(t), t->site.addr, &work->output));
    }
    if (answered || t->act->kind != HISTORY_SLEEP || t->act->category != 'A' || is_cancel(t)) {
        return QP_OK;
    }
    if (flow_cancels(t->job, t->act)) {
        return QP_OK; /* it is too late: what has come is recorded here, and stands at no place */
    }
    work->code = 200;
    if (is_timer(t)) {
        work->output = QP_STR("{\"interrupted\":false}");
        return QP_OK;
    }
    QP_TRY(make_got(t, work->output));
    work->output = QP_STR("{\"interrupted\":true}");
    return QP_OK;
}

/* Step 2 goes by what step 1 has kept. */
static bool was_interrupted(const struct turn *t)
{
    return t->act->kind == HISTORY_SLEEP &&
           str_equal(t->guid.output, QP_STR("{\"interrupted\":true}"));
}

static int send_signal(struct turn *t)
{
    struct turn_signal_job signal = {.name = t->act->topic, .payload = member(t, "data")};
    const struct qp_env *env = store_env(t->bundle->commit->store);
    return raw_text(env, turn_arena(t), member(t, "to"), &signal.job) ? turn_signal_job(t, &signal)
                                                                      : QP_E_NOMEM;
}

int event_spawn(struct turn *t, struct spawn *spawn)
{
    bool interrupted;
    bool copy = false;
    bool answered = false;
    QP_TRY(flow_copy_keeps(t, &copy, &answered));
    if (t->act->category == 'B') {
        return t->act->kind == HISTORY_SIGNAL && !copy ? send_signal(t) : QP_OK;
    }
    interrupted = !answered && was_interrupted(t);
    if (interrupted) {
        qp_str got;
        QP_TRY(got_address(t, &got));
        QP_TRY(turn_child_at(t, got));
    }
    spawn->notify = (struct op_act_notify){
        .addr = FLOW_ADDRESS, .urgent = interrupted || t->act->kind == HISTORY_SIGNALS};
    return QP_OK;
}

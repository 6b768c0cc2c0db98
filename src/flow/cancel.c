/* cancel.c - how a flow that is asked to end ends (see cancel.h)
 *
 *   I1  job.cancelled is set once, by the op whose journal entry has this sequence
 *   I2  a signal that has taken the registration of a listen is its answer: the cancel yields to it (event.c)
 *   I3  what no worker has is taken back and answered in one commit: no task of a dead work that is answered is given out
 */
#include "flow/cancel.h"

#include "flow/copy.h"
#include "flow/flow.h"
#include "kernel/ledger.h"
#include "kernel/message.h"
#include "store/error.h"

static const struct qp_env *env_of(struct turn *t)
{
    return store_env(t->bundle->commit->store);
}

/* ----------------------------------------------------------------------------------- what it keeps */

static int keep_json(struct turn *t, struct buf *out, qp_str name)
{
    qp_str text = QP_NONE;
    int rc = buf_rc(out);
    if (rc == QP_OK && !arena_copy(turn_arena(t), buf_slice(out), &text)) {
        rc = QP_E_NOMEM;
    }
    buf_done(out);
    QP_TRY(rc);
    return turn_data_put(t, name, text);
}

/* `reason` is JSON, `thrown` a text, or none. */
static int keep_cancel(struct turn *t, qp_ms at, qp_str reason, qp_str loc)
{
    struct buf out;
    buf_init(&out, env_of(t), 0);
    buf_printf(&out, "{\"at\":%lld,\"reason\":%.*s", (long long)at, STR_ARG(reason));
    if (!str_is_none(loc)) {
        buf_printf(&out, ",\"thrown\":\"%.*s\"", STR_ARG(loc));
    }
    buf_text(&out, "}");
    return keep_json(t, &out, FLOW_CANCEL);
}

static int keep_thrown(struct turn *t, qp_str loc)
{
    const struct data_row *row = NULL;
    QP_TRY(turn_data(t, FLOW_CANCEL, &row));
    if (row == NULL || !str_is_none(flow_member(row->value, "thrown"))) {
        return QP_OK;
    }
    return keep_cancel(t, (qp_ms)real_parse(flow_member(row->value, "at")),
                       flow_member(row->value, "reason"), loc);
}

static int keep_defers(struct turn *t, qp_str names)
{
    const struct data_row *row = NULL;
    QP_TRY(turn_data(t, FLOW_DEFERS, &row));
    return row != NULL && str_equal(row->value, names) ? QP_OK
                                                       : turn_data_put(t, FLOW_DEFERS, names);
}

int cancel_keep(struct turn *t, const struct decision *decision)
{
    if (t->job->cancelled > 0 && !str_is_none(decision->thrown)) {
        QP_TRY(keep_thrown(t, decision->thrown));
    }
    return str_is_none(decision->defers) ? QP_OK : keep_defers(t, decision->defers);
}

int cancel_facts(struct turn *t, qp_str *out_error, bool *out_met)
{
    const struct data_row *row = NULL;
    struct error e = {.code = ERROR_CODE};
    QP_TRY(turn_data(t, FLOW_CANCEL, &row));
    QP_ASSERT(row != NULL);
    *out_met = !str_is_none(flow_member(row->value, "thrown"));
    if (!raw_text(env_of(t), turn_arena(t), flow_member(row->value, "reason"), &e.message)) {
        return QP_E_NOMEM;
    }
    return e.message.n == 0 ? QP_OK : error_write(turn_arena(t), &e, out_error);
}

/* -------------------------------------------------------------------------------------- taking back */

/* The child ends as its close policy says, or goes on; the flow does not wait for it any more. */
static int close_child(struct turn *t, const struct act_row *act)
{
    struct flow_child child;
    struct call_job call = {.purpose = FLOW_CALL};
    QP_TRY(flow_child(env_of(t), turn_arena(t), act->input, &child));
    call.jid = child.id;
    return turn_call_close(t, act, &call);
}

/* Whether the work waits for what can be taken back; a listen says so when it is answered. */
static int take_back(struct turn *t, const struct act_row *act, bool *out_gone)
{
    const char *purpose = act->kind == HISTORY_ACTIVITY ? "task" : "sleep";
    qp_str guid;
    *out_gone = act->kind == HISTORY_SIGNALS || act->kind == HISTORY_CHILD;
    if (act->kind == HISTORY_CHILD) {
        return close_child(t, act);
    }
    if (act->kind != HISTORY_ACTIVITY && act->kind != HISTORY_SLEEP) {
        return QP_OK;
    }
    QP_TRY(turn_guid_of(t, act, str_from(purpose), &guid));
    return turn_withdraw(t, guid, out_gone);
}

static bool is_open(const struct act_row *act)
{
    return ledger_leg1_is_done(act->ledger) && !ledger_is_finalized(act->ledger) &&
           act->guid_seq == 0 && act->escalated == 0;
}

static int answer_dead(struct turn *t, const struct act_row *act)
{
    struct answer_at answer = {
        .purpose = QP_STR("cancel"), .code = ERROR_CODE_CANCELLED, .each = true, .now = true};
    return arena_copy(turn_arena(t), act->addr, &answer.addr) &&
                   flow_cancel_error(turn_arena(t), answer.addr, &answer.payload) == QP_OK
               ? turn_answer_at(t, &answer)
               : QP_E_NOMEM;
}

/* The dead works of a page; *out_after is the last address that was looked at, none: there are no more. */
static int page_collect(struct turn *t, qp_str after, const struct act_row *works[LIMIT_SWEEP_ROWS],
                        size_t *out_count, qp_str *out_after)
{
    struct bundle_rows page;
    size_t count = 0;
    QP_TRY(turn_range(t, QP_STR("@"), after, LIMIT_SWEEP_ROWS, &page));
    for (size_t i = 0; i < page.count; i++) {
        const struct act_row *act = page.rows[i];
        if (flow_cancels(t->job, act) && is_open(act)) {
            works[count++] = act;
        }
    }
    *out_count = count;
    *out_after = QP_NONE;
    if (page.count == LIMIT_SWEEP_ROWS || page.cut) {
        const struct act_row *last = page.rows[page.count - 1];
        return arena_copy(turn_arena(t), last->addr, out_after) ? QP_OK : QP_E_NOMEM;
    }
    return QP_OK;
}

/* What the message says that does the rest: it asks for nothing new. */
#define PAGE QP_STR("quipu:page")

static bool is_page(qp_str error)
{
    return str_equal(error, PAGE);
}

/* The rest of them, in a commit of its own: the job is asked once more. */
static int ask_again(struct turn *t)
{
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.ref = t->site.ref,
                                .kind = MESSAGE_END,
                                .topic = ENGINE_TOPIC,
                                .addr = TRIGGER_ADDRESS,
                                .payload = PAGE,
                                .code = end_code(JOB_CANCELLED, false) | END_ASKS,
                                .once = true}};
    QP_TRY(turn_guid(t, QP_STR("again"), &op.msg_put.guid));
    return turn_op(t, &op);
}

/* Looks at the whole history, and takes back one page of what it finds. */
static int take_back_page(struct turn *t)
{
    const struct act_row *works[LIMIT_SWEEP_ROWS];
    qp_str after = QP_NONE;
    size_t taken = 0;
    size_t count;
    do {
        QP_TRY(page_collect(t, after, works, &count, &after));
        for (size_t i = 0; i < count; i++) {
            bool gone = false;
            QP_TRY(take_back(t, works[i], &gone));
            QP_TRY(gone ? answer_dead(t, works[i]) : QP_OK);
            taken += gone;
        }
    } while (!str_is_none(after) && taken < LIMIT_SWEEP_ROWS);
    return str_is_none(after) ? QP_OK : ask_again(t);
}

/* ------------------------------------------------------------------------------------------ asking */

static int ask(struct turn *t, qp_str error)
{
    struct error e;
    struct json_writer w;
    struct buf out;
    qp_str reason;
    struct op op = {
        .kind = OP_job_set,
        .job_set = {.ref = t->site.ref, .what = JOB_SET_CANCELLED, .cancelled = t->job->seq + 1}};
    QP_TRY(error_read(turn_arena(t), error, &e));
    e.message = str_is_none(e.message) ? QP_STR("") : e.message;
    op.job_set.reason = e.message;
    buf_init(&out, env_of(t), 0);
    json_writer_init(&w, &out);
    json_put_str(&w, e.message);
    if (json_writer_done(&w) != QP_OK || !arena_copy(turn_arena(t), buf_slice(&out), &reason)) {
        buf_done(&out);
        return QP_E_NOMEM;
    }
    buf_done(&out);
    QP_TRY(turn_op(t, &op));
    QP_TRY(keep_cancel(t, bundle_now(t->bundle), reason, QP_NONE));
    return turn_notify(t, &(struct op_act_notify){.addr = FLOW_ADDRESS, .urgent = true});
}

/* ----------------------------------------------------------------------------------- ends at once */

/* There is no code that could see it: it has made no decision yet, or it has returned, or its history is still copied. */
static int has_code(struct turn *t, bool *out_has)
{
    const struct act_row *flow = NULL;
    const struct data_row *returned = NULL;
    bool copies = false;
    QP_TRY(turn_act(t, FLOW_ADDRESS, &flow));
    QP_TRY(turn_data(t, FLOW_RETURN, &returned));
    QP_TRY(flow_copy_is_on(t, &copies));
    *out_has = !copies && flow != NULL && ledger_leg2_entries(flow->ledger) > 0 && returned == NULL;
    return QP_OK;
}

/* "reason; compensations that were not run: refund, release" */
static int name_defers(struct turn *t, qp_str *error)
{
    const struct data_row *row = NULL;
    struct raw_walk w;
    struct error e;
    struct buf out;
    int rc;
    QP_TRY(turn_data(t, FLOW_DEFERS, &row));
    if (row == NULL || str_equal(row->value, QP_STR("[]"))) {
        return QP_OK;
    }
    QP_TRY(error_read(turn_arena(t), *error, &e));
    e.code = e.code >= 400 ? e.code : ERROR_CODE;
    w = (struct raw_walk){.rest = row->value};
    buf_init(&out, env_of(t), LIMIT_ERROR_TEXT_SIZE);
    buf_printf(&out, "%.*s%scompensations that were not run:", STR_ARG(e.message),
               e.message.n > 0 ? "; " : "");
    while (raw_each(&w)) {
        buf_printf(&out, "%s %.*s", w.index > 0 ? "," : "", (int)w.value.n - 2, w.value.p + 1);
    }
    e.message = error_cut(buf_slice(&out));
    rc = error_write(turn_arena(t), &e, error);
    buf_done(&out);
    return rc;
}

int flow_cancel(void *state, struct turn *t, qp_str *error, bool *out_ends)
{
    bool has = false;
    (void)state;
    if (!str_is_none(t->job->parked)) {
        *out_ends = !is_page(*error);
        return name_defers(t, error);
    }
    QP_TRY(has_code(t, &has));
    if (!has) {
        return QP_OK;
    }
    *out_ends = false;
    if (t->job->cancelled == 0) {
        QP_TRY(ask(t, *error));
        QP_TRY(turn_job(t));
    }
    return take_back_page(t);
}

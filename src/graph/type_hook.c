/* type_hook.c - hook: category A while it waits for a time or a signal, B when it only passes on
 *
 *   time      `sleep` is a positive number of seconds    Leg1 puts the timer: 001100000000000; Leg2 when it is due
 *   web       a rule of `hooks` names it                 Leg1 registers at (topic, key); Leg2 per signal
 *   both      whichever is committed first; the other brings nothing
 *   neither   passthrough: all in Leg1, with a GUID of its own: 001100000000000 and 000011000000000; a pivot
 *             (`cycle: true`) begins like this, with its first Leg2 entry counted (001100000000001), and runs again
 *             for each cycle as Leg2 in the next plane
 *
 * A signal of code 202 runs the branches of 202 and leaves the hook registered.
 *
 * If we crash before Leg1's commit, nobody waits and no timer runs; if after it, both stand in the store. A signal that came
 * before is waiting at the same row and becomes the answer in the same commit (H13). Of a signal and a timer the one that
 * takes the registration has won: a signal when it is sent, the timer when it enters. So no signal that was taken is lost
 * to a timer, and none is swallowed by who is gone.
 */
#include "graph/action.h"

static_assert(LIMIT_CYCLES == 10000, "a sentence below names it");

static int describe(struct action *s, struct op_act_create *row)
{
    const struct activity *x = s->activity;
    qp_ms ms = 0;
    int rc = setting_sleep(s, &ms);
    row->category = ms > 0 || x->hook != NULL ? 'A' : 'B';
    row->cyclic = x->pivot ? CYCLIC_PIVOT : CYCLIC_NO;
    row->topic = x->hook != NULL ? x->hook->topic : QP_NONE;
    return rc == QP_OK ? action_json(s, x->input, &row->input) : rc;
}

static int enter(struct action *s)
{
    const struct activity *x = s->activity;
    qp_ms ms = 0;
    qp_str key = QP_NONE;
    int rc = setting_sleep(s, &ms);
    rc = rc == QP_OK && x->hook != NULL ? hook_key(s, x->hook, true, &key) : rc;
    /* What waits for a time only gets its timer, also when that time has come since it was described. */
    if (rc == QP_OK && (ms > 0 || x->hook == NULL)) {
        rc = turn_timer(s->turn, QP_STR("sleep"), ms);
    }
    if (rc != QP_OK || (x->hook != NULL && str_is_none(key))) {
        return rc != QP_OK ? rc : QP_E_INVALID;
    }
    QP_TRY(escalation_put(s));
    QP_TRY(turn_note_wait(s->turn, x->hook != NULL ? x->hook->topic : QP_NONE, key, ms));
    return x->hook == NULL ? QP_OK : turn_hook(s->turn, x->hook->topic, key, false);
}

/* Both are kept when there are two: what came, and what was made of it. */
static int envelope(struct action *s, qp_str came, qp_str made, qp_str *out_json)
{
    struct buf out;
    int rc;
    buf_init(&out, s->scope.env, LIMIT_PAYLOAD_HARD_SIZE);
    buf_byte(&out, '{');
    if (!str_is_none(came)) {
        buf_text(&out, "\"hook\":");
        buf_str(&out, came);
    }
    if (!str_is_none(made)) {
        buf_text(&out, out.n > 1 ? ",\"output\":" : "\"output\":");
        buf_str(&out, made);
    }
    buf_byte(&out, '}');
    rc = buf_rc(&out);
    rc = rc == QP_OK && !arena_copy(action_arena(s), buf_slice(&out), out_json) ? QP_E_NOMEM : rc;
    buf_done(&out);
    return rc;
}

/* A cycle brings what the pivot's output is in the next round. */
static bool is_round(const struct action *s)
{
    return s->activity->pivot && s->turn->act->category == 'B' && s->turn->has_guid &&
           guid_ordinal(s->turn->guid.ledger) > 0;
}

/* What ends the wait, and what waits in front of it: signals that leave the hook waiting were accepted, and have their
 * branches. If one of them is late, because its step failed or another node has it, the end comes again later. */
static int yields(struct action *s, bool *out_yields)
{
    struct turn *t = s->turn;
    bool pending = false;
    bool waited = true;
    int rc;
    if (t->act->category != 'A' || s->activity->hook == NULL || t->code == CODE_PENDING) {
        return QP_OK;
    }
    rc = turn_hook_pending(t, &pending);
    if (rc == QP_OK && pending) {
        return QP_E_DIGIT;
    }
    rc = rc == QP_OK && t->code == 0 ? turn_hook_close(t, &waited) : rc; /* a timer has no code */
    *out_yields = !waited;
    return rc;
}

static int work(struct action *s, struct work *work)
{
    const struct activity *x = s->activity;
    qp_str came = s->turn->act->category == 'B' && !is_round(s) ? QP_NONE : work->output;
    qp_str made = QP_NONE;
    int rc = QP_OK;
    if (is_round(s) && !str_is_none(came)) {
        made = came;
    } else {
        s->has_self = true;
        s->self_output = came;
        rc = x->output == NULL ? QP_OK : action_json(s, x->output, &made);
        s->has_self = false;
    }
    if (rc != QP_OK) {
        return rc;
    }
    if (x->output == NULL) {
        work->output = came;
        return QP_OK;
    }
    return envelope(s, came, made, &work->output);
}

static int spawn(struct action *s, struct spawn *spawn)
{
    if (is_round(s) && step_dimension(s->turn->guid.ledger) >= LIMIT_CYCLES) {
        qp_str error;
        int rc = action_error(s, 500, "the cycle has run as often as it may: LIMIT_CYCLES is 10000",
                              &error);
        turn_fail(s->turn, JOB_FAILED, error);
        return rc;
    }
    if (s->turn->act->category == 'A' && s->turn->guid.code != CODE_PENDING) {
        QP_TRY(escalation_end(s));
    }
    return advance(s, spawn);
}

const struct type type_hook = {.word = "hook",
                               .describe = describe,
                               .enter = enter,
                               .yields = yields,
                               .work = work,
                               .spawn = spawn};

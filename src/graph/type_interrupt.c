/* type_interrupt.c - interrupt: category C for the job itself, B for another one
 *
 *   self      entry with a GUID (H9), step A as ever, and step B is the end of the job, INTERRUPTED: this GUID owns the
 *             edge, and its step C completes. Activity 001100000000000. Nothing more of the job runs
 *   another   step A puts the END message to the other job in the commit that says so; then children as any B
 *
 * `descend` ends the jobs below, too. If we crash before step A's commit, nobody was told; if after it, the END is in the stream,
 * and the other job's ledgers see to it that it ends once.
 */
#include "base/json.h"
#include "graph/action.h"

static int target_of(struct action *s, qp_str *out_jid, bool *out_self)
{
    int rc = setting_target(s, out_jid);
    *out_self = str_is_none(*out_jid) || str_equal(*out_jid, s->turn->job->jid);
    return rc;
}

static int describe(struct action *s, struct op_act_create *row)
{
    qp_str jid;
    bool self = true;
    int rc = target_of(s, &jid, &self);
    row->category = self ? 'C' : 'B';
    return rc == QP_OK ? action_json(s, s->activity->input, &row->input) : rc;
}

/* What the ended job says of itself; none: it does not call it an error (throw: false). */
static int reason_of(struct action *s, qp_str *out_error)
{
    char why[LIMIT_ERROR_TEXT_SIZE];
    qp_str reason = QP_NONE;
    int64_t code = 410;
    bool throws = true;
    size_t n;
    int rc = action_text(s, s->activity->reason, &reason);
    rc = rc == QP_OK ? setting_code(s, 410, &code) : rc;
    rc = rc == QP_OK ? setting_bool(s, s->activity->throws, "throw", true, &throws) : rc;
    *out_error = QP_NONE;
    if (rc != QP_OK || !throws) {
        return rc;
    }
    reason = str_is_none(reason) ? QP_STR("interrupted") : reason;
    n = reason.n < sizeof why ? reason.n : sizeof why - 1;
    memcpy(why, reason.p, n);
    why[n] = '\0';
    return action_error(s, code, why, out_error);
}

static int work(struct action *s, struct work *work)
{
    qp_str jid;
    qp_str error = QP_NONE;
    bool self = true;
    bool descend = false;
    int rc = target_of(s, &jid, &self);
    rc = rc == QP_OK ? action_output(s, QP_NONE, &work->output) : rc;
    if (rc != QP_OK || s->turn->act->category == 'C') {
        return rc;
    }
    rc = reason_of(s, &error);
    rc = rc == QP_OK ? setting_bool(s, s->activity->descend, "descend", false, &descend) : rc;
    return rc == QP_OK ? turn_end_other(s->turn, jid, JOB_INTERRUPTED, error, descend) : rc;
}

static int spawn(struct action *s, struct spawn *spawn)
{
    qp_str error = QP_NONE;
    bool descend = false;
    int rc;
    if (s->turn->act->category != 'C') {
        return advance(s, spawn);
    }
    rc = advance(s, spawn); /* the job's data; it has no transitions */
    rc = rc == QP_OK ? reason_of(s, &error) : rc;
    rc = rc == QP_OK ? setting_bool(s, s->activity->descend, "descend", false, &descend) : rc;
    if (rc == QP_OK) {
        turn_fail(s->turn, JOB_INTERRUPTED, error);
    }
    if (rc == QP_OK && descend) {
        turn_descend(s->turn);
    }
    return rc;
}

const struct type type_interrupt = {
    .word = "interrupt", .describe = describe, .work = work, .spawn = spawn};

/* retry.c - what a person gives another attempt (see retry.h)
 *
 *   I1  a dead letter is never left in a job that is not parked                                    (fsck M7)
 *
 * If we crash before the commit, nothing was tried again; behind it all is in its stream.
 */
#include "agent/retry.h"

#include "agent/acting.h"
#include "agent/members.h"
#include "kernel/deciding.h"
#include "kernel/revive.h"

/* The work of "b0/1p0": branch 0, position 1p0. */
static int find_part(const struct instance *s, qp_str part, struct qp_err *err,
                     struct status **out_status)
{
    int64_t branch = 0;
    const char *slash = memchr(part.p, '/', part.n);
    size_t at = slash == NULL ? 0 : (size_t)(slash - part.p);
    *out_status = NULL;
    if (at > 1 && part.p[0] == 'b' && members_i64((qp_str){part.p + 1, at - 1}, &branch)) {
        qp_str position = {part.p + at + 1, part.n - at - 1};
        *out_status = status_find(&s->statuses, branch, position);
    }
    return *out_status != NULL
               ? QP_OK
               : err_set(err, QP_E_NOT_FOUND,
                         "the instance has no work '%.*s'; name it by branch and position, as "
                         "b0/1p0: quipu show --decisions lists them",
                         STR_ARG(part));
}

/* ------------------------------------------------------------------------------------- dead letters */

/* The decision that is out; NULL: its task is not there. */
static int decision_message(struct turn *t, const struct msg_row **out_message)
{
    unsigned char guid[LIMIT_GUID_SIZE];
    struct msg_row key = {
        .ns = t->site.ref.ns, .job = t->site.ref.job, .guid = {(const char *)guid, sizeof guid}};
    const struct act_row *act = NULL;
    const void *row = NULL;
    QP_TRY(turn_act(t, AGENT_ADDRESS, &act));
    QP_ASSERT(act != NULL);
    deciding_guid(t->job, act, guid);
    QP_TRY(bundle_get(t->bundle, TABLE_msg, &key, &row));
    *out_message = row;
    return QP_OK;
}

/* One that was given out too often is a dead letter as well, though it has not failed; its deliveries were attempts. */
static int mark_decision(struct acting *a)
{
    const struct msg_row *m = NULL;
    QP_TRY(decision_message(a->t, &m));
    if (m != NULL && m->state == MSG_DEAD) {
        a->s.decision_attempt += m->tries > 1 ? m->tries - 1 : 0;
        a->s.parked = true;
    }
    return QP_OK;
}

/* Those of an address; none: all. The job is not parked any more when no other is left. */
static int revive(struct turn *t, qp_str addr, struct revived *out)
{
    struct op unpark = {.kind = OP_job_set,
                        .job_set = {.ref = t->site.ref, .what = JOB_SET_PARKED}};
    QP_TRY(job_revive(t->bundle, t->site.ref, addr, out));
    if (out->count > 0 && out->left == 0) {
        QP_TRY(turn_op(t, &unpark));
    }
    return bundle_run(t->bundle);
}

static int refuse(struct qp_err *err)
{
    return err_set(err, QP_E_CONFLICT, "nothing of the instance has failed");
}

/* A job without an instance, or before it. */
static int retry_job(struct turn *t, qp_str part, struct qp_err *err)
{
    struct revived dead = {0};
    if (!str_is_none(part)) {
        return err_set(err, QP_E_NOT_FOUND, "it has no work '%.*s', nor any other", STR_ARG(part));
    }
    QP_TRY(revive(t, QP_NONE, &dead));
    return dead.count > 0 ? acting_note(t, AGENT_RETRIED, QP_NONE) : refuse(err);
}

/* -------------------------------------------------------------------------------------- the instance */

static int give_attempts(struct acting *a)
{
    for (size_t i = 0; i < a->s.effect_count; i++) {
        const struct effect *effect = &a->s.effects[i];
        struct answer_at again = {.purpose = QP_STR("again"),
                                  .code = AGENT_AGAIN,
                                  .payload = QP_STR("{}"), /* a code is kept with its output */
                                  .each = true};
        if (effect->kind != EFFECT_TASK && effect->kind != EFFECT_CHILD) {
            continue;
        }
        QP_TRY(agent_work_address(turn_arena(a->t), effect->status->branch_key,
                                  effect->status->number, &again.addr));
        QP_TRY(turn_answer_at(a->t, &again));
    }
    return QP_OK;
}

/* `status` NULL: all of it. */
static int retry_instance(struct acting *a, struct status *status, qp_str part, struct qp_err *err)
{
    struct revived dead = {0};
    qp_str addr = QP_NONE;
    if (status == NULL) {
        QP_TRY(mark_decision(a));
    } else {
        QP_TRY(agent_work_address(turn_arena(a->t), status->branch_key, status->number, &addr));
    }
    QP_TRY(revive(a->t, addr, &dead));
    QP_TRY(instance_retry(&a->s, acting_now(a->t), status));
    if (a->s.ignored && dead.count == 0) {
        return refuse(err);
    }
    QP_TRY(give_attempts(a));
    return acting_conclude(a, AGENT_RETRIED, part);
}

int agent_retry(void *state, struct turn *t, qp_str part, struct qp_err *err)
{
    struct acting a;
    struct status *status = NULL;
    int rc = acting_load(&a, t, WINDOW_WAITS | WINDOW_WORKS);
    (void)state;
    if (rc == QP_E_NOT_FOUND) {
        return retry_job(t, part, err);
    }
    QP_TRY(rc);
    if (!str_is_none(part)) {
        QP_TRY(find_part(&a.s, part, err, &status));
    }
    return retry_instance(&a, status, part, err);
}

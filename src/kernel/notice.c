/* notice.c - notices: news for an activity that waits for its answer (see program.h)
 *
 *   I1  a notice of a claim is in the commit of the claim, and its GUID follows from the activity and the attempt: while it is
 *       on its way, another delivery of the task puts none beside it
 *   I2  a notice is taken in the commit that acks it, by its program, or dropped there
 *   I3  neither needs the job's row where the task is claimed: what is read there was peeked at
 *
 *     claim of a task   ---- STARTED ---> engine's stream ---> program.notice
 *                       ---- LATE, delayed: a timer ---------> program.notice, or taken back with the attempt
 *     called job, step  ---- its own ----> the caller's ------> program.notice
 *
 * If we crash before the commit of a claim, there is neither claim nor notice. If we crash behind it, the notice is in the stream,
 * and the next delivery of the task finds it there, or puts one that the program has had: a program must know which attempts it
 * was told of.
 */
#include <stdio.h>

#include "kernel/turn_internal.h"

/* ------------------------------------------------------------------------------------------ putting */

static int notice_guid(struct bundle *b, const struct act_row *act, enum notice notice,
                       int64_t attempt, qp_str *out_guid)
{
    static const char *const words[NOTICE_KINDS] = {
        [NOTICE_STARTED] = "started", [NOTICE_LATE] = "late"};
    char purpose[40];
    int n = snprintf(purpose, sizeof purpose, "%s %lld", words[notice], (long long)attempt);
    QP_TRY(step_guid(b, act->parent_guid, act->addr, out_guid));
    return step_guid(b, *out_guid, (qp_str){purpose, (size_t)n}, out_guid);
}

static int attempt_text(struct arena *arena, int64_t attempt, qp_str *out_text)
{
    char number[24];
    int n = snprintf(number, sizeof number, "%lld", (long long)attempt);
    return arena_copy(arena, (qp_str){number, (size_t)n}, out_text) ? QP_OK : QP_E_NOMEM;
}

/* A notice of the kernel; its op. */
static int notice_op(struct bundle *b, const struct act_row *act, enum notice notice,
                     int64_t attempt, struct op *out_op)
{
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.ref = {act->ns, act->job},
                                .kind = MESSAGE_NOTICE,
                                .topic = ENGINE_TOPIC,
                                .addr = act->addr,
                                .code = notice,
                                .once = true}};
    QP_ASSERT(attempt > 0);
    QP_TRY(notice_guid(b, act, notice, attempt, &op.msg_put.guid));
    QP_TRY(attempt_text(&b->commit->arena, attempt, &op.msg_put.payload));
    *out_op = op;
    return QP_OK;
}

static int claim_put(struct bundle *b, const struct task_claim *claim, enum notice notice,
                     const struct claim_notices *told)
{
    struct op op;
    QP_TRY(notice_op(b, claim->act, notice, told->attempt, &op));
    op.msg_put.by = claim->by;
    op.msg_put.priority = claim->priority;
    op.msg_put.parent_guid = claim->by.guid;
    op.msg_put.delay_ms = notice == NOTICE_LATE ? told->late_ms : 0;
    return step_op(b, &op);
}

static bool has_end(qp_ms late_ms)
{
    return late_ms > 0 && late_ms <= LIMIT_TIMER_MS;
}

/* The worker is elsewhere: it has the task until the lease is over, also when this run has ended. */
static int claim_lease(struct bundle *b, const struct task_claim *claim, qp_ms lease_ms)
{
    struct op op = {.kind = OP_msg_extend,
                    .msg_extend = {.ref = claim->by, .lease_ms = lease_ms, .leases = true}};
    return step_op(b, &op);
}

int turn_claimed(const struct kernel *k, struct bundle *b, const struct task_claim *claim)
{
    const struct program *program = kernel_program(k, claim->kind);
    struct claim_notices told = {0};
    if (program == NULL || program->claimed == NULL) {
        return QP_OK;
    }
    QP_TRY(program->claimed(program->context, b, claim->act, &told));
    if (claim->program_leases && told.lease_ms > 0) {
        QP_TRY(claim_lease(b, claim, told.lease_ms));
    }
    if (told.attempt == 0) {
        return QP_OK;
    }
    QP_TRY(claim_put(b, claim, NOTICE_STARTED, &told));
    return has_end(told.late_ms) ? claim_put(b, claim, NOTICE_LATE, &told) : QP_OK;
}

int turn_late_set(struct turn *t, int64_t attempt, qp_ms late_ms)
{
    struct op op;
    if (!has_end(late_ms)) {
        return QP_OK;
    }
    QP_TRY(notice_op(t->bundle, t->act, NOTICE_LATE, attempt, &op));
    op.msg_put.priority = t->job->priority;
    op.msg_put.parent_guid = t->site.guid;
    op.msg_put.delay_ms = late_ms;
    return step_op(t->bundle, &op);
}

int turn_late_clear(struct turn *t, int64_t attempt)
{
    struct op op = {.kind = OP_msg_withdraw,
                    .msg_withdraw = {.ref = {t->site.ref.ns, t->site.ref.job, QP_NONE, 0}}};
    QP_TRY(notice_guid(t->bundle, t->act, NOTICE_LATE, attempt, &op.msg_withdraw.ref.guid));
    return step_op(t->bundle, &op);
}

/* ------------------------------------------------------------------------------------------- taking */

int turn_notice(struct turn *t)
{
    QP_TRY(turn_ledgers(t));
    if (t->act == NULL || act_is_over(t) || job_is_closed(t) || t->program->notice == NULL) {
        return turn_late(t);
    }
    QP_TRY(t->program->notice(t));
    QP_TRY(bundle_run(t->bundle));
    return turn_answers(t);
}

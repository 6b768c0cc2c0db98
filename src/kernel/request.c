/* request.c - signals, ends and single ops from outside, decided inside the commit that holds them (see request.h) */
#include "kernel/request.h"

#include "kernel/engine_internal.h"
#include "kernel/face.h"
#include "kernel/revive.h"
#include "store/error.h"

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
    QP_TRY(rc);
    answer = r->delivered ? ANSWER_DELIVERED : r->kept ? ANSWER_KEPT : "";
    return keyed_put(&r->keyed, b, str_from(answer));
}

void request_signal(struct request_signal *r)
{
    r->command.label = "signal";
    r->command.decide = signal_decide;
}

/* A person's reason is a sentence, whatever it looks like; none stays none. A job that was interrupted without an error is
 * one that a graph has ended in peace (child_jobs.c), so a kill has one. */
static int end_reason(struct arena *a, const struct request_end *r, qp_str *out_error)
{
    struct error e = {.code = ERROR_CODE, .message = r->error};
    *out_error = QP_NONE;
    if (str_is_none(r->error) && r->state == JOB_INTERRUPTED) {
        e.message = QP_STR("interrupted");
    }
    return str_is_none(e.message) ? QP_OK : error_write(a, &e, out_error);
}

static int end_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_end *r = (struct request_end *)c;
    qp_str error = QP_NONE;
    const struct job_row *job;
    struct turn t;
    struct site site = {.addr = TRIGGER_ADDRESS, .never_final = true};
    QP_TRY(request_job(b, r->ns, r->jid, &job));
    if (job->closed_by.p != NULL) {
        return QP_E_CLOSED;
    }
    site.ref = (struct job_ref){job->ns, job->job};
    QP_TRY(step_guid(b, job->owner_guid, QP_STR("end"), &site.guid));
    QP_TRY(turn_init(&t, engine_kernel(e), b, &c->outcome, &site));
    QP_TRY(end_reason(&b->commit->arena, r, &error));
    return r->state == JOB_CANCELLED ? turn_cancel_job(&t, error, r->descend)
                                     : turn_end_job(&t, r->state, error, r->descend);
}

void request_end(struct request_end *r)
{
    r->command.label = "end";
    r->command.decide = end_decide;
}

/* A job that is closed is not parked, people see how it has ended. What completes it may be a dead letter all the same: the
 * one thing of it that a person can let go on. */
static int revive_closer(struct bundle *b, const struct job_row *job)
{
    struct revived revived;
    QP_TRY(job_revive(b, (struct job_ref){job->ns, job->job}, QP_NONE, &revived));
    return revived.count > 0 ? QP_OK : QP_E_CONFLICT;
}

/* The kind's own way. */
static int unpark_ask(struct engine *e, struct request_unpark *r, struct bundle *b,
                      const struct faced *of, const struct job_row *job)
{
    struct qp_err err = {0};
    struct turn t;
    if (job->closed_by.p != NULL) {
        return QP_E_CLOSED;
    }
    QP_TRY(ask_begin(e, &r->command, b, job, &t));
    QP_TRY(refusal_keep(&r->refusal, b, of->face->retry(of->state, &t, r->part, &err), &err));
    return ask_end(&t);
}

static int unpark_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_unpark *r = (struct request_unpark *)c;
    struct faces *faces = engine_kernel(e)->faces;
    const struct faced *of;
    const struct job_row *job = NULL;
    struct revived revived;
    struct op op = {.kind = OP_job_set, .job_set = {.what = JOB_SET_PARKED}};
    r->refusal = (struct refusal){0};
    QP_TRY(keyed_begin(&r->keyed, b));
    QP_TRY(request_job(b, r->ns, r->jid, &job));
    if (job->closed_by.p != NULL && job->completions == 0 && str_is_none(r->part)) {
        return revive_closer(b, job);
    }
    of = faces == NULL ? NULL : faces_of(faces, job->kind);
    if (of != NULL && of->face->retry != NULL) {
        return unpark_ask(e, r, b, of, job);
    }
    if (!str_is_none(r->part)) {
        return QP_E_UNSUPPORTED;
    }
    if (job->parked.p == NULL) {
        return QP_E_CONFLICT;
    }
    op.job_set.ref = (struct job_ref){job->ns, job->job};
    QP_TRY(job_revive(b, op.job_set.ref, QP_NONE, &revived));
    return step_op(b, &op);
}

void request_unpark(struct request_unpark *r)
{
    r->command.label = "unpark";
    r->command.decide = unpark_decide;
}

/* A kind that takes in what comes while its job is paused has something to do when it is resumed. */
static const struct faced *resuming(struct engine *e, const struct job_row *job)
{
    struct faces *faces = engine_kernel(e)->faces;
    const struct faced *of = faces == NULL ? NULL : faces_of(faces, job->kind);
    return of != NULL && of->face->resume != NULL ? of : NULL;
}

static void change_fill(const struct request_change *r, const struct job_row *job, bool tasks,
                        struct op *op)
{
    struct job_ref ref = {job->ns, job->job};
    switch (r->change) {
    case JOB_CHANGE_PAUSE:
        *op = (struct op){.kind = OP_job_pause, .job_pause = {.ref = ref, .tasks = tasks}};
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

/* `job` as it was while it was paused: the journal's entry of its end makes the GUID of the turn this one's alone. */
static int resume_kind(struct engine *e, struct command *c, struct bundle *b,
                       const struct faced *of, const struct job_row *job)
{
    struct turn t;
    QP_TRY(ask_begin(e, c, b, job, &t));
    QP_TRY(of->face->resume(of->state, &t));
    return ask_end(&t);
}

static int change_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_change *r = (struct request_change *)c;
    const struct job_row *job;
    const struct faced *of;
    struct job_row before;
    struct op change;
    struct op *op;
    r->more = false;
    QP_TRY(request_job(b, r->ns, r->jid, &job));
    before = *job;
    of = resuming(e, job);
    change_fill(r, job, of != NULL, &change);
    op = bundle_op(b, change.kind);
    if (op == NULL) {
        return b->commit->rc;
    }
    *op = change;
    QP_TRY(bundle_run(b));
    if (of != NULL && r->change == JOB_CHANGE_RESUME && before.paused != 0) {
        QP_TRY(resume_kind(e, c, b, of, &before));
    }
    r->more = (r->change == JOB_CHANGE_RESUME && op->job_resume.out_more) ||
              (r->change == JOB_CHANGE_DELETE && op->job_delete.out_more);
    return QP_OK;
}

void request_change(struct request_change *r)
{
    r->command.label = "change";
    r->command.decide = change_decide;
}

static int claim_tasks(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_claim *r = (struct request_claim *)c;
    return engine_claim(e, b, r->service, r->want, &c->outcome);
}

void request_claim(struct request_claim *r)
{
    r->command.label = "claim";
    r->command.decide = claim_tasks;
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

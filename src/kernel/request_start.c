/* request_start.c - a new job, decided inside the commit that holds it (see request_start.h)
 *
 *   I1  what the name means, the record of the key, the job, its attributes, its signal and the host's writes are one bundle
 *
 * If we crash before its commit, nothing was started; after it, the same request finds the job, or the key's record.
 */
#include "kernel/request_start.h"

#include "kernel/engine_internal.h"
#include "kernel/face.h"
#include "kernel/filter.h"
#include "kernel/signal_job.h"

/* The open job that has the custom id; NULL: there is none. */
static int job_by_custom(struct bundle *b, const struct op_job_create *job,
                         const struct job_row **out_job)
{
    struct job_custom_row key = {
        .ns = job->ref.ns, .workflow = job->workflow, .custom_id = job->custom_id};
    struct job_row number = {.ns = key.ns};
    const void *row = NULL;
    *out_job = NULL;
    if (str_is_none(job->custom_id)) {
        return QP_OK;
    }
    QP_TRY(bundle_get(b, TABLE_job_custom, &key, &row));
    if (row == NULL) {
        return QP_OK;
    }
    number.job = ((const struct job_custom_row *)row)->job;
    QP_TRY(bundle_get(b, TABLE_job, &number, &row));
    *out_job = row;
    return QP_OK;
}

/* A job that is there already: by its custom id, or, for a signal, by its id. */
static int start_meets(struct request_start *r, struct bundle *b, const struct start *start,
                       const struct job_row **out_job)
{
    int rc;
    QP_TRY(job_by_custom(b, &start->job, out_job));
    r->custom_taken = *out_job != NULL;
    if (*out_job != NULL || r->signal == NULL || start->fresh) {
        return QP_OK;
    }
    rc = request_job(b, start->job.ref.ns, start->job.jid, out_job);
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

/* The caller has chosen the id. */
static bool is_chosen(const struct start *start)
{
    return !start->fresh && !start->derived;
}

/* What the job that is there means for this start. */
static int start_met(struct request_start *r, struct bundle *b, const struct job_row *job)
{
    qp_str body_hash;
    keyed_taken(r->keyed.taken, job->jid);
    r->job = (struct job_ref){job->ns, job->job};
    if (r->signal != NULL) {
        return QP_OK;
    }
    if (r->custom_taken && is_chosen(&r->start) && !str_equal(job->jid, r->start.job.jid)) {
        return QP_E_CONFLICT; /* two ids that were chosen are two jobs */
    }
    QP_TRY(start_hash(b, &r->start, &body_hash));
    return str_equal(job->body_hash, body_hash) ? QP_E_EXISTS : QP_E_CONFLICT;
}

static int start_job(struct engine *e, struct request_start *r, struct bundle *b,
                     const struct start *start)
{
    struct turn t = {.stepwise = false};
    int rc = turn_start(&t, engine_kernel(e), b, &r->command.outcome, start);
    r->job = t.site.ref;
    QP_TRY(rc);
    for (size_t i = 0; i < r->attribute_count; i++) {
        struct op put = {.kind = OP_attr_put,
                         .attr_put = {.ref = t.site.ref,
                                      .name = r->attributes[i].name,
                                      .value = r->attributes[i].value}};
        QP_TRY(step_op(b, &put));
    }
    return QP_OK;
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
                       .announces = r->announces,
                       .pinned = job->version,
                       .pinned_kind = job->kind,
                       .wanted = r->version};
    struct qp_err err = {0};
    if (faces == NULL) {
        return QP_OK;
    }
    QP_TRY(refusal_keep(&r->refusal, b, faces_start(faces, b, &n, &err), &err));
    job->kind = n.kind;
    job->version = n.version;
    r->announced = n.announced;
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
    struct fork fork;
    struct qp_err err;
};

static int fork_copy(void *context, struct turn *t)
{
    struct forking *f = context;
    return f->of->face->fork(f->of->state, t, &f->fork, &f->err);
}

/* A job is retried once, as long as the job that came of it is there. The same request again is no other retry. */
static int check_unretried(struct bundle *b, const struct start *start, const struct job_row *from,
                           struct qp_err *err)
{
    struct attr_row key = {.ns = from->ns, .job = from->job, .name = RETRIED_AS};
    struct job_name_row name = {.ns = from->ns};
    const void *row = NULL;
    QP_TRY(bundle_get(b, TABLE_attr, &key, &row));
    if (row == NULL) {
        return QP_OK;
    }
    name.jid = ((const struct attr_row *)row)->value;
    if (str_equal(name.jid, start->job.jid)) {
        return QP_OK;
    }
    QP_TRY(bundle_get(b, TABLE_job_name, &name, &row));
    return row == NULL ? QP_OK
                       : err_set(err, QP_E_CONFLICT,
                                 "it was retried already, as '%.*s'; retry that one, or fork this",
                                 STR_ARG(name.jid));
}

static int mark_retried(struct bundle *b, const struct start *start, const struct job_row *from)
{
    struct op put = {
        .kind = OP_attr_put,
        .attr_put = {.ref = {from->ns, from->job}, .name = RETRIED_AS, .value = start->job.jid}};
    return step_op(b, &put);
}

/* A kind whose jobs begin at their first step has no other place, and not every kind has versions to choose from. */
static int check_place(const struct request_start *r, const struct faced *of, struct qp_err *err)
{
    if (!str_is_none(r->version) && of->face->name_kind != APP_TOPIC_START) {
        (void)err_set(err, QP_E_INVALID,
                      "version: a job of this kind (%s) has none to choose; leave it out",
                      of->face->name);
        return err_point(err, QP_E_INVALID, "/version");
    }
    if (str_is_none(r->at) || of->face->fork != NULL) {
        return QP_OK;
    }
    (void)err_set(err, QP_E_INVALID,
                  "at: a job of this kind (%s) begins at its first step; leave it out",
                  of->face->name);
    return err_point(err, QP_E_INVALID, "/at");
}

/* What the new job takes over of the one that it is made from, as its kind says. */
static int start_copy(struct engine *e, struct request_start *r, struct bundle *b,
                      struct start *start, const struct faced *of)
{
    struct forking *f = ARENA_NEW(&b->commit->arena, struct forking);
    int rc;
    if (f == NULL) {
        return QP_E_NOMEM;
    }
    *f = (struct forking){.of = of, .fork = {.at = r->at, .retries = r->retries}};
    QP_TRY(request_job(b, start->job.ref.ns, start->job.forked_from, &f->fork.from));
    rc = check_place(r, of, &f->err);
    if (rc == QP_OK && r->retries) {
        rc = check_unretried(b, start, f->fork.from, &f->err);
    }
    if (rc == QP_OK && of->face->fork != NULL) {
        start->incepted = fork_copy;
        start->context = f;
    }
    if (rc == QP_OK) {
        rc = start_job(e, r, b, start);
    }
    if (rc == QP_OK && r->retries) {
        rc = mark_retried(b, start, f->fork.from);
    }
    return f->err.text[0] == '\0' ? rc : refusal_keep(&r->refusal, b, rc, &f->err);
}

static int start_fork(struct engine *e, struct request_start *r, struct bundle *b,
                      struct start *start)
{
    struct faces *faces = engine_kernel(e)->faces;
    const struct faced *of = faces == NULL ? NULL : faces_of(faces, start->job.kind);
    return of == NULL || str_is_none(start->job.forked_from) ? start_job(e, r, b, start)
                                                             : start_copy(e, r, b, start, of);
}

/* What was said before to the same key stands, whatever the name means by now. */
int start_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_start *r = (struct request_start *)c;
    struct start start = r->start;
    const struct job_row *there = NULL;
    int named;
    r->jid = QP_NONE;
    r->announced = false;
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

static int announce_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_announce *r = (struct request_announce *)c;
    struct faces *faces = engine_kernel(e)->faces;
    const struct faced *of = faces_announcing(faces);
    struct qp_err err = {0};
    QP_ASSERT(of != NULL);
    r->changed = false;
    return refusal_keep(&r->refusal, b,
                        of->face->announce(of->state, faces, b, r->ns, r->name, &r->changed, &err),
                        &err);
}

void request_announce(struct request_announce *r)
{
    r->command.label = "announce";
    r->command.decide = announce_decide;
}

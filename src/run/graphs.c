/* graphs.c - applications of graphs: deploy, activate, delete (see graphs.h)
 *
 *   I1  a version's text never changes: the same name with another text is refused
 *   I2  a topic belongs to one application; activating takes or gives up topics in the commit that activates
 *   I3  what a name means is asked in the commit that acts on it (kernel/names.h), by the definitions of that commit: no
 *       start, signal or fork acts on less than what was acknowledged before it began, whichever node did it
 *   I4  after a commit nothing can fail that its caller hears of: the look that readers get their topics by is repeated
 *       until it succeeds
 *
 * If we crash before the commit of a deployment, there is none; if after it, there is all of it, also when nobody was told:
 * deploying the same text again answers that it is there.
 */
#include "run/graphs.h"

#include "base/hash.h"
#include "base/json.h"
#include "kernel/chores.h"
#include "run/enter.h"
#include "run/loop.h"

/* ------------------------------------------------------------------------------------------ deploying */

/* One deployment, or an activation: no text then. */
struct deploying {
    struct call call;
    struct command command;
    int64_t ns;
    const struct app *app; /* compiled, the caller's */
    qp_str name;
    qp_str version;
    unsigned char hash[LIMIT_GUID_SIZE];
    bool put;
    bool activate;
    bool deleted; /* after a conflict: the text that is there is of a deleted version */
    struct qp_deployed deployed;
};

static int app_row_of(struct bundle *b, const struct deploying *d, const struct app_row **out_row)
{
    const void *row = NULL;
    struct app_row key = {.ns = d->ns, .app = d->name, .version = d->version};
    int rc = bundle_get(b, TABLE_app, &key, &row);
    *out_row = row;
    return rc;
}

/* The text, unless it is there already. */
static int decide_put(struct deploying *d, struct bundle *b)
{
    const struct app_row *row = NULL;
    struct op op = {.kind = OP_app_put,
                    .app_put = {.ns = d->ns,
                                .app = d->name,
                                .version = d->version,
                                .source = d->app->source,
                                .hash = {(const char *)d->hash, sizeof d->hash}}};
    QP_TRY(app_row_of(b, d, &row));
    d->deleted = row != NULL && row->state == APP_DELETED;
    d->deployed.existed = row != NULL && !d->deleted;
    if (row != NULL && !str_equal(row->hash, op.app_put.hash)) {
        return QP_E_CONFLICT;
    }
    if (d->deployed.existed) {
        d->deployed.active = d->activate || row->state == APP_ACTIVE;
        return QP_OK;
    }
    QP_TRY(step_op(b, &op));
    return bundle_run(b);
}

static int put_topic(struct deploying *d, struct bundle *b, enum app_topic_kind kind, qp_str topic,
                     qp_str version)
{
    struct op op = {
        .kind = OP_topic_put,
        .topic_put = {
            .ns = d->ns, .kind = kind, .topic = topic, .app = d->name, .version = version}};
    return step_op(b, &op);
}

/* All topics of one version. None: they are given up. */
static int put_topics(struct deploying *d, struct bundle *b, const struct app *app, qp_str version)
{
    int rc = QP_OK;
    for (size_t i = 0; i < app->graph_count && rc == QP_OK; i++) {
        rc = put_topic(d, b, APP_TOPIC_START, app->graphs[i].subscribes, version);
    }
    for (size_t i = 0; i < app->hook_count && rc == QP_OK; i++) {
        rc = put_topic(d, b, APP_TOPIC_HOOK, app->hooks[i].topic, version);
    }
    return rc == QP_OK ? bundle_run(b) : rc;
}

/* The compiled text of a version that is there. */
static int app_of(struct deploying *d, struct bundle *b, qp_str version, const struct app **out_app)
{
    struct row_reader reader = reader_in(b);
    qp_str name;
    int rc = version_name(&b->commit->arena, d->name, version, &name);
    return rc == QP_OK ? library_app(graph_library(d->call.q->faces), &reader, d->ns, name, out_app)
                       : rc;
}

/* Topics past the limit would not be known to anybody. What the version before had is given up by now. */
static int check_room(struct deploying *d, struct bundle *b, const struct app *app)
{
    bool room = false;
    QP_TRY(names_have_room(d->call.q->faces->names, b, app->graph_count + app->hook_count, &room));
    return room ? QP_OK : QP_E_LIMIT;
}

/* What the version before it had goes first, so that what both have ends as the new one's. */
static int decide_activate(struct deploying *d, struct bundle *b)
{
    struct op *op = bundle_op(b, OP_app_activate);
    const struct app *app = d->app;
    const struct app *was = NULL;
    int rc;
    if (op == NULL) {
        return b->commit->rc;
    }
    op->app_activate = (struct op_app_activate){.ns = d->ns, .app = d->name, .version = d->version};
    rc = bundle_run(b);
    if (rc == QP_OK && !str_is_none(op->app_activate.out_was)) {
        qp_str old = op->app_activate.out_was;
        QP_ASSERT(old.n < sizeof d->deployed.was);
        memcpy(d->deployed.was, old.p, old.n);
        d->deployed.was[old.n] = '\0';
        rc = app_of(d, b, old, &was);
        rc = rc == QP_OK ? put_topics(d, b, was, QP_NONE) : rc;
    }
    if (rc != QP_OK) {
        return rc;
    }
    if (app == NULL) {
        QP_TRY(app_of(d, b, d->version, &app));
    }
    QP_TRY(check_room(d, b, app));
    return put_topics(d, b, app, d->version);
}

static int deploy_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct deploying *d = (struct deploying *)((char *)c - offsetof(struct deploying, command));
    int rc = QP_OK;
    (void)e;
    d->deployed.was[0] = '\0';
    d->deployed.active = d->activate;
    rc = d->put ? decide_put(d, b) : QP_OK;
    return rc == QP_OK && d->activate ? decide_activate(d, b) : rc;
}

static const char *why_refused(const struct deploying *d, int rc, const char *why)
{
    if (rc == QP_E_CONFLICT && d->deleted) {
        return "the version was deleted, and its text is another one: it is kept for an hour, and as "
               "long as jobs need it; give the new text a new version";
    }
    if (rc == QP_E_CONFLICT) {
        return d->put
                   ? "the version is there with another text, or one of its topics belongs to another "
                     "application; give it a new version, or see `quipu workflows ls`"
                   : "one of its topics belongs to another application; see `quipu workflows ls`";
    }
    return rc == QP_E_NOT_FOUND ? "there is no such version; see `quipu workflows ls`"
           : rc == QP_E_LIMIT
               ? "all applications of a store have too many topics; see LIMIT_APP_TOPICS"
               : why;
}

static void deploy_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct deploying *d = (struct deploying *)((char *)c - offsetof(struct deploying, command));
    qp *q = d->call.q;
    (void)e;
    if (rc != QP_OK) {
        (void)err_set(d->call.err, rc, "%s '%.*s' version '%.*s': %s",
                      d->put ? "deploy" : "activate", STR_ARG(d->name), STR_ARG(d->version),
                      why_refused(d, rc, why));
    } else {
        faces_changed(q->faces,
                      q->store); /* it is committed: what fails from here on is not its failure */
    }
    call_done(&q->driver, &d->call, rc);
}

static void deploy_execute(qp *q, struct call *c)
{
    struct deploying *d = (struct deploying *)c;
    d->command =
        (struct command){.label = "deploy", .decide = deploy_decide, .answer = deploy_answered};
    engine_submit(q->engine, &d->command);
}

static void copy_name(char out[QP_ID_SIZE], qp_str name)
{
    QP_ASSERT(name.n < QP_ID_SIZE);
    memcpy(out, name.p, name.n);
    out[name.n] = '\0';
}

static int deploy_do(qp *q, struct deploying *d, qp_str ns, struct qp_deployed *out_deployed,
                     struct qp_err *err)
{
    int rc = space_number(q, ns, &d->ns, err);
    d->call = (struct call){.execute = deploy_execute, .q = q};
    rc = rc == QP_OK ? call_do(&q->driver, &d->call, err) : rc;
    if (rc == QP_OK && out_deployed != NULL) {
        copy_name(d->deployed.app, d->name);
        copy_name(d->deployed.version, d->version);
        *out_deployed = d->deployed;
    }
    return rc;
}

/* Everything that is wrong with a text is told; the sentence is that of the first. */
static int tell(const struct report *r, void *context, qp_graph_error_visit found,
                struct qp_err *err)
{
    const struct finding *first = r->first;
    for (const struct finding *f = r->first; f != NULL && found != NULL; f = f->next) {
        found(context, &(struct qp_graph_error){.code = f->code,
                                                .line = f->line,
                                                .column = f->column,
                                                .message = f->message,
                                                .hint = f->hint});
    }
    if (first == NULL) {
        return err_set(err, QP_E_INVALID, "the graph cannot be compiled");
    }
    return err_set(err, QP_E_SHAPE, "line %d, column %d: %.*s (%zu in all; nothing was deployed)",
                   first->line, first->column, STR_ARG(first->message), r->count);
}

/* What is accepted, and not as its author may think. */
static void tell_notes(const struct report *r, const struct qp_deploy *deploy)
{
    for (const struct finding *f = r->first_note; f != NULL && deploy->noted != NULL; f = f->next) {
        if (f->level != FINDING_STRICT) {
            deploy->noted(deploy->context, &(struct qp_graph_error){.code = f->code,
                                                                    .line = f->line,
                                                                    .column = f->column,
                                                                    .message = f->message,
                                                                    .hint = f->hint});
        }
    }
}

static int compile(const struct qp_env *env, const struct qp_deploy *deploy, struct app **out_app,
                   struct qp_err *err)
{
    struct arena arena;
    struct report report;
    int rc;
    if (deploy->text.p == NULL) {
        return err_set(err, QP_E_INVALID, "text: missing; pass the YAML of an application");
    }
    arena_init(&arena, env, 0);
    report_init(&report, &arena);
    rc = app_compile(env, deploy->text, &report, out_app);
    if (rc == QP_E_INVALID) {
        rc = tell(&report, deploy->context, deploy->found, err);
    } else if (rc != QP_OK) {
        (void)err_set(err, rc, "compile: %s", qp_code_text(rc));
    } else {
        tell_notes(&report, deploy);
    }
    arena_done(&arena);
    return rc;
}

int qp_deploy(qp *q, const struct qp_deploy *deploy, struct qp_deployed *out_deployed,
              struct qp_err *err)
{
    ENTER(q, deploy != NULL, err);
    struct app *app = NULL;
    struct deploying d = {.put = true, .activate = deploy->activate};
    int rc = compile(&q->env, deploy, &app, err);
    if (rc != QP_OK) {
        return rc;
    }
    d.app = app;
    d.name = app->id;
    d.version = app->version;
    hash_guid("app", 3, app->source.p, app->source.n, d.hash);
    rc = deploy_do(q, &d, deploy->ns, out_deployed, err);
    app_free(app);
    return rc;
}

int qp_activate(qp *q, qp_str ns, qp_str app, qp_str version, struct qp_deployed *out_deployed,
                struct qp_err *err)
{
    ENTER(q, true, err);
    struct deploying d = {.activate = true, .name = app, .version = version};
    int rc = name_check(app, "app", err);
    rc = rc == QP_OK ? name_check(version, "version", err) : rc;
    return rc == QP_OK ? deploy_do(q, &d, ns, out_deployed, err) : rc;
}

int qp_graph_check(qp_str text, void *context, qp_graph_error_visit found, struct qp_err *err)
{
    struct qp_deploy only = {.text = text, .context = context, .found = found};
    struct qp_env env;
    struct app *app = NULL;
    int rc;
    qp_env_init(&env);
    rc = compile(&env, &only, &app, err);
    app_free(app);
    return rc;
}

/* --------------------------------------------------------------------------------------------- deleting */

/* One deletion. */
struct deleting {
    struct call call;
    struct command command;
    struct op_app_delete op;
    qp_str name;         /* "app/version" */
    char id[QP_ID_SIZE]; /* a job that needs the version; empty: there is none */
};

static int refuse_delete(int rc, qp_str version, struct qp_err *err)
{
    return err_set(err, rc, "delete '%.*s': %s", STR_ARG(version),
                   rc == QP_E_CONFLICT ? "it is active; activate another version first"
                                       : "there is no such version");
}

static int see_need(void *context, const void *row)
{
    struct deleting *d = context;
    const struct job_row *job = row;
    if (d->id[0] == '\0' && faces_need(d->call.q->faces, job, d->name)) {
        copy_name(d->id, job->jid);
    }
    return QP_OK;
}

/* It is there, and not active; whether it becomes so meanwhile is the commit's to say. */
static int check_inactive(const struct deleting *d, struct store *s, struct qp_err *err)
{
    struct arena arena;
    const void *row = NULL;
    struct app_row key = {.ns = d->op.ns, .app = d->op.app, .version = d->op.version};
    int rc;
    arena_init(&arena, store_env(s), 0);
    rc = store_get(s, &arena, TABLE_app, &key, &row, err);
    if (rc == QP_OK && ((const struct app_row *)row)->state == APP_ACTIVE) {
        rc = QP_E_CONFLICT;
    } else if (rc == QP_OK && ((const struct app_row *)row)->state == APP_DELETED) {
        rc = QP_E_NOT_FOUND;
    }
    arena_done(&arena);
    return rc == QP_E_NOT_FOUND || rc == QP_E_CONFLICT ? refuse_delete(rc, d->name, err) : rc;
}

static int find_need(void *context, struct store *s, struct qp_err *err)
{
    struct deleting *d = context;
    struct job_row prefix = {.ns = d->op.ns};
    struct scan scan = {.table = TABLE_job,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 1,
                        .limit = SIZE_MAX,
                        .slim = true};
    QP_TRY(check_inactive(d, s, err));
    return store_scan(s, &scan, d, see_need, err);
}

static int delete_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct deleting *d = (struct deleting *)((char *)c - offsetof(struct deleting, command));
    (void)e;
    return delete_version(b, &d->op, d->name);
}

static void delete_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct deleting *d = (struct deleting *)((char *)c - offsetof(struct deleting, command));
    (void)e;
    if (rc == QP_E_CONFLICT || rc == QP_E_NOT_FOUND) {
        (void)refuse_delete(rc, d->name, d->call.err);
    } else if (rc != QP_OK) {
        (void)err_set(d->call.err, rc, "delete '%.*s': %s", STR_ARG(d->name), why);
    } else {
        faces_changed(d->call.q->faces, d->call.q->store);
    }
    call_done(&d->call.q->driver, &d->call, rc);
}

static void delete_execute(qp *q, struct call *c)
{
    struct deleting *d = (struct deleting *)c;
    d->command =
        (struct command){.label = "delete", .decide = delete_decide, .answer = delete_answered};
    engine_submit(q->engine, &d->command);
}

/* Jobs that begin while we look keep their text: it goes when none of them is kept (collect_page). */
static int delete_unneeded(qp *q, struct deleting *d, struct qp_err *err)
{
    QP_TRY(reads_do(q, d, find_need, err));
    if (d->id[0] != '\0') {
        return err_set(err, QP_E_CONFLICT,
                       "delete '%.*s': job '%s' needs it: wait until its jobs are deleted, or say "
                       "--force, which keeps the text for them and hides it from new jobs",
                       STR_ARG(d->name), d->id);
    }
    return call_do(&q->driver, &d->call, err);
}

static int delete_named(qp *q, struct deleting *d, bool needed, struct qp_err *err)
{
    struct arena arena;
    int rc;
    arena_init(&arena, &q->env, 0);
    rc = version_name(&arena, d->op.app, d->op.version, &d->name);
    if (rc != QP_OK) {
        (void)err_set(err, rc, "delete: out of memory");
    } else {
        rc = needed ? call_do(&q->driver, &d->call, err) : delete_unneeded(q, d, err);
    }
    arena_done(&arena);
    return rc;
}

static int delete_do(qp *q, qp_str ns, struct deleting *d, bool needed, struct qp_err *err)
{
    d->call = (struct call){.execute = delete_execute, .q = q};
    QP_TRY(name_check(d->op.app, "app", err));
    QP_TRY(name_check(d->op.version, "version", err));
    QP_TRY(space_number(q, ns, &d->op.ns, err));
    return delete_named(q, d, needed, err);
}

int qp_app_delete(qp *q, qp_str ns, qp_str app, qp_str version, struct qp_err *err)
{
    ENTER(q, true, err);
    struct deleting d = {.op = {.app = app, .version = version}};
    return delete_do(q, ns, &d, false, err);
}

int qp_app_delete_needed(qp *q, qp_str ns, qp_str app, qp_str version, struct qp_err *err)
{
    ENTER(q, true, err);
    struct deleting d = {.op = {.app = app, .version = version}};
    return delete_do(q, ns, &d, true, err);
}

/* traversals.c - imports, FORMAT, states and results of traversals (see traversals.h)
 *
 * FORMAT is a task of the pool: it reads a snapshot, hashes the canonical JSON, and answers with the hash; inside the
 * engine's transaction it would stop every other job. The result itself is rendered from rows whenever it is asked for; of a
 * large one its nodes and edges are kept for questions before the answer (traversals_ask.c).
 *
 * If we crash before FORMAT's answer is committed, its task is delivered again, and finds the same rows.
 */
#include "run/traversals.h"

#include <stdio.h>

#include "base/omap.h"
#include "carto/atlas.h"
#include "carto/deb.h"
#include "carto/external.h"
#include "carto/fetch.h"
#include "carto/format_own.h"
#include "carto/import.h"
#include "carto/log.h"
#include "carto/result_kept.h"
#include "carto/split.h"
#include "carto/stored.h"
#include "carto/types.h"
#include "run/enter.h"
#include "run/handle.h"
#include "run/host.h"
#include "run/loop.h"
#include "run/traversals_view.h"
#include "run/workers.h"

/* ------------------------------------------------------------------------------------------ commands */

struct importing {
    struct call call;
    struct request_import request;
};

static void import_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_import *r = (struct request_import *)c;
    struct importing *i = (struct importing *)((char *)r - offsetof(struct importing, request));
    (void)e;
    if (rc != QP_OK) {
        (void)err_set(i->call.err, rc, "%s", refusal_text(&r->refusal, rc, why));
    }
    call_done(&i->call.q->driver, &i->call, rc);
}

static void import_execute(qp *q, struct call *c)
{
    struct importing *i = (struct importing *)c;
    request_import(&i->request);
    i->request.command.answer = import_answered;
    engine_submit(q->engine, &i->request.command);
}

int traversals_import(qp *q, struct traversal_page *page, struct qp_err *err)
{
    int64_t ns = 0;
    QP_TRY(external_check_name(page->type, err));
    QP_TRY(space_number(q, page->ns, &ns, err));
    return traversals_import_in(q, ns, page, err);
}

int traversals_import_in(qp *q, int64_t ns, struct traversal_page *page, struct qp_err *err)
{
    struct importing i = {.call = {.execute = import_execute, .q = q},
                          .request = {.type = page->type,
                                      .universe = page->universe,
                                      .facts = page->facts,
                                      .fact_count = page->fact_count,
                                      .grows = page->grows,
                                      .complete = page->complete}};
    i.request.ns = ns;
    QP_TRY(call_do(&q->driver, &i.call, err));
    page->out_current = i.request.is_current;
    return QP_OK;
}

struct tidying {
    struct call call;
    struct request_tidy request;
};

static void tidy_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_tidy *r = (struct request_tidy *)c;
    struct tidying *t = (struct tidying *)((char *)r - offsetof(struct tidying, request));
    (void)e;
    if (rc != QP_OK) {
        (void)err_set(t->call.err, rc, "%s", why);
    }
    call_done(&t->call.q->driver, &t->call, rc);
}

static void tidy_execute(qp *q, struct call *c)
{
    struct tidying *t = (struct tidying *)c;
    request_universes_tidy(&t->request);
    t->request.command.answer = tidy_answered;
    engine_submit(q->engine, &t->request.command);
}

int traversals_tidy(qp *q, qp_str ns, struct qp_err *err)
{
    struct request_tidy request = {.more = true};
    QP_TRY(space_number(q, ns, &request.ns, err));
    while (request.more) {
        struct tidying t = {.call = {.execute = tidy_execute, .q = q}, .request.ns = request.ns};
        QP_TRY(call_do(&q->driver, &t.call, err));
        request.more = t.request.more;
    }
    return QP_OK;
}

/* ------------------------------------------------------------------------------------- what is read */

struct stating {
    void *context;
    traversal_visit visit;
};

static int tell_state(struct viewing *v, struct qp_err *err)
{
    const struct stating *s = v->context;
    (void)err;
    return s->visit(s->context, v->job, &v->state);
}

int traversals_state(qp *q, qp_str ns, qp_str id, void *context, traversal_visit visit,
                     struct qp_err *err)
{
    ENTER(q, visit != NULL, err);
    struct stating s = {context, visit};
    struct viewing v = {.q = q, .id = id, .context = &s, .body = tell_state};
    QP_TRY(space_number(q, ns, &v.ns, err));
    return traversal_view(&v, err);
}

/* -------------------------------------------------------------------------------------------- results */

struct rendering {
    enum carto_format format;
    void *context;
    carto_sink sink;
};

static int render_result(struct viewing *v, struct qp_err *err)
{
    const struct rendering *r = v->context;
    struct result_source *source = NULL;
    struct format_of of = {
        .env = &v->q->env, .head = v->state.head, .hash = v->state.hash, .format = r->format};
    int rc;
    QP_TRY(traversal_has_result(v, err));
    if (r->format == CARTO_OWN) {
        QP_TRY(traversal_format(v, &of.own, err));
    }
    if (r->format == CARTO_OWN && (of.own == NULL || !format_own_has_node(of.own))) {
        return err_set(err, QP_E_INVALID,
                       "the traversal '%.*s' has brought no format for nodes (the member format of "
                       "its request)",
                       STR_ARG(v->id));
    }
    QP_TRY(result_open(&v->q->env, v->store, v->job, err, &source));
    of.items = result_items(source);
    rc = format_write(&of, r->context, r->sink);
    result_close(source);
    if (rc == QP_E_TOO_LARGE) {
        return err_set(err, rc,
                       "the result of '%.*s' in this format is larger than an answer may be "
                       "(LIMIT_BUFFER_SIZE): take another format, or traverse with exclusions",
                       STR_ARG(v->id));
    }
    if (rc == QP_E_CORRUPT) {
        return err_set(err, rc,
                       "the result of '%.*s' is not what FORMAT has hashed: run quipu fsck",
                       STR_ARG(v->id));
    }
    return rc;
}

int traversals_result(qp *q, qp_str ns, qp_str id, enum carto_format format, void *context,
                      carto_sink sink, struct qp_err *err)
{
    ENTER(q, sink != NULL, err);
    struct rendering r = {format, context, sink};
    struct viewing v = {.q = q, .id = id, .context = &r, .body = render_result};
    QP_TRY(space_number(q, ns, &v.ns, err));
    return traversal_view(&v, err);
}

/* --------------------------------------------------------------------------------------------- FORMAT */

struct formatting {
    struct format_digest digest;
    struct buf kept; /* what is kept of a large result (result_kept.h); else empty */
};

static int digest_graph(struct viewing *v, const struct result_graph *g, struct formatting *f)
{
    QP_TRY(format_digest_of(g, &v->state.head, &f->digest));
    return kept_is_due(&v->state.head.counts) ? kept_write(g, &f->kept) : QP_OK;
}

static int digest(struct viewing *v, struct qp_err *err)
{
    struct result_source *source = NULL;
    struct carto_items items;
    struct result_graph g;
    int rc;
    QP_TRY(result_open(&v->q->env, v->store, v->job, err, &source));
    items = result_items(source);
    rc = result_graph_open(&g, &v->q->env, &items);
    if (rc == QP_OK) {
        rc = digest_graph(v, &g, v->context);
    }
    result_graph_close(&g);
    result_close(source);
    return rc;
}

/* Pages are the same whenever they are written, so a task that comes again writes what is there. */
static int keep_graph(qp *q, struct job_ref job, qp_str bytes, struct qp_err *err)
{
    struct arena arena;
    int rc = QP_OK;
    arena_init(&arena, &q->env, 0);
    for (size_t i = 0; rc == QP_OK && kept_page(bytes, i).n > 0; i++) {
        struct op op = {.kind = OP_data_put,
                        .data_put = {.ref = job, .value = kept_page(bytes, i)}};
        rc = kept_page_name(&arena, i, &op.data_put.name);
        if (rc == QP_OK) {
            rc = op_do(q, &op, "FORMAT", err);
        }
        arena_reset(&arena);
    }
    arena_done(&arena);
    return rc;
}

static int format_job(qp_task *task, struct formatting *f, struct qp_err *err)
{
    struct job_ref job = {task->task->ref.ns, task->task->ref.job};
    struct viewing v = {
        .q = task->q, .ns = job.ns, .number = job.job, .context = f, .body = digest};
    QP_TRY(traversal_view(&v, err));
    return keep_graph(task->q, job, buf_slice(&f->kept), err);
}

static int work_format(void *context, qp_task *task)
{
    struct formatting f = {.digest = {.nodes = 0}};
    struct qp_err err = {0};
    char text[HASH_TEXT_SIZE + 120];
    int n;
    int rc;
    (void)context;
    buf_init(&f.kept, &task->q->env, LIMIT_CARTO_UNIVERSE_SIZE);
    rc = format_job(task, &f, &err);
    buf_done(&f.kept);
    if (rc != QP_OK) {
        return qp_task_fail(task, &(struct qp_failure){.message = err.text, .code = 500});
    }
    n = snprintf(text, sizeof text,
                 "{\"hash\":\"%s\",\"nodes\":%lld,\"edges\":%lld,\"errors\":%lld}", f.digest.hash,
                 (long long)f.digest.nodes, (long long)f.digest.edges, (long long)f.digest.errors);
    return qp_task_output(task, (qp_str){text, (size_t)n});
}

/* -------------------------------------------------------------------------------------------- the log */

static int write_log(struct viewing *v, struct qp_err *err)
{
    return carto_log(&v->q->env, v->store, v->job, v->context, err);
}

int traversals_log(qp *q, qp_str ns, qp_str id, struct buf *out, struct qp_err *err)
{
    ENTER(q, out != NULL, err);
    struct viewing v = {.q = q, .id = id, .context = out, .body = write_log};
    QP_TRY(space_number(q, ns, &v.ns, err));
    return traversal_view(&v, err);
}

/* ----------------------------------------------------------------------------------------- dependents */

struct dependents {
    qp *q;
    const struct traversal_rdepends *of;
    int64_t ns;
    void *context;
    rdepends_visit visit;
    struct arena arena;
    struct omap seen;
    struct dependent *first; /* whose dependents are still to be asked for */
    struct dependent *last;
};

struct dependent {
    struct dependent *next;
    qp_str name;
};

static int dependent_add(struct dependents *d, qp_str name)
{
    struct dependent *new = NULL;
    if (omap_get(&d->seen, name) != NULL) {
        return QP_OK;
    }
    new = ARENA_NEW(&d->arena, struct dependent);
    if (new == NULL || !arena_copy(&d->arena, name, &new->name)) {
        return QP_E_NOMEM;
    }
    QP_TRY(omap_put(&d->seen, new->name, new, NULL));
    if (d->last == NULL) {
        d->first = new;
    } else {
        d->last->next = new;
    }
    d->last = new;
    return QP_OK;
}

static int tell_dependents(struct dependents *d, const struct carto_facts *facts, qp_str on,
                           struct qp_err *err)
{
    struct deb_options options = {.arch = str_is_none(d->of->arch) ? QP_STR("amd64") : d->of->arch};
    qp_str name = QP_NONE;
    for (;;) {
        int rc = deb_dependent(facts, &options, on, d->of->fields, name, &name, err);
        if (rc != QP_OK) {
            return rc == QP_E_NOT_FOUND ? QP_OK : rc;
        }
        QP_TRY(d->visit(d->context, on, name));
        if (d->of->is_recursive) {
            QP_TRY(dependent_add(d, name));
        }
    }
}

static int check_known(const struct dependents *d, const struct carto_facts *facts,
                       struct qp_err *err)
{
    qp_str value;
    qp_str name;
    int rc = facts->get(facts->context, d->of->name, &value);
    if (rc ==
        QP_E_NOT_FOUND) { /* a name that nothing is or provides may still be asked for by others */
        rc = facts->source(facts->context, d->of->name, QP_NONE, &name);
    }
    return rc == QP_E_NOT_FOUND ? err_set(err, rc, "no package 'deb:%.*s' in the imported lists",
                                          STR_ARG(d->of->name))
                                : rc;
}

static int ask_dependents(struct dependents *d, struct store *s, struct qp_err *err)
{
    struct stored_facts stored;
    struct carto_facts facts;
    QP_TRY(stored_open(&stored, s, &d->arena,
                       &(struct stored_of){.ns = d->ns, .type = QP_STR("deb")}, err));
    facts = stored_reader(&stored);
    QP_TRY(check_known(d, &facts, err));
    QP_TRY(dependent_add(d, d->of->name));
    for (const struct dependent *next = d->first; next != NULL; next = next->next) {
        QP_TRY(tell_dependents(d, &facts, next->name, err));
    }
    return QP_OK;
}

static int dependents_in(void *context, struct store *s, struct qp_err *err)
{
    int rc;
    QP_TRY(store_snapshot_begin(s, err));
    rc = ask_dependents(context, s, err);
    (void)store_snapshot_end(s, NULL); /* nothing was written */
    return rc;
}

int traversals_rdepends(qp *q, const struct traversal_rdepends *of, void *context,
                        rdepends_visit visit, struct qp_err *err)
{
    ENTER(q, visit != NULL, err);
    struct dependents d = {.q = q, .of = of, .context = context, .visit = visit};
    int rc;
    QP_TRY(space_number(q, of->ns, &d.ns, err));
    arena_init(&d.arena, &q->env, LIMIT_CARTO_UNIVERSE_SIZE);
    omap_init(&d.seen, &q->env);
    rc = reads_do(q, &d, dependents_in, err);
    omap_done(&d.seen);
    arena_done(&d.arena);
    return rc;
}

/* ------------------------------------------------------------------------------------- steps as tasks */

/* One step of an item, in a worker's hands. */
struct stepping {
    enum carto_step step;
    qp_str addr;
    struct buf *out;
};

static int read_data(struct viewing *v, qp_str addr, qp_str *out_text, struct qp_err *err)
{
    struct data_row key = {.ns = v->job->ns, .job = v->job->job};
    const void *row = NULL;
    int rc;
    QP_TRY(pending_name(&v->arena, 'p', path_of(addr), &key.name));
    rc = store_get(v->store, &v->arena, TABLE_data, &key, &row, err);
    *out_text = rc == QP_OK ? ((const struct data_row *)row)->value : QP_NONE;
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

static int run_step(struct viewing *v, struct qp_err *err)
{
    struct stepping *s = v->context;
    struct carto_plan plan;
    struct split_item item = {.env = &v->q->env, .request = &plan.request};
    qp_str input;
    qp_str answer;
    QP_TRY(traversal_plan(v, &plan, err));
    QP_TRY(traversal_input(v, s->addr, &input, err));
    QP_TRY(item_read(&v->q->env, &v->arena, path_of(s->addr), input, &item.item));
    QP_TRY(read_data(v, s->addr, &item.pending, err));
    QP_TRY(split_run(&item, &v->arena, s->step, &answer, err));
    buf_str(s->out, answer);
    return buf_rc(s->out);
}

static int work_step(enum carto_step step, qp_task *task)
{
    struct buf answer;
    struct stepping s = {.step = step, .addr = task->task->addr, .out = &answer};
    struct viewing v = {.q = task->q,
                        .ns = task->task->ref.ns,
                        .number = task->task->ref.job,
                        .context = &s,
                        .body = run_step};
    struct qp_err err = {0};
    int rc;
    buf_init(&answer, &task->q->env, LIMIT_PAYLOAD_HARD_SIZE);
    if (traversal_view(&v, &err) == QP_OK) {
        rc = qp_task_output(task, buf_slice(&answer));
    } else {
        rc = qp_task_fail(task, &(struct qp_failure){.message = err.text, .code = 500});
    }
    buf_done(&answer);
    return rc;
}

static int work_select(void *context, qp_task *task)
{
    (void)context;
    return work_step(CARTO_STEP_SELECT, task);
}

static int work_resolve(void *context, qp_task *task)
{
    (void)context;
    return work_step(CARTO_STEP_RESOLVE, task);
}

static int work_traverse(void *context, qp_task *task)
{
    (void)context;
    return work_step(CARTO_STEP_TRAVERSE, task);
}

/* -------------------------------------------------------------------------------------------- serving */

bool traversals_serves(const char *topics, qp_str topic)
{
    size_t n;
    if (topics == NULL) {
        return true;
    }
    for (; *topics != '\0'; topics += n + (topics[n] == ',')) {
        n = strcspn(topics, ",");
        if (n == topic.n && memcmp(topics, topic.p, n) == 0) {
            return true;
        }
    }
    return false;
}

static int serve_step(qp *q, const char *topics, enum carto_step step, struct qp_err *err)
{
    static const qp_work works[CARTO_STEPS] = {work_select, work_resolve, work_traverse};
    for (size_t i = 0; i < carto_types.count; i++) {
        char topic[LIMIT_NAME_SIZE];
        struct qp_worker worker = {.work = works[step], .topic.p = topic};
        worker.topic.n = (size_t)snprintf(topic, sizeof topic, "carto.%s.%s", carto_step_text(step),
                                          carto_types.list[i]->name);
        if (traversals_serves(topics, worker.topic)) {
            QP_TRY(qp_worker_add(q, &worker, err));
        }
    }
    return QP_OK;
}

int traversals_serve(qp *q, const char *topics, struct qp_err *err)
{
    struct qp_worker format = {.topic = CARTO_FORMAT_TOPIC, .work = work_format};
    for (enum carto_step step = CARTO_STEP_SELECT; step < CARTO_STEPS; step++) {
        QP_TRY(serve_step(q, topics, step, err));
    }
    return traversals_serves(topics, format.topic) ? qp_worker_add(q, &format, err) : QP_OK;
}

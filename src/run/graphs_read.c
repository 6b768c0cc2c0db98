/* graphs_read.c - what is told of applications: their versions, what differs between two, measures
 *
 * Reads of committed rows. What is compiled comes from the library, pinned while it is looked at.
 */
#include "run/graphs_read.h"

#include "graph/diff.h"
#include "graph/measures.h"
#include "run/enter.h"
#include "run/graphs.h"
#include "run/show.h"

/* -------------------------------------------------------------------------------------------- versions */

struct listing {
    qp *q;
    int64_t ns;
    void *context;
    qp_app_visit visit;
};

static struct qp_app app_told(const struct app_row *row)
{
    return (struct qp_app){.app = row->app,
                           .version = row->version,
                           .text = row->source,
                           .active = row->state == APP_ACTIVE,
                           .created_at = row->created_at,
                           .activated_at = row->activated_at};
}

/* Hidden from people; its jobs still need it. */
static bool is_deleted(const struct app_row *row)
{
    return row->state == APP_DELETED;
}

static int list_one(void *context, const void *row)
{
    struct listing *l = context;
    struct qp_app told = app_told(row);
    return is_deleted(row) ? QP_OK : l->visit(l->context, &told);
}

static int list_apps(void *context, struct store *s, struct qp_err *err)
{
    struct listing *l = context;
    struct app_row prefix = {.ns = l->ns};
    struct scan scan = {.table = TABLE_app,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 1,
                        .limit = LIMIT_APP_TOPICS};
    return store_scan(s, &scan, l, list_one, err);
}

int qp_apps(qp *q, qp_str ns, void *context, qp_app_visit visit, struct qp_err *err)
{
    ENTER(q, visit != NULL, err);
    struct listing l = {.q = q, .context = context, .visit = visit};
    int rc = space_number(q, ns, &l.ns, err);
    return rc == QP_OK ? reads_do(q, &l, list_apps, err) : rc;
}

/* One version. */
struct asking {
    qp *q;
    int64_t ns;
    qp_str app;
    qp_str version;
    void *context;
    qp_app_visit visit;
};

static int get_app(struct store *s, struct arena *arena, int64_t ns, qp_str app, qp_str version,
                   const struct app_row **out_row, struct qp_err *err)
{
    struct app_row key = {.ns = ns, .app = app, .version = version};
    const void *row = NULL;
    int rc = store_get(s, arena, TABLE_app, &key, &row, err);
    rc = rc == QP_OK && is_deleted(row) ? QP_E_NOT_FOUND : rc;
    *out_row = row;
    return rc == QP_E_NOT_FOUND ? err_set(err, rc, "there is no version '%.*s' of '%.*s'",
                                          STR_ARG(version), STR_ARG(app))
                                : rc;
}

static int show_one(void *context, struct store *s, struct qp_err *err)
{
    struct asking *asking = context;
    const struct app_row *row = NULL;
    struct arena arena;
    int rc;
    arena_init(&arena, &asking->q->env, 0);
    rc = get_app(s, &arena, asking->ns, asking->app, asking->version, &row, err);
    if (rc == QP_OK) {
        struct qp_app told = app_told(row);
        rc = asking->visit(asking->context, &told);
    }
    arena_done(&arena);
    return rc;
}

int qp_app_show(qp *q, qp_str ns, qp_str app, qp_str version, void *context, qp_app_visit visit,
                struct qp_err *err)
{
    ENTER(q, visit != NULL, err);
    struct asking asking = {
        .q = q, .app = app, .version = version, .context = context, .visit = visit};
    int rc = name_check(app, "app", err);
    rc = rc == QP_OK ? name_check(version, "version", err) : rc;
    rc = rc == QP_OK ? space_number(q, ns, &asking.ns, err) : rc;
    return rc == QP_OK ? reads_do(q, &asking, show_one, err) : rc;
}

/* ------------------------------------------------------------------------------- as people see them */

/* All versions of a namespace, without their texts. */
struct gathering {
    qp *q;
    int64_t ns;
    struct json_writer *w;
    struct arena arena;
    struct noted {
        struct noted *next;
        struct qp_app app;
    } * first, *last;
};

static int note_one(void *context, const void *row)
{
    struct gathering *g = context;
    struct noted *n;
    if (is_deleted(row)) {
        return QP_OK;
    }
    n = ARENA_NEW(&g->arena, struct noted);
    if (n == NULL) {
        return QP_E_NOMEM;
    }
    n->app = app_told(row);
    n->app.text = QP_NONE;
    if (!arena_copy(&g->arena, n->app.app, &n->app.app) ||
        !arena_copy(&g->arena, n->app.version, &n->app.version)) {
        return QP_E_NOMEM;
    }
    if (g->last == NULL) {
        g->first = n;
    } else {
        g->last->next = n;
    }
    g->last = n;
    return QP_OK;
}

static void put_graph(struct json_writer *w, const struct graph *g)
{
    json_begin_object(w);
    show_str(w, "topic", g->subscribes);
    show_str(w, "publishes", g->publishes);
    show_count(w, "activities", (int64_t)g->digit_count);
    json_key(w, QP_STR("hooks"));
    json_begin_array(w);
    for (size_t i = 0; i < g->app->hook_count; i++) {
        const struct hook_rule *rule = &g->app->hooks[i];
        if (rule->to->graph == g) {
            json_put_str(w, rule->topic);
        }
    }
    json_end_array(w);
    json_end_object(w);
}

/* The graphs of the version that is active; a text that does not compile here has none to tell. */
static int put_graphs(struct gathering *g, struct store *s, const struct qp_app *active)
{
    struct library *library = graph_library(g->q->faces);
    struct between between = {s, &g->arena};
    struct row_reader reader = reader_between(&between);
    const struct app *app = NULL;
    qp_str name;
    int rc = version_name(&g->arena, active->app, active->version, &name);
    rc = rc == QP_OK ? library_pin(library, &reader, g->ns, name, &app) : rc;
    if (rc != QP_OK) {
        return rc == QP_E_INVALID ? QP_OK : rc;
    }
    json_key(g->w, QP_STR("graphs"));
    json_begin_array(g->w);
    for (size_t i = 0; i < app->graph_count; i++) {
        put_graph(g->w, &app->graphs[i]);
    }
    json_end_array(g->w);
    library_unpin(library, app);
    return QP_OK;
}

/* All versions of one application stand together; returns the first of the next one. */
static int put_workflow(struct gathering *g, struct store *s, const struct noted **at)
{
    const struct noted *first = *at;
    const struct qp_app *active = NULL;
    const struct noted *n;
    int rc = QP_OK;
    json_begin_object(g->w);
    show_str(g->w, "name", first->app.app);
    json_key(g->w, QP_STR("versions"));
    json_begin_array(g->w);
    for (n = first; n != NULL && str_equal(n->app.app, first->app.app); n = n->next) {
        show_app(g->w, &n->app);
        active = n->app.active ? &n->app : active;
    }
    json_end_array(g->w);
    if (active != NULL) {
        show_str(g->w, "active", active->version);
        rc = put_graphs(g, s, active);
    }
    json_end_object(g->w);
    *at = n;
    return rc;
}

static int gather(void *context, struct store *s, struct qp_err *err)
{
    struct gathering *g = context;
    struct app_row prefix = {.ns = g->ns};
    struct scan scan = {.table = TABLE_app,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 1,
                        .limit = LIMIT_APP_TOPICS,
                        .slim = true};
    const struct noted *at;
    int rc = store_scan(s, &scan, g, note_one, err);
    at = g->first;
    while (rc == QP_OK && at != NULL) {
        rc = put_workflow(g, s, &at);
    }
    return rc;
}

int graphs_list(qp *q, qp_str ns, struct json_writer *w, struct qp_err *err)
{
    struct gathering g = {.q = q, .w = w};
    int rc = space_number(q, ns, &g.ns, err);
    arena_init(&g.arena, &q->env, 0);
    rc = rc == QP_OK ? reads_do(q, &g, gather, err) : rc;
    arena_done(&g.arena);
    return rc;
}

/* ------------------------------------------------------------------------------------------------ diff */

struct differing {
    qp *q;
    int64_t ns;
    qp_str app;
    qp_str from;
    qp_str to;
    struct buf out;
};

static int differ(void *context, struct store *s, struct qp_err *err)
{
    struct differing *d = context;
    const struct app_row *from = NULL;
    const struct app_row *to = NULL;
    struct arena arena;
    int rc;
    arena_init(&arena, &d->q->env, 0);
    rc = get_app(s, &arena, d->ns, d->app, d->from, &from, err);
    rc = rc == QP_OK ? get_app(s, &arena, d->ns, d->app, d->to, &to, err) : rc;
    if (rc == QP_OK) {
        rc = diff_write(&arena, from->source, to->source, &d->out);
        rc = rc == QP_OK ? QP_OK : err_set(err, rc, "diff: %s", qp_code_text(rc));
    }
    arena_done(&arena);
    return rc;
}

int qp_app_diff(qp *q, qp_str ns, qp_str app, qp_str from, qp_str to, void *context, qp_write write,
                struct qp_err *err)
{
    ENTER(q, write != NULL, err);
    struct differing d = {.q = q, .app = app, .from = from, .to = to};
    int rc = name_check(app, "app", err);
    rc = rc == QP_OK ? name_check(from, "from", err) : rc;
    rc = rc == QP_OK ? name_check(to, "to", err) : rc;
    rc = rc == QP_OK ? space_number(q, ns, &d.ns, err) : rc;
    buf_init(&d.out, &q->env, 0);
    rc = rc == QP_OK ? reads_do(q, &d, differ, err) : rc;
    rc = rc == QP_OK ? write(context, buf_slice(&d.out)) : rc;
    buf_done(&d.out);
    return rc;
}

/* -------------------------------------------------------------------------------------------- measures */

struct measuring {
    qp *q;
    struct measure_query query;
    struct buf out;
};

static int measure(void *context, struct store *s, struct qp_err *err)
{
    struct measuring *m = context;
    struct names *names = m->q->faces->names;
    struct arena arena;
    int rc = QP_OK;
    arena_init(&arena, &m->q->env, 0);
    if (m->q->engine == NULL) { /* the engine keeps the table of names fresh; without one, look */
        rc = names_refresh(names, s, err);
    }
    if (rc == QP_OK) {
        rc = measures_read(&arena, s, graph_library(m->q->faces), names, &m->query, &m->out, err);
    }
    arena_done(&arena);
    return rc;
}

int qp_measures_read(qp *q, const struct qp_measures *query, void *context, qp_write write,
                     struct qp_err *err)
{
    ENTER(q, query != NULL && write != NULL, err);
    struct measuring m = {
        .q = q,
        .query = {.topic = query->topic,
                  .data = query->data,
                  .range_ms = query->range_ms,
                  .end_at = query->end_at > 0 ? query->end_at : q->env.wall_ms(q->env.context)}};
    int rc = space_number(q, query->ns, &m.query.ns, err);
    rc = rc == QP_OK ? json_check(&q->env, query->data, NULL, err) : rc;
    buf_init(&m.out, &q->env, 0);
    rc = rc == QP_OK ? reads_do(q, &m, measure, err) : rc;
    rc = rc == QP_OK ? write(context, buf_slice(&m.out)) : rc;
    buf_done(&m.out);
    return rc;
}

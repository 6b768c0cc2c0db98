/* start.c - what a start of a topic means (see start.h) */
#include "graph/start.h"

#include "graph/program.h"
#include "kernel/single.h"

static int start_jid(const struct graph *g, const struct scope *from, struct graph_start *start,
                     struct qp_err *err)
{
    struct lone_text input = {.json = start->input}; /* before there is a job, it is all there is */
    struct scope scope = *from;
    struct value v;
    int rc;
    start->jid = QP_NONE;
    if (g->trigger->job_id == NULL) {
        return QP_OK;
    }
    scope.context = &input;
    scope.find = find_in_text;
    scope.steps = 0;
    rc = mapping_evaluate(g->trigger->job_id, &scope, &v);
    rc = rc == QP_OK ? value_open(scope.arena, &v) : rc;
    if (rc == QP_E_LIMIT || (rc == QP_OK && v.kind == VALUE_UNDEFINED)) {
        return QP_OK; /* as if none were given */
    }
    if (rc == QP_OK && !value_as_text(scope.arena, &v, &start->jid)) {
        rc = err_set(err, QP_E_INVALID, "the id that the trigger of '%.*s' makes is no text",
                     STR_ARG(start->topic));
    }
    return rc == QP_OK ? id_check(start->jid, "the id that the trigger makes", err) : rc;
}

/* The version that the topic belongs to; none: to none. */
static int start_version(struct library *l, const struct row_reader *reader, struct arena *arena,
                         struct graph_start *start)
{
    const struct app *own = NULL;
    QP_TRY(library_topic(l, reader, arena, start->ns, TOPIC_GRAPH, start->topic, &start->version));
    if (!str_is_none(start->version) || str_is_none(start->caller)) {
        return QP_OK;
    }
    QP_TRY(library_app(l, reader, start->ns, start->caller, &own));
    if (app_graph(own, start->topic) != NULL) {
        start->pinned = start->caller;
    }
    return QP_OK;
}

/* A version that was not asked for by its topic may be one that was deleted: no job begins with it. */
static int pin_version(const struct row_reader *reader, struct graph_start *start,
                       struct qp_err *err)
{
    bool open = false;
    QP_TRY(library_is_open(reader, start->ns, start->pinned, &open));
    start->version = start->pinned;
    return open ? QP_OK
                : err_set(err, QP_E_NOT_FOUND,
                          "version '%.*s' of '%.*s' was deleted, and no job begins with it: start "
                          "'%.*s' with the version that is active",
                          STR_ARG(start->pinned), STR_ARG(start->topic), STR_ARG(start->topic));
}

int graph_start(struct library *l, const struct row_reader *reader, const struct scope *scope,
                struct graph_start *start, struct qp_err *err)
{
    const struct app *app = NULL;
    const struct graph *g;
    int rc = QP_OK;
    start->kind = SINGLE_KIND;
    start->jid = QP_NONE;
    start->version = QP_NONE;
    if (str_is_none(start->pinned)) {
        QP_TRY(start_version(l, reader, scope->arena, start));
    }
    if (!str_is_none(start->pinned)) {
        QP_TRY(pin_version(reader, start, err));
    }
    if (str_is_none(start->version)) {
        return QP_OK;
    }
    start->kind = GRAPH_KIND;
    rc = library_app(l, reader, start->ns, start->version, &app);
    g = rc == QP_OK ? app_graph(app, start->topic) : NULL;
    if (rc != QP_OK || g == NULL) {
        return err_set(err, rc == QP_OK ? QP_E_NOT_FOUND : rc,
                       "the graph of '%.*s' (%.*s) cannot be had", STR_ARG(start->topic),
                       STR_ARG(start->version));
    }
    rc = g->input == NULL ? QP_OK : schema_check(g->input, start->input, err);
    return rc == QP_OK ? start_jid(g, scope, start, err) : rc;
}

/* ------------------------------------------------------------------------------------------- names */

static int name_start(void *context, struct bundle *b, struct naming *n, struct qp_err *err)
{
    struct library *l = context;
    struct row_reader reader = reader_in(b);
    struct scope scope = {.arena = &b->commit->arena, .env = library_env(l), .now = bundle_now(b)};
    struct graph_start start = {
        .ns = n->ns, .topic = n->name, .input = n->input, .pinned = n->pinned};
    int rc = graph_start(l, &reader, &scope, &start, err);
    n->kind = start.kind;
    n->version = start.version;
    n->jid = start.jid;
    return rc;
}

/* What of a payload a rule looks at: "request, by.name". */
static void name_wanted(struct buf *out, const struct hook_rule *rule)
{
    for (size_t i = 0; i < rule->match_count; i++) {
        const struct reference *r = mapping_references(rule->matches[i].actual);
        for (; r != NULL; r = r->next) {
            buf_text(out, out->n > 0 ? ", " : "");
            for (size_t k = 0; k < r->path_count; k++) {
                buf_text(out, k > 0 ? "." : "");
                buf_str(out, r->path[k]);
            }
        }
    }
}

static int refuse_payload(struct library *l, const struct hook_rule *rule, qp_str name,
                          struct qp_err *err)
{
    struct buf wanted;
    int rc;
    buf_init(&wanted, library_env(l), 0);
    name_wanted(&wanted, rule);
    rc =
        err_set(err, QP_E_SHAPE, "the payload lacks what hooks at '%.*s' are found by: %.*s (%.*s)",
                STR_ARG(rule->topic), STR_ARG(buf_slice(&wanted)), STR_ARG(name));
    buf_done(&wanted);
    return rc;
}

static int name_signal_key(void *context, struct bundle *b, const struct op_hook_signal *signal,
                           qp_str *out_key, struct qp_err *err)
{
    struct library *l = context;
    struct arena *a = &b->commit->arena;
    struct row_reader reader = reader_in(b);
    const struct app *app = NULL;
    qp_str name;
    int rc = library_topic(l, &reader, a, signal->ns, TOPIC_HOOK, signal->topic, &name);
    if (rc == QP_OK && str_is_none(name)) {
        return err_set(
            err, QP_E_NOT_FOUND,
            "no deployed graph has a hook at '%.*s'; name the key of whoever else waits there",
            STR_ARG(signal->topic));
    }
    if (rc == QP_OK) {
        rc = library_app(l, &reader, signal->ns, name, &app);
    }
    if (rc == QP_OK) {
        rc = signal_key(a, library_env(l), bundle_now(b), app_hook(app, signal->topic),
                        signal->payload, out_key);
    }
    if (rc == QP_E_LIMIT || rc == QP_E_TOO_LARGE || (rc == QP_OK && str_is_none(*out_key))) {
        return refuse_payload(l, app_hook(app, signal->topic), name, err);
    }
    return rc == QP_OK ? QP_OK : err_set(err, rc, "%s", qp_code_text(rc));
}

struct names graph_names(struct library *l)
{
    return (struct names){l, name_start, name_signal_key};
}

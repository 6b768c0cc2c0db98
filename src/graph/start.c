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
    int rc = library_topic(l, arena, start->ns, TOPIC_GRAPH, start->topic, &start->version);
    if (rc != QP_OK || !str_is_none(start->version) || str_is_none(start->caller)) {
        return rc;
    }
    rc = library_app(l, reader, start->ns, start->caller, &own);
    if (rc == QP_OK && app_graph(own, start->topic) != NULL) {
        start->version = start->caller;
    }
    return rc;
}

int graph_start(struct library *l, const struct row_reader *reader, const struct scope *scope,
                struct graph_start *start, struct qp_err *err)
{
    const struct app *app = NULL;
    const struct graph *g;
    int rc = start_version(l, reader, scope->arena, start);
    start->kind = SINGLE_KIND;
    start->jid = QP_NONE;
    if (rc != QP_OK || str_is_none(start->version)) {
        return rc;
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

/* start.c - what a start of a graph means (see start.h) */
#include "graph/start.h"

#include "graph/action.h"

/* The id that the trigger's stats.id makes of the input. */
static int start_jid(struct library *l, struct bundle *b, const struct graph *g, struct naming *n,
                     struct qp_err *err)
{
    struct lone_text input = {.json = n->input}; /* before there is a job, it is all there is */
    struct scope scope = {.arena = &b->commit->arena,
                          .env = library_env(l),
                          .now = bundle_now(b),
                          .context = &input,
                          .find = find_in_text};
    struct value v;
    int rc;
    if (g->trigger->job_id == NULL) {
        return QP_OK;
    }
    rc = mapping_evaluate(g->trigger->job_id, &scope, &v);
    rc = rc == QP_OK ? value_open(scope.arena, &v) : rc;
    if (rc == QP_E_LIMIT || (rc == QP_OK && v.kind == VALUE_UNDEFINED)) {
        return QP_OK; /* as if none were given */
    }
    QP_TRY(rc);
    if (!value_as_text(scope.arena, &v, &n->jid)) {
        return err_set(err, QP_E_INVALID, "the id that the trigger of '%.*s' makes is no text",
                       STR_ARG(n->name));
    }
    return id_check(n->jid, "the id that the trigger makes", err);
}

/* A name that no active version has means what the caller's version says: it may have been active before. */
static int own_version(struct library *l, const struct row_reader *reader, struct naming *n)
{
    const struct app *own = NULL;
    QP_TRY(library_app(l, reader, n->ns, n->caller, &own));
    if (app_graph(own, n->name) != NULL) {
        n->version = n->caller;
    }
    return QP_OK;
}

/* The version that a fork asks for, of the application that it would have. */
static int wanted_version(struct arena *a, struct naming *n, struct qp_err *err)
{
    qp_str app;
    qp_str version;
    if (!version_split(n->version, &app, &version)) {
        return err_set(err, QP_E_CORRUPT, "'%.*s' is no version of a graph", STR_ARG(n->version));
    }
    return version_name(a, app, n->wanted, &n->version) == QP_OK
               ? QP_OK
               : err_set(err, QP_E_NOMEM, "%s", qp_code_text(QP_E_NOMEM));
}

/* A version that was not found by its name may be one that was deleted: no job begins with it. */
static int check_open(const struct row_reader *reader, const struct naming *n, struct qp_err *err)
{
    bool open = false;
    QP_TRY(library_is_open(reader, n->ns, n->version, &open));
    if (!open && !str_is_none(n->wanted)) {
        (void)err_set(err, QP_E_NOT_FOUND,
                      "version: there is no '%.*s', or it was deleted; quipu workflows show lists "
                      "the versions of an application",
                      STR_ARG(n->version));
        return err_point(err, QP_E_NOT_FOUND, "/version");
    }
    return open ? QP_OK
                : err_set(err, QP_E_NOT_FOUND,
                          "version '%.*s' of '%.*s' was deleted, and no job begins with it: start "
                          "'%.*s' with the version that is active",
                          STR_ARG(n->version), STR_ARG(n->name), STR_ARG(n->name));
}

static int find_graph(struct library *l, const struct row_reader *reader, const struct naming *n,
                      const struct graph **out_graph, struct qp_err *err)
{
    const struct app *app = NULL;
    int rc = library_app(l, reader, n->ns, n->version, &app);
    const struct graph *g = rc == QP_OK ? app_graph(app, n->name) : NULL;
    if (g == NULL) {
        return err_set(err, rc == QP_OK ? QP_E_NOT_FOUND : rc,
                       "the graph of '%.*s' (%.*s) cannot be had", STR_ARG(n->name),
                       STR_ARG(n->version));
    }
    *out_graph = g;
    return QP_OK;
}

/* Activities have policies of their own. */
static int check_policy(const struct naming *n, struct qp_err *err)
{
    return str_is_none(n->policy)
               ? QP_OK
               : err_set(err, QP_E_INVALID,
                         "retry: the topic is a graph's, whose activities have policies of their "
                         "own: say it there, and leave it out here");
}

/* The input of a start was checked to be JSON where it came in; that of a call is what a mapping made. */
static int check_input(const struct graph *g, const struct naming *n, struct qp_err *err)
{
    enum json_trust trust = str_is_none(n->caller) ? JSON_CHECKED : JSON_UNCHECKED;
    int rc = g->input == NULL ? QP_OK : schema_check(g->input, n->input, trust, err);
    return rc == QP_E_SHAPE ? err_point(err, rc, "/input") : rc;
}

int graph_start(struct library *l, struct bundle *b, struct naming *n, struct qp_err *err)
{
    struct row_reader reader = reader_in(b);
    const struct graph *g = NULL;
    bool by_name = !str_is_none(n->version) && str_is_none(n->pinned);
    if (!str_is_none(n->wanted)) {
        QP_TRY(wanted_version(&b->commit->arena, n, err));
        by_name = false;
    }
    if (str_is_none(n->version)) {
        QP_TRY(own_version(l, &reader, n));
    }
    if (str_is_none(n->version)) {
        return QP_OK;
    }
    if (!by_name) {
        QP_TRY(check_open(&reader, n, err));
    }
    QP_TRY(find_graph(l, &reader, n, &g, err));
    QP_TRY(check_input(g, n, err));
    QP_TRY(start_jid(l, b, g, n, err));
    return check_policy(n, err);
}

/* ------------------------------------------------------------------------------------------- signals */

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

static int refuse_payload(struct library *l, const struct hook_rule *rule, qp_str version,
                          struct qp_err *err)
{
    struct buf wanted;
    int rc;
    buf_init(&wanted, library_env(l), 0);
    name_wanted(&wanted, rule);
    rc =
        err_set(err, QP_E_SHAPE, "the payload lacks what hooks at '%.*s' are found by: %.*s (%.*s)",
                STR_ARG(rule->topic), STR_ARG(buf_slice(&wanted)), STR_ARG(version));
    buf_done(&wanted);
    return rc;
}

int graph_signal_key(struct library *l, struct bundle *b, const struct op_hook_signal *signal,
                     qp_str version, qp_str *out_key, struct qp_err *err)
{
    struct row_reader reader = reader_in(b);
    const struct app *app = NULL;
    const struct hook_rule *rule;
    int rc = library_app(l, &reader, signal->ns, version, &app);
    if (rc != QP_OK) {
        return err_set(err, rc, "%s", qp_code_text(rc));
    }
    rule = app_hook(app, signal->topic);
    rc = signal_key(&b->commit->arena, library_env(l), bundle_now(b), rule, signal->payload,
                    out_key);
    if (rc == QP_E_LIMIT || rc == QP_E_TOO_LARGE || (rc == QP_OK && str_is_none(*out_key))) {
        return refuse_payload(l, rule, version, err);
    }
    return rc == QP_OK ? QP_OK : err_set(err, rc, "%s", qp_code_text(rc));
}

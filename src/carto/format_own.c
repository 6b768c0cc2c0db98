/* format_own.c - a line per node and an item per path, by the mappings of the request (see format_own.h) */
#include "carto/format_own.h"

#include <stdlib.h>

#include "mapping/mapping.h"

struct format_own {
    const struct mapping *node; /* NULL: none */
    const struct mapping *path;
};

/* ------------------------------------------------------------------------------------------- reading */

static int refuse(struct qp_err *err, const char *sentence)
{
    (void)err_set(err, QP_E_SHAPE, "%s", sentence);
    return err_point(err, QP_E_SHAPE, "%s", "/format");
}

/* What is wrong first, and what to do about it. */
static int refuse_mapping(struct qp_err *err, const char *member, const struct report *report)
{
    const struct finding *f = report->first;
    if (report->no_memory || f == NULL) {
        return QP_E_NOMEM;
    }
    (void)err_set(err, QP_E_SHAPE, "%.*s. %.*s", STR_ARG(f->message), STR_ARG(f->hint));
    return err_point(err, QP_E_SHAPE, "/format/%s", member);
}

/* Written on one line, so that it reads as the YAML that mappings are compiled from. */
static int text_of(struct arena *a, const struct json *json, qp_str *out_text)
{
    struct buf text;
    struct json_writer w;
    bool is_copied;
    buf_init(&text, a->env, 0);
    json_writer_init(&w, &text);
    json_write_tree(&w, json);
    is_copied = json_writer_done(&w) == QP_OK && arena_copy(a, buf_slice(&text), out_text);
    buf_done(&text);
    return is_copied ? QP_OK : QP_E_NOMEM;
}

/* A member that may be left out. */
static int compile(struct arena *a, const struct json *given, const char *member,
                   const struct mapping **out_mapping, struct qp_err *err)
{
    const struct json *json = json_get(given, str_from(member));
    struct report report;
    struct node *root = NULL;
    qp_str text;
    int rc;
    if (json == NULL) {
        return QP_OK;
    }
    QP_TRY(text_of(a, json, &text));
    report_init(&report, a);
    rc = tree_read(a, text, &report, &root);
    if (rc != QP_OK && rc != QP_E_MALFORMED) {
        return rc;
    }
    *out_mapping = rc == QP_OK ? mapping_compile_item(a, root, &report) : NULL;
    return *out_mapping == NULL ? refuse_mapping(err, member, &report) : QP_OK;
}

int format_own_read(struct arena *a, const struct json *given, const struct format_own **out_own,
                    struct qp_err *err)
{
    struct format_own *own = ARENA_NEW(a, struct format_own);
    if (own == NULL) {
        return QP_E_NOMEM;
    }
    QP_TRY(compile(a, given, "node", &own->node, err));
    QP_TRY(compile(a, given, "path", &own->path, err));
    if (json_count(given) == 0 ||
        json_count(given) != (own->node != NULL ? 1U : 0U) + (own->path != NULL ? 1U : 0U)) {
        return refuse(err,
                      "format must be an object with mappings as its members node, path or both");
    }
    *out_own = own;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------- writing */

/* One value after the other. */
struct evaluating {
    struct qp_env env;
    struct arena arena; /* of one value */
    struct buf value;   /* as JSON */
};

struct writing {
    const struct result_graph *graph;
    const struct format_own *own;
    struct format_output *output;
    struct evaluating evaluating;
    size_t *first; /* by node: its first in `edges`; one more at the end */
    const struct result_edge **edges;
    struct buf item;
};

/* Always the same. */
static int no_entropy(void *context, void *out_bytes, size_t size)
{
    (void)context;
    memset(out_bytes, 0, size);
    return QP_OK;
}

static void evaluating_init(struct evaluating *e, const struct qp_env *env)
{
    *e = (struct evaluating){.env = *env};
    e->env.entropy = no_entropy;
    arena_init(&e->arena, env, 0);
    buf_init(&e->value, env, LIMIT_PAYLOAD_HARD_SIZE);
}

static void evaluating_done(struct evaluating *e)
{
    arena_done(&e->arena);
    buf_done(&e->value);
}

/* In place of a value that takes too much. */
static int put_limit(struct evaluating *e, const char *error, qp_str purl)
{
    struct json_writer j;
    json_writer_init(&j, &e->value);
    json_begin_object(&j);
    member_put_text(&j, "error", str_from(error == NULL ? "it is too large" : error));
    member_put_some(&j, "purl", purl);
    json_end_object(&j);
    return json_writer_done(&j);
}

/* What the mapping makes of an item, into `value`; `purl` names it in an error. */
static int evaluate(struct evaluating *e, const struct mapping *m, qp_str json, size_t index,
                    qp_str purl)
{
    struct scope scope = {.arena = &e->arena, .env = &e->env};
    struct mapping_item item = {value_raw(json), (int64_t)index};
    struct value value;
    int rc;
    arena_reset(&e->arena);
    buf_reset(&e->value);
    rc = mapping_evaluate_item(m, &scope, &item, &value);
    if (rc == QP_E_LIMIT) {
        return put_limit(e, scope.error, purl);
    }
    QP_TRY(rc);
    if (value.kind == VALUE_UNDEFINED) {
        buf_text(&e->value, "null");
        return buf_rc(&e->value);
    }
    return value_write(&e->value, &value);
}

/* Edges by the node that they lead to. */
static int sort_edges(struct writing *w)
{
    const struct result_graph *g = w->graph;
    size_t *next = mem_alloc(g->env, (g->node_count + 1) * sizeof *next);
    w->first = mem_alloc(g->env, (g->node_count + 2) * sizeof *w->first);
    w->edges = mem_alloc(g->env, (g->edge_count + 1) * sizeof *w->edges);
    if (next == NULL || w->first == NULL || w->edges == NULL) {
        mem_free(g->env, next);
        return QP_E_NOMEM;
    }
    memset(w->first, 0, (g->node_count + 2) * sizeof *w->first);
    for (size_t i = 0; i < g->edge_count; i++) {
        w->first[g->edges[i].to->index + 1]++;
    }
    for (size_t i = 0; i < g->node_count; i++) {
        w->first[i + 1] += w->first[i];
        next[i] = w->first[i];
    }
    for (size_t i = 0; i < g->edge_count; i++) {
        w->edges[next[g->edges[i].to->index]++] = &g->edges[i];
    }
    mem_free(g->env, next);
    return QP_OK;
}

static int compare_requirements(const void *a, const void *b)
{
    const struct result_edge *const *x = a;
    const struct result_edge *const *y = b;
    return str_compare((*x)->requirement, (*y)->requirement);
}

static void put_requirements(struct writing *w, struct json_writer *j, const struct result_node *n)
{
    const struct result_edge **edges = w->edges + w->first[n->index];
    size_t count = w->first[n->index + 1] - w->first[n->index];
    json_key(j, QP_STR("requirement"));
    json_begin_array(j);
    if (count > 0) {
        qsort(edges, count, sizeof *edges, compare_requirements);
    }
    for (size_t i = 0; i < count; i++) {
        if (edges[i]->requirement.n > 0 &&
            (i == 0 || !str_equal(edges[i]->requirement, edges[i - 1]->requirement))) {
            json_put_str(j, edges[i]->requirement);
        }
    }
    json_end_array(j);
}

static void put_scopes(struct json_writer *j, const struct result_node *n)
{
    json_key(j, QP_STR("scopes"));
    json_begin_array(j);
    for (enum carto_scope s = CARTO_RUNTIME; s <= CARTO_EXTRA; s++) {
        if ((n->scopes >> s & 1U) != 0) {
            json_put_str(j, str_from(carto_scope_text(s)));
        }
    }
    json_end_array(j);
}

static void put_errors(struct json_writer *j, const struct result_node *n)
{
    struct result_error error;
    json_key(j, QP_STR("errors"));
    json_begin_array(j);
    for (qp_str rest = n->errors; result_error_next(&rest, &error);) {
        json_begin_object(j);
        member_put_text(j, "code", error.code);
        member_put_text(j, "message", error.message);
        json_end_object(j);
    }
    json_end_array(j);
}

static int put_item(struct writing *w, const struct result_node *n)
{
    struct json_writer j;
    buf_reset(&w->item);
    json_writer_init(&j, &w->item);
    json_begin_object(&j);
    member_put_text(&j, "purl", n->id);
    member_put_text(&j, "type", n->package.id.type);
    member_put_text(&j, "name", n->package.id.name);
    member_put_text(&j, "version", n->package.version.n > 0 ? n->package.version : QP_NONE);
    member_put_number(&j, "depth", (int64_t)n->level);
    put_scopes(&j, n);
    put_requirements(w, &j, n);
    put_errors(&j, n);
    member_put_text(&j, "relation", result_relation_text(n));
    member_put_flag(&j, "frontier", n->is_frontier);
    member_put_flag(&j, "virtual", n->is_virtual);
    json_end_object(&j);
    return json_writer_done(&j);
}

static int put_line(struct writing *w, const struct result_node *n)
{
    struct evaluating *e = &w->evaluating;
    QP_TRY(put_item(w, n));
    QP_TRY(evaluate(e, w->own->node, buf_slice(&w->item), n->index, n->id));
    buf_str(&w->output->text, buf_slice(&e->value));
    buf_byte(&w->output->text, '\n');
    return QP_OK;
}

static int write_lines(struct writing *w)
{
    QP_TRY(sort_edges(w));
    for (size_t i = 0; i < w->graph->node_count; i++) {
        QP_TRY(put_line(w, w->graph->nodes[i]));
        format_output_full(w->output);
    }
    return QP_OK;
}

int format_own_write(const struct result_graph *g, const struct format_own *own,
                     struct format_output *o)
{
    struct writing w = {.graph = g, .own = own, .output = o};
    int end;
    int rc;
    QP_ASSERT(own->node != NULL);
    format_output_begin(o, g->env);
    buf_init(&w.item, g->env, LIMIT_PAYLOAD_HARD_SIZE);
    evaluating_init(&w.evaluating, g->env);
    rc = write_lines(&w);
    mem_free(g->env, w.first);
    mem_free(g->env, w.edges);
    buf_done(&w.item);
    evaluating_done(&w.evaluating);
    end = format_output_end(o);
    return rc == QP_OK ? end : rc;
}

/* ------------------------------------------------------------------------------------------- paths */

bool format_own_has_node(const struct format_own *own)
{
    return own->node != NULL;
}

bool format_own_has_path(const struct format_own *own)
{
    return own->path != NULL;
}

int format_own_paths(const struct format_own *own, const struct qp_env *env, qp_str paths,
                     struct json_writer *w)
{
    struct raw_walk walk = {.rest = paths};
    struct evaluating e;
    int rc = QP_OK;
    QP_ASSERT(own->path != NULL);
    evaluating_init(&e, env);
    json_begin_array(w);
    while (rc == QP_OK && raw_each(&walk)) {
        rc = evaluate(&e, own->path, walk.value, walk.index, QP_NONE);
        if (rc == QP_OK) {
            json_put_raw(w, buf_slice(&e.value));
        }
    }
    json_end_array(w);
    evaluating_done(&e);
    return rc;
}

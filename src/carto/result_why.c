/* result_why.c - why a package is in a result (see result_why.h) */
#include "carto/result_why.h"

#include "carto/format_output.h"
#include "carto/purl.h"
#include "carto/result_ways.h"

struct asking {
    const struct result_graph *g;
    struct arena *arena;
    struct json_writer *w;
};

/* ---------------------------------------------------------------------------------------- which nodes */

static bool is_meant(const struct result_node *n, const struct carto_package *package)
{
    return str_equal(n->package.id.name, package->id.name) &&
           str_equal(n->package.id.type, package->id.type) &&
           (package->version.n == 0 || str_equal(n->package.version, package->version));
}

/* The names of a result's nodes, one after the other, as facts_nearest reads those of a universe. Versions of one package
 * stand beside each other, and are one name. */
struct names {
    const struct result_graph *g;
    size_t *at;
};

static int next_name(const void *context, qp_str after, qp_str *out_name)
{
    const struct names *n = context;
    while (*n->at < n->g->node_count) {
        qp_str name = n->g->nodes[(*n->at)++]->package.id.name;
        if (!str_equal(name, after)) {
            *out_name = name;
            return QP_OK;
        }
    }
    return QP_E_NOT_FOUND;
}

static int refuse(const struct asking *q, qp_str text, qp_str name, struct qp_err *err)
{
    size_t at = 0;
    struct names names = {q->g, &at};
    struct carto_facts facts = {.context = &names, .next = next_name};
    qp_str near = QP_NONE;
    QP_TRY(facts_nearest(&facts, q->arena, name, &near));
    return err_set(err, QP_E_NOT_FOUND, "the result has no package '%.*s'%s%.*s", STR_ARG(text),
                   near.n > 0 ? "; the nearest names are " : "", STR_ARG(near));
}

static int find_ends(const struct asking *q, qp_str text, struct way_ends *out, struct qp_err *err)
{
    struct carto_package package = {0};
    uint32_t *nodes = arena_alloc(q->arena, (q->g->node_count + 1) * sizeof *nodes);
    size_t count = 0;
    if (nodes == NULL) {
        return QP_E_NOMEM;
    }
    QP_TRY(package_name_read(q->arena, text, &package, err));
    for (size_t i = 0; i < q->g->node_count; i++) {
        if (is_meant(q->g->nodes[i], &package)) {
            nodes[count++] = (uint32_t)i;
        }
    }
    *out = (struct way_ends){nodes, count};
    return count > 0 ? QP_OK : refuse(q, text, package.id.name, err);
}

static int all_roots(const struct asking *q, struct way_ends *out)
{
    uint32_t *nodes = arena_alloc(q->arena, (q->g->root_count + 1) * sizeof *nodes);
    if (nodes == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < q->g->root_count; i++) {
        nodes[i] = (uint32_t)i;
    }
    *out = (struct way_ends){nodes, q->g->root_count};
    return QP_OK;
}

/* -------------------------------------------------------------------------------------------- answer */

void result_edge_put(struct json_writer *w, const struct result_edge *e)
{
    json_begin_object(w);
    member_put_text(w, "from", e->from->id);
    member_put_text(w, "to", e->to->id);
    member_put_text(w, "requirement", e->requirement);
    member_put_text(w, "scope", str_from(carto_scope_text(e->scope)));
    member_put_text(w, "kind", e->kind);
    json_end_object(w);
}

static void put_ids(const struct asking *q, const char *key, const uint32_t *nodes, size_t count)
{
    json_key(q->w, str_from(key));
    json_begin_array(q->w);
    for (size_t i = 0; i < count; i++) {
        json_put_str(q->w, q->g->nodes[nodes[i]]->id);
    }
    json_end_array(q->w);
}

/* All relationships between two nodes. */
static void put_between(const struct asking *q, uint32_t from, uint32_t to)
{
    const struct result_node *n = q->g->nodes[from];
    for (size_t i = 0; i < n->edge_count; i++) {
        const struct result_edge *e = &q->g->edges[n->first_edge + i];
        if (e->to->index == to) {
            result_edge_put(q->w, e);
        }
    }
}

static void put_path(const struct asking *q, const struct way *way)
{
    json_begin_object(q->w);
    put_ids(q, "nodes", way->nodes, way->count);
    json_key(q->w, QP_STR("edges"));
    json_begin_array(q->w);
    for (size_t i = 1; i < way->count; i++) {
        put_between(q, way->nodes[i - 1], way->nodes[i]);
    }
    json_end_array(q->w);
    json_end_object(q->w);
}

static void put_paths(const struct asking *q, const struct ways *ways)
{
    json_key(q->w, QP_STR("paths"));
    json_begin_array(q->w);
    for (size_t i = 0; i < ways->count; i++) {
        put_path(q, &ways->rows[i]);
    }
    json_end_array(q->w);
    member_put_flag(q->w, "more", ways->has_more);
}

/* In the order of the nodes that depend on it. */
static int put_dependents(const struct asking *q, const struct way_ends *targets)
{
    char *is_target = arena_alloc(q->arena, q->g->node_count + 1);
    if (is_target == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < targets->count; i++) {
        is_target[targets->nodes[i]] = 1;
    }
    json_key(q->w, QP_STR("dependents"));
    json_begin_array(q->w);
    for (size_t i = 0; i < q->g->node_count; i++) {
        const struct result_node *n = q->g->nodes[i];
        for (size_t e = n->first_edge; e < n->first_edge + n->edge_count; e++) {
            if (is_target[q->g->edges[e].to->index] != 0) {
                result_edge_put(q->w, &q->g->edges[e]);
            }
        }
    }
    json_end_array(q->w);
    return QP_OK;
}

static int answer(const struct asking *q, const struct why_question *question, struct qp_err *err)
{
    struct ways_question ways = {.graph = q->g, .limit = question->limit};
    struct ways found;
    bool has_from = !str_is_none(question->from);
    QP_TRY(find_ends(q, question->to, &ways.targets, err));
    QP_TRY(has_from ? find_ends(q, question->from, &ways.sources, err)
                    : all_roots(q, &ways.sources));
    QP_TRY(ways_find(q->arena, &ways, &found));
    if (has_from) {
        put_ids(q, "from", ways.sources.nodes, ways.sources.count);
    }
    put_ids(q, "to", ways.targets.nodes, ways.targets.count);
    put_paths(q, &found);
    return put_dependents(q, &ways.targets);
}

int why_write(const struct result_graph *g, const struct why_question *q, struct json_writer *w,
              struct qp_err *err)
{
    struct arena arena;
    struct asking asking = {g, &arena, w};
    int rc;
    arena_init(&arena, g->env, LIMIT_CARTO_UNIVERSE_SIZE);
    rc = answer(&asking, q, err);
    arena_done(&arena);
    return rc;
}

/* result_graph.c - items merged into nodes and edges (see result_graph.h)
 *
 * Two steps: collect reads all items once, in canonical order, and keeps nodes and edges; sort puts both into the
 * order of the formats.
 */
#include "carto/result_graph.h"

#include <stdlib.h>

/* --------------------------------------------------------------------------------------- package URLs */

struct carto_package result_package(const struct carto_item *item)
{
    return item->is_selected ? item->selected : (struct carto_package){.id = item->target};
}

static void write_escaped(struct buf *out, qp_str text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_' || c == '~' ||
                        c == ':';
        if (is_plain) {
            buf_byte(out, (char)c);
        } else {
            buf_printf(out, "%%%02X", c);
        }
    }
}

/* A scope of a name, "@babel/core", is the namespace of the URL; packages of deb have their distribution there. */
void result_purl(struct buf *out, const struct carto_package *package)
{
    qp_str name = package->id.name;
    const char *slash = name.n > 0 ? memrchr(name.p, '/', name.n) : NULL;
    buf_text(out, "pkg:");
    buf_str(out, package->id.type);
    buf_byte(out, '/');
    if (str_equal(package->id.type, QP_STR("deb"))) {
        buf_text(out, "debian/");
    }
    if (slash != NULL) {
        write_escaped(out, (qp_str){name.p, (size_t)(slash - name.p)});
        buf_byte(out, '/');
        name = (qp_str){slash + 1, name.n - (size_t)(slash - name.p) - 1};
    }
    write_escaped(out, name);
    if (package->version.n > 0) {
        buf_byte(out, '@');
        write_escaped(out, package->version);
    }
}

/* ---------------------------------------------------------------------------------------- collecting */

static int purl_of(struct arena *a, const struct carto_package *package, qp_str *out)
{
    struct buf text;
    bool is_copied = false;
    buf_init(&text, a->env, 0);
    result_purl(&text, package);
    is_copied = buf_rc(&text) == QP_OK && arena_copy(a, buf_slice(&text), out);
    buf_done(&text);
    return is_copied ? QP_OK : QP_E_NOMEM;
}

int result_graph_node(struct result_graph *g, const struct carto_package *package, uint64_t level,
                      struct result_node **out)
{
    qp_str id = QP_NONE;
    struct result_node *n = NULL;
    QP_TRY(purl_of(&g->memory, package, &id));
    n = omap_get(&g->by_id, id);
    if (n == NULL) {
        n = ARENA_NEW(&g->memory, struct result_node);
        if (n == NULL || !arena_copy(&g->memory, package->id.type, &n->package.id.type) ||
            !arena_copy(&g->memory, package->id.name, &n->package.id.name) ||
            !arena_copy(&g->memory, package->version, &n->package.version)) {
            return QP_E_NOMEM;
        }
        n->id = id;
        n->level = level;
        QP_TRY(omap_put(&g->by_id, id, n, NULL));
        g->node_count++;
    }
    *out = n;
    return QP_OK;
}

/* Each error of a node once. */
static int add_error(struct result_graph *g, struct result_node *n, const struct carto_item *item)
{
    qp_str line = QP_NONE;
    QP_TRY(carto_print(&g->memory, &line, "%s\t%.*s\n", carto_failure_text(item->failure),
                       STR_ARG(item->error)));
    if (n->errors.n > 0 && memmem(n->errors.p, n->errors.n, line.p, line.n) != NULL) {
        return QP_OK;
    }
    return carto_print(&g->memory, &n->errors, "%.*s%.*s", STR_ARG(n->errors), STR_ARG(line));
}

static int merge_item(struct result_graph *g, const struct carto_item *item, struct result_node *n)
{
    n->scopes |= 1U << item->context.scope;
    n->is_frontier = n->is_frontier || item->is_frontier;
    n->is_virtual = n->is_virtual || item->is_virtual || !item->is_selected;
    if (path_level(item->path) == 0 && n->root == 0) {
        n->root = path_ordinal(item->path) + 1;
    }
    if (item->state == CARTO_FAILED_ITEM && !item->is_optional) {
        return add_error(g, n, item);
    }
    return QP_OK;
}

int result_graph_add_edge(struct result_graph *g, const struct result_edge *edge)
{
    if (g->edge_count == g->edge_room) {
        size_t room = g->edge_room == 0 ? 1024 : g->edge_room * 2;
        struct result_edge *edges = mem_resize(g->env, g->edges, room * sizeof(*edges));
        if (edges == NULL) {
            return QP_E_NOMEM;
        }
        g->edges = edges;
        g->edge_room = room;
    }
    g->edges[g->edge_count++] = *edge;
    return QP_OK;
}

/* A provider stands right behind the name that it provides, below the same parent: the edge goes from that name. */
static int keep_edge(struct result_graph *g, const struct result_node *parent,
                     const struct carto_item *item, const struct result_node *to)
{
    struct result_edge edge = {.from = parent, .to = to, .scope = item->context.scope};
    if (item->via.n == 0) {
        g->named = to;
    } else if (g->named == NULL) {
        return QP_E_CORRUPT;
    } else {
        edge.from = g->named;
    }
    if (!arena_copy(&g->memory, item->advice, &edge.requirement) ||
        !arena_copy(&g->memory, item->kind, &edge.kind)) {
        return QP_E_NOMEM;
    }
    return result_graph_add_edge(g, &edge);
}

struct level {
    uint64_t number;
    size_t count;
    size_t room;
    struct result_node **nodes;
    qp_str *paths;
    size_t parent; /* in the level above */
};

static int level_add(struct result_graph *g, struct level *l, struct result_node *n, qp_str path)
{
    if (l->count == l->room) {
        size_t room = l->room == 0 ? 256 : l->room * 2;
        struct result_node **nodes = arena_room(&g->memory, room * sizeof(struct result_node *));
        qp_str *paths = arena_room(&g->memory, room * sizeof(*paths));
        if (nodes == NULL || paths == NULL) {
            return QP_E_NOMEM;
        }
        if (l->count > 0) {
            memcpy(nodes, l->nodes, l->count * sizeof(struct result_node *));
            memcpy(paths, l->paths, l->count * sizeof(*paths));
        }
        l->nodes = nodes;
        l->paths = paths;
        l->room = room;
    }
    if (!arena_copy(&g->memory, path, &l->paths[l->count])) {
        return QP_E_NOMEM;
    }
    l->nodes[l->count++] = n;
    return QP_OK;
}

static int collect_item(struct result_graph *g, struct level *above, struct level *l,
                        const struct carto_item *item)
{
    struct carto_package package = result_package(item);
    struct result_node *n = NULL;
    QP_TRY(result_graph_node(g, &package, l->number, &n));
    QP_TRY(merge_item(g, item, n));
    if (item->state == CARTO_ENDED || item->state == CARTO_PRUNED) {
        QP_TRY(level_add(g, l, n, item->path)); /* only these have children */
    }
    if (l->number == 0) {
        return QP_OK;
    }
    while (above->parent < above->count &&
           !path_is_parent(above->paths[above->parent], item->path)) {
        above->parent++;
    }
    if (above->parent == above->count) {
        return QP_E_CORRUPT; /* an item without its parent */
    }
    return keep_edge(g, above->nodes[above->parent], item, n);
}

static int collect(struct result_graph *g, const struct carto_items *items)
{
    struct level above = {0};
    for (uint64_t number = 0; number <= LIMIT_CARTO_LEVELS; number++) {
        struct level l = {.number = number};
        const struct carto_item *item = NULL;
        int rc = items->get(items->context, number, 0, &item);
        if (rc == QP_E_NOT_FOUND) {
            return QP_OK;
        }
        for (size_t i = 1; rc == QP_OK; i++) {
            QP_TRY(collect_item(g, &above, &l, item));
            rc = items->get(items->context, number, i, &item);
        }
        if (rc != QP_E_NOT_FOUND) {
            return rc;
        }
        above = l;
    }
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------ sorting */

static int compare_nodes(const void *a, const void *b)
{
    const struct result_node *x = *(struct result_node *const *)a;
    const struct result_node *y = *(struct result_node *const *)b;
    if (x->root != y->root && x->root != 0 && y->root != 0) {
        return x->root < y->root ? -1 : 1;
    }
    if ((x->root != 0) != (y->root != 0)) {
        return x->root != 0 ? -1 : 1;
    }
    return str_compare(x->id, y->id);
}

static int compare_edges(const void *a, const void *b)
{
    const struct result_edge *x = a;
    const struct result_edge *y = b;
    int order = x->from == y->from ? 0 : str_compare(x->from->id, y->from->id);
    if (order == 0) {
        order = x->to == y->to ? 0 : str_compare(x->to->id, y->to->id);
    }
    if (order == 0) {
        order = str_compare(x->requirement, y->requirement);
    }
    if (order == 0) {
        order = str_compare(x->kind, y->kind);
    }
    return order != 0 ? order : (int)x->scope - (int)y->scope;
}

int result_graph_sort(struct result_graph *g)
{
    size_t count = 0;
    g->nodes = arena_alloc(&g->memory, (g->node_count + 1) * sizeof(struct result_node *));
    if (g->nodes == NULL) {
        return QP_E_NOMEM;
    }
    for (struct omap_node *n = omap_seek(&g->by_id, QP_STR("")); n != NULL; n = omap_next(n)) {
        g->nodes[count++] = omap_value(n);
    }
    QP_ASSERT(count == g->node_count);
    qsort(g->nodes, count, sizeof(struct result_node *), compare_nodes);
    for (size_t i = 0; i < count; i++) {
        g->nodes[i]->index = i;
        g->root_count += g->nodes[i]->root != 0 ? 1 : 0;
    }
    if (g->edge_count == 0) {
        return QP_OK;
    }
    qsort(g->edges, g->edge_count, sizeof(struct result_edge), compare_edges);
    count = 0;
    for (size_t i = 0; i < g->edge_count; i++) {
        if (count == 0 || compare_edges(&g->edges[count - 1], &g->edges[i]) != 0) {
            g->edges[count++] = g->edges[i];
        }
    }
    g->edge_count = count;
    for (size_t i = 0; i < count; i++) {
        struct result_node *from = g->nodes[g->edges[i].from->index];
        from->first_edge = from->edge_count == 0 ? i : from->first_edge;
        from->edge_count++;
    }
    return QP_OK;
}

void result_graph_init(struct result_graph *g, const struct qp_env *env)
{
    *g = (struct result_graph){.env = env};
    arena_init(&g->memory, env, LIMIT_CARTO_UNIVERSE_SIZE);
    omap_init(&g->by_id, env);
}

int result_graph_open(struct result_graph *g, const struct qp_env *env,
                      const struct carto_items *items)
{
    result_graph_init(g, env);
    QP_TRY(collect(g, items));
    return result_graph_sort(g);
}

void result_graph_close(struct result_graph *g)
{
    mem_free(g->env, g->edges);
    omap_done(&g->by_id);
    arena_done(&g->memory);
}

/* ----------------------------------------------------------------------------------------- questions */

bool result_error_next(qp_str *rest, struct result_error *out_error)
{
    const char *tab = rest->n > 0 ? memchr(rest->p, '\t', rest->n) : NULL;
    const char *newline = rest->n > 0 ? memchr(rest->p, '\n', rest->n) : NULL;
    if (tab == NULL || newline == NULL) {
        return false;
    }
    QP_ASSERT(tab < newline);
    *out_error = (struct result_error){{rest->p, (size_t)(tab - rest->p)},
                                       {tab + 1, (size_t)(newline - tab - 1)}};
    *rest = (qp_str){newline + 1, rest->n - (size_t)(newline + 1 - rest->p)};
    return true;
}

qp_str result_relation_text(const struct result_node *n)
{
    if (n->root != 0) {
        return QP_STR("root");
    }
    return n->level == 1 ? QP_STR("direct") : QP_STR("indirect");
}

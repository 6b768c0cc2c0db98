/* format.c - the canonical JSON of a result (see format.h)
 *
 * Three steps: collect reads all items once, in canonical order, and keeps nodes and edges; sort puts both into the
 * order of the format; write streams the text. The text is written twice: into the hash, and to the reader with the
 * hash in its place.
 */
#include "carto/format.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/omap.h"

struct node {
    qp_str id;
    struct carto_package package;
    uint64_t level; /* the lowest */
    uint64_t root;  /* its index among the roots + 1; 0: none */
    bool is_frontier;
    bool is_virtual;
    qp_str errors; /* "KIND\tsentence\n" each */
};

struct edge {
    const struct node *from;
    const struct node *to;
    qp_str requirement;
    qp_str kind;
    enum carto_scope scope;
};

struct graph {
    const struct qp_env *env;
    struct arena memory;
    struct omap by_id;
    struct node **nodes;
    size_t node_count;
    struct edge *edges;
    size_t edge_count;
    size_t edge_room;
    const struct node *named; /* of the last item that is no provider */
};

/* --------------------------------------------------------------------------------------- package URLs */

struct carto_package format_node(const struct carto_item *item)
{
    return item->is_selected ? item->selected : (struct carto_package){.id = item->target};
}

static void write_escaped(struct buf *out, qp_str text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_' || c == '~';
        if (is_plain) {
            buf_byte(out, (char)c);
        } else {
            buf_printf(out, "%%%02X", c);
        }
    }
}

/* A scope of a name, "@babel/core", is the namespace of the URL; packages of deb have their distribution there. */
void format_purl(struct buf *out, const struct carto_package *package)
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
    format_purl(&text, package);
    is_copied = buf_rc(&text) == QP_OK && arena_copy(a, buf_slice(&text), out);
    buf_done(&text);
    return is_copied ? QP_OK : QP_E_NOMEM;
}

static int find_node(struct graph *g, const struct carto_package *package, uint64_t level,
                     struct node **out)
{
    qp_str id = QP_NONE;
    struct node *n = NULL;
    QP_TRY(purl_of(&g->memory, package, &id));
    n = omap_get(&g->by_id, id);
    if (n == NULL) {
        n = ARENA_NEW(&g->memory, struct node);
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
static int add_error(struct graph *g, struct node *n, const struct carto_item *item)
{
    qp_str line = QP_NONE;
    QP_TRY(carto_print(&g->memory, &line, "%s\t%.*s\n", carto_failure_text(item->failure),
                       STR_ARG(item->error)));
    if (n->errors.n > 0 && memmem(n->errors.p, n->errors.n, line.p, line.n) != NULL) {
        return QP_OK;
    }
    return carto_print(&g->memory, &n->errors, "%.*s%.*s", STR_ARG(n->errors), STR_ARG(line));
}

static int merge_item(struct graph *g, const struct carto_item *item, struct node *n)
{
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

static int add_edge(struct graph *g, const struct edge *edge)
{
    if (g->edge_count == g->edge_room) {
        size_t room = g->edge_room == 0 ? 1024 : g->edge_room * 2;
        struct edge *edges = mem_resize(g->env, g->edges, room * sizeof(*edges));
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
static int keep_edge(struct graph *g, const struct node *parent, const struct carto_item *item,
                     const struct node *to)
{
    struct edge edge = {.from = parent, .to = to, .scope = item->context.scope};
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
    return add_edge(g, &edge);
}

struct level {
    uint64_t number;
    size_t count;
    size_t room;
    struct node **nodes;
    qp_str *paths;
    size_t parent; /* in the level above */
};

static int level_add(struct graph *g, struct level *l, struct node *n, qp_str path)
{
    if (l->count == l->room) {
        size_t room = l->room == 0 ? 256 : l->room * 2;
        struct node **nodes = arena_room(&g->memory, room * sizeof(struct node *));
        qp_str *paths = arena_room(&g->memory, room * sizeof(*paths));
        if (nodes == NULL || paths == NULL) {
            return QP_E_NOMEM;
        }
        if (l->count > 0) {
            memcpy(nodes, l->nodes, l->count * sizeof(struct node *));
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

static int collect_item(struct graph *g, struct level *above, struct level *l,
                        const struct carto_item *item)
{
    struct carto_package package = format_node(item);
    struct node *n = NULL;
    QP_TRY(find_node(g, &package, l->number, &n));
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

static int collect(struct graph *g, const struct carto_items *items)
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
    const struct node *x = *(struct node *const *)a;
    const struct node *y = *(struct node *const *)b;
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
    const struct edge *x = a;
    const struct edge *y = b;
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

static int sort(struct graph *g)
{
    size_t count = 0;
    g->nodes = arena_alloc(&g->memory, (g->node_count + 1) * sizeof(struct node *));
    if (g->nodes == NULL) {
        return QP_E_NOMEM;
    }
    for (struct omap_node *n = omap_seek(&g->by_id, QP_STR("")); n != NULL; n = omap_next(n)) {
        g->nodes[count++] = omap_value(n);
    }
    QP_ASSERT(count == g->node_count);
    qsort(g->nodes, count, sizeof(struct node *), compare_nodes);
    if (g->edge_count == 0) {
        return QP_OK;
    }
    qsort(g->edges, g->edge_count, sizeof(struct edge), compare_edges);
    count = 0;
    for (size_t i = 0; i < g->edge_count; i++) {
        if (count == 0 || compare_edges(&g->edges[count - 1], &g->edges[i]) != 0) {
            g->edges[count++] = g->edges[i];
        }
    }
    g->edge_count = count;
    return QP_OK;
}

static int graph_open(struct graph *g, const struct qp_env *env, const struct carto_items *items)
{
    *g = (struct graph){.env = env};
    arena_init(&g->memory, env, LIMIT_CARTO_UNIVERSE_SIZE);
    omap_init(&g->by_id, env);
    QP_TRY(collect(g, items));
    return sort(g);
}

static void graph_close(struct graph *g)
{
    mem_free(g->env, g->edges);
    omap_done(&g->by_id);
    arena_done(&g->memory);
}

/* ------------------------------------------------------------------------------------------ writing */

#define PIECE_SIZE (64 * 1024)

/* Text that goes on in pieces; the first failure sticks. */
struct output {
    struct buf text;
    struct json_writer json;
    struct hash_stream *hash;
    void *context;
    carto_sink sink;
    int rc;
};

static void flush(struct output *o)
{
    if (o->rc == QP_OK) {
        o->rc = buf_rc(&o->text);
    }
    if (o->rc == QP_OK && o->hash != NULL) {
        hash_stream_add(o->hash, o->text.p, o->text.n);
    } else if (o->rc == QP_OK && o->text.n > 0) {
        o->rc = o->sink(o->context, o->text.p, o->text.n);
    }
    buf_reset(&o->text);
}

static void flush_full(struct output *o)
{
    if (o->text.n >= PIECE_SIZE) {
        flush(o);
    }
}

static void put_text(struct json_writer *w, const char *key, qp_str text)
{
    json_key(w, str_from(key));
    json_put_str(w, text);
}

static void put_number(struct json_writer *w, const char *key, int64_t number)
{
    json_key(w, str_from(key));
    json_put_i64(w, number);
}

static void put_flag(struct json_writer *w, const char *key, bool truth)
{
    json_key(w, str_from(key));
    json_put_bool(w, truth);
}

static void put_counts(struct json_writer *w, const struct graph *g,
                       const struct carto_counts *counts)
{
    json_key(w, QP_STR("counts"));
    json_begin_object(w);
    put_number(w, "nodes", (int64_t)g->node_count);
    put_number(w, "edges", (int64_t)g->edge_count);
    put_number(w, "items", counts->items);
    put_number(w, "done", counts->done);
    put_number(w, "duplicate", counts->duplicate);
    put_number(w, "pruned", counts->pruned);
    put_number(w, "failed", counts->failed);
    put_number(w, "optional", counts->optional);
    put_number(w, "excluded", counts->excluded);
    put_number(w, "cut", counts->cut);
    json_end_object(w);
}

static void put_head(struct json_writer *w, const struct graph *g,
                     const struct carto_result_head *head, qp_str hash)
{
    json_key(w, QP_STR("roots"));
    json_begin_array(w);
    for (size_t i = 0; i < g->node_count && g->nodes[i]->root != 0; i++) {
        json_put_str(w, g->nodes[i]->id);
    }
    json_end_array(w);
    put_text(w, "universe", head->universe);
    if (!str_is_none(hash)) {
        put_text(w, "hash", hash);
    }
    json_key(w, QP_STR("end"));
    json_begin_object(w);
    put_text(w, "result", QP_STR("DONE"));
    put_text(w, "reason", str_from(head->reason));
    json_end_object(w);
    put_counts(w, g, &head->counts);
}

/* The errors of a node as objects; with its id where they stand apart from it. */
static void put_errors(struct json_writer *w, const struct node *n, bool with_id)
{
    qp_str rest = n->errors;
    while (rest.n > 0) {
        const char *tab = memchr(rest.p, '\t', rest.n);
        const char *newline = memchr(rest.p, '\n', rest.n);
        QP_ASSERT(tab != NULL && newline != NULL && tab < newline);
        json_begin_object(w);
        if (with_id) {
            put_text(w, "id", n->id);
        }
        put_text(w, "code", (qp_str){rest.p, (size_t)(tab - rest.p)});
        put_text(w, "message", (qp_str){tab + 1, (size_t)(newline - tab - 1)});
        json_end_object(w);
        rest = (qp_str){newline + 1, rest.n - (size_t)(newline + 1 - rest.p)};
    }
}

static qp_str relation_text(const struct node *n)
{
    if (n->root != 0) {
        return QP_STR("root");
    }
    return n->level == 1 ? QP_STR("direct") : QP_STR("indirect");
}

static void put_node(struct json_writer *w, const struct node *n)
{
    json_begin_object(w);
    put_text(w, "id", n->id);
    put_text(w, "name", n->package.id.name);
    put_text(w, "version", n->package.version.n > 0 ? n->package.version : QP_NONE);
    put_text(w, "type", n->package.id.type);
    put_number(w, "depth", (int64_t)n->level);
    put_flag(w, "frontier", n->is_frontier);
    put_flag(w, "virtual", n->is_virtual);
    put_text(w, "relation", relation_text(n));
    json_key(w, QP_STR("errors"));
    json_begin_array(w);
    put_errors(w, n, false);
    json_end_array(w);
    json_end_object(w);
}

static void put_edge(struct json_writer *w, const struct edge *e)
{
    json_begin_object(w);
    put_text(w, "from", e->from->id);
    put_text(w, "to", e->to->id);
    put_text(w, "requirement", e->requirement);
    put_text(w, "scope", str_from(carto_scope_text(e->scope)));
    put_text(w, "kind", e->kind);
    json_end_object(w);
}

static void put_arrays(struct output *o, const struct graph *g)
{
    struct json_writer *w = &o->json;
    json_key(w, QP_STR("nodes"));
    json_begin_array(w);
    for (size_t i = 0; i < g->node_count; i++) {
        put_node(w, g->nodes[i]);
        flush_full(o);
    }
    json_end_array(w);
    json_key(w, QP_STR("edges"));
    json_begin_array(w);
    for (size_t i = 0; i < g->edge_count; i++) {
        put_edge(w, &g->edges[i]);
        flush_full(o);
    }
    json_end_array(w);
    json_key(w, QP_STR("errors"));
    json_begin_array(w);
    for (size_t i = 0; i < g->node_count; i++) {
        put_errors(w, g->nodes[i], true);
        flush_full(o);
    }
    json_end_array(w);
}

/* Either into a hash, or to a sink. The text ends with a newline, which is hashed too. */
static int write_graph(const struct graph *g, const struct carto_result_head *head, qp_str hash,
                       struct output *o)
{
    buf_init(&o->text, g->env, 0);
    json_writer_init(&o->json, &o->text);
    json_begin_object(&o->json);
    put_head(&o->json, g, head, hash);
    put_arrays(o, g);
    json_end_object(&o->json);
    buf_byte(&o->text, '\n');
    flush(o);
    buf_done(&o->text);
    return o->rc;
}

static int hash_graph(const struct graph *g, const struct carto_result_head *head,
                      char out_hash[HASH_TEXT_SIZE])
{
    struct hash_stream stream;
    struct output o = {.hash = &stream};
    hash_stream_init(&stream);
    QP_TRY(write_graph(g, head, QP_NONE, &o));
    hash_stream_end(&stream, out_hash);
    return QP_OK;
}

int format_hash(const struct qp_env *env, const struct carto_items *items,
                const struct carto_result_head *head, struct format_digest *out_digest)
{
    struct graph g;
    struct format_digest digest = {0};
    int rc = graph_open(&g, env, items);
    if (rc == QP_OK) {
        rc = hash_graph(&g, head, digest.hash);
    }
    if (rc == QP_OK) {
        digest.nodes = (int64_t)g.node_count;
        digest.edges = (int64_t)g.edge_count;
        for (size_t i = 0; i < g.node_count; i++) {
            digest.errors += g.nodes[i]->errors.n > 0 ? 1 : 0;
        }
        *out_digest = digest;
    }
    graph_close(&g);
    return rc;
}

static int write_checked(const struct graph *g, const struct carto_result_head *head, qp_str hash,
                         void *context, carto_sink sink)
{
    struct output o = {.context = context, .sink = sink};
    char own[HASH_TEXT_SIZE];
    QP_TRY(hash_graph(g, head, own));
    if (!str_equal(str_from(own), hash)) {
        return QP_E_CORRUPT;
    }
    return write_graph(g, head, hash, &o);
}

int format_json(const struct qp_env *env, const struct carto_items *items,
                const struct carto_result_head *head, qp_str hash, void *context, carto_sink sink)
{
    struct graph g;
    int rc = graph_open(&g, env, items);
    if (rc == QP_OK) {
        rc = write_checked(&g, head, hash, context, sink);
    }
    graph_close(&g);
    return rc;
}

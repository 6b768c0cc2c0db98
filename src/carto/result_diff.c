/* result_diff.c - two results beside each other (see result_diff.h)
 *
 * The nodes of both are put in the order of their packages, and equal packages get the same number. Edges are then pairs of
 * numbers and two short texts: a result of some hundred thousand edges is sorted in a fraction of a second.
 */
#include "carto/result_diff.h"

#include <stdlib.h>

#include "carto/format_output.h"

/* An edge without versions. */
struct link {
    uint32_t from; /* numbers of packages */
    uint32_t to;
    const struct result_edge *edge;
};

struct side {
    const struct result_graph *g;
    const struct result_node **nodes; /* by package and version */
    uint32_t *numbers;                /* of the package of a node, by the node's index */
    struct link *links;
    size_t link_count;
};

struct comparison {
    struct arena arena;
    struct json_writer *w;
    struct side from;
    struct side to;
    bool differs;
    int rc; /* the first failure */
};

/* --------------------------------------------------------------------------------------------- order */

static int compare_packages(const struct result_node *x, const struct result_node *y)
{
    int order = str_compare(x->package.id.type, y->package.id.type);
    return order != 0 ? order : str_compare(x->package.id.name, y->package.id.name);
}

static int compare_nodes(const void *a, const void *b)
{
    const struct result_node *x = *(const struct result_node *const *)a;
    const struct result_node *y = *(const struct result_node *const *)b;
    int order = compare_packages(x, y);
    return order != 0 ? order : str_compare(x->package.version, y->package.version);
}

static int compare_numbers(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

static int compare_links(const void *a, const void *b)
{
    const struct link *x = a;
    const struct link *y = b;
    int order = compare_numbers(x->from, y->from);
    order = order == 0 ? compare_numbers(x->to, y->to) : order;
    order = order == 0 ? str_compare(x->edge->requirement, y->edge->requirement) : order;
    order = order == 0 ? str_compare(x->edge->kind, y->edge->kind) : order;
    return order == 0 ? (int)x->edge->scope - (int)y->edge->scope : order;
}

static int side_init(struct arena *a, struct side *s)
{
    size_t count = s->g->node_count;
    s->nodes = arena_alloc(a, (count + 1) * sizeof *s->nodes);
    s->numbers = arena_alloc(a, (count + 1) * sizeof *s->numbers);
    s->links = arena_alloc(a, (s->g->edge_count + 1) * sizeof *s->links);
    if (s->nodes == NULL || s->numbers == NULL || s->links == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        s->nodes[i] = s->g->nodes[i];
    }
    qsort(s->nodes, count, sizeof *s->nodes, compare_nodes);
    return QP_OK;
}

/* After the packages have their numbers. Edges that differ in versions alone are one link. */
static void make_links(struct side *s)
{
    size_t count = 0;
    for (size_t i = 0; i < s->g->edge_count; i++) {
        const struct result_edge *e = &s->g->edges[i];
        s->links[i] = (struct link){s->numbers[e->from->index], s->numbers[e->to->index], e};
    }
    qsort(s->links, s->g->edge_count, sizeof *s->links, compare_links);
    for (size_t i = 0; i < s->g->edge_count; i++) {
        if (count == 0 || compare_links(&s->links[count - 1], &s->links[i]) != 0) {
            s->links[count++] = s->links[i];
        }
    }
    s->link_count = count;
}

/* --------------------------------------------------------------------------------------------- nodes */

/* The versions of one package: nodes[first] and those behind it. */
struct versions {
    const struct result_node *const *nodes;
    size_t count; /* 0: this side has none */
};

/* One package, in one side or both. */
typedef void (*package_visit)(struct comparison *c, struct versions from, struct versions to);

static size_t versions_at(const struct side *s, size_t at)
{
    size_t end = at;
    while (end < s->g->node_count && compare_packages(s->nodes[at], s->nodes[end]) == 0) {
        end++;
    }
    return end - at;
}

/* NULL: packages get their numbers. */
static void each_package(struct comparison *c, package_visit visit)
{
    size_t from = 0;
    size_t to = 0;
    for (uint32_t number = 0; from < c->from.g->node_count || to < c->to.g->node_count; number++) {
        int order = from == c->from.g->node_count ? 1
                    : to == c->to.g->node_count
                        ? -1
                        : compare_packages(c->from.nodes[from], c->to.nodes[to]);
        struct versions in_from = {c->from.nodes + from,
                                   order > 0 ? 0 : versions_at(&c->from, from)};
        struct versions in_to = {c->to.nodes + to, order < 0 ? 0 : versions_at(&c->to, to)};
        for (size_t i = 0; i < in_from.count; i++) {
            c->from.numbers[in_from.nodes[i]->index] = number;
        }
        for (size_t i = 0; i < in_to.count; i++) {
            c->to.numbers[in_to.nodes[i]->index] = number;
        }
        if (visit != NULL) {
            visit(c, in_from, in_to);
        }
        from += in_from.count;
        to += in_to.count;
    }
}

static void put_ids(struct comparison *c, struct versions of)
{
    for (size_t i = 0; i < of.count; i++) {
        json_put_str(c->w, of.nodes[i]->id);
        c->differs = true;
    }
}

static void visit_added(struct comparison *c, struct versions from, struct versions to)
{
    if (from.count == 0) {
        put_ids(c, to);
    }
}

static void visit_removed(struct comparison *c, struct versions from, struct versions to)
{
    if (to.count == 0) {
        put_ids(c, from);
    }
}

static bool are_same(struct versions from, struct versions to)
{
    bool is_same = from.count == to.count;
    for (size_t i = 0; is_same && i < from.count; i++) {
        is_same = str_equal(from.nodes[i]->package.version, to.nodes[i]->package.version);
    }
    return is_same;
}

/* "type:name" */
static void put_name(struct comparison *c, const char *key, const struct result_node *n)
{
    qp_str text = QP_NONE;
    int rc = carto_print(&c->arena, &text, "%.*s:%.*s", STR_ARG(n->package.id.type),
                         STR_ARG(n->package.id.name));
    c->rc = c->rc == QP_OK ? rc : c->rc;
    member_put_text(c->w, key, text);
}

static void put_versions(struct comparison *c, const char *key, struct versions of)
{
    json_key(c->w, str_from(key));
    json_begin_array(c->w);
    for (size_t i = 0; i < of.count; i++) {
        json_put_str(c->w, of.nodes[i]->package.version.n > 0 ? of.nodes[i]->package.version
                                                              : QP_STR(""));
    }
    json_end_array(c->w);
}

static void visit_changed(struct comparison *c, struct versions from, struct versions to)
{
    if (from.count == 0 || to.count == 0 || are_same(from, to)) {
        return;
    }
    c->differs = true;
    json_begin_object(c->w);
    put_name(c, "name", from.nodes[0]);
    put_versions(c, "from", from);
    put_versions(c, "to", to);
    json_end_object(c->w);
}

static void put_packages(struct comparison *c, const char *key, package_visit visit)
{
    json_key(c->w, str_from(key));
    json_begin_array(c->w);
    each_package(c, visit);
    json_end_array(c->w);
}

/* --------------------------------------------------------------------------------------------- edges */

static void put_link(struct comparison *c, const struct link *l)
{
    c->differs = true;
    json_begin_object(c->w);
    put_name(c, "from", l->edge->from);
    put_name(c, "to", l->edge->to);
    member_put_text(c->w, "requirement", l->edge->requirement);
    member_put_text(c->w, "scope", str_from(carto_scope_text(l->edge->scope)));
    member_put_text(c->w, "kind", l->edge->kind);
    json_end_object(c->w);
}

/* Those that the first side has and the second one has not. */
static void put_links(struct comparison *c, const char *key, const struct side *in,
                      const struct side *not_in)
{
    size_t at = 0;
    json_key(c->w, str_from(key));
    json_begin_array(c->w);
    for (size_t i = 0; i < in->link_count; i++) {
        int order = -1;
        while (at < not_in->link_count &&
               (order = compare_links(&in->links[i], &not_in->links[at])) > 0) {
            at++;
        }
        if (at == not_in->link_count || order != 0) {
            put_link(c, &in->links[i]);
        }
    }
    json_end_array(c->w);
}

/* -------------------------------------------------------------------------------------------- answer */

static int compare(struct comparison *c)
{
    QP_TRY(side_init(&c->arena, &c->from));
    QP_TRY(side_init(&c->arena, &c->to));
    each_package(c, NULL);
    make_links(&c->from);
    make_links(&c->to);
    put_packages(c, "added", visit_added);
    put_packages(c, "removed", visit_removed);
    put_packages(c, "changed", visit_changed);
    json_key(c->w, QP_STR("edges"));
    json_begin_object(c->w);
    put_links(c, "added", &c->to, &c->from);
    put_links(c, "removed", &c->from, &c->to);
    json_end_object(c->w);
    member_put_flag(c->w, "same", !c->differs);
    return c->rc;
}

int result_diff(const struct result_graph *from, const struct result_graph *to,
                struct json_writer *w, bool *out_same)
{
    struct comparison c = {.w = w, .from = {.g = from}, .to = {.g = to}};
    int rc;
    QP_ASSERT(from->node_count < UINT32_MAX && to->node_count < UINT32_MAX);
    arena_init(&c.arena, from->env, LIMIT_CARTO_UNIVERSE_SIZE);
    rc = compare(&c);
    arena_done(&c.arena);
    QP_TRY(rc);
    *out_same = !c.differs;
    return QP_OK;
}

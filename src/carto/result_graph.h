/* result_graph.h - a result as nodes and edges: what the formats of nodes write, and what questions are asked of
 *
 * Every package version is one node, whatever number of items visited it, and equal relationships are one edge. Nodes: the
 * roots in their order, then by id. Edges by (from, to, requirement, kind, scope), each once. Virtual names are nodes of
 * their own. In memory: about 100 bytes and the texts per node, 64 bytes and the requirement per edge.
 *
 * Owner: the caller. It reads items once, when it is opened; after that any thread may read it.
 */
#ifndef QP_CARTO_RESULT_GRAPH_H
#define QP_CARTO_RESULT_GRAPH_H

#include "base/omap.h"
#include "carto/format.h"

struct result_node {
    qp_str id; /* its package URL */
    struct carto_package package;
    uint64_t level;    /* the lowest */
    uint64_t root;     /* its index among the roots + 1; 0: none */
    size_t index;      /* in `nodes` */
    size_t first_edge; /* its edges are edges[first_edge] and so on */
    size_t edge_count;
    unsigned scopes; /* of its items: a bit each, by enum carto_scope */
    bool is_frontier;
    bool is_virtual;
    qp_str errors; /* "KIND\tsentence\n" each */
};

struct result_edge {
    const struct result_node *from;
    const struct result_node *to;
    qp_str requirement;
    qp_str kind;
    enum carto_scope scope;
};

struct result_graph {
    const struct qp_env *env;
    struct arena memory;
    struct omap by_id;
    struct result_node **nodes;
    size_t node_count;
    struct result_edge *edges;
    size_t edge_count;
    size_t edge_room;
    size_t root_count; /* the first of `nodes` */
    const struct result_node
        *named; /* while it is collected: of the last item that is no provider */
};

/* An empty one, for what fills it otherwise (result_kept.h, result_saved.h): nodes, each found or made by its package; edges
 * between them, copied as they are; in the end their order. */
void result_graph_init(struct result_graph *g, const struct qp_env *env);
int result_graph_node(struct result_graph *g, const struct carto_package *package, uint64_t level,
                      struct result_node **out) QP_MUST_USE;
int result_graph_add_edge(struct result_graph *g, const struct result_edge *edge) QP_MUST_USE;
int result_graph_sort(struct result_graph *g) QP_MUST_USE;
/* To be closed after a failure, too. QP_E_CORRUPT: an item without its parent. */
int result_graph_open(struct result_graph *g, const struct qp_env *env,
                      const struct carto_items *items) QP_MUST_USE;
void result_graph_close(struct result_graph *g);

/* The package URL of a node. */
void result_purl(struct buf *out, const struct carto_package *package);
/* What an item stands for: what it has selected, or its target when nothing could be. */
struct carto_package result_package(const struct carto_item *item);

/* The next error of a node in `rest`, which begins as its `errors`. */
struct result_error {
    qp_str code;
    qp_str message;
};
bool result_error_next(qp_str *rest, struct result_error *out_error);

/* "root", "direct" or "indirect" */
qp_str result_relation_text(const struct result_node *n);

#endif

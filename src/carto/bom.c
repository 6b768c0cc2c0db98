/* bom.c - what the packages of a bill of materials need, with virtual names taken out (see bom.h) */
#include "carto/bom.h"

#include <stdlib.h>

int bom_open(struct bom *b, const struct result_graph *g)
{
    size_t count = g->node_count + 1;
    *b = (struct bom){.graph = g};
    arena_init(&b->memory, g->env, LIMIT_CARTO_UNIVERSE_SIZE);
    b->found = arena_alloc(&b->memory, count * sizeof(const struct result_node *));
    b->stack = arena_alloc(&b->memory, count * sizeof(size_t));
    b->seen_by = arena_alloc(&b->memory, count * sizeof(size_t));
    return b->found != NULL && b->stack != NULL && b->seen_by != NULL ? QP_OK : QP_E_NOMEM;
}

void bom_close(struct bom *b)
{
    arena_done(&b->memory);
}

static int compare_ids(const void *a, const void *b)
{
    const struct result_node *x = *(const struct result_node *const *)a;
    const struct result_node *y = *(const struct result_node *const *)b;
    return str_compare(x->id, y->id);
}

struct bom_needs bom_needs_of(struct bom *b, const struct result_node *n)
{
    const struct result_graph *g = b->graph;
    struct bom_needs needs = {.nodes = b->found,
                              .is_complete = !n->is_frontier && n->errors.n == 0};
    size_t depth = 0;
    b->stack[depth++] = n->index; /* and virtual names behind it, each once: seen_by */
    b->seen_by[n->index] = n->index + 1;
    while (depth > 0) {
        const struct result_node *at = g->nodes[b->stack[--depth]];
        if (at->is_virtual && at->edge_count == 0) {
            needs.is_complete = false;
        }
        for (size_t i = 0; i < at->edge_count; i++) {
            const struct result_node *to = g->edges[at->first_edge + i].to;
            if (b->seen_by[to->index] == n->index + 1) {
                continue;
            }
            b->seen_by[to->index] = n->index + 1;
            if (to->is_virtual) {
                b->stack[depth++] = to->index;
            } else {
                b->found[needs.count++] = to;
            }
        }
    }
    if (needs.count > 1) {
        qsort(b->found, needs.count, sizeof(const struct result_node *), compare_ids);
    }
    return needs;
}

void bom_uuid(qp_str hash, char out_text[BOM_UUID_SIZE])
{
    size_t at = 0;
    QP_ASSERT(hash.n == HASH_TEXT_SIZE - 1);
    for (size_t i = 0; at < BOM_UUID_SIZE - 1; at++) {
        bool is_dash = at == 8 || at == 13 || at == 18 || at == 23;
        out_text[at] = is_dash ? '-' : hash.p[i];
        i += is_dash ? 0 : 1;
    }
    out_text[14] = '8'; /* version 8: made of what is the maker's own (RFC 9562) */
    out_text[19] = 'a';
    out_text[at] = '\0';
}

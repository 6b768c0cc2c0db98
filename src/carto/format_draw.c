/* format_draw.c - a result as dot and as Mermaid (see format_draw.h) */
#include "carto/format_draw.h"

static void put_label(struct buf *out, const struct result_node *n,
                      void (*put)(struct buf *, qp_str))
{
    put(out, n->package.id.name);
    if (n->package.version.n > 0) {
        buf_byte(out, ' ');
        put(out, n->package.version);
    }
    buf_text(out, n->is_frontier ? " ..." : "");
}

/* What every comment of a picture says: where it is from, and whether something is missing. */
static void put_facts(struct buf *out, const char *mark, const struct format_of *of)
{
    buf_printf(out, "%s universe %.*s\n", mark, STR_ARG(of->head.universe));
    buf_printf(out, "%s hash %.*s\n", mark, STR_ARG(of->hash));
    buf_printf(out, "%s %s\n", mark, of->head.reason);
}

/* ------------------------------------------------------------------------------------------------ dot */

/* Of what stands in quotes; bytes that a label would make something else of are spaces. */
static void put_quoted(struct buf *out, qp_str text)
{
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (c == '"' || c == '\\') {
            buf_byte(out, '\\');
        }
        buf_byte(out, (unsigned char)c < ' ' ? ' ' : c);
    }
}

static void draw_box(struct buf *out, const struct result_node *n)
{
    buf_text(out, "  \"");
    put_quoted(out, n->id);
    buf_text(out, "\" [label=\"");
    put_label(out, n, put_quoted);
    buf_byte(out, '"');
    buf_text(out, n->root != 0 ? ", penwidth=2" : "");
    buf_text(out, n->is_virtual ? ", shape=ellipse" : "");
    buf_text(out, n->errors.n > 0 ? ", color=red" : "");
    buf_text(out, "];\n");
}

static void draw_arrow(struct buf *out, const struct result_edge *e)
{
    buf_text(out, "  \"");
    put_quoted(out, e->from->id);
    buf_text(out, "\" -> \"");
    put_quoted(out, e->to->id);
    buf_byte(out, '"');
    if (e->requirement.n > 0) {
        buf_text(out, " [label=\"");
        put_quoted(out, e->requirement);
        buf_text(out, "\"]");
    }
    buf_text(out, ";\n");
}

int format_dot(const struct result_graph *g, const struct format_of *of, struct format_output *o)
{
    format_output_begin(o, g->env);
    put_facts(&o->text, "//", of);
    buf_text(&o->text, "digraph carto {\n  rankdir=LR;\n  node [shape=box];\n");
    for (size_t i = 0; i < g->node_count; i++) {
        draw_box(&o->text, g->nodes[i]);
        format_output_full(o);
    }
    for (size_t i = 0; i < g->edge_count; i++) {
        draw_arrow(&o->text, &g->edges[i]);
        format_output_full(o);
    }
    buf_text(&o->text, "}\n");
    return format_output_end(o);
}

/* -------------------------------------------------------------------------------------------- mermaid */

/* Characters that Mermaid gives a meaning to are written by their number; so are bytes of other alphabets left as they are. */
static void put_entity(struct buf *out, qp_str text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c < ' ' || strchr("\"#&;<>`\\|{}[]()", (char)c) != NULL) {
            buf_printf(out, "#%u;", c);
        } else {
            buf_byte(out, (char)c);
        }
    }
}

static void draw_shape(struct buf *out, const struct result_node *n)
{
    const char *open = n->errors.n > 0 ? "{{\"" : n->is_virtual ? "([\"" : "[\"";
    const char *close = n->errors.n > 0 ? "\"}}" : n->is_virtual ? "\"])" : "\"]";
    buf_printf(out, "  n%zu%s", n->index, open);
    put_label(out, n, put_entity);
    buf_printf(out, "%s\n", close);
}

static void draw_link(struct buf *out, const struct result_edge *e)
{
    buf_printf(out, "  n%zu -->", e->from->index);
    if (e->requirement.n > 0) {
        buf_text(out, "|\"");
        put_entity(out, e->requirement);
        buf_text(out, "\"|");
    }
    buf_printf(out, " n%zu\n", e->to->index);
}

int format_mermaid(const struct result_graph *g, const struct format_of *of,
                   struct format_output *o)
{
    format_output_begin(o, g->env);
    put_facts(&o->text, "%%", of);
    if (g->edge_count > MERMAID_EDGES) {
        buf_printf(&o->text,
                   "%%%% %zu edges: Mermaid draws at most %d (maxEdges); dot has no bound\n",
                   g->edge_count, MERMAID_EDGES);
    }
    buf_text(&o->text, "flowchart LR\n");
    for (size_t i = 0; i < g->node_count; i++) {
        draw_shape(&o->text, g->nodes[i]);
        format_output_full(o);
    }
    for (size_t i = 0; i < g->edge_count; i++) {
        draw_link(&o->text, &g->edges[i]);
        format_output_full(o);
    }
    return format_output_end(o);
}

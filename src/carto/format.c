/* format.c - formats of a result: the canonical JSON, and which one is written (see format.h)
 *
 * The canonical text is written twice: into the hash, and to the reader with the hash in its place.
 */
#include "carto/format.h"

#include "carto/format_cyclonedx.h"
#include "carto/format_draw.h"
#include "carto/format_items.h"
#include "carto/format_output.h"
#include "carto/format_own.h"
#include "carto/format_spdx.h"
#include "carto/result_why.h"

static void put_counts(struct json_writer *w, const struct result_graph *g,
                       const struct carto_counts *counts)
{
    json_key(w, QP_STR("counts"));
    json_begin_object(w);
    member_put_number(w, "nodes", (int64_t)g->node_count);
    member_put_number(w, "edges", (int64_t)g->edge_count);
    member_put_number(w, "items", counts->items);
    member_put_number(w, "done", counts->done);
    member_put_number(w, "duplicate", counts->duplicate);
    member_put_number(w, "pruned", counts->pruned);
    member_put_number(w, "failed", counts->failed);
    member_put_number(w, "optional", counts->optional);
    member_put_number(w, "excluded", counts->excluded);
    member_put_number(w, "cut", counts->cut);
    json_end_object(w);
}

static void put_head(struct json_writer *w, const struct result_graph *g,
                     const struct carto_result_head *head, qp_str hash)
{
    json_key(w, QP_STR("roots"));
    json_begin_array(w);
    for (size_t i = 0; i < g->root_count; i++) {
        json_put_str(w, g->nodes[i]->id);
    }
    json_end_array(w);
    member_put_text(w, "universe", head->universe);
    if (!str_is_none(hash)) {
        member_put_text(w, "hash", hash);
    }
    json_key(w, QP_STR("end"));
    json_begin_object(w);
    member_put_text(w, "result", QP_STR("DONE"));
    member_put_text(w, "reason", str_from(head->reason));
    json_end_object(w);
    put_counts(w, g, &head->counts);
}

/* The errors of a node as objects; with its id where they stand apart from it. */
static void put_errors(struct json_writer *w, const struct result_node *n, bool with_id)
{
    struct result_error error;
    for (qp_str rest = n->errors; result_error_next(&rest, &error);) {
        json_begin_object(w);
        if (with_id) {
            member_put_text(w, "id", n->id);
        }
        member_put_text(w, "code", error.code);
        member_put_text(w, "message", error.message);
        json_end_object(w);
    }
}

static void put_node(struct json_writer *w, const struct result_node *n)
{
    json_begin_object(w);
    member_put_text(w, "id", n->id);
    member_put_text(w, "name", n->package.id.name);
    member_put_text(w, "version", n->package.version.n > 0 ? n->package.version : QP_NONE);
    member_put_text(w, "type", n->package.id.type);
    member_put_number(w, "depth", (int64_t)n->level);
    member_put_flag(w, "frontier", n->is_frontier);
    member_put_flag(w, "virtual", n->is_virtual);
    member_put_text(w, "relation", result_relation_text(n));
    json_key(w, QP_STR("errors"));
    json_begin_array(w);
    put_errors(w, n, false);
    json_end_array(w);
    json_end_object(w);
}

static void put_arrays(struct format_output *o, const struct result_graph *g)
{
    struct json_writer *w = &o->json;
    json_key(w, QP_STR("nodes"));
    json_begin_array(w);
    for (size_t i = 0; i < g->node_count; i++) {
        put_node(w, g->nodes[i]);
        format_output_full(o);
    }
    json_end_array(w);
    json_key(w, QP_STR("edges"));
    json_begin_array(w);
    for (size_t i = 0; i < g->edge_count; i++) {
        result_edge_put(w, &g->edges[i]);
        format_output_full(o);
    }
    json_end_array(w);
    json_key(w, QP_STR("errors"));
    json_begin_array(w);
    for (size_t i = 0; i < g->node_count; i++) {
        put_errors(w, g->nodes[i], true);
        format_output_full(o);
    }
    json_end_array(w);
}

/* Either into a hash, or to a sink. The text ends with a newline, which is hashed too. */
static int write_graph(const struct result_graph *g, const struct carto_result_head *head,
                       qp_str hash, struct format_output *o)
{
    format_output_begin(o, g->env);
    json_begin_object(&o->json);
    put_head(&o->json, g, head, hash);
    put_arrays(o, g);
    json_end_object(&o->json);
    buf_byte(&o->text, '\n');
    return format_output_end(o);
}

static int hash_graph(const struct result_graph *g, const struct carto_result_head *head,
                      char out_hash[HASH_TEXT_SIZE])
{
    struct hash_stream stream;
    struct format_output o = {.hash = &stream};
    hash_stream_init(&stream);
    QP_TRY(write_graph(g, head, QP_NONE, &o));
    hash_stream_end(&stream, out_hash);
    return QP_OK;
}

int format_digest_of(const struct result_graph *g, const struct carto_result_head *head,
                     struct format_digest *out_digest)
{
    struct format_digest digest = {.nodes = (int64_t)g->node_count,
                                   .edges = (int64_t)g->edge_count};
    QP_TRY(hash_graph(g, head, digest.hash));
    for (size_t i = 0; i < g->node_count; i++) {
        digest.errors += g->nodes[i]->errors.n > 0 ? 1 : 0;
    }
    *out_digest = digest;
    return QP_OK;
}

int format_hash(const struct qp_env *env, const struct carto_items *items,
                const struct carto_result_head *head, struct format_digest *out_digest)
{
    struct result_graph g;
    int rc = result_graph_open(&g, env, items);
    if (rc == QP_OK) {
        rc = format_digest_of(&g, head, out_digest);
    }
    result_graph_close(&g);
    return rc;
}

/* ------------------------------------------------------------------------------------------- formats */

static const struct {
    const char *word;
    const char *media_type;
} formats[] = {{"json", "application/json"},
               {"jsonl", "application/jsonl"},
               {"tree", "text/plain; charset=utf-8"},
               {"dot", "text/vnd.graphviz"},
               {"mermaid", "text/plain; charset=utf-8"},
               {"cyclonedx", "application/vnd.cyclonedx+json; version=1.5"},
               {"spdx", "application/spdx+json"},
               {"own", "application/jsonl"}};
static_assert(ARRAY_COUNT(formats) == CARTO_FORMATS, "a word for each");

bool format_read(qp_str word, enum carto_format *out_format)
{
    for (size_t i = 0; i < CARTO_FORMATS; i++) {
        if (str_equal(word, str_from(formats[i].word))) {
            *out_format = (enum carto_format)i;
            return true;
        }
    }
    return false;
}

const char *format_media_type(enum carto_format format)
{
    QP_ASSERT(format < CARTO_FORMATS);
    return formats[format].media_type;
}

static int check_hash(const struct result_graph *g, const struct format_of *of)
{
    char own[HASH_TEXT_SIZE];
    QP_TRY(hash_graph(g, &of->head, own));
    return str_equal(str_from(own), of->hash) ? QP_OK : QP_E_CORRUPT;
}

static int write_nodes(const struct result_graph *g, const struct format_of *of,
                       struct format_output *o)
{
    QP_TRY(check_hash(g, of));
    switch (of->format) {
    case CARTO_DOT:
        return format_dot(g, of, o);
    case CARTO_MERMAID:
        return format_mermaid(g, of, o);
    case CARTO_CYCLONEDX:
        return format_cyclonedx(g, of, o);
    case CARTO_SPDX:
        return format_spdx(g, of, o);
    case CARTO_OWN:
        return format_own_write(g, of->own, o);
    case CARTO_JSON:
    case CARTO_JSONL:
    case CARTO_TREE:
    case CARTO_FORMATS:
        break;
    }
    return write_graph(g, &of->head, of->hash, o);
}

int format_write(const struct format_of *of, void *context, carto_sink sink)
{
    struct format_output o = {.context = context, .sink = sink};
    struct result_graph g;
    int rc;
    if (of->format == CARTO_JSONL) {
        return format_jsonl(of->env, &of->items, context, sink);
    }
    if (of->format == CARTO_TREE) {
        return format_tree(of->env, &of->items, context, sink);
    }
    rc = result_graph_open(&g, of->env, &of->items);
    if (rc == QP_OK) {
        rc = write_nodes(&g, of, &o);
    }
    result_graph_close(&g);
    return rc;
}

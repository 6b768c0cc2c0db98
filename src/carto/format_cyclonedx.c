/* format_cyclonedx.c - a result as CycloneDX 1.5 (see bom.h) */
#include "carto/format_cyclonedx.h"

#include "carto/bom.h"

#include <stdio.h>

static void put_property(struct json_writer *w, const char *name, qp_str value)
{
    json_begin_object(w);
    member_put_text(w, "name", str_from(name));
    member_put_text(w, "value", value);
    json_end_object(w);
}

static void put_list(struct json_writer *w, const char *key)
{
    json_key(w, str_from(key));
    json_begin_array(w);
}

/* "@babel/core": what is before the last slash is the group. */
static void put_name(struct json_writer *w, qp_str name)
{
    const char *slash = name.n > 0 ? memrchr(name.p, '/', name.n) : NULL;
    if (slash != NULL) {
        member_put_text(w, "group", (qp_str){name.p, (size_t)(slash - name.p)});
        name = (qp_str){slash + 1, name.n - (size_t)(slash - name.p) - 1};
    }
    member_put_text(w, "name", name);
}

static void put_component(struct json_writer *w, const struct result_node *n)
{
    json_begin_object(w);
    member_put_text(w, "type", n->root != 0 ? QP_STR("application") : QP_STR("library"));
    member_put_text(w, "bom-ref", n->id);
    put_name(w, n->package.id.name);
    member_put_some(w, "version", n->package.version);
    member_put_text(w, "purl", n->id);
    json_end_object(w);
}

/* The one package that the document is about; NULL: there are several roots, or it is a virtual name. */
static const struct result_node *subject_of(const struct result_graph *g)
{
    return g->root_count == 1 && !g->nodes[0]->is_virtual ? g->nodes[0] : NULL;
}

static void put_error(struct json_writer *w, struct buf *room, const struct result_node *n)
{
    struct result_error error;
    for (qp_str rest = n->errors; result_error_next(&rest, &error);) {
        buf_reset(room);
        buf_printf(room, "%.*s: %.*s: %.*s", STR_ARG(n->id), STR_ARG(error.code),
                   STR_ARG(error.message));
        put_property(w, "quipu:error", buf_slice(room));
    }
}

static int put_metadata(const struct result_graph *g, const struct format_of *of,
                        struct format_output *o)
{
    struct json_writer *w = &o->json;
    const struct result_node *subject = subject_of(g);
    struct buf room;
    int rc;
    json_key(w, QP_STR("metadata"));
    json_begin_object(w);
    put_list(w, "tools");
    json_begin_object(w);
    member_put_text(w, "name", QP_STR("quipu"));
    json_end_object(w);
    json_end_array(w);
    if (subject != NULL) {
        json_key(w, QP_STR("component"));
        put_component(w, subject);
    }
    put_list(w, "properties");
    put_property(w, "quipu:universe",
                 str_is_none(of->head.universe) ? QP_STR("") : of->head.universe);
    put_property(w, "quipu:hash", of->hash);
    put_property(w, "quipu:end-detect-reason", str_from(of->head.reason));
    buf_init(&room, g->env, 0);
    for (size_t i = 0; i < g->node_count; i++) {
        put_error(w, &room, g->nodes[i]);
    }
    rc = buf_rc(&room);
    buf_done(&room);
    json_end_array(w);
    json_end_object(w);
    return rc;
}

static void put_components(const struct result_graph *g, struct format_output *o)
{
    const struct result_node *subject = subject_of(g);
    put_list(&o->json, "components");
    for (size_t i = 0; i < g->node_count; i++) {
        if (!g->nodes[i]->is_virtual && g->nodes[i] != subject) {
            put_component(&o->json, g->nodes[i]);
            format_output_full(o);
        }
    }
    json_end_array(&o->json);
}

static void put_dependencies(struct bom *b, bool *complete, struct format_output *o)
{
    struct json_writer *w = &o->json;
    put_list(w, "dependencies");
    for (size_t i = 0; i < b->graph->node_count; i++) {
        const struct result_node *n = b->graph->nodes[i];
        struct bom_needs needs;
        if (n->is_virtual) {
            continue;
        }
        needs = bom_needs_of(b, n);
        complete[i] = needs.is_complete;
        json_begin_object(w);
        member_put_text(w, "ref", n->id);
        put_list(w, "dependsOn");
        for (size_t j = 0; j < needs.count; j++) {
            json_put_str(w, needs.nodes[j]->id);
        }
        json_end_array(w);
        json_end_object(w);
        format_output_full(o);
    }
    json_end_array(w);
}

/* The packages whose list of needs is complete, or those whose list is not; no entry if there are none. */
static void put_composition(const struct result_graph *g, const bool *complete, bool which,
                            const char *word, struct format_output *o)
{
    struct json_writer *w = &o->json;
    bool is_begun = false;
    for (size_t i = 0; i < g->node_count; i++) {
        if (g->nodes[i]->is_virtual || complete[i] != which) {
            continue;
        }
        if (!is_begun) {
            json_begin_object(w);
            member_put_text(w, "aggregate", str_from(word));
            put_list(w, "dependencies");
            is_begun = true;
        }
        json_put_str(w, g->nodes[i]->id);
        format_output_full(o);
    }
    if (is_begun) {
        json_end_array(w);
        json_end_object(w);
    }
}

static int put_graph(struct bom *b, const struct format_of *of, struct format_output *o)
{
    const struct result_graph *g = b->graph;
    bool *complete = arena_alloc(&b->memory, g->node_count + 1);
    const char *rest = of->head.counts.excluded > 0 ? "unknown" : "complete";
    if (complete == NULL) {
        return QP_E_NOMEM;
    }
    put_components(g, o);
    put_dependencies(b, complete, o);
    put_list(&o->json, "compositions");
    put_composition(g, complete, false, "incomplete", o);
    put_composition(g, complete, true, rest, o);
    json_end_array(&o->json);
    return QP_OK;
}

static int put_document(struct bom *b, const struct format_of *of, struct format_output *o)
{
    struct json_writer *w = &o->json;
    char uuid[BOM_UUID_SIZE];
    char serial[BOM_UUID_SIZE + 16];
    bom_uuid(of->hash, uuid);
    (void)snprintf(serial, sizeof serial, "urn:uuid:%s", uuid); /* it has room */
    json_begin_object(w);
    member_put_text(w, "bomFormat", QP_STR("CycloneDX"));
    member_put_text(w, "specVersion", QP_STR("1.5"));
    member_put_text(w, "serialNumber", str_from(serial));
    member_put_number(w, "version", 1);
    QP_TRY(put_metadata(b->graph, of, o));
    QP_TRY(put_graph(b, of, o));
    json_end_object(w);
    buf_byte(&o->text, '\n');
    return QP_OK;
}

int format_cyclonedx(const struct result_graph *g, const struct format_of *of,
                     struct format_output *o)
{
    struct bom b;
    int rc = bom_open(&b, g);
    int ended;
    format_output_begin(o, g->env);
    if (rc == QP_OK) {
        rc = put_document(&b, of, o);
    }
    bom_close(&b);
    ended = format_output_end(o);
    return rc != QP_OK ? rc : ended;
}

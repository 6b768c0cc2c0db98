/* format_spdx.c - a result as SPDX 2.3 (see bom.h) */
#include "carto/format_spdx.h"

#include "carto/bom.h"

#include <stdio.h>

#define DOCUMENT QP_STR("SPDXRef-DOCUMENT")
#define SPDX_ID_SIZE 40

static qp_str spdx_id(const struct result_node *n, char room[SPDX_ID_SIZE])
{
    int size = snprintf(room, SPDX_ID_SIZE, "SPDXRef-Package-%zu", n->index);
    QP_ASSERT(size > 0 && size < SPDX_ID_SIZE);
    return (qp_str){room, (size_t)size};
}

static void put_head(const struct format_of *of, struct json_writer *w)
{
    char uuid[BOM_UUID_SIZE];
    char space[BOM_UUID_SIZE + 16];
    char comment[512];
    bom_uuid(of->hash, uuid);
    (void)snprintf(space, sizeof space, "urn:uuid:%s", uuid); /* it has room */
    (void)snprintf(comment, sizeof comment, "%s, universe %.*s, hash %.*s", of->head.reason,
                   (int)(of->head.universe.n < 256 ? of->head.universe.n : 256),
                   of->head.universe.p, STR_ARG(of->hash));
    member_put_text(w, "spdxVersion", QP_STR("SPDX-2.3"));
    member_put_text(w, "dataLicense", QP_STR("CC0-1.0"));
    member_put_text(w, "SPDXID", DOCUMENT);
    member_put_text(w, "name", QP_STR("quipu-traversal"));
    member_put_text(w, "documentNamespace", str_from(space));
    member_put_text(w, "comment", str_from(comment));
    json_key(w, QP_STR("creationInfo"));
    json_begin_object(w);
    member_put_text(w, "created", QP_STR("1970-01-01T00:00:00Z"));
    json_key(w, QP_STR("creators"));
    json_begin_array(w);
    json_put_str(w, QP_STR("Tool: quipu"));
    json_end_array(w);
    member_put_text(w, "comment",
                    QP_STR("not the time of writing: equal results are equal documents"));
    json_end_object(w);
}

static void put_errors(struct json_writer *w, struct buf *room, const struct result_node *n)
{
    struct result_error error;
    buf_reset(room);
    for (qp_str rest = n->errors; result_error_next(&rest, &error);) {
        buf_printf(room, "%s%.*s: %.*s", room->n > 0 ? "; " : "", STR_ARG(error.code),
                   STR_ARG(error.message));
    }
    member_put_some(w, "comment", buf_slice(room));
}

static void put_package(struct json_writer *w, struct buf *room, const struct result_node *n)
{
    char id[SPDX_ID_SIZE];
    json_begin_object(w);
    member_put_text(w, "SPDXID", spdx_id(n, id));
    member_put_text(w, "name", n->package.id.name);
    member_put_some(w, "versionInfo", n->package.version);
    member_put_text(w, "downloadLocation", QP_STR("NOASSERTION"));
    member_put_flag(w, "filesAnalyzed", false);
    put_errors(w, room, n);
    json_key(w, QP_STR("externalRefs"));
    json_begin_array(w);
    json_begin_object(w);
    member_put_text(w, "referenceCategory", QP_STR("PACKAGE-MANAGER"));
    member_put_text(w, "referenceType", QP_STR("purl"));
    member_put_text(w, "referenceLocator", n->id);
    json_end_object(w);
    json_end_array(w);
    json_end_object(w);
}

static int put_packages(const struct result_graph *g, struct format_output *o)
{
    struct buf room;
    int rc;
    buf_init(&room, g->env, 0);
    json_key(&o->json, QP_STR("packages"));
    json_begin_array(&o->json);
    for (size_t i = 0; i < g->node_count; i++) {
        if (!g->nodes[i]->is_virtual) {
            put_package(&o->json, &room, g->nodes[i]);
            format_output_full(o);
        }
    }
    json_end_array(&o->json);
    rc = buf_rc(&room);
    buf_done(&room);
    return rc;
}

static void put_relationship(struct json_writer *w, qp_str from, const char *type, qp_str to)
{
    json_begin_object(w);
    member_put_text(w, "spdxElementId", from);
    member_put_text(w, "relationshipType", str_from(type));
    member_put_text(w, "relatedSpdxElement", to);
    json_end_object(w);
}

/* NONE: it needs nothing; NOASSERTION: it may need more. */
static void put_needs(struct bom *b, const struct result_node *n, struct json_writer *w)
{
    char id[SPDX_ID_SIZE];
    char other[SPDX_ID_SIZE];
    qp_str from = spdx_id(n, id);
    struct bom_needs needs = bom_needs_of(b, n);
    for (size_t i = 0; i < needs.count; i++) {
        put_relationship(w, from, "DEPENDS_ON", spdx_id(needs.nodes[i], other));
    }
    if (!needs.is_complete) {
        put_relationship(w, from, "DEPENDS_ON", QP_STR("NOASSERTION"));
    } else if (needs.count == 0) {
        put_relationship(w, from, "DEPENDS_ON", QP_STR("NONE"));
    }
}

/* What the document is about; of a virtual root its providers. */
static void put_described(struct bom *b, const struct result_node *root, struct json_writer *w)
{
    char id[SPDX_ID_SIZE];
    struct bom_needs needs;
    if (!root->is_virtual) {
        put_relationship(w, DOCUMENT, "DESCRIBES", spdx_id(root, id));
        return;
    }
    needs = bom_needs_of(b, root);
    for (size_t i = 0; i < needs.count; i++) {
        put_relationship(w, DOCUMENT, "DESCRIBES", spdx_id(needs.nodes[i], id));
    }
}

static void put_relationships(struct bom *b, struct format_output *o)
{
    const struct result_graph *g = b->graph;
    json_key(&o->json, QP_STR("relationships"));
    json_begin_array(&o->json);
    for (size_t i = 0; i < g->root_count; i++) {
        put_described(b, g->nodes[i], &o->json);
        format_output_full(o);
    }
    for (size_t i = 0; i < g->node_count; i++) {
        if (!g->nodes[i]->is_virtual) {
            put_needs(b, g->nodes[i], &o->json);
            format_output_full(o);
        }
    }
    json_end_array(&o->json);
}

static int put_document(struct bom *b, const struct format_of *of, struct format_output *o)
{
    json_begin_object(&o->json);
    put_head(of, &o->json);
    QP_TRY(put_packages(b->graph, o));
    put_relationships(b, o);
    json_end_object(&o->json);
    buf_byte(&o->text, '\n');
    return QP_OK;
}

int format_spdx(const struct result_graph *g, const struct format_of *of, struct format_output *o)
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

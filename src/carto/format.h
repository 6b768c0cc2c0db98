/* format.h - results as bytes: canonical JSON, JSON lines, tree text, pictures, bills of materials
 *
 * Formats read the items of a request level by level, in the order of their paths: the `index`-th item of a level, where
 * indexes of one level are asked for in ascending order. A source of rows keeps one cursor per level; JSON and JSON
 * lines use one or two levels at a time, the tree all of them. An item stays valid until the next one of its level is
 * asked for. No tree is built:
 *
 *   json    {roots, universe, hash, end: {result, reason}, counts, nodes, edges, errors}. Nodes: the roots in their
 *           order, then by id. Edges by (from, to, requirement, kind), each once. `hash` is the SHA-256 of the text
 *           without its member "hash": the same result has the same bytes on every machine. It and the formats below
 *           the tree keep nodes and edges in memory (result_graph.h).
 *   jsonl   one line per item in canonical order; keeps one level's parents at a time
 *   tree    depth first, one line per item; an item that was expanded elsewhere is marked "(deduped)", one of its own
 *           ancestors "(circular)", one whose relationships the depth limit has cut "(...)", a failed one with its
 *           error. Keeps one line's ancestors.
 *   dot, mermaid    a picture in words (format_draw.h)
 *   cyclonedx, spdx a bill of materials (bom.h)
 *   own             what the mapping of the request makes of every node (format_own.h)
 *
 * The id of a node is its package URL: pkg:deb/debian/NAME@VERSION, as the type says (result_purl).
 */
#ifndef QP_CARTO_FORMAT_H
#define QP_CARTO_FORMAT_H

#include "carto/stage.h"

struct carto_items {
    void *context;
    /* QP_E_NOT_FOUND: the level has no item of this index. */
    int (*get)(void *context, uint64_t level, size_t index, const struct carto_item **out);
};

/* What is said of a result beside its items. */
struct carto_result_head {
    qp_str universe;
    const char *reason; /* stage_end */
    struct carto_counts counts;
};

/* Gets the text in pieces; a code other than QP_OK ends the format with it. */
typedef int (*carto_sink)(void *context, const char *bytes, size_t size);

/* What FORMAT records of a result. */
struct format_digest {
    char hash[HASH_TEXT_SIZE];
    int64_t nodes;
    int64_t edges;
    int64_t errors; /* nodes that have some */
};
struct result_graph;
int format_digest_of(const struct result_graph *g, const struct carto_result_head *head,
                     struct format_digest *out_digest) QP_MUST_USE;
int format_hash(const struct qp_env *env, const struct carto_items *items,
                const struct carto_result_head *head, struct format_digest *out_digest) QP_MUST_USE;

struct format_own;
enum carto_format {
    CARTO_JSON,
    CARTO_JSONL,
    CARTO_TREE,
    CARTO_DOT,
    CARTO_MERMAID,
    CARTO_CYCLONEDX,
    CARTO_SPDX,
    CARTO_OWN,
    CARTO_FORMATS
};
#define CARTO_FORMAT_WORDS "json, jsonl, tree, dot, mermaid, cyclonedx, spdx or own"
bool format_read(qp_str word, enum carto_format *out_format);
const char *format_media_type(enum carto_format format);

/* A result to be written; `hash` is what FORMAT has recorded. */
struct format_of {
    const struct qp_env *env;
    struct carto_items items;
    struct carto_result_head head;
    qp_str hash;
    enum carto_format format;
    const struct format_own *own; /* of CARTO_OWN */
};
/* QP_E_CORRUPT: `hash` is not what the items give (not asked by jsonl and tree). */
int format_write(const struct format_of *of, void *context, carto_sink sink) QP_MUST_USE;

#endif

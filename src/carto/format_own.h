/* format_own.h - a format that a request has brought: a mapping, evaluated for every node
 *
 *   "format": {"node": {"name": "{$item.name}", "number": "{$index}"}, "path": {"length": ..}}
 *
 * Mappings are those of graphs (docs/mapping.md). There is one for nodes, one for paths of `why`, or both. $item is the node:
 *
 *   {"purl", "type", "name", "version", "depth", "scopes": ["runtime"], "requirement": ["libc (>= 2)"], "errors": [{"code",
 *    "message"}], "relation", "frontier", "virtual"}
 *
 * `requirement` has what relationships to the node ask for, each text once, by their bytes. The result is a line of JSON per
 * node, in the order of the nodes. A node whose line takes more than LIMIT_MAPPING_* has {"error": .., "purl": ..} in its place.
 * Of `why` it is a path, {"nodes", "edges"} as in result_why.h, and the answer has a list of what the mapping makes of each.
 *
 * Equal results are equal bytes: date.now is 1970, and math.random always gives the same.
 *
 * Compiled once, in the arena of its request; any thread may write with it.
 */
#ifndef QP_CARTO_FORMAT_OWN_H
#define QP_CARTO_FORMAT_OWN_H

#include "carto/format_output.h"
#include "carto/result_graph.h"

struct format_own;

/* The member of a request. QP_E_SHAPE, with a pointer below it. */
int format_own_read(struct arena *a, const struct json *given, const struct format_own **out_own,
                    struct qp_err *err) QP_MUST_USE;
bool format_own_has_node(const struct format_own *own);
int format_own_write(const struct result_graph *g, const struct format_own *own,
                     struct format_output *o) QP_MUST_USE;
/* A list: what the mapping for paths makes of each of `paths`, a list as JSON. */
bool format_own_has_path(const struct format_own *own);
int format_own_paths(const struct format_own *own, const struct qp_env *env, qp_str paths,
                     struct json_writer *w) QP_MUST_USE;

#endif

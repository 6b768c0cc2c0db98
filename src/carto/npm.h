/* npm.h - the package type `npm`
 *
 * A node is a version of a package; an edge is what one version asks for, and leads to what npm would pick for it
 * (npm_pick.h), whatever else stands in the graph: the type is pure. Relations:
 *
 *   dependencies, optionalDependencies   run time; what an optional one fails of is no error
 *   devDependencies                      build time, so of roots alone
 *   peerDependencies                     run time, with the option peers; not those that peerDependenciesMeta calls optional
 *
 * Of an alias the target is the package that it stands for. An override names a version, a range or a tag, of the package
 * or of another one.
 *
 * A universe is an import of packuments, or of a lock, whose documents are the facts n:NAME; or the registry as of a
 * date, where documents are fetched as they are asked for and a request keeps which ones it has seen (struct carto_pin).
 * Its name is that date; versions that are later are not there.
 *
 * A root is NAME, NAME@VERSION, NAME@RANGE or NAME@TAG; "." is the manifest of the request, a package.json.
 */
#ifndef QP_CARTO_NPM_H
#define QP_CARTO_NPM_H

#include "carto/npm_fact.h"
#include "carto/type.h"

extern const struct carto_type npm_type;

struct npm_options {
    qp_str universe; /* an import; none: the registry */
    bool has_before;
    qp_ms before;
    bool with_peers;
    struct carto_package manifest; /* no name: none is given */
    qp_str manifest_relations;     /* a fact; empty: it has none */
};

#endif

/* npm_spec.h - names of packages of npm, and what a dependency asks for, as npm itself reads both
 *
 *   1.2.3   v1.2.3          a version
 *   ^1.2 || 3.x   *         a range
 *   latest   next           a tag
 *   npm:@scope/name@^1      another package: an alias; `name` is that package, and the rest is read as above
 *   git+ssh://..  a/b  file:../x  ./x.tgz  workspace:*     not of the registry: unsupported
 *
 * A requirement is what stands on an edge: what is asked for; of an alias with the local name before it,
 * "local@npm:name@^1"; in a lock with the version that the lock has behind it, "^1.2 (1.4.0)". Pure; any thread.
 */
#ifndef QP_CARTO_NPM_SPEC_H
#define QP_CARTO_NPM_SPEC_H

#include "carto/semver_range.h"

enum npm_spec_kind { NPM_SPEC_VERSION, NPM_SPEC_RANGE, NPM_SPEC_TAG, NPM_SPEC_UNSUPPORTED };

struct npm_spec {
    enum npm_spec_kind kind;
    qp_str
        text; /* what is asked for, without spaces around it and without the name of an alias; "*": anything */
    qp_str name;   /* of an alias: the package; else none */
    qp_str locked; /* the version that a lock has; else none */
    struct semver version;
    struct semver_range range;
};

/* A requirement. The range lives in the arena, all else in the text. QP_E_NOMEM. */
int npm_spec_read(struct arena *a, qp_str text, struct npm_spec *out) QP_MUST_USE;
/* Whether a version is what is asked for, as far as it can be said without dist-tags: any is, of a tag. */
bool npm_spec_admits(const struct npm_spec *spec, qp_str version);

/* Whether this is a name of a package: "name" or "@scope/name", as old packages may be called. */
bool npm_name_is_valid(qp_str name);
/* Splits "name@spec" and "@scope/name@spec"; without '@' the spec is none. */
void npm_split(qp_str text, qp_str *out_name, qp_str *out_spec);

#endif

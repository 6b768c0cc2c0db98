/* plan.h - a request as it was read: what its body says, checked
 *
 *   {"roots": ["deb:gnome", "deb:curl=7.88.1-10", "deb:*"],   required; "traverse-from" is another name of it. Package URLs, too
 *    "scope": "runtime",        or build_time
 *    "depth": 3,                the deepest level; none: no limit
 *    "exclusions": ["deb:libx11-*"],
 *    "versions": {"deb:curl": "7.88.1-10", "deb:awk": "deb:mawk@1.3.4"},
 *    "deb": {"closure": "A", "arch": "amd64"},   what a type reads itself; a member per type
 *    "format": {"node": MAPPING},                format_own.h
 *    "split": false, "page": 500,               how it is run: the result is the same
 *    "fresh": false}                            whether an equal request that is there already will not do (face.c)
 *
 * A body is refused with QP_E_SHAPE and a pointer (roots, types, patterns), or with the code and sentence of its type. What
 * needs facts, that is, whether roots and overridden packages exist, is plan_check's.
 *
 * A plan lives in its arena and never changes. Pure.
 */
#ifndef QP_CARTO_PLAN_H
#define QP_CARTO_PLAN_H

#include "carto/stage.h"

struct carto_plan {
    struct carto_request request; /* `facts` of its uses are the caller's to set */
    struct carto_use *uses;
    const qp_str *roots; /* "type:name" or more, "type:*" */
    size_t root_count;
    int64_t page; /* items per commit */
    bool is_split;
    const struct format_own *own; /* the format that it has brought; NULL: none */
    bool is_external;             /* it names a type that workers serve: any item may be of one */
    bool is_fresh;                /* the result of an equal request will not do */
};

struct plan_types {
    const struct carto_type *const *list;
    size_t count;
};

int plan_read(const struct qp_env *env, struct arena *a, const struct plan_types *types,
              qp_str body, struct carto_plan *out_plan, struct qp_err *err) QP_MUST_USE;
/* Roots and overrides against the facts. QP_E_NOT_FOUND with the nearest names. */
int plan_check(const struct carto_plan *plan, struct arena *a, struct qp_err *err) QP_MUST_USE;

/* Whether bodies have a member of this name, which therefore is no name of a type. */
bool plan_has_member(qp_str name);
/* Whether a root or an override is of this type. */
bool plan_uses(const struct carto_plan *plan, const char *type);
/* Whether SELECT is a phase of its own: something may have to be waited for. */
bool plan_selects_apart(const struct carto_plan *plan);
/* Whether a root stands for all packages of its type: "type:*". */
bool plan_is_all(qp_str root);

#endif

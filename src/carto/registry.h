/* registry.h - the registry of package types: those that workers serve, of one namespace (the PackageInfoRegistry of document 003)
 *
 * A definition is a fact, and so durable as an import is: the universe of the type "type:NAME", whose name is a digest of the
 * definition, has one fact with its text. To register a type is to make that universe current; to take one out makes it
 * former. A request that names an external type pins all that are registered: their names and digests are a part of the job's
 * version, so what becomes of the registry changes nothing for a traversal that runs.
 *
 *   I1  a definition is in the store before a job's version names it, and goes only when no traversal is open (import.h)
 *
 * If we crash within a change, it was made or not: it is one commit.
 */
#ifndef QP_CARTO_REGISTRY_H
#define QP_CARTO_REGISTRY_H

#include "carto/external.h"
#include "carto/plan.h"
#include "kernel/request.h"

/* Where it is read: in a decision, or in a snapshot. */
struct registry {
    struct arena *arena; /* where types live */
    int64_t ns;
    struct bundle *bundle; /* NULL: `store` */
    struct store *store;
};

/* `base` and behind it the external types: of a version those that it names, of none all that are registered. QP_E_NOT_FOUND:
 * one of the version's is gone. */
int registry_types(const struct registry *r, const struct plan_types *base, qp_str version,
                   struct plan_types *out_types, struct qp_err *err) QP_MUST_USE;
/* One that is registered; QP_E_NOT_FOUND. */
int registry_find(const struct registry *r, qp_str name, const struct carto_external **out_external,
                  struct qp_err *err) QP_MUST_USE;
/* "type@name" of a version, as atlas.h writes them; takes it off the front. */
bool version_next(qp_str *version, qp_str *out_type, qp_str *out_name);

/* A type is registered, in place of the one of its name, or taken out. QP_E_LIMIT: there are LIMIT_CARTO_TYPES; QP_E_NOT_FOUND:
 * there is none to be taken out. */
struct request_type {
    struct command command;
    int64_t ns;
    qp_str name;
    const struct carto_external *definition; /* NULL: it is taken out */
    struct refusal refusal;
};
void request_type(struct request_type *r);

#endif

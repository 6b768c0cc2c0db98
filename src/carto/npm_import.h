/* npm_import.h - saved packuments as the facts of a universe (npm_fact.h); locks: npm_lock.h
 *
 *   npm_import_init .. npm_import_packument, any number of times, or npm_lock_read .. npm_import_finish .. npm_import_done
 *
 * Equal packages give equal facts, in whatever order they come, so the hash of all facts names the universe. Not
 * thread-safe.
 */
#ifndef QP_CARTO_NPM_IMPORT_H
#define QP_CARTO_NPM_IMPORT_H

#include "base/omap.h"
#include "carto/facts.h"
#include "carto/packument.h"

struct npm_import {
    const struct qp_env *env;
    struct arena memory;
    struct omap facts; /* by name: a qp_str */
    size_t package_count;
    size_t version_count;
    qp_str name; /* of the packument that is being read */
};

void npm_import_init(struct npm_import *i, const struct qp_env *env);
void npm_import_done(struct npm_import *i);

/* `name`: whose packument it must be. The codes of packument_read; QP_E_CONFLICT: it is of another package. */
int npm_import_packument(struct npm_import *i, qp_str name, qp_str text,
                         struct qp_err *err) QP_MUST_USE;

int npm_import_finish(struct npm_import *i, struct facts_table *out) QP_MUST_USE;

/* A fact of the import; a name that is there already has the same value, or is replaced. */
int npm_import_fact(struct npm_import *i, char mark, qp_str name, qp_str value) QP_MUST_USE;

#endif

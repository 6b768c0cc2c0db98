/* npm_lock.h - a package-lock.json as the facts of a universe */
#ifndef QP_CARTO_NPM_LOCK_H
#define QP_CARTO_NPM_LOCK_H

#include "carto/npm_import.h"

/* A package-lock.json of lockfileVersion 2 or 3, as it stands: every package of it is a version, and its relations lead to
 * the versions that it would find from its place. Places of equal versions are one. `name`: of a root that has none.
 * *out_root: "NAME@VERSION". */
int npm_lock_read(struct npm_import *i, qp_str text, qp_str name, qp_str *out_root,
                  struct qp_err *err) QP_MUST_USE;

#endif

/* deb_import.h - from lists of packages to the facts of a universe
 *
 *   deb_import_init .. for each list: deb_import_feed, any number of times, deb_import_end_list .. deb_import_finish
 *   .. deb_import_done
 *
 * Of several packages of one name and architecture, in one list or several, the highest version wins; of equal ones the
 * first. A package loses with all it provides. What packages provide is known only when all lists are read, so facts
 * are made at the end, in the order of their names; the same lists in another order give the same universe, except
 * where they disagree about the same version of a package.
 *
 * Errors are those of deb_packages.h; a relationship that cannot be read is QP_E_MALFORMED with its line and field. The
 * import is of no further use then: a universe is made whole or not at all. Memory: about a fifth of the lists.
 */
#ifndef QP_CARTO_DEB_IMPORT_H
#define QP_CARTO_DEB_IMPORT_H

#include "base/omap.h"
#include "carto/deb_packages.h"
#include "carto/facts.h"

struct deb_import {
    const struct qp_env *env;
    struct arena memory;
    struct deb_packages reader;
    struct omap names; /* to struct known, see deb_import.c */
    struct buf text;   /* of the package that is being read */
    int64_t package_count;
};

void deb_import_init(struct deb_import *i, const struct qp_env *env);
void deb_import_done(struct deb_import *i);
int deb_import_feed(struct deb_import *i, qp_str bytes, struct qp_err *err) QP_MUST_USE;
int deb_import_end_list(struct deb_import *i, struct qp_err *err) QP_MUST_USE;
/* Fills a table that was initialized, and seals it. QP_E_NOMEM; QP_E_TOO_LARGE: a fact past LIMIT_CARTO_FACT_SIZE. */
int deb_import_finish(struct deb_import *i, struct facts_table *out,
                      struct qp_err *err) QP_MUST_USE;

#endif

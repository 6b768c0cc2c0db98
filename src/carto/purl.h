/* purl.h - package URLs, and the other ways in which people name a package
 *
 *   pkg:deb/debian/curl@7.88.1-10    pkg:npm/%40scope/name@1.0.0    qualifiers and a subpath are passed over
 *   deb:curl   deb:curl=7.88.1-10    npm:@scope/name@1.0.0
 *
 * What result_purl writes is read as the same package. Pure; texts are made in the arena.
 */
#ifndef QP_CARTO_PURL_H
#define QP_CARTO_PURL_H

#include "carto/type.h"

bool purl_is(qp_str text); /* it begins as one */
/* QP_E_INVALID, with what is wrong and what one looks like. */
int purl_read(struct arena *a, qp_str text, struct carto_package *out,
              struct qp_err *err) QP_MUST_USE;
/* Any of the forms above; without a version it is none. QP_E_INVALID. */
int package_name_read(struct arena *a, qp_str text, struct carto_package *out,
                      struct qp_err *err) QP_MUST_USE;

#endif

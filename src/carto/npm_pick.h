/* npm_pick.h - which version of a package npm picks for a requirement, as of a date
 *
 *   version   that one, if it was there at the date
 *   tag       the version of the dist-tag; one that is later than the date means the highest that is not above it
 *   range     `latest`, if it satisfies, is not deprecated and not later than the date; else the highest that satisfies,
 *             deprecated ones last
 *
 * A pre-release is picked for "*" only as `latest`. Engines are not looked at. What a lock has is picked as it is. Pure; any thread.
 */
#ifndef QP_CARTO_NPM_PICK_H
#define QP_CARTO_NPM_PICK_H

#include "carto/npm_fact.h"
#include "carto/npm_spec.h"

#define NPM_NO_CUTOFF (NPM_TIME_BAD - 1)

/* QP_E_NOT_FOUND, without a sentence: none. QP_E_CORRUPT. */
int npm_pick(const struct npm_document *d, struct arena *a, const struct npm_spec *spec,
             qp_ms cutoff, qp_str *out_version, struct qp_err *err) QP_MUST_USE;
/* The version in the document; QP_E_NOT_FOUND, without a sentence. */
int npm_version_find(const struct npm_document *d, qp_str version, struct npm_version *out,
                     struct qp_err *err) QP_MUST_USE;
/* The version of a dist-tag, none: it has no such tag. */
int npm_tag_find(const struct npm_document *d, qp_str tag, qp_str *out_version,
                 struct qp_err *err) QP_MUST_USE;

#endif

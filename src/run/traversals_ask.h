/* traversals_ask.h - questions about results of traversals: why a package is in one, and what differs between two
 *
 * A result with at most LIMIT_CARTO_READ_ITEMS items is read for each question; of a larger one FORMAT has kept nodes and
 * edges. One whose FORMAT was of an older version has none, and is read as well. From any thread.
 */
#ifndef QP_RUN_TRAVERSALS_ASK_H
#define QP_RUN_TRAVERSALS_ASK_H

#include "carto/result_why.h"

/* Each writes one JSON object (result_why.h, result_diff.h), with the ids, universes and hashes of what was asked. QP_E_BUSY:
 * there is no result yet; QP_E_NOT_FOUND: no such traversal, or no such package in it; QP_E_INVALID: no name of one. */
int traversals_why(qp *q, qp_str ns, qp_str id, const struct why_question *question,
                   struct json_writer *w, struct qp_err *err) QP_MUST_USE;
int traversals_diff(qp *q, qp_str ns, qp_str from, qp_str to, struct json_writer *w,
                    struct qp_err *err) QP_MUST_USE;

#endif

/* log.h - what has happened in a traversal, as lines of text
 *
 * Lines come from rows that do not change: the request, the edge of each gate (END-DETECT), errors of a level once the next
 * one has begun, FORMAT, the end. So the text of a traversal that runs only grows, and any part of it can be asked for.
 */
#ifndef QP_CARTO_TEXT_LOG_H
#define QP_CARTO_TEXT_LOG_H

#include "carto/result.h"

int carto_log(const struct qp_env *env, struct store *s, const struct job_row *job, struct buf *out,
              struct qp_err *err) QP_MUST_USE;

#endif

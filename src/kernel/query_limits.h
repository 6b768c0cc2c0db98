/* query_limits.h - the settings of limits, as qp_limit_list tells them */
#ifndef QP_KERNEL_QUERY_LIMITS_H
#define QP_KERNEL_QUERY_LIMITS_H

#include "kernel/query.h"

int query_limits(const struct query *q, qp_str cursor, int64_t limit, void *context,
                 qp_limit_visit visit, char out_cursor[QP_LIMIT_CURSOR_SIZE],
                 struct qp_err *err) QP_MUST_USE;

#endif

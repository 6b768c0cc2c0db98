/* sql.h - a person's SELECT over the store, answered as JSON
 *
 *   {"columns":["id","status"],"rows":[["order-7","failed"],...],"more":true}
 *
 * `more` is there when there were more rows. Numbers beyond 2^53 are texts, as everywhere; bytes, and texts
 * that are no good UTF-8, are told in hexadecimal digits. What may be asked is up to the store: see store_sql.
 */
#ifndef QP_RUN_SQL_H
#define QP_RUN_SQL_H

#include "base/json.h"

struct sql_question {
    qp_str sql;
    int64_t limit;   /* rows; 0: LIMIT_SQL_ROWS */
    qp_ms within_ms; /* 0: LIMIT_SQL_MS */
};

/* Writes the answer. When it fails, what was written so far is of no use. */
int sql_ask(qp *q, const struct sql_question *question, struct json_writer *w,
            struct qp_err *err) QP_MUST_USE;

#endif

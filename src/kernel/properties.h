/* properties.h - what the code of a job keeps for people to see: named values, read without a worker
 *
 * Properties are rows of the job's data, "quipu:value:" and a key. The row with the highest key says how they are now; it has
 * all of them. A kind whose code goes back in time has a row per change (agent); any other has one row, PROPERTIES_ROW,
 * which changes in place (flow).
 *
 *   value    "=" and the text, or "-" for none. The text of a flow is a JSON object; that of an agent's instance is what its
 *            script has sent, whatever it is
 *
 * As JSON they are the object, else the text as a string. A member that is null is as good as none. If we crash: the row
 * commits with the decision that has set it.
 */
#ifndef QP_KERNEL_PROPERTIES_H
#define QP_KERNEL_PROPERTIES_H

#include "base/mem.h"

struct job_row;
struct store;

#define PROPERTIES_PREFIX "quipu:value:"
#define PROPERTIES_ROW QP_STR(PROPERTIES_PREFIX "a0")

/* The text of a row, and back: none is a text, too. QP_E_NOMEM; QP_E_CORRUPT: no row of properties. */
int properties_wrap(struct arena *arena, qp_str values, qp_str *out_row) QP_MUST_USE;
int properties_unwrap(struct arena *arena, qp_str row, qp_str *out_values) QP_MUST_USE;

/* How they are now, JSON; none: the job has none. */
int properties_read(struct store *s, struct arena *arena, const struct job_row *job,
                    qp_str *out_json, struct qp_err *err) QP_MUST_USE;
/* One of them, of what properties_read gave; none: there is no such one, or it is null. */
qp_str properties_find(qp_str json, qp_str name);

/* Whether they are a JSON object of names and values within LIMIT_PROPERTIES and LIMIT_PROPERTIES_SIZE; `json` is known to be
 * JSON. QP_E_SHAPE, QP_E_TOO_LARGE. */
int properties_check(qp_str json, struct qp_err *err) QP_MUST_USE;

#endif

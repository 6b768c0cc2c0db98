/* error.h - the one shape of an error: {"code","message","activity","address","job"?}
 *
 * A failed job, a failed activity and a failed attempt have the same text, in rows, in the C API, over HTTP, in the SQL
 * views and in mappings:
 *
 *   code      400 to 599; that of an interrupt may be another one
 *   message   a sentence for people
 *   activity  the name of the activity that failed; null: the job was ended from outside
 *   address   its address; null likewise
 *   job       only where the activity failed because a job that it called failed: the id of that job
 *
 * Pure functions. Texts are made in the arena. No error is longer than LIMIT_ERROR_TEXT_SIZE: the message is cut, at a
 * character.
 */
#ifndef QP_STORE_ERROR_H
#define QP_STORE_ERROR_H

#include "base/mem.h"

struct json_writer;

#define ERROR_CODE 500      /* of an error that has none of its own */
#define ERROR_CODE_LOST 504 /* the lease of a task ran out: its worker did not answer */
#define ERROR_CODE_CANCELLED                                                                       \
    499 /* a step of a flow that was cancelled before the step was answered */
#define ERROR_CODE_TIMEOUT 408 /* a time limit of a task is over (time_limits.h) */

struct error {
    int64_t code;
    qp_str message;
    qp_str addr;     /* of the activity that failed; none: the job was ended from outside */
    qp_str job;      /* that the activity had called; none: the failure is its own */
    qp_str activity; /* none: the name in `addr` */
};

/* As an object in a larger text. It is the only place that writes one. */
void error_put(struct json_writer *w, const struct error *e);
/* As a text of its own. QP_E_NOMEM. */
int error_write(struct arena *a, const struct error *e, qp_str *out_json) QP_MUST_USE;

/* The same with what else was brought, checked JSON or none: the members of an object stand behind those of the error, which
 * come first and are not replaced; anything else that is not null stands under "output". Such a text is as long as `data`
 * makes it. */
int error_write_with(struct arena *a, const struct error *e, qp_str data,
                     qp_str *out_json) QP_MUST_USE;

/* The error that a text tells of, in its one shape. `text` is such an error, another JSON object that has a message (and
 * perhaps a code), or a sentence. `otherwise` has what the text lacks; its message is used when the text is none. */
int error_shape(struct arena *a, qp_str text, const struct error *otherwise,
                qp_str *out_json) QP_MUST_USE;

/* What such a text says; what it lacks is none, and its code ERROR_CODE. Texts are in the arena, or those of `text`. */
int error_read(struct arena *a, qp_str text, struct error *out_error) QP_MUST_USE;

/* Whether the text of a row has the one shape already: only for rows, which nobody else writes. */
bool error_has_shape(qp_str text);

/* The longest part of a sentence that an error may have. */
qp_str error_cut(qp_str message);

#endif

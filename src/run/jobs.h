/* jobs.h - words and sentences about a job, for the calls of quipu.h
 *
 * Pure functions, from any thread.
 */
#ifndef QP_RUN_JOBS_H
#define QP_RUN_JOBS_H

#include "store/rows.h"

/* Sets "<what> '<id>': <why>", with the id made printable. Returns rc. */
int job_error(struct qp_err *err, int rc, qp_str id, const char *what, const char *why);
/* The word for the state in which a job ended. */
const char *state_word(enum job_state state);

#endif

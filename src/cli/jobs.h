/* jobs.h - what commands about one job share */
#ifndef QP_CLI_JOBS_H
#define QP_CLI_JOBS_H

#include "cli/output.h"

/* The whole id of a job that was named by it, or by the beginning of it. */
int job_resolve(struct cli *c, const char *typed, const char **out_id);
/* "/v1/jobs/ID" and what follows it. */
const char *job_path(struct cli *c, const char *id, const char *rest);

/* A new id, so that the same request can be sent twice. */
int job_new_id(struct cli *c, const char **out_id);

/* The exit code of a job in this state, and whether it stays so by itself. */
bool status_is_final(qp_str status, int *out_exit);

/* What a job waits for and no worker serves: its name, or with what it is, "the flow 'x'". Empty, or NULL: nothing. */
qp_str unserved_name(const struct json *job);
const char *unserved_text(struct cli *c, const struct json *job);

/* Until the job has ended or needs a person; prints it, and returns the exit code that fits. */
int job_wait(struct cli *c, const char *id);
/* When a --timeout is over, by the monotonic clock; 0: never. */
int job_deadline(struct cli *c, int64_t *out_us);

#endif

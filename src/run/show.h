/* show.h - what the library tells, as JSON: the same for the HTTP API and the command line
 *
 * Each writes one object with a json_writer of the caller's. Times are RFC 3339 in UTC with milliseconds,
 * ledgers fifteen digits as text, integers beyond 2^53 text; what there is none of is left out, so that
 * nobody sees null where a field has no meaning. Payloads stand there as they came.
 */
#ifndef QP_RUN_SHOW_H
#define QP_RUN_SHOW_H

#include "base/json.h"
#include "run/access.h"
#include "run/work.h"

void show_job(struct json_writer *w, const struct qp_job_info *job);
void show_activity(struct json_writer *w, const struct qp_activity *activity);
void show_event(struct json_writer *w, const struct qp_event *event);
void show_topic(struct json_writer *w, const struct qp_topic *topic, qp_ms now);
void show_space(struct json_writer *w, const struct qp_space *space);
void show_worker(struct json_writer *w, const struct work_worker *worker);
void show_access(struct json_writer *w, const struct access_token *token);
void show_audit(struct json_writer *w, const struct audit_entry *entry);
/* A task of an answer to POST /v1/work. */
void show_task(struct json_writer *w, const struct work_task *task);

/* "2026-01-31T09:08:07.123Z", with a NUL; its length. */
#define SHOW_TIME_SIZE 40
size_t show_time(qp_ms at, char out_text[SHOW_TIME_SIZE]);
/* RFC 3339 with any offset, fractions cut to milliseconds. QP_E_INVALID. */
int read_time(qp_str text, qp_ms *out_at, struct qp_err *err) QP_MUST_USE;
/* "250ms", "10s", "1h30m", "2d", or ISO 8601 "PT1H30M", "P2D"; 0 to ten years. QP_E_INVALID. */
int read_duration(qp_str text, qp_ms *out_ms, struct qp_err *err) QP_MUST_USE;

#endif

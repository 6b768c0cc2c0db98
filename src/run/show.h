/* show.h - what the library tells, as JSON: the same for the HTTP API and the command line
 *
 * Each writes one object with a json_writer of the caller's. Times are RFC 3339 in UTC with milliseconds,
 * ledgers fifteen digits as text, integers beyond 2^53 text. What there is none of is left out. Payloads stand
 * there as they came.
 */
#ifndef QP_RUN_SHOW_H
#define QP_RUN_SHOW_H

#include "base/json.h"
#include "run/access.h"
#include "run/presence.h"
#include "run/work.h"

void show_job(struct json_writer *w, const struct qp_job_info *job);
/* With what its ledger says in words. */
void show_activity(struct json_writer *w, const struct qp_activity *activity);
void show_event(struct json_writer *w, const struct qp_event *event);
/* Ages are counted from `now`. */
void show_limit(struct json_writer *w, const struct qp_limit_info *limit);
void show_topic(struct json_writer *w, const struct qp_topic *topic, qp_ms now);
/* A version of an application; its text when it is there. */
void show_app(struct json_writer *w, const struct qp_app *app);
void show_space(struct json_writer *w, const struct qp_space *space);
void show_worker(struct json_writer *w, const struct work_worker *worker);
/* Without its hash. */
void show_access(struct json_writer *w, const struct access_token *token);
void show_audit(struct json_writer *w, const struct audit_entry *entry);
/* A task of an answer to POST /v1/work: its members, in an object that is begun. */
void show_task(struct json_writer *w, const struct work_task *task);

/* A key and its value, for callers that write more; none, 0 and NULL are left out. */
void show_str(struct json_writer *w, const char *key, qp_str text);
void show_text(struct json_writer *w, const char *key, const char *text);
void show_time(struct json_writer *w, const char *key, qp_ms at);
void show_count(struct json_writer *w, const char *key, int64_t number); /* 0 too */
/* A number alone: beyond 2^53 as text, since many readers would round it. */
void show_number(struct json_writer *w, int64_t number);
void show_json(struct json_writer *w, const char *key, qp_str json);

#endif

/* show.c - what the library tells, as JSON */
#include "run/show.h"

#include <stdio.h>

#include "base/time.h"

/* Numbers that a reader with doubles would round are written as text. */
#define EXACT_MOST (INT64_C(1) << 53)

static void put_str(struct json_writer *w, const char *key, qp_str text)
{
    if (!str_is_none(text)) {
        json_key(w, str_from(key));
        json_put_str(w, text);
    }
}

static void put_text(struct json_writer *w, const char *key, const char *text)
{
    put_str(w, key, str_from(text));
}

static void put_raw(struct json_writer *w, const char *key, qp_str json)
{
    if (!str_is_none(json) && json.n > 0) {
        json_key(w, str_from(key));
        json_put_raw(w, json);
    }
}

static void put_number(struct json_writer *w, const char *key, int64_t number)
{
    json_key(w, str_from(key));
    if (number > EXACT_MOST || number < -EXACT_MOST) {
        char digits[32];
        (void)snprintf(digits, sizeof digits, "%lld", (long long)number);
        json_put_str(w, str_from(digits));
    } else {
        json_put_i64(w, number);
    }
}

/* 0 is none. */
static void put_time(struct json_writer *w, const char *key, qp_ms at)
{
    if (at != 0) {
        char text[SHOW_TIME_SIZE];
        (void)show_time(at, text); /* its length does not matter */
        put_text(w, key, text);
    }
}

static void put_ledger(struct json_writer *w, int64_t ledger)
{
    char digits[32];
    (void)snprintf(digits, sizeof digits, "%015lld", (long long)ledger);
    put_text(w, "ledger", digits);
}

/* Text that may be JSON: then it stands there as such. */
static void put_either(struct json_writer *w, const char *key, qp_str text)
{
    struct qp_env env;
    qp_env_init(&env);
    if (!str_is_none(text) && text.n > 0 && json_check(&env, text, NULL, NULL) == QP_OK) {
        put_raw(w, key, text);
    } else {
        put_str(w, key, text);
    }
}

/* ---------------------------------------------------------------------------------------- jobs */

static void put_attributes(struct json_writer *w, const struct qp_job_info *job)
{
    if (job->attribute_count == 0) {
        return;
    }
    json_key(w, QP_STR("attributes"));
    json_begin_object(w);
    for (size_t i = 0; i < job->attribute_count; i++) {
        json_key(w, job->attributes[i].name);
        json_put_str(w, job->attributes[i].value);
    }
    json_end_object(w);
}

void show_job(struct json_writer *w, const struct qp_job_info *job)
{
    json_begin_object(w);
    put_str(w, "id", job->id);
    put_str(w, "namespace", job->ns);
    put_str(w, "workflow", job->workflow);
    put_str(w, "version", job->version);
    put_str(w, "custom_id", job->custom_id);
    put_str(w, "parent", job->parent);
    put_str(w, "forked_from", job->forked_from);
    put_text(w, "status", job->status);
    put_str(w, "parked", job->parked);
    put_str(w, "error", job->error);
    put_str(w, "limit_key", job->limit_key);
    put_number(w, "priority", job->priority);
    put_time(w, "created_at", job->created_at);
    put_time(w, "updated_at", job->updated_at);
    put_time(w, "closed_at", job->closed_at);
    put_time(w, "expire_at", job->expire_at);
    put_time(w, "begin_at", job->begin_at);
    put_number(w, "open", job->open);
    put_number(w, "seq", job->seq);
    put_raw(w, "input", job->input);
    put_raw(w, "output", job->output);
    put_attributes(w, job);
    put_str(w, "unserved_topic", job->unserved_topic);
    put_time(w, "unserved_since", job->unserved_since);
    json_end_object(w);
}

void show_activity(struct json_writer *w, const struct qp_activity *activity)
{
    json_begin_object(w);
    put_str(w, "address", activity->address);
    put_str(w, "topic", activity->topic);
    put_str(w, "category", (qp_str){&activity->category, 1});
    put_ledger(w, activity->ledger);
    put_text(w, "state", activity->state);
    put_text(w, "task", activity->task);
    put_number(w, "failures", activity->failures);
    put_number(w, "answers", activity->answers);
    if (activity->code != 0) {
        put_number(w, "code", activity->code);
    }
    put_either(w, "error", activity->error);
    put_raw(w, "input", activity->input);
    put_raw(w, "output", activity->output);
    put_raw(w, "progress", activity->progress);
    put_time(w, "entered_at", activity->entered_at);
    put_time(w, "answered_at", activity->answered_at);
    put_time(w, "wake_at", activity->wake_at);
    json_end_object(w);
}

void show_event(struct json_writer *w, const struct qp_event *event)
{
    json_begin_object(w);
    put_str(w, "namespace", event->ns);
    put_str(w, "job", event->job);
    put_number(w, "seq", event->seq);
    put_number(w, "pos", event->pos);
    put_time(w, "at", event->at);
    put_text(w, "kind", event->kind);
    put_str(w, "address", event->address);
    if (!str_is_none(event->address)) {
        put_ledger(w, event->ledger);
    }
    if (event->code != 0) {
        put_number(w, "code", event->code);
    }
    put_text(w, "status", event->status);
    put_either(w, "detail", event->detail);
    json_end_object(w);
}

/* ------------------------------------------------------------------------------ topics, workers */

/* What a person should know of a topic whose tasks nobody takes. */
static void put_note(struct json_writer *w, const struct qp_topic *topic, qp_ms now)
{
    char note[LIMIT_NAME_SIZE + 64];
    if (topic->workers > 0 || topic->ready == 0) {
        return;
    }
    if (topic->served_at == 0) {
        (void)snprintf(note, sizeof note, "no worker serves topic %.*s", STR_ARG(topic->name));
    } else {
        (void)snprintf(note, sizeof note, "no worker serves topic %.*s since %lld s",
                       STR_ARG(topic->name), (long long)((now - topic->served_at) / 1000));
    }
    put_text(w, "note", note);
}

void show_topic(struct json_writer *w, const struct qp_topic *topic, qp_ms now)
{
    json_begin_object(w);
    put_str(w, "name", topic->name);
    put_number(w, "ready", topic->ready);
    put_number(w, "held", topic->held);
    put_time(w, "oldest_at", topic->oldest_at);
    put_number(w, "workers", topic->workers);
    put_time(w, "served_at", topic->served_at);
    put_note(w, topic, now);
    json_end_object(w);
}

void show_worker(struct json_writer *w, const struct work_worker *worker)
{
    json_begin_object(w);
    put_str(w, "namespace", worker->ns);
    put_str(w, "name", worker->name);
    put_str(w, "build", worker->build);
    put_str(w, "caller", worker->caller);
    json_key(w, QP_STR("topics"));
    json_begin_array(w);
    for (size_t i = 0; i < worker->topic_count; i++) {
        json_put_str(w, worker->topics[i]);
    }
    json_end_array(w);
    put_number(w, "in_hand", worker->in_hand);
    put_number(w, "waiting", worker->waiting);
    put_time(w, "since", worker->since);
    put_time(w, "seen_at", worker->seen_at);
    json_end_object(w);
}

void show_task(struct json_writer *w, const struct work_task *task)
{
    json_begin_object(w);
    put_text(w, "token", task->token);
    put_text(w, "kind", "activity");
    put_str(w, "job", task->job);
    put_str(w, "workflow", task->workflow);
    put_str(w, "name", task->topic);
    put_str(w, "address", task->address);
    put_number(w, "attempt", task->attempt);
    put_raw(w, "input", task->input);
    put_time(w, "deadline", task->deadline);
    put_text(w, "idempotency_key", task->key);
    json_end_object(w);
}

/* ------------------------------------------------------------------------------------- the store */

void show_space(struct json_writer *w, const struct qp_space *space)
{
    json_begin_object(w);
    put_str(w, "name", space->name);
    put_time(w, "created_at", space->created_at);
    json_end_object(w);
}

/* Never the hash: nobody needs to see it. */
void show_access(struct json_writer *w, const struct access_token *token)
{
    json_begin_object(w);
    put_str(w, "id", token->id);
    put_str(w, "name", token->name);
    put_str(w, "role", token->role);
    put_str(w, "scopes", token->scopes);
    put_str(w, "namespaces", token->spaces);
    put_str(w, "topics", token->topics);
    put_time(w, "created_at", token->created_at);
    put_time(w, "expire_at", token->expire_at);
    put_time(w, "revoked_at", token->revoked_at);
    put_time(w, "used_at", token->used_at);
    json_end_object(w);
}

void show_audit(struct json_writer *w, const struct audit_entry *entry)
{
    json_begin_object(w);
    put_number(w, "id", entry->id);
    put_time(w, "at", entry->at);
    put_str(w, "namespace", entry->audit.ns);
    put_str(w, "actor", entry->audit.actor);
    put_str(w, "action", entry->audit.action);
    put_str(w, "target", entry->audit.target);
    put_str(w, "outcome", entry->audit.outcome);
    put_str(w, "detail", entry->audit.detail);
    json_end_object(w);
}

/* ---------------------------------------------------------------------------------------- times */

size_t show_time(qp_ms at, char out_text[SHOW_TIME_SIZE])
{
    rfc3339_format(at, out_text);
    return strlen(out_text);
}

int read_time(qp_str text, qp_ms *out_at, struct qp_err *err)
{
    return rfc3339_parse(text, out_at, err);
}

int read_duration(qp_str text, qp_ms *out_ms, struct qp_err *err)
{
    return span_parse(text, out_ms, err);
}

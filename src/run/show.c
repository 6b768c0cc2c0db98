/* show.c - what the library tells, as JSON (see show.h) */
#include "run/show.h"

#include <stdio.h>

#include "base/time.h"
#include "kernel/ledger.h"
#include "store/error.h"

#define EXACT_MOST (INT64_C(1) << 53) /* beyond it many readers round */

void show_str(struct json_writer *w, const char *key, qp_str text)
{
    if (!str_is_none(text)) {
        json_key(w, str_from(key));
        json_put_str(w, text);
    }
}

void show_text(struct json_writer *w, const char *key, const char *text)
{
    show_str(w, key, str_from(text));
}

void show_time(struct json_writer *w, const char *key, qp_ms at)
{
    char text[RFC3339_SIZE];
    if (at != 0) {
        rfc3339_format(at, text);
        show_text(w, key, text);
    }
}

void show_number(struct json_writer *w, int64_t number)
{
    char text[24];
    if (number > EXACT_MOST || number < -EXACT_MOST) {
        (void)snprintf(text, sizeof text, "%lld", (long long)number);
        json_put_str(w, str_from(text));
    } else {
        json_put_i64(w, number);
    }
}

void show_count(struct json_writer *w, const char *key, int64_t number)
{
    json_key(w, str_from(key));
    show_number(w, number);
}

void show_json(struct json_writer *w, const char *key, qp_str json)
{
    if (!str_is_none(json)) {
        json_key(w, str_from(key));
        json_put_raw(w, json);
    }
}

static void show_ledger(struct json_writer *w, int64_t ledger, bool of_answer)
{
    char digits[16];
    char words[LEDGER_WORDS_SIZE];
    ledger_text(ledger, digits);
    show_text(w, "ledger", digits);
    if (of_answer) {
        guid_words(ledger, words);
    } else {
        ledger_words(ledger, words);
    }
    show_text(w, "says", words);
}

/* An open job's time ends it, a closed one's deletes it. */
static void show_job_times(struct json_writer *w, const struct qp_job_info *job)
{
    show_time(w, "started_at", job->created_at);
    show_time(w, "updated_at", job->updated_at);
    show_time(w, "begins_at", job->begin_at);
    show_time(w, "ended_at", job->closed_at);
    show_time(w, job->closed_at == 0 ? "times_out_at" : "kept_until", job->expire_at);
}

/* Where decisions wait: the name of what is decided, with its mark. */
static bool is_announced(qp_str topic)
{
    return topic.n > 1 && topic.p[0] == ANNOUNCED_MARK;
}

static qp_str announced_name(qp_str topic)
{
    return is_announced(topic) ? (qp_str){topic.p + 1, topic.n - 1} : topic;
}

static void show_unserved(struct json_writer *w, const struct qp_job_info *job)
{
    if (str_is_none(job->unserved_topic)) {
        return;
    }
    json_key(w, QP_STR("unserved"));
    json_begin_object(w);
    show_str(w, is_announced(job->unserved_topic) ? "flow" : "topic",
             announced_name(job->unserved_topic));
    show_time(w, "since", job->unserved_since);
    json_end_object(w);
}

static void show_attributes(struct json_writer *w, const struct qp_job_info *job)
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

/* In the one shape; rows that an older version has written may have a sentence, or an object with less in it. */
static void show_error(struct json_writer *w, qp_str error, qp_str addr)
{
    struct error otherwise = {.code = ERROR_CODE, .addr = addr};
    struct arena arena;
    qp_str json = QP_NONE;
    if (str_is_none(error) || error_has_shape(error)) {
        show_json(w, "error", error);
        return;
    }
    arena_init(&arena, w->out->env, 0);
    if (error_shape(&arena, error, &otherwise, &json) == QP_OK) {
        show_json(w, "error", json);
    } else {
        w->out->rc = QP_E_NOMEM;
    }
    arena_done(&arena);
}

static void show_graph(struct json_writer *w, const struct qp_job_info *job)
{
    if (!str_is_none(job->state)) {
        show_str(w, "state", job->state);
        show_str(w, "compositional", job->compositional);
        show_count(w, "semaphore", job->open);
        show_json(w, "data", job->data);
        show_json(w, "skipped", job->skipped);
    }
}

void show_job(struct json_writer *w, const struct qp_job_info *job)
{
    json_begin_object(w);
    show_str(w, "id", job->id);
    show_str(w, "namespace", job->ns);
    show_str(w, "workflow", job->workflow);
    show_str(w, "version", job->version);
    show_text(w, "status", job->status);
    show_str(w, "parked", job->parked);
    show_error(w, job->error, QP_NONE);
    show_job_times(w, job);
    show_str(w, "custom_id", job->custom_id);
    show_str(w, "parent", job->parent);
    show_str(w, "forked_from", job->forked_from);
    show_str(w, "retried_as", job->retried_as);
    show_str(w, "limit_key", job->limit_key);
    show_count(w, "priority", job->priority);
    show_count(w, "open", job->open);
    show_count(w, "seq", job->seq);
    show_attributes(w, job);
    show_json(w, "properties", job->properties);
    show_json(w, "waits_for", job->waits_for);
    show_unserved(w, job);
    show_str(w, "awaits", job->awaits);
    show_json(w, "input", job->input);
    show_json(w, "output", job->output);
    show_graph(w, job);
    json_end_object(w);
}

/* Where an event of a flow stands. */
static void show_place(struct json_writer *w, qp_str location, int64_t version)
{
    if (!str_is_none(location)) {
        show_str(w, "location", location);
        show_count(w, "version", version);
    }
}

void show_activity(struct json_writer *w, const struct qp_activity *a)
{
    char category[2] = {a->category, '\0'};
    char digit[2] = {a->digit, '\0'};
    json_begin_object(w);
    show_place(w, a->location, a->version);
    show_str(w, "address", a->address);
    show_str(w, "name", a->name);
    show_text(w, "mark", a->mark);
    show_str(w, "topic", a->topic);
    show_text(w, "type", a->type);
    show_text(w, "category", category);
    show_text(w, "digit", a->digit == '\0' ? NULL : digit);
    show_text(w, "status", a->status);
    show_text(w, "state", a->state);
    show_ledger(w, a->ledger, false);
    show_text(w, "task", strcmp(a->task, "none") == 0 ? NULL : a->task);
    show_time(w, strcmp(a->task, "held") == 0 ? "leased_until" : "due_at", a->wake_at);
    show_str(w, "signal", a->signal);
    show_str(w, "key", a->key);
    show_time(w, "until", a->until);
    show_str(w, "child", a->child);
    show_str(w, "note", a->note);
    if (a->attempts != 0) {
        show_count(w, "attempts", a->attempts);
    }
    show_count(w, "failures", a->failures);
    show_count(w, "answers", a->answers);
    if (a->code != 0) {
        show_count(w, "code", a->code);
    }
    show_error(w, a->error, a->address);
    if (a->seq != 0) {
        show_count(w, "seq", a->seq);
    }
    show_time(w, "entered_at", a->entered_at);
    show_time(w, "answered_at", a->answered_at);
    show_json(w, "progress", a->progress);
    show_str(w, "dad", a->dad);
    show_json(w, "escalation", a->escalation);
    show_json(w, "input", a->input);
    show_json(w, "output", a->output);
    json_end_object(w);
}

/* What entries about an attempt, a wait or another job say. */
static void show_facts(struct json_writer *w, const struct qp_event *e)
{
    if (e->attempt != 0) {
        show_count(w, "attempt", e->attempt);
    }
    if (e->delivery != 0) {
        show_count(w, "delivery", e->delivery);
    }
    show_str(w, "worker", e->worker);
    show_str(w, "topic", e->topic);
    show_str(w, "key", e->key);
    show_str(w, "other", e->other);
    show_time(w, "until", e->until);
    show_json(w, "error", e->error);
}

void show_event(struct json_writer *w, const struct qp_event *e)
{
    json_begin_object(w);
    show_str(w, "job", e->job);
    show_count(w, "seq", e->seq);
    show_time(w, "at", e->at);
    show_text(w, "kind", e->kind);
    show_text(w, "status", e->status);
    show_str(w, "address", e->address);
    show_place(w, e->location, e->version);
    show_text(w, "type", e->type);
    show_str(w, "name", e->name);
    if (e->ledger != 0) {
        show_ledger(w, e->ledger, strcmp(e->kind, "answered") == 0);
    }
    if (e->code != 0) {
        show_count(w, "code", e->code);
    }
    show_facts(w, e);
    if (strcmp(e->kind, "published") == 0) {
        show_json(w, "data", e->detail);
    } else {
        show_str(w, "detail", e->detail);
    }
    json_end_object(w);
}

void show_topic(struct json_writer *w, const struct qp_topic *t, qp_ms now)
{
    json_begin_object(w);
    show_str(w, "name", t->name);
    show_count(w, "ready", t->ready);
    show_count(w, "held", t->held);
    if (t->oldest_at != 0) {
        show_count(w, "oldest_ms", now > t->oldest_at ? now - t->oldest_at : 0);
    }
    show_count(w, "workers", t->workers);
    show_time(w, "served_at", t->served_at);
    json_end_object(w);
}

void show_limit(struct json_writer *w, const struct qp_limit_info *limit)
{
    json_begin_object(w);
    show_str(w, "topic", limit->topic);
    show_str(w, "key", limit->key.n == 0 ? QP_NONE : limit->key);
    show_count(w, "max", limit->max);
    show_count(w, "ready", limit->ready);
    show_count(w, "held", limit->held);
    json_end_object(w);
}

void show_app(struct json_writer *w, const struct qp_app *app)
{
    json_begin_object(w);
    show_str(w, "name", app->app);
    show_str(w, "version", app->version);
    json_key(w, QP_STR("active"));
    json_put_bool(w, app->active);
    show_time(w, "created_at", app->created_at);
    show_time(w, "activated_at", app->activated_at);
    show_str(w, "text", app->text);
    json_end_object(w);
}

void show_space(struct json_writer *w, const struct qp_space *space)
{
    json_begin_object(w);
    show_str(w, "name", space->name);
    show_time(w, "created_at", space->created_at);
    json_end_object(w);
}

static bool has_flows(const struct work_worker *worker)
{
    for (size_t i = 0; i < worker->topic_count; i++) {
        if (is_announced(worker->topics[i])) {
            return true;
        }
    }
    return false;
}

static void show_served(struct json_writer *w, const char *key, const struct work_worker *worker,
                        bool announced)
{
    json_key(w, str_from(key));
    json_begin_array(w);
    for (size_t i = 0; i < worker->topic_count; i++) {
        if (is_announced(worker->topics[i]) == announced) {
            json_put_str(w, announced_name(worker->topics[i]));
        }
    }
    json_end_array(w);
}

void show_worker(struct json_writer *w, const struct work_worker *worker)
{
    json_begin_object(w);
    show_str(w, "name", worker->name);
    show_str(w, "build", worker->build);
    show_str(w, "namespace", worker->ns);
    show_str(w, "caller", worker->caller);
    show_served(w, "topics", worker, false);
    if (has_flows(worker)) {
        show_served(w, "flows", worker, true);
    }
    show_count(w, "in_hand", worker->in_hand);
    show_count(w, "waiting", worker->waiting);
    show_time(w, "since", worker->since);
    show_time(w, "seen_at", worker->seen_at);
    json_end_object(w);
}

void show_access(struct json_writer *w, const struct access_token *t)
{
    json_begin_object(w);
    show_str(w, "id", t->id);
    show_str(w, "name", t->name);
    show_str(w, "role", t->role);
    show_str(w, "scopes", t->scopes);
    show_str(w, "namespaces", t->spaces);
    show_str(w, "topics", t->topics);
    show_time(w, "created_at", t->created_at);
    show_time(w, "expires_at", t->expire_at);
    show_time(w, "revoked_at", t->revoked_at);
    show_time(w, "used_at", t->used_at);
    json_end_object(w);
}

void show_audit(struct json_writer *w, const struct audit_entry *e)
{
    json_begin_object(w);
    show_count(w, "id", e->id);
    show_time(w, "at", e->at);
    show_str(w, "namespace", e->audit.ns);
    show_str(w, "actor", e->audit.actor);
    show_str(w, "action", e->audit.action);
    show_str(w, "target", e->audit.target);
    show_str(w, "outcome", e->audit.outcome);
    show_str(w, "detail", e->audit.detail);
    json_end_object(w);
}

/* A task that is no activity has no name and no input of its own: its kind tells what there is (work_more). */
void show_task(struct json_writer *w, const struct work_task *t)
{
    const char *kind = t->of == NULL || t->of->face->task_kind == NULL
                           ? NULL
                           : t->of->face->task_kind(t->of->state, t->address);
    show_text(w, "token", t->token);
    show_text(w, "kind", kind == NULL ? "activity" : kind);
    show_str(w, "job", t->job);
    show_str(w, "workflow", t->workflow);
    if (kind == NULL) {
        show_str(w, "name", t->topic);
        show_str(w, "address", t->address);
    }
    show_count(w, "attempt", t->attempt);
    show_time(w, "deadline", t->deadline);
    if (kind == NULL) {
        show_text(w, "idempotency_key", t->key);
        show_json(w, "input", t->input);
        show_json(w, "progress", t->progress);
    }
}

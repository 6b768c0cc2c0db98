/* show.c - the arrays of an instance, written one by one */
#include "agent/show.h"

#include <stdio.h>

#include "base/uuid.h"

static void put_str(struct json_writer *w, const char *key, qp_str text)
{
    json_key(w, str_from(key));
    json_put_str(w, text);
}

static void put_i64(struct json_writer *w, const char *key, int64_t number)
{
    json_key(w, str_from(key));
    json_put_i64(w, number);
}

static void put_bool(struct json_writer *w, const char *key, bool truth)
{
    json_key(w, str_from(key));
    json_put_bool(w, truth);
}

static void put_raw(struct json_writer *w, const char *key, qp_str json)
{
    json_key(w, str_from(key));
    json_put_raw(w, json);
}

/* ------------------------------------------------------------------------------------- branches */

static void call_fields(struct json_writer *w, const struct hook_call *call)
{
    put_str(w, "type", str_from(hook_name(call->hook)));
    if (call->hook == HOOK_HANDLE) {
        put_str(w, "input", call->input);
        return;
    }
    if (call->hook == HOOK_EVENT) {
        put_str(w, "event_name", call->name);
        put_str(w, "event_input", call->input);
        return;
    }
    put_str(w, "task_name", call->name);
    put_str(w, "task_input", call->input);
    if (call->hook == HOOK_SUCCESS) {
        put_raw(w, "task_output", call->output);
    }
    if (call->hook == HOOK_FAILURE) {
        put_str(w, "error_name", call->error.name);
        put_str(w, "error_input", call->error.rest);
    }
}

void show_branch(struct json_writer *w, const struct branch *branch)
{
    json_begin_object(w);
    call_fields(w, &branch->call);
    json_end_object(w);
}

static void write_branches(struct json_writer *w, const struct instance *s)
{
    json_key(w, QP_STR("branches"));
    json_begin_array(w);
    for (size_t i = 0; i < s->branches_held; i++) {
        const struct branch *branch = &s->branches[i];
        json_begin_object(w);
        put_i64(w, "key", branch->key);
        put_i64(w, "start_index", branch->start_index);
        put_bool(w, "ended", branch->ended);
        call_fields(w, &branch->call);
        if (branch->ended) {
            put_str(w, "output", branch->output);
        }
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_executions(struct json_writer *w, const struct instance *s)
{
    json_key(w, QP_STR("executions"));
    json_begin_array(w);
    for (int64_t i = s->executions_first; i < s->execution_count; i++) {
        json_put_i64(w, state_execution(s, i));
    }
    json_end_array(w);
}

/* ------------------------------------------------------------------------------- works and waits */

static qp_str hash_of(const struct status *status)
{
    return (qp_str){status->hash, WORK_HASH_SIZE};
}

static void write_status(struct json_writer *w, const struct status *status)
{
    static const char *const names[] = {
        [WORK_SCHEDULED] = "scheduled", [WORK_SUCCESSFUL] = "successful", [WORK_FAILED] = "failed"};
    json_begin_object(w);
    put_i64(w, "branch_key", status->branch_key);
    put_str(w, "position", status->work.position);
    put_str(w, "hash", hash_of(status));
    put_str(w, "name", status->work.name);
    put_str(w, "type", str_from(work_type_name(status->work.type)));
    put_bool(w, "sync", status->work.sync);
    put_str(w, "status", str_from(names[status->state]));
    put_i64(w, "attempt", status->attempt);
    if (status->state == WORK_SUCCESSFUL) {
        put_i64(w, "completion_index", status->completion_index);
        put_raw(w, "output", status->output);
    }
    if (status->state == WORK_FAILED) {
        put_raw(w, "error", status->error.json);
    }
    json_end_object(w);
}

static void write_statuses(struct json_writer *w, const struct instance *s)
{
    json_key(w, QP_STR("statuses"));
    json_begin_array(w);
    for (size_t i = 0; i < s->statuses.count; i++) {
        write_status(w, s->statuses.items[i]);
    }
    json_end_array(w);
}

static void write_waits(struct json_writer *w, const struct instance *s)
{
    json_key(w, QP_STR("waits"));
    json_begin_array(w);
    for (size_t i = 0; i < s->wait_count; i++) {
        const struct wait *wait = &s->waits[i];
        json_begin_object(w);
        put_str(w, "hash", hash_of(wait->status));
        json_key(w, QP_STR("timestamp"));
        if (wait->end_ms == WORK_NO_END) {
            json_put_null(w);
        } else {
            json_put_i64(w, wait->end_ms);
        }
        if (!str_is_none(wait->status->work.event)) {
            put_str(w, "event", wait->status->work.event);
        }
        json_end_object(w);
    }
    json_end_array(w);
}

/* ------------------------------------------------------------------------- properties and buffer */

static void write_properties(struct json_writer *w, const struct instance *s)
{
    json_key(w, QP_STR("properties"));
    json_begin_array(w);
    for (size_t i = 0; i < s->property_count; i++) {
        json_begin_object(w);
        put_i64(w, "key", s->properties[i].key);
        put_str(w, "values", s->properties[i].values);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_buffer(struct json_writer *w, const struct instance *s)
{
    json_key(w, QP_STR("buffer"));
    json_begin_array(w);
    for (size_t i = 0; i < s->buffer_count; i++) {
        const struct action *action = &s->buffer[i];
        json_begin_object(w);
        put_i64(w, "timestamp", action->timestamp_ms);
        put_str(w, "type", str_from(hook_name(action->call.hook)));
        json_key(w, QP_STR("data"));
        json_begin_object(w);
        call_fields(w, &action->call);
        if (action->status != NULL) {
            put_str(w, "hash", hash_of(action->status));
        }
        json_end_object(w);
        json_end_object(w);
    }
    json_end_array(w);
}

/* -------------------------------------------------------------------------------- the decision */

/* The token of one attempt: derived, so that it is the same wherever it is asked for. */
static void write_uuid(struct json_writer *w, const struct instance *s)
{
    char attempt[64];
    unsigned char guid[LIMIT_GUID_SIZE];
    char text[UUID_TEXT_SIZE];
    int n = snprintf(attempt, sizeof(attempt), "decision %lld/%lld", (long long)s->ongoing_index,
                     (long long)s->decision_attempt);
    QP_ASSERT(n > 0 && (size_t)n < sizeof(attempt));
    hash_guid(s->id.p, s->id.n, attempt, (size_t)n, guid);
    uuid_format(guid, text);
    put_str(w, "uuid", (qp_str){text, sizeof(text)});
}

static bool is_ongoing(const struct instance *s, int64_t branch_key)
{
    for (int64_t i = s->ongoing_index; i < s->execution_count; i++) {
        if (state_execution(s, i) == branch_key) {
            return true;
        }
    }
    return false;
}

static void write_decision(struct json_writer *w, const struct instance *s)
{
    json_key(w, QP_STR("decision"));
    if (!s->decision_ongoing) {
        json_put_null(w);
        return;
    }
    json_begin_object(w);
    write_uuid(w, s);
    put_i64(w, "attempt", s->decision_attempt);
    put_i64(w, "triggered_at", s->triggered_ms);
    json_key(w, QP_STR("ongoing_branches"));
    json_begin_array(w);
    for (size_t i = 0; i < s->branches_held; i++) {
        if (is_ongoing(s, s->branches[i].key)) {
            json_begin_object(w);
            json_key(w, QP_STR("branch"));
            show_branch(w, &s->branches[i]);
            put_i64(w, "key", s->branches[i].key);
            json_end_object(w);
        }
    }
    json_end_array(w);
    json_key(w, QP_STR("ongoing_statuses"));
    json_begin_array(w);
    for (size_t i = 0; i < s->statuses.count; i++) {
        if (is_ongoing(s, s->statuses.items[i]->branch_key)) {
            write_status(w, s->statuses.items[i]);
        }
    }
    json_end_array(w);
    put_i64(w, "decision_current_index", s->ongoing_index);
    json_end_object(w);
}

/* ----------------------------------------------------------------------------------- the whole */

static const struct status *first_failed(const struct instance *s)
{
    for (size_t i = 0; i < s->statuses.count; i++) {
        if (s->statuses.items[i]->state == WORK_FAILED) {
            return s->statuses.items[i];
        }
    }
    return NULL;
}

static bool has_open_task(const struct instance *s)
{
    for (size_t i = 0; i < s->statuses.count; i++) {
        const struct status *status = s->statuses.items[i];
        if (state_has_task(status) && status->state == WORK_SCHEDULED) {
            return true;
        }
    }
    return false;
}

static const char *status_word(const struct instance *s)
{
    if (s->completed) {
        return "completed";
    }
    if (s->mode == MODE_KILL) {
        return "interrupted";
    }
    if (s->mode == MODE_PAUSE) {
        return "paused";
    }
    if (s->parked || first_failed(s) != NULL) {
        return "parked";
    }
    return s->decision_ongoing || has_open_task(s) ? "running" : "waiting";
}

static void write_parked(struct json_writer *w, const struct instance *s)
{
    const struct status *failed = first_failed(s);
    if (state_is_over(s) || (!s->parked && failed == NULL)) {
        return;
    }
    json_key(w, QP_STR("parked"));
    if (s->parked) {
        json_put_str(w, QP_STR("decision_failed"));
        return;
    }
    char text[LIMIT_ID_SIZE + 16];
    int n = snprintf(text, sizeof(text), "work_failed %.*s", STR_ARG(failed->work.name));
    QP_ASSERT(n > 0 && (size_t)n < sizeof(text));
    json_put_str(w, (qp_str){text, (size_t)n});
}

static void write_names(struct json_writer *w, const struct instance *s)
{
    put_str(w, "id", s->id);
    put_str(w, "custom_id", s->custom_id);
    put_str(w, "workflow_name", s->workflow_name);
    put_str(w, "canonical_name", s->canonical_name);
    put_str(w, "programming_language", s->programming_language);
    put_str(w, "environment", s->environment);
}

void show_instance(struct json_writer *w, const struct instance *s)
{
    static const char *const modes[] = {
        [MODE_RUN] = "run", [MODE_PAUSE] = "pause", [MODE_KILL] = "kill"};
    json_begin_object(w);
    write_names(w, s);
    put_str(w, "status", str_from(status_word(s)));
    write_parked(w, s);
    if (s->completed) {
        put_str(w, "output", s->output);
    }
    if (s->parked) {
        put_raw(w, "error", s->error.json);
    }
    write_branches(w, s);
    write_executions(w, s);
    write_statuses(w, s);
    write_waits(w, s);
    write_properties(w, s);
    write_buffer(w, s);
    json_key(w, QP_STR("ongoing_index"));
    if (s->ongoing_index == NO_INDEX) {
        json_put_null(w);
    } else {
        json_put_i64(w, s->ongoing_index);
    }
    put_str(w, "decision_mode", str_from(modes[s->mode]));
    put_bool(w, "decision_ongoing", s->decision_ongoing);
    write_decision(w, s);
    json_end_object(w);
}

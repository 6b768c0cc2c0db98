/* task.c - a decision as a worker elsewhere gets it (see task.h) */
#include "flow/task.h"

#include <stdio.h>

#include "flow/flow.h"
#include "flow/log.h"

/* Where a page begins: "SEQ.COUNT.KEY", with '-' for '!'. */
struct cursor_text {
    int64_t horizon; /* journal sequence of the job when the first page was made */
    int64_t count;   /* events of the pages before */
    qp_str addr;     /* of the last of them */
};

/* --------------------------------------------------------------------------------------- cursors */

static bool read_number(qp_str *rest, int64_t *out_number)
{
    int64_t number = 0;
    size_t i = 0;
    for (; i < rest->n && i < 15 && rest->p[i] >= '0' && rest->p[i] <= '9'; i++) {
        number = number * 10 + (rest->p[i] - '0');
    }
    if (i == 0 || i == rest->n || rest->p[i] != '.') {
        return false;
    }
    *rest = (qp_str){rest->p + i + 1, rest->n - i - 1};
    *out_number = number;
    return true;
}

static bool read_cursor(struct arena *arena, qp_str text, struct cursor_text *out)
{
    struct location at;
    qp_str rest = text;
    char *addr;
    if (!read_number(&rest, &out->horizon) || !read_number(&rest, &out->count) || rest.n == 0 ||
        rest.n >= LOCATION_ADDRESS_SIZE) {
        return false;
    }
    addr = arena_bytes(arena, rest.n + 1);
    if (addr == NULL) {
        return false;
    }
    addr[0] = LOCATION_MARK;
    for (size_t i = 0; i < rest.n; i++) {
        addr[i + 1] = rest.p[i] == '-' ? '!' : rest.p[i];
    }
    out->addr = (qp_str){addr, rest.n + 1};
    return location_from_address(out->addr, &at);
}

static void put_cursor(struct json_writer *w, const struct cursor_text *c)
{
    char text[64 + LOCATION_ADDRESS_SIZE];
    int n = snprintf(text, sizeof text, "%lld.%lld.%.*s", (long long)c->horizon,
                     (long long)c->count, (int)c->addr.n - 1, c->addr.p + 1);
    QP_ASSERT(n > 0 && (size_t)n < sizeof text);
    for (int i = 0; i < n; i++) {
        text[i] = text[i] == '!' ? '-' : text[i];
    }
    json_key(w, QP_STR("more"));
    json_put_str(w, (qp_str){text, (size_t)n});
}

/* ---------------------------------------------------------------------------------------- events */

static void put_number(struct json_writer *w, const char *key, int64_t number)
{
    json_key(w, str_from(key));
    json_put_i64(w, number);
}

static void put_raw(struct json_writer *w, const char *key, qp_str json)
{
    json_key(w, str_from(key));
    json_put_raw(w, str_is_none(json) ? QP_STR("null") : json);
}

static void put_word(struct json_writer *w, const char *key, const char *word)
{
    json_key(w, str_from(key));
    json_put_str(w, str_from(word));
}

static void put_loop(struct json_writer *w, const struct log_entry *e)
{
    put_number(w, "iteration", e->iteration);
    put_raw(w, "state", e->state);
    if (e->broken) {
        put_number(w, "broken", e->seen);
        put_raw(w, "ok", e->output);
    }
    if (!str_is_none(e->properties)) {
        put_raw(w, "properties", e->properties);
    }
}

static void put_answer(struct json_writer *w, const struct log_entry *e)
{
    put_number(w, "done", e->done);
    put_raw(w, e->code < 400 ? "ok" : "error", e->output);
}

static void put_event(struct json_writer *w, const struct history_event *event,
                      const struct log_entry *e, bool is_done)
{
    char text[LOCATION_TEXT_SIZE];
    struct location at = history_location(event);
    (void)location_print(&at, text);
    json_begin_object(w);
    put_word(w, "loc", text);
    put_number(w, "v", event->version);
    put_word(w, "op", history_word(event->type));
    if (!str_is_none(event->name)) {
        json_key(w, QP_STR("name"));
        json_put_str(w, event->name);
    }
    if (event->type == HISTORY_REMOVED) {
        put_word(w, "of", history_word(event->of));
    }
    put_number(w, "n", e->n);
    put_number(w, "at", is_done ? e->at : e->entered_at);
    if (e->shielded) {
        put_raw(w, "shield", QP_STR("true"));
    }
    if (event->type == HISTORY_LOOP) {
        put_number(w, "done", e->done);
        put_loop(w, e);
    } else if (is_done) {
        put_answer(w, e);
    }
    json_end_object(w);
}

/* The cancel of the flow, as an event before the others, in the first page. */
static void put_cancel(struct json_writer *w, const struct log_cancel *cancel)
{
    char text[LOCATION_TEXT_SIZE];
    json_begin_object(w);
    put_word(w, "op", "cancel");
    put_number(w, "done", cancel->done);
    put_number(w, "at", cancel->at);
    put_raw(w, "reason", cancel->reason);
    if (cancel->thrown.depth > 0) {
        (void)location_print(&cancel->thrown, text);
        put_word(w, "thrown", text);
    }
    json_end_object(w);
}

/* Events that were made, and answers that came, behind the horizon are not there yet. */
static void put_events(struct json_writer *w, const struct flow_log *log, int64_t horizon,
                       bool is_first)
{
    json_key(w, QP_STR("log"));
    json_begin_array(w);
    if (is_first && log->cancel.done > 0 && log->cancel.done <= horizon) {
        put_cancel(w, &log->cancel);
    }
    for (size_t i = 0; i < log->history.count; i++) {
        const struct log_entry *e = &log->entries[i];
        if (e->n <= horizon) {
            put_event(w, &log->history.events[i], e, e->done > 0 && e->done <= horizon);
        }
    }
    json_end_array(w);
}

static int put_page(const struct sight *sight, struct cursor_text *at, struct json_writer *w,
                    struct flow_log *out_log)
{
    struct log_page page = {
        .after = at->addr, .event_count = LIMIT_FLOW_PAGE_EVENTS, .size = LIMIT_FLOW_PAGE_SIZE};
    struct job_ref ref = {sight->job->ns, sight->job->job};
    bool is_first = str_equal(at->addr, LOCATION_FIRST);
    QP_TRY(log_read_page(sight->store, sight->arena, ref, &page, out_log, sight->err));
    at->count += (int64_t)out_log->history.count;
    if (at->count > LIMIT_FLOW_EVENTS) {
        return err_set(sight->err, QP_E_LIMIT, "history_too_large: it has more than %d events",
                       LIMIT_FLOW_EVENTS);
    }
    put_events(w, out_log, at->horizon, is_first);
    if (page.more) {
        at->addr = page.last;
        put_cursor(w, at);
    }
    return QP_OK;
}

/* ------------------------------------------------------------------------------------- the task */

static void put_head(struct json_writer *w, const struct flow_log *log)
{
    char seed[17];
    (void)snprintf(seed, sizeof seed, "%016llx", (unsigned long long)log->seed);
    put_number(w, "base", log->base);
    put_number(w, "since", 0);
    put_raw(w, "input", log->input);
    put_word(w, "seed", seed);
    put_number(w, "started_at", log->started_at);
}

static int put_first(const struct sight *sight, struct json_writer *w)
{
    struct cursor_text at = {.horizon = sight->job->seq, .addr = LOCATION_FIRST};
    struct flow_log log;
    QP_TRY(put_page(sight, &at, w, &log));
    put_head(w, &log);
    return QP_OK;
}

int flow_export(void *state, const struct sight *sight, struct buf *out, bool *out_done)
{
    struct job_ref ref = {sight->job->ns, sight->job->job};
    struct json_writer w;
    struct flow_log log;
    int rc = log_read(sight->store, sight->arena, ref, &log, sight->err);
    (void)state;
    *out_done = false;
    if (rc == QP_E_NOT_FOUND) {
        return QP_OK; /* it has not begun */
    }
    QP_TRY(rc);
    buf_text(out, ",\"history\":");
    json_writer_init(&w, out);
    json_begin_object(&w);
    put_events(&w, &log, INT64_MAX, true);
    put_head(&w, &log);
    json_end_object(&w);
    return json_writer_done(&w);
}

const char *flow_task_kind(void *state, qp_str address)
{
    (void)state;
    return str_equal(address, FLOW_ADDRESS) ? "flow" : NULL;
}

int flow_task(void *state, const struct sight *sight, qp_str address, struct json_writer *w)
{
    (void)state;
    return str_equal(address, FLOW_ADDRESS) ? put_first(sight, w) : QP_OK;
}

int flow_task_log(void *state, const struct sight *sight, qp_str cursor, struct json_writer *w)
{
    struct cursor_text at = {0};
    struct flow_log log;
    (void)state;
    if (str_is_none(cursor)) {
        return put_first(sight, w);
    }
    if (!read_cursor(sight->arena, cursor, &at)) {
        return err_set(sight->err, QP_E_INVALID, "cursor: it is not one that `more` has given");
    }
    return put_page(sight, &at, w, &log);
}

/* call.c - calls: their life, their answers and their problems */
#include "server/call.h"

#include <stdarg.h>
#include <stdio.h>

#include "server/api.h"
#include "server/idempotency.h"

void api_call_init(struct api_call *c, struct api *api, const struct api_carrier *carrier)
{
    const struct qp_env *env = api_env(api);
    *c = (struct api_call){
        .api = api, .carrier = carrier, .peer_uid = -1, .stranger = true, .status = 0};
    arena_init(&c->arena, env, 0);
    buf_init(&c->in, env, LIMIT_BODY_HARD_SIZE);
    buf_init(&c->out, env, 0);
    buf_init(&c->late, env, 0);
    c->began_us = env->monotonic_us(env->context);
    atomic_init(&c->state, CALL_RUNNING);
}

void api_call_done(struct api_call *c)
{
    arena_done(&c->arena);
    buf_done(&c->in);
    buf_done(&c->out);
    buf_done(&c->late);
}

void api_call_settle(struct api_call *c)
{
    c->body = c->ns = c->target = QP_NONE;
    c->authorization = c->accept = c->content_type = c->last_event_id = c->range = QP_NONE;
    for (size_t i = 0; i < CALL_PARTS; i++) {
        c->parts[i] = QP_NONE;
    }
    arena_done(&c->arena);
    buf_done(&c->in);
}

/* Whoever is second acts: the carrier when the answer was first, the answer when the call was
 * parked, or left. */
void api_answer(struct api_call *c)
{
    const struct api_carrier *carrier = c->carrier;
    int before;
    QP_ASSERT(c->status >= 100 && c->status < 600);
    due_stop(c);
    if (c->in_flight) {
        idempotency_end(api_idempotency(c->api), c);
    }
    before = atomic_exchange(&c->state, CALL_ANSWERED);
    if (before == CALL_PARKED) {
        carrier->wake(c);
    } else if (before == CALL_LEFT) {
        carrier->drop(c);
    }
}

bool api_call_is_late(const struct api_call *c)
{
    int state = atomic_load(&c->state);
    return state == CALL_LATE || state == CALL_LEFT;
}

bool api_call_leave(struct api_call *c)
{
    int late = CALL_LATE;
    return c->late_status != 0 && atomic_compare_exchange_strong(&c->state, &late, CALL_LEFT);
}

void api_answer_by(struct api_call *c, void (*render)(struct api_call *c))
{
    c->render = render;
    c->status = 200; /* until it is written */
    api_answer(c);
}

void api_render(struct api_call *c)
{
    if (c->render != NULL) {
        c->render(c);
        c->render = NULL;
    }
}

bool api_call_park(struct api_call *c)
{
    int running = CALL_RUNNING;
    return atomic_compare_exchange_strong(&c->state, &running, CALL_PARKED);
}

void api_json(struct api_call *c, struct json_writer *w)
{
    buf_reset(&c->out);
    json_writer_init(w, &c->out);
}

void api_json_set(struct api_call *c, struct json_writer *w, int status)
{
    int rc = json_writer_done(w);
    if (rc != QP_OK) {
        api_fail_set(c, rc, NULL);
        return;
    }
    c->status = status;
    c->content_type_out = "application/json";
}

void api_json_end(struct api_call *c, struct json_writer *w, int status)
{
    api_json_set(c, w, status);
    api_answer(c);
}

/* ------------------------------------------------------------------------------------- problems */

static const struct problem {
    int status;
    const char *code;
    const char *title;
    const char *hint;
} problems[] = {
#define API_PROBLEM_ROW(name, status, code, title, hint) {status, code, title, hint},
    API_PROBLEMS(API_PROBLEM_ROW)
#undef API_PROBLEM_ROW
};

/* What to do next about an error of the library. */
static const char *hint_of(int rc)
{
    switch (qp_code_class(rc)) {
    case QP_CLASS_RETRY:
        return "try again in a moment";
    case QP_CLASS_CONFLICT:
        return "read what is there, then decide";
    case QP_CLASS_LIMIT:
        return "docs/limits.md lists the limits";
    case QP_CLASS_UNKNOWN:
        return "send the same request again with the same id: it happens once";
    case QP_CLASS_FATAL:
        return "see the server's log";
    default:
        return rc == QP_E_NOT_FOUND ? "check the id and the namespace" : "correct the request";
    }
}

static void put_text(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, str_from(key));
    json_put_str(w, str_from(text));
}

static void put_count(struct json_writer *w, const char *key, int number)
{
    if (number > 0) {
        json_key(w, str_from(key));
        json_put_i64(w, number);
    }
}

static void put_error(struct json_writer *w, const struct api_error *e)
{
    json_begin_object(w);
    if (e->pointer != NULL) {
        put_text(w, "pointer", e->pointer);
    }
    put_count(w, "line", e->line);
    put_count(w, "column", e->column);
    if (e->code != NULL) {
        put_text(w, "code", e->code);
    }
    json_key(w, QP_STR("detail"));
    json_put_str(w, e->detail);
    if (!str_is_none(e->hint)) {
        json_key(w, QP_STR("hint"));
        json_put_str(w, e->hint);
    }
    json_end_object(w);
}

void api_put_errors(struct json_writer *w, const char *name, const struct api_error *errors,
                    size_t count)
{
    if (count == 0) {
        return;
    }
    json_key(w, str_from(name));
    json_begin_array(w);
    for (size_t i = 0; i < count; i++) {
        put_error(w, &errors[i]);
    }
    json_end_array(w);
}

static void end_problem(struct buf *out, const struct json_writer *w)
{
    if (json_writer_done(w) != QP_OK) {
        buf_reset(out); /* no memory even for this: the status has to do */
    }
}

const char *api_problem_type(const struct api_call *c)
{
    return api_options(c->api)->problem != NULL ? "application/json" : "application/problem+json";
}

/* The one place in which a problem is written. */
static void put_problem(const struct api_call *c, struct buf *out, const struct problem *p,
                        const struct api_error *errors, size_t count, const char *detail)
{
    char type[64];
    char instance[LIMIT_LOG_ECHO_SIZE];
    struct json_writer w;
    buf_reset(out);
    json_writer_init(&w, out);
    if (api_options(c->api)->problem != NULL) {
        api_options(c->api)->problem(c, p->code, detail, &w);
        end_problem(out, &w);
        return;
    }
    (void)snprintf(type, sizeof type, "urn:quipu:problem:%s", p->code); /* codes are short */
    json_begin_object(&w);
    put_text(&w, "type", type);
    put_text(&w, "title", p->title);
    json_key(&w, QP_STR("status"));
    json_put_i64(&w, p->status);
    put_text(&w, "detail", detail);
    if (c->path.p != NULL && c->path.n < sizeof instance) {
        json_key(&w, QP_STR("instance"));
        json_put_str(&w, c->path);
    }
    put_text(&w, "code", p->code);
    put_text(&w, "hint", p->hint);
    api_put_errors(&w, "errors", errors, count);
    put_text(&w, "request_id", c->request_id);
    json_end_object(&w);
    end_problem(out, &w);
}

static void write_problem(struct api_call *c, const struct problem *p,
                          const struct api_error *errors, size_t count, const char *detail)
{
    put_problem(c, &c->out, p, errors, count, detail);
    c->status = p->status;
    c->content_type_out = api_problem_type(c);
    c->retry_after_s = p->status == 503 || p == &problems[PROBLEM_RATE] ? 1 : 0;
}

bool api_call_late(struct api_call *c)
{
    int rc = c->method == API_GET ? QP_E_TIMEOUT : QP_E_UNKNOWN_OUTCOME;
    struct problem p = {qp_code_http(rc), qp_code_word(rc), qp_code_text(rc), hint_of(rc)};
    int parked = CALL_PARKED;
    if (!atomic_compare_exchange_strong(&c->state, &parked, CALL_LATE)) {
        return false;
    }
    put_problem(c, &c->late, &p, NULL, 0, "the store has not answered in time");
    c->late_status = p.status; /* the carrier looks at it when it was woken */
    c->carrier->wake(c);
    return true;
}

void api_refuse(struct api_call *c, enum api_problem problem, const char *pointer,
                const char *format, ...)
{
    char detail[QP_ERR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(detail, sizeof detail, format, arguments); /* a cut sentence is good enough */
    va_end(arguments);
    write_problem(c, &problems[problem],
                  &(struct api_error){.pointer = pointer, .detail = str_from(detail)},
                  pointer != NULL, detail);
    api_answer(c);
}

void api_refuse_set(struct api_call *c, enum api_problem problem, const char *detail)
{
    write_problem(c, &problems[problem], NULL, 0, detail);
}

void api_fail_at_set(struct api_call *c, int rc, const struct qp_err *err,
                     const struct api_error *errors, size_t count)
{
    const struct problem p = {qp_code_http(rc), qp_code_word(rc), qp_code_text(rc), hint_of(rc)};
    write_problem(c, &p, errors, count, err != NULL && err->text[0] != '\0' ? err->text : p.title);
}

void api_fail_at(struct api_call *c, int rc, const struct qp_err *err,
                 const struct api_error *errors, size_t count)
{
    api_fail_at_set(c, rc, err, errors, count);
    api_answer(c);
}

/* A value that breaks a rule of its own field is the field's fault. What breaks a schema, or is not there, keeps its code. */
static bool is_bad_field(int rc)
{
    return rc == QP_E_INVALID || rc == QP_E_TOO_LARGE;
}

void api_fail_set(struct api_call *c, int rc, const struct qp_err *err)
{
    struct api_error error;
    if (err == NULL || err->code != rc || err->pointer[0] == '\0') {
        api_fail_at_set(c, rc, err, NULL, 0);
        return;
    }
    error = (struct api_error){.pointer = err->pointer, .detail = str_from(err->text)};
    if (is_bad_field(rc)) {
        write_problem(c, &problems[PROBLEM_BAD_FIELD], &error, 1, err->text);
    } else {
        api_fail_at_set(c, rc, err, &error, 1);
    }
}

void api_fail(struct api_call *c, int rc, const struct qp_err *err)
{
    api_fail_set(c, rc, err);
    api_answer(c);
}

const char *api_problem_code(enum api_problem problem)
{
    return problems[problem].code;
}

int api_problem_status(enum api_problem problem)
{
    return problems[problem].status;
}

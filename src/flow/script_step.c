/* script_step.c - what a durable call was given, and its step (see script_step.h) */
#include "flow/script_step.h"

#include "flow/flow.h"
#include "flow/script_cancel.h"

/* --------------------------------------------------------------------------------- what comes from users */

int step_refuse(const qp_flow *f, const char *call, int rc, const struct qp_err *err)
{
    char text[LOCATION_TEXT_SIZE];
    const struct cursor *c = &scope_of(f)->cursor;
    struct location branch = location_parent(&c->last);
    bool is_first = c->last.ordinates[c->last.ends[c->last.depth - 1] - 1] == 0;
    (void)location_print(is_first ? &branch : &c->last, text);
    return script_mistake(f->script, rc, "%s %s %s: %s", call,
                          is_first ? "at the beginning of" : "behind", text, err->text);
}

int step_name(const qp_flow *f, const char *call, const char *name, qp_str *out_name)
{
    struct qp_err err;
    int rc = name_check(name == NULL ? QP_STR("") : str_from(name), "name", &err);
    if (rc != QP_OK) {
        return step_refuse(f, call, rc, &err);
    }
    return arena_copy(f->script->arena, str_from(name), out_name) ? QP_OK
                                                                  : script_no_memory(f->script);
}

static int check_json(const struct script *s, qp_str json, struct qp_err *err)
{
    return json.n > LIMIT_PAYLOAD_SIZE ? err_set(err, QP_E_TOO_LARGE, "%zu bytes, the limit is %d",
                                                 json.n, LIMIT_PAYLOAD_SIZE)
                                       : json_check(s->env, json, NULL, err);
}

/* None is null. */
int step_json(const qp_flow *f, const char *call, const char *what, qp_str json, qp_str *out_json)
{
    struct qp_err err;
    int rc;
    if (str_is_none(json)) {
        *out_json = QP_STR("null");
        return QP_OK;
    }
    rc = check_json(f->script, json, &err);
    if (rc == QP_E_NOMEM) {
        return script_no_memory(f->script);
    }
    if (rc != QP_OK) {
        (void)err_wrap(&err, rc, "%s", what);
        return step_refuse(f, call, rc, &err);
    }
    *out_json = json;
    return QP_OK;
}

int step_json_copy(const qp_flow *f, const char *call, const char *what, qp_str json,
                   qp_str *out_copy)
{
    qp_str checked;
    QP_TRY(step_json(f, call, what, json, &checked));
    return arena_copy(f->script->arena, checked, out_copy) ? QP_OK : script_no_memory(f->script);
}

static int refuse_range(const qp_flow *f, const char *call, const char *what, long long value,
                        long long least, long long most)
{
    struct qp_err err;
    (void)err_set(&err, QP_E_INVALID, "%s must be between %lld and %lld, got %lld", what, least,
                  most, value);
    return step_refuse(f, call, QP_E_INVALID, &err);
}

int step_range(const qp_flow *f, const char *call, const char *what, int64_t value, int64_t least,
               int64_t most)
{
    return value >= least && value <= most ? QP_OK
                                           : refuse_range(f, call, what, value, least, most);
}

/* ------------------------------------------------------------------------------------------ steps */

int step_take(const qp_flow *f, struct cursor *c, const struct cursor_step *step,
              struct cursor_found *out_found)
{
    if (c == &scope_of(f)->cursor) {
        scope_pass_to(f->script, scope_of(f), step);
    }
    (void)cursor_compare(c, step, out_found);
    return cursor_is_stopped(out_found->verdict) ? script_stop(f->script, c, out_found) : QP_OK;
}

const struct log_entry *step_entry(const struct script *s, const struct cursor_found *found)
{
    QP_ASSERT(found->verdict == CURSOR_REPLAY);
    return &s->log->entries[found->event - s->log->history.events];
}

int step_branch(const qp_flow *f, qp_str name, struct cursor *out_inside,
                struct cursor_found *out_found)
{
    struct script *s = f->script;
    struct cursor *c = &scope_of(f)->cursor;
    struct cursor_step step = {.type = HISTORY_BRANCH, .name = name, .n = f->n};
    QP_TRY(step_take(f, c, &step, out_found));
    cursor_enter(out_inside, c, out_found);
    if (out_found->verdict == CURSOR_REPLAY) {
        return QP_OK;
    }
    command_begin(s, "branch", out_found);
    json_key(&s->writer, QP_STR("name"));
    json_put_str(&s->writer, name);
    return command_end(s);
}

/* ----------------------------------------------------------------------------------------- cancel */

int step_cancel(const qp_flow *f, const struct work *work)
{
    struct script *s = f->script;
    struct work thrown = {.name = work->name,
                          .at = work->at,
                          .failed = true,
                          .cancelled = true,
                          .done = s->log->cancel.done,
                          .when = s->log->cancel.at};
    cancel_land(s, work);
    if (flow_cancel_error(s->arena, QP_NONE, &thrown.output) != QP_OK) {
        return script_no_memory(s);
    }
    frame_feed(f->frame, &thrown);
    return frame_fail(f->frame, &thrown);
}

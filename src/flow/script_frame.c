/* script_frame.c - the frames of a run, and how it ends early (see script_frame.h) */
#include "flow/script_cancel.h"

#include <stdarg.h>
#include <stdio.h>

#include "store/error.h"

/* ---------------------------------------------------------------------------------- the run is over */

static int QP_PRINTF(4, 0)
    over(struct script *s, int code, bool fatal, const char *format, va_list arguments)
{
    char text[QP_ERR_TEXT_SIZE];
    int n = vsnprintf(text, sizeof text, format, arguments);
    size_t size = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    QP_ASSERT(code != QP_OK && s->rc == QP_OK);
    s->rc = code;
    s->result = (struct script_result){.kind = SCRIPT_ERROR, .code = code, .fatal = fatal};
    size = utf8_valid_prefix((qp_str){text, size});
    if (!arena_copy(s->arena, (qp_str){text, size}, &s->result.text)) {
        s->result.text = QP_STR("out of memory");
    }
    return code;
}

int script_mistake(struct script *s, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)over(s, code, true, format, arguments);
    va_end(arguments);
    return code;
}

int script_error(struct script *s, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)over(s, code, false, format, arguments);
    va_end(arguments);
    return code;
}

int script_no_memory(struct script *s)
{
    return script_error(s, QP_E_NOMEM, "out of memory");
}

int script_stop(struct script *s, const struct cursor *c, const struct cursor_found *found)
{
    buf_reset(&s->text);
    cursor_explain(c, found, &s->text);
    s->rc = QP_E_CONFLICT;
    s->result =
        (struct script_result){.kind = SCRIPT_STOPPED, .reason = cursor_code(found->verdict)};
    if (buf_rc(&s->text) != QP_OK || !arena_copy(s->arena, buf_slice(&s->text), &s->result.text)) {
        s->result.text = QP_STR("out of memory");
    }
    return s->rc;
}

/* ------------------------------------------------------------------------------------- who may call */

static int enter(qp_flow *flow, const char *call)
{
    struct script *s = flow->script;
    if (!pthread_equal(s->thread, pthread_self())) {
        atomic_store(&s->stray, call);
        return QP_E_INVALID;
    }
    return s->rc;
}

static int wrong_frame(const qp_flow *flow, const char *call)
{
    const struct frame *inner = flow->script->frame;
    if (flow->frame->ended) {
        return script_mistake(
            flow->script, QP_E_INVALID,
            "%s: the function of '%.*s' has returned, and its flow cannot be used any more", call,
            STR_ARG(flow->frame->name));
    }
    return script_mistake(
        flow->script, QP_E_INVALID,
        "%s: called in the function of '%.*s' with the flow around it; use the flow that this function "
        "was given",
        call, STR_ARG(inner->name));
}

int script_enter_any(qp_flow *flow, const char *call)
{
    if (flow == NULL) {
        return QP_E_INVALID;
    }
    QP_TRY(enter(flow, call));
    if (flow->frame != flow->script->frame) {
        return wrong_frame(flow, call);
    }
    if (flow->frame->returned) {
        return script_mistake(
            flow->script, QP_E_INVALID,
            "%s: called after qp_return, which ends '%.*s'; return from the function", call,
            STR_ARG(flow->frame->name));
    }
    return flow->frame->suspended ? QP_E_SUSPENDED : QP_OK;
}

int script_enter(qp_flow *flow, const char *call)
{
    const struct frame *inner;
    if (flow == NULL) {
        return QP_E_INVALID;
    }
    QP_TRY(enter(flow, call));
    inner = flow->script->frame;
    if (inner->kind == FRAME_INLINE) {
        return script_mistake(
            flow->script, QP_E_INVALID,
            "%s: called in the function of qp_inline '%.*s', which makes no durable calls; "
            "use qp_closure",
            call, STR_ARG(inner->name));
    }
    return script_enter_any(flow, call);
}

/* ------------------------------------------------------------------------------------------- frames */

void frame_begin(struct frame *f, struct script *s, enum frame_kind kind, qp_str name)
{
    *f = (struct frame){.kind = kind, .outer = s->frame, .name = name, .output = QP_STR("null")};
    f->flow = (struct qp_flow){.script = s, .frame = f, .n = 1};
    f->top = &f->own;
    if (f->outer != NULL) {
        f->fed = f->outer->fed;
        f->now = f->outer->now;
        f->own.cursor = f->outer->top->cursor;
    }
    s->frame = f;
}

int frame_suspend(struct frame *f, int64_t answers)
{
    struct script *s = f->flow.script;
    QP_ASSERT(answers > 0);
    f->suspended = true;
    s->after = s->after == 0 || answers < s->after ? answers : s->after;
    return QP_E_SUSPENDED;
}

void frame_feed(struct frame *f, const struct work *work)
{
    QP_ASSERT(!work->open);
    if (work->done > f->fed) {
        f->fed = work->done;
    }
    if (work->when > f->now) {
        f->now = work->when;
    }
}

/* The error of an event has its name and location instead of the address of its row; that of a closure is the error of what
 * failed inside. Workers in other languages may have sent any JSON. */
static int error_fill(struct script *s, const struct work *work, struct qp_flow_error *error)
{
    struct error e;
    QP_TRY(error_read(s->arena, work->output, &e));
    error->code = e.code >= 400 && e.code <= LIMIT_CODE ? (int)e.code : ERROR_CODE;
    error->message = str_is_none(e.message) ? work->output : e.message;
    if (work->is_closure) {
        return QP_OK;
    }
    return error_write(s->arena,
                       &(struct error){.code = error->code,
                                       .message = error->message,
                                       .activity = work->name,
                                       .addr = error->location,
                                       .job = e.job},
                       &error->json);
}

static void unwind(struct frame *f)
{
    for (struct scope *scope = f->top; scope != NULL; scope = scope->outer) {
        scope->unwinds = true;
    }
}

int frame_fail(struct frame *f, const struct work *work)
{
    struct script *s = f->flow.script;
    char text[LOCATION_TEXT_SIZE];
    qp_str location = {text, location_print(&work->at, text)};
    f->error = (struct qp_flow_error){.name = work->name, .json = work->output};
    if (!arena_copy(s->arena, location, &f->error.location) ||
        error_fill(s, work, &f->error) != QP_OK) {
        return script_no_memory(s);
    }
    if (work->cancelled) {
        unwind(f);
    }
    return work->cancelled ? QP_E_CANCELLED : QP_E_FAILED;
}

/* ---------------------------------------------------------------------------------- ends of frames */

int scope_end(struct script *s, struct scope *scope)
{
    struct cursor_found found;
    scope_pass_all(s, scope);
    return cursor_end(&scope->cursor, &found) == CURSOR_END
               ? QP_OK
               : script_stop(s, &scope->cursor, &found);
}

/* The function has returned out of loops that go on: their rounds end with it. */
static int scopes_end(struct frame *f)
{
    struct script *s = f->flow.script;
    for (struct scope *scope = f->top; scope != NULL; scope = scope->outer) {
        const struct round *round = scope->round;
        struct cursor_found found;
        QP_TRY(scope_end(s, scope));
        if (round != NULL &&
            cursor_end_loop(&round->cursor, round->iteration + 1, &found) != CURSOR_END &&
            !scope_passes(s, scope, found.event)) {
            return script_stop(s, &round->cursor, &found);
        }
    }
    return QP_OK;
}

static int unknown_code(struct frame *f, int rc)
{
    return script_error(
        f->flow.script, rc,
        "the function of '%.*s' returned %d (%s), which no durable call has returned to it; "
        "return QP_OK, or the code of a durable call",
        STR_ARG(f->name), rc, qp_code_word(rc));
}

/* One that fails does not keep the others from running; the error of the scope stays what it was. */
static int run_one(struct frame *f, struct deferred *d)
{
    qp_flow flow = {.script = f->flow.script, .frame = f, .n = d->n};
    struct work work;
    QP_TRY(f->flow.script->compensate(&flow, d->name, d->input, &work));
    if (work.open) {
        (void)frame_suspend(f, 1);
        return QP_OK;
    }
    frame_feed(f, &work);
    d->done = true;
    return QP_OK;
}

static int defers_run(struct frame *f)
{
    struct scope *top = f->top;
    for (struct scope *scope = top; scope != NULL; scope = scope->outer) {
        f->top = scope;
        for (struct deferred *d = scope->defers; d != NULL && !f->suspended; d = d->next) {
            QP_TRY(run_one(f, d));
        }
    }
    f->top = top;
    return QP_OK;
}

static int defers_name(struct frame *f)
{
    struct script *s = f->flow.script;
    for (const struct scope *scope = f->top; scope != NULL; scope = scope->outer) {
        for (const struct deferred *d = scope->defers; d != NULL; d = d->next) {
            if (!d->done) {
                buf_printf(&s->defer_names, "%s\"%.*s\"", s->defer_names.n > 0 ? "," : "[",
                           STR_ARG(d->name));
            }
        }
    }
    return buf_rc(&s->defer_names) == QP_OK ? QP_OK : script_no_memory(s);
}

static bool has_failed(int rc)
{
    return rc == QP_E_FAILED || rc == QP_E_CANCELLED;
}

/* Its function has returned: compensations, and the check that its history ends with it. */
static int frame_close(struct frame *f, int rc)
{
    if (rc != QP_OK && (!has_failed(rc) || f->error.code == 0)) {
        return unknown_code(f, rc);
    }
    if (f->kind == FRAME_INLINE) {
        return QP_OK;
    }
    if (has_failed(rc)) {
        QP_TRY(defers_run(f));
    }
    return f->suspended ? QP_OK : scopes_end(f);
}

int frame_end(struct frame *f, int rc, struct work *out_work)
{
    struct script *s = f->flow.script;
    QP_ASSERT(s->frame == f);
    s->frame = f->outer;
    f->ended = true;
    QP_TRY(s->rc);
    if (!f->suspended) {
        QP_TRY(frame_close(f, rc));
    }
    *out_work = (struct work){
        .name = f->name, .is_closure = true, .open = f->suspended, .done = f->fed, .when = f->now};
    if (f->suspended) {
        return defers_name(f);
    }
    out_work->closure = f->kind == FRAME_CLOSURE ? f : NULL;
    out_work->failed = has_failed(rc);
    out_work->cancelled = rc == QP_E_CANCELLED;
    out_work->output = out_work->failed ? f->error.json : f->output;
    return QP_OK;
}

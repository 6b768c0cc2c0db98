/* script_calls.c - the durable calls of a flow's function that do something: activities, inline code, time, signals, closures
 *
 * Each call checks what it was given, takes a step of its cursor, and has a struct work: of a step that the history has, what
 * is recorded; of a new one a command, and the work is open. Nothing is checked again in replay that could pass now and
 * fail later.
 */
#include "flow/script_calls.h"
#include "base/log.h"
#include "flow/script_cancel.h"
#include "flow/script_step.h"
#include "flow/script_values.h"

/* ------------------------------------------------------------------------------------------ works */

void work_take(const struct script *s, const struct cursor_found *found, struct work *out)
{
    const struct log_entry *e;
    *out = (struct work){.name = found->name, .at = found->at, .open = true};
    if (found->verdict != CURSOR_REPLAY) {
        return;
    }
    e = step_entry(s, found);
    out->open = e->done == 0;
    out->failed = !out->open && e->code >= 400;
    out->cancelled = e->cancelled;
    out->shielded = e->shielded;
    out->done = e->done;
    out->when = e->at;
    out->output = e->output;
}

/* An event that is born complete has no place of its own in the order of answers (script.h, I3). */
static void work_is_born(const qp_flow *f, struct work *work)
{
    work->open = false;
    work->is_born = true;
    work->done = f->frame->fed;
    work->when = f->frame->now;
}

int work_await(const qp_flow *f, const struct work *work, qp_str *out_output)
{
    if (cancel_lands(f, work)) {
        return step_cancel(f, work);
    }
    cancel_met(f, work);
    if (work->open) {
        return frame_suspend(f->frame, 1);
    }
    QP_TRY(values_await(f->frame, work));
    if (work->failed) {
        return frame_fail(f->frame, work);
    }
    if (out_output != NULL) {
        *out_output = work->output;
    }
    return QP_OK;
}

int work_keep(const qp_flow *f, const struct work *work, qp_handle *out_handle)
{
    struct script *s = f->script;
    struct work *kept = ARENA_NEW(s->arena, struct work);
    if (s->work_count == s->work_room) {
        size_t room = s->work_room == 0 ? 16 : 2 * s->work_room;
        struct work **works = mem_resize(s->env, s->works, room * sizeof(struct work *));
        if (works == NULL) {
            return script_no_memory(s);
        }
        s->works = works;
        s->work_room = room;
    }
    if (kept == NULL) {
        return script_no_memory(s);
    }
    *kept = *work;
    s->works[s->work_count++] = kept;
    *out_handle = (qp_handle){s->work_count};
    return QP_OK;
}

static int find(const qp_flow *f, const char *call, qp_handle handle, struct work **out_work)
{
    struct qp_err err;
    if (handle.number < 1 || handle.number > f->script->work_count) {
        (void)err_set(&err, QP_E_INVALID,
                      "the handle is none of this run; use what qp_begin_* gave in it");
        return step_refuse(f, call, QP_E_INVALID, &err);
    }
    *out_work = f->script->works[handle.number - 1];
    return QP_OK;
}

int call_no_output(const qp_flow *f, const char *call)
{
    return script_mistake(f->script, QP_E_INVALID, "%s: an output that it needs is NULL", call);
}

/* ------------------------------------------------------------------------------------- activities */

static int check_step(const qp_flow *f, const char *call, const struct qp_step *step)
{
    struct qp_err err;
    QP_TRY(step_range(f, call, "attempts", step->attempts, 0, LIMIT_ATTEMPTS));
    QP_TRY(step_range(f, call, "backoff_ms", step->backoff_ms, 0, LIMIT_TIMER_MS));
    QP_TRY(step_range(f, call, "cap_ms", step->cap_ms, 0, LIMIT_TIMER_MS));
    QP_TRY(step_range(f, call, "start_timeout_ms", step->start_timeout_ms, 0, LIMIT_TIMER_MS));
    QP_TRY(step_range(f, call, "timeout_ms", step->timeout_ms, 0, LIMIT_TIMER_MS));
    QP_TRY(step_range(f, call, "heartbeat_ms", step->heartbeat_ms, 0, LIMIT_TIMER_MS));
    QP_TRY(step_range(f, call, "never_count", (int64_t)step->never_count, 0, LIMIT_STEP_NEVER));
    for (size_t i = 0; i < step->never_count; i++) {
        QP_TRY(step_range(f, call, "never", step->never[i], 400, LIMIT_CODE));
    }
    if (!(step->factor == 0 || (step->factor >= 1 && step->factor <= 1000))) {
        (void)err_set(&err, QP_E_INVALID, "factor must be between 1 and 1000, got %g",
                      step->factor);
        return step_refuse(f, call, QP_E_INVALID, &err);
    }
    if (step->limit_key != NULL &&
        id_check(str_from(step->limit_key), "limit_key", &err) != QP_OK) {
        return step_refuse(f, call, QP_E_INVALID, &err);
    }
    return QP_OK;
}

static void put_ms(struct json_writer *w, qp_str key, qp_ms ms)
{
    if (ms > 0) {
        json_key(w, key);
        json_put_i64(w, ms);
    }
}

static void put_retry(struct json_writer *w, const struct qp_step *step)
{
    json_key(w, QP_STR("retry"));
    json_begin_object(w);
    put_ms(w, QP_STR("attempts"), step->attempts);
    put_ms(w, QP_STR("backoff"), step->backoff_ms);
    if (step->factor > 0) {
        json_key(w, QP_STR("factor"));
        json_put_real(w, step->factor);
    }
    put_ms(w, QP_STR("cap"), step->cap_ms);
    if (step->never_count > 0) {
        json_key(w, QP_STR("never"));
        json_begin_array(w);
        for (size_t i = 0; i < step->never_count; i++) {
            json_put_i64(w, step->never[i]);
        }
        json_end_array(w);
    }
    json_end_object(w);
}

static void put_step(struct json_writer *w, const struct qp_step *step)
{
    if (step->attempts > 0 || step->backoff_ms > 0 || step->factor > 0 || step->cap_ms > 0 ||
        step->never_count > 0) {
        put_retry(w, step);
    }
    put_ms(w, QP_STR("start_timeout"), step->start_timeout_ms);
    put_ms(w, QP_STR("timeout"), step->timeout_ms);
    put_ms(w, QP_STR("heartbeat"), step->heartbeat_ms);
    if (step->limit_key != NULL) {
        json_key(w, QP_STR("limit_key"));
        json_put_str(w, str_from(step->limit_key));
    }
}

static void put_pair(struct json_writer *w, qp_str key, qp_str json)
{
    json_key(w, key);
    json_put_raw(w, json);
}

static void put_name(struct json_writer *w, qp_str name)
{
    json_key(w, QP_STR("name"));
    json_put_str(w, name);
}

/* Two texts of the same JSON: as the writer has it. */
static bool is_same_json(const struct script *s, qp_str a, qp_str b)
{
    struct json *trees[2] = {NULL, NULL};
    struct buf texts[2];
    bool same = str_equal(a, b);
    if (same) {
        return true;
    }
    for (int i = 0; i < 2; i++) {
        struct json_writer w;
        buf_init(&texts[i], s->env, 0);
        if (json_parse(s->env, i == 0 ? a : b, NULL, &trees[i]) == QP_OK) {
            json_writer_init(&w, &texts[i]);
            json_write_tree(&w, trees[i]);
        }
        json_free(trees[i]);
    }
    same = str_equal(buf_slice(&texts[0]), buf_slice(&texts[1]));
    buf_done(&texts[0]);
    buf_done(&texts[1]);
    return same;
}

static qp_str echo(qp_str text)
{
    return (qp_str){text.p, text.n < LIMIT_LOG_ECHO_SIZE ? text.n : LIMIT_LOG_ECHO_SIZE};
}

void call_compare(const struct script *s, const struct cursor_found *found, qp_str recorded,
                  qp_str input)
{
    char at[LOCATION_TEXT_SIZE];
    if (s->env->log == NULL || is_same_json(s, recorded, input)) {
        return;
    }
    (void)location_print(&found->at, at);
    log_write(s->env, QP_LOG_WARN, LOG_MSG("the input of a step differs from its history"),
              LOG_STR("job", s->log->job), LOG_TEXT("location", at), LOG_STR("name", found->name),
              LOG_STR("history", echo(recorded)), LOG_STR("code", echo(input)));
}

static void command_activity(struct script *s, const struct cursor_found *found, qp_str input)
{
    command_begin(s, "activity", found);
    put_name(&s->writer, found->name);
    put_pair(&s->writer, QP_STR("input"), input);
}

static int begin_activity(qp_flow *f, const char *call, const char *name, qp_str input,
                          const struct qp_step *options, struct work *out_work)
{
    struct script *s = f->script;
    struct cursor_step step = {.type = HISTORY_ACTIVITY, .n = f->n};
    struct cursor_found found;
    struct qp_err err;
    QP_TRY(step_name(f, call, name, &step.name));
    if (topic_check(step.name, &err) != QP_OK) {
        return step_refuse(f, call, QP_E_INVALID, &err);
    }
    QP_TRY(step_json(f, call, "input", input, &input));
    QP_TRY(options == NULL ? QP_OK : check_step(f, call, options));
    QP_TRY(step_take(f, &scope_of(f)->cursor, &step, &found));
    work_take(s, &found, out_work);
    if (found.verdict == CURSOR_REPLAY) {
        call_compare(s, &found, step_entry(s, &found)->input, input);
        return QP_OK;
    }
    command_activity(s, &found, input);
    if (options != NULL) {
        put_step(&s->writer, options);
    }
    return command_end(s);
}

int step_compensate(qp_flow *f, qp_str name, qp_str input, struct work *out_work)
{
    struct script *s = f->script;
    struct cursor_step step = {.type = HISTORY_ACTIVITY, .name = name, .n = f->n};
    struct cursor_found found;
    scope_pass_all(s, scope_of(f));
    QP_TRY(step_take(f, &scope_of(f)->cursor, &step, &found));
    work_take(s, &found, out_work);
    if (found.verdict == CURSOR_REPLAY) {
        call_compare(s, &found, step_entry(s, &found)->input, input);
        return QP_OK;
    }
    command_activity(s, &found, input);
    json_key(&s->writer, QP_STR("shield"));
    json_put_bool(&s->writer, true);
    return command_end(s);
}

int qp_activity(qp_flow *f, const char *name, qp_str input, const struct qp_step *step,
                qp_str *out_output)
{
    struct work work;
    QP_TRY(script_enter(f, "qp_activity"));
    QP_TRY(begin_activity(f, "qp_activity", name, input, step, &work));
    return work_await(f, &work, out_output);
}

int qp_begin_activity(qp_flow *f, const char *name, qp_str input, const struct qp_step *step,
                      qp_handle *out_handle)
{
    struct work work;
    QP_TRY(script_enter(f, "qp_begin_activity"));
    if (out_handle == NULL) {
        return call_no_output(f, "qp_begin_activity");
    }
    QP_TRY(begin_activity(f, "qp_begin_activity", name, input, step, &work));
    return work_keep(f, &work, out_handle);
}

/* ---------------------------------------------------------------------------------- compensations */

int qp_defer(qp_flow *f, const char *name, qp_str input)
{
    struct deferred *d;
    struct qp_err err;
    QP_TRY(script_enter(f, "qp_defer"));
    d = ARENA_NEW(f->script->arena, struct deferred);
    if (d == NULL) {
        return script_no_memory(f->script);
    }
    *d = (struct deferred){.next = scope_of(f)->defers, .n = f->n};
    QP_TRY(step_name(f, "qp_defer", name, &d->name));
    if (topic_check(d->name, &err) != QP_OK) {
        return step_refuse(f, "qp_defer", QP_E_INVALID, &err);
    }
    QP_TRY(step_json_copy(f, "qp_defer", "input", input, &d->input));
    scope_of(f)->defers = d;
    f->script->defers = true;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------ inline code */

static int record_run(qp_flow *f, const struct cursor_found *found, const struct work *work)
{
    struct script *s = f->script;
    command_begin(s, "run", found);
    put_name(&s->writer, found->name);
    put_pair(&s->writer, work->failed ? QP_STR("error") : QP_STR("ok"), work->output);
    return command_end(s);
}

static int run_inline(qp_flow *f, const struct cursor_found *found, qp_flow_body body,
                      void *context, struct work *out_work)
{
    struct frame *inner = ARENA_NEW(f->script->arena, struct frame);
    if (inner == NULL) {
        return script_no_memory(f->script);
    }
    frame_begin(inner, f->script, FRAME_INLINE, found->name);
    QP_TRY(frame_end(inner, body(&inner->flow, context), out_work));
    out_work->at = found->at;
    return record_run(f, found, out_work);
}

int qp_inline(qp_flow *f, const char *name, qp_flow_body body, void *context, qp_str *out_output)
{
    struct cursor_step step = {.type = HISTORY_RUN};
    struct cursor_found found;
    struct work work;
    QP_TRY(script_enter(f, "qp_inline"));
    step.n = f->n;
    if (body == NULL) {
        return script_mistake(f->script, QP_E_INVALID, "qp_inline: there is no function");
    }
    QP_TRY(step_name(f, "qp_inline", name, &step.name));
    QP_TRY(step_take(f, &scope_of(f)->cursor, &step, &found));
    if (found.verdict == CURSOR_REPLAY) {
        work_take(f->script, &found, &work);
    } else {
        QP_TRY(run_inline(f, &found, body, context, &work));
    }
    work_is_born(f, &work);
    return work_await(f, &work, out_output);
}

/* ------------------------------------------------------------------------------------------- time */

static int begin_sleep(qp_flow *f, qp_ms until, struct work *out_work)
{
    struct script *s = f->script;
    struct cursor_step step = {.type = HISTORY_SLEEP, .n = f->n};
    struct cursor_found found;
    QP_TRY(step_take(f, &scope_of(f)->cursor, &step, &found));
    work_take(s, &found, out_work);
    if (found.verdict == CURSOR_REPLAY) {
        return QP_OK;
    }
    command_begin(s, "sleep", &found);
    json_key(&s->writer, QP_STR("until"));
    json_put_i64(&s->writer, until);
    return command_end(s);
}

static int begin_sleep_for(qp_flow *f, const char *call, qp_ms ms, struct work *out_work)
{
    QP_TRY(script_enter(f, call));
    QP_TRY(step_range(f, call, "ms", ms, 0, LIMIT_TIMER_MS));
    return begin_sleep(f, f->script->start + ms, out_work);
}

int qp_sleep(qp_flow *f, qp_ms ms)
{
    struct work work;
    QP_TRY(begin_sleep_for(f, "qp_sleep", ms, &work));
    return work_await(f, &work, NULL);
}

int qp_sleep_until(qp_flow *f, qp_ms at)
{
    struct work work;
    QP_TRY(script_enter(f, "qp_sleep_until"));
    QP_TRY(step_range(f, "qp_sleep_until", "at", at, 0, f->script->start + LIMIT_TIMER_MS));
    QP_TRY(begin_sleep(f, at, &work));
    return work_await(f, &work, NULL);
}

int qp_begin_sleep(qp_flow *f, qp_ms ms, qp_handle *out_handle)
{
    struct work work;
    QP_TRY(begin_sleep_for(f, "qp_begin_sleep", ms, &work));
    return out_handle == NULL ? call_no_output(f, "qp_begin_sleep")
                              : work_keep(f, &work, out_handle);
}

/* ---------------------------------------------------------------------------------------- signals */

/* What a listen waits for, checked. */
struct listening {
    const char *call;
    qp_str name;
    const struct qp_listen *options;
};

static int take_listen(const qp_flow *f, const char *name, struct listening *l)
{
    static const struct qp_listen usual = {0};
    qp_str other;
    l->options = l->options == NULL ? &usual : l->options;
    QP_TRY(step_name(f, l->call, name, &l->name));
    QP_TRY(step_range(f, l->call, "other_count", (int64_t)l->options->other_count, 0,
                      LIMIT_LISTEN_NAMES - 1));
    for (size_t i = 0; i < l->options->other_count; i++) {
        QP_TRY(step_name(f, l->call, l->options->others[i], &other));
    }
    QP_TRY(step_range(f, l->call, "timeout_ms", l->options->timeout_ms, 0, LIMIT_TIMER_MS));
    return step_range(f, l->call, "limit", l->options->limit, 0, LIMIT_FLOW_LISTEN);
}

static int command_listen(const qp_flow *f, const struct listening *l,
                          const struct cursor_found *found, const struct cursor_found *got)
{
    struct script *s = f->script;
    struct json_writer *w = &s->writer;
    char at[LOCATION_TEXT_SIZE];
    command_begin(s, "listen", found);
    json_key(w, QP_STR("names"));
    json_begin_array(w);
    json_put_str(w, l->name);
    for (size_t i = 0; i < l->options->other_count; i++) {
        json_put_str(w, str_from(l->options->others[i]));
    }
    json_end_array(w);
    if (got != NULL) {
        json_key(w, QP_STR("until"));
        json_put_i64(w, s->start + l->options->timeout_ms);
        json_key(w, QP_STR("got"));
        json_put_str(w, (qp_str){at, location_print(&got->at, at)});
    }
    put_ms(w, QP_STR("limit"), l->options->limit);
    return got != NULL ? command_end_got(s) : command_end(s);
}

/* Of [{"name","at","data"},..] the one signal that was asked for. */
static int take_signal(struct script *s, struct work *work)
{
    struct json *tree = NULL;
    struct json_writer w;
    qp_str name = QP_NONE;
    bool is_whole;
    int rc = json_parse(s->env, work->output, NULL, &tree);
    const struct json *signal = json_at(tree, 0);
    const struct json *data = json_get(signal, QP_STR("data"));
    if (rc == QP_E_NOMEM) {
        return script_no_memory(s);
    }
    buf_reset(&s->text);
    json_writer_init(&w, &s->text);
    if (data != NULL) {
        json_write_tree(&w, data);
    } else {
        json_put_null(&w);
    }
    is_whole =
        buf_rc(&s->text) == QP_OK && arena_copy(s->arena, buf_slice(&s->text), &work->output);
    if (json_as_str(json_get(signal, QP_STR("name")), &name)) {
        is_whole = arena_copy(s->arena, name, &work->signal_name) && is_whole;
    }
    json_free(tree);
    return is_whole ? QP_OK : script_no_memory(s);
}

static int take_signals(const qp_flow *f, const struct listening *l, struct work *work)
{
    return work->open || work->cancelled || l->options->limit > 0 ? QP_OK
                                                                  : take_signal(f->script, work);
}

/* Without a time limit: one event, the signals. */
static int listen_on(const qp_flow *f, struct cursor *c, int64_t n, const struct listening *l,
                     struct work *out_work)
{
    struct cursor_step step = {.type = HISTORY_SIGNALS, .name = l->name, .any_name = true, .n = n};
    struct cursor_found found;
    QP_TRY(step_take(f, c, &step, &found));
    work_take(f->script, &found, out_work);
    return found.verdict == CURSOR_REPLAY ? take_signals(f, l, out_work)
                                          : command_listen(f, l, &found, NULL);
}

static bool is_interrupted(const struct script *s, qp_str output)
{
    struct json *tree = NULL;
    bool interrupted = false;
    bool known = json_parse(s->env, output, NULL, &tree) == QP_OK &&
                 json_as_bool(json_get(tree, QP_STR("interrupted")), &interrupted);
    json_free(tree);
    return known && interrupted;
}

/* The signals that ended the sleep stand at the next location. */
static int take_got(const qp_flow *f, struct cursor *c, const struct cursor_step *got,
                    const struct listening *l, struct work *work)
{
    struct cursor_found found;
    QP_TRY(step_take(f, c, got, &found));
    if (found.verdict != CURSOR_REPLAY) {
        return script_mistake(
            f->script, QP_E_CORRUPT,
            "%s: the history has a listen that was answered, and no signals behind it", l->call);
    }
    work->output = step_entry(f->script, &found)->output;
    return take_signals(f, l, work);
}

/* With a time limit: a sleep, and behind it the signals when they came first. */
static int listen_until(const qp_flow *f, struct cursor *c, int64_t n, const struct listening *l,
                        struct work *out_work)
{
    struct cursor_step sleep = {.type = HISTORY_SLEEP, .name = l->name, .any_name = true, .n = n};
    struct cursor_step got = {.type = HISTORY_SIGNALS, .name = l->name, .any_name = true, .n = n};
    struct cursor_found found;
    struct cursor ahead;
    struct cursor_found place;
    QP_TRY(step_take(f, c, &sleep, &found));
    work_take(f->script, &found, out_work);
    if (found.verdict != CURSOR_REPLAY) {
        ahead = *c;
        QP_TRY(step_take(f, &ahead, &got, &place));
        QP_ASSERT(place.verdict != CURSOR_REPLAY);
        return command_listen(f, l, &found, &place);
    }
    if (out_work->open || out_work->cancelled) {
        return QP_OK;
    }
    if (is_interrupted(f->script, out_work->output)) {
        return take_got(f, c, &got, l, out_work);
    }
    out_work->output = QP_NONE;
    return QP_OK;
}

int qp_listen(qp_flow *f, const char *name, const struct qp_listen *listen, qp_str *out_data)
{
    struct listening l = {.call = "qp_listen", .options = listen};
    struct cursor *c;
    struct work work;
    QP_TRY(script_enter(f, l.call));
    QP_TRY(take_listen(f, name, &l));
    c = &scope_of(f)->cursor;
    QP_TRY(l.options->timeout_ms > 0 ? listen_until(f, c, f->n, &l, &work)
                                     : listen_on(f, c, f->n, &l, &work));
    QP_TRY(work_await(f, &work, out_data));
    if (l.options->out_name != NULL && l.options->limit == 0) {
        *l.options->out_name = work.signal_name;
    }
    return QP_OK;
}

/* Its second location is not known yet, so that it has a branch of its own: what is begun behind it stands elsewhere. */
static int listen_in_branch(const qp_flow *f, const struct listening *l, struct work *out_work)
{
    struct cursor inside;
    struct cursor_found found;
    QP_TRY(step_branch(f, l->name, &inside, &found));
    QP_TRY(listen_until(f, &inside, 1, l, out_work));
    if (!out_work->open && cursor_end(&inside, &found) != CURSOR_END) {
        return script_stop(f->script, &inside, &found);
    }
    return QP_OK;
}

int qp_begin_listen(qp_flow *f, const char *name, const struct qp_listen *listen,
                    qp_handle *out_handle)
{
    struct listening l = {.call = "qp_begin_listen", .options = listen};
    struct work work;
    QP_TRY(script_enter(f, l.call));
    if (out_handle == NULL) {
        return call_no_output(f, l.call);
    }
    QP_TRY(take_listen(f, name, &l));
    QP_TRY(l.options->timeout_ms > 0 ? listen_in_branch(f, &l, &work)
                                     : listen_on(f, &scope_of(f)->cursor, f->n, &l, &work));
    return work_keep(f, &work, out_handle);
}

int qp_signal_flow(qp_flow *f, qp_str job, const char *name, qp_str data)
{
    struct cursor_step step = {.type = HISTORY_SIGNAL};
    struct cursor_found found;
    struct script *s;
    struct qp_err err;
    QP_TRY(script_enter(f, "qp_signal_flow"));
    s = f->script;
    step.n = f->n;
    QP_TRY(step_name(f, "qp_signal_flow", name, &step.name));
    QP_TRY(step_json(f, "qp_signal_flow", "data", data, &data));
    if (id_check(job, "job", &err) != QP_OK) {
        return step_refuse(f, "qp_signal_flow", QP_E_INVALID, &err);
    }
    QP_TRY(step_take(f, &scope_of(f)->cursor, &step, &found));
    if (found.verdict == CURSOR_REPLAY) {
        return QP_OK;
    }
    command_begin(s, "signal", &found);
    json_key(&s->writer, QP_STR("to"));
    json_put_str(&s->writer, job);
    put_name(&s->writer, step.name);
    put_pair(&s->writer, QP_STR("data"), data);
    return command_end(s);
}

/* --------------------------------------------------------------------------------------- closures */

static int begin_closure(qp_flow *f, const char *call, const char *name, qp_flow_body body,
                         void *context, struct work *out_work)
{
    struct cursor_found found;
    struct cursor inside;
    struct frame *inner;
    qp_str own_name;
    QP_TRY(script_enter(f, call));
    if (body == NULL) {
        return script_mistake(f->script, QP_E_INVALID, "%s: there is no function", call);
    }
    QP_TRY(step_name(f, call, name, &own_name));
    QP_TRY(step_branch(f, own_name, &inside, &found));
    inner = ARENA_NEW(f->script->arena,
                      struct frame); /* a flow that outlives its function is found out */
    if (inner == NULL) {
        return script_no_memory(f->script);
    }
    frame_begin(inner, f->script, FRAME_CLOSURE, own_name);
    inner->own.cursor = inside;
    QP_TRY(frame_end(inner, body(&inner->flow, context), out_work));
    out_work->at = found.at;
    return QP_OK;
}

int qp_closure(qp_flow *f, const char *name, qp_flow_body body, void *context, qp_str *out_output)
{
    struct work work;
    QP_TRY(begin_closure(f, "qp_closure", name, body, context, &work));
    return work_await(f, &work, out_output);
}

int qp_begin_closure(qp_flow *f, const char *name, qp_flow_body body, void *context,
                     qp_handle *out_handle)
{
    struct work work;
    QP_TRY(begin_closure(f, "qp_begin_closure", name, body, context, &work));
    return out_handle == NULL ? call_no_output(f, "qp_begin_closure")
                              : work_keep(f, &work, out_handle);
}

/* ------------------------------------------------------------------------------ several at once */

/* How many answers have to come before all have ended, at least: a closure may go on with the next one. */
static int64_t answers_left(int64_t open, bool has_closure)
{
    return has_closure ? 1 : open;
}

static int wait_for_all(qp_flow *f, const qp_handle *handles, size_t count)
{
    int64_t open = 0;
    bool has_closure = false;
    for (size_t i = 0; i < count; i++) {
        struct work *work;
        QP_TRY(find(f, "qp_all", handles[i], &work));
        open += work->open;
        has_closure = has_closure || (work->open && work->is_closure);
    }
    return open == 0 ? QP_OK : frame_suspend(f->frame, answers_left(open, has_closure));
}

/* The work at which the cancel is thrown instead of waiting for several; NULL: it is not. */
static int find_landing(const qp_flow *f, const char *call, const qp_handle *handles, size_t count,
                        const struct work **out_work)
{
    *out_work = NULL;
    for (size_t i = 0; i < count && *out_work == NULL; i++) {
        struct work *work;
        QP_TRY(find(f, call, handles[i], &work));
        cancel_met(f, work);
        *out_work = cancel_lands(f, work) ? work : NULL;
    }
    return QP_OK;
}

/* Of several that have failed the cancel comes first: the code has to see it. */
static bool tells_more(const struct work *work, const struct work *failed)
{
    return work->failed && (failed == NULL || (work->cancelled && !failed->cancelled));
}

int qp_all(qp_flow *f, const qp_handle *handles, size_t count)
{
    const struct work *failed = NULL;
    const struct work *landing;
    QP_TRY(script_enter(f, "qp_all"));
    QP_TRY(find_landing(f, "qp_all", handles, count, &landing));
    if (landing != NULL) {
        return step_cancel(f, landing);
    }
    QP_TRY(wait_for_all(f, handles, count));
    for (size_t i = 0; i < count; i++) {
        struct work *work;
        QP_TRY(find(f, "qp_all", handles[i], &work));
        QP_TRY(values_await(f->frame, work));
        failed = tells_more(work, failed) ? work : failed;
    }
    return failed == NULL ? QP_OK : frame_fail(f->frame, failed);
}

/* One that was answered before the cancel ends the wait; the cancel does, else. */
static int any_landing(const qp_flow *f, const qp_handle *handles, size_t count,
                       const struct work *first, const struct work **out_work)
{
    *out_work = NULL;
    return first != NULL && first->done <= f->script->log->cancel.done && !first->cancelled
               ? QP_OK
               : find_landing(f, "qp_any", handles, count, out_work);
}

int qp_any(qp_flow *f, const qp_handle *handles, size_t count, size_t *out_index)
{
    const struct work *first = NULL;
    const struct work *landing;
    size_t index = 0;
    QP_TRY(script_enter(f, "qp_any"));
    if (count == 0 || out_index == NULL) {
        return script_mistake(f->script, QP_E_INVALID,
                              "qp_any: there is nothing to wait for, or no output");
    }
    for (size_t i = 0; i < count; i++) {
        struct work *work;
        QP_TRY(find(f, "qp_any", handles[i], &work));
        if (!work->open && (first == NULL || work->done < first->done)) {
            first = work;
            index = i;
        }
    }
    QP_TRY(any_landing(f, handles, count, first, &landing));
    if (landing != NULL) {
        return step_cancel(f, landing);
    }
    if (first == NULL) {
        return frame_suspend(f->frame, 1);
    }
    QP_TRY(values_await(f->frame, first));
    if (first->cancelled) {
        return frame_fail(f->frame, first);
    }
    *out_index = index;
    return QP_OK;
}

int qp_output(qp_flow *f, qp_handle handle, qp_str *out_output)
{
    struct work *work;
    QP_TRY(script_enter(f, "qp_output"));
    QP_TRY(find(f, "qp_output", handle, &work));
    return work_await(f, work, out_output);
}

/* script_more.c - the calls of a flow's function that shape its history: its end, loops, versions; and what is derived
 *
 * Random numbers and ids follow from a text, so that a worker in any language gets the same: the first 16 bytes of
 * hash_guid(seed as 16 hexadecimal digits, KEY#COUNTER), KEY the key of the last event of the branch (a0! at its beginning),
 * COUNTER from 0, counted from that event on. Inline code has counters of its own: KEY#run#COUNTER.
 */
#include "base/hash.h"
#include "base/log.h"
#include "base/uuid.h"
#include "flow/script_cancel.h"
#include "flow/script_step.h"
#include "flow/script_values.h"

#include <stdarg.h>
#include <stdio.h>

static_assert((int)QP_EVENT_ACTIVITY == HISTORY_ACTIVITY && (int)QP_EVENT_RUN == HISTORY_RUN,
              "types");
static_assert((int)QP_EVENT_SLEEP == HISTORY_SLEEP && (int)QP_EVENT_SIGNALS == HISTORY_SIGNALS,
              "types");
static_assert((int)QP_EVENT_SIGNAL == HISTORY_SIGNAL && (int)QP_EVENT_LOOP == HISTORY_LOOP,
              "types");
static_assert((int)QP_EVENT_CHILD == HISTORY_CHILD, "types");
static_assert((int)QP_EVENT_BRANCH == HISTORY_BRANCH && (int)QP_EVENT_VERSION == HISTORY_VERSION,
              "types");

/* -------------------------------------------------------------------------------------------- ends */

int qp_return(qp_flow *f, qp_str output)
{
    QP_TRY(script_enter_any(f, "qp_return"));
    QP_TRY(step_json_copy(f, "qp_return", "output", output, &f->frame->output));
    f->frame->returned = true;
    return QP_OK;
}

int qp_flow_fail(qp_flow *f, const char *message)
{
    struct script *s;
    qp_str text = message == NULL ? QP_STR("the flow gave no reason") : str_from(message);
    struct qp_flow_error error = {.code = 500};
    QP_TRY(script_enter_any(f, "qp_flow_fail"));
    s = f->script;
    text.n = text.n < LIMIT_ERROR_TEXT_SIZE ? text.n : LIMIT_ERROR_TEXT_SIZE;
    buf_reset(&s->text);
    json_writer_init(&s->writer, &s->text);
    json_begin_object(&s->writer);
    json_key(&s->writer, QP_STR("code"));
    json_put_i64(&s->writer, error.code);
    json_key(&s->writer, QP_STR("message"));
    json_put_str(&s->writer, text);
    json_end_object(&s->writer);
    if (json_writer_done(&s->writer) != QP_OK ||
        !arena_copy(s->arena, buf_slice(&s->text), &error.json) ||
        !arena_copy(s->arena, text, &error.message)) {
        return script_no_memory(s);
    }
    f->frame->error = error;
    return QP_E_FAILED;
}

void qp_flow_error(const qp_flow *f, struct qp_flow_error *out_error)
{
    if (f != NULL && out_error != NULL) {
        *out_error = f->frame->error;
    }
}

qp_str qp_flow_job(const qp_flow *f)
{
    return f == NULL ? QP_NONE : f->script->log->job;
}

/* ------------------------------------------------------------------------------------------- loops */

/* Its answer comes after its birth, with a place and a time of its own; or it stands where one has come. */
static bool has_answer(enum history_type type)
{
    return type == HISTORY_ACTIVITY || type == HISTORY_SLEEP || type == HISTORY_SIGNALS ||
           type == HISTORY_CHILD;
}

/* The place of the last answer below the loop, and the latest time of one, of those that the decision which ended it has
 * seen: the same in every run. Clocks of nodes differ, so the last need not be the latest. */
static void measure(const struct script *s, struct round *round, int64_t seen)
{
    const struct history *h = &s->log->history;
    size_t index = round->found.verdict == CURSOR_REPLAY
                       ? (size_t)(round->found.event - h->events) + 1
                       : h->count;
    size_t end = index < h->count ? round->found.event->behind : index;
    for (; index < end; index++) {
        const struct log_entry *e = &s->log->entries[index];
        if (has_answer(h->events[index].type) && e->done > 0 && e->done <= seen) {
            round->fed = e->done > round->fed ? e->done : round->fed;
            round->now = e->at > round->now ? e->at : round->now;
        }
    }
}

static void leave(qp_flow *f, const struct round *round)
{
    struct work work = {.done = round->fed, .when = round->now};
    frame_feed(f->frame, &work);
}

/* It has ended before: what is recorded of it. */
static bool loop_replay(qp_flow *f, struct qp_loop *loop, struct round *round)
{
    const struct log_entry *e = step_entry(f->script, &round->found);
    loop->state = e->state;
    loop->output = e->output;
    loop->iteration = e->iteration;
    measure(f->script, round, e->seen);
    leave(f, round);
    loop->rc = values_set_all(f->frame, e->properties);
    return false;
}

static int loop_begin(qp_flow *f, struct qp_loop *loop, struct round *round)
{
    struct cursor *c = &scope_of(f)->cursor;
    struct cursor_step step = {.type = HISTORY_LOOP, .n = f->n};
    QP_TRY(step_name(f, "qp_loop_next", loop->name, &step.name));
    QP_TRY(step_json_copy(f, "qp_loop_next", "state", loop->state, &loop->state));
    QP_TRY(step_take(f, c, &step, &round->found));
    round->name = step.name;
    cursor_enter(&round->cursor, c, &round->found);
    if (round->found.verdict == CURSOR_REPLAY) {
        round->recorded = step_entry(f->script, &round->found)->iteration;
        return QP_OK;
    }
    return command_loop(f->script, round, loop->state);
}

/* The branch of the next iteration becomes the scope of the frame. */
static int iteration_begin(qp_flow *f, struct qp_loop *loop, struct round *round)
{
    struct script *s = f->script;
    struct scope *scope = ARENA_NEW(s->arena, struct scope);
    struct cursor_found found;
    if (scope == NULL) {
        return script_no_memory(s);
    }
    (void)cursor_iterate(&round->cursor, round->iteration, &found);
    if (cursor_is_stopped(found.verdict)) {
        return script_stop(s, &round->cursor, &found);
    }
    cursor_enter(&scope->cursor, &round->cursor, &found);
    if (found.verdict != CURSOR_REPLAY) {
        command_begin(s, "branch", &found);
        json_key(&s->writer, QP_STR("name"));
        json_put_str(&s->writer, round->name);
        QP_TRY(command_end(s));
    }
    scope->outer = f->frame->top;
    scope->round = round;
    f->frame->top = scope;
    loop->iteration = round->iteration;
    return QP_OK;
}

static int iteration_end(qp_flow *f, struct qp_loop *loop, struct round *round)
{
    struct script *s = f->script;
    struct scope *scope = f->frame->top;
    if (scope->round != round) {
        return script_mistake(
            s, QP_E_INVALID,
            "qp_loop_next: the loop '%.*s' goes on while a round of another one is open; "
            "leave the inner loop by qp_loop_break and continue",
            STR_ARG(round->name));
    }
    QP_TRY(scope_end(s, scope));
    f->frame->top = scope->outer;
    loop->iteration = ++round->iteration;
    return !round->broken && round->iteration % LIMIT_LOOP_COMMIT == 0 &&
                   round->iteration > round->recorded
               ? command_loop(s, round, loop->state)
               : QP_OK;
}

static int loop_end(qp_flow *f, struct qp_loop *loop, struct round *round)
{
    struct cursor_found found;
    if (cursor_end_loop(&round->cursor, round->iteration, &found) != CURSOR_END) {
        return script_stop(f->script, &round->cursor, &found);
    }
    loop->output = round->output;
    loop->memory = NULL;
    measure(f->script, round, f->script->log->base);
    leave(f, round);
    QP_TRY(values_leave(f->frame, &round->values));
    return command_loop(f->script, round, loop->state);
}

static bool loop_stop(struct qp_loop *loop, int rc)
{
    loop->rc = rc;
    return false;
}

static bool loop_first(qp_flow *f, struct qp_loop *loop)
{
    struct round *round = ARENA_NEW(f->script->arena, struct round);
    int rc = round == NULL ? script_no_memory(f->script) : loop_begin(f, loop, round);
    if (rc != QP_OK) {
        return loop_stop(loop, rc);
    }
    if (round->found.verdict == CURSOR_REPLAY && step_entry(f->script, &round->found)->broken) {
        return loop_replay(f, loop, round);
    }
    loop->memory = round;
    loop->rc = iteration_begin(f, loop, round);
    return loop->rc == QP_OK;
}

bool qp_loop_next(qp_flow *f, struct qp_loop *loop)
{
    struct round *round;
    int rc = loop == NULL ? QP_E_INVALID : script_enter(f, "qp_loop_next");
    if (loop == NULL || rc != QP_OK) {
        return loop != NULL && loop_stop(loop, rc);
    }
    round = loop->memory;
    if (round == NULL) {
        return loop_first(f, loop);
    }
    rc = iteration_end(f, loop, round);
    if (rc != QP_OK) {
        return loop_stop(loop, rc);
    }
    if (round->broken) {
        return loop_stop(loop, loop_end(f, loop, round));
    }
    loop->rc = iteration_begin(f, loop, round);
    return loop->rc == QP_OK;
}

/* The loop as this run knows it; NULL: the call is not for now. */
static struct round *loop_running(qp_flow *f, const struct qp_loop *loop, const char *call)
{
    if (script_enter(f, call) != QP_OK) {
        return NULL;
    }
    if (loop == NULL || loop->memory == NULL) {
        (void)script_mistake(f->script, QP_E_INVALID, "%s: the loop is not running", call);
        return NULL;
    }
    return loop->memory;
}

void qp_loop_state(qp_flow *f, struct qp_loop *loop, qp_str state)
{
    qp_str copy;
    if (loop_running(f, loop, "qp_loop_state") != NULL &&
        step_json_copy(f, "qp_loop_state", "state", state, &copy) == QP_OK) {
        loop->state = copy;
    }
}

void qp_loop_break(qp_flow *f, struct qp_loop *loop, qp_str output)
{
    struct round *round = loop_running(f, loop, "qp_loop_break");
    if (round != NULL) {
        round->broken =
            step_json_copy(f, "qp_loop_break", "output", output, &round->output) == QP_OK;
    }
}

/* ---------------------------------------------------------------------------------------- versions */

qp_flow *qp_v(qp_flow *f, int64_t n)
{
    struct qp_flow *view;
    if (script_enter_any(f, "qp_v") != QP_OK ||
        step_range(f, "qp_v", "n", n, 1, LIMIT_STEP_VERSION - f->n + 1) != QP_OK) {
        return f;
    }
    view = ARENA_NEW(f->script->arena, struct qp_flow);
    if (view == NULL) {
        (void)script_no_memory(f->script);
        return f;
    }
    *view = *f;
    view->n = f->n + n - 1;
    return view;
}

static int command_mark(struct script *s, const struct cursor_found *found)
{
    struct json_writer *w = &s->writer;
    command_begin(s, "mark", found);
    json_key(w, QP_STR("mark"));
    json_put_str(w, str_from(found->of != 0 ? "removed" : "version"));
    if (found->of != 0) {
        json_key(w, QP_STR("of"));
        json_put_str(w, str_from(history_word(found->of)));
        if (found->name.n > 0) {
            json_key(w, QP_STR("name"));
            json_put_str(w, found->name);
        }
    } else {
        json_key(w, QP_STR("value"));
        json_put_i64(w, found->value);
    }
    return command_end(s);
}

int qp_removed(qp_flow *f, enum qp_event_type type, const char *name)
{
    struct cursor_step step = {.any_name = type == QP_EVENT_SIGNALS || type == QP_EVENT_SLEEP};
    struct cursor_found found;
    struct cursor *c;
    QP_TRY(script_enter(f, "qp_removed"));
    c = &scope_of(f)->cursor;
    step.n = f->n;
    QP_TRY(step_range(f, "qp_removed", "type", type, QP_EVENT_ACTIVITY, QP_EVENT_VERSION));
    QP_TRY(name == NULL ? QP_OK : step_name(f, "qp_removed", name, &step.name));
    step.type = (enum history_type)type;
    if (step.type == HISTORY_REMOVED) {
        return script_mistake(f->script, QP_E_INVALID,
                              "qp_removed: type 10 is no call of the code");
    }
    (void)cursor_remove(c, &step, &found);
    if (cursor_is_stopped(found.verdict)) {
        return script_stop(f->script, c, &found);
    }
    if (found.verdict == CURSOR_SKIP && cancel_was_at(f, &found.at)) {
        return step_cancel(f, &(struct work){.name = found.name, .at = found.at});
    }
    return found.verdict == CURSOR_NEW ? command_mark(f->script, &found) : QP_OK;
}

int qp_check_version(qp_flow *f, int64_t latest, int64_t *out_version)
{
    struct cursor_question question = {.latest = latest};
    struct cursor_found found;
    struct cursor *c;
    QP_TRY(script_enter(f, "qp_check_version"));
    c = &scope_of(f)->cursor;
    question.n = f->n;
    QP_TRY(step_range(f, "qp_check_version", "latest", latest, 1, LIMIT_STEP_VERSION));
    if (out_version == NULL) {
        return script_mistake(f->script, QP_E_INVALID, "qp_check_version: out_version is NULL");
    }
    (void)cursor_check(c, &question, &found);
    if (cursor_is_stopped(found.verdict)) {
        return script_stop(f->script, c, &found);
    }
    *out_version = found.value;
    return found.verdict == CURSOR_NEW ? command_mark(f->script, &found) : QP_OK;
}

/* ---------------------------------------------------------------------------------------- derived */

/* These take part in no history: a wrong thread or frame is found, and answered with nothing. */
static bool may_derive(const qp_flow *f, const char *call)
{
    if (f == NULL) {
        return false;
    }
    if (!pthread_equal(f->script->thread, pthread_self())) {
        atomic_store(&f->script->stray, call);
        return false;
    }
    return true;
}

static size_t place_text(const struct scope *scope, char out_text[LOCATION_KEY_SIZE + 4])
{
    const struct location *last = &scope->cursor.last;
    struct location branch = location_parent(last);
    size_t n;
    if (last->ordinates[last->ends[last->depth - 1] - 1] != 0) {
        return location_key(last, out_text);
    }
    n = location_key(&branch, out_text);
    memcpy(out_text + n, "a0!", 3);
    return n + 3;
}

static int64_t count_here(qp_flow *f)
{
    struct scope *scope = scope_of(f);
    if (f->frame->kind == FRAME_INLINE) {
        return f->frame->counter++;
    }
    if (scope->counted_at.depth == 0 ||
        location_compare(&scope->counted_at, &scope->cursor.last) != 0) {
        scope->counted_at = scope->cursor.last;
        scope->counter = 0;
    }
    return scope->counter++;
}

static void derive(qp_flow *f, unsigned char out_bytes[LIMIT_GUID_SIZE])
{
    char seed[17];
    char text[LOCATION_KEY_SIZE + 32];
    size_t n = place_text(scope_of(f), text);
    int more = snprintf(text + n, sizeof text - n, "#%s%lld",
                        f->frame->kind == FRAME_INLINE ? "run#" : "", (long long)count_here(f));
    QP_ASSERT(more > 0 && (size_t)more < sizeof text - n);
    (void)snprintf(seed, sizeof seed, "%016llx", (unsigned long long)f->script->log->seed);
    hash_guid(seed, 16, text, n + (size_t)more, out_bytes);
}

qp_ms qp_now(const qp_flow *f)
{
    return may_derive(f, "qp_now") ? f->frame->now : 0;
}

uint64_t qp_random(qp_flow *f)
{
    unsigned char bytes[LIMIT_GUID_SIZE];
    uint64_t bits = 0;
    if (!may_derive(f, "qp_random")) {
        return 0;
    }
    derive(f, bytes);
    for (size_t i = 0; i < sizeof bits; i++) {
        bits = bits << 8 | bytes[i];
    }
    return bits;
}

void qp_uuid(qp_flow *f, char out_uuid[QP_UUID_SIZE])
{
    unsigned char bytes[LIMIT_GUID_SIZE] = {0};
    static_assert(LIMIT_GUID_SIZE == UUID_SIZE && QP_UUID_SIZE == UUID_TEXT_SIZE + 1, "a UUID");
    if (out_uuid == NULL) {
        return;
    }
    if (may_derive(f, "qp_uuid")) {
        derive(f, bytes);
    }
    bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40); /* version 4 */
    bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
    uuid_format(bytes, out_uuid);
    out_uuid[UUID_TEXT_SIZE] = '\0';
}

/* The code is past what the history has of its branch: it has not been here before. */
static bool is_replaying(const qp_flow *f)
{
    const struct cursor *c = &scope_of(f)->cursor;
    return f->frame->kind != FRAME_INLINE && c->here < c->end;
}

void qp_log(const qp_flow *f, enum qp_log_level level, const char *format, ...)
{
    char text[LIMIT_LOG_LINE_SIZE];
    va_list arguments;
    int n;
    if (format == NULL || !may_derive(f, "qp_log") || f->script->rc != QP_OK || is_replaying(f)) {
        return;
    }
    va_start(arguments, format);
    n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (n >= 0) {
        size_t size = (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
        log_write(f->script->env, level, LOG_STR("msg", ((qp_str){text, size})),
                  LOG_STR("job", f->script->log->job));
    }
}

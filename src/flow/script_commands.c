/* script_commands.c - the commands of one run, and the JSON of its decision (see script_commands.h) */
#include "flow/script_commands.h"

#include "flow/flow.h"
#include "flow/script_values.h"

static void put_event(struct json_writer *w, const char *op, const struct cursor_found *found)
{
    char text[LOCATION_TEXT_SIZE];
    size_t n = location_print(&found->at, text);
    json_key(w, QP_STR("op"));
    json_put_str(w, str_from(op));
    json_key(w, QP_STR("loc"));
    json_put_str(w, (qp_str){text, n});
    json_key(w, QP_STR("v"));
    json_put_i64(w, found->version);
}

void command_begin(struct script *s, const char *op, const struct cursor_found *found)
{
    QP_ASSERT(found->verdict == CURSOR_NEW || found->verdict == CURSOR_INSERT);
    buf_reset(&s->text);
    json_writer_init(&s->writer, &s->text);
    json_begin_object(&s->writer);
    put_event(&s->writer, op, found);
}

static int stop(struct script *s, const char *reason, qp_str text)
{
    s->rc = QP_E_LIMIT;
    s->result = (struct script_result){.kind = SCRIPT_STOPPED, .reason = reason, .text = text};
    return s->rc;
}

/* One decision takes no more: the whole of it is one commit. */
static int too_large(struct script *s, qp_str text)
{
    return stop(s, "decision_too_large", text);
}

static int history_full(struct script *s)
{
    return stop(s, FLOW_TOO_LARGE,
                QP_STR("the history has 200000 events, and takes no more: let the flow return, and "
                       "go on in another job"));
}
static_assert(LIMIT_FLOW_EVENTS == 200000, "the sentence says so");

static int too_many(struct script *s)
{
    return too_large(
        s, QP_STR("one run of the flow's function has more than 2000 new steps before it waits; a "
                  "run takes 2000: put an activity, a sleep or a listen between them"));
}
static_assert(LIMIT_FLOW_COMMANDS == 2000, "the sentence says so");
static_assert(LIMIT_FLOW_DECISION_SIZE == 8 * 1024 * 1024, "a sentence below says so");

/* A loop that the history has already only changes its state. */
static bool makes_event(const struct command *c)
{
    return c->round == NULL || c->round->found.verdict != CURSOR_REPLAY;
}

/* `later`: events that may follow from it without another decision. */
static int append(struct script *s, struct command *c, size_t later)
{
    size_t made = makes_event(c) ? 1 : 0;
    size_t taken = s->log->history.count + s->result.made + s->later;
    if (s->command_count == LIMIT_FLOW_COMMANDS) {
        return too_many(s);
    }
    if (made + later > 0 && taken + made + later > LIMIT_FLOW_EVENTS) {
        return history_full(s);
    }
    s->result.made += made;
    s->later += later;
    s->command_count++;
    *s->last = c;
    s->last = &c->next;
    return QP_OK;
}

static int end_with(struct script *s, size_t later)
{
    struct command *c = ARENA_NEW(s->arena, struct command);
    json_end_object(&s->writer);
    if (c == NULL || json_writer_done(&s->writer) != QP_OK ||
        !arena_copy(s->arena, buf_slice(&s->text), &c->text)) {
        return script_no_memory(s);
    }
    return append(s, c, later);
}

int command_end(struct script *s)
{
    return end_with(s, 0);
}

int command_end_got(struct script *s)
{
    return end_with(s, 1);
}

int command_loop(struct script *s, struct round *round, qp_str state)
{
    if (round->command == NULL) {
        round->command = ARENA_NEW(s->arena, struct command);
        if (round->command == NULL) {
            return script_no_memory(s);
        }
        round->command->round = round;
        QP_TRY(append(s, round->command, 0));
    }
    round->command->state = state;
    round->command->iteration = round->iteration;
    return QP_OK;
}

static void write_loop(struct json_writer *w, const struct command *c)
{
    json_begin_object(w);
    put_event(w, "loop", &c->round->found);
    json_key(w, QP_STR("name"));
    json_put_str(w, c->round->name);
    json_key(w, QP_STR("iteration"));
    json_put_i64(w, c->iteration);
    json_key(w, QP_STR("state"));
    json_put_raw(w, c->state);
    if (c->round->broken) {
        json_key(w, QP_STR("output"));
        json_put_raw(w, c->round->output);
        if (c->round->values.count > 0) {
            json_key(w, QP_STR("properties"));
            values_write(w, &c->round->values, true);
        }
    }
    json_end_object(w);
}

static void write_last(struct json_writer *w, const char *op, const char *key, qp_str value)
{
    json_begin_object(w);
    json_key(w, QP_STR("op"));
    json_put_str(w, str_from(op));
    json_key(w, str_from(key));
    json_put_raw(w, value);
    json_end_object(w);
}

static void write_commands(struct script *s, struct json_writer *w)
{
    for (const struct command *c = s->first; c != NULL; c = c->next) {
        if (c->round != NULL) {
            write_loop(w, c);
        } else {
            json_put_raw(w, c->text);
        }
    }
}

static void write_set(const struct script *s, struct json_writer *w)
{
    json_begin_object(w);
    json_key(w, QP_STR("op"));
    json_put_str(w, QP_STR("set"));
    json_key(w, QP_STR("properties"));
    values_write(w, &s->values, false);
    json_end_object(w);
}

/* What the run says besides: where the cancel was thrown, and the compensations of a flow that waits. */
static void write_facts(struct script *s, struct json_writer *w, const char *op)
{
    char text[LOCATION_TEXT_SIZE];
    if (s->landed.depth > 0) {
        json_key(w, QP_STR("thrown"));
        json_put_str(w, (qp_str){text, location_print(&s->landed, text)});
    }
    if (s->defers && op == NULL) {
        json_key(w, QP_STR("defers"));
        buf_byte(&s->defer_names, s->defer_names.n == 0 ? '[' : ']');
        if (s->defer_names.n == 1) {
            buf_byte(&s->defer_names, ']');
        }
        json_put_raw(w, buf_slice(&s->defer_names));
    }
}

int commands_write(struct script *s, const char *op, const char *key, qp_str value,
                   qp_str *out_decision)
{
    struct json_writer *w = &s->writer;
    bool sets = s->values.count > 0;
    if (s->command_count + (op != NULL) + sets > LIMIT_FLOW_COMMANDS) {
        return too_many(s);
    }
    buf_reset(&s->text);
    json_writer_init(w, &s->text);
    json_begin_object(w);
    json_key(w, QP_STR("base"));
    json_put_i64(w, s->log->base);
    json_key(w, QP_STR("commands"));
    json_begin_array(w);
    write_commands(s, w);
    if (sets) {
        write_set(s, w);
    }
    if (op != NULL) {
        write_last(w, op, key, value);
    }
    json_end_array(w);
    if (op == NULL && s->after > 1) {
        json_key(w, QP_STR("after"));
        json_put_i64(w, s->after);
    }
    write_facts(s, w, op);
    json_end_object(w);
    if (s->text.n > LIMIT_FLOW_DECISION_SIZE) {
        return too_large(
            s, QP_STR("the new steps of one run of the flow's function have more than 8 MiB of "
                      "inputs before it waits; a run takes 8 MiB: wait for some of them first"));
    }
    return json_writer_done(w) == QP_OK && arena_copy(s->arena, buf_slice(&s->text), out_decision)
               ? QP_OK
               : script_no_memory(s);
}

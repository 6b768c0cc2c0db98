/* fakeflow.c - the rows of one flow in memory (see fakeflow.h) */
#include "fakeflow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

void fake_init(struct fakeflow *f, struct testenv *t)
{
    memset(f, 0, sizeof *f);
    f->t = t;
    f->now = 1767225600000;
    f->input = QP_STR("{\"order\":1}");
    arena_init(&f->arena, &t->env, 0);
    arena_init(&f->run, &t->env, 0);
}

void fake_done(struct fakeflow *f)
{
    arena_done(&f->arena);
    arena_done(&f->run);
}

static qp_str copy(struct fakeflow *f, qp_str text)
{
    qp_str kept;
    assert_true(arena_copy(&f->arena, text, &kept));
    return kept;
}

/* A key stands where one has: slices of the rows are shared, which the owner outlives. */
void fake_copy(struct fakeflow *to, const struct fakeflow *from, struct testenv *t)
{
    fake_init(to, t);
    memcpy(to->rows, from->rows, from->count * sizeof from->rows[0]);
    to->count = from->count;
    to->seq = from->seq;
    to->now = from->now;
    to->over = from->over;
    to->end = from->end;
}

/* ---------------------------------------------------------------------------------------- the log */

static int by_key(const void *a, const void *b)
{
    const struct fakerow *x = a;
    const struct fakerow *y = b;
    return str_compare(x->event.key, y->event.key);
}

static struct flow_log make_log(struct fakeflow *f)
{
    struct history_event *events = arena_alloc(&f->run, (f->count + 1) * sizeof *events);
    struct log_entry *entries = arena_alloc(&f->run, (f->count + 1) * sizeof *entries);
    struct flow_log log = {.entries = entries,
                           .job = QP_STR("job-1"),
                           .workflow = QP_STR("order"),
                           .input = f->input,
                           .seed = 42,
                           .started_at = 1767225600000,
                           .base = f->seq};
    struct qp_err err;
    assert_non_null(events);
    assert_non_null(entries);
    qsort(f->rows, f->count, sizeof f->rows[0], by_key);
    for (size_t i = 0; i < f->count; i++) {
        events[i] = f->rows[i].event;
        entries[i] = f->rows[i].entry;
    }
    if (history_init(&log.history, events, f->count, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
    return log;
}

/* --------------------------------------------------------------------------------------- commands */

static struct fakerow *find(struct fakeflow *f, qp_str key)
{
    for (size_t i = 0; i < f->count; i++) {
        if (str_equal(f->rows[i].event.key, key)) {
            return &f->rows[i];
        }
    }
    return NULL;
}

static qp_str key_of(struct fakeflow *f, const struct location *at)
{
    char key[LOCATION_KEY_SIZE];
    return copy(f, (qp_str){key, location_key(at, key)});
}

static qp_str text_of(const struct json *object, const char *key)
{
    qp_str text = QP_NONE;
    (void)!json_as_str(json_get(object, str_from(key)), &text);
    return text;
}

static qp_str json_text(struct fakeflow *f, const struct json *json)
{
    struct json_writer w;
    struct buf out;
    qp_str text;
    buf_init(&out, &f->t->env, 0);
    json_writer_init(&w, &out);
    if (json == NULL) {
        json_put_null(&w);
    } else {
        json_write_tree(&w, json);
    }
    assert_int_equal(json_writer_done(&w), QP_OK);
    text = copy(f, buf_slice(&out));
    buf_done(&out);
    return text;
}

static int64_t number_of(const struct json *object, const char *key, int64_t missing)
{
    int64_t number = missing;
    (void)!json_as_i64(json_get(object, str_from(key)), &number);
    return number;
}

static enum history_type type_of(const struct json *c, qp_str op)
{
    enum history_type type;
    if (str_equal(op, QP_STR("listen"))) {
        return json_get(c, QP_STR("until")) != NULL ? HISTORY_SLEEP : HISTORY_SIGNALS;
    }
    if (str_equal(op, QP_STR("mark"))) {
        return str_equal(text_of(c, "mark"), QP_STR("removed")) ? HISTORY_REMOVED : HISTORY_VERSION;
    }
    assert_true(history_type_of(op, &type));
    return type;
}

static void born(struct fakeflow *f, struct fakerow *row, qp_str output, int64_t code)
{
    row->entry.code = code;
    row->entry.output = output;
    row->entry.done = ++f->seq;
    row->entry.at = f->now;
}

static void apply_loop(struct fakeflow *f, struct fakerow *row, const struct json *c)
{
    const struct json *output = json_get(c, QP_STR("output"));
    assert_false(row->entry.broken);
    row->entry.iteration = number_of(c, "iteration", -1);
    assert_true(row->entry.iteration >= 0);
    row->entry.state = json_text(f, json_get(c, QP_STR("state")));
    if (output != NULL) {
        row->entry.broken = true;
        row->entry.seen = f->seen;
        row->entry.output = json_text(f, output);
        if (json_get(c, QP_STR("properties")) != NULL) {
            row->entry.properties = json_text(f, json_get(c, QP_STR("properties")));
        }
    }
}

static void fill(struct fakeflow *f, struct fakerow *row, const struct json *c)
{
    const struct json *error = json_get(c, QP_STR("error"));
    switch (row->event.type) {
    case HISTORY_ACTIVITY:
        row->entry.input = json_text(f, json_get(c, QP_STR("input")));
        break;
    case HISTORY_SLEEP:
    case HISTORY_SIGNALS:
        row->names = json_text(f, json_get(c, QP_STR("names")));
        row->got = copy(f, text_of(c, "got"));
        row->limit = number_of(c, "limit", 1);
        break;
    case HISTORY_RUN:
        born(f, row, json_text(f, error != NULL ? error : json_get(c, QP_STR("ok"))),
             error != NULL ? 500 : 200);
        break;
    case HISTORY_REMOVED:
        assert_true(history_type_of(text_of(c, "of"), &row->event.of));
        born(f, row, QP_STR("null"), 200);
        break;
    default:
        born(f, row, QP_STR("null"), 200);
    }
}

static void check_place(struct fakeflow *f, const struct location *at, int64_t version)
{
    struct location parent = location_parent(at);
    const struct fakerow *branch;
    if (parent.depth == 0) {
        assert_true(version >= 1);
        return;
    }
    branch = find(f, key_of(f, &parent));
    assert_non_null(branch);
    assert_true(branch->event.type == HISTORY_BRANCH || branch->event.type == HISTORY_LOOP);
    assert_true(version >= branch->event.version);
}

static void apply_event(struct fakeflow *f, const struct json *c, qp_str op)
{
    struct location at;
    struct fakerow *row;
    qp_str key;
    qp_str name = text_of(c, "name");
    assert_int_equal(location_parse(text_of(c, "loc"), &at, NULL), QP_OK);
    key = key_of(f, &at);
    row = find(f, key);
    if (row != NULL) {
        assert_int_equal(row->event.type, HISTORY_LOOP);
        apply_loop(f, row, c);
        return;
    }
    assert_true(f->count < FAKE_ROWS);
    check_place(f, &at, number_of(c, "v", 0));
    row = &f->rows[f->count++];
    *row = (struct fakerow){.event = {.key = key,
                                      .name = str_is_none(name) ? name : copy(f, name),
                                      .version = number_of(c, "v", 0),
                                      .type = type_of(c, op)},
                            .entry = {.entered_at = f->now}};
    row->op = copy(f, op);
    fill(f, row, c);
    if (row->event.type == HISTORY_LOOP) {
        apply_loop(f, row, c);
    }
}

static void apply(struct fakeflow *f)
{
    struct json *tree = NULL;
    const struct json *commands;
    assert_int_equal(json_parse(&f->t->env, f->result.decision, NULL, &tree), QP_OK);
    commands = json_get(tree, QP_STR("commands"));
    f->commands = json_count(commands);
    f->after = number_of(tree, "after", 1);
    f->seen = number_of(tree, "base", -1);
    assert_true(f->seen >= 0 && f->seen <= f->seq);
    f->seq++;
    for (size_t i = 0; i < f->commands; i++) {
        const struct json *c = json_at(commands, i);
        qp_str op = text_of(c, "op");
        assert_false(f->over);
        if (str_equal(op, QP_STR("set"))) {
            f->properties = json_text(f, json_get(c, QP_STR("properties")));
        } else if (str_equal(op, QP_STR("return")) || str_equal(op, QP_STR("fail"))) {
            f->over = true;
            f->end = json_text(f, json_get(c, op.n == 6 ? QP_STR("output") : QP_STR("error")));
        } else {
            apply_event(f, c, op);
        }
    }
    json_free(tree);
}

enum script_kind fake_run_lost(struct fakeflow *f, qp_flow_function function, void *context)
{
    struct flow_log log;
    struct script_input input;
    arena_reset(&f->run);
    log = make_log(f);
    input = (struct script_input){.env = &f->t->env,
                                  .arena = &f->run,
                                  .log = &log,
                                  .now = f->now,
                                  .function = function,
                                  .context = context};
    assert_int_equal(script_run(&input, &f->result), QP_OK);
    return f->result.kind;
}

void fake_commit(struct fakeflow *f)
{
    f->commands = 0;
    if (f->result.kind <= SCRIPT_FAILED) {
        apply(f);
    }
}

enum script_kind fake_run(struct fakeflow *f, qp_flow_function function, void *context)
{
    enum script_kind kind = fake_run_lost(f, function, context);
    fake_commit(f);
    return kind;
}

/* ---------------------------------------------------------------------------------------- answers */

bool fake_is_open(const struct fakerow *row)
{
    return row->entry.done == 0;
}

bool fake_listens(const struct fakerow *row)
{
    return qp_str_is(row->op, "listen");
}

size_t fake_open_count(const struct fakeflow *f)
{
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) {
        count += fake_is_open(&f->rows[i]);
    }
    return count;
}

void fake_answer_at(struct fakeflow *f, size_t i, int64_t code, const char *output)
{
    struct fakerow *row = &f->rows[i];
    assert_true(fake_is_open(row));
    f->now += 1000;
    row->used++;
    born(f, row, copy(f, str_from(output)), code);
}

void fake_answer(struct fakeflow *f, const char *name, int64_t code, const char *output)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct fakerow *row = &f->rows[i];
        if (fake_is_open(row) &&
            (name == NULL ? row->event.name.n == 0 : qp_str_is(row->event.name, name))) {
            fake_answer_at(f, i, code, output);
            return;
        }
    }
    fail_msg("nothing named %s is open", name == NULL ? "(none)" : name);
}

static bool waits_for(struct fakeflow *f, const struct fakerow *row, const char *name)
{
    char quoted[64];
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", name);
    return fake_is_open(row) && row->names.n > 0 &&
           memmem(row->names.p, row->names.n, quoted, strlen(quoted)) != NULL;
}

static void deliver(struct fakeflow *f, size_t i, const char *signals)
{
    qp_str got = f->rows[i].got;
    struct fakerow *row;
    struct location at;
    if (str_is_none(got)) {
        fake_answer_at(f, i, 200, signals);
        return;
    }
    fake_answer_at(f, i, 200, "{\"interrupted\":true}");
    assert_int_equal(location_parse(got, &at, NULL), QP_OK);
    assert_null(find(f, key_of(f, &at)));
    row = &f->rows[f->count++];
    *row = (struct fakerow){.event = {.key = key_of(f, &at),
                                      .version = f->rows[i].event.version,
                                      .type = HISTORY_SIGNALS}};
    born(f, row, copy(f, str_from(signals)), 200);
}

void fake_signal(struct fakeflow *f, const char *name, const char *data)
{
    char signals[256];
    (void)snprintf(signals, sizeof signals, "[{\"name\":\"%s\",\"at\":%lld,\"data\":%s}]", name,
                   (long long)f->now, data);
    for (size_t i = 0; i < f->count; i++) {
        if (waits_for(f, &f->rows[i], name)) {
            deliver(f, i, signals);
            return;
        }
    }
    fail_msg("nothing listens for %s", name);
}

/* ------------------------------------------------------------------------------------------- text */

const char *fake_text(struct fakeflow *f)
{
    struct buf out;
    qp_str text;
    qsort(f->rows, f->count, sizeof f->rows[0], by_key);
    buf_init(&out, &f->t->env, 0);
    for (size_t i = 0; i < f->count; i++) {
        const struct history_event *e = &f->rows[i].event;
        struct location at = history_location(e);
        char where[LOCATION_TEXT_SIZE];
        (void)location_print(&at, where);
        buf_printf(&out, "%s%s", i > 0 ? "; " : "", where);
        if (e->version > 1) {
            buf_printf(&out, "v%lld", (long long)e->version);
        }
        buf_printf(&out, " %s", history_word(e->type));
        if (e->name.n > 0) {
            buf_printf(&out, " %.*s", STR_ARG(e->name));
        }
    }
    buf_byte(&out, '\0');
    assert_true(arena_copy(&f->run, buf_slice(&out), &text));
    buf_done(&out);
    return text.p;
}

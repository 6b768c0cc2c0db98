/* told.c - what a worker elsewhere says of a decision (see told.h)
 *
 *   I1  what is refused has written nothing: refusals are found before any op of the bundle
 *   I2  a task with a note has been given back by every build of the note since `since`
 */
#include "flow/told.h"

#include "flow/cursor.h"
#include "flow/decision.h"
#include "flow/flow.h"
#include "flow/program.h"
#include "store/error.h"

static_assert(LIMIT_NEWER_BUILDS * (LIMIT_ID_SIZE + 3) + 1024 < LIMIT_ERROR_TEXT_SIZE,
              "a note is an error's text");

#define WHY_SIZE 900 /* of a note */

/* The members that a result of a decision may have. */
struct told {
    qp_str status, base, commands, keep, at, history, code, left, flow;
};

static struct told take_apart(qp_str text)
{
    struct told told = {0};
    struct raw_walk w = {.rest = text};
    const struct {
        const char *name;
        qp_str *value;
    } members[] = {{"status", &told.status}, {"base", &told.base}, {"commands", &told.commands},
                   {"keep", &told.keep},     {"at", &told.at},     {"history", &told.history},
                   {"code", &told.code},     {"left", &told.left}, {"flow", &told.flow}};
    while (raw_each(&w)) {
        for (size_t i = 0; i < ARRAY_COUNT(members); i++) {
            if (str_equal(w.key, str_from(members[i].name))) {
                *members[i].value = w.value;
            }
        }
    }
    return told;
}

static int refuse(struct qp_err *err, const char *pointer, const char *text)
{
    (void)err_set(err, QP_E_SHAPE, "%s", text);
    return err_point(err, QP_E_SHAPE, "%s", pointer);
}

/* ------------------------------------------------------------------------------- history and code */

/* One side of a divergence: {"op","name","v"}, of a removed step with "of". */
struct side {
    enum history_type type;
    enum history_type of;
    qp_str name;
    int64_t version;
};

struct reader {
    const struct qp_env *env;
    struct arena *arena;
    struct qp_err *err;
};

static int read_side_member(const struct reader *r, const struct raw_walk *w, const char *pointer,
                            struct side *out)
{
    qp_str text;
    if (str_equal(w->key, QP_STR("v"))) {
        out->version = (int64_t)real_parse(w->value);
        return QP_OK;
    }
    if (!raw_text(r->env, r->arena, w->value, &text)) {
        return refuse(r->err, pointer, "op, name, of and loc have to be strings");
    }
    if (str_equal(w->key, QP_STR("op")) && !history_type_of(text, &out->type)) {
        return refuse(r->err, pointer, "op has to be the type of an event, as the log has it");
    }
    if (str_equal(w->key, QP_STR("of")) && !history_type_of(text, &out->of)) {
        return refuse(r->err, pointer, "of has to be the type of an event, as the log has it");
    }
    if (str_equal(w->key, QP_STR("name"))) {
        out->name = error_cut(text);
        return name_check(out->name, "name", NULL) == QP_OK
                   ? QP_OK
                   : refuse(r->err, pointer,
                            "name has to be the name of a step; leave it out of one that has none");
    }
    return QP_OK;
}

static int read_side(const struct reader *r, qp_str text, const char *pointer, struct side *out)
{
    struct raw_walk w = {.rest = text};
    *out = (struct side){0};
    if (str_is_none(text) || raw_first(text) != '{') {
        return refuse(r->err, pointer, "it has to be an object: {\"op\",\"name\",\"v\"}");
    }
    while (raw_each(&w)) {
        QP_TRY(read_side_member(r, &w, pointer, out));
    }
    if (out->type == 0 || out->version < 1 || (out->type == HISTORY_REMOVED && out->of == 0)) {
        return refuse(r->err, pointer, "it needs op and v, a removed step also of");
    }
    return QP_OK;
}

static int read_location(const struct reader *r, qp_str text, const char *pointer,
                         char out_text[LOCATION_TEXT_SIZE])
{
    struct location at;
    qp_str value;
    if (str_is_none(text) || !raw_text(r->env, r->arena, text, &value) ||
        location_parse(value, &at, NULL) != QP_OK) {
        return refuse(r->err, pointer, "bad_location: it has to be a location, like \"{2}\"");
    }
    (void)location_print(&at, out_text);
    return QP_OK;
}

/* ---------------------------------------------------------------------------------------- notes */

struct note {
    qp_ms since; /* 0: it is no note of ours */
    qp_str builds;
    qp_str why; /* JSON, without escapes */
};

static struct note read_note(qp_str text)
{
    struct raw_walk w = {.rest = text};
    struct note note = {0};
    if (text.n < 10 || memcmp(text.p, "{\"newer\":{", 10) != 0) {
        return note;
    }
    while (raw_each(&w)) {
        struct raw_walk in = {.rest = w.value};
        if (str_equal(w.key, QP_STR("why"))) {
            note.why = (qp_str){w.value.p + 1, w.value.n - 2};
            continue;
        }
        while (raw_each(&in)) {
            if (str_equal(in.key, QP_STR("since"))) {
                note.since = (qp_ms)real_parse(in.value);
            } else if (str_equal(in.key, QP_STR("builds"))) {
                note.builds = in.value;
            }
        }
    }
    return note;
}

/* Builds are ids: they have no character that JSON escapes. */
static bool names_build(qp_str builds, qp_str build)
{
    struct raw_walk w = {.rest = builds};
    while (!str_is_none(builds) && raw_each(&w)) {
        if (str_equal((qp_str){w.value.p + 1, w.value.n - 2}, build)) {
            return true;
        }
    }
    return false;
}

/* Of builds beyond the limit the oldest is forgotten, and may be asked again. */
static void put_builds(struct buf *out, qp_str builds, qp_str build)
{
    struct raw_walk w = {.rest = builds};
    struct raw_walk count = {.rest = builds};
    size_t have = 0;
    while (!str_is_none(builds) && raw_each(&count)) {
        have++;
    }
    buf_text(out, "[");
    while (!str_is_none(builds) && raw_each(&w)) {
        if (have - w.index < LIMIT_NEWER_BUILDS) {
            buf_printf(out, "%.*s,", STR_ARG(w.value));
        }
    }
    buf_printf(out, "\"%.*s\"]", STR_ARG(build));
}

bool told_takes(void *state, qp_str text, qp_str build, qp_ms now)
{
    struct note note = read_note(text);
    (void)state;
    return note.since == 0 || str_is_none(build) || now >= note.since + LIMIT_NEWER_BUILD_MS ||
           !names_build(note.builds, build);
}

qp_str told_note(void *state, qp_str text)
{
    struct note note = read_note(text);
    (void)state;
    return note.since == 0 ? QP_NONE : note.why;
}

/* ------------------------------------------------------------------------------------ what was said */

static int keep_text(struct arena *arena, struct buf *text, qp_str *out_text)
{
    int rc = buf_rc(text);
    if (rc == QP_OK && !arena_copy(arena, error_cut(buf_slice(text)), out_text)) {
        rc = QP_E_NOMEM;
    }
    buf_done(text);
    return rc;
}

static int park(struct turn *t, struct bringing *x, enum cursor_verdict verdict, struct buf *text)
{
    x->kind = RESULT_PARK;
    x->reason = str_from(cursor_code(verdict));
    return keep_text(turn_arena(t), text, &x->error);
}

/* The history is newer than the code: another build may know it. */
static int go_back(struct turn *t, struct bringing *x, const struct note *before, struct buf *why)
{
    qp_ms since = before->since > 0 ? before->since : bundle_now(t->bundle);
    qp_str sentence = buf_slice(why);
    struct buf out;
    buf_init(&out, store_env(t->bundle->commit->store), LIMIT_ERROR_TEXT_SIZE);
    sentence.n = sentence.n < WHY_SIZE ? sentence.n : WHY_SIZE;
    buf_printf(&out, "{\"newer\":{\"since\":%lld,\"builds\":", (long long)since);
    put_builds(&out, before->builds, x->build);
    buf_printf(&out, "},\"why\":\"%.*s\"}", STR_ARG(sentence));
    buf_done(why);
    x->kind = RESULT_BACK;
    return keep_text(turn_arena(t), &out, &x->error);
}

static int diverged(struct turn *t, const struct reader *r, const struct told *told,
                    struct bringing *x)
{
    char at[LOCATION_TEXT_SIZE];
    struct note before = read_note(x->note);
    struct side history;
    struct side code;
    struct buf text;
    bool newer;
    QP_TRY(read_location(r, told->at, "/at", at));
    QP_TRY(read_side(r, told->history, "/history", &history));
    QP_TRY(read_side(r, told->code, "/code", &code));
    newer = history.version > code.version;
    buf_init(&text, r->env, 0);
    if (newer && !str_is_none(x->build) &&
        (before.since == 0 || bundle_now(t->bundle) < before.since + LIMIT_NEWER_BUILD_MS)) {
        buf_printf(&text, "a newer build is awaited: at %s history has ", at);
        cursor_explain_side(&text, history.type, history.of, history.name, history.version);
        buf_printf(&text, ", build '%.*s' has ", STR_ARG(x->build));
        cursor_explain_side(&text, code.type, code.of, code.name, code.version);
        return go_back(t, x, &before, &text);
    }
    buf_printf(&text, "history and code differ at %s: history has ", at);
    cursor_explain_side(&text, history.type, history.of, history.name, history.version);
    buf_text(&text, ", the code has ");
    cursor_explain_side(&text, code.type, code.of, code.name, code.version);
    if (newer) {
        buf_text(&text, "; the history was written by newer code: run that code");
    }
    return park(t, x, CURSOR_DIVERGED, &text);
}

static int latent_event(const struct reader *r, qp_str text, struct buf *out)
{
    char at[LOCATION_TEXT_SIZE];
    struct raw_walk w = {.rest = text};
    struct side side;
    qp_str loc = QP_NONE;
    QP_TRY(read_side(r, text, "/left", &side));
    while (raw_each(&w)) {
        loc = str_equal(w.key, QP_STR("loc")) ? w.value : loc;
    }
    QP_TRY(read_location(r, loc, "/left", at));
    buf_printf(out, "%s ", at);
    cursor_explain_side(out, side.type, side.of, side.name, side.version);
    return QP_OK;
}

static int latent_events(const struct reader *r, const struct told *told, struct buf *out)
{
    struct raw_walk w = {.rest = told->left};
    size_t count = 0;
    if (str_is_none(told->left) || raw_first(told->left) != '[') {
        return refuse(r->err, "/left", "left has to be an array of what is left");
    }
    while (raw_each(&w)) {
        if (count++ < LIMIT_LATENT_NAMED) {
            buf_text(out, count > 1 ? "; " : "");
            QP_TRY(latent_event(r, w.value, out));
        }
    }
    if (count == 0) {
        return refuse(r->err, "/left", "left has to name what is left, and is empty");
    }
    if (count > LIMIT_LATENT_NAMED) {
        buf_printf(out, "; and %zu more", count - LIMIT_LATENT_NAMED);
    }
    return QP_OK;
}

static int latent(struct turn *t, const struct reader *r, const struct told *told,
                  struct bringing *x)
{
    char at[LOCATION_TEXT_SIZE];
    struct buf text;
    int rc;
    QP_TRY(read_location(r, told->at, "/at", at));
    buf_init(&text, r->env, 0);
    buf_printf(&text, "the code of %s ended, and its history goes on: ", at);
    rc = latent_events(r, told, &text);
    if (rc != QP_OK) {
        buf_done(&text);
        return rc;
    }
    buf_text(&text, "; keep these steps, or replace each one by removed");
    return park(t, x, CURSOR_LATENT, &text);
}

static int decided(struct turn *t, const struct told *told, struct bringing *x, struct qp_err *err)
{
    if (x->kind != RESULT_DONE) {
        return refuse(err, "/status", "a decision is not pending: send it when it is made");
    }
    x->output = str_is_none(x->told) ? x->output : x->told;
    x->behind = str_equal(told->keep, QP_STR("true")) || flow_is_blind(t, x->output);
    return flow_decided(t, x->output, err);
}

static int decision_result(struct turn *t, struct bringing *x, struct qp_err *err)
{
    struct told told = take_apart(str_is_none(x->told) ? QP_STR("{}") : x->told);
    struct reader r = {
        .env = store_env(t->bundle->commit->store), .arena = turn_arena(t), .err = err};
    if (x->kind != RESULT_OTHER) {
        return decided(t, &told, x, err);
    }
    if (str_equal(told.status, QP_STR("\"miss\""))) {
        x->kind = RESULT_BACK;
        x->counts = true;
        return QP_OK;
    }
    if (str_equal(told.status, QP_STR("\"diverged\""))) {
        return diverged(t, &r, &told, x);
    }
    if (str_equal(told.status, QP_STR("\"latent\""))) {
        return latent(t, &r, &told, x);
    }
    return refuse(err, "/status",
                  "of a decision the status is error, miss, diverged or latent, or there is none");
}

/* Results of activities are anything. Commands that ride on one are not applied: flows do not stay in the memory of
 * workers yet. */
static int activity_result(struct bringing *x, struct qp_err *err)
{
    struct told told = take_apart(str_is_none(x->told) ? QP_STR("{}") : x->told);
    x->behind = !str_is_none(told.flow);
    if (x->kind == RESULT_OTHER) {
        return refuse(err, "/status", "of an activity the status is success, pending or error");
    }
    if (!str_is_none(told.base) || !str_is_none(told.commands) || !str_is_none(told.keep)) {
        return refuse(err, "", "the task is an activity, and no decision: it has no commands");
    }
    return QP_OK;
}

int told_result(void *state, struct turn *t, struct bringing *x, struct qp_err *err)
{
    int rc;
    (void)state;
    if (!str_equal(t->site.addr, FLOW_ADDRESS)) {
        return activity_result(x, err);
    }
    rc = decision_result(t, x, err);
    if (rc == QP_E_SHAPE) {
        x->word = decision_word(err->text);
        x->parks = "decision_refused";
    }
    return rc;
}

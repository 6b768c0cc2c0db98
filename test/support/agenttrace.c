/* agenttrace.c - the steps of a trace, one function each, and the comparison of states */
#include "support/agenttrace.h"

#include <math.h>
#include <stdio.h>

#include "agent/show.h"
#include "support/tracecompare.h"

struct player {
    struct arena arena;
    struct arena decision; /* of the draft */
    const struct tracestage *stage;
    const struct instance *instance; /* as it stood when it was last looked at */
    const struct json *trace;
    const struct json *step;
    int64_t now_ms;
    struct tracecompare compare;
    struct buf *seen;
    struct qp_err *err;
    bool started;
    bool stuck;
};

/* Want of memory has no place. */
#define POINT(p, rc, ...) ((rc) == QP_E_NOMEM ? (rc) : err_point((p)->err, (rc), __VA_ARGS__))

/* ------------------------------------------------------------------------------------ comparing */

static void tell_stuck(struct player *p, const char *path, const char *expected, const char *got)
{
    p->stuck = true;
    tracecompare_tell(&p->compare, path, expected, got);
}

static int compare_text(struct player *p, const char *path, const struct json *expected,
                        qp_str json, bool whole)
{
    struct json *got = NULL;
    if (expected == NULL) {
        return QP_OK;
    }
    QP_TRY(json_build(p->arena.env, json, NULL, &got));
    tracecompare(&p->compare, path, (struct tracepair){expected, got}, whole);
    json_free(got);
    return QP_OK;
}

static int look(struct player *p)
{
    return p->stage->see(p->stage->context, &p->arena, &p->instance);
}

static int compare_state(struct player *p)
{
    struct buf text;
    struct json_writer w;
    buf_init(&text, p->arena.env, 0);
    json_writer_init(&w, &text);
    int rc = look(p);
    if (rc == QP_OK) {
        show_instance(&w, p->instance);
        rc = json_writer_done(&w);
    }
    if (rc == QP_OK && p->seen != NULL) {
        buf_str(p->seen, buf_slice(&text));
        buf_byte(p->seen, '\n');
    }
    if (rc == QP_OK) {
        rc = compare_text(p, "", json_get(p->step, QP_STR("state")), buf_slice(&text), false);
    }
    buf_done(&text);
    return rc;
}

/* -------------------------------------------------------------------------------------- reading */

static int bad(struct player *p, const char *key, const char *what)
{
    return err_point(p->err, err_set(p->err, QP_E_SHAPE, "%s %s", key, what), "/%s", key);
}

static qp_str text_of(const struct json *object, const char *key)
{
    qp_str text = QP_NONE;
    return json_as_str(json_get(object, str_from(key)), &text) ? text : QP_NONE;
}

/* A text or null; absent is null. */
static int opaque(struct player *p, const struct json *object, const char *key, qp_str *out_text)
{
    const struct json *value = json_get(object, str_from(key));
    *out_text = QP_NONE;
    if (value == NULL || json_is(value, JSON_KIND_NULL) || json_as_str(value, out_text)) {
        return QP_OK;
    }
    return bad(p, key, "must be a string or null");
}

static int read_work(struct player *p, struct instance_report *out)
{
    qp_str text = QP_NONE;
    size_t i = 1;
    if (!json_as_str(json_get(p->step, QP_STR("work")), &text) || text.n < 3 || text.p[0] != 'b') {
        return bad(p, "work", "must be 'b', the branch, '/' and the position, as b0/1p0");
    }
    for (; i < text.n && i < 16 && text.p[i] >= '0' && text.p[i] <= '9'; i++) {
        out->branch_key = out->branch_key * 10 + (text.p[i] - '0');
    }
    if (i == 1 || i >= text.n || text.p[i] != '/') {
        return bad(p, "work", "must be 'b', the branch, '/' and the position, as b0/1p0");
    }
    out->position = (qp_str){text.p + i + 1, text.n - i - 1};
    return QP_OK;
}

static int read_error(struct player *p, struct state_error *out)
{
    const struct json *error = json_get(p->step, QP_STR("error"));
    if (error == NULL || json_is(error, JSON_KIND_NULL)) {
        return state_error_make(&p->arena, QP_NONE, QP_NONE, QP_NONE, out);
    }
    int rc = state_error(&p->arena, error, p->err, out);
    return rc == QP_E_SHAPE ? POINT(p, rc, "/error") : rc;
}

/* Absent, null and false: no retry. What is no number >= 0 fails the task for that reason. */
static int read_retry(struct player *p, struct instance_report *out)
{
    const struct json *delay = json_get(p->step, QP_STR("retryDelay"));
    double seconds = 0;
    bool truth = true;
    if (delay == NULL || json_is(delay, JSON_KIND_NULL) ||
        (json_as_bool(delay, &truth) && !truth)) {
        return QP_OK;
    }
    if (json_as_real(delay, &seconds) && seconds >= 0) {
        out->retries = true;
        out->retry_delay_ms = seconds > 1e12 ? (int64_t)1e15 : (int64_t)llround(seconds * 1000);
        return QP_OK;
    }
    return state_error_make(&p->arena, QP_STR("retry_delay"), QP_STR("retry_delay"),
                            QP_STR("retryDelay must be a number >= 0"), &out->error);
}

/* ---------------------------------------------------------------------------------------- steps */

static int do_start(struct player *p)
{
    qp_str name = text_of(p->trace, "name");
    qp_str input;
    qp_str properties;
    if (p->started) {
        return bad(p, "do", "must be start in the first step only");
    }
    QP_TRY(opaque(p, p->trace, "input", &input));
    QP_TRY(opaque(p, p->trace, "properties", &properties));
    p->started = true;
    return p->stage->start(p->stage->context, p->now_ms, name, input, properties);
}

static int compare_run(struct player *p, const struct json *run, const char *path,
                       const struct draft *d, const struct branch *branch, qp_str given)
{
    static const char *const keys[] = {"index", "branch", "type", "given"};
    struct buf text;
    struct json_writer w;
    int rc = QP_OK;
    buf_init(&text, p->arena.env, 0);
    for (size_t i = 0; i < ARRAY_COUNT(keys) && rc == QP_OK; i++) {
        char longer[160];
        const struct json *expected = json_get(run, str_from(keys[i]));
        (void)snprintf(longer, sizeof(longer), "%s/%s", path, keys[i]);
        buf_reset(&text);
        json_writer_init(&w, &text);
        if (i < 2) {
            json_put_i64(&w, i == 0 ? d->index : branch->key);
        } else {
            json_put_str(&w, i == 2 ? str_from(hook_name(branch->call.hook)) : given);
        }
        rc = json_writer_done(&w);
        if (rc == QP_OK) {
            rc = compare_text(p, longer, expected, buf_slice(&text), true);
        }
    }
    buf_done(&text);
    return rc;
}

static void write_reply(struct json_writer *w, const struct draft_reply *reply)
{
    static const char *const names[] = {[REPLY_SCHEDULED] = "scheduled",
                                        [REPLY_COMPLETED] = "completed",
                                        [REPLY_MODIFIED] = "modified"};
    json_begin_object(w);
    json_key(w, QP_STR("status"));
    json_put_str(w, str_from(names[reply->status]));
    if (reply->status == REPLY_COMPLETED) {
        json_key(w, QP_STR("properties"));
        json_put_str(w, reply->properties);
        json_key(w, QP_STR("outputs"));
        json_begin_array(w);
        for (size_t i = 0; i < reply->output_count; i++) {
            json_put_raw(w, reply->outputs[i]);
        }
        json_end_array(w);
    }
    json_end_object(w);
}

static int play_execute(struct player *p, struct draft *d, const struct json *execute,
                        const char *path)
{
    const struct agent_work *works = NULL;
    size_t count = 0;
    struct draft_reply reply;
    struct buf text;
    struct json_writer w;
    int rc =
        work_read_all(&p->decision, json_get(execute, QP_STR("works")), p->err, &works, &count);
    if (rc != QP_OK) {
        return POINT(p, rc, "/works");
    }
    QP_TRY(draft_execute(d, works, count, p->err, &reply));
    buf_init(&text, p->arena.env, 0);
    json_writer_init(&w, &text);
    write_reply(&w, &reply);
    rc = json_writer_done(&w);
    if (rc == QP_OK) {
        rc = compare_text(p, path, json_get(execute, QP_STR("reply")), buf_slice(&text), true);
    }
    buf_done(&text);
    return rc;
}

static int play_executes(struct player *p, struct draft *d, const struct json *run,
                         const char *path)
{
    const struct json *executes = json_get(run, QP_STR("execute"));
    for (size_t i = 0; i < json_count(executes) && !d->modified; i++) {
        char longer[160];
        (void)snprintf(longer, sizeof(longer), "%s/execute/%zu/reply", path, i);
        int rc = play_execute(p, d, json_at(executes, i), longer);
        if (rc != QP_OK) {
            return POINT(p, rc, "/execute/%zu", i);
        }
    }
    return QP_OK;
}

static int play_end(struct player *p, struct draft *d, const struct json *run)
{
    const struct json *end = json_get(run, QP_STR("end"));
    qp_str properties = draft_handed(d);
    qp_str output = QP_NONE;
    if (json_get(end, QP_STR("properties")) != NULL) {
        QP_TRY(opaque(p, end, "properties", &properties));
    }
    QP_TRY(opaque(p, end, "output", &output));
    bool has_ended = json_get(end, QP_STR("output")) != NULL;
    return draft_post(d, properties, has_ended ? &output : NULL, p->err);
}

static int play_run(struct player *p, struct draft *d, const struct json *run, size_t number)
{
    const struct branch *branch = NULL;
    qp_str given;
    char path[64];
    (void)snprintf(path, sizeof(path), "/runs/%zu", number);
    if (!json_is(run, JSON_KIND_OBJECT)) {
        return err_set(p->err, QP_E_SHAPE, "a run must be an object");
    }
    QP_TRY(draft_branch(d, p->err, &branch, &given));
    if (branch == NULL) {
        tell_stuck(p, path, "another execution", "the end of the decision");
        return QP_OK;
    }
    QP_TRY(compare_run(p, run, path, d, branch, given));
    QP_TRY(play_executes(p, d, run, path));
    if (d->modified) {
        return QP_OK;
    }
    int rc = play_end(p, d, run);
    return rc == QP_OK ? QP_OK : POINT(p, rc, "/end");
}

static int park_modified(struct player *p)
{
    struct state_error error;
    QP_TRY(state_error_make(&p->arena, QP_STR("modified"), QP_STR("ModifiedDecider"),
                            QP_STR("the code of a known work has changed"), &error));
    return p->stage->failed(p->stage->context, p->now_ms, &error, true, p->err);
}

static int play_runs(struct player *p, struct draft *d, const struct json *runs)
{
    for (size_t i = 0; i < json_count(runs) && !p->stuck; i++) {
        if (d->modified) {
            (void)err_set(p->err, QP_E_SHAPE, "no run may follow a reply modified");
            return err_point(p->err, QP_E_SHAPE, "/runs/%zu", i);
        }
        int rc = play_run(p, d, json_at(runs, i), i);
        if (rc != QP_OK) {
            return POINT(p, rc, "/runs/%zu", i);
        }
    }
    return QP_OK;
}

static int do_decision(struct player *p)
{
    const struct json *runs = json_get(p->step, QP_STR("runs"));
    struct draft draft;
    if (!json_is(runs, JSON_KIND_ARRAY)) {
        return bad(p, "runs", "must be an array");
    }
    QP_TRY(look(p));
    if (state_is_over(p->instance)) {
        return QP_OK; /* refused, and nothing changes */
    }
    if (!p->instance->decision_ongoing || p->instance->parked) {
        tell_stuck(p, "/decision", "a decision that is out", "none");
        return QP_OK;
    }
    arena_reset(&p->decision);
    QP_TRY(p->stage->give(p->stage->context, &p->decision, &p->instance));
    draft_init(&draft, &p->decision, p->instance);
    QP_TRY(play_runs(p, &draft, runs));
    if (p->stuck) {
        return QP_OK;
    }
    if (draft.modified) {
        return park_modified(p);
    }
    if (!draft_is_finished(&draft)) {
        tell_stuck(p, "/runs", "the end of the decision", "another execution");
        return QP_OK;
    }
    return p->stage->decided(p->stage->context, p->now_ms, &draft, p->err);
}

static int do_fail(struct player *p)
{
    struct state_error error;
    QP_TRY(read_error(p, &error));
    int rc = p->stage->failed(p->stage->context, p->now_ms, &error, false, p->err);
    if (rc != QP_E_CONFLICT) {
        return rc;
    }
    QP_TRY(look(p));
    if (!state_is_over(p->instance)) {
        tell_stuck(p, "/decision", "a decision that is out", "none");
    }
    return QP_OK;
}

static int do_retry(struct player *p)
{
    return p->stage->retry(p->stage->context, p->now_ms);
}

static int do_lost(struct player *p)
{
    return p->stage->lost(p->stage->context);
}

static int do_restart(struct player *p)
{
    return p->stage->restart(p->stage->context);
}

static int do_timers(struct player *p)
{
    return p->stage->timers(p->stage->context, p->now_ms);
}

static int do_event(struct player *p)
{
    qp_str name = QP_NONE;
    qp_str input;
    if (!json_as_str(json_get(p->step, QP_STR("name")), &name)) {
        return bad(p, "name", "must be a string");
    }
    QP_TRY(opaque(p, p->step, "input", &input));
    int rc = p->stage->event(p->stage->context, p->now_ms, name, input, p->err);
    return rc == QP_E_LIMIT ? QP_OK : rc;
}

static int report(struct player *p, struct instance_report *r)
{
    QP_TRY(read_work(p, r));
    return p->stage->report(p->stage->context, p->now_ms, r);
}

static int do_on_start(struct player *p)
{
    return report(p, &(struct instance_report){.hook = HOOK_START});
}

static int do_on_timeout(struct player *p)
{
    return report(p, &(struct instance_report){.hook = HOOK_TIMEOUT});
}

static int do_on_success(struct player *p)
{
    struct instance_report r = {.hook = HOOK_SUCCESS};
    QP_TRY(opaque(p, p->step, "output", &r.output));
    return report(p, &r);
}

static int do_on_failure(struct player *p)
{
    struct instance_report r = {.hook = HOOK_FAILURE};
    QP_TRY(read_error(p, &r.error));
    QP_TRY(read_retry(p, &r));
    return report(p, &r);
}

static int do_mode(struct player *p)
{
    static const char *const names[] = {
        [MODE_RUN] = "run", [MODE_PAUSE] = "pause", [MODE_KILL] = "kill"};
    qp_str mode = text_of(p->step, "mode");
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (str_equal(mode, str_from(names[i]))) {
            return p->stage->mode(p->stage->context, p->now_ms, (enum instance_mode)i);
        }
    }
    return bad(p, "mode", "must be run, pause or kill");
}

static const struct {
    const char *name;
    int (*play)(struct player *p);
} deeds[] = {
    {"start", do_start},
    {"decision", do_decision},
    {"fail", do_fail},
    {"retry", do_retry},
    {"lost", do_lost},
    {"restart", do_restart},
    {"timers", do_timers},
    {"onEvent", do_event},
    {"onStart", do_on_start},
    {"onSuccess", do_on_success},
    {"onFailure", do_on_failure},
    {"onTimeout", do_on_timeout},
    {"mode", do_mode},
};

static int play_step(struct player *p)
{
    qp_str deed = QP_NONE;
    if (!json_is(p->step, JSON_KIND_OBJECT)) {
        return err_set(p->err, QP_E_SHAPE, "a step must be an object");
    }
    if (!json_as_i64(json_get(p->step, QP_STR("t")), &p->now_ms) || p->now_ms < 0) {
        return bad(p, "t", "must be a time in ms, an integer >= 0");
    }
    deed = text_of(p->step, "do");
    if (!p->started && !str_equal(deed, QP_STR("start"))) {
        return bad(p, "do", "must be start in the first step");
    }
    for (size_t i = 0; i < ARRAY_COUNT(deeds); i++) {
        if (str_equal(deed, str_from(deeds[i].name))) {
            return deeds[i].play(p);
        }
    }
    return bad(p, "do",
               "must be start, decision, fail, retry, lost, onEvent, onStart, onSuccess, "
               "onFailure, onTimeout, timers, mode or restart");
}

static int play_steps(struct player *p)
{
    const struct json *steps = json_get(p->trace, QP_STR("steps"));
    if (!json_is(json_get(p->trace, QP_STR("name")), JSON_KIND_STR)) {
        return bad(p, "name", "must be a string: the name of the workflow");
    }
    if (!json_is(steps, JSON_KIND_ARRAY)) {
        return bad(p, "steps", "must be an array");
    }
    for (size_t i = 0; i < json_count(steps) && !p->stuck; i++) {
        p->step = json_at(steps, i);
        p->compare.number = i + 1;
        int rc = play_step(p);
        if (rc != QP_OK && rc != QP_E_NOMEM && p->err->code != rc) {
            (void)err_set(p->err, rc, "%s", qp_code_text(rc)); /* a stage that gives no reason */
        }
        if (rc != QP_OK) {
            return POINT(p, rc, "/steps/%zu", i);
        }
        QP_TRY(compare_state(p));
    }
    return QP_OK;
}

int agenttrace_play_on(const struct tracestage *stage, const struct qp_env *env, qp_str text,
                       struct buf *out, struct buf *seen, struct qp_err *err,
                       size_t *out_differences)
{
    struct player p = {.stage = stage, .compare.out = out, .seen = seen, .err = err};
    struct json *trace = NULL;
    QP_TRY(json_parse(env, text, err, &trace));
    p.trace = trace;
    arena_init(&p.arena, env, 0);
    arena_init(&p.decision, env, 0);
    int rc = play_steps(&p);
    if (rc == QP_OK) {
        rc = buf_rc(out);
    }
    *out_differences = p.compare.differences;
    arena_done(&p.decision);
    arena_done(&p.arena);
    json_free(trace);
    return rc;
}

/* ------------------------------------------------------------------------------------- in memory */

struct in_memory {
    struct arena arena;
    struct instance instance;
};

static int memory_start(void *context, int64_t now_ms, qp_str name, qp_str input, qp_str properties)
{
    struct in_memory *m = context;
    instance_init(&m->instance, &m->arena, name, name);
    return instance_start(&m->instance, now_ms, input, properties);
}

static int memory_see(void *context, struct arena *arena, const struct instance **out_instance)
{
    (void)arena;
    *out_instance = &((struct in_memory *)context)->instance;
    return QP_OK;
}

static int memory_decided(void *context, int64_t now_ms, const struct draft *draft,
                          struct qp_err *err)
{
    return instance_decided(&((struct in_memory *)context)->instance, now_ms, draft, err);
}

static int memory_failed(void *context, int64_t now_ms, const struct state_error *error,
                         bool modified, struct qp_err *err)
{
    (void)modified;
    return instance_failed(&((struct in_memory *)context)->instance, now_ms, error, err);
}

static int memory_retry(void *context, int64_t now_ms)
{
    return instance_retry(&((struct in_memory *)context)->instance, now_ms, NULL);
}

static int memory_reissue(void *context)
{
    return instance_reissue(&((struct in_memory *)context)->instance);
}

static int memory_event(void *context, int64_t now_ms, qp_str name, qp_str input,
                        struct qp_err *err)
{
    return instance_event(&((struct in_memory *)context)->instance, now_ms, name, input, err);
}

static int memory_report(void *context, int64_t now_ms, const struct instance_report *report)
{
    return instance_report(&((struct in_memory *)context)->instance, now_ms, report);
}

static int memory_timers(void *context, int64_t now_ms)
{
    return instance_timers(&((struct in_memory *)context)->instance, now_ms);
}

static int memory_mode(void *context, int64_t now_ms, enum instance_mode mode)
{
    return instance_set_mode(&((struct in_memory *)context)->instance, now_ms, mode);
}

int agenttrace_play(const struct qp_env *env, qp_str text, struct buf *out, struct buf *seen,
                    struct qp_err *err, size_t *out_differences)
{
    struct in_memory m;
    struct tracestage stage = {.context = &m,
                               .start = memory_start,
                               .see = memory_see,
                               .give = memory_see,
                               .decided = memory_decided,
                               .failed = memory_failed,
                               .retry = memory_retry,
                               .lost = memory_reissue,
                               .restart = memory_reissue,
                               .event = memory_event,
                               .report = memory_report,
                               .timers = memory_timers,
                               .mode = memory_mode};
    arena_init(&m.arena, env, 0);
    int rc = agenttrace_play_on(&stage, env, text, out, seen, err, out_differences);
    arena_done(&m.arena);
    return rc;
}

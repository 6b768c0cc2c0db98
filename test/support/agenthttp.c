/* agenthttp.c - a trace through the endpoints of an agent port (see agenthttp.h) */
#include "support/agenthttp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "support/httpclient.h"
#include "support/tracecompare.h"

#define UUID_ROOM 256
#define PATH_ROOM 256
#define WORKS_MAX 200
#define BOUNDARY_MS 3000 /* between two steps that end waits */
#define REISSUE_MS 90000

/* A work of the trace, and the job that its task is in our hands. */
struct played_work {
    int64_t branch;
    qp_str name;
    qp_str position;
    bool is_task;
    bool is_wait;
    bool started;   /* in the trace, while it is checked */
    bool failed;    /* likewise, for good */
    bool late;      /* the trace says that it is */
    int64_t end_ms; /* of a wait, by the times of the trace; INT64_MAX: its event alone */
    char uuid[UUID_ROOM];
};

struct player {
    const struct qp_env *env;
    int port;
    const struct json *trace;
    const struct json *step;
    struct tracecompare compare;
    struct qp_err *err;
    bool stuck;
    char id[80];
    char environment[64];     /* of this play alone: no job of another comes */
    char decision[UUID_ROOM]; /* in hand; empty: none is */
    struct played_work works[WORKS_MAX];
    size_t work_count;
    size_t boundary; /* steps that end waits, so far */
    int64_t begun_ms;
    struct json *seen;
};

/* Times, ids, and what stands for them. */
static const char *const aside[] = {"timestamp", "triggered_at", "uuid", "id", "custom_id", NULL};

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void rest(int64_t ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void stick(struct player *p, const char *path, const char *expected, const char *got)
{
    if (!p->stuck) {
        tracecompare_tell(&p->compare, path, expected, got);
    }
    p->stuck = true;
}

/* ------------------------------------------------------------------------------------------- reading */

static qp_str text_of(const struct json *object, const char *key)
{
    qp_str text = QP_NONE;
    return json_as_str(json_get(object, str_from(key)), &text) ? text : QP_NONE;
}

static int64_t number_of(const struct json *object, const char *key, int64_t otherwise)
{
    int64_t number = otherwise;
    return json_as_i64(json_get(object, str_from(key)), &number) ? number : otherwise;
}

static bool is_deed(const struct json *step, const char *deed)
{
    return str_equal(text_of(step, "do"), str_from(deed));
}

static struct played_work *work_at(struct player *p, int64_t branch, qp_str position)
{
    for (size_t i = 0; i < p->work_count; i++) {
        if (p->works[i].branch == branch && str_equal(p->works[i].position, position)) {
            return &p->works[i];
        }
    }
    return NULL;
}

/* "b0/1p0" */
static struct played_work *work_of(struct player *p, const struct json *step)
{
    qp_str text = text_of(step, "work");
    const char *slash = text.n > 2 ? memchr(text.p, '/', text.n) : NULL;
    if (slash == NULL) {
        return NULL;
    }
    return work_at(p, strtoll(text.p + 1, NULL, 10),
                   (qp_str){slash + 1, text.n - (size_t)(slash + 1 - text.p)});
}

/* ------------------------------------------------------------------------ whether it can be played */

static int cannot(struct player *p, size_t step, const char *why)
{
    return err_set(p->err, QP_E_UNSUPPORTED, "step %zu: %s", step + 1, why);
}

static double real_of(const struct json *work, const char *key, double otherwise)
{
    double number = otherwise;
    return json_as_real(json_get(work, str_from(key)), &number) ? number : otherwise;
}

static int64_t end_of_wait(const struct json *work, int64_t trigger_ms)
{
    double at = real_of(work, "timestamp", -1e18);
    double after = real_of(work, "duration", -1);
    return at > -1e17   ? (int64_t)(at * 1000)
           : after >= 0 ? trigger_ms + (int64_t)(after * 1000)
                        : INT64_MAX;
}

static void add_work(struct player *p, const struct json *work, int64_t branch, int64_t trigger_ms)
{
    qp_str type = text_of(work, "type");
    struct played_work *w;
    if (p->work_count == WORKS_MAX || work_at(p, branch, text_of(work, "position")) != NULL) {
        return;
    }
    w = &p->works[p->work_count++];
    *w = (struct played_work){.branch = branch,
                              .name = text_of(work, "name"),
                              .position = text_of(work, "position"),
                              .is_wait = str_equal(type, QP_STR("wait")),
                              .end_ms = INT64_MAX};
    w->is_task = str_is_none(type) || str_equal(type, QP_STR("task"));
    if (w->is_wait) {
        w->end_ms = end_of_wait(work, trigger_ms);
    }
}

static void add_works(struct player *p, const struct json *step, int64_t trigger_ms)
{
    const struct json *runs = json_get(step, QP_STR("runs"));
    for (size_t i = 0; i < json_count(runs); i++) {
        const struct json *run = json_at(runs, i);
        const struct json *executes = json_get(run, QP_STR("execute"));
        for (size_t j = 0; j < json_count(executes); j++) {
            const struct json *works = json_get(json_at(executes, j), QP_STR("works"));
            for (size_t k = 0; k < json_count(works); k++) {
                add_work(p, json_at(works, k), number_of(run, "branch", 0), trigger_ms);
            }
        }
    }
}

/* The next task that was asked for and has not started is this one. */
static bool is_next(const struct player *p, const struct played_work *work)
{
    for (size_t i = 0; i < p->work_count; i++) {
        if (p->works[i].is_task && !p->works[i].started) {
            return &p->works[i] == work;
        }
    }
    return false;
}

static int check_report(struct player *p, const struct json *step, size_t i)
{
    struct played_work *work = work_of(p, step);
    bool starts = is_deed(step, "onStart");
    if (work == NULL || !work->is_task) {
        return cannot(p, i, "it is of no task");
    }
    if (starts && !work->started && !is_next(p, work)) {
        return cannot(p, i, "tasks do not start first in, first out");
    }
    if (!starts && !work->started) {
        return cannot(p, i, "a task ends that has not started");
    }
    work->started = true;
    work->late |= is_deed(step, "onTimeout");
    if (is_deed(step, "onFailure") && real_of(step, "retryDelay", -1) >= 0) {
        work->started = false;
    } else {
        work->failed |= is_deed(step, "onFailure");
    }
    return QP_OK;
}

/* What has failed for good begins again. */
static void begin_again(struct player *p)
{
    for (size_t i = 0; i < p->work_count; i++) {
        p->works[i].started = p->works[i].started && !p->works[i].failed;
        p->works[i].failed = false;
    }
}

/* When the decision that is out was triggered: by the step before it that left one ongoing. */
static int check(struct player *p)
{
    const struct json *steps = json_get(p->trace, QP_STR("steps"));
    int64_t trigger_ms = 0;
    for (size_t i = 0; i < json_count(steps); i++) {
        const struct json *step = json_at(steps, i);
        bool reports = is_deed(step, "onStart") || is_deed(step, "onSuccess") ||
                       is_deed(step, "onFailure") || is_deed(step, "onTimeout");
        if (is_deed(step, "decision")) {
            add_works(p, step, trigger_ms);
        }
        if (reports) {
            QP_TRY(check_report(p, step, i));
        }
        if (is_deed(step, "retry")) {
            begin_again(p);
        }
        trigger_ms = number_of(step, "t", 0);
    }
    for (size_t i = 0; i < p->work_count; i++) {
        p->works[i].started = p->works[i].failed = false;
    }
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------- asking */

/* The answer's status; its body as a tree, to be freed, NULL when it is none. */
static int ask(struct player *p, const char *method, const char *path, const char *body,
               struct json **out_body)
{
    struct hc_answer a = hc_call(p->port, NULL, method, path, body);
    int status = a.status;
    *out_body = NULL;
    if (a.body_size > 0 &&
        json_parse(p->env, (qp_str){a.body, a.body_size}, NULL, out_body) != QP_OK) {
        *out_body = NULL;
    }
    hc_done(&a);
    return status;
}

/* Where jobs are asked for. */
static int ask_job(struct player *p, struct json **out_job)
{
    char path[PATH_ROOM];
    (void)snprintf(path, sizeof path, "/env/%s/lang/javascript/job?wait=10s", p->environment);
    return ask(p, "GET", path, NULL, out_job);
}

/* A path of clients, with the environment. */
static void client_path(const struct player *p, const char *what, char out[PATH_ROOM])
{
    (void)snprintf(out, PATH_ROOM, "/api/v1/%s?app_env=%s", what, p->environment);
}

/* Fails the step unless the status is one of these. */
static bool tell(struct player *p, const char *method, const char *path, const char *body,
                 int status, int or_status)
{
    struct json *answer = NULL;
    char got[32];
    int is = ask(p, method, path, body, &answer);
    json_free(answer);
    (void)snprintf(got, sizeof got, "status %d", is);
    if (is != status && is != or_status) {
        stick(p, path, "the endpoint to take it", got);
    }
    return is == status;
}

/* {"key":value,..} of texts; a value that is none is null. */
struct pairs {
    const char *key;
    qp_str value;
};

static char *body_of(const struct player *p, const struct pairs *pairs, size_t count)
{
    struct json_writer w;
    struct buf out;
    buf_init(&out, p->env, 0);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    for (size_t i = 0; i < count; i++) {
        json_key(&w, str_from(pairs[i].key));
        json_put_str(&w, pairs[i].value);
    }
    json_end_object(&w);
    buf_byte(&out, '\0');
    return out.p; /* freed by its caller */
}

static void free_body(const struct player *p, char *body)
{
    mem_free(p->env, body);
}

/* ------------------------------------------------------------------------------------------- jobs */

static void keep_text(char out[UUID_ROOM], qp_str text)
{
    (void)snprintf(out, UUID_ROOM, "%.*s", STR_ARG(text));
}

/* The work whose task this is: the first of this name that was asked for and is in no hand. */
static struct played_work *take_task(struct player *p, const struct json *job)
{
    for (size_t i = 0; i < p->work_count; i++) {
        struct played_work *w = &p->works[i];
        if (w->is_task && !w->started && str_equal(w->name, text_of(job, "name"))) {
            w->started = true;
            keep_text(w->uuid, text_of(job, "uuid"));
            return w;
        }
    }
    return NULL;
}

/* One job, if there is one within the time: a decision is in hand then, or *out_work is the work whose task it is. */
static void take_job(struct player *p, struct played_work **out_work)
{
    struct json *job = NULL;
    int status = ask_job(p, &job);
    qp_str action = text_of(job, "action");
    *out_work = NULL;
    if (status != 200) {
        stick(p, "/job", "a job", "an error");
    } else if (str_equal(action, QP_STR("DecisionScheduled"))) {
        keep_text(p->decision, text_of(job, "uuid"));
    } else if (str_equal(action, QP_STR("TaskScheduled"))) {
        *out_work = take_task(p, job);
        if (*out_work == NULL) {
            stick(p, "/job", "a task that the trace knows", "another one");
        }
    } else {
        stick(p, "/job", "a job", "none in 10 s");
    }
    json_free(job);
}

static bool need_decision(struct player *p)
{
    struct played_work *work = NULL;
    if (p->decision[0] == '\0') {
        take_job(p, &work);
    }
    if (work != NULL) {
        stick(p, "/job", "a decision", "a task that has not started in the trace");
    }
    return !p->stuck;
}

/* Until its task is in hand; a decision that comes meanwhile is, too. */
static void need_task(struct player *p, const struct played_work *work)
{
    struct played_work *taken = NULL;
    while (!p->stuck && taken == NULL) {
        take_job(p, &taken);
    }
    if (!p->stuck && taken != work) {
        stick(p, "/job", "the task of this work", "that of another");
    }
}

/* --------------------------------------------------------------------------------------- the state */

static void look(struct player *p)
{
    char what[120];
    char path[PATH_ROOM];
    json_free(p->seen);
    p->seen = NULL;
    (void)snprintf(what, sizeof what, "instances/%s/decisions", p->id);
    client_path(p, what, path);
    if (ask(p, "GET", path, NULL, &p->seen) != 200) {
        stick(p, "/decisions", "the arrays", "an error");
    }
}

static size_t differences(struct player *p, struct buf *out)
{
    struct tracecompare c = {.out = out, .number = p->compare.number, .aside = aside};
    const struct json *expected = json_get(p->step, QP_STR("state"));
    if (expected != NULL) {
        tracecompare(&c, "", (struct tracepair){expected, p->seen}, false);
    }
    return c.differences;
}

/* What follows from a step commits soon behind it. */
static void compare_state(struct player *p)
{
    int64_t until = now_ms() + AGENTHTTP_MS;
    size_t count;
    struct buf out;
    buf_init(&out, p->env, 0);
    do {
        buf_reset(&out);
        look(p);
        count = p->stuck ? 0 : differences(p, &out);
        if (count > 0) {
            rest(20);
        }
    } while (count > 0 && now_ms() < until);
    p->compare.differences += count;
    buf_str(p->compare.out, buf_slice(&out));
    buf_done(&out);
}

/* ----------------------------------------------------------------------------------------- decisions */

static void decision_path(const struct player *p, const char *what, char out[UUID_ROOM + 32])
{
    (void)snprintf(out, UUID_ROOM + 32, "/decisions/%s/%s", p->decision, what);
}

/* How many steps before the one that ends this wait end others. A step ends it whose time is behind its end, or which is that of
 * timers at its end. */
static bool boundary_of(const struct player *p, int64_t end_ms, size_t *out_boundary)
{
    const struct json *steps = json_get(p->trace, QP_STR("steps"));
    size_t boundary = 0;
    for (size_t i = 0; i < json_count(steps); i++) {
        const struct json *step = json_at(steps, i);
        int64_t t = number_of(step, "t", 0);
        bool ends = is_deed(step, "timers");
        boundary += ends;
        if (i + 1 > p->compare.number && ends && t >= end_ms) {
            *out_boundary = boundary;
            return true;
        }
    }
    return false;
}

/* When the wait is to end, in seconds from now; < 0: as the trace has it. */
static double scaled(const struct player *p, const struct played_work *w)
{
    int64_t end = 0;
    size_t boundary = 0;
    if (!w->is_wait || w->end_ms <= number_of(p->step, "t", 0) || w->end_ms == INT64_MAX) {
        return -1;
    }
    if (!boundary_of(p, w->end_ms, &boundary)) {
        return 1e6; /* no step ends it */
    }
    end = p->begun_ms + (int64_t)boundary * BOUNDARY_MS - now_ms();
    return end > 0 ? (double)end / 1000 : 0;
}

static void write_work(struct player *p, struct json_writer *w, const struct json *work,
                       int64_t branch)
{
    struct json_walk walk = {0};
    const struct played_work *played = work_at(p, branch, text_of(work, "position"));
    double seconds = played == NULL ? -1 : scaled(p, played);
    json_begin_object(w);
    while (json_each(work, &walk)) {
        bool is_end =
            str_equal(walk.key, QP_STR("duration")) || str_equal(walk.key, QP_STR("timestamp"));
        bool is_limit = str_equal(walk.key, QP_STR("maxProcessingTime"));
        if ((seconds >= 0 && is_end) || (played != NULL && played->late && is_limit)) {
            continue;
        }
        json_key(w, walk.key);
        json_write_tree(w, walk.value);
    }
    if (seconds >= 0) {
        json_key(w, QP_STR("duration"));
        json_put_real(w, seconds);
    }
    if (played != NULL && played->late) {
        json_key(w, QP_STR("maxProcessingTime"));
        json_put_i64(w, 1);
    }
    json_end_object(w);
}

static char *works_body(struct player *p, const struct json *works, int64_t branch)
{
    struct json_writer w;
    struct buf out;
    buf_init(&out, p->env, 0);
    json_writer_init(&w, &out);
    json_begin_array(&w);
    for (size_t i = 0; i < json_count(works); i++) {
        write_work(p, &w, json_at(works, i), branch);
    }
    json_end_array(&w);
    buf_byte(&out, '\0');
    return out.p;
}

/* False: the decision ended as modified. */
static bool play_execute(struct player *p, const struct json *execute, int64_t branch,
                         const char *path)
{
    char *body = works_body(p, json_get(execute, QP_STR("works")), branch);
    const struct json *expected = json_get(execute, QP_STR("reply"));
    char where[UUID_ROOM + 32];
    struct json *reply = NULL;
    bool modified;
    decision_path(p, "execute", where);
    if (ask(p, "POST", where, body, &reply) != 200) {
        stick(p, path, "a reply", "an error");
    } else if (expected != NULL) {
        tracecompare(&p->compare, path, (struct tracepair){expected, reply}, true);
    }
    modified = str_equal(text_of(reply, "status"), QP_STR("modified"));
    json_free(reply);
    free_body(p, body);
    return !modified && !p->stuck;
}

static void play_end(struct player *p, const struct json *end)
{
    const struct json *output = json_get(end, QP_STR("output"));
    struct pairs pairs[2];
    size_t count = 0;
    char where[UUID_ROOM + 32];
    char *body;
    if (json_get(end, QP_STR("properties")) != NULL) {
        pairs[count++] = (struct pairs){"properties", text_of(end, "properties")};
    }
    if (output != NULL) {
        pairs[count++] = (struct pairs){"output", text_of(end, "output")};
    }
    body = body_of(p, pairs, count);
    decision_path(p, "branch", where);
    (void)tell(p, "POST", where, body, 200, 200);
    free_body(p, body);
}

/* False: the decision is over, or the trace is elsewhere. */
static bool play_run(struct player *p, const struct json *run, size_t number)
{
    const struct json *executes = json_get(run, QP_STR("execute"));
    char where[UUID_ROOM + 32];
    char path[64];
    struct json *given = NULL;
    bool goes_on = true;
    (void)snprintf(path, sizeof path, "/runs/%zu", number);
    decision_path(p, "branch", where);
    if (ask(p, "GET", where, NULL, &given) != 200 ||
        !str_equal(text_of(json_get(given, QP_STR("branch")), "type"), text_of(run, "type")) ||
        (json_get(run, QP_STR("given")) != NULL &&
         !str_equal(text_of(given, "properties"), text_of(run, "given")))) {
        stick(p, path, "this branch with these properties", "another one, or an error");
    }
    json_free(given);
    for (size_t i = 0; i < json_count(executes) && goes_on && !p->stuck; i++) {
        (void)snprintf(path, sizeof path, "/runs/%zu/execute/%zu/reply", number, i);
        goes_on = play_execute(p, json_at(executes, i), number_of(run, "branch", 0), path);
    }
    if (goes_on && !p->stuck) {
        play_end(p, json_get(run, QP_STR("end")));
    }
    return goes_on && !p->stuck;
}

static bool is_over(const struct player *p)
{
    qp_str status = text_of(p->seen, "status");
    return str_equal(status, QP_STR("completed")) || str_equal(status, QP_STR("interrupted"));
}

/* A decision on an instance that is over is refused, and changes nothing. */
static void do_decision(struct player *p)
{
    const struct json *runs = json_get(p->step, QP_STR("runs"));
    char where[UUID_ROOM + 32];
    struct json *rest_of = NULL;
    bool goes_on = !is_over(p) && need_decision(p);
    for (size_t i = 0; i < json_count(runs) && goes_on; i++) {
        goes_on = play_run(p, json_at(runs, i), i);
    }
    if (goes_on) {
        decision_path(p, "branch", where);
        if (ask(p, "GET", where, NULL, &rest_of) != 200 || json_count(rest_of) != 0) {
            stick(p, "/runs", "the end of the decision", "another branch, or an error");
        }
    }
    json_free(rest_of);
    p->decision[0] = '\0';
}

/* ------------------------------------------------------------------------------------ other steps */

static char *body_of_error(struct player *p, const char *status)
{
    const struct json *error = json_get(p->step, QP_STR("error"));
    const struct json *delay = json_get(p->step, QP_STR("retryDelay"));
    struct json_writer w;
    struct buf out;
    buf_init(&out, p->env, 0);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    if (status != NULL) {
        json_key(&w, QP_STR("status"));
        json_put_str(&w, str_from(status));
    }
    if (error != NULL) {
        json_key(&w, QP_STR("error"));
        json_write_tree(&w, error);
    }
    if (delay != NULL) {
        json_key(&w, QP_STR("retryDelay"));
        json_put_real(&w, real_of(p->step, "retryDelay", -1) > 0 ? 0.01 : 0);
    }
    json_end_object(&w);
    buf_byte(&out, '\0');
    return out.p;
}

static void do_fail(struct player *p)
{
    char where[UUID_ROOM + 32];
    char *body;
    if (is_over(p) || !need_decision(p)) {
        return;
    }
    body = body_of_error(p, NULL);
    decision_path(p, "fail", where);
    (void)tell(p, "POST", where, body, 200, 200);
    free_body(p, body);
    p->decision[0] = '\0';
}

static void do_retry(struct player *p)
{
    char what[120];
    char where[PATH_ROOM];
    (void)snprintf(what, sizeof what, "instances/%s/retry", p->id);
    client_path(p, what, where);
    if (tell(p, "POST", where, "{}", 200, 409)) {
        begin_again(p);
    }
}

/* No call comes for the decision until the engine gives it out again. */
static void do_lost(struct player *p)
{
    char before[UUID_ROOM];
    int64_t until = now_ms() + REISSUE_MS;
    struct json *job = NULL;
    if (is_over(p) || !need_decision(p)) {
        return;
    }
    memcpy(before, p->decision, sizeof before);
    while (now_ms() < until && strcmp(before, p->decision) == 0) {
        if (ask_job(p, &job) == 200 &&
            str_equal(text_of(job, "action"), QP_STR("DecisionScheduled"))) {
            keep_text(p->decision, text_of(job, "uuid"));
        }
        json_free(job);
    }
    if (strcmp(before, p->decision) == 0) {
        stick(p, "/decision", "another attempt", "none");
    }
}

static void do_event(struct player *p)
{
    const struct pairs pairs[] = {{"name", text_of(p->trace, "name")},
                                  {"instance_id", str_from(p->id)},
                                  {"event_name", text_of(p->step, "name")},
                                  {"event_input", text_of(p->step, "input")}};
    char *body = body_of(p, pairs, ARRAY_COUNT(pairs));
    char path[PATH_ROOM];
    client_path(p, "events", path);
    (void)tell(p, "POST", path, body, 200, 429);
    free_body(p, body);
}

static void do_on_start(struct player *p)
{
    struct played_work *work = work_of(p, p->step);
    if (work != NULL && !work->started) {
        need_task(p, work);
    }
}

static void report(struct player *p, char *body)
{
    const struct played_work *work = work_of(p, p->step);
    char where[UUID_ROOM + 32];
    if (work != NULL && work->uuid[0] != '\0') {
        (void)snprintf(where, sizeof where, "/tasks/%s", work->uuid);
        (void)tell(p, "POST", where, body, 200, 409);
    }
    free_body(p, body);
}

static void do_on_success(struct player *p)
{
    const struct pairs pairs[] = {{"status", QP_STR("completed")},
                                  {"output", text_of(p->step, "output")}};
    report(p, body_of(p, pairs, ARRAY_COUNT(pairs)));
}

static void do_on_failure(struct player *p)
{
    struct played_work *work = work_of(p, p->step);
    report(p, body_of_error(p, "failed"));
    if (work != NULL && real_of(p->step, "retryDelay", -1) >= 0) {
        work->started = false;
    } else if (work != NULL) {
        work->failed = true;
    }
}

static void do_timers(struct player *p)
{
    int64_t at;
    p->boundary++;
    at = p->begun_ms + (int64_t)p->boundary * BOUNDARY_MS;
    if (at > now_ms()) {
        rest(at - now_ms());
    }
}

static void do_mode(struct player *p)
{
    const struct pairs pairs[] = {{"name", text_of(p->trace, "name")},
                                  {"instance_id", str_from(p->id)},
                                  {"mode", text_of(p->step, "mode")}};
    char *body = body_of(p, pairs, ARRAY_COUNT(pairs));
    char path[PATH_ROOM];
    client_path(p, "instances", path);
    (void)tell(p, "PUT", path, body, 200, 200);
    free_body(p, body);
}

static void do_start(struct player *p)
{
    const struct pairs pairs[] = {{"programming_language", QP_STR("Javascript")},
                                  {"name", text_of(p->trace, "name")},
                                  {"input", text_of(p->trace, "input")},
                                  {"properties", text_of(p->trace, "properties")}};
    char *body = body_of(p, pairs, ARRAY_COUNT(pairs));
    struct json *answer = NULL;
    char path[PATH_ROOM];
    client_path(p, "instances", path);
    int status = ask(p, "POST", path, body, &answer);
    qp_str id = text_of(answer, "id");
    p->begun_ms = now_ms();
    if (status == 201 && id.n < sizeof p->id) {
        (void)snprintf(p->id, sizeof p->id, "%.*s", STR_ARG(id));
    } else {
        stick(p, "/start", "an id", "an error: is it the agent port?");
    }
    json_free(answer);
    free_body(p, body);
}

/* What the engine measures or does by itself is waited for, with the state. */
static void do_nothing(struct player *p)
{
    (void)p;
}

static const struct {
    const char *name;
    void (*play)(struct player *p);
} deeds[] = {
    {"start", do_start},
    {"decision", do_decision},
    {"fail", do_fail},
    {"retry", do_retry},
    {"lost", do_lost},
    {"restart", do_lost},
    {"timers", do_timers},
    {"onEvent", do_event},
    {"onStart", do_on_start},
    {"onSuccess", do_on_success},
    {"onFailure", do_on_failure},
    {"onTimeout", do_nothing},
    {"mode", do_mode},
};

static int play_step(struct player *p)
{
    for (size_t i = 0; i < ARRAY_COUNT(deeds); i++) {
        if (is_deed(p->step, deeds[i].name)) {
            deeds[i].play(p);
            if (!p->stuck) {
                compare_state(p);
            }
            return QP_OK;
        }
    }
    return err_set(p->err, QP_E_SHAPE, "step %zu: it says not what is done", p->compare.number);
}

static int play(struct player *p)
{
    const struct json *steps = json_get(p->trace, QP_STR("steps"));
    QP_TRY(check(p));
    for (size_t i = 0; i < json_count(steps) && !p->stuck; i++) {
        p->step = json_at(steps, i);
        p->compare.number = i + 1;
        QP_TRY(play_step(p));
    }
    return QP_OK;
}

int agenthttp_play(const struct qp_env *env, int port, qp_str text, struct buf *out,
                   struct qp_err *err, size_t *out_differences)
{
    struct player *p = mem_alloc(env, sizeof *p);
    struct json *trace = NULL;
    int rc;
    if (p == NULL) {
        return QP_E_NOMEM;
    }
    p->env = env;
    p->port = port;
    p->err = err;
    p->compare = (struct tracecompare){.out = out, .aside = aside};
    (void)snprintf(p->environment, sizeof p->environment, "trace-%lld-%lld", (long long)getpid(),
                   (long long)now_ms());
    rc = json_parse(env, text, err, &trace);
    if (rc == QP_OK) {
        p->trace = trace;
        rc = play(p);
        *out_differences = p->compare.differences;
    }
    json_free(p->seen);
    json_free(trace);
    mem_free(env, p);
    return rc;
}

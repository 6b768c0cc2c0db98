/* shaperun.c - a job of a shape, its workers and its sink (see shaperun.h) */
#include "support/shaperun.h"

#include <errno.h>
#include <inttypes.h>
#include <postgresql/libpq-fe.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernel/check.h"

#define JID QP_STR("shape")
#define ROOM 4 /* tasks in hand per worker; others stay in their stream */
#define STEPS_MAX 10000000
#define KEY_SIZE (LIMIT_ADDRESS_SIZE + 64)
#define SIGNAL_TTL_MS 3600000
#define WAIT_MAX_MS 60000 /* timers and second deliveries are nearer than this */

/* A task that was executed; its result is on the way. */
struct shaperun_call {
    struct shaperun_call *next;
    struct request_result request;
    struct shaperun *run;
    struct task *task;
    struct shaperun_key *key;
    char name[KEY_SIZE];
    char output[SHAPE_TEXT_SIZE];
};

void shaperun_fail(const struct shaperun *r, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (r->life > 0) {
        (void)fprintf(stderr, "%s, life %d: %s\n", r->shape->program->name, r->life, text);
        abort();
    }
    fail_msg("%s, step %lld, %lld kills%s: %s", r->shape->program->name, (long long)r->steps,
             (long long)r->kills, r->stepwise ? ", stepwise" : "", text);
    abort(); /* fail_msg does not come back */
}

static void must(const struct shaperun *r, int rc, const struct qp_err *err)
{
    if (rc != QP_OK) {
        shaperun_fail(r, "%s (%s)", err->text, qp_code_word(rc));
    }
}

/* ----------------------------------------------------------------------------------------- tasks */

static int64_t count_decisions(const struct shaperun *r)
{
    int64_t count = 0;
    for (const struct task *t = r->first; t != NULL; t = t->next) {
        count += str_equal(t->topic, QP_STR("decide"));
    }
    for (const struct shaperun_call *c = r->calls; c != NULL; c = c->next) {
        count += str_equal(c->task->topic, QP_STR("decide"));
    }
    return count;
}

static void take_task(void *context, struct task *task)
{
    struct shaperun *r = context;
    task->next = NULL;
    if (r->first == NULL) {
        r->first = task;
    } else {
        r->last->next = task;
    }
    r->last = task;
}

/* After a round: within one the next decision is handed out before the result that it follows from is answered. */
static void note_decisions(struct shaperun *r)
{
    int64_t count = r->shape == &shape_flow ? count_decisions(r) : 0;
    r->decisions_max = count > r->decisions_max ? count : r->decisions_max;
}

static struct shaperun_key *key_of(struct shaperun *r, const char *name)
{
    struct shaperun_key *key = omap_get(&r->sink, str_from(name));
    if (key == NULL) {
        key = mem_alloc(r->env, sizeof *key);
        QP_ASSERT(key != NULL);
        *key = (struct shaperun_key){0};
        QP_ASSERT(omap_put(&r->sink, str_from(name), key, NULL) == QP_OK);
    }
    return key;
}

static void print_key(const struct task *task, char out_name[KEY_SIZE])
{
    int used = snprintf(out_name, KEY_SIZE, "%.*s/%.*s/", STR_ARG(task->jid), STR_ARG(task->addr));
    for (size_t i = 0; i < LIMIT_GUID_SIZE; i++) {
        used += snprintf(out_name + used, KEY_SIZE - (size_t)used, "%02x", task->guid[i]);
    }
}

/* The raw call, in a log that outlives the process: one write, so that a kill leaves a line or none. */
static void log_call(const struct shaperun *r, const struct shaperun_call *c)
{
    char line[KEY_SIZE + 64];
    int n =
        snprintf(line, sizeof line, "%s %d %lld\n", c->name, r->life, (long long)c->task->tries);
    if (r->life > 0 && write(r->log_fd, line, (size_t)n) != n) {
        shaperun_fail(r, "log: errno %d", errno);
    }
}

static void call_forget(struct shaperun_call *c)
{
    struct shaperun *r = c->run;
    struct shaperun_call **link = &r->calls;
    while (*link != c) {
        link = &(*link)->next;
    }
    *link = c->next;
    c->task->service->room++;
    c->task->service->wants_messages = true;
    task_free(r->env, c->task);
    mem_free(r->env, c);
}

static void call_answered(struct engine *e, struct command *command, int rc, const char *why)
{
    struct shaperun_call *c =
        (struct shaperun_call *)((char *)command - offsetof(struct shaperun_call, request.command));
    (void)e;
    if (rc != QP_OK) {
        shaperun_fail(c->run, "the result of %s was refused: %s", c->name, why);
    }
    call_forget(c);
}

/* Whether the host's connection is one to PostgreSQL. */
static bool is_postgres(const struct shaperun *r)
{
    struct store_info info;
    store_info(r->store, &info);
    return strcmp(info.provider, "postgres") == 0;
}

/* out_row (may be NULL) gets the two numbers of the only row. */
static int host_exec_postgres(PGconn *native, const char *sql, int64_t out_row[2])
{
    PGresult *result = PQexec(native, sql);
    ExecStatusType status = PQresultStatus(result);
    for (int i = 0; out_row != NULL && status == PGRES_TUPLES_OK && i < 2; i++) {
        out_row[i] = strtoll(PQgetvalue(result, 0, i), NULL, 10);
    }
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? QP_OK : QP_E_IO;
}

static int host_row(void *context, int count, char **values, char **names)
{
    int64_t *row = context;
    (void)names;
    for (int i = 0; row != NULL && i < count; i++) {
        row[i] = strtoll(values[i], NULL, 10);
    }
    return 0;
}

static int host_exec(const struct shaperun *r, void *native, const char *sql, int64_t out_row[2])
{
    if (native == NULL) {
        return QP_OK;
    }
    if (is_postgres(r)) {
        return host_exec_postgres(native, sql, out_row);
    }
    return sqlite3_exec(native, sql, host_row, out_row, NULL) == SQLITE_OK ? QP_OK : QP_E_IO;
}

/* The effect that shares the result's commit. No constraint: a second row would be seen. */
static int host_effect(void *context, void *native)
{
    const struct shaperun_call *c = context;
    char sql[KEY_SIZE + 128];
    (void)snprintf(sql, sizeof sql, "INSERT INTO effect VALUES('%s',%d)", c->name, c->run->life);
    return host_exec(c->run, native, sql, NULL);
}

static int host_create(void *context, void *native)
{
    return host_exec(context, native, "CREATE TABLE IF NOT EXISTS effect(name TEXT, life INTEGER)",
                     NULL);
}

static void execute(struct shaperun *r, struct task *task)
{
    struct shaperun_call *c = mem_alloc(r->env, sizeof *c);
    QP_ASSERT(c != NULL);
    *c = (struct shaperun_call){.run = r, .task = task, .next = r->calls};
    r->calls = c;
    print_key(task, c->name);
    c->key = key_of(r, c->name);
    c->key->calls++;
    log_call(r, c);
    r->shape->execute(task->addr, task->input, c->output);
    c->request = (struct request_result){.command.answer = call_answered,
                                         .task = task,
                                         .output = str_from(c->output),
                                         .host = r->host ? host_effect : NULL,
                                         .host_context = c};
    request_result(&c->request);
    engine_submit(r->engine, &c->request.command);
}

/* ------------------------------------------------------------------------------- start and signals */

static void start_answered(struct engine *e, struct command *command, int rc, const char *why)
{
    struct request_start *start = (struct request_start *)command;
    struct shaperun *r = (struct shaperun *)((char *)start - offsetof(struct shaperun, start));
    (void)e;
    if (rc != QP_OK && rc != QP_E_EXISTS) {
        shaperun_fail(r, "start: %s", why);
    }
}

/* Also after a kill: whoever was not told asks again. */
static void submit_start(struct shaperun *r)
{
    struct qp_err err = {0};
    r->start =
        (struct request_start){.command.answer = start_answered,
                               .start = {.job = {.ref = {.ns = STORE_NS_DEFAULT},
                                                 .jid = JID,
                                                 .kind = r->shape->program->kind,
                                                 .workflow = str_from(r->shape->program->name)},
                                         .input = str_from(r->input)}};
    must(r, engine_number(r->engine, &r->start.start.job.ref.job, &err), &err);
    request_start(&r->start);
    engine_submit(r->engine, &r->start.command);
    r->started = true;
}

static void signal_answered(struct engine *e, struct command *command, int rc, const char *why)
{
    struct shaperun_signal *s =
        (struct shaperun_signal *)((char *)command -
                                   offsetof(struct shaperun_signal, request.command));
    (void)e;
    if (rc != QP_OK && rc != QP_E_EXISTS) {
        shaperun_fail(s->run, "signal %s: %s", s->name, why);
    }
    s->delivered = s->delivered || s->request.delivered;
    s->state = SIGNAL_DONE;
}

static void submit_signal(struct shaperun *r, struct shaperun_signal *s)
{
    bool extra = str_equal(str_from(s->name), FLOW_EXTRA);
    s->request = (struct request_signal){.command.answer = signal_answered,
                                         .signal = {.ns = STORE_NS_DEFAULT,
                                                    .topic = FLOW_TOPIC,
                                                    .key = JID,
                                                    .guid = {(const char *)s->guid, sizeof s->guid},
                                                    .payload = str_from(s->name),
                                                    .code = 200,
                                                    .ttl_ms = extra ? 0 : SIGNAL_TTL_MS}};
    s->run = r;
    s->state = SIGNAL_SENT;
    request_signal(&s->request);
    engine_submit(r->engine, &s->request.command);
}

static void add_signal(struct shaperun *r, const char *name)
{
    struct shaperun_signal *s = &r->signals[r->signal_count++];
    QP_ASSERT(r->signal_count <= SHAPERUN_SIGNALS_MAX);
    (void)snprintf(s->name, sizeof s->name, "%s", name);
    (void)snprintf((char *)s->guid, sizeof s->guid, "signal-%s", name);
}

/* One in every other step; the first comes before the job does. */
static void work_signals(struct shaperun *r)
{
    for (int i = 0; i < r->signal_count; i++) {
        struct shaperun_signal *s = &r->signals[i];
        bool extra = str_equal(str_from(s->name), FLOW_EXTRA);
        if (s->state == SIGNAL_WAITS && r->steps >= (extra ? r->extra_at : 2 * i)) {
            submit_signal(r, s);
        }
    }
}

/* ------------------------------------------------------------------------------------ begin and end */

static void open_engine(struct shaperun *r)
{
    struct engine_options o = {.store = r->store,
                               .name = "shape",
                               .programs = &r->shape->program,
                               .program_count = 1,
                               .stepwise = r->stepwise};
    struct qp_err err = {0};
    must(r, engine_open(&o, &r->engine, &err), &err);
    for (size_t i = 0; i < SHAPE_TOPICS_MAX && r->shape->topics[i] != NULL; i++) {
        r->services[i] = (struct service){.topic = str_from(r->shape->topics[i]),
                                          .room = ROOM * r->workers,
                                          .context = r,
                                          .give = take_task};
        engine_serve(r->engine, &r->services[i]);
    }
}

void shaperun_init(struct shaperun *r)
{
    struct op create = {.kind = OP_host_call, .host_call = {.call = host_create, .context = r}};
    struct qp_err err = {0};
    r->kept = *store_env(r->store);
    r->env = &r->kept;
    r->input = r->input != NULL ? r->input : r->shape->input;
    omap_init(&r->sink, r->env);
    for (int i = 0; i < r->shape->signals; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%d", i);
        add_signal(r, name);
    }
    if (r->extra_at > 0) {
        add_signal(r, FLOW_EXTRA.p);
    }
    open_engine(r);
    if (r->host) {
        must(r, engine_op(r->engine, &create, &err), &err);
    }
}

void shaperun_kill(struct shaperun *r)
{
    r->late += engine_stats(r->engine).late;
    engine_abandon(r->engine);
    r->engine = NULL;
    while (r->first != NULL) {
        struct task *task = r->first;
        r->first = task->next;
        task_free(r->env, task);
    }
    while (r->calls != NULL) {
        r->calls->key->lost++;
        call_forget(r->calls);
    }
    for (int i = 0; i < r->signal_count; i++) {
        r->signals[i].state =
            r->signals[i].state == SIGNAL_SENT ? SIGNAL_WAITS : r->signals[i].state;
    }
    r->started = false;
    r->kills++;
}

void shaperun_resume(struct shaperun *r)
{
    open_engine(r);
}

void shaperun_done(struct shaperun *r)
{
    struct qp_err err = {0};
    QP_ASSERT(r->first == NULL && r->calls == NULL);
    must(r, engine_close(r->engine, &err), &err);
    for (struct omap_node *n = omap_seek(&r->sink, QP_NONE); n != NULL; n = omap_next(n)) {
        mem_free(r->env, omap_value(n));
    }
    omap_done(&r->sink);
}

/* ------------------------------------------------------------------------------------------- steps */

void shaperun_work(struct shaperun *r)
{
    if (!r->started && r->steps > 0) {
        submit_start(r);
    }
    work_signals(r);
    for (int64_t i = 0; i < r->workers && r->first != NULL; i++) {
        struct task *task = r->first;
        r->first = task->next;
        execute(r, task);
    }
}

static bool signals_wait(const struct shaperun *r)
{
    for (int i = 0; i < r->signal_count; i++) {
        if (r->signals[i].state != SIGNAL_DONE) {
            return true;
        }
    }
    return false;
}

/* To the moment at which the engine wants to go on. */
static void pass_time(struct shaperun *r)
{
    qp_ms until = engine_deadline(r->engine);
    qp_ms wait_ms = until - store_now(r->store);
    if (shaperun_is_done(r)) {
        return; /* what is due now is no business of the job */
    }
    if (until == INT64_MAX || wait_ms > WAIT_MAX_MS) {
        shaperun_fail(r, "it stands still, and is not done");
    } else if (wait_ms > 0 && r->time != NULL) {
        testenv_advance_ms(r->time, wait_ms);
    } else if (wait_ms > 0) {
        (void)usleep((useconds_t)wait_ms * 1000); /* a real process waits for real */
    }
}

void shaperun_round(struct shaperun *r)
{
    struct qp_err err = {0};
    bool busy = false;
    must(r, engine_round(r->engine, &busy, &err), &err);
    note_decisions(r);
    r->steps++;
    if (r->steps > STEPS_MAX) {
        shaperun_fail(r, "it does not come to an end");
    }
    if (r->check_every > 0 && r->steps % r->check_every == 0) {
        shaperun_check(r, false);
    }
    if (!busy && r->started && r->first == NULL && r->calls == NULL && !signals_wait(r)) {
        pass_time(r);
    }
}

static int visit_job(void *context, const void *row)
{
    const struct job_row *job = row;
    *(bool *)context = job->completions == 1 && str_equal(job->jid, JID);
    return QP_OK;
}

bool shaperun_is_done(struct shaperun *r)
{
    struct scan jobs = {.table = TABLE_job, .index = -1, .limit = 1};
    struct qp_err err = {0};
    bool done = false;
    must(r, store_scan(r->store, &jobs, &done, visit_job, &err), &err);
    return done;
}

void shaperun_finish(struct shaperun *r)
{
    struct qp_err err = {0};
    do {
        shaperun_work(r);
        shaperun_round(r);
    } while (!r->started || r->first != NULL || r->calls != NULL || signals_wait(r) ||
             !shaperun_is_done(r));
    must(r, engine_settle(r->engine, &err), &err);
    r->late += engine_stats(r->engine).late;
}

/* ------------------------------------------------------------------------------------------- verify */

struct finding {
    bool strict;
    char text[1024];
};

static int visit_finding(void *context, const struct qp_finding *f)
{
    struct finding *out = context;
    if (out->text[0] == '\0' && (out->strict || f->severity == QP_SEVERITY_ERROR)) {
        (void)snprintf(out->text, sizeof out->text, "%s: %s (%s)", f->rule, f->text, f->evidence);
    }
    return QP_OK;
}

void shaperun_check(struct shaperun *r, bool strict)
{
    struct finding finding = {.strict = strict};
    struct qp_check_result result;
    struct qp_err err = {0};
    must(r, check_run(r->store, &(struct check_options){0}, &finding, visit_finding, &result, &err),
         &err);
    if (finding.text[0] != '\0') {
        shaperun_fail(r, "fsck: %s", finding.text);
    }
    r->checks++;
}

static int visit_output(void *context, const void *row)
{
    const struct job_row *job = row;
    char *out = context;
    QP_ASSERT(job->output.n < SHAPE_TEXT_SIZE);
    memcpy(out, job->output.p, job->output.n);
    out[job->output.n] = '\0';
    return job->state == JOB_COMPLETED && job->completions == 1 ? QP_OK : QP_E_CONFLICT;
}

void shaperun_output(struct shaperun *r, char out_text[SHAPE_TEXT_SIZE])
{
    struct scan jobs = {.table = TABLE_job, .index = -1, .limit = 1};
    struct qp_err err = {0};
    must(r, store_scan(r->store, &jobs, out_text, visit_output, &err), &err);
}

struct host_count {
    const struct shaperun *run;
    int64_t row[2]; /* effects, and their keys */
    bool native;
};

static int host_count(void *context, void *native)
{
    struct host_count *h = context;
    h->native = native != NULL;
    return host_exec(h->run, native, "SELECT count(*), count(DISTINCT name) FROM effect", h->row);
}

static void verify_host(struct shaperun *r)
{
    struct host_count h = {.run = r};
    struct op count = {.kind = OP_host_call, .host_call = {.call = host_count, .context = &h}};
    struct qp_err err = {0};
    must(r, engine_op(r->engine, &count, &err), &err);
    if (h.native && (h.row[0] != h.row[1] || h.row[0] != (int64_t)r->sink.count)) {
        shaperun_fail(r, "%lld effects of %lld keys, and %zu keys were called", (long long)h.row[0],
                      (long long)h.row[1], r->sink.count);
    }
}

static void verify_sink(struct shaperun *r)
{
    int64_t tasks = r->shape->task_count(shape_number(str_from(r->input)));
    for (struct omap_node *n = omap_seek(&r->sink, QP_NONE); n != NULL; n = omap_next(n)) {
        const struct shaperun_key *key = omap_value(n);
        if (key->calls != 1 + key->lost) {
            shaperun_fail(r, "%.*s was called %lld times, and %lld were lost by a kill",
                          STR_ARG(omap_key(n)), (long long)key->calls, (long long)key->lost);
        }
    }
    if (tasks >= 0 && (int64_t)r->sink.count != tasks) {
        shaperun_fail(r, "%zu tasks were called instead of %lld", r->sink.count, (long long)tasks);
    }
}

void shaperun_verify(struct shaperun *r)
{
    char want[SHAPE_TEXT_SIZE];
    char got[SHAPE_TEXT_SIZE];
    r->shape->expect(shape_number(str_from(r->input)), want);
    shaperun_output(r, got);
    if (r->extra_at == 0 && strcmp(want, got) != 0) {
        shaperun_fail(r, "the output is '%s' instead of '%s'", got, want);
    }
    if (r->decisions_max > 1) {
        shaperun_fail(r, "%lld decisions were in hand at once", (long long)r->decisions_max);
    }
    verify_sink(r);
    if (r->host) {
        verify_host(r);
    }
    shaperun_check(r, true);
}

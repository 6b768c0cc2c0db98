/* graphrun.c - graphs under test (see graphrun.h) */
#include "support/graphrun.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/json.h"
#include "carto/face.h"
#include "carto/import.h"
#include "flow/face.h"
#include "graph/action.h"
#include "graph/start.h"
#include "kernel/filter.h"
#include "kernel/single.h"
#include "store/error.h"
#include "support/deploy.h"
#include "support/enginetest.h"
#include "support/files.h"

#define ROOM 1000
#define ROUNDS_MAX 1000000

static void must(int rc, const struct qp_err *err)
{
    if (rc != QP_OK) {
        fail_msg("%s (%s)", err->text, qp_code_word(rc));
    }
}

/* ---------------------------------------------------------------------------------------- the engine */

static void take_task(void *context, struct task *task)
{
    struct graphrun *r = context;
    task->next = NULL;
    if (r->first == NULL) {
        r->first = task;
    } else {
        r->last->next = task;
    }
    r->last = task;
}

static void engine_begin(struct graphrun *r)
{
    struct qp_err err = {0};
    struct engine_options o = {.store = r->f.s, .name = "graph", .stepwise = r->stepwise};
    const struct face *kinds[] = {&single_face, &graph_face, &flow_face,
                                  r->traversals != NULL ? r->traversals : &carto_face, &agent_face};
    must(faces_open(&(struct face_options){.env = &r->f.t.env}, kinds, ARRAY_COUNT(kinds),
                    &r->faces),
         &err);
    r->library = graph_library(r->faces);
    agents_lead(faces_state(r->faces, &agent_face), r->lead_ms);
    o.faces = r->faces;
    must(engine_open(&o, &r->e, &err), &err);
    must(names_refresh(r->faces->names, r->f.s, &err), &err);
    for (size_t i = 0; i < GRAPHRUN_TOPICS && r->topics[i] != NULL; i++) {
        r->services[i] = (struct service){
            .topic = str_from(r->topics[i]), .room = ROOM, .context = r, .give = take_task};
        engine_serve(r->e, &r->services[i]);
    }
}

static void drop_tasks(struct graphrun *r)
{
    while (r->first != NULL) {
        struct task *task = r->first;
        r->first = task->next;
        task_free(&r->f.t.env, task);
    }
}

void graphrun_kill(struct graphrun *r)
{
    engine_abandon(r->e);
    drop_tasks(r);
    faces_close(r->faces);
    storetest_reopen(&r->f);
    engine_begin(r);
    r->kills++;
}

void graphrun_restart(struct graphrun *r)
{
    graphrun_restart_after(r, NULL);
}

void graphrun_restart_after(struct graphrun *r, void (*change)(struct storetest *f))
{
    struct qp_err err = {0};
    must(engine_close(r->e, &err), &err);
    drop_tasks(r);
    faces_close(r->faces);
    storetest_reopen_after(&r->f, change);
    engine_begin(r);
}

static void split_topics(struct graphrun *r, const char *topics)
{
    static char words[GRAPHRUN_TOPICS][64];
    size_t n = 0;
    while (*topics != '\0') {
        size_t size = strcspn(topics, " ");
        assert_true(n < GRAPHRUN_TOPICS && size < sizeof words[0]);
        (void)snprintf(words[n], sizeof words[n], "%.*s", (int)size, topics);
        r->topics[n] = words[n];
        n++;
        topics += size + (topics[size] == ' ');
    }
}

void graphrun_init(struct graphrun *r, enum storetest_kind kind, const char *topics,
                   graphrun_work work)
{
    bool stepwise = r->stepwise;
    const struct face *traversals = r->traversals;
    const char *at = r->at;
    const int64_t *lead_ms = r->lead_ms;
    memset(r, 0, sizeof *r);
    r->stepwise = stepwise;
    r->traversals = traversals;
    r->at = at;
    r->f.at = at;
    r->lead_ms = lead_ms;
    r->work = work;
    storetest_init(&r->f, kind, 1);
    omap_init(&r->calls, &r->f.t.env);
    split_topics(r, topics);
    engine_begin(r);
}

void graphrun_done(struct graphrun *r)
{
    struct qp_err err = {0};
    must(engine_close(r->e, &err), &err);
    drop_tasks(r);
    faces_close(r->faces);
    for (struct omap_node *n = omap_seek(&r->calls, QP_STR("")); n != NULL; n = omap_next(n)) {
        mem_free(&r->f.t.env, omap_value(n));
    }
    omap_done(&r->calls);
    storetest_done(&r->f);
}

/* A round that failed: the process ends and another begins, or the engine goes on if it can. It cannot when the commit
 * stands (the failpoint behind it plays a death), since what is in there it does not know. */
static bool round_failed(struct graphrun *r, int rc, bool stands, bool *out_busy)
{
    enum qp_class class = qp_code_class(rc);
    bool dies = r->dies || stands || (class != QP_CLASS_RETRY && class != QP_CLASS_LIMIT);
    *out_busy = true;
    r->failed++;
    if (dies) {
        graphrun_kill(r);
    }
    return dies;
}

/* One round; true when the engine died after it. */
static bool round_or_kill(struct graphrun *r, bool *out_busy)
{
    struct qp_err err = {0};
    int64_t before = engine_stats(r->e).commits;
    int64_t stood = r->faults ? r->committed() : 0;
    int rc = engine_round(r->e, out_busy, &err);
    if (rc != QP_OK && r->faults) {
        return round_failed(r, rc, r->committed() > stood, out_busy);
    }
    must(rc, &err);
    r->commits += engine_stats(r->e).commits - before;
    if (r->after_round != NULL) {
        r->after_round(r);
    }
    if (r->kill_at > 0 && r->commits >= r->kill_at) {
        r->kill_at = 0;
        graphrun_kill(r);
        return true;
    }
    return false;
}

static struct graphrun *asking;

static void note_answer(struct engine *e, struct command *c, int rc, const char *why)
{
    (void)e;
    (void)c;
    (void)why;
    asking->answer = rc;
    asking->answered = true;
}

/* What the store's failure makes of an answer: whether it was done is not known. */
static bool is_told(const struct graphrun *r)
{
    enum qp_class class = qp_code_class(r->answer);
    return !r->faults || r->answer == QP_OK ||
           (class != QP_CLASS_RETRY && class != QP_CLASS_FATAL && class != QP_CLASS_UNKNOWN);
}

/* True when it was answered; false: the engine died first, or the store failed. */
static bool ask_once(struct graphrun *r, struct command *c)
{
    asking = r;
    r->answered = false;
    c->answer = note_answer;
    engine_submit(r->e, c);
    for (int i = 0; !r->answered; i++) {
        bool busy = false;
        assert_true(i < ROUNDS_MAX);
        if (round_or_kill(r, &busy) && !r->answered) {
            return false;
        }
    }
    return is_told(r);
}

/* Of something that was asked for several times: that it is there, or over, is our own doing. */
static int answer_again(const struct graphrun *r, bool again)
{
    bool ours = again && (r->answer == QP_E_EXISTS || r->answer == QP_E_CLOSED);
    return ours ? QP_OK : r->answer;
}

/* ----------------------------------------------------------------------------------------- deploying */

void graphrun_deploy(struct graphrun *r, const char *yaml)
{
    struct arena arena;
    struct report report;
    struct app *app = NULL;
    struct deploy d;
    struct qp_err err = {0};
    int rc;
    arena_init(&arena, &r->f.t.env, 0);
    report_init(&report, &arena);
    rc = app_compile(&r->f.t.env, str_from(yaml), &report, &app);
    if (rc != QP_OK) {
        fail_msg("line %d:%d: %.*s", report.first == NULL ? 0 : report.first->line,
                 report.first == NULL ? 0 : report.first->column,
                 STR_ARG(report.first == NULL ? QP_STR("?") : report.first->message));
    }
    do {
        d = (struct deploy){.app = app};
        deploy_init(&d);
    } while (!ask_once(r, &d.command));
    assert_true(r->answer == QP_OK || (r->answer == QP_E_EXISTS && r->kills + r->failed > 0));
    must(names_refresh(r->faces->names, r->f.s, &err), &err);
    app_free(app);
    arena_done(&arena);
}

void graphrun_deploy_vector(struct graphrun *r, const char *name)
{
    static char text[GRAPHRUN_TEXT_SIZE];
    char path[128];
    size_t size = 0;
    unsigned char *bytes;
    (void)snprintf(path, sizeof path, "test/graph/vectors/%s.yaml", name);
    bytes = files_get(path, &size);
    assert_non_null(bytes);
    assert_true(size < sizeof text);
    memcpy(text, bytes, size);
    text[size] = '\0';
    free(bytes);
    graphrun_deploy(r, text);
}

int graphrun_import(struct graphrun *r, const struct request_import *import)
{
    struct request_import request;
    do {
        request = *import;
        request.ns = STORE_NS_DEFAULT;
        request_import(&request);
    } while (!ask_once(r, &request.command));
    return r->answer;
}

int graphrun_announce(struct graphrun *r, const char *name)
{
    struct request_announce request;
    struct qp_err err = {0};
    do {
        request = (struct request_announce){.ns = STORE_NS_DEFAULT, .name = str_from(name)};
        request_announce(&request);
    } while (!ask_once(r, &request.command));
    must(names_refresh(r->faces->names, r->f.s, &err), &err);
    return r->answer;
}

/* ------------------------------------------------------------------------------- starts and signals */

/* A number for a job, as often as the store fails. */
static int64_t job_number(struct graphrun *r)
{
    struct qp_err err = {0};
    int64_t number = 0;
    int rc = engine_number(r->e, &number, &err);
    if (rc != QP_OK && r->faults) {
        bool busy;
        (void)round_failed(r, rc, false, &busy); /* there is no round to go on with */
        rc = engine_number(r->e, &number, &err);
    }
    must(rc, &err);
    return number;
}

typedef int (*start_decision)(struct engine *e, struct command *c, struct bundle *b);

/* decide NULL: as it should be. */
static int start_by(struct graphrun *r, const char *topic, const char *id, const char *input,
                    start_decision decide)
{
    bool told = false;
    int asked = 0;
    for (; !told; asked++) {
        struct request_start request = {
            .start = {.job = {.ref = {.ns = STORE_NS_DEFAULT, .job = job_number(r)},
                              .jid = id != NULL ? str_from(id) : QP_STR("its name gives another"),
                              .workflow = str_from(topic)},
                      .input = str_from(input),
                      .fresh = id == NULL}};
        request_start(&request);
        request.command.decide = decide != NULL ? decide : request.command.decide;
        told = ask_once(r, &request.command);
    }
    return answer_again(r, asked > 1);
}

int graphrun_start(struct graphrun *r, const char *topic, const char *id, const char *input)
{
    return start_by(r, topic, id, input, NULL);
}

static qp_str text_or_none(const char *text)
{
    return text == NULL ? QP_NONE : str_from(text);
}

static void keep_why(struct graphrun *r, const struct request_start *request)
{
    const char *why = refusal_text(&request->refusal, r->answer, "");
    (void)snprintf(r->refused, sizeof r->refused, "%s", why);
}

/* As the decision leaves it: the refusal's texts are gone with the commit. */
static struct graphrun *forking;
static int fork_decide(struct engine *e, struct command *c, struct bundle *b)
{
    int rc = start_decide(e, c, b);
    forking->answer = rc;
    keep_why(forking, (struct request_start *)c);
    return rc;
}

int graphrun_fork(struct graphrun *r, const struct graphrun_fork *fork)
{
    char workflow[QP_ID_SIZE];
    char version[QP_ID_SIZE];
    static char input[GRAPHRUN_TEXT_SIZE];
    const struct job_row *job = graphrun_job(r, fork->from);
    int64_t kind = job->kind;
    bool told = false;
    int asked = 0;
    (void)snprintf(workflow, sizeof workflow, "%.*s", STR_ARG(job->workflow));
    (void)snprintf(version, sizeof version, "%.*s", STR_ARG(job->version));
    (void)snprintf(input, sizeof input, "%.*s",
                   STR_ARG(graphrun_act(r, fork->from, "trigger,0")->input));
    forking = r;
    for (; !told; asked++) {
        struct request_start request = {
            .start = {.job = {.ref = {.ns = STORE_NS_DEFAULT, .job = job_number(r)},
                              .jid = str_from(fork->id),
                              .kind = kind,
                              .workflow = str_from(workflow),
                              .version = version[0] == '\0' ? QP_NONE : str_from(version),
                              .forked_from = str_from(fork->from)},
                      .input = str_from(fork->input != NULL ? fork->input : input),
                      .salt = text_or_none(fork->at)},
            .at = text_or_none(fork->at),
            .version = text_or_none(fork->version),
            .retries = fork->retries};
        request_start(&request);
        request.command.decide = fork_decide;
        told = ask_once(r, &request.command);
    }
    return answer_again(r, asked > 1);
}

static int inception_only(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_start *r = (struct request_start *)c;
    struct turn t = {.stepwise = true};
    struct start start = r->start;
    struct naming n = {.ns = start.job.ref.ns, .name = start.job.workflow, .input = start.input};
    struct qp_err err = {0};
    QP_TRY(faces_start(engine_kernel(e)->faces, b, &n, &err));
    start.job.kind = n.kind;
    start.job.version = n.version;
    return turn_start(&t, engine_kernel(e), b, &c->outcome, &start);
}

int graphrun_incept(struct graphrun *r, const char *topic, const char *id, const char *input)
{
    return start_by(r, topic, id, input, inception_only);
}

int graphrun_signal(struct graphrun *r, const char *topic, const char *payload, int64_t code)
{
    bool told = false;
    int asked = 0;
    qp_str guid = storetest_guid(50000 + ++r->signals);
    for (; !told; asked++) {
        struct request_signal request = {.signal = {.ns = STORE_NS_DEFAULT,
                                                    .topic = str_from(topic),
                                                    .guid = guid,
                                                    .payload = str_from(payload),
                                                    .code = code,
                                                    .keep = code == 202,
                                                    .ttl_ms = 600 * 1000}};
        request_signal(&request);
        told = ask_once(r, &request.command);
    }
    return answer_again(r, asked > 1);
}

int graphrun_signal_job(struct graphrun *r, const char *id, const char *name, const char *payload)
{
    bool told = false;
    int asked = 0;
    char own[16];
    (void)snprintf(own, sizeof own, "s%u", ++r->signals);
    for (; !told; asked++) {
        struct request_signal request = {.signal =
                                             {
                                                 .ns = STORE_NS_DEFAULT,
                                                 .topic = str_from(name),
                                                 .payload = str_from(payload),
                                                 .code = 200,
                                             },
                                         .to = {.id = str_from(id)},
                                         .id = str_from(own)};
        request_signal(&request);
        told = ask_once(r, &request.command);
    }
    return answer_again(r, asked > 1);
}

int graphrun_unpark(struct graphrun *r, const char *id)
{
    struct request_unpark request = {.ns = STORE_NS_DEFAULT, .jid = str_from(id)};
    request_unpark(&request);
    assert_true(ask_once(r, &request.command));
    return r->answer;
}

int graphrun_end(struct graphrun *r, const char *id, enum job_state state)
{
    bool told = false;
    int asked = 0;
    for (; !told; asked++) {
        struct request_end request = {.ns = STORE_NS_DEFAULT, .jid = str_from(id), .state = state};
        request_end(&request);
        told = ask_once(r, &request.command);
    }
    return answer_again(r, asked > 1);
}

/* ---------------------------------------------------------------------------------------------- work */

static void count_call(struct graphrun *r, qp_str topic)
{
    int64_t *count = omap_get(&r->calls, topic);
    if (count == NULL) {
        count = mem_alloc(&r->f.t.env, sizeof *count);
        assert_non_null(count);
        assert_int_equal(omap_put(&r->calls, topic, count, NULL), QP_OK);
    }
    ++*count;
}

int64_t graphrun_calls(struct graphrun *r, const char *topic)
{
    const int64_t *count = omap_get(&r->calls, str_from(topic));
    return count == NULL ? 0 : *count;
}

/* Behind this link, which is NULL or a task's. */
static struct task *take_behind(struct graphrun *r, struct task *before)
{
    struct task *task = before == NULL ? r->first : before->next;
    *(before == NULL ? &r->first : &before->next) = task->next;
    r->last = r->last == task ? before : r->last;
    count_call(r, task->topic);
    return task;
}

bool graphrun_ask(struct graphrun *r, struct command *c)
{
    return ask_once(r, c);
}

const struct task *graphrun_find(struct graphrun *r, const char *id, qp_str addr)
{
    const struct task *task = r->first;
    while (task != NULL && !(str_equal(task->jid, str_from(id)) && str_equal(task->addr, addr))) {
        task = task->next;
    }
    return task;
}

void graphrun_drop(struct graphrun *r, const struct task *task)
{
    struct task *before = NULL;
    struct task *at = r->first;
    while (at != task) {
        before = at;
        at = at->next;
        assert_non_null(at);
    }
    at = take_behind(r, before);
    at->service->room++;
    at->service->wants_messages = true;
    graphrun_forget(r, at);
}

struct task *graphrun_take(struct graphrun *r, const char *addr)
{
    struct task *before = NULL;
    struct task *task = r->first;
    while (task != NULL && !str_equal(task->addr, str_from(addr))) {
        before = task;
        task = task->next;
    }
    assert_non_null(task);
    return take_behind(r, before);
}

void graphrun_forget(struct graphrun *r, struct task *task)
{
    task_free(&r->f.t.env, task);
}

int graphrun_result(struct graphrun *r, const struct task *task, const char *output)
{
    struct request_result request = {.task = task, .output = str_from(output)};
    request_result(&request);
    assert_true(ask_once(r, &request.command));
    return r->answer;
}

/* The sentence of a worker's error, where its output has one. */
static qp_str sentence_of(struct arena *a, const char *output)
{
    struct error e;
    assert_int_equal(error_read(a, str_from(output), &e), QP_OK);
    return e.message;
}

/* The worker says its word until somebody has heard it; false: the engine died, and if it was not the last word,
 * somebody will be asked again. */
static bool report(struct graphrun *r, const struct task *task, const struct graphcall *c)
{
    int64_t kills = r->kills;
    bool told = false;
    int asked = 0;
    struct arena arena;
    arena_init(&arena, &r->f.t.env, 0);
    for (; !told && r->kills == kills; asked++) {
        struct request_result request = {
            .task = task,
            .kind = c->kind,
            .code = c->code,
            .pending_index = c->kind == RESULT_PENDING ? c->index + 1 : 0,
            .output = str_from(c->large != NULL       ? c->large
                               : c->output[0] == '\0' ? "{}"
                                                      : c->output),
            .data = c->kind == RESULT_ERROR && c->output[0] != '\0' ? str_from(c->output) : QP_NONE,
            .error = c->kind == RESULT_ERROR  ? sentence_of(&arena, c->output)
                     : c->kind == RESULT_PARK ? str_from(c->output)
                                              : QP_NONE,
            .reason = str_from(c->park),
        };
        request_result(&request);
        told = ask_once(r, &request.command);
    }
    arena_done(&arena);
    if (told && !((asked > 1 || r->too_late) &&
                  r->answer == QP_E_STALE)) { /* its first word was heard, after all */
        assert_int_equal(r->answer, QP_OK);
    }
    return r->kills == kills;
}

/* Executes the first task in hand; after a pending answer it goes on with the same one. */
static void execute(struct graphrun *r)
{
    static struct graphcall c;
    struct task *task = take_behind(r, NULL);
    int64_t kills = r->kills;
    bool open = true;
    for (int64_t i = 0; open; i++) {
        c = (struct graphcall){.topic = task->topic,
                               .job = task->jid,
                               .addr = task->addr,
                               .input = task->input,
                               .guid = task->guid,
                               .failures = task->failures,
                               .index = i,
                               .kind = RESULT_DONE};
        r->work(&c);
        open = !c.silent && report(r, task, &c) && c.kind == RESULT_PENDING;
    }
    if (r->kills == kills) { /* else its place went with its engine */
        task->service->room++;
        task->service->wants_messages = true;
    }
    graphrun_forget(r, task);
}

void graphrun_rest(struct graphrun *r)
{
    bool busy = true;
    for (int i = 0; busy; i++) {
        assert_true(i < ROUNDS_MAX);
        busy = round_or_kill(r, &busy) || busy;
    }
}

void graphrun_until(struct graphrun *r, const char *id, const char *addr, const char *digits)
{
    bool busy = true;
    while (busy && strcmp(graphrun_digits(r, id, addr), digits) != 0) {
        (void)round_or_kill(r, &busy); /* the loop asks for the digits, whoever brings them */
    }
    assert_string_equal(graphrun_digits(r, id, addr), digits);
}

void graphrun_settle(struct graphrun *r)
{
    bool busy = true;
    for (int i = 0; busy || r->first != NULL; i++) {
        assert_true(i < ROUNDS_MAX);
        if (r->first != NULL) {
            execute(r);
            busy = true;
        } else if (round_or_kill(r, &busy)) {
            busy = true;
        }
    }
}

void graphrun_wait(struct graphrun *r, qp_ms ms)
{
    qp_ms until = r->f.t.now_ms + ms;
    graphrun_settle(r);
    while (r->f.t.now_ms < until) {
        qp_ms due = engine_deadline(r->e);
        qp_ms step = due > r->f.t.now_ms && due < until ? due - r->f.t.now_ms
                     : due <= r->f.t.now_ms             ? 1
                                                        : until - r->f.t.now_ms;
        testenv_advance_ms(&r->f.t, step);
        graphrun_settle(r);
    }
}

/* -------------------------------------------------------------------------------------------- reading */

const struct job_row *graphrun_job(struct graphrun *r, const char *id)
{
    const struct job_name_row *name = storetest_row(
        &r->f, TABLE_job_name, &(struct job_name_row){.ns = STORE_NS_DEFAULT, .jid = str_from(id)});
    struct job_row key = {.ns = STORE_NS_DEFAULT, .job = name == NULL ? 0 : name->job};
    return name == NULL ? NULL : storetest_row(&r->f, TABLE_job, &key);
}

const struct act_row *graphrun_act(struct graphrun *r, const char *id, const char *addr)
{
    const struct job_row *job = graphrun_job(r, id);
    struct act_row key = {.ns = STORE_NS_DEFAULT, .addr = str_from(addr)};
    assert_non_null(job);
    key.job = job->job;
    return storetest_row(&r->f, TABLE_act, &key);
}

const char *graphrun_digits(struct graphrun *r, const char *id, const char *addr)
{
    const struct job_row *job = graphrun_job(r, id);
    return job == NULL ? "" : enginetest_digits_of(&r->f, job->job, addr);
}

const struct app *graphrun_app(struct graphrun *r, const struct job_row *job)
{
    struct arena arena;
    struct between between = {r->f.s, &arena};
    struct row_reader reader = reader_between(&between);
    const struct app *app = NULL;
    assert_non_null(job);
    arena_init(&arena, &r->f.t.env, 0);
    assert_int_equal(library_app(r->library, &reader, job->ns, job->version, &app), QP_OK);
    arena_done(&arena);
    return app;
}

static bool same_json(const struct qp_env *env, qp_str a, qp_str b)
{
    struct value x = value_raw(a);
    struct value y = value_raw(b);
    struct arena arena;
    bool same = false;
    arena_init(&arena, env, 0);
    assert_int_equal(value_same(&arena, &x, &y, &same), QP_OK);
    arena_done(&arena);
    return same;
}

void graphrun_expect(struct graphrun *r, const char *id, const char *status, const char *output)
{
    const struct job_row *job = graphrun_job(r, id);
    qp_str text;
    assert_non_null(job);
    text = job->state == JOB_COMPLETED ? job->output : job->error;
    if (strcmp(status_word(job->status), status) != 0) {
        fail_msg("job %s is %s, not %s: %.*s", id, status_word(job->status), status, STR_ARG(text));
    }
    if (output == NULL) {
        return;
    }
    if (job->state != JOB_COMPLETED) {
        if (memmem(text.p, text.n, output, strlen(output)) == NULL) {
            fail_msg("job %s: error %.*s, not %s", id, STR_ARG(text), output);
        }
    } else if (!same_json(&r->f.t.env, str_is_none(text) ? QP_STR("{}") : text, str_from(output))) {
        fail_msg("job %s: %.*s, not %s", id, STR_ARG(text), output);
    }
}

void graphrun_check(struct graphrun *r)
{
    enginetest_check_faces(r->f.s, r->faces);
}

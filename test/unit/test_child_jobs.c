/* test_child_jobs.c - jobs that call others, answer them, and end with them
 *
 * One program, whose jobs differ by their workflow:
 *
 *   caller   "call" calls what the scene says, and keeps in the job's data what it was answered
 *   child    "first" and "second", a task each; the scene says what comes of the first
 *   top      "crowd" calls so many of mid as the scene says, and a leaf that is detached; "stop" waits for a
 *            signal, and ends the job and those below it
 *   mid      "call" calls a leaf
 *   leaf     waits for a signal that never comes
 *   killer   "kill" ends the job "top"
 *
 * Where a commit could be lost, the engine dies after the first, the second, ... round, until a run was
 * through before it could.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/enginetest.h"
#include "support/shapes.h"

static struct enginetest x;

static struct {
    struct call_job call; /* of a caller */
    int calls;            /* so often */
    bool early;           /* a child answers after its first task */
    enum job_state fails; /* or fails */
    qp_str error;
    int64_t count;           /* of mid */
    bool descend;            /* what a killer says */
    enum close_policy close; /* of all that top and mid call */
} scene;

static bool is(const struct turn *t, const char *name)
{
    return str_equal(t->at.name, str_from(name));
}

static int describe(struct turn *t, struct op_act_create *row)
{
    row->category = is(t, "kill") ? 'B' : 'A';
    row->topic = is(t, "first") || is(t, "second") ? QP_STR("t") : QP_NONE;
    return QP_OK;
}

static int call_scene(struct turn *t)
{
    struct call_job call = scene.call;
    qp_str jid = QP_STR("?");
    int rc = QP_OK;
    call.out_jid = &jid;
    for (int i = 0; i < scene.calls && rc == QP_OK; i++) {
        rc = turn_call(t, &call);
    }
    rc = rc == QP_OK ? turn_data_put(t, QP_STR("called"), jid) : rc;
    return rc == QP_OK && call.detached && !str_is_none(jid)
               ? turn_send(t, t->site.addr, QP_STR("at once"), 200, QP_STR("\"id\""))
               : rc;
}

static int call_leaf(struct turn *t, bool detached)
{
    return turn_call(t, &(struct call_job){.workflow = QP_STR("leaf"),
                                           .kind = CAST_KIND,
                                           .input = QP_STR("1"),
                                           .jid = detached ? QP_STR("detached") : QP_NONE,
                                           .purpose = QP_STR("leaf"),
                                           .detached = detached,
                                           .close = scene.close});
}

static int call_crowd(struct turn *t)
{
    int rc = call_leaf(t, true);
    for (int64_t i = 0; i < scene.count && rc == QP_OK; i++) {
        struct call_job call = {.workflow = QP_STR("mid"),
                                .kind = CAST_KIND,
                                .input = QP_STR("1"),
                                .close = scene.close};
        rc = shape_print(t, &call.jid, "mid%lld", (long long)i);
        call.purpose = call.jid;
        rc = rc == QP_OK ? turn_call(t, &call) : rc;
    }
    return rc;
}

static int enter(struct turn *t)
{
    if (is(t, "call")) {
        return str_equal(t->job->workflow, QP_STR("mid")) ? call_leaf(t, false) : call_scene(t);
    }
    if (is(t, "crowd")) {
        return call_crowd(t);
    }
    return is(t, "wait") || is(t, "stop") ? turn_hook(t, QP_STR("h"), t->at.name, false)
                                          : turn_task(t, QP_STR("t"));
}

static int work(struct turn *t, struct work *out_work)
{
    qp_str code;
    int rc = QP_OK;
    if (is(t, "kill")) {
        rc = turn_end_other(t, QP_STR("nobody"), JOB_INTERRUPTED, QP_STR("410"), true);
        return rc == QP_OK
                   ? turn_end_other(t, QP_STR("top"), JOB_INTERRUPTED, QP_STR("410"), scene.descend)
                   : rc;
    }
    if (is(t, "call")) {
        rc = shape_add(t, "answers", 1);
        rc = rc == QP_OK ? shape_print(t, &code, "%lld", (long long)out_work->code) : rc;
        rc = rc == QP_OK ? turn_data_put(t, QP_STR("code"), code) : rc;
        rc = rc == QP_OK ? turn_data_put(t, QP_STR("payload"), out_work->output) : rc;
    }
    return rc;
}

static int spawn_first(struct turn *t)
{
    int rc = scene.early ? turn_answer_parent(t, 201, QP_STR("\"early\"")) : QP_OK;
    if (scene.fails != JOB_OPEN) {
        turn_fail(t, scene.fails, scene.error);
        return rc;
    }
    return rc == QP_OK ? turn_child(t, QP_STR("second"), QP_STR("1")) : rc;
}

static int spawn(struct turn *t, struct spawn *out_spawn)
{
    static const struct {
        const char *workflow;
        const char *children[2];
    } first[] = {{"caller", {"call"}}, {"child", {"first"}}, {"top", {"crowd", "stop"}},
                 {"mid", {"call"}},    {"leaf", {"wait"}},   {"killer", {"kill"}}};
    int rc = QP_OK;
    (void)out_spawn;
    if (is(t, "first")) {
        return spawn_first(t);
    }
    if (is(t, "stop")) {
        turn_fail(t, JOB_INTERRUPTED, QP_STR("410"));
        turn_descend(t);
    }
    for (size_t i = 0; t->act->category == 'D' && i < ARRAY_COUNT(first); i++) {
        for (size_t j = 0; j < 2 && first[i].children[j] != NULL && rc == QP_OK &&
                           str_equal(t->job->workflow, str_from(first[i].workflow));
             j++) {
            rc = turn_child(t, str_from(first[i].children[j]), QP_STR("1"));
        }
    }
    return rc;
}

static const struct program program = {.kind = CAST_KIND,
                                       .name = "kin",
                                       .describe = describe,
                                       .enter = enter,
                                       .work = work,
                                       .spawn = spawn};

/* ------------------------------------------------------------------------------------------ running */

static void open_scene(enum storetest_kind kind, bool stepwise)
{
    enginetest_init(&x, kind, NULL);
    x.programs[0] = &program;
    x.options.stepwise = stepwise;
    enginetest_open(&x);
}

static void submit(struct command *c)
{
    c->answer = enginetest_answered;
    engine_submit(x.e, c);
}

/* Asks for a job; the first round of `run` starts it. */
static int64_t start(const char *workflow, const char *jid)
{
    static struct request_start r;
    enginetest_fill_start(&x, &r, jid, "{}");
    r.start.job.workflow = str_from(workflow);
    submit(&r.command);
    return r.start.job.ref.job;
}

/* The task that a worker is done with, and its result, until that is answered. */
static struct {
    struct task *task;
    struct task as; /* stepwise, as if it had been delivered before */
    struct request_result result;
} work_done;

static void result_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    (void)e;
    (void)c;
    (void)why;
    assert_int_equal(rc, QP_OK);
    enginetest_forget(&x, work_done.task);
    work_done.task = NULL;
}

static void work_once(void)
{
    if (work_done.task == NULL && x.tasks != NULL) {
        work_done.task = x.tasks;
        work_done.as = *x.tasks;
        work_done.as.tries += x.options.stepwise ? 1 : 0;
        work_done.result = (struct request_result){
            .task = &work_done.as, .kind = RESULT_DONE, .output = QP_STR("ok")};
        request_result(&work_done.result);
        work_done.result.command.answer = result_answered;
        engine_submit(x.e, &work_done.result.command);
    }
}

/* Everything that there is to do, a commit at a time, tasks too. Dies after so many rounds; false: it was
 * through before. */
static bool run(int dies_after)
{
    struct qp_err err = {0};
    bool busy = true;
    int rounds = 0;
    for (int idle = 0; idle < 3; idle += !busy && x.tasks == NULL) {
        assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
        if (++rounds == dies_after) {
            work_done.task = NULL;
            enginetest_crash(&x);
            busy = true;
        }
        work_once();
        if (!busy) {
            testenv_advance_ms(&x.f.t, 1000); /* what was tried too early comes again */
        }
    }
    return dies_after > 0 && rounds >= dies_after;
}

static const struct job_row *job_of(const char *jid)
{
    const struct job_name_row *name = storetest_row(
        &x.f, TABLE_job_name, &(struct job_name_row){.ns = STORE_NS_DEFAULT, .jid = str_from(jid)});
    assert_non_null(name);
    return enginetest_job(&x, name->job);
}

static void assert_data(int64_t job, const char *name, const char *expected)
{
    const struct data_row *row = storetest_row(
        &x.f, TABLE_data,
        &(struct data_row){.ns = STORE_NS_DEFAULT, .job = job, .name = str_from(name)});
    assert_non_null(row);
    if (!str_equal(row->value, str_from(expected))) {
        fail_msg("%s is %.*s, not %s", name, STR_ARG(row->value), expected);
    }
}

static void set_call(const char *jid)
{
    memset(&scene, 0, sizeof scene);
    scene.calls = 1;
    scene.call = (struct call_job){.workflow = QP_STR("child"),
                                   .jid = jid == NULL ? QP_NONE : str_from(jid),
                                   .kind = CAST_KIND,
                                   .version = QP_STR("7"),
                                   .input = QP_STR("{\"a\":1}"),
                                   .policy = QP_STR("policy"),
                                   .purpose = QP_STR("call")};
}

/* ------------------------------------------------------------------------------------------- calls */

static void called_job(int64_t parent)
{
    const struct job_row *child = job_of("child");
    assert_int_equal(child->state, JOB_COMPLETED);
    assert_int_equal(child->parent_job, parent);
    assert_true(str_equal(child->parent_addr, QP_STR("call,0,0")));
    assert_true(str_equal(child->version, QP_STR("7")));
    assert_true(str_equal(child->workflow, QP_STR("child")));
    assert_true(str_equal(enginetest_act(&x, child->job, "trigger,0")->policy, QP_STR("policy")));
    child = job_of("child");
    assert_true(str_equal(enginetest_act(&x, child->job, "trigger,0")->input, QP_STR("{\"a\":1}")));
}

/* Proves that a called job runs once and answers once with its output, on every provider, step by step, and
 * when the engine dies after any round. */
static void test_call(void **state)
{
    bool died = true;
    (void)state;
    set_call("child");
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (int stepwise = 0; stepwise < 2; stepwise++) {
            died = true;
            for (int n = 1; died; n++) {
                int64_t parent;
                open_scene((enum storetest_kind)kind, stepwise != 0);
                parent = start("caller", "a");
                died = run(kind == STORETEST_MEMORY || n == 2 ? n : 0);
                assert_int_equal(storetest_count(&x.f, TABLE_job), 2);
                assert_int_equal(enginetest_job(&x, parent)->state, JOB_COMPLETED);
                assert_data(parent, "answers", "1");
                assert_data(parent, "code", "200");
                assert_data(parent, "payload", "ok");
                called_job(parent);
                enginetest_check(&x);
                enginetest_done(&x);
                died = died && (kind == STORETEST_MEMORY || n < 2);
            }
        }
    }
}

/* Proves that an id is made the same way whenever the call is made again, and differs between jobs and
 * purposes. */
static void test_ids(void **state)
{
    char ids[3][37];
    (void)state;
    for (int i = 0; i < 3; i++) {
        int64_t parent;
        const struct data_row *row;
        set_call(NULL);
        scene.calls = 2; /* the second finds the first, which is itself */
        scene.call.purpose = i == 2 ? QP_STR("other") : QP_STR("call");
        open_scene(STORETEST_MEMORY, false);
        parent = start("caller", "a");
        (void)run(0);
        assert_int_equal(storetest_count(&x.f, TABLE_job), 2);
        assert_data(parent, "answers", "1");
        row = storetest_row(
            &x.f, TABLE_data,
            &(struct data_row){.ns = STORE_NS_DEFAULT, .job = parent, .name = QP_STR("called")});
        assert_int_equal(row->value.n, 36);
        (void)snprintf(ids[i], sizeof ids[i], "%.*s", STR_ARG(row->value));
        (void)job_of(ids[i]);
        (void)start("caller", "b");
        (void)run(0);
        assert_int_equal(storetest_count(&x.f, TABLE_job), 4);
        enginetest_done(&x);
    }
    assert_string_equal(ids[0], ids[1]);
    assert_string_not_equal(ids[0], ids[2]);
}

/* Proves that whoever calls an id that somebody else has is told so. */
static void test_taken(void **state)
{
    (void)state;
    for (int detached = 0; detached < 2; detached++) {
        int64_t parent;
        set_call("child");
        scene.call.detached = detached != 0;
        open_scene(STORETEST_MEMORY, false);
        (void)start("leaf", "child");
        (void)run(0);
        parent = start("caller", "a");
        (void)run(0);
        assert_data(parent, "answers", "1");
        assert_data(parent, "code", "409");
        assert_data(parent, "payload",
                    "{\"code\":409,\"message\":\"the job's id is taken by another\",\"activity\":"
                    "\"call\",\"address\":\"call,0,0\",\"job\":\"child\"}");
        assert_int_equal(job_of("child")->state, JOB_OPEN);
        enginetest_check(&x);
        enginetest_done(&x);
    }
}

/* Proves the same of an input that no job may have. */
static void test_too_large(void **state)
{
    static char large[LIMIT_PAYLOAD_SIZE + 1];
    int64_t parent;
    (void)state;
    memset(large, '1', sizeof large);
    set_call("child");
    scene.call.input = (qp_str){large, sizeof large};
    open_scene(STORETEST_MEMORY, false);
    parent = start("caller", "a");
    (void)run(0);
    assert_data(parent, "answers", "1");
    assert_data(parent, "code", "413");
    assert_int_equal(storetest_count(&x.f, TABLE_job), 1);
    enginetest_check(&x);
    enginetest_done(&x);
}

#define AT_CALL "\"activity\":\"call\",\"address\":\"call,0,0\",\"job\":\"child\"}"

/* Proves what a parent hears of a child that did not complete. */
static void test_errors(void **state)
{
    static const struct {
        enum job_state state;
        const char *error;
        const char *code;
        const char *payload;
    } cases[] = {
        {JOB_FAILED, "{\"code\":410,\"message\":\"gone\"}", "410",
         "{\"code\":410,\"message\":\"gone\"," AT_CALL},
        {JOB_INTERRUPTED, "plain \"words\"", "500",
         "{\"code\":500,\"message\":\"plain \\\"words\\\"\"," AT_CALL},
        {JOB_CANCELLED, NULL, "500", "{\"code\":500,\"message\":\"cancelled\"," AT_CALL},
        {JOB_FAILED, "{\"code\":200}", "500",
         "{\"code\":500,\"message\":\"{\\\"code\\\":200}\"," AT_CALL},
        {JOB_FAILED, "[404]", "500", "{\"code\":500,\"message\":\"[404]\"," AT_CALL},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int64_t parent;
        set_call("child");
        scene.fails = cases[i].state;
        scene.error = cases[i].error == NULL ? QP_NONE : str_from(cases[i].error);
        open_scene(STORETEST_MEMORY, i % 2 == 0);
        parent = start("caller", "a");
        (void)run(0);
        assert_int_equal(job_of("child")->state, cases[i].state);
        assert_data(parent, "answers", "1");
        assert_data(parent, "code", cases[i].code);
        assert_data(parent, "payload", cases[i].payload);
        enginetest_check(&x);
        enginetest_done(&x);
    }
}

/* Proves that a detached job can be found from the one that called it, and answers nobody. */
static void test_detached(void **state)
{
    int64_t parent;
    (void)state;
    set_call("child");
    scene.call.detached = true;
    open_scene(STORETEST_MEMORY, false);
    parent = start("caller", "a");
    (void)run(0);
    assert_data(parent, "answers", "1");
    assert_data(parent, "payload", "\"id\"");
    assert_data(parent, "called", "child");
    assert_int_equal(job_of("child")->state, JOB_COMPLETED);
    assert_int_equal(job_of("child")->parent_job, parent);
    assert_true(str_is_none(job_of("child")->parent_guid));
    assert_int_equal(engine_stats(x.e).late, 0);
    enginetest_done(&x);
}

/* Proves that a call may begin later, and may have an end of its time. */
static void test_later(void **state)
{
    int64_t parent;
    (void)state;
    set_call("child");
    scene.call.delay_ms = 60000;
    scene.call.expire_ms = 90000;
    open_scene(STORETEST_MEMORY, false);
    parent = start("caller", "a");
    enginetest_settle(&x);
    assert_int_equal(job_of("child")->status, STATUS_WAITING);
    assert_int_equal(job_of("child")->expire_at, store_now(x.f.s) + 90000);
    enginetest_wait(&x, 59999);
    assert_null(x.tasks);
    enginetest_wait(&x, 1);
    assert_int_equal(job_of("child")->status, STATUS_RUNNING);
    assert_non_null(x.tasks);
    enginetest_wait(&x, 30000); /* and nobody does its task */
    assert_int_equal(job_of("child")->state, JOB_FAILED);
    assert_data(parent, "code", "500");
    enginetest_done(&x);
}

/* Proves that a child may answer before its end, and that it answers once, whenever the engine dies. */
static void test_early(void **state)
{
    bool died = true;
    (void)state;
    for (int n = 1; died; n++) {
        int64_t parent;
        set_call("child");
        scene.early = true;
        open_scene(STORETEST_MEMORY, n % 2 == 0);
        parent = start("caller", "a");
        died = run(n);
        assert_data(parent, "answers", "1");
        assert_data(parent, "code", "201");
        assert_data(parent, "payload", "\"early\"");
        assert_int_equal(enginetest_job(&x, parent)->state, JOB_COMPLETED);
        assert_int_equal(job_of("child")->state, JOB_COMPLETED);
        if (!died) {
            assert_int_equal(engine_stats(x.e).late, 0); /* the second is the first again */
        }
        enginetest_check(&x);
        enginetest_done(&x);
        died = died || n == 1;
    }
}

/* -------------------------------------------------------------------------------------------- ends */

enum way { BY_REQUEST, BY_OTHER, BY_ITSELF, WAYS };

static void end_top(enum way way)
{
    static struct request_end end;
    static struct request_signal signal;
    end = (struct request_end){.ns = STORE_NS_DEFAULT,
                               .jid = QP_STR("top"),
                               .state = JOB_INTERRUPTED,
                               .error = QP_STR("410"),
                               .descend = scene.descend};
    signal = (struct request_signal){.signal = {.ns = STORE_NS_DEFAULT,
                                                .topic = QP_STR("h"),
                                                .key = QP_STR("stop"),
                                                .guid = storetest_guid(1),
                                                .code = 200}};
    if (way == BY_REQUEST) {
        request_end(&end);
        submit(&end.command);
    } else if (way == BY_OTHER) {
        (void)start("killer", "killer");
    } else {
        request_signal(&signal);
        submit(&signal.command);
    }
}

/* However far it went down. */
#define ENDED_ERROR "{\"code\":500,\"message\":\"410\",\"activity\":"

struct ends {
    int64_t open;
    int64_t interrupted;
};

static int count_job(void *context, const void *row)
{
    const struct job_row *job = row;
    struct ends *ends = context;
    ends->open += job->state == JOB_OPEN;
    ends->interrupted +=
        job->state == JOB_INTERRUPTED && job->completions == 1 &&
        memmem(job->error.p, job->error.n, ENDED_ERROR, sizeof ENDED_ERROR - 1) != NULL;
    return QP_OK;
}

static struct ends count_jobs(void)
{
    struct scan all = {.table = TABLE_job, .index = -1, .limit = SIZE_MAX};
    struct ends ends = {0};
    assert_int_equal(store_scan(x.f.s, &all, &ends, count_job, NULL), QP_OK);
    return ends;
}

static bool end_scene(enum storetest_kind kind, enum way way, bool stepwise, int dies_after)
{
    struct ends ends;
    bool died;
    open_scene(kind, stepwise);
    (void)start("top", "top");
    (void)run(0);
    assert_int_equal(count_jobs().open, 2 * scene.count + 2);
    end_top(way);
    died = run(dies_after);
    ends = count_jobs();
    assert_int_equal(ends.interrupted, scene.descend ? 2 * scene.count + 1 : 1);
    assert_int_equal(ends.open, scene.descend ? 1 : 2 * scene.count + 1);
    assert_int_equal(job_of("detached")->state, JOB_OPEN);
    enginetest_check(&x);
    enginetest_done(&x);
    return died;
}

/* Proves that the jobs that one has called end with it, and theirs, when it is said; that detached ones do not;
 * and all of that whenever the engine dies. */
static void test_descend(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof scene);
    scene.count = 3;
    for (int way = 0; way < WAYS; way++) {
        scene.descend = true;
        for (int kind = 0; kind < storetest_kinds(); kind++) {
            (void)end_scene((enum storetest_kind)kind, (enum way)way, false, 0);
        }
        for (int n = 1; end_scene(STORETEST_MEMORY, (enum way)way, n % 2 == 0, n) || n < 2; n++) {}
        scene.descend = false;
        if (way != BY_ITSELF) {
            (void)end_scene(STORETEST_MEMORY, (enum way)way, false, 0);
        }
    }
}

/* Proves the same for more jobs than one page takes, with an engine that dies between the pages. */
static void test_descend_in_pages(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof scene);
    scene.count = LIMIT_DESCENT_JOBS + 1;
    scene.descend = true;
    for (int n = 1; n <= 3; n++) {
        (void)end_scene(STORETEST_MEMORY, BY_REQUEST, false, n);
    }
}

struct closed {
    int64_t by_state[JOB_STATES];
    int64_t reasons;
};

static int count_closed(void *context, const void *row)
{
    static const char reason[] = "the job that called it has ended: ";
    const struct job_row *job = row;
    struct closed *closed = context;
    closed->by_state[job->state]++;
    closed->reasons +=
        job->error.n > 0 && memmem(job->error.p, job->error.n, reason, sizeof reason - 1) != NULL;
    return QP_OK;
}

/* Four jobs beside top: mid0 with its leaf, mid1 with its leaf; and the detached one. */
static bool close_scene(enum storetest_kind kind, enum close_policy close, enum job_state state,
                        bool stepwise, int dies_after)
{
    static const enum job_state ends[CLOSE_POLICIES] = {JOB_OPEN, JOB_CANCELLED, JOB_INTERRUPTED};
    struct scan all = {.table = TABLE_job, .index = -1, .limit = SIZE_MAX};
    struct closed closed = {{0}, 0};
    static struct request_end end;
    bool died;
    memset(&scene, 0, sizeof scene);
    scene.count = 2;
    scene.close = close;
    open_scene(kind, stepwise);
    (void)start("top", "top");
    (void)run(0);
    assert_int_equal(job_of("top")->calls, close == CLOSE_ABANDON ? 0 : 3);
    end = (struct request_end){.ns = STORE_NS_DEFAULT, .jid = QP_STR("top"), .state = state};
    request_end(&end);
    submit(&end.command);
    died = run(dies_after);
    assert_int_equal(store_scan(x.f.s, &all, &closed, count_closed, NULL), QP_OK);
    assert_int_equal(job_of("top")->state, state);
    closed.by_state[state]--;
    assert_int_equal(closed.by_state[ends[close]], 5);
    assert_int_equal(closed.reasons, close == CLOSE_ABANDON ? 0 : 5);
    enginetest_check(&x);
    enginetest_done(&x);
    return died;
}

/* Proves that what a job has called ends as its close policy says, three deep, whatever ends that job: asked, killed, or
 * not at all; detached ones with a policy, too; on every store, and when the engine dies after any round. */
static void test_close(void **state)
{
    static const enum job_state ways[] = {JOB_CANCELLED, JOB_INTERRUPTED};
    (void)state;
    for (enum close_policy close = CLOSE_ABANDON; close < CLOSE_POLICIES; close++) {
        for (size_t way = 0; way < ARRAY_COUNT(ways); way++) {
            for (int kind = 0; kind < storetest_kinds(); kind++) {
                (void)close_scene((enum storetest_kind)kind, close, ways[way], false, 2);
            }
            for (int n = 1; close_scene(STORETEST_MEMORY, close, ways[way], n % 2 == 0, n); n++) {}
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call),      cmocka_unit_test(test_ids),
        cmocka_unit_test(test_taken),     cmocka_unit_test(test_errors),
        cmocka_unit_test(test_too_large), cmocka_unit_test(test_detached),
        cmocka_unit_test(test_later),     cmocka_unit_test(test_early),
        cmocka_unit_test(test_descend),   cmocka_unit_test(test_descend_in_pages),
        cmocka_unit_test(test_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_notice.c - what activities are told while they wait: by the commits that claim their tasks, and by jobs that they call
 *
 *   caller   "call" calls the child, and keeps in the job's data what it is told before it is answered
 *   child    "first", a task, whose claims tell it which attempt has begun and which takes long; it tells its caller. Then "second",
 *            a task of which nothing is told
 *
 * Contract: each notice is taken once per attempt, whatever dies on the way; a claim tells of it also where the task was born
 * claimed; a delivery after a lost lease is the same attempt; what is over is told nothing; the job is no obligation richer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernel/message.h"
#include "support/enginetest.h"
#include "support/shapes.h"

#define LATE_MS 5000

static struct enginetest x;

static bool is(const struct turn *t, const char *name)
{
    return str_equal(t->at.name, str_from(name));
}

/* ------------------------------------------------------------------------------------- the program */

static int describe(struct turn *t, struct op_act_create *row)
{
    row->category = 'A';
    row->topic = is(t, "call") ? QP_NONE : QP_STR("t");
    row->policy = QP_STR("attempts=3,backoff=1000,factor=1,lost=100");
    return QP_OK;
}

static int enter(struct turn *t)
{
    return is(t, "call") ? turn_call(t, &(struct call_job){.workflow = QP_STR("child"),
                                                           .jid = QP_STR("child"),
                                                           .kind = CAST_KIND,
                                                           .input = QP_STR("1"),
                                                           .purpose = QP_STR("call")})
                         : turn_task(t, QP_STR("t"));
}

/* The attempt: one more than were reported. */
static int claimed(void *context, struct bundle *b, const struct act_row *act,
                   struct claim_notices *out)
{
    struct data_row key = {.ns = act->ns, .job = act->job, .name = QP_STR("failures")};
    const void *row = NULL;
    (void)context;
    if (act->addr.p[0] != 'f') {
        return QP_OK;
    }
    QP_TRY(bundle_peek(b, TABLE_data, &key, &row));
    out->attempt = 1;
    out->late_ms = LATE_MS;
    if (row != NULL) {
        out->attempt += ((const struct data_row *)row)->value.p[0] - '0';
    }
    return QP_OK;
}

static int again(struct turn *t, qp_ms delay_ms)
{
    int64_t failures = 0;
    (void)delay_ms;
    QP_TRY(shape_read(t, "failures", &failures));
    QP_TRY(turn_late_clear(t, failures + 1));
    return shape_add(t, "failures", 1);
}

/* Once each: what it was told before, it passes over. */
static int notice(struct turn *t)
{
    const struct data_row *row = NULL;
    qp_str one;
    qp_str all;
    QP_TRY(
        shape_print(t, &one, "%c%.*s", t->code == NOTICE_STARTED ? 'S' : 'L', STR_ARG(t->payload)));
    QP_TRY(turn_data(t, QP_STR("told"), &row));
    if (row != NULL && memmem(row->value.p, row->value.n, one.p, one.n) != NULL) {
        return QP_OK;
    }
    QP_TRY(shape_print(t, &all, "%.*s%.*s", row == NULL ? 0 : (int)row->value.n,
                       row == NULL ? "" : row->value.p, STR_ARG(one)));
    QP_TRY(turn_data_put(t, QP_STR("told"), all));
    return turn_tell_parent(
        t, &(struct parent_notice){.purpose = one, .code = t->code, .payload = t->payload});
}

static int spawn(struct turn *t, struct spawn *out_spawn)
{
    (void)out_spawn;
    if (t->act->category == 'D') {
        bool calls = str_equal(t->job->workflow, QP_STR("caller"));
        return turn_child(t, calls ? QP_STR("call") : QP_STR("first"), QP_STR("1"));
    }
    return is(t, "first") ? turn_child(t, QP_STR("second"), QP_STR("1")) : turn_spawn_nothing(t);
}

static const struct program program = {.kind = CAST_KIND,
                                       .name = "told",
                                       .describe = describe,
                                       .enter = enter,
                                       .again = again,
                                       .claimed = claimed,
                                       .notice = notice,
                                       .spawn = spawn};

/* ------------------------------------------------------------------------------------------ running */

static void open_scene(enum storetest_kind kind, bool stepwise)
{
    enginetest_init(&x, kind, NULL);
    x.programs[0] = &program;
    x.options.stepwise = stepwise;
    enginetest_open(&x);
}

static void start(void)
{
    static struct request_start r;
    int rc;
    do {
        enginetest_fill_start(&x, &r, "a", "{}");
        r.start.job.workflow = QP_STR("caller");
        rc = enginetest_ask(&x, &r.command);
    } while (rc == QP_E_EXISTS);
    assert_int_equal(rc, QP_OK);
}

static int64_t number_of(const char *jid)
{
    struct job_name_row key = {.ns = STORE_NS_DEFAULT, .jid = str_from(jid)};
    const struct job_name_row *name = storetest_row(&x.f, TABLE_job_name, &key);
    assert_non_null(name);
    return name->job;
}

/* What a job was told so far. */
static const char *told(const char *jid)
{
    static char text[64];
    struct data_row key = {.ns = STORE_NS_DEFAULT, .job = number_of(jid), .name = QP_STR("told")};
    const struct data_row *row = storetest_row(&x.f, TABLE_data, &key);
    (void)snprintf(text, sizeof text, "%.*s", row == NULL ? 0 : (int)row->value.n,
                   row == NULL ? "" : row->value.p);
    return text;
}

static void both_are_told(const char *expected)
{
    assert_string_equal(told("child"), expected);
    assert_string_equal(told("a"), expected);
}

static void bring(enum result_kind kind)
{
    struct task *task = enginetest_task(&x, "child", NULL);
    assert_non_null(task);
    assert_int_equal(enginetest_result(&x, task, kind, "ok"), QP_OK);
    enginetest_forget(&x, task);
    enginetest_settle(&x);
}

static void finish(void)
{
    enginetest_check(&x);
    enginetest_done(&x);
}

/* One attempt fails, another takes long and is delivered again to the next run; then the end. */
static void attempts(enum storetest_kind kind, bool stepwise)
{
    open_scene(kind, stepwise);
    start();
    enginetest_settle(&x);
    both_are_told("S1");
    bring(RESULT_ERROR);
    enginetest_wait(&x, 999);
    both_are_told("S1");
    enginetest_wait(&x, 1);
    both_are_told("S1S2");
    enginetest_wait(&x, LATE_MS - 1);
    both_are_told("S1S2");
    enginetest_wait(&x, 1);
    both_are_told("S1S2L2");
    enginetest_crash(&x);
    enginetest_settle(&x);
    assert_non_null(enginetest_task(&x, "child", "first,0,0"));
    both_are_told("S1S2L2");
    bring(RESULT_DONE);
    assert_int_equal(enginetest_job(&x, number_of("child"))->sem, 1);
    enginetest_wait(&x, LATE_MS); /* of the second delivery: its activity is over */
    both_are_told("S1S2L2");
    bring(RESULT_DONE);
    assert_int_equal(enginetest_job(&x, number_of("a"))->state, JOB_COMPLETED);
    assert_int_equal(storetest_count(&x.f, TABLE_msg), 0);
    finish();
}

static void test_attempts(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        attempts((enum storetest_kind)kind, false);
        attempts((enum storetest_kind)kind, true);
    }
}

/* A claim from the stream tells the same as one at birth: there was no room when the task was put. */
static void test_claimed_later(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        enginetest_init(&x, (enum storetest_kind)kind, NULL);
        x.programs[0] = &program;
        x.service.room = 0;
        enginetest_open(&x);
        start();
        enginetest_wait(&x, LATE_MS);
        both_are_told("");
        x.service.room = 1;
        enginetest_wait(&x, 1);
        both_are_told("S1");
        bring(RESULT_DONE);
        x.service.room = 1;
        bring(RESULT_DONE);
        assert_int_equal(enginetest_job(&x, number_of("a"))->state, JOB_COMPLETED);
        finish();
    }
}

/* A job that was ended is told nothing more, and has no timers; its caller has its answer. */
static void test_ended(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        open_scene((enum storetest_kind)kind, false);
        start();
        enginetest_settle(&x);
        assert_int_equal(enginetest_end(&x, "child", JOB_INTERRUPTED), QP_OK);
        enginetest_wait(&x, LATE_MS);
        both_are_told("S1");
        assert_int_equal(enginetest_job(&x, number_of("a"))->state, JOB_FAILED);
        assert_int_equal(storetest_count(&x.f, TABLE_msg), 0);
        finish();
    }
}

/* A caller that has ended is told nothing; the job that it has called goes on. */
static void test_caller_ended(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        open_scene((enum storetest_kind)kind, false);
        start();
        enginetest_settle(&x);
        assert_int_equal(enginetest_end(&x, "a", JOB_INTERRUPTED), QP_OK);
        enginetest_wait(&x, LATE_MS);
        assert_string_equal(told("child"), "S1L1");
        assert_string_equal(told("a"), "S1");
        bring(RESULT_DONE);
        bring(RESULT_DONE);
        assert_int_equal(enginetest_job(&x, number_of("child"))->state, JOB_COMPLETED);
        finish();
    }
}

/* The engine dies after the n-th round; false: it was through before. Tasks in hand go with it and come again. */
static bool dies_after(enum storetest_kind kind, bool stepwise, int n)
{
    struct qp_err err = {0};
    bool busy = true;
    bool failed = false;
    int rounds = 0;
    open_scene(kind, stepwise);
    start();
    for (int idle = 0; idle < 20; idle += !busy) {
        assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
        if (++rounds == n) {
            enginetest_crash(&x);
            busy = true;
        }
        if (busy) {
            continue;
        }
        struct task *task = x.tasks;
        if (task == NULL || strcmp(told("a"), failed ? "S1S2L2" : "S1") != 0) {
            testenv_advance_ms(&x.f.t, 1000);
            continue;
        }
        assert_int_equal(enginetest_result(&x, task, failed ? RESULT_DONE : RESULT_ERROR, "ok"),
                         QP_OK);
        enginetest_forget(&x, task);
        failed = true;
    }
    both_are_told("S1S2L2");
    assert_int_equal(enginetest_job(&x, number_of("a"))->state, JOB_COMPLETED);
    assert_int_equal(storetest_count(&x.f, TABLE_msg), 0);
    finish();
    return rounds >= n;
}

static void test_kills(void **state)
{
    (void)state;
    for (int stepwise = 0; stepwise < 2; stepwise++) {
        for (int n = 1; dies_after(STORETEST_MEMORY, stepwise != 0, n); n++) {
            assert_true(n < 1000);
        }
    }
    for (int kind = STORETEST_MEMORY_ROWS; kind < storetest_kinds(); kind++) {
        for (int n = 2; dies_after((enum storetest_kind)kind, false, n); n += 7) {
            assert_true(n < 1000);
        }
    }
}

/* ---------------------------------------------------------------------------------------- two nodes */

#define RUN_LEASE_MS 60000

/* The other node on the store, whose workers alone serve the topic: what it claims, the first one's engine or its own is told. */
static struct {
    struct store *store;
    struct engine *e;
    struct service service;
    struct task *task;
} other;

static void take_task(void *context, struct task *task)
{
    (void)context;
    assert_null(other.task);
    other.task = task;
}

static void open_pair(enum storetest_kind kind)
{
    static const struct program *const programs[] = {&program};
    struct engine_options o = {
        .name = "other", .lease_ms = RUN_LEASE_MS, .programs = programs, .program_count = 1};
    struct qp_err err = {0};
    enginetest_init(&x, kind, NULL);
    x.programs[0] = &program;
    x.service.room = 0;
    x.options.lease_ms = RUN_LEASE_MS;
    enginetest_open(&x);
    memset(&other, 0, sizeof other);
    other.store = storetest_second(&x.f);
    o.store = other.store;
    assert_int_equal(engine_open(&o, &other.e, &err), QP_OK);
    other.service = (struct service){
        .topic = QP_STR("t"), .room = 1, .give = take_task, .lease_ms = 10 * LATE_MS};
    engine_serve(other.e, &other.service);
}

static void close_pair(void)
{
    struct qp_err err = {0};
    assert_int_equal(engine_close(other.e, &err), QP_OK);
    assert_int_equal(store_close(other.store, &err), QP_OK);
    finish();
}

static bool round_of(struct engine *e)
{
    struct qp_err err = {0};
    bool busy = false;
    if (engine_round(e, &busy, &err) != QP_OK) {
        fail_msg("round: %s", err.text);
    }
    return busy;
}

/* Rounds of both in turns; `first` has so many to one of the other. */
static void rest_of_pair(int first)
{
    for (int idle = 0, i = 0; idle < 4; i++) {
        bool busy = round_of(i % (first + 1) < first ? x.e : other.e);
        idle = busy ? 0 : idle + 1;
        assert_true(i < 10000);
    }
}

static int pair_answer;

static void note_answer(struct engine *e, struct command *c, int rc, const char *why)
{
    (void)e;
    (void)c;
    (void)why;
    pair_answer = rc;
}

static void bring_other(enum result_kind kind, int first)
{
    struct request_result r = {
        .task = other.task, .kind = kind, .output = QP_STR("ok"), .error = QP_STR("no")};
    assert_non_null(other.task);
    request_result(&r);
    r.command.answer = note_answer;
    pair_answer = QP_E_BUSY;
    engine_submit(other.e, &r.command);
    rest_of_pair(first);
    assert_int_equal(pair_answer, QP_OK);
}

static void end_task(enum result_kind kind, int first)
{
    struct task *task = other.task;
    bring_other(kind, first);
    other.task = other.task == task ? NULL : other.task;
    task_free(&x.f.t.env, task);
    other.service.room++;
    rest_of_pair(first);
}

static void wait_pair(qp_ms ms, int first)
{
    for (qp_ms passed = 0; passed < ms; passed += 500) {
        testenv_advance_ms(&x.f.t, 500);
        rest_of_pair(first);
    }
}

static void pair(enum storetest_kind kind, int first)
{
    open_pair(kind);
    start();
    rest_of_pair(first);
    both_are_told("S1");
    end_task(RESULT_ERROR, first);
    wait_pair(1000, first);
    both_are_told("S1S2");
    wait_pair(LATE_MS, first);
    both_are_told("S1S2L2");
    end_task(RESULT_DONE, first);
    end_task(RESULT_DONE, first);
    assert_int_equal(enginetest_job(&x, number_of("a"))->state, JOB_COMPLETED);
    assert_int_equal(storetest_count(&x.f, TABLE_msg), 0);
    close_pair();
}

/* Proves the same where one node claims and both work on what is told. */
static void test_two_nodes(void **state)
{
    (void)state;
    for (int first = 0; first < 4; first++) {
        pair(STORETEST_MEMORY, first);
        pair(STORETEST_MEMORY_ROWS, first);
        if (storetest_kinds() > STORETEST_POSTGRES) {
            pair(STORETEST_POSTGRES, first);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attempts), cmocka_unit_test(test_claimed_later),
        cmocka_unit_test(test_ended),    cmocka_unit_test(test_caller_ended),
        cmocka_unit_test(test_kills),    cmocka_unit_test(test_two_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

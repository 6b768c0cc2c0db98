/* test_engine_pair.c - two engines on one store, and leases that end at the worst moment
 *
 * Two engines share the tables in memory, or a database. They take turns, and so do their workers. At one point after the
 * other - before a commit, after it, between two rounds, between taking a task and answering it - the
 * one whose turn it is stops as if it had been put to sleep: the clock passes every lease, and the
 * other one works until all jobs are done. Then the first wakes up, with all that it believes to have.
 *
 *   nothing happens twice     each task has one answer that was taken; raw calls are more by exactly the
 *                             answers that were refused
 *   both make progress        each has answers that were taken, and has taken over the other's run
 *   the sleeper recovers      it enters a new run, and a job that only it works on completes
 *
 * On PostgreSQL the check lane takes every so many of these points, from one that QP_SEED chooses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "support/enginetest.h"

#define ENGINE_LEASE_MS 3000
#define JOBS 3
#define SAMPLE_STRIDE 5 /* points are passed more often than that */

static const struct actor story[] = {
    {.name = "trigger", .category = 'D', .next = "s w"},
    {.name = "s", .category = 'A', .deed = DEED_SLEEP, .ms = 10, .next = "p"},
    {.name = "p", .category = 'B', .next = "v"},
    {.name = "w", .category = 'A', .deed = DEED_TASK, .topic = "t"},
    {.name = "v", .category = 'A', .deed = DEED_TASK, .topic = "t"},
    {0}};
#define TASKS_PER_JOB 2

struct side {
    struct store *store;
    struct engine *engine;
    struct service service;
    struct task *task; /* one at a time */
    bool waits;        /* for the answer to a command */
    int answer;
    int64_t taken; /* answers */
    int64_t refused;
};

static struct storetest f;
static struct cast cast;
static struct side sides[2];
static struct side *turn_of; /* whose turn it is */
static bool asleep;          /* the other one works alone */
static int64_t raw_calls;
static int64_t ended;
static int64_t total_taken[2];
static int64_t total_refused;
static int64_t total_runs_ended[2];

static struct side *other_of(const struct side *s)
{
    return s == &sides[0] ? &sides[1] : &sides[0];
}

static void give(void *context, struct task *task)
{
    struct side *s = context;
    assert_null(s->task); /* there is room for one */
    s->task = task;
    raw_calls++;
}

static void on_ended(void *context, struct job_ref job, enum job_state state)
{
    (void)context;
    (void)job;
    assert_true(state != JOB_OPEN);
    ended++;
}

static void pass(const char *point)
{
    assert_int_equal(failpoint_hit(point), QP_OK);
}

/* ----------------------------------------------------------------------------------------- one turn */

static void rounds(struct side *s, int count)
{
    struct qp_err err = {0};
    bool busy = true;
    while (busy && count-- > 0) {
        pass("pair.round");
        if (engine_round(s->engine, &busy, &err) != QP_OK) {
            fail_msg("round: %s", err.text);
        }
    }
}

/* Each side has one command at a time. */
static void answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct side *s = e == sides[0].engine ? &sides[0] : &sides[1];
    (void)c;
    (void)why;
    s->waits = false;
    s->answer = rc;
}

static int ask(struct side *s, struct command *c)
{
    s->waits = true;
    c->answer = answered;
    engine_submit(s->engine, c);
    for (int i = 0; i < 50 && s->waits; i++) {
        rounds(s, 1);
    }
    assert_false(s->waits);
    return s->answer;
}

/* The worker of a side does what it has in hand. */
static void work(struct side *s)
{
    struct request_result r = {.task = s->task, .output = QP_STR("ok")};
    int rc;
    if (s->task == NULL) {
        return;
    }
    pass("pair.give");
    request_result(&r);
    rc = ask(s, &r.command);
    assert_true(rc == QP_OK || rc == QP_E_STALE);
    s->taken += rc == QP_OK;
    s->refused += rc == QP_E_STALE;
    task_free(&f.t.env, (struct task *)(uintptr_t)r.task);
    s->task = NULL;
    s->service.room++;
    pass("pair.result");
}

static void take_turn(struct side *s)
{
    struct side *before = turn_of;
    turn_of = s;
    rounds(s, 3);
    work(s);
    turn_of = before;
}

static void start_on(struct side *s, const char *jid)
{
    struct request_start r = {.start = {.job = {.ref = {.ns = STORE_NS_DEFAULT},
                                                .jid = str_from(jid),
                                                .kind = CAST_KIND,
                                                .workflow = QP_STR("cast")},
                                        .input = QP_STR("{}")}};
    struct qp_err err;
    struct side *before = turn_of;
    turn_of = s;
    assert_int_equal(engine_number(s->engine, &r.start.job.ref.job, &err), QP_OK);
    request_start(&r);
    assert_int_equal(ask(s, &r.command), QP_OK);
    turn_of = before;
}

/* --------------------------------------------------------------------------------- the worst moment */

static int count_open(void *context, const void *row)
{
    *(int64_t *)context += ((const struct job_row *)row)->completions == 0;
    return QP_OK;
}

static int64_t jobs_open(void)
{
    struct scan all = {.table = TABLE_job, .index = -1, .limit = SIZE_MAX};
    struct qp_err err;
    int64_t open = 0;
    assert_int_equal(store_scan(f.s, &all, &open, count_open, &err), QP_OK);
    return open;
}

/* Only this side works, until all jobs are done. */
static void work_alone(struct side *s)
{
    for (int i = 0; jobs_open() > 0; i++) {
        assert_true(i < 2000);
        take_turn(s);
        testenv_advance_ms(&f.t, 100);
    }
}

static void fall_asleep(void *context)
{
    struct side *s = turn_of;
    (void)context;
    asleep = true;
    testenv_advance_ms(&f.t, 4 * ENGINE_LEASE_MS);
    work_alone(other_of(s));
    turn_of = s;
}

/* --------------------------------------------------------------------------------------- the test */

static void open_side(struct side *s, const char *name, qp_ms task_lease_ms)
{
    static const struct program *programs[1];
    struct engine_options o = {.name = name,
                               .lease_ms = ENGINE_LEASE_MS,
                               .programs = programs,
                               .program_count = 1,
                               .ended = on_ended};
    struct qp_err err;
    programs[0] = &cast.program;
    *s = (struct side){.service = {.topic = QP_STR("t"),
                                   .room = 1,
                                   .lease_ms = task_lease_ms,
                                   .context = s,
                                   .give = give}};
    s->store = storetest_second(&f);
    o.store = s->store;
    assert_int_equal(engine_open(&o, &s->engine, &err), QP_OK);
    engine_serve(s->engine, &s->service);
}

static void close_side(struct side *s)
{
    struct qp_err err;
    if (s->task != NULL) {
        task_free(&f.t.env, s->task);
    }
    assert_int_equal(engine_close(s->engine, &err), QP_OK);
    assert_int_equal(store_close(s->store, &err), QP_OK);
}

/* What must be true when all is done. */
static void verify(int64_t jobs, struct side *sleeper)
{
    int64_t taken = sides[0].taken + sides[1].taken;
    int64_t refused = sides[0].refused + sides[1].refused;
    assert_int_equal(taken, jobs * TASKS_PER_JOB);
    assert_int_equal(raw_calls,
                     taken + refused + (sides[0].task != NULL) + (sides[1].task != NULL));
    assert_true(refused <= 2); /* one in hand when it fell asleep, one that it took up just then */
    assert_true(ended <= jobs);
    if (sleeper != NULL) {
        assert_true(engine_stats(other_of(sleeper)->engine).runs_ended >= 1);
    }
    for (int i = 0; i < 2; i++) {
        total_taken[i] += sides[i].taken;
        total_runs_ended[i] += engine_stats(sides[i].engine).runs_ended;
    }
    total_refused += engine_stats(sides[0].engine).stale + engine_stats(sides[1].engine).stale;
    enginetest_check_store(f.s);
}

/* One run with sleep at the n-th passing of a point. False: it was not passed so often. */
static bool run(const char *point, int n, enum storetest_kind kind, qp_ms task_lease_ms)
{
    static const char *const names[JOBS] = {"a", "b", "c"};
    char spec[64];
    struct side *sleeper = NULL;
    raw_calls = ended = 0;
    asleep = false;
    storetest_init(&f, kind, 1);
    cast_init(&cast, CAST_KIND, story);
    open_side(&sides[0], "left", task_lease_ms);
    open_side(&sides[1], "right", task_lease_ms);
    turn_of = &sides[0];
    failpoint_on_call(fall_asleep, NULL);
    (void)snprintf(spec, sizeof spec, "%s=call@%d", point, n);
    assert_int_equal(failpoint_set(spec), QP_OK);
    for (int i = 0; i < JOBS; i++) {
        start_on(&sides[i % 2], names[i]);
    }
    for (int i = 0; jobs_open() > 0; i++) {
        assert_true(i < 2000);
        take_turn(&sides[i % 2]);
        sleeper = asleep && sleeper == NULL ? &sides[i % 2] : sleeper;
        testenv_advance_ms(&f.t, 7);
    }
    assert_int_equal(failpoint_set(NULL), QP_OK);
    /* whoever slept comes to itself, and a job that nobody else works on gets done */
    work(&sides[0]);
    work(&sides[1]);
    start_on(&sides[0], "last-left");
    work_alone(&sides[0]);
    testenv_advance_ms(&f.t, 4 * ENGINE_LEASE_MS);
    start_on(&sides[1], "last-right");
    work_alone(&sides[1]);
    work(&sides[0]);
    work(&sides[1]);
    verify(JOBS + 2, sleeper);
    close_side(&sides[0]);
    close_side(&sides[1]);
    storetest_done(&f);
    return asleep;
}

static int stride_on(enum storetest_kind kind)
{
    const char *lane = getenv("QP_LANE");
    bool torture = lane != NULL && strcmp(lane, "torture") == 0;
    return kind == STORETEST_POSTGRES && !torture ? SAMPLE_STRIDE : 1;
}

static void every_moment(enum storetest_kind kind, qp_ms task_lease_ms)
{
    static const char *const points[] = {"engine.collected", "engine.committed", "pair.round",
                                         "pair.give", "pair.result"};
    int stride = stride_on(kind);
    int first = stride > 1 ? 1 + (int)(testenv_seed() % (uint64_t)stride) : 1;
    total_taken[0] = total_taken[1] = total_refused = 0;
    total_runs_ended[0] = total_runs_ended[1] = 0;
    for (size_t i = 0; i < ARRAY_COUNT(points); i++) {
        int n = first;
        while (run(points[i], n, kind, task_lease_ms)) {
            n += stride;
            assert_true(n < 500);
        }
        assert_true(n > first); /* the point is there */
    }
    assert_true(total_taken[0] > 0 && total_taken[1] > 0);
    assert_true(total_runs_ended[0] > 0 && total_runs_ended[1] > 0);
    assert_true(total_refused > 0);
}

static void test_leases_of_tasks(void **state)
{
    (void)state;
    every_moment(STORETEST_MEMORY, 1000);
    every_moment(STORETEST_MEMORY_ROWS, 1000);
    if (storetest_kinds() == STORETEST_ALL) {
        every_moment(STORETEST_POSTGRES, 1000);
    }
}

/* Tasks are held as long as the run lasts. */
static void test_leases_of_runs(void **state)
{
    (void)state;
    every_moment(STORETEST_MEMORY, 0);
    every_moment(STORETEST_MEMORY_ROWS, 0);
    if (storetest_kinds() == STORETEST_ALL) {
        every_moment(STORETEST_POSTGRES, 0);
    }
}

/* -------------------------------------------------------------------------------------- who leaves */

static bool has_come; /* the claim below, or its refusal */

/* A claim of the run that leaves: its commit was sent, the answer was lost, and the server took its time. */
static void late_claim(void *context)
{
    struct op claim = {
        .kind = OP_msg_claim,
        .msg_claim = {.topic = QP_STR("stray"), .want = 1, .holder = *(int64_t *)context}};
    int rc = storetest_op(&f, &claim);
    assert_true(rc == QP_OK || rc == QP_E_STALE);
    has_come = true;
}

/* The claim comes before the n-th commit of the leaving; false when there are not so many. */
static bool leave_at(enum storetest_kind kind, int n)
{
    struct op put = {.kind = OP_msg_put,
                     .msg_put = {.ref = {STORE_NS_DEFAULT, 0},
                                 .owner = OWNER_SYSTEM,
                                 .topic = QP_STR("stray"),
                                 .guid = storetest_guid(1)}};
    char spec[64];
    int64_t epoch;
    struct msg_row key = {.ns = STORE_NS_DEFAULT, .guid = storetest_guid(1)};
    const struct msg_row *m;
    has_come = false;
    storetest_init(&f, kind, 1);
    cast_init(&cast, CAST_KIND, story);
    open_side(&sides[0], "left", 0);
    assert_int_equal(storetest_op(&f, &put), QP_OK);
    epoch = engine_kernel(sides[0].engine)->epoch;
    failpoint_reset();
    failpoint_on_call(late_claim, &epoch);
    (void)snprintf(spec, sizeof spec, "commit.begin=call@%d", n);
    assert_int_equal(failpoint_set(spec), QP_OK);
    close_side(&sides[0]);
    assert_int_equal(failpoint_set(NULL), QP_OK);
    m = storetest_row(&f, TABLE_msg, &key);
    assert_non_null(m);
    assert_int_equal(m->state, MSG_READY);
    storetest_done(&f);
    return has_come;
}

/* Whoever leaves while a commit of its own is still under way, since its answer was lost, leaves nothing that
 * nobody would take up. */
static void test_leaves_nothing_behind(void **state)
{
    (void)state;
    for (int n = 1; leave_at(STORETEST_MEMORY_ROWS, n); n++) {
        assert_true(n < 10);
    }
    if (storetest_kinds() == STORETEST_ALL) {
        for (int n = 1; leave_at(STORETEST_POSTGRES, n); n++) {
            assert_true(n < 10);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_leases_of_tasks),
                                       cmocka_unit_test(test_leases_of_runs),
                                       cmocka_unit_test(test_leaves_nothing_behind)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_fork.c - retry and fork of flows: the history before the place is taken over, with its results and times
 *
 * At every location of a flow of twenty steps a fork ends with the output that the flow has, and calls what stands behind
 * the place, and nothing before it. Undisturbed, and killed at every commit from the request to the end, on every
 * store, fused and step by step; in memory all boundaries are tried, on other stores the check lane takes a sample, the
 * torture lane all. Long histories are copied in many decisions, by a plan of several pages. Whatever happens, an activity has
 * one idempotency key in its job.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "flow/log.h"
#include "flow/script.h"
#include "support/graphrun.h"

#define FLOW "orders"
#define TOPICS "@orders double charge ship"
#define LONG_LOOP 3

static struct graphrun run;
static qp_flow_function function;
static bool broken;      /* there is no van */
static struct omap keys; /* "job addr" -> the idempotency key of that activity */

/* -------------------------------------------------------------------------------------- the worker */

static void decide(struct graphcall *c)
{
    struct arena arena;
    struct flow_log log;
    struct qp_err err = {0};
    struct script_result result;
    char id[QP_ID_SIZE];
    const struct job_row *job;
    struct script_input input = {.env = &run.f.t.env,
                                 .arena = &arena,
                                 .log = &log,
                                 .now = run.f.t.now_ms,
                                 .function = function};
    (void)snprintf(id, sizeof id, "%.*s", STR_ARG(c->job));
    job = graphrun_job(&run, id);
    arena_init(&arena, &run.f.t.env, 0);
    if (log_read(run.f.s, &arena, (struct job_ref){job->ns, job->job}, &log, &err) != QP_OK) {
        fail_msg("log_read: %s", err.text);
    }
    assert_int_equal(script_run(&input, &result), QP_OK);
    if (result.kind == SCRIPT_ERROR || result.kind == SCRIPT_STOPPED) {
        fail_msg("%s: %.*s", id, STR_ARG(result.text));
    }
    assert_true(result.decision.n < sizeof c->output);
    memcpy(c->output, result.decision.p, result.decision.n);
    arena_done(&arena);
}

static long long whole_of(qp_str text)
{
    char digits[32];
    (void)snprintf(digits, sizeof digits, "%.*s", STR_ARG(text));
    return strtoll(digits, NULL, 10);
}

/* The same for all attempts at an activity of a job, over kills and retries of a parked job. */
static void check_key(const struct graphcall *c)
{
    char name[LIMIT_ADDRESS_SIZE + QP_ID_SIZE + 2];
    unsigned char *key;
    int n = snprintf(name, sizeof name, "%.*s %.*s", STR_ARG(c->job), STR_ARG(c->addr));
    assert_in_range(n, 1, sizeof name - 1);
    key = omap_get(&keys, str_from(name));
    if (key == NULL) {
        key = mem_alloc(&run.f.t.env, LIMIT_GUID_SIZE);
        assert_non_null(key);
        memcpy(key, c->guid, LIMIT_GUID_SIZE);
        assert_int_equal(omap_put(&keys, str_from(name), key, NULL), QP_OK);
    }
    assert_memory_equal(key, c->guid, LIMIT_GUID_SIZE);
}

static void forget_keys(void)
{
    for (struct omap_node *n = omap_seek(&keys, QP_STR("")); n != NULL; n = omap_next(n)) {
        mem_free(&run.f.t.env, omap_value(n));
    }
    omap_done(&keys);
}

static void work(struct graphcall *c)
{
    if (c->topic.p[0] == '@') {
        decide(c);
        return;
    }
    check_key(c);
    if (broken && str_equal(c->topic, QP_STR("ship"))) {
        c->kind = RESULT_ERROR;
        c->code = 422;
        (void)snprintf(c->output, sizeof c->output, "{\"message\":\"no van\"}");
        return;
    }
    (void)snprintf(c->output, sizeof c->output, "%lld", 2 * whole_of(c->input));
}

/* ----------------------------------------------------------------------------------------- flows */

/* Twenty steps and more: activities one after the other, several at once, a sleep, a signal in time, code that runs inline, a
 * part, a loop, a version check; what is derived from time and chance is part of the output. */
static int seven(qp_flow *flow, void *context)
{
    (void)context;
    return qp_return(flow, QP_STR("7"));
}

static int part(qp_flow *flow, void *context)
{
    qp_str output;
    (void)context;
    QP_TRY(qp_activity(flow, "double", QP_STR("3"), NULL, &output));
    QP_TRY(qp_activity(flow, "double", output, NULL, &output));
    return qp_return(flow, output);
}

static int rounds(qp_flow *flow, char *text, size_t size)
{
    struct qp_loop loop = {.name = "rounds", .state = QP_STR("1")};
    while (qp_loop_next(flow, &loop)) {
        qp_str output;
        QP_TRY(qp_activity(flow, "double", loop.state, NULL, &output));
        qp_loop_state(flow, &loop, output);
        if (loop.iteration == LONG_LOOP - 1) {
            qp_loop_break(flow, &loop, output);
        }
    }
    QP_TRY(loop.rc);
    (void)snprintf(text, size, "%.*s", STR_ARG(loop.output));
    return QP_OK;
}

static int twenty(qp_flow *flow, qp_str order, void *context)
{
    qp_str output;
    qp_str answer;
    qp_handle both[2];
    char total[32];
    char text[256];
    int64_t version;
    (void)context;
    QP_TRY(qp_activity(flow, "double", order, NULL, &output));
    for (int i = 0; i < 4; i++) {
        QP_TRY(qp_activity(flow, "double", output, NULL, &output));
    }
    QP_TRY(qp_begin_activity(flow, "double", output, NULL, &both[0]));
    QP_TRY(qp_begin_activity(flow, "double", QP_STR("5"), NULL, &both[1]));
    QP_TRY(qp_all(flow, both, 2));
    QP_TRY(qp_sleep(flow, 1000));
    QP_TRY(qp_inline(flow, "seven", seven, NULL, &answer));
    QP_TRY(qp_closure(flow, "part", part, NULL, &answer));
    QP_TRY(qp_check_version(flow, 2, &version));
    QP_TRY(qp_listen(flow, "go", &(struct qp_listen){.timeout_ms = 60000}, &answer));
    QP_TRY(rounds(flow, total, sizeof total));
    for (int i = 0; i < 3; i++) {
        QP_TRY(qp_activity(flow, "double", output, NULL, &output));
    }
    QP_TRY(qp_listen(flow, "never", &(struct qp_listen){.timeout_ms = 500}, NULL));
    (void)snprintf(text, sizeof text, "[%.*s,%.*s,%s,%lld,%lld]", STR_ARG(output), STR_ARG(answer),
                   total, (long long)version, (long long)(qp_random(flow) % 1000000));
    return qp_return(flow, str_from(text));
}

/* Charges and ships in two parts at once; a charge is given back when the shipping fails. */
static int charges(qp_flow *flow, void *context)
{
    qp_str output;
    (void)context;
    QP_TRY(qp_activity(flow, "charge", QP_STR("1"), NULL, &output));
    QP_TRY(qp_sleep(flow, 5000));
    QP_TRY(qp_activity(flow, "charge", QP_STR("2"), NULL, &output));
    return qp_return(flow, output);
}

static int ships(qp_flow *flow, qp_str order, void *context)
{
    struct qp_step once = {.attempts = 1};
    qp_handle paid;
    qp_str output;
    (void)order;
    (void)context;
    QP_TRY(qp_begin_closure(flow, "pay", charges, NULL, &paid));
    if (qp_activity(flow, "ship", QP_STR("1"), &once, &output) == QP_E_FAILED) {
        QP_TRY(qp_activity(flow, "double", QP_STR("4"), NULL, NULL)); /* as a refund would */
        QP_TRY(qp_all(flow, &paid, 1));
        return QP_E_FAILED;
    }
    QP_TRY(qp_all(flow, &paid, 1));
    return qp_return(flow, output);
}

/* A charge that is given back when what follows fails or is cancelled. */
static int undoes(qp_flow *flow, qp_str order, void *context)
{
    struct qp_step once = {.attempts = 1};
    qp_handle beside;
    qp_str output;
    (void)order;
    (void)context;
    QP_TRY(qp_activity(flow, "charge", QP_STR("1"), NULL, &output));
    QP_TRY(qp_defer(flow, "double", output));
    QP_TRY(qp_begin_sleep(flow, 3000, &beside));
    QP_TRY(qp_listen(flow, "go", NULL, NULL));
    QP_TRY(qp_activity(flow, "ship", QP_STR("1"), &once, &output));
    QP_TRY(qp_all(flow, &beside, 1));
    return qp_return(flow, output);
}

/* ----------------------------------------------------------------------------------------- tests */

static void begin(enum storetest_kind kind, bool stepwise, qp_flow_function of)
{
    function = of;
    broken = false;
    run.stepwise = stepwise;
    graphrun_init(&run, kind, TOPICS, work);
    omap_init(&keys, &run.f.t.env);
    assert_int_equal(graphrun_announce(&run, FLOW), QP_OK);
}

static void finish(void)
{
    graphrun_check(&run);
    forget_keys();
    graphrun_done(&run);
}

static void run_twenty(const char *id)
{
    assert_int_equal(graphrun_start(&run, FLOW, id, "1"), QP_OK);
    assert_int_equal(graphrun_signal_job(&run, id, "go", "9"), QP_OK);
    graphrun_wait(&run, 120 * 1000);
    graphrun_expect(&run, id, "completed", NULL);
}

static void output_of(const char *id, char *text, size_t size)
{
    const struct job_row *job = graphrun_job(&run, id);
    assert_non_null(job);
    (void)snprintf(text, size, "%.*s", STR_ARG(job->output));
}

struct seen {
    char at[64][LOCATION_TEXT_SIZE];
    size_t count;
};

static int each_event(void *context, const void *row)
{
    struct seen *s = context;
    const struct act_row *act = row;
    struct location at;
    if (act->addr.p[0] == LOCATION_MARK && location_from_address(act->addr, &at)) {
        assert_true(s->count < ARRAY_COUNT(s->at));
        (void)location_print(&at, s->at[s->count++]);
    }
    return QP_OK;
}

/* All locations of a history. */
static void locations(const char *id, struct seen *out_seen)
{
    const struct job_row *job = graphrun_job(&run, id);
    struct act_row of = {.ns = job->ns, .job = job->job};
    struct scan scan = {
        .table = TABLE_act, .index = -1, .prefix = &of, .prefix_count = 2, .limit = SIZE_MAX};
    struct qp_err err = {0};
    out_seen->count = 0;
    assert_int_equal(store_scan(run.f.s, &scan, out_seen, each_event, &err), QP_OK);
}

/* The event of one job is that of the other, with its time. */
static void expect_copy(const char *from, const char *to, const char *location)
{
    char addr[LOCATION_ADDRESS_SIZE + 1];
    char output[256];
    struct location at;
    const struct act_row *act;
    qp_ms entered;
    qp_ms came;
    assert_int_equal(location_parse(str_from(location), &at, NULL), QP_OK);
    addr[location_address(&at, addr)] = '\0';
    act = graphrun_act(&run, from, addr);
    assert_non_null(act);
    entered = act->at;
    came =
        act->category == 'B' ? 0 : act->guid_at; /* what is complete from its birth has no answer */
    (void)snprintf(output, sizeof output, "%.*s", STR_ARG(act->output));
    act = graphrun_act(&run, to, addr);
    assert_non_null(act);
    assert_int_equal(act->at, entered);
    assert_true(came == 0 || act->guid_at == came);
    assert_true(came == 0 || str_equal(act->output, str_from(output)));
}

/* The fork at one of them ends as the flow did. */
static void fork_at(const struct seen *seen, size_t i, const char *expected)
{
    char id[32];
    char output[256];
    (void)snprintf(id, sizeof id, "f%zu", i);
    assert_int_equal(
        graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = id, .at = seen->at[i]}),
        QP_OK);
    assert_int_equal(graphrun_signal_job(&run, id, "go", "9"), QP_OK);
    graphrun_wait(&run, 120 * 1000);
    graphrun_expect(&run, id, "completed", NULL);
    output_of(id, output, sizeof output);
    if (strcmp(output, expected) != 0) {
        fail_msg("fork at %s: %s, not %s", seen->at[i], output, expected);
    }
    for (size_t k = 0; k + 1 < i; k++) { /* a listen's two events are one place */
        expect_copy("j", id, seen->at[k]);
    }
    graphrun_check(&run);
}

/* In memory all, on other stores the check lane takes two. */
static void test_every_location(void **state)
{
    static struct seen seen;
    uint64_t random = testenv_seed();
    char expected[256];
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        bool all = kind == STORETEST_MEMORY || testenv_is_torture();
        begin((enum storetest_kind)kind, false, twenty);
        run_twenty("j");
        output_of("j", expected, sizeof expected);
        locations("j", &seen);
        assert_true(seen.count >= 20);
        for (size_t i = 0; all && i < seen.count; i++) {
            fork_at(&seen, i, expected);
        }
        if (!all) {
            size_t half = seen.count / 2;
            fork_at(&seen, testenv_random_below(&random, half), expected);
            fork_at(&seen, half + testenv_random_below(&random, half), expected);
        }
        finish();
    }
}

static int64_t fork_once(enum storetest_kind kind, bool stepwise, int64_t kill_at)
{
    char expected[256];
    char output[256];
    int64_t kills;
    begin(kind, stepwise, twenty);
    run_twenty("j");
    output_of("j", expected, sizeof expected);
    run.kill_at = kill_at > 0 ? run.commits + kill_at : 0;
    assert_int_equal(
        graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = "f", .at = "{14, 2}"}),
        QP_OK);
    graphrun_wait(&run, 120 * 1000);
    graphrun_expect(&run, "f", "completed", NULL);
    output_of("f", output, sizeof output);
    assert_string_equal(output, expected);
    kills = run.kills;
    finish();
    return kills;
}

/* The shipping fails while the other part is between its two charges. */
static void fail_shipping(void)
{
    broken = true;
    assert_int_equal(graphrun_start(&run, FLOW, "j", "1"), QP_OK);
    graphrun_wait(&run, 60 * 1000);
    graphrun_expect(&run, "j", "failed", NULL);
    assert_int_equal(graphrun_calls(&run, "charge"), 2);
    assert_int_equal(graphrun_calls(&run, "ship"), 1);
    broken = false;
}

/* Neither charge is made again, though the second came after the failure; what was done because of it is forgotten. */
static int64_t retry_once(enum storetest_kind kind, bool stepwise, int64_t kill_at)
{
    int64_t kills;
    begin(kind, stepwise, ships);
    fail_shipping();
    run.kill_at = kill_at > 0 ? run.commits + kill_at : 0;
    assert_int_equal(
        graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = "r", .retries = true}),
        QP_OK);
    graphrun_wait(&run, 60 * 1000);
    kills = run.kills;
    graphrun_expect(&run, "r", "completed", "2");
    assert_int_equal(graphrun_calls(&run, "charge"), 2);
    assert_in_range(graphrun_calls(&run, "ship"), 2, 2 + kills);
    assert_int_equal(graphrun_calls(&run, "double"), 1);
    finish();
    return kills;
}

static void test_retry(void **state)
{
    (void)state;
    (void)retry_once(STORETEST_MEMORY, false, 0);
    (void)retry_once(STORETEST_MEMORY, true, 0);
}

/* The step that failed is done again, the charge is not, and what was undone because of the failure is forgotten. */
static int64_t retry_undone(enum storetest_kind kind, bool stepwise, int64_t kill_at)
{
    int64_t kills;
    begin(kind, stepwise, undoes);
    broken = true;
    assert_int_equal(graphrun_start(&run, FLOW, "j", "1"), QP_OK);
    assert_int_equal(graphrun_signal_job(&run, "j", "go", "9"), QP_OK);
    graphrun_wait(&run, 60 * 1000);
    graphrun_expect(&run, "j", "failed", NULL);
    assert_int_equal(graphrun_calls(&run, "double"), 1);
    broken = false;
    run.kill_at = kill_at > 0 ? run.commits + kill_at : 0;
    assert_int_equal(
        graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = "r", .retries = true}),
        QP_OK);
    graphrun_wait(&run, 60 * 1000);
    kills = run.kills;
    graphrun_expect(&run, "r", "completed", "2");
    assert_int_equal(graphrun_calls(&run, "charge"), 1);
    assert_int_equal(graphrun_calls(&run, "double"), 1);
    finish();
    return kills;
}

static void refuse(const struct graphrun_fork *fork, int rc, const char *why);

/* What the cancel has ended is open again in a job that is made of the cancelled one, and what was undone is forgotten. */
static int64_t retry_cancelled(enum storetest_kind kind, bool stepwise, int64_t kill_at)
{
    int64_t kills;
    begin(kind, stepwise, undoes);
    assert_int_equal(graphrun_start(&run, FLOW, "j", "1"), QP_OK);
    graphrun_settle(&run);
    assert_int_equal(graphrun_end(&run, "j", JOB_CANCELLED), QP_OK);
    graphrun_wait(&run, 60 * 1000);
    graphrun_expect(&run, "j", "cancelled", NULL);
    assert_int_equal(graphrun_calls(&run, "double"), 1);
    refuse(&(struct graphrun_fork){.from = "j", .id = "x", .at = "double"}, QP_E_INVALID,
           "at: 'double': it was done because the job was cancelled");
    run.kill_at = kill_at > 0 ? run.commits + kill_at : 0;
    assert_int_equal(
        graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = "r", .retries = true}),
        QP_OK);
    assert_int_equal(
        graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = "f", .at = "{3}"}), QP_OK);
    graphrun_wait(&run, 60 * 1000);
    graphrun_expect(&run, "r", "waiting", NULL);
    graphrun_expect(&run, "f", "waiting", NULL);
    assert_int_equal(graphrun_signal_job(&run, "r", "go", "9"), QP_OK);
    assert_int_equal(graphrun_signal_job(&run, "f", "go", "9"), QP_OK);
    graphrun_wait(&run, 60 * 1000);
    kills = run.kills;
    graphrun_expect(&run, "r", "completed", "2");
    graphrun_expect(&run, "f", "completed", "2");
    assert_int_equal(graphrun_calls(&run, "charge"), 1);
    assert_int_equal(graphrun_calls(&run, "double"), 1);
    finish();
    return kills;
}

static void test_retry_of_compensated(void **state)
{
    (void)state;
    for (int stepwise = 0; stepwise < 2; stepwise++) {
        (void)retry_undone(STORETEST_MEMORY, stepwise == 1, 0);
        (void)retry_cancelled(STORETEST_MEMORY, stepwise == 1, 0);
    }
}

static void refuse(const struct graphrun_fork *fork, int rc, const char *why)
{
    assert_int_equal(graphrun_fork(&run, fork), rc);
    if (strstr(run.refused, why) == NULL) {
        fail_msg("%s: not about %s", run.refused, why);
    }
    assert_null(graphrun_job(&run, fork->id));
}

static void test_refusals(void **state)
{
    (void)state;
    begin(STORETEST_MEMORY, false, twenty);
    run_twenty("j");
    refuse(&(struct graphrun_fork){.from = "j", .id = "x", .at = "{99}"}, QP_E_NOT_FOUND,
           "at: '{99}': the history has no such event, or has forgotten it");
    refuse(&(struct graphrun_fork){.from = "j", .id = "x", .at = "{}"}, QP_E_INVALID,
           "at: '{}': it is no location of an event");
    refuse(&(struct graphrun_fork){.from = "j", .id = "x", .at = "{0"}, QP_E_INVALID,
           "it is no location of an event");
    refuse(&(struct graphrun_fork){.from = "j", .id = "x", .at = "refund"}, QP_E_NOT_FOUND,
           "the history has no such event");
    refuse(&(struct graphrun_fork){.from = "j", .id = "x", .retries = true}, QP_E_CONFLICT,
           "it has completed, so nothing of it is to be retried; fork it instead");
    refuse(&(struct graphrun_fork){.from = "j", .id = "x", .version = "2"}, QP_E_INVALID,
           "version: a job of this kind (flow) has none to choose; leave it out");
    finish();
}

/* ----------------------------------------------------------------------------------- long histories */

#define ROUND_RUNS 1000
#define ROUND_ACTIVITIES 100
static int long_rounds;

/* Rounds of as many events as a few copying decisions make: inline runs, activities all at once. */
static int long_round(qp_flow *flow, long long *sum)
{
    qp_handle handles[ROUND_ACTIVITIES];
    for (int i = 0; i < ROUND_RUNS; i++) {
        qp_str seven_text;
        QP_TRY(qp_inline(flow, "seven", seven, NULL, &seven_text));
        *sum += whole_of(seven_text);
    }
    for (int i = 0; i < ROUND_ACTIVITIES; i++) {
        QP_TRY(qp_begin_activity(flow, "double", QP_STR("21"), NULL, &handles[i]));
    }
    QP_TRY(qp_all(flow, handles, ROUND_ACTIVITIES));
    for (int i = 0; i < ROUND_ACTIVITIES; i++) {
        qp_str output;
        QP_TRY(qp_output(flow, handles[i], &output));
        *sum += whole_of(output);
    }
    return QP_OK;
}

static int is_long(qp_flow *flow, qp_str input, void *context)
{
    long long sum = 0;
    char text[32];
    qp_str output;
    (void)input;
    (void)context;
    for (int i = 0; i < long_rounds; i++) {
        QP_TRY(long_round(flow, &sum));
    }
    QP_TRY(qp_activity(flow, "charge", QP_STR("3"), NULL, &output));
    (void)snprintf(text, sizeof text, "%lld", sum + whole_of(output));
    return qp_return(flow, str_from(text));
}

static void fork_long(enum storetest_kind kind, bool stepwise, int64_t kill_at, int64_t *out_kills,
                      int64_t *out_commits)
{
    char at[32];
    char expected[32];
    int64_t events = (int64_t)long_rounds * (ROUND_RUNS + ROUND_ACTIVITIES);
    int64_t before;
    begin(kind, stepwise, is_long);
    assert_int_equal(graphrun_start(&run, FLOW, "j", "1"), QP_OK);
    graphrun_settle(&run);
    (void)snprintf(expected, sizeof expected, "%d",
                   long_rounds * (7 * ROUND_RUNS + 42 * ROUND_ACTIVITIES) + 6);
    graphrun_expect(&run, "j", "completed", expected);
    (void)snprintf(at, sizeof at, "{%lld}", (long long)events + 1);
    before = run.commits;
    run.kill_at = kill_at > 0 ? before + kill_at : 0;
    assert_int_equal(graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = "f", .at = at}),
                     QP_OK);
    graphrun_wait(&run, 60 * 1000);
    graphrun_expect(&run, "f", "completed", expected);
    assert_int_equal(graphrun_calls(&run, "double"), long_rounds * ROUND_ACTIVITIES);
    assert_in_range(graphrun_calls(&run, "charge"), 2, 2 + run.kills);
    *out_kills = run.kills;
    *out_commits = run.commits - before;
    finish();
}

/* More than a page of the plan holds; in the torture lane more than one message may commit. Undisturbed, and killed at
 * some commits of the copying. */
static void test_long_histories(void **state)
{
    uint64_t random = testenv_seed();
    int64_t kills = 0;
    int64_t killed;
    int64_t commits;
    (void)state;
    for (int kind = 0; kind < (testenv_is_torture() ? storetest_kinds() : 1); kind++) {
        long_rounds = testenv_is_torture() ? 24 : 4;
        fork_long((enum storetest_kind)kind, false, 0, &killed, &commits);
        print_message("%d events on %s: %lld commits\n",
                      long_rounds * (ROUND_RUNS + ROUND_ACTIVITIES),
                      storetest_name((enum storetest_kind)kind), (long long)commits);
        long_rounds = 4;
        fork_long((enum storetest_kind)kind, true, 0, &killed, &commits);
        assert_true(commits > long_rounds * ROUND_RUNS / LIMIT_FLOW_COPY_EVENTS);
        for (int i = 0; i < (testenv_is_torture() ? 6 : 2); i++) {
            int64_t unused;
            fork_long((enum storetest_kind)kind, true,
                      1 + (int64_t)testenv_random_below(&random, (uint64_t)commits), &killed,
                      &unused);
            kills += killed;
        }
    }
    print_message("%lld kills\n", (long long)kills);
    assert_true(kills > 0);
}

/* --------------------------------------------------------------------------------------- kills */

static void kill_everywhere(int64_t (*once)(enum storetest_kind, bool, int64_t), bool stepwise)
{
    static const int64_t strides[STORETEST_ALL] = {[STORETEST_MEMORY] = 1,
                                                   [STORETEST_MEMORY_ROWS] = 7,
                                                   [STORETEST_SQLITE] = 43,
                                                   [STORETEST_SQLITE_SMALL] = 61,
                                                   [STORETEST_POSTGRES] = 101};
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        int64_t stride = testenv_is_torture() ? 1 : strides[kind] * (stepwise ? 5 : 1);
        int64_t kills = 0;
        for (int64_t at = 1; once((enum storetest_kind)kind, stepwise, at) > 0; at += stride) {
            kills++;
        }
        print_message("%s%s: %lld kills\n", storetest_name((enum storetest_kind)kind),
                      stepwise ? ", stepwise" : "", (long long)kills);
        assert_true(kills > 0);
    }
}

static void test_fork_killed(void **state)
{
    (void)state;
    kill_everywhere(fork_once, false);
    kill_everywhere(fork_once, true);
}

static void test_retry_killed(void **state)
{
    (void)state;
    kill_everywhere(retry_once, false);
    kill_everywhere(retry_once, true);
}

static void test_compensated_killed(void **state)
{
    (void)state;
    kill_everywhere(retry_undone, false);
    kill_everywhere(retry_undone, true);
    kill_everywhere(retry_cancelled, false);
    kill_everywhere(retry_cancelled, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retry_of_compensated),
        cmocka_unit_test(test_compensated_killed),
        cmocka_unit_test(test_every_location),
        cmocka_unit_test(test_retry),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_fork_killed),
        cmocka_unit_test(test_retry_killed),
        cmocka_unit_test(test_long_histories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

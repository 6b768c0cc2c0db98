/* test_children.c - flows and graphs that start flows: results, close policies, kills
 *
 * top starts mid and mid starts leaf, each with the same close policy, awaited or detached. Then top ends: it is cancelled,
 * killed, fails, or returns. What becomes of the other two says the policy, and each flow that was asked to end has run its
 * compensation once. A graph in the place of top does the same when it is cancelled, killed, fails, or runs out of time.
 * Undisturbed on every store, and killed at commits, fused and step by step: the short lane at some of them in memory, the
 * torture lane at all of them on all stores. QP_SEED chooses which.
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

#define TOPICS "@top @mid @leaf double refuse undo"
#define STRIDE 47 /* of the short lane */
#define COMMITS_MAX 100000

static struct graphrun run;
static struct qp_child options; /* of every child */
static qp_flow_function top_function;

/* -------------------------------------------------------------------------------------- the worker */

static const struct job_row *job_of(qp_str id)
{
    char text[QP_ID_SIZE];
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(id));
    return graphrun_job(&run, text);
}

static struct qp_child with_id(const char *id)
{
    struct qp_child child = options;
    child.id = id;
    return child;
}

static int leaf(qp_flow *flow, qp_str input, void *context)
{
    qp_str output;
    (void)context;
    QP_TRY(qp_defer(flow, "undo", QP_STR("\"leaf\"")));
    QP_TRY(qp_activity(flow, "double", input, NULL, &output));
    QP_TRY(qp_listen(flow, "go", NULL, NULL));
    return qp_return(flow, output);
}

static int mid(qp_flow *flow, qp_str input, void *context)
{
    struct qp_child child = with_id("leaf");
    qp_str output;
    (void)context;
    QP_TRY(qp_defer(flow, "undo", QP_STR("\"mid\"")));
    QP_TRY(qp_child(flow, "leaf", input, &child, &output));
    if (options.detached) {
        QP_TRY(qp_listen(flow, "go", NULL, NULL));
    }
    return qp_return(flow, output);
}

/* Ends as a signal says. */
static int top(qp_flow *flow, qp_str input, void *context)
{
    struct qp_child child = with_id("mid");
    qp_handle handle;
    qp_str word;
    (void)context;
    QP_TRY(qp_defer(flow, "undo", QP_STR("\"top\"")));
    QP_TRY(qp_begin_child(flow, "mid", input, &child, &handle));
    QP_TRY(qp_listen(flow, "end", NULL, &word));
    return qp_str_is(word, "\"fail\"") ? qp_flow_fail(flow, "as it was told")
                                       : qp_return(flow, word);
}

/* Those of a retry end by themselves; mid fails as long as there is no van. */
static bool ends_itself;
static bool broken;

static int quick_leaf(qp_flow *flow, qp_str input, void *context)
{
    qp_str output;
    (void)context;
    QP_TRY(qp_activity(flow, "double", input, NULL, &output));
    return qp_return(flow, output);
}

static int quick_mid(qp_flow *flow, qp_str input, void *context)
{
    struct qp_step once = {.attempts = 1};
    qp_str output;
    (void)context;
    QP_TRY(qp_child(flow, "leaf", input, NULL, &output));
    QP_TRY(broken ? qp_activity(flow, "refuse", QP_STR("0"), &once, NULL) : qp_sleep(flow, 1000));
    return qp_return(flow, output);
}

/* Two at once, one that is not waited for, and one that may fail. */
static int books(qp_flow *flow, qp_str input, void *context)
{
    qp_handle both[2];
    qp_str a;
    qp_str b;
    qp_str c;
    char text[64];
    int n;
    (void)context;
    QP_TRY(qp_begin_child(flow, "leaf", input, &(struct qp_child){.id = "leaf-a"}, &both[0]));
    QP_TRY(qp_begin_child(flow, "leaf", QP_STR("1"), NULL, &both[1]));
    QP_TRY(qp_all(flow, both, 2));
    QP_TRY(qp_child(flow, "leaf", QP_STR("2"), &(struct qp_child){.detached = true}, NULL));
    QP_TRY(qp_output(flow, both[0], &a));
    QP_TRY(qp_output(flow, both[1], &b));
    QP_TRY(qp_child(flow, "mid", a, &(struct qp_child){.id = "mid"}, &c));
    n = snprintf(text, sizeof text, "[%.*s,%.*s,%.*s]", STR_ARG(a), STR_ARG(b), STR_ARG(c));
    return qp_return(flow, (qp_str){text, (size_t)n});
}

static qp_flow_function function_of(qp_str topic)
{
    return str_equal(topic, QP_STR("@leaf"))  ? (ends_itself ? quick_leaf : leaf)
           : str_equal(topic, QP_STR("@mid")) ? (ends_itself ? quick_mid : mid)
                                              : top_function;
}

static void decide(struct graphcall *c)
{
    struct arena arena;
    struct flow_log log;
    struct qp_err err = {0};
    struct script_result result;
    const struct job_row *job = job_of(c->job);
    struct script_input input = {.env = &run.f.t.env,
                                 .arena = &arena,
                                 .log = &log,
                                 .now = run.f.t.now_ms,
                                 .function = function_of(c->topic)};
    arena_init(&arena, &run.f.t.env, 0);
    if (log_read(run.f.s, &arena, (struct job_ref){job->ns, job->job}, &log, &err) != QP_OK) {
        fail_msg("log_read: %s", err.text);
    }
    assert_int_equal(script_run(&input, &result), QP_OK);
    if (result.kind == SCRIPT_ERROR || result.kind == SCRIPT_STOPPED) {
        fail_msg("%.*s: %.*s", STR_ARG(c->topic), STR_ARG(result.text));
    }
    assert_true(result.decision.n < sizeof c->output);
    memcpy(c->output, result.decision.p, result.decision.n);
    arena_done(&arena);
}

static void work(struct graphcall *c)
{
    if (c->topic.p[0] == '@') {
        decide(c);
    } else if (str_equal(c->topic, QP_STR("refuse"))) {
        c->kind = RESULT_ERROR;
        c->code = 422;
        (void)snprintf(c->output, sizeof c->output, "{\"message\":\"no van\"}");
    } else {
        (void)snprintf(c->output, sizeof c->output, "%ld", 2 * strtol(c->input.p, NULL, 10));
    }
}

static void begin(enum storetest_kind kind, bool stepwise, qp_flow_function of_top)
{
    top_function = of_top;
    ends_itself = of_top != top;
    broken = false;
    run.stepwise = stepwise;
    graphrun_init(&run, kind, TOPICS, work);
    run.too_late = true; /* results of jobs that were killed */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(graphrun_announce(&run, (const char *[]){"top", "mid", "leaf"}[i]), QP_OK);
    }
}

static void finish(void)
{
    graphrun_check(&run);
    graphrun_done(&run);
}

/* ------------------------------------------------------------------------------------ how it ends */

enum way { WAY_CANCEL, WAY_KILL, WAY_FAIL, WAY_RETURN, WAY_TIME, WAYS };
static const char *const way_names[] = {"cancelled", "killed", "fails", "returns", "out of time"};

struct plan {
    enum storetest_kind kind;
    bool stepwise;
    bool graph; /* in the place of top */
    bool detached;
    enum qp_close_policy close;
    enum way way;
    int64_t kill_at; /* 0: never */
};

/* The graph fails, or runs out of time, a minute after it has begun, unless it was ended before. */
static const char *graph_text(const struct plan *p)
{
    static char text[2048];
    (void)snprintf(text, sizeof text,
                   "app:\n"
                   "  id: tops\n"
                   "  version: '1'\n"
                   "  graphs:\n"
                   "    - subscribes: gtop\n"
                   "      activities:\n"
                   "        start:\n"
                   "          type: trigger\n"
                   "        call:\n"
                   "          type: await\n"
                   "          topic: mid\n"
                   "          await: %s\n"
                   "        later:\n"
                   "          type: hook\n"
                   "          sleep: 60\n"
                   "        last:\n"
                   "          type: worker\n"
                   "          topic: %s\n"
                   "%s"
                   "      transitions:\n"
                   "        start:\n"
                   "          - to: call\n"
                   "          - to: later\n"
                   "        later:\n"
                   "          - to: last\n",
                   p->detached ? "false" : "true",
                   p->way == WAY_TIME     ? "nobody"
                   : p->way == WAY_RETURN ? "double"
                                          : "refuse",
                   p->way == WAY_TIME ? "          startTimeout: 1\n" : "");
    return text;
}

/* Mid has no id of its own under a graph. */
static char mid_id[QP_ID_SIZE];

static int find_mid(void *context, const void *row)
{
    const struct job_row *job = row;
    (void)context;
    if (str_equal(job->workflow, QP_STR("mid"))) {
        (void)snprintf(mid_id, sizeof mid_id, "%.*s", STR_ARG(job->jid));
    }
    return QP_OK;
}

static void take_mid(void)
{
    struct scan all = {.table = TABLE_job, .index = -1, .limit = SIZE_MAX};
    mid_id[0] = '\0';
    assert_int_equal(store_scan(run.f.s, &all, NULL, find_mid, NULL), QP_OK);
    assert_true(mid_id[0] != '\0');
}

static void end_top(const struct plan *p)
{
    switch (p->way) {
    case WAY_CANCEL:
        assert_int_equal(graphrun_end(&run, "top", JOB_CANCELLED), QP_OK);
        break;
    case WAY_KILL:
        assert_int_equal(graphrun_end(&run, "top", JOB_INTERRUPTED), QP_OK);
        break;
    default:
        if (!p->graph) {
            assert_int_equal(graphrun_signal_job(&run, "top", "end",
                                                 p->way == WAY_FAIL ? "\"fail\"" : "\"done\""),
                             QP_OK);
        }
        break;
    }
    graphrun_wait(&run,
                  150 * 1000); /* a limit of time is looked at again when the engine died over it */
}

/* What has become of a called job. */
static const char *word_of(const struct plan *p)
{
    return p->close == QP_CLOSE_CANCEL ? "cancelled"
           : p->close == QP_CLOSE_KILL ? "interrupted"
                                       : "completed";
}

static const char *word_of_top(const struct plan *p)
{
    static const char *const words[] = {"cancelled", "interrupted", "failed", "completed",
                                        "failed"};
    return words[p->way];
}

static int count_undone(void *context, const void *row)
{
    const struct act_row *act = row;
    if (str_equal(act->topic, QP_STR("undo"))) {
        assert_true(act->guid_seq > 0 && act->code == 200);
        ++*(int64_t *)context;
    }
    return QP_OK;
}

static void expect_undone(const char *id, bool expected)
{
    struct act_row first = {.ns = STORE_NS_DEFAULT, .job = graphrun_job(&run, id)->job};
    struct scan scan = {
        .table = TABLE_act, .index = -1, .prefix = &first, .prefix_count = 2, .limit = SIZE_MAX};
    int64_t count = 0;
    assert_int_equal(store_scan(run.f.s, &scan, &count, count_undone, NULL), QP_OK);
    assert_int_equal(count, expected);
}

/* Those that go on end by themselves; a signal to one that has ended is refused. */
static void let_go(const char *id)
{
    int rc = graphrun_signal_job(&run, id, "go", "1");
    assert_true(rc == QP_OK || rc == QP_E_CLOSED);
}

static void start_top(const struct plan *p)
{
    options = (struct qp_child){.detached = p->detached, .close = p->close};
    begin(p->kind, p->stepwise, top);
    if (p->graph) {
        graphrun_deploy(&run, graph_text(p));
    }
    run.commits = 0;
    run.kill_at = p->kill_at;
    assert_int_equal(graphrun_start(&run, p->graph ? "gtop" : "top", "top", "7"), QP_OK);
    graphrun_settle(&run);
    take_mid();
}

/* Returns how often the engine died. */
static int64_t end_run(const struct plan *p)
{
    bool waits = p->way == WAY_RETURN && !p->detached; /* it completes with its child */
    int64_t kills;
    start_top(p);
    graphrun_expect(&run, mid_id, "waiting", NULL);
    graphrun_expect(&run, "leaf", "waiting", NULL);
    end_top(p);
    if (!waits) {
        graphrun_expect(&run, "top", word_of_top(p), NULL);
        expect_undone("top", !p->graph && (p->way == WAY_CANCEL || p->way == WAY_FAIL));
    }
    let_go("leaf");
    if (p->detached) {
        let_go(mid_id);
    }
    graphrun_wait(&run, 1000);
    graphrun_expect(&run, "top", word_of_top(p), NULL);
    /* Under a graph mid has the graph's policy for itself, and gives its own to leaf. */
    graphrun_expect(&run, mid_id, waits ? "completed" : word_of(p), NULL);
    graphrun_expect(&run, "leaf", waits ? "completed" : word_of(p), NULL);
    expect_undone(mid_id, !waits && p->close == QP_CLOSE_CANCEL);
    expect_undone("leaf", !waits && p->close == QP_CLOSE_CANCEL);
    kills = run.kills;
    finish();
    return kills;
}

/* A graph cancels what it awaits, and leaves alone what it does not. */
static bool has_policy(const struct plan *p)
{
    return p->graph ? p->close == (p->detached ? QP_CLOSE_ABANDON : QP_CLOSE_CANCEL) &&
                          !(p->way == WAY_RETURN && !p->detached)
                    : p->way != WAY_TIME;
}

static void each_plan(void (*visit)(struct plan *p))
{
    for (int i = 0; i < 2 * 2 * 3 * WAYS; i++) {
        struct plan p = {.graph = i % 2 == 1,
                         .detached = i / 2 % 2 == 1,
                         .close = (enum qp_close_policy)(QP_CLOSE_CANCEL + i / 4 % 3),
                         .way = (enum way)(i / 12)};
        if (has_policy(&p)) {
            visit(&p);
        }
    }
}

static void print_plan(const struct plan *p, int64_t kills)
{
    static const char *const policies[] = {"default", "cancel", "kill", "abandon"};
    print_message("%s%s, %s, %s %s on %s%s: %lld kills\n", p->graph ? "graph" : "flow",
                  p->detached ? ", detached" : "", policies[p->close], p->graph ? "it" : "top",
                  way_names[p->way], storetest_name(p->kind), p->stepwise ? ", stepwise" : "",
                  (long long)kills);
}

static int64_t nth_plan;

static void run_undisturbed(struct plan *p)
{
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        p->kind = (enum storetest_kind)kind;
        for (int stepwise = 0; stepwise < 2; stepwise++) {
            p->stepwise = stepwise == 1;
            bool sampled = stepwise == 0 && ++nth_plan % (testenv_is_sanitized() ? 11 : 3) == 0;
            if (kind == STORETEST_MEMORY || testenv_is_torture() || sampled) {
                assert_int_equal(end_run(p), 0);
            }
        }
    }
}

/* Proves what becomes of children, on every store. */
static void test_close(void **state)
{
    (void)state;
    each_plan(run_undisturbed);
}

static uint64_t chance;

static void run_killed(struct plan *p)
{
    int64_t stride = testenv_is_torture() ? 1 : testenv_is_sanitized() ? 5 * STRIDE : STRIDE;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (int stepwise = 0; stepwise < 2; stepwise++) {
            int64_t kills = 0;
            if (kind > STORETEST_MEMORY && !testenv_is_torture()) {
                continue;
            }
            p->kind = (enum storetest_kind)kind;
            p->stepwise = stepwise == 1;
            p->kill_at = 1 + (int64_t)testenv_random_below(&chance, (uint64_t)stride);
            while (end_run(p) > 0) {
                assert_true(p->kill_at < COMMITS_MAX);
                kills++;
                p->kill_at += stride;
            }
            print_plan(p, kills);
        }
    }
}

/* Proves the same of an engine that dies behind any commit. */
static void test_killed(void **state)
{
    (void)state;
    chance = testenv_seed();
    each_plan(run_killed);
}

/* ------------------------------------------------------------------------------ retry and fork */

static int count_workflow(void *context, const void *row)
{
    const struct job_row *job = row;
    int64_t *counts = context;
    counts[0] += str_equal(job->workflow, QP_STR("leaf"));
    counts[1] += str_equal(job->workflow, QP_STR("mid"));
    return QP_OK;
}

static void expect_jobs(int64_t leaves, int64_t mids)
{
    struct scan all = {.table = TABLE_job, .index = -1, .limit = SIZE_MAX};
    int64_t counts[2] = {0, 0};
    assert_int_equal(store_scan(run.f.s, &all, counts, count_workflow, NULL), QP_OK);
    assert_int_equal(counts[0], leaves);
    assert_int_equal(counts[1], mids);
}

static int64_t books_once(enum storetest_kind kind, bool stepwise, int64_t kill_at)
{
    int64_t kills;
    begin(kind, stepwise, books);
    broken = true;
    assert_int_equal(graphrun_start(&run, "top", "j", "7"), QP_OK);
    graphrun_wait(&run, 10 * 1000);
    graphrun_expect(&run, "j", "failed", "no van");
    graphrun_expect(&run, "j", "failed", "\"job\":\"mid\"");
    expect_jobs(4, 1);
    broken = false;
    run.kill_at = kill_at > 0 ? run.commits + kill_at : 0;
    /* Mid begins again, as a job of its own, and what it calls; what has ended does not. */
    assert_int_equal(
        graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = "r", .retries = true}),
        QP_OK);
    graphrun_wait(&run, 60 * 1000);
    graphrun_expect(&run, "r", "completed", "[14,2,28]");
    expect_jobs(5, 2);
    /* From the detached one on: that and mid. */
    assert_int_equal(
        graphrun_fork(&run, &(struct graphrun_fork){.from = "r", .id = "f", .at = "{3}"}), QP_OK);
    graphrun_wait(&run, 60 * 1000);
    graphrun_expect(&run, "f", "completed", "[14,2,28]");
    expect_jobs(7, 3);
    kills = run.kills;
    finish();
    return kills;
}

/* Proves that the fork of a flow keeps what its children have brought. */
static void test_forked(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (int stepwise = 0; stepwise < 2; stepwise++) {
            int64_t stride = testenv_is_torture() ? 1 : kind == STORETEST_MEMORY ? 13 : 1009;
            int64_t kills = 0;
            for (int64_t at = 0;
                 books_once((enum storetest_kind)kind, stepwise == 1, at) > 0 || at == 0;
                 at = at == 0 ? 1 : at + stride) {
                kills += at > 0;
            }
            print_message("%s%s: %lld kills\n", storetest_name((enum storetest_kind)kind),
                          stepwise ? ", stepwise" : "", (long long)kills);
        }
    }
}

/* A fork of a flow that waits calls again what is open, under another id, and its end closes its own children alone. */
static void test_fork_of_open(void **state)
{
    (void)state;
    options = (struct qp_child){.close = QP_CLOSE_KILL};
    begin(STORETEST_MEMORY, false, top);
    ends_itself = true; /* mid and leaf */
    assert_int_equal(graphrun_start(&run, "top", "j", "7"), QP_OK);
    graphrun_settle(&run);
    graphrun_expect(&run, "mid", "waiting", NULL);
    assert_int_equal(
        graphrun_fork(&run, &(struct graphrun_fork){.from = "j", .id = "f", .at = "{2}"}), QP_OK);
    graphrun_settle(&run);
    expect_jobs(2, 2);
    assert_int_equal(graphrun_end(&run, "f", JOB_INTERRUPTED), QP_OK);
    graphrun_settle(&run);
    graphrun_expect(&run, "mid", "waiting", NULL);
    assert_int_equal(graphrun_signal_job(&run, "j", "end", "1"), QP_OK);
    graphrun_wait(&run, 60 * 1000);
    graphrun_expect(&run, "mid", "completed", "14");
    graphrun_expect(&run, "j", "completed", "1");
    take_mid();
    graphrun_expect(&run, mid_id, "interrupted", NULL);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_forked),
        cmocka_unit_test(test_fork_of_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

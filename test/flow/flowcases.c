/* flowcases.c - flows under test: their functions, the worker that decides, and what must come of them */
#include "flowcases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "flow/log.h"
#include "flow/script.h"
#include "kernel/properties.h"

#define FLOW "orders"
#define TOPICS "@orders double serial refuse slow undo"
#define JOB "j"

static struct graphrun run;
static const struct flow_case *now_running;
static int64_t decisions;
static int64_t serial;
static int64_t kill_every;
static int64_t last_kill;
static int64_t cancel_at;
static struct request_end cancel;
static enum { CANCEL_NONE, CANCEL_ASKED, CANCEL_ANSWERED } cancel_state;
static int64_t cancel_kills; /* when it was asked */

/* Texts of rows and calls have no NUL behind them. */
static long long whole_of(qp_str text)
{
    char digits[32];
    (void)snprintf(digits, sizeof digits, "%.*s", STR_ARG(text));
    return strtoll(digits, NULL, 10);
}

/* -------------------------------------------------------------------------------------- the worker */

/* The function, with two compensations around it. */
static int guarded(qp_flow *flow, qp_str input, void *context)
{
    QP_TRY(qp_defer(flow, "undo", QP_STR("1")));
    QP_TRY(qp_defer(flow, "undo", QP_STR("2")));
    return now_running->function(flow, input, context);
}

static void decide(struct graphcall *c)
{
    struct arena arena;
    struct flow_log log;
    struct qp_err err = {0};
    struct script_result result;
    const struct job_row *job = graphrun_job(&run, JOB);
    struct script_input input = {.env = &run.f.t.env,
                                 .arena = &arena,
                                 .log = &log,
                                 .now = run.f.t.now_ms,
                                 .function = cancel_at > 0 ? guarded : now_running->function};
    decisions++;
    arena_init(&arena, &run.f.t.env, 0);
    if (log_read(run.f.s, &arena, (struct job_ref){job->ns, job->job}, &log, &err) != QP_OK) {
        fail_msg("log_read: %s", err.text);
    }
    input.context = &log;
    assert_int_equal(script_run(&input, &result), QP_OK);
    if (result.kind == SCRIPT_ERROR || result.kind == SCRIPT_STOPPED) {
        fail_msg("%s: %.*s", now_running->name, STR_ARG(result.text));
    }
    assert_true(result.decision.n < sizeof c->output);
    memcpy(c->output, result.decision.p, result.decision.n);
    arena_done(&arena);
}

static void work(struct graphcall *c)
{
    long long number = strtoll(c->input.p, NULL, 10);
    if (c->topic.p[0] == '@') {
        decide(c);
    } else if (qp_str_is(c->topic, "refuse")) {
        c->kind = RESULT_ERROR;
        c->code = 404;
        (void)snprintf(c->output, sizeof c->output, "{\"code\":404,\"message\":\"no such thing\"}");
    } else if (qp_str_is(c->topic, "serial")) {
        (void)snprintf(c->output, sizeof c->output, "%lld", (long long)++serial);
    } else {
        (void)snprintf(c->output, sizeof c->output, "%lld", 2 * number);
    }
}

static int64_t calls_made(void)
{
    return graphrun_calls(&run, "double") + graphrun_calls(&run, "serial") +
           graphrun_calls(&run, "refuse") + graphrun_calls(&run, "slow");
}

/* --------------------------------------------------------------------------------------- functions */

/* {"n":..} of a number that a function gives on. */
static qp_str text_of(char text[32], long long number)
{
    return (qp_str){text, (size_t)snprintf(text, 32, "%lld", number)};
}

static int call_double(qp_flow *flow, long long number, long long *out_number)
{
    char text[32];
    qp_str output;
    QP_TRY(qp_activity(flow, "double", text_of(text, number), NULL, &output));
    *out_number = whole_of(output);
    return QP_OK;
}

static int return_number(qp_flow *flow, long long number)
{
    char text[32];
    return qp_return(flow, text_of(text, number));
}

static int ten(qp_flow *flow, qp_str input, void *context)
{
    long long number = whole_of(input);
    (void)context;
    for (int i = 0; i < 10; i++) {
        QP_TRY(call_double(flow, number, &number));
    }
    return return_number(flow, number);
}

/* Every result is another one, so what was committed is seen in the output. */
static int serials(qp_flow *flow, qp_str input, void *context)
{
    char text[256];
    size_t n = 0;
    (void)input;
    (void)context;
    for (int i = 0; i < 5; i++) {
        qp_str output;
        QP_TRY(qp_activity(flow, "serial", QP_STR("0"), NULL, &output));
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s", i == 0 ? "[" : ",",
                              STR_ARG(output));
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "]");
    return qp_return(flow, (qp_str){text, n});
}

static int sum_of(qp_flow *flow, const qp_handle *handles, size_t count, long long *out_sum)
{
    *out_sum = 0;
    for (size_t i = 0; i < count; i++) {
        qp_str output;
        QP_TRY(qp_output(flow, handles[i], &output));
        *out_sum += whole_of(output);
    }
    return QP_OK;
}

static int all_of_twenty(qp_flow *flow, qp_str input, void *context)
{
    qp_handle handles[20];
    long long sum;
    (void)input;
    (void)context;
    for (int i = 0; i < 20; i++) {
        char text[32];
        QP_TRY(qp_begin_activity(flow, "double", text_of(text, i), NULL, &handles[i]));
    }
    QP_TRY(qp_all(flow, handles, 20));
    QP_TRY(sum_of(flow, handles, 20, &sum));
    return return_number(flow, sum);
}

/* The first of three goes on; the job completes when the others have ended, too. */
static int any_of_three(qp_flow *flow, qp_str input, void *context)
{
    qp_handle handles[3];
    size_t first = 9;
    (void)input;
    (void)context;
    QP_TRY(qp_begin_sleep(flow, 60 * 1000, &handles[0]));
    QP_TRY(qp_begin_sleep(flow, 1000, &handles[1]));
    QP_TRY(qp_begin_sleep(flow, 30 * 1000, &handles[2]));
    QP_TRY(qp_any(flow, handles, 3, &first));
    return return_number(flow, (long long)first);
}

static int loop_of_fifty(qp_flow *flow, qp_str input, void *context)
{
    struct qp_loop loop = {.name = "count", .state = QP_STR("0")};
    (void)input;
    (void)context;
    while (qp_loop_next(flow, &loop)) {
        long long number = whole_of(loop.state);
        long long twice;
        char text[32];
        QP_TRY(call_double(flow, number, &twice));
        qp_loop_state(flow, &loop, text_of(text, number + twice / 2 + 1 - number));
        if (loop.iteration == 49) {
            qp_loop_break(flow, &loop, text_of(text, twice));
        }
    }
    QP_TRY(loop.rc);
    return qp_return(flow, loop.output);
}

static int inner_body(qp_flow *flow, void *context)
{
    struct qp_loop loop = {.name = "inner", .state = QP_STR("0")};
    (void)context;
    while (qp_loop_next(flow, &loop)) {
        long long twice;
        QP_TRY(call_double(flow, loop.iteration, &twice));
        QP_TRY(qp_sleep(flow, 1000));
        if (loop.iteration == 2) {
            qp_loop_break(flow, &loop, QP_STR("\"inner\""));
        }
    }
    QP_TRY(loop.rc);
    return qp_return(flow, loop.output);
}

static int inline_body(qp_flow *flow, void *context)
{
    (void)context;
    return qp_return(flow, QP_STR("7"));
}

static int nested(qp_flow *flow, qp_str input, void *context)
{
    struct qp_loop loop = {.name = "outer", .state = QP_STR("0")};
    qp_str output;
    (void)input;
    (void)context;
    QP_TRY(qp_inline(flow, "seven", inline_body, NULL, &output));
    while (qp_loop_next(flow, &loop)) {
        QP_TRY(qp_closure(flow, "body", inner_body, NULL, &output));
        if (loop.iteration == 1) {
            qp_loop_break(flow, &loop, output);
        }
    }
    QP_TRY(loop.rc);
    return qp_return(flow, loop.output);
}

static int fails(qp_flow *flow, qp_str input, void *context)
{
    static const int never[] = {404};
    qp_str output;
    (void)input;
    (void)context;
    return qp_activity(flow, "refuse", QP_STR("0"),
                       &(struct qp_step){.never = never, .never_count = 1}, &output);
}

/* Code that changes while the flow runs: from the moment that so many events of the old code are complete, for good. */
static bool is_newer(const struct flow_log *log, size_t count)
{
    size_t answered = 0;
    for (size_t i = 0; i < log->history.count; i++) {
        answered += log->history.events[i].version == 1 && log->entries[i].done > 0;
    }
    return answered >= count;
}

static int inserted(qp_flow *flow, qp_str input, void *context)
{
    bool newer = is_newer(context, 3);
    long long number = whole_of(input);
    QP_TRY(call_double(flow, number, &number));
    if (newer) {
        long long ignored;
        QP_TRY(call_double(qp_v(flow, 2), 1000, &ignored));
        QP_TRY(qp_sleep(qp_v(flow, 2), 1000));
    }
    for (int i = 0; i < 4; i++) {
        QP_TRY(call_double(flow, number, &number));
    }
    return return_number(flow, number);
}

/* One step has gone that the history has, one that it has not, and one has come between two that it has. */
static int edited(qp_flow *flow, qp_str input, void *context)
{
    bool newer = is_newer(context, 4);
    long long number = whole_of(input);
    long long ignored;
    QP_TRY(call_double(flow, number, &number));
    QP_TRY(newer ? qp_removed(flow, QP_EVENT_ACTIVITY, "slow")
                 : qp_activity(flow, "slow", QP_STR("1"), NULL, NULL));
    QP_TRY(call_double(flow, number, &number));
    if (newer) {
        QP_TRY(call_double(qp_v(flow, 2), 1000, &ignored));
    }
    QP_TRY(call_double(flow, number, &number));
    QP_TRY(newer ? qp_removed(flow, QP_EVENT_ACTIVITY, "refuse")
                 : qp_activity(flow, "refuse", QP_STR("0"), NULL, NULL));
    QP_TRY(call_double(flow, number, &number));
    return return_number(flow, number);
}

/* Rounds that gain a step in their middle: those that are over, the one that is open, and those to come. */
static int grown_body(qp_flow *flow, void *context)
{
    struct qp_loop loop = {.name = "inner", .state = QP_STR("0")};
    bool newer = is_newer(context, 12);
    while (qp_loop_next(flow, &loop)) {
        long long number;
        QP_TRY(call_double(flow, loop.iteration, &number));
        if (newer) {
            QP_TRY(call_double(qp_v(flow, 2), 1000, &number));
        }
        QP_TRY(qp_sleep(flow, 1000));
        if (loop.iteration == 2) {
            char text[32];
            qp_loop_break(flow, &loop, text_of(text, number));
        }
    }
    QP_TRY(loop.rc);
    return qp_return(flow, loop.output);
}

static int nested_inserted(qp_flow *flow, qp_str input, void *context)
{
    struct qp_loop loop = {.name = "outer", .state = QP_STR("0")};
    qp_str output;
    (void)input;
    while (qp_loop_next(flow, &loop)) {
        QP_TRY(qp_closure(flow, "body", grown_body, context, &output));
        if (loop.iteration == 1) {
            qp_loop_break(flow, &loop, output);
        }
    }
    QP_TRY(loop.rc);
    return qp_return(flow, loop.output);
}

static int listens(qp_flow *flow, qp_str input, void *context)
{
    qp_str data;
    (void)input;
    (void)context;
    QP_TRY(qp_listen(flow, "go", &(struct qp_listen){.timeout_ms = 10 * 1000}, &data));
    return qp_return(flow, data.p == NULL ? QP_STR("\"too late\"") : data);
}

/* A flow that was cancelled may be over. */
static void send(const char *name, const char *data)
{
    int rc = graphrun_signal_job(&run, JOB, name, data);
    assert_true(rc == QP_OK || (cancel_at > 0 && rc == QP_E_CLOSED));
}

static void send_now(void)
{
    graphrun_settle(&run);
    send("go", "5");
}

/* The timer is due in the round that gets the signal. */
static void send_at_the_end(void)
{
    graphrun_settle(&run);
    testenv_advance_ms(&run.f.t, 10 * 1000);
    send("go", "5");
}

/* Signals that came before, of several names, and one that the flow sends to itself. */
static int listens_late(qp_flow *flow, qp_str input, void *context)
{
    static const char *const others[] = {"b"};
    const struct flow_log *log = context;
    qp_str several;
    qp_str own;
    qp_str name;
    char text[64];
    int n;
    (void)input;
    QP_TRY(qp_sleep(flow, 1000));
    QP_TRY(qp_listen(flow, "a",
                     &(struct qp_listen){.others = others, .other_count = 1, .out_name = &name},
                     &several));
    QP_TRY(qp_signal_flow(flow, log->job, "own", QP_STR("[7]")));
    QP_TRY(qp_listen(flow, "own", NULL, &own));
    n = snprintf(text, sizeof text, "[\"%.*s\",%.*s,%.*s]", STR_ARG(name), STR_ARG(several),
                 STR_ARG(own));
    return qp_return(flow, (qp_str){text, (size_t)n});
}

static void send_two(void)
{
    send("b", "1");
    send("a", "2");
}

/* One decision with as many commands as there may be. */
static int two_thousand(qp_flow *flow, qp_str input, void *context)
{
    qp_handle handle;
    qp_str output;
    (void)input;
    (void)context;
    for (int i = 0; i < 1900; i++) {
        QP_TRY(qp_inline(flow, "seven", inline_body, NULL, &output));
    }
    for (int i = 0; i < 99; i++) {
        QP_TRY(qp_begin_sleep(flow, 1000, &handle));
    }
    QP_TRY(qp_activity(flow, "double", QP_STR("21"), NULL, &output));
    return qp_return(flow, output);
}

static void expect_got(qp_flow *flow, const char *name, const char *json)
{
    qp_str value;
    assert_int_equal(qp_get(flow, name, &value), QP_OK);
    if (json == NULL ? value.p != NULL : !qp_str_is(value, json)) {
        fail_msg("%s is %.*s, not %s", name, STR_ARG(value), json == NULL ? "none" : json);
    }
}

static int set_body(qp_flow *flow, void *context)
{
    char text[32];
    long long number = 0;
    (void)context;
    expect_got(flow, "step", "\"one\"");
    QP_TRY(qp_set(flow, "part", QP_STR("0")));
    for (int i = 0; i < 3; i++) {
        QP_TRY(call_double(flow, i, &number));
        QP_TRY(qp_set(flow, "part", text_of(text, number)));
    }
    return qp_return(flow, QP_NONE);
}

static int set_in_rounds(qp_flow *flow)
{
    struct qp_loop loop = {.name = "rounds", .state = QP_STR("0")};
    while (qp_loop_next(flow, &loop)) {
        char text[32];
        long long number;
        QP_TRY(call_double(flow, loop.iteration, &number));
        QP_TRY(qp_set(flow, "round", text_of(text, loop.iteration)));
        if (loop.iteration == 2) {
            qp_loop_break(flow, &loop, QP_NONE);
        }
    }
    return loop.rc;
}

/* What the code gets is the same in every replay: whatever parallel code has come to, and behind a loop that is not entered
 * again. */
static int sets(qp_flow *flow, qp_str input, void *context)
{
    qp_handle part;
    (void)input;
    (void)context;
    QP_TRY(qp_set(flow, "step", QP_STR("\"one\"")));
    QP_TRY(qp_set(flow, "gone", QP_STR("[1]")));
    QP_TRY(qp_begin_closure(flow, "part", set_body, NULL, &part));
    expect_got(flow, "part", NULL);
    QP_TRY(qp_set(flow, "step", QP_STR("\"two\"")));
    QP_TRY(set_in_rounds(flow));
    expect_got(flow, "round", "2");
    expect_got(flow, "part", NULL);
    QP_TRY(qp_all(flow, &part, 1));
    expect_got(flow, "part", "4");
    expect_got(flow, "step", "\"two\"");
    QP_TRY(qp_set(flow, "part", QP_STR("5")));
    QP_TRY(qp_all(flow, &part, 1));
    expect_got(flow, "part", "5");
    QP_TRY(qp_set(flow, "gone", QP_NONE));
    expect_got(flow, "gone", NULL);
    return return_number(flow, 7);
}

/* ------------------------------------------------------------------------------------------ runs */

const struct flow_case flow_cases[] = {
    {.name = "ten", .function = ten, .output = "1024", .calls = 10},
    {.name = "serials", .function = serials, .calls = 5},
    {.name = "all of twenty", .function = all_of_twenty, .output = "380", .calls = 20},
    {.name = "any of three", .function = any_of_three, .output = "1", .leaves = true},
    {.name = "loop of fifty",
     .function = loop_of_fifty,
     .output = "98",
     .calls = 50,
     .large = true},
    {.name = "nested", .function = nested, .output = "\"inner\"", .calls = 6},
    {.name = "fails", .function = fails, .error = "no such thing", .calls = 1},
    {.name = "inserted", .function = inserted, .output = "32", .calls = 6},
    {.name = "edited", .function = edited, .output = "16", .calls = 6},
    {.name = "nested, inserted", .function = nested_inserted, .output = "2000", .calls = 12},
    {.name = "signal in time", .function = listens, .output = "5", .script = send_now},
    {.name = "no signal", .function = listens, .output = "\"too late\""},
    {.name = "signal and timer",
     .function = listens,
     .output = "5",
     .or_output = "\"too late\"",
     .script = send_at_the_end},
    {.name = "signals kept",
     .function = listens_late,
     .output = "[\"b\",1,[7]]",
     .script = send_two},
    {.name = "properties",
     .function = sets,
     .output = "7",
     .properties = "{\"step\":\"two\",\"part\":5,\"round\":2}",
     .calls = 6},
    {.name = "two thousand",
     .function = two_thousand,
     .output = "42",
     .calls = 1,
     .leaves = true,
     .large = true,
     .huge = true},
};
const size_t flow_case_count = ARRAY_COUNT(flow_cases);

/* Every committed result was used once, in the order of the code. */
static void expect_serials(void)
{
    char expected[256];
    size_t n = 0;
    for (int i = 1; i <= 5; i++) {
        char addr[8];
        const struct act_row *act;
        (void)snprintf(addr, sizeof addr, "@a%d!", i);
        act = graphrun_act(&run, JOB, addr);
        assert_non_null(act);
        n += (size_t)snprintf(expected + n, sizeof expected - n, "%s%.*s", i == 1 ? "[" : ",",
                              STR_ARG(act->output));
    }
    (void)snprintf(expected + n, sizeof expected - n, "]");
    graphrun_expect(&run, JOB, "completed", expected);
}

static void expect_properties(const struct flow_case *c)
{
    const struct job_row *job = graphrun_job(&run, JOB);
    struct arena arena;
    struct qp_err err;
    qp_str json;
    arena_init(&arena, &run.f.t.env, 0);
    assert_int_equal(properties_read(run.f.s, &arena, job, &json, &err), QP_OK);
    if (c->properties == NULL ? json.p != NULL : !qp_str_is(json, c->properties)) {
        fail_msg("%s: the properties are %.*s", c->name, STR_ARG(json));
    }
    arena_done(&arena);
}

static void expect(const struct flow_case *c)
{
    int64_t made = calls_made();
    expect_properties(c);
    if (c->error != NULL) {
        graphrun_expect(&run, JOB, "failed", c->error);
    } else if (c->output != NULL) {
        const struct job_row *job = graphrun_job(&run, JOB);
        bool other = c->or_output != NULL && str_equal(job->output, str_from(c->or_output));
        graphrun_expect(&run, JOB, "completed", other ? c->or_output : c->output);
    } else {
        expect_serials();
    }
    if (made < c->calls || made > c->calls + run.kills + (cancel_at > 0)) {
        fail_msg("%s: %lld calls, expected %lld, %lld kills", c->name, (long long)made,
                 (long long)c->calls, (long long)run.kills);
    }
}

struct undone {
    struct arena *arena;
    qp_str inputs[4];
    bool answered[4];
    size_t count;
};

static int find_undone(void *context, const void *row)
{
    struct undone *u = context;
    const struct act_row *act = row;
    if (qp_str_is(act->topic, "undo")) {
        assert_true(u->count < 4);
        assert_true(arena_copy(u->arena, act->input, &u->inputs[u->count]));
        u->answered[u->count++] = act->guid_seq > 0 && act->code == 200;
    }
    return QP_OK;
}

static void cancel_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    (void)e;
    (void)c;
    (void)why;
    cancel_state = rc == QP_OK ? CANCEL_ANSWERED : CANCEL_NONE;
}

/* It is asked in the next round, and again when the engine died over it. */
static void ask_to_cancel(struct graphrun *r)
{
    bool lost = cancel_state == CANCEL_ASKED && cancel_kills < r->kills;
    if (cancel_at == 0 || r->commits < cancel_at || r->e == NULL ||
        (cancel_state != CANCEL_NONE && !lost)) {
        return;
    }
    cancel = (struct request_end){.ns = STORE_NS_DEFAULT,
                                  .jid = QP_STR(JOB),
                                  .state = JOB_CANCELLED,
                                  .error = QP_STR("changed my mind")};
    request_end(&cancel);
    cancel.command.answer = cancel_answered;
    cancel_state = CANCEL_ASKED;
    cancel_kills = r->kills;
    engine_submit(r->e, &cancel.command);
}

/* Compensations that were begun, in the order of their places, and whether each was answered. */
static void expect_undone(bool expected)
{
    static const char *const inputs[] = {"2", "1"};
    struct act_row first = {.ns = STORE_NS_DEFAULT, .job = graphrun_job(&run, JOB)->job};
    struct scan scan = {.table = TABLE_act,
                        .index = -1,
                        .prefix = &first,
                        .prefix_count = 2,
                        .limit = LIMIT_FLOW_EVENTS};
    struct arena arena;
    struct undone undone = {.arena = &arena};
    struct qp_err err;
    arena_init(&arena, &run.f.t.env, 0);
    assert_int_equal(store_scan(run.f.s, &scan, &undone, find_undone, &err), QP_OK);
    assert_int_equal(undone.count, expected ? 2 : 0);
    for (size_t i = 0; i < undone.count; i++) {
        assert_true(qp_str_is(undone.inputs[i], inputs[i]));
        assert_true(undone.answered[i]);
    }
    arena_done(&arena);
}

/* It ended as asked, unless it had ended before; with compensations, unless no code had run. */
static void expect_cancelled(const struct flow_case *c, struct flow_end *end)
{
    const struct job_row *job = graphrun_job(&run, JOB);
    const struct act_row *flow;
    end->cancelled = job->state == JOB_CANCELLED;
    if (!end->cancelled) {
        expect(c);
        expect_undone(c->error != NULL);
        return;
    }
    flow = graphrun_act(&run, JOB, "flow,0,0");
    graphrun_expect(&run, JOB, "cancelled", "changed my mind");
    expect_undone(flow != NULL && graphrun_job(&run, JOB)->cancelled > 0);
}

/* The store is whole at the boundary where the engine dies, too. */
static void check_before_kill(struct graphrun *r)
{
    ask_to_cancel(r);
    if (r->kill_at == 0 && kill_every > 0) {
        r->kill_at = last_kill + kill_every;
    }
    if (r->kill_at > 0 && r->commits >= r->kill_at) {
        last_kill = r->kill_at;
        graphrun_check(r);
    }
}

struct flow_end flow_run(const struct flow_case *c, const struct flow_way *way)
{
    struct flow_end end;
    struct store_info before;
    struct store_info after;
    now_running = c;
    run.stepwise = way->stepwise;
    decisions = serial = 0;
    graphrun_init(&run, way->kind, TOPICS, work);
    assert_int_equal(graphrun_announce(&run, FLOW), QP_OK);
    run.commits = 0;
    run.kill_at = way->kill_at;
    kill_every = way->kill_at > 0 ? way->kill_every : 0;
    last_kill = 0;
    cancel_at = way->cancel_at;
    cancel_state = CANCEL_NONE;
    run.too_late = cancel_at > 0;
    run.after_round = way->watch != NULL ? way->watch : check_before_kill;
    store_info(run.f.s, &before);
    assert_int_equal(graphrun_start(&run, FLOW, JOB, "1"), QP_OK);
    if (c->script != NULL) {
        c->script();
    }
    graphrun_wait(&run, 120 * 1000);
    store_info(run.f.s, &after);
    end = (struct flow_end){.in_time = cancel_state == CANCEL_ANSWERED};
    if (cancel_at > 0) {
        expect_cancelled(c, &end);
    } else {
        expect(c);
    }
    graphrun_check(&run);
    end = (struct flow_end){.cancelled = end.cancelled,
                            .in_time = end.in_time,
                            .kills = run.kills,
                            .commits = run.commits,
                            .rows = after.rows_written - before.rows_written,
                            .decisions = decisions};
    graphrun_done(&run);
    return end;
}

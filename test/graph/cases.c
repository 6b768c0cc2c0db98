/* cases.c - graphs of the shapes that users of the format know, each with a script and what must come of it (see cases.h)
 *
 * The graphs are in test/graph/vectors. Workers are the functions below, and know nothing but their task: so a case runs the
 * same when the engine is killed on the way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "base/json.h"
#include "cases.h"
#include "echo.h"
#include "graph/view.h"

#define TOPICS "do.first do.second do.flaky loop.count loop.err"

static struct graphrun run;
static int64_t fail_times; /* of do.flaky */
static qp_ms called_at[64];
static int64_t called;

/* --------------------------------------------------------------------------------------------- workers */

static void member(qp_str input, const char *name, char *out_text, size_t size)
{
    struct json *json = NULL;
    qp_str text = QP_STR("");
    assert_int_equal(json_parse(&run.f.t.env, input, NULL, &json), QP_OK);
    if (!json_as_str(json_get(json, str_from(name)), &text)) {
        text = QP_STR("");
    }
    (void)snprintf(out_text, size, "%.*s", STR_ARG(text));
    json_free(json);
}

static int64_t number(qp_str input, const char *name)
{
    struct json *json = NULL;
    int64_t value = -1;
    assert_int_equal(json_parse(&run.f.t.env, input, NULL, &json), QP_OK);
    if (!json_as_i64(json_get(json, str_from(name)), &value)) {
        value = -1;
    }
    json_free(json);
    return value;
}

static void work_code(struct graphcall *c)
{
    int64_t code = number(c->input, "code");
    if (code == 202 && c->index == 0) {
        c->kind = RESULT_PENDING;
        c->code = 202;
        (void)snprintf(c->output, sizeof c->output, "{\"code\":202,\"percentage\":49}");
    } else if (code == 422) {
        c->kind = RESULT_ERROR;
        c->code = 422;
        (void)snprintf(c->output, sizeof c->output,
                       "{\"message\":\"invalid input\",\"reason\":\"why not\"}");
    } else {
        (void)snprintf(c->output, sizeof c->output, "{\"code\":200,\"percentage\":99}");
    }
}

/* From 1: the second segment of the address says it. */
static int64_t round_of(qp_str addr)
{
    char text[LIMIT_ADDRESS_SIZE];
    const char *comma;
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(addr));
    comma = strchr(strchr(text, ',') + 1, ',');
    return strtoll(comma + 1, NULL, 10) + 1;
}

static void work(struct graphcall *c)
{
    char text[256];
    if (str_equal(c->topic, QP_STR("do.first")) && number(c->input, "code") >= 0) {
        work_code(c);
    } else if (str_equal(c->topic, QP_STR("do.first"))) {
        member(c->input, "x", text, sizeof text);
        (void)snprintf(c->output, sizeof c->output, "{\"y\":\"%s world\"}", text);
    } else if (str_equal(c->topic, QP_STR("do.second"))) {
        member(c->input, "i", text, sizeof text);
        (void)snprintf(c->output, sizeof c->output, "{\"o\":\"%s world\"}", text);
    } else if (str_equal(c->topic, QP_STR("do.flaky"))) {
        called_at[called++ % 64] = run.f.t.now_ms;
        c->kind = c->failures < fail_times ? RESULT_ERROR : RESULT_DONE;
        c->code = c->kind == RESULT_ERROR ? 500 : 0;
        (void)snprintf(c->output, sizeof c->output, "{\"result\":\"success\",\"attempts\":%lld}",
                       (long long)c->failures + 1);
    } else {
        int64_t rounds = round_of(c->addr);
        c->code = str_equal(c->topic, QP_STR("loop.err")) && rounds < 5 ? 500 : 200;
        (void)snprintf(c->output, sizeof c->output, "{\"counter\":%lld}", (long long)rounds);
    }
}

/* --------------------------------------------------------------------------------------------- harness */

static bool twice;

static int64_t commits_that_stand(void)
{
    return failpoint_hits("engine.committed");
}

static void fail_from_now(const struct case_way *way)
{
    char spec[64];
    (void)snprintf(spec, sizeof spec, "*=error@%lld", (long long)way->fail_at);
    run.faults = true;
    run.committed = commits_that_stand;
    run.dies = way->dies;
    assert_int_equal(failpoint_set(spec), QP_OK);
}

struct case_end case_run(const struct graph_case *c, const struct case_way *way)
{
    struct case_end end = {0};
    run.stepwise = way->stepwise;
    twice = way->twice;
    graphrun_init(&run, way->kind, TOPICS, work);
    called = 0;
    graphrun_deploy_vector(&run, c->graph);
    run.kill_at = way->kill_at > 0 ? run.commits + way->kill_at : 0;
    if (way->fail_at > 0) {
        fail_from_now(way);
    }
    if (way->twice) {
        echo_begin(&run, true);
    }
    c->script();
    assert_int_equal(failpoint_set(NULL), QP_OK);
    end = (struct case_end){.disturbed = run.kills + run.failed > 0,
                            .again = way->twice ? echo_end(&run) : 0};
    graphrun_check(&run);
    graphrun_done(&run);
    return end;
}

/* Whether something happened that may have an activity entered again. */
static bool is_disturbed(void)
{
    return run.kills + run.failed > 0 || twice;
}

/* A call may be made again after a kill, and only then. */
static void expect_calls(const char *topic, int64_t calls)
{
    int64_t made = graphrun_calls(&run, topic);
    assert_true(made >= calls && made <= calls + run.kills + run.failed);
}

static int start(const char *topic, const char *id, const char *input)
{
    int rc = graphrun_start(&run, topic, id, input);
    graphrun_settle(&run);
    return rc;
}

/* The collation key. */
static const char *state_of(const char *id)
{
    static char text[64];
    struct arena arena;
    qp_str digits;
    qp_str key;
    struct qp_err err = {0};
    const struct job_row *job = graphrun_job(&run, id);
    const struct app *app = graphrun_app(&run, job);
    arena_init(&arena, &run.f.t.env, 0);
    job = graphrun_job(&run, id);
    assert_int_equal(
        view_digits(&arena, run.f.s, app_graph(app, job->workflow), job, &digits, &err), QP_OK);
    assert_int_equal(view_key(&arena, digits, &key), QP_OK);
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(key));
    arena_done(&arena);
    return text;
}

static void expect_ledger(const char *id, const char *addr, const char *ledger)
{
    char text[16];
    const struct act_row *act = graphrun_act(&run, id, addr);
    if (act == NULL) {
        fail_msg("there is no %s", addr);
    }
    ledger_text(act->ledger, text);
    if (is_disturbed()) { /* it may have been entered again */
        memcpy(text + 1, ledger + 1, 2);
    }
    assert_string_equal(text, ledger);
}

/* ----------------------------------------------------------------------------------------------- cases */

/* C01: a trigger alone completes at once, its GUID owns the edge. */
static void trigger_only(void)
{
    assert_int_equal(start("demo.start", "j", "{}"), QP_OK);
    graphrun_expect(&run, "j", "completed", "{}");
    assert_int_equal(graphrun_job(&run, "j")->sem, 0);
    assert_true(str_is_none(graphrun_job(&run, "j")->output));
    assert_true(str_equal(graphrun_job(&run, "j")->version, QP_STR("demo/1")));
    expect_ledger("j", "trigger,0", "101100000000001");
    assert_int_equal(graphrun_act(&run, "j", "trigger,0")->guid_ledger, 111100000000);
    assert_string_equal(state_of("j"), "600000000000000");
}

/* C02: a passthrough. */
static void passthrough(void)
{
    assert_int_equal(start("demo.start", "j", "{}"), QP_OK);
    graphrun_expect(&run, "j", "completed", "{}");
    expect_ledger("j", "a1,0,0", "201100000000000");
    assert_string_equal(state_of("j"), "660000000000000");
}

/* C04: a worker sees what is mapped and nothing else; its answer is mapped into the job's data. The schema of the input
 * is held. */
static void worker(void)
{
    assert_int_equal(start("demo.start", "j", "{\"a\":\"hello\"}"), QP_OK);
    graphrun_expect(&run, "j", "completed", "{\"b\":\"hello world\"}");
    assert_true(str_equal(graphrun_act(&run, "j", "a1,0,0")->input, QP_STR("{\"x\":\"hello\"}")));
    expect_ledger("j", "a1,0,0", "201100000000001");
    assert_string_equal(state_of("j"), "660000000000000");
    assert_int_equal(start("demo.start", "k", "{\"a\":5}"), QP_E_SHAPE);
    assert_null(graphrun_job(&run, "k"));
}

/* C05: two at once. */
static void parallel(void)
{
    assert_int_equal(start("demo.start", "j", "{\"a\":\"hello\"}"), QP_OK);
    graphrun_expect(&run, "j", "completed", "{\"b\":\"hello world\",\"c\":\"hello world\"}");
    assert_int_equal(graphrun_job(&run, "j")->completions, 1);
}

/* C07: a graph calls another. */
static void composed(void)
{
    assert_int_equal(start("demo.start", "j", "{\"a\":\"hello\"}"), QP_OK);
    graphrun_expect(&run, "j", "completed", "{\"b\":\"hello world\"}");
    assert_true(str_equal(graphrun_act(&run, "j", "a1,0,0")->output,
                          QP_STR("{\"awaitOutput1\":\"hello world\"}")));
}

/* C08: conditions. */
static void conditions(void)
{
    assert_int_equal(start("demo.start", "hello", "{\"a\":\"hello\"}"), QP_OK);
    graphrun_expect(&run, "hello", "completed",
                    "{\"b\":\"hello world\",\"c\":\"hello world world\"}");
    expect_calls("do.second", 1);
    assert_int_equal(start("demo.start", "goodbye", "{\"a\":\"goodbye\"}"), QP_OK);
    graphrun_expect(&run, "goodbye", "completed", "{}");
    assert_string_equal(state_of("goodbye"), "336000000000000");
    expect_calls("do.first", 1);
    assert_int_equal(start("demo.start", "help", "{\"a\":\"help\"}"), QP_OK);
    graphrun_expect(&run, "help", "completed", "{\"b\":\"help world\"}");
    expect_calls("do.second", 1);
    assert_string_equal(state_of("help"), "636000000000000");
}

/* C10: a chain; every generation is one segment more. */
static void chain(void)
{
    assert_int_equal(start("season", "j", "{\"a\":5,\"b\":7}"), QP_OK);
    graphrun_expect(&run, "j", "completed", NULL);
    assert_int_equal(number(graphrun_job(&run, "j")->output, "height"), 35);
    assert_int_equal(number(graphrun_job(&run, "j")->output, "a"), 5);
    for (size_t i = 0; i < 5; i++) {
        static const char *const names[] = {"north", "east", "south", "west", "up"};
        char text[64];
        member(graphrun_job(&run, "j")->output, names[i], text, sizeof text);
        assert_true(text[0] == '2');
    }
    assert_non_null(graphrun_act(&run, "j", "up,0,0,0,0,0,0"));
}

/* C15: ids from the input, a conflict, a signal to one of many, a signal to all that have a facet. */
static void parcels(void)
{
    static const char *const sizes[] = {"sm", "md", "lg"};
    static const char *const ranks[] = {"primary", "secondary", "tertiary"};
    static const char *const colors[] = {"red", "yellow", "blue"};
    for (int i = 0; i < 81; i++) {
        char input[256];
        (void)snprintf(
            input, sizeof input,
            "{\"id\":\"p_%d\",\"size\":\"%s\",\"rank\":\"%s\",\"color\":\"%s\",\"depot\":%d}",
            1001 + i, sizes[i % 3], ranks[i / 3 % 3], colors[i / 9 % 3], i / 27);
        assert_int_equal(graphrun_start(&run, "parcel.start", NULL, input), QP_OK);
    }
    graphrun_settle(&run);
    assert_int_equal(graphrun_start(&run, "parcel.start", NULL, "{\"id\":\"p_1002\"}"),
                     QP_E_CONFLICT);
    assert_string_equal(state_of("p_1054"), "956000000000000");
    assert_int_equal(graphrun_signal(&run, "parcel.routed",
                                     "{\"id\":\"p_1054\",\"depot\":\"d1\",\"series\":\"s1\"}", 200),
                     QP_OK);
    graphrun_settle(&run);
    graphrun_expect(&run, "p_1054", "completed", "{\"depot\":\"d1\",\"series\":\"s1\"}");
    assert_string_equal(state_of("p_1054"), "646000000000000");
    assert_int_equal(start("parcel.recall", "all-red", "{\"color\":\"red\"}"), QP_OK);
    graphrun_expect(&run, "all-red", "completed", "{}");
    for (int i = 0; i < 81; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "p_%d", 1001 + i);
        if (i != 53) {
            graphrun_expect(&run, id, i / 9 % 3 == 0 ? "completed" : "waiting", NULL);
        }
    }
}

/* C18: how often, and how long between. */
static void retry(int64_t fails, int64_t calls, bool completes, const int64_t *gaps_ms)
{
    char output[64];
    fail_times = fails;
    assert_int_equal(start("retry.start", "j", "{}"), QP_OK);
    graphrun_wait(&run, 600 * 1000);
    (void)snprintf(output, sizeof output, "{\"result\":\"success\",\"attempts\":%lld}",
                   (long long)calls);
    graphrun_expect(&run, "j", completes ? "completed" : "failed", completes ? output : NULL);
    expect_calls("do.flaky", calls);
    for (int64_t k = 0; !is_disturbed() && k + 1 < called && gaps_ms != NULL; k++) {
        assert_int_equal(called_at[k + 1] - called_at[k], gaps_ms[k]);
    }
    assert_string_equal(state_of("j"), completes ? "660000000000000" : "760000000000000");
}

static void retry_a(void)
{
    retry(2, 3, true, NULL);
}

static void retry_b(void)
{
    retry(3, 4, true, (int64_t[]){2000, 4000, 8000});
}

static void retry_c(void)
{
    retry(3, 4, true, (int64_t[]){5000, 5000, 5000});
}

static void retry_d(void)
{
    retry(99, 1, false, NULL);
}

static void retry_e(void)
{
    retry(99, 3, false, (int64_t[]){2000, 4000});
}

static void retry_f(void)
{
    retry(1, 2, true, (int64_t[]){2000});
}

static void retry_g(void)
{
    retry(4, 5, true, (int64_t[]){1500, 2250, 3375, 5062});
}

static void retry_h(void)
{
    retry(1, 2, true, (int64_t[]){3000});
}

/* C19: a pending reply, then the last one; branches by code; an error that a branch takes. */
static void codes(void)
{
    assert_int_equal(start("code.start", "pending", "{\"code\":202}"), QP_OK);
    graphrun_expect(&run, "pending", "completed",
                    "{\"code\":200,\"percentage\":99,\"message\":\"success\"}");
    assert_non_null(graphrun_act(&run, "pending", "a202,0,0,0"));
    assert_non_null(graphrun_act(&run, "pending", "a200,0,1,0"));
    assert_null(graphrun_act(&run, "pending", "a200,0,0,0"));
    expect_ledger("pending", "a1,0,0", "201100000000002");
    assert_int_equal(start("code.start", "plain", "{\"code\":200}"), QP_OK);
    graphrun_expect(&run, "plain", "completed",
                    "{\"code\":200,\"percentage\":99,\"message\":\"success\"}");
    assert_int_equal(start("code.start", "wrong", "{\"code\":422}"), QP_OK);
    graphrun_expect(&run, "wrong", "completed", "{\"code\":422,\"message\":\"invalid input\"}");
    assert_string_equal(state_of("wrong"), "733660000000000");
}

/* C21: cycles: each round in a plane of its own. */
static void cycles(void)
{
    assert_int_equal(start("loop.start", "j", "{}"), QP_OK);
    graphrun_expect(&run, "j", "completed", "{\"counter\":5}");
    expect_calls("loop.count", 5);
    for (int i = 0; i < 5; i++) {
        char addr[32];
        (void)snprintf(addr, sizeof addr, "w1,0,%d,0", i);
        assert_non_null(graphrun_act(&run, "j", addr));
    }
    expect_ledger("j", "a1,0,0", "001100000000005");
    expect_ledger("j", "c1,0,0,0,0", "001100000000001");
    assert_int_equal(graphrun_job(&run, "j")->sem, 0);
    assert_int_equal(start("loop.again", "k", "{}"), QP_OK);
    graphrun_expect(&run, "k", "completed", "{\"counter\":5}");
    expect_calls("loop.err", 5);
}

/* C23: awaited, early, with a limit in time, without. */
static void signals(void)
{
    assert_int_equal(start("wait.start", NULL, "{\"job_id\":\"J\"}"), QP_OK);
    graphrun_expect(&run, "J", "waiting", NULL);
    assert_int_equal(graphrun_signal(&run, "wait.resume", "{\"id\":\"J\",\"done\":true}", 200),
                     QP_OK);
    graphrun_settle(&run);
    graphrun_expect(&run, "J", "completed", "{\"done\":true}");

    assert_int_equal(graphrun_signal(&run, "wait.resume", "{\"id\":\"E\",\"done\":true}", 200),
                     QP_OK);
    assert_int_equal(start("wait.start", NULL, "{\"job_id\":\"E\"}"), QP_OK);
    graphrun_expect(&run, "E", "completed", "{\"done\":true}");

    assert_int_equal(start("waitfor.start", NULL, "{\"job_id\":\"S\",\"timeout\":10}"), QP_OK);
    graphrun_wait(&run, 1000);
    assert_int_equal(graphrun_signal(&run, "waitfor.resume",
                                     "{\"id\":\"S\",\"done\":true,\"payload\":\"signal-arrived\"}",
                                     200),
                     QP_OK);
    graphrun_wait(&run, 15000);
    graphrun_expect(&run, "S", "completed",
                    "{\"signaled\":true,\"signal_data\":\"signal-arrived\"}");
    assert_int_equal(graphrun_job(&run, "S")->completions, 1);

    assert_int_equal(start("waitfor.start", NULL, "{\"job_id\":\"T\",\"timeout\":5}"), QP_OK);
    graphrun_wait(&run, 4900);
    graphrun_expect(&run, "T", "waiting", NULL);
    graphrun_wait(&run, 200);
    graphrun_expect(&run, "T", "completed", "{\"signaled\":false,\"signal_data\":\"timeout\"}");

    assert_int_equal(start("waitfor.start", NULL, "{\"job_id\":\"N\"}"), QP_OK);
    graphrun_wait(&run, 100000);
    graphrun_expect(&run, "N", "waiting", NULL);
    assert_int_equal(
        graphrun_signal(&run, "waitfor.resume", "{\"id\":\"N\",\"done\":true,\"payload\":1}", 200),
        QP_OK);
    graphrun_settle(&run);
    graphrun_expect(&run, "N", "completed", "{\"signaled\":true,\"signal_data\":1}");

    /* A signal for one that the timer has ended is kept for the next who waits under the same key. */
    assert_int_equal(graphrun_signal(&run, "waitfor.resume",
                                     "{\"id\":\"T\",\"done\":true,\"payload\":\"late\"}", 200),
                     QP_OK);
    graphrun_settle(&run);
    graphrun_expect(&run, "T", "completed", "{\"signaled\":false,\"signal_data\":\"timeout\"}");
}

/* Joins: all ways, one of them skipped, all skipped; the first of two. */
static void joins(void)
{
    assert_int_equal(start("join.all", "both", "{\"left\":\"l\",\"right\":\"r\"}"), QP_OK);
    graphrun_expect(&run, "both", "completed",
                    "{\"sum\":\"l world+r world world\",\"seen\":\"l world\"}");
    assert_non_null(graphrun_act(&run, "both", "join:both,0,0"));
    assert_non_null(graphrun_act(&run, "both", "both,0,0,0"));
    assert_int_equal(start("join.all", "one", "{\"left\":\"\",\"right\":\"r\"}"), QP_OK);
    graphrun_expect(&run, "one", "completed", "{\"sum\":\"+r world world\"}");
    assert_string_equal(state_of("one"), "666366000000000");
    assert_int_equal(start("join.all", "none", "{\"left\":\"\",\"right\":\"\"}"), QP_OK);
    graphrun_wait(
        &run,
        5000); /* step by step, the edge may come before its gate is entered: then it comes again */
    graphrun_expect(&run, "none", "completed", "{}");
    assert_string_equal(state_of("none"), "333336000000000");
    assert_int_equal(start("join.any", "first", "{}"), QP_OK);
    graphrun_wait(&run, 3000);
    assert_string_equal(state_of("first"), "465600000000000");
    graphrun_wait(&run, 5000);
    graphrun_expect(&run, "first", "completed", NULL);
}

/* Cycles around joins, in cycles, and out of cycles into a join. */
static void rounds(void)
{
    assert_int_equal(start("rounds.join", "j", "{}"), QP_OK);
    graphrun_expect(&run, "j", "completed",
                    "{\"round\":4,\"other\":4,\"out\":\"beside world\",\"last\":4}");
    expect_calls("loop.count", 8);
    assert_non_null(graphrun_act(&run, "j", "join:meet,0,3,0"));
    assert_int_equal(start("rounds.nested", "n", "{}"), QP_OK);
    /* (10+1 + 10+2 + 10+3) + (20+1 + 20+2 + 20+3) */
    graphrun_expect(&run, "n", "completed", "{\"total\":102}");
}

/* Interrupts of the job itself, of others, with those below; an awaited child that is ended, or asked to when its parent is; a
 * detached one. */
static void ends(void)
{
    assert_int_equal(start("end.self", "self", "{}"), QP_OK);
    graphrun_expect(&run, "self", "interrupted", "\"code\":418,\"message\":\"enough\"");
    assert_int_equal(graphrun_job(&run, "self")->completions, 1);
    expect_ledger("self", "stop,0,0", "001100000000000");

    assert_int_equal(start("end.parent", "p1", "{\"child\":\"c1\"}"), QP_OK);
    graphrun_expect(&run, "c1", "waiting", NULL);
    assert_string_equal(state_of("p1"), "896000000000000");
    assert_int_equal(start("end.other", "o1", "{\"target\":\"c1\"}"), QP_OK);
    graphrun_expect(&run, "o1", "completed", "{\"told\":true}");
    graphrun_expect(&run, "c1", "interrupted", "told so");
    graphrun_expect(&run, "p1", "completed",
                    "{\"code\":410,\"error\":\"told so\",\"err\":\"told so\"}");

    assert_int_equal(start("end.parent", "p2", "{\"child\":\"c2\"}"), QP_OK);
    assert_int_equal(start("end.other", "o2", "{\"target\":\"p2\",\"descend\":true}"), QP_OK);
    graphrun_expect(&run, "p2", "interrupted", "told so");
    graphrun_expect(&run, "c2", "interrupted", NULL);
    assert_int_equal(start("end.parent", "p3", "{\"child\":\"c3\"}"), QP_OK);
    assert_int_equal(start("end.other", "o3", "{\"target\":\"p3\"}"), QP_OK);
    graphrun_expect(&run, "p3", "interrupted", NULL);
    graphrun_expect(&run, "c3", "cancelled", "the job that called it has ended: p3");
    assert_int_equal(start("end.other", "o4", "{\"target\":\"nobody\"}"), QP_OK);
    graphrun_expect(&run, "o4", "completed", "{\"told\":true}");

    assert_int_equal(start("end.detached", "d", "{\"child\":\"c5\"}"), QP_OK);
    graphrun_expect(&run, "d", "completed", "{\"started\":\"c5\"}");
    graphrun_expect(&run, "c5", "waiting", NULL);
    /* Its id is taken: whoever awaits it is told. */
    assert_int_equal(start("end.parent", "p6", "{\"child\":\"c5\"}"), QP_OK);
    graphrun_expect(&run, "p6", "failed", "\"code\":409");

    fail_times = 99;
    assert_int_equal(start("end.failed", "f", "{}"), QP_OK);
    graphrun_expect(&run, "f", "failed", NULL);
    assert_string_equal(state_of("f"), "679000000000000");
    expect_calls("do.first", 0);
}

/* What is written is what was read. */
static void values(void)
{
    assert_int_equal(start("values.start", "j",
                           "{\"path\":\"/tree\",\"empty\":\"\",\"nothing\":null,"
                           "\"big\":9007199254740993}"),
                     QP_OK);
    graphrun_expect(&run, "j", "completed",
                    "{\"path\":\"/tree\",\"empty\":\"\",\"list\":[\"/tree\",2,{\"deep\":\"\"}],"
                    "\"nothing\":null,\"big\":9007199254740993,\"nested\":{\"one\":\"/tree\","
                    "\"two\":\"\"},\"whole\":{\"one\":\"/tree\"},\"id\":\"j\"}");
}

/* A child answers early; a threshold skips. */
static void persist(void)
{
    assert_int_equal(start("persist.start", "j", "{}"), QP_OK);
    graphrun_expect(&run, "j", "completed", "{\"early\":\"half\"}");
    graphrun_expect(&run, "the-child", "waiting", NULL);
    graphrun_wait(&run, 61000);
    graphrun_expect(&run, "the-child", "completed", "{\"progress\":\"all\"}");
    assert_int_equal(start("threshold.start", "t", "{}"), QP_OK);
    graphrun_wait(&run, 3000);
    graphrun_expect(&run, "t", "completed", "{}");
    assert_string_equal(state_of("t"), "443360000000000");
}

/* Error branches in a cycle; joins of joins, one of them of nothing. */
static void shapes(void)
{
    assert_int_equal(start("shape.errors", "e", "{}"), QP_OK);
    graphrun_expect(&run, "e", "completed", "{\"bad\":4,\"good\":5}");
    expect_calls("loop.err", 5);
    assert_int_equal(start("shape.joins", "both", "{\"right\":true}"), QP_OK);
    graphrun_wait(&run, 6000);
    graphrun_expect(&run, "both", "completed", "{\"all\":\"a worldb-c worldd-e\"}");
    assert_int_equal(start("shape.joins", "left", "{\"right\":false}"), QP_OK);
    graphrun_wait(&run, 6000);
    graphrun_expect(&run, "left", "completed", "{\"all\":\"a worldb--e\"}");
    assert_null(graphrun_act(&run, "left", "right,0,0,0"));
    assert_int_equal(start("shape.pending", "pending", "{}"), QP_OK);
    graphrun_wait(&run, 6000);
    graphrun_expect(&run, "pending", "completed", "{\"met\":1,\"last\":99}");
    assert_int_equal(start("shape.skipped", "skipped", "{}"), QP_OK);
    graphrun_wait(&run, 6000);
    graphrun_expect(&run, "skipped", "completed", "{\"joined\":true}");
    /* The one whose time is over, though its job is not, does not take the other's signal. */
    assert_int_equal(start("shape.timed", "over", "{\"key\":\"k\",\"timeout\":1}"), QP_OK);
    graphrun_wait(&run, 2000);
    graphrun_expect(&run, "over", "waiting", NULL);
    assert_int_equal(start("shape.timed", "waits", "{\"key\":\"k\"}"), QP_OK);
    assert_int_equal(graphrun_signal(&run, "shape.tell", "{\"key\":\"k\",\"word\":\"go\"}", 200),
                     QP_OK);
    graphrun_wait(&run, 40000);
    graphrun_expect(&run, "over", "completed", "{}");
    graphrun_expect(&run, "waits", "completed", "{\"told\":\"go\"}");
    /* A signal that was taken when the time was just over, and comes behind it. */
    assert_int_equal(start("shape.timed", "just", "{\"key\":\"j\",\"timeout\":1}"), QP_OK);
    testenv_advance_ms(&run.f.t, 1500);
    assert_int_equal(graphrun_signal(&run, "shape.tell", "{\"key\":\"j\",\"word\":\"now\"}", 200),
                     QP_OK);
    graphrun_wait(&run, 40000);
    graphrun_expect(&run, "just", "completed", "{\"told\":\"now\"}");
    /* The round that its threshold forbids is one that the join does not wait for. */
    assert_int_equal(start("shape.unturned", "unturned", "{}"), QP_OK);
    graphrun_wait(&run, 6000);
    graphrun_expect(&run, "unturned", "completed", "{\"met\":true}");
}

/* A child that is cancelled, fails, is interrupted; one that fails as often as it may be tried. */
static void calls(void)
{
    static const struct {
        const char *parent;
        const char *child;
        enum job_state state;
        const char *output;
    } ends[] = {
        {"p1", "c1", JOB_CANCELLED, "{\"end\":\"caught\",\"why\":\"cancelled\"}"},
        {"p2", "c2", JOB_FAILED, "{\"end\":\"caught\",\"why\":\"failed\"}"},
        {"p3", "c3", JOB_INTERRUPTED, "{\"end\":\"caught\",\"why\":\"interrupted\"}"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ends); i++) {
        char input[32];
        int rc;
        (void)snprintf(input, sizeof input, "{\"child\":\"%s\"}", ends[i].child);
        assert_int_equal(start("call.start", ends[i].parent, input), QP_OK);
        graphrun_expect(&run, ends[i].parent, "waiting", NULL);
        rc = graphrun_end(&run, ends[i].child, ends[i].state);
        assert_true(rc == QP_OK || (rc == QP_E_CLOSED && run.kills > 0));
        graphrun_settle(&run);
        graphrun_expect(&run, ends[i].parent, "completed", ends[i].output);
    }
    fail_times = 99;
    assert_int_equal(start("call.again", "again", "{}"), QP_OK);
    graphrun_wait(&run, 20000);
    graphrun_expect(&run, "again", "completed", "{\"code\":500}");
    expect_calls("do.flaky", 3);
    assert_int_equal(start("call.other", "other", "{}"), QP_OK); /* it is not of that code */
    graphrun_wait(&run, 20000);
    graphrun_expect(&run, "other", "completed", "{\"code\":500}");
    expect_calls("do.flaky", 4);
    /* The child that has failed keeps its id; the next one is another job. Whoever else wants that id is refused it. */
    assert_int_equal(start("call.named", "named", "{}"), QP_OK);
    graphrun_wait(&run, 20000);
    graphrun_expect(&run, "named", "completed", "{\"code\":500}");
    expect_calls("do.flaky", 7);
    graphrun_expect(&run, "the-child", "failed", NULL);
    assert_int_equal(start("call.named", "second", "{}"), QP_OK);
    graphrun_wait(&run, 20000);
    graphrun_expect(&run, "second", "completed", "{\"code\":409}");
    expect_calls("do.flaky", 7);
}

static void signal_pin(const char *job, const char *part, const char *word, int64_t code)
{
    char payload[96];
    int rc;
    (void)snprintf(payload, sizeof payload, "{\"job\":\"%s\",\"part\":\"%s\",\"word\":\"%s\"}", job,
                   part, word);
    rc = graphrun_signal(&run, "pin.go", payload, code);
    assert_true(rc == QP_OK || (rc == QP_E_EXISTS && run.kills > 0));
    graphrun_settle(&run);
}

/* Jobs stay on their version, over a restart, too; 202 keeps a hook, whose key is of two values; an id is free again when
 * its job has expired. */
static void pinned(void)
{
    assert_int_equal(start("pin.start", "old", "{\"part\":\"a\"}"), QP_OK);
    graphrun_deploy_vector(&run, "pinned2");
    graphrun_restart(&run);
    assert_int_equal(start("pin.start", "new", "{\"part\":\"a\"}"), QP_OK);
    signal_pin("old", "b", "other", 200); /* half of its key: for nobody */
    graphrun_expect(&run, "old", "waiting", NULL);
    signal_pin("old", "a", "wait", 202);
    graphrun_expect(&run, "old", "waiting", NULL);
    signal_pin("old", "a", "go", 200);
    graphrun_expect(&run, "old", "completed",
                    "{\"began\":1,\"more\":\"wait\",\"ended\":1,\"told\":\"go\"}");
    signal_pin("new", "a", "go", 200);
    graphrun_expect(&run, "new", "completed", "{\"began\":2,\"ended\":2,\"told\":\"go\"}");
    graphrun_wait(&run, 120000);
    assert_null(graphrun_job(&run, "old"));
    assert_int_equal(start("pin.start", "old", "{\"part\":\"a\"}"), QP_OK);
    graphrun_expect(&run, "old", "waiting", NULL);
}

/* Within its time to live, which is 600 s here, a signal waits for its hook; after it, it is gone. */
static void early(void)
{
    signal_pin("soon", "a", "early", 200);
    graphrun_wait(&run, 599000);
    assert_int_equal(start("pin.start", "soon", "{\"part\":\"a\"}"), QP_OK);
    graphrun_expect(&run, "soon", "completed", NULL);
    signal_pin("late", "a", "early", 200);
    graphrun_wait(&run, 601000);
    assert_int_equal(start("pin.start", "late", "{\"part\":\"a\"}"), QP_OK);
    graphrun_expect(&run, "late", "waiting", NULL);
    signal_pin("late", "a", "in time", 200);
    graphrun_expect(&run, "late", "completed", "{\"began\":1,\"ended\":1,\"told\":\"in time\"}");
}

/* ----------------------------------------------------------------------------- one job of each type */

static void type_worker(void)
{
    assert_int_equal(start("type.worker", "j", "{\"a\":\"hello\"}"), QP_OK);
    graphrun_expect(&run, "j", "completed", "{\"b\":\"hello world\"}");
    expect_ledger("j", "w1,0,0", "201100000000001");
    expect_ledger("j", "end1,0,0,0", "201100000000000");
    assert_string_equal(state_of("j"), "666000000000000");
    expect_calls("do.first", 1);
}

static void type_await(void)
{
    assert_int_equal(start("type.await", "j", "{\"a\":\"hello\"}"), QP_OK);
    graphrun_expect(&run, "j", "completed", "{\"b\":\"hello world\"}");
    expect_ledger("j", "call2,0,0", "201100000000001");
    assert_string_equal(state_of("j"), "666000000000000");
    expect_calls("do.first", 1);
}

static void start_waiting(const char *id, const char *color)
{
    char input[64];
    (void)snprintf(input, sizeof input, "{\"id\":\"%s\",\"color\":\"%s\"}", id, color);
    assert_int_equal(start("type.web", NULL, input), QP_OK);
    graphrun_expect(&run, id, "waiting", NULL);
    assert_string_equal(state_of(id), "965000000000000");
}

static void expect_told(const char *id, const char *output)
{
    graphrun_expect(&run, id, "completed", output);
    expect_ledger(id, "wait3,0,0", "201100000000001");
    assert_string_equal(state_of(id), "664000000000000");
}

static void type_web(void)
{
    start_waiting("j", "red");
    assert_int_equal(graphrun_signal(&run, "type.told", "{\"id\":\"j\",\"word\":\"go\"}", 200),
                     QP_OK);
    graphrun_settle(&run);
    expect_told("j", "{\"word\":\"go\"}");
}

static void type_pending(void)
{
    assert_int_equal(start("type.pending", "j", "{}"), QP_OK);
    assert_int_equal(graphrun_signal(&run, "type.progress", "{\"id\":\"j\"}", 202), QP_OK);
    assert_int_equal(graphrun_signal(&run, "type.progress", "{\"id\":\"j\"}", 200), QP_OK);
    graphrun_wait(&run, 10000); /* what failed comes again later */
    graphrun_expect(&run, "j", "completed", "{\"half\":true,\"whole\":true}");
    expect_ledger("j", "listen16,0,0", "201100000000002");
}

static void type_time(void)
{
    assert_int_equal(start("type.time", "j", "{}"), QP_OK);
    graphrun_wait(&run, 1900);
    graphrun_expect(&run, "j", "waiting", NULL);
    assert_string_equal(state_of("j"), "956000000000000");
    graphrun_wait(&run, 200);
    graphrun_expect(&run, "j", "completed", "{\"slept\":true}");
    expect_ledger("j", "nap4,0,0", "201100000000001");
    assert_string_equal(state_of("j"), "646000000000000");
}

static void type_one(void)
{
    start_waiting("a", "red");
    start_waiting("b", "red");
    assert_int_equal(start("type.one", "j", "{\"id\":\"a\"}"), QP_OK);
    graphrun_expect(&run, "j", "completed", "{\"told\":true}");
    expect_ledger("j", "tell5,0,0", "201100000000000");
    expect_told("a", "{\"word\":\"one\"}");
    graphrun_expect(&run, "b", "waiting", NULL);
}

static void type_all(void)
{
    start_waiting("a", "red");
    start_waiting("b", "blue");
    start_waiting("c", "red");
    assert_int_equal(start("type.all", "j", "{\"color\":\"red\"}"), QP_OK);
    graphrun_expect(&run, "j", "completed", "{\"told\":true}");
    expect_ledger("j", "tell6,0,0", "201100000000000");
    expect_told("a", "{\"word\":\"all\"}");
    expect_told("c", "{\"word\":\"all\"}");
    graphrun_expect(&run, "b", "waiting", NULL);
}

static void type_cycle(void)
{
    assert_int_equal(start("type.cycle", "j", "{}"), QP_OK);
    graphrun_expect(&run, "j", "completed", "{\"counter\":3}");
    expect_ledger("j", "pivot7,0,0", "001100000000003");
    expect_ledger("j", "again7,0,0,0,0", "001100000000001");
    expect_ledger("j", "again7,0,1,0,0", "001100000000001");
    assert_null(graphrun_act(&run, "j", "again7,0,2,0,0"));
    assert_string_equal(state_of("j"), "666600000000000"); /* of its planes the latest */
    expect_calls("loop.count", 3);
}

static void type_descend(void)
{
    assert_int_equal(start("type.parent", "p", "{\"child\":\"c\"}"), QP_OK);
    graphrun_expect(&run, "c", "waiting", NULL);
    assert_int_equal(start("type.stop", "j", "{\"target\":\"p\"}"), QP_OK);
    graphrun_expect(&run, "j", "completed", "{\"told\":true}");
    expect_ledger("j", "stop10,0,0", "201100000000000");
    graphrun_expect(&run, "p", "interrupted", "told so");
    graphrun_expect(&run, "c", "interrupted", "told so");
    assert_int_equal(graphrun_job(&run, "p")->completions, 1);
    assert_int_equal(graphrun_job(&run, "c")->completions, 1);
}

static void type_self(void)
{
    assert_int_equal(start("type.self", "j", "{}"), QP_OK);
    graphrun_expect(&run, "j", "interrupted", "\"code\":418,\"message\":\"enough\"");
    expect_ledger("j", "self11,0,0", "001100000000000");
    assert_int_equal(graphrun_job(&run, "j")->completions, 1);
}

static void type_join(void)
{
    assert_int_equal(start("type.join", "j", "{}"), QP_OK);
    graphrun_wait(&run, 900);
    assert_string_equal(state_of("j"), "965600000000000");
    graphrun_wait(&run, 10000); /* what failed comes again later */
    graphrun_expect(&run, "j", "completed", "{\"met\":\"left world\"}");
    assert_string_equal(state_of("j"), "664600000000000");
    expect_calls("do.first", 1);
}

/* A topic that no worker, no graph and no hook can have; the first ones are the engine's, and too long. */
static void wrong_topic(const char *kind)
{
    char topics[][LIMIT_NAME_SIZE + 2] = {"quipu:engine", "", "two words", ""};
    memset(topics[1], 'x', sizeof topics[1] - 1);
    for (size_t i = 0; i < ARRAY_COUNT(topics); i++) {
        char start_topic[32];
        char id[32];
        char input[LIMIT_NAME_SIZE + 32];
        (void)snprintf(start_topic, sizeof start_topic, "wrong.%s", kind);
        (void)snprintf(id, sizeof id, "%s%zu", kind, i);
        (void)snprintf(input, sizeof input, "{\"topic\":\"%s\"}", topics[i]);
        assert_int_equal(start(start_topic, id, input), QP_OK);
        graphrun_expect(&run, id, "failed", "\"code\":422");
    }
}

/* So many signals are kept for one key, and no more. */
static void wrong_full(void)
{
    for (int i = 0; i <= LIMIT_SIGNALS_PENDING_PER_KEY; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "full%d", i);
        assert_int_equal(start("wrong.full", id, "{}"), QP_OK);
        graphrun_expect(&run, id, "completed",
                        i < LIMIT_SIGNALS_PENDING_PER_KEY ? "{}" : "{\"code\":429}");
    }
}

#define TOO_LONG(activity, address)                                                                 \
    "{\"code\":422,\"message\":\"a mapping is over its limit: LIMIT_JSON_STRING_SIZE is 1048576\"," \
    "\"activity\":\"" activity "\",\"address\":\"" address "\"}"

/* An activity whose own mapping fails is errored, whichever of its maps it is, and its transitions go by the code; what it
 * would have left in the job is not there. */
static void wrong_mappings(void)
{
    assert_int_equal(start("wrong.input", "input", "{}"), QP_OK);
    graphrun_expect(&run, "input", "completed", "{\"err\":" TOO_LONG("w9", "w9,0,0") "}");
    assert_string_equal(state_of("input"), "636700000000000");
    assert_int_equal(start("wrong.data", "data", "{}"), QP_OK);
    graphrun_expect(&run, "data", "completed",
                    "{\"err\":" TOO_LONG("ha", "ha,0,0") ",\"attempt\":1}");
    assert_string_equal(state_of("data"), "763600000000000");
    assert_int_equal(graphrun_act(&run, "data", "ha,0,0")->attempt, 1);
    assert_int_equal(start("wrong.untaken", "untaken", "{}"), QP_OK);
    graphrun_expect(&run, "untaken", "failed", TOO_LONG("hb", "hb,0,0"));
    assert_string_equal(state_of("untaken"), "796000000000000");
    assert_int_equal(start("wrong.start", "start", "{}"), QP_OK);
    graphrun_expect(&run, "start", "completed", "{\"code\":422}");
    assert_string_equal(state_of("start"), "670000000000000");
}

/* What an activity cannot do is an error of its own, of whatever category it is. */
static void wrong(void)
{
    assert_int_equal(start("wrong.key", "key", "{}"), QP_OK);
    graphrun_expect(&run, "key", "failed", "\"code\":422");
    assert_string_equal(state_of("key"), "976000000000000");
    assert_int_equal(start("wrong.output", "output", "{}"), QP_OK);
    graphrun_expect(&run, "output", "failed", "\"code\":422");
    assert_int_equal(start("wrong.caught", "caught", "{}"), QP_OK);
    graphrun_expect(&run, "caught", "completed", "{\"code\":422}");
    wrong_topic("worker");
    wrong_topic("await");
    wrong_topic("signal");
    wrong_mappings();
}

static int see_heard(void *context, const void *row)
{
    const struct job_row *job = row;
    if (str_equal(job->workflow, QP_STR("publish.heard"))) {
        assert_int_equal(job->state, JOB_COMPLETED);
        ++*(int64_t *)context;
    }
    return QP_OK;
}

/* One job for each publication, however often the step ran that made it. */
static void expect_heard(int64_t expected)
{
    struct job_row prefix = {.ns = STORE_NS_DEFAULT};
    struct scan scan = {
        .table = TABLE_job, .index = -1, .prefix = &prefix, .prefix_count = 1, .limit = SIZE_MAX};
    int64_t count = 0;
    assert_int_equal(store_scan(run.f.s, &scan, &count, see_heard, NULL), QP_OK);
    assert_int_equal(count, expected);
}

static void type_published(void)
{
    assert_int_equal(start("publish.start", "j", "{\"n\":1}"), QP_OK);
    graphrun_expect(&run, "j", "completed", "{\"n\":1,\"y\":\"so world\"}");
    expect_heard(2);
    assert_int_equal(start("publish.parent", "p", "{}"), QP_OK);
    graphrun_expect(&run, "p", "completed", "{\"first\":2,\"last\":\"so world\"}");
    expect_heard(4);
}

const struct graph_case graph_cases[] = {
    {"trigger only", "c01", trigger_only},
    {"passthrough", "c02", passthrough},
    {"worker", "c04", worker},
    {"parallel", "c05", parallel},
    {"composed", "c07", composed},
    {"conditions", "c08", conditions},
    {"chain", "c10", chain},
    {"parcels", "c15", parcels},
    {"retry a", "c18a", retry_a},
    {"retry b", "c18b", retry_b},
    {"retry c", "c18c", retry_c},
    {"retry d", "c18d", retry_d},
    {"retry e", "c18e", retry_e},
    {"retry f", "c18f", retry_f},
    {"retry g", "c18g", retry_g},
    {"retry h", "c18h", retry_h},
    {"codes", "c19", codes},
    {"cycles", "c21", cycles},
    {"signals", "c23", signals},
    {"joins", "join", joins},
    {"rounds", "rounds", rounds},
    {"ends", "ends", ends},
    {"values", "values", values},
    {"persist", "persist", persist},
    {"shapes", "shapes", shapes},
    {"calls", "calls", calls},
    {"pinned", "pinned", pinned},
    {"early", "pinned", early},
    {"type published", "publishes", type_published},
    {"type worker", "types", type_worker},
    {"type await", "types", type_await},
    {"type web", "types", type_web},
    {"type pending", "types", type_pending},
    {"type time", "types", type_time},
    {"type one", "types", type_one},
    {"type all", "types", type_all},
    {"type cycle", "types", type_cycle},
    {"type descend", "types", type_descend},
    {"type self", "types", type_self},
    {"type join", "types", type_join},
    {"wrong", "wrong", wrong},
    {"full", "wrong", wrong_full},
};
const size_t graph_case_count = ARRAY_COUNT(graph_cases);

bool case_is_of_type(const struct graph_case *c)
{
    return strncmp(c->name, "type ", 5) == 0;
}

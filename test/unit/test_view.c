/* test_view.c - a job's state as digits: every example of the document about them, from jobs that really ran
 *
 * The document's activities are quick => brown => fox => (jumped|(slept => ate)). Workers at "do" are there, at "later" are
 * not; the input says which topic an activity has, and so where a job stands still.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/json.h"
#include "graph/action.h"
#include "graph/nest.h"
#include "support/graphrun.h"

static struct graphrun run;

#define HEAD                                                                                       \
    "app:\n"                                                                                       \
    "  id: fox\n"                                                                                  \
    "  version: '1'\n"                                                                             \
    "  graphs:\n"                                                                                  \
    "    - subscribes: fox.start\n"                                                                \
    "      activities:\n"                                                                          \
    "        quick: {type: trigger, stats: {id: '{$self.output.data.id}'}}\n"                      \
    "        brown: {type: worker, topic: do}\n"                                                   \
    "        fox: {type: worker, topic: '{quick.output.data.fox}'}\n"                              \
    "        jumped: {type: worker, topic: '{quick.output.data.jumped}'}\n"                        \
    "        slept: {type: worker, topic: do}\n"
#define WAYS                                                                                       \
    "      transitions:\n"                                                                         \
    "        quick: [{to: brown}]\n"                                                               \
    "        brown: [{to: fox}]\n"                                                                 \
    "        fox:\n"                                                                               \
    "          - to: jumped\n"                                                                     \
    "            conditions:\n"                                                                    \
    "              match: [{expected: true, actual: '{quick.output.data.awake}'}]\n"               \
    "          - to: slept\n"                                                                      \
    "            conditions:\n"                                                                    \
    "              match: [{expected: false, actual: '{quick.output.data.awake}'}]\n"              \
    "        slept: [{to: ate}]\n"

/* What `ate` is: somebody who waits, or a worker who errs. */
static const char waits[] = HEAD "        ate: {type: hook}\n" WAYS "      hooks:\n"
                                 "        fed:\n"
                                 "          - to: ate\n"
                                 "            conditions:\n"
                                 "              match:\n"
                                 "                - expected: '{$job.metadata.jid}'\n"
                                 "                  actual: '{$self.hook.data.id}'\n"
                                 /* another graph that calls it */
                                 "    - subscribes: caller.start\n"
                                 "      activities:\n"
                                 "        a: {type: trigger}\n"
                                 "        b: {type: hook}\n"
                                 "        c: {type: hook}\n"
                                 "        d: {type: hook}\n"
                                 "        e:\n"
                                 "          type: await\n"
                                 "          topic: fox.start\n"
                                 "          input:\n"
                                 "            maps:\n"
                                 "              id: called\n"
                                 "              awake: false\n"
                                 "              fox: do\n"
                                 "              jumped: do\n"
                                 "        f: {type: worker, topic: later}\n"
                                 "      transitions:\n"
                                 "        a: [{to: e}]\n"
                                 "        e: [{to: f}]\n"
                                 "        f: [{to: b}]\n"
                                 "        b: [{to: c}]\n"
                                 "        c: [{to: d}]\n";
static const char errs[] =
    HEAD "        ate: {type: worker, topic: err, retry: {maximumAttempts: 1}}\n" WAYS;

static void work(struct graphcall *c)
{
    if (str_equal(c->topic, QP_STR("err"))) {
        c->kind = RESULT_ERROR;
        c->code = 500;
        (void)snprintf(c->output, sizeof c->output, "{\"message\":\"no food\"}");
    }
}

static void begin(bool stepwise, const char *graphs)
{
    run.stepwise = stepwise;
    graphrun_init(&run, STORETEST_MEMORY, "do err", work);
    graphrun_deploy(&run, graphs);
}

static void end(void)
{
    graphrun_check(&run);
    graphrun_done(&run);
    run.stepwise = false;
}

/* The collation key, and the compositional one. */
static int keys(const char *id, struct arena *arena, qp_str *out_key, qp_str *out_composition)
{
    struct qp_err err = {0};
    const struct app *app = graphrun_app(&run, graphrun_job(&run, id));
    const struct job_row *job = graphrun_job(&run, id);
    qp_str digits = QP_NONE;
    int rc = view_digits(arena, run.f.s, app_graph(app, job->workflow), job, &digits, &err);
    rc = rc == QP_OK ? view_key(arena, digits, out_key) : rc;
    return rc == QP_OK ? view_composition(arena, run.f.s, run.library, job, out_composition, &err)
                       : rc;
}

static const char *state_of(const char *id)
{
    static char text[64];
    struct arena arena;
    qp_str key = QP_NONE;
    qp_str whole = QP_NONE;
    arena_init(&arena, &run.f.t.env, 0);
    assert_int_equal(keys(id, &arena, &key, &whole), QP_OK);
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(key));
    arena_done(&arena);
    return text;
}

static const char *composition_of(const char *id)
{
    static char text[64];
    struct arena arena;
    qp_str key = QP_NONE;
    qp_str whole = QP_NONE;
    arena_init(&arena, &run.f.t.env, 0);
    assert_int_equal(keys(id, &arena, &key, &whole), QP_OK);
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(whole));
    arena_done(&arena);
    return text;
}

static void start(const char *id, const char *input)
{
    assert_int_equal(graphrun_start(&run, "fox.start", id, input), QP_OK);
    graphrun_settle(&run);
}

/* All examples of the document: started, skipped, completed, paused, released. */
static void test_examples(void **state)
{
    (void)state;
    begin(false, waits);
    start("1", "{\"fox\":\"later\",\"jumped\":\"do\",\"awake\":true}");
    assert_string_equal(state_of("1"), "968969000000000");
    start("2", "{\"fox\":\"do\",\"jumped\":\"later\",\"awake\":true}");
    assert_string_equal(state_of("2"), "366863000000000");
    start("3", "{\"fox\":\"do\",\"jumped\":\"do\",\"awake\":true}");
    assert_string_equal(state_of("3"), "366663000000000");
    graphrun_expect(&run, "3", "completed", "{}");
    start("4", "{\"fox\":\"do\",\"jumped\":\"do\",\"awake\":false}");
    assert_string_equal(state_of("4"), "566366000000000");
    assert_int_equal(graphrun_signal(&run, "fed", "{\"id\":\"4\"}", 200), QP_OK);
    graphrun_settle(&run);
    assert_string_equal(state_of("4"), "466366000000000");
    assert_string_equal(composition_of("4"), "466366");
    end();
}

/* The seventh: an error. */
static void test_error(void **state)
{
    (void)state;
    begin(false, errs);
    start("j", "{\"fox\":\"do\",\"jumped\":\"do\",\"awake\":false}");
    assert_string_equal(state_of("j"), "766366000000000");
    graphrun_expect(&run, "j", "failed", NULL);
    end();
}

/* One commit at a time, all digits on the way are seen. */
static void expect_states(const char *id, const char *const *states, size_t count)
{
    size_t next = 0;
    bool busy = true;
    struct qp_err err = {0};
    while (busy && next < count) {
        next += strcmp(state_of(id), states[next]) == 0;
        assert_int_equal(engine_round(run.e, &busy, &err), QP_OK);
    }
    next += next < count && strcmp(state_of(id), states[next]) == 0;
    if (next < count) {
        fail_msg("'%s' was never seen; now it is %s", states[next], state_of(id));
    }
}

/* Right after the trigger nothing else has begun: 9s. */
static void test_pending(void **state)
{
    static const char *const states[] = {"999969000000000", "989969000000000"};
    (void)state;
    begin(true, waits);
    assert_int_equal(
        graphrun_start(&run, "fox.start", "j", "{\"fox\":\"do\",\"jumped\":\"do\",\"awake\":true}"),
        QP_OK);
    expect_states("j", states, ARRAY_COUNT(states));
    graphrun_settle(&run);
    assert_string_equal(state_of("j"), "366663000000000");
    end();
}

/* schedule => route (a hook) => fulfill: released while fulfill is pending, then all of it. */
static void test_fulfill(void **state)
{
    static const char graphs[] = "app:\n"
                                 "  id: orders\n"
                                 "  version: '1'\n"
                                 "  graphs:\n"
                                 "    - subscribes: order.start\n"
                                 "      activities:\n"
                                 "        schedule: {type: trigger}\n"
                                 "        route: {type: hook}\n"
                                 "        fulfill: {type: hook}\n"
                                 "      transitions:\n"
                                 "        schedule: [{to: route}]\n"
                                 "        route: [{to: fulfill}]\n"
                                 "      hooks:\n"
                                 "        order.routed:\n"
                                 "          - to: route\n"
                                 "            conditions:\n"
                                 "              match:\n"
                                 "                - expected: '{$job.metadata.jid}'\n"
                                 "                  actual: '{$self.hook.data.id}'\n";
    static const char *const states[] = {"956000000000000", "946000000000000", "646000000000000"};
    (void)state;
    begin(true, graphs);
    assert_int_equal(graphrun_start(&run, "order.start", "j", "{}"), QP_OK);
    graphrun_settle(&run);
    assert_string_equal(state_of("j"), "956000000000000");
    assert_int_equal(graphrun_signal(&run, "order.routed", "{\"id\":\"j\"}", 200), QP_OK);
    expect_states("j", states, ARRAY_COUNT(states));
    graphrun_settle(&run);
    graphrun_expect(&run, "j", "completed", "{}");
    end();
}

/* The fifth of six activities has called the flow that ended as 466366: it stands behind its digit, between 1 and 2. (In the
 * document's 99996146636629 the one who calls is a trigger; ours are born 6, and the way to it is told.) */
static void test_composition(void **state)
{
    (void)state;
    begin(false, waits);
    assert_int_equal(graphrun_start(&run, "caller.start", "j", "{}"), QP_OK);
    graphrun_settle(&run);
    assert_string_equal(composition_of("j"), "69998156636629");
    assert_string_equal(state_of("j"), "699989000000000");
    assert_int_equal(graphrun_signal(&run, "fed", "{\"id\":\"called\"}", 200), QP_OK);
    graphrun_settle(&run);
    assert_string_equal(composition_of("j"), "69996146636628");
    end();
}

/* Nested: each in the one that it stands below; ledgers in digits and in words. */
static void test_nested(void **state)
{
    static const char *const parts[] = {
        "{\"activity\":\"quick\",\"type\":\"trigger\",\"address\":\"trigger,0\",\"plane\":0,"
        "\"digit\":\"6\",\"status\":\"completed\",\"category\":\"D\",\"ledger\":\"101100000000001\"",
        "\"children\":[{\"activity\":\"brown\",\"type\":\"worker\",\"address\":\"brown,0,0\"",
        "\"children\":[{\"activity\":\"fox\"",
        "\"ledger\":\"201100000000001\",\"says\":\"Leg1 entered once, complete; 1 Leg2 entry; finalized\"",
        "{\"activity\":\"ate\",\"type\":\"hook\",\"address\":\"ate,0,0,0,0,0\",\"plane\":0,"
        "\"digit\":\"5\",\"status\":\"paused\"",
        "\"guids\":[]}]}]}]}]}",
    };
    struct arena arena;
    struct buf out;
    struct qp_err err = {0};
    const struct app *app;
    (void)state;
    begin(false, waits);
    start("j", "{\"fox\":\"do\",\"jumped\":\"do\",\"awake\":false}");
    arena_init(&arena, &run.f.t.env, 0);
    buf_init(&out, &run.f.t.env, 0);
    app = graphrun_app(&run, graphrun_job(&run, "j"));
    assert_int_equal(nest_write(&arena, run.f.s, app_graph(app, QP_STR("fox.start")),
                                graphrun_job(&run, "j"), &out, &err),
                     QP_OK);
    assert_int_equal(json_check(&run.f.t.env, buf_slice(&out), NULL, &err), QP_OK);
    buf_byte(&out, '\0');
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        if (strstr(out.p, parts[i]) == NULL) {
            fail_msg("no %s in %s", parts[i], out.p);
        }
    }
    buf_done(&out);
    arena_done(&arena);
    end();
}

/* The n-th allocation fails: an error, and nothing leaks. */
static void test_memory(void **state)
{
    const struct job_row *job;
    const struct graph *g;
    bool done = false;
    (void)state;
    begin(false, waits);
    assert_int_equal(graphrun_start(&run, "caller.start", "j", "{}"), QP_OK);
    graphrun_settle(&run);
    job = graphrun_job(&run, "j");
    g = app_graph(graphrun_app(&run, job), job->workflow);
    job = graphrun_job(&run, "j");
    for (int64_t n = 1; !done; n++) {
        struct arena arena;
        struct buf out;
        struct qp_err err = {0};
        qp_str text = QP_NONE;
        int rc;
        assert_true(n < 10000);
        testenv_fail_at(&run.f.t, n);
        arena_init(&arena, &run.f.t.env, 0);
        buf_init(&out, &run.f.t.env, 0);
        rc = view_composition(&arena, run.f.s, run.library, job, &text, &err);
        rc = rc == QP_OK ? nest_write(&arena, run.f.s, g, job, &out, &err) : rc;
        done = !testenv_failed(&run.f.t);
        testenv_fail_at(&run.f.t, 0);
        assert_int_equal(rc, done ? QP_OK : QP_E_NOMEM);
        buf_done(&out);
        arena_done(&arena);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),    cmocka_unit_test(test_error),
        cmocka_unit_test(test_pending),     cmocka_unit_test(test_fulfill),
        cmocka_unit_test(test_composition), cmocka_unit_test(test_nested),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

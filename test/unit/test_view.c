/* test_view.c - the tree of a job's activities, and views without memory; the digits are in graph/test_digits.c
 *
 * The activities are quick => brown => fox => (jumped|(slept => ate)), the last of which waits.
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

static void no_work(struct graphcall *c)
{
    (void)c;
}

static void begin(void)
{
    graphrun_init(&run, STORETEST_MEMORY, "do", no_work);
    graphrun_deploy_vector(&run, "fox");
}

static void end(void)
{
    graphrun_check(&run);
    graphrun_done(&run);
}

/* Nested: each in the one that it stands below; ledgers in digits and in words. */
static void test_nested(void **state)
{
    static const char *const parts[] = {
        "{\"activity\":\"quick\",\"type\":\"trigger\",\"address\":\"trigger,0\",\"plane\":0,"
        "\"dad\":\",0\",\"digit\":\"6\",\"status\":\"completed\",\"category\":\"D\",\"ledger\":\"101100000000001\"",
        "\"children\":[{\"activity\":\"brown\",\"type\":\"worker\",\"address\":\"brown,0,0\"",
        "\"children\":[{\"activity\":\"fox\"",
        "\"ledger\":\"201100000000001\",\"says\":\"Leg1 entered once, complete; 1 Leg2 entry; finalized\"",
        "{\"activity\":\"ate\",\"type\":\"hook\",\"address\":\"ate,0,0,0,0,0\",\"plane\":0,"
        "\"dad\":\",0,0,0,0,0\",\"digit\":\"5\",\"status\":\"paused\"",
        "\"guids\":[]}]}]}]}]}",
    };
    struct arena arena;
    struct buf out;
    struct qp_err err = {0};
    const struct app *app;
    (void)state;
    begin();
    assert_int_equal(graphrun_start(&run, "fox.start", "j",
                                    "{\"fox\":\"do\",\"jumped\":\"do\",\"awake\":false}"),
                     QP_OK);
    graphrun_settle(&run);
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
    begin();
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nested),
                                       cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_sql_start.c - graphs that are started by SQL, in a transaction of the application's own */
#include <postgresql/libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/graphrun.h"

static struct graphrun run;

static const char graph[] =
    "app:\n"
    "  id: demo\n"
    "  version: '1'\n"
    "  graphs:\n"
    "    - subscribes: demo.start\n"
    "      input:\n"
    "        schema: { type: object, required: [a] }\n"
    "      activities:\n"
    "        t1: { type: trigger, job: { maps: { b: '{$self.output.data.a}' } } }\n"
    "        a1: { type: worker, topic: do.first }\n"
    "      transitions:\n"
    "        t1: [{ to: a1 }]\n"
    "    - subscribes: .inside\n"
    "      activities:\n"
    "        t2: { type: trigger }\n";

static void work(struct graphcall *c)
{
    (void)snprintf(c->output, sizeof c->output, "{}");
}

static void sql(PGconn *c, const char *text, const char *refused_with)
{
    PGresult *r = PQexec(c, text);
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    bool good = PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_TUPLES_OK;
    if (refused_with == NULL ? !good : state == NULL || strcmp(state, refused_with) != 0) {
        fail_msg("%s: %s", text, PQresultErrorMessage(r));
    }
    PQclear(r);
}

/* Proves that a topic of a graph starts its job, pinned to the active version, that what the schema refuses fails the job,
 * and that other topics are single tasks as before. */
static void test_start(void **state)
{
    PGconn *c;
    (void)state;
    if (storetest_kinds() <= STORETEST_POSTGRES) {
        skip();
    }
    graphrun_init(&run, STORETEST_POSTGRES, "do.first", work);
    graphrun_deploy(&run, graph);
    c = PQconnectdb(run.f.path);
    assert_int_equal(PQstatus(c), CONNECTION_OK);
    sql(c, "BEGIN", NULL);
    sql(c, "SELECT quipu.start('demo.start', '{\"a\":\"hello\"}'::text, 'j')", NULL);
    sql(c, "SELECT quipu.start('demo.start', '{}'::text, 'wrong')", NULL);
    sql(c, "SELECT quipu.start('do.first', '{}'::text, 'single')", NULL);
    sql(c, "COMMIT", NULL);
    sql(c, "SELECT quipu.start('.inside', '{}'::text, 'private')", "QP004");
    engine_look_again(run.e);
    graphrun_wait(&run, 2000);
    graphrun_expect(&run, "j", "completed", "{\"b\":\"hello\"}");
    assert_true(str_equal(graphrun_job(&run, "j")->version, QP_STR("demo/1")));
    graphrun_expect(&run, "wrong", "failed", "422");
    graphrun_expect(&run, "single", "completed", NULL);
    assert_true(str_is_none(graphrun_job(&run, "single")->version));
    PQfinish(c);
    graphrun_check(&run);
    graphrun_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_start)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

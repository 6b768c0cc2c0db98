/* test_sql.c - a person's SELECT: what is answered, what is refused, and that it ends */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "run/sql.h"
#include "support/runtest.h"

static struct qp_err err;

/* The answer as JSON text, or the word of the code. */
static const char *asked(qp *q, const struct sql_question *question)
{
    static char out[4096];
    struct buf text;
    struct json_writer w;
    int rc;
    err = (struct qp_err){0};
    buf_init(&text, &rt.env, 0);
    json_writer_init(&w, &text);
    rc = sql_ask(q, question, &w, &err);
    (void)snprintf(out, sizeof out, "%.*s", rc == QP_OK ? (int)text.n : 1000,
                   rc == QP_OK ? text.p : qp_code_word(rc));
    buf_done(&text);
    return out;
}

static qp *open_with_jobs(void)
{
    qp *q = rt_open(rt_path);
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"),
                                        .id = QP_STR("one"),
                                        .input = QP_STR("{\"n\":1}")});
    rt_start_with(q, &(struct qp_start){
                         .topic = QP_STR("work"), .id = QP_STR("two"), .input = QP_STR("\"x\"")});
    return q;
}

static void check(qp *q, const char *sql, const char *want)
{
    const char *got = asked(q, &(struct sql_question){.sql = str_from(sql)});
    if (strcmp(got, want) != 0) {
        fail_msg("%s\ngives %s (%s)\ninstead of %s", sql, got, err.text, want);
    }
}

/* Proves what is answered, value by value, and what is refused. */
static void test_statements(void **state)
{
    static const struct {
        const char *sql;
        const char *want;
    } cases[] = {
        {"SELECT id, status FROM v_jobs ORDER BY id",
         "{\"columns\":[\"id\",\"status\"],\"rows\":[[\"one\",\"running\"],[\"two\",\"running\"]]}"},
        {"SELECT count(*) AS n FROM v_jobs", "{\"columns\":[\"n\"],\"rows\":[[2]]}"},
        {"SELECT input->>'n' AS n FROM v_activities WHERE job='one' AND task='ready';  -- it",
         "{\"columns\":[\"n\"],\"rows\":[[1]]}"},
        {"SELECT count(*) AS n FROM v_events JOIN v_jobs j ON j.id=v_events.job",
         "{\"columns\":[\"n\"],\"rows\":[[6]]}"},
        {"SELECT ledger AS l FROM v_activities WHERE address='run,0,0' LIMIT 1",
         "{\"columns\":[\"l\"],\"rows\":[[\"001100000000000\"]]}"},
        {"SELECT NULL AS a, 1.5 AS b, 9007199254740993 AS c, x'00ff' AS d, CAST(x'ff' AS TEXT) AS e, ''"
         " AS f, 1e999 AS g, x'' AS h, char(97,0) AS i",
         "{\"columns\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\"],\"rows\":[[null,1.5,"
         "\"9007199254740993\",\"00ff\",\"ff\",\"\",\"Infinity\",\"\",\"6100\"]]}"},
        {"WITH r(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM r WHERE i<3) SELECT sum(i) AS s FROM r",
         "{\"columns\":[\"s\"],\"rows\":[[6]]}"},
        {"SELECT name, state FROM v_workers WHERE 0",
         "{\"columns\":[\"name\",\"state\"],\"rows\":[]}"},
        {"", "invalid"},
        {" -- nothing", "invalid"},
        {"SELEC 1", "invalid"},
        {"SELECT nope FROM v_jobs", "invalid"},
        {"SELECT \"nope\" FROM v_jobs", "invalid"},
        {"SELECT 1; SELECT 2", "invalid"},
        {"SELECT 1; DROP TABLE qp_job", "invalid"},
        {"SELECT jid FROM qp_job", "invalid"},
        {"SELECT hash FROM qp_access", "invalid"},
        {"SELECT (SELECT hash FROM qp_access) FROM v_jobs", "invalid"},
        {"SELECT * FROM v_jobs, qp_access", "invalid"},
        {"SELECT sql FROM sqlite_schema", "invalid"},
        {"SELECT sql FROM sqlite_temp_schema", "invalid"},
        {"SELECT * FROM pragma_table_info('qp_job')", "invalid"},
        {"DELETE FROM v_jobs", "invalid"},
        {"DELETE FROM qp_job", "invalid"},
        {"UPDATE qp_job SET jid='x'", "invalid"},
        {"INSERT INTO qp_job(job) VALUES(1)", "invalid"},
        {"CREATE TEMP TABLE t(x)", "invalid"},
        {"CREATE TEMP VIEW v_mine AS SELECT * FROM qp_access", "invalid"},
        {"DROP VIEW v_jobs", "invalid"},
        {"PRAGMA query_only=0", "invalid"},
        {"ATTACH 'other.db' AS other", "invalid"},
        {"VACUUM INTO 'other.db'", "invalid"},
        {"BEGIN", "invalid"},
        {"SELECT load_extension('x')", "invalid"},
        {"SELECT zeroblob(100000000)", "too_large"},
        {"SELECT hex(zeroblob(300000))", "too_large"},
    };
    qp *q;
    rt_begin(RT_REAL);
    q = open_with_jobs();
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        check(q, cases[i].sql, cases[i].want);
    }
    rt_close(q);
    rt_check(rt_path, 2);
    rt_end();
}

/* Proves the limits: rows, time, columns, the size of statement and answer. */
static void test_limits(void **state)
{
    static const char endless[] =
        "WITH r(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM r) SELECT i FROM r";
    static const char late[] =
        "WITH r(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM r) SELECT count(*) FROM r";
    static const char wide[] = "WITH r(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM r) "
                               "SELECT hex(zeroblob(200000)) FROM r";
    struct buf text;
    qp *q;
    rt_begin(RT_REAL);
    q = open_with_jobs();
    assert_string_equal(asked(q, &(struct sql_question){.sql = str_from(endless), .limit = 2}),
                        "{\"columns\":[\"i\"],\"rows\":[[1],[2]],\"more\":true}");
    assert_string_equal(asked(q, &(struct sql_question){.sql = str_from(late), .within_ms = 50}),
                        "limit_reached");
    assert_string_equal(asked(q, &(struct sql_question){.sql = str_from(wide)}), "too_large");
    assert_non_null(strstr(err.text, "the answer has more than"));
    assert_string_equal(asked(q, &(struct sql_question){.sql = QP_STR("SELECT 1"), .limit = -1}),
                        "invalid");
    assert_string_equal(
        asked(q, &(struct sql_question){.sql = QP_STR("SELECT 1"), .limit = 100001}), "invalid");
    assert_string_equal(
        asked(q, &(struct sql_question){.sql = QP_STR("SELECT 1"), .within_ms = 60001}), "invalid");
    assert_string_equal(asked(q, &(struct sql_question){.sql = {"SELECT 1\0 ", 10}}), "invalid");
    buf_init(&text, &rt.env, 0);
    buf_text(&text, "SELECT 0");
    for (int i = 0; i < LIMIT_SQL_COLUMNS; i++) {
        buf_printf(&text, ",%d", i);
    }
    assert_string_equal(asked(q, &(struct sql_question){.sql = buf_slice(&text)}), "invalid");
    while (text.n <= LIMIT_SQL_SIZE) {
        buf_text(&text, "                ");
    }
    assert_string_equal(asked(q, &(struct sql_question){.sql = buf_slice(&text)}), "too_large");
    buf_done(&text);
    rt_close(q);
    rt_end();
}

/* Proves that a store which is no file says so. */
static void test_no_file(void **state)
{
    for (int kind = 0; kind < rt_kinds(); kind++) {
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        check(q, "SELECT 1 AS n",
              kind == RT_FILE ? "{\"columns\":[\"n\"],\"rows\":[[1]]}" : "unsupported");
        rt_close(q);
        rt_end();
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statements),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_properties.c - properties of flows: what code gets of what it has set, in every replay, and what people see
 *
 * Stores and kills: flowcases.c, "properties". HTTP and filters: test/server/test_properties_api.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "fakeflow.h"

static struct testenv t;
static struct fakeflow f;

static int setup(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    fake_init(&f, &t);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fake_done(&f);
    testenv_done(&t);
    return 0;
}

static void assert_runs(enum script_kind kind, qp_flow_function function, const char *properties)
{
    enum script_kind was = fake_run(&f, function, NULL);
    if (was != kind) {
        fail_msg("%d, not %d: %.*s", (int)was, (int)kind, STR_ARG(f.result.text));
    }
    if (!qp_str_is(f.properties, properties)) {
        fail_msg("%.*s, not %s", STR_ARG(f.properties), properties);
    }
}

static void assert_got(qp_flow *flow, const char *name, const char *json)
{
    qp_str value;
    assert_int_equal(qp_get(flow, name, &value), QP_OK);
    if (json == NULL ? value.p != NULL : !qp_str_is(value, json)) {
        fail_msg("%s is %.*s, not %s", name, STR_ARG(value), json == NULL ? "none" : json);
    }
}

static int stages(qp_flow *flow, qp_str input, void *context)
{
    (void)context;
    assert_got(flow, "status", NULL);
    QP_TRY(qp_set(flow, "status", QP_STR("\"new\"")));
    QP_TRY(qp_set(flow, "note", QP_STR("{\"a\":[1]}")));
    QP_TRY(qp_activity(flow, "pay", input, NULL, NULL));
    assert_got(flow, "status", "\"new\"");
    QP_TRY(qp_set(flow, "status", QP_STR("\"paid\"")));
    QP_TRY(qp_set(flow, "note", QP_STR("null")));
    assert_got(flow, "note", NULL);
    QP_TRY(qp_activity(flow, "ship", input, NULL, NULL));
    QP_TRY(qp_set(flow, "status", QP_STR("\"sent\"")));
    return qp_return(flow, QP_NONE);
}

/* Each run sets all of them again: what people see is as of the place where the code waits. */
static void test_in_sequence(void **state)
{
    (void)state;
    assert_runs(SCRIPT_WAITS, stages, "{\"status\":\"new\",\"note\":{\"a\":[1]}}");
    fake_answer(&f, "pay", 200, "1");
    assert_int_equal(fake_run_lost(&f, stages, NULL), SCRIPT_WAITS);
    assert_runs(SCRIPT_WAITS, stages, "{\"status\":\"paid\"}");
    fake_answer(&f, "ship", 200, "1");
    assert_runs(SCRIPT_RETURNED, stages, "{\"status\":\"sent\"}");
}

static int part(qp_flow *flow, void *context)
{
    const char *name = context;
    char value[32];
    QP_TRY(qp_activity(flow, name, QP_NONE, NULL, NULL));
    (void)snprintf(value, sizeof value, "\"%s\"", name);
    QP_TRY(qp_set(flow, "last", str_from(value)));
    assert_got(flow, "last", value);
    return qp_return(flow, QP_NONE);
}

static int parallel(qp_flow *flow, qp_str input, void *context)
{
    static char names[2][8] = {"one", "two"};
    qp_handle handles[2];
    size_t first;
    (void)input;
    (void)context;
    QP_TRY(qp_set(flow, "last", QP_STR("\"none\"")));
    QP_TRY(qp_begin_closure(flow, "one", part, names[0], &handles[0]));
    QP_TRY(qp_begin_closure(flow, "two", part, names[1], &handles[1]));
    assert_got(flow, "last", "\"none\"");
    QP_TRY(qp_any(flow, handles, 2, &first));
    assert_int_equal(first, 1);
    assert_got(flow, "last", "\"two\"");
    QP_TRY(qp_activity(flow, "then", QP_NONE, NULL, NULL));
    assert_got(flow, "last", "\"two\"");
    QP_TRY(qp_output(flow, handles[0], NULL));
    assert_got(flow, "last", "\"one\"");
    QP_TRY(qp_output(flow, handles[1], NULL));
    assert_got(flow, "last", "\"one\"");
    return qp_return(flow, QP_NONE);
}

/* Code sees what came of parallel code where it awaits it, in every run; people see what was set last. */
static void test_in_parallel(void **state)
{
    (void)state;
    assert_runs(SCRIPT_WAITS, parallel, "{\"last\":\"none\"}");
    fake_answer(&f, "two", 200, "1");
    assert_runs(SCRIPT_WAITS, parallel, "{\"last\":\"two\"}");
    fake_answer(&f, "one", 200, "1");
    assert_runs(SCRIPT_WAITS, parallel, "{\"last\":\"one\"}");
    fake_answer(&f, "then", 200, "1");
    assert_runs(SCRIPT_RETURNED, parallel, "{\"last\":\"one\"}");
}

static int left_behind(qp_flow *flow, void *context)
{
    (void)context;
    QP_TRY(qp_set(flow, "inside", QP_STR("1")));
    QP_TRY(qp_sleep(flow, 1000));
    return qp_set(flow, "inside", QP_STR("2"));
}

static int rounds(qp_flow *flow, qp_str input, void *context)
{
    struct qp_loop loop = {.name = "rounds", .state = QP_STR("0")};
    qp_handle handle;
    (void)input;
    (void)context;
    QP_TRY(qp_set(flow, "old", QP_STR("1")));
    while (qp_loop_next(flow, &loop)) {
        char round[16];
        (void)snprintf(round, sizeof round, "%lld", (long long)loop.iteration);
        QP_TRY(qp_set(flow, "round", str_from(round)));
        QP_TRY(qp_set(flow, "old", QP_NONE));
        QP_TRY(qp_activity(flow, "try", QP_NONE, NULL, NULL));
        if (loop.iteration == 1) {
            QP_TRY(qp_begin_closure(flow, "left", left_behind, NULL, &handle));
            qp_loop_break(flow, &loop, QP_NONE);
        }
    }
    QP_TRY(loop.rc);
    assert_got(flow, "round", "1");
    assert_got(flow, "old", NULL);
    assert_got(flow, "inside", "1");
    QP_TRY(qp_activity(flow, "then", QP_NONE, NULL, NULL));
    assert_got(flow, "inside", "1");
    return qp_return(flow, QP_NONE);
}

/* A loop that has ended is not entered again: what its rounds have set stands with it, removed ones as well, and what code
 * that it has left behind had set. */
static void test_in_a_loop(void **state)
{
    (void)state;
    assert_runs(SCRIPT_WAITS, rounds, "{\"round\":0}");
    fake_answer(&f, "try", 200, "1");
    assert_runs(SCRIPT_WAITS, rounds, "{\"round\":1}");
    fake_answer(&f, "try", 200, "1");
    assert_runs(SCRIPT_WAITS, rounds, "{\"round\":1,\"inside\":1}");
    fake_answer(&f, "then", 200, "1");
    assert_runs(SCRIPT_RETURNED, rounds, "{\"round\":1,\"inside\":1}");
}

static int fails_later(qp_flow *flow, void *context)
{
    (void)context;
    QP_TRY(qp_set(flow, "tried", QP_STR("true")));
    return qp_activity(flow, "pay", QP_NONE, NULL, NULL);
}

static int handles_failure(qp_flow *flow, qp_str input, void *context)
{
    (void)input;
    (void)context;
    if (qp_closure(flow, "part", fails_later, NULL, NULL) == QP_E_FAILED) {
        assert_got(flow, "tried", "true");
        QP_TRY(qp_set(flow, "status", QP_STR("\"unpaid\"")));
        return qp_flow_fail(flow, "no money");
    }
    return QP_E_SUSPENDED;
}

/* What a part has set before it failed is set; so is what the flow sets before it fails. */
static void test_of_failures(void **state)
{
    (void)state;
    assert_runs(SCRIPT_WAITS, handles_failure, "{\"tried\":true}");
    fake_answer(&f, "pay", 500, "{\"code\":500,\"message\":\"no\"}");
    assert_runs(SCRIPT_FAILED, handles_failure, "{\"tried\":true,\"status\":\"unpaid\"}");
}

/* --------------------------------------------------------------------------------------- mistakes */

static int in_inline_code(qp_flow *flow, void *context)
{
    (void)context;
    assert_got(flow, "a", "1");
    return qp_set(flow, "a", QP_STR("2"));
}

static int sets_inline(qp_flow *flow, qp_str input, void *context)
{
    (void)input;
    (void)context;
    QP_TRY(qp_set(flow, "a", QP_STR("1")));
    return qp_inline(flow, "run", in_inline_code, NULL, NULL);
}

static int bad_value(qp_flow *flow, qp_str input, void *context)
{
    (void)input;
    (void)context;
    return qp_set(flow, "a", QP_STR("{"));
}

static int bad_name(qp_flow *flow, qp_str input, void *context)
{
    (void)input;
    (void)context;
    return qp_set(flow, "a b", QP_STR("1"));
}

static int no_name(qp_flow *flow, qp_str input, void *context)
{
    (void)input;
    (void)context;
    return qp_set(flow, NULL, QP_STR("1"));
}

static int no_place(qp_flow *flow, qp_str input, void *context)
{
    (void)input;
    (void)context;
    return qp_get(flow, "a", NULL);
}

static int too_many(qp_flow *flow, qp_str input, void *context)
{
    (void)input;
    (void)context;
    for (int i = 0; i <= LIMIT_PROPERTIES; i++) {
        char name[16];
        int rc;
        (void)snprintf(name, sizeof name, "n%d", i);
        rc = qp_set(flow, name, QP_STR("1"));
        assert_int_equal(rc, i < LIMIT_PROPERTIES ? QP_OK : QP_E_TOO_LARGE);
        QP_TRY(rc);
    }
    return QP_OK;
}

/* {"n":".."} of exactly the limit, and one byte more. */
static int too_large(qp_flow *flow, qp_str input, void *context)
{
    static char text[LIMIT_PROPERTIES_SIZE];
    size_t n = LIMIT_PROPERTIES_SIZE - 6; /* {"n":} */
    (void)input;
    (void)context;
    memset(text, 'x', sizeof text);
    text[0] = '"';
    text[n - 1] = '"';
    QP_TRY(qp_set(flow, "n", (qp_str){text, n}));
    text[n - 1] = 'x';
    text[n] = '"';
    return qp_set(flow, "n", (qp_str){text, n + 1});
}

static void test_mistakes(void **state)
{
    static const struct {
        qp_flow_function function;
        int code;
        const char *text;
    } rows[] = {
        {sets_inline, QP_E_INVALID, "qp_set: called in the function of qp_inline"},
        {bad_value, QP_E_MALFORMED, "qp_set at the beginning of {}: value: "},
        {bad_name, QP_E_INVALID, "qp_set at the beginning of {}: "},
        {no_name, QP_E_INVALID, "qp_set at the beginning of {}: "},
        {no_place, QP_E_INVALID, "qp_get: "},
        {too_many, QP_E_TOO_LARGE, "qp_set: the flow has more than 100 names"},
        {too_large, QP_E_TOO_LARGE, "qp_set: the properties of the flow have more than 64 KiB"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_int_equal(fake_run(&f, rows[i].function, NULL), SCRIPT_ERROR);
        if (f.result.code != rows[i].code || !f.result.fatal ||
            strncmp(f.result.text.p, rows[i].text, strlen(rows[i].text)) != 0) {
            fail_msg("%zu: %d %.*s", i, f.result.code, STR_ARG(f.result.text));
        }
        assert_true(str_is_none(f.properties));
    }
}

/* A run that has no memory says so; the next one is whole. */
static void test_out_of_memory(void **state)
{
    bool failed = true;
    (void)state;
    for (int64_t n = 1; failed; n++) {
        struct flow_log log = {.job = QP_STR("j"), .workflow = QP_STR("order"), .input = f.input};
        struct script_result result;
        struct arena arena;
        int rc;
        assert_int_equal(history_init(&log.history, NULL, 0, NULL), QP_OK);
        arena_init(&arena, &t.env, 0);
        testenv_fail_at(&t, n);
        rc = script_run(
            &(struct script_input){
                .env = &t.env, .arena = &arena, .log = &log, .now = f.now, .function = rounds},
            &result);
        failed = testenv_failed(&t);
        testenv_fail_at(&t, 0);
        assert_true(failed ? rc == QP_E_NOMEM || rc == QP_OK : rc == QP_OK);
        arena_done(&arena);
    }
    assert_runs(SCRIPT_WAITS, rounds, "{\"round\":0}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_in_sequence, setup, teardown),
        cmocka_unit_test_setup_teardown(test_in_parallel, setup, teardown),
        cmocka_unit_test_setup_teardown(test_in_a_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(test_of_failures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mistakes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_out_of_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

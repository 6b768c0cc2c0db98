/* test_decision.c - decisions of flows: what is refused, with its place, and what is read of a good one */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "flow/decision_read.h"
#include "support/testenv.h"

#define NOW 1767225600000LL
#define BASE 40

static struct testenv t;
static struct arena arena;

static int setup(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    arena_init(&arena, &t.env, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_done(&arena);
    testenv_done(&t);
    return 0;
}

/* ------------------------------------------------------------------------------- a small history */

static const struct {
    const char *at;
    enum history_type type;
    int64_t version;
    const char *name;
} history[] = {
    {"{1}", HISTORY_ACTIVITY, 1, "pay"}, {"{2}", HISTORY_BRANCH, 2, "parts"},
    {"{2, 1}", HISTORY_RUN, 2, "one"},   {"{3}", HISTORY_LOOP, 1, "track"},
    {"{3, 1}", HISTORY_BRANCH, 1, NULL}, {"{3, 1, 1}", HISTORY_SLEEP, 1, NULL},
};

static int look(void *context, qp_str addr, struct place *out_place)
{
    (void)context;
    *out_place = (struct place){0};
    for (size_t i = 0; i < ARRAY_COUNT(history); i++) {
        char bytes[LOCATION_ADDRESS_SIZE];
        struct location at;
        assert_int_equal(location_parse(str_from(history[i].at), &at, NULL), QP_OK);
        if (str_equal((qp_str){bytes, location_address(&at, bytes)}, addr)) {
            *out_place = (struct place){.found = true,
                                        .type = history[i].type,
                                        .version = history[i].version,
                                        .name = str_from(history[i].name)};
        }
    }
    return QP_OK;
}

static int64_t open_works; /* of the flow */

static int read_and_check(const char *text, struct decision *d, struct qp_err *err)
{
    struct decision_facts facts = {.base = BASE, .open = open_works, .look = look};
    *err = (struct qp_err){0};
    assert_int_equal(json_check(&t.env, str_from(text), NULL, err), QP_OK);
    QP_TRY(decision_read(&t.env, &arena, str_from(text), NOW, d, err));
    return decision_check(&t.env, &arena, d, &facts, err);
}

/* ------------------------------------------------------------------------------------- refusals */

#define ONE(command) "{\"base\":40,\"commands\":[" command "]}"
#define PLACE(at) "\"loc\":\"" at "\",\"v\":1"
#define SLEEP(at) "{\"op\":\"sleep\"," PLACE(at) ",\"until\":1767225600001}"
#define ACTIVITY(more) "{\"op\":\"activity\"," PLACE("{4}") ",\"name\":\"a\",\"input\":1" more "}"

/* Rule 10 of the protocol and the shape of every command: each refusal names the member, and its sentence says why. */
static const struct {
    const char *text;
    const char *pointer;
    const char *says;
} refusals[] = {
    {"[]", "", "has to be an object"},
    {"{\"commands\":[]}", "/base", "needs base"},
    {"{\"base\":-1,\"commands\":[]}", "/base", "from 0 on"},
    {"{\"base\":\"1\",\"commands\":[]}", "/base", "from 0 on"},
    {"{\"base\":41,\"commands\":[]}", "/base", "in the future"},
    {"{\"base\":1,\"commands\":[],\"after\":0}", "/after", "from 1 on"},
    {"{\"base\":1}", "/commands", "needs commands"},
    {"{\"base\":1,\"commands\":{}}", "/commands", "needs commands"},
    {"{\"base\":1,\"commands\":[],\"kept\":true}", "", "nothing else"},
    {"{\"base\":40,\"commands\":[]}", "/commands", "waits_for_nothing"},
    {ONE("{\"op\":\"run\"," PLACE("{4}") ",\"name\":\"r\",\"ok\":1}"), "/commands",
     "waits_for_nothing"},
    {ONE("7"), "/commands/0", "has to be an object"},
    {ONE("{}"), "/commands/0/op", "needs its op"},
    {ONE("{\"op\":\"dance\"}"), "/commands/0/op", "sdk_too_old"},
    {ONE("{\"op\":\"child\"}"), "/commands/0/loc", "needs 'loc'"},
    {ONE("{\"op\":\"sleep\",\"untill\":1}"), "/commands/0", "'untill'"},
    {ONE("{\"op\":\"sleep\",\"v\":1,\"until\":1}"), "/commands/0/loc", "needs 'loc'"},
    {ONE("{\"op\":\"sleep\",\"loc\":\"{4}\",\"until\":1}"), "/commands/0/v", "needs 'v'"},
    {ONE("{\"op\":\"sleep\"," PLACE("{4}") "}"), "/commands/0/until", "needs 'until'"},
    {ONE("{\"op\":\"sleep\"," PLACE("{4}") ",\"until\":1,\"name\":\"x\"}"), "/commands/0/name",
     "has no 'name'"},
    /* locations: malformed, {}, occupied, twice, without a parent, past the next free one */
    {ONE("{\"op\":\"sleep\",\"loc\":4,\"v\":1,\"until\":1}"), "/commands/0/loc", "a string"},
    {ONE(SLEEP("{4")), "/commands/0/loc", "bad_location"},
    {ONE(SLEEP("{4.0}")), "/commands/0/loc", "bad_location"},
    {ONE(SLEEP("{}")), "/commands/0/loc", "the flow itself"},
    {ONE(SLEEP("{1}")), "/commands/0/loc", "occupied: activity 'pay' v1 stands at {1}"},
    {ONE(SLEEP("{4}") "," SLEEP("{4}")), "/commands/1/loc", "occupied"},
    {ONE(SLEEP("{4, 1}")), "/commands/0/loc", "no branch or loop stands at {4}"},
    {ONE(SLEEP("{1, 1}")), "/commands/0/loc", "no branch or loop stands at {1}"},
    {ONE(SLEEP("{4}") "," SLEEP("{4, 1}")), "/commands/1/loc", "no branch or loop"},
    {ONE(SLEEP("{3, 2}")), "/commands/0/loc", "branches, its iterations"},
    {ONE(SLEEP("{5}")), "/commands/0/loc", "past the next free one; no event stands at {4}"},
    {ONE(SLEEP("{3.1}")), "/commands/0/loc", "past the next free one; no event stands at {4}"},
    {ONE("{\"op\":\"branch\"," PLACE("{3, 3}") "}"), "/commands/0/loc", "past the next free one"},
    /* versions */
    {ONE("{\"op\":\"sleep\",\"loc\":\"{4}\",\"v\":0,\"until\":1}"), "/commands/0/v", "between 1"},
    {ONE("{\"op\":\"sleep\",\"loc\":\"{4}\",\"v\":1.5,\"until\":1}"), "/commands/0/v", "between 1"},
    {ONE("{\"op\":\"sleep\",\"loc\":\"{2, 2}\",\"v\":1,\"until\":1}"), "/commands/0/v",
     "version 1 is below 2"},
    /* values */
    {ONE("{\"op\":\"sleep\"," PLACE("{4}") ",\"until\":2083622400000}"), "/commands/0/until",
     "ten years"},
    {ONE("{\"op\":\"sleep\"," PLACE("{4}") ",\"until\":-1}"), "/commands/0/until", "between 0"},
    {ONE("{\"op\":\"activity\"," PLACE("{4}") ",\"name\":\"\",\"input\":1}"), "/commands/0/name",
     "name"},
    {ONE("{\"op\":\"activity\"," PLACE("{4}") ",\"name\":\"a b\",\"input\":1}"), "/commands/0/name",
     "name"},
    {ONE("{\"op\":\"activity\"," PLACE("{4}") ",\"name\":\"quipu:x\",\"input\":1}"),
     "/commands/0/name", "quipu:"},
    {ONE("{\"op\":\"activity\"," PLACE("{4}") ",\"name\":\"a\"}"), "/commands/0/input",
     "needs 'input'"},
    {ONE(ACTIVITY(",\"retry\":5")), "/commands/0/retry", "an object"},
    {ONE(ACTIVITY(",\"retry\":{\"tries\":5}")), "/commands/0/retry", "no 'tries'"},
    {ONE(ACTIVITY(",\"retry\":{\"attempts\":0}")), "/commands/0/retry", "not a number from 1"},
    {ONE(ACTIVITY(",\"retry\":{\"never\":400}")), "/commands/0/retry/never", "array of codes"},
    {ONE(ACTIVITY(",\"retry\":{\"never\":[200]}")), "/commands/0/retry/never", "between 400"},
    {ONE(ACTIVITY(",\"timeout\":0")), "/commands/0/timeout", "between 1"},
    {ONE(ACTIVITY(",\"limit_key\":\" a\"")), "/commands/0/limit_key", "limit_key"},
    {ONE("{\"op\":\"run\"," PLACE("{4}") ",\"name\":\"r\"}"), "/commands/0", "one of ok and error"},
    {ONE("{\"op\":\"run\"," PLACE("{4}") ",\"name\":\"r\",\"ok\":1,\"error\":{}}"), "/commands/0",
     "one of ok and error"},
    {ONE("{\"op\":\"run\"," PLACE("{4}") ",\"name\":\"r\",\"error\":1}"), "/commands/0/error",
     "an object"},
    {ONE("{\"op\":\"listen\"," PLACE("{4}") ",\"names\":[]}"), "/commands/0/names", "1 to 32"},
    {ONE("{\"op\":\"listen\"," PLACE("{4}") ",\"names\":\"a\"}"), "/commands/0/names", "array"},
    {ONE("{\"op\":\"listen\"," PLACE("{4}") ",\"names\":[\"a b\"]}"), "/commands/0/names", "names"},
    {ONE("{\"op\":\"listen\"," PLACE("{4}") ",\"names\":[\"a\"],\"limit\":101}"),
     "/commands/0/limit", "between 1 and 100"},
    {ONE("{\"op\":\"listen\"," PLACE("{4}") ",\"names\":[\"a\"],\"until\":1}"), "/commands/0/got",
     "both until and got"},
    {ONE("{\"op\":\"listen\"," PLACE("{4}") ",\"names\":[\"a\"],\"got\":\"{5}\"}"),
     "/commands/0/got", "both until and got"},
    {ONE("{\"op\":\"listen\"," PLACE("{4}") ",\"names\":[\"a\"],\"until\":1,\"got\":\"{4}\"}"),
     "/commands/0/got", "behind loc"},
    {ONE("{\"op\":\"listen\"," PLACE("{4}") ",\"names\":[\"a\"],\"until\":1,\"got\":\"{4, 1}\"}"),
     "/commands/0/got", "in the same branch"},
    {ONE("{\"op\":\"listen\",\"loc\":\"{1.1}\",\"v\":2,\"names\":[\"a\"],\"until\":1,\"got\":\"{2}\"}"),
     "/commands/0/got", "occupied"},
    {ONE("{\"op\":\"signal\"," PLACE("{4}") ",\"to\":\"\",\"name\":\"n\",\"data\":1}"),
     "/commands/0/to", "to"},
    {ONE("{\"op\":\"loop\"," PLACE("{4}") ",\"name\":\"l\",\"iteration\":-1,\"state\":0}"),
     "/commands/0/iteration", "between 0"},
    {ONE("{\"op\":\"loop\"," PLACE("{3}") ",\"name\":\"other\",\"iteration\":1,\"state\":0}"),
     "/commands/0/loc", "occupied: loop 'track'"},
    {ONE("{\"op\":\"mark\"," PLACE("{4}") ",\"mark\":\"x\"}"), "/commands/0/mark", "'removed' or"},
    {ONE("{\"op\":\"mark\"," PLACE("{4}") ",\"mark\":\"removed\"}"), "/commands/0/of",
     "needs 'of'"},
    {ONE("{\"op\":\"mark\"," PLACE("{4}") ",\"mark\":\"removed\",\"of\":\"removed\"}"),
     "/commands/0/of", "no type of steps"},
    /* ends */
    {ONE("{\"op\":\"return\",\"output\":1},{\"op\":\"return\",\"output\":1}"), "/commands/1",
     "nothing follows"},
    {ONE("{\"op\":\"fail\",\"error\":{}}," SLEEP("{4}")), "/commands/1", "nothing follows"},
    {ONE("{\"op\":\"fail\",\"error\":\"x\"}"), "/commands/0/error", "an object"},
    {ONE("{\"op\":\"return\"}"), "/commands/0/output", "needs 'output'"},
};

static void test_refusals(void **state)
{
    (void)state;
    open_works = 0;
    for (size_t i = 0; i < ARRAY_COUNT(refusals); i++) {
        struct decision d;
        struct qp_err err;
        int rc = read_and_check(refusals[i].text, &d, &err);
        if (rc != QP_E_SHAPE || strcmp(err.pointer, refusals[i].pointer) != 0 ||
            strstr(err.text, refusals[i].says) == NULL) {
            fail_msg("%s: %d '%s' at '%s', expected '%s' at '%s'", refusals[i].text, rc, err.text,
                     err.pointer, refusals[i].says, refusals[i].pointer);
        }
        arena_reset(&arena);
    }
}

/* A history takes 200,000 events: a decision that would make more is refused whole. A loop that is there makes none. */
static void test_a_full_history(void **state)
{
    static const char two[] = "{\"base\":1,\"commands\":["
                              "{\"op\":\"sleep\",\"loc\":\"{4}\",\"v\":1,\"until\":1},"
                              "{\"op\":\"sleep\",\"loc\":\"{5}\",\"v\":1,\"until\":1}]}";
    struct decision_facts facts = {.base = BASE, .look = look, .events = LIMIT_FLOW_EVENTS - 2};
    struct decision d;
    struct qp_err err;
    (void)state;
    assert_int_equal(decision_read(&t.env, &arena, str_from(two), NOW, &d, &err), QP_OK);
    assert_int_equal(decision_check(&t.env, &arena, &d, &facts, &err), QP_OK);
    facts.events++;
    assert_int_equal(decision_check(&t.env, &arena, &d, &facts, &err), QP_E_SHAPE);
    assert_string_equal(err.pointer, "/commands");
    assert_string_equal(err.text,
                        "history_too_large: the history would have 200001 events, and has "
                        "at most 200000: let the flow return, and go on in another job");
    d.commands[1].again = true;
    assert_int_equal(decision_check(&t.env, &arena, &d, &facts, &err), QP_OK);
}

/* A listen with a time limit may make a second event, and needs room for both. */
static void test_room_for_signals(void **state)
{
    static const char listen[] =
        "{\"base\":1,\"commands\":[{\"op\":\"listen\",\"loc\":\"{4}\",\"v\":1,"
        "\"names\":[\"a\"],\"until\":1,\"got\":\"{5}\"}]}";
    struct decision_facts facts = {.base = BASE, .look = look, .events = LIMIT_FLOW_EVENTS - 2};
    struct decision d;
    struct qp_err err;
    (void)state;
    assert_int_equal(decision_read(&t.env, &arena, str_from(listen), NOW, &d, &err), QP_OK);
    assert_int_equal(decision_check(&t.env, &arena, &d, &facts, &err), QP_OK);
    facts.events++;
    assert_int_equal(decision_check(&t.env, &arena, &d, &facts, &err), QP_E_SHAPE);
    assert_int_equal(strncmp(err.text, "history_too_large: ", 19), 0);
}

/* 2,000 commands are taken, 2,001 are not; and none of a flow that has returned. */
static void test_limits(void **state)
{
    struct decision_facts returned = {.base = BASE, .look = look, .returned = true};
    struct decision d;
    struct qp_err err;
    struct buf text;
    (void)state;
    for (int count = LIMIT_FLOW_COMMANDS; count <= LIMIT_FLOW_COMMANDS + 1; count++) {
        buf_init(&text, &t.env, 0);
        buf_text(&text, "{\"base\":1,\"commands\":[");
        for (int i = 0; i < count; i++) {
            buf_printf(&text, "%s{\"op\":\"sleep\",\"loc\":\"{%d}\",\"v\":1,\"until\":1}",
                       i > 0 ? "," : "", i + 4);
        }
        buf_text(&text, "]}");
        buf_byte(&text, 0);
        assert_int_equal(buf_rc(&text), QP_OK);
        assert_int_equal(read_and_check(text.p, &d, &err),
                         count <= LIMIT_FLOW_COMMANDS ? QP_OK : QP_E_SHAPE);
        buf_done(&text);
    }
    assert_string_equal(err.pointer, "/commands");
    assert_non_null(strstr(err.text, "decision_too_large"));
    assert_int_equal(
        decision_read(&t.env, &arena, QP_STR("{\"base\":1,\"commands\":[]}"), NOW, &d, &err),
        QP_OK);
    assert_int_equal(decision_check(&t.env, &arena, &d, &returned, &err), QP_E_SHAPE);
}

/* --------------------------------------------------------------------------------- what is read */

/* Every op becomes the row that ADR 45 describes. */
static const struct {
    const char *command;
    enum history_type type;
    const char *name;
    const char *policy;
    const char *input;
} rows[] = {
    {"{\"op\":\"activity\"," PLACE("{4}") ",\"name\":\"a\",\"input\": {\"x\": 1.10}}",
     HISTORY_ACTIVITY, "a", NULL, "{\"x\": 1.10}"},
    {"{\"op\":\"activity\"," PLACE("{4}") ",\"name\":\"a\",\"input\":1,\"retry\":{\"attempts\":3,"
                                          "\"backoff\":10}}",
     HISTORY_ACTIVITY, "a", "attempts=3,backoff=10", "1"},
    {"{\"op\":\"run\"," PLACE("{4}") ",\"name\":\"r\",\"ok\":[1]}", HISTORY_RUN, "r", NULL,
     "{\"ok\":[1]}"},
    {"{\"op\":\"run\"," PLACE("{4}") ",\"name\":\"r\",\"error\":{\"code\":404}}", HISTORY_RUN, "r",
     NULL, "{\"error\":{\"code\":404}}"},
    {"{\"op\":\"sleep\"," PLACE("{4}") ",\"until\":7}", HISTORY_SLEEP, NULL, NULL, "{\"until\":7}"},
    {"{\"op\":\"listen\"," PLACE("{4}") ",\"names\":[\"a\",\"b\"],\"limit\":5}", HISTORY_SIGNALS,
     NULL, NULL, "{\"names\":[\"a\",\"b\"],\"limit\":5}"},
    {"{\"op\":\"listen\"," PLACE("{4}") ",\"names\":[\"a\"],\"until\":7,\"got\":\"{5}\"}",
     HISTORY_SLEEP, NULL, NULL, "{\"until\":7,\"names\":[\"a\"],\"limit\":1,\"got\":\"{5}\"}"},
    {"{\"op\":\"signal\"," PLACE("{4}") ",\"to\":\"j\",\"name\":\"n\",\"data\":1}", HISTORY_SIGNAL,
     "n", NULL, "{\"to\":\"j\",\"name\":\"n\",\"data\":1}"},
    {"{\"op\":\"branch\"," PLACE("{3, 2}") "}", HISTORY_BRANCH, NULL, NULL, NULL},
    {"{\"op\":\"sleep\",\"loc\":\"{1.1}\",\"v\":2,\"until\":7}", HISTORY_SLEEP, NULL, NULL,
     "{\"until\":7}"},
    {"{\"op\":\"mark\"," PLACE("{4}") ",\"mark\":\"removed\",\"of\":\"activity\",\"name\":\"x\"}",
     HISTORY_REMOVED, "x", "activity", NULL},
    {"{\"op\":\"mark\",\"loc\":\"{4}\",\"v\":3,\"mark\":\"version\",\"value\":3}", HISTORY_VERSION,
     NULL, NULL, NULL},
};

static void assert_text(const char *what, qp_str text, const char *expected)
{
    if (!str_equal(text, str_from(expected))) {
        fail_msg("%s: '%.*s', expected '%s'", what, STR_ARG(text), expected);
    }
}

static void test_rows(void **state)
{
    (void)state;
    open_works = 1;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char text[512];
        struct decision d;
        struct qp_err err;
        (void)snprintf(text, sizeof text, "{\"base\":40,\"commands\":[%s]}", rows[i].command);
        if (read_and_check(text, &d, &err) != QP_OK) {
            fail_msg("%s: %s at %s", text, err.text, err.pointer);
        }
        assert_int_equal(d.count, 1);
        assert_int_equal(d.commands[0].type, rows[i].type);
        assert_text(text, d.commands[0].name, rows[i].name);
        assert_text(text, d.commands[0].policy, rows[i].policy);
        assert_text(text, d.commands[0].input, rows[i].input);
    }
}

/* A loop that is there gets a new state, and makes no event; parents may come in the same decision. */
static void test_structure(void **state)
{
    struct decision d;
    struct qp_err err;
    (void)state;
    assert_int_equal(
        read_and_check(ONE("{\"op\":\"loop\"," PLACE(
                           "{3}") ",\"name\":\"track\",\"iteration\":1,"
                                  "\"state\":[2],\"output\":3},"
                                  "{\"op\":\"branch\"," PLACE("{3, 2}") "}," SLEEP(
                                      "{3, 2, 1}") ","
                                                   "{\"op\":\"branch\"," PLACE(
                                                       "{4}") ",\"name\":\"b\"}," SLEEP("{4, 1}")),
                       &d, &err),
        QP_OK);
    assert_true(d.commands[0].again);
    assert_text("state", d.commands[0].state,
                "{\"iteration\":1,\"state\":[2],\"seen\":40,\"output\":3}");
    assert_false(d.commands[1].again);
}

/* What step 1 keeps says to step 2 what it has to do. */
static void test_kept(void **state)
{
    static const char *const made[] = {"\"@a4!\"", "\"@a5!\""};
    struct decision d;
    struct qp_err err;
    struct decision_kept kept;
    qp_str text;
    size_t count = 0;
    (void)state;
    assert_int_equal(
        read_and_check(
            "{\"base\":39,\"after\":2,\"commands\":[" SLEEP("{4}") "," SLEEP(
                "{5}") ","
                       "{\"op\":\"loop\"," PLACE(
                           "{3}") ",\"name\":\"track\",\"iteration\":1,"
                                  "\"state\":0},{\"op\":\"fail\",\"error\":{\"code\":404}}]}",
            &d, &err),
        QP_OK);
    assert_int_equal(decision_keep(&t.env, &arena, &d, &text), QP_OK);
    kept = decision_kept(text);
    assert_int_equal(kept.seen, 39);
    assert_int_equal(kept.after, 2);
    assert_int_equal(kept.end, DECISION_FAILS);
    assert_text("error", kept.error, "{\"code\":404}");
    while (raw_each(&kept.made)) {
        assert_text("made", kept.made.value, made[count++]);
    }
    assert_int_equal(count, ARRAY_COUNT(made));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_full_history, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room_for_signals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_structure, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

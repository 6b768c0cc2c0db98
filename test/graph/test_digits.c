/* test_digits.c - the digits of the documents, in what `show` and `export` say of jobs that really ran
 *
 *   collation key   the seven examples, and those of an order that waits for its route
 *   composition     a flow that called another one, which stands behind the digit of who called, between 1 and 2
 *   ledgers         sections 18 and 20: activity, GUIDs and semaphore after every commit, for every type
 *   addresses       section 21
 *
 * Jobs run step by step, and after every commit the store is read as the command line reads it, through a handle of its own.
 * Where a ruling gives other digits than the document, a comment says which (H4, H9, H10, H15).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/json.h"
#include "cases.h"
#include "echo.h"
#include "kernel/ledger.h"
#include "quipu.h"

#define TOPICS "do err do.first loop.count"
#define DEPTH_MAX 64

static struct graphrun run;
static qp *reader;

static void work(struct graphcall *c)
{
    if (str_equal(c->topic, QP_STR("err"))) {
        c->kind = RESULT_ERROR;
        c->code = 500;
        (void)snprintf(c->output, sizeof c->output, "{\"message\":\"no food\"}");
    } else if (str_equal(c->topic, QP_STR("loop.count"))) {
        bool first = str_equal(c->addr, QP_STR("w7,0,0,0"));
        (void)snprintf(c->output, sizeof c->output, "{\"counter\":%d}", first ? 1 : 3);
    }
}

static void begin(enum storetest_kind kind, const char *graph)
{
    struct qp_options options;
    struct qp_err err = {0};
    run.stepwise = true;
    graphrun_init(&run, kind, TOPICS, work);
    graphrun_deploy_vector(&run, graph);
    qp_options_init(&options);
    options.path = run.f.path;
    if (qp_open_readonly(&options, &reader, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
}

static void end(void)
{
    struct qp_err err = {0};
    graphrun_check(&run);
    assert_int_equal(qp_close(reader, &err), QP_OK);
    run.after_round = NULL;
    graphrun_done(&run);
}

/* On the stores that others can read at the same time; `reads` is a test that does so after every commit, which takes long
 * over a line. */
static void each(const char *graph, bool reads, void (*test)(void))
{
    for (int kind = STORETEST_SQLITE; kind < storetest_kinds(); kind++) {
        bool slow = reads && kind == STORETEST_POSTGRES && !testenv_is_torture();
        if (kind != STORETEST_SQLITE_SMALL && !slow) {
            begin((enum storetest_kind)kind, graph);
            test();
            end();
        }
    }
}

/* --------------------------------------------------------------------------------------------- reading */

struct seen {
    char state[64];
    char composition[64];
    int64_t open;
};

static int see_job(void *context, const struct qp_job_info *job)
{
    struct seen *seen = context;
    (void)snprintf(seen->state, sizeof seen->state, "%.*s", STR_ARG(job->state));
    (void)snprintf(seen->composition, sizeof seen->composition, "%.*s",
                   STR_ARG(job->compositional));
    seen->open = job->open;
    return QP_OK;
}

static int add_piece(void *context, qp_str piece)
{
    buf_str(context, piece);
    return buf_rc(context);
}

static struct json *export(const char *id)
{
    struct qp_err err = {0};
    struct buf text;
    struct json *json = NULL;
    buf_init(&text, &run.f.t.env, 0);
    assert_int_equal(qp_job_export(reader, QP_NONE, str_from(id), &text, add_piece, &err), QP_OK);
    assert_int_equal(json_parse(&run.f.t.env, buf_slice(&text), &err, &json), QP_OK);
    buf_done(&text);
    return json;
}

static qp_str text_of(const struct json *object, const char *key)
{
    qp_str text = QP_STR("");
    return json_as_str(json_get(object, str_from(key)), &text) ? text : QP_STR("");
}

/* As show says, which is what export says. */
static const struct seen *look(const char *id)
{
    static struct seen seen;
    struct qp_err err = {0};
    struct json *json = export(id);
    const struct json *job = json_get(json, QP_STR("job"));
    int64_t open = -1;
    assert_int_equal(qp_job_show(reader, QP_NONE, str_from(id), &seen, see_job, &err), QP_OK);
    assert_true(str_equal(text_of(job, "state"), str_from(seen.state)));
    assert_true(str_equal(text_of(job, "compositional"), str_from(seen.composition)));
    assert_true(json_as_i64(json_get(job, QP_STR("semaphore")), &open));
    assert_int_equal(open, seen.open);
    json_free(json);
    return &seen;
}

/* The activity of an address in the export's tree; NULL: it is not there. */
static const struct json *in_tree(const struct json *tree, const char *addr)
{
    const struct json *open[DEPTH_MAX] = {tree};
    size_t count = 1;
    while (count > 0) {
        const struct json *node = open[--count];
        const struct json *children = json_get(node, QP_STR("children"));
        if (str_equal(text_of(node, "address"), str_from(addr))) {
            return node;
        }
        assert_true(count + json_count(children) < DEPTH_MAX);
        for (size_t i = 0; i < json_count(children); i++) {
            open[count++] = json_at(children, i);
        }
    }
    return NULL;
}

struct listed {
    const char *addr;
    char digits[16];
};

static int see_activity(void *context, const struct qp_activity *activity)
{
    struct listed *listed = context;
    if (str_equal(activity->address, str_from(listed->addr))) {
        ledger_text(activity->ledger, listed->digits);
    }
    return QP_OK;
}

/* "ACTIVITY GUID...", as in the export; show has the first of them, too. */
static const char *digits_of(const char *id, const char *addr)
{
    static char text[256];
    struct qp_err err = {0};
    struct listed listed = {.addr = addr};
    struct json *json = export(id);
    const struct json *node = in_tree(json_get(json, QP_STR("tree")), addr);
    const struct json *guids = json_get(node, QP_STR("guids"));
    bool more = false;
    int used = snprintf(text, sizeof text, "%.*s",
                        STR_ARG(node == NULL ? QP_STR("") : text_of(node, "ledger")));
    for (size_t i = 0; i < json_count(guids); i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, " %.*s",
                         STR_ARG(text_of(json_at(guids, i), "ledger")));
    }
    json_free(json);
    assert_int_equal(qp_activity_list(reader, QP_NONE, str_from(id), QP_NONE, 0, &listed,
                                      see_activity, &more, &err),
                     QP_OK);
    assert_memory_equal(text, listed.digits, strlen(listed.digits));
    return text;
}

/* ------------------------------------------------------------------------------------- collation keys */

static void start(const char *topic, const char *id, const char *input)
{
    assert_int_equal(graphrun_start(&run, topic, id, input), QP_OK);
    graphrun_settle(&run);
}

static void expect_state(const char *id, const char *state)
{
    assert_string_equal(look(id)->state, state);
}

/* Rounds until the job has this state; it must come by itself. */
static void until_state(const char *id, const char *state)
{
    struct qp_err err = {0};
    bool busy = true;
    while (busy && strcmp(look(id)->state, state) != 0) {
        assert_int_equal(engine_round(run.e, &busy, &err), QP_OK);
    }
    expect_state(id, state);
}

static void examples(void)
{
    static const char *const awake = "{\"fox\":\"do\",\"jumped\":\"do\",\"awake\":true}";
    assert_int_equal(graphrun_start(&run, "fox.start", "0", awake), QP_OK);
    expect_state("0", "999969000000000");
    graphrun_settle(&run);
    start("fox.start", "1", "{\"fox\":\"later\",\"jumped\":\"do\",\"awake\":true}");
    expect_state("1", "968969000000000");
    start("fox.start", "2", "{\"fox\":\"do\",\"jumped\":\"later\",\"awake\":true}");
    expect_state("2", "366863000000000");
    start("fox.start", "3", awake);
    expect_state("3", "366663000000000");
    graphrun_expect(&run, "3", "completed", "{}");
    start("fox.start", "4", "{\"fox\":\"do\",\"jumped\":\"do\",\"awake\":false}");
    expect_state("4", "566366000000000");
    assert_int_equal(graphrun_signal(&run, "fed", "{\"id\":\"4\"}", 200), QP_OK);
    graphrun_settle(&run);
    expect_state("4", "466366000000000");
    graphrun_expect(&run, "4", "completed", "{}");
    assert_string_equal(look("4")->composition, "466366");
}

static void test_000_examples(void **state)
{
    (void)state;
    each("fox", false, examples);
}

static void error_example(void)
{
    start("fox.errs", "j", "{}");
    expect_state("j", "766366000000000");
    graphrun_expect(&run, "j", "failed", NULL);
}

static void test_000_error(void **state)
{
    (void)state;
    each("fox_errs", false, error_example);
}

static void fulfilled(void)
{
    start("order.start", "j", "{}");
    expect_state("j", "956000000000000");
    assert_int_equal(graphrun_signal(&run, "order.routed", "{\"id\":\"j\"}", 200), QP_OK);
    until_state("j", "946000000000000");
    until_state("j", "646000000000000");
    graphrun_settle(&run);
    graphrun_expect(&run, "j", "completed", "{}");
}

static void test_000_fulfilled(void **state)
{
    (void)state;
    each("fox", false, fulfilled);
}

/* The document's flow A is 999969 with a fifth activity that called 466366: 99996146636629. There the one who calls is the
 * trigger itself; ours is born 6 and calls nobody, so it is a seventh activity, whose 6 comes last. */
static void composed(void)
{
    start("caller.start", "j", "{}");
    assert_string_equal(look("j")->composition, "999981566366296");
    expect_state("j", "999989600000000");
    assert_int_equal(graphrun_signal(&run, "fed", "{\"id\":\"called\"}", 200), QP_OK);
    until_state("j", "999969600000000"); /* f is told, and has not begun */
    assert_string_equal(look("j")->composition, "99996146636629"
                                                "6");
    expect_state("called", "466366000000000");
    graphrun_settle(&run);
    assert_string_equal(look("j")->composition, "999961466366286");
}

static void test_000_composition(void **state)
{
    (void)state;
    each("fox", false, composed);
}

/* --------------------------------------------------------------------------------- ledgers, as they go */

static const char *watched;
static char trail[2048];

/* After every commit: the activity's digits, if they have changed, and the semaphore. */
static void watch(struct graphrun *r)
{
    static char last[300];
    char line[300];
    const char *digits;
    if (graphrun_job(r, "j") == NULL) {
        return;
    }
    digits = digits_of("j", watched);
    (void)snprintf(line, sizeof line, "%s, %lld\n", digits, (long long)look("j")->open);
    if (digits[0] != '\0' && (trail[0] == '\0' || strncmp(line, last, strlen(digits)) != 0)) {
        assert_true(strlen(trail) + strlen(line) < sizeof trail);
        (void)snprintf(trail + strlen(trail), sizeof trail - strlen(trail), "%s", line);
        (void)snprintf(last, sizeof last, "%s", line);
    }
}

static void watch_from_now(const char *addr)
{
    watched = addr;
    trail[0] = '\0';
    run.after_round = watch;
}

struct trail_case {
    const char *section;
    const char *addr;
    const char *topic;
    const char *input;
    const char *trail;
};

/* Two legs, one child: 18.2 and 20.2. The document's Leg2 entry and step 1 have the same activity digits; finalized with
 * step 2, since it is the last step that this GUID takes (H4). */
#define TWO_LEGS                                                                                   \
    "001000000000000, 1\n"                                                                         \
    "001100000000000, 1\n"                                                                         \
    "001100000000001 000000000000001, 1\n"                                                         \
    "001100000000001 000010000000001, 1\n"                                                         \
    "201100000000001 000011000000001, 1\n"
/* One leg with a GUID, one child: 20.4 passthrough, 20.5, 20.7. */
#define ONE_LEG                                                                                    \
    "001000000000000 000000000000000, 1\n"                                                         \
    "001100000000000 000010000000000, 1\n"                                                         \
    "201100000000000 000011000000000, 1\n"

static const struct trail_case trail_cases[] = {
    /* 000011100000000 in the document; by H10 whoever closes the job has the closed digit, the trigger, too. */
    {"20.1", "trigger,0", "type.trigger", "{}", "101100000000001 000111100000000, 0\n"},
    {"20.1", "trigger,0", "type.worker", "{}", "101100000000001 000011000000000, 1\n"},
    {"20.2", "w1,0,0", "type.worker", "{}", TWO_LEGS},
    {"20.3", "call2,0,0", "type.await", "{}", TWO_LEGS},
    {"20.4, time", "nap4,0,0", "type.time", "{}", TWO_LEGS},
    {"20.4, web", "wait3,0,0", "type.web", "{\"id\":\"j\"}", TWO_LEGS},
    /* It closes the job: finalized with step C, and between B and C the GUID has the edge. */
    {"20.4, passthrough", "end1,0,0,0", "type.worker", "{}",
     "001000000000000 000000000000000, 1\n"
     "001100000000000 000010000000000, 1\n"
     "001100000000000 000111000000000, 0\n"
     "201100000000000 000111100000000, 0\n"},
    {"20.4, pivot", "pivot7,0,0", "type.cycle", "{}",
     "001000000000000 000000000000000, 1\n"
     "001100000000001 000010000000000, 1\n" /* its own first entry is taken: H14 */
     "001100000000001 000011000000000, 1\n"
     "001100000000002 000011000000000 000000000000002, 1\n"
     "001100000000002 000011000000000 000010000000002, 1\n"
     "001100000000002 000011000000000 000011000000002, 1\n"},
    {"20.5, one", "tell5,0,0", "type.one", "{\"id\":\"nobody\"}", ONE_LEG},
    {"20.5, all", "tell6,0,0", "type.all", "{\"color\":\"red\"}", ONE_LEG},
    {"20.6", "again7,0,0,0,0", "type.cycle", "{}",
     "001000000000000, 1\n"
     "001100000000001, 1\n"},
    /* By H9 it has a GUID, which owns the edge; its own digits are the document's. */
    {"20.7, self", "self11,0,0", "type.self", "{}",
     "001000000000000 000000000000000, 1\n"
     "001100000000000 000010000000000, 1\n"
     "001100000000000 000111000000000, 0\n"
     "001100000000000 000111100000000, 0\n"},
    {"20.7, another", "stop10,0,0", "type.stop", "{\"target\":\"nobody\"}", ONE_LEG},
    /* Five are open; two children of one that ends make six. */
    {"18.3", "fan,0,0", "type.five", "{}",
     "001000000000000, 5\n"
     "001100000000000, 5\n"
     "001100000000001 000000000000001, 5\n"
     "001100000000001 000010000000001, 5\n"
     "201100000000001 000011000000001, 6\n"},
    {"18.4", "w14,0,0", "type.last", "{}",
     "001000000000000, 1\n"
     "001100000000000, 1\n"
     "001100000000001 000000000000001, 1\n"
     "001100000000001 000010000000001, 1\n"
     "001100000000001 000111000000001, 0\n"
     "201100000000001 000111100000001, 0\n"},
};

static void trails(void)
{
    int wrong = 0;
    for (size_t i = 0; i < ARRAY_COUNT(trail_cases); i++) {
        const struct trail_case *c = &trail_cases[i];
        enum storetest_kind kind = run.f.kind;
        watch_from_now(c->addr);
        assert_int_equal(graphrun_start(&run, c->topic, "j", c->input), QP_OK);
        graphrun_settle(&run);
        assert_int_equal(graphrun_signal(&run, "type.told", "{\"id\":\"j\",\"word\":\"go\"}", 200),
                         QP_OK);
        graphrun_wait(&run, 10000);
        if (strcmp(trail, c->trail) != 0) {
            print_error("%s, %s:\n%snot\n%s", c->section, c->addr, trail, c->trail);
            wrong++;
        }
        end();
        begin(kind, "types"); /* so that the next has its id, too */
    }
    assert_int_equal(wrong, 0);
}

static void test_001_18_and_20_ledgers(void **state)
{
    (void)state;
    each("types", true, trails);
}

/* 18.1: from nothing (H15: a ledger of zeros is no row) to a replayed Leg1, which leaves its mark. */
static void leg1(void)
{
    echo_begin(&run, false);
    assert_int_equal(graphrun_start(&run, "type.last", "j", "{}"), QP_OK);
    assert_string_equal(digits_of("j", "w14,0,0"), "");
    graphrun_until(&run, "j", "w14,0,0", "001000000000000");
    assert_string_equal(digits_of("j", "w14,0,0"), "001000000000000");
    graphrun_rest(&run);
    assert_string_equal(digits_of("j", "w14,0,0"), "001100000000000");
    echo_send(&run, MESSAGE_ENTER, "w14,0,0");
    graphrun_rest(&run);
    assert_string_equal(digits_of("j", "w14,0,0"), "002100000000000");
    graphrun_settle(&run);
    assert_string_equal(digits_of("j", "w14,0,0"), "202100000000001 000111100000001");
    assert_int_equal(echo_end(&run), 1);
}

static void test_001_18_1_replay(void **state)
{
    (void)state;
    each("types", false, leg1);
}

/* 18.2 and 18.4: a crash before step 2, and one before step 3. */
static void crashed(void)
{
    struct task *task;
    assert_int_equal(graphrun_start(&run, "type.last", "j", "{}"), QP_OK);
    graphrun_rest(&run);
    task = graphrun_take(&run, "w14,0,0");
    assert_int_equal(graphrun_result(&run, task, "{}"), QP_OK);
    graphrun_forget(&run, task);
    graphrun_until(&run, "j", "w14,0,0", "001100000000001 000010000000001");
    graphrun_kill(&run);
    assert_string_equal(digits_of("j", "w14,0,0"), "001100000000001 000010000000001");
    assert_int_equal(look("j")->open, 1);
    graphrun_until(&run, "j", "w14,0,0", "001100000000001 000111000000001");
    graphrun_kill(&run);
    assert_string_equal(digits_of("j", "w14,0,0"), "001100000000001 000111000000001");
    assert_int_equal(look("j")->open, 0);
    assert_int_equal(graphrun_job(&run, "j")->completions, 0);
    graphrun_settle(&run);
    assert_string_equal(digits_of("j", "w14,0,0"), "201100000000001 000111100000001");
    assert_int_equal(graphrun_job(&run, "j")->completions, 1);
}

static void test_001_18_2_and_18_4_resume(void **state)
{
    (void)state;
    each("types", false, crashed);
}

/* 20.1: inception alone, then the rest. */
static void inception(void)
{
    assert_int_equal(graphrun_incept(&run, "type.worker", "j", "{}"), QP_OK);
    assert_string_equal(digits_of("j", "trigger,0"), "101100000000001 000010000000000");
    assert_int_equal(graphrun_start(&run, "type.worker", "j", "{}"), QP_OK);
    assert_string_equal(digits_of("j", "trigger,0"), "101100000000001 000011000000000");
    assert_int_equal(look("j")->open, 1);
    graphrun_settle(&run);
}

static void test_001_20_1_inception(void **state)
{
    (void)state;
    each("types", false, inception);
}

/* ------------------------------------------------------------------------------------------- addresses */

static void expect_plane(const char *addr, const char *type, int64_t plane)
{
    struct json *json = export("j");
    const struct json *node = in_tree(json_get(json, QP_STR("tree")), addr);
    int64_t there = -1;
    assert_non_null(node);
    assert_true(str_equal(text_of(node, "type"), str_from(type)));
    assert_true(json_as_i64(json_get(node, QP_STR("plane")), &there));
    assert_int_equal(there, plane);
    json_free(json);
}

/* The table of section 21. What it calls the cycle's re-entry at ",0,1" is a second GUID of the pivot, with plane 1. */
static void addresses(void)
{
    struct json *json;
    const struct json *guids;
    int64_t plane = -1;
    start("type.cycle", "j", "{}");
    expect_plane("trigger,0", "trigger", 0);
    expect_plane("pivot7,0,0", "hook", 0);
    expect_plane("w7,0,0,0", "worker", 0);
    expect_plane("again7,0,0,0,0", "cycle", 0);
    expect_plane("w7,0,1,0", "worker", 1);
    json = export("j");
    guids = json_get(in_tree(json_get(json, QP_STR("tree")), "pivot7,0,0"), QP_STR("guids"));
    assert_int_equal(json_count(guids), 2);
    assert_true(json_as_i64(json_get(json_at(guids, 1), QP_STR("plane")), &plane));
    assert_int_equal(plane, 1);
    json_free(json);
    /* The planes are apart: each has its own output. */
    assert_true(str_equal(graphrun_act(&run, "j", "w7,0,0,0")->output, QP_STR("{\"counter\":1}")));
    assert_true(str_equal(graphrun_act(&run, "j", "w7,0,1,0")->output, QP_STR("{\"counter\":3}")));
}

static void test_001_21_addresses(void **state)
{
    (void)state;
    each("types", false, addresses);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_000_examples),
        cmocka_unit_test(test_000_error),
        cmocka_unit_test(test_000_fulfilled),
        cmocka_unit_test(test_000_composition),
        cmocka_unit_test(test_001_18_and_20_ledgers),
        cmocka_unit_test(test_001_18_1_replay),
        cmocka_unit_test(test_001_18_2_and_18_4_resume),
        cmocka_unit_test(test_001_20_1_inception),
        cmocka_unit_test(test_001_21_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

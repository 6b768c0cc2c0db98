/* test_cursor.c - the cursor: verdicts of document 004, what stops a flow and in which words, arrays that are no history
 *
 * Cases as data are in test/flow/vectors, generated ones in test/flow/test_edits.c. Here are the promises that a caller
 * relies on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/flowcase.h"
#include "support/testenv.h"

#define WRITES_MAX 64

static struct testenv t;
static struct arena a;
static struct buf line;
static struct history_event written[WRITES_MAX];

static int setup(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    arena_init(&a, &t.env, 0);
    buf_init(&line, &t.env, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_done(&line);
    arena_done(&a);
    testenv_done(&t);
    return 0;
}

/* ------------------------------------------------------------------------------------------ cases */

#define BASE                                                                                       \
    "{\"loc\":\"{1}\",\"type\":\"activity\",\"name\":\"foo\"},"                                    \
    "{\"loc\":\"{2}\",\"type\":\"activity\",\"name\":\"bar\"},"                                    \
    "{\"loc\":\"{3}\",\"type\":\"sleep\"}"
#define FOO "{\"op\":\"activity\",\"name\":\"foo\"}"
#define BAR "{\"op\":\"activity\",\"name\":\"bar\"}"
#define NEW "{\"op\":\"activity\",\"name\":\"new\",\"v\":2}"
#define FAST "{\"op\":\"activity\",\"name\":\"fast\",\"v\":2}"
#define SLEEP "{\"op\":\"sleep\"}"
#define REMOVED "{\"op\":\"removed\",\"of\":\"activity\",\"name\":\"bar\"}"
/* check_version(2), with what flows of version 1 do, and what new ones do */
#define CHECK(one) "{\"op\":\"version\",\"n\":2,\"arms\":{\"1\":[" one "],\"else\":[" FAST "]}}"

static struct flowcase parse(const char *history, const char *program)
{
    struct flowcase flow = {0};
    struct buf text;
    qp_str why;
    buf_init(&text, &t.env, 0);
    buf_printf(&text, "{\"history\":[%s],\"program\":[%s]}", history, program);
    if (flowcase_parse(&a, buf_slice(&text), &flow, &why) != QP_OK) {
        fail_msg("%.*s", STR_ARG(why));
    }
    buf_done(&text);
    return flow;
}

static struct flowrun run(const struct flowcase *flow)
{
    struct flowrun r = {
        .flow = flow, .arena = &a, .out = &line, .written = written, .written_room = WRITES_MAX};
    buf_reset(&line);
    flowcase_run(&r);
    assert_int_equal(r.rc, QP_OK);
    return r;
}

static void assert_line(const char *expected)
{
    if (!str_equal(buf_slice(&line), str_from(expected))) {
        fail_msg("expected: %s\ngot:      %.*s", expected, STR_ARG(buf_slice(&line)));
    }
}

/* The program over the history, and a second time over what came of it: then nothing is written. */
static void assert_twice(const char *history, const char *program, const char *first, size_t writes,
                         const char *second)
{
    struct flowcase flow = parse(history, program);
    struct flowcase after;
    struct flowrun r = run(&flow);
    assert_line(first);
    assert_int_equal(r.written_count, writes);
    assert_int_equal(flowcase_after(&r, &after), QP_OK);
    r = run(&after);
    assert_line(second);
    assert_int_equal(r.written_count, 0);
}

/* Document 004: a new flow gets one location after the other, and its replay is read from them. */
static void test_004_append(void **state)
{
    (void)state;
    assert_twice("", FOO "," BAR "," SLEEP, "N{1} N{2} N{3}", 3, "R{1} R{2} R{3}");
}

/* Document 004, Branches: one coordinate more below. */
static void test_004_branch(void **state)
{
    (void)state;
    assert_twice("", FOO ",{\"op\":\"branch\",\"name\":\"b\",\"do\":[" BAR "," SLEEP "]}," BAR,
                 "N{1} N{2} N{2, 1} N{2, 2} N{3}", 5, "R{1} R{2} R{2, 1} R{2, 2} R{3}");
}

/* Document 004, Inserting Events: with a higher version, before, between and again between; with the same one the
 * flow stops and nothing is written. */
static void test_004_insert(void **state)
{
    struct flowcase flow;
    struct flowrun r;
    (void)state;
    assert_twice(BASE, FOO "," NEW "," BAR "," SLEEP, "R{1} I{1.1}v2 R{2} R{3}", 1,
                 "R{1} R{1.1}v2 R{2} R{3}");
    assert_twice(BASE, NEW "," FOO "," BAR "," SLEEP, "I{0.1}v2 R{1} R{2} R{3}", 1,
                 "R{0.1}v2 R{1} R{2} R{3}");
    assert_twice(BASE, FOO "," NEW "," NEW "," BAR "," SLEEP, "R{1} I{1.1}v2 I{1.2}v2 R{2} R{3}", 2,
                 "R{1} R{1.1}v2 R{1.2}v2 R{2} R{3}");
    flow = parse(BASE, FOO ",{\"op\":\"activity\",\"name\":\"new\"}," BAR "," SLEEP);
    r = run(&flow);
    assert_line("R{1} HD{2}");
    assert_int_equal(r.written_count, 0);
}

/* Document 004, Removing events: what was run is skipped without a write, what was not leaves a removed event, and both
 * go on at the same location. */
static void test_004_removed(void **state)
{
    (void)state;
    assert_twice(BASE, FOO "," REMOVED "," SLEEP, "R{1} S{2} R{3}", 0, "R{1} S{2} R{3}");
    assert_twice("", FOO "," REMOVED "," SLEEP, "N{1} N{2} N{3}", 3, "R{1} S{2} R{3}");
}

/* Document 004, Inserting Events Conditionally: a flow that has bar keeps it, a new one has a version check and
 * bar_fast; both manipulations of the `1` branch, each replayed without a write. */
static void test_004_check_version(void **state)
{
    (void)state;
    assert_twice(BASE, FOO "," CHECK(BAR) "," SLEEP, "R{1} C=1 R{2} R{3}", 0, "R{1} C=1 R{2} R{3}");
    assert_twice("", FOO "," CHECK(BAR) "," SLEEP, "N{1} N{2}v2 C=2 N{3}v2 N{4}", 4,
                 "R{1} R{2}v2 C=2 R{3}v2 R{4}");
    assert_twice(BASE, FOO "," CHECK(BAR "," NEW) "," SLEEP, "R{1} C=1 R{2} I{2.1}v2 R{3}", 1,
                 "R{1} C=1 R{2} R{2.1}v2 R{3}");
    assert_twice(BASE, FOO "," CHECK(REMOVED) "," SLEEP, "R{1} C=1 S{2} R{3}", 0,
                 "R{1} C=1 S{2} R{3}");
}

/* Document 004, Loops: two nested branches per iteration, which is found by its coordinate. */
static void test_004_loop(void **state)
{
    (void)state;
    assert_twice("", FOO ",{\"op\":\"loop\",\"name\":\"l\",\"times\":2,\"do\":[" BAR "," SLEEP "]}",
                 "N{1} N{2} N{2, 1} N{2, 1, 1} N{2, 1, 2} N{2, 2} N{2, 2, 1} N{2, 2, 2}", 8,
                 "R{1} R{2} R{2, 1} R{2, 1, 1} R{2, 1, 2} R{2, 2} R{2, 2, 1} R{2, 2, 2}");
}

/* ------------------------------------------------------------------------------------ direct calls */

static struct history_event event(const char *location, enum history_type type, const char *name,
                                  int64_t version)
{
    struct history_event e = {.type = type, .name = str_from(name), .version = version};
    struct location at;
    char key[LOCATION_KEY_SIZE];
    assert_int_equal(location_parse(str_from(location), &at, NULL), QP_OK);
    assert_true(arena_copy(&a, (qp_str){key, location_key(&at, key)}, &e.key));
    return e;
}

static struct cursor_step step(enum history_type type, const char *name, int64_t n)
{
    return (struct cursor_step){.type = type, .name = str_from(name), .n = n};
}

static void assert_explained(const struct cursor *c, const struct cursor_found *found,
                             const char *code, const char *expected)
{
    assert_true(cursor_is_stopped(found->verdict));
    assert_string_equal(cursor_code(found->verdict), code);
    buf_reset(&line);
    cursor_explain(c, found, &line);
    assert_line(expected);
}

/* A cursor that was stopped has not moved: it says the same again, and goes on with the right step. */
static void test_stopped_stays(void **state)
{
    struct history_event events[] = {event("{1}", HISTORY_ACTIVITY, "foo", 1),
                                     event("{2}", HISTORY_ACTIVITY, "bar", 1)};
    struct cursor_step wrong = step(HISTORY_ACTIVITY, "baz", 1);
    struct cursor_step right = step(HISTORY_ACTIVITY, "foo", 1);
    struct cursor_found found;
    struct history h;
    struct cursor c;
    (void)state;
    assert_int_equal(history_init(&h, events, 2, NULL), QP_OK);
    cursor_begin(&c, &h);
    assert_int_equal(cursor_compare(&c, &wrong, &found), CURSOR_DIVERGED);
    assert_int_equal(cursor_compare(&c, &wrong, &found), CURSOR_DIVERGED);
    assert_ptr_equal(found.event, &events[0]);
    assert_false(cursor_is_behind(&found));
    assert_int_equal(cursor_compare(&c, &right, &found), CURSOR_REPLAY);
    assert_ptr_equal(found.event, &events[0]);
    assert_int_equal(found.version, 1);
    assert_int_equal(cursor_end(&c, &found), CURSOR_LATENT);
    assert_ptr_equal(found.event, &events[1]);
    assert_null(cursor_following(&c, found.event));
}

/* Every stop has its code, and a sentence with the place, both sides and what to do. */
static void test_explained(void **state)
{
    struct history_event events[] = {
        event("{1}", HISTORY_ACTIVITY, "foo", 2),  event("{2}", HISTORY_BRANCH, "b", 1),
        event("{2, 1}", HISTORY_SLEEP, NULL, 1),   event("{2, 2}", HISTORY_RUN, "r", 1),
        event("{2, 3}", HISTORY_CHILD, "c", 1),    event("{2, 4}", HISTORY_SIGNAL, "s", 1),
        event("{2, 5}", HISTORY_VERSION, NULL, 2), event("{2, 6}", HISTORY_REMOVED, "x", 1)};
    struct cursor_step old = step(HISTORY_ACTIVITY, "foo", 1);
    struct cursor_step foo = step(HISTORY_ACTIVITY, "foo", 2);
    struct cursor_step run_step = step(HISTORY_RUN, "foo", 2);
    struct cursor_step branch = step(HISTORY_BRANCH, "b", 1);
    struct cursor_step newer = step(HISTORY_ACTIVITY, "new", 3);
    struct cursor_question question = {.n = 1, .latest = 2};
    struct cursor_found found;
    struct history h;
    struct cursor c;
    struct cursor inner;
    (void)state;
    events[7].of = HISTORY_ACTIVITY;
    assert_int_equal(history_init(&h, events, ARRAY_COUNT(events), NULL), QP_OK);
    cursor_begin(&c, &h);
    assert_int_equal(cursor_compare(&c, &old, &found), CURSOR_DIVERGED);
    assert_true(cursor_is_behind(&found));
    assert_explained(&c, &found, "history_diverged",
                     "history and code differ at {1}: history has activity 'foo' v2, the code has "
                     "activity 'foo' v1; the history was written by newer code: run that code");
    assert_int_equal(cursor_compare(&c, &run_step, &found), CURSOR_DIVERGED);
    assert_explained(&c, &found, "history_diverged",
                     "history and code differ at {1}: history has activity 'foo' v2, the code has "
                     "run 'foo' v2; give a step that was added a version above 2, replace one that "
                     "was dropped by removed, or restore the code");
    assert_int_equal(cursor_compare(&c, &foo, &found), CURSOR_REPLAY);
    assert_int_equal(cursor_check(&c, &question, &found), CURSOR_LOOK);
    assert_int_equal(found.value, 1);
    assert_int_equal(cursor_compare(&c, &newer, &found), CURSOR_REFUSED);
    assert_explained(
        &c, &found, "insertion_refused",
        "the code has activity 'new' v3 at {1.1}, directly behind a version check that "
        "read branch 'b' v1; the next replay of the check would read the version of "
        "the inserted step: move the step before the check or behind the event");
    assert_int_equal(cursor_compare(&c, &branch, &found), CURSOR_REPLAY);
    cursor_enter(&inner, &c, &found);
    assert_int_equal(cursor_end(&inner, &found), CURSOR_LATENT);
    assert_explained(&inner, &found, "latent_history",
                     "the code of {2} ended, and its history goes on: {2, 1} sleep v1; {2, 2} run "
                     "'r' v1; {2, 3} child 'c' v1; {2, 4} signal 's' v1; {2, 5} version check v2; "
                     "and 1 more; keep these steps, or replace each one by removed");
    assert_int_equal(cursor_end(&c, &found), CURSOR_END);
}

/* A removed event stands on the history's side of a message. */
static void test_explained_removed(void **state)
{
    struct history_event events[] = {event("{1}", HISTORY_REMOVED, "foo", 1)};
    struct cursor_step foo = step(HISTORY_ACTIVITY, "foo", 1);
    struct cursor_found found;
    struct history h;
    struct cursor c;
    (void)state;
    events[0].of = HISTORY_ACTIVITY;
    assert_int_equal(history_init(&h, events, 1, NULL), QP_OK);
    cursor_begin(&c, &h);
    assert_int_equal(cursor_compare(&c, &foo, &found), CURSOR_DIVERGED);
    assert_explained(&c, &found, "history_diverged",
                     "history and code differ at {1}: history has removed activity 'foo' v1, the "
                     "code has activity 'foo' v1; give a step that was added a version above 1, "
                     "replace one that was dropped by removed, or restore the code");
}

/* Beyond the limits nothing is given out, and the sentence says which they are. */
static void test_bad_location(void **state)
{
    struct history_event events[] = {event("{2147483647}", HISTORY_ACTIVITY, "foo", 1)};
    struct cursor_step foo = step(HISTORY_ACTIVITY, "foo", 1);
    struct cursor_found found;
    struct history h;
    struct cursor c;
    (void)state;
    assert_int_equal(history_init(&h, events, 1, NULL), QP_OK);
    cursor_begin(&c, &h);
    assert_int_equal(cursor_compare(&c, &foo, &found), CURSOR_REPLAY);
    assert_int_equal(cursor_remove(&c, &foo, &found), CURSOR_BAD);
    assert_int_equal(cursor_compare(&c, &foo, &found), CURSOR_BAD);
    assert_explained(&c, &found, "bad_location",
                     "the location of activity 'foo' v1 is beyond the limits: 32 coordinates, 64 "
                     "ordinates, 2147483647 per ordinate; nest less deeply");
}

/* No name and an empty name are the same; a name that is not compared may be any. */
static void test_names(void **state)
{
    struct history_event events[] = {event("{1}", HISTORY_SLEEP, NULL, 1),
                                     event("{2}", HISTORY_SLEEP, "", 1),
                                     event("{3}", HISTORY_SIGNALS, "go", 1)};
    struct cursor_step empty = step(HISTORY_SLEEP, "", 1);
    struct cursor_step none = step(HISTORY_SLEEP, NULL, 1);
    struct cursor_step any = {.type = HISTORY_SIGNALS, .any_name = true, .n = 1};
    struct cursor_found found;
    struct history h;
    struct cursor c;
    (void)state;
    assert_int_equal(history_init(&h, events, 3, NULL), QP_OK);
    cursor_begin(&c, &h);
    assert_int_equal(cursor_compare(&c, &empty, &found), CURSOR_REPLAY);
    assert_int_equal(cursor_compare(&c, &none, &found), CURSOR_REPLAY);
    assert_int_equal(cursor_compare(&c, &any, &found), CURSOR_REPLAY);
    assert_int_equal(cursor_end(&c, &found), CURSOR_END);
}

/* Around a check stands v(n): its answer and the version of its event are relative to that. */
static void test_check_in_raised_context(void **state)
{
    struct cursor_question question = {.n = 3, .latest = 2};
    struct history h = {0};
    struct cursor_found found;
    struct cursor c;
    (void)state;
    cursor_begin(&c, &h);
    assert_int_equal(cursor_check(&c, &question, &found), CURSOR_NEW);
    assert_int_equal(found.version, 4);
    assert_int_equal(found.value, 2);
}

/* An array that is not the scan of a history is refused, with the event. */
static void test_no_history(void **state)
{
    struct history_event good = event("{2}", HISTORY_ACTIVITY, "foo", 1);
    struct history_event bad[] = {good, good, good, good, good, good, good, good};
    struct qp_err err = {0};
    struct history h;
    (void)state;
    bad[0].key = QP_STR("");       /* the root */
    bad[1].key = QP_STR("a0!");    /* no location */
    bad[2].version = 0;            /* no version */
    bad[3].type = HISTORY_TYPES;   /* no type */
    bad[4].type = 0;               /* none at all */
    bad[5].of = HISTORY_SLEEP;     /* not removed */
    bad[6].type = HISTORY_REMOVED; /* removed of nothing */
    bad[7] = bad[6];
    bad[7].of = HISTORY_REMOVED; /* removed of a removed one */
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(history_init(&h, &bad[i], 1, &err), QP_E_INVALID);
        assert_non_null(strstr(err.text, "event 0: "));
    }
    for (int order = 0; order < 2; order++) {
        struct history_event pair[] = {good,
                                       event(order == 0 ? "{2}" : "{1}", HISTORY_RUN, "r", 1)};
        assert_int_equal(history_init(&h, pair, 2, &err), QP_E_INVALID);
        assert_string_equal(err.text, "event 1: its location is not behind the one before");
    }
}

/* Types keep their numbers, since they stand in stores, and their words. */
static void test_types(void **state)
{
    static const char *const words[] = {"activity", "run",     "sleep",  "signals",
                                        "signal",   "message", "child",  "loop",
                                        "branch",   "removed", "version"};
    enum history_type type;
    (void)state;
    for (int i = 0; i < (int)ARRAY_COUNT(words); i++) {
        assert_string_equal(history_word((enum history_type)(i + 1)), words[i]);
        assert_true(history_type_of(str_from(words[i]), &type));
        assert_int_equal(type, i + 1);
    }
    assert_int_equal(HISTORY_TYPES, ARRAY_COUNT(words) + 1);
    assert_false(history_type_of(QP_STR("listen"), &type));
}

/* A history of 200,000 events, a tenth of them branches: every event is met once, in order. A walk that looked at the whole
 * for every step would not end. */
static void test_long_history(void **state)
{
    enum { BRANCHES = 20000, INNER = 9 };
    struct history_event *events;
    struct location at = {0};
    struct location child;
    struct cursor_step branch = step(HISTORY_BRANCH, "b", 1);
    struct cursor_step inner_step = step(HISTORY_ACTIVITY, "x", 1);
    struct cursor_found found;
    struct history h;
    struct cursor c;
    struct cursor inner;
    size_t count = 0;
    (void)state;
    events = arena_alloc(&a, BRANCHES * (INNER + 1) * sizeof *events);
    assert_non_null(events);
    for (uint32_t i = 1; i <= BRANCHES; i++) {
        struct location root = {0};
        char key[LOCATION_KEY_SIZE];
        assert_true(location_child(&root, i, &at));
        events[count] =
            (struct history_event){.type = HISTORY_BRANCH, .name = QP_STR("b"), .version = 1};
        assert_true(arena_copy(&a, (qp_str){key, location_key(&at, key)}, &events[count++].key));
        for (uint32_t j = 1; j <= INNER; j++) {
            assert_true(location_child(&at, j, &child));
            events[count] =
                (struct history_event){.type = HISTORY_ACTIVITY, .name = QP_STR("x"), .version = 1};
            assert_true(
                arena_copy(&a, (qp_str){key, location_key(&child, key)}, &events[count++].key));
        }
    }
    assert_int_equal(history_init(&h, events, count, NULL), QP_OK);
    cursor_begin(&c, &h);
    for (size_t i = 0; i < BRANCHES; i++) {
        assert_int_equal(cursor_compare(&c, &branch, &found), CURSOR_REPLAY);
        assert_ptr_equal(found.event, &events[i * (INNER + 1)]);
        cursor_enter(&inner, &c, &found);
        for (size_t j = 1; j <= INNER; j++) {
            assert_int_equal(cursor_compare(&inner, &inner_step, &found), CURSOR_REPLAY);
            assert_ptr_equal(found.event, &events[i * (INNER + 1) + j]);
        }
        assert_int_equal(cursor_end(&inner, &found), CURSOR_END);
    }
    assert_int_equal(cursor_end(&c, &found), CURSOR_END);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_004_append, setup, teardown),
        cmocka_unit_test_setup_teardown(test_004_branch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_004_insert, setup, teardown),
        cmocka_unit_test_setup_teardown(test_004_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_004_check_version, setup, teardown),
        cmocka_unit_test_setup_teardown(test_004_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stopped_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_explained, setup, teardown),
        cmocka_unit_test_setup_teardown(test_explained_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_location, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_check_in_raised_context, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_history, setup, teardown),
        cmocka_unit_test_setup_teardown(test_types, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_history, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

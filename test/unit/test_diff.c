/* test_diff.c - what differs between two versions: what means something, and nothing else */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "graph/diff.h"
#include "support/testenv.h"

#define GRAPH(activities, transitions)                                                             \
    "app: {id: a, version: '1', graphs: [{subscribes: t, activities: {" activities                 \
    "}, transitions: {" transitions "}}]}"
#define NONE "{\"added\":[],\"removed\":[],\"changed\":[]}"
#define CHANGED(keys, activities, transitions)                                                     \
    "[{\"topic\":\"t\",\"change\":\"changed\",\"keys\":[" keys "],\"activities\":" activities      \
    ",\"transitions\":" transitions "}]"

static const struct {
    const char *from;
    const char *to;
    const char *graphs;
} cases[] = {
    /* order, quotes and layout mean nothing */
    {GRAPH("x: {type: trigger}, y: {type: hook, title: 'b'}", "x: [{to: y}]"),
     "{\"app\":{\"graphs\":[{\"transitions\":{\"x\":[{\"to\":\"y\"}]},\"activities\":{\"y\":{"
     "\"title\":\"b\",\"type\":\"hook\"},\"x\":{\"type\":\"trigger\"}},\"subscribes\":\"t\"}],"
     "\"version\":\"2\",\"id\":\"a\"}}",
     "[]"},
    /* a number is no text */
    {GRAPH("x: {type: trigger, title: '1'}", ""), GRAPH("x: {type: trigger, title: 1}", ""),
     CHANGED("", "{\"added\":[],\"removed\":[],\"changed\":[\"x\"]}", NONE)},
    {GRAPH("x: {type: trigger}, y: {type: hook}", "x: [{to: y}]"),
     GRAPH("x: {type: trigger}, z: {type: hook}", "x: [{to: z}]"),
     CHANGED(
         "", "{\"added\":[\"z\"],\"removed\":[\"y\"],\"changed\":[]}",
         "{\"added\":[{\"from\":\"x\",\"to\":\"z\"}],\"removed\":[{\"from\":\"x\",\"to\":\"y\"}],"
         "\"changed\":[]}")},
    {GRAPH("x: {type: trigger}, y: {type: hook}", "x: [{to: y}]"),
     GRAPH("x: {type: trigger}, y: {type: hook}", "x: [{to: y, conditions: {code: 200}}]"),
     CHANGED("", NONE,
             "{\"added\":[],\"removed\":[],\"changed\":[{\"from\":\"x\",\"to\":\"y\"}]}")},
    {"app: {graphs: [{subscribes: t, expire: 1, publishes: p, activities: {x: {type: trigger}}}]}",
     "app: {graphs: [{subscribes: t, expire: 2, hooks: {}, activities: {x: {type: trigger}}}]}",
     CHANGED("\"expire\",\"hooks\",\"publishes\"", NONE, NONE)},
    {"app: {graphs: [{subscribes: old, activities: {x: {type: trigger}}}]}",
     "app: {graphs: [{subscribes: t, activities: {x: {type: trigger}}}]}",
     "[{\"topic\":\"t\",\"change\":\"added\",\"keys\":[\"subscribes\"],\"activities\":{\"added\":["
     "\"x\"],\"removed\":[],\"changed\":[]},\"transitions\":" NONE "},"
     "{\"topic\":\"old\",\"change\":\"removed\",\"keys\":[\"subscribes\"],\"activities\":{\"added\":"
     "[],\"removed\":[\"x\"],\"changed\":[]},\"transitions\":" NONE "}]"},
};

static void test_cases(void **state)
{
    struct testenv t;
    (void)state;
    testenv_init(&t, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct arena arena;
        struct buf out;
        arena_init(&arena, &t.env, 0);
        buf_init(&out, &t.env, 0);
        print_message("case %zu\n", i);
        assert_int_equal(diff_write(&arena, str_from(cases[i].from), str_from(cases[i].to), &out),
                         QP_OK);
        buf_byte(&out, '\0');
        assert_string_equal(out.p, cases[i].graphs);
        buf_done(&out);
        arena_done(&arena);
    }
    testenv_done(&t);
}

/* No application, and the n-th allocation that fails. */
/* A graph with a map of very many keys, forwards or backwards, and a title */
static void say_many(struct buf *text, bool backwards, const char *title)
{
    const int count = 100000;
    buf_text(text, "app: {graphs: [{subscribes: t, input: {schema: {properties: {");
    for (int i = 0; i < count; i++) {
        buf_printf(text, "k%d: 1, ", backwards ? count - 1 - i : i);
    }
    buf_printf(text, "}}}, activities: {x: {type: trigger, title: %s}}}]}", title);
}

/* Whoever would search every key of one among all of the other takes minutes. */
static void test_many_keys(void **state)
{
    struct testenv t;
    struct arena arena;
    struct buf from;
    struct buf to;
    struct buf out;
    (void)state;
    testenv_init(&t, 1);
    arena_init(&arena, &t.env, 0);
    buf_init(&from, &t.env, 0);
    buf_init(&to, &t.env, 0);
    buf_init(&out, &t.env, 0);
    say_many(&from, false, "a");
    say_many(&to, true, "b");
    assert_int_equal(diff_write(&arena, buf_slice(&from), buf_slice(&to), &out), QP_OK);
    buf_byte(&out, '\0');
    assert_string_equal(out.p,
                        CHANGED("", "{\"added\":[],\"removed\":[],\"changed\":[\"x\"]}", NONE));
    buf_done(&from);
    buf_done(&to);
    buf_done(&out);
    arena_done(&arena);
    testenv_done(&t);
}

static void test_refused(void **state)
{
    struct testenv t;
    struct arena arena;
    struct buf out;
    bool done = false;
    (void)state;
    testenv_init(&t, 1);
    arena_init(&arena, &t.env, 0);
    buf_init(&out, &t.env, 0);
    assert_int_equal(diff_write(&arena, QP_STR("["), QP_STR("app: 1"), &out), QP_E_INVALID);
    assert_int_equal(diff_write(&arena, str_from(cases[0].from), QP_STR("a: 1"), &out),
                     QP_E_INVALID);
    arena_done(&arena);
    buf_done(&out);
    for (int64_t n = 1; !done; n++) {
        int rc;
        assert_true(n < 1000);
        testenv_fail_at(&t, n);
        arena_init(&arena, &t.env, 0);
        buf_init(&out, &t.env, 0);
        rc = diff_write(&arena, str_from(cases[2].from), str_from(cases[2].to), &out);
        done = !testenv_failed(&t);
        testenv_fail_at(&t, 0);
        assert_int_equal(rc, done ? QP_OK : QP_E_NOMEM);
        buf_done(&out);
        arena_done(&arena);
    }
    testenv_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases),
                                       cmocka_unit_test(test_many_keys),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

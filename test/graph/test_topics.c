/* test_topics.c - what a topic means to a process that has not heard of its activation yet
 *
 * Where many processes share a store, each hears of what others activate by looking now and then. A job of a new version may
 * come to one that has not looked since: what it calls must be what its own version says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "graph/start.h"
#include "kernel/single.h"
#include "support/graphrun.h"

static const char text[] = "app:\n"
                           "  id: news\n"
                           "  version: '1'\n"
                           "  graphs:\n"
                           "    - subscribes: news.child\n"
                           "      activities:\n"
                           "        t1: { type: trigger }\n";

static struct graphrun run;

static void work(struct graphcall *c)
{
    (void)c;
}

/* Of a library that has never looked. */
static void expect_start(const char *topic, const char *caller, int64_t kind, const char *version)
{
    struct arena arena;
    struct library *stale = NULL;
    struct between between = {run.f.s, &arena};
    struct row_reader reader = reader_between(&between);
    struct scope scope = {.arena = &arena, .env = &run.f.t.env, .now = run.f.t.now_ms};
    struct graph_start start = {.ns = STORE_NS_DEFAULT,
                                .topic = str_from(topic),
                                .input = QP_STR("{}"),
                                .caller = caller == NULL ? QP_NONE : str_from(caller)};
    struct qp_err err = {0};
    arena_init(&arena, &run.f.t.env, 0);
    assert_int_equal(library_create(&run.f.t.env, &stale), QP_OK);
    assert_int_equal(graph_start(stale, &reader, &scope, &start, &err), QP_OK);
    assert_int_equal(start.kind, kind);
    assert_true(version == NULL ? str_is_none(start.version)
                                : str_equal(start.version, str_from(version)));
    library_destroy(stale);
    arena_done(&arena);
}

static void test_stale(void **state)
{
    (void)state;
    graphrun_init(&run, STORETEST_MEMORY, "news.work", work);
    graphrun_deploy(&run, text);
    expect_start("news.child", NULL, SINGLE_KIND, NULL);
    expect_start("news.child", "news/1", GRAPH_KIND, "news/1");
    expect_start("news.other", "news/1", SINGLE_KIND, NULL);
    graphrun_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stale)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

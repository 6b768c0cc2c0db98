/* test_topics.c - what a topic means that its application has given up
 *
 * Jobs keep the version that they began with. When a later version gives up a topic, a start of it from outside is a
 * single task from then on; but what a job of the old version calls is still what its own version says.
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

static int ask_start(void *context, struct bundle *b)
{
    struct naming *n = context;
    struct qp_err err = {0};
    return faces_start(run.faces, b, n, &err);
}

/* Of a table that was never read before. */
static void expect_start(const char *topic, const char *caller, int64_t kind, const char *version)
{
    struct naming n = {.ns = STORE_NS_DEFAULT,
                       .name = str_from(topic),
                       .input = QP_STR("{}"),
                       .caller = caller == NULL ? QP_NONE : str_from(caller),
                       .caller_kind = GRAPH_KIND};
    struct names *known = run.faces->names;
    struct commit c;
    struct bundle *b;
    assert_int_equal(names_create(&run.f.t.env, run.faces, &run.faces->names), QP_OK);
    commit_init(&c, run.f.s);
    b = commit_decided(&c, "test", ask_start, &n);
    assert_non_null(b);
    assert_int_equal(store_commit(run.f.s, &c), QP_OK);
    assert_int_equal(b->rc, QP_OK);
    assert_int_equal(n.kind, kind);
    assert_true(version == NULL ? str_is_none(n.version) : str_equal(n.version, str_from(version)));
    commit_done(&c);
    names_destroy(run.faces->names);
    run.faces->names = known;
}

/* Proves that a topic is its active version's, that a topic which was given up is a plain one, and that the caller's own
 * version knows it all the same. */
static void test_given_up(void **state)
{
    struct op give_up = {.kind = OP_topic_put,
                         .topic_put = {.ns = STORE_NS_DEFAULT,
                                       .kind = APP_TOPIC_START,
                                       .topic = QP_STR("news.child"),
                                       .app = QP_STR("news")}};
    (void)state;
    graphrun_init(&run, STORETEST_MEMORY, "news.work", work);
    graphrun_deploy(&run, text);
    expect_start("news.child", NULL, GRAPH_KIND, "news/1");
    assert_int_equal(storetest_op(&run.f, &give_up), QP_OK);
    expect_start("news.child", NULL, SINGLE_KIND, NULL);
    expect_start("news.child", "news/1", GRAPH_KIND, "news/1");
    expect_start("news.other", "news/1", SINGLE_KIND, NULL);
    graphrun_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_given_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

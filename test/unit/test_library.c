/* test_library.c - compiled applications: found by name, kept while somebody looks, given up when there are too many or
 * their row is gone */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/graphrun.h"

static struct graphrun run;

static void no_work(struct graphcall *c)
{
    (void)c;
}

static void deploy(int version, const char *title)
{
    char text[256];
    (void)snprintf(
        text, sizeof text,
        "app: {id: tiny, version: '%d', graphs: [{subscribes: tiny, activities: {t: {type: "
        "trigger, title: '%s'}}}]}",
        version, title);
    graphrun_deploy(&run, text);
}

static int pin(struct arena *arena, const char *name, const struct app **out_app)
{
    struct between between = {run.f.s, arena};
    struct row_reader reader = reader_between(&between);
    return library_pin(run.library, &reader, STORE_NS_DEFAULT, str_from(name), out_app);
}

static void test_names(void **state)
{
    struct testenv t;
    struct arena arena;
    qp_str name, app, version;
    (void)state;
    testenv_init(&t, 1);
    arena_init(&arena, &t.env, 0);
    assert_int_equal(version_name(&arena, QP_STR("shop"), QP_STR("2.1"), &name), QP_OK);
    assert_true(str_equal(name, QP_STR("shop/2.1")));
    assert_true(version_split(name, &app, &version));
    assert_true(str_equal(app, QP_STR("shop")));
    assert_true(str_equal(version, QP_STR("2.1")));
    assert_false(version_split(QP_STR("shop"), &app, &version));
    assert_false(version_split(QP_STR(""), &app, &version));
    arena_done(&arena);
    testenv_done(&t);
}

/* A topic leads to the version that is active; one that nobody has to none. */
static void test_topics(void **state)
{
    struct arena arena;
    qp_str name;
    (void)state;
    graphrun_init(&run, STORETEST_MEMORY, "do", no_work);
    arena_init(&arena, &run.f.t.env, 0);
    deploy(1, "a");
    deploy(2, "a");
    assert_int_equal(
        library_topic(run.library, &arena, STORE_NS_DEFAULT, TOPIC_GRAPH, QP_STR("tiny"), &name),
        QP_OK);
    assert_true(str_equal(name, QP_STR("tiny/2")));
    assert_int_equal(
        library_topic(run.library, &arena, STORE_NS_DEFAULT, TOPIC_HOOK, QP_STR("tiny"), &name),
        QP_OK);
    assert_true(str_is_none(name));
    assert_int_equal(library_topic(run.library, &arena, STORE_NS_DEFAULT + 1, TOPIC_GRAPH,
                                   QP_STR("tiny"), &name),
                     QP_OK);
    assert_true(str_is_none(name));
    assert_true(library_has_room(run.library, LIMIT_APP_TOPICS - 1));
    assert_false(library_has_room(run.library, LIMIT_APP_TOPICS));
    assert_false(library_has_room(run.library, SIZE_MAX));
    arena_done(&arena);
    graphrun_done(&run);
}

/* More versions than are kept: what is pinned stays, others are compiled again. */
static void test_many(void **state)
{
    struct arena arena;
    const struct app *kept = NULL;
    const struct app *again = NULL;
    (void)state;
    graphrun_init(&run, STORETEST_MEMORY, "do", no_work);
    arena_init(&arena, &run.f.t.env, 0);
    deploy(0, "a");
    assert_int_equal(pin(&arena, "tiny/0", &kept), QP_OK);
    for (int i = 1; i <= LIMIT_APPS_KNOWN + 10; i++) {
        const struct app *app = NULL;
        char name[32];
        deploy(i, "a");
        (void)snprintf(name, sizeof name, "tiny/%d", i);
        assert_int_equal(pin(&arena, name, &app), QP_OK);
        library_unpin(run.library, app);
    }
    library_tidy(run.library);
    assert_true(str_equal(kept->version, QP_STR("0")));
    assert_int_equal(pin(&arena, "tiny/0", &again), QP_OK);
    assert_ptr_equal(kept, again);
    library_unpin(run.library, again);
    library_unpin(run.library, kept);
    assert_int_equal(pin(&arena, "tiny/1", &again), QP_OK);
    assert_true(str_equal(again->version, QP_STR("1")));
    library_unpin(run.library, again);
    assert_int_equal(pin(&arena, "tiny/nope", &again), QP_E_NOT_FOUND);
    assert_int_equal(pin(&arena, "nope", &again), QP_E_NOT_FOUND);
    arena_done(&arena);
    graphrun_done(&run);
}

static void delete_version(const char *version)
{
    struct op op = {.kind = OP_app_delete,
                    .app_delete = {.ns = STORE_NS_DEFAULT,
                                   .app = QP_STR("tiny"),
                                   .version = str_from(version)}};
    assert_int_equal(storetest_op(&run.f, &op), QP_OK);
}

/* A version that was deleted is not there any more, but for whoever looks at it; one that comes again under its name is
 * what its own text says. */
static void test_deleted(void **state)
{
    struct arena arena;
    struct qp_err err = {0};
    const struct app *old = NULL;
    const struct app *app = NULL;
    (void)state;
    graphrun_init(&run, STORETEST_MEMORY, "do", no_work);
    arena_init(&arena, &run.f.t.env, 0);
    deploy(1, "first");
    assert_int_equal(pin(&arena, "tiny/1", &old), QP_OK);
    deploy(2, "other");
    delete_version("1");
    assert_int_equal(library_refresh(run.library, run.f.s, &err), QP_OK);
    assert_int_equal(pin(&arena, "tiny/1", &app), QP_E_NOT_FOUND);
    library_tidy(run.library);
    assert_true(str_equal(old->graphs[0].trigger->title, QP_STR("first")));
    testenv_advance_ms(&run.f.t, 1);
    deploy(1, "second");
    assert_int_equal(pin(&arena, "tiny/1", &app), QP_OK);
    assert_true(str_equal(app->graphs[0].trigger->title, QP_STR("second")));
    library_unpin(run.library, app);
    library_unpin(run.library, old);
    library_tidy(run.library);
    arena_done(&arena);
    graphrun_done(&run);
}

/* The n-th allocation fails: an error, what was known stays, and nothing leaks. */
static void test_memory(void **state)
{
    bool done = false;
    (void)state;
    graphrun_init(&run, STORETEST_MEMORY, "do", no_work);
    deploy(1, "a");
    for (int64_t n = 1; !done; n++) {
        struct library *l = NULL;
        struct arena arena;
        struct qp_err err = {0};
        struct between between = {run.f.s, &arena};
        struct row_reader reader = reader_between(&between);
        const struct app *app = NULL;
        qp_str name = QP_NONE;
        int rc;
        assert_true(n < 1000);
        testenv_fail_at(&run.f.t, n);
        arena_init(&arena, &run.f.t.env, 0);
        rc = library_create(&run.f.t.env, &l);
        rc = rc == QP_OK ? library_refresh(l, run.f.s, &err) : rc;
        rc = rc == QP_OK
                 ? library_topic(l, &arena, STORE_NS_DEFAULT, TOPIC_GRAPH, QP_STR("tiny"), &name)
                 : rc;
        rc = rc == QP_OK ? library_app(l, &reader, STORE_NS_DEFAULT, name, &app) : rc;
        done = !testenv_failed(&run.f.t);
        testenv_fail_at(&run.f.t, 0);
        assert_int_equal(rc, done ? QP_OK : QP_E_NOMEM);
        library_destroy(l);
        arena_done(&arena);
    }
    graphrun_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),   cmocka_unit_test(test_topics), cmocka_unit_test(test_many),
        cmocka_unit_test(test_deleted), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

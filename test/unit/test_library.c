/* test_library.c - compiled applications: found by name, kept while somebody looks, given up when there are too many or
 * their row is gone */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernel/single.h"
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

struct rooming {
    size_t topics;
    bool room;
};

static int ask_room(void *context, struct bundle *b)
{
    struct rooming *r = context;
    return names_have_room(run.faces->names, b, r->topics, &r->room);
}

static void in_commit(void *context, bundle_decide decide, int expected)
{
    struct commit c;
    struct bundle *b;
    commit_init(&c, run.f.s);
    b = commit_decided(&c, "test", decide, context);
    assert_non_null(b);
    assert_int_equal(store_commit(run.f.s, &c), QP_OK);
    assert_int_equal(b->rc, expected);
    commit_done(&c);
}

static void expect_room(size_t topics, bool expected)
{
    struct rooming r = {.topics = topics, .room = !expected};
    in_commit(&r, ask_room, QP_OK);
    assert_int_equal(r.room, expected);
}

/* A commit that leads a topic elsewhere, looks, and fails or not. */
struct leading {
    const char *version;
    bool fails;
    char before[32];
    char after[32];
};

static int name_now(struct bundle *b, char out_name[32])
{
    struct meaning meaning = {.version = QP_NONE};
    int rc = names_find(run.faces->names, b, &b->commit->arena, STORE_NS_DEFAULT, NAME_START,
                        QP_STR("tiny"), &meaning);
    (void)snprintf(out_name, 32, "%.*s", STR_ARG(meaning.version));
    return rc;
}

static int lead(void *context, struct bundle *b)
{
    struct leading *l = context;
    struct op *op;
    QP_TRY(name_now(b, l->before));
    if (l->version != NULL) {
        op = bundle_op(b, OP_topic_put);
        op->topic_put = (struct op_topic_put){.ns = STORE_NS_DEFAULT,
                                              .topic = QP_STR("tiny"),
                                              .app = QP_STR("tiny"),
                                              .version = str_from(l->version)};
        QP_TRY(bundle_run(b));
    }
    QP_TRY(name_now(b, l->after));
    return l->fails ? QP_E_ABORTED : QP_OK;
}

/* A commit sees what it has changed itself, and what it has learned is forgotten when it fails; nobody tells the library
 * what others change: it sees it in the next commit. */
static void test_in_commits(void **state)
{
    struct leading failed = {.version = "1", .fails = true};
    struct leading looked = {0};
    struct leading changed = {.version = "1"};
    struct op op = {.kind = OP_topic_put,
                    .topic_put = {.ns = STORE_NS_DEFAULT,
                                  .topic = QP_STR("tiny"),
                                  .app = QP_STR("tiny"),
                                  .version = QP_STR("2")}};
    (void)state;
    graphrun_init(&run, STORETEST_MEMORY, "do", no_work);
    deploy(1, "a");
    deploy(2, "a");
    in_commit(&failed, lead, QP_E_ABORTED);
    assert_string_equal(failed.before, "tiny/2");
    assert_string_equal(failed.after, "tiny/1");
    in_commit(&looked, lead, QP_OK);
    assert_string_equal(looked.after, "tiny/2");
    in_commit(&changed, lead, QP_OK);
    assert_string_equal(changed.after, "tiny/1");
    in_commit(&looked, lead, QP_OK);
    assert_string_equal(looked.before, "tiny/1");
    assert_int_equal(storetest_op(&run.f, &op), QP_OK);
    in_commit(&looked, lead, QP_OK);
    assert_string_equal(looked.before, "tiny/2");
    graphrun_done(&run);
}

/* A topic leads to the version that is active; one that nobody has to none. */
static void test_topics(void **state)
{
    struct arena arena;
    struct names *names;
    struct meaning m;
    (void)state;
    graphrun_init(&run, STORETEST_MEMORY, "do", no_work);
    names = run.faces->names;
    arena_init(&arena, &run.f.t.env, 0);
    deploy(1, "a");
    deploy(2, "a");
    assert_int_equal(
        names_find(names, NULL, &arena, STORE_NS_DEFAULT, NAME_START, QP_STR("tiny"), &m), QP_OK);
    assert_true(str_equal(m.version, QP_STR("tiny/2")));
    assert_int_equal(m.kind, GRAPH_KIND);
    assert_int_equal(
        names_find(names, NULL, &arena, STORE_NS_DEFAULT, NAME_HOOK, QP_STR("tiny"), &m), QP_OK);
    assert_int_equal(m.kind, MEANS_NOTHING);
    assert_int_equal(
        names_find(names, NULL, &arena, STORE_NS_DEFAULT + 1, NAME_START, QP_STR("tiny"), &m),
        QP_OK);
    assert_int_equal(m.kind, MEANS_NOTHING);
    expect_room(LIMIT_APP_TOPICS - 1, true);
    expect_room(LIMIT_APP_TOPICS, false);
    expect_room(SIZE_MAX, false);
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
    struct op collect = {.kind = OP_app_collect,
                         .app_collect = {.ns = STORE_NS_DEFAULT,
                                         .app = QP_STR("tiny"),
                                         .version = str_from(version)}};
    const struct app_row *row;
    assert_int_equal(storetest_op(&run.f, &op), QP_OK);
    row = storetest_row(&run.f, TABLE_app,
                        &(struct app_row){.ns = STORE_NS_DEFAULT,
                                          .app = QP_STR("tiny"),
                                          .version = str_from(version)});
    collect.app_collect.at = row->activated_at;
    assert_int_equal(storetest_op(&run.f, &collect), QP_OK);
}

/* A version that was collected is not there any more, but for whoever looks at it; one that comes again under its name is
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
    assert_int_equal(names_refresh(run.faces->names, run.f.s, &err), QP_OK);
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
        static const struct face *const kinds[] = {&single_face, &graph_face};
        struct face_options options = {.env = &run.f.t.env};
        struct faces *f = NULL;
        struct arena arena;
        struct qp_err err = {0};
        struct between between = {run.f.s, &arena};
        struct row_reader reader = reader_between(&between);
        const struct app *app = NULL;
        struct meaning m = {.version = QP_NONE};
        int rc;
        assert_true(n < 1000);
        testenv_fail_at(&run.f.t, n);
        arena_init(&arena, &run.f.t.env, 0);
        rc = faces_open(&options, kinds, ARRAY_COUNT(kinds), &f);
        rc = rc == QP_OK ? names_refresh(f->names, run.f.s, &err) : rc;
        rc = rc == QP_OK ? names_find(f->names, NULL, &arena, STORE_NS_DEFAULT, NAME_START,
                                      QP_STR("tiny"), &m)
                         : rc;
        rc = rc == QP_OK ? library_app(graph_library(f), &reader, STORE_NS_DEFAULT, m.version, &app)
                         : rc;
        done = !testenv_failed(&run.f.t);
        testenv_fail_at(&run.f.t, 0);
        assert_int_equal(rc, done ? QP_OK : QP_E_NOMEM);
        faces_close(f);
        arena_done(&arena);
    }
    graphrun_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),      cmocka_unit_test(test_topics),
        cmocka_unit_test(test_in_commits), cmocka_unit_test(test_many),
        cmocka_unit_test(test_deleted),    cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

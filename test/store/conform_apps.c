/* conform_apps.c - versions of applications, and the topics that lead to them */
#include "store/conform.h"

#include <stdio.h>

#define APP QP_STR("orders")
#define HASH QP_STR("hash")

static char large[LIMIT_PAYLOAD_HARD_SIZE + 1];

static struct op put(const char *app, const char *version)
{
    return (struct op){.kind = OP_app_put,
                       .app_put = {.ns = NS,
                                   .app = str_from(app),
                                   .version = str_from(version),
                                   .source = QP_STR("app:\n"),
                                   .hash = HASH}};
}

static const struct app_row *app_row(struct storetest *f, const char *version)
{
    return storetest_row(f, TABLE_app,
                         &(struct app_row){.ns = NS, .app = APP, .version = str_from(version)});
}

static const struct app_topic_row *topic_row(struct storetest *f, int64_t kind, const char *topic)
{
    return storetest_row(f, TABLE_app_topic,
                         &(struct app_topic_row){.ns = NS, .kind = kind, .topic = str_from(topic)});
}

/* Proves that a version is written once: the same again is told apart from another one of that name. */
static void test_put(void **state)
{
    struct storetest *f = *state;
    struct op other = put("orders", "1");
    DO(f, put("orders", "1"), put("orders", "2"), put("bills", "1"));
    assert_str(app_row(f, "1")->source, QP_STR("app:\n"));
    assert_str(app_row(f, "1")->hash, HASH);
    assert_int_equal(app_row(f, "1")->created_at, store_now(f->s));
    assert_int_equal(app_row(f, "1")->state, APP_DEPLOYED);
    (void)REFUSED(f, QP_E_EXISTS, put("orders", "1"));
    other.app_put.hash = QP_STR("another");
    (void)REFUSED(f, QP_E_CONFLICT, other);
    other.app_put.ns = RUN(f, space_create, .name = QP_STR("tenant")).out_ns;
    DO(f, other);
    assert_str(app_row(f, "1")->hash, HASH);
}

static size_t source_size(struct storetest *f)
{
    struct app_row key = {.ns = NS, .app = APP, .version = QP_STR("1")};
    struct arena arena;
    const void *row = NULL;
    size_t size;
    arena_init(&arena, &f->t.env, 0);
    assert_int_equal(store_get(f->s, &arena, TABLE_app, &key, &row, NULL), QP_OK);
    size = ((const struct app_row *)row)->source.n;
    arena_done(&arena);
    return size;
}

/* Proves that a text may be as large as any payload, and nothing may be without its name. */
static void test_put_refused(void **state)
{
    struct storetest *f = *state;
    struct op bad[6];
    memset(large, 'x', sizeof large);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        bad[i] = put("orders", "1");
    }
    bad[0].app_put.app = QP_STR("");
    bad[1].app_put.version = QP_NONE;
    bad[2].app_put.hash = QP_NONE;
    bad[3].app_put.app = (qp_str){large, LIMIT_NAME_SIZE + 1};
    bad[4].app_put.version = (qp_str){large, LIMIT_NAME_SIZE + 1};
    bad[5].app_put.hash = (qp_str){large, LIMIT_NAME_SIZE + 1};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        (void)REFUSED(f, QP_E_INVALID, bad[i]);
    }
    bad[0] = put("orders", "1");
    bad[0].app_put.source = (qp_str){large, LIMIT_PAYLOAD_HARD_SIZE + 1};
    (void)REFUSED(f, QP_E_TOO_LARGE, bad[0]);
    bad[0].app_put.source.n = LIMIT_PAYLOAD_SIZE + 1;
    DO(f, bad[0]);
    assert_int_equal(source_size(f), LIMIT_PAYLOAD_SIZE + 1);
}

static qp_str activate(struct storetest *f, const char *version)
{
    return RUN(f, app_activate, .ns = NS, .app = APP, .version = str_from(version)).out_was;
}

/* Proves that one version is active, and that whoever makes it so learns which one was. */
static void test_activate(void **state)
{
    struct storetest *f = *state;
    qp_ms first;
    DO(f, put("orders", "1"), put("orders", "2"), put("order", "1"), put("orders2", "1"),
       OP(app_activate, .ns = NS, .app = QP_STR("order"), .version = QP_STR("1")),
       OP(app_activate, .ns = NS, .app = QP_STR("orders2"), .version = QP_STR("1")));
    assert_true(str_is_none(activate(f, "2")));
    first = store_now(f->s);
    testenv_advance_ms(&f->t, 5);
    assert_str(activate(f, "2"), QP_STR("2"));
    assert_int_equal(app_row(f, "2")->activated_at, first);
    assert_str(activate(f, "1"), QP_STR("2"));
    assert_int_equal(app_row(f, "1")->activated_at, first + 5);
    assert_int_equal(app_row(f, "1")->state, APP_ACTIVE);
    assert_int_equal(app_row(f, "2")->state, APP_DEPLOYED);
    storetest_reopen(f);
    assert_str(activate(f, "2"), QP_STR("1"));
    (void)REFUSED(f, QP_E_NOT_FOUND,
                  OP(app_activate, .ns = NS, .app = APP, .version = QP_STR("3")));
    assert_int_equal(app_row(f, "2")->state, APP_ACTIVE);
}

/* Proves the same for what one bundle does, and that a bundle which fails leaves the version before active. */
static void test_activate_in_one_bundle(void **state)
{
    struct storetest *f = *state;
    DO(f, put("orders", "1"), OP(app_activate, .ns = NS, .app = APP, .version = QP_STR("1")),
       put("orders", "2"), OP(app_activate, .ns = NS, .app = APP, .version = QP_STR("2")));
    assert_int_equal(app_row(f, "1")->state, APP_DEPLOYED);
    assert_int_equal(app_row(f, "2")->state, APP_ACTIVE);
    (void)REFUSED(f, QP_E_EXISTS, OP(app_activate, .ns = NS, .app = APP, .version = QP_STR("1")),
                  put("orders", "2"));
    assert_int_equal(app_row(f, "2")->state, APP_ACTIVE);
}

/* Proves that a topic is of one application, which may move it between its versions and give it up. */
static void test_topics(void **state)
{
    struct storetest *f = *state;
    struct op put_1 = OP(topic_put, .ns = NS, .kind = APP_TOPIC_HOOK, .topic = QP_STR("paid"),
                         .app = APP, .version = QP_STR("1"));
    struct op other = put_1;
    DO(f, put("orders", "1"), put("orders", "2"), put("bills", "1"), put_1);
    other.topic_put.app = QP_STR("bills");
    other = conform_refused_op(f, QP_E_CONFLICT, other);
    assert_str(other.topic_put.out_app, APP);
    other.topic_put.kind = APP_TOPIC_START; /* a start of the same name is another topic */
    DO(f, other);
    put_1.topic_put.version = QP_STR("2");
    DO(f, put_1);
    assert_str(topic_row(f, APP_TOPIC_HOOK, "paid")->version, QP_STR("2"));
    assert_str(topic_row(f, APP_TOPIC_START, "paid")->app, QP_STR("bills"));
    put_1.topic_put.version = QP_STR("3");
    (void)REFUSED(f, QP_E_NOT_FOUND, put_1);
    put_1.topic_put.version = QP_NONE;
    put_1.topic_put.app = QP_STR("bills");
    DO(f, put_1); /* it is not theirs to give up */
    assert_non_null(topic_row(f, APP_TOPIC_HOOK, "paid"));
    put_1.topic_put.app = APP;
    DO(f, put_1);
    assert_null(topic_row(f, APP_TOPIC_HOOK, "paid"));
    DO(f, put_1);
}

/* Proves that a name which starts jobs is a graph's or a flow's, and that a flow's name needs no application. */
static void test_flow_names(void **state)
{
    struct storetest *f = *state;
    struct op start = OP(topic_put, .ns = NS, .kind = APP_TOPIC_START, .topic = QP_STR("paid"),
                         .app = APP, .version = QP_STR("1"));
    struct op flow = OP(topic_put, .ns = NS, .kind = APP_TOPIC_FLOW, .topic = QP_STR("paid"));
    DO(f, put("orders", "1"), start);
    flow = conform_refused_op(f, QP_E_CONFLICT, flow);
    assert_str(flow.topic_put.out_app, APP);
    flow.topic_put.topic = QP_STR("checkout");
    DO(f, flow);
    DO(f, flow);
    assert_str(topic_row(f, APP_TOPIC_FLOW, "checkout")->version, APP_FLOW_VERSION);
    start.topic_put.topic = QP_STR("checkout");
    start = conform_refused_op(f, QP_E_CONFLICT, start);
    assert_str(start.topic_put.out_app, QP_STR("checkout"));
    start.topic_put.kind = APP_TOPIC_HOOK; /* a hook of the same name is another topic */
    DO(f, start);
    flow.topic_put.topic = QP_STR("");
    (void)REFUSED(f, QP_E_INVALID, flow);
}

static void test_topics_refused(void **state)
{
    struct storetest *f = *state;
    struct op good =
        OP(topic_put, .ns = NS, .topic = QP_STR("t"), .app = APP, .version = QP_STR("1"));
    struct op bad[5] = {good, good, good, good, good};
    DO(f, put("orders", "1"));
    bad[0].topic_put.kind = APP_TOPIC_KINDS;
    bad[1].topic_put.kind = -1;
    bad[2].topic_put.topic = QP_STR("");
    bad[3].topic_put.topic = (qp_str){large, LIMIT_NAME_SIZE + 1};
    bad[4].topic_put.app = QP_NONE;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        (void)REFUSED(f, QP_E_INVALID, bad[i]);
    }
    DO(f, good);
}

/* Proves that a version goes only when it is not active and no topic leads to it, however many there are. */
static void test_delete(void **state)
{
    struct storetest *f = *state;
    static char names[LIMIT_SWEEP_ROWS + 1][16];
    static struct op topics[LIMIT_SWEEP_ROWS + 1];
    struct op delete_1 = OP(app_delete, .ns = NS, .app = APP, .version = QP_STR("1"));
    DO(f, put("orders", "1"), put("orders", "2"),
       OP(app_activate, .ns = NS, .app = APP, .version = QP_STR("1")));
    (void)REFUSED(f, QP_E_CONFLICT, delete_1);
    (void)activate(f, "2");
    for (int i = 0; i <= LIMIT_SWEEP_ROWS; i++) { /* the last one in order is of version 1 */
        (void)snprintf(names[i], sizeof names[i], "t%06d", i);
        topics[i] = OP(topic_put, .ns = NS, .topic = str_from(names[i]), .app = APP,
                       .version = i < LIMIT_SWEEP_ROWS ? QP_STR("2") : QP_STR("1"));
    }
    conform_do(f, topics, ARRAY_COUNT(topics), __FILE__, __LINE__);
    (void)REFUSED(f, QP_E_CONFLICT, delete_1);
    topics[LIMIT_SWEEP_ROWS].topic_put.version = QP_NONE;
    DO(f, topics[LIMIT_SWEEP_ROWS]);
    DO(f, delete_1);
    (void)REFUSED(f, QP_E_NOT_FOUND, delete_1);
    DO(f, put("orders", "1"));
}

/* Proves that a deleted version is hidden and not gone: it cannot be activated, no topic is led to it, another text is
 * refused; the same text brings it back, and only its own deletion's time takes the row away. */
static void test_deleted(void **state)
{
    struct storetest *f = *state;
    struct op other = put("orders", "1");
    struct op delete_1 = OP(app_delete, .ns = NS, .app = APP, .version = QP_STR("1"));
    struct op collect_1 = OP(app_collect, .ns = NS, .app = APP, .version = QP_STR("1"));
    qp_ms first;
    other.app_put.hash = QP_STR("another");
    (void)REFUSED(f, QP_E_NOT_FOUND, collect_1);
    DO(f, put("orders", "1"));
    (void)REFUSED(f, QP_E_CONFLICT, collect_1);
    DO(f, delete_1);
    first = app_row(f, "1")->activated_at;
    assert_int_equal(app_row(f, "1")->state, APP_DELETED);
    (void)REFUSED(f, QP_E_NOT_FOUND,
                  OP(app_activate, .ns = NS, .app = APP, .version = QP_STR("1")));
    (void)REFUSED(
        f, QP_E_NOT_FOUND,
        OP(topic_put, .ns = NS, .topic = QP_STR("t"), .app = APP, .version = QP_STR("1")));
    (void)REFUSED(f, QP_E_CONFLICT, other);
    DO(f, put("orders", "1"));
    assert_int_equal(app_row(f, "1")->state, APP_DEPLOYED);
    assert_int_equal(app_row(f, "1")->activated_at, 0);
    testenv_advance_ms(&f->t, 1000);
    DO(f, delete_1);
    collect_1.app_collect.at = first;
    (void)REFUSED(f, QP_E_CONFLICT, collect_1);
    collect_1.app_collect.at = app_row(f, "1")->activated_at;
    DO(f, collect_1);
    assert_null(app_row(f, "1"));
    DO(f, other);
}

struct asking {
    struct definitions before;
    struct definitions found;
    struct op op;
    bool fails;
};

static int ask(void *context, struct bundle *b)
{
    struct asking *a = context;
    int rc = bundle_definitions(b, &a->before);
    if (rc == QP_OK && a->op.kind != OP_COUNT) {
        *bundle_op(b, a->op.kind) = a->op;
        rc = bundle_run(b);
    }
    rc = rc == QP_OK ? bundle_definitions(b, &a->found) : rc;
    return rc == QP_OK && a->fails ? QP_E_ABORTED : rc;
}

/* One commit that asks, changes, and asks again, bundle by bundle. */
static void ask_all(struct storetest *f, struct asking *all, size_t count)
{
    struct commit c;
    commit_init(&c, f->s);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(commit_decided(&c, "ask", ask, &all[i]));
    }
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    commit_done(&c);
}

/* Proves that the number of definitions grows in the commit that changes what a name means, and by nothing else; that
 * an undone change has not happened; and that a commit that changed it itself is told apart. */
static void test_definitions(void **state)
{
    struct storetest *f = *state;
    const struct op none = {.kind = OP_COUNT};
    const struct op activate_1 = OP(app_activate, .ns = NS, .app = APP, .version = QP_STR("1"));
    const struct op topic =
        OP(topic_put, .ns = NS, .topic = QP_STR("t"), .app = APP, .version = QP_STR("1"));
    struct asking all[] = {{.op = put("orders", "1")}, {.op = activate_1, .fails = true},
                           {.op = activate_1},         {.op = topic},
                           {.op = activate_1},         {.op = topic}};
    struct asking later = {.op = none};
    ask_all(f, all, ARRAY_COUNT(all));
    assert_int_equal(all[0].found.number, 0);
    assert_int_equal(all[0].found.serial, 0);
    assert_int_equal(all[1].found.number, 1);
    assert_int_not_equal(all[1].found.serial, 0);
    assert_int_equal(all[2].before.number, 0);
    assert_int_equal(all[2].before.serial, 0);
    assert_int_equal(all[2].found.number, 1);
    assert_int_not_equal(all[2].found.serial, all[1].found.serial);
    assert_int_equal(all[3].found.number, 2);
    assert_int_equal(all[5].found.number, 2); /* as it was already */
    assert_int_equal(all[5].found.serial, all[3].found.serial);
    ask_all(f, &later, 1);
    assert_int_equal(later.found.number, 2);
    assert_int_equal(later.found.serial, 0);
    (void)REFUSED(f, QP_E_CONFLICT, OP(app_delete, .ns = NS, .app = APP, .version = QP_STR("1")));
    DO(f, put("orders", "2"), OP(app_delete, .ns = NS, .app = APP, .version = QP_STR("2")));
    ask_all(f, &later, 1);
    assert_int_equal(later.found.number, 3);
    storetest_reopen(f);
    ask_all(f, &later, 1);
    assert_int_equal(later.found.number, 3);
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_put),        CONFORM(test_put_refused),
    CONFORM(test_activate),   CONFORM(test_activate_in_one_bundle),
    CONFORM(test_topics),     CONFORM(test_topics_refused),
    CONFORM(test_flow_names), CONFORM(test_delete),
    CONFORM(test_deleted),    CONFORM(test_definitions),
};
CONFORM_TOPIC(apps);

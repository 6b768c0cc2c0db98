/* test_show.c - what is told as JSON: every field in its place, nothing where there is nothing */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "run/show.h"
#include "support/testenv.h"

static struct testenv t;
static struct buf text;
static struct json_writer w;

static int setup(void **state)
{
    testenv_init(&t, 1);
    buf_init(&text, &t.env, 0);
    json_writer_init(&w, &text);
    return 0;
}

static int teardown(void **state)
{
    buf_done(&text);
    testenv_done(&t);
    return 0;
}

static void expect(const char *json)
{
    assert_int_equal(json_writer_done(&w), QP_OK);
    assert_int_equal(json_check(&t.env, buf_slice(&text), NULL, NULL), QP_OK);
    buf_byte(&text, '\0');
    assert_string_equal(text.p, json);
}

/* A job of a list has little; one that is shown has all. */
static void test_job(void **state)
{
    struct qp_attribute attribute = {QP_STR("customer"), QP_STR("x\"y")};
    show_job(&w, &(struct qp_job_info){.id = QP_STR("j"),
                                       .ns = QP_STR("default"),
                                       .workflow = QP_STR("checkout"),
                                       .status = "failed",
                                       .error = QP_STR("no"),
                                       .created_at = 1769850487123,
                                       .closed_at = 1769850488000,
                                       .expire_at = 1769850489000,
                                       .seq = 4,
                                       .attributes = &attribute,
                                       .attribute_count = 1,
                                       .unserved_topic = QP_STR("pay"),
                                       .input = QP_STR("{\"n\":1.10}")});
    expect(
        "{\"id\":\"j\",\"namespace\":\"default\",\"workflow\":\"checkout\",\"status\":\"failed\","
        "\"error\":{\"code\":500,\"message\":\"no\",\"activity\":null,\"address\":null},\"started_at\":\"2026-01-31T09:08:07.123Z\","
        "\"ended_at\":\"2026-01-31T09:08:08.000Z\",\"kept_until\":\"2026-01-31T09:08:09.000Z\","
        "\"priority\":0,\"open\":0,\"seq\":4,\"attributes\":{\"customer\":\"x\\\"y\"},"
        "\"unserved\":{\"topic\":\"pay\"},\"input\":{\"n\":1.10}}");
}

/* A graph's job has its digits. An error has one shape, also where an older version has written less, or a sentence. */
static void test_graph_job(void **state)
{
    (void)state;
    show_job(&w, &(struct qp_job_info){.id = QP_STR("j"),
                                       .ns = QP_STR("default"),
                                       .workflow = QP_STR("shop.order"),
                                       .version = QP_STR("shop/2"),
                                       .status = "failed",
                                       .error = QP_STR("{\"code\":500,\"message\":\"no\"}"),
                                       .open = 2,
                                       .state = QP_STR("760000000000000"),
                                       .compositional = QP_STR("7616626"),
                                       .data = QP_STR("{\"a\":1}")});
    expect(
        "{\"id\":\"j\",\"namespace\":\"default\",\"workflow\":\"shop.order\",\"version\":"
        "\"shop/2\",\"status\":\"failed\",\"error\":{\"code\":500,\"message\":\"no\",\"activity\":"
        "null,\"address\":null},\"priority\":0,\"open\":2,\"seq\":0,\"state\":\"760000000000000\","
        "\"compositional\":\"7616626\",\"semaphore\":2,\"data\":{\"a\":1}}");
}

static void test_ended_job(void **state)
{
    (void)state;
    show_job(&w, &(struct qp_job_info){.id = QP_STR("j"),
                                       .workflow = QP_STR("shop.order"),
                                       .version = QP_STR("shop/2"),
                                       .status = "interrupted",
                                       .error = QP_STR("{enough")});
    expect("{\"id\":\"j\",\"workflow\":\"shop.order\",\"version\":\"shop/2\",\"status\":"
           "\"interrupted\",\"error\":{\"code\":500,\"message\":\"{enough\",\"activity\":null,"
           "\"address\":null},\"priority\":0,\"open\":0,\"seq\":0}");
}

/* Ledgers come as fifteen digits and in words. */
static void test_activity(void **state)
{
    show_activity(&w, &(struct qp_activity){.address = QP_STR("run,0,0"),
                                            .topic = QP_STR("pay"),
                                            .category = 'A',
                                            .ledger = 1100000000000,
                                            .state = "waiting",
                                            .task = "held",
                                            .wake_at = 1000,
                                            .progress = QP_STR("{\"p\":1}")});
    expect(
        "{\"address\":\"run,0,0\",\"topic\":\"pay\",\"category\":\"A\",\"state\":\"waiting\","
        "\"ledger\":\"001100000000000\",\"says\":\"Leg1 entered once, complete; 0 Leg2 entries\","
        "\"task\":\"held\",\"leased_until\":\"1970-01-01T00:00:01.000Z\",\"failures\":0,"
        "\"answers\":0,\"progress\":{\"p\":1}}");
}

/* What people see first: the name, how it stands, what it waits for. */
static void test_waiting_activity(void **state)
{
    (void)state;
    show_activity(&w, &(struct qp_activity){.address = QP_STR("ask,0,0"),
                                            .name = QP_STR("ask"),
                                            .mark = "waiting",
                                            .category = 'A',
                                            .state = "waiting",
                                            .task = "none",
                                            .signal = QP_STR("ok"),
                                            .key = QP_STR("k"),
                                            .until = 1000,
                                            .child = QP_STR("c"),
                                            .seq = 3});
    expect("{\"address\":\"ask,0,0\",\"name\":\"ask\",\"mark\":\"waiting\",\"category\":\"A\","
           "\"state\":\"waiting\",\"ledger\":\"000000000000000\",\"says\":\"Leg1 not entered\","
           "\"signal\":\"ok\",\"key\":\"k\",\"until\":\"1970-01-01T00:00:01.000Z\",\"child\":\"c\","
           "\"failures\":0,\"answers\":0,\"seq\":3}");
}

static void test_limit(void **state)
{
    (void)state;
    show_limit(&w, &(struct qp_limit_info){.topic = QP_STR("pay"), .key = QP_STR(""), .max = 3});
    expect("{\"topic\":\"pay\",\"max\":3,\"ready\":0,\"held\":0}");
}

static void test_event(void **state)
{
    show_event(&w, &(struct qp_event){.job = QP_STR("j"),
                                      .seq = INT64_C(9007199254740993),
                                      .at = 1000,
                                      .kind = "closed",
                                      .status = "cancelled",
                                      .detail = QP_STR("enough")});
    expect("{\"job\":\"j\",\"seq\":\"9007199254740993\",\"at\":\"1970-01-01T00:00:01.000Z\","
           "\"kind\":\"closed\",\"status\":\"cancelled\",\"detail\":\"enough\"}");
}

static void test_topic(void **state)
{
    show_topic(&w, &(struct qp_topic){.name = QP_STR("pay"), .ready = 2, .oldest_at = 400}, 1000);
    expect("{\"name\":\"pay\",\"ready\":2,\"held\":0,\"oldest_ms\":600,\"workers\":0}");
}

static void test_worker(void **state)
{
    qp_str topics[] = {QP_STR("a"), QP_STR("b")};
    show_worker(&w, &(struct work_worker){.name = QP_STR("w"),
                                          .ns = QP_STR("default"),
                                          .topics = topics,
                                          .topic_count = 2,
                                          .in_hand = 3,
                                          .seen_at = 1000});
    expect("{\"name\":\"w\",\"namespace\":\"default\",\"topics\":[\"a\",\"b\"],\"in_hand\":3,"
           "\"waiting\":0,\"seen_at\":\"1970-01-01T00:00:01.000Z\"}");
}

/* The hash of a secret is nobody's business. */
static void test_access(void **state)
{
    show_access(&w, &(struct access_token){.id = QP_STR("t"),
                                           .hash = QP_STR("CANARY"),
                                           .role = QP_STR("worker"),
                                           .created_at = 1000});
    expect("{\"id\":\"t\",\"role\":\"worker\",\"created_at\":\"1970-01-01T00:00:01.000Z\"}");
}

static void test_audit(void **state)
{
    show_audit(&w, &(struct audit_entry){.id = 7,
                                         .at = 1000,
                                         .audit = {.actor = QP_STR("t"),
                                                   .action = QP_STR("job.cancel"),
                                                   .outcome = QP_STR("ok")}});
    expect(
        "{\"id\":7,\"at\":\"1970-01-01T00:00:01.000Z\",\"actor\":\"t\",\"action\":\"job.cancel\","
        "\"outcome\":\"ok\"}");
}

static void test_task(void **state)
{
    struct work_task task = {.job = QP_STR("j"),
                             .workflow = QP_STR("checkout"),
                             .topic = QP_STR("pay"),
                             .address = QP_STR("run,0,0"),
                             .input = QP_STR("[1]"),
                             .attempt = 2,
                             .deadline = 1000,
                             .token = "w1.x",
                             .key = "abc"};
    json_begin_object(&w);
    show_task(&w, &task);
    json_end_object(&w);
    expect("{\"token\":\"w1.x\",\"kind\":\"activity\",\"job\":\"j\",\"workflow\":\"checkout\","
           "\"name\":\"pay\",\"address\":\"run,0,0\",\"attempt\":2,"
           "\"deadline\":\"1970-01-01T00:00:01.000Z\",\"idempotency_key\":\"abc\",\"input\":[1]}");
}

static void test_space(void **state)
{
    show_space(&w, &(struct qp_space){.name = QP_STR("team"), .created_at = 1000});
    expect("{\"name\":\"team\",\"created_at\":\"1970-01-01T00:00:01.000Z\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_job, setup, teardown),
        cmocka_unit_test_setup_teardown(test_graph_job, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ended_job, setup, teardown),
        cmocka_unit_test_setup_teardown(test_activity, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waiting_activity, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_event, setup, teardown),
        cmocka_unit_test_setup_teardown(test_topic, setup, teardown),
        cmocka_unit_test_setup_teardown(test_worker, setup, teardown),
        cmocka_unit_test_setup_teardown(test_access, setup, teardown),
        cmocka_unit_test_setup_teardown(test_audit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_task, setup, teardown),
        cmocka_unit_test_setup_teardown(test_space, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

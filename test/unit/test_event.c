/* test_event.c - what journal entries say survives being written, and broken details are noticed */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "store/event.h"
#include "support/testenv.h"

static struct testenv t;
static struct arena arena;

static int begin(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    arena_init(&arena, &t.env, 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_done(&arena);
    testenv_done(&t);
    return 0;
}

/* A kind and a status stand in one number, and every pair comes back; a kind alone is an entry of an older version. */
static void test_stamps(void **state)
{
    static const int64_t kinds[] = {-499, EVENT_LOST, EVENT_JOB_SET, 0, 1, 4, 100, 499};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct event_row row = {.kind = kinds[i]};
        assert_int_equal(event_kind(&row), kinds[i]);
        assert_int_equal(event_status(&row), -1);
        for (int64_t status = 0; status < STATUS_COUNT; status++) {
            row.kind = event_stamp(kinds[i], status);
            assert_int_equal(event_kind(&row), kinds[i]);
            assert_int_equal(event_status(&row), status);
        }
    }
}

/* All facts, none, and each that a kind has: as they were, with the error as one object. */
static void test_facts_come_back(void **state)
{
    struct event_facts all = {.attempt = 2,
                              .delivery = 3,
                              .worker = QP_STR("w \"1\""),
                              .topic = QP_STR("t"),
                              .key = QP_STR(""),
                              .job = QP_STR("j"),
                              .until = INT64_C(1700000000000),
                              .code = 503,
                              .error = QP_STR("no\nmore"),
                              .address = QP_STR("pay,0,1")};
    struct event_facts read;
    qp_str json;
    (void)state;
    assert_int_equal(event_write(&t.env, &arena, &all, &json), QP_OK);
    assert_true(str_equal(
        json,
        QP_STR("{\"attempt\":2,\"delivery\":3,\"worker\":\"w \\\"1\\\"\",\"topic\":\"t\",\"key\":"
               "\"\",\"job\":\"j\",\"until\":1700000000000,\"error\":{\"code\":503,\"message\":"
               "\"no\\nmore\",\"activity\":\"pay\",\"address\":\"pay,0,1\"}}")));
    assert_int_equal(event_read(&t.env, &arena, json, &read), QP_OK);
    assert_int_equal(read.attempt, 2);
    assert_int_equal(read.delivery, 3);
    assert_true(str_equal(read.worker, all.worker) && str_equal(read.topic, all.topic));
    assert_true(!str_is_none(read.key) && read.key.n == 0 && str_equal(read.job, all.job));
    assert_int_equal(read.until, all.until);
    assert_int_equal(read.code, 503);
    assert_true(
        str_equal(read.error, QP_STR("{\"code\":503,\"message\":\"no\\nmore\",\"activity\":\"pay\","
                                     "\"address\":\"pay,0,1\"}")));
    assert_int_equal(event_write(&t.env, &arena, &(struct event_facts){0}, &json), QP_OK);
    assert_true(str_equal(json, QP_STR("{}")));
    assert_int_equal(event_read(&t.env, &arena, json, &read), QP_OK);
    assert_true(str_is_none(read.worker) && str_is_none(read.error) && read.until == 0);
}

static void test_broken_details(void **state)
{
    static const char *const broken[] = {"", "{", "why", "{\"attempt\":1}}"};
    struct event_facts read;
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(broken); i++) {
        assert_int_equal(event_read(&t.env, &arena, str_from(broken[i]), &read), QP_E_CORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stamps, begin, end),
        cmocka_unit_test_setup_teardown(test_facts_come_back, begin, end),
        cmocka_unit_test_setup_teardown(test_broken_details, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

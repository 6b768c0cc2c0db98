/* test_retry.c - retry policies: how they are read, written, and what they say */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kernel/retry.h"
#include "support/testenv.h"

/* What is read; what is missing is the default. */
static void test_parse(void **state)
{
    static const struct {
        const char *text;
        struct retry retry;
    } cases[] = {
        {"",
         {.attempts = 5, .backoff_ms = 1000, .factor = 2, .cap_ms = 60000, .code = 0, .lost = 0}},
        {"attempts=3",
         {.attempts = 3, .backoff_ms = 1000, .factor = 2, .cap_ms = 60000, .code = 0, .lost = 0}},
        {"cap=10,backoff=7,factor=1.5,attempts=2",
         {.attempts = 2, .backoff_ms = 7, .factor = 1.5, .cap_ms = 10, .code = 0, .lost = 0}},
        {"attempts=1,attempts=9",
         {.attempts = 9, .backoff_ms = 1000, .factor = 2, .cap_ms = 60000, .code = 0, .lost = 0}},
        {"backoff=0,cap=0,factor=1",
         {.attempts = 5, .backoff_ms = 0, .factor = 1, .cap_ms = 0, .code = 0, .lost = 0}},
        {"lost=7,attempts=1",
         {.attempts = 1, .backoff_ms = 1000, .factor = 2, .cap_ms = 60000, .code = 0, .lost = 7}},
        {"code=500,attempts=2",
         {.attempts = 2, .backoff_ms = 1000, .factor = 2, .cap_ms = 60000, .code = 500, .lost = 0}},
        {"attempts=10,park=1,deliveries=3,never=400+404",
         {.attempts = 10,
          .backoff_ms = 1000,
          .factor = 2,
          .cap_ms = 60000,
          .park = 1,
          .deliveries = 3,
          .never = {400, 404}}},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct retry r;
        struct retry again;
        char text[RETRY_TEXT_SIZE];
        size_t size;
        assert_int_equal(retry_parse(str_from(cases[i].text), &r, NULL), QP_OK);
        assert_int_equal(r.attempts, cases[i].retry.attempts);
        assert_int_equal(r.backoff_ms, cases[i].retry.backoff_ms);
        assert_true(r.factor == cases[i].retry.factor);
        assert_int_equal(r.cap_ms, cases[i].retry.cap_ms);
        assert_int_equal(r.code, cases[i].retry.code);
        assert_true(retry_is_for(&r, 500));
        assert_true(retry_is_for(&r, 503) == (r.code == 0));
        /* and as text it is the same again */
        size = retry_format(&r, text);
        assert_int_equal(size, strlen(text));
        assert_int_equal(retry_parse(str_from(text), &again, NULL), QP_OK);
        assert_int_equal(again.attempts, r.attempts);
        assert_int_equal(again.cap_ms, r.cap_ms);
        assert_int_equal(again.code, r.code);
        assert_int_equal(again.lost, cases[i].retry.lost);
        assert_int_equal(again.park, cases[i].retry.park);
        assert_int_equal(again.deliveries, cases[i].retry.deliveries);
        assert_memory_equal(again.never, cases[i].retry.never, sizeof again.never);
        assert_true(retry_is_for(&r, 404) == (r.code == 0 && r.never[0] == 0));
    }
}

/* What is refused says why, and leaves the result alone. */
static void test_refused(void **state)
{
    static const qp_str cases[] = {
        {"attempts=0", 10},
        {"attempts=", 9},
        {"attempts=x", 10},
        {"attempts=-1", 11},
        {"backoff=-1", 10},
        {"factor=0.5", 10},
        {"factor=nan", 10},
        {"cap=1e99", 8},
        {"tries=3", 7},
        {"=3", 2},
        {"attempts", 8},
        {"attempts=3 ", 11},
        {"attempts=5\0x", 12},
        {",", 1},
        {"attempts=inf", 12},
        {"park=2", 6},
        {"deliveries=0", 12},
        {"codes=", 6},
        {"codes=404", 9},
        {"codes=404:", 10},
        {"codes=404:0", 11},
        {"codes=99:1", 10},
        {"codes=404:2+", 12},
        {"codes=400:1+401:1+402:1+403:1+404:1+405:1+406:1+407:1+408:1", 59},
        {"never=", 6},
        {"never=400+", 10},
        {"never=200", 9},
        {"never=400+400+400+400+400+400+400+400+400+400+400+400+400+400+400+400+400", 73},
        {"start=0", 7},
        {"run=1.5", 7},
        {"beat=1,run=1", 12},
        {"run=1,cap=5", 11},
        {"limit=", 6},
        {"limit=*", 7},
        {"run=", 4},
        {"run=1,", 6},
        {"beat=99999999999999999999", 25}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct retry r = {.attempts = 77};
        struct qp_err err = {0};
        if (retry_parse(cases[i], &r, &err) != QP_E_INVALID) {
            fail_msg("case %zu was accepted", i);
        }
        assert_int_equal(r.attempts, 77);
        assert_true(strlen(err.text) > 0);
    }
}

/* Several codes, each with its attempts; of a worker that was silent they say nothing. */
static void test_codes(void **state)
{
    struct retry r;
    struct retry again;
    struct retry lost;
    char text[RETRY_TEXT_SIZE];
    (void)state;
    assert_int_equal(retry_parse(QP_STR("backoff=10,codes=404:2+500:3"), &r, NULL), QP_OK);
    assert_true(retry_is_for(&r, 404) && retry_is_for(&r, 500));
    assert_false(retry_is_for(&r, 503));
    assert_int_equal(retry_after(&r, 404, 1), 10);
    assert_int_equal(retry_after(&r, 404, 2), -1);
    assert_int_equal(retry_after(&r, 500, 2), 20);
    assert_int_equal(retry_after(&r, 500, 3), -1);
    assert_int_equal(retry_after(&r, 503, 1), -1);
    assert_true(retry_format(&r, text) > 0);
    assert_non_null(strstr(text, ",codes=404:2+500:3"));
    assert_int_equal(retry_parse(str_from(text), &again, NULL), QP_OK);
    assert_memory_equal(again.codes, r.codes, sizeof r.codes);
    lost = retry_of_lost(&r, 504);
    assert_int_equal(retry_after(&lost, 504, retry_default.attempts - 1), 80);
    assert_int_equal(retry_after(&lost, 504, retry_default.attempts), -1);
    lost = retry_of_lost(&r, 500);
    assert_int_equal(retry_after(&lost, 500, 3), -1);
    assert_int_equal(
        retry_parse(QP_STR("codes=400:1+401:1+402:1+403:1+404:1+405:1+406:1+407:1"), &r, NULL),
        QP_OK);
    assert_int_equal(r.codes[LIMIT_RETRY_CODES - 1].code, 407);
}

/* The waits grow by the factor, up to the cap; after the last attempt there is none. */
static void test_delay(void **state)
{
    static const struct {
        const char *text;
        qp_ms waits[6];
    } cases[] = {
        {"attempts=5,backoff=1000,factor=2,cap=60000", {1000, 2000, 4000, 8000, -1}},
        {"attempts=6,backoff=10,factor=3,cap=100", {10, 30, 90, 100, 100, -1}},
        {"attempts=4,backoff=10,factor=1,cap=100", {10, 10, 10, -1}},
        {"attempts=3,backoff=500,factor=2,cap=100", {100, 100, -1}},
        {"attempts=1", {-1}},
        {"attempts=3,backoff=0", {0, 0, -1}},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct retry r;
        int64_t failures = 1;
        assert_int_equal(retry_parse(str_from(cases[i].text), &r, NULL), QP_OK);
        for (; cases[i].waits[failures - 1] >= 0; failures++) {
            assert_int_equal(retry_delay(&r, failures), cases[i].waits[failures - 1]);
        }
        assert_int_equal(retry_delay(&r, failures), -1);
        assert_int_equal(retry_delay(&r, failures + 100), -1);
    }
}

/* Proves that the time limits and the limit key of a policy are read, printed again as they were, and given to a task
 * without the rest. */
static void test_task_part(void **state)
{
    static const struct {
        const char *text;
        struct time_limits limits;
        const char *limits_text; /* NULL: none */
        const char *limit_key;   /* likewise */
    } cases[] = {
        {"", {{0}}, NULL, NULL},
        {"attempts=1,lost=5", {{0}}, NULL, NULL},
        {"start=5", {{0, 5}}, "start=5", NULL},
        {"attempts=2,run=60000", {{0, 0, 60000}}, "run=60000", NULL},
        {"cap=7,start=1,run=2,beat=3", {{0, 1, 2, 3}}, "start=1,run=2,beat=3", NULL},
        {"cap=7,limit=k", {{0}}, NULL, "k"},
        {"beat=3,limit=start=1,limit=x", {{0, 0, 0, 3}}, "beat=3", "start=1,limit=x"},
        {"start=1,beat=3,limit=a,b", {{0, 1, 0, 3}}, "start=1,beat=3", "a,b"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct retry r;
        struct retry again;
        char text[RETRY_TEXT_SIZE];
        qp_str limits;
        qp_str limit_key;
        retry_task(str_from(cases[i].text), &limits, &limit_key);
        assert_int_equal(str_is_none(limits), cases[i].limits_text == NULL);
        assert_int_equal(str_is_none(limit_key), cases[i].limit_key == NULL);
        assert_true(cases[i].limits_text == NULL ||
                    str_equal(limits, str_from(cases[i].limits_text)));
        assert_true(cases[i].limit_key == NULL ||
                    str_equal(limit_key, str_from(cases[i].limit_key)));
        assert_int_equal(retry_parse(str_from(cases[i].text), &r, NULL), QP_OK);
        assert_memory_equal(&r.limits, &cases[i].limits, sizeof r.limits);
        (void)retry_format(&r, text);
        assert_int_equal(retry_parse(str_from(text), &again, NULL), QP_OK);
        assert_memory_equal(&again.limits, &r.limits, sizeof r.limits);
        assert_true(str_equal(again.limit_key, r.limit_key));
    }
}

/* Who says nothing of lost leases lets them happen as often as the default does. */
static void test_lost(void **state)
{
    static const struct {
        const char *text;
        int64_t attempts;
    } cases[] = {{"", 5},
                 {"attempts=1", 1},
                 {"attempts=3", 3},
                 {"attempts=1,lost=5", 5},
                 {"attempts=2,code=500", 5},
                 {"attempts=2,code=504", 2},
                 {"attempts=2,start=5,run=6,beat=7,limit=a,b", 2}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct retry r;
        struct retry lost;
        assert_int_equal(retry_parse(str_from(cases[i].text), &r, NULL), QP_OK);
        lost = retry_of_lost(&r, 504);
        assert_int_equal(lost.attempts, cases[i].attempts);
        assert_true(retry_is_for(&lost, 504));
        assert_int_equal(lost.backoff_ms, r.backoff_ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost),    cmocka_unit_test(test_task_part),
        cmocka_unit_test(test_parse),   cmocka_unit_test(test_codes),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_delay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

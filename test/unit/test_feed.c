/* test_feed.c - journal entries survive being written as bytes, and broken bytes are noticed */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "store/feed.h"
#include "support/storetest.h"

static struct testenv t;

static const int64_t numbers[] = {0, 1, 127, 128, 16383, 16384, INT64_C(1) << 62, INT64_MAX};

static bool entry_equal(const struct feed_entry *a, const struct feed_entry *b)
{
    return a->ns == b->ns && a->job == b->job && a->seq == b->seq && str_equal(a->addr, b->addr) &&
           str_is_none(a->addr) == str_is_none(b->addr) && str_equal(a->guid, b->guid) &&
           str_is_none(a->guid) == str_is_none(b->guid);
}

/* What was written is read again, in order, for numbers of every length and texts that are none,
 * empty or long. */
static void test_entries_come_back(void **state)
{
    const qp_str texts[] = {QP_NONE, QP_STR(""), QP_STR("run,0,0"), storetest_guid(1)};
    struct buf out;
    qp_str rest;
    (void)state;
    testenv_init(&t, 1);
    buf_init(&out, &t.env, 0);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        for (size_t j = 0; j < ARRAY_COUNT(texts); j++) {
            feed_write(&out, &(struct feed_entry){.ns = numbers[i],
                                                  .job = numbers[ARRAY_COUNT(numbers) - 1 - i],
                                                  .seq = numbers[j],
                                                  .addr = texts[j],
                                                  .guid = texts[ARRAY_COUNT(texts) - 1 - j]});
        }
    }
    rest = buf_slice(&out);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        for (size_t j = 0; j < ARRAY_COUNT(texts); j++) {
            struct feed_entry got = {0};
            assert_true(feed_read(&rest, &got));
            assert_true(
                entry_equal(&got, &(struct feed_entry){.ns = numbers[i],
                                                       .job = numbers[ARRAY_COUNT(numbers) - 1 - i],
                                                       .seq = numbers[j],
                                                       .addr = texts[j],
                                                       .guid = texts[ARRAY_COUNT(texts) - 1 - j]}));
        }
    }
    assert_int_equal(rest.n, 0);
    buf_done(&out);
    testenv_done(&t);
}

/* Every way of cutting an entry short, and a number that never ends, is refused and leaves the rest
 * unread. */
static void test_broken_bytes_are_noticed(void **state)
{
    struct feed_entry got;
    struct buf out;
    qp_str endless = QP_STR("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    (void)state;
    testenv_init(&t, 1);
    buf_init(&out, &t.env, 0);
    feed_write(
        &out, &(struct feed_entry){
                  .ns = 300, .job = 5, .seq = 6, .addr = QP_STR("abc"), .guid = storetest_guid(2)});
    for (size_t n = 0; n < out.n; n++) {
        qp_str cut = {out.p, n};
        assert_false(feed_read(&cut, &got));
        assert_int_equal(cut.n, n);
    }
    assert_false(feed_read(&endless, &got));
    buf_done(&out);
    testenv_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries_come_back),
        cmocka_unit_test(test_broken_bytes_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_cache.c - rows that are kept between commits: found as they were put, bounded, and gone when
 * in doubt */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/hash.h"
#include "store/cache.h"
#include "support/testenv.h"

#define SIZE ((size_t)256 * 1024)

static struct testenv t;
static struct cache *c;
static struct buf encoded;

static int set_up(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    buf_init(&encoded, &t.env, 0);
    c = cache_create(&t.env, SIZE);
    assert_non_null(c);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cache_destroy(c);
    buf_done(&encoded);
    testenv_done(&t);
    return 0;
}

static struct cache_key key_of(enum table_id table, const void *row)
{
    buf_reset(&encoded);
    row_encode_key(&encoded, table, row);
    assert_int_equal(buf_rc(&encoded), QP_OK);
    return (struct cache_key){table, hash_bytes((uint64_t)table, encoded.p, encoded.n),
                              buf_slice(&encoded)};
}

static struct msg_row message(int64_t job, const char *topic)
{
    return (struct msg_row){
        .ns = 1, .job = job, .guid = QP_STR("0123456789abcdef"), .topic = str_from(topic)};
}

static void put(int64_t job, const char *topic)
{
    struct msg_row row = message(job, topic);
    struct cache_key key = key_of(TABLE_msg, &row);
    cache_put(c, &key, &row, false);
}

static const struct msg_row *find(int64_t job)
{
    struct msg_row row = message(job, NULL);
    struct cache_key key = key_of(TABLE_msg, &row);
    bool old;
    return cache_find(c, &key, &old);
}

static void forget(int64_t job)
{
    struct msg_row row = message(job, NULL);
    struct cache_key key = key_of(TABLE_msg, &row);
    cache_forget(c, &key);
}

static void expect(int64_t job, const char *topic)
{
    const struct msg_row *row = find(job);
    assert_int_equal(row != NULL, topic != NULL);
    assert_true(row == NULL || (row->job == job && str_equal(row->topic, str_from(topic))));
}

/* Proves that the last put is what is found, as a copy, and that a deletion takes it away. */
static void test_put_find_forget(void **state)
{
    char topic[] = "first";
    (void)state;
    expect(1, NULL);
    put(1, topic);
    topic[0] = 'x';
    expect(1, "first");
    expect(2, NULL);
    put(1, "second");
    expect(1, "second");
    forget(1);
    expect(1, NULL);
    forget(2);
    put(1, "third");
    expect(1, "third");
    cache_clear(c);
    expect(1, NULL);
}

static int count_row(void *context, enum table_id table, const void *row)
{
    (void)table;
    (void)row;
    ++*(int *)context;
    return QP_OK;
}

/* Proves the bound: what was put long ago goes, what was put lately is there, and what is found old
 * and put again stays. */
static void test_limit(void **state)
{
    int count = 0;
    (void)state;
    put(1, "kept");
    put(2, "goes");
    for (int64_t job = 10; job < 5000; job++) {
        struct msg_row row = message(1, "kept");
        struct cache_key key = key_of(TABLE_msg, &row);
        bool old = false;
        const void *found = cache_find(c, &key, &old);
        assert_non_null(found);
        if (old) {
            cache_put(c, &key, &row, false);
        }
        put(job, "topic");
        expect(job, "topic");
    }
    expect(1, "kept");
    expect(2, NULL);
    assert_int_equal(cache_each(c, &count, count_row), QP_OK);
    assert_in_range(count, 10, SIZE / sizeof(struct msg_row));
}

/* Proves that an older copy never shows through: not after a put, not after a deletion, not when the
 * newer one has become old. */
static void test_no_ghosts(void **state)
{
    (void)state;
    put(1, "before");
    for (int64_t job = 10; job < 400; job++) {
        put(job, "topic"); /* until the first one is old */
    }
    put(1, "after");
    expect(1, "after");
    forget(1);
    expect(1, NULL);
    for (int64_t job = 400; job < 5000; job++) {
        put(job, "topic");
        expect(1, NULL);
    }
}

/* Proves that what is not worth it is not kept, and that it takes what was known of it along. */
static void test_not_kept(void **state)
{
    static char large[LIMIT_CACHE_ROW_SIZE + 1];
    struct job_row job = {.ns = 1, .job = 5, .state = JOB_OPEN};
    struct act_row act = {.ns = 1, .job = 5, .addr = QP_STR("a"), .n = -1};
    struct job_name_row name = {.ns = 1, .jid = QP_STR("a"), .job = 5};
    struct cache_key key = key_of(TABLE_job, &job);
    bool old;
    (void)state;
    cache_put(c, &key, &job, false);
    assert_non_null(cache_find(c, &key, &old));
    job.state = JOB_COMPLETED;
    cache_put(c, &key, &job, false);
    assert_null(cache_find(c, &key, &old));
    key = key_of(TABLE_act, &act);
    cache_put(c, &key, &act, false);
    assert_non_null(cache_find(c, &key, &old));
    act.input = (qp_str){large, sizeof large};
    cache_put(c, &key, &act, false);
    assert_null(cache_find(c, &key, &old));
    key = key_of(TABLE_job_name, &name);
    cache_put(c, &key, &name, false);
    assert_null(cache_find(c, &key, &old));
}

static void put_job(int64_t number, bool born)
{
    struct job_row job = {.ns = 1, .job = number, .state = JOB_OPEN};
    struct cache_key key = key_of(TABLE_job, &job);
    cache_put(c, &key, &job, born);
}

static bool is_whole(int64_t number)
{
    struct job_row job = {.ns = 1, .job = number};
    struct cache_key key = key_of(TABLE_job, &job);
    return cache_is_whole(c, &key);
}

static bool has_none(int64_t job)
{
    struct msg_row row = message(job, NULL);
    struct cache_key key = key_of(TABLE_msg, &row);
    return cache_has_none(c, &key);
}

/* Proves that a job is whole when its birth was told, and as long as all that was told of it since
 * has left a trace: rows that went, rows that are not worth it, and rows told before the job. */
static void test_whole(void **state)
{
    bool was_whole = false;
    (void)state;
    cache_begin(c);
    put(1, "before the job");
    put_job(1, true);
    put_job(2, false);
    assert_true(is_whole(1));
    assert_false(is_whole(2));
    assert_false(is_whole(3));
    assert_false(has_none(1));
    assert_true(has_none(2));
    forget(1);
    forget(3);
    assert_false(has_none(1));
    assert_false(has_none(3));
    for (int64_t job = 10; job < 5000; job++) {
        cache_begin(c);
        put(job, "topic");
        put_job(1, false); /* it goes on, and stays known */
        was_whole = is_whole(1);
        assert_true(!was_whole || !has_none(1));
    }
    assert_false(was_whole); /* by now its first rows are forgotten */
    cache_begin(c);
    put_job(7, true);
    assert_true(is_whole(7));
    cache_clear(c);
    assert_false(is_whole(7));
}

/* Proves that a cache without room for a row knows none, and still takes them all. */
static void test_no_room(void **state)
{
    (void)state;
    cache_destroy(c);
    c = cache_create(&t.env, 1);
    assert_non_null(c);
    put(1, "a");
    expect(1, NULL);
    put_job(1, true);
    assert_false(is_whole(1));
    forget(1);
    cache_clear(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_put_find_forget, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_ghosts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_room, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

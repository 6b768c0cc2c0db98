/* test_omap.c - the ordered map against a sorted array */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/omap.h"
#include "support/testenv.h"

enum { MODEL_COUNT = 600, KEY_SIZE = 8, STEPS = 50000 };

static struct testenv t;

/* The model: an array in order, searched from the front. */
struct model {
    struct {
        char key[KEY_SIZE];
        size_t size;
        void *value;
    } rows[MODEL_COUNT];
    size_t count;
};

static struct model model;

static qp_str model_key(size_t i)
{
    return (qp_str){model.rows[i].key, model.rows[i].size};
}

/* Index of the first row whose key is not before `key`. */
static size_t model_seek(qp_str key)
{
    size_t i = 0;

    while (i < model.count && str_compare(model_key(i), key) < 0) {
        i++;
    }
    return i;
}

static bool model_has(size_t i, qp_str key)
{
    return i < model.count && str_equal(model_key(i), key);
}

static void *model_put(qp_str key, void *value)
{
    size_t i = model_seek(key);
    void *old = NULL;

    if (model_has(i, key)) {
        old = model.rows[i].value;
    } else {
        memmove(&model.rows[i + 1], &model.rows[i], (model.count - i) * sizeof(model.rows[0]));
        memcpy(model.rows[i].key, key.p, key.n);
        model.rows[i].size = key.n;
        model.count++;
    }
    model.rows[i].value = value;
    return old;
}

static void *model_delete(qp_str key)
{
    size_t i = model_seek(key);
    void *value;

    if (!model_has(i, key)) {
        return NULL;
    }
    value = model.rows[i].value;
    model.count--;
    memmove(&model.rows[i], &model.rows[i + 1], (model.count - i) * sizeof(model.rows[0]));
    return value;
}

/* Keys of few letters and lengths 0 to 3, with NUL and 0xFF: many meet, many are prefixes. */
static qp_str random_key(uint64_t *random, char *bytes)
{
    static const char letters[] = {'\0', 'a', 'b', 'c', 'm', 'z', '\x7F', '\xFF'};
    size_t n = (size_t)testenv_random_below(random, 4);

    for (size_t i = 0; i < n; i++) {
        bytes[i] = letters[testenv_random_below(random, sizeof(letters))];
    }
    return (qp_str){bytes, n};
}

static void assert_node(const struct omap_node *node, bool exists, size_t i)
{
    assert_int_equal(node != NULL, exists);
    if (node != NULL) {
        assert_true(str_equal(omap_key(node), model_key(i)));
        assert_ptr_equal(omap_value(node), model.rows[i].value);
    }
}

static void assert_same_answers(const struct omap *m, qp_str key)
{
    size_t i = model_seek(key);

    assert_int_equal(m->count, model.count);
    assert_ptr_equal(omap_get(m, key), model_has(i, key) ? model.rows[i].value : NULL);
    assert_node(omap_seek(m, key), i < model.count, i);
    assert_node(omap_seek_before(m, key), i > 0, i - 1);
    assert_node(omap_last(m), model.count > 0, model.count - 1);
}

static void assert_same_walk(const struct omap *m)
{
    struct omap_node *node = omap_seek(m, QP_STR(""));

    for (size_t i = 0; i < model.count; i++) {
        assert_node(node, true, i);
        node = omap_next(node);
    }
    assert_null(node);
}

/* Random puts, deletes and searches give the same answers as the array, at every step. */
static void matches_a_sorted_array(void **state)
{
    static char cells[STEPS + 1]; /* their addresses are the values */
    uint64_t random = testenv_seed();
    struct omap m;

    (void)state;
    testenv_init(&t, 1);
    omap_init(&m, &t.env);
    model.count = 0;
    assert_same_answers(&m, QP_STR("a"));
    for (size_t step = 1; step <= STEPS; step++) {
        char bytes[KEY_SIZE];
        qp_str key = random_key(&random, bytes);
        void *value = &cells[step];

        /* the mood changes, so that the map grows and shrinks */
        if (testenv_random_below(&random, 10) < (step / 5000 % 2 == 0 ? 7 : 2)) {
            void *old = value;

            assert_int_equal(omap_put(&m, key, value, &old), QP_OK);
            assert_ptr_equal(old, model_put(key, value));
        } else {
            assert_ptr_equal(omap_delete(&m, key), model_delete(key));
        }
        assert_same_answers(&m, random_key(&random, bytes));
        if (step % 1000 == 0) {
            assert_same_walk(&m);
        }
    }
    omap_done(&m);
    omap_done(&m);
    testenv_done(&t);
}

/* Equal histories give equal maps: the same number of allocations of the same sizes. */
static void equal_histories_give_equal_maps(void **state)
{
    int64_t bytes[2];

    (void)state;
    for (int round = 0; round < 2; round++) {
        struct omap m;

        testenv_init(&t, (uint64_t)round);
        omap_init(&m, &t.env);
        for (uint32_t i = 0; i < 1000; i++) {
            uint32_t key = i * 2654435761u;

            assert_int_equal(omap_put(&m, (qp_str){(char *)&key, 4}, &m, NULL), QP_OK);
        }
        bytes[round] = t.live_bytes;
        omap_done(&m);
        testenv_done(&t);
    }
    assert_int_equal(bytes[0], bytes[1]);
}

/* A put that fails for want of memory changes nothing and leaves the output alone. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    for (int64_t n = 1;; n++) {
        struct omap m;
        void *old = &m;
        int rc;

        omap_init(&m, &t.env);
        testenv_fail_at(&t, n);
        rc = omap_put(&m, QP_STR("key"), &t, &old);
        if (testenv_failed(&t)) {
            assert_int_equal(rc, QP_E_NOMEM);
            assert_ptr_equal(old, &m);
            assert_int_equal(m.count, 0);
            assert_null(omap_get(&m, QP_STR("key")));
            assert_null(omap_last(&m));
            assert_null(omap_delete(&m, QP_STR("key")));
        }
        omap_done(&m);
        if (!testenv_failed(&t)) {
            assert_int_equal(rc, QP_OK);
            assert_null(old);
            break;
        }
    }
    testenv_done(&t);
}

/* Replacing a value allocates nothing, so it works when memory is out. */
static void replacing_needs_no_memory(void **state)
{
    struct omap m;
    void *old = NULL;

    (void)state;
    testenv_init(&t, 1);
    omap_init(&m, &t.env);
    assert_int_equal(omap_put(&m, QP_STR("key"), &m, NULL), QP_OK);
    testenv_fail_from(&t, 1);
    assert_int_equal(omap_put(&m, QP_STR("key"), &t, &old), QP_OK);
    assert_ptr_equal(old, &m);
    assert_ptr_equal(omap_get(&m, QP_STR("key")), &t);
    omap_done(&m);
    testenv_done(&t);
}

/* No key and the empty key are one key: bytes alone count. */
static void none_is_the_empty_key(void **state)
{
    struct omap m;
    void *old = NULL;

    (void)state;
    testenv_init(&t, 1);
    omap_init(&m, &t.env);
    assert_int_equal(omap_put(&m, QP_NONE, &m, NULL), QP_OK);
    assert_ptr_equal(omap_get(&m, QP_STR("")), &m);
    assert_int_equal(omap_put(&m, QP_STR(""), &t, &old), QP_OK);
    assert_ptr_equal(old, &m);
    assert_int_equal(m.count, 1);
    assert_ptr_equal(omap_delete(&m, QP_NONE), &t);
    omap_done(&m);
    testenv_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_a_sorted_array),
        cmocka_unit_test(equal_histories_give_equal_maps),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(replacing_needs_no_memory),
        cmocka_unit_test(none_is_the_empty_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

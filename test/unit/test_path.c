/* test_path.c - paths of work items: their keys, their order, their limits; sets of exclusions */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "carto/exclusions.h"
#include "carto/path.h"
#include "support/testenv.h"

static struct testenv t;
static struct arena memory;

static int setup(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    arena_init(&memory, &t.env, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_done(&memory);
    testenv_done(&t);
    return 0;
}

/* Keys read as their texts, in canonical order: by level, then by ordinals as numbers. */
static void test_order(void **state)
{
    static const uint64_t ordinals[] = {0, 2, 9, 10, 11, 99, 100, 63435};
    qp_str last = QP_NONE;
    struct buf text;
    (void)state;
    buf_init(&text, &t.env, 0);
    for (uint64_t level = 0; level < 2; level++) {
        for (size_t i = 0; i < ARRAY_COUNT(ordinals); i++) {
            for (size_t j = 0; j < (level == 0 ? 1 : ARRAY_COUNT(ordinals)); j++) {
                qp_str root = QP_NONE;
                qp_str key = QP_NONE;
                assert_int_equal(path_root(&memory, ordinals[i], &root), QP_OK);
                key = root;
                if (level == 1) {
                    assert_int_equal(path_child(&memory, root, ordinals[j], &key), QP_OK);
                    assert_true(path_is_parent(root, key));
                }
                assert_true(path_is_valid(key) && path_level(key) == level);
                assert_true(str_is_none(last) || str_compare(last, key) < 0);
                last = key;
            }
        }
    }
    path_print(&text, last);
    buf_byte(&text, '\0');
    assert_string_equal(text.p, "63435.63435");
    buf_done(&text);
}

/* A path ends at the limit of levels, or where its key is too long. */
static void test_limits(void **state)
{
    static const uint64_t ordinals[] = {1, 99999};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(ordinals); i++) {
        qp_str key = QP_NONE;
        int rc = path_root(&memory, 0, &key);
        while (rc == QP_OK) {
            assert_true(key.n <= PATH_KEY_SIZE && path_level(key) <= LIMIT_CARTO_LEVELS);
            rc = path_child(&memory, key, ordinals[i], &key);
        }
        assert_int_equal(rc, QP_E_TOO_LARGE);
        assert_true(i == 1 || path_level(key) == LIMIT_CARTO_LEVELS);
    }
}

/* Bytes that are no key. */
static void test_invalid(void **state)
{
    static const char *const cases[] = {"",      "a",     "a0",   "a1a0", "a0a0a0",
                                        "b01a0", "a0b00", "x0a0", "a0ax", "a0 "};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_false(path_is_valid(str_from(cases[i])));
    }
    assert_true(path_is_valid(QP_STR("a2a0a3b12")));
}

/* Sets are canonical texts; a context dominates one with less scope or more exclusions, and only those. */
static void test_contexts(void **state)
{
    const qp_str patterns[] = {QP_STR("deb:b"), QP_STR("deb:a"), QP_STR("deb:b")};
    qp_str both = QP_NONE;
    qp_str one = QP_NONE;
    qp_str joined = QP_NONE;
    (void)state;
    assert_int_equal(exclusions_make(&memory, patterns, 3, &both), QP_OK);
    assert_int_equal(exclusions_make(&memory, patterns, 1, &one), QP_OK);
    assert_true(str_equal(both, QP_STR("deb:a\ndeb:b\n")));
    assert_int_equal(exclusions_union(&memory, one, both, &joined), QP_OK);
    assert_true(str_equal(joined, both));
    const struct carto_context wide = {CARTO_BUILD_TIME, one};
    const struct carto_context less = {CARTO_RUNTIME, one};
    const struct carto_context more = {CARTO_RUNTIME, both};
    assert_true(context_dominates(&wide, &less) && context_dominates(&wide, &more));
    assert_true(context_dominates(&less, &more) && context_dominates(&less, &less));
    assert_false(context_dominates(&less, &wide) || context_dominates(&more, &less));
    assert_false(context_dominates(&more, &wide));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_invalid, setup, teardown),
        cmocka_unit_test_setup_teardown(test_contexts, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

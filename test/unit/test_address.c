/* test_address.c - dimensional addresses, section 21 of the document */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernel/address.h"
#include "support/testenv.h"

static struct testenv t;
static struct arena a;

static int setup(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    arena_init(&a, &t.env, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_done(&a);
    testenv_done(&t);
    return 0;
}

static void assert_str(qp_str s, const char *expected)
{
    assert_int_equal(s.n, strlen(expected));
    assert_memory_equal(s.p, expected, s.n);
}

/* A name and where it is; either may be missing. */
static void test_split(void **state)
{
    static const struct {
        const char *addr;
        const char *name;
        const char *dad;
        int64_t depth;
    } cases[] = {{"pay,0,1,0", "pay", ",0,1,0", 3},
                 {"trigger,0", "trigger", ",0", 1},
                 {"pay", "pay", "", 0},
                 {",0,0", "", ",0,0", 2},
                 {"", "", "", 0}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct address at = address_split(str_from(cases[i].addr));
        qp_str whole;
        assert_str(at.name, cases[i].name);
        assert_str(at.dad, cases[i].dad);
        assert_int_equal(dad_depth(at.dad), cases[i].depth);
        assert_int_equal(address_make(&a, at.name, at.dad, &whole), QP_OK);
        assert_str(whole, cases[i].addr);
    }
}

/* 21, the table of examples: from the trigger down, and beside it after a cycle. */
static void test_21_examples(void **state)
{
    qp_str dad = QP_STR(",0");
    qp_str child;
    qp_str again;
    (void)state;
    assert_int_equal(dad_below(&a, dad, &child), QP_OK);
    assert_str(child, ",0,0"); /* first child of the trigger */
    assert_int_equal(dad_below(&a, child, &dad), QP_OK);
    assert_str(dad, ",0,0,0"); /* second-level child */
    assert_int_equal(dad_plane(&a, child, 1, &again), QP_OK);
    assert_str(again, ",0,1"); /* cycle re-entry of the child at depth 1 */
    assert_int_equal(dad_below(&a, again, &dad), QP_OK);
    assert_str(dad, ",0,1,0"); /* children of the re-entered activity */
}

/* 21, how a cycle changes the address, and 20.6: trimmed to the ancestor's depth; its row ends in 0. */
static void test_21_cycle(void **state)
{
    static const struct {
        const char *dad;
        int64_t depth;
        const char *ancestor;
    } cases[] = {{",0,0,1,0", 2, ",0,0"}, {",0,1,0,2", 3, ",0,1,0"},
                 {",0,1,0,2", 2, ",0,0"}, {",0,1,0,2", 4, ",0,1,0,0"},
                 {",0,12,0", 2, ",0,0"},  {",0,12,0", 3, ",0,12,0"},
                 {",7", 1, ",0"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        qp_str dad;
        assert_int_equal(dad_ancestor(&a, str_from(cases[i].dad), cases[i].depth, &dad), QP_OK);
        assert_str(dad, cases[i].ancestor);
    }
}

/* H14: for the ancestor itself nothing changes; from whatever plane below it, all find the same row. */
static void test_H14_idempotent(void **state)
{
    uint64_t random = testenv_seed();
    (void)state;
    for (int i = 0; i < 2000; i++) {
        qp_str row = QP_STR(",0");
        qp_str below;
        qp_str found;
        int64_t depth = 1 + (int64_t)testenv_random_below(&random, 6);
        for (int64_t d = 1; d < depth; d++) {
            assert_int_equal(dad_plane(&a, row, (int64_t)testenv_random_below(&random, 1000), &row),
                             QP_OK);
            assert_int_equal(dad_below(&a, row, &row), QP_OK);
        }
        assert_int_equal(dad_depth(row), depth);
        assert_int_equal(dad_ancestor(&a, row, depth, &found), QP_OK);
        assert_true(str_equal(found, row));
        below = row;
        for (uint64_t d = testenv_random_below(&random, 5); d > 0; d--) {
            assert_int_equal(
                dad_plane(&a, below, (int64_t)testenv_random_below(&random, 99999999), &below),
                QP_OK);
            assert_int_equal(dad_below(&a, below, &below), QP_OK);
        }
        assert_int_equal(dad_ancestor(&a, below, depth, &found), QP_OK);
        assert_true(str_equal(found, row));
        arena_reset(&a);
    }
}

/* An address has a limit, and is not cut. */
static void test_too_long(void **state)
{
    static char name[LIMIT_ADDRESS_SIZE];
    qp_str addr;
    (void)state;
    memset(name, 'a', sizeof name);
    assert_int_equal(address_make(&a, (qp_str){name, sizeof name - 2}, QP_STR(",0"), &addr), QP_OK);
    assert_int_equal(addr.n, LIMIT_ADDRESS_SIZE);
    assert_int_equal(address_make(&a, (qp_str){name, sizeof name - 1}, QP_STR(",0"), &addr),
                     QP_E_TOO_LARGE);
    name[0] = ',';
    assert_int_equal(dad_below(&a, (qp_str){name, sizeof name - 1}, &addr), QP_E_TOO_LARGE);
}

/* The gate of an address is the beginning of it; what is none is said so. Addresses of gates are in the order of their
 * numbers, each followed by all that is behind it. */
static void test_gates(void **state)
{
    static const struct {
        const char *addr;
        const char *gate;
    } cases[] = {{"#a3", "#a3"},      {"#a3a0b12", "#a3"}, {"#b10", "#b10"}, {"#b10a0", "#b10"},
                 {"#b1", NULL},       {"#b1a0", NULL},     {"#a", NULL},     {"#", NULL},
                 {"#A3", NULL},       {"#z3", NULL},       {"a3", NULL},     {"@a3", NULL},
                 {"trigger,0", NULL}, {"", NULL}};
    static const uint64_t numbers[] = {0, 1, 9, 10, 99, 100, 200, 1000000, INT64_MAX};
    qp_str last = QP_NONE;
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        qp_str gate = address_gate(str_from(cases[i].addr));
        assert_int_equal(str_is_none(gate), cases[i].gate == NULL);
        assert_true(cases[i].gate == NULL || str_equal(gate, str_from(cases[i].gate)));
    }
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        qp_str gate;
        qp_str item;
        assert_int_equal(address_of_gate(&a, numbers[i], &gate), QP_OK);
        assert_int_equal(address_make(&a, gate, QP_STR("z"), &item), QP_OK);
        assert_true(str_equal(address_gate(gate), gate));
        assert_true(str_equal(address_gate(item), gate));
        assert_true(str_is_none(last) || str_compare(last, gate) < 0);
        last = item;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_split, setup, teardown),
        cmocka_unit_test_setup_teardown(test_21_examples, setup, teardown),
        cmocka_unit_test_setup_teardown(test_21_cycle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_H14_idempotent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_long, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gates, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

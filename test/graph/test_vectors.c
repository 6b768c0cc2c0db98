/* test_vectors.c - every case on every kind of store, fused and stepwise */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cases.h"

static void run_all(bool stepwise)
{
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (size_t i = 0; i < graph_case_count; i++) {
            struct case_way way = {.kind = (enum storetest_kind)kind, .stepwise = stepwise};
            print_message("%s on %s\n", graph_cases[i].name, storetest_name(kind));
            assert_false(case_run(&graph_cases[i], &way).disturbed);
        }
    }
}

static void test_fused(void **state)
{
    (void)state;
    run_all(false);
}

static void test_stepwise(void **state)
{
    (void)state;
    run_all(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fused),
                                       cmocka_unit_test(test_stepwise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

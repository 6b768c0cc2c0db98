/* test_rules.c - the rules of fsck about flows find what is seeded for them (flow/rules_selftest.c) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "flow/rules_selftest.h"
#include "support/testenv.h"

static struct testenv t;

/* Every rule has a seed, and each seed is found by its rule alone. */
static void test_seeds(void **state)
{
    struct qp_err err = {0};
    (void)state;
    testenv_init(&t, 1);
    if (flow_rules_selftest(&t.env, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
    testenv_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_seeds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

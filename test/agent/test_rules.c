/* test_rules.c - the rules of fsck about instances of agent workflows: each finds its seeds, and nothing else does */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/rules_selftest.h"
#include "support/testenv.h"

static void test_seeds(void **state)
{
    struct testenv t;
    struct qp_err err = {0};
    (void)state;
    testenv_init(&t, 1);
    int rc = agent_rules_selftest(&t.env, &err);
    if (rc != QP_OK) {
        fail_msg("%s", err.text);
    }
    testenv_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_seeds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

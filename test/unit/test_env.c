/* test_env.c - the usual outside world, and completing one */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/env.h"

/* Init fills in everything but the log. */
static void init_is_complete(void **state)
{
    struct qp_env env;

    (void)state;
    memset(&env, 0xFF, sizeof(env));
    qp_env_init(&env);
    assert_int_equal(env.size, sizeof(env));
    assert_null(env.context);
    assert_non_null(env.resize);
    assert_non_null(env.wall_ms);
    assert_non_null(env.monotonic_us);
    assert_non_null(env.entropy);
    assert_null(env.log);
}

/* The usual allocator keeps the documented contract: size 0 frees and answers NULL. */
static void memory_keeps_its_contract(void **state)
{
    struct qp_env env;
    char *p;

    (void)state;
    qp_env_init(&env);
    p = env.resize(NULL, NULL, 4);
    assert_non_null(p);
    memcpy(p, "abc", 4);
    p = env.resize(NULL, p, 100000);
    assert_string_equal(p, "abc");
    assert_null(env.resize(NULL, p, 0));
    assert_null(env.resize(NULL, NULL, 0));
}

/* The wall clock is past the day this was written; the monotonic one does not go back. */
static void clocks_run(void **state)
{
    struct qp_env env;
    int64_t before;

    (void)state;
    qp_env_init(&env);
    assert_true(env.wall_ms(NULL) > 1735689600000);
    before = env.monotonic_us(NULL);
    for (int i = 0; i < 1000; i++) {
        int64_t now = env.monotonic_us(NULL);

        assert_true(now >= before);
        before = now;
    }
}

/* Two draws of 4096 bytes differ, and the bytes are not all the same. */
static void entropy_is_not_constant(void **state)
{
    static unsigned char a[4096];
    static unsigned char b[4096];
    struct qp_env env;

    (void)state;
    qp_env_init(&env);
    assert_int_equal(env.entropy(NULL, a, sizeof(a)), QP_OK);
    assert_int_equal(env.entropy(NULL, b, sizeof(b)), QP_OK);
    assert_memory_not_equal(a, b, sizeof(a));
    assert_int_equal(env.entropy(NULL, a, 0), QP_OK);
}

static qp_ms frozen(void *context)
{
    (void)context;
    return 42;
}

/* Completing keeps what the caller gave and fills in only what is missing. */
static void completing_keeps_the_given(void **state)
{
    struct qp_env env = {.size = sizeof(env), .wall_ms = frozen};

    (void)state;
    env_complete(&env);
    assert_int_equal(env.wall_ms(NULL), 42);
    assert_non_null(env.resize);
    assert_non_null(env.monotonic_us);
    assert_non_null(env.entropy);
    assert_null(env.log);
}

/* The linked library and the header say the same version. */
static void version_matches_the_header(void **state)
{
    (void)state;
    assert_string_equal(qp_version(), QP_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_is_complete),
        cmocka_unit_test(memory_keeps_its_contract),
        cmocka_unit_test(clocks_run),
        cmocka_unit_test(entropy_is_not_constant),
        cmocka_unit_test(completing_keeps_the_given),
        cmocka_unit_test(version_matches_the_header),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

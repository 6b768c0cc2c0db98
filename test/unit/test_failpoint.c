/* test_failpoint.c - named places where a test makes the world fail */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/failpoint.h"

enum { HITS = 6 };

/* 100 characters: more than any point may have. */
#define TEN "ten-chars-"
#define LONG_NAME TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static int start(void **state)
{
    (void)state;
    failpoint_reset();
    return 0;
}

/* At which of six hits of "a" each spec acts. */
static void actions_come_at_their_hit(void **state)
{
    static const struct {
        const char *spec;
        const char *failures; /* one letter per hit */
    } cases[] = {
        {"a=error", "x....."},    {"a=error@1", "x....."},     {"a=error@3", "..x..."},
        {"a=error@3+", "..xxxx"}, {"a=error@1+", "xxxxxx"},    {"a=error@7", "......"},
        {"a=off", "......"},      {"b=error@1+", "......"},    {"*=error@2", ".x...."},
        {"*=error@5+", "....xx"}, {"a=delay(0)@1+", "......"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char seen[HITS + 1] = {0};

        failpoint_reset();
        assert_int_equal(failpoint_set(cases[i].spec), QP_OK);
        for (size_t k = 0; k < HITS; k++) {
            int rc = FP("a");

            assert_true(rc == QP_OK || rc == QP_E_IO);
            seen[k] = rc == QP_OK ? '.' : 'x';
        }
        assert_string_equal(seen, cases[i].failures);
    }
}

/* The hit is counted from the moment the order is given. */
static void hits_count_from_the_order(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(FP("late"), QP_OK);
    }
    assert_int_equal(failpoint_set("late=error@2"), QP_OK);
    assert_int_equal(FP("late"), QP_OK);
    assert_int_equal(FP("late"), QP_E_IO);
    assert_int_equal(FP("late"), QP_OK);
}

/* What cannot be read is refused and changes nothing. */
static void bad_specs_are_refused(void **state)
{
    static const char *const specs[] = {
        "",
        "a",
        "=error",
        "a=",
        "a=fly",
        "a=error@",
        "a=error@0",
        "a=error@x",
        "a=error@1x",
        "a=error@1++",
        "a=error@-1",
        "a=delay",
        "a=delay(",
        "a=delay()",
        "a=delay(1",
        "a=delay(99999999)",
        "a=errors",
        "a=kill@3 ",
        "a=error@99999999999999999999999",
        LONG_NAME "=error",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(specs); i++) {
        assert_int_equal(failpoint_set(specs[i]), QP_E_INVALID);
    }
    assert_int_equal(FP("a"), QP_OK);
}

/* Hits are counted per name and in all; NULL clears orders but no counts; reset clears both. */
static void hits_are_counted(void **state)
{
    (void)state;
    assert_int_equal(failpoint_set("one=error@1+"), QP_OK);
    assert_int_equal(FP("one"), QP_E_IO);
    assert_int_equal(failpoint_set(NULL), QP_OK);
    assert_int_equal(FP("one"), QP_OK);
    assert_int_equal(FP("two"), QP_OK);
    assert_int_equal(failpoint_hits("one"), 2);
    assert_int_equal(failpoint_hits("two"), 1);
    assert_int_equal(failpoint_hits("never"), 0);
    assert_int_equal(failpoint_hits("*"), 3);
    failpoint_reset();
    assert_int_equal(failpoint_hits("one"), 0);
    assert_int_equal(failpoint_hits("*"), 0);
}

static void add_up(void *context, const char *name, int64_t hits)
{
    int64_t *sum = context;

    assert_true(strncmp(name, "each-", 5) == 0);
    *sum += hits;
}

/* Walking visits every name that was hit, once, and no other. */
static void walking_visits_what_was_hit(void **state)
{
    char name[32];
    int64_t sum = 0;

    (void)state;
    assert_int_equal(failpoint_set("only-set=error"), QP_OK);
    for (int i = 0; i < 200; i++) {
        (void)snprintf(name, sizeof(name), "each-%d", i % 100);
        assert_int_equal(failpoint_hit(name), QP_OK);
    }
    failpoint_each(add_up, &sum);
    assert_int_equal(sum, 200);
    assert_int_equal(failpoint_hits("each-7"), 2);
}

/* A delay delays. */
static void delay_waits(void **state)
{
    struct qp_env env;
    int64_t before;

    (void)state;
    qp_env_init(&env);
    before = env.monotonic_us(NULL);
    assert_int_equal(failpoint_set("slow=delay(5)"), QP_OK);
    assert_int_equal(FP("slow"), QP_OK);
    assert_true(env.monotonic_us(NULL) - before >= 5000);
}

static int run_child(const char *spec)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        failpoint_reset();
        (void)failpoint_set(spec);
        for (int i = 0; i < 10; i++) {
            (void)FP("x"); /* only the kill is looked for */
            (void)FP("y");
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* kill is SIGKILL to the process, at the n-th hit of one point or of any. */
static void kill_kills(void **state)
{
    (void)state;
    assert_int_equal(WTERMSIG(run_child("x=kill")), SIGKILL);
    assert_int_equal(WTERMSIG(run_child("*=kill@17")), SIGKILL);
    assert_int_equal(WTERMSIG(run_child("*=kill@20")), SIGKILL);
    assert_int_equal(run_child("*=kill@21"), 0);
    assert_int_equal(run_child("z=kill"), 0);
}

static void *hit_many(void *context)
{
    int64_t *errors = context;

    for (int i = 0; i < 10000; i++) {
        *errors += FP("thread-a") != QP_OK;
        *errors += FP("thread-b") != QP_OK;
    }
    return NULL;
}

/* Threads lose no count, and an order to act once acts once. */
static void threads_lose_nothing(void **state)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    int64_t errors[THREADS] = {0};
    int64_t sum = 0;

    (void)state;
    assert_int_equal(failpoint_set("*=error@5000"), QP_OK);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, hit_many, &errors[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        sum += errors[i];
    }
    assert_int_equal(sum, 1);
    assert_int_equal(failpoint_hits("*"), 2 * THREADS * 10000);
    assert_int_equal(failpoint_hits("thread-a"), THREADS * 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(actions_come_at_their_hit, start),
        cmocka_unit_test_setup(hits_count_from_the_order, start),
        cmocka_unit_test_setup(bad_specs_are_refused, start),
        cmocka_unit_test_setup(hits_are_counted, start),
        cmocka_unit_test_setup(walking_visits_what_was_hit, start),
        cmocka_unit_test_setup(delay_waits, start),
        cmocka_unit_test_setup(kill_kills, start),
        cmocka_unit_test_setup(threads_lose_nothing, start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

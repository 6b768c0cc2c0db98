/* test_pg_unknown.c - an engine that shares its store goes on when nobody knows how a commit ended (H17)
 *
 * A job is run on PostgreSQL, and the answer to its n-th commit is lost, for each n. Whoever asked in that
 * commit is told that the outcome is unknown, and asks again with the same id or lets the task come again;
 * the engine enters a new run, which gives back what the commit may have claimed, and the job completes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "support/enginetest.h"

#define COMMITS_MAX 60
#define ROUNDS_MAX 200

static const struct actor story[] = {
    {.name = "trigger", .category = 'D', .next = "s w"},
    {.name = "s", .category = 'A', .deed = DEED_SLEEP, .ms = 10, .next = "v"},
    {.name = "w", .category = 'A', .deed = DEED_TASK, .topic = "t", .next = "p"},
    {.name = "p", .category = 'B'},
    {.name = "v", .category = 'A', .deed = DEED_TASK, .topic = "t"},
    {0}};

static struct enginetest x;
static int answer; /* to the last command */
static bool is_answered;

static void on_answer(struct engine *e, struct command *c, int rc, const char *why)
{
    (void)e;
    (void)c;
    (void)why;
    answer = rc;
    is_answered = true;
}

/* Rounds until there is nothing to do. That one fails is no reason to stop; that the engine gives up is. */
static void go_on(void)
{
    bool busy = true;
    for (int i = 0; busy; i++) {
        struct qp_err err = {0};
        int rc = engine_round(x.e, &busy, &err);
        if (rc != QP_OK && qp_code_class(rc) != QP_CLASS_RETRY) {
            fail_msg("the engine gave up: %s", err.text);
        }
        busy = busy || rc != QP_OK;
        assert_true(i < ROUNDS_MAX);
    }
}

static int ask(struct command *c)
{
    c->answer = on_answer;
    is_answered = false;
    engine_submit(x.e, c);
    go_on();
    assert_true(is_answered);
    return answer;
}

static void start(void)
{
    int rc;
    do {
        struct request_start r;
        enginetest_fill_start(&x, &r, "a", "{}");
        rc = ask(&r.command);
        x.job = r.job.job;
    } while (rc == QP_E_UNKNOWN_OUTCOME);
    assert_true(rc == QP_OK || rc == QP_E_EXISTS);
}

static void work(void)
{
    while (x.tasks != NULL) {
        struct request_result r = {
            .task = x.tasks, .kind = RESULT_DONE, .code = 200, .output = QP_STR("\"ok\"")};
        int rc;
        request_result(&r);
        rc = ask(&r.command);
        assert_true(rc == QP_OK || rc == QP_E_UNKNOWN_OUTCOME || rc == QP_E_STALE);
        enginetest_forget(&x, x.tasks);
    }
}

/* True when there was an n-th commit. */
static bool lose_answer(int n)
{
    char spec[64];
    bool struck;
    enginetest_init(&x, STORETEST_POSTGRES, story);
    x.options.lease_ms = 3000;
    enginetest_open(&x);
    (void)snprintf(spec, sizeof spec, "commit.after=error@%d", n);
    failpoint_reset();
    assert_int_equal(failpoint_set(spec), QP_OK);
    start();
    for (int i = 0; x.ended == 0 && i < 20; i++) {
        work();
        testenv_advance_ms(&x.f.t, 500);
        go_on();
    }
    struck = failpoint_hits("commit.after") >= n;
    assert_int_equal(failpoint_set(NULL), QP_OK);
    assert_int_equal(enginetest_job(&x, x.job)->completions, 1);
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
    enginetest_done(&x);
    return struck;
}

static void test_every_commit(void **state)
{
    int n = 1;
    (void)state;
    while (lose_answer(n)) {
        assert_true(++n < COMMITS_MAX);
    }
    print_message("%d commits\n", n - 1);
    assert_true(n > 4); /* the story has some */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_commit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

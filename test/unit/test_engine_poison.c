/* test_engine_poison.c - what kills the process is found out, and everything else goes on
 *
 * A child process runs an engine on a file. One activity of one job kills it, with SIGKILL, every
 * time: in a step of the program, in the work of Leg1, in a worker. The test starts the process again as
 * often as it dies. After max_deliveries deaths the message is a dead letter and its job is parked, unless it
 * is closed already; the other jobs are done, a check finds nothing; and when the program is repaired, an
 * unpark lets it complete.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/enginetest.h"

#define OTHERS 50
#define DELIVERIES 3

static const struct actor story[] = {
    {.name = "trigger", .category = 'D', .next = "s"},
    {.name = "s", .category = 'A', .deed = DEED_SLEEP, .ms = 100, .next = "w"},
    {.name = "w", .category = 'A', .deed = DEED_TASK, .topic = "t", .next = "p"},
    {.name = "p", .category = 'B'},
    {0}};

/* Where the poisoned job kills. */
struct poison {
    const char *what;
    const char *actor;
    const char *function; /* NULL: the worker of its task does */
    const char *digits;   /* of the actor, when it is parked: what was done is marked */
    int more; /* deaths before it is a message of its own: a response dies once with its task, which then comes again; a last
               * activity also with the answer that has it fused */
};

/* A turn's steps are retried one by one with their entry mark first, so the digits say where it died. */
static const struct poison poisons[] = {
    {"step 1 of an answer", "s", "work", "001100000000001 000000000000001", 0},
    {"step 2 of an answer", "s", "spawn", "001100000000001 000010000000001", 0},
    {"step 1 of a response", "w", "work", "001100000000001 000000000000001", 1},
    {"a worker", "w", NULL, "001100000000000", 0},
    {"step 3 of the end", "p", "complete", "001100000000000 000111000000000", 2},
};

static struct enginetest x;
static const struct poison *poison; /* NULL: the program was repaired */

static void die(void)
{
    (void)kill(getpid(), SIGKILL);
    for (;;) {
        (void)pause();
    }
}

static int kills(void *context, struct turn *t, const char *function)
{
    (void)context;
    if (poison != NULL && poison->function != NULL && strcmp(function, poison->function) == 0 &&
        str_equal(t->at.name, str_from(poison->actor)) &&
        str_equal(t->job->jid, QP_STR("poisoned"))) {
        die();
    }
    return QP_OK;
}

/* ---------------------------------------------------------------------------------- in the child */

static void child_open(int run)
{
    testenv_init(&x.f.t, 1);
    testenv_advance_ms(&x.f.t, run * 10000);
    storetest_reopen(&x.f);
    x.options.max_deliveries = DELIVERIES;
    x.cast.trouble = kills;
    enginetest_open(&x);
}

/* Only the first process finds no jobs. */
static void child_start(void)
{
    static char names[OTHERS + 1][16];
    static struct request_start requests[OTHERS + 1];
    for (int i = 0; i <= OTHERS; i++) {
        (void)snprintf(names[i], sizeof names[i], i == OTHERS / 2 ? "poisoned" : "job%d", i);
        enginetest_fill_start(&x, &requests[i], names[i], "{}");
        requests[i].command.answer = enginetest_answered;
        engine_submit(x.e, &requests[i].command);
    }
    enginetest_settle(&x);
}

static void child_work(void)
{
    enginetest_settle(&x);
    while (x.tasks != NULL) {
        /* it kills as soon as it is there, so that the others are in hand with it */
        if (poison != NULL && poison->function == NULL &&
            enginetest_task(&x, "poisoned", NULL) != NULL) {
            die();
        }
        if (enginetest_result(&x, x.tasks, RESULT_DONE, "ok") != QP_OK) {
            _exit(3);
        }
        enginetest_forget(&x, x.tasks);
        enginetest_settle(&x);
    }
}

static void child(int run, bool unpark)
{
    struct request_unpark r = {.ns = STORE_NS_DEFAULT, .jid = QP_STR("poisoned")};
    child_open(run);
    if (run == 0) {
        child_start();
    }
    if (unpark) {
        request_unpark(&r);
        if (enginetest_ask(&x, &r.command) != QP_OK) {
            _exit(4);
        }
    }
    for (int i = 0; i < 5; i++) {
        testenv_advance_ms(&x.f.t, 500);
        child_work();
    }
    engine_abandon(x.e);
    _exit(0);
}

/* True: it ended by itself; false: it was killed. */
static bool run_child(int run, bool unpark)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        child(run, unpark);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return false;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return true;
}

/* ------------------------------------------------------------------------------------- in the test */

struct found {
    int64_t completed;
    int64_t poisoned;
};

static int visit_job(void *context, const void *row)
{
    const struct job_row *job = row;
    struct found *f = context;
    if (str_equal(job->jid, QP_STR("poisoned"))) {
        f->poisoned = job->job;
    } else {
        f->completed += job->state == JOB_COMPLETED && job->completions == 1;
    }
    return QP_OK;
}

/* The file, opened by the test for a look. */
static struct found look(void)
{
    struct scan all = {.table = TABLE_job, .index = -1, .limit = SIZE_MAX};
    struct found f = {0};
    struct qp_err err;
    storetest_reopen(&x.f);
    assert_int_equal(store_scan(x.f.s, &all, &f, visit_job, &err), QP_OK);
    x.job = f.poisoned;
    enginetest_check(&x);
    return f;
}

static void leave(void)
{
    struct qp_err err;
    assert_int_equal(store_close(x.f.s, &err), QP_OK);
    x.f.s = NULL;
}

/* A job that is closed keeps its end, and has not completed. */
static void assert_parked(const struct poison *p)
{
    char addr[16];
    bool closed = p->actor[0] == 'p';
    (void)snprintf(addr, sizeof addr, "%s,0,0%s", p->actor,
                   p->actor[0] == 'w' ? ",0"
                   : closed           ? ",0,0"
                                      : "");
    assert_int_equal(look().completed, OTHERS);
    assert_int_equal(enginetest_message(&x, x.job)->state, MSG_DEAD);
    assert_int_equal(enginetest_job(&x, x.job)->status, closed ? STATUS_COMPLETED : STATUS_PARKED);
    assert_int_equal(enginetest_job(&x, x.job)->completions, 0);
    assert_string_equal(enginetest_digits(&x, addr), p->digits);
    leave();
}

static void suffer(const struct poison *p)
{
    int deaths = 0;
    int run = 0;
    enginetest_init(&x, STORETEST_SQLITE, story);
    leave();
    poison = p;
    for (; !run_child(run, false); run++) {
        deaths++;
        assert_true(deaths < 20);
    }
    assert_int_equal(deaths, DELIVERIES + p->more);
    assert_parked(p);
    poison = NULL;
    assert_true(run_child(++run, true));
    assert_int_equal(look().completed, OTHERS);
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
    assert_int_equal(enginetest_job(&x, x.job)->completions, 1);
    assert_null(enginetest_job(&x, x.job)->parked.p);
    storetest_done(&x.f);
}

static void test_poison(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(poisons); i++) {
        suffer(&poisons[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_poison)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

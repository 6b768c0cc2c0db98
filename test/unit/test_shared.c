/* test_shared.c - the public handle on a database that several processes share
 *
 *   one process        starts, works, reads; rows of the host commit with the engine's or not at all
 *   another one        does what the first has started, and the first hears of it
 *   one that dies      what it held is taken up by another when its lease is over
 *   several            each job has one effect, whoever did it
 *   clocks             the server's decides; a host whose own is wrong neither hurries nor spins
 *   checking           qp_check takes the URL
 */
#include <postgresql/libpq-fe.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/pgserver.h"
#include "support/runtest.h"

#define LEASE_MS 1000
#define PROCESSES 3
#define JOBS_EACH 20

static void begin(void)
{
    rt_begin(RT_REAL);
    (void)snprintf(rt_path, sizeof rt_path, "%s", pgserver_shared());
}

/* On any thread or process. */
static qp *open_shared(const struct qp_env *env)
{
    struct qp_options options;
    struct qp_err err = {0};
    qp *q = NULL;
    int rc;
    qp_options_init(&options);
    options.path = rt_path;
    options.env = env;
    options.lease_ms = LEASE_MS;
    rc = qp_open(&options, &q, &err);
    if (rc != QP_OK) {
        (void)fprintf(stderr, "open: %s\n", err.text);
    }
    QP_ASSERT(rc == QP_OK);
    return q;
}

/* --------------------------------------------------------------------------------- the host's rows */

static int exec_sql(void *context, void *native)
{
    PGresult *r = PQexec(native, context);
    ExecStatusType status = PQresultStatus(r);
    PQclear(r);
    return status == PGRES_COMMAND_OK ? QP_OK : QP_E_IO;
}

static void exec_host(qp *q, const char *sql)
{
    struct qp_err err = {0};
    if (qp_exec(q, exec_sql, (void *)(uintptr_t)sql, &err) != QP_OK) {
        fail_msg("%s: %s", sql, err.text);
    }
}

static int64_t query(const char *sql)
{
    PGconn *c = PQconnectdb(rt_path);
    PGresult *r = PQexec(c, sql);
    int64_t number = -1;
    if (PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) == 1) {
        number = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    }
    PQclear(r);
    PQfinish(c);
    return number;
}

/* ------------------------------------------------------------------------------------- one process */

static int pay(void *context, qp_task *task)
{
    (void)context;
    qp_task_tx(task, exec_sql, (void *)(uintptr_t) "INSERT INTO paid VALUES(1)");
    return qp_task_output(task, QP_STR("\"paid\""));
}

static int pay_nobody(void *context, qp_task *task)
{
    (void)context;
    qp_task_tx(task, exec_sql, (void *)(uintptr_t) "INSERT INTO nowhere VALUES(1)");
    return qp_task_output(task, QP_STR("\"paid\""));
}

static void start_of(qp *q, const char *topic, const char *id)
{
    rt_start_with(q, &(struct qp_start){.topic = str_from(topic),
                                        .id = str_from(id),
                                        .input = QP_STR("{}"),
                                        .retry.attempts = 1});
}

static void test_one_process(void **state)
{
    struct qp_err err = {0};
    qp *q;
    (void)state;
    begin();
    q = open_shared(&rt.env);
    exec_host(q, "CREATE TABLE paid(n int)");
    rt_worker(q, "pay", pay, NULL);
    rt_worker(q, "bad", pay_nobody, NULL);
    start_of(q, "pay", "a");
    start_of(q, "bad", "b");
    start_of(q, "nobody", "c");
    rt_poll(q);
    rt_expect(q, "a", "completed", "\"paid\"");
    rt_expect(q, "b", "failed", NULL);
    rt_expect(q, "c", "running", NULL);
    assert_int_equal(query("SELECT count(*) FROM paid"), 1);
    assert_int_equal(qp_job_cancel(q, QP_STR("c"), "enough", &err), QP_OK);
    rt_close(q);
    q = open_shared(&rt.env);
    rt_expect(q, "a", "completed", "\"paid\"");
    rt_expect(q, "c", "cancelled", NULL);
    rt_close(q);
    rt_check(rt_path, 3);
    rt_end();
}

/* A database without a store is not made by a check. */
static void test_check_makes_nothing(void **state)
{
    struct qp_check_options options;
    struct qp_check_result result;
    struct qp_err err = {0};
    (void)state;
    begin();
    qp_check_options_init(&options);
    options.path = rt_path;
    assert_int_equal(qp_check(&options, NULL, NULL, &result, &err), QP_E_NOT_FOUND);
    assert_int_equal(query("SELECT count(*) FROM pg_namespace WHERE nspname='quipu'"), 0);
    rt_end();
}

static void test_lease_option(void **state)
{
    static const qp_ms wrong[] = {-1, 1, 999, 86400001};
    struct qp_options options;
    struct qp_err err = {0};
    qp *q = NULL;
    (void)state;
    rt_begin(RT_VIRTUAL);
    qp_options_init(&options);
    options.env = &rt.env;
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        options.lease_ms = wrong[i];
        assert_int_equal(qp_open(&options, &q, &err), QP_E_INVALID);
        assert_null(q);
    }
    rt_end();
}

/* ------------------------------------------------------------------------------------- another one */

static struct rt_count seen = RT_COUNT_INIT; /* attempts, summed up */

static int work(void *context, qp_task *task)
{
    (void)context;
    rt_add(&seen, qp_task_attempt(task));
    return qp_task_output(task, QP_STR("\"done\""));
}

/* Handles share nothing but the database, so two of them are as good as two processes. */
static void test_started_here_done_there(void **state)
{
    struct qp_err err = {0};
    struct qp_job job;
    qp *here;
    qp *there;
    (void)state;
    begin();
    here = open_shared(&rt.env);
    there = open_shared(&rt.env);
    rt_worker(there, "work", work, NULL);
    assert_int_equal(qp_start_threads(there, 1, &err), QP_OK);
    rt_start(here, "a");
    rt_wait(here, "a", "completed");
    start_of(here, "nobody", "b");
    assert_int_equal(qp_job_wait(here, QP_STR("b"), 450, &job, &err), QP_E_TIMEOUT);
    rt_close(there);
    rt_close(here);
    rt_check(rt_path, 2);
    rt_end();
}

/* ----------------------------------------------------------------------------------- one that dies */

static int told[2]; /* a pipe */

static int hold(void *context, qp_task *task)
{
    (void)context;
    (void)task;
    QP_ASSERT(write(told[1], "", 1) == 1);
    for (;;) {
        (void)pause();
    }
}

static _Noreturn void holder_main(void)
{
    struct qp_err err;
    qp *q = open_shared(NULL);
    QP_ASSERT(qp_worker_add(q, &(struct qp_worker){.topic = QP_STR("work"), .work = hold}, &err) ==
              QP_OK);
    QP_ASSERT(qp_job_start(q,
                           &(struct qp_start){
                               .topic = QP_STR("work"), .id = QP_STR("a"), .input = QP_STR("{}")},
                           NULL, &err) == QP_OK);
    QP_ASSERT(qp_run(q, &err) == QP_OK);
    _exit(1);
}

static pid_t fork_child(void (*body)(void))
{
    pid_t child;
    (void)fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body();
    }
    return child;
}

static void test_taken_over(void **state)
{
    char byte;
    int status = 0;
    struct qp_err err = {0};
    pid_t child;
    qp *q;
    (void)state;
    begin();
    seen.value = 0;
    assert_int_equal(pipe(told), 0);
    child = fork_child(holder_main);
    assert_int_equal(read(told[0], &byte, 1), 1);
    q = open_shared(&rt.env);
    rt_worker(q, "work", work, NULL);
    assert_int_equal(qp_start_threads(q, 1, &err), QP_OK);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    rt_wait(q, "a", "completed");
    assert_int_equal(rt_value(&seen), 2); /* the second delivery, and no other */
    rt_close(q);
    assert_int_equal(query("SELECT count(*) FROM quipu.node"), 0);
    rt_check(rt_path, 1);
    (void)close(told[0]); /* nothing more is said */
    (void)close(told[1]);
    rt_end();
}

/* ----------------------------------------------------------------------------------------- several */

static int number; /* of this process */

/* The text lives as long as the process: the commit comes after the function. */
static int leave_effect(void *context, qp_task *task)
{
    char *sql = malloc(200);
    qp_str id = qp_task_job(task);
    (void)context;
    QP_ASSERT(sql != NULL);
    (void)snprintf(sql, 200, "INSERT INTO effect VALUES('%.*s',%d)", STR_ARG(id), number);
    qp_task_tx(task, exec_sql, sql);
    return QP_OK;
}

static _Noreturn void member_main(void)
{
    struct qp_err err = {0};
    qp *q = open_shared(NULL);
    char id[32];
    QP_ASSERT(qp_worker_add(
                  q,
                  &(struct qp_worker){.topic = QP_STR("work"), .work = leave_effect, .in_hand = 4},
                  &err) == QP_OK);
    QP_ASSERT(qp_start_threads(q, 1, &err) == QP_OK);
    for (int i = 0; i < JOBS_EACH; i++) {
        struct qp_start start = {.topic = QP_STR("work"), .input = QP_STR("{}")};
        (void)snprintf(id, sizeof id, "job-%d", i); /* the same job, whoever starts it first */
        start.id = str_from(id);
        int rc = qp_job_start(q, &start, NULL, &err);
        QP_ASSERT(rc == QP_OK);
    }
    for (int i = 0; i < JOBS_EACH; i++) {
        struct qp_job job;
        (void)snprintf(id, sizeof id, "job-%d", i);
        QP_ASSERT(qp_job_wait(q, str_from(id), 60000, &job, &err) == QP_OK);
        QP_ASSERT(strcmp(job.status, "completed") == 0);
        qp_job_done(q, &job);
    }
    _exit(qp_close(q, &err) == QP_OK ? 0 : 1);
}

static void test_several(void **state)
{
    pid_t children[PROCESSES];
    qp *q;
    (void)state;
    begin();
    q = open_shared(&rt.env);
    exec_host(q, "CREATE TABLE effect(job text, process int)");
    rt_close(q);
    for (number = 0; number < PROCESSES; number++) {
        children[number] = fork_child(member_main);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(query("SELECT count(*) FROM effect"), JOBS_EACH);
    assert_int_equal(query("SELECT count(DISTINCT job) FROM effect"), JOBS_EACH);
    assert_int_equal(query("SELECT count(*) FROM quipu.node"), 0);
    rt_check(rt_path, JOBS_EACH);
    rt_end();
}

/* ------------------------------------------------------------------------------------------ clocks */

static int64_t wrong_by_ms;

static qp_ms wrong_wall_ms(void *context)
{
    struct qp_env env;
    (void)context;
    qp_env_init(&env);
    return env.wall_ms(env.context) + wrong_by_ms;
}

static void test_wrong_clock(void **state)
{
    static const int64_t hours[] = {-1, 1};
    struct qp_err err = {0};
    (void)state;
    begin();
    rt.env.wall_ms = wrong_wall_ms;
    for (size_t i = 0; i < ARRAY_COUNT(hours); i++) {
        char id[16];
        int64_t ms;
        qp *q;
        wrong_by_ms = hours[i] * 3600000;
        (void)snprintf(id, sizeof id, "job%zu", i);
        q = open_shared(&rt.env);
        rt_worker(q, "work", work, NULL);
        rt_start(q, id);
        rt_wait(q, id, "completed");
        for (int turn = 0; turn < 20; turn++) { /* rt_poll would never end if it spun */
            assert_int_equal(qp_poll(q, &err), QP_OK);
        }
        ms = qp_next_deadline(q);
        assert_in_range(ms, 1, LEASE_MS); /* neither at once nor in an hour */
        rt_close(q);
    }
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_process),  cmocka_unit_test(test_check_makes_nothing),
        cmocka_unit_test(test_lease_option), cmocka_unit_test(test_started_here_done_there),
        cmocka_unit_test(test_taken_over),   cmocka_unit_test(test_several),
        cmocka_unit_test(test_wrong_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

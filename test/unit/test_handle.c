/* test_handle.c - the public handle: start, claim, complete, read, over restarts, bad input and
 * want of memory */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/testenv.h"

static struct testenv t;
static char dir[256];
static char path[300];

static int set_up(void **state)
{
    const char *tmp = getenv("TMPDIR");
    (void)state;
    testenv_init(&t, 1);
    (void)snprintf(dir, sizeof dir, "%s/handle.XXXXXX", tmp != NULL ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/x.db", dir);
    return 0;
}

static void remove_files(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-qplock", ".new"};
    char name[320];
    for (size_t i = 0; i < ARRAY_COUNT(suffixes); i++) {
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
}

static int tear_down(void **state)
{
    (void)state;
    remove_files();
    (void)rmdir(dir);
    return 0;
}

static int try_open(const char *file, const char *space, qp **out)
{
    struct qp_options options;
    struct qp_err err = {0};
    qp_options_init(&options);
    options.path = file;
    options.env = &t.env;
    options.namespace_name = space;
    return qp_open(&options, out, &err);
}

static qp *must_open(const char *file)
{
    qp *q = NULL;
    assert_int_equal(try_open(file, NULL, &q), QP_OK);
    return q;
}

static int start(qp *q, const char *id, const char *input, struct qp_err *err)
{
    return qp_job_start(
        q,
        &(struct qp_start){.topic = QP_STR("work"), .id = str_from(id), .input = str_from(input)},
        NULL, err);
}

/* A job is started, claimed, completed and read, in a file and in memory; the same start again
 * changes nothing. */
static void test_a_job_from_start_to_result(void **state)
{
    const char *const files[] = {path, NULL};
    struct qp_err err = {0};
    struct qp_job job;
    qp_task *task;
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        qp *q = must_open(files[i]);
        assert_int_equal(start(q, "a", "{\"x\":1}", &err), QP_OK);
        assert_int_equal(start(q, "a", "{\"x\":1}", &err), QP_OK);
        assert_int_equal(start(q, "a", "{\"x\":2}", &err), QP_E_CONFLICT);
        assert_int_equal(qp_job_get(q, QP_STR("a"), &job, &err), QP_OK);
        assert_string_equal(job.status, "running");
        assert_int_equal(job.open, 1);
        qp_job_done(q, &job);
        assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
        assert_true(str_equal(qp_task_job(task), QP_STR("a")));
        assert_true(str_equal(qp_task_input(task), QP_STR("{\"x\":1}")));
        assert_int_equal(qp_task_attempt(task), 1);
        assert_int_equal(qp_task_complete(task, QP_STR("[true]"), &err), QP_OK);
        assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_E_NOT_FOUND);
        assert_int_equal(qp_job_get(q, QP_STR("a"), &job, &err), QP_OK);
        assert_string_equal(job.status, "completed");
        assert_true(str_equal(job.output, QP_STR("[true]")));
        qp_job_done(q, &job);
        assert_int_equal(qp_job_get(q, QP_STR("b"), &job, &err), QP_E_NOT_FOUND);
        assert_int_equal(qp_close(q, &err), QP_OK);
    }
    testenv_done(&t);
}

/* An id is made when none is given, and is a UUIDv7. */
static void test_an_id_is_made(void **state)
{
    struct qp_err err = {0};
    char id[QP_ID_SIZE];
    struct qp_job job;
    qp *q = must_open(NULL);
    (void)state;
    assert_int_equal(qp_job_start(q,
                                  &(struct qp_start){.topic = QP_STR("work"), .input = QP_STR("1")},
                                  id, &err),
                     QP_OK);
    assert_int_equal(strlen(id), 36);
    assert_int_equal(id[14], '7');
    assert_int_equal(qp_job_get(q, str_from(id), &job, &err), QP_OK);
    qp_job_done(q, &job);
    assert_int_equal(qp_close(q, &err), QP_OK);
    testenv_done(&t);
}

/* A task in hand when the engine closes is ready again for the next one, with a higher attempt; a
 * retry waits its time. */
static void test_tasks_come_back(void **state)
{
    struct qp_err err = {0};
    qp_task *task;
    qp *q = must_open(path);
    (void)state;
    assert_int_equal(start(q, "a", "1", &err), QP_OK);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_retry(task, 500, &err), QP_OK);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_E_NOT_FOUND);
    testenv_advance_ms(&t, 499);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_E_NOT_FOUND);
    testenv_advance_ms(&t, 1);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_attempt(task), 2);
    assert_int_equal(qp_task_retry(task, 0, &err), QP_OK);
    assert_int_equal(qp_close(q, &err), QP_OK);
    q = must_open(path);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_attempt(task), 3);
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_OK);
    assert_int_equal(qp_close(q, &err), QP_OK);
    testenv_done(&t);
}

/* Namespaces do not see each other's jobs. */
static void test_namespaces(void **state)
{
    struct qp_err err = {0};
    struct qp_job job;
    qp_task *task;
    qp *q;
    (void)state;
    assert_int_equal(try_open(path, "blue", &q), QP_OK);
    assert_int_equal(start(q, "a", "1", &err), QP_OK);
    assert_int_equal(qp_close(q, &err), QP_OK);
    assert_int_equal(try_open(path, "green", &q), QP_OK);
    assert_int_equal(qp_job_get(q, QP_STR("a"), &job, &err), QP_E_NOT_FOUND);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_E_NOT_FOUND);
    assert_int_equal(qp_close(q, &err), QP_OK);
    assert_int_equal(try_open(path, "blue", &q), QP_OK);
    assert_int_equal(qp_job_get(q, QP_STR("a"), &job, &err), QP_OK);
    qp_job_done(q, &job);
    assert_int_equal(qp_close(q, &err), QP_OK);
    assert_int_equal(try_open(path, "not a name", &q), QP_E_INVALID);
    testenv_done(&t);
}

/* Bad input is refused with a sentence that says where, and nothing of it is kept. */
static void test_bad_input(void **state)
{
    static char long_text[300];
    struct qp_options options = {0};
    struct qp_err err = {0};
    struct qp_job job;
    qp_task *task;
    qp *q;
    (void)state;
    memset(long_text, 'x', sizeof long_text - 1);
    assert_int_equal(qp_open(&options, &q, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "qp_options_init"));
    qp_options_init(&options);
    options.keep_ms = -1;
    assert_int_equal(qp_open(&options, &q, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "keep_ms"));
    options.keep_ms = 0;
    options.max_deliveries = -1;
    assert_int_equal(qp_open(&options, &q, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "max_deliveries"));
    options.max_deliveries = 0;
    options.env = &(struct qp_env){0};
    assert_int_equal(qp_open(&options, &q, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "qp_env_init"));
    q = must_open(NULL);
    assert_int_equal(start(q, "", "1", &err), QP_E_INVALID);
    assert_int_equal(start(q, long_text, "1", &err), QP_E_TOO_LARGE);
    assert_int_equal(start(q, "a", "{\"x\":", &err), QP_E_MALFORMED);
    assert_non_null(strstr(err.text, "input"));
    assert_int_equal(
        qp_job_start(q, &(struct qp_start){.topic = QP_STR("no spaces"), .input = QP_STR("1")},
                     NULL, &err),
        QP_E_INVALID);
    assert_int_equal(qp_job_get(q, QP_STR("a"), &job, &err), QP_E_NOT_FOUND);
    assert_int_equal(start(q, "a", "1", &err), QP_OK);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_complete(task, QP_STR("nonsense"), &err), QP_E_MALFORMED);
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_OK); /* still ours */
    assert_int_equal(qp_close(q, &err), QP_OK);
    assert_int_equal(qp_close(NULL, &err), QP_OK);
    testenv_done(&t);
}

/* One process writes to a file at a time. */
static void test_a_second_engine_is_refused(void **state)
{
    struct qp_err err = {0};
    qp *q = must_open(path);
    qp *second = NULL;
    (void)state;
    assert_int_equal(try_open(path, NULL, &second), QP_E_LOCKED);
    assert_int_equal(qp_close(q, &err), QP_OK);
    testenv_done(&t);
}

static int whole_life(void)
{
    struct qp_err err = {0};
    struct qp_job job;
    qp_task *task = NULL;
    qp *q = NULL;
    int rc = try_open(NULL, NULL, &q);
    if (rc != QP_OK) {
        return rc;
    }
    rc = start(q, "a", "{}", &err);
    rc = rc == QP_OK ? qp_task_claim(q, QP_STR("work"), &task, &err) : rc;
    rc = rc == QP_OK ? qp_task_complete(task, QP_STR("{}"), &err) : rc;
    rc = rc == QP_OK ? qp_job_get(q, QP_STR("a"), &job, &err) : rc;
    if (rc == QP_OK) {
        qp_job_done(q, &job);
    }
    (void)qp_close(q, &err); /* the first failure counts; closing frees in every case */
    return rc;
}

/* The n-th allocation fails, for every n: an error, no crash, and nothing leaks. */
static void test_without_memory(void **state)
{
    int rc = QP_E_NOMEM;
    (void)state;
    for (int64_t n = 1; rc != QP_OK; n++) {
        testenv_fail_at(&t, n);
        rc = whole_life();
        assert_true(rc == QP_OK || rc == QP_E_NOMEM);
        assert_true(testenv_failed(&t) || rc == QP_OK);
        assert_int_equal(atomic_load(&t.live_blocks), 0);
    }
    testenv_fail_at(&t, 0);
    testenv_done(&t);
}

/* ------------------------------------------------------------------------ workers, without memory */

struct life {
    bool one_attempt; /* the function does well, and is not asked again */
    int started;      /* with QP_OK */
    int refused;
    int ended;
    char status[32];
};

static void on_started(void *context, int code, const char *id)
{
    struct life *l = context;
    (void)id;
    l->started += code == QP_OK;
    l->refused += code != QP_OK;
    assert_true(code == QP_OK || code == QP_E_NOMEM);
}

static void on_ended(void *context, const char *status)
{
    struct life *l = context;
    l->ended++;
    (void)snprintf(l->status, sizeof l->status, "%s", status);
}

static int no_writes(void *context, void *native)
{
    (void)context;
    (void)native;
    return QP_OK;
}

/* Fails once, brings a pending output, writes with its commit. */
static int work(void *context, qp_task *task)
{
    struct qp_err err = {0};
    int rc;
    if (((const struct life *)context)->one_attempt) {
        do { /* memory comes back */
            rc = qp_task_output(task, QP_STR("[2]"));
        } while (rc == QP_E_NOMEM);
        return rc;
    }
    if (qp_task_attempt(task) == 1) {
        return qp_task_fail(task, &(struct qp_failure){.message = "once"});
    }
    rc = qp_task_pending(task, QP_STR("[1]"), &err);
    rc = rc == QP_OK ? qp_task_heartbeat(task, &err) : rc;
    qp_task_tx(task, no_writes, NULL);
    return rc == QP_OK ? qp_task_output(task, QP_STR("[2]")) : rc;
}

/* All that a program with workers and a loop of its own does. QP_OK, or the first code that was no
 * failure of a poll: those are asked again. */
static int working_life(const char *file, struct life *l)
{
    struct qp_err err = {0};
    struct qp_job job;
    qp *q = NULL;
    int rc = try_open(file, NULL, &q);
    if (rc != QP_OK) {
        return rc;
    }
    rc = qp_worker_add(q, &(struct qp_worker){.topic = QP_STR("work"), .work = work, .context = l},
                       &err);
    if (rc == QP_OK) {
        rc = qp_job_start_async(q,
                                &(struct qp_start){.topic = QP_STR("work"),
                                                   .id = QP_STR("a"),
                                                   .input = QP_STR("{}"),
                                                   .retry = {.attempts = l->one_attempt ? 1 : 9},
                                                   .context = l,
                                                   .started = on_started,
                                                   .ended = on_ended},
                                &err);
    }
    for (int i = 0; i < 100 && rc == QP_OK && l->ended + l->refused == 0; i++) {
        int polled = qp_poll(q, &err);
        assert_true(polled == QP_OK || polled == QP_E_NOMEM);
        testenv_advance_ms(&t, 60 * 1000);
    }
    rc = rc == QP_OK && l->started > 0 ? qp_job_wait(q, QP_STR("a"), 0, &job, &err) : rc;
    if (rc == QP_OK && l->started > 0) {
        assert_true(str_equal(job.output, QP_STR("[2]")));
        qp_job_done(q, &job);
    }
    (void)qp_close(q, &err); /* closing frees in every case */
    return rc;
}

/* From the n-th allocation on all fail: every call comes back, and closing leaves nothing. */
static void test_workers_without_any_memory(void **state)
{
    bool failed = true;
    (void)state;
    for (int64_t n = 1; failed; n++) {
        struct life l = {0};
        int rc;
        testenv_fail_from(&t, n);
        rc = working_life(NULL, &l);
        failed = testenv_failed(&t);
        assert_true(rc == QP_OK || rc == QP_E_NOMEM);
        assert_true(failed || (rc == QP_OK && l.ended == 1));
        assert_int_equal(atomic_load(&t.live_blocks), 0);
    }
    testenv_fail_at(&t, 0);
    testenv_done(&t);
}

/* The n-th allocation fails, in memory and on a file: an error that somebody is told, or a later try;
 * no crash, no leak, no hang, and a job that was started ends well, also when its function may not be
 * asked a second time. */
static void test_workers_without_memory(void **state)
{
    const char *const files[] = {NULL, path};
    bool sampled = getenv("QP_LANE") == NULL || strcmp(getenv("QP_LANE"), "torture") != 0;
    (void)state;
    for (size_t i = 0; i < 2 * ARRAY_COUNT(files); i++) {
        const char *file = files[i % 2];
        int64_t step = file != NULL && sampled ? 13 : 1;
        bool failed = true;
        for (int64_t n = 1; failed; n += step) {
            struct life l = {.one_attempt = i >= 2};
            int rc;
            testenv_fail_at(&t, n);
            rc = working_life(file, &l);
            failed = testenv_failed(&t);
            assert_true(rc == QP_OK || rc == QP_E_NOMEM);
            assert_true(failed || (rc == QP_OK && l.ended == 1));
            if (rc == QP_OK && l.started > 0) {
                assert_string_equal(l.status, "completed");
                assert_int_equal(l.ended, 1);
            }
            assert_int_equal(atomic_load(&t.live_blocks), 0);
            testenv_fail_at(&t, 0);
            if (file != NULL) {
                remove_files();
            }
        }
    }
    testenv_done(&t);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_a_job_from_start_to_result),
        CASE(test_an_id_is_made),
        CASE(test_tasks_come_back),
        CASE(test_namespaces),
        CASE(test_bad_input),
        CASE(test_a_second_engine_is_refused),
        CASE(test_without_memory),
        CASE(test_workers_without_memory),
        CASE(test_workers_without_any_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_progress.c - what an attempt says of how far it is, and what the next one is told of it
 *
 * On every store, with the system's clock; and over a kill.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "run/handle.h"
#include "support/runtest.h"

struct seen {
    int calls;
    bool none_first;
    char last[64]; /* what the last call was told */
};

/* Two words of how far it is, then an error; the next attempt goes on. */
static int go_on(void *context, qp_task *task)
{
    struct seen *s = context;
    struct qp_err err = {0};
    qp_str before = qp_task_last_progress(task);
    s->calls++;
    if (qp_task_attempt(task) == 1) {
        s->none_first = before.p == NULL;
        assert_int_equal(qp_task_progress(task, QP_STR("{\"at\":1}"), &err), QP_OK);
        assert_int_equal(qp_task_progress(task, QP_STR("{\"at\": 2}"), &err), QP_OK);
        return qp_task_fail(task, &(struct qp_failure){.message = "once"});
    }
    assert_true(before.n < sizeof s->last);
    memcpy(s->last, before.p, before.n);
    return qp_task_output(task, before);
}

/* The next attempt is given what the one before sent last, as it came. */
static void test_next_attempt(void **state)
{
    static const qp_ms lease_ms[] = {0, 60 * 1000};
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        for (size_t i = 0; i < ARRAY_COUNT(lease_ms); i++) {
            struct seen s = {0};
            struct qp_err err = {0};
            qp *q;
            rt_begin_on(kind);
            q = rt_open(rt_place);
            assert_int_equal(qp_worker_add(q,
                                           &(struct qp_worker){.topic = QP_STR("work"),
                                                               .work = go_on,
                                                               .context = &s,
                                                               .lease_ms = lease_ms[i]},
                                           &err),
                             QP_OK);
            rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"),
                                                .id = QP_STR("a"),
                                                .input = QP_STR("1"),
                                                .retry = {.attempts = 2, .backoff_ms = 1}});
            rt_wait(q, "a", "completed");
            assert_int_equal(s.calls, 2);
            assert_true(s.none_first);
            assert_string_equal(s.last, "{\"at\": 2}");
            rt_close(q);
            rt_end();
        }
    }
}

/* No JSON, too much of it, and a task that is another's: nothing is kept. */
static void test_refused(void **state)
{
    static char large[LIMIT_PROGRESS_SIZE + 1];
    struct qp_err err = {0};
    qp_task *task;
    qp *q;
    (void)state;
    memset(large, '1', sizeof large);
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    rt_start(q, "a");
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_progress(task, QP_STR("{"), &err), QP_E_MALFORMED);
    assert_int_equal(qp_task_progress(task, (qp_str){large, sizeof large}, &err), QP_E_TOO_LARGE);
    assert_non_null(strstr(err.text, "progress"));
    assert_non_null(strstr(err.text, "4096"));
    assert_int_equal(qp_task_retry(task, 0, &err), QP_OK);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_null(qp_task_last_progress(task).p);
    assert_int_equal(qp_job_cancel(q, QP_STR("a"), "enough", &err), QP_OK);
    assert_int_equal(qp_task_progress(task, QP_STR("1"), &err), QP_E_STALE);
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_E_STALE);
    rt_close(q);
    rt_end();
}

static int die(void *context, qp_task *task)
{
    struct qp_err err;
    (void)context;
    QP_ASSERT(qp_task_progress(task, QP_STR("[7]"), &err) == QP_OK);
    (void)kill(getpid(), SIGKILL);
    return QP_OK;
}

/* A process that is killed has left what it sent, and the next one is told. */
static void test_killed(void **state)
{
    struct qp_err err = {0};
    qp_task *task;
    qp *q;
    pid_t child;
    int status;
    (void)state;
    rt_begin(RT_REAL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        q = rt_open(rt_path);
        rt_worker(q, "work", die, NULL);
        rt_start(q, "a");
        QP_ASSERT(qp_run(q, &err) == QP_OK);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    q = rt_open(rt_path);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_attempt(task), 2);
    assert_true(str_equal(qp_task_last_progress(task), QP_STR("[7]")));
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_OK);
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_attempt),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

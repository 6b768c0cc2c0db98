/* test_task_start.c - jobs that start in the commit of a task's output
 *
 * On every store; with kills at commits, the one that comes through finds each job once.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/failpoint.h"
#include "run/handle.h"
#include "support/runtest.h"

struct seen {
    struct rt_count parents;
    struct rt_count children;
    char key[QP_TASK_KEY_SIZE];
    bool fails_first;
};

static int follow_up(void *context, qp_task *task)
{
    struct seen *s = context;
    struct qp_err err;
    rt_add(&s->parents, 1);
    qp_task_key(task, s->key);
    QP_ASSERT(qp_task_start(task,
                            &(struct qp_start){.topic = QP_STR("child"), .input = QP_STR("[1]")},
                            &err) == QP_OK);
    QP_ASSERT(qp_task_start(task,
                            &(struct qp_start){.topic = QP_STR("child"),
                                               .id = QP_STR("named"),
                                               .input = QP_STR("[2]")},
                            &err) == QP_OK);
    if (s->fails_first && qp_task_attempt(task) == 1) {
        return qp_task_fail(task, &(struct qp_failure){.message = "once"});
    }
    return qp_task_output(task, QP_STR("1"));
}

static int child(void *context, qp_task *task)
{
    struct seen *s = context;
    rt_add(&s->children, 1);
    return qp_task_output(task, qp_task_input(task));
}

/* An attempt that fails starts nothing; the one that succeeds starts each job once, by its own id or by one that
 * follows from the task's key. */
static void test_with_the_output(void **state)
{
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        struct seen s = {.parents = RT_COUNT_INIT, .children = RT_COUNT_INIT, .fails_first = true};
        char id[QP_ID_SIZE];
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        rt_worker(q, "work", follow_up, &s);
        rt_worker(q, "child", child, &s);
        rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"),
                                            .id = QP_STR("a"),
                                            .input = QP_STR("1"),
                                            .retry = {.attempts = 2, .backoff_ms = 1}});
        rt_wait(q, "a", "completed");
        (void)snprintf(id, sizeof id, "%s-1", s.key);
        rt_wait(q, id, "completed");
        rt_expect(q, id, "completed", "[1]");
        rt_wait(q, "named", "completed");
        rt_expect(q, "named", "completed", "[2]");
        assert_int_equal(rt_value(&s.parents), 2);
        assert_int_equal(rt_value(&s.children), 2);
        rt_close(q);
        rt_end();
    }
}

static int count_job(void *context, const struct qp_job_info *job)
{
    (void)job;
    ++*(int *)context;
    return QP_OK;
}

static int job_count(qp *q)
{
    struct qp_err err = {0};
    char cursor[QP_CURSOR_SIZE];
    int count = 0;
    assert_int_equal(qp_job_list(q, &(struct qp_list){0}, &count, count_job, cursor, &err), QP_OK);
    return count;
}

/* By hand: what is given back, has failed or was lost starts nothing; completing does. What is wrong with a start is said at
 * once. */
static void test_by_hand(void **state)
{
    struct qp_start start = {.topic = QP_STR("child"), .input = QP_STR("1")};
    struct qp_err err = {0};
    qp_task *task;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    rt_start(q, "a");
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_start(task, &start, &err), QP_OK);
    assert_int_equal(qp_task_retry(task, 0, &err), QP_OK);
    assert_int_equal(job_count(q), 1);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(
        qp_task_start(task, &(struct qp_start){.topic = QP_STR("child"), .input = QP_STR("{")},
                      &err),
        QP_E_MALFORMED);
    for (int i = 0; i < LIMIT_TASK_STARTS; i++) {
        assert_int_equal(qp_task_start(task, &start, &err), QP_OK);
    }
    assert_int_equal(qp_task_start(task, &start, &err), QP_E_LIMIT);
    assert_int_equal(job_count(q), 1);
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_OK);
    rt_poll(q);
    rt_expect(q, "a", "completed", "1");
    assert_int_equal(qp_job_cancel(q, QP_STR("a"), "late", &err), QP_E_CLOSED);
    rt_start(q, "b");
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_start(task, &start, &err), QP_OK);
    assert_int_equal(qp_job_cancel(q, QP_STR("b"), "enough", &err), QP_OK);
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_E_STALE);
    rt_close(q);
    rt_check(rt_path, 2 + LIMIT_TASK_STARTS);
    rt_end();
}

static int start_taken(void *context, qp_task *task)
{
    struct qp_err err;
    (void)context;
    QP_ASSERT(qp_task_start(task,
                            &(struct qp_start){.topic = QP_STR("child"),
                                               .id = QP_STR("taken"),
                                               .input = QP_STR("2")},
                            &err) == QP_OK);
    return QP_OK;
}

/* An id that is there with another input: the task has failed, and its output does not count. */
static void test_conflict(void **state)
{
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    rt_start_with(q, &(struct qp_start){
                         .topic = QP_STR("child"), .id = QP_STR("taken"), .input = QP_STR("1")});
    rt_worker(q, "work", start_taken, NULL);
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"),
                                        .id = QP_STR("a"),
                                        .input = QP_STR("1"),
                                        .retry = {.attempts = 1}});
    rt_poll(q);
    rt_expect(q, "a", "failed", NULL);
    rt_close(q);
    rt_check(rt_path, 2);
    rt_end();
}

/* ------------------------------------------------------------------------------------------ kills */

#define KILLED_JOBS 20

static void start_all(qp *q)
{
    for (int i = 0; i < KILLED_JOBS; i++) {
        char id[24];
        struct qp_err err;
        (void)snprintf(id, sizeof id, "k%d", i);
        QP_ASSERT(qp_job_start(q,
                               &(struct qp_start){.topic = QP_STR("chain"),
                                                  .id = str_from(id),
                                                  .input = QP_STR("1")},
                               NULL, &err) == QP_OK);
    }
}

static int chain(void *context, qp_task *task)
{
    struct qp_err err;
    (void)context;
    QP_ASSERT(qp_task_start(task,
                            &(struct qp_start){.topic = QP_STR("child"), .input = QP_STR("[1]")},
                            &err) == QP_OK);
    return qp_task_output(task, QP_STR("1"));
}

static void child_life(int n)
{
    struct seen s = {.parents = RT_COUNT_INIT, .children = RT_COUNT_INIT};
    char spec[64];
    qp *q = rt_open(rt_path);
    QP_ASSERT(
        qp_worker_add(q, &(struct qp_worker){.topic = QP_STR("chain"), .work = chain, .in_hand = 2},
                      NULL) == QP_OK);
    rt_worker(q, "child", child, &s);
    start_all(q);
    (void)snprintf(spec, sizeof spec, "commit.%s=kill@%d", n % 2 == 0 ? "before" : "after",
                   n / 2 + 1);
    QP_ASSERT(failpoint_set(spec) == QP_OK);
    for (int i = 0; i < 100; i++) {
        QP_ASSERT(qp_poll(q, NULL) == QP_OK);
    }
    _exit(0);
}

/* Killed before and after each commit in turn: between the function and its commit nothing is started, and after it all
 * is. In the end every task has started one job, by whichever attempt. */
static void test_kills(void **state)
{
    int killed = 0;
    (void)state;
    rt_begin(RT_REAL);
    for (int n = 0; n < 12; n++) {
        int status = 0;
        pid_t pid;
        (void)fflush(stdout);
        pid = fork();
        if (pid == 0) {
            child_life(n);
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
                    (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        killed += WIFSIGNALED(status);
    }
    assert_true(killed > 0);
    {
        struct seen s = {.parents = RT_COUNT_INIT, .children = RT_COUNT_INIT};
        qp *q = rt_open(rt_path);
        rt_worker(q, "chain", chain, NULL);
        rt_worker(q, "child", child, &s);
        start_all(q);
        rt_poll(q);
        rt_close(q);
    }
    rt_check(rt_path, 2 * KILLED_JOBS);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_with_the_output),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_conflict),
        cmocka_unit_test(test_kills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

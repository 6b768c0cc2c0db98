/* test_flow_kill.c - a flow through quipu.h, its process killed before and after every commit
 *
 * The child opens the file, adds the flow and its workers, and works until the job has ended; it is killed at its n-th commit,
 * for n = 1, 2, ... until it lives to the end. Each time another process finishes the job. Then the parent proves:
 *
 *   the job is completed, with the output of an undisturbed run
 *   the activities, which write a row of the host in the commit of their output (qp_task_tx), have left one row each, also when
 *   the process died between that commit and the next decision
 *   inline code was recorded once: what it said first is what all later runs saw
 *   fsck is clean
 */
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/failpoint.h"
#include "support/files.h"
#include "support/runtest.h"

#define STEPS 4
#define KILLS_MAX 500
#define OUTPUT "[\"once\",14,\"timeout\"]"
/* Of the short lane: every seventh commit, from one that the seed chooses. */
#define STRIDE 7

static char path[320];

/* ------------------------------------------------------------------------------------------ the flow */

static int add_row(void *context, void *native)
{
    (void)context;
    return sqlite3_exec(native, "INSERT INTO charges(n) VALUES(1)", NULL, NULL, NULL) == SQLITE_OK
               ? QP_OK
               : QP_E_IO;
}

static int charge(void *context, qp_task *task)
{
    qp_task_tx(task, add_row, NULL);
    return qp_task_output(task, qp_task_input(task));
}

static int once(qp_flow *flow, void *context)
{
    return qp_return(flow, QP_STR("\"once\""));
}

static int part(qp_flow *flow, void *context)
{
    return qp_activity(flow, "charge", QP_STR("1"), NULL, NULL);
}

/* One activity, one per round of a loop, and one in a closure beside a listen that times out. */
static int steps(qp_flow *flow, qp_str input, void *context)
{
    struct qp_loop loop = {.name = "rounds", .state = QP_STR("14")};
    qp_handle both[2];
    qp_str said;
    qp_str answer = QP_NONE;
    char text[64];
    int n;
    QP_TRY(qp_inline(flow, "once", once, NULL, &said));
    QP_TRY(qp_activity(flow, "charge", input, NULL, NULL));
    while (qp_loop_next(flow, &loop)) {
        QP_TRY(qp_activity(flow, "charge", loop.state, NULL, NULL));
        if (loop.iteration == 1) {
            qp_loop_break(flow, &loop, QP_NONE);
        }
    }
    QP_TRY(loop.rc);
    QP_TRY(qp_begin_closure(flow, "part", part, NULL, &both[0]));
    QP_TRY(qp_begin_listen(flow, "never", &(struct qp_listen){.timeout_ms = 2}, &both[1]));
    QP_TRY(qp_all(flow, both, 2));
    QP_TRY(qp_output(flow, both[1], &answer));
    n = snprintf(text, sizeof text, "[%.*s,%.*s,\"%s\"]", STR_ARG(said), STR_ARG(loop.state),
                 answer.p == NULL ? "timeout" : "signal");
    return qp_return(flow, (qp_str){text, (size_t)n});
}

/* ----------------------------------------------------------------------------------------- processes */

static int make_table(void *context, void *native)
{
    return sqlite3_exec(native, "CREATE TABLE IF NOT EXISTS charges(n)", NULL, NULL, NULL) ==
                   SQLITE_OK
               ? QP_OK
               : QP_E_IO;
}

static int do_all(qp *q, struct qp_err *err)
{
    struct qp_job job;
    QP_TRY(qp_exec(q, make_table, NULL, err));
    QP_TRY(qp_worker_add(q, &(struct qp_worker){.topic = QP_STR("charge"), .work = charge}, err));
    QP_TRY(qp_flow_add(q, &(struct qp_flow_kind){.name = QP_STR("steps"), .function = steps}, err));
    QP_TRY(qp_job_start(
        q, &(struct qp_start){.topic = QP_STR("steps"), .id = QP_STR("f"), .input = QP_STR("7")},
        NULL, err));
    QP_TRY(qp_job_wait(q, QP_STR("f"), 60000, &job, err));
    QP_ASSERT(strcmp(job.status, "completed") == 0 && qp_str_is(job.output, OUTPUT));
    qp_job_done(q, &job);
    return QP_OK;
}

static int child_main(const char *failpoint, struct qp_err *err)
{
    struct qp_options options;
    qp *q = NULL;
    qp_options_init(&options);
    options.path = path;
    QP_TRY(failpoint_set(failpoint));
    QP_TRY(qp_open(&options, &q, err));
    QP_TRY(do_all(q, err));
    return qp_close(q, err);
}

/* A process of its own, with this failpoint (NULL: none). True: it was killed; else it came to the end. */
static bool live(const char *failpoint)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct qp_err err = {0};
        int rc = child_main(failpoint, &err);
        if (rc != QP_OK) {
            fprintf(stderr, "%s\n", err.text);
        }
        _exit(rc == QP_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return true;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

static int64_t count_rows(void)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    int64_t count;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM charges", -1, &s, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    count = sqlite3_column_int64(s, 0);
    (void)sqlite3_finalize(s);
    (void)sqlite3_close(db);
    return count;
}

/* True: the child was killed at that commit. */
static bool kill_at(const char *point, int n)
{
    char dir[256];
    char spec[64];
    bool killed;
    files_temporary(dir, sizeof dir, "flow");
    (void)snprintf(path, sizeof path, "%s/x.db", dir);
    (void)snprintf(spec, sizeof spec, "%s=kill@%d", point, n);
    killed = live(spec);
    if (killed) {
        assert_false(live(NULL));
    }
    assert_int_equal(count_rows(), STEPS);
    rt_check(path, 1);
    files_remove(dir);
    return killed;
}

static void kill_everywhere(const char *point)
{
    int stride = testenv_is_torture() ? 1 : STRIDE;
    int n = 1 + (int)(testenv_seed() % (uint64_t)stride);
    while (kill_at(point, n)) {
        n += stride;
        assert_true(n < KILLS_MAX);
    }
    assert_true(n > 15); /* the flow has as many commits, at least */
}

static void test_killed_before_commits(void **state)
{
    kill_everywhere("commit.before");
}

static void test_killed_after_commits(void **state)
{
    kill_everywhere("commit.after");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_before_commits),
        cmocka_unit_test(test_killed_after_commits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

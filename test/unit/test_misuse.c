/* test_misuse.c - the library in the hands of a program that does what it should not
 *
 * Every case ends with an error that says what is wrong, in a stated time: none crashes, none hangs, none turns a failure
 * into a success. What could hang, a signal handler and a child after fork, runs in a child process that SIGALRM ends.
 */
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "run/handle.h"
#include "support/runtest.h"

#define CHILD_S 60 /* after which a child hangs */

/* ------------------------------------------------------------------------------------- failures */

struct saying {
    bool output_before;
    bool output_after;
    bool bad_reply;
};

static int fail_and_return_ok(void *context, qp_task *task)
{
    const struct saying *s = context;
    int ignored = s->output_before ? qp_task_output(task, QP_STR("1")) : QP_OK;
    ignored += s->bad_reply
                   ? qp_task_reply(task, 202, QP_STR("1"))
                   : qp_task_fail(task, &(struct qp_failure){
                                            .message = "no such account", .code = 404, .fatal = 1});
    ignored += s->output_after ? qp_task_output(task, QP_STR("2")) : QP_OK;
    (void)ignored;
    return QP_OK;
}

/* A failure that was reported is the task's result, whatever the function says before, after and by its code. */
static void test_a_reported_failure_wins(void **state)
{
    struct saying sayings[] = {
        {0}, {.output_before = true}, {.output_after = true}, {.bad_reply = true}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(sayings); i++) {
        struct qp_job job;
        struct qp_err err = {0};
        qp *q;
        rt_begin(RT_VIRTUAL);
        q = rt_open(NULL);
        rt_worker(q, "work", fail_and_return_ok, &sayings[i]);
        rt_start(q, "a");
        rt_poll(q);
        assert_int_equal(qp_job_get(q, QP_STR("a"), &job, &err), QP_OK);
        assert_string_equal(job.status, "failed");
        assert_true(job.error.n > 0);
        assert_int_equal(memmem(job.error.p, job.error.n, "no such account", 15) != NULL,
                         !sayings[i].bad_reply);
        qp_job_done(q, &job);
        rt_close(q);
        rt_end();
    }
}

static int end_it_by_hand(void *context, qp_task *task)
{
    struct qp_err err = {0};
    int *refused = context;
    *refused += qp_task_complete(task, QP_STR("1"), &err) == QP_E_INVALID;
    assert_non_null(strstr(err.text, "qp_task_claim"));
    *refused += qp_task_error(task, &(struct qp_failure){.fatal = 1}, &err) == QP_E_INVALID;
    *refused += qp_task_retry(task, 0, &err) == QP_E_INVALID;
    return qp_task_output(task, QP_STR("7"));
}

/* The task of a worker's function is ended by its return alone. */
static void test_by_hand_inside_a_function(void **state)
{
    int refused = 0;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    rt_worker(q, "work", end_it_by_hand, &refused);
    rt_start(q, "a");
    rt_poll(q);
    assert_int_equal(refused, 3);
    rt_expect(q, "a", "completed", "7");
    rt_close(q);
    rt_end();
}

/* ----------------------------------------------------------------------------------------- NULL */

static void changed_nothing(void *context)
{
    (void)context;
}

static int tx_nothing(void *context, void *native)
{
    (void)context;
    (void)native;
    return QP_OK;
}

static int visit_app(void *context, const struct qp_app *app)
{
    (void)context;
    (void)app;
    return QP_OK;
}

static int visit_job(void *context, const struct qp_job_info *job)
{
    (void)context;
    (void)job;
    return QP_OK;
}

static int visit_event(void *context, const struct qp_event *event)
{
    (void)context;
    (void)event;
    return QP_OK;
}

static int visit_activity(void *context, const struct qp_activity *activity)
{
    (void)context;
    (void)activity;
    return QP_OK;
}

static int visit_topic(void *context, const struct qp_topic *topic)
{
    (void)context;
    (void)topic;
    return QP_OK;
}

static int visit_space(void *context, const struct qp_space *space)
{
    (void)context;
    (void)space;
    return QP_OK;
}

static int write_nothing(void *context, qp_str piece)
{
    (void)context;
    (void)piece;
    return QP_OK;
}

static struct qp_err why;
static struct qp_job a_job;
static struct qp_count a_count;
static struct qp_bulk_result a_result;
static char a_text[QP_ID_SIZE];
static bool a_flag;
static int64_t a_number;
static qp_task *a_task;
static qp_follower *a_follower;
static const struct qp_start a_start = {.topic = {"t", 1}, .input = {"1", 1}};
static const struct qp_signal a_signal = {.topic = {"t", 1}, .key = {"k", 1}, .payload = {"1", 1}};
static const struct qp_action an_action = {.id = {"a", 1}};
static const struct qp_bulk a_bulk = {.verb = QP_VERB_CANCEL};
static const struct qp_limit a_limit = {.topic = {"t", 1}};
static char limit_cursor[QP_LIMIT_CURSOR_SIZE];
static const struct qp_deploy a_deploy = {.text = {"x", 1}};
static const struct qp_worker a_worker = {.topic = {"t", 1}, .work = (qp_work)abort};
static const struct qp_builtin a_builtin = {0};
static const struct qp_list a_list = {0};
static const struct qp_feed a_feed = {0};
static const struct qp_measures a_query = {.topic = {"t", 1}, .data = {"{}", 2}};
static const struct qp_follow a_follow = {.changed = changed_nothing};

#define ID QP_STR("1")

/* X(call) - complete calls: only the handle is wrong. */
#define ENGINE_CALLS(X)                                                                            \
    X(qp_start_threads(q, 1, &why))                                                                \
    X(qp_run(q, &why))                                                                             \
    X(qp_poll(q, &why))                                                                            \
    X(qp_work_left(q, &a_flag, &why))                                                              \
    X(qp_job_start(q, &a_start, NULL, &why))                                                       \
    X(qp_job_start_async(q, &a_start, &why))                                                       \
    X(qp_job_get(q, ID, &a_job, &why))                                                             \
    X(qp_job_wait(q, ID, -1, &a_job, &why))                                                        \
    X(qp_job_cancel(q, ID, NULL, &why))                                                            \
    X(qp_job_interrupt(q, ID, NULL, &why))                                                         \
    X(qp_job_pause(q, ID, &why))                                                                   \
    X(qp_job_resume(q, ID, &why))                                                                  \
    X(qp_job_retry(q, ID, &why))                                                                   \
    X(qp_signal_send(q, &a_signal, &why))                                                          \
    X(qp_signal_send_async(q, &a_signal, &why))                                                    \
    X(qp_deploy(q, &a_deploy, NULL, &why))                                                         \
    X(qp_activate(q, QP_NONE, ID, ID, NULL, &why))                                                 \
    X(qp_apps(q, QP_NONE, NULL, visit_app, &why))                                                  \
    X(qp_app_show(q, QP_NONE, ID, ID, NULL, visit_app, &why))                                      \
    X(qp_app_delete(q, QP_NONE, ID, ID, &why))                                                     \
    X(qp_job_act(q, &an_action, NULL, &why))                                                       \
    X(qp_job_act_async(q, &an_action, &why))                                                       \
    X(qp_limit_set(q, &a_limit, &why))                                                             \
    X(qp_limit_remove(q, &a_limit, &why))                                                          \
    X(qp_limit_list(q, QP_NONE, QP_NONE, 0, NULL, (qp_limit_visit)abort, limit_cursor, &why))      \
    X(qp_space_create(q, ID, &why))                                                                \
    X(qp_space_list(q, NULL, visit_space, &why))                                                   \
    X(qp_job_show(q, QP_NONE, ID, NULL, visit_job, &why))                                          \
    X(qp_job_resolve(q, QP_NONE, ID, a_text, &why))                                                \
    X(qp_job_ended(q, QP_NONE, ID, &a_flag, &why))                                                 \
    X(qp_job_list(q, &a_list, NULL, visit_job, a_text, &why))                                      \
    X(qp_job_count(q, QP_NONE, QP_NONE, QP_COUNT_EXACT, &a_count, &why))                           \
    X(qp_activity_list(q, QP_NONE, ID, QP_NONE, 0, NULL, visit_activity, &a_flag, &why))           \
    X(qp_job_journal(q, QP_NONE, ID, 0, 0, NULL, visit_event, &a_flag, &why))                      \
    X(qp_feed_read(q, &a_feed, NULL, visit_event, &a_number, &a_flag, &why))                       \
    X(qp_feed_position(q, &a_number, &why))                                                        \
    X(qp_follow_begin(q, &a_follow, &a_follower, &why))                                            \
    X(qp_job_export(q, QP_NONE, ID, NULL, write_nothing, &why))                                    \
    X(qp_app_diff(q, QP_NONE, ID, ID, ID, NULL, write_nothing, &why))                              \
    X(qp_measures_read(q, &a_query, NULL, write_nothing, &why))                                    \
    X(qp_topic_list(q, QP_NONE, QP_NONE, 0, NULL, visit_topic, &a_flag, &why))                     \
    X(qp_job_act_all(q, &a_bulk, &a_result, &why))                                                 \
    X(qp_backup(q, "never", &why))                                                                 \
    X(qp_exec(q, tx_nothing, NULL, &why))                                                          \
    X(qp_worker_add(q, &a_worker, &why))                                                           \
    X(qp_builtin_serve(q, &a_builtin, &why))                                                       \
    X(qp_task_claim(q, ID, &a_task, &why))

/* Calls of a task in hand: the task is NULL, or a child's copy. */
#define TASK_CALLS(X)                                                                              \
    X(qp_task_pending(t, ID, &why))                                                                \
    X(qp_task_heartbeat(t, &why))                                                                  \
    X(qp_task_complete(t, ID, &why))                                                               \
    X(qp_task_error(t, &(struct qp_failure){0}, &why))                                             \
    X(qp_task_retry(t, 0, &why))

/* The engine is good, and an argument is NULL. */
#define ARGUMENT_CALLS(X)                                                                          \
    X(qp_work_left(q, NULL, &why))                                                                 \
    X(qp_job_start(q, NULL, NULL, &why))                                                           \
    X(qp_job_start_async(q, NULL, &why))                                                           \
    X(qp_job_get(q, ID, NULL, &why))                                                               \
    X(qp_job_wait(q, ID, -1, NULL, &why))                                                          \
    X(qp_signal_send(q, NULL, &why))                                                               \
    X(qp_signal_send_async(q, NULL, &why))                                                         \
    X(qp_deploy(q, NULL, NULL, &why))                                                              \
    X(qp_apps(q, QP_NONE, NULL, NULL, &why))                                                       \
    X(qp_app_show(q, QP_NONE, ID, ID, NULL, NULL, &why))                                           \
    X(qp_job_act(q, NULL, NULL, &why))                                                             \
    X(qp_job_act_async(q, NULL, &why))                                                             \
    X(qp_limit_set(q, NULL, &why))                                                                 \
    X(qp_limit_remove(q, NULL, &why))                                                              \
    X(qp_limit_list(q, QP_NONE, QP_NONE, 0, NULL, NULL, limit_cursor, &why))                       \
    X(qp_space_list(q, NULL, NULL, &why))                                                          \
    X(qp_job_show(q, QP_NONE, ID, NULL, NULL, &why))                                               \
    X(qp_job_resolve(q, QP_NONE, ID, NULL, &why))                                                  \
    X(qp_job_ended(q, QP_NONE, ID, NULL, &why))                                                    \
    X(qp_job_list(q, NULL, NULL, visit_job, a_text, &why))                                         \
    X(qp_job_list(q, &a_list, NULL, NULL, a_text, &why))                                           \
    X(qp_job_list(q, &a_list, NULL, visit_job, NULL, &why))                                        \
    X(qp_job_count(q, QP_NONE, QP_NONE, QP_COUNT_EXACT, NULL, &why))                               \
    X(qp_activity_list(q, QP_NONE, ID, QP_NONE, 0, NULL, NULL, &a_flag, &why))                     \
    X(qp_activity_list(q, QP_NONE, ID, QP_NONE, 0, NULL, visit_activity, NULL, &why))              \
    X(qp_job_journal(q, QP_NONE, ID, 0, 0, NULL, NULL, &a_flag, &why))                             \
    X(qp_job_journal(q, QP_NONE, ID, 0, 0, NULL, visit_event, NULL, &why))                         \
    X(qp_feed_read(q, NULL, NULL, visit_event, &a_number, &a_flag, &why))                          \
    X(qp_feed_read(q, &a_feed, NULL, NULL, &a_number, &a_flag, &why))                              \
    X(qp_feed_read(q, &a_feed, NULL, visit_event, NULL, &a_flag, &why))                            \
    X(qp_feed_read(q, &a_feed, NULL, visit_event, &a_number, NULL, &why))                          \
    X(qp_feed_position(q, NULL, &why))                                                             \
    X(qp_follow_begin(q, NULL, &a_follower, &why))                                                 \
    X(qp_follow_begin(q, &(struct qp_follow){0}, &a_follower, &why))                               \
    X(qp_follow_begin(q, &a_follow, NULL, &why))                                                   \
    X(qp_job_export(q, QP_NONE, ID, NULL, NULL, &why))                                             \
    X(qp_app_diff(q, QP_NONE, ID, ID, ID, NULL, NULL, &why))                                       \
    X(qp_measures_read(q, NULL, NULL, write_nothing, &why))                                        \
    X(qp_measures_read(q, &a_query, NULL, NULL, &why))                                             \
    X(qp_topic_list(q, QP_NONE, QP_NONE, 0, NULL, NULL, &a_flag, &why))                            \
    X(qp_topic_list(q, QP_NONE, QP_NONE, 0, NULL, visit_topic, NULL, &why))                        \
    X(qp_job_act_all(q, NULL, &a_result, &why))                                                    \
    X(qp_job_act_all(q, &a_bulk, NULL, &why))                                                      \
    X(qp_backup(q, NULL, &why))                                                                    \
    X(qp_exec(q, NULL, NULL, &why))                                                                \
    X(qp_worker_add(q, NULL, &why))                                                                \
    X(qp_worker_add(q, &(struct qp_worker){.topic = ID}, &why))                                    \
    X(qp_builtin_serve(q, NULL, &why))                                                             \
    X(qp_task_claim(q, ID, NULL, &why))

/* Needs no engine. */
#define FREE_CALLS(X)                                                                              \
    X(qp_open(NULL, &opened, &why))                                                                \
    X(qp_open(&options, NULL, &why))                                                               \
    X(qp_open_readonly(NULL, &opened, &why))                                                       \
    X(qp_open_readonly(&options, NULL, &why))                                                      \
    X(qp_check(NULL, NULL, NULL, &checked, &why))                                                  \
    X(qp_check(&of_check, NULL, NULL, NULL, &why))                                                 \
    X(qp_task_output(NULL, ID))                                                                    \
    X(qp_task_reply(NULL, 200, ID))                                                                \
    X(qp_task_fail(NULL, NULL))

/* How many of the calls were not refused as they should be, each named on stderr. */
static int refused_wrongly(const char *call, int rc, bool says)
{
    bool good = rc == QP_E_INVALID && (!says || strncmp(why.text, call, strcspn(call, "(")) == 0);
    if (!good) {
        (void)fprintf(stderr, "%s: %d %s\n", call, rc, why.text);
    }
    why = (struct qp_err){0};
    return good ? 0 : 1;
}

#define SAYS(call) +refused_wrongly(#call, call, true)
#define REFUSED(call) +refused_wrongly(#call, call, false)

static int engine_calls(qp *q)
{
    return 0 ENGINE_CALLS(SAYS);
}

static int task_calls(qp_task *t)
{
    return 0 TASK_CALLS(SAYS);
}

static int argument_calls(qp *q)
{
    return 0 ARGUMENT_CALLS(REFUSED);
}

static int free_calls(void)
{
    qp *opened;
    struct qp_options options;
    struct qp_check_options of_check;
    struct qp_check_result checked;
    qp_options_init(&options);
    qp_check_options_init(&of_check);
    options.path = of_check.path = "never";
    return 0 FREE_CALLS(REFUSED);
}

/* Every function that takes a handle, a struct, a function or an out parameter, with NULL in its place. */
static void test_null(void **state)
{
    char text[QP_TASK_TOKEN_SIZE] = "as before";
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    assert_int_equal(engine_calls(NULL), 0);
    assert_int_equal(task_calls(NULL), 0);
    assert_int_equal(argument_calls(q), 0);
    assert_int_equal(free_calls(), 0);
    qp_stop(NULL);
    qp_env_init(NULL);
    qp_options_init(NULL);
    qp_check_options_init(NULL);
    qp_job_done(q, NULL);
    qp_job_done(NULL, &a_job);
    qp_follow_end(q, NULL);
    qp_follow_end(NULL, NULL);
    qp_task_tx(NULL, NULL, NULL);
    qp_task_key(NULL, text);
    qp_task_token(NULL, text);
    assert_string_equal(text, "as before");
    assert_int_equal(qp_fd(NULL), -1);
    assert_int_equal(qp_next_deadline(NULL), -1);
    assert_true(str_is_none(qp_task_input(NULL)) && str_is_none(qp_task_job(NULL)) &&
                str_is_none(qp_task_topic(NULL)));
    assert_int_equal(qp_task_attempt(NULL), 0);
    assert_int_equal(qp_task_is_cancelled(NULL), 0);
    assert_int_equal(qp_close(NULL, NULL), QP_OK);
    rt_close(q);
    rt_check(rt_path, 0);
    rt_end();
}

/* ------------------------------------------------------------------------- signals and processes */

/* Runs `body` in a child that is killed when it hangs; it has to return 0. */
static void in_child(int (*body)(qp *q), qp *q)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(CHILD_S);
        _exit(body(q));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static qp *stopped;

static void stop_it(int signal_number)
{
    (void)signal_number;
    qp_stop(stopped);
}

/* The handler runs while this thread has the handle's lock, as it may in any call. */
static int stop_under_the_lock(qp *unused)
{
    struct qp_err err = {0};
    struct sigaction action = {.sa_handler = stop_it};
    int rc;
    (void)unused;
    stopped = rt_open(NULL);
    (void)sigaction(SIGUSR1, &action, NULL);
    (void)pthread_mutex_lock(&stopped->driver.lock);
    (void)raise(SIGUSR1);
    (void)pthread_mutex_unlock(&stopped->driver.lock);
    rc = qp_run(stopped, &err); /* it has been stopped already */
    return rc == QP_OK && qp_close(stopped, &err) == QP_OK ? 0 : 1;
}

/* The handler interrupts a qp_run that sleeps. */
static int stop_while_running(qp *unused)
{
    struct qp_err err = {0};
    struct sigaction action = {.sa_handler = stop_it};
    pid_t parent = getpid();
    pid_t sender;
    int rc;
    (void)unused;
    stopped = rt_open(NULL);
    (void)sigaction(SIGUSR1, &action, NULL);
    sender = fork();
    if (sender == 0) {
        for (int i = 0; i < CHILD_S * 100 && getppid() == parent; i++) {
            (void)kill(parent, SIGUSR1);
            (void)usleep(10000);
        }
        _exit(0);
    }
    for (int i = 0; i < 20; i++) {
        rc = qp_run(stopped, &err);
        if (rc != QP_OK) {
            return 1;
        }
    }
    (void)kill(sender, SIGKILL);
    return qp_close(stopped, &err) == QP_OK ? 0 : 1;
}

static void test_stop_in_a_signal_handler(void **state)
{
    (void)state;
    rt_begin(RT_REAL);
    in_child(stop_under_the_lock, NULL);
    in_child(stop_while_running, NULL);
    rt_end();
}

static qp_task *inherited;

static int use_inherited(qp *q)
{
    struct qp_err err = {0};
    int wrong = engine_calls(q) + task_calls(inherited);
    wrong += qp_close(q, &err) != QP_E_INVALID || strstr(err.text, "fork") == NULL;
    wrong += qp_next_deadline(q) != -1 || qp_fd(q) != -1;
    qp_stop(q);
    return wrong;
}

/* A child's copy of the locks may be held by threads that it does not have: no call waits for them, and what the parent
 * has is untouched. */
static void test_after_fork(void **state)
{
    struct qp_err err = {0};
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        qp *q;
        rt_begin(RT_REAL);
        q = rt_open(rt_path);
        if (threads > 0) {
            assert_int_equal(qp_start_threads(q, 2, &err), QP_OK);
        }
        rt_start(q, "a");
        assert_int_equal(qp_task_claim(q, QP_STR("work"), &inherited, &err), QP_OK);
        (void)pthread_mutex_lock(&q->driver.lock);
        in_child(use_inherited, q);
        (void)pthread_mutex_unlock(&q->driver.lock);
        assert_int_equal(qp_task_complete(inherited, QP_STR("1"), &err), QP_OK);
        rt_expect(q, "a", "completed", "1");
        rt_close(q);
        rt_check(rt_path, 1);
        rt_end();
    }
}

/* ---------------------------------------------------------------------------------------- close */

static int close_inside(void *context, qp_task *task)
{
    struct qp_err err = {0};
    int *refused = context;
    *refused += qp_close(task->q, &err) == QP_E_INVALID;
    QP_ASSERT(strstr(err.text, "another thread") != NULL);
    return QP_OK;
}

/* On a thread of its own and on the driver's. */
static void test_close_inside_a_function(void **state)
{
    (void)state;
    for (int threads = 0; threads < 3; threads++) {
        struct qp_err err = {0};
        int refused = 0;
        qp *q;
        rt_begin(RT_REAL);
        q = rt_open(rt_path);
        rt_worker(q, "work", close_inside, &refused);
        if (threads > 0) {
            assert_int_equal(qp_start_threads(q, threads - 1, &err), QP_OK);
        }
        rt_start(q, "a");
        rt_wait(q, "a", "completed");
        rt_close(q);
        assert_int_equal(refused, 1);
        rt_check(rt_path, 1);
        rt_end();
    }
}

struct beside {
    qp *q;
    struct rt_count begun;
    int codes[4];
};

static int visit_until_sealed(void *context, const struct qp_job_info *job)
{
    struct beside *b = context;
    (void)job;
    rt_add(&b->begun, 1);
    while (!atomic_load(&b->q->driver.sealed)) {
        (void)usleep(1000);
    }
    return QP_OK;
}

/* 0: closes, when all the others are at it; they wait for a job, read, and drive. */
static void use_beside(void *context, int index)
{
    struct beside *b = context;
    struct qp_err err = {0};
    struct qp_job job;
    int rc;
    if (index == 0) {
        rt_await(&b->begun, 3);
        rc = qp_close(b->q, &err);
    } else if (index == 1) {
        rt_add(&b->begun, 1);
        rc = qp_job_wait(b->q, QP_STR("a"), -1, &job, &err);
    } else if (index == 2) {
        rc = qp_job_show(b->q, QP_NONE, QP_STR("a"), b, visit_until_sealed, &err);
    } else {
        rt_add(&b->begun, 1);
        rc = qp_run(b->q, &err);
    }
    b->codes[index] = rc;
}

/* Waits are ended with QP_E_CLOSED, qp_run returns, and what is being read is read: then the engine is closed. A call
 * that came too late would have been refused. */
static void test_close_beside_calls(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct beside b = {.begun = RT_COUNT_INIT};
        rt_begin(RT_REAL);
        b.q = rt_open(rt_path);
        rt_start(b.q, "a");
        rt_threads(4, use_beside, &b);
        assert_int_equal(b.codes[0], QP_OK);
        assert_int_equal(b.codes[1], QP_E_CLOSED);
        assert_int_equal(b.codes[2], QP_OK);
        assert_true(b.codes[3] == QP_OK || b.codes[3] == QP_E_CLOSED);
        rt_check(rt_path, 1);
        rt_end();
    }
}

static int visit_and_close(void *context, const struct qp_job_info *job)
{
    struct qp_err err = {0};
    (void)job;
    QP_ASSERT(qp_close(context, &err) == QP_E_BUSY);
    QP_ASSERT(strstr(err.text, "1 calls") != NULL);
    return QP_OK;
}

/* A call that does not return keeps the handle: that is said after LIMIT_CLOSE_MS, and it can be closed later. Until then
 * it takes no other call. */
static void test_close_inside_a_visit(void **state)
{
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(rt_path);
    rt_start(q, "a");
    assert_int_equal(qp_job_show(q, QP_NONE, QP_STR("a"), q, visit_and_close, &err), QP_OK);
    assert_int_equal(qp_job_pause(q, QP_STR("a"), &err), QP_E_CLOSED);
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

/* --------------------------------------------------------------------------------- what is wrong */

static void test_a_size_of_another_version(void **state)
{
    struct qp_options options;
    struct qp_check_options of_check;
    struct qp_check_result checked;
    struct qp_env env;
    struct qp_err err = {0};
    qp *q;
    (void)state;
    qp_options_init(&options);
    options.size -= 8;
    assert_int_equal(qp_open(&options, &q, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "qp_options.size"));
    assert_non_null(strstr(err.text, "quipu.h"));
    assert_non_null(strstr(err.text, QP_VERSION));
    options.size = 0;
    assert_int_equal(qp_open(&options, &q, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "qp_options_init"));
    qp_options_init(&options);
    qp_env_init(&env);
    env.size += 8;
    options.env = &env;
    assert_int_equal(qp_open(&options, &q, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "qp_env.size"));
    qp_check_options_init(&of_check);
    of_check.path = "never";
    of_check.env = &env;
    assert_int_equal(qp_check(&of_check, NULL, NULL, &checked, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "qp_env.size"));
    of_check.size += 8;
    assert_int_equal(qp_check(&of_check, NULL, NULL, &checked, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "qp_check_options.size"));
    assert_non_null(strstr(err.text, "quipu.h"));
}

/* What a start has wrong is named, not only that it is. */
static void test_errors_of_a_start(void **state)
{
    static const struct qp_signal keyless = {.topic = {"go", 2}, .payload = {"1", 1}};
    const struct {
        struct qp_start start;
        const char *says;
    } cases[] = {
        {{.topic = QP_STR("t"), .input = QP_STR("1"), .signal = &keyless}, "signal: key"},
        {{.topic = QP_STR("t"), .input = QP_STR("1"), .limit_key = QP_STR("*")}, "limit key: '*'"},
        {{.topic = QP_STR("t")}, "input"},
    };
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct qp_err err = {0};
        int rc = qp_job_start(q, &cases[i].start, NULL, &err);
        assert_true(rc == QP_E_INVALID || rc == QP_E_MALFORMED);
        assert_non_null(strstr(err.text, cases[i].says));
        err = (struct qp_err){0};
        assert_int_equal(qp_job_start_async(q, &cases[i].start, &err), rc);
        assert_non_null(strstr(err.text, cases[i].says));
    }
    rt_close(q);
    rt_end();
}

#define GRAPH                                                                                      \
    "app:\n"                                                                                       \
    "  id: g\n"                                                                                    \
    "  version: '1'\n"                                                                             \
    "  graphs:\n"                                                                                  \
    "    - subscribes: graph\n"                                                                    \
    "      activities:\n"                                                                          \
    "        begin: {type: trigger}\n"                                                             \
    "        one: {type: worker, topic: work, retry: {maximumAttempts: 5}}\n"                      \
    "        two: {type: worker, topic: work, retry: {maximumAttempts: 5}}\n"                      \
    "      transitions: {begin: [{to: one}], one: [{to: two}]}\n"

static qp *open_with_graph(void)
{
    struct qp_deploy deploy = {.text = QP_STR(GRAPH), .activate = true};
    struct qp_err err = {0};
    qp *q = rt_open(NULL);
    assert_int_equal(qp_deploy(q, &deploy, NULL, &err), QP_OK);
    return q;
}

/* The activities of a graph have policies of their own: one for the job would do nothing. */
static void test_retry_of_a_graph(void **state)
{
    struct qp_start start = {
        .topic = QP_STR("graph"), .id = QP_STR("a"), .input = QP_STR("{}"), .retry.attempts = 3};
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = open_with_graph();
    assert_int_equal(qp_job_start(q, &start, NULL, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "retry: "));
    start.retry.attempts = 0;
    assert_int_equal(qp_job_start(q, &start, NULL, &err), QP_OK);
    rt_close(q);
    rt_end();
}

static int fail_twice_each(void *context, qp_task *task)
{
    int *calls = context;
    return ++*calls % 3 == 0 ? qp_task_output(task, QP_STR("{}"))
                             : qp_task_fail(task, &(struct qp_failure){.message = "again"});
}

static void expect_failures(qp *q, const char *id, const char *status, int64_t failures)
{
    struct qp_job job;
    struct qp_err err = {0};
    for (int i = 0; i < 20; i++) {
        rt_poll(q);
        testenv_advance_ms(&rt, 61000);
    }
    assert_int_equal(qp_job_get(q, str_from(id), &job, &err), QP_OK);
    assert_string_equal(job.status, status);
    assert_int_equal(job.failures, failures);
    qp_job_done(q, &job);
}

/* All attempts that failed, of all activities, whatever came after them. */
static void test_failures_are_counted(void **state)
{
    int calls = 0;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = open_with_graph();
    rt_worker(q, "work", fail_twice_each, &calls);
    rt_start(q, "a");
    expect_failures(q, "a", "completed", 2);
    rt_start_with(
        q, &(struct qp_start){.topic = QP_STR("graph"), .id = QP_STR("b"), .input = QP_STR("{}")});
    expect_failures(q, "b", "completed", 4);
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"),
                                        .id = QP_STR("c"),
                                        .input = QP_STR("1"),
                                        .retry.attempts = 2});
    expect_failures(q, "c", "failed", 2);
    rt_close(q);
    rt_end();
}

/* A handle for reading names the call that reads a job there. */
static void test_get_on_a_handle_for_reading(void **state)
{
    struct qp_options options;
    struct qp_err err = {0};
    struct qp_job job;
    qp *q;
    qp *reader;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(rt_path);
    rt_start(q, "a");
    qp_options_init(&options);
    options.path = rt_path;
    assert_int_equal(qp_open_readonly(&options, &reader, &err), QP_OK);
    assert_int_equal(qp_job_get(reader, QP_STR("a"), &job, &err), QP_E_READONLY);
    assert_non_null(strstr(err.text, "qp_job_show"));
    assert_int_equal(qp_job_wait(reader, QP_STR("a"), -1, &job, &err), QP_E_READONLY);
    assert_non_null(strstr(err.text, "qp_job_show"));
    assert_int_equal(qp_close(reader, &err), QP_OK);
    rt_close(q);
    rt_end();
}

/* ------------------------------------------------------------------------------------ host writes */

static int refuse_with_77(void *context, void *native)
{
    (void)context;
    (void)native;
    return 77;
}

static int write_and_refuse(void *context, qp_task *task)
{
    (void)context;
    qp_task_tx(task, refuse_with_77, NULL);
    return qp_task_output(task, QP_STR("1"));
}

/* A refusal is QP_E_ABORTED, and the callback's own code stands in the error, wherever it commits. */
static void test_the_code_of_a_refusal(void **state)
{
    struct qp_start start = {.topic = QP_STR("work"),
                             .id = QP_STR("a"),
                             .input = QP_STR("1"),
                             .retry.attempts = 1,
                             .tx = refuse_with_77};
    struct qp_err err = {0};
    struct qp_job job;
    qp_task *task;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    assert_int_equal(qp_exec(q, refuse_with_77, NULL, &err), QP_E_ABORTED);
    assert_non_null(strstr(err.text, "returned 77"));
    err = (struct qp_err){0};
    assert_int_equal(qp_job_start(q, &start, NULL, &err), QP_E_ABORTED);
    assert_non_null(strstr(err.text, "returned 77"));
    start.tx = NULL;
    assert_int_equal(qp_job_start(q, &start, NULL, &err), QP_OK);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    qp_task_tx(task, refuse_with_77, NULL);
    err = (struct qp_err){0};
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_E_ABORTED);
    assert_non_null(strstr(err.text, "returned 77"));
    assert_int_equal(qp_task_retry(task, 0, &err), QP_OK);
    rt_worker(q, "work", write_and_refuse, NULL);
    rt_poll(q);
    assert_int_equal(qp_job_get(q, QP_STR("a"), &job, &err), QP_OK);
    assert_string_equal(job.status, "failed");
    assert_non_null(memmem(job.error.p, job.error.n, "returned 77", 11));
    qp_job_done(q, &job);
    rt_close(q);
    rt_end();
}

static int run_sql(void *context, void *native)
{
    return sqlite3_exec(native, context, NULL, NULL, NULL);
}

/* What quipu.h says that a callback on SQLite may not do. */
static void test_what_a_tx_may_not_do(void **state)
{
    static const char *const refused[] = {
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT a",
        "PRAGMA user_version",
        "ATTACH 'other' AS other",
        "DETACH other",
        "CREATE VIRTUAL TABLE f USING fts5(x)",
        "CREATE VIRTUAL TABLE r USING rtree(id, a, b)",
        "DELETE FROM qp_job",
    };
    char sql[64];
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(rt_path);
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++) {
        (void)snprintf(sql, sizeof sql, "%s", refused[i]);
        assert_int_equal(qp_exec(q, run_sql, sql, &err), QP_E_ABORTED);
        assert_non_null(strstr(err.text, "returned 23")); /* SQLITE_AUTH */
    }
    (void)snprintf(sql, sizeof sql, "CREATE TABLE mine(x)");
    assert_int_equal(qp_exec(q, run_sql, sql, &err), QP_OK);
    rt_close(q);
    rt_check(rt_path, 0);
    rt_end();
}

/* ----------------------------------------------------------------------------------------- parked */

static int never_called(void *context, qp_task *task)
{
    (void)context;
    (void)task;
    abort();
}

/* A wait for a job that only a person can help ends: when it becomes so meanwhile, and when it is parked already. */
static void test_waiting_for_a_parked_job(void **state)
{
    struct qp_err err = {0};
    struct qp_job job;
    qp_task *task;
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open_as(rt_path, NULL, 1);
    rt_start(q, "a");
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_retry(task, 300, &err), QP_OK);
    rt_worker(q, "work", never_called, NULL); /* it was delivered as often as may be */
    assert_int_equal(qp_job_wait(q, QP_STR("a"), -1, &job, &err), QP_E_PARKED);
    assert_non_null(strstr(err.text, "qp_job_retry"));
    rt_expect(q, "a", "parked", NULL);
    err = (struct qp_err){0};
    assert_int_equal(qp_job_wait(q, QP_STR("a"), -1, &job, &err), QP_E_PARKED);
    assert_non_null(strstr(err.text, "delivered too often"));
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_reported_failure_wins),
        cmocka_unit_test(test_by_hand_inside_a_function),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_stop_in_a_signal_handler),
        cmocka_unit_test(test_after_fork),
        cmocka_unit_test(test_close_inside_a_function),
        cmocka_unit_test(test_close_beside_calls),
        cmocka_unit_test(test_close_inside_a_visit),
        cmocka_unit_test(test_a_size_of_another_version),
        cmocka_unit_test(test_errors_of_a_start),
        cmocka_unit_test(test_retry_of_a_graph),
        cmocka_unit_test(test_failures_are_counted),
        cmocka_unit_test(test_get_on_a_handle_for_reading),
        cmocka_unit_test(test_the_code_of_a_refusal),
        cmocka_unit_test(test_what_a_tx_may_not_do),
        cmocka_unit_test(test_waiting_for_a_parked_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

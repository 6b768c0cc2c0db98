/* test_flow_view.c - what people see of a flow: in plain words what it waits for, and its history by locations
 *
 *   waits      qp_job_show of a flow that waits for each kind of thing, word by word
 *   history    qp_activity_list: every type of event with its version, status, attempts and note
 *   journal    qp_job_journal and the feed: entries about events name them
 *
 * Times are compared by their form: each stands as T in the expectations.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/limits.h"
#include "support/runtest.h"

/* ---------------------------------------------------------------------------------------- the world */

static int echo(void *context, qp_task *task)
{
    (void)context;
    return qp_task_output(task, qp_task_input(task));
}

static int broken(void *context, qp_task *task)
{
    (void)context;
    return qp_task_fail(task, &(struct qp_failure){.message = "the bank is down", .code = 503});
}

static int stuck(void *context, qp_task *task)
{
    (void)context;
    return qp_task_detach(task, NULL);
}

static void add_flow(qp *q, const char *name, qp_flow_function function)
{
    struct qp_err err = {0};
    if (qp_flow_add(q, &(struct qp_flow_kind){.name = str_from(name), .function = function},
                    &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
}

static void start(qp *q, const char *flow)
{
    rt_start_with(
        q, &(struct qp_start){.topic = str_from(flow), .id = str_from(flow), .input = QP_STR("7")});
}

static void send(qp *q, const char *id, const char *name)
{
    struct qp_err err = {0};
    if (qp_signal_send(q,
                       &(struct qp_signal){
                           .job = str_from(id), .topic = str_from(name), .payload = QP_STR("1")},
                       &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
}

/* ------------------------------------------------------------------------------------ what is told */

struct told {
    char text[8192];
    size_t n;
};

static void add(struct told *t, const char *format, ...) QP_PRINTF(2, 3);
static void add(struct told *t, const char *format, ...)
{
    va_list args;
    int n;
    va_start(args, format);
    n = vsnprintf(t->text + t->n, sizeof t->text - t->n, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof t->text - t->n);
    t->n += (size_t)n;
}

/* "2026-01-31T09:08:07.123Z" */
static size_t time_at(const char *p)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";
    for (size_t i = 0; i < sizeof form - 1; i++) {
        if (form[i] == 'd' ? !isdigit((unsigned char)p[i]) : p[i] != form[i]) {
            return 0;
        }
    }
    return sizeof form - 1;
}

static void without_times(char *text)
{
    char *to = text;
    while (*text != '\0') {
        size_t n = time_at(text);
        *to++ = n > 0 ? 'T' : *text;
        text += n > 0 ? n : 1;
    }
    *to = '\0';
}

static int see_job(void *context, const struct qp_job_info *job)
{
    add(context, "%.*s", STR_ARG(job->waits_for));
    return QP_OK;
}

static void expect_waits(qp *q, const char *id, const char *sentences)
{
    struct told t = {.n = 0};
    struct qp_err err = {0};
    assert_int_equal(qp_job_show(q, QP_NONE, str_from(id), &t, see_job, &err), QP_OK);
    without_times(t.text);
    assert_string_equal(t.text, sentences);
}

static int see_activity(void *context, const struct qp_activity *a)
{
    if (str_is_none(a->location)) {
        return QP_OK;
    }
    add(context, "%.*sv%lld %s", STR_ARG(a->location), (long long)a->version, a->type);
    add(context, " %.*s", STR_ARG(a->topic));
    add(context, " %s %lld", a->status == NULL ? "-" : a->status, (long long)a->attempts);
    assert_true(a->entered_at > 0);
    assert_int_equal(a->answered_at > 0, a->category == 'A' && strcmp(a->state, "done") == 0);
    add(context, " %.*s\n", STR_ARG(a->note));
    return QP_OK;
}

static void expect_history(qp *q, const char *id, const char *lines)
{
    struct told t = {.n = 0};
    struct qp_err err = {0};
    bool more = true;
    assert_int_equal(
        qp_activity_list(q, QP_NONE, str_from(id), QP_NONE, 0, &t, see_activity, &more, &err),
        QP_OK);
    assert_false(more);
    without_times(t.text);
    assert_string_equal(t.text, lines);
}

/* ------------------------------------------------------------------------------------ what waits */

static int wants_nobody(qp_flow *flow, qp_str input, void *context)
{
    (void)context;
    return qp_activity(flow, "nobody", input, NULL, NULL);
}

static int wants_the_bank(qp_flow *flow, qp_str input, void *context)
{
    (void)context;
    return qp_activity(flow, "broken", input, &(struct qp_step){.backoff_ms = 60000}, NULL);
}

static int wants_a_worker(qp_flow *flow, qp_str input, void *context)
{
    (void)context;
    return qp_activity(flow, "stuck", input, NULL, NULL);
}

static int sleeps(qp_flow *flow, qp_str input, void *context)
{
    (void)input;
    (void)context;
    return qp_sleep(flow, QP_DAYS(1));
}

static int listens(qp_flow *flow, qp_str input, void *context)
{
    (void)input;
    (void)context;
    return qp_listen(flow, "a", NULL, NULL);
}

static int listens_for_two(qp_flow *flow, qp_str input, void *context)
{
    static const char *const others[] = {"b"};
    (void)input;
    (void)context;
    return qp_listen(
        flow, "a",
        &(struct qp_listen){.others = others, .other_count = 1, .timeout_ms = QP_DAYS(3)}, NULL);
}

/* A code that no call has returned. */
static int is_wrong(qp_flow *flow, qp_str input, void *context)
{
    (void)flow;
    (void)input;
    (void)context;
    return 17;
}

static int returns_early(qp_flow *flow, qp_str input, void *context)
{
    qp_handle handle;
    (void)context;
    QP_TRY(qp_begin_sleep(flow, QP_DAYS(1), &handle));
    return qp_return(flow, input);
}

static int does_much(qp_flow *flow, qp_str input, void *context)
{
    qp_handle handles[LIMIT_WAITS_SHOWN + 5];
    (void)input;
    (void)context;
    for (size_t i = 0; i < ARRAY_COUNT(handles); i++) {
        QP_TRY(qp_begin_sleep(flow, QP_DAYS(1), &handles[i]));
    }
    return qp_all(flow, handles, ARRAY_COUNT(handles));
}

static const struct waiting {
    const char *name;
    qp_flow_function function;
    const char *sentences;
} waiting[] = {
    {"nobody", wants_nobody, "[\"activity 'nobody' at {1}: no worker has taken it yet\"]"},
    {"bank", wants_the_bank,
     "[\"activity 'broken' at {1}: attempt 2 begins at T; attempt 1 failed: the bank is down\"]"},
    {"running", wants_a_worker, "[\"activity 'stuck' at {1}: attempt 1 is running\"]"},
    {"sleep", sleeps, "[\"sleep at {1}: until T\"]"},
    {"listen", listens, "[\"listen at {1}: waits for the signal 'a'\"]"},
    {"two", listens_for_two, "[\"listen at {1}: waits for one of the signals 'a', 'b', until T\"]"},
    {"wrong", is_wrong,
     "[\"the next decision: attempt 2 begins at T; attempt 1 failed: the function of 'wrong' "
     "returned 17 (internal), which no durable call has returned to it; return QP_OK, or the code "
     "of a durable call\"]"},
    {"returned", returns_early,
     "[\"the end of what it has begun: the flow has returned\",\"sleep at {1}: until T\"]"},
};

static void test_waits(void **state)
{
    qp *q;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    rt_worker(q, "broken", broken, NULL);
    rt_worker(q, "stuck", stuck, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(waiting); i++) {
        add_flow(q, waiting[i].name, waiting[i].function);
        start(q, waiting[i].name);
    }
    rt_poll(q);
    for (size_t i = 0; i < ARRAY_COUNT(waiting); i++) {
        expect_waits(q, waiting[i].name, waiting[i].sentences);
    }
    send(q, "listen", "a");
    expect_waits(q, "listen", "[\"listen at {1}: its answer has come, and is not recorded yet\"]");
    rt_close(q);
    rt_check(rt_path, ARRAY_COUNT(waiting));
    rt_end();
}

/* What there is much of is counted. */
static void test_waits_for_much(void **state)
{
    char last[] = "\"5 more\"]";
    struct told t = {.n = 0};
    struct qp_err err = {0};
    qp *q;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    add_flow(q, "much", does_much);
    start(q, "much");
    rt_poll(q);
    assert_int_equal(qp_job_show(q, QP_NONE, QP_STR("much"), &t, see_job, &err), QP_OK);
    without_times(t.text);
    assert_memory_equal(t.text, "[\"sleep at {1}: until T\",\"sleep at {2}: until T\",", 48);
    assert_string_equal(t.text + strlen(t.text) - strlen(last), last);
    rt_close(q);
    rt_end();
}

/* A flow whose process is gone, paused, parked, and ended. The name is as long as one can be. */
static void test_waits_for_people(void **state)
{
    char name[LIMIT_FLOW_NAME_SIZE + 1];
    struct qp_err err = {0};
    qp *q;
    memset(name, 'n', LIMIT_FLOW_NAME_SIZE);
    name[LIMIT_FLOW_NAME_SIZE] = '\0';
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    add_flow(q, name, sleeps);
    rt_close(q);
    q = rt_open(rt_path);
    rt_start_with(
        q, &(struct qp_start){.topic = str_from(name), .id = QP_STR("j"), .input = QP_STR("1")});
    rt_poll(q);
    expect_waits(q, "j", "[\"the next decision: no process that runs the flow has taken it yet\"]");
    assert_int_equal(qp_job_pause(q, QP_STR("j"), &err), QP_OK);
    add_flow(q, name, sleeps);
    rt_poll(q);
    expect_waits(q, "j",
                 "[\"a person: the job is paused until it is resumed\","
                 "\"the next decision: set aside until the job is resumed\"]");
    assert_int_equal(qp_job_resume(q, QP_STR("j"), &err), QP_OK);
    rt_poll(q);
    expect_waits(q, "j", "[\"sleep at {1}: until T\"]");
    rt_close(q);
    q = rt_open(rt_path);
    add_flow(q, name, wants_nobody);
    testenv_advance_ms(&rt, QP_DAYS(2));
    rt_poll(q);
    rt_expect(q, "j", "parked", NULL);
    expect_waits(q, "j",
                 "[\"a person: correct the code and retry the job, or cancel it\","
                 "\"the next decision: given up until the job is retried\"]");
    assert_int_equal(qp_job_cancel(q, QP_STR("j"), NULL, &err), QP_OK);
    rt_poll(q);
    expect_waits(q, "j", "");
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

/* ----------------------------------------------------------------------------------------- history */

static int look(qp_flow *flow, void *context)
{
    return context == NULL ? qp_return(flow, QP_STR("1")) : qp_flow_fail(flow, "not today");
}

static int rounds(qp_flow *flow, void *context)
{
    struct qp_loop loop = {.name = "rounds", .state = QP_STR("0")};
    int count = 0;
    (void)context;
    while (qp_loop_next(flow, &loop)) {
        QP_TRY(qp_inline(flow, "look", look, NULL, NULL));
        if (++count == 2) {
            qp_loop_break(flow, &loop, QP_STR("2"));
        }
    }
    return loop.rc == QP_OK ? qp_return(flow, QP_STR("2")) : loop.rc;
}

/* Every type of event. */
static int everything(qp_flow *flow, qp_str input, void *context)
{
    int64_t version;
    int rc =
        qp_activity(flow, "broken", input, &(struct qp_step){.attempts = 2, .backoff_ms = 1}, NULL);
    if (rc != QP_E_FAILED) {
        return rc;
    }
    rc = qp_inline(flow, "look", look, flow, NULL);
    if (rc != QP_E_FAILED) {
        return rc;
    }
    QP_TRY(qp_sleep(flow, 10));
    QP_TRY(qp_listen(flow, "a", NULL, NULL));
    QP_TRY(qp_listen(flow, "b", &(struct qp_listen){.timeout_ms = 1000}, NULL));
    QP_TRY(qp_listen(flow, "never", &(struct qp_listen){.timeout_ms = 1000}, NULL));
    QP_TRY(qp_signal_flow(flow, QP_STR("other"), "hello", QP_STR("1")));
    QP_TRY(qp_closure(flow, "part", rounds, NULL, NULL));
    QP_TRY(qp_removed(flow, QP_EVENT_ACTIVITY, "print-label"));
    QP_TRY(qp_check_version(flow, 2, &version));
    QP_TRY(qp_activity(qp_v(flow, 2), "echo", input, NULL, NULL));
    (void)context;
    return qp_activity(flow, "nobody", input, NULL, NULL);
}

static const char everything_lines[] =
    "{1}v1 activity broken errored 2 attempt 2 failed: the bank is down\n"
    "{2}v1 run look errored 0 not today\n"
    "{3}v1 sleep  completed 0 until T\n"
    "{4}v1 signals  completed 0 received 'a'\n"
    "{5}v1 sleep  completed 0 received at {6}\n"
    "{6}v1 signals  completed 0 received 'b'\n"
    "{7}v1 sleep  completed 0 no signal came in time\n"
    "{8}v1 signal hello completed 0 sent to job 'other'\n"
    "{9}v1 branch part - 0 \n"
    "{9, 1}v1 loop rounds completed 0 ended after 2 iterations\n"
    "{9, 1, 1}v1 branch rounds - 0 \n"
    "{9, 1, 1, 1}v1 run look completed 0 \n"
    "{9, 1, 2}v1 branch rounds - 0 \n"
    "{9, 1, 2, 1}v1 run look completed 0 \n"
    "{10}v1 removed print-label completed 0 the code no longer has this activity\n"
    "{11}v2 version  completed 0 \n"
    "{12}v2 activity echo completed 1 \n"
    "{13}v1 activity nobody started 0 no worker has taken it yet\n";

static int see_event(void *context, const struct qp_event *e)
{
    if (!str_is_none(e->location)) {
        add(context, "%s %.*sv%lld %s", e->kind, STR_ARG(e->location), (long long)e->version,
            e->type);
        add(context, " %.*s\n", STR_ARG(e->name));
    } else {
        assert_true(str_is_none(e->address) || e->address.p[0] != '@');
    }
    return QP_OK;
}

/* The journal names the events, and the feed says the same. */
static void expect_journal(qp *q)
{
    struct told journal = {.n = 0};
    struct told feed = {.n = 0};
    struct qp_err err = {0};
    int64_t after = 0;
    bool more = true;
    assert_int_equal(
        qp_job_journal(q, QP_NONE, QP_STR("all"), 0, 0, &journal, see_event, &more, &err), QP_OK);
    assert_false(more);
    while (more || after == 0) {
        assert_int_equal(qp_feed_read(q, &(struct qp_feed){.id = QP_STR("all"), .after = after},
                                      &feed, see_event, &after, &more, &err),
                         QP_OK);
    }
    assert_string_equal(journal.text, feed.text);
    assert_non_null(strstr(journal.text, "entered {1}v1 activity broken\n"
                                         "failed {1}v1 activity broken\n"));
    assert_non_null(strstr(journal.text, "entered {9, 1, 2, 1}v1 run look\n"));
    assert_non_null(strstr(journal.text, "entered {11}v2 version \n"));
}

static void test_history(void **state)
{
    qp *q;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    rt_worker(q, "broken", broken, NULL);
    rt_worker(q, "echo", echo, NULL);
    add_flow(q, "all", everything);
    start(q, "all");
    send(q, "all", "a");
    send(q, "all", "b");
    for (int i = 0; i < 4; i++) {
        rt_poll(q);
        testenv_advance_ms(&rt, 2000);
    }
    rt_poll(q);
    expect_history(q, "all", everything_lines);
    expect_waits(q, "all", "[\"activity 'nobody' at {13}: no worker has taken it yet\"]");
    expect_journal(q);
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

/* A loop whose first round waits. */
static int tracks(qp_flow *flow, qp_str input, void *context)
{
    struct qp_loop loop = {.name = "track", .state = QP_STR("0")};
    (void)context;
    while (qp_loop_next(flow, &loop)) {
        QP_TRY(qp_activity(flow, "nobody", input, NULL, NULL));
    }
    return loop.rc;
}

/* Neither a loop nor a branch is completed while something below it runs. */
static void test_an_open_loop(void **state)
{
    qp *q;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    add_flow(q, "loop", tracks);
    start(q, "loop");
    rt_poll(q);
    expect_history(q, "loop",
                   "{1}v1 loop track started 0 \n"
                   "{1, 1}v1 branch track - 0 \n"
                   "{1, 1, 1}v1 activity nobody started 0 no worker has taken it yet\n");
    rt_close(q);
    rt_end();
}

/* It waits for each kind of thing when it is cancelled. */
static int wants_all(qp_flow *flow, qp_str input, void *context)
{
    qp_handle parts[5];
    (void)context;
    QP_TRY(qp_begin_activity(flow, "nobody", input, NULL, &parts[0]));
    QP_TRY(qp_begin_sleep(flow, 60000, &parts[1]));
    QP_TRY(qp_begin_listen(flow, "a", NULL, &parts[2]));
    QP_TRY(qp_begin_listen(flow, "b", &(struct qp_listen){.timeout_ms = 60000}, &parts[3]));
    QP_TRY(qp_begin_child(flow, "one", input, &(struct qp_child){.id = "below"}, &parts[4]));
    return qp_all(flow, parts, 5);
}

/* The cancel is what has ended them, and their note says so. */
static void test_cancelled(void **state)
{
    struct qp_err err = {0};
    qp *q;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    add_flow(q, "all", wants_all);
    add_flow(q, "one", wants_nobody);
    start(q, "all");
    rt_poll(q);
    assert_int_equal(qp_job_cancel(q, QP_STR("all"), NULL, &err), QP_OK);
    rt_poll(q);
    expect_history(q, "all",
                   "{1}v1 activity nobody errored 1 the flow was cancelled\n"
                   "{2}v1 sleep  errored 0 the flow was cancelled\n"
                   "{3}v1 signals  errored 0 the flow was cancelled\n"
                   "{4}v1 branch b - 0 \n"
                   "{4, 1}v1 sleep  errored 0 the flow was cancelled\n"
                   "{5}v1 child one errored 0 the flow was cancelled\n");
    rt_close(q);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_waits_for_much),
        cmocka_unit_test(test_waits_for_people),
        cmocka_unit_test(test_history),
        cmocka_unit_test(test_an_open_loop),
        cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

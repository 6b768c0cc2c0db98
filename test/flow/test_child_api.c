/* test_child_api.c - children behind quipu.h: what qp_child gives, in the first run and in replay, and what it refuses
 *
 * On every kind of store; every test ends with a store that obeys all rules of fsck.
 */
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

static void add_flow(qp *q, const char *name, qp_flow_function function)
{
    struct qp_err err = {0};
    if (qp_flow_add(q, &(struct qp_flow_kind){.name = str_from(name), .function = function},
                    &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
}

static void start(qp *q, const char *flow, const char *id)
{
    rt_start_with(
        q, &(struct qp_start){.topic = str_from(flow), .id = str_from(id), .input = QP_STR("7")});
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

static void expect_end(qp *q, const char *id, const char *status, const char *text)
{
    rt_wait(q, id, status);
    rt_expect(q, id, status, text);
}

static void end(qp *q, int64_t jobs)
{
    rt_close(q);
    if (rt_place != NULL) {
        rt_check(rt_place, jobs);
    }
    rt_end();
}

/* -------------------------------------------------------------------------------------- the children */

static int answers(qp_flow *flow, qp_str input, void *context)
{
    qp_str output;
    (void)context;
    QP_TRY(qp_activity(flow, "echo", input, NULL, &output));
    return qp_return(flow, output);
}

static int fails(qp_flow *flow, qp_str input, void *context)
{
    (void)input;
    (void)context;
    return qp_flow_fail(flow, "no van");
}

static int waits(qp_flow *flow, qp_str input, void *context)
{
    (void)input;
    (void)context;
    return qp_listen(flow, "go", NULL, NULL);
}

/* -------------------------------------------------------------------------------------- what comes back */

/* The output of one, the error of another, and the id of a third. */
static int asks(qp_flow *flow, qp_str input, void *context)
{
    struct qp_flow_error error;
    qp_str output;
    qp_str id;
    char text[512];
    int n;
    (void)context;
    QP_TRY(qp_child(flow, "answers", input, NULL, &output));
    if (qp_child(flow, "fails", QP_NONE, &(struct qp_child){.id = "van"}, NULL) != QP_E_FAILED) {
        return QP_E_SUSPENDED;
    }
    qp_flow_error(flow, &error);
    QP_TRY(
        qp_child(flow, "answers", QP_NONE, &(struct qp_child){.id = "own", .detached = true}, &id));
    n = snprintf(text, sizeof text, "[%.*s,%d,\"%.*s\",\"%.*s\",%s,%.*s]", STR_ARG(output),
                 error.code, STR_ARG(error.message), STR_ARG(error.location),
                 memmem(error.json.p, error.json.n, "\"job\":\"van\"", 11) != NULL ? "true"
                                                                                   : "false",
                 STR_ARG(id));
    return qp_return(flow, (qp_str){text, (size_t)n});
}

static const char asked[] = "[7,500,\"no van\",\"{2}\",true,{\"job_id\":\"own\"}]";

static void test_results(void **state)
{
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        rt_worker(q, "echo", echo, NULL);
        add_flow(q, "asks", asks);
        add_flow(q, "answers", answers);
        add_flow(q, "fails", fails);
        start(q, "asks", "a");
        expect_end(q, "a", "completed", asked);
        expect_end(q, "own", "completed", "null");
        end(q, 4);
    }
}

/* The first of two, then the other; what is inserted and removed later; the name of a child is compared. */
static bool edited;

static int races(qp_flow *flow, qp_str input, void *context)
{
    qp_handle handles[2];
    size_t first = 9;
    (void)input;
    (void)context;
    QP_TRY(qp_begin_child(flow, "waits", QP_NONE, &(struct qp_child){.id = "slow"}, &handles[0]));
    QP_TRY(qp_begin_child(flow, "answers", QP_STR("1"), NULL, &handles[1]));
    QP_TRY(qp_any(flow, handles, 2, &first));
    if (edited) {
        QP_TRY(qp_child(qp_v(flow, 2), "answers", QP_STR("2"), NULL, NULL));
        QP_TRY(qp_removed(flow, QP_EVENT_CHILD, "answers"));
    } else {
        QP_TRY(qp_child(flow, "answers", QP_STR("3"), NULL, NULL));
    }
    QP_TRY(qp_all(flow, handles, 2));
    return qp_return(flow, first == 1 ? QP_STR("\"the second\"") : QP_STR("\"the first\""));
}

static void test_handles_and_edits(void **state)
{
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        qp *q;
        rt_begin_on(kind);
        edited = false;
        q = rt_open(rt_place);
        rt_worker(q, "echo", echo, NULL);
        add_flow(q, "races", races);
        add_flow(q, "answers", answers);
        add_flow(q, "waits", waits);
        start(q, "races", "r");
        rt_poll(q);
        rt_expect(q, "r", "waiting", NULL);
        edited = true;
        send(q, "slow", "go");
        expect_end(q, "r", "completed", "\"the second\"");
        end(q, 5);
    }
}

/* ------------------------------------------------------------------------------------- what is refused */

static int takes_taken(qp_flow *flow, qp_str input, void *context)
{
    (void)context;
    return qp_child(flow, "answers", input, &(struct qp_child){.id = "taken"}, NULL);
}

static int takes_twice(qp_flow *flow, qp_str input, void *context)
{
    qp_handle handle;
    (void)context;
    QP_TRY(qp_begin_child(flow, "answers", input, &(struct qp_child){.id = "two"}, &handle));
    return qp_child(flow, "answers", input, &(struct qp_child){.id = "two"}, NULL);
}

static int bad_name(qp_flow *flow, qp_str input, void *context)
{
    (void)context;
    return qp_child(flow, "a b", input, NULL, NULL);
}

static int bad_close(qp_flow *flow, qp_str input, void *context)
{
    (void)context;
    return qp_child(flow, "answers", input, &(struct qp_child){.close = (enum qp_close_policy)4},
                    NULL);
}

static int bad_id(qp_flow *flow, qp_str input, void *context)
{
    (void)context;
    return qp_child(flow, "answers", input, &(struct qp_child){.id = ""}, NULL);
}

static int no_handle(qp_flow *flow, qp_str input, void *context)
{
    (void)context;
    return qp_begin_child(flow, "answers", input, NULL, NULL);
}

static const struct mistake {
    const char *name;
    qp_flow_function function;
    const char *text;
} mistakes[] = {
    {"m-taken", takes_taken, "decision_refused: child_exists: a job has the id 'taken' already"},
    {"m-twice", takes_twice, "decision_refused: child_exists: a job has the id 'two' already"},
    {"m-name", bad_name, "qp_child at the beginning of {}: name: "},
    {"m-close", bad_close, "qp_child at the beginning of {}: close must be between 0 and 3, got 4"},
    {"m-id", bad_id, "qp_child at the beginning of {}: id: "},
    {"m-handle", no_handle, "qp_begin_child: an output that it needs is NULL"},
};

static int count_events(void *context, const struct qp_activity *a)
{
    *(int *)context += !str_is_none(a->location);
    return QP_OK;
}

static void expect_parked(qp *q, const struct mistake *m)
{
    struct qp_err err = {0};
    struct qp_job job;
    bool more;
    int events = 0;
    assert_int_equal(qp_job_get(q, str_from(m->name), &job, &err), QP_OK);
    assert_string_equal(job.status, "parked");
    if (memmem(job.error.p, job.error.n, m->text, strlen(m->text)) == NULL) {
        fail_msg("%s: '%s' is not in: %.*s", m->name, m->text, STR_ARG(job.error));
    }
    qp_job_done(q, &job);
    assert_int_equal(qp_activity_list(q, QP_NONE, str_from(m->name), QP_NONE, 0, &events,
                                      count_events, &more, &err),
                     QP_OK);
    assert_int_equal(events, 0);
    assert_int_equal(qp_job_cancel(q, str_from(m->name), "wrong", &err), QP_OK);
}

/* Proves that what is wrong parks the job at once with a sentence, and nothing is written. */
static void test_mistakes_park(void **state)
{
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    rt_worker(q, "echo", echo, NULL);
    add_flow(q, "answers", answers);
    start(q, "answers", "taken");
    for (size_t i = 0; i < ARRAY_COUNT(mistakes); i++) {
        add_flow(q, mistakes[i].name, mistakes[i].function);
        start(q, mistakes[i].name, mistakes[i].name);
    }
    rt_poll(q);
    for (size_t i = 0; i < ARRAY_COUNT(mistakes); i++) {
        expect_parked(q, &mistakes[i]);
    }
    rt_poll(q);
    rt_close(q);
    rt_check(rt_path, ARRAY_COUNT(mistakes) + 1);
    rt_end();
}

static const char shop[] = "app:\n"
                           "  id: shop\n"
                           "  version: '1'\n"
                           "  graphs:\n"
                           "    - subscribes: picky\n"
                           "      input:\n"
                           "        schema:\n"
                           "          type: object\n"
                           "          required: [item]\n"
                           "      activities:\n"
                           "        start:\n"
                           "          type: trigger\n"
                           "          job:\n"
                           "            maps:\n"
                           "              got: '{start.output.data.item}'\n";

/* A graph as a child; a start that it refuses. */
static int buys(qp_flow *flow, qp_str input, void *context)
{
    struct qp_flow_error error;
    qp_str output;
    char text[256];
    int n;
    (void)input;
    (void)context;
    QP_TRY(qp_child(flow, "picky", QP_STR("{\"item\":\"a quipu\"}"), NULL, &output));
    if (qp_child(flow, "picky", QP_STR("{}"), NULL, NULL) != QP_E_FAILED) {
        return QP_E_SUSPENDED;
    }
    qp_flow_error(flow, &error);
    n = snprintf(text, sizeof text, "[%.*s,%d]", STR_ARG(output), error.code);
    return qp_return(flow, (qp_str){text, (size_t)n});
}

static void test_graphs(void **state)
{
    struct qp_err err = {0};
    struct qp_deployed deployed;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    assert_int_equal(qp_deploy(q, &(struct qp_deploy){.text = str_from(shop), .activate = true},
                               &deployed, &err),
                     QP_OK);
    add_flow(q, "buys", buys);
    start(q, "buys", "b");
    expect_end(q, "b", "completed", "[{\"got\":\"a quipu\"},422]");
    rt_close(q);
    rt_check(rt_path, 2);
    rt_end();
}

/* ------------------------------------------------------------------------------------ who is not there */

static int hopes(qp_flow *flow, qp_str input, void *context)
{
    qp_str output;
    (void)context;
    QP_TRY(qp_child(flow, "later", input, NULL, &output));
    QP_TRY(qp_listen(flow, "go", NULL, NULL));
    return qp_return(flow, output);
}

/* A name that nobody has announced is a flow's, and its job waits for a process that has the function. */
static void test_unknown_name(void **state)
{
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        rt_worker(q, "echo", echo, NULL);
        add_flow(q, "hopes", hopes);
        start(q, "hopes", "h");
        rt_poll(q);
        rt_expect(q, "h", "waiting", NULL);
        add_flow(q, "later", answers);
        send(q, "h", "go");
        expect_end(q, "h", "completed", "7");
        end(q, 2);
    }
}

static int see_job(void *context, const struct qp_job_info *job)
{
    (void)snprintf(context, 256, "%.*s", STR_ARG(job->waits_for));
    return QP_OK;
}

static int see_activity(void *context, const struct qp_activity *a)
{
    char *text = context;
    size_t n = strlen(text);
    if (!str_is_none(a->location)) {
        (void)snprintf(text + n, 1024 - n, "%.*s %s %.*s %s %.*s\n", STR_ARG(a->location), a->type,
                       STR_ARG(a->topic), a->status, STR_ARG(a->note));
    }
    return QP_OK;
}

static int looks(qp_flow *flow, qp_str input, void *context)
{
    (void)context;
    QP_TRY(qp_child(flow, "answers", input, &(struct qp_child){.id = "a-1"}, NULL));
    if (qp_child(flow, "fails", input, &(struct qp_child){.id = "f-1"}, NULL) != QP_E_FAILED) {
        return QP_E_SUSPENDED;
    }
    QP_TRY(qp_child(flow, "waits", input, &(struct qp_child){.id = "w-1", .detached = true}, NULL));
    return qp_child(flow, "waits", input, &(struct qp_child){.id = "w-2"}, NULL);
}

/* What people see: which child is awaited, and what became of the others. */
static void test_shown(void **state)
{
    struct qp_err err = {0};
    char waiting[256] = "";
    char history[1024] = "";
    bool more = false;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    rt_worker(q, "echo", echo, NULL);
    add_flow(q, "looks", looks);
    add_flow(q, "answers", answers);
    add_flow(q, "fails", fails);
    add_flow(q, "waits", waits);
    start(q, "looks", "l");
    rt_poll(q);
    assert_int_equal(qp_job_show(q, QP_NONE, QP_STR("l"), waiting, see_job, &err), QP_OK);
    assert_string_equal(waiting, "[\"child 'waits' at {4}: waits for job 'w-2'\"]");
    assert_int_equal(
        qp_activity_list(q, QP_NONE, QP_STR("l"), QP_NONE, 0, history, see_activity, &more, &err),
        QP_OK);
    assert_string_equal(history, "{1} child answers completed job 'a-1'\n"
                                 "{2} child fails errored job 'f-1': no van\n"
                                 "{3} child waits completed job 'w-1'\n"
                                 "{4} child waits started waits for job 'w-2'\n");
    send(q, "w-1", "go");
    send(q, "w-2", "go");
    expect_end(q, "l", "completed", "null");
    rt_close(q);
    rt_check(rt_path, 5);
    rt_end();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),       cmocka_unit_test(test_handles_and_edits),
        cmocka_unit_test(test_mistakes_park), cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_unknown_name),  cmocka_unit_test(test_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

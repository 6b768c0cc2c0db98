/* test_flow_api.c - flows behind quipu.h, from qp_flow_add to the output of the job, on every kind of store
 *
 *   calls        each durable call with real workers, timers and signals, driven by qp_job_wait, by threads and by qp_run
 *   time         sleeps of a year, on a clock that the test moves
 *   restarts     a flow goes on in a process that opens the store again, wherever it stood
 *   edits        code that changes under a running job; code that contradicts its history parks the job, and a retry after
 *                the code was reverted finishes it
 *   ends         cancelled while it waits, and while it is parked; failed; mistakes of the code
 *   names        what qp_flow_add and a start refuse
 *
 * Every test ends with a store that obeys all rules of fsck.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/runtest.h"

/* ---------------------------------------------------------------------------------------- the world */

static int echo(void *context, qp_task *task)
{
    (void)context;
    return qp_task_output(task, qp_task_input(task));
}

/* Fails twice, then says at which attempt it succeeded. */
static int flaky(void *context, qp_task *task)
{
    (void)context;
    if (qp_task_attempt(task) < 3) {
        return qp_task_fail(task, &(struct qp_failure){.message = "the service is down"});
    }
    return qp_task_output(task, QP_STR("3"));
}

static int broken(void *context, qp_task *task)
{
    (void)context;
    return qp_task_fail(task, &(struct qp_failure){.message = "no such card", .code = 404});
}

/* Never answers: what is detached stays in hand until the engine closes. */
static int stuck(void *context, qp_task *task)
{
    (void)context;
    return qp_task_detach(task, NULL);
}

static void add_workers(qp *q)
{
    rt_worker(q, "echo", echo, NULL);
    rt_worker(q, "flaky", flaky, NULL);
    rt_worker(q, "broken", broken, NULL);
    rt_worker(q, "stuck", stuck, NULL);
}

static void add_flow(qp *q, const char *name, qp_flow_function function, void *context)
{
    struct qp_err err = {0};
    if (qp_flow_add(q,
                    &(struct qp_flow_kind){
                        .name = str_from(name), .function = function, .context = context},
                    &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
}

static void start(qp *q, const char *flow, const char *id)
{
    rt_start_with(
        q, &(struct qp_start){.topic = str_from(flow), .id = str_from(id), .input = QP_STR("7")});
}

static void send(qp *q, const char *id, const char *name, const char *data)
{
    struct qp_err err = {0};
    if (qp_signal_send(q,
                       &(struct qp_signal){
                           .job = str_from(id), .topic = str_from(name), .payload = str_from(data)},
                       &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
}

/* Driven until the job has ended, and compared. */
static void expect_end(qp *q, const char *id, const char *status, const char *text)
{
    rt_wait(q, id, status);
    rt_expect(q, id, status, text);
}

/* Driven until the job is parked; its reason has the text. */
static void expect_parked(qp *q, const char *id, const char *text)
{
    struct qp_err err = {0};
    struct qp_job job;
    assert_int_equal(qp_job_wait(q, str_from(id), 30000, &job, &err), QP_E_PARKED);
    assert_int_equal(qp_job_get(q, str_from(id), &job, &err), QP_OK);
    assert_string_equal(job.status, "parked");
    if (memmem(job.error.p, job.error.n, text, strlen(text)) == NULL) {
        fail_msg("'%s' is not in: %.*s", text, STR_ARG(job.error));
    }
    qp_job_done(q, &job);
}

static void retry(qp *q, const char *id)
{
    struct qp_err err = {0};
    if (qp_job_retry(q, str_from(id), &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
}

/* Closed, and checked where there is something left of it. */
static void end(qp *q, int64_t jobs)
{
    rt_close(q);
    if (rt_place != NULL) {
        rt_check(rt_place, jobs);
    }
    rt_end();
}

/* The text of a JSON value, for flows that build one: lives until the function returns. */
static qp_str text_of(char *out, size_t size, const char *format, ...) QP_PRINTF(3, 4);
static qp_str text_of(char *out, size_t size, const char *format, ...)
{
    va_list args;
    int n;
    va_start(args, format);
    n = vsnprintf(out, size, format, args);
    va_end(args);
    QP_ASSERT(n >= 0 && (size_t)n < size);
    return (qp_str){out, (size_t)n};
}

/* Of a slice, which does not end in a NUL. */
static long number_of(qp_str json)
{
    char text[32];
    QP_ASSERT(json.n < sizeof text);
    memcpy(text, json.p, json.n);
    text[json.n] = '\0';
    return strtol(text, NULL, 10);
}

/* ------------------------------------------------------------------------------------- what flows do */

static int seven(qp_flow *flow, void *context)
{
    (void)context;
    return qp_return(flow, QP_STR("[7]"));
}

static int steps(qp_flow *flow, qp_str input, void *context)
{
    qp_str first;
    qp_str second;
    QP_TRY(qp_activity(flow, "echo", input, NULL, &first));
    QP_TRY(qp_inline(flow, "look", seven, context, &second));
    QP_TRY(qp_activity(flow, "echo", second, NULL, &second));
    return qp_return(flow, second);
}

static int retries(qp_flow *flow, qp_str input, void *context)
{
    qp_str attempt;
    (void)context;
    QP_TRY(qp_activity(flow, "flaky", input, &(struct qp_step){.attempts = 3, .backoff_ms = 1},
                       &attempt));
    return qp_return(flow, attempt);
}

/* What qp_flow_error says of an activity with this policy. */
static int error_of(qp_flow *flow, const char *name, const struct qp_step *step)
{
    char text[512];
    struct qp_flow_error error;
    int rc = qp_activity(flow, name, QP_STR("1"), step, NULL);
    if (rc != QP_E_FAILED) {
        return rc == QP_OK ? qp_flow_fail(flow, "it succeeded") : rc;
    }
    qp_flow_error(flow, &error);
    return qp_return(flow, text_of(text, sizeof text, "[%d,\"%.*s\",\"%.*s\"]", error.code,
                                   STR_ARG(error.name), STR_ARG(error.location)));
}

static int handles_404(qp_flow *flow, qp_str input, void *context)
{
    static const int never[] = {404};
    return error_of(flow, "broken", &(struct qp_step){.never = never, .never_count = 1});
}

static int handles_timeout(qp_flow *flow, qp_str input, void *context)
{
    return error_of(flow, "stuck", &(struct qp_step){.attempts = 1, .timeout_ms = 20});
}

static int handles_no_worker(qp_flow *flow, qp_str input, void *context)
{
    return error_of(flow, "nobody", &(struct qp_step){.attempts = 1, .start_timeout_ms = 20});
}

static int fails_by_activity(qp_flow *flow, qp_str input, void *context)
{
    return qp_activity(flow, "broken", input, &(struct qp_step){.attempts = 1}, NULL);
}

static int fails_by_itself(qp_flow *flow, qp_str input, void *context)
{
    return qp_flow_fail(flow, "no approval within three days");
}

static int all_of_20(qp_flow *flow, qp_str input, void *context)
{
    qp_handle parts[20];
    char text[64];
    long sum = 0;
    for (int i = 0; i < 20; i++) {
        QP_TRY(
            qp_begin_activity(flow, "echo", text_of(text, sizeof text, "%d", i), NULL, &parts[i]));
    }
    QP_TRY(qp_all(flow, parts, 20));
    for (int i = 0; i < 20; i++) {
        qp_str output;
        QP_TRY(qp_output(flow, parts[i], &output));
        sum = sum * 3 + number_of(output);
        sum %= 1000003;
    }
    return qp_return(flow, text_of(text, sizeof text, "%ld", sum));
}

/* The two sleeps are still open when it returns: the job ends with them. */
static int any_of_3(qp_flow *flow, qp_str input, void *context)
{
    qp_handle parts[3];
    size_t first = 9;
    char text[64];
    QP_TRY(qp_begin_sleep(flow, 120, &parts[0]));
    QP_TRY(qp_begin_activity(flow, "echo", input, NULL, &parts[1]));
    QP_TRY(qp_begin_sleep(flow, 130, &parts[2]));
    QP_TRY(qp_any(flow, parts, 3, &first));
    return qp_return(flow, text_of(text, sizeof text, "%zu", first));
}

/* What is derived is the same before and after a wait. */
static int derives(qp_flow *flow, qp_str input, void *context)
{
    char uuid[QP_UUID_SIZE];
    char text[128];
    qp_str recorded;
    qp_ms before = qp_now(flow);
    uint64_t random = qp_random(flow);
    qp_uuid(flow, uuid);
    QP_TRY(qp_activity(flow, "echo",
                       text_of(text, sizeof text, "[\"%s\",\"%llx\",%lld]", uuid,
                               (unsigned long long)random, (long long)before),
                       NULL, &recorded));
    QP_TRY(qp_sleep(flow, 20));
    if (!qp_str_is(recorded, text) || qp_now(flow) < before + 20) {
        return qp_flow_fail(flow, "another value in another run");
    }
    QP_TRY(qp_sleep_until(flow, before));
    return qp_return(flow, QP_STR("\"same\""));
}

static int times_out(qp_flow *flow, qp_str input, void *context)
{
    qp_str data = QP_STR("1");
    QP_TRY(qp_listen(flow, "go", &(struct qp_listen){.timeout_ms = 20}, &data));
    return qp_return(flow, data.p == NULL ? QP_STR("\"timeout\"") : data);
}

static int count_up(qp_flow *flow, qp_str input, void *context)
{
    struct qp_loop loop = {.name = "count", .state = QP_STR("0")};
    char text[32];
    while (qp_loop_next(flow, &loop)) {
        long at = number_of(loop.state);
        QP_TRY(qp_activity(flow, "echo", loop.state, NULL, NULL));
        if (loop.iteration == 4) {
            qp_loop_break(flow, &loop, QP_STR("\"enough\""));
        }
        qp_loop_state(flow, &loop, text_of(text, sizeof text, "%ld", at + 10));
    }
    QP_TRY(loop.rc);
    return qp_return(flow, text_of(text, sizeof text, "[%.*s,%.*s,%lld]", STR_ARG(loop.output),
                                   STR_ARG(loop.state), (long long)loop.iteration));
}

static int body(qp_flow *flow, void *context)
{
    qp_str output;
    QP_TRY(qp_sleep(flow, 5));
    QP_TRY(qp_activity(flow, "echo", str_from(context), NULL, &output));
    return qp_return(flow, output);
}

static int body_fails(qp_flow *flow, void *context)
{
    QP_TRY(qp_activity(flow, "echo", QP_STR("1"), NULL, NULL));
    return qp_flow_fail(flow, "not in here");
}

static int closures(qp_flow *flow, qp_str input, void *context)
{
    char a[] = "\"a\"";
    char b[] = "\"b\"";
    char text[64];
    qp_handle parts[2];
    qp_str outputs[2];
    int rc;
    QP_TRY(qp_begin_closure(flow, "left", body, a, &parts[0]));
    QP_TRY(qp_begin_closure(flow, "right", body, b, &parts[1]));
    QP_TRY(qp_all(flow, parts, 2));
    QP_TRY(qp_output(flow, parts[0], &outputs[0]));
    QP_TRY(qp_output(flow, parts[1], &outputs[1]));
    rc = qp_closure(flow, "fails", body_fails, NULL, NULL);
    if (rc != QP_E_FAILED) {
        return rc == QP_OK ? qp_flow_fail(flow, "it succeeded") : rc;
    }
    return qp_return(
        flow, text_of(text, sizeof text, "[%.*s,%.*s]", STR_ARG(outputs[0]), STR_ARG(outputs[1])));
}

static const struct flow_case {
    const char *name;
    qp_flow_function function;
    const char *status;
    const char *text;
} cases[] = {
    {"steps", steps, "completed", "[7]"},
    {"retries", retries, "completed", "3"},
    {"handles-404", handles_404, "completed", "[404,\"broken\",\"{1}\"]"},
    {"handles-timeout", handles_timeout, "completed", "[408,\"stuck\",\"{1}\"]"},
    {"handles-no-worker", handles_no_worker, "completed", "[408,\"nobody\",\"{1}\"]"},
    {"fails-by-activity", fails_by_activity, "failed",
     "{\"code\":404,\"message\":\"no such card\",\"activity\":\"broken\",\"address\":\"{1}\"}"},
    {"fails-by-itself", fails_by_itself, "failed", "no approval within three days"},
    {"all-of-20", all_of_20, "completed", "693477"},
    {"any-of-3", any_of_3, "completed", "1"},
    {"derives", derives, "completed", "\"same\""},
    {"times-out", times_out, "completed", "\"timeout\""},
    {"count-up", count_up, "completed", "[\"enough\",50,5]"},
    {"closures", closures, "completed", "[\"a\",\"b\"]"},
};

static void begin_cases(qp *q)
{
    add_workers(q);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        add_flow(q, cases[i].name, cases[i].function, NULL);
    }
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        start(q, cases[i].name, cases[i].name);
    }
}

static void expect_cases(qp *q)
{
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        expect_end(q, cases[i].name, cases[i].status, cases[i].text);
    }
}

/* Every durable call does what quipu.h says, when the caller of qp_job_wait drives. */
static void test_calls(void **state)
{
    for (int kind = 0; kind < rt_kinds(); kind++) {
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        begin_cases(q);
        expect_cases(q);
        end(q, ARRAY_COUNT(cases));
    }
}

/* The same with threads: decisions read their histories beside the engine. 0 workers: on the engine's own thread. */
static void test_calls_with_threads(void **state)
{
    static const int threads[] = {0, 1, 4};
    for (int kind = 0; kind < rt_kinds(); kind++) {
        for (size_t i = 0; i < ARRAY_COUNT(threads); i++) {
            struct qp_err err = {0};
            qp *q;
            rt_begin_on(kind);
            q = rt_open(rt_place);
            assert_int_equal(qp_start_threads(q, threads[i], &err), QP_OK);
            begin_cases(q);
            expect_cases(q);
            end(q, ARRAY_COUNT(cases));
        }
    }
}

static void *run_main(void *engine)
{
    struct qp_err err = {0};
    int rc = qp_run(engine, &err);
    QP_ASSERT(rc == QP_OK);
    return NULL;
}

/* The same on the thread of qp_run. */
static void test_calls_with_run(void **state)
{
    for (int kind = 0; kind < rt_kinds(); kind++) {
        pthread_t thread;
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        assert_int_equal(pthread_create(&thread, NULL, run_main, q), 0);
        begin_cases(q);
        expect_cases(q);
        qp_stop(q);
        assert_int_equal(pthread_join(thread, NULL), 0);
        end(q, ARRAY_COUNT(cases));
    }
}

/* ------------------------------------------------------------------------------------------- signals */

static int listens(qp_flow *flow, qp_str input, void *context)
{
    static const char *const others[] = {"left", "right"};
    char text[256];
    qp_str first;
    qp_str other;
    qp_str name = QP_NONE;
    qp_str more;
    QP_TRY(qp_listen(flow, "go", NULL, &first));
    QP_TRY(qp_listen(flow, "middle",
                     &(struct qp_listen){.others = others,
                                         .other_count = ARRAY_COUNT(others),
                                         .timeout_ms = QP_HOURS(1),
                                         .out_name = &name},
                     &other));
    QP_TRY(qp_listen(flow, "many", &(struct qp_listen){.limit = 10}, &more));
    return qp_return(flow, text_of(text, sizeof text, "[%.*s,\"%.*s\",%.*s,%d]", STR_ARG(first),
                                   STR_ARG(name), STR_ARG(other),
                                   memmem(more.p, more.n, "\"data\":5", 8) != NULL));
}

/* Signals that came early are kept and received in order, each once; one of several names ends a listen; several come at
 * once. */
static void test_listens(void **state)
{
    for (int kind = 0; kind < rt_kinds(); kind++) {
        struct qp_err err = {0};
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        add_flow(q, "listens", listens, NULL);
        start(q, "listens", "early");
        send(q, "early", "right", "2");
        send(q, "early", "many", "4");
        send(q, "early", "many", "5");
        send(q, "early", "go", "1");
        expect_end(q, "early", "completed", "[1,\"right\",2,1]");
        assert_int_equal(qp_signal_send(q,
                                        &(struct qp_signal){.job = QP_STR("early"),
                                                            .topic = QP_STR("go"),
                                                            .payload = QP_STR("1")},
                                        &err),
                         QP_E_CLOSED);
        start(q, "listens", "late");
        rt_poll(q);
        rt_expect(q, "late", "waiting", NULL);
        send(q, "late", "go", "1");
        rt_poll(q);
        send(q, "late", "left", "2");
        rt_poll(q);
        send(q, "late", "many", "5");
        expect_end(q, "late", "completed", "[1,\"left\",2,1]");
        end(q, 2);
    }
}

static int ponger(qp_flow *flow, qp_str input, void *context)
{
    qp_str from;
    QP_TRY(qp_listen(flow, "ping", NULL, &from));
    QP_TRY(qp_signal_flow(flow, QP_STR("ping-1"), "pong", QP_STR("\"back\"")));
    QP_TRY(qp_signal_flow(flow, QP_STR("not-there"), "pong", QP_STR("1")));
    return qp_return(flow, from);
}

static int pinger(qp_flow *flow, qp_str input, void *context)
{
    qp_str answer;
    QP_TRY(qp_signal_flow(flow, QP_STR("pong-1"), "ping", QP_STR("\"there\"")));
    QP_TRY(qp_listen(flow, "pong", NULL, &answer));
    return qp_return(flow, answer);
}

/* Two flows signal each other by the ids of their jobs; a signal to a job that is not there harms nothing. */
static void test_flows_signal_each_other(void **state)
{
    for (int kind = 0; kind < rt_kinds(); kind++) {
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        add_flow(q, "ponger", ponger, NULL);
        add_flow(q, "pinger", pinger, NULL);
        start(q, "ponger", "pong-1");
        start(q, "pinger", "ping-1");
        expect_end(q, "ping-1", "completed", "\"back\"");
        expect_end(q, "pong-1", "completed", "\"there\"");
        end(q, 2);
    }
}

/* ----------------------------------------------------------------------------------------------- time */

static int sleeps_a_year(qp_flow *flow, qp_str input, void *context)
{
    char text[32];
    qp_ms began = qp_now(flow);
    qp_str answer;
    QP_TRY(qp_sleep(flow, QP_DAYS(365)));
    QP_TRY(qp_listen(flow, "go", &(struct qp_listen){.timeout_ms = QP_DAYS(30)}, &answer));
    return qp_return(
        flow, text_of(text, sizeof text, "%lld", (long long)(qp_now(flow) - began) / QP_DAYS(1)));
}

/* Time that a test moves: nothing happens a day before, all of it a day after; the time that the flow sees is that of what it
 * waited for. */
static void test_a_year(void **state)
{
    for (int kind = 0; kind < RT_SERVER; kind++) { /* the clock of a server is its own */
        qp *q;
        rt_begin(RT_VIRTUAL);
        rt_place = kind == RT_MEMORY ? NULL : rt_path;
        q = rt_open(rt_place);
        add_flow(q, "year", sleeps_a_year, NULL);
        start(q, "year", "y");
        rt_poll(q);
        testenv_advance_ms(&rt, QP_DAYS(364));
        rt_poll(q);
        rt_expect(q, "y", "waiting", NULL);
        testenv_advance_ms(&rt, QP_DAYS(1));
        rt_poll(q);
        rt_expect(q, "y", "waiting", NULL);
        testenv_advance_ms(&rt, QP_DAYS(30));
        rt_poll(q);
        rt_expect(q, "y", "completed", "395");
        end(q, 1);
    }
}

/* ------------------------------------------------------------------------------------------- restarts */

/* Waits for a signal at every step, so that a test can stop anywhere. */
static int waits_often(qp_flow *flow, qp_str input, void *context)
{
    struct qp_loop loop = {.name = "rounds", .state = QP_STR("0")};
    char text[32];
    while (qp_loop_next(flow, &loop)) {
        qp_str said;
        long sum = number_of(loop.state);
        QP_TRY(qp_listen(flow, "say", NULL, &said));
        QP_TRY(qp_activity(flow, "echo", said, NULL, &said));
        qp_loop_state(flow, &loop, text_of(text, sizeof text, "%ld", sum + number_of(said)));
        if (loop.iteration == 4) {
            qp_loop_break(flow, &loop, QP_NONE);
        }
    }
    QP_TRY(loop.rc);
    return qp_return(flow, loop.state);
}

/* The store is closed and opened again at every step, also before there is a function for the flow: the job waits for one. */
static void test_restarts(void **state)
{
    for (int kind = RT_FILE; kind < rt_kinds(); kind++) {
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        add_flow(q, "often", waits_often, NULL);
        rt_close(q);
        q = rt_open(rt_place);
        start(q, "often", "o");
        for (int i = 1; i <= 5; i++) {
            char said[8];
            rt_close(q);
            q = rt_open(rt_place);
            add_flow(q, "often", waits_often, NULL);
            rt_poll(q);
            (void)snprintf(said, sizeof said, "%d", i);
            send(q, "o", "say", said);
            rt_poll(q);
            rt_expect(q, "o", "running", NULL); /* there is no worker for its activity */
            rt_close(q);
            q = rt_open(rt_place);
            add_workers(q);
            rt_poll(q);
        }
        add_flow(q, "often", waits_often, NULL);
        expect_end(q, "o", "completed", "15");
        end(q, 1);
    }
}

/* ---------------------------------------------------------------------------------------------- edits */

enum edition { FIRST, EDITED, WRONG };

/* The code of a flow as three programs had it. The edited one has an inserted step, a removed one, and asks for the version
 * where it goes another way; the wrong one has exchanged a step and says nothing about it. */
static int edited_flow(qp_flow *flow, qp_str input, void *context)
{
    enum edition edition = *(const enum edition *)context;
    int64_t version = 1;
    char text[64];
    QP_TRY(qp_activity(flow, edition == WRONG ? "exchanged" : "echo", input, NULL, NULL));
    if (edition == EDITED) {
        QP_TRY(qp_activity(qp_v(flow, 2), "echo", QP_STR("\"inserted\""), NULL, NULL));
        QP_TRY(qp_removed(flow, QP_EVENT_RUN, "old"));
    } else {
        QP_TRY(qp_inline(flow, "old", seven, NULL, NULL));
    }
    QP_TRY(qp_listen(flow, "go", NULL, NULL));
    if (edition == EDITED) {
        QP_TRY(qp_check_version(flow, 2, &version));
    }
    QP_TRY(qp_activity(version == 2 ? qp_v(flow, 2) : flow, "echo", QP_STR("1"), NULL, NULL));
    QP_TRY(qp_listen(flow, "end", NULL, NULL));
    return qp_return(flow, text_of(text, sizeof text, "%lld", (long long)version));
}

/* Code that was edited with qp_v, qp_removed and qp_check_version: a job that is past the place, one that is not, and a new
 * one all finish. */
static void test_edits_of_running_flows(void **state)
{
    static const struct {
        const char *id;
        const char *version; /* that check_version says */
    } jobs[] = {{"past", "1"}, {"before", "2"}, {"new", "2"}};
    for (int kind = 0; kind < rt_kinds(); kind++) {
        enum edition edition = FIRST;
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        add_workers(q);
        add_flow(q, "edited", edited_flow, &edition);
        start(q, "edited", "past");
        start(q, "edited", "before");
        send(q, "past", "go", "1");
        rt_poll(q);
        edition = EDITED;
        start(q, "edited", "new");
        send(q, "before", "go", "1");
        send(q, "new", "go", "1");
        for (size_t i = 0; i < ARRAY_COUNT(jobs); i++) {
            send(q, jobs[i].id, "end", "1");
        }
        for (size_t i = 0; i < ARRAY_COUNT(jobs); i++) {
            expect_end(q, jobs[i].id, "completed", jobs[i].version);
        }
        end(q, ARRAY_COUNT(jobs));
    }
}

/* A wrong edit parks the job, with the location and both sides in its reason, and nothing is written; when the code is
 * reverted, a retry finishes the job. */
static void test_a_wrong_edit_parks(void **state)
{
    for (int kind = 0; kind < rt_kinds(); kind++) {
        enum edition edition = FIRST;
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        add_workers(q);
        add_flow(q, "edited", edited_flow, &edition);
        start(q, "edited", "j");
        rt_poll(q);
        edition = WRONG;
        send(q, "j", "go", "1");
        expect_parked(q, "j", "history_diverged");
        expect_parked(q, "j", "{1}");
        expect_parked(q, "j", "exchanged");
        retry(q, "j");
        expect_parked(q, "j", "exchanged");
        edition = FIRST;
        send(q, "j", "end", "1"); /* also while it is parked */
        retry(q, "j");
        expect_end(q, "j", "completed", "1");
        end(q, 1);
    }
}

/* ----------------------------------------------------------------------------------------------- ends */

static int waits_for_ever(qp_flow *flow, qp_str input, void *context)
{
    qp_handle parts[3];
    QP_TRY(qp_begin_activity(flow, "nobody", input, NULL, &parts[0]));
    QP_TRY(qp_begin_sleep(flow, QP_DAYS(365), &parts[1]));
    QP_TRY(qp_begin_listen(flow, "go", &(struct qp_listen){.timeout_ms = QP_DAYS(3)}, &parts[2]));
    return qp_all(flow, parts, 3);
}

/* Cancelled, it ends at once: while it waits for an activity, a time and a signal; while no process has its function; while
 * it is parked. */
static void test_cancel(void **state)
{
    for (int kind = 0; kind < rt_kinds(); kind++) {
        enum edition edition = FIRST;
        struct qp_err err = {0};
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        add_workers(q);
        add_flow(q, "waits", waits_for_ever, NULL);
        add_flow(q, "edited", edited_flow, &edition);
        start(q, "waits", "waits");
        start(q, "edited", "parked");
        rt_poll(q);
        edition = WRONG;
        send(q, "parked", "go", "1");
        expect_parked(q, "parked", "exchanged");
        assert_int_equal(qp_job_cancel(q, QP_STR("waits"), "enough", &err), QP_OK);
        assert_int_equal(qp_job_cancel(q, QP_STR("parked"), "enough", &err), QP_OK);
        rt_expect(q, "parked", "cancelled", NULL);
        rt_poll(q);
        rt_expect(q, "waits", "cancelled", NULL);
        end(q, 2);
    }
}

static int mistake(qp_flow *flow, qp_str input, void *context)
{
    return qp_activity(*(bool *)context ? flow : qp_v(flow, 0), "echo", input, NULL, NULL);
}

/* A mistake in the code would come again: the job is parked at once, and a retry after the correction finishes it. */
static void test_a_mistake_parks(void **state)
{
    for (int kind = 0; kind < rt_kinds(); kind++) {
        bool corrected = false;
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        add_workers(q);
        add_flow(q, "mistake", mistake, &corrected);
        start(q, "mistake", "m");
        expect_parked(q, "m", "qp_v");
        corrected = true;
        retry(q, "m");
        expect_end(q, "m", "completed", "null");
        end(q, 1);
    }
}

static int passes_later(qp_flow *flow, qp_str input, void *context)
{
    int *left = context;
    return (*left)-- > 0 ? QP_E_IO : qp_return(flow, input);
}

/* A code of the function's own is repeated with backoff, and the job is parked after the tenth time; retried, it begins to
 * count again. */
static void test_a_failing_function_is_repeated(void **state)
{
    for (int kind = 0; kind < RT_SERVER; kind++) {
        int left = 15;
        qp *q;
        rt_begin(RT_VIRTUAL);
        rt_place = kind == RT_MEMORY ? NULL : rt_path;
        q = rt_open(rt_place);
        add_flow(q, "later", passes_later, &left);
        start(q, "later", "l");
        for (int i = 0; i < 20; i++) {
            rt_poll(q);
            testenv_advance_ms(&rt, QP_MINUTES(2));
        }
        assert_int_equal(left, 5);
        expect_parked(q, "l", "decision_failed");
        retry(q, "l");
        for (int i = 0; i < 20; i++) {
            rt_poll(q);
            testenv_advance_ms(&rt, QP_MINUTES(2));
        }
        rt_expect(q, "l", "completed", "7");
        end(q, 1);
    }
}

/* ---------------------------------------------------------------------------------------------- names */

#define GRAPH                                                                                      \
    "app:\n"                                                                                       \
    "  id: shop\n"                                                                                 \
    "  version: '1'\n"                                                                             \
    "  graphs:\n"                                                                                  \
    "    - subscribes: order\n"                                                                    \
    "      activities:\n"                                                                          \
    "        begin: {type: trigger}\n"

static int add_code(qp *q, const char *name, qp_flow_function function, struct qp_err *err)
{
    *err = (struct qp_err){0};
    return qp_flow_add(q, &(struct qp_flow_kind){.name = str_from(name), .function = function},
                       err);
}

static void assert_says(const struct qp_err *err, const char *text)
{
    if (strstr(err->text, text) == NULL) {
        fail_msg("'%s' is not in: %s", text, err->text);
    }
}

/* What qp_flow_add refuses, and why; a refused name means what it meant. */
static void test_names(void **state)
{
    char long_name[300];
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    for (int kind = 0; kind < rt_kinds(); kind++) {
        struct qp_deployed deployed;
        struct qp_err err = {0};
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        assert_int_equal(qp_deploy(q, &(struct qp_deploy){.text = QP_STR(GRAPH), .activate = true},
                                   &deployed, &err),
                         QP_OK);
        rt_start(q, "plain");
        assert_int_equal(add_code(q, "", steps, &err), QP_E_INVALID);
        assert_int_equal(add_code(q, "a b", steps, &err), QP_E_INVALID);
        assert_int_equal(add_code(q, long_name, steps, &err), QP_E_TOO_LARGE);
        assert_int_equal(add_code(q, long_name + sizeof long_name - 256, steps, &err),
                         QP_E_TOO_LARGE);
        assert_says(&err, "the name of a flow must have 1 to 254 bytes, got 255");
        assert_int_equal(add_code(q, long_name + sizeof long_name - 255, steps, &err), QP_OK);
        assert_int_equal(add_code(q, "good", NULL, &err), QP_E_INVALID);
        assert_says(&err, "function");
        assert_int_equal(add_code(q, "order", steps, &err), QP_E_CONFLICT);
        assert_says(&err, "'order'");
        assert_says(&err, "shop");
        assert_int_equal(add_code(q, "work", steps, &err), QP_E_CONFLICT);
        assert_says(&err, "1 open job");
        assert_int_equal(qp_job_cancel(q, QP_STR("plain"), "enough", &err), QP_OK);
        assert_int_equal(add_code(q, "work", steps, &err), QP_OK);
        assert_int_equal(add_code(q, "work", steps, &err), QP_E_EXISTS);
        assert_says(&err, "'work'");
        end(q, 1);
    }
}

/* A name is a flow's for good: also after a restart and without its function, when its jobs wait. A start with a retry
 * policy is refused: activities have their own. A graph cannot take the name. */
static void test_a_name_is_durable(void **state)
{
    for (int kind = RT_FILE; kind < rt_kinds(); kind++) {
        struct qp_deployed deployed;
        struct qp_err err = {0};
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        add_flow(q, "order", steps, NULL);
        rt_close(q);
        q = rt_open(rt_place);
        start(q, "order", "o");
        assert_int_equal(qp_job_start(q,
                                      &(struct qp_start){.topic = QP_STR("order"),
                                                         .input = QP_STR("1"),
                                                         .retry = {.attempts = 2}},
                                      NULL, &err),
                         QP_E_INVALID);
        assert_says(&err, "is a flow");
        assert_int_equal(qp_deploy(q, &(struct qp_deploy){.text = QP_STR(GRAPH), .activate = true},
                                   &deployed, &err),
                         QP_E_CONFLICT);
        add_workers(q);
        add_flow(q, "order", steps, NULL);
        expect_end(q, "o", "completed", "[7]");
        end(q, 1);
    }
}

/* ---------------------------------------------------------------------------------------------- many */

#define PARTS 600
#define PART_SIZE 5000

static int large(qp_flow *flow, qp_str input, void *context)
{
    static char text[PART_SIZE];
    qp_handle parts[PARTS];
    memset(text, ' ', sizeof text);
    text[0] = '1';
    for (int i = 0; i < PARTS; i++) {
        QP_TRY(qp_begin_activity(flow, "echo", (qp_str){text, sizeof text}, NULL, &parts[i]));
    }
    QP_TRY(qp_all(flow, parts, PARTS));
    return qp_return(flow, input);
}

/* A decision may be larger than any input: 600 activities of 5,000 bytes in one commit. */
static void test_a_large_decision(void **state)
{
    for (int kind = 0; kind < rt_kinds(); kind++) {
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        add_workers(q);
        add_flow(q, "large", large, NULL);
        start(q, "large", "l");
        expect_end(q, "l", "completed", "7");
        end(q, 1);
    }
}

/* Eleven flows of every case at once on four threads, with a close and an open in the middle of them. */
static void test_many(void **state)
{
    enum { ROUNDS = 10 };
    for (int kind = 0; kind < rt_kinds(); kind++) {
        struct qp_err err = {0};
        char id[64];
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        assert_int_equal(qp_start_threads(q, 4, &err), QP_OK);
        begin_cases(q);
        for (int i = 0; i < ROUNDS; i++) {
            for (size_t c = 0; c < ARRAY_COUNT(cases); c++) {
                (void)snprintf(id, sizeof id, "%s-%d", cases[c].name, i);
                start(q, cases[c].name, id);
            }
        }
        if (rt_place != NULL) {
            rt_close(q);
            q = rt_open(rt_place);
            assert_int_equal(qp_start_threads(q, 4, &err), QP_OK);
            add_workers(q);
            for (size_t c = 0; c < ARRAY_COUNT(cases); c++) {
                add_flow(q, cases[c].name, cases[c].function, NULL);
            }
        }
        expect_cases(q);
        for (int i = 0; i < ROUNDS; i++) {
            for (size_t c = 0; c < ARRAY_COUNT(cases); c++) {
                (void)snprintf(id, sizeof id, "%s-%d", cases[c].name, i);
                expect_end(q, id, cases[c].status, cases[c].text);
            }
        }
        end(q, (ROUNDS + 1) * ARRAY_COUNT(cases));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_calls_with_threads),
        cmocka_unit_test(test_calls_with_run),
        cmocka_unit_test(test_listens),
        cmocka_unit_test(test_flows_signal_each_other),
        cmocka_unit_test(test_a_year),
        cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_edits_of_running_flows),
        cmocka_unit_test(test_a_wrong_edit_parks),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_a_mistake_parks),
        cmocka_unit_test(test_a_failing_function_is_repeated),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_a_name_is_durable),
        cmocka_unit_test(test_a_large_decision),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

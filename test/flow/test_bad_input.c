/* test_bad_input.c - what a flow's code can do wrong, each through quipu.h: the job is parked, its reason has a sentence that
 * names the call, nothing is written to its history, and it can be cancelled
 *
 * The codes that the calls return stand in test_script.c (test_mistakes), one per line of the same list.
 */
#include <pthread.h>
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

/* ----------------------------------------------------------------------------------------- mistakes */

static int bad_v(qp_flow *flow, qp_str input, void *context)
{
    (void)context;
    return qp_activity(qp_v(flow, 0), "a", input, NULL, NULL);
}

static int bad_check(qp_flow *flow, qp_str input, void *context)
{
    int64_t version;
    (void)input;
    (void)context;
    return qp_check_version(flow, 0, &version);
}

static int deeper(qp_flow *flow, void *context)
{
    return qp_closure(flow, "deeper", deeper, context, NULL);
}

static int too_deep(qp_flow *flow, qp_str input, void *context)
{
    (void)input;
    return deeper(flow, context);
}

static int no_name(qp_flow *flow, qp_str input, void *context)
{
    (void)context;
    return qp_activity(flow, "", input, NULL, NULL);
}

static int long_name(qp_flow *flow, qp_str input, void *context)
{
    static char name[LIMIT_NAME_SIZE + 2];
    (void)context;
    memset(name, 'n', LIMIT_NAME_SIZE + 1);
    return qp_activity(flow, name, input, NULL, NULL);
}

static int after_return(qp_flow *flow, qp_str input, void *context)
{
    (void)context;
    QP_TRY(qp_return(flow, input));
    return qp_sleep(flow, 10);
}

static void *from_elsewhere(void *flow)
{
    int rc = qp_sleep(flow, 10);
    QP_ASSERT(rc == QP_E_INVALID);
    return NULL;
}

static int other_thread(qp_flow *flow, qp_str input, void *context)
{
    pthread_t thread;
    int made = pthread_create(&thread, NULL, from_elsewhere, flow);
    (void)context;
    QP_ASSERT(made == 0 && pthread_join(thread, NULL) == 0);
    return qp_return(flow, input);
}

static int bad_output(qp_flow *flow, qp_str input, void *context)
{
    (void)input;
    (void)context;
    return qp_return(flow, QP_STR("{\"a\":"));
}

static int large_input(qp_flow *flow, qp_str input, void *context)
{
    static char text[LIMIT_PAYLOAD_SIZE + 1];
    (void)input;
    (void)context;
    memset(text, '1', sizeof text);
    return qp_activity(flow, "a", (qp_str){text, sizeof text}, NULL, NULL);
}

static int long_sleep(qp_flow *flow, qp_str input, void *context)
{
    (void)input;
    (void)context;
    return qp_sleep(flow, QP_DAYS(3654));
}

static int unknown_code(qp_flow *flow, qp_str input, void *context)
{
    (void)flow;
    (void)input;
    (void)context;
    return 77;
}

/* -------------------------------------------------------------------------------------------- tests */

static const struct mistake {
    const char *name;
    qp_flow_function function;
    const char *text;
} mistakes[] = {
    {"v", bad_v, "qp_v at the beginning of {}: n must be between 1 and 2147483647, got 0"},
    {"check", bad_check, "qp_check_version at the beginning of {}: "},
    {"deep", too_deep, "bad_location: "},
    {"no-name", no_name, "qp_activity at the beginning of {}: name"},
    {"long-name", long_name, "qp_activity at the beginning of {}: name"},
    {"after", after_return, "qp_sleep: called after qp_return, which ends 'after'"},
    {"thread", other_thread, "qp_sleep: called from another thread"},
    {"output", bad_output, "qp_return at the beginning of {}: output: "},
    {"input", large_input, "input: 2097153 bytes, the limit is 2097152"},
    {"sleep", long_sleep, "qp_sleep at the beginning of {}: "},
    {"code", unknown_code, "the function of 'code' returned 77"},
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

static void test_mistakes_park(void **state)
{
    struct qp_err err = {0};
    qp *q;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    for (size_t i = 0; i < ARRAY_COUNT(mistakes); i++) {
        qp_str name = str_from(mistakes[i].name);
        assert_int_equal(
            qp_flow_add(q, &(struct qp_flow_kind){.name = name, .function = mistakes[i].function},
                        &err),
            QP_OK);
        rt_start_with(q, &(struct qp_start){.topic = name, .id = name, .input = QP_STR("1")});
    }
    /* A code that is not known may be better the next time: that one is tried ten times. */
    for (int i = 0; i < 10; i++) {
        rt_poll(q);
        testenv_advance_ms(&rt, 60000);
    }
    rt_poll(q);
    for (size_t i = 0; i < ARRAY_COUNT(mistakes); i++) {
        expect_parked(q, &mistakes[i]);
    }
    rt_poll(q);
    rt_close(q);
    rt_check(rt_path, ARRAY_COUNT(mistakes));
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistakes_park),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

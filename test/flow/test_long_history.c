/* test_long_history.c - histories at their limits, through quipu.h
 *
 *   50,000 events   one warning in the log, and the flow goes on
 *   256 MiB         the flow is parked, and can be ended; nothing is lost (torture lane: it needs the memory)
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
#include "base/limits.h"
#include "support/runtest.h"

static int echo(void *context, qp_task *task)
{
    (void)context;
    return qp_task_output(task, qp_task_input(task));
}

static void begin(qp **out_q, qp_flow_function function)
{
    struct qp_err err = {0};
    rt_begin(RT_VIRTUAL);
    *out_q = rt_open(NULL);
    rt_worker(*out_q, "echo", echo, NULL);
    if (qp_flow_add(*out_q, &(struct qp_flow_kind){.name = QP_STR("long"), .function = function},
                    &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
    rt_start_with(*out_q, &(struct qp_start){
                              .topic = QP_STR("long"), .id = QP_STR("j"), .input = QP_STR("1")});
}

/* ------------------------------------------------------------------------------------- 50,000 events */

static int look(qp_flow *flow, void *context)
{
    (void)context;
    return qp_return(flow, QP_NONE);
}

/* As many events as a decision takes, and an activity, so that there is another decision. */
static int looks(qp_flow *flow, qp_str input, void *context)
{
    const int per_decision = LIMIT_FLOW_COMMANDS;
    (void)context;
    for (int made = 0; made < LIMIT_FLOW_EVENTS_WARN + per_decision; made += per_decision) {
        for (int i = 1; i < per_decision; i++) {
            QP_TRY(qp_inline(flow, "look", look, NULL, NULL));
        }
        QP_TRY(qp_activity(flow, "echo", input, NULL, NULL));
    }
    return qp_return(flow, QP_NONE);
}

static void test_a_warning(void **state)
{
    const char *said;
    qp *q;
    if (testenv_is_sanitized()) {
        skip(); /* what is long is judged without */
    }
    begin(&q, looks);
    rt_poll(q);
    rt_expect(q, "j", "completed", NULL);
    said = strstr(testenv_log(&rt), "the history of a flow is long");
    assert_non_null(said);
    assert_non_null(strstr(said, "50000"));
    assert_null(strstr(said + 1, "the history of a flow is long"));
    rt_close(q);
    rt_end();
}

/* -------------------------------------------------------------------------------------------- 256 MiB */

#define LARGE ((int)(LIMIT_FLOW_SIZE / LIMIT_PAYLOAD_SIZE) + 1)

/* An output as large as one may be. */
static int tell_much(void *context, qp_task *task)
{
    static char text[LIMIT_PAYLOAD_SIZE];
    (void)context;
    memset(text, ' ', sizeof text);
    text[0] = '1';
    return qp_task_output(task, (qp_str){text, sizeof text});
}

/* More of them at once than a history takes. */
static int carries(qp_flow *flow, qp_str input, void *context)
{
    qp_handle handles[LARGE];
    (void)context;
    for (int i = 0; i < LARGE; i++) {
        QP_TRY(qp_begin_activity(flow, "much", input, NULL, &handles[i]));
    }
    QP_TRY(qp_all(flow, handles, LARGE));
    return qp_return(flow, QP_NONE);
}

static int see_advice(void *context, const struct qp_job_info *job)
{
    (void)context;
    assert_non_null(memmem(job->waits_for.p, job->waits_for.n, "a retry cannot help", 19));
    return QP_OK;
}

static void test_too_many_bytes(void **state)
{
    struct qp_err err = {0};
    struct qp_job job;
    qp *q;
    if (!testenv_is_torture() || testenv_is_sanitized()) {
        skip();
    }
    begin(&q, carries);
    rt_worker(q, "much", tell_much, NULL);
    rt_poll(q);
    assert_int_equal(qp_job_get(q, QP_STR("j"), &job, &err), QP_OK);
    assert_string_equal(job.status, "parked");
    if (memmem(job.error.p, job.error.n, "history_too_large", 17) == NULL) {
        fail_msg("%.*s", STR_ARG(job.error));
    }
    qp_job_done(q, &job);
    assert_int_equal(qp_job_show(q, QP_NONE, QP_STR("j"), NULL, see_advice, &err), QP_OK);
    assert_int_equal(qp_job_cancel(q, QP_STR("j"), "too long", &err), QP_OK);
    rt_poll(q);
    rt_expect(q, "j", "cancelled", NULL);
    rt_close(q);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_warning),
        cmocka_unit_test(test_too_many_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

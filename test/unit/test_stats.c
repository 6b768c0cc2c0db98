/* test_stats.c - the numbers say what has happened, and what is, on every kind of store */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "run/stats.h"
#include "run/stats_read.h"
#include "run/work.h"
#include "support/runtest.h"

static int answer(void *context, qp_task *task)
{
    (void)context;
    return qp_task_output(task, QP_STR("1"));
}

static void expect_line(const struct buf *text, const char *line)
{
    if (strstr(text->p, line) == NULL) {
        fail_msg("no line '%s' in\n%s", line, text->p);
    }
}

/* Proves each number after a known little history. */
static void test_numbers(void **state)
{
    for (int kind = 0; kind < rt_kinds(); kind++) {
        static const char *const backends[RT_KINDS] = {"memory", "sqlite", "postgres"};
        struct qp_err err = {0};
        struct buf text;
        char build[128];
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        rt_start(q, "a");
        rt_start(q, "b");
        rt_start(q, "b"); /* it is there: not started again */
        rt_start_with(q, &(struct qp_start){.topic = QP_STR("other"), .input = QP_STR("1")});
        rt_worker(q, "work", answer, NULL);
        rt_wait(q, "a", "completed");
        rt_wait(q, "b", "completed");
        if (stats_collect(q, &err) != QP_OK) {
            fail_msg("%s", err.text);
        }
        buf_init(&text, &rt.env, 0);
        metrics_text(stats_registry(q), &text);
        buf_byte(&text, '\0');
        assert_int_equal(buf_rc(&text), QP_OK);
        (void)snprintf(build, sizeof build, "quipu_build_info{version=\"%s\",backend=\"%s\"} 1",
                       QP_VERSION, backends[kind]);
        expect_line(&text, build);
        expect_line(&text, "quipu_jobs_started_total{workflow=\"work\"} 2");
        expect_line(&text, "quipu_jobs_started_total{workflow=\"other\"} 1");
        expect_line(&text, "quipu_jobs_finished_total{workflow=\"work\",status=\"completed\"} 2");
        expect_line(&text, "quipu_job_duration_seconds_count 2");
        expect_line(&text, "quipu_task_schedule_to_start_seconds_count{topic=\"work\"} 2");
        expect_line(&text, "quipu_jobs{namespace=\"default\",status=\"completed\"} 2");
        expect_line(&text, "quipu_jobs{namespace=\"default\",status=\"running\"} 1");
        expect_line(&text, "quipu_topic_ready{namespace=\"default\",topic=\"other\"} 1");
        expect_line(&text, "quipu_topic_ready{namespace=\"default\",topic=\"work\"} 0");
        expect_line(&text, "quipu_work_calls_parked 0");
        expect_line(&text, "quipu_topic_pollers{namespace=\"default\",topic=\"other\"} 0");
        expect_line(&text, "quipu_topic_oldest_seconds{namespace=\"default\",topic=\"other\"} ");
        expect_line(&text, "quipu_activity_attempts_total{workflow=\"work\",activity=\"run\","
                           "outcome=\"success\"} 2");
        expect_line(&text,
                    "quipu_activity_duration_seconds_count{workflow=\"work\",activity=\"run\"} 2");
        expect_line(&text, "quipu_leases_expired_total 0");
        expect_line(&text, "quipu_timers_pending 0");
        expect_line(&text, "quipu_timer_lag_seconds 0");
        expect_line(&text, "quipu_leader 1");
        expect_line(&text, "quipu_payload_bytes_total ");
        expect_line(&text, "quipu_commit_batch_size_count");
        if (kind == RT_FILE) {
            expect_line(&text, "quipu_db_bytes");
            expect_line(&text, "quipu_wal_bytes");
        }
        buf_done(&text);
        rt_close(q);
        rt_end();
    }
}

static void collect(qp *q, struct buf *text)
{
    struct qp_err err = {0};
    if (stats_collect(q, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
    buf_reset(text);
    metrics_text(stats_registry(q), text);
    buf_byte(text, '\0');
    assert_int_equal(buf_rc(text), QP_OK);
}

static void taken(void *context, struct work_call *call, int rc, const char *why)
{
    (void)call;
    (void)why;
    QP_ASSERT(rc == QP_OK);
    *(bool *)context = true;
}

/* A worker elsewhere asks for a task, and is never heard of again. How many it got. */
static size_t take(qp *q)
{
    const qp_str topic = QP_STR("work");
    bool answered = false;
    struct work_call call = {.worker = QP_STR("w"),
                             .caller = {.id = QP_STR("c")},
                             .topics = &topic,
                             .topic_count = 1,
                             .want = 1,
                             .context = &answered,
                             .answer = taken};
    size_t count;
    assert_int_equal(work_submit(q, &call, NULL), QP_OK);
    rt_poll(q);
    assert_true(answered);
    count = call.task_count;
    work_done(q, &call, WORK_TOLD);
    rt_poll(q);
    return count;
}

/* Proves that timers are counted, though not each time somebody asks, and how late one is; that a lease that
 * ends is counted, and with it a job that is parked, by its workflow and reason, for as long as it is. */
static void test_what_is_late(void **state)
{
    struct buf text;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open_as(NULL, NULL, 1);
    buf_init(&text, &rt.env, 0);
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"),
                                        .id = QP_STR("later"),
                                        .delay_ms = 60 * 1000,
                                        .input = QP_STR("1")});
    collect(q, &text);
    expect_line(&text, "quipu_timers_pending 1");
    rt_start(q, "now");
    assert_int_equal(take(q), 1);
    testenv_advance_ms(&rt, LIMIT_WORK_LEASE_MS + LIMIT_LOST_MS + 1); /* not its worker's fault */
    rt_poll(q);
    assert_int_equal(take(q), 0); /* it was delivered too often */
    collect(q, &text);
    expect_line(&text, "quipu_leases_expired_total 1");
    expect_line(&text, "quipu_timers_pending 1");
    expect_line(&text, "quipu_parked_jobs{workflow=\"work\",reason=\"delivered too often");
    assert_int_equal(qp_job_interrupt(q, QP_STR("now"), NULL, NULL), QP_OK);
    testenv_advance_ms(&rt, 40 * 1000);
    collect(q, &text);
    expect_line(&text, "may crash its worker\"} 0");
    testenv_advance_ms(&rt, LIMIT_STATS_KEEP_MS);
    collect(q, &text);
    expect_line(&text, "quipu_timers_pending 0");
    buf_done(&text);
    rt_close(q);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers),
                                       cmocka_unit_test(test_what_is_late)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_stats.c - the numbers say what has happened, and what is, on every kind of store */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "run/stats.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

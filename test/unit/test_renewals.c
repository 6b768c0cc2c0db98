/* test_renewals.c - leases of tasks that end while a slow disk lets rounds overlap
 *
 * A renewal may be asked for when the result of its task is under way, and be answered after it: the
 * task stays until both are. (The sanitizer sees it when it does not.)
 */
#include <setjmp.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "support/runtest.h"

#define BURSTS 40
#define BURST 60
#define AHEAD 8 /* bursts: a machine so slow that it loses the leases of all would never end any */
#define LEASE_MS 300 /* renewed every 100 ms, and a commit takes 30 */

static struct rt_count ended = RT_COUNT_INIT;

static int work(void *context, qp_task *task)
{
    (void)context;
    return qp_task_output(task, QP_STR("1"));
}

static void on_ended(void *context, const char *status)
{
    (void)context;
    (void)status;
    rt_add(&ended, 1);
}

static void test_renewals_and_results(void **state)
{
    struct qp_worker worker = {
        .topic = QP_STR("work"), .work = work, .lease_ms = LEASE_MS, .in_hand = 16384};
    struct qp_start start = {.topic = QP_STR("work"), .input = QP_STR("1"), .ended = on_ended};
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open_as(rt_path, NULL, 1000000); /* a slow machine may lose leases */
    assert_int_equal(qp_worker_add(q, &worker, &err), QP_OK);
    assert_int_equal(failpoint_set("commit.before=delay(30)@1+"), QP_OK);
    assert_int_equal(qp_start_threads(q, 2, &err), QP_OK);
    for (int i = 0; i < BURSTS; i++) {
        for (int k = 0; k < BURST; k++) {
            assert_int_equal(qp_job_start_async(q, &start, &err), QP_OK);
        }
        (void)usleep(10000);
        rt_await(&ended, ((int64_t)i - AHEAD) * BURST);
    }
    rt_await(&ended, (int64_t)BURSTS * BURST);
    rt_close(q);
    assert_int_equal(failpoint_set(NULL), QP_OK); /* with nobody there who may pass one */
    rt_check(rt_path, (int64_t)BURSTS * BURST);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_renewals_and_results)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_results.c - what a function brought is safe as soon as the function has returned
 *
 * One thread has many tasks in hand. While it is in one function, the results of those before it are committed: neither
 * the death of the process nor the end of a lease makes any of them run again.
 *
 * A function waits until the jobs of all functions before it have ended, which an engine that withholds results never
 * reaches: then it goes on after PATIENCE_S, and the test sees what becomes of the results that were withheld.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/runtest.h"

#define JOBS 16
#define KILLED_IN 9 /* the function in which the process dies, counted from 0 */
#define LEASE_MS 400
#define FUNCTION_MS 150
#define PATIENCE_S 10

static_assert(JOBS * FUNCTION_MS > 4 * LEASE_MS && 2 * FUNCTION_MS < LEASE_MS,
              "all of them take longer than a lease, one of them does not");

struct runs {
    struct rt_count ended;
    int64_t begun;        /* functions, on the one thread */
    int64_t by_job[JOBS]; /* how often its function has run */
    bool withheld;        /* a result was not committed in PATIENCE_S */
    int log_fd;           /* a byte per run, the number of its job; -1: none */
    int64_t dies_in;      /* this function; -1: none */
};

/* Until so many jobs have ended. */
static bool have_ended(struct rt_count *c, int64_t count)
{
    struct timespec until;
    bool ended;
    int rc = 0;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    (void)pthread_mutex_lock(&c->lock);
    while (c->value < count && rc == 0) {
        rc = pthread_cond_timedwait(&c->changed, &c->lock, &until);
    }
    ended = c->value >= count;
    (void)pthread_mutex_unlock(&c->lock);
    return ended;
}

static int note_run(void *context, qp_task *task)
{
    struct runs *r = context;
    long job = strtol(qp_task_input(task).p, NULL, 10);
    unsigned char number = (unsigned char)job;
    QP_ASSERT(job >= 0 && job < JOBS);
    r->by_job[job]++;
    if (r->log_fd >= 0) {
        QP_ASSERT(write(r->log_fd, &number, 1) == 1);
    }
    r->withheld = r->withheld || !have_ended(&r->ended, r->begun);
    if (r->begun == r->dies_in) {
        (void)kill(getpid(), SIGKILL);
    }
    r->begun++;
    testenv_advance_ms(&rt, FUNCTION_MS);
    return qp_task_output(task, QP_STR("1"));
}

static void note_end(void *context, const char *status)
{
    QP_ASSERT(strcmp(status, "completed") == 0);
    rt_add(context, 1);
}

/* All jobs are there before the one thread is. */
static qp *begin(struct runs *r, qp_ms lease_ms)
{
    qp *q = rt_open(rt_path);
    struct qp_worker worker = {.topic = QP_STR("work"),
                               .work = note_run,
                               .context = r,
                               .in_hand = JOBS,
                               .lease_ms = lease_ms};
    for (int i = 0; i < JOBS; i++) {
        char id[16];
        char input[8];
        (void)snprintf(id, sizeof id, "j%d", i);
        (void)snprintf(input, sizeof input, "%d", i);
        QP_ASSERT(qp_job_start_async(q,
                                     &(struct qp_start){.topic = QP_STR("work"),
                                                        .id = str_from(id),
                                                        .input = str_from(input),
                                                        .context = &r->ended,
                                                        .ended = note_end},
                                     NULL) == QP_OK);
    }
    rt_poll(q);
    QP_ASSERT(qp_worker_add(q, &worker, NULL) == QP_OK);
    QP_ASSERT(qp_start_threads(q, 1, NULL) == QP_OK);
    return q;
}

/* The jobs of the functions that ran, from the file; how many there were. */
static int read_log(const char *path, int64_t by_job[JOBS])
{
    unsigned char numbers[8 * JOBS];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count;
    assert_true(fd >= 0);
    count = read(fd, numbers, sizeof numbers);
    (void)close(fd);
    assert_true(count >= 0 && count < (ssize_t)sizeof numbers);
    for (ssize_t i = 0; i < count; i++) {
        by_job[numbers[i]]++;
    }
    return (int)count;
}

static void live_and_die(const char *log)
{
    struct runs r = {.ended = RT_COUNT_INIT, .dies_in = KILLED_IN};
    r.log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    QP_ASSERT(r.log_fd >= 0);
    (void)begin(&r, 0);
    rt_await(&r.ended, JOBS);
    _exit(0); /* it should have been killed */
}

/* Proves that a process that is killed in the tenth of sixteen functions on one thread has the results of the nine
 * before it: the next process runs the tenth again and the six others, none of the nine. */
static void test_killed_in_a_function(void **state)
{
    /* The second life does not hear of the ends: its functions do not wait for them. */
    struct runs r = {.ended = RT_COUNT_INIT, .log_fd = -1, .dies_in = -1, .withheld = true};
    int64_t before[JOBS] = {0};
    int64_t again = 0;
    char log[sizeof rt_path + 8];
    int status = 0;
    pid_t child;
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    (void)snprintf(log, sizeof log, "%s.log", rt_path);
    (void)fflush(stdout);
    child = fork();
    if (child == 0) {
        live_and_die(log);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(read_log(log, before), KILLED_IN + 1);
    (void)unlink(log);
    q = rt_open(rt_path);
    rt_worker(q, "work", note_run, &r);
    assert_int_equal(qp_start_threads(q, 1, NULL), QP_OK);
    for (int i = 0; i < JOBS; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "j%d", i);
        rt_wait(q, id, "completed");
    }
    rt_close(q);
    for (int i = 0; i < JOBS; i++) {
        again += before[i] > 0 && r.by_job[i] > 0;
        assert_true(before[i] + r.by_job[i] >= 1);
    }
    if (again != 1 || r.begun != JOBS - KILLED_IN) {
        fail_msg("%lld functions ran again, only the one that was killed should", (long long)again);
    }
    rt_check(rt_path, JOBS);
    rt_end();
}

/* Proves that no result comes too late, though all functions on the thread together take six times as long as a
 * lease: each runs once. */
static void test_leases_shorter_than_the_queue(void **state)
{
    struct runs r = {.ended = RT_COUNT_INIT, .log_fd = -1, .dies_in = -1};
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = begin(&r, LEASE_MS);
    rt_await(&r.ended, JOBS);
    rt_close(q);
    for (int i = 0; i < JOBS; i++) {
        if (r.by_job[i] != 1) {
            fail_msg("the function of job %d ran %lld times: its result came too late", i,
                     (long long)r.by_job[i]);
        }
    }
    assert_false(r.withheld);
    rt_check(rt_path, JOBS);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_in_a_function),
        cmocka_unit_test(test_leases_shorter_than_the_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_server_kill.c - the database server is killed under load, and comes again
 *
 * An engine with threads keeps jobs in flight on a server that is killed at random moments, all of it at
 * once, and started again: the server's log is all that is left of its memory. The engine is not told. Then
 *
 *   every start that was acknowledged is there, and its job is done
 *   every end that was told is still so, and the job was not worked on again
 *   fsck is clean
 *
 * A commit whose answer the kill has swallowed has happened or not, and the server knows, also when its
 * log has nothing of the transaction and its id is to be given out again: the engine goes on. The server
 * writes its log late here, so that this is so most of the time. QP_SEED chooses the moments.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/pgserver.h"
#include "support/runtest.h"

#define KILLS_CHECK 3
#define KILLS_TORTURE 40
#define IN_FLIGHT 20
#define JOBS_MAX 200000
#define UP_US 500000 /* at most, between two kills */
#define LEASE_MS 1000
#define TRIES 20 /* each waits until the server is back */

struct job {
    int number;
    int late_calls; /* of its worker, after its end was told: there must be none */
    bool acknowledged;
    bool ended;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct job *jobs; /* under the lock, with all below */
static int job_count;
static bool stopping;

static qp *engine;
static uint64_t seed;

static int work(void *context, qp_task *task)
{
    qp_str id = qp_task_job(task);
    char text[32];
    struct job *job;
    (void)context;
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(id)); /* "j17" */
    job = &jobs[strtol(text + 1, NULL, 10)];
    (void)pthread_mutex_lock(&lock);
    job->late_calls += job->ended;
    (void)pthread_mutex_unlock(&lock);
    return QP_OK;
}

static void start_next(void);

static void on_started(void *context, int code, const char *id)
{
    struct job *job = context;
    (void)id;
    (void)pthread_mutex_lock(&lock);
    job->acknowledged = code == QP_OK;
    (void)pthread_mutex_unlock(&lock);
    if (code != QP_OK) {
        start_next(); /* another one: of this nobody knows */
    }
}

static void on_ended(void *context, const char *status)
{
    struct job *job = context;
    QP_ASSERT(strcmp(status, "completed") == 0);
    (void)pthread_mutex_lock(&lock);
    job->ended = true;
    (void)pthread_mutex_unlock(&lock);
    start_next();
}

static void start_next(void)
{
    struct qp_err err;
    char id[32];
    struct qp_start start = {
        .topic = QP_STR("work"), .input = QP_STR("{}"), .started = on_started, .ended = on_ended};
    (void)pthread_mutex_lock(&lock);
    if (!stopping) {
        QP_ASSERT(job_count < JOBS_MAX);
        jobs[job_count].number = job_count;
        start.context = &jobs[job_count++];
    }
    (void)pthread_mutex_unlock(&lock);
    if (start.context != NULL) {
        (void)snprintf(id, sizeof id, "j%d", ((struct job *)start.context)->number);
        start.id = str_from(id);
        QP_ASSERT(qp_job_start_async(engine, &start, &err) == QP_OK);
    }
}

static void open_engine(const char *url)
{
    struct qp_options options;
    struct qp_err err = {0};
    qp_options_init(&options);
    options.path = url;
    options.env = &rt.env;
    options.lease_ms = LEASE_MS;
    if (qp_open(&options, &engine, &err) != QP_OK) {
        fail_msg("QP_SEED=%llu: open: %s", (unsigned long long)seed, err.text);
    }
    rt_worker(engine, "work", work, NULL);
    assert_int_equal(qp_start_threads(engine, 1, &err), QP_OK);
    for (int i = 0; i < IN_FLIGHT; i++) {
        start_next();
    }
}

static int do_nothing(void *context, void *native)
{
    (void)context;
    (void)native;
    return QP_OK;
}

/* The server's log says of every commit whether it happened: the engine goes on. */
static void expect_running(void)
{
    struct qp_err err = {0};
    int rc = QP_E_BUSY;
    for (int i = 0; i < TRIES && rc == QP_E_BUSY; i++) {
        rc = qp_exec(engine, do_nothing, NULL, &err);
    }
    if (rc != QP_OK) {
        fail_msg("QP_SEED=%llu: %s", (unsigned long long)seed, err.text);
    }
}

static void stop_starting(void)
{
    (void)pthread_mutex_lock(&lock);
    stopping = true;
    (void)pthread_mutex_unlock(&lock);
}

static void check_jobs(void)
{
    int acknowledged = 0;
    int ended = 0;
    for (int i = 0; i < job_count; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "j%d", i);
        if (jobs[i].acknowledged) {
            rt_wait(engine, id, "completed");
            acknowledged++;
        }
        ended += jobs[i].ended;
        if (jobs[i].late_calls > 0) {
            fail_msg("QP_SEED=%llu: job %s was worked on after its end", (unsigned long long)seed,
                     id);
        }
    }
    printf("%d starts, %d acknowledged, %d ends told\n", job_count, acknowledged, ended);
    assert_true(ended > 0);
}

static void test_server_killed_under_load(void **state)
{
    const char *lane = getenv("QP_LANE");
    int kills = lane != NULL && strcmp(lane, "torture") == 0 ? KILLS_TORTURE : KILLS_CHECK;
    uint64_t random = seed = testenv_seed();
    struct pgserver *server =
        pgserver_start_with((const char *const[]){"wal_writer_delay = 10s", NULL});
    const char *url = pgserver_url(server, "loss");
    (void)state;
    rt_begin(RT_REAL);
    jobs = calloc(JOBS_MAX, sizeof *jobs);
    assert_non_null(jobs);
    open_engine(url);
    for (int i = 0; i < kills; i++) {
        (void)usleep((useconds_t)testenv_random_below(&random, UP_US)); /* under load */
        pgserver_kill(server);
        pgserver_resume(server);
        expect_running();
    }
    stop_starting();
    check_jobs();
    rt_close(engine);
    printf("%d kills\n", kills);
    free(jobs);
    pgserver_stop(server);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_server_killed_under_load)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_work_kill.c - an engine with workers elsewhere, killed at random moments under load
 *
 * The workers outlive the engine: what they have in hand stands in memory that parent and child share, and each
 * life of the engine goes on with it, so results come with tokens of lives that are over. One line per fact goes
 * to a log: a start was acknowledged (S), a result was (R). Then the parent proves:
 *
 *   every job whose start was acknowledged is there, and completed
 *   no job's result was acknowledged twice
 *   tokens of a former life were taken: a lease does not end with the process
 *   fsck is clean
 *
 * In the last life the clock is far ahead, so that leases that nobody answers are over. QP_SEED chooses the
 * moments.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "run/handle.h"
#include "run/work.h"
#include "support/runtest.h"

#define KILLS_CHECK 10
#define KILLS_TORTURE 200
#define LIFE_US 250000
#define WORKERS 4
#define WANT 8
#define STARTS 100 /* in flight */
#define FACTS_MAX 400000

/* What a worker has in hand. */
struct hand {
    char tokens[WANT][WORK_TOKEN_SIZE];
    char jobs[WANT][64];
    size_t count;
    int64_t of_former; /* results of a former life that were taken */
    int life;          /* in which it was given them */
};

static struct hand *hands; /* shared */
static int life;
static qp_ms ahead_ms;
static char log_path[340];
static int log_fd;
static qp *engine;
static uint64_t seed;

static qp_ms wall_ms(void *context)
{
    struct timespec now;
    (void)context;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000 + ahead_ms;
}

static void note(char what, const char *id)
{
    char line[80];
    int n = snprintf(line, sizeof line, "%c %s\n", what, id);
    QP_ASSERT(n > 0 && n < (int)sizeof line && write(log_fd, line, (size_t)n) == n);
}

/* ------------------------------------------------------------------------------------- the child */

static void on_answer(void *context, struct work_call *call, int rc, const char *why)
{
    (void)call;
    (void)why;
    QP_ASSERT(rc == QP_OK);
    rt_add(context, 1);
}

/* One call: brings what is in hand, and takes what it gets. */
static size_t work_once(int index, qp_ms wait_ms)
{
    struct hand *h = &hands[index];
    struct rt_count answered = RT_COUNT_INIT;
    struct work_result results[WANT];
    qp_str topic = QP_STR("work");
    char name[16];
    struct work_call call = {.caller = {QP_STR("t"), QP_STR("key")},
                             .topics = &topic,
                             .topic_count = 1,
                             .want = WANT,
                             .wait_ms = wait_ms,
                             .results = results,
                             .result_count = h->count,
                             .context = &answered,
                             .answer = on_answer};
    struct qp_err err;
    size_t done = 0;
    (void)snprintf(name, sizeof name, "w%d", index);
    call.worker = str_from(name);
    for (size_t i = 0; i < h->count; i++) {
        results[i] = (struct work_result){.token = str_from(h->tokens[i]), .output = QP_STR("1")};
    }
    QP_ASSERT(work_submit(engine, &call, &err) == QP_OK);
    rt_await(&answered, 1);
    for (size_t i = 0; i < h->count; i++) {
        if (results[i].status == WORK_OK) {
            note('R', h->jobs[i]);
            h->of_former += h->life != life;
            done++;
        }
    }
    h->count = 0; /* whoever is killed here forgets some: their leases end */
    h->life = life;
    for (const struct work_task *t = call.tasks; t != NULL; t = t->next) {
        memcpy(h->tokens[h->count], t->token, WORK_TOKEN_SIZE);
        (void)snprintf(h->jobs[h->count], sizeof h->jobs[0], "%.*s", STR_ARG(t->job));
        h->count++;
    }
    work_done(engine, &call, WORK_TOLD);
    return done + h->count;
}

static void *worker_main(void *context)
{
    int index = (int)(intptr_t)context;
    while (engine != NULL) { /* until we are killed */
        (void)work_once(index, 1000);
    }
    return NULL;
}

static void start_next(void);

static void on_started(void *context, int code, const char *id)
{
    (void)context;
    QP_ASSERT(code == QP_OK);
    note('S', id);
}

static void on_ended(void *context, const char *status)
{
    (void)context;
    QP_ASSERT(strcmp(status, "completed") == 0);
    start_next();
}

static void start_next(void)
{
    struct qp_err err;
    QP_ASSERT(qp_job_start_async(engine,
                                 &(struct qp_start){.topic = QP_STR("work"),
                                                    .input = QP_STR("{}"),
                                                    .started = on_started,
                                                    .ended = on_ended},
                                 &err) == QP_OK);
}

static void open_engine(void)
{
    struct qp_err err;
    rt.env.wall_ms = wall_ms;
    engine = rt_open(rt_path);
    QP_ASSERT(qp_start_threads(engine, 0, &err) == QP_OK);
}

static _Noreturn void child_main(void)
{
    pthread_t thread;
    open_engine();
    for (int i = 0; i < WORKERS; i++) {
        QP_ASSERT(pthread_create(&thread, NULL, worker_main, (void *)(intptr_t)i) == 0);
    }
    for (int i = 0; i < STARTS; i++) {
        start_next();
    }
    for (;;) {
        (void)pause();
    }
}

/* ----------------------------------------------------------------------------------- the parent */

static void live(int64_t us)
{
    int status = 0;
    pid_t child;
    (void)fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        child_main();
    }
    (void)usleep((useconds_t)us);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); /* and of nothing before */
}

struct fact {
    char what;
    char id[64];
};

static int by_id(const void *a, const void *b)
{
    const struct fact *x = a;
    const struct fact *y = b;
    int order = strcmp(x->id, y->id);
    return order != 0 ? order : x->what - y->what;
}

static size_t read_log(struct fact *facts)
{
    FILE *f = fopen(log_path, "r");
    char line[66];
    size_t count = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        size_t n = strlen(line);
        if (n >= 4 && line[n - 1] == '\n') { /* else a kill has cut it off */
            assert_true(count < FACTS_MAX);
            line[n - 1] = '\0';
            facts[count].what = line[0];
            (void)snprintf(facts[count++].id, sizeof facts[0].id, "%s", line + 2);
        }
    }
    (void)fclose(f); /* opened for reading */
    qsort(facts, count, sizeof *facts, by_id);
    return count;
}

static void check_facts(void)
{
    struct fact *facts = calloc(FACTS_MAX, sizeof *facts);
    size_t count;
    int64_t started = 0;
    int64_t results = 0;
    assert_non_null(facts);
    count = read_log(facts);
    for (size_t i = 0; i < count; i++) {
        if (facts[i].what == 'S') {
            started++;
            rt_expect(engine, facts[i].id, "completed", "1");
        } else {
            results++;
        }
        if (i > 0 && by_id(&facts[i - 1], &facts[i]) == 0) {
            fail_msg("QP_SEED=%llu: %c of job %s was acknowledged twice", (unsigned long long)seed,
                     facts[i].what, facts[i].id);
        }
    }
    printf("%lld starts and %lld results acknowledged\n", (long long)started, (long long)results);
    assert_true(started > 0 && results > 0);
    free(facts);
}

/* All that is left, by one worker, after the end of all leases. */
static void finish(void)
{
    ahead_ms = 10 * LIMIT_WORK_LEASE_MS;
    open_engine();
    while (work_once(0, 300) > 0) {}
}

/* How often a token of a former life was brought. On a machine that is busy it takes more lives than usual until one is. */
static int64_t tokens_of_former(void)
{
    int64_t count = 0;
    for (int i = 0; i < WORKERS; i++) {
        count += hands[i].of_former;
    }
    return count;
}

static void test_killed(void **state)
{
    const char *lane = getenv("QP_LANE");
    int kills = lane != NULL && strcmp(lane, "torture") == 0 ? KILLS_TORTURE : KILLS_CHECK;
    int64_t of_former = 0;
    struct qp_err err;
    struct qp_count open_count;
    uint64_t random = seed = testenv_seed();
    rt_begin(RT_REAL);
    hands = mmap(NULL, WORKERS * sizeof *hands, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                 -1, 0);
    assert_true(hands != MAP_FAILED);
    (void)snprintf(log_path, sizeof log_path, "%s.log", rt_path);
    log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(log_fd >= 0);
    for (life = 0; life < kills || (tokens_of_former() == 0 && life < 5 * kills); life++) {
        live(LIFE_US / 4 + (int64_t)testenv_random_below(&random, LIFE_US));
    }
    finish();
    check_facts();
    of_former = tokens_of_former();
    printf("%lld results with tokens of a former life\n", (long long)of_former);
    assert_true(of_former > 0);
    assert_int_equal(qp_job_count(engine, QP_NONE, QP_STR("status!=completed"), QP_COUNT_EXACT,
                                  &open_count, &err),
                     QP_OK);
    assert_int_equal(open_count.count, 0);
    assert_int_equal(qp_job_count(engine, QP_NONE, QP_NONE, QP_COUNT_EXACT, &open_count, &err),
                     QP_OK);
    work_shut(engine);
    rt_close(engine);
    rt_check(rt_path, open_count.count);
    (void)close(log_fd); /* nothing more is read from it */
    (void)munmap(hands, WORKERS * sizeof *hands);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

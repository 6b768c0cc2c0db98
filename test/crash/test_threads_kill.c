/* test_threads_kill.c - an engine with all its threads, killed at random moments under load
 *
 * The child keeps some hundred jobs in flight, so that rounds overlap (engine.h), and appends one
 * line per fact to a log: a worker was called for a job (C), a start was acknowledged (S), an end was
 * told (E). It is killed, and another one goes on with the same file; the last one finishes what is
 * left. Then the parent proves:
 *
 *   every job whose start was acknowledged is there, and completed
 *   every job whose end was told was not worked on again
 *   at most one call per job and life, exactly one for what no kill has touched
 *   fsck is clean
 *
 * On a file, and on PostgreSQL, where the next life takes up what the dead one held when its lease is
 * over. QP_SEED chooses the moments.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/files.h"
#include "support/pgserver.h"
#include "support/runtest.h"

#define KILLS_CHECK 8
#define KILLS_TORTURE 200
#define IN_FLIGHT 400
#define LIVES_MAX 256
#define FACTS_MIN 4096
#define LIFE_US 250000        /* at most; what comes before the first commit is a part of it */
#define SERVED_LIFE_US 600000 /* on a server */
#define LEASE_MS 1000

static char log_path[340];
static int log_fd;
static uint64_t seed;

/* ------------------------------------------------------------------------------------- the child */

static qp *engine;

static void note(char what, const char *id, size_t size)
{
    char line[64];
    int n = snprintf(line, sizeof line, "%c %.*s\n", what, (int)size, id);
    QP_ASSERT(n > 0 && n < (int)sizeof line && write(log_fd, line, (size_t)n) == n);
}

static int work(void *context, qp_task *task)
{
    qp_str id = qp_task_job(task);
    (void)context;
    note('C', id.p, id.n);
    return QP_OK;
}

struct started {
    char id[QP_ID_SIZE];
};

static void start_next(struct started *slot);

static void on_started(void *context, int code, const char *id)
{
    struct started *slot = context;
    QP_ASSERT(code == QP_OK);
    (void)snprintf(slot->id, sizeof slot->id, "%s", id);
    note('S', id, strlen(id));
}

static void on_ended(void *context, const char *status)
{
    struct started *slot = context;
    QP_ASSERT(strcmp(status, "completed") == 0);
    note('E', slot->id, strlen(slot->id));
    start_next(slot);
}

static void start_next(struct started *slot)
{
    struct qp_err err;
    struct qp_start start = {.topic = QP_STR("work"),
                             .input = QP_STR("{}"),
                             .context = slot,
                             .started = on_started,
                             .ended = on_ended};
    QP_ASSERT(qp_job_start_async(engine, &start, &err) == QP_OK);
}

static qp *open_engine(void)
{
    struct qp_options options;
    struct qp_err err = {0};
    qp *q = NULL;
    qp_options_init(&options);
    options.path = rt_path;
    options.env = &rt.env;
    options.lease_ms = LEASE_MS;
    if (qp_open(&options, &q, &err) != QP_OK) {
        (void)fprintf(stderr, "open: %s\n", err.text);
        abort();
    }
    return q;
}

static void child_open(void)
{
    struct qp_err err;
    engine = open_engine();
    rt_worker(engine, "work", work, NULL);
    QP_ASSERT(qp_start_threads(engine, 2, &err) == QP_OK);
}

/* Works until it is killed. */
static _Noreturn void child_main(void)
{
    static struct started slots[IN_FLIGHT];
    child_open();
    for (int i = 0; i < IN_FLIGHT; i++) {
        start_next(&slots[i]);
    }
    for (;;) {
        (void)pause();
    }
}

/* -------------------------------------------------------------------------------------- the log */

struct fact {
    char id[40];
    char what;
    int life;
};

static struct fact *facts;
static size_t fact_count;
static size_t fact_room;

static struct fact *fact_new(void)
{
    if (fact_count == fact_room) {
        fact_room = fact_room == 0 ? FACTS_MIN : 2 * fact_room;
        facts = realloc(facts, fact_room * sizeof *facts);
        assert_non_null(facts);
    }
    return &facts[fact_count++];
}

/* A line that a kill has cut off was not said to anybody. */
static void read_log(int life)
{
    FILE *f = fopen(log_path, "r");
    char line[80];
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        struct fact *fact;
        size_t n = strlen(line);
        if (n < 4 || n - 2 > sizeof fact->id || line[n - 1] != '\n') {
            continue;
        }
        fact = fact_new();
        line[n - 1] = '\0';
        fact->what = line[0];
        fact->life = life;
        memcpy(fact->id, line + 2, n - 2); /* with its end */
    }
    (void)fclose(f); /* opened for reading */
    assert_int_equal(truncate(log_path, 0), 0);
}

static int by_id(const void *a, const void *b)
{
    const struct fact *x = a;
    const struct fact *y = b;
    int order = strcmp(x->id, y->id);
    return order != 0 ? order : x->life - y->life;
}

/* ----------------------------------------------------------------------------------- the parent */

/* Until it has done something; a slow machine gets the time that it needs. */
static void await_facts(void)
{
    struct stat file;
    for (int i = 0; i < 3000 && (stat(log_path, &file) != 0 || file.st_size == 0); i++) {
        (void)usleep(10000);
    }
}

/* Every other life is killed early, perhaps before it has begun. */
static void live(int number, int64_t us)
{
    int status = 0;
    pid_t child;
    (void)fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        child_main();
    }
    if (number % 2 == 0) {
        await_facts();
    }
    (void)usleep((useconds_t)us);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); /* and of nothing before */
}

/* All facts of one job, in the order of lives. Returns whether it was acknowledged. */
static bool check_job(const struct fact *f, size_t count, int last_life)
{
    int calls[LIVES_MAX] = {0};
    int started_in = -1;
    int ended_in = -1;
    int called_in = -1;
    for (size_t i = 0; i < count; i++) {
        started_in = f[i].what == 'S' ? f[i].life : started_in;
        ended_in = f[i].what == 'E' ? f[i].life : ended_in;
        if (f[i].what == 'C') {
            calls[f[i].life]++;
            called_in = f[i].life;
        }
    }
    for (int i = 0; i < LIVES_MAX; i++) {
        if (calls[i] > 1) {
            fail_msg("QP_SEED=%llu: job %s was called %d times in life %d",
                     (unsigned long long)seed, f->id, calls[i], i);
        }
    }
    if (ended_in >= 0 && (called_in != ended_in || ended_in != started_in)) {
        fail_msg("QP_SEED=%llu: job %s ended in life %d, and was called in %d",
                 (unsigned long long)seed, f->id, ended_in, called_in);
    }
    if (started_in >= 0 && called_in < 0) {
        fail_msg("QP_SEED=%llu: job %s was acknowledged in life %d of %d, and nobody worked on it",
                 (unsigned long long)seed, f->id, started_in, last_life);
    }
    return started_in >= 0;
}

static void check_facts(qp *q, int last_life)
{
    int64_t acknowledged = 0;
    qsort(facts, fact_count, sizeof *facts, by_id);
    for (size_t from = 0, to; from < fact_count; from = to) {
        to = from + 1;
        while (to < fact_count && strcmp(facts[to].id, facts[from].id) == 0) {
            to++;
        }
        if (check_job(&facts[from], to - from, last_life)) {
            acknowledged++;
            rt_expect(q, facts[from].id, "completed", NULL);
        }
    }
    printf("%d lives, %lld starts acknowledged, %zu facts\n", last_life + 1,
           (long long)acknowledged, fact_count);
    assert_true(acknowledged > 0);
}

static int64_t jobs_in(const char *file)
{
    struct qp_check_options options;
    struct qp_check_result result = {0};
    struct qp_err err = {0};
    qp_check_options_init(&options);
    options.path = file;
    assert_int_equal(qp_check(&options, NULL, NULL, &result, &err), QP_OK);
    return result.jobs;
}

/* What the last life held is taken up at once on a file; on a server when its lease is over, for which we
 * look three times in a lease. */
static void finish(bool is_served)
{
    struct qp_err err = {0};
    for (int64_t ms = 0; is_served && ms < 2 * LEASE_MS; ms += 10) {
        assert_int_equal(qp_poll(engine, &err), QP_OK);
        (void)usleep(10000); /* leases end by the server's clock */
    }
    rt_poll(engine);
}

static void killed_under_load(int kills, int64_t life_us, const char *url)
{
    uint64_t random = seed = testenv_seed();
    rt_begin(RT_REAL);
    (void)snprintf(log_path, sizeof log_path, "%s.log", rt_path);
    if (url != NULL) {
        (void)snprintf(rt_path, sizeof rt_path, "%s", url);
    }
    fact_count = 0;
    log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(log_fd >= 0);
    for (int life = 0; life < kills; life++) {
        live(life, (int64_t)testenv_random_below(&random, (uint64_t)life_us));
        read_log(life);
    }
    engine = open_engine();
    rt_worker(engine, "work", work, NULL);
    finish(url != NULL);
    read_log(kills);
    check_facts(engine, kills);
    rt_close(engine);
    rt_check(rt_path, jobs_in(rt_path));
    free(facts);
    facts = NULL;
    fact_room = 0;
    (void)close(log_fd); /* nothing more is read from it */
    rt_end();
}

static int kills_of(int check, int torture)
{
    const char *lane = getenv("QP_LANE");
    return lane != NULL && strcmp(lane, "torture") == 0 ? torture : check;
}

static void test_killed_on_a_file(void **state)
{
    (void)state;
    killed_under_load(kills_of(KILLS_CHECK, KILLS_TORTURE), LIFE_US, NULL);
}

static void test_killed_on_postgres(void **state)
{
    (void)state;
    killed_under_load(kills_of(KILLS_CHECK / 2, KILLS_TORTURE / 4), SERVED_LIFE_US,
                      pgserver_shared());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed_on_a_file),
                                       cmocka_unit_test(test_killed_on_postgres)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_shapes_kill.c - a real process on a real file, or on PostgreSQL, killed at random moments until
 * its job is done
 *
 * The child runs a job of a shape (shapes.h) and appends one line per raw call, before it submits the
 * result: key, life (how many processes there were), tries. The result writes a row of the host's with
 * its life, in the same commit. When a child came to its end, the parent proves:
 *
 *   one effect per key, and no effect without a call
 *   at most one call per key and life, the last of them in the life that has the effect: a
 *   task whose result is committed is never given out again
 *   tries grow from life to life
 *   at most 1 + kills calls per key, exactly 1 without a kill
 *   the expected output, fsck clean
 *
 * QP_SEED chooses the moments; the check lane kills KILLS_CHECK times, torture KILLS_TORTURE times. The
 * server stays when its client is killed, and may still be busy with what that had sent.
 */
#include <fcntl.h>
#include <postgresql/libpq-fe.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/files.h"
#include "support/pgserver.h"
#include "support/shaperun.h"

#define KILLS_CHECK 12
#define KILLS_TORTURE 200
#define KILLS_PER_JOB 4

static const struct {
    const struct shape *shape;
    const char *input;
} jobs[] = {{&shape_tree, "7"}, {&shape_flow, "0"}, {&shape_carto, "150"}, {&shape_children, "9"}};

static char dir[256];
static char path[320]; /* or the URL */
static bool on_postgres;
static char log_path[320];
static uint64_t seed;
static bool torture;

static int64_t now_us(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &t), 0);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static struct store *open_store(const struct qp_env *env)
{
    struct store_options options = {.path = path};
    struct qp_err err = {0};
    struct store *s = NULL;
    if (store_open(env, &options, &s, &err) != QP_OK) {
        (void)fprintf(stderr, "open: %s\n", err.text);
    }
    return s;
}

static struct shaperun run_of(size_t job, struct store *s, int life)
{
    return (struct shaperun){.shape = jobs[job].shape,
                             .input = jobs[job].input,
                             .store = s,
                             .host = true,
                             .workers = 4,
                             .life = life};
}

static _Noreturn void child_main(size_t job, int life)
{
    static struct shaperun run;
    struct qp_env env;
    struct store *s;
    qp_env_init(&env);
    env.log = NULL;
    s = open_store(&env);
    if (s == NULL) {
        _exit(1);
    }
    run = run_of(job, s, life);
    run.log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (run.log_fd < 0) {
        _exit(1);
    }
    shaperun_init(&run);
    shaperun_finish(&run);
    shaperun_done(&run);
    _exit(store_close(s, NULL) == QP_OK ? 0 : 1);
}

/* A life that is ended after so long (-1: not at all). True when it came to its own end. */
static bool live(size_t job, int life, int64_t us)
{
    int status = 0;
    pid_t child;
    (void)fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        child_main(job, life);
    }
    if (us >= 0) {
        (void)usleep((useconds_t)us);
        (void)kill(child, SIGKILL); /* it may be over */
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        return false;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail_msg("QP_SEED=%llu: %s, life %d ended with status %d", (unsigned long long)seed,
                 jobs[job].shape->program->name, life, status);
    }
    return true;
}

/* ------------------------------------------------------------------------------------ afterwards */

static int take_number(void *context, int count, char **values, char **names)
{
    (void)count;
    (void)names;
    *(int64_t *)context = strtoll(values[0], NULL, 10);
    return 0;
}

/* A connection to look at the host's table: one of the two. */
struct looking {
    sqlite3 *file;
    PGconn *server;
};

static void look_begin(struct looking *l)
{
    *l = (struct looking){0};
    if (on_postgres) {
        l->server = PQconnectdb(path);
        assert_int_equal(PQstatus(l->server), CONNECTION_OK);
    } else {
        assert_int_equal(sqlite3_open_v2(path, &l->file, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    }
}

static void look_end(struct looking *l)
{
    PQfinish(l->server);
    assert_int_equal(sqlite3_close(l->file), SQLITE_OK);
}

static int64_t query_server(PGconn *c, const char *sql)
{
    PGresult *r = PQexec(c, sql);
    bool has_row = PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) == 1;
    int64_t number = has_row ? strtoll(PQgetvalue(r, 0, 0), NULL, 10) : -1;
    if (!has_row && PQresultStatus(r) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQresultErrorMessage(r));
    }
    PQclear(r);
    return number;
}

/* The number of the only row; -1: there is none. */
static int64_t query(const struct looking *l, const char *sql)
{
    int64_t number = -1;
    char *text = NULL;
    if (l->server != NULL) {
        return query_server(l->server, sql);
    }
    if (sqlite3_exec(l->file, sql, take_number, &number, &text) != SQLITE_OK) {
        fail_msg("%s: %s", sql, text);
    }
    return number;
}

/* The log becomes a table, beside that of the effects. Returns how many calls there were. */
static int64_t load_calls(const struct looking *l)
{
    FILE *log = fopen(log_path, "r");
    char name[LIMIT_ADDRESS_SIZE + 64];
    int life;
    long long tries;
    int64_t calls = 0;
    assert_non_null(log);
    assert_int_equal(query(l, "CREATE TEMP TABLE call(name TEXT, life INTEGER, tries INTEGER)"),
                     -1);
    while (fscanf(log, "%1080s %d %lld\n", name, &life, &tries) == 3) {
        char sql[sizeof name + 128];
        (void)snprintf(sql, sizeof sql, "INSERT INTO call VALUES('%s',%d,%lld)", name, life, tries);
        (void)query(l, sql);
        calls++;
    }
    (void)fclose(log);
    return calls;
}

static void check_calls(size_t job, int64_t kills)
{
    static const struct {
        const char *what;
        const char *sql;
    } rules[] = {
        {"keys with more than one effect",
         "SELECT count(*) FROM (SELECT 1 FROM effect GROUP BY name HAVING count(*)>1) AS k"},
        {"effects without a call",
         "SELECT count(*) FROM effect WHERE name NOT IN (SELECT name FROM call)"},
        {"calls without an effect",
         "SELECT count(*) FROM call WHERE name NOT IN (SELECT name FROM effect)"},
        {"keys called twice in one life",
         "SELECT count(*) FROM (SELECT 1 FROM call GROUP BY name,life HAVING count(*)>1) AS k"},
        {"keys whose last call is not that of the effect",
         "SELECT count(*) FROM effect e WHERE life<>(SELECT max(life) FROM call c WHERE c.name=e.name)"},
        {"tries that do not grow",
         "SELECT count(*) FROM call a JOIN call b USING(name) WHERE a.life<b.life AND a.tries>=b.tries"},
    };
    int64_t tasks = jobs[job].shape->task_count(shape_number(str_from(jobs[job].input)));
    struct looking l;
    int64_t calls;
    look_begin(&l);
    calls = load_calls(&l);
    for (size_t i = 0; i < ARRAY_COUNT(rules); i++) {
        int64_t found = query(&l, rules[i].sql);
        if (found != 0) {
            fail_msg("QP_SEED=%llu: %s: %lld %s", (unsigned long long)seed,
                     jobs[job].shape->program->name, (long long)found, rules[i].what);
        }
    }
    assert_true(
        query(&l, "SELECT max(n) FROM (SELECT count(*) AS n FROM call GROUP BY name) AS k") <=
        1 + kills);
    assert_true(kills > 0 || calls == query(&l, "SELECT count(*) FROM effect"));
    assert_true(tasks < 0 || tasks == query(&l, "SELECT count(*) FROM effect"));
    look_end(&l);
}

static void check_store(size_t job)
{
    struct qp_env env;
    struct shaperun run;
    struct store *s;
    char want[SHAPE_TEXT_SIZE];
    char got[SHAPE_TEXT_SIZE];
    qp_env_init(&env);
    env.log = NULL;
    s = open_store(&env);
    assert_non_null(s);
    run = run_of(job, s, 0);
    shaperun_check(&run, true);
    shaperun_output(&run, got);
    jobs[job].shape->expect(shape_number(str_from(jobs[job].input)), want);
    assert_string_equal(got, want);
    assert_int_equal(store_close(s, NULL), QP_OK);
}

/* One job from its start to its end. Returns how long its last life took. */
static int64_t run_job(size_t job, int64_t kills_max, int64_t span_us, uint64_t *random,
                       int64_t *out_kills)
{
    int64_t kills = 0;
    int64_t begun;
    files_temporary(dir, sizeof dir, "shapes");
    if (on_postgres) {
        (void)snprintf(path, sizeof path, "%s", pgserver_shared());
    } else {
        (void)snprintf(path, sizeof path, "%s/store.db", dir);
    }
    (void)snprintf(log_path, sizeof log_path, "%s/calls", dir);
    do {
        int64_t us =
            kills < kills_max ? (int64_t)testenv_random_below(random, (uint64_t)span_us + 1) : -1;
        begun = now_us();
        if (live(job, 1 + (int)kills, us)) {
            break;
        }
        kills++;
    } while (true);
    begun = now_us() - begun;
    check_store(job);
    check_calls(job, kills);
    files_remove(dir);
    *out_kills += kills;
    return begun;
}

static void killed_at_random(int64_t target)
{
    int64_t spans[ARRAY_COUNT(jobs)];
    int64_t kills = 0;
    int64_t runs = 0;
    uint64_t random = seed;
    for (size_t i = 0; i < ARRAY_COUNT(jobs); i++) {
        spans[i] = run_job(i, 0, 0, &random, &kills);
    }
    assert_int_equal(kills, 0);
    for (; kills < target; runs++) {
        size_t job = (size_t)runs % ARRAY_COUNT(jobs);
        (void)run_job(job, KILLS_PER_JOB, spans[job], &random, &kills);
        assert_true(runs < 4 * target); /* else kills always come too late */
    }
    printf("%lld kills in %lld jobs\n", (long long)kills, (long long)runs);
}

static void killed_on_a_file(void **state)
{
    on_postgres = false;
    killed_at_random(torture ? KILLS_TORTURE : KILLS_CHECK);
}

static void killed_on_postgres(void **state)
{
    on_postgres = true;
    killed_at_random(torture ? KILLS_TORTURE : KILLS_CHECK / 2);
}

static int setup(void **state)
{
    const char *lane = getenv("QP_LANE");
    torture = lane != NULL && strcmp(lane, "torture") == 0;
    seed = testenv_seed();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_on_a_file),
                                       cmocka_unit_test(killed_on_postgres)};
    return cmocka_run_group_tests(tests, setup, NULL);
}

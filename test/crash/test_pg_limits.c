/* test_pg_limits.c - what the server's machine runs out of, and a clock that jumps
 *
 *   PG-8   the disk is full: calls say so, nothing that was acknowledged is lost, and it goes on when there is
 *          room again
 *   PG-10  others have all connections: an engine that lost its own asks again, less and less often, and goes on
 *          when one is free
 *   PG-9   the clocks of engines jump by hours while they run: timers and leases keep the time of the server
 *
 * The small disk is a tablespace on a tmpfs, mounted in a namespace of this program and its server: it goes
 * with them, however they end. Who may not mount skips that test.
 */
#include <fcntl.h>
#include <postgresql/libpq-fe.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <quipu.h>

#include "base/base.h"
#include "support/files.h"
#include "support/pgserver.h"
#include "support/testenv.h"

#define CONNECTIONS "12" /* of the server, all in all */
#define OTHERS_MAX 16
#define PATIENCE_MS 20000 /* with a machine that is busy */
#define HOUR_MS 3600000

static struct {
    struct pgserver *server;
    PGconn *conn; /* the test's own */
    char disk[256];
    bool has_disk;
    const char *why_not;
    uint64_t random;
} w;

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pause_ms(long ms)
{
    (void)nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* The first field as a number; 0 when there is none. */
static int64_t ask(const char *text)
{
    PGresult *r = PQexec(w.conn, text);
    int64_t n = 0;
    if (PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) > 0) {
        n = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    } else if (PQresultStatus(r) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", text, PQerrorMessage(w.conn));
    }
    PQclear(r);
    return n;
}

/* ------------------------------------------------------------------------------------------ engines */

/* An engine of this process, with a clock of its own. */
struct node {
    struct qp_env env;
    struct qp_env usual;
    atomic_llong offset_ms; /* of its clock */
    atomic_int stops;       /* it gave up, or its run was taken for over */
    qp *q;
};

static qp_ms shifted_ms(void *context)
{
    struct node *n = context;
    return n->usual.wall_ms(n->usual.context) + atomic_load(&n->offset_ms);
}

static int64_t usual_us(void *context)
{
    struct node *n = context;
    return n->usual.monotonic_us(n->usual.context);
}

static void *usual_resize(void *context, void *pointer, size_t size)
{
    struct node *n = context;
    return n->usual.resize(n->usual.context, pointer, size);
}

static int usual_entropy(void *context, void *out, size_t size)
{
    struct node *n = context;
    return n->usual.entropy(n->usual.context, out, size);
}

static void on_log(void *context, enum qp_log_level level, const char *line, size_t size)
{
    struct node *n = context;
    (void)level;
    if (memmem(line, size, "run is over", 11) != NULL ||
        memmem(line, size, "has stopped", 11) != NULL) {
        (void)atomic_fetch_add(&n->stops, 1);
    }
}

static void node_open(struct node *n, const char *url, qp_ms lease_ms)
{
    struct qp_options options;
    struct qp_err err = {0};
    memset(n, 0, sizeof *n);
    qp_env_init(&n->usual);
    n->env = n->usual;
    n->env.context = n;
    n->env.wall_ms = shifted_ms;
    n->env.monotonic_us = usual_us;
    n->env.resize = usual_resize;
    n->env.entropy = usual_entropy;
    n->env.log = on_log;
    qp_options_init(&options);
    options.path = url;
    options.env = &n->env;
    options.lease_ms = lease_ms;
    if (qp_open(&options, &n->q, &err) != QP_OK) {
        fail_msg("open: %s", err.text);
    }
}

static void node_work(struct node *n, const char *topic, qp_work work, qp_ms lease_ms)
{
    struct qp_err err = {0};
    struct qp_worker worker = {
        .topic = str_from(topic), .work = work, .context = n, .lease_ms = lease_ms, .in_hand = 4};
    assert_int_equal(qp_worker_add(n->q, &worker, &err), QP_OK);
}

static void node_begin(struct node *n, int threads)
{
    struct qp_err err = {0};
    assert_int_equal(qp_start_threads(n->q, threads, &err), QP_OK);
}

static void node_close(struct node *n)
{
    struct qp_err err = {0};
    if (qp_close(n->q, &err) != QP_OK) {
        fail_msg("close: %s", err.text);
    }
    assert_int_equal(atomic_load(&n->stops), 0);
}

static int start(struct node *n, const char *topic, const char *id, qp_str input,
                 struct qp_err *err)
{
    struct qp_start s = {.topic = str_from(topic), .id = str_from(id), .input = input};
    return qp_job_start(n->q, &s, NULL, err);
}

static void expect_end(struct node *n, const char *id, const char *status)
{
    struct qp_err err = {0};
    struct qp_job job = {0};
    if (qp_job_wait(n->q, str_from(id), PATIENCE_MS, &job, &err) != QP_OK) {
        fail_msg("%s: %s", id, err.text);
    }
    assert_string_equal(job.status, status);
    qp_job_done(n->q, &job);
}

static int print_finding(void *context, const struct qp_finding *f)
{
    (void)context;
    print_error("%s: job '%.*s': %s (%s)\n", f->rule, STR_ARG(f->job), f->text, f->evidence);
    return QP_OK;
}

static void expect_sound(const char *url, int64_t jobs)
{
    struct qp_check_options options;
    struct qp_check_result result = {0};
    struct qp_err err = {0};
    qp_check_options_init(&options);
    options.path = url;
    if (qp_check(&options, NULL, print_finding, &result, &err) != QP_OK) {
        fail_msg("check: %s", err.text);
    }
    assert_int_equal(result.errors, 0);
    assert_int_equal(result.jobs, jobs);
}

static int work_at_once(void *context, qp_task *task)
{
    (void)context;
    return qp_task_output(task, QP_STR("1"));
}

/* ------------------------------------------------------------------------------- PG-8: the disk is full */

#define FULL_INPUT_SIZE 3000
#define FULL_JOBS_MAX 400
#define FULL_REFUSALS 20

/* Text that cannot be made shorter. */
static qp_str noise(char out[FULL_INPUT_SIZE])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    out[0] = '"';
    for (int i = 1; i < FULL_INPUT_SIZE - 1; i++) {
        out[i] = letters[testenv_random(&w.random) % 64];
    }
    out[FULL_INPUT_SIZE - 1] = '"';
    return (qp_str){out, FULL_INPUT_SIZE};
}

/* Takes all the room that there is. */
static void ballast_put(void)
{
    static const char block[4096];
    char name[300];
    int fd;
    (void)snprintf(name, sizeof name, "%s/ballast", w.disk);
    fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, block, sizeof block) == (ssize_t)sizeof block) {}
    (void)close(fd);
}

static void ballast_drop(void)
{
    char name[300];
    (void)snprintf(name, sizeof name, "%s/ballast", w.disk);
    assert_int_equal(unlink(name), 0);
}

/* Starts job number `i`; the same again is the same job. */
static int start_numbered(struct node *n, int i, struct qp_err *err)
{
    static char inputs[FULL_JOBS_MAX][FULL_INPUT_SIZE];
    char id[32];
    (void)snprintf(id, sizeof id, "job-%d", i);
    if (inputs[i][0] == '\0') {
        (void)noise(inputs[i]);
    }
    return start(n, "work", id, (qp_str){inputs[i], FULL_INPUT_SIZE}, err);
}

/* Until so many were refused, each with the word that says why. Returns how many were begun. */
static int start_until_full(struct node *n, bool acknowledged[FULL_JOBS_MAX])
{
    int refused = 0;
    int i = 0;
    for (; i < FULL_JOBS_MAX && refused < FULL_REFUSALS; i++) {
        struct qp_err err = {0};
        int rc = start_numbered(n, i, &err);
        acknowledged[i] = rc == QP_OK;
        if (rc != QP_OK && rc != QP_E_FULL) {
            fail_msg("job %d: %s", i, err.text);
        }
        refused += rc == QP_E_FULL;
    }
    if (refused < FULL_REFUSALS) {
        fail_msg("the disk did not get full");
    }
    return i;
}

/* Before any of them is asked for again. */
static void expect_acknowledged(struct node *n, const bool acknowledged[FULL_JOBS_MAX], int count)
{
    for (int i = 0; i < count; i++) {
        struct qp_err err = {0};
        struct qp_job job = {0};
        char id[32];
        (void)snprintf(id, sizeof id, "job-%d", i);
        if (acknowledged[i] && qp_job_get(n->q, str_from(id), &job, &err) != QP_OK) {
            fail_msg("%s was acknowledged: %s", id, err.text);
        }
        qp_job_done(n->q, &job);
    }
}

static void test_disk_full(void **state)
{
    static bool acknowledged[FULL_JOBS_MAX];
    struct node n;
    const char *url;
    char text[400];
    char id[32];
    int64_t until;
    int count;
    (void)state;
    if (!w.has_disk) {
        print_message("skipped: a small disk cannot be mounted: %s\n", w.why_not);
        skip();
    }
    (void)snprintf(text, sizeof text, "CREATE TABLESPACE small LOCATION '%s/space'", w.disk);
    (void)ask(text);
    (void)ask("CREATE DATABASE small TABLESPACE small");
    url = pgserver_url(w.server, "small");
    node_open(&n, url, 0);
    node_work(&n, "work", work_at_once, 0);
    node_begin(&n, 1);
    assert_int_equal(start_numbered(&n, 0, &(struct qp_err){0}), QP_OK);
    ballast_put();
    count = start_until_full(&n, acknowledged);
    expect_acknowledged(&n, acknowledged, count);
    ballast_drop();
    until = now_ms() + PATIENCE_MS;
    for (int i = 0; i < count; i++) {
        struct qp_err err = {0};
        while (start_numbered(&n, i, &err) != QP_OK) {
            if (now_ms() > until) {
                fail_msg("there is room, and job %d is refused: %s", i, err.text);
            }
            pause_ms(10);
        }
    }
    for (int i = 0; i < count; i++) {
        (void)snprintf(id, sizeof id, "job-%d", i);
        expect_end(&n, id, "completed");
    }
    node_close(&n);
    expect_sound(url, count);
}

/* --------------------------------------------------------------- PG-10: others have all connections */

#define REFUSALS_MAX 20 /* in the time that it lasts; with pauses that grow there are about eight */
#define EXHAUSTED_MS 700

struct others {
    PGconn *conns[OTHERS_MAX];
    int count;
};

/* Takes what is free. */
static void others_take(struct others *o, const char *url)
{
    bool more = true;
    while (more) {
        PGconn *conn = PQconnectdb(url);
        more = PQstatus(conn) == CONNECTION_OK;
        if (!more) {
            PQfinish(conn);
            return;
        }
        assert_true(o->count < OTHERS_MAX);
        o->conns[o->count++] = conn;
    }
}

static void others_go(struct others *o)
{
    while (o->count > 0) {
        PQfinish(o->conns[--o->count]);
    }
}

static int64_t lines_count(void)
{
    char line[1000];
    char name[300];
    int64_t count = 0;
    FILE *log;
    (void)snprintf(name, sizeof name, "%s/log", pgserver_directory(w.server));
    log = fopen(name, "re");
    assert_non_null(log);
    while (fgets(line, sizeof line, log) != NULL) {
        count += strstr(line, "too many clients") != NULL;
    }
    (void)fclose(log);
    return count;
}

/* Cuts off the engine, and takes its places before it is back. */
static void exhaust(struct others *o, const char *url)
{
    int64_t until = now_ms() + PATIENCE_MS;
    int64_t left;
    do {
        assert_true(now_ms() < until);
        others_take(o, url);
        (void)ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                  " WHERE application_name='quipu'");
        others_take(o, url);
        left = ask("SELECT count(*) FROM pg_stat_activity WHERE application_name='quipu'");
    } while (left > 0);
    others_take(o, url);
}

struct asking {
    struct node *n;
    struct qp_err err;
    int rc;
    atomic_bool done;
};

static void *ask_for_job(void *context)
{
    struct asking *a = context;
    a->rc = start(a->n, "work", "meanwhile", QP_STR("{}"), &a->err);
    atomic_store(&a->done, true);
    return NULL;
}

static void test_no_connection(void **state)
{
    struct others o = {.count = 0};
    struct node n;
    struct asking asking = {.n = &n};
    struct qp_err err = {0};
    const char *url = pgserver_url(w.server, "pool");
    int64_t refused;
    int64_t until;
    pthread_t thread;
    (void)state;
    node_open(&n, url, 0);
    node_work(&n, "work", work_at_once, 0);
    node_begin(&n, 1);
    assert_int_equal(start(&n, "work", "before", QP_STR("{}"), &err), QP_OK);
    expect_end(&n, "before", "completed");
    exhaust(&o, url);
    refused = lines_count();
    assert_int_equal(pthread_create(&thread, NULL, ask_for_job, &asking), 0);
    pause_ms(EXHAUSTED_MS);
    assert_false(atomic_load(&asking.done)); /* it waits, and does not fail at once */
    refused = lines_count() - refused;
    others_go(&o);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (asking.rc != QP_OK) {
        fail_msg("start: %s", asking.err.text);
    }
    print_message("refused %lld times\n", (long long)refused);
    assert_in_range(refused, 1, REFUSALS_MAX);
    expect_end(&n, "meanwhile", "completed");
    until = now_ms() + PATIENCE_MS; /* also the line for hints */
    while (ask("SELECT count(*) FROM pg_stat_activity WHERE application_name='quipu'") < 2) {
        assert_true(now_ms() < until);
        pause_ms(20);
    }
    node_close(&n);
    expect_sound(url, 2);
}

/* --------------------------------------------------------------------------- PG-9: clocks that jump */

#define LEASE_MS 1000 /* of a process, the shortest */
#define TIMER_MS 1200
#define LONG_MS 2500
#define EARLY_MS 30 /* by which two clocks of one machine may differ in this */

/* When a task was called, by a clock that does not jump. */
struct calls {
    atomic_int count;
    atomic_llong at[8];
};

static struct calls of_retry;
static struct calls of_silent;
static struct calls of_long;

static int called(struct calls *c)
{
    int i = atomic_fetch_add(&c->count, 1);
    if (i < (int)ARRAY_COUNT(c->at)) {
        atomic_store(&c->at[i], now_ms());
    }
    return i;
}

/* Fails, and comes again after its pause. */
static int work_retry(void *context, qp_task *task)
{
    (void)context;
    return called(&of_retry) == 0 ? qp_task_fail(task, &(struct qp_failure){.message = "again"})
                                  : QP_OK;
}

/* Says nothing for longer than its lease; whoever gets it then is quick. */
static int work_silent(void *context, qp_task *task)
{
    (void)context;
    (void)task;
    if (called(&of_silent) == 0) {
        pause_ms(LONG_MS);
    }
    return QP_OK;
}

/* Longer than the lease of its process, which is alive. */
static int work_long(void *context, qp_task *task)
{
    (void)context;
    (void)task;
    (void)called(&of_long);
    pause_ms(LONG_MS);
    return QP_OK;
}

static void clock_node(struct node *n, const char *url)
{
    node_open(n, url, LEASE_MS);
    node_work(n, "retry", work_retry, 0);
    node_work(n, "silent", work_silent, TIMER_MS);
    node_work(n, "long", work_long, 0);
    node_begin(n, 4);
}

static void start_clock_jobs(struct node *n)
{
    struct qp_err err = {0};
    struct qp_start retry = {.topic = QP_STR("retry"),
                             .id = QP_STR("retry"),
                             .input = QP_STR("{}"),
                             .retry = {.attempts = 3, .backoff_ms = TIMER_MS}};
    struct qp_start limited = {.topic = QP_STR("nobody"),
                               .id = QP_STR("limited"),
                               .input = QP_STR("{}"),
                               .timeout_ms = TIMER_MS};
    assert_int_equal(qp_job_start(n->q, &retry, NULL, &err), QP_OK);
    assert_int_equal(start(n, "silent", "silent", QP_STR("{}"), &err), QP_OK);
    assert_int_equal(start(n, "long", "long", QP_STR("{}"), &err), QP_OK);
    assert_int_equal(qp_job_start(n->q, &limited, NULL, &err), QP_OK);
}

/* A second call, not before its time, and not hours after it. */
static void expect_second(const char *what, struct calls *c)
{
    int64_t gap = (int64_t)(atomic_load(&c->at[1]) - atomic_load(&c->at[0]));
    assert_int_equal(atomic_load(&c->count), 2);
    if (gap < TIMER_MS - EARLY_MS || gap > PATIENCE_MS) {
        fail_msg("%s: the second call came after %lld ms", what, (long long)gap);
    }
}

static void test_clocks(void **state)
{
    static const qp_ms jumps[][2] = {{HOUR_MS, -HOUR_MS}, {-HOUR_MS, HOUR_MS}, {0, 0}};
    static struct node a;
    static struct node b;
    const char *url = pgserver_url(w.server, "clock");
    int64_t from;
    int64_t took;
    (void)state;
    clock_node(&a, url);
    clock_node(&b, url);
    from = now_ms();
    start_clock_jobs(&a);
    for (size_t i = 0; i < ARRAY_COUNT(jumps); i++) {
        pause_ms(TIMER_MS / 4);
        atomic_store(&a.offset_ms, jumps[i][0]);
        atomic_store(&b.offset_ms, jumps[i][1]);
    }
    expect_end(&a, "limited", "failed");
    took = now_ms() - from;
    assert_in_range(took, TIMER_MS - EARLY_MS, PATIENCE_MS);
    expect_end(&a, "retry", "completed");
    expect_end(&a, "silent", "completed");
    expect_end(&a, "long", "completed");
    expect_second("retry", &of_retry);
    expect_second("silent", &of_silent);
    assert_int_equal(atomic_load(&of_long.count),
                     1); /* nobody took it for that of a dead process */
    node_close(&b);
    node_close(&a);
    expect_sound(url, 4);
}

/* ---------------------------------------------------------------------------------------------- world */

/* In a namespace of our own, before the server is started, which so sees it too. */
static void disk_mount(void)
{
    const struct passwd *user = getpwnam("postgres");
    char name[300];
    files_temporary(w.disk, sizeof w.disk, "disk");
    if (user == NULL || geteuid() != 0) {
        w.why_not = "only root can, for the user postgres";
        return;
    }
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("quipu", w.disk, "tmpfs", 0, "size=24m,mode=0755") != 0) {
        w.why_not = "it is not permitted here";
        return;
    }
    (void)snprintf(name, sizeof name, "%s/space", w.disk);
    assert_int_equal(mkdir(name, 0700), 0);
    assert_int_equal(chown(name, user->pw_uid, user->pw_gid), 0);
    assert_int_equal(chmod(w.disk, 0755), 0);
    w.has_disk = true;
}

static int set_up(void **state)
{
    static const char *const settings[] = {"max_connections = " CONNECTIONS,
                                           "superuser_reserved_connections = 0", NULL};
    (void)state;
    w.random = testenv_seed();
    disk_mount();
    w.server = pgserver_start_with(settings);
    w.conn = PQconnectdb(pgserver_url(w.server, "postgres"));
    return PQstatus(w.conn) == CONNECTION_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    PQfinish(w.conn);
    pgserver_stop(w.server);
    if (w.has_disk) {
        (void)umount2(w.disk, MNT_DETACH); /* it would go with us, too */
    }
    (void)rmdir(w.disk);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_disk_full),
                                       cmocka_unit_test(test_no_connection),
                                       cmocka_unit_test(test_clocks)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

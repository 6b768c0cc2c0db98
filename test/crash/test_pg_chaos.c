/* test_pg_chaos.c - three engine processes on one PostgreSQL database, under load and under faults
 *
 * The program starts itself as the engines. Each starts jobs, some with ids of its own, which it asks for
 * until they are acknowledged, and works on tasks of all: one line in its log before a task is begun, and one
 * row of the test's own table in the commit of its result. Their way to the server leads through a proxy,
 * and their clocks are an hour apart. The parent strikes, and watches that results go on; then it heals
 * everything, waits for the last job, and proves:
 *
 *   every start that was acknowledged is there, and completed
 *   exactly one effect per job
 *   calls per job: at most 1 + the runs that ended before their time
 *   never longer than a lease and ten seconds without a new effect
 *   fsck finds nothing
 *
 * In the check lane one run meets every fault for a moment. In torture each has a run of its own of a
 * minute, or only the one that the first argument names. QP_SEED chooses who is struck, and when.
 */
#include <fcntl.h>
#include <poll.h>
#include <postgresql/libpq-fe.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <quipu.h>

#include "base/base.h"
#include "support/files.h"
#include "support/pgproxy.h"
#include "support/pgserver.h"
#include "support/testenv.h"

#define ENGINES 3
#define STARTERS 2
#define WORKERS 2
#define LEASE_MS 1500
#define PROGRESS_MS (LEASE_MS + 10000)
#define QUIET_MS 30000 /* from the healing to the last job */
#define HOUR_MS 3600000
#define TICK_MS 50
#define TORTURE_MS 60000
#define WORK_US 3000  /* a task, at most */
#define START_US 8000 /* between two starts of one thread */
#define JOBS_MAX 400000

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --------------------------------------------------------------------------------------- an engine */

struct child {
    const char *url;
    const char *log_path;
    int number;
    int life;
    qp_ms offset_ms; /* of its clock */
    int log_fd;
    qp *q;
    struct qp_env usual;
    atomic_bool full; /* no more starts */
};

static struct child me;

/* Before anything is done: who reads the log knows of every call. */
static void note(const char *format, ...)
{
    char line[200];
    va_list args;
    int n;
    va_start(args, format);
    n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    QP_ASSERT(n > 0 && n < (int)sizeof line - 1);
    line[n++] = '\n';
    QP_ASSERT(write(me.log_fd, line, (size_t)n) == n);
}

static qp_ms shifted_ms(void *context)
{
    (void)context;
    return me.usual.wall_ms(me.usual.context) + me.offset_ms;
}

/* A run that ended before its time, by the word of whoever found it; and an engine that gave up. */
static void on_log(void *context, enum qp_log_level level, const char *line, size_t size)
{
    (void)context;
    (void)level;
    if (memmem(line, size, "run is over", 11) != NULL) {
        note("L %d", me.number);
    } else if (memmem(line, size, "has stopped", 11) != NULL) {
        note("X %.*s", size < 140 ? (int)size : 140, line);
        abort();
    }
}

/* In the commit of the result, on its connection. */
static int add_effect(void *context, void *native)
{
    qp_str job = qp_task_job(context);
    char id[64];
    char number[16];
    const char *const values[] = {id, number};
    PGresult *r;
    bool good;
    (void)snprintf(id, sizeof id, "%.*s", STR_ARG(job));
    (void)snprintf(number, sizeof number, "%d", me.number);
    r = PQexecParams(native, "INSERT INTO public.effect(job,engine) VALUES($1,$2::int)", 2, NULL,
                     values, NULL, NULL, 0);
    good = PQresultStatus(r) == PGRES_COMMAND_OK;
    PQclear(r);
    return good ? QP_OK : QP_E_ABORTED;
}

static int work(void *context, qp_task *task)
{
    qp_str id = qp_task_job(task);
    (void)context;
    note("C %.*s", STR_ARG(id));
    (void)usleep((useconds_t)(rand_r(&(unsigned){(unsigned)id.p[id.n - 1]}) % WORK_US));
    qp_task_tx(task, add_effect, task);
    return qp_task_output(task, QP_STR("1"));
}

/* With an id of our own a start is asked for until it is acknowledged. Without one it is given up:
 * nobody was promised anything. */
static void start_one(int starter, int count)
{
    char id[QP_ID_SIZE];
    struct qp_start start = {.topic = QP_STR("work"), .input = QP_STR("{}")};
    struct qp_err err;
    bool own = count % 4 != 0;
    int rc;
    if (own) {
        (void)snprintf(id, sizeof id, "e%d-%d-%d-%d", me.number, me.life, starter, count);
        start.id = str_from(id);
    }
    do {
        rc = qp_job_start(me.q, &start, own ? NULL : id, &err);
        if (rc != QP_OK) {
            (void)usleep(START_US);
        }
    } while (rc != QP_OK && own);
    if (rc == QP_OK) {
        note("S %s", id);
    }
}

static void *starter_main(void *context)
{
    int starter = (int)(intptr_t)context;
    for (int count = 0; !atomic_load(&me.full); count++) {
        start_one(starter, count);
        (void)usleep(START_US);
    }
    return NULL;
}

static void child_open(void)
{
    static struct qp_env env;
    struct qp_options options;
    struct qp_worker worker = {.topic = QP_STR("work"), .work = work, .in_hand = 8};
    struct qp_err err;
    qp_env_init(&env);
    me.usual = env;
    env.wall_ms = shifted_ms;
    env.log = on_log;
    qp_options_init(&options);
    options.path = me.url;
    options.env = &env;
    options.lease_ms = LEASE_MS;
    while (qp_open(&options, &me.q, &err) != QP_OK) {
        (void)usleep(100000); /* the server may be away */
    }
    QP_ASSERT(qp_worker_add(me.q, &worker, &err) == QP_OK);
    QP_ASSERT(qp_start_threads(me.q, WORKERS, &err) == QP_OK);
}

/* SIGUSR1: no more starts. SIGTERM: the end. */
static int child_main(char **argv)
{
    pthread_t starters[STARTERS];
    sigset_t signals;
    struct qp_err err = {0};
    int signal = 0;
    me = (struct child){.url = argv[2],
                        .log_path = argv[3],
                        .number = (int)strtol(argv[4], NULL, 10),
                        .life = (int)strtol(argv[5], NULL, 10),
                        .offset_ms = strtoll(argv[6], NULL, 10)};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGUSR1);
    (void)sigaddset(&signals, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    me.log_fd = open(me.log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    QP_ASSERT(me.log_fd >= 0);
    child_open();
    for (intptr_t i = 0; i < STARTERS; i++) {
        QP_ASSERT(pthread_create(&starters[i], NULL, starter_main, (void *)i) == 0);
    }
    while (signal != SIGTERM && sigwait(&signals, &signal) == 0) {
        atomic_store(&me.full, true);
    }
    for (int i = 0; i < STARTERS; i++) {
        (void)pthread_join(starters[i], NULL);
    }
    if (qp_close(me.q, &err) != QP_OK) {
        note("X %.100s", err.text);
        return 1;
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------ the world */

struct world {
    uint64_t seed;
    uint64_t random;
    struct pgserver *server;
    struct pgproxy *proxy;
    const char *url; /* past the proxy */
    const char *database;
    char dir[256];
    PGconn *conn; /* the parent's own; NULL: the server is away */
    pid_t engines[ENGINES];
    int lives[ENGINES];
    int64_t kills;
    int64_t effects;     /* as seen last */
    int64_t progress_at; /* when they had become more */
    int64_t worst_ms;    /* the longest time without */
};

static struct world w;

static int64_t below(uint64_t n)
{
    return (int64_t)testenv_random_below(&w.random, n);
}

static void ignore_notice(void *context, const char *message)
{
    (void)context;
    (void)message;
}

/* The first field as a number; -1: the server is away, or has just cut us off. */
static int64_t ask(const char *text)
{
    PGresult *r;
    int64_t n = -1;
    if (w.conn == NULL || PQstatus(w.conn) != CONNECTION_OK) {
        PQfinish(w.conn);
        w.conn = PQconnectdb(w.url);
        (void)PQsetNoticeProcessor(w.conn, ignore_notice, NULL); /* returns the former one */
    }
    r = PQexec(w.conn, text);
    if (PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) > 0) {
        n = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    } else if (PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_TUPLES_OK) {
        n = 0;
    }
    PQclear(r);
    return n;
}

static void must(const char *text)
{
    if (ask(text) < 0) {
        fail_msg("%s: %s", text, PQerrorMessage(w.conn));
    }
}

static void engine_spawn(int number)
{
    static const qp_ms offsets[ENGINES] = {0, HOUR_MS, -HOUR_MS};
    char path[300];
    char text[3][24];
    const char *url = pgproxy_url(w.proxy, w.database); /* it takes a lock: not after fork */
    pid_t child;
    (void)snprintf(path, sizeof path, "%s/log-%d", w.dir, number);
    (void)snprintf(text[0], sizeof text[0], "%d", number);
    (void)snprintf(text[1], sizeof text[1], "%d", ++w.lives[number]);
    (void)snprintf(text[2], sizeof text[2], "%lld", (long long)offsets[number]);
    (void)fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)execl("/proc/self/exe", "test_pg_chaos", "engine", url, path, text[0], text[1],
                    text[2], (char *)NULL);
        _exit(127);
    }
    w.engines[number] = child;
}

static void read_logs(void);

/* An engine that ended by itself has met something that it could not stand. */
static void engines_live(void)
{
    for (int i = 0; i < ENGINES; i++) {
        int status = 0;
        if (w.engines[i] > 0 && waitpid(w.engines[i], &status, WNOHANG) != 0) {
            w.engines[i] = 0;
            read_logs(); /* perhaps it has said why */
            fail_msg("QP_SEED=%llu: engine %d has ended, status %d", (unsigned long long)w.seed, i,
                     status);
        }
    }
}

/* A moment, and a look at whether there is progress. */
static void tick(void)
{
    int64_t n;
    (void)usleep(TICK_MS * 1000);
    engines_live();
    n = ask("SELECT count(*) FROM public.effect");
    if (n > w.effects) {
        w.effects = n;
        w.progress_at = now_ms();
    }
    if (now_ms() - w.progress_at > w.worst_ms) {
        w.worst_ms = now_ms() - w.progress_at;
    }
    if (w.worst_ms > PROGRESS_MS) {
        fail_msg("QP_SEED=%llu: no result for %lld ms", (unsigned long long)w.seed,
                 (long long)w.worst_ms);
    }
}

static void pass(int64_t ms)
{
    int64_t until = now_ms() + ms;
    while (now_ms() < until) {
        tick();
    }
}

/* Until there are more results than now: whatever was struck, somebody goes on. */
static void await_progress(void)
{
    int64_t seen = w.effects;
    while (w.effects <= seen) {
        tick();
    }
}

/* ------------------------------------------------------------------------------------------- faults */

/* PG-1: backends of engines, at random. */
static void terminate_some(void)
{
    (void)ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE"
              " application_name='quipu' AND random()<0.4");
    pass(200);
}

/* PG-10: one that has a transaction open and is silent for a moment, as it is between any two of its
 * statements. All of them all the time would leave nobody to go on. */
static void terminate_idle(void)
{
    int64_t struck = 0;
    while (struck <= 0) {
        struck =
            ask("SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity"
                " WHERE application_name='quipu' AND state LIKE 'idle in transaction%'"
                " ORDER BY random() LIMIT 1) AS one");
        (void)usleep(1000);
    }
    pass(below(100));
}

/* PG-2: what is not on disk is gone, and recovery takes over; it may take a while until it begins. */
static void restart_server(void)
{
    pgserver_halt(w.server, "immediate");
    (void)usleep((useconds_t)below(500000));
    pgserver_resume(w.server);
    await_progress();
    pass(500 + below(2000));
}

/* PG-3 */
static void kill_server(void)
{
    pgserver_kill(w.server);
    pgserver_resume(w.server);
    await_progress();
    pass(500 + below(2000));
}

/* PG-7: the server has it, and nobody hears so. */
static void drop_commit(void)
{
    struct pgproxy_fault drop = {.kind = PGPROXY_DROP_COMMIT, .after_commits = below(5)};
    pgproxy_arm(w.proxy, &drop);
    while (pgproxy_hits(w.proxy) == 0) {
        tick();
    }
    pass(below(200));
}

/* PG-6: whatever is written may be refused, as in a deadlock or for a snapshot. */
static void refuse_some(void)
{
    must("CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
         " IF random()<0.05 THEN RAISE EXCEPTION 'refused' USING ERRCODE='40001'; END IF;"
         " IF random()<0.05 THEN RAISE EXCEPTION 'refused' USING ERRCODE='40P01'; END IF;"
         " RETURN NULL; END $$");
    must("CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON quipu.act FOR EACH STATEMENT"
         " EXECUTE FUNCTION public.refuse()");
    pass(1000);
    must("DROP TRIGGER refuse ON quipu.act");
    tick();
}

static void kill_engine(void)
{
    int number = (int)below(ENGINES);
    (void)kill(w.engines[number], SIGKILL);
    assert_int_equal(waitpid(w.engines[number], NULL, 0), w.engines[number]);
    w.kills++;
    w.engines[number] = 0;
    pass(below(2 * LEASE_MS));
    engine_spawn(number);
    await_progress();
}

/* Long enough for others to take up its work; then it goes on, and believes that nothing happened. */
static void stop_engine(void)
{
    pid_t engine = w.engines[below(ENGINES)];
    (void)kill(engine, SIGSTOP);
    pass(3 * LEASE_MS);
    (void)kill(engine, SIGCONT);
    await_progress();
}

static const struct fault {
    const char *name;
    void (*strike)(void);
    int64_t check_ms; /* how long in the check lane; what takes longer happens once */
} faults[] = {
    {"terminate", terminate_some, 1500}, {"drop-commit", drop_commit, 1000},
    {"restart", restart_server, 0},      {"kill-engine", kill_engine, 0},
    {"stop-engine", stop_engine, 0},     {"idle", terminate_idle, 1000},
    {"refuse", refuse_some, 0},          {"kill-server", kill_server, 0},
};

static void strike(const struct fault *fault, int64_t ms)
{
    int64_t until = now_ms() + ms;
    int64_t from = w.effects;
    do {
        fault->strike();
    } while (now_ms() < until);
    print_message("%-12s %lld results, at most %lld ms without\n", fault->name,
                  (long long)(w.effects - from), (long long)w.worst_ms);
}

/* ---------------------------------------------------------------------------------------- afterwards */

struct job {
    char id[48];
    bool acknowledged;
    int calls;
};

static struct job *jobs;
static size_t job_count;
static int64_t runs_over;

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct job *)a)->id, ((const struct job *)b)->id);
}

/* A line that a kill has cut off was not said to anybody. */
static void read_line(const char *line)
{
    size_t n = strlen(line);
    if (n > 0 && line[n - 1] == '\n' && line[0] == 'L') {
        runs_over++;
    } else if (n > 3 && line[n - 1] == '\n' && (line[0] == 'C' || line[0] == 'S')) {
        struct job *job = &jobs[job_count++];
        assert_true(job_count < JOBS_MAX && n - 3 < sizeof job->id);
        *job = (struct job){.acknowledged = line[0] == 'S', .calls = line[0] == 'C'};
        memcpy(job->id, line + 2, n - 3);
    } else if (line[0] == 'X') {
        fail_msg("QP_SEED=%llu: %s", (unsigned long long)w.seed, line);
    }
}

static void read_logs(void)
{
    for (int i = 0; i < ENGINES; i++) {
        char path[300];
        char line[240];
        FILE *f;
        (void)snprintf(path, sizeof path, "%s/log-%d", w.dir, i);
        f = fopen(path, "r");
        assert_non_null(f);
        while (fgets(line, sizeof line, f) != NULL) {
            read_line(line);
        }
        (void)fclose(f); /* opened for reading */
    }
    qsort(jobs, job_count, sizeof *jobs, by_id);
}

/* One entry per id. */
static void join_jobs(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < job_count; i++) {
        if (kept > 0 && strcmp(jobs[kept - 1].id, jobs[i].id) == 0) {
            jobs[kept - 1].acknowledged = jobs[kept - 1].acknowledged || jobs[i].acknowledged;
            jobs[kept - 1].calls += jobs[i].calls;
        } else {
            jobs[kept++] = jobs[i];
        }
    }
    job_count = kept;
}

/* What the engines said goes into a table beside what the store has. */
static void load_jobs(void)
{
    PGresult *r;
    must("CREATE TABLE public.said(job text PRIMARY KEY, acknowledged bool, calls int)");
    r = PQexec(w.conn, "COPY public.said FROM STDIN");
    assert_int_equal(PQresultStatus(r), PGRES_COPY_IN);
    PQclear(r);
    for (size_t i = 0; i < job_count; i++) {
        char line[120];
        int n = snprintf(line, sizeof line, "%s\t%d\t%d\n", jobs[i].id, jobs[i].acknowledged,
                         jobs[i].calls);
        assert_int_equal(PQputCopyData(w.conn, line, n), 1);
    }
    assert_int_equal(PQputCopyEnd(w.conn, NULL), 1);
    while ((r = PQgetResult(w.conn)) != NULL) {
        assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
        PQclear(r);
    }
}

static void check_jobs(void)
{
    static const struct {
        const char *what;
        const char *sql;
    } rules[] = {
        {"jobs that did not complete", "SELECT count(*) FROM quipu.job WHERE status<>5"},
        {"starts that were acknowledged and are lost",
         "SELECT count(*) FROM public.said WHERE acknowledged AND job NOT IN"
         " (SELECT convert_from(jid,'UTF8') FROM quipu.job)"},
        {"jobs without an effect",
         "SELECT count(*) FROM quipu.job WHERE convert_from(jid,'UTF8') NOT IN"
         " (SELECT job FROM public.effect)"},
        {"jobs with more than one effect",
         "SELECT count(*) FROM (SELECT 1 FROM public.effect GROUP BY job HAVING count(*)>1) t"},
        {"effects without a job or a call",
         "SELECT count(*) FROM public.effect WHERE job NOT IN (SELECT job FROM public.said"
         " WHERE calls>0) OR job NOT IN (SELECT convert_from(jid,'UTF8') FROM quipu.job)"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rules); i++) {
        int64_t found = ask(rules[i].sql);
        if (found != 0) {
            fail_msg("QP_SEED=%llu: %lld %s", (unsigned long long)w.seed, (long long)found,
                     rules[i].what);
        }
    }
}

static void check_calls(void)
{
    int64_t acknowledged = ask("SELECT count(*) FROM public.said WHERE acknowledged");
    int64_t most = ask("SELECT max(calls) FROM public.said");
    int64_t again = ask("SELECT count(*) FROM public.said WHERE calls>1");
    print_message(
        "%lld starts acknowledged, %lld effects, %lld runs over, %lld kills, %lld jobs called "
        "again, %lld times at most, %lld ms without a result at most\n",
        (long long)acknowledged, (long long)w.effects, (long long)runs_over, (long long)w.kills,
        (long long)again, (long long)most, (long long)w.worst_ms);
    assert_true(acknowledged > 0);
    /* One that was killed before it had told what it found is among the kills. */
    if (most > 1 + runs_over + w.kills) {
        fail_msg("QP_SEED=%llu: a job was called %lld times", (unsigned long long)w.seed,
                 (long long)most);
    }
}

static int print_finding(void *context, const struct qp_finding *f)
{
    (void)context;
    printf("%s: job '%.*s': %s (%s)\n", f->rule, STR_ARG(f->job), f->text, f->evidence);
    return QP_OK;
}

static void check_store(void)
{
    struct qp_check_options options;
    struct qp_check_result result = {0};
    struct qp_err err = {0};
    qp_check_options_init(&options);
    options.path = w.url;
    if (qp_check(&options, NULL, print_finding, &result, &err) != QP_OK) {
        fail_msg("check: %s", err.text);
    }
    if (result.errors + result.warnings > 0) {
        fail_msg("QP_SEED=%llu: %lld errors, %lld warnings", (unsigned long long)w.seed,
                 (long long)result.errors, (long long)result.warnings);
    }
    assert_int_equal(result.jobs, ask("SELECT count(*) FROM quipu.job"));
}

/* -------------------------------------------------------------------------------------------- a run */

static void engines_signal(int signal)
{
    for (int i = 0; i < ENGINES; i++) {
        (void)kill(w.engines[i], signal);
    }
}

/* Until the query says 0. */
static void await_none(const char *what, const char *sql)
{
    int64_t until = now_ms() + QUIET_MS;
    int64_t left;
    do {
        (void)usleep(TICK_MS * 1000);
        engines_live();
        left = ask(sql);
    } while (left != 0 && now_ms() < until);
    if (left != 0) {
        fail_msg("QP_SEED=%llu: %lld %s at the end", (unsigned long long)w.seed, (long long)left,
                 what);
    }
}

/* No more starts; then every job comes to its end, and every run that was killed is found. */
static void heal(void)
{
    engines_signal(SIGUSR1);
    await_none("jobs are open", "SELECT count(*) FROM quipu.job WHERE completions=0");
    await_none("runs of the dead are there",
               "SELECT count(*) FROM quipu.node WHERE lease_until <"
               " floor(extract(epoch FROM clock_timestamp())*1000)::bigint");
}

static void engines_close(void)
{
    engines_signal(SIGTERM);
    for (int i = 0; i < ENGINES; i++) {
        int status = 0;
        assert_int_equal(waitpid(w.engines[i], &status, 0), w.engines[i]);
        w.engines[i] = 0;
        if (status != 0) {
            fail_msg("QP_SEED=%llu: engine %d closed with status %d", (unsigned long long)w.seed, i,
                     status);
        }
    }
}

static void run_begin(const char *database)
{
    w.database = database;
    w.url = pgserver_url(w.server, database);
    w.kills = w.effects = w.worst_ms = 0;
    files_temporary(w.dir, sizeof w.dir, "chaos");
    must("CREATE TABLE public.effect(job text NOT NULL, engine int)");
    for (int i = 0; i < ENGINES; i++) {
        w.lives[i] = 0;
        engine_spawn(i);
    }
    w.progress_at = now_ms();
    await_progress();
    w.worst_ms = 0; /* of the beginning */
}

static void run_end(void)
{
    heal();
    engines_close();
    job_count = 0;
    runs_over = 0;
    w.effects = ask("SELECT count(*) FROM public.effect");
    read_logs();
    join_jobs();
    load_jobs();
    check_jobs();
    check_calls();
    check_store();
    PQfinish(w.conn);
    w.conn = NULL;
    files_remove(w.dir);
}

static void test_all_faults(void **state)
{
    (void)state;
    run_begin("all");
    for (size_t i = 0; i < ARRAY_COUNT(faults); i++) {
        strike(&faults[i], faults[i].check_ms);
    }
    run_end();
}

static const char *only; /* in torture: this fault; NULL: all */

static void test_each_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(faults); i++) {
        char name[32];
        if (only != NULL && strcmp(only, faults[i].name) != 0) {
            continue;
        }
        (void)snprintf(name, sizeof name, "each%zu", i);
        run_begin(name);
        strike(&faults[i], TORTURE_MS);
        run_end();
    }
}

static int set_up(void **state)
{
    static const char *const settings[] = {"max_connections = 40", NULL};
    (void)state;
    w.seed = testenv_seed();
    w.random = w.seed;
    w.server = pgserver_start_with(settings);
    w.proxy = pgproxy_start(pgserver_port(w.server));
    jobs = calloc(JOBS_MAX, sizeof *jobs);
    return jobs == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < ENGINES; i++) {
        if (w.engines[i] > 0) {
            (void)kill(w.engines[i], SIGKILL); /* a failure left it there */
            (void)waitpid(w.engines[i], NULL, 0);
        }
    }
    free(jobs);
    PQfinish(w.conn);
    pgproxy_stop(w.proxy);
    pgserver_stop(w.server);
    return 0;
}

int main(int argc, char **argv)
{
    const char *lane = getenv("QP_LANE");
    bool torture = lane != NULL && strcmp(lane, "torture") == 0;
    const struct CMUnitTest all[] = {cmocka_unit_test(test_all_faults)};
    const struct CMUnitTest each[] = {cmocka_unit_test(test_all_faults),
                                      cmocka_unit_test(test_each_fault)};
    if (argc == 7 && strcmp(argv[1], "engine") == 0) {
        return child_main(argv);
    }
    only = argc == 2 ? argv[1] : NULL;
    return torture ? cmocka_run_group_tests(each, set_up, tear_down)
                   : cmocka_run_group_tests(all, set_up, tear_down);
}

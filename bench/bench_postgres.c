/* bench_postgres.c - the engine on PostgreSQL, beside a bare libpq pipeline (make bench STORE=postgres)
 *
 * A private cluster with its defaults (fsync on, autovacuum on), in $TMPDIR. The same load as
 * bench_engine (load.h), in turns with the rows of the reference through a bare pipeline in the same
 * batch sizes (reference_pg.h). Then: two processes beside one; claims from a backlog of 1,000 and of
 * 1,000,000, also while a long transaction lets nothing be vacuumed; and how large the tables and indexes
 * are after many jobs.
 *
 * BENCH_SMOKE=1 only shows that it runs. BENCH_ONE=steps:in-flight:jobs runs the engine and the
 * reference once, BENCH_ONE=backlog that part alone; BENCH_URL names a server to use instead of a private one.
 */
#include <postgresql/libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "load.h"
#include "place.h"
#include "reference_pg.h"
#include "stream.h"
#include "support/pgserver.h"

#define ROUNDS 3
#define SIZE_STEPS 4

static bool smoke;
static const char *url;

/* The engine's tables anew. */
static void forget(void)
{
    PGconn *conn = PQconnectdb(url);
    PGresult *result =
        PQexec(conn, "SET client_min_messages=error; DROP SCHEMA IF EXISTS quipu CASCADE");
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        die("drop", PQerrorMessage(conn));
    }
    PQclear(result);
    PQfinish(conn);
}

static void table(int steps)
{
    static const int64_t in_flight[] = {1, 10, 100, 1000};
    static const int64_t jobs_of[] = {500, 4000, 20000, 40000};
    for (size_t i = 0; i < ARRAY_COUNT(in_flight); i++) {
        double reference = 0;
        struct load_figures f = {0};
        int64_t jobs = jobs_of[i] / (steps > 1 ? 5 : 1) / (smoke ? 20 : 1);
        int rounds = smoke ? 1 : ROUNDS;
        jobs = jobs > in_flight[i] ? jobs : in_flight[i];
        for (int round = 0; round < rounds; round++) {
            struct load_figures one;
            reference += reference_pg_run(url, jobs, in_flight[i], steps) / rounds;
            forget();
            one = load_run(url, jobs, in_flight[i], steps == 1 ? LOAD_ONE_STEP : LOAD_TEN_STEPS,
                           NULL);
            f.jobs_per_s += one.jobs_per_s / rounds;
            f.p50_ms += one.p50_ms / rounds;
            f.p99_ms += one.p99_ms / rounds;
        }
        printf("%5d %9lld %12.0f %12.0f %7.2f", steps, (long long)in_flight[i], reference,
               f.jobs_per_s, f.jobs_per_s / reference);
        if (in_flight[i] == 1) {
            printf(" %9.2f %9.2f", f.p50_ms, f.p99_ms);
        }
        printf("\n");
        (void)fflush(stdout);
    }
}

/* So many processes, each with its share of the jobs and of what is in flight. */
static double together(int processes, int64_t jobs, int64_t in_flight)
{
    double from = now_s();
    for (int i = 0; i < processes; i++) {
        pid_t child = fork();
        if (child < 0) {
            die("fork", "cannot");
        }
        if (child == 0) {
            (void)load_run(url, jobs / processes, in_flight / processes, LOAD_ONE_STEP, NULL);
            _exit(0);
        }
    }
    for (int i = 0; i < processes; i++) {
        int status;
        if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            die("process", "did not end well");
        }
    }
    return (double)jobs / (now_s() - from);
}

static void processes(void)
{
    int64_t jobs = smoke ? 2000 : 60000;
    double speed[2] = {0, 0};
    int rounds = smoke ? 1 : ROUNDS;
    for (int round = 0; round < rounds; round++) {
        for (int n = 1; n <= 2; n++) {
            forget();
            (void)load_run(url, 1, 1, LOAD_ONE_STEP, NULL); /* the schema is there */
            speed[n - 1] += together(n, jobs, 1000) / rounds;
        }
    }
    printf("\nprocesses: 1: %.0f jobs/s, 2: %.0f jobs/s, ratio %.2f\n", speed[0], speed[1],
           speed[1] / speed[0]);
}

/* ------------------------------------------------------------------------------------- a backlog */

static const int64_t backlogs[] = {1000, 1000000};
static struct stream streams[ARRAY_COUNT(backlogs)];

/* Rounds in turns for so long; what is told is of this time alone. */
static void turns(double seconds, const char *when)
{
    double from = now_s();
    double speed[ARRAY_COUNT(backlogs)];
    for (size_t i = 0; i < ARRAY_COUNT(backlogs); i++) {
        streams[i].seconds = 0;
        streams[i].claimed = 0;
    }
    while (now_s() - from < seconds) {
        for (size_t i = 0; i < ARRAY_COUNT(backlogs); i++) {
            stream_round(&streams[i]);
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(backlogs); i++) {
        speed[i] = (double)streams[i].claimed / streams[i].seconds;
    }
    printf("%-42s %12.0f %12.0f %7.2f\n", when, speed[0], speed[1], speed[1] / speed[0]);
    (void)fflush(stdout);
}

/* From here on nothing that dies can be taken away. */
static PGconn *horizon_pin(void)
{
    PGconn *conn = PQconnectdb(url);
    PGresult *result =
        PQexec(conn, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()");
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        die("long transaction", PQerrorMessage(conn));
    }
    PQclear(result);
    return conn;
}

static void backlog(void)
{
    PGconn *pinned;
    double minute = smoke ? 2 : 60;
    for (size_t i = 0; i < ARRAY_COUNT(backlogs); i++) {
        char path[600];
        (void)snprintf(path, sizeof path, "%s%cschema=b%lld", url,
                       strchr(url, '?') == NULL ? '?' : '&', (long long)backlogs[i]);
        stream_open(&streams[i], path, smoke && backlogs[i] > 10000 ? 10000 : backlogs[i]);
    }
    printf("\n%-42s %12s %12s %7s\n", "claims, messages/s, with a backlog of", "1,000", "1,000,000",
           "ratio");
    turns(minute / 6, "");
    pinned = horizon_pin();
    turns(minute / 3, "horizon pinned, first third of a minute");
    turns(minute / 3, "second");
    turns(minute / 3, "last");
    PQfinish(pinned);
    turns(minute / 6, "released");
    for (size_t i = 0; i < ARRAY_COUNT(backlogs); i++) {
        stream_close(&streams[i]);
    }
}

/* ---------------------------------------------------------------------------------------- sizes */

/* Bytes of all tables and of all indexes. */
static void sizes(double out_mib[2])
{
    PGconn *conn = PQconnectdb(url);
    PGresult *result = PQexec(
        conn, "SELECT sum(pg_table_size(c.oid))/1048576.0, sum(pg_indexes_size(c.oid))/1048576.0"
              " FROM pg_class c JOIN pg_namespace n ON n.oid=c.relnamespace"
              " WHERE n.nspname='quipu' AND c.relkind='r'");
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        die("sizes", PQerrorMessage(conn));
    }
    for (int i = 0; i < 2; i++) {
        out_mib[i] = strtod(PQgetvalue(result, 0, i), NULL);
    }
    PQclear(result);
    PQfinish(conn);
}

/* What churns, by table: what is dead must be used again. */
static void growth(void)
{
    int64_t jobs = smoke ? 2000 : 1000000 / SIZE_STEPS;
    forget();
    printf("\n%12s %14s %14s %18s\n", "jobs", "tables, MiB", "indexes, MiB", "bytes per job");
    for (int i = 1; i <= SIZE_STEPS; i++) {
        double mib[2];
        (void)load_run(url, jobs, 1000, LOAD_ONE_STEP, NULL);
        sizes(mib);
        printf("%12lld %14.1f %14.1f %18.0f\n", (long long)(jobs * i), mib[0], mib[1],
               (mib[0] + mib[1]) * 1048576 / (double)(jobs * i));
        (void)fflush(stdout);
    }
}

static void one(const char *what)
{
    char *end;
    int steps = (int)strtol(what, &end, 10);
    int64_t in_flight = *end == ':' ? strtoll(end + 1, &end, 10) : 0;
    int64_t jobs = *end == ':' ? strtoll(end + 1, &end, 10) : 0;
    if ((steps != 1 && steps != 10) || in_flight < 1 || jobs < 1) {
        die("BENCH_ONE", "steps (1 or 10):in flight:jobs");
    }
    printf("%.0f jobs/s, reference %.0f\n",
           load_run(url, jobs, in_flight, steps == 1 ? LOAD_ONE_STEP : LOAD_TEN_STEPS, NULL)
               .jobs_per_s,
           reference_pg_run(url, jobs, in_flight, steps));
}

int main(void)
{
    struct pgserver *server;
    pgserver_on_disk();
    server = getenv("BENCH_URL") == NULL ? pgserver_start() : NULL;
    smoke = getenv("BENCH_SMOKE") != NULL;
    url = server == NULL ? getenv("BENCH_URL") : pgserver_url(server, "bench");
    if (getenv("BENCH_ONE") != NULL && strcmp(getenv("BENCH_ONE"), "backlog") == 0) {
        backlog();
    } else if (getenv("BENCH_ONE") != NULL) {
        one(getenv("BENCH_ONE"));
    } else {
        printf("PostgreSQL, fsync=on, in-process workers, private cluster with its defaults\n");
        printf("%5s %9s %12s %12s %7s %9s %9s\n", "steps", "in flight", "reference", "engine",
               "ratio", "p50", "p99");
        printf("%5s %9s %12s %12s %7s %9s %9s\n", "", "", "jobs/s", "jobs/s", "", "ms", "ms");
        table(1);
        table(10);
        processes();
        backlog();
        growth();
    }
    if (server != NULL) {
        pgserver_stop(server);
    }
    return 0;
}

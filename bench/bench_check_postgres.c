/* bench_check_postgres.c - how long a check takes: 100,000 jobs in a file, and on a server (make bench STORE=postgres)
 *
 * The load of bench_engine (load.h) fills a file in $TMPDIR and a private cluster beside it; then both are
 * checked in turns, so that a noisy machine is noisy for both, and the best time of each is told: what others
 * do on the machine only adds. Every check must find nothing.
 *
 * BENCH_SMOKE=1 only shows that it runs; BENCH_JOBS says how many jobs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "load.h"
#include "place.h"
#include "support/pgserver.h"

#define ROUNDS 3
#define IN_FLIGHT 1000

static int64_t jobs_wanted(void)
{
    const char *text = getenv("BENCH_JOBS");
    int64_t jobs = text != NULL ? strtoll(text, NULL, 10) : 100000;
    return getenv("BENCH_SMOKE") != NULL ? 1000 : jobs;
}

static double check_once(const char *path, int64_t jobs)
{
    struct qp_check_options options;
    struct qp_check_result result;
    struct qp_err err;
    double from = now_s();
    qp_check_options_init(&options);
    options.path = path;
    if (qp_check(&options, NULL, NULL, &result, &err) != QP_OK) {
        die("check", err.text);
    }
    if (result.jobs != jobs || result.errors + result.warnings > 0) {
        die(path, "the check found something, or not all jobs");
    }
    return now_s() - from;
}

int main(void)
{
    static const char *const names[] = {"SQLite", "PostgreSQL"};
    int64_t jobs = jobs_wanted();
    int rounds = getenv("BENCH_SMOKE") != NULL ? 1 : ROUNDS;
    double best[2] = {0, 0};
    const char *paths[2];
    struct pgserver *server;
    struct place place;
    place_make(&place);
    pgserver_on_disk();
    server = pgserver_start();
    paths[0] = place.path;
    paths[1] = pgserver_url(server, "bench");
    for (int i = 0; i < 2; i++) {
        (void)load_run(paths[i], jobs, IN_FLIGHT, LOAD_ONE_STEP, NULL);
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 2; i++) {
            double seconds = check_once(paths[i], jobs);
            best[i] = round == 0 || seconds < best[i] ? seconds : best[i];
        }
    }
    printf("%12s %10s %10s %10s\n", "store", "jobs", "seconds", "jobs/s");
    for (int i = 0; i < 2; i++) {
        printf("%12s %10lld %10.1f %10.0f\n", names[i], (long long)jobs, best[i],
               (double)jobs / best[i]);
    }
    pgserver_stop(server);
    place_remove(&place);
    return 0;
}

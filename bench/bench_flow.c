/* bench_flow.c - what flows cost beside graphs: one activity, and ten in a row
 *
 * SQLite, synchronous=FULL, in $TMPDIR. The same jobs as the kernel's own programs, as graphs and as flows run in turns in
 * one process, so that a noisy machine is noisy for all. W1 is a job of one activity, W2 one of ten; with one job in flight
 * the time of a job is shown, too.
 *
 * BENCH_SMOKE=1 only shows that it runs.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "load.h"
#include "place.h"

#define ROUNDS 3

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare_double);
    return values[count / 2];
}

/* One load as each kind of job. */
struct kinds {
    const char *name;
    enum load_job jobs[3]; /* kernel, graph, flow */
    int64_t many;          /* jobs of one run, 1,000 in flight */
    int64_t alone;         /* jobs of one run, one after the other */
};

static const struct kinds kinds[] = {
    {"W1, one activity", {LOAD_ONE_STEP, LOAD_GRAPH_ONE, LOAD_FLOW_ONE}, 10000, 300},
    {"W2, ten activities", {LOAD_TEN_STEPS, LOAD_GRAPH_TEN, LOAD_FLOW_TEN}, 2000, 60},
};

static struct load_figures run(const char *path, int64_t jobs, int64_t in_flight, enum load_job job)
{
    struct load_figures f = load_run(path, jobs, in_flight, job, NULL);
    file_remove(path);
    return f;
}

static void throughput(const char *path, const struct kinds *k, bool smoke)
{
    double rates[3][ROUNDS] = {0};
    double ratio[ROUNDS] = {0};
    int rounds = smoke ? 1 : ROUNDS;
    for (int i = 0; i < rounds; i++) {
        for (size_t j = 0; j < 3; j++) {
            rates[j][i] = run(path, smoke ? 200 : k->many, 1000, k->jobs[j]).jobs_per_s;
        }
        ratio[i] = rates[2][i] / rates[1][i];
    }
    printf("%-20s 1,000 in flight, jobs/s %9.0f %9.0f %9.0f %8.2f\n", k->name,
           median(rates[0], rounds), median(rates[1], rounds), median(rates[2], rounds),
           median(ratio, rounds));
    (void)fflush(stdout);
}

static void latency(const char *path, const struct kinds *k, bool smoke)
{
    double times[3][ROUNDS] = {0};
    double ratio[ROUNDS] = {0};
    int rounds = smoke ? 1 : ROUNDS;
    for (int i = 0; i < rounds; i++) {
        for (size_t j = 0; j < 3; j++) {
            times[j][i] = run(path, smoke ? 10 : k->alone, 1, k->jobs[j]).p50_ms;
        }
        ratio[i] = times[2][i] / times[1][i];
    }
    printf("%-20s one in flight, p50 ms    %9.2f %9.2f %9.2f %8.2f\n", k->name,
           median(times[0], rounds), median(times[1], rounds), median(times[2], rounds),
           median(ratio, rounds));
    (void)fflush(stdout);
}

int main(void)
{
    bool smoke = getenv("BENCH_SMOKE") != NULL;
    struct place place;
    place_make(&place);
    printf("SQLite %s, synchronous=FULL, workers and flows in this process\n",
           sqlite3_libversion());
    printf("%-20s %-24s %9s %9s %9s %8s\n", "", "", "kernel", "graph", "flow", "flow/graph");
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        throughput(place.path, &kinds[i], smoke);
        latency(place.path, &kinds[i], smoke);
    }
    place_remove(&place);
    return 0;
}

/* bench_graph.c - what graphs cost over the kernel's own steps: one worker, ten in a chain, a thousand side by side and a join
 *
 * SQLite, synchronous=FULL, in $TMPDIR. The same jobs as the kernel's own programs and as graphs, with maps, run in
 * turns in one process, so that a noisy machine is noisy for both. The fan has no counterpart: its figure is activities per
 * second beside those of the chain.
 *
 * BENCH_SMOKE=1 only shows that it runs. BENCH_ONE=job:in-flight:jobs (job: 0 to 4, enum load_job) runs one alone: for a
 * profiler.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "load.h"
#include "place.h"

#define ROUNDS 5

static double run(const char *path, int64_t jobs, int64_t in_flight, enum load_job job)
{
    double jobs_per_s = load_run(path, jobs, in_flight, job, NULL).jobs_per_s;
    file_remove(path);
    return jobs_per_s;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void compare(const char *path, const char *name, enum load_job plain, enum load_job graph,
                    int64_t jobs, bool smoke)
{
    double kernel[ROUNDS] = {0};
    double graphs[ROUNDS] = {0};
    double ratio[ROUNDS] = {0};
    int rounds = smoke ? 1 : ROUNDS;
    for (int i = 0; i < rounds; i++) {
        kernel[i] = run(path, jobs, 1000, plain);
        graphs[i] = run(path, jobs, 1000, graph);
        ratio[i] = graphs[i] / kernel[i];
    }
    qsort(kernel, (size_t)rounds, sizeof *kernel, compare_double);
    qsort(graphs, (size_t)rounds, sizeof *graphs, compare_double);
    qsort(ratio, (size_t)rounds, sizeof *ratio, compare_double);
    printf("%-28s %12.0f %12.0f %8.2f\n", name, kernel[rounds / 2], graphs[rounds / 2],
           ratio[rounds / 2]);
    (void)fflush(stdout);
}

static void one(struct place *place, const char *what)
{
    char *end;
    int job = (int)strtol(what, &end, 10);
    int64_t in_flight = *end == ':' ? strtoll(end + 1, &end, 10) : 0;
    int64_t jobs = *end == ':' ? strtoll(end + 1, &end, 10) : 0;
    if (job < 0 || job > LOAD_GRAPH_FAN || in_flight < 1 || jobs < 1) {
        die("BENCH_ONE", "job (0 to 4):in flight:jobs");
    }
    printf("%.0f jobs/s\n", run(place->path, jobs, in_flight, (enum load_job)job));
}

int main(void)
{
    bool smoke = getenv("BENCH_SMOKE") != NULL;
    struct place place;
    place_make(&place);
    if (getenv("BENCH_ONE") != NULL) {
        one(&place, getenv("BENCH_ONE"));
        place_remove(&place);
        return 0;
    }
    printf("SQLite %s, synchronous=FULL, in-process workers, 1,000 in flight\n",
           sqlite3_libversion());
    printf("%-28s %12s %12s %8s\n", "", "kernel", "graph", "ratio");
    printf("%-28s %12s %12s %8s\n", "", "jobs/s", "jobs/s", "");
    compare(place.path, "one worker", LOAD_ONE_STEP, LOAD_GRAPH_ONE, smoke ? 2000 : 40000, smoke);
    compare(place.path, "ten workers", LOAD_TEN_STEPS, LOAD_GRAPH_TEN, smoke ? 1000 : 10000, smoke);
    printf("%-28s %12s %12.1f %8s   (%d activities each)\n", "a thousand and a join", "",
           run(place.path, smoke ? 2 : 50, smoke ? 2 : 10, LOAD_GRAPH_FAN), "", LOAD_FAN + 3);
    place_remove(&place);
    return 0;
}

/* bench_engine.c - jobs of 1 and 10 steps through the whole engine, beside the fixed reference
 *
 * SQLite, synchronous=FULL, in $TMPDIR. The reference (reference.h) runs in turns with the load (load.h),
 * in the same process, so that a noisy machine is noisy for both. fdatasync is counted by the VFS under
 * both.
 *
 * BENCH_SMOKE=1 only shows that it runs. BENCH_ONE=steps:in-flight:jobs runs the engine alone, once: for
 * a profiler.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "load.h"
#include "place.h"
#include "reference.h"
#include "support/faultvfs.h"

#define ROUNDS 3

static int64_t syncs(void)
{
    return faultvfs_count(FAULT_SYNC);
}

/* -------------------------------------------------------------------------------------- the table */

static void table(const struct place *place, int steps, bool smoke)
{
    static const int64_t in_flight[] = {1, 10, 100, 1000};
    static const int64_t jobs_of[] = {1000, 8000, 40000, 60000};
    const char *path = place->path;
    for (size_t i = 0; i < ARRAY_COUNT(in_flight); i++) {
        double reference = 0;
        struct load_figures f = {0};
        int64_t jobs = jobs_of[i] / (steps > 1 ? 5 : 1) / (smoke ? 20 : 1);
        int rounds = smoke ? 1 : ROUNDS;
        jobs = jobs > in_flight[i] ? jobs : in_flight[i];
        for (int round = 0; round < rounds; round++) {
            reference += reference_run(path, FAULTVFS_NAME, jobs, in_flight[i], steps) / rounds;
            file_remove(path);
            struct load_figures one = load_run(path, jobs, in_flight[i],
                                               steps == 1 ? LOAD_ONE_STEP : LOAD_TEN_STEPS, syncs);
            file_remove(path);
            f.jobs_per_s += one.jobs_per_s / rounds;
            f.syncs_per_job += one.syncs_per_job / rounds;
            f.p50_ms += one.p50_ms / rounds;
            f.p99_ms += one.p99_ms / rounds;
        }
        printf("%5d %9lld %12.0f %12.0f %7.2f %14.3f", steps, (long long)in_flight[i], reference,
               f.jobs_per_s, f.jobs_per_s / reference, f.syncs_per_job);
        if (in_flight[i] == 1) {
            printf(" %9.2f %9.2f", f.p50_ms, f.p99_ms);
        }
        printf("\n");
        (void)fflush(stdout);
    }
}

/* The engine alone, once, as BENCH_ONE says. */
static void one(struct place *place, const char *what)
{
    char *end;
    int steps = (int)strtol(what, &end, 10);
    int64_t in_flight = *end == ':' ? strtoll(end + 1, &end, 10) : 0;
    int64_t jobs = *end == ':' ? strtoll(end + 1, &end, 10) : 0;
    struct load_figures f;
    if ((steps != 1 && steps != 10) || in_flight < 1 || jobs < 1) {
        die("BENCH_ONE", "steps (1 or 10):in flight:jobs");
    }
    f = load_run(place->path, jobs, in_flight, steps == 1 ? LOAD_ONE_STEP : LOAD_TEN_STEPS, syncs);
    printf("%.0f jobs/s, %.4f fdatasync per job\n", f.jobs_per_s, f.syncs_per_job);
    place_remove(place);
}

int main(void)
{
    bool smoke = getenv("BENCH_SMOKE") != NULL;
    struct place place;
    place_make(&place);
    faultvfs_init(FAULTVFS_SYNC_REAL, false);
    (void)sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 1);
    if (getenv("BENCH_ONE") != NULL) {
        one(&place, getenv("BENCH_ONE"));
        return 0;
    }
    printf("SQLite %s, synchronous=FULL, in-process workers\n", sqlite3_libversion());
    printf("%5s %9s %12s %12s %7s %14s %9s %9s\n", "steps", "in flight", "reference", "engine",
           "ratio", "fdatasync", "p50", "p99");
    printf("%5s %9s %12s %12s %7s %14s %9s %9s\n", "", "", "jobs/s", "jobs/s", "", "per job", "ms",
           "ms");
    table(&place, 1, smoke);
    table(&place, 10, smoke);
    place_remove(&place);
    return 0;
}

/* load.h - the load of the engine's benchmarks: jobs of 1 and 10 steps, so many in flight
 *
 * The engine has its own threads and two workers', whose function does nothing; a job's next one is
 * started when it ends, so that as many as were asked for are in flight all the time.
 */
#ifndef QP_BENCH_LOAD_H
#define QP_BENCH_LOAD_H

#include <stdint.h>

struct load_figures {
    double jobs_per_s;
    double syncs_per_job;
    double p50_ms; /* of a job, when one is in flight at a time */
    double p99_ms;
};

/* `path` as for qp_open. Ends the program when something fails. `syncs_so_far` may be NULL. */
struct load_figures load_run(const char *path, int64_t jobs, int64_t in_flight, int steps,
                             int64_t (*syncs_so_far)(void));

#endif

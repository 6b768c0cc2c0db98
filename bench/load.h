/* load.h - the load of the engine's benchmarks: jobs of 1 and 10 steps, as the kernel's own, as graphs or as flows, a given number in flight
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

/* What each job is. A graph's maps pass on what its workers need and answer. */
enum load_job {
    LOAD_ONE_STEP,
    LOAD_TEN_STEPS,
    LOAD_GRAPH_ONE,
    LOAD_GRAPH_TEN,
    LOAD_GRAPH_FAN,
    LOAD_FLOW_ONE,
    LOAD_FLOW_TEN
};
#define LOAD_FAN 1000 /* branches of LOAD_GRAPH_FAN, which a join ends */

/* `path` as for qp_open. Ends the program when something fails. `syncs_so_far` may be NULL. */
struct load_figures load_run(const char *path, int64_t jobs, int64_t in_flight, enum load_job job,
                             int64_t (*syncs_so_far)(void));

#endif

/* reference_pg.h - what PostgreSQL costs, with nothing around it
 *
 * The rows of reference.h through a bare libpq pipeline: prepared statements with binary parameters, one
 * per row, all of a commit sent before the first answer is read. It reads nothing, compares nothing and
 * locks nothing. One connection, synchronous_commit on.
 */
#ifndef QP_BENCH_REFERENCE_PG_H
#define QP_BENCH_REFERENCE_PG_H

#include <stdint.h>

/* Jobs per second with `in_flight` jobs sharing each commit. Its tables are made anew, and go. */
double reference_pg_run(const char *url, int64_t jobs, int64_t in_flight, int steps);

#endif

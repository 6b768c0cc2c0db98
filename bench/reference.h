/* reference.h - the fixed reference program: what SQLite costs, with nothing around it
 *
 * A bare loop with prepared statements on a file of its own: 9 row writes in 2 commits per job of one
 * step (job, two activities, a message, a journal entry; then the message goes, the activity and the job
 * change, another entry), and 4 row writes and a commit per further step (the activity changes, the
 * message goes, the next activity and its message come). WAL, synchronous=FULL, one thread. It
 * reads nothing, compares nothing, and is never changed: it is the yardstick.
 */
#ifndef QP_BENCH_REFERENCE_H
#define QP_BENCH_REFERENCE_H

#include <stdint.h>

/* Jobs per second with `in_flight` jobs sharing each commit. `vfs` may be NULL. */
double reference_run(const char *path, const char *vfs, int64_t jobs, int64_t in_flight, int steps);

#endif

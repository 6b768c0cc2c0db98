/* workers.h - the functions of this process that serve topics: added, removed, and claims by hand
 *
 * On the thread that drives.
 */
#ifndef QP_RUN_WORKERS_H
#define QP_RUN_WORKERS_H

#include "base/base.h"

/* After each round: workers that leave. */
void workers_turn(qp *q);

#endif

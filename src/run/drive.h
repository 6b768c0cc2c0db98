/* drive.h - the state of the thread that runs an engine, for the server
 *
 * From any thread; nothing is asked of the store's tables.
 */
#ifndef QP_RUN_DRIVE_H
#define QP_RUN_DRIVE_H

#include "base/base.h"

/* Every LIMIT_STORE_LOOK_MS: an engine whose store was removed or replaced ends within its next turn, also when it has
 * nothing to do. */
void drive_watch_store(qp *q);
/* False once the engine's own thread has ended because the store failed for good. */
bool drive_is_alive(qp *q);

#endif

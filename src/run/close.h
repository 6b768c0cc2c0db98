/* close.h - the threads of a handle: closing waits for them, or leaves the rest of the closing to the last of them
 *
 * From any thread.
 */
#ifndef QP_RUN_CLOSE_H
#define QP_RUN_CLOSE_H

#include "base/base.h"

/* Threads of our own begin, before they do; fewer: the system refused them. */
void threads_add(qp *q, int count);
/* A thread of our own ends: after that it does not use the handle any more. */
void thread_left(void *handle);

#endif

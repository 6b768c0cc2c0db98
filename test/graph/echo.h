/* echo.h - messages of the engine that come a second time
 *
 * Notes every message of the engine's stream while a graph runs (graphrun.h), so that a test can send it again as it was, after
 * it was acknowledged: as a broker would that lost the acknowledgement. One at a time.
 */
#ifndef QP_TEST_GRAPH_ECHO_H
#define QP_TEST_GRAPH_ECHO_H

#include "support/graphrun.h"

/* `all`: each comes again by itself as soon as it is gone, once. */
void echo_begin(struct graphrun *r, bool all);
/* How many came again. */
int64_t echo_end(struct graphrun *r);
/* The message of this kind to this address comes again; it must have been there, and be gone. */
void echo_send(struct graphrun *r, enum message_kind kind, const char *addr);

#endif

/* agenthttp.h - plays a trace of an agent workflow through the endpoints of an agent port, and says where the server differs
 *
 * The player is the agent: it takes decisions and tasks as jobs, and says of them what the trace says. A task has started when it
 * is taken, first in, first out; so only a trace whose works all start, in the order in which they were asked for, and end after
 * that, can be played. Times are left aside: a wait that a step of the trace ends is asked for with a duration that ends in that
 * step, and what the engine measures is waited for. The arrays are compared behind every step, until they agree or AGENTHTTP_MS
 * are over. Each play has an environment of its own. `lost` and `restart` wait until the engine gives the decision out again.
 */
#ifndef QP_TEST_AGENTHTTP_H
#define QP_TEST_AGENTHTTP_H

#include "base/base.h"
#include "base/mem.h"

#define AGENTHTTP_MS 10000

/* A port of 127.0.0.1. QP_OK: played; *out_differences counts the lines in out. QP_E_UNSUPPORTED: such a trace cannot be played, and
 * err says why; nothing was asked. QP_E_MALFORMED, QP_E_SHAPE: the file is bad. */
int agenthttp_play(const struct qp_env *env, int port, qp_str text, struct buf *out,
                   struct qp_err *err, size_t *out_differences) QP_MUST_USE;

#endif

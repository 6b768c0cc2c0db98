/* agenttrace.h - plays a trace of an agent workflow on virtual time and says where the engine differs
 *
 *   {name, properties, input, steps:[{t, do, ..., state}]}
 *   do = start | decision {runs:[{index, branch, type, given, execute:[{works, reply}], end:{properties, output?}}]}
 *      | fail {error} | retry | lost | onEvent {name, input} | onStart, onSuccess, onFailure, onTimeout {work, output|error,
 *        retryDelay?} | timers | mode {mode} | restart
 *
 * What `state` omits, at any depth, is not compared; arrays are compared in length and order, replies whole. Each difference
 * is one line: "step 3: /statuses/0/status: expected "failed", got "scheduled"". A step that cannot be played as written,
 * since the engine is elsewhere, ends the trace.
 */
#ifndef QP_TEST_AGENTTRACE_H
#define QP_TEST_AGENTTRACE_H

#include "base/json.h"

/* QP_OK: played; *out_differences counts the lines in out. QP_E_MALFORMED, QP_E_SHAPE, QP_E_TOO_LARGE: the file is bad, and
 * err->pointer says where. QP_E_NOMEM. `seen` (may be NULL) gets the state behind every step, one line each. */
int agenttrace_play(const struct qp_env *env, qp_str text, struct buf *out, struct buf *seen,
                    struct qp_err *err, size_t *out_differences) QP_MUST_USE;

#endif

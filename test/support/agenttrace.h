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

#include "agent/instance.h"
#include "base/json.h"

/* What plays the steps: an instance in memory, or one on a store (agentstage.h). Times are those of the trace. All return QP_OK,
 * QP_E_NOMEM or what else they say; what an instance ignores, or refuses because it is over, is QP_OK. */
struct tracestage {
    void *context;
    int (*start)(void *context, int64_t now_ms, qp_str name, qp_str input, qp_str properties);
    /* All of it, as it stands; until the next step. */
    int (*see)(void *context, struct arena *arena, const struct instance **out_instance);
    /* What a draft reads of it. A decision is out. */
    int (*give)(void *context, struct arena *arena, const struct instance **out_instance);
    int (*decided)(void *context, int64_t now_ms, const struct draft *draft, struct qp_err *err);
    /* QP_E_CONFLICT: no decision is out. */
    int (*failed)(void *context, int64_t now_ms, const struct state_error *error, bool modified,
                  struct qp_err *err);
    int (*retry)(void *context, int64_t now_ms);
    int (*lost)(void *context);
    int (*restart)(void *context);
    int (*event)(void *context, int64_t now_ms, qp_str name, qp_str input, struct qp_err *err);
    int (*report)(void *context, int64_t now_ms, const struct instance_report *report);
    int (*timers)(void *context, int64_t now_ms);
    int (*mode)(void *context, int64_t now_ms, enum instance_mode mode);
};

/* QP_OK: played; *out_differences counts the lines in out. QP_E_MALFORMED, QP_E_SHAPE, QP_E_TOO_LARGE: the file is bad, and
 * err->pointer says where. QP_E_NOMEM. `seen` (may be NULL) gets the state behind every step, one line each. */
int agenttrace_play(const struct qp_env *env, qp_str text, struct buf *out, struct buf *seen,
                    struct qp_err *err, size_t *out_differences) QP_MUST_USE;
/* The same on another stage. */
int agenttrace_play_on(const struct tracestage *stage, const struct qp_env *env, qp_str text,
                       struct buf *out, struct buf *seen, struct qp_err *err,
                       size_t *out_differences) QP_MUST_USE;

#endif

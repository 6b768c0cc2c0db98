/* flowremote.h - functions of C as flows that a worker elsewhere serves: a task of POST /v1/work, and the result for it
 *
 *     flowremote_init(&r, &env, &arena);
 *     flowremote_read(&r, task);                     the task's JSON; then, while r.more is not none, each further page
 *     flowremote_decide(&r, function, now, &result)  result.decision are the members of a result beside its token
 *
 * The history goes through JSON both ways, so what is missing in it is found by the tests that use this. Everything lives in
 * the arena, texts that come in included.
 */
#ifndef QP_TEST_FLOWREMOTE_H
#define QP_TEST_FLOWREMOTE_H

#include "flow/script.h"

struct flowremote {
    const struct qp_env *env;
    struct arena *arena;
    struct flow_log log;
    struct history_event *events;
    size_t capacity;
    qp_str more; /* the cursor of the next page, as JSON; none: there is none */
};

void flowremote_init(struct flowremote *r, const struct qp_env *env, struct arena *arena);
/* The JSON must be a server's: whatever else it is aborts. */
void flowremote_read(struct flowremote *r, qp_str json);
/* The function's context is the log. */
void flowremote_decide(struct flowremote *r, qp_flow_function function, qp_ms now,
                       struct script_result *out_result);

#endif

/* agent_calls.h - the handlers of agent_routes.def, and what they share */
#ifndef QP_SERVER_AGENT_CALLS_H
#define QP_SERVER_AGENT_CALLS_H

#include "run/agents.h"
#include "run/agents_drafts.h"
#include "server/api.h"

/* What an agent port is, for its handlers. */
struct agent_context {
    struct drafts *drafts;
    const char *environment; /* of calls that name none */
};

static inline const struct agent_context *agent_context(const struct api_call *c)
{
    return api_options(c->api)->context;
}

#define ROUTE(name, method, path, scope, flags, parameters, body, answer, status, summary)         \
    void endpoint_##name(struct api_call *c);
#include "server/agent_routes.def"
#undef ROUTE

/* Refuses the call: the code says the status, with 400 for what is of a wrong shape. agent_fail_set is for `render`. */
void agent_fail(struct api_call *c, int rc, const struct qp_err *err);
void agent_fail_set(struct api_call *c, int rc, const struct qp_err *err);
/* Answers with an empty object. */
void agent_answer(struct api_call *c, int status);

/* The text of a member of an object that was checked; none when it is null or not there. False: it is no string, and the call is
 * refused. */
bool agent_text(struct api_call *c, qp_str object, const char *key, qp_str *out_text) QP_MUST_USE;
/* A member as it came; none when it is not there. */
qp_str agent_member(qp_str object, const char *key);
/* The body is an object. False: it is not, and the call is refused. */
bool agent_object(struct api_call *c) QP_MUST_USE;

#endif

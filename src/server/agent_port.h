/* agent_port.h - the port for agents: a listener, a route table and an API of its own, for agent workflows
 *
 *   agent_routes.def    its addresses                 agent_calls.c     what agents ask: jobs, decisions, tasks
 *   agent_port.c        open, close, problems         agent_clients.c   what client libraries ask
 *                                                     agent_graphql.c   the same as GraphQL
 *
 * The API stands on the server's engine and has threads of its own, so agents and the calls of others do not wait for each other.
 * It listens on 127.0.0.1 alone. No call needs a token, unless there is a secret (ADR 65). Errors are {"error":TEXT}, those of
 * GraphQL {"errors":[{"message","type"}]}.
 *
 * Owner: the server, from agent_port_open to agent_port_close.
 */
#ifndef QP_SERVER_AGENT_PORT_H
#define QP_SERVER_AGENT_PORT_H

#include "server/http.h"

struct agent_port_options {
    qp *engine;
    const struct qp_env *env;
    struct metrics *metrics;
    int port;                /* 0: the system chooses */
    const char *secret;      /* NULL: no call needs a token */
    const char *environment; /* of calls that name none; NULL: dev */
    qp_ms lease_ms;          /* of tasks, at least; 0: LIMIT_AGENT_LEASE_MS */
    size_t body_size;        /* 0: LIMIT_BODY_SIZE */
    unsigned connections;
    int http_threads;
};

struct agent_port;

/* Before the engine has handed out any task of an agent. */
int agent_port_open(const struct agent_port_options *options, struct agent_port **out_port,
                    struct qp_err *err) QP_MUST_USE;
/* Where it listens: "127.0.0.1:4001". */
const char *agent_port_name(const struct agent_port *p);
/* Now and then: decisions that no call came for go back. */
void agent_port_tidy(struct agent_port *p);
/* No new connections; calls that are there are answered. */
void agent_port_quiesce(struct agent_port *p, qp_ms within_ms);
/* False: some calls were not answered in time, and it is still there. NULL is allowed. */
bool agent_port_close(struct agent_port *p, qp_ms within_ms);

#endif

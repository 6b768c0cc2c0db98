/* agent_port.c - the port for agents, opened and closed (see agent_port.h) */
#include "server/agent_port.h"

#include <stdio.h>

#include "base/hash.h"
#include "server/agent_calls.h"

struct agent_port {
    const struct qp_env *env;
    struct api *api;
    struct http *http;
    struct agent_context context;
    struct principal all;
    char name[sizeof((struct listener *)0)->name];
    char environment[LIMIT_ID_SIZE + 1];
    char *secret; /* with a NUL; NULL: there is none */
};

static const struct route routes[] = {
#define ROUTE(name, method, path, scope, flags, parameters, body, answer, status, summary)         \
    {#name, API_##method, path,   SCOPE_##scope, flags,          parameters,                       \
     body,  answer,       status, summary,       endpoint_##name},
#include "server/agent_routes.def"
#undef ROUTE
};

static const struct route_table table = {routes, ARRAY_COUNT(routes)};

/* --------------------------------------------------------------------------------------- problems */

static bool is_graphql(const struct api_call *c)
{
    return c->route != NULL && c->route->endpoint == endpoint_graphql;
}

static void put(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, str_from(key));
    json_put_str(w, str_from(text));
}

static void write_problem(const struct api_call *c, const char *code, const char *detail,
                          struct json_writer *w)
{
    json_begin_object(w);
    if (is_graphql(c)) {
        json_key(w, QP_STR("errors"));
        json_begin_array(w);
        json_begin_object(w);
        put(w, "message", detail);
        put(w, "type", code);
        json_end_object(w);
        json_end_array(w);
    } else {
        put(w, "error", detail);
    }
    json_end_object(w);
}

/* -------------------------------------------------------------------------------------- open, close */

/* One caller for all calls; its tokens outlive this process. */
static void set_principal(struct agent_port *p)
{
    p->all =
        (struct principal){.role = "agent", .scopes = SCOPE_ALL, .namespaces = "*", .topics = "*"};
    (void)snprintf(p->all.token, sizeof p->all.token, "agent");
    memset(p->all.hash, 'a',
           sizeof p->all.hash); /* a name, and no secret: it is hashed with the server's key */
}

static int open_api(struct agent_port *p, const struct agent_port_options *o, struct qp_err *err)
{
    struct api_options options = {.engine = o->engine,
                                  .env = o->env,
                                  .metrics = o->metrics,
                                  .limited = true,
                                  .open = true,
                                  .routes = &table,
                                  .context = &p->context,
                                  .as = &p->all,
                                  .secret = p->secret,
                                  .problem = write_problem};
    QP_TRY(api_open(&options, &p->api, err));
    return auth_load(api_auth(p->api), err);
}

static int open_drafts(struct agent_port *p, qp *engine, struct qp_err *err)
{
    unsigned char key[HASH_KEYED_SIZE];
    struct work_caller caller = {.id = str_from(p->all.token),
                                 .key = {(const char *)key, sizeof key}};
    auth_task_key(api_auth(p->api), &p->all, key);
    return drafts_open(engine, &caller, &p->context.drafts, err);
}

static int open_http(struct agent_port *p, const struct agent_port_options *o, struct qp_err *err)
{
    struct http_options http = {.api = p->api,
                                .body_size = o->body_size,
                                .connections = o->connections,
                                .threads = o->http_threads};
    char where[32];
    (void)snprintf(where, sizeof where, "127.0.0.1:%d", o->port);
    QP_TRY(listener_open(where, &http.listener, err));
    (void)snprintf(p->name, sizeof p->name, "%s", http.listener.name);
    return http_open(&http, &p->http, err);
}

static int open_parts(struct agent_port *p, const struct agent_port_options *o, struct qp_err *err)
{
    const char *environment = o->environment != NULL ? o->environment : "dev";
    QP_TRY(id_check(str_from(environment), "--agent-env", err));
    (void)snprintf(p->environment, sizeof p->environment, "%s", environment);
    p->context.environment = p->environment;
    if (o->secret != NULL) {
        p->secret = mem_alloc(p->env, strlen(o->secret) + 1);
        if (p->secret == NULL) {
            return err_set(err, QP_E_NOMEM, "agents: out of memory");
        }
        memcpy(p->secret, o->secret, strlen(o->secret) + 1);
    }
    agents_set_lease(o->engine, o->lease_ms > 0 ? o->lease_ms : LIMIT_AGENT_LEASE_MS);
    set_principal(p);
    QP_TRY(open_api(p, o, err));
    QP_TRY(open_drafts(p, o->engine, err));
    return open_http(p, o, err);
}

int agent_port_open(const struct agent_port_options *options, struct agent_port **out_port,
                    struct qp_err *err)
{
    struct agent_port *p = mem_alloc(options->env, sizeof *p);
    int rc;
    if (p == NULL) {
        return err_set(err, QP_E_NOMEM, "agents: out of memory");
    }
    p->env = options->env;
    rc = open_parts(p, options, err);
    if (rc != QP_OK) {
        (void)agent_port_close(p, 0); /* no call has come */
        return rc;
    }
    *out_port = p;
    return QP_OK;
}

const char *agent_port_name(const struct agent_port *p)
{
    return p->name;
}

void agent_port_tidy(struct agent_port *p)
{
    drafts_tidy(p->context.drafts);
}

void agent_port_quiesce(struct agent_port *p, qp_ms within_ms)
{
    http_quiesce(p->http);
    api_drain(p->api, within_ms);
}

bool agent_port_close(struct agent_port *p, qp_ms within_ms)
{
    if (p == NULL) {
        return true;
    }
    if (p->http != NULL && !http_wait(p->http, within_ms)) {
        return false;
    }
    http_close(p->http);
    api_close(p->api);
    drafts_close(p->context.drafts);
    if (p->secret != NULL) {
        explicit_bzero(p->secret, strlen(p->secret));
    }
    mem_free(p->env, p->secret);
    mem_free(p->env, p);
    return true;
}

/* server.h - a whole server: a store, an engine, the API, and where it listens
 *
 * server_open refuses what would be unsafe, in a sentence: a data directory that others may
 * read, an address beyond this machine without TLS or without tokens. It makes the data
 * directory (0700), the store in it, and at the first start a token for the administrator, in
 * the file admin.token (0600).
 *
 * The end: server_close answers what waits, finishes what is being done, gives back tasks, and
 * closes the store as it should be.
 */
#ifndef QP_SERVER_SERVER_H
#define QP_SERVER_SERVER_H

#include "kernel/turn.h"
#include "server/http.h"

#define SERVER_LISTENERS 4
#define SERVER_DEFAULT_LISTEN "127.0.0.1:7700"

struct server_options {
    const struct qp_env *env;
    const char *data; /* directory */
    const char
        *store; /* file or URL; NULL: quipu.db in the data directory; "memory": nothing is kept */
    const char *listen[SERVER_LISTENERS];
    size_t listen_count; /* 0: SERVER_DEFAULT_LISTEN */
    const int *adopted;  /* sockets that were opened for us; then none are opened */
    size_t adopted_count;
    const char *hosts[LIMIT_HOSTS]; /* names that it answers to */
    size_t host_count;
    const char *tls_key; /* files */
    const char *tls_certificate;
    bool no_auth;
    bool behind_proxy;
    bool accept_loss; /* as of struct qp_options */
    size_t body_size;
    size_t bodies_size; /* of all requests at a time; 0: the default */
    unsigned connections;
    int http_threads;
    int64_t token_rate; /* requests per second of one token; 0: LIMIT_TOKEN_RATE, < 0: any */
    qp_ms keep_ms;
    qp_ms drain_ms; /* 0: LIMIT_DRAIN_MS */
    bool builtin;   /* serve the workers that come with the engine (qp_builtin_serve) */
    /* What tasks of quipu.shell may run: "name=/the/program"; 0: nothing (struct qp_builtin). */
    const char *const *shell;
    size_t shell_count;
    const char *step_topics; /* steps of built-in kinds that this server serves (kinds_serve) */
    bool agents;             /* a port for agents (agent_port.h), with: */
    int agent_port;
    const char *agent_secret;
    const char *agent_environment;
    qp_ms agent_lease_ms;
    const struct registry *registry; /* of packages (run/registry.h); NULL: it fetches none */
    int worker_threads; /* for workers in this process that take their time; 0: the engine's own thread runs them */
    /* Kinds of jobs beside those that every engine has (handle_open); else 0. They outlive the server. */
    const struct face *const *faces;
    size_t face_count;
};

struct server;

int server_open(const struct server_options *options, struct server **out_server,
                struct qp_err *err) QP_MUST_USE;
/* Where it listens, with the ports that the system chose; NULL past the end. */
const char *server_name(const struct server *s, size_t index);
/* Where agents are served, likewise; NULL: they are not. */
const char *server_agent_name(const struct server *s);
/* The file with a token that was made just now; NULL: there were tokens before, or none are
 * needed. */
const char *server_token_file(const struct server *s);
struct api *server_api(const struct server *s);
/* For whoever adds workers in this process. */
qp *server_engine(const struct server *s);
/* Reads the key and the certificate again: connections that come from now on get them. Those
 * that are there stay as they are, and are told to go after their next answer. QP_E_BUSY: the
 * last time is not over; QP_E_UNSUPPORTED: there is no TLS. On any error all stays as it was. */
int server_reload(struct server *s, struct qp_err *err) QP_MUST_USE;
/* Every LIMIT_STORE_LOOK_MS: closes what a reload has left, when it is done, and looks whether the store
 * is still in place. */
void server_tidy(struct server *s);
/* All numbers to the log, a line each. Waits for the store. */
void server_dump(struct server *s);
/* False once the store has failed for good: then the server is of no more use, and ends. */
bool server_alive(const struct server *s);
/* False: some requests were not even answered in time. The server is gone in any case. */
bool server_close(struct server *s);

#endif

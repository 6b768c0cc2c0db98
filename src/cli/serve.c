/* serve.c - quipu serve: the engine as a program
 *
 * Reads its settings (settings.c), puts a server together (server/server.h), tells the service
 * manager that it is ready, and waits for a signal: SIGTERM and SIGINT end it, after what is being
 * done; SIGHUP reads the key and the certificate again; SIGUSR1 writes what the server knows of
 * itself to the log. When the store has failed for good it ends by itself.
 *
 * Exit codes: 0 it was asked to end and did, 1 it could not start, did not end well, or its
 * store failed, 2 usage, 4 the store is in use.
 */
#include <errno.h>
#include <fcntl.h>
#include <quipu.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "cli/ask.h"
#include "cli/note.h"
#include "cli/serve.h"
#include "server/sandbox.h"
#include "server/server.h"
#include "server/sink.h"

#define FIRST_SOCKET 3 /* of those that were opened for us */

struct serve {
    struct cli *c;
    struct server_options server;
    struct qp_env env;
    struct sink sink;
    const char *data, *store, *listen, *socket, *host, *tls_key, *tls_certificate;
    const char *level, *format;
    const char *no_auth, *behind_proxy, *accept_loss, *sandbox;
    char socket_place[256];
    int adopted[SERVER_LISTENERS];
    sigset_t signals;
    const struct serve_more *more;
};

/* Every option that is a text, and where it goes. Several values of --listen and --host are separated by
 * commas. */
static const struct {
    enum option option;
    size_t offset;
} options[] = {
    {OPT_data_dir, offsetof(struct serve, data)},
    {OPT_store, offsetof(struct serve, store)},
    {OPT_listen, offsetof(struct serve, listen)},
    {OPT_socket, offsetof(struct serve, socket)},
    {OPT_host, offsetof(struct serve, host)},
    {OPT_tls_key, offsetof(struct serve, tls_key)},
    {OPT_tls_cert, offsetof(struct serve, tls_certificate)},
    {OPT_behind_proxy, offsetof(struct serve, behind_proxy)},
    {OPT_no_auth, offsetof(struct serve, no_auth)},
    {OPT_accept_loss, offsetof(struct serve, accept_loss)},
    {OPT_sandbox, offsetof(struct serve, sandbox)},
    {OPT_log_level, offsetof(struct serve, level)},
    {OPT_log_format, offsetof(struct serve, format)},
};

static int settle(struct serve *s);
static int run(struct serve *s);

int command_serve(struct cli *c)
{
    int status = cli_expect(c, 0, 0);
    status = status == EXIT_OK ? cli_settings(c) : status;
    return status == EXIT_OK ? serve_with(c, &(struct serve_more){.look_ms = LIMIT_STORE_LOOK_MS})
                             : status;
}

int serve_with(struct cli *c, const struct serve_more *more)
{
    struct serve s = {.c = c, .more = more};
    int status;
    for (size_t i = 0; i < ARRAY_COUNT(options); i++) {
        *(const char **)(void *)((char *)&s + options[i].offset) = c->values[options[i].option];
    }
    status = settle(&s);
    return status == EXIT_OK ? run(&s) : status;
}

/* ------------------------------------------------------------------------------------ arguments */

/* A number from `least` to `most`, in `text` when it is there. */
static bool read_number(const char *text, long long least, long long most, long long *out_number)
{
    char *end = NULL;
    long long number;
    if (text == NULL) {
        return true;
    }
    errno = 0;
    number = strtoll(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || number < least ||
        number > most) {
        return false;
    }
    *out_number = number;
    return true;
}

/* Splits at commas, in a copy that lives as long as the command. */
static size_t split(struct cli *c, const char *text, const char **out, size_t most)
{
    char *rest = text == NULL ? NULL : cli_copy(c, text);
    size_t count = 0;
    while (rest != NULL && count < most) {
        out[count++] = strsep(&rest, ",");
    }
    return count;
}

static int settle_numbers(struct serve *s)
{
    struct cli *c = s->c;
    int64_t body = 0;
    int64_t connections = 0;
    int64_t threads = 0;
    int64_t rate = LIMIT_TOKEN_RATE;
    int status = cli_number(c, OPT_max_body, 1024, LIMIT_BODY_HARD_SIZE, &body);
    status =
        status == EXIT_OK ? cli_number(c, OPT_max_connections, 1, 1000000, &connections) : status;
    status = status == EXIT_OK ? cli_number(c, OPT_http_threads, 1, 64, &threads) : status;
    status =
        status == EXIT_OK ? cli_number(c, OPT_token_rate, 0, LIMIT_TOKEN_RATE_HARD, &rate) : status;
    status = status == EXIT_OK ? cli_duration(c, OPT_keep, &s->server.keep_ms) : status;
    status = status == EXIT_OK ? cli_duration(c, OPT_drain, &s->server.drain_ms) : status;
    s->server.body_size = (size_t)body;
    s->server.connections = (unsigned)connections;
    s->server.http_threads = (int)threads;
    s->server.token_rate = rate > 0 ? rate : -1;
    return status;
}

/* The port for agents. What belongs to it says nothing without it. */
static int settle_agents(struct serve *s)
{
    static const enum option with[] = {OPT_agent_token, OPT_agent_env, OPT_agent_lease};
    struct server_options *o = &s->server;
    struct cli *c = s->c;
    int64_t port = 0;
    int status = cli_number(c, OPT_agent_port, 0, 65535, &port);
    for (size_t i = 0; status == EXIT_OK && !cli_has(c, OPT_agent_port) && i < ARRAY_COUNT(with);
         i++) {
        if (cli_has(c, with[i])) {
            return cli_usage("serve: there is no --agent-port: agents are served on it alone; see "
                             "quipu help serve");
        }
    }
    if (status != EXIT_OK || !cli_has(c, OPT_agent_port)) {
        return status;
    }
    o->agents = true;
    o->agent_port = (int)port;
    o->agent_environment = c->values[OPT_agent_env];
    status = cli_duration(c, OPT_agent_lease, &o->agent_lease_ms);
    if (status == EXIT_OK && o->agent_lease_ms > LIMIT_LEASE_MS) {
        return cli_usage("serve: --agent-lease is at most 24h; see quipu help serve");
    }
    return status == EXIT_OK && cli_has(c, OPT_agent_token)
               ? ask_token_file(c, c->values[OPT_agent_token], &o->agent_secret)
               : status;
}

static int settle_log(struct serve *s)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    size_t level = 1;
    if (s->level != NULL) {
        for (level = 0; level < ARRAY_COUNT(levels) && strcmp(s->level, levels[level]) != 0;
             level++) {}
    }
    if (level == ARRAY_COUNT(levels)) {
        return cli_usage("%s: --log-level is debug, info, warn or error; see quipu help %s",
                         s->c->command->words, s->c->command->words);
    }
    s->sink = (struct sink){.fd = STDERR_FILENO,
                            .format = isatty(STDERR_FILENO) ? SINK_LOGFMT : SINK_JSON,
                            .least = (enum qp_log_level)level};
    if (s->format != NULL && strcmp(s->format, "logfmt") != 0 && strcmp(s->format, "json") != 0) {
        return cli_usage("%s: --log-format is logfmt or json; see quipu help %s",
                         s->c->command->words, s->c->command->words);
    }
    if (s->format != NULL) {
        s->sink.format = strcmp(s->format, "json") == 0 ? SINK_JSON : SINK_LOGFMT;
    }
    return EXIT_OK;
}

/* Sockets that the service manager has opened, if they are meant for us. */
static void adopt(struct serve *s)
{
    const char *pid = getenv("LISTEN_PID");
    const char *count = getenv("LISTEN_FDS");
    long long wanted = 0;
    if (pid == NULL || strtoll(pid, NULL, 10) != (long long)getpid() || count == NULL ||
        !read_number(count, 1, SERVER_LISTENERS, &wanted)) {
        return;
    }
    for (int i = 0; i < (int)wanted; i++) {
        s->adopted[i] = FIRST_SOCKET + i;
        (void)fcntl(s->adopted[i], F_SETFD, FD_CLOEXEC); /* not for programs of --shell */
    }
    s->server.adopted = s->adopted;
    s->server.adopted_count = (size_t)wanted;
}

/* Commands that are run beside the data directory find the socket in it (ask.c). A name that is
 * too long for one does without. */
static void settle_socket(struct serve *s)
{
    struct server_options *o = &s->server;
    const size_t most = sizeof((struct sockaddr_un *)NULL)->sun_path;
    if (s->socket != NULL && strcmp(s->socket, "none") == 0) {
        return;
    }
    if (s->socket == NULL && strlen(o->data) + strlen("/quipu.sock") >= most) {
        return;
    }
    (void)snprintf(s->socket_place, sizeof s->socket_place, "unix:%s%s",
                   s->socket != NULL ? s->socket : o->data, s->socket != NULL ? "" : "/quipu.sock");
    if (s->socket == NULL && o->listen_count == 0) {
        o->listen[o->listen_count++] = SERVER_DEFAULT_LISTEN;
    }
    o->listen[o->listen_count++] = s->socket_place;
}

static int settle(struct serve *s)
{
    struct server_options *o = &s->server;
    int status = settle_numbers(s);
    status = status == EXIT_OK ? settle_agents(s) : status;
    status = status == EXIT_OK ? settle_log(s) : status;
    if (status == EXIT_OK && s->sandbox != NULL && s->c->many_count[OPT_shell] > 0) {
        status = cli_usage("serve: a server in its --sandbox starts no program of --shell: one of "
                           "them; see quipu help serve");
    }
    if (status != EXIT_OK) {
        return status;
    }
    qp_env_init(&s->env);
    s->env.context = &s->sink;
    s->env.log = sink_write;
    o->env = &s->env;
    o->data = s->data != NULL ? s->data : "quipu-data";
    o->store =
        s->store != NULL && !cli_place_is_url(s->store) ? cli_place_path(s->store) : s->store;
    o->listen_count = split(s->c, s->listen, o->listen, SERVER_LISTENERS - 1);
    o->host_count = split(s->c, s->host, o->hosts, LIMIT_HOSTS - 4);
    settle_socket(s);
    o->tls_key = s->tls_key;
    o->tls_certificate = s->tls_certificate;
    o->no_auth = s->no_auth != NULL;
    o->behind_proxy = s->behind_proxy != NULL;
    o->accept_loss = s->accept_loss != NULL;
    o->builtin = true;
    o->shell = s->c->many[OPT_shell];
    o->shell_count = s->c->many_count[OPT_shell];
    o->step_topics = s->c->values[OPT_carto_topics];
    o->worker_threads = o->shell_count > 0 || s->more->programs ? LIMIT_SHELL_THREADS : 0;
    adopt(s);
    return EXIT_OK;
}

/* ------------------------------------------------------------------------------------------ run */

/* Files only for us, no memory on disk when we crash, as many sockets as we may have, and
 * signals for the main thread. */
static void prepare(struct serve *s)
{
    struct rlimit files;
    (void)umask(077);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* not everywhere: no reason to refuse */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files); /* then there are fewer connections */
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&s->signals);
    (void)sigaddset(&s->signals, SIGTERM);
    (void)sigaddset(&s->signals, SIGINT);
    (void)sigaddset(&s->signals, SIGHUP);
    (void)sigaddset(&s->signals, SIGUSR1);
    (void)pthread_sigmask(SIG_BLOCK, &s->signals, NULL);
}

/* Where it can be reached goes to stdout, for scripts; the rest to the log. */
static void announce(const struct serve *s, const struct server *server)
{
    const char *name;
    for (size_t i = 0; (name = server_name(server, i)) != NULL; i++) {
        printf("listening on %s%s\n",
               strncmp(name, "unix:", 5) == 0 ? ""
               : s->tls_key != NULL           ? "https://"
                                              : "http://",
               name);
        if (strcmp(name, SERVER_DEFAULT_LISTEN) == 0 && s->socket_place[0] != '\0') {
            note_write(s->c, s->socket_place + sizeof "unix:" - 1);
        }
    }
    if (server_agent_name(server) != NULL) {
        printf("serving agents on http://%s\n", server_agent_name(server));
        log_write(&s->env, QP_LOG_INFO, LOG_MSG("serving agents"),
                  LOG_TEXT("on", server_agent_name(server)));
    }
    if (server_token_file(server) != NULL) {
        printf("a token for the administrator is in %s\n", server_token_file(server));
    }
    if (geteuid() == 0) {
        log_write(&s->env, QP_LOG_WARN,
                  LOG_MSG("running as root: a user of its own would be better"));
    }
    (void)fflush(stdout);
}

/* How often the watchdog wants to hear of us; 0: never. */
static long long watchdog_ms(void)
{
    const char *text = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    long long us = 0;
    if (pid != NULL && strtoll(pid, NULL, 10) != (long long)getpid()) {
        return 0; /* it is about another process */
    }
    return read_number(text, 1, 3600LL * 1000000, &us) ? us / 2000 : 0;
}

static void reload(struct serve *s, struct server *server)
{
    struct qp_err err = {0};
    if (server_reload(server, &err) == QP_OK) {
        log_write(&s->env, QP_LOG_INFO, LOG_MSG("key and certificate were read again"));
    } else {
        log_write(&s->env, QP_LOG_WARN, LOG_MSG("nothing was read again"),
                  LOG_TEXT("why", err.text));
    }
}

/* Until a signal that ends us, or the store has failed for good; true: we were asked to. */
static bool wait_for_end(struct serve *s, struct server *server, const char *manager)
{
    long long beat_ms = watchdog_ms();
    long long look_ms = beat_ms > 0 && beat_ms < s->more->look_ms ? beat_ms : s->more->look_ms;
    struct timespec look = {.tv_sec = look_ms / 1000, .tv_nsec = look_ms % 1000 * 1000000};
    int number;
    do {
        number = sigtimedwait(&s->signals, NULL, &look);
        if (number == SIGHUP) {
            reload(s, server);
        } else if (number == SIGUSR1) {
            server_dump(server);
        }
        server_tidy(server);
        if (s->more->look != NULL) {
            s->more->look(s->more->context);
        }
        if (beat_ms > 0 && server_alive(server)) {
            notify(manager, "WATCHDOG=1");
        }
    } while (number != SIGTERM && number != SIGINT && server_alive(server));
    log_write(&s->env, QP_LOG_INFO, LOG_MSG("ending"), LOG_I64("signal", number));
    return server_alive(server);
}

static int run(struct serve *s)
{
    const char *manager = getenv("NOTIFY_SOCKET");
    struct server *server = NULL;
    struct qp_err err = {0};
    bool asked = true;
    int status = EXIT_OK;
    int rc;
    prepare(s);
    rc = server_open(&s->server, &server, &err);
    if (rc != QP_OK) {
        cli_error(s->c->command->words, &err, rc);
        return rc == QP_E_LOCKED ? EXIT_CONFLICT : rc == QP_E_INVALID ? EXIT_USAGE : EXIT_ERROR;
    }
    rc = s->sandbox != NULL ? sandbox_enter(&err) : QP_OK;
    if (rc != QP_OK) {
        cli_error(s->c->command->words, &err, rc);
        (void)server_close(server); /* nobody was told of it */
        return EXIT_ERROR;
    }
    announce(s, server);
    notify(manager, "READY=1\nSTATUS=serving");
    status = s->more->opened != NULL ? s->more->opened(s->more->context, server, s->socket_place)
                                     : EXIT_OK;
    asked = status != EXIT_OK || wait_for_end(s, server, manager);
    if (s->more->ending != NULL) {
        s->more->ending(s->more->context);
    }
    notify(manager, "STOPPING=1");
    return !server_close(server) || !asked ? EXIT_ERROR : status;
}

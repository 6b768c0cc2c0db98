/* serve.c - quipu serve: the engine as a program
 *
 * Reads its options (an option --data-dir is also the variable QUIPU_DATA_DIR; the option wins),
 * puts a server together (server/server.h), tells the service manager that it is ready, and
 * waits for a signal: SIGTERM and SIGINT end it, after what is being done; SIGHUP reads the key
 * and the certificate again. When the store has failed for good it ends by itself.
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
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "cli/cli.h"
#include "server/server.h"
#include "server/sink.h"

static const char usage[] =
    "usage: quipu serve [--data-dir DIR] [--store PLACE] [--listen ADDRESS:PORT]\n"
    "                   [--socket PATH] [--host NAME] [--tls-key FILE --tls-cert FILE]\n"
    "                   [--behind-proxy] [--no-auth] [--max-body BYTES]\n"
    "                   [--max-connections N] [--http-threads N] [--keep DURATION]\n"
    "                   [--drain DURATION] [--log-level LEVEL] [--log-format logfmt|json]\n";

#define LOOK_MS 1000   /* between two looks at whether the store still works */
#define FIRST_SOCKET 3 /* of those that were opened for us */

struct serve {
    struct server_options server;
    struct qp_env env;
    struct sink sink;
    const char *data, *store, *listen, *socket, *host, *tls_key, *tls_certificate;
    const char *max_body, *max_connections, *http_threads, *keep, *drain, *level, *format;
    const char *no_auth, *behind_proxy;
    char socket_place[256];
    int adopted[SERVER_LISTENERS];
    sigset_t signals;
};

/* Every option, and where its value goes; `flag`: it takes none. Several values of --listen and
 * --host are separated by commas. */
static const struct {
    const char *name;
    size_t offset;
    bool flag;
} options[] = {
    {"--data-dir", offsetof(struct serve, data), false},
    {"--store", offsetof(struct serve, store), false},
    {"--listen", offsetof(struct serve, listen), false},
    {"--socket", offsetof(struct serve, socket), false},
    {"--host", offsetof(struct serve, host), false},
    {"--tls-key", offsetof(struct serve, tls_key), false},
    {"--tls-cert", offsetof(struct serve, tls_certificate), false},
    {"--behind-proxy", offsetof(struct serve, behind_proxy), true},
    {"--no-auth", offsetof(struct serve, no_auth), true},
    {"--max-body", offsetof(struct serve, max_body), false},
    {"--max-connections", offsetof(struct serve, max_connections), false},
    {"--http-threads", offsetof(struct serve, http_threads), false},
    {"--keep", offsetof(struct serve, keep), false},
    {"--drain", offsetof(struct serve, drain), false},
    {"--log-level", offsetof(struct serve, level), false},
    {"--log-format", offsetof(struct serve, format), false},
};

static int parse(struct serve *s, int argc, char **argv);
static int settle(struct serve *s);
static int run(struct serve *s);

int command_serve(int argc, char **argv)
{
    struct serve s = {.data = NULL};
    int status;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("%s", usage);
        return EXIT_OK;
    }
    status = parse(&s, argc, argv);
    status = status == EXIT_OK ? settle(&s) : status;
    return status == EXIT_OK ? run(&s) : status;
}

/* ------------------------------------------------------------------------------------ arguments */

static const char **place_of(struct serve *s, size_t index)
{
    return (const char **)(void *)((char *)s + options[index].offset);
}

/* The variable of an option: --data-dir is QUIPU_DATA_DIR. */
static const char *variable_of(const char *option)
{
    char name[64] = "QUIPU_";
    size_t n = strlen(name);
    for (const char *p = option + 2; *p != '\0' && n < sizeof name - 1; p++) {
        name[n++] = *p == '-' ? '_' : (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    }
    name[n] = '\0';
    return getenv(name);
}

static int parse_one(struct serve *s, int argc, char **argv, int *at)
{
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        size_t n = strlen(options[i].name);
        const char **place = place_of(s, i);
        const char *argument = argv[*at];
        if (strncmp(argument, options[i].name, n) != 0 ||
            (argument[n] != '\0' && argument[n] != '=')) {
            continue;
        }
        if (*place != NULL) {
            return cli_usage("serve: %s comes twice", options[i].name);
        }
        if (options[i].flag && argument[n] == '\0') {
            *place = "1";
        } else if (!options[i].flag && argument[n] == '=') {
            *place = argument + n + 1;
        } else if (!options[i].flag && *at + 1 < argc) {
            *place = argv[++*at];
        } else {
            return cli_usage("serve: %s %s", options[i].name,
                             options[i].flag ? "takes no value" : "needs a value");
        }
        return EXIT_OK;
    }
    return cli_usage("serve: unknown option '%s'; see quipu serve --help", argv[*at]);
}

static int parse(struct serve *s, int argc, char **argv)
{
    int status = EXIT_OK;
    for (int i = 1; i < argc && status == EXIT_OK; i++) {
        status = parse_one(s, argc, argv, &i);
    }
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const char **place = place_of(s, i);
        if (*place == NULL) {
            *place = variable_of(options[i].name);
        }
    }
    return status;
}

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

static bool read_ms(const char *text, qp_ms *out_ms)
{
    return text == NULL || span_parse(str_from(text), out_ms, NULL) == QP_OK;
}

/* Splits at commas, in a copy that lives as long as the program. */
static size_t split(const char *text, const char **out, size_t most)
{
    char *rest = text == NULL ? NULL : strdup(text);
    size_t count = 0;
    while (rest != NULL && count < most) {
        out[count++] = strsep(&rest, ",");
    }
    return count;
}

static int settle_numbers(struct serve *s)
{
    long long body = 0;
    long long connections = 0;
    long long threads = 0;
    if (!read_number(s->max_body, 1024, LIMIT_BODY_HARD_SIZE, &body)) {
        return cli_usage("serve: --max-body is 1024 to %d", LIMIT_BODY_HARD_SIZE);
    }
    if (!read_number(s->max_connections, 1, 1000000, &connections)) {
        return cli_usage("serve: --max-connections is 1 to 1000000");
    }
    if (!read_number(s->http_threads, 1, 64, &threads)) {
        return cli_usage("serve: --http-threads is 1 to 64");
    }
    if (!read_ms(s->keep, &s->server.keep_ms) || !read_ms(s->drain, &s->server.drain_ms)) {
        return cli_usage("serve: --keep and --drain are durations like 30s or 7d");
    }
    s->server.body_size = (size_t)body;
    s->server.connections = (unsigned)connections;
    s->server.http_threads = (int)threads;
    return EXIT_OK;
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
        return cli_usage("serve: --log-level is debug, info, warn or error");
    }
    s->sink = (struct sink){.fd = STDERR_FILENO,
                            .format = isatty(STDERR_FILENO) ? SINK_LOGFMT : SINK_JSON,
                            .least = (enum qp_log_level)level};
    if (s->format != NULL && strcmp(s->format, "logfmt") != 0 && strcmp(s->format, "json") != 0) {
        return cli_usage("serve: --log-format is logfmt or json");
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
        (void)fcntl(s->adopted[i], F_SETFD, FD_CLOEXEC); /* nobody is started by us anyway */
    }
    s->server.adopted = s->adopted;
    s->server.adopted_count = (size_t)wanted;
}

static int settle(struct serve *s)
{
    struct server_options *o = &s->server;
    int status = settle_numbers(s);
    status = status == EXIT_OK ? settle_log(s) : status;
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
    o->listen_count = split(s->listen, o->listen, SERVER_LISTENERS - 1);
    o->host_count = split(s->host, o->hosts, LIMIT_HOSTS - 4);
    if (s->socket != NULL) {
        (void)snprintf(s->socket_place, sizeof s->socket_place, "unix:%s", s->socket);
        o->listen[o->listen_count++] = s->socket_place;
    }
    o->tls_key = s->tls_key;
    o->tls_certificate = s->tls_certificate;
    o->no_auth = s->no_auth != NULL;
    o->behind_proxy = s->behind_proxy != NULL;
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
        log_write(&s->env, QP_LOG_INFO, LOG_MSG("listening"), LOG_TEXT("on", name));
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
    long long us = 0;
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
    long long look_ms = beat_ms > 0 && beat_ms < LOOK_MS ? beat_ms : LOOK_MS;
    struct timespec look = {.tv_sec = look_ms / 1000, .tv_nsec = look_ms % 1000 * 1000000};
    int number;
    do {
        number = sigtimedwait(&s->signals, NULL, &look);
        if (number == SIGHUP) {
            reload(s, server);
        }
        server_tidy(server);
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
    bool asked;
    int rc;
    prepare(s);
    rc = server_open(&s->server, &server, &err);
    if (rc != QP_OK) {
        cli_error("serve", &err, rc);
        return rc == QP_E_LOCKED ? EXIT_CONFLICT : EXIT_ERROR;
    }
    announce(s, server);
    notify(manager, "READY=1\nSTATUS=serving");
    asked = wait_for_end(s, server, manager);
    notify(manager, "STOPPING=1");
    return server_close(server) && asked ? EXIT_OK : EXIT_ERROR;
}

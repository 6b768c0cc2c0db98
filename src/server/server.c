/* server.c - putting a server together, and taking it apart */
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "run/access.h"
#include "run/calls.h"
#include "run/drive.h"
#include "run/handle.h"
#include "run/kinds.h"
#include "run/stats.h"
#include "run/stats_read.h"
#include "server/agent_port.h"

#define PATH_SIZE 4096
#define TLS_FILE_SIZE ((size_t)256 * 1024)

struct server {
    struct server_options options;
    const struct qp_env *env;
    qp *engine;
    struct api *api;
    struct http *https[SERVER_LISTENERS];
    struct agent_port *agents;                   /* NULL: they are not served */
    struct listener listeners[SERVER_LISTENERS]; /* fd -1 once they are a server's */
    char names[SERVER_LISTENERS][sizeof((struct listener *)0)->name];
    size_t count;
    char *tls_key;
    char *tls_certificate;
    /* of before the last reload, until they have answered everything */
    struct http *old_https[SERVER_LISTENERS];
    char *old_key;
    char *old_certificate;
    char store[PATH_SIZE];
    char backups[PATH_SIZE];
    char token_file[PATH_SIZE];
    bool token_made;
    bool data_made; /* the data directory was made by this start */
};

/* -------------------------------------------------------------------------------------- files */

static int make_directory(const char *path, struct qp_err *err)
{
    struct stat info;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return err_set(err, QP_E_INVALID, "data directory '%s': %s", path, strerror(errno));
    }
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return err_set(err, QP_E_INVALID, "data directory '%s': it is no directory", path);
    }
    if (info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
        return err_set(
            err, QP_E_INVALID,
            "data directory '%s': others may read it, or it is somebody else's; chmod 700 "
            "it",
            path);
    }
    return QP_OK;
}

/* The name of a file in the data directory is on disk. */
static bool sync_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) {
        (void)close(fd); /* nothing was written through it */
    }
    return good;
}

/* Written aside and moved into place: whoever finds the file finds all of it, and only its owner
 * may. When it returns, it is there after any crash. */
static int write_token(void *context, const char *token, struct qp_err *err)
{
    struct server *s = context;
    char aside[PATH_SIZE + 8];
    char line[TOKEN_TEXT_SIZE + 1];
    int size = snprintf(line, sizeof line, "%s\n", token);
    int fd;
    bool good;
    (void)snprintf(aside, sizeof aside, "%s.new", s->token_file);
    (void)unlink(aside); /* of a start that failed */
    fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    good = fd >= 0 && write(fd, line, (size_t)size) == size && fsync(fd) == 0;
    explicit_bzero(line, sizeof line);
    if (fd >= 0) {
        good = close(fd) == 0 && good;
    }
    if (!good || rename(aside, s->token_file) != 0 || !sync_directory(s->options.data)) {
        return err_set(err, QP_E_IO, "'%s': %s", s->token_file, strerror(errno));
    }
    s->token_made = true;
    return QP_OK;
}

/* A whole file as text, with a NUL. */
static int read_file(const struct qp_env *env, const char *path, char **out_text,
                     struct qp_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = mem_alloc(env, TLS_FILE_SIZE);
    ssize_t n = fd < 0 || text == NULL ? -1 : read(fd, text, TLS_FILE_SIZE - 1);
    if (fd >= 0) {
        (void)close(fd);
    }
    if (n <= 0 || (size_t)n == TLS_FILE_SIZE - 1) {
        mem_free(env, text);
        return err_set(err, QP_E_INVALID, "'%s' cannot be read, or is no key or certificate", path);
    }
    *out_text = text;
    return QP_OK;
}

/* -------------------------------------------------------------------------------------- listen */

static int open_listeners(struct server *s, struct qp_err *err)
{
    const struct server_options *o = &s->options;
    size_t wanted = o->adopted_count > 0 ? o->adopted_count : o->listen_count;
    int rc = QP_OK;
    for (size_t i = 0; i < wanted && i < SERVER_LISTENERS && rc == QP_OK; i++) {
        rc = o->adopted_count > 0 ? listener_adopt(o->adopted[i], &s->listeners[i], err)
                                  : listener_open(o->listen[i], &s->listeners[i], err);
        if (rc == QP_OK) {
            memcpy(s->names[i], s->listeners[i].name, sizeof s->names[i]);
            s->count++;
        }
    }
    return rc;
}

/* What the network may do to us is decided here, before anything is opened to it. */
static int check_exposure(const struct server *s, struct qp_err *err)
{
    const struct server_options *o = &s->options;
    for (size_t i = 0; i < s->count; i++) {
        const struct listener *l = &s->listeners[i];
        if (l->is_loopback) {
            continue;
        }
        if (o->no_auth) {
            return err_set(err, QP_E_INVALID,
                           "listen on %s: without tokens only addresses of this machine are served",
                           l->name);
        }
        if (o->behind_proxy || o->tls_key == NULL) {
            return err_set(
                err, QP_E_INVALID,
                "listen on %s: beyond this machine TLS is needed (--tls-key and --tls-cert), "
                "or a proxy in front of an address of this machine (--behind-proxy)",
                l->name);
        }
    }
    return QP_OK;
}

static int open_https(struct server *s, struct qp_err *err)
{
    const struct server_options *o = &s->options;
    int rc = QP_OK;
    for (size_t i = 0; i < s->count && rc == QP_OK; i++) {
        struct http_options http = {.api = s->api,
                                    .listener = s->listeners[i],
                                    .hosts = s->options.hosts,
                                    .host_count = o->host_count,
                                    .body_size = o->body_size,
                                    .connections = o->connections,
                                    .threads = o->http_threads,
                                    .behind_proxy = o->behind_proxy};
        if (!s->listeners[i].is_loopback || !o->behind_proxy) {
            http.tls_key = s->listeners[i].is_unix ? NULL : s->tls_key;
            http.tls_certificate = s->tls_certificate;
        }
        rc = http_open(&http, &s->https[i], err);
        s->listeners[i].fd = -1;
    }
    return rc;
}

/* ---------------------------------------------------------------------------------------- open */

static void set_defaults(struct server *s)
{
    struct server_options *o = &s->options;
    if (o->listen_count == 0 && o->adopted_count == 0) {
        o->listen[o->listen_count++] = SERVER_DEFAULT_LISTEN;
    }
    o->drain_ms = o->drain_ms > 0 ? o->drain_ms : LIMIT_DRAIN_MS;
    (void)snprintf(s->backups, sizeof s->backups, "%s/backups", o->data);
    (void)snprintf(s->token_file, sizeof s->token_file, "%s/admin.token", o->data);
    if (o->store == NULL) {
        (void)snprintf(s->store, sizeof s->store, "%s/quipu.db", o->data);
    } else if (strcmp(o->store, "memory") != 0) {
        (void)snprintf(s->store, sizeof s->store, "%s", o->store);
    }
    for (size_t i = 0; i < SERVER_LISTENERS; i++) {
        s->listeners[i].fd = -1;
    }
}

/* Echo and fail take no time; the steps that kinds of jobs bring along may, and need a thread. */
static int open_workers(struct server *s, struct qp_err *err)
{
    const struct server_options *o = &s->options;
    struct qp_builtin builtin = {.shell = o->shell, .shell_count = o->shell_count};
    int rc = o->builtin ? qp_builtin_serve(s->engine, &builtin, err) : QP_OK;
    if (rc == QP_OK && o->builtin) {
        rc = kinds_serve(s->engine,
                         &(struct kinds_serving){.topics = o->step_topics, .registry = o->registry},
                         err);
    }
    if (rc != QP_OK) {
        return rc;
    }
    return qp_start_threads(s->engine, o->worker_threads > 0 || !o->builtin ? o->worker_threads : 1,
                            err);
}

static int open_engine(struct server *s, struct qp_err *err)
{
    struct qp_options options;
    int rc;
    qp_options_init(&options);
    options.path = s->store[0] != '\0' ? s->store : NULL;
    options.env = s->env;
    options.keep_ms = s->options.keep_ms;
    options.accept_loss = s->options.accept_loss;
    rc = handle_open(&options, s->options.faces, s->options.face_count, &s->engine, err);
    if (rc == QP_OK) {
        calls_limit(&s->engine->driver, LIMIT_CALL_MS);
        rc = open_workers(s, err);
    }
    return rc;
}

static int open_api(struct server *s, struct qp_err *err)
{
    int64_t rate = s->options.token_rate;
    struct api_options options = {.engine = s->engine,
                                  .env = s->env,
                                  .metrics = stats_registry(s->engine),
                                  .open = s->options.no_auth,
                                  .limited = true,
                                  .bodies_size = s->options.bodies_size,
                                  .peers = !s->options.behind_proxy,
                                  .token_rate = rate == 0  ? LIMIT_TOKEN_RATE
                                                : rate < 0 ? 0
                                                           : rate,
                                  .backups = s->backups};
    return api_open(&options, &s->api, err);
}

/* Somebody has to be able to ask: with no administrator among the tokens, one is made. Its file is written before the
 * store knows of it. If we crash in between, or the commit fails, there is a file with a token that is good for nothing,
 * and the next start writes another over it. */
static int first_token(struct server *s, struct qp_err *err)
{
    int rc = s->options.no_auth ? QP_OK : auth_load(api_auth(s->api), err);
    return rc == QP_OK && !s->options.no_auth ? auth_first(api_auth(s->api), s, write_token, err)
                                              : rc;
}

static int read_tls(struct server *s, struct qp_err *err)
{
    const struct server_options *o = &s->options;
    if ((o->tls_key == NULL) != (o->tls_certificate == NULL)) {
        return err_set(err, QP_E_INVALID, "TLS needs both a key and a certificate");
    }
    if (o->tls_key == NULL) {
        return QP_OK;
    }
    QP_TRY(read_file(s->env, o->tls_key, &s->tls_key, err));
    return read_file(s->env, o->tls_certificate, &s->tls_certificate, err);
}

/* What was asked for is read before anything is made. */
static int open_files(struct server *s, struct qp_err *err)
{
    struct stat info;
    QP_TRY(read_tls(s, err));
    s->data_made = stat(s->options.data, &info) != 0;
    QP_TRY(make_directory(s->options.data, err));
    return make_directory(s->backups, err);
}

/* A start that failed leaves no directory of its making, unless there is something in it. */
static void remove_made(const char *data, const char *backups)
{
    (void)rmdir(backups); /* what is not empty stays */
    (void)rmdir(data);
}

static int open_agents(struct server *s, struct qp_err *err)
{
    const struct server_options *o = &s->options;
    const struct agent_port_options options = {.engine = s->engine,
                                               .env = s->env,
                                               .metrics = stats_registry(s->engine),
                                               .port = o->agent_port,
                                               .secret = o->agent_secret,
                                               .environment = o->agent_environment,
                                               .lease_ms = o->agent_lease_ms,
                                               .connections = o->connections,
                                               .http_threads = o->http_threads};
    return o->agents ? agent_port_open(&options, &s->agents, err) : QP_OK;
}

/* In this order: nothing listens to a peer before all else is there. What was opened is closed by server_close. */
static int open_parts(struct server *s, struct qp_err *err)
{
    QP_TRY(open_files(s, err));
    QP_TRY(open_listeners(s, err));
    QP_TRY(check_exposure(s, err));
    QP_TRY(open_engine(s, err));
    QP_TRY(open_api(s, err));
    QP_TRY(first_token(s, err));
    QP_TRY(open_agents(s, err));
    return open_https(s, err);
}

int server_open(const struct server_options *options, struct server **out_server,
                struct qp_err *err)
{
    struct server *s = mem_alloc(options->env, sizeof *s);
    int rc;
    if (s == NULL) {
        return err_set(err, QP_E_NOMEM, "server: out of memory");
    }
    s->options = *options;
    s->env = options->env;
    set_defaults(s);
    rc = open_parts(s, err);
    if (rc != QP_OK) {
        char backups[PATH_SIZE];
        bool made = s->data_made;
        memcpy(backups, s->backups, sizeof backups);
        (void)server_close(s); /* it has served no request */
        if (made) {
            remove_made(options->data, backups);
        }
        return rc;
    }
    *out_server = s;
    return QP_OK;
}

/* -------------------------------------------------------------------------------------- reload */

static void wipe(const struct qp_env *env, char *secret)
{
    if (secret != NULL) {
        explicit_bzero(secret, TLS_FILE_SIZE);
    }
    mem_free(env, secret);
}

static bool has_old(const struct server *s)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->old_https[i] != NULL) {
            return true;
        }
    }
    return false;
}

/* What has answered everything within that time goes. */
static void close_old(struct server *s, qp_ms within_ms)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->old_https[i] != NULL && http_wait(s->old_https[i], within_ms)) {
            http_close(s->old_https[i]);
            s->old_https[i] = NULL;
        }
    }
    if (!has_old(s)) {
        wipe(s->env, s->old_key);
        wipe(s->env, s->old_certificate);
        s->old_key = s->old_certificate = NULL;
    }
}

void server_tidy(struct server *s)
{
    drive_watch_store(s->engine);
    if (has_old(s)) {
        close_old(s, 0);
    }
    if (s->agents != NULL) {
        agent_port_tidy(s->agents);
    }
}

static int renew_https(struct server *s, const char *key, const char *certificate,
                       struct qp_err *err)
{
    int rc = QP_OK;
    for (size_t i = 0; i < s->count && rc == QP_OK; i++) {
        struct http *renewed = NULL;
        if (strncmp(s->names[i], "unix:", 5) == 0) {
            continue;
        }
        rc = http_renew(s->https[i], key, certificate, &renewed, err);
        if (rc == QP_OK) {
            s->old_https[i] = s->https[i];
            s->https[i] = renewed;
        }
    }
    return rc;
}

int server_reload(struct server *s, struct qp_err *err)
{
    char *key = NULL;
    char *certificate = NULL;
    int rc;
    if (s->tls_key == NULL) {
        return err_set(err, QP_E_UNSUPPORTED, "reload: there is no TLS here");
    }
    if (has_old(s)) {
        return err_set(err, QP_E_BUSY, "reload: the last one is not over");
    }
    rc = read_file(s->env, s->options.tls_key, &key, err);
    rc = rc == QP_OK ? read_file(s->env, s->options.tls_certificate, &certificate, err) : rc;
    rc = rc == QP_OK ? renew_https(s, key, certificate, err) : rc;
    if (rc != QP_OK && !has_old(s)) {
        wipe(s->env, key);
        wipe(s->env, certificate);
        return rc;
    }
    s->old_key = s->tls_key;
    s->old_certificate = s->tls_certificate;
    s->tls_key = key;
    s->tls_certificate = certificate;
    return rc;
}

/* ---------------------------------------------------------------------------------------- dump */

/* Of histograms the count and the sum are enough for a log. */
static void dump_line(const struct server *s, qp_str line)
{
    if (line.n > 0 && line.p[0] != '#' && memmem(line.p, line.n, "_bucket{", 8) == NULL) {
        log_write(s->env, QP_LOG_INFO, LOG_MSG("state"), LOG_STR("is", line));
    }
}

void server_dump(struct server *s)
{
    struct qp_err err = {0};
    struct buf text;
    size_t from = 0;
    if (stats_collect(s->engine, &err) != QP_OK) {
        log_write(s->env, QP_LOG_WARN, LOG_MSG("the store does not answer"),
                  LOG_TEXT("why", err.text)); /* what was counted is told all the same */
    }
    buf_init(&text, s->env, 0);
    metrics_text(stats_registry(s->engine), &text);
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '\n') {
            dump_line(s, (qp_str){text.p + from, i - from});
            from = i + 1;
        }
    }
    buf_done(&text);
}

/* --------------------------------------------------------------------------------------- close */

/* Requests first, then who answers them, then the store. What is not answered in time is left to
 * the end of the process: its memory is still in use. */
static bool close_https(struct server *s)
{
    bool good = true;
    for (size_t i = 0; i < s->count; i++) {
        if (s->https[i] != NULL) {
            http_quiesce(s->https[i]);
        }
    }
    if (s->agents != NULL) {
        agent_port_quiesce(s->agents, s->options.drain_ms);
    }
    if (s->api != NULL) {
        api_drain(s->api, s->options.drain_ms);
    }
    good = agent_port_close(s->agents, s->options.drain_ms);
    for (size_t i = 0; i < s->count; i++) {
        if (s->https[i] != NULL) {
            bool done = http_wait(s->https[i], s->options.drain_ms);
            if (done) {
                http_close(s->https[i]);
            }
            good = good && done;
        }
    }
    close_old(s, s->options.drain_ms);
    return good && !has_old(s);
}

bool server_close(struct server *s)
{
    struct qp_err err = {0};
    bool good;
    if (s->engine != NULL && !drive_is_alive(s->engine)) {
        s->options.drain_ms = LIMIT_DRAIN_DEAD_MS; /* what waits for it is not answered any more */
    }
    good = close_https(s);
    for (size_t i = 0; i < SERVER_LISTENERS; i++) {
        listener_close(&s->listeners[i]);
    }
    if (!good) {
        log_write(s->env, QP_LOG_ERROR, LOG_MSG("requests were not answered in time"));
        return false;
    }
    api_close(s->api);
    if (qp_close(s->engine, &err) != QP_OK) {
        log_write(s->env, QP_LOG_ERROR, LOG_MSG("the store was not closed well"),
                  LOG_TEXT("why", err.text));
        good = false;
    }
    wipe(s->env, s->tls_key);
    wipe(s->env, s->tls_certificate);
    mem_free(s->env, s);
    return good;
}

const char *server_name(const struct server *s, size_t index)
{
    return index < s->count ? s->names[index] : NULL;
}

const char *server_agent_name(const struct server *s)
{
    return s->agents != NULL ? agent_port_name(s->agents) : NULL;
}

const char *server_token_file(const struct server *s)
{
    return s->token_made ? s->token_file : NULL;
}

qp *server_engine(const struct server *s)
{
    return s->engine;
}

struct api *server_api(const struct server *s)
{
    return s->api;
}

bool server_alive(const struct server *s)
{
    return drive_is_alive(s->engine);
}

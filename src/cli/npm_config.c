/* npm_config.c - npm's configuration, as npm says it, and the secrets that it does not say (see npm_config.h) */
#include "cli/npm_config.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_SIZE (1024 * 1024)
#define FILE_SIZE (256 * 1024)

extern char **environ;

/* -------------------------------------------------------------------------------------------- texts */

static const char *copy(struct npm_config *c, qp_str text)
{
    char *out = arena_bytes(&c->arena, text.n + 1);
    if (out != NULL) {
        memcpy(out, text.p, text.n);
        out[text.n] = '\0';
    }
    return out;
}

static qp_str trimmed(qp_str text)
{
    while (text.n > 0 && (text.p[0] == ' ' || text.p[0] == '\t')) {
        text = (qp_str){text.p + 1, text.n - 1};
    }
    while (text.n > 0 && strchr(" \t\r", text.p[text.n - 1]) != NULL) {
        text.n--;
    }
    return text;
}

/* ${NAME} is the variable of that name; one that is not set stays as it is, as npm has it. */
static int expand(struct npm_config *c, qp_str text, qp_str *out)
{
    struct buf b;
    bool is_copied;
    buf_init(&b, c->arena.env, 0);
    while (text.n > 0) {
        const char *end =
            text.n > 3 && memcmp(text.p, "${", 2) == 0 ? memchr(text.p + 2, '}', text.n - 2) : NULL;
        const char *name =
            end == NULL ? NULL : copy(c, (qp_str){text.p + 2, (size_t)(end - text.p) - 2});
        const char *value = name == NULL ? NULL : getenv(name);
        size_t taken = value == NULL ? 1 : (size_t)(end - text.p) + 1;
        if (value == NULL) {
            buf_byte(&b, text.p[0]);
        } else {
            buf_text(&b, value);
        }
        text = (qp_str){text.p + taken, text.n - taken};
    }
    is_copied =
        buf_rc(&b) == QP_OK && arena_copy(&c->arena, b.n > 0 ? buf_slice(&b) : QP_STR(""), out);
    buf_done(&b);
    return is_copied ? QP_OK : QP_E_NOMEM;
}

/* ------------------------------------------------------------------------------------------- secrets */

/* "//host/path/:_authToken" and its value. */
static int take_secret(struct npm_config *c, qp_str key, qp_str value)
{
    const char *colon =
        key.n > 2 && memcmp(key.p, "//", 2) == 0 ? memrchr(key.p, ':', key.n) : NULL;
    struct npm_secret *secret;
    struct npm_secret **end = &c->secrets;
    if (colon == NULL || colon[-1] != '/') {
        return QP_OK;
    }
    secret = ARENA_NEW(&c->arena, struct npm_secret);
    if (secret == NULL || !arena_copy(&c->arena, key, &key)) {
        return QP_E_NOMEM;
    }
    colon = memrchr(key.p, ':', key.n);
    secret->place = (qp_str){key.p, (size_t)(colon - key.p)};
    secret->member = (qp_str){colon + 1, key.n - secret->place.n - 1};
    QP_TRY(expand(c, value, &secret->value));
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = secret;
    return QP_OK;
}

static int take_line(struct npm_config *c, qp_str line)
{
    const char *equals = line.n > 0 ? memchr(line.p, '=', line.n) : NULL;
    qp_str value;
    if (equals == NULL || line.p[0] == ';' || line.p[0] == '#') {
        return QP_OK;
    }
    value = trimmed((qp_str){equals + 1, line.n - (size_t)(equals - line.p) - 1});
    if (value.n >= 2 && value.p[0] == '"' && value.p[value.n - 1] == '"') {
        value = (qp_str){value.p + 1, value.n - 2};
    }
    return take_secret(c, trimmed((qp_str){line.p, (size_t)(equals - line.p)}), value);
}

static int take_lines(struct npm_config *c, qp_str text)
{
    while (text.n > 0) {
        const char *end = memchr(text.p, '\n', text.n);
        qp_str line = {text.p, end == NULL ? text.n : (size_t)(end - text.p)};
        size_t taken = line.n + (end == NULL ? 0 : 1);
        QP_TRY(take_line(c, trimmed(line)));
        text = (qp_str){text.p + taken, text.n - taken};
    }
    return QP_OK;
}

static int read_all(int fd, size_t most, struct buf *out)
{
    for (;;) {
        char *room = buf_room(out, 4096);
        ssize_t n = room == NULL ? -1 : read(fd, room, 4096);
        if (n < 0 && errno == EINTR && room != NULL) {
            continue;
        }
        if (n <= 0) {
            return n < 0 || out->n > most ? QP_E_IO : QP_OK;
        }
        buf_took(out, (size_t)n);
    }
}

/* A file that is not there says nothing. */
static int take_file(struct npm_config *c, const char *path)
{
    struct buf text;
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    int rc;
    if (fd < 0) {
        return QP_OK;
    }
    buf_init(&text, c->arena.env, FILE_SIZE);
    rc = read_all(fd, FILE_SIZE, &text);
    (void)close(fd);
    if (rc == QP_OK) {
        rc = take_lines(c, buf_slice(&text));
    }
    buf_done(&text);
    return rc;
}

static int take_variables(struct npm_config *c)
{
    static const char *const prefixes[] = {"npm_config_", "NPM_CONFIG_"};
    for (char **v = environ; *v != NULL; v++) {
        for (size_t i = 0; i < ARRAY_COUNT(prefixes); i++) {
            if (strncmp(*v, prefixes[i], strlen(prefixes[i])) == 0) {
                QP_TRY(take_line(c, str_from(*v + strlen(prefixes[i]))));
            }
        }
    }
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------ npm says */

static int no_npm(struct qp_err *err)
{
    return err_set(
        err, QP_E_UNSUPPORTED,
        "npm does not say which registry it uses ('npm config list' failed): install npm, "
        "or traverse saved packuments with --packuments");
}

static int ask_npm(struct buf *out, struct qp_err *err)
{
    static char npm[] = "npm", config[] = "config", list[] = "list", longer[] = "--long",
                json[] = "--json";
    char *arguments[] = {npm, config, list, longer, json, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    pid_t pid = 0;
    int ended = 0;
    int rc;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return err_set(err, QP_E_IO, "pipe: %s", strerror(errno));
    }
    (void)posix_spawn_file_actions_init(&actions); /* these do not fail on Linux */
    (void)posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    rc = posix_spawnp(&pid, npm, &actions, NULL, arguments, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(ends[1]);
    if (rc == 0) {
        rc = read_all(ends[0], OUTPUT_SIZE, out);
        while (waitpid(pid, &ended, 0) < 0 && errno == EINTR) {}
    }
    (void)close(ends[0]);
    return rc == 0 && ended == 0 ? QP_OK : no_npm(err);
}

/* A URL as npm takes it, with a '/' at its end. */
static const char *url_of(struct npm_config *c, qp_str text)
{
    char *out = arena_bytes(&c->arena, text.n + 2);
    if (out == NULL || text.n == 0) {
        return NULL;
    }
    memcpy(out, text.p, text.n);
    out[text.n] = '/';
    out[text.n + (text.p[text.n - 1] == '/' ? 0 : 1)] = '\0';
    return out;
}

static int add_scope(struct npm_config *c, qp_str key, qp_str url)
{
    struct npm_scope *scope = ARENA_NEW(&c->arena, struct npm_scope);
    if (scope == NULL || !arena_copy(&c->arena, key, &scope->scope)) {
        return QP_E_NOMEM;
    }
    scope->scope.n -= sizeof ":registry" - 1;
    scope->url = url_of(c, url);
    scope->next = c->scopes;
    c->scopes = scope;
    return scope->url == NULL ? QP_E_NOMEM : QP_OK;
}

static bool is_scope(qp_str key)
{
    const size_t n = sizeof ":registry" - 1;
    return key.n > n + 1 && key.p[0] == '@' && memcmp(key.p + key.n - n, ":registry", n) == 0;
}

static int join_noproxy(struct npm_config *c, const struct json *list)
{
    struct buf text;
    buf_init(&text, c->arena.env, 0);
    for (size_t i = 0; i < json_count(list); i++) {
        qp_str host = QP_NONE;
        if (json_as_str(json_at(list, i), &host) && host.n > 0) {
            buf_text(&text, text.n > 0 ? "," : "");
            buf_str(&text, host);
        }
    }
    c->noproxy =
        buf_rc(&text) == QP_OK ? copy(c, text.n > 0 ? buf_slice(&text) : QP_STR("")) : NULL;
    buf_done(&text);
    return c->noproxy == NULL ? QP_E_NOMEM : QP_OK;
}

static const char *member(struct npm_config *c, const struct json *json, const char *key)
{
    qp_str text = QP_NONE;
    return json_as_str(json_get(json, str_from(key)), &text) && text.n > 0 ? copy(c, text) : NULL;
}

static int take_said(struct npm_config *c, const struct json *said, struct qp_err *err)
{
    struct json_walk w = {0};
    qp_str text = QP_NONE;
    bool truth = true;
    while (json_each(said, &w)) {
        if (is_scope(w.key) && json_as_str(w.value, &text) && text.n > 0) {
            QP_TRY(add_scope(c, w.key, text));
        }
    }
    if (!json_as_str(json_get(said, QP_STR("registry")), &text)) {
        return no_npm(err);
    }
    c->registry = url_of(c, text);
    c->cafile = member(c, said, "cafile");
    c->proxy = member(c, said, "proxy");
    c->https_proxy = member(c, said, "https-proxy");
    c->is_strict = !json_as_bool(json_get(said, QP_STR("strict-ssl")), &truth) || truth;
    QP_TRY(join_noproxy(c, json_get(said, QP_STR("noproxy"))));
    QP_TRY(take_variables(c));
    QP_TRY(take_file(c, ".npmrc"));
    QP_TRY(take_file(c, member(c, said, "userconfig")));
    QP_TRY(take_file(c, member(c, said, "globalconfig")));
    return c->registry == NULL ? no_npm(err) : QP_OK;
}

int npm_config_read(struct npm_config *c, const struct qp_env *env, struct qp_err *err)
{
    struct buf said;
    struct json *json = NULL;
    int rc;
    *c = (struct npm_config){0};
    arena_init(&c->arena, env, 0);
    buf_init(&said, env, 2 * OUTPUT_SIZE);
    rc = ask_npm(&said, err);
    if (rc == QP_OK && json_parse(env, buf_slice(&said), NULL, &json) != QP_OK) {
        rc = no_npm(err);
    }
    if (rc == QP_OK) {
        rc = take_said(c, json, err);
    }
    json_free(json);
    buf_done(&said);
    return rc;
}

void npm_config_done(struct npm_config *c)
{
    arena_done(&c->arena);
}

/* ------------------------------------------------------------------------------------------- asking */

const char *npm_config_registry(const struct npm_config *c, qp_str package)
{
    const char *slash =
        package.n > 0 && package.p[0] == '@' ? memchr(package.p, '/', package.n) : NULL;
    for (const struct npm_scope *s = c->scopes; slash != NULL && s != NULL; s = s->next) {
        if (str_equal(s->scope, (qp_str){package.p, (size_t)(slash - package.p)})) {
            return s->url;
        }
    }
    return c->registry;
}

static qp_str secret_of(const struct npm_config *c, qp_str place, const char *member_name)
{
    for (const struct npm_secret *s = c->secrets; s != NULL; s = s->next) {
        if (str_equal(s->place, place) && str_equal(s->member, str_from(member_name))) {
            return s->value;
        }
    }
    return QP_NONE;
}

static void put_base64(struct buf *out, qp_str bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.n; i += 3) {
        unsigned n = 0;
        for (size_t k = 0; k < 3; k++) {
            n = n << 8 | (i + k < bytes.n ? (unsigned char)bytes.p[i + k] : 0u);
        }
        for (size_t k = 0; k < 4; k++) {
            buf_byte(out, i + k <= bytes.n ? digits[n >> (18 - 6 * k) & 63] : '=');
        }
    }
}

static int digit_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static void add_decoded(struct buf *out, qp_str text)
{
    unsigned bits = 0;
    unsigned n = 0;
    for (size_t i = 0; i < text.n && digit_of(text.p[i]) >= 0; i++) {
        bits = (bits << 6 | (unsigned)digit_of(text.p[i])) & 0xFFFF;
        n += 6;
        if (n >= 8) {
            n -= 8;
            buf_byte(out, (char)(unsigned char)(bits >> n & 0xFF));
        }
    }
}

/* username and _password, which is kept as base64. */
static void put_basic(const struct npm_config *c, qp_str place, struct buf *out)
{
    qp_str user = secret_of(c, place, "username");
    qp_str password = secret_of(c, place, "_password");
    struct buf pair;
    if (str_is_none(user) || str_is_none(password)) {
        return;
    }
    buf_init(&pair, c->arena.env, 0);
    buf_str(&pair, user);
    buf_byte(&pair, ':');
    add_decoded(&pair, password);
    buf_text(out, "Basic ");
    put_base64(out, buf_slice(&pair));
    buf_done(&pair);
}

static void put_authorization(const struct npm_config *c, qp_str place, struct buf *out)
{
    qp_str token = secret_of(c, place, "_authToken");
    qp_str both = secret_of(c, place, "_auth");
    if (!str_is_none(token)) {
        buf_text(out, "Bearer ");
        buf_str(out, token);
    } else if (!str_is_none(both)) {
        buf_text(out, "Basic ");
        buf_str(out, both);
    } else {
        put_basic(c, place, out);
    }
}

/* The place of a URL and those above it: "//host/a/b/", "//host/a/", "//host/". */
void npm_config_authorization(const struct npm_config *c, const char *url, struct buf *out)
{
    const char *begin = strstr(url, "//");
    qp_str place = str_from(begin);
    while (out->n == 0 && place.n > 2) {
        const char *slash = memrchr(place.p + 2, '/', place.n - 2);
        if (slash == NULL) {
            return;
        }
        place.n = (size_t)(slash - place.p) + 1;
        put_authorization(c, place, out);
        place.n--;
    }
}

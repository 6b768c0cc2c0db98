/* ask.c - whom to ask, and what answers mean */
#include "cli/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/auth.h"

#define DEFAULT_SOCKET "quipu-data/quipu.sock"
#define DEFAULT_FILE "quipu.db"

void reply_done(struct reply *r)
{
    if (r->body.env != NULL) {
        buf_done(&r->body);
    }
    *r = (struct reply){.status = 0};
}

int64_t cli_now_us(const struct cli *c)
{
    return c->env.monotonic_us(c->env.context);
}

void cli_sleep_ms(qp_ms ms)
{
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&span, NULL); /* shorter is no harm */
}

const char *cli_encode(struct cli *c, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = strlen(text);
    char *out = arena_bytes(&c->arena, 3 * n + 1);
    char *at = out;
    if (out == NULL) {
        return "";
    }
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char byte = (unsigned char)*p;
        if ((byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
            (byte >= 'a' && byte <= 'z') || strchr("-._~", byte) != NULL) {
            *at++ = (char)byte;
        } else {
            *at++ = '%';
            *at++ = digits[byte >> 4];
            *at++ = digits[byte & 15];
        }
    }
    *at = '\0';
    return out;
}

const char *ask_target(struct cli *c, const struct question *q)
{
    qp_str parts[CALL_PARTS] = {{0}};
    const char *allow;
    const struct route *route = route_find(q->method, str_from(q->path), parts, &allow);
    const char *query = q->query != NULL ? q->query : "";
    bool spaced = route != NULL && (route->flags & ROUTE_SPACED) != 0 && cli_has(c, OPT_namespace);
    return cli_text(c, "%s%s%s%s%s%s", q->path, *query != '\0' || spaced ? "?" : "", query,
                    *query != '\0' && spaced ? "&" : "", spaced ? "namespace=" : "",
                    spaced ? cli_encode(c, c->values[OPT_namespace]) : "");
}

/* ----------------------------------------------------------------------------------------- open */

/* A file of a secret, which only its owner may read. */
static int read_token(struct cli *c, const char *path, const char **out_token)
{
    char text[TOKEN_TEXT_SIZE + 2] = "";
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 || fstat(fd, &info) != 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) {
        (void)close(fd);
    }
    if (n < 0) {
        return cli_fail_next(c, EXIT_AUTH, "quipu help whoami", "token file '%s': %s", path,
                             strerror(errno));
    }
    if ((info.st_mode & 077) != 0) {
        return cli_fail_next(c, EXIT_AUTH, cli_text(c, "chmod 600 %s", path),
                             "token file '%s': others may read it", path);
    }
    text[strcspn(text, "\r\n")] = '\0';
    *out_token = cli_text(c, "%s", text);
    explicit_bzero(text, sizeof text);
    return EXIT_OK;
}

static int open_server(struct cli *c, const char *server)
{
    const char *token = getenv("QUIPU_TOKEN");
    int status = EXIT_OK;
    if (cli_has(c, OPT_token_file)) {
        status = read_token(c, c->values[OPT_token_file], &token);
    }
    return status == EXIT_OK ? ask_server_open(c, server, token) : status;
}

const char *ask_file_place(const struct cli *c)
{
    struct stat info;
    if (cli_has(c, OPT_db)) {
        return c->values[OPT_db];
    }
    return cli_has(c, OPT_server) || stat(DEFAULT_SOCKET, &info) == 0 ? NULL : DEFAULT_FILE;
}

int ask_open(struct cli *c)
{
    int status = c->ask != NULL ? EXIT_OK : cli_settings(c);
    const char *place;
    if (c->ask != NULL || status != EXIT_OK) {
        return status;
    }
    place = ask_file_place(c);
    if (place != NULL) {
        return ask_file_open(c, place);
    }
    return open_server(c, cli_has(c, OPT_server) ? c->values[OPT_server] : "unix:" DEFAULT_SOCKET);
}

void ask_close(struct cli *c)
{
    if (c->ask != NULL) {
        c->ask->close(c);
        c->ask = NULL;
    }
}

const char *ask_whom(struct cli *c)
{
    return c->ask->whom;
}

bool ask_is_file(const struct cli *c)
{
    return c->ask->is_file;
}

/* -------------------------------------------------------------------------------------- answers */

int ask(struct cli *c, const struct question *q, struct reply *out_reply)
{
    int status = ask_open(c);
    *out_reply = (struct reply){.status = 0};
    return status == EXIT_OK ? c->ask->ask(c, q, out_reply) : status;
}

int ask_follow(struct cli *c, const char *job, int64_t after, int64_t deadline_us, void *context,
               follow_visit visit)
{
    int status = ask_open(c);
    return status == EXIT_OK ? c->ask->follow(c, job, after, deadline_us, context, visit) : status;
}

static enum cli_exit exit_of(int status)
{
    switch (status) {
    case 400:
    case 422:
        return EXIT_USAGE;
    case 401:
    case 403:
    case 421:
        return EXIT_AUTH;
    case 404:
        return EXIT_NOT_FOUND;
    case 409:
    case 412:
        return EXIT_CONFLICT;
    case 502:
    case 503:
    case 504:
        return EXIT_UNREACHABLE;
    default:
        return EXIT_ERROR;
    }
}

static const char *member(struct cli *c, const struct json *json, const char *name)
{
    qp_str text;
    return json_as_str(json_get(json, str_from(name)), &text) ? cli_text(c, "%.*s", STR_ARG(text))
                                                              : "";
}

/* Who is refused has to see which applications there are. Of a signal: the job is found, the topic is not. */
static bool is_about_graphs(const struct cli *c, enum cli_exit code)
{
    const char *words = c->command->words;
    return strncmp(words, "workflows ", 10) == 0 || strcmp(words, "deploy") == 0 ||
           strcmp(words, "dev") == 0 || strcmp(words, "stats") == 0 ||
           (strcmp(words, "signal") == 0 && code == EXIT_NOT_FOUND);
}

/* What to look at when something does not allow it, or is not there: applications, the job that was named, else how to
 * ask. Whose command names no job is not sent to the list of jobs. NULL: what the exit code says. */
static const char *next_of(struct cli *c, enum cli_exit code)
{
    const char *takes = c->command->arguments;
    bool of_jobs = strstr(takes, "JOB") != NULL || *takes == '\0';
    if (code != EXIT_CONFLICT && code != EXIT_NOT_FOUND) {
        return NULL;
    }
    if (is_about_graphs(c, code)) {
        return "quipu workflows ls";
    }
    if (code == EXIT_NOT_FOUND && of_jobs) {
        return NULL;
    }
    if (c->argument_count > 0 &&
        (strncmp(takes, "JOB", 3) == 0 || strncmp(takes, "[JOB]", 5) == 0)) {
        return cli_text(c, "quipu show %s", c->arguments[0]);
    }
    return cli_has(c, OPT_id) ? cli_text(c, "quipu show %s", c->values[OPT_id])
                              : cli_text(c, "quipu help %s", c->command->words);
}

int ask_refused(struct cli *c, const struct reply *r)
{
    struct json *json = NULL;
    enum cli_exit code = exit_of(r->status);
    const char *detail, *pointer;
    const char *next = next_of(c, code);
    if (json_parse(&c->env, buf_slice(&r->body), NULL, &json) != QP_OK) {
        return cli_fail(c, code, "%s answered with status %d", ask_whom(c), r->status);
    }
    detail = member(c, json, "detail");
    pointer = member(c, json_at(json_get(json, QP_STR("errors")), 0), "pointer");
    if (strcmp(member(c, json, "code"), "read_only") == 0) {
        code = EXIT_CONFLICT;
        detail = "this is only known to a server";
        next = cli_text(c, "quipu %s --server URL", c->command->words);
    }
    detail = cli_text(c, "%s%s%s (%s)", pointer, *pointer != '\0' ? ": " : "", detail,
                      member(c, json, "hint"));
    if (next != NULL) {
        (void)cli_fail_next(c, code, next, "%s", detail);
    } else {
        (void)cli_fail(c, code, "%s", detail);
    }
    json_free(json);
    return (int)code;
}

int ask_well(struct cli *c, const struct question *q, struct reply *out_reply)
{
    int status = ask(c, q, out_reply);
    if (status == EXIT_OK && (out_reply->status < 200 || out_reply->status > 299)) {
        status = ask_refused(c, out_reply);
        reply_done(out_reply);
    }
    return status;
}

/* --------------------------------------------------------------------------------------- bodies */

void ask_body_begin(struct cli *c, struct ask_body *b)
{
    buf_init(&b->text, &c->env, 0);
    json_writer_init(&b->w, &b->text);
    json_begin_object(&b->w);
}

void ask_body_text(struct ask_body *b, const char *key, const char *text)
{
    if (text != NULL) {
        json_key(&b->w, str_from(key));
        json_put_str(&b->w, str_from(text));
    }
}

int ask_body_send(struct cli *c, struct ask_body *b, int status, struct question *q,
                  struct reply *out_reply)
{
    json_end_object(&b->w);
    if (status == EXIT_OK && json_writer_done(&b->w) != QP_OK) {
        status = cli_fail(c, EXIT_USAGE, "what was given is too large");
    }
    q->body = buf_slice(&b->text);
    q->method = API_POST;
    status = status == EXIT_OK ? ask_well(c, q, out_reply) : status;
    buf_done(&b->text);
    return status;
}

/* ask.c - questions, and what answers mean */
#include "cli/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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
    const struct route *route =
        route_find(&api_routes, q->method, str_from(q->path), parts, &allow);
    const char *query = q->query != NULL ? q->query : "";
    bool spaced = route != NULL && (route->flags & ROUTE_SPACED) != 0 && cli_has(c, OPT_namespace);
    return cli_text(c, "%s%s%s%s%s%s", q->path, *query != '\0' || spaced ? "?" : "", query,
                    *query != '\0' && spaced ? "&" : "", spaced ? "namespace=" : "",
                    spaced ? cli_encode(c, c->values[OPT_namespace]) : "");
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
    int status = c->open_ask(c);
    *out_reply = (struct reply){.status = 0};
    return status == EXIT_OK ? c->ask->ask(c, q, out_reply) : status;
}

int ask_follow(struct cli *c, const char *job, int64_t after, int64_t deadline_us, void *context,
               follow_visit visit)
{
    int status = c->open_ask(c);
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

/* How a start says which job has its custom id (run/start.c). */
#define OPEN_JOB "is that of the open job '"

/* Without the words of the command, which stand in front of every error: "signal: ..", "retry 'j': ..". */
static const char *without_words(const struct cli *c, const char *detail)
{
    size_t n = strlen(c->command->words);
    if (strncmp(detail, c->command->words, n) != 0) {
        return detail;
    }
    return strncmp(detail + n, ": ", 2) == 0   ? detail + n + 2
           : strncmp(detail + n, " '", 2) == 0 ? detail + n + 1
                                               : detail;
}

int ask_refused(struct cli *c, const struct reply *r)
{
    struct json *json = NULL;
    enum cli_exit code = exit_of(r->status);
    const char *detail, *pointer;
    const char *next = next_of(c, code);
    const char *taken;
    if (json_parse(&c->env, buf_slice(&r->body), NULL, &json) != QP_OK) {
        return cli_fail(c, code, "%s answered with status %d", ask_whom(c), r->status);
    }
    detail = member(c, json, "detail");
    taken = strstr(detail, OPEN_JOB);
    if (taken != NULL && code == EXIT_CONFLICT) {
        taken += sizeof OPEN_JOB - 1;
        next = cli_text(c, "quipu show %.*s", (int)strcspn(taken, "'"), taken);
    }
    pointer = member(c, json_at(json_get(json, QP_STR("errors")), 0), "pointer");
    if (strcmp(member(c, json, "code"), "read_only") == 0) {
        code = EXIT_CONFLICT;
        detail = "this is only known to a server";
        next = cli_text(c, "quipu %s --server URL", c->command->words);
    }
    detail = cli_text(c, "%s%s%s (%s)", pointer, *pointer != '\0' ? ": " : "",
                      without_words(c, detail), member(c, json, "hint"));
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
    q->method = q->method == API_PUT ? API_PUT : API_POST;
    status = status == EXIT_OK ? ask_well(c, q, out_reply) : status;
    buf_done(&b->text);
    return status;
}

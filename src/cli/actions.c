/* actions.c - what is done to jobs: to one that is named, or to all that fit a filter
 *
 * A filter acts only with --yes; with --dry-run it is counted. Many jobs are acted on page by
 * page, each page as fast as --rate allows, all under the id of one batch, which tells afterwards
 * what was done. If we are stopped in the middle, the pages before are done; the same command goes on
 * with the rest, since what was done no longer fits, or is refused.
 */
#include <errno.h>
#include <stdlib.h>

#include "cli/jobs.h"

#define PAGE_JOBS 100
#define RATE_DEFAULT 1000

/* Prints the id of the job that it was done to, or that came of it. */
static int print_acted(struct cli *c, enum output kind, const struct reply *reply)
{
    (void)output_object(c, kind == OUTPUT_TEXT || kind == OUTPUT_WIDE ? OUTPUT_NAME : kind, "id",
                        buf_slice(&reply->body));
    return EXIT_OK;
}

/* What a fork or a retry says of its new job. */
static int fork_body(struct cli *c, struct ask_body *b)
{
    qp_str input = QP_NONE;
    if (c->argument_count > 1) {
        int status = input_read(c, c->arguments + 1, c->argument_count - 1, "null", &input);
        if (status != EXIT_OK) {
            return status;
        }
        json_key(&b->w, QP_STR("input"));
        json_put_raw(&b->w, input);
    }
    ask_body_text(b, "id", c->values[OPT_id]);
    ask_body_text(b, "at", c->values[OPT_at]);
    ask_body_text(b, "work", c->values[OPT_work]);
    ask_body_text(b, "version", c->values[OPT_version]);
    return EXIT_OK;
}

static int act_on_one(struct cli *c, const char *verb, enum output kind)
{
    bool deletes = strcmp(verb, "delete") == 0;
    const char *id = NULL;
    struct reply reply = {0};
    struct ask_body b;
    int status = job_resolve(c, c->arguments[0], &id);
    if (status != EXIT_OK) {
        return status;
    }
    if (deletes) {
        status = ask_well(c, &(struct question){.method = API_DELETE, .path = job_path(c, id, "")},
                          &reply);
    } else {
        ask_body_begin(c, &b);
        ask_body_text(&b, "reason", c->values[OPT_reason]);
        status = ask_body_send(
            c, &b, EXIT_OK, &(struct question){.path = job_path(c, id, cli_text(c, "/%s", verb))},
            &reply);
    }
    status = status == EXIT_OK ? print_acted(c, kind, &reply) : status;
    reply_done(&reply);
    return status;
}

/* ----------------------------------------------------------------------------------------- many */

struct bulk {
    const char *verb;
    const char *id; /* of the batch */
    int64_t rate;   /* jobs in a second */
    int64_t done;
    int64_t refused;
};

static int read_rate(struct cli *c, int64_t *out_rate)
{
    const char *typed = cli_has(c, OPT_rate) ? c->values[OPT_rate] : "1000/s";
    char *end = NULL;
    long long rate;
    errno = 0;
    rate = strtoll(typed, &end, 10);
    if (*typed < '1' || *typed > '9' || errno != 0 || rate > RATE_DEFAULT * 1000 ||
        (strcmp(end, "/s") != 0 && *end != '\0')) {
        return cli_usage(
            "%s: --rate must be a number of jobs like 50/s, got '%s'; see quipu help %s",
            c->command->words, typed, c->command->words);
    }
    *out_rate = rate;
    return EXIT_OK;
}

static int ask_bulk(struct cli *c, const struct bulk *b, const char *cursor, bool dry_run,
                    struct json **out_json, struct reply *out_reply)
{
    struct ask_body body;
    int status;
    ask_body_begin(c, &body);
    ask_body_text(&body, "action", b->verb);
    ask_body_text(&body, "where", c->values[OPT_where]);
    ask_body_text(&body, "batch", b->id);
    ask_body_text(&body, "reason", c->values[OPT_reason]);
    ask_body_text(&body, "cursor", cursor);
    json_key(&body.w, QP_STR("limit"));
    json_put_i64(&body.w, b->rate < PAGE_JOBS ? b->rate : PAGE_JOBS);
    json_key(&body.w, QP_STR("dry_run"));
    json_put_bool(&body.w, dry_run);
    status = ask_body_send(c, &body, EXIT_OK, &(struct question){.path = "/v1/batches"}, out_reply);
    if (status == EXIT_OK &&
        json_parse(&c->env, buf_slice(&out_reply->body), NULL, out_json) != QP_OK) {
        status = cli_fail(c, EXIT_ERROR, "the answer cannot be read");
    }
    return status;
}

/* How many, and three of them. Without --dry-run that is said on stderr, and nothing is done. */
static int look_first(struct cli *c, const struct bulk *b, enum output kind)
{
    bool dry_run = cli_has(c, OPT_dry_run);
    struct json *json = NULL;
    struct reply reply;
    int status = ask_bulk(c, b, NULL, true, &json, &reply);
    if (status == EXIT_OK &&
        (!dry_run || !output_object(c, kind, "count", buf_slice(&reply.body)))) {
        FILE *out = dry_run ? stdout : stderr;
        const struct json *samples = json_get(json, QP_STR("samples"));
        (void)fprintf(out, "%lld jobs fit%s", (long long)member_number(json, "count"),
                      json_count(samples) > 0 ? ":" : "");
        for (size_t i = 0; i < json_count(samples); i++) {
            (void)fputc(' ', out);
            (void)print_value(out, json_at(samples, i));
        }
        (void)fputc('\n', out);
    }
    json_free(json);
    reply_done(&reply);
    if (status == EXIT_OK && !dry_run) {
        return cli_usage("%s: nothing was done; say --yes to do it, or --dry-run to only look",
                         c->command->words);
    }
    return status;
}

/* One page; *cursor is where the next one begins, or NULL. */
static int act_on_page(struct cli *c, struct bulk *b, const char **cursor)
{
    struct json *json = NULL;
    struct reply reply;
    qp_str next;
    int status = ask_bulk(c, b, *cursor, false, &json, &reply);
    *cursor = NULL;
    if (status == EXIT_OK) {
        b->done += member_number(json, "done");
        b->refused += member_number(json, "refused");
        if (json_as_str(json_get(json, QP_STR("next_cursor")), &next)) {
            *cursor = cli_text(c, "%.*s", STR_ARG(next));
        }
    }
    json_free(json);
    reply_done(&reply);
    return status;
}

static int act_on_all(struct cli *c, struct bulk *b)
{
    const char *cursor = NULL;
    int64_t began_us = cli_now_us(c);
    int status;
    do {
        int64_t due_us = began_us + (b->done + b->refused) * 1000000 / b->rate;
        int64_t now_us = cli_now_us(c);
        if (due_us > now_us) {
            cli_sleep_ms((due_us - now_us) / 1000);
        }
        status = act_on_page(c, b, &cursor);
    } while (status == EXIT_OK && cursor != NULL);
    return status;
}

static void print_bulk(struct cli *c, enum output kind, const struct bulk *b)
{
    const char *text = cli_text(c, "{\"batch\":\"%s\",\"done\":%lld,\"refused\":%lld}", b->id,
                                (long long)b->done, (long long)b->refused);
    if (!output_object(c, kind, "batch", str_from(text))) {
        printf("%s: %lld done, %lld refused, batch %s\n", b->verb, (long long)b->done,
               (long long)b->refused, b->id);
    }
}

static int act_on_many(struct cli *c, const char *verb, enum output kind)
{
    struct bulk b = {.verb = verb};
    int status = cli_expect(c, 0, 0);
    status = status == EXIT_OK ? read_rate(c, &b.rate) : status;
    if (status != EXIT_OK) {
        return status;
    }
    if (!cli_has(c, OPT_yes) || cli_has(c, OPT_dry_run)) {
        return look_first(c, &b, kind);
    }
    status = job_new_id(c, &b.id);
    status = status == EXIT_OK ? act_on_all(c, &b) : status;
    if (b.done > 0 || status == EXIT_OK) {
        print_bulk(c, kind, &b);
    }
    return status;
}

/* A new job from one that is there, or one that goes on where it stands. */
static int fork_or_retry(struct cli *c, const char *action)
{
    const char *id = NULL;
    struct reply reply = {0};
    struct ask_body b;
    enum output kind;
    int status = cli_expect(c, 1, SIZE_MAX);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    status = status == EXIT_OK ? job_resolve(c, c->arguments[0], &id) : status;
    if (status != EXIT_OK) {
        return status;
    }
    ask_body_begin(c, &b);
    status = fork_body(c, &b);
    status =
        ask_body_send(c, &b, status, &(struct question){.path = job_path(c, id, action)}, &reply);
    status = status == EXIT_OK ? print_acted(c, kind, &reply) : status;
    reply_done(&reply);
    return status;
}

static int act(struct cli *c)
{
    const char *verb = c->command->words;
    enum output kind;
    int status = output_kind(c, &kind);
    if (status != EXIT_OK) {
        return status;
    }
    if (cli_has(c, OPT_where)) {
        return act_on_many(c, verb, kind);
    }
    status = cli_expect(c, 1, 1);
    return status == EXIT_OK ? act_on_one(c, verb, kind) : status;
}

int command_cancel(struct cli *c)
{
    return act(c);
}

int command_kill(struct cli *c)
{
    return act(c);
}

int command_pause(struct cli *c)
{
    return act(c);
}

int command_resume(struct cli *c)
{
    return act(c);
}

int command_retry(struct cli *c)
{
    if (!cli_has(c, OPT_where)) {
        return fork_or_retry(c, "/retry");
    }
    if (cli_has(c, OPT_id) || cli_has(c, OPT_at) || cli_has(c, OPT_version) ||
        cli_has(c, OPT_work)) {
        return cli_usage(
            "retry: --id, --at, --version and --work are for one job, not for --where");
    }
    return act(c);
}

int command_delete(struct cli *c)
{
    return act(c);
}

int command_fork(struct cli *c)
{
    return fork_or_retry(c, "/fork");
}

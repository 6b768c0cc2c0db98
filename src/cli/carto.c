/* carto.c - quipu carto ROOT...: traverses a dependency graph, and waits for its result
 *
 * The request is a job, whose id is given with --id or follows from the request. So what was interrupted goes on when the same
 * command is given again: the job is there, and only its result is waited for. Of a store the engine runs in this process.
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "carto/format.h"
#include "cli/carto.h"
#include "cli/carto_npm.h"
#include "cli/jobs.h"

#define LOOK_MS 20     /* between two looks at a store */
#define DRAW_US 200000 /* between two progress lines */

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* ------------------------------------------------------------------------------------------- request */

/* Lines of a file; of dpkg's status file the packages that are installed. */
static void put_lines(struct json_writer *w, qp_str text)
{
    bool is_status = text.n > 8 && memcmp(text.p, "Package:", 8) == 0;
    while (text.n > 0) {
        const char *end = memchr(text.p, '\n', text.n);
        qp_str line = {text.p, end == NULL ? text.n : (size_t)(end - text.p)};
        size_t taken = line.n + (end == NULL ? 0 : 1);
        text = (qp_str){text.p + taken, text.n - taken};
        if (is_status && line.n > 9 && memcmp(line.p, "Package: ", 9) == 0) {
            char root[LIMIT_CARTO_NAME_SIZE + 8];
            int n = snprintf(root, sizeof root, "deb:%.*s", (int)(line.n - 9), line.p + 9);
            json_put_str(w, (qp_str){root, (size_t)n < sizeof root ? (size_t)n : sizeof root - 1});
        } else if (!is_status && line.n > 0) {
            json_put_str(w, line);
        }
    }
}

static int put_roots(struct cli *c, struct json_writer *w, const struct npm_given *given)
{
    json_key(w, QP_STR("roots"));
    json_begin_array(w);
    for (size_t i = 0; i < c->argument_count; i++) {
        qp_str text;
        int status;
        if (carto_npm_is_file(c->arguments[i])) {
            json_put_str(w, str_from(given->root));
            continue;
        }
        if (c->arguments[i][0] != '@') {
            json_put_str(w, str_from(c->arguments[i]));
            continue;
        }
        status = input_file(c, c->arguments[i] + 1, LIMIT_PAYLOAD_HARD_SIZE, &text);
        if (status != EXIT_OK) {
            json_end_array(w);
            return status;
        }
        put_lines(w, text);
    }
    json_end_array(w);
    return EXIT_OK;
}

static void put_given(struct cli *c, struct json_writer *w, const char *key, enum option option)
{
    if (cli_has(c, option)) {
        json_key(w, str_from(key));
        json_put_str(w, str_from(c->values[option]));
    }
}

static int put_number(struct cli *c, struct json_writer *w, const char *key, enum option option,
                      int64_t most)
{
    int64_t number = 0;
    int status = cli_number(c, option, 0, most, &number);
    if (status == EXIT_OK && cli_has(c, option)) {
        json_key(w, str_from(key));
        json_put_i64(w, number);
    }
    return status;
}

static void put_exclusions(struct cli *c, struct json_writer *w)
{
    if (c->many_count[OPT_exclude] == 0) {
        return;
    }
    json_key(w, QP_STR("exclusions"));
    json_begin_array(w);
    for (size_t i = 0; i < c->many_count[OPT_exclude]; i++) {
        json_put_str(w, str_from(c->many[OPT_exclude][i]));
    }
    json_end_array(w);
}

static int put_overrides(struct cli *c, struct json_writer *w, const struct npm_given *given)
{
    struct json_walk walk = {0};
    if (c->many_count[OPT_take] == 0 && given->overrides == NULL) {
        return EXIT_OK;
    }
    json_key(w, QP_STR("versions"));
    json_begin_object(w);
    while (given->overrides != NULL && json_each(given->overrides, &walk)) {
        json_key(w, walk.key);
        json_write_tree(w, walk.value);
    }
    for (size_t i = 0; i < c->many_count[OPT_take]; i++) {
        const char *text = c->many[OPT_take][i];
        const char *equals = strchr(text, '=');
        if (equals == NULL) {
            json_end_object(w);
            return cli_fail(c, EXIT_USAGE, "--take '%s' is not of the form PACKAGE=VERSION", text);
        }
        json_key(w, (qp_str){text, (size_t)(equals - text)});
        json_put_str(w, str_from(equals + 1));
    }
    json_end_object(w);
    return EXIT_OK;
}

static void put_npm(struct cli *c, struct json_writer *w, const struct npm_given *given)
{
    json_key(w, QP_STR("npm"));
    json_begin_object(w);
    put_given(c, w, "before", OPT_before);
    if (cli_has(c, OPT_peers)) {
        json_key(w, QP_STR("peers"));
        json_put_bool(w, true);
    }
    if (given->universe != NULL) {
        json_key(w, QP_STR("universe"));
        json_put_str(w, str_from(given->universe));
    }
    if (!str_is_none(given->manifest)) {
        json_key(w, QP_STR("manifest"));
        json_put_raw(w, given->manifest);
    }
    json_end_object(w);
}

/* A mapping out of a file, as a member. */
static int put_mapping(struct cli *c, struct json_writer *w, const char *member, const char *path)
{
    struct qp_err err = {0};
    qp_str text;
    int status = path == NULL ? EXIT_OK : input_file(c, path, LIMIT_PAYLOAD_SIZE, &text);
    if (path == NULL || status != EXIT_OK) {
        return status;
    }
    if (json_check(&c->env, text, NULL, &err) != QP_OK) {
        return cli_fail(c, EXIT_USAGE, "the mapping '%s': %s", path, err.text);
    }
    json_key(w, str_from(member));
    json_put_raw(w, text);
    return EXIT_OK;
}

static int put_format(struct cli *c, struct json_writer *w)
{
    int status;
    if (!cli_has(c, OPT_format) && !cli_has(c, OPT_format_path)) {
        return EXIT_OK;
    }
    json_key(w, QP_STR("format"));
    json_begin_object(w);
    status = put_mapping(c, w, "node", c->values[OPT_format]);
    status = status == EXIT_OK ? put_mapping(c, w, "path", c->values[OPT_format_path]) : status;
    json_end_object(w);
    return status;
}

static int put_request(struct cli *c, const char *id, struct json_writer *w,
                       const struct npm_given *given)
{
    int status;
    if (id != NULL) {
        json_key(w, QP_STR("workspaceId"));
        json_put_str(w, str_from(id));
    }
    if (cli_has(c, OPT_fresh)) {
        json_key(w, QP_STR("fresh"));
        json_put_bool(w, true);
    }
    put_given(c, w, "scope", OPT_scope);
    put_exclusions(c, w);
    json_key(w, QP_STR("deb"));
    json_begin_object(w);
    put_given(c, w, "closure", OPT_closure);
    put_given(c, w, "arch", OPT_arch);
    json_end_object(w);
    put_npm(c, w, given);
    if (cli_has(c, OPT_split)) {
        json_key(w, QP_STR("split"));
        json_put_bool(w, true);
    }
    status = put_format(c, w);
    status = status == EXIT_OK ? put_roots(c, w, given) : status;
    status = status == EXIT_OK ? put_number(c, w, "depth", OPT_depth, LIMIT_CARTO_LEVELS) : status;
    status = status == EXIT_OK ? put_number(c, w, "page", OPT_page, LIMIT_LEVEL_ITEMS) : status;
    return status == EXIT_OK ? put_overrides(c, w, given) : status;
}

/* The id that the traversal has; on a terminal also that it was there. */
static int read_started(struct cli *c, qp_str text, const char **out_id)
{
    struct json *started = NULL;
    bool is_cached = false;
    if (json_parse(&c->env, text, NULL, &started) != QP_OK) {
        return cli_fail(c, EXIT_ERROR, "the answer cannot be read");
    }
    *out_id = cli_text(c, "%.*s", STR_ARG(member_text(started, "id")));
    if (json_as_bool(json_get(started, QP_STR("cached")), &is_cached) && is_cached &&
        !cli_has(c, OPT_id) && isatty(STDERR_FILENO) != 0) {
        cli_say("quipu: carto: the same request is there as '%s'; --fresh traverses again",
                *out_id);
    }
    json_free(started);
    return EXIT_OK;
}

/* Without an id of the caller's a key makes sure that a request which is sent twice is one. */
static int send_request(struct cli *c, const char **out_id)
{
    struct ask_body body;
    struct reply reply = {0};
    struct question q = {.method = API_POST, .path = "/v1/traversals", .patience_ms = 30000};
    struct npm_given given = {0};
    int status = carto_npm_files(c, &given);
    if (status == EXIT_OK && !cli_has(c, OPT_id)) {
        status = job_new_id(c, &q.key);
    }
    if (status == EXIT_OK) {
        ask_body_begin(c, &body);
        status = put_request(c, c->values[OPT_id], &body.w, &given);
        status = ask_body_send(c, &body, status, &q, &reply);
        status = status == EXIT_OK ? read_started(c, buf_slice(&reply.body), out_id) : status;
        reply_done(&reply);
    }
    json_free(given.overrides);
    return status;
}

/* ------------------------------------------------------------------------------------------- waiting */

struct waiting {
    struct cli *c;
    const char *id;
    int64_t began_us;
    int64_t drawn_us;
    int64_t began_items;
    bool is_drawn;
};

static void draw(struct waiting *w, const struct json *state)
{
    const struct json *counts = json_get(state, QP_STR("counts"));
    int64_t now = cli_now_us(w->c);
    int64_t done = member_number(counts, "items");
    int64_t elapsed = now - w->began_us;
    if (isatty(STDERR_FILENO) == 0 || now - w->drawn_us < DRAW_US) {
        return;
    }
    w->drawn_us = now;
    w->is_drawn = true;
    (void)fprintf(stderr, "\r%.*s  level %lld  done %lld  open %lld  waiting %lld  %lld/s\033[K",
                  STR_ARG(member_text(state, "status")), (long long)member_number(state, "level"),
                  (long long)done, (long long)member_number(state, "open"),
                  (long long)member_number(state, "waiting"),
                  elapsed <= 0 ? 0LL : (long long)(done * 1000000 / elapsed));
}

static int say_interrupted(const char *id)
{
    cli_say("quipu: carto: interrupted; the traversal '%s' is kept, and the same command goes on "
            "with it",
            id);
    return EXIT_INTERRUPTED;
}

/* How a traversal that is over has ended; EXIT_OK: with a result. */
static int judge(struct cli *c, const char *id, const struct json *state)
{
    const struct json *error = json_get(state, QP_STR("error"));
    const struct json *counts = json_get(state, QP_STR("counts"));
    int64_t failed = member_number(counts, "failed") - member_number(counts, "optional");
    if (!str_equal(member_text(state, "status"), QP_STR("SUCCESS"))) {
        return cli_fail_next(c, EXIT_FAILED, cli_text(c, "quipu carto status %s", id), "%.*s",
                             STR_ARG(member_text(error, "message")));
    }
    if (failed > 0) {
        cli_say("quipu: carto: %lld items have errors; the result lists them", (long long)failed);
    }
    return failed > 0 && cli_has(c, OPT_strict) ? EXIT_FAILED : EXIT_OK;
}

/* One look; *out_over: it has ended, and the exit code says how. */
static int look(struct waiting *w, bool *out_over)
{
    struct cli *c = w->c;
    struct reply reply = {0};
    struct json *state = NULL;
    int status = ask_well(
        c,
        &(struct question){.path = cli_text(c, "/v1/traversals/%s/status", cli_encode(c, w->id)),
                           .patience_ms = 30000},
        &reply);
    if (status == EXIT_OK && json_parse(&c->env, buf_slice(&reply.body), NULL, &state) != QP_OK) {
        status = cli_fail(c, EXIT_ERROR, "the answer cannot be read");
    }
    reply_done(&reply);
    if (status != EXIT_OK) {
        return status;
    }
    draw(w, state);
    if (json_get(state, QP_STR("parked")) != NULL) {
        *out_over = true;
        status = cli_fail(c, EXIT_PARKED, "the traversal '%s' is parked: it needs a person", w->id);
    } else if (str_equal(member_text(state, "status"), QP_STR("SUCCESS")) ||
               str_equal(member_text(state, "status"), QP_STR("ERROR"))) {
        *out_over = true;
        status = judge(c, w->id, state);
    }
    json_free(state);
    return status;
}

/* A server answers when the job has ended; a store is looked at. */
static void rest(struct waiting *w)
{
    struct cli *c = w->c;
    struct reply reply = {0};
    if (ask_is_file(c)) {
        cli_sleep_ms(LOOK_MS);
        return;
    }
    (void)ask(c,
              &(struct question){
                  .path = job_path(c, w->id, "/result"), .query = "wait=1s", .patience_ms = 30000},
              &reply); /* what came of it says the next look */
    reply_done(&reply);
}

static int wait_for(struct cli *c, const char *id)
{
    struct waiting w = {.c = c, .id = id, .began_us = cli_now_us(c)};
    int64_t deadline_us = 0;
    bool is_over = false;
    int status = job_deadline(c, &deadline_us);
    while (status == EXIT_OK && !is_over) {
        struct arena kept = c->arena; /* a look may be one of very many: its texts go with it */
        arena_init(&c->arena, &c->env, 0);
        status = look(&w, &is_over);
        if (status == EXIT_OK && !is_over) {
            rest(&w);
        }
        arena_done(&c->arena);
        c->arena = kept;
        if (status == EXIT_OK && !is_over && interrupted != 0) {
            status = say_interrupted(id);
        }
        if (status == EXIT_OK && !is_over && deadline_us != 0 && cli_now_us(c) >= deadline_us) {
            status = cli_fail(c, EXIT_TIMEOUT, "the traversal '%s' is not done yet", id);
        }
    }
    if (w.is_drawn) {
        (void)fputs("\r\033[K", stderr);
    }
    return status;
}

/* -------------------------------------------------------------------------------------------- commands */

int traversal_output(struct cli *c, const char **out_format)
{
    const char *format = cli_has(c, OPT_output) ? c->values[OPT_output] : "json";
    enum carto_format known;
    if (!format_read(str_from(format), &known)) {
        return cli_fail(c, EXIT_USAGE, "-o must be " CARTO_FORMAT_WORDS ", got '%s'", format);
    }
    *out_format = format;
    return EXIT_OK;
}

int traversal_ask(struct cli *c, const char *id, const char *format, struct reply *out_reply)
{
    int status =
        ask_well(c,
                 &(struct question){.path = cli_text(c, "/v1/traversals/%s", cli_encode(c, id)),
                                    .query = cli_text(c, "format=%s", format),
                                    .patience_ms = 30000},
                 out_reply);
    return status == EXIT_OK && out_reply->status == 204
               ? cli_fail_next(c, EXIT_CONFLICT, cli_text(c, "quipu carto status %s", id),
                               "the traversal '%s' is not done yet", id)
               : status;
}

int traversal_print(struct cli *c, const char *id, const char *format)
{
    struct reply reply = {0};
    int status = traversal_ask(c, id, format, &reply);
    if (status == EXIT_OK) {
        (void)fwrite(reply.body.p, 1, reply.body.n, stdout); /* main asks whether it went well */
    }
    reply_done(&reply);
    return status;
}

int traversal_run(struct cli *c, const char **out_id)
{
    struct sigaction action = {.sa_handler = interrupt};
    int status;
    (void)sigaction(SIGINT, &action, NULL); /* without it the command just ends */
    status = send_request(c, out_id);
    return status == EXIT_OK ? wait_for(c, *out_id) : status;
}

int command_carto(struct cli *c)
{
    const char *id = NULL;
    const char *format = NULL;
    int ended = EXIT_OK;
    int status = cli_expect(c, 1, SIZE_MAX);
    status = status == EXIT_OK ? traversal_output(c, &format) : status;
    if (status != EXIT_OK) {
        return status;
    }
    status = ended = traversal_run(c, &id);
    if (status == EXIT_OK || (status == EXIT_FAILED && cli_has(c, OPT_strict))) {
        int printed = traversal_print(c, id, format);
        return printed == EXIT_OK ? ended : printed;
    }
    return status;
}

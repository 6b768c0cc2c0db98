/* jobs.c - start, wait: one job, until it has ended
 *
 * A start without an id carries an idempotency key that is made here; the id is made by the graph, or by the engine. So a
 * request whose answer was lost is sent again, to a server that was killed and is there again, and the job is started once.
 */
#include "cli/jobs.h"

#include "base/time.h"
#include "base/uuid.h"
#include "cli/strict.h"

#define PATIENCE_MS 30000
#define LOOK_MS 100 /* between two looks at a file */
#define WAIT_MS                                                                                    \
    5000 /* of one question: a job may also be parked, which ends no wait of the server */

const char *job_path(struct cli *c, const char *id, const char *rest)
{
    return cli_text(c, "/v1/jobs/%s%s", cli_encode(c, id), rest);
}

/* -------------------------------------------------------------------------------------- names */

/* A text in double quotes, for a filter. */
static const char *quoted(struct cli *c, const char *text)
{
    char *out = arena_bytes(&c->arena, 2 * strlen(text) + 3);
    char *at = out;
    if (out == NULL) {
        return "\"\"";
    }
    *at++ = '"';
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\') {
            *at++ = '\\';
        }
        *at++ = *p;
    }
    *at++ = '"';
    *at = '\0';
    return out;
}

/* No job has this id. One that begins so? */
static int resolve_prefix(struct cli *c, const char *typed, const char **out_id)
{
    struct reply reply;
    struct json *json = NULL;
    const struct json *items;
    qp_str first, second;
    const char *where = cli_text(c, "id^=%s", quoted(c, typed));
    const char *query = cli_text(c, "limit=2&where=%s", cli_encode(c, where));
    int status = ask_well(c, &(struct question){.path = "/v1/jobs", .query = query}, &reply);
    if (status != EXIT_OK) {
        return status;
    }
    status = json_parse(&c->env, buf_slice(&reply.body), NULL, &json) == QP_OK
                 ? EXIT_OK
                 : cli_fail(c, EXIT_ERROR, "the answer cannot be read");
    items = json_get(json, QP_STR("items"));
    if (status == EXIT_OK && json_as_str(json_get(json_at(items, 1), QP_STR("id")), &second) &&
        json_as_str(json_get(json_at(items, 0), QP_STR("id")), &first)) {
        status = cli_fail_next(c, EXIT_CONFLICT, cli_text(c, "quipu ls --where '%s'", where),
                               "several jobs begin with '%s': '%.*s', '%.*s'", typed,
                               STR_ARG(first), STR_ARG(second));
    } else if (status == EXIT_OK &&
               json_as_str(json_get(json_at(items, 0), QP_STR("id")), &first)) {
        *out_id = cli_text(c, "%.*s", STR_ARG(first));
    } else if (status == EXIT_OK) {
        status = cli_fail(c, EXIT_NOT_FOUND, "no job '%s' in %s", typed, ask_whom(c));
    }
    json_free(json);
    reply_done(&reply);
    return status;
}

int job_resolve(struct cli *c, const char *typed, const char **out_id)
{
    struct reply reply;
    int status;
    if (*typed == '\0') {
        return cli_fail(c, EXIT_USAGE, "the id of a job is not empty");
    }
    status = ask(c, &(struct question){.path = job_path(c, typed, "")}, &reply);
    if (status != EXIT_OK) {
        return status;
    }
    if (reply.status == 404) {
        status = resolve_prefix(c, typed, out_id);
    } else if (reply.status != 200) {
        status = ask_refused(c, &reply);
    } else {
        *out_id = typed;
    }
    reply_done(&reply);
    return status;
}

/* --------------------------------------------------------------------------------------- states */

bool status_is_final(qp_str status, int *out_exit)
{
    static const struct {
        const char *word;
        int code;
    } ends[] = {{"completed", EXIT_OK},
                {"failed", EXIT_FAILED},
                {"cancelled", EXIT_CANCELLED},
                {"interrupted", EXIT_CANCELLED},
                {"parked", EXIT_PARKED}};
    for (size_t i = 0; i < ARRAY_COUNT(ends); i++) {
        if (str_equal(status, str_from(ends[i].word))) {
            *out_exit = ends[i].code;
            return true;
        }
    }
    return false;
}

int job_deadline(struct cli *c, int64_t *out_us)
{
    qp_ms timeout = -1;
    int status = cli_duration(c, OPT_timeout, &timeout);
    *out_us = timeout < 0 ? 0 : cli_now_us(c) + timeout * 1000 + 1;
    return status;
}

static bool is_final(struct cli *c, qp_str text, int *out_exit)
{
    struct json *json = NULL;
    qp_str status;
    bool final = json_parse(&c->env, text, NULL, &json) == QP_OK &&
                 json_as_str(json_get(json, QP_STR("status")), &status) &&
                 status_is_final(status, out_exit);
    json_free(json);
    return final;
}

/* One look. A server keeps the question until the job has ended; at a file we look again
 * ourselves. */
static int look(struct cli *c, const char *id, int64_t left_ms, struct reply *out_reply)
{
    struct question q = {.path = job_path(c, id, ""), .patience_ms = PATIENCE_MS};
    int status = ask_open(c);
    if (status == EXIT_OK && !ask_is_file(c)) {
        q.path = job_path(c, id, "/result");
        q.query = cli_text(c, "wait=%lldms", (long long)left_ms);
    }
    return status == EXIT_OK ? ask_well(c, &q, out_reply) : status;
}

qp_str unserved_name(const struct json *job)
{
    const struct json *unserved = json_get(job, QP_STR("unserved"));
    qp_str flow = member_text(unserved, "flow");
    return flow.n > 0 ? flow : member_text(unserved, "topic");
}

const char *unserved_text(struct cli *c, const struct json *job)
{
    const struct json *unserved = json_get(job, QP_STR("unserved"));
    qp_str name = unserved_name(job);
    bool is_flow = member_text(unserved, "flow").n > 0;
    return name.n == 0 ? NULL
                       : cli_text(c, "the %s '%.*s'", is_flow ? "flow" : "topic", STR_ARG(name));
}

/* The time is over: why nothing happens, if that can be seen. */
static int fail_late(struct cli *c, const char *id, qp_str body)
{
    struct json *json = NULL;
    const char *why = "";
    const char *next = cli_text(c, "quipu watch %s", id);
    const char *unserved = NULL;
    if (json_parse(&c->env, body, NULL, &json) == QP_OK) {
        unserved = unserved_text(c, json);
    }
    if (ask_is_file(c)) {
        why = ": a file does nothing by itself";
        next = cli_text(c, "quipu run --db %s", ask_whom(c));
    } else if (unserved != NULL) {
        why = cli_text(c, ": no worker serves %s", unserved);
        next = "quipu topics";
    }
    json_free(json);
    return cli_fail_next(c, EXIT_TIMEOUT, next, "the job '%s' has not ended in time%s", id, why);
}

/* Asks until the job is in a state that it stays in; the last answer is in *out_reply. */
static int wait_final(struct cli *c, const char *id, int64_t deadline_us, struct reply *out_reply,
                      int *out_exit)
{
    for (;;) {
        int64_t left_ms = deadline_us == 0 ? WAIT_MS : (deadline_us - cli_now_us(c)) / 1000;
        struct arena kept = c->arena; /* one look of very many: its texts go with it */
        int status;
        left_ms = left_ms < 0 ? 0 : left_ms < WAIT_MS ? left_ms : WAIT_MS;
        arena_init(&c->arena, &c->env, 0);
        status = look(c, id, left_ms, out_reply);
        arena_done(&c->arena);
        c->arena = kept;
        if (status != EXIT_OK || is_final(c, buf_slice(&out_reply->body), out_exit)) {
            return status;
        }
        if (deadline_us != 0 && cli_now_us(c) >= deadline_us) {
            status = fail_late(c, id, buf_slice(&out_reply->body));
        }
        reply_done(out_reply);
        if (status != EXIT_OK) {
            return status;
        }
        if (ask_is_file(c)) {
            cli_sleep_ms(left_ms < LOOK_MS ? left_ms : LOOK_MS);
        }
    }
}

/* What came of it: the output of a job that has completed, and why it has not. */
static void print_end(struct cli *c, const char *id, int code, qp_str text)
{
    struct json *json = NULL;
    const struct json *output;
    if (json_parse(&c->env, text, NULL, &json) != QP_OK) {
        return;
    }
    if (code == EXIT_OK) {
        output = json_get(json, QP_STR("output"));
        (void)print_value(stdout, output != NULL ? output : json_get(json, QP_STR("data")));
        (void)fputc('\n', stdout);
    } else {
        (void)fputs("quipu: the job '", stderr);
        print_safe(stderr, str_from(id));
        (void)fputs("' is ", stderr);
        (void)print_value(stderr, json_get(json, QP_STR("status")));
        (void)fputs(": ", stderr);
        (void)print_value(stderr, code == EXIT_PARKED
                                      ? json_get(json, QP_STR("parked"))
                                      : error_sentence(json_get(json, QP_STR("error"))));
        (void)fputs("; next: quipu show ", stderr);
        print_safe(stderr, str_from(id));
        (void)fputc('\n', stderr);
    }
    json_free(json);
}

int job_wait(struct cli *c, const char *id)
{
    struct reply reply = {0};
    enum output kind;
    int64_t deadline_us;
    int code = EXIT_OK;
    int status = output_kind(c, &kind);
    status = status == EXIT_OK ? job_deadline(c, &deadline_us) : status;
    status = status == EXIT_OK ? wait_final(c, id, deadline_us, &reply, &code) : status;
    if (status == EXIT_OK && !output_object(c, kind, "id", buf_slice(&reply.body))) {
        print_end(c, id, code, buf_slice(&reply.body));
    }
    reply_done(&reply);
    return status == EXIT_OK ? code : status;
}

int command_wait(struct cli *c)
{
    const char *id = NULL;
    int status = cli_expect(c, 1, 1);
    status = status == EXIT_OK ? job_resolve(c, c->arguments[0], &id) : status;
    return status == EXIT_OK ? job_wait(c, id) : status;
}

/* ---------------------------------------------------------------------------------------- start */

int job_new_id(struct cli *c, const char **out_id)
{
    struct uuid_source source;
    unsigned char uuid[UUID_SIZE];
    char text[UUID_TEXT_SIZE + 1] = "";
    uuid_source_init(&source);
    if (uuid_next(&source, &c->env, uuid) != QP_OK) {
        return cli_fail(c, EXIT_ERROR, "no id can be made: the source of chance fails");
    }
    uuid_format(uuid, text);
    *out_id = cli_text(c, "%s", text);
    return EXIT_OK;
}

/* NAME=TEXT, split. */
static int split_pair(struct cli *c, enum option option, const char *typed, qp_str *out_name,
                      qp_str *out_text)
{
    const char *equals = strchr(typed, '=');
    char text[OPTION_TEXT_SIZE];
    if (equals == NULL || equals == typed) {
        return cli_usage("%s: %s is %s, not '%s'; see quipu help %s", c->command->words,
                         option_text(option_at(option)->name, text), option_at(option)->value,
                         typed, c->command->words);
    }
    *out_name = (qp_str){typed, (size_t)(equals - typed)};
    *out_text = str_from(equals + 1);
    return EXIT_OK;
}

static int put_attributes(struct cli *c, struct json_writer *w)
{
    qp_str name, text;
    int status = EXIT_OK;
    if (c->many_count[OPT_attr] == 0) {
        return EXIT_OK;
    }
    json_key(w, QP_STR("attributes"));
    json_begin_object(w);
    for (size_t i = 0; i < c->many_count[OPT_attr] && status == EXIT_OK; i++) {
        status = split_pair(c, OPT_attr, c->many[OPT_attr][i], &name, &text);
        if (status == EXIT_OK) {
            json_key(w, name);
            json_put_str(w, text);
        }
    }
    json_end_object(w);
    return status;
}

static bool has_retry(const struct cli *c)
{
    static const enum option all[] = {OPT_attempts, OPT_backoff, OPT_start_timeout, OPT_run_timeout,
                                      OPT_heartbeat};
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        if (cli_has(c, all[i])) {
            return true;
        }
    }
    return false;
}

static int put_retry_and_signal(struct cli *c, struct ask_body *b)
{
    struct json_writer *w = &b->w;
    int64_t attempts = 0;
    qp_str topic, key;
    int status = cli_number(c, OPT_attempts, 1, 1000000000, &attempts);
    if (has_retry(c)) {
        json_key(w, QP_STR("retry"));
        json_begin_object(w);
        if (attempts > 0) {
            json_key(w, QP_STR("attempts"));
            json_put_i64(w, attempts);
        }
        ask_body_text(b, "backoff", c->values[OPT_backoff]);
        ask_body_text(b, "start_timeout", c->values[OPT_start_timeout]);
        ask_body_text(b, "timeout", c->values[OPT_run_timeout]);
        ask_body_text(b, "heartbeat", c->values[OPT_heartbeat]);
        json_end_object(w);
    }
    if (status == EXIT_OK && cli_has(c, OPT_signal)) {
        status = split_pair(c, OPT_signal, c->values[OPT_signal], &topic, &key);
        if (status == EXIT_OK) {
            json_key(w, QP_STR("signal"));
            json_begin_object(w);
            json_key(w, QP_STR("topic"));
            json_put_str(w, topic);
            json_key(w, QP_STR("key"));
            json_put_str(w, key);
            json_end_object(w);
        }
    }
    return status;
}

/* What is started: --workflow, or the first argument. */
static const char *start_name(const struct cli *c)
{
    return c->values[OPT_workflow] != NULL ? c->values[OPT_workflow] : c->arguments[0];
}

static int start_body(struct cli *c, struct ask_body *b, const char *id, qp_str input)
{
    int64_t priority = -1;
    int status = cli_number(c, OPT_priority, 0, LIMIT_PRIORITY, &priority);
    ask_body_text(b, "topic", c->values[OPT_workflow] == NULL ? c->arguments[0] : NULL);
    ask_body_text(b, "workflow", c->values[OPT_workflow]);
    ask_body_text(b, "id", id);
    ask_body_text(b, "custom_id", c->values[OPT_custom_id]);
    json_key(&b->w, QP_STR("input"));
    json_put_raw(&b->w, input);
    ask_body_text(b, "delay", c->values[OPT_delay]);
    if (cli_has(c, OPT_pending)) {
        json_key(&b->w, QP_STR("pending"));
        json_put_bool(&b->w, true);
    }
    ask_body_text(b, "timeout", c->values[OPT_expire]);
    ask_body_text(b, "limit_key", c->values[OPT_limit_key]);
    if (priority >= 0) {
        json_key(&b->w, QP_STR("priority"));
        json_put_i64(&b->w, priority);
    }
    status = status == EXIT_OK ? put_attributes(c, &b->w) : status;
    return status == EXIT_OK ? put_retry_and_signal(c, b) : status;
}

/* The id of the job that a start was answered with. */
static int started_id(struct cli *c, const struct reply *reply, const char **out_id)
{
    struct json *json = NULL;
    qp_str id = QP_STR("");
    if (json_parse(&c->env, buf_slice(&reply->body), NULL, &json) == QP_OK) {
        id = member_text(json, "id");
        *out_id = cli_text(c, "%.*s", STR_ARG(id));
    }
    json_free(json);
    return **out_id != '\0' ? EXIT_OK : cli_fail(c, EXIT_ERROR, "the answer cannot be read");
}

static int send_start(struct cli *c, const char *id, const char *key, qp_str input,
                      struct reply *out_reply)
{
    struct question q = {
        .path = "/v1/jobs", .key = key, .patience_ms = cli_has(c, OPT_wait) ? PATIENCE_MS : 0};
    struct ask_body b;
    ask_body_begin(c, &b);
    return ask_body_send(c, &b, start_body(c, &b, id, input), &q, out_reply);
}

static int check_durations(struct cli *c)
{
    static const enum option all[] = {OPT_delay,         OPT_expire,      OPT_backoff,
                                      OPT_start_timeout, OPT_run_timeout, OPT_heartbeat,
                                      OPT_timeout};
    qp_ms ms;
    int status = EXIT_OK;
    for (size_t i = 0; i < ARRAY_COUNT(all) && status == EXIT_OK; i++) {
        status = cli_duration(c, all[i], &ms);
    }
    return status;
}

/* The job is on disk, but nothing will be done for it until a worker comes: that is said, if it can be seen. */
static void say_unserved(struct cli *c, const struct reply *started)
{
    struct reply reply = {0};
    struct json *json = NULL;
    const char *id = "";
    qp_str topic = QP_NONE;
    if (ask_is_file(c) || started_id(c, started, &id) != EXIT_OK ||
        ask(c, &(struct question){.path = job_path(c, id, "")}, &reply) != EXIT_OK) {
        return;
    }
    if (reply.status == 200 && json_parse(&c->env, buf_slice(&reply.body), NULL, &json) == QP_OK) {
        topic = unserved_name(json);
    }
    if (topic.n > 0 && str_equal(topic, str_from(start_name(c)))) {
        cli_say("accepted; no worker serves '%.*s' yet", STR_ARG(topic));
    }
    json_free(json);
    reply_done(&reply);
}

int command_start(struct cli *c)
{
    struct reply reply = {0};
    const char *id = c->values[OPT_id];
    const char *key = NULL;
    qp_str input;
    enum output kind;
    size_t named = c->values[OPT_workflow] == NULL ? 1 : 0; /* arguments that are no input */
    int status = cli_expect(c, named, SIZE_MAX);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    status = status == EXIT_OK ? check_durations(c) : status;
    status = status == EXIT_OK
                 ? input_read(c, c->arguments + named, c->argument_count - named, "null", &input)
                 : status;
    status = status == EXIT_OK ? strict_check(c, start_name(c)) : status;
    status = status == EXIT_OK && id == NULL ? job_new_id(c, &key) : status;
    status = status == EXIT_OK ? send_start(c, id, key, input, &reply) : status;
    if (status == EXIT_OK && cli_has(c, OPT_wait)) {
        id = "";
        status = started_id(c, &reply, &id);
        reply_done(&reply);
        return status == EXIT_OK ? job_wait(c, id) : status;
    }
    if (status == EXIT_OK) {
        (void)output_object(c, kind == OUTPUT_TEXT || kind == OUTPUT_WIDE ? OUTPUT_NAME : kind,
                            "id", buf_slice(&reply.body));
    }
    if (status == EXIT_OK && !cli_has(c, OPT_quiet)) {
        say_unserved(c, &reply);
    }
    reply_done(&reply);
    return status;
}

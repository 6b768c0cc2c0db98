/* job_signal.c - signal: to a topic, or to one job */
#include "cli/jobs.h"
#include "cli/strict.h"

static int signal_body(struct cli *c, struct ask_body *b, const char *topic, const char *key,
                       qp_str payload)
{
    qp_ms ttl;
    int64_t code = 0;
    int status = cli_number(c, OPT_code, 200, 599, &code);
    ask_body_text(b, "topic", topic);
    ask_body_text(b, "key", key);
    ask_body_text(b, "workflow", c->values[OPT_workflow]);
    if (code > 0) {
        json_key(&b->w, QP_STR("code"));
        json_put_i64(&b->w, code);
    }
    json_key(&b->w, QP_STR("payload"));
    json_put_raw(&b->w, payload);
    ask_body_text(b, "id", c->values[OPT_id]);
    ask_body_text(b, "ttl", c->values[OPT_ttl]);
    return status == EXIT_OK ? cli_duration(c, OPT_ttl, &ttl) : status;
}

/* Whether an argument is a payload, or the beginning of one: no name looks so. */
static bool is_payload(const char *argument)
{
    return strcmp(argument, "-") == 0 || strchr("{[\"@", argument[0]) != NULL ||
           strchr(argument, '=') != NULL;
}

/* delivered, or kept; of a repeated one, what became of the first. A server of an older version does not say. */
static void say_sent(struct cli *c, qp_str answer)
{
    struct json *json = NULL;
    qp_str outcome;
    bool repeated = false;
    if (json_parse(&c->env, answer, NULL, &json) != QP_OK ||
        !json_as_str(json_get(json, QP_STR("outcome")), &outcome)) {
        outcome = QP_STR("sent");
    }
    repeated = json_as_bool(json_get(json, QP_STR("repeated")), &repeated) && repeated;
    cli_say("%.*s%s", STR_ARG(outcome), repeated ? " before" : "");
    json_free(json);
}

/* Where it is sent: to the topic, or to the job that is named before it. */
static int signal_path(struct cli *c, size_t names, const char **out_path)
{
    const char *id = c->arguments[0];
    int status = EXIT_OK;
    if (names == 1) {
        *out_path = "/v1/signals";
        return EXIT_OK;
    }
    if (!cli_has(c, OPT_workflow)) {
        status = job_resolve(c, c->arguments[0], &id);
    }
    if (status == EXIT_NOT_FOUND) {
        cli_say("without a job: quipu signal %s name=text", c->arguments[0]);
    }
    *out_path = job_path(c, id, "/signals");
    return status;
}

int command_signal(struct cli *c)
{
    bool alone = cli_has(c, OPT_key) || c->argument_count < 2 || is_payload(c->arguments[1]);
    size_t names = alone ? 1 : 2; /* the topic alone, or the job before it */
    struct question q = {0};
    struct reply reply = {0};
    struct ask_body b;
    qp_str payload;
    enum output kind;
    int status = cli_expect(c, names, SIZE_MAX);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    status = status == EXIT_OK
                 ? input_read(c, c->arguments + names, c->argument_count - names, "null", &payload)
                 : status;
    if (status == EXIT_OK && cli_has(c, OPT_workflow) && names == 1) {
        return cli_usage("--workflow: no JOB is given, whose custom id belongs to it");
    }
    status = status == EXIT_OK ? signal_path(c, names, &q.path) : status;
    status = status == EXIT_OK ? strict_check(c, c->arguments[names - 1]) : status;
    if (status != EXIT_OK) {
        return status;
    }
    ask_body_begin(c, &b);
    status = signal_body(c, &b, c->arguments[names - 1], c->values[OPT_key], payload);
    status = ask_body_send(c, &b, status, &q, &reply);
    if (status == EXIT_OK && !output_object(c, kind, "outcome", buf_slice(&reply.body))) {
        say_sent(c, buf_slice(&reply.body));
    }
    reply_done(&reply);
    return status;
}

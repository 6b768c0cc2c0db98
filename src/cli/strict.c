/* strict.c - whether a topic is known to the server (see strict.h) */
#include "cli/strict.h"

static bool has_text(const struct json *list, qp_str text)
{
    qp_str one;
    for (size_t i = 0; i < json_count(list); i++) {
        if (json_as_str(json_at(list, i), &one) && str_equal(one, text)) {
            return true;
        }
    }
    return false;
}

static bool serves(const struct json *worker, qp_str topic)
{
    return has_text(json_get(worker, QP_STR("topics")), topic) ||
           has_text(json_get(worker, QP_STR("flows")), topic);
}

/* A graph of the application's active version begins with the topic, or waits there. */
static bool answers_to(const struct json *app, qp_str topic)
{
    const struct json *graphs = json_get(app, QP_STR("graphs"));
    for (size_t i = 0; i < json_count(graphs); i++) {
        const struct json *graph = json_at(graphs, i);
        if (str_equal(member_text(graph, "topic"), topic) ||
            has_text(json_get(graph, QP_STR("hooks")), topic)) {
            return true;
        }
    }
    return false;
}

/* Whether one of the items of an answer fits. */
static int any_item(struct cli *c, const char *path, const char *topic,
                    bool (*fits)(const struct json *item, qp_str topic), bool *out_any)
{
    struct reply reply = {0};
    struct json *json = NULL;
    const struct json *items;
    int status = ask_well(c, &(struct question){.path = path}, &reply);
    if (status != EXIT_OK) {
        return status;
    }
    if (json_parse(&c->env, buf_slice(&reply.body), NULL, &json) != QP_OK) {
        status = cli_fail(c, EXIT_ERROR, "the answer cannot be read");
    }
    items = json_get(json, QP_STR("items"));
    for (size_t i = 0; i < json_count(items) && !*out_any; i++) {
        *out_any = fits(json_at(items, i), str_from(topic));
    }
    json_free(json);
    reply_done(&reply);
    return status;
}

int strict_check(struct cli *c, const char *topic)
{
    bool known = false;
    int status;
    if (!cli_has(c, OPT_strict)) {
        return EXIT_OK;
    }
    status = any_item(c, "/v1/workers", topic, serves, &known);
    if (status == EXIT_OK && !known) {
        status = any_item(c, "/v1/workflows", topic, answers_to, &known);
    }
    if (status != EXIT_OK || known) {
        return status;
    }
    return cli_fail_next(c, EXIT_CONFLICT, "quipu workers",
                         "no worker serves '%s', and no graph answers to it", topic);
}

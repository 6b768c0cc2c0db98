/* carto_ask.c - quipu carto status, result, logs, delete, rdepends: what is asked about traversals and packages */
#include <stdio.h>

#include "cli/carto.h"

int command_carto_result(struct cli *c)
{
    const char *format = NULL;
    int status = cli_expect(c, 1, 1);
    status = status == EXIT_OK ? traversal_output(c, &format) : status;
    return status == EXIT_OK ? traversal_print(c, c->arguments[0], format) : status;
}

int command_carto_status(struct cli *c)
{
    struct reply reply = {0};
    enum output kind;
    int status = cli_expect(c, 1, 1);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    if (status == EXIT_OK) {
        status = ask_well(c,
                          &(struct question){.path = cli_text(c, "/v1/traversals/%s/status",
                                                              cli_encode(c, c->arguments[0]))},
                          &reply);
    }
    if (status == EXIT_OK &&
        !output_object(c, kind == OUTPUT_TEXT || kind == OUTPUT_WIDE ? OUTPUT_JSON : kind, "id",
                       buf_slice(&reply.body))) {
        status = EXIT_ERROR;
    }
    reply_done(&reply);
    return status;
}

int command_carto_logs(struct cli *c)
{
    struct reply reply = {0};
    int status = cli_expect(c, 1, 1);
    if (status == EXIT_OK) {
        status = ask_well(c,
                          &(struct question){.path = cli_text(c, "/v1/traversals/%s/logs",
                                                              cli_encode(c, c->arguments[0]))},
                          &reply);
    }
    if (status == EXIT_OK) {
        (void)fwrite(reply.body.p, 1, reply.body.n, stdout); /* main asks whether it went well */
    }
    reply_done(&reply);
    return status;
}

int command_carto_delete(struct cli *c)
{
    struct reply reply = {0};
    int status = cli_expect(c, 1, 1);
    if (status == EXIT_OK) {
        status = ask_well(c,
                          &(struct question){.method = API_DELETE,
                                             .path = cli_text(c, "/v1/traversals/%s",
                                                              cli_encode(c, c->arguments[0]))},
                          &reply);
    }
    reply_done(&reply);
    return status;
}

static const char *rdepends_query(struct cli *c)
{
    return cli_text(c, "arch=%s&fields=%s&recursive=%s",
                    cli_encode(c, cli_has(c, OPT_arch) ? c->values[OPT_arch] : "amd64"),
                    cli_has(c, OPT_all_fields) ? "all" : "depends",
                    cli_has(c, OPT_recursive) ? "true" : "false");
}

/* A name a line; recursively "PACKAGE depends on PACKAGE". */
static int print_dependents(struct cli *c, const struct reply *reply)
{
    struct json *json = NULL;
    const struct json *items;
    if (json_parse(&c->env, buf_slice(&reply->body), NULL, &json) != QP_OK) {
        return cli_fail(c, EXIT_ERROR, "the answer cannot be read");
    }
    items = json_get(json, QP_STR("items"));
    for (size_t i = 0; i < json_count(items); i++) {
        const struct json *item = json_at(items, i);
        printf("%.*s", STR_ARG(member_text(item, "package")));
        if (cli_has(c, OPT_recursive)) {
            printf(" %.*s", STR_ARG(member_text(item, "on")));
        }
        (void)fputc('\n', stdout);
    }
    json_free(json);
    return EXIT_OK;
}

int command_carto_rdepends(struct cli *c)
{
    struct reply reply = {0};
    enum output kind;
    int status = cli_expect(c, 1, 1);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    if (status == EXIT_OK) {
        status = ask_well(c,
                          &(struct question){.path = cli_text(c, "/v1/packages/%s/dependents",
                                                              cli_encode(c, c->arguments[0])),
                                             .query = rdepends_query(c)},
                          &reply);
    }
    if (status == EXIT_OK && (kind == OUTPUT_TEXT || kind == OUTPUT_WIDE || kind == OUTPUT_NAME)) {
        status = print_dependents(c, &reply);
    } else if (status == EXIT_OK) {
        (void)output_object(c, kind, "items", buf_slice(&reply.body)); /* it is no text */
    }
    reply_done(&reply);
    return status;
}

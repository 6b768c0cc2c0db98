/* admin.c - namespaces, tokens, whoami, batches, backup: small questions about the whole store */
#include "cli/output.h"

/* Sends a body, prints the answer, or the one member of it that people want. */
static int tell(struct cli *c, struct ask_body *b, const char *path, const char *name)
{
    struct reply reply = {0};
    enum output kind = OUTPUT_TEXT;
    int status = output_kind(c, &kind);
    status = ask_body_send(c, b, status, &(struct question){.path = path}, &reply);
    if (status == EXIT_OK) {
        (void)output_object(c, kind == OUTPUT_TEXT || kind == OUTPUT_WIDE ? OUTPUT_NAME : kind,
                            name, buf_slice(&reply.body));
    }
    reply_done(&reply);
    return status;
}

static int tell_name(struct cli *c, const char *path)
{
    struct ask_body b;
    ask_body_begin(c, &b);
    ask_body_text(&b, "name", c->arguments[0]);
    return tell(c, &b, path, "name");
}

int command_namespaces_create(struct cli *c)
{
    int status = cli_expect(c, 1, 1);
    return status == EXIT_OK ? tell_name(c, "/v1/namespaces") : status;
}

int command_tokens_create(struct cli *c)
{
    static const enum option fields[] = {OPT_role, OPT_name, OPT_namespaces, OPT_topics,
                                         OPT_expires};
    struct ask_body b;
    qp_ms expires;
    int status = cli_expect(c, 0, 0);
    status = status == EXIT_OK ? cli_duration(c, OPT_expires, &expires) : status;
    if (status == EXIT_OK && !cli_has(c, OPT_role)) {
        return cli_usage("tokens create: --role is missing; see quipu help tokens create");
    }
    if (status != EXIT_OK) {
        return status;
    }
    ask_body_begin(c, &b);
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        ask_body_text(&b, option_at(fields[i])->name, c->values[fields[i]]);
    }
    return tell(c, &b, "/v1/tokens", cli_has(c, OPT_quiet) ? "id" : "token");
}

int command_tokens_revoke(struct cli *c)
{
    struct reply reply = {0};
    enum output kind;
    int status = cli_expect(c, 1, 1);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    if (status != EXIT_OK) {
        return status;
    }
    status = ask_well(
        c,
        &(struct question){.method = API_DELETE,
                           .path = cli_text(c, "/v1/tokens/%s", cli_encode(c, c->arguments[0]))},
        &reply);
    if (status == EXIT_OK && !output_object(c, kind, "accepted", buf_slice(&reply.body))) {
        cli_say("revoked");
    }
    reply_done(&reply);
    return status;
}

/* One object, for people as its members. */
static int show_object(struct cli *c, const char *path, const char *name,
                       void (*people)(struct cli *c, const struct json *json))
{
    struct reply reply = {0};
    struct json *json = NULL;
    enum output kind;
    int status = output_kind(c, &kind);
    status = status == EXIT_OK ? ask_well(c, &(struct question){.path = path}, &reply) : status;
    if (status == EXIT_OK && !output_object(c, kind, name, buf_slice(&reply.body)) &&
        json_parse(&c->env, buf_slice(&reply.body), NULL, &json) == QP_OK) {
        people(c, json);
    }
    json_free(json);
    reply_done(&reply);
    return status;
}

static void print_whoami(struct cli *c, const struct json *json)
{
    printf("%-15s%s\n", "asked", ask_whom(c));
    output_members(json);
    printf("%-15s%s\n", "namespace",
           cli_has(c, OPT_namespace) ? c->values[OPT_namespace] : "default");
}

int command_whoami(struct cli *c)
{
    int status = cli_expect(c, 0, 0);
    return status == EXIT_OK ? show_object(c, "/v1/whoami", "token", print_whoami) : status;
}

static void print_batch(struct cli *c, const struct json *json)
{
    (void)c;
    output_members(json);
}

int command_batches_show(struct cli *c)
{
    int status = cli_expect(c, 1, 1);
    return status == EXIT_OK
               ? show_object(c, cli_text(c, "/v1/batches/%s", cli_encode(c, c->arguments[0])), "id",
                             print_batch)
               : status;
}

/* --------------------------------------------------------------------------------------- backup */

/* Of a store that we open ourselves, the copy goes where the user says; a server only writes into
 * its own directory. */
static int backup_file(struct cli *c, const char *place)
{
    struct qp_options options;
    struct qp_err err = {0};
    qp *engine = NULL;
    int rc;
    qp_options_init(&options);
    options.path = cli_place_path(place);
    options.env = &c->env;
    options.accept_loss = cli_has(c, OPT_accept_loss);
    rc = qp_open_readonly(&options, &engine, &err);
    rc = rc == QP_OK ? qp_backup(engine, c->arguments[0], &err) : rc;
    (void)qp_close(engine, NULL); /* it was only read */
    if (rc == QP_OK) {
        printf("%s\n", c->arguments[0]);
        return EXIT_OK;
    }
    if (rc == QP_E_EXISTS) {
        return cli_fail_next(c, EXIT_CONFLICT, "quipu backup ANOTHER.db", "%s", err.text);
    }
    return cli_fail(c, rc == QP_E_NOT_FOUND ? EXIT_NOT_FOUND : EXIT_ERROR, "%s", err.text);
}

int command_backup(struct cli *c)
{
    const char *place;
    int status = cli_expect(c, 1, 1);
    status = status == EXIT_OK ? cli_settings(c) : status;
    if (status != EXIT_OK) {
        return status;
    }
    place = ask_file_place(c);
    return place != NULL ? backup_file(c, place) : tell_name(c, "/v1/backup");
}

/* carto_types.c - quipu carto types, register, unregister: package types, and those that workers serve */
#include "cli/lists.h"
#include "cli/output.h"

int command_carto_types(struct cli *c)
{
    static const struct table_column columns[] = {
        {"TYPE", "type", CELL_PLAIN},         {"MODE", "mode", CELL_PLAIN},
        {"BUILT IN", "built_in", CELL_PLAIN}, {"SELECT-SYNC", "select-sync", CELL_WIDE},
        {"SELECT", "select", CELL_PLAIN},     {"RESOLVE", "resolve", CELL_PLAIN}};
    int status = cli_expect(c, 0, 0);
    return status != EXIT_OK
               ? status
               : list_run(c, &(struct list){"/v1/traversals/types", "", columns,
                                            ARRAY_COUNT(columns), "type", true, NULL, NULL});
}

static const char *path_of(struct cli *c)
{
    return cli_text(c, "/v1/traversals/types/%s", cli_encode(c, c->arguments[0]));
}

int command_carto_register(struct cli *c)
{
    struct ask_body body;
    struct reply reply = {0};
    struct question q = {.method = API_PUT, .patience_ms = 30000};
    enum output kind;
    int status = cli_expect(c, 1, 1);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    if (status != EXIT_OK) {
        return status;
    }
    q.path = path_of(c);
    ask_body_begin(c, &body);
    ask_body_text(&body, "mode", cli_has(c, OPT_mode) ? c->values[OPT_mode] : "pure");
    ask_body_text(&body, "select-sync", c->values[OPT_select_sync]);
    ask_body_text(&body, "select", c->values[OPT_select]);
    ask_body_text(&body, "resolve", c->values[OPT_resolve]);
    status = ask_body_send(c, &body, EXIT_OK, &q, &reply);
    if (status == EXIT_OK && !output_object(c, kind, "type", buf_slice(&reply.body))) {
        printf("%s: registered; workers serve it by the topics that `quipu carto types` shows\n",
               c->arguments[0]);
    }
    reply_done(&reply);
    return status;
}

int command_carto_unregister(struct cli *c)
{
    struct reply reply = {0};
    int status = cli_expect(c, 1, 1);
    if (status == EXIT_OK) {
        status = ask_well(
            c, &(struct question){.method = API_DELETE, .path = path_of(c), .patience_ms = 30000},
            &reply);
    }
    reply_done(&reply);
    return status;
}

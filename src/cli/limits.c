/* limits.c - quipu limits: how many jobs of a topic and limit key are worked on at once */
#include "cli/lists.h"

int command_limits_ls(struct cli *c)
{
    static const struct table_column columns[] = {{"TOPIC", "topic", CELL_PLAIN},
                                                  {"KEY", "key", CELL_PLAIN},
                                                  {"MAX", "max", CELL_PLAIN},
                                                  {"READY", "ready", CELL_PLAIN},
                                                  {"HELD", "held", CELL_PLAIN}};
    int status = cli_expect(c, 0, 0);
    return status != EXIT_OK ? status
                             : list_run(c, &(struct list){.path = "/v1/limits",
                                                          .query = "",
                                                          .columns = columns,
                                                          .column_count = ARRAY_COUNT(columns),
                                                          .name = "topic"});
}

/* Prints the answer; for people a sentence. */
static void print_done(struct cli *c, enum output kind, const struct reply *reply, const char *done)
{
    if (!output_object(c, kind, "topic", buf_slice(&reply->body))) {
        printf("%s%s%s: %s\n", c->arguments[0], cli_has(c, OPT_key) ? ", key " : "",
               cli_has(c, OPT_key) ? c->values[OPT_key] : "", done);
    }
}

int command_limits_set(struct cli *c)
{
    struct reply reply = {0};
    struct ask_body b;
    enum output kind;
    int64_t max = -1;
    int status = cli_expect(c, 1, 1);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    status = status == EXIT_OK ? cli_number(c, OPT_max, 0, INT32_MAX, &max) : status;
    if (status == EXIT_OK && max < 0) {
        return cli_usage("limits set: --max is missing; see quipu help limits set");
    }
    if (status != EXIT_OK) {
        return status;
    }
    ask_body_begin(c, &b);
    ask_body_text(&b, "topic", c->arguments[0]);
    ask_body_text(&b, "key", c->values[OPT_key]);
    json_key(&b.w, QP_STR("max"));
    json_put_i64(&b.w, max);
    status = ask_body_send(c, &b, EXIT_OK, &(struct question){.path = "/v1/limits"}, &reply);
    if (status == EXIT_OK) {
        print_done(c, kind, &reply,
                   max == 0 ? "any number at once"
                            : cli_text(c, "at most %lld at once", (long long)max));
    }
    reply_done(&reply);
    return status;
}

int command_limits_rm(struct cli *c)
{
    struct reply reply = {0};
    struct question q = {.method = API_DELETE};
    enum output kind;
    int status = cli_expect(c, 1, 1);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    if (status != EXIT_OK) {
        return status;
    }
    q.path = cli_text(c, "/v1/limits/%s", cli_encode(c, c->arguments[0]));
    q.query = cli_has(c, OPT_key) ? cli_text(c, "key=%s", cli_encode(c, c->values[OPT_key])) : NULL;
    status = ask_well(c, &q, &reply);
    if (status == EXIT_OK) {
        print_done(c, kind, &reply, "no limit of its own");
    }
    reply_done(&reply);
    return status;
}

/* lists.c - commands that list: jobs, topics, workers, namespaces, tokens, the audit
 *
 * A list is read page by page, and printed so, until there are as many items as were wanted; a page
 * may be short although there are more. However long the list, one page is in memory.
 */
#include "cli/lists.h"

#define PAGE_MOST LIMIT_PAGE_ROWS
#define DEFAULT_LIMIT 100

struct reading {
    struct output_list out;
    int64_t left;       /* items that are still wanted */
    const char *cursor; /* where the next page begins; NULL: there is none */
};

static int read_page(struct cli *c, const struct list *list, const struct reading *r,
                     struct json **out_page)
{
    const char *query = list->query;
    struct reply reply;
    int status;
    if (!list->whole) {
        query = cli_text(c, "%s%slimit=%lld%s%s", query, *query != '\0' ? "&" : "",
                         (long long)(r->left < PAGE_MOST ? r->left : PAGE_MOST),
                         *r->cursor != '\0' ? "&cursor=" : "", cli_encode(c, r->cursor));
    }
    status = ask_well(c, &(struct question){.path = list->path, .query = query}, &reply);
    if (status == EXIT_OK && json_parse(&c->env, buf_slice(&reply.body), NULL, out_page) != QP_OK) {
        status = cli_fail(c, EXIT_ERROR, "the answer cannot be read");
    }
    reply_done(&reply);
    return status;
}

static void print_page(struct cli *c, struct reading *r, const struct json *page)
{
    const struct json *items = json_get(page, QP_STR("items"));
    const struct json *found[PAGE_MOST];
    size_t count = 0;
    qp_str cursor;
    for (size_t i = 0; i < json_count(items) && r->left > 0; i++) {
        found[count++] = json_at(items, i);
        r->left--;
        if (count == ARRAY_COUNT(found)) { /* a list without pages may be longer */
            output_items(&r->out, found, count);
            count = 0;
        }
    }
    output_items(&r->out, found, count);
    r->cursor = json_as_str(json_get(page, QP_STR("next_cursor")), &cursor)
                    ? cli_text(c, "%.*s", STR_ARG(cursor))
                    : NULL;
}

static int read_all(struct cli *c, const struct list *list, struct reading *r)
{
    int status;
    do {
        struct json *page = NULL;
        status = read_page(c, list, r, &page);
        if (status == EXIT_OK) {
            print_page(c, r, page);
        }
        json_free(page);
    } while (status == EXIT_OK && r->cursor != NULL && r->left > 0);
    return status;
}

int list_run(struct cli *c, const struct list *list)
{
    struct reading r = {.out = {.c = c,
                                .columns = list->columns,
                                .column_count = list->column_count,
                                .name = list->name,
                                .line = list->line,
                                .line_context = list->line_context},
                        .left = cli_has(c, OPT_all) ? INT64_MAX : DEFAULT_LIMIT,
                        .cursor = cli_has(c, OPT_cursor) ? c->values[OPT_cursor] : ""};
    int status = output_kind(c, &r.out.kind);
    status = status == EXIT_OK ? cli_number(c, OPT_limit, 1, 1000000, &r.left) : status;
    status = status == EXIT_OK ? read_all(c, list, &r) : status;
    if (status != EXIT_OK) {
        return status;
    }
    output_end(&r.out, r.cursor);
    if (r.cursor != NULL && (r.out.kind == OUTPUT_TEXT || r.out.kind == OUTPUT_WIDE)) {
        cli_say("there are more: --all, or --cursor '%s'", r.cursor);
    }
    return EXIT_OK;
}

/* ---------------------------------------------------------------------------------------- jobs */

static const struct table_column job_columns[] = {
    {"ID", "id", CELL_PLAIN},
    {"WORKFLOW", "workflow", CELL_PLAIN},
    {"VERSION", "version", CELL_WIDE},
    {"STATUS", "status", CELL_STATUS},
    {"STARTED", "started_at", CELL_AGE},
    {"UPDATED", "updated_at", CELL_WIDE | CELL_AGE},
    {"ENDED", "ended_at", CELL_WIDE},
    {"TIME", "ended_at", CELL_TOOK},
    {"OPEN", "open", CELL_WIDE},
    {"PRIORITY", "priority", CELL_WIDE},
    {"FORKED FROM", "forked_from", CELL_WIDE},
    {"ERROR", "error", CELL_WIDE},
};
static const struct table_column parked_columns[] = {
    {"ID", "id", CELL_PLAIN},
    {"WORKFLOW", "workflow", CELL_PLAIN},
    {"STARTED", "started_at", CELL_AGE},
    {"UPDATED", "updated_at", CELL_WIDE | CELL_AGE},
    {"WHY", "parked", CELL_PLAIN},
};

static int count_jobs(struct cli *c, const char *path, const char *query)
{
    struct reply reply;
    struct json *json = NULL;
    int status = ask_well(c,
                          &(struct question){.path = path,
                                             .query = cli_text(c, "%s%scount=exact&limit=1", query,
                                                               *query != '\0' ? "&" : "")},
                          &reply);
    if (status == EXIT_OK && json_parse(&c->env, buf_slice(&reply.body), NULL, &json) == QP_OK) {
        (void)print_value(stdout, json_get(json, QP_STR("count")));
        (void)fputc('\n', stdout);
    }
    json_free(json);
    reply_done(&reply);
    return status;
}

static int list_jobs(struct cli *c, struct list *list)
{
    const char *order = cli_has(c, OPT_order) ? c->values[OPT_order] : NULL;
    const char *where = cli_has(c, OPT_where) ? c->values[OPT_where] : NULL;
    int status = cli_expect(c, 0, 0);
    if (status != EXIT_OK) {
        return status;
    }
    if (cli_has(c, OPT_count)) {
        return count_jobs(c, list->path,
                          where != NULL ? cli_text(c, "where=%s", cli_encode(c, where)) : "");
    }
    list->query = cli_text(c, "%s%s%s%s%s", where != NULL ? "where=" : "",
                           where != NULL ? cli_encode(c, where) : "",
                           where != NULL && order != NULL ? "&" : "", order != NULL ? "order=" : "",
                           order != NULL ? cli_encode(c, order) : "");
    return list_run(c, list);
}

int command_ls(struct cli *c)
{
    return list_jobs(c, &(struct list){.path = "/v1/jobs",
                                       .columns = job_columns,
                                       .column_count = ARRAY_COUNT(job_columns),
                                       .name = "id"});
}

int command_carto_ls(struct cli *c)
{
    static const struct table_column columns[] = {
        {"ID", "id", false},
        {"STATUS", "status", false},
        {"STARTED", "started_at", false},
        {"ENDED", "ended_at", false},
        {"UPDATED", "updated_at", true},
        {"UNIVERSE", "version", false},
        {"ERROR", "error", true},
    };
    return list_jobs(c, &(struct list){.path = "/v1/traversals",
                                       .columns = columns,
                                       .column_count = ARRAY_COUNT(columns),
                                       .name = "id"});
}

int command_parked(struct cli *c)
{
    return list_jobs(c, &(struct list){.path = "/v1/parked",
                                       .columns = parked_columns,
                                       .column_count = ARRAY_COUNT(parked_columns),
                                       .name = "id"});
}

/* --------------------------------------------------------------------------------------- others */

/* Of commands without arguments. */
static int show_list(struct cli *c, const struct list *list)
{
    int status = cli_expect(c, 0, 0);
    return status == EXIT_OK ? list_run(c, list) : status;
}

int command_topics(struct cli *c)
{
    static const struct table_column columns[] = {
        {"TOPIC", "name", CELL_PLAIN},          {"READY", "ready", CELL_PLAIN},
        {"HELD", "held", CELL_PLAIN},           {"WORKERS", "workers", CELL_PLAIN},
        {"OLDEST MS", "oldest_ms", CELL_PLAIN}, {"SERVED", "served_at", CELL_WIDE | CELL_AGE},
    };
    return show_list(c, &(struct list){"/v1/topics", "", columns, ARRAY_COUNT(columns), "name",
                                       false, NULL, NULL});
}

int command_workers(struct cli *c)
{
    static const struct table_column columns[] = {
        {"WORKER", "name", CELL_PLAIN},           {"BUILD", "build", CELL_WIDE},
        {"TOPICS", "topics", CELL_PLAIN},         {"IN HAND", "in_hand", CELL_PLAIN},
        {"WAITING", "waiting", CELL_WIDE},        {"TOKEN", "caller", CELL_WIDE},
        {"SINCE", "since", CELL_WIDE | CELL_AGE}, {"SEEN", "seen_at", CELL_AGE},
    };
    return show_list(c, &(struct list){"/v1/workers", "", columns, ARRAY_COUNT(columns), "name",
                                       true, NULL, NULL});
}

int command_namespaces_ls(struct cli *c)
{
    static const struct table_column columns[] = {{"NAME", "name", CELL_PLAIN},
                                                  {"CREATED", "created_at", CELL_AGE}};
    return show_list(c, &(struct list){"/v1/namespaces", "", columns, ARRAY_COUNT(columns), "name",
                                       true, NULL, NULL});
}

int command_tokens_ls(struct cli *c)
{
    static const struct table_column columns[] = {
        {"ID", "id", CELL_PLAIN},
        {"ROLE", "role", CELL_PLAIN},
        {"NAME", "name", CELL_PLAIN},
        {"SCOPES", "scopes", CELL_WIDE},
        {"NAMESPACES", "namespaces", CELL_WIDE},
        {"TOPICS", "topics", CELL_WIDE},
        {"CREATED", "created_at", CELL_AGE},
        {"EXPIRES", "expires_at", CELL_PLAIN},
        {"REVOKED", "revoked_at", CELL_AGE},
        {"USED", "used_at", CELL_AGE},
    };
    return show_list(c, &(struct list){"/v1/tokens", "", columns, ARRAY_COUNT(columns), "id", false,
                                       NULL, NULL});
}

int command_audit(struct cli *c)
{
    static const struct table_column columns[] = {
        {"AT", "at", CELL_PLAIN},           {"ACTOR", "actor", CELL_PLAIN},
        {"ACTION", "action", CELL_PLAIN},   {"TARGET", "target", CELL_PLAIN},
        {"OUTCOME", "outcome", CELL_PLAIN}, {"DETAIL", "detail", CELL_WIDE},
    };
    return show_list(c, &(struct list){"/v1/audit", cli_has(c, OPT_global) ? "store=1" : "",
                                       columns, ARRAY_COUNT(columns), "id", false, NULL, NULL});
}

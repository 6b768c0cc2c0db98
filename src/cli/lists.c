/* lists.c - commands that list: jobs, topics, workers, namespaces, tokens, the audit
 *
 * A list is read page by page until there are as many items as were wanted; a page may be short
 * although there are more.
 */
#include <stdlib.h>

#include "cli/lists.h"

#define PAGE_MOST 1000
#define DEFAULT_LIMIT 100

/* What was read: pages stay until the end, since items are parts of them. */
struct reading {
    struct json *pages[4096];
    size_t page_count;
    struct items items;
    size_t room;
    size_t printed; /* and gone: a list that is printed item by item needs no more than a page */
};

static void drop_pages(struct reading *r)
{
    for (size_t i = 0; i < r->page_count; i++) {
        json_free(r->pages[i]);
    }
    r->page_count = 0;
    r->items.count = 0;
}

static void reading_free(struct reading *r)
{
    drop_pages(r);
    free(r->items.items);
    free(r);
}

static bool keep_items(struct cli *c, struct reading *r, struct json *page, int64_t limit)
{
    const struct json *items = json_get(page, QP_STR("items"));
    size_t count = json_count(items);
    qp_str cursor;
    r->pages[r->page_count++] = page;
    for (size_t i = 0; i < count && (int64_t)(r->printed + r->items.count) < limit; i++) {
        if (r->items.count == r->room) {
            size_t room = r->room == 0 ? 128 : 2 * r->room;
            void *more = realloc(r->items.items, room * sizeof *r->items.items);
            if (more == NULL) {
                return false;
            }
            r->items.items = more;
            r->room = room;
        }
        r->items.items[r->items.count++] = json_at(items, i);
    }
    r->items.next_cursor = json_as_str(json_get(page, QP_STR("next_cursor")), &cursor)
                               ? cli_text(c, "%.*s", STR_ARG(cursor))
                               : NULL;
    return true;
}

static int read_page(struct cli *c, const struct list *list, struct reading *r, int64_t limit,
                     const char *cursor)
{
    int64_t wanted = limit - (int64_t)(r->printed + r->items.count);
    const char *query = list->query;
    struct reply reply;
    struct json *page = NULL;
    int status;
    if (!list->whole) {
        query = cli_text(c, "%s%slimit=%lld%s%s", query, *query != '\0' ? "&" : "",
                         (long long)(wanted < PAGE_MOST ? wanted : PAGE_MOST),
                         *cursor != '\0' ? "&cursor=" : "", cli_encode(c, cursor));
    }
    status = ask_well(c, &(struct question){.path = list->path, .query = query}, &reply);
    if (status == EXIT_OK && (json_parse(&c->env, buf_slice(&reply.body), NULL, &page) != QP_OK ||
                              !keep_items(c, r, page, limit))) {
        status = cli_fail(c, EXIT_ERROR, "the answer cannot be read");
    }
    reply_done(&reply);
    return status;
}

static void print_items(const struct cli *c, const struct list *list, enum output kind,
                        struct reading *r)
{
    output_items(c, kind, list->columns, list->column_count, list->name, &r->items);
    r->printed += r->items.count;
    drop_pages(r);
}

static int read_all(struct cli *c, const struct list *list, enum output kind, struct reading *r)
{
    const char *cursor = cli_has(c, OPT_cursor) ? c->values[OPT_cursor] : "";
    int64_t limit = cli_has(c, OPT_all) ? INT64_MAX : DEFAULT_LIMIT;
    bool by_item = kind == OUTPUT_JSONL || kind == OUTPUT_NAME;
    int status = cli_number(c, OPT_limit, 1, 1000000, &limit);
    do {
        status = status == EXIT_OK ? read_page(c, list, r, limit, cursor) : status;
        cursor = r->items.next_cursor;
        if (status == EXIT_OK && by_item) {
            print_items(c, list, kind, r);
        }
    } while (status == EXIT_OK && cursor != NULL &&
             (int64_t)(r->printed + r->items.count) < limit &&
             r->page_count < ARRAY_COUNT(r->pages));
    if (status == EXIT_OK && !by_item) {
        print_items(c, list, kind, r);
    }
    return status;
}

int list_run(struct cli *c, const struct list *list)
{
    struct reading *r;
    enum output kind;
    int status = output_kind(c, &kind);
    r = status == EXIT_OK ? calloc(1, sizeof *r) : NULL;
    if (r == NULL) {
        return status == EXIT_OK ? cli_fail(c, EXIT_ERROR, "out of memory") : status;
    }
    status = read_all(c, list, kind, r);
    if (status == EXIT_OK && r->items.next_cursor != NULL &&
        (kind == OUTPUT_TEXT || kind == OUTPUT_WIDE)) {
        cli_say("there are more: --all, or --cursor %s", r->items.next_cursor);
    }
    reading_free(r);
    return status;
}

/* ---------------------------------------------------------------------------------------- jobs */

static const struct table_column job_columns[] = {
    {"ID", "id", false},
    {"WORKFLOW", "workflow", false},
    {"STATUS", "status", false},
    {"STARTED", "started_at", false},
    {"UPDATED", "updated_at", true},
    {"ENDED", "ended_at", false},
    {"OPEN", "open", true},
    {"PRIORITY", "priority", true},
    {"FORKED FROM", "forked_from", true},
    {"ERROR", "error", true},
};
static const struct table_column parked_columns[] = {
    {"ID", "id", false},
    {"WORKFLOW", "workflow", false},
    {"STARTED", "started_at", false},
    {"UPDATED", "updated_at", true},
    {"WHY", "parked", false},
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

int command_parked(struct cli *c)
{
    return list_jobs(c, &(struct list){.path = "/v1/parked",
                                       .columns = parked_columns,
                                       .column_count = ARRAY_COUNT(parked_columns),
                                       .name = "id"});
}

/* --------------------------------------------------------------------------------------- others */

/* Of commands without arguments. */
static int run_list(struct cli *c, const struct list *list)
{
    int status = cli_expect(c, 0, 0);
    return status == EXIT_OK ? list_run(c, list) : status;
}

int command_topics(struct cli *c)
{
    static const struct table_column columns[] = {
        {"TOPIC", "name", false},          {"READY", "ready", false},
        {"HELD", "held", false},           {"WORKERS", "workers", false},
        {"OLDEST MS", "oldest_ms", false}, {"SERVED", "served_at", true},
    };
    return run_list(c,
                    &(struct list){"/v1/topics", "", columns, ARRAY_COUNT(columns), "name", false});
}

int command_workers(struct cli *c)
{
    static const struct table_column columns[] = {
        {"WORKER", "name", false},     {"BUILD", "build", true},     {"TOPICS", "topics", false},
        {"IN HAND", "in_hand", false}, {"WAITING", "waiting", true}, {"TOKEN", "caller", true},
        {"SINCE", "since", true},      {"SEEN", "seen_at", false},
    };
    return run_list(c,
                    &(struct list){"/v1/workers", "", columns, ARRAY_COUNT(columns), "name", true});
}

int command_namespaces_ls(struct cli *c)
{
    static const struct table_column columns[] = {{"NAME", "name", false},
                                                  {"CREATED", "created_at", false}};
    return run_list(
        c, &(struct list){"/v1/namespaces", "", columns, ARRAY_COUNT(columns), "name", true});
}

int command_tokens_ls(struct cli *c)
{
    static const struct table_column columns[] = {
        {"ID", "id", false},
        {"ROLE", "role", false},
        {"NAME", "name", false},
        {"SCOPES", "scopes", true},
        {"NAMESPACES", "namespaces", true},
        {"TOPICS", "topics", true},
        {"CREATED", "created_at", false},
        {"EXPIRES", "expires_at", false},
        {"REVOKED", "revoked_at", false},
        {"USED", "used_at", false},
    };
    return run_list(c,
                    &(struct list){"/v1/tokens", "", columns, ARRAY_COUNT(columns), "id", false});
}

int command_audit(struct cli *c)
{
    static const struct table_column columns[] = {
        {"AT", "at", false},         {"ACTOR", "actor", false},     {"ACTION", "action", false},
        {"TARGET", "target", false}, {"OUTCOME", "outcome", false}, {"DETAIL", "detail", true},
    };
    return run_list(c, &(struct list){"/v1/audit", cli_has(c, OPT_global) ? "store=1" : "", columns,
                                      ARRAY_COUNT(columns), "id", false});
}

/* job_show.c - show, export: one job and its activities, for people and for programs; the lines of a history
 *
 * What the activities have says how they are shown: a location makes a history, a type a tree. One page is in memory.
 */
#include "cli/job_show.h"

#include <stdlib.h>

#include "cli/jobs.h"

#define PLACE_COLUMNS 14 /* of a line of history, where its event begins */

/* "charge,0,0,0": the dimensions of a child begin with those of its parent. */
static int by_dimensions(const void *a, const void *b)
{
    qp_str left = member_text(*(const struct json *const *)a, "address");
    qp_str right = member_text(*(const struct json *const *)b, "address");
    const char *left_comma = memchr(left.p, ',', left.n);
    const char *right_comma = memchr(right.p, ',', right.n);
    size_t left_name = left_comma == NULL ? left.n : (size_t)(left_comma - left.p);
    size_t right_name = right_comma == NULL ? right.n : (size_t)(right_comma - right.p);
    int order = str_compare((qp_str){left.p + left_name, left.n - left_name},
                            (qp_str){right.p + right_name, right.n - right_name});
    return order != 0 ? order : str_compare(left, right);
}

size_t job_activities(const struct json *answer, const struct json **out, size_t most)
{
    const struct json *items = json_get(answer, QP_STR("items"));
    size_t count = json_count(items) < most ? json_count(items) : most;
    for (size_t i = 0; i < count; i++) {
        out[i] = json_at(items, i);
    }
    qsort(out, count, sizeof(const struct json *), by_dimensions);
    return count;
}

static int commas_in(qp_str text)
{
    int commas = 0;
    for (size_t i = 0; i < text.n; i++) {
        commas += text.p[i] == ',';
    }
    return commas;
}

/* {2, 1} is a generation below {2}; of addresses, charge,0,0 is one below trigger,0. */
int job_depth(const struct json *activity)
{
    int commas;
    if (json_get(activity, QP_STR("location")) != NULL) {
        return commas_in(member_text(activity, "location"));
    }
    commas = commas_in(member_text(activity, "address"));
    return commas > 0 ? commas - 1 : 0;
}

int job_print_place(FILE *out, const struct json *activity)
{
    qp_str location = member_text(activity, "location");
    qp_str address = member_text(activity, "address");
    int version;
    if (location.n == 0) {
        print_safe(out, address);
        return (int)address.n;
    }
    print_safe(out, location);
    version = fprintf(out, "v%lld", (long long)member_number(activity, "version"));
    return (int)location.n + (version > 0 ? version : 0);
}

void job_print_standing(FILE *out, const struct json *activity)
{
    const struct json *digit = json_get(activity, QP_STR("digit"));
    const struct json *status = json_get(activity, QP_STR("status"));
    if (digit != NULL) {
        (void)print_value(out, digit);
        (void)fputc(' ', out);
    }
    if (status == NULL && json_get(activity, QP_STR("location")) != NULL) {
        (void)fputc('-', out); /* a branch of a flow: what stands below it says how far it is */
        return;
    }
    (void)print_value(out, status != NULL ? status : json_get(activity, QP_STR("state")));
}

/* "  reserve,0,0  101100000000001  6 completed  worker stock.reserve  entered and done ..." */
static void print_branch(const struct json *activity, int width)
{
    static const char *const more[] = {"type", "topic", "task", "note", "progress"};
    int wide = 2 * job_depth(activity);
    printf("%*s", wide, "");
    wide += job_print_place(stdout, activity);
    printf("%*s", width > wide ? width - wide + 2 : 2, "");
    (void)print_value(stdout, json_get(activity, QP_STR("ledger")));
    (void)fputs("  ", stdout);
    job_print_standing(stdout, activity);
    for (size_t i = 0; i < ARRAY_COUNT(more); i++) {
        if (json_get(activity, str_from(more[i])) != NULL) {
            (void)fputs("  ", stdout);
            (void)print_value(stdout, json_get(activity, str_from(more[i])));
        }
    }
    if (json_get(activity, QP_STR("error")) != NULL) {
        (void)fputs("  ", stdout);
        (void)print_value(stdout, error_sentence(json_get(activity, QP_STR("error"))));
    }
    (void)fputc('\n', stdout);
}

/* How wide the place of an activity is, with what is before it. */
static int width_of(const struct json *activity)
{
    char version[24];
    qp_str location = member_text(activity, "location");
    int wide = 2 * job_depth(activity);
    if (location.n == 0) {
        return wide + (int)member_text(activity, "address").n;
    }
    return wide + (int)location.n +
           snprintf(version, sizeof version, "v%lld",
                    (long long)member_number(activity, "version"));
}

/* The activities of a graph or a flow, each generation further in. */
static void print_tree(const struct json *const *activities, size_t count)
{
    int width = 0;
    for (size_t i = 0; i < count; i++) {
        int wide = width_of(activities[i]);
        width = wide > width ? wide : width;
    }
    for (size_t i = 0; i < count; i++) {
        print_branch(activities[i], width);
    }
}

/* One page of a job's activities. *cursor is where it begins, "" for the first, and then where the next one begins;
 * NULL: there is none. */
static int print_activities_page(struct cli *c, const char *id, struct output_list *list,
                                 const char **cursor)
{
    const struct json *found[LIMIT_PAGE_ROWS] = {NULL};
    const char *query = cli_text(c, "limit=%d%s%s", LIMIT_PAGE_ROWS,
                                 **cursor != '\0' ? "&cursor=" : "", cli_encode(c, *cursor));
    size_t count;
    struct reply reply;
    struct json *json = NULL;
    qp_str next;
    int status = ask_well(
        c, &(struct question){.path = job_path(c, id, "/activities"), .query = query}, &reply);
    *cursor = NULL;
    if (status == EXIT_OK && json_parse(&c->env, buf_slice(&reply.body), NULL, &json) == QP_OK) {
        count = job_activities(json, found, ARRAY_COUNT(found));
        if (count > 0 && json_get(found[0], QP_STR("type")) != NULL) {
            print_tree(found, count);
        } else {
            output_items(list, found, count);
        }
        if (json_as_str(json_get(json, QP_STR("next_cursor")), &next)) {
            *cursor = cli_text(c, "%.*s", STR_ARG(next));
        }
    }
    json_free(json);
    reply_done(&reply);
    return status;
}

/* However many activities the job has, one page of them is in memory. */
static int print_activities(struct cli *c, const char *id)
{
    static const struct table_column columns[] = {
        {"ACTIVITY", "address", false},  {"TOPIC", "topic", false}, {"LEDGER", "ledger", false},
        {"STATE", "state", false},       {"TASK", "task", false},   {"ERRORS", "failures", false},
        {"PROGRESS", "progress", false},
    };
    struct output_list list = {.c = c, .columns = columns, .column_count = ARRAY_COUNT(columns)};
    const char *cursor = "";
    int status = EXIT_OK;
    (void)fputc('\n', stdout);
    while (status == EXIT_OK && cursor != NULL) {
        status = print_activities_page(c, id, &list, &cursor);
    }
    return status;
}

static int job_print(struct cli *c, const char *id, qp_str text)
{
    struct json *json = NULL;
    const char *unserved;
    int status = EXIT_OK;
    if (json_parse(&c->env, text, NULL, &json) == QP_OK) {
        output_members(json);
        status = print_activities(c, id);
        unserved = unserved_text(c, json);
        if (unserved != NULL && !ask_is_file(c)) {
            cli_say("no worker serves %s; next: quipu topics", unserved);
        }
    }
    json_free(json);
    return status;
}

/* Asks for a job, or for a part of it, as it was named. */
static int ask_job(struct cli *c, const char *part, enum output *out_kind, const char **out_id,
                   struct reply *out_reply)
{
    int status = cli_expect(c, 1, 1);
    status = status == EXIT_OK ? output_kind(c, out_kind) : status;
    status = status == EXIT_OK ? job_resolve(c, c->arguments[0], out_id) : status;
    return status == EXIT_OK
               ? ask_well(c, &(struct question){.path = job_path(c, *out_id, part)}, out_reply)
               : status;
}

int command_show(struct cli *c)
{
    struct reply reply = {0};
    const char *id = NULL;
    enum output kind = OUTPUT_TEXT;
    bool decisions = cli_has(c, OPT_decisions);
    int status = ask_job(c, decisions ? "/decisions" : "", &kind, &id, &reply);
    if (status == EXIT_OK && decisions) {
        kind = kind == OUTPUT_TEXT ? OUTPUT_JSON : kind;
    }
    if (status == EXIT_OK && !output_object(c, kind, "id", buf_slice(&reply.body))) {
        status = job_print(c, id, buf_slice(&reply.body));
    }
    reply_done(&reply);
    return status;
}

int command_export(struct cli *c)
{
    struct reply reply = {0};
    const char *id = NULL;
    enum output kind = OUTPUT_JSON;
    int status = ask_job(c, "/export", &kind, &id, &reply);
    if (status == EXIT_OK) {
        (void)output_object(c, kind == OUTPUT_YAML ? kind : OUTPUT_JSON, "id",
                            buf_slice(&reply.body));
    }
    reply_done(&reply);
    return status;
}

/* -------------------------------------------------------------------------------------- history */

static void put(const struct json *activity, const char *key, const char *before)
{
    const struct json *value = json_get(activity, str_from(key));
    if (value != NULL) {
        (void)fputs(before, stdout);
        (void)print_value(stdout, value);
    }
}

void job_print_located(const struct json *activity, bool wide)
{
    int column = 2 * job_depth(activity);
    int64_t attempts = member_number(activity, "attempts");
    if (json_get(activity, QP_STR("location")) == NULL) {
        return; /* the trigger, and the flow itself */
    }
    printf("%*s", column, "");
    column += job_print_place(stdout, activity);
    printf("%*s", column < PLACE_COLUMNS ? PLACE_COLUMNS - column : 2, "");
    put(activity, "type", "");
    put(activity, "topic", " ");
    put(activity, "status", "  ");
    if (attempts > 0) {
        printf("  %lld attempt%s", (long long)attempts, attempts == 1 ? "" : "s");
    }
    put(activity, "entered_at", "  ");
    put(activity, "answered_at", "  ");
    put(activity, "note", "  ");
    if (wide) {
        put(activity, "ledger", "  ");
        put(activity, "input", "  ");
        put(activity, "output", "  ");
    }
    (void)fputc('\n', stdout);
}

int job_is_located(struct cli *c, const char *id, bool *out_is)
{
    struct reply reply = {0};
    struct json *json = NULL;
    int status = ask_well(
        c, &(struct question){.path = job_path(c, id, "/activities"), .query = "limit=1"}, &reply);
    if (status == EXIT_OK && json_parse(&c->env, buf_slice(&reply.body), NULL, &json) == QP_OK) {
        const struct json *first = json_at(json_get(json, QP_STR("items")), 0);
        *out_is = json_get(first, QP_STR("location")) != NULL;
    }
    json_free(json);
    reply_done(&reply);
    return status;
}

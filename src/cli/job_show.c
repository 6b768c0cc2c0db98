/* job_show.c - show, export: one job and its activities, for people and for programs; the order of activities
 *
 * For people the work (people.h), with -o wide the ledgers: what the activities have says how those are shown: a
 * location makes a history, a type a tree. One page is in memory.
 */
#include "cli/job_show.h"

#include <stdlib.h>

#include "cli/jobs.h"
#include "cli/people.h"

#define PLACE_COLUMNS 14 /* of a line of history, where its event begins */

/* The next number of a text at *at, which moves on; -1: there is none. */
static int64_t next_number(qp_str text, size_t *at)
{
    int64_t number = 0;
    while (*at < text.n && (text.p[*at] < '0' || text.p[*at] > '9')) {
        (*at)++;
    }
    if (*at == text.n) {
        return -1;
    }
    for (; *at < text.n && text.p[*at] >= '0' && text.p[*at] <= '9'; (*at)++) {
        number = number < INT32_MAX ? number * 10 + (text.p[*at] - '0') : number;
    }
    return number;
}

/* Numbers as numbers: {2} before {10}, and {2} before {2, 1}. */
static int by_numbers(qp_str left, qp_str right)
{
    size_t i = 0;
    size_t j = 0;
    int64_t x, y;
    do {
        x = next_number(left, &i);
        y = next_number(right, &j);
    } while (x == y && x >= 0);
    return x < y ? -1 : x > y;
}

/* A history by its locations; all else in the order in which it was entered, and what was entered in one commit by the
 * numbers of its addresses: look,0,2 before look,0,10. */
static int by_order(const void *a, const void *b)
{
    const struct json *left = *(const struct json *const *)a;
    const struct json *right = *(const struct json *const *)b;
    int order = by_numbers(member_text(left, "location"), member_text(right, "location"));
    if (order == 0) {
        int64_t x = member_number(left, "seq");
        int64_t y = member_number(right, "seq");
        order = x < y ? -1 : x > y;
    }
    if (order == 0) {
        order = by_numbers(member_text(left, "address"), member_text(right, "address"));
    }
    return order != 0 ? order
                      : str_compare(member_text(left, "address"), member_text(right, "address"));
}

size_t job_activities(const struct json *answer, const struct json **out, size_t most)
{
    const struct json *items = json_get(answer, QP_STR("items"));
    size_t count = json_count(items) < most ? json_count(items) : most;
    for (size_t i = 0; i < count; i++) {
        out[i] = json_at(items, i);
    }
    job_sort(out, count);
    return count;
}

void job_sort(const struct json **activities, size_t count)
{
    qsort(activities, count, sizeof(const struct json *), by_order);
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

/* How an activity stands: of a graph's digit and word, of a flow's word, else the state of its ledger. */
static void print_standing(FILE *out, const struct json *activity)
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
    int wide = 2 * people_depth(activity);
    printf("%*s", wide, "");
    wide += job_print_place(stdout, activity);
    printf("%*s", width > wide ? width - wide + 2 : 2, "");
    (void)print_value(stdout, json_get(activity, QP_STR("ledger")));
    (void)fputs("  ", stdout);
    print_standing(stdout, activity);
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
    int wide = 2 * people_depth(activity);
    if (location.n == 0) {
        return wide + (int)member_text(activity, "address").n;
    }
    return wide + (int)location.n +
           snprintf(version, sizeof version, "v%lld",
                    (long long)member_number(activity, "version"));
}

/* The activities of a graph or a flow; of a flow each generation further in. */
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

/* What is done with each page of a job's activities, in order. */
struct pages {
    void (*page)(struct pages *p, const struct json *const *found, size_t count);
    struct output_list list; /* -o wide: of a job without types */
    struct people people;
    bool begun;
};

/* One page of a job's activities. *cursor is where it begins, "" for the first, and then where the next one begins;
 * NULL: there is none. */
static int read_page(struct cli *c, const char *id, struct pages *p, const char **cursor)
{
    const struct json *found[LIMIT_PAGE_ROWS] = {NULL};
    const char *query = cli_text(c, "limit=%d%s%s", LIMIT_PAGE_ROWS,
                                 **cursor != '\0' ? "&cursor=" : "", cli_encode(c, *cursor));
    struct reply reply;
    struct json *json = NULL;
    qp_str next;
    int status = ask_well(
        c, &(struct question){.path = job_path(c, id, "/activities"), .query = query}, &reply);
    *cursor = NULL;
    if (status == EXIT_OK && json_parse(&c->env, buf_slice(&reply.body), NULL, &json) == QP_OK) {
        p->page(p, found, job_activities(json, found, ARRAY_COUNT(found)));
        if (json_as_str(json_get(json, QP_STR("next_cursor")), &next)) {
            *cursor = cli_text(c, "%.*s", STR_ARG(next));
        }
    }
    json_free(json);
    reply_done(&reply);
    return status;
}

/* However many activities the job has, one page of them is in memory. */
static int read_pages(struct cli *c, const char *id, struct pages *p)
{
    const char *cursor = "";
    int status = EXIT_OK;
    while (status == EXIT_OK && cursor != NULL) {
        status = read_page(c, id, p, &cursor);
    }
    return status;
}

static void page_wide(struct pages *p, const struct json *const *found, size_t count)
{
    if (count > 0 && json_get(found[0], QP_STR("type")) != NULL) {
        print_tree(found, count);
    } else {
        output_items(&p->list, found, count);
    }
}

static void page_people(struct pages *p, const struct json *const *found, size_t count)
{
    if (!p->begun) {
        p->people.label_width = people_label_width(found, count);
        (void)fputc('\n', stdout);
        people_titles(&p->people);
        p->begun = true;
    }
    for (size_t i = 0; i < count; i++) {
        if (people_shows(found[i])) {
            people_activity(&p->people, found[i]);
        }
    }
}

static int print_wide(struct cli *c, const char *id, const struct json *job)
{
    static const struct table_column columns[] = {
        {"ACTIVITY", "address", CELL_PLAIN},  {"TOPIC", "topic", CELL_PLAIN},
        {"LEDGER", "ledger", CELL_PLAIN},     {"STATE", "state", CELL_PLAIN},
        {"TASK", "task", CELL_PLAIN},         {"ERRORS", "failures", CELL_PLAIN},
        {"PROGRESS", "progress", CELL_PLAIN},
    };
    struct pages p = {.page = page_wide,
                      .list = {.c = c, .columns = columns, .column_count = ARRAY_COUNT(columns)}};
    output_members(job);
    (void)fputc('\n', stdout);
    return read_pages(c, id, &p);
}

static int print_people(struct cli *c, const char *id, const struct json *job)
{
    struct pages p = {.page = page_people};
    people_init(&p.people, c);
    p.people.unserved = unserved_name(job);
    people_job(&p.people, job);
    QP_TRY(read_pages(c, id, &p));
    people_skipped(&p.people, job);
    return EXIT_OK;
}

static void page_json(struct pages *p, const struct json *const *found, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)fputs(p->begun ? "," : "", stdout);
        output_tree(p->list.c, found[i]);
        p->begun = true;
    }
}

/* The job as the API tells it, and its activities as a further member. */
static int print_all(struct cli *c, const char *id, qp_str text)
{
    struct pages p = {.page = page_json, .list = {.c = c}};
    int status;
    QP_ASSERT(text.n > 2 && text.p[text.n - 1] == '}');
    print_json(stdout, (qp_str){text.p, text.n - 1});
    (void)fputs(",\"activities\":[", stdout);
    status = read_pages(c, id, &p);
    (void)fputs("]}\n", stdout);
    return status;
}

static void page_yaml(struct pages *p, const struct json *const *found, size_t count)
{
    (void)fputs(p->begun ? "" : "activities:\n", stdout);
    for (size_t i = 0; i < count; i++) {
        print_yaml_item(stdout, found[i]);
    }
    p->begun = true;
}

static int job_print(struct cli *c, const char *id, enum output kind, qp_str text)
{
    struct json *json = NULL;
    const char *unserved;
    int status = EXIT_OK;
    if (json_parse(&c->env, text, NULL, &json) != QP_OK) {
        return cli_fail(c, EXIT_ERROR, "the answer cannot be read");
    }
    if (kind == OUTPUT_YAML) {
        struct pages p = {.page = page_yaml};
        print_yaml(stdout, json);
        status = read_pages(c, id, &p);
    } else {
        status = kind == OUTPUT_WIDE ? print_wide(c, id, json) : print_people(c, id, json);
        unserved = unserved_text(c, json);
        if (status == EXIT_OK && unserved != NULL && !ask_is_file(c)) {
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
    if (status == EXIT_OK && (decisions || kind == OUTPUT_NAME)) {
        kind = kind == OUTPUT_TEXT || kind == OUTPUT_WIDE ? OUTPUT_JSON : kind;
        (void)output_object(c, kind, "id", buf_slice(&reply.body));
    } else if (status == EXIT_OK) {
        status = kind == OUTPUT_JSON || kind == OUTPUT_JSONL
                     ? print_all(c, id, buf_slice(&reply.body))
                     : job_print(c, id, kind, buf_slice(&reply.body));
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

void job_print_located(const struct json *activity)
{
    int column = 2 * people_depth(activity);
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
    put(activity, "ledger", "  ");
    put(activity, "input", "  ");
    put(activity, "output", "  ");
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

/* workflows.c - deploy, workflows, stats: applications of graphs in a store
 *
 * All of a file is checked here first, so that what is wrong is told with its place; the store checks it again. What is
 * deployed is the text as it is, with the parts that it refers to.
 */
#include "cli/workflows.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli/lists.h"

/* ---------------------------------------------------------------------------------------- files */

static int is_yaml(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return entry->d_name[0] != '.' && dot != NULL &&
           (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

int deploy_files(struct cli *c, const char *directory, const char *const **out_paths,
                 size_t *out_count)
{
    struct dirent **entries = NULL;
    int count = scandir(directory, &entries, is_yaml, alphasort);
    const char **paths;
    if (count < 0) {
        return cli_fail(c, EXIT_USAGE, "'%s': %s", directory, strerror(errno));
    }
    paths = arena_alloc(&c->arena, ((size_t)count + 1) * sizeof *paths);
    for (int i = 0; i < count; i++) {
        if (paths != NULL) {
            paths[i] = cli_text(c, "%s/%s", directory, entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    *out_paths = paths;
    *out_count = (size_t)count;
    return paths != NULL ? EXIT_OK : cli_fail(c, EXIT_ERROR, "out of memory");
}

bool deploy_is_app(struct cli *c, qp_str text)
{
    struct report report;
    struct node *root = NULL;
    report_init(&report, &c->arena);
    return tree_read(&c->arena, text, &report, &root) != QP_OK || node_get(root, "app") != NULL;
}

/* --------------------------------------------------------------------------------------- deploy */

/* As it is: a string of JSON may not be as long as a text. */
int deploy_text(struct cli *c, qp_str text, bool activate, struct reply *out_reply)
{
    return ask(c,
               &(struct question){.method = API_POST,
                                  .path = "/v1/workflows",
                                  .query = activate ? "activate=true" : NULL,
                                  .body = text,
                                  .text = true},
               out_reply);
}

/* "orders 2: deployed, active" */
static void print_deployed(struct cli *c, enum output kind, const struct reply *reply)
{
    struct json *json = NULL;
    bool active = false;
    if (output_object(c, kind, "version", buf_slice(&reply->body)) ||
        json_parse(&c->env, buf_slice(&reply->body), NULL, &json) != QP_OK) {
        return;
    }
    (void)print_value(stdout, json_get(json, QP_STR("name")));
    (void)fputc(' ', stdout);
    (void)print_value(stdout, json_get(json, QP_STR("version")));
    printf(": %s", reply->status == 201 ? "deployed" : "was there");
    if (json_as_bool(json_get(json, QP_STR("active")), &active) && active) {
        printf(", active");
    }
    (void)fputc('\n', stdout);
    json_free(json);
}

static int deploy_one(struct cli *c, qp_str text, enum output kind)
{
    struct reply reply = {0};
    int status = deploy_text(c, text, cli_has(c, OPT_activate), &reply);
    if (status == EXIT_OK && (reply.status < 200 || reply.status > 299)) {
        status = ask_refused(c, &reply);
    } else if (status == EXIT_OK) {
        print_deployed(c, kind, &reply);
    }
    reply_done(&reply);
    return status;
}

/* What is to be deployed: texts that were checked. */
struct deployment {
    qp_str *texts;
    size_t count;
};

/* Of a directory what is no application is a part of one. */
static int check_file(struct cli *c, const char *path, bool only_apps, struct deployment *d)
{
    struct app *app = NULL;
    struct graph_text text;
    int status = graph_file_read(c, path, &text);
    if (status != EXIT_OK || (only_apps && !deploy_is_app(c, text.text))) {
        return status;
    }
    status = graph_file_compile(c, &text, &app);
    app_free(app);
    if (status == EXIT_OK) {
        d->texts[d->count++] = text.text;
    }
    return status;
}

/* Every file is looked at, so that all that is wrong is told. */
static int check_files(struct cli *c, const char *place, struct deployment *d)
{
    const char *const *paths = &place;
    size_t count = 1;
    struct stat info;
    bool directory = stat(place, &info) == 0 && S_ISDIR(info.st_mode);
    int status = directory ? deploy_files(c, place, &paths, &count) : EXIT_OK;
    int worst = status;
    d->texts = arena_alloc(&c->arena, (count + 1) * sizeof *d->texts);
    if (d->texts == NULL) {
        return cli_fail(c, EXIT_ERROR, "out of memory");
    }
    for (size_t i = 0; i < count && status != EXIT_USAGE; i++) {
        status = check_file(c, paths[i], directory, d);
        worst = status != EXIT_OK ? status : worst;
    }
    if (worst == EXIT_OK && d->count == 0) {
        return cli_fail_next(c, EXIT_NOT_FOUND, "quipu new hello",
                             "'%s': there is no application in it", place);
    }
    return worst;
}

int command_deploy(struct cli *c)
{
    struct deployment d = {NULL, 0};
    enum output kind;
    int status = cli_expect(c, 1, 1);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    status = status == EXIT_OK ? check_files(c, c->arguments[0], &d) : status;
    for (size_t i = 0; i < d.count && status == EXIT_OK; i++) {
        status = deploy_one(c, d.texts[i], kind);
    }
    return status;
}

/* ------------------------------------------------------------------------------------ workflows */

static const char *workflow_path(struct cli *c, const char *rest)
{
    return cli_text(c, "/v1/workflows/%s%s", cli_encode(c, c->arguments[0]), rest);
}

static const char *version_path(struct cli *c, const char *rest)
{
    return workflow_path(c, cli_text(c, "/versions/%s%s", cli_encode(c, c->arguments[1]), rest));
}

/* A member of all items of a list, as one text: "1, 2". */
static void put_joined(struct json_writer *w, const struct json *app, const char *list,
                       const char *member)
{
    struct buf text;
    const struct json *items = json_get(app, str_from(list));
    buf_init(&text, w->out->env, 0);
    for (size_t i = 0; i < json_count(items); i++) {
        buf_printf(&text, "%s%.*s", i > 0 ? ", " : "",
                   STR_ARG(member_text(json_at(items, i), member)));
    }
    json_key(w, str_from(list));
    json_put_str(w, text.n > 0 ? buf_slice(&text) : QP_STR(""));
    buf_done(&text);
}

/* The topics at which hooks of any graph wait, likewise. */
static void put_hooks(struct json_writer *w, const struct json *app)
{
    struct buf text;
    const struct json *graphs = json_get(app, QP_STR("graphs"));
    buf_init(&text, w->out->env, 0);
    for (size_t i = 0; i < json_count(graphs); i++) {
        const struct json *hooks = json_get(json_at(graphs, i), QP_STR("hooks"));
        for (size_t k = 0; k < json_count(hooks); k++) {
            qp_str topic;
            if (json_as_str(json_at(hooks, k), &topic)) {
                buf_printf(&text, "%s%.*s", text.n > 0 ? ", " : "", STR_ARG(topic));
            }
        }
    }
    json_key(w, QP_STR("hooks"));
    json_put_str(w, text.n > 0 ? buf_slice(&text) : QP_STR(""));
    buf_done(&text);
}

/* For people: a line for each application, with the topics of its active version. */
static void shorten(struct json_writer *w, const struct json *answer)
{
    const struct json *items = json_get(answer, QP_STR("items"));
    json_begin_array(w);
    for (size_t i = 0; i < json_count(items); i++) {
        const struct json *app = json_at(items, i);
        json_begin_object(w);
        json_key(w, QP_STR("name"));
        json_put_str(w, member_text(app, "name"));
        json_key(w, QP_STR("active"));
        json_put_str(w, member_text(app, "active"));
        put_joined(w, app, "versions", "version");
        put_joined(w, app, "graphs", "topic");
        put_hooks(w, app);
        json_end_object(w);
    }
    json_end_array(w);
}

static const struct table_column app_columns[] = {{"NAME", "name", CELL_PLAIN},
                                                  {"ACTIVE", "active", CELL_PLAIN},
                                                  {"VERSIONS", "versions", CELL_PLAIN},
                                                  {"TOPICS", "graphs", CELL_PLAIN},
                                                  {"SIGNALS", "hooks", CELL_PLAIN}};

static int print_apps(struct cli *c, enum output kind, const struct json *answer)
{
    struct output_list list = {.c = c,
                               .kind = kind,
                               .columns = app_columns,
                               .column_count = ARRAY_COUNT(app_columns),
                               .name = "name"};
    struct buf text;
    struct json_writer w;
    struct json *json = NULL;
    int rc;
    buf_init(&text, &c->env, 0);
    json_writer_init(&w, &text);
    shorten(&w, answer);
    rc = json_writer_done(&w) == QP_OK ? json_parse(&c->env, buf_slice(&text), NULL, &json)
                                       : QP_E_NOMEM;
    for (size_t i = 0; rc == QP_OK && i < json_count(json); i++) {
        const struct json *item = json_at(json, i);
        output_items(&list, &item, 1);
    }
    output_end(&list, NULL); /* titles, also when there are none */
    json_free(json);
    buf_done(&text);
    return rc == QP_OK ? EXIT_OK : cli_fail(c, EXIT_ERROR, "out of memory");
}

static int list_apps(struct cli *c, enum output kind)
{
    struct reply reply = {0};
    struct json *json = NULL;
    int status = ask_well(c, &(struct question){.path = "/v1/workflows"}, &reply);
    if (status == EXIT_OK) {
        status = json_parse(&c->env, buf_slice(&reply.body), NULL, &json) == QP_OK
                     ? print_apps(c, kind, json)
                     : cli_fail(c, EXIT_ERROR, "the answer cannot be read");
    }
    json_free(json);
    reply_done(&reply);
    return status;
}

int command_workflows_ls(struct cli *c)
{
    enum output kind;
    int status = cli_expect(c, 0, 0);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    if (status != EXIT_OK) {
        return status;
    }
    return kind == OUTPUT_TEXT || kind == OUTPUT_WIDE
               ? list_apps(c, kind)
               : list_run(c, &(struct list){"/v1/workflows", "", app_columns,
                                            ARRAY_COUNT(app_columns), "name", true, NULL, NULL});
}

static int list_versions(struct cli *c)
{
    static const struct table_column columns[] = {{"VERSION", "version", CELL_PLAIN},
                                                  {"ACTIVE", "active", CELL_PLAIN},
                                                  {"DEPLOYED", "created_at", CELL_PLAIN},
                                                  {"ACTIVATED", "activated_at", CELL_PLAIN}};
    return list_run(c, &(struct list){workflow_path(c, "/versions"), "", columns,
                                      ARRAY_COUNT(columns), "version", true, NULL, NULL});
}

/* For people the text as it was deployed, so that it can be put into a file. */
static int print_version(struct cli *c, enum output kind)
{
    struct reply reply = {0};
    bool people = kind == OUTPUT_TEXT || kind == OUTPUT_WIDE;
    int status =
        ask_well(c, &(struct question){.path = version_path(c, ""), .text = people}, &reply);
    if (status == EXIT_OK && people) {
        qp_str text = buf_slice(&reply.body);
        (void)fwrite(text.p, 1, text.n,
                     stdout); /* it was checked: nothing in it controls a terminal */
        (void)fputs(text.n > 0 && text.p[text.n - 1] == '\n' ? "" : "\n", stdout);
    } else if (status == EXIT_OK) {
        (void)output_object(c, kind, "version", buf_slice(&reply.body));
    }
    reply_done(&reply);
    return status;
}

int command_workflows_show(struct cli *c)
{
    enum output kind;
    int status = cli_expect(c, 1, 2);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    if (status != EXIT_OK) {
        return status;
    }
    return c->argument_count == 1 ? list_versions(c) : print_version(c, kind);
}

/* Asks, and prints the answer; for people `done`. */
static int act(struct cli *c, size_t arguments, struct question *q, const char *done)
{
    struct reply reply = {0};
    enum output kind;
    int status = cli_expect(c, arguments, arguments);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    if (status == EXIT_OK) {
        q->path = version_path(c, q->path);
        status = ask_well(c, q, &reply);
    }
    if (status == EXIT_OK && !output_object(c, kind, "version", buf_slice(&reply.body))) {
        printf("%s %s: %s\n", c->arguments[0], c->arguments[1], done);
    }
    reply_done(&reply);
    return status;
}

int command_workflows_activate(struct cli *c)
{
    return act(c, 2,
               &(struct question){.method = API_POST, .path = "/activate", .body = QP_STR("{}")},
               "active");
}

int command_workflows_rm(struct cli *c)
{
    return act(c, 2,
               &(struct question){.method = API_DELETE,
                                  .path = "",
                                  .query = cli_has(c, OPT_force) ? "force=true" : NULL},
               "removed");
}

/* ----------------------------------------------------------------------------------------- diff */

static const struct {
    const char *key;
    char mark;
} changes[] = {{"removed", '-'}, {"added", '+'}, {"changed", '~'}};

/* "  + pack" and "  ~ pack -> ship" */
static void print_changes(const struct json *parts, bool ways)
{
    for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
        const struct json *list = json_get(parts, str_from(changes[i].key));
        for (size_t k = 0; k < json_count(list); k++) {
            const struct json *item = json_at(list, k);
            printf("  %c ", changes[i].mark);
            (void)print_value(stdout, ways ? json_get(item, QP_STR("from")) : item);
            if (ways) {
                (void)fputs(" -> ", stdout);
                (void)print_value(stdout, json_get(item, QP_STR("to")));
            }
            (void)fputc('\n', stdout);
        }
    }
}

static void print_diff(struct cli *c, const struct json *diff)
{
    const struct json *graphs = json_get(diff, QP_STR("graphs"));
    for (size_t i = 0; i < json_count(graphs); i++) {
        const struct json *g = json_at(graphs, i);
        const struct json *keys = json_get(g, QP_STR("keys"));
        (void)print_value(stdout, json_get(g, QP_STR("topic")));
        (void)fputs(": ", stdout);
        (void)print_value(stdout, json_get(g, QP_STR("change")));
        (void)fputc('\n', stdout);
        for (size_t k = 0; k < json_count(keys); k++) {
            (void)fputs("  ~ ", stdout);
            (void)print_value(stdout, json_at(keys, k));
            (void)fputc('\n', stdout);
        }
        print_changes(json_get(g, QP_STR("activities")), false);
        print_changes(json_get(g, QP_STR("transitions")), true);
    }
    (void)c;
    if (json_count(graphs) == 0) {
        cli_say("nothing differs");
    }
}

/* Asks for one object, and prints it; for people by `print`. */
static int show(struct cli *c, const struct question *q,
                void (*print)(struct cli *c, const struct json *json))
{
    struct reply reply = {0};
    struct json *json = NULL;
    enum output kind;
    int status = output_kind(c, &kind);
    status = status == EXIT_OK ? ask_well(c, q, &reply) : status;
    if (status == EXIT_OK && !output_object(c, kind, "count", buf_slice(&reply.body))) {
        if (json_parse(&c->env, buf_slice(&reply.body), NULL, &json) == QP_OK) {
            print(c, json);
        } else {
            status = cli_fail(c, EXIT_ERROR, "the answer cannot be read");
        }
    }
    json_free(json);
    reply_done(&reply);
    return status;
}

int command_workflows_diff(struct cli *c)
{
    int status = cli_expect(c, 3, 3);
    if (status != EXIT_OK) {
        return status;
    }
    return show(
        c,
        &(struct question){.path = workflow_path(c, "/diff"),
                           .query = cli_text(c, "from=%s&to=%s", cli_encode(c, c->arguments[1]),
                                             cli_encode(c, c->arguments[2]))},
        print_diff);
}

/* ---------------------------------------------------------------------------------------- stats */

static void print_table(struct cli *c, const struct json *items, const struct table_column *columns,
                        size_t count)
{
    struct output_list list = {.c = c, .columns = columns, .column_count = count};
    const struct json *found[LIMIT_SEGMENTS];
    size_t n = json_count(items) < LIMIT_SEGMENTS ? json_count(items) : LIMIT_SEGMENTS;
    for (size_t i = 0; i < n; i++) {
        found[i] = json_at(items, i);
    }
    if (n > 0) {
        (void)fputc('\n', stdout);
        output_items(&list, found, n);
    }
}

static void print_stats(struct cli *c, const struct json *stats)
{
    static const struct table_column segments[] = {{"FROM", "time", CELL_PLAIN},
                                                   {"JOBS", "count", CELL_PLAIN},
                                                   {"MEASURES", "measures", CELL_PLAIN}};
    static const struct table_column facets[] = {{"FACET", "facet", CELL_PLAIN},
                                                 {"JOBS", "count", CELL_PLAIN}};
    if (json_is(json_get(stats, QP_STR("key")), JSON_KIND_NULL)) {
        cli_say(
            "the data have no key, so no job is counted by one: give what the key of the trigger's "
            "stats is made of, as name=text");
    } else if (json_get(stats, QP_STR("key")) != NULL) {
        (void)fputs("key   ", stdout);
        (void)print_value(stdout, json_get(stats, QP_STR("key")));
        (void)fputc('\n', stdout);
    }
    (void)fputs("jobs  ", stdout);
    (void)print_value(stdout, json_get(stats, QP_STR("count")));
    (void)fputc('\n', stdout);
    print_table(c, json_get(stats, QP_STR("segments")), segments, ARRAY_COUNT(segments));
    print_table(c, json_get(stats, QP_STR("facets")), facets, ARRAY_COUNT(facets));
}

int command_stats(struct cli *c)
{
    const char *range = cli_has(c, OPT_range) ? c->values[OPT_range] : "1h";
    const char *end = cli_has(c, OPT_end) ? c->values[OPT_end] : NULL;
    qp_ms ms;
    qp_str data;
    int status = cli_expect(c, 1, SIZE_MAX);
    status = status == EXIT_OK ? cli_duration(c, OPT_range, &ms) : status;
    status = status == EXIT_OK ? input_read(c, c->arguments + 1, c->argument_count - 1, "{}", &data)
                               : status;
    if (status != EXIT_OK) {
        return status;
    }
    return show(
        c,
        &(struct question){
            .path = "/v1/stats",
            .query = cli_text(c, "topic=%s&range=%s%s%s&data=%s", cli_encode(c, c->arguments[0]),
                              cli_encode(c, range),
                              end == NULL ? "" : "&end=", end == NULL ? "" : cli_encode(c, end),
                              cli_encode(c, cli_text(c, "%.*s", STR_ARG(data))))},
        print_stats);
}

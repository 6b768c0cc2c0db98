/* carto_diff.c - quipu carto diff: two results beside each other
 *
 * Two traversals are compared where they are. A result that was saved is compared here, with another one that was saved or
 * that is read from where it is.
 */
#include <stdio.h>

#include "carto/result_diff.h"
#include "carto/result_saved.h"
#include "cli/carto.h"

#define EXIT_DIFFERS EXIT_ERROR /* as diff and git diff --exit-code have it */

static bool is_file(const char *argument)
{
    size_t n = strlen(argument);
    return argument[0] == '@' || (n > 5 && strcmp(argument + n - 5, ".json") == 0);
}

/* -------------------------------------------------------------------------------------------- printing */

static void print_ids(const char *mark, const struct json *list)
{
    for (size_t i = 0; i < json_count(list); i++) {
        (void)fputs(mark, stdout);
        (void)print_value(stdout, json_at(list, i));
        (void)fputc('\n', stdout);
    }
}

static void print_versions(const struct json *list)
{
    for (size_t i = 0; i < json_count(list); i++) {
        (void)fputs(i > 0 ? ", " : "", stdout);
        (void)print_value(stdout, json_at(list, i));
    }
}

static void print_changed(const struct json *list)
{
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *package = json_at(list, i);
        (void)fputs("~ ", stdout);
        print_safe(stdout, member_text(package, "name"));
        (void)fputc(' ', stdout);
        print_versions(json_get(package, QP_STR("from")));
        (void)fputs(" -> ", stdout);
        print_versions(json_get(package, QP_STR("to")));
        (void)fputc('\n', stdout);
    }
}

static void print_edges(const char *mark, const struct json *list)
{
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *edge = json_at(list, i);
        (void)fputs(mark, stdout);
        print_safe(stdout, member_text(edge, "from"));
        (void)fputs(" -> ", stdout);
        print_safe(stdout, member_text(edge, "to"));
        (void)fputs("  (", stdout);
        print_safe(stdout, member_text(edge, "kind"));
        (void)fputc(' ', stdout);
        print_safe(stdout, member_text(edge, "requirement"));
        (void)fputs(", ", stdout);
        print_safe(stdout, member_text(edge, "scope"));
        (void)fputs(")\n", stdout);
    }
}

static void print_diff(const struct json *diff)
{
    const struct json *edges = json_get(diff, QP_STR("edges"));
    print_ids("+ ", json_get(diff, QP_STR("added")));
    print_ids("- ", json_get(diff, QP_STR("removed")));
    print_changed(json_get(diff, QP_STR("changed")));
    print_edges("+ ", json_get(edges, QP_STR("added")));
    print_edges("- ", json_get(edges, QP_STR("removed")));
}

static int answer(struct cli *c, enum output kind, qp_str text)
{
    struct json *json = NULL;
    bool is_same = false;
    if (json_parse(&c->env, text, NULL, &json) != QP_OK ||
        !json_as_bool(json_get(json, QP_STR("same")), &is_same)) {
        json_free(json);
        return cli_fail(c, EXIT_ERROR, "the answer cannot be read");
    }
    if (kind == OUTPUT_TEXT || kind == OUTPUT_WIDE || kind == OUTPUT_NAME) {
        print_diff(json);
    } else {
        (void)output_object(c, kind, "same", text); /* it is no text */
    }
    json_free(json);
    return !is_same && cli_has(c, OPT_exit_code) ? EXIT_DIFFERS : EXIT_OK;
}

/* --------------------------------------------------------------------------------------- saved results */

/* One side: its text is a file, or an answer. */
struct side {
    const char *name;
    struct reply reply;
    qp_str text;
    struct result_graph graph;
    struct result_saved saved;
};

static int side_text(struct cli *c, struct side *s)
{
    int status;
    if (is_file(s->name)) {
        return input_file(c, s->name[0] == '@' ? s->name + 1 : s->name, LIMIT_CARTO_SAVED_SIZE,
                          &s->text);
    }
    status = traversal_ask(c, s->name, "json", &s->reply);
    s->text = status == EXIT_OK ? buf_slice(&s->reply.body) : QP_NONE;
    return status;
}

static int side_open(struct cli *c, struct side *s)
{
    struct qp_err err = {0};
    int status;
    result_graph_init(&s->graph, &c->env);
    status = side_text(c, s);
    if (status == EXIT_OK && saved_open(&s->graph, &c->env, s->text, &s->saved, &err) != QP_OK) {
        status = cli_fail(c, EXIT_USAGE, "'%s': %s", s->name, err.text);
    }
    return status;
}

static void side_close(struct side *s)
{
    result_graph_close(&s->graph);
    reply_done(&s->reply);
}

static void put_side(struct json_writer *w, const char *key, const struct side *s)
{
    json_key(w, str_from(key));
    json_begin_object(w);
    json_key(w, QP_STR("id"));
    json_put_str(w, str_from(s->name));
    json_key(w, QP_STR("universe"));
    json_put_str(w, s->saved.universe);
    json_key(w, QP_STR("hash"));
    json_put_str(w, s->saved.hash);
    json_end_object(w);
}

static int compare(struct cli *c, const struct side *from, const struct side *to, enum output kind)
{
    struct json_writer w;
    struct buf text;
    bool is_same = false;
    int status;
    buf_init(&text, &c->env, LIMIT_CARTO_SAVED_SIZE);
    json_writer_init(&w, &text);
    json_begin_object(&w);
    put_side(&w, "from", from);
    put_side(&w, "to", to);
    status = result_diff(&from->graph, &to->graph, &w, &is_same) == QP_OK
                 ? EXIT_OK
                 : cli_fail(c, EXIT_ERROR, "out of memory");
    json_end_object(&w);
    if (status == EXIT_OK && json_writer_done(&w) != QP_OK) {
        status = cli_fail(c, EXIT_ERROR, "out of memory");
    }
    status = status == EXIT_OK ? answer(c, kind, buf_slice(&text)) : status;
    buf_done(&text);
    return status;
}

static int diff_here(struct cli *c, enum output kind)
{
    struct side from = {.name = c->arguments[0]};
    struct side to = {.name = c->arguments[1]};
    int status = side_open(c, &from);
    if (status == EXIT_OK) {
        status = side_open(c, &to);
        status = status == EXIT_OK ? compare(c, &from, &to, kind) : status;
        side_close(&to);
    }
    side_close(&from);
    return status;
}

/* ------------------------------------------------------------------------------------------- the command */

static int diff_there(struct cli *c, enum output kind)
{
    struct reply reply = {0};
    int status =
        ask_well(c,
                 &(struct question){
                     .path = cli_text(c, "/v1/traversals/%s/diff", cli_encode(c, c->arguments[0])),
                     .query = cli_text(c, "with=%s", cli_encode(c, c->arguments[1])),
                     .patience_ms = 30000},
                 &reply);
    status = status == EXIT_OK ? answer(c, kind, buf_slice(&reply.body)) : status;
    reply_done(&reply);
    return status;
}

int command_carto_diff(struct cli *c)
{
    enum output kind;
    int status = cli_expect(c, 2, 2);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    if (status != EXIT_OK) {
        return status;
    }
    return is_file(c->arguments[0]) || is_file(c->arguments[1]) ? diff_here(c, kind)
                                                                : diff_there(c, kind);
}

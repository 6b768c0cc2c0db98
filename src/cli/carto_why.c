/* carto_why.c - quipu carto why: the shortest paths to a package, and what depends on it directly
 *
 * Without --in it is `quipu carto ROOT` and one question of its result.
 */
#include <stdio.h>

#include "cli/carto.h"

#define DEFAULT_PATHS 3

static void print_text(const struct json *object, const char *key)
{
    print_safe(stdout, member_text(object, key));
}

/* What a relationship says, behind the package that it leads to or comes from. */
static void print_edge(const struct json *edge)
{
    qp_str requirement = member_text(edge, "requirement");
    (void)fputs("  (", stdout);
    print_text(edge, "kind");
    if (requirement.n > 0) {
        (void)fputc(' ', stdout);
        print_safe(stdout, requirement);
    }
    (void)fputs(", ", stdout);
    print_text(edge, "scope");
    (void)fputc(')', stdout);
}

static void print_id(const struct json *id)
{
    (void)print_value(stdout, id);
}

/* Nodes below each other, each with the relationships that lead to it from the one above. */
static void print_path(const struct json *path)
{
    const struct json *nodes = json_get(path, QP_STR("nodes"));
    const struct json *edges = json_get(path, QP_STR("edges"));
    size_t edge = 0;
    for (size_t i = 0; i < json_count(nodes); i++) {
        qp_str id = QP_STR("");
        bool is_text = json_as_str(json_at(nodes, i), &id);
        (void)is_text; /* else nothing is equal to it */
        printf("%*s", (int)(2 * i), "");
        print_id(json_at(nodes, i));
        while (i > 0 && edge < json_count(edges) &&
               str_equal(member_text(json_at(edges, edge), "to"), id)) {
            print_edge(json_at(edges, edge++));
        }
        (void)fputc('\n', stdout);
    }
}

static void print_dependents(const struct json *dependents)
{
    printf("\ndirect dependents: %zu\n", json_count(dependents));
    for (size_t i = 0; i < json_count(dependents); i++) {
        const struct json *edge = json_at(dependents, i);
        (void)fputs("  ", stdout);
        print_text(edge, "from");
        print_edge(edge);
        (void)fputc('\n', stdout);
    }
}

static void print_answer(const struct json *answer)
{
    const struct json *paths = json_get(answer, QP_STR("paths"));
    bool has_more = false;
    for (size_t i = 0; i < json_count(paths); i++) {
        (void)fputs(i > 0 ? "\n" : "", stdout);
        print_path(json_at(paths, i));
    }
    if (json_as_bool(json_get(answer, QP_STR("more")), &has_more) && has_more) {
        printf("\nthere are more paths: -k N\n");
    }
    print_dependents(json_get(answer, QP_STR("dependents")));
}

static int answer(struct cli *c, enum output kind, qp_str text)
{
    struct json *json = NULL;
    int status = EXIT_OK;
    if (json_parse(&c->env, text, NULL, &json) != QP_OK) {
        return cli_fail(c, EXIT_ERROR, "the answer cannot be read");
    }
    if (!output_object(c, kind, "id", text)) {
        print_answer(json);
    }
    if (json_count(json_get(json, QP_STR("paths"))) == 0) {
        status = cli_fail_next(c, EXIT_NOT_FOUND, "quipu carto why ROOT TARGET with another root",
                               "no path leads from '%s' to '%s'", c->arguments[0], c->arguments[1]);
    }
    json_free(json);
    return status;
}

static int ask_why(struct cli *c, const char *id, enum output kind)
{
    const char *root =
        cli_has(c, OPT_in) ? cli_text(c, "&root=%s", cli_encode(c, c->arguments[0])) : "";
    int64_t paths = DEFAULT_PATHS;
    struct reply reply = {0};
    int status = cli_number(c, OPT_paths, 1, LIMIT_CARTO_WAYS, &paths);
    if (status == EXIT_OK) {
        status =
            ask_well(c,
                     &(struct question){
                         .path = cli_text(c, "/v1/traversals/%s/why", cli_encode(c, id)),
                         .query = cli_text(c, "target=%s%s&paths=%lld",
                                           cli_encode(c, c->arguments[1]), root, (long long)paths),
                         .patience_ms = 30000},
                     &reply);
    }
    status = status == EXIT_OK ? answer(c, kind, buf_slice(&reply.body)) : status;
    reply_done(&reply);
    return status;
}

int command_carto_why(struct cli *c)
{
    const char *id = c->values[OPT_in];
    enum output kind;
    int ended = EXIT_OK;
    int status = cli_expect(c, 2, 2);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    if (status != EXIT_OK || id != NULL) {
        return status == EXIT_OK ? ask_why(c, id, kind) : status;
    }
    c->argument_count = 1; /* the root */
    ended = traversal_run(c, &id);
    c->argument_count = 2;
    if (ended != EXIT_OK && !(ended == EXIT_FAILED && cli_has(c, OPT_strict))) {
        return ended;
    }
    status = ask_why(c, id, kind);
    return status == EXIT_OK ? ended : status;
}

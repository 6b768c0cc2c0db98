/* graph.c - quipu graph: checks an application of graphs, and draws it
 *
 * Asks nobody: what a file says is all that is needed. What is wrong goes to stderr, a line each as compilers have it,
 * with the hint below; what is drawn goes to stdout. Exit codes: 0 it is good, 1 it is not, 2 usage.
 */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "graph/draw.h"

static const struct form {
    const char *word;
    enum draw_form form;
} forms[] = {
    {"dot", DRAW_DOT},
    {"mermaid", DRAW_MERMAID},
    {"text", DRAW_TEXT},
};

static void print_finding(const char *path, const struct finding *f)
{
    cli_say("%s:%d:%d: %.*s [%s]", path, f->line, f->column, STR_ARG(f->message), f->code);
    if (!str_is_none(f->hint)) {
        cli_say("    %.*s", STR_ARG(f->hint));
    }
}

static int tell_report(const char *path, const struct report *report)
{
    size_t shown = 0;
    for (const struct finding *f = report->first; f != NULL; f = f->next) {
        print_finding(path, f);
        shown++;
    }
    if (shown < report->count) {
        cli_say("the first %zu of them are shown", shown);
    }
    cli_say("%zu error%s, nothing deployed", report->count, report->count == 1 ? "" : "s");
    return EXIT_ERROR;
}

static void summarise(const struct app *app)
{
    size_t activities = 0;
    for (size_t i = 0; i < app->graph_count; i++) {
        activities += app->graphs[i].digit_count;
    }
    printf("%.*s %.*s: graphs %zu, activities %zu, hook rules %zu\n", STR_ARG(app->id),
           STR_ARG(app->version), app->graph_count, activities, app->hook_count);
}

/* `output` is one that is known, or NULL. */
static int print_app(struct cli *c, const struct app *app, const char *output)
{
    struct buf out;
    int rc;
    if (output == NULL) {
        summarise(app);
        return EXIT_OK;
    }
    buf_init(&out, &c->env, 0);
    for (size_t i = 0; i < ARRAY_COUNT(forms); i++) {
        if (strcmp(output, forms[i].word) == 0) {
            draw_app(&out, app, forms[i].form);
        }
    }
    if (strcmp(output, "json") == 0) {
        draw_json(&out, app);
        buf_byte(&out, '\n');
    }
    rc = buf_rc(&out);
    fwrite(out.p, 1, out.n, stdout);
    buf_done(&out);
    return rc == QP_OK ? EXIT_OK : cli_fail(c, EXIT_ERROR, "out of memory");
}

static bool is_form(const char *output)
{
    size_t i = 0;
    while (i < ARRAY_COUNT(forms) && strcmp(output, forms[i].word) != 0) {
        i++;
    }
    return i < ARRAY_COUNT(forms) || strcmp(output, "json") == 0;
}

int command_graph(struct cli *c)
{
    const char *output = c->values[OPT_output];
    struct report report;
    struct app *app = NULL;
    qp_str text;
    int status = cli_expect(c, 1, 1);
    int rc;
    if (status == EXIT_OK && output != NULL && !is_form(output)) {
        return cli_usage(
            "graph: output is dot, mermaid, text or json, not '%s'; see quipu help graph", output);
    }
    if (status == EXIT_OK) {
        status = input_file(c, c->arguments[0], LIMIT_YAML_SIZE, &text);
    }
    if (status != EXIT_OK) {
        return status;
    }
    report_init(&report, &c->arena);
    rc = app_compile(&c->env, text, &report, &app);
    if (rc == QP_E_INVALID) {
        return tell_report(c->arguments[0], &report);
    }
    if (rc != QP_OK) {
        return cli_fail(c, EXIT_ERROR, "%s", qp_code_text(rc));
    }
    status = print_app(c, app, output);
    app_free(app);
    return status;
}

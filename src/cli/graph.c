/* graph.c - quipu graph: checks an application of graphs, and draws it
 *
 * What a file says is all that is needed, unless it is drawn with the state of a job. What is wrong goes to stderr, a line each
 * as compilers have it, with the hint below; what is drawn goes to stdout. Exit codes: 0 it is good, 1 it is not, 2 usage; those
 * of questions with --job.
 */
#include <stdio.h>
#include <string.h>

#include "cli/graph_file.h"
#include "cli/jobs.h"
#include "graph/draw.h"

static const struct form {
    const char *word;
    enum draw_form form;
} forms[] = {
    {"dot", DRAW_DOT},
    {"mermaid", DRAW_MERMAID},
    {"text", DRAW_TEXT},
};

static void summarise(const struct app *app)
{
    size_t activities = 0;
    for (size_t i = 0; i < app->graph_count; i++) {
        activities += app->graphs[i].digit_count;
    }
    printf("%.*s %.*s: graphs %zu, activities %zu, hook rules %zu\n", STR_ARG(app->id),
           STR_ARG(app->version), app->graph_count, activities, app->hook_count);
}

static const struct form *form_of(const char *output)
{
    for (size_t i = 0; i < ARRAY_COUNT(forms); i++) {
        if (strcmp(output, forms[i].word) == 0) {
            return &forms[i];
        }
    }
    return NULL;
}

static int print_drawn(struct cli *c, struct buf *out)
{
    int rc = buf_rc(out);
    if (rc == QP_OK) {
        (void)fwrite(out->p, 1, out->n, stdout); /* main asks whether it went well */
    }
    buf_done(out);
    return rc == QP_OK ? EXIT_OK : cli_fail(c, EXIT_ERROR, "out of memory");
}

/* `output` is one that is known, or NULL. */
static int print_app(struct cli *c, const struct app *app, const char *output)
{
    struct buf out;
    if (output == NULL) {
        summarise(app);
        return EXIT_OK;
    }
    buf_init(&out, &c->env, 0);
    if (form_of(output) != NULL) {
        draw_app(&out, app, form_of(output)->form);
    } else {
        draw_json(&out, app);
        buf_byte(&out, '\n');
    }
    return print_drawn(c, &out);
}

/* The graph of a job, with its digits. A job of another version may have other activities. */
static int print_state(struct cli *c, const struct app *app, const struct form *form,
                       const struct json *job)
{
    struct buf out;
    qp_str topic = member_text(job, "workflow");
    qp_str version = member_text(job, "version");
    const struct graph *g = app_graph(app, topic);
    const char *ours = cli_text(c, "%.*s/%.*s", STR_ARG(app->id), STR_ARG(app->version));
    const char *state = cli_text(c, "%.*s", STR_ARG(member_text(job, "state")));
    if (g == NULL || strlen(state) < g->digit_count) {
        return cli_fail(c, EXIT_CONFLICT,
                        "the job is one of '%.*s' (%.*s), which is not in this file",
                        STR_ARG(topic), STR_ARG(version));
    }
    if (!str_equal(version, str_from(ours))) {
        cli_say("quipu: graph: the job is one of %.*s, and the file is %s", STR_ARG(version), ours);
    }
    buf_init(&out, &c->env, 0);
    draw_graph(&out, g, form->form, state);
    return print_drawn(c, &out);
}

static int draw_job(struct cli *c, const struct app *app, const struct form *form)
{
    struct reply reply = {0};
    struct json *json = NULL;
    const char *id = NULL;
    int status = job_resolve(c, c->values[OPT_job], &id);
    status = status == EXIT_OK
                 ? ask_well(c, &(struct question){.path = job_path(c, id, "")}, &reply)
                 : status;
    if (status == EXIT_OK) {
        status = json_parse(&c->env, buf_slice(&reply.body), NULL, &json) == QP_OK
                     ? print_state(c, app, form, json)
                     : cli_fail(c, EXIT_ERROR, "the answer cannot be read");
    }
    json_free(json);
    reply_done(&reply);
    return status;
}

int command_graph(struct cli *c)
{
    const char *output = c->values[OPT_output];
    bool of_job = cli_has(c, OPT_job);
    struct app *app = NULL;
    struct graph_text text;
    int status = cli_expect(c, 1, 1);
    if (status == EXIT_OK && output != NULL && form_of(output) == NULL &&
        (of_job || strcmp(output, "json") != 0)) {
        return cli_usage("graph: --output must be %s, got '%s'; see quipu help graph",
                         of_job ? "dot, mermaid or text with --job" : "dot, mermaid, text or json",
                         output);
    }
    status = status == EXIT_OK ? graph_file_read(c, c->arguments[0], &text) : status;
    status = status == EXIT_OK ? graph_file_compile(c, &text, &app) : status;
    if (status == EXIT_OK) {
        status = of_job ? draw_job(c, app, form_of(output != NULL ? output : "text"))
                        : print_app(c, app, output);
    }
    app_free(app);
    return status;
}

/* compile.c - an application from its text: the graphs, and what concerns several of them (see compile.h) */
#include <stdio.h>
#include <stdlib.h>

#include "graph/compile.h"

static void read_app(struct compiler *c, const struct node *root);
static void read_graphs(struct compiler *c, const struct node *list);
static void read_graph(struct compiler *c, const struct node *node, struct graph *g);
static void order_topics(struct compiler *c);
static void check_ids(struct compiler *c);

int app_compile(const struct qp_env *env, qp_str text, struct report *report, struct app **out_app)
{
    struct compiler c = {.env = env, .report = report};
    struct node *root = NULL;
    size_t before = report->count;
    *out_app = NULL;
    c.app = mem_alloc(env, sizeof *c.app);
    if (c.app == NULL) {
        return QP_E_NOMEM;
    }
    arena_init(&c.app->arena, env, 0);
    arena_init(&c.scratch, env, 0);
    c.arena = &c.app->arena;
    if (text.n > LIMIT_YAML_SIZE || !arena_copy(c.arena, text, &c.app->source)) {
        report->no_memory = text.n <= LIMIT_YAML_SIZE;
        c.app->source = text; /* tree_read says that it is too large */
    }
    if (!report->no_memory && tree_read(c.arena, c.app->source, report, &root) != QP_E_NOMEM &&
        root != NULL) {
        read_app(&c, root);
    }
    arena_done(&c.scratch);
    if (report->no_memory || report->count > before) {
        app_free(c.app);
        return report->no_memory ? QP_E_NOMEM : QP_E_INVALID;
    }
    *out_app = c.app;
    return QP_OK;
}

void app_free(struct app *app)
{
    const struct qp_env *env = app == NULL ? NULL : app->arena.env;
    if (app != NULL) {
        arena_done(&app->arena);
        mem_free(env, app);
    }
}

static void read_app(struct compiler *c, const struct node *root)
{
    static const char *const root_keys[] = {"app", NULL};
    static const char *const keys[] = {"id", "version", "graphs", "settings", NULL};
    const struct node *app;
    const struct node *graphs;
    if (root->kind != NODE_MAP) {
        report_add(c->report, "kind_wrong", root->line, root->column,
                   "begin with app:", "the text must be a map, not %s", node_words(root));
        return;
    }
    entries_known(c, root, root_keys, "the text");
    app = entry_need(c, root, "app", NODE_MAP, "the text");
    if (app == NULL) {
        return;
    }
    entries_known(c, app, keys, "app");
    if (node_get(app, "settings") != NULL) {
        key_ignored(c, node_get(app, "settings"), "app");
    }
    c->app->id = entry_name(c, app, "id", "app");
    c->app->version = entry_name(c, app, "version", "app");
    graphs = entry_need(c, app, "graphs", NODE_LIST, "app");
    if (graphs != NULL) {
        read_graphs(c, graphs);
    }
}

static void read_graphs(struct compiler *c, const struct node *list)
{
    if (list->count == 0 || list->count > LIMIT_APP_GRAPHS) {
        report_add(c->report, "graphs_limit", list->line, list->column, NULL,
                   "an application has 1 to %d graphs, this one %zu", LIMIT_APP_GRAPHS,
                   list->count);
        return;
    }
    c->app->graphs = compile_keep(c, list->count, sizeof(struct graph));
    for (const struct node *node = list->first; node != NULL && c->app->graphs != NULL;
         node = node->next) {
        if (node->kind == NODE_MAP) {
            read_graph(c, node, &c->app->graphs[c->app->graph_count++]);
        } else {
            report_add(c->report, "kind_wrong", node->line, node->column, NULL,
                       "a graph must be a map, not %s", node_words(node));
        }
    }
    hooks_finish(c);
    order_topics(c);
    check_ids(c);
}

/* --------------------------------------------------------------------------------------- one graph */

/* {schema} */
static const struct schema *read_schema(struct compiler *c, const struct node *node,
                                        const char *name)
{
    static const char *const keys[] = {"schema", NULL};
    const struct node *section = entry_get(c, node, name, NODE_MAP);
    const struct node *schema = entry_get(c, section, "schema", NODE_MAP);
    if (section != NULL) {
        entries_read(c, section, keys, name);
    }
    return schema == NULL ? NULL : schema_compile(c->arena, schema, c->report);
}

static void check_topic(struct compiler *c, const struct node *node, const struct graph *g)
{
    const struct graph *other = c->app->graphs;
    while (other != g && !str_equal(other->subscribes, g->subscribes)) {
        other++;
    }
    if (!str_is_none(g->subscribes) && !topic_good(c, node, g->subscribes)) {
        return;
    }
    if (other != g && !str_is_none(g->subscribes)) {
        report_add(c->report, "topic_twice", node->line, node->column,
                   "a topic starts one graph; give this one another",
                   "another graph subscribes to '%.*s' already",
                   STR_ARG(text_shown(g->subscribes)));
    }
}

static void read_graph(struct compiler *c, const struct node *node, struct graph *g)
{
    static const char *const keys[] = {"subscribes", "publishes",   "expire", "input", "output",
                                       "activities", "transitions", "hooks",  NULL};
    struct making m = {.c = c, .graph = g, .node = node};
    *g = (struct graph){.app = c->app};
    entries_known(c, node, keys, "a graph");
    g->subscribes = entry_name(c, node, "subscribes", "a graph");
    g->publishes = entry_name(c, node, "publishes", NULL);
    check_topic(c, node_get(node, "subscribes"), g);
    g->expire = entry_mapping(&m, node, "expire", LITERAL_SECONDS, NULL);
    g->input = read_schema(c, node, "input");
    g->output = read_schema(c, node, "output");
    m.output = g->output;
    activities_read(&m);
    if (c->report->no_memory || g->by_digit == NULL) {
        return;
    }
    activities_link(&m);
    transitions_read(&m);
    if (!c->report->no_memory) {
        hooks_read(&m);
        shape_make(&m);
        readings_check(&m);
        job_keys_collect(&m);
    }
}

/* --------------------------------------------------------------------------------------- several graphs */

static int topic_compare(const void *a, const void *b)
{
    return str_compare((*(const struct graph *const *)a)->subscribes,
                       (*(const struct graph *const *)b)->subscribes);
}

static void order_topics(struct compiler *c)
{
    struct app *app = c->app;
    app->by_topic = compile_keep(c, app->graph_count, sizeof(const struct graph *));
    if (app->by_topic == NULL) {
        return;
    }
    for (size_t i = 0; i < app->graph_count; i++) {
        app->by_topic[i] = &app->graphs[i];
    }
    qsort(app->by_topic, app->graph_count, sizeof app->by_topic[0], topic_compare);
}

static int place_compare(const void *a, const void *b)
{
    const struct activity *x = *(const struct activity *const *)a;
    const struct activity *y = *(const struct activity *const *)b;
    int order = str_compare(x->id, y->id);
    return order != 0 ? order : (x->graph > y->graph) - (x->graph < y->graph);
}

/* Ids are unique in the application. Within a graph they are keys of a map, which the tree has looked at. */
static void check_ids(struct compiler *c)
{
    const struct activity **all =
        compile_scratch(c, c->activity_count, sizeof(const struct activity *));
    size_t n = 0;
    for (size_t i = 0; i < c->app->graph_count && all != NULL; i++) {
        const struct graph *g = &c->app->graphs[i];
        for (size_t j = 0; j < g->digit_count; j++) {
            all[n++] = &g->activities[j];
        }
    }
    if (n > 0) {
        qsort(all, n, sizeof all[0], place_compare);
    }
    for (size_t i = 1; i < n; i++) {
        if (str_equal(all[i - 1]->id, all[i]->id) && all[i - 1]->graph != all[i]->graph) {
            report_add(c->report, "activity_twice", all[i]->line, all[i]->column,
                       "give it another id", "another graph has an activity '%.*s'",
                       STR_ARG(text_shown(all[i]->id)));
        }
    }
}

/* --------------------------------------------------------------------------------------- looking */

const struct graph *app_graph(const struct app *app, qp_str topic)
{
    const struct graph key = {.subscribes = topic};
    const struct graph *wanted = &key;
    const struct graph **found =
        bsearch(&wanted, app->by_topic, app->graph_count, sizeof app->by_topic[0], topic_compare);
    return found == NULL ? NULL : *found;
}

static int id_compare(const void *a, const void *b)
{
    return str_compare(*(const qp_str *)a, (*(const struct activity *const *)b)->id);
}

const struct activity *graph_activity(const struct graph *g, qp_str id)
{
    const qp_str prefix = QP_STR("join:");
    bool gate = id.n > prefix.n && memcmp(id.p, prefix.p, prefix.n) == 0;
    qp_str plain = gate ? (qp_str){id.p + prefix.n, id.n - prefix.n} : id;
    const struct activity **found =
        bsearch(&plain, g->by_digit, g->digit_count, sizeof g->by_digit[0], id_compare);
    if (found == NULL) {
        return NULL;
    }
    return gate ? (*found)->gate : *found;
}

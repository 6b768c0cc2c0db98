/* compile_stats.c - the stats key of triggers: the job's id, its key, what is counted */
#include "graph/compile.h"

static const struct {
    const char *name;
    enum measure_kind kind;
} measure_kinds[] = {
    {"count", MEASURE_COUNT}, {"index", MEASURE_INDEX}, {"sum", MEASURE_SUM}, {"avg", MEASURE_AVG},
    {"min", MEASURE_MIN},     {"max", MEASURE_MAX},     {"mdn", MEASURE_MDN},
};

static void read_kind(struct making *m, const struct node *node, struct measure *measure)
{
    for (size_t i = 0; i < ARRAY_COUNT(measure_kinds); i++) {
        if (str_equal(node->text, str_from(measure_kinds[i].name))) {
            measure->kind = measure_kinds[i].kind;
            return;
        }
    }
    report_add(m->c->report, "stats_wrong", node->line, node->column,
               "count, index, sum, avg, min, max or mdn", "there is no measure '%.*s'",
               STR_ARG(text_shown(node->text)));
}

/* A facet is named after what is measured, so that has to be a reference with a path. */
static void read_target(struct making *m, const struct node *node, struct activity *a,
                        struct measure *measure)
{
    const struct reference *r = NULL;
    measure->target = entry_mapping(m, node, "target", LITERAL_ANY, a);
    if (measure->target == NULL) {
        return;
    }
    r = mapping_references(measure->target);
    if (node_get(node, "target")->kind != NODE_STRING || r == NULL || r->path_count == 0) {
        node = node_get(node, "target");
        report_add(m->c->report, "stats_wrong", node->line, node->column,
                   "write '{$self.output.data.color}'",
                   "the target of a measure must be a reference");
        return;
    }
    measure->name = r->path[r->path_count - 1];
}

static void read_measure(struct making *m, const struct node *node, struct activity *a,
                         struct measure *measure)
{
    static const char *const keys[] = {"measure", "target", NULL};
    const struct node *kind;
    if (node->kind != NODE_MAP) {
        report_add(m->c->report, "stats_wrong", node->line, node->column, NULL,
                   "a measure must be a map with measure and target, not %s", node_words(node));
        return;
    }
    entries_known(m->c, node, keys, "a measure");
    kind = entry_need(m->c, node, "measure", NODE_STRING, "a measure");
    if (kind != NULL) {
        read_kind(m, kind, measure);
    }
    if (node_get(node, "target") == NULL) {
        report_add(m->c->report, "key_missing", node->line, node->column, NULL,
                   "a measure needs the key 'target'");
        return;
    }
    read_target(m, node, a, measure);
}

/* What links jobs to each other there is done by other means here. */
static void refuse_links(struct making *m, const struct node *stats)
{
    static const char *const links[] = {"parent", "adjacent"};
    for (size_t i = 0; i < ARRAY_COUNT(links); i++) {
        const struct node *entry = node_get(stats, links[i]);
        if (entry != NULL) {
            report_add(m->c->report, "not_supported", entry->key_line, entry->key_column,
                       "let an await start the job, or give both jobs a facet of the same value",
                       "'%s' of stats, a link to another job, is not supported", links[i]);
        }
    }
}

void stats_read(struct making *m, const struct node *node, struct activity *a)
{
    static const char *const keys[] = {"id",     "key",      "granularity", "measures",
                                       "parent", "adjacent", NULL};
    const struct node *list;
    struct measure *measures;
    entries_known(m->c, node, keys, "stats");
    a->job_id = entry_mapping(m, node, "id", LITERAL_TEXT, a);
    a->job_key = entry_mapping(m, node, "key", LITERAL_TEXT, a);
    a->granularity = entry_mapping(m, node, "granularity", LITERAL_GRANULARITY, a);
    refuse_links(m, node);
    list = entry_get(m->c, node, "measures", NODE_LIST);
    measures = compile_keep(m->c, list == NULL ? 0 : list->count, sizeof *measures);
    if (list == NULL || measures == NULL) {
        return;
    }
    for (const struct node *item = list->first; item != NULL; item = item->next) {
        read_measure(m, item, a, &measures[a->measure_count++]);
    }
    a->measures = measures;
}

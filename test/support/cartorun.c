/* cartorun.c - traversals in memory, level by level (see cartorun.h) */
#include "support/cartorun.h"

#include "support/testenv.h"

#define LEVELS_MAX (LIMIT_CARTO_LEVELS + 2)

struct expanded {
    struct expanded *next;
    struct carto_context context;
    qp_str path;
};

void cartorun_init(struct carto_run *run, const struct qp_env *env,
                   const struct carto_request *request)
{
    *run = (struct carto_run){.env = env, .request = request};
    arena_init(&run->memory, env, LIMIT_CARTO_UNIVERSE_SIZE);
    omap_init(&run->nodes, env);
    run->levels = mem_alloc(env, LEVELS_MAX * sizeof(*run->levels));
    run->sizes = mem_alloc(env, LEVELS_MAX * sizeof(*run->sizes));
    QP_ASSERT(run->levels != NULL && run->sizes != NULL);
}

void cartorun_done(struct carto_run *run)
{
    omap_done(&run->nodes);
    arena_done(&run->memory);
    mem_free(run->env, run->levels);
    mem_free(run->env, run->sizes);
}

/* The order in which the items of a level are worked on. */
static size_t *order_of(struct carto_run *run, size_t count)
{
    size_t *order = arena_alloc(&run->memory, (count + 1) * sizeof(*order));
    QP_ASSERT(order != NULL);
    for (size_t i = 0; i < count; i++) {
        size_t at = run->shuffle != 0 ? testenv_random_below(&run->shuffle, i + 1) : i;
        order[i] = order[at];
        order[at] = i;
    }
    return order;
}

static void select_item(struct carto_run *run, struct carto_item *item)
{
    struct carto_outcome outcome;
    struct qp_err err = {0};
    struct carto_item before = *item;
    int rc = stage_select(run->request, &run->memory, item, &outcome, &err);
    if (run->again && rc == QP_OK) {
        *item = before;
        rc = stage_select(run->request, &run->memory, item, &outcome, &err);
    }
    QP_ASSERT(rc == QP_OK && outcome.result != CARTO_WANTS);
    if (outcome.result == CARTO_FAILED) {
        stage_fail(item, &outcome, &run->counts);
    }
}

static qp_str node_key(struct carto_run *run, const struct carto_item *item)
{
    const struct carto_package p =
        item->is_selected ? item->selected : (struct carto_package){.id = item->target};
    qp_str key = QP_NONE;
    int rc = carto_print(&run->memory, &key, "%.*s:%.*s@%.*s", STR_ARG(p.id.type),
                         STR_ARG(p.id.name), STR_ARG(p.version));
    QP_ASSERT(rc == QP_OK);
    return key;
}

static void judge_item(struct carto_run *run, struct carto_item *item)
{
    qp_str key = node_key(run, item);
    struct expanded *known = omap_get(&run->nodes, key);
    struct expanded *new = NULL;
    item->is_first = known == NULL;
    for (const struct expanded *e = known; item->state == CARTO_OPEN && e != NULL; e = e->next) {
        if (context_dominates(&e->context, &item->context)) {
            stage_duplicate(item, e->path, &run->counts);
            return;
        }
    }
    new = ARENA_NEW(&run->memory, struct expanded);
    QP_ASSERT(new != NULL);
    *new = (struct expanded){known, item->context, item->path};
    QP_ASSERT(omap_put(&run->nodes, key, new, NULL) == QP_OK);
}

static void expand_item(struct carto_run *run, struct carto_item *item, struct carto_children *out)
{
    struct carto_relations relations;
    struct carto_outcome outcome;
    struct qp_err err = {0};
    int rc = stage_resolve(run->request, &run->memory, item, &relations, &outcome, &err);
    QP_ASSERT(rc == QP_OK);
    if (outcome.result == CARTO_FAILED) {
        stage_fail(item, &outcome, &run->counts);
        return;
    }
    if (run->again) {
        struct carto_item copy = *item;
        struct carto_counts counts = {0};
        QP_ASSERT(stage_traverse(run->request, &run->memory, &copy, &relations, out, &counts) ==
                  QP_OK);
    }
    rc = stage_traverse(run->request, &run->memory, item, &relations, out, &run->counts);
    QP_ASSERT(rc == QP_OK);
}

static void add_level(struct carto_run *run, const struct carto_children *children, size_t count)
{
    size_t total = 0;
    size_t level = run->level_count;
    for (size_t i = 0; i < count; i++) {
        total += children[i].count;
    }
    if (total == 0) {
        return;
    }
    QP_ASSERT(level < LEVELS_MAX);
    run->levels[level] = arena_room(&run->memory, total * sizeof(struct carto_item));
    QP_ASSERT(run->levels[level] != NULL);
    for (size_t i = 0, at = 0; i < count; at += children[i].count, i++) {
        if (children[i].count > 0) {
            memcpy(run->levels[level] + at, children[i].rows,
                   children[i].count * sizeof(struct carto_item));
        }
    }
    run->sizes[level] = total;
    run->level_count++;
}

static void run_level(struct carto_run *run, size_t level)
{
    struct carto_item *items = run->levels[level];
    size_t count = run->sizes[level];
    const size_t *order = order_of(run, count);
    struct carto_children *children = arena_alloc(&run->memory, (count + 1) * sizeof(*children));
    QP_ASSERT(children != NULL);
    for (size_t i = 0; i < count; i++) {
        select_item(run, &items[order[i]]);
    }
    for (size_t i = 0; i < count; i++) {
        judge_item(run, &items[i]);
    }
    order = order_of(run, count);
    for (size_t i = 0; i < count; i++) {
        if (items[order[i]].state == CARTO_OPEN) {
            expand_item(run, &items[order[i]], &children[order[i]]);
        }
    }
    add_level(run, children, count);
}

int cartorun_traverse(struct carto_run *run, const qp_str *roots, size_t count, struct qp_err *err)
{
    struct carto_children children = {.count = count};
    children.rows = arena_alloc(&run->memory, (count + 1) * sizeof(*children.rows));
    QP_ASSERT(children.rows != NULL);
    for (size_t i = 0; i < count; i++) {
        QP_TRY(stage_root(run->request, &run->memory, i, roots[i], &children.rows[i], err));
    }
    add_level(run, &children, 1);
    for (size_t level = 0; level < run->level_count; level++) {
        run_level(run, level);
    }
    return QP_OK;
}

static int next_item(void *context, uint64_t level, size_t index, const struct carto_item **out)
{
    const struct carto_run *run = context;
    if (level >= run->level_count || index >= run->sizes[level]) {
        return QP_E_NOT_FOUND;
    }
    *out = &run->levels[level][index];
    return QP_OK;
}

struct carto_items cartorun_items(struct carto_run *run)
{
    return (struct carto_items){.context = run, .get = next_item};
}

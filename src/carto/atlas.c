/* atlas.c - universes and plans in memory (see atlas.h) */
#include "carto/atlas.h"

#include "base/omap.h"
#include "carto/fetch.h"
#include "carto/registry.h"

struct universe {
    struct universe *next;
    int64_t ns;
    int64_t number;
    int64_t used; /* by plans */
    int64_t asked;
    const struct carto_type *type;
    struct facts_table table;
    struct carto_facts facts;
    /* of one whose facts are fetched */
    bool is_fetched;
    struct omap kept;      /* the facts that were asked for, in the memory of `table` */
    struct bundle *bundle; /* of the turn that asks */
};

struct kept_plan {
    struct kept_plan *next;
    struct job_ref job;
    int64_t asked;
    struct arena arena;
    qp_str body;
    qp_str version;
    struct universe **universes; /* one per type, NULL: none */
    struct carto_facts *facts;   /* likewise, of those whose facts are fetched */
    struct carto_plan plan;
};

struct atlas {
    struct qp_env env;
    struct plan_types types;
    struct universe *universes;
    struct kept_plan *plans;
    int64_t clock; /* counts questions: the lowest `asked` is the oldest */
};

int atlas_open(const struct qp_env *env, const struct plan_types *types, struct atlas **out_atlas)
{
    struct atlas *l = mem_alloc(env, sizeof *l);
    if (l == NULL) {
        return QP_E_NOMEM;
    }
    *l = (struct atlas){.env = *env, .types = *types};
    *out_atlas = l;
    return QP_OK;
}

static void universe_free(struct atlas *l, struct universe *u)
{
    facts_table_done(&u->table);
    omap_done(&u->kept);
    mem_free(&l->env, u);
}

static void plan_free(struct atlas *l, struct kept_plan *p)
{
    for (size_t i = 0; p->universes != NULL && i < p->plan.request.use_count; i++) {
        if (p->universes[i] != NULL) {
            p->universes[i]->used--;
        }
    }
    arena_done(&p->arena);
    mem_free(&l->env, p);
}

void atlas_close(struct atlas *l)
{
    struct qp_env env;
    if (l == NULL) {
        return;
    }
    while (l->plans != NULL) {
        struct kept_plan *p = l->plans;
        l->plans = p->next;
        plan_free(l, p);
    }
    while (l->universes != NULL) {
        struct universe *u = l->universes;
        l->universes = u->next;
        universe_free(l, u);
    }
    env = l->env;
    mem_free(&env, l);
}

int atlas_types(const struct atlas *l, struct bundle *b, int64_t ns, qp_str version,
                struct plan_types *out_types, struct qp_err *err)
{
    struct registry r = {.arena = &b->commit->arena, .ns = ns, .bundle = b};
    return registry_types(&r, &l->types, version, out_types, err);
}

/* --------------------------------------------------------------------------------------- universes */

/* The row of a universe, by its name; without one the current one of the type. */
static int universe_row(struct bundle *b, int64_t ns, qp_str type, qp_str name,
                        const struct universe_row **out_row)
{
    struct universe_row like = {.ns = ns, .type = type, .name = name};
    struct bundle_rows found;
    struct scan scan = {.table = TABLE_universe,
                        .index = str_is_none(name) ? INDEX_universe_current : INDEX_universe_name,
                        .prefix = &like,
                        .prefix_count = str_is_none(name) ? 2 : 3,
                        .limit = 1};
    QP_TRY(bundle_scan(b, &scan, &found));
    *out_row = found.count > 0 ? found.rows[0] : NULL;
    return QP_OK;
}

static int load_fact(void *context, const void *row)
{
    const struct fact_row *fact = row;
    return facts_table_add(context, fact->name, fact->value);
}

static int universe_fill(struct bundle *b, struct universe *u)
{
    struct fact_row of = {.ns = u->ns, .universe = u->number, .kind = FACT_VALUE};
    struct scan scan = {
        .table = TABLE_fact, .index = -1, .prefix = &of, .prefix_count = 3, .limit = SIZE_MAX};
    return bundle_each(b, &scan, &u->table, load_fact);
}

static int universe_load(struct atlas *l, struct bundle *b, const struct carto_type *type,
                         const struct universe_row *row, struct universe **out_universe)
{
    struct universe *u = mem_alloc(&l->env, sizeof *u);
    int rc;
    if (u == NULL) {
        return QP_E_NOMEM;
    }
    *u = (struct universe){.ns = row->ns, .number = row->universe, .type = type};
    facts_table_init(&u->table, &l->env);
    omap_init(&u->kept, &l->env);
    facts_table_name(&u->table, row->name); /* the rows are read below: `row` may go */
    rc = universe_fill(b, u);
    if (rc != QP_OK) {
        universe_free(l, u);
        return rc;
    }
    u->facts = facts_table_reader(&u->table);
    u->next = l->universes;
    l->universes = u;
    *out_universe = u;
    return QP_OK;
}

/* NULL: there is none. One that fills or is dropped is none. */
static int universe_find(struct atlas *l, struct bundle *b, int64_t ns,
                         const struct carto_type *type, qp_str name, struct universe **out_universe)
{
    const struct universe_row *row = NULL;
    struct universe *u = l->universes;
    *out_universe = NULL;
    while (u != NULL && (str_is_none(name) || u->ns != ns || u->type != type || u->is_fetched ||
                         !str_equal(u->facts.universe, name))) {
        u = u->next;
    }
    if (u == NULL) {
        QP_TRY(universe_row(b, ns, str_from(type->name), name, &row));
        if (row == NULL || (row->state != UNIVERSE_CURRENT && row->state != UNIVERSE_FORMER)) {
            return QP_OK;
        }
        QP_TRY(universe_load(l, b, type, row, &u));
    }
    u->asked = ++l->clock;
    *out_universe = u;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------- fetched ones */

static int keep_fact(struct universe *u, qp_str name, qp_str value, qp_str *out_value)
{
    qp_str *kept = ARENA_NEW(&u->table.memory, qp_str);
    if (kept == NULL || !arena_copy(&u->table.memory, value, kept)) {
        return QP_E_NOMEM;
    }
    QP_TRY(omap_put(&u->kept, name, kept, NULL));
    *out_value = *kept;
    return QP_OK;
}

/* One that was not asked for before is read in the commit that asks. The universe may be a new one since: its row is
 * looked for, too. */
static int fetched_get(const void *context, qp_str name, qp_str *out_value)
{
    struct universe *u =
        (struct universe *)(uintptr_t)context; /* what it keeps is not its meaning */
    const qp_str *kept = omap_get(&u->kept, name);
    const struct universe_row *universe = NULL;
    struct fact_row key = {.ns = u->ns, .kind = FACT_VALUE, .name = name};
    const void *row = NULL;
    if (kept != NULL) {
        *out_value = *kept;
        return QP_OK;
    }
    QP_TRY(universe_row(u->bundle, u->ns, str_from(u->type->name), CARTO_FETCHED, &universe));
    if (universe == NULL) {
        return QP_E_NOT_FOUND;
    }
    key.universe = universe->universe;
    QP_TRY(bundle_get(u->bundle, TABLE_fact, &key, &row));
    return row == NULL ? QP_E_NOT_FOUND
                       : keep_fact(u, name, ((const struct fact_row *)row)->value, out_value);
}

/* What is fetched has no list of names. */
static int fetched_next(const void *context, qp_str after, qp_str *out_name)
{
    (void)context;
    (void)after;
    (void)out_name;
    return QP_E_NOT_FOUND;
}

static int fetched_source(const void *context, qp_str target, qp_str after, qp_str *out_source)
{
    (void)target;
    return fetched_next(context, after, out_source);
}

static int fetched_find(struct atlas *l, struct bundle *b, int64_t ns,
                        const struct carto_type *type, struct universe **out_universe)
{
    struct universe *u = l->universes;
    while (u != NULL && (u->ns != ns || u->type != type || !u->is_fetched)) {
        u = u->next;
    }
    if (u == NULL) {
        u = mem_alloc(&l->env, sizeof *u);
        if (u == NULL) {
            return QP_E_NOMEM;
        }
        *u = (struct universe){.ns = ns, .type = type, .is_fetched = true};
        facts_table_init(&u->table, &l->env);
        omap_init(&u->kept, &l->env);
        u->next = l->universes;
        l->universes = u;
    }
    u->bundle = b;
    u->asked = ++l->clock;
    *out_universe = u;
    return QP_OK;
}

static void fetched_tidy(struct universe *u)
{
    if (!u->is_fetched || u->table.memory.total <= LIMIT_CARTO_KEPT_SIZE) {
        return;
    }
    omap_done(&u->kept);
    omap_init(&u->kept, u->table.env);
    arena_done(&u->table.memory);
    arena_init(&u->table.memory, u->table.env, LIMIT_CARTO_UNIVERSE_SIZE);
}

/* ---------------------------------------------------------------------------------------- versions */

static int version_add(struct bundle *b, const struct carto_type *type, qp_str name,
                       qp_str *version)
{
    return carto_print(&b->commit->arena, version, "%.*s%s%s@%.*s", STR_ARG(*version),
                       version->n > 0 ? "," : "", type->name, STR_ARG(name));
}

static int add_current(struct bundle *b, int64_t ns, const struct carto_plan *plan, size_t index,
                       qp_str *version)
{
    const struct carto_use *use = &plan->uses[index];
    const struct universe_row *row = NULL;
    qp_str name = QP_NONE;
    if (use->type->external != NULL) {
        return plan->is_external ? version_add(b, use->type, use->type->external->universe, version)
                                 : QP_OK;
    }
    if (use->type->universe != NULL && plan_uses(plan, use->type->name)) {
        QP_TRY(use->type->universe(&b->commit->arena, use->options, bundle_now(b), &name));
        return version_add(b, use->type, name, version);
    }
    if (!use->type->has_facts) {
        return QP_OK;
    }
    QP_TRY(universe_row(b, ns, str_from(use->type->name), QP_NONE, &row));
    return row == NULL ? QP_OK : version_add(b, use->type, row->name, version);
}

int atlas_current(struct atlas *l, struct bundle *b, int64_t ns, const struct carto_plan *plan,
                  qp_str *out_version)
{
    qp_str version = QP_NONE;
    (void)l;
    for (size_t i = 0; i < plan->request.use_count; i++) {
        QP_TRY(add_current(b, ns, plan, i, &version));
    }
    *out_version = version;
    return QP_OK;
}

qp_str atlas_universe_of(qp_str version, const char *type)
{
    qp_str found;
    qp_str name;
    while (version_next(&version, &found, &name)) {
        if (str_equal(found, str_from(type))) {
            return name;
        }
    }
    return QP_NONE;
}

/* The facts of a universe as a plan sees them: of one that is fetched the name is the plan's own. */
static void set_facts(struct carto_use *use, struct universe *u, qp_str name,
                      struct carto_facts *facts)
{
    use->is_fetched = u->is_fetched;
    use->facts = &u->facts;
    if (u->is_fetched) {
        *facts = (struct carto_facts){u, name, fetched_get, fetched_next, fetched_source};
        use->facts = facts;
    }
}

static int find_universe(struct atlas *l, struct bundle *b, int64_t ns,
                         const struct carto_type *type, qp_str name, struct universe **out_universe)
{
    return type->is_fetched != NULL && type->is_fetched(name)
               ? fetched_find(l, b, ns, type, out_universe)
               : universe_find(l, b, ns, type, name, out_universe);
}

/* `facts` has room for one per type, and lives as long as the plan. */
static int pin(struct atlas *l, struct bundle *b, int64_t ns, qp_str version,
               struct carto_plan *plan, struct carto_facts *facts, struct universe **universes,
               struct qp_err *err)
{
    for (size_t i = 0; i < plan->request.use_count; i++) {
        const struct carto_type *type = plan->uses[i].type;
        qp_str name = atlas_universe_of(version, type->name);
        struct universe *u = NULL;
        if (str_is_none(name) || type->external != NULL) {
            continue;
        }
        QP_TRY(find_universe(l, b, ns, type, name, &u));
        if (u == NULL) {
            return err_set(err, QP_E_NOT_FOUND,
                           "the lists '%s@%.*s' that this traversal began with are gone",
                           type->name, STR_ARG(name));
        }
        set_facts(&plan->uses[i], u, name, &facts[i]);
        if (universes != NULL) {
            universes[i] = u;
            u->used++;
        }
    }
    return QP_OK;
}

int atlas_pin(struct atlas *l, struct bundle *b, int64_t ns, qp_str version,
              struct carto_plan *plan, struct qp_err *err)
{
    struct carto_facts *facts =
        arena_alloc(&b->commit->arena, (plan->request.use_count + 1) * sizeof(struct carto_facts));
    return facts == NULL ? QP_E_NOMEM : pin(l, b, ns, version, plan, facts, NULL, err);
}

/* ------------------------------------------------------------------------------------------- plans */

static int plan_fill(struct atlas *l, struct bundle *b, const struct plan_of *of,
                     struct kept_plan *p)
{
    struct registry r = {.arena = &p->arena, .ns = of->job.ns, .bundle = b};
    struct plan_types types;
    if (!arena_copy(&p->arena, of->body, &p->body) ||
        !arena_copy(&p->arena, of->version, &p->version)) {
        return QP_E_NOMEM;
    }
    types = l->types;
    if (!str_is_none(p->version)) {
        QP_TRY(registry_types(&r, &l->types, p->version, &types, NULL));
    }
    QP_TRY(plan_read(&l->env, &p->arena, &types, p->body, &p->plan, NULL));
    p->universes = arena_alloc(&p->arena, (types.count + 1) * sizeof(struct universe *));
    p->facts = arena_alloc(&p->arena, (types.count + 1) * sizeof(struct carto_facts));
    if (p->universes == NULL || p->facts == NULL) {
        return QP_E_NOMEM;
    }
    return pin(l, b, of->job.ns, p->version, &p->plan, p->facts, p->universes, NULL);
}

static int plan_make(struct atlas *l, struct bundle *b, const struct plan_of *of,
                     struct kept_plan **out_plan)
{
    struct kept_plan *p = mem_alloc(&l->env, sizeof *p);
    int rc;
    if (p == NULL) {
        return QP_E_NOMEM;
    }
    *p = (struct kept_plan){.job = of->job};
    arena_init(&p->arena, &l->env, 0);
    rc = plan_fill(l, b, of, p);
    if (rc != QP_OK) {
        plan_free(l, p);
        return rc;
    }
    p->next = l->plans;
    l->plans = p;
    *out_plan = p;
    return QP_OK;
}

static bool is_of(const struct kept_plan *p, const struct plan_of *of)
{
    return p->job.ns == of->job.ns && p->job.job == of->job.job && str_equal(p->body, of->body) &&
           str_equal(p->version, of->version);
}

int atlas_plan(struct atlas *l, struct bundle *b, const struct plan_of *of,
               const struct carto_plan **out_plan)
{
    struct kept_plan *p = l->plans;
    while (p != NULL && !is_of(p, of)) {
        p = p->next;
    }
    if (p == NULL) {
        QP_TRY(plan_make(l, b, of, &p));
    }
    for (size_t i = 0; i < p->plan.request.use_count; i++) {
        if (p->universes[i] != NULL) {
            p->universes[i]->bundle = b;
        }
    }
    p->asked = ++l->clock;
    *out_plan = &p->plan;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------ tidying */

static void drop_oldest_plan(struct atlas *l)
{
    struct kept_plan **oldest = &l->plans;
    struct kept_plan *gone;
    for (struct kept_plan **p = &l->plans; *p != NULL; p = &(*p)->next) {
        oldest = (*p)->asked < (*oldest)->asked ? p : oldest;
    }
    gone = *oldest;
    *oldest = gone->next;
    plan_free(l, gone);
}

/* One that no plan uses; false: all are used. */
static bool drop_oldest_universe(struct atlas *l)
{
    struct universe **oldest = NULL;
    struct universe *gone;
    for (struct universe **u = &l->universes; *u != NULL; u = &(*u)->next) {
        if ((*u)->used == 0 && (oldest == NULL || (*u)->asked < (*oldest)->asked)) {
            oldest = u;
        }
    }
    if (oldest == NULL) {
        return false;
    }
    gone = *oldest;
    *oldest = gone->next;
    universe_free(l, gone);
    return true;
}

void atlas_tidy(struct atlas *l)
{
    size_t plans = 0;
    size_t universes = 0;
    for (const struct kept_plan *p = l->plans; p != NULL; p = p->next) {
        plans++;
    }
    for (; plans > LIMIT_CARTO_PLANS; plans--) {
        drop_oldest_plan(l);
    }
    for (struct universe *u = l->universes; u != NULL; u = u->next) {
        fetched_tidy(u);
        universes++;
    }
    while (universes > LIMIT_CARTO_UNIVERSES && drop_oldest_universe(l)) {
        universes--;
    }
}

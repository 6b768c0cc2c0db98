/* registry.c - definitions of external types, in and out of the store (see registry.h) */
#include "carto/registry.h"

#include "kernel/step.h"

#define PREFIX "type:"
#define PREFIX_SIZE (sizeof PREFIX - 1)
#define DEFINITION QP_STR("definition")

bool version_next(qp_str *version, qp_str *out_type, qp_str *out_name)
{
    while (version->n > 0) {
        const char *comma = memchr(version->p, ',', version->n);
        size_t n = comma == NULL ? version->n : (size_t)(comma - version->p);
        const char *at = memchr(version->p, '@', n);
        qp_str part = {version->p, n};
        n += comma == NULL ? 0 : 1;
        *version = (qp_str){version->p + n, version->n - n};
        if (at != NULL) {
            *out_type = (qp_str){part.p, (size_t)(at - part.p)};
            *out_name = (qp_str){at + 1, part.n - out_type->n - 1};
            return true;
        }
    }
    return false;
}

/* ----------------------------------------------------------------------------------------- reading */

/* A universe of a definition: of which type, and by which number. */
struct entry {
    struct entry *next;
    int64_t universe;
    qp_str name; /* of the type */
};

struct entries {
    struct arena *arena;
    struct entry *first;
    struct entry **last;
    size_t count;
};

static int keep_entry(void *context, const void *row)
{
    struct entries *e = context;
    const struct universe_row *u = row;
    qp_str name;
    struct entry *entry;
    if (u->type.n <= PREFIX_SIZE || memcmp(u->type.p, PREFIX, PREFIX_SIZE) != 0 ||
        (u->state != UNIVERSE_CURRENT && u->state != UNIVERSE_FORMER)) {
        return QP_OK;
    }
    name = (qp_str){u->type.p + PREFIX_SIZE, u->type.n - PREFIX_SIZE};
    entry = ARENA_NEW(e->arena, struct entry);
    if (entry == NULL || !arena_copy(e->arena, name, &entry->name)) {
        return QP_E_NOMEM;
    }
    entry->universe = u->universe;
    *e->last = entry;
    e->last = &entry->next;
    e->count++;
    return QP_OK;
}

static int each_universe(const struct registry *r, const struct scan *scan, struct entries *out)
{
    *out = (struct entries){.arena = r->arena};
    out->last = &out->first;
    return r->bundle != NULL ? bundle_each(r->bundle, scan, out, keep_entry)
                             : store_scan(r->store, scan, out, keep_entry, NULL);
}

/* All that are current. */
static int all_entries(const struct registry *r, struct entries *out)
{
    struct universe_row like = {.ns = r->ns};
    struct scan scan = {.table = TABLE_universe,
                        .index = INDEX_universe_current,
                        .prefix = &like,
                        .prefix_count = 1,
                        .limit = SIZE_MAX};
    return each_universe(r, &scan, out);
}

/* The one of this name; of no universe: the current one. */
static int one_entry(const struct registry *r, qp_str name, qp_str universe, struct entries *out)
{
    struct universe_row like = {.ns = r->ns, .name = universe};
    bool is_current = str_is_none(universe);
    struct scan scan = {.table = TABLE_universe,
                        .index = is_current ? INDEX_universe_current : INDEX_universe_name,
                        .prefix = &like,
                        .prefix_count = is_current ? 2 : 3,
                        .limit = 1};
    QP_TRY(carto_print(r->arena, &like.type, PREFIX "%.*s", STR_ARG(name)));
    return each_universe(r, &scan, out);
}

static int read_definition(const struct registry *r, const struct entry *entry,
                           const struct carto_external **out)
{
    struct fact_row key = {
        .ns = r->ns, .universe = entry->universe, .kind = FACT_VALUE, .name = DEFINITION};
    const void *row = NULL;
    int rc = r->bundle != NULL ? bundle_get(r->bundle, TABLE_fact, &key, &row)
                               : store_get(r->store, r->arena, TABLE_fact, &key, &row, NULL);
    QP_TRY(rc == QP_E_NOT_FOUND ? QP_OK : rc);
    if (row == NULL) {
        return QP_E_CORRUPT;
    }
    rc = external_read(r->arena, entry->name, ((const struct fact_row *)row)->value, out, NULL);
    return rc == QP_OK || rc == QP_E_NOMEM ? rc : QP_E_CORRUPT;
}

static bool is_base(const struct plan_types *base, qp_str type)
{
    for (size_t i = 0; i < base->count; i++) {
        if (str_equal(str_from(base->list[i]->name), type)) {
            return true;
        }
    }
    return false;
}

/* The entries of a version. */
static int version_entries(const struct registry *r, const struct plan_types *base, qp_str version,
                           struct entries *out, struct qp_err *err)
{
    qp_str type;
    qp_str name;
    *out = (struct entries){.arena = r->arena};
    out->last = &out->first;
    while (version_next(&version, &type, &name)) {
        struct entries one;
        if (is_base(base, type)) {
            continue;
        }
        QP_TRY(one_entry(r, type, name, &one));
        if (one.first == NULL) {
            return err_set(err, QP_E_NOT_FOUND,
                           "the package type '%.*s', as this traversal began with it, is gone",
                           STR_ARG(type));
        }
        *out->last = one.first;
        out->last = &one.first->next;
        out->count++;
    }
    return QP_OK;
}

int registry_types(const struct registry *r, const struct plan_types *base, qp_str version,
                   struct plan_types *out_types, struct qp_err *err)
{
    const struct carto_type **list;
    struct entries entries;
    size_t count = base->count;
    QP_TRY(str_is_none(version) ? all_entries(r, &entries)
                                : version_entries(r, base, version, &entries, err));
    if (entries.count == 0) {
        *out_types = *base;
        return QP_OK;
    }
    list = arena_alloc(r->arena, (base->count + entries.count) * sizeof *list);
    if (list == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < base->count; i++) {
        list[i] = base->list[i];
    }
    for (const struct entry *e = entries.first; e != NULL; e = e->next) {
        const struct carto_external *external = NULL;
        QP_TRY(read_definition(r, e, &external));
        list[count++] = &external->type;
    }
    *out_types = (struct plan_types){list, count};
    return QP_OK;
}

int registry_find(const struct registry *r, qp_str name, const struct carto_external **out_external,
                  struct qp_err *err)
{
    struct entries found;
    QP_TRY(external_check_name(name, err));
    QP_TRY(one_entry(r, name, QP_NONE, &found));
    return found.first == NULL
               ? err_set(err, QP_E_NOT_FOUND, "no package type '%.*s' is registered", STR_ARG(name))
               : read_definition(r, found.first, out_external);
}

/* ---------------------------------------------------------------------------------------- changing */

static int define(const struct request_type *r, struct bundle *b)
{
    struct op *open = bundle_op(b, OP_universe_open);
    struct op put = {.kind = OP_fact_put,
                     .fact_put = {.ns = r->ns, .fact_kind = FACT_VALUE, .name = DEFINITION}};
    struct op seal = {.kind = OP_universe_seal, .universe_seal = {.ns = r->ns, .facts = 1}};
    struct arena *a = &b->commit->arena;
    qp_str type;
    if (open == NULL) {
        return b->commit->rc;
    }
    QP_TRY(carto_print(a, &type, PREFIX "%.*s", STR_ARG(r->name)));
    open->universe_open =
        (struct op_universe_open){.ns = r->ns, .type = type, .name = r->definition->universe};
    QP_TRY(bundle_run(b));
    put.fact_put.universe = seal.universe_seal.universe = open->universe_open.out_universe;
    if (open->universe_open.out_state == UNIVERSE_FILLING) {
        QP_TRY(external_write(a, r->definition, &put.fact_put.value));
        QP_TRY(step_op(b, &put));
    }
    QP_TRY(step_op(b, &seal));
    return bundle_run(b);
}

static int take_out(struct request_type *r, struct bundle *b, const struct registry *registry)
{
    struct op op = {.kind = OP_universe_retire, .universe_retire.ns = r->ns};
    struct entries found;
    struct qp_err err = {0};
    QP_TRY(one_entry(registry, r->name, QP_NONE, &found));
    if (found.first == NULL) {
        (void)err_set(&err, QP_E_NOT_FOUND, "no package type '%.*s' is registered",
                      STR_ARG(r->name));
        return refusal_keep(&r->refusal, b, QP_E_NOT_FOUND, &err);
    }
    op.universe_retire.universe = found.first->universe;
    QP_TRY(step_op(b, &op));
    return bundle_run(b);
}

/* Counted behind the change: it has the namespace's turn. */
static int check_count(struct request_type *r, struct bundle *b, const struct registry *registry)
{
    struct entries all;
    struct qp_err err = {0};
    QP_TRY(all_entries(registry, &all));
    if (all.count <= LIMIT_CARTO_TYPES) {
        return QP_OK;
    }
    (void)err_set(
        &err, QP_E_LIMIT,
        "a namespace has at most 64 registered package types (LIMIT_CARTO_TYPES): delete one first");
    return refusal_keep(&r->refusal, b, QP_E_LIMIT, &err);
}

static int type_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_type *r = (struct request_type *)c;
    struct registry registry = {.arena = &b->commit->arena, .ns = r->ns, .bundle = b};
    (void)e;
    r->refusal = (struct refusal){0};
    if (r->definition == NULL) {
        return take_out(r, b, &registry);
    }
    QP_TRY(define(r, b));
    return check_count(r, b, &registry);
}

void request_type(struct request_type *r)
{
    r->command.label = "package type";
    r->command.decide = type_decide;
}

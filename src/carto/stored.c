/* stored.c - facts out of rows (see stored.h) */
#include "carto/stored.h"

static int keep_number(void *context, const void *row)
{
    *(int64_t *)context = ((const struct universe_row *)row)->universe;
    return QP_OK;
}

int stored_open(struct stored_facts *f, struct store *s, struct arena *a,
                const struct stored_of *of, struct qp_err *err)
{
    bool is_current = str_is_none(of->universe);
    struct universe_row like = {.ns = of->ns, .type = of->type, .name = of->universe};
    struct scan scan = {.table = TABLE_universe,
                        .index = is_current ? INDEX_universe_current : INDEX_universe_name,
                        .prefix = &like,
                        .prefix_count = is_current ? 2 : 3,
                        .limit = 1};
    *f = (struct stored_facts){.store = s, .arena = a, .ns = of->ns, .err = err};
    f->sources = ARENA_NEW(a, struct stored_sources);
    if (f->sources == NULL) {
        return QP_E_NOMEM;
    }
    QP_TRY(store_scan(s, &scan, &f->universe, keep_number, err));
    return f->universe != 0 ? QP_OK
                            : err_set(err, QP_E_NOT_FOUND,
                                      "no lists of '%.*s' are imported yet: run quipu carto import "
                                      "first",
                                      STR_ARG(of->type));
}

static int read_fact(const struct stored_facts *f, enum fact_kind kind, qp_str name,
                     qp_str *out_value)
{
    struct fact_row key = {.ns = f->ns, .universe = f->universe, .kind = kind, .name = name};
    const void *row = NULL;
    int rc = store_get(f->store, f->arena, TABLE_fact, &key, &row, NULL);
    if (rc == QP_OK) {
        *out_value = ((const struct fact_row *)row)->value;
    }
    return rc;
}

static int get(const void *context, qp_str name, qp_str *out_value)
{
    return read_fact(context, FACT_VALUE, name, out_value);
}

struct name_row {
    struct arena *arena;
    qp_str name;
};

static int keep_name(void *context, const void *row)
{
    struct name_row *n = context;
    return arena_copy(n->arena, ((const struct fact_row *)row)->name, &n->name) ? QP_OK
                                                                                : QP_E_NOMEM;
}

static int next(const void *context, qp_str after, qp_str *out_name)
{
    const struct stored_facts *f = context;
    struct fact_row from = {
        .ns = f->ns, .universe = f->universe, .kind = FACT_VALUE, .name = after};
    struct name_row n = {.arena = f->arena};
    struct scan scan = {.table = TABLE_fact,
                        .index = -1,
                        .prefix = &from,
                        .prefix_count = 3,
                        .after = str_is_none(after) ? NULL : &from,
                        .limit = 1};
    QP_TRY(store_scan(f->store, &scan, &n, keep_name, NULL));
    if (str_is_none(n.name)) {
        return QP_E_NOT_FOUND;
    }
    *out_name = n.name;
    return QP_OK;
}

/* The lines of the target's value, which stand in byte order; the one behind `after`. */
static int source(const void *context, qp_str target, qp_str after, qp_str *out_source)
{
    const struct stored_facts *f = context;
    qp_str rest;
    if (!str_equal(f->sources->target, target)) {
        QP_TRY(read_fact(f, FACT_SOURCES, target, &rest));
        *f->sources = (struct stored_sources){target, rest};
    }
    rest = f->sources->lines;
    if (!str_is_none(after) && after.p >= rest.p && after.p < rest.p + rest.n) {
        size_t taken = (size_t)(after.p - rest.p) + after.n + 1;
        rest = (qp_str){rest.p + taken, rest.n - taken};
    }
    while (rest.n > 0) {
        const char *end = memchr(rest.p, '\n', rest.n);
        qp_str line = {rest.p, end == NULL ? rest.n : (size_t)(end - rest.p)};
        size_t taken = line.n + (end == NULL ? 0 : 1);
        if (str_is_none(after) || str_compare(line, after) > 0) {
            *out_source = line;
            return QP_OK;
        }
        rest = (qp_str){rest.p + taken, rest.n - taken};
    }
    return QP_E_NOT_FOUND;
}

struct carto_facts stored_reader(struct stored_facts *f)
{
    return (struct carto_facts){.context = f, .get = get, .next = next, .source = source};
}

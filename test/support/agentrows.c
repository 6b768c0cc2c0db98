/* agentrows.c - the rows of one instance in two ordered maps (see agentrows.h) */
#include "support/agentrows.h"

#include "base/mem.h"

/* A value: its size, then its bytes. */
struct kept {
    size_t n;
    char p[];
};

void agentrows_init(struct agentrows *rows, const struct qp_env *env)
{
    *rows = (struct agentrows){0};
    omap_init(&rows->data, env);
    omap_init(&rows->works, env);
}

static void free_all(struct omap *map)
{
    for (struct omap_node *n = omap_seek(map, QP_STR("")); n != NULL; n = omap_next(n)) {
        mem_free(map->env, omap_value(n));
    }
    omap_done(map);
}

void agentrows_done(struct agentrows *rows)
{
    free_all(&rows->data);
    free_all(&rows->works);
}

static int copy_value(struct arena *arena, const struct kept *kept, qp_str *out)
{
    return arena_copy(arena, (qp_str){kept->p, kept->n}, out) ? QP_OK : QP_E_NOMEM;
}

static int get(void *context, struct arena *arena, bool works, qp_str name, qp_str *out_value)
{
    struct agentrows *rows = context;
    const struct kept *kept = omap_get(works ? &rows->works : &rows->data, name);
    rows->read++;
    *out_value = QP_NONE;
    return kept == NULL ? QP_OK : copy_value(arena, kept, out_value);
}

static struct omap_node *first_of(const struct omap *map, const struct row_range *range)
{
    return range->backwards ? omap_seek_before(map, range->after) : omap_seek(map, range->after);
}

static struct omap_node *next_of(const struct omap *map, const struct row_range *range,
                                 const struct omap_node *node)
{
    return range->backwards ? omap_seek_before(map, omap_key(node)) : omap_next(node);
}

static int each(void *context, const struct row_range *range, void *visitor,
                int (*visit)(void *visitor, qp_str name, qp_str value))
{
    struct agentrows *rows = context;
    const struct omap *map = range->works ? &rows->works : &rows->data;
    struct omap_node *node = first_of(map, range);
    for (size_t i = 0; i < range->limit && node != NULL; i++, node = next_of(map, range, node)) {
        qp_str name;
        qp_str value;
        rows->read++;
        if (!arena_copy(range->arena, omap_key(node), &name)) {
            return QP_E_NOMEM;
        }
        QP_TRY(copy_value(range->arena, omap_value(node), &value));
        QP_TRY(visit(visitor, name, value));
    }
    return QP_OK;
}

static int set(struct agentrows *rows, struct omap *map, qp_str name, qp_str value)
{
    void *old = NULL;
    rows->written++;
    if (str_is_none(value)) {
        mem_free(map->env, omap_delete(map, name));
        return QP_OK;
    }
    struct kept *kept = mem_alloc(map->env, sizeof(*kept) + value.n + 1);
    if (kept == NULL) {
        return QP_E_NOMEM;
    }
    kept->n = value.n;
    memcpy(kept->p, value.p, value.n);
    int rc = omap_put(map, name, kept, &old);
    mem_free(map->env, rc == QP_OK ? old : kept);
    return rc;
}

static int put(void *context, qp_str name, qp_str value)
{
    struct agentrows *rows = context;
    return set(rows, &rows->data, name, value);
}

static int put_work(void *context, qp_str address, const struct status *status, qp_str definition)
{
    struct agentrows *rows = context;
    (void)status;
    return set(rows, &rows->works, address, definition);
}

struct row_source agentrows_source(struct agentrows *rows)
{
    return (struct row_source){.context = rows, .get = get, .each = each};
}

struct row_sink agentrows_sink(struct agentrows *rows)
{
    return (struct row_sink){.context = rows, .put = put, .work = put_work};
}

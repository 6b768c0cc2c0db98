/* facts.c - a universe in memory: sorted arrays, searched by halves (see facts.h) */
#include "carto/facts.h"

#include <stdlib.h>

void facts_table_init(struct facts_table *t, const struct qp_env *env)
{
    *t = (struct facts_table){.env = env};
    arena_init(&t->memory, env, LIMIT_CARTO_UNIVERSE_SIZE);
}

void facts_table_done(struct facts_table *t)
{
    mem_free(t->env, t->facts);
    mem_free(t->env, t->refs);
    arena_done(&t->memory);
    *t = (struct facts_table){0};
}

/* ---------------------------------------------------------------------------------------- filling */

#define FIRST_ROOM 1024

/* Room for one more of `size` bytes each. */
static int grow(const struct qp_env *env, void **array, size_t *room, size_t count, size_t size)
{
    size_t wanted = *room == 0 ? FIRST_ROOM : *room * 2;
    size_t bytes = 0;
    void *larger = NULL;
    if (count < *room) {
        return QP_OK;
    }
    if (!size_mul(wanted, size, &bytes)) {
        return QP_E_NOMEM;
    }
    larger = mem_resize(env, *array, bytes);
    if (larger == NULL) {
        return QP_E_NOMEM;
    }
    *array = larger;
    *room = wanted;
    return QP_OK;
}

int facts_table_add(struct facts_table *t, qp_str name, qp_str value)
{
    void *array = t->facts;
    struct fact f = {0};
    QP_ASSERT(!t->is_sealed);
    QP_ASSERT(t->fact_count == 0 || str_compare(t->facts[t->fact_count - 1].name, name) < 0);
    QP_TRY(grow(t->env, &array, &t->fact_room, t->fact_count, sizeof(struct fact)));
    t->facts = array;
    if (!arena_copy(&t->memory, name, &f.name) || !arena_copy(&t->memory, value, &f.value)) {
        return QP_E_NOMEM;
    }
    t->facts[t->fact_count++] = f;
    return QP_OK;
}

int facts_table_refer(struct facts_table *t, qp_str target, qp_str source)
{
    void *array = t->refs;
    struct fact_ref r = {0};
    QP_ASSERT(!t->is_sealed);
    QP_TRY(grow(t->env, &array, &t->ref_room, t->ref_count, sizeof(struct fact_ref)));
    t->refs = array;
    if (!arena_copy(&t->memory, target, &r.target) || !arena_copy(&t->memory, source, &r.source)) {
        return QP_E_NOMEM;
    }
    t->refs[t->ref_count++] = r;
    return QP_OK;
}

static int compare_refs(const void *a, const void *b)
{
    const struct fact_ref *x = a;
    const struct fact_ref *y = b;
    int order = str_compare(x->target, y->target);
    return order != 0 ? order : str_compare(x->source, y->source);
}

static void sort_refs(struct facts_table *t)
{
    size_t kept = 0;
    if (t->ref_count == 0) {
        return;
    }
    qsort(t->refs, t->ref_count, sizeof(struct fact_ref), compare_refs);
    for (size_t i = 0; i < t->ref_count; i++) {
        if (kept == 0 || compare_refs(&t->refs[kept - 1], &t->refs[i]) != 0) {
            t->refs[kept++] = t->refs[i];
        }
    }
    t->ref_count = kept;
}

static void hash_text(struct hash_stream *h, qp_str text)
{
    unsigned char size[8];
    for (size_t i = 0; i < sizeof(size); i++) {
        size[i] = (unsigned char)(((uint64_t)text.n >> (8 * i)) & 0xFF);
    }
    hash_stream_add(h, size, sizeof(size));
    hash_stream_add(h, text.p, text.n);
}

void facts_table_seal(struct facts_table *t)
{
    struct hash_stream h;
    t->is_sealed = true;
    sort_refs(t);
    hash_stream_init(&h);
    for (size_t i = 0; i < t->fact_count; i++) {
        hash_text(&h, t->facts[i].name);
        hash_text(&h, t->facts[i].value);
    }
    hash_stream_end(&h, t->universe);
}

void facts_table_name(struct facts_table *t, qp_str universe)
{
    QP_ASSERT(t->universe[0] == '\0' && t->ref_count == 0);
    QP_ASSERT(universe.n > 0 && universe.n < sizeof t->universe);
    memcpy(t->universe, universe.p, universe.n);
    t->universe[universe.n] = '\0';
}

/* ---------------------------------------------------------------------------------------- reading */

/* The first fact whose name is not before `name`, or behind it when `is_behind`. */
static size_t find(const struct facts_table *t, qp_str name, bool is_behind)
{
    size_t low = 0;
    size_t high = t->fact_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = str_compare(t->facts[middle].name, name);
        if (order < 0 || (is_behind && order == 0)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int table_get(const void *context, qp_str name, qp_str *out_value)
{
    const struct facts_table *t = context;
    size_t at = find(t, name, false);
    if (at == t->fact_count || !str_equal(t->facts[at].name, name)) {
        return QP_E_NOT_FOUND;
    }
    *out_value = t->facts[at].value;
    return QP_OK;
}

static int table_next(const void *context, qp_str after, qp_str *out_name)
{
    const struct facts_table *t = context;
    size_t at = str_is_none(after) ? 0 : find(t, after, true);
    if (at == t->fact_count) {
        return QP_E_NOT_FOUND;
    }
    *out_name = t->facts[at].name;
    return QP_OK;
}

static int table_source(const void *context, qp_str target, qp_str after, qp_str *out_source)
{
    const struct facts_table *t = context;
    const struct fact_ref wanted = {target, after};
    size_t low = 0;
    size_t high = t->ref_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_refs(&t->refs[middle], &wanted) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == t->ref_count || !str_equal(t->refs[low].target, target)) {
        return QP_E_NOT_FOUND;
    }
    *out_source = t->refs[low].source;
    return QP_OK;
}

struct carto_facts facts_table_reader(const struct facts_table *t)
{
    QP_ASSERT(t->universe[0] != '\0');
    return (struct carto_facts){.context = t,
                                .universe = str_from(t->universe),
                                .get = table_get,
                                .next = table_next,
                                .source = table_source};
}

/* ------------------------------------------------------------------------------------ nearest names */

struct near {
    qp_str name;
    size_t distance;
};

/* Keeps the nearest ones in order; of equally near ones the first. */
static void offer(struct near best[LIMIT_CARTO_NEAREST], size_t *count, struct near candidate)
{
    size_t at = *count;
    while (at > 0 && best[at - 1].distance > candidate.distance) {
        if (at < LIMIT_CARTO_NEAREST) {
            best[at] = best[at - 1];
        }
        at--;
    }
    if (at < LIMIT_CARTO_NEAREST) {
        best[at] = candidate;
        *count += *count < LIMIT_CARTO_NEAREST ? 1 : 0;
    }
}

static int write_names(struct arena *a, const struct near *best, size_t count, qp_str *out_names)
{
    struct buf text;
    bool is_copied = false;
    buf_init(&text, a->env, 0);
    for (size_t i = 0; i < count; i++) {
        buf_text(&text, i > 0 ? ", " : "");
        buf_str(&text, best[i].name);
    }
    is_copied = buf_rc(&text) == QP_OK && arena_copy(a, buf_slice(&text), out_names);
    buf_done(&text);
    return is_copied ? QP_OK : QP_E_NOMEM;
}

int facts_nearest(const struct carto_facts *f, struct arena *a, qp_str name, qp_str *out_names)
{
    struct near best[LIMIT_CARTO_NEAREST];
    size_t count = 0;
    size_t furthest = name.n / 3 + 1;
    qp_str candidate = QP_NONE;
    int rc = f->next(f->context, QP_NONE, &candidate);
    while (rc == QP_OK) {
        struct near n = {candidate, 0};
        size_t difference = candidate.n > name.n ? candidate.n - name.n : name.n - candidate.n;
        if (difference <= furthest) {
            n.distance = str_distance(name, candidate);
            if (n.distance <= furthest) {
                offer(best, &count, n);
            }
        }
        rc = f->next(f->context, candidate, &candidate);
    }
    if (rc != QP_E_NOT_FOUND) {
        return rc;
    }
    *out_names = QP_NONE;
    return count == 0 ? QP_OK : write_names(a, best, count, out_names);
}

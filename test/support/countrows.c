/* countrows.c - the provider's functions, with a count around them (see countrows.h) */
#include "support/countrows.h"

#include "store/provider.h"
#include "store/store_internal.h"

static const struct provider_calls *inner;
static struct provider_calls counted;
static struct countrows counts;

/* What a scan hands on. */
struct visiting {
    void *context;
    store_visit visit;
};

static int visit_row(void *context, const void *row)
{
    const struct visiting *v = context;
    counts.read++;
    return v->visit(v->context, row);
}

static int count_scan(struct provider *p, const struct scan *scan, void *context, store_visit visit,
                      struct qp_err *err)
{
    struct visiting v = {context, visit};
    return inner->scan(p, scan, &v, visit_row, err);
}

static int count_load(struct provider *p, struct arena *arena, enum table_id table, const void *key,
                      void **out_row, struct qp_err *err)
{
    int rc = inner->load(p, arena, table, key, out_row, err);
    counts.read += rc == QP_OK && *out_row != NULL;
    return rc;
}

static int count_peek(struct provider *p, struct arena *arena, enum table_id table, const void *key,
                      void **out_row, struct qp_err *err)
{
    int rc = inner->peek(p, arena, table, key, out_row, err);
    counts.read += rc == QP_OK && *out_row != NULL;
    return rc;
}

static int count_load_all(struct provider *p, struct arena *arena, enum table_id table,
                          const void *const *keys, size_t count, void **out_rows,
                          struct qp_err *err)
{
    int rc = inner->load_all(p, arena, table, keys, count, out_rows, err);
    for (size_t i = 0; rc == QP_OK && i < count; i++) {
        counts.read += out_rows[i] != NULL;
    }
    return rc;
}

struct expecting {
    void *context;
    provider_visit visit;
};

static int visit_expected(void *context, enum table_id table, const void *row)
{
    const struct expecting *e = context;
    counts.read++;
    return e->visit(e->context, table, row);
}

static int count_expect(struct provider *p, const struct job_list *locked,
                        const struct job_list *fetched, void *context, provider_visit visit,
                        bool *out_left, struct qp_err *err)
{
    struct expecting e = {context, visit};
    return inner->expect(p, locked, fetched, &e, visit_expected, out_left, err);
}

static int count_write(struct provider *p, enum table_id table, const void *before,
                       const void *after, struct qp_err *err)
{
    counts.written++;
    return inner->write(p, table, before, after, err);
}

static int count_write_all(struct provider *p, enum table_id table, const void *const *before,
                           const void *const *after, size_t count, struct qp_err *err)
{
    counts.written += (int64_t)count;
    return inner->write_all(p, table, before, after, count, err);
}

void countrows_begin(struct store *s)
{
    inner = s->provider->calls;
    counts = (struct countrows){0};
    counted = *inner;
    counted.load = count_load;
    counted.peek = inner->peek == NULL ? NULL : count_peek;
    counted.load_all = inner->load_all == NULL ? NULL : count_load_all;
    counted.scan = count_scan;
    counted.expect = inner->expect == NULL ? NULL : count_expect;
    counted.write = count_write;
    counted.write_all = inner->write_all == NULL ? NULL : count_write_all;
    s->provider->calls = &counted;
}

void countrows_end(struct store *s)
{
    s->provider->calls = inner;
}

struct countrows countrows_now(void)
{
    return counts;
}

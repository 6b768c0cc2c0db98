/* txn_scan.c - ranges of rows, as the ops of a commit have left them (see txn.h)
 *
 * The provider looks into its indexes, so what has changed in a table is written before the table is scanned.
 */
#include "store/txn_entry.h"
#include "store/txn_flush.h"

struct gather {
    struct txn *t;
    enum table_id table;
    struct bundle_rows *out;
    size_t capacity;
    size_t size;
};

/* Where others write, a row that was read under its job's lock may be another by the time that a scan meets
 * it: a claim changes messages without the job. */
static bool is_outdated(const struct txn *t, const struct txn_entry *e, const void *row)
{
    const struct column *rev = txn_rev_column(e->table);
    return t->provider->shared && !tables[e->table].additive &&
           (e->stored == NULL || row_i64(rev, e->stored) != row_i64(rev, row));
}

/* A row of a scan: what the ops know already beats what was read, and what was read becomes
 * known. */
static int gather_row(void *context, const void *row)
{
    struct gather *g = context;
    struct txn *t = g->t;
    uint64_t hash;
    const struct txn_slot *slot = txn_slot_of(t, g->table, row, &hash);
    struct txn_entry *e = slot == NULL ? NULL : slot->entry;
    if (slot == NULL) {
        return t->rc;
    }
    if (g->out->count > 0 && g->size > LIMIT_SCAN_SIZE) {
        g->out->cut = true;
        return QP_E_LIMIT; /* ends the scan */
    }
    g->size += row_text_size(g->table, row);
    if (e == NULL || e->peeked) { /* what was only peeked at has been read again, and better, now */
        e = e == NULL ? txn_entry_new(t, g->table, hash) : e;
        if (e == NULL) {
            return t->rc;
        }
        e->peeked = false;
        e->stored = row_copy(t->arena, g->table, row);
        e->current = e->stored;
        if (e->stored == NULL) {
            (void)txn_fail_memory(t); /* rc carries it */
            return t->rc;
        }
    }
    QP_ASSERT(g->out->count < g->capacity);
    if (is_outdated(t, e, row)) {
        t->rc = err_set(t->err, QP_E_CONFLICT, "%s: the row has changed since it was read",
                        tables[g->table].name);
        return t->rc;
    }
    if (e->current == NULL) {
        return txn_corrupt(t, g->table, "a row that was deleted is still found");
    }
    g->out->rows[g->out->count++] = e->current;
    return QP_OK;
}

int txn_scan(struct txn *t, const struct scan *scan, struct bundle_rows *out_rows)
{
    struct gather g = {t, scan->table, out_rows, scan->limit, 0};
    QP_ASSERT(scan->limit <= LIMIT_BUNDLE_OPS);
    *out_rows = (struct bundle_rows){0};
    if (t->rc != QP_OK || txn_reach(t) != QP_OK || txn_table_touch(t, scan->table) != QP_OK ||
        txn_table_flush(t, scan->table) != QP_OK) {
        return t->rc;
    }
    out_rows->rows = arena_alloc(t->arena, scan->limit * sizeof *out_rows->rows);
    if (out_rows->rows == NULL) {
        (void)txn_fail_memory(t); /* rc carries it */
        return t->rc;
    }
    t->rc = t->provider->calls->scan(t->provider, scan, &g, gather_row, t->err);
    t->rc = t->rc == QP_E_LIMIT && out_rows->cut ? QP_OK : t->rc;
    return t->rc;
}

int txn_each(struct txn *t, const struct scan *scan, void *context, store_visit visit)
{
    struct scan free = *scan;
    free.peek = true;
    if (t->rc != QP_OK || txn_reach(t) != QP_OK || txn_table_touch(t, scan->table) != QP_OK ||
        txn_table_flush(t, scan->table) != QP_OK) {
        return t->rc;
    }
    t->rc = t->provider->calls->scan(t->provider, &free, context, visit, t->err);
    return t->rc;
}

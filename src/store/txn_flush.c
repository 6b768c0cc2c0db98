/* txn_flush.c - from the rows of a commit to the provider: each changed row once (see txn.h) */
#include "store/txn_flush.h"
#include "store/txn_entry.h"

#include "base/failpoint.h"

static const char *const write_points[TABLE_COUNT] = {
#define WRITE_POINT(table, list) "write." #table,
    STORE_TABLES(WRITE_POINT)
#undef WRITE_POINT
};

/* Remembers the earliest time at which a row that was written asks for something. */
static void note_due(struct txn *t, const struct txn_entry *e)
{
    int64_t due = e->current == NULL ? 0 : row_due_at(e->table, e->current);
    if (due > 0 && (t->due_at == 0 || due < t->due_at)) {
        t->due_at = due;
    }
}

/* The tables that every step writes. Their digits, counts and states are checked here, for all providers; a file has no checks of its
 * own for them (ADR 47). */
static const bool checked[TABLE_COUNT] = {
    [TABLE_job] = true, [TABLE_act] = true, [TABLE_msg] = true};

/* The row is about to be written: its revision, its check, and the tests' chance to stop it. */
static int entry_prepare(struct txn *t, struct txn_entry *e)
{
    t->rc = FP(write_points[e->table]);
    if (t->rc != QP_OK) {
        return err_set(t->err, t->rc, "write %s: failpoint", tables[e->table].name);
    }
    txn_revise(e);
    if (checked[e->table] && e->current != NULL && !row_is_sound(e->table, e->current)) {
        t->rc = err_set(t->err, QP_E_INTERNAL,
                        "write %s: a digit, count or state of the row is out of its bounds",
                        tables[e->table].name);
    }
    return t->rc;
}

/* The provider has `row` now, or nothing. */
static void entry_written(struct txn *t, struct txn_entry *e, void *row)
{
    bool comes_again = row == NULL && e->current != NULL;
    e->gone_rev = comes_again ? row_i64(txn_rev_column(e->table), e->stored) : 0;
    e->stored = row;
    e->peeked = false;
    e->op_serial = 0; /* the stored row must not change in place any more */
    e->keep = true;
    t->rows_written++;
    note_due(t, e);
}

/* Writes one row when it differs from what the provider has. */
static int entry_flush(struct txn *t, struct txn_entry *e)
{
    if (e->current == e->stored || entry_prepare(t, e) != QP_OK) {
        return t->rc;
    }
    t->rc = t->provider->calls->write(t->provider, e->table, e->stored, e->current, t->err);
    if (t->rc == QP_OK) {
        entry_written(t, e, e->current);
    }
    return t->rc;
}

/* Rows of one table on their way to the provider together: all new, all changed, or all to go. */
struct batch {
    size_t count;
    struct txn_entry *entries[WRITE_ALL_MAX];
    const void *before[WRITE_ALL_MAX];
    const void *after[WRITE_ALL_MAX];
};

static int batch_flush(struct txn *t, struct batch *b)
{
    if (b->count == 0 || t->rc != QP_OK) {
        return t->rc;
    }
    t->rc = t->provider->calls->write_all(t->provider, b->entries[0]->table,
                                          b->before[0] == NULL ? NULL : b->before,
                                          b->after[0] == NULL ? NULL : b->after, b->count, t->err);
    for (size_t i = 0; i < b->count && t->rc == QP_OK; i++) {
        entry_written(t, b->entries[i], b->after[0] == NULL ? NULL : b->entries[i]->current);
    }
    b->count = 0;
    return t->rc;
}

static int batch_add(struct txn *t, struct batch *b, struct txn_entry *e, const void *after)
{
    if (entry_prepare(t, e) != QP_OK) {
        return t->rc;
    }
    b->entries[b->count] = e;
    b->before[b->count] = e->stored;
    b->after[b->count++] = after;
    return b->count == WRITE_ALL_MAX ? batch_flush(t, b) : QP_OK;
}

/* True for a row that the provider has and that will not be there, or not under its number. */
static bool must_go(const struct txn_entry *e)
{
    const struct table *t = &tables[e->table];
    const struct column *number = &t->columns[t->number];
    return e->stored != NULL && e->current != e->stored &&
           (e->current == NULL ||
            (t->number > 0 && row_i64(number, e->stored) != row_i64(number, e->current)));
}

/* Rows go before others come: a number that a bundle gave back when it failed is given out again. */
static int table_remove(struct txn *t, enum table_id table)
{
    struct batch gone;
    gone.count = 0;
    for (struct txn_entry *e = t->changed_first[table]; e != NULL; e = e->next_changed) {
        if (must_go(e) && batch_add(t, &gone, e, NULL) != QP_OK) {
            break;
        }
    }
    return batch_flush(t, &gone);
}

static int table_write_all(struct txn *t, enum table_id table)
{
    struct batch news;
    struct batch changes;
    news.count = 0;
    changes.count = 0;
    for (struct txn_entry *e = t->changed_first[table]; e != NULL && t->rc == QP_OK;
         e = e->next_changed) {
        if (e->current != e->stored) {
            QP_ASSERT(e->current != NULL); /* what goes has gone */
            (void)batch_add(t, e->stored == NULL ? &news : &changes, e,
                            e->current); /* rc carries it */
        }
    }
    (void)batch_flush(t, &changes); /* rc carries it */
    return batch_flush(t, &news);
}

/* Row by row; what could not be written yet stays on the list, when it has to wait for another
 * commit. */
static int table_write_each(struct txn *t, enum table_id table)
{
    struct txn_entry *e = t->changed_first[table];
    while (e != NULL && entry_flush(t, e) == QP_OK) {
        struct txn_entry *next = e->next_changed;
        e->listed = false;
        e->next_changed = NULL;
        e = next;
    }
    t->changed_first[table] = e;
    t->changed_last[table] = e == NULL ? NULL : t->changed_last[table];
    return t->rc;
}

static void changed_clear(struct txn *t, enum table_id table)
{
    struct txn_entry *e = t->changed_first[table];
    while (e != NULL) {
        struct txn_entry *next = e->next_changed;
        e->listed = false;
        e->next_changed = NULL;
        e = next;
    }
    t->changed_first[table] = NULL;
    t->changed_last[table] = NULL;
}

/* Each changed row once, together where the provider can. Rows of one table do not depend on each
 * other, except that two may have the same number one after the other. */
int txn_table_flush(struct txn *t, enum table_id table)
{
    if (t->provider->calls->write_all == NULL) {
        return table_write_each(t, table);
    }
    if (t->may_go[table]) {
        QP_TRY(table_remove(t, table));
    }
    QP_TRY(table_write_all(t, table));
    changed_clear(t, table);
    return QP_OK;
}

/* What everybody adds to comes last: whoever writes it is waited for from then on. */
int txn_flush(struct txn *t)
{
    QP_TRY(t->rc);
    for (int round = 0; round < 2; round++) {
        for (int table = 0; table < TABLE_COUNT; table++) {
            if (t->changed_first[table] != NULL && tables[table].additive == (round == 1)) {
                QP_TRY(txn_table_flush(t, (enum table_id)table));
            }
        }
    }
    return QP_OK;
}

/* Changes the row of the job that a changed row belongs to, if it was not changed anyway. */
static int touch_job(struct txn *t, const struct txn_entry *e)
{
    const void *row = e->current != NULL ? e->current : e->stored;
    struct job_row key = {.ns = row_i64(&tables[e->table].columns[0], row),
                          .job = row_i64(&tables[e->table].columns[1], row)};
    bool is_of_job = e->table != TABLE_msg || ((const struct msg_row *)row)->owner == OWNER_JOB;
    if (is_of_job) {
        (void)txn_edit(t, TABLE_job, &key); /* NULL: there is no such job, or rc says why */
    }
    return t->rc;
}

int txn_table_touch(struct txn *t, enum table_id table)
{
    struct txn_entry *e = t->provider->shared && tables[table].keyed_by_job && table != TABLE_job
                              ? t->changed_first[table]
                              : NULL;
    for (; e != NULL && t->rc == QP_OK; e = e->next_changed) {
        if (e->current != e->stored && (table != TABLE_msg || (e->stored == NULL && !e->beside))) {
            (void)touch_job(t, e); /* rc carries it */
        }
    }
    return t->rc;
}

int txn_touch(struct txn *t)
{
    QP_TRY(t->rc);
    for (int table = 0; table < TABLE_COUNT; table++) {
        QP_TRY(txn_table_touch(t, (enum table_id)table));
    }
    return QP_OK;
}

bool txn_is_dirty(const struct txn *t)
{
    for (int table = 0; table < TABLE_COUNT; table++) {
        for (const struct txn_entry *e = t->changed_first[table]; e != NULL; e = e->next_changed) {
            if (e->current != e->stored) {
                return true;
            }
        }
    }
    return t->rows_written > 0;
}

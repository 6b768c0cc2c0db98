/* txn_number.c - what a commit counts: definitions, numbers of a series, journal entries (see txn.h) */
#include "store/feed.h"
#include "store/txn_entry.h"

void txn_define(struct txn *t)
{
    t->defined++;
    t->defined_serial = store_serial(t->store);
}

/* Where nobody else writes the store knows it; where many do, it came with the transaction's begin. */
int txn_definitions(struct txn *t, struct definitions *out_definitions)
{
    int64_t *known = t->provider->exclusive ? store_definitions(t->store)
                     : t->provider->shared  ? &t->provider->definitions
                                            : &t->definitions;
    if (t->rc == QP_OK && *known < 0) {
        const struct definition_row *row =
            txn_get(t, TABLE_definition, &(struct definition_row){.ns = 0});
        *known = row == NULL ? 0 : row->n;
    }
    *out_definitions = (struct definitions){*known + t->defined, t->defined_serial};
    return t->rc;
}

/* The difference is written (rows.def, SUM): what it is added to does not matter. */
int txn_define_close(struct txn *t)
{
    struct definition_row row = {.ns = 0, .n = t->defined};
    struct definition_row *there;
    if (t->defined == 0 || t->rc != QP_OK) {
        return t->rc;
    }
    there = txn_edit(t, TABLE_definition, &row);
    if (there != NULL) {
        there->n += t->defined;
    } else if (t->rc == QP_OK) {
        (void)txn_add(t, TABLE_definition, &row); /* rc carries it */
    }
    if (t->rc == QP_OK) {
        int64_t *known = store_definitions(t->store);
        *known += t->provider->exclusive && *known >= 0 ? t->defined : 0;
        t->defined = 0; /* it is done once, also when the end of the commit is tried again */
    }
    return t->rc;
}

/* Positions of one transaction follow each other, one for each journal entry. */
static int number_of_provider(struct txn *t, enum txn_series series, int64_t count,
                              int64_t *out_first)
{
    int64_t first = 0;
    if (series == SERIES_POS && t->feed_count + count > LIMIT_COMMIT_ENTRIES) {
        return QP_E_LIMIT;
    }
    t->rc = t->provider->calls->number(t->provider, series, count, &first, t->err);
    *out_first = series == SERIES_POS ? first + t->feed_count + 1 : first;
    return t->rc;
}

int txn_number(struct txn *t, enum txn_series series, int64_t count, int64_t *out_first)
{
    struct head_row *head;
    int64_t *last;
    QP_ASSERT(count > 0);
    if (t->provider->calls->number != NULL) {
        return number_of_provider(t, series, count, out_first);
    }
    head = txn_edit(t, TABLE_head, &(struct head_row){.ns = 0});
    if (head == NULL) {
        t->rc = t->rc != QP_OK ? t->rc : err_set(t->err, QP_E_CORRUPT, "the head row is missing");
        return t->rc;
    }
    last = series == SERIES_POS ? &head->pos : series == SERIES_ORD ? &head->ord : &head->next_id;
    /* next_id is the next free one; the others are the last one given out. */
    *out_first = series == SERIES_ID ? *last : *last + 1;
    return i64_add(*last, count, last) ? QP_OK : QP_E_LIMIT;
}

int txn_journal(struct txn *t, const struct feed_entry *entry)
{
    feed_write(&t->feed, entry);
    t->feed_count++;
    if (buf_rc(&t->feed) != QP_OK) {
        t->rc = err_set(t->err, buf_rc(&t->feed), "journal: out of memory");
    }
    return t->rc;
}

int txn_feed_close(struct txn *t)
{
    struct feed_row row = {.at = t->now, .entries = buf_slice(&t->feed)};
    if (t->feed_count == 0) {
        return QP_OK;
    }
    if (t->provider->calls->number != NULL) {
        t->rc = t->provider->calls->number(t->provider, SERIES_POS, 0, &row.first, t->err);
        row.pos = row.first + t->feed_count;
        row.first++;
    } else {
        const struct head_row *head = txn_get(t, TABLE_head, &(struct head_row){.ns = 0});
        row.pos = head == NULL ? 0 : head->pos;
        row.first = row.pos - t->feed_count + 1;
    }
    if (t->rc != QP_OK) {
        return t->rc;
    }
    t->feed_count = 0; /* it is done once, also when the end of the commit is tried again */
    return txn_add_new(t, TABLE_feed, &row) == NULL ? t->rc : QP_OK;
}

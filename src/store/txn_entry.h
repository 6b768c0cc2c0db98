/* txn_entry.h - the rows that a transaction knows, for the files behind txn.h
 *
 * Each function answers NULL, or the code of t->rc, when the commit cannot go on.
 */
#ifndef QP_STORE_TXN_ENTRY_H
#define QP_STORE_TXN_ENTRY_H

#include "store/txn.h"

/* Memory ran out: the commit cannot go on, and t->rc says so. Returns NULL. */
void *txn_fail_memory(struct txn *t);

/* Rows that only change together with their job's (txn_touch). */
extern const bool txn_follows_job[TABLE_COUNT];

/* The place of a row, known or not yet; its encoded key stays in `scratch` until the next call. */
struct txn_slot *txn_place(struct txn *t, struct buf *scratch, enum table_id table, const void *key,
                           uint64_t *out_hash);
/* The same with t->key as the scratch: then txn_entry_new makes the entry, if there is none. */
struct txn_slot *txn_slot_of(struct txn *t, enum table_id table, const void *key,
                             uint64_t *out_hash);
struct txn_entry *txn_entry_new(struct txn *t, enum table_id table, uint64_t hash);
/* The entry of a row, from wherever the row is known. */
struct txn_entry *txn_entry_load(struct txn *t, enum table_id table, const void *key);

/* The row changed, or the cache does not know it: the next txn_keep looks at it. */
static inline void txn_list_news(struct txn *t, struct txn_entry *e)
{
    if (e->is_news) {
        return;
    }
    e->is_news = true;
    if (t->news_last == NULL) {
        t->news_first = e;
    } else {
        t->news_last->next_news = e;
    }
    t->news_last = e;
}

/* Before the provider is asked for anything: its transaction has begun. */
static inline int txn_reach(struct txn *t)
{
    return t->begun ? QP_OK : t->reach(t);
}

static inline const struct column *txn_rev_column(enum table_id table)
{
    return &tables[table].columns[tables[table].column_count - 1];
}

/* The revision that a changed row will have. */
static inline void txn_revise(struct txn_entry *e)
{
    const struct column *rev = txn_rev_column(e->table);
    int64_t before = e->stored == NULL ? e->gone_rev : row_i64(rev, e->stored);
    if (e->current != NULL && e->current != e->stored) {
        row_set_i64(rev, e->current, before + 1);
    }
}

#endif

/* txn.h - the rows of one commit in memory: read through, written back, undone bundle by bundle
 *
 * Ops read and change rows here; the provider sees a row at most once on the way in and, at a
 * flush, once on the way out. So ten bundles that move one semaphore cost one row write, and a
 * message that is born and consumed in one commit costs none. Every row has
 *
 *   stored   what the provider has inside the open transaction (NULL: no row)
 *   current  what the ops have made of it                      (NULL: no row)
 *
 * A change saves the row's former `current` on the undo list; a bundle that fails walks the list
 * back to its mark. Nothing of it was told to the provider, or if it was (a scan flushes first),
 * the next flush writes the former row again.
 *
 * Rows that the last commits knew come from the store's cache instead of the provider, where that is
 * right (cache.h), and go back to it when all ops are done (txn_keep).
 *
 * All memory is the commit's arena: rows die together, when the commit is done.
 */
#ifndef QP_STORE_TXN_H
#define QP_STORE_TXN_H

#include "store/cache.h"
#include "store/provider.h"

struct txn_entry {
    struct txn_entry *next; /* in the order in which they became known */
    enum table_id table;
    bool born;    /* a job that this commit creates: the provider can have no rows of it */
    bool whole;   /* a job of which the cache has a trace of every row */
    bool listed;  /* on the list of changed entries */
    bool is_news; /* on the list of news */
    bool is_told; /* the cache was told of it once */
    bool keep;    /* the cache does not know it yet as it is stored */
    bool peeked;  /* read without a lock: it is read again before anybody builds on it */
    bool beside;  /* a new row that does not move its job's (txn_add_beside) */
    bool known;   /* a job whose other rows the cache has as they are: see txn_expect */
    bool fetched; /* a job of which all rows of fetched_tables are known */
    uint64_t hash;
    qp_str key;
    void *stored;
    void *current;
    int64_t gone_rev;   /* the revision of a row that went in this flush and comes again; else 0 */
    uint64_t op_serial; /* the op that last saved it for undo */
    const void *told;   /* what the cache was told that it will be; see is_news */
    uint64_t told_serial;
    struct txn_entry *next_changed;
    struct txn_entry *next_news;
};

/* The hash stands beside the pointer, so that probing does not touch entries that do not fit. */
struct txn_slot {
    uint64_t hash;
    struct txn_entry *entry; /* NULL: free */
};

struct txn_undo {
    struct txn_entry *entry;
    void *former;
    uint64_t former_serial;
    struct txn_undo *below;
};

/* A point to go back to: what was changed, and what was journaled, since. */
struct txn_mark {
    struct txn_undo *undo;
    size_t feed_size;
    int64_t feed_count;
    int64_t given[SERIES_ID + 1]; /* of the provider's blocks of numbers */
    int64_t defined;
    int64_t defined_serial;
};

struct txn {
    struct store *store;
    struct provider *provider;
    struct cache *cache; /* what the last commits left; NULL: there is none, or no trust in it */
    struct arena *arena;
    struct txn_slot *slots; /* open addressing, a power of two */
    size_t slot_count;
    size_t entry_count;
    struct txn_entry *first; /* of all entries */
    struct txn_entry *newest;
    struct txn_entry *last[TABLE_COUNT];          /* asked for last: ops come back to it */
    struct txn_entry *changed_first[TABLE_COUNT]; /* by table, in order of the first change */
    struct txn_entry *changed_last[TABLE_COUNT];
    bool may_go[TABLE_COUNT]; /* a row was dropped, or the provider has one of a failed bundle */
    struct txn_entry *news_first; /* what may be news for the cache since the last txn_keep */
    struct txn_entry *news_last;
    struct txn_undo *undo;
    bool begun; /* the provider's transaction is */
    int (*reach)(
        struct txn *t); /* before the provider is asked for anything, while it is not: begins it */
    struct txn_mark start; /* before the first bundle */
    struct txn_mark bundle_mark;
    struct buf feed; /* the journal entries of this commit (feed.h) */
    int64_t feed_count;
    uint64_t op_serial;
    uint64_t bundle_serial; /* the last op before this bundle */
    uint64_t hash_seed;
    struct buf key;     /* scratch for encoding: of the row that is looked for */
    struct buf job_key; /* and of its job */
    size_t bundle_size; /* bytes of new rows; LIMIT_BUNDLE_SIZE is checked after each op */
    qp_ms now;
    int bundle_rc; /* a key that is too long: it ends this bundle */
    int rc;        /* a failure of the provider or of memory: it ends the whole commit */
    struct qp_err *err;
    struct stop stop;
    int64_t rows_written;
    int64_t due_at;         /* the earliest row_due_at of what was written; 0: none */
    int64_t ready_count;    /* messages that became claimable; those of bundles that failed count */
    uint64_t ready_topics;  /* and their topics, by topic_bit */
    int64_t defined;        /* changes of definitions by this commit */
    int64_t defined_serial; /* of the last of them; 0: none */
    int64_t definitions;    /* as they were committed; -1: not asked for yet */
    /* where the commit stands */
    struct bundle *bundle;      /* that is carried out; NULL: all are */
    struct bundle *last_bundle; /* that was begun: others may be added behind it */
    size_t op_index;            /* within the bundle */
};

/* `entries`: how many it will probably have. */
int txn_init(struct txn *t, struct store *s, struct provider *p, struct arena *arena,
             size_t entries, struct qp_err *err) QP_MUST_USE;
void txn_done(struct txn *t);

/* NULL: there is no such row, or t->rc says why it could not be read. `key` has the key columns
 * filled in. */
const void *txn_get(struct txn *t, enum table_id table, const void *key);
/* The row as it was committed when it was read, or as this commit has left it: another may be changing
 * it. For those who must not wait, and do not mind. */
const void *txn_peek(struct txn *t, enum table_id table, const void *key);
/* The row, to be changed in place. */
void *txn_edit(struct txn *t, enum table_id table, const void *key);
/* A new row, copied from `row` (its texts are not: they live as long as the commit). The key must
 * be free. */
void *txn_add(struct txn *t, enum table_id table, const void *row);
/* The same for a row that only a mistake could have made exist: it is not looked up, and if it is
 * there after all, the flush finds out and the whole commit fails. NULL with t->rc QP_OK: this
 * commit itself has one already. */
void *txn_add_new(struct txn *t, enum table_id table, const void *row);
/* The same for a row of a job that this commit may not wait for: txn_peek has found none, and the caller knows that no other
 * commit adds it. The job is not a changed one by it (txn_touch). Messages alone: what is known of those is never trusted. */
void *txn_add_beside(struct txn *t, enum table_id table, const void *row);
void txn_drop(struct txn *t, enum table_id table, const void *key);

/* The rows of a range, in order, as the ops have left them. The array is the arena's. */
int txn_scan(struct txn *t, const struct scan *scan, struct bundle_rows *out_rows) QP_MUST_USE;

/* The commit will work on these jobs: on a shared provider they are locked, and their rows read, in one
 * go. Opens the transaction for good; see provider.h.
 *
 * Where others write, what the cache has of a job's rows is so while the job's own row has the revision
 * that the cache knows: whoever changes such a row moves that revision (txn_touch), and whoever
 * has the lock on the job sees it. Only the jobs of which the cache knows nothing, or something
 * else, are read. Messages always are: claims change them without asking for the job. */
int txn_expect(struct txn *t, struct job_ref *jobs, size_t count) QP_MUST_USE;

/* Numbers that only grow: the feed position, the order of messages (also tokens and places in a
 * queue), and the numbers of jobs, nodes and records. Taken from the head row, and given back with
 * everything else when a bundle is undone; a provider with many writers has sequences instead. */
int txn_number(struct txn *t, enum txn_series series, int64_t count,
               int64_t *out_first) QP_MUST_USE;

/* The meaning of a name has changed. */
void txn_define(struct txn *t);
int txn_definitions(struct txn *t, struct definitions *out_definitions) QP_MUST_USE;
/* When all ops are done: the row says so, too. */
int txn_define_close(struct txn *t) QP_MUST_USE;
/* See bundle_each. */
int txn_each(struct txn *t, const struct scan *scan, void *context, store_visit visit) QP_MUST_USE;

/* What changes from now on can be undone as one. */
void txn_begin_bundle(struct txn *t);
/* Rows that are handed out stay as they are: what changes from now on changes in copies. */
void txn_begin_op(struct txn *t);
void txn_undo_bundle(struct txn *t);
/* Nothing of this commit will ever be: the numbers that it took may be given out again. */
void txn_give_back(struct txn *t);

/* One journal entry more: for the feed row of this commit, which txn_feed_close adds. */
int txn_journal(struct txn *t, const struct feed_entry *entry) QP_MUST_USE;
int txn_feed_close(struct txn *t) QP_MUST_USE;

/* On a shared provider, when all ops are done: a job of which any row has changed is a changed job. Not
 * for messages that were there before, which claims change. */
int txn_touch(struct txn *t) QP_MUST_USE;
/* No op is under way: gives every changed row its revision, and tells the cache what the rows are from
 * now on. Should they not be committed, the cache is cleared. Whatever changes after that is told by
 * the next call. */
void txn_keep(struct txn *t);
/* Writes what changed to the provider. */
int txn_flush(struct txn *t) QP_MUST_USE;
/* True when a flush would write something, or has. */
bool txn_is_dirty(const struct txn *t);

/* Two rows contradict each other: the file is damaged, and the commit ends. Returns
 * QP_E_CORRUPT. */
int txn_corrupt(struct txn *t, enum table_id table, const char *what);

/* A transaction without bundles (store.c): `change` makes of the rows what it likes, or writes rows
 * as they are through t->provider; then they are flushed and committed. Another code than QP_OK
 * takes all of it back. The cache forgets what it knows. */
typedef int (*store_change)(void *context, struct txn *t);
int store_transact(struct store *s, void *context, store_change change,
                   struct qp_err *err) QP_MUST_USE;
struct provider *store_provider(struct store *s);
/* A number that this handle has not given out before; not 0. */
int64_t store_serial(struct store *s);
/* Of an exclusive provider: the number of definitions as the last commit that was decided leaves it; -1: the row
 * says it (store_forget). */
int64_t *store_definitions(struct store *s);
/* The head row as it stands. */
int store_head(struct provider *p, struct head_row *out_head, struct qp_err *err) QP_MUST_USE;
/* reads.c: where a store that was moved says that it went, by the last of its audit entries with this action; "" when
 * it does not say. */
#define ACTION_MOVED QP_STR("moved")
int store_moved_to(struct store *s, char out_name[LIMIT_STORE_NAME_SIZE],
                   struct qp_err *err) QP_MUST_USE;
/* The head row says this now: where the clock stands, and whether closing has to mark it. */
void store_heed(struct store *s, const struct head_row *head);

/* commit.c: the next op of a bundle that was not carried out yet, NULL when there is none; a bundle that is empty
 * again, to be decided once more. */
struct op *bundle_take(struct bundle *b);
void bundle_clear(struct bundle *b);

/* Makes `stop` say which digit, and returns `code`. */
int txn_stop(struct txn *t, int code, int64_t weight, int64_t found);

#endif

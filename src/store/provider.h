/* provider.h - what a store provider has to do: load rows, write rows back, commit
 *
 * A provider knows nothing of bundles, ledgers or leases. It keeps the tables of rows.def, and
 * between begin and commit (or rollback) it is the transaction that the rows belong to. One
 * transaction per handle at a time.
 *
 *   begin  -> load, scan, write, host_begin/host_end ... -> commit | rollback
 *
 * write() replaces `before` (NULL: there is none) by `after` (NULL: there will be none). It
 * compares the key and the revision of `before`; a row that is not what was loaded is
 * QP_E_CONFLICT, and nothing of the transaction may commit. Rows come back with the revision that
 * they will have in `after->rev`, set by the caller.
 *
 * A provider is exclusive (nobody else writes), shared (many handles write, of many processes), or
 * neither. On a shared one
 *   - begin may be answered late: the transaction is open, and its time known, when expect returns
 *   - a row that was loaded is locked until the end, but for those of peek and of tables with SUM
 *     columns, which are written as differences (rows.def)
 *   - numbers come from number(). The head row says what may have been given out; it is written by a
 *     copy alone, and then all further numbers are above those that it was given
 *   - `definitions`, the number of that row, is known when expect returns: what was committed when the
 *     transaction began
 *   - whoever opened it with store_options.moving keeps all others from writing
 *   - QP_E_CONFLICT and QP_E_BUSY mean: rolled back, and worth another try from the commit's start
 *
 * Errors: QP_E_BUSY (somebody else is in the way: roll back, try again later), QP_E_FULL, QP_E_IO,
 * QP_E_NOMEM (roll back; the handle goes on), QP_E_FSYNC, QP_E_CORRUPT (the handle refuses all
 * further work), and from commit alone QP_E_UNKNOWN_OUTCOME. No code of SQLite or PostgreSQL and no
 * errno passes this line.
 */
#ifndef QP_STORE_PROVIDER_H
#define QP_STORE_PROVIDER_H

#include "store/store.h"

struct provider;

#define WRITE_ALL_MAX 256 /* enough to forget the fixed costs of a call */

struct job_list {
    struct job_ref *jobs;
    size_t count;
};

/* What expect hands over: a row of a job that was named. */
typedef int (*provider_visit)(void *context, enum table_id table, const void *row);

enum txn_series { SERIES_POS, SERIES_ORD, SERIES_ID };

struct provider_calls {
    const char *name;
    /* Between transactions: see store_connect. NULL: there is nothing to connect to. */
    int (*connect)(struct provider *p, struct qp_err *err);
    int (*begin)(struct provider *p, struct qp_err *err);
    /* *out_row in `arena`, or NULL when there is no such row. `key` has the key columns filled
     * in. */
    int (*load)(struct provider *p, struct arena *arena, enum table_id table, const void *key,
                void **out_row, struct qp_err *err);
    /* As load, but the row is not locked: it is what was committed when it was read. NULL: load. */
    int (*peek)(struct provider *p, struct arena *arena, enum table_id table, const void *key,
                void **out_row, struct qp_err *err);
    /* Outside of a transaction, many rows by their keys, without payloads: see store_get_all. NULL: they
     * are loaded one by one. */
    int (*load_all)(struct provider *p, struct arena *arena, enum table_id table,
                    const void *const *keys, size_t count, void **out_rows, struct qp_err *err);
    int (*scan)(struct provider *p, const struct scan *scan, void *context, store_visit visit,
                struct qp_err *err);
    /* The commit will work on these jobs, which are in order and named once (there may be none): locks
     * `locked`, and visits their rows and their messages; of `fetched` it visits the rows of all
     * `fetched_tables`, when the job's seq is at most LIMIT_FETCH_SEQ. *out_left: some of these were too
     * large and left out. A row lives until its visit returns. NULL: nothing is gained by knowing. */
    int (*expect)(struct provider *p, const struct job_list *locked, const struct job_list *fetched,
                  void *context, provider_visit visit, bool *out_left, struct qp_err *err);
    /* Numbers of a series. SERIES_POS: the position before the first one of this transaction, which
     * may take LIMIT_COMMIT_ENTRIES. NULL: they are in the head row. */
    int (*number)(struct provider *p, enum txn_series series, int64_t count, int64_t *out_first,
                  struct qp_err *err);
    /* Whatever is committed from now on has this position or a higher one. NULL: so has all that is
     * not there yet. */
    int (*settled)(struct provider *p, int64_t *out_pos, struct qp_err *err);
    int (*write)(struct provider *p, enum table_id table, const void *before, const void *after,
                 struct qp_err *err);
    /* Many rows of one table, up to WRITE_ALL_MAX, as if each were written: all new (`before` NULL),
     * all to go (`after` NULL), or all changed. NULL: the provider takes them one by one. */
    int (*write_all)(struct provider *p, enum table_id table, const void *const *before,
                     const void *const *after, size_t count, struct qp_err *err);
    int (*commit)(struct provider *p, struct qp_err *err);
    /* Others were in the way `tries` times: lets some time pass. NULL: nothing is gained by that. */
    void (*wait)(struct provider *p, int tries);
    void (*rollback)(struct provider *p);
    /* A nested transaction around a host callback, and the connection that the callback may use. */
    int (*host_begin)(struct provider *p, struct qp_err *err);
    /* After a callback that agreed: QP_E_ABORTED when a statement of it failed, and nothing of it can
     * stay. NULL: then that is the callback's own business. */
    int (*host_check)(struct provider *p);
    int (*host_end)(struct provider *p, bool keep, struct qp_err *err);
    void *(*native)(struct provider *p);
    /* A reader's own: from begin to end all reads see one state. */
    int (*snapshot)(struct provider *p, bool begin, struct qp_err *err);
    /* In a transaction: whether it may do what one handle does for all. NULL: it is the only one. */
    int (*tidies)(struct provider *p, bool *out_may, struct qp_err *err);
    /* Hints between handles: see store_wake_fd. NULL: there are none. */
    int (*wake_fd)(struct provider *p);
    bool (*wake_take)(struct provider *p);
    void (*wake_others)(struct provider *p);
    /* See store_in_place; from any thread. NULL: it has no names that others could take away. */
    bool (*in_place)(const struct provider *p);
    /* Between transactions: a moment for housekeeping (checkpoint). */
    int (*idle)(struct provider *p, struct qp_err *err);
    /* See store_backup. NULL: it has tools of its own. */
    int (*backup)(struct provider *p, const char *to, struct qp_err *err);
    /* See store_sql. NULL: it is not for people. */
    int (*sql)(struct provider *p, const struct store_sql *q, void *context, store_sql_visit visit,
               bool *out_more, struct qp_err *err);
    int64_t (*schema_version)(const struct provider *p);
    void (*close)(struct provider *p);
};

extern const bool fetched_tables[TABLE_COUNT];

/* Numbers that a handle took ahead: given out up to `next`, until `end`. */
struct provider_block {
    int64_t first;
    int64_t next;
    int64_t end;
};

struct provider {
    const struct provider_calls *calls;
    const struct qp_env *env;
    bool opened_unclean; /* the clean-shutdown marker was missing */
    bool read_only;
    bool away;      /* the server could not be reached the last time that it was tried */
    bool exclusive; /* nobody but this handle writes: what it knows of a row stays true (cache.h) */
    bool shared;    /* others write at the same time; see above */
    qp_ms
        server_ms; /* the time of a clock that all handles share, when it was told last; 0: none */
    int64_t server_us;   /* monotonic time at which it was */
    qp_ms clock_ms;      /* of the last commit; a shared provider keeps it now and then */
    int64_t shard;       /* of the counters that this handle adds to */
    int64_t definitions; /* shared: see above */
    struct provider_block
        blocks[SERIES_ID + 1]; /* what a bundle took goes back when it is undone */
    int failure; /* a failed fsync, or damage: everything is refused with this code, reads too */
};

int memory_open(const struct qp_env *env, const struct store_options *options,
                struct provider **out_provider, struct qp_err *err) QP_MUST_USE;
int sqlite_open(const struct qp_env *env, const struct store_options *options,
                struct provider **out_provider, struct qp_err *err) QP_MUST_USE;
/* `path` is a URL: postgresql://.. or postgres://.. */
int postgres_open(const struct qp_env *env, const struct store_options *options,
                  struct provider **out_provider, struct qp_err *err) QP_MUST_USE;
/* The SQL that makes the schema, for those who apply it themselves. */
int postgres_dump_sql(const char *schema, struct buf *out) QP_MUST_USE;
/* The same for the schema that a URL names, or for the usual one. QP_E_INVALID: it can be no such name. */
int postgres_dump_sql_of(const char *url, struct buf *out, struct qp_err *err) QP_MUST_USE;

#endif

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

struct provider_calls {
    const char *name;
    int (*begin)(struct provider *p, struct qp_err *err);
    /* *out_row in `arena`, or NULL when there is no such row. `key` has the key columns filled
     * in. */
    int (*load)(struct provider *p, struct arena *arena, enum table_id table, const void *key,
                void **out_row, struct qp_err *err);
    int (*scan)(struct provider *p, const struct scan *scan, void *context, store_visit visit,
                struct qp_err *err);
    int (*write)(struct provider *p, enum table_id table, const void *before, const void *after,
                 struct qp_err *err);
    /* Many rows of one table, up to WRITE_ALL_MAX, as if each were written: all new (`before` NULL),
     * all to go (`after` NULL), or all changed. NULL: the provider takes them one by one. */
    int (*write_all)(struct provider *p, enum table_id table, const void *const *before,
                     const void *const *after, size_t count, struct qp_err *err);
    int (*commit)(struct provider *p, struct qp_err *err);
    void (*rollback)(struct provider *p);
    /* A nested transaction around a host callback, and the connection that the callback may use. */
    int (*host_begin)(struct provider *p, struct qp_err *err);
    int (*host_end)(struct provider *p, bool keep, struct qp_err *err);
    void *(*native)(struct provider *p);
    /* A reader's own: from begin to end all reads see one state. */
    int (*snapshot)(struct provider *p, bool begin, struct qp_err *err);
    /* Of a provider whose numbers (enum txn_series) are not those of its head row: what the head row
     * would say (pos, ord, next_id), and that all further ones are to be above. NULL: the head row
     * has them. */
    int (*read_numbers)(struct provider *p, struct head_row *head, struct qp_err *err);
    int (*raise_numbers)(struct provider *p, const struct head_row *head, struct qp_err *err);
    /* Between transactions: a moment for housekeeping (checkpoint). */
    int (*idle)(struct provider *p, struct qp_err *err);
    int64_t (*schema_version)(const struct provider *p);
    void (*close)(struct provider *p);
};

struct provider {
    const struct provider_calls *calls;
    const struct qp_env *env;
    bool stepwise;       /* a commit goes one op per store_step, so that others can come between */
    bool opened_unclean; /* the clean-shutdown marker was missing */
    bool read_only;
    bool exclusive; /* nobody but this handle writes: what it knows of a row stays true (cache.h) */
    int failure;    /* a failed fsync, or damage: everything is refused with this code, reads too */
};

int memory_open(const struct qp_env *env, const struct store_options *options,
                struct provider **out_provider, struct qp_err *err) QP_MUST_USE;
int sqlite_open(const struct qp_env *env, const struct store_options *options,
                struct provider **out_provider, struct qp_err *err) QP_MUST_USE;

#endif

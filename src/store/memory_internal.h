/* memory_internal.h - the memory provider's own parts, for memory.c and for who plays another provider on its
 * tables (memory_options.calls)
 *
 *   I1  a table's map holds one block per row, by encoded key; an index's map holds the same
 *       blocks, by encoded columns
 *   I2  between begin and commit every write is on the handle's undo list; rollback walks it
 *       backwards
 *   I3  a row that an open transaction wrote is locked by it; the lock remembers the committed row
 *       for readers (but when nobody can look while a transaction is open)
 *   I4  rows, locks and undo lists are the memory's, not the handle's: they outlive a handle whose own
 *       memory is taken away
 */
#ifndef QP_STORE_MEMORY_INTERNAL_H
#define QP_STORE_MEMORY_INTERNAL_H

#include "base/omap.h"
#include "store/memory.h"
#include "store/provider.h"

struct memory {
    struct qp_env env;
    struct memory_options options;
    struct omap rows[TABLE_COUNT];
    struct omap indexes[INDEX_COUNT];
    struct index_columns index_columns[INDEX_COUNT];
    struct omap locks; /* by table and key; SERIAL: of written rows only, for readers */
    struct memory_provider *writer;  /* SERIAL: who is in a transaction */
    struct memory_provider *handles; /* that are open */
    size_t handle_count;
};

struct lock {
    struct memory_provider *owner;
    bool written;
    void *committed; /* the row as others see it while `written`; NULL: none */
    struct lock *next_of_owner;
    qp_str key;
};

/* One write, to be taken back: `before` and `after` are blocks of the maps, or NULL. */
struct undo {
    enum table_id table;
    void *before;
    void *after;
    struct undo *below;
};

struct memory_provider {
    struct provider base;
    struct memory *memory;
    bool owns_memory;
    bool active;
    bool
        looking; /* reads see what is committed, and what this transaction wrote, and lock nothing */
    struct undo *undo;
    struct lock *locks;
    struct memory_provider *waits_for;
    struct memory_provider *next_handle;
    struct buf key;
};

extern const struct provider_calls memory_calls;

/* ROWS: the row is ours until the transaction ends. QP_E_BUSY: another has it; QP_E_TIMEOUT: and waiting
 * would close a circle. */
int memory_lock(struct memory_provider *p, enum table_id table, const void *row,
                struct qp_err *err) QP_MUST_USE;

#endif

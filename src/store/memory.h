/* memory.h - tables in memory that several store handles share: the oracle, and the simulator's
 * store
 *
 * SERIAL behaves as SQLite does: one writing transaction at a time. ROWS behaves as PostgreSQL does
 * under READ COMMITTED: every row that a transaction reads or writes is locked until its end, a
 * scan waits for rows that others have locked or, if it says so, passes over them (SKIP LOCKED),
 * and a circle of waiters is found and one of them rolled back (QP_E_TIMEOUT, to be tried again).
 * Readers see the committed state in both.
 *
 * Not thread-safe: the handles on one memory take turns. A commit is done when it returns, so another handle
 * comes between only where a test lets it (memory_options.calls); without that a lock which another handle
 * holds is QP_E_BUSY.
 */
#ifndef QP_STORE_MEMORY_H
#define QP_STORE_MEMORY_H

#include "base/mem.h"

struct memory;
struct provider_calls;

enum memory_mode { MEMORY_SERIAL, MEMORY_ROWS };

struct memory_options {
    enum memory_mode mode;
    /* NULL, or what handles that write call instead of the memory provider's own: the simulator's models of
     * SQLite and PostgreSQL, which use the same tables (memory_internal.h). The rest is what those are. */
    const struct provider_calls *calls;
    bool shared;
    bool exclusive;
};

int memory_create(const struct qp_env *env, const struct memory_options *options,
                  struct memory **out_memory) QP_MUST_USE;
/* All handles on it are closed. NULL is allowed. */
void memory_destroy(struct memory *m);

#endif

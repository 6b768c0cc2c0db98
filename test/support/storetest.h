/* storetest.h - a store under test, on any provider, in a temporary directory and under virtual
 * time
 *
 * The struct is large: make it static, or allocate it.
 */
#ifndef QP_TEST_STORETEST_H
#define QP_TEST_STORETEST_H

#include "store/memory.h"
#include "store/store.h"
#include "support/testenv.h"

enum storetest_kind {
    STORETEST_MEMORY,
    STORETEST_MEMORY_ROWS, /* row locks */
    STORETEST_SQLITE,
    STORETEST_SQLITE_SMALL,               /* a cache that has room for a few rows only */
    STORETEST_KINDS,                      /* that need no server */
    STORETEST_POSTGRES = STORETEST_KINDS, /* a server of the test's own; time is the test's, too */
    STORETEST_ALL
};

struct storetest {
    struct testenv t;
    enum storetest_kind kind;
    struct memory
        *memory; /* the tables of the memory kinds: they outlive the handle, as a file does */
    struct store *s;
    char dir[256];
    char path[320]; /* or the URL */
    const char *vfs;
    const char *at; /* a file or URL of the caller's, used as it is; NULL: a new store */
};

const char *storetest_name(enum storetest_kind kind);
/* How many of the kinds a test of one thread runs on: all, but without a server under the thread
 * sanitizer of the check lane, which finds nothing there and is slow. */
int storetest_kinds(void);

/* A new store of this kind, open. Asserts that it works. */
void storetest_init(struct storetest *f, enum storetest_kind kind, uint64_t seed);
/* Another handle on the same store, for the caller to close; not on a file, which has one writer. */
struct store *storetest_second(struct storetest *f);
/* Closes and opens again, as a restart does; the state must survive. */
void storetest_reopen(struct storetest *f);
/* The same, and in between somebody changes what nobody has open. */
void storetest_reopen_after(struct storetest *f, void (*change)(struct storetest *f));
/* Closes, removes the files, asserts that no memory is left. */
void storetest_done(struct storetest *f);

/* One bundle of these ops in one commit; what the ops put out is copied back. Returns the bundle's
 * code; asserts that the transaction itself went well. `stop` may be NULL. */
int storetest_bundle(struct storetest *f, struct op *ops, size_t count, struct stop *stop);
int storetest_op(struct storetest *f, struct op *op);

/* A GUID made of a number, as 16 bytes that live for ever (one per number up to 65535). */
qp_str storetest_guid(unsigned number);

/* A row by its key; NULL when there is none. It lives until the next call. */
const void *storetest_row(struct storetest *f, enum table_id table, const void *key);
/* All columns but rev are equal. */
bool storetest_row_equal(enum table_id table, const void *a, const void *b);
/* Every row in the store's cache is what the store has; none on stores without a cache. Returns how
 * many there are. */
size_t storetest_cache_check(struct storetest *f);
/* How many rows a table has. */
size_t storetest_count(struct storetest *f, enum table_id table);

#endif

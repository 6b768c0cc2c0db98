/* cache.h - rows as the last commits left them, so that the next one need not ask for them
 *
 * Every row in it is a copy of what is committed, or is on its way to be: it is filled when all ops of
 * a commit are done, from what that commit loaded and made of it, and cleared should the commit
 * fail. A commit takes its rows from here before it asks the provider. That is right
 *
 *   - for every row, while no other handle writes (provider.exclusive);
 *   - where others write (provider.shared), for the rows of a job whose own row, read and locked by this commit, has
 *     the revision that the cache knows: whoever changes one of them changes the job's (txn_expect, txn_touch).
 *
 * A provider that is neither has no cache, and a reader has none. docs/adr/0008 says why, and what happens if a row
 * in it were wrong.
 *
 * It owns its rows and its memory, which is bounded: see cache_create. A row that is not in it is
 * simply not known; so whoever is in doubt clears it, and memory that runs out is no error. Not
 * thread-safe: it belongs to one store handle.
 */
#ifndef QP_STORE_CACHE_H
#define QP_STORE_CACHE_H

#include "store/rows.h"

struct cache;
struct store;

/* `size` bounds the memory for rows and for finding them. NULL: no memory. */
struct cache *cache_create(const struct qp_env *env, size_t size) QP_MUST_USE;
void cache_destroy(struct cache *c); /* NULL is allowed */

/* Where a row is looked for: its table, its encoded key (row_encode_key), and a hash of both. */
struct cache_key {
    enum table_id table;
    uint64_t hash;
    qp_str key;
};

/* The row as the cache has it, to be copied before the cache is touched again; NULL: not known.
 * *out_old: it will go before long, unless it is put again. */
const void *cache_find(const struct cache *c, const struct cache_key *key, bool *out_old);
/* The next calls will be about this hash and this row: so that they need not wait for memory. */
void cache_expect(const struct cache *c, uint64_t hash, const void *row);
/* A commit begins to tell what it has done, with the calls that follow. */
void cache_begin(struct cache *c);
/* Keeps a copy, in place of the one that it may have. Tables and rows that are not worth it are
 * forgotten instead. `born`: a job that the commit has made, so there was nothing of it before. */
void cache_put(struct cache *c, const struct cache_key *key, const void *row, bool born);
void cache_forget(struct cache *c, const struct cache_key *key);
void cache_clear(struct cache *c); /* NULL is allowed */

/* What is not there is known too: of a job that is whole (born in a commit that was told here, and
 * not so long ago), every row that was ever written has left a trace. So a row of it has never been
 * when there is none. */
bool cache_is_whole(const struct cache *c, const struct cache_key *job);
bool cache_has_none(const struct cache *c, const struct cache_key *key);

/* Every row that it would find, for tests; stops at the first visit that does not return QP_OK. */
typedef int (*cache_visit)(void *context, enum table_id table, const void *row);
int cache_each(const struct cache *c, void *context, cache_visit visit);
/* The cache of a handle, for tests; NULL: it has none. */
const struct cache *store_cache(const struct store *s);

#endif

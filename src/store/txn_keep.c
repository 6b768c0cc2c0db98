/* txn_keep.c - what the cache will know of the rows of a commit (see txn.h) */
#include "store/txn_entry.h"

#define AHEAD 8 /* entries between asking for memory and using it: see txn_keep */

/* True for a row that the cache does not know as it will be. A row may change where it is, but not
 * without another op. */
static bool is_news(const struct txn_entry *e)
{
    return (e->keep || e->current != e->stored) &&
           (e->told != e->current || e->told_serial != e->op_serial || e->told_serial == 0);
}

static void entry_keep(struct txn *t, struct txn_entry *e)
{
    struct cache_key key = {e->table, e->hash, e->key};
    /* A job that others may have worked on meanwhile: of its other rows the cache knows what was. */
    bool may = !t->provider->shared || txn_follows_job[e->table] ||
               (e->table == TABLE_job && (e->born || e->known));
    if (!is_news(e)) {
        return;
    }
    txn_revise(e);
    if (e->current != NULL && may) {
        cache_put(t->cache, &key, e->current, e->born && !e->is_told);
    } else {
        cache_forget(t->cache, &key);
    }
    e->told = e->current;
    e->told_serial = e->op_serial;
    e->is_told = true;
}

static struct txn_entry *news_take(struct txn *t)
{
    struct txn_entry *e = t->news_first;
    t->news_first = e->next_news;
    t->news_last = e->next_news == NULL ? NULL : t->news_last;
    e->next_news = NULL;
    e->is_news = false;
    return e;
}

/* A thousand bundles leave entries all over the memory, and the cache's places for them are all over
 * it too: both are asked for some entries ahead. A commit that is decided in many parts is kept after
 * each: only what changed since the last part is looked at. */
void txn_keep(struct txn *t)
{
    const struct txn_entry *ahead = t->news_first;
    size_t lead = 0;
    if (t->cache == NULL) {
        return;
    }
    cache_begin(t->cache);
    while (t->news_first != NULL) {
        for (; ahead != NULL && lead < AHEAD; ahead = ahead->next_news, lead++) {
            cache_expect(t->cache, ahead->hash, ahead->current);
        }
        entry_keep(t, news_take(t));
        lead--;
    }
    t->bundle_serial = t->op_serial; /* what was told does not change in place */
}

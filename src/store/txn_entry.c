/* txn_entry.c - the rows that a commit knows: how one is found, and where it comes from (see txn.h)
 *
 * An entry is looked for in the commit's own table first, then in the store's cache where that may be asked, then at
 * the provider. A row that cannot exist is not asked for at all.
 */
#include "store/txn_entry.h"

#include "base/hash.h"

/* Memory ran out: the commit cannot go on, and says so. */
void *txn_fail_memory(struct txn *t)
{
    t->rc = err_set(t->err, QP_E_NOMEM, "rows of a commit: out of memory");
    return NULL;
}

static struct txn_slot *slot_find(const struct txn *t, enum table_id table, uint64_t hash,
                                  qp_str key)
{
    size_t i = (size_t)hash & (t->slot_count - 1);
    while (t->slots[i].entry != NULL) {
        const struct txn_entry *e = t->slots[i].entry;
        if (t->slots[i].hash == hash && e->table == table && str_equal(e->key, key)) {
            break;
        }
        i = (i + 1) & (t->slot_count - 1);
    }
    return &t->slots[i];
}

static bool slots_grow(struct txn *t)
{
    size_t count = t->slot_count * 2;
    struct txn_slot *slots = arena_alloc(t->arena, count * sizeof *slots);
    if (slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < t->slot_count; i++) {
        size_t to = (size_t)t->slots[i].hash & (count - 1);
        while (t->slots[i].entry != NULL && slots[to].entry != NULL) {
            to = (to + 1) & (count - 1);
        }
        if (t->slots[i].entry != NULL) {
            slots[to] = t->slots[i]; /* no two have the same key */
        }
    }
    t->slots = slots;
    t->slot_count = count;
    return true;
}

/* The place of a row, known or not yet; its encoded key stays in `scratch` until the next call. */
struct txn_slot *txn_place(struct txn *t, struct buf *scratch, enum table_id table, const void *key,
                           uint64_t *out_hash)
{
    buf_reset(scratch);
    row_encode_key(scratch, table, key);
    if (buf_rc(scratch) == QP_E_TOO_LARGE) {
        t->bundle_rc = QP_E_TOO_LARGE; /* no such row can exist, and none can be made */
        return NULL;
    }
    if (buf_rc(scratch) != QP_OK) {
        return txn_fail_memory(t);
    }
    *out_hash = hash_bytes(t->hash_seed + (uint64_t)table, scratch->p, scratch->n);
    return slot_find(t, table, *out_hash, buf_slice(scratch));
}

struct txn_slot *txn_slot_of(struct txn *t, enum table_id table, const void *key,
                             uint64_t *out_hash)
{
    return txn_place(t, &t->key, table, key, out_hash);
}

/* An entry for the key that txn_slot_of has just encoded and not found. */
struct txn_entry *txn_entry_new(struct txn *t, enum table_id table, uint64_t hash)
{
    struct txn_entry *e = ARENA_NEW(t->arena, struct txn_entry);
    if (e == NULL || !arena_copy(t->arena, buf_slice(&t->key), &e->key) ||
        (t->entry_count * 2 >= t->slot_count && !slots_grow(t))) {
        return txn_fail_memory(t);
    }
    e->table = table;
    e->hash = hash;
    *slot_find(t, table, hash, e->key) = (struct txn_slot){hash, e};
    t->entry_count++;
    if (t->newest == NULL) {
        t->first = e;
    } else {
        t->newest->next = e;
    }
    t->newest = e;
    return e;
}

/* The ops of a bundle ask for the same job, activity and counters again and again: comparing a key
 * is a tenth of encoding, hashing and looking it up. */
static bool is_last(const struct txn *t, enum table_id table, const void *key)
{
    const struct txn_entry *e = t->last[table];
    const struct table *described = &tables[table];
    bool equal = e != NULL && e->current != NULL;
    for (size_t i = described->key_count; i > 0 && equal; i--) { /* the first ones seldom differ */
        equal = column_equal(&described->columns[i - 1], e->current, key);
    }
    return equal;
}

/* The entry of the job that a row belongs to; NULL: it has none, or the job was not asked for. Mostly
 * it is the one that was asked for last. */
static const struct txn_entry *entry_of_job(struct txn *t, enum table_id table, const void *key)
{
    const struct txn_entry *last = t->last[TABLE_job];
    struct job_row job = {0};
    const struct txn_slot *slot;
    uint64_t hash;
    if (!tables[table].keyed_by_job || table == TABLE_job || last == NULL) {
        return NULL;
    }
    job.ns = row_i64(&tables[table].columns[0], key);
    job.job = row_i64(&tables[table].columns[1], key);
    if (is_last(t, TABLE_job, &job)) {
        return last;
    }
    slot = txn_place(t, &t->job_key, TABLE_job, &job, &hash);
    return slot == NULL ? NULL : slot->entry;
}

/* Rows that only change together with their job's (txn_touch). */
const bool txn_follows_job[TABLE_COUNT] = {
    [TABLE_act] = true, [TABLE_guid] = true, [TABLE_sem] = true};

/* True when the cache may be asked: where others write, only for rows of a job that it knows as it
 * is. */
static bool may_ask_cache(struct txn *t, enum table_id table, const void *key)
{
    const struct txn_entry *job;
    if (t->cache == NULL || !t->provider->shared) {
        return t->cache != NULL;
    }
    job = txn_follows_job[table] ? entry_of_job(t, table, key) : NULL;
    return job != NULL && job->known;
}

/* True: there is no such row, so nobody needs to be asked. A job that this commit creates has no
 * rows at the provider yet; of one that is whole the cache has a trace of each. */
static bool is_known_absent(struct txn *t, const struct cache_key *place, const void *key)
{
    const struct txn_entry *job = entry_of_job(t, place->table, key);
    if (place->table == TABLE_counter && t->provider->shared) {
        return true; /* nobody looks at what it says: the difference is added to whatever is there */
    }
    return job != NULL && (job->born || (job->fetched && fetched_tables[place->table]) ||
                           (job->whole && t->cache != NULL && cache_has_none(t->cache, place)));
}

/* The row as the last commits left it; NULL: not known, or no memory. Copied, since what a commit
 * hands out lives longer than the cache may keep a row. */
static void *row_from_cache(struct txn *t, const struct cache_key *key, bool *out_old)
{
    const void *row = cache_find(t->cache, key, out_old);
    void *copy = row == NULL ? NULL : row_copy(t->arena, key->table, row);
    return row != NULL && copy == NULL ? txn_fail_memory(t) : copy;
}

/* A row that was only peeked at: now it is locked, and read again. This commit has not changed it, or it is one that was added where
 * none was (txn_add_beside). */
static struct txn_entry *entry_confirm(struct txn *t, struct txn_entry *e, const void *key)
{
    void *row = NULL;
    if (e == NULL || !e->peeked || (e->beside && e->current != e->stored)) {
        return e;
    }
    QP_ASSERT(e->current == e->stored);
    t->rc = t->provider->calls->load(t->provider, t->arena, e->table, key, &row, t->err);
    if (t->rc != QP_OK) {
        return NULL;
    }
    e->stored = row;
    e->current = row;
    e->peeked = false;
    return e;
}

struct txn_entry *txn_entry_load(struct txn *t, enum table_id table, const void *key)
{
    uint64_t hash;
    const struct txn_slot *slot;
    struct txn_entry *e;
    struct cache_key place;
    void *row = NULL;
    bool keep = true;
    if (t->rc != QP_OK) {
        return NULL;
    }
    if (is_last(t, table, key)) {
        return entry_confirm(t, t->last[table], key);
    }
    slot = txn_slot_of(t, table, key, &hash);
    if (slot == NULL || slot->entry != NULL) {
        t->last[table] = slot == NULL ? t->last[table] : slot->entry;
        return slot == NULL ? NULL : entry_confirm(t, slot->entry, key);
    }
    place = (struct cache_key){table, hash, buf_slice(&t->key)};
    row = may_ask_cache(t, table, key) ? row_from_cache(t, &place, &keep) : NULL;
    if (row == NULL && t->rc == QP_OK && !is_known_absent(t, &place, key) && t->rc == QP_OK &&
        txn_reach(t) == QP_OK) {
        t->rc = t->provider->calls->load(t->provider, t->arena, table, key, &row, t->err);
    }
    e = t->rc == QP_OK ? txn_entry_new(t, table, hash) : NULL;
    if (e != NULL) {
        e->stored = row;
        e->current = row;
        e->keep = keep && row != NULL;
        e->whole = table == TABLE_job && row != NULL && t->cache != NULL && !t->provider->shared &&
                   cache_is_whole(t->cache, &place);
        t->last[table] = e;
        if (e->keep) {
            txn_list_news(t, e);
        }
    }
    return e;
}

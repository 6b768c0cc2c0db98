/* cache.c - rows of the last commits, in two generations (see cache.h)
 *
 * Rows are put into the young generation. When that has used its half of the memory, the old one is
 * thrown away as a whole, and the young one becomes the old one. So there is no list to keep in
 * order and no block to give back row by row, and a row that is used stays: whoever finds it in the
 * old generation puts it into the young one again.
 *
 *   I1  a row that is found is what the last cache_put of its key said, and no cache_forget came
 *       after it
 *   I2  an entry of the young generation hides the one of the old; forgetting therefore marks both
 *   I3  a generation's entries, slots and rows are its arena, whose limit is half of the cache's
 *
 *   I4  every row of a job's that was written since the job was born, in whatever state, has an entry
 *       as long as the generation is there in which the job was born
 *
 * An entry without a row (forgotten, or not worth its memory) keeps its place, so that the probing
 * past it still works, and so that I4 can say of a key without an entry: there is no such row.
 */
#include "store/cache.h"

#define SLOTS_MIN 256
#define ROOM_STEP 64 /* rows of about the same size fit into the same memory */

/* The tables that steps read again: a job on its way from commit to commit, and what all share. */
static const bool is_kept[TABLE_COUNT] = {
    [TABLE_head] = true, [TABLE_node] = true, [TABLE_job] = true,
    [TABLE_act] = true,  [TABLE_guid] = true, [TABLE_sem] = true,
    [TABLE_msg] = true,  [TABLE_lane] = true, [TABLE_counter] = true,
};

struct entry {
    struct cache_key key;
    void *row;      /* NULL: forgotten */
    size_t size;    /* of its memory */
    uint64_t birth; /* of a job: the generation that was young when it was born; 0: before us */
};

/* The hash stands beside the pointer, so that probing does not touch entries that do not fit. */
struct slot {
    uint64_t hash;
    struct entry *entry; /* NULL: free */
};

/* Memory that a forgotten row has left, for the next one of its table. */
struct room {
    struct room *next;
    size_t size;
};

struct generation {
    struct arena arena;
    struct room *rooms[TABLE_COUNT];
    struct slot *slots; /* open addressing, a power of two; NULL while it is empty */
    size_t slot_count;
    size_t entry_count;
    uint64_t serial; /* which one it is; they only grow */
};

struct cache {
    const struct qp_env *env;
    uint64_t serial;     /* given out last */
    uint64_t now_serial; /* the young one's when the commit that is being told began to be */
    struct generation generations[2];
    struct generation *young;
    struct generation *old;
};

struct cache *cache_create(const struct qp_env *env, size_t size)
{
    struct cache *c = mem_alloc(env, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    c->env = env;
    c->young = &c->generations[0];
    c->old = &c->generations[1];
    /* An arena takes 0 for the usual limit: the smallest cache has room for nothing. */
    arena_init(&c->young->arena, env, size / 2 > 0 ? size / 2 : 1);
    arena_init(&c->old->arena, env, size / 2 > 0 ? size / 2 : 1);
    cache_clear(c);
    return c;
}

static void generation_clear(struct cache *c, struct generation *g)
{
    arena_reset(&g->arena);
    g->serial = ++c->serial;
    memset(g->rooms, 0, sizeof g->rooms); /* they were in the arena */
    g->slots = NULL;
    g->slot_count = 0;
    g->entry_count = 0;
}

void cache_destroy(struct cache *c)
{
    if (c != NULL) {
        arena_done(&c->young->arena);
        arena_done(&c->old->arena);
        mem_free(c->env, c);
    }
}

void cache_clear(struct cache *c)
{
    if (c != NULL) {
        generation_clear(c, c->old);
        generation_clear(c, c->young);
    }
}

/* The place of a key: its entry, or where it would be. */
static struct slot *place_of(struct slot *slots, size_t slot_count, const struct cache_key *key)
{
    size_t i = (size_t)key->hash & (slot_count - 1);
    while (slots[i].entry != NULL) {
        const struct cache_key *k = &slots[i].entry->key;
        if (slots[i].hash == key->hash && k->table == key->table && str_equal(k->key, key->key)) {
            break;
        }
        i = (i + 1) & (slot_count - 1);
    }
    return &slots[i];
}

static struct entry *entry_of(const struct generation *g, const struct cache_key *key)
{
    return g->slots == NULL ? NULL : place_of(g->slots, g->slot_count, key)->entry;
}

const void *cache_find(const struct cache *c, const struct cache_key *key, bool *out_old)
{
    const struct entry *e = entry_of(c->young, key);
    *out_old = e == NULL;
    if (e == NULL) {
        e = entry_of(c->old, key);
    }
    return e == NULL ? NULL : e->row;
}

static bool slots_grow(struct generation *g)
{
    size_t count = g->slots == NULL ? SLOTS_MIN : g->slot_count * 2;
    struct slot *slots = arena_alloc(&g->arena, count * sizeof *slots);
    if (slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < g->slot_count; i++) {
        size_t to = (size_t)g->slots[i].hash & (count - 1);
        while (slots[to].entry != NULL) {
            to = (to + 1) & (count - 1);
        }
        slots[to] = g->slots[i]; /* no two have the same key */
    }
    g->slots = slots;
    g->slot_count = count;
    return true;
}

static struct entry *entry_add(struct generation *g, const struct cache_key *key)
{
    struct entry *e;
    if (g->entry_count * 2 >= g->slot_count && !slots_grow(g)) {
        return NULL;
    }
    e = ARENA_NEW(&g->arena, struct entry);
    if (e == NULL) {
        return NULL;
    }
    e->key = *key;
    if (!arena_copy(&g->arena, key->key, &e->key.key)) {
        return NULL;
    }
    *place_of(g->slots, g->slot_count, key) = (struct slot){key->hash, e};
    g->entry_count++;
    return e;
}

/* Memory for a row: where the last one of its table went, if that is enough. Rows of a table are
 * much alike, so it mostly is, and what is in use stays together. */
static void *room_take(struct generation *g, enum table_id table, size_t *size)
{
    struct room *room = g->rooms[table];
    if (room != NULL && room->size >= *size) {
        g->rooms[table] = room->next;
        *size = room->size;
        return room;
    }
    *size = (*size + ROOM_STEP - 1) / ROOM_STEP * ROOM_STEP;
    return arena_room(&g->arena, *size);
}

static void entry_forget(struct generation *g, struct entry *e)
{
    struct room *room = e->row;
    if (room != NULL) {
        *room = (struct room){g->rooms[e->key.table], e->size};
        g->rooms[e->key.table] = room;
        e->row = NULL;
    }
}

/* False: no room, and what the generation had under this key is still there. */
static bool generation_put(struct generation *g, const struct cache_key *key, const void *row,
                           uint64_t birth)
{
    struct entry *e = entry_of(g, key);
    size_t size = row_copy_size(key->table, row);
    bool in_place = e != NULL && e->row != NULL && e->size >= size;
    void *memory = in_place ? e->row : room_take(g, key->table, &size);
    e = memory != NULL && e == NULL ? entry_add(g, key) : e;
    if (memory == NULL || e == NULL) {
        return false;
    }
    if (!in_place) {
        entry_forget(g, e);
        e->size = size;
    }
    e->row = row_copy_into(memory, key->table, row);
    e->birth = birth;
    return true;
}

/* What is over is not asked for again: a closed job, and an activity whose first message has done
 * its work. Should it be after all, it is loaded. */
static bool is_worth_it(enum table_id table, const void *row)
{
    if (!is_kept[table] || row_text_size(table, row) > LIMIT_CACHE_ROW_SIZE) {
        return false;
    }
    return table == TABLE_job   ? ((const struct job_row *)row)->state == JOB_OPEN
           : table == TABLE_act ? ((const struct act_row *)row)->n < 0
                                : true;
}

static void turn(struct cache *c)
{
    struct generation *young = c->old;
    generation_clear(c, young);
    c->old = c->young;
    c->young = young;
}

void cache_expect(const struct cache *c, uint64_t hash, const void *row)
{
    if (row != NULL) {
        __builtin_prefetch(row);
    }
    if (c->young->slots != NULL) {
        __builtin_prefetch(&c->young->slots[(size_t)hash & (c->young->slot_count - 1)]);
    }
}

void cache_begin(struct cache *c)
{
    c->now_serial = c->young->serial;
}

static uint64_t birth_of(const struct cache *c, const struct cache_key *key)
{
    const struct entry *e = key->table == TABLE_job ? entry_of(c->young, key) : NULL;
    e = key->table == TABLE_job && e == NULL ? entry_of(c->old, key) : e;
    return e == NULL ? 0 : e->birth;
}

void cache_put(struct cache *c, const struct cache_key *key, const void *row, bool born)
{
    uint64_t birth = born ? c->now_serial : birth_of(c, key);
    if (is_worth_it(key->table, row)) {
        if (generation_put(c->young, key, row, birth)) {
            return;
        }
        turn(c);
        if (generation_put(c->young, key, row, birth)) {
            return;
        }
    }
    cache_forget(c, key); /* what it may know of this key is not so any more */
}

/* There is a row, or was one, of which no more is known (I4). */
static void tombstone_add(struct cache *c, const struct cache_key *key)
{
    if (entry_add(c->young, key) == NULL) {
        turn(c);
        if (entry_add(c->young, key) == NULL) {
            cache_clear(c);
        }
    }
}

void cache_forget(struct cache *c, const struct cache_key *key)
{
    struct entry *young = entry_of(c->young, key);
    struct entry *old = entry_of(c->old, key);
    if (young != NULL) {
        entry_forget(c->young, young);
        young->birth = 0; /* should it be put again, what came between is not known */
    }
    if (old != NULL) {
        entry_forget(c->old, old);
        old->birth = 0;
    }
    if (young == NULL && old == NULL && tables[key->table].keyed_by_job) {
        tombstone_add(c, key);
    }
}

bool cache_is_whole(const struct cache *c, const struct cache_key *job)
{
    const struct entry *e = entry_of(c->young, job);
    e = e == NULL ? entry_of(c->old, job) : e;
    return e != NULL && e->row != NULL && e->birth >= c->old->serial;
}

bool cache_has_none(const struct cache *c, const struct cache_key *key)
{
    return entry_of(c->young, key) == NULL && entry_of(c->old, key) == NULL;
}

static int generation_each(const struct cache *c, const struct generation *g, void *context,
                           cache_visit visit)
{
    int rc = QP_OK;
    for (size_t i = 0; i < g->slot_count && rc == QP_OK; i++) {
        const struct entry *e = g->slots[i].entry;
        bool hidden = e != NULL && g == c->old && entry_of(c->young, &e->key) != NULL;
        if (e != NULL && e->row != NULL && !hidden) {
            rc = visit(context, e->key.table, e->row);
        }
    }
    return rc;
}

int cache_each(const struct cache *c, void *context, cache_visit visit)
{
    int rc = generation_each(c, c->young, context, visit);
    return rc == QP_OK ? generation_each(c, c->old, context, visit) : rc;
}

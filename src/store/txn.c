/* txn.c - the rows of one commit in memory (see txn.h) */
#include "store/txn.h"

#include "base/failpoint.h"
#include "base/hash.h"
#include "store/feed.h"

#include <stdlib.h>

#define SLOTS_MIN 256
#define AHEAD 8 /* entries between asking for memory and using it: see txn_keep */

static const char *const write_points[TABLE_COUNT] = {
#define WRITE_POINT(table, list) "write." #table,
    STORE_TABLES(WRITE_POINT)
#undef WRITE_POINT
};

static struct txn_mark mark_now(const struct txn *t);
static struct txn_entry *entry_load(struct txn *t, enum table_id table, const void *key);
static int table_flush(struct txn *t, enum table_id table);
static int table_touch(struct txn *t, enum table_id table);

/* Memory ran out: the commit cannot go on, and says so. */
static void *fail_memory(struct txn *t)
{
    t->rc = err_set(t->err, QP_E_NOMEM, "rows of a commit: out of memory");
    return NULL;
}

int txn_init(struct txn *t, struct store *s, struct provider *p, struct arena *arena,
             size_t entries, struct qp_err *err)
{
    *t = (struct txn){.store = s,
                      .provider = p,
                      .arena = arena,
                      .err = err,
                      .slot_count = SLOTS_MIN,
                      .definitions = -1};
    while (t->slot_count / 2 < entries) {
        t->slot_count *= 2;
    }
    buf_init(&t->key, p->env, LIMIT_ADDRESS_SIZE * 8);
    buf_init(&t->job_key, p->env, LIMIT_ADDRESS_SIZE * 8);
    buf_init(&t->feed, p->env, 0);
    t->start = mark_now(t);
    t->slots = arena_alloc(arena, t->slot_count * sizeof *t->slots);
    if (t->slots == NULL) {
        (void)fail_memory(t); /* rc carries it */
        return t->rc;
    }
    return QP_OK;
}

void txn_done(struct txn *t)
{
    buf_done(&t->key);
    buf_done(&t->job_key);
    buf_done(&t->feed);
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
static struct txn_slot *place_find(struct txn *t, struct buf *scratch, enum table_id table,
                                   const void *key, uint64_t *out_hash)
{
    buf_reset(scratch);
    row_encode_key(scratch, table, key);
    if (buf_rc(scratch) == QP_E_TOO_LARGE) {
        t->bundle_rc = QP_E_TOO_LARGE; /* no such row can exist, and none can be made */
        return NULL;
    }
    if (buf_rc(scratch) != QP_OK) {
        return fail_memory(t);
    }
    *out_hash = hash_bytes(t->hash_seed + (uint64_t)table, scratch->p, scratch->n);
    return slot_find(t, table, *out_hash, buf_slice(scratch));
}

static struct txn_slot *entry_slot(struct txn *t, enum table_id table, const void *key,
                                   uint64_t *out_hash)
{
    return place_find(t, &t->key, table, key, out_hash);
}

/* An entry for the key that entry_slot has just encoded and not found. */
static struct txn_entry *entry_new(struct txn *t, enum table_id table, uint64_t hash)
{
    struct txn_entry *e = ARENA_NEW(t->arena, struct txn_entry);
    if (e == NULL || !arena_copy(t->arena, buf_slice(&t->key), &e->key) ||
        (t->entry_count * 2 >= t->slot_count && !slots_grow(t))) {
        return fail_memory(t);
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
    slot = place_find(t, &t->job_key, TABLE_job, &job, &hash);
    return slot == NULL ? NULL : slot->entry;
}

/* Rows that only change together with their job's (txn_touch). */
static const bool follows_job[TABLE_COUNT] = {
    [TABLE_act] = true, [TABLE_guid] = true, [TABLE_sem] = true};

/* True when the cache may be asked: where others write, only for rows of a job that it knows as it
 * is. */
static bool may_ask_cache(struct txn *t, enum table_id table, const void *key)
{
    const struct txn_entry *job;
    if (t->cache == NULL || !t->provider->shared) {
        return t->cache != NULL;
    }
    job = follows_job[table] ? entry_of_job(t, table, key) : NULL;
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
    return row != NULL && copy == NULL ? fail_memory(t) : copy;
}

/* A row that was only peeked at: now it is locked, and read again. Nobody has changed it here. */
static struct txn_entry *entry_confirm(struct txn *t, struct txn_entry *e, const void *key)
{
    void *row = NULL;
    if (e == NULL || !e->peeked) {
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

static struct txn_entry *entry_load(struct txn *t, enum table_id table, const void *key)
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
    slot = entry_slot(t, table, key, &hash);
    if (slot == NULL || slot->entry != NULL) {
        t->last[table] = slot == NULL ? t->last[table] : slot->entry;
        return slot == NULL ? NULL : entry_confirm(t, slot->entry, key);
    }
    place = (struct cache_key){table, hash, buf_slice(&t->key)};
    row = may_ask_cache(t, table, key) ? row_from_cache(t, &place, &keep) : NULL;
    if (row == NULL && t->rc == QP_OK && !is_known_absent(t, &place, key) && t->rc == QP_OK &&
        store_reach(t->store, t) == QP_OK) {
        t->rc = t->provider->calls->load(t->provider, t->arena, table, key, &row, t->err);
    }
    e = t->rc == QP_OK ? entry_new(t, table, hash) : NULL;
    if (e != NULL) {
        e->stored = row;
        e->current = row;
        e->keep = keep && row != NULL;
        e->whole = table == TABLE_job && row != NULL && t->cache != NULL && !t->provider->shared &&
                   cache_is_whole(t->cache, &place);
        t->last[table] = e;
    }
    return e;
}

const void *txn_get(struct txn *t, enum table_id table, const void *key)
{
    struct txn_entry *e = entry_load(t, table, key);
    return e == NULL ? NULL : e->current;
}

const void *txn_peek(struct txn *t, enum table_id table, const void *key)
{
    uint64_t hash;
    const struct txn_slot *slot;
    struct txn_entry *e;
    void *row = NULL;
    if (t->provider->calls->peek == NULL) {
        return txn_get(t, table, key);
    }
    slot = t->rc == QP_OK ? entry_slot(t, table, key, &hash) : NULL;
    if (slot == NULL || slot->entry != NULL) {
        return slot == NULL ? NULL : slot->entry->current;
    }
    t->rc = t->provider->calls->peek(t->provider, t->arena, table, key, &row, t->err);
    e = t->rc == QP_OK ? entry_new(t, table, hash) : NULL;
    if (e == NULL) {
        return NULL;
    }
    e->stored = row;
    e->current = row;
    e->peeked = true;
    return row;
}

/* The jobs of a commit on a shared provider; see txn_expect. */
struct expecting {
    struct txn *t;
    struct job_list stale; /* the cache knew something else of them */
};

/* What the cache has of a job's other rows is so, if it has the job as it is now. */
static void job_recognise(struct expecting *x, struct txn_entry *e)
{
    struct txn *t = x->t;
    struct cache_key key = {TABLE_job, e->hash, e->key};
    const struct job_row *job = e->stored;
    bool old;
    const struct job_row *cached = t->cache == NULL ? NULL : cache_find(t->cache, &key, &old);
    bool whole = t->cache != NULL && cache_is_whole(t->cache, &key);
    e->known = whole && cached != NULL && cached->rev == job->rev;
    e->whole = e->known;
    e->fetched = !whole && job->seq <= LIMIT_FETCH_SEQ;
    if (whole && !e->known) {
        x->stale.jobs[x->stale.count++] = (struct job_ref){job->ns, job->job};
    }
    t->last[TABLE_job] = e;
}

/* A row of a job that the commit is about. */
static int fetch_row(void *context, enum table_id table, const void *row)
{
    struct expecting *x = context;
    struct txn *t = x->t;
    uint64_t hash;
    const struct txn_slot *slot = entry_slot(t, table, row, &hash);
    struct txn_entry *e = slot == NULL || slot->entry != NULL ? NULL : entry_new(t, table, hash);
    if (e == NULL) {
        return t->rc;
    }
    e->stored = row_copy(t->arena, table, row);
    e->current = e->stored;
    e->keep = true;
    if (e->stored == NULL) {
        (void)fail_memory(t); /* rc carries it */
    } else if (table == TABLE_job) {
        job_recognise(x, e);
    }
    return t->rc;
}

static int job_compare(const void *a, const void *b)
{
    const struct job_ref *x = a;
    const struct job_ref *y = b;
    return x->job != y->job ? (x->job > y->job) - (x->job < y->job)
                            : (x->ns > y->ns) - (x->ns < y->ns);
}

/* In order, each once. */
static void list_tidy(struct job_list *list)
{
    size_t kept = 0;
    if (list->count > 0) {
        qsort(list->jobs, list->count, sizeof *list->jobs, job_compare);
    }
    for (size_t i = 0; i < list->count; i++) {
        if (kept == 0 || job_compare(&list->jobs[kept - 1], &list->jobs[i]) != 0) {
            list->jobs[kept++] = list->jobs[i];
        }
    }
    list->count = kept;
}

/* Some rows were too large to come with the others: what is not there is not known any more. */
static void forget_absence(struct txn *t)
{
    for (struct txn_entry *e = t->first; e != NULL; e = e->next) {
        e->fetched = false;
    }
}

static bool is_whole(struct txn *t, const struct job_ref *ref)
{
    struct job_row job = {.ns = ref->ns, .job = ref->job};
    uint64_t hash;
    if (t->cache == NULL || place_find(t, &t->job_key, TABLE_job, &job, &hash) == NULL) {
        return false;
    }
    return cache_is_whole(t->cache, &(struct cache_key){TABLE_job, hash, buf_slice(&t->job_key)});
}

/* The rest of the jobs that others have changed since: they are locked already. */
static int fetch_stale(struct txn *t, struct expecting *x, bool *out_left)
{
    struct job_list none = {NULL, 0};
    struct job_list stale = x->stale;
    if (stale.count == 0 || t->rc != QP_OK) {
        return t->rc;
    }
    t->rc = t->provider->calls->expect(t->provider, &none, &stale, x, fetch_row, out_left, t->err);
    for (size_t i = 0; i < stale.count && t->rc == QP_OK; i++) {
        struct job_row key = {.ns = stale.jobs[i].ns, .job = stale.jobs[i].job};
        struct txn_entry *e = entry_load(t, TABLE_job, &key);
        if (e != NULL && e->stored != NULL) {
            e->fetched = ((const struct job_row *)e->stored)->seq <= LIMIT_FETCH_SEQ;
        }
    }
    return t->rc;
}

int txn_expect(struct txn *t, struct job_ref *jobs, size_t count)
{
    struct job_list locked = {jobs, count};
    struct job_list fetched = {NULL, 0};
    struct expecting x = {.t = t};
    bool left = false;
    bool left_later = false;
    if (t->provider->calls->expect == NULL) {
        return QP_OK;
    }
    list_tidy(&locked);
    fetched.jobs = arena_room(t->arena, (locked.count + 1) * sizeof *fetched.jobs);
    x.stale.jobs = arena_room(t->arena, (locked.count + 1) * sizeof *x.stale.jobs);
    if (fetched.jobs == NULL || x.stale.jobs == NULL) {
        return fail_memory(t) == NULL ? t->rc : QP_OK;
    }
    for (size_t i = 0; i < locked.count; i++) {
        if (!is_whole(t, &locked.jobs[i])) {
            fetched.jobs[fetched.count++] = locked.jobs[i];
        }
    }
    t->rc =
        t->provider->calls->expect(t->provider, &locked, &fetched, &x, fetch_row, &left, t->err);
    (void)fetch_stale(t, &x, &left_later); /* rc carries it */
    if (left || left_later) {
        forget_absence(t);
    }
    return t->rc;
}

static void changed_list(struct txn *t, struct txn_entry *e)
{
    if (e->listed) {
        return;
    }
    e->listed = true;
    if (t->changed_last[e->table] == NULL) {
        t->changed_first[e->table] = e;
    } else {
        t->changed_last[e->table]->next_changed = e;
    }
    t->changed_last[e->table] = e;
}

/* Saves the row as it is, once per op, and notes that it may have changed. */
static bool undo_push(struct txn *t, struct txn_entry *e)
{
    struct txn_undo *u = ARENA_NEW(t->arena, struct txn_undo);
    if (u == NULL) {
        return fail_memory(t) != NULL;
    }
    *u = (struct txn_undo){e, e->current, e->op_serial, t->undo};
    t->undo = u;
    e->op_serial = t->op_serial;
    changed_list(t, e);
    return true;
}

/* True for a row that was copied for this bundle already, and may change in place: what is undone
 * is the bundle. Only for tables whose rows no op hands out or
 * holds while it goes on to another: those must stay what that op saw. */
static bool is_own_copy(const struct txn *t, const struct txn_entry *e)
{
    static const bool in_place[TABLE_COUNT] = {
        [TABLE_head] = true, [TABLE_counter] = true, [TABLE_job] = true, [TABLE_act] = true};
    return e->op_serial == t->op_serial || (in_place[e->table] && e->op_serial > t->bundle_serial);
}

void *txn_edit(struct txn *t, enum table_id table, const void *key)
{
    struct txn_entry *e = entry_load(t, table, key);
    void *row;
    if (e == NULL || e->current == NULL) {
        return NULL;
    }
    if (is_own_copy(t, e)) {
        return e->current;
    }
    row = arena_room(t->arena, tables[table].row_size);
    if (row == NULL) {
        return fail_memory(t);
    }
    memcpy(row, e->current, tables[table].row_size);
    if (!undo_push(t, e)) {
        return NULL;
    }
    e->current = row;
    return row;
}

/* Puts a row where there is none. */
static void *entry_fill(struct txn *t, struct txn_entry *e, const void *row)
{
    void *copy = arena_room(t->arena, tables[e->table].row_size);
    if (e->current != NULL) {
        /* Numbers only grow and names were looked up: only a file that counts wrongly gives one out
         * twice. */
        (void)txn_corrupt(t, e->table, "a new row's key is taken"); /* rc carries it */
        return NULL;
    }
    if (copy == NULL) {
        return fail_memory(t);
    }
    memcpy(copy, row, tables[e->table].row_size);
    if (!undo_push(t, e)) {
        return NULL;
    }
    e->current = copy;
    t->bundle_size += row_text_size(e->table, row);
    if (e->table == TABLE_job && e->stored == NULL) {
        e->born = true;
    }
    return copy;
}

void *txn_add(struct txn *t, enum table_id table, const void *row)
{
    struct txn_entry *e = entry_load(t, table, row);
    return e == NULL ? NULL : entry_fill(t, e, row);
}

void *txn_add_new(struct txn *t, enum table_id table, const void *row)
{
    uint64_t hash;
    const struct txn_slot *slot = t->rc == QP_OK ? entry_slot(t, table, row, &hash) : NULL;
    struct txn_entry *e = slot == NULL          ? NULL
                          : slot->entry != NULL ? slot->entry
                                                : entry_new(t, table, hash);
    t->last[table] = e != NULL ? e : t->last[table];
    return e == NULL || e->current != NULL ? NULL : entry_fill(t, e, row);
}

void txn_drop(struct txn *t, enum table_id table, const void *key)
{
    struct txn_entry *e = entry_load(t, table, key);
    if (e != NULL && e->current != NULL && undo_push(t, e)) {
        e->current = NULL;
    }
}

struct gather {
    struct txn *t;
    enum table_id table;
    struct bundle_rows *out;
    size_t capacity;
    size_t size;
};

static const struct column *rev_column(enum table_id table);

/* Where others write, a row that was read under its job's lock may be another by the time that a scan meets
 * it: a claim changes messages without the job. */
static bool is_outdated(const struct txn *t, const struct txn_entry *e, const void *row)
{
    const struct column *rev = rev_column(e->table);
    return t->provider->shared && !tables[e->table].additive &&
           (e->stored == NULL || row_i64(rev, e->stored) != row_i64(rev, row));
}

/* A row of a scan: what the ops know already beats what was read, and what was read becomes
 * known. */
static int gather_row(void *context, const void *row)
{
    struct gather *g = context;
    struct txn *t = g->t;
    uint64_t hash;
    const struct txn_slot *slot = entry_slot(t, g->table, row, &hash);
    struct txn_entry *e = slot == NULL ? NULL : slot->entry;
    if (slot == NULL) {
        return t->rc;
    }
    if (g->out->count > 0 && g->size > LIMIT_SCAN_SIZE) {
        g->out->cut = true;
        return QP_E_LIMIT; /* ends the scan */
    }
    g->size += row_text_size(g->table, row);
    if (e == NULL || e->peeked) { /* what was only peeked at has been read again, and better, now */
        e = e == NULL ? entry_new(t, g->table, hash) : e;
        if (e == NULL) {
            return t->rc;
        }
        e->peeked = false;
        e->stored = row_copy(t->arena, g->table, row);
        e->current = e->stored;
        if (e->stored == NULL) {
            (void)fail_memory(t); /* rc carries it */
            return t->rc;
        }
    }
    QP_ASSERT(g->out->count < g->capacity);
    if (is_outdated(t, e, row)) {
        t->rc = err_set(t->err, QP_E_CONFLICT, "%s: the row has changed since it was read",
                        tables[g->table].name);
        return t->rc;
    }
    if (e->current == NULL) {
        return txn_corrupt(t, g->table, "a row that was deleted is still found");
    }
    g->out->rows[g->out->count++] = e->current;
    return QP_OK;
}

int txn_scan(struct txn *t, const struct scan *scan, struct bundle_rows *out_rows)
{
    struct gather g = {t, scan->table, out_rows, scan->limit, 0};
    QP_ASSERT(scan->limit <= LIMIT_BUNDLE_OPS);
    *out_rows = (struct bundle_rows){0};
    if (t->rc != QP_OK || store_reach(t->store, t) != QP_OK ||
        table_touch(t, scan->table) != QP_OK || table_flush(t, scan->table) != QP_OK) {
        return t->rc;
    }
    out_rows->rows = arena_alloc(t->arena, scan->limit * sizeof *out_rows->rows);
    if (out_rows->rows == NULL) {
        (void)fail_memory(t); /* rc carries it */
        return t->rc;
    }
    t->rc = t->provider->calls->scan(t->provider, scan, &g, gather_row, t->err);
    t->rc = t->rc == QP_E_LIMIT && out_rows->cut ? QP_OK : t->rc;
    return t->rc;
}

int txn_each(struct txn *t, const struct scan *scan, void *context, store_visit visit)
{
    struct scan free = *scan;
    free.peek = true;
    if (t->rc != QP_OK || store_reach(t->store, t) != QP_OK ||
        table_touch(t, scan->table) != QP_OK || table_flush(t, scan->table) != QP_OK) {
        return t->rc;
    }
    t->rc = t->provider->calls->scan(t->provider, &free, context, visit, t->err);
    return t->rc;
}

/* -------------------------------------------------------------------------------------- definitions */

void txn_define(struct txn *t)
{
    t->defined++;
    t->defined_serial = store_serial(t->store);
}

/* Where nobody else writes the store knows it; where many do, it came with the transaction's begin. */
int txn_definitions(struct txn *t, struct definitions *out_definitions)
{
    int64_t *known = t->provider->exclusive ? store_definitions(t->store)
                     : t->provider->shared  ? &t->provider->definitions
                                            : &t->definitions;
    if (t->rc == QP_OK && *known < 0) {
        const struct definition_row *row =
            txn_get(t, TABLE_definition, &(struct definition_row){.ns = 0});
        *known = row == NULL ? 0 : row->n;
    }
    *out_definitions = (struct definitions){*known + t->defined, t->defined_serial};
    return t->rc;
}

/* The difference is written (rows.def, SUM): what it is added to does not matter. */
int txn_define_close(struct txn *t)
{
    struct definition_row row = {.ns = 0, .n = t->defined};
    struct definition_row *there;
    if (t->defined == 0 || t->rc != QP_OK) {
        return t->rc;
    }
    there = txn_edit(t, TABLE_definition, &row);
    if (there != NULL) {
        there->n += t->defined;
    } else if (t->rc == QP_OK) {
        (void)txn_add(t, TABLE_definition, &row); /* rc carries it */
    }
    if (t->rc == QP_OK) {
        int64_t *known = store_definitions(t->store);
        *known += t->provider->exclusive && *known >= 0 ? t->defined : 0;
        t->defined = 0; /* it is done once, also when the end of the commit is tried again */
    }
    return t->rc;
}

/* Positions of one transaction follow each other, one for each journal entry. */
static int number_of_provider(struct txn *t, enum txn_series series, int64_t count,
                              int64_t *out_first)
{
    int64_t first = 0;
    if (series == SERIES_POS && t->feed_count + count > LIMIT_COMMIT_ENTRIES) {
        return QP_E_LIMIT;
    }
    t->rc = t->provider->calls->number(t->provider, series, count, &first, t->err);
    *out_first = series == SERIES_POS ? first + t->feed_count + 1 : first;
    return t->rc;
}

int txn_number(struct txn *t, enum txn_series series, int64_t count, int64_t *out_first)
{
    struct head_row *head;
    int64_t *last;
    QP_ASSERT(count > 0);
    if (t->provider->calls->number != NULL) {
        return number_of_provider(t, series, count, out_first);
    }
    head = txn_edit(t, TABLE_head, &(struct head_row){.ns = 0});
    if (head == NULL) {
        t->rc = t->rc != QP_OK ? t->rc : err_set(t->err, QP_E_CORRUPT, "the head row is missing");
        return t->rc;
    }
    last = series == SERIES_POS ? &head->pos : series == SERIES_ORD ? &head->ord : &head->next_id;
    /* next_id is the next free one; the others are the last one given out. */
    *out_first = series == SERIES_ID ? *last : *last + 1;
    return i64_add(*last, count, last) ? QP_OK : QP_E_LIMIT;
}

int txn_journal(struct txn *t, const struct feed_entry *entry)
{
    feed_write(&t->feed, entry);
    t->feed_count++;
    if (buf_rc(&t->feed) != QP_OK) {
        t->rc = err_set(t->err, buf_rc(&t->feed), "journal: out of memory");
    }
    return t->rc;
}

int txn_feed_close(struct txn *t)
{
    struct feed_row row = {.at = t->now, .entries = buf_slice(&t->feed)};
    if (t->feed_count == 0) {
        return QP_OK;
    }
    if (t->provider->calls->number != NULL) {
        t->rc = t->provider->calls->number(t->provider, SERIES_POS, 0, &row.first, t->err);
        row.pos = row.first + t->feed_count;
        row.first++;
    } else {
        const struct head_row *head = txn_get(t, TABLE_head, &(struct head_row){.ns = 0});
        row.pos = head == NULL ? 0 : head->pos;
        row.first = row.pos - t->feed_count + 1;
    }
    if (t->rc != QP_OK) {
        return t->rc;
    }
    t->feed_count = 0; /* it is done once, also when the end of the commit is tried again */
    return txn_add_new(t, TABLE_feed, &row) == NULL ? t->rc : QP_OK;
}

static struct txn_mark mark_now(const struct txn *t)
{
    const struct provider_block *blocks = t->provider->blocks;
    return (struct txn_mark){t->undo,       t->feed.n,
                             t->feed_count, {0, blocks[SERIES_ORD].next, blocks[SERIES_ID].next},
                             t->defined,    t->defined_serial};
}

/* What was taken since goes back, unless it was of a block that is used up by now. */
static void numbers_return(struct txn *t, const struct txn_mark *mark)
{
    for (int i = SERIES_ORD; i <= SERIES_ID; i++) {
        struct provider_block *b = &t->provider->blocks[i];
        if (mark->given[i] >= b->first && mark->given[i] <= b->next) {
            b->next = mark->given[i];
        } else {
            b->next = b->first; /* the block came after the mark */
        }
    }
}

void txn_give_back(struct txn *t)
{
    numbers_return(t, &t->start);
}

void txn_begin_bundle(struct txn *t)
{
    t->bundle_mark = mark_now(t);
    t->bundle_serial = t->op_serial;
    t->bundle_size = 0;
    t->bundle_rc = QP_OK;
    t->stop = (struct stop){0};
}

void txn_begin_op(struct txn *t)
{
    t->op_serial++;
}

void txn_undo_bundle(struct txn *t)
{
    const struct txn_mark *mark = &t->bundle_mark;
    while (t->undo != mark->undo) {
        struct txn_entry *e = t->undo->entry;
        e->current = t->undo->former;
        e->op_serial = t->undo->former_serial;
        changed_list(t,
                     e); /* a flush may have come between: the former row must be written again */
        t->undo = t->undo->below;
        QP_ASSERT(t->undo != NULL || mark->undo == NULL);
    }
    t->feed.n = mark->feed_size;
    t->feed_count = mark->feed_count;
    t->defined = mark->defined;
    t->defined_serial = mark->defined_serial;
    numbers_return(t, mark);
    t->op_serial++;
}

/* Remembers the earliest time at which a row that was written asks for something. */
static void note_due(struct txn *t, const struct txn_entry *e)
{
    int64_t due = e->current == NULL ? 0 : row_due_at(e->table, e->current);
    if (due > 0 && (t->due_at == 0 || due < t->due_at)) {
        t->due_at = due;
    }
}

static const struct column *rev_column(enum table_id table)
{
    return &tables[table].columns[tables[table].column_count - 1];
}

/* The revision that a changed row will have. */
static void entry_revise(struct txn_entry *e)
{
    const struct column *rev = rev_column(e->table);
    int64_t before = e->stored == NULL ? e->gone_rev : row_i64(rev, e->stored);
    if (e->current != NULL && e->current != e->stored) {
        row_set_i64(rev, e->current, before + 1);
    }
}

/* The row is about to be written: its revision, and the tests' chance to stop it. */
static int entry_prepare(struct txn *t, struct txn_entry *e)
{
    t->rc = FP(write_points[e->table]);
    if (t->rc != QP_OK) {
        return err_set(t->err, t->rc, "write %s: failpoint", tables[e->table].name);
    }
    entry_revise(e);
    return QP_OK;
}

/* The provider has `row` now, or nothing. */
static void entry_written(struct txn *t, struct txn_entry *e, void *row)
{
    bool comes_again = row == NULL && e->current != NULL;
    e->gone_rev = comes_again ? row_i64(rev_column(e->table), e->stored) : 0;
    e->stored = row;
    e->op_serial = 0; /* the stored row must not change in place any more */
    e->keep = true;
    t->rows_written++;
    note_due(t, e);
}

/* Writes one row when it differs from what the provider has. */
static int entry_flush(struct txn *t, struct txn_entry *e)
{
    if (e->current == e->stored || entry_prepare(t, e) != QP_OK) {
        return t->rc;
    }
    t->rc = t->provider->calls->write(t->provider, e->table, e->stored, e->current, t->err);
    if (t->rc == QP_OK) {
        entry_written(t, e, e->current);
    }
    return t->rc;
}

/* Rows of one table on their way to the provider together: all new, all changed, or all to go. */
struct batch {
    size_t count;
    struct txn_entry *entries[WRITE_ALL_MAX];
    const void *before[WRITE_ALL_MAX];
    const void *after[WRITE_ALL_MAX];
};

static int batch_flush(struct txn *t, struct batch *b)
{
    if (b->count == 0 || t->rc != QP_OK) {
        return t->rc;
    }
    t->rc = t->provider->calls->write_all(t->provider, b->entries[0]->table,
                                          b->before[0] == NULL ? NULL : b->before,
                                          b->after[0] == NULL ? NULL : b->after, b->count, t->err);
    for (size_t i = 0; i < b->count && t->rc == QP_OK; i++) {
        entry_written(t, b->entries[i], b->after[0] == NULL ? NULL : b->entries[i]->current);
    }
    b->count = 0;
    return t->rc;
}

static int batch_add(struct txn *t, struct batch *b, struct txn_entry *e, const void *after)
{
    if (entry_prepare(t, e) != QP_OK) {
        return t->rc;
    }
    b->entries[b->count] = e;
    b->before[b->count] = e->stored;
    b->after[b->count++] = after;
    return b->count == WRITE_ALL_MAX ? batch_flush(t, b) : QP_OK;
}

/* True for a row that the provider has and that will not be there, or not under its number. */
static bool must_go(const struct txn_entry *e)
{
    const struct table *t = &tables[e->table];
    const struct column *number = &t->columns[t->number];
    return e->stored != NULL && e->current != e->stored &&
           (e->current == NULL ||
            (t->number > 0 && row_i64(number, e->stored) != row_i64(number, e->current)));
}

/* Rows go before others come: a number that a bundle gave back when it failed is given out again. */
static int table_remove(struct txn *t, enum table_id table)
{
    struct batch gone;
    gone.count = 0;
    for (struct txn_entry *e = t->changed_first[table]; e != NULL; e = e->next_changed) {
        if (must_go(e) && batch_add(t, &gone, e, NULL) != QP_OK) {
            break;
        }
    }
    return batch_flush(t, &gone);
}

static int table_write_all(struct txn *t, enum table_id table)
{
    struct batch news;
    struct batch changes;
    news.count = 0;
    changes.count = 0;
    for (struct txn_entry *e = t->changed_first[table]; e != NULL && t->rc == QP_OK;
         e = e->next_changed) {
        if (e->current != e->stored) {
            (void)batch_add(t, e->stored == NULL ? &news : &changes, e,
                            e->current); /* rc carries it */
        }
    }
    (void)batch_flush(t, &changes); /* rc carries it */
    return batch_flush(t, &news);
}

/* Row by row; what could not be written yet stays on the list, when it has to wait for another
 * commit. */
static int table_write_each(struct txn *t, enum table_id table)
{
    struct txn_entry *e = t->changed_first[table];
    while (e != NULL && entry_flush(t, e) == QP_OK) {
        struct txn_entry *next = e->next_changed;
        e->listed = false;
        e->next_changed = NULL;
        e = next;
    }
    t->changed_first[table] = e;
    t->changed_last[table] = e == NULL ? NULL : t->changed_last[table];
    return t->rc;
}

static void changed_clear(struct txn *t, enum table_id table)
{
    struct txn_entry *e = t->changed_first[table];
    while (e != NULL) {
        struct txn_entry *next = e->next_changed;
        e->listed = false;
        e->next_changed = NULL;
        e = next;
    }
    t->changed_first[table] = NULL;
    t->changed_last[table] = NULL;
}

/* Each changed row once, together where the provider can. Rows of one table do not depend on each
 * other, except that two may have the same number one after the other. */
static int table_flush(struct txn *t, enum table_id table)
{
    if (t->provider->calls->write_all == NULL) {
        return table_write_each(t, table);
    }
    if (table_remove(t, table) == QP_OK && table_write_all(t, table) == QP_OK) {
        changed_clear(t, table);
    }
    return t->rc;
}

/* What everybody adds to comes last: whoever writes it is waited for from then on. */
int txn_flush(struct txn *t)
{
    for (int round = 0; round < 2; round++) {
        for (int table = 0; table < TABLE_COUNT && t->rc == QP_OK; table++) {
            if (t->changed_first[table] != NULL && tables[table].additive == (round == 1)) {
                (void)table_flush(t, (enum table_id)table); /* rc carries it */
            }
        }
    }
    return t->rc;
}

/* Changes the row of the job that a changed row belongs to, if it was not changed anyway. */
static int touch_job(struct txn *t, const struct txn_entry *e)
{
    const void *row = e->current != NULL ? e->current : e->stored;
    struct job_row key = {.ns = row_i64(&tables[e->table].columns[0], row),
                          .job = row_i64(&tables[e->table].columns[1], row)};
    bool is_of_job = e->table != TABLE_msg || ((const struct msg_row *)row)->owner == OWNER_JOB;
    if (is_of_job) {
        (void)txn_edit(t, TABLE_job, &key); /* NULL: there is no such job, or rc says why */
    }
    return t->rc;
}

static int table_touch(struct txn *t, enum table_id table)
{
    struct txn_entry *e = t->provider->shared && tables[table].keyed_by_job && table != TABLE_job
                              ? t->changed_first[table]
                              : NULL;
    for (; e != NULL && t->rc == QP_OK; e = e->next_changed) {
        if (e->current != e->stored && (table != TABLE_msg || e->stored == NULL)) {
            (void)touch_job(t, e); /* rc carries it */
        }
    }
    return t->rc;
}

int txn_touch(struct txn *t)
{
    for (int table = 0; table < TABLE_COUNT && t->rc == QP_OK; table++) {
        (void)table_touch(t, (enum table_id)table); /* rc carries it */
    }
    return t->rc;
}

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
    bool may = !t->provider->shared || follows_job[e->table] ||
               (e->table == TABLE_job && (e->born || e->known));
    if (!is_news(e)) {
        return;
    }
    entry_revise(e);
    if (e->current != NULL && may) {
        cache_put(t->cache, &key, e->current, e->born);
    } else {
        cache_forget(t->cache, &key);
    }
    e->told = e->current;
    e->told_serial = e->op_serial;
}

/* A thousand bundles leave entries all over the memory, and the cache's places for them are all over
 * it too: both are asked for some entries ahead. */
void txn_keep(struct txn *t)
{
    const struct txn_entry *ahead = t->first;
    size_t lead = 0;
    if (t->cache == NULL) {
        return;
    }
    cache_begin(t->cache);
    for (struct txn_entry *e = t->first; e != NULL; e = e->next) {
        for (; ahead != NULL && lead < AHEAD; ahead = ahead->next, lead++) {
            cache_expect(t->cache, ahead->hash, is_news(ahead) ? ahead->current : NULL);
        }
        entry_keep(t, e);
        lead--;
    }
}

bool txn_is_dirty(const struct txn *t)
{
    for (int table = 0; table < TABLE_COUNT; table++) {
        for (const struct txn_entry *e = t->changed_first[table]; e != NULL; e = e->next_changed) {
            if (e->current != e->stored) {
                return true;
            }
        }
    }
    return t->rows_written > 0;
}

int txn_corrupt(struct txn *t, enum table_id table, const char *what)
{
    t->rc = err_set(t->err, QP_E_CORRUPT, "%s: %s: the store is damaged", tables[table].name, what);
    return t->rc;
}

int txn_stop(struct txn *t, int code, int64_t weight, int64_t found)
{
    t->stop.weight = weight;
    t->stop.found = found;
    return code;
}

/* txn.c - the rows of one commit in memory (see txn.h) */
#include "store/txn.h"

#include "base/failpoint.h"
#include "base/hash.h"
#include "store/feed.h"

#define SLOTS_MIN 256

static const char *const write_points[TABLE_COUNT] = {
#define WRITE_POINT(table, list) "write." #table,
    STORE_TABLES(WRITE_POINT)
#undef WRITE_POINT
};

static struct txn_entry **slot_find(struct txn_entry **slots, size_t slot_count,
                                    enum table_id table, uint64_t hash, qp_str key);
static struct txn_entry *entry_load(struct txn *t, enum table_id table, const void *key);
static int table_flush(struct txn *t, enum table_id table);

/* Memory ran out: the commit cannot go on, and says so. */
static void *fail_memory(struct txn *t)
{
    t->rc = err_set(t->err, QP_E_NOMEM, "rows of a commit: out of memory");
    return NULL;
}

int txn_init(struct txn *t, struct store *s, struct provider *p, struct arena *arena,
             struct qp_err *err)
{
    *t = (struct txn){
        .store = s, .provider = p, .arena = arena, .err = err, .slot_count = SLOTS_MIN};
    buf_init(&t->key, p->env, LIMIT_ADDRESS_SIZE * 8);
    buf_init(&t->feed, p->env, 0);
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
    buf_done(&t->feed);
}

static struct txn_entry **slot_find(struct txn_entry **slots, size_t slot_count,
                                    enum table_id table, uint64_t hash, qp_str key)
{
    size_t i = (size_t)hash & (slot_count - 1);
    while (slots[i] != NULL) {
        if (slots[i]->hash == hash && slots[i]->table == table && str_equal(slots[i]->key, key)) {
            break;
        }
        i = (i + 1) & (slot_count - 1);
    }
    return &slots[i];
}

static bool slots_grow(struct txn *t)
{
    size_t count = t->slot_count * 2;
    struct txn_entry **slots = arena_alloc(t->arena, count * sizeof *slots);
    if (slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < t->slot_count; i++) {
        struct txn_entry *e = t->slots[i];
        if (e != NULL) {
            *slot_find(slots, count, e->table, e->hash, e->key) = e;
        }
    }
    t->slots = slots;
    t->slot_count = count;
    return true;
}

/* The place of a row, known or not yet: *out_key is its encoded key, valid until the next call. */
static struct txn_entry **entry_slot(struct txn *t, enum table_id table, const void *key,
                                     uint64_t *out_hash)
{
    buf_reset(&t->key);
    row_encode_key(&t->key, table, key);
    if (buf_rc(&t->key) == QP_E_TOO_LARGE) {
        t->bundle_rc = QP_E_TOO_LARGE; /* no such row can exist, and none can be made */
        return NULL;
    }
    if (buf_rc(&t->key) != QP_OK) {
        return fail_memory(t);
    }
    *out_hash = hash_bytes(t->hash_seed + (uint64_t)table, t->key.p, t->key.n);
    return slot_find(t->slots, t->slot_count, table, *out_hash, buf_slice(&t->key));
}

static struct txn_entry *entry_new(struct txn *t, enum table_id table, uint64_t hash)
{
    struct txn_entry *e = ARENA_NEW(t->arena, struct txn_entry);
    if (e == NULL || !arena_copy(t->arena, buf_slice(&t->key), &e->key) ||
        (t->entry_count * 2 >= t->slot_count && !slots_grow(t))) {
        return fail_memory(t);
    }
    e->table = table;
    e->hash = hash;
    *slot_find(t->slots, t->slot_count, table, hash, e->key) = e;
    t->entry_count++;
    return e;
}

/* A job that this commit creates has no rows at the provider yet, so there is nothing to ask for.
 * Mostly it is the one that was created last, or none was. */
static bool job_is_born_here(struct txn *t, enum table_id table, const void *key)
{
    struct job_row job = {0};
    struct txn_entry **slot;
    uint64_t hash;
    if (!tables[table].keyed_by_job || table == TABLE_job || t->born.job == 0) {
        return false;
    }
    job.ns = row_i64(&tables[table].columns[0], key);
    job.job = row_i64(&tables[table].columns[1], key);
    if (job.ns == t->born.ns && job.job == t->born.job) {
        return true;
    }
    slot = entry_slot(t, TABLE_job, &job, &hash);
    return slot != NULL && *slot != NULL && (*slot)->born;
}

static struct txn_entry *entry_load(struct txn *t, enum table_id table, const void *key)
{
    uint64_t hash;
    struct txn_entry **slot;
    struct txn_entry *e;
    void *row = NULL;
    if (t->rc != QP_OK) {
        return NULL;
    }
    slot = entry_slot(t, table, key, &hash);
    if (slot == NULL || *slot != NULL) {
        return slot == NULL ? NULL : *slot;
    }
    if (!job_is_born_here(t, table, key)) {
        t->rc = t->rc != QP_OK
                    ? t->rc
                    : t->provider->calls->load(t->provider, t->arena, table, key, &row, t->err);
    }
    if (t->rc != QP_OK || entry_slot(t, table, key, &hash) == NULL) { /* encodes the key again */
        return NULL;
    }
    e = entry_new(t, table, hash);
    if (e != NULL) {
        e->stored = row;
        e->current = row;
    }
    return e;
}

const void *txn_get(struct txn *t, enum table_id table, const void *key)
{
    struct txn_entry *e = entry_load(t, table, key);
    return e == NULL ? NULL : e->current;
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

void *txn_edit(struct txn *t, enum table_id table, const void *key)
{
    struct txn_entry *e = entry_load(t, table, key);
    void *row;
    if (e == NULL || e->current == NULL) {
        return NULL;
    }
    if (e->op_serial == t->op_serial) {
        return e->current; /* this op's own copy already */
    }
    row = arena_alloc(t->arena, tables[table].row_size);
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
    void *copy = arena_alloc(t->arena, tables[e->table].row_size);
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
        const struct job_row *job = row;
        e->born = true;
        t->born = (struct job_ref){job->ns, job->job};
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
    struct txn_entry **slot = t->rc == QP_OK ? entry_slot(t, table, row, &hash) : NULL;
    struct txn_entry *e = slot == NULL ? NULL : *slot != NULL ? *slot : entry_new(t, table, hash);
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

/* A row of a scan: what the ops know already beats what was read, and what was read becomes
 * known. */
static int gather_row(void *context, const void *row)
{
    struct gather *g = context;
    struct txn *t = g->t;
    uint64_t hash;
    struct txn_entry **slot = entry_slot(t, g->table, row, &hash);
    struct txn_entry *e = slot == NULL ? NULL : *slot;
    if (slot == NULL) {
        return t->rc;
    }
    if (g->out->count > 0 && g->size > LIMIT_SCAN_SIZE) {
        g->out->cut = true;
        return QP_E_LIMIT; /* ends the scan */
    }
    g->size += row_text_size(g->table, row);
    if (e == NULL) {
        e = entry_new(t, g->table, hash);
        if (e == NULL) {
            return t->rc;
        }
        e->stored = row_copy(t->arena, g->table, row);
        e->current = e->stored;
        if (e->stored == NULL) {
            (void)fail_memory(t); /* rc carries it */
            return t->rc;
        }
    }
    QP_ASSERT(g->out->count < g->capacity);
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
    if (t->rc != QP_OK || table_flush(t, scan->table) != QP_OK) {
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

int txn_number(struct txn *t, enum txn_series series, int64_t count, int64_t *out_first)
{
    struct head_row *head = txn_edit(t, TABLE_head, &(struct head_row){.ns = 0});
    int64_t *last;
    QP_ASSERT(count > 0);
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
    const struct head_row *head;
    struct feed_row row = {.at = t->now, .entries = buf_slice(&t->feed)};
    if (t->feed_count == 0) {
        return QP_OK;
    }
    head = txn_get(t, TABLE_head, &(struct head_row){.ns = 0});
    if (head == NULL) {
        return t->rc;
    }
    row.pos = head->pos;
    row.first = head->pos - t->feed_count + 1;
    t->feed_count = 0; /* it is done once, also when the end of the commit is tried again */
    return txn_add(t, TABLE_feed, &row) == NULL ? t->rc : QP_OK;
}

struct txn_mark txn_mark(const struct txn *t)
{
    return (struct txn_mark){t->undo, t->feed.n, t->feed_count};
}

void txn_begin_bundle(struct txn *t)
{
    t->bundle_mark = txn_mark(t);
    t->bundle_size = 0;
    t->bundle_rc = QP_OK;
    t->stop = (struct stop){0};
}

void txn_begin_op(struct txn *t)
{
    t->op_serial++;
}

void txn_undo_op(struct txn *t, const struct txn_mark *mark)
{
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
}

void txn_undo_bundle(struct txn *t)
{
    txn_undo_op(t, &t->bundle_mark);
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

/* Writes one row when it differs from what the provider has. */
static int entry_flush(struct txn *t, struct txn_entry *e)
{
    const struct table *table = &tables[e->table];
    const struct column *rev = &table->columns[table->column_count - 1];
    if (e->current == e->stored) {
        return QP_OK;
    }
    t->rc = FP(write_points[e->table]);
    if (t->rc != QP_OK) {
        return err_set(t->err, t->rc, "write %s: failpoint", table->name);
    }
    if (e->current != NULL) {
        row_set_i64(rev, e->current, e->stored == NULL ? 1 : row_i64(rev, e->stored) + 1);
    }
    t->rc = t->provider->calls->write(t->provider, e->table, e->stored, e->current, t->err);
    if (t->rc == QP_OK) {
        e->stored = e->current;
        e->op_serial = 0; /* the stored row must not change in place any more */
        t->rows_written++;
        note_due(t, e);
    }
    return t->rc;
}

static int table_flush(struct txn *t, enum table_id table)
{
    struct txn_entry *e = t->changed_first[table];
    while (e != NULL && entry_flush(t, e) == QP_OK) {
        struct txn_entry *next = e->next_changed;
        e->listed = false;
        e->next_changed = NULL;
        e = next;
    }
    t->changed_first[table] =
        e; /* what could not be written yet, when it has to wait for another commit */
    t->changed_last[table] = e == NULL ? NULL : t->changed_last[table];
    return t->rc;
}

int txn_flush(struct txn *t)
{
    for (int table = 0; table < TABLE_COUNT && t->rc == QP_OK; table++) {
        (void)table_flush(t, (enum table_id)table); /* rc carries it */
    }
    return t->rc;
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

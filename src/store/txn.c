/* txn.c - the rows of one commit in memory: read, changed, undone bundle by bundle (see txn.h)
 *
 *   txn_entry.c   finds a row                        txn_number.c   gives out numbers, keeps the journal
 *   txn_expect.c  reads the rows of whole jobs       txn_flush.c    writes what has changed
 *   txn_scan.c    reads ranges                       txn_keep.c     tells the cache
 */
#include "store/txn_entry.h"

#define SLOTS_MIN 256

static struct txn_mark mark_now(const struct txn *t)
{
    const struct provider_block *blocks = t->provider->blocks;
    return (struct txn_mark){t->undo,       t->feed.n,
                             t->feed_count, {0, blocks[SERIES_ORD].next, blocks[SERIES_ID].next},
                             t->defined,    t->defined_serial};
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
        (void)txn_fail_memory(t); /* rc carries it */
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

const void *txn_get(struct txn *t, enum table_id table, const void *key)
{
    struct txn_entry *e = txn_entry_load(t, table, key);
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
    slot = t->rc == QP_OK ? txn_slot_of(t, table, key, &hash) : NULL;
    if (slot == NULL || slot->entry != NULL) {
        return slot == NULL ? NULL : slot->entry->current;
    }
    t->rc = t->provider->calls->peek(t->provider, t->arena, table, key, &row, t->err);
    e = t->rc == QP_OK ? txn_entry_new(t, table, hash) : NULL;
    if (e == NULL) {
        return NULL;
    }
    e->stored = row;
    e->current = row;
    e->peeked = true;
    return row;
}

static void txn_list_changed(struct txn *t, struct txn_entry *e)
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
        return txn_fail_memory(t) != NULL;
    }
    *u = (struct txn_undo){e, e->current, e->op_serial, t->undo};
    t->undo = u;
    e->op_serial = t->op_serial;
    txn_list_changed(t, e);
    txn_list_news(t, e);
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
    struct txn_entry *e = txn_entry_load(t, table, key);
    void *row;
    if (e == NULL || e->current == NULL) {
        return NULL;
    }
    if (is_own_copy(t, e)) {
        return e->current;
    }
    row = arena_room(t->arena, tables[table].row_size);
    if (row == NULL) {
        return txn_fail_memory(t);
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
        return txn_fail_memory(t);
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
    struct txn_entry *e = txn_entry_load(t, table, row);
    if (e != NULL) {
        e->beside = false;
    }
    return e == NULL ? NULL : entry_fill(t, e, row);
}

void *txn_add_beside(struct txn *t, enum table_id table, const void *row)
{
    void *added = txn_add_new(t, table, row);
    QP_ASSERT(table == TABLE_msg);
    if (added != NULL) {
        t->last[table]->beside = true;
    }
    return added;
}

void *txn_add_new(struct txn *t, enum table_id table, const void *row)
{
    uint64_t hash;
    const struct txn_slot *slot = t->rc == QP_OK ? txn_slot_of(t, table, row, &hash) : NULL;
    struct txn_entry *e = slot == NULL          ? NULL
                          : slot->entry != NULL ? slot->entry
                                                : txn_entry_new(t, table, hash);
    t->last[table] = e != NULL ? e : t->last[table];
    return e == NULL || e->current != NULL ? NULL : entry_fill(t, e, row);
}

void txn_drop(struct txn *t, enum table_id table, const void *key)
{
    struct txn_entry *e = txn_entry_load(t, table, key);
    if (e != NULL && e->current != NULL && undo_push(t, e)) {
        t->may_go[table] = true;
        e->current = NULL;
    }
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
        t->may_go[e->table] = t->may_go[e->table] || (e->current == NULL && e->stored != NULL);
        e->op_serial = t->undo->former_serial;
        e->told = NULL; /* a flush may have given the former row another revision */
        txn_list_changed(
            t, e); /* a flush may have come between: the former row must be written again */
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

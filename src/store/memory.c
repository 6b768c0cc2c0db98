/* memory.c - the memory provider: plain maps, an undo list, and locks (see memory_internal.h)
 *
 * There is no "if we crash here": nothing in it outlives the process. What it plays is the other
 * handles' view.
 */
#include "store/memory_internal.h"

#define KEY_SIZE_MAX (8 * LIMIT_ADDRESS_SIZE)

static struct memory_provider *self(struct provider *p)
{
    return (struct memory_provider *)p;
}

/* ----------------------------------------------------------------------------------- the memory */

/* Large enough for every key, so that a rollback never has to grow it. */
static int key_buffer_init(struct memory_provider *p)
{
    buf_init(&p->key, &p->memory->env, 0);
    for (size_t i = 0; i < KEY_SIZE_MAX; i++) {
        buf_byte(&p->key, 0);
    }
    return buf_rc(&p->key);
}

/* The two rows that migration 1 gives every store. */
static int memory_seed(struct memory *m)
{
    struct head_row head = {.next_id = STORE_NS_DEFAULT + 1, .clean = 1, .rev = 1};
    struct space_row space = {.ns = STORE_NS_DEFAULT, .name = QP_STR("default"), .rev = 1};
    struct memory_provider seeder = {.memory = m, .base = {.env = &m->env}};
    struct qp_err err;
    int rc;
    seeder.base.calls = &memory_calls;
    rc = key_buffer_init(&seeder);
    rc = rc != QP_OK ? rc : memory_calls.begin(&seeder.base, &err);
    rc = rc == QP_OK ? memory_calls.write(&seeder.base, TABLE_head, NULL, &head, &err) : rc;
    rc = rc == QP_OK ? memory_calls.write(&seeder.base, TABLE_space, NULL, &space, &err) : rc;
    if (rc == QP_OK) {
        rc = memory_calls.commit(&seeder.base, &err);
    } else if (seeder.active) {
        memory_calls.rollback(&seeder.base);
    }
    buf_done(&seeder.key);
    return rc;
}

int memory_create(const struct qp_env *env, const struct memory_options *options,
                  struct memory **out_memory)
{
    struct memory *m = mem_alloc(env, sizeof *m);
    int rc;
    if (m == NULL) {
        return QP_E_NOMEM;
    }
    m->env = *env;
    m->options = *options;
    for (int i = 0; i < TABLE_COUNT; i++) {
        omap_init(&m->rows[i], &m->env);
    }
    for (int i = 0; i < INDEX_COUNT; i++) {
        omap_init(&m->indexes[i], &m->env);
        m->index_columns[i] = index_columns((enum index_id)i);
    }
    omap_init(&m->locks, &m->env);
    rc = memory_seed(m);
    if (rc != QP_OK) {
        memory_destroy(m);
        return rc;
    }
    *out_memory = m;
    return QP_OK;
}

void memory_destroy(struct memory *m)
{
    struct qp_env env;
    if (m == NULL) {
        return;
    }
    QP_ASSERT(m->handle_count == 0);
    env = m->env;
    for (int i = 0; i < TABLE_COUNT; i++) {
        for (struct omap_node *n = omap_seek(&m->rows[i], QP_NONE); n != NULL; n = omap_next(n)) {
            mem_free(&env, omap_value(n));
        }
        omap_done(&m->rows[i]);
    }
    for (int i = 0; i < INDEX_COUNT; i++) {
        omap_done(&m->indexes[i]);
    }
    omap_done(&m->locks);
    mem_free(&env, m);
}

/* ---------------------------------------------------------------------------------------- locks */

static int encode(struct memory_provider *p, enum table_id table, const void *row, qp_str *out_key)
{
    buf_reset(&p->key);
    row_encode_key(&p->key, table, row);
    *out_key = buf_slice(&p->key);
    return buf_rc(&p->key);
}

/* The key of a lock: the table's number before the row's key. */
static int encode_lock(struct memory_provider *p, enum table_id table, const void *row,
                       qp_str *out_key)
{
    buf_reset(&p->key);
    buf_byte(&p->key, (char)table);
    row_encode_key(&p->key, table, row);
    *out_key = buf_slice(&p->key);
    return buf_rc(&p->key);
}

/* Waiting for `other` would close a circle. */
static bool would_deadlock(const struct memory_provider *p, const struct memory_provider *other)
{
    while (other != NULL && other != p) {
        other = other->waits_for;
    }
    return other == p;
}

static int lock_new(struct memory_provider *p, qp_str key)
{
    struct memory *m = p->memory;
    struct lock *lock = mem_alloc(&m->env, sizeof *lock + key.n);
    if (lock == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(lock + 1, key.p, key.n);
    lock->key = (qp_str){(char *)(lock + 1), key.n};
    lock->owner = p;
    if (omap_put(&m->locks, key, lock, NULL) != QP_OK) {
        mem_free(&m->env, lock);
        return QP_E_NOMEM;
    }
    lock->next_of_owner = p->locks;
    p->locks = lock;
    return QP_OK;
}

static struct lock *lock_find(struct memory_provider *p, enum table_id table, const void *row)
{
    qp_str key;
    return encode_lock(p, table, row, &key) == QP_OK ? omap_get(&p->memory->locks, key) : NULL;
}

/* Another transaction holds it: that one first, unless it waits for us already. */
static int lock_wait(struct memory_provider *p, const struct lock *lock, enum table_id table,
                     struct qp_err *err)
{
    if (would_deadlock(p, lock->owner)) {
        return err_set(err, QP_E_TIMEOUT, "%s: deadlock, rolled back; try again",
                       tables[table].name);
    }
    p->waits_for = lock->owner;
    return err_set(err, QP_E_BUSY, "%s: another transaction holds the row", tables[table].name);
}

static bool takes_locks(const struct memory_provider *p)
{
    return p->active && !p->looking;
}

/* SERIAL: the whole memory is ours, since begin. */
int memory_lock(struct memory_provider *p, enum table_id table, const void *row, struct qp_err *err)
{
    qp_str key;
    struct lock *lock;
    int rc;
    if (p->memory->options.mode == MEMORY_SERIAL || !takes_locks(p)) {
        return QP_OK;
    }
    p->waits_for = NULL; /* whatever it waited for, it goes on */
    rc = encode_lock(p, table, row, &key);
    if (rc != QP_OK) {
        return err_set(err, rc, "lock: out of memory");
    }
    lock = omap_get(&p->memory->locks, key);
    if (lock == NULL) {
        rc = lock_new(p, key);
        return rc == QP_OK ? rc : err_set(err, rc, "lock: out of memory");
    }
    return lock->owner == p ? QP_OK : lock_wait(p, lock, table, err);
}

static void locks_release(struct memory_provider *p)
{
    struct memory *m = p->memory;
    while (p->locks != NULL) {
        struct lock *lock = p->locks;
        p->locks = lock->next_of_owner;
        (void)omap_delete(&m->locks, lock->key); /* returns the lock itself */
        mem_free(&m->env, lock);
    }
    p->waits_for = NULL;
}

/* ------------------------------------------------------------------------------------- the maps */

static int encode_index(struct memory_provider *p, enum index_id index, const void *row,
                        qp_str *out_key)
{
    const struct index_columns *c = &p->memory->index_columns[index];
    buf_reset(&p->key);
    row_encode(&p->key, &tables[indexes[index].table], row, c->column, c->count);
    *out_key = buf_slice(&p->key);
    return buf_rc(&p->key);
}

/* What to do with one map that a block belongs into, at the block's key there. */
typedef int (*map_act)(struct omap *map, qp_str key, void *block);

static int map_put(struct omap *map, qp_str key, void *block)
{
    return omap_put(map, key, block, NULL);
}

/* Within a transaction a block that goes leaves its place behind, so that putting it back needs no
 * memory. */
static int map_vacate(struct omap *map, qp_str key, void *block)
{
    (void)block;
    return omap_put(map, key, NULL, NULL);
}

static int map_delete_place(struct omap *map, qp_str key, void *block)
{
    (void)block;
    if (omap_get(map, key) == NULL) {
        (void)omap_delete(map, key); /* an empty place has no value */
    }
    return QP_OK;
}

static int map_delete_own(struct omap *map, qp_str key, void *block)
{
    if (omap_get(map, key) == block) {
        (void)omap_delete(map, key); /* the block is the caller's */
    }
    return QP_OK;
}

/* Does `act` for the table's map and for every index that holds the block. */
static int block_each(struct memory_provider *p, enum table_id table, void *block, map_act act)
{
    qp_str key;
    int rc = encode(p, table, block, &key);
    rc = rc == QP_OK ? act(&p->memory->rows[table], key, block) : rc;
    for (int i = 0; i < INDEX_COUNT && rc == QP_OK; i++) {
        if (indexes[i].table == table && indexes[i].holds(block)) {
            rc = encode_index(p, (enum index_id)i, block, &key);
            rc = rc == QP_OK ? act(&p->memory->indexes[i], key, block) : rc;
        }
    }
    return rc;
}

static void *block_find(struct memory_provider *p, enum table_id table, const void *key_row,
                        int *out_rc)
{
    qp_str key;
    *out_rc = encode(p, table, key_row, &key);
    return *out_rc == QP_OK ? omap_get(&p->memory->rows[table], key) : NULL;
}

/* --------------------------------------------------------------------------------- the provider */

static int memory_begin(struct provider *base, struct qp_err *err)
{
    struct memory_provider *p = self(base);
    struct memory *m = p->memory;
    QP_ASSERT(!p->active);
    if (m->options.mode == MEMORY_SERIAL && m->writer != NULL) {
        return err_set(err, QP_E_BUSY, "another handle is writing");
    }
    m->writer = m->options.mode == MEMORY_SERIAL ? p : NULL;
    p->active = true;
    return QP_OK;
}

static void memory_leave(struct memory_provider *p)
{
    locks_release(p);
    if (p->memory->writer == p) {
        p->memory->writer = NULL;
    }
    p->active = false;
    for (struct memory_provider *h = p->memory->handles; h != NULL; h = h->next_handle) {
        h->waits_for = h->waits_for == p ? NULL : h->waits_for; /* it may be gone before they ask */
    }
}

static void handle_unlist(struct memory_provider *p)
{
    struct memory_provider **link = &p->memory->handles;
    while (*link != NULL && *link != p) {
        link = &(*link)->next_handle;
    }
    if (*link == p) {
        *link = p->next_handle;
    }
}

static int memory_load(struct provider *base, struct arena *arena, enum table_id table,
                       const void *key, void **out_row, struct qp_err *err)
{
    struct memory_provider *p = self(base);
    int rc = memory_lock(p, table, key, err);
    void *block = rc == QP_OK ? block_find(p, table, key, &rc) : NULL;
    struct lock *lock = rc == QP_OK && !takes_locks(p) ? lock_find(p, table, key) : NULL;
    if (rc != QP_OK) {
        return rc;
    }
    if (lock != NULL && lock->owner != p && lock->written) {
        block = lock->committed;
    }
    *out_row = block == NULL ? NULL : row_copy(arena, table, block);
    return block != NULL && *out_row == NULL ? err_set(err, QP_E_NOMEM, "load: out of memory")
                                             : QP_OK;
}

/* The committed row of a lock, when the place of this key in the map that is scanned is the row's;
 * else NULL. */
static void *committed_at(struct memory_provider *p, const struct scan *scan, qp_str key,
                          const struct lock *lock)
{
    qp_str own;
    if (lock->committed == NULL || scan->index < 0) {
        return lock->committed;
    }
    return indexes[scan->index].holds(lock->committed) &&
                   encode_index(p, (enum index_id)scan->index, lock->committed, &own) == QP_OK &&
                   str_equal(own, key)
               ? lock->committed
               : NULL;
}

/* Who emptied a place. In an index the place does not say whose it was: all locks of the table are
 * asked. */
static struct lock *lock_of_place(struct memory_provider *p, const struct scan *scan, qp_str key)
{
    char table = (char)scan->table;
    struct omap_node *n = omap_seek(&p->memory->locks, (qp_str){&table, 1});
    if (scan->index < 0) {
        buf_reset(&p->key);
        buf_byte(&p->key, table);
        buf_str(&p->key, key);
        return omap_get(&p->memory->locks, buf_slice(&p->key));
    }
    for (; n != NULL && omap_key(n).p[0] == table; n = omap_next(n)) {
        struct lock *lock = omap_value(n);
        if (lock->written && committed_at(p, scan, key, lock) != NULL) {
            return lock;
        }
    }
    return NULL;
}

/* What a scan finds at one place of a map: the block that is there, locked from now on; or, when
 * another transaction is at it, the committed row for a reader, and for a transaction nothing or
 * the wait for the other. *out_row NULL: nothing. */
static int scan_place(struct memory_provider *p, const struct scan *scan, qp_str key, void *block,
                      const void **out_row, struct qp_err *err)
{
    struct lock *lock = NULL;
    *out_row = block;
    if (!takes_locks(p) || p->memory->options.mode == MEMORY_ROWS) {
        lock = block != NULL ? lock_find(p, scan->table, block) : lock_of_place(p, scan, key);
    }
    if (lock == NULL || lock->owner == p) {
        return block == NULL ? QP_OK : memory_lock(p, scan->table, block, err);
    }
    if (takes_locks(p)) {
        *out_row = NULL;
        return scan->skip_locked ? QP_OK : lock_wait(p, lock, scan->table, err);
    }
    *out_row = lock->written ? committed_at(p, scan, key, lock) : block;
    return QP_OK;
}

/* Where a scan begins: `key` is that of the row that it comes after, or the prefix. */
static struct omap_node *scan_first(const struct omap *map, const struct scan *scan,
                                    struct buf *key)
{
    if (!scan->backwards) {
        if (scan->after != NULL) {
            buf_byte(key, 0); /* the first key that is greater */
        }
        return omap_seek(map, buf_slice(key));
    }
    if (scan->after != NULL) {
        return omap_seek_before(map, buf_slice(key));
    }
    /* The last one of the prefix: before the first key that is greater than all of them. */
    while (key->n > 0 && (unsigned char)key->p[key->n - 1] == 0xff) {
        key->n--;
    }
    if (key->n == 0) {
        return omap_last(map);
    }
    key->p[key->n - 1]++;
    return omap_seek_before(map, buf_slice(key));
}

static struct omap_node *scan_next(const struct omap *map, const struct scan *scan,
                                   const struct omap_node *n)
{
    return scan->backwards ? omap_seek_before(map, omap_key(n)) : omap_next(n);
}

static int memory_scan(struct provider *base, const struct scan *scan, void *context,
                       store_visit visit, struct qp_err *err)
{
    static const size_t by_key[INDEX_COLUMNS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct memory_provider *p = self(base);
    struct memory *m = p->memory;
    const struct table *t = &tables[scan->table];
    const size_t *columns = scan->index < 0 ? by_key : m->index_columns[scan->index].column;
    size_t column_count = scan->index < 0 ? t->key_count : m->index_columns[scan->index].count;
    const struct omap *map = scan->index < 0 ? &m->rows[scan->table] : &m->indexes[scan->index];
    struct omap_node *n;
    struct buf prefix;
    size_t seen = 0;
    bool looked = p->looking;
    int rc;
    p->looking = looked || scan->peek;
    buf_init(&prefix, &m->env, 0);
    row_encode(&prefix, t, scan->prefix, columns, scan->prefix_count);
    buf_reset(&p->key);
    if (scan->after != NULL) {
        row_encode(&p->key, t, scan->after, columns, column_count);
    } else {
        buf_str(&p->key, buf_slice(&prefix));
    }
    rc = buf_rc(&prefix) != QP_OK ? buf_rc(&prefix) : buf_rc(&p->key);
    n = rc == QP_OK ? scan_first(map, scan, &p->key) : NULL;
    rc = rc == QP_OK ? buf_rc(&p->key) : rc;
    for (; rc == QP_OK && n != NULL && seen < scan->limit; n = scan_next(map, scan, n)) {
        qp_str key = omap_key(n);
        const void *row = NULL;
        if (key.n < prefix.n || (prefix.n > 0 && memcmp(key.p, prefix.p, prefix.n) != 0)) {
            break;
        }
        rc = scan_place(p, scan, key, omap_value(n), &row, err);
        if (rc == QP_OK && row != NULL) {
            rc = visit(context, row);
            seen++;
        }
    }
    p->looking = looked;
    buf_done(&prefix);
    return rc;
}

/* The row as committed, kept in the lock for readers of other handles. */
static int lock_note(struct memory_provider *p, enum table_id table, const void *row, void *block)
{
    struct lock *lock = NULL;
    qp_str key;
    int rc = QP_OK;
    if (p->memory->options.calls == NULL) {
        return QP_OK; /* no reader comes before it is over */
    }
    rc = encode_lock(p, table, row, &key);
    lock = rc == QP_OK ? omap_get(&p->memory->locks, key) : NULL;
    if (rc == QP_OK && lock == NULL) {
        rc = lock_new(p, key);
        lock = p->locks;
    }
    if (rc == QP_OK && !lock->written) {
        lock->written = true;
        lock->committed = block;
    }
    return rc;
}

static int write_blocks(struct memory_provider *p, enum table_id table, void *before, void *after)
{
    int rc = before != NULL ? block_each(p, table, before, map_vacate) : QP_OK;
    return rc == QP_OK && after != NULL ? block_each(p, table, after, map_put) : rc;
}

static int memory_write(struct provider *base, enum table_id table, const void *before,
                        const void *after, struct qp_err *err)
{
    struct memory_provider *p = self(base);
    const struct column *rev = &tables[table].columns[tables[table].column_count - 1];
    const void *key = before != NULL ? before : after;
    struct undo *u;
    void *there;
    int rc = memory_lock(p, table, key, err);
    if (rc != QP_OK) {
        return rc;
    }
    there = block_find(p, table, key, &rc);
    if (rc == QP_OK && ((there == NULL) != (before == NULL) ||
                        (there != NULL && row_i64(rev, there) != row_i64(rev, before)))) {
        return err_set(err, QP_E_CONFLICT, "%s: the row has changed since it was read",
                       tables[table].name);
    }
    u = rc == QP_OK ? mem_alloc(&p->memory->env, sizeof *u) : NULL;
    if (u == NULL) {
        return err_set(err, QP_E_NOMEM, "write %s: out of memory", tables[table].name);
    }
    *u = (struct undo){table, there, NULL, p->undo};
    p->undo = u;
    if (after != NULL) {
        u->after = row_clone(&p->memory->env, table, after);
        if (u->after == NULL) {
            return err_set(err, QP_E_NOMEM, "write %s: out of memory", tables[table].name);
        }
    }
    rc = lock_note(p, table, key, there);
    rc = rc == QP_OK ? write_blocks(p, table, there, u->after) : rc;
    return rc == QP_OK ? QP_OK : err_set(err, rc, "write %s: out of memory", tables[table].name);
}

static int memory_commit(struct provider *base, struct qp_err *err)
{
    struct memory_provider *p = self(base);
    (void)err;
    while (p->undo != NULL) {
        struct undo *u = p->undo;
        p->undo = u->below;
        if (u->before != NULL) {
            QP_ASSERT(block_each(p, u->table, u->before, map_delete_place) == QP_OK);
        }
        mem_free(&p->memory->env, u->before);
        mem_free(&p->memory->env, u);
    }
    memory_leave(p);
    return QP_OK;
}

/* Taking back needs no memory: the places are there, and the buffer for keys was made large enough
 * when opening. */
static void memory_rollback(struct provider *base)
{
    struct memory_provider *p = self(base);
    while (p->undo != NULL) {
        struct undo *u = p->undo;
        p->undo = u->below;
        if (u->before != NULL) {
            QP_ASSERT(block_each(p, u->table, u->before, map_put) == QP_OK);
        }
        if (u->after != NULL) {
            QP_ASSERT(block_each(p, u->table, u->after, map_delete_own) == QP_OK);
        }
        mem_free(&p->memory->env, u->after);
        mem_free(&p->memory->env, u);
    }
    memory_leave(p);
}

static int memory_host(struct provider *base, struct qp_err *err)
{
    (void)base;
    (void)err;
    return QP_OK;
}

static int memory_host_end(struct provider *base, bool keep, struct qp_err *err)
{
    (void)keep;
    return memory_host(base, err);
}

static void *memory_native(struct provider *base)
{
    (void)base;
    return NULL;
}

static int64_t memory_schema_version(const struct provider *base)
{
    (void)base;
    return 1;
}

static void memory_close(struct provider *base)
{
    struct memory_provider *p = self(base);
    struct memory *m = p->memory;
    if (p->active) {
        memory_rollback(base);
    }
    buf_done(&p->key);
    handle_unlist(p);
    m->handle_count--;
    if (p->owns_memory) {
        memory_destroy(m);
    }
    mem_free(base->env, p);
}

const struct provider_calls memory_calls = {
    .name = "memory",
    .begin = memory_begin,
    .load = memory_load,
    .scan = memory_scan,
    .write = memory_write,
    .commit = memory_commit,
    .rollback = memory_rollback,
    .host_begin = memory_host,
    .host_end = memory_host_end,
    .native = memory_native,
    .snapshot = memory_host_end, /* tables in memory have no second state */
    .idle = memory_host,
    .schema_version = memory_schema_version,
    .close = memory_close,
};

int memory_open(const struct qp_env *env, const struct store_options *options,
                struct provider **out_provider, struct qp_err *err)
{
    struct memory_provider *p = mem_alloc(env, sizeof *p);
    struct memory *m = options->memory;
    int rc = p == NULL ? QP_E_NOMEM : QP_OK;
    if (rc == QP_OK && m == NULL) {
        rc = memory_create(env, &(struct memory_options){.mode = MEMORY_SERIAL}, &m);
    }
    if (rc != QP_OK) {
        mem_free(env, p);
        return err_set(err, rc, "open memory store: out of memory");
    }
    p->base = (struct provider){
        .calls = m->options.calls != NULL && !options->read_only ? m->options.calls : &memory_calls,
        .env = env,
        .read_only = options->read_only,
        .shared = m->options.shared,
        .exclusive = m->options.exclusive,
    };
    p->memory = m;
    p->owns_memory = options->memory == NULL;
    m->handle_count++;
    p->next_handle = m->handles;
    m->handles = p;
    rc = key_buffer_init(p);
    if (rc != QP_OK) {
        memory_close(&p->base);
        return err_set(err, rc, "open memory store: out of memory");
    }
    *out_provider = &p->base;
    return QP_OK;
}

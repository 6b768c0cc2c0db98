/* model.c - see model.h */
#include "support/model.h"

#include <stdio.h>

#define NUMBERS_PER_BLOCK 16
#define POS_BITS 20

static struct memory_provider *self(struct provider *base)
{
    return (struct memory_provider *)base;
}

static struct model_world *world_of(const struct provider *base)
{
    return base->env->context;
}

/* -------------------------------------------------------------------------------- calls and fates */

static int say_lost(struct qp_err *err)
{
    return err_set(err, QP_E_BUSY, "the connection was lost");
}

/* The transaction is gone at once; its owner hears of it in its next call. */
static void lose(struct provider *base)
{
    struct memory_provider *p = self(base);
    struct model_world *w = world_of(base);
    if (p->active) {
        memory_calls.rollback(base);
        w->lost = true;
        w->ended(w->context);
    }
}

/* Before every call. Another code than QP_OK is the call's. */
static int enter(struct provider *base, enum model_call call, struct qp_err *err)
{
    struct model_world *w = world_of(base);
    enum model_fate fate = w->call(w->context, call);
    if (fate == FATE_ABORT) {
        lose(base);
        return say_lost(err);
    }
    return w->lost ? say_lost(err) : QP_OK;
}

static void leave(struct provider *base)
{
    struct model_world *w = world_of(base);
    w->xid = 0;
    if (w->server->tidier == self(base)) {
        w->server->tidier = NULL;
    }
    w->ended(w->context);
}

struct model_late {
    struct memory_provider p;
    struct qp_env env; /* whose context is `world` */
    struct model_world world;
};

/* What the handle has written and locked goes to a transaction of its own. */
static void detach(struct memory_provider *p)
{
    struct model_world *w = world_of(&p->base);
    struct memory *m = p->memory;
    struct model_late *late = mem_alloc(&m->env, sizeof *late);
    QP_ASSERT(late != NULL);
    late->world = *w;
    late->env = *p->base.env;
    late->env.context = &late->world;
    late->p = *p;
    late->p.base.env = &late->env;
    buf_init(&late->p.key, &m->env, 0);
    for (struct lock *lock = late->p.locks; lock != NULL; lock = lock->next_of_owner) {
        lock->owner = &late->p;
    }
    for (struct memory_provider *h = m->handles; h != NULL; h = h->next_handle) {
        h->waits_for = h->waits_for == p ? &late->p : h->waits_for;
    }
    p->undo = NULL;
    p->locks = NULL;
    p->active = false;
    late->p.next_handle = m->handles;
    m->handles = &late->p;
    m->handle_count++;
    leave(&p->base);
    w->late(w->context, late);
}

void model_late_commit(struct model_late *late)
{
    struct model_world *w = &late->world;
    struct memory *m = late->p.memory;
    struct memory_provider **link = &m->handles;
    struct qp_err err = {0};
    w->committing(w->context, &late->p);
    QP_ASSERT(memory_calls.commit(&late->p.base, &err) == QP_OK);
    while (*link != &late->p) {
        link = &(*link)->next_handle;
    }
    *link = late->p.next_handle;
    m->handle_count--;
    w->ended(w->context);
    w->committed(w->context);
    buf_done(&late->p.key);
    mem_free(&m->env, late);
}

static int model_commit(struct provider *base, struct qp_err *err)
{
    struct model_world *w = world_of(base);
    enum model_fate fate = w->call(w->context, CALL_COMMIT);
    if (w->lost || fate == FATE_ABORT) {
        lose(base);
        return say_lost(err);
    }
    if (fate == FATE_UNKNOWN_LATE) {
        detach(self(base));
        return err_set(err, QP_E_UNKNOWN_OUTCOME, "nobody knows how the commit will end");
    }
    if (fate == FATE_UNKNOWN_NOT) {
        memory_calls.rollback(base);
        leave(base);
        return err_set(err, QP_E_UNKNOWN_OUTCOME, "nobody knows how the commit ended");
    }
    w->committing(w->context, self(base));
    QP_ASSERT(memory_calls.commit(base, err) == QP_OK);
    leave(base);
    w->committed(w->context);
    (void)w->call(w->context, CALL_COMMITTED); /* nothing can fail any more */
    return fate == FATE_UNKNOWN_DONE
               ? err_set(err, QP_E_UNKNOWN_OUTCOME, "nobody knows how the commit ended")
               : QP_OK;
}

static void model_rollback(struct provider *base)
{
    struct model_world *w = world_of(base);
    w->lost = false;
    if (self(base)->active) {
        memory_calls.rollback(base);
    }
    leave(base);
}

void model_forget(struct memory_provider *p)
{
    if (p->active) {
        model_rollback(&p->base);
    }
    memory_calls.close(&p->base);
}

/* ------------------------------------------------------------------------------------------ serial */

static int serial_begin(struct provider *base, struct qp_err *err)
{
    struct model_world *w = world_of(base);
    int rc = enter(base, CALL_BEGIN, err);
    while (rc == QP_OK && self(base)->memory->writer != NULL) {
        w->wait(w->context);
    }
    return rc == QP_OK ? memory_calls.begin(base, err) : rc;
}

static int serial_load(struct provider *base, struct arena *arena, enum table_id table,
                       const void *key, void **out_row, struct qp_err *err)
{
    int rc = enter(base, CALL_LOAD, err);
    return rc == QP_OK ? memory_calls.load(base, arena, table, key, out_row, err) : rc;
}

static int serial_scan(struct provider *base, const struct scan *scan, void *context,
                       store_visit visit, struct qp_err *err)
{
    int rc = enter(base, CALL_SCAN, err);
    return rc == QP_OK ? memory_calls.scan(base, scan, context, visit, err) : rc;
}

static int serial_write(struct provider *base, enum table_id table, const void *before,
                        const void *after, struct qp_err *err)
{
    int rc = enter(base, CALL_WRITE, err);
    return rc == QP_OK ? memory_calls.write(base, table, before, after, err) : rc;
}

static int model_host_begin(struct provider *base, struct qp_err *err)
{
    return memory_calls.host_begin(base, err);
}

static int model_host_end(struct provider *base, bool keep, struct qp_err *err)
{
    return memory_calls.host_end(base, keep, err);
}

static void *model_native(struct provider *base)
{
    return memory_calls.native(base);
}

static int model_snapshot(struct provider *base, bool begin, struct qp_err *err)
{
    return memory_calls.snapshot(base, begin, err);
}

static int model_idle(struct provider *base, struct qp_err *err)
{
    return memory_calls.idle(base, err);
}

static int64_t model_schema_version(const struct provider *base)
{
    return memory_calls.schema_version(base);
}

static void model_close(struct provider *base)
{
    model_forget(self(base));
}

const struct provider_calls model_serial_calls = {
    .name = "sim-serial",
    .begin = serial_begin,
    .load = serial_load,
    .scan = serial_scan,
    .write = serial_write,
    .commit = model_commit,
    .rollback = model_rollback,
    .host_begin = model_host_begin,
    .host_end = model_host_end,
    .native = model_native,
    .snapshot = model_snapshot,
    .idle = model_idle,
    .schema_version = model_schema_version,
    .close = model_close,
};

/* ------------------------------------------------------------------------------------------- locks */

static int locks_begin(struct provider *base, struct qp_err *err)
{
    int rc = enter(base, CALL_BEGIN, err);
    return rc == QP_OK ? memory_calls.begin(base, err) : rc;
}

/* True: what the call met was locked, and may be free now. */
static bool waited(struct provider *base, int rc)
{
    struct model_world *w = world_of(base);
    if (rc != QP_E_BUSY) {
        return false;
    }
    w->wait(w->context);
    return true;
}

static int locks_load(struct provider *base, struct arena *arena, enum table_id table,
                      const void *key, void **out_row, struct qp_err *err)
{
    int rc = enter(base, CALL_LOAD, err);
    if (rc != QP_OK) {
        return rc;
    }
    do {
        rc = memory_calls.load(base, arena, table, key, out_row, err);
    } while (waited(base, rc));
    return rc;
}

static int visit_nothing(void *context, const void *row)
{
    (void)context;
    (void)row;
    return QP_OK;
}

/* All rows of the range are locked before the first one is visited. */
static int locks_scan(struct provider *base, const struct scan *scan, void *context,
                      store_visit visit, struct qp_err *err)
{
    int rc = enter(base, CALL_SCAN, err);
    if (rc != QP_OK) {
        return rc;
    }
    do {
        rc = memory_calls.scan(base, scan, NULL, visit_nothing, err);
    } while (waited(base, rc));
    return rc == QP_OK ? memory_calls.scan(base, scan, context, visit, err) : rc;
}

static int locks_write(struct provider *base, enum table_id table, const void *before,
                       const void *after, struct qp_err *err)
{
    int rc = enter(base, CALL_WRITE, err);
    if (rc != QP_OK) {
        return rc;
    }
    do {
        rc = memory_calls.write(base, table, before, after, err);
    } while (waited(base, rc));
    return rc;
}

const struct provider_calls model_locks_calls = {
    .name = "sim-locks",
    .begin = locks_begin,
    .load = locks_load,
    .scan = locks_scan,
    .write = locks_write,
    .commit = model_commit,
    .rollback = model_rollback,
    .host_begin = model_host_begin,
    .host_end = model_host_end,
    .native = model_native,
    .snapshot = model_snapshot,
    .idle = model_idle,
    .schema_version = model_schema_version,
    .close = model_close,
};

/* -------------------------------------------------------------------------------- rows: locks, loads */

static int64_t know_xid(struct provider *base)
{
    struct model_world *w = world_of(base);
    if (w->xid == 0) {
        w->xid = w->server->next_xid++;
    }
    return w->xid;
}

/* The server says what time it is whenever it is asked for something between transactions. */
static void tell_time(struct provider *base)
{
    struct model_world *w = world_of(base);
    if (!self(base)->active) {
        base->server_ms = w->now_ms(w->context);
        base->server_us = base->env->monotonic_us(base->env->context);
    }
}

static int see(struct provider *base, struct arena *arena, enum table_id table, const void *key,
               void **out_row, struct qp_err *err);

/* What was committed when the transaction began. */
static int tell_definitions(struct provider *base, struct qp_err *err)
{
    struct arena arena;
    void *row = NULL;
    int rc;
    arena_init(&arena, base->env, 0);
    rc = see(base, &arena, TABLE_definition, &(struct definition_row){.ns = 0}, &row, err);
    if (rc == QP_OK) {
        base->definitions = row == NULL ? 0 : ((const struct definition_row *)row)->n;
    }
    arena_done(&arena);
    return rc;
}

static int rows_begin(struct provider *base, struct qp_err *err)
{
    int rc = enter(base, CALL_BEGIN, err);
    tell_time(base);
    rc = rc == QP_OK ? memory_calls.begin(base, err) : rc;
    return rc == QP_OK ? tell_definitions(base, err) : rc;
}

/* Waits for whoever has it. `pass`: rather not, and *out_has says whether it is ours. */
static int lock_row(struct provider *base, enum table_id table, const void *row, bool pass,
                    bool *out_has, struct qp_err *err)
{
    struct model_world *w = world_of(base);
    int rc = memory_lock(self(base), table, row, err);
    while (rc == QP_E_BUSY && !pass) {
        w->wait(w->context);
        rc = w->lost ? say_lost(err) : memory_lock(self(base), table, row, err);
        if (w->lost) {
            return rc;
        }
    }
    *out_has = rc == QP_OK;
    if (rc == QP_OK) {
        (void)know_xid(base);
    }
    if (pass && (rc == QP_E_BUSY || rc == QP_E_TIMEOUT)) {
        self(base)->waits_for = NULL;
        return QP_OK;
    }
    if (rc == QP_E_TIMEOUT) {
        lose(base); /* the victim of a deadlock */
    }
    return rc;
}

/* What this transaction sees of a row now. */
static int see(struct provider *base, struct arena *arena, enum table_id table, const void *key,
               void **out_row, struct qp_err *err)
{
    struct memory_provider *p = self(base);
    int rc;
    p->looking = true;
    *out_row = NULL;
    rc = memory_calls.load(base, arena, table, key, out_row, err);
    p->looking = false;
    return rc;
}

static bool is_husk(const struct lane_row *lane)
{
    return lane->ready == 0 && lane->held == 0 &&
           (lane->own < 0 || (lane->own == 0 && lane->limit_key.n > 0));
}

/* The numbers of the head row are the server's. */
static void fill_head(const struct provider *base, struct head_row *head)
{
    const struct model_server *server = world_of(base)->server;
    head->pos = server->next_xid << POS_BITS;
    head->ord = server->next_ord - 1;
    head->next_id = server->next_id;
}

/* The row, locked: whoever waited looks again. None stays none, and is not locked. */
static int see_and_lock(struct provider *base, struct arena *arena, enum table_id table,
                        const void *key, void **out_row, struct qp_err *err)
{
    bool has = false;
    int rc = see(base, arena, table, key, out_row, err);
    if (rc == QP_OK && *out_row != NULL && self(base)->active) {
        rc = lock_row(base, table, key, false, &has, err);
        rc = rc == QP_OK ? see(base, arena, table, key, out_row, err) : rc;
    }
    return rc;
}

static int lock_job(struct provider *base, struct arena *arena, int64_t ns, int64_t job,
                    struct qp_err *err)
{
    void *row = NULL;
    struct job_row key = {.ns = ns, .job = job};
    return job > 0 && self(base)->active ? see_and_lock(base, arena, TABLE_job, &key, &row, err)
                                         : QP_OK;
}

static int rows_load(struct provider *base, struct arena *arena, enum table_id table,
                     const void *key, void **out_row, struct qp_err *err)
{
    const struct table *t = &tables[table];
    void *row = NULL;
    int rc = enter(base, CALL_LOAD, err);
    tell_time(base);
    if (rc == QP_OK && t->keyed_by_job && table != TABLE_job) {
        rc = lock_job(base, arena, row_i64(&t->columns[0], key), row_i64(&t->columns[1], key), err);
    }
    if (rc != QP_OK) {
        return rc;
    }
    if (t->additive || table == TABLE_head) {
        rc = see(base, arena, table, key, &row, err);
        if (rc == QP_OK && table == TABLE_lane && row != NULL &&
            ((const struct lane_row *)row)->max > 0) {
            rc = see_and_lock(base, arena, table, key, &row, err);
        }
    } else {
        rc = see_and_lock(base, arena, table, key, &row, err);
    }
    if (rc == QP_OK && row != NULL && table == TABLE_head) {
        fill_head(base, row);
    }
    if (rc == QP_OK) {
        *out_row = row != NULL && table == TABLE_lane && is_husk(row) ? NULL : row;
    }
    return rc;
}

static int rows_peek(struct provider *base, struct arena *arena, enum table_id table,
                     const void *key, void **out_row, struct qp_err *err)
{
    int rc = enter(base, CALL_PEEK, err);
    return rc == QP_OK ? see(base, arena, table, key, out_row, err) : rc;
}

/* ------------------------------------------------------------------------------------- rows: scans */

struct found {
    struct arena *arena;
    enum table_id table;
    void **rows;
    size_t count;
    size_t capacity;
};

static int found_add(void *context, const void *row)
{
    struct found *f = context;
    if (f->count == f->capacity) {
        size_t capacity = f->capacity == 0 ? 16 : 2 * f->capacity;
        void **rows = arena_alloc(f->arena, capacity * sizeof *rows);
        QP_ASSERT(rows != NULL);
        if (f->count > 0) {
            memcpy(rows, f->rows, f->count * sizeof *rows);
        }
        f->rows = rows;
        f->capacity = capacity;
    }
    f->rows[f->count] = row_copy(f->arena, f->table, row);
    QP_ASSERT(f->rows[f->count] != NULL);
    f->count++;
    return QP_OK;
}

/* What the statement sees when it begins. */
static int see_range(struct provider *base, const struct scan *scan, struct found *out,
                     struct qp_err *err)
{
    struct scan all = *scan;
    int rc;
    all.limit = SIZE_MAX;
    self(base)->looking = true;
    rc = memory_calls.scan(base, &all, out, found_add, err);
    self(base)->looking = false;
    return rc;
}

/* Whether a row that may have changed since still belongs to the range. */
static bool fits(const struct memory *m, const struct scan *scan, const void *row)
{
    const struct table *t = &tables[scan->table];
    if (scan->index >= 0 && !indexes[scan->index].holds(row)) {
        return false;
    }
    for (size_t i = 0; i < scan->prefix_count; i++) {
        size_t column = scan->index < 0 ? i : m->index_columns[scan->index].column[i];
        if (!column_equal(&t->columns[column], scan->prefix, row)) {
            return false;
        }
    }
    return true;
}

static bool locks_what_it_scans(const struct provider *base, const struct scan *scan)
{
    const struct table *t = &tables[scan->table];
    bool of_job = t->keyed_by_job && scan->index < 0 && scan->prefix_count >= 2;
    return ((const struct memory_provider *)base)->active && !t->additive && !of_job &&
           !scan->peek && scan->table != TABLE_head;
}

/* One row of the range, as it is now. NULL: it is passed over. */
static int take(struct provider *base, const struct scan *scan, struct arena *arena, void *row,
                void **out_row, struct qp_err *err)
{
    bool lane = scan->table == TABLE_lane;
    bool limited = lane && ((const struct lane_row *)row)->max > 0 && self(base)->active;
    bool has = false;
    int rc;
    *out_row = row;
    if (scan->table == TABLE_head) {
        fill_head(base, row);
    }
    if (lane && is_husk(row)) {
        *out_row = NULL;
        return QP_OK;
    }
    if (!limited && !locks_what_it_scans(base, scan)) {
        return QP_OK;
    }
    rc = lock_row(base, scan->table, row, limited || scan->skip_locked, &has, err);
    rc = rc == QP_OK && has ? see(base, arena, scan->table, row, out_row, err) : rc;
    if (!has || *out_row == NULL || !fits(self(base)->memory, scan, *out_row)) {
        *out_row = NULL;
    }
    return rc;
}

static int rows_scan(struct provider *base, const struct scan *scan, void *context,
                     store_visit visit, struct qp_err *err)
{
    const struct table *t = &tables[scan->table];
    struct arena arena;
    struct found f = {.arena = &arena, .table = scan->table};
    size_t seen = 0;
    int rc = enter(base, CALL_SCAN, err);
    if (rc != QP_OK) {
        return rc;
    }
    arena_init(&arena, base->env, 0);
    if (t->keyed_by_job && scan->index < 0 && scan->prefix_count >= 2) {
        rc = lock_job(base, &arena, row_i64(&t->columns[0], scan->prefix),
                      row_i64(&t->columns[1], scan->prefix), err);
    }
    rc = rc == QP_OK ? see_range(base, scan, &f, err) : rc;
    for (size_t i = 0; i < f.count && rc == QP_OK && seen < scan->limit; i++) {
        void *row = NULL;
        rc = take(base, scan, &arena, f.rows[i], &row, err);
        if (rc == QP_OK && row != NULL) {
            rc = visit(context, row);
            seen++;
        }
    }
    arena_done(&arena);
    return rc;
}

struct forward {
    void *context;
    provider_visit visit;
    enum table_id table;
};

static int forward_row(void *context, const void *row)
{
    const struct forward *f = context;
    return f->visit(f->context, f->table, row);
}

static int visit_rows_of(struct provider *base, const struct job_list *list, enum table_id table,
                         void *context, provider_visit visit, struct qp_err *err)
{
    struct forward forward = {context, visit, table};
    int rc = QP_OK;
    for (size_t i = 0; i < list->count && rc == QP_OK; i++) {
        union {
            int64_t numbers[2];
            char bytes[1024];
        } prefix = {.numbers = {0}};
        struct scan scan = {
            .table = table, .index = -1, .prefix = &prefix, .prefix_count = 2, .limit = SIZE_MAX};
        row_set_i64(&tables[table].columns[0], &prefix, list->jobs[i].ns);
        row_set_i64(&tables[table].columns[1], &prefix, list->jobs[i].job);
        self(base)->looking = true;
        rc = memory_calls.scan(base, &scan, &forward, forward_row, err);
        self(base)->looking = false;
    }
    return rc;
}

/* Jobs whose journal is long are not fetched, nor their messages. */
static struct job_list short_ones(struct provider *base, struct arena *arena,
                                  const struct job_list *list, struct qp_err *err)
{
    struct job_list out = {arena_alloc(arena, (list->count + 1) * sizeof *out.jobs), 0};
    QP_ASSERT(out.jobs != NULL);
    for (size_t i = 0; i < list->count; i++) {
        void *row = NULL;
        struct job_row key = {.ns = list->jobs[i].ns, .job = list->jobs[i].job};
        if (see(base, arena, TABLE_job, &key, &row, err) == QP_OK && row != NULL &&
            ((const struct job_row *)row)->seq <= LIMIT_FETCH_SEQ) {
            out.jobs[out.count++] = list->jobs[i];
        }
    }
    return out;
}

static int rows_expect(struct provider *base, const struct job_list *locked,
                       const struct job_list *fetched, void *context, provider_visit visit,
                       bool *out_left, struct qp_err *err)
{
    struct arena arena;
    struct job_list some;
    int rc = enter(base, CALL_EXPECT, err);
    *out_left = false;
    if (rc != QP_OK) {
        return rc;
    }
    arena_init(&arena, base->env, 0);
    for (size_t i = 0; i < locked->count && rc == QP_OK; i++) {
        void *row = NULL;
        struct job_row key = {.ns = locked->jobs[i].ns, .job = locked->jobs[i].job};
        rc = see_and_lock(base, &arena, TABLE_job, &key, &row, err);
        rc = rc == QP_OK && row != NULL ? visit(context, TABLE_job, row) : rc;
    }
    if (rc == QP_OK && locked->count > 0) {
        (void)know_xid(base);
        some = short_ones(base, &arena, locked, err);
        rc = visit_rows_of(base, &some, TABLE_msg, context, visit, err);
    }
    some = rc == QP_OK ? short_ones(base, &arena, fetched, err) : (struct job_list){NULL, 0};
    for (int table = 0; table < TABLE_COUNT && rc == QP_OK; table++) {
        if (fetched_tables[table] && table != TABLE_msg) {
            rc = visit_rows_of(base, &some, (enum table_id)table, context, visit, err);
        }
    }
    arena_done(&arena);
    return rc;
}

/* ------------------------------------------------------------------------------------ rows: numbers */

static int rows_number(struct provider *base, enum txn_series series, int64_t count,
                       int64_t *out_first, struct qp_err *err)
{
    struct model_server *server = world_of(base)->server;
    struct provider_block *b = &base->blocks[series];
    int64_t size = count > NUMBERS_PER_BLOCK ? count : NUMBERS_PER_BLOCK;
    int rc = enter(base, CALL_NUMBER, err);
    if (rc != QP_OK) {
        return rc;
    }
    if (series == SERIES_POS) {
        *out_first = know_xid(base) << POS_BITS;
        return QP_OK;
    }
    if (b->end - b->next < count) {
        int64_t *next = series == SERIES_ID ? &server->next_id : &server->next_ord;
        *b = (struct provider_block){*next, *next, *next + size};
        *next += size;
    }
    *out_first = b->next;
    b->next += count;
    return QP_OK;
}

static int rows_settled(struct provider *base, int64_t *out_pos, struct qp_err *err)
{
    struct model_server *server = world_of(base)->server;
    int64_t oldest = server->next_xid;
    (void)err;
    for (const struct memory_provider *h = self(base)->memory->handles; h != NULL;
         h = h->next_handle) {
        const struct model_world *w = h->base.read_only ? NULL : h->base.env->context;
        oldest = w != NULL && w->xid != 0 && w->xid < oldest ? w->xid : oldest;
    }
    *out_pos = oldest << POS_BITS;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------ rows: writing */

/* A lane whose row another made, or took away, since: what stands there and what is written. */
static void lane_merge(struct lane_row *now, const struct lane_row *before,
                       const struct lane_row *after)
{
    bool husk = is_husk(now);
    int64_t ready = (after == NULL ? 0 : after->ready) - (before == NULL ? 0 : before->ready);
    int64_t held = (after == NULL ? 0 : after->held) - (before == NULL ? 0 : before->held);
    if (before == NULL) {
        if (after->own == 1 || husk) {
            now->own = after->own;
            now->max = after->max;
            now->served = after->served;
        }
    } else if (after == NULL) {
        bool empty = now->ready + ready == 0 && now->held + held == 0;
        now->own = empty && (now->own <= 0 || before->own == 1) ? -1 : now->own > 0 ? now->own : 0;
    } else {
        now->own = after->own != before->own ? after->own : now->own > 0 ? now->own : 0;
        now->max = after->max != before->max ? after->max : now->max;
        now->served = after->served != before->served ? after->served : now->served;
    }
    now->ready += ready;
    now->held += held;
}

static int add_lane(struct provider *base, struct arena *arena, const struct lane_row *before,
                    const struct lane_row *after, const struct lane_row *there, struct qp_err *err)
{
    struct lane_row *now;
    bool new = before == NULL && after->ready >= 0 && after->held >= 0;
    if (there == NULL) {
        return new ? memory_calls.write(base, TABLE_lane, NULL, after, err)
                   : err_set(err, QP_E_CONFLICT, "lane: the row is gone");
    }
    now = row_copy(arena, TABLE_lane, there);
    QP_ASSERT(now != NULL);
    lane_merge(now, before, after);
    now->rev++;
    if (now->ready < 0 || now->held < 0) {
        return err_set(err, QP_E_CONFLICT, "lane: a sum would fall below zero");
    }
    return memory_calls.write(base, TABLE_lane, there, now, err);
}

static int add_counter(struct provider *base, const struct counter_row *before,
                       const struct counter_row *after, const struct counter_row *there,
                       struct qp_err *err)
{
    struct counter_row now;
    if (there == NULL && before != NULL) {
        return err_set(err, QP_E_CONFLICT, "counter: the row is gone");
    }
    if (there == NULL) {
        return memory_calls.write(base, TABLE_counter, NULL, after, err);
    }
    now = *there;
    now.n += (after == NULL ? 0 : after->n) - (before == NULL ? 0 : before->n);
    now.rev++;
    return memory_calls.write(base, TABLE_counter, there, &now, err);
}

static int add_definition(struct provider *base, const struct definition_row *before,
                          const struct definition_row *after, const struct definition_row *there,
                          struct qp_err *err)
{
    struct definition_row now;
    if (there == NULL) {
        return memory_calls.write(base, TABLE_definition, NULL, after, err);
    }
    now = *there;
    now.n += after->n - (before == NULL ? 0 : before->n);
    now.rev++;
    return memory_calls.write(base, TABLE_definition, there, &now, err);
}

/* The difference, to whatever is there when nobody else is at it. */
static int add_row(struct provider *base, enum table_id table, const void *before,
                   const void *after, struct qp_err *err)
{
    const void *key = after != NULL ? after : before;
    struct arena arena;
    void *there = NULL;
    bool has = false;
    int rc = lock_row(base, table, key, false, &has, err);
    if (rc != QP_OK) {
        return rc;
    }
    arena_init(&arena, base->env, 0);
    rc = see(base, &arena, table, key, &there, err);
    if (rc == QP_OK) {
        QP_ASSERT(table == TABLE_lane || table == TABLE_counter || table == TABLE_definition);
        rc = table == TABLE_lane      ? add_lane(base, &arena, before, after, there, err)
             : table == TABLE_counter ? add_counter(base, before, after, there, err)
                                      : add_definition(base, before, after, there, err);
    }
    arena_done(&arena);
    return rc;
}

static int rows_write(struct provider *base, enum table_id table, const void *before,
                      const void *after, struct qp_err *err)
{
    bool has = false;
    int rc = enter(base, CALL_WRITE, err);
    if (rc != QP_OK) {
        return rc;
    }
    QP_ASSERT(table != TABLE_head); /* only a copy writes it */
    if (tables[table].additive) {
        return add_row(base, table, before, after, err);
    }
    rc = lock_row(base, table, before != NULL ? before : after, false, &has, err);
    return rc == QP_OK ? memory_calls.write(base, table, before, after, err) : rc;
}

/* -------------------------------------------------------------------------------------- rows: rest */

static void rows_wait(struct provider *base, int tries)
{
    struct model_world *w = world_of(base);
    w->pause(w->context, tries < 2 ? 0 : INT64_C(1000) << (tries < 9 ? tries : 8));
}

static int rows_tidies(struct provider *base, bool *out_may, struct qp_err *err)
{
    struct model_server *server = world_of(base)->server;
    (void)err;
    if (server->tidier == NULL) {
        server->tidier = self(base);
    }
    *out_may = server->tidier == self(base);
    return QP_OK;
}

static bool rows_wake_take(struct provider *base)
{
    (void)base;
    return false; /* the world wakes whoever it is told to */
}

static int rows_wake_fd(struct provider *base)
{
    (void)base;
    return -1;
}

static void rows_wake_others(struct provider *base)
{
    struct model_world *w = world_of(base);
    w->hint(w->context);
}

const struct provider_calls model_rows_calls = {
    .name = "sim-rows",
    .begin = rows_begin,
    .load = rows_load,
    .peek = rows_peek,
    .scan = rows_scan,
    .expect = rows_expect,
    .number = rows_number,
    .settled = rows_settled,
    .write = rows_write,
    .commit = model_commit,
    .wait = rows_wait,
    .rollback = model_rollback,
    .host_begin = model_host_begin,
    .host_end = model_host_end,
    .native = model_native,
    .snapshot = model_snapshot,
    .tidies = rows_tidies,
    .wake_fd = rows_wake_fd,
    .wake_take = rows_wake_take,
    .wake_others = rows_wake_others,
    .idle = model_idle,
    .schema_version = model_schema_version,
    .close = model_close,
};

/* copy.c - moves a store: every row by key, in bounded transactions (see copy.h)
 *
 *   I1  the destination says FILLING from before its first copied row until after its last one:
 *       nobody opens it meanwhile but another copy, which empties it and begins again
 *   I2  the source says MOVED before the destination can be used, so no moment has two of them
 *   I3  what is copied is one state: nobody else can write to the source (store_options.moving), or its
 *       numbers are the same at the end as they were at the beginning, and every commit of an engine
 *       takes some
 *   I4  nobody else has written to the destination's head row since it said FILLING
 *
 *   source        IN_USE ------------------------------------ 4 --> MOVED
 *   destination   empty, FILLING -- 1 --> FILLING -- 2, 3 -->         -- 5 --> IN_USE
 *
 *   1  fill_begin   the source's head row, as FILLING       what is there goes, page by page
 *   2  copy_page    the rows of every table, page by page
 *   3  (no writing) rows are counted, and the caller looks for itself
 *   4  leave        the source: MOVED, and an audit row says where to; not with keep_source
 *   5  fill_end     the source's head row as it was
 *
 * The head row of a destination gets a revision that it never had. Where several can write, that is how
 * a handle which slept through the move learns that this is not the store that it knew.
 *
 * If we crash before 1, nothing has happened. Between 1 and 4 the source goes on as if there had been
 * nothing, and the destination is refused. Between 4 and 5 both are refused, and each says what to
 * do: the same copy again, which a source that was moved allows to this destination alone, as long as it
 * is FILLING or empty. After 5 all is done.
 */
#include "store/copy.h"

#include <stdio.h>

#include "base/failpoint.h"
#include "store/apply.h"

struct copy {
    const struct copy_options *options;
    struct store *reader;
    struct head_row head;    /* of the source, as it was when the copy began */
    struct head_row left;    /* and as it is left */
    struct head_row to_head; /* of the destination */
    struct copy_progress progress;
    int64_t counted; /* rows of a table at the destination */
    struct qp_err *err;
    /* the page */
    struct arena arena;
    enum table_id table;
    size_t count;
    size_t size;
    bool cut; /* by its size: there are more rows */
    void *rows[LIMIT_COPY_ROWS];
};

/* What one transaction does. */
typedef int (*copy_change)(struct copy *c, struct txn *t);

static int check_source(struct copy *c);
static int check_destination(struct copy *c);
static int clear_all(struct copy *c);
static int copy_all(struct copy *c);
static int count_all(struct copy *c);
static int transact(struct copy *c, struct store *s, copy_change change);
static int fill_begin(struct copy *c, struct txn *t);
static int leave(struct copy *c, struct txn *t);
static int fill_end(struct copy *c, struct txn *t);

static int copy_run(struct copy *c)
{
    const struct copy_options *o = c->options;
    int rc = check_source(c);
    rc = rc == QP_OK ? check_destination(c) : rc;
    rc = rc == QP_OK ? transact(c, o->to, fill_begin) : rc;
    rc = rc == QP_OK ? clear_all(c) : rc;
    rc = rc == QP_OK ? copy_all(c) : rc;
    rc = rc == QP_OK ? count_all(c) : rc;
    rc = rc == QP_OK && o->verify != NULL ? o->verify(o->context, o->from, o->to, c->err) : rc;
    rc = rc == QP_OK ? transact(c, o->from, leave) : rc;
    return rc == QP_OK ? transact(c, o->to, fill_end) : rc;
}

int store_copy(const struct copy_options *options, struct copy_progress *out_progress,
               struct qp_err *err)
{
    const struct qp_env *env = store_env(options->to);
    struct copy *c = mem_alloc(env, sizeof *c);
    int rc;
    QP_ASSERT(options->from != options->to);
    if (c == NULL) {
        return err_set(err, QP_E_NOMEM, "copy: out of memory");
    }
    c->options = options;
    c->reader = options->reader != NULL ? options->reader : options->from;
    c->err = err;
    arena_init(&c->arena, env, 0);
    rc = store_snapshot_begin(c->reader, err);
    if (rc == QP_OK) {
        rc = copy_run(c);
        (void)store_snapshot_end(c->reader, NULL); /* it has only read */
    }
    if (rc == QP_OK) {
        *out_progress = c->progress;
    }
    arena_done(&c->arena);
    mem_free(env, c);
    return rc;
}

/* -------------------------------------------------------------------------------- may it be done? */

struct live {
    qp_ms now;
    char name[LIMIT_LOG_ECHO_SIZE];
};

static int live_row(void *context, const void *row)
{
    const struct node_row *node = row;
    struct live *live = context;
    if (node->lease_until > live->now) {
        (void)snprintf(live->name, sizeof live->name, "%lld (%.*s)", (long long)node->epoch,
                       STR_ARG(node->name));
    }
    return QP_OK;
}

/* A run without a lease had the store for itself; that it is not there any more is known by our own
 * having it. */
static int check_runs(struct store *from, struct store *reader, struct qp_err *err)
{
    struct live live = {.now = store_now(from)};
    struct scan nodes = {.table = TABLE_node, .index = -1, .limit = SIZE_MAX};
    struct store_info info;
    int rc;
    store_info(from, &info);
    if (info.exclusive) {
        return QP_OK;
    }
    rc = store_scan(reader, &nodes, &live, live_row, err);
    if (rc == QP_OK && live.name[0] != '\0') {
        return err_set(err, QP_E_LOCKED, "the source: run %s is at work; stop it first", live.name);
    }
    return rc;
}

static int refuse_moved(const char *target, struct qp_err *err)
{
    return err_set(err, QP_E_READONLY, "the source: was moved to %s already; move that one",
                   target);
}

int copy_allowed(struct store *from, struct store *reader, const char *to_name, struct qp_err *err)
{
    char target[LIMIT_STORE_NAME_SIZE] = "";
    struct head_row head;
    int rc = store_head(store_provider(reader), &head, err);
    if (rc == QP_OK && head.clean == HEAD_FILLING) {
        return err_set(
            err, QP_E_CONFLICT,
            "the source: is half of a copy that was cut off; move the store it came from");
    }
    rc = rc == QP_OK && head.clean == HEAD_MOVED ? store_moved_to(reader, target, err) : rc;
    if (rc == QP_OK && head.clean == HEAD_MOVED && strcmp(target, to_name) != 0) {
        return refuse_moved(target, err);
    }
    return rc == QP_OK ? check_runs(from, reader, err) : rc;
}

static int check_source(struct copy *c)
{
    const struct copy_options *o = c->options;
    int rc = copy_allowed(o->from, c->reader, o->to_name, c->err);
    rc = rc == QP_OK ? store_head(store_provider(c->reader), &c->head, c->err) : rc;
    rc = rc == QP_OK ? store_head(store_provider(o->to), &c->to_head, c->err) : rc;
    c->left = c->head;
    return rc;
}

static int stop_at_row(void *context, const void *row)
{
    const enum table_id *table = context;
    bool is_seed = *table == TABLE_space && ((const struct space_row *)row)->ns == STORE_NS_DEFAULT;
    return is_seed ? QP_OK : QP_E_EXISTS;
}

/* Empty is what a new store is: the default namespace, and a head row. */
static int check_empty(struct copy *c)
{
    int rc = QP_OK;
    for (int i = 0; i < TABLE_COUNT && rc == QP_OK; i++) {
        enum table_id table = (enum table_id)i;
        struct scan first = {.table = table, .index = -1, .limit = 2};
        rc = table != TABLE_head ? store_scan(c->options->to, &first, &table, stop_at_row, c->err)
                                 : QP_OK;
        if (rc == QP_E_EXISTS) {
            rc = err_set(c->err, rc,
                         "the destination: is not empty (%s); name a new one, or remove it first",
                         tables[table].name);
        }
    }
    return rc;
}

/* A copy that was cut off is made again, also when its source had said goodbye, and also when what
 * there was of it is lost: else nobody could ever use that source again. */
static int check_destination(struct copy *c)
{
    int rc = c->to_head.clean == HEAD_FILLING ? QP_OK : check_empty(c);
    return rc == QP_E_EXISTS && c->head.clean == HEAD_MOVED
               ? refuse_moved(c->options->to_name, c->err)
               : rc;
}

/* ----------------------------------------------------------------------------------- transactions */

struct step {
    struct copy *copy;
    struct store *store;
    copy_change change;
};

/* Where several can write, another copy may have begun to fill the same destination. */
static int check_alone(const struct copy *c, struct txn *t)
{
    struct head_row now;
    int rc = store_head(t->provider, &now, t->err);
    return rc == QP_OK && now.rev != c->to_head.rev
               ? err_set(t->err, QP_E_CONFLICT,
                         "the destination: somebody else writes to it; wait until they are done")
               : rc;
}

static int step_change(void *context, struct txn *t)
{
    const struct step *step = context;
    struct copy *c = step->copy;
    int rc = step->store == c->options->to ? check_alone(c, t) : QP_OK;
    rc = rc == QP_OK ? step->change(c, t) : rc;
    rc = rc == QP_OK && t->rc != QP_OK ? t->rc : rc;
    return rc == QP_OK ? FP("copy.before") : rc;
}

static int transact(struct copy *c, struct store *s, copy_change change)
{
    struct step step = {c, s, change};
    int rc = store_transact(s, &step, step_change, c->err);
    if (rc == QP_OK) {
        store_heed(s, s == c->options->to ? &c->to_head : &c->left);
    }
    return rc == QP_OK ? FP("copy.after") : rc;
}

/* Many rows of one table: all new, or all to go. */
static int write_rows(struct txn *t, enum table_id table, const void *const *before,
                      const void *const *after, size_t count)
{
    const struct provider_calls *calls = t->provider->calls;
    size_t most = calls->write_all != NULL ? WRITE_ALL_MAX : 1;
    int rc = QP_OK;
    for (size_t from = 0; from < count && rc == QP_OK; from += most) {
        size_t n = count - from < most ? count - from : most;
        const void *const *gone = before == NULL ? NULL : before + from;
        const void *const *news = after == NULL ? NULL : after + from;
        rc = calls->write_all != NULL
                 ? calls->write_all(t->provider, table, gone, news, n, t->err)
                 : calls->write(t->provider, table, gone == NULL ? NULL : *gone,
                                news == NULL ? NULL : *news, t->err);
    }
    return rc;
}

/* The destination's head row becomes c->to_head. */
static int write_head(struct copy *c, struct txn *t)
{
    struct provider *p = t->provider;
    void *before = NULL;
    int rc = p->calls->load(p, t->arena, TABLE_head, &(struct head_row){.ns = 0}, &before, t->err);
    return rc == QP_OK ? p->calls->write(p, TABLE_head, before, &c->to_head, t->err) : rc;
}

/* The source's numbers and clock from the start: whoever looks at the copy judges it by them. */
static int fill_begin(struct copy *c, struct txn *t)
{
    int64_t rev = c->to_head.rev;
    c->to_head = c->head;
    c->to_head.clean = HEAD_FILLING;
    c->to_head.rev = rev + 1;
    return write_head(c, t);
}

static int fill_end(struct copy *c, struct txn *t)
{
    int64_t rev = c->to_head.rev;
    c->to_head = c->head;
    c->to_head.clean = HEAD_IN_USE;
    c->to_head.rev = c->head.rev > rev ? c->head.rev : rev + 1;
    return write_head(c, t);
}

/* The source as it was when the copy began: nobody has taken a number since. Positions of a shared
 * provider move with every transaction of its server. */
static int check_still(const struct copy *c, struct txn *t)
{
    struct head_row now = {0};
    int rc = store_head(t->provider, &now, t->err);
    bool moved = now.pos != c->head.pos && !t->provider->shared;
    if (rc == QP_OK && (moved || now.ord != c->head.ord || now.next_id != c->head.next_id ||
                        now.clean != c->head.clean || now.rev != c->head.rev)) {
        return err_set(
            t->err, QP_E_CONFLICT,
            "the source: was written to while it was copied; stop who does, and try again");
    }
    return rc;
}

static int leave(struct copy *c, struct txn *t)
{
    struct op_audit_add moved = {.actor = QP_STR("quipu migrate"),
                                 .action = ACTION_MOVED,
                                 .target = str_from(c->options->to_name)};
    struct head_row *head;
    int rc = check_still(c, t);
    if (rc != QP_OK || c->options->keep_source || c->head.clean == HEAD_MOVED) {
        return rc;
    }
    rc = apply_audit_add(t, &moved);
    head = rc == QP_OK ? txn_edit(t, TABLE_head, &(struct head_row){.ns = 0}) : NULL;
    if (head != NULL) {
        head->clean = HEAD_MOVED;
        c->left.clean = HEAD_MOVED;
    }
    return rc;
}

/* ------------------------------------------------------------------------------------------ pages */

static int page_row(void *context, const void *row)
{
    struct copy *c = context;
    size_t size = row_copy_size(c->table, row);
    if (c->count > 0 && c->size + size > LIMIT_COPY_SIZE) {
        c->cut = true;
        return QP_E_LIMIT; /* ends the scan */
    }
    c->rows[c->count] = row_copy(&c->arena, c->table, row);
    if (c->rows[c->count] == NULL) {
        return err_set(c->err, QP_E_NOMEM, "copy: out of memory");
    }
    c->count++;
    c->size += size;
    return QP_OK;
}

/* The rows of c->table after a row, as many as one transaction takes. */
static int page_read(struct copy *c, struct store *s, const void *after)
{
    struct scan scan = {.table = c->table, .index = -1, .after = after, .limit = LIMIT_COPY_ROWS};
    int rc;
    arena_reset(&c->arena);
    c->count = 0;
    c->size = 0;
    c->cut = false;
    rc = store_scan(s, &scan, c, page_row, c->err);
    return rc == QP_E_LIMIT && c->cut ? QP_OK : rc;
}

static bool page_is_last(const struct copy *c)
{
    return !c->cut && c->count < LIMIT_COPY_ROWS;
}

static int remove_page(struct copy *c, struct txn *t)
{
    return write_rows(t, c->table, (const void *const *)c->rows, NULL, c->count);
}

static int clear_table(struct copy *c)
{
    int rc;
    do {
        rc = page_read(c, c->options->to, NULL);
        rc = rc == QP_OK && c->count > 0 ? transact(c, c->options->to, remove_page) : rc;
    } while (rc == QP_OK && c->count > 0);
    return rc;
}

/* What a copy that was cut off has left, and the namespace that every store is born with. */
static int clear_all(struct copy *c)
{
    int rc = QP_OK;
    for (int i = 0; i < TABLE_COUNT && rc == QP_OK; i++) {
        c->table = (enum table_id)i;
        rc = i != TABLE_head ? clear_table(c) : QP_OK;
    }
    return rc;
}

/* A counter is the sum over its shards, which are the source's affair: here it has one. */
static int add_shard(struct copy *c, struct txn *t, const struct counter_row *shard)
{
    struct provider *p = t->provider;
    struct counter_row sum = *shard;
    void *before = NULL;
    int rc;
    sum.shard = 0;
    rc = p->calls->load(p, t->arena, TABLE_counter, &sum, &before, t->err);
    if (rc == QP_OK && before != NULL) {
        sum.n += ((const struct counter_row *)before)->n;
        sum.rev = ((const struct counter_row *)before)->rev + 1;
    }
    if (rc == QP_OK) {
        rc = p->calls->write(p, TABLE_counter, before, &sum, t->err);
        c->progress.table_rows[TABLE_counter] += before == NULL ? 1 : 0;
    }
    return rc;
}

static int copy_counters(struct copy *c, struct txn *t)
{
    int rc = QP_OK;
    for (size_t i = 0; i < c->count && rc == QP_OK; i++) {
        rc = add_shard(c, t, c->rows[i]);
    }
    return rc;
}

static int copy_page(struct copy *c, struct txn *t)
{
    int rc;
    if (c->table == TABLE_counter) {
        return copy_counters(c, t);
    }
    rc = write_rows(t, c->table, NULL, (const void *const *)c->rows, c->count);
    c->progress.table_rows[c->table] += rc == QP_OK ? (int64_t)c->count : 0;
    return rc;
}

static void report(struct copy *c)
{
    c->progress.rows = 0;
    for (int i = 0; i < TABLE_COUNT; i++) {
        c->progress.rows += c->progress.table_rows[i];
    }
    c->progress.size += (int64_t)c->size;
    if (c->options->report != NULL) {
        c->options->report(c->options->context, &c->progress);
    }
}

/* Page by page to the end of the table. */
static int each_page(struct copy *c, struct store *s, int (*act)(struct copy *c))
{
    const struct qp_env *env = store_env(c->options->to);
    void *last = NULL;
    int rc;
    do {
        rc = page_read(c, s, last);
        rc = rc == QP_OK ? act(c) : rc;
        mem_free(env, last);
        last = NULL;
        if (rc == QP_OK && !page_is_last(c)) {
            last = row_clone(env, c->table, c->rows[c->count - 1]);
            rc = last == NULL ? err_set(c->err, QP_E_NOMEM, "copy: out of memory") : QP_OK;
        }
    } while (rc == QP_OK && last != NULL);
    return rc;
}

static int take_page(struct copy *c)
{
    int rc = c->count > 0 ? transact(c, c->options->to, copy_page) : QP_OK;
    if (rc == QP_OK) {
        report(c);
    }
    return rc;
}

static int copy_all(struct copy *c)
{
    int rc = QP_OK;
    c->progress.table_rows[TABLE_head] = 1; /* fill_begin has put it there */
    for (int i = 0; i < TABLE_COUNT && rc == QP_OK; i++) {
        c->table = (enum table_id)i;
        rc = i != TABLE_head ? each_page(c, c->reader, take_page) : QP_OK;
        c->progress.tables = i + 1;
    }
    return rc;
}

/* ------------------------------------------------------------------------------------- looking back */

static int count_page(struct copy *c)
{
    c->counted += (int64_t)c->count;
    return QP_OK;
}

static int count_all(struct copy *c)
{
    int rc = QP_OK;
    for (int i = 0; i < TABLE_COUNT && rc == QP_OK; i++) {
        c->table = (enum table_id)i;
        c->counted = 0;
        rc = each_page(c, c->options->to, count_page);
        if (rc == QP_OK && c->counted != c->progress.table_rows[i]) {
            rc = err_set(c->err, QP_E_INTERNAL, "%s: %lld rows were copied, and %lld are there",
                         tables[i].name, (long long)c->progress.table_rows[i],
                         (long long)c->counted);
        }
    }
    return rc;
}

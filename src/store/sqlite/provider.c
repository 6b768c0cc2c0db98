/* provider.c - the SQLite provider: rows in, rows out, one transaction at a time
 *
 *   I1  every change of the file goes through one connection, inside BEGIN IMMEDIATE .. COMMIT
 *   I2  every statement that changes a row compares its revision, and must change exactly one row;
 *       one that writes many (batch.c) must change as many as it was given
 *   I3  after a failed fsync nothing more is written or told: the page cache may hold what the disk
 *       does not
 *
 * If we crash before COMMIT has written its last frame to the log, the transaction never was. If we
 * crash after the log was synced, it is; the next open finds it there. Between the two (written,
 * not yet synced) the disk decides, and nobody was told anything. If COMMIT itself fails for the
 * disk or for memory, we are in that between: QP_E_UNKNOWN_OUTCOME, and the handle is done.
 *
 * After the sync and before the answer the lock file gets the commit's position (lock.c), by which
 * the next open notices that an answered commit is missing.
 */
#include <unistd.h>

#include "store/sqlite/sqlite_internal.h"

static struct sqlite_provider *self(struct provider *base)
{
    return (struct sqlite_provider *)base;
}

/* SQLite's code as ours. */
static int code_of(int code)
{
    switch (code) {
    case SQLITE_IOERR_FSYNC:
    case SQLITE_IOERR_DIR_FSYNC:
        return QP_E_FSYNC;
    case SQLITE_IOERR_NOMEM:
        return QP_E_NOMEM;
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_UNIQUE:
        return QP_E_CONFLICT; /* a row appeared since it was read */
    default:
        break;
    }
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return QP_E_NOMEM;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return QP_E_BUSY;
    case SQLITE_FULL:
        return QP_E_FULL;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return QP_E_IO;
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return QP_E_READONLY;
    case SQLITE_CORRUPT:
    case SQLITE_SCHEMA:
        return QP_E_CORRUPT;
    case SQLITE_NOTADB:
        return QP_E_FOREIGN;
    case SQLITE_TOOBIG:
        return QP_E_TOO_LARGE;
    case SQLITE_INTERRUPT:
        return QP_E_TIMEOUT;
    default:
        return QP_E_INTERNAL;
    }
}

int sqlite_fail(struct sqlite_provider *p, int code, struct qp_err *err, const char *what)
{
    int extended = p->db != NULL ? sqlite3_extended_errcode(p->db) : code;
    int rc = code_of((extended & 0xff) == (code & 0xff) ? extended : code);
    if (rc == QP_E_FSYNC || rc == QP_E_CORRUPT) {
        p->base.failure =
            rc; /* wherever it came from: a statement, a commit, a checkpoint, a read */
    }
    return err_set(err, rc, "%s: %s: %s", p->path, what,
                   p->db != NULL ? sqlite3_errmsg(p->db) : sqlite3_errstr(code));
}

int sqlite_fail_as(int code, struct qp_err *err, const char *what)
{
    if (err != NULL) {
        err->code = code; /* the detail is of this failure, and err_wrap keeps it */
    }
    return err_wrap(err, code, "%s", what);
}

/* Runs a statement that returns no rows, and resets it. */
static int run(struct sqlite_provider *p, sqlite3_stmt *s, struct qp_err *err, const char *what)
{
    int code = sqlite3_step(s);
    int rc = code == SQLITE_DONE ? QP_OK : sqlite_fail(p, code, err, what);
    (void)sqlite3_reset(s); /* repeats the step's error */
    return rc;
}

static int run_plain(struct sqlite_provider *p, enum plain_statement kind, struct qp_err *err,
                     const char *what)
{
    sqlite3_stmt *s;
    int rc = sqlite_plain_statement(p, kind, &s, err);
    return rc == QP_OK ? run(p, s, err, what) : rc;
}

/* Between transactions, whoever comes finds the connection in order. SQLite's locks do not survive
 * fork; and a rollback for which there was no memory is made up for now, so that nobody reads what
 * was never committed. */
static int check_ready(struct sqlite_provider *p, struct qp_err *err)
{
    if (p->active) {
        return QP_OK;
    }
    if (p->pid != (int32_t)getpid()) {
        return err_set(err, QP_E_INVALID, "%s: opened before fork: open it again in this process",
                       p->path);
    }
    return sqlite3_get_autocommit(p->db) != 0 ? QP_OK
                                              : run_plain(p, PLAIN_ROLLBACK, err, "rollback");
}

/* --------------------------------------------------------------------------------- transactions */

static int sqlite_begin(struct provider *base, struct qp_err *err)
{
    struct sqlite_provider *p = self(base);
    int rc = check_ready(p, err);
    QP_ASSERT(!p->active);
    p->head_rev = 0;
    rc = rc == QP_OK ? run_plain(p, PLAIN_BEGIN, err, "begin") : rc;
    p->active = rc == QP_OK;
    return rc;
}

static void sqlite_rollback(struct provider *base)
{
    struct sqlite_provider *p = self(base);
    /* SQLite rolls back by itself after some errors; the second rollback would only complain. */
    if (p->active && sqlite3_get_autocommit(p->db) == 0) {
        (void)run_plain(p, PLAIN_ROLLBACK, NULL,
                        "rollback"); /* without memory it waits: see check_ready */
    }
    p->active = false;
}

int sqlite_wal_grew(void *context, sqlite3 *db, const char *name, int pages)
{
    struct sqlite_provider *p = context;
    (void)db;
    (void)name;
    p->wal_pages = pages;
    return SQLITE_OK;
}

/* Moves the log into the file. PASSIVE: it never waits for readers, and takes what it can. */
int sqlite_checkpoint(struct sqlite_provider *p, struct qp_err *err)
{
    int pages = -1;
    int moved = -1;
    int code = sqlite3_wal_checkpoint_v2(p->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &pages, &moved);
    int rc;
    p->wal_pages = 0;
    if (code == SQLITE_OK && pages >= 0 && pages == moved) {
        sqlite_file_keep(p);
    }
    if (code == SQLITE_OK || code == SQLITE_BUSY) {
        return QP_OK;
    }
    rc = sqlite_fail(p, code, err, "checkpoint");
    if (rc == QP_E_FSYNC || rc == QP_E_CORRUPT) {
        return rc;
    }
    return QP_OK; /* no room or no luck: the log has it all, and the next checkpoint tries again */
}

/* Now and then: nothing is answered for long that goes to a file without a name. */
static int watch_sometimes(struct sqlite_provider *p, struct qp_err *err)
{
    int64_t now_us = p->base.env->monotonic_us(p->base.env->context);
    if (now_us - p->looked_us < LIMIT_STORE_LOOK_MS * 1000LL) {
        return QP_OK;
    }
    p->looked_us = now_us;
    return sqlite_watch(p, err);
}

static int sqlite_commit(struct provider *base, struct qp_err *err)
{
    struct sqlite_provider *p = self(base);
    int rc = watch_sometimes(p, err);
    if (rc != QP_OK) {
        return rc;
    }
    rc = run_plain(p, PLAIN_COMMIT, err, "commit");
    /* Without memory too: SQLite may have written and synced the log before it had none left for
     * the log's index. */
    if (rc == QP_E_IO || rc == QP_E_FSYNC || rc == QP_E_NOMEM) {
        p->base.failure = QP_E_FSYNC;
        return sqlite_fail_as(QP_E_UNKNOWN_OUTCOME, err, "the commit was cut off");
    }
    if (rc != QP_OK) {
        return rc;
    }
    p->active = false;
    sqlite_position_keep(p);
    if (p->wal_pages >= LIMIT_WAL_PAGES) {
        (void)sqlite_checkpoint(p,
                                NULL); /* the commit stands; a failure is told to the next call */
    }
    return QP_OK;
}

/* Gives pages that deletions left free back to the file system, some at a time: the file's
 * auto_vacuum is INCREMENTAL, so nobody else does. Each page is a row of the result. */
static int shrink(struct sqlite_provider *p, struct qp_err *err)
{
    sqlite3_stmt *s;
    int code = SQLITE_ROW;
    int rc = sqlite_plain_statement(p, PLAIN_SHRINK, &s, err);
    while (rc == QP_OK && code == SQLITE_ROW) {
        code = sqlite3_step(s);
    }
    if (rc == QP_OK && code != SQLITE_DONE) {
        rc = sqlite_fail(p, code, err, "shrink the file");
    }
    if (rc == QP_OK || code != SQLITE_ROW) {
        (void)sqlite3_reset(p->plain[PLAIN_SHRINK]); /* repeats the step's error */
    }
    return rc;
}

/* A transaction that only reads: the first read takes the snapshot. */
static int sqlite_snapshot(struct provider *base, bool begin, struct qp_err *err)
{
    struct sqlite_provider *p = self(base);
    int rc;
    if (!begin) {
        rc = p->active ? run_plain(p, PLAIN_COMMIT, err, "end of a snapshot") : QP_OK;
        p->active = false;
        return rc;
    }
    rc = check_ready(p, err);
    rc = rc == QP_OK ? run_plain(p, PLAIN_SNAPSHOT, err, "snapshot") : rc;
    p->active = rc == QP_OK;
    return rc;
}

static int sqlite_idle(struct provider *base, struct qp_err *err)
{
    struct sqlite_provider *p = self(base);
    int rc = check_ready(p, err);
    if (rc != QP_OK || base->read_only) {
        return rc;
    }
    QP_TRY(sqlite_watch(p, err));
    rc = shrink(p, err);
    return rc == QP_OK && p->wal_pages > 0 ? sqlite_checkpoint(p, err) : rc;
}

/* ----------------------------------------------------------------------------------------- rows */

/* One column of a result, its text copied into the arena behind the row, or pointing into SQLite's
 * memory. */
static bool column_read(sqlite3_stmt *s, int place, const struct column *c, void *row,
                        struct arena *arena)
{
    qp_str text = QP_NONE;
    if (c->kind == KIND_I64) {
        row_set_i64(c, row, sqlite3_column_int64(s, place));
        return true;
    }
    if (sqlite3_column_type(s, place) != SQLITE_NULL) {
        const void *bytes = c->kind == KIND_TEXT ? (const void *)sqlite3_column_text(s, place)
                                                 : sqlite3_column_blob(s, place);
        text.n = (size_t)sqlite3_column_bytes(s, place);
        text.p = bytes != NULL ? bytes : "";
        if (bytes == NULL && text.n > 0) {
            return false; /* SQLite ran out of memory */
        }
    }
    if (arena != NULL && !arena_copy(arena, text, &text)) {
        return false;
    }
    row_set_str(c, row, text);
    return true;
}

static bool row_read(sqlite3_stmt *s, enum table_id table, void *row, struct arena *arena)
{
    const struct table *t = &tables[table];
    for (size_t i = 0; i < t->column_count; i++) {
        if (!column_read(s, (int)i, &t->columns[i], row, arena)) {
            return false;
        }
    }
    return true;
}

/* What is not asked for, SQLite does not read from the file. */
static bool row_read_slim(sqlite3_stmt *s, enum table_id table, void *row)
{
    const struct table *t = &tables[table];
    for (size_t i = 0; i < t->column_count; i++) {
        if (column_is_payload(&t->columns[i])) {
            row_set_str(&t->columns[i], row, QP_NONE);
        } else if (!column_read(s, (int)i, &t->columns[i], row, NULL)) {
            return false;
        }
    }
    return true;
}

/* Damage that is read is damage that is told, and the handle is done with it. */
static int check_row(struct sqlite_provider *p, enum table_id table, const void *row,
                     struct qp_err *err)
{
    if (row_is_sound(table, row)) {
        return QP_OK;
    }
    p->base.failure = QP_E_CORRUPT;
    return err_set(err, QP_E_CORRUPT, "%s: a row of %s cannot be what it says: the file is damaged",
                   p->path, tables[table].name);
}

static int bind_key(sqlite3_stmt *s, int place, const struct table *t, const void *row)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < t->key_count && code == SQLITE_OK; i++) {
        code = sqlite_bind_column(s, place + (int)i, &t->columns[i], row);
    }
    return code;
}

static int sqlite_load(struct provider *base, struct arena *arena, enum table_id table,
                       const void *key, void **out_row, struct qp_err *err)
{
    struct sqlite_provider *p = self(base);
    const struct table *t = &tables[table];
    sqlite3_stmt *s;
    void *row = NULL;
    int code;
    int rc = check_ready(p, err);
    rc = rc == QP_OK ? sqlite_table_statement(p, table, STATEMENT_LOAD, &s, err) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    code = bind_key(s, 1, t, key);
    code = code == SQLITE_OK ? sqlite3_step(s) : code;
    if (code == SQLITE_ROW) {
        row = arena_alloc(arena, t->row_size);
        if (row == NULL || !row_read(s, table, row, arena)) {
            rc = err_set(err, QP_E_NOMEM, "load %s: out of memory", t->name);
        } else {
            rc = check_row(p, table, row, err);
        }
    } else if (code != SQLITE_DONE) {
        rc = sqlite_fail(p, code, err, "load a row");
    }
    (void)sqlite3_reset(s); /* repeats the step's error */
    if (rc == QP_OK) {
        *out_row = row;
    }
    return rc;
}

static int scan_run(struct sqlite_provider *p, const struct scan *scan, void *context,
                    store_visit visit, struct qp_err *err)
{
    union {
        int64_t align;
        char bytes[1024];
    } row;
    sqlite3_stmt *s;
    int code = SQLITE_ROW;
    int rc = check_ready(p, err);
    rc = rc == QP_OK ? sqlite_scan_statement(p, scan, &s, err) : rc;
    QP_ASSERT(tables[scan->table].row_size <= sizeof row);
    if (rc != QP_OK) {
        return rc;
    }
    while (rc == QP_OK && code == SQLITE_ROW) {
        code = sqlite3_step(s);
        if (code == SQLITE_ROW) {
            bool is_read = scan->slim ? row_read_slim(s, scan->table, &row)
                                      : row_read(s, scan->table, &row, NULL);
            rc = is_read ? check_row(p, scan->table, &row, err)
                         : err_set(err, QP_E_NOMEM, "scan: out of memory");
            rc = rc == QP_OK ? visit(context, &row) : rc;
        }
    }
    if (rc == QP_OK && code != SQLITE_DONE) {
        rc = sqlite_fail(p, code, err, "scan");
    }
    (void)sqlite3_reset(s); /* repeats the step's error */
    return rc;
}

struct counted {
    void *context;
    store_visit visit;
    size_t count;
};

static int visit_counted(void *context, const void *row)
{
    struct counted *c = context;
    c->count++;
    return c->visit(c->context, row);
}

/* The number of a job is its rowid, and a place that is named by several columns SQLite finds only by those
 * before a rowid: it would go through all jobs of the namespace for each page. So the page is taken from
 * the rows that have the same columns before it, and then from those behind them. */
static int scan_jobs_after(struct sqlite_provider *p, const struct scan *scan, size_t place,
                           void *context, store_visit visit, struct qp_err *err)
{
    struct counted counted = {context, visit, 0};
    struct job_row end = *(const struct job_row *)scan->after;
    struct scan part = *scan;
    int rc;
    part.prefix = scan->after;
    part.prefix_count = place;
    rc = scan_run(p, &part, &counted, visit_counted, err);
    end.job = scan->backwards ? INT64_MIN : INT64_MAX;
    part = *scan;
    part.after = &end;
    part.limit = scan->limit - counted.count;
    return rc == QP_OK && part.limit > 0 ? scan_run(p, &part, context, visit, err) : rc;
}

/* Where the job's number stands in the order of a scan. */
static size_t place_of_number(const struct scan *scan)
{
    size_t number = tables[TABLE_job].number;
    struct index_columns order = {.count = 0};
    size_t i = 0;
    if (scan->index < 0) {
        return number;
    }
    order = index_columns((enum index_id)scan->index);
    while (order.column[i] != number) {
        i++;
        QP_ASSERT(i < order.count); /* it is of the key, so it is there */
    }
    return i;
}

static int sqlite_scan(struct provider *base, const struct scan *scan, void *context,
                       store_visit visit, struct qp_err *err)
{
    struct sqlite_provider *p = self(base);
    size_t place = scan->table == TABLE_job && scan->after != NULL ? place_of_number(scan) : 0;
    return place > scan->prefix_count ? scan_jobs_after(p, scan, place, context, visit, err)
                                      : scan_run(p, scan, context, visit, err);
}

/* Which update: the one of the columns that change with every step, when no other did. A row that
 * was deleted and made again in one commit is another row under the same key: all of it changes. */
enum table_statement sqlite_update_kind(const struct table *t, const void *before,
                                        const void *after)
{
    enum table_statement kind = STATEMENT_UPDATE_HOT;
    for (size_t i = t->key_count; i < t->column_count - 1; i++) {
        const struct column *c = &t->columns[i];
        if (c->role == ROLE_HOT || c->role == ROLE_LATER || column_equal(c, before, after)) {
            continue;
        }
        if (c->role == ROLE_UNUSUAL) {
            kind = STATEMENT_UPDATE_WIDE;
        } else if (c->role != ROLE_SELDOM && c->role != ROLE_INDEXED && c->role != ROLE_SUM) {
            return STATEMENT_UPDATE_ALL;
        } else if (kind != STATEMENT_UPDATE_WIDE) {
            kind = STATEMENT_UPDATE;
        }
    }
    return kind;
}

static int bind_changes(sqlite3_stmt *s, const struct table *t, enum table_statement kind,
                        const void *after, int *place)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < t->column_count && code == SQLITE_OK; i++) {
        if (sqlite_writes(kind, t->columns[i].role)) {
            code = sqlite_bind_column(s, (*place)++, &t->columns[i], after);
        }
    }
    return code;
}

/* What add_row_condition compares. */
static int bind_row(sqlite3_stmt *s, int place, const struct table *t, const void *before)
{
    int count = t->number > 0 ? 1 : (int)t->key_count;
    int code = t->number > 0 ? sqlite_bind_column(s, place, &t->columns[t->number], before)
                             : bind_key(s, place, t, before);
    return code == SQLITE_OK
               ? sqlite_bind_column(s, place + count, &t->columns[t->column_count - 1], before)
               : code;
}

static int bind_write(sqlite3_stmt *s, const struct table *t, enum table_statement kind,
                      const void *before, const void *after)
{
    int place = 1;
    int code = after != NULL ? bind_changes(s, t, kind, after, &place) : SQLITE_OK;
    return code == SQLITE_OK ? bind_row(s, place, t, before) : code;
}

int sqlite_write(struct provider *base, enum table_id table, const void *before, const void *after,
                 struct qp_err *err)
{
    struct sqlite_provider *p = self(base);
    const struct table *t = &tables[table];
    enum table_statement kind;
    sqlite3_stmt *s;
    int code;
    int rc;
    if (before == NULL) {
        return sqlite_write_all(base, table, NULL, &after, 1, err);
    }
    kind = after == NULL ? STATEMENT_DELETE : sqlite_update_kind(t, before, after);
    rc = sqlite_table_statement(p, table, kind, &s, err);
    if (rc != QP_OK) {
        return rc;
    }
    code = bind_write(s, t, kind, before, after);
    if (table == TABLE_head && after != NULL) {
        p->head_rev = ((const struct head_row *)after)->rev;
    }
    rc =
        code == SQLITE_OK ? run(p, s, err, "write a row") : sqlite_fail(p, code, err, "bind a row");
    if (rc == QP_OK && sqlite3_changes(p->db) != 1) {
        rc = err_set(err, QP_E_CONFLICT, "%s: %s: the row has changed since it was read", p->path,
                     t->name);
    }
    return rc;
}

/* ------------------------------------------------------------------------------- host callbacks */

static bool is_our_table(const char *name)
{
    return name != NULL && strncmp(name, "qp_", 3) == 0;
}

/* While a host callback runs, it may neither end the transaction nor write to our tables. */
int sqlite_authorize(void *context, int action, const char *a, const char *b, const char *database,
                     const char *trigger)
{
    struct sqlite_provider *p = context;
    (void)b;
    (void)database;
    (void)trigger;
    if (!p->in_host) {
        return SQLITE_OK;
    }
    switch (action) {
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
    case SQLITE_PRAGMA:
        return SQLITE_DENY;
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
    case SQLITE_ALTER_TABLE: /* its table is the second name */
    case SQLITE_CREATE_INDEX:
    case SQLITE_CREATE_TABLE:
    case SQLITE_CREATE_TRIGGER:
    case SQLITE_CREATE_TEMP_TRIGGER:
    case SQLITE_CREATE_VIEW:
    case SQLITE_DROP_INDEX:
    case SQLITE_DROP_TABLE:
    case SQLITE_DROP_TRIGGER:
        return is_our_table(a) || is_our_table(b) ? SQLITE_DENY : SQLITE_OK;
    default:
        return SQLITE_OK;
    }
}

static int sqlite_host_begin(struct provider *base, struct qp_err *err)
{
    struct sqlite_provider *p = self(base);
    int rc = run_plain(p, PLAIN_SAVEPOINT, err, "begin a host call");
    sqlite3_stmt *unused;
    /* Prepared before the callback's time, since the authorizer would refuse them during it. */
    rc = rc == QP_OK ? sqlite_plain_statement(p, PLAIN_ROLLBACK_TO, &unused, err) : rc;
    rc = rc == QP_OK ? sqlite_plain_statement(p, PLAIN_RELEASE, &unused, err) : rc;
    p->in_host = rc == QP_OK;
    return rc;
}

/* While a host callback runs nothing may commit: should it have got rid of our transaction (INSERT
 * OR ROLLBACK, a full disk), what it writes after that would be on disk by itself. */
int sqlite_may_commit(void *context)
{
    const struct sqlite_provider *p = context;
    return p->in_host ? 1 : 0;
}

static int sqlite_host_end(struct provider *base, bool keep, struct qp_err *err)
{
    struct sqlite_provider *p = self(base);
    int rc = QP_OK;
    p->in_host = false;
    if (sqlite3_get_autocommit(p->db) != 0) {
        return err_set(err, QP_E_ABORTED, "%s: a host callback rolled the transaction back",
                       p->path);
    }
    if (!keep) {
        rc = run_plain(p, PLAIN_ROLLBACK_TO, err, "take back a host call");
    }
    return rc == QP_OK ? run_plain(p, PLAIN_RELEASE, err, "end a host call") : rc;
}

static void *sqlite_native(struct provider *base)
{
    return self(base)->db;
}

static bool sqlite_in_place(const struct provider *base)
{
    return sqlite_displaced((const struct sqlite_provider *)base) == NULL;
}

static int64_t schema_version(const struct provider *base)
{
    return ((const struct sqlite_provider *)base)->schema_version;
}

const struct provider_calls sqlite_calls = {
    .name = "sqlite",
    .begin = sqlite_begin,
    .load = sqlite_load,
    .scan = sqlite_scan,
    .backup = sqlite_backup,
    .sql = sqlite_sql,
    .write = sqlite_write,
    .write_all = sqlite_write_all,
    .commit = sqlite_commit,
    .rollback = sqlite_rollback,
    .host_begin = sqlite_host_begin,
    .host_end = sqlite_host_end,
    .native = sqlite_native,
    .snapshot = sqlite_snapshot,
    .in_place = sqlite_in_place,
    .idle = sqlite_idle,
    .schema_version = schema_version,
    .close = sqlite_provider_close,
};

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

static int execute_plain(struct sqlite_provider *p, enum plain_statement kind, struct qp_err *err,
                         const char *what)
{
    sqlite3_stmt *s;
    int rc = sqlite_plain_statement(p, kind, &s, err);
    return rc == QP_OK ? sqlite_execute(p, s, err, what) : rc;
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
                                              : execute_plain(p, PLAIN_ROLLBACK, err, "rollback");
}

/* --------------------------------------------------------------------------------- transactions */

static int sqlite_begin(struct provider *base, struct qp_err *err)
{
    struct sqlite_provider *p = sqlite_self(base);
    int rc = check_ready(p, err);
    QP_ASSERT(!p->active);
    p->head_rev = 0;
    rc = rc == QP_OK ? execute_plain(p, PLAIN_BEGIN, err, "begin") : rc;
    p->active = rc == QP_OK;
    return rc;
}

static void sqlite_rollback(struct provider *base)
{
    struct sqlite_provider *p = sqlite_self(base);
    /* SQLite rolls back by itself after some errors; the second rollback would only complain. */
    if (p->active && sqlite3_get_autocommit(p->db) == 0) {
        (void)execute_plain(p, PLAIN_ROLLBACK, NULL,
                            "rollback"); /* without memory it waits: see check_ready */
    }
    p->active = false;
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
    struct sqlite_provider *p = sqlite_self(base);
    int rc = watch_sometimes(p, err);
    if (rc != QP_OK) {
        return rc;
    }
    rc = execute_plain(p, PLAIN_COMMIT, err, "commit");
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
    if (sqlite_log_is_long(p)) {
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
    struct sqlite_provider *p = sqlite_self(base);
    int rc;
    if (!begin) {
        rc = p->active ? execute_plain(p, PLAIN_COMMIT, err, "end of a snapshot") : QP_OK;
        p->active = false;
        return rc;
    }
    rc = check_ready(p, err);
    rc = rc == QP_OK ? execute_plain(p, PLAIN_SNAPSHOT, err, "snapshot") : rc;
    p->active = rc == QP_OK;
    return rc;
}

static int sqlite_idle(struct provider *base, struct qp_err *err)
{
    struct sqlite_provider *p = sqlite_self(base);
    int rc = check_ready(p, err);
    if (rc != QP_OK || base->read_only) {
        return rc;
    }
    QP_TRY(sqlite_watch(p, err));
    rc = shrink(p, err);
    return rc == QP_OK && p->wal_pages > 0 ? sqlite_checkpoint(p, err) : rc;
}

/* ----------------------------------------------------------------------------------------- rows */

/* True when a value has the type of its column, which SQLite does not check when it is written (ADR 47). */
static bool type_fits(sqlite3_stmt *s, int place, const struct column *c)
{
    static const int types[] = {
        [KIND_I64] = SQLITE_INTEGER, [KIND_TEXT] = SQLITE_TEXT, [KIND_BLOB] = SQLITE_BLOB};
    int type = sqlite3_column_type(s, place);
    return type == types[c->kind] || (type == SQLITE_NULL && c->kind != KIND_I64);
}

/* One column of a result, its text copied into the arena behind the row, or pointing into SQLite's
 * memory. */
static int column_read(sqlite3_stmt *s, int place, const struct column *c, void *row,
                       struct arena *arena)
{
    qp_str text = QP_NONE;
    if (!type_fits(s, place, c)) {
        return QP_E_CORRUPT;
    }
    if (c->kind == KIND_I64) {
        row_set_i64(c, row, sqlite3_column_int64(s, place));
        return QP_OK;
    }
    if (sqlite3_column_type(s, place) != SQLITE_NULL) {
        const void *bytes = c->kind == KIND_TEXT ? (const void *)sqlite3_column_text(s, place)
                                                 : sqlite3_column_blob(s, place);
        text.n = (size_t)sqlite3_column_bytes(s, place);
        text.p = bytes != NULL ? bytes : "";
        if (bytes == NULL && text.n > 0) {
            return QP_E_NOMEM;
        }
    }
    if (arena != NULL && !arena_copy(arena, text, &text)) {
        return QP_E_NOMEM;
    }
    row_set_str(c, row, text);
    return QP_OK;
}

/* A row of a result. `slim`: without its payloads. What is not asked for, SQLite does not read from the file. */
static int columns_read(sqlite3_stmt *s, const struct table *t, bool slim, void *row,
                        struct arena *arena)
{
    for (size_t i = 0; i < t->column_count; i++) {
        const struct column *c = &t->columns[i];
        if (slim && column_is_payload(c)) {
            row_set_str(c, row, QP_NONE);
        } else {
            QP_TRY(column_read(s, (int)i, c, row, arena));
        }
    }
    return QP_OK;
}

/* Reads a row and checks it. Damage that is read is reported, and ends the handle. */
static int row_read(struct sqlite_provider *p, sqlite3_stmt *s, enum table_id table, bool slim,
                    void *row, struct arena *arena, struct qp_err *err)
{
    int rc = columns_read(s, &tables[table], slim, row, arena);
    if (rc == QP_E_NOMEM) {
        return err_set(err, rc, "read %s: out of memory", tables[table].name);
    }
    if (rc == QP_OK && row_is_sound(table, row)) {
        return QP_OK;
    }
    p->base.failure = QP_E_CORRUPT;
    return err_set(err, QP_E_CORRUPT, "%s: a row of %s cannot be what it says: the file is damaged",
                   p->path, tables[table].name);
}

static int sqlite_load(struct provider *base, struct arena *arena, enum table_id table,
                       const void *key, void **out_row, struct qp_err *err)
{
    struct sqlite_provider *p = sqlite_self(base);
    const struct table *t = &tables[table];
    sqlite3_stmt *s;
    void *row = NULL;
    int code;
    int rc = check_ready(p, err);
    rc = rc == QP_OK ? sqlite_table_statement(p, table, STATEMENT_LOAD, &s, err) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    code = sqlite_bind_key(s, 1, t, key);
    code = code == SQLITE_OK ? sqlite3_step(s) : code;
    if (code == SQLITE_ROW) {
        row = arena_alloc(arena, t->row_size);
        rc = row != NULL ? row_read(p, s, table, false, row, arena, err)
                         : err_set(err, QP_E_NOMEM, "load %s: out of memory", t->name);
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
            rc = row_read(p, s, scan->table, scan->slim, &row, NULL, err);
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
    struct sqlite_provider *p = sqlite_self(base);
    size_t place = scan->table == TABLE_job && scan->after != NULL ? place_of_number(scan) : 0;
    return place > scan->prefix_count ? scan_jobs_after(p, scan, place, context, visit, err)
                                      : scan_run(p, scan, context, visit, err);
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
    struct sqlite_provider *p = sqlite_self(base);
    int rc = execute_plain(p, PLAIN_SAVEPOINT, err, "begin a host call");
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
    struct sqlite_provider *p = sqlite_self(base);
    int rc = QP_OK;
    p->in_host = false;
    if (sqlite3_get_autocommit(p->db) != 0) {
        return err_set(err, QP_E_ABORTED, "%s: a host callback rolled the transaction back",
                       p->path);
    }
    if (!keep) {
        rc = execute_plain(p, PLAIN_ROLLBACK_TO, err, "take back a host call");
    }
    return rc == QP_OK ? execute_plain(p, PLAIN_RELEASE, err, "end a host call") : rc;
}

static void *sqlite_native(struct provider *base)
{
    return sqlite_self(base)->db;
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

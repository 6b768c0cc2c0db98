/* sql.c - a person's SELECT, on a connection of its own
 *
 * Nobody else in the program writes SQL from outside. This is what keeps it harmless:
 *
 *   I1  the connection is opened for reading only, for one statement, and closed after it: nothing of
 *       it stays, and no other reader meets its views or its authorizer
 *   I2  the authorizer lets a statement SELECT, from the views alone: what lies under them is read
 *       through them, so no hash of a token, no key of idempotency is ever seen
 *   I3  it ends: after a time, after so many rows, and no value is longer than a payload may be
 *
 * The views are TEMP: they are made here, each time, and are no part of the schema. A later schema
 * changes them, and what they show stays.
 *
 * If we crash here, nothing has happened: nothing is written.
 */
#include "store/event.h"
#include "store/sqlite/sqlite_internal.h"

#define STEPS_PER_LOOK 1000 /* of SQLite's machine, between two looks at the clock */
#define VIEW_PREFIX "v_"

/* Milliseconds as RFC 3339, as everywhere; none for 0. */
#define TIME(column)                                                                               \
    "CASE WHEN " column ">0 THEN strftime('%Y-%m-%dT%H:%M:%fZ'," column "/1000.0,'unixepoch') END"
#define LEDGER(column) "CASE WHEN " column " IS NOT NULL THEN printf('%015d'," column ") END"
#define SPACE(ns) "(SELECT name FROM main.qp_space WHERE ns=" ns ")"
#define JOB(ns, job) "(SELECT jid FROM main.qp_job WHERE ns=" ns " AND job=" job ")"
/* In the one shape (store/error.h); rows of an older version have a sentence, or an object with less in it. */
#define ERROR(column, activity, address)                                                           \
    "CASE WHEN " column " IS NULL OR (substr(" column ",1,8)='{\"code\":' AND instr(" column       \
    ",'\"address\":')>0) THEN " column " WHEN json_valid(" column ") AND json_type(" column        \
    ",'$.message')='text' THEN json_object('code',ifnull(json_extract(" column                     \
    ",'$.code'),500),'message',json_extract(" column ",'$.message'),'activity'," activity          \
    ",'address'," address ") ELSE json_object('code',500,'message'," column                        \
    ",'activity'," activity ",'address'," address ") END"
#define WORDS(column, ...) "CASE " column " " __VA_ARGS__ " END"
#define STATUS(status)                                                                             \
    WORDS(status, "WHEN 0 THEN 'running' WHEN 1 THEN 'retrying' WHEN 2 THEN 'waiting'"             \
                  " WHEN 3 THEN 'parked' WHEN 4 THEN 'paused' WHEN 5 THEN 'completed'"             \
                  " WHEN 6 THEN 'failed' WHEN 7 THEN 'cancelled' WHEN 8 THEN 'interrupted'")
/* event.h; a status of -1 is not known */
#define EVENT_STATUS "((kind+500)/1000-1)"
#define EVENT_KIND "(kind-(kind+500)/1000*1000)"
/* Of a GUID: without the digit of step 3; the status that its job ended with, if it has closed it. */
#define STEP_2(ledger) ledger "-" ledger "/100000000%10*100000000"
#define CLOSED(ledger)                                                                             \
    "CASE WHEN " ledger "/100000000000%10=0 THEN -1 ELSE"                                          \
    " (SELECT j.state+4 FROM main.qp_job j WHERE j.ns=a.ns AND j.job=a.job) END"

/* SQL reads better as it is written. */
/* clang-format off */
static const char *const views[] = {
    "CREATE TEMP VIEW v_jobs AS SELECT"
    " " SPACE(
        "j.ns") " AS namespace, jid AS id, workflow, version,"
                " " WORDS(
                    "status",
                    "WHEN 0 THEN 'running' WHEN 1 THEN 'retrying' WHEN 2 THEN 'waiting' WHEN 3 THEN 'parked'"
                    " WHEN 4 THEN 'paused' WHEN 5 THEN 'completed' WHEN 6 THEN 'failed' WHEN 7 THEN 'cancelled'"
                    " WHEN 8 THEN 'interrupted'") " AS status,"
                                                  " parked, " ERROR("j.error", "NULL", "NULL") " AS error, " TIME("created_at") " AS started_at, " TIME(
                                                      "updated_at") " AS updated_at,"
                                                                    " " TIME(
                                                                        "closed_at") " AS ended_at, custom_id,"
                                                                                     " CASE WHEN parent_job>0 THEN (SELECT p.jid FROM main.qp_job p WHERE p.job=j.parent_job) END AS parent,"
                                                                                     " forked_from, limit_key, priority, sem AS open, seq,"
                                                                                     " (SELECT json_group_object(a.name,a.value) FROM main.qp_attr a WHERE a.ns=j.ns AND a.job=j.job) AS attributes,"
                                                                                     " CAST(output AS TEXT) AS output"
                                                                                     " FROM main.qp_job j",

    "CREATE TEMP VIEW v_activities AS SELECT"
    " " SPACE("a.ns") " AS namespace, " JOB(
        "a.ns",
        "a.job") " AS job, a.addr AS address, a.topic,"
                 " char(a.category) AS category, " LEDGER(
                     "a.ledger") " AS ledger,"
                                 " " WORDS(
                                     "m.state",
                                     "WHEN 1 THEN 'ready' WHEN 2 THEN 'delayed' WHEN 3 THEN 'held' WHEN 4 THEN 'aside'"
                                     " WHEN 5 THEN 'dead'") " AS task,"
                                                            " " TIME("m.wake_at") " AS task_until, a.attempt AS failures, " ERROR(
                                                                "a.error",
                                                                "substr(a.addr,1,instr(a.addr,',')-1)",
                                                                "a.addr") " AS error, nullif(a.code,0) AS code,"
                                                                          " " TIME("a.at") " AS entered_at, " TIME(
                                                                              "a.guid_at") " AS answered_at,"
                                                                                           " CAST(a.input AS TEXT) AS input, CAST(a.output AS TEXT) AS output, nullif(a.version,0) AS version"
                                                                                           " FROM main.qp_act a LEFT JOIN main.qp_msg m ON m.ns=a.ns AND m.job=a.job AND m.addr=a.addr AND m.kind=3",

    /* An entry as it was written (kernel/query_parts.c says what follows from which row): digits of the entry mark and of
     * step 2, the status of the last row of its own; kind and status as event.h has them, facts out of the detail. */
    "CREATE TEMP VIEW v_events AS"
    " SELECT " SPACE("e.ns") " AS namespace, " JOB("e.ns", "e.job") " AS job, e.seq, " TIME("e.at") " AS at, e.kind,"
    " " STATUS("CASE WHEN e.status>=0 THEN e.status"
               " ELSE coalesce((SELECT CASE WHEN " EVENT_STATUS " IN (1,2) THEN 0 ELSE " EVENT_STATUS " END FROM main.qp_event s WHERE s.ns=e.ns AND s.job=e.job"
               "  AND s.seq<=e.seq ORDER BY s.seq DESC LIMIT 1),0) END") " AS status,"
    " e.address, " LEDGER("e.ledger") " AS ledger,"
    " nullif(coalesce(e.facts->>'$.error.code',e.facts->>'$.code',e.code),0) AS code, e.facts->>'$.attempt' AS attempt,"
    " e.facts->>'$.delivery' AS delivery, e.facts->>'$.worker' AS worker, e.facts->>'$.topic' AS topic,"
    " e.facts->>'$.key' AS key, e.facts->>'$.job' AS other, " TIME("e.facts->>'$.until'") " AS until,"
    " e.facts->'$.error' AS error, coalesce(e.detail,e.facts->'$.data') AS detail FROM ("
    " SELECT ns, job, seq, at, 'entered' AS kind, -1 AS status, addr AS address,"
    "  CASE category WHEN 68 THEN 101100000000001 ELSE 1000000000000 END AS ledger, 0 AS code, NULL AS facts, NULL AS detail"
    "  FROM main.qp_act"
    " UNION ALL"
    " SELECT ns, job, guid_seq, guid_at, 'answered', " CLOSED("guid_ledger") ", addr, " STEP_2("guid_ledger") ", code, NULL, NULL"
    "  FROM main.qp_act a WHERE guid_seq>0"
    " UNION ALL"
    " SELECT ns, job, seq, at, 'answered', " CLOSED("ledger") ", addr, " STEP_2("ledger") ", code, NULL, NULL"
    "  FROM main.qp_guid a WHERE seq>0"
    " UNION ALL"
    " SELECT ns, job, seq, at, CASE " EVENT_KIND " WHEN -1 THEN 'changed' WHEN -2 THEN 'closed' WHEN -3 THEN 'paused'"
    "  WHEN -4 THEN 'resumed' WHEN -5 THEN 'lost' WHEN -6 THEN 'asked' WHEN 1 THEN 'failed' WHEN 2 THEN 'waits' WHEN 3 THEN 'called'"
    "  WHEN 4 THEN 'forked' WHEN 5 THEN 'refused' WHEN 6 THEN 'published' ELSE 'noted' END, " EVENT_STATUS ", addr, NULL, 0,"
    "  CASE WHEN " EVENT_KIND " IN (-5,1,2,3,4,6) THEN CAST(detail AS TEXT) END,"
    "  CASE WHEN " EVENT_KIND " NOT IN (-5,1,2,3,4,6) THEN CAST(detail AS TEXT) END FROM main.qp_event) e",

    "CREATE TEMP VIEW v_workers AS SELECT"
    " name, epoch AS run, " WORDS(
        "state",
        "WHEN 0 THEN 'running' WHEN 3 THEN 'ending'") " AS state,"
                                                      " " TIME("started_at") " AS since, " TIME(
                                                          "lease_until") " AS leased_until,"
                                                                         " (SELECT count(*) FROM main.qp_msg m WHERE m.state=3 AND m.holder=n.epoch) AS in_hand"
                                                                         " FROM main.qp_node n",
};
/* clang-format on */
static_assert(STATUS_COUNT == 9 && MSG_STATES == 6 && MSG_HELD == 3 && NODE_ENDING == 3,
              "the views above name the states");
static_assert(EVENT_STATUS_RADIX == 1000 && EVENT_LOST == -5 && EVENT_JOB_ASKED == -6 &&
                  JOB_COMPLETED + 4 == STATUS_COMPLETED &&
                  JOB_INTERRUPTED + 4 == STATUS_INTERRUPTED,
              "the views above name kinds of entries, and how jobs end");

/* ----------------------------------------------------------------------------------- guards */

struct asking {
    const struct qp_env *env;
    sqlite3 *db;
    sqlite3_stmt *statement;
    int64_t deadline_us;
    struct qp_err *err;
};

static bool is_view(const char *name)
{
    return name != NULL && strncmp(name, VIEW_PREFIX, strlen(VIEW_PREFIX)) == 0;
}

/* `view` is the one through which something is read, and is named by us: nobody can make another. A read
 * without a column only counts rows, as in count(*), where SQLite may have forgotten the view. */
static int authorize(void *context, int action, const char *a, const char *b, const char *database,
                     const char *view)
{
    (void)context;
    (void)database;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_READ:
        return *b == '\0' || is_view(a) || is_view(view) ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_FUNCTION:
        return strcmp(b, "load_extension") == 0 ? SQLITE_DENY : SQLITE_OK;
    default:
        return SQLITE_DENY;
    }
}

static int look_at_clock(void *context)
{
    const struct asking *a = context;
    return a->env->monotonic_us(a->env->context) >= a->deadline_us;
}

/* What went wrong, in SQLite's words where they are about the statement. */
static int fail(const struct asking *a, int code)
{
    switch (code & 0xff) {
    case SQLITE_INTERRUPT:
        return err_set(a->err, QP_E_LIMIT, "the statement took too long and was ended");
    case SQLITE_AUTH:
        return err_set(a->err, QP_E_INVALID,
                       "only SELECT, and only from v_jobs, v_activities, "
                       "v_events and v_workers");
    case SQLITE_TOOBIG:
        return err_set(a->err, QP_E_TOO_LARGE, "a value, or the statement, is too long");
    case SQLITE_NOMEM:
        return err_set(a->err, QP_E_NOMEM, "out of memory");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(a->err, QP_E_BUSY, "the file is busy");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return err_set(a->err, QP_E_CORRUPT, "the file is damaged: %s", sqlite3_errmsg(a->db));
    case SQLITE_ERROR:
    case SQLITE_MISMATCH:
    case SQLITE_RANGE:
        return err_set(a->err, QP_E_INVALID, "%s", sqlite3_errmsg(a->db));
    default:
        return err_set(a->err, QP_E_IO, "%s", sqlite3_errstr(code));
    }
}

/* ------------------------------------------------------------------------------------- opening */

static int make_views(struct asking *a)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < ARRAY_COUNT(views) && code == SQLITE_OK; i++) {
        code = sqlite3_exec(a->db, views[i], NULL, NULL, NULL);
    }
    return code;
}

static void set_limits(sqlite3 *db)
{
    static const struct {
        int what;
        int most;
    } limits[] = {{SQLITE_LIMIT_LENGTH, LIMIT_PAYLOAD_HARD_SIZE},
                  {SQLITE_LIMIT_SQL_LENGTH, LIMIT_SQL_SIZE},
                  {SQLITE_LIMIT_COLUMN, LIMIT_SQL_COLUMNS},
                  {SQLITE_LIMIT_ATTACHED, 0}};
    for (size_t i = 0; i < ARRAY_COUNT(limits); i++) {
        (void)sqlite3_limit(db, limits[i].what, limits[i].most); /* returns the former one */
    }
}

/* Through the same file system as the reader that was asked: a test may have put one under it. */
static int open_own(struct asking *a, const struct sqlite_provider *p)
{
    sqlite3_vfs *vfs = NULL;
    int code = sqlite3_file_control(p->db, "main", SQLITE_FCNTL_VFS_POINTER, &vfs);
    code = code == SQLITE_OK
               ? sqlite3_open_v2(p->path, &a->db,
                                 SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                                 vfs->zName)
               : code;
    if (code == SQLITE_OK) {
        (void)sqlite3_db_config(a->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);      /* cannot fail */
        (void)sqlite3_db_config(a->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL); /* likewise */
        (void)sqlite3_db_config(a->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);        /* likewise */
        (void)sqlite3_busy_timeout(a->db, LIMIT_LOCK_MS);                        /* likewise */
        code =
            sqlite3_exec(a->db, "PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0;", NULL, NULL, NULL);
    }
    code = code == SQLITE_OK ? make_views(a) : code;
    if (code == SQLITE_OK) {
        set_limits(a->db);
        (void)sqlite3_set_authorizer(a->db, authorize, a); /* cannot fail */
        sqlite3_progress_handler(a->db, STEPS_PER_LOOK, look_at_clock, a);
    }
    return code == SQLITE_OK ? QP_OK : fail(a, code);
}

/* One statement, and nothing behind it but blanks. */
static int prepare(struct asking *a, qp_str sql)
{
    const char *rest = NULL;
    sqlite3_stmt *second = NULL;
    int code;
    if (sql.n > LIMIT_SQL_SIZE) {
        return err_set(a->err, QP_E_TOO_LARGE, "a statement has at most %d bytes", LIMIT_SQL_SIZE);
    }
    if (sql.n > 0 && memchr(sql.p, '\0', sql.n) != NULL) {
        return err_set(a->err, QP_E_INVALID, "a statement has no NUL");
    }
    code = sqlite3_prepare_v2(a->db, sql.p, (int)sql.n, &a->statement, &rest);
    if (code != SQLITE_OK) {
        return fail(a, code);
    }
    code = sqlite3_prepare_v2(a->db, rest, (int)(sql.p + sql.n - rest), &second, NULL);
    (void)sqlite3_finalize(second); /* it was not run */
    if (a->statement == NULL || second != NULL || code != SQLITE_OK) {
        return err_set(a->err, QP_E_INVALID, "one SELECT is wanted, not %s",
                       a->statement == NULL ? "none" : "more");
    }
    return QP_OK;
}

/* --------------------------------------------------------------------------------------- rows */

static struct store_cell cell_of(sqlite3_stmt *s, int column)
{
    struct store_cell cell = {.kind = CELL_NONE};
    switch (sqlite3_column_type(s, column)) {
    case SQLITE_INTEGER:
        cell.kind = CELL_NUMBER;
        cell.number = sqlite3_column_int64(s, column);
        break;
    case SQLITE_FLOAT:
        cell.kind = CELL_REAL;
        cell.real = sqlite3_column_double(s, column);
        break;
    case SQLITE_TEXT:
    case SQLITE_BLOB:
        cell.kind = sqlite3_column_type(s, column) == SQLITE_TEXT ? CELL_TEXT : CELL_BYTES;
        cell.text.p = sqlite3_column_blob(s, column);
        cell.text.n = (size_t)sqlite3_column_bytes(s, column);
        cell.text.p = cell.text.p != NULL ? cell.text.p : "";
        break;
    default:
        break;
    }
    return cell;
}

static int visit_names(const struct asking *a, void *context, store_sql_visit visit)
{
    struct store_cell cells[LIMIT_SQL_COLUMNS];
    size_t count = (size_t)sqlite3_column_count(a->statement);
    QP_ASSERT(count <= LIMIT_SQL_COLUMNS);
    for (size_t i = 0; i < count; i++) {
        const char *name = sqlite3_column_name(a->statement, (int)i);
        if (name == NULL) {
            return err_set(a->err, QP_E_NOMEM, "out of memory");
        }
        cells[i] = (struct store_cell){.kind = CELL_TEXT, .text = str_from(name)};
    }
    return visit(context, cells, count);
}

static int visit_rows(struct asking *a, int64_t limit, void *context, store_sql_visit visit,
                      bool *out_more)
{
    struct store_cell cells[LIMIT_SQL_COLUMNS];
    size_t count = (size_t)sqlite3_column_count(a->statement);
    int rc = QP_OK;
    for (int64_t row = 0; rc == QP_OK; row++) {
        int code = sqlite3_step(a->statement);
        if (code != SQLITE_ROW) {
            return code == SQLITE_DONE ? QP_OK : fail(a, code);
        }
        if (row == limit) {
            *out_more = true;
            return QP_OK;
        }
        for (size_t i = 0; i < count; i++) {
            cells[i] = cell_of(a->statement, (int)i);
        }
        rc = visit(context, cells, count);
    }
    return rc;
}

int sqlite_sql(struct provider *base, const struct store_sql *q, void *context,
               store_sql_visit visit, bool *out_more, struct qp_err *err)
{
    const struct sqlite_provider *p = (const struct sqlite_provider *)base;
    struct asking a = {.env = base->env, .err = err};
    bool more = false;
    int rc;
    a.deadline_us = a.env->monotonic_us(a.env->context) + q->within_ms * 1000;
    rc = open_own(&a, p);
    rc = rc == QP_OK ? prepare(&a, q->sql) : rc;
    rc = rc == QP_OK ? visit_names(&a, context, visit) : rc;
    rc = rc == QP_OK ? visit_rows(&a, q->limit, context, visit, &more) : rc;
    (void)sqlite3_finalize(a.statement); /* repeats the step's error */
    (void)sqlite3_close(a.db);           /* nothing was written */
    if (rc == QP_OK) {
        *out_more = more;
    }
    return rc;
}

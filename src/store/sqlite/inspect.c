/* inspect.c - what can be wrong with a file that is there, one check after the other (see open.c)
 *
 * No check writes to the file. Each refuses it with a sentence that names the file, what is wrong, and what to do.
 */
#include "store/sqlite/inspect.h"

#include <stdio.h>

#include "base/log.h"

/* Whose it is, and of which version: from the file's first page. */
int opening_check_header(struct opening *o)
{
    struct sqlite_provider *p = o->p;
    int64_t id = 0;
    int rc = sqlite_query(p, "PRAGMA application_id", &id, NULL, 0, o->err);
    if (rc == QP_E_FOREIGN) {
        return opening_refuse(
            o, rc, "is not a SQLite file, so it is not a quipu file; nothing was changed");
    }
    if (rc == QP_OK && id != SQLITE_APPLICATION_ID) {
        return err_set(
            o->err, QP_E_FOREIGN,
            "'%s': is a SQLite file of another program (application id 0x%08llx); nothing was changed",
            o->path, (unsigned long long)(uint32_t)id);
    }
    return rc == QP_OK ? sqlite_query(p, "PRAGMA user_version", &p->schema_version, NULL, 0, o->err)
                       : rc;
}

int opening_check_encoding(struct opening *o)
{
    char encoding[16] = "";
    int64_t unused = 0;
    int rc = sqlite_query(o->p, "PRAGMA encoding", &unused, encoding, sizeof encoding, o->err);
    if (rc == QP_OK && strcmp(encoding, "UTF-8") != 0) {
        return opening_refuse(o, QP_E_CORRUPT, "its text is not UTF-8: it was not made by quipu");
    }
    return rc;
}

int opening_check_version(struct opening *o)
{
    struct sqlite_provider *p = o->p;
    if (p->schema_version > sqlite_schema_version) {
        return err_set(
            o->err, QP_E_NEWER,
            "'%s': made by a newer quipu (schema %lld, this program knows %lld): use that one",
            o->path, (long long)p->schema_version, (long long)sqlite_schema_version);
    }
    if (p->schema_version < 1) {
        return err_set(o->err, QP_E_CORRUPT,
                       "'%s': its schema version is %lld: the file is damaged", o->path,
                       (long long)p->schema_version);
    }
    if (p->schema_version < sqlite_schema_version && o->options->read_only) {
        return err_set(o->err, QP_E_READONLY,
                       "'%s': has schema %lld, this program reads %lld: open it once for writing",
                       o->path, (long long)p->schema_version, (long long)sqlite_schema_version);
    }
    return QP_OK;
}

/* Whether this is an index that a later migration takes away. */
static bool is_dropped(const char *create, int64_t from, int64_t to)
{
    static const char created[] = "CREATE INDEX ";
    static const char dropped[] = "DROP INDEX ";
    const char *name = create + sizeof created - 1;
    if (strncmp(create, created, sizeof created - 1) != 0) {
        return false;
    }
    for (int64_t v = from; v < to; v++) {
        for (const char *const *sql = sqlite_migrations[v]; *sql != NULL; sql++) {
            if (strncmp(*sql, dropped, sizeof dropped - 1) == 0 &&
                strncmp(*sql + sizeof dropped - 1, name, strcspn(name, " ")) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* The column that this statement adds to the table that `create` makes; NULL: none. */
static const char *column_added(const char *alter, const char *create)
{
    static const char created[] = "CREATE TABLE ";
    static const char altered[] = "ALTER TABLE ";
    static const char adds[] = " ADD COLUMN ";
    const char *name = create + sizeof created - 1;
    size_t n = strcspn(name, "(");
    const char *rest = alter + sizeof altered - 1;
    return strncmp(create, created, sizeof created - 1) == 0 &&
                   strncmp(alter, altered, sizeof altered - 1) == 0 &&
                   strncmp(rest, name, n) == 0 && strncmp(rest + n, adds, sizeof adds - 1) == 0
               ? rest + n + sizeof adds - 1
               : NULL;
}

/* Where the constraints of a table begin: its last columns stand before them. */
static const char *constraints_of(const char *create)
{
    const char *found = NULL;
    for (const char *at = create; (at = strstr(at, ",  ")) != NULL; at++) {
        if (strncmp(at, ",  PRIMARY KEY(", 15) == 0 || strncmp(at, ",  UNIQUE(", 10) == 0) {
            found = at;
        }
    }
    return found == NULL ? create + strlen(create) : found;
}

/* A statement of a migration as later ones have left it in the schema, in three parts: SQLite writes columns that are added
 * behind those that are there. `first` has the columns from before SQLITE_SLIM_SCHEMA, `later` those from after it. */
struct text_parts {
    struct buf first;
    struct buf later;
    const char *rest;
};

static void columns_added(struct buf *text, const char *create, int64_t from, int64_t to)
{
    for (int64_t v = from; v < to; v++) {
        for (const char *const *sql = sqlite_migrations[v]; *sql != NULL; sql++) {
            const char *column = column_added(*sql, create);
            if (column != NULL) {
                buf_printf(text, ", %s", column);
            }
        }
    }
}

/* `from` is the number of the migration with this statement, `to` that of the last one that ran. */
static void text_after(struct text_parts *text, const char *create, int64_t from, int64_t to)
{
    int64_t slim = from > SQLITE_SLIM_SCHEMA ? from : SQLITE_SLIM_SCHEMA;
    buf_reset(&text->first);
    buf_reset(&text->later);
    text->rest = constraints_of(create);
    buf_str(&text->first, (qp_str){create, (size_t)(text->rest - create)});
    columns_added(&text->first, create, from, to < slim ? to : slim);
    columns_added(&text->later, create, slim, to);
}

/* One text that the schema must have. */
static int check_text(struct opening *o, sqlite3_stmt *s, const struct text_parts *text)
{
    int rc = buf_rc(&text->first) != QP_OK ? buf_rc(&text->first) : buf_rc(&text->later);
    int code;
    if (rc != QP_OK) {
        return err_set(o->err, rc, "'%s': out of memory", o->path);
    }
    (void)sqlite3_bind_text(s, 1, text->first.p, (int)text->first.n,
                            SQLITE_STATIC); /* step tells */
    (void)sqlite3_bind_text(s, 2, text->later.n > 0 ? text->later.p : "", (int)text->later.n,
                            SQLITE_STATIC);                                     /* likewise */
    (void)sqlite3_bind_text(s, 3, text->rest, -1, SQLITE_STATIC);               /* likewise */
    (void)sqlite3_bind_int64(s, 4, o->p->schema_version >= SQLITE_SLIM_SCHEMA); /* likewise */
    code = sqlite3_step(s);
    if (code == SQLITE_DONE) {
        rc = err_set(o->err, QP_E_CORRUPT, "'%s': its schema was changed: %.60s...", o->path,
                     text->first.p);
    } else if (code != SQLITE_ROW) {
        rc = sqlite_fail(o->p, code, o->err, "read the schema");
    }
    (void)sqlite3_reset(s); /* repeats the step's error */
    return rc;
}

/* What the migrations made is still what they made, to the letter: no key, check or type is gone. */
static int check_texts(struct opening *o)
{
    struct text_parts text;
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(
        o->p->db,
        "SELECT 1 FROM sqlite_schema WHERE sql=CASE WHEN ?4 AND name IN (" SQLITE_SLIM_TABLES
        ") THEN " SQLITE_SLIM("?1") "||?2||" SQLITE_SLIM("?3") " ELSE ?1||?2||?3 END",
        -1, &s, NULL);
    int rc = code == SQLITE_OK ? QP_OK : sqlite_fail(o->p, code, o->err, "read the schema");
    buf_init(&text.first, o->p->base.env, 0);
    buf_init(&text.later, o->p->base.env, 0);
    for (int64_t v = 0; v < o->p->schema_version && rc == QP_OK; v++) {
        for (size_t i = 0; sqlite_migrations[v][i] != NULL && rc == QP_OK; i++) {
            const char *sql = sqlite_migrations[v][i];
            if (strncmp(sql, "CREATE ", 7) != 0 || is_dropped(sql, v + 1, o->p->schema_version)) {
                continue;
            }
            text_after(&text, sql, v + 1, o->p->schema_version);
            rc = check_text(o, s, &text);
        }
    }
    buf_done(&text.first);
    buf_done(&text.later);
    (void)sqlite3_finalize(s); /* repeats the last error */
    return rc;
}

/* A trigger on our tables would act behind every row that we write. */
static int check_triggers(struct opening *o)
{
    int64_t count = 0;
    int rc = sqlite_query(o->p,
                          "SELECT count(*) FROM sqlite_schema WHERE type='trigger' AND "
                          "tbl_name LIKE 'qp\\_%' ESCAPE '\\'",
                          &count, NULL, 0, o->err);
    return rc == QP_OK && count > 0
               ? opening_refuse(o, QP_E_CORRUPT, "has triggers on quipu's tables; remove them")
               : rc;
}

/* Every table and index of rows.h can be used. Preparing reads the schema, not the rows. */
int opening_check_schema(struct opening *o)
{
    sqlite3_stmt *s;
    int64_t head = 0;
    int rc = QP_OK;
    for (int i = 0; i < TABLE_COUNT && rc == QP_OK; i++) {
        rc = sqlite_table_statement(o->p, (enum table_id)i, STATEMENT_LOAD, &s, o->err);
    }
    for (int i = 0; i < INDEX_COUNT && rc == QP_OK; i++) {
        struct scan scan = {.table = indexes[i].table, .index = i, .limit = 1};
        rc = sqlite_scan_statement(o->p, &scan, &s, o->err);
    }
    /* Here and not at first use: a transaction must be able to end when there is no memory left. */
    for (int i = 0; i < PLAIN_KINDS && rc == QP_OK && !o->options->read_only; i++) {
        rc = sqlite_plain_statement(o->p, (enum plain_statement)i, &s, o->err);
    }
    rc = rc == QP_OK ? check_texts(o) : rc;
    rc = rc == QP_OK ? check_triggers(o) : rc;
    rc = rc == QP_OK
             ? sqlite_query(o->p, "SELECT 1 FROM qp_head WHERE ns=0", &head, NULL, 0, o->err)
             : rc;
    if (rc == QP_OK && head == 0) {
        return opening_refuse(o, QP_E_CORRUPT, "its head row is missing: the file is damaged");
    }
    /* "no such table" and its like are SQLite's generic error. */
    return rc == QP_E_INTERNAL ? sqlite_fail_as(QP_E_CORRUPT, o->err, "the schema is damaged") : rc;
}

/* The commits that were answered are there (I3 of lock.c). A reader has read the lock file before the
 * head row, so a writer beside it can only be ahead of that. */
int opening_check_position(struct opening *o)
{
    int64_t last = o->p->remembered.position;
    int64_t found = 0;
    int rc = sqlite_query(o->p, "SELECT rev FROM qp_head WHERE ns=0", &found, NULL, 0, o->err);
    if (rc != QP_OK || found >= last) {
        return rc == QP_E_INTERNAL ? sqlite_fail_as(QP_E_CORRUPT, o->err, "the schema is damaged")
                                   : rc;
    }
    if (!o->options->accept_loss) {
        return err_set(o->err, QP_E_CORRUPT,
                       "'%s': answered changes are missing: the last one is number %lld, the file "
                       "and its log (-wal) end at %lld; put both back as they were, or, to go on "
                       "without the missing ones (a backup was restored), open it once with "
                       "--accept-loss (accept_loss in C)",
                       o->path, (long long)last, (long long)found);
    }
    log_write(o->p->base.env, QP_LOG_WARN, LOG_MSG("answered changes are missing, as accepted"),
              LOG_TEXT("file", o->path), LOG_I64("last", last), LOG_I64("found", found));
    return o->options->read_only ? QP_OK : sqlite_position_accept(o->p, found, o->err);
}

int opening_check_pages(struct opening *o)
{
    char found[256] = "";
    int64_t unused = 0;
    int rc;
    if (!o->options->full_check) {
        return QP_OK;
    }
    rc = sqlite_query(o->p, "PRAGMA integrity_check(1)", &unused, found, sizeof found, o->err);
    if (rc == QP_OK && strcmp(found, "ok") != 0) {
        return err_set(o->err, QP_E_CORRUPT, "'%s': is damaged: %s; restore a backup", o->path,
                       found);
    }
    return rc;
}

/* sqlite_internal.h - shared by the files of the SQLite provider; nobody else includes it
 *
 * One connection does all writes and all checkpoints (Debian 12's 3.40.1 can corrupt a WAL that two
 * connections checkpoint); readers are read-only connections that never checkpoint; a lock file
 * keeps a second writing process away.
 */
#ifndef QP_STORE_SQLITE_INTERNAL_H
#define QP_STORE_SQLITE_INTERNAL_H

#include <sqlite3.h>
#include <sys/stat.h>

#include "store/provider.h"

#define SQLITE_PATH_SIZE 3072 /* leaves room for what SQLite and we append, below PATH_MAX */
#define SQLITE_NAME_SIZE (SQLITE_PATH_SIZE + 16)

/* "QUIP": in the file's header, so that a file of something else is recognised. */
#define SQLITE_APPLICATION_ID 0x51554950

/* The tables that every step writes. From schema SQLITE_SLIM_SCHEMA on they are made without the checks of each write (ADR
 * 47), which is what SQLITE_SLIM makes of an SQL expression that is a part of a table's text. Columns that are added to
 * them later are INTEGER DEFAULT 0, TEXT or BLOB. */
#define SQLITE_SLIM_SCHEMA 8
#define SQLITE_SLIM_TABLES "'qp_job','qp_act','qp_msg'"
#define SQLITE_WITHOUT(text, word) "replace(" text ",'" word "','')"
#define SQLITE_WITHOUT_CHECKS(text)                                                                \
    SQLITE_WITHOUT(SQLITE_WITHOUT(SQLITE_WITHOUT(text, " CHECK(sem>=0)"),                          \
                                  " CHECK(ledger BETWEEN 0 AND 999999999999999)"),                 \
                   " CHECK(guid_ledger BETWEEN 0 AND 999999999999999)")
#define SQLITE_SLIM(text)                                                                          \
    "replace(replace(replace(replace(" SQLITE_WITHOUT_CHECKS(                                      \
        text) ",' NOT NULL DEFAULT 0',' DEFAULT 0'),"                                              \
              "' ns INTEGER DEFAULT 0',' ns INTEGER NOT NULL DEFAULT 0'),"                         \
              "' job INTEGER DEFAULT 0',' job INTEGER NOT NULL DEFAULT 0'),') STRICT',')')"

/* By number, from 1; each is a list of statements that ends with NULL. */
extern const char *const *const sqlite_migrations[];
extern const int64_t sqlite_schema_version;

enum table_statement {
    STATEMENT_LOAD,
    STATEMENT_INSERT,
    STATEMENT_INSERT_PLAIN, /* without what is none in most rows that are born */
    STATEMENT_UPDATE_HOT,
    STATEMENT_UPDATE,
    STATEMENT_UPDATE_WIDE, /* with what is unusual to change */
    STATEMENT_UPDATE_ALL,  /* a row that went and came again: its fixed columns change, too */
    STATEMENT_DELETE,
    STATEMENT_CHANGE_HOT, /* as the updates and the deletion, for many rows at once (batch.c) */
    STATEMENT_CHANGE,
    STATEMENT_CHANGE_WIDE,
    STATEMENT_REMOVE,
    STATEMENT_KINDS
};

enum plain_statement {
    PLAIN_BEGIN,
    PLAIN_SNAPSHOT,
    PLAIN_COMMIT,
    PLAIN_ROLLBACK,
    PLAIN_SAVEPOINT,
    PLAIN_RELEASE,
    PLAIN_ROLLBACK_TO,
    PLAIN_SHRINK,
    PLAIN_KINDS
};

#define SCAN_SHAPES ((TABLE_COUNT + INDEX_COUNT) * (INDEX_COLUMNS_MAX + 1) * 4)

/* Rows of one table, while they are written together (batch.c). */
struct sqlite_news {
    const struct qp_env *env;
    enum table_id table;
    const void *const *rows;
    size_t count;
};

/* What SQLite is told to expect of them; it changes no plan. */
#define SQLITE_INSERT_ROWS 100

/* What the lock file says (lock.c); 0: nothing. */
struct sqlite_record {
    int64_t position; /* revision of the head row, as of the last commit that was answered */
    int64_t file;     /* the same of the file without its log, since the last whole checkpoint */
};

#define SQLITE_WATCHED 3 /* the file, its log, its lock */

#define SQLITE_ROW_WORDS 128

struct sqlite_provider {
    struct provider base;
    sqlite3 *db;
    char *path;
    int lock_fd;  /* -1: a reader */
    int32_t pid;  /* a handle does not survive fork */
    bool active;  /* between begin and commit or rollback */
    bool in_host; /* a host callback runs: it may not touch our tables or the transaction */
    bool relaxed; /* answers before the sync */
    struct sqlite_record remembered;
    int64_t head_rev;  /* that the transaction gives the head row; 0: it does not write it */
    int64_t looked_us; /* monotonic time of the last sqlite_watch of a commit */
    bool is_watched;   /* it was opened for writing, and nothing refused it */
    struct stat watched[SQLITE_WATCHED]; /* as they were opened; does not change after that */
    int wal_pages;
    int wal_commits; /* since the last checkpoint */
    int64_t schema_version;
    struct buf sql;
    struct sqlite_news news[TABLE_COUNT];
    uint8_t roles[TABLE_COUNT][SQLITE_ROW_WORDS]; /* enum column_role of each word of a row */
    sqlite3_stmt *of_table[TABLE_COUNT][STATEMENT_KINDS];
    sqlite3_stmt *plain[PLAIN_KINDS];
    sqlite3_stmt *scans[SCAN_SHAPES];
};

static inline struct sqlite_provider *sqlite_self(struct provider *base)
{
    return (struct sqlite_provider *)base;
}

/* statements.c: prepared at first use, from the descriptors of rows.h; texts never contain a
 * value. */
int sqlite_table_statement(struct sqlite_provider *p, enum table_id table,
                           enum table_statement kind, sqlite3_stmt **out,
                           struct qp_err *err) QP_MUST_USE;
int sqlite_plain_statement(struct sqlite_provider *p, enum plain_statement kind, sqlite3_stmt **out,
                           struct qp_err *err) QP_MUST_USE;
int sqlite_scan_statement(struct sqlite_provider *p, const struct scan *scan, sqlite3_stmt **out,
                          struct qp_err *err) QP_MUST_USE;
void sqlite_statements_done(struct sqlite_provider *p);
/* Whether a statement of this kind writes columns of this role. */
bool sqlite_writes(enum table_statement kind, enum column_role role);
/* Binds one column of a row at a place; SQLITE_OK or SQLite's code. */
int sqlite_bind_column(sqlite3_stmt *s, int place, const struct column *c, const void *row);
/* The same for all columns of the key, from a place on. */
int sqlite_bind_key(sqlite3_stmt *s, int place, const struct table *t, const void *row);
/* Runs a statement that returns no rows, and resets it. */
int sqlite_execute(struct sqlite_provider *p, sqlite3_stmt *s, struct qp_err *err,
                   const char *what) QP_MUST_USE;

/* batch.c: the tables of rows to be written, for a connection that writes; and the writing of
 * them. */
int sqlite_news_init(struct sqlite_provider *p, struct qp_err *err) QP_MUST_USE;
int sqlite_write(struct provider *base, enum table_id table, const void *before, const void *after,
                 struct qp_err *err) QP_MUST_USE;
int sqlite_write_all(struct provider *base, enum table_id table, const void *const *before,
                     const void *const *after, size_t count, struct qp_err *err) QP_MUST_USE;

/* backup.c */
int sqlite_backup(struct provider *base, const char *to, struct qp_err *err) QP_MUST_USE;

/* sql.c */
int sqlite_sql(struct provider *base, const struct store_sql *q, void *context,
               store_sql_visit visit, bool *out_more, struct qp_err *err) QP_MUST_USE;

/* lock.c */
void sqlite_beside(const char *path, const char *suffix, char out[SQLITE_NAME_SIZE]);
/* For a writer: takes the lock and reads what is remembered. */
int sqlite_lock_take(struct sqlite_provider *p, struct qp_err *err) QP_MUST_USE;
/* For a reader: reads what is remembered, if there is something. */
void sqlite_lock_look(struct sqlite_provider *p);
/* The commit that gave the head row its revision is durable. */
void sqlite_position_keep(struct sqlite_provider *p);
/* What is missing is accepted: from now on this is the position. */
int sqlite_position_accept(struct sqlite_provider *p, int64_t position,
                           struct qp_err *err) QP_MUST_USE;
/* A checkpoint has moved all of the log into the file. */
void sqlite_file_keep(struct sqlite_provider *p);
/* Remembers what the names lead to; whether they still do, from any thread; and the same with a sentence
 * that ends the handle. */
void sqlite_watch_begin(struct sqlite_provider *p);
const char *sqlite_displaced(const struct sqlite_provider *p);
int sqlite_watch(struct sqlite_provider *p, struct qp_err *err) QP_MUST_USE;

/* whole.c: every page that the header counts is in the file or in its log. */
int sqlite_check_whole(struct sqlite_provider *p, struct qp_err *err) QP_MUST_USE;

/* connection.c: opens p->db and makes its settings; closes it. */
int sqlite_connect(struct sqlite_provider *p, const struct store_options *options, const char *path,
                   int flags, struct qp_err *err) QP_MUST_USE;
void sqlite_disconnect(struct sqlite_provider *p);
void sqlite_provider_close(struct provider *base);
/* The hook of the log; moves the log into the file, as far as no reader needs it. */
int sqlite_wal_grew(void *context, sqlite3 *db, const char *name, int pages);
bool sqlite_log_is_long(const struct sqlite_provider *p);
int sqlite_checkpoint(struct sqlite_provider *p, struct qp_err *err);
int sqlite_exec(struct sqlite_provider *p, const char *sql, struct qp_err *err);
/* The first column of the first row: as a number, or as text into `text` when given. */
int sqlite_query(struct sqlite_provider *p, const char *sql, int64_t *out_number, char *text,
                 size_t text_size, struct qp_err *err) QP_MUST_USE;
/* provider.c */
extern const struct provider_calls sqlite_calls;
/* fail.c: SQLite's code as ours, with a sentence. A failed fsync, or damage, ends the handle. */
int sqlite_fail(struct sqlite_provider *p, int code, struct qp_err *err, const char *what);
/* What failed has been told, but it means something else to the caller: another code, and words
 * before the detail. */
int sqlite_fail_as(int code, struct qp_err *err, const char *what);
int sqlite_authorize(void *context, int action, const char *a, const char *b, const char *database,
                     const char *trigger);
int sqlite_may_commit(void *context);

#endif

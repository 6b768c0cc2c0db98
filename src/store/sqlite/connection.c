/* connection.c - a connection to the file: how it is made, its log, its end (see sqlite_internal.h)
 *
 * If we crash with a log beside the file, the next open reads the file through it: nothing is lost when a checkpoint
 * does not happen.
 */
#include "store/sqlite/sqlite_internal.h"

#include <stdio.h>
#include <unistd.h>

#define BUSY_TIMEOUT_MS 5000

int sqlite_exec(struct sqlite_provider *p, const char *sql, struct qp_err *err)
{
    int code = sqlite3_exec(p->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? QP_OK : sqlite_fail(p, code, err, "set up");
}

int sqlite_query(struct sqlite_provider *p, const char *sql, int64_t *out_number, char *text,
                 size_t text_size, struct qp_err *err)
{
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(p->db, sql, -1, &s, NULL);
    code = code == SQLITE_OK ? sqlite3_step(s) : code;
    if (code == SQLITE_ROW && text == NULL) {
        *out_number = sqlite3_column_int64(s, 0); /* as text it would need memory */
    } else if (code == SQLITE_ROW) {
        const unsigned char *found = sqlite3_column_text(s, 0);
        code = found == NULL ? SQLITE_NOMEM : code;
        (void)snprintf(text, text_size, "%s", found != NULL ? (const char *)found : "");
    }
    (void)sqlite3_finalize(s); /* repeats the step's error */
    return code == SQLITE_ROW || code == SQLITE_DONE ? QP_OK
                                                     : sqlite_fail(p, code, err, "read the file");
}

int sqlite_connect(struct sqlite_provider *p, const struct store_options *options, const char *path,
                   int flags, struct qp_err *err)
{
    int code = sqlite3_open_v2(path, &p->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                               options->vfs);
    if (code != SQLITE_OK) {
        return sqlite_fail(p, code, err, "open");
    }
    (void)sqlite3_db_config(p->db, SQLITE_DBCONFIG_DEFENSIVE, 1,
                            NULL); /* older libraries: no such setting */
    (void)sqlite3_db_config(p->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL); /* likewise */
    /* Else SQLite takes the quoted name of a column that is missing for a text. */
    (void)sqlite3_db_config(p->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL); /* likewise */
    (void)sqlite3_busy_timeout(p->db, BUSY_TIMEOUT_MS);               /* cannot fail */
    return sqlite_exec(
        p,
        "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY;",
        err);
}

void sqlite_disconnect(struct sqlite_provider *p)
{
    sqlite_statements_done(p);
    (void)sqlite3_close(p->db); /* all statements are finalized */
    p->db = NULL;
}

/* ----------------------------------------------------------------------------------------- its log */

int sqlite_wal_grew(void *context, sqlite3 *db, const char *name, int pages)
{
    struct sqlite_provider *p = context;
    (void)db;
    (void)name;
    p->wal_pages = pages;
    p->wal_commits++;
    return SQLITE_OK;
}

/* A checkpoint makes a commit wait ten milliseconds or more. Large commits fill LIMIT_WAL_PAGES in a few dozens: then the
 * log grows on, until at most one in LIMIT_WAL_COMMITS has waited, or to LIMIT_WAL_MOST_PAGES. */
bool sqlite_log_is_long(const struct sqlite_provider *p)
{
    return p->wal_pages >= LIMIT_WAL_MOST_PAGES ||
           (p->wal_pages >= LIMIT_WAL_PAGES && p->wal_commits >= LIMIT_WAL_COMMITS);
}

/* Moves the log into the file. PASSIVE: it never waits for readers, and takes what it can. */
int sqlite_checkpoint(struct sqlite_provider *p, struct qp_err *err)
{
    int pages = -1;
    int moved = -1;
    int code = sqlite3_wal_checkpoint_v2(p->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &pages, &moved);
    int rc;
    p->wal_pages = 0;
    p->wal_commits = 0;
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

/* ----------------------------------------------------------------------------------------- its end */

/* Nothing was written since the log was made: SQLite may remove it, and writes nothing when it does. */
static bool log_is_empty(const struct sqlite_provider *p)
{
    const char *name = sqlite3_db_filename(p->db, "main");
    struct stat log;
    return name != NULL && stat(sqlite3_filename_wal(name), &log) == 0 && log.st_size == 0;
}

/* The log goes into the file. SQLite does that by itself only for the last one that has the file open. Not
 * after a failure, not to a file that was refused, and not in a child of the process that opened it. */
static void close_log(struct sqlite_provider *p)
{
    bool is_mine = p->pid == (int32_t)getpid();
    if (!is_mine || (p->base.failure != QP_OK && !log_is_empty(p)) || sqlite_displaced(p) != NULL) {
        (void)sqlite3_db_config(p->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1,
                                NULL); /* write nothing more */
    } else if (p->is_watched && p->base.failure == QP_OK) {
        (void)sqlite_checkpoint(p, NULL); /* the log has what could not be moved */
    }
}

void sqlite_provider_close(struct provider *base)
{
    struct sqlite_provider *p = (struct sqlite_provider *)base;
    if (p->db != NULL) {
        if (p->active) {
            p->base.calls->rollback(base);
        }
        close_log(p);
        sqlite_disconnect(p);
    }
    if (p->lock_fd >= 0) {
        (void)close(p->lock_fd); /* which releases the lock */
    }
    buf_done(&p->sql);
    mem_free(base->env, p->path);
    mem_free(base->env, p);
}

/* open.c - from a path to a working connection, or to a sentence that says why not
 *
 * Opening never repairs and never guesses: a file that is not certainly ours, and whole, is refused
 * and left as it is.
 *
 *   resolve   the path, through symbolic links, so that one file has one lock
 *   lock      <file>-qplock, for a writer: kept until close, so a second writing process is refused;
 *             it remembers how far the file was answered (lock.c)
 *   look      at the file alone, without its logs: a foreign file's log is neither rolled back nor
 *             moved into it
 *   create    <file>.new is built with all migrations, closed, synced and renamed: a crash leaves
 *             no half-made file
 *   connect   pragmas; application id, schema version, encoding, tables; every page that is counted
 *             (whole.c), every commit that was answered
 *   migrate   an older schema, one transaction per step, together with its number
 *
 * The database file itself is never opened by anyone but SQLite: closing any descriptor of it would
 * drop the POSIX locks that SQLite holds through others.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "store/sqlite/sqlite_internal.h"

#define BUSY_TIMEOUT_MS 5000

struct opening {
    struct sqlite_provider *p;
    const struct store_options *options;
    char path[SQLITE_PATH_SIZE + 1];
    struct stat stat;
    bool exists;
    struct qp_err *err;
};

static int refuse(const struct opening *o, int code, const char *text)
{
    return err_set(o->err, code, "'%s': %s", o->path, text);
}

/* ------------------------------------------------------------------------------------- the path */

/* The directory part of the path, into `out`. */
static void directory_of(const char *path, char out[SQLITE_PATH_SIZE + 1])
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path);
    if (slash == NULL) {
        memcpy(out, ".", 2);
    } else if (n == 0) {
        memcpy(out, "/", 2);
    } else {
        memcpy(out, path, n);
        out[n] = '\0';
    }
}

/* A file that is not there yet gets its whole name too: SQLite takes a relative one like "file:x" or "file::memory:" for
 * something else. Without a directory it stays as it is, and the directory is complained about later. */
static int resolve_new(struct opening *o, const char *path)
{
    const char *slash = strrchr(path, '/');
    char directory[SQLITE_PATH_SIZE + 1];
    char real[4096];
    int n;
    directory_of(path, directory);
    if (realpath(directory, real) == NULL) {
        return QP_OK;
    }
    n = snprintf(o->path, sizeof o->path, "%s/%s", strcmp(real, "/") == 0 ? "" : real,
                 slash != NULL ? slash + 1 : path);
    return n < (int)sizeof o->path
               ? QP_OK
               : err_set(o->err, QP_E_INVALID, "the path of the store is too long");
}

static int resolve(struct opening *o, const char *path)
{
    struct stat link;
    char real[4096];
    size_t n = strlen(path);
    if (n == 0 || n > SQLITE_PATH_SIZE) {
        return err_set(o->err, QP_E_INVALID, "the path of the store is %s",
                       n == 0 ? "empty" : "too long");
    }
    if (strcmp(path, ":memory:") == 0) {
        return err_set(o->err, QP_E_INVALID,
                       "':memory:' is not a file: a store in memory has no path (NULL in C, "
                       "--store memory of quipu serve); a file of that name is './:memory:'");
    }
    memcpy(o->path, path, n + 1);
    if (realpath(path, real) == NULL) {
        if (errno == ENOENT && lstat(path, &link) == 0) {
            return refuse(o, QP_E_NOT_FOUND, "is a symbolic link to a file that is not there");
        }
        return errno == ENOENT ? resolve_new(o, path)
                               : err_set(o->err, QP_E_IO, "'%s': %s", path, strerror(errno));
    }
    n = strlen(real);
    if (n > SQLITE_PATH_SIZE) {
        return err_set(o->err, QP_E_INVALID, "the path of the store is too long");
    }
    memcpy(o->path, real, n + 1);
    o->exists = stat(o->path, &o->stat) == 0;
    return QP_OK;
}

static int check_kind(const struct opening *o)
{
    if (S_ISDIR(o->stat.st_mode)) {
        return refuse(o, QP_E_FOREIGN, "is a directory, not a file; name a file in it");
    }
    if (!S_ISREG(o->stat.st_mode)) {
        return refuse(o, QP_E_FOREIGN, "is not a regular file");
    }
    if (o->stat.st_nlink > 1) {
        return refuse(o, QP_E_FOREIGN,
                      "has a second name (hard link), so its lock could be passed by; remove one");
    }
    if (o->stat.st_size == 0) {
        return refuse(o, QP_E_FOREIGN,
                      "is empty, so it is not a quipu file; remove it, and a new one will be made");
    }
    if (o->stat.st_size < 512) {
        return refuse(o, QP_E_FOREIGN, "is too short to be a quipu file");
    }
    return QP_OK;
}

/* WAL needs shared memory between processes, which network file systems do not give. */
static int check_file_system(const struct opening *o)
{
    static const struct {
        long type;
        const char *name;
    } refused[] = {{0x6969, "NFS"},      {0x517B, "SMB"},    {0xFF534D42, "CIFS"},
                   {0xFE534D42, "SMB2"}, {0x01021997, "9P"}, {0x5346414F, "AFS"},
                   {0x00C36400, "Ceph"}};
    char directory[SQLITE_PATH_SIZE + 1];
    struct statfs fs;
    directory_of(o->path, directory);
    if (statfs(directory, &fs) != 0) {
        return err_set(o->err, errno == ENOENT ? QP_E_NOT_FOUND : QP_E_IO,
                       "'%s': its directory: %s", o->path, strerror(errno));
    }
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++) {
        if ((long)fs.f_type == refused[i].type) {
            return err_set(o->err, QP_E_UNSUPPORTED,
                           "'%s': lies on a network file system (%s): use a local disk", o->path,
                           refused[i].name);
        }
    }
    return QP_OK;
}

static void warn_mode(const struct opening *o)
{
    if ((o->stat.st_mode & 077) != 0) {
        log_write(o->p->base.env, QP_LOG_WARN,
                  LOG_MSG("the store can be read by other users; chmod 600 it"),
                  LOG_TEXT("file", o->path));
    }
}

static int check_orphans(const struct opening *o)
{
    static const char *const logs[] = {"-wal", "-journal"};
    char name[SQLITE_NAME_SIZE];
    struct stat st;
    for (size_t i = 0; i < ARRAY_COUNT(logs); i++) {
        sqlite_beside(o->path, logs[i], name);
        if (lstat(name, &st) == 0) {
            return err_set(
                o->err, QP_E_CORRUPT,
                "'%s': is not there, but its log '%s' is: put the file back, or move the log away",
                o->path, name);
        }
    }
    return QP_OK;
}

/* A log with something in it: what the file alone holds is then not its state. */
static bool has_log(const struct opening *o, const char *suffix)
{
    char name[SQLITE_NAME_SIZE];
    struct stat st;
    sqlite_beside(o->path, suffix, name);
    return stat(name, &st) == 0 && st.st_size > 0;
}

/* ------------------------------------------------------------------------------------- the lock */

static int lock_take(struct opening *o)
{
    QP_TRY(sqlite_lock_take(o->p, o->err));
    /* Another process may have made the file since its path was resolved: only now nobody else can. */
    o->exists = stat(o->path, &o->stat) == 0;
    return o->exists ? check_kind(o) : QP_OK;
}

/* ---------------------------------------------------------------------------------- SQL helpers */

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

static int connect_to(struct opening *o, const char *path, int flags)
{
    struct sqlite_provider *p = o->p;
    int code = sqlite3_open_v2(path, &p->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                               o->options->vfs);
    if (code != SQLITE_OK) {
        return sqlite_fail(p, code, o->err, "open");
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
        o->err);
}

static void disconnect(struct sqlite_provider *p)
{
    sqlite_statements_done(p);
    (void)sqlite3_close(p->db); /* all statements are finalized */
    p->db = NULL;
}

/* ----------------------------------------------------------------------------------- migrations */

static int migrate_step(struct opening *o, int64_t from)
{
    struct sqlite_provider *p = o->p;
    char version[64];
    int rc = sqlite_exec(p, "BEGIN IMMEDIATE", o->err);
    (void)snprintf(version, sizeof version, "PRAGMA user_version=%lld",
                   (long long)(from + 1)); /* fits */
    for (size_t i = 0; rc == QP_OK && sqlite_migrations[from][i] != NULL; i++) {
        rc = sqlite_exec(p, sqlite_migrations[from][i], o->err);
    }
    rc = rc == QP_OK ? sqlite_exec(p, version, o->err) : rc;
    rc = rc == QP_OK ? FP("migrate.before") : rc;
    rc = rc == QP_OK ? sqlite_exec(p, "COMMIT", o->err) : rc;
    if (rc != QP_OK) {
        (void)sqlite_exec(p, "ROLLBACK", NULL); /* it may have been rolled back already */
        return err_wrap(o->err, rc, "migrate to schema %lld", (long long)(from + 1));
    }
    return FP("migrate.after");
}

static int migrate_from(struct opening *o, int64_t version)
{
    int rc = QP_OK;
    while (rc == QP_OK && version < sqlite_schema_version) {
        rc = migrate_step(o, version++);
    }
    return rc;
}

/* ------------------------------------------------------------------------------------- creating */

static int sync_directory(const struct opening *o)
{
    char directory[SQLITE_PATH_SIZE + 1];
    int fd;
    int failed;
    directory_of(o->path, directory);
    fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return err_set(o->err, QP_E_IO, "'%s': its directory: %s", o->path, strerror(errno));
    }
    failed = fsync(fd);
    (void)close(fd); /* opened for reading */
    return failed == 0 ? QP_OK
                       : err_set(o->err, QP_E_FSYNC, "'%s': its directory: fsync failed", o->path);
}

/* With a rollback journal and full sync: what COMMIT has said is on disk before the file gets its
 * name. */
static int build_new(struct opening *o, const char *name)
{
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int rc;
    if (fd < 0) {
        return err_set(o->err, errno == ENOSPC ? QP_E_FULL : QP_E_IO, "'%s': create: %s", name,
                       strerror(errno));
    }
    (void)close(fd); /* empty: nothing can be lost */
    rc = connect_to(o, name, SQLITE_OPEN_READWRITE);
    rc = rc == QP_OK
             ? sqlite_exec(o->p, "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA synchronous=FULL;", o->err)
             : rc;
    rc = rc == QP_OK ? sqlite_exec(o->p, "PRAGMA application_id=1364543824;", o->err) : rc;
    rc = rc == QP_OK ? migrate_from(o, 0) : rc;
    rc = rc == QP_OK ? sqlite_exec(o->p, "PRAGMA journal_mode=WAL;", o->err) : rc;
    disconnect(o->p);
    return rc;
}

/* Never over a file that somebody else made meanwhile, where the file system can promise that. */
static int rename_new(const char *from, const char *to)
{
    int failed = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    return failed != 0 && (errno == EINVAL || errno == ENOSYS) ? rename(from, to) : failed;
}

/* A file that was there is not replaced by an empty one unasked. */
static int check_forgotten(const struct opening *o)
{
    if (o->p->remembered.position == 0) {
        return QP_OK;
    }
    if (o->options->accept_loss) {
        return sqlite_position_accept(o->p, 0, o->err);
    }
    return err_set(o->err, QP_E_CORRUPT,
                   "'%s': is not there, but %lld changes of it were answered; put it back, or, to "
                   "begin with an empty store, open it once with --accept-loss (accept_loss in C)",
                   o->path, (long long)o->p->remembered.position);
}

static int create(struct opening *o)
{
    static const char *const left[] = {".new-journal", ".new-wal", ".new-shm", ".new"};
    char name[SQLITE_NAME_SIZE];
    int rc = check_orphans(o);
    static_assert(SQLITE_APPLICATION_ID == 1364543824, "the pragma above says the same number");
    rc = rc == QP_OK ? check_forgotten(o) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    for (size_t i = 0; i < ARRAY_COUNT(left); i++) {
        sqlite_beside(o->path, left[i], name);
        (void)unlink(
            name); /* what a crash during an earlier creation left behind; we hold the lock */
    }
    rc = build_new(o, name); /* ".new", the last of them */
    if (rc == QP_OK && rename_new(name, o->path) != 0) {
        rc = err_set(o->err, QP_E_IO, "'%s': rename: %s", name, strerror(errno));
    }
    if (rc != QP_OK) {
        (void)unlink(name); /* not needed, and harmless when it stays */
        return rc;
    }
    return sync_directory(o);
}

/* ------------------------------------------------------------------------------------- checking */

/* Whose it is, and of which version: from the file's first page. */
static int check_header(struct opening *o)
{
    struct sqlite_provider *p = o->p;
    int64_t id = 0;
    int rc = sqlite_query(p, "PRAGMA application_id", &id, NULL, 0, o->err);
    if (rc == QP_E_FOREIGN) {
        return refuse(o, rc,
                      "is not a SQLite file, so it is not a quipu file; nothing was changed");
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

static int check_encoding(struct opening *o)
{
    char encoding[16] = "";
    int64_t unused = 0;
    int rc = sqlite_query(o->p, "PRAGMA encoding", &unused, encoding, sizeof encoding, o->err);
    if (rc == QP_OK && strcmp(encoding, "UTF-8") != 0) {
        return refuse(o, QP_E_CORRUPT, "its text is not UTF-8: it was not made by quipu");
    }
    return rc;
}

static int check_version(struct opening *o)
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

/* What has become of a statement of migration `from` by those after it: SQLite writes a column that is added behind the
 * others, into the text of the table. */
static void text_after(struct buf *text, const char *create, int64_t from, int64_t to)
{
    const char *rest = constraints_of(create);
    buf_reset(text);
    buf_str(text, (qp_str){create, (size_t)(rest - create)});
    for (int64_t v = from; v < to; v++) {
        for (const char *const *sql = sqlite_migrations[v]; *sql != NULL; sql++) {
            const char *column = column_added(*sql, create);
            if (column != NULL) {
                buf_printf(text, ", %s", column);
            }
        }
    }
    buf_text(text, rest);
}

/* One text that the schema must have. */
static int check_text(struct opening *o, sqlite3_stmt *s, const struct buf *text)
{
    int rc = buf_rc(text);
    int code;
    if (rc != QP_OK) {
        return err_set(o->err, rc, "'%s': out of memory", o->path);
    }
    (void)sqlite3_bind_text(s, 1, text->p, (int)text->n, SQLITE_STATIC); /* step tells */
    code = sqlite3_step(s);
    if (code == SQLITE_DONE) {
        rc = err_set(o->err, QP_E_CORRUPT, "'%s': its schema was changed: %.60s...", o->path,
                     text->p);
    } else if (code != SQLITE_ROW) {
        rc = sqlite_fail(o->p, code, o->err, "read the schema");
    }
    (void)sqlite3_reset(s); /* repeats the step's error */
    return rc;
}

/* What the migrations made is still what they made, to the letter: no key, check or type is gone. */
static int check_texts(struct opening *o)
{
    struct buf text;
    sqlite3_stmt *s = NULL;
    int code =
        sqlite3_prepare_v2(o->p->db, "SELECT 1 FROM sqlite_schema WHERE sql=?1", -1, &s, NULL);
    int rc = code == SQLITE_OK ? QP_OK : sqlite_fail(o->p, code, o->err, "read the schema");
    buf_init(&text, o->p->base.env, 0);
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
    buf_done(&text);
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
               ? refuse(o, QP_E_CORRUPT, "has triggers on quipu's tables; remove them")
               : rc;
}

/* Every table and index of rows.h can be used. Preparing reads the schema, not the rows. */
static int check_schema(struct opening *o)
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
        return refuse(o, QP_E_CORRUPT, "its head row is missing: the file is damaged");
    }
    /* "no such table" and its like are SQLite's generic error. */
    return rc == QP_E_INTERNAL ? sqlite_fail_as(QP_E_CORRUPT, o->err, "the schema is damaged") : rc;
}

/* The commits that were answered are there (I3 of lock.c). A reader has read the lock file before the
 * head row, so a writer beside it can only be ahead of that. */
static int check_position(struct opening *o)
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

static int check_pages(struct opening *o)
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

/* "file:/path?immutable=1", with what has a meaning in it escaped. */
static int raw_name(const struct opening *o, struct buf *out)
{
    buf_reset(out);
    buf_text(out, "file:");
    for (const char *c = o->path; *c != '\0'; c++) {
        if (*c == '%' || *c == '?' || *c == '#') {
            buf_printf(out, "%%%02x", (unsigned)*c);
        } else {
            buf_byte(out, *c);
        }
    }
    buf_text(out, "?immutable=1");
    buf_byte(out, '\0');
    return buf_rc(out);
}

/* One look by a connection that writes nothing. */
static int look_by(struct opening *o, const char *name, int flags)
{
    struct sqlite_provider *p = o->p;
    int rc = connect_to(o, name, SQLITE_OPEN_READONLY | flags);
    if (rc == QP_OK) {
        (void)sqlite3_db_config(p->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL); /* cannot fail */
        rc = check_header(o);
    }
    if (rc == QP_OK && p->schema_version > sqlite_schema_version) {
        rc = check_version(o);
    }
    disconnect(p);
    p->base.failure = QP_OK; /* of the look, which is over */
    return rc;
}

/* Whose file is it? First by the file alone, without locks and logs: before we know whose it is,
 * SQLite must neither roll back a journal into it nor move a log into it. With a log beside it a bad
 * answer proves nothing: a loss of power during a checkpoint leaves any part of the first page old,
 * new or rubbish, and the log mends it. So the file is then looked at through its log, as any reader
 * would. (Ours have no journal: they are born with a log.) */
static int look(struct opening *o)
{
    struct sqlite_provider *p = o->p;
    int rc = raw_name(o, &p->sql);
    rc = rc == QP_OK ? look_by(o, p->sql.p, SQLITE_OPEN_URI)
                     : err_set(o->err, rc, "open store: out of memory");
    if (rc == QP_OK && has_log(o, "-journal")) {
        return refuse(o, QP_E_CORRUPT,
                      "a rollback journal lies beside it, which quipu never makes; move it away");
    }
    return rc != QP_OK && has_log(o, "-wal") ? look_by(o, o->path, 0) : rc;
}

static int read_file_position(struct opening *o, int64_t *out_position)
{
    struct sqlite_provider *p = o->p;
    *out_position = INT64_MAX;
    QP_TRY(raw_name(o, &p->sql));
    if (connect_to(o, p->sql.p, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI) != QP_OK ||
        sqlite_query(p, "SELECT rev FROM qp_head WHERE ns=0", out_position, NULL, 0, NULL) !=
            QP_OK) {
        *out_position = INT64_MAX; /* a checkpoint was cut off: this proves nothing */
    }
    disconnect(p);
    p->base.failure = QP_OK; /* of the look, which is over */
    return QP_OK;
}

/* Before SQLite sees both: it would read the pages of one file through the log of another (I4 of
 * lock.c). A writer may be moving its log into the file while a reader looks: it looks twice then. */
static int check_log(struct opening *o)
{
    int64_t last = o->p->remembered.file;
    int64_t found = 0;
    for (int looks = 0; looks < 2 && found < last; looks++) {
        if (!has_log(o, "-wal") || read_file_position(o, &found) != QP_OK) {
            return QP_OK; /* no memory: the next step says so */
        }
    }
    return found >= last
               ? QP_OK
               : err_set(o->err, QP_E_CORRUPT,
                         "'%s': was replaced by an older one, and the log '%s-wal' is of "
                         "the file that was there before; copy all of them away, then put "
                         "that file back, or, to go on with the older one, remove the log "
                         "and '%s-shm'",
                         o->path, o->path, o->path);
}

/* Our own settings, after the file is known to be ours: until here nothing could have written to
 * it. */
static int configure_writer(struct opening *o)
{
    struct sqlite_provider *p = o->p;
    char mode[16] = "";
    int64_t unused = 0;
    bool relaxed = o->options->durability == DURABILITY_RELAXED;
    int rc = sqlite_query(p, "PRAGMA journal_mode=WAL", &unused, mode, sizeof mode, o->err);
    if (rc == QP_OK && strcmp(mode, "wal") != 0) {
        return refuse(o, QP_E_UNSUPPORTED,
                      "cannot use a write-ahead log here; put it on a local disk");
    }
    rc = rc == QP_OK
             ? sqlite_exec(p, relaxed ? "PRAGMA synchronous=NORMAL" : "PRAGMA synchronous=FULL",
                           o->err)
             : rc;
    rc = rc == QP_OK
             ? sqlite_exec(p, "PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-16384;", o->err)
             : rc;
    static_assert(LIMIT_PAGE_CACHE_KIB == 16384, "the pragma above says the same number");
    (void)sqlite3_wal_hook(p->db, sqlite_wal_grew, p);        /* returns the former context */
    (void)sqlite3_commit_hook(p->db, sqlite_may_commit, p);   /* returns the former context */
    (void)sqlite3_set_authorizer(p->db, sqlite_authorize, p); /* cannot fail */
    return rc == QP_OK ? sqlite_news_init(p, o->err) : rc;
}

/* All that can be wrong with a file before it is written to. */
static int check_file(struct opening *o)
{
    QP_TRY(check_header(o));
    QP_TRY(check_version(o));
    QP_TRY(sqlite_check_whole(o->p, o->err));
    QP_TRY(check_encoding(o));
    QP_TRY(check_pages(o));
    if (o->p->schema_version == sqlite_schema_version) {
        QP_TRY(check_schema(o));
    }
    return check_position(o);
}

/* The file is there, and nobody else can write to it. */
static int open_locked(struct opening *o)
{
    struct sqlite_provider *p = o->p;
    QP_TRY(look(o));
    QP_TRY(check_log(o));
    QP_TRY(connect_to(o, o->path, SQLITE_OPEN_READWRITE));
    /* Should we refuse it after all, its log stays what it is; an empty one of ours goes. */
    (void)sqlite3_db_config(p->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, (int)has_log(o, "-wal"),
                            NULL); /* cannot fail */
    if (sqlite3_db_readonly(p->db, "main") == 1) {
        return refuse(o, QP_E_READONLY, "cannot be written to by this user");
    }
    QP_TRY(check_file(o));
    QP_TRY(configure_writer(o));
    QP_TRY(migrate_from(o, p->schema_version));
    p->schema_version = sqlite_schema_version;
    QP_TRY(check_schema(o));
    (void)sqlite3_db_config(p->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL); /* it is ours */
    sqlite_watch_begin(p);
    return QP_OK;
}

static int open_writer(struct opening *o)
{
    if (o->exists) {
        QP_TRY(look(o)); /* before the lock: what is not ours gets nothing laid beside it */
    } else if (o->options->must_exist) {
        return refuse(o, QP_E_NOT_FOUND, "is not there");
    }
    QP_TRY(lock_take(o));
    if (!o->exists) {
        QP_TRY(create(o));
    }
    return open_locked(o);
}

static int open_reader(struct opening *o)
{
    if (!o->exists) {
        return refuse(o, QP_E_NOT_FOUND, "is not there");
    }
    sqlite_lock_look(o->p); /* before the head row is read */
    QP_TRY(look(o));
    QP_TRY(check_log(o));
    QP_TRY(connect_to(o, o->path, SQLITE_OPEN_READONLY));
    (void)sqlite3_db_config(o->p->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1,
                            NULL); /* a reader cannot anyway */
    return check_file(o);
}

static int open_file(struct opening *o)
{
    int rc = resolve(o, o->options->path);
    rc = rc == QP_OK && o->exists ? check_kind(o) : rc;
    rc = rc == QP_OK ? check_file_system(o) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    o->p->path = mem_alloc(o->p->base.env, strlen(o->path) + 1);
    if (o->p->path == NULL) {
        return err_set(o->err, QP_E_NOMEM, "open store: out of memory");
    }
    memcpy(o->p->path, o->path, strlen(o->path));
    if (o->exists) {
        warn_mode(o);
    }
    return o->options->read_only ? open_reader(o) : open_writer(o);
}

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
        disconnect(p);
    }
    if (p->lock_fd >= 0) {
        (void)close(p->lock_fd); /* which releases the lock */
    }
    buf_done(&p->sql);
    mem_free(base->env, p->path);
    mem_free(base->env, p);
}

int sqlite_open(const struct qp_env *env, const struct store_options *options,
                struct provider **out_provider, struct qp_err *err)
{
    struct sqlite_provider *p = mem_alloc(env, sizeof *p);
    struct opening *o = p == NULL ? NULL : mem_alloc(env, sizeof *o);
    int rc;
    if (o == NULL) {
        mem_free(env, p);
        return err_set(err, QP_E_NOMEM, "open store: out of memory");
    }
    p->base = (struct provider){.calls = &sqlite_calls,
                                .env = env,
                                .read_only = options->read_only,
                                .exclusive = !options->read_only}; /* by the lock file */
    p->lock_fd = -1;
    p->pid = (int32_t)getpid();
    p->relaxed = options->durability == DURABILITY_RELAXED;
    buf_init(&p->sql, env, 0);
    o->p = p;
    o->options = options;
    o->err = err;
    rc = open_file(o);
    mem_free(env, o);
    if (rc != QP_OK) {
        if (p->base.failure == QP_E_CORRUPT) {
            p->base.failure = QP_OK; /* open_writer has seen to its log */
        }
        sqlite_provider_close(&p->base);
        return rc;
    }
    *out_provider = &p->base;
    return QP_OK;
}

/* open.c - from a path to a working connection, or to a sentence that says why not
 *
 * Opening never repairs and never guesses: a file that is not certainly ours, and whole, is refused
 * and left as it is.
 *
 * create.c makes and migrates files, inspect.c looks for what can be wrong with one.
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
#include "store/sqlite/create.h"
#include "store/sqlite/inspect.h"

/* A file that is not there yet gets its whole name too: SQLite takes a relative one like "file:x" or "file::memory:" for
 * something else. Without a directory it stays as it is, and the directory is complained about later. */
static int resolve_new(struct opening *o, const char *path)
{
    const char *slash = strrchr(path, '/');
    char directory[SQLITE_PATH_SIZE + 1];
    char real[4096];
    int n;
    sqlite_directory_of(path, directory);
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
            return opening_refuse(o, QP_E_NOT_FOUND,
                                  "is a symbolic link to a file that is not there");
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
        return opening_refuse(o, QP_E_FOREIGN, "is a directory, not a file; name a file in it");
    }
    if (!S_ISREG(o->stat.st_mode)) {
        return opening_refuse(o, QP_E_FOREIGN, "is not a regular file");
    }
    if (o->stat.st_nlink > 1) {
        return opening_refuse(
            o, QP_E_FOREIGN,
            "has a second name (hard link), so its lock could be passed by; remove one");
    }
    if (o->stat.st_size == 0) {
        return opening_refuse(
            o, QP_E_FOREIGN,
            "is empty, so it is not a quipu file; remove it, and a new one will be made");
    }
    if (o->stat.st_size < 512) {
        return opening_refuse(o, QP_E_FOREIGN, "is too short to be a quipu file");
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
    sqlite_directory_of(o->path, directory);
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

/* A log with something in it: what the file alone holds is then not its state. */
static bool has_log(const struct opening *o, const char *suffix)
{
    char name[SQLITE_NAME_SIZE];
    struct stat st;
    sqlite_beside(o->path, suffix, name);
    return stat(name, &st) == 0 && st.st_size > 0;
}

static int lock_take(struct opening *o)
{
    QP_TRY(sqlite_lock_take(o->p, o->err));
    /* Another process may have made the file since its path was resolved: only now nobody else can. */
    o->exists = stat(o->path, &o->stat) == 0;
    return o->exists ? check_kind(o) : QP_OK;
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
    int rc = sqlite_connect(o->p, o->options, name, SQLITE_OPEN_READONLY | flags, o->err);
    if (rc == QP_OK) {
        (void)sqlite3_db_config(p->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL); /* cannot fail */
        rc = opening_check_header(o);
    }
    if (rc == QP_OK && p->schema_version > sqlite_schema_version) {
        rc = opening_check_version(o);
    }
    sqlite_disconnect(p);
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
        return opening_refuse(
            o, QP_E_CORRUPT,
            "a rollback journal lies beside it, which quipu never makes; move it away");
    }
    return rc != QP_OK && has_log(o, "-wal") ? look_by(o, o->path, 0) : rc;
}

static int read_file_position(struct opening *o, int64_t *out_position)
{
    struct sqlite_provider *p = o->p;
    *out_position = INT64_MAX;
    QP_TRY(raw_name(o, &p->sql));
    if (sqlite_connect(o->p, o->options, p->sql.p, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
                       o->err) != QP_OK ||
        sqlite_query(p, "SELECT rev FROM qp_head WHERE ns=0", out_position, NULL, 0, NULL) !=
            QP_OK) {
        *out_position = INT64_MAX; /* a checkpoint was cut off: this proves nothing */
    }
    sqlite_disconnect(p);
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
        return opening_refuse(o, QP_E_UNSUPPORTED,
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
    QP_TRY(opening_check_header(o));
    QP_TRY(opening_check_version(o));
    QP_TRY(sqlite_check_whole(o->p, o->err));
    QP_TRY(opening_check_encoding(o));
    QP_TRY(opening_check_pages(o));
    if (o->p->schema_version == sqlite_schema_version) {
        QP_TRY(opening_check_schema(o));
    }
    return opening_check_position(o);
}

/* The file is there, and nobody else can write to it. */
static int open_locked(struct opening *o)
{
    struct sqlite_provider *p = o->p;
    QP_TRY(look(o));
    QP_TRY(check_log(o));
    QP_TRY(sqlite_connect(o->p, o->options, o->path, SQLITE_OPEN_READWRITE, o->err));
    /* Should we refuse it after all, its log stays what it is; an empty one of ours goes. */
    (void)sqlite3_db_config(p->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, (int)has_log(o, "-wal"),
                            NULL); /* cannot fail */
    if (sqlite3_db_readonly(p->db, "main") == 1) {
        return opening_refuse(o, QP_E_READONLY, "cannot be written to by this user");
    }
    QP_TRY(check_file(o));
    QP_TRY(configure_writer(o));
    QP_TRY(opening_migrate(o, p->schema_version));
    p->schema_version = sqlite_schema_version;
    QP_TRY(opening_check_schema(o));
    (void)sqlite3_db_config(p->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL); /* it is ours */
    sqlite_watch_begin(p);
    return QP_OK;
}

static int open_writer(struct opening *o)
{
    if (o->exists) {
        QP_TRY(look(o)); /* before the lock: what is not ours gets nothing laid beside it */
    } else if (o->options->must_exist) {
        return opening_refuse(o, QP_E_NOT_FOUND, "is not there");
    }
    QP_TRY(lock_take(o));
    if (!o->exists) {
        QP_TRY(opening_create(o));
    }
    return open_locked(o);
}

static int open_reader(struct opening *o)
{
    if (!o->exists) {
        return opening_refuse(o, QP_E_NOT_FOUND, "is not there");
    }
    sqlite_lock_look(o->p); /* before the head row is read */
    QP_TRY(look(o));
    QP_TRY(check_log(o));
    QP_TRY(sqlite_connect(o->p, o->options, o->path, SQLITE_OPEN_READONLY, o->err));
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

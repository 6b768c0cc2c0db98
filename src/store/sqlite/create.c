/* create.c - a new file, and an older one brought up to this schema (see open.c)
 *
 * A file is built under another name, with all migrations, closed, synced and renamed: if we crash before the rename,
 * there is no file, and the next creation removes what was left. Every migration is one transaction together with its
 * number: if we crash in one, the next open goes on with it.
 */
#include "store/sqlite/create.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/failpoint.h"

/* The directory part of the path, into `out`. */
void sqlite_directory_of(const char *path, char out[SQLITE_PATH_SIZE + 1])
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

/* Whether statements may change the text of the schema: migrations may, nothing else. */
static void allow_schema_text(struct sqlite_provider *p, int allowed)
{
    (void)sqlite3_db_config(p->db, SQLITE_DBCONFIG_DEFENSIVE, !allowed,
                            NULL); /* older libraries: no such setting */
}

int opening_migrate(struct opening *o, int64_t version)
{
    int rc = QP_OK;
    allow_schema_text(o->p, 1);
    while (rc == QP_OK && version < sqlite_schema_version) {
        rc = migrate_step(o, version++);
    }
    allow_schema_text(o->p, 0);
    return rc;
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

static int sync_directory(const struct opening *o)
{
    char directory[SQLITE_PATH_SIZE + 1];
    int fd;
    int failed;
    sqlite_directory_of(o->path, directory);
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
    rc = sqlite_connect(o->p, o->options, name, SQLITE_OPEN_READWRITE, o->err);
    rc = rc == QP_OK
             ? sqlite_exec(o->p, "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA synchronous=FULL;", o->err)
             : rc;
    rc = rc == QP_OK ? sqlite_exec(o->p, "PRAGMA application_id=1364543824;", o->err) : rc;
    rc = rc == QP_OK ? opening_migrate(o, 0) : rc;
    rc = rc == QP_OK ? sqlite_exec(o->p, "PRAGMA journal_mode=WAL;", o->err) : rc;
    sqlite_disconnect(o->p);
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

int opening_create(struct opening *o)
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

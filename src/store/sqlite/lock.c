/* lock.c - <file>-qplock: which process writes to the file, and how far it has answered
 *
 * The lock is flock's and goes with the process. The lock file has one record, of a fixed size:
 *
 *   "quipu 4711       position 0000000000000000812 0000000000000000812 file ...790 ...790\n"
 *
 * The process is a hint for people. The position is the revision of the head row as of the last
 * commit that was answered: every commit changes the head row (clock_keep in execute.c), so every
 * commit has a higher position than the commits before it. The last number is the position that the
 * file itself has, without its log, since the last checkpoint that moved all of it. Both are written
 * twice, so that a reader notices a record that is just being written.
 *
 *   I1  a commit's position is written after its sync and before its answer: a commit that was
 *       answered is at or below the position
 *   I2  the position is never ahead of what is durable. The record is not synced, and the system may
 *       write it to disk at any later time, or never; but whenever it does, the log has been synced up to
 *       that position before. So a loss of power leaves the position behind, never ahead. With
 *       relaxed durability a commit is answered without a sync: then the position stays as it was
 *   I3  a store whose head row is behind the position has lost commits that were answered, and is
 *       refused; only store_options.accept_loss makes the position lower, and that is synced, so that
 *       no loss of power brings the higher one back
 *   I4  the same holds of the file's own position: it is written after the checkpoint's sync. A log
 *       begins at or behind it, so a log beside a file that is behind it is of another file, and is
 *       refused: a part of what lies between is in neither. A file that is not behind it is made
 *       whole by the log, wherever it comes from
 *
 * A loss of power may leave an empty lock file, one of zeros, or an older record; a former version
 * wrote the process alone. None of these has a position, and none is refused.
 *
 * If we crash between the commit's sync and the record, the store is ahead of the position, which
 * says nothing: the commit was not answered.
 *
 * While the store is open, sqlite_watch looks whether the names still lead to the files that were
 * opened. Writing to a file that has no name would answer what is lost with the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "store/sqlite/sqlite_internal.h"

#define LOCK_SUFFIX "-qplock"
#define LOCK_MAGIC "quipu "
#define RECORD_FORMAT LOCK_MAGIC "%-10ld position %019lld %019lld file %019lld %019lld\n"
#define RECORD_SIZE 111
#define POSITION_AT 26
#define POSITION_SIZE 19
#define FILE_AT (POSITION_AT + 2 * POSITION_SIZE + 7)

void sqlite_beside(const char *path, const char *suffix, char out[SQLITE_NAME_SIZE])
{
    int n = snprintf(out, SQLITE_NAME_SIZE, "%s%s", path, suffix);
    QP_ASSERT(n > 0 && n < SQLITE_NAME_SIZE);
}

/* ----------------------------------------------------------------------------------- the record */

/* A position at a place of the record, and what stands before it; -1: there is none, or its two
 * copies differ. */
static int64_t record_position(const char *text, size_t at, const char *before)
{
    size_t n = strlen(before);
    char digits[POSITION_SIZE + 1] = "";
    char *end = NULL;
    long long position;
    if (memcmp(text + at - n, before, n) != 0 ||
        memcmp(text + at, text + at + POSITION_SIZE + 1, POSITION_SIZE) != 0) {
        return -1;
    }
    memcpy(digits, text + at, POSITION_SIZE);
    position = strtoll(digits, &end, 10);
    return digits[0] >= '0' && digits[0] <= '9' && end == digits + POSITION_SIZE ? position : -1;
}

/* What a record says; all 0 when it is none, or is being written. */
static struct sqlite_record record_parse(const char *text, size_t size)
{
    struct sqlite_record r = {0};
    if (size != RECORD_SIZE) {
        return r;
    }
    r.position = record_position(text, POSITION_AT, " position ");
    r.file = record_position(text, FILE_AT, " file ");
    return r.position >= 0 && r.file >= 0 ? r : (struct sqlite_record){0};
}

static bool is_blank(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] != '\0') {
            return false;
        }
    }
    return true;
}

/* False: it is a file of something else. */
static bool record_read(int fd, long *out_pid, struct sqlite_record *out_record)
{
    char text[RECORD_SIZE + 1] = "";
    ssize_t n = pread(fd, text, RECORD_SIZE, 0);
    *out_pid = 0;
    *out_record = (struct sqlite_record){0};
    if (n >= 0 && is_blank(text, (size_t)n)) {
        return true;
    }
    if (n < 0 || strncmp(text, LOCK_MAGIC, strlen(LOCK_MAGIC)) != 0) {
        return false;
    }
    *out_pid = strtol(text + strlen(LOCK_MAGIC), NULL, 10);
    *out_record = record_parse(text, (size_t)n);
    return true;
}

/* A record that cannot be written is behind, which is no harm: the commit stands, and only a loss
 * of it would not be noticed. */
static void record_write(const struct sqlite_provider *p)
{
    const struct sqlite_record *r = &p->remembered;
    char text[RECORD_SIZE + 16];
    int n = snprintf(text, sizeof text, RECORD_FORMAT, (long)p->pid, (long long)r->position,
                     (long long)r->position, (long long)r->file, (long long)r->file);
    QP_ASSERT(n == RECORD_SIZE);
    (void)!pwrite(p->lock_fd, text, RECORD_SIZE, 0);
}

void sqlite_position_keep(struct sqlite_provider *p)
{
    int64_t position = p->head_rev;
    p->head_rev = 0;
    if (position == 0 || p->lock_fd < 0 || p->relaxed) {
        return;
    }
    QP_ASSERT(position >= p->remembered.position); /* I3: else it was refused, or accepted */
    p->remembered.position = position;
    record_write(p);
}

void sqlite_file_keep(struct sqlite_provider *p)
{
    if (p->lock_fd >= 0 && p->remembered.file < p->remembered.position) {
        p->remembered.file = p->remembered.position;
        record_write(p);
    }
}

int sqlite_position_accept(struct sqlite_provider *p, int64_t position, struct qp_err *err)
{
    p->remembered = (struct sqlite_record){.position = position};
    record_write(p);
    return fdatasync(p->lock_fd) == 0
               ? QP_OK
               : err_set(err, QP_E_FSYNC, "'%s': its lock file: fsync failed", p->path);
}

/* ------------------------------------------------------------------------------------- the lock */

static int lock_open(const struct sqlite_provider *p, const char *name, int *out_fd,
                     struct qp_err *err)
{
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_set(err,
                       errno == ENOSPC                     ? QP_E_FULL
                       : errno == EROFS || errno == EACCES ? QP_E_READONLY
                                                           : QP_E_IO,
                       "'%s': its lock file: %s", p->path, strerror(errno));
    }
    *out_fd = fd;
    return QP_OK;
}

/* The lock is on the file that has the name now: a lock file that was removed locks nothing. */
static bool lock_is_named(int fd, const char *name)
{
    struct stat held;
    struct stat named;
    return fstat(fd, &held) == 0 && stat(name, &named) == 0 && held.st_ino == named.st_ino &&
           held.st_dev == named.st_dev;
}

static int lock_hold(struct sqlite_provider *p, int fd, const char *name, struct qp_err *err)
{
    long pid = 0;
    if (!record_read(fd, &pid, &p->remembered)) {
        return err_set(err, QP_E_FOREIGN, "'%s': is not a lock of quipu; move it away", name);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || !lock_is_named(fd, name)) {
        return err_set(
            err, QP_E_LOCKED,
            "'%s': in use by process %ld; stop it first, or open the file for reading only",
            p->path, pid);
    }
    /* Again: only from here on nobody else writes it. */
    return record_read(fd, &pid, &p->remembered)
               ? QP_OK
               : err_set(err, QP_E_FOREIGN, "'%s': is not a lock of quipu; move it away", name);
}

int sqlite_lock_take(struct sqlite_provider *p, struct qp_err *err)
{
    char name[SQLITE_NAME_SIZE];
    int fd = -1;
    int rc;
    sqlite_beside(p->path, LOCK_SUFFIX, name);
    QP_TRY(lock_open(p, name, &fd, err));
    rc = lock_hold(p, fd, name, err);
    if (rc != QP_OK) {
        (void)close(fd); /* nothing was written */
        return rc;
    }
    p->lock_fd = fd;
    record_write(p);
    (void)!ftruncate(fd, RECORD_SIZE); /* what is behind the record is not read */
    return QP_OK;
}

void sqlite_lock_look(struct sqlite_provider *p)
{
    char name[SQLITE_NAME_SIZE];
    long pid;
    int fd;
    sqlite_beside(p->path, LOCK_SUFFIX, name);
    fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return; /* there is none, or it cannot be read: nothing is remembered */
    }
    (void)record_read(fd, &pid, &p->remembered); /* else likewise */
    (void)close(fd);                             /* it was only read */
}

/* ------------------------------------------------------------------------------------ the names */

static const char *const watched[SQLITE_WATCHED] = {"", "-wal", LOCK_SUFFIX};

void sqlite_watch_begin(struct sqlite_provider *p)
{
    char name[SQLITE_NAME_SIZE];
    for (size_t i = 0; i < SQLITE_WATCHED; i++) {
        sqlite_beside(p->path, watched[i], name);
        if (stat(name, &p->watched[i]) != 0) {
            p->watched[i].st_ino = 0; /* a file system of a test may have no such name */
        }
    }
    p->is_watched = true;
}

/* Other failures of stat than a missing name prove nothing. */
static bool is_displaced(const char *name, const struct stat *opened)
{
    struct stat now;
    if (opened->st_ino == 0) {
        return false;
    }
    if (stat(name, &now) != 0) {
        return errno == ENOENT || errno == ENOTDIR;
    }
    return now.st_ino != opened->st_ino || now.st_dev != opened->st_dev;
}

const char *sqlite_displaced(const struct sqlite_provider *p)
{
    char name[SQLITE_NAME_SIZE];
    for (size_t i = 0; i < SQLITE_WATCHED && p->is_watched; i++) {
        sqlite_beside(p->path, watched[i], name);
        if (is_displaced(name, &p->watched[i])) {
            return watched[i];
        }
    }
    return NULL;
}

int sqlite_watch(struct sqlite_provider *p, struct qp_err *err)
{
    const char *suffix = sqlite_displaced(p);
    if (suffix == NULL) {
        return QP_OK;
    }
    p->base.failure = QP_E_CORRUPT;
    return err_set(err, QP_E_CORRUPT,
                   "'%s%s': was removed or replaced while the store was in use, so nothing more is "
                   "written; put the files back as they were, or restore a backup, and start again",
                   p->path, suffix);
}

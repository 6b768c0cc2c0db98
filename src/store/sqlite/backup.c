/* backup.c - a copy of a file that is in use, page by page, as it was when the copying began
 *
 * A reader's transaction keeps the state that is copied; the writer goes on meanwhile, but cannot make
 * its log shorter. SQLite copies pages; nothing of the source is written or checkpointed. The copy is a whole
 * file, without a log, when it is on disk; before that whoever asked for it throws it away.
 *
 * If we crash here, there is half a file under the name of the copy, and nothing else has happened.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "store/sqlite/sqlite_internal.h"

#define PAGES_PER_STEP 1000

/* Reserves the name: nobody else's file is written to. */
static int make_empty(const char *to, struct qp_err *err)
{
    int fd = open(to, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) {
        return errno == EEXIST ? err_set(err, QP_E_EXISTS, "'%s': is there already", to)
                               : err_set(err, QP_E_IO, "'%s': %s", to, strerror(errno));
    }
    (void)close(fd); /* nothing was written */
    return QP_OK;
}

static int fail(sqlite3 *db, int code, const char *to, struct qp_err *err)
{
    int rc = (code & 0xff) == SQLITE_FULL    ? QP_E_FULL
             : (code & 0xff) == SQLITE_NOMEM ? QP_E_NOMEM
             : (code & 0xff) == SQLITE_BUSY  ? QP_E_BUSY
                                             : QP_E_IO;
    return err_set(err, rc, "'%s': %s", to, db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(code));
}

static int copy_pages(struct sqlite_provider *p, sqlite3 *to_db, const char *to, struct qp_err *err)
{
    sqlite3_backup *b = sqlite3_backup_init(to_db, "main", p->db, "main");
    int code = b == NULL ? sqlite3_errcode(to_db) : SQLITE_OK;
    int rc = QP_OK;
    while (code == SQLITE_OK && rc == QP_OK) {
        rc = FP("backup.step");
        code = rc == QP_OK ? sqlite3_backup_step(b, PAGES_PER_STEP) : code;
    }
    (void)sqlite3_backup_finish(b); /* what failed was told by the step */
    return rc != QP_OK           ? err_set(err, rc, "'%s': %s", to, qp_code_text(rc))
           : code == SQLITE_DONE ? QP_OK
                                 : fail(to_db, code, to, err);
}

static int copy_to(struct sqlite_provider *p, const char *to, struct qp_err *err)
{
    sqlite3 *db = NULL;
    int code = sqlite3_open_v2(to, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    int rc;
    /* It is nobody's file yet: it needs no journal, and is synced once, as a whole. */
    code = code == SQLITE_OK ? sqlite3_exec(db, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF",
                                            NULL, NULL, NULL)
                             : code;
    rc = code == SQLITE_OK ? copy_pages(p, db, to, err) : fail(db, code, to, err);
    code = sqlite3_close(db);
    return rc == QP_OK && code != SQLITE_OK ? fail(NULL, code, to, err) : rc;
}

static int sync_file(const char *to, struct qp_err *err)
{
    int fd = open(to, O_RDONLY | O_CLOEXEC);
    int rc =
        fd < 0 || fsync(fd) != 0 ? err_set(err, QP_E_IO, "'%s': %s", to, strerror(errno)) : QP_OK;
    if (fd >= 0) {
        (void)close(fd); /* it was synced, or that was told */
    }
    return rc;
}

int sqlite_backup(struct provider *base, const char *to, struct qp_err *err)
{
    struct sqlite_provider *p = (struct sqlite_provider *)base;
    int rc = make_empty(to, err);
    int end;
    if (rc != QP_OK) {
        return rc;
    }
    rc = base->calls->snapshot(base, true, err);
    if (rc == QP_OK) {
        rc = copy_to(p, to, err);
        end = base->calls->snapshot(base, false, rc == QP_OK ? err : NULL);
        rc = rc == QP_OK ? end : rc;
    }
    rc = rc == QP_OK ? sync_file(to, err) : rc;
    if (rc != QP_OK) {
        (void)unlink(to); /* half a copy is none */
    }
    return rc;
}

/* fail.c - codes of SQLite as codes of the store; no other file knows what they mean */
#include "store/sqlite/sqlite_internal.h"

/* SQLite's code as ours. */
static int code_of(int code)
{
    switch (code) {
    case SQLITE_IOERR_FSYNC:
    case SQLITE_IOERR_DIR_FSYNC:
        return QP_E_FSYNC;
    case SQLITE_IOERR_NOMEM:
        return QP_E_NOMEM;
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_UNIQUE:
        return QP_E_CONFLICT; /* a row appeared since it was read */
    default:
        break;
    }
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return QP_E_NOMEM;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return QP_E_BUSY;
    case SQLITE_FULL:
        return QP_E_FULL;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return QP_E_IO;
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return QP_E_READONLY;
    case SQLITE_CORRUPT:
    case SQLITE_SCHEMA:
        return QP_E_CORRUPT;
    case SQLITE_NOTADB:
        return QP_E_FOREIGN;
    case SQLITE_TOOBIG:
        return QP_E_TOO_LARGE;
    case SQLITE_INTERRUPT:
        return QP_E_TIMEOUT;
    default:
        return QP_E_INTERNAL;
    }
}

int sqlite_fail(struct sqlite_provider *p, int code, struct qp_err *err, const char *what)
{
    int extended = p->db != NULL ? sqlite3_extended_errcode(p->db) : code;
    int rc = code_of((extended & 0xff) == (code & 0xff) ? extended : code);
    if (rc == QP_E_FSYNC || rc == QP_E_CORRUPT) {
        p->base.failure =
            rc; /* wherever it came from: a statement, a commit, a checkpoint, a read */
    }
    return err_set(err, rc, "%s: %s: %s", p->path, what,
                   p->db != NULL ? sqlite3_errmsg(p->db) : sqlite3_errstr(code));
}

int sqlite_fail_as(int code, struct qp_err *err, const char *what)
{
    if (err != NULL) {
        err->code = code; /* the detail is of this failure, and err_wrap keeps it */
    }
    return err_wrap(err, code, "%s", what);
}

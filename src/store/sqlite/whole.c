/* whole.c - whether every page of a store is there: in its file, or in its log
 *
 * The header counts the pages. A file may be shorter than that as long as its log has the rest:
 * pages that are new come into the log first. SQLite looks at the count alone when there is no log;
 * beside a log it believes it, and reads zeros where a truncated file has nothing. So the pages
 * behind the file's end are looked for in the log here.
 *
 * Only a file that is too short costs anything: a read of each frame's head. A reader may do this beside
 * a writer: its transaction keeps the log from being begun again, and a checkpoint only adds pages
 * to the file.
 *
 * The file and the log are read through SQLite's own handles: another descriptor of the file would
 * drop SQLite's locks when it is closed.
 */
#include "store/sqlite/sqlite_internal.h"

#define LOCK_BYTE INT64_C(0x40000000) /* of the file, where SQLite's locks are */
#define HEAD_COUNT_AT 28 /* of the file: how many pages it has, big endian as all of these */
#define LOG_HEAD_SIZE 32 /* of the log: magic, version, page size, sequence, salts, checksums */
#define LOG_SALT_AT 16
#define FRAME_HEAD_SIZE 24 /* of a frame: page, size after commit, salts, checksums */
#define FRAME_SALT_AT 8
#define SALT_SIZE 8

struct look {
    int64_t page_size;
    int64_t page_count; /* that the header counts */
    int64_t file_pages;
    int64_t found; /* of those behind the file's end, in the log */
};

static int64_t big_endian(const unsigned char *p)
{
    return (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
}

static sqlite3_file *file_of(struct sqlite_provider *p, int which)
{
    sqlite3_file *file = NULL;
    int code = sqlite3_file_control(p->db, "main", which, &file);
    return code == SQLITE_OK && file != NULL && file->pMethods != NULL ? file : NULL;
}

static int64_t size_of(sqlite3_file *file)
{
    sqlite3_int64 size = 0;
    return file != NULL && file->pMethods->xFileSize(file, &size) == SQLITE_OK ? size : 0;
}

/* Counts each page behind the file's end once. `seen` has a place for each of them. */
static void look_at_log(sqlite3_file *log, struct look *l, bool *seen)
{
    unsigned char head[LOG_HEAD_SIZE];
    unsigned char frame[FRAME_HEAD_SIZE];
    int64_t size = size_of(log);
    int64_t at = LOG_HEAD_SIZE;
    if (size < LOG_HEAD_SIZE || log->pMethods->xRead(log, head, LOG_HEAD_SIZE, 0) != SQLITE_OK) {
        return;
    }
    for (; at + FRAME_HEAD_SIZE + l->page_size <= size; at += FRAME_HEAD_SIZE + l->page_size) {
        int64_t page;
        if (log->pMethods->xRead(log, frame, FRAME_HEAD_SIZE, at) != SQLITE_OK ||
            memcmp(frame + FRAME_SALT_AT, head + LOG_SALT_AT, SALT_SIZE) != 0) {
            return; /* what follows is of an earlier log */
        }
        page = big_endian(frame);
        if (page > l->file_pages && page <= l->page_count && !seen[page - l->file_pages - 1]) {
            seen[page - l->file_pages - 1] = true;
            l->found++;
        }
    }
}

/* How many pages there are: as SQLite says, which reads the schema for that. Where a page of that is
 * missing already, as the file's own header says; the log may have added some since. */
static int count_pages(struct sqlite_provider *p, sqlite3_file *file, struct look *l,
                       struct qp_err *err)
{
    unsigned char count[4];
    int rc = sqlite_query(p, "PRAGMA page_count", &l->page_count, NULL, 0, err);
    if (rc != QP_E_CORRUPT || file == NULL ||
        file->pMethods->xRead(file, count, sizeof count, HEAD_COUNT_AT) != SQLITE_OK ||
        big_endian(count) <= l->file_pages) {
        return rc;
    }
    l->page_count = big_endian(count);
    return QP_OK;
}

/* The page that holds the byte of SQLite's locks is counted, and never written: neither file nor log has it. */
static bool lock_page_is_missing(const struct look *l)
{
    int64_t page = LOCK_BYTE / l->page_size + 1;
    return l->file_pages < page && page <= l->page_count;
}

/* Within a read transaction. */
static int look(struct sqlite_provider *p, struct look *l, struct qp_err *err)
{
    sqlite3_file *file = file_of(p, SQLITE_FCNTL_FILE_POINTER);
    sqlite3_file *log = file_of(p, SQLITE_FCNTL_JOURNAL_POINTER);
    int64_t missing;
    bool *seen;
    QP_TRY(sqlite_query(p, "PRAGMA page_size", &l->page_size, NULL, 0, err));
    QP_ASSERT(l->page_size > 0);
    l->file_pages = size_of(file) / l->page_size;
    QP_TRY(count_pages(p, file, l, err));
    l->file_pages = size_of(file) / l->page_size; /* a checkpoint of the writer may have come */
    l->found = lock_page_is_missing(l) ? 1 : 0;
    missing = l->page_count - l->file_pages;
    if (missing <= 0 || missing - l->found > size_of(log) / l->page_size) {
        return QP_OK; /* all of it is there, or the log is too short to have the rest */
    }
    seen = mem_alloc(p->base.env, (size_t)missing * sizeof *seen);
    if (seen == NULL) {
        return err_set(err, QP_E_NOMEM, "open store: out of memory");
    }
    look_at_log(log, l, seen);
    mem_free(p->base.env, seen);
    return QP_OK;
}

int sqlite_check_whole(struct sqlite_provider *p, struct qp_err *err)
{
    struct look l = {0};
    int rc = sqlite_exec(p, "BEGIN", err);
    if (rc == QP_OK) {
        rc = look(p, &l, err);
        (void)sqlite_exec(p, "COMMIT", NULL); /* it has only read */
    }
    if (rc == QP_OK && l.file_pages + l.found < l.page_count) {
        rc = err_set(err, QP_E_CORRUPT,
                     "'%s': is truncated: it counts %lld pages, the file has %lld, and its log "
                     "has %lld of the rest; put the whole file back, or restore a backup",
                     p->path, (long long)l.page_count, (long long)l.file_pages, (long long)l.found);
    }
    return rc;
}

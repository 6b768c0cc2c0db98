/* reads.c - what is committed: rows, ranges, the feed, dumps, what is due, hints, housekeeping
 *
 *   I1  a read waits for the commit that is being written, and then sees it
 *   I2  after a failed fsync nothing is read any more: it may not be on disk
 *
 * Nothing here writes rows; if we crash here, nothing has happened.
 */
#include "store/store_internal.h"

#include <stdio.h>

#include "base/failpoint.h"
#include "store/feed.h"

static int read_check(struct store *s, struct qp_err *err)
{
    store_settle(s);
    /* After a failed fsync what is read may not be on disk: it must not be told to anybody. */
    return store_stopped_by(s) == QP_OK
               ? QP_OK
               : err_set(err, store_stopped_by(s), "the store has stopped working; open it again");
}

int store_connect(struct store *s, struct qp_err *err)
{
    struct provider *p = s->provider;
    return p->calls->connect != NULL ? p->calls->connect(p, err) : QP_OK;
}

bool store_is_away(const struct store *s)
{
    return s->provider->away;
}

int store_snapshot_begin(struct store *s, struct qp_err *err)
{
    int rc = read_check(s, err);
    return rc == QP_OK && !s->writable ? s->provider->calls->snapshot(s->provider, true, err) : rc;
}

int store_snapshot_end(struct store *s, struct qp_err *err)
{
    return s->writable ? QP_OK : s->provider->calls->snapshot(s->provider, false, err);
}

int store_get(struct store *s, struct arena *arena, enum table_id table, const void *key,
              const void **out_row, struct qp_err *err)
{
    void *row = NULL;
    int rc = read_check(s, err);
    rc = rc == QP_OK ? s->provider->calls->load(s->provider, arena, table, key, &row, err) : rc;
    if (rc == QP_OK && row == NULL) {
        return err_set(err, QP_E_NOT_FOUND, "no such row in %s", tables[table].name);
    }
    if (rc == QP_OK) {
        *out_row = row;
    }
    return rc;
}

/* One by one: where there is no way to go, that costs nothing. */
static int load_each(struct provider *p, struct arena *arena, enum table_id table,
                     const void *const *keys, size_t count, void **out_rows, struct qp_err *err)
{
    struct arena whole;
    int rc = QP_OK;
    arena_init(&whole, p->env, 0);
    for (size_t i = 0; i < count && rc == QP_OK; i++) {
        void *row = NULL;
        arena_reset(&whole);
        rc = p->calls->load(p, &whole, table, keys[i], &row, err);
        out_rows[i] = NULL;
        if (rc == QP_OK && row != NULL) {
            row_slim(table, row);
            out_rows[i] = row_copy(arena, table, row);
            rc = out_rows[i] == NULL ? err_set(err, QP_E_NOMEM, "load: out of memory") : QP_OK;
        }
    }
    arena_done(&whole);
    return rc;
}

int store_get_all(struct store *s, struct arena *arena, enum table_id table,
                  const void *const *keys, size_t count, void **out_rows, struct qp_err *err)
{
    struct provider *p = s->provider;
    int rc = read_check(s, err);
    QP_ASSERT(count <= LIMIT_PAGE_ROWS);
    if (rc != QP_OK) {
        return rc;
    }
    return p->calls->load_all != NULL
               ? p->calls->load_all(p, arena, table, keys, count, out_rows, err)
               : load_each(p, arena, table, keys, count, out_rows, err);
}

int store_guid(struct store *s, struct arena *arena, const struct guid_row *key,
               struct guid_row *out_guid, struct qp_err *err)
{
    const void *row = NULL;
    struct guid_row first;
    int rc =
        store_get(s, arena, TABLE_act,
                  &(struct act_row){.ns = key->ns, .job = key->job, .addr = key->addr}, &row, err);
    if (rc == QP_OK && act_first_guid(row, &first) && str_equal(first.guid, key->guid)) {
        *out_guid = first;
        return QP_OK;
    }
    rc = rc == QP_OK ? store_get(s, arena, TABLE_guid, key, &row, err) : rc;
    if (rc == QP_OK) {
        *out_guid = *(const struct guid_row *)row;
    }
    return rc;
}

int store_scan(struct store *s, const struct scan *scan, void *context, store_visit visit,
               struct qp_err *err)
{
    int rc = read_check(s, err);
    return rc == QP_OK ? s->provider->calls->scan(s->provider, scan, context, visit, err) : rc;
}

struct due {
    enum table_id table;
    qp_ms at;
};

static int due_row(void *context, const void *row)
{
    struct due *d = context;
    int64_t at = row_due_at(d->table, row);
    d->at = at < d->at ? at : d->at;
    return QP_OK;
}

int store_due(struct store *s, qp_ms *out_at, struct qp_err *err)
{
    static const enum index_id by_time[] = {INDEX_msg_wake, INDEX_key_hold_lease,
                                            INDEX_hook_sig_expire, INDEX_idem_expire,
                                            INDEX_job_expire};
    struct due d = {.at = INT64_MAX};
    int rc = QP_OK;
    for (size_t i = 0; i < ARRAY_COUNT(by_time) && rc == QP_OK; i++) {
        struct scan first = {
            .table = indexes[by_time[i]].table, .index = (int)by_time[i], .limit = 1};
        d.table = first.table;
        rc = store_scan(s, &first, &d, due_row, err);
    }
    if (rc == QP_OK) {
        *out_at = d.at;
    }
    return rc;
}

static int there_is(struct store *s, enum index_id index, bool *out_any, struct qp_err *err)
{
    struct due d = {.table = indexes[index].table, .at = INT64_MAX};
    struct scan first = {.table = d.table, .index = (int)index, .limit = 1, .slim = true};
    int rc = store_scan(s, &first, &d, due_row, err);
    *out_any = d.at < INT64_MAX;
    return rc;
}

/* What the system has delayed for itself is nobody's job: few such messages. */
static int of_job(void *context, const void *row)
{
    bool *any = context;
    *any = *any || ((const struct msg_row *)row)->owner != OWNER_SYSTEM;
    return *any ? QP_E_EXISTS : QP_OK;
}

static int there_is_message(struct store *s, bool *out_any, struct qp_err *err)
{
    struct scan all = {
        .table = TABLE_msg, .index = INDEX_msg_wake, .limit = SIZE_MAX, .slim = true};
    int rc = store_scan(s, &all, out_any, of_job, err);
    return rc == QP_E_EXISTS ? QP_OK : rc;
}

/* A page of jobs whose time runs. */
struct timed_jobs {
    struct job_row last;
    size_t count;
    bool open; /* one of them is */
};

static int timed_job(void *context, const void *row)
{
    struct timed_jobs *page = context;
    const struct job_row *job = row;
    page->last = (struct job_row){.ns = job->ns, .job = job->job, .expire_at = job->expire_at};
    page->open = page->open || job->completions == 0;
    page->count++;
    return QP_OK;
}

static int there_is_open_job(struct store *s, bool *out_any, struct qp_err *err)
{
    struct timed_jobs page = {0};
    struct scan scan = {
        .table = TABLE_job, .index = INDEX_job_expire, .limit = LIMIT_LIST_CHUNK, .slim = true};
    int rc = QP_OK;
    do {
        page.count = 0;
        rc = store_scan(s, &scan, &page, timed_job, err);
        scan.after = &page.last;
    } while (rc == QP_OK && !page.open && page.count == LIMIT_LIST_CHUNK);
    *out_any = page.open;
    return rc;
}

int store_due_to_jobs(struct store *s, bool *out_any, struct qp_err *err)
{
    bool any = false;
    int rc = there_is_message(s, &any, err);
    rc = rc == QP_OK && !any ? there_is(s, INDEX_key_hold_lease, &any, err) : rc;
    rc = rc == QP_OK && !any ? there_is_open_job(s, &any, err) : rc;
    if (rc == QP_OK) {
        *out_any = any;
    }
    return rc;
}

struct dump {
    struct buf *out;
    enum table_id table;
};

static int dump_row(void *context, const void *row)
{
    struct dump *d = context;
    row_print(d->out, d->table, row);
    buf_byte(d->out, '\n');
    return buf_rc(d->out);
}

int store_dump(struct store *s, struct buf *out, struct qp_err *err)
{
    int rc = QP_OK;
    for (int table = 0; table < TABLE_COUNT && rc == QP_OK; table++) {
        struct dump d = {out, (enum table_id)table};
        struct scan all = {.table = d.table, .index = -1, .limit = SIZE_MAX};
        rc = store_scan(s, &all, &d, dump_row, err);
    }
    return rc;
}

struct feed_reader {
    int64_t after;
    int64_t settled; /* what comes later has this position or a higher one */
    bool over;
    void *context;
    store_feed_visit visit;
};

static int feed_row(void *context, const void *row)
{
    struct feed_reader *r = context;
    const struct feed_row *f = row;
    qp_str rest = f->entries;
    struct feed_entry entry = {.pos = f->first, .at = f->at};
    int rc = QP_OK;
    if (f->pos >= r->settled && !PLANT(skipped_position)) {
        r->over = true;
        return QP_E_LIMIT; /* ends the scan */
    }
    for (; rc == QP_OK && feed_read(&rest, &entry); entry.pos++) {
        rc = entry.pos > r->after ? r->visit(r->context, &entry) : QP_OK;
    }
    return rc == QP_OK && rest.n > 0 ? QP_E_CORRUPT : rc;
}

int store_feed(struct store *s, int64_t after, size_t commits, void *context,
               store_feed_visit visit, struct qp_err *err)
{
    struct feed_reader reader = {
        .after = after, .settled = INT64_MAX, .context = context, .visit = visit};
    struct feed_row prefix = {.pos = after};
    struct scan scan = {.table = TABLE_feed,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 1,
                        .after = &prefix,
                        .limit = commits};
    int rc = read_check(s, err);
    if (rc == QP_OK && s->provider->calls->settled != NULL) {
        rc = s->provider->calls->settled(s->provider, &reader.settled, err);
    }
    rc = rc == QP_OK ? store_scan(s, &scan, &reader, feed_row, err) : rc;
    return rc == QP_E_LIMIT && reader.over ? QP_OK : rc;
}

int store_wake_fd(struct store *s)
{
    struct provider *p = s->provider;
    return p->calls->wake_fd != NULL ? p->calls->wake_fd(p) : -1;
}

bool store_wake_take(struct store *s)
{
    struct provider *p = s->provider;
    return p->calls->wake_take != NULL && p->calls->wake_take(p);
}

void store_wake_others(struct store *s)
{
    struct provider *p = s->provider;
    if (p->calls->wake_others != NULL) {
        p->calls->wake_others(p);
    }
}

bool store_in_place(const struct store *s)
{
    const struct provider *p = s->provider;
    return p->calls->in_place == NULL || p->calls->in_place(p);
}

int store_idle(struct store *s, struct qp_err *err)
{
    int rc = read_check(s, err);
    rc = rc == QP_OK ? s->provider->calls->idle(s->provider, err) : rc;
    if (qp_code_class(rc) == QP_CLASS_FATAL) {
        s->refusing = rc;
    }
    return rc;
}

int store_backup(struct store *s, const char *to, struct qp_err *err)
{
    struct provider *p = s->provider;
    int rc = read_check(s, err);
    if (rc == QP_OK && (p->calls->backup == NULL || s->writable)) {
        rc =
            err_set(err, QP_E_UNSUPPORTED, "a store that is not a file has its own tools for that");
    }
    return rc == QP_OK ? p->calls->backup(p, to, err) : rc;
}

int store_sql(struct store *s, const struct store_sql *q, void *context, store_sql_visit visit,
              bool *out_more, struct qp_err *err)
{
    struct provider *p = s->provider;
    int rc = read_check(s, err);
    if (rc == QP_OK && p->calls->sql == NULL) {
        rc = err_set(err, QP_E_UNSUPPORTED, "SQL is for stores that are files");
    }
    return rc == QP_OK ? p->calls->sql(p, q, context, visit, out_more, err) : rc;
}

void store_info(const struct store *s, struct store_info *out_info)
{
    *out_info = (struct store_info){
        .provider = s->provider->calls->name,
        .schema_version = s->provider->calls->schema_version(s->provider),
        .opened_unclean = s->provider->opened_unclean,
        .exclusive = s->provider->exclusive,
        .shared = s->provider->shared,
        .refusing = store_stopped_by(s) != QP_OK,
        .commits = s->commits,
        .rows_written = s->rows_written,
    };
}

static int target_row(void *context, const void *row)
{
    const struct audit_row *audit = row;
    char *name = context;
    if (str_equal(audit->action, ACTION_MOVED)) { /* the last one counts */
        (void)snprintf(name, LIMIT_STORE_NAME_SIZE, "%.*s", STR_ARG(audit->target));
    }
    return QP_OK;
}

int store_moved_to(struct store *s, char out_name[LIMIT_STORE_NAME_SIZE], struct qp_err *err)
{
    struct audit_row of_system = {.ns = 0};
    struct scan scan = {.table = TABLE_audit,
                        .index = -1,
                        .prefix = &of_system,
                        .prefix_count = 1,
                        .limit = SIZE_MAX};
    out_name[0] = '\0';
    return store_scan(s, &scan, out_name, target_row, err);
}

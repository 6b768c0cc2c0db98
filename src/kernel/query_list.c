/* query_list.c - jobs by filter, in pages (see query.h)
 *
 * Every way into the jobs gives them by when they were started, and by their number where that is the same: the index
 * of starts, that of statuses, that of attributes. So one cursor, a time and a number, fits all of them, and a page goes
 * on where the last one ended whatever came or went meanwhile. Numbers alone would not do: where several processes start
 * jobs in one database, each takes them from a block of its own.
 *
 * A page is made in chunks: numbers first, of rows that fit as far as the row says, then each job by its
 * number, with its attributes. So neither large payloads nor many jobs need memory.
 */
#include <stdio.h>

#include "base/hash.h"
#include "base/json.h"
#include "kernel/properties.h"
#include "kernel/query.h"

/* Where a job stands in the order of lists. */
struct place {
    qp_ms started;
    int64_t job;
};

struct listing {
    const struct query *q;
    struct filter filter;
    const struct filter_condition *way; /* NULL: by the key */
    bool backwards;
    size_t limit; /* jobs to be told */
    size_t told;
    size_t rows_left;  /* to be looked at */
    size_t size_left;  /* bytes of them */
    struct place last; /* that was looked at last; job 0: none */
    bool over;         /* there are no more */
    /* one chunk */
    struct place jobs[LIMIT_LIST_CHUNK];
    size_t room; /* for so many of them */
    size_t count;
    size_t seen;
    bool past;
    struct arena arena;
    void *context;
    qp_job_visit visit;
};

/* ---------------------------------------------------------------------------------------- cursors */

/* What a cursor belongs to: it is of no use with another list. */
static uint64_t list_mark(const struct query *q, const struct qp_list *list, struct place last)
{
    uint64_t mark = hash_bytes(1, list->where.p, list->where.n);
    int64_t rest[] = {q->ns, list->order, last.started, last.job, (int64_t)mark};
    return hash_bytes(2, rest, sizeof rest);
}

static void cursor_write(const struct query *q, const struct qp_list *list, struct place last,
                         char out_cursor[QP_CURSOR_SIZE])
{
    (void)snprintf(out_cursor, QP_CURSOR_SIZE, "c2.%llx.%llx.%016llx",
                   (unsigned long long)last.started, (unsigned long long)last.job,
                   (unsigned long long)list_mark(q, list, last));
}
static_assert(QP_CURSOR_SIZE > 3 + 3 * 17, "a cursor is three numbers");

static bool take_hex(qp_str *rest, uint64_t *out_number)
{
    uint64_t number = 0;
    size_t i = 0;
    for (; i < rest->n && i < 16; i++) {
        char c = rest->p[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) {
            break;
        }
        number = number << 4 | (unsigned)digit;
    }
    *rest = (qp_str){rest->p + i, rest->n - i};
    *out_number = number;
    return i > 0;
}

/* One number of a cursor, and the dot before the next one. */
static bool take_part(qp_str *rest, uint64_t *out_number)
{
    if (!take_hex(rest, out_number) || rest->n < 2 || rest->p[0] != '.') {
        return false;
    }
    *rest = (qp_str){rest->p + 1, rest->n - 1};
    return *out_number <= INT64_MAX;
}

static int cursor_read(const struct query *q, const struct qp_list *list, struct place *out_last,
                       struct qp_err *err)
{
    qp_str rest = list->cursor;
    uint64_t started = 0;
    uint64_t job = 0;
    uint64_t mark = 0;
    struct place last = {0};
    bool good = rest.n > 3 && memcmp(rest.p, "c2.", 3) == 0;
    if (rest.n == 0) {
        *out_last = last;
        return QP_OK;
    }
    rest = good ? (qp_str){rest.p + 3, rest.n - 3} : rest;
    good = good && take_part(&rest, &started) && take_part(&rest, &job) && take_hex(&rest, &mark) &&
           rest.n == 0;
    last = (struct place){(qp_ms)started, (int64_t)job};
    if (!good || mark != list_mark(q, list, last)) {
        return err_set(err, QP_E_INVALID,
                       "cursor: it is none of this list; begin again without one");
    }
    *out_last = last;
    return QP_OK;
}

/* ----------------------------------------------------------------------------------------- chunks */

/* Ends the scan of a chunk. */
#define CHUNK_FULL QP_E_LIMIT

static int note_row(struct listing *l, struct place at, size_t size)
{
    l->last = at;
    l->seen++;
    l->rows_left--;
    l->size_left -= size < l->size_left ? size : l->size_left;
    return l->count == l->room || l->rows_left == 0 || l->size_left == 0 ? CHUNK_FULL : QP_OK;
}

static int each_job(void *context, const void *row)
{
    struct listing *l = context;
    const struct job_row *job = row;
    struct place at = {job->created_at, job->job};
    if (filter_is_past(&l->filter, job, l->backwards)) {
        l->past = true;
        return CHUNK_FULL;
    }
    if (filter_takes(&l->filter, job)) {
        l->jobs[l->count++] = at;
    }
    return note_row(l, at, row_text_size(TABLE_job, row));
}

static int each_attr(void *context, const void *row)
{
    struct listing *l = context;
    const struct attr_row *attr = row;
    struct place at = {attr->started, attr->job};
    l->jobs[l->count++] = at;
    return note_row(l, at, row_text_size(TABLE_attr, row));
}

/* The numbers of the next chunk. */
static int chunk_read(struct listing *l, struct qp_err *err)
{
    struct attr_row attr = {.ns = l->q->ns};
    struct attr_row attr_after;
    struct job_row job = {.ns = l->q->ns};
    struct job_row job_after;
    struct scan scan = {.backwards = l->backwards, .limit = l->rows_left};
    int rc;
    l->count = l->seen = 0;
    if (l->way != NULL && l->way->field == FILTER_ATTR) {
        attr.name = l->way->name;
        attr.value = l->way->text;
        attr_after = attr;
        attr_after.job = l->last.job;
        attr_after.started = l->last.started;
        scan.table = TABLE_attr;
        scan.index = INDEX_attr_value;
        scan.prefix = &attr;
        scan.prefix_count = 3;
        scan.after = l->last.job == 0 ? NULL : &attr_after;
        rc = store_scan(l->q->store, &scan, l, each_attr, err);
    } else {
        job.status = l->way != NULL ? l->way->number : 0;
        job_after = job;
        job_after.job = l->last.job;
        job_after.created_at = l->last.started;
        scan.table = TABLE_job;
        scan.index = l->way != NULL ? INDEX_job_status : INDEX_job_started;
        scan.prefix = &job;
        scan.prefix_count = l->way != NULL ? 2 : 1;
        scan.after = l->last.job == 0 ? NULL : &job_after;
        rc = store_scan(l->q->store, &scan, l, each_job, err);
    }
    l->over = rc == QP_OK || l->past;
    return rc == CHUNK_FULL ? QP_OK : rc;
}

/* The conditions of one alternative that are on properties, which are read for the first of them. */
static int properties_fit(const struct query *q, struct arena *arena, const struct filter *f,
                          const struct filter_range *r, const struct job_row *job, bool *out_fit,
                          struct qp_err *err)
{
    qp_str all = QP_NONE;
    bool read = false;
    for (size_t i = r->from; i < r->to && *out_fit; i++) {
        const struct filter_condition *c = &f->conditions[i];
        qp_str value;
        qp_str text;
        if (c->field != FILTER_PROPERTY) {
            continue;
        }
        if (!read) {
            QP_TRY(properties_read(q->store, arena, job, &all, err));
            read = true;
        }
        value = text = properties_find(all, c->name);
        if (raw_first(value) == '"' && !raw_text(store_env(q->store), arena, value, &text)) {
            return err_set(err, QP_E_NOMEM, "list: out of memory");
        }
        *out_fit = filter_takes_property(c, value, text);
    }
    return QP_OK;
}

/* The conditions of one alternative that are on attributes. */
static int attrs_fit(const struct query *q, struct arena *arena, const struct filter *f,
                     const struct filter_range *r, const struct job_row *job, bool *out_fit,
                     struct qp_err *err)
{
    *out_fit = true;
    for (size_t i = r->from; i < r->to && *out_fit; i++) {
        const struct filter_condition *c = &f->conditions[i];
        struct attr_row key = {.ns = job->ns, .job = job->job, .name = c->name};
        const void *row = NULL;
        int rc;
        if (c->field != FILTER_ATTR) {
            continue;
        }
        rc = store_get(q->store, arena, TABLE_attr, &key, &row, err);
        if (rc != QP_OK && rc != QP_E_NOT_FOUND) {
            return rc;
        }
        *out_fit =
            filter_takes_attr(c, row == NULL ? QP_NONE : ((const struct attr_row *)row)->value);
    }
    return QP_OK;
}

static int was_retried(const struct query *q, struct arena *arena, const struct job_row *job,
                       bool *out_was, struct qp_err *err)
{
    struct attr_row key = {.ns = job->ns, .job = job->job, .name = RETRIED_AS};
    const void *row = NULL;
    int rc = store_get(q->store, arena, TABLE_attr, &key, &row, err);
    *out_was = rc == QP_OK;
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

int query_fits(const struct query *q, struct arena *arena, const struct filter *f,
               const struct job_row *job, bool *out_fits, struct qp_err *err)
{
    struct filter_range r = {0};
    bool fits = false;
    bool leaves_out = false;
    while (!fits && filter_next(f, &r)) {
        if (filter_range_takes(f, &r, job)) {
            QP_TRY(attrs_fit(q, arena, f, &r, job, &fits, err));
            QP_TRY(properties_fit(q, arena, f, &r, job, &fits, err));
        }
    }
    if (fits && q->unretried) {
        QP_TRY(was_retried(q, arena, job, &leaves_out, err));
    }
    *out_fits = fits && !leaves_out;
    return QP_OK;
}

/* One job of a chunk, told if it fits. */
static int job_tell(struct listing *l, int64_t number, struct qp_err *err)
{
    struct job_row key = {.ns = l->q->ns, .job = number};
    const void *row = NULL;
    bool fits = false;
    int rc;
    arena_reset(&l->arena);
    rc = store_get(l->q->store, &l->arena, TABLE_job, &key, &row, err);
    if (rc == QP_E_NOT_FOUND) {
        return QP_OK; /* it went meanwhile */
    }
    rc = rc == QP_OK ? query_fits(l->q, &l->arena, &l->filter, row, &fits, err) : rc;
    if (rc == QP_OK && fits) {
        struct qp_job_info info = query_info(l->q, row);
        l->told++;
        rc = l->visit == NULL ? QP_OK : l->visit(l->context, &info);
    }
    return rc;
}

static int chunk_tell(struct listing *l, struct qp_err *err)
{
    int rc = QP_OK;
    for (size_t i = 0; i < l->count && rc == QP_OK; i++) {
        if (l->told == l->limit) {
            l->last = l->jobs[i - 1]; /* the page is full: the next one goes on behind it */
            l->over = false;
            break;
        }
        rc = job_tell(l, l->jobs[i].job, err);
    }
    return rc;
}

/* Chunks until the page is full, its work is done, or there is nothing more. The first is as large as the page,
 * and one more that tells whether there is another; where its jobs did not all fit, the others are larger. */
static int list_run(struct listing *l, struct qp_err *err)
{
    int rc = QP_OK;
    l->room = l->limit < LIMIT_LIST_CHUNK ? l->limit + 1 : LIMIT_LIST_CHUNK;
    while (rc == QP_OK && !l->over && l->told < l->limit && l->rows_left > 0 && l->size_left > 0) {
        rc = chunk_read(l, err);
        rc = rc == QP_OK ? chunk_tell(l, err) : rc;
        l->room = LIMIT_LIST_CHUNK;
    }
    return rc;
}

/* ------------------------------------------------------------------------------------ list and count */

static int listing_init(struct listing *l, const struct query *q, qp_str where, struct qp_err *err)
{
    int rc = filter_compile(&l->arena, where, store_now(q->store), &l->filter, err);
    l->q = q;
    l->way = filter_way_in(&l->filter);
    l->rows_left = LIMIT_LIST_ROWS;
    l->size_left = LIMIT_LIST_SIZE;
    return rc;
}

/* An id is one job, or none. */
static int list_one(struct listing *l, struct qp_err *err)
{
    struct arena arena;
    const struct job_row *job = NULL;
    int rc;
    arena_init(&arena, store_env(l->q->store), 0);
    rc = id_check(l->way->text, "id", NULL) == QP_OK
             ? query_find(l->q, &arena, l->way->text, &job, err)
             : QP_E_NOT_FOUND;
    rc = rc == QP_OK ? job_tell(l, job->job, err) : rc == QP_E_NOT_FOUND ? QP_OK : rc;
    arena_done(&arena);
    l->over = true;
    return rc;
}

/* The filter's texts are in an arena of their own: that of the jobs is reset. */
static int with_listing(const struct query *q, qp_str where, void *context,
                        int (*run)(void *context, struct listing *l, struct qp_err *err),
                        struct qp_err *err)
{
    const struct qp_env *env = store_env(q->store);
    struct listing *l = mem_alloc(env, sizeof *l);
    struct arena texts;
    int rc;
    if (l == NULL) {
        return err_set(err, QP_E_NOMEM, "list: out of memory");
    }
    arena_init(&l->arena, env, 0);
    rc = listing_init(l, q, where, err);
    texts = l->arena;
    arena_init(&l->arena, env, 0);
    rc = rc == QP_OK ? store_snapshot_begin(q->store, err) : rc;
    if (rc == QP_OK) {
        int end;
        rc = run(context, l, err);
        end = store_snapshot_end(q->store, rc == QP_OK ? err : NULL);
        rc = rc == QP_OK ? end : rc;
    }
    arena_done(&l->arena);
    arena_done(&texts);
    mem_free(env, l);
    return rc;
}

struct list_call {
    const struct qp_list *list;
    void *context;
    qp_job_visit visit;
    char cursor[QP_CURSOR_SIZE];
};

static int read_list(void *context, struct listing *l, struct qp_err *err)
{
    struct list_call *call = context;
    int rc = query_limit(call->list->limit, &l->limit, err);
    rc = rc == QP_OK ? cursor_read(l->q, call->list, &l->last, err) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    l->backwards = call->list->order == QP_NEWEST_FIRST;
    l->context = call->context;
    l->visit = call->visit;
    rc = l->way != NULL && l->way->field == FILTER_ID ? list_one(l, err) : list_run(l, err);
    if (rc == QP_OK && !l->over) {
        cursor_write(l->q, call->list, l->last, call->cursor);
    }
    return rc;
}

int query_list(const struct query *q, const struct qp_list *list, void *context, qp_job_visit visit,
               char out_cursor[QP_CURSOR_SIZE], struct qp_err *err)
{
    struct list_call call = {.list = list, .context = context, .visit = visit};
    int rc = with_listing(q, list->where, &call, read_list, err);
    if (rc == QP_OK) {
        memcpy(out_cursor, call.cursor, QP_CURSOR_SIZE);
    }
    return rc;
}

struct counting {
    const struct filter *filter; /* NULL: all */
    int64_t sum;
};

static int each_counter(void *context, const void *row)
{
    struct counting *c = context;
    const struct counter_row *counter = row;
    if (c->filter == NULL || filter_takes_counter(c->filter, counter)) {
        c->sum += counter->n;
    }
    return QP_OK;
}

static int count_known(const struct query *q, const struct filter *f, int64_t *out_sum,
                       struct qp_err *err)
{
    struct counting c = {.filter = f};
    struct counter_row prefix = {.ns = q->ns};
    struct scan scan = {.table = TABLE_counter,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 1,
                        .limit = SIZE_MAX};
    int rc = store_scan(q->store, &scan, &c, each_counter, err);
    *out_sum = c.sum;
    return rc;
}

struct count_call {
    enum qp_count_how how;
    struct qp_count count;
};

/* As many of all jobs as of those that were looked at; an index was looked at for the rare ones, and says
 * nothing of the others. */
static int count_estimate(struct listing *l, size_t looked, struct qp_count *count,
                          struct qp_err *err)
{
    int64_t all = 0;
    int rc = count_known(l->q, NULL, &all, err);
    double share = looked == 0 ? 0 : (double)l->told / (double)looked;
    count->exact = false;
    count->count = l->way == NULL ? (int64_t)(share * (double)all) : 0;
    count->count = count->count < (int64_t)l->told ? (int64_t)l->told : count->count;
    return rc;
}

/* A count may be long: it does not keep writers from tidying up all the while. */
static int breathe(struct store *s, struct qp_err *err)
{
    int rc = store_snapshot_end(s, err);
    return rc == QP_OK ? store_snapshot_begin(s, err) : rc;
}

static int read_count(void *context, struct listing *l, struct qp_err *err)
{
    struct count_call *call = context;
    int rc = QP_OK;
    call->count.exact = true;
    if (filter_is_counted(&l->filter) && !l->q->unretried) {
        return count_known(l->q, &l->filter, &call->count.count, err);
    }
    l->limit = SIZE_MAX;
    l->backwards = true;
    if (l->way != NULL && l->way->field == FILTER_ID) {
        rc = list_one(l, err);
    }
    while (rc == QP_OK && !l->over) {
        rc = list_run(l, err);
        if (rc == QP_OK && !l->over && call->how == QP_COUNT_ESTIMATE) {
            return count_estimate(l, LIMIT_LIST_ROWS - l->rows_left, &call->count, err);
        }
        l->rows_left = LIMIT_LIST_ROWS;
        l->size_left = LIMIT_LIST_SIZE;
        rc = rc == QP_OK && !l->over ? breathe(l->q->store, err) : rc;
    }
    call->count.count = (int64_t)l->told;
    return rc;
}

int query_count(const struct query *q, qp_str where, enum qp_count_how how,
                struct qp_count *out_count, struct qp_err *err)
{
    struct count_call call = {.how = how};
    int rc = with_listing(q, where, &call, read_count, err);
    if (rc == QP_OK) {
        *out_count = call.count;
    }
    return rc;
}

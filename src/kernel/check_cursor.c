/* check_cursor.c - the rows of a table, read ahead in pages (see check_cursor.h) */
#include "kernel/check_cursor.h"

union any_row {
    int64_t align;
    char bytes[1024];
};

static size_t column_of(enum table_id table, const char *name)
{
    size_t i = 0;
    while (name != NULL && strcmp(tables[table].columns[i].name, name) != 0) {
        i++;
        QP_ASSERT(i < tables[table].column_count);
    }
    return i;
}

void cursor_init(struct check_cursor *k, struct check *c, const struct check_part *part,
                 struct job_ref only)
{
    *k = (struct check_cursor){.c = c,
                               .table = part->table,
                               .index = part->index,
                               .job_column = column_of(part->table, part->column),
                               .only = only,
                               .taken = LIMIT_CHECK_PAGE_ROWS, /* nobody knows better yet */
                               .want = LIMIT_CHECK_PAGE_ROWS};
    arena_init(&k->arena, store_env(c->store), 0);
}

void cursor_done(struct check_cursor *k)
{
    mem_free(store_env(k->c->store), k->last);
    arena_done(&k->arena);
}

static void last_set(struct check_cursor *k, const void *row)
{
    void *last = row_clone(store_env(k->c->store), k->table, row);
    if (last == NULL) {
        k->c->rc = err_set(k->c->err, QP_E_NOMEM, "check: out of memory");
        return;
    }
    mem_free(store_env(k->c->store), k->last);
    k->last = last;
}

/* Forgets the page, and where it got to stays known. */
static void page_drop(struct check_cursor *k)
{
    if (k->at > 0) {
        last_set(k, k->page.rows[k->at - 1]);
    }
    arena_reset(&k->arena);
    k->page = (struct check_rows){0};
    k->at = 0;
}

/* A table that lies far ahead, or has few rows, is asked for few: about as many as last time. */
void cursor_renew(struct check_cursor *k)
{
    page_drop(k);
    k->want = k->taken < LIMIT_CHECK_PAGE_ROWS ? k->taken + 1 : LIMIT_CHECK_PAGE_ROWS;
    k->taken = 0;
    k->over = false;
}

static int page_row(void *context, const void *row)
{
    struct check_cursor *k = context;
    rows_take_into(k->c, &k->arena, &k->page, k->table, row);
    return k->c->rc;
}

static void page_read(struct check_cursor *k)
{
    const struct table *t = &tables[k->table];
    union any_row prefix = {0};
    struct scan scan = {.table = k->table,
                        .index = k->index,
                        .prefix = &prefix,
                        .prefix_count = k->only.ns == 0    ? 0
                                        : k->only.job == 0 ? 1
                                                           : 2,
                        .limit = k->want,
                        .slim = true};
    QP_ASSERT(t->row_size <= sizeof prefix);
    page_drop(k);
    scan.after = k->last;
    row_set_i64(&t->columns[0], &prefix, k->only.ns);
    if (scan.prefix_count > 1) {
        row_set_i64(&t->columns[k->job_column], &prefix, k->only.job);
    }
    if (k->c->rc == QP_OK) {
        int rc = store_scan(k->c->store, &scan, k, page_row, k->c->err);
        k->c->rc = k->c->rc == QP_OK ? rc : k->c->rc;
    }
    k->over = k->page.count < k->want;
    k->want = LIMIT_CHECK_PAGE_ROWS;
}

const void *cursor_peek(struct check_cursor *k)
{
    if (k->at == k->page.count && !k->over && k->c->rc == QP_OK) {
        page_read(k);
    }
    return k->at < k->page.count && k->c->rc == QP_OK ? k->page.rows[k->at] : NULL;
}

void cursor_pass(struct check_cursor *k)
{
    QP_ASSERT(k->at < k->page.count);
    k->at++;
    k->taken++;
}

const struct check_rows *cursor_page(struct check_cursor *k)
{
    static const struct check_rows none = {0};
    QP_ASSERT(k->at == k->page.count);
    if (cursor_peek(k) == NULL) {
        return &none;
    }
    k->taken += k->page.count;
    k->at = k->page.count;
    return &k->page;
}

struct job_ref cursor_job(const struct check_cursor *k, const void *row)
{
    const struct column *columns = tables[k->table].columns;
    return (struct job_ref){row_i64(&columns[0], row), row_i64(&columns[k->job_column], row)};
}

const void *cursor_of_job(struct check_cursor *k, struct job_ref ref)
{
    const void *row = cursor_peek(k);
    while (row != NULL && job_ref_compare(cursor_job(k, row), ref) < 0) {
        cursor_pass(k);
        row = cursor_peek(k);
    }
    return row != NULL && job_ref_compare(cursor_job(k, row), ref) == 0 ? row : NULL;
}

const struct job_row *cursor_find_job(struct check_cursor *k, struct job_ref ref)
{
    const void *end = k->page.count > 0 ? k->page.rows[k->page.count - 1] : NULL;
    QP_ASSERT(k->table == TABLE_job && k->index < 0);
    if (end != NULL && !k->over && job_ref_compare(cursor_job(k, end), ref) < 0) {
        page_drop(k);
        last_set(k, &(struct job_row){.ns = ref.ns, .job = ref.job - 1});
    }
    return cursor_of_job(k, ref);
}

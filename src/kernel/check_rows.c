/* check_rows.c - rows that the check has loaded: kept, sorted, looked up (see check_internal.h) */
#include "kernel/check_internal.h"

static void push_into(struct check *c, struct arena *arena, struct check_rows *rows,
                      const void *item)
{
    if (c->rc == QP_OK && rows->count == rows->capacity) {
        size_t capacity = rows->capacity * 2 + 16;
        const void **grown = arena_alloc(arena, capacity * sizeof *grown);
        if (grown == NULL) {
            c->rc = err_set(c->err, QP_E_NOMEM, "check: a job is too large for the memory");
            return;
        }
        if (rows->count > 0) {
            memcpy(grown, rows->rows, rows->count * sizeof *grown);
        }
        rows->rows = grown;
        rows->capacity = capacity;
    }
    if (c->rc == QP_OK) {
        rows->rows[rows->count++] = item;
    }
}

void rows_push(struct check *c, struct check_rows *rows, const void *item)
{
    push_into(c, &c->arena, rows, item);
}

void rows_take_into(struct check *c, struct arena *arena, struct check_rows *rows,
                    enum table_id table, const void *row)
{
    union {
        int64_t align;
        char bytes[1024];
    } slim;
    void *copy;
    QP_ASSERT(tables[table].row_size <= sizeof slim);
    memcpy(&slim, row, tables[table].row_size);
    row_slim(table, &slim);
    copy = row_copy(arena, table, &slim);
    if (copy == NULL) {
        c->rc = err_set(c->err, QP_E_NOMEM, "check: a job is too large for the memory");
        return;
    }
    push_into(c, arena, rows, copy);
}

void rows_take(struct check *c, struct check_rows *rows, enum table_id table, const void *row)
{
    rows_take_into(c, &c->arena, rows, table, row);
}

static void sift_down(struct check_rows *r, size_t root, size_t count, rows_order order)
{
    const void *moved = r->rows[root];
    for (size_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        if (child + 1 < count && order(r->rows[child], r->rows[child + 1]) < 0) {
            child++;
        }
        if (order(moved, r->rows[child]) >= 0) {
            break;
        }
        r->rows[root] = r->rows[child];
        root = child;
    }
    r->rows[root] = moved;
}

/* Heap sort: in place, no memory. */
void rows_sort(struct check_rows *r, rows_order order)
{
    for (size_t root = r->count / 2; root-- > 0;) {
        sift_down(r, root, r->count, order);
    }
    for (size_t end = r->count; end-- > 1;) {
        const void *largest = r->rows[0];
        r->rows[0] = r->rows[end];
        r->rows[end] = largest;
        sift_down(r, 0, end, order);
    }
}

size_t rows_seek(const struct check_rows *rows, const void *key, rows_order order)
{
    size_t low = 0;
    size_t high = rows->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        bool before = order(rows->rows[middle], key) < 0;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    return low;
}

const void *check_get(struct check *c, enum table_id table, const void *key)
{
    const void *row = NULL;
    int rc;
    if (c->rc != QP_OK) {
        return NULL;
    }
    arena_reset(&c->scratch);
    rc = store_get(c->store, &c->scratch, table, key, &row, c->err);
    if (rc != QP_OK && rc != QP_E_NOT_FOUND) {
        c->rc = rc;
    }
    return rc == QP_OK ? row : NULL;
}

int rows_by_guid(const void *a, const void *b)
{
    return str_compare(((const struct msg_row *)a)->guid, ((const struct msg_row *)b)->guid);
}

const struct msg_row *check_message(const struct check *c, qp_str guid)
{
    const struct check_rows *r = &c->rows[TABLE_msg];
    size_t at = rows_seek(r, &(struct msg_row){.guid = guid}, rows_by_guid);
    const struct msg_row *m = at < r->count ? r->rows[at] : NULL;
    return m != NULL && str_equal(m->guid, guid) ? m : NULL;
}

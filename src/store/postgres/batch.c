/* batch.c - many rows with one statement
 *
 * The rows of a flush go as one array per column (statements.c says how they become rows again), and
 * nobody waits for the answer: it comes with that of COMMIT, or of the next load.
 *
 *   new rows      INSERT; a row that is there already fails by its key
 *   changed rows  UPDATE .. WHERE the revision is the one before; those of which only what every step
 *                 changes did, those with more, and those that are other rows under the same key
 *   rows to go    DELETE .. WHERE the revision is the one before
 *   SUM columns   the difference is added, in the order of the keys, so that two who write the same
 *                 rows wait for each other and not in a circle
 */
#include <stdlib.h>

#include "store/postgres/postgres_internal.h"

static struct postgres_provider *self(struct provider *base)
{
    return (struct postgres_provider *)base;
}

static void put_column(struct wire_params *out, const struct column *c, const void *const *rows,
                       size_t count)
{
    wire_array_begin(out, c->kind != KIND_I64, count);
    for (size_t i = 0; i < count; i++) {
        if (c->kind == KIND_I64) {
            wire_array_i64(out, row_i64(c, rows[i]));
        } else {
            wire_array_str(out, row_str(c, rows[i]));
        }
    }
    wire_array_end(out);
}

static int send(struct postgres_provider *p, enum table_id table, enum table_statement kind,
                struct qp_err *err)
{
    struct wire_statement *s;
    int rc = postgres_table_statement(p, table, kind, &s, err);
    return rc == QP_OK ? wire_send(&p->wire, s, &p->params, (struct wire_answer){0}, err) : rc;
}

/* ------------------------------------------------------------------------ rows that are compared */

static int insert_rows(struct postgres_provider *p, enum table_id table, enum table_statement kind,
                       const void *const *rows, size_t count, struct qp_err *err)
{
    const struct table *t = &tables[table];
    wire_params_reset(&p->params);
    for (size_t i = 0; i < t->column_count; i++) {
        if (postgres_writes(kind, t->columns[i].role)) {
            put_column(&p->params, &t->columns[i], rows, count);
        }
    }
    return send(p, table, kind, err);
}

static int update_rows(struct postgres_provider *p, enum table_id table, enum table_statement kind,
                       const void *const *before, const void *const *after, size_t count,
                       struct qp_err *err)
{
    const struct table *t = &tables[table];
    wire_params_reset(&p->params);
    for (size_t i = 0; i < t->column_count; i++) {
        if (i < t->key_count || postgres_writes(kind, t->columns[i].role)) {
            put_column(&p->params, &t->columns[i], after, count);
        }
    }
    put_column(&p->params, &t->columns[t->column_count - 1], before, count);
    wire_param_i64(&p->params, (int64_t)count);
    return send(p, table, kind, err);
}

static int delete_rows(struct postgres_provider *p, enum table_id table, const void *const *rows,
                       size_t count, struct qp_err *err)
{
    const struct table *t = &tables[table];
    wire_params_reset(&p->params);
    for (size_t i = 0; i < t->key_count; i++) {
        put_column(&p->params, &t->columns[i], rows, count);
    }
    put_column(&p->params, &t->columns[t->column_count - 1], rows, count);
    wire_param_i64(&p->params, (int64_t)count);
    return send(p, table, STATEMENT_DELETE, err);
}

static enum table_statement update_kind(const struct table *t, const void *before,
                                        const void *after)
{
    enum table_statement kind = STATEMENT_UPDATE_HOT;
    for (size_t i = t->key_count; i < t->column_count - 1; i++) {
        const struct column *c = &t->columns[i];
        if (c->role == ROLE_HOT || c->role == ROLE_LATER || column_equal(c, before, after)) {
            continue;
        }
        if (c->role != ROLE_SELDOM && c->role != ROLE_UNUSUAL && c->role != ROLE_INDEXED) {
            return STATEMENT_UPDATE_ALL;
        }
        kind = STATEMENT_UPDATE;
    }
    return kind;
}

/* Rows that one kind of statement takes. */
struct part {
    size_t count;
    const void *before[WRITE_ALL_MAX];
    const void *after[WRITE_ALL_MAX];
};

static int write_news(struct postgres_provider *p, enum table_id table, const void *const *rows,
                      size_t count, struct qp_err *err)
{
    struct part plain;
    struct part other;
    int rc = QP_OK;
    plain.count = 0;
    other.count = 0;
    for (size_t i = 0; i < count; i++) {
        struct part *part = row_is_plain(table, rows[i]) ? &plain : &other;
        part->after[part->count++] = rows[i];
    }
    if (plain.count > 0) {
        rc = insert_rows(p, table, STATEMENT_INSERT_PLAIN, plain.after, plain.count, err);
    }
    if (rc == QP_OK && other.count > 0) {
        rc = insert_rows(p, table, STATEMENT_INSERT, other.after, other.count, err);
    }
    return rc;
}

static int write_changes(struct postgres_provider *p, enum table_id table,
                         const void *const *before, const void *const *after, size_t count,
                         struct qp_err *err)
{
    static const enum table_statement kinds[] = {STATEMENT_UPDATE_HOT, STATEMENT_UPDATE,
                                                 STATEMENT_UPDATE_ALL};
    struct part part;
    int rc = QP_OK;
    for (size_t k = 0; k < ARRAY_COUNT(kinds) && rc == QP_OK; k++) {
        part.count = 0;
        for (size_t i = 0; i < count; i++) {
            if (update_kind(&tables[table], before[i], after[i]) == kinds[k]) {
                part.before[part.count] = before[i];
                part.after[part.count++] = after[i];
            }
        }
        if (part.count > 0) {
            rc = update_rows(p, table, kinds[k], part.before, part.after, part.count, err);
        }
    }
    return rc;
}

/* -------------------------------------------------------------------------------- differences */

struct change {
    const struct table *t;
    const void *before;
    const void *after;
};

static const void *key_of(const struct change *c)
{
    return c->after != NULL ? c->after : c->before;
}

static int change_compare(const void *a, const void *b)
{
    const struct change *x = a;
    const struct change *y = b;
    for (size_t i = 0; i < x->t->key_count; i++) {
        const struct column *c = &x->t->columns[i];
        int64_t n = c->kind != KIND_I64 ? 0 : row_i64(c, key_of(x));
        int64_t m = c->kind != KIND_I64 ? 0 : row_i64(c, key_of(y));
        int order = c->kind != KIND_I64 ? str_compare(row_str(c, key_of(x)), row_str(c, key_of(y)))
                                        : (n > m) - (n < m);
        if (order != 0) {
            return order;
        }
    }
    return 0;
}

/* A key, a difference, or what is set: NULL where a row that was there keeps what it has. */
static void put_change(struct wire_params *out, size_t place, const struct change *c,
                       enum table_statement kind)
{
    const struct column *column = &c->t->columns[place];
    int64_t before = c->before == NULL || column->kind != KIND_I64 ? 0 : row_i64(column, c->before);
    int64_t after = c->after == NULL || column->kind != KIND_I64 ? 0 : row_i64(column, c->after);
    if (column->kind != KIND_I64) {
        wire_array_str(out, row_str(column, key_of(c)));
    } else if (place < c->t->key_count) {
        wire_array_i64(out, row_i64(column, key_of(c)));
    } else if (column->role == ROLE_SUM) {
        wire_array_i64(out, after - before);
    } else if (c->after == NULL && strcmp(column->name, "own") == 0) {
        wire_array_i64(out, -1 - before); /* see add_own */
    } else if (c->after == NULL || (kind == STATEMENT_ADD && before == after) ||
               (kind == STATEMENT_ADD && c->before == NULL)) {
        wire_array_null(out);
    } else {
        wire_array_i64(out, after);
    }
}

/* A row that we did not find, and of which something goes away all the same: another has made it since,
 * with what goes. So it is there, and must not be inserted. */
static bool is_new(const struct change *c)
{
    bool fresh = c->before == NULL;
    for (size_t i = c->t->key_count; i < c->t->column_count && fresh; i++) {
        const struct column *column = &c->t->columns[i];
        fresh = column->role != ROLE_SUM || row_i64(column, c->after) >= 0;
    }
    return fresh || c->t != &tables[TABLE_lane];
}

static int send_changes(struct postgres_provider *p, enum table_id table,
                        const struct change *changes, size_t count, enum table_statement kind,
                        struct qp_err *err)
{
    const struct table *t = &tables[table];
    if (count == 0) {
        return QP_OK;
    }
    wire_params_reset(&p->params);
    for (size_t place = 0; place < t->column_count; place++) {
        wire_array_begin(&p->params, t->columns[place].kind != KIND_I64, count);
        for (size_t i = 0; i < count; i++) {
            put_change(&p->params, place, &changes[i], kind);
        }
        wire_array_end(&p->params);
    }
    if (kind == STATEMENT_ADD) {
        wire_param_i64(&p->params, (int64_t)count);
    }
    return send(p, table, kind, err);
}

static int add_changes(struct postgres_provider *p, enum table_id table, const void *const *before,
                       const void *const *after, size_t count, struct qp_err *err)
{
    struct change news[WRITE_ALL_MAX] = {{0}};
    struct change others[WRITE_ALL_MAX] = {{0}};
    size_t new_count = 0;
    size_t other_count = 0;
    int rc;
    for (size_t i = 0; i < count; i++) {
        struct change c = {&tables[table], before == NULL ? NULL : before[i],
                           after == NULL ? NULL : after[i]};
        if (before == NULL && is_new(&c)) {
            news[new_count++] = c;
        } else {
            others[other_count++] = c;
        }
    }
    qsort(news, new_count, sizeof news[0], change_compare);
    qsort(others, other_count, sizeof others[0], change_compare);
    rc = send_changes(p, table, others, other_count, STATEMENT_ADD, err);
    return rc == QP_OK ? send_changes(p, table, news, new_count, STATEMENT_ADD_NEW, err) : rc;
}

/* --------------------------------------------------------------------------------------- the door */

static int raise_sequence(struct postgres_provider *p, enum plain_statement kind, int64_t next,
                          struct qp_err *err)
{
    struct wire_statement *s;
    int rc = postgres_plain_statement(p, kind, &s, err);
    memset(p->base.blocks, 0, sizeof p->base.blocks); /* they are below */
    wire_params_reset(&p->params);
    wire_param_i64(&p->params, next);
    return rc == QP_OK ? wire_send(&p->wire, s, &p->params, (struct wire_answer){0}, err) : rc;
}

/* Only a copy of a whole store writes the head. Its numbers are no columns here (see add_head): where
 * the new row has a higher one, all further ones will be above that; else they are already.
 *
 * The position that was read is that of the transaction after the next one. So all positions are moved
 * by the difference and by one transaction more. */
static int write_head(struct postgres_provider *p, const struct head_row *before,
                      const struct head_row *after, struct qp_err *err)
{
    struct wire_statement *s;
    int64_t raise = after->pos - before->pos + (INT64_C(1) << POSTGRES_POS_BITS);
    int rc = postgres_plain_statement(p, PLAIN_HEAD, &s, err);
    wire_params_reset(&p->params);
    wire_param_i64(&p->params, after->pos > before->pos ? raise : 0);
    wire_param_i64(&p->params, after->clock);
    wire_param_i64(&p->params, after->clean);
    wire_param_i64(&p->params, after->rev);
    wire_param_i64(&p->params, before->rev);
    rc = rc == QP_OK ? wire_send(&p->wire, s, &p->params, (struct wire_answer){0}, err) : rc;
    if (rc == QP_OK && after->ord > before->ord) {
        rc = raise_sequence(p, PLAIN_RAISE_ORDERS, after->ord + 1, err);
    }
    if (rc == QP_OK && after->next_id > before->next_id) {
        rc = raise_sequence(p, PLAIN_RAISE_IDS, after->next_id, err);
    }
    return rc;
}

static int write_part(struct postgres_provider *p, enum table_id table, const void *const *before,
                      const void *const *after, size_t count, struct qp_err *err)
{
    if (table == TABLE_feed && before == NULL) {
        p->feed_pos = ((const struct feed_row *)after[count - 1])->pos;
        p->feed_at = ((const struct feed_row *)after[count - 1])->at;
    }
    if (tables[table].additive && (after != NULL || !p->moving)) { /* a copy takes rows away */
        return add_changes(p, table, before, after, count, err);
    }
    if (before == NULL) {
        return write_news(p, table, after, count, err);
    }
    if (table == TABLE_head && after != NULL) {
        return write_head(p, before[0], after[0], err);
    }
    return after == NULL ? delete_rows(p, table, before, count, err)
                         : write_changes(p, table, before, after, count, err);
}

/* How many rows go together: as many as there are, unless they have much text. */
static size_t part_count(enum table_id table, const void *const *rows, size_t count)
{
    size_t size = 0;
    size_t n = 0;
    while (n < count && (n == 0 || size < LIMIT_BUNDLE_SIZE)) {
        size += row_text_size(table, rows[n++]);
    }
    return n;
}

int postgres_write_all(struct provider *base, enum table_id table, const void *const *before,
                       const void *const *after, size_t count, struct qp_err *err)
{
    struct postgres_provider *p = self(base);
    int rc = QP_OK;
    QP_ASSERT(count > 0 && count <= WRITE_ALL_MAX && p->active);
    for (size_t from = 0, n = 0; from < count && rc == QP_OK; from += n) {
        n = part_count(table, (after != NULL ? after : before) + from, count - from);
        rc = write_part(p, table, before == NULL ? NULL : before + from,
                        after == NULL ? NULL : after + from, n, err);
    }
    return rc;
}

int postgres_write(struct provider *base, enum table_id table, const void *before,
                   const void *after, struct qp_err *err)
{
    return postgres_write_all(base, table, before == NULL ? NULL : &before,
                              after == NULL ? NULL : &after, 1, err);
}

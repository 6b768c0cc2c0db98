/* rows.c - the descriptors made from rows.def, and the generic code over them */
#include "store/rows.h"

#define COLUMN(table, column, kind, role)                                                          \
    {#column, KIND_##kind, ROLE_##role, offsetof(struct table##_row, column)},
#define COLUMNS(table, list)                                                                       \
    static const struct column table##_columns[] = {                                               \
        {"ns", KIND_I64, ROLE_KEY, offsetof(struct table##_row, ns)},                              \
        list(COLUMN, table){"rev", KIND_I64, ROLE_REV, offsetof(struct table##_row, rev)},         \
    };
STORE_TABLES(COLUMNS)

#define COUNT_KEY 1
#define COUNT_FIXED 0
#define COUNT_HOT 0
#define COUNT_INDEXED 0
#define KEY_COUNT(table, column, kind, role) +COUNT_##role
/* The tables whose first key column is the job's number, and so hold nothing of a job that is not born yet. */
#define KEYED_BY_JOB(table)                                                                        \
    (TABLE_##table == TABLE_job || TABLE_##table == TABLE_attr || TABLE_##table == TABLE_act ||    \
     TABLE_##table == TABLE_guid || TABLE_##table == TABLE_sem || TABLE_##table == TABLE_move ||   \
     TABLE_##table == TABLE_msg || TABLE_##table == TABLE_event || TABLE_##table == TABLE_data)
#define DESCRIBE(table, list)                                                                      \
    {#table,                                                                                       \
     table##_columns,                                                                              \
     ARRAY_COUNT(table##_columns),                                                                 \
     1 list(KEY_COUNT, table),                                                                     \
     sizeof(struct table##_row),                                                                   \
     KEYED_BY_JOB(table)},

const struct table tables[TABLE_COUNT] = {STORE_TABLES(DESCRIBE)};

#define HOLDS(name, table, columns, sql, condition)                                                \
    static bool name##_holds(const void *row)                                                      \
    {                                                                                              \
        const struct table##_row *r = row;                                                         \
        (void)r;                                                                                   \
        return condition;                                                                          \
    }
STORE_INDEXES(HOLDS, HOLDS)

#define INDEX_PLAIN(name, table, columns, sql, condition)                                          \
    {#name, TABLE_##table, columns, false, name##_holds},
#define INDEX_UNIQUE(name, table, columns, sql, condition)                                         \
    {#name, TABLE_##table, columns, true, name##_holds},
const struct index indexes[INDEX_COUNT] = {STORE_INDEXES(INDEX_PLAIN, INDEX_UNIQUE)};

static size_t column_find(const struct table *t, qp_str name)
{
    size_t i = 0;
    while (i < t->column_count && !str_equal(str_from(t->columns[i].name), name)) {
        i++;
    }
    QP_ASSERT(i < t->column_count);
    return i;
}

static void columns_add(struct index_columns *c, size_t column)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->column[i] == column) {
            return;
        }
    }
    QP_ASSERT(c->count < INDEX_COLUMNS_MAX);
    c->column[c->count++] = column;
}

struct index_columns index_columns(enum index_id index)
{
    struct index_columns c = {0};
    const struct table *t = &tables[indexes[index].table];
    const char *p = indexes[index].column_names;
    while (*p != '\0') {
        size_t n = strcspn(p, ",");
        columns_add(&c, column_find(t, (qp_str){p, n}));
        p += n + (p[n] == ',');
    }
    c.own_count = c.count;
    for (size_t i = 0; i < t->key_count; i++) {
        columns_add(&c, i);
    }
    return c;
}

int64_t row_i64(const struct column *c, const void *row)
{
    int64_t value;
    QP_ASSERT(c->kind == KIND_I64);
    memcpy(&value, (const char *)row + c->offset, sizeof value);
    return value;
}

qp_str row_str(const struct column *c, const void *row)
{
    qp_str value;
    QP_ASSERT(c->kind != KIND_I64);
    memcpy(&value, (const char *)row + c->offset, sizeof value);
    return value;
}

void row_set_i64(const struct column *c, void *row, int64_t value)
{
    QP_ASSERT(c->kind == KIND_I64);
    memcpy((char *)row + c->offset, &value, sizeof value);
}

void row_set_str(const struct column *c, void *row, qp_str value)
{
    QP_ASSERT(c->kind != KIND_I64);
    memcpy((char *)row + c->offset, &value, sizeof value);
}

/* Big-endian with the sign bit turned, so that bytes order as numbers do. */
static void encode_i64(struct buf *out, int64_t value)
{
    uint64_t bits = (uint64_t)value ^ (UINT64_C(1) << 63);
    char bytes[8];
    for (int i = 7; i >= 0; i--) {
        bytes[i] = (char)(bits & 0xff);
        bits >>= 8;
    }
    buf_add(out, bytes, sizeof bytes);
}

/* 0 for none; else 1, the bytes with 0 written as 0 1, and 0 0 as the end: a prefix orders before what it begins. */
static void encode_str(struct buf *out, qp_str value)
{
    size_t from = 0;
    buf_byte(out, str_is_none(value) ? 0 : 1);
    if (str_is_none(value)) {
        return;
    }
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] == '\0') {
            buf_add(out, value.p + from, i + 1 - from);
            buf_byte(out, 1);
            from = i + 1;
        }
    }
    buf_add(out, value.p + from, value.n - from);
    buf_add(out, "\0\0", 2);
}

void row_encode(struct buf *out, const struct table *t, const void *row, const size_t *columns,
                size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct column *c = &t->columns[columns[i]];
        if (c->kind == KIND_I64) {
            encode_i64(out, row_i64(c, row));
        } else {
            encode_str(out, row_str(c, row));
        }
    }
}

void row_encode_key(struct buf *out, enum table_id table, const void *row)
{
    static const size_t first[INDEX_COLUMNS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    QP_ASSERT(tables[table].key_count <= INDEX_COLUMNS_MAX);
    row_encode(out, &tables[table], row, first, tables[table].key_count);
}

bool row_equal(enum table_id table, const void *a, const void *b)
{
    const struct table *t = &tables[table];
    for (size_t i = 0; i + 1 < t->column_count; i++) {
        const struct column *c = &t->columns[i];
        bool same = c->kind == KIND_I64 ? row_i64(c, a) == row_i64(c, b)
                                        : str_equal(row_str(c, a), row_str(c, b));
        if (!same) {
            return false;
        }
    }
    return true;
}

static size_t row_text_size(const struct table *t, const void *row)
{
    size_t size = 0;
    for (size_t i = 0; i < t->column_count; i++) {
        if (t->columns[i].kind != KIND_I64) {
            size += row_str(&t->columns[i], row).n;
        }
    }
    return size;
}

/* Copies the struct and, behind it, every text; `memory` has room for both. */
static void *row_copy_into(void *memory, const struct table *t, const void *row)
{
    char *text = (char *)memory + t->row_size;
    memcpy(memory, row, t->row_size);
    for (size_t i = 0; i < t->column_count; i++) {
        const struct column *c = &t->columns[i];
        qp_str s;
        if (c->kind == KIND_I64) {
            continue;
        }
        s = row_str(c, row);
        if (s.n > 0) {
            memcpy(text, s.p, s.n);
        }
        row_set_str(c, memory, (qp_str){str_is_none(s) ? NULL : text, s.n});
        text += s.n;
    }
    return memory;
}

void *row_clone(const struct qp_env *env, enum table_id table, const void *row)
{
    const struct table *t = &tables[table];
    /* One byte more, so that an empty text at the end still points into the block. */
    void *memory = mem_alloc(env, t->row_size + row_text_size(t, row) + 1);
    return memory == NULL ? NULL : row_copy_into(memory, t, row);
}

void *row_copy(struct arena *a, enum table_id table, const void *row)
{
    const struct table *t = &tables[table];
    void *memory = arena_alloc(a, t->row_size + row_text_size(t, row) + 1);
    return memory == NULL ? NULL : row_copy_into(memory, t, row);
}

static void print_bytes(struct buf *out, qp_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        buf_printf(out, "%02x", (unsigned char)s.p[i]);
    }
}

static void print_value(struct buf *out, const struct column *c, const void *row)
{
    if (c->kind == KIND_I64) {
        buf_printf(out, "%lld", (long long)row_i64(c, row));
    } else if (str_is_none(row_str(c, row))) {
        buf_text(out, "-");
    } else if (c->kind == KIND_TEXT) {
        buf_byte(out, '"');
        buf_str(out, row_str(c, row));
        buf_byte(out, '"');
    } else {
        print_bytes(out, row_str(c, row));
    }
}

void row_print(struct buf *out, enum table_id table, const void *row)
{
    const struct table *t = &tables[table];
    buf_printf(out, "%s{", t->name);
    for (size_t i = 0; i < t->column_count; i++) {
        buf_printf(out, "%s%s=", i > 0 ? " " : "", t->columns[i].name);
        print_value(out, &t->columns[i], row);
    }
    buf_text(out, "}");
}

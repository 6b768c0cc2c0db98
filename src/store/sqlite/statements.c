/* statements.c - the SQL of the provider, from the descriptors of the tables
 *
 * Each text is put together once, out of table and column names alone, and prepared for the life of
 * the handle. Values are always bound.
 */
#include "store/sqlite/sqlite_internal.h"

static const char *const plain_texts[PLAIN_KINDS] = {
    [PLAIN_BEGIN] = "BEGIN IMMEDIATE",
    [PLAIN_SNAPSHOT] = "BEGIN",
    [PLAIN_COMMIT] = "COMMIT",
    [PLAIN_ROLLBACK] = "ROLLBACK",
    [PLAIN_SAVEPOINT] = "SAVEPOINT qp_host",
    [PLAIN_RELEASE] = "RELEASE qp_host",
    [PLAIN_ROLLBACK_TO] = "ROLLBACK TO qp_host",
    [PLAIN_SHRINK] = "PRAGMA incremental_vacuum(256)",
};

static const char *const index_conditions[INDEX_COUNT] = {
#define CONDITION(name, table, columns, sql, condition) sql,
    STORE_INDEXES(CONDITION, CONDITION)
#undef CONDITION
};

static int prepare(struct sqlite_provider *p, qp_str text, sqlite3_stmt **out, struct qp_err *err)
{
    int code = sqlite3_prepare_v3(p->db, text.p, (int)text.n, SQLITE_PREPARE_PERSISTENT, out, NULL);
    return code == SQLITE_OK ? QP_OK : sqlite_fail(p, code, err, "prepare a statement");
}

static void add_columns(struct buf *b, const struct table *t)
{
    for (size_t i = 0; i < t->column_count; i++) {
        buf_printf(b, "%s\"%s\"", i > 0 ? "," : "", t->columns[i].name);
    }
}

static void add_key_condition(struct buf *b, const struct table *t)
{
    buf_text(b, " WHERE ns=?");
    for (size_t i = 1; i < t->key_count; i++) {
        buf_printf(b, " AND \"%s\"=?", t->columns[i].name);
    }
}

/* The row itself, in the state in which it was read. */
static void add_row_condition(struct buf *b, const struct table *t)
{
    if (t->number > 0) {
        buf_printf(b, " WHERE \"%s\"=?", t->columns[t->number].name);
    } else {
        add_key_condition(b, t);
    }
    buf_text(b, " AND rev=?");
}

bool sqlite_writes(enum table_statement kind, enum column_role role)
{
    bool wide = kind == STATEMENT_UPDATE_WIDE || kind == STATEMENT_CHANGE_WIDE;
    bool many =
        kind == STATEMENT_CHANGE_HOT || kind == STATEMENT_CHANGE || kind == STATEMENT_CHANGE_WIDE;
    bool all = kind == STATEMENT_INSERT || kind == STATEMENT_UPDATE_ALL;
    switch (role) {
    case ROLE_HOT:
    case ROLE_REV:
        return true;
    case ROLE_LATER:
        return kind != STATEMENT_INSERT_PLAIN;
    case ROLE_SELDOM:
        return all || wide || kind == STATEMENT_UPDATE || kind == STATEMENT_CHANGE;
    case ROLE_UNUSUAL:
        return all || wide;
    case ROLE_INDEXED:
    case ROLE_SUM:
        return kind != STATEMENT_UPDATE_HOT && kind != STATEMENT_CHANGE_HOT;
    case ROLE_NUMBER:
        return all || many || kind == STATEMENT_INSERT_PLAIN;
    case ROLE_FIXED:
        return all || kind == STATEMENT_INSERT_PLAIN;
    case ROLE_RARE:
        return all;
    case ROLE_KEY:
        return kind == STATEMENT_INSERT || kind == STATEMENT_INSERT_PLAIN;
    }
    return false;
}

static void add_changes(struct buf *b, const struct table *t, enum table_statement kind)
{
    for (size_t i = 0; i < t->column_count - 1; i++) {
        if (sqlite_writes(kind, t->columns[i].role)) {
            buf_printf(b, "\"%s\"=?,", t->columns[i].name);
        }
    }
    buf_text(b, "rev=?");
}

static size_t column_named(const struct table *t, const char *name)
{
    size_t i = 0;
    while (strcmp(t->columns[i].name, name) != 0) {
        i++;
        QP_ASSERT(i < t->column_count); /* the schema was checked */
    }
    return i;
}

/* The columns that a statement takes from the table of rows; the number says which row it is. They come in
 * the order of the file's table (`whole`), where columns of later migrations stand behind `rev`: SQLite takes
 * rows that bring all columns in this order as they are, and puts others together once more. */
static void add_taken(struct buf *b, const struct table *t, enum table_statement kind,
                      sqlite3_stmt *whole)
{
    const char *comma = "";
    for (int place = 0; place < sqlite3_column_count(whole); place++) {
        size_t i = column_named(t, sqlite3_column_name(whole, place));
        if (sqlite_writes(kind, t->columns[i].role) || (t->number > 0 && i == t->number)) {
            buf_printf(b, "%s\"%s\"", comma, t->columns[i].name);
            comma = ",";
        }
    }
}

static void add_insert(struct buf *b, const struct table *t, enum table_statement kind,
                       sqlite3_stmt *whole)
{
    buf_printf(b, "INSERT OR FAIL INTO qp_%s(", t->name);
    add_taken(b, t, kind, whole);
    buf_text(b, ") SELECT ");
    add_taken(b, t, kind, whole);
    buf_printf(b, " FROM qp_new_%s", t->name);
}

/* The row is there, so the insertion becomes an update of it: SQLite does that for row after row with
 * one cursor, where UPDATE .. FROM would first put all of them into a table of its own. */
static void add_change(struct buf *b, const struct table *t, enum table_statement kind,
                       sqlite3_stmt *whole)
{
    add_insert(b, t, kind, whole);
    buf_printf(b, " WHERE true ON CONFLICT(\"%s\") DO UPDATE SET ", t->columns[t->number].name);
    for (size_t i = 0; i < t->column_count; i++) {
        const char *name = t->columns[i].name;
        if (sqlite_writes(kind, t->columns[i].role) && i != t->number) {
            buf_printf(b, "\"%s\"=excluded.\"%s\"%s", name, name,
                       i + 1 < t->column_count ? "," : "");
        }
    }
    buf_printf(b, " WHERE qp_%s.rev=excluded.rev-1", t->name);
}

static void write_table_text(struct buf *b, const struct table *t, enum table_statement kind,
                             sqlite3_stmt *whole)
{
    switch (kind) {
    case STATEMENT_LOAD:
        buf_text(b, "SELECT ");
        add_columns(b, t);
        buf_printf(b, " FROM qp_%s", t->name);
        add_key_condition(b, t);
        break;
    case STATEMENT_INSERT:
    case STATEMENT_INSERT_PLAIN:
        add_insert(b, t, kind, whole);
        break;
    case STATEMENT_UPDATE_HOT:
    case STATEMENT_UPDATE:
    case STATEMENT_UPDATE_WIDE:
    case STATEMENT_UPDATE_ALL:
        buf_printf(b, "UPDATE qp_%s SET ", t->name);
        add_changes(b, t, kind);
        add_row_condition(b, t);
        break;
    case STATEMENT_DELETE:
        buf_printf(b, "DELETE FROM qp_%s", t->name);
        add_row_condition(b, t);
        break;
    case STATEMENT_CHANGE_HOT:
    case STATEMENT_CHANGE:
    case STATEMENT_CHANGE_WIDE:
        add_change(b, t, kind, whole);
        break;
    case STATEMENT_REMOVE:
        buf_printf(b, "DELETE FROM qp_%s WHERE \"%s\" IN (SELECT \"%s\" FROM qp_new_%s) AND rev=?",
                   t->name, t->columns[t->number].name, t->columns[t->number].name, t->name);
        break;
    case STATEMENT_KINDS:
        break;
    }
}

static int prepare_text(struct sqlite_provider *p, sqlite3_stmt **out, struct qp_err *err)
{
    return buf_rc(&p->sql) != QP_OK ? err_set(err, buf_rc(&p->sql), "prepare: out of memory")
                                    : prepare(p, buf_slice(&p->sql), out, err);
}

static int prepare_for_table(struct sqlite_provider *p, const struct table *t,
                             enum table_statement kind, sqlite3_stmt **out, struct qp_err *err)
{
    sqlite3_stmt *whole = NULL;
    int rc;
    buf_reset(&p->sql);
    buf_printf(&p->sql, "SELECT * FROM qp_%s", t->name);
    QP_TRY(prepare_text(p, &whole, err));
    buf_reset(&p->sql);
    write_table_text(&p->sql, t, kind, whole);
    rc = prepare_text(p, out, err);
    (void)sqlite3_finalize(whole); /* it never ran */
    return rc;
}

int sqlite_table_statement(struct sqlite_provider *p, enum table_id table,
                           enum table_statement kind, sqlite3_stmt **out, struct qp_err *err)
{
    int rc = QP_OK;
    if (p->of_table[table][kind] == NULL) {
        rc = prepare_for_table(p, &tables[table], kind, &p->of_table[table][kind], err);
    }
    if (rc == QP_OK) {
        *out = p->of_table[table][kind];
    }
    return rc;
}

int sqlite_plain_statement(struct sqlite_provider *p, enum plain_statement kind, sqlite3_stmt **out,
                           struct qp_err *err)
{
    int rc = QP_OK;
    if (p->plain[kind] == NULL) {
        rc = prepare(p, str_from(plain_texts[kind]), &p->plain[kind], err);
    }
    if (rc == QP_OK) {
        *out = p->plain[kind];
    }
    return rc;
}

/* The order of a scan: an index's columns, or the key's. */
static struct index_columns scan_order(const struct scan *scan)
{
    struct index_columns c = {.count = tables[scan->table].key_count};
    for (size_t i = 0; i < c.count; i++) {
        c.column[i] = i;
    }
    return scan->index >= 0 ? index_columns((enum index_id)scan->index) : c;
}

static void add_order(struct buf *b, const struct table *t, const struct index_columns *order,
                      size_t from, const char *suffix)
{
    for (size_t i = from; i < order->count; i++) {
        buf_printf(b, "%s\"%s\"%s", i > from ? "," : "", t->columns[order->column[i]].name, suffix);
    }
}

static void add_after(struct buf *b, const struct table *t, const struct scan *scan,
                      const struct index_columns *order)
{
    buf_text(b, " AND (");
    add_order(b, t, order, scan->prefix_count, "");
    buf_text(b, scan->backwards ? ")<(" : ")>(");
    for (size_t i = scan->prefix_count; i < order->count; i++) {
        buf_text(b, i > scan->prefix_count ? ",?" : "?");
    }
    buf_text(b, ")");
}

/* There is at most one such row, and nothing to order. */
static bool is_one_row(const struct table *t, const struct scan *scan,
                       const struct index_columns *order)
{
    bool one = scan->prefix_count == order->count;
    for (size_t i = 0; i < scan->prefix_count && t->number > 0; i++) {
        one = one || order->column[i] == t->number;
    }
    return one;
}

static void write_scan_text(struct buf *b, const struct scan *scan,
                            const struct index_columns *order)
{
    const struct table *t = &tables[scan->table];
    buf_text(b, "SELECT ");
    add_columns(b, t);
    buf_printf(b, " FROM qp_%s", t->name);
    if (scan->index >= 0) {
        buf_printf(b, " INDEXED BY qp_%s", indexes[scan->index].name);
    } else if (t->number > 0) {
        buf_printf(b, " INDEXED BY sqlite_autoindex_qp_%s_1", t->name); /* of its key */
    }
    buf_printf(b, " WHERE %s", scan->index >= 0 ? index_conditions[scan->index] : "1");
    for (size_t i = 0; i < scan->prefix_count; i++) {
        buf_printf(b, " AND \"%s\"=?", t->columns[order->column[i]].name);
    }
    if (scan->after != NULL) {
        add_after(b, t, scan, order);
    }
    if (!is_one_row(t, scan, order)) {
        buf_text(b, " ORDER BY ");
        add_order(b, t, order, scan->prefix_count, scan->backwards ? " DESC" : "");
    }
    buf_text(b, " LIMIT ?");
}

int sqlite_bind_column(sqlite3_stmt *s, int place, const struct column *c, const void *row)
{
    qp_str text;
    if (c->kind == KIND_I64) {
        return sqlite3_bind_int64(s, place, row_i64(c, row));
    }
    text = row_str(c, row);
    if (str_is_none(text)) {
        return sqlite3_bind_null(s, place);
    }
    return c->kind == KIND_TEXT
               ? sqlite3_bind_text64(s, place, text.p, text.n, SQLITE_STATIC, SQLITE_UTF8)
               : sqlite3_bind_blob64(s, place, text.p, text.n, SQLITE_STATIC);
}

static int bind_scan(sqlite3_stmt *s, const struct scan *scan, const struct index_columns *order)
{
    const struct table *t = &tables[scan->table];
    int place = 1;
    int code = SQLITE_OK;
    for (size_t i = 0; i < scan->prefix_count && code == SQLITE_OK; i++) {
        code = sqlite_bind_column(s, place++, &t->columns[order->column[i]], scan->prefix);
    }
    for (size_t i = scan->prefix_count;
         i < order->count && scan->after != NULL && code == SQLITE_OK; i++) {
        code = sqlite_bind_column(s, place++, &t->columns[order->column[i]], scan->after);
    }
    return code != SQLITE_OK
               ? code
               : sqlite3_bind_int64(s, place,
                                    scan->limit > INT64_MAX ? INT64_MAX : (int64_t)scan->limit);
}

int sqlite_scan_statement(struct sqlite_provider *p, const struct scan *scan, sqlite3_stmt **out,
                          struct qp_err *err)
{
    struct index_columns order = scan_order(scan);
    size_t of = scan->index >= 0 ? (size_t)TABLE_COUNT + (size_t)scan->index : (size_t)scan->table;
    size_t shape = (of * (INDEX_COLUMNS_MAX + 1) + scan->prefix_count) * 4 +
                   (scan->after != NULL) * 2U + scan->backwards;
    int code;
    QP_ASSERT(shape < SCAN_SHAPES && scan->prefix_count <= order.count);
    QP_ASSERT(scan->after == NULL || scan->prefix_count < order.count);
    if (p->scans[shape] == NULL) {
        buf_reset(&p->sql);
        write_scan_text(&p->sql, scan, &order);
        QP_TRY(prepare_text(p, &p->scans[shape], err));
    }
    code = bind_scan(p->scans[shape], scan, &order);
    if (code != SQLITE_OK) {
        return sqlite_fail(p, code, err, "bind a scan");
    }
    *out = p->scans[shape];
    return QP_OK;
}

void sqlite_statements_done(struct sqlite_provider *p)
{
    for (int t = 0; t < TABLE_COUNT; t++) {
        for (int k = 0; k < STATEMENT_KINDS; k++) {
            (void)sqlite3_finalize(
                p->of_table[t][k]); /* its last error was reported when it happened */
        }
    }
    for (int k = 0; k < PLAIN_KINDS; k++) {
        (void)sqlite3_finalize(p->plain[k]); /* likewise */
    }
    for (size_t k = 0; k < SCAN_SHAPES; k++) {
        (void)sqlite3_finalize(p->scans[k]); /* likewise */
    }
}

int sqlite_bind_key(sqlite3_stmt *s, int place, const struct table *t, const void *row)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < t->key_count && code == SQLITE_OK; i++) {
        code = sqlite_bind_column(s, place + (int)i, &t->columns[i], row);
    }
    return code;
}

/* Runs a statement that returns no rows, and resets it. */
int sqlite_execute(struct sqlite_provider *p, sqlite3_stmt *s, struct qp_err *err, const char *what)
{
    int code = sqlite3_step(s);
    int rc = code == SQLITE_DONE ? QP_OK : sqlite_fail(p, code, err, what);
    (void)sqlite3_reset(s); /* repeats the step's error */
    return rc;
}

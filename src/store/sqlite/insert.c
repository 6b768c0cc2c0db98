/* insert.c - many new rows with one statement
 *
 * A statement for each new row spends half of its instructions on starting, binding and ending, and
 * a tree that grows at its end is searched from its root each time. So the rows of a flush are
 * offered to SQLite as a table, and one INSERT INTO qp_x SELECT .. FROM qp_new_x takes them all: its
 * cursor stays at the end of the tree, and values go from the row into the record.
 *
 *   I1  qp_new_x has rows only while sqlite_insert runs: nobody else, a host callback least of all,
 *       finds any in it
 *   I2  the rows live longer than the statement, so their texts are not copied
 *
 * OR FAIL: a row that is there already ends the statement where it is, and the transaction with it,
 * by the caller; else SQLite would keep a journal for each statement, to take back a part that is
 * never kept.
 */
#include <stdio.h>

#include "store/sqlite/sqlite_internal.h"

struct new_table {
    sqlite3_vtab base; /* must be first: it is what SQLite knows of us */
    const struct sqlite_news *news;
};

struct new_cursor {
    sqlite3_vtab_cursor base; /* must be first */
    size_t place;
};

static const struct sqlite_news *news_of(const sqlite3_vtab_cursor *cursor)
{
    return ((const struct new_table *)cursor->pVtab)->news;
}

/* "CREATE TABLE x(ns,job,...)": only the names matter. */
static int declare(sqlite3 *db, const struct sqlite_news *news)
{
    const struct table *t = &tables[news->table];
    struct buf text;
    int code;
    buf_init(&text, news->env, 0);
    buf_text(&text, "CREATE TABLE x(");
    for (size_t i = 0; i < t->column_count; i++) {
        buf_printf(&text, "%s\"%s\"", i > 0 ? "," : "", t->columns[i].name);
    }
    buf_add(&text, ")", 2); /* with its NUL */
    code = buf_rc(&text) != QP_OK ? SQLITE_NOMEM : sqlite3_declare_vtab(db, text.p);
    buf_done(&text);
    return code;
}

static int new_connect(sqlite3 *db, void *context, int count, const char *const *arguments,
                       sqlite3_vtab **out_table, char **out_error)
{
    const struct sqlite_news *news = context;
    struct new_table *table = mem_alloc(news->env, sizeof *table);
    int code = table == NULL ? SQLITE_NOMEM : declare(db, news);
    (void)count;
    (void)arguments;
    (void)out_error;
    if (code != SQLITE_OK) {
        mem_free(news->env, table);
        return code;
    }
    table->news = news;
    *out_table = &table->base;
    return SQLITE_OK;
}

static int new_disconnect(sqlite3_vtab *base)
{
    struct new_table *table = (struct new_table *)base;
    mem_free(table->news->env, table);
    return SQLITE_OK;
}

/* There is one way through it: from the first row to the last. */
static int new_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    (void)base;
    info->estimatedRows = SQLITE_INSERT_ROWS;
    info->estimatedCost = SQLITE_INSERT_ROWS;
    return SQLITE_OK;
}

static int new_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out_cursor)
{
    struct new_cursor *cursor =
        mem_alloc(((const struct new_table *)base)->news->env, sizeof *cursor);
    if (cursor == NULL) {
        return SQLITE_NOMEM;
    }
    *out_cursor = &cursor->base;
    return SQLITE_OK;
}

static int new_close(sqlite3_vtab_cursor *base)
{
    mem_free(news_of(base)->env, base);
    return SQLITE_OK;
}

static int new_filter(sqlite3_vtab_cursor *base, int plan, const char *name, int count,
                      sqlite3_value **values)
{
    (void)plan;
    (void)name;
    (void)count;
    (void)values;
    ((struct new_cursor *)base)->place = 0;
    return SQLITE_OK;
}

static int new_next(sqlite3_vtab_cursor *base)
{
    ((struct new_cursor *)base)->place++;
    return SQLITE_OK;
}

static int new_eof(sqlite3_vtab_cursor *base)
{
    return ((const struct new_cursor *)base)->place >= news_of(base)->count;
}

static int new_column(sqlite3_vtab_cursor *base, sqlite3_context *out, int place)
{
    const struct sqlite_news *news = news_of(base);
    const struct column *c = &tables[news->table].columns[place];
    const void *row = news->rows[((const struct new_cursor *)base)->place];
    qp_str text;
    if (c->kind == KIND_I64) {
        sqlite3_result_int64(out, row_i64(c, row));
        return SQLITE_OK;
    }
    text = row_str(c, row);
    if (str_is_none(text)) {
        return SQLITE_OK; /* NULL is what it is without a result */
    }
    if (c->kind == KIND_TEXT) {
        sqlite3_result_text64(out, text.p, text.n, SQLITE_STATIC, SQLITE_UTF8);
    } else {
        sqlite3_result_blob64(out, text.p, text.n, SQLITE_STATIC);
    }
    return SQLITE_OK;
}

static int new_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out_rowid)
{
    *out_rowid = (sqlite3_int64)((const struct new_cursor *)base)->place;
    return SQLITE_OK;
}

/* No xCreate: nobody can make a table of it in the file. No xUpdate: it is only read. */
static const sqlite3_module new_module = {
    .xConnect = new_connect,
    .xDisconnect = new_disconnect,
    .xBestIndex = new_best_index,
    .xOpen = new_open,
    .xClose = new_close,
    .xFilter = new_filter,
    .xNext = new_next,
    .xEof = new_eof,
    .xColumn = new_column,
    .xRowid = new_rowid,
};

int sqlite_news_init(struct sqlite_provider *p, struct qp_err *err)
{
    int code = SQLITE_OK;
    for (int i = 0; i < TABLE_COUNT && code == SQLITE_OK; i++) {
        char name[sizeof "qp_new_" + LIMIT_NAME_SIZE];
        (void)snprintf(name, sizeof name, "qp_new_%s", tables[i].name); /* ours, and short */
        p->news[i] = (struct sqlite_news){.env = p->base.env, .table = (enum table_id)i};
        code = sqlite3_create_module_v2(p->db, name, &new_module, &p->news[i], NULL);
    }
    return code == SQLITE_OK ? QP_OK : sqlite_fail(p, code, err, "set up");
}

int sqlite_insert(struct provider *base, enum table_id table, const void *const *rows, size_t count,
                  struct qp_err *err)
{
    struct sqlite_provider *p = (struct sqlite_provider *)base;
    struct sqlite_news *news = &p->news[table];
    sqlite3_stmt *s;
    int code;
    int rc = sqlite_table_statement(p, table, STATEMENT_INSERT, &s, err);
    QP_ASSERT(count > 0 && news->count == 0);
    if (rc != QP_OK) {
        return rc;
    }
    news->rows = rows;
    news->count = count;
    code = sqlite3_step(s);
    rc = code == SQLITE_DONE ? QP_OK : sqlite_fail(p, code, err, "write new rows");
    (void)sqlite3_reset(s); /* repeats the step's error */
    news->rows = NULL;
    news->count = 0;
    if (rc == QP_OK && (size_t)sqlite3_changes(p->db) != count) {
        rc = err_set(err, QP_E_CONFLICT, "%s: %s: not all new rows were written", p->path,
                     tables[table].name);
    }
    return rc;
}

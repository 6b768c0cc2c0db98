/* batch.c - many rows with one statement
 *
 * A statement for each row spends half of its instructions on starting, binding and ending, and
 * a tree that grows at its end is searched from its root each time. So the rows of a flush are
 * offered to SQLite as a table, qp_new_x, and one statement takes them all:
 *
 *   new rows      INSERT INTO qp_x SELECT .. FROM qp_new_x
 *   changed rows  the same, ON CONFLICT(number) DO UPDATE SET .. WHERE the revision is the one before
 *   rows to go    DELETE .. WHERE number IN (SELECT number FROM qp_new_x) AND rev=?
 *
 * Only rows with a number (rows.def) are changed and removed so; others are few. A statement takes
 * only the columns that matter: not what is none in most new rows (RARE, LATER, SELDOM, UNUSUAL), when it is
 * none in these, nor what seldom changes, when it did not. SQLite fills in defaults, or what is there.
 *
 *   I1  qp_new_x has rows only while sqlite_write_all runs: nobody else, a host callback least of
 *       all, finds any in it
 *   I2  the rows live longer than the statement, so their texts are not copied
 *   I3  a changed row that is not there would be inserted: then the connection's last rowid, which
 *       updates leave alone, says so, and the transaction ends
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
    const struct column *columns;
    const void *const *row; /* the current one */
    const void *const *end;
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
    struct new_cursor *cursor = (struct new_cursor *)base;
    const struct sqlite_news *news = news_of(base);
    (void)plan;
    (void)name;
    (void)count;
    (void)values;
    cursor->columns = tables[news->table].columns;
    cursor->row = news->rows;
    cursor->end = news->rows + news->count;
    return SQLITE_OK;
}

static int new_next(sqlite3_vtab_cursor *base)
{
    ((struct new_cursor *)base)->row++;
    return SQLITE_OK;
}

static int new_eof(sqlite3_vtab_cursor *base)
{
    const struct new_cursor *cursor = (const struct new_cursor *)base;
    return cursor->row >= cursor->end;
}

static int new_column(sqlite3_vtab_cursor *base, sqlite3_context *out, int place)
{
    const struct new_cursor *cursor = (const struct new_cursor *)base;
    const struct column *c = &cursor->columns[place];
    qp_str text;
    if (c->kind == KIND_I64) {
        sqlite3_result_int64(out, row_i64(c, *cursor->row));
        return SQLITE_OK;
    }
    text = row_str(c, *cursor->row);
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
    *out_rowid = (sqlite3_int64)(((const struct new_cursor *)base)->row - news_of(base)->rows);
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

/* The role of each word of a row. A number is one word, a text two; nothing lies between them. */
static void roles_init(struct sqlite_provider *p, enum table_id table)
{
    const struct table *t = &tables[table];
    QP_ASSERT(t->row_size <= SQLITE_ROW_WORDS * sizeof(int64_t));
    for (size_t i = 0; i < t->column_count; i++) {
        size_t word = t->columns[i].offset / sizeof(int64_t);
        p->roles[table][word] = (uint8_t)t->columns[i].role;
        if (t->columns[i].kind != KIND_I64) {
            p->roles[table][word + 1] = (uint8_t)t->columns[i].role;
        }
    }
}

int sqlite_news_init(struct sqlite_provider *p, struct qp_err *err)
{
    int code = SQLITE_OK;
    static_assert(sizeof(qp_str) == 2 * sizeof(int64_t), "a text is two words of a row");
    for (int i = 0; i < TABLE_COUNT && code == SQLITE_OK; i++) {
        roles_init(p, (enum table_id)i);
        char name[sizeof "qp_new_" + LIMIT_NAME_SIZE];
        (void)snprintf(name, sizeof name, "qp_new_%s", tables[i].name); /* ours, and short */
        p->news[i] = (struct sqlite_news){.env = p->base.env, .table = (enum table_id)i};
        code = sqlite3_create_module_v2(p->db, name, &new_module, &p->news[i], NULL);
    }
    return code == SQLITE_OK ? QP_OK : sqlite_fail(p, code, err, "set up");
}

/* Runs a statement over `rows`; it must change each of them. */
static int execute_over(struct sqlite_provider *p, enum table_id table, enum table_statement kind,
                        const void *const *rows, size_t count, struct qp_err *err)
{
    struct sqlite_news *news = &p->news[table];
    const struct table *t = &tables[table];
    sqlite3_stmt *s;
    int code;
    int rc = sqlite_table_statement(p, table, kind, &s, err);
    QP_ASSERT(count > 0 && news->count == 0);
    if (rc != QP_OK) {
        return rc;
    }
    code = kind != STATEMENT_REMOVE
               ? SQLITE_OK
               : sqlite_bind_column(s, 1, &t->columns[t->column_count - 1], rows[0]);
    news->rows = rows;
    news->count = count;
    code = code == SQLITE_OK ? sqlite3_step(s) : code;
    rc = code == SQLITE_DONE ? QP_OK : sqlite_fail(p, code, err, "write rows");
    (void)sqlite3_reset(s); /* repeats the step's error */
    news->rows = NULL;
    news->count = 0;
    if (rc == QP_OK && (size_t)sqlite3_changes(p->db) != count) {
        rc = err_set(err, QP_E_CONFLICT, "%s: %s: a row has changed since it was read", p->path,
                     t->name);
    }
    return rc;
}

/* Rows that one statement changes. */
struct like_rows {
    const void *rows[WRITE_ALL_MAX];
    size_t count;
};

static int change_all(struct sqlite_provider *p, enum table_id table, enum table_statement kind,
                      const struct like_rows *like, struct qp_err *err)
{
    if (like->count == 0) {
        return QP_OK;
    }
    sqlite3_set_last_insert_rowid(p->db, 0); /* no number is 0 */
    QP_TRY(execute_over(p, table, kind, like->rows, like->count, err));
    return sqlite3_last_insert_rowid(p->db) == 0
               ? QP_OK
               : err_set(err, QP_E_CONFLICT, "%s: %s: a row has gone since it was read", p->path,
                         tables[table].name);
}

static int64_t word_of(const void *row, size_t word)
{
    int64_t value;
    memcpy(&value, (const char *)row + word * sizeof value, sizeof value);
    return value;
}

/* Which update: the one of the columns that change with every step, when no other did. Rows are compared word by word:
 * a text that was not touched is the same bytes at the same place, and one that is equal at another place is written
 * again. A row that was deleted and made again in one commit is another row under the same key: all of it changes. */
static enum table_statement update_kind(const struct sqlite_provider *p, enum table_id table,
                                        const void *before, const void *after)
{
    const uint8_t *roles = p->roles[table];
    size_t rev = tables[table].row_size / sizeof(int64_t) - 1;
    enum table_statement kind = STATEMENT_UPDATE_HOT;
    for (size_t word = 0; word < rev; word++) {
        if (word_of(before, word) == word_of(after, word)) {
            continue;
        }
        switch ((int)roles[word]) {
        case ROLE_KEY: /* an equal text */
        case ROLE_HOT:
        case ROLE_LATER:
            break;
        case ROLE_UNUSUAL:
            kind = STATEMENT_UPDATE_WIDE;
            break;
        case ROLE_SELDOM:
        case ROLE_INDEXED:
        case ROLE_SUM:
            kind = kind == STATEMENT_UPDATE_WIDE ? kind : STATEMENT_UPDATE;
            break;
        default:
            return STATEMENT_UPDATE_ALL;
        }
    }
    return kind;
}

/* Those of which only what every step changes did, those with more and those with much more, and, one by
 * one, those that are other rows under the same key. */
static int write_changes(struct sqlite_provider *p, enum table_id table, const void *const *before,
                         const void *const *after, size_t count, struct qp_err *err)
{
    struct like_rows hot;
    struct like_rows more;
    struct like_rows wide;
    hot.count = 0; /* the rest needs no value */
    more.count = 0;
    wide.count = 0;
    for (size_t i = 0; i < count; i++) {
        switch ((int)update_kind(p, table, before[i], after[i])) {
        case STATEMENT_UPDATE_HOT:
            hot.rows[hot.count++] = after[i];
            break;
        case STATEMENT_UPDATE:
            more.rows[more.count++] = after[i];
            break;
        case STATEMENT_UPDATE_WIDE:
            wide.rows[wide.count++] = after[i];
            break;
        default:
            QP_TRY(sqlite_write(&p->base, table, before[i], after[i], err));
        }
    }
    QP_TRY(change_all(p, table, STATEMENT_CHANGE_HOT, &hot, err));
    QP_TRY(change_all(p, table, STATEMENT_CHANGE, &more, err));
    return change_all(p, table, STATEMENT_CHANGE_WIDE, &wide, err);
}

/* From one row to the next as long as they have the same revision; most were written once. */
static int remove_all(struct sqlite_provider *p, enum table_id table, const void *const *rows,
                      size_t count, struct qp_err *err)
{
    const struct table *t = &tables[table];
    const struct column *rev = &t->columns[t->column_count - 1];
    size_t from = 0;
    int rc = QP_OK;
    while (from < count && rc == QP_OK) {
        size_t to = from + 1;
        while (to < count && row_i64(rev, rows[to]) == row_i64(rev, rows[from])) {
            to++;
        }
        rc = execute_over(p, table, STATEMENT_REMOVE, rows + from, to - from, err);
        from = to;
    }
    return rc;
}

static int write_news(struct sqlite_provider *p, enum table_id table, const void *const *rows,
                      size_t count, struct qp_err *err)
{
    const void *plain[WRITE_ALL_MAX];
    const void *other[WRITE_ALL_MAX];
    size_t plain_count = 0;
    size_t other_count = 0;
    int rc = QP_OK;
    for (size_t i = 0; i < count; i++) {
        if (row_is_plain(table, rows[i])) {
            plain[plain_count++] = rows[i];
        } else {
            other[other_count++] = rows[i];
        }
    }
    if (plain_count > 0) {
        rc = execute_over(p, table, STATEMENT_INSERT_PLAIN, plain, plain_count, err);
    }
    if (rc == QP_OK && other_count > 0) {
        rc = execute_over(p, table, STATEMENT_INSERT, other, other_count, err);
    }
    return rc;
}

int sqlite_write_all(struct provider *base, enum table_id table, const void *const *before,
                     const void *const *after, size_t count, struct qp_err *err)
{
    struct sqlite_provider *p = (struct sqlite_provider *)base;
    int rc = QP_OK;
    QP_ASSERT(count <= WRITE_ALL_MAX);
    if (before == NULL) {
        return tables[table].number > 0
                   ? write_news(p, table, after, count, err)
                   : execute_over(p, table, STATEMENT_INSERT, after, count, err);
    }
    if (tables[table].number > 0 && count > 1) {
        return after == NULL ? remove_all(p, table, before, count, err)
                             : write_changes(p, table, before, after, count, err);
    }
    for (size_t i = 0; i < count && rc == QP_OK; i++) {
        rc = sqlite_write(base, table, before[i], after == NULL ? NULL : after[i], err);
    }
    return rc;
}

/* ----------------------------------------------------------------------------------------- one row */

static int bind_changes(sqlite3_stmt *s, const struct table *t, enum table_statement kind,
                        const void *after, int *place)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < t->column_count && code == SQLITE_OK; i++) {
        if (sqlite_writes(kind, t->columns[i].role)) {
            code = sqlite_bind_column(s, (*place)++, &t->columns[i], after);
        }
    }
    return code;
}

/* What add_row_condition compares. */
static int bind_row(sqlite3_stmt *s, int place, const struct table *t, const void *before)
{
    int count = t->number > 0 ? 1 : (int)t->key_count;
    int code = t->number > 0 ? sqlite_bind_column(s, place, &t->columns[t->number], before)
                             : sqlite_bind_key(s, place, t, before);
    return code == SQLITE_OK
               ? sqlite_bind_column(s, place + count, &t->columns[t->column_count - 1], before)
               : code;
}

static int bind_write(sqlite3_stmt *s, const struct table *t, enum table_statement kind,
                      const void *before, const void *after)
{
    int place = 1;
    int code = after != NULL ? bind_changes(s, t, kind, after, &place) : SQLITE_OK;
    return code == SQLITE_OK ? bind_row(s, place, t, before) : code;
}

int sqlite_write(struct provider *base, enum table_id table, const void *before, const void *after,
                 struct qp_err *err)
{
    struct sqlite_provider *p = sqlite_self(base);
    const struct table *t = &tables[table];
    enum table_statement kind;
    sqlite3_stmt *s;
    int code;
    int rc;
    if (before == NULL) {
        return sqlite_write_all(base, table, NULL, &after, 1, err);
    }
    kind = after == NULL ? STATEMENT_DELETE : update_kind(p, table, before, after);
    rc = sqlite_table_statement(p, table, kind, &s, err);
    if (rc != QP_OK) {
        return rc;
    }
    code = bind_write(s, t, kind, before, after);
    if (table == TABLE_head && after != NULL) {
        p->head_rev = ((const struct head_row *)after)->rev;
    }
    rc = code == SQLITE_OK ? sqlite_execute(p, s, err, "write a row")
                           : sqlite_fail(p, code, err, "bind a row");
    if (rc == QP_OK && sqlite3_changes(p->db) != 1) {
        rc = err_set(err, QP_E_CONFLICT, "%s: %s: the row has changed since it was read", p->path,
                     t->name);
    }
    return rc;
}

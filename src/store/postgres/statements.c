/* statements.c - the SQL of the provider, from the descriptors of the tables
 *
 * Each text is put together once, out of the names of schema, tables and columns alone, and prepared
 * when a connection first needs it. Values are always parameters.
 *
 * Many rows travel as one array per column: unnest makes rows of them again. A statement that changes
 * or deletes ends in `expect`, a function of the schema that fails when fewer rows were changed than
 * were sent: nothing can look at a count in the middle of a pipeline, and COMMIT is behind it.
 *
 * A lane of a limit key that has fallen to zero is a husk: the row stays until housekeeping takes it
 * away, and everybody acts as if it were not there.
 */
#include "store/postgres/postgres_internal.h"

/* `own` is below zero on a row that was taken away, whatever its key. */
#define NOT_HUSK "(ready<>0 OR held<>0 OR own>0 OR (own=0 AND limit_key=''))"
#define R_IS_HUSK "r.ready=0 AND r.held=0 AND (r.own<0 OR (r.own=0 AND r.limit_key<>''))"

/* One node at a time keeps house, and the others do not wait for it; till the end of the transaction, so
 * that one that falls silent does not keep it. Asked once per statement. */
#define IS_HOUSEKEEPER "(SELECT pg_try_advisory_xact_lock(5855313491))"

static const char *const index_conditions[INDEX_COUNT] = {
#define CONDITION(name, table, columns, sql, condition) sql,
    STORE_INDEXES(CONDITION, CONDITION)
#undef CONDITION
};

/* %1$s is the schema. */
static const char *const plain_texts[PLAIN_KINDS] = {
    [PLAIN_BEGIN] = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    [PLAIN_COMMIT] = "COMMIT",
    [PLAIN_ROLLBACK] = "ROLLBACK",
    [PLAIN_SNAPSHOT] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    /* Two statements: what the second one sees was committed before the lock was had. */
    [PLAIN_ENTER] = "SELECT pg_try_advisory_xact_lock_shared(" POSTGRES_STORE_LOCK ")::int::bigint",
    [PLAIN_STATE] = "SELECT floor(extract(epoch FROM clock_timestamp())*1000)::bigint, pos, rev,"
                    " coalesce((SELECT n FROM %s.definition WHERE ns=0),0) FROM %s.head WHERE ns=0",
    [PLAIN_XID] = "SELECT pg_current_xact_id()::text::bigint",
    [PLAIN_XID_IF_ANY] = "SELECT pg_current_xact_id_if_assigned()::text::bigint",
    [PLAIN_LOCK_JOB] =
        "SELECT 1::bigint FROM %s.job WHERE ns=$1::bigint AND job=$2::bigint FOR NO KEY UPDATE",
    [PLAIN_ORDERS] = "SELECT nextval('%s.orders')",
    [PLAIN_IDS] = "SELECT nextval('%s.ids')",
    [PLAIN_SETTLED] = "SELECT pos + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20)"
                      " FROM %s.head",
    /* 1 committed, 2 aborted, 3 in progress, 0 nobody knows; then whether the proof is there. */
    /* A server that was killed gives out again the ids of which its log knows nothing: whatever has
     * such an id now, or will have it, was not committed. */
    [PLAIN_STATUS] = "SELECT CASE WHEN $1::bigint>=pg_current_xact_id()::text::bigint THEN 2 ELSE"
                     " CASE pg_xact_status($1::bigint::text::xid8) WHEN 'committed' THEN 1"
                     " WHEN 'aborted' THEN 2 WHEN 'in progress' THEN 3 ELSE 0 END END::bigint,"
                     " (SELECT count(*) FROM %s.feed WHERE ns=0 AND pos=$2::bigint AND"
                     " \"at\"=$3::bigint)",
    [PLAIN_TIDIES] = "SELECT " IS_HOUSEKEEPER "::int::bigint",
    [PLAIN_KEEP_CLOCK] = "UPDATE %s.head SET clock=$1::bigint WHERE ns=0 AND clock<$1::bigint"
                         " AND rev=$2::bigint AND " IS_HOUSEKEEPER,
    [PLAIN_HUSKS] =
        "DELETE FROM %s.lane WHERE ctid=ANY(ARRAY(SELECT ctid FROM %s.lane"
        " WHERE NOT " NOT_HUSK " AND " IS_HOUSEKEEPER " LIMIT $1::bigint FOR UPDATE SKIP LOCKED))",
    [PLAIN_ZEROES] = "DELETE FROM %s.counter WHERE ctid=ANY(ARRAY(SELECT ctid FROM %s.counter"
                     " WHERE n=0 AND " IS_HOUSEKEEPER " LIMIT $1::bigint FOR UPDATE SKIP LOCKED))",
    [PLAIN_HEAD] = "WITH w AS (UPDATE %s.head SET pos=pos+$1::bigint, clock=$2::bigint,"
                   " clean=$3::bigint, rev=$4::bigint WHERE ns=0 AND rev=$5::bigint RETURNING 1)"
                   " SELECT %s.expect(count(*),1) FROM w",
    [PLAIN_RAISE_ORDERS] = "SELECT setval('%s.orders',$1::bigint,false)",
    [PLAIN_RAISE_IDS] = "SELECT setval('%s.ids',$1::bigint,false)",
};

/* ------------------------------------------------------------------------------------ the pieces */

static void add_columns(struct buf *b, const struct table *t)
{
    for (size_t i = 0; i < t->column_count; i++) {
        buf_printf(b, "%s\"%s\"", i > 0 ? "," : "", t->columns[i].name);
    }
}

/* The same, with nothing in place of payloads. */
static void add_slim_columns(struct buf *b, const struct table *t)
{
    for (size_t i = 0; i < t->column_count; i++) {
        buf_printf(b, column_is_payload(&t->columns[i]) ? "%sNULL::bytea AS \"%s\"" : "%s\"%s\"",
                   i > 0 ? "," : "", t->columns[i].name);
    }
}

/* The head's numbers are in sequences and in transaction ids: what may have been given out. */
static void add_head(struct buf *b, const char *schema)
{
    buf_printf(b,
               "(SELECT ns, pos+((pg_snapshot_xmax(pg_current_snapshot())::text::bigint+1)<<20)"
               " AS pos, (SELECT CASE WHEN is_called THEN last_value+4095 ELSE last_value-1 END"
               " FROM %s.orders) AS ord, clock, (SELECT CASE WHEN is_called THEN last_value+131072"
               " ELSE last_value END FROM %s.ids) AS next_id, clean, rev FROM %s.head) AS head",
               schema, schema, schema);
}

static void add_from(struct buf *b, const char *schema, enum table_id table)
{
    buf_text(b, " FROM ");
    if (table == TABLE_head) {
        add_head(b, schema);
    } else {
        buf_printf(b, "%s.%s", schema, tables[table].name);
    }
    buf_printf(b, " WHERE %s", table == TABLE_lane ? NOT_HUSK : "true");
}

static const char *type_of(const struct column *c)
{
    return c->kind == KIND_I64 ? "bigint" : "bytea";
}

static void add_key_condition(struct buf *b, const struct table *t)
{
    for (size_t i = 0; i < t->key_count; i++) {
        buf_printf(b, " AND \"%s\"=$%zu::%s", t->columns[i].name, i + 1, type_of(&t->columns[i]));
    }
}

/* A job's rows are protected by the lock on the job. */
static const char *lock_of(enum table_id table)
{
    return table == TABLE_job                                  ? " FOR NO KEY UPDATE"
           : tables[table].keyed_by_job || table == TABLE_head ? ""
                                                               : " FOR UPDATE";
}

bool postgres_writes(enum table_statement kind, enum column_role role)
{
    bool born = kind == STATEMENT_INSERT || kind == STATEMENT_INSERT_PLAIN;
    bool all = kind == STATEMENT_INSERT || kind == STATEMENT_UPDATE_ALL;
    switch (role) {
    case ROLE_HOT:
    case ROLE_REV:
        return true;
    case ROLE_LATER:
        return kind != STATEMENT_INSERT_PLAIN;
    case ROLE_SELDOM:
    case ROLE_UNUSUAL:
        return all || kind == STATEMENT_UPDATE;
    case ROLE_INDEXED:
    case ROLE_SUM:
        return kind != STATEMENT_UPDATE_HOT;
    case ROLE_NUMBER:
    case ROLE_FIXED:
        return all || born;
    case ROLE_RARE:
        return all;
    case ROLE_KEY:
        return born;
    }
    return false;
}

/* unnest($1::bigint[],$2::bytea[],..) AS d(..): the columns that a statement takes, in order; with
 * `was`, the keys besides and, at the end, the revision of the row that is replaced. */
static size_t add_rows(struct buf *b, const struct table *t, enum table_statement kind, bool was)
{
    size_t count = 0;
    buf_text(b, "unnest(");
    for (size_t i = 0; i < t->column_count; i++) {
        if (postgres_writes(kind, t->columns[i].role) || (was && i < t->key_count)) {
            buf_printf(b, "%s$%zu::%s[]", count > 0 ? "," : "", count + 1, type_of(&t->columns[i]));
            count++;
        }
    }
    if (was) {
        buf_printf(b, ",$%zu::bigint[]", ++count);
    }
    buf_text(b, ") AS d(");
    for (size_t i = 0, place = 0; i < t->column_count; i++) {
        if (postgres_writes(kind, t->columns[i].role) || (was && i < t->key_count)) {
            buf_printf(b, "%s\"%s\"", place++ > 0 ? "," : "", t->columns[i].name);
        }
    }
    buf_text(b, was ? ",was)" : ")");
    return count;
}

static void add_taken(struct buf *b, const struct table *t, enum table_statement kind)
{
    const char *comma = "";
    for (size_t i = 0; i < t->column_count; i++) {
        if (postgres_writes(kind, t->columns[i].role)) {
            buf_printf(b, "%s\"%s\"", comma, t->columns[i].name);
            comma = ",";
        }
    }
}

static void add_insert(struct buf *b, const char *schema, const struct table *t,
                       enum table_statement kind)
{
    buf_printf(b, "INSERT INTO %s.%s AS r(", schema, t->name);
    add_taken(b, t, kind);
    buf_text(b, ") SELECT ");
    add_taken(b, t, kind);
    buf_text(b, " FROM ");
    (void)add_rows(b, t, kind, false); /* how many does not matter here */
}

static void add_same_row(struct buf *b, const struct table *t)
{
    buf_text(b, " WHERE ");
    for (size_t i = 0; i < t->key_count; i++) {
        buf_printf(b, "%sr.\"%s\"=d.\"%s\"", i > 0 ? " AND " : "", t->columns[i].name,
                   t->columns[i].name);
    }
}

static void add_end(struct buf *b, const char *schema, size_t count)
{
    buf_printf(b, " RETURNING 1) SELECT %s.expect(count(*),$%zu::bigint) FROM w", schema,
               count + 1);
}

static void add_update(struct buf *b, const char *schema, const struct table *t,
                       enum table_statement kind)
{
    size_t count;
    buf_printf(b, "WITH w AS (UPDATE %s.%s AS r SET ", schema, t->name);
    for (size_t i = t->key_count; i < t->column_count; i++) {
        const char *name = t->columns[i].name;
        if (postgres_writes(kind, t->columns[i].role)) {
            buf_printf(b, "\"%s\"=d.\"%s\"%s", name, name, i + 1 < t->column_count ? "," : "");
        }
    }
    buf_text(b, " FROM ");
    count = add_rows(b, t, kind, true);
    add_same_row(b, t);
    buf_text(b, " AND r.rev=d.was");
    add_end(b, schema, count);
}

static void add_delete(struct buf *b, const char *schema, const struct table *t)
{
    buf_printf(b, "WITH w AS (DELETE FROM %s.%s AS r USING unnest(", schema, t->name);
    for (size_t i = 0; i < t->key_count; i++) {
        buf_printf(b, "$%zu::%s[],", i + 1, type_of(&t->columns[i]));
    }
    buf_printf(b, "$%zu::bigint[]) AS d(", t->key_count + 1);
    for (size_t i = 0; i < t->key_count; i++) {
        buf_printf(b, "\"%s\",", t->columns[i].name);
    }
    buf_text(b, "was)");
    add_same_row(b, t);
    buf_text(b, " AND r.rev=d.was");
    add_end(b, schema, t->key_count + 1);
}

/* -1: it is taken away, unless others have something in it, or a setting; -2: with its setting, which
 * this very transaction had made. */
static void add_own(struct buf *b)
{
    buf_text(b, "own=CASE WHEN d.own<0 AND r.ready+d.ready=0 AND r.held+d.held=0"
                " AND (r.own<=0 OR d.own=-2) THEN -1"
                " WHEN d.own>=0 THEN d.own ELSE greatest(r.own,0) END,");
}

/* Differences to rows that were there when they were read; what did not change comes as NULL. One that
 * housekeeping took away since makes the commit run again. */
static void add_add(struct buf *b, const char *schema, const struct table *t)
{
    size_t count;
    buf_printf(b, "WITH w AS (UPDATE %s.%s AS r SET ", schema, t->name);
    for (size_t i = t->key_count; i < t->column_count - 1; i++) {
        const char *name = t->columns[i].name;
        if (t->columns[i].role == ROLE_SUM) {
            buf_printf(b, "\"%s\"=r.\"%s\"+d.\"%s\",", name, name, name);
        } else if (strcmp(name, "own") == 0) {
            add_own(b);
        } else {
            buf_printf(b, "\"%s\"=coalesce(d.\"%s\",r.\"%s\"),", name, name, name);
        }
    }
    buf_text(b, "rev=r.rev+1 FROM ");
    count = add_rows(b, t, STATEMENT_INSERT, false);
    add_same_row(b, t);
    add_end(b, schema, count);
}

/* Rows that were not there when they were read. By now another may have made them: then its settings
 * stand, unless what it left is a husk, or ours is a setting for this very lane. */
static void add_add_new(struct buf *b, const char *schema, const struct table *t)
{
    bool lane = t == &tables[TABLE_lane];
    add_insert(b, schema, t, STATEMENT_INSERT);
    buf_text(b, " ON CONFLICT(");
    for (size_t i = 0; i < t->key_count; i++) {
        buf_printf(b, "%s\"%s\"", i > 0 ? "," : "", t->columns[i].name);
    }
    buf_text(b, ") DO UPDATE SET ");
    for (size_t i = t->key_count; i < t->column_count - 1; i++) {
        const char *name = t->columns[i].name;
        if (t->columns[i].role == ROLE_SUM) {
            buf_printf(b, "\"%s\"=r.\"%s\"+excluded.\"%s\",", name, name, name);
        } else {
            buf_printf(b,
                       "\"%s\"=CASE WHEN excluded.own=1 OR (" R_IS_HUSK
                       ") THEN excluded.\"%s\" ELSE r.\"%s\" END,",
                       name, name, name);
        }
    }
    buf_text(b, lane ? "rev=CASE WHEN " R_IS_HUSK " THEN excluded.rev ELSE r.rev+1 END"
                     : "rev=r.rev+1");
}

/* The rows of many jobs; of one with much text the text does not come, and the last column says so. */
static void add_fetch(struct buf *b, const char *schema, enum table_id table)
{
    const struct table *t = &tables[table];
    buf_text(b, "SELECT ");
    for (size_t i = 0; i < t->column_count; i++) {
        const char *name = t->columns[i].name;
        if (t->columns[i].kind == KIND_BLOB && i >= t->key_count) {
            buf_printf(b, "CASE WHEN octet_length(r.\"%s\")<=%d THEN r.\"%s\" END,", name,
                       LIMIT_FETCH_ROW_SIZE, name);
        } else {
            buf_printf(b, "r.\"%s\",", name);
        }
    }
    buf_text(b, "(false");
    for (size_t i = t->key_count; i < t->column_count; i++) {
        if (t->columns[i].kind == KIND_BLOB) {
            buf_printf(b, " OR coalesce(octet_length(r.\"%s\"),0)>%d", t->columns[i].name,
                       LIMIT_FETCH_ROW_SIZE);
        }
    }
    buf_printf(b,
               ")::int::bigint FROM unnest($1::bigint[],$2::bigint[]) AS d(ns,job) JOIN %s.%s AS r"
               " ON r.ns=d.ns AND r.job=d.job",
               schema, t->name);
    if (table == TABLE_job) {
        buf_text(b, " ORDER BY r.job FOR NO KEY UPDATE OF r");
    } else {
        buf_printf(b, " JOIN %s.job AS j ON j.ns=d.ns AND j.job=d.job WHERE j.seq<=%d", schema,
                   LIMIT_FETCH_SEQ);
    }
}

/* ------------------------------------------------------------------------------------- the texts */

static void write_table_text(struct buf *b, const char *schema, enum table_id table,
                             enum table_statement kind)
{
    const struct table *t = &tables[table];
    switch (kind) {
    case STATEMENT_LOAD:
    case STATEMENT_LOAD_SLIM:
    case STATEMENT_LOAD_LOCK:
        buf_text(b, "SELECT ");
        (kind == STATEMENT_LOAD_SLIM ? add_slim_columns : add_columns)(b, t);
        add_from(b, schema, table);
        add_key_condition(b, t);
        buf_text(b, kind == STATEMENT_LOAD_LOCK ? lock_of(table) : "");
        break;
    case STATEMENT_FETCH:
        add_fetch(b, schema, table);
        break;
    case STATEMENT_INSERT:
    case STATEMENT_INSERT_PLAIN:
        add_insert(b, schema, t, kind);
        break;
    case STATEMENT_UPDATE_HOT:
    case STATEMENT_UPDATE:
    case STATEMENT_UPDATE_ALL:
        add_update(b, schema, t, kind);
        break;
    case STATEMENT_DELETE:
        add_delete(b, schema, t);
        break;
    case STATEMENT_ADD:
        add_add(b, schema, t);
        break;
    case STATEMENT_ADD_NEW:
        add_add_new(b, schema, t);
        break;
    case STATEMENT_KINDS:
        break;
    }
}

/* Keeps the text that was written into p->sql. */
static int keep_text(struct postgres_provider *p, struct wire_statement *s, struct qp_err *err)
{
    buf_byte(&p->sql, '\0');
    if (buf_rc(&p->sql) == QP_OK) {
        s->text = mem_alloc(p->base.env, p->sql.n);
    }
    if (s->text == NULL) {
        return err_set(err, QP_E_NOMEM, "prepare: out of memory");
    }
    memcpy(s->text, p->sql.p, p->sql.n);
    s->number = ++p->wire.statements;
    s->connection = 0;
    return QP_OK;
}

int postgres_table_statement(struct postgres_provider *p, enum table_id table,
                             enum table_statement kind, struct wire_statement **out,
                             struct qp_err *err)
{
    int rc = QP_OK;
    *out = &p->of_table[table][kind];
    if ((*out)->text == NULL) {
        buf_reset(&p->sql);
        write_table_text(&p->sql, p->schema, table, kind);
        rc = keep_text(p, *out, err);
    }
    return rc;
}

int postgres_plain_statement(struct postgres_provider *p, enum plain_statement kind,
                             struct wire_statement **out, struct qp_err *err)
{
    const char *rest = plain_texts[kind];
    const char *gap;
    *out = &p->plain[kind];
    if ((*out)->text != NULL) {
        return QP_OK;
    }
    buf_reset(&p->sql);
    while ((gap = strstr(rest, "%s")) != NULL) {
        buf_add(&p->sql, rest, (size_t)(gap - rest));
        buf_text(&p->sql, p->schema);
        rest = gap + 2;
    }
    buf_text(&p->sql, rest);
    return keep_text(p, *out, err);
}

/* The order of a scan: an index's columns, or the key's, up to one that no two rows share. */
static struct index_columns scan_order(const struct scan *scan)
{
    const struct table *t = &tables[scan->table];
    struct index_columns c = {.count = t->key_count};
    for (size_t i = 0; i < c.count; i++) {
        c.column[i] = i;
    }
    c = scan->index >= 0 ? index_columns((enum index_id)scan->index) : c;
    for (size_t i = 0; i < c.count && t->number > 0; i++) {
        if (c.column[i] == t->number && scan->table != TABLE_job && scan->prefix_count <= i) {
            c.count = i + 1;
        }
    }
    return c;
}

static void add_order(struct buf *b, const struct table *t, const struct index_columns *order,
                      size_t from, const char *suffix)
{
    for (size_t i = from; i < order->count; i++) {
        buf_printf(b, "%s\"%s\"%s", i > from ? "," : "", t->columns[order->column[i]].name, suffix);
    }
}

static void write_scan_text(struct buf *b, const char *schema, const struct scan *scan,
                            const struct index_columns *order, enum scan_lock lock)
{
    static const char *const locks[SCAN_LOCKS] = {"", " FOR UPDATE", " FOR UPDATE SKIP LOCKED"};
    const struct table *t = &tables[scan->table];
    size_t place = 1;
    buf_text(b, "SELECT ");
    (scan->slim ? add_slim_columns : add_columns)(b, t);
    add_from(b, schema, scan->table);
    if (scan->index >= 0 && strcmp(index_conditions[scan->index], "1") != 0) {
        buf_printf(b, " AND (%s)", index_conditions[scan->index]);
    }
    for (size_t i = 0; i < scan->prefix_count; i++) {
        const struct column *c = &t->columns[order->column[i]];
        buf_printf(b, " AND \"%s\"=$%zu::%s", c->name, place++, type_of(c));
    }
    if (scan->after != NULL) {
        buf_text(b, " AND (");
        add_order(b, t, order, scan->prefix_count, "");
        buf_text(b, scan->backwards ? ")<(" : ")>(");
        for (size_t i = scan->prefix_count; i < order->count; i++) {
            buf_printf(b, "%s$%zu::%s", i > scan->prefix_count ? "," : "", place++,
                       type_of(&t->columns[order->column[i]]));
        }
        buf_text(b, ")");
    }
    if (scan->prefix_count < order->count) {
        buf_text(b, " ORDER BY ");
        add_order(b, t, order, scan->prefix_count, scan->backwards ? " DESC" : "");
    }
    buf_printf(b, " LIMIT $%zu::bigint%s", place, locks[lock]);
}

int postgres_scan_statement(struct postgres_provider *p, const struct scan *scan,
                            enum scan_lock lock, struct wire_statement **out, struct qp_err *err)
{
    struct index_columns order = scan_order(scan);
    size_t of = scan->index >= 0 ? (size_t)TABLE_COUNT + (size_t)scan->index : (size_t)scan->table;
    size_t how =
        (size_t)(scan->after != NULL ? 4 : 0) + (scan->backwards ? 2 : 0) + (scan->slim ? 1 : 0);
    size_t shape =
        ((of * (INDEX_COLUMNS_MAX + 1) + scan->prefix_count) * 8 + how) * SCAN_LOCKS + lock;
    QP_ASSERT(shape < SCAN_SHAPES && scan->prefix_count <= order.count);
    QP_ASSERT(scan->after == NULL || scan->prefix_count < order.count);
    *out = &p->scans[shape];
    if ((*out)->text != NULL) {
        return QP_OK;
    }
    buf_reset(&p->sql);
    write_scan_text(&p->sql, p->schema, scan, &order, lock);
    return keep_text(p, *out, err);
}

static void put_column(struct wire_params *out, const struct column *c, const void *row)
{
    if (c->kind == KIND_I64) {
        wire_param_i64(out, row_i64(c, row));
    } else {
        wire_param_str(out, row_str(c, row));
    }
}

void postgres_scan_params(struct wire_params *out, const struct scan *scan, size_t limit)
{
    const struct table *t = &tables[scan->table];
    struct index_columns order = scan_order(scan);
    for (size_t i = 0; i < scan->prefix_count; i++) {
        put_column(out, &t->columns[order.column[i]], scan->prefix);
    }
    for (size_t i = scan->prefix_count; i < order.count && scan->after != NULL; i++) {
        put_column(out, &t->columns[order.column[i]], scan->after);
    }
    wire_param_i64(out, (int64_t)limit);
}

static void texts_free(const struct qp_env *env, struct wire_statement *s, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mem_free(env, s[i].text);
    }
}

void postgres_statements_done(struct postgres_provider *p)
{
    texts_free(p->base.env, &p->of_table[0][0], (size_t)TABLE_COUNT * STATEMENT_KINDS);
    texts_free(p->base.env, p->plain, PLAIN_KINDS);
    texts_free(p->base.env, p->scans, SCAN_SHAPES);
}

/* test_schema.c - the SQLite file has the columns of rows.def, and every scan is answered by its
 * index alone */
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "store/sqlite/sqlite_internal.h"
#include "support/storetest.h"

static struct storetest f;

static sqlite3 *open_beside(void)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open_v2(f.path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    return db;
}

static const struct column *column_named(const struct table *d, const char *name, size_t *out_at)
{
    for (*out_at = 0; *out_at < d->column_count; ++*out_at) {
        if (strcmp(d->columns[*out_at].name, name) == 0) {
            return &d->columns[*out_at];
        }
    }
    fail_msg("qp_%s has a column '%s' that rows.def has not", d->name, name);
    return NULL;
}

/* rows.def and the migrations say the same: names, types and keys of all columns. Their order is not the same: a column
 * that a later migration adds is the last one of its table. */
static void test_columns_are_those_of_rows_def(void **state)
{
    sqlite3 *db;
    (void)state;
    storetest_init(&f, STORETEST_SQLITE, 1);
    db = open_beside();
    for (int i = 0; i < TABLE_COUNT; i++) {
        const struct table *d = &tables[i];
        char sql[128];
        sqlite3_stmt *s;
        size_t c = 0;
        (void)snprintf(sql, sizeof sql,
                       "SELECT name, type, pk FROM pragma_table_info('qp_%s') ORDER BY cid",
                       d->name);
        assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
        for (; sqlite3_step(s) == SQLITE_ROW; c++) {
            static const char *const types[] = {"INTEGER", "TEXT", "BLOB"};
            size_t at;
            const struct column *column =
                column_named(d, (const char *)sqlite3_column_text(s, 0), &at);
            assert_string_equal(sqlite3_column_text(s, 1), types[column->kind]);
            assert_int_equal(sqlite3_column_int(s, 2), d->number > 0       ? at == d->number
                                                       : at < d->key_count ? at + 1
                                                                           : 0);
        }
        assert_int_equal(c, d->column_count);
        (void)sqlite3_finalize(s);
    }
    (void)sqlite3_close(db);
    storetest_done(&f);
}

/* No table or index of ours is unknown to rows.def, and none is missing. */
static void test_nothing_else_is_there(void **state)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    (void)state;
    storetest_init(&f, STORETEST_SQLITE, 1);
    db = open_beside();
    assert_int_equal(
        sqlite3_prepare_v2(
            db,
            "SELECT count(*) FILTER (WHERE type='table'), count(*) FILTER (WHERE type='index' "
            "AND sql IS NOT NULL) FROM sqlite_schema",
            -1, &s, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(s, 0), TABLE_COUNT);
    assert_int_equal(sqlite3_column_int(s, 1), INDEX_COUNT);
    (void)sqlite3_finalize(s);
    (void)sqlite3_close(db);
    storetest_done(&f);
}

static void assert_plan_is_a_walk(sqlite3 *db, const char *sql)
{
    char explain[4096];
    sqlite3_stmt *s;
    (void)snprintf(explain, sizeof explain, "EXPLAIN QUERY PLAN %s", sql);
    assert_int_equal(sqlite3_prepare_v2(db, explain, -1, &s, NULL), SQLITE_OK);
    while (sqlite3_step(s) == SQLITE_ROW) {
        const char *detail = (const char *)sqlite3_column_text(s, 3);
        if (strstr(detail, "TEMP B-TREE") != NULL) {
            fail_msg("%s: sorts instead of walking its index: %s", sql, detail);
        }
    }
    (void)sqlite3_finalize(s);
}

/* A scan by key or index, with any prefix, from the start or after a row, never sorts: its cost
 * does not grow with the table. */
static void test_scans_walk_their_index(void **state)
{
    static struct sqlite_provider p;
    static _Alignas(16) char row[2048];
    struct qp_err err;
    (void)state;
    storetest_init(&f, STORETEST_SQLITE, 1);
    p = (struct sqlite_provider){.base.env = &f.t.env, .db = open_beside(), .path = f.path};
    buf_init(&p.sql, &f.t.env, 0);
    for (int of = 0; of < TABLE_COUNT + INDEX_COUNT; of++) {
        int index = of < TABLE_COUNT ? -1 : of - TABLE_COUNT;
        enum table_id table = index < 0 ? (enum table_id)of : indexes[index].table;
        size_t columns =
            index < 0 ? tables[table].key_count : index_columns((enum index_id)index).count;
        /* An index by time alone is only ever walked from its start, another one by its own columns
         * at most. */
        size_t own = index < 0 ? columns - 1 : index_columns((enum index_id)index).own_count;
        size_t prefixes = index >= 0 && own == 1 ? 1 : own + 1;
        for (size_t prefix = 0; prefix < prefixes; prefix++) {
            for (int way = 0; way < 4; way++) { /* from an end or a row, forwards and backwards */
                struct scan scan = {.table = table,
                                    .index = index,
                                    .prefix = row,
                                    .prefix_count = prefix,
                                    .after = way % 2 == 0 ? NULL : row,
                                    .limit = 10,
                                    .backwards = way >= 2};
                sqlite3_stmt *s;
                assert_int_equal(sqlite_scan_statement(&p, &scan, &s, &err), QP_OK);
                assert_plan_is_a_walk(p.db, sqlite3_sql(s));
            }
        }
    }
    sqlite_statements_done(&p);
    (void)sqlite3_close(p.db);
    buf_done(&p.sql);
    storetest_done(&f);
}

/* What takes a file back to an older schema: without what came with the migrations since. */
struct older {
    const char *says;
    const char *undo;
};

static const struct older olders[] = {
    {"has schema 8, this program reads 9",
     "ALTER TABLE qp_job DROP COLUMN close; ALTER TABLE qp_job DROP COLUMN calls;"
     "PRAGMA user_version=8"},
    {"has schema 7, this program reads 9",
     "PRAGMA writable_schema=ON;"
     "UPDATE sqlite_schema SET sql=replace(sql,'INTEGER DEFAULT 0','INTEGER NOT NULL DEFAULT 0')||' STRICT'"
     " WHERE name IN ('qp_job','qp_act','qp_msg');"
     "UPDATE sqlite_schema SET sql=replace(sql,' ledger INTEGER NOT NULL DEFAULT 0',"
     "' ledger INTEGER NOT NULL DEFAULT 0 CHECK(ledger BETWEEN 0 AND 999999999999999)') WHERE name='qp_act';"
     "UPDATE sqlite_schema SET sql=replace(sql,' guid_ledger INTEGER NOT NULL DEFAULT 0',"
     "' guid_ledger INTEGER NOT NULL DEFAULT 0 CHECK(guid_ledger BETWEEN 0 AND 999999999999999)')"
     " WHERE name='qp_act';"
     "UPDATE sqlite_schema SET sql=replace(sql,' sem INTEGER NOT NULL DEFAULT 0',"
     "' sem INTEGER NOT NULL DEFAULT 0 CHECK(sem>=0)') WHERE name='qp_job';"
     "PRAGMA writable_schema=RESET; PRAGMA user_version=7"},
    {"has schema 6, this program reads 9",
     "DROP TABLE qp_universe; DROP TABLE qp_fact; PRAGMA user_version=6"},
    {"has schema 5, this program reads 9",
     "DROP INDEX qp_hook_sig_expire; DROP INDEX qp_hook_sig_job;"
     "CREATE INDEX qp_hook_sig_expire ON qp_hook_sig(expire_at);"
     "ALTER TABLE qp_act DROP COLUMN version;"
     "ALTER TABLE qp_act DROP COLUMN base;"
     "ALTER TABLE qp_act DROP COLUMN \"after\";"
     "ALTER TABLE qp_job DROP COLUMN kept; ALTER TABLE qp_job DROP COLUMN kept_size;"
     "ALTER TABLE qp_job DROP COLUMN kept_seq;"
     "ALTER TABLE qp_msg DROP COLUMN limits;"
     "ALTER TABLE qp_msg DROP COLUMN deadline;"
     "ALTER TABLE qp_hook_sig DROP COLUMN job;"
     "PRAGMA user_version=5"},
    {"has schema 1, this program reads 9",
     "DROP TABLE qp_app; DROP TABLE qp_app_topic; DROP TABLE qp_definition;"
     "DROP INDEX qp_msg_pending; DROP INDEX qp_hook_wait_job;"
     "CREATE INDEX qp_hook_wait_job ON qp_hook_wait(ns,job);"
     "DROP INDEX qp_job_started; DROP INDEX qp_job_status;"
     "DROP INDEX qp_attr_value;"
     "ALTER TABLE qp_job DROP COLUMN retries;"
     "ALTER TABLE qp_job DROP COLUMN waits;"
     "ALTER TABLE qp_act DROP COLUMN waits;"
     "ALTER TABLE qp_attr DROP COLUMN started;"
     "ALTER TABLE qp_node DROP COLUMN serving;"
     "CREATE INDEX qp_job_status ON qp_job(ns,status) WHERE status NOT IN (0,5);"
     "CREATE INDEX qp_attr_value ON qp_attr(ns,name,\"value\");"
     "PRAGMA user_version=1"},
};

/* The file as version olders[upto] made it. */
static void make_older(size_t upto)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(f.path, &db), SQLITE_OK);
    for (size_t i = 0; i <= upto; i++) {
        assert_int_equal(sqlite3_exec(db, olders[i].undo, NULL, NULL, NULL), SQLITE_OK);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int64_t number_from(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s;
    int64_t number;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    number = sqlite3_column_int64(s, 0);
    (void)sqlite3_finalize(s);
    return number;
}

/* What SQLite checks in each write of the three tables that every step writes (ADR 47): keys and revision are not none, and
 * no more. */
static void assert_checks(void)
{
    sqlite3 *db = open_beside();
    assert_int_equal(number_from(db, "SELECT count(*) FROM pragma_table_list WHERE strict=0 AND "
                                     "name IN ('qp_job','qp_act','qp_msg')"),
                     3);
    assert_int_equal(
        number_from(db,
                    "SELECT count(*) FROM pragma_table_list WHERE strict=0 AND name LIKE 'qp_%'"),
        3);
    for (size_t i = 0; i < 3; i++) {
        static const enum table_id wide[] = {TABLE_job, TABLE_act, TABLE_msg};
        const struct table *d = &tables[wide[i]];
        char sql[160];
        (void)snprintf(sql, sizeof sql,
                       "SELECT count(*) FROM pragma_table_info('qp_%s') WHERE \"notnull\"",
                       d->name);
        assert_int_equal(number_from(db, sql),
                         d->key_count + (d->number >= d->key_count ? 1 : 0) + 1);
    }
    assert_int_equal(number_from(db, "SELECT count(*) FROM sqlite_schema WHERE sql LIKE '%CHECK%' "
                                     "AND name IN ('qp_job','qp_act','qp_msg')"),
                     0);
    (void)sqlite3_close(db);
}

static void test_checks_of_a_write(void **state)
{
    (void)state;
    storetest_init(&f, STORETEST_SQLITE, 1);
    assert_checks();
    storetest_done(&f);
}

static void check_migration(size_t which)
{
    struct store_options options = {.path = f.path, .read_only = true};
    struct op data = {.kind = OP_audit_add,
                      .audit_add = {.ns = STORE_NS_DEFAULT, .actor = QP_STR("old")}};
    struct op put = {.kind = OP_app_put,
                     .app_put = {.ns = STORE_NS_DEFAULT,
                                 .app = QP_STR("a"),
                                 .version = QP_STR("1"),
                                 .hash = QP_STR("h")}};
    struct store *reader = NULL;
    struct store_info info;
    struct qp_err err = {0};
    storetest_init(&f, STORETEST_SQLITE, 1);
    assert_int_equal(storetest_op(&f, &data), QP_OK);
    assert_int_equal(store_close(f.s, &err), QP_OK);
    make_older(which);
    options.path = f.path;
    assert_int_equal(store_open(&f.t.env, &options, &reader, &err), QP_E_READONLY);
    assert_non_null(strstr(err.text, olders[which].says));
    options.read_only = false;
    assert_int_equal(store_open(&f.t.env, &options, &f.s, &err), QP_OK);
    store_info(f.s, &info);
    assert_int_equal(info.schema_version, 9);
    assert_int_equal(storetest_count(&f, TABLE_audit), 1);
    assert_int_equal(storetest_op(&f, &put), QP_OK);
    storetest_reopen(&f);
    assert_int_equal(storetest_count(&f, TABLE_app), 1);
    assert_checks();
    storetest_done(&f);
}

static const char *damage;

static void damage_file(struct storetest *of)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(of->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, damage, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_changes(db), 1);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int never_visited(void *context, const void *row)
{
    (void)context;
    (void)row;
    fail_msg("a damaged row was read");
    return QP_OK;
}

/* A value of another type than its column has is damage, and reported when its row is read. */
static void test_types_are_checked_when_rows_are_read(void **state)
{
    static const char *const damages[] = {
        "UPDATE qp_msg SET tries=NULL",         "UPDATE qp_msg SET tries='many'",
        "UPDATE qp_msg SET tries=1.5",          "UPDATE qp_msg SET topic=x'61'",
        "UPDATE qp_msg SET parent_guid='text'",
    };
    struct scan all = {.table = TABLE_msg, .index = -1, .limit = SIZE_MAX};
    struct scan slim = all;
    (void)state;
    slim.slim = true;
    for (size_t i = 0; i < ARRAY_COUNT(damages); i++) {
        struct op put = {.kind = OP_msg_put,
                         .msg_put = {.ref.ns = STORE_NS_DEFAULT,
                                     .owner = OWNER_SYSTEM,
                                     .guid = storetest_guid(7),
                                     .topic = QP_STR("t")}};
        struct qp_err err = {0};
        storetest_init(&f, STORETEST_SQLITE, 1);
        assert_int_equal(storetest_op(&f, &put), QP_OK);
        damage = damages[i];
        storetest_reopen_after(&f, damage_file);
        assert_int_equal(store_scan(f.s, i % 2 == 0 ? &all : &slim, NULL, never_visited, &err),
                         QP_E_CORRUPT);
        assert_non_null(strstr(err.text, "a row of msg cannot be what it says"));
        assert_int_not_equal(store_close(f.s, &err),
                             QP_OK); /* a damaged file is not left as clean */
        damage = "UPDATE qp_msg SET tries=0, topic='t', parent_guid=NULL";
        damage_file(&f);
        assert_int_equal(store_open(&f.t.env, &(struct store_options){.path = f.path}, &f.s, &err),
                         QP_OK);
        storetest_done(&f);
    }
}

/* A file of an older version is what it was and more when it is opened: what is in it stays, what is new can be used. A
 * reader of such a file is asked to have it opened for writing once. */
static void test_older_versions_are_migrated(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(olders); i++) {
        check_migration(i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_are_those_of_rows_def),
        cmocka_unit_test(test_nothing_else_is_there),
        cmocka_unit_test(test_scans_walk_their_index),
        cmocka_unit_test(test_checks_of_a_write),
        cmocka_unit_test(test_older_versions_are_migrated),
        cmocka_unit_test(test_types_are_checked_when_rows_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

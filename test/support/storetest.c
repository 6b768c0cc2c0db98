/* storetest.c - see storetest.h */
#include "support/storetest.h"

#include <postgresql/libpq-fe.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/cache.h"
#include "support/pgserver.h"

#define GUIDS 65536
#define SMALL_CACHE_SIZE 20000 /* two generations of a dozen rows */

static char guids[GUIDS][LIMIT_GUID_SIZE];

const char *storetest_name(enum storetest_kind kind)
{
    static const char *const names[STORETEST_ALL] = {"memory", "memory-rows", "sqlite",
                                                     "sqlite-small", "postgres"};
    return names[kind];
}

int storetest_kinds(void)
{
#ifdef __SANITIZE_THREAD__
    const char *lane = getenv("QP_LANE");
    return lane != NULL && strcmp(lane, "torture") == 0 ? STORETEST_ALL : STORETEST_KINDS;
#else
    return STORETEST_ALL;
#endif
}

static bool is_file(enum storetest_kind kind)
{
    return kind == STORETEST_SQLITE || kind == STORETEST_SQLITE_SMALL;
}

static struct store *open_store(struct storetest *f)
{
    struct store *s = NULL;
    struct store_options options = {.vfs = f->vfs};
    struct qp_err err = {0};
    int rc;
    if (f->kind == STORETEST_POSTGRES) {
        options.path = f->path;
        options.host_clock = true;
        options.durability = DURABILITY_RELAXED; /* thousands of commits, none of which must last */
    } else if (is_file(f->kind)) {
        options.path = f->path;
        options.cache_size = f->kind == STORETEST_SQLITE_SMALL ? SMALL_CACHE_SIZE : 0;
    } else {
        options.memory = f->memory;
    }
    rc = store_open(&f->t.env, &options, &s, &err);
    if (rc != QP_OK) {
        fail_msg("open %s store: %s", storetest_name(f->kind), err.text);
    }
    return s;
}

/* What the last test and its host left goes, as if the schema were new: making it anew takes a hundred times as
 * long. */
static void postgres_empty(const char *url)
{
    PGconn *c = PQconnectdb(url);
    PGresult *r = PQexec(c, "SELECT to_regclass('quipu.head') IS NOT NULL");
    char sql[4096] =
        "BEGIN;SET LOCAL client_min_messages=warning;SET LOCAL search_path=quipu;SELECT setval('orders',1,false),setval('ids',"
        "2,false);DROP SCHEMA public CASCADE;CREATE SCHEMA public;";
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    if (PQgetvalue(r, 0, 0)[0] == 't') {
        for (int i = 0; i < TABLE_COUNT; i++) {
            size_t n = strlen(sql);
            (void)snprintf(sql + n, sizeof sql - n, "DELETE FROM %s;", tables[i].name);
        }
        strncat(sql,
                "INSERT INTO head(ns,next_id,clean,rev) VALUES(0,2,1,1);"
                "INSERT INTO space(ns,name,rev) VALUES(1,'default',1);COMMIT",
                sizeof sql - strlen(sql) - 1);
        PQclear(r);
        r = PQexec(c, sql);
        if (PQresultStatus(r) != PGRES_COMMAND_OK) {
            fail_msg("empty the schema: %s", PQresultErrorMessage(r));
        }
    }
    PQclear(r);
    PQfinish(c);
}

/* One database serves all tests of a program. */
static void postgres_init(struct storetest *f)
{
    static const char *url;
    url = url != NULL ? url : pgserver_shared();
    postgres_empty(url);
    (void)snprintf(f->path, sizeof f->path, "%s", url);
}

void storetest_init(struct storetest *f, enum storetest_kind kind, uint64_t seed)
{
    const char *tmp = getenv("TMPDIR");
    testenv_init(&f->t, seed);
    f->kind = kind;
    f->vfs = NULL;
    (void)snprintf(f->dir, sizeof f->dir, "%s/storetest.XXXXXX", tmp != NULL ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->path, sizeof f->path, "%s/store.db", f->dir);
    f->memory = NULL;
    if (f->at != NULL) {
        (void)snprintf(f->path, sizeof f->path, "%s", f->at);
    } else if (kind == STORETEST_POSTGRES) {
        postgres_init(f);
    } else if (!is_file(kind)) {
        struct memory_options options = {.mode = kind == STORETEST_MEMORY ? MEMORY_SERIAL
                                                                          : MEMORY_ROWS};
        assert_int_equal(memory_create(&f->t.env, &options, &f->memory), QP_OK);
    }
    f->s = open_store(f);
}

struct store *storetest_second(struct storetest *f)
{
    assert_false(is_file(f->kind));
    return open_store(f);
}

void storetest_reopen(struct storetest *f)
{
    storetest_reopen_after(f, NULL);
}

void storetest_reopen_after(struct storetest *f, void (*change)(struct storetest *f))
{
    struct qp_err err = {0};
    int rc = store_close(f->s, &err);
    if (rc != QP_OK) {
        fail_msg("close: %s", err.text);
    }
    if (change != NULL) {
        change(f);
    }
    f->s = open_store(f);
}

void storetest_done(struct storetest *f)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-qplock", ".new", ".new-journal"};
    char name[400];
    struct qp_err err = {0};
    int rc = store_close(f->s, &err);
    if (rc != QP_OK) {
        fail_msg("close: %s", err.text);
    }
    memory_destroy(f->memory);
    for (size_t i = 0; is_file(f->kind) && f->at == NULL && i < ARRAY_COUNT(suffixes); i++) {
        (void)snprintf(name, sizeof name, "%s%s", f->path, suffixes[i]);
        (void)unlink(name);
    }
    (void)rmdir(f->dir);
    testenv_done(&f->t);
}

/* A text that an op put out, which would die with the commit: it lives until a few others came. */
static void keep_text(qp_str *text)
{
    static char kept[8][LIMIT_NAME_SIZE];
    static size_t next;
    char *place = kept[next++ % 8];
    assert_true(text->n <= LIMIT_NAME_SIZE);
    if (text->n > 0) {
        memcpy(place, text->p, text->n);
        text->p = place;
    }
}

int storetest_bundle(struct storetest *f, struct op *ops, size_t count, struct stop *stop)
{
    struct commit c;
    struct bundle *b;
    int rc;
    commit_init(&c, f->s);
    b = commit_bundle(&c, "test");
    for (size_t i = 0; i < count; i++) {
        struct op *op = bundle_op(b, ops[i].kind);
        assert_non_null(op);
        *op = ops[i];
    }
    rc = store_commit(f->s, &c);
    if (rc != QP_OK) {
        fail_msg("commit: %s (%s)", c.err.text, qp_code_word(rc));
    }
    rc = b->rc;
    for (size_t i = 0; i < count; i++) {
        ops[i] = *bundle_op_at(b, i);
        if (ops[i].kind == OP_msg_claim) {
            ops[i].msg_claim.out_messages =
                NULL; /* its rows die with the commit: read them by key */
        } else if (ops[i].kind == OP_app_activate) {
            keep_text(&ops[i].app_activate.out_was);
        } else if (ops[i].kind == OP_topic_put) {
            keep_text(&ops[i].topic_put.out_app);
        }
    }
    if (stop != NULL) {
        *stop = b->stop;
    }
    commit_done(&c);
    return rc;
}

int storetest_op(struct storetest *f, struct op *op)
{
    return storetest_bundle(f, op, 1, NULL);
}

qp_str storetest_guid(unsigned number)
{
    assert_true(number < GUIDS);
    (void)snprintf(guids[number], LIMIT_GUID_SIZE, "guid-%05u", number);
    return (qp_str){guids[number], LIMIT_GUID_SIZE};
}

const void *storetest_row(struct storetest *f, enum table_id table, const void *key)
{
    static _Alignas(16) char kept[2 * LIMIT_JOB_DATA_SIZE];
    struct arena arena;
    struct qp_err err = {0};
    const void *row = NULL;
    int rc;
    arena_init(&arena, &f->t.env, 0);
    rc = store_get(f->s, &arena, table, key, &row, &err);
    if (rc == QP_OK) {
        struct testenv *t = &f->t;
        void *copy = row_clone(&t->env, table, row);
        size_t size = tables[table].row_size;
        size_t at = size;
        assert_non_null(copy);
        memcpy(kept, copy, size);
        for (size_t i = 0; i < tables[table].column_count; i++) {
            const struct column *c = &tables[table].columns[i];
            if (c->kind != KIND_I64) {
                qp_str text = row_str(c, copy);
                assert_true(at + text.n <= sizeof kept);
                if (text.n > 0) {
                    memcpy(kept + at, text.p, text.n);
                }
                row_set_str(c, kept, (qp_str){text.p == NULL ? NULL : kept + at, text.n});
                at += text.n;
            }
        }
        mem_free(&t->env, copy);
        row = kept;
    } else {
        assert_int_equal(rc, QP_E_NOT_FOUND);
        row = NULL;
    }
    arena_done(&arena);
    return row;
}

bool storetest_row_equal(enum table_id table, const void *a, const void *b)
{
    const struct table *d = &tables[table];
    size_t same = 0;
    while (same + 1 < d->column_count && column_equal(&d->columns[same], a, b)) {
        same++;
    }
    return same + 1 == d->column_count;
}

static int count_row(void *context, const void *row)
{
    size_t *count = context;
    (void)row;
    ++*count;
    return QP_OK;
}

size_t storetest_count(struct storetest *f, enum table_id table)
{
    size_t count = 0;
    struct qp_err err = {0};
    struct scan all = {.table = table, .index = -1, .limit = SIZE_MAX};
    assert_int_equal(store_scan(f->s, &all, &count, count_row, &err), QP_OK);
    return count;
}

struct cache_check {
    struct storetest *f;
    size_t count;
};

static int check_cached(void *context, enum table_id table, const void *row)
{
    struct cache_check *check = context;
    const struct table *t = &tables[table];
    const void *there = storetest_row(check->f, table, row);
    assert_non_null(there);
    for (size_t i = 0; i < t->column_count; i++) {
        assert_true(column_equal(&t->columns[i], row, there));
    }
    check->count++;
    return QP_OK;
}

size_t storetest_cache_check(struct storetest *f)
{
    struct cache_check check = {f, 0};
    const struct cache *cache = store_cache(f->s);
    assert_true(cache == NULL || cache_each(cache, &check, check_cached) == QP_OK);
    return check.count;
}

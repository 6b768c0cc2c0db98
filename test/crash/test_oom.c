/* test_oom.c - memory runs out at the n-th allocation: a clean error, no leak, and the store as it
 * was or as it should be
 *
 * Two allocators can fail: the store's own (testenv) and SQLite's (a wrapper that is installed
 * before its first use). Under both, once and for good, go opening a new file, opening an old one,
 * every op, reading, and closing; n goes on until nothing is refused. Afterwards, with memory
 * again, the same thing succeeds on the same handle.
 */
#include <setjmp.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/memory.h"
#include "support/faultvfs.h"
#include "support/files.h"
#include "support/opworld.h"

/* --------------------------------------------------------------------------- the two allocators */

static struct {
    sqlite3_mem_methods real;
    int64_t calls;
    int64_t fail_at; /* 0: never */
    bool for_good;
    int64_t failures;
} lite;

static bool lite_refuses(void)
{
    lite.calls++;
    if (lite.fail_at == 0 || lite.calls < lite.fail_at ||
        (lite.calls > lite.fail_at && !lite.for_good)) {
        return false;
    }
    lite.failures++;
    return true;
}

static void *lite_malloc(int size)
{
    return lite_refuses() ? NULL : lite.real.xMalloc(size);
}

static void *lite_realloc(void *pointer, int size)
{
    return lite_refuses() ? NULL : lite.real.xRealloc(pointer, size);
}

/* Without lookaside every small allocation comes through here as well. */
static void lite_install(void)
{
    sqlite3_mem_methods wrapped;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &lite.real), SQLITE_OK);
    wrapped = lite.real;
    wrapped.xMalloc = lite_malloc;
    wrapped.xRealloc = lite_realloc;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &wrapped), SQLITE_OK);
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0), SQLITE_OK);
}

enum whose { STORE_MEMORY, SQLITE_MEMORY };

static const char *const whose_names[] = {"store", "sqlite"};

struct shortage {
    enum whose whose;
    bool for_good;
    int64_t at;
};

static struct testenv t;
static bool torture;

static void shortage_begin(const struct shortage *m)
{
    if (m->whose == STORE_MEMORY && m->for_good) {
        testenv_fail_from(&t, m->at);
    } else if (m->whose == STORE_MEMORY) {
        testenv_fail_at(&t, m->at);
    } else {
        lite.calls = 0;
        lite.failures = 0;
        lite.for_good = m->for_good;
        lite.fail_at = m->at;
    }
}

/* Memory is there again; true when some was refused. */
static bool shortage_end(const struct shortage *m)
{
    bool failed = m->whose == STORE_MEMORY ? testenv_failed(&t) : lite.failures > 0;
    testenv_fail_at(&t, 0);
    lite.fail_at = 0;
    return failed;
}

static void complain(const struct shortage *m, const char *what, int rc, const struct qp_err *err)
{
    fail_msg("%s: %s allocation %lld refused %s: %s (%s)", what, whose_names[m->whose],
             (long long)m->at, m->for_good ? "for good" : "once", err->text, qp_code_word(rc));
}

/* --------------------------------------------------------------------------- the store under it */

static char dir[256];
static char path[320];
static unsigned char *prepared; /* the file of a prepared world */
static size_t prepared_size;
static struct opworld world;
static struct store *s;
static struct memory *memory;

static void remove_files(void)
{
    static const char *const suffixes[] = {"",        "-wal", "-shm",        "-journal",
                                           "-qplock", ".new", ".new-journal"};
    char name[400];
    for (size_t i = 0; i < ARRAY_COUNT(suffixes); i++) {
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name); /* most are not there */
    }
}

static void place_prepared(void)
{
    remove_files();
    files_put(path, prepared, prepared_size);
}

static int open_sqlite(struct qp_err *err)
{
    struct store_options options = {.path = path, .vfs = FAULTVFS_NAME};
    return store_open(&t.env, &options, &s, err);
}

static int open_memory(struct qp_err *err)
{
    struct store_options options = {.memory = memory};
    return store_open(&t.env, &options, &s, err);
}

static void must(int rc, const struct qp_err *err)
{
    if (rc != QP_OK) {
        fail_msg("%s (%s)", err->text, qp_code_word(rc));
    }
}

static void close_store(void)
{
    struct qp_err err = {0};
    must(store_close(s, &err), &err);
    s = NULL;
}

static char *dump(void)
{
    struct buf out;
    struct qp_err err = {0};
    char *text;
    buf_init(&out, &t.env, 0);
    must(store_dump(s, &out, &err), &err);
    text = malloc(out.n + 1);
    assert_non_null(text);
    memcpy(text, out.p, out.n);
    text[out.n] = '\0';
    buf_done(&out);
    return text;
}

static void check_unchanged(const struct shortage *m, const char *what, const char *before)
{
    char *now = dump();
    struct qp_err err = {.text = "the state has changed"};
    if (strcmp(now, before) != 0) {
        complain(m, what, QP_E_NOMEM, &err);
    }
    free(now);
}

/* -------------------------------------------------------------------------------------- the ops */

static bool in_decisions; /* the op is one of a decided bundle */

static void fill_op(struct op *op)
{
    if (op != NULL) { /* else the commit or the bundle says why */
        opworld_fill(&world, op);
    }
}

/* Reads, carries the op out, reads again. What is refused it does not look at: the bundle or the
 * commit must say so all the same. */
static int decide(void *context, struct bundle *b)
{
    struct bundle_rows found;
    const void *row = NULL;
    struct scan nodes = {.table = TABLE_node, .index = -1, .limit = 10};
    (void)!bundle_get(b, TABLE_head, &(struct head_row){.ns = 0}, &row);
    (void)!bundle_scan(b, &nodes, &found);
    fill_op(bundle_op(b, *(const enum op_kind *)context));
    (void)!bundle_run(b);
    (void)!bundle_scan(b, &nodes, &found);
    return QP_OK;
}

/* One op in one commit; the commit's code, or the bundle's. */
static int commit_op(enum op_kind kind, struct qp_err *err)
{
    struct commit c;
    struct bundle *b;
    int rc;
    commit_init(&c, s);
    if (in_decisions) {
        b = commit_decided(&c, opworld_name(kind), decide, &kind);
    } else {
        b = commit_bundle(&c, opworld_name(kind));
        fill_op(bundle_op(b, kind));
    }
    rc = store_commit(s, &c);
    *err = c.err;
    rc = rc == QP_OK ? b->rc : rc;
    commit_done(&c);
    return rc;
}

/* A refused commit is NOMEM and leaves no trace. SQLite's COMMIT itself may be the one that is
 * refused, behind which nobody knows; then the handle is finished, and the file says one or the
 * other. */
static void check_refused(const struct shortage *m, enum op_kind kind, int rc,
                          const struct qp_err *err, const char *before)
{
    struct store_info info;
    store_info(s, &info);
    if (rc == QP_E_NOMEM && !info.refusing) {
        check_unchanged(m, opworld_name(kind), before);
    } else if (rc != QP_E_UNKNOWN_OUTCOME || m->whose != SQLITE_MEMORY) {
        complain(m, opworld_name(kind), rc, err);
    }
}

static int64_t next_at(int64_t at, int64_t stride)
{
    return at + (torture ? 1 + stride / 100 : stride); /* opening allocates 20,000 times */
}

/* On one handle after the other, since SQLite copes with some shortages and the op goes through:
 * then it needs a new store to be tried on again. */
static void loop_op_sqlite(enum op_kind kind, enum whose whose, bool for_good, int64_t stride)
{
    struct shortage m = {.whose = whose, .for_good = for_good, .at = 1};
    bool refused = true;
    while (refused) {
        struct qp_err err = {0};
        char *before;
        int rc = QP_E_NOMEM;
        place_prepared();
        must(open_sqlite(&err), &err);
        before = dump();
        while (refused && rc == QP_E_NOMEM) {
            shortage_begin(&m);
            rc = commit_op(kind, &err);
            refused = shortage_end(&m);
            if (rc != QP_OK) {
                check_refused(&m, kind, rc, &err, before);
            }
            m.at = next_at(m.at, stride);
        }
        if (!refused && rc != QP_OK) {
            complain(&m, opworld_name(kind), rc, &err);
        }
        free(before);
        (void)store_close(s, &err); /* not clean after an unknown outcome */
    }
}

static void loop_op_memory(enum op_kind kind, bool for_good)
{
    struct shortage m = {.whose = STORE_MEMORY, .for_good = for_good, .at = 1};
    struct memory_options options = {.mode = MEMORY_SERIAL};
    struct qp_err err = {0};
    bool refused = true;
    char *before;
    struct opworld of_file = world; /* prepared at another time */
    assert_int_equal(memory_create(&t.env, &options, &memory), QP_OK);
    must(open_memory(&err), &err);
    opworld_prepare(s, &t, &world);
    before = dump();
    for (; refused; m.at++) {
        int rc;
        shortage_begin(&m);
        rc = commit_op(kind, &err);
        refused = shortage_end(&m);
        if (rc != (refused ? QP_E_NOMEM : QP_OK)) {
            complain(&m, opworld_name(kind), rc, &err);
        }
        if (refused) {
            check_unchanged(&m, opworld_name(kind), before);
        }
    }
    free(before);
    close_store();
    memory_destroy(memory);
    memory = NULL;
    world = of_file;
}

static void test_ops_on_memory(void **state)
{
    (void)state;
    for (int kind = 0; kind < OP_COUNT; kind++) {
        loop_op_memory((enum op_kind)kind, false);
        loop_op_memory((enum op_kind)kind, true);
    }
}

static void test_ops_on_sqlite_store_memory(void **state)
{
    (void)state;
    for (int kind = 0; kind < OP_COUNT; kind++) {
        loop_op_sqlite((enum op_kind)kind, STORE_MEMORY, false, 1);
        loop_op_sqlite((enum op_kind)kind, STORE_MEMORY, true, 3);
    }
}

static void test_ops_on_sqlite_sqlite_memory(void **state)
{
    (void)state;
    for (int kind = 0; kind < OP_COUNT; kind++) {
        loop_op_sqlite((enum op_kind)kind, SQLITE_MEMORY, false, 29 + kind % 5);
        loop_op_sqlite((enum op_kind)kind, SQLITE_MEMORY, true, 47 + kind % 5);
    }
}

/* The same ops, each of them decided inside its transaction. */
static void test_decided_ops(void **state)
{
    (void)state;
    in_decisions = true;
    for (int kind = 0; kind < OP_COUNT; kind++) {
        loop_op_memory((enum op_kind)kind, false);
        loop_op_memory((enum op_kind)kind, true);
        loop_op_sqlite((enum op_kind)kind, STORE_MEMORY, false, 1);
        loop_op_sqlite((enum op_kind)kind, SQLITE_MEMORY, true, 59 + kind % 5);
    }
    in_decisions = false;
}

/* -------------------------------------------------------------------- opening, reading, closing */

typedef int (*attempt)(struct qp_err *err);

/* Runs `before` with memory, `under` without it, until nothing is refused; a store that is open
 * then is closed. */
static void loop_attempt(const char *what, struct shortage m, int64_t stride, attempt before,
                         attempt under)
{
    bool refused = true;
    int64_t runs = 0;
    int64_t used = sqlite3_memory_used();
    for (; refused; m.at = next_at(m.at, stride)) {
        struct qp_err err = {0};
        int rc;
        s = NULL;
        must(before(&err), &err);
        shortage_begin(&m);
        rc = under(&err);
        refused = shortage_end(&m);
        if (rc != QP_OK && !(refused && (rc == QP_E_NOMEM || (rc == QP_E_UNKNOWN_OUTCOME &&
                                                              m.whose == SQLITE_MEMORY)))) {
            complain(&m, what, rc, &err);
        }
        (void)store_close(s, &err); /* an open one, or none */
        assert_int_equal(t.live_blocks, 0);
        if (sqlite3_memory_used() != used) {
            complain(&m, what, rc, &(struct qp_err){.text = "SQLite has leaked"});
        }
        runs++;
    }
    printf("%-12s %-6s %-8s %5lld runs, %lld allocations\n", what, whose_names[m.whose],
           m.for_good ? "for good" : "once", (long long)runs, (long long)m.at);
}

static int nothing_there(struct qp_err *err)
{
    (void)err;
    remove_files();
    return QP_OK;
}

static int file_there(struct qp_err *err)
{
    (void)err;
    place_prepared();
    return QP_OK;
}

static int store_there(struct qp_err *err)
{
    place_prepared();
    return open_sqlite(err);
}

static int memory_there(struct qp_err *err)
{
    return open_memory(err);
}

/* Closing cannot fail to close; what is refused shows in the code alone. */
static int closing(struct qp_err *err)
{
    int rc = store_close(s, err);
    s = NULL;
    return rc;
}

static int visit_nothing(void *context, const void *row)
{
    (void)context;
    (void)row;
    return QP_OK;
}

static int reading(struct qp_err *err)
{
    struct buf out;
    int rc;
    buf_init(&out, &t.env, 0);
    rc = store_dump(s, &out, err);
    buf_done(&out);
    for (int i = 0; i < INDEX_COUNT && rc == QP_OK; i++) {
        struct scan scan = {.table = indexes[i].table, .index = i, .limit = SIZE_MAX};
        rc = store_scan(s, &scan, NULL, visit_nothing, err);
    }
    return rc;
}

static void loop_both(const char *what, enum whose whose, int64_t stride, attempt before,
                      attempt under)
{
    loop_attempt(what, (struct shortage){whose, false, 1}, stride, before, under);
    loop_attempt(what, (struct shortage){whose, true, 1}, stride, before, under);
}

static void test_opening(void **state)
{
    (void)state;
    loop_both("open memory", STORE_MEMORY, 1, nothing_there, open_memory);
    loop_both("create", STORE_MEMORY, 1, nothing_there, open_sqlite);
    loop_both("create", SQLITE_MEMORY, 1597, nothing_there, open_sqlite);
    loop_both("open", STORE_MEMORY, 1, file_there, open_sqlite);
    loop_both("open", SQLITE_MEMORY, 797, file_there, open_sqlite);
}

static void test_reading(void **state)
{
    (void)state;
    loop_both("read memory", STORE_MEMORY, 1, memory_there, reading);
    loop_both("read", STORE_MEMORY, 1, store_there, reading);
    loop_both("read", SQLITE_MEMORY, 397, store_there, reading);
}

static void test_closing(void **state)
{
    (void)state;
    loop_both("close memory", STORE_MEMORY, 1, memory_there, closing);
    loop_both("close", STORE_MEMORY, 1, store_there, closing);
    loop_both("close", SQLITE_MEMORY, 3, store_there, closing);
}

/* -------------------------------------------------------------- memory for the index of the log */

#define INDEX_FRAMES 4062 /* that the first page of the log's index has room for */
#define LARGE_SIZE ((size_t)(INDEX_FRAMES + 10) * 4096)

static int put(qp_str name, qp_str value, struct qp_err *err)
{
    struct commit c;
    struct bundle *b;
    int rc;
    commit_init(&c, s);
    b = commit_bundle(&c, "put");
    bundle_op(b, OP_data_put)->data_put =
        (struct op_data_put){.ref = {STORE_NS_DEFAULT, 1001}, .name = name, .value = value};
    rc = store_commit(s, &c);
    *err = c.err;
    rc = rc == QP_OK ? b->rc : rc;
    commit_done(&c);
    return rc;
}

/* Whether a process that finds the files as they lie now sees the row. */
static bool large_is_there(void)
{
    struct store_options options = {.read_only = true};
    struct data_row key = {.ns = STORE_NS_DEFAULT, .job = 1001, .name = QP_STR("large")};
    char copy[340];
    char log_copy[360];
    char log[360];
    unsigned char *bytes;
    struct store *reader;
    struct arena arena;
    struct qp_err err = {0};
    const void *row;
    size_t size;
    int rc;
    (void)snprintf(copy, sizeof copy, "%s/copy.db", dir);
    (void)snprintf(log, sizeof log, "%s-wal", path);
    (void)snprintf(log_copy, sizeof log_copy, "%s-wal", copy);
    bytes = files_get(path, &size);
    files_put(copy, bytes, size);
    free(bytes);
    bytes = files_get(log, &size);
    files_put(log_copy, bytes, size);
    free(bytes);
    options.path = copy;
    must(store_open(&t.env, &options, &reader, &err), &err);
    arena_init(&arena, &t.env, 0);
    rc = store_get(reader, &arena, TABLE_data, &key, &row, &err);
    arena_done(&arena);
    (void)store_close(reader, NULL); /* a reader has nothing to say */
    (void)unlink(copy);
    (void)unlink(log_copy);
    (void)snprintf(log_copy, sizeof log_copy, "%s-shm", copy);
    (void)unlink(log_copy);
    assert_true(rc == QP_OK || rc == QP_E_NOT_FOUND);
    return rc == QP_OK;
}

/* The log's index grows after the frames of a commit are written and synced. When there is no
 * memory for that, SQLite calls the commit off, but a process that dies now leaves a log in which
 * it stands: nobody may be told that it did not happen. */
static void test_commit_that_grows_the_log_index(void **state)
{
    char *bytes = calloc(1, LARGE_SIZE);
    struct shortage m = {.whose = SQLITE_MEMORY, .for_good = false};
    struct qp_err err = {0};
    int64_t calls;
    int unknown = 0;
    (void)state;
    assert_non_null(bytes);
    place_prepared();
    must(open_sqlite(&err), &err);
    shortage_begin(&m); /* counts */
    must(put(QP_STR("large"), (qp_str){bytes, LARGE_SIZE}, &err), &err);
    (void)shortage_end(&m); /* nothing was refused */
    calls = lite.calls;
    close_store();
    for (m.at = calls; m.at > calls - (torture ? 40 : 3) && m.at > 0; m.at--) {
        int rc;
        place_prepared();
        must(open_sqlite(&err), &err);
        shortage_begin(&m);
        rc = put(QP_STR("large"), (qp_str){bytes, LARGE_SIZE}, &err);
        (void)shortage_end(&m); /* seen by the code */
        unknown += rc == QP_E_UNKNOWN_OUTCOME;
        if (large_is_there() != (rc == QP_OK) && rc != QP_E_UNKNOWN_OUTCOME) {
            complain(&m, "the log has another opinion than the commit's code", rc, &err);
        }
        (void)store_close(s, &err); /* not clean after an unknown outcome */
    }
    assert_true(unknown > 0);
    free(bytes);
}

/* ------------------------------------------------------------------------------------ the frame */

static int setup(void **state)
{
    const char *lane = getenv("QP_LANE");
    struct qp_err err = {0};
    (void)state;
    torture = lane != NULL && strcmp(lane, "torture") == 0;
    lite_install();
    faultvfs_init(FAULTVFS_SYNC_PLAYED, false);
    testenv_init(&t, 1);
    files_temporary(dir, sizeof dir, "oom");
    (void)snprintf(path, sizeof path, "%s/store.db", dir);
    must(open_sqlite(&err), &err);
    opworld_prepare(s, &t, &world);
    close_store();
    prepared = files_get(path, &prepared_size);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    files_remove(dir);
    free(prepared);
    testenv_done(&t);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_on_memory),
        cmocka_unit_test(test_ops_on_sqlite_store_memory),
        cmocka_unit_test(test_ops_on_sqlite_sqlite_memory),
        cmocka_unit_test(test_decided_ops),
        cmocka_unit_test(test_opening),
        cmocka_unit_test(test_reading),
        cmocka_unit_test(test_closing),
        cmocka_unit_test(test_commit_that_grows_the_log_index),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

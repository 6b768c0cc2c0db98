/* conform_reads.c - store_get and store_scan: by key and by index, whole and in pages, the same
 * from every provider
 *
 * What a scan must give is computed here from the rows themselves: those that the index holds and
 * the prefix matches, sorted by the columns' order. So each provider is held against the
 * definition, not against another provider.
 */
#include <stdio.h>
#include <stdlib.h>

#include "store/conform.h"

enum { ROWS_MAX = 256 };

struct found {
    enum table_id table;
    struct arena *arena;
    const void *rows[ROWS_MAX];
    size_t count;
};

static int keep(void *context, const void *row)
{
    struct found *found = context;
    assert_true(found->count < ROWS_MAX);
    found->rows[found->count] = row_copy(found->arena, found->table, row);
    assert_non_null(found->rows[found->count]);
    found->count++;
    return QP_OK;
}

static void scan_into(struct storetest *f, const struct scan *scan, struct found *out)
{
    struct qp_err err;
    assert_int_equal(store_scan(f->s, scan, out, keep, &err), QP_OK);
}

/* The order of a key or an index. */
static struct index_columns order_of(enum table_id table, int index)
{
    struct index_columns c = {.count = tables[table].key_count};
    for (size_t i = 0; i < c.count; i++) {
        c.column[i] = i;
    }
    return index >= 0 ? index_columns((enum index_id)index) : c;
}

static int compare(enum table_id table, const struct index_columns *order, size_t count,
                   const void *a, const void *b)
{
    for (size_t i = 0; i < count; i++) {
        const struct column *c = &tables[table].columns[order->column[i]];
        int64_t x = c->kind == KIND_I64 ? row_i64(c, a) : 0;
        int64_t y = c->kind == KIND_I64 ? row_i64(c, b) : 0;
        int sign =
            c->kind == KIND_I64 ? (x > y) - (x < y) : str_compare(row_str(c, a), row_str(c, b));
        if (sign != 0) {
            return sign;
        }
    }
    return 0;
}

/* What the scan must give, from all rows of its table. */
static void expect(const struct found *all, const struct scan *scan, struct found *out)
{
    struct index_columns order = order_of(scan->table, scan->index);
    int sign = scan->backwards ? -1 : 1;
    out->count = 0;
    for (size_t i = 0; i < all->count; i++) {
        const void *row = all->rows[i];
        size_t at = out->count;
        if ((scan->index >= 0 && !indexes[scan->index].holds(row)) ||
            compare(scan->table, &order, scan->prefix_count, row, scan->prefix) != 0 ||
            (scan->after != NULL &&
             sign * compare(scan->table, &order, order.count, row, scan->after) <= 0)) {
            continue;
        }
        for (;
             at > 0 && sign * compare(scan->table, &order, order.count, out->rows[at - 1], row) > 0;
             at--) {
            out->rows[at] = out->rows[at - 1];
        }
        out->rows[at] = row;
        out->count++;
    }
    out->count = out->count < scan->limit ? out->count : scan->limit;
}

static void check_scan(struct storetest *f, const struct found *all, const struct scan *scan)
{
    static struct found want;
    static struct found got;
    struct arena arena;
    arena_init(&arena, &f->t.env, 0);
    got = (struct found){.table = scan->table, .arena = &arena};
    expect(all, scan, &want);
    scan_into(f, scan, &got);
    assert_int_equal(got.count, want.count);
    for (size_t i = 0; i < want.count; i++) {
        assert_true(storetest_row_equal(scan->table, got.rows[i], want.rows[i]));
        assert_int_equal(((const struct space_row *)got.rows[i])->ns,
                         ((const struct space_row *)want.rows[i])->ns);
    }
    arena_done(&arena);
}

/* Forwards, and by turns backwards: both would take twice as long on a server. */
static void check_both(struct storetest *f, const struct found *all, const struct scan *scan,
                       size_t turn)
{
    struct scan back = *scan;
    back.backwards = true;
    check_scan(f, all, scan);
    if (turn % 4 == 0) {
        check_scan(f, all, &back);
    }
}

/* Whether the row has a place in the order: a column that is none has none, and no index holds such a row. */
static bool has_place(enum table_id table, int index, const struct index_columns *order,
                      const void *row)
{
    for (size_t i = 0; i < order->count; i++) {
        const struct column *c = &tables[table].columns[order->column[i]];
        if (c->kind != KIND_I64 && str_is_none(row_str(c, row))) {
            assert_true(index >= 0 && !indexes[index].holds(row));
            return false;
        }
    }
    return true;
}

/* Every prefix of every row's columns, from the start and after every row, by small and large
 * pages, forwards and backwards. */
static void check_order(struct storetest *f, const struct found *all, int index)
{
    static const size_t limits[] = {1, 2, 5, SIZE_MAX};
    struct index_columns order = order_of(all->table, index);
    for (size_t i = 0; i < all->count; i++) {
        bool has = has_place(all->table, index, &order, all->rows[i]);
        for (size_t prefix = 0; has && prefix <= order.count; prefix++) {
            struct scan scan = {.table = all->table,
                                .index = index,
                                .prefix = all->rows[i],
                                .prefix_count = prefix,
                                .limit = limits[(i + prefix) % ARRAY_COUNT(limits)]};
            check_both(f, all, &scan, i + prefix);
            if (prefix < order.count) {
                scan.after = all->rows[i];
                check_both(f, all, &scan, i + prefix);
            }
        }
    }
}

/* A state with rows in every table: two namespaces, jobs open and closed, texts empty, none and
 * alike in their beginnings. */
static void populate_facts(struct storetest *f, int64_t ns, qp_str name)
{
    int64_t u = RUN(f, universe_open, .ns = ns, .type = QP_STR("deb"), .name = name).out_universe;
    DO(f, OP(fact_put, .ns = ns, .universe = u, .name = name, .value = name),
       OP(fact_put, .ns = ns, .universe = u, .fact_kind = FACT_SOURCES, .name = name),
       OP(universe_seal, .ns = ns, .universe = u, .facts = 2));
}

static void populate(struct storetest *f)
{
    static const char *const texts[] = {"", "a", "a\x01", "aa", "ab", "b", "\xc3\xa9", "~"};
    int64_t other = RUN(f, space_create, .name = QP_STR("other")).out_ns;
    int64_t epochs[2] = {conform_epoch(f), conform_epoch(f)};
    conform_job_open(f, 100, 9);
    conform_job_open(f, 101, 1);
    conform_job_closed(f, 102, true);
    conform_worker(f, 100, QP_STR("w"));
    DO(f, OP(job_create, .ref = {other, 103}, .jid = QP_STR("a"), .workflow = QP_STR("w"),
             .custom_id = QP_STR("c"), .parent_job = 100));
    DO(f, OP(sem_open, .ref = JOB(100), .scope = 1, .opening = 9, .guid = G(60), .topic = TOPIC));
    for (unsigned i = 0; i < ARRAY_COUNT(texts); i++) {
        qp_str text = str_from(texts[i]);
        qp_str name = i == 0 ? QP_STR("zero") : text;
        struct job_ref ref = i % 3 == 0 ? (struct job_ref){other, 103} : JOB(100);
        testenv_advance_ms(&f->t, 3);
        conform_answer(f, 100, QP_STR("w"), 10 + i);
        DO(f, OP(sem_move, .ref = JOB(100), .addr = QP_STR("w"), .guid = G(10 + i), .scope = 1));
        DO(f, OP(attr_put, .ref = ref, .name = QP_STR("n"), .value = text),
           OP(data_put, .ref = ref, .name = name, .value = text),
           OP(event_add, .ref = ref, .kind = i, .detail = text),
           OP(msg_put, .ref = ref, .guid = G(20 + i), .topic = name, .limit_key = text,
              .priority = i % 3),
           OP(msg_put, .ref = ref, .guid = G(30 + i), .topic = name, .delay_ms = 1000 - i,
              .addr = i % 2 == 0 ? name : TOPIC, .code = i % 3 == 0 ? 200 : 202),
           OP(msg_put, .ref = ref, .guid = G(40 + i), .topic = name, .holder = epochs[i % 2]),
           OP(hook_open, .ref = ref, .topic = name, .key = text, .addr = i % 2 == 0 ? name : TOPIC,
              .msg_topic = TOPIC),
           OP(hook_signal, .ns = ref.ns, .topic = QP_STR("s"), .key = text, .guid = G(50 + i),
              .ttl_ms = 500 + i),
           OP(key_acquire, .ns = ref.ns, .scope = i % 2, .name = name, .capacity = 1, .units = 1,
              .holder = ref, .guid = G(1), .lease_ms = 100 * (i % 2 + 1)),
           OP(key_acquire, .ns = ref.ns, .scope = i % 2, .name = name, .capacity = 1, .units = 1,
              .holder = ref, .guid = G(2), .msg_topic = TOPIC, .wait = true),
           OP(idem_put, .ns = ref.ns, .key = name, .ttl_ms = 900 - i),
           OP(audit_add, .ns = ref.ns, .actor = text), OP(node_put, .name = text),
           OP(access_put, .id = name, .role = QP_STR("r"),
              .hash = QP_STR("0123456789abcdef0123456789abcdef")),
           OP(app_put, .ns = ref.ns, .app = i % 2 == 0 ? QP_STR("even") : name, .version = name,
              .source = text, .hash = TOPIC),
           OP(app_activate, .ns = ref.ns, .app = i % 2 == 0 ? QP_STR("even") : name,
              .version = name),
           OP(topic_put, .ns = ref.ns, .kind = i % 2, .topic = name,
              .app = i % 2 == 0 ? QP_STR("even") : name, .version = name));
        populate_facts(f, ref.ns, name);
    }
    DO(f, OP(job_set, .ref = JOB(101), .what = JOB_SET_PARKED, .parked = QP_STR("why")));
}

static void load_table(struct storetest *f, enum table_id table, struct found *all)
{
    struct scan scan = {.table = table, .index = -1, .limit = SIZE_MAX};
    all->table = table;
    all->count = 0;
    scan_into(f, &scan, all);
    assert_true(all->count > 0); /* populate forgot none */
}

/* Proves that a table is read by its key: in order, by any prefix, after any row, in pages; and
 * every row by itself. */
static void test_by_key(void **state)
{
    static struct found all;
    struct storetest *f = *state;
    struct arena arena;
    arena_init(&arena, &f->t.env, 0);
    all.arena = &arena;
    populate(f);
    for (int table = 0; table < TABLE_COUNT; table++) {
        load_table(f, (enum table_id)table, &all);
        check_order(f, &all, -1);
        for (size_t i = 0; i < all.count; i++) {
            const void *row = NULL;
            struct qp_err err;
            assert_int_equal(store_get(f->s, &arena, all.table, all.rows[i], &row, &err), QP_OK);
            assert_true(storetest_row_equal(all.table, row, all.rows[i]));
        }
    }
    arena_done(&arena);
}

/* Proves the same of every index, with its condition: the rows that it holds, no others. */
static void test_by_index(void **state)
{
    static struct found all;
    struct storetest *f = *state;
    struct arena arena;
    arena_init(&arena, &f->t.env, 0);
    all.arena = &arena;
    populate(f);
    for (int index = 0; index < INDEX_COUNT; index++) {
        load_table(f, indexes[index].table, &all);
        check_order(f, &all, index);
    }
    arena_done(&arena);
}

/* All but the payloads, which may be none. */
static void check_slim(enum table_id table, const void *slim, const void *whole)
{
    const struct table *t = &tables[table];
    for (size_t i = 0; i < t->column_count; i++) {
        const struct column *c = &t->columns[i];
        assert_true(column_equal(c, slim, whole) ||
                    (column_is_payload(c) && str_is_none(row_str(c, slim))));
    }
}

/* Proves that rows without their payloads are otherwise the same rows: in a scan, and many by their
 * keys, in whatever order these are, also twice; and that what is not there is told as such. */
static void test_slim(void **state)
{
    static struct found all;
    static struct found slim;
    static const void *keys[2 * ROWS_MAX + 1];
    static void *rows[2 * ROWS_MAX + 1];
    struct storetest *f = *state;
    struct qp_err err;
    struct arena arena;
    arena_init(&arena, &f->t.env, 0);
    all.arena = &arena;
    populate(f);
    for (int table = 0; table < TABLE_COUNT; table++) {
        struct scan scan = {
            .table = (enum table_id)table, .index = -1, .limit = SIZE_MAX, .slim = true};
        size_t count = 0;
        load_table(f, scan.table, &all);
        slim = (struct found){.table = scan.table, .arena = &arena};
        scan_into(f, &scan, &slim);
        assert_int_equal(slim.count, all.count);
        for (size_t i = 0; i < all.count; i++) {
            check_slim(scan.table, slim.rows[i], all.rows[i]);
            keys[count++] = all.rows[i];
            keys[count++] = all.rows[all.count - 1 - i];
        }
        assert_int_equal(store_get_all(f->s, &arena, scan.table, keys, count, rows, &err), QP_OK);
        for (size_t i = 0; i < count; i++) {
            assert_non_null(rows[i]);
            check_slim(scan.table, rows[i], keys[i]);
        }
    }
    keys[0] = &(struct job_row){.ns = NS, .job = 900};
    keys[1] = &(struct job_row){.ns = NS, .job = 100};
    assert_int_equal(store_get_all(f->s, &arena, TABLE_job, keys, 2, rows, &err), QP_OK);
    assert_null(rows[0]);
    assert_int_equal(((const struct job_row *)rows[1])->job, 100);
    assert_int_equal(store_get_all(f->s, &arena, TABLE_job, keys, 0, rows, &err), QP_OK);
    arena_done(&arena);
}

static int refuse_third(void *context, const void *row)
{
    int *count = context;
    (void)row;
    return ++*count == 3 ? QP_E_LIMIT : QP_OK;
}

/* Proves that a visit can end a scan with a code of its own, that a row that is not there is told
 * as such, and that the store goes on after both. */
static void test_ends(void **state)
{
    struct storetest *f = *state;
    struct scan scan = {.table = TABLE_msg, .index = -1, .limit = SIZE_MAX};
    struct qp_err err = {0};
    struct arena arena;
    const void *row = &scan;
    int count = 0;
    populate(f);
    assert_int_equal(store_scan(f->s, &scan, &count, refuse_third, &err), QP_E_LIMIT);
    assert_int_equal(count, 3);
    scan.limit = 0;
    assert_int_equal(store_scan(f->s, &scan, &count, refuse_third, &err), QP_OK);
    assert_int_equal(count, 3);
    arena_init(&arena, &f->t.env, 0);
    assert_int_equal(
        store_get(f->s, &arena, TABLE_job, &(struct job_row){.ns = NS, .job = 900}, &row, &err),
        QP_E_NOT_FOUND);
    assert_ptr_equal(row, &scan); /* untouched */
    assert_int_equal(err.code, QP_E_NOT_FOUND);
    arena_done(&arena);
    conform_put(f, 100, 9);
}

/* Proves that jobs are found in the order of their starts when numbers are not in that order: a job that another one calls
 * gets a number beyond the block from which later starts take theirs. */
static void test_by_start(void **state)
{
    static const int64_t numbers[] = {8, 9, 5};
    struct storetest *f = *state;
    struct job_row prefix = {.ns = NS};
    struct scan scan = {.table = TABLE_job,
                        .index = INDEX_job_started,
                        .prefix = &prefix,
                        .prefix_count = 1,
                        .limit = SIZE_MAX};
    struct arena arena;
    struct found found = {.table = TABLE_job, .arena = &arena};
    arena_init(&arena, &f->t.env, 0);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        conform_job(f, numbers[i]);
        testenv_advance_ms(&f->t, 5);
    }
    scan_into(f, &scan, &found);
    assert_int_equal(found.count, ARRAY_COUNT(numbers));
    for (size_t i = 0; i < found.count; i++) {
        assert_int_equal(((const struct job_row *)found.rows[i])->job, numbers[i]);
    }
    arena_done(&arena);
}

static bool is_due_to_jobs(struct storetest *f)
{
    struct qp_err err = {0};
    bool any = false;
    assert_int_equal(store_due_to_jobs(f->s, &any, &err), QP_OK);
    return any;
}

/* Proves what lets open jobs go on by itself: a delayed message, the lease of a key, the time of a job, however many ended ones
 * come before it; and that what is only kept does not. */
static void test_due_to_jobs(void **state)
{
    struct storetest *f = *state;
    qp_ms due = 0;
    assert_false(is_due_to_jobs(f));
    for (int64_t job = 100; job < 100 + LIMIT_LIST_CHUNK + 5; job++) { /* more than one page */
        conform_job_open(f, job, 1);
        DO(f, OP(job_close, .ref = JOB(job), .guid = G(7), .state = JOB_FAILED));
        DO(f, OP(job_finish, .ref = JOB(job), .guid = G(7), .keep_ms = 500));
    }
    DO(f, OP(hook_signal, .ns = NS, .topic = TOPIC, .key = QP_STR("k"), .guid = G(1),
             .payload = QP_STR("1"), .ttl_ms = 100));
    assert_int_equal(store_due(f->s, &due, NULL), QP_OK);
    assert_true(due < INT64_MAX);
    assert_false(is_due_to_jobs(f));
    conform_job_open(f, 900, 1);
    assert_false(is_due_to_jobs(f));
    DO(f, OP(job_set, .ref = JOB(900), .what = JOB_SET_EXPIRE, .expire_ms = 9000));
    assert_true(is_due_to_jobs(f));
    DO(f, OP(job_set, .ref = JOB(900), .what = JOB_SET_EXPIRE));
    assert_false(is_due_to_jobs(f));
    DO(f, OP(key_acquire, .ns = NS, .name = QP_STR("key"), .capacity = 1, .units = 1,
             .holder = JOB(900), .addr = QP_STR("a"), .guid = G(9), .msg_topic = TOPIC,
             .lease_ms = 1000));
    assert_true(is_due_to_jobs(f));
    DO(f, OP(job_close, .ref = JOB(900), .guid = G(7), .state = JOB_FAILED));
    DO(f, OP(job_finish, .ref = JOB(900), .guid = G(7)));
    conform_job_open(f, 901, 1);
    DO(f, OP(msg_put, .ref = JOB(901), .guid = G(5), .topic = TOPIC, .delay_ms = 1000));
    assert_true(is_due_to_jobs(f));
}

/* Proves that one list of ops makes one state, whoever keeps it: the dump of this provider is that
 * of the first. */
static void test_same_everywhere(void **state)
{
    static char first[1 << 18];
    struct storetest *f = *state;
    struct buf dump;
    if (conform_is_shared(f)) {
        skip(); /* its numbers are others; test_random compares it with memory */
    }
    populate(f);
    testenv_advance_ms(&f->t, 600);
    (void)conform_wake_due(f);
    (void)conform_claim(f, 0, 3, 1000, NULL);
    dump = conform_dump(f);
    assert_true(dump.n < sizeof first);
    if (first[0] == '\0') {
        memcpy(first, dump.p, dump.n);
    }
    /* Where numbers are for many, they are others: test_random translates them. */
    if (!conform_is_shared(f)) {
        assert_string_equal(dump.p, first);
    }
    conform_forget(&dump);
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_by_key),   CONFORM(test_by_index),    CONFORM(test_slim),
    CONFORM(test_ends),     CONFORM(test_due_to_jobs), CONFORM(test_same_everywhere),
    CONFORM(test_by_start),
};
CONFORM_TOPIC(reads);

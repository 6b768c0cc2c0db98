/* test_txn.c - the rows of one commit: read once, written once, undone whole */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/txn.h"
#include "support/testenv.h"

static struct testenv t;
static struct provider *p;
static struct arena arena;
static struct txn x;
static struct qp_err err;

static int set_up(void **state)
{
    struct store_options options = {0};
    (void)state;
    testenv_init(&t, 1);
    arena_init(&arena, &t.env, 0);
    assert_int_equal(memory_open(&t.env, &options, &p, &err), QP_OK);
    assert_int_equal(p->calls->begin(p, &err), QP_OK);
    assert_int_equal(txn_init(&x, NULL, p, &arena, 0, &err), QP_OK);
    x.begun = true;
    txn_begin_bundle(&x);
    txn_begin_op(&x);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    txn_done(&x);
    p->calls->close(p);
    arena_done(&arena);
    testenv_done(&t);
    return 0;
}

static struct data_row data(const char *name, const char *value)
{
    return (struct data_row){.ns = 1, .job = 7, .name = str_from(name), .value = str_from(value)};
}

static void add(const char *name, const char *value)
{
    struct data_row row = data(name, value);
    assert_non_null(txn_add(&x, TABLE_data, &row));
}

static void set(const char *name, const char *value)
{
    struct data_row key = data(name, NULL);
    struct data_row *row = txn_edit(&x, TABLE_data, &key);
    assert_non_null(row);
    row->value = str_from(value);
}

static void drop(const char *name)
{
    struct data_row key = data(name, NULL);
    txn_drop(&x, TABLE_data, &key);
}

static void expect(const char *name, const char *value)
{
    struct data_row key = data(name, NULL);
    const struct data_row *row = txn_get(&x, TABLE_data, &key);
    assert_int_equal(row != NULL, value != NULL);
    assert_true(row == NULL || str_equal(row->value, str_from(value)));
}

/* What the provider has, past the transaction's own view. */
static void expect_stored(const char *name, const char *value, int64_t rev)
{
    struct data_row key = data(name, NULL);
    void *row = NULL;
    assert_int_equal(p->calls->load(p, &arena, TABLE_data, &key, &row, &err), QP_OK);
    assert_int_equal(row != NULL, value != NULL);
    if (row != NULL) {
        assert_true(str_equal(((struct data_row *)row)->value, str_from(value)));
        assert_int_equal(((struct data_row *)row)->rev, rev);
    }
}

/* Ten changes of a row are one write; a row that came and went is none. */
static void test_rows_are_written_once(void **state)
{
    (void)state;
    add("a", "0");
    add("gone", "0");
    for (int i = 0; i < 10; i++) {
        txn_begin_op(&x);
        set("a", i % 2 == 0 ? "even" : "odd");
    }
    drop("gone");
    assert_true(txn_is_dirty(&x));
    assert_int_equal(txn_flush(&x), QP_OK);
    assert_int_equal(x.rows_written, 1);
    expect_stored("a", "odd", 1);
    expect_stored("gone", NULL, 0);
}

/* An undone bundle leaves what was before it, also when a flush had told the provider already. */
static void test_undo(void **state)
{
    (void)state;
    add("kept", "1");
    add("dropped", "1");
    for (int flush = 0; flush < 2; flush++) {
        txn_begin_bundle(&x);
        txn_begin_op(&x);
        set("kept", "2");
        drop("dropped");
        add("new", "1");
        assert_true(flush == 0 || txn_flush(&x) == QP_OK);
        txn_begin_op(&x);
        set("kept", "3");
        txn_undo_bundle(&x);
        expect("kept", "1");
        expect("dropped", "1");
        expect("new", NULL);
    }
    assert_int_equal(txn_flush(&x), QP_OK);
    expect_stored("kept", "1", 2); /* it was 2 in between */
    expect_stored("dropped", "1", 1);
    expect_stored("new", NULL, 0);
}

/* A bundle is undone without the bundle before it. */
static void test_undo_of_one_bundle(void **state)
{
    (void)state;
    add("a", "1");
    txn_begin_bundle(&x);
    txn_begin_op(&x);
    set("a", "2");
    add("b", "2");
    txn_undo_bundle(&x);
    expect("a", "1");
    expect("b", NULL);
}

/* A scan sees what was added, changed and dropped, and hands out what edits will change. */
static void test_scan_sees_changes(void **state)
{
    struct data_row prefix = {.ns = 1, .job = 7};
    struct bundle_rows found;
    (void)state;
    add("a", "1");
    add("b", "1");
    add("c", "1");
    assert_int_equal(txn_flush(&x), QP_OK);
    txn_begin_op(&x);
    drop("b");
    set("c", "2");
    add("d", "1");
    assert_int_equal(txn_scan(&x,
                              &(struct scan){.table = TABLE_data,
                                             .index = -1,
                                             .prefix = &prefix,
                                             .prefix_count = 2,
                                             .limit = 10},
                              &found),
                     QP_OK);
    assert_int_equal(found.count, 3);
    assert_true(str_equal(((const struct data_row *)found.rows[1])->value, QP_STR("2")));
    assert_false(found.cut);
}

/* Numbers only grow, and come back with the bundle that took them. */
static void test_numbers(void **state)
{
    int64_t first;
    int64_t second;
    (void)state;
    assert_int_equal(txn_number(&x, SERIES_ORD, 1, &first), QP_OK);
    txn_begin_bundle(&x);
    txn_begin_op(&x);
    assert_int_equal(txn_number(&x, SERIES_ORD, 5, &second), QP_OK);
    assert_int_equal(second, first + 1);
    txn_undo_bundle(&x);
    txn_begin_op(&x);
    assert_int_equal(txn_number(&x, SERIES_ORD, 1, &second), QP_OK);
    assert_int_equal(second, first + 1);
}

/* A key that is there already is not added again; a key that is too long stops the bundle only. */
static void test_refusals(void **state)
{
    static char text[20000];
    struct data_row row = data("a", "1");
    struct data_row long_key = {.ns = 1, .job = 7, .name = {text, sizeof text}};
    (void)state;
    memset(text, 'x', sizeof text);
    add("a", "1");
    assert_null(txn_add_new(&x, TABLE_data, &row));
    assert_int_equal(x.rc, QP_OK);
    assert_null(txn_get(&x, TABLE_data, &long_key));
    assert_int_equal(x.bundle_rc, QP_E_TOO_LARGE);
    assert_int_equal(x.rc, QP_OK);
    assert_null(txn_add(&x, TABLE_data, &row));
    assert_int_equal(x.rc, QP_E_CORRUPT);
}

static int64_t *counter(void)
{
    struct counter_row key = {.ns = 1, .workflow = QP_STR("w")};
    struct counter_row *row = txn_edit(&x, TABLE_counter, &key);
    assert_non_null(row);
    return &row->n;
}

static void sound(struct job_row *job, struct act_row *act)
{
    (void)job;
    (void)act;
}

static void negative_count(struct job_row *job, struct act_row *act)
{
    (void)act;
    job->sem = -1;
}

static void large_ledger(struct job_row *job, struct act_row *act)
{
    (void)job;
    act->ledger = 1000000000000000;
}

static void negative_guid_ledger(struct job_row *job, struct act_row *act)
{
    (void)job;
    act->guid_ledger = -1;
}

/* A digit or a count out of its bounds never reaches a provider: the commit fails. */
static void test_rows_are_checked_before_they_are_written(void **state)
{
    static void (*const changes[])(struct job_row *, struct act_row *) = {
        sound, negative_count, large_ledger, negative_guid_ledger};
    for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
        struct job_row job = {.ns = 1, .job = 7};
        struct act_row act = {.ns = 1, .job = 7, .addr = QP_STR("run,0,0"), .pos = 3};
        changes[i](&job, &act);
        assert_non_null(txn_add(&x, TABLE_job, &job));
        assert_non_null(txn_add(&x, TABLE_act, &act));
        assert_int_equal(txn_flush(&x), i == 0 ? QP_OK : QP_E_INTERNAL);
        assert_true(i == 0 || strstr(err.text, "out of its bounds") != NULL);
        assert_int_equal(tear_down(state), 0);
        assert_int_equal(set_up(state), 0);
    }
}

/* Proves that a row which changes in place from op to op of a bundle is undone with the bundle, and
* not with the one before it. */
static void test_in_place(void **state)
{
    struct counter_row row = {.ns = 1, .workflow = QP_STR("w"), .n = 1};
    int64_t *first;
    (void)state;
    assert_non_null(txn_add(&x, TABLE_counter, &row));
    txn_begin_bundle(&x);
    txn_begin_op(&x);
    first = counter();
    *first = 2;
    txn_begin_op(&x);
    assert_ptr_equal(counter(), first);
    *counter() = 3;
    txn_undo_bundle(&x);
    txn_begin_bundle(&x);
    txn_begin_op(&x);
    assert_ptr_not_equal(counter(), first);
    assert_int_equal(*counter(), 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_in_place),
        CASE(test_rows_are_written_once),
        CASE(test_undo),
        CASE(test_undo_of_one_bundle),
        CASE(test_scan_sees_changes),
        CASE(test_numbers),
        CASE(test_refusals),
        CASE(test_rows_are_checked_before_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_copy.c - a store into another one: nothing is lost, nothing is there twice, both go on
 *
 * Between all kinds of stores it proves:
 *
 *   all rows              the destination prints as the source does, revisions too, after random commits
 *   they go on alike      the same further commits give both the same state: numbers, tokens, clock
 *   jobs in flight        a shape (shapes.h) that is moved after any half step, and taken up at the
 *                         destination, ends as if nothing had happened
 *   pages                 tables and rows that are larger than a transaction
 *   refusals              each with its code and its sentence, and nothing has changed
 *   failures              memory or a transaction fails anywhere: the same copy again finishes it, and in
 *                         no moment both stores can be used
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/failpoint.h"
#include "kernel/check.h"
#include "store/txn.h"
#include "support/shaperun.h"
#include "support/statetext.h"
#include "support/storepair.h"

#define COMMITS 100
#define COMMITS_AFTER 25
#define WORKERS 2

static struct storepair p;
static struct shaperun run;
static bool torture;
static uint64_t seed;

static const struct {
    enum storetest_kind from;
    enum storetest_kind to;
} ways[] = {
    {STORETEST_MEMORY, STORETEST_SQLITE},      {STORETEST_SQLITE, STORETEST_MEMORY},
    {STORETEST_SQLITE, STORETEST_SQLITE},      {STORETEST_MEMORY_ROWS, STORETEST_SQLITE},
    {STORETEST_SQLITE, STORETEST_MEMORY_ROWS}, {STORETEST_SQLITE_SMALL, STORETEST_SQLITE_SMALL},
};

static void must_copy(bool keep_source)
{
    int rc = storepair_copy(&p, keep_source);
    if (rc != QP_OK) {
        fail_msg("copy: %s (%s)", p.err.text, qp_code_word(rc));
    }
}

/* ------------------------------------------------------------------------------------------ all rows */

static void all_rows_are_kept(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        int64_t rows = 0;
        storepair_init(&p, ways[i].from, ways[i].to);
        storepair_fill(&p, seed + i, COMMITS);
        must_copy(true);
        storepair_assert_equal(&p, 0);
        for (int t = 0; t < TABLE_COUNT; t++) {
            assert_int_equal(p.progress.table_rows[t], storetest_count(&p.from, (enum table_id)t));
            rows += p.progress.table_rows[t];
        }
        assert_true(rows > COMMITS / 10); /* some commits delete */
        assert_int_equal(p.progress.rows, rows);
        assert_true(p.progress.size > rows);
        assert_int_equal(p.progress.tables, TABLE_COUNT);
        assert_int_equal(storepair_state(&p.to), HEAD_IN_USE);
        storepair_reopen(&p, &p.to, false);
        storepair_assert_equal(&p, 0);
        storepair_done(&p);
    }
}

/* There and back again: the third store prints as the first. */
static void there_and_back(void **state)
{
    static struct storetest third;
    struct copy_options back;
    struct buf first;
    struct buf last;
    storepair_init(&p, STORETEST_SQLITE, STORETEST_MEMORY);
    storepair_fill(&p, seed, COMMITS);
    storetest_init(&third, STORETEST_SQLITE, 3);
    buf_init(&first, &p.from.t.env, 0);
    buf_init(&last, &p.from.t.env, 0);
    statetext_print(p.from.s, STATETEXT_NO_MARK | STATETEXT_NO_CLOCK, &first);
    must_copy(false);
    back = (struct copy_options){.from = p.to.s, .to = third.s, .to_name = "home"};
    assert_int_equal(store_copy(&back, &p.progress, &p.err), QP_OK);
    statetext_print(third.s, STATETEXT_NO_MARK | STATETEXT_NO_CLOCK, &last);
    assert_true(statetext_equal(&first, &last));
    buf_done(&first);
    buf_done(&last);
    storetest_done(&third);
    storepair_done(&p);
}

static void they_go_on_alike(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        bool rows_mode =
            ways[i].from == STORETEST_MEMORY_ROWS || ways[i].to == STORETEST_MEMORY_ROWS;
        storepair_init(&p, ways[i].from, ways[i].to);
        storepair_fill(&p, seed + i, COMMITS);
        must_copy(true);
        for (int k = 0; k < COMMITS_AFTER; k++) {
            storepair_commit_both(&p);
            storepair_assert_equal(&p, rows_mode ? STATETEXT_NO_REV : 0);
        }
        (void)storetest_cache_check(&p.to); /* asserts for itself */
        storepair_done(&p);
    }
}

/* The source's clock was ahead of the wall: the destination goes on from it, not from the wall. */
static void the_clock_does_not_go_back(void **state)
{
    const struct head_row *head;
    qp_ms clock;
    storepair_init(&p, STORETEST_SQLITE, STORETEST_SQLITE);
    testenv_advance_ms(&p.from.t, 3600000);
    storepair_fill(&p, seed, 5);
    head = storetest_row(&p.from, TABLE_head, &(struct head_row){.ns = 0});
    clock = head->clock;
    p.from.t.now_ms = clock - 1800000; /* later than the destination was made */
    must_copy(false);
    assert_true(store_now(p.to.s) >= clock);
    storepair_reopen(&p, &p.to, false);
    assert_true(store_now(p.to.s) >= clock);
    storepair_done(&p);
}

/* -------------------------------------------------------------------------------------- jobs in flight */

struct shape_case {
    const struct shape *shape;
    const char *input;
    int64_t stride; /* of half steps in the check lane */
};

static const struct shape_case shapes[] = {{&shape_tree, "7", 21},
                                           {&shape_flow, "0", 25},
                                           {&shape_carto, "20", 51},
                                           {&shape_children, "9", 11}};

static int visit_error(void *context, const struct qp_finding *finding)
{
    print_error("%s: %s (%s)\n", finding->rule, finding->text, finding->evidence);
    return finding->severity == QP_SEVERITY_ERROR ? QP_E_CORRUPT : QP_OK;
}

static int verify_both(void *context, struct store *from, struct store *to, struct qp_err *err)
{
    struct qp_check_result result;
    int rc = check_run(from, &(struct check_options){0}, NULL, visit_error, &result, err);
    ++*(int *)context;
    return rc == QP_OK ? check_run(to, &(struct check_options){0}, NULL, visit_error, &result, err)
                       : rc;
}

/* Moved after n half steps, with tasks in hand; false when it was done before. */
static bool moved_at(const struct shape_case *c, size_t way, bool stepwise, int64_t n)
{
    struct copy_options options = {.to_name = "there", .verify = verify_both};
    int verified = 0;
    bool alive = true;
    storepair_init(&p, ways[way].from, ways[way].to);
    run = (struct shaperun){.shape = c->shape,
                            .store = p.from.s,
                            .time = &p.from.t,
                            .input = c->input,
                            .stepwise = stepwise,
                            .workers = WORKERS};
    shaperun_init(&run);
    for (int64_t i = 0; i < n && alive; i++) {
        if (i % 2 == 0) {
            shaperun_work(&run);
        } else {
            shaperun_round(&run);
        }
        alive = !shaperun_is_done(&run);
    }
    shaperun_kill(&run);
    options.from = p.from.s;
    options.to = p.to.s;
    options.context = &verified;
    assert_int_equal(store_copy(&options, &p.progress, &p.err), QP_OK);
    assert_int_equal(verified, 1);
    run.store = p.to.s;
    shaperun_resume(&run);
    shaperun_finish(&run);
    shaperun_verify(&run);
    shaperun_done(&run);
    storepair_done(&p);
    return alive;
}

static void jobs_in_flight_come_to_the_same_end(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        int64_t stride = torture ? 1 : shapes[i].stride;
        int64_t moves = 0;
        bool alive = true;
        for (int64_t n = 1 + (int64_t)(seed % 20); alive; n += stride) {
            alive = moved_at(&shapes[i], (size_t)moves % ARRAY_COUNT(ways), moves % 2 != 0, n);
            moves++;
        }
        assert_true(moves > 1);
        printf("%s: moved %lld times\n", shapes[i].shape->program->name, (long long)moves);
    }
}

/* Here one message creates an activity, with what it brought as its input, and a second one of the same
 * round brings it to its task: the input must live until the task is made. */
static void an_input_outlives_its_message(void **state)
{
    assert_true(moved_at(&shapes[2], 0, false, 14));
}

/* --------------------------------------------------------------------------------------------- pages */

#define BIG_VALUES 7
#define BIG_SIZE (2 * 1000 * 1000)
#define MANY_ROWS (2 * LIMIT_COPY_ROWS + 5)

static void put_many(void)
{
    static char big[BIG_SIZE];
    struct op job = {.kind = OP_job_create,
                     .job_create = {.ref = {STORE_NS_DEFAULT, 100},
                                    .jid = QP_STR("big"),
                                    .workflow = QP_STR("w"),
                                    .owner_guid = storetest_guid(1)}};
    struct op *audits = calloc(MANY_ROWS, sizeof *audits);
    assert_non_null(audits);
    for (size_t i = 0; i < MANY_ROWS; i++) {
        audits[i] = (struct op){.kind = OP_audit_add,
                                .audit_add = {.ns = STORE_NS_DEFAULT, .actor = QP_STR("me")}};
    }
    assert_int_equal(storetest_bundle(&p.from, audits, MANY_ROWS, NULL), QP_OK);
    free(audits);
    assert_int_equal(storetest_op(&p.from, &job), QP_OK);
    for (int i = 0; i < BIG_VALUES; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        memset(big, name[0], sizeof big);
        struct op data = {.kind = OP_data_put,
                          .data_put = {.ref = {STORE_NS_DEFAULT, 100},
                                       .name = str_from(name),
                                       .value = {big, sizeof big}}};
        assert_int_equal(storetest_op(&p.from, &data), QP_OK);
    }
}

struct steps {
    int64_t reports;
    int64_t rows;
    int64_t size;
    int values; /* that were found afterwards */
};

/* The values are called a, b, ... and made of these letters. */
static int check_value(void *context, const void *row)
{
    const struct data_row *data = row;
    int *found = context;
    assert_int_equal(data->name.p[0], 'a' + (*found)++);
    assert_int_equal(data->value.n, BIG_SIZE);
    assert_int_equal(data->value.p[0], data->name.p[0]);
    assert_memory_equal(data->value.p, data->value.p + 1, BIG_SIZE - 1);
    return QP_OK;
}

static void watch_steps(void *context, const struct copy_progress *progress)
{
    struct steps *steps = context;
    assert_in_range(progress->rows - steps->rows, 0, LIMIT_COPY_ROWS + 1);
    assert_in_range(progress->size - steps->size, 0, LIMIT_COPY_SIZE);
    steps->rows = progress->rows;
    steps->size = progress->size;
    steps->reports++;
}

static void large_tables_go_in_pages(void **state)
{
    for (size_t i = 0; i < 3; i++) {
        struct steps steps = {0};
        struct copy_options options = {
            .to_name = "there", .context = &steps, .report = watch_steps, .keep_source = true};
        struct scan values = {.table = TABLE_data, .index = -1, .limit = SIZE_MAX};
        storepair_init(&p, ways[i].from, ways[i].to);
        put_many();
        options.from = p.from.s;
        options.to = p.to.s;
        assert_int_equal(store_copy(&options, &p.progress, &p.err), QP_OK);
        assert_int_equal(p.progress.table_rows[TABLE_audit], MANY_ROWS);
        assert_int_equal(p.progress.table_rows[TABLE_data], BIG_VALUES);
        assert_int_equal(steps.rows, p.progress.rows);
        assert_true(p.progress.size > BIG_VALUES * BIG_SIZE);
        /* one for each table but the head, two more for the audit rows, one more for the values */
        assert_int_equal(steps.reports, TABLE_COUNT - 1 + 2 + 1);
        assert_int_equal(store_scan(p.to.s, &values, &steps.values, check_value, &p.err), QP_OK);
        assert_int_equal(steps.values, BIG_VALUES);
        storepair_done(&p);
    }
}

/* ------------------------------------------------------------------------------------------- shards */

static int add_shards(void *context, struct txn *t)
{
    for (int64_t shard = 0; shard < 5; shard++) {
        struct counter_row row = {
            .ns = 1, .workflow = QP_STR("w"), .status = 3, .shard = 7 * shard + 2, .n = 10 - shard};
        assert_non_null(txn_add(t, TABLE_counter, &row));
    }
    return t->rc;
}

/* A counter is what its shards sum up to; the destination has one shard. */
static void shards_are_summed(void **state)
{
    struct counter_row key = {.ns = 1, .workflow = QP_STR("w"), .status = 3};
    storepair_init(&p, STORETEST_MEMORY, STORETEST_SQLITE);
    assert_int_equal(store_transact(p.from.s, NULL, add_shards, &p.err), QP_OK);
    must_copy(false);
    assert_int_equal(storetest_count(&p.to, TABLE_counter), 1);
    assert_int_equal(((const struct counter_row *)storetest_row(&p.to, TABLE_counter, &key))->n,
                     10 + 9 + 8 + 7 + 6);
    storepair_done(&p);
}

/* ------------------------------------------------------------------------------------------ refusals */

static void refused(int rc, int want, const char *words)
{
    if (rc != want || strstr(p.err.text, words) == NULL) {
        fail_msg("%s: %s", qp_code_word(rc), p.err.text);
    }
}

static int open_again(struct storetest *f, bool read_only, struct store **out)
{
    struct store_options options = {.path = f->path, .read_only = read_only};
    p.err.text[0] = '\0';
    return store_open(&p.from.t.env, &options, out, &p.err);
}

static void a_destination_must_be_empty(void **state)
{
    struct op space = {.kind = OP_space_create, .space_create = {.name = QP_STR("tenant")}};
    storepair_init(&p, STORETEST_SQLITE, STORETEST_SQLITE);
    storepair_fill(&p, seed, 5);
    assert_int_equal(storetest_op(&p.to, &space), QP_OK);
    refused(storepair_copy(&p, false), QP_E_EXISTS, "is not empty (space)");
    assert_int_equal(storepair_state(&p.from), HEAD_IN_USE);
    assert_int_equal(storepair_state(&p.to), HEAD_IN_USE);
    storepair_done(&p);
}

/* What was moved can be read, not written, and not moved again; it says where it is. */
static void a_moved_store_says_where_it_went(void **state)
{
    static struct storetest other;
    struct copy_options again;
    struct store *s = NULL;
    storepair_init(&p, STORETEST_SQLITE, STORETEST_SQLITE);
    storepair_fill(&p, seed, 5);
    must_copy(false);
    assert_int_equal(storepair_state(&p.from), HEAD_MOVED);
    storepair_reopen(&p, &p.from, true);
    assert_int_equal(storepair_state(&p.from), HEAD_MOVED);
    storetest_init(&other, STORETEST_MEMORY, 3);
    again = (struct copy_options){.from = p.from.s, .to = other.s, .to_name = "elsewhere"};
    refused(store_copy(&again, &p.progress, &p.err), QP_E_READONLY, "was moved to there already");
    refused(storepair_copy(&p, false), QP_E_READONLY, "was moved to there already");
    again = (struct copy_options){.from = p.to.s, .to = p.from.s, .to_name = "back"};
    refused(store_copy(&again, &p.progress, &p.err), QP_E_EXISTS, "is not empty");
    assert_int_equal(store_close(p.from.s, NULL), QP_OK);
    p.from.s = NULL;
    refused(open_again(&p.from, false, &s), QP_E_READONLY, "was moved to there; work there");
    assert_int_equal(open_again(&p.from, true, &s), QP_OK);
    assert_int_equal(store_close(s, NULL), QP_OK);
    storetest_done(&other);
    storepair_done(&p);
}

/* The source has said goodbye, and what there was of the copy is lost: it goes to a new one of that
 * name. */
static void a_lost_destination_is_made_again(void **state)
{
    static struct storetest other;
    struct copy_options again = {.to_name = "there"};
    storepair_init(&p, STORETEST_SQLITE, STORETEST_MEMORY);
    storepair_fill(&p, seed, 20);
    must_copy(false);
    storetest_init(&other, STORETEST_SQLITE, 3);
    again.from = p.from.s;
    again.to = other.s;
    assert_int_equal(store_copy(&again, &p.progress, &p.err), QP_OK);
    assert_int_equal(storepair_state(&p.from), HEAD_MOVED);
    assert_int_equal(storepair_state(&other), HEAD_IN_USE);
    assert_int_equal(storetest_count(&other, TABLE_job), storetest_count(&p.from, TABLE_job));
    refused(store_copy(&again, &p.progress, &p.err), QP_E_READONLY, "was moved to there already");
    storetest_done(&other);
    storepair_done(&p);
}

/* Half of a copy is refused to readers and writers, and is no source. */
static void half_of_a_copy_is_refused(void **state)
{
    static struct storetest other;
    struct copy_options from_half;
    struct store *s = NULL;
    storepair_init(&p, STORETEST_SQLITE, STORETEST_SQLITE);
    storepair_fill(&p, seed, 20);
    assert_int_equal(failpoint_set("copy.after=error@6"), QP_OK);
    assert_int_equal(storepair_copy(&p, false), QP_E_IO);
    assert_int_equal(failpoint_set(NULL), QP_OK);
    assert_int_equal(storepair_state(&p.from), HEAD_IN_USE);
    storepair_reopen(&p, &p.to, true);
    assert_int_equal(storepair_state(&p.to), HEAD_FILLING);
    storetest_init(&other, STORETEST_MEMORY, 3);
    from_half = (struct copy_options){.from = p.to.s, .to = other.s, .to_name = "x"};
    refused(store_copy(&from_half, &p.progress, &p.err), QP_E_CONFLICT, "is half of a copy");
    storetest_done(&other);
    assert_int_equal(store_close(p.to.s, NULL), QP_OK);
    refused(open_again(&p.to, false, &s), QP_E_CONFLICT, "run the same quipu migrate again");
    refused(open_again(&p.to, true, &s), QP_E_CONFLICT, "run the same quipu migrate again");
    p.to.s = NULL;
    storepair_reopen(&p, &p.to, true);
    must_copy(true);
    storepair_assert_equal(&p, 0);
    storepair_done(&p);
}

static void enter_run(struct storetest *f, qp_ms lease_ms)
{
    struct op enter = {
        .kind = OP_node_put,
        .node_put = {.name = QP_STR("node"), .lease_ms = lease_ms, .state = NODE_RUNNING}};
    assert_int_equal(storetest_op(f, &enter), QP_OK);
}

/* Where others can write: a run whose lease lasts is at work, one whose lease is over is not. Whoever has
 * the store for itself need not ask. */
static void a_source_at_work_is_refused(void **state)
{
    storepair_init(&p, STORETEST_MEMORY_ROWS, STORETEST_MEMORY);
    enter_run(&p.from, 3000);
    refused(storepair_copy(&p, false), QP_E_LOCKED, "(node) is at work; stop it first");
    assert_int_equal(storepair_state(&p.from), HEAD_CLEAN);
    assert_int_equal(storepair_state(&p.to), HEAD_CLEAN);
    testenv_advance_ms(&p.from.t, 3001);
    must_copy(false);
    assert_int_equal(storetest_count(&p.to, TABLE_node), 1);
    storepair_done(&p);
    storepair_init(&p, STORETEST_SQLITE, STORETEST_MEMORY);
    enter_run(&p.from, 3000);
    must_copy(false);
    storepair_done(&p);
}

static int reserve_one(void *context, struct store *from, struct store *to, struct qp_err *err)
{
    struct op reserve = {.kind = OP_ids_reserve, .ids_reserve = {.count = 1}};
    return storetest_op(context, &reserve);
}

/* Somebody takes a number of the source while it is copied: the copy is not its state any more. */
static void a_source_that_moves_on_is_noticed(void **state)
{
    struct copy_options options = {.to_name = "there", .verify = reserve_one};
    storepair_init(&p, STORETEST_MEMORY, STORETEST_SQLITE);
    options.from = p.from.s;
    options.to = p.to.s;
    options.context = &p.from;
    refused(store_copy(&options, &p.progress, &p.err), QP_E_CONFLICT, "was written to while");
    assert_int_equal(storepair_state(&p.from), HEAD_CLEAN);
    assert_int_equal(storepair_state(&p.to), HEAD_FILLING);
    must_copy(false);
    assert_int_equal(storepair_state(&p.from), HEAD_MOVED);
    storepair_done(&p);
}

static int touch_head(void *context, struct txn *t)
{
    struct head_row *head = txn_edit(t, TABLE_head, &(struct head_row){.ns = 0});
    assert_non_null(head);
    head->clock++;
    return t->rc;
}

static int touch_destination(void *context, struct store *from, struct store *to,
                             struct qp_err *err)
{
    return store_transact(to, NULL, touch_head, err);
}

/* A second copy into the same destination, or whatever else writes to it: neither goes on. */
static void a_destination_that_moves_on_is_noticed(void **state)
{
    struct copy_options options = {.to_name = "there", .verify = touch_destination};
    storepair_init(&p, STORETEST_SQLITE, STORETEST_MEMORY);
    storepair_fill(&p, seed, 5);
    options.from = p.from.s;
    options.to = p.to.s;
    refused(store_copy(&options, &p.progress, &p.err), QP_E_CONFLICT, "somebody else writes to it");
    assert_int_equal(storepair_state(&p.to), HEAD_FILLING);
    must_copy(false);
    assert_int_equal(storepair_state(&p.to), HEAD_IN_USE);
    storepair_done(&p);
}

static void write_state(const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(p.from.path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* What a later version may say there is not known here. */
static void an_unknown_state_is_damage(void **state)
{
    struct store *s = NULL;
    storepair_init(&p, STORETEST_SQLITE, STORETEST_MEMORY);
    assert_int_equal(store_close(p.from.s, NULL), QP_OK);
    p.from.s = NULL;
    write_state("UPDATE qp_head SET clean=4");
    assert_int_equal(open_again(&p.from, true, &s), QP_E_CORRUPT);
    assert_int_equal(open_again(&p.from, false, &s), QP_E_CORRUPT);
    write_state("UPDATE qp_head SET clean=1");
    storepair_reopen(&p, &p.from, false);
    storepair_done(&p);
}

/* ------------------------------------------------------------------------------------------ failures */

static bool can_be_used(struct storetest *f)
{
    int64_t state = storepair_state(f);
    return state == HEAD_IN_USE || state == HEAD_CLEAN;
}

/* A transaction fails before it commits, or its answer is lost, again and again. */
static void failed_transactions_are_made_up_for(void **state)
{
    static const char *const points[] = {"copy.before", "copy.after"};
    for (size_t i = 0; i < 2 * ARRAY_COUNT(points); i++) {
        int failures = 0;
        int rc;
        storepair_init(&p, ways[1 + i / 2].from, ways[1 + i / 2].to);
        storepair_fill(&p, seed, 40);
        do {
            char spec[64];
            (void)snprintf(spec, sizeof spec, "%s=error@%d", points[i % 2], ++failures);
            assert_int_equal(failpoint_set(spec), QP_OK);
            rc = storepair_copy(&p, false);
            assert_int_equal(failpoint_set(NULL), QP_OK);
            assert_false(can_be_used(&p.from) && storepair_state(&p.to) == HEAD_IN_USE &&
                         storetest_count(&p.to, TABLE_job) > 0);
            if (rc == QP_E_READONLY) {
                break; /* the answer to the very last one was lost: all is done */
            }
        } while (rc != QP_OK);
        assert_true(failures > 20);
        assert_true(storepair_state(&p.from) == HEAD_MOVED && can_be_used(&p.to));
        storepair_done(&p);
    }
}

static void lost_memory_is_made_up_for(void **state)
{
    for (size_t i = 0; i < 3; i++) {
        int64_t n = 1;
        int rc;
        storepair_init(&p, ways[i].from, ways[i].to);
        storepair_fill(&p, seed, 8);
        do {
            testenv_fail_at(&p.from.t, n);
            rc = storepair_copy(&p, true);
            n += 1 + n / 8;
            assert_true(testenv_failed(&p.from.t) ? rc == QP_E_NOMEM : rc == QP_OK);
        } while (rc != QP_OK);
        testenv_fail_at(&p.from.t, 0);
        assert_true(n > 20);
        storepair_assert_equal(&p, 0);
        storepair_done(&p);
    }
}

static int setup(void **state)
{
    const char *lane = getenv("QP_LANE");
    torture = lane != NULL && strcmp(lane, "torture") == 0;
    seed = testenv_seed();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_rows_are_kept),
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(they_go_on_alike),
        cmocka_unit_test(the_clock_does_not_go_back),
        cmocka_unit_test(jobs_in_flight_come_to_the_same_end),
        cmocka_unit_test(an_input_outlives_its_message),
        cmocka_unit_test(large_tables_go_in_pages),
        cmocka_unit_test(shards_are_summed),
        cmocka_unit_test(a_destination_must_be_empty),
        cmocka_unit_test(a_moved_store_says_where_it_went),
        cmocka_unit_test(a_lost_destination_is_made_again),
        cmocka_unit_test(half_of_a_copy_is_refused),
        cmocka_unit_test(a_source_at_work_is_refused),
        cmocka_unit_test(a_source_that_moves_on_is_noticed),
        cmocka_unit_test(a_destination_that_moves_on_is_noticed),
        cmocka_unit_test(an_unknown_state_is_damage),
        cmocka_unit_test(failed_transactions_are_made_up_for),
        cmocka_unit_test(lost_memory_is_made_up_for),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

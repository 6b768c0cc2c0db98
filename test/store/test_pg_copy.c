/* test_pg_copy.c - a store moves to PostgreSQL, back, and from one schema to another
 *
 * What test_copy.c holds between files and memory holds here, too; besides, it proves:
 *
 *   numbers         positions, orders and ids that come after a move are above all from before it, also
 *                   where PostgreSQL's own were far behind or far ahead
 *   alone           while a copy is made, no other handle commits, and there is no second copy
 *   old handles     an engine that stood still during the move and goes on afterwards commits nothing,
 *                   neither at the source nor, if it knew the destination before, there
 *   lost lines      a copy whose connection breaks is at its end; the same copy again finishes it
 */
#include <postgresql/libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "kernel/check.h"
#include "store/txn.h"
#include "support/enginetest.h"
#include "support/shaperun.h"
#include "support/statetext.h"
#include "support/storepair.h"

#define COMMITS 60
#define WORKERS 2
#define LEASE_MS 3000

static struct storepair p;
static struct storetest third;
static struct shaperun run;
static struct enginetest x;
static bool torture;
static uint64_t seed;

static const struct {
    enum storetest_kind from;
    enum storetest_kind to;
} ways[] = {
    {STORETEST_SQLITE, STORETEST_POSTGRES},
    {STORETEST_POSTGRES, STORETEST_SQLITE},
    {STORETEST_POSTGRES, STORETEST_POSTGRES},
};

static void must_copy(bool keep_source)
{
    int rc = storepair_copy(&p, keep_source);
    if (rc != QP_OK) {
        fail_msg("copy: %s (%s)", p.err.text, qp_code_word(rc));
    }
}

static void refused(int rc, int want, const char *words)
{
    if (rc != want || strstr(p.err.text, words) == NULL) {
        fail_msg("%s: %s", qp_code_word(rc), p.err.text);
    }
}

/* A second handle on a store of the pair, as an engine has one. */
static int open_beside(const char *path, bool moving, struct store **out)
{
    struct store_options options = {
        .path = path, .host_clock = true, .moving = moving, .durability = DURABILITY_RELAXED};
    p.err.text[0] = '\0';
    return store_open(&p.from.t.env, &options, out, &p.err);
}

static int reserve(struct store *s, int64_t *out_first)
{
    struct commit c;
    struct bundle *b;
    struct op *op;
    int rc;
    commit_init(&c, s);
    b = commit_bundle(&c, "test");
    op = bundle_op(b, OP_ids_reserve);
    op->ids_reserve.count = 1;
    rc = store_commit(s, &c);
    rc = rc == QP_OK ? b->rc : rc;
    *out_first = op->ids_reserve.out_first;
    p.err = c.err;
    commit_done(&c);
    return rc;
}

/* ------------------------------------------------------------------------------------------ all rows */

/* The numbers of the head row are each provider's own; so is the shard that a handle counts in. */
static void translate(void *context, enum table_id table, void *row)
{
    if (table == TABLE_head) {
        *(struct head_row *)row = (struct head_row){0};
    } else if (table == TABLE_counter) {
        ((struct counter_row *)row)->shard = 0;
        ((struct counter_row *)row)->rev = 0;
    }
}

static void assert_equal(struct store *a, struct store *b)
{
    struct buf text_a;
    struct buf text_b;
    bool equal;
    buf_init(&text_a, &p.from.t.env, 0);
    buf_init(&text_b, &p.from.t.env, 0);
    statetext_print_as(a, 0, NULL, translate, &text_a);
    statetext_print_as(b, 0, NULL, translate, &text_b);
    equal = statetext_equal(&text_a, &text_b);
    if (!equal) {
        statetext_show(&text_a, &text_b);
    }
    buf_done(&text_a);
    buf_done(&text_b);
    assert_true(equal);
}

static void all_rows_are_kept(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        storepair_init(&p, ways[i].from, ways[i].to);
        storepair_fill(&p, seed + i, COMMITS);
        must_copy(true);
        assert_equal(p.from.s, p.to.s);
        for (int t = 0; t < TABLE_COUNT; t++) {
            assert_int_equal(p.progress.table_rows[t], storetest_count(&p.to, (enum table_id)t));
        }
        assert_true(p.progress.rows > COMMITS / 10); /* some commits delete */
        assert_int_equal(storepair_state(&p.to), HEAD_IN_USE);
        storepair_reopen(&p, &p.from, false);
        storepair_reopen(&p, &p.to, false);
        assert_equal(p.from.s, p.to.s);
        storepair_fill(&p, seed + 7 * i, 5); /* both can still be used */
        storepair_done(&p);
    }
}

static void there_and_back(void **state)
{
    struct copy_options back = {.to_name = "home"};
    storepair_init(&p, STORETEST_SQLITE, STORETEST_POSTGRES);
    storepair_fill(&p, seed, COMMITS);
    storetest_init(&third, STORETEST_SQLITE, 3);
    must_copy(true);
    back.from = p.to.s;
    back.to = third.s;
    assert_int_equal(store_copy(&back, &p.progress, &p.err), QP_OK);
    assert_equal(p.from.s, third.s);
    assert_int_equal(storepair_state(&p.to), HEAD_MOVED);
    refused(open_beside(p.to.path, false, &back.from), QP_E_READONLY, "was moved to home");
    storetest_done(&third);
    storepair_done(&p);
}

static bool has_shard_of(struct store *s, struct store *const *others, int64_t count)
{
    bool found = false;
    for (int64_t i = 0; i < count; i++) {
        found = found || store_provider(others[i])->shard == store_provider(s)->shard;
    }
    return found;
}

/* A handle that counts in a shard that none of the others has. The server's process decides which one it gets, so two
 * handles may meet in one; then another connection is made. */
static struct store *open_apart(struct store *const *others, int64_t count)
{
    struct store *s = NULL;
    assert_int_equal(open_beside(p.from.path, false, &s), QP_OK);
    while (has_shard_of(s, others, count)) {
        assert_int_equal(store_close(s, NULL), QP_OK);
        assert_int_equal(open_beside(p.from.path, false, &s), QP_OK);
    }
    return s;
}

/* Three handles count in shards of their own: here it is one row again. */
static void shards_are_summed(void **state)
{
    struct counter_row key = {.ns = 1, .workflow = QP_STR("w"), .status = 0};
    struct store *s[3] = {NULL};
    storepair_init(&p, STORETEST_POSTGRES, STORETEST_SQLITE);
    for (int64_t i = 0; i < 3; i++) {
        char jid[8];
        struct commit c;
        s[i] = open_apart(s, i);
        (void)snprintf(jid, sizeof jid, "j%lld", (long long)i);
        commit_init(&c, s[i]);
        bundle_op(commit_bundle(&c, "test"), OP_job_create)->job_create =
            (struct op_job_create){.ref = {STORE_NS_DEFAULT, 100 + i},
                                   .jid = str_from(jid),
                                   .workflow = key.workflow,
                                   .owner_guid = storetest_guid(1)};
        assert_int_equal(store_commit(s[i], &c), QP_OK);
        commit_done(&c);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(store_close(s[i], NULL), QP_OK);
    }
    assert_int_equal(storetest_count(&p.from, TABLE_counter), 3);
    must_copy(false);
    assert_int_equal(storetest_count(&p.to, TABLE_counter), 1);
    assert_int_equal(((const struct counter_row *)storetest_row(&p.to, TABLE_counter, &key))->n, 3);
    storepair_done(&p);
}

/* ------------------------------------------------------------------------------------------ numbers */

static int raise_head(void *context, struct txn *t)
{
    const struct head_row *wanted = context;
    struct head_row *head = txn_edit(t, TABLE_head, &(struct head_row){.ns = 0});
    assert_non_null(head);
    head->pos = wanted->pos;
    head->ord = wanted->ord;
    head->next_id = wanted->next_id;
    return t->rc;
}

struct given {
    int64_t pos;
    int64_t ord;
    int64_t id;
};

static int last_feed(void *context, const void *row)
{
    *(int64_t *)context = ((const struct feed_row *)row)->first;
    return QP_OK;
}

/* One job with a message: what it was given. */
static struct given give(struct storetest *f)
{
    struct given given = {0};
    struct scan feed = {.table = TABLE_feed, .index = -1, .limit = SIZE_MAX};
    struct op ops[3] = {{.kind = OP_ids_reserve, .ids_reserve.count = 1}};
    const struct msg_row *msg;
    char jid[32];
    assert_int_equal(storetest_op(f, &ops[0]), QP_OK);
    given.id = ops[0].ids_reserve.out_first;
    (void)snprintf(jid, sizeof jid, "job-%lld", (long long)given.id);
    ops[0] = (struct op){.kind = OP_job_create,
                         .job_create = {.ref = {STORE_NS_DEFAULT, given.id},
                                        .jid = str_from(jid),
                                        .workflow = QP_STR("w"),
                                        .owner_guid = storetest_guid(1)}};
    ops[1] = (struct op){.kind = OP_msg_put,
                         .msg_put = {.ref = {STORE_NS_DEFAULT, given.id},
                                     .guid = storetest_guid(1),
                                     .topic = QP_STR("t")}};
    ops[2] = (struct op){.kind = OP_event_add, .event_add = {.ref = {STORE_NS_DEFAULT, given.id}}};
    assert_int_equal(storetest_bundle(f, ops, 3, NULL), QP_OK);
    msg = storetest_row(
        f, TABLE_msg,
        &(struct msg_row){.ns = STORE_NS_DEFAULT, .job = given.id, .guid = storetest_guid(1)});
    given.ord = msg->ord;
    assert_int_equal(store_scan(f->s, &feed, &given.pos, last_feed, &p.err), QP_OK);
    return given;
}

static void assert_above(struct given now, struct given before)
{
    assert_true(now.pos > before.pos && now.ord > before.ord && now.id > before.id);
}

/* From numbers that are small, and from ones that no server has come to, there and back again. */
static void numbers_go_on_above(void **state)
{
    static struct head_row heads[] = {
        {.pos = 50, .ord = 60, .next_id = 70},
        {.pos = INT64_C(1) << 55, .ord = INT64_C(1) << 41, .next_id = INT64_C(1) << 42}};
    for (size_t i = 0; i < ARRAY_COUNT(heads); i++) {
        struct copy_options back = {.to_name = "home"};
        struct given given[3];
        const struct head_row *head;
        storepair_init(&p, STORETEST_SQLITE, STORETEST_POSTGRES);
        assert_int_equal(store_transact(p.from.s, &heads[i], raise_head, &p.err), QP_OK);
        given[0] = give(&p.from);
        must_copy(false);
        given[1] = give(&p.to); /* by the handle that copied */
        assert_above(given[1], given[0]);
        storepair_reopen(&p, &p.to, false);
        given[2] = give(&p.to); /* and by a new one */
        assert_above(given[2], given[1]);
        storepair_reopen(&p, &p.to, true);
        storetest_init(&third, STORETEST_SQLITE, 3);
        back.from = p.to.s;
        back.to = third.s;
        assert_int_equal(store_copy(&back, &p.progress, &p.err), QP_OK);
        assert_above(give(&third), given[2]);
        head = storetest_row(&third, TABLE_head, &(struct head_row){.ns = 0});
        assert_true(head->pos < INT64_C(1) << 56); /* it grows by what was given out, not by more */
        storetest_done(&third);
        storepair_done(&p);
    }
}

/* From schema to schema of one cluster, where the positions of both go on from the same transactions. */
static void numbers_go_on_in_another_schema(void **state)
{
    struct given given;
    storepair_init(&p, STORETEST_POSTGRES, STORETEST_POSTGRES);
    given = give(&p.from);
    must_copy(false);
    assert_above(give(&p.to), given);
    storepair_done(&p);
}

/* -------------------------------------------------------------------------------------- jobs in flight */

struct shape_case {
    const struct shape *shape;
    const char *input;
    int64_t half_steps;
};

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

static void half_steps(int64_t count)
{
    for (int64_t i = 0; i < count && !shaperun_is_done(&run); i++) {
        if (i % 2 == 0) {
            shaperun_work(&run);
        } else {
            shaperun_round(&run);
        }
    }
}

/* The engine dies, the store moves, another engine goes on there. */
static void move_run(struct storetest *from, struct storetest *to)
{
    struct copy_options options = {.to_name = "there", .verify = verify_both};
    int verified = 0;
    shaperun_kill(&run);
    storepair_reopen(&p, from, true);
    storepair_reopen(&p, to, true);
    options.from = from->s;
    options.to = to->s;
    options.context = &verified;
    if (store_copy(&options, &p.progress, &p.err) != QP_OK) {
        fail_msg("copy: %s", p.err.text);
    }
    assert_int_equal(verified, 1);
    storepair_reopen(&p, to, false);
    run.store = to->s;
    shaperun_resume(&run);
}

static void shape_moves(const struct shape_case *c, size_t way, bool stepwise)
{
    storepair_init(&p, ways[way].from, ways[way].to);
    storetest_init(&third, STORETEST_SQLITE, 3);
    run = (struct shaperun){.shape = c->shape,
                            .store = p.from.s,
                            .time = &p.from.t,
                            .input = c->input,
                            .stepwise = stepwise,
                            .workers = WORKERS};
    shaperun_init(&run);
    half_steps(1 + c->half_steps);
    move_run(&p.from, &p.to);
    half_steps(c->half_steps);
    move_run(&p.to, &third);
    shaperun_finish(&run);
    shaperun_verify(&run);
    shaperun_done(&run);
    storetest_done(&third);
    storepair_done(&p);
}

/* Every shape moves twice before it is done: along each way, and then home into a file. */
static void jobs_in_flight_come_to_the_same_end(void **state)
{
    static const struct shape_case shapes[] = {{&shape_tree, "5", 10},
                                               {&shape_flow, "0", 15},
                                               {&shape_carto, "8", 20},
                                               {&shape_children, "9", 10}};
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        for (size_t way = 0; way < ARRAY_COUNT(ways); way++) {
            struct shape_case c = shapes[i];
            c.half_steps += (int64_t)((seed + way) % 9);
            shape_moves(&c, way, (seed + i + way) % 2 != 0);
        }
    }
}

/* ------------------------------------------------------------------------------------- who else is there */

struct intrusion {
    struct store *source;      /* opened before the copy began */
    struct store *destination; /* likewise, when it was empty */
    int tried;
};

static int intrude(void *context, struct store *from, struct store *to, struct qp_err *err)
{
    struct intrusion *i = context;
    struct store *none = NULL;
    int64_t id;
    refused(reserve(i->source, &id), QP_E_BUSY, "is being moved or filled by quipu migrate");
    refused(reserve(i->destination, &id), QP_E_BUSY, "is being moved or filled by quipu migrate");
    refused(open_beside(p.from.path, true, &none), QP_E_LOCKED, "another quipu migrate has it");
    refused(open_beside(p.to.path, false, &none), QP_E_CONFLICT, "half of a copy");
    i->tried++;
    return QP_OK;
}

/* While a copy is made, others wait; when it is through, those who knew the stores before are done for,
 * and whoever opens them now is told what is what. */
static void nobody_writes_meanwhile_nor_as_if_nothing_had_been(void **state)
{
    struct intrusion i = {0};
    struct copy_options options = {.to_name = "there", .context = &i, .verify = intrude};
    struct buf before;
    struct buf after;
    int64_t id;
    storepair_init(&p, STORETEST_POSTGRES, STORETEST_POSTGRES);
    storepair_fill(&p, seed, 20);
    assert_int_equal(open_beside(p.from.path, false, &i.source), QP_OK);
    assert_int_equal(open_beside(p.to.path, false, &i.destination), QP_OK);
    assert_int_equal(reserve(i.source, &id), QP_OK); /* from now on it has a block of numbers */
    assert_int_equal(reserve(i.destination, &id), QP_OK);
    storepair_reopen(&p, &p.from, true);
    storepair_reopen(&p, &p.to, true);
    options.from = p.from.s;
    options.to = p.to.s;
    if (store_copy(&options, &p.progress, &p.err) != QP_OK) {
        fail_msg("copy: %s", p.err.text);
    }
    assert_int_equal(i.tried, 1);
    storepair_reopen(&p, &p.to, false); /* the lock is free again */
    assert_int_equal(store_close(p.from.s, NULL), QP_OK);
    p.from.s = NULL;
    buf_init(&before, &p.from.t.env, 0);
    buf_init(&after, &p.from.t.env, 0);
    statetext_print_as(p.to.s, 0, NULL, translate, &before);
    refused(reserve(i.source, &id), QP_E_READONLY, "since it was opened; open it again");
    refused(reserve(i.destination, &id), QP_E_READONLY, "open it again");
    refused(reserve(i.source, &id), QP_E_READONLY, "has stopped working");
    assert_int_equal(store_close(i.source, NULL), QP_E_READONLY);
    assert_int_equal(store_close(i.destination, NULL), QP_E_READONLY);
    statetext_print_as(p.to.s, 0, NULL, translate, &after);
    assert_true(statetext_equal(&before, &after));
    assert_int_equal(reserve(p.to.s, &id), QP_OK);
    buf_done(&before);
    buf_done(&after);
    storepair_done(&p);
}

static const struct actor two_tasks[] = {
    {.name = "trigger", .category = 'D', .next = "pay"},
    {.name = "pay", .category = 'A', .deed = DEED_TASK, .topic = "t", .next = "ship"},
    {.name = "ship", .category = 'A', .deed = DEED_TASK, .topic = "t"},
    {0}};

static void print_source(struct buf *out)
{
    struct store_options options = {.path = x.f.path, .read_only = true, .host_clock = true};
    struct store *s = NULL;
    assert_int_equal(store_open(&x.f.t.env, &options, &s, &p.err), QP_OK);
    statetext_print_as(s, 0, NULL, translate, out);
    assert_int_equal(store_close(s, NULL), QP_OK);
}

/* Moves the store under the engine, which stands still. */
static int move_away(struct storetest *to)
{
    struct store_options moving = {.path = x.f.path, .host_clock = true, .moving = true};
    struct copy_options options = {.to = to->s, .to_name = "there"};
    int rc;
    assert_int_equal(store_open(&x.f.t.env, &moving, &options.from, &p.err), QP_OK);
    rc = store_copy(&options, &p.progress, &p.err);
    assert_int_equal(store_close(options.from, NULL), QP_OK);
    return rc;
}

/* An engine at work is refused by its lease. One that stands still, and goes on when the lease is over
 * and the store has moved, with a task in hand, commits nothing and stops. */
static void an_engine_that_stood_still_commits_nothing(void **state)
{
    struct buf before;
    struct buf after;
    struct request_start late;
    struct qp_err err = {0};
    bool busy;
    enginetest_init(&x, STORETEST_POSTGRES, two_tasks);
    x.options.lease_ms = LEASE_MS;
    enginetest_open(&x);
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    assert_non_null(enginetest_task(&x, "a", NULL));
    storetest_init(&third, STORETEST_SQLITE, 3);
    refused(move_away(&third), QP_E_LOCKED, "is at work; stop it first");
    testenv_advance_ms(&x.f.t, LEASE_MS + 1);
    assert_int_equal(move_away(&third), QP_OK);
    buf_init(&before, &x.f.t.env, 0);
    buf_init(&after, &x.f.t.env, 0);
    print_source(&before);
    testenv_advance_ms(&x.f.t, LEASE_MS);
    enginetest_fill_start(&x, &late, "late", "{}");
    late.command.answer = enginetest_answered;
    engine_submit(x.e, &late.command);
    assert_int_equal(enginetest_round(&x, &busy, &err), QP_E_READONLY);
    assert_int_equal(enginetest_round(&x, &busy, &err), QP_E_READONLY);
    assert_int_equal(store_idle(x.f.s, &err), QP_E_READONLY);
    print_source(&after);
    assert_true(statetext_equal(&before, &after));
    buf_done(&before);
    buf_done(&after);
    (void)engine_close(x.e, &err); /* it cannot say goodbye */
    x.e = NULL;
    while (x.tasks != NULL) {
        enginetest_forget(&x, x.tasks);
    }
    assert_int_equal(store_close(x.f.s, &err), QP_E_READONLY);
    x.f.s = NULL;
    storetest_done(&third);
    storetest_done(&x.f);
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
    for (size_t i = 0; i < ARRAY_COUNT(ways) * ARRAY_COUNT(points); i++) {
        int at = 1;
        int failures = 0;
        int rc;
        storepair_init(&p, ways[i / 2].from, ways[i / 2].to);
        storepair_fill(&p, seed, 30);
        do {
            char spec[64];
            (void)snprintf(spec, sizeof spec, "%s=error@%d", points[i % 2], at);
            at += torture ? 1 : 1 + (int)((seed + (uint64_t)at) % 12);
            assert_int_equal(failpoint_set(spec), QP_OK);
            rc = storepair_copy(&p, false);
            assert_int_equal(failpoint_set(NULL), QP_OK);
            failures += rc != QP_OK;
            assert_false(can_be_used(&p.from) && storepair_state(&p.to) == HEAD_IN_USE &&
                         storetest_count(&p.to, TABLE_job) > 0);
        } while (rc != QP_OK && rc != QP_E_READONLY); /* the last answer was lost: all is done */
        assert_true(failures > 2);
        assert_true(storepair_state(&p.from) == HEAD_MOVED && can_be_used(&p.to));
        storepair_done(&p);
    }
}

static void lost_memory_is_made_up_for(void **state)
{
    for (size_t i = 0; i < 2; i++) {
        int64_t n = 1;
        int rc;
        storepair_init(&p, ways[i].from, ways[i].to);
        storepair_fill(&p, seed, 8);
        storepair_reopen(&p, &p.from, true);
        storepair_reopen(&p, &p.to, true);
        do {
            testenv_fail_at(&p.from.t, n);
            rc = storepair_copy_open(&p, true);
            n += 1 + n / 4;
            assert_true(testenv_failed(&p.from.t) ? rc == QP_E_NOMEM : rc == QP_OK);
        } while (rc != QP_OK);
        testenv_fail_at(&p.from.t, 0);
        assert_true(n > 20);
        assert_equal(p.from.s, p.to.s);
        storepair_done(&p);
    }
}

/* Ends all connections to the database but its own. */
static int cut_lines(void *context, struct store *from, struct store *to, struct qp_err *err)
{
    PGconn *c = PQconnectdb(context);
    PGresult *r = PQexec(c, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                            " WHERE datname=current_database() AND pid<>pg_backend_pid()");
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    assert_true(PQntuples(r) > 0);
    PQclear(r);
    PQfinish(c);
    return QP_OK;
}

/* With the line the lock is lost, and somebody else may have been there since. */
static void a_lost_line_is_the_end_of_it(void **state)
{
    for (size_t i = 0; i < 2; i++) {
        struct copy_options options = {.to_name = "there", .verify = cut_lines};
        int rc;
        storepair_init(&p, ways[i].from, ways[i].to);
        storepair_fill(&p, seed, 10);
        storepair_reopen(&p, &p.from, true);
        storepair_reopen(&p, &p.to, true);
        options.from = p.from.s;
        options.to = p.to.s;
        options.context = i == 0 ? p.to.path : p.from.path;
        rc = store_copy(&options, &p.progress, &p.err);
        assert_true(rc == QP_E_IO || rc == QP_E_BUSY);
        assert_int_not_equal(store_copy(&options, &p.progress, &p.err), QP_OK);
        must_copy(false);
        assert_true(storepair_state(&p.from) == HEAD_MOVED && can_be_used(&p.to));
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
        cmocka_unit_test(shards_are_summed),
        cmocka_unit_test(numbers_go_on_above),
        cmocka_unit_test(numbers_go_on_in_another_schema),
        cmocka_unit_test(jobs_in_flight_come_to_the_same_end),
        cmocka_unit_test(nobody_writes_meanwhile_nor_as_if_nothing_had_been),
        cmocka_unit_test(an_engine_that_stood_still_commits_nothing),
        cmocka_unit_test(failed_transactions_are_made_up_for),
        cmocka_unit_test(lost_memory_is_made_up_for),
        cmocka_unit_test(a_lost_line_is_the_end_of_it),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

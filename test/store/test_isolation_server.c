/* test_isolation_server.c - two connections to one PostgreSQL database, every pair of ops at the same time
 *
 * On a store that is prepared so that each op succeeds (opworld.h) two handles commit one op each. A third
 * connection holds all jobs meanwhile: both begin, load what they can, wait for each other's rows, and are
 * let go together, in either order. A deadlock is the provider's to resolve. It proves that what they leave
 * and answer is what one after the other leaves and answers, in one of the two orders, as memory does it.
 *
 * Numbers are left out of the comparison, since each handle takes its own blocks of them: positions, tokens,
 * orders, ids, and how often a row was written.
 *
 * msg_claim, wake, msg_adopt and feed_trim pass over what the other holds, or take what is there when they
 * look: no serial order needs to explain that (test_isolation.c). Their pairs must only go through.
 *
 * The check lane takes every so many pairs, from one that QP_SEED chooses; torture takes all.
 */
#include <postgresql/libpq-fe.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/opworld.h"
#include "support/statetext.h"
#include "support/storetest.h"

#define STRIDE 101 /* of pairs in the check lane: a prime, so that every op has its turn */
#define LINES_MAX 4096
#define LOOKS_MAX 1000
#define LOOK_US 2000

struct side {
    struct store *s;
    const struct opworld *world;
    enum op_kind kind;
    pthread_t thread;
    atomic_bool done;
    int rc;     /* of the commit */
    int answer; /* of its bundle */
    struct qp_err err;
};

/* What two ops have answered and left. */
struct result {
    int answers[2];
    struct buf state;
};

static struct storetest f;
static struct storetest model;
static PGconn *holder;
static struct testenv keeper; /* of texts */
static uint64_t seed;
static int64_t waits;

/* ------------------------------------------------------------------------------------- the state */

static bool is_number(enum table_id table, const char *name)
{
    static const char *const everywhere[] = {"pos",   "guid_pos", "ord",   "token", "served",
                                             "epoch", "holder",   "shard", "rev"};
    for (size_t i = 0; i < ARRAY_COUNT(everywhere); i++) {
        if (strcmp(name, everywhere[i]) == 0) {
            return true;
        }
    }
    return (strcmp(name, "seq") == 0 &&
            (table == TABLE_hook_wait || table == TABLE_hook_sig || table == TABLE_key_wait)) ||
           (strcmp(name, "first") == 0 && table == TABLE_feed) ||
           (strcmp(name, "id") == 0 && table == TABLE_audit) ||
           (strcmp(name, "universe") == 0 && table == TABLE_universe) ||
           (strcmp(name, "ns") == 0 && table == TABLE_space);
}

static void blank_numbers(void *context, enum table_id table, void *row)
{
    const struct table *t = &tables[table];
    (void)context;
    if (table == TABLE_head) {
        *(struct head_row *)row = (struct head_row){0};
    }
    if (table == TABLE_msg && str_equal(((struct msg_row *)row)->topic, QP_STR("keys"))) {
        ((struct msg_row *)row)->payload = QP_NONE; /* who gets a key is told its token */
    }
    for (size_t i = 0; i < t->column_count; i++) {
        if (t->columns[i].kind == KIND_I64 && is_number(table, t->columns[i].name)) {
            row_set_i64(&t->columns[i], row, 0);
        }
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_counter(void *context, const void *row)
{
    const struct counter_row *c = row;
    int64_t *sums = context;
    sums[c->status] += c->n;
    return QP_OK;
}

/* Each handle counts in a shard of its own: what counts is their sum. */
static void print_counters(struct store *s, struct buf *out)
{
    struct scan all = {.table = TABLE_counter, .index = -1, .limit = SIZE_MAX};
    int64_t sums[STATUS_COUNT] = {0};
    assert_int_equal(store_scan(s, &all, sums, add_counter, NULL), QP_OK);
    for (int i = 0; i < STATUS_COUNT; i++) {
        buf_printf(out, "status %d: %lld\n", i, (long long)sums[i]);
    }
}

/* Without their numbers, rows have no order of their own: the lines are sorted. */
static void print_state(struct store *s, struct buf *out)
{
    static char *lines[LINES_MAX];
    size_t count = 0;
    struct buf text;
    buf_init(&text, &keeper.env, 0);
    statetext_print_as(s, 0, NULL, blank_numbers, &text);
    for (char *at = text.p; *at != '\0'; at += strlen(at) + 1) {
        at[strcspn(at, "\n")] = '\0';
        assert_true(count < LINES_MAX);
        lines[count] = at;
        count += strncmp(at, "counter{", 8) != 0;
    }
    qsort(lines, count, sizeof lines[0], by_text);
    buf_reset(out);
    for (size_t i = 0; i < count; i++) {
        buf_text(out, lines[i]);
        buf_byte(out, '\n');
    }
    print_counters(s, out);
    buf_byte(out, '\0');
    assert_int_equal(buf_rc(out), QP_OK);
    buf_done(&text);
}

/* ---------------------------------------------------------------------------------------- commits */

static void run_op(struct side *side)
{
    struct commit c;
    struct bundle *b;
    struct op *op;
    commit_init(&c, side->s);
    b = commit_bundle(&c, opworld_name(side->kind));
    op = bundle_op(b, side->kind);
    QP_ASSERT(op != NULL);
    opworld_fill(side->world, op);
    side->rc = store_commit(side->s, &c);
    side->answer = b->rc;
    side->err = c.err;
    commit_done(&c);
}

static void *side_main(void *context)
{
    struct side *side = context;
    run_op(side);
    atomic_store(&side->done, true);
    return NULL;
}

/* One after the other, in memory: kinds[order] first. */
static void run_serially(const enum op_kind kinds[2], int order, struct result *out)
{
    struct opworld world;
    storetest_init(&model, STORETEST_MEMORY, 1);
    opworld_prepare(model.s, &model.t, &world);
    for (int i = 0; i < 2; i++) {
        int which = i == 0 ? order : 1 - order;
        struct side side = {.s = model.s, .world = &world, .kind = kinds[which]};
        run_op(&side);
        assert_int_equal(side.rc, QP_OK);
        out->answers[which] = side.answer;
    }
    print_state(model.s, &out->state);
    storetest_done(&model);
}

static int64_t holder_ask(const char *sql)
{
    PGresult *r = PQexec(holder, sql);
    int64_t number = 0;
    if (PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) > 0) {
        number = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    } else if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", sql, PQresultErrorMessage(r));
    }
    PQclear(r);
    return number;
}

/* Until so many wait for a lock, or this one needed none. */
static void wait_for(struct side *side, int64_t waiting)
{
    for (int i = 0; i < LOOKS_MAX && !atomic_load(&side->done); i++) {
        (void)holder_ask(
            "SELECT pg_stat_clear_snapshot()"); /* a transaction sees one state of it */
        if (holder_ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type='Lock'"
                       " AND datname=current_database()") >= waiting) {
            return;
        }
        (void)usleep(LOOK_US); /* the server does not tell */
    }
}

static void run_together(const enum op_kind kinds[2], int order, struct result *out)
{
    struct opworld world;
    struct side sides[2];
    int64_t waiting = 0;
    storetest_init(&f, STORETEST_POSTGRES, 1);
    opworld_prepare(f.s, &f.t, &world);
    holder = PQconnectdb(f.path);
    (void)holder_ask("BEGIN");
    (void)holder_ask("SELECT 1 FROM quipu.job FOR UPDATE");
    for (int i = 0; i < 2; i++) {
        int which = i == 0 ? order : 1 - order;
        sides[which] = (struct side){
            .s = i == 0 ? f.s : storetest_second(&f), .world = &world, .kind = kinds[which]};
        assert_int_equal(pthread_create(&sides[which].thread, NULL, side_main, &sides[which]), 0);
        wait_for(&sides[which], waiting + 1);
        waiting += !atomic_load(&sides[which].done);
    }
    waits += waiting;
    (void)holder_ask("COMMIT");
    PQfinish(holder);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(sides[i].thread, NULL), 0);
        if (sides[i].rc != QP_OK) {
            fail_msg("QP_SEED=%llu: %s beside %s: %s", (unsigned long long)seed,
                     opworld_name(kinds[i]), opworld_name(kinds[1 - i]), sides[i].err.text);
        }
        out->answers[i] = sides[i].answer;
    }
    assert_int_equal(store_close(sides[1 - order].s, NULL), QP_OK);
    print_state(f.s, &out->state);
    storetest_done(&f);
}

/* ------------------------------------------------------------------------------------------ pairs */

static bool passes_over(enum op_kind kind)
{
    return kind == OP_msg_claim || kind == OP_wake || kind == OP_msg_adopt || kind == OP_feed_trim;
}

static bool is_equal(const struct result *a, const struct result *b)
{
    return a->answers[0] == b->answers[0] && a->answers[1] == b->answers[1] &&
           statetext_equal(&a->state, &b->state);
}

static void run_pair(enum op_kind a, enum op_kind b)
{
    const enum op_kind kinds[2] = {a, b};
    struct result serial[2];
    struct result got;
    buf_init(&got.state, &keeper.env, 0);
    for (int order = 0; order < 2; order++) {
        buf_init(&serial[order].state, &keeper.env, 0);
        run_serially(kinds, order, &serial[order]);
    }
    for (int order = 0; order < 2; order++) {
        run_together(kinds, order, &got);
        if (!passes_over(a) && !passes_over(b) && !is_equal(&got, &serial[0]) &&
            !is_equal(&got, &serial[1])) {
            statetext_show(&serial[order].state, &got.state);
            fail_msg("QP_SEED=%llu: %s beside %s answer %s and %s, in order %s and %s",
                     (unsigned long long)seed, opworld_name(a), opworld_name(b),
                     qp_code_word(got.answers[0]), qp_code_word(got.answers[1]),
                     qp_code_word(serial[order].answers[0]),
                     qp_code_word(serial[order].answers[1]));
        }
    }
    buf_done(&got.state);
    buf_done(&serial[0].state);
    buf_done(&serial[1].state);
}

static void pairs_are_as_one_after_the_other(void **state)
{
    const char *lane = getenv("QP_LANE");
    uint64_t stride = lane != NULL && strcmp(lane, "torture") == 0 ? 1 : STRIDE;
    uint64_t number = 0;
    int64_t pairs = 0;
    seed = testenv_seed();
    testenv_init(&keeper, 1);
    for (int a = 0; a < OP_COUNT; a++) {
        for (int b = a; b < OP_COUNT; b++) {
            if (number++ % stride == seed % stride) {
                run_pair((enum op_kind)a, (enum op_kind)b);
                pairs++;
            }
        }
    }
    testenv_done(&keeper);
    printf("%lld pairs, %lld waits\n", (long long)pairs, (long long)waits);
    assert_true(pairs > 0 && waits > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_are_as_one_after_the_other)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

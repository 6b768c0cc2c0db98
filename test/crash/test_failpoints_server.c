/* test_failpoints_server.c - every failpoint of the store again, on a server: the statement fails there, the
 * client dies there
 *
 * test_failpoints.c does this on a file. Here the server goes on when its client is gone, and takes back
 * what was not committed. Over a workload of random commits it proves:
 *
 *   an error at any point of a commit    the commit says so and has left no trace, and the handle goes on; at
 *                                        commit.after the commit is there and says QP_E_UNKNOWN_OUTCOME
 *   SIGKILL at any failpoint             the store holds exactly the acknowledged commits, or these and one more;
 *                                        also when the schema is being made
 *
 * States are compared by what a run without faults had after each commit. Positions there are made of
 * transaction ids, which every run has others of: each stands for how many smaller ones there are.
 *
 * In the check lane QP_SEED chooses the points; the torture lane takes them all.
 */
#include <failpoints.h>
#include <postgresql/libpq-fe.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "support/opgen.h"
#include "support/pgserver.h"
#include "support/statetext.h"
#include "support/storetest.h"

#define SEED 9
#define COMMITS 150
#define POINTS_CHECK 4 /* that kill, in the check lane */
#define POSITIONS_MAX 65536

static const char *const points[] = {
#define POINT(name) name,
    FAILPOINT_LIST(POINT)
#undef POINT
};

static struct storetest f;
static struct testenv keeper; /* of the record's texts */
static struct buf states[COMMITS + 1];
static int64_t hits[ARRAY_COUNT(points)]; /* of each point, in the run without faults */
static bool torture;
static uint64_t seed;

/* -------------------------------------------------------------------------------------- the state */

static struct {
    int64_t values[POSITIONS_MAX];
    size_t count;
} positions;

static bool is_position(enum table_id table, const struct column *c)
{
    return strcmp(c->name, "pos") == 0 || strcmp(c->name, "guid_pos") == 0 ||
           (table == TABLE_feed && strcmp(c->name, "first") == 0);
}

static void each_position(enum table_id table, void *row,
                          void (*visit)(const struct column *c, void *row))
{
    for (size_t i = 0; i < tables[table].column_count; i++) {
        const struct column *c = &tables[table].columns[i];
        if (is_position(table, c) && row_i64(c, row) != 0) {
            visit(c, row);
        }
    }
}

static void note_position(const struct column *c, void *row)
{
    QP_ASSERT(positions.count < POSITIONS_MAX);
    positions.values[positions.count++] = row_i64(c, row);
}

static void number_position(const struct column *c, void *row)
{
    int64_t value = row_i64(c, row);
    size_t low = 0;
    size_t high = positions.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        low = positions.values[middle] < value ? middle + 1 : low;
        high = positions.values[middle] < value ? high : middle;
    }
    row_set_i64(c, row, (int64_t)low + 1);
}

static void note_row(void *context, enum table_id table, void *row)
{
    (void)context;
    each_position(table, row, note_position);
}

static void number_row(void *context, enum table_id table, void *row)
{
    (void)context;
    each_position(table, row, number_position);
    if (table == TABLE_counter) {
        ((struct counter_row *)row)->shard = 0; /* the handle's own */
    }
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* The numbers of the head row go by blocks that a handle has taken, used or not. */
static void print_state(struct store *s, struct buf *out)
{
    int without = STATETEXT_NO_MARK | STATETEXT_NO_CLOCK | STATETEXT_NO_NUMBERS;
    positions.count = 0;
    statetext_print_as(s, without, NULL, note_row, out);
    qsort(positions.values, positions.count, sizeof positions.values[0], by_value);
    statetext_print_as(s, without, NULL, number_row, out);
}

static bool state_is(struct store *s, const struct buf *wanted, bool show)
{
    struct buf text;
    bool same;
    buf_init(&text, &keeper.env, 0);
    print_state(s, &text);
    same = statetext_equal(wanted, &text);
    if (!same && show) {
        statetext_show(wanted, &text);
    }
    buf_done(&text);
    return same;
}

/* ----------------------------------------------------------------------------------- the workload */

static int last_feed(void *context, const void *row)
{
    *(int64_t *)context = ((const struct feed_row *)row)->pos;
    return QP_OK;
}

/* Up to the third commit of those that the feed still has: a position by its place, since its value is
 * another in every run. */
static void settle_trims(struct opgen *g, struct store *s)
{
    struct scan third = {.table = TABLE_feed, .index = -1, .limit = 3};
    int64_t upto = 0;
    QP_ASSERT(store_scan(s, &third, &upto, last_feed, NULL) == QP_OK);
    for (size_t b = 0; b < g->bundle_count; b++) {
        for (size_t i = 0; i < g->bundles[b].op_count; i++) {
            if (g->bundles[b].ops[i].kind == OP_feed_trim) {
                g->bundles[b].ops[i].feed_trim.upto = upto;
            }
        }
    }
}

static void next(struct opgen *g, struct testenv *t, struct store *s)
{
    opgen_next(g, s);
    settle_trims(g, s);
    testenv_advance_ms(t, g->advance_ms);
}

static void begin(struct opgen *g, struct testenv *t)
{
    opgen_init(g, &t->env, SEED);
    g->no_steps_back = true;
}

static int commit(struct opgen *g, struct store *s)
{
    struct commit c;
    int rc;
    commit_init(&c, s);
    rc = opgen_commit(g, s, &c);
    commit_done(&c);
    return rc;
}

/* The points of the engine, and of copying a store or a file, have tests of their own; and where many write, nobody
 * writes the head row through the interface. */
static bool is_of_store(const char *point)
{
    return strncmp(point, "engine.", 7) != 0 && strncmp(point, "copy.", 5) != 0 &&
           strncmp(point, "backup.", 7) != 0 && strncmp(point, "query.", 6) != 0 &&
           strcmp(point, "write.head") != 0;
}

static int make_record(void **state)
{
    const char *lane = getenv("QP_LANE");
    struct opgen g;
    torture = lane != NULL && strcmp(lane, "torture") == 0;
    seed = testenv_seed();
    testenv_init(&keeper, 1);
    storetest_init(&f, STORETEST_POSTGRES, SEED); /* makes the schema */
    begin(&g, &f.t);
    for (size_t k = 0; k <= COMMITS; k++) {
        if (k > 0) {
            next(&g, &f.t, f.s);
            assert_int_equal(commit(&g, f.s), QP_OK);
        }
        buf_init(&states[k], &keeper.env, 0);
        print_state(f.s, &states[k]);
    }
    opgen_done(&g);
    storetest_done(&f);
    for (size_t i = 0; i < ARRAY_COUNT(points); i++) {
        hits[i] = failpoint_hits(points[i]);
        if (is_of_store(points[i]) && hits[i] == 0) {
            print_error("failpoint %s was never passed\n", points[i]);
            return 1;
        }
    }
    return 0;
}

static int drop_record(void **state)
{
    for (size_t k = 0; k <= COMMITS; k++) {
        buf_done(&states[k]);
    }
    testenv_done(&keeper);
    return 0;
}

/* ---------------------------------------------------------------------------------- errors */

static void order(const char *point, const char *action, int64_t n)
{
    char spec[100];
    (void)snprintf(spec, sizeof spec, "%s=%s@%lld", point, action, (long long)n);
    QP_ASSERT(failpoint_set(spec) == QP_OK);
}

/* The commit with an error at its n-th point; `before` is the state that it found. True when it is in the
 * store now. */
static bool commit_with_error(struct opgen *g, int64_t n, const struct buf *before)
{
    int64_t passed = failpoint_hits("*");
    bool struck;
    int rc;
    order("*", "error", n);
    rc = commit(g, f.s);
    struck = failpoint_hits("*") - passed >= n;
    assert_int_equal(failpoint_set(NULL), QP_OK);
    if (!struck || rc == QP_E_UNKNOWN_OUTCOME) {
        assert_true(struck || rc == QP_OK);
        return true;
    }
    assert_int_equal(rc, QP_E_IO);
    if (!state_is(f.s, before, true)) {
        fail_msg("QP_SEED=%llu: an error at point %lld left something", (unsigned long long)seed,
                 (long long)n);
    }
    return false;
}

static int64_t skip_points(uint64_t *random)
{
    return torture ? 0 : (int64_t)testenv_random_below(random, 100);
}

static void errors_leave_no_trace(void **state)
{
    uint64_t random = seed;
    struct opgen g;
    struct buf before;
    int64_t errors = 0;
    storetest_init(&f, STORETEST_POSTGRES, SEED);
    buf_init(&before, &keeper.env, 0);
    begin(&g, &f.t);
    for (size_t k = 0; k < COMMITS; k++) {
        int64_t n = 1 + skip_points(&random);
        next(&g, &f.t, f.s);
        print_state(f.s, &before);
        while (!commit_with_error(&g, n, &before)) {
            n += 1 + skip_points(&random);
            errors++;
        }
    }
    printf("%lld errors\n", (long long)errors);
    assert_true(errors > 5);
    opgen_done(&g);
    buf_done(&before);
    storetest_done(&f);
}

/* ----------------------------------------------------------------------------------- kills */

static int open_url(const char *url, struct testenv *t, struct store **out)
{
    struct store_options options = {
        .path = url, .host_clock = true, .durability = DURABILITY_RELAXED};
    struct qp_err err = {0};
    int rc = store_open(&t->env, &options, out, &err);
    if (rc != QP_OK) {
        (void)fprintf(stderr, "open: %s\n", err.text);
    }
    return rc;
}

static _Noreturn void child_main(const char *url, int pipe_end, const char *point, int64_t n)
{
    static struct testenv t;
    struct opgen g;
    struct store *s = NULL;
    int rc;
    testenv_init(&t, SEED);
    order(point, "kill", n);
    rc = open_url(url, &t, &s);
    begin(&g, &t);
    for (size_t k = 0; k < COMMITS && rc == QP_OK; k++) {
        next(&g, &t, s);
        rc = commit(&g, s);
        rc = rc == QP_OK && write(pipe_end, "", 1) != 1 ? QP_E_IO : rc;
    }
    _exit(1); /* it should be dead */
}

/* How many commits the child was told of. */
static size_t run_child(const char *url, const char *point, int64_t n)
{
    int ends[2];
    size_t told = 0;
    int status = 0;
    char byte;
    pid_t pid;
    assert_int_equal(pipe(ends), 0);
    (void)fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(ends[0]); /* the parent's */
        child_main(url, ends[1], point, n);
    }
    (void)close(ends[1]); /* the child's */
    while (read(ends[0], &byte, 1) == 1) {
        told++;
    }
    (void)close(ends[0]); /* read to its end */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        fail_msg("QP_SEED=%llu: %s, time %lld, did not kill", (unsigned long long)seed, point,
                 (long long)n);
    }
    return told;
}

/* The server may still be at what the child had sent. */
static void wait_for_server(const char *url)
{
    PGconn *c = PQconnectdb(url);
    bool busy = true;
    for (int i = 0; i < 3000 && busy; i++) {
        PGresult *r = PQexec(c, "SELECT count(*) FROM pg_stat_activity WHERE backend_type="
                                "'client backend' AND datname=current_database() AND "
                                "pid<>pg_backend_pid()");
        assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
        busy = PQgetvalue(r, 0, 0)[0] != '0';
        PQclear(r);
        (void)usleep(busy ? 10000 : 0);
    }
    assert_false(busy);
    PQfinish(c);
}

static void kill_at(const char *point, int64_t n)
{
    bool making = strncmp(point, "migrate.", 8) == 0;
    size_t told;
    storetest_init(&f, STORETEST_POSTGRES, SEED);
    assert_int_equal(store_close(f.s, NULL), QP_OK);
    if (making) {
        (void)snprintf(f.path, sizeof f.path, "%s", pgserver_shared());
    }
    told = run_child(f.path, point, n);
    wait_for_server(f.path);
    assert_int_equal(open_url(f.path, &f.t, &f.s), QP_OK);
    if (!state_is(f.s, &states[told], false) &&
        (told == COMMITS || !state_is(f.s, &states[told + 1], false))) {
        (void)state_is(f.s, &states[told], true); /* shows the difference */
        fail_msg("QP_SEED=%llu: killed at %s, time %lld, after %zu commits: neither these nor one "
                 "more",
                 (unsigned long long)seed, point, (long long)n, told);
    }
    storetest_done(&f);
}

/* Every point at its first time, and at one that comes later. */
static void kills_lose_nothing(void **state)
{
    uint64_t random = seed;
    size_t stride = torture ? 1 : ARRAY_COUNT(points) / POINTS_CHECK;
    int64_t kills = 0;
    for (size_t i = seed % stride; i < ARRAY_COUNT(points); i += stride) {
        bool once = strncmp(points[i], "migrate.", 8) == 0;
        if (!is_of_store(points[i])) {
            continue;
        }
        kill_at(points[i], 1);
        if (hits[i] > 2 && !once) {
            kill_at(points[i], 2 + (int64_t)testenv_random_below(&random, (uint64_t)hits[i] / 2));
        }
        kills++;
    }
    printf("%lld points killed\n", (long long)kills);
    assert_true(kills > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_leave_no_trace),
        cmocka_unit_test(kills_lose_nothing),
    };
    return cmocka_run_group_tests(tests, make_record, drop_record);
}

/* test_failpoints.c - every failpoint of the source: the statement fails there, the process dies
 * there
 *
 * Over one workload that uses every op and writes every table (workload.h) it proves:
 *
 *   an error at any failpoint     the commit says so and has left no trace, and the handle goes on. At commit.after, which
 *                                 plays a lost answer, the commit is there and says QP_E_UNKNOWN_OUTCOME. When opening,
 *                                 the next open works; when closing, the next open finds the file unclean.
 *   SIGKILL at any failpoint      the file holds exactly the acknowledged commits, or these and one more, never half of
 *                                 one; also when it is the making of the file, or the opening after another kill.
 *   every write has a failpoint   SQLite counts as many changed rows as write.* points were passed.
 *   every failpoint is passed     the list that tools/failpoints reads from the source, and nothing that is not in it.
 *
 * In the check lane QP_SEED chooses the points, about every fifth one for errors and KILLS for
 * kills; the torture lane takes them all.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <failpoints.h>
#include <sqlite3.h>

#include "base/failpoint.h"
#include "support/storetest.h"
#include "workload.h"

#define KILLS 40

static const char *const points[] = {
#define POINT(name) name,
    FAILPOINT_LIST(POINT)
#undef POINT
};

static struct storetest f;
static struct testenv record_env; /* keeps the texts of the record */
static struct workload_record record;
static int64_t run_hits; /* points that a whole run passes: open, commits, close */

static bool is_torture(void)
{
    const char *lane = getenv("QP_LANE");
    return lane != NULL && strcmp(lane, "torture") == 0;
}

/* The points of the engine, and of copying a store or a file, are passed and killed by tests of their own. */
static bool is_of_store(const char *point)
{
    return strncmp(point, "engine.", 7) != 0 && strncmp(point, "copy.", 5) != 0 &&
           strncmp(point, "backup.", 7) != 0 && strncmp(point, "query.", 6) != 0;
}

static bool all_points_passed(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(points); i++) {
        if (is_of_store(points[i]) && failpoint_hits(points[i]) == 0) {
            return false;
        }
    }
    return true;
}

static void order(const char *action, int64_t n)
{
    char spec[64];
    (void)snprintf(spec, sizeof spec, "*=%s@%lld", action, (long long)n);
    assert_int_equal(failpoint_set(spec), QP_OK);
}

static void order_nothing(void)
{
    assert_int_equal(failpoint_set(NULL), QP_OK);
}

static bool state_is(struct store *s, size_t commits, bool show)
{
    struct buf text;
    bool same;
    buf_init(&text, &record_env.env, 0);
    statetext_print(s, WORKLOAD_WITHOUT, &text);
    same = statetext_equal(&text, &record.states[commits]);
    if (!same && show) {
        statetext_show(&record.states[commits], &text);
    }
    buf_done(&text);
    return same;
}

/* ----------------------------------------------------------------------------------- the record */

/* The run without faults, on SQLite; the providers are equal (test_random.c). */
static int make_record(void **state)
{
    int64_t before = failpoint_hits("*");
    testenv_init(&record_env, WORKLOAD_SEED);
    storetest_init(&f, STORETEST_SQLITE, WORKLOAD_SEED);
    workload_record(&record, &record_env.env, &f.t, f.s, all_points_passed);
    storetest_done(&f);
    run_hits = failpoint_hits("*") - before;
    printf("workload: %zu commits, %lld failpoints passed\n", record.commit_count,
           (long long)run_hits);
    return 0;
}

static int drop_record(void **state)
{
    workload_record_done(&record);
    testenv_done(&record_env);
    return 0;
}

/* ------------------------------------------------------------------------------ statements fail */

/* Tries the commit with an error at its n-th point. True when it is in the store now. */
static bool commit_with_error(struct workload *w, int64_t n, size_t former)
{
    struct commit c;
    int64_t before;
    bool struck;
    int rc;
    order("error", n);
    before = failpoint_hits("*");
    commit_init(&c, f.s);
    rc = opgen_commit(&w->g, f.s, &c);
    struck = failpoint_hits("*") - before >= n;
    order_nothing();
    if (!struck) {
        assert_int_equal(rc, QP_OK);
    } else if (rc != QP_E_UNKNOWN_OUTCOME) {
        assert_int_equal(rc, QP_E_IO);
        for (const struct bundle *b = c.first; b != NULL; b = b->next) {
            assert_int_equal(b->rc, QP_E_IO);
        }
    }
    commit_done(&c);
    if (!state_is(f.s, struck && rc == QP_E_IO ? former : former + 1, true)) {
        fail_msg("%s: commit %zu with an error at its point %lld left a wrong state (%s)",
                 storetest_name(f.kind), former + 1, (long long)n, qp_code_word(rc));
    }
    return !struck || rc == QP_E_UNKNOWN_OUTCOME;
}

/* How many points to leave out before the next one. */
static int64_t skip_points(uint64_t *random)
{
    return is_torture() ? 0 : (int64_t)testenv_random_below(random, 9);
}

static void errors_leave_no_trace_on(enum storetest_kind kind)
{
    struct workload w;
    uint64_t random = testenv_seed();
    int64_t errors = 0;
    storetest_init(&f, kind, WORKLOAD_SEED);
    workload_init(&w, &f.t);
    for (size_t k = 0; k < record.commit_count; k++) {
        int64_t n = 1 + skip_points(&random);
        workload_next(&w, f.s);
        while (!commit_with_error(&w, n, k)) {
            n += 1 + skip_points(&random);
            errors++;
        }
    }
    assert_true(errors > (int64_t)record.commit_count);
    printf("%s: %lld errors\n", storetest_name(kind), (long long)errors);
    workload_done(&w);
    storetest_done(&f);
}

static void errors_leave_no_trace_on_memory(void **state)
{
    errors_leave_no_trace_on(STORETEST_MEMORY);
}

static void errors_leave_no_trace_on_rows(void **state)
{
    errors_leave_no_trace_on(STORETEST_MEMORY_ROWS);
}

static void errors_leave_no_trace_on_sqlite(void **state)
{
    errors_leave_no_trace_on(STORETEST_SQLITE);
}

static int open_at(const char *path, const struct testenv *t, struct store **out)
{
    struct store_options options = {.path = path, .full_check = true};
    struct qp_err err = {0};
    int rc = store_open(&t->env, &options, out, &err);
    if (rc != QP_OK && rc != QP_E_IO) {
        print_error("open: %s\n", err.text);
    }
    return rc;
}

/* The file goes, and its lock file, which remembers it: the next one is a new store. */
static void forget_store(void)
{
    char lock[400];
    (void)snprintf(lock, sizeof lock, "%s-qplock", f.path); /* fits */
    assert_int_equal(unlink(f.path), 0);
    assert_int_equal(unlink(lock), 0);
}

/* A new file, opened with an error at the n-th point, until none is left; then closed with one. */
static void errors_while_opening_and_closing(void **state)
{
    struct store_info info;
    int64_t n = 0;
    int rc;
    storetest_init(&f, STORETEST_SQLITE, WORKLOAD_SEED);
    assert_int_equal(store_close(f.s, NULL), QP_OK);
    forget_store();
    do {
        order("error", ++n);
        rc = open_at(f.path, &f.t, &f.s);
        order_nothing();
    } while (rc == QP_E_IO);
    assert_int_equal(rc, QP_OK);
    assert_true(n > 3); /* migrate.before, migrate.after, write.head */
    assert_true(state_is(f.s, 0, true));
    order("error", 1);
    assert_int_equal(store_close(f.s, NULL), QP_E_IO);
    order_nothing();
    assert_int_equal(open_at(f.path, &f.t, &f.s), QP_OK);
    store_info(f.s, &info);
    assert_true(info.opened_unclean);
    assert_true(state_is(f.s, 0, true));
    storetest_done(&f);
}

/* --------------------------------------------------------------------------------- kill, reopen */

/* The child's whole life: opens, commits, tells each commit that was acknowledged, closes. */
static _Noreturn void child_run(const char *path, int pipe_end, int64_t kill_at, size_t commits)
{
    static struct testenv t;
    struct workload w;
    struct store *s = NULL;
    int rc;
    testenv_init(&t, WORKLOAD_SEED);
    order("kill", kill_at);
    rc = open_at(path, &t, &s);
    workload_init(&w, &t);
    for (size_t k = 0; k < commits && rc == QP_OK; k++) {
        struct commit c;
        workload_next(&w, s);
        commit_init(&c, s);
        rc = opgen_commit(&w.g, s, &c);
        commit_done(&c);
        if (rc == QP_OK && write(pipe_end, "", 1) != 1) {
            rc = QP_E_IO;
        }
    }
    workload_done(&w);
    rc = rc == QP_OK ? store_close(s, NULL) : rc;
    _exit(rc == QP_OK ? 0 : 1);
}

/* How many commits the child was told of; *out_killed whether the failpoint killed it. */
static size_t child_start(const char *path, int64_t kill_at, size_t commits, bool *out_killed)
{
    int ends[2];
    size_t told = 0;
    char byte;
    int status;
    pid_t pid;
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(ends[0]); /* the parent's */
        child_run(path, ends[1], kill_at, commits);
    }
    (void)close(ends[1]); /* the child's */
    while (read(ends[0], &byte, 1) == 1) {
        told++;
    }
    (void)close(ends[0]); /* read to its end */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    *out_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    assert_true(*out_killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return told;
}

/* True when the child came through: n is past its last point. `twice` kills the next opening,
 * too. */
static bool kill_at(int64_t n, bool twice)
{
    bool killed;
    bool killed_again;
    size_t told;
    storetest_init(&f, STORETEST_SQLITE, WORKLOAD_SEED); /* for its directory and its clean-up */
    assert_int_equal(store_close(f.s, NULL), QP_OK);
    forget_store();
    told = child_start(f.path, n, record.commit_count, &killed);
    if (killed && twice) {
        (void)child_start(f.path, 1, 0, &killed_again); /* no commits, so none is told */
        assert_true(killed_again);
    }
    if (open_at(f.path, &f.t, &f.s) != QP_OK) {
        fail_msg("killed at point %lld, the file cannot be opened", (long long)n);
    }
    if (!state_is(f.s, told, false) &&
        (told == record.commit_count || !state_is(f.s, told + 1, false))) {
        (void)state_is(f.s, told, true); /* shows the difference */
        fail_msg("killed at point %lld after %zu acknowledged commits: neither these nor one more",
                 (long long)n, told);
    }
    storetest_done(&f);
    return !killed;
}

static void kills_lose_nothing(void **state)
{
    uint64_t random = testenv_seed();
    int64_t stride = is_torture() ? 1 : run_hits / KILLS + 1;
    int64_t kills = 0;
    int64_t n;
    for (n = 1; n <= 3; n++) {
        assert_false(kill_at(n, false)); /* while the file is made, and when it is opened first */
        assert_false(kill_at(n, true));
        kills += 2;
    }
    while (n <= run_hits) {
        assert_false(kill_at(n, testenv_random_below(&random, 4) == 0));
        kills++;
        n += stride == 1 ? 1 : 1 + (int64_t)testenv_random_below(&random, (uint64_t)stride * 2 - 1);
    }
    assert_true(kill_at(run_hits + 1, false)); /* past the last point nobody dies */
    printf("%lld kills\n", (long long)kills);
}

/* --------------------------------------------------------------- writes, and the list of points */

static int64_t write_hits(void)
{
    int64_t sum = 0;
    for (size_t i = 0; i < ARRAY_COUNT(points); i++) {
        if (strncmp(points[i], "write.", 6) == 0) {
            sum += failpoint_hits(points[i]);
        }
    }
    return sum;
}

static int take_native(void *context, void *native)
{
    sqlite3 **db = context;
    *db = native;
    return QP_OK;
}

/* sqlite3_total_changes64 counts every row that this connection inserted, updated or deleted,
 * rolled back or not. */
static void every_write_has_a_failpoint(void **state)
{
    sqlite3 *db = NULL;
    struct op take = {.kind = OP_host_call, .host_call = {take_native, &db}};
    struct workload w;
    int64_t changes;
    int64_t hits;
    storetest_init(&f, STORETEST_SQLITE, WORKLOAD_SEED);
    assert_int_equal(storetest_op(&f, &take), QP_OK);
    assert_non_null(db);
    changes = sqlite3_total_changes64(db);
    hits = write_hits();
    workload_init(&w, &f.t);
    for (size_t k = 0; k < record.commit_count; k++) {
        struct commit c;
        workload_next(&w, f.s);
        commit_init(&c, f.s);
        assert_int_equal(opgen_commit(&w.g, f.s, &c), QP_OK);
        commit_done(&c);
        assert_int_equal(sqlite3_total_changes64(db) - changes, write_hits() - hits);
    }
    assert_true(write_hits() - hits > (int64_t)record.commit_count);
    printf("%lld rows written\n", (long long)(write_hits() - hits));
    workload_done(&w);
    storetest_done(&f);
}

static void point_is_listed(void *context, const char *name, int64_t hits)
{
    int *unlisted = context;
    for (size_t i = 0; i < ARRAY_COUNT(points); i++) {
        if (strcmp(points[i], name) == 0) {
            return;
        }
    }
    print_error("failpoint %s was passed and is not in the list\n", name);
    ++*unlisted;
}

static void every_failpoint_is_passed(void **state)
{
    int wrong = 0;
    for (size_t i = 0; i < ARRAY_COUNT(points); i++) {
        if (is_of_store(points[i]) && failpoint_hits(points[i]) == 0) {
            print_error("failpoint %s was never passed\n", points[i]);
            wrong++;
        }
    }
    failpoint_each(point_is_listed, &wrong);
    assert_int_equal(wrong, 0);
    printf("%zu failpoints\n", ARRAY_COUNT(points));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_leave_no_trace_on_memory),
        cmocka_unit_test(errors_leave_no_trace_on_rows),
        cmocka_unit_test(errors_leave_no_trace_on_sqlite),
        cmocka_unit_test(errors_while_opening_and_closing),
        cmocka_unit_test(kills_lose_nothing),
        cmocka_unit_test(every_write_has_a_failpoint),
        cmocka_unit_test(every_failpoint_is_passed),
    };
    return cmocka_run_group_tests(tests, make_record, drop_record);
}

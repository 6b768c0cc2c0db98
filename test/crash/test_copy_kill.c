/* test_copy_kill.c - a move is killed at every boundary of its transactions: from file to file, to a
 * database and from one
 *
 * Before and after each commit of a copy the process dies (SIGKILL). Whatever is found, it proves:
 *
 *   of the two stores at most one can be opened for writing and holds jobs; when the destination can,
 *   it holds all of the source's rows
 *   the stores that cannot be opened say so with a sentence that names the way out
 *   the same move again comes to its end, also when it is killed a second time, and the destination
 *   is then what the source was
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

#include "base/failpoint.h"
#include "store/copy.h"
#include "support/statetext.h"
#include "support/storepair.h"

#define COMMITS 60
#define STRIDE 6 /* of boundaries in the check lane, on the average */
#define STRIDE_DATABASE 20

static struct storepair p;
static struct buf wanted; /* the source as it was */

static int open_file(const char *path, bool moving, bool read_only, struct store **out,
                     struct qp_err *err)
{
    struct store_options options = {
        .path = path, .moving = moving, .read_only = read_only, .host_clock = true};
    return store_open(&p.from.t.env, &options, out, err);
}

/* One move, from opening to closing; its code. */
static int move(void)
{
    struct copy_options options = {.to_name = "there"};
    struct copy_progress progress;
    struct qp_err err = {0};
    int rc = open_file(p.from.path, true, false, &options.from, &err);
    rc = rc == QP_OK ? open_file(p.to.path, true, false, &options.to, &err) : rc;
    rc = rc == QP_OK ? store_copy(&options, &progress, &err) : rc;
    (void)store_close(options.to, NULL);   /* what matters is what is found */
    (void)store_close(options.from, NULL); /* likewise */
    return rc;
}

/* A process that is killed at the n-th hit of a point; false when it came to its end. A second one may
 * find that the first was killed when all was done: it is refused. */
static bool move_killed(const char *point, int n, bool is_second)
{
    char spec[64];
    int rc;
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)snprintf(spec, sizeof spec, "%s=kill@%d", point, n);
        if (failpoint_set(spec) != QP_OK) {
            _exit(2);
        }
        rc = move();
        _exit(rc == QP_OK || (is_second && rc == QP_E_READONLY) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL);
    return WIFSIGNALED(status);
}

/* The head row has each provider's own numbers, and the shard is that of the handle that counted. */
static void blank(void *context, enum table_id table, void *row)
{
    if (table == TABLE_head) {
        *(struct head_row *)row = (struct head_row){0};
    } else if (table == TABLE_counter) {
        ((struct counter_row *)row)->shard = 0;
    }
}

static bool is_whole(struct store *s)
{
    struct buf text;
    bool equal;
    buf_init(&text, &p.from.t.env, 0);
    statetext_print_as(s, 0, NULL, blank, &text);
    equal = statetext_equal(&wanted, &text);
    buf_done(&text);
    return equal;
}

static int count_row(void *context, const void *row)
{
    ++*(int64_t *)context;
    return QP_OK;
}

static int64_t count_jobs(struct store *s)
{
    struct scan jobs = {.table = TABLE_job, .index = -1, .limit = SIZE_MAX};
    struct qp_err err;
    int64_t count = 0;
    assert_int_equal(store_scan(s, &jobs, &count, count_row, &err), QP_OK);
    return count;
}

/* True: it works, and has jobs; then it has all of the source. */
static bool is_in_use(const char *path, const char *way_out)
{
    struct store *s = NULL;
    struct qp_err err = {0};
    bool used;
    int rc = open_file(path, false, false, &s, &err);
    if (rc != QP_OK) {
        assert_true(rc == QP_E_READONLY || rc == QP_E_CONFLICT);
        assert_non_null(strstr(err.text, way_out));
        return false;
    }
    used = count_jobs(s) > 0;
    assert_true(!used || is_whole(s));
    assert_int_equal(store_close(s, &err), QP_OK);
    return used;
}

static void found_after_kill(void)
{
    bool from = is_in_use(p.from.path, "was moved to there; work there");
    bool to = is_in_use(p.to.path, "run the same quipu migrate again, or remove it");
    assert_false(from && to);
}

/* What the second move found may be finished already: then it says so. */
static void finish(void)
{
    struct store *s = NULL;
    struct qp_err err = {0};
    int rc = move();
    assert_true(rc == QP_OK || rc == QP_E_READONLY);
    assert_int_equal(open_file(p.from.path, false, false, &s, &err), QP_E_READONLY);
    assert_int_equal(open_file(p.to.path, false, false, &s, &err), QP_OK);
    assert_int_equal(count_jobs(s) > 0, true);
    p.to.s = s;
}

/* The rows that a move that was killed late leaves are the source's, and its note that it was moved:
 * the second move takes that note along, with the number that it has. */
static void check_rows(void)
{
    struct copy_progress all = {0};
    struct store *source = NULL;
    struct qp_err err = {0};
    assert_int_equal(open_file(p.from.path, false, true, &source, &err), QP_OK);
    p.from.s = source;
    for (int t = 0; t < TABLE_COUNT; t++) {
        size_t there = storetest_count(&p.to, (enum table_id)t);
        all.rows += (int64_t)there;
        assert_in_range(storetest_count(&p.from, (enum table_id)t) - there, 0, t == TABLE_audit);
    }
    assert_true(all.rows > 20);
}

static const struct way {
    enum storetest_kind from;
    enum storetest_kind to;
} files = {STORETEST_SQLITE, STORETEST_SQLITE},
  databases[] = {{STORETEST_SQLITE, STORETEST_POSTGRES},
                 {STORETEST_POSTGRES, STORETEST_SQLITE},
                 {STORETEST_POSTGRES, STORETEST_POSTGRES}};

/* False: it came to its end before the n-th boundary. */
static bool killed_at(const struct way *way, const char *point, int n, int again)
{
    bool killed;
    storepair_init(&p, way->from, way->to);
    storepair_fill(&p, 6, COMMITS);
    buf_init(&wanted, &p.from.t.env, 0);
    statetext_print_as(p.from.s, 0, NULL, blank, &wanted);
    assert_int_equal(store_close(p.from.s, NULL), QP_OK);
    assert_int_equal(store_close(p.to.s, NULL), QP_OK);
    p.from.s = NULL;
    p.to.s = NULL;
    killed = move_killed(point, n, false);
    if (killed) {
        found_after_kill();
    }
    if (killed && again > 0 && move_killed(point, again, true)) {
        found_after_kill();
    }
    finish();
    check_rows();
    buf_done(&wanted);
    storepair_done(&p);
    return killed;
}

static void killed_at_every_boundary(void **state)
{
    static const char *const points[] = {"copy.before", "copy.after"};
    const char *lane = getenv("QP_LANE");
    int stride = lane != NULL && strcmp(lane, "torture") == 0 ? 1 : STRIDE;
    uint64_t random = testenv_seed();
    for (size_t i = 0; i < ARRAY_COUNT(points); i++) {
        int kills = 0;
        int n = 1;
        while (killed_at(&files, points[i], n, (int)testenv_random_below(&random, 20))) {
            kills++;
            n += 1 + (int)testenv_random_below(&random, (uint64_t)(2 * stride - 1));
        }
        assert_true(kills > 2);
        printf("%s: %d kills, the last one before boundary %d\n", points[i], kills, n);
    }
}

/* Between the last boundaries neither of the two can be used: all of them. */
static void killed_at_the_last_boundaries(void **state)
{
    int last = 1;
    while (killed_at(&files, "copy.after", last, 0)) {
        last += 4;
    }
    for (int n = last - 4; n < last; n++) {
        (void)killed_at(&files, "copy.before", n, n % 3); /* it asserts for itself, killed or not */
        (void)killed_at(&files, "copy.after", n, n % 3);
    }
    assert_true(last > 20);
}

/* A server takes longer for each: a few are sampled, but all of them in the long lane. */
static void killed_between_databases(void **state)
{
    const char *lane = getenv("QP_LANE");
    int stride = lane != NULL && strcmp(lane, "torture") == 0 ? 1 : STRIDE_DATABASE;
    uint64_t random = testenv_seed();
    for (size_t i = 0; i < ARRAY_COUNT(databases); i++) {
        int kills = 0;
        int n = 1 + (int)testenv_random_below(&random, (uint64_t)stride);
        while (killed_at(&databases[i], n % 2 == 0 ? "copy.before" : "copy.after", n,
                         (int)testenv_random_below(&random, 20))) {
            kills++;
            n += 1 + (int)testenv_random_below(&random, (uint64_t)(2 * stride - 1));
        }
        (void)killed_at(&databases[i], "copy.after", n - 1, 0); /* near the end, or at it */
        assert_true(kills > 0);
        printf("way %zu: %d kills, the last one before boundary %d\n", i, kills, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_at_every_boundary),
                                       cmocka_unit_test(killed_at_the_last_boundaries),
                                       cmocka_unit_test(killed_between_databases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_iofault.c - a disk that refuses: every commit is told as it is, and nothing is told after a
 * failed fsync
 *
 * The script of script.h runs on a disk whose n-th call of a kind fails, once or for good, for n =
 * 1, 2, ... until no call is left to fail. Whatever happens,
 *
 *   - a commit that was acknowledged is there afterwards, one that was refused is not, not even for
 *     a process that finds the files as they lie at that moment; only QP_E_UNKNOWN_OUTCOME may be
 *     either
 *   - after a failed fsync the handle refuses everything, reads too, and closing it writes nothing
 *   - after any other refusal the same handle goes on when the disk does
 *
 * ENOSPC is also played for real, on a small file system, where the test may mount one.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "crash/script.h"
#include "support/faultvfs.h"

#define STEPS 7 /* one checkpoint among them */
#define RUNS_SAMPLED 4

static struct script x;
static bool torture;

static const struct fault cases[] = {
    {.kind = FAULT_READ, .code = SQLITE_IOERR_READ},
    {.kind = FAULT_READ, .code = SQLITE_IOERR_SHORT_READ},
    {.kind = FAULT_WRITE, .code = SQLITE_IOERR_WRITE},
    {.kind = FAULT_WRITE, .code = SQLITE_FULL},
    {.kind = FAULT_SYNC, .code = SQLITE_IOERR_FSYNC},
    {.kind = FAULT_SYNC, .code = SQLITE_IOERR_DIR_FSYNC},
    {.kind = FAULT_TRUNCATE, .code = SQLITE_IOERR_TRUNCATE},
    {.kind = FAULT_LOCK, .code = SQLITE_BUSY},
    {.kind = FAULT_LOCK, .code = SQLITE_IOERR_LOCK},
    {.kind = FAULT_SHM_MAP, .code = SQLITE_IOERR_SHMMAP},
    {.kind = FAULT_OPEN, .code = SQLITE_CANTOPEN},
    {.kind = FAULT_DELETE, .code = SQLITE_IOERR_DELETE},
};

/* What a run has come to know. */
struct run {
    const struct fault *fault;
    int acknowledged; /* state */
    bool unknown;     /* the next one may be there */
};

static void complain(const struct run *r, const char *what, int rc, const struct qp_err *err)
{
    fail_msg("%s %lld fails %s with %s: after state %d: %s: %s (%s)",
             faultvfs_kind_name(r->fault->kind), (long long)r->fault->at,
             r->fault->for_good ? "for good" : "once", sqlite3_errstr(r->fault->code),
             r->acknowledged, what, err->text, qp_code_word(rc));
}

static int visit_nothing(void *context, const void *row)
{
    (void)context;
    (void)row;
    return QP_OK;
}

static int read_one(void)
{
    struct arena arena;
    const void *row;
    int rc;
    arena_init(&arena, &x.t.env, 0);
    rc = store_get(x.s, &arena, TABLE_head, &(struct head_row){.ns = 0}, &row, NULL);
    arena_done(&arena);
    return rc;
}

static int read_all(void)
{
    struct scan scan = {.table = TABLE_job, .index = -1, .limit = SIZE_MAX};
    return store_scan(x.s, &scan, NULL, visit_nothing, NULL);
}

static int64_t writes(void)
{
    return faultvfs_count(FAULT_WRITE) + faultvfs_count(FAULT_TRUNCATE) +
           faultvfs_count(FAULT_DELETE);
}

/* The handle has stopped: whatever is asked of it gets this code, also when the disk is well
 * again. */
static void check_refuses(const struct run *r, int k)
{
    struct qp_err err = {0};
    struct buf out;
    int code = read_one();
    faultvfs_heal();
    if (r->fault->kind == FAULT_SYNC && code != QP_E_FSYNC) {
        complain(r, "a failed fsync, but reads get another code", code, &err);
    }
    if (qp_code_class(code) != QP_CLASS_FATAL) {
        complain(r, "refusing, but reads are answered", code, &err);
    }
    buf_init(&out, &x.t.env, 0);
    assert_int_equal(read_all(), code);
    assert_int_equal(store_dump(x.s, &out, &err), code);
    assert_int_equal(store_idle(x.s, &err), code);
    assert_int_equal(script_step(&x, k, NULL, &err), code);
    buf_done(&out);
}

static bool is_refusing(void)
{
    struct store_info info;
    store_info(x.s, &info);
    return info.refusing;
}

/* The state is the one that was promised. SQLite takes a page behind the end of the file for zeros
 * and may write on it: then, and only then, the damage must at least be seen when every page is
 * checked. */
static bool is_as_promised(const struct run *r, int found, const struct qp_err *err)
{
    return found == r->acknowledged || (r->unknown && found == r->acknowledged + 1) ||
           (r->fault->code == SQLITE_IOERR_SHORT_READ && found == SCRIPT_NO_STATE &&
            strstr(err->text, "is damaged") != NULL);
}

/* The files as they lie: what a process would find if this one were killed now. */
static void check_files(const struct run *r, const char *when)
{
    struct qp_err err = {0};
    int found = script_state_of_copy(&x, r->acknowledged, &err);
    if (!is_as_promised(r, found, &err)) {
        complain(r, when, found, &err);
    }
}

/* Step k was refused, and the handle goes on: it reads, and when the disk is well it commits. */
static void check_goes_on(const struct run *r, int k, int rc)
{
    struct qp_err err = {0};
    if (r->fault->code == SQLITE_FULL) {
        if (rc != QP_E_FULL) {
            complain(r, "the disk is full, but the code says otherwise", rc, &err);
        }
        assert_int_equal(read_one(), QP_OK);
        assert_int_equal(read_all(), QP_OK);
    }
    check_files(r, "files after a refused commit");
    faultvfs_heal();
    assert_int_equal(read_all(), QP_OK);
    rc = script_step(&x, k, NULL, &err);
    if (rc != QP_OK) {
        complain(r, "the disk is well, but the commit is refused again", rc, &err);
    }
}

/* Steps until the end, or until the handle has stopped. */
static void run_steps(struct run *r)
{
    for (int k = 1; k <= STEPS; k++) {
        struct qp_err err = {0};
        int idle = QP_OK;
        int rc = script_step(&x, k, &idle, &err);
        r->acknowledged += rc == QP_OK;
        r->unknown = rc == QP_E_UNKNOWN_OUTCOME;
        if (is_refusing()) {
            check_refuses(r, k);
            return;
        }
        if (rc == QP_E_UNKNOWN_OUTCOME || rc == QP_E_FSYNC || idle == QP_E_FSYNC) {
            complain(r, "a failed fsync, but the handle goes on", rc, &err);
        }
        if (rc != QP_OK) {
            check_goes_on(r, k, rc);
            r->acknowledged++;
        }
    }
}

/* Closes; when the handle had stopped, without a write. Then the file must be in the state that was
 * promised. */
static void run_close(struct run *r)
{
    struct qp_err err = {0};
    bool refusing = is_refusing();
    int64_t before = writes();
    int found;
    check_files(r, "files before closing");
    if (script_close(&x, &err) == QP_OK && refusing) {
        complain(r, "closed as clean, although it had stopped", QP_OK, &err);
    }
    if (refusing) {
        assert_int_equal(writes(), before);
        check_files(r, "files after closing");
    }
    faultvfs_heal();
    found = script_state_rows(&x, r->acknowledged, &err);
    if (!is_as_promised(r, found, &err)) {
        complain(r, "the file afterwards", found, &err);
    }
}

/* Opening was refused: nothing has changed but, perhaps, the mark that somebody has it open. */
static void check_not_opened(struct run *r, int rc, const struct qp_err *err)
{
    struct qp_err why = {0};
    int found;
    if (err->text[0] == '\0' || rc == QP_E_NEWER ||
        (rc == QP_E_FOREIGN && r->fault->code != SQLITE_IOERR_SHORT_READ)) {
        complain(r, "opening is refused without a fitting sentence", rc, err);
    }
    found = script_state(&x, 0, &why);
    if (found != 0 && !(rc == QP_E_UNKNOWN_OUTCOME && found == 1)) {
        complain(r, "opening is refused, and the file has changed", found, &why);
    }
}

/* False: there was no n-th call to fail. */
static bool play(const struct fault *fault)
{
    struct run r = {.fault = fault};
    struct qp_err err = {0};
    int rc;
    script_place(&x);
    faultvfs_init(FAULTVFS_SYNC_PLAYED, false);
    faultvfs_fail(fault);
    rc = script_open(&x, FAULTVFS_NAME, DURABILITY_FULL, &err);
    if (rc != QP_OK) {
        check_not_opened(&r, rc, &err);
        return true;
    }
    r.acknowledged = 1;
    run_steps(&r);
    run_close(&r);
    return faultvfs_failures() > 0;
}

/* How many calls of each kind a run without faults makes. */
static int64_t calls_of(enum fault_kind kind)
{
    static int64_t counts[FAULT_KINDS];
    static bool known;
    if (!known) {
        const struct fault none = {0};
        (void)play(&none); /* nothing fails */
        for (int i = 0; i < FAULT_KINDS; i++) {
            counts[i] = faultvfs_count((enum fault_kind)i);
        }
        known = true;
    }
    return counts[kind];
}

static void play_case(const struct fault *c, bool for_good)
{
    int64_t stride = torture ? 1 : 1 + calls_of(c->kind) / RUNS_SAMPLED;
    struct fault fault = *c;
    int64_t runs = 0;
    fault.for_good = for_good;
    if (c->kind == FAULT_SYNC) {
        stride = 1;
    }
    for (fault.at = 1; play(&fault); fault.at += stride) {
        runs++;
    }
    printf("%-8s %-8s %-28s %4lld of %4lld calls\n", faultvfs_kind_name(c->kind),
           for_good ? "for good" : "once", sqlite3_errstr(c->code), (long long)runs,
           (long long)calls_of(c->kind));
    assert_true(runs > 0 || c->kind == FAULT_TRUNCATE);
}

static void test_nth_call_fails_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        play_case(&cases[i], false);
    }
}

static void test_all_calls_fail_from_the_nth(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        play_case(&cases[i], true);
    }
}

/* ----------------------------------------------------------------- a checkpoint behind a commit */

static int put_large(qp_str name, qp_str value, struct qp_err *err)
{
    struct commit c;
    struct bundle *b;
    int rc;
    commit_init(&c, x.s);
    b = commit_bundle(&c, "large");
    bundle_op(b, OP_data_put)->data_put =
        (struct op_data_put){.ref = {STORE_NS_DEFAULT, 50}, .name = name, .value = value};
    rc = store_commit(x.s, &c);
    *err = c.err;
    assert_true(rc != QP_OK || b->rc == QP_OK);
    commit_done(&c);
    return rc;
}

/* A commit that fills the log is followed by a checkpoint of its own. When that one's fsync fails,
 * the commit stands, and the handle is finished all the same. */
static void test_checkpoint_of_a_full_log(void **state)
{
    size_t size = (size_t)LIMIT_WAL_PAGES / 2 * 4096;
    char *bytes = calloc(1, size);
    struct fault fault = {.kind = FAULT_SYNC, .code = SQLITE_IOERR_FSYNC, .for_good = true};
    struct run r = {.fault = &fault};
    struct qp_err err = {0};
    (void)state;
    assert_non_null(bytes);
    script_place(&x);
    faultvfs_init(FAULTVFS_SYNC_PLAYED, false);
    assert_int_equal(script_open(&x, FAULTVFS_NAME, DURABILITY_FULL, &err), QP_OK);
    for (int i = 2; i < LIMIT_WAL_COMMITS; i++) {
        assert_int_equal(put_large(QP_STR("none"), QP_STR("1"), &err), QP_OK);
    }
    assert_false(is_refusing());
    fault.at = 2; /* the commit's own comes first */
    faultvfs_fail(&fault);
    assert_int_equal(put_large(QP_STR("large"), (qp_str){bytes, size}, &err), QP_OK);
    assert_true(faultvfs_failures() > 0);
    assert_true(is_refusing());
    check_refuses(&r, 1);
    assert_int_equal(script_close(&x, &err), QP_E_FSYNC);
    faultvfs_heal();
    assert_int_equal(script_open(&x, NULL, DURABILITY_FULL, &err), QP_OK);
    assert_int_equal(read_all(), QP_OK);
    assert_int_equal(script_close(&x, &err), QP_OK);
    free(bytes);
}

/* -------------------------------------------------------------------------- a disk that is full */

#define SMALL_DISK_SIZE (4 * 1024 * 1024)
#define BALLAST_SIZE (1024 * 1024)
#define ROW_SIZE (128 * 1024)

static bool mount_small(const char *dir)
{
    char options[64];
    (void)snprintf(options, sizeof options, "size=%d", SMALL_DISK_SIZE); /* fits */
    /* In a mount namespace of its own: it goes with this process, however that ends. */
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", dir, "tmpfs", 0, options) == 0;
}

static void put_ballast(const char *path)
{
    char *bytes = calloc(1, BALLAST_SIZE);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && bytes != NULL);
    assert_int_equal(write(fd, bytes, BALLAST_SIZE), BALLAST_SIZE);
    assert_int_equal(close(fd), 0);
    free(bytes);
}

/* Rows until one is refused; how many went in. */
static int fill_disk(int from)
{
    static char bytes[ROW_SIZE];
    struct qp_err err = {0};
    int rc = QP_OK;
    int count = from;
    while (rc == QP_OK) {
        char name[32];
        (void)snprintf(name, sizeof name, "row-%04d", count);
        rc = put_large(str_from(name), (qp_str){bytes, sizeof bytes}, &err);
        count += rc == QP_OK;
        assert_true(count < 1000);
    }
    if (rc != QP_E_FULL) {
        fail_msg("the disk is full, but the code is %s: %s", qp_code_word(rc), err.text);
    }
    return count - from;
}

static size_t count_rows(enum table_id table)
{
    struct buf out;
    struct qp_err err = {0};
    size_t count = 0;
    const char *at;
    char word[32];
    buf_init(&out, &x.t.env, 0);
    assert_int_equal(store_dump(x.s, &out, &err), QP_OK);
    buf_byte(&out, '\0');
    (void)snprintf(word, sizeof word, "\n%s{", tables[table].name);
    for (at = strstr(out.p, word); at != NULL; at = strstr(at + 1, word)) {
        count++;
    }
    buf_done(&out);
    return count;
}

static void test_real_disk_full(void **state)
{
    char mounted[300];
    char ballast[340];
    char kept[320];
    struct qp_err err = {0};
    int first;
    int second;
    (void)state;
    memcpy(kept, x.path, sizeof kept);
    (void)snprintf(mounted, sizeof mounted, "%s/small", x.dir); /* fits */
    assert_int_equal(mkdir(mounted, 0700), 0);
    if (!mount_small(mounted)) {
        printf("not permitted to mount a small file system (%s): real ENOSPC is not tested\n",
               strerror(errno));
        assert_int_equal(rmdir(mounted), 0);
        skip();
    }
    (void)snprintf(ballast, sizeof ballast, "%s/ballast", mounted); /* fits */
    put_ballast(ballast);
    (void)snprintf(x.path, sizeof x.path, "%.290s/store.db", mounted); /* fits */
    script_place(&x);
    assert_int_equal(script_open(&x, NULL, DURABILITY_FULL, &err), QP_OK);
    first = fill_disk(0);
    assert_true(first > 0);
    assert_false(is_refusing());
    assert_int_equal(count_rows(TABLE_data), first);
    (void)store_idle(x.s, &err); /* there is no room for a checkpoint: no reason to stop */
    assert_false(is_refusing());
    assert_int_equal(unlink(ballast), 0);
    second = fill_disk(first);
    assert_true(second > 0); /* the same handle commits again */
    assert_int_equal(count_rows(TABLE_data), first + second);
    (void)script_close(&x, &err); /* it may be too full to be marked as clean */
    assert_int_equal(mount("tmpfs", mounted, "tmpfs", MS_REMOUNT, "size=32m"), 0);
    assert_int_equal(script_open(&x, NULL, DURABILITY_FULL, &err), QP_OK);
    assert_int_equal(count_rows(TABLE_data), first + second);
    assert_int_equal(script_close(&x, &err), QP_OK);
    script_remove(&x);
    assert_int_equal(umount(mounted), 0);
    assert_int_equal(rmdir(mounted), 0);
    memcpy(x.path, kept, sizeof kept);
}

static int setup(void **state)
{
    const char *lane = getenv("QP_LANE");
    (void)state;
    torture = lane != NULL && strcmp(lane, "torture") == 0;
    script_init(&x);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    script_done(&x);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nth_call_fails_once),
        cmocka_unit_test(test_all_calls_fail_from_the_nth),
        cmocka_unit_test(test_checkpoint_of_a_full_log),
        cmocka_unit_test(test_real_disk_full),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

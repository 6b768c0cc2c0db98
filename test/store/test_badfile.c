/* test_badfile.c - broken and foreign files: a sentence and a code for each, never a crash, never a
 * silent repair
 *
 * Every case makes something at a path and opens it, for writing and for reading. A refusal has its
 * code and its sentence, leaves every byte that was there, and puts nothing beside it but the lock
 * file (a reader of a file with a log may leave SQLite's own empty log and shared memory). What is
 * odd but whole must work.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/badcases.h"
#include "store/store.h"
#include "support/files.h"
#include "support/opworld.h"

static struct testenv t;
static bool torture;
static char root[200]; /* of all cases */
static struct opworld world;

/* -------------------------------------------------------------------------------------- opening */

/* What a refusal may leave: the lock file; a reader, SQLite's own empty log. */
static bool writer_may_leave(const struct files_entry *e)
{
    return files_ends_with(e->name, "-qplock");
}

static bool reader_may_leave(const struct files_entry *e)
{
    return files_ends_with(e->name, "-wal") && e->size == 0;
}

static void enter_directory(size_t number)
{
    (void)snprintf(bad.dir, sizeof bad.dir, "%s/%03zu", root, number);
    assert_int_equal(mkdir(bad.dir, 0700), 0);
    (void)snprintf(bad.path, sizeof bad.path, "%s/store.db", bad.dir);
}

static void leave_directory(void)
{
    files_remove(bad.dir);
}

static int put_something(struct store *s, struct qp_err *err)
{
    struct commit c;
    struct bundle *b;
    int rc;
    commit_init(&c, s);
    b = commit_bundle(&c, "test");
    bundle_op(b, OP_audit_add)->audit_add =
        (struct op_audit_add){.ns = STORE_NS_DEFAULT, .action = QP_STR("test")};
    rc = store_commit(s, &c);
    *err = c.err;
    rc = rc == QP_OK ? b->rc : rc;
    commit_done(&c);
    return rc;
}

/* It opened: then it can be read, and written by a writer. */
static void check_works(const char *what, struct store *s, bool reader)
{
    struct qp_err err = {0};
    struct buf out;
    int rc;
    buf_init(&out, &t.env, 0);
    rc = store_dump(s, &out, &err);
    buf_done(&out);
    rc = rc == QP_OK && !reader ? put_something(s, &err) : rc;
    rc = rc == QP_OK ? store_close(s, &err) : rc;
    if (rc != QP_OK) {
        fail_msg("%s: opened, but %s (%s)", what, err.text, qp_code_word(rc));
    }
}

static void check_open(const struct bad *c, bool reader)
{
    bool own = reader && c->reader_text != NULL;
    int code = own ? c->reader_code : c->code;
    const char *expected = own ? c->reader_text : c->text;
    const char *text = expected != NULL ? expected : "";
    struct store_options options = {
        .path = bad.path, .read_only = reader, .full_check = c->full_check};
    struct store *s = NULL;
    struct files_snapshot before;
    struct qp_err err = {0};
    int rc;
    files_snapshot(&before, bad.dir);
    rc = store_open(&t.env, &options, &s, &err);
    if (rc != code || (rc != QP_OK && strstr(err.text, text) == NULL)) {
        fail_msg("%s: expected %s '%s', got %s: %s", c->name, qp_code_word(code), text,
                 qp_code_word(rc), err.text);
    }
    if (rc == QP_OK) {
        check_works(c->name, s, reader);
    } else if (code != QP_E_INVALID && strstr(bad.path, bad.dir) == bad.path &&
               strstr(err.text, bad.dir) == NULL) {
        fail_msg("%s: the sentence does not name the file: %s", c->name, err.text);
    }
    if (rc != QP_OK || reader) {
        files_untouched(&before, c->name, reader ? reader_may_leave : writer_may_leave);
    }
}

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < bad_case_count; i++) {
        for (int reader = 0; reader <= 1; reader++) {
            enter_directory(i);
            bad_cases[i].make();
            check_open(&bad_cases[i], reader != 0);
            leave_directory();
        }
    }
    printf("%zu cases, each for a writer and a reader\n", bad_case_count);
    assert_true(bad_case_count >= 40);
}

/* ----------------------------------------------------------------- what needs more than a table */

static int open_writer(struct store **out, struct qp_err *err)
{
    struct store_options options = {.path = bad.path};
    return store_open(&t.env, &options, out, err);
}

static int open_reader(struct store **out, struct qp_err *err)
{
    struct store_options options = {.path = bad.path, .read_only = true};
    return store_open(&t.env, &options, out, err);
}

/* A name is a name, also where SQLite would see a URI or a store in memory; ":memory:" itself is refused
 * (test_whole.c). */
static void test_names_are_names(void **state)
{
    static const char *const names[] = {"file:store.db", "./:memory:", "file::memory:?cache=shared",
                                        "store.db?immutable=1", "./a%20b"};
    char here[4096];
    (void)state;
    enter_directory(910);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(bad.dir), 0);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct store *s = NULL;
        struct qp_err err = {0};
        (void)snprintf(bad.path, sizeof bad.path, "%s", names[i]);
        for (int round = 0; round < 2; round++) {
            if (open_writer(&s, &err) != QP_OK) {
                fail_msg("%s: %s", names[i], err.text);
            }
            assert_int_equal(put_something(s, &err), QP_OK);
            assert_int_equal(store_close(s, &err), QP_OK);
            assert_int_equal(access(names[i], F_OK), 0);
        }
    }
    assert_int_equal(chdir(here), 0);
    leave_directory();
}

/* The lock is the real file's, under whichever name it was opened. */
static void test_link_has_the_lock_of_its_file(void **state)
{
    struct store *s;
    struct store *second = NULL;
    struct qp_err err = {0};
    char name[300];
    (void)state;
    enter_directory(900);
    bad_make_link();
    assert_int_equal(open_writer(&s, &err), QP_OK);
    (void)snprintf(name, sizeof name, "%s/real.db-qplock", bad.dir);
    assert_int_equal(access(name, F_OK), 0);
    (void)snprintf(name, sizeof name, "%s/store.db-qplock", bad.dir);
    assert_int_not_equal(access(name, F_OK), 0);
    (void)snprintf(bad.path, sizeof bad.path, "%s/real.db", bad.dir);
    assert_int_equal(open_writer(&second, &err), QP_E_LOCKED);
    assert_int_equal(store_close(s, &err), QP_OK);
    leave_directory();
}

static void test_locked_by_this_process(void **state)
{
    struct store *s;
    struct store *second = NULL;
    struct qp_err err = {0};
    char word[64];
    (void)state;
    enter_directory(901);
    bad_put_good();
    assert_int_equal(open_writer(&s, &err), QP_OK);
    assert_int_equal(open_writer(&second, &err), QP_E_LOCKED);
    (void)snprintf(word, sizeof word, "process %ld;", (long)getpid());
    assert_non_null(strstr(err.text, word));
    assert_int_equal(put_something(s, &err), QP_OK); /* the first one does not care */
    assert_int_equal(open_reader(&second, &err), QP_OK);
    assert_int_equal(store_close(second, &err), QP_OK);
    assert_int_equal(put_something(s, &err), QP_OK);
    assert_int_equal(store_close(s, &err), QP_OK);
    assert_int_equal(open_writer(&s, &err), QP_OK); /* and the lock goes with it */
    assert_int_equal(store_close(s, &err), QP_OK);
    leave_directory();
}

/* Holds the file until its input ends. */
static _Noreturn void hold_file(int say, int wait)
{
    struct store *s;
    struct qp_err err = {0};
    char byte = (char)(open_writer(&s, &err) == QP_OK);
    (void)!write(say, &byte, 1);
    (void)!read(wait, &byte, 1);
    _exit(0); /* without closing it: as if it were killed */
}

static void test_locked_by_another_process(void **state)
{
    struct store *s = NULL;
    struct qp_err err = {0};
    struct store_info info;
    char word[64];
    char byte = 0;
    int up[2];
    int down[2];
    pid_t child;
    (void)state;
    enter_directory(902);
    bad_put_good();
    assert_int_equal(pipe2(up, O_CLOEXEC) + pipe2(down, O_CLOEXEC), 0);
    child = fork();
    if (child == 0) {
        (void)close(down[1]);
        hold_file(up[1], down[0]);
    }
    (void)close(down[0]);
    assert_int_equal(read(up[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    assert_int_equal(open_writer(&s, &err), QP_E_LOCKED);
    (void)snprintf(word, sizeof word, "process %ld;", (long)child);
    assert_non_null(strstr(err.text, word));
    assert_int_equal(open_reader(&s, &err), QP_OK);
    assert_int_equal(store_close(s, &err), QP_OK);
    (void)close(down[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)close(up[0]);
    (void)close(up[1]);
    assert_int_equal(open_writer(&s, &err), QP_OK); /* the lock went with the process */
    store_info(s, &info);
    assert_true(info.opened_unclean);
    assert_int_equal(store_close(s, &err), QP_OK);
    leave_directory();
}

static int count_one(void *context, const void *row)
{
    int *count = context;
    (void)row;
    ++*count;
    return QP_OK;
}

/* In a child, a handle of the parent does nothing, and closing it does no harm. */
static _Noreturn void use_after_fork(struct store *s)
{
    struct qp_err err = {0};
    struct scan scan = {.table = TABLE_job, .index = -1, .limit = SIZE_MAX};
    int count = 0;
    int wrong = put_something(s, &err) != QP_E_INVALID || strstr(err.text, "fork") == NULL;
    wrong += store_scan(s, &scan, &count, count_one, &err) != QP_E_INVALID;
    wrong += store_idle(s, &err) != QP_E_INVALID;
    (void)store_close(s, &err);
    _exit(wrong);
}

static void test_used_after_fork(void **state)
{
    struct store *s;
    struct store *second = NULL;
    struct qp_err err = {0};
    int status;
    pid_t child;
    (void)state;
    enter_directory(903);
    bad_put_good();
    assert_int_equal(open_writer(&s, &err), QP_OK);
    assert_int_equal(put_something(s, &err), QP_OK);
    child = fork();
    if (child == 0) {
        use_after_fork(s);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(open_writer(&second, &err), QP_E_LOCKED); /* the child did not drop our lock */
    assert_int_equal(put_something(s, &err), QP_OK);
    assert_int_equal(store_close(s, &err), QP_OK);
    assert_int_equal(open_reader(&s, &err), QP_OK);
    assert_int_equal(store_close(s, &err), QP_OK);
    leave_directory();
}

static void test_modes(void **state)
{
    struct store *s;
    struct qp_err err = {0};
    struct stat st;
    char name[6100];
    mode_t mask = umask(0);
    (void)state;
    enter_directory(904);
    assert_int_equal(open_writer(&s, &err), QP_OK);
    assert_int_equal(stat(bad.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    bad_beside("-wal", name);
    assert_int_equal(stat(name, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(store_close(s, &err), QP_OK);
    testenv_log_reset(&t);
    assert_int_equal(chmod(bad.path, 0644), 0);
    assert_int_equal(open_writer(&s, &err), QP_OK);
    assert_non_null(strstr(testenv_log(&t), "can be read by other users"));
    assert_int_equal(store_close(s, &err), QP_OK);
    (void)umask(mask);
    leave_directory();
}

/* A file on a file system that cannot be written to: a writer is told so. */
static void test_read_only_mount(void **state)
{
    struct store *s = NULL;
    struct qp_err err = {0};
    int rc;
    (void)state;
    enter_directory(905);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", bad.dir, "tmpfs", 0, "size=8m") != 0) {
        printf("not permitted to mount (%s): a read-only file system is not tested\n",
               strerror(errno));
        leave_directory();
        skip();
    }
    bad_put_good();
    assert_int_equal(mount("tmpfs", bad.dir, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_int_equal(open_writer(&s, &err), QP_E_READONLY);
    assert_non_null(strstr(err.text, "Read-only file system"));
    rc = open_reader(&s, &err); /* SQLite needs to write beside a file that may have a log */
    assert_int_equal(rc, QP_E_IO);
    assert_non_null(strstr(err.text, bad.path));
    assert_int_equal(umount(bad.dir), 0);
    leave_directory();
}

static int count_audits(struct store *s)
{
    struct scan scan = {.table = TABLE_audit, .index = -1, .limit = SIZE_MAX};
    int count = 0;
    assert_int_equal(store_scan(s, &scan, &count, count_one, NULL), QP_OK);
    return count;
}

/* Opens, works, closes. Exits with 1 when it did, 0 when another had the file, 99 when something
 * else is wrong. */
static _Noreturn void race(void)
{
    struct store *s = NULL;
    struct qp_err err = {0};
    int rc = open_writer(&s, &err);
    rc = rc == QP_OK ? put_something(s, &err) : rc;
    rc = rc == QP_OK ? store_close(s, &err) : rc;
    _exit(rc == QP_OK ? 1 : rc == QP_E_LOCKED ? 0 : 99);
}

/* Somebody else has made the file between our look at the path and our lock: it is opened, not made
 * anew over it. The other one is played by the lock file's own owner: a process that creates, works
 * and closes. */
static void test_created_by_two(void **state)
{
    enum { RACERS = 4, ROUNDS = 5 };
    (void)state;
    for (int round = 0; round < (torture ? 20 * ROUNDS : ROUNDS); round++) {
        struct store *s = NULL;
        struct qp_err err = {0};
        int entered = 0;
        pid_t children[RACERS];
        enter_directory(906);
        for (int i = 0; i < RACERS; i++) {
            children[i] = fork();
            if (children[i] == 0) {
                race();
            }
        }
        for (int i = 0; i < RACERS; i++) {
            int status;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
            entered += WEXITSTATUS(status);
        }
        assert_int_equal(open_writer(&s, &err), QP_OK);
        assert_int_equal(count_audits(s), entered);
        assert_int_equal(store_close(s, &err), QP_OK);
        leave_directory();
    }
}

/* ------------------------------------------------------------------------------------ the frame */

static void make_good(void)
{
    struct store *s;
    struct qp_err err = {0};
    enter_directory(999);
    assert_int_equal(open_writer(&s, &err), QP_OK);
    opworld_prepare(s, &t, &world);
    assert_int_equal(store_close(s, &err), QP_OK);
    bad.good = files_get(bad.path, &bad.good_size);
    leave_directory();
}

static int setup(void **state)
{
    const char *lane = getenv("QP_LANE");
    (void)state;
    torture = lane != NULL && strcmp(lane, "torture") == 0;
    testenv_init(&t, 1);
    files_temporary(root, sizeof root, "badfile");
    make_good();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)rmdir(root); /* what is left in it a person may want to see */
    free(bad.good);
    testenv_done(&t);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_names_are_names),
        cmocka_unit_test(test_link_has_the_lock_of_its_file),
        cmocka_unit_test(test_locked_by_this_process),
        cmocka_unit_test(test_locked_by_another_process),
        cmocka_unit_test(test_used_after_fork),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_read_only_mount),
        cmocka_unit_test(test_created_by_two),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

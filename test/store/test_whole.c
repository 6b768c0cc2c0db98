/* test_whole.c - a store that is not whole is refused, and says how to accept what is missing
 *
 * A process opens a store, commits twelve rows, with a checkpoint after the fifth, and dies. Then
 * something happens to its files: the log is gone, or an older one; the file is truncated, removed or
 * replaced; the lock file is not what it was. Every case is opened for writing and for reading, without
 * and with accept_loss. A refusal changes no byte.
 *
 * And while a store is open: a name that no longer leads to the file that was opened ends it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store.h"
#include "support/files.h"
#include "support/testenv.h"

#define IN_BACKUP 3 /* rows when the file was copied, after a checkpoint */
#define IN_FILE 5   /* rows that a checkpoint moved into the file */
#define IN_OLD 7    /* rows when the log was put aside */
#define ROWS 12
#define ROW_SIZE 9000 /* several pages: the file grows with every commit */

static struct testenv t;
static char dir[200];
static char path[240];

/* ---------------------------------------------------------------------------------------- files */

static const char *name_of(const char *suffix)
{
    static char names[4][300];
    static int next;
    char *name = names[next++ % 4];
    (void)snprintf(name, 300, "%s%s", path, suffix); /* fits */
    return name;
}

static void copy_file(const char *from, const char *to)
{
    size_t size = 0;
    unsigned char *bytes = files_get(from, &size);
    assert_non_null(bytes);
    files_put(to, bytes, size);
    free(bytes);
}

static bool is_there(const char *name)
{
    return access(name, F_OK) == 0;
}

/* ---------------------------------------------------------------------------------------- stores */

static int open_as(bool reader, bool accept, struct store **out, struct qp_err *err)
{
    struct store_options options = {.path = path, .read_only = reader, .accept_loss = accept};
    return store_open(&t.env, &options, out, err);
}

static int put_row(struct store *s, struct qp_err *err)
{
    static char detail[ROW_SIZE];
    struct commit c;
    struct bundle *b;
    int rc;
    memset(detail, 'x', sizeof detail);
    commit_init(&c, s);
    b = commit_bundle(&c, "row");
    bundle_op(b, OP_audit_add)->audit_add = (struct op_audit_add){
        .ns = STORE_NS_DEFAULT, .action = QP_STR("test"), .detail = {detail, sizeof detail}};
    rc = store_commit(s, &c);
    *err = c.err;
    rc = rc == QP_OK ? b->rc : rc;
    commit_done(&c);
    return rc;
}

static int count_one(void *context, const void *row)
{
    int *count = context;
    (void)row;
    ++*count;
    return QP_OK;
}

static int rows_of(struct store *s)
{
    struct scan scan = {.table = TABLE_audit, .index = -1, .limit = SIZE_MAX};
    int count = 0;
    assert_int_equal(store_scan(s, &scan, &count, count_one, NULL), QP_OK);
    return count;
}

/* Opens, must find so many rows, closes. */
static void expect_rows(const char *what, bool reader, bool accept, int rows)
{
    struct store *s = NULL;
    struct qp_err err = {0};
    if (open_as(reader, accept, &s, &err) != QP_OK) {
        fail_msg("%s, %s%s: %s", what, reader ? "reader" : "writer", accept ? ", accepted" : "",
                 err.text);
    }
    if (rows_of(s) != rows) {
        fail_msg("%s: %d rows instead of %d", what, rows_of(s), rows);
    }
    assert_int_equal(store_close(s, &err), QP_OK);
}

/* In a process of its own, which does not close it. */
static _Noreturn void work_and_die(void)
{
    struct store *s = NULL;
    struct qp_err err = {0};
    int rc = open_as(false, false, &s, &err);
    for (int i = 1; rc == QP_OK && i <= ROWS; i++) {
        rc = put_row(s, &err);
        rc = rc == QP_OK && (i == IN_BACKUP || i == IN_FILE) ? store_idle(s, &err) : rc;
        if (i == IN_BACKUP) {
            copy_file(path, name_of(".backup"));
        } else if (i == IN_OLD) {
            copy_file(name_of("-wal"), name_of(".old"));
        }
    }
    _exit(rc == QP_OK ? 0 : 1);
}

static void crash(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        work_and_die();
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ----------------------------------------------------------------------------------- after a crash */

static void nothing(void) {}
static void log_gone(void)
{
    assert_int_equal(unlink(name_of("-wal")), 0);
}
static void log_older(void)
{
    copy_file(name_of(".old"), name_of("-wal"));
}
static void log_cut(void)
{
    struct stat st;
    assert_int_equal(stat(name_of("-wal"), &st), 0);
    assert_int_equal(truncate(name_of("-wal"), st.st_size / 2), 0);
}
static void file_cut(void)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size / 2), 0);
}
/* The last page may be in the log as well, those before it are not. */
static void file_cut_a_little(void)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 3 * 4096), 0);
}
static void file_gone(void)
{
    assert_int_equal(unlink(path), 0);
}
static void all_gone(void)
{
    file_gone();
    log_gone();
}
static void file_replaced(void)
{
    assert_int_equal(rename(name_of(".backup"), path), 0);
}
/* In the same inode, as cp does it. */
static void file_overwritten(void)
{
    copy_file(name_of(".backup"), path);
}
static void restored(void)
{
    file_replaced();
    log_gone();
}
static void restored_without_lock(void)
{
    restored();
    assert_int_equal(unlink(name_of("-qplock")), 0);
}
static void lock_of_zeros(void)
{
    static const char zeros[111];
    log_gone();
    files_put(name_of("-qplock"), zeros, sizeof zeros);
}
static void lock_of_a_former_version(void)
{
    log_gone();
    files_put(name_of("-qplock"), "quipu 4711\n", 11);
}
/* As a reader may see it while it is written: the first number is new, the second one is not. */
static void lock_half_written(void)
{
    size_t size = 0;
    unsigned char *bytes = files_get(name_of("-qplock"), &size);
    assert_non_null(bytes);
    assert_int_equal(size, 111);
    bytes[26] = '9';
    log_gone();
    files_put(name_of("-qplock"), bytes, size);
    free(bytes);
}
static void put_again(const char *suffix)
{
    copy_file(name_of(suffix), name_of(".copy"));
    assert_int_equal(unlink(name_of(suffix)), 0);
    assert_int_equal(rename(name_of(".copy"), name_of(suffix)), 0);
}
/* Another directory, another disk: the same bytes in other inodes. */
static void all_copied(void)
{
    put_again("");
    put_again("-wal");
    put_again("-qplock");
}
static void copied_without_log(void)
{
    all_copied();
    log_gone();
}

static const struct {
    const char *name;
    void (*happens)(void);
    const char *refusal;        /* NULL: it opens */
    const char *reader_refusal; /* NULL: the same */
    int rows;                   /* that are there, when it opens, or is accepted; -1: it is not */
} cases[] = {
    {"nothing", nothing, NULL, NULL, ROWS},
    {"log gone", log_gone, "answered changes are missing", NULL, IN_FILE},
    {"log older", log_older, "answered changes are missing", NULL, IN_OLD},
    {"log cut", log_cut, "answered changes are missing", NULL, -1},
    {"file cut", file_cut, "is truncated", NULL, -1},
    {"file cut a little", file_cut_a_little, "is truncated", NULL, -1},
    {"file gone", file_gone, "is not there, but its log", "is not there", -1},
    {"all gone", all_gone, "changes of it were answered", "is not there", 0},
    {"file replaced beside its log", file_replaced, "is of the file that was there before", NULL,
     -1},
    {"file overwritten beside its log", file_overwritten, "is of the file that was there before",
     NULL, -1},
    {"restored", restored, "open it once with --accept-loss", NULL, IN_BACKUP},
    {"restored, without a lock file", restored_without_lock, NULL, NULL, IN_BACKUP},
    {"lock file of zeros", lock_of_zeros, NULL, NULL, IN_FILE},
    {"lock file of a former version", lock_of_a_former_version, NULL, NULL, IN_FILE},
    {"lock file half written", lock_half_written, NULL, NULL, IN_FILE},
    {"all copied", all_copied, NULL, NULL, ROWS},
    {"copied without the log", copied_without_log, "answered changes are missing", NULL, IN_FILE},
};

/* The lock names the process that looked; SQLite's log is made empty and removed. */
static bool may_come(const struct files_entry *e)
{
    return files_ends_with(e->name, "-wal") && e->size == 0;
}

static void expect_refusal(const char *what, bool reader, bool accept, const char *sentence)
{
    struct store *s = NULL;
    struct qp_err err = {0};
    struct files_snapshot before;
    int rc;
    files_snapshot(&before, dir);
    rc = open_as(reader, accept, &s, &err);
    if ((rc != QP_E_CORRUPT && rc != QP_E_NOT_FOUND) || strstr(err.text, sentence) == NULL ||
        strstr(err.text, path) == NULL) {
        fail_msg("%s, %s%s: expected '%s', got %s: %s", what, reader ? "reader" : "writer",
                 accept ? ", accepted" : "", sentence, qp_code_word(rc), err.text);
    }
    if (reader) {
        files_untouched(&before, what, may_come);
    }
}

static void begin(void)
{
    files_temporary(dir, sizeof dir, "whole");
    (void)snprintf(path, sizeof path, "%s/store.db", dir); /* fits */
}

static void test_after_a_crash(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = cases[i].name;
        const char *of_reader =
            cases[i].reader_refusal != NULL ? cases[i].reader_refusal : cases[i].refusal;
        begin();
        crash();
        cases[i].happens();
        if (cases[i].refusal == NULL) {
            expect_rows(name, true, false, cases[i].rows);
            expect_rows(name, false, false, cases[i].rows);
        } else {
            expect_refusal(name, true, false, of_reader);
            expect_refusal(name, false, false, cases[i].refusal);
            expect_refusal(name, false, false, cases[i].refusal); /* it stays so */
        }
        if (cases[i].refusal != NULL && cases[i].rows >= 0) {
            if (cases[i].reader_refusal == NULL) { /* a reader may look, and changes nothing */
                expect_rows(name, true, true, cases[i].rows);
                expect_refusal(name, false, false, cases[i].refusal);
            }
            expect_rows(name, false, true, cases[i].rows);
            expect_rows(name, false, false, cases[i].rows); /* once is enough */
            expect_rows(name, true, false, cases[i].rows);
        } else if (cases[i].refusal != NULL && cases[i].happens != log_cut) {
            expect_refusal(name, false, true, cases[i].refusal); /* this is no loss to accept */
        }
        files_remove(dir);
    }
}

/* --------------------------------------------------------------------------------- the page of the locks */

#define PAGE_SIZE 4096
#define LOCK_PAGE                                                                                  \
    (0x40000000 / PAGE_SIZE + 1) /* SQLite's locks are in it, and it is never written */
#define COUNT_AT 28              /* of the file: how many pages it has */

/* A store whose file has this many pages, most of them a hole that nothing refers to. */
static void make_large(uint32_t pages)
{
    unsigned char count[4] = {(unsigned char)(pages >> 24), (unsigned char)(pages >> 16),
                              (unsigned char)(pages >> 8), (unsigned char)pages};
    int fd;
    expect_rows("new", false, false, 0);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, count, sizeof count, COUNT_AT), (ssize_t)sizeof count);
    assert_int_equal(ftruncate(fd, (off_t)pages * PAGE_SIZE), 0);
    assert_int_equal(close(fd), 0);
}

/* In a process that does not close it: all that is new is in the log. */
static void grow_and_die(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        struct store *s = NULL;
        struct qp_err err = {0};
        int rc = open_as(false, false, &s, &err);
        for (int i = 0; rc == QP_OK && i < ROWS; i++) {
            rc = put_row(s, &err);
        }
        _exit(rc == QP_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static off_t pages_of_file(void)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_blocks * 512 < 64 * 1024 * 1024); /* it is a hole */
    return st.st_size / PAGE_SIZE;
}

/* A file of 1 GiB that ends at the page of SQLite's locks, or shortly before or behind it, is whole after a kill: that page
 * is counted, and neither the file nor the log has it. A file that lacks another one is still refused. */
static void test_page_of_the_locks(void **state)
{
    (void)state;
    for (uint32_t pages = LOCK_PAGE - 3; pages <= LOCK_PAGE + 1; pages++) {
        struct store *s = NULL;
        struct qp_err err = {0};
        if (pages == LOCK_PAGE) {
            continue; /* SQLite does not end a file with it */
        }
        for (int cut = 0; cut <= 1; cut++) {
            begin();
            make_large(pages);
            grow_and_die();
            assert_int_equal(pages_of_file(), pages);
            if (cut == 0) {
                expect_rows("of 1 GiB", true, false, ROWS);
                expect_rows("of 1 GiB", false, false, ROWS);
                assert_true(pages_of_file() > LOCK_PAGE);
                expect_rows("of 1 GiB, closed", false, false, ROWS);
            } else {
                assert_int_equal(truncate(path, (off_t)(pages - 1) * PAGE_SIZE), 0);
                assert_int_equal(open_as(false, false, &s, &err), QP_E_CORRUPT);
                assert_non_null(strstr(err.text, "is truncated"));
            }
            files_remove(dir);
        }
    }
}

/* Every commit moves the position, by which the next open knows; without a sync it does not. */
static void test_position_moves_with_commits(void **state)
{
    struct store_options relaxed = {.path = path, .durability = DURABILITY_RELAXED};
    struct store *s = NULL;
    struct qp_err err = {0};
    char last[112] = "";
    (void)state;
    begin();
    assert_int_equal(open_as(false, false, &s, &err), QP_OK);
    for (int i = 0; i < ROWS; i++) {
        size_t size = 0;
        unsigned char *bytes;
        assert_int_equal(put_row(s, &err), QP_OK);
        bytes = files_get(name_of("-qplock"), &size);
        assert_int_equal(size, 111);
        assert_true(memcmp(bytes, last, 111) >
                    0); /* the process is the same: the position is not */
        memcpy(last, bytes, 111);
        free(bytes);
    }
    assert_int_equal(store_close(s, &err), QP_OK);
    assert_int_equal(store_open(&t.env, &relaxed, &s, &err), QP_OK);
    for (int i = 0; i < 2; i++) {
        size_t size = 0;
        unsigned char *bytes;
        assert_int_equal(put_row(s, &err), QP_OK);
        bytes = files_get(name_of("-qplock"), &size);
        assert_true(i == 0 || memcmp(bytes, last, 111) == 0);
        memcpy(last, bytes, 111);
        free(bytes);
    }
    assert_int_equal(store_close(s, &err), QP_OK);
    files_remove(dir);
}

/* ------------------------------------------------------------------------------------ while it is open */

/* The name leads to nothing, or to something else. */
static void displace(const char *suffix, bool replace)
{
    if (replace) {
        copy_file(name_of(suffix), name_of(".copy"));
        assert_int_equal(rename(name_of(".copy"), name_of(suffix)), 0);
    } else {
        assert_int_equal(unlink(name_of(suffix)), 0);
    }
}

static void test_taken_away(void **state)
{
    static const char *const suffixes[] = {"", "-wal", "-qplock"};
    (void)state;
    for (size_t i = 0; i < 12; i++) {
        const char *suffix = suffixes[i % 3];
        bool by_commit = i >= 6;
        struct store *s = NULL;
        struct qp_err err = {0};
        begin();
        assert_int_equal(open_as(false, false, &s, &err), QP_OK);
        assert_int_equal(put_row(s, &err), QP_OK);
        assert_true(store_in_place(s));
        assert_int_equal(store_idle(s, &err), QP_OK);
        displace(suffix, i % 6 >= 3);
        assert_false(store_in_place(s));
        testenv_advance_ms(&t, LIMIT_STORE_LOOK_MS);
        assert_int_equal(by_commit ? put_row(s, &err) : store_idle(s, &err), QP_E_CORRUPT);
        assert_non_null(strstr(err.text, "was removed or replaced while the store was in use"));
        assert_int_equal(put_row(s, &err), QP_E_CORRUPT); /* for good */
        assert_int_equal(store_close(s, &err), QP_E_CORRUPT);
        files_remove(dir);
    }
}

/* What was committed is in the file when it is closed, also when a reader is still there. */
static void test_close_leaves_all_in_the_file(void **state)
{
    (void)state;
    for (int with_reader = 0; with_reader <= 1; with_reader++) {
        struct store *s = NULL;
        struct store *reader = NULL;
        struct qp_err err = {0};
        begin();
        assert_int_equal(open_as(false, false, &s, &err), QP_OK);
        for (int i = 0; i < ROWS; i++) {
            assert_int_equal(put_row(s, &err), QP_OK);
        }
        if (with_reader != 0) {
            assert_int_equal(open_as(true, false, &reader, &err), QP_OK);
            assert_int_equal(rows_of(reader), ROWS);
        }
        assert_int_equal(store_close(s, &err), QP_OK);
        assert_true(with_reader != 0 || !is_there(name_of("-wal")));
        copy_file(path, name_of(".alone"));
        (void)snprintf(path, sizeof path, "%s/store.db.alone", dir); /* fits */
        expect_rows("the file alone", true, false, ROWS);
        assert_int_equal(store_close(reader, &err), QP_OK);
        files_remove(dir);
    }
}

/* What SQLite calls a store in memory is neither that nor a file here. */
static void test_memory_is_no_file(void **state)
{
    struct store_options options = {.path = ":memory:"};
    struct store *s = NULL;
    struct qp_err err = {0};
    (void)state;
    assert_int_equal(store_open(&t.env, &options, &s, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "--store memory"));
    options.read_only = true;
    assert_int_equal(store_open(&t.env, &options, &s, &err), QP_E_INVALID);
    assert_false(is_there(":memory:"));
}

static int setup(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    testenv_done(&t);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_after_a_crash),
        cmocka_unit_test(test_page_of_the_locks),
        cmocka_unit_test(test_position_moves_with_commits),
        cmocka_unit_test(test_taken_away),
        cmocka_unit_test(test_close_leaves_all_in_the_file),
        cmocka_unit_test(test_memory_is_no_file),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

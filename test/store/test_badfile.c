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
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/store.h"
#include "support/files.h"
#include "support/opworld.h"

#define PAGE 4096

static struct testenv t;
static bool torture;
static char root[200]; /* of all cases */
static char dir[220];  /* of this case */
static char path[6000];
static unsigned char *good; /* a valid file with rows in every table */
static size_t good_size;
static struct opworld world;

/* ---------------------------------------------------------------------------------------- files */

static void beside(const char *suffix, char out[6100])
{
    (void)snprintf(out, 6100, "%s%s", path, suffix); /* fits */
}

static void put_good(void)
{
    files_put(path, good, good_size);
}

static void put_part(size_t size)
{
    assert_true(size <= good_size);
    files_put(path, good, size);
}

/* The good file with some bytes replaced. */
static void put_patched(size_t at, const void *bytes, size_t size)
{
    unsigned char *copy = malloc(good_size);
    assert_non_null(copy);
    memcpy(copy, good, good_size);
    memcpy(copy + at, bytes, size);
    files_put(path, copy, good_size);
    free(copy);
}

/* Runs SQL on a file as another program would. */
static void run_sql(const char *name, const char *sql)
{
    sqlite3 *db;
    char *text = NULL;
    assert_int_equal(sqlite3_open(name, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &text) != SQLITE_OK) {
        fail_msg("%s: %s", sql, text);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void put_changed(const char *sql)
{
    put_good();
    run_sql(path, sql);
}

/* ------------------------------------------------------------------------------------ the cases */

static void make_nothing(void) {}
static void make_missing_directory(void)
{
    (void)snprintf(path, sizeof path, "%s/none/store.db", dir);
}
static void make_directory(void)
{
    assert_int_equal(mkdir(path, 0700), 0);
}
static void make_fifo(void)
{
    assert_int_equal(mkfifo(path, 0600), 0);
}
static void make_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char here[4096];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(dir), 0); /* addresses are short */
    memcpy(address.sun_path, "store.db", 9);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(chdir(here), 0);
    (void)close(fd); /* the name stays */
}
static void make_device(void)
{
    (void)snprintf(path, sizeof path, "/dev/null");
}
static void make_dangling_link(void)
{
    assert_int_equal(symlink("nowhere", path), 0);
}
static void make_link_loop(void)
{
    assert_int_equal(symlink("store.db", path), 0);
}
static void make_link(void)
{
    char name[300];
    (void)snprintf(name, sizeof name, "%s/real.db", dir);
    files_put(name, good, good_size);
    assert_int_equal(symlink("real.db", path), 0);
}
static void make_hard_link(void)
{
    char name[300];
    (void)snprintf(name, sizeof name, "%s/second.db", dir);
    put_good();
    assert_int_equal(link(path, name), 0);
}
static void make_path_through_file(void)
{
    put_good();
    (void)snprintf(path, sizeof path, "%s/store.db/store.db", dir);
}
static void make_long_name(void)
{
    int n = snprintf(path, sizeof path, "%s/", dir);
    memset(path + n, 'x', 300);
    path[n + 300] = '\0';
}
static void make_long_path(void)
{
    int n = snprintf(path, sizeof path, "%s/", dir);
    memset(path + n, '/', 4000);
    path[n + 4000] = '\0';
}
static void make_empty_path(void)
{
    path[0] = '\0';
}
static void make_empty(void)
{
    put_part(0);
}
static void make_one_byte(void)
{
    put_part(1);
}
static void make_text(void)
{
    char text[4 * PAGE];
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = "It was a dark and stormy night.\n"[i % 32];
    }
    files_put(path, text, sizeof text);
}
static void make_random(void)
{
    unsigned char bytes[8 * PAGE];
    uint64_t random = 7;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)testenv_random(&random);
    }
    files_put(path, bytes, sizeof bytes);
}
static void make_zeros(void)
{
    unsigned char *bytes = calloc(1, good_size);
    files_put(path, bytes, good_size);
    free(bytes);
}
static void make_cut_511(void)
{
    put_part(511);
}
static void make_cut_512(void)
{
    put_part(512);
}
static void make_cut_1000(void)
{
    put_part(1000);
}
static void make_cut_page(void)
{
    put_part(PAGE);
}
static void make_cut_two_pages(void)
{
    put_part((size_t)2 * PAGE);
}
static void make_cut_half(void)
{
    put_part(good_size / 2 / PAGE * PAGE);
}
static void make_cut_in_page(void)
{
    put_part(good_size / 2 / PAGE * PAGE + 777);
}
static void make_cut_last_page(void)
{
    put_part(good_size - PAGE);
}
static void make_wrong_magic(void)
{
    put_patched(0, "SQLite format 4", 16);
}
static void make_page_size(void)
{
    put_patched(16, "\x12\x34", 2);
}
static void make_read_version(void)
{
    put_patched(19, "\x07", 1);
}
static void make_write_version(void)
{
    put_patched(18, "\x07", 1);
}
static void make_zero_page(void)
{
    unsigned char zeros[PAGE] = {0};
    put_patched(good_size / PAGE / 2 * PAGE, zeros, PAGE);
}
static void make_freelist_count(void)
{
    put_patched(36, "\x00\x00\x00\x09", 4);
}
static void make_garbage_tail(void)
{
    unsigned char *longer = malloc(good_size + 5000);
    assert_non_null(longer);
    memcpy(longer, good, good_size);
    memset(longer + good_size, 0xA7, 5000);
    files_put(path, longer, good_size + 5000);
    free(longer);
}
static void make_other_program(void)
{
    run_sql(path, "CREATE TABLE notes(text); INSERT INTO notes VALUES('mine');");
}
static void make_other_id(void)
{
    run_sql(path, "PRAGMA application_id=252006673; CREATE TABLE notes(text);");
}

/* Copies what a program has on disk at this moment, as if it were killed now. */
static void take_copy(const char *from, const char *suffix)
{
    char name[400];
    char to[6100];
    unsigned char *bytes;
    size_t size;
    (void)snprintf(name, sizeof name, "%s%s", from, suffix);
    bytes = files_get(name, &size);
    assert_true(size > 0);
    beside(suffix, to);
    files_put(to, bytes, size);
    free(bytes);
}

/* A file of another program that was killed in the middle; `suffix` is the log that it left. */
static void leave_log(const char *before, const char *during, const char *suffix)
{
    char name[300];
    sqlite3 *db;
    (void)snprintf(name, sizeof name, "%s/../killed.db", dir);
    assert_int_equal(sqlite3_open(name, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, before, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, during, NULL, NULL, NULL), SQLITE_OK);
    take_copy(name, "");
    take_copy(name, suffix);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(unlink(name), 0);
}
static void make_other_with_wal(void)
{
    leave_log("PRAGMA journal_mode=WAL; CREATE TABLE notes(text);",
              "PRAGMA wal_checkpoint; INSERT INTO notes VALUES('mine');", "-wal");
}
static void make_other_with_journal(void)
{
    leave_log("PRAGMA cache_size=2; CREATE TABLE notes(text); "
              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<500) "
              "INSERT INTO notes SELECT printf('%0100d',i) FROM n;",
              "BEGIN; UPDATE notes SET text=text||'more';", "-journal");
}
static void make_text_with_journal(void)
{
    make_other_with_journal();
    make_text();
}
static void make_utf16(void)
{
    run_sql(path, "PRAGMA encoding='UTF-16le'; PRAGMA application_id=1364543824; "
                  "CREATE TABLE qp_head(ns); PRAGMA user_version=1;");
}
static void make_newer(void)
{
    put_changed("PRAGMA user_version=99");
}
static void make_version_zero(void)
{
    put_changed("PRAGMA user_version=0");
}
static void make_version_negative(void)
{
    put_changed("PRAGMA user_version=-5");
}
static void make_no_table(void)
{
    put_changed("DROP TABLE qp_audit");
}
static void make_no_table_no_wal(void)
{
    put_changed("PRAGMA journal_mode=DELETE; DROP TABLE qp_audit");
}
static void make_no_index(void)
{
    put_changed("DROP INDEX qp_msg_ready");
}
static void make_no_column(void)
{
    put_changed("ALTER TABLE qp_audit DROP COLUMN detail");
}
static void make_view(void)
{
    put_changed("ALTER TABLE qp_lane RENAME TO lanes; CREATE VIEW qp_lane AS SELECT * FROM lanes");
}
static void make_no_head(void)
{
    put_changed("DELETE FROM qp_head");
}
static void make_no_head_no_wal(void)
{
    put_changed("PRAGMA journal_mode=DELETE; DELETE FROM qp_head");
}
static void make_bad_schema(void)
{
    put_changed("PRAGMA writable_schema=ON; "
                "UPDATE sqlite_schema SET sql='CREATE TABLE qp_audit(' WHERE name='qp_audit'");
}
static void make_bad_root(void)
{
    put_changed("PRAGMA writable_schema=ON; "
                "UPDATE sqlite_schema SET rootpage=99999 WHERE name='qp_audit'");
}
static void make_wrong_root(void)
{
    put_changed("PRAGMA writable_schema=ON; UPDATE sqlite_schema SET rootpage="
                "(SELECT rootpage FROM sqlite_schema WHERE name='qp_job') WHERE name='qp_audit'");
}
static void make_lonely_wal(void)
{
    char name[6100];
    beside("-wal", name);
    files_put(name, good, 1000);
}
static void make_lonely_journal(void)
{
    char name[6100];
    beside("-journal", name);
    files_put(name, good, 1000);
}
static void make_garbage_wal(void)
{
    char name[6100];
    put_good();
    beside("-wal", name);
    files_put(name, good + PAGE, (size_t)3 * PAGE);
}

/* The log of another quipu file, of the same age and size: SQLite takes it for this file's. */
static void make_other_wal(void)
{
    char name[300];
    sqlite3 *db;
    (void)snprintf(name, sizeof name, "%s/../other.db", dir);
    files_put(name, good, good_size);
    assert_int_equal(sqlite3_open(name, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db,
                     "PRAGMA wal_autocheckpoint=0; DROP TABLE qp_job; DROP TABLE qp_act; "
                     "CREATE TABLE x(y); INSERT INTO x VALUES(zeroblob(50000)); "
                     "PRAGMA wal_checkpoint; "
                     "DELETE FROM x; INSERT INTO x VALUES(zeroblob(20000));",
                     NULL, NULL, NULL),
        SQLITE_OK);
    put_good();
    take_copy(name, "-wal");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(unlink(name), 0);
}
static void make_wal_directory(void)
{
    char name[6100];
    put_good();
    beside("-wal", name);
    assert_int_equal(mkdir(name, 0700), 0);
}
static void make_lock_directory(void)
{
    char name[6100];
    put_good();
    beside(".lock", name);
    assert_int_equal(mkdir(name, 0700), 0);
}
static void make_lock_link(void)
{
    char name[6100];
    put_good();
    beside(".lock", name);
    assert_int_equal(symlink("elsewhere", name), 0);
}
static void make_bad_text(void)
{
    put_changed("INSERT INTO qp_job_name VALUES(1, CAST(x'FF00FE' AS TEXT), 1001, 1)");
}
static void make_host_tables(void)
{
    put_changed("CREATE TABLE orders(id INTEGER PRIMARY KEY, note TEXT); "
                "CREATE INDEX orders_note ON orders(note); INSERT INTO orders VALUES(1,'mine');");
}
static void make_leftover(void)
{
    char name[6100];
    beside(".new", name);
    files_put(name, good, 2000);
    beside(".new-journal", name);
    files_put(name, good, 700);
}
static void make_readable(void)
{
    put_good();
    assert_int_equal(chmod(path, 0644), 0);
}
static void make_rollback_mode(void)
{
    put_changed("PRAGMA journal_mode=DELETE");
}
static void make_other_page_size(void)
{
    put_changed("PRAGMA journal_mode=DELETE; PRAGMA page_size=8192; VACUUM");
}
static void make_odd_name(void)
{
    (void)snprintf(path, sizeof path, "%s/a?b#c%%41 d&mode=memory.db", dir);
    put_good();
}

#define SHORT_TEXT "too short to be a quipu file"
#define NOT_SQLITE_TEXT "is not a SQLite file"
#define OTHER_TEXT "of another program"
#define DAMAGED_TEXT "malformed"

/* `code` and a part of the sentence for a writer; for a reader the same, unless reader_text is
 * given. */
struct bad {
    const char *name;
    void (*make)(void);
    int code;
    const char *text;
    int reader_code;
    const char *reader_text;
    bool full_check;
};

/* The ways in which a case can go, for a writer and a reader. CHECKED: every page is looked at when
 * opening. */
#define REFUSED(what, how, why, part)                                                              \
    {                                                                                              \
        .name = what, .make = make_##how, .code = QP_E_##why, .text = part                         \
    }
#define DAMAGED(what, how, part)                                                                   \
    {                                                                                              \
        .name = what, .make = make_##how, .code = QP_E_CORRUPT, .text = part, .full_check = true   \
    }
#define NOT_WRITTEN(what, how, why, part)                                                          \
    {                                                                                              \
        .name = what, .make = make_##how, .code = why, .text = part, .reader_text = ""             \
    }
#define LONELY(what, how)                                                                          \
    {                                                                                              \
        .name = what, .make = make_##how, .code = QP_E_CORRUPT, .text = "but its log",             \
        .reader_code = QP_E_NOT_FOUND, .reader_text = "is not there"                               \
    }
#define MADE_ANEW(what, how)                                                                       \
    {                                                                                              \
        .name = what, .make = make_##how, .reader_code = QP_E_NOT_FOUND,                           \
        .reader_text = "is not there"                                                              \
    }
#define WORKS(what, how)                                                                           \
    {                                                                                              \
        .name = what, .make = make_##how                                                           \
    }
#define WORKS_CHECKED(what, how)                                                                   \
    {                                                                                              \
        .name = what, .make = make_##how, .full_check = true                                       \
    }

static const struct bad cases[] = {
    /* paths */
    REFUSED("missing directory", missing_directory, NOT_FOUND, "its directory"),
    REFUSED("directory", directory, FOREIGN, "is a directory"),
    REFUSED("FIFO", fifo, FOREIGN, "not a regular file"),
    REFUSED("socket", socket, FOREIGN, "not a regular file"),
    REFUSED("device", device, FOREIGN, "not a regular file"),
    REFUSED("dangling link", dangling_link, NOT_FOUND,
            "a symbolic link to a file that is not there"),
    REFUSED("link to itself", link_loop, IO, "symbolic links"),
    WORKS("link", link),
    REFUSED("hard link", hard_link, FOREIGN, "hard link"),
    REFUSED("path through a file", path_through_file, IO, "Not a directory"),
    REFUSED("long name", long_name, IO, "too long"),
    REFUSED("long path", long_path, INVALID, "too long"),
    REFUSED("empty path", empty_path, INVALID, "is empty"),
    WORKS("name that looks like a URI", odd_name),
    NOT_WRITTEN("lock is a directory", lock_directory, QP_E_IO, "its lock file"),
    NOT_WRITTEN("lock is a link", lock_link, QP_E_IO, "its lock file"),
    /* not SQLite */
    REFUSED("empty", empty, FOREIGN, "is empty"),
    REFUSED("one byte", one_byte, FOREIGN, SHORT_TEXT),
    REFUSED("text", text, FOREIGN, NOT_SQLITE_TEXT),
    REFUSED("random bytes", random, FOREIGN, NOT_SQLITE_TEXT),
    REFUSED("zeros", zeros, FOREIGN, NOT_SQLITE_TEXT),
    REFUSED("wrong magic", wrong_magic, FOREIGN, NOT_SQLITE_TEXT),
    REFUSED("wrong page size", page_size, FOREIGN, NOT_SQLITE_TEXT),
    REFUSED("unknown read version", read_version, FOREIGN, NOT_SQLITE_TEXT),
    NOT_WRITTEN("unknown write version", write_version, QP_E_READONLY, "readonly"),
    /* not ours */
    REFUSED("other program", other_program, FOREIGN, OTHER_TEXT),
    REFUSED("other program with an id", other_id, FOREIGN, "0x0f055111"),
    REFUSED("other program with a log", other_with_wal, FOREIGN, OTHER_TEXT),
    REFUSED("other program with a hot journal", other_with_journal, FOREIGN, OTHER_TEXT),
    REFUSED("text with a hot journal", text_with_journal, FOREIGN, ""),
    REFUSED("UTF-16", utf16, CORRUPT, "not UTF-8"),
    REFUSED("newer schema", newer, NEWER, "made by a newer quipu (schema 99"),
    REFUSED("schema version 0", version_zero, CORRUPT, "schema version is 0"),
    REFUSED("schema version -5", version_negative, CORRUPT, "schema version is -5"),
    /* cut off */
    REFUSED("cut at 511", cut_511, FOREIGN, SHORT_TEXT),
    REFUSED("cut at 512", cut_512, CORRUPT, DAMAGED_TEXT),
    REFUSED("cut at 1000", cut_1000, CORRUPT, DAMAGED_TEXT),
    REFUSED("cut after page 1", cut_page, CORRUPT, DAMAGED_TEXT),
    REFUSED("cut after page 2", cut_two_pages, CORRUPT, DAMAGED_TEXT),
    REFUSED("cut in half", cut_half, CORRUPT, DAMAGED_TEXT),
    REFUSED("cut within a page", cut_in_page, CORRUPT, DAMAGED_TEXT),
    REFUSED("cut before the last page", cut_last_page, CORRUPT, DAMAGED_TEXT),
    /* damaged */
    REFUSED("missing table", no_table, CORRUPT, "no such table: qp_audit"),
    REFUSED("missing table, no log", no_table_no_wal, CORRUPT, "no such table: qp_audit"),
    REFUSED("missing index", no_index, CORRUPT, "no such index: qp_msg_ready"),
    REFUSED("missing column", no_column, CORRUPT, "no such column: detail"),
    REFUSED("view in place of a table", view, CORRUPT, "the schema is damaged"),
    REFUSED("missing head row", no_head, CORRUPT, "head row is missing"),
    REFUSED("missing head row, no log", no_head_no_wal, CORRUPT, "head row is missing"),
    REFUSED("schema that cannot be read", bad_schema, CORRUPT, "malformed database schema"),
    DAMAGED("root page out of the file", bad_root, ""),
    DAMAGED("root page of another table", wrong_root, ""),
    DAMAGED("zeroed page", zero_page, ""),
    DAMAGED("wrong count of free pages", freelist_count, "is damaged"),
    /* logs */
    LONELY("log without a file", lonely_wal),
    LONELY("journal without a file", lonely_journal),
    DAMAGED("log of another file", other_wal, ""),
    REFUSED("log is a directory", wal_directory, IO, "unable to open"),
    WORKS("rubbish for a log", garbage_wal),
    /* odd, but whole */
    MADE_ANEW("nothing", nothing),
    MADE_ANEW("left over from a creation", leftover),
    WORKS_CHECKED("rubbish behind the end", garbage_tail),
    WORKS_CHECKED("text that is not UTF-8", bad_text),
    WORKS_CHECKED("tables of the host", host_tables),
    WORKS("readable by others", readable),
    WORKS("no log mode", rollback_mode),
    WORKS_CHECKED("another page size", other_page_size),
};

/* -------------------------------------------------------------------------------------- opening */

/* What a refusal may leave: the lock file; a reader, SQLite's own empty log. */
static bool writer_may_leave(const struct files_entry *e)
{
    return files_ends_with(e->name, ".lock");
}

static bool reader_may_leave(const struct files_entry *e)
{
    return files_ends_with(e->name, "-wal") && e->size == 0;
}

static void enter_directory(size_t number)
{
    (void)snprintf(dir, sizeof dir, "%s/%03zu", root, number);
    assert_int_equal(mkdir(dir, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/store.db", dir);
}

static void leave_directory(void)
{
    files_remove(dir);
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
    struct store_options options = {.path = path, .read_only = reader, .full_check = c->full_check};
    struct store *s = NULL;
    struct files_snapshot before;
    struct qp_err err = {0};
    int rc;
    files_snapshot(&before, dir);
    rc = store_open(&t.env, &options, &s, &err);
    if (rc != code || (rc != QP_OK && strstr(err.text, text) == NULL)) {
        fail_msg("%s: expected %s '%s', got %s: %s", c->name, qp_code_word(code), text,
                 qp_code_word(rc), err.text);
    }
    if (rc == QP_OK) {
        check_works(c->name, s, reader);
    } else if (code != QP_E_INVALID && strstr(path, dir) == path && strstr(err.text, dir) == NULL) {
        fail_msg("%s: the sentence does not name the file: %s", c->name, err.text);
    }
    if (rc != QP_OK || reader) {
        files_untouched(&before, c->name, reader ? reader_may_leave : writer_may_leave);
    }
}

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        for (int reader = 0; reader <= 1; reader++) {
            enter_directory(i);
            cases[i].make();
            check_open(&cases[i], reader != 0);
            leave_directory();
        }
    }
    printf("%zu cases, each for a writer and a reader\n", ARRAY_COUNT(cases));
    assert_true(ARRAY_COUNT(cases) >= 40);
}

/* ----------------------------------------------------------------- what needs more than a table */

static int open_writer(struct store **out, struct qp_err *err)
{
    struct store_options options = {.path = path};
    return store_open(&t.env, &options, out, err);
}

static int open_reader(struct store **out, struct qp_err *err)
{
    struct store_options options = {.path = path, .read_only = true};
    return store_open(&t.env, &options, out, err);
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
    make_link();
    assert_int_equal(open_writer(&s, &err), QP_OK);
    (void)snprintf(name, sizeof name, "%s/real.db.lock", dir);
    assert_int_equal(access(name, F_OK), 0);
    (void)snprintf(name, sizeof name, "%s/store.db.lock", dir);
    assert_int_not_equal(access(name, F_OK), 0);
    (void)snprintf(path, sizeof path, "%s/real.db", dir);
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
    put_good();
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
    put_good();
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
    put_good();
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
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    beside("-wal", name);
    assert_int_equal(stat(name, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(store_close(s, &err), QP_OK);
    testenv_log_reset(&t);
    assert_int_equal(chmod(path, 0644), 0);
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
        mount("tmpfs", dir, "tmpfs", 0, "size=8m") != 0) {
        printf("not permitted to mount (%s): a read-only file system is not tested\n",
               strerror(errno));
        leave_directory();
        skip();
    }
    put_good();
    assert_int_equal(mount("tmpfs", dir, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_int_equal(open_writer(&s, &err), QP_E_READONLY);
    assert_non_null(strstr(err.text, "Read-only file system"));
    rc = open_reader(&s, &err); /* SQLite needs to write beside a file that may have a log */
    assert_int_equal(rc, QP_E_IO);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(umount(dir), 0);
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
    good = files_get(path, &good_size);
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
    free(good);
    testenv_done(&t);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
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

/* badcases.c - broken, foreign and odd files, and what opening each of them must say (see badcases.h) */
#include "store/badcases.h"

#include <fcntl.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/sqlite/sqlite_internal.h"
#include "support/files.h"
#include "support/testenv.h"

#define PAGE 4096

struct bad_place bad;

/* ---------------------------------------------------------------------------------------- files */

void bad_beside(const char *suffix, char out[6100])
{
    (void)snprintf(out, 6100, "%s%s", bad.path, suffix); /* fits */
}

void bad_put_good(void)
{
    files_put(bad.path, bad.good, bad.good_size);
}

static void put_part(size_t size)
{
    assert_true(size <= bad.good_size);
    files_put(bad.path, bad.good, size);
}

/* The good file with some bytes replaced. */
static void put_patched(size_t at, const void *bytes, size_t size)
{
    unsigned char *copy = malloc(bad.good_size);
    assert_non_null(copy);
    memcpy(copy, bad.good, bad.good_size);
    memcpy(copy + at, bytes, size);
    files_put(bad.path, copy, bad.good_size);
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
    bad_put_good();
    run_sql(bad.path, sql);
}

/* ------------------------------------------------------------------------------------ the cases */

static void make_nothing(void) {}
static void make_missing_directory(void)
{
    (void)snprintf(bad.path, sizeof bad.path, "%s/none/store.db", bad.dir);
}
static void make_directory(void)
{
    assert_int_equal(mkdir(bad.path, 0700), 0);
}
static void make_fifo(void)
{
    assert_int_equal(mkfifo(bad.path, 0600), 0);
}
static void make_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char here[4096];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(bad.dir), 0); /* addresses are short */
    memcpy(address.sun_path, "store.db", 9);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(chdir(here), 0);
    (void)close(fd); /* the name stays */
}
static void make_device(void)
{
    (void)snprintf(bad.path, sizeof bad.path, "/dev/null");
}
static void make_dangling_link(void)
{
    assert_int_equal(symlink("nowhere", bad.path), 0);
}
static void make_link_loop(void)
{
    assert_int_equal(symlink("store.db", bad.path), 0);
}
void bad_make_link(void)
{
    char name[300];
    (void)snprintf(name, sizeof name, "%s/real.db", bad.dir);
    files_put(name, bad.good, bad.good_size);
    assert_int_equal(symlink("real.db", bad.path), 0);
}
static void make_hard_link(void)
{
    char name[300];
    (void)snprintf(name, sizeof name, "%s/second.db", bad.dir);
    bad_put_good();
    assert_int_equal(link(bad.path, name), 0);
}
static void make_path_through_file(void)
{
    bad_put_good();
    (void)snprintf(bad.path, sizeof bad.path, "%s/store.db/store.db", bad.dir);
}
static void make_long_name(void)
{
    int n = snprintf(bad.path, sizeof bad.path, "%s/", bad.dir);
    memset(bad.path + n, 'x', 300);
    bad.path[n + 300] = '\0';
}
static void make_long_path(void)
{
    int n = snprintf(bad.path, sizeof bad.path, "%s/", bad.dir);
    memset(bad.path + n, '/', 4000);
    bad.path[n + 4000] = '\0';
}
static void make_empty_path(void)
{
    bad.path[0] = '\0';
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
    files_put(bad.path, text, sizeof text);
}
static void make_random(void)
{
    unsigned char bytes[8 * PAGE];
    uint64_t random = 7;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)testenv_random(&random);
    }
    files_put(bad.path, bytes, sizeof bytes);
}
static void make_zeros(void)
{
    unsigned char *bytes = calloc(1, bad.good_size);
    files_put(bad.path, bytes, bad.good_size);
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
    put_part(bad.good_size / 2 / PAGE * PAGE);
}
static void make_cut_in_page(void)
{
    put_part(bad.good_size / 2 / PAGE * PAGE + 777);
}
static void make_cut_last_page(void)
{
    put_part(bad.good_size - PAGE);
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
    put_patched(bad.good_size / PAGE / 2 * PAGE, zeros, PAGE);
}
static void make_freelist_count(void)
{
    put_patched(36, "\x00\x00\x00\x09", 4);
}
static void make_garbage_tail(void)
{
    unsigned char *longer = malloc(bad.good_size + 5000);
    assert_non_null(longer);
    memcpy(longer, bad.good, bad.good_size);
    memset(longer + bad.good_size, 0xA7, 5000);
    files_put(bad.path, longer, bad.good_size + 5000);
    free(longer);
}
static void make_other_program(void)
{
    run_sql(bad.path, "CREATE TABLE notes(text); INSERT INTO notes VALUES('mine');");
}
static void make_other_id(void)
{
    run_sql(bad.path, "PRAGMA application_id=252006673; CREATE TABLE notes(text);");
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
    bad_beside(suffix, to);
    files_put(to, bytes, size);
    free(bytes);
}

/* A file of another program that was killed in the middle; `suffix` is the log that it left. */
static void leave_log(const char *before, const char *during, const char *suffix)
{
    char name[300];
    sqlite3 *db;
    (void)snprintf(name, sizeof name, "%s/../killed.db", bad.dir);
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
    char version[60];
    (void)snprintf(version, sizeof version, "PRAGMA user_version=%lld",
                   (long long)sqlite_schema_version);
    run_sql(bad.path, "PRAGMA encoding='UTF-16le'; PRAGMA application_id=1364543824; "
                      "CREATE TABLE qp_head(ns)");
    run_sql(bad.path, version);
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
    bad_beside("-wal", name);
    files_put(name, bad.good, 1000);
}
static void make_lonely_journal(void)
{
    char name[6100];
    bad_beside("-journal", name);
    files_put(name, bad.good, 1000);
}
static void make_garbage_wal(void)
{
    char name[6100];
    bad_put_good();
    bad_beside("-wal", name);
    files_put(name, bad.good + PAGE, (size_t)3 * PAGE);
}

/* A checkpoint that lost its power for the second time: of the first page its magic is new again, the application id
 * behind it still rubbish, and the log has the whole page. */
static void make_torn_header(void)
{
    static const char rubbish[4] = {0x5a, 0x3c, 0x11, 0x70};
    char name[300];
    sqlite3 *db;
    int fd;
    (void)snprintf(name, sizeof name, "%s/../killed.db", bad.dir);
    files_put(name, bad.good, bad.good_size);
    assert_int_equal(sqlite3_open(name, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "PRAGMA wal_autocheckpoint=0; CREATE TABLE host(x);", NULL, NULL, NULL),
        SQLITE_OK);
    take_copy(name, "");
    take_copy(name, "-wal");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(unlink(name), 0);
    fd = open(bad.path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, rubbish, sizeof rubbish, 68), sizeof rubbish);
    assert_int_equal(close(fd), 0);
}

/* The log of another quipu file, of the same age and size: SQLite takes it for this file's. */
static void make_other_wal(void)
{
    char name[300];
    sqlite3 *db;
    (void)snprintf(name, sizeof name, "%s/../other.db", bad.dir);
    files_put(name, bad.good, bad.good_size);
    assert_int_equal(sqlite3_open(name, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db,
                     "PRAGMA wal_autocheckpoint=0; DROP TABLE qp_job; DROP TABLE qp_act; "
                     "CREATE TABLE x(y); INSERT INTO x VALUES(zeroblob(50000)); "
                     "PRAGMA wal_checkpoint; "
                     "DELETE FROM x; INSERT INTO x VALUES(zeroblob(20000));",
                     NULL, NULL, NULL),
        SQLITE_OK);
    bad_put_good();
    take_copy(name, "-wal");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(unlink(name), 0);
}
static void make_wal_directory(void)
{
    char name[6100];
    bad_put_good();
    bad_beside("-wal", name);
    assert_int_equal(mkdir(name, 0700), 0);
}
static void make_lock_directory(void)
{
    char name[6100];
    bad_put_good();
    bad_beside("-qplock", name);
    assert_int_equal(mkdir(name, 0700), 0);
}
static void make_lock_link(void)
{
    char name[6100];
    bad_put_good();
    bad_beside("-qplock", name);
    assert_int_equal(symlink("elsewhere", name), 0);
}
static void make_foreign_lock(void)
{
    char name[6100];
    bad_put_good();
    bad_beside("-qplock", name);
    files_put(name, "GEM\n  specs:\n", 13);
}
static void make_foreign_journal(void)
{
    make_other_with_journal();
    bad_put_good();
}
static void make_trigger(void)
{
    put_changed("CREATE TRIGGER act_up AFTER INSERT ON qp_msg BEGIN UPDATE qp_job SET sem=7; END");
}
static void make_lost_check(void)
{
    put_changed("PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql="
                "replace(sql,' CHECK(\"count\">=0)','') WHERE name='qp_sem'");
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
    bad_beside(".new", name);
    files_put(name, bad.good, 2000);
    bad_beside(".new-journal", name);
    files_put(name, bad.good, 700);
}
static void make_readable(void)
{
    bad_put_good();
    assert_int_equal(chmod(bad.path, 0644), 0);
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
    (void)snprintf(bad.path, sizeof bad.path, "%s/a?b#c%%41 d&mode=memory.db", bad.dir);
    bad_put_good();
}

#define SHORT_TEXT "too short to be a quipu file"
#define NOT_SQLITE_TEXT "is not a SQLite file"
#define OTHER_TEXT "of another program"
#define DAMAGED_TEXT "malformed"

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

const struct bad bad_cases[] = {
    /* paths */
    REFUSED("missing directory", missing_directory, NOT_FOUND, "its directory"),
    REFUSED("directory", directory, FOREIGN, "is a directory"),
    REFUSED("FIFO", fifo, FOREIGN, "not a regular file"),
    REFUSED("socket", socket, FOREIGN, "not a regular file"),
    REFUSED("device", device, FOREIGN, "not a regular file"),
    REFUSED("dangling link", dangling_link, NOT_FOUND,
            "a symbolic link to a file that is not there"),
    REFUSED("link to itself", link_loop, IO, "symbolic links"),
    {.name = "link", .make = bad_make_link},
    REFUSED("hard link", hard_link, FOREIGN, "hard link"),
    REFUSED("path through a file", path_through_file, IO, "Not a directory"),
    REFUSED("long name", long_name, IO, "too long"),
    REFUSED("long path", long_path, INVALID, "too long"),
    REFUSED("empty path", empty_path, INVALID, "is empty"),
    WORKS("name that looks like a URI", odd_name),
    NOT_WRITTEN("lock is a directory", lock_directory, QP_E_IO, "its lock file"),
    NOT_WRITTEN("lock is a link", lock_link, QP_E_IO, "its lock file"),
    NOT_WRITTEN("lock of another program", foreign_lock, QP_E_FOREIGN, "is not a lock of quipu"),
    REFUSED("journal of another program beside ours", foreign_journal, CORRUPT, "rollback journal"),
    REFUSED("trigger on our table", trigger, CORRUPT, "has triggers"),
    REFUSED("check taken out of the schema", lost_check, CORRUPT, "its schema was changed"),
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
    WORKS("header torn, and whole in the log", torn_header),
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

const size_t bad_case_count = ARRAY_COUNT(bad_cases);

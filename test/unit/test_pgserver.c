/* test_pgserver.c - the private PostgreSQL cluster and the proxy before it do what tests rely on
 *
 * One cluster serves all tests but those that show how a cluster ends.
 */
#include <errno.h>
#include <poll.h>
#include <postgresql/libpq-fe.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/pgproxy.h"
#include "support/pgserver.h"

#define WAIT_LIMIT_MS 20000
#define SILENCE_MS 150

static struct pgserver *server;
static struct pgproxy *proxy;

static int64_t now_ms(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &t), 0);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static PGconn *connect_to(const char *url)
{
    PGconn *c = PQconnectdb(url);
    if (PQstatus(c) != CONNECTION_OK) {
        fail_msg("%s: %s", url, PQerrorMessage(c));
    }
    return c;
}

static void run(PGconn *c, const char *sql)
{
    PGresult *result = PQexec(c, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(c));
    }
    PQclear(result);
}

static bool fails(PGconn *c, const char *sql)
{
    PGresult *result = PQexec(c, sql);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    return status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK;
}

/* The one value that a query gives. It lives until the next call. */
static const char *value(PGconn *c, const char *sql)
{
    static char text[200];
    PGresult *result = PQexec(c, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1) {
        fail_msg("%s: %s", sql, PQerrorMessage(c));
    }
    (void)snprintf(text, sizeof text, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return text;
}

/* How many rows the table t has, as another client sees it. */
static int rows(const char *url)
{
    PGconn *c = connect_to(url);
    int count = (int)strtol(value(c, "SELECT count(*) FROM t"), NULL, 10);
    PQfinish(c);
    return count;
}

/* The database "test" with an empty table t, for each test anew. */
static const char *fresh(void)
{
    const char *url = pgserver_url(server, "test");
    PGconn *c = connect_to(url);
    run(c, "SET client_min_messages = error");
    run(c, "DROP TABLE IF EXISTS t; CREATE TABLE t (n int)");
    PQfinish(c);
    return url;
}

static bool is_gone(pid_t pid)
{
    return kill(pid, 0) != 0 && errno == ESRCH;
}

static int setup(void **state)
{
    (void)state;
    server = pgserver_start();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pgserver_stop(server);
    return 0;
}

static int setup_proxy(void **state)
{
    (void)state;
    proxy = pgproxy_start(pgserver_port(server));
    return 0;
}

static int teardown_proxy(void **state)
{
    (void)state;
    pgproxy_stop(proxy);
    return 0;
}

/* -------------------------------------------------------------------------------------- server */

/* A database is made unless it is there, and is the same one later. What the store requires
 * of a server holds. */
static void test_url(void **state)
{
    static const char *const shows[][2] = {
        {"fsync", "on"},      {"full_page_writes", "on"},        {"server_encoding", "UTF8"},
        {"lc_collate", "C"},  {"max_connections", "100"},        {"shared_buffers", "64MB"},
        {"autovacuum", "on"}, {"listen_addresses", "127.0.0.1"},
    };
    const char *url = fresh();
    PGconn *c = connect_to(url);
    char sql[100];
    (void)state;
    assert_string_equal(pgserver_url(server, "test"), url);
    assert_string_not_equal(pgserver_url(server, "postgres"), url);
    assert_int_equal(rows(url), 0);
    assert_string_equal(value(c, "SELECT current_database()"), "test");
    for (size_t i = 0; i < ARRAY_COUNT(shows); i++) {
        (void)snprintf(sql, sizeof sql, "SHOW %s", shows[i][0]);
        assert_string_equal(value(c, sql), shows[i][1]);
    }
    PQfinish(c);
}

/* Both ways to stop lose the connections and keep what was committed; nobody answers in between. */
static void test_restart(void **state)
{
    static const char *const modes[] = {"immediate", "fast"};
    const char *url = fresh();
    int port = pgserver_port(server);
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(modes); i++) {
        PGconn *c = connect_to(url);
        run(c, "INSERT INTO t VALUES (1)");
        pgserver_halt(server, modes[i]);
        assert_int_equal(PQping(url), PQPING_NO_RESPONSE);
        assert_true(fails(c, "SELECT 1"));
        assert_int_equal(PQstatus(c), CONNECTION_BAD);
        PQfinish(c);
        pgserver_resume(server);
        assert_int_equal(rows(url), i + 1);
    }
    pgserver_restart(server, "immediate");
    assert_int_equal(rows(url), ARRAY_COUNT(modes));
    assert_int_equal(pgserver_port(server), port);
}

/* When the call returns, also the processes that had to notice by themselves are gone. What was not
 * committed is, too. */
static void test_kill(void **state)
{
    const char *url = fresh();
    PGconn *c = connect_to(url);
    pid_t backend = PQbackendPID(c);
    (void)state;
    run(c, "INSERT INTO t VALUES (1)");
    run(c, "BEGIN");
    run(c, "INSERT INTO t VALUES (2)");
    assert_false(is_gone(backend));
    pgserver_kill(server);
    assert_true(is_gone(backend));
    assert_int_equal(PQping(url), PQPING_NO_RESPONSE);
    assert_true(fails(c, "COMMIT"));
    PQfinish(c);
    pgserver_resume(server);
    assert_int_equal(rows(url), 1);
}

/* ------------------------------------------------------------------------------------- its end */

struct child {
    pid_t pid;
    int channel; /* the child lives until this is closed */
    char url[256];
};

/* The child's life: makes a database, writes its URL into out. */
typedef void live_fn(char *out_url, size_t size);

static void live_with_settings(char *out_url, size_t size)
{
    struct pgserver *s = pgserver_start_with((const char *const[]){"work_mem = '5MB'", NULL});
    (void)snprintf(out_url, size, "%s", pgserver_url(s, "mine"));
}

static void live_with_shared(char *out_url, size_t size)
{
    const char *first = pgserver_shared();
    (void)snprintf(out_url, size, "%s", pgserver_shared());
    QP_ASSERT(strcmp(first, out_url) != 0);
}

static _Noreturn void child_main(live_fn *live, int channel)
{
    char url[256] = "";
    live(url, sizeof url);
    QP_ASSERT(write(channel, url, sizeof url) == sizeof url);
    QP_ASSERT(read(channel, url, 1) == 0);
    exit(0);
}

static void give_birth(live_fn *live, struct child *out)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    (void)fflush(NULL);
    out->pid = fork();
    assert_true(out->pid >= 0);
    if (out->pid == 0) {
        (void)close(ends[0]);
        child_main(live, ends[1]);
    }
    (void)close(ends[1]);
    out->channel = ends[0];
}

static void hear_of(struct child *child)
{
    assert_int_equal(recv(child->channel, child->url, sizeof child->url, MSG_WAITALL),
                     sizeof child->url);
}

static void bury(struct child *child, int expected)
{
    int status = 0;
    (void)shutdown(child->channel, SHUT_RDWR); /* a later child has it, too */
    (void)close(child->channel);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    assert_int_equal(status, expected);
}

static void wait_until_missing(const char *name)
{
    int64_t limit_ms = now_ms() + WAIT_LIMIT_MS;
    while (access(name, F_OK) == 0) {
        assert_true(now_ms() < limit_ms);
        (void)poll(NULL, 0, 10);
    }
}

/* A program exits, and the cluster that was made for it is down. Another one is killed and can do
 * nothing about it: its server and its directory go as well. */
static void test_end_of_program(void **state)
{
    struct child exits;
    struct child dies;
    char directory[200];
    pid_t backend;
    PGconn *c;
    (void)state;
    assert_int_equal(unsetenv("QP_TEST_PG"), 0);
    give_birth(live_with_shared, &exits);
    give_birth(live_with_settings, &dies);
    hear_of(&exits);
    hear_of(&dies);
    PQfinish(connect_to(exits.url));
    c = connect_to(dies.url);
    backend = PQbackendPID(c);
    assert_string_equal(value(c, "SHOW work_mem"), "5MB");
    (void)snprintf(directory, sizeof directory, "%s", value(c, "SHOW data_directory"));
    *strrchr(directory, '/') = '\0';
    assert_int_equal(access(directory, F_OK), 0);
    bury(&exits, 0);
    assert_int_equal(PQping(exits.url), PQPING_NO_RESPONSE);
    assert_int_equal(kill(dies.pid, SIGKILL), 0);
    bury(&dies, SIGKILL);
    wait_until_missing(directory);
    assert_true(is_gone(backend));
    assert_int_equal(PQping(dies.url), PQPING_NO_RESPONSE);
    PQfinish(c);
}

/* The shared memory of the cluster, of which every server has a piece as its lock. */
static int memory_id(const struct pgserver *s)
{
    char name[300];
    char line[200] = "";
    char *number;
    FILE *file;
    (void)snprintf(name, sizeof name, "%s/data/postmaster.pid", pgserver_directory(s));
    file = fopen(name, "re");
    assert_non_null(file);
    for (int i = 0; i < 7; i++) {
        assert_non_null(fgets(line, sizeof line, file));
    }
    (void)fclose(file); /* opened for reading */
    assert_int_not_equal(strtoul(line, &number, 10), 0);
    return (int)strtol(number, NULL, 10);
}

/* A server that was killed cannot tidy up. Stopping it leaves nothing all the same: no memory, no
 * directory. */
static void test_stop_after_kill(void **state)
{
    struct shmid_ds memory;
    char directory[200];
    int id = memory_id(server);
    (void)state;
    (void)snprintf(directory, sizeof directory, "%s", pgserver_directory(server));
    pgserver_kill(server);
    assert_int_equal(shmctl(id, IPC_STAT, &memory), 0);
    pgserver_stop(server);
    server = NULL;
    assert_int_equal(shmctl(id, IPC_STAT, &memory), -1);
    assert_int_equal(access(directory, F_OK), -1);
}

/* In a given cluster, the databases go. */
static void test_shared_given(void **state)
{
    struct child child;
    char base[100];
    PGconn *c;
    (void)state;
    (void)snprintf(base, sizeof base, "postgresql://postgres@127.0.0.1:%d", pgserver_port(server));
    assert_int_equal(setenv("QP_TEST_PG", base, 1), 0);
    give_birth(live_with_shared, &child);
    hear_of(&child);
    assert_memory_equal(child.url, base, strlen(base));
    PQfinish(connect_to(child.url));
    bury(&child, 0);
    c = PQconnectdb(child.url);
    assert_int_equal(PQstatus(c), CONNECTION_BAD);
    assert_non_null(strstr(PQerrorMessage(c), "does not exist"));
    PQfinish(c);
}

/* --------------------------------------------------------------------------------------- proxy */

/* Without a fault the proxy is not there, for short and for long messages both ways; it counts what
 * was committed, and not what was asked to be. */
static void test_proxy_passes(void **state)
{
    PGconn *c;
    char *long_value = malloc(1000001);
    const char *const parameters[] = {long_value};
    PGresult *result;
    (void)state;
    assert_non_null(long_value);
    memset(long_value, 'x', 1000000);
    long_value[1000000] = '\0';
    (void)fresh();
    c = connect_to(pgproxy_url(proxy, "test"));
    result = PQexecParams(c, "SELECT $1::text", 1, NULL, parameters, NULL, NULL, 0);
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    assert_string_equal(PQgetvalue(result, 0, 0), long_value);
    PQclear(result);
    free(long_value);
    run(c, "BEGIN; INSERT INTO t VALUES (1); COMMIT");
    run(c, "BEGIN");
    assert_true(fails(c, "SELECT 1 / 0"));
    run(c, "COMMIT"); /* which the server answers with ROLLBACK */
    assert_int_equal(pgproxy_commits(proxy), 1);
    assert_int_equal(pgproxy_hits(proxy), 0);
    PQfinish(c);
}

/* A server that is down looks like one that hangs up; the proxy survives that. */
static void test_proxy_without_server(void **state)
{
    PGconn *c;
    (void)state;
    pgserver_halt(server, "fast");
    c = PQconnectdb(pgproxy_url(proxy, "postgres"));
    assert_int_equal(PQstatus(c), CONNECTION_BAD);
    PQfinish(c);
    pgserver_resume(server);
    PQfinish(connect_to(pgproxy_url(proxy, "postgres")));
}

/* One transaction with one row, and what came of it. */
typedef bool insert_fn(PGconn *c);

static bool insert_simple(PGconn *c)
{
    return !fails(c, "BEGIN") && !fails(c, "INSERT INTO t VALUES (1)") && !fails(c, "COMMIT");
}

/* All in one write; the server's answers come in one piece, too. */
static bool insert_pipelined(PGconn *c)
{
    static const char *const sql[] = {"BEGIN", "INSERT INTO t VALUES (1)", "COMMIT"};
    int good = 0;
    assert_int_equal(PQenterPipelineMode(c), 1);
    for (size_t i = 0; i < ARRAY_COUNT(sql); i++) {
        assert_int_equal(PQsendQueryParams(c, sql[i], 0, NULL, NULL, NULL, NULL, 0), 1);
    }
    assert_int_equal(PQpipelineSync(c), 1);
    for (size_t i = 0; i < ARRAY_COUNT(sql); i++) {
        PGresult *result = PQgetResult(c);
        good += PQresultStatus(result) == PGRES_COMMAND_OK;
        PQclear(result);
        assert_null(PQgetResult(c));
    }
    PQclear(PQgetResult(c)); /* of the sync */
    return PQexitPipelineMode(c) == 1 && good == ARRAY_COUNT(sql);
}

/* The reply to the second COMMIT is lost: its row is there, but the client sees a lost connection.
 * The third one goes well again. */
static void test_proxy_drops_commit(void **state)
{
    static insert_fn *const inserts[] = {insert_simple, insert_pipelined};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(inserts); i++) {
        const char *url = fresh();
        int64_t before = pgproxy_commits(proxy);
        PGconn *c = connect_to(pgproxy_url(proxy, "test"));
        pgproxy_arm(proxy,
                    &(struct pgproxy_fault){.kind = PGPROXY_DROP_COMMIT, .after_commits = 1});
        assert_true(inserts[i](c));
        assert_int_equal(pgproxy_hits(proxy), 0);
        assert_false(inserts[i](c));
        assert_int_equal(PQstatus(c), CONNECTION_BAD);
        assert_int_equal(rows(url), 2);
        assert_int_equal(pgproxy_hits(proxy), 1);
        PQreset(c);
        assert_true(inserts[i](c));
        assert_int_equal(rows(url), 3);
        assert_int_equal(pgproxy_commits(proxy) - before, 3);
        assert_int_equal(pgproxy_hits(proxy), 1);
        PQfinish(c);
    }
}

/* Whether the server says anything within a time; a client with a timeout waits like this. */
static bool hears(PGconn *c, int limit_ms)
{
    struct pollfd event = {.fd = PQsocket(c), .events = POLLIN};
    int n = poll(&event, 1, limit_ms);
    assert_true(n >= 0);
    return n == 1;
}

/* A reset strikes all connections at once, or the one that had the n-th COMMIT; once in either
 * case. */
static void test_proxy_resets(void **state)
{
    const char *url = fresh();
    PGconn *a = connect_to(pgproxy_url(proxy, "test"));
    PGconn *b = connect_to(pgproxy_url(proxy, "test"));
    char byte;
    (void)state;
    pgproxy_arm(proxy, &(struct pgproxy_fault){.kind = PGPROXY_RESET});
    assert_true(hears(a, WAIT_LIMIT_MS));
    assert_int_equal(recv(PQsocket(a), &byte, 1, MSG_PEEK), -1);
    assert_int_equal(errno, ECONNRESET); /* and not the end that a server would say */
    assert_true(fails(a, "SELECT 1"));
    assert_true(fails(b, "SELECT 1"));
    assert_int_equal(PQstatus(a), CONNECTION_BAD);
    assert_int_equal(pgproxy_hits(proxy), 2);
    PQreset(a);
    PQreset(b);
    pgproxy_arm(proxy, &(struct pgproxy_fault){.kind = PGPROXY_RESET, .after_commits = 2});
    assert_true(insert_simple(a));
    assert_true(insert_simple(b)); /* the reply itself still comes */
    assert_true(fails(b, "SELECT 1"));
    assert_int_equal(pgproxy_hits(proxy), 1);
    assert_true(insert_simple(a));
    assert_int_equal(rows(url), 3);
    PQfinish(a);
    PQfinish(b);
}

/* Nobody tells when they are there. */
static void wait_for_rows(const char *url, int count)
{
    int64_t limit_ms = now_ms() + WAIT_LIMIT_MS;
    while (rows(url) < count) {
        assert_true(now_ms() < limit_ms);
    }
    assert_int_equal(rows(url), count);
}

/* Three ways to say nothing: they differ in what the server has heard, and in what comes later. */
static void test_proxy_is_silent(void **state)
{
    static const struct {
        enum pgproxy_kind kind;
        int row_count; /* the server has heard so much of it */
        bool goes_on;  /* when the fault is gone */
    } cases[] = {{PGPROXY_STALL, 0, true}, {PGPROXY_DEAF, 0, false}, {PGPROXY_MUTE, 1, false}};
    const char *url = fresh();
    PGconn *direct = connect_to(url);
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        PGconn *c = connect_to(pgproxy_url(proxy, "test"));
        run(direct, "TRUNCATE t");
        pgproxy_arm(proxy, &(struct pgproxy_fault){.kind = cases[i].kind});
        assert_int_equal(PQsendQuery(c, "INSERT INTO t VALUES (1)"), 1);
        assert_false(hears(c, SILENCE_MS));
        assert_int_equal(PQstatus(c), CONNECTION_OK);
        wait_for_rows(url, cases[i].row_count);
        assert_true(pgproxy_hits(proxy) >= 1); /* 2 when it has not seen the one before go */
        pgproxy_arm(proxy, &(struct pgproxy_fault){.kind = PGPROXY_NONE});
        assert_int_equal(hears(c, cases[i].goes_on ? WAIT_LIMIT_MS : SILENCE_MS), cases[i].goes_on);
        PQfinish(c);
    }
    PQfinish(direct);
}

/* Connections that come while a fault for all is armed have it, too: here, a delay each way. */
static void test_proxy_strikes_newcomers(void **state)
{
    int64_t start_ms = now_ms();
    (void)state;
    pgproxy_arm(proxy, &(struct pgproxy_fault){.kind = PGPROXY_DELAY, .delay_ms = 100});
    PQfinish(connect_to(pgproxy_url(proxy, "postgres")));
    assert_in_range(now_ms() - start_ms, 200, WAIT_LIMIT_MS);
    assert_int_equal(pgproxy_hits(proxy), 1);
}

/* A query takes at least a delay each way, and by single bytes one per byte. */
static void test_proxy_takes_time(void **state)
{
    static const char sql[] = "SELECT 'a value of forty bytes, more or less'";
    static const struct {
        struct pgproxy_fault fault;
        int64_t least_ms;
    } cases[] = {{{.kind = PGPROXY_DELAY, .delay_ms = 100}, 200},
                 {{.kind = PGPROXY_SLOW, .delay_ms = 2}, 2 * (int64_t)sizeof sql}};
    PGconn *c = connect_to(pgproxy_url(proxy, "postgres"));
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int64_t start_ms = now_ms();
        pgproxy_arm(proxy, &cases[i].fault);
        assert_string_equal(value(c, sql), "a value of forty bytes, more or less");
        assert_in_range(now_ms() - start_ms, cases[i].least_ms, WAIT_LIMIT_MS);
    }
    PQfinish(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_url),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_end_of_program),
        cmocka_unit_test(test_shared_given),
        cmocka_unit_test_setup_teardown(test_proxy_passes, setup_proxy, teardown_proxy),
        cmocka_unit_test_setup_teardown(test_proxy_without_server, setup_proxy, teardown_proxy),
        cmocka_unit_test_setup_teardown(test_proxy_drops_commit, setup_proxy, teardown_proxy),
        cmocka_unit_test_setup_teardown(test_proxy_resets, setup_proxy, teardown_proxy),
        cmocka_unit_test_setup_teardown(test_proxy_is_silent, setup_proxy, teardown_proxy),
        cmocka_unit_test_setup_teardown(test_proxy_strikes_newcomers, setup_proxy, teardown_proxy),
        cmocka_unit_test_setup_teardown(test_proxy_takes_time, setup_proxy, teardown_proxy),
        cmocka_unit_test(test_stop_after_kill), /* the cluster of all tests: the last one */
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* test_pg_wake.c - hints between handles on one PostgreSQL database, and one housekeeper among many
 *
 * Nothing here goes by the clock of a handle: a test waits for a descriptor, with a generous limit, and
 * what it waits for can have come by a hint alone.
 */
#include <poll.h>
#include <postgresql/libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/env.h"
#include "kernel/chores.h"
#include "store/provider.h"
#include "support/pgserver.h"
#include "support/runtest.h"
#include "support/storetest.h"

#define PATIENCE_MS 20000
#define HINTS 200

static struct storetest f;
static struct qp_env usual;
static PGconn *other; /* a connection of nobody's */

static int64_t sql(const char *text)
{
    PGresult *r = PQexec(other, text);
    int64_t n = 0;
    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", text, PQresultErrorMessage(r));
    }
    if (PQntuples(r) > 0) {
        n = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    }
    PQclear(r);
    return n;
}

static int set_up(void **state)
{
    (void)state;
    usual = (struct qp_env){0};
    env_complete(&usual);
    storetest_init(&f, STORETEST_POSTGRES, 1);
    other = PQconnectdb(f.path);
    assert_int_equal(PQstatus(other), CONNECTION_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    PQfinish(other);
    storetest_done(&f);
    return 0;
}

static struct store *open_usual(void)
{
    struct store_options options = {.path = f.path};
    struct qp_err err = {0};
    struct store *s = NULL;
    if (store_open(&usual, &options, &s, &err) != QP_OK) {
        fail_msg("open: %s", err.text);
    }
    return s;
}

/* Listens, and has taken the "look again" that comes with it. */
static struct store *open_listening(void)
{
    struct store *s = open_usual();
    assert_true(store_wake_fd(s) >= 0);
    assert_true(store_wake_take(s));
    assert_false(store_wake_take(s));
    return s;
}

static bool is_readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

/* Takes whatever the line has to do, until somebody says "look again". */
static void await_hint(struct store *s)
{
    do {
        assert_true(is_readable(store_wake_fd(s), PATIENCE_MS));
    } while (!store_wake_take(s));
}

/* Until `s` has said what it owes: its line is quiet. True when it was told to look meanwhile. */
static bool let_speak(struct store *s)
{
    bool news = false;
    while (is_readable(store_wake_fd(s), 5 * LIMIT_HINT_GAP_MS)) {
        news = store_wake_take(s) || news;
    }
    return news;
}

static int64_t hints_heard(void)
{
    int64_t n = 0;
    PGnotify *notify;
    (void)sql("SELECT 1"); /* what was said before this is delivered with it */
    while ((notify = PQnotifies(other)) != NULL) {
        n++;
        PQfreemem(notify);
    }
    return n;
}

/* Proves that a hint reaches all other handles, and not the one that gave it. */
static void test_hint(void **state)
{
    struct store *a = open_listening();
    struct store *b = open_listening();
    struct store *c = open_listening();
    (void)state;
    store_wake_others(a);
    await_hint(b);
    await_hint(c);
    assert_false(store_wake_take(b));
    assert_false(let_speak(a));
    assert_int_equal(store_close(a, NULL), QP_OK);
    assert_int_equal(store_close(b, NULL), QP_OK);
    assert_int_equal(store_close(c, NULL), QP_OK);
}

/* Proves that one who was never asked to listen can give a hint, and that anybody's NOTIFY is one. */
static void test_hint_of_strangers(void **state)
{
    struct store *a = open_usual();
    struct store *b = open_listening();
    (void)state;
    store_wake_others(a);
    (void)let_speak(a); /* it begins to listen, which is news */
    await_hint(b);
    (void)sql("NOTIFY quipu, 'whatever'");
    await_hint(b);
    assert_int_equal(store_close(a, NULL), QP_OK);
    assert_int_equal(store_close(b, NULL), QP_OK);
}

static int64_t now_ms(void)
{
    return usual.monotonic_us(usual.context) / 1000;
}

/* Proves that many hints at once are few: one now, and one for all that came meanwhile; and that there is a
 * time between any two, however often we are asked and however fast the server is. */
static void test_coalesced(void **state)
{
    struct store *a = open_listening();
    int64_t from;
    (void)state;
    (void)sql("LISTEN quipu");
    for (int i = 0; i < HINTS; i++) {
        store_wake_others(a);
    }
    assert_false(let_speak(a));
    assert_int_equal(hints_heard(), 2);
    from = now_ms();
    for (int i = 0; i < HINTS; i++) {
        store_wake_others(a);
        (void)is_readable(store_wake_fd(a), 1);
        assert_false(store_wake_take(a));
    }
    assert_false(let_speak(a));
    assert_in_range(hints_heard(), 1, (now_ms() - from) / LIMIT_HINT_GAP_MS + 1);
    assert_int_equal(store_close(a, NULL), QP_OK);
}

/* Proves that a lost line is made again, says "look again" once, and that what was owed is said then. */
static void test_line_lost(void **state)
{
    struct store *a = open_listening();
    struct store *b = open_listening();
    (void)state;
    assert_int_equal(sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE"
                         " query LIKE '%LISTEN%' AND pid<>pg_backend_pid()"),
                     2);
    await_hint(b);
    assert_false(store_wake_take(b));
    store_wake_others(a); /* perhaps it does not know yet */
    await_hint(a);        /* now it has a line */
    assert_false(let_speak(a));
    await_hint(b);
    assert_int_equal(store_close(a, NULL), QP_OK);
    assert_int_equal(store_close(b, NULL), QP_OK);
}

/* Proves that a server that is away for a while does no harm, and that nobody waits for it. */
static void test_server_away(void **state)
{
    struct pgserver *server = pgserver_start();
    struct store_options options = {.path = pgserver_url(server, "away")};
    struct store *s = NULL;
    (void)state;
    assert_int_equal(store_open(&usual, &options, &s, NULL), QP_OK);
    assert_true(store_wake_fd(s) >= 0);
    assert_true(store_wake_take(s));
    pgserver_halt(server, "immediate");
    for (int i = 0; i < 5; i++) {
        assert_true(is_readable(store_wake_fd(s), PATIENCE_MS)); /* the end, then timers */
        assert_false(store_wake_take(s));
    }
    pgserver_resume(server);
    await_hint(s);
    assert_int_equal(store_close(s, NULL), QP_OK);
    pgserver_stop(server);
}

/* Proves that stores which nobody shares have no hints. */
static void test_no_hints(void **state)
{
    static struct storetest quiet;
    (void)state;
    for (int kind = 0; kind < STORETEST_KINDS; kind++) {
        storetest_init(&quiet, (enum storetest_kind)kind, 1);
        store_wake_others(quiet.s);
        assert_int_equal(store_wake_fd(quiet.s), -1);
        assert_false(store_wake_take(quiet.s));
        storetest_done(&quiet);
    }
}

/* ------------------------------------------------------------------------------------ public handles */

static int called;

static int work(void *context, qp_task *task)
{
    (void)context;
    called++;
    return qp_task_output(task, QP_STR("1"));
}

static void poll_until_quiet(qp *q)
{
    do {
        rt_poll(q);
    } while (is_readable(qp_fd(q), 5 * LIMIT_HINT_GAP_MS));
}

/* Proves that a host with a loop of its own hears of what another process puts: it calls qp_poll only when
 * qp_fd says so, and never by the time. */
static void test_handles(void **state)
{
    qp *a;
    qp *b;
    (void)state;
    rt_begin(RT_REAL);
    a = rt_open(f.path);
    b = rt_open(f.path);
    rt_worker(b, "work", work, NULL);
    poll_until_quiet(b);
    called = 0;
    for (int i = 1; i <= 3; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "job-%d", i);
        rt_start(a, id);
        poll_until_quiet(a); /* what it owes is said by its next turn */
        while (called < i) {
            assert_true(is_readable(qp_fd(b), PATIENCE_MS));
            rt_poll(b);
        }
        rt_expect(a, id, "completed", "1");
        poll_until_quiet(b);
    }
    rt_close(a);
    rt_close(b);
    rt_end();
}

/* -------------------------------------------------------------------------------------- housekeeping */

static bool more;

static int page(void *context, struct bundle *b)
{
    struct housekeeping done;
    int rc = housekeeping_page(b, 0, &done);
    (void)context;
    more = done.more;
    return rc;
}

static int run_page(struct store *s)
{
    struct commit c;
    struct bundle *b;
    int rc;
    commit_init(&c, s);
    b = commit_decided(&c, "retention", page, NULL);
    rc = store_commit(s, &c);
    rc = rc == QP_OK ? b->rc : rc;
    commit_done(&c);
    return rc;
}

static int64_t put_expired(void)
{
    struct op ops[] = {{.kind = OP_ids_reserve, .ids_reserve.count = 1},
                       {.kind = OP_job_create,
                        .job_create = {.jid = QP_STR("old"),
                                       .workflow = QP_STR("w"),
                                       .owner_guid = storetest_guid(1),
                                       .expire_ms = 1}}};
    assert_int_equal(storetest_op(&f, &ops[0]), QP_OK);
    ops[1].job_create.ref = (struct job_ref){STORE_NS_DEFAULT, ops[0].ids_reserve.out_first};
    assert_int_equal(storetest_op(&f, &ops[1]), QP_OK);
    testenv_advance_ms(&f.t, 10);
    return ops[1].job_create.ref.job;
}

/* Proves that retention, expiry and the sweep of empty rows are for one handle at a time: while another has
 * the lock, nothing is done, and nobody waits. */
static void test_one_housekeeper(void **state)
{
    int64_t job = put_expired();
    (void)state;
    (void)sql("INSERT INTO quipu.counter(ns,workflow,status,shard,rev) VALUES(1,'gone',0,1,1)");
    testenv_advance_ms(&f.t, 10000);
    (void)sql("BEGIN; SELECT pg_advisory_xact_lock(5855313491)");
    assert_int_equal(run_page(f.s), QP_OK);
    assert_false(more);
    assert_int_equal(store_idle(f.s, NULL), QP_OK);
    assert_int_equal(sql("SELECT count(*) FROM quipu.counter WHERE n=0"), 1);
    assert_int_equal(storetest_count(&f, TABLE_msg), 0);
    (void)sql("COMMIT");
    testenv_advance_ms(&f.t, 10000);
    assert_int_equal(store_idle(f.s, NULL), QP_OK);
    assert_int_equal(sql("SELECT count(*) FROM quipu.counter WHERE n=0"), 0);
    assert_int_equal(run_page(f.s), QP_OK);
    assert_true(more);
    assert_int_equal(storetest_count(&f, TABLE_msg), 1);
    assert_true(job > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hint),
        TEST(test_hint_of_strangers),
        TEST(test_coalesced),
        TEST(test_line_lost),
        cmocka_unit_test(test_no_hints),
        TEST(test_handles),
        TEST(test_one_housekeeper),
        TEST(test_server_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

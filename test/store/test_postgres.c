/* test_postgres.c - many handles on one PostgreSQL database, lines that break, servers that are refused
 *
 * What one handle does is held by the conformance suite and by the random comparison with memory. Here
 * are several at once: threads with a handle each, or a second connection that stops the world at a
 * chosen place.
 */
#include <postgresql/libpq-fe.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/env.h"
#include "store/conform.h"
#include "store/provider.h"
#include "support/opgen.h"
#include "support/pgserver.h"
#include "support/storetest.h"

#define THREADS 3
#define LEASE_MS 60000
#define WAIT_TRIES 1000
#define WAIT_US 10000

static struct storetest f; /* its handle is the one that looks */
static struct qp_env usual;

static int set_up(void **state)
{
    (void)state;
    usual = (struct qp_env){0};
    env_complete(&usual);
    storetest_init(&f, STORETEST_POSTGRES, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    storetest_done(&f);
    return 0;
}

/* ----------------------------------------------------------------------------- a second connection */

static void no_notice(void *context, const PGresult *result)
{
    (void)context;
    (void)result;
}

static PGconn *sql_open(const char *url)
{
    PGconn *c = PQconnectdb(url);
    (void)PQsetNoticeReceiver(c, no_notice, NULL);
    if (PQstatus(c) != CONNECTION_OK) {
        fail_msg("%s", PQerrorMessage(c));
    }
    return c;
}

/* The first field of the answer as a number; 0 without one. */
static int64_t sql(PGconn *c, const char *text)
{
    PGresult *r = PQexec(c, text);
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

static struct store *open_with(const char *url, bool host_clock)
{
    struct store_options options = {.path = url, .host_clock = host_clock};
    struct qp_err err = {0};
    struct store *s = NULL;
    if (store_open(host_clock ? &f.t.env : &usual, &options, &s, &err) != QP_OK) {
        fail_msg("open: %s", err.text);
    }
    return s;
}

/* ----------------------------------------------------------------------------------------- commits */

static int commit_ops(struct store *s, struct op *ops, size_t count)
{
    struct commit c;
    struct bundle *b;
    int rc;
    commit_init(&c, s);
    b = commit_bundle(&c, "test");
    for (size_t i = 0; i < count; i++) {
        *bundle_op(b, ops[i].kind) = ops[i];
    }
    rc = store_commit(s, &c);
    rc = rc == QP_OK ? b->rc : rc;
    for (size_t i = 0; i < count; i++) {
        ops[i] = *bundle_op_at(b, i);
    }
    commit_done(&c);
    return rc;
}

static int64_t reserve(struct store *s, int64_t count)
{
    struct op op = {.kind = OP_ids_reserve, .ids_reserve.count = count};
    assert_int_equal(commit_ops(s, &op, 1), QP_OK);
    return op.ids_reserve.out_first;
}

static void make_job(struct store *s, int64_t job)
{
    char jid[32];
    struct op op = {.kind = OP_job_create,
                    .job_create = {.ref = {NS, job}, .workflow = QP_STR("w")}};
    (void)snprintf(jid, sizeof jid, "job-%lld", (long long)job);
    op.job_create.jid = str_from(jid);
    assert_int_equal(commit_ops(s, &op, 1), QP_OK);
}

static int put(struct store *s, int64_t job, unsigned guid, qp_str limit_key)
{
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.ref = {NS, job},
                                .guid = storetest_guid(guid),
                                .topic = TOPIC,
                                .limit_key = limit_key}};
    return commit_ops(s, &op, 1);
}

static int event(struct store *s, int64_t job)
{
    struct op op = {.kind = OP_event_add, .event_add = {.ref = {NS, job}, .kind = 1}};
    return commit_ops(s, &op, 1);
}

/* --------------------------------------------------------------------------------------- in threads */

struct worker {
    pthread_t thread;
    unsigned first_guid;
    struct store *s;
    int64_t job;
    int rc;
    unsigned claimed[1000];
    size_t claimed_count;
};

static void run_workers(struct worker *workers, void *(*body)(void *))
{
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].s = open_with(f.path, false);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&workers[i].thread, NULL, body, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(store_close(workers[i].s, NULL), QP_OK);
        assert_int_equal(workers[i].rc, QP_OK);
    }
}

static struct worker workers[THREADS];

#define PUTS 60

static void *put_many(void *context)
{
    struct worker *w = context;
    for (unsigned i = 0; i < PUTS && w->rc == QP_OK; i++) {
        w->rc = put(w->s, w->job, w->first_guid + i, QP_STR("k"));
    }
    return NULL;
}

static const struct lane_row *lane(qp_str limit_key)
{
    return storetest_row(&f, TABLE_lane,
                         &(struct lane_row){.ns = NS, .topic = TOPIC, .limit_key = limit_key});
}

/* Proves that amounts that many add at once are all in the sum, for messages of jobs of their own and of
 * one that they share, and that nobody is refused for it. */
static void test_sums(void **state)
{
    int64_t first = reserve(f.s, THREADS);
    (void)state;
    memset(workers, 0, sizeof workers);
    for (unsigned i = 0; i < THREADS; i++) {
        make_job(f.s, first + i);
        workers[i].job = first + i;
        workers[i].first_guid = 1000 * i;
    }
    run_workers(workers, put_many);
    assert_int_equal(lane(QP_STR("k"))->ready, THREADS * PUTS);
    memset(workers, 0, sizeof workers);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].job = first;
        workers[i].first_guid = 10000 + 1000 * i;
    }
    run_workers(workers, put_many);
    assert_int_equal(lane(QP_STR("k"))->ready, 2 * THREADS * PUTS);
}

#define MESSAGES 240

static void *claim_all(void *context)
{
    struct worker *w = context;
    int empty = 0;
    while (w->rc == QP_OK && empty < 3) {
        struct op op = {.kind = OP_msg_claim,
                        .msg_claim = {.ns = NS, .topic = TOPIC, .want = 7, .lease_ms = LEASE_MS}};
        struct commit c;
        struct bundle *b;
        commit_init(&c, w->s);
        b = commit_bundle(&c, "claim");
        *bundle_op(b, OP_msg_claim) = op;
        w->rc = store_commit(w->s, &c);
        w->rc = w->rc == QP_OK ? b->rc : w->rc;
        op = *bundle_op_at(b, 0);
        empty = w->rc == QP_OK && op.msg_claim.out_count == 0 ? empty + 1 : 0;
        for (size_t i = 0; i < op.msg_claim.out_count && w->rc == QP_OK; i++) {
            w->claimed[w->claimed_count++] =
                (unsigned)strtoul(op.msg_claim.out_messages[i]->guid.p + strlen("guid-"), NULL, 10);
        }
        commit_done(&c);
    }
    return NULL;
}

/* Proves that claims of several at once give every message once, and all of them. */
static void test_claims(void **state)
{
    static bool seen[MESSAGES + 1];
    size_t count = 0;
    int64_t job = reserve(f.s, 1);
    (void)state;
    make_job(f.s, job);
    for (unsigned i = 1; i <= MESSAGES; i++) {
        assert_int_equal(put(f.s, job, i, i % 2 == 0 ? QP_STR("even") : QP_NONE), QP_OK);
    }
    memset(workers, 0, sizeof workers);
    memset(seen, 0, sizeof seen);
    run_workers(workers, claim_all);
    for (int w = 0; w < THREADS; w++) {
        for (size_t i = 0; i < workers[w].claimed_count; i++) {
            unsigned guid = workers[w].claimed[i];
            assert_in_range(guid, 1, MESSAGES);
            assert_false(seen[guid]);
            seen[guid] = true;
            count++;
        }
    }
    assert_int_equal(count, MESSAGES);
    assert_int_equal(lane(QP_STR("even"))->held, MESSAGES / 2);
    assert_int_equal(lane(QP_STR("even"))->ready, 0);
}

#define LIMITED 5

/* Proves that a limit holds whoever claims: the lanes are never over it, and it is reached. */
static void test_limits(void **state)
{
    struct op limit = {
        .kind = OP_lane_limit,
        .lane_limit = {.ns = NS, .topic = TOPIC, .limit_key = QP_STR("*"), .max = LIMITED}};
    int64_t job = reserve(f.s, 1);
    (void)state;
    make_job(f.s, job);
    assert_int_equal(commit_ops(f.s, &limit, 1), QP_OK);
    for (unsigned i = 1; i <= 40; i++) {
        assert_int_equal(put(f.s, job, i, i % 2 == 0 ? QP_STR("even") : QP_STR("odd")), QP_OK);
    }
    memset(workers, 0, sizeof workers);
    run_workers(workers, claim_all);
    assert_int_equal(lane(QP_STR("even"))->held, LIMITED);
    assert_int_equal(lane(QP_STR("odd"))->held, LIMITED);
    assert_int_equal(lane(QP_STR("odd"))->ready, 20 - LIMITED);
}

static void *put_on_keys(void *context)
{
    struct worker *w = context;
    char key[16];
    for (unsigned i = 0; i < 10 && w->rc == QP_OK; i++) {
        (void)snprintf(key, sizeof key, "key-%u", i);
        w->rc = put(w->s, w->job, w->first_guid + i, str_from(key));
    }
    return NULL;
}

/* Proves that lanes which several make at once are made once, with the setting for all keys. */
static void test_new_lanes(void **state)
{
    struct op limit = {
        .kind = OP_lane_limit,
        .lane_limit = {.ns = NS, .topic = TOPIC, .limit_key = QP_STR("*"), .max = LIMITED}};
    int64_t first = reserve(f.s, THREADS);
    (void)state;
    assert_int_equal(commit_ops(f.s, &limit, 1), QP_OK);
    memset(workers, 0, sizeof workers);
    for (unsigned i = 0; i < THREADS; i++) {
        make_job(f.s, first + i);
        workers[i].job = first + i;
        workers[i].first_guid = 1000 * i;
    }
    run_workers(workers, put_on_keys);
    assert_int_equal(storetest_count(&f, TABLE_lane), 10 + 1);
    assert_int_equal(lane(QP_STR("key-3"))->ready, THREADS);
    assert_int_equal(lane(QP_STR("key-3"))->max, LIMITED);
}

/* ------------------------------------------------------------------------------- in processes */

#define COMMITS 150

/* Random commits of one generator; how many were given up for others, or -1. */
static int random_commits(struct opgen *g, const char *url)
{
    struct store *s = open_with(url, false);
    int busy = 0;
    for (int i = 0; i < COMMITS && busy >= 0; i++) {
        struct commit c;
        int rc;
        opgen_next(g, s);
        commit_init(&c, s);
        rc = opgen_commit(g, s, &c);
        if (rc != QP_OK && rc != QP_E_BUSY) {
            (void)fprintf(stderr, "commit %d: %s: %s\n", i, qp_code_word(rc), c.err.text);
        }
        busy = rc == QP_OK ? busy : rc == QP_E_BUSY ? busy + 1 : -1;
        commit_done(&c);
    }
    return store_close(s, NULL) == QP_OK ? busy : -1;
}

/* Every count against a recount: none may be wrong. */
static const char *const miscounts[] = {
    "SELECT count(*) FROM quipu.lane l WHERE (ready,held)<>(SELECT count(*) FILTER (WHERE state=1),"
    " count(*) FILTER (WHERE state=3) FROM quipu.msg m WHERE (m.ns,m.topic,m.limit_key)="
    "(l.ns,l.topic,l.limit_key))",
    "SELECT count(*) FROM quipu.msg m WHERE state IN (1,3) AND NOT EXISTS (SELECT 1 FROM quipu.lane l"
    " WHERE (m.ns,m.topic,m.limit_key)=(l.ns,l.topic,l.limit_key))",
    "SELECT count(*) FROM (SELECT ns,workflow,status,sum(n) AS s FROM quipu.counter GROUP BY 1,2,3) c"
    " WHERE s<>(SELECT count(*) FROM quipu.job j WHERE (j.ns,j.workflow,j.status)="
    "(c.ns,c.workflow,c.status))",
    "SELECT count(*) FROM quipu.key k WHERE held<>(SELECT coalesce(sum(units),0) FROM quipu.key_hold h"
    " WHERE (h.ns,h.scope,h.name)=(k.ns,k.scope,k.name)) OR waiting<>(SELECT count(*) FROM"
    " quipu.key_wait w WHERE (w.ns,w.scope,w.name)=(k.ns,k.scope,k.name))",
    "SELECT count(*) FROM quipu.hook k WHERE waiting<>(SELECT count(*) FROM quipu.hook_wait w"
    " WHERE (w.ns,w.topic,w.hkey)=(k.ns,k.topic,k.hkey)) OR pending<>(SELECT count(*) FROM"
    " quipu.hook_sig s WHERE (s.ns,s.topic,s.hkey)=(k.ns,k.topic,k.hkey))",
    "SELECT count(*) FROM quipu.act a WHERE guid_rows<>(SELECT count(*) FROM quipu.guid g"
    " WHERE (g.ns,g.job,g.addr)=(a.ns,a.job,a.addr)) AND EXISTS (SELECT 1 FROM quipu.job j"
    " WHERE (j.ns,j.job)=(a.ns,a.job) AND completions=0)", /* a finished one may be on its way out */
    "SELECT count(*) FROM (SELECT ns,job,seq FROM quipu.event UNION ALL SELECT ns,job,seq FROM quipu.act"
    " UNION ALL SELECT ns,job,guid_seq FROM quipu.act WHERE guid_seq>0 UNION ALL SELECT ns,job,seq"
    " FROM quipu.guid WHERE seq>0) e GROUP BY ns,job,seq HAVING count(*)>1",
};

static int wait_for(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Proves that two processes that do everything at once, to the same few jobs, lanes, keys and hooks, leave
 * what they could have left one after the other, as far as the tables can be held against each other;
 * and that hardly any commit is given up. */
static void test_two_processes(void **state)
{
    static struct opgen g[2];
    uint64_t seed = testenv_seed();
    PGconn *server = sql_open(f.path);
    struct commit c;
    pid_t children[2];
    (void)state;
    /* They meet in every order: a second for each circle that they wait in would be the whole test. */
    (void)sql(server, "ALTER SYSTEM SET deadlock_timeout='20ms'");
    (void)sql(server, "SELECT pg_reload_conf()");
    opgen_init(&g[0], &usual, seed);
    opgen_next(&g[0], f.s);
    commit_init(&c, f.s);
    assert_int_equal(opgen_commit(&g[0], f.s, &c), QP_OK);
    commit_done(&c);
    opgen_init_second(&g[1], &g[0], seed + 1);
    for (int i = 0; i < 2; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            int busy = random_commits(&g[i], f.path);
            _exit(busy < 0 ? 255 : busy);
        }
    }
    for (int i = 0; i < 2; i++) {
        assert_in_range(wait_for(children[i]), 0, COMMITS / 20);
        opgen_done(&g[i]);
    }
    (void)sql(server, "ALTER SYSTEM RESET deadlock_timeout");
    (void)sql(server, "SELECT pg_reload_conf()");
    for (size_t i = 0; i < ARRAY_COUNT(miscounts); i++) {
        if (sql(server, miscounts[i]) != 0) {
            fail_msg("QP_SEED=%llu: %s", (unsigned long long)seed, miscounts[i]);
        }
    }
    PQfinish(server);
}

/* ---------------------------------------------------------------------------------------- the feed */

struct follower {
    int64_t last;
    size_t count;
};

static int follow(void *context, const struct feed_entry *entry)
{
    struct follower *r = context;
    assert_true(entry->pos > r->last);
    r->last = entry->pos;
    r->count++;
    return QP_OK;
}

static void catch_up(struct follower *r)
{
    struct qp_err err = {0};
    assert_int_equal(store_feed(f.s, r->last, SIZE_MAX, r, follow, &err), QP_OK);
}

/* Waits until a reader has seen so many. */
static void catch_up_to(struct follower *r, size_t count)
{
    for (int i = 0; i < WAIT_TRIES && r->count < count; i++) {
        catch_up(r);
        if (r->count < count) {
            (void)usleep(WAIT_US);
        }
    }
    assert_int_equal(r->count, count);
}

/* Proves I5 with transactions that overlap: what was begun first and commits last is not passed over.
 * While it is open, a reader waits before it. */
static void test_feed_waits(void **state)
{
    PGconn *c = sql_open(f.path);
    struct follower r = {0};
    int64_t job = reserve(f.s, 1);
    (void)state;
    make_job(f.s, job);
    assert_int_equal(event(f.s, job), QP_OK);
    catch_up_to(&r, 1);
    (void)sql(c, "BEGIN");
    assert_true(sql(c, "SELECT pg_current_xact_id()") > 0);
    assert_int_equal(event(f.s, job), QP_OK);
    catch_up(&r);
    assert_int_equal(r.count, 1);
    (void)sql(c, "COMMIT");
    catch_up_to(&r, 2);
    PQfinish(c);
}

#define EVENTS 50

static void *add_events(void *context)
{
    struct worker *w = context;
    for (int i = 0; i < EVENTS && w->rc == QP_OK; i++) {
        w->rc = event(w->s, w->job);
    }
    return NULL;
}

/* Proves the same of many: a reader that follows all the time sees every entry once, in order. */
static void test_feed_of_many(void **state)
{
    struct follower r = {0};
    int64_t first = reserve(f.s, THREADS);
    (void)state;
    memset(workers, 0, sizeof workers);
    for (unsigned i = 0; i < THREADS; i++) {
        make_job(f.s, first + i);
        workers[i].job = first + i;
        workers[i].s = open_with(f.path, false);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, add_events, &workers[i]), 0);
    }
    catch_up_to(&r, (size_t)THREADS * EVENTS);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].rc, QP_OK);
        assert_int_equal(store_close(workers[i].s, NULL), QP_OK);
    }
    catch_up(&r);
    assert_int_equal(r.count, THREADS * EVENTS);
}

/* ------------------------------------------------------------------------- commits that begin anew */

/* The next `times` inserts into a table fail with this code, or run this statement. */
static void trap(PGconn *c, const char *table, const char *when, int times, const char *act)
{
    char text[1024];
    (void)sql(c, "DROP SEQUENCE IF EXISTS traps CASCADE; CREATE SEQUENCE traps");
    (void)snprintf(text, sizeof text,
                   "CREATE OR REPLACE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                   "IF nextval('public.traps') <= %d THEN %s; END IF; RETURN NEW; END $$",
                   times, act);
    (void)sql(c, text);
    (void)snprintf(text, sizeof text, "CREATE %s quipu.%s FOR EACH ROW EXECUTE FUNCTION trap()",
                   when, table);
    (void)sql(c, text);
}

static void untrap(PGconn *c, const char *table)
{
    char text[128];
    (void)snprintf(text, sizeof text, "DROP TRIGGER trap ON quipu.%s", table);
    (void)sql(c, text);
}

/* Proves that what the server gives up is run again, from the start, and that there is an end to it. */
static void test_serialization_failure(void **state)
{
    static const char *const failures[] = {"40001", "40P01", "55P03"};
    PGconn *c = sql_open(f.path);
    int64_t job = reserve(f.s, 1);
    (void)state;
    make_job(f.s, job);
    for (size_t i = 0; i < ARRAY_COUNT(failures); i++) {
        char raise[128];
        (void)snprintf(raise, sizeof raise, "RAISE EXCEPTION 'no' USING ERRCODE='%s'", failures[i]);
        trap(c, "event", "TRIGGER trap BEFORE INSERT ON", 2, raise);
        assert_int_equal(event(f.s, job), QP_OK);
        untrap(c, "event");
        assert_int_equal(storetest_count(&f, TABLE_event), i + 1);
    }
    trap(c, "event", "TRIGGER trap BEFORE INSERT ON", 1000,
         "RAISE EXCEPTION 'no' USING ERRCODE='40001'");
    assert_int_equal(event(f.s, job), QP_E_BUSY);
    untrap(c, "event");
    assert_int_equal(event(f.s, job), QP_OK);
    assert_int_equal(storetest_count(&f, TABLE_event), ARRAY_COUNT(failures) + 1);
    PQfinish(c);
}

struct decision {
    PGconn *c;
    const char *sql; /* the first time */
    int64_t job;
    int calls;
};

static int decide(void *context, struct bundle *b)
{
    struct decision *d = context;
    const void *row = NULL;
    int rc = bundle_get(b, TABLE_job, &(struct job_row){.ns = NS, .job = d->job}, &row);
    if (rc != QP_OK) {
        return rc;
    }
    if (d->calls++ == 0) {
        (void)sql(d->c, d->sql);
    }
    bundle_op(b, OP_event_add)->event_add = (struct op_event_add){.ref = {NS, d->job}, .kind = 1};
    return QP_OK;
}

static int commit_decision(struct decision *d, int *out_tries)
{
    struct commit c;
    struct bundle *b;
    int rc;
    commit_init(&c, f.s);
    b = commit_decided(&c, "decided", decide, d);
    rc = store_commit(f.s, &c);
    rc = rc == QP_OK ? b->rc : rc;
    *out_tries = c.tries;
    commit_done(&c);
    return rc;
}

#define KILL_STORES                                                                                \
    "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity"                          \
    " WHERE pid<>pg_backend_pid() AND application_name='quipu' AND datname=current_database()"

/* Proves that a line that breaks between commits, between reads, or in the middle of a commit is mended
 * without anybody noticing. */
static void test_reconnect(void **state)
{
    PGconn *c = sql_open(f.path);
    int64_t job = reserve(f.s, 1);
    struct decision d = {c, KILL_STORES, job, 0};
    int tries = 0;
    (void)state;
    make_job(f.s, job);
    (void)sql(c, KILL_STORES);
    assert_int_equal(event(f.s, job), QP_OK);
    (void)sql(c, KILL_STORES);
    assert_int_equal(storetest_count(&f, TABLE_event), 1);
    assert_int_equal(commit_decision(&d, &tries), QP_OK);
    assert_int_equal(tries, 1);
    assert_int_equal(d.calls, 2);
    assert_int_equal(storetest_count(&f, TABLE_event), 2);
    PQfinish(c);
}

/* Proves that a line that breaks after COMMIT was sent, with a transaction that did not commit, ends as if
 * nothing had been: it is run again, and is there once. */
static void test_lost_and_aborted(void **state)
{
    PGconn *c = sql_open(f.path);
    int64_t job = reserve(f.s, 1);
    (void)state;
    make_job(f.s, job);
    trap(c, "event", "CONSTRAINT TRIGGER trap AFTER INSERT ON", 1,
         "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1)");
    (void)sql(c, "DROP TRIGGER trap ON quipu.event; CREATE CONSTRAINT TRIGGER trap AFTER INSERT ON "
                 "quipu.event DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION trap()");
    assert_int_equal(event(f.s, job), QP_OK);
    untrap(c, "event");
    assert_int_equal(storetest_count(&f, TABLE_event), 1);
    PQfinish(c);
}

static void *kill_waiting(void *context)
{
    PGconn *c = sql_open(context);
    int64_t pid = 0;
    for (int i = 0; i < WAIT_TRIES && pid == 0; i++) {
        pid = sql(c, "SELECT pid FROM pg_stat_activity WHERE wait_event='SyncRep' LIMIT 1");
        (void)usleep(pid == 0 ? WAIT_US : 0);
    }
    (void)sql(
        c,
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE wait_event='SyncRep'");
    (void)sql(c, "ALTER SYSTEM RESET synchronous_standby_names");
    (void)sql(c, "SELECT pg_reload_conf()");
    PQfinish(c);
    return NULL;
}

static void expect_setting(PGconn *c, const char *value)
{
    char text[128];
    (void)snprintf(text, sizeof text,
                   "SELECT (current_setting('synchronous_standby_names')='%s')::int", value);
    for (int i = 0; i < WAIT_TRIES && sql(c, text) == 0; i++) {
        (void)usleep(WAIT_US);
    }
    assert_int_equal(sql(c, text), 1);
}

/* Proves the other outcome: committed, and the answer lost. The server is made to wait for a standby that
 * does not exist after it has committed, and the line is cut there. It is not run again. */
static void test_lost_and_committed(void **state)
{
    struct pgserver *server = pgserver_start();
    const char *url = pgserver_url(server, "lost");
    struct store *s = open_with(url, false);
    PGconn *c = sql_open(url);
    int64_t job = reserve(s, 1);
    pthread_t killer;
    (void)state;
    make_job(s, job);
    (void)sql(c, "ALTER SYSTEM SET synchronous_standby_names='nobody'");
    (void)sql(c, "SELECT pg_reload_conf()");
    expect_setting(c, "nobody");
    (void)sql(c, "SET synchronous_commit=local; CREATE TABLE ready(a int)"); /* all have read it */
    (void)usleep(20 * WAIT_US);
    assert_int_equal(pthread_create(&killer, NULL, kill_waiting, (void *)(uintptr_t)url), 0);
    assert_int_equal(event(s, job), QP_OK);
    assert_int_equal(pthread_join(killer, NULL), 0);
    assert_int_equal(sql(c, "SELECT count(*) FROM quipu.event"), 1);
    expect_setting(c, "");
    assert_int_equal(event(s, job), QP_OK); /* the handle goes on */
    assert_int_equal(sql(c, "SELECT count(*) FROM quipu.event"), 2);
    PQfinish(c);
    assert_int_equal(store_close(s, NULL), QP_OK);
    pgserver_stop(server);
}

/* --------------------------------------------------------------------------------- what is refused */

static void refused(const char *url, int code, const char *word, bool read_only)
{
    struct store_options options = {.path = url, .read_only = read_only};
    struct qp_err err = {0};
    struct store *s = NULL;
    assert_int_equal(store_open(&usual, &options, &s, &err), code);
    if (strstr(err.text, word) == NULL || strstr(err.text, "secret") != NULL) {
        fail_msg("said: %s", err.text);
    }
}

/* Proves that each server that we cannot use is refused with its reason, and that no message has a
 * password. */
static void test_refused(void **state)
{
    static const char *const loses[] = {"fsync = off", NULL};
    struct pgserver *server = pgserver_start_with(loses);
    PGconn *c = sql_open(f.path);
    char url[512];
    (void)state;
    refused(pgserver_url(server, "unsafe"), QP_E_UNSUPPORTED, "fsync", false);
    pgserver_stop(server);
    (void)sql(c, "DROP DATABASE IF EXISTS ascii");
    (void)sql(c, "CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0");
    (void)snprintf(url, sizeof url, "postgresql://postgres@%s:%s/ascii", PQhost(c), PQport(c));
    refused(url, QP_E_UNSUPPORTED, "UTF8", false);
    (void)sql(c, "DROP DATABASE ascii");
    (void)sql(c, "UPDATE quipu.meta SET version=version+100");
    refused(f.path, QP_E_NEWER, "newer", false);
    (void)sql(c, "UPDATE quipu.meta SET version=version-100");
    (void)snprintf(url, sizeof url, "%s?schema=none", f.path);
    refused(url, QP_E_NOT_FOUND, "no store", true);
    (void)snprintf(url, sizeof url, "%s?schema=No+way", f.path);
    refused(url, QP_E_INVALID, "letters", false);
    refused("postgresql://user:secret@127.0.0.1:1/none", QP_E_IO, "127.0.0.1", false);
    refused("postgresql://user:secret@127.0.0.1:1/none?what=ever", QP_E_INVALID, "URL", false);
    PQfinish(c);
}

/* Proves that who may not make the schema is told what to do, and may use one that another made of the
 * text that is printed for it. */
static void test_dumped_schema(void **state)
{
    PGconn *c = sql_open(f.path);
    char url[512];
    struct store *s;
    struct buf text;
    int64_t job;
    (void)state;
    (void)sql(
        c,
        "DROP SCHEMA IF EXISTS other CASCADE; DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN");
    (void)sql(
        c, "DO $$ BEGIN EXECUTE 'REVOKE CREATE ON DATABASE '||current_database()||' FROM PUBLIC';"
           " END $$");
    (void)snprintf(url, sizeof url, "postgresql://guest@%s:%s/%s?schema=other", PQhost(c),
                   PQport(c), PQdb(c));
    refused(url, QP_E_READONLY, "--dump-sql", false);
    buf_init(&text, &usual, 0);
    assert_int_equal(postgres_dump_sql("other", &text), QP_OK);
    buf_byte(&text, '\0');
    (void)sql(c, text.p);
    buf_done(&text);
    (void)sql(c, "GRANT USAGE ON SCHEMA other TO guest;"
                 "GRANT ALL ON ALL TABLES IN SCHEMA other TO guest;"
                 "GRANT ALL ON ALL SEQUENCES IN SCHEMA other TO guest");
    s = open_with(url, false);
    job = reserve(s, 1);
    make_job(s, job);
    assert_int_equal(event(s, job), QP_OK);
    assert_int_equal(store_close(s, NULL), QP_OK);
    (void)sql(c, "DROP SCHEMA other CASCADE; DROP ROLE guest");
    PQfinish(c);
}

/* Proves that a schema of a version before is migrated when it is opened: what is in it stays, what is
 * new can be used. */
static void test_migrated(void **state)
{
    PGconn *c = sql_open(f.path);
    struct op put = {
        .kind = OP_app_put,
        .app_put = {.ns = NS, .app = QP_STR("a"), .version = QP_STR("1"), .hash = QP_STR("h")}};
    char url[512];
    struct store *s;
    int64_t job;
    (void)state;
    (void)snprintf(url, sizeof url, "%s?schema=older", f.path);
    (void)sql(c, "DROP SCHEMA IF EXISTS older CASCADE");
    s = open_with(url, false);
    job = reserve(s, 1);
    make_job(s, job);
    assert_int_equal(store_close(s, NULL), QP_OK);
    (void)sql(
        c,
        "DROP TABLE older.app, older.app_topic, older.definition, older.universe, older.fact; UPDATE older.meta SET version=2;"
        "DROP INDEX older.msg_pending; DROP INDEX older.job_started;"
        "ALTER TABLE older.job DROP COLUMN waits, DROP COLUMN retries;"
        "ALTER TABLE older.act DROP COLUMN waits; ALTER TABLE older.node DROP COLUMN serving;"
        "ALTER TABLE older.attr DROP COLUMN started;"
        "DROP INDEX older.hook_sig_job;"
        "ALTER TABLE older.act DROP COLUMN version, DROP COLUMN base, DROP COLUMN \"after\";"
        "ALTER TABLE older.job DROP COLUMN kept, DROP COLUMN kept_size, DROP COLUMN kept_seq;"
        "ALTER TABLE older.job DROP COLUMN close, DROP COLUMN calls;"
        "ALTER TABLE older.hook_sig DROP COLUMN job;"
        "ALTER TABLE older.msg DROP COLUMN limits, DROP COLUMN deadline;"
        "CREATE INDEX attr_value ON older.attr(ns)");
    refused(url, QP_E_UNSUPPORTED, "older", true);
    s = open_with(url, false);
    assert_int_equal(event(s, job), QP_OK);
    assert_int_equal(commit_ops(s, &put, 1), QP_OK);
    assert_int_equal(store_close(s, NULL), QP_OK);
    assert_int_equal(sql(c, "SELECT count(*) FROM older.app"), 1);
    assert_int_equal(sql(c, "SELECT version FROM older.meta"), 11);
    (void)sql(c, "DROP SCHEMA older CASCADE");
    PQfinish(c);
}

/* Proves that time is the server's: a handle whose own clock is years away has it. */
static void test_server_clock(void **state)
{
    PGconn *c = sql_open(f.path);
    struct store_options options = {.path = f.path};
    struct qp_err err = {0};
    struct store *s = NULL;
    int64_t now;
    int64_t job;
    const struct job_row *row;
    (void)state;
    assert_int_equal(store_open(&f.t.env, &options, &s, &err),
                     QP_OK); /* a clock that stands still */
    job = reserve(s, 1);
    make_job(s, job);
    now = sql(c, "SELECT (extract(epoch FROM clock_timestamp())*1000)::bigint");
    row = storetest_row(&f, TABLE_job, &(struct job_row){.ns = NS, .job = job});
    assert_in_range(row->created_at, now - 60000, now);
    assert_int_equal(store_close(s, NULL), QP_OK);
    PQfinish(c);
}

struct theft {
    struct store *thief;
    int64_t epoch;
    struct msg_ref ref;
    int calls;
};

/* Acks a message of its run; the first time, the run is ended by another handle meanwhile. */
static int ack_stolen(void *context, struct bundle *b)
{
    struct theft *t = context;
    struct op adopt = {.kind = OP_msg_adopt, .msg_adopt = {.epoch = t->epoch, .limit = 10}};
    struct op *ack = bundle_op(b, OP_msg_ack);
    ack->msg_ack.ref = t->ref;
    if (++t->calls == 1) {
        int rc = bundle_run(b);
        assert_int_equal(commit_ops(t->thief, &adopt, 1), QP_OK);
        return rc;
    }
    return bundle_run(b);
}

/* Proves that a sum which would fall below zero, since a message was taken away that this commit believed
 * to hold, is a conflict like any other and not damage: a claim behind it has the sums written before the
 * message is compared. */
static void test_stale_sum(void **state)
{
    struct store *mine = open_with(f.path, true);
    struct op enter = {.kind = OP_node_put,
                       .node_put = {.name = QP_STR("n"), .lease_ms = 1, .state = NODE_RUNNING}};
    struct op claim = {.kind = OP_msg_claim, .msg_claim = {.ns = NS, .topic = TOPIC, .want = 1}};
    struct theft theft = {.thief = f.s};
    struct commit c;
    struct bundle *acking;
    int64_t job = reserve(f.s, 1);
    (void)state;
    make_job(f.s, job);
    assert_int_equal(put(f.s, job, 1, QP_NONE), QP_OK);
    assert_int_equal(commit_ops(f.s, &enter, 1), QP_OK);
    theft.epoch = claim.msg_claim.holder = enter.node_put.out_epoch;
    assert_int_equal(commit_ops(mine, &claim, 1), QP_OK);
    theft.ref = (struct msg_ref){NS, job, storetest_guid(1), 0};
    theft.ref.token =
        ((const struct msg_row *)storetest_row(
             &f, TABLE_msg, &(struct msg_row){.ns = NS, .job = job, .guid = storetest_guid(1)}))
            ->token;
    commit_init(&c, mine);
    acking = commit_decided(&c, "ack", ack_stolen, &theft);
    acking->job = (struct job_ref){NS, job};
    *bundle_op(commit_bundle(&c, "claim"), OP_msg_claim) = claim;
    assert_int_equal(store_commit(mine, &c), QP_OK);
    assert_int_equal(theft.calls, 2);
    assert_int_equal(acking->rc, QP_E_STALE);
    commit_done(&c);
    assert_int_equal(lane(QP_STR(""))->held, 1); /* the claim behind it has it now */
    assert_int_equal(store_close(mine, NULL), QP_OK);
}

/* The first time it loses the line, and says what a host would say. */
static int lose_line(void *context, void *native)
{
    int *calls = context;
    PGresult *r = PQexec(native, ++*calls == 1 ? "SELECT pg_terminate_backend(pg_backend_pid())"
                                               : "INSERT INTO kept VALUES(1)");
    bool good = PQresultStatus(r) == PGRES_COMMAND_OK;
    PQclear(r);
    return good ? QP_OK : QP_E_ABORTED;
}

/* Proves that a line which breaks under a host callback is no refusal of the host's: the commit is made
 * again, and the callback called again. */
static void test_line_lost_under_host(void **state)
{
    PGconn *c = sql_open(f.path);
    int calls = 0;
    struct op op = {.kind = OP_host_call, .host_call = {lose_line, &calls}};
    (void)state;
    (void)sql(c, "CREATE TABLE kept(n int)");
    assert_int_equal(commit_ops(f.s, &op, 1), QP_OK);
    assert_int_equal(calls, 2);
    assert_int_equal(sql(c, "SELECT count(*) FROM kept"), 1);
    PQfinish(c);
}

/* Proves that numbers which were taken ahead are not used after the line was lost: a server that crashed
 * may have forgotten them, and give them to another. */
static void test_numbers_after_a_loss(void **state)
{
    PGconn *c = sql_open(f.path);
    int64_t before = reserve(f.s, 1);
    (void)state;
    assert_int_equal(reserve(f.s, 1), before + 1);
    assert_int_equal(sql(c, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE"
                            " application_name='quipu' AND datname=current_database()"),
                     1);
    assert_true(reserve(f.s, 1) >= before + LIMIT_IDS_PER_BLOCK);
    PQfinish(c);
}

/* A claim, and a message beside what it claims. */
static int claim_beside(void *context, struct bundle *b)
{
    const struct msg_row *m;
    struct op *op = bundle_op(b, OP_msg_claim);
    (void)context;
    op->msg_claim =
        (struct op_msg_claim){.ns = NS, .topic = TOPIC, .want = 1, .lease_ms = LEASE_MS};
    QP_TRY(bundle_run(b));
    m = op->msg_claim.out_messages[0];
    op = bundle_op(b, OP_msg_put);
    op->msg_put = (struct op_msg_put){.ref = {m->ns, m->job},
                                      .guid = storetest_guid(2),
                                      .topic = QP_STR("other"),
                                      .by = {m->ns, m->job, m->guid, m->token}};
    QP_TRY(bundle_run(b));
    op = bundle_op(b, OP_msg_claim); /* which writes and scans what was put */
    op->msg_claim =
        (struct op_msg_claim){.ns = NS, .topic = QP_STR("other"), .want = 1, .lease_ms = LEASE_MS};
    return bundle_run(b);
}

/* Proves that a claim which puts a message beside the claimed one does not wait for the job, and is not waited for: another
 * transaction has the job's row from before it until behind it. */
static void test_beside_does_not_wait(void **state)
{
    PGconn *c = sql_open(f.path);
    struct commit commit;
    struct bundle *b;
    int64_t job = reserve(f.s, 1);
    (void)state;
    make_job(f.s, job);
    assert_int_equal(put(f.s, job, 1, QP_NONE), QP_OK);
    PQclear(PQexec(c, "BEGIN; UPDATE quipu.job SET priority=priority"));
    commit_init(&commit, f.s);
    b = commit_decided(&commit, "claim", claim_beside, NULL);
    assert_int_equal(store_commit(f.s, &commit), QP_OK);
    assert_int_equal(b->rc, QP_OK);
    commit_done(&commit);
    PQclear(PQexec(c, "COMMIT"));
    assert_int_equal(sql(c, "SELECT count(*) FROM quipu.msg WHERE state=3"), 2);
    PQfinish(c);
}

/* Proves that housekeeping takes away what is left of lanes, and keeps the clock. */
static void test_housekeeping(void **state)
{
    PGconn *c = sql_open(f.path);
    struct op claim = {.kind = OP_msg_claim,
                       .msg_claim = {.ns = NS, .topic = TOPIC, .want = 1, .lease_ms = LEASE_MS}};
    struct op ack = {.kind = OP_msg_ack};
    struct qp_err err = {0};
    int64_t job = reserve(f.s, 1);
    (void)state;
    make_job(f.s, job);
    assert_int_equal(put(f.s, job, 1, QP_STR("k")), QP_OK);
    assert_int_equal(storetest_op(&f, &claim), QP_OK);
    ack.msg_ack.ref = (struct msg_ref){NS, job, storetest_guid(1), 0};
    ack.msg_ack.ref.token =
        ((const struct msg_row *)storetest_row(
             &f, TABLE_msg, &(struct msg_row){.ns = NS, .job = job, .guid = storetest_guid(1)}))
            ->token;
    assert_int_equal(storetest_op(&f, &ack), QP_OK);
    assert_null(lane(QP_STR("k")));
    assert_int_equal(sql(c, "SELECT count(*) FROM quipu.lane"), 1);
    testenv_advance_ms(&f.t, 10000);
    assert_int_equal(store_idle(f.s, &err), QP_OK);
    assert_int_equal(sql(c, "SELECT count(*) FROM quipu.lane"), 0);
    assert_true(sql(c, "SELECT clock FROM quipu.head") > 0);
    PQfinish(c);
}

/* Proves that the tables have the columns of rows.def: names, types and keys. A column that a later migration added is the
 * last one of its table. */
static void test_columns_are_those_of_rows_def(void **state)
{
    static const char *const types[] = {"bigint", "bytea", "bytea"};
    PGconn *c = sql_open(f.path);
    (void)state;
    for (int i = 0; i < TABLE_COUNT; i++) {
        const struct table *d = &tables[i];
        char text[512];
        PGresult *r;
        (void)snprintf(
            text, sizeof text,
            "SELECT a.attname, format_type(a.atttypid,NULL), coalesce(array_position("
            "k.conkey,a.attnum),0) FROM pg_attribute a LEFT JOIN pg_constraint k ON"
            " k.conrelid=a.attrelid AND k.contype='p' WHERE a.attrelid='quipu.%s'::regclass"
            " AND a.attnum>0 ORDER BY a.attnum",
            d->name);
        r = PQexec(c, text);
        assert_int_equal(PQntuples(r), d->column_count);
        for (size_t k = 0; k < d->column_count; k++) {
            size_t at = 0;
            while (at < d->column_count &&
                   strcmp(PQgetvalue(r, (int)k, 0), d->columns[at].name) != 0) {
                at++;
            }
            assert_true(at < d->column_count);
            assert_string_equal(PQgetvalue(r, (int)k, 1), types[d->columns[at].kind]);
            assert_int_equal(strtoll(PQgetvalue(r, (int)k, 2), NULL, 10),
                             at < d->key_count ? at + 1 : 0);
        }
        PQclear(r);
    }
    PQfinish(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(test_columns_are_those_of_rows_def),
        TEST(test_sums),
        TEST(test_claims),
        TEST(test_limits),
        TEST(test_new_lanes),
        TEST(test_two_processes),
        TEST(test_feed_waits),
        TEST(test_feed_of_many),
        TEST(test_serialization_failure),
        TEST(test_reconnect),
        TEST(test_lost_and_aborted),
        TEST(test_lost_and_committed),
        TEST(test_refused),
        TEST(test_dumped_schema),
        TEST(test_migrated),
        TEST(test_server_clock),
        TEST(test_beside_does_not_wait),
        TEST(test_housekeeping),
        TEST(test_line_lost_under_host),
        TEST(test_stale_sum),
        TEST(test_numbers_after_a_loss),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

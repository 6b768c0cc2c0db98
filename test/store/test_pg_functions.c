/* test_pg_functions.c - start, signal and complete in transactions of the application's own
 *
 * An engine works on the database; the application has a connection of its own and a table of its own.
 * Whatever is killed between any two of its statements, its row and what it asked of the engine are both
 * there or neither, and the store is sound at every moment.
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
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernel/single.h"
#include "store/provider.h"
#include "support/enginetest.h"
#include "support/pgproxy.h"
#include "support/pgserver.h"

#define LEASE_MS 30000
#define LOOK_MS (LEASE_MS / 3 + 1) /* after which an engine looks for what others put */
#define WAIT_TRIES 1000
#define WAIT_US 10000
#define MANY 1000

static const struct actor cast[] = {
    {.name = "trigger", .category = 'D', .next = "pay"},
    {.name = "pay",
     .category = 'A',
     .deed = DEED_TASK,
     .topic = "t",
     .policy = "attempts=3",
     .next = "wait"},
    {.name = "wait", .category = 'A', .deed = DEED_HOOK, .topic = "paid", .key = "@"},
    {0}};

static struct enginetest x;
static PGconn *app;   /* the application */
static PGconn *other; /* somebody who looks on, and kills */

/* ------------------------------------------------------------------------------------------ SQL */

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

/* The first field of the answer, until the next call. */
static const char *sql(PGconn *c, const char *text)
{
    static char field[1024];
    PGresult *r = PQexec(c, text);
    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", text, PQresultErrorMessage(r));
    }
    (void)snprintf(field, sizeof field, "%s", PQntuples(r) > 0 ? PQgetvalue(r, 0, 0) : "");
    PQclear(r);
    return field;
}

static int64_t sql_count(PGconn *c, const char *text)
{
    return strtoll(sql(c, text), NULL, 10);
}

/* It is refused, with this state and this in its sentence. */
static void sql_refused(PGconn *c, const char *text, const char *sqlstate, const char *says)
{
    PGresult *r = PQexec(c, text);
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    if (state == NULL || strcmp(state, sqlstate) != 0 ||
        strstr(PQresultErrorMessage(r), says) == NULL) {
        fail_msg("%s: %s (%s)", text, PQresultErrorMessage(r), state == NULL ? "done" : state);
    }
    PQclear(r);
}

/* What is asked on this connection waits for somebody's lock. */
static void await_blocked(PGconn *c)
{
    char text[128];
    (void)snprintf(text, sizeof text, "SELECT cardinality(pg_blocking_pids(%d))", PQbackendPID(c));
    for (int i = 0; sql_count(other, text) == 0; i++) {
        assert_true(i < WAIT_TRIES);
        (void)usleep(WAIT_US);
    }
}

static void await_gone(int backend)
{
    char text[128];
    (void)snprintf(text, sizeof text, "SELECT count(*) FROM pg_stat_activity WHERE pid=%d",
                   backend);
    for (int i = 0; sql_count(other, text) > 0; i++) {
        assert_true(i < WAIT_TRIES);
        (void)usleep(WAIT_US);
    }
}

/* -------------------------------------------------------------------------------------- the world */

static void begin(bool stepwise)
{
    enginetest_init(&x, STORETEST_POSTGRES, cast);
    x.programs[1] = &single_program;
    x.options.program_count = 2;
    x.options.lease_ms = LEASE_MS;
    x.options.stepwise = stepwise;
    enginetest_open(&x);
    app = sql_open(x.f.path);
    other = sql_open(x.f.path);
    (void)sql(app, "CREATE TABLE IF NOT EXISTS public.sale(id text PRIMARY KEY);"
                   "TRUNCATE public.sale");
}

static void end(void)
{
    assert_int_equal(sql_count(other, "SELECT count(*) FROM quipu.tally"), 0);
    PQfinish(app);
    PQfinish(other);
    enginetest_done(&x);
}

static int set_up(void **state)
{
    (void)state;
    begin(false);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    end();
    return 0;
}

/* The engine looks, and does what there is; the store is sound before and after. */
static void look(void)
{
    enginetest_check(&x);
    enginetest_wait(&x, LOOK_MS);
    enginetest_check(&x);
}

static int64_t job_number(const char *jid)
{
    char text[256];
    (void)snprintf(text, sizeof text, "SELECT job FROM quipu.job_name WHERE ns=1 AND jid='%s'",
                   jid);
    return sql_count(other, text);
}

/* Fails unless the job is there and has this state. */
static const struct job_row *job_is(const char *jid, enum job_state state)
{
    const struct job_row *job = enginetest_job(&x, job_number(jid));
    if (job == NULL || job->state != (int64_t)state) {
        fail_msg("job '%s': %s, state %lld", jid, job == NULL ? "not there" : "there",
                 job == NULL ? -1LL : (long long)job->state);
    }
    return job;
}

static const char *token_of(const struct task *task)
{
    static char token[128];
    int n = snprintf(token, sizeof token, "t1.%lld.%lld.", (long long)task->ref.ns,
                     (long long)task->ref.job);
    for (size_t i = 0; i < LIMIT_GUID_SIZE; i++) {
        n += snprintf(token + n, sizeof token - (size_t)n, "%02x",
                      (unsigned char)task->ref.guid.p[i]);
    }
    (void)snprintf(token + n, sizeof token - (size_t)n, ".%lld", (long long)task->ref.token);
    return token;
}

static const char *complete_text(const struct task *task)
{
    static char text[512];
    (void)snprintf(text, sizeof text, "SELECT quipu.complete('%s', '\"done\"')", token_of(task));
    return text;
}

/* Starts by the API, a job of one task as the functions make them. */
static int api_start(const char *jid, const char *topic, const char *input)
{
    struct request_start r;
    enginetest_fill_start(&x, &r, jid, input);
    r.start.job.kind = SINGLE_KIND;
    r.start.job.workflow = str_from(topic);
    return enginetest_ask(&x, &r.command);
}

/* -------------------------------------------------------------------------------------------- start */

/* A job that is started by SQL is, digit by digit, the one that the API starts: fused and stepwise, and
 * what its worker is given is the payload as it came. */
static void start_becomes_a_job(bool stepwise)
{
    static const char *const places[] = {"trigger,0", "run,0,0"};
    char digits[2][256];
    begin(stepwise);
    assert_string_equal(sql(app, "SELECT quipu.start('t', ' {\"a\": 1} ', 'one')"), "one");
    assert_null(enginetest_task(&x, "one", NULL));
    look();
    x.job = job_number("one");
    assert_true(str_equal(enginetest_task(&x, "one", NULL)->input, QP_STR(" {\"a\": 1} ")));
    assert_int_equal(enginetest_work(&x), 1);
    (void)job_is("one", JOB_COMPLETED);
    assert_int_equal(x.ended, 1);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(digits[i], sizeof digits[i], "%s", enginetest_digits(&x, places[i]));
    }
    assert_int_equal(api_start("two", "t", " {\"a\": 1} "), QP_OK);
    x.job = job_number("two");
    (void)enginetest_work(&x);
    (void)job_is("two", JOB_COMPLETED);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(digits[i], enginetest_digits(&x, places[i]));
        assert_int_not_equal(digits[i][0], '\0');
    }
    assert_int_equal(sql_count(app, "SELECT count(*) FROM quipu.msg"), 0);
    end();
}

static void test_start_becomes_a_job(void **state)
{
    (void)state;
    start_becomes_a_job(false);
    start_becomes_a_job(true);
}

/* An id is made when none is given, jsonb is taken, and so is a namespace. */
static void test_start_forms(void **state)
{
    struct op space = {.kind = OP_space_create, .space_create = {.name = QP_STR("tenant")}};
    char id[64];
    (void)state;
    (void)snprintf(id, sizeof id, "%s", sql(app, "SELECT quipu.start('t', 'null')"));
    assert_int_equal(strlen(id), 36);
    assert_int_not_equal(strcmp(id, sql(app, "SELECT quipu.start('t', 'null')")), 0);
    (void)sql(app,
              "SELECT quipu.start(topic => 't', payload => '{\"b\":[]}'::jsonb, id => 'binary')");
    look();
    assert_true(str_equal(enginetest_task(&x, "binary", NULL)->input, QP_STR("{\"b\": []}")));
    assert_int_equal(enginetest_work(&x), 3);
    assert_int_equal(storetest_op(&x.f, &space), QP_OK);
    (void)sql(app, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    (void)sql(app, "SELECT quipu.start('t', '1', 'binary', 'tenant')");
    (void)sql(app, "COMMIT");
    look();
    assert_int_equal(enginetest_task(&x, "binary", NULL)->ref.ns, space.space_create.out_ns);
    assert_int_equal(enginetest_work(&x), 1);
    (void)job_is(id, JOB_COMPLETED);
    sql_refused(app, "SELECT quipu.start('t', '1', 'a', 'nobody')", "QP006", "there is none");
}

/* ------------------------------------------------------------------------------ killed in between */

enum death { DEATH_KILLED, DEATH_CUT, DEATHS };

/* The first `count` statements, then the end of the connection. */
static void run_and_die(const char *const *statements, int count, enum death death)
{
    int backend;
    char text[128];
    for (int i = 0; i < count; i++) {
        (void)sql(app, statements[i]);
    }
    backend = PQbackendPID(app);
    if (death == DEATH_KILLED) {
        (void)snprintf(text, sizeof text, "SELECT pg_terminate_backend(%d)", backend);
        (void)sql(other, text);
    } else {
        (void)shutdown(PQsocket(app), SHUT_RDWR);
    }
    await_gone(backend);
    PQfinish(app);
    app = sql_open(x.f.path);
}

/* A row of the application's and a start in one transaction, killed between any two statements: both are
 * there, or neither; and what is there is done once. */
static void test_start_killed(void **state)
{
    char sale[128];
    char start[128];
    int64_t committed = 0;
    (void)state;
    for (int round = 0; round < 2 * DEATHS * 5; round++) {
        int count = round / (2 * DEATHS);
        bool row_first = round % 2 == 0;
        const char *statements[] = {"BEGIN", row_first ? sale : start, row_first ? start : sale,
                                    "COMMIT"};
        (void)snprintf(sale, sizeof sale, "INSERT INTO public.sale VALUES('s%d')", round);
        (void)snprintf(start, sizeof start, "SELECT quipu.start('t', '{}', 's%d')", round);
        run_and_die(statements, count, (enum death)(round / 2 % DEATHS));
        committed += count == 4;
        assert_int_equal(sql_count(app, "SELECT count(*) FROM public.sale"), committed);
        assert_int_equal(sql_count(app,
                                   "SELECT count(*) FROM public.sale s FULL JOIN quipu.job_name n"
                                   " ON convert_to(s.id,'UTF8')=n.jid"
                                   " WHERE s.id IS NULL OR n.jid IS NULL"),
                         0);
        enginetest_check(&x);
    }
    assert_int_equal(committed, 2 * DEATHS);
    look();
    assert_int_equal(enginetest_work(&x), committed);
    assert_int_equal(x.ended, committed);
    assert_int_equal(sql_count(app, "SELECT count(*) FROM quipu.job WHERE state=1"), committed);
}

/* The answer to COMMIT is lost: the application does not know, says the same again, and there is one. */
static void test_start_commit_unheard(void **state)
{
    struct pgproxy *proxy = pgproxy_start((int)strtol(PQport(app), NULL, 10));
    PGconn *c;
    (void)state;
    c = sql_open(pgproxy_url(proxy, PQdb(app)));
    pgproxy_arm(proxy, &(struct pgproxy_fault){.kind = PGPROXY_DROP_COMMIT});
    (void)sql(c, "BEGIN");
    (void)sql(c, "INSERT INTO public.sale VALUES('u')");
    (void)sql(c, "SELECT quipu.start('t', '{}', 'u')");
    PQclear(PQexec(c, "COMMIT"));
    assert_int_equal(PQstatus(c), CONNECTION_BAD);
    PQfinish(c);
    pgproxy_stop(proxy);
    assert_int_equal(sql_count(app, "SELECT count(*) FROM public.sale"), 1);
    assert_string_equal(sql(app, "SELECT quipu.start('t', '{}', 'u')"), "u");
    look();
    assert_int_equal(enginetest_work(&x), 1);
    assert_int_equal(x.ended, 1);
}

/* The same for complete: the job is completed if and only if the row is there, once; the task stays ours
 * when it is not. */
static void test_complete_killed(void **state)
{
    char sale[128];
    char jid[32];
    int64_t committed = 0;
    (void)state;
    for (int round = 0; round < 2 * DEATHS * 5; round++) {
        int count = round / (2 * DEATHS);
        bool row_first = round % 2 == 0;
        char complete[512];
        const char *statements[] = {"BEGIN", row_first ? sale : complete,
                                    row_first ? complete : sale, "COMMIT"};
        struct task *task;
        (void)snprintf(jid, sizeof jid, "c%d", round);
        assert_int_equal(api_start(jid, "t", "{}"), QP_OK);
        task = enginetest_task(&x, jid, NULL);
        (void)snprintf(sale, sizeof sale, "INSERT INTO public.sale VALUES('%s')", jid);
        (void)snprintf(complete, sizeof complete, "%s", complete_text(task));
        run_and_die(statements, count, (enum death)(round / 2 % DEATHS));
        enginetest_check(&x);
        look();
        committed += count == 4;
        assert_int_equal(sql_count(app, "SELECT count(*) FROM public.sale"), committed);
        (void)job_is(jid, count == 4 ? JOB_COMPLETED : JOB_OPEN);
        assert_int_equal(x.ended, round + (count == 4));
        assert_int_equal(enginetest_result(&x, task, RESULT_DONE, "\"late\""),
                         count == 4 ? QP_E_STALE : QP_OK);
        (void)job_is(jid, JOB_COMPLETED);
        enginetest_forget(&x, task);
        assert_int_equal(x.ended, round + 1);
    }
    assert_int_equal(committed, 2 * DEATHS);
}

/* ---------------------------------------------------------------------------------- the same twice */

/* A start by SQL and one by the API are the same start, whichever comes first, whatever was done since. */
static void test_start_twice(void **state)
{
    static const char conflict[] = "a job with this id was started with another input";
    (void)state;
    (void)sql(app, "SELECT quipu.start('t', '{}', 'a')");
    (void)sql(app, "SELECT quipu.start('t', '{}', 'a')");
    assert_int_equal(api_start("a", "t", "{}"), QP_E_EXISTS); /* which does not begin it */
    assert_int_equal(api_start("a", "t", "[]"), QP_E_CONFLICT);
    assert_int_equal(api_start("a", "u", "{}"), QP_E_CONFLICT);
    sql_refused(app, "SELECT quipu.start('t', '[]', 'a')", "QP002", conflict);
    sql_refused(app, "SELECT quipu.start('u', '{}', 'a')", "QP002", conflict);
    look();
    assert_int_equal(api_start("a", "t", "{}"), QP_E_EXISTS);
    assert_int_equal(enginetest_work(&x), 1);
    assert_string_equal(sql(app, "SELECT quipu.start('t', '{}', 'a')"), "a");
    assert_int_equal(api_start("b", "t", "{}"), QP_OK);
    assert_string_equal(sql(app, "SELECT quipu.start('t', '{}', 'b')"), "b");
    sql_refused(app, "SELECT quipu.start('t', '[]', 'b')", "QP002", conflict);
    look();
    assert_int_equal(enginetest_work(&x), 1);
    assert_int_equal(x.ended, 2);
    assert_int_equal(sql_count(app, "SELECT count(*) FROM quipu.job"), 2);
}

/* Two connections at once: the second waits for the first, and gets what that has decided. */
static void test_start_at_once(void **state)
{
    static const struct {
        const char *first_ends;
        const char *second;
        const char *sqlstate; /* NULL: it has started the job, or was told of it */
    } cases[] = {{"COMMIT", "SELECT quipu.start('t', '{}', 'a0')", NULL},
                 {"COMMIT", "SELECT quipu.start('t', '[]', 'a1')", "QP002"},
                 {"ROLLBACK", "SELECT quipu.start('t', '[]', 'a2')", NULL}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        PGconn *second = sql_open(x.f.path);
        char text[128];
        PGresult *r;
        const char *found;
        (void)sql(app, "BEGIN");
        (void)snprintf(text, sizeof text, "SELECT quipu.start('t', '{}', 'a%zu')", i);
        (void)sql(app, text);
        assert_int_equal(PQsendQuery(second, cases[i].second), 1);
        await_blocked(second);
        (void)sql(app, cases[i].first_ends);
        r = PQgetResult(second);
        found = PQresultErrorField(r, PG_DIAG_SQLSTATE);
        if (cases[i].sqlstate == NULL) {
            assert_null(found);
        } else {
            assert_string_equal(found, cases[i].sqlstate);
        }
        PQclear(r);
        assert_null(PQgetResult(second));
        PQfinish(second);
        enginetest_check(&x);
    }
    look();
    assert_int_equal(enginetest_work(&x), 3);
    assert_int_equal(x.ended, 3);
}

/* Ends the application's transaction as soon as the engine waits for it. */
static void *end_when_blocked(void *statement)
{
    PGconn *watch = PQconnectdb(x.f.path);
    PGresult *r = NULL;
    bool blocked = false;
    for (int i = 0; i < WAIT_TRIES && !blocked; i++) {
        r = PQexec(watch,
                   "SELECT FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid))>0");
        blocked = PQntuples(r) > 0;
        PQclear(r);
        (void)usleep(WAIT_US);
    }
    QP_ASSERT(blocked);
    r = PQexec(app, statement);
    QP_ASSERT(PQresultStatus(r) == PGRES_COMMAND_OK);
    PQclear(r);
    PQfinish(watch);
    return NULL;
}

/* The engine starts what an open transaction has started: it waits, and then knows. */
static void test_start_beside_engine(void **state)
{
    static struct {
        char ends[16];
        const char *input;
        int answer;
    } cases[] = {
        {"COMMIT", "{}", QP_E_EXISTS}, {"COMMIT", "[]", QP_E_CONFLICT}, {"ROLLBACK", "[]", QP_OK}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        pthread_t thread;
        char text[128];
        char jid[16];
        (void)sql(app, "BEGIN");
        (void)snprintf(jid, sizeof jid, "e%zu", i);
        (void)snprintf(text, sizeof text, "SELECT quipu.start('t', '{}', '%s')", jid);
        (void)sql(app, text);
        assert_int_equal(pthread_create(&thread, NULL, end_when_blocked, cases[i].ends), 0);
        assert_int_equal(api_start(jid, "t", cases[i].input), cases[i].answer);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    look();
    assert_int_equal(enginetest_work(&x), 3);
    assert_int_equal(x.ended, 3);
}

/* ------------------------------------------------------------------------- many, none, and in nobody's way */

/* A thousand in one transaction; one that rolls back leaves nothing, and a savepoint its part. */
static void test_many_and_none(void **state)
{
    (void)state;
    (void)sql(app, "BEGIN");
    (void)sql(app,
              "SELECT count(quipu.start('t', '{}', 'gone' || i)) FROM generate_series(1,20) i");
    (void)sql(app, "ROLLBACK");
    assert_int_equal(sql_count(app, "SELECT count(*) FROM quipu.job"), 0);
    (void)sql(app, "BEGIN");
    assert_int_equal(
        sql_count(app,
                  "SELECT count(quipu.start('t', '{}', 'm' || i)) FROM generate_series(1,1000) i"),
        MANY);
    (void)sql(app, "SAVEPOINT s");
    (void)sql(app, "SELECT quipu.start('t', '{}', 'unsaid')");
    (void)sql(app, "ROLLBACK TO s");
    assert_int_equal(sql_count(other, "SELECT count(*) FROM quipu.job"), 0);
    (void)sql(app, "COMMIT");
    look();
    assert_int_equal(enginetest_work(&x), MANY);
    assert_int_equal(x.ended, MANY);
    assert_int_equal(job_number("unsaid"), 0);
}

/* An application that has started, signalled and completed, and thinks before it commits, keeps no engine
 * waiting, not even on the same topic: nothing here waits for a lock. */
static void test_open_transaction_blocks_nobody(void **state)
{
    (void)state;
    assert_int_equal(api_start("held", "t", "{}"), QP_OK);
    (void)sql(app, "BEGIN");
    (void)sql(app, "SELECT quipu.start('t', '{}', 'waiting')");
    (void)sql(app, "SELECT quipu.signal('news', 'k', '1')");
    (void)sql(app, complete_text(enginetest_task(&x, "held", NULL)));
    assert_int_equal(api_start("free", "t", "{}"), QP_OK);
    assert_int_equal(
        enginetest_result(&x, enginetest_task(&x, "free", NULL), RESULT_DONE, "\"ok\""), QP_OK);
    enginetest_forget(&x, enginetest_task(&x, "free", NULL));
    look();
    (void)job_is("free", JOB_COMPLETED);
    (void)job_is("held", JOB_OPEN);
    (void)sql(app, "COMMIT");
    look();
    (void)job_is("held", JOB_COMPLETED);
    enginetest_forget(&x, enginetest_task(&x, "held", NULL));
    assert_int_equal(enginetest_work(&x), 1);
    (void)job_is("waiting", JOB_COMPLETED);
}

/* A host's own writes, inside an engine's commit. */
static int host_starts(void *context, void *native)
{
    PGresult *r = PQexec(native, "SELECT quipu.start('t', '{}', 'second')");
    bool good = PQresultStatus(r) == PGRES_TUPLES_OK;
    PQclear(r);
    return good ? *(const int *)context : QP_E_ABORTED;
}

/* They may start a job, too: it is there when the engine's own bundle is. */
static void test_start_in_host_callback(void **state)
{
    int refuses = QP_E_ABORTED;
    int agrees = QP_OK;
    struct request_start r;
    (void)state;
    enginetest_fill_start(&x, &r, "first", "{}");
    r.host = host_starts;
    r.host_context = &refuses;
    assert_int_equal(enginetest_ask(&x, &r.command), QP_E_ABORTED);
    assert_int_equal(sql_count(other, "SELECT count(*) FROM quipu.job"), 0);
    r.host_context = &agrees;
    assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
    assert_int_equal(sql_count(other, "SELECT count(*) FROM quipu.job"), 2);
    look();
    assert_int_equal(enginetest_work(&x), 2);
    (void)job_is("second", JOB_COMPLETED);
    (void)job_is("first", JOB_OPEN); /* it waits for its signal */
}

/* Ended, paused or out of time before its START is delivered; the last one's is put off by hand. */
static void test_unbegun(void **state)
{
    struct op pause = {.kind = OP_job_pause};
    struct op resume = {.kind = OP_job_resume, .job_resume = {.limit = LIMIT_SWEEP_ROWS}};
    (void)state;
    (void)sql(app, "SELECT quipu.start('t', '{}', 'cancelled'), quipu.start('t', '{}', 'paused'),"
                   " quipu.start('t', '{}', 'expired')");
    pause.job_pause.ref = resume.job_resume.ref =
        (struct job_ref){STORE_NS_DEFAULT, job_number("paused")};
    assert_int_equal(storetest_op(&x.f, &pause), QP_OK);
    (void)sql(other, "UPDATE quipu.job SET expire_at=1, rev=rev+1 WHERE jid='expired'");
    (void)sql(other, "UPDATE quipu.msg SET state=2, wake_at=9000000000000000, rev=msg.rev+1"
                     " FROM quipu.job j WHERE j.jid='expired' AND msg.job=j.job");
    (void)sql(other, "UPDATE quipu.lane SET ready=ready-1 WHERE topic='quipu:engine'");
    enginetest_check(&x);
    assert_int_equal(enginetest_end(&x, "cancelled", JOB_CANCELLED), QP_OK);
    assert_int_equal(enginetest_rows(&x, TABLE_msg, job_number("cancelled")), 0);
    look();
    (void)job_is("cancelled", JOB_CANCELLED);
    (void)job_is("expired", JOB_FAILED);
    assert_int_equal(api_start("cancelled", "t", "{}"), QP_E_EXISTS);
    assert_null(enginetest_task(&x, "paused", NULL));
    assert_int_equal(storetest_op(&x.f, &resume), QP_OK);
    look();
    assert_int_equal(enginetest_work(&x), 1);
    (void)job_is("paused", JOB_COMPLETED);
}

/* ----------------------------------------------------------------------------------------- complete */

/* Every way in which a task can be no longer ours, and each is told. */
static void test_complete_stale(void **state)
{
    static const char stale[] = "no longer yours";
    char text[512];
    struct task *task;
    struct op retry = {.kind = OP_msg_retry};
    (void)state;
    assert_int_equal(api_start("a", "t", "{}"), QP_OK);
    task = enginetest_task(&x, "a", NULL);
    (void)snprintf(text, sizeof text, "%s", complete_text(task));
    (void)sql(app, "BEGIN");
    (void)sql(app, text);
    sql_refused(app, text, "QP003", stale); /* twice */
    (void)sql(app, "ROLLBACK");
    retry.msg_retry.ref = task->ref;
    assert_int_equal(storetest_op(&x.f, &retry), QP_OK); /* given back: nobody has it */
    sql_refused(app, text, "QP003", stale);
    enginetest_forget(&x, task);
    look(); /* and given out again, with another token */
    sql_refused(app, text, "QP003", stale);
    task = enginetest_task(&x, "a", NULL);
    (void)sql(app, complete_text(task));
    look();
    sql_refused(app, complete_text(task), "QP003", stale);
    (void)job_is("a", JOB_COMPLETED);
    enginetest_forget(&x, task);

    assert_int_equal(api_start("b", "t", "{}"), QP_OK);
    task = enginetest_task(&x, "b", NULL);
    (void)sql(other, "UPDATE quipu.job SET state=3 WHERE jid='b'"); /* ended, but not swept yet */
    sql_refused(app, complete_text(task), "QP003", stale);
    (void)sql(other, "UPDATE quipu.job SET state=0 WHERE jid='b'");
    assert_int_equal(enginetest_end(&x, "b", JOB_CANCELLED), QP_OK);
    sql_refused(app, complete_text(task), "QP003", stale);
    enginetest_forget(&x, task);
}

/* Cancelled between complete and its delivery, or paused: the first has ended, the second goes on later. */
static void test_complete_then_ended_or_paused(void **state)
{
    struct op pause = {.kind = OP_job_pause};
    struct op resume = {.kind = OP_job_resume, .job_resume = {.limit = LIMIT_SWEEP_ROWS}};
    (void)state;
    assert_int_equal(api_start("ended", "t", "{}"), QP_OK);
    assert_int_equal(api_start("paused", "t", "{}"), QP_OK);
    (void)sql(app, complete_text(enginetest_task(&x, "ended", NULL)));
    assert_int_equal(enginetest_end(&x, "ended", JOB_CANCELLED), QP_OK);
    pause.job_pause.ref = resume.job_resume.ref =
        (struct job_ref){STORE_NS_DEFAULT, job_number("paused")};
    assert_int_equal(storetest_op(&x.f, &pause), QP_OK);
    (void)sql(app, complete_text(enginetest_task(&x, "paused", NULL)));
    look();
    (void)job_is("ended", JOB_CANCELLED);
    (void)job_is("paused", JOB_OPEN);
    assert_int_equal(storetest_op(&x.f, &resume), QP_OK);
    look();
    (void)job_is("paused", JOB_COMPLETED);
    enginetest_forget(&x, x.tasks);
    enginetest_forget(&x, x.tasks);
    assert_int_equal(x.ended, 2);
}

/* The engine decides about a task that an open transaction is completing: it waits, and then finds it
 * answered (committed), or its own again (rolled back). */
static void test_complete_beside_engine(void **state)
{
    static struct {
        char ends[16];
        bool cancel; /* else the worker completes it, too */
        int answer;
        enum job_state state;
    } cases[] = {{"COMMIT", false, QP_E_STALE, JOB_COMPLETED},
                 {"ROLLBACK", false, QP_OK, JOB_COMPLETED},
                 {"COMMIT", true, QP_OK, JOB_CANCELLED},
                 {"ROLLBACK", true, QP_OK, JOB_CANCELLED}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        pthread_t thread;
        char jid[16];
        struct task *task;
        int rc;
        (void)snprintf(jid, sizeof jid, "b%zu", i);
        assert_int_equal(api_start(jid, "t", "{}"), QP_OK);
        task = enginetest_task(&x, jid, NULL);
        (void)sql(app, "BEGIN");
        (void)sql(app, complete_text(task));
        assert_int_equal(pthread_create(&thread, NULL, end_when_blocked, cases[i].ends), 0);
        rc = cases[i].cancel ? enginetest_end(&x, jid, JOB_CANCELLED)
                             : enginetest_result(&x, task, RESULT_DONE, "\"mine\"");
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(rc, cases[i].answer);
        look();
        (void)job_is(jid, cases[i].state);
        enginetest_forget(&x, task);
        assert_int_equal(x.ended, (int64_t)i + 1);
    }
}

/* The response of a task that had failed before: people see that the job goes on; then a signal, by SQL as
 * well, ends it. Fused and stepwise. */
static void complete_goes_on(bool stepwise)
{
    struct task *task;
    begin(stepwise);
    assert_int_equal(enginetest_start(&x, "go"), QP_OK);
    task = enginetest_task(&x, "go", NULL);
    assert_int_equal(enginetest_result(&x, task, RESULT_ERROR, "\"no\""), QP_OK);
    enginetest_forget(&x, task);
    assert_int_equal(enginetest_job(&x, x.job)->status, STATUS_RETRYING);
    enginetest_wait(&x, 3600000);
    task = enginetest_task(&x, "go", NULL);
    (void)sql(app, complete_text(task));
    look();
    enginetest_forget(&x, task);
    assert_int_equal(enginetest_job(&x, x.job)->status, STATUS_WAITING); /* for the signal */
    assert_true(str_equal(enginetest_act(&x, x.job, "pay,0,0")->output, QP_STR("\"done\"")));
    assert_string_equal(sql(app, "SELECT quipu.signal('paid', 'go', '{\"ok\":true}')"), "t");
    look();
    (void)job_is("go", JOB_COMPLETED);
    assert_int_equal(x.ended, 1);
    end();
}

static void test_complete_goes_on(void **state)
{
    (void)state;
    complete_goes_on(false);
    complete_goes_on(true);
}

/* A task that has failed for good ends its job, with the error in the form that the API gives it. */
static void test_fail(void **state)
{
    char text[512];
    const struct job_row *job;
    (void)state;
    assert_int_equal(api_start("f", "t", "{}"), QP_OK);
    (void)snprintf(text, sizeof text, "SELECT quipu.fail('%s', E'no \"money\"\\n', 402)",
                   token_of(x.tasks));
    (void)sql(app, text);
    sql_refused(app, text, "QP003", "no longer yours");
    look();
    job = job_is("f", JOB_FAILED);
    assert_true(str_equal(
        job->error,
        QP_STR(
            "{\"code\":402,\"message\":\"no \\\"money\\\"\\n\",\"activity\":\"run\",\"address\":\"run,0,0\"}")));
    enginetest_forget(&x, x.tasks);
    assert_int_equal(x.ended, 1);
}

/* The token of the public API, and a handle that is opened after the transaction finds what it did. */
static void test_public_token(void **state)
{
    const char *url = pgserver_shared();
    struct qp_options options;
    struct qp_start start = {.topic = QP_STR("work"), .id = QP_STR("p"), .input = QP_STR("{}")};
    struct qp_err err = {0};
    struct qp_job job = {0};
    char token[QP_TASK_TOKEN_SIZE];
    char text[512];
    qp_task *task = NULL;
    qp *q = NULL;
    PGconn *c;
    (void)state;
    qp_options_init(&options);
    options.path = url;
    assert_int_equal(qp_open(&options, &q, &err), QP_OK);
    assert_int_equal(qp_job_start(q, &start, NULL, &err), QP_OK);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    qp_task_token(task, token);
    c = sql_open(url);
    (void)snprintf(text, sizeof text, "SELECT quipu.complete('%s', '{\"by\":\"SQL\"}')", token);
    (void)sql(c, text);
    PQfinish(c);
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_E_STALE);
    assert_int_equal(qp_close(q, &err), QP_OK);
    assert_int_equal(qp_open(&options, &q, &err), QP_OK);
    assert_int_equal(qp_job_wait(q, QP_STR("p"), 30000, &job, &err), QP_OK);
    assert_string_equal(job.status, "completed");
    assert_true(str_equal(job.output, QP_STR("{\"by\":\"SQL\"}")));
    qp_job_done(q, &job);
    assert_int_equal(qp_close(q, &err), QP_OK);
}

/* ------------------------------------------------------------------------------------------ signals */

/* Early, late, twice; rolled back; and kept no longer than asked. */
static void test_signals(void **state)
{
    (void)state;
    (void)sql(app, "BEGIN");
    (void)sql(app, "SELECT quipu.signal('paid', 'j', '0')");
    (void)sql(app, "ROLLBACK");
    assert_string_equal(sql(app, "SELECT quipu.signal('paid', 'j', '1', id => 'one')"), "t");
    assert_string_equal(sql(app, "SELECT quipu.signal('paid', 'j', '1', id => 'one')"), "f");
    look();
    assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 1);
    assert_string_equal(sql(app, "SELECT quipu.signal('paid', 'j', '1', id => 'one')"), "t");
    look(); /* it is kept already */
    assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 1);
    assert_int_equal(storetest_count(&x.f, TABLE_msg), 0);
    assert_int_equal(enginetest_start(&x, "j"), QP_OK);
    assert_int_equal(enginetest_work(&x), 1);
    (void)job_is("j", JOB_COMPLETED);
    assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 0);
    /* It was delivered: it is not kept for whoever comes next. The same id at two other keys is two signals. */
    assert_string_equal(sql(app, "SELECT quipu.signal('paid', 'j', '1', id => 'one')"), "t");
    assert_string_equal(sql(app, "SELECT quipu.signal('paid', 'k1', '1', id => 'one')"), "t");
    assert_string_equal(sql(app, "SELECT quipu.signal('paid', 'k2', '1', id => 'one')"), "t");
    look();
    assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 2);
    assert_int_equal(enginetest_signal_by_id(&x, "paid", "k1", "one"), QP_E_EXISTS);
    assert_int_equal(enginetest_start(&x, "k1"), QP_OK);
    assert_int_equal(enginetest_start(&x, "k2"), QP_OK);
    assert_int_equal(enginetest_work(&x), 2);
    (void)job_is("k1", JOB_COMPLETED);
    (void)job_is("k2", JOB_COMPLETED);
    assert_int_equal(enginetest_signal_by_id(&x, "paid", "k2", "one"), QP_E_EXISTS);

    assert_int_equal(enginetest_start(&x, "l"), QP_OK);
    assert_int_equal(enginetest_work(&x), 1);
    (void)sql(app, "SELECT quipu.signal('paid', 'l', '{\"a\":1}'::jsonb)");
    look();
    (void)job_is("l", JOB_COMPLETED);
    assert_int_equal(x.ended, 4);

    (void)sql(app, "SELECT quipu.signal('paid', 'nobody', '1', ttl => '1 minute')");
    look();
    assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 1);
    enginetest_wait(&x, 61000);
    assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 0);
}

/* --------------------------------------------------------------------------------------- bad input */

static void test_bad_input(void **state)
{
    static const struct {
        const char *text;
        const char *sqlstate;
        const char *says;
    } cases[] = {
        {"SELECT quipu.start(NULL, '{}')", "QP004", "topic: is empty"},
        {"SELECT quipu.start('', '{}')", "QP004", "topic: is empty"},
        {"SELECT quipu.start(repeat('t',256), '{}')", "QP005",
         "topic: 256 bytes, the limit is 255"},
        {"SELECT quipu.start('a b', '{}')", "QP004", "none of A-Z"},
        {"SELECT quipu.start(E'a\\n', '{}')", "QP004", "none of A-Z"},
        {"SELECT quipu.start('\u00e4', '{}')", "QP004", "none of A-Z"},
        {"SELECT quipu.start('quipu:engine', '{}')", "QP004", "the engine's own"},
        {"SELECT quipu.start('t', '{}', '')", "QP004", "job id: is empty"},
        {"SELECT quipu.start('t', '{}', repeat('\u00e4',128))", "QP005", "job id: 256 bytes"},
        {"SELECT quipu.start('t', '{}', E'a\\u0007b')", "QP004", "control character"},
        {"SELECT quipu.start('t', '{}', E'a\\u0085b')", "QP004", "control character"},
        {"SELECT quipu.start('t', '{}', ' a')", "QP004", "white space"},
        {"SELECT quipu.start('t', '{}', E'a\\u3000')", "QP004", "white space"},
        {"SELECT quipu.start('t', NULL::text)", "QP004", "input: is empty"},
        {"SELECT quipu.start('t', '')", "QP004", "input: is empty"},
        {"SELECT quipu.start('t', '{')", "QP004", "input: is not JSON"},
        {"SELECT quipu.start('t', '\"\\u0000\"')", "QP004", "input: is not JSON"},
        {"SELECT quipu.start('t', '\"\\ud800\"')", "QP004", "input: is not JSON"},
        {"SELECT quipu.start('t', '1e400')", "QP004", "too large for a double"},
        {"SELECT quipu.start('t', '[1,-2E+309]')", "QP004", "too large for a double"},
        {"SELECT quipu.start('t', '{\"a\":1,\"b\":{\"c\":1,\"c\":2}}')", "QP004", "a key twice"},
        {"SELECT quipu.start('t', '{\"a\":1,\"\\u0061\":2}')", "QP004", "a key twice"},
        {"SELECT quipu.start('t', repeat('1',65))", "QP005", "more than 64 characters"},
        {"SELECT quipu.start('t', repeat('[',65)||repeat(']',65))", "QP005", "deeper than 64"},
        {"SELECT quipu.start('t', '\"'||repeat('a',2097152)||'\"')", "QP005",
         "the limit is 2097152"},
        {"SELECT quipu.signal('', 'k', '1')", "QP004", "topic: is empty"},
        {"SELECT quipu.signal('t', '', '1')", "QP004", "key: is empty"},
        {"SELECT quipu.signal('t', 'k', 'x')", "QP004", "payload: is not JSON"},
        {"SELECT quipu.signal('t', 'k', '1', id => ' ')", "QP004", "signal id: begins or ends"},
        {"SELECT quipu.signal('t', 'k', '1', ttl => '0 s')", "QP004", "ttl"},
        {"SELECT quipu.signal('t', 'k', '1', ttl => '11 years')", "QP004", "ttl"},
        {"SELECT quipu.fail('t1', '')", "QP004", "error: is empty"},
        {"SELECT quipu.fail('t1', repeat('e', 4097))", "QP005", "error: 4097 bytes"},
        {"SELECT quipu.fail('t1', 'e', 200)", "QP004", "400 to 599"},
        {"SELECT quipu.fail('t1', 'e')", "QP004", "token"},
        {"SELECT quipu.complete(NULL, '1')", "QP004", "token"},
        {"SELECT quipu.complete('t1.1.2.3.4', '1')", "QP004", "token"},
        {"SELECT quipu.complete('t1.1.2.00000000000000000000000000000000.4', 'x')", "QP004",
         "output: is not JSON"},
        {"SELECT quipu.complete('t1.1.2.00000000000000000000000000000000.4', '1')", "QP003",
         "no longer yours"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        sql_refused(app, cases[i].text, cases[i].sqlstate, cases[i].says);
    }
    assert_int_equal(sql_count(app, "SELECT count(*) FROM quipu.job"), 0);
}

/* What is just within the limits is taken, by the function and by the engine. */
static void test_good_input(void **state)
{
    static const char *const inputs[] = {
        "repeat('[',64)||repeat(']',64)",
        "repeat('1',64)",
        "'1.7976931348623157e308'",
        "'1e-400'",
        "'{\"a\":{\"a\":\":{\\\"[\"},\"b\":[{},{\"a\":1}]}'",
        "'\"\\ud83d\\ude00\"'",
        "' \"\" '",
    };
    char text[256];
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(inputs); i++) {
        (void)snprintf(text, sizeof text, "SELECT quipu.start('t', %s)", inputs[i]);
        (void)sql(app, text);
    }
    (void)sql(app, "SELECT quipu.start('A9._~:-', '1', 'a b\u00e4' || repeat('i', 250))");
    look();
    assert_int_equal(enginetest_work(&x), ARRAY_COUNT(inputs));
    assert_int_equal(sql_count(app, "SELECT count(*) FROM quipu.job WHERE parked IS NOT NULL"), 0);
}

/* What somebody wrote into the table past the functions is a dead letter at once, its job parked, and the
 * job can still be ended. */
static void test_malformed_messages(void **state)
{
    static const char *const signals[] = {
        "",        "1",       "1 \n",     " 1\n",      "1 2\nk",    "0 1\nk1",
        "1 1\nk",  "1 1\nkx", "-1 1\nk1", "1 1\nk1 1", "1 300\nk1", "99999999999999999999 1\nk1",
        "1 1\n\t1"};
    (void)state;
    assert_int_equal(api_start("worse", "t", "{}"), QP_OK);
    (void)sql(app, "SELECT quipu.start('t', '{}', 'bad')");
    (void)sql(app, complete_text(enginetest_task(&x, "worse", NULL)));
    (void)sql(other, "UPDATE quipu.msg SET payload='{', rev=rev+1 WHERE kind IN (7,9)");
    for (size_t i = 0; i < ARRAY_COUNT(signals); i++) {
        static const Oid types[] = {17}; /* bytea */
        const char *values[] = {signals[i]};
        int lengths[] = {(int)strlen(signals[i])};
        int formats[] = {1};
        PGresult *r;
        (void)sql(other, "SELECT quipu.signal('t', 'k', '1')");
        r = PQexecParams(other,
                         "UPDATE quipu.msg SET payload=$1, kind=8, rev=rev+1, code=1"
                         " WHERE kind=8 AND code=0",
                         1, types, values, lengths, formats, 0);
        assert_string_equal(PQcmdTuples(r), "1");
        PQclear(r);
    }
    look();
    assert_int_equal(sql_count(app, "SELECT count(*) FROM quipu.msg WHERE state=5"),
                     ARRAY_COUNT(signals) + 2);
    assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 0);
    assert_int_equal(engine_stats(x.e).dead_letters, ARRAY_COUNT(signals) + 2);
    assert_int_equal(job_is("bad", JOB_OPEN)->status, STATUS_PARKED);
    assert_int_equal(job_is("worse", JOB_OPEN)->status, STATUS_PARKED);
    assert_int_equal(enginetest_end(&x, "bad", JOB_CANCELLED), QP_OK);
    assert_int_equal(enginetest_end(&x, "worse", JOB_CANCELLED), QP_OK);
    enginetest_forget(&x, x.tasks);
    enginetest_check(&x);
}

/* ------------------------------------------------------------------------------------- all at once */

#define SHOPS 3
#define SALES 40

struct shop {
    pthread_t thread;
    int number;
    uint64_t chance;
    atomic_int backend;
    atomic_bool done;
};

/* False: something was refused, or the line is dead; the transaction is over either way. */
static bool shop_says(PGconn *c, const char *text)
{
    PGresult *r = PQexec(c, text);
    bool good = PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_TUPLES_OK;
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    /* killed, or chosen to break a deadlock; nothing else may go wrong */
    QP_ASSERT(good || state == NULL || strncmp(state, "57P", 3) == 0 ||
              strcmp(state, "40P01") == 0);
    PQclear(r);
    return good;
}

/* A sale and its job, in either order; now and then it thinks better of it. */
static void shop_sells(struct shop *s, PGconn *c, int number)
{
    char row[128];
    char job[128];
    bool row_first = testenv_random_below(&s->chance, 2) == 0;
    const char *ends = testenv_random_below(&s->chance, 4) == 0 ? "ROLLBACK" : "COMMIT";
    (void)snprintf(row, sizeof row, "INSERT INTO public.sale VALUES('%d-%d')", s->number, number);
    (void)snprintf(job, sizeof job, "SELECT quipu.start('t', '{}', '%d-%d')", s->number, number);
    if (shop_says(c, "BEGIN") && shop_says(c, row_first ? row : job) &&
        shop_says(c, row_first ? job : row)) {
        (void)shop_says(c, ends); /* whatever it says: both or neither */
    }
}

static void *shop_runs(void *context)
{
    struct shop *s = context;
    for (int i = 0; i < SALES; i++) {
        PGconn *c = PQconnectdb(x.f.path);
        (void)PQsetNoticeReceiver(c, no_notice, NULL);
        atomic_store(&s->backend, PQbackendPID(c));
        shop_sells(s, c, i);
        PQfinish(c);
    }
    atomic_store(&s->done, true);
    return NULL;
}

/* A task is answered by its worker, or by SQL, which may roll back. */
static void answer_one(uint64_t *chance)
{
    struct task *task = x.tasks;
    switch (testenv_random_below(chance, 3)) {
    case 0:
        assert_int_equal(enginetest_result(&x, task, RESULT_DONE, "1"), QP_OK);
        break;
    case 1:
        (void)sql(app, complete_text(task));
        break;
    default:
        (void)sql(app, "BEGIN");
        (void)sql(app, complete_text(task));
        (void)sql(app, "ROLLBACK");
        return;
    }
    enginetest_forget(&x, task);
}

/* Shops sell while the engine works, their backends are killed at any moment, and tasks are answered both ways: at
 * the end there is a job for each sale and a sale for each job, and each was done once. */
static void test_all_at_once(void **state)
{
    static struct shop shops[SHOPS];
    uint64_t chance = testenv_seed();
    int64_t sales;
    int busy = SHOPS;
    char text[128];
    (void)state;
    for (int i = 0; i < SHOPS; i++) {
        shops[i] = (struct shop){.number = i, .chance = chance + (uint64_t)i + 1};
        assert_int_equal(pthread_create(&shops[i].thread, NULL, shop_runs, &shops[i]), 0);
    }
    while (busy > 0 || x.tasks != NULL) {
        enginetest_wait(&x, LOOK_MS);
        for (int i = 0; i < 10 && x.tasks != NULL; i++) {
            answer_one(&chance);
        }
        (void)snprintf(text, sizeof text, "SELECT pg_terminate_backend(%d)",
                       atomic_load(&shops[testenv_random_below(&chance, SHOPS)].backend));
        (void)sql(other, busy > 0 ? text : "SELECT 1");
        busy = 0;
        for (int i = 0; i < SHOPS; i++) {
            busy += !atomic_load(&shops[i].done);
        }
        enginetest_wait(&x, busy == 0 ? LOOK_MS : 0);
    }
    for (int i = 0; i < SHOPS; i++) {
        assert_int_equal(pthread_join(shops[i].thread, NULL), 0);
    }
    for (int i = 0; i < 2 || x.tasks != NULL; i++) {
        look();
        (void)enginetest_work(&x);
    }
    sales = sql_count(other, "SELECT count(*) FROM public.sale");
    assert_int_equal(sql_count(other, "SELECT count(*) FROM public.sale s JOIN quipu.job j"
                                      " ON j.jid=convert_to(s.id,'UTF8') WHERE j.state=1"),
                     sales);
    assert_int_equal(sql_count(other, "SELECT count(*) FROM quipu.job"), sales);
    assert_int_equal(x.ended, sales);
    assert_true(sales > 0);
}

/* -------------------------------------------------------------------------------------------- rights */

/* A role that may only execute the functions can do that and no more, whatever temporary tables it makes;
 * one that was granted nothing cannot. */
static void test_rights(void **state)
{
    char url[512];
    PGconn *guest;
    int backend;
    (void)state;
    (void)sql(other, "DROP ROLE IF EXISTS shop; CREATE ROLE shop LOGIN;"
                     "GRANT USAGE ON SCHEMA quipu TO shop");
    (void)snprintf(url, sizeof url, "postgresql://shop@%s:%s/%s", PQhost(app), PQport(app),
                   PQdb(app));
    guest = sql_open(url);
    sql_refused(guest, "SELECT quipu.start('t', '{}')", "42501", "start");
    (void)sql(other, "GRANT EXECUTE ON FUNCTION quipu.start(text,text,text,text),"
                     " quipu.signal(text,text,text,text,interval,text), quipu.complete(text,text)"
                     " TO shop");
    (void)sql(guest, "CREATE TEMP TABLE job(a int); CREATE TEMP TABLE msg(a int);"
                     "CREATE TEMP TABLE tally(a int); CREATE TEMP TABLE head(clean int)");
    (void)sql(guest, "SET search_path=pg_temp,quipu");
    (void)sql(guest, "SELECT quipu.start('t', '{}', 'guest')");
    sql_refused(guest, "SELECT count(*) FROM quipu.job", "42501", "job");
    sql_refused(guest, "SELECT quipu.guid_of('a','b')", "42501", "guid_of");
    sql_refused(guest, "INSERT INTO quipu.tally VALUES(1,1)", "42501", "tally");
    look();
    (void)sql(guest, complete_text(enginetest_task(&x, "guest", NULL)));
    look();
    (void)job_is("guest", JOB_COMPLETED);
    enginetest_forget(&x, x.tasks);
    backend = PQbackendPID(guest);
    PQfinish(guest);
    await_gone(backend); /* and its tables with it */
    (void)sql(other, "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA quipu FROM shop;"
                     "REVOKE ALL ON SCHEMA quipu FROM shop; DROP ROLE shop");
}

/* While a move has the store to itself nothing can be started; and while something was, no move begins. */
static void test_being_moved(void **state)
{
    PGconn *move = sql_open(x.f.path);
    (void)state;
    assert_int_equal(
        sql_count(move,
                  "SELECT pg_try_advisory_lock(58553134,'quipu.head'::regclass::oid::int)::int"),
        1);
    sql_refused(app, "SELECT quipu.start('t', '{}')", "QP006", "is being moved");
    assert_int_equal(
        sql_count(move,
                  "SELECT pg_advisory_unlock(58553134,'quipu.head'::regclass::oid::int)::int"),
        1);
    (void)sql(app, "BEGIN");
    (void)sql(app, "SELECT quipu.start('t', '{}')");
    assert_int_equal(
        sql_count(move,
                  "SELECT pg_try_advisory_lock(58553134,'quipu.head'::regclass::oid::int)::int"),
        0);
    (void)sql(app, "ROLLBACK");
    PQfinish(move);
}

/* A store that was moved away takes nothing more. */
static void test_moved(void **state)
{
    (void)state;
    (void)sql(other, "UPDATE quipu.head SET clean=3");
    sql_refused(app, "SELECT quipu.start('t', '{}')", "QP006", "moved away");
    sql_refused(app, "SELECT quipu.signal('t', 'k', '1')", "QP006", "moved away");
    sql_refused(app, "SELECT quipu.complete('t1.1.2.00000000000000000000000000000000.4', '1')",
                "QP006", "moved away");
    (void)sql(other, "UPDATE quipu.head SET clean=0");
    (void)sql(app, "BEGIN");
    (void)sql(app, "SELECT quipu.start('t', '{}', 'left behind')");
    (void)sql(other, "UPDATE quipu.head SET clean=3"); /* while it was open */
    sql_refused(app, "COMMIT", "QP006", "moved away");
    (void)sql(other, "UPDATE quipu.head SET clean=0");
    assert_int_equal(job_number("left behind"), 0);
}

/* What is printed for those who apply the schema themselves has the functions. */
static void test_dump_has_them(void **state)
{
    static const char *const needles[] = {"CREATE FUNCTION start(topic text, payload text",
                                          "CREATE FUNCTION signal(", "CREATE FUNCTION complete(",
                                          "REVOKE ALL ON FUNCTION"};
    struct buf text;
    (void)state;
    buf_init(&text, &x.f.t.env, 0);
    assert_int_equal(postgres_dump_sql("quipu", &text), QP_OK);
    buf_byte(&text, '\0');
    for (size_t i = 0; i < ARRAY_COUNT(needles); i++) {
        assert_non_null(strstr(text.p, needles[i]));
    }
    buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_becomes_a_job),
        cmocka_unit_test_setup_teardown(test_start_forms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_start_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_start_commit_unheard, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_complete_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_start_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_start_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_start_beside_engine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_and_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_open_transaction_blocks_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_start_in_host_callback, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unbegun, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_complete_stale, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_complete_then_ended_or_paused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_complete_beside_engine, set_up, tear_down),
        cmocka_unit_test(test_complete_goes_on),
        cmocka_unit_test_setup_teardown(test_fail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_public_token, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_signals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_input, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_good_input, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_malformed_messages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_all_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_being_moved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_moved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dump_has_them, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

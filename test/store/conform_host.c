/* conform_host.c - the host's own writes inside a bundle: they share its fate and cannot reach past
 * it
 *
 * `native` is NULL on providers without a connection of their own; what a callback can do there is
 * to agree or to refuse. With SQLite it writes into a table of the host's, through the connection
 * that it is given.
 */
#include <postgresql/libpq-fe.h>
#include <sqlite3.h>

#include "store/conform.h"

/* What the connection is one of. */
static bool is_postgres;

/* 0, or what went wrong: SQLite's code, or that of PostgreSQL's answer. */
static int run_sql(void *native, const char *sql, int *out_number)
{
    PGresult *r;
    int code;
    if (!is_postgres) {
        return sqlite3_exec(native, sql, NULL, NULL, NULL);
    }
    r = PQexec(native, sql);
    code = PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_TUPLES_OK
               ? 0
               : (int)PQresultStatus(r);
    if (code == 0 && out_number != NULL && PQntuples(r) == 1) {
        *out_number = PQgetvalue(r, 0, 0)[0] - '0';
    }
    PQclear(r);
    return code;
}

struct host {
    const char *sql; /* run when there is a connection */
    int answer;      /* what the callback returns */
    int calls;
    int sqlite_code; /* what SQLite said to it */
    bool native;
};

static int host_callback(void *context, void *native)
{
    struct host *h = context;
    h->calls++;
    h->native = native != NULL;
    if (native != NULL && h->sql != NULL) {
        h->sqlite_code = run_sql(native, h->sql, NULL);
    }
    return h->answer;
}

static struct op host_op(struct host *h)
{
    return OP(host_call, .call = host_callback, .context = h);
}

static int count_column(void *context, int count, char **values, char **names)
{
    int *out = context;
    (void)count;
    (void)names;
    *out = values[0][0] - '0';
    return 0;
}

static int count_rows(void *context, void *native)
{
    *(int *)context = -1;
    if (is_postgres) {
        return run_sql(native, "SELECT count(*) FROM host", context) == 0 ? QP_OK : QP_E_IO;
    }
    return native == NULL || sqlite3_exec(native, "SELECT count(*) FROM host", count_column,
                                          context, NULL) == SQLITE_OK
               ? QP_OK
               : QP_E_IO;
}

/* How many rows the host's table has; -1 when the provider has no connection. */
static int host_rows(struct storetest *f)
{
    int count = 0;
    DO(f, OP(host_call, .call = count_rows, .context = &count));
    return count;
}

static void host_table(struct storetest *f)
{
    struct host create = {.sql = f->kind == STORETEST_POSTGRES
                                     ? "DROP TABLE IF EXISTS host; CREATE TABLE host(a INTEGER)"
                                     : "CREATE TABLE host(a INTEGER)"};
    is_postgres = f->kind == STORETEST_POSTGRES;
    DO(f, host_op(&create));
    assert_int_equal(create.calls, 1);
    assert_int_equal(create.sqlite_code, SQLITE_OK);
}

static void expect_rows(struct storetest *f, int rows)
{
    int found = host_rows(f);
    assert_true(found == rows || found == -1);
}

/* Proves that a bundle that is nothing but a host call commits what the host wrote, and that it is
 * there for good. */
static void test_host_alone(void **state)
{
    struct storetest *f = *state;
    struct host insert = {.sql = "INSERT INTO host VALUES(1)"};
    host_table(f);
    DO(f, host_op(&insert));
    expect_rows(f, 1);
    storetest_reopen(f);
    expect_rows(f, 1);
}

/* Proves that the host's rows and the bundle's commit together, whatever the place of the call in
 * the list. */
static void test_host_with_ops(void **state)
{
    struct storetest *f = *state;
    struct host insert = {.sql = "INSERT INTO host VALUES(1)"};
    host_table(f);
    conform_job(f, 100);
    DO(f, host_op(&insert), OP(event_add, .ref = JOB(100), .kind = 7));
    assert_int_equal(insert.calls, 1);
    assert_int_equal(insert.sqlite_code, SQLITE_OK);
    assert_int_equal(storetest_count(f, TABLE_event), 1);
    expect_rows(f, 1);
}

/* Proves that a callback that refuses takes the bundle back, and with it what it and others of the
 * bundle wrote. */
static void test_host_refuses(void **state)
{
    struct storetest *f = *state;
    struct host insert = {.sql = "INSERT INTO host VALUES(1)"};
    struct host refuse = {.sql = "INSERT INTO host VALUES(2)", .answer = QP_E_CONFLICT};
    struct op ops[3];
    struct stop stop;
    struct buf before;
    struct buf after;
    host_table(f);
    conform_job(f, 100);
    before = conform_dump(f);
    ops[0] = host_op(&insert);
    ops[1] = host_op(&refuse);
    ops[2] = OP(event_add, .ref = JOB(100), .kind = 7);
    assert_int_equal(storetest_bundle(f, ops, 3, &stop), QP_E_ABORTED);
    assert_int_equal(stop.op_index, 1);
    assert_int_equal(insert.calls, 1);
    assert_int_equal(refuse.calls, 1);
    after = conform_dump(f);
    assert_string_equal(after.p, before.p);
    expect_rows(f, 0);
    conform_forget(&before);
    conform_forget(&after);
}

/* Proves that the host is not asked at all when another op of the bundle, before or after the call,
 * is refused. */
static void test_host_not_asked(void **state)
{
    struct storetest *f = *state;
    struct host insert = {.sql = "INSERT INTO host VALUES(1)"};
    host_table(f);
    (void)REFUSED(f, QP_E_NOT_FOUND, host_op(&insert), OP(job_set, .ref = JOB(100)));
    assert_int_equal(insert.calls, 0);
    (void)REFUSED(f, QP_E_INVALID, OP(host_call, .call = NULL));
    expect_rows(f, 0);
}

/* Proves that a refusal takes back only its own bundle's rows: the neighbours' host writes
 * commit. */
static void test_host_neighbours(void **state)
{
    struct storetest *f = *state;
    struct host hosts[3] = {{.sql = "INSERT INTO host VALUES(1)"},
                            {.sql = "INSERT INTO host VALUES(2)", .answer = QP_E_INVALID},
                            {.sql = "INSERT INTO host VALUES(3)"}};
    struct commit c;
    int want[3] = {QP_OK, QP_E_ABORTED, QP_OK};
    struct bundle *b[3];
    host_table(f);
    commit_init(&c, f->s);
    for (int i = 0; i < 3; i++) {
        struct op *op;
        b[i] = commit_bundle(&c, "host");
        op = bundle_op(b[i], OP_host_call);
        assert_non_null(op);
        *op = host_op(&hosts[i]);
    }
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(b[i]->rc, want[i]);
        assert_int_equal(hosts[i].calls, 1);
    }
    commit_done(&c);
    expect_rows(f, 2);
}

/* Proves that a callback can neither end the transaction nor write to the store's own tables:
 * SQLite refuses it, the bundle goes on, nothing is lost. */
static void test_host_cannot_reach(void **state)
{
    static const char *const refused[] = {
        "COMMIT",
        "ROLLBACK",
        "BEGIN",
        "SAVEPOINT mine",
        "PRAGMA synchronous=OFF",
        "ATTACH ':memory:' AS other",
        "UPDATE qp_job SET sem=99",
        "DELETE FROM qp_job",
        "INSERT INTO qp_space VALUES(9,'nine',0,1)",
        "DROP TABLE qp_job",
        "ALTER TABLE qp_job RENAME TO mine",
        "CREATE TRIGGER bad AFTER INSERT ON host BEGIN DELETE FROM qp_job; END;"
        "INSERT INTO host VALUES(1)",
    };
    struct storetest *f = *state;
    host_table(f);
    conform_job(f, 100);
    if (is_postgres) {
        return; /* it cannot be kept from it; test_host_rolls_back shows that it is found out */
    }
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++) {
        struct host h = {.sql = refused[i]};
        DO(f, OP(event_add, .ref = JOB(100), .kind = 7), host_op(&h));
        assert_true(!h.native || h.sqlite_code != SQLITE_OK);
        assert_int_equal(storetest_count(f, TABLE_event), i + 1);
        assert_int_equal(conform_job_row(f, 100)->sem, 0);
    }
}

/* Proves that a callback which makes the database roll everything back fails the commit and nothing else:
 * what it writes after that is not on disk, and the store goes on. */
static void test_host_rolls_back(void **state)
{
    struct storetest *f = *state;
    struct host rolls = {.sql = f->kind == STORETEST_POSTGRES
                                    ? "ROLLBACK"
                                    : "CREATE TABLE once(a UNIQUE); INSERT INTO once VALUES(1);"
                                      "INSERT OR ROLLBACK INTO once VALUES(1)"};
    struct host insert = {.sql = "INSERT INTO host VALUES(1)"};
    struct commit c;
    struct op *op;
    int rc;
    host_table(f);
    conform_job(f, 100);
    commit_init(&c, f->s);
    op = bundle_op(commit_bundle(&c, "host"), OP_host_call);
    *op = host_op(&rolls);
    op = bundle_op(c.first, OP_host_call);
    *op = host_op(&insert);
    op = bundle_op(commit_bundle(&c, "neighbour"), OP_event_add);
    *op = OP(event_add, .ref = JOB(100), .kind = 1);
    rc = store_commit(f->s, &c);
    assert_int_equal(rc, rolls.native ? QP_E_ABORTED : QP_OK);
    commit_done(&c);
    assert_int_equal(storetest_count(f, TABLE_event), rolls.native ? 0 : 1);
    expect_rows(f, 0);
    DO(f, host_op(&insert));
    expect_rows(f, 1);
}

/* Proves that a callback that was refused by the database and says so leaves the whole bundle undone, and
 * the store well. */
static void test_host_gives_up(void **state)
{
    struct storetest *f = *state;
    struct host commits = {.sql = f->kind == STORETEST_POSTGRES
                                      ? "INSERT INTO host VALUES(1); SELECT 1/0"
                                      : "INSERT INTO host VALUES(1); COMMIT",
                           .answer = QP_E_IO};
    struct host insert = {.sql = "INSERT INTO host VALUES(1)"};
    host_table(f);
    assert_int_equal(storetest_bundle(f, (struct op[]){host_op(&commits)}, 1, NULL), QP_E_ABORTED);
    expect_rows(f, 0);
    DO(f, host_op(&insert));
    expect_rows(f, 1);
}

struct host_decision {
    struct host *host;
    int code; /* what the decision says */
};

static int decide_with_host(void *context, struct bundle *b)
{
    const struct host_decision *d = context;
    struct op *op = bundle_op(b, OP_event_add);
    *op = OP(event_add, .ref = JOB(100), .kind = 7);
    op = bundle_op(b, OP_host_call);
    *op = host_op(d->host);
    assert_int_equal(bundle_run(b), QP_OK);
    assert_int_equal(d->host->calls, 0); /* it comes last, whatever its place */
    op = bundle_op(b, OP_event_add);
    *op = OP(event_add, .ref = JOB(100), .kind = 8);
    return d->code;
}

/* Proves that the host's calls of a decided bundle come after everything else of it, are not made
 * when it decides against itself, and take it back, and it alone, when they refuse. */
static void test_host_of_a_decision(void **state)
{
    struct storetest *f = *state;
    struct host agrees = {.sql = "INSERT INTO host VALUES(1)"};
    struct host not_asked = {.sql = "INSERT INTO host VALUES(2)"};
    struct host refuses = {.sql = "INSERT INTO host VALUES(3)", .answer = QP_E_IO};
    struct host_decision decisions[] = {
        {&agrees, QP_OK}, {&not_asked, QP_E_CONFLICT}, {&refuses, QP_OK}};
    static const int codes[] = {QP_OK, QP_E_CONFLICT, QP_E_ABORTED};
    struct bundle *b[3];
    struct commit c;
    host_table(f);
    conform_job(f, 100);
    commit_init(&c, f->s);
    for (size_t i = 0; i < ARRAY_COUNT(decisions); i++) {
        b[i] = commit_decided(&c, "host", decide_with_host, &decisions[i]);
    }
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    for (size_t i = 0; i < ARRAY_COUNT(decisions); i++) {
        assert_int_equal(b[i]->rc, codes[i]);
    }
    assert_int_equal(b[2]->stop.op_index, 1); /* the call */
    commit_done(&c);
    assert_int_equal(agrees.calls, 1);
    assert_int_equal(not_asked.calls, 0);
    assert_int_equal(refuses.calls, 1);
    assert_int_equal(storetest_count(f, TABLE_event), 2);
    expect_rows(f, 1);
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_host_of_a_decision), CONFORM(test_host_alone),     CONFORM(test_host_with_ops),
    CONFORM(test_host_refuses),       CONFORM(test_host_not_asked), CONFORM(test_host_neighbours),
    CONFORM(test_host_cannot_reach),  CONFORM(test_host_gives_up),  CONFORM(test_host_rolls_back),
};
CONFORM_TOPIC(host);

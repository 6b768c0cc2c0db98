/* reference_pg.c - the reference on PostgreSQL (see reference_pg.h) */
#include "reference_pg.h"

#include <endian.h>
#include <postgresql/libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "place.h"

static const char schema[] =
    "DROP SCHEMA IF EXISTS reference CASCADE; CREATE SCHEMA reference; SET search_path=reference;"
    "CREATE TABLE job(id int8 PRIMARY KEY, jid text, state int8, sem int8, input bytea, output bytea)"
    " WITH (fillfactor=70);"
    "CREATE TABLE act(id int8 PRIMARY KEY, job int8, ledger int8, input bytea, output bytea)"
    " WITH (fillfactor=70);"
    "CREATE TABLE msg(id int8 PRIMARY KEY, job int8, topic text, state int8);"
    "CREATE TABLE log(id int8 PRIMARY KEY, job int8, kind int8, at int8);";

enum statement {
    JOB_INSERT,
    JOB_UPDATE,
    ACT_INSERT,
    ACT_UPDATE,
    MSG_INSERT,
    MSG_DELETE,
    LOG_INSERT,
    STATEMENTS
};

static const struct {
    const char *name;
    const char *text;
    int parameters;
} statements[STATEMENTS] = {
    {"job_insert", "INSERT INTO job VALUES($1,'order-'||$2,0,1,$3,NULL)", 3},
    {"job_update", "UPDATE job SET state=1,sem=0,output=$3 WHERE id=$1 AND id=$2", 3},
    {"act_insert", "INSERT INTO act VALUES($1,$2,1100000000000,$3,NULL)", 3},
    {"act_update", "UPDATE act SET ledger=201100000000001,output=$3 WHERE id=$1 AND job=$2", 3},
    {"msg_insert", "INSERT INTO msg VALUES($1,$2,'charge',1)", 2},
    {"msg_delete", "DELETE FROM msg WHERE id=$1 AND job=$2", 2},
    {"log_insert", "INSERT INTO log VALUES($1,$2,1,1767225600000)", 2},
};

static const char input[] = "{\"order\":12345,\"amount\":\"99.95\",\"currency\":\"EUR\"}";

struct reference {
    PGconn *conn;
    int64_t log_id;
    int64_t sent; /* of this commit */
};

static void execute(struct reference *r, const char *sql)
{
    PGresult *result = PQexec(r->conn, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        die("reference", PQerrorMessage(r->conn));
    }
    PQclear(result);
}

static void open_server(struct reference *r, const char *url)
{
    static const Oid types[] = {20, 20, 17}; /* int8, int8, bytea */
    r->conn = PQconnectdb(url);
    if (PQstatus(r->conn) != CONNECTION_OK) {
        die("reference", PQerrorMessage(r->conn));
    }
    execute(r, "SET client_min_messages=error; SET synchronous_commit=on");
    execute(r, schema);
    for (int i = 0; i < STATEMENTS; i++) {
        PGresult *result = PQprepare(r->conn, statements[i].name, statements[i].text,
                                     statements[i].parameters, types);
        if (PQresultStatus(result) != PGRES_COMMAND_OK) {
            die("reference", PQerrorMessage(r->conn));
        }
        PQclear(result);
    }
    if (PQenterPipelineMode(r->conn) != 1) {
        die("reference", "no pipeline mode");
    }
}

/* One row. */
static void run(struct reference *r, enum statement kind, int64_t id, int64_t job)
{
    uint64_t a = htobe64((uint64_t)id);
    uint64_t b = htobe64((uint64_t)job);
    const char *values[] = {(const char *)&a, (const char *)&b, input};
    int lengths[] = {sizeof a, sizeof b, sizeof input - 1};
    int formats[] = {1, 1, 1};
    if (PQsendQueryPrepared(r->conn, statements[kind].name, statements[kind].parameters, values,
                            lengths, formats, 1) != 1) {
        die("reference", PQerrorMessage(r->conn));
    }
    r->sent++;
}

static void boundary(struct reference *r, const char *sql)
{
    if (PQsendQueryParams(r->conn, sql, 0, NULL, NULL, NULL, NULL, 1) != 1) {
        die("reference", PQerrorMessage(r->conn));
    }
    r->sent++;
}

/* The answers of a commit, COMMIT's own among them. */
static void settle(struct reference *r)
{
    PGresult *result;
    if (PQpipelineSync(r->conn) != 1) {
        die("reference", PQerrorMessage(r->conn));
    }
    for (; r->sent > 0; r->sent--) {
        result = PQgetResult(r->conn);
        if (PQresultStatus(result) != PGRES_COMMAND_OK) {
            die("reference", PQerrorMessage(r->conn));
        }
        PQclear(result);
        PQclear(PQgetResult(r->conn)); /* the end of this statement's results */
    }
    result = PQgetResult(r->conn);
    if (PQresultStatus(result) != PGRES_PIPELINE_SYNC) {
        die("reference", PQerrorMessage(r->conn));
    }
    PQclear(result);
}

/* Activities of a job are numbered from job * 16: 0 is the trigger, then one per step. */
static void start_job(struct reference *r, int64_t job)
{
    run(r, JOB_INSERT, job, job);
    run(r, ACT_INSERT, job * 16, job);
    run(r, ACT_INSERT, job * 16 + 1, job);
    run(r, MSG_INSERT, job * 16 + 1, job);
    run(r, LOG_INSERT, ++r->log_id, job);
}

static void next_step(struct reference *r, int64_t job, int step)
{
    run(r, ACT_UPDATE, job * 16 + step, job);
    run(r, MSG_DELETE, job * 16 + step, job);
    run(r, ACT_INSERT, job * 16 + step + 1, job);
    run(r, MSG_INSERT, job * 16 + step + 1, job);
}

static void end_job(struct reference *r, int64_t job, int steps)
{
    run(r, MSG_DELETE, job * 16 + steps, job);
    run(r, ACT_UPDATE, job * 16 + steps, job);
    run(r, JOB_UPDATE, job, job);
    run(r, LOG_INSERT, ++r->log_id, job);
}

double reference_pg_run(const char *url, int64_t jobs, int64_t in_flight, int steps)
{
    struct reference r = {0};
    double from;
    double seconds;
    open_server(&r, url);
    from = now_s();
    for (int64_t first = 1; first <= jobs; first += in_flight) {
        for (int phase = 0; phase <= steps; phase++) {
            boundary(&r, "BEGIN");
            for (int64_t job = first; job < first + in_flight; job++) {
                if (phase == 0) {
                    start_job(&r, job);
                } else if (phase < steps) {
                    next_step(&r, job, phase);
                } else {
                    end_job(&r, job, steps);
                }
            }
            boundary(&r, "COMMIT");
            settle(&r);
        }
    }
    seconds = now_s() - from;
    if (PQexitPipelineMode(r.conn) != 1) {
        die("reference", PQerrorMessage(r.conn));
    }
    execute(&r, "DROP SCHEMA reference CASCADE");
    PQfinish(r.conn);
    return (double)jobs / seconds;
}

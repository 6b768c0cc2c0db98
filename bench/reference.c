/* reference.c - the fixed reference program (see reference.h) */
#include "reference.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "place.h"

static const char schema[] =
    "CREATE TABLE job(id INTEGER PRIMARY KEY, jid TEXT, state INTEGER, sem INTEGER, input BLOB, output BLOB);"
    "CREATE TABLE act(id INTEGER PRIMARY KEY, job INTEGER, ledger INTEGER, input BLOB, output BLOB);"
    "CREATE TABLE msg(id INTEGER PRIMARY KEY, job INTEGER, topic TEXT, state INTEGER);"
    "CREATE TABLE log(id INTEGER PRIMARY KEY, job INTEGER, kind INTEGER, at INTEGER);";

enum statement {
    BEGIN,
    COMMIT,
    JOB_INSERT,
    JOB_UPDATE,
    ACT_INSERT,
    ACT_UPDATE,
    MSG_INSERT,
    MSG_DELETE,
    LOG_INSERT,
    STATEMENTS
};

static const char *const texts[STATEMENTS] = {
    "BEGIN IMMEDIATE",
    "COMMIT",
    "INSERT INTO job VALUES(?1,?2,0,1,?3,NULL)",
    "UPDATE job SET state=1,sem=0,output=?3 WHERE id=?1",
    "INSERT INTO act VALUES(?1,?2,1100000000000,?3,NULL)",
    "UPDATE act SET ledger=201100000000001,output=?3 WHERE id=?1",
    "INSERT INTO msg VALUES(?1,?2,'charge',1)",
    "DELETE FROM msg WHERE id=?1",
    "INSERT INTO log VALUES(?1,?2,1,1767225600000)",
};

static const char input[] = "{\"order\":12345,\"amount\":\"99.95\",\"currency\":\"EUR\"}";

struct reference {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    int64_t log_id;
};

static void check(struct reference *r, int code)
{
    if (code != SQLITE_OK && code != SQLITE_DONE) {
        (void)fprintf(stderr, "reference: %s\n", sqlite3_errmsg(r->db));
        exit(1);
    }
}

/* One row, or one boundary of a transaction. */
static void run(struct reference *r, enum statement kind, int64_t id, int64_t job)
{
    sqlite3_stmt *s = r->statements[kind];
    int parameters = sqlite3_bind_parameter_count(s);
    if (parameters >= 1) {
        check(r, sqlite3_bind_int64(s, 1, id));
    }
    if (parameters >= 2 && kind == JOB_INSERT) {
        char jid[32];
        (void)snprintf(jid, sizeof jid, "order-%012lld", (long long)id);
        check(r, sqlite3_bind_text(s, 2, jid, -1, SQLITE_TRANSIENT));
    } else if (parameters >= 2 && kind != JOB_UPDATE && kind != ACT_UPDATE) {
        check(r, sqlite3_bind_int64(s, 2, job));
    }
    if (parameters >= 3) {
        check(r, sqlite3_bind_blob(s, 3, input, sizeof input - 1, SQLITE_STATIC));
    }
    check(r, sqlite3_step(s));
    check(r, sqlite3_reset(s));
}

static int checkpoint(void *context, sqlite3 *db, const char *name, int pages)
{
    (void)context;
    return pages >= 1000
               ? sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL)
               : SQLITE_OK;
}

static void open_file(struct reference *r, const char *path, const char *vfs)
{
    check(r,
          sqlite3_open_v2(path, &r->db,
                          SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, vfs));
    check(r, sqlite3_exec(r->db,
                          "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA mmap_size=0;"
                          "PRAGMA cache_size=-65536; PRAGMA wal_autocheckpoint=0;",
                          NULL, NULL, NULL));
    check(r, sqlite3_exec(r->db, schema, NULL, NULL, NULL));
    (void)sqlite3_wal_hook(r->db, checkpoint, NULL);
    for (int i = 0; i < STATEMENTS; i++) {
        check(r, sqlite3_prepare_v3(r->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                    &r->statements[i], NULL));
    }
}

/* Activities of a job are numbered from job * 16: 0 is the trigger, then one per step. */
static void start_job(struct reference *r, int64_t job)
{
    run(r, JOB_INSERT, job, 0);
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

double reference_run(const char *path, const char *vfs, int64_t jobs, int64_t in_flight, int steps)
{
    struct reference r = {0};
    double from;
    double seconds;
    open_file(&r, path, vfs);
    from = now_s();
    for (int64_t first = 1; first <= jobs; first += in_flight) {
        for (int phase = 0; phase <= steps; phase++) {
            run(&r, BEGIN, 0, 0);
            for (int64_t job = first; job < first + in_flight; job++) {
                if (phase == 0) {
                    start_job(&r, job);
                } else if (phase < steps) {
                    next_step(&r, job, phase);
                } else {
                    end_job(&r, job, steps);
                }
            }
            run(&r, COMMIT, 0, 0);
        }
    }
    seconds = now_s() - from;
    for (int i = 0; i < STATEMENTS; i++) {
        (void)sqlite3_finalize(r.statements[i]);
    }
    (void)sqlite3_close(r.db);
    return (double)jobs / seconds;
}

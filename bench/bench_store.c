/* bench_store.c - the store's primitives on SQLite with synchronous=FULL, beside a bare loop that
 * writes the same rows
 *
 * The workload is a job of one activity: one bundle that creates it (job, its name, two activities,
 * a message) and one that completes it (the message goes, activity and job change). N bundles share
 * one commit. The bare loop opens a file with the same schema and the same pragmas and writes the
 * same number of rows of the same content with prepared statements, without reading or comparing
 * anything: it is what SQLite costs. The ratio of the two is what the store costs. Both run in
 * turns in one process, so that a noisy machine is noisy for both.
 *
 * fdatasync is counted by the VFS under both. BENCH_SMOKE=1 only shows that it runs.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/env.h"
#include "kernel/ledger.h"
#include "place.h"
#include "support/faultvfs.h"
#include "support/singlejob.h"

#define INPUT "{\"order\":12345,\"amount\":\"99.95\",\"currency\":\"EUR\"}"
#define OUTPUT "{\"charged\":true,\"reference\":\"tx-0001\"}"
#define WAVE 4000 /* jobs that are created before they are completed, at most */

struct figures {
    double seconds;
    int64_t bundles;
    int64_t commits;
    int64_t rows;
    int64_t syncs;
};

static void guid_make(int64_t job, char purpose, char out[LIMIT_GUID_SIZE])
{
    uint64_t spread =
        (uint64_t)job * UINT64_C(0x9E3779B97F4A7C15); /* GUIDs are hashes: they have no order */
    memset(out, purpose, LIMIT_GUID_SIZE);
    memcpy(out, &spread, sizeof spread);
}

/* ------------------------------------------------------------------------------------ the store */

struct task {
    int64_t job;
    char guid[LIMIT_GUID_SIZE];
    char owner[LIMIT_GUID_SIZE];
    char jid[40];
};

static struct task tasks[WAVE];

static void store_check(struct commit *c, int rc)
{
    if (rc != QP_OK) {
        die("commit", c->err.text);
    }
    for (struct bundle *b = c->first; b != NULL; b = b->next) {
        if (b->rc != QP_OK) {
            die(b->label, qp_code_text(b->rc));
        }
    }
}

static void store_create(struct store *s, struct commit *c, struct task *t, size_t count)
{
    commit_reset(c);
    for (size_t i = 0; i < count; i++) {
        struct bundle *b = commit_bundle(c, "create");
        struct singlejob_start start = {.ref = {STORE_NS_DEFAULT, t[i].job},
                                        .jid = str_from(t[i].jid),
                                        .topic = QP_STR("charge"),
                                        .input = QP_STR(INPUT),
                                        .owner_guid = {t[i].owner, LIMIT_GUID_SIZE}};
        if (singlejob_start(b, &start) != QP_OK) {
            die("create", "out of memory");
        }
    }
    store_check(c, store_commit(s, c));
}

/* A run that may hold messages. */
static int64_t store_enter_run(struct store *s, struct commit *c)
{
    struct op *op;
    commit_reset(c);
    op = bundle_op(commit_bundle(c, "enter"), OP_node_put);
    op->node_put = (struct op_node_put){.name = QP_STR("bench")};
    store_check(c, store_commit(s, c));
    return op->node_put.out_epoch;
}

static size_t store_claim(struct store *s, struct commit *c, int64_t epoch, struct msg_ref *refs,
                          size_t want)
{
    struct op *op;
    size_t count;
    commit_reset(c);
    op = bundle_op(commit_bundle(c, "claim"), OP_msg_claim);
    op->msg_claim = (struct op_msg_claim){
        .ns = STORE_NS_DEFAULT, .topic = QP_STR("charge"), .want = (int64_t)want, .holder = epoch};
    store_check(c, store_commit(s, c));
    count = op->msg_claim.out_count;
    for (size_t i = 0; i < count; i++) {
        const struct msg_row *m = op->msg_claim.out_messages[i];
        memcpy(tasks[i].guid, m->guid.p, LIMIT_GUID_SIZE);
        refs[i] = (struct msg_ref){m->ns, m->job, {tasks[i].guid, LIMIT_GUID_SIZE}, m->token};
    }
    return count;
}

static void store_complete(struct store *s, struct commit *c, const struct msg_ref *refs,
                           size_t count)
{
    commit_reset(c);
    for (size_t i = 0; i < count; i++) {
        if (singlejob_complete(commit_bundle(c, "complete"), &refs[i], QP_STR(OUTPUT)) != QP_OK) {
            die("complete", "out of memory");
        }
    }
    store_check(c, store_commit(s, c));
}

/* Creates and completes `jobs` jobs, `per_commit` bundles at a time; claiming is not part of the
 * time. */
static struct figures run_store(int64_t jobs, size_t per_commit)
{
    static struct msg_ref refs[WAVE];
    struct figures f = {0};
    struct place place;
    struct qp_env env;
    struct store *s;
    struct commit c;
    struct qp_err err;
    struct store_info before;
    struct store_info after;
    int64_t number = 1000;
    int64_t epoch;
    place_make(&place);
    qp_env_init(&env);
    if (store_open(&env, &(struct store_options){.path = place.path, .vfs = FAULTVFS_NAME}, &s,
                   &err) != QP_OK) {
        die("open", err.text);
    }
    commit_init(&c, s);
    epoch = store_enter_run(s, &c);
    while (f.bundles < 2 * jobs) {
        size_t wave = per_commit > 1000 ? 1000 : per_commit;
        double from;
        int64_t syncs;
        for (size_t i = 0; i < wave; i++) {
            tasks[i].job = number++;
            guid_make(tasks[i].job, 'o', tasks[i].owner);
            (void)snprintf(tasks[i].jid, sizeof tasks[i].jid, "order-%012lld",
                           (long long)tasks[i].job);
        }
        store_info(s, &before);
        syncs = faultvfs_count(FAULT_SYNC);
        from = now_s();
        store_create(s, &c, tasks, wave);
        f.seconds += now_s() - from;
        store_info(s, &after);
        f.rows += after.rows_written - before.rows_written;
        f.commits += after.commits - before.commits;
        f.syncs += faultvfs_count(FAULT_SYNC) - syncs;
        if (store_claim(s, &c, epoch, refs, wave) != wave) {
            die("claim", "fewer than were created");
        }
        store_info(s, &before);
        syncs = faultvfs_count(FAULT_SYNC);
        from = now_s();
        store_complete(s, &c, refs, wave);
        f.seconds += now_s() - from;
        store_info(s, &after);
        f.rows += after.rows_written - before.rows_written;
        f.commits += after.commits - before.commits;
        f.syncs += faultvfs_count(FAULT_SYNC) - syncs;
        f.bundles += 2 * (int64_t)wave;
    }
    commit_done(&c);
    if (store_close(s, &err) != QP_OK) {
        die("close", err.text);
    }
    place_remove(&place);
    return f;
}

/* -------------------------------------------------------------------------------- the bare loop */

enum bare {
    BARE_BEGIN,
    BARE_COMMIT,
    BARE_HEAD,
    BARE_COUNTER,
    BARE_LANE,
    BARE_FEED,
    BARE_JOB,
    BARE_NAME,
    BARE_ACT,
    BARE_MSG,
    BARE_MSG_DELETE,
    BARE_ACT_UPDATE,
    BARE_JOB_UPDATE,
    BARE_COUNT
};

static const char *const bare_texts[BARE_COUNT] = {
    [BARE_BEGIN] = "BEGIN IMMEDIATE",
    [BARE_COMMIT] = "COMMIT",
    [BARE_HEAD] = "UPDATE qp_head SET pos=?1,ord=?1,clock=?1,rev=rev+1 WHERE ns=0",
    [BARE_COUNTER] = "INSERT OR REPLACE INTO qp_counter VALUES(1,'charge',0,0,?1,?1)",
    [BARE_LANE] = "INSERT OR REPLACE INTO qp_lane VALUES(1,'charge','',0,?1,0,0,?1,?1)",
    [BARE_FEED] = "INSERT INTO qp_feed VALUES(0,?1,?1,0,zeroblob(?2),1)",
    [BARE_JOB] =
        "INSERT INTO qp_job VALUES(1,?1,?2,0,'charge',NULL,NULL,0,NULL,NULL,NULL,?3,?3,0,NULL,0,?4,1,1,NULL,0,3,0,"
        "0,NULL,?4,0,NULL,NULL,NULL,0,0,0,1,0,0,0,0,0)",
    [BARE_NAME] = "INSERT INTO qp_job_name VALUES(1,?2,?1,1)",
    [BARE_ACT] =
        "INSERT INTO qp_act VALUES(1,?1,?2,0,65,0,?3,'charge',NULL,?4,?5,1,?6,1100000000000,"
        "0,0,NULL,0,0,?7,11000000000,1,1,0,NULL,?5,2,0,?8,1,0,0,0,0)",
    [BARE_MSG] =
        "INSERT INTO qp_msg VALUES(1,?1,?2,0,0,'charge','run,0,0',?2,NULL,0,0,'',?3,?4,1,1,NULL,NULL,3,0,1,1,NULL,0)",
    [BARE_MSG_DELETE] = "DELETE FROM qp_msg WHERE ns=1 AND job=?1 AND guid=?2",
    [BARE_ACT_UPDATE] =
        "UPDATE qp_act SET ledger=201100000000001,attempt=0,escalated=0,error=NULL,"
        "folded_n=0,folded_delta=0,guid=?2,guid_ledger=111100000001,n=0,delta=-1,code=200,"
        "output=?4,guid_at=?3,guid_seq=3,guid_rows=0,guid_pos=?3,rev=2 "
        "WHERE ns=1 AND job=?1 AND addr='run,0,0'",
    [BARE_JOB_UPDATE] =
        "UPDATE qp_job SET sem=0,opened=1,closed_by=?2,completions=1,seq=4,paused=0,cancelled=0,parked=NULL,"
        "updated_at=?3,closed_at=?3,error=NULL,fingerprint=NULL,output=?4,state=1,status=5,expire_at=0,rev=2 "
        "WHERE ns=1 AND job=?1",
};

struct bare_db {
    sqlite3 *db;
    sqlite3_stmt *statements[BARE_COUNT];
    int64_t pos;
    int64_t fed; /* positions up to here are in the feed */
    int64_t rows;
};

static void bare_run(struct bare_db *b, enum bare which)
{
    if (sqlite3_step(b->statements[which]) != SQLITE_DONE) {
        die(bare_texts[which], sqlite3_errmsg(b->db));
    }
    (void)sqlite3_reset(b->statements[which]);
    b->rows += which != BARE_BEGIN && which != BARE_COMMIT;
}

static void bind_text(sqlite3_stmt *s, int place, const char *text)
{
    (void)sqlite3_bind_text(s, place, text, -1, SQLITE_STATIC);
}

static void bind_guid(sqlite3_stmt *s, int place, const char *guid)
{
    (void)sqlite3_bind_blob(s, place, guid, LIMIT_GUID_SIZE, SQLITE_STATIC);
}

/* With its first GUID on it, or still without. */
static void bare_act(struct bare_db *b, const struct task *t, const char *addr, const char *guid)
{
    sqlite3_stmt *s = b->statements[BARE_ACT];
    (void)sqlite3_bind_int64(s, 1, t->job);
    bind_text(s, 2, addr);
    bind_guid(s, 3, t->owner);
    (void)sqlite3_bind_blob(s, 4, INPUT, sizeof INPUT - 1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(s, 5, 1767225600000);
    (void)sqlite3_bind_int64(s, 6, ++b->pos);
    if (guid != NULL) {
        bind_guid(s, 7, guid);
    } else {
        (void)sqlite3_bind_null(s, 7);
    }
    (void)sqlite3_bind_int64(s, 8, guid != NULL ? ++b->pos : 0);
    bare_run(b, BARE_ACT);
}

static void bare_create(struct bare_db *b, const struct task *t)
{
    sqlite3_stmt *job = b->statements[BARE_JOB];
    sqlite3_stmt *name = b->statements[BARE_NAME];
    sqlite3_stmt *msg = b->statements[BARE_MSG];
    (void)sqlite3_bind_int64(job, 1, t->job);
    bind_text(job, 2, t->jid);
    bind_guid(job, 3, t->owner);
    (void)sqlite3_bind_int64(job, 4, 1767225600000);
    bare_run(b, BARE_JOB);
    (void)sqlite3_bind_int64(name, 1, t->job);
    bind_text(name, 2, t->jid);
    bare_run(b, BARE_NAME);
    bare_act(b, t, "trigger,0", t->owner);
    bare_act(b, t, "run,0,0", NULL);
    (void)sqlite3_bind_int64(msg, 1, t->job);
    bind_guid(msg, 2, t->guid);
    (void)sqlite3_bind_int64(msg, 3, ++b->pos);
    (void)sqlite3_bind_int64(msg, 4, 1767225600000);
    bare_run(b, BARE_MSG);
}

static void bare_complete(struct bare_db *b, const struct task *t)
{
    sqlite3_stmt *gone = b->statements[BARE_MSG_DELETE];
    sqlite3_stmt *act = b->statements[BARE_ACT_UPDATE];
    sqlite3_stmt *job = b->statements[BARE_JOB_UPDATE];
    (void)sqlite3_bind_int64(gone, 1, t->job);
    bind_guid(gone, 2, t->guid);
    bare_run(b, BARE_MSG_DELETE);
    (void)sqlite3_bind_int64(act, 1, t->job);
    bind_guid(act, 2, t->guid);
    (void)sqlite3_bind_int64(act, 3, ++b->pos);
    (void)sqlite3_bind_blob(act, 4, OUTPUT, sizeof OUTPUT - 1, SQLITE_STATIC);
    bare_run(b, BARE_ACT_UPDATE);
    (void)sqlite3_bind_int64(job, 1, t->job);
    bind_guid(job, 2, t->guid);
    (void)sqlite3_bind_int64(job, 3, 1767225600000);
    (void)sqlite3_bind_blob(job, 4, OUTPUT, sizeof OUTPUT - 1, SQLITE_STATIC);
    bare_run(b, BARE_JOB_UPDATE);
}

static void bare_commit(struct bare_db *b)
{
    static const enum bare shared[] = {BARE_HEAD, BARE_COUNTER, BARE_LANE};
    for (size_t i = 0; i < ARRAY_COUNT(shared); i++) {
        (void)sqlite3_bind_int64(b->statements[shared[i]], 1, b->pos);
        bare_run(b, shared[i]);
    }
    /* About as many bytes as the entries take: 20 for an activity, 36 for a GUID. */
    (void)sqlite3_bind_int64(b->statements[BARE_FEED], 1, b->pos);
    (void)sqlite3_bind_int64(b->statements[BARE_FEED], 2, (b->pos - b->fed) * 28);
    bare_run(b, BARE_FEED);
    b->fed = b->pos;
    bare_run(b, BARE_COMMIT);
}

static int bare_checkpoint(void *context, sqlite3 *db, const char *name, int pages)
{
    (void)context;
    return pages >= LIMIT_WAL_PAGES
               ? sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL)
               : SQLITE_OK;
}

/* The schema comes from the store; everything else is plain SQLite. */
static void bare_open(struct bare_db *b, const struct place *place)
{
    struct qp_env env;
    struct store *s;
    struct qp_err err;
    qp_env_init(&env);
    if (store_open(&env, &(struct store_options){.path = place->path}, &s, &err) != QP_OK ||
        store_close(s, &err) != QP_OK) {
        die("open", err.text);
    }
    if (sqlite3_open_v2(place->path, &b->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                        FAULTVFS_NAME) != SQLITE_OK ||
        sqlite3_exec(
            b->db,
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA mmap_size=0; PRAGMA cache_size=-16384;"
            "PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint=0;",
            NULL, NULL, NULL) != SQLITE_OK) {
        die("open", sqlite3_errmsg(b->db));
    }
    (void)sqlite3_wal_hook(b->db, bare_checkpoint, NULL);
    for (int i = 0; i < BARE_COUNT; i++) {
        if (sqlite3_prepare_v3(b->db, bare_texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &b->statements[i], NULL) != SQLITE_OK) {
            die(bare_texts[i], sqlite3_errmsg(b->db));
        }
    }
}

static struct figures run_bare(int64_t jobs, size_t per_commit)
{
    struct figures f = {0};
    struct bare_db b = {0};
    struct place place;
    int64_t number = 1000;
    place_make(&place);
    bare_open(&b, &place);
    while (f.bundles < 2 * jobs) {
        int64_t syncs = faultvfs_count(FAULT_SYNC);
        double from;
        for (size_t i = 0; i < per_commit; i++) {
            tasks[i].job = number++;
            guid_make(tasks[i].job, 'o', tasks[i].owner);
            guid_make(tasks[i].job, 't', tasks[i].guid);
            (void)snprintf(tasks[i].jid, sizeof tasks[i].jid, "order-%012lld",
                           (long long)tasks[i].job);
        }
        from = now_s();
        bare_run(&b, BARE_BEGIN);
        for (size_t i = 0; i < per_commit; i++) {
            bare_create(&b, &tasks[i]);
        }
        bare_commit(&b);
        bare_run(&b, BARE_BEGIN);
        for (size_t i = 0; i < per_commit; i++) {
            bare_complete(&b, &tasks[i]);
        }
        bare_commit(&b);
        f.seconds += now_s() - from;
        f.syncs += faultvfs_count(FAULT_SYNC) - syncs;
        f.commits += 2;
        f.bundles += 2 * (int64_t)per_commit;
    }
    f.rows = b.rows;
    for (int i = 0; i < BARE_COUNT; i++) {
        (void)sqlite3_finalize(b.statements[i]);
    }
    (void)sqlite3_close(b.db);
    place_remove(&place);
    return f;
}

/* ------------------------------------------------------------------------------------ the table */

static void print_row(size_t per_commit, const char *what, const struct figures *f, double ratio)
{
    printf("%11zu  %-6s %12.0f %12.0f %12.1f %14.2f", per_commit, what,
           (double)f->bundles / f->seconds, (double)f->rows / f->seconds,
           (double)f->rows / (double)f->commits, (double)f->syncs / (double)f->commits);
    if (ratio > 0) {
        printf(" %9.2f", ratio);
    }
    printf("\n");
}

static void add(struct figures *sum, struct figures f)
{
    sum->seconds += f.seconds;
    sum->bundles += f.bundles;
    sum->commits += f.commits;
    sum->rows += f.rows;
    sum->syncs += f.syncs;
}

int main(void)
{
    static const struct {
        size_t per_commit;
        int64_t jobs;
    } sizes[] = {{1, 1500}, {10, 10000}, {100, 40000}, {1000, 60000}};
    bool smoke = getenv("BENCH_SMOKE") != NULL;
    faultvfs_init(FAULTVFS_SYNC_REAL, false);
    printf("SQLite %s, synchronous=FULL, jobs of one activity: one bundle creates, one completes\n",
           sqlite3_libversion());
    printf("%11s  %-6s %12s %12s %12s %14s %9s\n", "bundles per", "", "bundles/s", "rows/s",
           "rows per", "fdatasync", "store /");
    printf("%11s  %-6s %12s %12s %12s %14s %9s\n", "commit", "", "", "", "commit", "per commit",
           "bare");
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct figures store = {0};
        struct figures bare = {0};
        int64_t jobs = smoke ? (int64_t)sizes[i].per_commit : sizes[i].jobs / 2;
        for (int round = 0; round < (smoke ? 1 : 2); round++) {
            add(&bare, run_bare(jobs, sizes[i].per_commit));
            add(&store, run_store(jobs, sizes[i].per_commit));
        }
        print_row(sizes[i].per_commit, "bare", &bare, 0);
        print_row(sizes[i].per_commit, "store", &store,
                  ((double)store.bundles / store.seconds) / ((double)bare.bundles / bare.seconds));
    }
    return 0;
}

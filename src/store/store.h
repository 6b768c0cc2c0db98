/* store.h - the durable primitives: what commits together, what it compares, what a duplicate gets
 *
 * A BUNDLE is what one message commits: a list of ops, carried out in order, all or none. A COMMIT
 * is a list of bundles that share one transaction and one fsync. A bundle whose comparison fails
 * rolls back alone: its neighbours commit, and it says which op, and which digit, stopped it.
 *
 *     struct commit c;
 *     commit_init(&c, store);
 *     struct bundle *b = commit_bundle(&c, "leg2");
 *     bundle_op(b, OP_guid_enter)->guid_enter = (struct op_guid_enter){ ... };
 *     bundle_op(b, OP_sem_move)->sem_move = (struct op_sem_move){ ... };
 *     rc = store_commit(store, &c);         rc: did the transaction commit?
 *     b->rc                                 and did this bundle, in it?
 *     commit_done(&c);
 *
 * Invariants that every provider keeps:
 *   I1  A committed bundle is durable before store_commit returns; a failed one left no trace.
 *   I2  Every change of a row compares that row's revision: what was read is what is replaced.
 *   I3  A digit moves only from the value that the op's guards name (ledger-protocol H1, H6, H7).
 *   I4  A semaphore moves only in the op that stores its signed delta on a GUID row, and closes
 *       once (H9, H10).
 *   I5  Journal sequence is dense per job; the feed position only grows, and a reader that has seen
 *       position p never finds a new entry below p. Where commits overlap (PostgreSQL), the entries of
 *       one job are in order by their sequence, not by their position.
 *   I6  Leases and timers are judged by the store's clock alone, which never goes back (store_now).
 *
 * Outcome: any submit may end in QP_E_UNKNOWN_OUTCOME: the commit was asked for and its answer was
 * lost. Never repeat it blindly: open the store again, read the digit, and go on from what it says
 * (H17). The handle of a file is finished then, as after QP_E_FSYNC: it refuses everything, reads too.
 * That of a server goes on: it is the line that broke, not the disk.
 *
 * If we crash before the commit, nothing of any of its bundles exists. If we crash after it, all of
 * it does. There is no third case, and so no repair at start: what is in the tables is what was
 * committed.
 *
 * Threads: a store handle belongs to one thread. Other threads open a reader of their own
 * (store_options.read_only).
 *
 * How it is built: the meaning of every op is written once, in apply_*.c, over rows in memory
 * (txn.h). A provider only loads rows by key or index, writes changed rows back, and commits
 * (provider.h). docs/adr/0002 says why.
 */
#ifndef QP_STORE_STORE_H
#define QP_STORE_STORE_H

#include "store/ops.h"

struct store;
struct txn;
struct bundle;
struct scan;
typedef int (*store_visit)(void *context, const void *row);

/* -------------------------------------------------------------------------- bundles and commits */

/* What stopped a bundle: the op, the digit (its weight; 0 when it was not a digit) and the ledger
 * that was found. */
struct stop {
    size_t op_index;
    int64_t weight;
    int64_t found;
};

struct op_chunk;

/* The ops in order: bundle_first, then bundle_next until NULL. */
struct op_place {
    struct op_chunk *chunk;
    size_t index; /* within the chunk */
};

/* Decides a bundle inside its transaction (commit_decided). */
typedef int (*bundle_decide)(void *context, struct bundle *b);

struct bundle {
    struct commit *commit;
    const char *label;      /* which protocol step it is; for messages and traces */
    struct op_chunk *first; /* the ops, in chunks: an op never moves once it was handed out */
    struct op_chunk *last;
    size_t op_count;
    size_t host_call_count;
    bundle_decide decide; /* NULL: it was given its ops, and there is nothing to decide */
    void *context;
    struct job_ref job; /* that it will work on, if that is known beforehand; 0: it is not */
    bool transient; /* its ops go when it has been carried out: nobody looks at what they put out */
    struct op_place taken; /* how far its ops are carried out */
    struct bundle *next;
    int rc; /* after completion; before it QP_E_BUSY */
    struct stop stop;
};

enum commit_state { COMMIT_FILLING, COMMIT_RUNNING, COMMIT_DONE };

/* Slices given to ops must live until the commit is done; outs live until commit_done. */
struct commit {
    struct store *store;
    struct arena arena;
    struct bundle *first;
    struct bundle *last;
    size_t bundle_count;
    struct op_chunk *spare; /* of decided bundles that are over */
    enum commit_state state;
    int rc; /* of the transaction; QP_OK also when all bundles failed and nothing was written */
    struct qp_err err;
    struct txn *txn;
    int write_rc;          /* the writer's finding */
    int tries;             /* how often it began anew, because others were in the way */
    int64_t began_us;      /* monotonic time at which it was taken */
    int64_t ready_count;   /* after completion: no more messages than this became claimable in it */
    uint64_t ready_topics; /* and the topic_bits of theirs */
    struct buf journal;    /* of a commit that is done: its entries (commit_journal) */
    qp_ms due_at; /* and the earliest time at which something that it wrote is due; 0: none */
};

void commit_init(struct commit *c, struct store *s);
void commit_done(struct commit *c);
/* Empty again, for the next round; keeps the memory. What the last round handed out is gone. */
void commit_reset(struct commit *c);
/* NULL: no memory, or LIMIT_COMMIT_BUNDLES; c->rc then says so and the commit cannot be
 * submitted. */
struct bundle *commit_bundle(struct commit *c, const char *label);
/* A bundle that is decided when its turn comes, inside the transaction. `decide` reads with
 * bundle_get, adds ops with bundle_op, carries them out with bundle_run and reads again, as often
 * as it likes: it sees what the bundles before it and its own ops have made of the rows. Another code than QP_OK
 * takes the whole bundle back, and is its rc.
 *
 * It may be called again from the start, when a row was locked by another or the provider had to
 * begin anew: so it decides by what it reads, and what it leaves outside of the bundle it sets
 * anew in every call. */
struct bundle *commit_decided(struct commit *c, const char *label, bundle_decide decide,
                              void *context);
/* The ops that were added since the last run; QP_OK, or the code that ends the bundle. */
int bundle_run(struct bundle *b) QP_MUST_USE;
/* The row as it stands now, or NULL: there is none. It lives until commit_done; the bundle's own further
 * ops may change it where it is. */
int bundle_get(struct bundle *b, enum table_id table, const void *key,
               const void **out_row) QP_MUST_USE;
/* The same for who must not wait for others, and does not mind that they may be changing it. */
int bundle_peek(struct bundle *b, enum table_id table, const void *key,
                const void **out_row) QP_MUST_USE;
/* A GUID wherever it stands; false: there is none. */
int bundle_guid(struct bundle *b, const struct guid_row *key, struct guid_row *out_guid,
                bool *out_found) QP_MUST_USE;
/* The rows of a range as they stand now. They live until commit_done. The limit is at most
 * LIMIT_BUNDLE_OPS. */
struct bundle_rows {
    const void **rows;
    size_t count;
    bool cut; /* there are more, but these are LIMIT_SCAN_SIZE bytes already: come again */
};
int bundle_scan(struct bundle *b, const struct scan *scan,
                struct bundle_rows *out_rows) QP_MUST_USE;
/* The same range, row by row as they are read: not locked, and not kept. A row lives until its visit returns;
 * what a visit returns other than QP_OK ends the reading, and the commit. No limit but the scan's own. */
int bundle_each(struct bundle *b, const struct scan *scan, void *context,
                store_visit visit) QP_MUST_USE;

/* Which definitions a commit decides by: what names mean (ops app_activate, app_delete, app_put, topic_put). The
 * number grows with every change, and it is read with the transaction's begin: whoever knows what names mean by a
 * number at least as high need not look again. `serial` is not 0 while this commit has itself changed them: what is
 * learned then is true of this commit alone, until it is through; the next change, or its undoing, has another
 * serial. Costs no row. */
struct definitions {
    int64_t number;
    int64_t serial;
};
int bundle_definitions(struct bundle *b, struct definitions *out_definitions) QP_MUST_USE;

/* One of 64 bits: topics with different bits are different. */
uint64_t topic_bit(qp_str topic);
/* Whether this commit may do what one handle does for all, such as retention: where many share a store,
 * one at a time may, and the others leave it to that one. */
int bundle_tidies(struct bundle *b, bool *out_may) QP_MUST_USE;
/* Bytes of the rows that the bundle has made so far: LIMIT_BUNDLE_SIZE ends it. */
size_t bundle_size(const struct bundle *b);
/* The commit's time, which everything in it happens at. */
qp_ms bundle_now(const struct bundle *b);

/* A zeroed op at the end of the bundle. NULL: no memory, or LIMIT_BUNDLE_OPS; c->rc says so. b may
 * be NULL. */
struct op *bundle_op(struct bundle *b, enum op_kind kind);
struct op *bundle_first(const struct bundle *b, struct op_place *place);
struct op *bundle_next(struct op_place *place);
/* The op at an index: O(index), for tests and messages. */
struct op *bundle_op_at(const struct bundle *b, size_t index);

/* ----------------------------------------------------------------------------------- the handle */

enum store_durability { DURABILITY_FULL, DURABILITY_RELAXED };

struct store_options {
    const char *path; /* SQLite: the file; PostgreSQL: a URL, postgresql://.. NULL: memory */
    bool read_only;
    bool must_exist; /* do not create */
    bool
        moving; /* for copy.h: also a store that was moved away, or half of a copy; for writing it is
                        had alone: QP_E_LOCKED when others are at it */
    bool full_check; /* SQLite: check every page when opening */
    bool
        accept_loss; /* SQLite: also a store that lacks commits which were answered (sqlite/lock.c) */
    enum store_durability durability;
    const char *vfs;       /* SQLite: name of the VFS, NULL for the usual one */
    struct memory *memory; /* memory: share these tables (see memory.h); NULL for private ones */
    size_t cache_size;     /* bytes of rows kept between commits; 0: LIMIT_CACHE_SIZE. For tests */
    bool host_clock;       /* PostgreSQL: time is the environment's, not the server's. For tests */
};

/* Errors are sentences that name the file and the next thing to do; see docs/errors.md for the
 * list. */
int store_open(const struct qp_env *env, const struct store_options *options,
               struct store **out_store, struct qp_err *err) QP_MUST_USE;
/* Writes the clean-shutdown marker. NULL is allowed. The handle is gone in every case; the code
 * says whether it was clean. */
int store_close(struct store *s, struct qp_err *err);

/* Carries out the bundles and commits what they made of the rows. On return the commit is done, whatever became
 * of it: the code is c->rc, that of the transaction; each bundle has its own. */
int store_commit(struct store *s, struct commit *c);

/* The same in two parts, for who has more to decide while the disk works. With a writer, which the
 * store's owner lends it, store_write returns while another thread writes the rows and commits; the
 * next commit is decided meanwhile, on what this one will have made of the rows. So it fails when
 * this one does, with the same code. Only for providers that nobody else writes to; with others, and
 * without a writer, store_write is done on return.
 *
 *   FILLING --store_decide, as often as there are new bundles--> RUNNING --store_write--> RUNNING
 *      --store_settle--> DONE
 *
 * At most one commit is being written, and one is decided in front of it. What asks the provider for
 * something, a row that is not known or a scan, waits for the writer first; so does every other call
 * of this header. */
struct store_writer {
    void *context;
    /* Calls work(argument) on another thread. */
    void (*begin)(void *context, void (*work)(void *argument), void *argument);
    bool (*is_busy)(void *context);
    void (*wait)(void *context); /* until it is not */
};
/* NULL: there is none any more. Nothing may be in its hands. False: there is none now. */
bool store_use_writer(struct store *s, const struct store_writer *writer);
/* Carries out the bundles that were added since; those that fail are told by their rc, as ever. QP_OK, or
 * the commit has failed and is done. */
int store_decide(struct store *s, struct commit *c) QP_MUST_USE;
/* True when it has asked the provider for something: then it must be written before anything else is read. */
bool store_has_reached(const struct commit *c);
/* While there is nothing to add: a part of store_write's work, so that the writer waits less. */
void store_prepare(struct store *s, struct commit *c);
/* `elsewhere`: by the writer, if there is one. */
void store_write(struct store *s, struct commit *c, bool elsewhere);
/* Nothing of it is to happen; every bundle gets the code. */
void store_give_up(struct store *s, struct commit *c, int rc);
/* Whether the writer works; and until it does not: then the commit that it wrote is done. */
bool store_is_writing(const struct store *s);
void store_settle(struct store *s);

const struct qp_env *store_env(const struct store *s);

/* The store's clock: wall time, but it never goes back, and no step of the wall clock of this machine makes it
 * jump: it goes on by the monotonic clock and comes nearer to the wall little by little (store.c). */
qp_ms store_now(struct store *s);

/* Between commits: whether the server is there, as far as is known; when the connection was lost, one try to make
 * it again. QP_E_BUSY: it is away, and nothing else should be asked of it now. For who wants to know before he
 * takes on what others wait for. Stores that are files are always there. */
int store_connect(struct store *s, struct qp_err *err) QP_MUST_USE;
/* Whether the last try to reach the server has failed. */
bool store_is_away(const struct store *s);

/* From begin to end all reads of a read-only handle see one state, and cost less; writers go on
 * meanwhile, but cannot make their log shorter, so it should not be long. Without effect on handles that
 * write. */
int store_snapshot_begin(struct store *s, struct qp_err *err) QP_MUST_USE;
int store_snapshot_end(struct store *s, struct qp_err *err);

/* Reads, between commits: committed state only. A row's text lives in `arena`. QP_E_NOT_FOUND when
 * there is none. */
int store_get(struct store *s, struct arena *arena, enum table_id table, const void *key,
              const void **out_row, struct qp_err *err) QP_MUST_USE;

/* Many rows of one table by their keys, without payloads (column_is_payload): at most LIMIT_PAGE_ROWS, and
 * one round trip where there is a server. out_rows[i] is that of keys[i], NULL when there is none. */
int store_get_all(struct store *s, struct arena *arena, enum table_id table,
                  const void *const *keys, size_t count, void **out_rows,
                  struct qp_err *err) QP_MUST_USE;

/* A GUID by its key, wherever it stands: on its activity's row or on one of its own. */
int store_guid(struct store *s, struct arena *arena, const struct guid_row *key,
               struct guid_row *out_guid, struct qp_err *err) QP_MUST_USE;

/* A range of a table by its key, or of an index: rows whose first `prefix_count` columns equal
 * those of `prefix`, after the row `after` (NULL: from the start) in that order, at most `limit` of
 * them. */
struct scan {
    enum table_id table;
    int index; /* enum index_id, or -1 for the key */
    const void *prefix;
    size_t prefix_count;
    const void *after;
    size_t limit;
    bool peek;        /* in a commit: rows are not locked, and may be changing */
    bool skip_locked; /* in a commit: passes over rows that another holds, instead of waiting */
    bool slim;        /* payloads are not asked for: they may come as none (column_is_payload) */
    bool backwards;   /* from the last to the first; `after` then is what they come before */
};

/* Stops at the first visit that does not return QP_OK, and returns that code. A row lives until its
 * visit returns. */
int store_scan(struct store *s, const struct scan *scan, void *context, store_visit visit,
               struct qp_err *err) QP_MUST_USE;

/* One journal entry of the feed. `addr` and `guid` say where its row is: an activity (guid none), a
 * GUID, an event (both none). */
struct feed_entry {
    int64_t pos;
    int64_t ns;
    int64_t job;
    int64_t seq;
    int64_t at;
    qp_str addr;
    qp_str guid;
};

typedef int (*store_feed_visit)(void *context, const struct feed_entry *entry);
/* The journal entries that a commit has made, in order, after it is done and until it is reset; their
 * positions are not told. */
void commit_journal(const struct commit *c, void *context,
                    void (*visit)(void *context, const struct feed_entry *entry));
/* The entries after a position, in order, of at most `commits` commits. What is committed later has
 * a higher position, so whoever has read up to p goes on with p and misses nothing. */
int store_feed(struct store *s, int64_t after, size_t commits, void *context,
               store_feed_visit visit, struct qp_err *err) QP_MUST_USE;

/* The earliest time at which something in the store is due (row_due_at); INT64_MAX: nothing. */
int store_due(struct store *s, qp_ms *out_at, struct qp_err *err) QP_MUST_USE;

/* Whether any of that lets an open job go on: a timer, the delay or lease of a task, the lease of a key, the time
 * of a job that has not ended. What is only kept for a while (signals, idempotency records, ended jobs) does
 * not. Looks at ended jobs whose time runs, one by one, until it finds an open one: not for every round. */
int store_due_to_jobs(struct store *s, bool *out_any, struct qp_err *err) QP_MUST_USE;

/* All tables as text, in key order: equal states print equal bytes. For tests and `quipu
 * export`. */
int store_dump(struct store *s, struct buf *out, struct qp_err *err) QP_MUST_USE;

/* Hints between the handles of a store that many share. A hint says "look again", and nothing more: it
 * may come late, twice, or not at all, so whoever waits for what others put looks by itself now and then,
 * and only sooner when it was hinted at. None of this waits for anybody, or fails.
 *
 *   fd      a descriptor to poll for reading, the same one as long as the handle is open; -1: there
 *           are no hints. When it is readable, call take. The first call begins to listen
 *   take    true when others may have put something since the last call; and once after the line for
 *           hints was made anew, since what was said meanwhile was not heard
 *   others  tells them, after a commit that left messages READY. Outside of any transaction, and not more
 *           often than every LIMIT_HINT_GAP_MS: what comes in between is told at the end of that time,
 *           by take */
int store_wake_fd(struct store *s);
bool store_wake_take(struct store *s);
void store_wake_others(struct store *s);

/* Whether the names of the files still lead to what was opened. False: the next commit or store_idle fails
 * for good. From any thread, without a lock. */
bool store_in_place(const struct store *s);
/* A moment between commits for housekeeping: SQLite gives free pages back and checkpoints its log
 * here. Call it when there is nothing better to do; the log is also checkpointed by itself when it
 * has LIMIT_WAL_PAGES pages, at first after LIMIT_WAL_COMMITS commits, or LIMIT_WAL_MOST_PAGES. */
int store_idle(struct store *s, struct qp_err *err);

/* A copy of all that is committed, as a new file, while others may be writing: through a handle for reading.
 * The file must not be there (QP_E_EXISTS); it is whole and on disk at QP_OK, and gone otherwise.
 * QP_E_UNSUPPORTED: the store is not a file. */
int store_backup(struct store *s, const char *to, struct qp_err *err) QP_MUST_USE;

/* A person's question in SQL: one SELECT over the views v_jobs, v_activities, v_events and v_workers (docs/sql.md).
 * The visit gets the names of the columns first, as texts, then every row; what it gets lives until it
 * returns, and another code than QP_OK ends the reading. At most LIMIT_SQL_COLUMNS columns.
 *
 * Returns: QP_OK; QP_E_INVALID: SQL that is wrong, or that is not such a SELECT; QP_E_LIMIT: its time was over;
 * QP_E_TOO_LARGE; QP_E_UNSUPPORTED: the store is not a file. *out_more: there were more rows than `limit`. */
struct store_sql {
    qp_str sql;
    int64_t limit; /* rows */
    qp_ms within_ms;
};

enum cell_kind { CELL_NONE, CELL_NUMBER, CELL_REAL, CELL_TEXT, CELL_BYTES };

struct store_cell {
    enum cell_kind kind;
    int64_t number;
    double real;
    qp_str text; /* a text may be any bytes */
};

typedef int (*store_sql_visit)(void *context, const struct store_cell *cells, size_t count);
int store_sql(struct store *s, const struct store_sql *q, void *context, store_sql_visit visit,
              bool *out_more, struct qp_err *err) QP_MUST_USE;

struct store_info {
    const char *provider; /* "memory", "sqlite", "postgres" */
    int64_t schema_version;
    bool
        opened_unclean; /* the last writer did not close it; a writer's finding, false for readers */
    bool exclusive;     /* nobody else can write to it as long as this handle is open */
    bool shared;        /* other processes may be writing to it now */
    bool refusing;      /* a failed fsync, or damage: all further work is refused */
    int64_t commits;
    int64_t rows_written;
};
void store_info(const struct store *s, struct store_info *out_info);

#endif

/* postgres_internal.h - shared by the files of the PostgreSQL provider; nobody else includes it
 *
 * A handle has one connection, and a second one for hints (wake.c) when somebody waits for them, or has some to
 * give. On the first, between begin and commit it is in one transaction, READ COMMITTED, and
 * what must not change under us is locked when it is loaded (provider.c).
 */
#ifndef QP_STORE_POSTGRES_INTERNAL_H
#define QP_STORE_POSTGRES_INTERNAL_H

#include "store/postgres/wire.h"
#include "store/provider.h"

/* By number, from 1; each is a list of statements that ends with NULL. */
extern const char *const *const postgres_migrations[];
extern const int64_t postgres_schema_version;
extern const char *const postgres_functions[];    /* functions.c: number 2 */
extern const char *const postgres_start_graphs[]; /* number 4 */
extern const char *const postgres_signal_ids[];   /* number 6 */
/* The statements after number `from`, for one transaction. `schema` is quoted. */
void postgres_migration_text(struct buf *out, const char *schema, int64_t from);

#define POSTGRES_IDS_PER_BLOCK 131072 /* the increments of the sequences in migration 1 */
#define POSTGRES_ORDERS_PER_BLOCK LIMIT_ORDERS_PER_BLOCK
static_assert(POSTGRES_IDS_PER_BLOCK >= LIMIT_IDS_PER_BLOCK, "a block is enough for one request");

/* The lock of a store, as arguments of pg_advisory_..: every commit shares it, a copy has it alone. The
 * oid of its head table tells the stores of a database apart; both forms have the schema for %s. */
#define POSTGRES_STORE_LOCK "58553134,'%s.head'::regclass::oid::int"

#define POSTGRES_POS_BITS 20 /* of a position: the entry within its transaction */
static_assert(LIMIT_COMMIT_ENTRIES < 1 << POSTGRES_POS_BITS, "so many entries have a position");

enum table_statement {
    STATEMENT_LOAD,
    STATEMENT_LOAD_SLIM, /* without payloads */
    STATEMENT_LOAD_LOCK,
    STATEMENT_FETCH, /* of many jobs */
    STATEMENT_INSERT,
    STATEMENT_INSERT_PLAIN, /* without what is none in most rows that are born */
    STATEMENT_UPDATE_HOT,
    STATEMENT_UPDATE,
    STATEMENT_UPDATE_ALL, /* a row that went and came again: its fixed columns change, too */
    STATEMENT_DELETE,
    STATEMENT_ADD, /* differences, of a table with SUM columns: to a row that is there, or was */
    STATEMENT_ADD_NEW,
    STATEMENT_KINDS
};

enum plain_statement {
    PLAIN_BEGIN,
    PLAIN_COMMIT,
    PLAIN_ROLLBACK,
    PLAIN_SNAPSHOT,
    PLAIN_ENTER,
    PLAIN_STATE,
    PLAIN_XID,
    PLAIN_XID_IF_ANY,
    PLAIN_LOCK_JOB,
    PLAIN_ORDERS,
    PLAIN_IDS,
    PLAIN_SETTLED,
    PLAIN_STATUS,
    PLAIN_TIDIES,
    PLAIN_KEEP_CLOCK,
    PLAIN_HUSKS,
    PLAIN_ZEROES,
    PLAIN_HEAD,
    PLAIN_RAISE_ORDERS,
    PLAIN_RAISE_IDS,
    PLAIN_KINDS
};

enum scan_lock { SCAN_FREE, SCAN_LOCK, SCAN_SKIP, SCAN_LOCKS };

#define SCAN_SHAPES ((TABLE_COUNT + INDEX_COUNT) * (INDEX_COLUMNS_MAX + 1) * 8 * SCAN_LOCKS)
#define SCAN_PAGE_ROWS 500

/* The jobs that this transaction has locked, by number (0: a free place). */
struct postgres_locked {
    int64_t *jobs;
    size_t size; /* a power of two */
    size_t count;
};

enum wake_state { WAKE_OFF, WAKE_DOWN, WAKE_DIALLING, WAKE_BUSY, WAKE_FREE };

/* The line for hints (wake.c). */
struct postgres_wake {
    enum wake_state state;
    PGconn *conn;
    int fd; /* an epoll of the two below */
    int timer_fd;
    int socket;   /* of the line, as far as it is watched; -1: not */
    int pause_ms; /* before the line is made again */
    bool deaf;    /* LISTEN has not been answered */
    bool news;    /* others have said something, or may have */
    bool owed;    /* we have something to say */
    bool resting; /* the last time that we did is not long ago */
};

struct postgres_provider {
    struct provider base;
    struct wire wire;
    struct wire_params params;
    char *url;    /* as libpq takes it; it may have a password */
    char *place;  /* host and database, for messages */
    char *schema; /* quoted */
    bool relaxed;
    bool host_clock;
    bool moving;      /* opened for a copy: nobody else writes, see open.c */
    bool active;      /* between begin and commit or rollback */
    bool in_snapshot; /* of a reader */
    bool in_host;
    int64_t schema_version;
    int64_t
        head_rev; /* of the head row when it was opened: another one means another store by now */
    int64_t pos_base; /* what is added to all positions; see postgres_number */
    int64_t xid;      /* of this transaction; 0: it has none yet, or nobody knows */
    int64_t feed_pos; /* of the feed row that it wrote; 0: none. The proof that it was committed */
    int64_t feed_at;  /* and its time */
    bool had_host;    /* a host callback has written in it */
    int64_t idle_us;  /* monotonic time of the last housekeeping */
    struct postgres_locked locked;
    struct postgres_wake wake;
    struct buf sql;
    struct wire_statement of_table[TABLE_COUNT][STATEMENT_KINDS];
    struct wire_statement plain[PLAIN_KINDS];
    struct wire_statement scans[SCAN_SHAPES];
};

/* statements.c: written at first use, from the descriptors of rows.h; texts never contain a value. */
int postgres_table_statement(struct postgres_provider *p, enum table_id table,
                             enum table_statement kind, struct wire_statement **out,
                             struct qp_err *err) QP_MUST_USE;
int postgres_plain_statement(struct postgres_provider *p, enum plain_statement kind,
                             struct wire_statement **out, struct qp_err *err) QP_MUST_USE;
int postgres_scan_statement(struct postgres_provider *p, const struct scan *scan,
                            enum scan_lock lock, struct wire_statement **out,
                            struct qp_err *err) QP_MUST_USE;
void postgres_scan_params(struct wire_params *out, const struct scan *scan, size_t limit);
void postgres_statements_done(struct postgres_provider *p);
/* Whether a statement of this kind writes columns of this role. */
bool postgres_writes(enum table_statement kind, enum column_role role);

/* batch.c */
int postgres_write(struct provider *base, enum table_id table, const void *before,
                   const void *after, struct qp_err *err) QP_MUST_USE;
int postgres_write_all(struct provider *base, enum table_id table, const void *const *before,
                       const void *const *after, size_t count, struct qp_err *err) QP_MUST_USE;

/* wake.c */
void postgres_wake_init(struct postgres_wake *w);
void postgres_wake_done(struct postgres_wake *w);
int postgres_wake_fd(struct provider *base);
bool postgres_wake_take(struct provider *base);
void postgres_wake_others(struct provider *base);

/* open.c */
void postgres_close(struct provider *base);
/* Connects again after the connection was lost: once, and then as often as there is time. */
int postgres_reconnect(struct postgres_provider *p, int within_ms, struct qp_err *err) QP_MUST_USE;

/* provider.c */
extern const struct provider_calls postgres_calls;
/* Raises the clock that is kept in the head row, unless another is at it. */
int postgres_keep_clock(struct postgres_provider *p, struct qp_err *err);
int postgres_send(struct postgres_provider *p, enum plain_statement kind, struct wire_answer answer,
                  struct qp_err *err) QP_MUST_USE;
int postgres_wait(struct postgres_provider *p, struct qp_err *err) QP_MUST_USE;
/* Takes one number; context is an int64_t, which stays as it is when there is none. */
int postgres_take_i64(void *context, const PGresult *result, struct qp_err *err);

#endif

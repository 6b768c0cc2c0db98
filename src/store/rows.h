/* rows.h - rows as plain structs, and what generic code may know about them
 *
 * From the lists of rows.def come one struct per table (struct job_row, struct act_row, ...), the
 * enum of tables and indexes, and descriptors with which a row is copied, compared, encoded as a
 * key or printed without knowing which table it is of. Text and bytes in a row are slices: the row
 * owns nothing; where they point to says who does.
 */
#ifndef QP_STORE_ROWS_H
#define QP_STORE_ROWS_H

#include "base/mem.h"
#include "store/rows.def"

/* State of a job, and the word that a person sees. Both change only together with their
 * counters. */
enum job_state { JOB_OPEN, JOB_COMPLETED, JOB_FAILED, JOB_CANCELLED, JOB_INTERRUPTED, JOB_STATES };

enum job_status {
    STATUS_RUNNING,
    STATUS_RETRYING,
    STATUS_WAITING,
    STATUS_PARKED,
    STATUS_PAUSED,
    STATUS_COMPLETED,
    STATUS_FAILED,
    STATUS_CANCELLED,
    STATUS_INTERRUPTED,
    STATUS_COUNT
};

/* What the obligation of an activity is about, as far as its job counts it: act_row.waits.
 *
 *          Leg1 done: timer, hook, child, gate
 *   BUSY ------------------------------------> WAITS ---- the answer that takes its obligation ----> BUSY
 *    |                                                                                                ^
 *    +---- an attempt failed, another follows ----> RETRIES ---- an answer ----------------------------+
 *
 * BUSY is everything else: not entered yet, in a stream or in the hands of a worker, or over. */
enum act_wait { ACT_BUSY, ACT_WAITS, ACT_RETRIES, ACT_WAIT_COUNT };

/*             put                        claim                     ack
 *   (none) ---------> READY  ------------------------> HELD  ------------> (none)
 *      |               ^  ^  <------------------------  |  ^
 *      | delay    wake |  |    lease ended, adopted     |  | put, born held
 *      +--> DELAYED ---+  |                             |  +--------------- (none)
 *      |       ^----------|-----------------------------+ retry with a delay
 *      | job paused       | resume                      | dead letter
 *      +----> ASIDE ------+              DEAD <---------+      DEAD --revive--> READY
 */
enum msg_state { MSG_NONE, MSG_READY, MSG_DELAYED, MSG_HELD, MSG_ASIDE, MSG_DEAD, MSG_STATES };

/* The stream that engines serve. Topics of users have no such name. */
#define ENGINE_TOPIC QP_STR("quipu:engine")

/* job_row.paused: which of its messages are set aside, all or those that workers would get. The others are in the stream that
 * engines serve: what the job waits for is taken in meanwhile. */
enum pause { PAUSE_NONE, PAUSE_ALL, PAUSE_TASKS };

/* Journal entries that the store makes itself, for changes of a job that leave no other row: below zero,
 * so that the layers above have the numbers from zero on. How they stand in a row: event.h. */
enum event_kind {
    EVENT_JOB_SET = -1,
    EVENT_JOB_CLOSED = -2,
    EVENT_JOB_PAUSED = -3,
    EVENT_JOB_RESUMED = -4,
    EVENT_LOST = -5, /* a task was delivered and not answered: its lease is over */
    EVENT_JOB_ASKED =
        -6, /* to end: job_row.cancelled is the sequence of this entry, where its kind makes it so */
};

/* What becomes of an open job when the one that called it ends: job_row.close. ABANDON: it goes on. CANCEL: it is asked to
 * end, as a person asks. KILL: it ends at once. */
enum close_policy { CLOSE_ABANDON, CLOSE_CANCEL, CLOSE_KILL, CLOSE_POLICIES };

/* Bits of hook_sig_row.keep. STAYS: who takes the signal goes on waiting. HAS_ID: the sender gave it an id, which has a
 * record in `idem`. */
enum signal_mark { SIGNAL_STAYS = 1, SIGNAL_HAS_ID = 2 };

/* msg_row.deadline of a message that no worker claimed within its start limit: held until that is reported. */
#define DEADLINE_UNSTARTED (-1)

/* Bits of hook_wait_row.keep. STAYS: the registration stays when a signal comes. GROUP: it goes when a signal comes to any
 * registration of the same activity that has the bit. ENVELOPE: the message tells the name of the signal (ops.h). */
enum wait_mark { WAIT_STAYS = 1, WAIT_GROUP = 2, WAIT_ENVELOPE = 4 };

/* With it begins the topic of a signal to one job by name. No topic of a user does. */
#define SIGNAL_NAME_MARK '@'

enum msg_owner { OWNER_JOB, OWNER_SCHEDULE, OWNER_SYSTEM };

/* What the head row says of the whole store, in `clean`. CLEAN: its last writer closed it properly.
 *
 *   IN_USE <--open, close--> CLEAN        a store that works
 *   IN_USE --copy begins--> FILLING --copy ends--> IN_USE      the destination of a move (copy.h)
 *   IN_USE --its copy is whole--> MOVED                        the source of one, for good
 */
enum head_state { HEAD_IN_USE, HEAD_CLEAN, HEAD_FILLING, HEAD_MOVED };

/* Of a version of an application, and what a topic is to it: one that starts a job, or one that hooks wait at. FLOW: the
 * name of a flow, which starts its jobs and leads to no application. */
enum app_state { APP_DEPLOYED, APP_ACTIVE, APP_DELETED };
enum app_topic_kind { APP_TOPIC_START, APP_TOPIC_HOOK, APP_TOPIC_FLOW, APP_TOPIC_KINDS };
/* app_topic_row.version of a flow's name; its app is the name itself. */
#define APP_FLOW_VERSION QP_STR("flow")

/* Of a universe; apply_fact.c has the diagram. Of a fact: what a name is about, or (the reverse index) which facts name it. */
enum universe_state {
    UNIVERSE_FILLING,
    UNIVERSE_CURRENT, /* stands as a number in an index */
    UNIVERSE_FORMER,
    UNIVERSE_GROWING,
    UNIVERSE_DROPPED,
    UNIVERSE_STATES
};
enum fact_kind { FACT_VALUE, FACT_SOURCES, FACT_KINDS };

/* ENDING: it takes nothing more, and what it holds is being given back. LEFT and DEAD have no row. */
enum node_state { NODE_RUNNING, NODE_LEFT, NODE_DEAD, NODE_ENDING };

enum column_kind { KIND_I64, KIND_TEXT, KIND_BLOB };
enum column_role {
    ROLE_KEY,
    ROLE_FIXED,
    ROLE_RARE,
    ROLE_NUMBER,
    ROLE_HOT,
    ROLE_LATER,
    ROLE_SELDOM,
    ROLE_UNUSUAL,
    ROLE_INDEXED,
    ROLE_SUM,
    ROLE_REV
};

#define ROW_TYPE_I64 int64_t
#define ROW_TYPE_TEXT qp_str
#define ROW_TYPE_BLOB qp_str
#define ROW_FIELD(table, column, kind, role) ROW_TYPE_##kind column;
#define ROW_STRUCT(table, list)                                                                    \
    struct table##_row {                                                                           \
        int64_t ns;                                                                                \
        list(ROW_FIELD, table) int64_t rev;                                                        \
    };
STORE_TABLES(ROW_STRUCT)
#undef ROW_STRUCT
#undef ROW_FIELD

enum table_id {
#define ROW_TABLE_ID(table, list) TABLE_##table,
    STORE_TABLES(ROW_TABLE_ID)
#undef ROW_TABLE_ID
        TABLE_COUNT
};

enum index_id {
#define ROW_INDEX_ID(name, table, columns, sql, condition) INDEX_##name,
    STORE_INDEXES(ROW_INDEX_ID, ROW_INDEX_ID)
#undef ROW_INDEX_ID
        INDEX_COUNT
};

struct column {
    const char *name;
    enum column_kind kind;
    enum column_role role;
    size_t offset;
};

struct table {
    const char *name;
    const struct column *columns; /* ns first, rev last */
    size_t column_count;
    size_t key_count; /* of columns, ns included */
    size_t row_size;
    const size_t *texts; /* offsets of the columns that are text or bytes */
    size_t text_count;
    bool keyed_by_job; /* the first key column after ns is the job's number */
    size_t number;     /* of the column that alone is unique in the whole table; 0: none is */
    bool additive;     /* it has SUM columns (rows.def) */
};

#define INDEX_COLUMNS_MAX 8

struct index {
    const char *name;
    enum table_id table;
    const char *column_names; /* as in rows.def */
    bool unique;
    bool (*holds)(const void *row);
};

/* The word that people see of a job, from its state, flags and counts. In this order: what it ended as; paused; parked;
 * retrying, when an activity has failed and will be tried again; waiting, when all that it still has to do waits for a
 * time, a signal or a child; running. */
int64_t job_word(const struct job_row *job);

extern const struct table tables[TABLE_COUNT];
extern const struct index indexes[INDEX_COUNT];

/* The columns of an index, its own first and then those of the key that are not among them: the
 * order is total. */
struct index_columns {
    size_t count;
    size_t own_count;
    size_t column[INDEX_COLUMNS_MAX];
};
struct index_columns index_columns(enum index_id index);

static inline int64_t row_i64(const struct column *c, const void *row)
{
    int64_t value;
    memcpy(&value, (const char *)row + c->offset, sizeof value);
    return value;
}

static inline qp_str row_str(const struct column *c, const void *row)
{
    qp_str value;
    memcpy(&value, (const char *)row + c->offset, sizeof value);
    return value;
}

static inline void row_set_i64(const struct column *c, void *row, int64_t value)
{
    memcpy((char *)row + c->offset, &value, sizeof value);
}

static inline void row_set_str(const struct column *c, void *row, qp_str value)
{
    memcpy((char *)row + c->offset, &value, sizeof value);
}

/* Order-preserving bytes: memcmp of two encodings orders as the columns do (none before any text,
 * text by bytes). */
void row_encode(struct buf *out, const struct table *t, const void *row, const size_t *columns,
                size_t count);
void row_encode_key(struct buf *out, enum table_id table, const void *row);

/* False for a row that no op can have written: what is read from outside is checked before anybody
 * computes with it. */
bool row_is_sound(enum table_id table, const void *row);

/* Two rows have the same in one column; none and empty differ. */
static inline bool column_equal(const struct column *c, const void *a, const void *b)
{
    qp_str x;
    qp_str y;
    if (c->kind == KIND_I64) {
        return row_i64(c, a) == row_i64(c, b);
    }
    x = row_str(c, a);
    y = row_str(c, b);
    /* A text that was not touched is the same bytes at the same place. */
    return x.n == y.n && (x.p == y.p || str_equal(x, y));
}
/* 0, or no text. */
static inline bool column_is_none(const struct column *c, const void *row)
{
    return c->kind == KIND_I64 ? row_i64(c, row) == 0 : str_is_none(row_str(c, row));
}

/* A copy in one block of memory from env, text included; freed with mem_free. NULL when memory is
 * short. */
void *row_clone(const struct qp_env *env, enum table_id table, const void *row) QP_MUST_USE;
/* The bytes that a copy takes, text included; and a copy in memory that has as many. Nothing of the
 * row may lie there. */
size_t row_copy_size(enum table_id table, const void *row);
void *row_copy_into(void *memory, enum table_id table, const void *row);
/* A copy in an arena, text included. */
void *row_copy(struct arena *a, enum table_id table, const void *row) QP_MUST_USE;

/* The GUID that stands on an activity's row, as the row that it would be; false when there is
 * none. */
bool act_first_guid(const struct act_row *act, struct guid_row *out_guid);

/* When a row asks for something by itself, by the store's clock: a timer or lease that ends, a signal,
 * a record or a job that is kept no longer. 0: never. */
int64_t row_due_at(enum table_id table, const void *row);

/* True for a row that has nothing in the columns that most new rows have nothing in (RARE, LATER, SELDOM). */
bool row_is_plain(enum table_id table, const void *row);

/* What jobs carry and nobody orders or counts by: it may be large. */
bool column_is_payload(const struct column *c);
/* The row has none of it. */
void row_slim(enum table_id table, void *row);

/* How many bytes of text and blobs a row has. */
size_t row_text_size(enum table_id table, const void *row);

/* One line "table{column=value ...}", bytes in hex; for tests, dumps and messages. */
void row_print(struct buf *out, enum table_id table, const void *row);

#endif

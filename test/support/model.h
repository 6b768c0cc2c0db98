/* model.h - SQLite and PostgreSQL as the simulator and tests of isolation play them, on the tables of a memory
 *
 *   serial  one transaction at a time; begin waits for the one that is open
 *   locks   every row that a transaction reads or writes is locked until its end (memory.h, ROWS); a call that
 *           meets a lock waits for its owner's end. A circle of waiters has a victim: QP_E_TIMEOUT
 *   rows    what provider.h says of a shared provider: a transaction sees, statement by statement, what is
 *           committed then and what it wrote itself; it locks what it loads, and the job of rows that belong
 *           to one; who meets a lock waits for its owner's end and looks again (and no longer takes what
 *           does not fit any more), or passes it over; a circle of waiters has a victim. SUM columns are
 *           written as differences. Numbers come from sequences, positions from transaction ids, and a
 *           reader of the feed goes no further than the oldest open transaction.
 *
 * Every call goes through the world (model_world), which may let others run, let time pass, fail the call, or
 * never come back.
 */
#ifndef QP_TEST_MODEL_H
#define QP_TEST_MODEL_H

#include "store/memory_internal.h"

enum model_call {
    CALL_BEGIN,
    CALL_EXPECT,
    CALL_LOAD,
    CALL_PEEK,
    CALL_SCAN,
    CALL_NUMBER,
    CALL_WRITE,
    CALL_COMMIT,
    CALL_COMMITTED, /* it is; whoever asked has not heard of it */
    CALL_KINDS
};

/* UNKNOWN_LATE: it will be done, when the one who asked for it has moved on. */
enum model_fate { FATE_NONE, FATE_ABORT, FATE_UNKNOWN_DONE, FATE_UNKNOWN_NOT, FATE_UNKNOWN_LATE };

/* A transaction that its server is still committing, without its handle: the locks are its own. */
struct model_late;

/* The world around a handle; env.context of every handle that is opened on the memory points to it. */
struct model_world {
    void *context;
    enum model_fate (*call)(void *context, enum model_call call);
    /* Until another transaction has ended. */
    void (*wait)(void *context);
    /* For so long at most. */
    void (*pause)(void *context, int64_t us);
    /* Before a commit is applied, and after: what it writes is on p->undo. */
    void (*committing)(void *context, const struct memory_provider *p);
    void (*committed)(void *context);
    void (*ended)(void *context); /* a transaction: those who wait look again */
    /* UNKNOWN_LATE: model_late_commit is to be called for it, once. */
    void (*late)(void *context, struct model_late *late);
    /* Of the server, for the rows model. */
    qp_ms (*now_ms)(void *context);
    void (*hint)(void *context); /* to the other handles */
    /* the handle's own state */
    bool lost; /* the transaction is gone, and nobody has said so yet */
    int64_t xid;
    struct model_server *server;
};

/* What a database server has beside its tables. */
struct model_server {
    int64_t next_xid;
    int64_t next_ord;
    int64_t next_id;
    struct memory_provider *tidier;
};

extern const struct provider_calls model_serial_calls;
extern const struct provider_calls model_locks_calls;
extern const struct provider_calls model_rows_calls;

void model_late_commit(struct model_late *late);

/* As if the process that has this handle had died. */
void model_forget(struct memory_provider *p);

#endif

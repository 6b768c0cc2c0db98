/* driver.h - which thread drives the engine, and how other threads wake and wait for it
 *
 * The engine of the kernel belongs to one thread at a time: to the thread that DRIVES it. Any other thread puts a call
 * into the inbox (calls.h) and waits until it is answered. No thread has to be there to drive: a caller that finds the
 * engine undriven drives it itself until its own call is answered (loop.h), and all calls that wait with it share its
 * commits.
 *
 *   caller --inbox--> driver: call -> engine_submit -> engine_round -> answer --> caller
 *
 * What other parts of a handle do in a turn of the driver comes in through struct driver_parts: the driver knows none of
 * them. The handle owns the driver; the store and the engine are the handle's.
 *
 * Locks: `lock` guards the fields that say so; all others belong to the thread that drives. The lock is never held while
 * the engine works or a callback runs.
 */
#ifndef QP_RUN_DRIVER_H
#define QP_RUN_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "kernel/engine.h"
#include "run/writer.h"

struct call;
struct asker;

/* What one turn has brought. */
struct turn_report {
    int rc;
    const struct qp_err *err;
    bool committed;
    int64_t duration_us;
    struct engine_stats before;
    struct engine_stats after;
};

/* What the parts of a handle do in a turn, on the thread that drives. */
struct driver_parts {
    void (*begin)(qp *q);   /* the turn begins to work with the store */
    void (*prepare)(qp *q); /* the store is in reach: before the calls that have arrived */
    void (*submit)(qp *q);  /* after them, before the round */
    void (*settle)(qp *q,
                   const struct turn_report *t); /* after the round, still inside the engine */
    void (*hand_out)(qp *q, bool functions);     /* then; `functions`: it may run some itself */
    void (*note)(qp *q, int rc, const struct qp_err *err); /* outside a turn: what the store said */
    void (*failed)(qp *q, int rc);    /* the store has failed for good: answer what waits */
    qp_ms (*due)(const qp *q);        /* when a part is due by itself; INT64_MAX: none */
    bool (*has_results)(const qp *q); /* from any thread: functions have returned */
    bool (*has_unsent)(const qp *q);  /* results that a commit has failed for */
    bool (*has_tasks)(const qp *q);   /* tasks are in hand, or their results */
    size_t (*backlog)(qp *q);         /* tasks that no thread has taken yet */
};

struct driver {
    const struct qp_env *env;
    const struct driver_parts *parts;
    qp *owner;             /* whose parts they are */
    struct store *store;   /* from driver_join on */
    struct engine *engine; /* NULL: the store was opened for reading only */
    bool shared;           /* other processes work on the store, too */
    int event_fd;
    int wake_fd; /* hints of others that share the store; -1: there are none */
    int both_fd; /* an epoll of the two, for hosts with a loop of their own; or event_fd */
    atomic_bool
        stop; /* asked for; the run that ends by it clears it. Signal handlers set it, too */
    atomic_bool poked; /* driver_stop has set the event, without the lock that `kicked` is under */
    atomic_bool
        displaced; /* the file was removed or replaced: the store is looked at in the next turn */
    atomic_bool sealed;  /* qp_close has begun: no new call. Set under the lock */
    atomic_bool closing; /* set under the lock: threads do not wait for the end of a job any more */
    struct writer writer; /* beside the engine's own thread */
    pthread_t thread;     /* the engine's own */
    bool thread_started;

    /* the driver's */
    qp_ms idle_at;      /* when the store may tidy up, if nothing happens before; 0: it is tidy */
    qp_ms again_at;     /* after a failure that may pass: when to try again; 0: none */
    qp_ms again_ms;     /* how long after the last try, while the store is away */
    int64_t unanswered; /* commands of tasks that the engine has: closing waits for them */
    bool in_engine;     /* it is inside the engine, or answers a call: nothing may wait */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    struct call *inbox;
    struct call *last_call;
    struct asker *askers; /* threads that have set a limit */
    qp_ms calls_ms;       /* the limit of calls that no thread waits for; 0: none */
    bool away;            /* the database cannot be reached; only the driver sets it */
    int failed;           /* QP_OK, or the engine's own thread has ended with this */
    size_t waiting_count; /* async calls, from call_put to their answer */
    bool driven;
    pthread_t by;   /* the thread that drives, while it is driven */
    bool running;   /* qp_run has it, here or on the engine's own thread */
    bool threaded;  /* qp_start_threads was called */
    bool kicked;    /* the event is set */
    bool answered;  /* a call was answered, or a waiter notified: threads that wait look */
    qp_ms due_at;   /* when the next turn is due by itself, by our wall clock; INT64_MAX: never */
    int64_t due_us; /* the same by the monotonic clock: the earlier of the two counts */
    bool busy;
    bool in_hand; /* tasks are, or their results */
};

/* QP_E_LIMIT: no file descriptor is left; QP_E_NOMEM. */
int driver_init(struct driver *d, const struct qp_env *env, qp *owner,
                const struct driver_parts *parts) QP_MUST_USE;
/* The store is open: its hints wake the driver, too. */
int driver_join(struct driver *d, struct store *s, bool shared, struct qp_err *err) QP_MUST_USE;
void driver_done(struct driver *d);

int64_t driver_now_us(const struct driver *d);

/* Becomes the driver, when no thread is; waits otherwise. Not on the driver's own thread. */
void driver_begin(struct driver *d);
void driver_end(struct driver *d);
/* Under the lock: is this thread the driver? */
bool driver_is_here(const struct driver *d);
/* Without the lock. */
bool driver_is_this_thread(struct driver *d);
/* Whether this thread is in a callback of the engine, where nothing may wait. Without the lock. */
bool driver_in_callback(struct driver *d);

/* Under the lock: the driver wakes and looks at the inbox. */
void driver_kick(struct driver *d);
/* Without the lock. */
void driver_wake(struct driver *d);
/* Under the lock: wakes the driver; then until it has answered a call, or the time (monotonic; < 0: any). */
void driver_wait(struct driver *d, int64_t until_us);

/* Asks for the end of qp_run. Async-signal-safe. */
void driver_stop(struct driver *d);
bool driver_is_stopped(const struct driver *d);
/* From here on no call is taken. */
void driver_seal(struct driver *d);
/* Threads that wait for the end of a job return. */
void driver_close(struct driver *d);

#endif

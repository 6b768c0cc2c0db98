/* handle.h - the engine handle behind quipu.h
 *
 * The engine of the kernel belongs to one thread at a time: to whoever DRIVES it. Everybody else puts
 * a CALL into the inbox and waits until it is answered. Nobody has to be there to drive: a caller that
 * finds the engine undriven drives it itself until its own call is answered, and so all that waits with
 * it shares its commits.
 *
 *   caller --inbox--> driver: call_run -> engine_submit -> engine_round -> answer --> caller
 *   driver --queue--> worker threads --finished--> driver: request_result -> engine_round
 *
 * Locks: `lock` guards the fields that say so; everything else belongs to the driver. The lock is
 * never held while the engine works or a callback runs.
 */
#ifndef QP_RUN_HANDLE_H
#define QP_RUN_HANDLE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/uuid.h"
#include "kernel/request.h"

/* Something that a caller wants of the driver. It belongs to the driver until it is done. */
struct call {
    struct call *next;
    /* On the driver, before a round: reads, or submits a command whose answer ends the call. */
    void (*run)(qp *q, struct call *c);
    qp *q;
    bool done; /* under the lock */
    int rc;
    struct qp_err *err;
};

/* Waits for the end of a job. */
struct watch {
    struct watch *next;
    struct job_ref job;
    void (*ended)(qp *q, struct watch *w, enum job_state state);
};

/* All watches, by job; owned by the driver. */
struct watches {
    struct watch **slots; /* a power of two of lists */
    size_t slot_count;
    size_t count;
};

struct worker {
    struct worker *next;
    qp *q;
    qp_work work;
    void *context;
    struct service service;
    char topic[LIMIT_NAME_SIZE];
};

struct qp_task {
    qp *q;
    qp_task *next;      /* in the queue, or among the finished */
    qp_task *next_held; /* all tasks in hand, owned by the driver */
    qp_task *previous_held;
    struct task *task;
    struct worker *worker; /* NULL: claimed by hand */
    struct request_result result;
    struct buf output;
    struct buf error;
    int code;
    bool fatal;
    bool failed;    /* the function returned an error */
    bool converted; /* what it brought was refused, so the refusal is its result */
    int64_t pending_count;
    qp_tx tx;
    void *tx_context;
    atomic_bool cancelled;
};

/* Tasks that wait for a thread, and those that are finished. */
struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work;
    qp_task *first; /* under the pool's lock */
    qp_task *last;
    size_t count;
    bool stopping;
    pthread_t *threads;
    int thread_count;
    /* the driver's own: given in this round, not yet shown to the threads */
    qp_task *given;
    qp_task *last_given;
    size_t given_count;
};

struct qp {
    struct qp_env env;
    struct store *store;
    struct engine *engine;
    int64_t ns;
    struct pool pool;
    struct worker *workers;
    qp_task *held;
    struct watches watches;
    qp_task *unsent; /* results that a commit has failed for */
    int event_fd;
    qp_ms idle_at; /* when the store may tidy up, if nothing happens before */
    bool in_round; /* the driver is inside the engine */
    bool threaded; /* qp_start_threads was called */
    pthread_t thread;
    bool thread_started;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    struct uuid_source uuids;
    struct call *inbox;
    struct call *last_call;
    size_t inbox_count;
    qp_task *finished;
    qp_task *last_finished;
    bool driven;
    pthread_t driver;
    bool kicked; /* the event is set */
    bool stop;
    bool answered; /* somebody should look */
    qp_ms deadline;
    bool busy;
};

/* handle.c: qp_open with further programs than those that everybody has. They outlive the handle. */
int handle_open(const struct qp_options *options, const struct program *const *programs,
                size_t program_count, qp **out_engine, struct qp_err *err) QP_MUST_USE;

/* jobs.c: qp_job_start_async for a job of any program. */
int job_start_async(qp *q, const struct qp_start *start, int64_t kind,
                    struct qp_err *err) QP_MUST_USE;

/* handle.c: calls. call_do waits for the answer; call_put does not. */
int call_do(qp *q, struct call *c, struct qp_err *err);
int call_put(qp *q, struct call *c) QP_MUST_USE;
/* On the driver: the call is answered. */
void call_done(qp *q, struct call *c, int rc);
/* Under the lock: whoever sleeps on the event looks at the inbox. */
void kick(qp *q);

/* loop.c: one turn of the driver. `work` lets it run workers' functions itself. */
int loop_turn(qp *q, bool work, bool *out_busy, struct qp_err *err);
/* Becomes the driver, when nobody is; waits otherwise. */
void drive_begin(qp *q);
void drive_end(qp *q);
/* Until *flag, which is under the lock, or the time: true when it is set. Drives when nobody does. */
bool wait_until(qp *q, const bool *flag, int64_t until_us);
/* Sleeps until the event, the deadline, or `until` (monotonic us; < 0: any time). Only as driver. */
void drive_sleep(qp *q, int64_t until_us);

/* pool.c */
int pool_init(struct pool *p);
int pool_start(qp *q, int threads, struct qp_err *err) QP_MUST_USE;
void pool_give(void *context, struct task *task);
/* What was given in this round goes to the threads. */
void pool_flush(qp *q);
/* Runs what waits on this thread. */
void pool_run_here(qp *q);
void pool_stop(qp *q);
void pool_done(qp *q);

/* tasks.c */
qp_task *task_make(qp *q, struct worker *w, struct task *task);
void task_drop(qp_task *task);
void task_run(qp_task *task);
/* On the driver: what the function said goes to the engine. */
void task_submit(qp_task *task);
void tasks_cancel(qp *q, struct job_ref job);

/* watch.c */
int watch_add(qp *q, struct watch *w) QP_MUST_USE;
void watch_remove(qp *q, struct watch *w);
void watch_job_ended(void *context, struct job_ref job, enum job_state state);
void watches_done(qp *q);

/* jobs.c: the words for a status, and for the state in which a job ended. */
const char *status_word(int64_t status);
const char *state_word(enum job_state state);

#endif

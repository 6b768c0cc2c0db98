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
#include <sys/types.h>

#include "base/mem.h"
#include "base/uuid.h"
#include "kernel/face.h"
#include "kernel/request.h"
#include "run/calls.h"
#include "run/follow.h"
#include "run/host.h"
#include "run/readers.h"
#include "run/writer.h"

/* What a public function begins with, before it looks at anything: the one place where a handle is judged. It is
 * refused when it is NULL or when `needs`, a condition on the other arguments, is false (QP_E_INVALID); in a child
 * after fork, whose copies of the locks may be held for good (QP_E_INVALID); and once the engine is sealed
 * (QP_E_CLOSED). Else the call counts as running until the function returns, by the cleanup of `entered`, and
 * qp_close waits for it. */
#define ENTER(q, needs, err)                                                                       \
    __attribute__((cleanup(handle_leave))) qp *entered = NULL;                                     \
    QP_TRY(handle_enter((q), (needs), __func__, #needs, &entered, (err)))
int handle_enter(qp *q, bool complete, const char *function, const char *needs, qp **out_entered,
                 struct qp_err *err) QP_MUST_USE;
void handle_leave(qp *const *entered);
/* For functions that return no code: whether they may do anything with it. Async-signal-safe. */
bool handle_is_ours(const qp *q);

/* Serves a topic, all of it the driver's:
 *
 *         qp_worker_add            qp_worker_remove            nothing of it runs      its last task ends
 *   (none) -----------> in workers ---------------> in leaving ------------> REMOVED ------------------> (gone)
 *
 * In `leaving` it gets no more tasks, what has not begun goes back, and its functions return. REMOVED, it is kept for
 * tasks that are detached. */
struct worker {
    struct worker *next;
    int64_t tasks;        /* in hand, those that are detached among them */
    struct call *removal; /* that waits while it leaves; else NULL */
    bool removed;
    qp *q;
    qp_work work;
    void *context;
    struct service service;
    char topic[LIMIT_NAME_SIZE];
};

struct starting;

struct qp_task {
    qp *q;
    qp_task *next;      /* in a queue, or among the finished */
    qp_task *next_held; /* all tasks in hand, owned by the driver */
    qp_task *previous_held;
    struct task *task;
    struct worker *worker; /* NULL: claimed by hand */
    struct request_result result;
    struct request_op back;  /* it was not begun, and the engine closes */
    struct request_op renew; /* its lease, while it waits for a thread */
    bool renewed_last;       /* since its function has begun: the rest is up to heartbeats */
    bool renewing;           /* the engine has `renew`, so the task must stay */
    bool submitted;          /* the engine has its result, or its return */
    bool backing;            /* likewise `back`, while its function runs */
    bool over;               /* it goes when these are answered */
    atomic_bool detached;    /* its function has given it to the caller (qp_task_detach) */
    bool *out_detached;      /* while its function runs: where task_run finds that */
    qp_ms handed_at;
    qp_ms leased_at; /* when it was claimed, or last renewed */
    atomic_bool begun;
    struct buf output;
    struct buf error;
    int code;       /* 0: nothing was said of an error */
    int reply_code; /* of a reply; 0: 200 */
    bool fatal;
    bool refused;   /* the last output was none: the task cannot end well */
    bool reported;  /* the function called qp_task_fail: that wins over what it returns */
    bool failed;    /* the function returned an error */
    bool converted; /* what it brought was refused, so the refusal is its result */
    int64_t pending_count;
    struct host_tx host;     /* of qp_task_tx */
    struct starting *starts; /* jobs that commit with its output, in order (start.c) */
    int64_t start_count;
    atomic_bool cancelled;
};

/* Tasks by priority, of one priority in the order in which they came. */
struct task_queue {
    qp_task *first[LIMIT_PRIORITY + 1];
    qp_task *last[LIMIT_PRIORITY + 1];
    size_t count;
};

/* What a thread of the pool runs at present. */
struct pool_slot {
    pthread_t self;               /* set before `now` for the first time */
    _Atomic(struct worker *) now; /* whose function; NULL: none */
};

/* Tasks that wait for a thread. */
struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct task_queue waiting; /* under the pool's lock */
    int idle_count;            /* likewise: threads that wait for a task */
    atomic_bool stopping;      /* set under the pool's lock, so that no thread sleeps over it */
    pthread_t *threads;
    struct pool_slot *slots; /* one per thread; changed under the pool's lock */
    int slot_count;
    struct pool_slot here; /* of the driver, which runs functions when there are no threads */
    int thread_count;
    struct task_queue given; /* the driver's own: in this round, not yet shown to the threads */
};

/* What the driver has noted of whether the store can be written (ready.c). */
struct ready {
    pthread_mutex_t lock;
    int rc;                    /* under the lock: QP_OK, or why nothing can be written */
    atomic_llong committed_us; /* the last commit, by the monotonic clock; 0: none yet */
    atomic_llong
        silent_us; /* since when the driver works with the store and no turn went well; 0: one did */
    atomic_bool asked; /* somebody wants to know, and the last commit is long ago */
    /* the driver's */
    int64_t since_us; /* when rc became what it is */
    struct request_op proof;
    bool proving; /* the engine has it */
};

struct desk;
struct shell;
struct stats;

struct qp {
    struct qp_env env;
    pid_t pid;           /* of the process that opened it */
    unsigned char *mark; /* 1, and 0 in a child after fork; NULL: the system cannot do that */
    atomic_llong inside; /* public calls that are running */
    atomic_bool sealed;  /* qp_close has begun: no new call, and no more async starts */
    atomic_bool poked;   /* qp_stop has set the event, without the lock that `kicked` is under */
    atomic_bool
        stop;   /* asked for; the run that heeds it takes it back. Set by signal handlers, too */
    char *path; /* NULL: in memory */
    bool accept_loss;      /* of the options; readers are opened so, too */
    atomic_bool closing;   /* set under the lock: nobody waits for the end of a job any more */
    atomic_bool displaced; /* set by handle_watch: the store is looked at in the next turn */
    struct readers readers;
    char ns_name[LIMIT_NAME_SIZE + 1]; /* of `ns` */
    struct store *store;
    struct engine *engine;
    int64_t ns;
    bool shared;    /* other processes work on the store, too */
    qp_ms lease_ms; /* of the run, then; else 0 */
    struct pool pool;
    struct worker *workers;
    struct worker *leaving;   /* workers that are removed */
    atomic_int leaving_count; /* of those, how many wait for their functions */
    struct service by_hand;   /* of tasks that were claimed without a worker */
    qp_task *held;
    struct shell *shell; /* what quipu.shell may run (builtin.c); NULL: nothing */
    struct desk *work;   /* workers elsewhere */
    struct stats *stats;
    struct faces *faces; /* of all kinds of jobs (kernel/face.h) */
    struct follow follow;
    struct ready ready;
    qp_task *unsent;    /* results that a commit has failed for */
    int64_t unanswered; /* results that the engine has */
    _Atomic(qp_task *)
        finished; /* functions that have returned, the last one first; any thread adds */
    int event_fd;
    int wake_fd;      /* hints of others that share the store; -1: there are none */
    int both_fd;      /* an epoll of the two, for hosts with a loop of their own; or event_fd */
    qp_ms idle_at;    /* when the store may tidy up, if nothing happens before; 0: it is tidy */
    qp_ms renew_at;   /* leases of tasks that wait for a thread; 0: there are none */
    qp_ms again_at;   /* after a failure that may pass: when to try again; 0: none */
    qp_ms again_ms;   /* how long after the last try, while the store is away */
    bool in_engine;   /* the driver is inside the engine, or answers somebody: nothing may wait */
    pthread_t thread; /* drives the engine, with the writer beside it */
    bool thread_started;
    struct writer writer;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    struct uuid_source uuids;
    struct call *inbox;
    struct call *last_call;
    struct asker *askers; /* threads that have set a limit */
    qp_ms calls_ms;       /* the limit of calls that no thread waits for; 0: none */
    bool away;            /* the database cannot be reached; only the driver sets it */
    int failed;           /* QP_OK, or the engine's own thread has ended with this */
    size_t waiting_count; /* async starts, from call_put to their answer */
    bool driven;
    pthread_t driver;
    bool running;   /* qp_run has it, here or on the engine's own thread */
    bool threaded;  /* qp_start_threads was called */
    bool kicked;    /* the event is set */
    int live;       /* threads of our own: the engine's, and those of the pool */
    bool orphaned;  /* qp_close_within has left: the last of them closes */
    bool answered;  /* somebody should look */
    qp_ms due_at;   /* when the next turn is due by itself, by our wall; INT64_MAX: never */
    int64_t due_us; /* the same by the monotonic clock: whichever comes first */
    bool busy;
    bool in_hand; /* tasks are, or their results */
};

/* handle.c: qp_open with kinds of jobs beside those of kinds.h. They outlive the handle. */
int handle_open(const struct qp_options *options, const struct face *const *more, size_t more_count,
                qp **out_engine, struct qp_err *err) QP_MUST_USE;

/* A thread of our own begins, before it does, and ends: after that it knows the handle no more. */
void threads_add(qp *q, int count);
void thread_left(qp *q);

/* start.c: the id that a start gives, or a new one. */
/* The record of an idempotency key that commits with a request: the hash of what was asked goes to out_hash,
 * which lives as long as the record. */
struct op_idem_put idem_record(int64_t ns, qp_str key, qp_str body, qp_str answer,
                               unsigned char out_hash[LIMIT_GUID_SIZE]);
int start_id(qp *q, const struct qp_start *start, char out_id[QP_ID_SIZE],
             struct qp_err *err) QP_MUST_USE;

/* start.c: the jobs that commit with a task's output. On the driver: they go with the result; and it was committed. */
int task_starts_fill(qp_task *task, struct request_result *result, struct qp_err *err) QP_MUST_USE;
void task_starts_done(const qp_task *task);
void task_starts_free(qp_task *task);

/* loop.c */
/* Under the lock: whoever sleeps on the event looks at the inbox. */
void kick(qp *q);
/* Under the lock: is this thread the driver? */
bool am_driver(const qp *q);

/* Every LIMIT_STORE_LOOK_MS, from any thread: an engine whose store was removed or replaced ends within
 * its next turn, also when it has nothing to do. */
void handle_watch(qp *q);
/* loop.c: false once the engine's own thread has ended because the store failed for good. From any thread; asks
 * nothing of the store. */
bool handle_alive(qp *q);

/* ready.c: QP_OK when the store can be written, as far as the driver has noted; else why not. From any thread: it
 * waits for nothing. When the last commit is long ago, the driver makes one for those who ask later; ready_now does
 * without. */
int handle_ready(qp *q, struct qp_err *err) QP_MUST_USE;
int ready_now(qp *q, struct qp_err *err) QP_MUST_USE;
int ready_init(struct ready *r);
/* On the driver: before a round, a tiny commit when it has to be made sure of; a turn begins to work with the store; and
 * what it has shown. Losses and their end are logged, once each. */
void ready_prove(qp *q);
void ready_begin(qp *q);
void ready_note(qp *q, int rc, const struct qp_err *err, bool committed);
/* Why nothing can be written, or QP_OK. From any thread. */
int ready_code(qp *q);

/* loop.c: one turn of the driver. `work` lets it run workers' functions itself. */
int loop_turn(qp *q, bool work, bool *out_busy, struct qp_err *err);
/* Becomes the driver, when nobody is; waits otherwise. Not on the driver's own thread. */
void drive_begin(qp *q);
void drive_end(qp *q);
/* As driver: sleeps until the event, a hint of others, or what is due, or the time (monotonic; < 0: any). */
void drive_sleep(qp *q, int64_t until_us);
/* Under the lock, while another drives: until it has answered a call, or the time (< 0: any). */
void wait_driven(qp *q, int64_t until_us);
/* A failure that may pass is waited for; others end the run. */
bool may_pass(int rc);
/* Until *flag, which is under the lock (QP_OK), or the time (QP_E_TIMEOUT), or the store fails for good, or
 * the engine is closed (QP_E_CLOSED). Drives when nobody does. */
int wait_until(qp *q, const bool *flag, int64_t until_us, struct qp_err *err) QP_MUST_USE;

/* pool.c */
int pool_init(struct pool *p);
int pool_start(qp *q, int threads, struct qp_err *err) QP_MUST_USE;
void pool_give(void *context, struct task *task);
/* What was given in this round goes to the threads. */
void pool_flush(qp *q);
/* Tasks that no thread has taken yet; 0 without threads. */
size_t pool_waiting(qp *q);
/* As driver: runs what waits, for a while, when there are no threads for it. */
void pool_run_here(qp *q);
/* On a thread, or as driver: its function has returned, and the driver commits what it brought. */
void pool_finish(qp *q, qp_task *task);
/* As driver: all that were finished since the last time, in order. */
qp_task *pool_finished(qp *q);
/* Whether a function of the worker runs; and whether this thread runs one of that topic, from any thread. */
bool pool_runs(qp *q, const struct worker *w);
bool pool_is_inside(qp *q, qp_str topic);
/* As driver: the next task of the worker that no thread has taken; NULL: there is none. */
qp_task *pool_take_of(qp *q, const struct worker *w);
/* The threads end when their functions have returned; pool_stop waits for that. */
void pool_ask(qp *q);
void pool_stop(qp *q);
/* Nobody waits for the threads; then, on the last of them, the pool is as if it had never been started. */
void pool_detach(qp *q);
void pool_forget(qp *q);
/* Whether this thread is one of them. */
bool pool_has_thread(qp *q);
/* Only then: the next task that was not begun; NULL: there is none. */
qp_task *pool_rest(qp *q);
void pool_done(qp *q);

/* workers.c, on the driver: workers that leave, after each round; and one task less of a worker is in hand. */
void workers_turn(qp *q);
void worker_task_ended(struct worker *w);

/* tasks.c */
qp_task *task_make(qp *q, struct worker *w, struct task *task);
void task_drop(qp_task *task);
/* Runs its function. False: it was detached, and may be gone already. */
bool task_run(qp_task *task) QP_MUST_USE;
/* On the driver: what the function said goes to the engine. */
void task_submit(qp_task *task);
/* On the driver: it was never begun, and goes back as if it had not been claimed; or it was begun, and its next
 * delivery says so. */
enum task_back { TASK_NOT_BEGUN, TASK_BEGUN };
void task_give_back(qp_task *task, enum task_back how);
/* On the driver, when the engine closes: what was detached goes back. */
void tasks_give_back_detached(qp *q);
/* Likewise what a function works on that has not returned in time: its result will be refused. */
void tasks_give_back_running(qp *q);
/* On the driver, before what has arrived: leases of tasks whose functions have not begun, or just have, begin
 * anew. A task that waits for one of our threads is not silent. */
void tasks_renew(qp *q, qp_ms now);
void tasks_cancel(qp *q, struct job_ref job);

/* tasks.c: qp_task_key of a task of the kernel. */
void task_key(const struct task *task, char out_key[QP_TASK_KEY_SIZE]);

/* work.c, on the driver: workers elsewhere (work.h). work_turn after each round; work_due: when one is due by
 * itself, by the store's clock; work_close: nothing more is handed out, true while somebody is to be
 * answered; work_end: all are, whatever is missing. */
int work_init(qp *q) QP_MUST_USE;
void work_turn(qp *q);
qp_ms work_due(const qp *q);
bool work_close(qp *q);
void work_end(qp *q, int rc);
void work_free(qp *q);
/* From any thread but in the engine's callbacks: how many workers serve these topics, and when one last did. Topics of
 * which nothing is known in time are not served. QP_E_NOMEM. */
int topics_served(qp *q, int64_t ns, struct qp_topic *topics, size_t count,
                  struct qp_err *err) QP_MUST_USE;
void work_settled(void *context, int round);
void work_cancel(qp *q, struct job_ref job);

#endif

/* quipu.h - the public interface of libquipu, a durable workflow engine in a file
 *
 * Copyright the Quipu authors. SPDX-License-Identifier: Apache-2.0
 *
 * Every function that can fail returns an int: QP_OK (0) or a negative code of QP_ERROR_TABLE, and
 * writes the detail into a caller-supplied struct qp_err when one is given (NULL is allowed
 * everywhere). Outputs are the last parameters, their names start with out_, and they are untouched
 * on failure. A handle, struct, function or output that a call needs and that is NULL is QP_E_INVALID, unless
 * NULL is allowed there; functions that return no code do nothing with it.
 *
 * The library has no globals, no constructors, no signal handlers, prints nothing, reads no
 * environment and never exits. Everything hangs off one handle, and everything it needs of the
 * outside comes in through struct qp_env.
 */
#ifndef QUIPU_H
#define QUIPU_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QP_VERSION_MAJOR 0
#define QP_VERSION_MINOR 1
#define QP_VERSION_PATCH 0
#define QP_VERSION "0.1.0"

#if defined(__GNUC__)
#define QP_API __attribute__((visibility("default")))
#define QP_MUST_USE __attribute__((warn_unused_result))
#define QP_PRINTF(format_index, first_index)                                                       \
    __attribute__((format(printf, format_index, first_index)))
#else
#define QP_API
#define QP_MUST_USE
#define QP_PRINTF(format_index, first_index)
#endif

/* --------------------------------------------------------------------------------------- errors */

/* What a caller can do about an error:
 *   RETRY     the same call may succeed later          CONFLICT  the state has moved on: read it,
 *             then decide
 *   CALLER    the request is wrong: mend it            LIMIT     a named limit was reached
 *   FATAL     this handle is of no more use            UNKNOWN   the commit may or may not have
 *             happened
 */
enum qp_class {
    QP_CLASS_OK,
    QP_CLASS_RETRY,
    QP_CLASS_CONFLICT,
    QP_CLASS_CALLER,
    QP_CLASS_LIMIT,
    QP_CLASS_FATAL,
    QP_CLASS_UNKNOWN
};

/* X(NAME, number, HTTP status, class, word, sentence) - the one table of errors. `word` is the
 * stable code of the HTTP API and of the command line. Numbers are never used again for something
 * else. */
#define QP_ERROR_TABLE(X)                                                                          \
    X(NOMEM, 1, 503, LIMIT, "out_of_memory", "out of memory")                                      \
    X(INVALID, 2, 400, CALLER, "invalid", "invalid argument")                                      \
    X(MALFORMED, 3, 400, CALLER, "malformed", "malformed input")                                   \
    X(SHAPE, 4, 422, CALLER, "wrong_shape", "well-formed input of the wrong shape")                \
    X(TOO_LARGE, 5, 413, LIMIT, "too_large", "larger than the limit")                              \
    X(LIMIT, 6, 429, LIMIT, "limit_reached", "a limit was reached")                                \
    X(NOT_FOUND, 7, 404, CALLER, "not_found", "not found")                                         \
    X(EXISTS, 8, 409, CONFLICT, "exists", "exists already")                                        \
    X(CONFLICT, 9, 409, CONFLICT, "conflict", "conflicts with what is there")                      \
    X(STALE, 10, 409, CONFLICT, "lease_lost",                                                      \
      "the lease is lost: another claim holds the message")                                        \
    X(DONE, 11, 409, CONFLICT, "already_done", "this step is committed already")                   \
    X(DIGIT, 12, 409, CONFLICT, "digit", "a ledger digit is not what the step requires")           \
    X(CEILING, 13, 409, LIMIT, "ceiling", "a ledger counter is at its ceiling")                    \
    X(CLOSED, 14, 409, CONFLICT, "job_closed", "the job is closed")                                \
    X(UNDERFLOW, 15, 409, CONFLICT, "semaphore_underflow", "the semaphore would fall below zero")  \
    X(ABORTED, 16, 409, CONFLICT, "aborted", "the host's callback refused the commit")             \
    X(BUSY, 17, 503, RETRY, "busy", "busy, try again")                                             \
    X(TIMEOUT, 18, 503, RETRY, "timeout", "timed out")                                             \
    X(FULL, 19, 507, RETRY, "disk_full", "the disk is full")                                       \
    X(IO, 20, 500, RETRY, "io_error", "input/output error")                                        \
    X(FSYNC, 21, 500, FATAL, "fsync_failed",                                                       \
      "fsync failed: nothing more is written through this handle")                                 \
    X(CORRUPT, 22, 500, FATAL, "corrupt", "the file is damaged")                                   \
    X(FOREIGN, 23, 400, CALLER, "foreign_file", "not a quipu file")                                \
    X(NEWER, 24, 400, CALLER, "newer_file", "made by a newer version")                             \
    X(LOCKED, 25, 409, RETRY, "locked", "in use by another process")                               \
    X(READONLY, 26, 403, CALLER, "read_only", "opened for reading only")                           \
    X(UNSUPPORTED, 27, 501, CALLER, "unsupported", "not supported here")                           \
    X(UNKNOWN_OUTCOME, 28, 504, UNKNOWN, "unknown_outcome",                                        \
      "the commit may or may not have happened")                                                   \
    X(INTERNAL, 29, 500, FATAL, "internal", "internal error")                                      \
    X(PARKED, 30, 409, CONFLICT, "parked", "the job is parked: a person has to look at it")        \
    X(SUSPENDED, 31, 503, RETRY, "suspended",                                                      \
      "the flow waits: its function returns this code and runs again later")                       \
    X(FAILED, 32, 422, CALLER, "failed", "what the flow asked for has failed")                     \
    X(CANCELLED, 33, 409, CONFLICT, "cancelled", "the flow was asked to end")

enum qp_code {
    QP_OK = 0,
#define QP_ERROR_CODE(name, number, http, class, word, text) QP_E_##name = -(number),
    QP_ERROR_TABLE(QP_ERROR_CODE)
#undef QP_ERROR_CODE
};

/* Returns the code of a call that failed: for functions that have nothing to free. */
#define QP_TRY(call)                                                                               \
    do {                                                                                           \
        int qp_try_rc = (call);                                                                    \
        if (qp_try_rc != QP_OK) {                                                                  \
            return qp_try_rc;                                                                      \
        }                                                                                          \
    } while (0)

#define QP_ERR_TEXT_SIZE 512
#define QP_ERR_POINTER_SIZE 256

/* The detail of a failure, wrapped on its way up: "claim stream 'x': insert lease: the disk is
 * full". */
struct qp_err {
    int code;
    char text[QP_ERR_TEXT_SIZE];
    /* Where the wrong value stands, as a JSON pointer (RFC 6901) into what was given: "/priority" of a
     * qp_start, "/input/order/0" in its input. "": the failure is about no single field, or the call does
     * not say. Cut when it is longer. */
    char pointer[QP_ERR_POINTER_SIZE];
};

/* Each is total: a number that is no code of the table is answered as INTERNAL is. Thread-safe. */
QP_API const char *qp_code_word(int code);
QP_API const char *qp_code_text(int code);
QP_API int qp_code_http(int code);
QP_API enum qp_class qp_code_class(int code);

/* --------------------------------------------------------------------------------------- values */

/* Text or bytes that somebody else owns; not terminated by NUL. p == NULL is "none", which differs
 * from empty. */
typedef struct qp_str {
    const char *p;
    size_t n;
} qp_str;

#define QP_STR(literal) ((qp_str){"" literal, sizeof(literal) - 1})
#define QP_NONE ((qp_str){NULL, 0})

/* Whether it is this text; none is no text, not even an empty one. */
QP_API bool qp_str_is(qp_str s, const char *text);

typedef int64_t
    qp_ms; /* wall time in milliseconds since 1970, UTC, or a duration in milliseconds */

/* -------------------------------------------------------------------------------------- outside */

enum qp_log_level { QP_LOG_DEBUG, QP_LOG_INFO, QP_LOG_WARN, QP_LOG_ERROR };

/* All that the library needs of the world. A zero function pointer means "the usual one". `context`
 * is handed to every function; it and what it points to outlive every handle that was opened with
 * it. */
struct qp_env {
    size_t size; /* sizeof(struct qp_env): set by qp_env_init */
    void *context;
    /* Memory: resize(context, NULL, n) allocates, resize(context, p, 0) frees and returns NULL. */
    void *(*resize)(void *context, void *pointer, size_t size);
    qp_ms (*wall_ms)(void *context); /* may jump: leases and timers do not jump with it */
    int64_t (*monotonic_us)(
        void *context); /* never goes back; counts while the machine sleeps, too */
    int (*entropy)(void *context, void *out_bytes, size_t size);
    /* One finished line, no newline at its end: msg first, then fields as key=value. Told, once each: the disk is full,
     * the database is away, the store can be written again; and every job that is parked. */
    void (*log)(void *context, enum qp_log_level level, const char *line, size_t size);
};

/* Fills in the usual functions: malloc, the system clocks, the system's random source, no log. */
QP_API void qp_env_init(struct qp_env *env);

/* The version of the library that is linked, as "major.minor.patch". */
QP_API const char *qp_version(void);

/* ------------------------------------------------------------------------------------ an engine */

/* An engine on one file.
 *
 * Threads: every function that takes a `qp *` may be called from any thread at any time between
 * qp_open and qp_close, unless it says otherwise. A call that writes returns when what it wrote is on
 * disk; calls that come at the same time share one commit. In a callback that the engine runs while it
 * answers (qp_start.started, qp_start.ended) nothing may wait: only calls whose names end in _async, and
 * qp_stop, are allowed there, others return QP_E_INVALID.
 *
 * Processes: a handle belongs to the process that opened it. In a child after fork every call returns QP_E_INVALID
 * at once, qp_close too, and touches nothing of the parent's; the child opens a handle of its own. So fork and exec
 * need no care.
 *
 * Somebody has to drive the engine, so that timers fire and workers get their tasks. There are
 * three ways:
 *
 *   qp_start_threads   the engine and its workers have threads of their own
 *   qp_run             this thread is the engine's until qp_stop
 *   qp_poll            a host's own loop calls it when qp_fd is readable or qp_next_deadline is over
 *
 * While a database is away, a call waits up to 5 s for it and then returns QP_E_TIMEOUT: it was not executed, and will
 * not be. The callback of an _async call gets the same code then, and may be called from any thread.
 *
 * A call that writes drives the engine itself while nobody else does, so a program that only starts
 * jobs and claims tasks needs none of them. */
typedef struct qp qp;

struct qp_options {
    size_t size;      /* sizeof(struct qp_options): set by qp_options_init */
    const char *path; /* the file; made, with mode 0600, when it is not there. Or the URL of a
                         PostgreSQL database, postgresql://user@host/database. NULL: in memory
                         (":memory:" is refused; "./:memory:" is a file of that name) */
    const struct qp_env
        *env; /* NULL: the usual one. With threads its functions are called from all */
    const char *namespace_name; /* NULL: "default" */
    qp_ms keep_ms;              /* how long finished jobs are kept; 0: for ever */
    int64_t
        max_deliveries; /* of a message or task without an answer (crashes, lost leases) before it is
                               set aside as a dead letter and its job is parked; 0: 20 */
    qp_ms
        lease_ms; /* where several processes share a database: when this one is silent for so long,
                       others take up what it held. 0: 10 s; 1 s to a day. A file has no use for it */
    bool
        accept_loss; /* of a file: open it also when changes that were answered are missing in it, as
                         they are in a backup that was restored. Without it QP_E_CORRUPT says what is
                         missing. For one open: from then on the file is judged by what it has now */
};

QP_API void qp_options_init(struct qp_options *options);

/* Opens the file, or makes it. One process may write to a file at a time: another one gets
 * QP_E_LOCKED. What a process that died was working on is ready to be claimed again when this
 * returns; tasks of workers with a lease are when that is over.
 *
 * A PostgreSQL database, in which a schema "quipu" is made (or another: ?schema=name), takes any
 * number of processes. They share the work: whoever has a worker for a topic gets its tasks. What a
 * process that died was working on is taken up by another one when its lease_ms is over. */
QP_API QP_MUST_USE int qp_open(const struct qp_options *options, qp **out_engine,
                               struct qp_err *err);

/* Ends the threads, waits for the workers' functions to return, gives back what is in hand, and
 * closes the file as it should be. NULL is allowed.
 *
 * Calls of other threads that are running: qp_run returns QP_OK, qp_job_wait QP_E_CLOSED, others are answered as
 * usual, and what comes after the workers' functions have returned is QP_E_CLOSED. It waits for them, 10 s at most:
 * then it returns QP_E_BUSY, as it does when it is called inside a visit. Inside a worker's function or a callback of
 * the engine, and in a child after fork, it returns QP_E_INVALID at once. After these two codes the handle is still
 * there: close it again, on another thread or when the calls have returned. After any other it is gone, and no call
 * may begin with it. */
QP_API int qp_close(qp *engine, struct qp_err *err);
/* The same, but it waits no longer than that for the workers' functions (< 0: as long as it takes), which see
 * qp_task_is_closing meanwhile. QP_E_TIMEOUT: some have not returned. Their tasks were given back in the store, like all that
 * was in hand, and what they bring later is refused. The handle is gone for the caller, as it is after qp_close; it stays for
 * these functions, whose calls return QP_E_CLOSED from then on, and the last one that returns closes the store.
 * With 0 worker threads the function is on the engine's own thread: then tasks go back when it returns. */
QP_API int qp_close_within(qp *engine, qp_ms within_ms, struct qp_err *err);

/* ------------------------------------------------------------------------------------- running */

/* Starts `workers` threads for the functions of qp_worker_add, and two for the engine: one decides
 * what comes next while the other writes. With 0 workers the engine's thread runs them itself, one after
 * the other. Once per handle. */
QP_API QP_MUST_USE int qp_start_threads(qp *engine, int workers, struct qp_err *err);

/* Drives the engine on this thread until qp_stop (QP_OK), or until the store fails (its code). Workers'
 * functions run here, between commits, unless there are threads for them. QP_E_EXISTS: another thread
 * drives it; QP_E_INVALID: this one does, and is inside a worker's function or a callback. */
QP_API QP_MUST_USE int qp_run(qp *engine, struct qp_err *err);
/* Ends the qp_run that is going on, or else the next one; when a worker's function runs there, after it. Safe in a
 * signal handler: it sets a flag and writes to a file descriptor, and keeps errno. */
QP_API void qp_stop(qp *engine);

/* For a host's own loop: does what there is to do now, and returns. Answers as qp_run does. Without threads
 * (qp_start_threads) the workers' functions run in this call, one after the other: the loop waits for each. */
QP_API QP_MUST_USE int qp_poll(qp *engine, struct qp_err *err);
/* Becomes readable when qp_poll should be called: a file descriptor for poll(2), not to be read. */
QP_API int qp_fd(const qp *engine);
/* Milliseconds until qp_poll should be called even so; -1: never. */
QP_API int64_t qp_next_deadline(qp *engine);
/* After a qp_poll: whether any job goes on without somebody's help. *out_left is true while a task is in hand or
 * a worker of this engine has one to take, and while a retry, a timer, a task's or a key's lease or the time of an
 * open job is still to come. It is false when every open job waits for somebody else: for a signal, or for a
 * worker that is not there. What is due without concerning an open job, so that qp_next_deadline tells of
 * it (signals and idempotency records that are kept, finished jobs whose time is over, tidying up), is not
 * left to do. Asks the store; QP_OK, or its code. */
QP_API QP_MUST_USE int qp_work_left(qp *engine, bool *out_left, struct qp_err *err);

/* -------------------------------------------------------------------------------------- jobs */

/* After how many errors an activity has failed, and how long to wait between its attempts: backoff_ms
 * after the first one, `factor` times longer after each further one, cap_ms at most. Zero means the
 * default: 5 attempts, 1 s, factor 2, 60 s.
 *
 * The last three limit the time of each attempt; 0 means no limit. An attempt that exceeds one has failed with code 408
 * and is tried again as any error. Its worker's result is stale from then on, and qp_task_is_cancelled is 1.
 *
 *   start_timeout_ms   from when the task can be taken until a worker takes it. It begins again with each attempt, and
 *                      when a paused job is resumed. A worker of this process takes tasks ahead of its threads
 *   run_timeout_ms     from when a worker takes the task, or its function begins, until it answers
 *   heartbeat_ms       between two heartbeats (qp_task_heartbeat, qp_task_progress), and before the first. It takes the
 *                      place of the worker's lease */
struct qp_retry {
    int64_t attempts; /* 1: no second one */
    qp_ms backoff_ms;
    double factor;
    qp_ms cap_ms;
    qp_ms start_timeout_ms;
    qp_ms run_timeout_ms;
    qp_ms heartbeat_ms;
};

/* Host writes that belong to a commit of the engine: runs on the thread that commits, inside the
 * transaction. `native` is the connection: sqlite3 *, or PGconn * of libpq; NULL in memory. It writes
 * to tables of its own, does not begin or end transactions, and returns QP_OK. Another code, or longer than 5 s, takes
 * its own writes back and the engine's with them: the call returns QP_E_ABORTED, and the code is kept in the text of
 * the error ("it returned 19"); of a task it is kept in the error of the attempt.
 *
 * On SQLite these are refused (SQLITE_AUTH): BEGIN, COMMIT, ROLLBACK, SAVEPOINT, PRAGMA, ATTACH, DETACH, and writes to
 * the engine's tables, qp_*. So virtual tables that need one of them (FTS5, R*Tree) cannot be made or written there. */
typedef int (*qp_tx)(void *context, void *native);

/* A search attribute of a job: indexed, and a field of filters, attr.NAME. */
struct qp_attribute {
    qp_str name;  /* as all names: [A-Za-z0-9._~:-]+ */
    qp_str value; /* at most 1024 bytes */
};

/* What came of a start. The text lives until the callback returns. */
struct qp_started {
    int code; /* QP_OK: the job is on disk */
    const char *id;
    bool existed;        /* it was there already */
    bool by_key;         /* the idempotency key decided: it was used before */
    const char *text;    /* why not */
    const char *pointer; /* as in qp_err */
};

/* A job of one activity, whose `input` a worker of `topic` gets; or of the graph or flow that has the topic as its name.
 * Without an id a UUIDv7 is made. The
 * same id and input again mean the same job, and nothing happens twice.
 *
 * A delayed job is there at once, as `waiting`, and can be listed or cancelled. Jobs with the same
 * limit key are worked on no more at once than qp_limit_set allows; a topic serves its keys in rotation. A
 * custom id may be given again when the job that had it has ended. */
struct qp_start {
    qp_str topic;
    qp_str id;    /* none: one is made */
    qp_str input; /* JSON, required: "null" when there is nothing to say */
    struct qp_retry
        retry; /* zeroed: the default. Of graphs and flows, whose activities have their own, it is refused */
    int priority;     /* 0 is served first, 9 last */
    qp_ms timeout_ms; /* after which it has failed, whatever it is doing; 0: never */
    qp_tx tx;         /* NULL, or writes that commit with the job, or not at all */
    void *tx_context;
    /* For qp_job_start_async. `started` gets QP_OK when the job is on disk, or why it is not;
     * `ended` the job's last status, when this process has started and seen it end. Either may be
     * NULL. */
    void *context;
    void (*started)(void *context, int code, const char *id);
    void (*ended)(void *context, const char *status);
    /* As `started`, with more. Of qp_job_start, too: before it returns, perhaps on the thread that drives the engine. */
    void (*answered)(void *context, const struct qp_started *started);
    qp_str ns;        /* none: the handle's own */
    qp_str custom_id; /* unique among the open jobs of a topic, else QP_E_CONFLICT */
    qp_ms delay_ms;   /* 0: now; at most ten years */
    qp_str limit_key; /* not "*", which stands for all keys in qp_limit_set */
    const struct qp_attribute *attributes;
    size_t attribute_count; /* at most 16 */
    /* A signal that commits with the start, or is sent to whoever waits when the job was there already
     * ("signal with start"). It needs a key; its namespace is the job's, its code 200. NULL: none. */
    const struct qp_signal *signal;
    /* An idempotency key. The same key and body again: the first job's id is the answer, and nothing
     * happens; with another body QP_E_CONFLICT. idem_body is compared, not kept; none: topic and input.
     * Kept for idem_ms (0: 7 days). */
    qp_str idem_key;
    qp_str idem_body;
    qp_ms idem_ms;
    /* The topic is the name of a workflow, a graph's or a flow's. One that is not known yet becomes that of a flow, which
     * waits for a process or a worker that has it; else it would be the topic of a single task. */
    bool of_workflow;
    bool pending; /* it is paused from its birth: nothing of it begins before it is resumed */
};

#define QP_ID_SIZE 256

/* Returns when the job is on disk. out_id (may be NULL) gets its id. The id with another input:
 * QP_E_CONFLICT. */
QP_API QP_MUST_USE int qp_job_start(qp *engine, const struct qp_start *start,
                                    char out_id[QP_ID_SIZE], struct qp_err *err);

/* Returns when the start is checked and queued; what becomes of it is told to start->started, on the
 * thread that drives the engine. QP_E_LIMIT: 65536 wait already. */
QP_API QP_MUST_USE int qp_job_start_async(qp *engine, const struct qp_start *start,
                                          struct qp_err *err);

/* What is known of a job. The status is one of running, retrying, waiting, parked, paused, completed,
 * failed, cancelled, interrupted. Free it with qp_job_done. */
struct qp_job {
    const char *status;
    qp_str output;  /* of a completed job */
    qp_str error;   /* why it failed, was parked, cancelled or interrupted; none: it did not. JSON:
                       * {"code","message","activity","address"}, and "job" where a job that it called
                       * has failed; activity and address are null where it was ended from outside */
    int64_t open;   /* obligations that are still open: the job's semaphore */
    int64_t ledger; /* of its activity, fifteen digits */
    int64_t failures; /* attempts that failed, of all its activities */
    void *memory;
};

/* QP_E_NOT_FOUND when there is no such job. QP_E_READONLY: the handle is one of qp_open_readonly, where qp_job_show
 * reads a job. */
QP_API QP_MUST_USE int qp_job_get(qp *engine, qp_str id, struct qp_job *out_job,
                                  struct qp_err *err);
/* NULL is allowed. */
QP_API void qp_job_done(qp *engine, struct qp_job *job);

/* Waits until the job has ended, at most timeout_ms (< 0: as long as it takes), and tells what became of
 * it as qp_job_get does. QP_E_TIMEOUT: it has not. Drives the engine while nobody else does.
 * QP_E_INVALID inside a worker's function on the thread that drives; QP_E_CLOSED when the engine is
 * closed meanwhile; QP_E_PARKED when the job is parked, or is meanwhile: it ends only after qp_job_retry, so
 * repair the cause, retry it, and wait again. */
QP_API QP_MUST_USE int qp_job_wait(qp *engine, qp_str id, qp_ms timeout_ms, struct qp_job *out_job,
                                   struct qp_err *err);

/* Ends a job: `cancelled` when somebody asked for it, `interrupted` when it is stopped at once for
 * another reason. Its task is no longer anybody's: a worker's result is refused, and
 * qp_task_is_cancelled tells it early. QP_E_NOT_FOUND; QP_E_CLOSED: it had ended before. */
QP_API QP_MUST_USE int qp_job_cancel(qp *engine, qp_str id, const char *reason, struct qp_err *err);
QP_API QP_MUST_USE int qp_job_interrupt(qp *engine, qp_str id, const char *reason,
                                        struct qp_err *err);

/* No new tasks of the job are handed out, until it is resumed. */
QP_API QP_MUST_USE int qp_job_pause(qp *engine, qp_str id, struct qp_err *err);
QP_API QP_MUST_USE int qp_job_resume(qp *engine, qp_str id, struct qp_err *err);

/* A parked job goes on where it stands; what was set aside is delivered again. QP_E_CONFLICT: it is
 * not parked. */
QP_API QP_MUST_USE int qp_job_retry(qp *engine, qp_str id, struct qp_err *err);

/* What became of a signal: an activity that waited has got it, or it is kept until one waits. UNKNOWN: it was not
 * sent, or it was sent by an older version with the same idempotency key. */
enum qp_sent { QP_SENT_UNKNOWN, QP_SENT_DELIVERED, QP_SENT_KEPT };

/* A signal for the activity that has waited longest at (topic, key): delivered, or kept for ttl_ms (0: 7 days) until
 * one waits. Only hooks of graphs and flows wait for signals: a job of one activity never does, and its worker gets none. What was kept before a retry or fork of a job was started is not for that job: it takes signals that are
 * sent from then on.
 *
 * `id` makes sending it again harmless. It covers the namespace, topic and key: the same id at another key is another
 * signal. Sent again it is QP_E_EXISTS, and nothing happens: while the first one is kept; when it was delivered, as
 * long as the job that got it is open, and 7 days more. The payload is not compared. A signal that was kept and expired was not delivered: its id may be sent
 * again. */
struct qp_signal {
    qp_str topic;
    qp_str key; /* none: the hooks that graphs have at the topic say what it is in the payload */
    qp_str payload; /* JSON */
    int code;  /* that the hook's transitions see; 0: 200. 202 leaves the hook waiting for more */
    qp_str id; /* none: every call is a signal of its own */
    qp_ms ttl_ms;
    qp_str ns; /* none: the handle's own */
    /* For qp_signal_send_async: after the commit, on the thread that drives the engine. */
    void *context;
    void (*sent)(void *context, int code, const char *text);
    /* As those of qp_start: with the key of a signal that was sent before QP_E_EXISTS, however long ago it was
     * delivered; with another idem_body QP_E_CONFLICT. */
    qp_str idem_key;
    qp_str idem_body;
    /* NULL, or what became of it; with QP_E_EXISTS, of the first one. Of an async one it is set before `sent` is
     * called. */
    enum qp_sent *out_sent;
    /* To one job instead of a key: its id; with `workflow`, the custom id of an open job of that workflow. Of a flow
     * `topic` is the name of the signal: it reaches the listen that waits for it, or is kept until the job ends, whatever
     * its name is; ttl_ms is not used, and code is 0 or 200. QP_E_NOT_FOUND; QP_E_CLOSED: the flow has ended;
     * QP_E_LIMIT: 10,000 signals or 64 MiB are kept for it. Of a job of another kind the id is the key. */
    qp_str job;
    qp_str workflow;
};
QP_API QP_MUST_USE int qp_signal_send(qp *engine, const struct qp_signal *signal,
                                      struct qp_err *err);
/* Returns when it is checked and queued. QP_E_LIMIT: 65536 calls wait already. */
QP_API QP_MUST_USE int qp_signal_send_async(qp *engine, const struct qp_signal *signal,
                                            struct qp_err *err);

/* ---------------------------------------------------------------------------------------- graphs */

/* An application is a text, YAML or JSON (docs/graphs.md): graphs, each started by its topic. Its versions stand side by
 * side; one of them is active, and new jobs begin with it. A job keeps the version that it began with. */

/* Something that is wrong with a text: where, and what to do about it. Texts live until the visit returns. */
struct qp_graph_error {
    const char *code; /* stable: docs/graph-errors.md */
    int line;
    int column;
    qp_str message;
    qp_str hint; /* none: there is none */
};
typedef void (*qp_graph_error_visit)(void *context, const struct qp_graph_error *error);

struct qp_deploy {
    qp_str ns; /* none: the handle's own */
    qp_str text;
    bool activate;              /* new jobs begin with it from now on */
    void *context;              /* for found */
    qp_graph_error_visit found; /* gets everything that is wrong; may be NULL */
    qp_graph_error_visit noted; /* gets what is accepted and ignored, or not checked; may be NULL */
};

struct qp_deployed {
    char app[QP_ID_SIZE];
    char version[QP_ID_SIZE];
    char was[QP_ID_SIZE]; /* the version that was active before; empty: none was, or this one */
    bool existed;         /* the same text was there */
    bool active;          /* new jobs begin with this version now */
};

/* Checks all of it, and deploys it or nothing. QP_E_SHAPE: something is wrong with it; QP_E_INVALID: there is no text;
 * QP_E_CONFLICT: the version is there with another text (also one that was deleted less than an hour ago), or a topic of it
 * belongs to another application. After QP_OK every start, signal and fork, by any process on the store, uses what is active
 * now or later. out_deployed may be NULL. */
QP_API QP_MUST_USE int qp_deploy(qp *engine, const struct qp_deploy *deploy,
                                 struct qp_deployed *out_deployed, struct qp_err *err);
/* Another version becomes active. QP_E_NOT_FOUND: there is no such one. */
QP_API QP_MUST_USE int qp_activate(qp *engine, qp_str ns, qp_str app, qp_str version,
                                   struct qp_deployed *out_deployed, struct qp_err *err);
/* Only checks. Thread-safe; needs no engine. QP_E_INVALID: there is no text. */
QP_API QP_MUST_USE int qp_graph_check(qp_str text, void *context, qp_graph_error_visit found,
                                      struct qp_err *err);

/* A version that is deployed. Texts live until the visit returns. */
struct qp_app {
    qp_str app;
    qp_str version;
    qp_str text;
    bool active;
    qp_ms created_at;
    qp_ms activated_at; /* 0: never */
};
/* Stops at the first visit that does not return QP_OK, and returns that code. */
typedef int (*qp_app_visit)(void *context, const struct qp_app *app);
QP_API QP_MUST_USE int qp_apps(qp *engine, qp_str ns, void *context, qp_app_visit visit,
                               struct qp_err *err);
/* One version. QP_E_NOT_FOUND. */
QP_API QP_MUST_USE int qp_app_show(qp *engine, qp_str ns, qp_str app, qp_str version, void *context,
                                   qp_app_visit visit, struct qp_err *err);
/* Hides a version: no job begins with it any more. Its text goes an hour later, or when no job that is kept needs it, which
 * is one that began with it; until then such jobs go on and are shown as before, and the same text can be deployed again.
 * QP_E_NOT_FOUND; QP_E_CONFLICT: it is active, or a job that is kept needs it. It looks at all jobs of the namespace. */
QP_API QP_MUST_USE int qp_app_delete(qp *engine, qp_str ns, qp_str app, qp_str version,
                                     struct qp_err *err);
/* The same, of a version that jobs need, too: their retries and forks begin with the active version. */
QP_API QP_MUST_USE int qp_app_delete_needed(qp *engine, qp_str ns, qp_str app, qp_str version,
                                            struct qp_err *err);

/* What can be done with a job that is there.
 *
 *   CANCEL  asks it to end: `cancelled`          KILL    ends it at once: `interrupted`
 *   PAUSE   no new tasks are handed out          RESUME  they are again
 *   RETRY   of a parked job: it goes on where it stands. Of one that has ended: a new job, whose forked_from is this
 *           one. Steps that have finished keep their results and are not run again; what failed, and what was
 *           still open, runs again. The job says retried_as from then on, and is not retried again while the new one
 *           is there. A graph or flow that has completed has nothing to retry
 *   FORK    a new job from this one, open or not, from its first step, or from `at` on
 *   DELETE  of one that has ended: all of it goes, before its time
 */
enum qp_verb {
    QP_VERB_CANCEL,
    QP_VERB_KILL,
    QP_VERB_PAUSE,
    QP_VERB_RESUME,
    QP_VERB_RETRY,
    QP_VERB_FORK,
    QP_VERB_DELETE
};
/* "cancel", "kill", ... */
QP_API const char *qp_verb_word(enum qp_verb verb);

struct qp_action {
    qp_str ns; /* none: the handle's own */
    qp_str id; /* the whole of it: see qp_job_resolve */
    enum qp_verb verb;
    qp_str reason; /* CANCEL, KILL: kept with the job; none: the verb */
    qp_str
        input; /* FORK, RETRY of an ended job: JSON, checked as that of a start; none: that of the job */
    qp_str new_id; /* RETRY of an ended job, FORK; none: one is made */
    /* For qp_job_act_async: after the commit, on the thread that drives the engine. `id` is that of
     * the new job when one was made, else that of the job. */
    void *context;
    void (*done)(void *context, int code, const char *id, const char *text);
    /* RETRY, FORK: as those of qp_start. With the key of an action that was done before, QP_OK and its id;
     * with another idem_body QP_E_CONFLICT. out_by_key (may be NULL) tells that it was one of these two. */
    qp_str idem_key;
    qp_str idem_body;
    bool *out_by_key;
    bool descend; /* CANCEL, KILL: the jobs that it started are ended, too, and those below them */
    /* RETRY of an ended job, FORK: where the new job begins. Of a flow a location ("{3}"): what stands before it in its
     * history, with its times, is taken over. Of a graph an activity, by its id (its latest run) or its address: it
     * and what comes after it run again, everything else that has finished keeps its results. */
    qp_str at;
    /* Likewise, of a graph: the version that the new job has, of the same application. None: that of the job or, if that was
     * deleted, the active one. */
    qp_str version;
    /* RETRY of an open instance of an agent workflow: this failed work alone gets another attempt, by branch and position
     * ("b0/1p0"). None: all works that have failed, and a decision that has. QP_E_NOT_FOUND: it has no such work;
     * QP_E_UNSUPPORTED: it is a job of another kind. */
    qp_str work;
};

/* Returns when it is on disk. out_id (may be NULL) gets the id of the new job, or that of the job.
 * QP_E_NOT_FOUND, also of `at` and `version`; QP_E_CLOSED: it has ended already; QP_E_CONFLICT: RETRY of a job that is
 * neither parked nor ended, was retried before, or has nothing to retry, DELETE of one that has not ended; QP_E_SHAPE: the
 * input is refused; QP_E_INVALID: `at` is no place of such a job, or is given where there is no other place. */
QP_API QP_MUST_USE int qp_job_act(qp *engine, const struct qp_action *action,
                                  char out_id[QP_ID_SIZE], struct qp_err *err);
/* Returns when it is checked and queued. QP_E_LIMIT: 65536 calls wait already. */
QP_API QP_MUST_USE int qp_job_act_async(qp *engine, const struct qp_action *action,
                                        struct qp_err *err);

/* How many jobs of a topic with one limit key may be worked on at once; 0: any number. Key "*": of every
 * key that has no setting of its own. */
struct qp_limit {
    qp_str ns; /* none: the handle's own */
    qp_str topic;
    qp_str key; /* none: jobs without one */
    int64_t max;
};
QP_API QP_MUST_USE int qp_limit_set(qp *engine, const struct qp_limit *limit, struct qp_err *err);
/* The setting goes, `max` is not looked at: the key follows that of "*" from now on, and without one there is no limit.
 * QP_E_NOT_FOUND: it has no setting. */
QP_API QP_MUST_USE int qp_limit_remove(qp *engine, const struct qp_limit *limit,
                                       struct qp_err *err);

/* A setting, and what it is about: how many tasks wait and are worked on. Of key "*" these are 0. */
struct qp_limit_info {
    qp_str topic;
    qp_str key; /* empty: jobs without one */
    int64_t max;
    int64_t ready;
    int64_t held;
};
typedef int (*qp_limit_visit)(void *context, const struct qp_limit_info *limit);
#define QP_LIMIT_CURSOR_SIZE 520
/* The settings of a namespace by topic and key, from the one after `cursor` (none: from the first). The work of one call
 * is bounded: only an empty out_cursor says that there are no more. */
QP_API QP_MUST_USE int qp_limit_list(qp *engine, qp_str ns, qp_str cursor, int64_t limit,
                                     void *context, qp_limit_visit visit,
                                     char out_cursor[QP_LIMIT_CURSOR_SIZE], struct qp_err *err);

/* --------------------------------------------------------------------------------- namespaces */

/* Jobs, topics, signals and ids of one namespace know nothing of those of another. QP_E_EXISTS: it is
 * there. */
QP_API QP_MUST_USE int qp_space_create(qp *engine, qp_str name, struct qp_err *err);

struct qp_space {
    qp_str name;
    qp_ms created_at;
};
typedef int (*qp_space_visit)(void *context, const struct qp_space *space);
/* In the order in which they were made. */
QP_API QP_MUST_USE int qp_space_list(qp *engine, void *context, qp_space_visit visit,
                                     struct qp_err *err);

/* ------------------------------------------------------------------------------------ reading */

/* Reads do not go through the engine: they have connections of their own to the store, so that a long list
 * holds up nobody, and they see whatever was committed before they began. They are not allowed in the
 * engine's callbacks. (In memory there is nothing to connect to: there they take their turn.)
 *
 * What a visit is given lives until it returns; another code than QP_OK ends the reading and is
 * returned. `ns` none is the handle's own namespace. A limit is 1 to 1000, and 0 means 100. */

/* Opens a file or database to read it, whoever works on it meanwhile; it must be there. The handle takes
 * the calls of this section, qp_space_list and qp_close; others return QP_E_READONLY. */
QP_API QP_MUST_USE int qp_open_readonly(const struct qp_options *options, qp **out_engine,
                                        struct qp_err *err);

struct qp_job_info {
    qp_str ns;
    qp_str id;
    qp_str workflow; /* of a job of one activity: its topic */
    qp_str version;
    qp_str custom_id;
    qp_str parent;      /* id of the job that started it */
    qp_str forked_from; /* id of the job that it was made from */
    qp_str retried_as;  /* of qp_job_show alone: id of the job that its retry has made */
    const char *status; /* as in struct qp_job */
    qp_str parked;      /* why a person is needed; none: nobody is */
    qp_str error;       /* why it failed, was cancelled or interrupted: as in struct qp_job */
    qp_str limit_key;
    int64_t priority;
    qp_ms created_at;
    qp_ms updated_at;
    qp_ms closed_at; /* 0: it is open */
    qp_ms expire_at; /* open: when it fails; ended: when it is deleted; 0: never */
    int64_t open;    /* obligations: the job's semaphore */
    int64_t seq;     /* of its last journal entry */
    /* These of qp_job_show alone. */
    qp_str input;
    qp_str output;  /* of a completed job */
    qp_ms begin_at; /* of a delayed job: when it begins; else 0 */
    const struct qp_attribute *attributes;
    size_t attribute_count;
    qp_str
        unserved_topic; /* its task waits there, and no worker of any node that shares the store serves
                              it; none: a worker does, or no task waits */
    qp_ms unserved_since; /* when a worker last asked this process; 0: never */
    qp_str
        awaits; /* what its decision waits for beside a worker, a sentence: a newer build; none: nothing */
    /* Likewise, and of a graph's job; else none. They are derived from all that the job has done, which a list
     * does not read. */
    qp_str state;         /* one digit per activity, in the order of their ids (docs/graphs.md) */
    qp_str compositional; /* the same with those of the jobs that it called */
    qp_str data;          /* JSON: its data so far; of a completed job its output */
    /* Of qp_job_show alone, and of an open flow: JSON, an array of sentences that say what it waits for. */
    qp_str waits_for;
    /* Of qp_job_show alone: JSON, an object of the properties that its code has set (qp_set); of an agent's instance what its
     * script has sent, a string when it is no object. None: there are none. */
    qp_str properties;
    qp_str
        skipped; /* Likewise, of a graph's job: JSON, names of activities to which no way leads any more; none: none */
};
typedef int (*qp_job_visit)(void *context, const struct qp_job_info *job);

/* One job by its id, or by the beginning of it when no other begins so. QP_E_NOT_FOUND; QP_E_CONFLICT:
 * several begin so, and the text names some. */
QP_API QP_MUST_USE int qp_job_show(qp *engine, qp_str ns, qp_str id_or_prefix, void *context,
                                   qp_job_visit visit, struct qp_err *err);
/* The whole id. */
QP_API QP_MUST_USE int qp_job_resolve(qp *engine, qp_str ns, qp_str id_or_prefix,
                                      char out_id[QP_ID_SIZE], struct qp_err *err);
/* Whether a job, named by its whole id, has ended; of what it carries nothing is read. QP_E_NOT_FOUND. */
QP_API QP_MUST_USE int qp_job_ended(qp *engine, qp_str ns, qp_str id, bool *out_ended,
                                    struct qp_err *err);

enum qp_order { QP_NEWEST_FIRST, QP_OLDEST_FIRST };

#define QP_CURSOR_SIZE 64

/* A filter is empty, or conditions joined by `and` and `or`:  FIELD OP VALUE
 *
 *   status                     =  !=                   a word of struct qp_job, or `open`: any that has not ended
 *   workflow (or topic)        =  !=                   a name
 *   id                         =  !=  ^=               an id; ^= is "begins with"
 *   started  updated  ended    =  !=  <  <=  >  >=     RFC 3339, or back from now: -2h -90s -7d
 *   attr.NAME                  =  !=  ^=               a text
 *   properties.NAME            =  !=  ^=  <  <=  >  >= a text or a number: what the code of the job has set (qp_set)
 *
 * `and` binds more closely: A and B or C takes what both A and B take, and what C takes. There are no brackets.
 * Values that are more than letters, digits and ._~:+- stand in double or single quotes, in which \" (or \') and \\ are
 * a quote and a backslash. Of a field that a job does not have (ended, attr, properties) only != is true. What is
 * wrong with a filter is said with its place: QP_E_INVALID. Attributes are indexed, properties are not: beside one stands
 * a condition that is, or the jobs are read one after the other. */
struct qp_list {
    qp_str ns;
    qp_str where; /* none: all */
    enum qp_order order;
    qp_str cursor; /* none or empty: from the start; else as it was given by the same list */
    int64_t limit;
    bool unretried; /* without those that were retried (retried_as) */
};

/* Jobs that fit, by when they were started, on every store and from every node alike; of those that were started in the
 * same millisecond, by the number that the store gave them. The work of one call is bounded: it may come back with fewer
 * than `limit`, even none, and a cursor; only an empty out_cursor says that there are no more. */
QP_API QP_MUST_USE int qp_job_list(qp *engine, const struct qp_list *list, void *context,
                                   qp_job_visit visit, char out_cursor[QP_CURSOR_SIZE],
                                   struct qp_err *err);

enum qp_count_how {
    QP_COUNT_EXACT,   /* looks at every job, if it must */
    QP_COUNT_ESTIMATE /* looks at no more than 10,000 */
};
struct qp_count {
    int64_t count;
    bool exact;
};
/* By status and workflow alone it is known without looking. */
QP_API QP_MUST_USE int qp_job_count(qp *engine, qp_str ns, qp_str where, enum qp_count_how how,
                                    struct qp_count *out_count, struct qp_err *err);

/* One activity of a job. */
struct qp_activity {
    qp_str address;    /* activity and dimensions: "run,0,0" */
    qp_str topic;      /* none: it needs no worker */
    char category;     /* 'A' to 'D' */
    int64_t ledger;    /* fifteen digits */
    const char *state; /* entered, waiting, answering, done, escalated */
    const char *task;  /* where its task is: none, ready, delayed, held, aside, dead */
    int64_t failures;  /* attempts that failed */
    int64_t answers;   /* messages that it was entered by */
    int64_t code;      /* of its first answer; 0: there is none */
    qp_str error;      /* of its last attempt that failed: as in struct qp_job */
    qp_str input;
    qp_str output;
    qp_str progress; /* JSON that its worker sent last; none */
    qp_ms entered_at;
    qp_ms answered_at; /* 0: not yet */
    qp_ms wake_at;     /* when the lease, or the delay, of its task ends; 0: neither */
    /* Of a graph's activity; else NULL and 0. */
    const char *
        type; /* trigger, worker, await, hook, signal, cycle, interrupt; join: waits in front of one */
    char digit;         /* of the job's state, for this dimension: '3' to '9' */
    const char *status; /* the same in a word: completed, ... */
    /* Of an event of a flow: `type` is activity, run, sleep, signals, signal, loop, branch, removed or version, and `status`
     * pending, started, completed or errored; of a branch NULL, and a loop is started until it has ended. */
    qp_str location;  /* where it stands in the history: "{2, 1}"; else none */
    int64_t version;  /* from 1; else 0 */
    int64_t attempts; /* of an activity: those that have begun; else 0 */
    qp_str note;      /* in words: what it waits for, or what came of it; none */
    /* Of every kind. */
    const char *mark;  /* how it stands: done, running, waiting, retrying, failed, skipped */
    qp_str name;       /* as its author named it; none: it has no name but its address */
    int64_t seq;       /* of the journal entry that says it was entered */
    qp_str signal;     /* that it waits for; several with commas; none */
    qp_str key;        /* of that signal; none */
    qp_ms until;       /* when its timer is due; 0: it has none */
    qp_str child;      /* id of the job that it has called last; none */
    qp_str dad;        /* of an activity of a graph: where its latest run is, ",0,2"; none */
    qp_str escalation; /* of a hook of a graph that waits or has waited: JSON; none */
};
typedef int (*qp_activity_visit)(void *context, const struct qp_activity *activity);
/* In the order of their addresses, from the one after `after` (none: from the first). *out_more: there
 * are others. QP_E_NOT_FOUND: no such job. */
QP_API QP_MUST_USE int qp_activity_list(qp *engine, qp_str ns, qp_str id, qp_str after,
                                        int64_t limit, void *context, qp_activity_visit visit,
                                        bool *out_more, struct qp_err *err);

/* One entry of a job's journal. It says what happened and what stood there then, and never changes; every attempt of a
 * worker that failed, every lost lease, every wait and every call of another job has one. Kinds:
 *
 *   entered    an activity: ledger is that of its entry mark, of a trigger that it is born with
 *   answered   an activity, by a result, a signal, a time, another job: code; ledger is that of the answer after step 2
 *   failed     an attempt of a worker: attempt, worker, code, error; until: the next one, 0: it was the last
 *   lost       a delivery of a task got no answer: delivery, worker, code, error
 *   refused    a signal that an activity sent to another job: topic, its name; job; error. Or a publication by which no job
 *              could start: topic, error
 *   published  a graph has published on its topic: topic; code 202, more will come, detail: the job's data so far; 200, the
 *              job is completed, detail: its output; else that of its error
 *   waits      an activity, for a signal: topic, key; for a time: until; or for both
 *   called     another job was started: topic, other; until: when it begins, if that is later
 *   forked     the job was made from another one: other
 *   changed, closed, paused, resumed   the job itself; detail: why
 *   noted      what a graph has emitted: detail */
struct qp_event {
    qp_str ns;
    qp_str job; /* its id */
    int64_t seq;
    int64_t pos; /* in the feed */
    qp_ms at;
    const char *kind;   /* see above */
    qp_str address;     /* of the activity; none: it is about the job */
    int64_t ledger;     /* of the activity, or of the answer, as it was then; 0: none */
    int64_t code;       /* of an answer, or of the error */
    const char *status; /* of the job, as it was then; NULL: an older version did not keep it */
    qp_str detail;      /* JSON or text; none */
    int64_t attempt;    /* from 1; 0: none */
    int64_t delivery;   /* from 1; 0: none */
    qp_str worker;      /* its name; none: it has none, or it is not known */
    qp_str topic;
    qp_str key;
    qp_str other; /* the id of another job */
    qp_ms until;  /* 0: none */
    qp_str error; /* JSON: code, message, activity, address */
    /* Of an entry about an event of a flow, as in struct qp_activity; else none and 0. */
    qp_str location;
    int64_t version;
    const char
        *type;   /* of a graph's activity or a flow's event, as in struct qp_activity; else NULL */
    qp_str name; /* of the activity as its author named it, the closure, the loop; none */
};
typedef int (*qp_event_visit)(void *context, const struct qp_event *event);
/* The entries after the sequence `after` (0: all), in order. *out_more: there are others. */
QP_API QP_MUST_USE int qp_job_journal(qp *engine, qp_str ns, qp_str id, int64_t after,
                                      int64_t limit, void *context, qp_event_visit visit,
                                      bool *out_more, struct qp_err *err);

/* The same for all jobs of a namespace, or for some: entries after a position of the feed, in its order.
 * `where` is a filter; with `id` it is one job. What is committed later has a higher position. The work of
 * one call is bounded: *out_after is where to go on, and *out_more says that there was more. The feed goes back
 * for a week: QP_E_NOT_FOUND when `after` is longer ago. Whoever is told so asks for qp_feed_position, reads lists
 * again, and goes on from that position; 0 is always the oldest entry there is. */
struct qp_feed {
    qp_str ns;
    qp_str id;    /* none: all */
    qp_str where; /* none: all */
    int64_t after;
    int64_t limit;
    qp_str topic; /* only publications on this topic; none: all entries */
};
QP_API QP_MUST_USE int qp_feed_read(qp *engine, const struct qp_feed *feed, void *context,
                                    qp_event_visit visit, int64_t *out_after, bool *out_more,
                                    struct qp_err *err);
/* The position of the last entry there is. */
QP_API QP_MUST_USE int qp_feed_position(qp *engine, int64_t *out_position, struct qp_err *err);

/* Tells that there is something new to read, of one job or of a whole namespace: no more than that, and
 * several changes may be told as one. On the thread that drives the engine; it must not wait, read or
 * follow. Nothing is asked of the store meanwhile, unless other processes share it: then once a second, for
 * all followers together. */
typedef struct qp_follower qp_follower;
struct qp_follow {
    qp_str ns;
    qp_str id; /* none: all of the namespace */
    void *context;
    void (*changed)(void *context);
};
QP_API QP_MUST_USE int qp_follow_begin(qp *engine, const struct qp_follow *follow,
                                       qp_follower **out_follower, struct qp_err *err);
/* When it returns, `changed` is not called any more. NULL is allowed. */
QP_API void qp_follow_end(qp *engine, qp_follower *follower);

/* All of a job as one JSON object: the job, its activities, its journal, its data. The text is given in
 * pieces. */
typedef int (*qp_write)(void *context, qp_str piece);
QP_API QP_MUST_USE int qp_job_export(qp *engine, qp_str ns, qp_str id, void *context,
                                     qp_write write, struct qp_err *err);

/* What differs between two versions of an application: a JSON array of the graphs that are not the same, each with the
 * activities and transitions that were added, removed and changed. QP_E_NOT_FOUND: one of them is not there. */
QP_API QP_MUST_USE int qp_app_diff(qp *engine, qp_str ns, qp_str app, qp_str from, qp_str to,
                                   void *context, qp_write write, struct qp_err *err);

/* How many jobs of a graph began when, by the key and the facets that its trigger gives them (docs/graphs.md, stats): those
 * that `data` would get, in the segments of a range of time. Written as one JSON object. QP_E_NOT_FOUND: no graph has the
 * topic, or it has no stats. */
struct qp_measures {
    qp_str ns; /* none: the handle's own */
    qp_str topic;
    qp_str data; /* JSON, as the input of a start */
    qp_ms range_ms;
    qp_ms end_at; /* 0: now */
};
QP_API QP_MUST_USE int qp_measures_read(qp *engine, const struct qp_measures *query, void *context,
                                        qp_write write, struct qp_err *err);

/* A topic, and how it goes. */
struct qp_topic {
    qp_str name;
    int64_t ready;
    int64_t held;
    qp_ms oldest_at; /* since when the oldest of the ready ones waits; 0: none is ready */
    int64_t workers; /* that serve it, of all nodes that share the store; busy ones too */
    qp_ms served_at; /* when one last did; 0: never, as far as this process knows */
};
typedef int (*qp_topic_visit)(void *context, const struct qp_topic *topic);
/* By name, from the one after `after`. */
QP_API QP_MUST_USE int qp_topic_list(qp *engine, qp_str ns, qp_str after, int64_t limit,
                                     void *context, qp_topic_visit visit, bool *out_more,
                                     struct qp_err *err);

/* ------------------------------------------------------------------------- bulk and operations */

/* One page of an action on all jobs that fit: call again with the cursor while it is not empty. RETRY passes over jobs that
 * were retried already. */
struct qp_bulk {
    qp_str ns;
    qp_str where;
    enum qp_verb verb; /* not FORK */
    qp_str reason;
    qp_str cursor;
    int64_t limit; /* jobs per page */
    /* Told of every job of the page, on the thread of the caller, when all were answered; NULL: nobody
     * wants to know. `code`: QP_OK, or why it was refused. */
    void *context;
    void (*acted)(void *context, qp_str id, int code);
};
struct qp_bulk_result {
    int64_t done;
    int64_t refused; /* they were no longer as the filter says, or do not allow it */
    char cursor[QP_CURSOR_SIZE];
};
QP_API QP_MUST_USE int qp_job_act_all(qp *engine, const struct qp_bulk *bulk,
                                      struct qp_bulk_result *out_result, struct qp_err *err);
/* How many jobs it would act on. Looks at every job, if it must. */
QP_API QP_MUST_USE int qp_bulk_count(qp *engine, const struct qp_bulk *bulk, int64_t *out_count,
                                     struct qp_err *err);

/* A copy of a store that is in use, as one file: all that was committed when it began, and nothing else. The
 * file must not be there yet. It is whole and on disk when this returns QP_OK, and was checked as
 * qp_check does; else there is none. Of files alone: QP_E_UNSUPPORTED for a database server, which has
 * its own tools, and in memory. */
QP_API QP_MUST_USE int qp_backup(qp *engine, const char *to, struct qp_err *err);

/* Writes of the host's own in a commit of their own, on the engine's connection: the only way for this
 * process to write to the file besides qp_tx of a start or a task. */
QP_API QP_MUST_USE int qp_exec(qp *engine, qp_tx tx, void *context, struct qp_err *err);

/* ------------------------------------------------------------------------------------- workers */

/* A task in hand. Its texts live as long as it does. */
typedef struct qp_task qp_task;

QP_API qp_str qp_task_input(const qp_task *task);
QP_API qp_str qp_task_job(const qp_task *task);
QP_API qp_str qp_task_topic(const qp_task *task);
/* How often it was delivered, this time included: from 1. */
QP_API int64_t qp_task_attempt(const qp_task *task);
/* The same for all attempts and for no other task: for services that take an idempotency key. */
#define QP_TASK_KEY_SIZE 33
QP_API void qp_task_key(const qp_task *task, char out_key[QP_TASK_KEY_SIZE]);
/* Names this attempt at this task, for quipu.complete and quipu.fail: SQL with which an application answers
 * it in a transaction of its own, when the store is PostgreSQL (docs/sql-functions.md). It is to be passed on
 * as it is; what stands in it may change. The task is still in hand after that: return QP_OK from the
 * worker's function, or call qp_task_complete, which says QP_E_STALE. */
#define QP_TASK_TOKEN_SIZE 96
QP_API void qp_task_token(const qp_task *task, char out_token[QP_TASK_TOKEN_SIZE]);

/* What a worker's function says of its task before it returns; of several outputs the last one counts. Texts are
 * copied. The function's own code does the rest: QP_OK commits the output (null when there was
 * none), anything else is an error. An activity of a graph keeps the output that was said before its last attempt failed, beside
 * code and message. */
QP_API QP_MUST_USE int qp_task_output(qp_task *task, qp_str json);
/* The same with a code of its own, 100 to 599, by which a graph chooses where it goes on; 200 is the usual one. */
QP_API QP_MUST_USE int qp_task_reply(qp_task *task, int code, qp_str json);
struct qp_failure {
    const char *message; /* for people, and kept with the job */
    int code;            /* 400 to 599; 0: 500 */
    int fatal;           /* not 0: trying again would not help */
};
/* The task has failed: whatever the function says later, and also when it returns QP_OK. Returns a code other than
 * QP_OK: `return qp_task_fail(task, &(struct qp_failure){...})`. */
QP_API QP_MUST_USE int qp_task_fail(qp_task *task, const struct qp_failure *failure);
/* Runs `tx` inside the commit of this task's output: its writes and the proof are one. When the task
 * was lost meanwhile, it is not run. When it refuses, the task has failed. */
QP_API void qp_task_tx(qp_task *task, qp_tx tx, void *context);

/* A job that starts in the commit of this task's output: both are there, or neither. It is queued here, and begins when the
 * output is on disk; an error, a retry or a lost task starts nothing, and the next attempt says again what it starts. All of
 * qp_start counts but its callbacks. Without an id (and when no graph gives one) its id is the task's key, a dash, and its
 * number among the starts of the task, from 1: the same at every attempt. A job that is there with the same id and input is
 * as good; with another input the task fails with that conflict. QP_E_LIMIT: 100 are queued already. */
QP_API QP_MUST_USE int qp_task_start(qp_task *task, const struct qp_start *start,
                                     struct qp_err *err);

/* An output before the last one, code 202. Returns when it is on disk; the task stays in hand. Called again
 * after a crash with the same outputs in the same order, nothing happens twice. It is not a report of progress: in a
 * graph each one is an answer, which takes the activity's transitions again, in a dimension of its own. */
QP_API QP_MUST_USE int qp_task_pending(qp_task *task, qp_str json, struct qp_err *err);
/* Still at work: the lease begins anew. QP_E_STALE: the task is somebody else's, or its job has ended;
 * nothing that is done for it counts any more. */
QP_API QP_MUST_USE int qp_task_heartbeat(qp_task *task, struct qp_err *err);
/* The same with JSON of at most 4096 bytes that says how far it is: for people (qp_activity.progress), and for the next
 * attempt, if there is one. Each takes the place of the one before. On disk when it returns. */
QP_API QP_MUST_USE int qp_task_progress(qp_task *task, qp_str json, struct qp_err *err);
/* What an attempt before sent last; none: nothing. Lives as long as the task. */
QP_API qp_str qp_task_last_progress(const qp_task *task);
/* 1: its job has ended, or its lease or a time limit of it is over; a long function should return. Costs nothing. */
QP_API int qp_task_is_cancelled(const qp_task *task);
/* 1: the engine is being closed, and waits for this function: a long one should return soon. What it returns is committed as
 * usual; to have the task tried again when the store is opened again, without an error, it calls qp_task_detach,
 * qp_task_retry with 0, and returns. Costs nothing. */
QP_API int qp_task_is_closing(const qp_task *task);

/* Inside a worker's function, on its thread: the task is the caller's from now on. The function returns QP_OK, and what it
 * returns means nothing more; the activity completes later, without a thread: from any thread or from a loop around
 * qp_poll, with the calls of qp_task_claim's tasks (qp_task_complete, qp_task_error, qp_task_retry; qp_task_heartbeat and
 * the others that take a task). When another thread may complete it, the function does not look at it again.
 *
 * It counts as in hand (qp_worker.in_hand) until it is completed or given back. With a lease, heartbeats are the owner's
 * business; without one it is this process's as long as that lives. qp_close gives back and frees what is detached: from
 * its beginning on no call may use such a task. QP_E_INVALID: it was detached before, or was never a function's. */
QP_API QP_MUST_USE int qp_task_detach(qp_task *task, struct qp_err *err);

typedef int (*qp_work)(void *context, qp_task *task);

struct qp_worker {
    qp_str topic;
    qp_work work; /* thread-safe when there are several threads */
    void *context;
    qp_ms
        lease_ms; /* 0: the task is this process's until it answers or dies. Else a worker that is silent
                       for so long loses it, and should use qp_task_heartbeat */
    int64_t in_hand; /* tasks fetched ahead, at most, by priority; 0: 1024 */
};
/* At any time. QP_E_EXISTS: the topic has a worker. */
QP_API QP_MUST_USE int qp_worker_add(qp *engine, const struct qp_worker *worker,
                                     struct qp_err *err);

/* The topic has no worker here any more: no new tasks, what was fetched ahead and not begun goes back into its stream, and it
 * returns when the functions of the topic have returned and their results are on disk. From then on `work` and `context`
 * are not used; the topic may be given another worker. Tasks that are detached stay their owner's. QP_E_NOT_FOUND: it has
 * none; QP_E_INVALID inside a function of the topic. */
QP_API QP_MUST_USE int qp_worker_remove(qp *engine, qp_str topic, struct qp_err *err);

/* Workers that come with the engine, so that a first graph needs none:
 *
 *   quipu.echo    answers its input
 *   quipu.fail    fails: {"code":500,"message":"...","times":2} fails twice, then answers its input; without
 *                 `times` it fails each time
 *   quipu.shell   runs a program: {"command":"name","arguments":[...],"stdin":"...","timeout_ms":60000} answers {"code","stdout",
 *                 "stderr"}. Only names on the list can be run: each is "name=/the/program", and nothing else of a command
 *                 line is looked at, so there is no shell in between. Without a list it is not served
 *
 * A program that ends with another code than 0 is an error of code 500, with its output in the message. One that takes
 * longer than its timeout is ended. */
struct qp_builtin {
    const char *const *shell; /* the list; NULL: none */
    size_t shell_count;
};
QP_API QP_MUST_USE int qp_builtin_serve(qp *engine, const struct qp_builtin *builtin,
                                        struct qp_err *err);

/* Without worker functions: the next task of a topic; QP_E_NOT_FOUND when none is ready. It is ours until
 * it is completed, given back, or this process dies. */
QP_API QP_MUST_USE int qp_task_claim(qp *engine, qp_str topic, qp_task **out_task,
                                     struct qp_err *err);

/* For tasks of qp_task_claim and qp_task_detach; of a task that a worker's function still has, QP_E_INVALID. Commits the
 * output (none: what qp_task_output or qp_task_reply has said before, else null) together with the digits that prove it;
 * returns when it
 * is on disk. QP_E_STALE: it was no longer ours, and nothing happened. After QP_OK and QP_E_STALE the
 * task is gone; after any other code it is still in hand: call again, give it back, or close the
 * engine, which gives back and frees whatever is in hand. After QP_E_UNKNOWN_OUTCOME only closing is
 * left. */
QP_API QP_MUST_USE int qp_task_complete(qp_task *task, qp_str output, struct qp_err *err);

/* Likewise: it ended in an error. It is tried again as the job's policy says, or its activity has failed. */
QP_API QP_MUST_USE int qp_task_error(qp_task *task, const struct qp_failure *failure,
                                     struct qp_err *err);

/* Likewise: gives it back, to be claimed again after delay_ms; that is no error. */
QP_API QP_MUST_USE int qp_task_retry(qp_task *task, qp_ms delay_ms, struct qp_err *err);

/* --------------------------------------------------------------------------------------- flows */

/* A flow is a workflow that is an ordinary function. It calls the functions below, the durable calls; what they do is
 * recorded as the flow's history, and the function runs again from the top over that history whenever something that it
 * waits for has happened: after a crash, after a restart, a year later.
 *
 * A DURABLE CALL takes a qp_flow and returns a code. When the history has the call already (replay), the call returns what
 * is recorded there and does nothing else; each call says what it records. The codes:
 *
 *   QP_OK            it is done
 *   QP_E_SUSPENDED   it has to wait. So has the function: it frees what it holds and returns this code. Until it has
 *                    returned, every further durable call returns QP_E_SUSPENDED as well
 *   QP_E_FAILED      what it asked for has failed; qp_flow_error says why. The function may go on with something else, or
 *                    return this code: then the job has failed with that error
 *   QP_E_CANCELLED   the flow was asked to end (qp_job_cancel). What it waited for is not answered any more. The function may
 *                    do what has to be done, by further durable calls, and returns this code; qp_flow_error tells code 499.
 *                    It is returned once, but for works that were begun before and not answered: each of these returns
 *                    it. The job ends as cancelled, whatever the function returns then; a function that ends without having
 *                    met the cancel was faster
 *   any other        a mistake in the code, a history that contradicts it, or no memory; further durable calls return the same.
 *                    The function returns it. Nothing of this run is recorded; the run is repeated, or the job is
 *                    parked and its error names the call and the location: correct the code and retry the job
 *
 * QP_TRY passes all of them up.
 *
 * The function has to do the same calls in the same order when it runs again over the same history: it takes decisions from
 * its input, from what durable calls return, and from qp_now, qp_random and qp_uuid; not from clocks, files, or variables that
 * other threads change. What it does besides has to go through qp_activity or qp_inline. It holds no lock across a
 * durable call. A call that is added, removed or exchanged while jobs of the flow are open needs qp_v, qp_removed or
 * qp_check_version; otherwise the jobs that it concerns are parked, and nothing is written.
 *
 * Texts that durable calls give live until the function returns. Texts that are given to them are copied, unless the call says
 * otherwise. Names are as all names: [A-Za-z0-9._~:-]+, at most 255 bytes, the name of a flow 254. Inputs and outputs are JSON of at most 2 MiB; none
 * stands for null.
 *
 * Threads: a qp_flow belongs to the thread that its function runs on. A durable call from another thread returns
 * QP_E_INVALID, and the run that it was made for counts as a mistake in the code. */
typedef struct qp_flow qp_flow;

#define QP_SECONDS(n) ((qp_ms)(n)*1000)
#define QP_MINUTES(n) ((qp_ms)(n)*60 * 1000)
#define QP_HOURS(n) ((qp_ms)(n)*3600 * 1000)
#define QP_DAYS(n) ((qp_ms)(n)*24 * 3600 * 1000)

/* Returns QP_OK, a code that a durable call returned, or a code of its own for a failure that may pass (a file that cannot be
 * read): then the run is repeated with backoff, 10 times, and the job is parked after that. */
typedef int (*qp_flow_function)(qp_flow *flow, qp_str input, void *context);

struct qp_flow_kind {
    qp_str name;               /* that jobs are started with: qp_start.topic; at most 254 bytes */
    qp_flow_function function; /* thread-safe when there are several threads */
    void *context;
    int64_t in_hand; /* runs fetched ahead, at most; 0: 1024 */
};
/* From now on this process runs flows of the name, on the threads of its workers. At any time. The first process that adds
 * a name makes it known to the store, for good: a job that is started with it is a flow. QP_E_EXISTS: this handle has the name;
 * QP_E_CONFLICT: the name is a graph's topic, or open jobs of one activity have it as theirs; QP_E_LIMIT: there are
 * 10,000 names in the namespace; QP_E_TOO_LARGE: the name has more than 254 bytes. */
QP_API QP_MUST_USE int qp_flow_add(qp *engine, const struct qp_flow_kind *kind, struct qp_err *err);

/* Ends the function: `output` is that of the job, or of the closure, or of qp_inline, whose function this is. Records it
 * when the function returns QP_OK. A durable call after it, also a second one of this, is a mistake: QP_E_INVALID.
 * Without it the output is null. A flow that returns while activities, sleeps, listens or children are open completes when these
 * have ended; a closure that was begun and waits is not continued then. */
QP_API QP_MUST_USE int qp_return(qp_flow *flow, qp_str output);
/* The error of the flow, closure or qp_inline whose function returns QP_E_FAILED, which is what this returns:
 * `return qp_flow_fail(flow, "no approval within three days")`. Its code is 500. Records nothing by itself. */
QP_API QP_MUST_USE int qp_flow_fail(qp_flow *flow, const char *message);

/* Why the last call that returned QP_E_FAILED has failed. Texts live until the function returns; without a failure the code is
 * 0 and the texts are none. */
struct qp_flow_error {
    int code;        /* 400 to 599; 408: a timeout; 504: its worker was lost */
    qp_str message;  /* for people */
    qp_str name;     /* of what failed */
    qp_str location; /* "{2, 1}": where it stands in the history; none: qp_flow_fail */
    qp_str json;     /* all that is known of it, as a JSON object */
};
QP_API void qp_flow_error(const qp_flow *flow, struct qp_flow_error *out_error);

/* The id of the job. */
QP_API qp_str qp_flow_job(const qp_flow *flow);

/* ---- activities and inline code */

/* How an activity is carried out. NULL or zero: the default. */
struct qp_step {
    int64_t attempts; /* as in qp_retry: 5 attempts, 1 s, factor 2, 60 s */
    qp_ms backoff_ms;
    double factor;
    qp_ms cap_ms;
    const int *never;       /* codes of errors that are not tried again, 400 to 599 */
    size_t never_count;     /* at most 16 */
    qp_ms start_timeout_ms; /* from schedule to start; 0: none */
    qp_ms timeout_ms;       /* from start to close, of one attempt; 0: none */
    qp_ms heartbeat_ms;     /* between two heartbeats of its worker; 0: none */
    const char *limit_key;  /* as that of qp_start, for this activity; NULL: the job's */
};

/* A worker of the topic `name` gets the input, and the call waits for its output.
 * Records: an activity with name and input; then its output, or the error of its last attempt (QP_E_FAILED).
 * In replay: that output or error. An input that differs from the recorded one is logged as a warning, and the recorded one
 * counts. out_output may be NULL. */
QP_API QP_MUST_USE int qp_activity(qp_flow *flow, const char *name, qp_str input,
                                   const struct qp_step *step, qp_str *out_output);

/* Runs `body` here, in this run of the function, and records what came of it. The body gives its output with qp_return
 * and its error with qp_flow_fail, on the flow that it is passed; it makes no durable call. It is run at least once: again when
 * the process dies before the run is recorded. A code other than QP_OK and QP_E_FAILED records nothing, and the run is repeated.
 * Records: a run with name and output, or error.
 * In replay: that output or error; the body is not called. out_output may be NULL. */
typedef int (*qp_flow_body)(qp_flow *flow, void *context);
QP_API QP_MUST_USE int qp_inline(qp_flow *flow, const char *name, qp_flow_body body, void *context,
                                 qp_str *out_output);

/* ---- time and signals */

/* Waits, at least this long from now, at most ten years.
 * Records: a sleep with its end. In replay: returns when that time has come. */
QP_API QP_MUST_USE int qp_sleep(qp_flow *flow, qp_ms ms);
/* Likewise until a time, which may have passed. */
QP_API QP_MUST_USE int qp_sleep_until(qp_flow *flow, qp_ms at);

/* How to listen. NULL or zero: for one signal of one name, as long as it takes. */
struct qp_listen {
    qp_ms timeout_ms;          /* 0: none; at most ten years */
    const char *const *others; /* further names: the oldest signal of any of them is taken */
    size_t other_count;        /* at most 31 */
    int limit; /* 0: one signal, and the output is its data. 1 to 100: up to that many, all that are there, the oldest
                  first, and the output is an array: [{"name":"approved","at":1767225600000,"data":...}] */
    qp_str *out_name; /* NULL, or the name of the signal; with a limit it is not set */
};
/* Waits for a signal to this job: of qp_signal_send with its id as `job` and the name as `topic`, or of qp_signal_flow. Signals
 * that came before the call are kept and count, the oldest first; each is received once.
 * Records: signals with what came; with a timeout a sleep, and the signals when some came in time.
 * In replay: what came. When the time was over first, *out_data is none (p is NULL). out_data may be NULL. */
QP_API QP_MUST_USE int qp_listen(qp_flow *flow, const char *name, const struct qp_listen *listen,
                                 qp_str *out_data);

/* Sends a signal to another flow, by the id of its job. It is sent once, when this run is recorded; when there is no such open
 * job then, the journal of this one says so.
 * Records: a signal with name, job and data. In replay: nothing is sent. */
QP_API QP_MUST_USE int qp_signal_flow(qp_flow *flow, qp_str job, const char *name, qp_str data);

/* ---- children */

/* What becomes of a child when the job of the flow that has started it ends, however it ends. CANCEL: it is asked to end, as by
 * qp_job_cancel. KILL: it ends at once, as by qp_job_interrupt. ABANDON: it goes on. */
enum qp_close_policy {
    QP_CLOSE_DEFAULT = 0, /* CANCEL; of a detached child ABANDON */
    QP_CLOSE_CANCEL = 1,
    QP_CLOSE_KILL = 2,
    QP_CLOSE_ABANDON = 3
};

/* How a child is started. NULL or zero: with an id that is made for it, and awaited. */
struct qp_child {
    const char *id; /* of its job, 1 to 255 bytes; NULL: one is made */
    bool detached;  /* it is not waited for: the output is its id, at once: {"job_id":"..."} */
    enum qp_close_policy close;
};
/* Starts a job of a workflow: of a flow, or of the graph that has this topic. A name that is not known yet is made a flow's, and
 * the child waits for a process that adds it. The call waits for the child's end, and gives its output; a child that does
 * not complete is QP_E_FAILED, whose qp_flow_error has the child's error, and its id as "job" of `json`. A start that is refused,
 * by an input that the graph's schema does not allow for example, is QP_E_FAILED as well: 404, 409, 413, 422, 429.
 * When the flow is cancelled, the call returns QP_E_CANCELLED, and a child that it waits for ends as its close policy says.
 * When this flow is retried or forked, a child that has ended keeps its result and is not started again.
 * Records: a child with the name of the workflow, input, id and close policy; then its output or error.
 * In replay: that output or error, also when the child's job was deleted. out_output may be NULL.
 * An id that another job has is a mistake, which parks the job: when the id is made in the flow, derive it from qp_flow_job
 * and what the child is for. */
QP_API QP_MUST_USE int qp_child(qp_flow *flow, const char *workflow, qp_str input,
                                const struct qp_child *options, qp_str *out_output);

/* ---- cancel and compensation */

/* An activity that undoes something: it runs, in the reverse order of the calls, if the function returns QP_E_FAILED or
 * QP_E_CANCELLED. It belongs to the scope that the call is made in, the function of the flow, a closure, or one round of a
 * loop, and ends with it; what has to live longer is deferred outside, or goes into the loop's state. It is tried as an
 * activity without options; one that fails for good does not keep the others from running. A cancel does not interrupt it.
 * Records: nothing; when it runs, an activity. */
QP_API QP_MUST_USE int qp_defer(qp_flow *flow, const char *name, qp_str input);

/* ---- several at once */

/* Something that was begun. Zeroed: nothing. */
typedef struct qp_handle {
    size_t number;
} qp_handle;

/* As the calls above, without waiting: they return QP_OK at once, and the handle is for qp_all, qp_any and qp_output. What is
 * begun and never awaited goes on all the same. */
QP_API QP_MUST_USE int qp_begin_activity(qp_flow *flow, const char *name, qp_str input,
                                         const struct qp_step *step, qp_handle *out_handle);
QP_API QP_MUST_USE int qp_begin_sleep(qp_flow *flow, qp_ms ms, qp_handle *out_handle);
QP_API QP_MUST_USE int qp_begin_child(qp_flow *flow, const char *workflow, qp_str input,
                                      const struct qp_child *options, qp_handle *out_handle);
/* With a timeout it records a branch named `name` around the sleep and the signals. `out_name` of the options is not set: with
 * several names and a limit the output has the names. */
QP_API QP_MUST_USE int qp_begin_listen(qp_flow *flow, const char *name,
                                       const struct qp_listen *listen, qp_handle *out_handle);
/* Runs the body until it waits or ends. Bodies that are begun share no variables that one of them changes: which one
 * is ahead may differ from run to run. */
QP_API QP_MUST_USE int qp_begin_closure(qp_flow *flow, const char *name, qp_flow_body body,
                                        void *context, qp_handle *out_handle);

/* Waits until all have ended, and returns QP_E_FAILED with the first error in the order of the handles. Records nothing. */
QP_API QP_MUST_USE int qp_all(qp_flow *flow, const qp_handle *handles, size_t count);
/* Waits until one has ended: *out_index is the one that ended first, in replay the same one. Whether it has failed is what
 * qp_output says. Records nothing. */
QP_API QP_MUST_USE int qp_any(qp_flow *flow, const qp_handle *handles, size_t count,
                              size_t *out_index);
/* Waits until it has ended: its output, or QP_E_FAILED. Records nothing. out_output may be NULL. */
QP_API QP_MUST_USE int qp_output(qp_flow *flow, qp_handle handle, qp_str *out_output);

/* ---- structure */

/* Calls the body with a flow of its own, which it uses instead of this one. What it records stands in a branch of the history.
 * Returns what the body returns; the output is that of its qp_return.
 * Records: a branch with its name. In replay: the body is called again, over the history of the branch. */
QP_API QP_MUST_USE int qp_closure(qp_flow *flow, const char *name, qp_flow_body body, void *context,
                                  qp_str *out_output);

/* A loop whose rounds stand in branches of their own:
 *
 *     struct qp_loop track = {.name = "track", .state = QP_STR("0")};
 *     while (qp_loop_next(flow, &track)) {
 *         QP_TRY(qp_activity(flow, "where-is-it", order, NULL, &place));
 *         if (qp_str_is(place, "\"delivered\"")) {
 *             qp_loop_break(flow, &track, place);
 *             continue;
 *         }
 *         QP_TRY(qp_sleep(flow, QP_HOURS(6)));
 *     }
 *     QP_TRY(track.rc);
 *
 * What the next round needs goes through qp_loop_state; of the other variables that the body changes, none is used behind the
 * round.
 * A loop that has ended is not entered in replay: state, output and iteration are then the recorded ones. The body is left
 * by `continue`, by its end, or by returning from the function, not by `break`. */
struct qp_loop {
    const char *name;
    qp_str state;      /* JSON: at first the caller's, then that of qp_loop_state */
    qp_str output;     /* of qp_loop_break; after the loop */
    int64_t iteration; /* from 0; after the loop the number of rounds */
    int rc;            /* why qp_loop_next returned false: QP_OK when the loop was broken */
    void *memory;      /* of the loop that is running: not to be touched */
};
/* Begins the next round, or returns false when the loop was broken and when `rc` is a code.
 * Records: a loop with name, iteration and state, and a branch for each round. */
QP_API QP_MUST_USE bool qp_loop_next(qp_flow *flow, struct qp_loop *loop);
/* The state from now on, copied. Recorded with the loop now and then, and when it ends. */
QP_API void qp_loop_state(qp_flow *flow, struct qp_loop *loop, qp_str state);
/* This round is the last one: the next qp_loop_next returns false. Records the output with the end of the loop. */
QP_API void qp_loop_break(qp_flow *flow, struct qp_loop *loop, qp_str output);

/* ---- changing the code of flows that are running */

/* The same flow for calls that were added in version n of the code, from 1: qp_activity(qp_v(flow, 2), "insure", ...). In a
 * job that is past the place, the call is inserted into its history when the event that stands there has a lower version;
 * elsewhere it is appended. n is relative to the branch: what is below a closure or a loop of version 2 has version 2 as
 * well. n below 1 is a mistake: the next durable call returns QP_E_INVALID. */
QP_API qp_flow *qp_v(qp_flow *flow, int64_t n);

/* What stands in a history. */
enum qp_event_type {
    QP_EVENT_ACTIVITY = 1,
    QP_EVENT_RUN = 2,     /* qp_inline */
    QP_EVENT_SLEEP = 3,   /* also that of a listen with a timeout */
    QP_EVENT_SIGNALS = 4, /* received; names are not compared */
    QP_EVENT_SIGNAL = 5,  /* sent */
    QP_EVENT_CHILD = 7,   /* another job that the flow has started */
    QP_EVENT_LOOP = 8,
    QP_EVENT_BRANCH = 9,  /* a closure, or a listen with a timeout that was begun */
    QP_EVENT_VERSION = 11 /* qp_check_version */
};
/* Stands in the place of a call that the code no longer has, with the same version (qp_v). name NULL: it had none.
 * Records: nothing in a job that has done the call; elsewhere that it was removed. In replay: that event is passed, with all
 * below it. */
QP_API QP_MUST_USE int qp_removed(qp_flow *flow, enum qp_event_type type, const char *name);

/* Lets jobs that are past this place go on with the old code, and others begin with the new: *out_version is the version of
 * the event that stands here, relative to the branch; `latest`, from 1, when the history ends here.
 * Records: a version check in the latter case, else nothing. In replay: the same version. */
QP_API QP_MUST_USE int qp_check_version(qp_flow *flow, int64_t latest, int64_t *out_version);

/* ---- properties, which people see

 * Values of the job with names, for people and programs outside: `quipu show`, GET /v1/jobs/{id}/properties and filters
 * (properties.NAME) have them as they were committed last, also when no worker is there. They are no events: each run sets
 * them again, and they are stored with what the run records. At most 100 names, and 64 KiB in all. */

/* `value` is JSON; none or null removes the property. Not in inline code.
 * Records: nothing. In replay: the same. */
QP_API QP_MUST_USE int qp_set(qp_flow *flow, const char *name, qp_str value);

/* *out_value is what the function has set, here or around its closure, or a closure that was awaited; none: nothing. What a
 * closure sets that goes on is not seen before it is awaited, so that the value is the same in every run. */
QP_API QP_MUST_USE int qp_get(qp_flow *flow, const char *name, qp_str *out_value);

/* ---- derived, the same in every run, not recorded */

/* The time of what the function has seen last: of the start, of an activity's output, of a signal. */
QP_API qp_ms qp_now(const qp_flow *flow);
/* 64 bits that follow from the job's seed, the place in the history and the number of calls there. Not for secrets. */
QP_API uint64_t qp_random(qp_flow *flow);
#define QP_UUID_SIZE 37
QP_API void qp_uuid(qp_flow *flow, char out_uuid[QP_UUID_SIZE]);

/* A line for the log of the handle (qp_env.log), with the job's id. Silent in replay; when a run is repeated it may come
 * again. Records nothing. */
QP_API void qp_log(const qp_flow *flow, enum qp_log_level level, const char *format, ...)
    QP_PRINTF(3, 4);

/* ------------------------------------------------------------------------------------ checking */

enum qp_severity {
    QP_SEVERITY_WARNING, /* somebody should look; no promise is broken */
    QP_SEVERITY_ERROR    /* the file is not what the protocol can have made */
};

/* One violation of one rule. Texts live until the visit returns; docs/fsck.md lists the rules. */
struct qp_finding {
    const char *rule; /* "A1" */
    enum qp_severity severity;
    qp_str namespace_name; /* none when the namespace itself is not there */
    qp_str job;            /* its id; none when it is about no single job */
    const char *text;      /* what is wrong, as a sentence without its full stop */
    const char *evidence;  /* what was found, ledgers as fifteen digits; may be empty */
    const char *next;      /* what to do about it */
};

struct qp_check_options {
    size_t size;                /* sizeof(struct qp_check_options): set by qp_check_options_init */
    const char *path;           /* the file, or URL; it is opened for reading only */
    const struct qp_env *env;   /* NULL: the usual one */
    const char *namespace_name; /* only this one; NULL: all */
    const char *job;            /* only the job with this id, of the namespace or of "default" */
    const char *rules;          /* names or groups: "A1,S"; NULL: all */
    int64_t limit;              /* findings after which it stops; 0: 1000 */
    int64_t max_tries;          /* how often a message may be tried; 0: any number */
    bool accept_loss;           /* check what is there, also when answered changes are missing */
};

QP_API void qp_check_options_init(struct qp_check_options *options);

struct qp_check_result {
    int64_t jobs; /* that were checked */
    int64_t errors;
    int64_t warnings;
    bool truncated; /* the limit was reached: there may be more */
};

/* Called for every finding, in the order of jobs. Another code than QP_OK ends the check, which
 * then returns it. */
typedef int (*qp_check_visit)(void *context, const struct qp_finding *finding);

/* Checks a file or database against the rules of the protocol, page by page and job by job, without changing
 * it; another process may be working on it. QP_OK: it was checked, and out_result says what was
 * found. QP_E_NOT_FOUND: no such file, namespace or job. QP_E_INVALID: no such rule. Other codes:
 * it could not be checked (a foreign, newer or damaged file). `visit` may be NULL. */
QP_API QP_MUST_USE int qp_check(const struct qp_check_options *options, void *context,
                                qp_check_visit visit, struct qp_check_result *out_result,
                                struct qp_err *err);

#ifdef __cplusplus
}
#endif

#endif

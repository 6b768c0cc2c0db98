/* quipu.h - the public interface of libquipu, a durable workflow engine in a file
 *
 * Copyright the Quipu authors. SPDX-License-Identifier: Apache-2.0
 *
 * Every function that can fail returns an int: QP_OK (0) or a negative code of QP_ERROR_TABLE, and
 * writes the detail into a caller-supplied struct qp_err when one is given (NULL is allowed
 * everywhere). Outputs are the last parameters, their names start with out_, and they are untouched
 * on failure.
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
    X(UNKNOWN_OUTCOME, 28, 500, UNKNOWN, "unknown_outcome",                                        \
      "the commit may or may not have happened")                                                   \
    X(INTERNAL, 29, 500, FATAL, "internal", "internal error")

enum qp_code {
    QP_OK = 0,
#define QP_ERROR_CODE(name, number, http, class, word, text) QP_E_##name = -(number),
    QP_ERROR_TABLE(QP_ERROR_CODE)
#undef QP_ERROR_CODE
};

#define QP_ERR_TEXT_SIZE 512

/* The detail of a failure, wrapped on its way up: "claim stream 'x': insert lease: the disk is
 * full". */
struct qp_err {
    int code;
    char text[QP_ERR_TEXT_SIZE];
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
    qp_ms (*wall_ms)(void *context);        /* may jump */
    int64_t (*monotonic_us)(void *context); /* never goes back */
    int (*entropy)(void *context, void *out_bytes, size_t size);
    /* One finished line, no newline at its end: msg first, then fields as key=value. */
    void (*log)(void *context, enum qp_log_level level, const char *line, size_t size);
};

/* Fills in the usual functions: malloc, the system clocks, the system's random source, no log. */
QP_API void qp_env_init(struct qp_env *env);

/* The version of the library that is linked, as "major.minor.patch". */
QP_API const char *qp_version(void);

/* -------------------------------------------------------------------------------------- a store */

/* An engine on one file. Belongs to one thread at a time. */
typedef struct qp qp;

struct qp_options {
    size_t size;      /* sizeof(struct qp_options): set by qp_options_init */
    const char *path; /* the file; made, with mode 0600, when it is not there. NULL: in memory */
    const struct qp_env *env;   /* NULL: the usual one */
    const char *namespace_name; /* NULL: "default" */
};

QP_API void qp_options_init(struct qp_options *options);

/* Opens the file, or makes it. One process may write to a file at a time: another one gets
 * QP_E_LOCKED. What a process that died was working on is ready to be claimed again when this
 * returns. */
QP_API QP_MUST_USE int qp_open(const struct qp_options *options, qp **out_engine,
                               struct qp_err *err);

/* Closes it and marks it as closed properly. The handle is gone in every case. NULL is allowed. */
QP_API int qp_close(qp *engine, struct qp_err *err);

/* ------------------------------------------------------------------------------- jobs and tasks */

/* A job of one activity: `input` goes to whoever serves `topic`. Without an id a UUIDv7 is made. The
 * same id and input again mean the same job, and nothing happens twice. */
struct qp_start {
    qp_str topic;
    qp_str id;    /* none: one is made */
    qp_str input; /* JSON */
};

#define QP_ID_SIZE 256

/* Returns when the job is on disk. out_id (may be NULL) gets its id. The id with another input:
 * QP_E_CONFLICT. */
QP_API QP_MUST_USE int qp_job_start(qp *engine, const struct qp_start *start,
                                    char out_id[QP_ID_SIZE], struct qp_err *err);

/* What is known of a job. Texts live until the next call with this handle. The status is one of
 * running, retrying, waiting, parked, paused, completed, failed, cancelled, interrupted. */
struct qp_job {
    const char *status;
    qp_str output;  /* of a completed job */
    int64_t open;   /* obligations that are still open: the job's semaphore */
    int64_t ledger; /* of its activity, fifteen digits */
};

/* QP_E_NOT_FOUND when there is no such job. */
QP_API QP_MUST_USE int qp_job_get(qp *engine, qp_str id, struct qp_job *out_job,
                                  struct qp_err *err);

/* A task in hand. It is ours until it is completed, given back, or this process dies. Texts live
 * until the task is gone. */
typedef struct qp_task qp_task;

/* The next task of a topic; QP_E_NOT_FOUND when there is none. */
QP_API QP_MUST_USE int qp_task_claim(qp *engine, qp_str topic, qp_task **out_task,
                                     struct qp_err *err);
QP_API qp_str qp_task_input(const qp_task *task);
QP_API qp_str qp_task_job(const qp_task *task);
QP_API int64_t qp_task_attempt(const qp_task *task); /* from 1 */

/* Commits the output together with the digits that prove it; returns when it is on disk. QP_E_STALE: it
 * was no longer ours, and nothing happened. After QP_OK and QP_E_STALE the task is gone; after any
 * other code it is still in hand: call again, give it back, or close the engine, which gives back
 * and frees whatever is in hand. After QP_E_UNKNOWN_OUTCOME only closing is left. */
QP_API QP_MUST_USE int qp_task_complete(qp_task *task, qp_str output, struct qp_err *err);

/* Gives it back, to be claimed again after delay_ms. The task is gone as after qp_task_complete. */
QP_API QP_MUST_USE int qp_task_retry(qp_task *task, qp_ms delay_ms, struct qp_err *err);

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
    const char *path;           /* the file; it is opened for reading only */
    const struct qp_env *env;   /* NULL: the usual one */
    const char *namespace_name; /* only this one; NULL: all */
    const char *job;            /* only the job with this id, of the namespace or of "default" */
    const char *rules;          /* names or groups: "A1,S"; NULL: all */
    int64_t limit;              /* findings after which it stops; 0: 1000 */
    int64_t max_tries;          /* how often a message may be tried; 0: any number */
};

QP_API void qp_check_options_init(struct qp_check_options *options);

struct qp_check_result {
    int64_t jobs; /* that were checked */
    int64_t errors;
    int64_t warnings;
    bool truncated; /* the limit was reached: there may be more */
    bool moving; /* somebody writes: what moved too fast, or the whole-store rules, was left out */
};

/* Called for every finding, in the order of jobs. Another code than QP_OK ends the check, which
 * then returns it. */
typedef int (*qp_check_visit)(void *context, const struct qp_finding *finding);

/* Checks a file against the rules of the protocol, page by page and job by job, without changing
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

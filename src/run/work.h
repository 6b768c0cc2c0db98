/* work.h - workers that are elsewhere: tasks for them, and what they bring
 *
 * A worker in another process, in any language, makes one call after the other (POST /v1/work): it brings
 * results and beats, and asks for tasks. Such a call is a WORK_CALL here. Its owner fills it in,
 * submits it, and is answered on the thread that drives the engine:
 *
 *   work_submit --> (queued) --> results, beats committed --> tasks claimed --> answer
 *                                                     \--> PARKED --> tasks, a cancel, or the time
 *
 *   I1  it is answered once; before that it belongs to the engine, after that to its owner again
 *   I2  what it brought is committed, or refused, before it is answered
 *   I3  a task in its answer is leased to it: claimed in a commit that is on disk, with a lease of
 *       LIMIT_WORK_LEASE_MS
 *   I4  of several that are parked at a topic the one that has waited longest gets a task first, and one
 *       at a time in turn, so that as many are woken as there are tasks
 *   I5  a parked call is this struct in a list per topic: it costs no thread and asks nothing of the store
 *
 * A call that brings results is answered as soon as they are committed, with the tasks that are ready then, while its
 * worker has other tasks in hand, or when one of them was not taken; so is one with a beat that was not taken. Others wait
 * for wait_ms: a worker with one task at a time needs one call per task.
 *
 * Tokens. A task's token names its message, the claim, and who it was given to: a keyed hash over all
 * of them stands in it, by the key of the caller. So no other caller can answer it, even one that has seen it; a later
 * claim of the same task makes it stale; and it outlives this process, as the lease does.
 *
 * If we crash, leases go on: a worker that comes back with its result before the end of the lease
 * is answered as if nothing had been. What was claimed and never told to anybody is ready again when its
 * lease is over.
 */
#ifndef QP_RUN_WORK_H
#define QP_RUN_WORK_H

#include "kernel/face.h"

#define WORK_TOKEN_SIZE 160 /* with its NUL */

/* Who calls: `id` names it, for lists and the audit; `key` is a secret of the server's own, another
 * one for every caller: who is called must not be able to make the token of a task (none where no caller needs a
 * token). */
struct work_caller {
    qp_str id;
    qp_str key;
};

enum work_status {
    WORK_OK,
    WORK_STALE,     /* it is not this caller's task any more: nothing happened */
    WORK_CANCELLED, /* as STALE, and its job was ended: it is not needed */
    WORK_REFUSED /* what was brought is at fault, and rc says how: the task is still the caller's */
};

#define WORK_WHY_SIZE 160 /* of the sentence that says why something was refused, with its NUL */

enum work_kind {
    WORK_SUCCESS,
    WORK_PENDING,
    WORK_ERROR,
    WORK_OTHER /* a status of a kind of job's own: `told` says which */
};

/* What became of a task. */
struct work_result {
    qp_str token;
    enum work_kind kind;
    int64_t code;          /* ERROR: 400 to 599; 0: 500. SUCCESS: 100 to 599 but 202; 0: 200 */
    qp_str output;         /* JSON; none: null. ERROR: what a graph's activity keeps beside it */
    qp_str message;        /* ERROR: for people; cut when it is longer than an error may be */
    bool fatal;            /* ERROR: trying again would not help */
    int64_t pending_index; /* PENDING: which of this task's pending results it is, from 1 */
    qp_str told; /* all of it, JSON, when it has members that not every result has; else none */
    /* The same result again is good, and changes nothing; another one of this task is QP_E_CONFLICT: a record of `told`
     * commits with it, and is kept for LIMIT_RESULT_RECORD_MS. */
    bool once;
    enum work_status status; /* out */
    int rc;                  /* out */
    int64_t seq;             /* out: OK: of the job's last journal entry; 0: not known */
    bool behind;      /* out: OK: the worker forgets what it has of the flow (struct bringing) */
    const char *word; /* out: REFUSED: why, for programs; NULL: the word of rc */
    char why[WORK_WHY_SIZE]; /* out: REFUSED */
    char pointer
        [QP_ERR_POINTER_SIZE]; /* out: REFUSED: into the result; empty: about no single field */
};

/* Still at work on it: the lease is renewed. */
struct work_beat {
    qp_str token;
    qp_str progress; /* JSON of at most LIMIT_PROGRESS_SIZE bytes, for people; none: as it was */
    qp_ms lease_ms;  /* 0: LIMIT_WORK_LEASE_MS */
    enum work_status status; /* out */
    int rc;                  /* out */
    char why[WORK_WHY_SIZE]; /* out: REFUSED */
};

/* A task in an answer. Its texts live until work_done. */
struct work_task {
    struct work_task *next;
    qp_str job;
    qp_str workflow;
    struct job_ref ref;     /* of the job */
    const struct faced *of; /* its kind; NULL: it has no face here */
    qp_str topic;
    qp_str address;
    qp_str input;
    qp_str progress; /* JSON that a beat of an attempt before has brought last; none */
    int64_t attempt; /* deliveries, this one included */
    qp_ms deadline;  /* the end of its lease, by the store's clock */
    char token[WORK_TOKEN_SIZE];
    char key[QP_TASK_KEY_SIZE]; /* the same for all attempts: an idempotency key */
};

/* A token to be told in an answer: its task is no longer needed. */
struct work_cancel {
    struct work_cancel *next;
    char token[WORK_TOKEN_SIZE];
};

struct work_poll;

struct work_call {
    /* What is asked. It and its texts stay as they are until the answer. */
    qp_str ns;     /* none: the handle's own */
    qp_str worker; /* the worker's name; as ids are */
    qp_str build;  /* of its program, for people; may be none */
    struct work_caller caller;
    const qp_str *topics;
    size_t topic_count; /* at most LIMIT_WORK_TOPICS, with the names; 0 with want 0 */
    /* Names whose decisions it makes: in the store from its first call on. Refused: nothing of the call is done. */
    const qp_str *names;
    size_t name_count;
    /* Its topics are the engine's own, and checked. A task there is held by this run, or for the lease that its program says. */
    bool inner;
    bool is_large; /* it keeps much memory: it does not wait when it brings results */
    int64_t want;  /* tasks, at most LIMIT_WORK_TASKS; 0: none, only results and beats */
    qp_ms wait_ms; /* at most LIMIT_WORK_WAIT_MS */
    struct work_result *results;
    size_t result_count; /* at most LIMIT_WORK_RESULTS */
    struct work_beat *beats;
    size_t beat_count; /* likewise */
    bool leave; /* the worker goes: what it has in hand goes back at once, and it gets nothing */
    void *context;
    /* On the thread that drives the engine, or that finds that it was not taken in time: neither may wait. rc is
     * QP_OK; QP_E_CLOSED: the engine closes, or work_abort; QP_E_TIMEOUT: it was not taken, nothing was done;
     * QP_E_FULL, QP_E_UNKNOWN_OUTCOME or another: why the store has taken nothing of it, or gives nothing. */
    void (*answer)(void *context, struct work_call *call, int rc, const char *why);
    /* Asked on the same thread before a parked call is given a task: is the peer still there? If not, it is answered
     * as after work_abort. NULL: always. */
    bool (*there)(void *context);

    /* What comes of it. */
    struct work_task *tasks;
    size_t task_count;
    struct work_cancel *cancels;
    size_t cancel_count;
    const struct qp_err *refused; /* of a name: why, and which; until work_done. NULL: none was */

    struct work_poll *state; /* the engine's */
};

/* Checks and queues it; from any thread. Not QP_OK: it was not taken, and is not answered. QP_E_INVALID
 * or QP_E_TOO_LARGE with the pointer of the field: "/topics/3". A result or a beat that is at
 * fault is refused alone (WORK_REFUSED, rc, why), and the call goes on. */
int work_submit(qp *q, struct work_call *call, struct qp_err *err) QP_MUST_USE;

/* The peer is gone: a call that is not answered yet is answered soon, without tasks. From any thread,
 * also after its answer (then nothing happens) but not after work_done. */
void work_abort(qp *q, struct work_call *call);

/* After the answer, from any thread: frees what came of it. `given_back`: the answer could not be told
 * to the worker, so its tasks are ready for others at once. */
enum work_told { WORK_TOLD, WORK_GIVEN_BACK };
void work_done(qp *q, struct work_call *call, enum work_told end);

/* From any thread, before qp_close: parked calls are answered with QP_E_CLOSED, and no more are taken. Every
 * call must be done before qp_close. */
void work_shut(qp *q);

/* For the handle, on the driver: workers elsewhere. work_turn after each round; work_due: when one is due by itself, by
 * the store's clock; work_close: nothing more is handed out, true while a call is to be answered; work_end: all are,
 * whatever is missing. */
int work_init(qp *q) QP_MUST_USE;
void work_turn(qp *q);
qp_ms work_due(const qp *q);
bool work_close(qp *q);
void work_end(qp *q, int rc);
void work_free(qp *q);

#endif

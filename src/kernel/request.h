/* request.h - what the outside asks of an engine, as commands
 *
 * Each is filled in, handed over with engine_submit, and answered after the commit that holds it; it
 * and its texts belong to the engine in between. `command` is the first member, so that the answer finds
 * the rest.
 */
#ifndef QP_KERNEL_REQUEST_H
#define QP_KERNEL_REQUEST_H

#include "kernel/engine.h"
#include "kernel/signal_job.h"

/* What makes a request repeatable: the record of an idempotency key, which commits with it. QP_E_EXISTS: the
 * record is there, and `taken` is its answer; QP_E_CONFLICT, and it was `met`: it is there with another body. */
struct request_keyed {
    struct op_idem_put idem; /* key none: none */
    bool met;                /* after */
    char taken[QP_ID_SIZE];  /* after: the answer of before; else empty */
};

/* Why the meaning of a name refuses a request: known in the deciding commit, in whose memory the texts are. So
 * they are there only while the answer's code is `rc`: with any other code the commit has failed. */
struct refusal {
    int rc;
    const char *text;    /* NULL: the code says it */
    const char *pointer; /* as in qp_err */
};
/* In the deciding commit: what was said, until it is answered. Returns rc. */
int refusal_keep(struct refusal *out, struct bundle *b, int rc, const struct qp_err *err);
/* Of a request that was answered with rc: the refusal's text, or else `otherwise`; its pointer, or "". */
const char *refusal_text(const struct refusal *refusal, int rc, const char *otherwise);
const char *refusal_pointer(const struct refusal *refusal, int rc);

/* A new job, and what commits with it (what its name means, its kind and its version, is decided with it, where the
 * engine has faces: face.h; a version that is given is that of the job which it is a fork of): its attributes, a signal, the record of an idempotency key, writes of
 * the host's own. QP_E_EXISTS: it is there, started with the same body, or the key's record is; `keyed.taken`
 * is its id. QP_E_CONFLICT: with another body. job is its number, when it is known.
 *
 * With a signal a job that is there is not an error, whatever it was started with: the signal is sent,
 * and nothing else happens. A signal that was sent before is not sent again, and the job is started all the same. */
struct request_start {
    struct command command;
    struct start start;
    int (*host)(void *context, void *native); /* NULL, or writes of the host's own */
    void *host_context;
    const struct qp_attribute *attributes;
    size_t attribute_count;
    const struct op_hook_signal *signal; /* NULL: none */
    qp_str
        signal_id; /* of a signal with an id: as request_signal.id, when the job takes signals by name */
    struct request_keyed keyed; /* `taken` also when it met the job itself */
    struct job_ref job;
    qp_str jid; /* after: the id that its name gave it; none: start.job.jid. Until it is answered */
    struct refusal refusal;     /* after: why its name refuses it. Likewise */
    struct request_start *also; /* of one that commits with a result: the next */
    bool existed;               /* likewise, after: it was there */
};
void request_start(struct request_start *r);

enum result_kind {
    RESULT_DONE,    /* output */
    RESULT_PENDING, /* output, and the task stays ours: another result will come */
    RESULT_ERROR,   /* code, error: tried again as the policy says, else the activity has failed */
    /* reason, error: a person must help. The task becomes a dead letter and its job is parked, in one commit; nothing else
     * is written: no entry, no digit. request_unpark gives the same task again, request_end ends the job. */
    RESULT_PARK
};

/* Which task a result is of: known from the task in hand, or read from its row. */
struct result_of {
    struct msg_ref ref;
    qp_str addr;
    int64_t tries;
    int64_t failures;
};

/* What a worker says of its task. QP_E_STALE: it was no longer ours, and nothing happened. Without a task in
 * hand, of.ref is what the worker's token says, and its row tells the rest. */
struct request_result {
    struct command command;
    const struct task *task; /* NULL: of.ref names it */
    struct result_of of;
    int64_t next_index; /* likewise: of a pending result */
    enum result_kind kind;
    int64_t code;
    qp_str output; /* JSON; of RESULT_ERROR it is made by the decision (error.h) */
    qp_str error;  /* RESULT_ERROR, RESULT_PARK: a sentence for people */
    qp_str reason; /* RESULT_PARK: a word; job_row.parked is "reason: error" */
    qp_str worker; /* the name of the worker that brought it; none: it has none */
    bool fatal;    /* not to be tried again */
    bool lost;     /* RESULT_ERROR: the engine's own report (lost.c) */
    qp_ms
        lost_until; /* then: the end of the short lease; another one means that a beat was accepted */
    bool silent;    /* likewise: the worker was silent, so the policy of lost leases applies */
    int64_t
        pending_index; /* from 1: which of the pending results of this task it is; 0: the next. Of a
                        * worker elsewhere: QP_E_CONFLICT, it was there with another output;
                        * QP_E_INVALID, it is not the next one */
    int (*host)(void *context, void *native); /* NULL, or writes of the host's own */
    void *host_context;
    struct request_start
        *starts;    /* RESULT_DONE: jobs that commit with it, each `by_message`, linked by `also` */
    qp_ms retry_ms; /* after: when it will be tried again; -1: not */
    struct refusal refusal; /* as in request_start: why the job's kind refuses what was brought */
    qp_str workflow;        /* after QP_OK: of its job; until it is answered */
    bool
        job_is_over; /* after QP_E_STALE without a task: its job was ended, and not by completing */
};
void request_result(struct request_result *r);

/* A worker is still at work on a task: its lease begins anew. QP_E_STALE as above. */
struct request_beat {
    struct command command;
    struct msg_ref ref;
    qp_ms lease_ms; /* 0: it has none, and is only looked after, unless the task has a beat limit */
    qp_str progress; /* JSON that is kept with the job; none: what is there stays */
    bool job_is_over;
    qp_ms
        until; /* after QP_OK: when its lease, or the first of its time limits, is over; 0: never */
};
void request_beat(struct request_beat *r);

/* A signal to (topic, key): delivered, or kept for ttl_ms. The same signal twice is QP_E_EXISTS: by its GUID while
 * the first one is kept, with has_id also when it was delivered (op_hook_signal); with a key, as long as the key's
 * record. */
struct request_signal {
    struct command command;
    struct request_keyed keyed;
    struct op_hook_signal signal; /* key none: its topic says it (face.h) */
    struct signal_job to; /* id none: to (topic, key); else to this job: topic is its name */
    qp_str
        id; /* of a signal whose key is known in the commit: its GUID follows from topic, key and id; else none */
    bool delivered; /* after QP_OK or QP_E_EXISTS: what became of it, or of the first one */
    bool kept;
    struct refusal refusal; /* as in request_start */
};
void request_signal(struct request_signal *r);

/* The end of a job out of its turn: cancelled, interrupted, failed; `descend`: of those that it has called, too.
 * QP_E_NOT_FOUND, QP_E_CLOSED. */
struct request_end {
    struct command command;
    int64_t ns;
    qp_str jid;
    enum job_state state;
    qp_str error;
    bool descend;
};
void request_end(struct request_end *r);

/* A parked job goes on where it stands: its dead letters are live again. QP_E_CONFLICT: it is not
 * parked. out_more: call again. */
struct request_unpark {
    struct command command;
    struct request_keyed keyed;
    int64_t ns;
    qp_str jid;
};
void request_unpark(struct request_unpark *r);

/* One op on a job by its id. QP_E_NOT_FOUND; QP_E_CLOSED, QP_E_CONFLICT as the op says. more: there is
 * more of it to do, submit it again. */
enum job_change { JOB_CHANGE_PAUSE, JOB_CHANGE_RESUME, JOB_CHANGE_DELETE };
struct request_change {
    struct command command;
    int64_t ns;
    qp_str jid;
    enum job_change change;
    bool more;
};
void request_change(struct request_change *r);

/* Up to `want` tasks of a topic, which go to the service's `give`. */
struct request_claim {
    struct command command;
    struct service *service;
    int64_t want;
};
void request_claim(struct request_claim *r);

/* Any one op. What it puts out is in `op` when it is answered. */
struct request_op {
    struct command command;
    struct op op;
};
void request_op(struct request_op *r);

#endif

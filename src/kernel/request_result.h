/* request_result.h - what a worker says of its task: a result, or that it is still at work (see request.h) */
#ifndef QP_KERNEL_REQUEST_RESULT_H
#define QP_KERNEL_REQUEST_RESULT_H

#include "kernel/face.h"
#include "kernel/request_start.h"

/* Which task a result is of: known from the task in hand, or read from its row. */
struct result_of {
    struct msg_ref ref;
    qp_str addr;
    int64_t tries;
    int64_t failures;
    qp_str note; /* msg_row.error, without a task in hand */
};

/* What a worker says of its task. QP_E_STALE: it was no longer ours, and nothing happened. Without a task in
 * hand, of.ref is what the worker's token says, and its row tells the rest. */
struct request_result {
    struct command command;
    struct request_keyed
        keyed; /* without a task in hand: the same result again is QP_E_EXISTS, another one QP_E_CONFLICT */
    const struct task *task; /* NULL: of.ref names it */
    struct result_of of;
    int64_t next_index; /* likewise: of a pending result */
    enum result_kind kind;
    int64_t code;
    qp_str output; /* JSON; of RESULT_ERROR it is made by the decision (error.h) */
    qp_str data;   /* RESULT_ERROR: JSON that came with it; none. Kept if the program keeps it */
    qp_str error;  /* RESULT_ERROR, RESULT_PARK: a sentence for people */
    qp_str reason; /* RESULT_PARK: a word; job_row.parked is "reason: error" */
    qp_str worker; /* the name of the worker that brought it; none: it has none */
    bool fatal;    /* not to be tried again */
    /* RESULT_ERROR: the worker chose when the task is tried again, in again_ms; the policy of its activity is not asked. */
    bool again;
    qp_ms again_ms;
    bool lost; /* RESULT_ERROR: the engine's own report (lost.c) */
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
    qp_str told;    /* as in struct bringing: for the job's kind; none */
    enum result_kind
        said; /* with it: as the worker said it; `kind` and `output` are what comes of it */
    qp_str said_output;
    qp_str build;           /* of the worker's program; none */
    struct refusal refusal; /* as in request_start: why the job's kind refuses what was brought */
    const char *refused_as; /* likewise: a word for programs; NULL: that of the code */
    const char *parks; /* likewise: after some of them the job is parked for this; NULL: never */
    qp_str workflow;   /* after QP_OK: of its job; until it is answered */
    int64_t seq;       /* after QP_OK: of its job's last journal entry */
    bool behind;       /* after QP_OK: as in struct bringing */
    bool counts;       /* likewise */
    bool
        job_is_over; /* after QP_E_STALE without a task: its job was ended, and not by completing */
};
void request_result(struct request_result *r);

/* A worker is still at work on a task: its lease begins again. QP_E_STALE as above. */
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

#endif

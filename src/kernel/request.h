/* request.h - what the outside asks of an engine, as commands
 *
 * Each is filled in, handed over with engine_submit, and answered after the commit that holds it; it
 * and its texts belong to the engine in between. `command` is the first member, so that the answer finds
 * the rest. Here are signals, ends and single ops; the other two have headers of their own: a start, and what a worker
 * brings.
 */
#ifndef QP_KERNEL_REQUEST_H
#define QP_KERNEL_REQUEST_H

#include "kernel/request_ask.h"
#include "kernel/request_result.h"
#include "kernel/request_start.h"
#include "kernel/signal_job.h"

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
 * parked. A kind may have its own way (face.retry), whose codes these are, and QP_E_CLOSED. A closed
 * job that has not completed goes on as well, when what completes it is a dead letter. */
struct request_unpark {
    struct command command;
    struct request_keyed keyed;
    int64_t ns;
    qp_str jid;
    qp_str part; /* of the job; none: all of it. QP_E_UNSUPPORTED: jobs of its kind have no parts */
    struct refusal refusal; /* as in request_start */
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

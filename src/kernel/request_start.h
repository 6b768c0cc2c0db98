/* request_start.h - the start of a job, as a command (see request.h) */
#ifndef QP_KERNEL_REQUEST_START_H
#define QP_KERNEL_REQUEST_START_H

#include "kernel/engine.h"
#include "kernel/request_parts.h"

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
    bool custom_taken; /* after QP_E_CONFLICT: an open job (keyed.taken) has the custom id */
    /* Of a fork (start.job.forked_from; face.h, struct fork). A retry leaves its id with the job that it was made from, as
     * the attribute RETRIED_AS: one that was retried, by a job that is still there, is refused (QP_E_CONFLICT). */
    qp_str version; /* that was asked for; none */
    qp_str at;
    bool retries;
    bool announces; /* its name is that of a workflow: one that is not known is announced with it */
    bool announced; /* after QP_OK: it was; the caller lets readers know (faces_changed) */
};
void request_start(struct request_start *r);
/* Its decision, for a start that commits with another request. */
int start_decide(struct engine *e, struct command *c, struct bundle *b) QP_MUST_USE;

/* The name is one of the kind that workers announce, from now on (face.announce, whose codes these are). After QP_OK with
 * `changed` the caller lets readers know (faces_changed). */
struct request_announce {
    struct command command;
    int64_t ns;
    qp_str name;
    bool changed;           /* after */
    struct refusal refusal; /* as in request_start */
};
void request_announce(struct request_announce *r);

#endif

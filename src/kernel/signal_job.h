/* signal_job.h - a signal to one job: which job it is, and what the job's kind makes of it
 *
 * A kind whose program says `takes_signals` gets signals by name: they reach the activity that listens for the name
 * (turn_listen), or are kept until the job ends. For a job of any other kind the name is the topic of a hook, and the
 * job's id is the key. All of it is decided in the commit that sends the signal.
 */
#ifndef QP_KERNEL_SIGNAL_JOB_H
#define QP_KERNEL_SIGNAL_JOB_H

#include "kernel/turn.h"

struct signal_job {
    qp_str
        workflow; /* none: `id` is that of a job; else the custom id of an open job of this workflow */
    qp_str id;
};

/* The job; QP_E_NOT_FOUND. Its row is not locked: the op that sends the signal compares. */
int signal_job_find(struct bundle *b, int64_t ns, const struct signal_job *to,
                    const struct job_row **out_job) QP_MUST_USE;
/* Whether signals to the job are by name. */
bool signal_job_takes(const struct kernel *k, const struct job_row *job);
/* The signal, whose topic is its name, goes to the job. `id`: of the signal, from which its GUID follows; none: it has a
 * GUID. QP_E_INVALID: a signal by name has no code but 200. */
int signal_job_aim(const struct kernel *k, struct bundle *b, const struct job_row *job, qp_str id,
                   struct op_hook_signal *signal) QP_MUST_USE;
/* The GUID of a signal with an id: it stands for (topic, key, id). */
int signal_id_guid(struct bundle *b, struct op_hook_signal *signal, qp_str id) QP_MUST_USE;
/* The topic of a signal by this name; it lives as long as the arena. */
int signal_name_topic(struct arena *a, qp_str name, qp_str *out_topic) QP_MUST_USE;

#endif

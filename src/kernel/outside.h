/* outside.h - messages that an application put into the engine's stream in a transaction of its own
 *
 * With PostgreSQL the schema has functions (store/postgres/functions.c) that write a message together with
 * the application's rows; the engine does the rest when it delivers it.
 *
 *   START   the job's own message, GUID: the job's owner. Payload: the input. The job's row and its id were
 *           written with it (H3: the inception of this owner, which whoever delivers it resumes)
 *   SIGNAL  of the system; GUID: the signal's, address: its topic. Payload: "ttl-in-ms size-of-key\n", or
 *           "ttl-in-ms size-of-key id\n" when the GUID stands for an id; the key, the payload of the signal
 *           To one job by name: address: SIGNAL_NAME_MARK and the name; put by a program (turn_signal_job). Payload:
 *           "number-of-sender size-of-its-address size-of-workflow size-of-id\n"; these three, the payload of the signal
 *   RESULT  the job's own, in place of the task that it answers; GUID: that of its response (H5). Payload:
 *           the output, code: its code
 *
 * The functions check what they are given, but a table is open to whoever may write it: all of it is checked
 * here once more. What is malformed is a dead letter at once; trying again would not help.
 */
#ifndef QP_KERNEL_OUTSIDE_H
#define QP_KERNEL_OUTSIDE_H

#include "store/store.h"

struct kernel;

bool outside_is(const struct msg_row *message);

/* The payload of a START or a RESULT is JSON that the API would have taken. QP_E_MALFORMED: it is not. */
int outside_check(const struct qp_env *env, const struct msg_row *message) QP_MUST_USE;

/* Delivers a SIGNAL, or keeps it; one that was there already is not an error. One to a job that does not take it leaves
 * EVENT_REFUSED in the history of its sender, if that is open. QP_E_MALFORMED. */
int outside_signal(const struct kernel *k, struct bundle *b,
                   const struct msg_row *message) QP_MUST_USE;

/* The parts of a SIGNAL; key and payload are pieces of the message's. */
struct outside_signal {
    qp_ms ttl_ms;
    bool has_id;
    qp_str key;
    qp_str payload;
};
int outside_signal_parse(qp_str payload, struct outside_signal *out_signal) QP_MUST_USE;

/* The parts of a SIGNAL to one job. */
struct outside_to {
    int64_t sender;  /* the job that sends it */
    qp_str address;  /* the activity of it that does */
    qp_str workflow; /* none: `id` is a job's id; else a custom id */
    qp_str id;
    qp_str payload;
};
int outside_to_payload(struct arena *a, const struct outside_to *to,
                       qp_str *out_payload) QP_MUST_USE;
int outside_to_parse(qp_str payload, struct outside_to *out_to) QP_MUST_USE;

#endif

/* request_parts.h - what requests have in common: the key that makes one repeatable, and why one is refused
 *
 * All of it is used in the deciding commit, by the engine's thread.
 */
#ifndef QP_KERNEL_REQUEST_PARTS_H
#define QP_KERNEL_REQUEST_PARTS_H

#include "kernel/step.h"

/* What makes a request repeatable: the record of an idempotency key, which commits with it. QP_E_EXISTS: the
 * record is there, and `taken` is its answer; QP_E_CONFLICT, and it was `met`: it is there with another body. */
struct request_keyed {
    struct op_idem_put idem; /* key none: none */
    bool met;                /* after */
    char taken[QP_ID_SIZE];  /* after: the answer of before; else empty */
};

/* The record, if there is a key. It is looked for first in its bundle: what it says must not depend on what the first
 * request has changed. */
int keyed_find(struct request_keyed *k, struct bundle *b) QP_MUST_USE;
/* Writes the record, if there is a key. */
int keyed_put(const struct request_keyed *k, struct bundle *b, qp_str answer) QP_MUST_USE;
/* Both, with the answer that is known from the beginning. */
int keyed_begin(struct request_keyed *k, struct bundle *b) QP_MUST_USE;
/* The id that `taken` tells. */
void keyed_taken(char taken[QP_ID_SIZE], qp_str id);

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

/* The job of an id. QP_E_NOT_FOUND. */
int request_job(struct bundle *b, int64_t ns, qp_str jid,
                const struct job_row **out_job) QP_MUST_USE;

#endif

/* host.h - the host's own writes in a commit of the engine, and single operations that a caller waits for
 *
 * A qp_tx runs inside the transaction of a commit, on the thread that drives. The engine's own code for its refusal,
 * QP_E_ABORTED, says nothing of what the callback returned, so that is kept here.
 */
#ifndef QP_RUN_HOST_H
#define QP_RUN_HOST_H

#include "store/ops.h"

/* A qp_tx on its way into a commit. */
struct host_tx {
    qp_tx tx;
    void *context;
    int code; /* that it returned last */
};

/* The callback that the engine gets, with a struct host_tx. */
int host_call(void *host, void *native);
/* Why a commit with it was refused, in `text` where its code was the cause; else `why`. */
#define HOST_TEXT_SIZE 96
const char *host_why(const struct host_tx *h, int rc, const char *why, char text[HOST_TEXT_SIZE]);

/* One operation in a commit. Waits for it; what the operation puts out is in *op. */
int op_do(qp *q, struct op *op, const char *what, struct qp_err *err) QP_MUST_USE;

#endif

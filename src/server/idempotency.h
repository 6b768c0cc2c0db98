/* idempotency.h - requests with an Idempotency-Key
 *
 * That a repeated request happens once is the library's: the key is a record in the commit of what
 * was asked for (qp_start.idem_key, qp_signal.idem_key, qp_action.idem_key). What is kept here is only which keys are being answered just
 * now, in this process: their second request is told to wait (409). If we crash, nobody is being
 * answered any more.
 *
 * Threads: all functions from any thread.
 */
#ifndef QP_SERVER_IDEMPOTENCY_H
#define QP_SERVER_IDEMPOTENCY_H

#include "server/call.h"

struct idempotency;

int idempotency_create(const struct qp_env *env, struct idempotency **out_all) QP_MUST_USE;
void idempotency_destroy(struct idempotency *all);

/* The key is the call's until idempotency_end. QP_E_BUSY: another call with it is being answered; codes of id_check: it is
 * malformed. */
int idempotency_begin(struct idempotency *all, struct api_call *c, struct qp_err *err) QP_MUST_USE;
void idempotency_end(struct idempotency *all, struct api_call *c);

/* The key as the store gets it: of this caller, namespace and route, and for no other. None when
 * the call has no key. It is in the call's arena. */
#define IDEMPOTENCY_TEXT_SIZE 33
qp_str idempotency_text(struct api_call *c);

#endif

/* signals.h - what of a signal others need: its check, its GUID, and sending one whose JSON was checked
 *
 * The caller owns the struct and its texts until the call returns. From any thread.
 */
#ifndef QP_RUN_SIGNALS_H
#define QP_RUN_SIGNALS_H

#include "base/json.h"
#include "base/uuid.h"

/* JSON_CHECKED: the payload was checked with the limits of limits.h, alone or as a part of a text. How large it may be is
 * checked here in any case. */
int signal_check(const qp *q, const struct qp_signal *s, enum json_trust trust,
                 struct qp_err *err) QP_MUST_USE;
/* The GUID of a signal whose key is known: it stands for (topic, key, id), or is new when there is no id. */
int signal_guid(qp *q, const struct qp_signal *signal, unsigned char out_guid[UUID_SIZE],
                struct qp_err *err) QP_MUST_USE;
/* As qp_signal_send. */
int signal_send(qp *q, const struct qp_signal *signal, enum json_trust trust,
                struct qp_err *err) QP_MUST_USE;

#endif

/* apply_signal_id.h - the record of a signal's id; of a signal without an id the functions do nothing
 *
 * Each function works on the rows of the commit and returns as the functions of apply.h do.
 */
#ifndef QP_STORE_APPLY_SIGNAL_ID_H
#define QP_STORE_APPLY_SIGNAL_ID_H

#include "store/apply.h"

/* In idem_row.status, where a delivered signal has the number of its job. */
enum { RECORD_OF_DELETED = 0, RECORD_KEPT = -1 };

/* Kept (RECORD_KEPT) or delivered; kept and now delivered; kept and now gone. */
int signal_record_add(struct txn *t, const struct hook_sig_row *sig, int64_t status,
                      int64_t until) QP_MUST_USE;
int signal_record_delivered(struct txn *t, const struct hook_sig_row *sig, int64_t job) QP_MUST_USE;
int signal_record_drop(struct txn *t, const struct hook_sig_row *sig) QP_MUST_USE;
/* What the record says of the signal that was sent before. */
int signal_record_ask(struct txn *t, struct op_hook_signal *op,
                      const struct hook_sig_row *sig) QP_MUST_USE;

#endif

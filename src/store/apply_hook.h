/* apply_hook.h - the rows of one hook, for the ops that change them
 *
 * Each function works on the rows of the commit and returns as the functions of apply.h do.
 */
#ifndef QP_STORE_APPLY_HOOK_H
#define QP_STORE_APPLY_HOOK_H

#include "store/apply.h"

/* The hook's row, which is added if there is none; it goes when no row counts on it. */
struct hook_row *hook_edit(struct txn *t, int64_t ns, qp_str topic, qp_str key);
int hook_tidy(struct txn *t, const struct hook_row *hook) QP_MUST_USE;
/* QP_E_INVALID: not a place where a signal and a registration can meet. named: by the name of a signal to a job. */
int hook_check(qp_str topic, qp_str key, bool named) QP_MUST_USE;
int hook_open_check(const struct op_hook_open *op) QP_MUST_USE;
/* The first row of one side of a hook, or none; prefix: ns, topic, key. */
int hook_first(struct txn *t, enum table_id table, const void *prefix,
               const void **out_row) QP_MUST_USE;
int hook_wait_add(struct txn *t, struct hook_row *hook, const struct hook_wait_row *w) QP_MUST_USE;
/* What a job counts of a signal that is kept for it: one more (sign 1), or one fewer (-1). */
int signal_kept_count(struct txn *t, const struct hook_sig_row *sig, int64_t sign) QP_MUST_USE;
/* A kept signal is no longer kept; the caller tidies the hook. */
int signal_drop(struct txn *t, struct hook_row *hook, const struct hook_sig_row *sig) QP_MUST_USE;
/* The message that a signal becomes. */
int signal_message(struct txn *t, const struct hook_wait_row *w,
                   const struct hook_sig_row *sig) QP_MUST_USE;

#endif

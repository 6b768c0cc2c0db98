/* apply_signal_job.h - signals to one job by name: the registration by names, and the signal (ops.h) */
#ifndef QP_STORE_APPLY_SIGNAL_JOB_H
#define QP_STORE_APPLY_SIGNAL_JOB_H

#include "store/apply_hook.h"
#include "store/apply_signal_id.h"

int signal_listen(struct txn *t, struct op_hook_open *op) QP_MUST_USE;
int signal_to_job(struct txn *t, struct op_hook_signal *op, struct hook_sig_row *sig) QP_MUST_USE;

#endif

/* retry.h - how often an activity is tried, and how long between
 *
 * A policy stands as text on the activity's row: "attempts=5,backoff=1000,factor=2,cap=60000,code=500", in any
 * order, what is missing is the default. Attempts are those that ended in an error which the worker
 * reported; a crash or a lost lease is no attempt (those are deliveries, and have a limit of their own).
 */
#ifndef QP_KERNEL_RETRY_H
#define QP_KERNEL_RETRY_H

#include "base/base.h"

struct retry {
    int64_t attempts; /* 1: no second one */
    qp_ms backoff_ms; /* after the first failure */
    double factor;    /* each further wait is this much longer */
    qp_ms cap_ms;     /* and no longer than this */
    int64_t code;     /* only for errors of this code; 0: for all */
};

#define RETRY_TEXT_SIZE 128

extern const struct retry retry_default;

/* QP_E_INVALID: no such key, or a value out of range. None is the default. */
int retry_parse(qp_str text, struct retry *out_retry, struct qp_err *err) QP_MUST_USE;
/* The text, with a NUL; its length. */
size_t retry_format(const struct retry *retry, char out_text[RETRY_TEXT_SIZE]);

/* Whether an error of this code is tried again at all. */
bool retry_is_for(const struct retry *retry, int64_t code);
/* How long to wait after this many failures, or -1: that was the last attempt. */
qp_ms retry_delay(const struct retry *retry, int64_t failures);

#endif

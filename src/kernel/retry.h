/* retry.h - how often an activity is tried, how long between, and how long each attempt may take
 *
 * A policy stands as text on the activity's row: "attempts=5,backoff=1000,factor=2,cap=60000,code=500,lost=5", in any
 * order, what is missing is the default. Further keys: "park=1" parks the job after the last attempt, "deliveries=3" is how
 * often a task is delivered without an answer, "codes=404:2+500:3" are the only codes that are tried again, each with its number of attempts, "never=400+404" are codes that are not tried again, "shield=1" is a step that a cancel of its flow leaves alone. Behind them stand the time
 * limits of its tasks, in their order and without a gap (store/time_limits.h), "start=5000,run=60000,beat=10000", and last the
 * limit key of its tasks, "limit=KEY": all that follows is the key, which may have commas. Attempts are those that ended in an
 * error which the worker reported, or by
 * the loss of its lease (lost.c), an error of code 504. A delivery that was lost with this process is no attempt: such
 * ones have a limit of their own (serve.c).
 *
 * A policy that says nothing of lost leases, since it is for errors of another code, or since there is none and an error
 * is not tried again at all, lets a worker die as often as the default policy does: an error is what the activity's
 * author has thought of, a worker that is restarted is not.
 */
#ifndef QP_KERNEL_RETRY_H
#define QP_KERNEL_RETRY_H

#include "store/time_limits.h"

/* A code that is tried again, and how many attempts there are when one ends with it. */
struct retry_code {
    int64_t code; /* 0: no more */
    int64_t attempts;
};

struct retry {
    int64_t attempts; /* 1: no second one */
    qp_ms backoff_ms; /* after the first failure */
    double factor;    /* each further wait is this much longer */
    qp_ms cap_ms;     /* and no longer than this */
    int64_t code;     /* only for errors of this code; 0: for all, or for `codes` */
    struct retry_code codes[LIMIT_RETRY_CODES]; /* only for these; none: as `code` says */
    int64_t lost; /* attempts, when one ended by the loss of its lease; 0: as `attempts` */
    int64_t park; /* 1: after the last attempt its job is parked; the activity has no answer */
    int64_t
        deliveries; /* without an answer, then its task is a dead letter; 0: as the engine says */
    int64_t never[LIMIT_RETRY_NEVER]; /* codes that are not tried again; 0: no more */
    int64_t shield;            /* 1: a cancel of its flow does not take it back: a compensation */
    struct time_limits limits; /* of its tasks */
    qp_str limit_key;          /* of its tasks; none: the job's */
};

#define RETRY_TEXT_SIZE (640 + LIMIT_ID_SIZE)

extern const struct retry retry_default;

/* QP_E_INVALID: no such key, or a value out of range. None is the default. */
int retry_parse(qp_str text, struct retry *out_retry, struct qp_err *err) QP_MUST_USE;
/* The text, with a NUL; its length. */
size_t retry_format(const struct retry *retry, char out_text[RETRY_TEXT_SIZE]);

/* Whether an error of this code is tried again at all. */
bool retry_is_for(const struct retry *retry, int64_t code);
/* The policy when a worker was silent, which is an error of this code: its lease was lost, or its beat limit is over. */
struct retry retry_of_lost(const struct retry *retry, int64_t code);
/* What a task needs of a policy that retry_parse has taken before, without reading the rest: its time limits as text, and
 * its limit key. None: it has none. */
void retry_task(qp_str policy, qp_str *out_limits, qp_str *out_limit_key);
/* How long to wait after this many failures, or -1: that was the last attempt. */
qp_ms retry_delay(const struct retry *retry, int64_t failures);
/* The same when the last of them had this code; -1 also when errors of this code are not tried again. */
qp_ms retry_after(const struct retry *retry, int64_t code, int64_t failures);

#endif

/* time_limits.h - how long a task may wait for a worker, run, and be silent
 *
 * The limits stand as text in the policy of the activity (kernel/retry.h), and again on the message of its task, so that
 * a claim need not read the activity: "start=5000,run=60000,beat=10000", in this order, what is missing has no limit.
 *
 *   start   from READY, each time, to the claim
 *   run     from the claim to the end of the attempt: msg_row.deadline
 *   beat    from the claim, and from every heartbeat, to the next one. It takes the place of the worker's lease
 *
 * A limit that is over is reported as an error of code ERROR_CODE_TIMEOUT (kernel/lost.c). Pure functions.
 */
#ifndef QP_STORE_TIME_LIMITS_H
#define QP_STORE_TIME_LIMITS_H

#include "base/base.h"

enum time_limit { TIME_LIMIT_NONE, TIME_LIMIT_START, TIME_LIMIT_RUN, TIME_LIMIT_BEAT, TIME_LIMITS };

struct time_limits {
    qp_ms ms[TIME_LIMITS]; /* 0: no such limit; that of TIME_LIMIT_NONE is not used */
};

#define TIME_LIMITS_TEXT_SIZE 80

/* The word of a limit in a policy: start, run, beat. */
qp_str time_limit_word(enum time_limit limit);
/* QP_E_INVALID: another word, another order, or not a whole number from 1 to LIMIT_TIMER_MS. None: no limits. */
int time_limits_parse(qp_str text, struct time_limits *out_limits) QP_MUST_USE;
/* The text, with a NUL; its length, 0 when there are no limits. */
size_t time_limits_format(const struct time_limits *limits, char out_text[TIME_LIMITS_TEXT_SIZE]);

#endif

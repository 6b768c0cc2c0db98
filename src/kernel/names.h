/* names.h - what a name means: which kind of job a start begins, with which version; which key a signal is for
 *
 * Whoever knows definitions registers this with the engine. It is asked in the commit that decides, and answers by the
 * definitions of that commit (bundle_definitions): so no commit acts on a name that is older than what was acknowledged
 * before it began. A commit may be decided twice: each run asks again. Nothing of it costs a row as long as the number of
 * definitions is the one that is known.
 *
 * Threads: the engine's.
 */
#ifndef QP_KERNEL_NAMES_H
#define QP_KERNEL_NAMES_H

#include "store/store.h"

struct naming {
    int64_t ns;
    qp_str name;
    qp_str input;
    qp_str pinned; /* the version of the job that it is a fork of; none: what the name means now */
    /* after; texts live as long as the commit */
    int64_t kind;
    qp_str version;
    qp_str jid; /* that the definition gives it; none: the caller's choice */
};

struct names {
    void *context;
    /* QP_E_SHAPE: the input is refused; QP_E_NOT_FOUND: the version was deleted. */
    int (*start)(void *context, struct bundle *b, struct naming *naming, struct qp_err *err);
    /* Of a signal that came without one. QP_E_NOT_FOUND: nothing waits at such a topic. */
    int (*signal_key)(void *context, struct bundle *b, const struct op_hook_signal *signal,
                      qp_str *out_key, struct qp_err *err);
};

#endif

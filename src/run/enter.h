/* enter.h - what a public function begins with, before it looks at anything: the one place where a handle is judged
 *
 * A call is refused when the handle is NULL or when `needs`, a condition on the other arguments, is false
 * (QP_E_INVALID); in a child after fork, whose copies of the locks may be held for good (QP_E_INVALID); and once the
 * engine is sealed (QP_E_CLOSED). Else the call counts as running until the function returns, by the cleanup of
 * `entered`, and qp_close waits for it.
 */
#ifndef QP_RUN_ENTER_H
#define QP_RUN_ENTER_H

#include "base/base.h"

#define ENTER(q, needs, err)                                                                       \
    __attribute__((cleanup(handle_leave))) qp *entered = NULL;                                     \
    QP_TRY(handle_enter((q), (needs), __func__, #needs, &entered, (err)))
int handle_enter(qp *q, bool complete, const char *function, const char *needs, qp **out_entered,
                 struct qp_err *err) QP_MUST_USE;
void handle_leave(qp *const *entered);

/* For functions that return no code: whether they may do anything with it. Async-signal-safe. */
bool handle_is_ours(const qp *q);
/* The same with a sentence. */
int process_check(const qp *q, const char *function, struct qp_err *err) QP_MUST_USE;

/* When a handle is made, and freed: the mark by which a child after fork is known. */
void mark_make(qp *q);
void mark_drop(qp *q);

#endif

/* naive.h - the rulings on histories once more, as they are written and without regard to cost
 *
 * A second opinion on flow/cursor.h that shares nothing with it but the case it reads: its own locations, its own order,
 * every branch collected by a look at all events. It knows no limits: cases that reach them are among the vectors.
 */
#ifndef QP_TEST_NAIVE_H
#define QP_TEST_NAIVE_H

#include "support/flowcase.h"

/* The line that flowcase_run prints for the case. */
void naive_run(const struct flowcase *flow, struct buf *out);

#endif

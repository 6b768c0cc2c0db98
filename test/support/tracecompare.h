/* tracecompare.h - what a trace expects, held against what there is: JSON trees, difference by difference
 *
 * What is expected says what is compared: members that it omits are not, unless `whole`. Arrays are compared in length and order.
 * Each difference is one line: `step 3: /statuses/0/status: expected "failed", got "scheduled"`; at most DIFFERENCES_MAX are
 * written, all are counted. Pure.
 */
#ifndef QP_TEST_TRACECOMPARE_H
#define QP_TEST_TRACECOMPARE_H

#include "base/json.h"
#include "base/mem.h"

#define DIFFERENCES_MAX 100

struct tracecompare {
    struct buf *out;
    size_t number; /* of the step, from 1 */
    size_t differences;
    const char *const
        *aside; /* names of members that are not compared, with a NULL behind; NULL: all are */
};

struct tracepair {
    const struct json *expected;
    const struct json *got; /* NULL: nothing */
};

void tracecompare(struct tracecompare *c, const char *path, struct tracepair pair, bool whole);
/* One more difference, in words. */
void tracecompare_tell(struct tracecompare *c, const char *path, const char *expected,
                       const char *got);

#endif

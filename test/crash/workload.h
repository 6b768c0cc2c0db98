/* workload.h - a fixed list of commits that uses every op and writes every table, and the state
 * after each of them
 *
 * The commits come from opgen with a fixed seed, so a run on a fresh store is the same every time:
 * after k commits the state is the k-th text of the record. How many commits there are is found by
 * running until every op has succeeded and every failpoint was passed.
 */
#ifndef QP_TEST_WORKLOAD_H
#define QP_TEST_WORKLOAD_H

#include "support/opgen.h"
#include "support/statetext.h"
#include "support/testenv.h"

#define WORKLOAD_SEED 6 /* one of those whose list is short */
#define WORKLOAD_COMMITS_MAX 400

/* What is compared: all rows, but for the marker and the clock that is kept with it. */
#define WORKLOAD_WITHOUT (STATETEXT_NO_MARK | STATETEXT_NO_CLOCK)

/* The commits of one run, one after the other. */
struct workload {
    struct testenv *t;
    struct opgen g;
};

void workload_init(struct workload *w, struct testenv *t);
void workload_done(struct workload *w);
/* Makes the next commit from what the store holds, and lets the time pass that goes before it. */
void workload_next(struct workload *w, struct store *s);

/* What a run without faults leaves: states[k] after k commits, states[0] of the store as it was
 * made. */
struct workload_record {
    size_t commit_count;
    struct buf states[WORKLOAD_COMMITS_MAX + 1];
};

/* The texts are kept in memory of `keeper`. Every op has succeeded at its end, and `is_enough` says
 * what else is to come; asserts that both are so before WORKLOAD_COMMITS_MAX. */
void workload_record(struct workload_record *r, const struct qp_env *keeper, struct testenv *t,
                     struct store *s, bool (*is_enough)(void));
void workload_record_done(struct workload_record *r);

#endif

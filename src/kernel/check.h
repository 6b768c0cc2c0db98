/* check.h - is the store what the protocol says it can be? The rules, and who walks them
 *
 * check_run walks the jobs by key, a page at a time; it loads one job with all that belongs to it
 * and asks every rule of check_rules.def. Rules about the whole store (orphans, counters) come
 * after the jobs. Memory is bounded by the largest job, a page of each table, and the number of lanes,
 * hooks, keys and workflows. Nothing is written: the store may be opened for reading only.
 *
 * A store that is being written to by others is read in snapshots: a page of jobs, then the rules about
 * the whole store.
 *
 * The names in a finding live until its visit returns.
 */
#ifndef QP_KERNEL_CHECK_H
#define QP_KERNEL_CHECK_H

#include "kernel/face.h"

struct check_options {
    qp_str namespace_name; /* none: all */
    qp_str job;            /* an id: only this job, of the namespace or of "default"; none: all */
    qp_str rules;          /* names or groups, by commas: "A1,S"; none: all */
    int64_t limit;         /* findings after which it stops; 0: LIMIT_CHECK_FINDINGS */
    int64_t max_tries;     /* of a message, for M5; 0: any number */
    const struct faces *faces; /* whose rules are asked, too; NULL: none */
};

/* QP_OK: it was checked, and out_result says what was found. QP_E_INVALID: no such rule.
 * QP_E_NOT_FOUND: no such namespace or job. Otherwise it could not be checked; a code that the
 * visit returned ends it too. */
int check_run(struct store *s, const struct check_options *options, void *context,
              qp_check_visit visit, struct qp_check_result *out_result,
              struct qp_err *err) QP_MUST_USE;

/* Seeds violations, one after the other, into small healthy stores in memory and requires that
 * exactly the rule meant finds each; a rule without a seed fails too. QP_E_INTERNAL says which. */
int check_selftest(const struct qp_env *env, struct qp_err *err) QP_MUST_USE;

#endif

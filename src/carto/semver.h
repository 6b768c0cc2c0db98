/* semver.h - versions of npm packages, as npm itself reads them (ranges: semver_range.h)
 *
 *   1.2.3   1.2.3-beta.1   v1.2.3+build
 *
 * npm reads versions of its registry loosely: "=v1.02.3beta" is 1.2.3-beta. Versions are ordered by their three numbers; a
 * pre-release comes before its version; identifiers of pre-releases are compared one by one, numbers as numbers and
 * before words. What follows '+' has no part in the order.
 *
 * Versions are slices of the text they were read from. Pure; any thread.
 */
#ifndef QP_CARTO_SEMVER_H
#define QP_CARTO_SEMVER_H

#include "base/mem.h"

#define SEMVER_NUMBER_MOST 9007199254740991u

struct semver {
    uint64_t number[3]; /* major, minor, patch: at most SEMVER_NUMBER_MOST */
    qp_str pre;         /* identifiers with dots; empty: no pre-release */
};

/* False: it is not a version. */
bool semver_read(qp_str text, struct semver *out) QP_MUST_USE;
/* Below, at or above 0. */
int semver_compare(const struct semver *a, const struct semver *b);
/* The text that npm gives it: "1.2.3-beta". */
void semver_write(struct buf *out, const struct semver *version);

/* What stands for one version in a range: numbers or x, the last ones may be missing.
 * semver_parts_take reads one that fills the text. */
struct semver_parts {
    struct semver version; /* 0 where there is no number */
    bool is_any[3];        /* x, X, * or missing */
    bool is_missing[3];
    bool is_zero[3]; /* "0", and not "00" */
};
bool semver_parts_take(qp_str text, struct semver_parts *out) QP_MUST_USE;

#endif

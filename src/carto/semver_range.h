/* semver_range.h - ranges of versions of npm packages, as npm itself reads them
 *
 *   ^1.2.3   ~1.2   1.x || >=2.5.0 <3   1.2 - 2.3   *
 *
 * A range is alternatives (||) of comparators that must all hold. What is no comparator is left out; a text with nothing
 * else is no range (npm takes it for a tag). A pre-release is only admitted by an alternative that names a pre-release
 * of the same three numbers.
 *
 * The caller owns the arena that a range lives in. Pure; any thread.
 */
#ifndef QP_CARTO_SEMVER_RANGE_H
#define QP_CARTO_SEMVER_RANGE_H

#include "carto/semver.h"

enum semver_op {
    SEMVER_ANY,
    SEMVER_BELOW,
    SEMVER_AT_MOST,
    SEMVER_EXACTLY,
    SEMVER_AT_LEAST,
    SEMVER_ABOVE
};

struct semver_comparator {
    enum semver_op op;
    struct semver version;
    bool is_last; /* of its alternative */
};

struct semver_range {
    const struct semver_comparator *rows;
    size_t count;
};

/* The range lives in the arena. QP_E_INVALID, without a sentence: the text is not a range. QP_E_NOMEM. */
int semver_range_read(struct arena *a, qp_str text, struct semver_range *out) QP_MUST_USE;
bool semver_range_admits(const struct semver_range *range, const struct semver *version);

#endif

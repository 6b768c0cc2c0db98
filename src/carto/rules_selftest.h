/* rules_selftest.h - tries the rules of traversals: each finds what is seeded for it, and nothing else (face.selftest) */
#ifndef QP_CARTO_RULES_SELFTEST_H
#define QP_CARTO_RULES_SELFTEST_H

#include "base/base.h"
#include "base/env.h"

int carto_rules_selftest(const struct qp_env *env, struct qp_err *err) QP_MUST_USE;

#endif

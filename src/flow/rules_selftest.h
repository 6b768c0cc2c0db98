/* rules_selftest.h - the rules of flows are checked: each finds what is seeded for it, and nothing else does */
#ifndef QP_FLOW_RULES_SELFTEST_H
#define QP_FLOW_RULES_SELFTEST_H

#include "base/base.h"

/* QP_E_INTERNAL says which. */
int flow_rules_selftest(const struct qp_env *env, struct qp_err *err) QP_MUST_USE;

#endif

/* rules_selftest.h - the rules about instances of agent workflows, tried on seeded violations */
#ifndef QP_AGENT_RULES_SELFTEST_H
#define QP_AGENT_RULES_SELFTEST_H

#include "base/base.h"

/* QP_E_INTERNAL says which rule does not find what is seeded for it. */
int agent_rules_selftest(const struct qp_env *env, struct qp_err *err) QP_MUST_USE;

#endif

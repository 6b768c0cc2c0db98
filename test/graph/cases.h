/* cases.h - graphs with a script each, for tests that run them in different ways */
#ifndef QP_TEST_GRAPH_CASES_H
#define QP_TEST_GRAPH_CASES_H

#include "support/graphrun.h"

struct graph_case {
    const char *name;
    const char *graph; /* test/graph/vectors/<graph>.yaml */
    void (*script)(void);
};
extern const struct graph_case graph_cases[];
extern const size_t graph_case_count;

/* Runs one, and fails the test when what must come of it does not. kill_at > 0: the engine dies after so many commits;
 * true: it did, false: it was over before. */
bool case_run(const struct graph_case *c, enum storetest_kind kind, bool stepwise, int64_t kill_at);

#endif

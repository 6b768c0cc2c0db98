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
/* One of the small ones, of which there is one for each type of activity. */
bool case_is_of_type(const struct graph_case *c);

/* How it is run. */
struct case_way {
    enum storetest_kind kind;
    bool stepwise;
    int64_t kill_at; /* > 0: the engine dies after so many commits */
    int64_t fail_at; /* > 0: the so-manyth failpoint fails; with `dies`, the engine dies of it */
    bool dies;
    bool twice; /* every message comes twice (echo.h) */
};

struct case_end {
    bool disturbed; /* it was disturbed: a kill or a failure came before it was over */
    int64_t again;  /* messages that came again */
};

/* Runs one, and fails the test when what must come of it does not. */
struct case_end case_run(const struct graph_case *c, const struct case_way *way);

#endif

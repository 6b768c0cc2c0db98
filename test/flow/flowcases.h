/* flowcases.h - flows with a script each, for tests that run them in different ways */
#ifndef QP_TEST_FLOW_FLOWCASES_H
#define QP_TEST_FLOW_FLOWCASES_H

#include "support/graphrun.h"

struct flow_case {
    const char *name;
    qp_flow_function function;
    const char *output;    /* of the job; NULL: it fails with `error` */
    const char *or_output; /* another one that is as good; NULL: none */
    const char *error;
    const char *properties; /* as people see them in the end; NULL: none */
    int64_t calls;          /* of activities, undisturbed */
    bool leaves;            /* works that are open when it returns: then a cancel ends it at once */
    bool large;             /* takes long: one run is killed at many boundaries */
    bool huge;              /* step by step it has thousands of them: at fewer */
    void (*script)(void);   /* NULL: it is started and runs by itself */
};
extern const struct flow_case flow_cases[];
extern const size_t flow_case_count;

/* How it is run. */
struct flow_way {
    enum storetest_kind kind;
    bool stepwise;
    int64_t kill_at;    /* > 0: the engine dies after that many commits */
    int64_t kill_every; /* > 0: and again after so many more, until the flow has ended */
    int64_t
        cancel_at; /* > 0: two compensations are deferred, and the flow is asked to end after that many commits */
    void (*watch)(
        struct graphrun *r); /* after each round; NULL: the store is checked before a kill */
};

/* What it took. */
struct flow_end {
    int64_t kills;
    int64_t commits;
    int64_t rows; /* written */
    int64_t decisions;
    bool cancelled; /* it has ended so */
    bool in_time;   /* the cancel was asked before it had ended */
};

/* Runs one, and fails the test when what must come of it does not. */
struct flow_end flow_run(const struct flow_case *c, const struct flow_way *way);

#endif

/* shapes.h - kernel programs of the shapes that later layers have, for tests
 *
 *   tree    as a graph: fork, passthrough, join of branches of different length, a cycle with a join
 *           in every dimension, a timer
 *   flow    as code that decides: one activity that takes events for ever, a decision in hand at
 *           most once, works that it schedules, a close that races with events
 *   carto   as a traversal: levels of batches of items, each item under a key while it works, a
 *           barrier after each level, one last activity
 *   kin     as graphs that call others: awaited jobs, an early answer, an end that goes further
 *
 * A job's output is a sum over what its workers answered and a count of what its steps did, so a step
 * that is lost or done twice shows. Workers are pure functions of a task.
 */
#ifndef QP_TEST_SHAPES_H
#define QP_TEST_SHAPES_H

#include "kernel/program.h"

#define SHAPE_TOPICS_MAX 3
#define SHAPE_TEXT_SIZE 4096
#define FLOW_SIGNALS 5
#define FLOW_TOPIC QP_STR("flow-events")
#define FLOW_EXTRA QP_STR("x") /* the event that a flow can do without */

struct shape {
    const struct program *program;
    const char *topics[SHAPE_TOPICS_MAX]; /* of its workers; NULL: no more */
    const char *input;
    int signals; /* that it needs to end: "s0", "s1", ... */
    /* What a worker answers. */
    void (*execute)(qp_str addr, qp_str input, char out_text[SHAPE_TEXT_SIZE]);
    /* The job's output for this input, and how many tasks there are. */
    void (*expect)(int64_t input, char out_text[SHAPE_TEXT_SIZE]);
    int64_t (*task_count)(int64_t input); /* -1: it depends on who is faster */
};

extern const struct shape shape_tree;
extern const struct shape shape_flow;
extern const struct shape shape_carto;
extern const struct shape shape_children;

/* What a worker of this name earns; never 0. */
int64_t shape_value(qp_str name);
int64_t shape_number(qp_str text); /* 0 when there is none */
bool shape_is(qp_str name, const char *prefix);

/* Text in the turn's memory. */
int shape_print(struct turn *t, qp_str *out_text, const char *format, ...) QP_PRINTF(3, 4);
/* A named number of the job; it is 0 until something was added. */
int shape_read(struct turn *t, const char *name, int64_t *out_number) QP_MUST_USE;
int shape_add(struct turn *t, const char *name, int64_t more) QP_MUST_USE;

#endif

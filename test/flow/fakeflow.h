/* fakeflow.h - the rows of one flow in memory: decisions of its function are committed to it, and works are answered by hand
 *
 * It stands in for the store and the flow's program: a decision is applied as a whole, answers get places in one order, and a
 * run sees what was committed before it began. A decision that breaks a rule of the protocol (a location twice, an event
 * without its branch, a version below its branch's) fails the test.
 */
#ifndef QP_TEST_FAKEFLOW_H
#define QP_TEST_FAKEFLOW_H

#include "flow/script.h"
#include "support/testenv.h"

#define FAKE_ROWS 4096

struct fakerow {
    struct history_event event;
    struct log_entry entry;
    qp_str op;     /* of the command that made it */
    qp_str names;  /* of a listen: JSON */
    qp_str got;    /* its second location, as text; none: it has no time limit */
    int64_t limit; /* of a listen */
    int64_t used;  /* answers that it got */
};

struct fakeflow {
    struct testenv *t;
    struct arena arena; /* of the rows */
    struct arena run;   /* of one run */
    struct fakerow rows[FAKE_ROWS];
    size_t count;
    int64_t seq;
    qp_ms now;
    qp_str input;
    bool over;
    /* of the last run */
    struct script_result result;
    size_t commands;
    int64_t after;
    int64_t seen;      /* its base */
    qp_str end;        /* return: the output; fail: the error */
    qp_str properties; /* as the last set left them; none */
};

void fake_init(struct fakeflow *f, struct testenv *t);
void fake_done(struct fakeflow *f);
/* The same rows in another one. */
void fake_copy(struct fakeflow *to, const struct fakeflow *from, struct testenv *t);

/* Runs the function, and commits its decision when there is one. */
enum script_kind fake_run(struct fakeflow *f, qp_flow_function function, void *context);
/* The same without the commit, as if the process had died before it. */
enum script_kind fake_run_lost(struct fakeflow *f, qp_flow_function function, void *context);

/* Commits the decision of that run after all. */
void fake_commit(struct fakeflow *f);

/* The first open event with this name (NULL: without one) is answered. */
void fake_answer(struct fakeflow *f, const char *name, int64_t code, const char *output);
void fake_answer_at(struct fakeflow *f, size_t row, int64_t code, const char *output);
/* A signal comes: the first open listen for the name gets it. */
void fake_signal(struct fakeflow *f, const char *name, const char *data);
bool fake_is_open(const struct fakerow *row);
bool fake_listens(const struct fakerow *row);
size_t fake_open_count(const struct fakeflow *f);

/* The history in one line: "{1} activity foo; {1.1}v2 activity n". Lives until the next call. */
const char *fake_text(struct fakeflow *f);

#endif

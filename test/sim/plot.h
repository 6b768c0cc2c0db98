/* plot.h - a generated graph: drawn from a seed, written as YAML, and interpreted by itself
 *
 * A plot is a list of parts, one after the other; some parts hold lists of their own. A part is one activity or a few
 * that belong together, is entered from the activity before it and left at its last one. So the graph has every
 * shape that lists in lists have, joins in cycles in branches of joins, and the interpreter needs no graph at all: it walks the
 * lists.
 *
 *     list      = part part ...
 *     part      = one of enum plot_kind; ALL and ANY hold two or three lists, CYCLE one
 *
 * WHAT IS COMPARED. Every activity has an output x: its constant plus the x of the one before (after a join: of the
 * branches that came). Every activity adds its x to a sum of its own in the job's data, in the commit of its step 2: what
 * is lost, done twice, or read from the wrong plane shows. Where two things race (a signal and a timer), the sum is
 * between two bounds; everywhere else they are the same. Each version of the text writes its own number with each
 * step: a job has only one.
 */
#ifndef QP_TEST_PLOT_H
#define QP_TEST_PLOT_H

#include "sim/random.h"
#include "store/store.h"

#define PLOT_PARTS_MAX 40
#define PLOT_ACTS_MAX 128 /* of all plots of a world: ids are unique in an app */
#define PLOT_BRANCHES_MAX 3
#define PLOT_RUNS_MAX 120 /* activities that one job runs */
#define PLOT_TEXT_SIZE 262144

#define PLOT_LIST(X)                                                                               \
    X(pass)    /* a hook that waits for nothing */                                                 \
    X(emit)    /* the same, and says so */                                                         \
    X(sleep)   /* a hook that waits for a time */                                                  \
    X(work)    /* a worker */                                                                      \
    X(flaky)   /* a worker that fails a few times first */                                         \
    X(fail)    /* a worker that fails; nothing takes it: the job has failed */                     \
    X(errors)  /* a worker that fails when it gets an even number: a branch takes it, and joins */ \
    X(pending) /* a worker that says a few times that it is not done yet */                        \
    X(web)     /* a hook that waits for a signal of a client */                                    \
    X(keep)    /* the same, after signals of code 202 */                                           \
    X(fed)     /* the same, and a signal activity beside it that sends it */                       \
    X(both)    /* a hook that waits for a time or a signal, which may come or not */               \
    X(listen)  /* the same, for a signal to all */                                                 \
    X(tell)    /* a signal to all of a colour */                                                   \
    X(call)    /* awaits a child */                                                                \
    X(again)   /* awaits a child that fails a few times first */                                   \
    X(detach)  /* starts a child, and does not wait for it */                                      \
    X(early)   /* awaits a child that answers before it is done */                                 \
    X(stop)    /* interrupts its own job */                                                        \
    X(end)     /* interrupts another one */                                                        \
    X(skip)    /* a branch that its statusThreshold forbids, and one that goes on; they join */    \
    X(all)     /* branches, some under conditions, and their join */                               \
    X(any)     /* the same, where the first is enough */                                           \
    X(cycle)   /* a list that runs again */

enum plot_kind {
#define PLOT_ENUM(name) PLOT_##name,
    PLOT_LIST(PLOT_ENUM)
#undef PLOT_ENUM
        PLOT_KINDS
};

extern const char *const plot_kind_names[PLOT_KINDS];

/* When a branch is taken. */
enum plot_when { WHEN_ALWAYS, WHEN_EVEN, WHEN_ODD };

struct plot_part {
    enum plot_kind kind;
    int next;  /* in its list; -1: it is the last */
    int act;   /* the number of its first activity; the others follow */
    int pivot; /* the cycle around it: its first activity; -1: none */
    int64_t c; /* its constant */
    int64_t n; /* rounds, failures, replies, milliseconds: what its kind has to count */
    bool joined;
    int branch_count;
    int branches[PLOT_BRANCHES_MAX];
    enum plot_when when[PLOT_BRANCHES_MAX];
};

struct plot {
    const char *topic;
    const struct plot *child; /* of those that it calls; NULL: it calls none */
    const char *other;        /* the job that it may end */
    struct plot_part parts[PLOT_PARTS_MAX];
    int part_count;
    int first;   /* of the list */
    int trigger; /* activities: the trigger, the last one */
    int last;
    bool ends_other;
};

/* Which parts may be drawn. */
enum plot_role { PLOT_MAIN, PLOT_CHILD };

/* What will come of a job. */
struct plot_end {
    bool stops;                   /* it cannot complete */
    bool has_result;              /* it comes to its last activity, */
    int64_t result;               /* whose x is this */
    int64_t least[PLOT_ACTS_MAX]; /* the sum of each activity */
    int64_t most[PLOT_ACTS_MAX];
    int64_t runs[PLOT_ACTS_MAX]; /* how often it runs, at least */
    int64_t tasks;
    int64_t run_count;
    int64_t calls; /* children */
};

/* Draws the parts; activities are numbered from *acts on, which is moved. */
void plot_draw(struct plot *p, enum plot_role role, int *acts, struct sim_random *random);
/* The naive interpreter. Counts what it meets as coverage when `cover`. */
void plot_interpret(const struct plot *p, int64_t x, bool cover, struct plot_end *out_end);
/* An application of these plots and the two graphs of fixed text that they call. */
void plot_write(const struct plot *const *plots, size_t count, int version,
                char out_text[PLOT_TEXT_SIZE]);
/* The name of an activity of a part: its kind and its number. */
void plot_name(char out_name[32], enum plot_kind kind, int act);

#endif

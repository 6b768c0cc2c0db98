/* flowgen.h - generated flows: trees of durable calls, edits of them, the function that makes the calls, and what may come of it
 *
 *   flowgen_begin --> version 0 --flowgen_edit--> version 1 --> ...      a version is a whole program; none changes later
 *   flowgen_function    one version over a history, by the calls of quipu.h: the output is a text
 *   flowgen_accepts     the same version, step after step, beside that text: whether it is an output that may be
 *
 * Edits are LEGAL, by the rules of document 004: what is inserted has a version that was never used before, what goes is
 * replaced by removed, a step that is replaced stands under a version check, a step that is wrapped is removed and runs again
 * inside of something new. So no flow may be stopped by them, wherever it is.
 *
 * The output has a word per step, in the order of the code:
 *
 *   a3=1f00d2.17;      an activity: a hash of its input, and the number that its worker gave this result; or E404, E408r, ..
 *   n1=z;  n2=s;       a sleep, a signal sent           n3=inline;         inline code
 *   n4=s12;  n4=T;     what came; or nothing did in time
 *   n5{...}            a closure                        n6(1:...|...|)     a loop, by the version that ended it
 *   n7[...]            all                              n8<2:...>          any, and which came first
 *   n9?2:...           a version check, its answer, and the step that goes with it
 *
 * What the history decides (who was first, whether a signal came in time, the answers of checks) is read from the text; all
 * else follows from the program.
 */
#ifndef QP_TEST_FLOWGEN_H
#define QP_TEST_FLOWGEN_H

#include "flow/script.h"

#define FLOWGEN_VERSIONS 48
#define FLOWGEN_LISTENS 1024
#define FLOWGEN_NAME_SIZE 16
#define FLOWGEN_TOPICS 6            /* a0 to a5: the activities have these names */
#define FLOWGEN_UNSERVED "unserved" /* a topic that no worker has */
#define FLOWGEN_KID "kid"           /* the flow of children */
#define FLOWGEN_VALUE_SIZE 64
#define FLOWGEN_KEYS 2 /* limit keys of tasks: t0, t1 */

enum flowgen_op {
    FLOWGEN_ACTIVITY,
    FLOWGEN_INLINE,
    FLOWGEN_SLEEP,
    FLOWGEN_SIGNAL,
    FLOWGEN_LISTEN,
    FLOWGEN_TIMED, /* a listen with a time limit */
    FLOWGEN_TELL,  /* a signal to itself, and a listen for it */
    FLOWGEN_CLOSURE,
    FLOWGEN_LOOP,
    FLOWGEN_ALL,
    FLOWGEN_ANY,
    FLOWGEN_DRAWN, /* the others come by edits */
    FLOWGEN_CHECK = FLOWGEN_DRAWN,
    FLOWGEN_OPS
};
extern const char *const flowgen_op_names[FLOWGEN_OPS];

/* What becomes of an activity; the first character of its input. */
enum flowgen_fate {
    FLOWGEN_FINE,
    FLOWGEN_FLAKY,     /* its worker fails twice first */
    FLOWGEN_FATAL,     /* error 404, not tried again */
    FLOWGEN_UNSTARTED, /* no worker serves its topic, and it has a start limit */
    FLOWGEN_SLOW,      /* takes longer than its run limit */
    FLOWGEN_SILENT,    /* takes longer than its beat limit, without a beat */
    FLOWGEN_BEATS,     /* the same, with beats */
    FLOWGEN_KEYED,     /* a limit key of its own, and a start limit */
    FLOWGEN_FATES
};
extern const char *const flowgen_fate_names[FLOWGEN_FATES];

enum flowgen_edit_kind {
    FLOWGEN_INSERT,
    FLOWGEN_REMOVE,
    FLOWGEN_REPLACE, /* under a version check */
    FLOWGEN_WRAP,    /* in a closure */
    FLOWGEN_WRAP_LOOP,
    FLOWGEN_EDITS
};
extern const char *const flowgen_edit_names[FLOWGEN_EDITS];

struct flowgen_step {
    struct flowgen_step *next;
    enum flowgen_op op;
    enum flowgen_fate fate;
    bool removed;
    bool child;      /* an activity that a child does */
    bool base;       /* stands in version 0 */
    int64_t version; /* absolute; of a check: the latest */
    int64_t times;   /* loop */
    char name[FLOWGEN_NAME_SIZE];
    struct flowgen_step *body; /* closure, loop, all, any; of a check the old step */
    struct flowgen_step *fast; /* of a check: the new one */
};

struct flowgen_options {
    uint64_t seed;
    bool with_any;
    bool with_fates;    /* activities may fail, be slow, and have limits */
    bool with_children; /* some activities are done by flows of their own, started by this one */
    /* Inputs of activities say all that was computed before, and inline code behind any says who was first, so that a run
     * which computes something else contradicts the history. Only without edits. */
    bool strict;
    int64_t weight; /* how many words the output of version 0 may have, about */
};

/* A name that the flow listens for, and how often at most. */
struct flowgen_listen {
    char name[FLOWGEN_NAME_SIZE];
    int64_t most;
    bool timed; /* it need not come */
};

struct flowgen {
    struct arena *arena;
    struct flowgen_options options;
    uint64_t random;
    int64_t names;  /* that were given out */
    int64_t topics; /* likewise */
    int64_t newest; /* the highest version that was ever used */
    int64_t weight; /* left */
    struct flowgen_step *programs[FLOWGEN_VERSIONS];
    enum flowgen_edit_kind edits[FLOWGEN_VERSIONS]; /* which one made the version, from 1 */
    int count;
    struct flowgen_listen listens[FLOWGEN_LISTENS];
    size_t listen_count;
    int64_t ops_seen[FLOWGEN_OPS];
    int64_t fates_seen[FLOWGEN_FATES];
    int64_t children_seen;
    int64_t edits_seen[FLOWGEN_EDITS];
};

/* Everything lives in the arena. */
void flowgen_begin(struct flowgen *g, struct arena *arena, const struct flowgen_options *options);
/* Another version, by one edit of the last. False: there is no room, or no place for it was found. */
bool flowgen_edit(struct flowgen *g);

/* What the function is given as its context; one per run. */
struct flowgen_run {
    const struct flowgen *gen;
    int version;
    struct arena *arena; /* of the run */
};
int flowgen_function(qp_flow *flow, qp_str input, void *context);
/* The flow FLOWGEN_KID: the activity that its input is of, and nothing else. */
int flowgen_kid(qp_flow *flow, qp_str input, void *context);

/* What a worker answers to the input of an activity, without the quotes; `number` is that of this result. */
void flowgen_value(qp_str input, int64_t number, char out_value[FLOWGEN_VALUE_SIZE]);
enum flowgen_fate flowgen_fate_of(qp_str input);

/* Whether the job may end with this output (JSON). False: *out_why is the rest of the text that does not fit. `number` is
 * called with each number of a result and `signal` with each text that came by a signal, both once per place. */
struct flowgen_visit {
    void *context;
    bool (*number)(void *context, int64_t number); /* false: it may not be here */
    bool (*signal)(void *context, qp_str name, qp_str data);
    void (*error)(void *context, enum flowgen_fate fate, qp_str word); /* "408r" */
};
bool flowgen_accepts(const struct flowgen *g, const char *jid, qp_str output,
                     const struct flowgen_visit *visit, const char **out_why);
/* The version that returned the output; -1: the text has none. */
int flowgen_version_of(qp_str output);

#endif

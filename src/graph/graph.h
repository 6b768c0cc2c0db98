/* graph.h - a compiled application: graphs, their activities, and what leads where
 *
 * Made once per version from its text (compile.c) and never changed: several threads may read one. Everything that
 * can be known before a job runs is computed here, so that a step only looks it up.
 *
 * JOINS. An activity with several incoming transitions is a join. In front of it the compiler puts a GATE, an activity of
 * its own ("join:" and the id), where all of them arrive; the join itself is the gate's only child. A gate
 * owns a scope of the job's semaphore, which counts the ways that may still arrive.
 *
 * DEPTH AND DOMINATORS. The dominator of an activity is the nearest one that all ways to it lead through: its
 * parent, or, of a gate, the nearest common one of all who arrive. An activity stands one generation below its
 * dominator, in the plane that the dominator ran in: so all who arrive at a gate mean the same address, and in every
 * round of a cycle around it a new one.
 *
 * EXITS. What leaves the region that an activity dominates does so through gates outside of it. `exits` of an activity
 * says how many ways lead out to each. They are what dies when the activity is skipped, what another round of
 * it (a cycle, a pending reply) opens anew, and so what the gates' scopes count:
 *
 *   transition not taken, to Y      each exit of Y: `ways` arrivals that bring nothing
 *   ... where Y is a join           its gate: one such
 *   transition to a cycle, taken    each exit of the cycle's ancestor: `ways` more are to come
 *   a pending reply at X            each exit of X: `ways` more are to come
 */
#ifndef QP_GRAPH_GRAPH_H
#define QP_GRAPH_GRAPH_H

#include "base/json.h"
#include "mapping/mapping.h"

enum activity_type {
    ACTIVITY_TRIGGER,
    ACTIVITY_WORKER,
    ACTIVITY_AWAIT,
    ACTIVITY_HOOK,
    ACTIVITY_SIGNAL,
    ACTIVITY_CYCLE,
    ACTIVITY_INTERRUPT,
    ACTIVITY_GATE,
    ACTIVITY_TYPES
};

struct activity;
struct graph;
struct app;

/* `actual` must be strictly equal to `expected`, both resolved. */
struct match {
    const struct mapping *expected;
    const struct mapping *actual;
};

struct transition {
    const struct activity *to; /* of a join: the join itself; its gate is to->gate */
    bool always;               /* no conditions: for every code */
    bool any;                  /* gate: or */
    const int64_t *codes;      /* without always: one of these, */
    size_t code_count;
    const struct match *matches; /* and these */
    size_t match_count;
};

/* A web hook: where it waits. The key of a waiting job is what `expected` of all matches resolve to, that of a
 * signal what `actual` do, with $self.hook.data being its payload. */
struct hook_rule {
    qp_str topic;
    const struct activity *to;
    const struct match *matches;
    size_t match_count;
};

struct gate_exit {
    const struct activity *gate;
    int64_t ways;
};

struct measure {
    enum measure_kind {
        MEASURE_COUNT,
        MEASURE_INDEX,
        MEASURE_SUM,
        MEASURE_AVG,
        MEASURE_MIN,
        MEASURE_MAX,
        MEASURE_MDN
    } kind;
    qp_str name; /* the last part of its target's path: a facet's name */
    const struct mapping *target;
};

/* The policy of a worker that says nothing of retries: an error goes to the transitions, a worker that dies is replaced
 * (kernel/retry.h). */
#define POLICY_ONCE QP_STR("attempts=1,lost=5")

struct activity {
    qp_str id;
    qp_str title;
    enum activity_type type;
    const struct graph *graph;
    int line;
    int column;
    size_t index;                  /* in graph->activities */
    size_t digit;                  /* its place in the collation key; SIZE_MAX: a gate has none */
    const struct activity *parent; /* who spawns it; NULL: the trigger, and gates */
    const struct activity *dominator; /* NULL: the trigger */
    const struct activity *gate;      /* of a join: what stands in front of it */
    const struct activity *joins;     /* of a gate: the join */
    bool any;                         /* of a gate: the first to arrive is enough */
    int64_t ways;                     /* of a gate: how many lead there */
    int64_t depth;                    /* segments of its dimensional address */
    const struct gate_exit *exits;
    size_t exit_count;
    const struct transition *transitions; /* in the order of the text */
    size_t transition_count;

    /* NULL: not given. The maps are maps (mapping_is_map); of input also one reference
     * (mapping_is_reference). */
    const struct mapping *topic;
    const struct mapping *input;
    const struct mapping *output;
    const struct mapping *job;
    const struct mapping *signal;
    const struct mapping *resolver;
    const struct mapping *emit;       /* true when it resolves to true */
    const struct mapping *persist;    /* likewise */
    const struct mapping *sleep;      /* seconds */
    const struct mapping *awaits;     /* of an await: false detaches */
    const struct mapping *threshold;  /* statusThreshold */
    const struct mapping *escalation; /* of a hook */
    const struct mapping *reason;
    const struct mapping *target;
    const struct mapping *key_name;
    const struct mapping *key_value;
    const struct mapping *status; /* of a signal */
    const struct mapping *code;   /* of a signal or an interrupt */
    const struct mapping *throws; /* of an interrupt */
    const struct mapping *descend;
    bool all; /* of a signal: subtype all */
    bool scrub;
    bool pivot;                      /* cycle: true */
    const struct activity *ancestor; /* of a cycle */
    const struct hook_rule *hook;    /* of a web hook */
    qp_str policy; /* of retries and time limits, as kernel/retry.h has it; none: POLICY_ONCE */

    /* of the trigger: stats */
    const struct mapping *job_id;
    const struct mapping *job_key;
    const struct mapping *granularity; /* a text: granularity_parse */
    const struct measure *measures;
    size_t measure_count;
};

struct schema;

/* A key of the job's data, and its place among them in the order of the text. */
struct job_key {
    qp_str name;
    size_t place;
};

struct graph {
    const struct app *app;
    qp_str subscribes;
    qp_str publishes; /* none: it tells nobody */
    const struct mapping *expire;
    const struct schema *input; /* NULL: anything */
    const struct schema *output;
    struct activity *activities; /* in the order of the text, gates last */
    size_t activity_count;       /* gates included */
    size_t digit_count;          /* without them */
    const struct activity **by_digit;
    const struct activity *trigger;
    const struct job_key *job_keys; /* the first keys of all maps of `job`, by name */
    size_t job_key_count;
    bool leaves_timers; /* a job that is complete may have some left */
};

struct app {
    struct arena arena;
    qp_str id;
    qp_str version;
    qp_str source;
    struct graph *graphs;
    size_t graph_count;
    const struct graph **by_topic; /* the same, ordered by what they subscribe to */
    const struct hook_rule *hooks; /* of all graphs, ordered by topic */
    size_t hook_count;
};

/* Compiles a text. QP_OK; QP_E_INVALID: the report says everything that is wrong, and *out_app is NULL; QP_E_NOMEM.
 * The app is one block of its own memory: app_free. */
int app_compile(const struct qp_env *env, qp_str text, struct report *report,
                struct app **out_app) QP_MUST_USE;
void app_free(struct app *app);

/* NULL: there is none. The id of a gate is "join:" and that of its join. */
const struct graph *app_graph(const struct app *app, qp_str topic);
const struct activity *graph_activity(const struct graph *g, qp_str id);

/* How long a segment of statistics is: a span, or infinity; none: 5 minutes. False: it is none of them. */
#define GRANULARITY_INFINITY INT64_MAX
bool granularity_parse(qp_str text, qp_ms *out_ms);

/* The place of a key of the job's data; job_key_count: it is none. */
size_t graph_job_key(const struct graph *g, qp_str name);

/* The rule by which signals of a topic find whom they are for; all rules of a topic are alike in this. */
const struct hook_rule *app_hook(const struct app *app, qp_str topic);

/* Whether JSON is as the schema says: QP_OK, or QP_E_SHAPE with its pointer, in the sentence, too. JSON_UNCHECKED: codes of
 * json_check. */
int schema_check(const struct schema *schema, qp_str json, enum json_trust trust,
                 struct qp_err *err) QP_MUST_USE;

#endif

/* action.h - one step of a graph's activity: where it is, what it can read, what it may do
 *
 * A step stands on a turn of the kernel (kernel/program.h) and knows which activity of which graph the turn is about. The
 * types (type_*.c) say what an activity does in each of its steps; what they share is here:
 *
 *   state.c     references: what an activity can see of others, by its own path
 *   advance.c   step 2: the job's data, transitions, joins, the end by an error
 *   escalation.c  the person that a hook waits for
 *   setting.c   keys of the activity that are computed: sleep, await, code, ...
 *   program.c   the kernel's program: finds the activity, and calls its type
 *
 * WHERE THINGS STAND. Input and output of an activity stand on its own rows (act.input, the GUID's output), and
 * nowhere else. The job's data are rows of their own, sixty-four keys to a row, so that thousands of branches do not
 * write the same one; when the job is complete they become its output. What a reference sees is found by the
 * address: of an ancestor in the plane that the reader descends from, of a branch that came together with the
 * reader's in a join the latest.
 *
 * WHAT IS DONE WHEN. Step 1 stores what an activity brought. Two answers may race for one activity (a signal and a
 * timer) and both do step 1; only one does step 2. So everything that others can see, the job's data, events,
 * children, happens there.
 *
 * WHAT CANNOT BE COMPUTED. A mapping past its limits would fail again however often it is tried. So it is no error of
 * the turn but one of the activity, with code 422, and its transitions choose by that code as by any other:
 *
 *   its input, topic, sleep    it is born BROKEN, with the error as its input; step 1 makes that its answer
 *   its output                 step 1 keeps the error in place of the output
 *   the job's data, what       step 2 writes the error over what step 1 has kept, in its own commit, and takes the
 *   transitions compare        transitions of 422; the job's data stay as they were
 *
 * An error that no transition takes ends the job as failed.
 */
#ifndef QP_GRAPH_ACTION_H
#define QP_GRAPH_ACTION_H

#include "graph/library.h"
#include "kernel/program.h"

/* act_row.kind */
enum act_kind {
    ACT_USUAL,
    ACT_SKIPPED, /* its statusThreshold forbids it: it does nothing, and nothing follows */
    ACT_BROKEN,  /* its input is an error, which is its answer */
    ACT_KEPT /* it has run in the job that this one was made from, and is answered as there (fork.h) */
};

struct action {
    struct turn *turn;
    struct library *library;
    const struct graph *graph;
    const struct activity *activity;
    struct scope scope;
    qp_str
        self_output; /* what $self.output.data and $self.hook.data are while step 1 makes them; none: as */
    bool has_self;    /* the rows say */
    size_t too_large; /* after QP_E_TOO_LARGE: the limit, if it is known */
    const char *why;  /* after QP_E_INVALID: the sentence, if there is one (setting.c) */
};

/* The turn's activity. QP_E_UNSUPPORTED: the version of its job cannot be had, or has no such activity. */
int action_init(struct action *s, struct turn *t) QP_MUST_USE;
struct arena *action_arena(struct action *s);
void action_reader(struct turn *t, struct row_reader *out_reader);

/* -------------------------------------------------------------------------------- state.c: reading */

/* A mapping's value; NULL is undefined. */
int action_value(struct action *s, const struct mapping *m, struct value *out_value) QP_MUST_USE;
/* As JSON; none: undefined. QP_E_LIMIT, QP_E_TOO_LARGE: it cannot be computed, or is too large to be kept. */
int action_json(struct action *s, const struct mapping *m, qp_str *out_json) QP_MUST_USE;
/* As text, for keys and ids; none: undefined, or no text. */
int action_text(struct action *s, const struct mapping *m, qp_str *out_text) QP_MUST_USE;
/* As a topic. QP_E_INVALID: it is none that users may name. */
int action_topic(struct action *s, const struct mapping *m, qp_str *out_topic) QP_MUST_USE;
/* As a condition: true, or what is not given. */
int action_truth(struct action *s, const struct mapping *m, bool otherwise,
                 bool *out_truth) QP_MUST_USE;
/* As a number; NAN: it is none. */
int action_number(struct action *s, const struct mapping *m, double *out_number) QP_MUST_USE;
/* Whether these hold. */
int action_matches(struct action *s, const struct match *matches, size_t count, bool any,
                   bool *out_hold) QP_MUST_USE;
/* True for an error that stands for the text of the graph, not for this try: the activity is broken. */
bool is_broken(int rc);
/* An error of this activity (store/error.h). */
int action_error(struct action *s, int64_t code, const char *why, qp_str *out_json) QP_MUST_USE;
/* The error that this activity's answer is, which has a code of 400 or more. */
int action_failure(struct action *s, qp_str *out_error) QP_MUST_USE;

/* The key that a hook waits at: what `expected` of its matches are, or what `actual` are. Of one match its text, of
 * several a JSON array; none: one of them is undefined. */
int hook_key(struct action *s, const struct hook_rule *rule, bool expected,
             qp_str *out_key) QP_MUST_USE;
/* The key that a signal of this payload is for, by the rule of its topic's hooks; none: the payload has not what they are
 * matched by. */
int signal_key(struct arena *a, const struct qp_env *env, qp_ms now, const struct hook_rule *rule,
               qp_str payload, qp_str *out_key) QP_MUST_USE;
/* The job's data stand on shelves, rows of the job that are JSON objects: "d:0" has the first JOB_SHELF_KEYS keys that the
 * graph's text names, and so on. Which keys there can be is known (graph.job_keys). */
#define JOB_SHELF_KEYS 64
#define JOB_SIZE QP_STR("d:size") /* of all of them, where there are several */
/* A shelf's name in the turn's memory, and its row; NULL: it is empty. */
int job_shelf(struct turn *t, size_t shelf, qp_str *out_name,
              const struct data_row **out_row) QP_MUST_USE;
/* All of the job's data, as one JSON object; none: it has none. */
int job_data(struct arena *a, const struct row_reader *reader, const struct graph *g,
             const struct job_row *job, qp_str *out_json) QP_MUST_USE;
/* The same in a turn. */
int action_job_data(struct turn *t, const struct graph *g, qp_str *out_json) QP_MUST_USE;

/* ------------------------------------------------------------------------ setting.c: computed keys */

/* QP_E_INVALID: what was computed is of another type than the key has; s->why says it. */
int setting_bool(struct action *s, const struct mapping *m, const char *name, bool otherwise,
                 bool *out_truth) QP_MUST_USE;
int setting_code(struct action *s, int64_t otherwise, int64_t *out_code) QP_MUST_USE;
/* 0: it does not sleep. */
int setting_sleep(struct action *s, qp_ms *out_ms) QP_MUST_USE;
/* -1: there is none. */
int setting_threshold(struct action *s, int64_t *out_threshold) QP_MUST_USE;
/* The id of the job to interrupt; none: the own one. */
int setting_target(struct action *s, qp_str *out_jid) QP_MUST_USE;
/* Only whether it can be used: statistics compute it again. */
int setting_granularity(struct action *s) QP_MUST_USE;

/* ------------------------------------------------- escalation.c: the person that a hook waits for */

/* The name of the job's data where that of the hook at this address stands. */
int escalation_name(struct arena *a, qp_str addr, qp_str *out_name) QP_MUST_USE;
/* With the registration. QP_E_INVALID: it is no object, or has too long a text. */
int escalation_put(struct action *s) QP_MUST_USE;
/* The wait is over: the job is not found by it any more. */
int escalation_end(struct action *s) QP_MUST_USE;

/* ------------------------------------------------------------------------------ advance.c: step 2 */

/* Transitions by the GUID's code, the job's data, emit and persist; an error that no transition takes ends the job. */
int advance(struct action *s, struct spawn *spawn) QP_MUST_USE;
/* The same when the step itself was at fault: the GUID says so, and nothing but its transitions is left to do. */
int advance_broken(struct action *s) QP_MUST_USE;
/* Nothing is taken: the ways that would have led from here to joins end, those of the round that a cycle would have
 * begun, too. */
int advance_nowhere(struct action *s) QP_MUST_USE;
/* The child that a gate opens for. */
int advance_gate(struct action *s, bool live) QP_MUST_USE;

/* A map's object on top of another one, as JSON. */
int action_merge(struct action *s, const struct mapping *m, qp_str base,
                 qp_str *out_json) QP_MUST_USE;

/* Step 1 of what has an output map: what was brought, with the maps of `output` on top. */
int action_output(struct action *s, qp_str brought, qp_str *out_output) QP_MUST_USE;

/* ------------------------------------------------------------------------------------------ types */

/* What a type does in each step; the contract is that of struct program. NULL: nothing, or what is usual. */
struct type {
    const char *word; /* in graphs, and for people */
    int (*describe)(struct action *s, struct op_act_create *row);
    int (*enter)(struct action *s);
    int (*yields)(struct action *s, bool *out_yields);
    int (*work)(struct action *s, struct work *work);
    int (*spawn)(struct action *s, struct spawn *spawn);
};
extern const struct type type_trigger;
extern const struct type type_worker;
extern const struct type type_await;
extern const struct type type_hook;
extern const struct type type_signal;
extern const struct type type_cycle;
extern const struct type type_interrupt;
extern const struct type type_gate;

#endif

/* decision.h - what a worker has decided about a flow: read, checked, and as the rows that it makes
 *
 *   {"base":41,"commands":[{"op":"activity","loc":"{2}","v":1,"name":"charge","input":{..}}, ..],"after":2,"keep":true}
 *
 * The text is JSON that was checked to be JSON. decision_read takes it apart and refuses what is wrong by itself;
 * decision_check asks about the places that the history has. What is refused has a pointer into the text
 * ("/commands/3/loc"), and nothing of it is applied: a decision is carried out whole or not at all.
 *
 *   op        members                                                          makes
 *   activity  name, input, retry?, start_timeout?, timeout?, heartbeat?, limit_key?,     an activity
 *             shield?
 *   run       name, ok | error                                                 a run, complete
 *   sleep     until                                                            a sleep
 *   listen    names, limit?                                                    signals
 *             names, until, got, limit?                                        a sleep; signals at `got` if some come
 *   signal    to, name, data                                                   a signal, complete
 *   child     workflow, input, id?, detached?, close?                          a child
 *   branch    name?                                                            a branch, complete
 *   loop      name, iteration, state, output?, properties?                     a loop, complete; again: its new state
 *   mark      mark: "removed", of, name? | "version", value?                   a mark, complete
 *   set       properties                                                       what people see of the job from now on
 *   return    output                                                           the end; nothing behind it
 *   fail      error                                                            likewise
 *
 * `shield`: true marks a compensation, which a cancel leaves alone. Beside the commands: "thrown":"{3}", where the code has
 * met the cancel of its flow, and "defers":["refund"], the compensations that would run now (cancel.h).
 *
 * `close` is "cancel", "kill" or "abandon": what becomes of the child when the flow ends; without it cancel, of a detached one
 * abandon.
 *
 * `properties` of `set` are all that the flow has (kernel/properties.h); those of a loop are what its rounds have set, which a
 * replay that does not enter the loop again goes by.
 *
 * All but set, return and fail have `loc`, the location in its text form, and `v`, the version. Times are milliseconds, and
 * `until` is a time since 1970. `retry` is {attempts?, backoff?, factor?, cap?, never?:[codes]}.
 *
 * Texts are slices of the decision's text or in the arena. Pure but for the arena; any thread.
 */
#ifndef QP_FLOW_DECISION_H
#define QP_FLOW_DECISION_H

#include "base/json.h"
#include "flow/history.h"

enum flow_op {
    FLOW_OP_ACTIVITY,
    FLOW_OP_RUN,
    FLOW_OP_SLEEP,
    FLOW_OP_LISTEN,
    FLOW_OP_SIGNAL,
    FLOW_OP_CHILD,
    FLOW_OP_BRANCH,
    FLOW_OP_LOOP,
    FLOW_OP_MARK,
    FLOW_OP_SET,
    FLOW_OP_RETURN,
    FLOW_OP_FAIL,
    FLOW_OPS
};

/* One command, as the row of its event. */
struct flow_command {
    enum flow_op op;
    qp_str addr; /* of its activity (location.h) */
    int64_t version;
    enum history_type type;
    qp_str name; /* none: it has none */
    qp_str
        policy; /* activity: retries and limits; removed: the word of what was removed; else none */
    qp_str input;
    qp_str got;   /* listen with a time limit: the address of the signals event; else none */
    qp_str child; /* the id that the child is to have; none: one is made, or it is no child */
    qp_str state; /* loop: what its data row says */
    bool again;   /* loop: its event is there already (decision_check) */
};

enum decision_end { DECISION_GOES_ON, DECISION_RETURNS, DECISION_FAILS };

struct decision {
    int64_t base;
    int64_t after; /* from 1 */
    bool keep;     /* the code goes on by itself: the next decision is put at once */
    qp_str
        thrown; /* where the code has met the cancel of its flow, a location as text; none: it has not, or did before */
    qp_str
        defers; /* names of the compensations that would run now, a JSON array; none: as before */
    qp_str properties; /* all that it has, a JSON object; none: as before */
    struct flow_command *commands;
    size_t count; /* without set, return and fail */
    enum decision_end end;
    qp_str value; /* of return its output, of fail its error: JSON */
};

/* The word of a refusal, for programs: its text begins with "word: "; NULL: it has none. */
const char *decision_word(const char *text);

/* A refusal of a command, or of one of its members (""): QP_E_SHAPE with the pointer. */
int command_refused(struct qp_err *err, size_t index, const char *member, const char *text);

/* What stands at an address. */
struct place {
    bool found;
    enum history_type type;
    int64_t version;
    qp_str name;
};
typedef int (*place_look)(void *context, qp_str addr, struct place *out_place);
/* Whether a child of this event cannot have this id: another job has it. */
typedef int (*child_look)(void *context, qp_str addr, qp_str id, bool *out_taken);

struct decision_facts {
    int64_t base;    /* the newest that the flow has */
    int64_t open;    /* works that are open */
    bool returned;   /* the flow has returned: nothing more is decided */
    int64_t events;  /* of the history; 0: fewer than would matter */
    void *context;   /* of `look` */
    place_look look; /* finds what was committed before */
    child_look taken;
};
/* QP_E_SHAPE: refused, with a pointer; the codes of `look`; QP_E_NOMEM. Marks loops that are there already. */
int decision_check(const struct qp_env *env, struct arena *arena, struct decision *decision,
                   const struct decision_facts *facts, struct qp_err *err) QP_MUST_USE;

/* What step 1 keeps of a decision for step 2, without inputs: {"seen":41,"after":2,"end":"return","made":["@a1!",..]}.
 * `made` are the events to be entered. */
int decision_keep(const struct qp_env *env, struct arena *arena, const struct decision *decision,
                  qp_str *out_text) QP_MUST_USE;
struct decision_kept {
    int64_t seen;
    bool keep;
    int64_t after;
    enum decision_end end;
    qp_str error;         /* of one that fails */
    struct raw_walk made; /* over the JSON texts of addresses, which have no escapes */
};
struct decision_kept decision_kept(qp_str text);

#endif

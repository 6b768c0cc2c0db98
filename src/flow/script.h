/* script.h - a flow's function, run once over its history: what it does next
 *
 *   flow_log --script_run--> the function makes durable calls --> struct script_result
 *
 * Every durable call of quipu.h is a step of a cursor (cursor.h). A step that the history has gives back what is recorded; one
 * that it has not becomes a command, and a call that has to wait unwinds the function. Nothing is written here: the commands
 * are the JSON of a decision ({"base":41,"commands":[..],"after":2}), which is committed as a whole or not at all, so a
 * crash at any point leaves the history as it was, and the function runs again.
 *
 *   WAITS      the function is suspended: `decision` has what it began; it runs again after an answer
 *   RETURNED   `decision` ends with a return           FAILED   `decision` ends with a fail
 *   ERROR      no decision: the code of the flow is wrong, or it returned a code that no durable call returned; `code` and
 *              `text` say what. `fatal`: the same would happen again
 *   STOPPED    no decision: the job is parked for `reason`, a word of cursor_code, decision_too_large or history_too_large; `text` has the
 *              location and both sides
 *
 *   I1  the result follows from the log and the function alone, but for the ends of sleeps, which begin at `now`
 *   I2  commands are in the order of the code: a branch comes before what is below it; no location comes twice
 *   I3  what is derived (time, random numbers, the order of `any`) depends on answers that were consumed, never on events that
 *       are born complete: their place is not known before they are committed
 *
 * A loop that has ended is not entered again. So what it contributes to the time and the order behind it is the last answer
 * below it that the decision which ended it could see (log_entry.seen), also when the loop did not wait for that answer.
 *
 * The function runs on the thread of the caller. No clock is read and no thread started.
 */
#ifndef QP_FLOW_SCRIPT_H
#define QP_FLOW_SCRIPT_H

#include "flow/log.h"

enum script_kind { SCRIPT_WAITS, SCRIPT_RETURNED, SCRIPT_FAILED, SCRIPT_ERROR, SCRIPT_STOPPED };

struct script_input {
    const struct qp_env *env;
    struct arena *arena; /* of what the function is given and of the result */
    const struct flow_log *log;
    qp_ms now;
    qp_flow_function function;
    void *context;
};

struct script_result {
    enum script_kind kind;
    qp_str decision; /* JSON; in the arena */
    size_t made;     /* events that it adds to the history */
    int code;        /* ERROR: of QP_ERROR_TABLE, or what the function returned */
    bool fatal;
    const char *reason; /* STOPPED */
    qp_str text;        /* ERROR, STOPPED: for people */
};

/* QP_OK: *out_result says what came of it, a mistake of the function included. QP_E_NOMEM. */
int script_run(const struct script_input *input, struct script_result *out_result) QP_MUST_USE;

#endif

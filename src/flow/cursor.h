/* cursor.h - what the next durable call of a flow's code means, given the flow's history
 *
 * A flow's code runs again from the top over what it has done before. Every durable call is a STEP:
 * a type, a name, a version. A cursor walks the events of one branch of the history beside the
 * code of that branch and gives a VERDICT per step:
 *
 *   REPLAY    the event at `event` is this step: take its result, write nothing
 *   NEW       the history ends here: write the step at `at`, behind everything in the branch
 *   INSERT    the code is newer than the event that stands here: write the step at `at`, before it
 *   SKIP      (removed) the event is the step that the code no longer has: write nothing
 *   IGNORE    (removed) another event stands here: nothing happens, the cursor stays
 *   LOOK      (check) another event stands here, and its version is the answer: the cursor stays
 *   DIVERGED  history and code contradict each other: `event` and the code's side are both there
 *   LATENT    (end) the code of the branch has ended before its history: `event` is the first left
 *   REFUSED   an insertion that the next replay would misread (below): nothing may be written
 *   BAD       the location would be beyond the limits of location.h
 *
 * The last four park the job, with cursor_code as the reason and cursor_explain as the message. A
 * cursor does not move by them and may be asked again; nothing of the history changes ever. What the
 * code wrote in this run is not looked up again: a cursor only moves on.
 *
 * Versions. A step has the version of its branch + n - 1, with n as in v(n), 1 by default. Against
 * the event under the cursor: none, NEW; the step is higher, INSERT; lower, DIVERGED; equal, REPLAY if
 * type and name agree, else DIVERGED. A branch that is entered has the version of its event.
 *
 * State of a cursor: `last`, the location of the last event that the code has passed (at first the
 * virtual coordinate 0), and `here`, the event that comes next in the history.
 *
 *            REPLAY, SKIP: last = here, here = the next of the branch
 *            INSERT: last = what was inserted, here stays
 *     +----------------------------------+        here runs out      +---------------------------+
 *     | WITHIN   last < here             | ------------------------> | BEYOND   here == end      |
 *     +----------------------------------+                           +---------------------------+
 *            end: LATENT                                              NEW: last = first ordinate + 1
 *                                                                     end: fine
 *
 *   I1  last < location of here, and no event of the branch lies between the two
 *   I2  a location that is given out (NEW, INSERT) is free, is behind `last` and before `here`
 *   I3  `looked`: the event under the cursor has answered a version check. A step inserted now would
 *       stand between the two, and the check of the next replay would read the version of that step
 *       instead: the insertion is REFUSED. Passing the event ends it.
 *
 * The caller has checked what comes from users: n and latest lie between 1 and LIMIT_STEP_VERSION,
 * names are names.
 *
 * A call costs O(1), amortised over the branch; entering a branch that is new, and an iteration of a
 * loop, a binary search. No memory is allocated; slices of steps are borrowed for the call, those of
 * `found` until the step's or the history's end.
 *
 * Known hazard, as ruled: removed goes by type, name and version alone. Of two namesakes of one
 * version that follow each other in the code, removing the first lets removed take the second for
 * it; in a flow that was past neither, a replay then inserts the second once more (ADR 45). Such
 * steps need different names or versions.
 *
 * The same code serves the runtime, the simulator and build/test/tools/cursor. One thread at a time
 * per cursor; cursors of one history do not know of each other, so closures may run in any order.
 *
 * A join has no event. Its members are steps of the branch around it, one behind the other, and
 * commit together.
 */
#ifndef QP_FLOW_CURSOR_H
#define QP_FLOW_CURSOR_H

#include "flow/history.h"

enum cursor_verdict {
    CURSOR_REPLAY,
    CURSOR_NEW,
    CURSOR_INSERT,
    CURSOR_SKIP,
    CURSOR_IGNORE,
    CURSOR_LOOK,
    CURSOR_END, /* of the branch, as it should be */
    CURSOR_DIVERGED,
    CURSOR_LATENT,
    CURSOR_REFUSED,
    CURSOR_BAD
};

struct cursor {
    const struct history *history;
    int64_t version; /* of the branch */
    struct location last;
    size_t here;
    size_t end; /* the first event behind the branch */
    bool looked;
};

struct cursor_step {
    enum history_type type;
    qp_str name;
    bool any_name; /* the name is not compared: signals that came, a listen's sleep */
    int64_t n;     /* as in v(n), from 1, relative to the branch */
};

struct cursor_question {
    int64_t n;      /* as in v(n), around the check: its answer is relative to that, too */
    int64_t latest; /* what a flow gets that has no history here, from 1 */
};

struct cursor_found {
    enum cursor_verdict verdict;
    struct location at; /* of the event; REFUSED: where it would have stood; BAD: none */
    const struct history_event *event; /* in the history; NULL: none */
    /* the code's side; NEW and INSERT: what is to be written */
    enum history_type type;
    enum history_type of; /* of a removed step; else 0 */
    qp_str name;
    int64_t version;
    int64_t value; /* check: what it returns to the code, relative to the branch */
};

/* Whether the flow goes on. The reason that its job is parked for, else, and the label of a metric. */
static inline bool cursor_is_stopped(enum cursor_verdict verdict)
{
    return verdict >= CURSOR_DIVERGED;
}
const char *cursor_code(enum cursor_verdict verdict);

/* At the beginning of the flow; and of the branch, closure, loop or iteration that `found` of a step
 * in `parent` is (REPLAY, NEW or INSERT). */
void cursor_begin(struct cursor *c, const struct history *history);
void cursor_enter(struct cursor *c, const struct cursor *parent, const struct cursor_found *found);

/* All return out_found->verdict. */

/* A durable step: REPLAY, NEW, INSERT, or stopped. */
enum cursor_verdict cursor_compare(struct cursor *c, const struct cursor_step *step,
                                   struct cursor_found *out_found);

/* removed(type, name): SKIP, with everything below the event; NEW: a removed event; IGNORE; BAD. */
enum cursor_verdict cursor_remove(struct cursor *c, const struct cursor_step *step,
                                  struct cursor_found *out_found);

/* check_version(latest): REPLAY when the check's own event stands here, NEW, LOOK; DIVERGED when the
 * event is older than the code around the check; BAD. out_found->value is the answer. */
enum cursor_verdict cursor_check(struct cursor *c, const struct cursor_question *question,
                                 struct cursor_found *out_found);

/* Iteration i (from 0) of the loop that `c` has entered: the branch with the coordinate i + 1, not
 * the next one. Iterations come in ascending order, from any on. REPLAY, NEW, or stopped. */
enum cursor_verdict cursor_iterate(struct cursor *c, int64_t iteration,
                                   struct cursor_found *out_found);

/* The event that stands here is left behind, as if the code had met it. There must be one. */
void cursor_pass_over(struct cursor *c);

/* The code of the flow, the branch, the closure or the iteration has ended: END or LATENT. */
enum cursor_verdict cursor_end(const struct cursor *c, struct cursor_found *out_found);
/* The loop that `c` has entered breaks after `iteration` iterations in all: END, or LATENT with the
 * first one that the history has beyond them. A loop whose event has an output is not entered. */
enum cursor_verdict cursor_end_loop(const struct cursor *c, int64_t iteration,
                                    struct cursor_found *out_found);

/* The event of the branch behind this one, NULL: none. From a LATENT event on: all that are left. */
const struct history_event *cursor_following(const struct cursor *c,
                                             const struct history_event *event);

/* The history is ahead of the code: it may be that this worker is older than the one before. */
bool cursor_is_behind(const struct cursor_found *found);
/* A step or an event in words: "activity 'pay' v1". `of` is that of a removed one. */
void cursor_explain_side(struct buf *out, enum history_type type, enum history_type of, qp_str name,
                         int64_t version);

/* One sentence for people: where, what the history has, what the code has, what to do. `found` is
 * stopped, and `c` has not moved since. */
void cursor_explain(const struct cursor *c, const struct cursor_found *found, struct buf *out);

#endif

/* script_frame.h - one run of a flow's function: its frames, who may call, and how a run ends early (see script.h)
 *
 * A FRAME is a call of a function: the flow's own, of a closure, of inline code. Frames nest as the calls do; only the innermost
 * one takes durable calls. A SCOPE is a branch of the history with its cursor; a frame has its own and, on top of it, one for
 * every loop round that it is in.
 *
 *                 a call must wait                       the function returns
 *   RUNNING ------------------------> SUSPENDED ------------------------------> ended, open
 *      |                                                     function returns
 *      +-- qp_return --> RETURNED ------------------------------------------------> ended, with an output
 *
 * script.rc is not QP_OK when the whole run is over: a mistake, a history that contradicts the code, no memory.
 */
#ifndef QP_FLOW_SCRIPT_FRAME_H
#define QP_FLOW_SCRIPT_FRAME_H

#include <pthread.h>
#include <stdatomic.h>

#include "flow/cursor.h"
#include "flow/script.h"

struct frame;
struct script;

/* What users have: a view of a frame with a version. */
struct qp_flow {
    struct script *script;
    struct frame *frame;
    int64_t n; /* as in qp_v, relative to the branch */
};

struct round;

/* A compensation that runs if its scope fails or is cancelled. */
struct deferred {
    struct deferred *next; /* the one before */
    qp_str name;
    qp_str input;
    int64_t n;
    bool done;
};

struct scope {
    struct scope *outer;
    struct deferred *defers; /* the last first */
    bool unwinds;            /* the cancel was thrown here (script_cancel.h) */
    struct cursor cursor;
    struct round *round; /* whose iteration it is; NULL: the frame's own branch */
    struct location counted_at;
    int64_t counter; /* of derived values behind counted_at */
};

/* Properties by their names (script_values.h). */
struct value {
    struct value *next;
    qp_str name;
    qp_str json;
    int64_t fed; /* of frame.fed where it was set; 0 where only the order of the code counts */
};
struct values {
    struct value *first;
    size_t count;
    size_t size; /* bytes */
};

/* A loop that is running. */
struct round {
    struct cursor cursor;    /* of its iterations */
    struct command *command; /* what this run says of it; NULL: nothing yet */
    struct cursor_found found;
    qp_str name;
    int64_t iteration;
    int64_t recorded; /* the iteration that the history has of it */
    bool broken;
    qp_str output;
    int64_t fed; /* when the last answer below it came, see script.h, I3 */
    qp_ms now;
    struct values values; /* what was set in its rounds */
};

enum frame_kind { FRAME_FLOW, FRAME_CLOSURE, FRAME_INLINE };

struct frame {
    enum frame_kind kind;
    struct frame *outer;
    qp_str name;
    struct qp_flow flow; /* with n = 1 */
    struct scope own;
    struct scope *top;
    bool suspended;
    bool returned;
    bool ended;
    qp_str output;              /* of qp_return */
    struct qp_flow_error error; /* of the last failure; code 0: none */
    int64_t fed;     /* the place of the last answer that was consumed, in the order of answers */
    qp_ms now;       /* its time */
    int64_t counter; /* of derived values, of inline code */
    struct values values; /* that it has set, or closures that it has awaited */
    bool awaited;         /* the closure was, and its values are those of the frame that did */
};

/* Something that a call has begun, and what came of it. */
struct work {
    qp_str name;
    struct location at;
    bool open;
    bool is_closure; /* one answer may not be enough for it */
    bool is_born;    /* it was complete when it was begun */
    bool shielded;   /* a cancel leaves it alone */
    bool failed;
    bool cancelled; /* by the cancel of the flow; a closure: it has ended with that */
    int64_t done;   /* its place in the order of answers */
    qp_ms when;
    qp_str output;         /* failed: the error, JSON */
    qp_str signal_name;    /* of a listen for one signal */
    struct frame *closure; /* its frame; NULL: it is none */
};

struct command {
    struct command *next;
    qp_str text; /* JSON; none: a loop, which is written in the end */
    const struct round *round;
    qp_str state;
    int64_t iteration;
};

struct script {
    const struct qp_env *env;
    struct arena *arena;
    const struct flow_log *log;
    qp_ms start; /* when this run began: script_input.now */
    pthread_t thread;
    _Atomic(const char *) stray; /* a call that came from another thread */
    struct frame *frame;         /* the innermost */
    int rc;
    struct script_result result; /* of a run that is over */
    struct command *first;
    struct command **last;
    int64_t command_count;
    size_t
        later; /* events that its listens may make besides: the signals of those with a time limit */
    int64_t after;          /* answers before anything can go on; 0: nothing waits */
    bool thrown;            /* this run has met the cancel of the flow */
    struct location landed; /* there, for the first time; depth 0: no */
    /* Begins a compensation, or finds it in the history; set by script_run. */
    int (*compensate)(qp_flow *f, qp_str name, qp_str input, struct work *out_work);
    struct values values;   /* what people see, of all frames */
    bool defers;            /* it has compensations, or had */
    struct buf defer_names; /* of those that would run now, a JSON array without its end */
    struct buf text;        /* of the command that is written */
    struct json_writer writer;
    struct work **works; /* handles, from 1 */
    size_t work_count;
    size_t work_room;
};

/* The run is over: the code of the flow is wrong, and would be again. Returns code. */
int script_mistake(struct script *s, int code, const char *format, ...) QP_PRINTF(3, 4);
/* Likewise for a failure that may pass. */
int script_error(struct script *s, int code, const char *format, ...) QP_PRINTF(3, 4);
int script_no_memory(struct script *s);
/* The history contradicts the code. */
int script_stop(struct script *s, const struct cursor *c, const struct cursor_found *found);

/* Whether this call may be made now: QP_OK, QP_E_SUSPENDED, or the run is over. `call` is its name. */
int script_enter(qp_flow *flow, const char *call) QP_MUST_USE;
/* Likewise for calls that are no steps: inline code may make them. */
int script_enter_any(qp_flow *flow, const char *call) QP_MUST_USE;

static inline struct scope *scope_of(const qp_flow *flow)
{
    return flow->frame->top;
}

/* A frame inside the innermost one: begin, call the function, end. frame_end checks that the history of its branches ends
 * with them; *out_work is what came of it. */
void frame_begin(struct frame *f, struct script *s, enum frame_kind kind, qp_str name);
int frame_end(struct frame *f, int rc, struct work *out_work) QP_MUST_USE;
int frame_suspend(struct frame *f, int64_t answers);
/* An answer was consumed. */
void frame_feed(struct frame *f, const struct work *work);
/* The work has failed: QP_E_FAILED, or QP_E_CANCELLED. */
int frame_fail(struct frame *f, const struct work *work) QP_MUST_USE;

/* The code of the round's scope has ended, and of the loop. */
int scope_end(struct script *s, struct scope *scope) QP_MUST_USE;

#endif

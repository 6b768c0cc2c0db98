/* message.h - the kinds of messages that the kernel puts into streams
 *
 * A message's row says which activity of which job it is for, and what it asks for there: its kind. Kinds stand in rows
 * of every store, so they keep their numbers.
 */
#ifndef QP_KERNEL_MESSAGE_H
#define QP_KERNEL_MESSAGE_H

#include "store/rows.h"

/* What a message asks for: msg_row.kind. Those that the store makes itself (a signal, a scope's
 * edge, a key that came free) are ANSWER. */
enum message_kind {
    MESSAGE_ANSWER, /* Leg2 of an activity: a response, a timer, a signal, a key, an edge */
    MESSAGE_ENTER,  /* Leg1 of an activity */
    MESSAGE_CYCLE,  /* Leg2 of an ancestor, which brings its obligation along */
    MESSAGE_TASK,   /* for a worker; its stream is the worker's topic */
    MESSAGE_END,    /* the job ends now: payload is the reason, code an end_code */
    MESSAGE_FANOUT, /* a signal to all that wait, one page at a time */
    MESSAGE_SWEEP,  /* what a closed job still waits for goes, one page at a time */
    /* Put by an application, in a transaction of its own (outside.h). */
    MESSAGE_START,   /* a job that has its row and its id, and nothing else yet; its input */
    MESSAGE_SIGNAL,  /* a signal to (topic, key) */
    MESSAGE_RESULT,  /* the response to a task: as ANSWER */
    MESSAGE_DESCEND, /* the jobs that an ended one has called end, one page at a time */
    MESSAGE_COLLECT, /* the text of a deleted version goes when no open job needs it, one page at a time */
    MESSAGE_NOTICE, /* news for an activity that waits for its answer: code is an enum notice */
    MESSAGE_KINDS
};

/* What a notice says: msg_row.code. */
enum notice {
    NOTICE_STARTED, /* a task of the activity was claimed for the first time in this attempt; payload: the attempt */
    NOTICE_LATE, /* that attempt has not ended within the time that the program said; payload: the attempt */
    NOTICE_KINDS /* from here on the program's own */
};

/* What an END message says: the state, and whether the jobs that this one has called end with it. A DESCEND message has the
 * state in which all called jobs end, or END_BY_POLICY: each ends, or goes on, as its close policy says. */
#define END_DESCENDS 16
#define END_BY_POLICY 64
/* The job is asked to end, as by request_end, and its kind may end it in its own way. */
#define END_ASKS 32
static_assert(JOB_STATES <= END_DESCENDS, "a state and the marks are told apart");
static inline int64_t end_code(enum job_state state, bool descend)
{
    return (int64_t)state + (descend ? END_DESCENDS : 0);
}
/* Of a job whose caller ends; ABANDON: none. */
static inline int64_t close_code(enum close_policy close)
{
    switch (close) {
    case CLOSE_CANCEL:
        return end_code(JOB_CANCELLED, false) | END_ASKS;
    case CLOSE_KILL:
        return end_code(JOB_INTERRUPTED, false);
    default:
        return 0;
    }
}
/* They stand as numbers in the functions of the schema (store/postgres/functions.c). */
static_assert(MESSAGE_TASK == 3 && MESSAGE_START == 7 && MESSAGE_SIGNAL == 8 && MESSAGE_RESULT == 9,
              "kinds keep their numbers");

#endif

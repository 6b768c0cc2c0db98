/* history.h - the events of a flow that were committed, in the order of their locations
 *
 * A history is an array that the caller fills and owns, one entry per row of the scan that
 * location.h describes, in that order. history_init checks it and links it: every event knows where
 * the events below it end, so that a walk along one branch steps over what lies deeper. The rest of
 * a row (input, output, ledger, times) stays with the caller: an event's place in the array is its
 * number there.
 *
 * Holes are allowed: an event may stand below a location that has no event (document 004 knows
 * them after crashes; our own commits leave none, fsck H7).
 *
 * Threads: read-only after history_init.
 */
#ifndef QP_FLOW_HISTORY_H
#define QP_FLOW_HISTORY_H

#include "flow/location.h"

/* What an event is: act_row.kind of its activity. The numbers stand in stores and never change; 0
 * is no event. */
enum history_type {
    HISTORY_ACTIVITY = 1,
    HISTORY_RUN = 2,     /* code that ran inline, with its result */
    HISTORY_SLEEP = 3,   /* also the time limit of a listen */
    HISTORY_SIGNALS = 4, /* received */
    HISTORY_SIGNAL = 5,  /* sent */
    HISTORY_MESSAGE = 6, /* sent; nothing of ours writes one */
    HISTORY_CHILD = 7,   /* a job that the flow started */
    HISTORY_LOOP = 8,
    HISTORY_BRANCH = 9,   /* also a closure, and one iteration of a loop */
    HISTORY_REMOVED = 10, /* a step that the code no longer has, in a flow that never ran it */
    HISTORY_VERSION = 11, /* a version check */
    HISTORY_TYPES
};
/* The word that people read and programs write: "activity". */
const char *history_word(enum history_type type);
/* False: no type has this word. */
bool history_type_of(qp_str word, enum history_type *out_type) QP_MUST_USE;

struct history_event {
    qp_str key; /* location_key */
    qp_str name;
    int64_t version; /* from 1; not below that of the branch */
    enum history_type type;
    enum history_type of; /* of a removed event: what the step was; else 0 */
    /* history_init */
    uint32_t depth; /* coordinates of its location */
    size_t behind;  /* the first event behind all that lie below this one */
};

struct history {
    const struct history_event *events;
    size_t count;
};

/* Checks and links. QP_E_INVALID: an event has no good key, type or version, or is not behind the
 * one before it. */
int history_init(struct history *h, struct history_event *events, size_t count,
                 struct qp_err *err) QP_MUST_USE;

/* The first event whose key is not before this one; count: there is none. */
size_t history_seek(const struct history *h, qp_str key);

struct location history_location(const struct history_event *event);

#endif

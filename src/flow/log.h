/* log.h - what a decision of a flow sees: its history, with the result of every event
 *
 * A flow's job has one row per event, whose address is the key of its location (location.h), a row `flow,0,0` for the
 * flow itself and a row `trigger,0` with its input (ADR 45). log_read gives all of it as it stands: the history, in the
 * order of locations, and beside it one entry per event with what replay returns.
 *
 *   event          input                              code, output when `done` > 0
 *   activity       what the command said              200 .. 399, the output; from 400 on, the error
 *   run            none                               200, the value; from 400 on, the error
 *   sleep          {"until":ms}, that of a listen     200, {"interrupted":false}; true: signals came, and stand at `got`
 *                  {"until","names","got","limit"}
 *   signals        {"names":[..],"limit":n}; at       200, [{"name","at","data"},..], oldest first
 *                  `got` none
 *   signal         {"to","name","data"}               200, null
 *   loop           none                               200, null; of a broken one the output: `broken` is true
 *   branch, removed, version                          200, null
 *
 * An error is an object {"code","message",..} (store/error.h); `code` repeats its code. Outputs are JSON, never none
 * once the event is done.
 *
 * `done` is the place of the answer in the order of the job's journal; 0: the event is open. Answers are fed in this
 * order. Events that are born complete (run, signal, loop, branch, removed, version, and signals at `got`) are done at
 * the place where they were written. An event that the cancel of its flow has ended is done at the cancel's place, whatever
 * its row says. An answer counts from step 2 on, so two reads never differ in order: a later read
 * has more answers, all of them behind those of the earlier one. Two events never have the same place, but for those that a cancel has ended.
 *
 * Everything lives in the arena, whose limit bounds the history. Reads committed rows only, by one scan of the job's
 * activities and one of the loops' states; the caller holds a snapshot around it (store_snapshot_begin) where others
 * write. Any thread with its own store handle.
 */
#ifndef QP_FLOW_LOG_H
#define QP_FLOW_LOG_H

#include "flow/history.h"
#include "store/store.h"

struct log_entry {
    int64_t code;
    int64_t n; /* the place at which the event was made */
    qp_str input;
    qp_str output;
    int64_t done;
    qp_ms at; /* of the answer, or of the birth of an event that is born complete; 0: open */
    qp_ms entered_at; /* when the decision that made the event was committed */
    int64_t attempt;  /* failed attempts of an activity */
    bool shielded;    /* a compensation: a cancel leaves it alone */
    bool
        cancelled; /* it was not answered before the cancel of its flow, which is its answer: code 499 */
    /* of a loop: what the last command said of it */
    int64_t iteration;
    qp_str state;
    bool broken;
    int64_t seen;      /* of a broken one: the base of the decision that ended it */
    qp_str properties; /* likewise: what its rounds have set, a JSON object; none: nothing */
};

/* The cancel of the flow (cancel.h). */
struct log_cancel {
    int64_t done; /* its place in the order of answers; 0: the flow was not cancelled */
    qp_ms at;
    qp_str reason;          /* JSON */
    struct location thrown; /* where the code has met it; depth 0: it has not */
};

struct flow_log {
    struct history history;
    struct log_entry *entries; /* one per event, the same index as history.events */
    qp_str job;                /* its id, as people see it */
    qp_str workflow;
    qp_str input;
    uint64_t seed;    /* of what is derived: random numbers and ids */
    qp_ms started_at; /* when the job was made, or the one whose history it was made with */
    int64_t base;     /* the place of the last entry that this decision can see */
    size_t size;      /* bytes of inputs and outputs */
    struct log_cancel cancel;
};

/* QP_E_NOT_FOUND: there is no such job, or it has not begun; QP_E_INVALID: a row is none that a flow can have;
 * QP_E_LIMIT: more than LIMIT_FLOW_EVENTS or LIMIT_FLOW_SIZE; QP_E_NOMEM, also when the arena's limit is reached. */
int log_read(struct store *s, struct arena *arena, struct job_ref ref, struct flow_log *out_log,
             struct qp_err *err) QP_MUST_USE;

/* A part of it: the events behind an address, until one of the limits is reached; at least one. */
struct log_page {
    qp_str after;       /* an event's address, or LOCATION_FIRST */
    size_t event_count; /* at most, */
    size_t size;        /* and bytes of inputs and outputs, after which it ends */
    bool more;          /* out: there are events behind it */
    qp_str last;        /* out: the address of the last */
};
int log_read_page(struct store *s, struct arena *arena, struct job_ref ref, struct log_page *page,
                  struct flow_log *out_log, struct qp_err *err) QP_MUST_USE;

#endif

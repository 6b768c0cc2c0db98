/* stored.h - an instance out of its rows, as much of it as a turn needs, and back (ADR 51)
 *
 *   turn                                window
 *   a decision that is due is put       0                              the head alone
 *   event, report, timers, pause        WAITS                          what waits may end, and which work is reported
 *   resume                              WAITS | BUFFER                 it may prepare
 *   result of a decision                WAITS | BUFFER | BATCH         it is applied to what was prepared, and may prepare
 *   retry                               WORKS                          any of them may have failed
 *   a draft                             stored_load_draft              BATCH, and the properties that its scripts are handed
 *   people                              stored_load_whole              all of it
 *
 * A turn that cannot ask for the buffer gets its size alone: events that come while a decision is out cost the same whether 10
 * or 10,000 wait. BATCH are the executions from ongoing_index on, their branches and those branches' works. Of properties a turn
 * needs the last key. A draft needs their values at the start of its branches, behind its works, and now: each is the last row
 * whose key is at most that index, so a draft costs the same however often properties have changed before.
 *
 * stored_save writes what changed since the load: a row per item, the last chunk of executions, and the head, which has the
 * number of rows of each sort, so that no scan looks behind its end. All of it is one commit.
 *
 * Reading and writing are functions, so that a turn, a reader's snapshot and a test use the same. Texts live in the arena of
 * the instance. QP_E_CORRUPT: a row is missing or not what was written.
 */
#ifndef QP_AGENT_STORED_H
#define QP_AGENT_STORED_H

#include "agent/rows.h"

/* A part of the rows, in the order of their names. */
struct row_range {
    struct arena *arena;
    bool works;
    qp_str after;
    size_t limit;
    bool backwards; /* from the last to the first; `after` then is what they come before */
};

/* Where rows are read. Names and values that it gives live in the arena. */
struct row_source {
    void *context;
    /* By name: data of the job, or with `works` the definition of the work at an address. None: there is no such row. */
    int (*get)(void *context, struct arena *arena, bool works, qp_str name, qp_str *out_value);
    /* At most `limit` rows whose names come after `after`, in order. */
    int (*each)(void *context, const struct row_range *range, void *visitor,
                int (*visit)(void *visitor, qp_str name, qp_str value));
};

/* Where they are written. */
struct row_sink {
    void *context;
    int (*put)(void *context, qp_str name, qp_str value); /* none: the row goes */
    /* A work that is new: its activity. */
    int (*work)(void *context, qp_str address, const struct status *status, qp_str definition);
};

enum window { WINDOW_WAITS = 1, WINDOW_BUFFER = 2, WINDOW_BATCH = 4, WINDOW_WORKS = 8 };

/* What was there, to be told from what a turn has added. */
struct stored {
    struct row_source source;
    struct row_counts counts;
    int64_t execution_count;
    int64_t next_order;
    int64_t work_count;
    size_t property_count; /* in the window */
};

/* The instance that a job begins with: it has no rows. */
void stored_begin(const struct row_source *source, struct stored *out_stored);
int stored_load(const struct row_source *source, struct arena *arena, unsigned windows,
                struct instance *out_instance, struct stored *out_stored) QP_MUST_USE;
/* What a draft reads (draft.h); the head alone if no decision is ongoing. */
int stored_load_draft(const struct row_source *source, struct arena *arena,
                      struct instance *out_instance) QP_MUST_USE;
/* All of it. The names of the instance, and that its job has ended, are the caller's. */
int stored_load_whole(const struct row_source *source, struct arena *arena,
                      struct instance *out_instance) QP_MUST_USE;
/* One work beside the window; NULL: there is none. */
int stored_work(const struct row_source *source, struct instance *s, int64_t branch, int64_t number,
                struct status **out_status) QP_MUST_USE;

/* Afterwards `stored` has the numbers of rows that there are now. */
int stored_save(struct stored *stored, const struct row_sink *sink,
                const struct instance *s) QP_MUST_USE;

#endif

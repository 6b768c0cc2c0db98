/* rows.h - each item of an instance as the text of its row, and back (ADR 51)
 *
 *   head         {"ongoing":true,"index":4,...}: what a turn needs of the whole, and how many rows there are of each sort
 *   branch       {"start":3,"at":17,"hook":1,"name":..,"input":..,"ended":true,"result":..}
 *   executions   "0,1,2,0", at most AGENT_CHUNK keys
 *   definition   the input of a work's activity: what the script asked for; never changes
 *   work         what became of it: state, attempt, completion, output, error
 *   wait         {"branch":0,"end":5000}
 *   properties   as kernel/properties.h has them
 *   action       {"at":17,"hook":2,..,"branch":0,"work":3,"attempt":1}
 *
 * A text that is not what was written gives QP_E_CORRUPT. Texts live in the arena that is given. Pure; any thread.
 */
#ifndef QP_AGENT_ROWS_H
#define QP_AGENT_ROWS_H

#include "agent/agent.h"
#include "agent/state.h"

/* How many rows of each sort there are, so that a scan has its exact length. */
struct row_counts {
    int64_t waits;
    int64_t actions;
    int64_t properties;
    int64_t last_property; /* the key of the last */
};

/* A wait and an action name their work. */
struct row_work {
    int64_t branch; /* NO_INDEX: none */
    int64_t number;
};

int rows_put_head(struct arena *arena, const struct instance *s, const struct row_counts *counts,
                  qp_str *out_text) QP_MUST_USE;
int rows_get_head(struct arena *arena, qp_str text, struct instance *out_instance,
                  struct row_counts *out_counts) QP_MUST_USE;

int rows_put_branch(struct arena *arena, const struct branch *branch, qp_str *out_text) QP_MUST_USE;
int rows_get_branch(struct arena *arena, qp_str text, struct branch *out_branch) QP_MUST_USE;

/* Keys `first` to `end` - 1 of the executions, which stand in `keys`; of one chunk. */
int rows_put_chunk(struct arena *arena, const int64_t *keys, size_t count,
                   qp_str *out_text) QP_MUST_USE;
int rows_get_chunk(qp_str text, int64_t out_keys[AGENT_CHUNK], size_t *out_count) QP_MUST_USE;

int rows_put_definition(struct arena *arena, const struct status *status,
                        qp_str *out_text) QP_MUST_USE;
int rows_get_definition(struct arena *arena, qp_str text, struct status *out_status) QP_MUST_USE;
int rows_put_work(struct arena *arena, const struct status *status, qp_str *out_text) QP_MUST_USE;
int rows_get_work(struct arena *arena, qp_str text, struct status *out_status) QP_MUST_USE;

int rows_put_wait(struct arena *arena, const struct wait *wait, qp_str *out_text) QP_MUST_USE;
int rows_get_wait(struct arena *arena, qp_str text, struct row_work *out_work,
                  int64_t *out_end_ms) QP_MUST_USE;

int rows_put_action(struct arena *arena, const struct action *action, qp_str *out_text) QP_MUST_USE;
int rows_get_action(struct arena *arena, qp_str text, struct action *out_action,
                    struct row_work *out_work) QP_MUST_USE;

#endif

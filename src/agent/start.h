/* start.h - what a job of the agent's kind begins with: the input of its trigger, and the stream of its tasks
 *
 *   {"input":..,"properties":..,"language":"Php","environment":"dev","canonical_name":..,"unnamed":true}  an instance
 *   {"task":DEFINITION,"attempt":1,"language":..,"environment":..}                            a task that is a job of its own
 *
 * The concrete name of the workflow is the version of its job: an instance is pinned to it. One that was started by
 * its canonical name alone is pinned by its first decision (draft.h). Decisions and tasks of one
 * environment and language are in one stream, whose name no topic of users has. Pure; any thread.
 */
#ifndef QP_AGENT_START_H
#define QP_AGENT_START_H

#include "base/mem.h"

struct agent_start {
    qp_str input;
    qp_str properties;
    qp_str language;    /* none: Javascript */
    qp_str environment; /* none: dev */
    qp_str canonical_name;
    bool
        is_unnamed; /* the job's version is no concrete name: the first decision that brings one pins it */
    qp_str task;     /* none: it is an instance */
    int64_t attempt; /* of such a task: its first one here, from 1 */
};

int start_write(struct arena *arena, const struct agent_start *start, qp_str *out_text) QP_MUST_USE;
/* QP_E_CORRUPT: it is none. Texts live in the arena, or are slices of `text`. */
int start_read(struct arena *arena, qp_str text, struct agent_start *out_start) QP_MUST_USE;
/* Languages have no case. */
int start_topic(struct arena *arena, const struct agent_start *start,
                qp_str *out_topic) QP_MUST_USE;

#endif

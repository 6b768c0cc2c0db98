/* work.h - a work as a script asks for it: a task, a child workflow or a wait (document 002, rulings I14, I15)
 *
 *   {name, input, position, sync, type: task|workflow|wait, event, timestamp, duration, maxProcessingTime}
 *
 * Times on the wire are seconds. A wait ends at `timestamp` (unix time) or `duration` after the trigger time of its decision;
 * null and absent are the same; with neither it ends by its event alone. `timeout` is the older name of maxProcessingTime, and
 * of a wait's timestamp. Without `type` a work is a task, without `sync` it is awaited. Other members are ignored.
 *
 * The hash says whether the code at a position is still the same: type, name, input, event, branch, position and sync, each
 * with its size, behind the version of the hash. A client puts the definition of a wait into `input`; times are recomputed at
 * each replay, so they are not hashed. A hash of an earlier version is compared by the rules of that version.
 *
 * Slices are borrowed from the JSON tree. Pure functions; any thread.
 */
#ifndef QP_AGENT_WORK_H
#define QP_AGENT_WORK_H

#include "base/hash.h"
#include "base/json.h"

enum work_type { WORK_TASK, WORK_WORKFLOW, WORK_WAIT };

/* How the end of a wait is given. */
enum work_end { WORK_END_NONE, WORK_END_AFTER, WORK_END_AT };

#define WORK_NO_END INT64_MAX
#define WORK_HASH_VERSION 1
#define WORK_HASH_SIZE 34 /* "1-" and 32 hexadecimal digits */

struct agent_work {
    qp_str name;
    qp_str input; /* none: null */
    qp_str position;
    qp_str event; /* none: null */
    enum work_type type;
    enum work_end end;
    int64_t end_ms;            /* a duration, or a moment */
    int64_t max_processing_ms; /* 0: none */
    bool sync;
};

const char *work_type_name(enum work_type type);

/* Reads the body of an execute: 1..LIMIT_INSTANCE_WORKS works, all of them sync or none, no position twice. QP_E_SHAPE or
 * QP_E_TOO_LARGE, with the place in err; QP_E_NOMEM. */
int work_read_all(struct arena *arena, const struct json *body, struct qp_err *err,
                  const struct agent_work **out_works, size_t *out_count) QP_MUST_USE;

void work_hash(const struct agent_work *work, int64_t branch_key, char out_hash[WORK_HASH_SIZE]);

/* When a wait ends that a decision triggered at begin_ms has scheduled; WORK_NO_END: by its event alone. */
int64_t work_end_ms(const struct agent_work *work, int64_t begin_ms);

#endif

/* agents.h - agent workflows, from outside: instances are started, found, asked and read
 *
 * What clients ask comes as one blocking call per question, on the caller's thread, each a commit of its own (ADR 65). A key of
 * the client's makes a start or an event repeatable. Nothing here is kept: after a crash a client asks again.
 *
 * Instances are found by what clients know of them: the canonical or the concrete name, the environment, the language, and an
 * id of theirs, which a running instance of a canonical name has alone. For finished ones it is a search attribute of
 * the job, beside the tag.
 *
 * Threads: any that may wait.
 */
#ifndef QP_RUN_AGENTS_H
#define QP_RUN_AGENTS_H

#include "run/handle.h"

/* Attributes of an instance's job. */
#define AGENTS_ATTR_ID "custom_id"
#define AGENTS_ATTR_TAG "tag"
#define AGENTS_ATTR_NAME "name" /* the concrete name, where it is not the canonical one */

/* Where instances live: which stream has their decisions and tasks. */
struct agents_place {
    qp_str environment;
    qp_str language; /* in any case */
};

/* The topic of that stream. QP_E_INVALID: a name may not be one of them. */
int agents_stream(struct arena *arena, const struct agents_place *place, qp_str *out_topic,
                  struct qp_err *err) QP_MUST_USE;
/* At least this lease has every task that agents get. Before the first is claimed. */
void agents_set_lease(qp *q, qp_ms least_ms);
/* The lease of the task that a message is. QP_E_NOT_FOUND: it is gone. */
int agents_task_lease(qp *q, const struct msg_ref *ref, qp_ms *out_lease_ms,
                      struct qp_err *err) QP_MUST_USE;

struct agents_start {
    struct agents_place place;
    qp_str name; /* the concrete one */
    bool
        is_unnamed; /* it is canonical: the first decision brings the concrete one (agent/draft.h) */
    qp_str canonical_name; /* none: the same */
    qp_str input;          /* of handle, or of the task; none: null */
    qp_str properties;     /* the initial ones; likewise */
    qp_str custom_id;      /* none: it has none */
    qp_str tag;            /* likewise */
    qp_str key;            /* makes it repeatable; none: it is not */
    bool is_task;          /* a single task, and no instance */
    qp_ms max_processing_ms;
};
/* QP_E_INVALID, QP_E_TOO_LARGE: err says which field. QP_E_EXISTS: a running instance has the custom id; QP_E_CONFLICT: the
 * key was used for another start. */
int agents_start(qp *q, const struct agents_start *start, char out_id[QP_ID_SIZE],
                 struct qp_err *err) QP_MUST_USE;

/* What a client says of instances; none fits all. */
struct agents_who {
    struct agents_place place; /* its language may be none */
    qp_str name;
    qp_str custom_id;
    qp_str tag;
    qp_str id; /* of the job */
};
struct agents_found {
    qp_str id;
    bool open;
};
/* At most LIMIT_PAGE_ROWS, the newest first; texts and list in the arena. */
int agents_find(qp *q, const struct agents_who *who, bool only_open, struct arena *arena,
                const struct agents_found **out_found, size_t *out_count,
                struct qp_err *err) QP_MUST_USE;

struct agents_event {
    qp_str id;
    qp_str name;
    qp_str input; /* none: null */
    qp_str key;   /* as in agents_start */
};
/* QP_OK too when the instance has ended, or the key was used for this event. QP_E_LIMIT: its buffer is full. */
int agents_event(qp *q, const struct agents_event *event, struct qp_err *err) QP_MUST_USE;
/* Pause, resume, kill. QP_OK too when there is nothing to do. */
int agents_act(qp *q, qp_str id, enum qp_verb verb, struct qp_err *err) QP_MUST_USE;
/* Members of an object that is begun: what a client finds. */
int agents_show(qp *q, qp_str id, struct json_writer *w, struct qp_err *err) QP_MUST_USE;

#endif

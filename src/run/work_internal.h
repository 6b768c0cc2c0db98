/* work_internal.h - the calls of workers elsewhere, as the driver knows them (see work.h)
 *
 *   work.c         a call from its submission to its answer
 *   work_seats.c   topics that are asked for, and who waits at each: the places of the engine's services
 *   work_hand.c    workers, the tasks that they have in hand, tokens
 *
 * All of it belongs to the driver, but for what is under the handle's lock.
 */
#ifndef QP_RUN_WORK_INTERNAL_H
#define QP_RUN_WORK_INTERNAL_H

#include "base/omap.h"
#include "run/handle.h"
#include "run/work.h"

/* A topic of a namespace that somebody has asked for. */
struct work_topic {
    qp *q;
    struct service service;
    struct seat *first; /* who waits here and has places left, in order */
    struct seat *last;
    int64_t waiting; /* calls in the engine's hands that name it */
    qp_ms served_at; /* when one last came or went */
    char name[LIMIT_NAME_SIZE];
};

/* A call at one of its topics. */
struct seat {
    struct seat *next;
    struct seat *previous;
    struct work_state *state;
    struct work_topic *topic;
    bool listed;
};

/* A task in the hands of a worker elsewhere. */
struct in_hand {
    struct in_hand *next; /* of its worker; or among its cancels */
    struct in_hand *previous;
    struct remote *worker;
    struct msg_ref ref;
    qp_ms since;
    qp_ms lease_until;
    bool cancelled;
    unsigned char guid[LIMIT_GUID_SIZE];
    char token[WORK_TOKEN_SIZE];
};

/* A worker elsewhere. Its texts are behind it. */
struct remote {
    qp_str key; /* in the map of workers */
    int64_t ns;
    qp_str ns_name;
    qp_str name;
    qp_str caller;
    char *build;  /* with a NUL, of its own; may be NULL */
    char *topics; /* names with a NUL each */
    size_t topics_size;
    size_t topic_count;
    struct in_hand *tasks;
    int64_t task_count;
    struct in_hand *cancels;   /* to be told */
    int64_t waiting;           /* calls */
    struct work_state *parked; /* one of them that is parked, if any */
    qp_ms since;
    qp_ms seen_at;
    qp_ms left_at; /* it said so, and has not called since; 0: no */
};

/*            work_run              nothing to hope for             task, cancel, time, abort
 *   QUEUED ------------> BUSY ----------------------------> PARKED ---------------------------> BUSY
 *                         |  all that it brought is answered, and there is something to tell
 *                         +----------------------------------------------------------------> ANSWERED
 */
enum work_phase { PHASE_QUEUED, PHASE_BUSY, PHASE_PARKED, PHASE_ANSWERED };

/* Something that a call has brought, as a command. */
struct brought {
    union {
        struct command command;
        struct request_result result;
        struct request_beat beat;
    };
    struct work_state *state;
    struct work_result *of_result; /* or */
    struct work_beat *of_beat;
    bool stale; /* the token is none of the caller's */
    unsigned char guid[LIMIT_GUID_SIZE];
};

struct work_state {
    struct call run;
    struct call abort;
    struct call done;
    qp *q;
    struct work_call *of;
    int64_t ns;
    enum work_phase phase;
    bool aborted;
    int rc;            /* why, when nobody has asked for it: QP_E_LIMIT */
    bool abort_queued; /* under the handle's lock */
    bool given_back;
    struct remote *worker;
    size_t unanswered; /* commands */
    int64_t left;      /* tasks that it still takes */
    int64_t promised[ENGINE_ROUNDS];
    struct work_state *next_promised[ENGINE_ROUNDS];
    struct work_state *next; /* busy, or parked */
    struct work_state *previous;
    qp_ms deadline;
    size_t heap_index;
    struct work_task *tasks;
    size_t task_count;
    struct brought *brought;
    size_t brought_count;
    size_t seat_count;
    struct seat seats[];
};

/* In the handle, as q->work. */
struct desk {
    struct omap topics;  /* ns, name: struct work_topic */
    struct omap workers; /* ns, caller, name: struct remote */
    struct omap in_hand; /* ns, job, guid: struct in_hand */
    struct work_state *busy;
    struct work_state *parked;
    struct work_state *promised[ENGINE_ROUNDS];
    struct work_state **heap; /* parked ones, the earliest deadline first */
    size_t heap_count;
    size_t heap_capacity;
    qp_ms sweep_at;    /* when the next worker is gone by itself; 0: none will be */
    qp_ms presence_at; /* when the other nodes are told of a change; 0: there is none */
    qp_ms presence_written;
    bool shut;
    /* under the handle's lock */
    size_t call_count; /* not answered yet */
    bool refusing;
};

/* work.c */
/* On the driver: a parked call has something to look at. */
void work_wake(struct work_state *s);
/* Gives a task back into its stream at once; `state` (may be NULL) waits for it. */
void work_give_back(qp *q, const struct msg_ref *ref, struct work_state *state);

/* work_seats.c */
/* Waits at its topics. QP_E_NOMEM, QP_E_LIMIT. */
int seats_take(struct work_state *s) QP_MUST_USE;
void seats_leave(struct work_state *s);
/* Whether the next round looks into a stream for it. */
bool seats_hope(const struct work_state *s);
struct work_topic *topic_find(const struct desk *w, int64_t ns, qp_str name);

/* work_hand.c */
/* The worker of a call. NULL: no memory, or too many. */
struct remote *remote_of(struct work_state *s);
/* A task is in the worker's hands. Without memory it is not known here, and only the store knows. */
void hand_add(struct work_state *s, const struct task *task, const char *token, qp_ms lease_until);
/* It is not any more, if it is still this claim. */
void hand_drop(qp *q, const struct msg_ref *ref);
/* When it was handed out; 0: that is not known here. */
qp_ms hand_since(qp *q, const struct msg_ref *ref);
/* Its lease has begun anew. */
void hand_extend(qp *q, const struct msg_ref *ref, qp_ms lease_until);
/* What the worker has in hand goes back. */
void hand_give_back(struct work_state *s);
/* What is to be told of cancels. QP_E_NOMEM: later. */
void hand_tell_cancels(struct work_state *s);
/* Until when it is present without another call; INT64_MAX: it has one. */
qp_ms remote_until(const struct remote *r);
/* The worker leaves. */
void remote_leave(struct work_state *s);
/* Forgets those that are gone; when the next one will be (0: none by itself). */
qp_ms remotes_sweep(qp *q, qp_ms now);
void remotes_done(qp *q);

void token_write(const struct work_caller *caller, const struct msg_ref *ref,
                 char out_token[WORK_TOKEN_SIZE]);
/* False: it was not given to this caller. */
bool token_read(const struct work_caller *caller, qp_str token, struct msg_ref *out_ref,
                unsigned char out_guid[LIMIT_GUID_SIZE]);

#endif

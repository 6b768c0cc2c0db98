/* remote.h - workers elsewhere, as the driver knows them: the state behind work.h, and its lists
 *
 *   work.c            a call from its submission to its answer; work_check.c: what it may say
 *   remote_topics.c   topics that are asked for, and the calls that wait at each: the places of the engine's services
 *   remote_workers.c  workers, and the tasks that they have in hand; work_token.c: the tokens of those
 *   remote.c          the calls that are busy or parked, deadlines, and tasks that go back
 *
 * All of it belongs to the driver, but for what is under the driver's lock.
 */
#ifndef QP_RUN_REMOTE_H
#define QP_RUN_REMOTE_H

#include "base/omap.h"
#include "run/calls.h"
#include "run/handle.h"
#include "run/work.h"

#define TOPIC_TEXT_SIZE (LIMIT_NAME_SIZE + 1) /* with ANNOUNCED_MARK */

/* A topic of a namespace that a worker has asked for. */
struct work_topic {
    qp *q;
    struct service service;
    struct waiter *first; /* calls that wait here and have places left, in order */
    struct waiter *last;
    int64_t waiting; /* calls in the engine's hands that name it */
    qp_ms served_at; /* when one last came or went */
    bool announced;  /* of a name that workers announce: it is in the store, and stays there */
    char name[TOPIC_TEXT_SIZE];
};

/* A call that waits at one of its topics. */
struct waiter {
    struct waiter *next;
    struct waiter *previous;
    struct work_poll *state;
    struct work_topic *topic;
    bool listed;
};

/* A task in the hands of a worker elsewhere. */
struct in_hand {
    struct in_hand *next; /* of its worker; or among its cancels */
    struct in_hand *previous;
    struct remote_worker *worker;
    struct msg_ref ref;
    qp_ms since;
    qp_ms lease_until;
    bool cancelled;
    unsigned char guid[LIMIT_GUID_SIZE];
    char token[WORK_TOKEN_SIZE];
};

/* A worker elsewhere. Its texts are behind it. */
struct remote_worker {
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
    struct in_hand *cancels;  /* to be told */
    int64_t waiting;          /* calls */
    struct work_poll *parked; /* one of them that is parked, if any */
    qp_ms since;
    qp_ms seen_at;
    qp_ms left_at; /* it said so, and has not called since; 0: no */
};

/*            work_execute          nothing to hope for             task, cancel, time, abort
 *   QUEUED ------------> BUSY ----------------------------> PARKED ---------------------------> BUSY
 *                         |  all that it brought is answered, and there is something to tell
 *                         +----------------------------------------------------------------> ANSWERED
 */
enum poll_stage { POLL_QUEUED, POLL_BUSY, POLL_PARKED, POLL_ANSWERED, POLL_STAGES };

/* Something that a call has brought, as a command. */
struct brought {
    union {
        struct command command;
        struct request_result result;
        struct request_beat beat;
    };
    struct work_poll *state;
    struct work_result *of_result; /* or */
    struct work_beat *of_beat;
    bool stale;                                             /* the token is none of the caller's */
    char parking[WORK_WHY_SIZE + QP_ERR_POINTER_SIZE + 64]; /* why its job is parked */
    unsigned char guid[LIMIT_GUID_SIZE];
    unsigned char hash[LIMIT_GUID_SIZE]; /* of a result that is brought `once` */
};

/* A name that a call announces, as a command. */
struct announcement {
    struct request_announce request;
    struct work_poll *state;
    size_t index;      /* among the names */
    struct qp_err err; /* why it was refused */
};

struct work_poll {
    struct call submission;
    struct call begin;
    struct call abort;
    struct call done;
    qp *q;
    struct work_call *of;
    int64_t ns;
    enum poll_stage stage;
    bool aborted;
    int rc;            /* why, when no peer has asked for the abort: QP_E_LIMIT */
    bool abort_queued; /* under the driver's lock */
    bool begin_queued; /* likewise: its names are known */
    bool given_back;
    struct remote_worker *worker;
    size_t unanswered; /* commands */
    int64_t left;      /* tasks that it still takes */
    int64_t promised[ENGINE_ROUNDS];
    struct work_poll *next_promised[ENGINE_ROUNDS];
    struct work_poll *next; /* busy, or parked */
    struct work_poll *previous;
    qp_ms deadline;
    size_t heap_index;
    struct work_task *tasks;
    size_t task_count;
    struct announcement *announcements; /* while some are asked about; NULL: none are */
    bool begun;                         /* its names are known: what it brought was submitted */
    struct brought *brought;
    size_t brought_count;
    size_t waiter_count;
    struct waiter waiters[];
};

/* In the handle, as q->remote. */
struct remote {
    struct omap topics;  /* ns, name: struct work_topic */
    struct omap workers; /* ns, caller, name: struct remote_worker */
    struct omap in_hand; /* ns, job, guid: struct in_hand */
    struct omap refused; /* likewise, of tasks with results that were refused: struct refused */
    struct work_poll *busy;
    struct work_poll *parked;
    struct work_poll *promised[ENGINE_ROUNDS];
    struct work_poll **heap; /* parked ones, the earliest deadline first */
    size_t heap_count;
    size_t heap_capacity;
    qp_ms sweep_at;    /* when the next worker is gone by itself; 0: none will be */
    qp_ms presence_at; /* when a change is written for the other nodes; 0: there is none */
    qp_ms presence_written;
    bool shut;
    /* under the driver's lock */
    size_t call_count; /* not answered yet */
    bool refusing;
};

int remote_init(qp *q) QP_MUST_USE;
/* Its lists, not its workers and topics, which are gone by then. */
void remote_done(qp *q);

/* A call moves along the table above only. It is in the list of its stage, and in the heap while it is parked. */
void remote_busy(struct work_poll *s);
/* False: no memory, and the call is still busy. */
bool remote_park(struct work_poll *s) QP_MUST_USE;
/* A parked call has something to look at. One that is busy or answered is left alone. */
void remote_wake(struct work_poll *s);
void remote_answered(struct work_poll *s);
/* Without the driver: it was never taken. */
void remote_withdrawn(struct work_poll *s);

/* Gives a task back into its stream at once; `state` (may be NULL) waits for it. */
void remote_give_back(qp *q, const struct msg_ref *ref, struct work_poll *state);

/* A worker came, went or changed: where others share the store, the row of our run says so soon (presence.h). */
void remote_changed(qp *q);

#endif

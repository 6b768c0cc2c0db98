/* state.h - the state of one instance of an agent workflow, item by item (document 002, design of decisions)
 *
 * A script decides; the instance remembers. Branches are calls of the script's hooks; `executions` is the order in which they
 * ran and run, and an index in it is the measure of time. Works belong to the branch that asked for them.
 *
 * Each item is one row of the store, never a part of one growing text:
 *
 *   head         the job's own data row: counts, ongoing_index, the decision, last_ms, buffer_size, status
 *   branches     a row per branch, by key; written when it is prepared and when it ends
 *   executions   chunks of 512 keys per row; written at prepare, behind its last key
 *   works        the activity (awaited) or the job (dispatched) of the work, by branch key and position: `statuses`
 *   waits        the timer of a work of type wait; gone when the wait ends
 *   properties   a row per change, by key
 *   buffer       a row per action, by order; deleted when it becomes a branch
 *
 * `changed` marks the items whose row has to be written. A state may be a window of the rows (stored.h): what a turn cannot ask
 * for is not there. Lookups assert that what they need is.
 *
 * Invariants
 *   1. executions[i] is the key of a branch; the first place of a key is that branch's start_index.
 *   2. A decision is out, or parked, exactly when decision_ongoing; it executes executions[ongoing_index..].
 *   3. A wait in `waits` belongs to a work with status scheduled, whose end is not in the buffer.
 *   4. A work is successful exactly when it has a completion_index.
 *   5. Keys of properties rise, and the last is at most the count of executions.
 *   6. open_count is the number of branches that have not ended, open_task_count that of awaited tasks that are scheduled, failed_count
 *      that of works that have failed.
 *
 * All memory comes from one arena; an error (QP_E_NOMEM) leaves a state that the caller must drop, as it drops the transaction.
 * One thread at a time.
 */
#ifndef QP_AGENT_STATE_H
#define QP_AGENT_STATE_H

#include "agent/work.h"

enum hook { HOOK_HANDLE, HOOK_EVENT, HOOK_START, HOOK_SUCCESS, HOOK_FAILURE, HOOK_TIMEOUT };

/* The error of a work or a decision, made by state_error. */
struct state_error {
    qp_str name; /* none: null */
    qp_str json; /* {"code","name","message","stacktrace"}; none: no error */
    qp_str rest; /* {"code","message","stacktrace"}: error_input of onFailure */
};

/* What a hook is called with. `output` is JSON: null, a string, or {"name","data"} of a wait. */
struct hook_call {
    enum hook hook;
    qp_str name;  /* of the event or the work */
    qp_str input; /* of the event, the work, or handle; none: null */
    qp_str output;
    struct state_error error;
};

struct branch {
    int64_t key;
    int64_t start_index;
    int64_t work_count;   /* that it has asked for */
    int64_t timestamp_ms; /* of its action */
    struct hook_call call;
    qp_str output; /* of the hook, when it has ended; none: null */
    bool ended;
    bool changed;
};

enum work_state { WORK_SCHEDULED, WORK_SUCCESSFUL, WORK_FAILED };

#define NO_INDEX (-1)

struct status {
    struct agent_work work;
    int64_t branch_key;
    int64_t number; /* of the work, from 0: statuses stand in this order */
    char hash[WORK_HASH_SIZE];
    enum work_state state;
    int64_t attempt;     /* reported errors + 1; while failed the number of the last attempt */
    int64_t retry_index; /* automatic retries since the last retry by hand */
    int64_t completion_index;
    qp_str output;            /* JSON, when successful */
    struct state_error error; /* when failed */
    bool started;             /* this attempt has its onStart */
    bool timed_out;           /* and its onTimeout */
    bool failing;             /* its last attempt has failed; the work becomes failed at prepare */
    bool completed;           /* its success is in the buffer, or prepared */
    bool changed;
};

struct wait {
    struct status *status;
    int64_t end_ms; /* WORK_NO_END: by its event alone */
};

struct property {
    int64_t key;
    qp_str values;
    bool changed;
};

struct action {
    int64_t order; /* of the store */
    int64_t timestamp_ms;
    struct hook_call call;
    struct status *status; /* of what work; NULL: of none */
    int64_t attempt;       /* of that work */
    bool taken;
};

enum instance_mode { MODE_RUN, MODE_PAUSE, MODE_KILL };

/* What the face has to do beside writing rows, in this order. */
enum effect_kind {
    EFFECT_TASK,     /* a task gets an attempt, delay_ms from now */
    EFFECT_CHILD,    /* a child instance is started, or started again */
    EFFECT_WAIT,     /* the timer of a wait is set to end_ms */
    EFFECT_WAIT_END, /* the wait is gone, and its timer */
    EFFECT_TAKE,     /* the buffer's row `order` became a branch */
    EFFECT_DECISION, /* the decision is issued, with a new token */
    EFFECT_PARK,     /* the decision failed; the error says why */
    EFFECT_COMPLETE, /* the instance has its output */
    EFFECT_KILL,     /* the instance is interrupted */
};

struct effect {
    enum effect_kind kind;
    struct status *status;
    int64_t delay_ms;
    int64_t end_ms;
    int64_t order;
};

/* (branch, position) -> status. Open addressing; at most half full. */
struct status_table {
    struct status **items;
    size_t count;
    size_t room;
    uint32_t *slots; /* index of the item + 1 */
    size_t slot_count;
};

struct instance {
    struct arena *arena;

    /* What it is */
    qp_str id;
    qp_str custom_id;
    qp_str workflow_name;
    qp_str canonical_name;
    qp_str programming_language;
    qp_str environment;
    bool is_unnamed; /* it has no concrete name yet: a script may bring it */

    /* Head */
    qp_str pinned_name;      /* the concrete name that a script has brought */
    enum instance_mode mode; /* no row has it: its job is paused, or has ended */
    bool completed;
    bool decision_ongoing;
    bool parked;              /* the decision that is ongoing failed */
    bool decision_due;        /* it is prepared, and its task is still to be put */
    qp_str output;            /* when completed */
    struct state_error error; /* when parked */
    int64_t ongoing_index;    /* NO_INDEX: nothing was triggered yet */
    int64_t triggered_ms;
    int64_t decision_attempt;
    int64_t branch_count;
    int64_t execution_count;
    int64_t open_count;
    int64_t work_count;
    int64_t open_task_count; /* awaited tasks that are scheduled */
    int64_t failed_count;    /* works that have failed */
    int64_t last_ms;         /* the last reception or trigger: time does not go back behind it */
    int64_t next_order;
    int64_t buffer_size;   /* bytes of texts in the buffer */
    int64_t buffer_absent; /* actions that wait, and are not in this window */

    /* Items */
    struct branch *branches; /* by key */
    size_t branches_held, branches_room;
    int64_t *executions; /* from executions_first on */
    int64_t executions_first;
    size_t executions_room;
    struct status_table statuses;
    struct wait *waits;
    size_t wait_count, wait_room;
    struct property *properties; /* by key */
    size_t property_count, property_room;
    struct action *buffer; /* by order */
    size_t buffer_count, buffer_room;

    /* Of the last turn */
    struct effect *effects;
    size_t effect_count, effect_room;
    bool ignored; /* the turn changed nothing: a duplicate, an unknown work, a finished instance */
};

const char *hook_name(enum hook hook);

/* Room for one more item; zeroed. QP_E_NOMEM. */
int state_grow(struct arena *arena, void **items, size_t count, size_t *room,
               size_t size) QP_MUST_USE;
#define STATE_GROW(arena, items, count, room)                                                      \
    state_grow((arena), (void **)&(items), (count), &(room), sizeof(*(items)))

struct status *status_find(const struct status_table *table, int64_t branch_key, qp_str position);
int status_add(struct arena *arena, struct status_table *table, struct status *status) QP_MUST_USE;

bool state_is_over(const struct instance *s);
/* A worker has to do with it in this job: a task that is awaited. Others are jobs of their own. */
bool state_has_task(const struct status *status);
struct branch *state_branch(const struct instance *s, int64_t key);
int64_t state_execution(const struct instance *s, int64_t index);
/* properties(index) of the document: the last entry whose key is at most index. */
qp_str state_properties(const struct property *properties, size_t count, int64_t index);

/* A text as JSON; none is null. */
int state_text(struct arena *arena, qp_str text, qp_str *out_json) QP_MUST_USE;
/* What a wait gives that an event ended: {"name","data"}. */
int state_event(struct arena *arena, qp_str name, qp_str data, qp_str *out_json) QP_MUST_USE;
/* From an object with code, name, message and stacktrace, each of them optional. QP_E_SHAPE. */
int state_error(struct arena *arena, const struct json *error, struct qp_err *err,
                struct state_error *out_error) QP_MUST_USE;
int state_error_make(struct arena *arena, qp_str code, qp_str name, qp_str message,
                     struct state_error *out_error) QP_MUST_USE;

#endif

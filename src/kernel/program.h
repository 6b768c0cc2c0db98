/* program.h - a kind of job as a program: what the kernel asks it, and what it may call in a turn
 *
 * A PROGRAM is what a layer above the kernel says about its jobs: what an activity is, what Leg1
 * and each step do. The kernel does the rest, for all programs alike: entry marks, digits, order
 * of steps, children, the semaphore, the end of a job.
 *
 *   message or command -> turn -> describe, enter              Leg1 without a GUID: A, and C that cycles
 *                                 describe, work, spawn        Leg1 with one: B, and C that does not
 *                                 work, spawn, complete        Leg2, per GUID
 *
 * A turn runs inside the transaction that commits it (commit_decided). So what it reads is what
 * stands there when it commits, and it may run twice: a program's function decides by what it reads
 * through the turn and changes nothing but the turn. It must not depend on which steps run together:
 * step 2 reads what step 1 has stored, not what it has seen.
 *
 * A program reads the fields of its turn and calls the functions of this header; how the engine begins and ends
 * turns is turn.h, which no program includes. What a function puts out lives as long as the commit. Threads: the
 * engine's own.
 */
#ifndef QP_KERNEL_PROGRAM_H
#define QP_KERNEL_PROGRAM_H

#include "base/uuid.h"
#include "kernel/address.h"
#include "kernel/step.h"
#include "store/event.h"

struct faces;
struct kernel;
struct outcome;
struct child;
struct visit;
struct pending_answer;
struct level_page;
struct turn;

/* act_row.cyclic */
enum cyclic {
    CYCLIC_NO,
    CYCLIC_OPEN,  /* takes answers as long as its job is open */
    CYCLIC_PIVOT, /* is re-entered by cycles: its first plane is that of Leg1 (H14) */
    /* As OPEN, and owes nothing: the open activity that has made it keeps the obligation, which it counts for none of these. One
     * activity of a job makes such ones; its step 2 gives a delta that does not count them, and theirs give 0. */
    CYCLIC_LENT
};

/* Takes answers as long as its job is open, each an entry of its own, and is never finalized. */
static inline bool cyclic_is_open(int64_t cyclic)
{
    return cyclic == CYCLIC_OPEN || cyclic == CYCLIC_LENT;
}

/* Step 1's result: what the GUID's row keeps. */
struct work {
    int64_t code;
    qp_str output;
};

/* What the commit that claims a task tells its activity (program.claimed). */
struct claim_notices {
    int64_t attempt; /* from 1: what GUIDs follow from; 0: no notice */
    qp_ms late_ms;   /* NOTICE_LATE so long after the claim; 0: never */
    qp_ms
        lease_ms; /* of a worker elsewhere that asks its program (service.program_leases); 0: as the service has it */
};

struct program {
    int64_t kind; /* of its jobs: job_row.kind */
    const char *name;
    void *context;
    bool leaves_nothing; /* a job that ends in its turn has no timer, hook or key left */
    bool keeps_output;   /* of an error, too: it stands behind the members of the error */
    bool takes_signals;  /* by name (turn_listen): a signal to its job is kept until the job ends */
    /* What the activity at t->site.addr is: category, cyclic, kind, topic, policy, input. Asked once; then its row
     * says it. */
    int (*describe)(struct turn *t, struct op_act_create *out_row);
    /* The work of a Leg1 without a GUID: what it waits for (turn_task, turn_timer, ...), or where it
     * goes (turn_cycle). */
    int (*enter)(struct turn *t);
    /* Before the entry of an answer: whether another one, which is still to come, has won. Then this one brings
     * nothing. What is written here commits with the entry. NULL: the first that comes wins. */
    int (*yields)(struct turn *t, bool *out_yields);
    /* Step 1. *out_work is what the message brought. NULL: that is kept. */
    int (*work)(struct turn *t, struct work *out_work);
    /* A task of the activity has failed, and will come again: the worker or the policy says so, and nothing answers the
     * activity. In the commit that says it; there is no GUID. A worker that was silent is no failure here. NULL: nothing. */
    int (*again)(struct turn *t, qp_ms delay_ms);
    /* A task of the activity is being claimed, or is born claimed: what the commit that claims it puts for the activity, each as a
     * notice whose GUID follows from the activity and the attempt, so that a delivery after a lost lease puts none that was put
     * before. A claim waits for no job: the row is one that was peeked at, and so is what this reads (bundle_peek); it
     * reads only what does not change while the task waits. NULL: nothing is put. */
    int (*claimed)(void *context, struct bundle *b, const struct act_row *act,
                   struct claim_notices *out_notices);
    /* A notice has come (message.h): t->code and t->payload. What is written commits with its ack, so each is taken once. It is no
     * entry: it has no GUID row, moves no digit and no semaphore, and may come when its attempt is over; then the program
     * passes it over. One to an activity that is over, or of a closed job, is dropped before. NULL: all are. */
    int (*notice)(struct turn *t);
    /* Step 2, of the trigger too: turn_child for each child. *out_spawn is preset: n is counted
     * afterwards, and delta follows from it unless `given`. NULL: no children; an answer with an
     * error code ends the job as failed. spawn.notify, when it has an address: the activity there that decides is
     * notified of this answer, or, with `rests`, this answer is its decision (op_act_notify). If it has something to
     * decide on now, its next decision is put (deciding.h): all in this commit. */
    int (*spawn)(struct turn *t, struct spawn *out_spawn);
    /* Step 3: the job's output. NULL: that of the activity that closed it stays where it is. */
    int (*complete)(struct turn *t, struct complete *out_complete);
};

struct turn {
    struct kernel
        *kernel; /* the engine's, as are bundle, program, outcome, stepwise, entered and depth */
    struct bundle *bundle;
    const struct program *program;
    struct outcome *outcome;
    const struct job_row *job;
    const struct act_row *act; /* NULL: Leg1 has not entered */
    struct site site;
    struct address at; /* site.addr, taken apart */
    qp_str parent_guid;
    struct guid_row guid; /* of Leg2, and of a Leg1 that has one; as it stands */
    bool has_guid;
    int64_t code; /* what the message brought */
    qp_str payload;
    bool stepwise;
    bool entered; /* stepwise: this delivery has left its entry mark */
    int depth;    /* of fused turns */
    /* what the program says in one step */
    struct child *children;
    struct child *last_child;
    int64_t child_count;
    struct pending_answer *answers; /* to other activities, in order */
    struct pending_answer *last_answer;
    struct level_page *level; /* what this step, of a gate, runs next */
    struct visit
        *visits; /* gates where it arrives; those that it spawns are among the children too */
    bool ends;   /* the job, out of its turn */
    enum job_state end_state;
    qp_str end_error;
    bool descends; /* and the jobs that it has called with it */
    /* What `work` leaves for `spawn` of the same turn, in the commit's arena: saves making it again. NULL: step 1 was another
     * turn's. A program says the same with it and without. */
    const void *kept;
    bool works; /* the step gave out a task */
    bool waits; /* the step made something that the activity waits for: a timer, a hook, a child */
};

/* Where a job's trigger is. */
#define TRIGGER_ADDRESS QP_STR("trigger,0")

/* t->job as it stands now, behind ops that this turn has run. */
int turn_job(struct turn *t) QP_MUST_USE;
/* Reads: rows as they stand in this turn. NULL: there is none. */
int turn_act(struct turn *t, qp_str addr, const struct act_row **out_act) QP_MUST_USE;
int turn_data(struct turn *t, qp_str name, const struct data_row **out_data) QP_MUST_USE;
struct arena *turn_arena(struct turn *t);
/* What names mean in this turn's commit (face.h); NULL: every kind is said where it is used. */
struct faces *turn_faces(struct turn *t);
/* The plane that this turn's GUID runs in. */
int turn_plane(struct turn *t, qp_str *out_dad) QP_MUST_USE;

/* Leg1: what the activity waits for. The purpose keeps several apart. A task has the time limits that the policy of its
 * activity has, and its limit key; without one, the job's (retry.h). */
int turn_task(struct turn *t, qp_str topic) QP_MUST_USE;
/* A task for another activity of the job, by a GUID of the program's choice: its result is a Leg2 entry there. It is handed to
 * a worker of this process like any task that is born. */
struct task_for {
    const struct act_row *act;
    qp_str topic;
    qp_str guid;
    bool behind; /* decisions of jobs of the same priority come first, where one stream has both */
};
int turn_task_for(struct turn *t, const struct task_for *task) QP_MUST_USE;
int turn_timer(struct turn *t, qp_str purpose, qp_ms delay_ms) QP_MUST_USE;
int turn_hook(struct turn *t, qp_str topic, qp_str key, bool keep) QP_MUST_USE;
/* Leg1 of a program that takes signals: the activity is answered by the next signal to its job of one of these names, or
 * at once by kept ones, the oldest first over all names, up to `limit` (1 to LIMIT_LISTEN_SIGNALS). One answer comes, of
 * code 200: [{"name":..,"at":ms,"data":..}], also for one signal. turn_hook_close ends it. */
struct turn_listen {
    const qp_str *names; /* 1 to LIMIT_LISTEN_NAMES, each once */
    size_t name_count;
    int64_t limit;
};
int turn_listen(struct turn *t, const struct turn_listen *listen) QP_MUST_USE;
/* Any step: the activity waits at no hook any more. For one that something else ends, a timer for example: a
 * signal that comes now is for the next who waits. *out_waited is false when it did not wait any more: then what was
 * signalled is on its way. */
int turn_hook_close(struct turn *t, bool *out_waited) QP_MUST_USE;
/* Whether a signal that leaves the activity waiting (CODE_PENDING) is still on its way to it, other than this one. */
int turn_hook_pending(struct turn *t, bool *out_pending) QP_MUST_USE;
int turn_key(struct turn *t, const struct op_key_acquire *key, int64_t *out_token) QP_MUST_USE;
/* Leg1: the activity waits for other ways of its job, as a gate does. turn_timer, turn_hook and turn_call say it of
 * themselves. Its job is `waiting` when all that it still has to do waits like this (store/rows.h, job_word). Of an activity that
 * takes answers as long as its job is open (cyclic_is_open) it is not known what it waits for: the program says it (act_add). */
void turn_wait(struct turn *t);
/* Leg1 of category C: the ancestor at this depth is entered again, as by turn_answer_at. The obligation of this activity
 * goes with it. */
int turn_cycle(struct turn *t, qp_str ancestor, int64_t depth, qp_str input) QP_MUST_USE;

/* Leg1: another job is called, which begins with a message of its own; when it ends, the activity gets an answer:
 * its output, or as code and payload the error {"code","message","job"} of one that did not complete. */
struct call_job {
    qp_str workflow;
    qp_str
        jid; /* none: one is made, the same whenever this call is made again; so it is where an earlier call of this
                 * activity has the id */
    int64_t kind;
    qp_str version;
    qp_str input; /* JSON */
    qp_str policy;
    qp_str purpose; /* keeps several calls of one activity apart */
    bool detached;  /* its answer is not waited for: the activity's first answer is another */
    enum close_policy
        close; /* what becomes of it when this job ends, unless it has answered before and goes on after that; a
                              * detached one without it is nobody's: it answers nobody, and does not end with this job
                              * whatever ends that */
    qp_ms delay_ms;
    qp_ms expire_ms; /* from now; 0: never */
    qp_str *out_jid; /* NULL, or where its id goes; none: it was refused */
};
/* The id of a called job for which the call of this activity's Leg1 gave none, as it follows from the activity's row. Pure. */
void call_made_id(const struct act_row *act, qp_str purpose, char out_text[UUID_TEXT_SIZE]);
/* An id that somebody else has is refused, and so is an input above LIMIT_PAYLOAD_SIZE: the activity itself gets
 * an answer, with the error and its code 409 or 413. */
int turn_call(struct turn *t, const struct call_job *call) QP_MUST_USE;

/* Any step: the job that an activity of this one has called, with the id and the purpose of the call, ends as its close policy
 * says, before this job does: it is asked to, or killed, or goes on. Nothing happens when there is none, or it is closed. */
int turn_call_close(struct turn *t, const struct act_row *act,
                    const struct call_job *call) QP_MUST_USE;
/* Whether a call of this activity (t->site) with this id would be refused: another job has the id. */
int turn_call_is_taken(struct turn *t, qp_str addr, qp_str jid, bool *out_taken) QP_MUST_USE;
/* Whether this answer is the end of the call with this purpose: a detached call with a close policy answers, too. */
int turn_is_call_end(struct turn *t, qp_str purpose, bool *out_is) QP_MUST_USE;

/* Takes back a message of this job that is not claimed: *out_gone. A task that a worker has in hand stays, and its worker may
 * learn that the task is not needed any more. */
int turn_withdraw(struct turn *t, qp_str guid, bool *out_gone) QP_MUST_USE;
/* The GUID of what an activity of this job waits for by itself: of its task, or of its timer with this purpose. */
int turn_guid_of(struct turn *t, const struct act_row *act, qp_str purpose,
                 qp_str *out_guid) QP_MUST_USE;
/* Outside of steps: as spawn.notify says. */
int turn_notify(struct turn *t, const struct op_act_notify *notify) QP_MUST_USE;

/* The GUID of something outside of the job. GUIDs within a job are its own: they follow from addresses, or from
 * what a sender gave, and another job may well have the same. */
int turn_guid(struct turn *t, qp_str purpose, qp_str *out_guid) QP_MUST_USE;

/* Any step: more that commits with it. */
int turn_op(struct turn *t, const struct op *op) QP_MUST_USE;
int turn_data_put(struct turn *t, qp_str name, qp_str value) QP_MUST_USE;
/* An answer to another activity of the same job, or to this one: a Leg2 entry there, by a GUID that follows from this
 * turn's and the purpose. It brings no obligation, unless the program's spawn says so of both. It is carried out when
 * this step's digits and children stand: in the same commit, if the target's Leg1 is done and the limits of fusing allow
 * it, else by a message. A program must not depend on which. If the target is over, or the job closed, it is late and
 * brings nothing. A step that runs again finds the target's GUID, whose ledger says what is left. */
struct answer_at {
    qp_str addr;
    qp_str purpose;
    int64_t code;
    qp_str payload;
    bool each; /* one step answers several with this purpose: the address is part of the GUID */
    /* Never a message: it commits with this step, whatever the limits of fusing say, and in a suspect's step too. For
     * entries whose work and spawn only keep what they got. Its row must be there (QP_E_NOT_FOUND); if its Leg1 is still to
     * come, that commits here as well. More ops than a bundle may have: QP_E_LIMIT. */
    bool now;
    qp_ms at; /* with `now`, of one that is copied from another job: when it came there; 0: now */
};
int turn_answer_at(struct turn *t, const struct answer_at *answer) QP_MUST_USE;
/* The usual case of it. */
int turn_send(struct turn *t, qp_str addr, qp_str purpose, int64_t code,
              qp_str payload) QP_MUST_USE;
/* A journal entry of this activity; kind: from KERNEL_EVENTS on, the program's own. */
int turn_event(struct turn *t, int64_t kind, qp_str detail) QP_MUST_USE;

/* Journal entries of the kernel: event_row.kind (store/event.h), whose facts say the rest. They stand as numbers in the
 * views of SQL (store/sqlite/sql.c). */
enum kernel_event {
    EVENT_NONE = 0,   /* no row of its own: an activity was entered, or answered */
    EVENT_FAILED = 1, /* an attempt of a worker: attempt, worker, error; until: the next one */
    EVENT_WAITS = 2,  /* for a signal, a time, or both: topic, key; until */
    EVENT_CALLED = 3, /* another job: topic, job; until: when it begins, if that is later */
    EVENT_FORKED = 4, /* this job was made from another: job */
    EVENT_REFUSED =
        5, /* a signal of this job to another: topic, its name; job; error. Or a start by its publication */
    EVENT_PUBLISHED = 6, /* a publication (store/event.h) */
    KERNEL_EVENTS = 100
};
/* One of them, about this activity; EVENT_FORKED: about the job. */
int turn_note(struct turn *t, enum kernel_event kind, const struct event_facts *facts) QP_MUST_USE;
/* An activity waits: at a hook (topic none: at none), until a time (delay_ms 0: without end). */
int turn_note_wait(struct turn *t, qp_str topic, qp_str key, qp_ms delay_ms) QP_MUST_USE;

/* Step 2 or 3: the job publishes. An entry of its journal says so, and a workflow with the topic as its name starts a job, of an id
 * that follows from this step: all in this commit. One publication of a step in between, and one at the end. */
int turn_publish(struct turn *t, const struct publication *publication) QP_MUST_USE;

/* The code of an answer after which others will come: who waits goes on waiting. */
#define CODE_PENDING 202

/* A signal to whoever waits at (topic, key), delivered or kept in this commit. */
struct turn_signal {
    qp_str topic;
    qp_str key;
    qp_str payload;
    int64_t code; /* 0: 200 */
    qp_ms ttl_ms; /* how long it is kept when nobody waits; 0: not at all */
    bool out_delivered;
    bool out_kept;
    bool out_full; /* nobody waits, and no more is kept for this key: nothing was sent */
};
int turn_signal(struct turn *t, struct turn_signal *signal) QP_MUST_USE;

/* Step 2: a signal to one job, by a message of its own, so that this commit takes no row of that job. `workflow` none:
 * `job` is its id; else the custom id of an open job of this workflow. When the message is delivered, the signal reaches
 * the activity that listens, or is kept (signal_job.h). A job that is unknown, closed or has too many kept leaves the
 * entry EVENT_REFUSED in the history of this one. One per (activity, name, job). */
struct turn_signal_job {
    qp_str workflow;
    qp_str job;
    qp_str name;
    qp_str payload; /* JSON */
};
int turn_signal_job(struct turn *t, const struct turn_signal_job *signal) QP_MUST_USE;

/* A signal to all that wait at the topic now; with an attribute: to those whose job has it with this value. */
struct turn_signal_all {
    qp_str topic;
    qp_str payload;
    int64_t code; /* 0: 200 */
    qp_str attribute;
    qp_str value;
};
int turn_signal_all(struct turn *t, const struct turn_signal_all *signal) QP_MUST_USE;

/* The job that awaits this one is answered now, and gets no further answer: its end has the same GUID. */
int turn_answer_parent(struct turn *t, int64_t code, qp_str payload) QP_MUST_USE;
/* An answer of code CODE_PENDING: the activity that awaits this job goes on waiting. One of each step. */
int turn_answer_parent_between(struct turn *t, qp_str payload) QP_MUST_USE;
/* Before that answer: the activity that awaits this job gets a notice, whose GUID follows from the call and the purpose, which
 * differs from notice to notice. Notices may overtake each other and the answer, so each says what it is of. Nothing happens when
 * no activity awaits this job, or the caller is closed. */
struct parent_notice {
    qp_str purpose;
    int64_t code; /* enum notice, or the program's own from NOTICE_KINDS on */
    qp_str payload;
};
int turn_tell_parent(struct turn *t, const struct parent_notice *notice) QP_MUST_USE;
/* NOTICE_LATE of this activity, late_ms from now (0, or more than LIMIT_TIMER_MS: never), for an attempt that no claim begins; and
 * taken back, whatever put it, since the attempt is over. One that is on its way comes all the same. */
int turn_late_set(struct turn *t, int64_t attempt, qp_ms late_ms) QP_MUST_USE;
int turn_late_clear(struct turn *t, int64_t attempt) QP_MUST_USE;
/* Another job of the namespace ends, out of its turn; nothing happens when there is none, or it is closed. */
int turn_end_other(struct turn *t, qp_str jid, enum job_state state, qp_str error,
                   bool descend) QP_MUST_USE;

/* Step 2: one child more, one generation below, by its name, with its input. */
int turn_child(struct turn *t, qp_str name, qp_str input) QP_MUST_USE;
/* A child at an address of the program's choice, in two steps. Step 1 makes its row, as `row` says: ledger 0, its parent is
 * this GUID, no count moves; `describe` is never asked for it. If the address is taken, the step stops with QP_E_DONE. Step
 * 2 enters it, as turn_child does: n, the GUID of its ENTER and fusing are the same. A row that no step 2 enters owes
 * nothing. */
int turn_row(struct turn *t, const struct op_act_create *row) QP_MUST_USE;
int turn_child_at(struct turn *t, qp_str addr) QP_MUST_USE;
/* Step 2: arrives at a gate, an activity that waits until all `ways` to it have arrived, or will not be
 * taken any more. It owns a scope of the semaphore: whoever is the first to say something of it spawns the gate
 * with its input and opens the scope at `ways`, and when that falls to 0 the gate gets an answer. One step may
 * arrive at several gates, and several times at one.
 *
 * delta  how the count moves: -k: so many ways end here; k: so many more come to be (another round of
 *        a cycle, a pending reply); 0: nothing happens
 * live   one of those that end here brings something. Whether anybody did is for the gate to know: what its
 *        own input says of the first, or that the job has data of the name ARRIVED_LIVE and its address
 * any    the first live one is enough: the scope closes with it, and what comes later moves nothing */
struct arrival {
    qp_str addr;
    qp_str
        purpose; /* none: the gate's own scope. Else a further one of a gate that is there, which is opened alone */
    int64_t ways;
    int64_t delta;
    bool live;
    bool any;
    qp_str input;
};
#define ARRIVED_LIVE "live:"
int turn_arrive(struct turn *t, const struct arrival *arrival) QP_MUST_USE;
/* Whether this turn of a gate is the edge of the scope with this purpose, which a live arrival has opened. */
int turn_is_edge(struct turn *t, qp_str purpose, bool *out_is) QP_MUST_USE;

/* A gate at an address with GATE_MARK (address.h) runs the activities behind it (level.c, ADR 46).
 *
 * turn_born, step 2: a child of category A, at an address behind its gate's, which is there or spawned by this step. It is
 * born with its Leg1 done and waits for the gate: one row, no ENTER, and neither `describe` nor `enter` is asked. It counts as a child. A taken address stops
 * the step with QP_E_DONE; more than LIMIT_CHILDREN_BORN children: QP_E_LIMIT.
 *
 * turn_range, any step: the activities whose addresses begin with `below`, which is not among them, and come after
 * `after` (none: the first), in order. There may be more when `limit` came, or when it is cut.
 *
 * turn_level, step 2 of a gate: the open ones of a page of its activities are answered, in order and in this commit, with
 * code 200 and the phase as payload. Their steps must not wait for the gate's own commit, and their order is that of
 * their addresses whatever the size of a page. Then the gate itself gets {"phase":PHASE,"after":ADDRESS}: with
 * CODE_PENDING, call turn_level again with both; with 200 the last page is through. An item that cannot end here answers
 * with CODE_PENDING, and something else than the gate must wake it; one that is to be answered again by a later phase of
 * the gate is pending with another code. */
struct level_page {
    qp_str
        phase; /* a word of small letters, other than "level": keeps the answers of several runs apart */
    qp_str after;
    size_t limit; /* 1 to LIMIT_LEVEL_ITEMS */
};
int turn_born(struct turn *t, const struct op_act_create *row) QP_MUST_USE;
int turn_range(struct turn *t, qp_str below, qp_str after, size_t limit,
               struct bundle_rows *out_acts) QP_MUST_USE;
int turn_level(struct turn *t, const struct level_page *page) QP_MUST_USE;

/* False when this turn has had its time while others wait: a step that goes through many rows ends its page, after at
 * least one, and sends itself a message for the rest. Where a page ends must change nothing. */
bool turn_has_time(struct turn *t);

/* Step 2 without children: an answer with an error code ends the job as failed. */
int turn_spawn_nothing(struct turn *t);

/* One failed attempt more on the activity's row, with its error in the one shape (error.h). Every answer of code >= 400
 * is counted by step 1; this is for attempts that are no answers, and for errors of step 2. */
int turn_failed(struct turn *t, int64_t code, qp_str error) QP_MUST_USE;

/* Step 2: all children, arrivals and answers that were named are taken back. */
void turn_forget(struct turn *t);

/* Step 2: the job ends here, through the one completion path; and the jobs that it has called with it. */
void turn_fail(struct turn *t, enum job_state state, qp_str error);
void turn_descend(struct turn *t);

#endif

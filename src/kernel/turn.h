/* turn.h - one message's turn, as the engine runs it
 *
 * What a program is, and what it may call in a turn, is program.h. This is the other side: the kinds of messages, the
 * turns that the engine begins, and what they leave for it to do after the commit.
 *
 * Fused and stepwise. A first delivery takes all its steps in one bundle, and its children their
 * Leg1 with it, as long as LIMIT_FUSE_OPS, _SIZE and _DEPTH allow; further children become
 * ENTER messages. A message that is suspect (delivered before, and not finished) goes one step per
 * commit, entry mark first, and fuses nothing: if one of its steps kills the engine, the marks say
 * which. The digits end the same.
 *
 * If we crash before a turn's commit, nothing of it happened and the message is delivered again.
 * If we crash after it, the GUID's ledger says what was done, and the next turn of the same GUID
 * goes on from there (step_next), whether the job is still open or not (H2).
 */
#ifndef QP_KERNEL_TURN_H
#define QP_KERNEL_TURN_H

#include "kernel/message.h"
#include "kernel/program.h"

struct faces;

/* Both stand as numbers in the index of what is on its way (store/rows.def). */
static_assert(MESSAGE_ANSWER == 0 && CODE_PENDING == 202, "the index holds pending answers");

/* A task that is claimed for a worker of this process: born so (put), or from its stream (message). */
struct handed {
    struct handed *next;
    void *place;                  /* at a worker, as `reserve` gave it */
    void *seat;                   /* the owner of the place, if it tells them apart */
    const struct op_msg_put *put; /* until the bundle is over */
    const struct msg_row *message;
    const struct act_row *act;
    qp_str jid;
    qp_str workflow;
    int64_t kind; /* of the job */
    qp_str topic;
    qp_str guid;
    qp_str progress; /* what the delivery before sent last; none */
    int64_t token;
    int64_t tries;
    int64_t priority;
    qp_ms until; /* when its lease, or the first of its time limits, is over; 0: never */
};

/* A task that a worker has in hand and that is not needed any more. */
struct told_task {
    struct told_task *next;
    struct job_ref job;
    qp_str guid;
};

/* A job that was parked, for the log and for those who wait for its end. Its texts live as long as the commit. */
struct parked_job {
    struct parked_job *next;
    struct job_ref job;
    qp_str jid;
    qp_str workflow;
    const char *why;
};

/* What a turn leaves for the engine to do after the commit. Set anew in every run of it. */
struct outcome {
    struct handed *handed;
    struct job_ref ended; /* job 0: none ended */
    enum job_state ended_state;
    qp_str ended_workflow;
    qp_ms ended_since;         /* when it was started */
    int64_t dead_letters;      /* tasks that became dead letters */
    struct parked_job *parked; /* and the jobs that this has parked */
    struct told_task *told;    /* tasks that this has made needless */
    bool late;                 /* the job was over, or the activity: nothing was done */
    bool more;                 /* stepwise: there are steps left */
    bool later; /* the commit had enough already: nothing was done, it comes with the next */
};

/* What comes with a place at a worker. */
struct reservation {
    qp_ms lease_ms;      /* 0: as long as the run lasts */
    bool program_leases; /* likewise: but the program says a lease, if it has one */
    void *seat;          /* which of its places, if it tells them apart */
    qp_str worker;       /* its name, until the round is committed; none: it has none */
};

/* What the kernel needs of its engine while it decides. */
struct kernel {
    const struct program *const *programs;
    size_t program_count;
    struct ceilings ceilings;
    struct faces *faces; /* what names mean (face.h); NULL: a start says its kind itself */
    int64_t epoch;
    bool stepwise; /* nothing is fused, and results go through the stream; for tests */
    /* When the bundle that is being decided begins nothing more that may come later (slice.c); 0: never. And whether
     * something was put off for that. */
    int64_t until_us;
    bool was_cut;
    int64_t cut_us; /* and when, for the first time */
    qp_ms
        keep_ms; /* how long finished jobs are kept, unless the program says otherwise; 0: for ever */
    /* Counts a place at a worker of a topic; NULL: none. It may be called again, for a decision that is made again,
     * and does no I/O. */
    void *context;
    void *(*reserve)(void *context, int64_t ns, qp_str topic, struct reservation *out_reserved);
};

/* Something was put off: the time is over. */
static inline void kernel_cut(struct kernel *k, int64_t now_us)
{
    k->cut_us = k->was_cut ? k->cut_us : now_us;
    k->was_cut = true;
}

/* A turn on an activity of a job; loads the job. QP_E_NOT_FOUND: no such job, or no program serves its
 * kind. */
int turn_init(struct turn *t, struct kernel *k, struct bundle *b, struct outcome *outcome,
              const struct site *site) QP_MUST_USE;

/* Leg1 of the activity, by the message with the site's GUID. t->payload is its input. */
int turn_enter(struct turn *t) QP_MUST_USE;
/* Leg2 of the activity, by the GUID of the site; t->code, t->payload are what it brings. */
int turn_answer(struct turn *t) QP_MUST_USE;
/* A notice to the activity: its program takes it, or it is late. */
int turn_notice(struct turn *t) QP_MUST_USE;
/* A task was claimed in this bundle, by `by`: the notices that the program of its kind names are put (program.claimed). */
struct task_claim {
    int64_t kind; /* of its job */
    const struct act_row *act;
    struct msg_ref by;
    int64_t priority;
    bool program_leases; /* the worker is elsewhere, and has the lease that the program says */
};
int turn_claimed(const struct kernel *k, struct bundle *b,
                 const struct task_claim *claim) QP_MUST_USE;
/* The answers that were named outside of a step (turn_answer_at) are carried out. */
int turn_answers(struct turn *t) QP_MUST_USE;
/* The job ends out of its turn; the site's GUID, on the trigger's row, becomes the owner of the edge. With
 * `descend` the jobs that it has called end, too, and those that they have. */
int turn_end_job(struct turn *t, enum job_state state, qp_str error, bool descend) QP_MUST_USE;
/* The job is asked to end: its kind ends it in its own way (face.cancel), or it ends at once, cancelled. */
int turn_cancel_job(struct turn *t, qp_str error, bool descend) QP_MUST_USE;

/* A new job: inception, the opening of the semaphore, its first children, in one or in steps.
 * QP_E_EXISTS: it is there with the same body; QP_E_CONFLICT: with another. */
struct start {
    struct op_job_create job; /* number, jid, kind, workflow, ...; owner and body are derived */
    qp_str input;
    qp_str policy; /* stands on the trigger's row, for the program to read */
    bool fresh;    /* the id was just made: nobody else can have it */
    bool derived;  /* nobody chose the id: a name may give another, as when it is fresh */
    bool
        by_message; /* it begins in a later commit, and leaves nothing in the outcome of this one */
    qp_ms
        delay_ms; /* 0: it begins now; else a START message begins it, and it is WAITING until then */
    /* After its inception, before its first step, in the same commit; NULL: nothing. Not of one that begins later. */
    int (*incepted)(void *context, struct turn *t);
    void *context;
    bool pending; /* it is paused from its birth, and begins when it is resumed */
    qp_str salt;  /* more of what is to be done than workflow and input say; none */
};
/* What is to be done, as a hash: two starts with one id are the same if theirs are. */
int start_hash(struct bundle *b, const struct start *start, qp_str *out_hash) QP_MUST_USE;
int turn_start(struct turn *t, struct kernel *k, struct bundle *b, struct outcome *outcome,
               const struct start *start) QP_MUST_USE;

/* A START message: the rest of the inception, and on from there. The turn's GUID is the job's owner, the
 * payload its input. */
int turn_begin(struct turn *t) QP_MUST_USE;

#endif

/* engine.h - the loop: collect, decide, commit, answer
 *
 * An engine is one run of a node on a store. A ROUND collects what there is to do, decides it
 * inside one transaction, commits, and only then answers:
 *
 *   commands   from outside: starts, results of workers, signals; each one bundle
 *   deliveries messages of the engine's stream, claimed by the commit of the round before: each one bundle
 *   chores     what is due by the store's clock, retention, the claims of the next round
 *
 * Messages are decided for a slice of time, so that commands beside them are answered soon; the rest comes with the next
 * round (slice.c).
 *
 * Crashes are counted. A message is claimed, and its try written, in the commit before the one that
 * works on it; the same commit names the batch in the node's row (the intent). A first delivery is
 * worked on with all others, its steps fused. A message that comes with more than one try was in the hands
 * of somebody who died or failed: it is suspect, and goes alone, one step per commit, entry mark first. After
 * `max_deliveries` it is a dead letter and its job is parked, while everything else goes on.
 *
 * Tasks for workers of this process are claimed at birth by this run. A run that ends, or whose
 * lease is over, holds nothing more: others take up what it held, with a higher token and try, and its
 * own answers are refused.
 *
 * If we crash before a round's commit, it was never begun: the batch is still named, and suspect.
 * If we crash after it and before the answers, all of it stands; whoever waits asks again and is told so.
 *
 * With a writer two rounds overlap: one is decided, on rows as they will be, while the one before it is
 * written. Answers come in order, each after its own commit. If the first fails, so does the second, since
 * what it was decided on is not there.
 *
 * Deterministic: with the same store, the same env and the same commands it does the same. One
 * thread at a time.
 */
#ifndef QP_KERNEL_ENGINE_H
#define QP_KERNEL_ENGINE_H

#include "kernel/turn.h"

struct engine;

#define ENGINE_ROUNDS 2 /* one is written while the next is decided */

/* A task in the hands of this process: one block of memory, task_free. */
struct task {
    struct task *next;
    struct service *service;
    void *seat; /* as service.promise gave it */
    struct msg_ref ref;
    qp_str topic;
    qp_str jid;
    qp_str workflow;
    int64_t kind; /* of its job */
    qp_str addr;
    qp_str input;
    qp_str policy;    /* of retries (retry.h) */
    qp_str progress;  /* JSON that a delivery before sent last; none */
    int64_t tries;    /* deliveries, this one included */
    int64_t failures; /* errors that were reported before */
    int64_t priority; /* 0 is the first */
    qp_ms waited_ms;  /* since its message was put */
    qp_ms until;      /* when its lease, or the first of its time limits, is over; 0: never */
    unsigned char guid[LIMIT_GUID_SIZE];
};
void task_free(const struct qp_env *env, struct task *task);

/* Whether a task goes to a worker of this build. */
struct worker_test {
    const struct faced *of; /* the kind of its job */
    qp_str note;            /* on the task (RESULT_BACK) */
    qp_ms now;
};
bool worker_takes(const struct worker_test *test, qp_str build);

/* Who takes the tasks of a topic. `room` is how many more it takes; the engine counts it down, the
 * owner up. Or its places are told apart, and some of them may be places of other services, too: then
 * `places` and `promise` are asked in place of `room`. Both are called inside of decisions, which may be made again:
 * they count, and do no I/O. `give` chooses the receiver, after the commit. */
struct service {
    int64_t ns; /* 0: any namespace */
    qp_str topic;
    qp_ms lease_ms; /* 0: as long as this run */
    int64_t room;
    void *context;
    void (*give)(void *context, struct task *task);
    size_t extra_size; /* bytes behind the struct task that are the owner's; zeroed */
    /* How many places are free, `most` at most. Counts one for a task of this round, and names its owner: `give`
     * asks that one first. engine_options.settled ends what a round, or a try of its commit,
     * has counted. *out_worker is the name of the worker whose place it is, until then. With a test only places of workers
     * that pass it count. NULL: see room. */
    int64_t (*places)(void *context, int64_t most);
    void *(*promise)(void *context, int round, const struct worker_test *test, qp_str *out_worker);
    int64_t promised[ENGINE_ROUNDS]; /* in rounds that are not answered yet */
    bool pushes;                     /* it is served by rounds, and not only claimed from */
    int64_t whole;                   /* room when nothing is in hand */
    bool
        program_leases; /* what a claim's program says is the lease (struct claim_notices); without a word it is lease_ms */
    bool held_back;             /* a task that has one try left waits until it can be alone */
    bool holds_back;            /* the same, in a round that may not be committed yet */
    bool drained;               /* nothing more was in the stream, in that round */
    bool looked[ENGINE_ROUNDS]; /* the round has looked into the stream, if it is committed */
    bool wants_messages;        /* there may be something in the stream */
    uint64_t bit;               /* of its topic: topic_bit */
    struct service *next;
    struct service *next_in_slot;
};

/* Something from outside that wants to be one bundle. It is the engine's until it is answered. */
struct command {
    struct command *next;
    const char *label;
    int (*decide)(struct engine *e, struct command *c, struct bundle *b);
    /* After the commit, with the bundle's code or the commit's. */
    void (*answer)(struct engine *e, struct command *c, int rc, const char *why);
    struct engine *engine;
    struct job_ref job; /* that it is about, if that is known beforehand */
    struct outcome outcome;
    struct bundle *bundle;
    bool again; /* it was refused once, perhaps because our run was over */
};

struct engine_options {
    struct store *store;
    const char *name;
    qp_ms lease_ms; /* of the run; 0: nobody else works on this store, the run lasts till it ends */
    qp_ms keep_ms;  /* finished jobs; 0: for ever */
    qp_ms feed_ms;  /* how long the feed goes back; 0: LIMIT_FEED_MS */
    int64_t max_deliveries; /* 0: LIMIT_DELIVERIES */
    int64_t batch;          /* messages per round; 0: LIMIT_ROUND_MESSAGES */
    int64_t slice_us;  /* 0: LIMIT_SLICE_US; -1: none, all that may come later does; for tests */
    int64_t elsewhere; /* bundles that make a commit worth a writer; 0: the usual number */
    struct ceilings ceilings;
    const struct program *const *programs; /* beside those of the faces */
    size_t program_count;
    struct faces
        *faces;    /* the kinds of jobs (face.h); NULL: a start says its kind itself. They outlive
                          * the engine */
    bool stepwise; /* all messages go step by step; for tests */
    void *context;
    /* after the commit that completed a job */
    void (*ended)(void *context, struct job_ref job, enum job_state state);
    /* Behind a commit: a task of an open job is not needed any more, and its worker may be told. May be NULL. */
    void (*told)(void *context, struct job_ref job, qp_str guid);
    /* after the commit that parked a job: it does not end until a person helps. May be NULL */
    void (*parked)(void *context, struct job_ref job);
    /* The same with more of it, for who counts: before `ended`. May be NULL. */
    void (*finished)(void *context, const struct outcome *outcome, qp_ms now);
    /* A round is over, committed or not, before anybody is given anything; or it is decided again. May be NULL. */
    void (*settled)(void *context, int round);
    /* After the commit that has reported a lost lease or a time limit (lost.c): the task is no longer its holder's.
     * May be NULL. */
    void (*lost)(void *context, const struct msg_ref *task);
    /* What the run says to others about its workers (node_row.serving), in the arena; with every renewal of its lease.
     * May be NULL. */
    int (*serving)(void *context, struct arena *arena, qp_str *out_bytes);
    /* After a commit, before its answers: every journal entry that it made, while somebody listens. May be
     * NULL. */
    void (*journaled)(void *context, const struct feed_entry *entry);
};

/* Enters a new run. With lease 0 all former runs are over, and what they held is ready again. */
int engine_open(const struct engine_options *options, struct engine **out_engine,
                struct qp_err *err) QP_MUST_USE;
/* The run's lease is renewed with the next round, if it has one: there is something new to say with it. */
void engine_renew(struct engine *e);
/* Leaves: what it still holds goes back. Commands that wait are answered QP_E_CLOSED. */
int engine_close(struct engine *e, struct qp_err *err);
/* As if the process had died: nothing is written. For tests. */
void engine_abandon(struct engine *e);

void engine_serve(struct engine *e, struct service *s);
/* Whether anybody wants to hear of journal entries; at first nobody does. */
void engine_listen(struct engine *e, bool listens);
/* Not while a round is open that has promised it something. */
void engine_unserve(struct engine *e, struct service *s);
void engine_submit(struct engine *e, struct command *c);

/* One round. QP_OK: *out_busy says whether there is more to do at once. Another code: the store
 * failed; of class RETRY: come again later; else the engine is done for. */
int engine_round(struct engine *e, bool *out_busy, struct qp_err *err) QP_MUST_USE;
/* How long the driver may still wait for a command before the next round, which would be one of messages; at most 0: it
 * should not. */
int64_t engine_linger_us(const struct engine *e);
/* Rounds until there is nothing more to do now. */
int engine_settle(struct engine *e, struct qp_err *err) QP_MUST_USE;

/* Lends the engine a thread that writes, so that a round is decided while the one before it is being
 * written (store.h). NULL: there is none any more; the engine must be at rest. */
void engine_use_writer(struct engine *e, const struct store_writer *writer);
/* Whether something was decided that is not answered yet: engine_round must be called again, at the
 * latest when the writer is done. */
bool engine_is_writing(const struct engine *e);
/* Until nothing is. */
int engine_rest(struct engine *e, struct qp_err *err) QP_MUST_USE;

/* Others may have put something: the next round looks for it. Without it the engine looks by itself, every
 * LIMIT_LOOK_MS, where it is not alone on its store. */
void engine_look_again(struct engine *e);

/* When the next round is due by itself (store time); INT64_MAX: never. */
qp_ms engine_deadline(const struct engine *e);

struct kernel *engine_kernel(struct engine *e);
struct store *engine_store(struct engine *e);

/* A number for a new job. */
int engine_number(struct engine *e, int64_t *out_number, struct qp_err *err) QP_MUST_USE;

/* In a decided bundle: up to `room` tasks of the service's topic, claimed, handed out after the commit. */
int engine_claim(struct engine *e, struct bundle *b, struct service *s, int64_t room,
                 struct outcome *o) QP_MUST_USE;

/* One op in a commit of its own, between rounds; what it put out is copied back. */
int engine_op(struct engine *e, struct op *op, struct qp_err *err) QP_MUST_USE;

struct engine_stats {
    int64_t rounds;
    int64_t commits;
    int64_t bundles;  /* in these commits */
    int64_t late;     /* messages that came when all was over */
    int64_t suspects; /* deliveries that went step by step */
    int64_t dead_letters;
    int64_t stale;                 /* answers of tasks and messages that were no longer ours */
    int64_t runs_ended;            /* of others, that this one has taken over */
    int64_t leases;                /* of tasks, that have ended without a word */
    int64_t timeouts[TIME_LIMITS]; /* time limits of tasks that were over */
    bool tidies; /* this one does the housekeeping: the last time it was due, it did */
};
struct engine_stats engine_stats(const struct engine *e);

#endif

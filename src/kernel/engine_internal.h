/* engine_internal.h - the parts of an engine: the round, its deliveries, its runs */
#ifndef QP_KERNEL_ENGINE_INTERNAL_H
#define QP_KERNEL_ENGINE_INTERNAL_H

#include "base/log.h"
#include "base/mem.h"
#include "kernel/chores.h"
#include "kernel/engine.h"

/* A message of the engine's stream in hand.
 *
 *            claim            all steps done, ack
 *   (stream) ------> WORK ------------------------> (gone)
 *                    |  |  failed                        retry
 *                    |  +---------> FAILED -------------------> (stream, later)
 *                    |  too often, or at a ceiling       dead
 *                    +------------> POISON --------------------> (dead letter, job parked)
 */
enum delivery_state { DELIVERY_WORK, DELIVERY_FAILED, DELIVERY_POISON };

struct delivery {
    struct delivery *next;
    struct engine *engine;
    struct msg_row *row; /* a copy of its own */
    enum delivery_state state;
    bool suspect;
    bool begun; /* its try is written; a first delivery is counted by its claim */
    bool entered;
    int failure; /* the code that it failed with */
    struct outcome outcome;
    struct bundle *bundle; /* in the round that is being decided */
};

/* What one commit works on. Without a writer there is one at a time. With one, the rounds overlap:
 *
 *           collect, decide          the one before is through       the writer is done
 *   (none) ----------------> open --------------------------> writing ----------------> answered
 *             |          ^
 *             +----------+ while the writer works, what arrives joins the open round
 *
 * Only a round that needs nothing of the store but rows that are known is written elsewhere; one that
 * claims, or looks for what is due, waits for the one before it and is ended at once. */
struct round {
    struct engine *engine;
    struct commit commit;
    int place;        /* of the two */
    int promised_try; /* of the commit: what was promised in an earlier one is over */
    struct command *commands;
    struct command *last_command;
    struct delivery *batch;
    struct delivery *last_delivery;
    struct op_msg_claim *claim; /* of the engine's stream */
    int64_t *tries;             /* of what it claimed */
    struct bundle *claimed;
    struct outcome served; /* tasks that were claimed from their streams */
    struct bundle *serving;
    struct bundle *waking;
    struct bundle *tidying;
    struct bundle *renewing;
    struct op_wake *wake; /* what was due */
    struct housekeeping housekeeping;
    bool more;      /* due things are left */
    bool postponed; /* a message had no time, or no room, in this commit */
    qp_ms now;
    int64_t began_us;
};

#define SERVICE_SLOTS 256 /* a power of two */

struct engine {
    struct qp_env env;
    struct store *store;
    struct commit commit; /* of single ops */
    struct round rounds[ENGINE_ROUNDS];
    struct round *open;
    struct round *writing;
    bool overlaps; /* there is a writer */
    bool listens;  /* to journal entries */
    struct kernel kernel;
    struct engine_options options;
    const struct program *programs[LIMIT_PROGRAMS];
    qp_ms renew_at;      /* the run's lease */
    qp_ms wake_at;       /* nothing is due before */
    qp_ms look_at;       /* what others have put is looked for */
    qp_ms feed_at;       /* with a round that there is anyway: whether the feed is too long */
    bool wants_messages; /* there may be messages in the engine's stream */
    bool looked;         /* and what runs that are over left there was claimed */
    bool over;           /* the run was ended by somebody else: a new one must be entered */
    bool alternate;      /* the last round was a suspect's */
    int failed;          /* QP_OK, or why nothing goes any more */
    qp_ms blame_from;    /* leases that ran out before are nobody's fault */
    struct loss *losses; /* that are being reported */
    struct command *commands;
    struct command *last_command;
    size_t command_count;
    struct delivery *batch;
    struct delivery *last_delivery;
    struct service *services;
    struct service *slots[SERVICE_SLOTS]; /* the same, by topic */
    int64_t next_number;
    int64_t last_number;
    int64_t commands_us; /* when the last command was collected (slice.c) */
    int64_t others_us;   /* that commits without messages took, since the last one with them */
    int64_t turns;       /* such commits that left messages for the next one */
    int64_t turn_ended_us;
    int64_t slice_from_us;
    int64_t slice_share; /* of a commit with messages, for deciding them; 0: not known */
    struct engine_stats stats;
};

/* Whether nobody else works on the store. */
static inline bool engine_is_alone(const struct engine *e)
{
    return e->options.lease_ms == 0;
}

/* What the store said about a commit, or else what the code means. */
static inline const char *commit_text(const struct commit *c, int rc)
{
    return c->err.text[0] != '\0' ? c->err.text : qp_code_text(rc);
}

/* queue.c: at the end of the queue; at the end of the batch, or its front. */
void commands_add(struct engine *e, struct command *c);
void batch_add(struct engine *e, struct delivery *d);
void batch_put_back(struct engine *e, struct delivery *d);
/* collect.c: the first of a round: a suspect alone, or what is due and whatever else there is; further commands; and what is
 * ready, last, so that it sees what this round has put. */
void round_collect(struct round *r);
void round_join(struct round *r, size_t most);
void round_claim(struct round *r);

/* slice.c: how long a round decides messages. The round has its commands: whether its messages wait for the next one.
 * A command is about to be decided; a message, which is not when false. The round is over. */
bool slice_waits(struct round *r);
void slice_command(struct engine *e);
bool slice_message(struct engine *e, const struct delivery *d);
void slice_end(struct round *r);

/* answer.c: its commit is done; or nothing of it happened, or nobody knows. */
int round_answer(struct round *r, struct qp_err *err) QP_MUST_USE;
int round_failed(struct round *r, int rc, struct qp_err *err) QP_MUST_USE;
/* Answers every command of a list. */
void commands_fail(struct engine *e, struct command *first, int rc, const char *why);

/* engine_op.c: what is decided is committed, and will be answered by the next round: an op of its own stands on
 * nothing that may still fail. */
void rounds_commit(struct engine *e);

/* outcome.c: carries out the bundle, and takes what the outcome needs of it. */
int outcome_seal(struct outcome *o, struct bundle *b) QP_MUST_USE;
/* Begins an outcome. True: the commit is as large as it should be, and this one is left for the next. */
bool outcome_later(struct outcome *o, const struct bundle *b);

/* delivery.c: the decision on one message; what comes of it after the commit. */
struct delivery *delivery_new(struct engine *e, const struct msg_row *row, int64_t tries);
void delivery_free(struct delivery *d);
int delivery_decide(void *context, struct bundle *b) QP_MUST_USE;
/* True: it stays in the batch for another round. */
bool delivery_after(struct delivery *d, int rc);
/* A dead letter, and its job parked. */
int message_dead_letter(struct bundle *b, const struct msg_row *m, const char *why,
                        struct outcome *o) QP_MUST_USE;

/* serve.c: tasks for workers. What a round has promised is over. */
void serve_settled(struct engine *e, struct round *r);
void *serve_reserve(void *engine, int64_t ns, qp_str topic, struct reservation *out_reserved);
/* Whether a service has room for what may be in its stream; the claims for all that have. */
bool serve_is_wanted(const struct engine *e);
int serve_claim(struct engine *e, struct bundle *b, struct outcome *o) QP_MUST_USE;
/* Something may have come into the streams of these topics (topic_bit). */
void serve_look_again(struct engine *e, uint64_t topics);
/* After the commit: to each its worker. */
void serve_hand_out(struct engine *e, const struct handed *h);

/* lost.c: leases that ran out. From when on they are their workers' affair, for a wake at `now`; that this is not before
 * a whole lease from now, since beats could not be taken; after the commit of a wake. */
qp_ms lost_blame_from(const struct engine *e, qp_ms now);
void lost_blame_later(struct engine *e);
void lost_note(struct engine *e, const struct op_wake *wake);
void losses_done(struct engine *e);

/* run.c: the run of this node, and those of others. */
int run_enter(struct engine *e, struct qp_err *err) QP_MUST_USE;
int run_end(struct engine *e, int64_t epoch, enum node_state state, struct qp_err *err) QP_MUST_USE;
/* Ends the runs whose lease is over, or with `all` every other one. */
int run_end_others(struct engine *e, bool all, struct qp_err *err) QP_MUST_USE;

#endif

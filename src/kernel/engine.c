/* engine.c - the round (see engine.h)
 *
 *   engine_round:  lease -> collect -> decide, commit -> answer
 *
 *   I1  nobody hears of anything before its commit has returned
 *   I2  a suspect is alone in its commit: if it kills us, nothing else is suspect because of it
 *   I3  the claims of a round come last in its commit, so they see what the round has put
 *   I4  what a round took and could not commit is still there: commands are answered with the
 *       failure, deliveries stay in the batch
 */
#include <stdio.h>

#include "base/failpoint.h"
#include "kernel/engine_internal.h"

static void commands_fail(struct engine *e, struct command *first, int rc, const char *why);

/* Whether nobody else works on the store. */
static bool is_alone(const struct engine *e)
{
    return e->options.lease_ms == 0;
}

/* Small commits are over before another thread has begun with them. */
#define ELSEWHERE_MIN 128

/* ------------------------------------------------------------------------------- open and close */

static void engine_setup(struct engine *e, const struct engine_options *o)
{
    e->env = *store_env(o->store);
    e->store = o->store;
    e->options = *o;
    e->options.max_deliveries = o->max_deliveries > 0 ? o->max_deliveries : LIMIT_DELIVERIES;
    e->options.batch = o->batch > 0 ? o->batch : LIMIT_ROUND_MESSAGES;
    e->options.feed_ms = o->feed_ms > 0 ? o->feed_ms : LIMIT_FEED_MS;
    e->feed_at = store_now(o->store) + LIMIT_FEED_LOOK_MS;
    e->options.elsewhere = o->elsewhere > 0 ? o->elsewhere : ELSEWHERE_MIN;
    e->last_number = -1;
    e->hungry = true;
    for (size_t i = 0; i < o->program_count; i++) {
        e->programs[i] = o->programs[i];
    }
    e->kernel = (struct kernel){.programs = e->programs,
                                .program_count = o->program_count,
                                .ceilings = o->ceilings.leg1 > 0 ? o->ceilings : CEILINGS_DEFAULT,
                                .stepwise = o->stepwise,
                                .keep_ms = o->keep_ms,
                                .context = e,
                                .reserve = serve_reserve};
    commit_init(&e->commit, e->store);
    for (int i = 0; i < ENGINE_ROUNDS; i++) {
        e->rounds[i] = (struct round){.engine = e, .place = i};
        commit_init(&e->rounds[i].commit, e->store);
    }
}

int engine_open(const struct engine_options *options, struct engine **out_engine,
                struct qp_err *err)
{
    const struct qp_env *env = store_env(options->store);
    struct engine *e = mem_alloc(env, sizeof *e);
    int rc;
    QP_ASSERT(options->program_count <= LIMIT_PROGRAMS);
    if (e == NULL) {
        return err_set(err, QP_E_NOMEM, "engine: out of memory");
    }
    engine_setup(e, options);
    rc = run_end_others(e, options->lease_ms == 0, err);
    rc = rc == QP_OK ? run_enter(e, err) : rc;
    if (rc != QP_OK) {
        engine_abandon(e);
        return rc;
    }
    *out_engine = e;
    return QP_OK;
}

void engine_abandon(struct engine *e)
{
    struct qp_env env;
    if (e == NULL) {
        return;
    }
    env = e->env;
    while (e->batch != NULL) {
        struct delivery *d = e->batch;
        e->batch = d->next;
        delivery_free(d);
    }
    commit_done(&e->commit);
    for (int i = 0; i < ENGINE_ROUNDS; i++) {
        commit_done(&e->rounds[i].commit);
    }
    mem_free(&env, e);
}

int engine_close(struct engine *e, struct qp_err *err)
{
    int rc;
    if (e == NULL) {
        return QP_OK;
    }
    commands_fail(e, e->commands, QP_E_CLOSED, "the engine was closed");
    e->commands = NULL;
    rc = e->failed != QP_OK || e->over ? QP_OK : run_end(e, e->kernel.epoch, NODE_LEFT, err);
    engine_abandon(e);
    return rc;
}

void engine_listen(struct engine *e, bool listens)
{
    e->listens = listens;
}

struct kernel *engine_kernel(struct engine *e)
{
    return &e->kernel;
}

struct store *engine_store(struct engine *e)
{
    return e->store;
}

struct engine_stats engine_stats(const struct engine *e)
{
    return e->stats;
}

/* --------------------------------------------------------------------------------- single commits */

/* What the store said about a commit, or else what the code means. */
static const char *commit_text(const struct commit *c, int rc)
{
    return c->err.text[0] != '\0' ? c->err.text : qp_code_text(rc);
}

/* What is decided is committed, and will be answered by the next round: an op of its own stands on
 * nothing that may still fail. */
static void rounds_commit(struct engine *e)
{
    if (e->open != NULL && e->open->commit.state == COMMIT_RUNNING) {
        store_write(e->store, &e->open->commit, false);
    }
    store_settle(e->store);
}

int engine_op(struct engine *e, struct op *op, struct qp_err *err)
{
    struct bundle *b;
    struct op *place;
    int rc;
    rounds_commit(e);
    commit_reset(&e->commit);
    b = commit_bundle(&e->commit, "system");
    place = bundle_op(b, op->kind);
    if (place != NULL) {
        *place = *op;
    }
    rc = store_commit(e->store, &e->commit);
    if (rc != QP_OK) {
        return err_set(err, rc, "%s", commit_text(&e->commit, rc));
    }
    *op = *place;
    return b->rc == QP_OK ? QP_OK : err_set(err, b->rc, "%s", qp_code_text(b->rc));
}

int engine_number(struct engine *e, int64_t *out_number, struct qp_err *err)
{
    int rc = QP_OK;
    if (e->next_number > e->last_number) {
        struct op op = {.kind = OP_ids_reserve, .ids_reserve = {.count = LIMIT_IDS_PER_BLOCK}};
        rc = engine_op(e, &op, err);
        if (rc == QP_OK) {
            e->next_number = op.ids_reserve.out_first;
            e->last_number = op.ids_reserve.out_first + LIMIT_IDS_PER_BLOCK - 1;
        }
    }
    if (rc == QP_OK) {
        *out_number = e->next_number++;
    }
    return rc;
}

/* ----------------------------------------------------------------------------------------- collect */

/* At the end of the queue. */
static void command_add(struct engine *e, struct command *c)
{
    c->next = NULL;
    if (e->last_command == NULL || e->commands == NULL) {
        e->commands = c;
    } else {
        e->last_command->next = c;
    }
    e->last_command = c;
    e->command_count++;
}

void engine_submit(struct engine *e, struct command *c)
{
    c->engine = e;
    c->again = false;
    command_add(e, c);
}

static void batch_add(struct engine *e, struct delivery *d)
{
    d->next = NULL;
    if (e->batch == NULL) {
        e->batch = d;
    } else {
        e->last_delivery->next = d;
    }
    e->last_delivery = d;
}

static void batch_put_back(struct engine *e, struct delivery *d)
{
    d->next = e->batch;
    e->last_delivery = e->batch == NULL ? d : e->last_delivery;
    e->batch = d;
}

static struct command *take_commands(struct engine *e, size_t most)
{
    struct command *first = e->commands;
    struct command *last = first;
    for (size_t i = 1; i < most && last != NULL && last->next != NULL; i++) {
        last = last->next;
    }
    if (last != NULL) {
        e->commands = last->next;
        last->next = NULL;
    }
    return first;
}

/* The first suspect of the batch. */
static struct delivery *take_suspect(struct engine *e)
{
    struct delivery *before = NULL;
    for (struct delivery *d = e->batch; d != NULL; before = d, d = d->next) {
        if (d->suspect && d->state == DELIVERY_WORK) {
            if (before == NULL) {
                e->batch = d->next;
            } else {
                before->next = d->next;
            }
            e->last_delivery = e->last_delivery == d ? before : e->last_delivery;
            d->next = NULL;
            return d;
        }
    }
    return NULL;
}

/* All that are not suspect, or need no work any more. */
static struct delivery *take_batch(struct engine *e)
{
    struct delivery *all = e->batch;
    struct delivery *taken = NULL;
    struct delivery **end = &taken;
    e->batch = NULL;
    while (all != NULL) {
        struct delivery *d = all;
        all = d->next;
        d->next = NULL;
        if (d->suspect && d->state == DELIVERY_WORK) {
            batch_add(e, d);
        } else {
            *end = d;
            end = &d->next;
        }
    }
    return taken;
}

/* ------------------------------------------------------------------------------------------ decide */

/* What the ops have put out is taken before they go. */
int outcome_seal(struct outcome *o, struct bundle *b)
{
    int rc = bundle_run(b);
    for (struct handed *h = o->handed; h != NULL && rc == QP_OK; h = h->next) {
        h->token = h->put != NULL ? h->put->out_token : h->token;
        h->put = NULL;
    }
    return rc;
}

bool outcome_later(struct outcome *o, const struct bundle *b)
{
    *o = (struct outcome){.later = b->commit->arena.total >= LIMIT_ROUND_SIZE};
    return o->later;
}

static int command_decide(void *context, struct bundle *b)
{
    struct command *c = context;
    int rc;
    if (outcome_later(&c->outcome, b)) {
        return QP_OK;
    }
    rc = c->decide(c->engine, c, b);
    return rc == QP_OK ? outcome_seal(&c->outcome, b) : rc;
}

/* What is due by the clock. */
static int wake_decide(void *context, struct bundle *b)
{
    struct round *r = context;
    struct op *op = bundle_op(b, OP_wake);
    int rc;
    if (op == NULL) {
        return b->commit->rc;
    }
    op->wake = (struct op_wake){.limit = LIMIT_WAKE_MESSAGES};
    rc = bundle_run(b);
    r->more = rc == QP_OK && op->wake.out_more;
    r->leases = rc == QP_OK ? op->wake.out_leases : 0;
    return rc;
}

static int tidy_decide(void *context, struct bundle *b)
{
    struct round *r = context;
    struct engine *e = r->engine;
    bool feed = r->now >= e->feed_at;
    return housekeeping_page(b, feed ? bundle_now(b) - e->options.feed_ms : 0, &r->housekeeping);
}

/* What was delivered before is counted when its turn comes (decide_begin). */
static int claim_uncount(struct round *r, struct bundle *b)
{
    size_t count = r->claim->out_count;
    int rc = QP_OK;
    r->tries = arena_alloc(&b->commit->arena, (count + 1) * sizeof *r->tries);
    if (r->tries == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < count && rc == QP_OK; i++) {
        const struct msg_row *m = r->claim->out_messages[i];
        struct op op = {.kind = OP_msg_fence,
                        .msg_fence = {.ref = {m->ns, m->job, m->guid, m->token}, .tries = -1}};
        r->tries[i] = m->tries;
        rc = m->tries > 1 ? step_op(b, &op) : QP_OK;
    }
    return rc;
}

/* The next batch of the engine's stream, named in the node's row. */
static int claim_decide(void *context, struct bundle *b)
{
    struct round *r = context;
    struct engine *e = r->engine;
    char intent[80];
    struct op name = {.kind = OP_node_put,
                      .node_put = {.epoch = e->kernel.epoch, .lease_ms = e->options.lease_ms}};
    struct op *op = bundle_op(b, OP_msg_claim);
    int rc;
    if (op == NULL) {
        return b->commit->rc;
    }
    op->msg_claim = (struct op_msg_claim){
        .topic = ENGINE_TOPIC, .want = e->options.batch, .holder = e->kernel.epoch};
    r->claim = &op->msg_claim;
    rc = bundle_run(b);
    rc = rc == QP_OK ? claim_uncount(r, b) : rc;
    if (rc != QP_OK || op->msg_claim.out_count == 0) {
        return rc;
    }
    (void)snprintf(intent, sizeof intent, "%zu messages, tokens from %lld", op->msg_claim.out_count,
                   (long long)op->msg_claim.out_messages[0]->token);
    rc =
        arena_copy(&b->commit->arena, str_from(intent), &name.node_put.intent) ? QP_OK : QP_E_NOMEM;
    return rc == QP_OK ? step_op(b, &name) : rc;
}

/* Tasks from their streams, for workers that have room. */
static int serve_decide(void *context, struct bundle *b)
{
    struct round *r = context;
    r->served = (struct outcome){0};
    return serve_claim(r->engine, b, &r->served);
}

/* The run's lease, when a third of it is over. */
static void add_renewal(struct round *r)
{
    struct engine *e = r->engine;
    struct op *op;
    if (r->now < e->renew_at) {
        return;
    }
    r->renewing = commit_bundle(&r->commit, "renew");
    op = bundle_op(r->renewing, OP_node_put);
    if (op != NULL) {
        op->node_put =
            (struct op_node_put){.epoch = e->kernel.epoch, .lease_ms = e->options.lease_ms};
    }
}

/* What is due comes first, so that whoever asks in this round finds it. */
static void add_due(struct round *r)
{
    struct engine *e = r->engine;
    if (r->now >= e->wake_at || r->now >= e->feed_at) {
        r->waking = commit_decided(&r->commit, "wake", wake_decide, r);
        r->tidying = commit_decided(&r->commit, "retention", tidy_decide, r);
    }
}

/* What is ready comes last, so that it sees what this round has put. */
static void add_claims(struct round *r)
{
    struct engine *e = r->engine;
    if (serve_is_wanted(e)) {
        r->serving = commit_decided(&r->commit, "serve", serve_decide, r);
    }
    if (e->hungry && e->batch == NULL) {
        r->claimed = commit_decided(&r->commit, "claim", claim_decide, r);
    }
}

static struct bundle *add_transient(struct round *r, const char *label, struct job_ref job,
                                    bundle_decide decide, void *context)
{
    struct bundle *b = commit_decided(&r->commit, label, decide, context);
    if (b != NULL) {
        b->transient = true;
        b->job = job;
    }
    return b;
}

static void commands_join(struct round *r, struct command *first)
{
    for (struct command *c = first; c != NULL; c = c->next) {
        c->bundle = add_transient(r, c->label, c->job, command_decide, c);
        *(r->last_command == NULL ? &r->commands : &r->last_command->next) = c;
        r->last_command = c;
    }
}

static void batch_join(struct round *r, struct delivery *first)
{
    for (struct delivery *d = first; d != NULL; d = d->next) {
        struct job_ref job = {d->row->ns, d->row->job};
        d->bundle = add_transient(r, "message", job, delivery_decide, d);
        *(r->last_delivery == NULL ? &r->batch : &r->last_delivery->next) = d;
        r->last_delivery = d;
    }
}

/* The first of a round: a suspect alone, or what is due and whatever else there is. */
static void collect_first(struct round *r)
{
    struct engine *e = r->engine;
    struct delivery *suspect = e->alternate ? NULL : take_suspect(e);
    e->alternate = suspect != NULL;
    add_renewal(r);
    if (suspect != NULL) {
        r->batch = r->last_delivery = suspect;
        suspect->bundle = commit_decided(&r->commit, "suspect", delivery_decide, suspect);
        e->stats.suspects++;
        return;
    }
    add_due(r);
    commands_join(r, take_commands(e, LIMIT_ROUND_COMMANDS));
    batch_join(r, take_batch(e));
}

/* ------------------------------------------------------------------------------------------ answer */

/* Before anybody is answered: the rows that a task is made of may have texts of any command or message of
 * this round, and each of these goes when it was answered. */
static void hand_out(struct round *r)
{
    for (const struct command *c = r->commands; c != NULL; c = c->next) {
        serve_hand_out(r->engine, c->bundle->rc == QP_OK ? c->outcome.handed : NULL);
    }
    for (const struct delivery *d = r->batch; d != NULL; d = d->next) {
        serve_hand_out(r->engine, d->bundle->rc == QP_OK ? d->outcome.handed : NULL);
    }
}

static void note_outcome(struct engine *e, const struct outcome *o)
{
    e->stats.buried += o->buried;
    if (o->ended.job != 0 && e->options.finished != NULL) {
        e->options.finished(e->options.context, o, store_now(e->store));
    }
    if (o->ended.job != 0 && e->options.ended != NULL) {
        e->options.ended(e->options.context, o->ended, o->ended_state);
    }
}

/* Answers every command of a list; each is its owner's again before the next is looked at. */
static void commands_fail(struct engine *e, struct command *first, int rc, const char *why)
{
    while (first != NULL) {
        struct command *c = first;
        first = c->next;
        c->answer(e, c, PLANT(ack_before_commit) ? QP_OK : rc, why);
    }
}

/* Stale may be the task of a command, or our own run, which others have ended: what it puts is then
 * refused like the task of a worker that lost it. So it is decided again when the run was looked after. */
static bool command_comes_again(struct engine *e, struct command *c, int rc)
{
    if (rc != QP_E_STALE || e->options.lease_ms == 0 || (c->again && !e->over)) {
        return false;
    }
    c->again = true;
    e->renew_at = 0;
    command_add(e, c);
    return true;
}

static void answer_commands(struct engine *e, struct command *first)
{
    while (first != NULL) {
        struct command *c = first;
        int rc = PLANT(ack_before_commit) ? QP_OK : c->bundle->rc;
        first = c->next;
        if (command_comes_again(e, c, rc)) {
            continue;
        }
        if (rc == QP_OK && c->outcome.later) {
            command_add(e, c);
            continue;
        }
        if (rc == QP_OK) {
            note_outcome(e, &c->outcome);
        }
        e->stats.stale += rc == QP_E_STALE;
        c->answer(e, c, rc, qp_code_text(rc));
    }
}

static void answer_batch(struct engine *e, struct delivery *first)
{
    while (first != NULL) {
        struct delivery *d = first;
        int rc = d->bundle->rc;
        first = d->next;
        if (rc == QP_OK) {
            note_outcome(e, &d->outcome);
        }
        if (delivery_after(d, rc)) {
            /* What was begun is ended before the next suspect begins. */
            (d->row->tries > 1 ? batch_put_back : batch_add)(e, d);
        } else {
            delivery_free(d);
        }
    }
}

/* The messages that this commit has claimed are the next batch. */
static void take_claimed(struct round *r)
{
    struct engine *e = r->engine;
    if (r->claimed == NULL) {
        return;
    }
    e->over = e->over || r->claimed->rc == QP_E_STALE;
    if (r->claimed->rc != QP_OK) {
        return;
    }
    e->hungry = r->claim->out_count == (size_t)r->claim->want;
    e->looked = e->looked || !e->hungry;
    for (size_t i = 0; i < r->claim->out_count; i++) {
        struct delivery *d = delivery_new(e, r->claim->out_messages[i], r->tries[i]);
        if (d == NULL) {
            e->over = true; /* ours, and nobody works on it: the run gives everything back */
        } else {
            batch_add(e, d);
        }
    }
}

static void take_served(struct round *r)
{
    struct engine *e = r->engine;
    if (r->serving != NULL && r->serving->rc == QP_OK) {
        /* Known only now: a look that was not committed has found nothing. */
        for (struct service *s = e->services; s != NULL; s = s->next) {
            s->hungry = s->hungry && !s->drained;
        }
        serve_hand_out(e, r->served.handed);
        note_outcome(e, &r->served);
    }
    if (r->serving != NULL && r->serving->rc == QP_E_STALE) {
        e->over = true;
    }
}

/* When to look again for what is due: known from the index after a look, else from what was written.
 * What is due and still there after a look is in the hands of others, who may be long about it. */
static int note_due(struct round *r, struct qp_err *err)
{
    struct engine *e = r->engine;
    qp_ms due = r->commit.due_at;
    int rc;
    if (r->waking == NULL) {
        e->wake_at = due > 0 && due < e->wake_at ? due : e->wake_at;
        return QP_OK;
    }
    if (r->more || r->housekeeping.more) {
        e->wake_at = 0;
        return QP_OK;
    }
    rc = store_due(e->store, &due, err);
    if (rc == QP_OK) {
        e->wake_at = due <= r->now && !is_alone(e) ? r->now + LIMIT_DUE_MS : due;
    }
    return rc;
}

/* Messages that the commit itself has claimed again. */
static int64_t taken_count(const struct round *r)
{
    int64_t count = r->claimed != NULL && r->claimed->rc == QP_OK && r->claim != NULL
                        ? (int64_t)r->claim->out_count
                        : 0;
    for (const struct handed *h = r->served.handed; h != NULL; h = h->next) {
        count++;
    }
    return count;
}

/* Others are told of what became READY and was not taken, and of what is due before they would look. */
static void note_ready(const struct round *r)
{
    struct engine *e = r->engine;
    qp_ms due = r->commit.due_at;
    e->hungry = e->hungry || (r->commit.ready_topics & topic_bit(ENGINE_TOPIC)) != 0;
    if (r->commit.ready_count > 0) {
        serve_look_again(e, r->commit.ready_topics);
    }
    if (!is_alone(e) &&
        (r->commit.ready_count > taken_count(r) || (due > 0 && due < r->now + LIMIT_LOOK_MS))) {
        store_wake_others(e->store);
    }
}

/* A look costs little, and the feed grows with every commit: but days are enough of a measure. */
static qp_ms feed_next(const struct engine *e, qp_ms now)
{
    return now < e->feed_at ? e->feed_at : now + LIMIT_FEED_LOOK_MS;
}

static int answer(struct round *r, struct qp_err *err)
{
    struct engine *e = r->engine;
    e->stats.commits++;
    e->stats.bundles += (int64_t)r->commit.bundle_count;
    if (e->listens && e->options.journaled != NULL) {
        commit_journal(&r->commit, e->options.context, e->options.journaled);
    }
    if (r->waking != NULL) {
        e->stats.leases += r->waking->rc == QP_OK ? r->leases : 0;
        e->stats.tidies = r->housekeeping.ours;
        e->feed_at = r->housekeeping.feed_more ? r->now : feed_next(e, r->now);
    }
    note_ready(r);
    take_served(r); /* before the batch: its claims may have exhausted a stream */
    take_claimed(r);
    if (r->renewing != NULL) {
        e->over = e->over || r->renewing->rc == QP_E_STALE;
        e->renew_at = r->now + e->options.lease_ms / 3;
    }
    hand_out(r);
    answer_commands(e, r->commands);
    answer_batch(e, r->batch);
    return note_due(r, err);
}

/* Nothing of it happened: whoever asked is told, what was claimed is still in hand. If nobody knows whether
 * it happened, whoever asked is told that, and the digits tell the rest (H17). */
static int round_failed(struct round *r, int rc, struct qp_err *err)
{
    struct engine *e = r->engine;
    struct qp_err why = r->commit.err;
    bool goes_on = rc == QP_E_UNKNOWN_OUTCOME && !is_alone(e);
    int told = goes_on ? QP_E_BUSY : rc;
    (void)err_set(err, told, "commit: %s", commit_text(&r->commit, rc));
    if (goes_on) {
        e->over = true; /* it may have claimed messages: a new run gives them back */
    } else if (qp_code_class(rc) != QP_CLASS_RETRY && qp_code_class(rc) != QP_CLASS_LIMIT) {
        e->failed = rc;
    }
    while (r->batch != NULL) {
        struct delivery *d = r->batch;
        r->batch = d->next;
        batch_add(e, d);
    }
    commands_fail(e, r->commands, rc, why.text[0] != '\0' ? why.text : qp_code_text(rc));
    return told;
}

/* ------------------------------------------------------------------------------------------- round */

/* Whoever was declared dead begins again: what it had in hand is no longer its own. */
static int run_again(struct engine *e, struct qp_err *err)
{
    int rc;
    while (e->batch != NULL) {
        struct delivery *d = e->batch;
        e->batch = d->next;
        delivery_free(d);
    }
    log_write(&e->env, QP_LOG_WARN, LOG_MSG("this run is over, another one begins"),
              LOG_I64("epoch", e->kernel.epoch));
    rc = run_end(e, e->kernel.epoch, NODE_LEFT, err);
    return rc == QP_OK ? run_enter(e, err) : rc;
}

static bool has_work(const struct engine *e, qp_ms now)
{
    return e->commands != NULL || e->batch != NULL || e->hungry || now >= e->wake_at ||
           now >= e->renew_at || serve_is_wanted(e);
}

/* What others left behind, and our own lease. Whether an op of this has happened may be unknown: all of
 * them may be done again. */
static int look_after_runs(struct engine *e, qp_ms now, struct qp_err *err)
{
    int rc = now >= e->renew_at ? run_end_others(e, false, err) : QP_OK;
    rc = rc == QP_OK && e->over ? run_again(e, err) : rc;
    return rc == QP_E_UNKNOWN_OUTCOME ? err_wrap(err, QP_E_BUSY, "run") : rc;
}

/* Others put messages, tasks and timers without our hearing of it. What is due is asked for, and not worked
 * on at once: mostly there is nothing, and to ask takes no locks. */
static int look_around(struct engine *e, qp_ms now, struct qp_err *err)
{
    int rc;
    if (now < e->look_at) {
        return QP_OK;
    }
    rc = store_due(e->store, &e->wake_at, err);
    if (rc == QP_OK) {
        e->hungry = true;
        serve_look_again(e, UINT64_MAX);
        e->look_at = is_alone(e) ? INT64_MAX : now + LIMIT_LOOK_MS;
    }
    return rc;
}

void engine_look_again(struct engine *e)
{
    e->look_at = 0;
}

/* After a failure of the store for good: nobody waits for nothing. */
static int engine_refuse(struct engine *e, struct qp_err *err)
{
    static const char why[] = "the engine has stopped: open the store again";
    struct command *all = e->commands;
    e->commands = NULL;
    commands_fail(e, all, e->failed, why);
    return err_set(err, e->failed, "%s", why);
}

/* A round whose commit is done, one way or the other. */
static int round_end(struct round *r, struct qp_err *err)
{
    struct engine *e = r->engine;
    int rc = r->commit.rc;
    e->open = e->open == r ? NULL : e->open;
    e->writing = e->writing == r ? NULL : e->writing;
    for (struct service *s = e->services; s != NULL; s = s->next) {
        s->promised[r->place] = 0; /* it has them now, or not at all */
    }
    if (e->options.settled != NULL) {
        e->options.settled(e->options.context, r->place);
    }
    rc = rc == QP_OK ? FP("engine.committed") : rc;
    return rc == QP_OK ? answer(r, err) : round_failed(r, rc, err);
}

/* The round that is being written, if there is one. */
static int writing_end(struct engine *e, struct qp_err *err)
{
    if (e->writing == NULL) {
        return QP_OK;
    }
    if (e->writing->commit.state == COMMIT_RUNNING) {
        store_settle(e->store);
    }
    return round_end(e->writing, err);
}

/* What is done is answered, in order. */
static int rounds_end(struct engine *e, struct qp_err *err)
{
    int rc = e->writing != NULL && !store_is_writing(e->store) ? writing_end(e, err) : QP_OK;
    if (rc == QP_OK && e->open != NULL && e->open->commit.state == COMMIT_DONE) {
        rc = round_end(e->open, err);
    }
    return rc;
}

static void round_open(struct engine *e, qp_ms now)
{
    struct round *r = &e->rounds[e->writing == &e->rounds[0] ? 1 : 0];
    struct commit commit;
    commit_reset(&r->commit);
    commit = r->commit;
    *r = (struct round){.engine = e, .place = r->place, .now = now};
    r->commit = commit;
    e->open = r;
    e->stats.rounds++;
}

/* Claims, and what is due, go by what is stored, and a suspect must not draw others into its fall. */
static bool must_be_alone(const struct engine *e, qp_ms now)
{
    return e->batch != NULL || e->hungry || now >= e->wake_at || now >= e->feed_at ||
           now >= e->renew_at || serve_is_wanted(e);
}

/* Everything in one commit, which is done on return. */
static int round_alone(struct engine *e, qp_ms now, struct qp_err *err)
{
    struct round *r;
    int rc;
    round_open(e, now);
    r = e->open;
    collect_first(r);
    if (!(r->batch != NULL && r->batch->suspect && r->batch->state == DELIVERY_WORK)) {
        add_claims(r);
    }
    rc = FP("engine.collected");
    if (rc == QP_OK) {
        (void)store_commit(e->store, &r->commit); /* the commit says it */
    } else {
        r->commit.rc = rc;
    }
    return round_end(r, err);
}

/* Many are enough: who came first has waited long. */
#define OPEN_MOST LIMIT_ROUND_COMMANDS
/* So many at a time: should the writer be done meanwhile, it does not wait for all that has come. So the rounds
 * become as large as they must be for both to have something to do. */
#define AHEAD_COMMANDS 128

/* What has come joins the open round; it goes to the writer when that has nothing else to do. */
static int round_ahead(struct engine *e, qp_ms now, struct qp_err *err)
{
    struct round *before;
    struct round *r;
    bool here;
    int rc;
    if (e->open == NULL) {
        round_open(e, now);
    }
    r = e->open;
    commands_join(r, take_commands(e, AHEAD_COMMANDS));
    rc = FP("engine.collected");
    if (rc != QP_OK) {
        store_give_up(e->store, &r->commit, rc);
    } else {
        rc = store_decide(e->store, &r->commit);
    }
    if (rc != QP_OK) {
        (void)writing_end(e, err); /* in order; what it says is said of this one, too */
        return round_end(r, err);
    }
    here = store_has_reached(&r->commit) || (int64_t)r->commit.bundle_count < e->options.elsewhere;
    if (store_is_writing(e->store) && r->commit.bundle_count < OPEN_MOST &&
        !store_has_reached(&r->commit)) {
        if (e->commands == NULL) {
            store_prepare(e->store, &r->commit);
        }
        return QP_OK;
    }
    store_write(e->store, &r->commit, !here);
    before = e->writing;
    e->open = NULL;
    e->writing = r;
    rc = before != NULL ? round_end(before, err) : QP_OK;
    if (r->commit.state == COMMIT_DONE) {
        int own = round_end(r, err);
        return rc != QP_OK ? rc : own;
    }
    return rc;
}

/* With a writer: what can be decided by what is known goes ahead, everything else waits for the rounds
 * before it. */
static int round_overlapping(struct engine *e, qp_ms now, struct qp_err *err)
{
    int rc;
    if (!must_be_alone(e, now) && (e->open != NULL || e->commands != NULL)) {
        return round_ahead(e, now, err);
    }
    rounds_commit(e);
    rc = rounds_end(e, err);
    return rc == QP_OK ? round_alone(e, now, err) : rc;
}

int engine_round(struct engine *e, bool *out_busy, struct qp_err *err)
{
    qp_ms now = store_now(e->store);
    int rc = rounds_end(e, err);
    *out_busy = false;
    if (rc == QP_OK && e->failed != QP_OK) {
        rc = engine_refuse(e, err);
    }
    rc = rc == QP_OK ? look_after_runs(e, now, err) : rc;
    rc = rc == QP_OK ? look_around(e, now, err) : rc;
    rc = rc == QP_OK ? rounds_end(e, err) : rc;
    if (rc != QP_OK || (e->open == NULL && !has_work(e, now))) {
        return rc;
    }
    rc = e->overlaps ? round_overlapping(e, now, err) : round_alone(e, now, err);
    *out_busy = rc == QP_OK && (has_work(e, now) || e->over);
    return rc;
}

void engine_use_writer(struct engine *e, const struct store_writer *writer)
{
    QP_ASSERT(!engine_is_writing(e));
    e->overlaps = store_use_writer(e->store, writer);
}

bool engine_is_writing(const struct engine *e)
{
    return e->open != NULL || e->writing != NULL;
}

int engine_rest(struct engine *e, struct qp_err *err)
{
    int rc;
    rounds_commit(e);
    rc = rounds_end(e, err);
    while (engine_is_writing(e)) { /* the second fails with the first, and says so too */
        struct qp_err ignored;
        (void)rounds_end(e, &ignored);
    }
    return rc;
}

int engine_settle(struct engine *e, struct qp_err *err)
{
    bool busy = true;
    int rc = QP_OK;
    while (rc == QP_OK && busy) {
        rc = engine_round(e, &busy, err);
    }
    return rc;
}

qp_ms engine_deadline(const struct engine *e)
{
    qp_ms at = e->wake_at < e->renew_at ? e->wake_at : e->renew_at;
    return at < e->look_at ? at : e->look_at;
}

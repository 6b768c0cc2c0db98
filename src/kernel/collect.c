/* collect.c - what a round takes, and how its commit decides it (see engine.h)
 *
 * Decisions run inside the commit, in the order in which they are added here: our lease, what is due, commands,
 * messages, claims. A suspect has a round of its own.
 */
#include <stdio.h>

#include "kernel/engine_internal.h"

/* ------------------------------------------------------------------------------------------ queues */

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

static int command_decide(void *context, struct bundle *b)
{
    struct command *c = context;
    int rc;
    if (outcome_later(&c->outcome, b)) {
        return QP_OK;
    }
    slice_command(c->engine);
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
    op->wake = (struct op_wake){.limit = LIMIT_WAKE_MESSAGES,
                                .lost_kind = MESSAGE_TASK,
                                .lost_from = lost_blame_from(r->engine, bundle_now(b)),
                                .lost_ms = LIMIT_LOST_MS};
    rc = bundle_run(b);
    r->more = rc == QP_OK && op->wake.out_more;
    r->wake = rc == QP_OK ? &op->wake : NULL;
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
    struct op *op = r->postponed ? NULL : bundle_op(b, OP_msg_claim);
    int rc;
    if (r->postponed) {
        return QP_OK; /* there is enough in hand */
    }
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
    if (op == NULL) {
        return;
    }
    op->node_put = (struct op_node_put){.epoch = e->kernel.epoch, .lease_ms = e->options.lease_ms};
    if (e->options.serving != NULL &&
        e->options.serving(e->options.context, &r->commit.arena, &op->node_put.serving) != QP_OK) {
        op->node_put.serving = QP_NONE; /* without memory: what was said stays */
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
void round_claim(struct round *r)
{
    struct engine *e = r->engine;
    if (serve_is_wanted(e)) {
        r->serving = commit_decided(&r->commit, "serve", serve_decide, r);
    }
    if (e->wants_messages && e->batch == NULL) {
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

void round_join(struct round *r, size_t most)
{
    commands_join(r, take_commands(r->engine, most));
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
void round_collect(struct round *r)
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
    round_join(r, LIMIT_ROUND_COMMANDS);
    if (!slice_waits(r)) {
        batch_join(r, take_batch(e));
    }
}

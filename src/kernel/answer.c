/* answer.c - after a round's commit: tasks are handed out, commands are answered, the next look is set (see engine.h)
 *
 * If we crash before a command is answered, what was committed stands, and the caller asks again: every command may be
 * asked twice.
 */
#include "base/failpoint.h"
#include "kernel/engine_internal.h"

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

static void count_outcome(struct engine *e, const struct outcome *o)
{
    for (const struct parked_job *p = o->parked; p != NULL; p = p->next) {
        log_write(&e->env, QP_LOG_WARN, LOG_MSG("a job is parked: it needs a person"),
                  LOG_STR("job", p->jid), LOG_STR("workflow", p->workflow),
                  LOG_TEXT("why", p->why));
        if (e->options.parked != NULL) {
            e->options.parked(e->options.context, p->job);
        }
    }
    if (o->ended.job != 0 && e->options.finished != NULL) {
        e->options.finished(e->options.context, o, store_now(e->store));
    }
}

/* Like hand_out before anybody is answered, and for the same reason: the texts of an outcome may be another
 * command's, and its memory goes with its answer. */
static void count_outcomes(struct round *r)
{
    for (const struct command *c = r->commands; c != NULL; c = c->next) {
        if (c->bundle->rc == QP_OK) {
            count_outcome(r->engine, &c->outcome);
        }
    }
    for (const struct delivery *d = r->batch; d != NULL; d = d->next) {
        if (d->bundle->rc == QP_OK) {
            count_outcome(r->engine, &d->outcome);
        }
    }
}

static void note_outcome(struct engine *e, const struct outcome *o)
{
    e->stats.dead_letters += o->dead_letters;
    for (const struct told_task *told = o->told; told != NULL && e->options.told != NULL;
         told = told->next) {
        e->options.told(e->options.context, told->job, told->guid);
    }
    if (o->ended.job != 0 && e->options.ended != NULL) {
        e->options.ended(e->options.context, o->ended, o->ended_state);
    }
}

/* Answers every command of a list; each is its owner's again before the next is looked at. */
void commands_fail(struct engine *e, struct command *first, int rc, const char *why)
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
    commands_add(e, c);
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
            commands_add(e, c);
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
    if (r->claimed->rc != QP_OK || r->postponed) {
        return;
    }
    e->wants_messages = r->claim->out_more || r->claim->out_count == (size_t)r->claim->want;
    e->looked = e->looked || !e->wants_messages;
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
    for (struct service *s = e->services; s != NULL && r->serving != NULL; s = s->next) {
        /* Known only now: a look that was not committed has found nothing, and held nothing back. */
        if (s->looked[r->place]) {
            s->wants_messages = r->serving->rc != QP_OK || !s->drained;
            s->held_back = r->serving->rc == QP_OK && s->holds_back;
        }
    }
    if (r->serving != NULL && r->serving->rc == QP_OK) {
        serve_hand_out(e, r->served.handed);
        count_outcome(e, &r->served);
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
        e->wake_at = due <= r->now && !engine_is_alone(e) ? r->now + LIMIT_DUE_MS : due;
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
    e->wants_messages =
        e->wants_messages || (r->commit.ready_topics & topic_bit(ENGINE_TOPIC)) != 0;
    if (r->commit.ready_count > 0) {
        serve_look_again(e, r->commit.ready_topics);
    }
    if (!engine_is_alone(e) &&
        (r->commit.ready_count > taken_count(r) || (due > 0 && due < r->now + LIMIT_LOOK_MS))) {
        store_wake_others(e->store);
    }
}

/* A look costs little, and the feed grows with every commit: but days are enough of a measure. */
static qp_ms feed_next(const struct engine *e, qp_ms now)
{
    return now < e->feed_at ? e->feed_at : now + LIMIT_FEED_LOOK_MS;
}

int round_answer(struct round *r, struct qp_err *err)
{
    struct engine *e = r->engine;
    e->stats.commits++;
    e->stats.bundles += (int64_t)r->commit.bundle_count;
    if (e->listens && e->options.journaled != NULL) {
        commit_journal(&r->commit, e->options.context, e->options.journaled);
    }
    if (r->waking != NULL) {
        e->stats.tidies = r->housekeeping.ours;
        e->feed_at = r->housekeeping.feed_more ? r->now : feed_next(e, r->now);
    }
    if (r->waking != NULL && r->waking->rc == QP_OK) {
        lost_note(e, r->wake);
    }
    note_ready(r);
    take_served(r); /* before the batch: its claims may have exhausted a stream */
    take_claimed(r);
    if (r->renewing != NULL) {
        e->over = e->over || r->renewing->rc == QP_E_STALE;
        e->renew_at = r->now + e->options.lease_ms / 3;
    }
    hand_out(r);
    count_outcomes(r);
    answer_commands(e, r->commands);
    answer_batch(e, r->batch);
    return note_due(r, err);
}

/* Nothing of it happened: whoever asked is told, what was claimed is still in hand. If nobody knows whether
 * it happened, whoever asked is told that, and the digits tell the rest (H17). */
int round_failed(struct round *r, int rc, struct qp_err *err)
{
    struct engine *e = r->engine;
    struct qp_err why = r->commit.err;
    bool goes_on = rc == QP_E_UNKNOWN_OUTCOME && !engine_is_alone(e);
    int told = goes_on ? QP_E_BUSY : rc;
    lost_blame_later(e);
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

/* delivery.c - one message of the engine's stream: the decision, and what comes after the commit
 *
 *   I1  the message's token is compared in every bundle that works for it: whoever lost it changes nothing
 *   I2  its ack is in the bundle of its last step, never outside of one (H16)
 *   I3  a try is written before the work that it counts, and only for what is worked on
 *   I4  what failed is delivered again, later each time (H7); what failed too often is kept as a
 *       dead letter, with its job parked, and never dropped; what came from outside and cannot be
 *       understood is one at once
 */

#include "kernel/engine_internal.h"
#include "kernel/outside.h"

struct delivery *delivery_new(struct engine *e, const struct msg_row *row, int64_t tries)
{
    struct delivery *d = mem_alloc(&e->env, sizeof *d);
    if (d == NULL) {
        return NULL;
    }
    d->engine = e;
    d->row = row_clone(&e->env, TABLE_msg, row);
    if (d->row == NULL) {
        mem_free(&e->env, d);
        return NULL;
    }
    d->row->tries = tries;
    d->begun = tries == 1;
    d->suspect = tries > 1 || e->options.stepwise;
    d->state = tries > e->options.max_deliveries ? DELIVERY_POISON : DELIVERY_WORK;
    d->failure = QP_OK;
    return d;
}

void delivery_free(struct delivery *d)
{
    if (d != NULL) {
        struct qp_env env = d->engine->env;
        mem_free(&env, d->row);
        mem_free(&env, d);
    }
}

static struct msg_ref ref_of(const struct msg_row *m)
{
    return (struct msg_ref){.ns = m->ns, .job = m->job, .guid = m->guid, .token = m->token};
}

static int fence(struct bundle *b, const struct msg_row *m)
{
    struct op op = {.kind = OP_msg_fence, .msg_fence = {.ref = ref_of(m)}};
    return step_op(b, &op);
}

static int ack(struct bundle *b, const struct msg_row *m)
{
    struct op op = {.kind = OP_msg_ack, .msg_ack = {.ref = ref_of(m)}};
    return step_op(b, &op);
}

/* ------------------------------------------------------------------------------------ the decision */

static int take_turn(struct turn *t, const struct msg_row *m)
{
    switch ((enum message_kind)m->kind) {
    case MESSAGE_ENTER:
        return turn_enter(t);
    case MESSAGE_END:
        return (m->code & END_ASKS) != 0
                   ? turn_cancel_job(t, m->payload, (m->code & END_DESCENDS) != 0)
                   : turn_end_job(t, (enum job_state)(m->code % END_DESCENDS), m->payload,
                                  (m->code & END_DESCENDS) != 0);
    case MESSAGE_START:
        return turn_begin(t);
    case MESSAGE_NOTICE:
        return turn_notice(t);
    default:
        return turn_answer(t);
    }
}

static int work_turn(struct delivery *d, struct bundle *b)
{
    const struct msg_row *m = d->row;
    struct turn t;
    struct site site = {.ref = {m->ns, m->job}, .addr = m->addr, .guid = m->guid};
    int rc = turn_init(&t, &d->engine->kernel, b, &d->outcome, &site);
    if (rc == QP_E_NOT_FOUND) {
        d->outcome.late = true; /* the job was forgotten, and what it waited for with it */
        return QP_OK;
    }
    t.parent_guid = m->parent_guid;
    t.code = m->code;
    t.payload = m->payload;
    t.stepwise = d->suspect;
    t.entered = d->entered;
    return rc == QP_OK ? take_turn(&t, m) : rc;
}

/* What an application wrote is looked at before it is believed. */
static int work_outside(struct delivery *d, struct bundle *b)
{
    int rc = outside_check(&d->engine->env, d->row);
    return rc == QP_OK ? work_turn(d, b) : rc;
}

static int work(struct delivery *d, struct bundle *b)
{
    switch ((enum message_kind)d->row->kind) {
    case MESSAGE_ANSWER:
    case MESSAGE_ENTER:
    case MESSAGE_CYCLE:
    case MESSAGE_END:
    case MESSAGE_NOTICE:
        return work_turn(d, b);
    case MESSAGE_FANOUT:
        return fanout_page(b, d->row);
    case MESSAGE_SWEEP:
        return sweep_page(b, d->row);
    case MESSAGE_DESCEND:
        return descend_page(b, d->row);
    case MESSAGE_COLLECT:
        return collect_page(b, d->row, d->engine->kernel.faces);
    case MESSAGE_START:
    case MESSAGE_RESULT:
        return work_outside(d, b);
    case MESSAGE_SIGNAL:
        return outside_signal(&d->engine->kernel, b, d->row);
    case MESSAGE_TASK:
    case MESSAGE_KINDS:
        break;
    }
    return QP_E_UNSUPPORTED;
}

/* The ack of a suspect, unless the sweep of its job was faster. */
static int ack_last(struct bundle *b, const struct msg_row *m)
{
    const void *row = NULL;
    int rc = bundle_get(b, TABLE_msg, m, &row);
    return rc == QP_OK && row != NULL ? ack(b, m) : rc;
}

/* A suspect is counted in a commit of its own before anything is done for it: so only what was begun
 * is suspected, and not all that was claimed with it. */
static int decide_begin(struct delivery *d, struct bundle *b)
{
    struct op op = {.kind = OP_msg_fence, .msg_fence = {.ref = ref_of(d->row), .tries = 1}};
    d->outcome.more = true;
    return step_op(b, &op);
}

/* A first delivery acks first, so that a sweep of its job does not meet it. */
static int decide_work(struct delivery *d, struct bundle *b)
{
    int rc = d->suspect ? fence(b, d->row) : ack(b, d->row);
    rc = rc == QP_OK ? bundle_run(b) : rc;
    rc = rc == QP_OK ? work(d, b) : rc;
    rc = rc == QP_OK ? bundle_run(b) : rc;
    return rc == QP_OK && d->suspect && !d->outcome.more ? ack_last(b, d->row) : rc;
}

/* For the log and for those who wait, when it is committed. Without memory both do without. */
static void note_parked(struct bundle *b, const struct job_row *job, const char *why,
                        struct outcome *o)
{
    struct parked_job *p = ARENA_NEW(&b->commit->arena, struct parked_job);
    if (p != NULL) {
        *p = (struct parked_job){o->parked, {job->ns, job->job}, job->jid, job->workflow, why};
        o->parked = p;
    }
}

int message_dead_letter(struct bundle *b, const struct msg_row *m, const char *why,
                        struct outcome *o)
{
    const void *job = NULL;
    struct op dead = {.kind = OP_msg_dead_letter,
                      .msg_dead_letter = {.ref = ref_of(m), .error = str_from(why)}};
    struct op park = {
        .kind = OP_job_set,
        .job_set = {.ref = {m->ns, m->job}, .what = JOB_SET_PARKED, .parked = str_from(why)}};
    int rc = step_op(b, &dead);
    /* one that is closed keeps its end: request_unpark lets what completes it go on */
    rc = rc == QP_OK ? bundle_get(b, TABLE_job, &(struct job_row){.ns = m->ns, .job = m->job}, &job)
                     : rc;
    if (rc == QP_OK && job != NULL && ((const struct job_row *)job)->closed_by.p == NULL) {
        rc = step_op(b, &park);
        note_parked(b, job, why, o);
    }
    return rc;
}

/* An activity that cannot be entered any more is marked, so that it can never complete as well. */
static int escalate(struct bundle *b, const struct msg_row *m, const char *why)
{
    struct site site = {.ref = {m->ns, m->job}, .addr = m->addr, .guid = m->guid};
    const void *act = NULL;
    int rc = bundle_get(b, TABLE_act,
                        &(struct act_row){.ns = m->ns, .job = m->job, .addr = m->addr}, &act);
    if (rc != QP_OK || act == NULL || m->kind != MESSAGE_ENTER ||
        ((const struct act_row *)act)->escalated != 0 || /* it was, and came again by an unpark */
        ledger_leg1_is_done(((const struct act_row *)act)->ledger)) {
        return rc;
    }
    return leg1_escalate(b, &site, str_from(why));
}

static int decide_poison(struct delivery *d, struct bundle *b)
{
    const char *why = d->failure == QP_E_CEILING ? "an entry counter is at its ceiling"
                      : d->failure == QP_E_MALFORMED
                          ? "it came from outside, and is not JSON or not what the functions write"
                          : "delivered too often without an answer: it may crash the engine";
    int rc = d->failure == QP_E_CEILING ? escalate(b, d->row, why) : QP_OK;
    return rc == QP_OK ? message_dead_letter(b, d->row, why, &d->outcome) : rc;
}

/* min(5 min, 0.5 s x 1.5^n), give or take a quarter. */
static qp_ms backoff(struct engine *e, int64_t tries)
{
    double ms = 500;
    uint32_t random = 0;
    for (int64_t i = 1; i < tries && ms < LIMIT_BACKOFF_MS; i++) {
        ms *= 1.5;
    }
    ms = ms < LIMIT_BACKOFF_MS ? ms : LIMIT_BACKOFF_MS;
    if (e->env.entropy(e->env.context, &random, sizeof random) != QP_OK) {
        random = UINT32_MAX / 2; /* without entropy there is no spread */
    }
    return (qp_ms)(ms * (0.75 + 0.5 * ((double)random / UINT32_MAX)));
}

static int decide_failed(struct delivery *d, struct bundle *b)
{
    struct op op = {.kind = OP_msg_retry,
                    .msg_retry = {.ref = ref_of(d->row),
                                  .delay_ms = backoff(d->engine, d->row->tries),
                                  .error = str_from(qp_code_text(d->failure))}};
    return step_op(b, &op);
}

int delivery_decide(void *context, struct bundle *b)
{
    struct delivery *d = context;
    int rc = QP_OK;
    if (outcome_later(&d->outcome, b) || !slice_message(d->engine, d)) {
        d->outcome.later = true;
        d->engine->open->postponed = true;
        return QP_OK;
    }
    switch (d->state) {
    case DELIVERY_WORK:
        rc = d->begun ? decide_work(d, b) : decide_begin(d, b);
        break;
    case DELIVERY_FAILED:
        rc = decide_failed(d, b);
        break;
    case DELIVERY_POISON:
        rc = decide_poison(d, b);
        break;
    }
    return rc == QP_OK ? outcome_seal(&d->outcome, b) : rc;
}

/* --------------------------------------------------------------------------------- after the commit */

/* Trying again would not help. */
static bool is_hopeless(const struct delivery *d, int rc)
{
    return rc == QP_E_CEILING || (rc == QP_E_MALFORMED && outside_is(d->row));
}

/* It failed: next round it goes back, or it becomes a dead letter. */
static bool delivery_failed(struct delivery *d, int rc)
{
    struct engine *e = d->engine;
    if (rc == QP_E_STALE || d->state != DELIVERY_WORK) {
        e->stats.stale += rc == QP_E_STALE;
        return false; /* it is no longer ours, or could not even be given back: its lease ends */
    }
    log_write(&e->env, QP_LOG_WARN, LOG_MSG("a message failed"), LOG_TEXT("code", qp_code_word(rc)),
              LOG_STR("addr", d->row->addr), LOG_I64("job", d->row->job),
              LOG_I64("try", d->row->tries));
    d->failure = rc;
    d->state = is_hopeless(d, rc) ? DELIVERY_POISON : DELIVERY_FAILED;
    return true;
}

bool delivery_after(struct delivery *d, int rc)
{
    struct engine *e = d->engine;
    if (rc != QP_OK) {
        return delivery_failed(d, rc);
    }
    if (d->outcome.later) {
        return true;
    }
    e->stats.late += d->outcome.late;
    if (d->state == DELIVERY_POISON) {
        e->stats.dead_letters++;
        log_write(&e->env, QP_LOG_WARN, LOG_MSG("a message is a dead letter"),
                  LOG_STR("addr", d->row->addr), LOG_I64("job", d->row->job));
    }
    d->entered = d->begun;
    d->begun = true;
    return d->state == DELIVERY_WORK && d->outcome.more;
}

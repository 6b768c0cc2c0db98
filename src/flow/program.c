/* program.c - how a flow moves: the trigger, decisions, the end (see program.h; events: event.c)
 *
 *   I1  a decision's rows are one commit (step 1), and parents stand before children: no history has a hole
 *   I2  at most one decision is out: flow,0,0 is BUSY from the commit that puts one until the commit that takes its result
 *   I3  semaphore = 1 + open works while the flow is open; a return gives the 1 up                      (fsck H7)
 *   I4  what replay reads of an event never changes once a decision could see it
 *
 * If we crash before a commit, nothing of it happened, and the message or the task comes again. If we crash between step 1
 * and step 2 of a decision, its rows stand with ledger 0 and no decision is put: this one is still out, and its step 2
 * goes by what step 1 has kept (decision_keep).
 */
#include "flow/program.h"

#include "base/failpoint.h"
#include "base/hash.h"
#include "flow/cancel.h"
#include "flow/copy.h"
#include "flow/decision_read.h"
#include "flow/event.h"
#include "flow/flow.h"
#include "kernel/deciding.h"
#include "kernel/message.h"
#include "kernel/properties.h"
#include "store/error.h"

static const struct qp_env *env_of(struct turn *t)
{
    return store_env(t->bundle->commit->store);
}

static bool is_trigger(const struct turn *t)
{
    return t->act->category == 'D';
}

static bool is_event(const struct turn *t)
{
    return flow_is_event(t->site.addr);
}

/* ------------------------------------------------------------------------------------------- Leg1 */

static uint64_t seed_of(const struct turn *t)
{
    unsigned char bytes[LIMIT_GUID_SIZE];
    qp_str owner = t->job->owner_guid;
    uint64_t seed = 0;
    hash_guid(owner.p, owner.n, "seed", 4, bytes);
    memcpy(&seed, bytes, sizeof seed);
    return seed;
}

/* Rows of events are made by decisions: only the flow itself is described. */
static int describe(struct turn *t, struct op_act_create *row)
{
    QP_ASSERT(str_equal(t->site.addr, FLOW_ADDRESS));
    row->category = 'A';
    row->cyclic = CYCLIC_OPEN;
    row->policy = QP_STR(FLOW_POLICY);
    QP_TRY(flow_copy_input(t, &row->input));
    if (str_is_none(row->input)) {
        QP_TRY(flow_input(turn_arena(t), seed_of(t), &row->input));
    }
    return flow_topic(turn_arena(t), t->job->workflow, &row->topic);
}

/* A fork copies before its first decision. */
static int enter(struct turn *t)
{
    bool copies = false;
    if (is_event(t)) {
        return event_enter(t);
    }
    QP_TRY(flow_copy_is_on(t, &copies));
    return copies ? flow_copy_enter(t) : turn_decision(t, FLOW_ADDRESS);
}

static int yields(struct turn *t, bool *out_yields)
{
    *out_yields = false;
    return is_event(t) ? event_yields(t, out_yields) : QP_OK;
}

/* ------------------------------------------------------------------------------------- decisions */

/* decision_facts.look: rows as they stand in this turn. */
static int look(void *context, qp_str addr, struct place *out_place)
{
    const struct act_row *act = NULL;
    QP_TRY(turn_act(context, addr, &act));
    if (act != NULL) {
        *out_place = (struct place){.found = true,
                                    .type = (enum history_type)act->kind,
                                    .version = act->version,
                                    .name = act->topic};
    }
    return QP_OK;
}

/* decision_facts.taken: ids as they stand in this turn. */
static int taken(void *context, qp_str addr, qp_str id, bool *out_taken)
{
    return turn_call_is_taken(context, addr, id, out_taken);
}

/* bundle_each: a visit that returns anything but QP_OK would end the commit, so it passes over what is no event. */
static int count_event(void *context, const void *row)
{
    *(int64_t *)context += flow_is_event(((const struct act_row *)row)->addr) ? 1 : 0;
    return QP_OK;
}

int flow_count_events(struct bundle *b, struct job_ref ref, int64_t *out_count)
{
    struct act_row first = {.ns = ref.ns, .job = ref.job, .addr = LOCATION_FIRST};
    struct scan scan = {.table = TABLE_act,
                        .index = -1,
                        .prefix = &first,
                        .prefix_count = 2,
                        .after = &first,
                        .limit = LIMIT_FLOW_EVENTS + 1,
                        .slim = true};
    *out_count = 0;
    return bundle_each(b, &scan, out_count, count_event);
}

/* `events`: of the history, 0 when they are fewer than would matter. */
static int read_decision(struct turn *t, qp_str text, int64_t events, struct decision *out_decision,
                         struct qp_err *err)
{
    struct decision_facts facts = {.context = t, .look = look, .taken = taken, .events = events};
    const struct act_row *flow = NULL;
    QP_TRY(turn_act(t, FLOW_ADDRESS, &flow));
    QP_ASSERT(flow != NULL);
    facts.base = flow->base;
    facts.open = t->job->sem - 1;
    QP_TRY(decision_read(env_of(t), turn_arena(t), text, bundle_now(t->bundle), out_decision, err));
    return decision_check(env_of(t), turn_arena(t), out_decision, &facts, err);
}

/* It was made before the flow was cancelled, and has not seen that: the next one does what is to be done. */
static void void_if_blind(const struct turn *t, struct decision *d)
{
    if (t->job->cancelled > d->base) {
        d->count = 0;
        d->end = DECISION_GOES_ON;
        d->keep = false;
        d->thrown = d->defers = d->properties = QP_NONE;
    }
}

bool flow_is_blind(const struct turn *t, qp_str text)
{
    qp_str base = flow_member(text, "base");
    return t->job->cancelled > 0 && !str_is_none(base) &&
           t->job->cancelled > (int64_t)real_parse(base);
}

/* Every event has an entry of the journal, so a job with few entries has room for all that one decision can make, two events
 * per command; only the events of a long one are counted. */
int flow_decided(struct turn *t, qp_str text, struct qp_err *err)
{
    struct decision decision;
    int64_t events = 0;
    if (t->job->seq + 2 * LIMIT_FLOW_COMMANDS > LIMIT_FLOW_EVENTS) {
        QP_TRY(flow_count_events(t->bundle, t->site.ref, &events));
    }
    return read_decision(t, text, events, &decision, err);
}

static int make_loop(struct turn *t, const struct flow_command *c)
{
    qp_str name;
    QP_TRY(flow_loop_name(turn_arena(t), c->addr, &name));
    return turn_data_put(t, name, c->state);
}

/* Step 1: the event's row, and the state of a loop. */
static int make_event(struct turn *t, const struct flow_command *c)
{
    struct op_act_create row = {.addr = c->addr,
                                .kind = c->type,
                                .category = event_category(c->op),
                                .cyclic = c->op == FLOW_OP_LOOP ? CYCLIC_OPEN : CYCLIC_NO,
                                .version = c->version,
                                .topic = c->name,
                                .policy = c->policy,
                                .input = c->input};
    if (!c->again) {
        QP_TRY(turn_row(t, &row));
    }
    return c->op == FLOW_OP_LOOP ? make_loop(t, c) : QP_OK;
}

/* The row changes only when they do: code says all of them in every run. */
static int keep_properties(struct turn *t, qp_str properties)
{
    const struct data_row *row = NULL;
    qp_str value;
    QP_TRY(properties_wrap(turn_arena(t), properties, &value));
    QP_TRY(turn_data(t, PROPERTIES_ROW, &row));
    return row != NULL && str_equal(row->value, value) ? QP_OK
                                                       : turn_data_put(t, PROPERTIES_ROW, value);
}

/* Step 1 of a decision. That it can be applied was checked when it came, so the events are not counted again; what it
 * stands on cannot have changed since, because no other decision is out. */
static int decide(struct turn *t, struct work *work)
{
    struct decision decision;
    bool copies = false;
    QP_TRY(flow_copy_is_on(t, &copies));
    if (copies) {
        return flow_copy_work(t, work);
    }
    QP_TRY(read_decision(t, work->output, 0, &decision, NULL));
    void_if_blind(t, &decision);
    QP_TRY(cancel_keep(t, &decision));
    for (size_t i = PLANT(decision_hole) && t->stepwise ? 1 : 0; i < decision.count; i++) {
        QP_TRY(make_event(t, &decision.commands[i]));
    }
    if (!str_is_none(decision.properties)) {
        QP_TRY(keep_properties(t, decision.properties));
    }
    if (decision.end == DECISION_RETURNS) {
        QP_TRY(turn_data_put(t, FLOW_RETURN, decision.value));
    }
    work->code = 200;
    return decision_keep(env_of(t), turn_arena(t), &decision, &work->output);
}

static int work(struct turn *t, struct work *work)
{
    return is_trigger(t) ? QP_OK : is_event(t) ? event_work(t, work) : decide(t, work);
}

/* --------------------------------------------------------------------------------------- step 2 */

/* Counts messages of the job that enter an event: those events are open obligations that notify nobody. */
static int count_enter(void *context, const void *row)
{
    const struct msg_row *m = row;
    *(int64_t *)context += m->kind == MESSAGE_ENTER;
    return QP_OK;
}

/* `after` is a hint of the worker; it must not be more than the works that are open, or the flow would wait for
 * notifications that never come. */
static int bounded_after(struct turn *t, int64_t after, int64_t made, int64_t *out_after)
{
    struct msg_row of = {.ns = t->site.ref.ns, .job = t->site.ref.job};
    struct scan scan = {.table = TABLE_msg,
                        .index = -1,
                        .prefix = &of,
                        .prefix_count = 2,
                        .limit = LIMIT_BUNDLE_OPS};
    int64_t entering = 0;
    int64_t open = made;
    *out_after = after;
    if (after <= made) {
        return QP_OK;
    }
    QP_TRY(bundle_each(t->bundle, &scan, &entering, count_enter));
    open += t->job->sem - 1 - entering;
    *out_after = open < 1 ? 1 : after < open ? after : open;
    return QP_OK;
}

static int enter_made(struct turn *t, struct raw_walk made, int64_t *out_waiting)
{
    qp_str addr;
    while (deciding_made(&made, &addr)) {
        const struct act_row *act = NULL;
        QP_TRY(turn_act(t, addr, &act));
        if (PLANT(decision_hole) && act == NULL) {
            continue;
        }
        QP_ASSERT(act != NULL);
        *out_waiting += act->category == 'A';
        QP_TRY(turn_child_at(t, addr));
    }
    return QP_OK;
}

/* The code of a flow has ended that was cancelled. If it has met that, the job is cancelled, whatever the code made of it. If
 * not, it was faster: it was returning already, or failing, and the job ends so. */
static int end_cancelled(struct turn *t, const struct decision_kept *kept, bool *out_met)
{
    struct error e = {0};
    qp_str error = kept->error;
    qp_str reason = QP_NONE;
    QP_TRY(cancel_facts(t, &reason, out_met));
    if (kept->end == DECISION_FAILS) {
        QP_TRY(error_read(turn_arena(t), error, &e));
    }
    *out_met = *out_met || e.code == ERROR_CODE_CANCELLED;
    if (*out_met) {
        bool is_own = kept->end == DECISION_FAILS && e.code != ERROR_CODE_CANCELLED;
        turn_fail(t, JOB_CANCELLED, is_own ? error : reason);
    }
    return QP_OK;
}

/* Step 2 of a decision: its events are entered, and the flow rests, has returned, or has failed. */
static int decided(struct turn *t, struct spawn *spawn)
{
    struct decision_kept kept;
    int64_t waiting = 0;
    bool met = false;
    if (t->guid.code >= 400) {
        return turn_spawn_nothing(t);
    }
    if (flow_copy_was(t->guid.output)) {
        return flow_copy_spawn(t, spawn);
    }
    kept = decision_kept(t->guid.output);
    if (kept.end != DECISION_GOES_ON && t->job->cancelled > 0) {
        QP_TRY(end_cancelled(t, &kept, &met));
    }
    if (met) {
        return QP_OK;
    }
    if (kept.end == DECISION_FAILS) {
        turn_fail(t, JOB_FAILED, kept.error);
        return QP_OK;
    }
    QP_TRY(enter_made(t, kept.made, &waiting));
    spawn->given = true;
    spawn->delta = t->child_count - (kept.end == DECISION_RETURNS ? 1 : 0);
    spawn->delta += PLANT(decision_twice) && t->stepwise ? t->child_count : 0;
    if (kept.end == DECISION_RETURNS) {
        return QP_OK;
    }
    spawn->notify = (struct op_act_notify){
        .addr = FLOW_ADDRESS, .rests = true, .seen = kept.seen, .urgent = kept.keep};
    return bounded_after(t, kept.after, waiting, &spawn->notify.after);
}

static int spawn(struct turn *t, struct spawn *spawn)
{
    if (is_trigger(t)) {
        return turn_child(t, FLOW_ACTIVITY, QP_NONE);
    }
    return is_event(t) ? event_spawn(t, spawn) : decided(t, spawn);
}

/* ----------------------------------------------------------------------------------------- the end */

/* The output that the return has left becomes the job's. */
static int complete(struct turn *t, struct complete *complete)
{
    const struct data_row *row = NULL;
    complete->clean = false; /* timers of listens that ended early, signals that were kept */
    if (t->job->state != JOB_COMPLETED) {
        return QP_OK;
    }
    QP_TRY(turn_data(t, FLOW_RETURN, &row));
    if (row == NULL) {
        return QP_OK;
    }
    complete->output = row->value;
    return turn_data_put(t, FLOW_RETURN, QP_NONE);
}

const struct program flow_program = {.kind = FLOW_KIND,
                                     .name = "flow",
                                     .takes_signals = true,
                                     .describe = describe,
                                     .enter = enter,
                                     .yields = yields,
                                     .work = work,
                                     .spawn = spawn,
                                     .complete = complete};

/* check_message.c - the rules about messages, timers and parents: groups M and T, and O6
 *
 * A timer is a message in the state DELAYED. Lags are judged by the store's clock at its last
 * commit: who was passed over while the store worked is late, who waits in a store that stands
 * still is not.
 */
#include "kernel/check_work.h"
#include "kernel/program.h"

static void found_message(struct check *c, const struct msg_row *m, const char *what)
{
    found(c,
          evidence(c, "state %lld tries %lld token %lld wake_at %lld", (long long)m->state,
                   (long long)m->tries, (long long)m->token, (long long)m->wake_at),
          "a message of topic '%.*s': %s", CHECK_ECHO(m->topic), what);
}

static int order_strs(const void *a, const void *b)
{
    return str_compare(*(const qp_str *)a, *(const qp_str *)b);
}

/* Whose children there are, by GUID: of activities, and of messages that will become one. */
static struct check_rows list_parents(struct check *c)
{
    struct check_rows parents = {0};
    EACH_ROW(c, act, act)
    {
        rows_push(c, &parents, &act->parent_guid);
    }
    EACH_ROW(c, msg, m)
    {
        if (message_is_child(c, m)) {
            rows_push(c, &parents, &m->parent_guid);
        }
    }
    rows_sort(&parents, order_strs);
    return parents;
}

static int64_t count_children(const struct check_rows *parents, const qp_str *guid)
{
    int64_t count = 0;
    for (size_t i = rows_seek(parents, guid, order_strs);
         i < parents->count && str_equal(*(const qp_str *)parents->rows[i], *guid); i++) {
        count++;
    }
    return count;
}

void rule_M1(struct check *c)
{
    struct check_rows parents;
    if (!job_took_its_turn(c)) {
        return; /* a sweep may have taken children that had not entered */
    }
    parents = list_parents(c);
    EACH_ROW(c, guid, guid)
    {
        int64_t children = count_children(&parents, &guid->guid);
        if (guid->n >= 0 && guid->n != children) {
            found(c, evidence_guid(c, guid), "a GUID of activity '%.*s' spawned %lld, and has %lld",
                  CHECK_ECHO(guid->addr), (long long)guid->n, (long long)children);
        }
    }
}

/* Nothing is marked that comes after its work. */
static bool is_unfinished(const struct guid_row *guid)
{
    return !guid_has_spawned(guid->ledger) && !guid_owns_edge(guid->ledger) &&
           !guid_is_completed(guid->ledger) && guid->n < 0;
}

/* Another GUID has ended the activity, or it was given up: this one came too late for step 2, and went. */
static bool is_beaten(const struct check *c, qp_str addr)
{
    EACH_ROW(c, act, act)
    {
        if (str_equal(act->addr, addr)) {
            return act->escalated != 0 || ledger_is_finalized(act->ledger);
        }
    }
    return false;
}

void rule_M2(struct check *c)
{
    if (c->job->state != JOB_OPEN) {
        return; /* a sweep may have taken the message */
    }
    EACH_ROW(c, guid, guid)
    {
        if (is_unfinished(guid) && !str_equal(guid->guid, c->job->owner_guid) &&
            check_message(c, guid->guid) == NULL && !is_beaten(c, guid->addr)) {
            found(c, evidence_guid(c, guid),
                  "a GUID of activity '%.*s' has steps to do, and its message is gone",
                  CHECK_ECHO(guid->addr));
        }
    }
}

static bool will_wake(const struct check *c, qp_str addr)
{
    size_t at = rows_seek(&c->wakes, &addr, order_strs);
    return at < c->wakes.count && str_equal(*(const qp_str *)c->wakes.rows[at], addr);
}

/* What the last answer of an activity was: CODE_PENDING, then something of its own will wake it. */
static bool is_deferred(const struct check *c, qp_str addr)
{
    struct range range = guids_of(c, addr);
    const struct guid_row *last = NULL;
    for (size_t i = range.from; i < range.to; i++) {
        const struct guid_row *guid = c->rows[TABLE_guid].rows[i];
        last = last == NULL || guid_is_later(guid, last) ? guid : last;
    }
    return last != NULL && last->code == CODE_PENDING;
}

/* It waits for its gate, which is open or about to enter: whether anything will wake that one is asked of the gate
 * itself. */
static bool has_gate(const struct check *c, const struct act_row *act)
{
    qp_str addr = address_gate(act->addr);
    const struct act_row *gate;
    if (str_is_none(addr) || str_equal(addr, act->addr) || is_deferred(c, act->addr)) {
        return false;
    }
    gate = check_act(c, addr);
    return gate != NULL ? gate->escalated == 0 && ledger_is_open(gate->ledger) : will_wake(c, addr);
}

void rule_M3(struct check *c)
{
    if (c->job->state != JOB_OPEN || !str_is_none(c->job->parked)) {
        return;
    }
    EACH_ROW(c, act, act)
    {
        if (act->ledger == 0 && !act_is_made(c, act) && !will_wake(c, act->addr)) {
            found(c, evidence_ledger(c, act->ledger),
                  "activity '%.*s' is to be entered, and no message will do it",
                  CHECK_ECHO(act->addr));
        }
        if (act_is_waiting(act) && !will_wake(c, act->addr) && !has_gate(c, act)) {
            found(
                c, evidence_ledger(c, act->ledger),
                "activity '%.*s' waits, and nothing will wake it: no message, hook, key, scope, gate or child",
                CHECK_ECHO(act->addr));
        }
    }
}

static bool is_late(const struct check *c, const struct msg_row *m)
{
    return m->wake_at > 0 && m->wake_at < c->now - LIMIT_CHECK_LAG_MS;
}

void rule_M4(struct check *c)
{
    EACH_ROW(c, msg, m)
    {
        if (m->state == MSG_HELD && is_late(c, m)) {
            found_message(c, m, "its lease has ended, and nobody took it back");
        }
    }
}

void rule_M5(struct check *c)
{
    int64_t max = c->options->max_tries;
    EACH_ROW(c, msg, m)
    {
        if (max > 0 && m->tries > max) {
            found_message(c, m, "it was tried more often than it may be");
        }
    }
}

void rule_M7(struct check *c)
{
    EACH_ROW(c, msg, m)
    {
        if (m->state == MSG_DEAD && c->job->state == JOB_OPEN && str_is_none(c->job->parked)) {
            found_message(c, m, "it is a dead letter, and its job is not parked");
        }
    }
}

/* The runs are few, and the messages of one lie together: the last answer mostly holds. */
static bool has_run(struct check *c, int64_t epoch)
{
    if (epoch != c->run) {
        c->run = epoch;
        c->has_run = check_get(c, TABLE_node, &(struct node_row){.epoch = epoch}) != NULL;
    }
    return c->has_run || c->rc != QP_OK;
}

void rule_M8(struct check *c)
{
    c->run = 0; /* of another snapshot, it may be */
    EACH_ROW(c, msg, m)
    {
        if (m->state == MSG_HELD && m->holder > 0 && !has_run(c, m->holder)) {
            found_message(c, m, "it is held by a run that is over: nobody will take it up");
        }
    }
}

void rule_T2(struct check *c)
{
    EACH_ROW(c, msg, m)
    {
        if (m->state == MSG_DELAYED && c->job->state != JOB_OPEN) {
            found_message(c, m, "it is a timer, and its job is closed");
        }
    }
}

void rule_T3(struct check *c)
{
    EACH_ROW(c, msg, m)
    {
        if (m->state == MSG_DELAYED && c->job->state == JOB_OPEN && is_late(c, m)) {
            found_message(c, m, "it is a timer, and its time is over");
        }
    }
}

/* A child of which its parent would know. */
static bool is_awaited(const struct job_row *job)
{
    return job->state == JOB_OPEN && job->parent_job != 0 && !str_is_none(job->parent_guid);
}

static void found_orphan(struct check *c, const struct job_row *child)
{
    found_on(c, child, evidence(c, "parent %lld", (long long)child->parent_job),
             "the job's parent has no activity '%.*s' that awaits it",
             CHECK_ECHO(child->parent_addr));
}

/* Asked of one job alone: its parent is looked up. */
static void ask_parent(struct check *c, const struct job_row *job)
{
    struct job_row key = {.ns = job->ns, .job = job->parent_job};
    struct act_row place = {.ns = job->ns, .job = job->parent_job, .addr = job->parent_addr};
    const struct job_row *parent = is_awaited(job) ? check_get(c, TABLE_job, &key) : NULL;
    if (parent != NULL && parent->state == JOB_OPEN && check_get(c, TABLE_act, &place) == NULL) {
        found_orphan(c, job);
    }
}

/* Asked of all: every parent has its children beside it. */
void rule_O6(struct check *c)
{
    if (!str_is_none(c->options->job)) {
        ask_parent(c, c->job);
        return;
    }
    EACH_ROW(c, job, child)
    {
        if (c->job->state == JOB_OPEN && is_awaited(child) &&
            !has_activity(c, child->parent_addr)) {
            found_orphan(c, child);
        }
    }
}

/* The activity that awaited it has its answer. */
static bool has_answered(const struct check *c, const struct job_row *child)
{
    struct range range = guids_of(c, child->parent_addr);
    for (size_t i = range.from; i < range.to; i++) {
        const struct guid_row *guid = c->rows[TABLE_guid].rows[i];
        if (str_equal(guid->guid, child->parent_guid)) {
            return true;
        }
    }
    return false;
}

/* A job that was asked to end, and takes its time; one that a person has stopped; one that goes on behind its answer. */
static bool may_go_on(const struct check *c, const struct job_row *child)
{
    return child->close == CLOSE_ABANDON || child->paused != 0 ||
           (child->close == CLOSE_CANCEL && child->cancelled > 0) || has_answered(c, child);
}

void rule_O8(struct check *c)
{
    bool ended = c->job->state != JOB_OPEN && c->job->completions > 0 &&
                 c->job->closed_at + LIMIT_CHECK_LAG_MS < c->now;
    EACH_ROW(c, job, child)
    {
        if (ended && child->state == JOB_OPEN && !may_go_on(c, child)) {
            found_on(c, child, evidence(c, "caller '%.*s'", CHECK_ECHO(c->job->jid)),
                     "the job that called it has ended, and it was not asked to end");
        }
    }
}

void rule_O9(struct check *c)
{
    int64_t count = 0;
    EACH_ROW(c, job, child)
    {
        count += child->close != CLOSE_ABANDON;
    }
    if (count > c->job->calls) {
        found(c, evidence(c, "calls %lld", (long long)c->job->calls),
              "it has called %lld jobs that do not outlive it, and counts %lld", (long long)count,
              (long long)c->job->calls);
    }
}

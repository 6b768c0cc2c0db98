/* copy_plan.c - what is taken over of a flow (see copy_plan.h) */
#include "flow/copy_plan.h"

#include <stdlib.h>

#include "flow/flow.h"
#include "flow/history.h"
#include "store/error.h"

/* An event of the other job. */
struct kept {
    qp_str addr;
    qp_str name;
    struct location at;
    int64_t type;
    int64_t birth; /* its journal entry, */
    int64_t done;  /* and that of its answer; 0: it is open, or complete from its birth */
    bool failed;   /* its answer is an error */
    bool complete; /* from its birth */
    bool dead;     /* the cancel of the other job has ended it */
    bool dropped;
    bool again; /* it begins again, whether it was answered or not */
    qp_str guid;
    qp_str parent_guid;
};

struct planning {
    struct turn *turn;
    const struct fork *fork;
    struct arena *arena;
    struct kept *events; /* in the order of locations */
    size_t count;
    size_t capacity;
    int rc;
    struct qp_err *err;
};

/* --------------------------------------------------------------------------------------- reading */

static int grow(struct planning *p)
{
    size_t capacity = p->capacity == 0 ? 64 : 2 * p->capacity;
    struct kept *events = arena_alloc(p->arena, capacity * sizeof *events);
    if (events == NULL) {
        return QP_E_NOMEM;
    }
    if (p->count > 0) {
        memcpy(events, p->events, p->count * sizeof *events);
    }
    p->events = events;
    p->capacity = capacity;
    return QP_OK;
}

static int take_event(struct planning *p, const struct act_row *act)
{
    struct kept *e;
    if (p->count == p->capacity) {
        QP_TRY(grow(p));
    }
    e = &p->events[p->count];
    *e = (struct kept){.type = act->kind,
                       .birth = act->seq,
                       .done = act->guid_seq,
                       .failed = act->code >= 400,
                       .dead = flow_cancels(p->fork->from, act) &&
                               (act->guid_seq == 0 || act->guid_seq > p->fork->from->cancelled),
                       .complete = flow_is_born_complete(act)};
    e->done = e->complete ? 0 : e->done;
    if (!location_from_address(act->addr, &e->at)) {
        return QP_E_CORRUPT;
    }
    if (!arena_copy(p->arena, act->addr, &e->addr) || !arena_copy(p->arena, act->topic, &e->name) ||
        !arena_copy(p->arena, act->guid, &e->guid) ||
        !arena_copy(p->arena, act->parent_guid, &e->parent_guid)) {
        return QP_E_NOMEM;
    }
    p->count++;
    return QP_OK;
}

/* bundle_each: what a visit returns would end the commit, so it is kept. */
static int each_event(void *context, const void *row)
{
    struct planning *p = context;
    const struct act_row *act = row;
    if (p->rc == QP_OK && flow_is_event(act->addr)) {
        p->rc = take_event(p, act);
    }
    return QP_OK;
}

static int read_events(struct planning *p)
{
    const struct job_row *from = p->fork->from;
    struct act_row first = {.ns = from->ns, .job = from->job, .addr = LOCATION_FIRST};
    struct scan scan = {.table = TABLE_act,
                        .index = -1,
                        .prefix = &first,
                        .prefix_count = 2,
                        .after = &first,
                        .limit = LIMIT_FLOW_EVENTS + 3,
                        .slim = true};
    QP_TRY(bundle_each(p->turn->bundle, &scan, p, each_event));
    return p->rc;
}

/* ---------------------------------------------------------------------------------- the cancel */

/* The decision that made it had seen the cancel of the other job. */
static bool is_of_cancel(const struct planning *p, const struct kept *e)
{
    return p->fork->from->cancelled > 0 && e->birth > p->fork->from->cancelled;
}

/* The new job was not cancelled: what the cancel has ended is open again, what was done because of it is forgotten. */
static void forget_cancel(const struct planning *p)
{
    for (size_t i = 0; i < p->count; i++) {
        p->events[i].dropped = is_of_cancel(p, &p->events[i]);
        p->events[i].again = p->events[i].dead;
    }
}

/* ---------------------------------------------------------------------------------- the place */

static int refuse(struct planning *p, int rc, const char *why)
{
    (void)err_set(p->err, rc, "at: '%.*s': %s", STR_ARG(p->fork->at), why);
    return err_point(p->err, rc, "/at");
}

/* The latest event of a name. */
static struct kept *by_name(struct planning *p, qp_str name)
{
    struct kept *found = NULL;
    for (size_t i = 0; i < p->count; i++) {
        if (!str_is_none(p->events[i].name) && str_equal(p->events[i].name, name) &&
            (found == NULL || p->events[i].birth > found->birth)) {
            found = &p->events[i];
        }
    }
    return found;
}

static struct kept *by_location(struct planning *p, const struct location *at)
{
    for (size_t i = 0; i < p->count; i++) {
        if (location_compare(&p->events[i].at, at) == 0) {
            return &p->events[i];
        }
    }
    return NULL;
}

/* Signals that a listen with a time limit has received: the sleep that they interrupted. */
static struct kept *sleep_of(struct planning *p, const struct kept *signals)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->events[i].type == HISTORY_SLEEP && !str_is_none(p->events[i].guid) &&
            str_equal(p->events[i].guid, signals->parent_guid)) {
            return &p->events[i];
        }
    }
    return NULL;
}

static bool is_got(const struct kept *e)
{
    return e->type == HISTORY_SIGNALS && e->complete;
}

static int find_place(struct planning *p, struct kept **out_event)
{
    struct location at;
    struct kept *e;
    if (p->fork->at.n > 0 && p->fork->at.p[0] == '{') {
        if (location_parse(p->fork->at, &at, NULL) != QP_OK || at.depth == 0) {
            return refuse(p, QP_E_INVALID,
                          "it is no location of an event, which is like {3} or {2, 1}");
        }
        e = by_location(p, &at);
    } else {
        e = by_name(p, p->fork->at);
    }
    if (e == NULL) {
        return refuse(p, QP_E_NOT_FOUND,
                      "the history has no such event, or has forgotten it: quipu history shows "
                      "locations and names");
    }
    if (is_of_cancel(p, e)) {
        return refuse(p, QP_E_INVALID,
                      "it was done because the job was cancelled; name a step before it");
    }
    if (is_got(e) && sleep_of(p, e) != NULL) {
        e = sleep_of(p, e);
    }
    *out_event = e;
    return QP_OK;
}

static void keep_before(struct planning *p, const struct kept *place)
{
    struct location at = place->at;
    for (size_t i = 0; i < p->count; i++) {
        p->events[i].dropped |= location_compare(&p->events[i].at, &at) >= 0;
    }
}

/* ---------------------------------------------------------------------------------- the failure */

static bool is_alike(const struct location *a, const struct location *b, uint32_t depth)
{
    size_t end = depth == 0 ? 0 : a->ends[depth - 1];
    if (a->depth < depth || b->depth < depth || memcmp(a->ends, b->ends, depth) != 0) {
        return false;
    }
    return memcmp(a->ordinates, b->ordinates, end * sizeof *a->ordinates) == 0;
}

/* How many coordinates two locations have in common. */
static uint32_t common_depth(const struct location *a, const struct location *b)
{
    uint32_t depth = 0;
    while (depth < a->depth && depth < b->depth && is_alike(a, b, depth + 1)) {
        depth++;
    }
    return depth;
}

/* The step whose error has ended the flow: the one that the error names, else the last that was answered, if that was an
 * error. NULL: it failed by itself, or was ended from outside. */
static int find_failure(struct planning *p, struct kept **out_event)
{
    const struct job_row *from = p->fork->from;
    struct kept *last = NULL;
    struct location at;
    struct error e;
    *out_event = NULL;
    if (from->state != JOB_FAILED || str_is_none(from->error)) {
        return QP_OK;
    }
    QP_TRY(error_read(p->arena, from->error, &e));
    if (!str_is_none(e.addr) &&
        (location_parse(e.addr, &at, NULL) == QP_OK || location_from_address(e.addr, &at))) {
        last = by_location(p, &at);
    }
    for (size_t i = 0; i < p->count && last == NULL; i++) {
        struct kept *k = &p->events[i];
        if (k->dropped || k->again) {
            continue;
        }
        *out_event = *out_event == NULL || k->done > (*out_event)->done ? k : *out_event;
    }
    *out_event = last != NULL ? last : *out_event;
    if (*out_event != NULL && ((*out_event)->done == 0 || !(*out_event)->failed)) {
        *out_event = NULL;
    }
    return QP_OK;
}

/* What the flow began beside the failure stands in other branches, or was begun before it knew. The events below one
 * follow it directly. */
static void keep_beside(struct planning *p, struct kept *failed)
{
    bool drops = false;
    failed->again = true;
    for (size_t i = 0; i < p->count; i++) {
        struct kept *e = &p->events[i];
        uint32_t common = common_depth(&e->at, &failed->at);
        if (common == e->at.depth || common == failed->at.depth) {
            continue; /* the failure itself, and what it stands in */
        }
        if (e->at.depth == common + 1) {
            drops = e->birth > failed->done;
        }
        e->dropped |= drops;
    }
}

/* ------------------------------------------------------------------------------------- the plan */

/* A sleep whose signals are not taken over has not been interrupted. */
static void settle_sleeps(struct planning *p)
{
    for (size_t i = 0; i < p->count; i++) {
        struct kept *sleep = is_got(&p->events[i]) ? sleep_of(p, &p->events[i]) : NULL;
        if (sleep != NULL && p->events[i].dropped) {
            sleep->again = true;
        }
    }
}

/* Nothing below the loop was left out, so it is as it was. */
static bool loop_is_whole(const struct planning *p, size_t index)
{
    const struct kept *loop = &p->events[index];
    for (size_t i = index + 1; i < p->count; i++) {
        const struct kept *e = &p->events[i];
        if (!is_alike(&e->at, &loop->at, loop->at.depth)) {
            break;
        }
        if (e->dropped || e->again) {
            return false;
        }
    }
    return true;
}

/* How the loop ended: after which entry of the journal; 0: it has not. */
static int loop_end(struct planning *p, const struct kept *loop, int64_t *out_seen)
{
    struct data_row key = {.ns = p->fork->from->ns, .job = p->fork->from->job};
    const void *row = NULL;
    qp_str value;
    *out_seen = 0;
    QP_TRY(flow_loop_name(p->arena, loop->addr, &key.name));
    QP_TRY(bundle_get(p->turn->bundle, TABLE_data, &key, &row));
    if (row == NULL) {
        return QP_OK;
    }
    value = ((const struct data_row *)row)->value;
    if (!str_is_none(flow_member(value, "output"))) {
        *out_seen = (int64_t)real_parse(flow_member(value, "seen"));
    }
    if (p->fork->from->cancelled > 0 && *out_seen >= p->fork->from->cancelled) {
        *out_seen = 0; /* it ended because of the cancel */
    }
    return QP_OK;
}

static void add(struct plan *plan, int64_t order, char mark, qp_str addr)
{
    plan->steps[plan->count++] = (struct plan_step){order, mark, addr};
}

static int plan_event(struct planning *p, size_t index, struct plan *plan)
{
    const struct kept *e = &p->events[index];
    int64_t seen = 0;
    bool answered = e->done > 0 && !e->again;
    add(plan, 2 * e->birth, e->complete || answered ? 'b' : 'o', e->addr);
    if (answered) {
        add(plan, 2 * e->done, 'e', e->addr);
    }
    if (e->type == HISTORY_LOOP && loop_is_whole(p, index)) {
        QP_TRY(loop_end(p, e, &seen));
    }
    if (seen > 0) {
        add(plan, 2 * seen + 1, 'l', e->addr);
    }
    return QP_OK;
}

static int by_order(const void *a, const void *b)
{
    const struct plan_step *x = a;
    const struct plan_step *y = b;
    return x->order != y->order ? (x->order > y->order) - (x->order < y->order)
                                : str_compare(x->addr, y->addr);
}

static int write_plan(struct planning *p, struct plan *out_plan)
{
    *out_plan =
        (struct plan){.steps = arena_alloc(p->arena, (2 * p->count + 1) * sizeof *out_plan->steps)};
    if (out_plan->steps == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < p->count; i++) {
        if (!p->events[i].dropped) {
            QP_TRY(plan_event(p, i, out_plan));
        }
    }
    qsort(out_plan->steps, out_plan->count, sizeof *out_plan->steps, by_order);
    return QP_OK;
}

int plan_make(struct turn *t, const struct fork *fork, struct plan *out_plan, struct qp_err *err)
{
    struct planning p = {.turn = t, .fork = fork, .arena = turn_arena(t), .err = err};
    struct kept *place = NULL;
    QP_TRY(read_events(&p));
    forget_cancel(&p);
    if (!str_is_none(fork->at)) {
        QP_TRY(find_place(&p, &place));
        keep_before(&p, place);
    } else if (fork->from->state == JOB_COMPLETED) {
        return err_set(err, QP_E_CONFLICT,
                       "it has completed, so nothing of it is to be retried; fork it instead");
    } else {
        QP_TRY(find_failure(&p, &place));
        if (place != NULL) {
            keep_beside(&p, place);
        }
    }
    settle_sleeps(&p);
    return write_plan(&p, out_plan);
}

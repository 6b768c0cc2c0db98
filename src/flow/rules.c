/* rules.c - the rules of fsck about histories of flows (see rules.h)
 *
 * Each rule is one scan of the job's events, in the order of their locations. What stands above an event and what stands
 * before it in its branch is kept per depth, so that memory does not grow with the history.
 *
 *   I1  above[d] is the last event of depth d, for d up to the depth of the last event: what lies deeper is forgotten as soon
 *       as the scan leaves its branch
 */
#include "flow/rules.h"

#include <stdio.h>

#include "flow/flow.h"
#include "flow/view.h"
#include "kernel/deciding.h"
#include "kernel/ledger.h"

struct passed {
    struct location at;
    int64_t version;
    int64_t seq;
    bool holds_others; /* a branch, a loop or an iteration */
    bool has_spawned;  /* its first GUID has: what it made is counted */
};

struct walk {
    const struct sight *sight;
    struct passed above[LIMIT_LOCATION_COORDINATES + 1]; /* by depth, from 1 */
    uint32_t depth;
    qp_str wrong; /* the first violation; none */
    /* H7 */
    struct act_row flow;
    int64_t open; /* works that the semaphore counts */
};

typedef int (*ask_event)(struct walk *w, const struct act_row *act, const struct passed *event);

/* ------------------------------------------------------------------------------------- the scan */

/* Keeps the first sentence. */
static int found(struct walk *w, const struct passed *event, const char *what)
{
    char location[LOCATION_TEXT_SIZE];
    char text[LOCATION_TEXT_SIZE + 200];
    int n;
    (void)location_print(&event->at, location);
    n = snprintf(text, sizeof text, "event %s: %s", location, what);
    QP_ASSERT(n > 0 && (size_t)n < sizeof text);
    return arena_copy(w->sight->arena, (qp_str){text, (size_t)n}, &w->wrong) ? QP_OK : QP_E_NOMEM;
}

static bool type_holds_others(int64_t type)
{
    return type == HISTORY_BRANCH || type == HISTORY_LOOP;
}

struct asking {
    struct walk *w;
    ask_event ask;
};

static int take(void *context, const void *row)
{
    struct asking *a = context;
    struct walk *w = a->w;
    const struct act_row *act = row;
    struct passed event = {.version = act->version,
                           .seq = act->seq,
                           .holds_others = type_holds_others(act->kind),
                           .has_spawned = guid_has_spawned(act->guid_ledger)};
    if (!flow_is_event(act->addr)) {
        return QP_E_DONE; /* flow,0,0 and what sorts behind it */
    }
    if (!location_from_address(act->addr, &event.at) || event.at.depth == 0) {
        return arena_copy(w->sight->arena, QP_STR("the address of an event is no location"),
                          &w->wrong)
                   ? QP_E_DONE
                   : QP_E_NOMEM;
    }
    QP_TRY(a->ask(w, act, &event));
    w->above[event.at.depth] = event;
    w->depth = event.at.depth;
    return str_is_none(w->wrong) ? QP_OK : QP_E_DONE;
}

static int walk_events(struct walk *w, ask_event ask)
{
    struct act_row first = {
        .ns = w->sight->job->ns, .job = w->sight->job->job, .addr = LOCATION_FIRST};
    struct scan scan = {.table = TABLE_act,
                        .index = -1,
                        .prefix = &first,
                        .prefix_count = 2,
                        .after = &first,
                        .limit = LIMIT_FLOW_EVENTS + 1,
                        .slim = true};
    struct asking asking = {w, ask};
    int rc = store_scan(w->sight->store, &scan, &asking, take, w->sight->err);
    return rc == QP_E_DONE ? QP_OK : rc;
}

/* What stands above the event; NULL: nothing does, and it stands in no branch of the flow. */
static const struct passed *holder_of(const struct walk *w, const struct passed *event)
{
    struct location parent = location_parent(&event->at);
    const struct passed *above = &w->above[parent.depth];
    return parent.depth <= w->depth && above->holds_others &&
                   location_compare(&above->at, &parent) == 0
               ? above
               : NULL;
}

/* The event before it in its branch; NULL: it is the first. */
static const struct passed *before(const struct walk *w, const struct passed *event)
{
    const struct passed *last = &w->above[event->at.depth];
    struct location mine = location_parent(&event->at);
    struct location its;
    if (event->at.depth > w->depth) {
        return NULL;
    }
    its = location_parent(&last->at);
    return location_compare(&mine, &its) == 0 ? last : NULL;
}

/* --------------------------------------------------------------------------------------- rules */

static int ask_order(struct walk *w, const struct act_row *act, const struct passed *event)
{
    const struct passed *former = before(w, event);
    (void)act;
    return former == NULL || former->seq < event->seq || former->version > event->version
               ? QP_OK
               : found(w, event,
                       "the event before it was written later, and its version is not higher");
}

static int rule_order(void *state, const struct sight *sight, qp_str *out_wrong)
{
    struct walk w = {.sight = sight};
    (void)state;
    QP_TRY(walk_events(&w, ask_order));
    *out_wrong = w.wrong;
    return QP_OK;
}

/* An event that is born complete brings its value as its input. */
static int ask_answer(struct walk *w, const struct act_row *act, const struct passed *event)
{
    bool works = !str_is_none(act->guid) && guid_work_is_done(act->guid_ledger);
    bool counts = act->guid_seq > 0;
    if (flow_is_born_complete(act)) {
        return QP_OK;
    }
    if (counts && !works) {
        return found(w, event, "it is answered, and step 1 of its GUID is not marked");
    }
    if (!works && act->code != 0) {
        return found(w, event,
                     "it has the code of an answer, and step 1 of its GUID is not marked");
    }
    return ledger_is_finalized(act->ledger) && !counts
               ? found(w, event, "it is finalized, and has no answer")
               : QP_OK;
}

static int rule_answers(void *state, const struct sight *sight, qp_str *out_wrong)
{
    struct walk w = {.sight = sight};
    (void)state;
    QP_TRY(walk_events(&w, ask_answer));
    *out_wrong = w.wrong;
    return QP_OK;
}

/* Whether the decision that made the event has counted it, which is its step 2. *out_made false: no decision made it. */
static int is_decided(struct walk *w, const struct act_row *act, bool *out_made, bool *out_counted)
{
    struct guid_row key = {
        .ns = act->ns, .job = act->job, .addr = FLOW_ADDRESS, .guid = act->parent_guid};
    const void *row = NULL;
    int rc;
    *out_made = true;
    if (str_equal(w->flow.guid, act->parent_guid)) {
        *out_counted = guid_has_spawned(w->flow.guid_ledger);
        return QP_OK;
    }
    rc = store_get(w->sight->store, w->sight->arena, TABLE_guid, &key, &row, w->sight->err);
    if (rc == QP_E_NOT_FOUND) {
        *out_made = false;
        return QP_OK;
    }
    *out_counted =
        rc == QP_OK && row != NULL && guid_has_spawned(((const struct guid_row *)row)->ledger);
    return rc;
}

/* Whether the semaphore counts the event now: from the step 2 that enters it to its own. Signals that a listen with a time
 * limit received are entered by the answer of the sleep, the event before them. */
static int is_counted(struct walk *w, const struct act_row *act, const struct passed *event,
                      bool *out_counted)
{
    const struct passed *former = before(w, event);
    bool made = false;
    *out_counted = act->ledger != 0;
    if (event->has_spawned || act->ledger != 0) {
        *out_counted = !event->has_spawned;
        return QP_OK;
    }
    QP_TRY(is_decided(w, act, &made, out_counted));
    if (!made && act->kind == HISTORY_SIGNALS && flow_is_born_complete(act)) {
        *out_counted = former != NULL && former->has_spawned;
    }
    return QP_OK;
}

static int ask_place(struct walk *w, const struct act_row *act, const struct passed *event)
{
    const struct passed *holder = event->at.depth == 1 ? NULL : holder_of(w, event);
    bool counted = false;
    if (act->kind <= 0 || act->kind >= HISTORY_TYPES) {
        return found(w, event, "its type is not known");
    }
    if (event->at.depth > 1 && holder == NULL) {
        return found(w, event, "no branch or loop stands above it");
    }
    if (act->version < (holder == NULL ? 1 : holder->version)) {
        return found(w, event, "its version is below that of its branch");
    }
    QP_TRY(is_counted(w, act, event, &counted));
    w->open += counted;
    return QP_OK;
}

static int ask_semaphore(struct walk *w)
{
    const struct job_row *job = w->sight->job;
    char text[120];
    bool returned = false;
    int n;
    QP_TRY(flow_has_returned(w->sight, &returned));
    if (returned || job->sem == 1 + w->open) {
        return QP_OK;
    }
    n = snprintf(text, sizeof text, "the semaphore is %lld, and the flow has %lld open works",
                 (long long)job->sem, (long long)w->open);
    return arena_copy(w->sight->arena, (qp_str){text, (size_t)n}, &w->wrong) ? QP_OK : QP_E_NOMEM;
}

static int rule_places(void *state, const struct sight *sight, qp_str *out_wrong)
{
    struct walk w = {.sight = sight};
    struct act_row key = {.ns = sight->job->ns, .job = sight->job->job, .addr = FLOW_ADDRESS};
    const void *flow = NULL;
    int rc = store_get(sight->store, sight->arena, TABLE_act, &key, &flow, sight->err);
    bool begun = rc == QP_OK && flow != NULL;
    (void)state;
    if (rc != QP_OK && rc != QP_E_NOT_FOUND) {
        return rc;
    }
    if (begun) {
        w.flow = *(const struct act_row *)flow;
    }
    QP_TRY(walk_events(&w, ask_place));
    if (str_is_none(w.wrong) && begun && ledger_leg1_is_done(w.flow.ledger) &&
        sight->job->state == JOB_OPEN) {
        QP_TRY(ask_semaphore(&w));
    }
    *out_wrong = w.wrong;
    return QP_OK;
}

/* The row of the flow itself; *out_begun false: the job is over, or a person has to see to it, or Leg1 is still to come. */
static int find_flow(struct walk *w, bool *out_begun)
{
    const struct sight *sight = w->sight;
    struct act_row key = {.ns = sight->job->ns, .job = sight->job->job, .addr = FLOW_ADDRESS};
    const void *flow = NULL;
    int rc = QP_E_NOT_FOUND;
    if (sight->job->state == JOB_OPEN && str_is_none(sight->job->parked)) {
        rc = store_get(sight->store, sight->arena, TABLE_act, &key, &flow, sight->err);
    }
    *out_begun = false;
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    w->flow = *(const struct act_row *)flow;
    *out_begun = ledger_leg1_is_done(w->flow.ledger);
    return QP_OK;
}

/* Something that decides next: the task or the response of a decision, or an open work. */
static int has_wake(struct walk *w, bool *out_wakes)
{
    struct deciding_seen seen;
    if (w->flow.waits == ACT_WAITS) {
        QP_TRY(walk_events(w, ask_place));
        *out_wakes = w->open > 0 || !str_is_none(w->wrong); /* what is wrong is H7's to say */
        return QP_OK;
    }
    QP_TRY(deciding_see(w->sight, FLOW_ADDRESS, &seen));
    *out_wakes = seen.has_task || seen.is_dead || seen.has_answer;
    return QP_OK;
}

static int rule_wakes(void *state, const struct sight *sight, qp_str *out_wrong)
{
    struct walk w = {.sight = sight};
    bool begun = false;
    bool returned = false;
    bool wakes = true;
    (void)state;
    QP_TRY(find_flow(&w, &begun));
    QP_TRY(flow_has_returned(sight, &returned));
    if (begun && !returned) {
        QP_TRY(has_wake(&w, &wakes));
    }
    if (!wakes) {
        *out_wrong = w.flow.waits == ACT_WAITS
                         ? QP_STR("the flow waits, and none of its works is open")
                         : QP_STR("the flow decides, and neither the task nor the answer of a "
                                  "decision is there");
    }
    return QP_OK;
}

#define NEXT_DAMAGE                                                                                \
    "keep a copy of the store, restore the latest backup for which quipu fsck finds nothing, and " \
    "report the evidence"

const struct face_rule flow_rules[] = {
    {"H3", QP_SEVERITY_ERROR, NEXT_DAMAGE, rule_order},
    {"H5", QP_SEVERITY_ERROR, NEXT_DAMAGE, rule_answers},
    {"H7", QP_SEVERITY_ERROR, NEXT_DAMAGE, rule_places},
    {"H8", QP_SEVERITY_ERROR, NEXT_DAMAGE, rule_wakes},
    {NULL, QP_SEVERITY_ERROR, NULL, NULL},
};

/* item.c - what becomes of a work item in its turn (see item.h)
 *
 *   SELECT-SYNC, SELECT     stage_select: an override, the history, or the type's own choice
 *   the pass of its level   the mark of its node: a context that was expanded and dominates makes it a DUPLICATE
 *   RESOLVE-SYNC, RESOLVE   stage_resolve
 *   TRAVERSE                stage_traverse: its children are born behind the next gate
 *
 *   I1  an item is judged after all items before it in the order of addresses, and sees their marks
 *   I2  step 1 keeps the ending and the mark, step 2 makes the children and counts: both follow from the item's input, the
 *       marks before it and the facts of the job's universe, so either can run alone
 *   I3  an ending is written once; the obligation of the item goes in the same step 2
 *
 * In a request with `split`, SELECT, RESOLVE and TRAVERSE are tasks (split.h), and an item is entered several times. Its
 * rows of data say which answer is next: no row 'r': SELECT's; 'r' is ASKED: RESOLVE's; else TRAVERSE's.
 *
 *   entry            keeps         then
 *   phase select     fetch         a task, and one more way to the scope `select` of its gate (below)
 *                    select        likewise
 *                    wait          nothing: it was selected before, or its type is ordered
 *   FETCH            select        a task
 *   SELECT           selected      one way less
 *   phase run        an ending     as without split
 *                    resolve       a task, and one more way to the next gate
 *   RESOLVE          traverse      a task
 *                    an ending     a failure
 *   TRAVERSE         an ending     its children, and one way less
 *
 * Of a type that workers serve (external.h), SELECT and RESOLVE are tasks without split, too, and RESOLVE's answer is followed by
 * its ending. What an override or the history says is not asked for: that item waits. SELECT-SYNC is a task if the type has
 * a topic for it; the row 's' says so until it is answered.
 *
 *   phase select     sync          a task, and one more way
 *   SELECT-SYNC      synced        a task: SELECT
 *                    selected      one way less
 *
 * Items of an external ordered type are selected side by side, as if each were alone; in phase run the history comes before what
 * a worker has answered, so the first item of a target in the order of addresses decides for all of them.
 *
 * Of a type whose facts are fetched (fetch.h), a level has phase `select` without split, too: the first item of a package
 * that the request has not seen keeps `fetch`, the row 'f' says so until it is answered, and the others wait. With split each
 * item asks by itself; the first answer is the package's pin.
 *
 *   FETCH            selected      the pin is written, and one way less
 *
 * A failure ends the item, not the job; that of a root, and a type that is not known, end the request.
 */
#include "carto/item.h"

#include "base/failpoint.h"
#include "carto/external_answer.h"
#include "carto/fetch.h"
#include "carto/split.h"
#include "store/error.h"

#define STEP_FETCH QP_STR("{\"step\":\"fetch\"}")
#define STEP_FETCHED QP_STR("{\"step\":\"fetched\"}") /* SELECT is asked for next */
#define STEP_SYNC QP_STR("{\"step\":\"sync\"}")
#define STEP_SYNCED QP_STR("{\"step\":\"synced\"}") /* likewise */
#define STEP_SELECT QP_STR("{\"step\":\"select\"}")
#define STEP_SELECTED QP_STR("{\"step\":\"selected\"}")
#define STEP_WAIT QP_STR("{\"step\":\"wait\"}")
#define STEP_RESOLVE QP_STR("{\"step\":\"resolve\"}")
#define STEP_TRAVERSE QP_STR("{\"step\":\"traverse\"}")

#define ASKED QP_STR("{}") /* the row of RESOLVE's answer while that is still to come */

/* What the stages have made of an item. */
struct made {
    bool is_split;
    struct carto_item item;
    struct carto_children children;
    struct carto_counts counts;
};

static int read_item(struct turn *t, struct carto_item *out_item)
{
    const struct traversals *s = t->program->context;
    return item_read(&s->env, turn_arena(t), path_of(t->site.addr), t->act->input, out_item);
}

/* ------------------------------------------------------------------------------------------ history */

static int history_look(void *context, struct carto_id id, bool *out_found,
                        struct carto_package *out)
{
    struct turn *t = context;
    const struct data_row *row = NULL;
    qp_str name;
    QP_TRY(history_name(turn_arena(t), id, &name));
    QP_TRY(turn_data(t, name, &row));
    *out_found = row != NULL;
    if (row == NULL) {
        return QP_OK;
    }
    return package_read(row->value, out) ? QP_OK : QP_E_CORRUPT;
}

static int history_put(struct turn *t, struct carto_id id, const struct carto_package *package)
{
    const struct data_row *row = NULL;
    qp_str name;
    qp_str text;
    QP_TRY(history_name(turn_arena(t), id, &name));
    QP_TRY(turn_data(t, name, &row));
    if (row != NULL) {
        return QP_OK;
    }
    QP_TRY(package_write(turn_arena(t), package, &text));
    return turn_data_put(t, name, text);
}

/* The type, if workers serve it. */
static const struct carto_external *external_of(const struct carto_request *r, qp_str type)
{
    const struct carto_use *use = carto_use_of(r, type);
    return use == NULL ? NULL : use->type->external;
}

static bool is_ordered(const struct carto_request *r, const struct carto_item *item)
{
    const struct carto_use *use = carto_use_of(r, item->target.type);
    return use != NULL && use->type->mode == CARTO_ORDERED;
}

/* Of an ordered type the first selection of a target stands; also that of the package it was moved to. */
static int remember(struct turn *t, const struct carto_request *r, const struct carto_item *item)
{
    if (!item->is_selected || !is_ordered(r, item)) {
        return QP_OK;
    }
    QP_TRY(history_put(t, item->target, &item->selected));
    return history_put(t, item->selected.id, &item->selected);
}

/* --------------------------------------------------------------------------------------------- pins */

static int pin_look(void *context, struct carto_id id, struct carto_pin *out)
{
    struct turn *t = context;
    const struct traversals *s = t->program->context;
    const struct data_row *row = NULL;
    qp_str name;
    QP_TRY(pin_name(turn_arena(t), id, &name));
    QP_TRY(turn_data(t, name, &row));
    return pin_read(&s->env, turn_arena(t), row == NULL ? QP_NONE : row->value, out);
}

/* ------------------------------------------------------------------------------------- rows of split */

/* What SELECT ('p') or RESOLVE ('r') has answered, and whether FETCH ('f') has to; none: nothing. */
static int pending_get(struct turn *t, char step, qp_str *out_text)
{
    const struct data_row *row = NULL;
    qp_str name;
    QP_TRY(pending_name(turn_arena(t), step, path_of(t->site.addr), &name));
    QP_TRY(turn_data(t, name, &row));
    *out_text = row == NULL ? QP_NONE : row->value;
    return QP_OK;
}

static int pending_put(struct turn *t, char step, qp_str text)
{
    qp_str name;
    QP_TRY(pending_name(turn_arena(t), step, path_of(t->site.addr), &name));
    return turn_data_put(t, name, text);
}

/* ------------------------------------------------------------------------------------------- stages */

static int select_item(struct turn *t, const struct carto_request *r, struct made *m)
{
    const struct traversals *s = t->program->context;
    struct carto_outcome outcome = {.result = CARTO_AVOIDED};
    struct qp_err err = {0};
    qp_str answer = QP_NONE;
    bool is_external = external_of(r, m->item.target.type) != NULL;
    if (m->is_split || is_external) {
        QP_TRY(pending_get(t, 'p', &answer));
    }
    if (str_is_none(answer) || is_external) {
        QP_TRY(stage_select(r, turn_arena(t), &m->item, &outcome, &err));
    }
    if (!str_is_none(answer) && !m->item.is_selected) {
        QP_TRY(split_selected(&s->env, turn_arena(t), answer, &m->item, &outcome));
    }
    if (outcome.result == CARTO_WANTS) { /* the phase before has fetched it */
        return QP_E_CORRUPT;
    }
    if (outcome.result == CARTO_FAILED) {
        stage_fail(&m->item, &outcome, &m->counts);
    }
    return remember(t, r, &m->item);
}

/* Whether the node was expanded in a context that dominates the item's; and its mark, when it was not. */
static int judge_item(struct turn *t, struct made *m)
{
    struct carto_item *item = &m->item;
    const struct carto_package node =
        item->is_selected ? item->selected : (struct carto_package){.id = item->target};
    const struct data_row *row = NULL;
    qp_str name;
    qp_str mark = QP_NONE;
    qp_str of;
    QP_TRY(node_name(turn_arena(t), &node, &name));
    QP_TRY(turn_data(t, name, &row));
    item->is_first = row == NULL;
    of = row == NULL || item->state != CARTO_OPEN ? QP_NONE : mark_dominating(row->value, item);
    if (PLANT(node_alone) && row != NULL && item->state == CARTO_OPEN) {
        of = item->path;
    }
    if (!str_is_none(of)) {
        stage_duplicate(item, of, &m->counts);
        return QP_OK;
    }
    QP_TRY(mark_add(turn_arena(t), row == NULL ? QP_NONE : row->value, item, &mark));
    return turn_data_put(t, name, mark);
}

/* What RESOLVE has answered, if a worker did. */
static int resolve_item(struct turn *t, const struct carto_request *r, struct made *m,
                        struct carto_relations *out, struct carto_outcome *outcome)
{
    const struct traversals *s = t->program->context;
    struct qp_err err = {0};
    qp_str answer = QP_NONE;
    if (m->is_split || external_of(r, m->item.selected.id.type) != NULL) {
        QP_TRY(pending_get(t, 'r', &answer));
    }
    if (str_is_none(answer) || str_equal(answer, ASKED)) {
        return stage_resolve(r, turn_arena(t), &m->item, out, outcome, &err);
    }
    return split_relations(&s->env, turn_arena(t), answer, out, outcome);
}

static int expand_item(struct turn *t, const struct carto_request *r, struct made *m)
{
    struct carto_relations relations;
    struct carto_outcome outcome;
    QP_TRY(resolve_item(t, r, m, &relations, &outcome));
    if (outcome.result == CARTO_WANTS) {
        return QP_E_CORRUPT;
    }
    if (outcome.result == CARTO_FAILED) {
        stage_fail(&m->item, &outcome, &m->counts);
        return QP_OK;
    }
    return stage_traverse(r, turn_arena(t), &m->item, &relations, &m->children, &m->counts);
}

static struct carto_request request_of(struct turn *t, const struct carto_plan *plan)
{
    struct carto_request r = plan->request;
    r.history = history_look;
    r.history_context = t;
    r.pinned = pin_look;
    r.pinned_context = t;
    return r;
}

/* -------------------------------------------------------------------------------------------- steps */

static int keep_step(struct work *work, int64_t code, qp_str text)
{
    *work = (struct work){code, text};
    return QP_OK;
}

static int keep_ending(struct turn *t, struct made *m, struct work *work)
{
    t->kept = m;
    work->code = m->item.state == CARTO_FAILED_ITEM ? 422 : 200;
    return ending_write(turn_arena(t), &m->item, &m->counts, &work->output);
}

/* What the engine has selected itself, for the workers of the next steps: also against what a worker of an external type has
 * answered. */
static int keep_selected(struct turn *t, const struct carto_request *r,
                         const struct carto_item *item)
{
    qp_str text;
    QP_TRY(pending_get(t, 'p', &text));
    if (!str_is_none(text) && external_of(r, item->target.type) == NULL) {
        return QP_OK;
    }
    QP_TRY(ending_write(turn_arena(t), item, NULL, &text));
    return pending_put(t, 'p', text);
}

/* A type that is not known has no workers. */
static bool asks_resolve(const struct carto_request *r, const struct made *m)
{
    const struct carto_use *use = carto_use_of(r, m->item.selected.id.type);
    return use != NULL && (m->is_split || use->type->external != NULL);
}

/* Phase run: the pass over the level, in the order of addresses. */
static int run_work(struct turn *t, const struct carto_request *r, struct made *m,
                    struct work *work)
{
    QP_TRY(select_item(t, r, m));
    QP_TRY(judge_item(t, m));
    if (m->item.state != CARTO_OPEN) {
        return keep_ending(t, m, work);
    }
    if (asks_resolve(r, m)) {
        QP_TRY(keep_selected(t, r, &m->item));
        QP_TRY(pending_put(t, 'r', ASKED));
        return keep_step(work, CODE_PENDING, STEP_RESOLVE);
    }
    QP_TRY(expand_item(t, r, m));
    return keep_ending(t, m, work);
}

/* Asks for the fact of a package, unless an item before it has. */
static int fetch_work(struct turn *t, const struct made *m, struct carto_id id, bool *out_asks)
{
    const struct data_row *row = NULL;
    qp_str name;
    QP_TRY(pin_name(turn_arena(t), id, &name));
    QP_TRY(turn_data(t, name, &row));
    *out_asks = row == NULL || (m->is_split && str_equal(row->value, PIN_ASKED));
    if (row == NULL) {
        QP_TRY(turn_data_put(t, name, PIN_ASKED));
    }
    return *out_asks ? pending_put(t, 'f', ASKED) : QP_OK;
}

/* Of an external type: what was not chosen before. */
static int select_external(struct turn *t, const struct carto_request *r, const struct made *m,
                           const struct carto_external *external, struct work *work)
{
    struct carto_package chosen;
    bool is_chosen = m->item.is_selected;
    if (!is_chosen) {
        QP_TRY(carto_chosen(r, m->item.target, &is_chosen, &chosen));
    }
    if (is_chosen) {
        return keep_step(work, 200, STEP_WAIT);
    }
    if (str_is_none(external->select_sync)) {
        return keep_step(work, CODE_PENDING, STEP_SELECT);
    }
    QP_TRY(pending_put(t, 's', ASKED));
    return keep_step(work, CODE_PENDING, STEP_SYNC);
}

/* Phase select: what has to be fetched first, and what workers can select by themselves. */
static int select_work(struct turn *t, const struct carto_request *r, const struct made *m,
                       struct work *work)
{
    const struct carto_external *external = external_of(r, m->item.target.type);
    bool is_waiting = !m->is_split || m->item.is_selected || is_ordered(r, &m->item) ||
                      carto_use_of(r, m->item.target.type) == NULL;
    struct carto_id wanted;
    bool asks = false;
    if (external != NULL) {
        return select_external(t, r, m, external, work);
    }
    QP_TRY(fetch_wants(r, turn_arena(t), &m->item, &wanted));
    if (wanted.name.n > 0) {
        QP_TRY(fetch_work(t, m, wanted, &asks));
    }
    if (asks) {
        return keep_step(work, CODE_PENDING, STEP_FETCH);
    }
    return is_waiting ? keep_step(work, 200, STEP_WAIT)
                      : keep_step(work, CODE_PENDING, STEP_SELECT);
}

/* What a worker says that failed, or an engine that has lost it. */
static int read_loss(struct turn *t, struct carto_outcome *out)
{
    struct error error = {0};
    QP_TRY(error_read(turn_arena(t), t->payload, &error));
    *out = (struct carto_outcome){CARTO_FAILED, CARTO_WORKER_LOST, error.message};
    return QP_OK;
}

static int write_failure(struct turn *t, const struct carto_outcome *outcome, qp_str *out_text)
{
    struct carto_item failed = {.failure = outcome->failure, .error = outcome->text};
    return failure_write(turn_arena(t), &failed, out_text);
}

/* Of an answer that cannot be read. */
static struct carto_outcome unreadable(void)
{
    return (struct carto_outcome){CARTO_FAILED, CARTO_METADATA_ERROR,
                                  QP_STR("the answer of the worker cannot be read")};
}

/* What FETCH has answered, or why it could not. */
static int read_pin(struct turn *t, struct carto_pin *out)
{
    const struct traversals *s = t->program->context;
    struct carto_outcome outcome = unreadable();
    int rc = QP_E_CORRUPT;
    if (t->code >= 400) {
        QP_TRY(read_loss(t, &outcome));
        outcome.failure = CARTO_METADATA_ERROR;
    } else {
        rc = pin_read(&s->env, turn_arena(t), t->payload, out);
    }
    if (rc != QP_E_CORRUPT && (rc != QP_OK || out->is_known)) {
        return rc;
    }
    *out =
        (struct carto_pin){.is_known = true, .failure = outcome.failure, .message = outcome.text};
    return QP_OK;
}

static int take_fetched(struct turn *t, const struct carto_request *r, const struct made *m,
                        struct work *work)
{
    const struct data_row *row = NULL;
    struct carto_id wanted;
    struct carto_pin pin;
    qp_str name;
    qp_str text;
    QP_TRY(fetch_wants(r, turn_arena(t), &m->item, &wanted));
    if (wanted.name.n == 0) {
        return QP_E_CORRUPT;
    }
    QP_TRY(pin_name(turn_arena(t), wanted, &name));
    QP_TRY(turn_data(t, name, &row));
    if (row == NULL || str_equal(row->value, PIN_ASKED)) {
        QP_TRY(read_pin(t, &pin));
        QP_TRY(pin_write(turn_arena(t), &pin, &text));
        QP_TRY(turn_data_put(t, name, text));
    }
    QP_TRY(pending_put(t, 'f', QP_NONE));
    return m->is_split ? keep_step(work, CODE_PENDING, STEP_FETCHED)
                       : keep_step(work, 200, STEP_SELECTED);
}

/* SELECT, or a SELECT-SYNC that knows, of an external type. */
static int keep_external(struct turn *t, const struct carto_item *item,
                         const struct carto_outcome *outcome, struct work *work)
{
    qp_str text;
    QP_TRY(outcome->result == CARTO_FAILED ? write_failure(t, outcome, &text)
                                           : split_write_selected(turn_arena(t), item, &text));
    QP_TRY(pending_put(t, 'p', text));
    return keep_step(work, 200, STEP_SELECTED);
}

static int take_synced(struct turn *t, const struct made *m, struct work *work)
{
    struct carto_item item = m->item;
    struct carto_outcome outcome;
    bool is_known = true;
    QP_TRY(t->code >= 400 ? read_loss(t, &outcome)
                          : external_synced(turn_arena(t), t->payload, &item, &is_known, &outcome));
    QP_TRY(pending_put(t, 's', QP_NONE));
    return is_known ? keep_external(t, &item, &outcome, work)
                    : keep_step(work, CODE_PENDING, STEP_SYNCED);
}

static int take_external(struct turn *t, const struct made *m, struct work *work)
{
    struct carto_item item = m->item;
    struct carto_outcome outcome;
    QP_TRY(t->code >= 400 ? read_loss(t, &outcome)
                          : external_selected(turn_arena(t), t->payload, &item, &outcome));
    return keep_external(t, &item, &outcome, work);
}

static int take_selected(struct turn *t, const struct made *m, struct work *work)
{
    const struct traversals *s = t->program->context;
    struct carto_item item = m->item;
    struct carto_outcome outcome;
    qp_str text = t->payload;
    int rc = t->code >= 400 ? read_loss(t, &outcome)
                            : split_selected(&s->env, turn_arena(t), text, &item, &outcome);
    if (rc == QP_E_CORRUPT) {
        outcome = unreadable();
        rc = QP_OK;
    }
    QP_TRY(rc);
    if (outcome.result == CARTO_FAILED) {
        QP_TRY(write_failure(t, &outcome, &text));
    }
    QP_TRY(pending_put(t, 'p', text));
    return keep_step(work, 200, STEP_SELECTED);
}

/* The item as the pass has found it: selected, and to be expanded. */
static int reopen(struct turn *t, struct made *m)
{
    const struct traversals *s = t->program->context;
    struct carto_outcome outcome;
    const struct data_row *mark = NULL;
    qp_str answer;
    qp_str name;
    QP_TRY(pending_get(t, 'p', &answer));
    QP_TRY(split_selected(&s->env, turn_arena(t), answer, &m->item, &outcome));
    QP_TRY(node_name(turn_arena(t), &m->item.selected, &name));
    QP_TRY(turn_data(t, name, &mark));
    if (mark == NULL) {
        return QP_E_CORRUPT;
    }
    m->item.is_first = mark_begins(mark->value, m->item.path);
    return QP_OK;
}

static int fail_item(struct turn *t, struct made *m, const struct carto_outcome *outcome,
                     struct work *work)
{
    stage_fail(&m->item, outcome, &m->counts);
    return keep_ending(t, m, work);
}

/* RESOLVE of an external type; TRAVERSE follows at once. */
static int take_resolved(struct turn *t, const struct carto_request *r, struct made *m,
                         struct work *work)
{
    struct carto_relations relations;
    struct carto_outcome outcome;
    qp_str text;
    QP_TRY(t->code >= 400 ? read_loss(t, &outcome)
                          : external_relations(turn_arena(t), t->payload, &relations, &outcome));
    if (outcome.result == CARTO_FAILED) {
        return fail_item(t, m, &outcome, work);
    }
    QP_TRY(split_write_relations(turn_arena(t), &relations, &text));
    QP_TRY(pending_put(t, 'r', text)); /* for step 2, should it run alone */
    QP_TRY(stage_traverse(r, turn_arena(t), &m->item, &relations, &m->children, &m->counts));
    return keep_ending(t, m, work);
}

static int take_relations(struct turn *t, struct made *m, struct work *work)
{
    const struct traversals *s = t->program->context;
    struct carto_relations relations;
    struct carto_outcome outcome;
    int rc = t->code >= 400
                 ? read_loss(t, &outcome)
                 : split_relations(&s->env, turn_arena(t), t->payload, &relations, &outcome);
    if (rc == QP_E_CORRUPT) {
        outcome = unreadable();
        rc = QP_OK;
    }
    QP_TRY(rc);
    if (outcome.result == CARTO_FAILED) {
        return fail_item(t, m, &outcome, work);
    }
    QP_TRY(pending_put(t, 'r', t->payload));
    return keep_step(work, CODE_PENDING, STEP_TRAVERSE);
}

static int take_children(struct turn *t, const struct carto_request *r, struct made *m,
                         struct work *work)
{
    struct carto_item before = m->item;
    struct carto_outcome outcome = unreadable();
    QP_TRY(expand_item(t, r, m));
    if (t->code < 400 && split_agrees(t->payload, m->children.count, &m->counts)) {
        return keep_ending(t, m, work);
    }
    if (t->code >= 400) {
        QP_TRY(read_loss(t, &outcome));
    }
    *m = (struct made){.is_split = true, .item = before};
    return fail_item(t, m, &outcome, work);
}

static int answer_work(struct turn *t, const struct carto_request *r, struct made *m,
                       struct work *work)
{
    qp_str asked;
    QP_TRY(pending_get(t, 'f', &asked));
    if (!str_is_none(asked)) {
        return take_fetched(t, r, m, work);
    }
    QP_TRY(pending_get(t, 's', &asked));
    if (!str_is_none(asked)) {
        return take_synced(t, m, work);
    }
    QP_TRY(pending_get(t, 'r', &asked));
    if (str_is_none(asked)) {
        return external_of(r, m->item.target.type) != NULL ? take_external(t, m, work)
                                                           : take_selected(t, m, work);
    }
    QP_TRY(reopen(t, m));
    if (external_of(r, m->item.selected.id.type) != NULL) {
        return take_resolved(t, r, m, work);
    }
    return str_equal(asked, ASKED) ? take_relations(t, m, work) : take_children(t, r, m, work);
}

int item_work(struct turn *t, struct work *work)
{
    const struct carto_plan *plan = NULL;
    struct made *m = ARENA_NEW(turn_arena(t), struct made);
    struct carto_request r;
    if (m == NULL) {
        return QP_E_NOMEM;
    }
    QP_TRY(turn_plan(t, &plan));
    r = request_of(t, plan);
    m->is_split = plan->is_split;
    QP_TRY(read_item(t, &m->item));
    if (str_equal(t->payload, CARTO_PHASE_RUN)) {
        return run_work(t, &r, m, work);
    }
    return str_equal(t->payload, CARTO_PHASE_SELECT) ? select_work(t, &r, m, work)
                                                     : answer_work(t, &r, m, work);
}

/* What step 1 has kept, and the children and counts that follow from it. */
static int make_again(struct turn *t, const struct carto_request *r, struct made *m)
{
    const struct traversals *s = t->program->context;
    enum carto_state state;
    QP_TRY(read_item(t, &m->item));
    QP_TRY(ending_read(&s->env, turn_arena(t), t->guid.output, &m->item));
    state = m->item.state;
    if (state == CARTO_ENDED || state == CARTO_PRUNED || m->item.failure == CARTO_LEVEL_LIMIT) {
        m->item.state = CARTO_OPEN;
        QP_TRY(expand_item(t, r, m));
        return m->item.state == state ? QP_OK : QP_E_CORRUPT;
    }
    m->counts =
        (struct carto_counts){.items = 1,
                              .duplicate = state == CARTO_DUPLICATE,
                              .failed = state == CARTO_FAILED_ITEM,
                              .optional = state == CARTO_FAILED_ITEM && m->item.is_optional};
    return QP_OK;
}

/* A type that is not known, and a root that cannot be selected or resolved, end the request. */
static bool is_fatal(const struct carto_item *item)
{
    return item->state == CARTO_FAILED_ITEM &&
           (item->failure == CARTO_UNKNOWN_TYPE || path_level(item->path) == 0);
}

static int refuse(struct turn *t, const struct carto_item *item)
{
    struct buf text;
    qp_str sentence = QP_NONE;
    bool is_copied;
    buf_init(&text, turn_arena(t)->env, 0);
    buf_text(&text, "item ");
    path_print(&text, item->path);
    buf_printf(&text, " (%.*s:%.*s): ", STR_ARG(item->target.type), STR_ARG(item->target.name));
    buf_str(&text, item->error);
    is_copied = buf_rc(&text) == QP_OK && arena_copy(turn_arena(t), buf_slice(&text), &sentence);
    buf_done(&text);
    return is_copied ? turn_refuse(t, str_from(carto_failure_text(item->failure)), sentence)
                     : QP_E_NOMEM;
}

/* The item as the workers of RESOLVE and TRAVERSE see it. */
static int read_selected(struct turn *t, struct carto_item *item)
{
    const struct traversals *s = t->program->context;
    struct carto_outcome outcome;
    qp_str answer;
    QP_TRY(pending_get(t, 'p', &answer));
    return split_selected(&s->env, turn_arena(t), answer, item, &outcome);
}

static int ask(struct turn *t, const struct carto_plan *plan, enum carto_step step)
{
    const struct carto_external *external;
    struct carto_item item;
    qp_str type;
    qp_str topic;
    QP_TRY(read_item(t, &item));
    QP_TRY(step == CARTO_STEP_SELECT ? QP_OK : read_selected(t, &item));
    type = step == CARTO_STEP_SELECT ? item.target.type : item.selected.id.type;
    external = external_of(&plan->request, type);
    if (external != NULL) {
        return turn_task(t, step == CARTO_STEP_SELECT ? external->select : external->resolve);
    }
    QP_TRY(split_topic(turn_arena(t), step, type, &topic));
    return turn_task(t, topic);
}

static int ask_sync(struct turn *t, const struct carto_plan *plan)
{
    const struct carto_external *external;
    struct carto_item item;
    QP_TRY(read_item(t, &item));
    external = external_of(&plan->request, item.target.type);
    return external == NULL ? QP_E_CORRUPT : turn_task(t, external->select_sync);
}

static int ask_fetch(struct turn *t)
{
    struct carto_item item;
    qp_str topic;
    QP_TRY(read_item(t, &item));
    QP_TRY(fetch_topic(turn_arena(t), item.target.type, &topic));
    return turn_task(t, topic);
}

/* Step 2 of an entry that does not end the item; *out_done false: it does. */
static int pending_spawn(struct turn *t, const struct carto_plan *plan, struct spawn *spawn,
                         bool *out_done)
{
    qp_str said = t->guid.output;
    uint64_t level = path_level(path_of(t->site.addr));
    struct gate_visit select = {.level = level, .purpose = CARTO_PHASE_SELECT, .ways = 1};
    struct gate_visit next = {.level = level + 1, .ways = 2, .delta = 1};
    *out_done = true;
    spawn->pending = true;
    if (str_equal(said, STEP_FETCH)) {
        select.delta = 1;
        QP_TRY(ask_fetch(t));
        return gate_arrive(t, &select);
    }
    if (str_equal(said, STEP_SYNC)) {
        select.delta = 1;
        QP_TRY(ask_sync(t, plan));
        return gate_arrive(t, &select);
    }
    if (str_equal(said, STEP_FETCHED) || str_equal(said, STEP_SYNCED)) {
        return ask(t, plan, CARTO_STEP_SELECT);
    }
    if (str_equal(said, STEP_SELECT) || str_equal(said, STEP_SELECTED)) {
        select.delta = str_equal(said, STEP_SELECT) ? 1 : -1;
        QP_TRY(select.delta > 0 ? ask(t, plan, CARTO_STEP_SELECT) : QP_OK);
        return gate_arrive(t, &select);
    }
    if (str_equal(said, STEP_RESOLVE)) {
        QP_TRY(ask(t, plan, CARTO_STEP_RESOLVE));
        return gate_arrive(t, &next);
    }
    if (str_equal(said, STEP_TRAVERSE)) {
        return ask(t, plan, CARTO_STEP_TRAVERSE);
    }
    spawn->pending = str_equal(said, STEP_WAIT);
    *out_done = spawn->pending;
    return QP_OK;
}

/* The rows of its steps go, and the next gate waits for one less. */
static int forget_steps(struct turn *t)
{
    struct gate_visit next = {
        .level = path_level(path_of(t->site.addr)) + 1, .ways = 2, .delta = -1};
    qp_str asked;
    qp_str selected;
    QP_TRY(pending_get(t, 'r', &asked));
    QP_TRY(pending_get(t, 'p', &selected));
    if (!str_is_none(selected)) {
        QP_TRY(pending_put(t, 'p', QP_NONE));
    }
    if (str_is_none(asked)) {
        return QP_OK;
    }
    QP_TRY(pending_put(t, 'r', QP_NONE));
    return PLANT(lost_way) ? QP_OK : gate_arrive(t, &next);
}

static int made_again(struct turn *t, const struct carto_plan *plan, const struct made **out)
{
    struct made *again = ARENA_NEW(turn_arena(t), struct made);
    struct carto_request r = request_of(t, plan);
    if (again == NULL) {
        return QP_E_NOMEM;
    }
    again->is_split = plan->is_split;
    QP_TRY(make_again(t, &r, again));
    *out = again;
    return QP_OK;
}

int item_spawn(struct turn *t, struct spawn *spawn)
{
    const struct made *m = t->kept;
    const struct carto_plan *plan = NULL;
    bool is_done = false;
    QP_TRY(turn_plan(t, &plan));
    if (plan_selects_apart(plan)) {
        QP_TRY(pending_spawn(t, plan, spawn, &is_done));
    }
    if (is_done) {
        return QP_OK;
    }
    if (m == NULL) {
        QP_TRY(made_again(t, plan, &m));
    }
    if (is_fatal(&m->item)) {
        return refuse(t, &m->item);
    }
    for (size_t i = 0; i < m->children.count; i++) {
        QP_TRY(item_born(t, &m->children.rows[i]));
    }
    if (plan->is_split || plan->is_external) {
        QP_TRY(forget_steps(t));
    }
    return turn_count(t, &m->counts, (int64_t)m->children.count);
}
